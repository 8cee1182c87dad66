"""The seam between the application and an analytics engine: protocols, and the values that pass through them.

`tally/ingest`, `tally/api` and `tally/web` use these alone. SQLite implements them (tally/sqlite/engine.py).
"""
