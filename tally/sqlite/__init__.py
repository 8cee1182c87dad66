"""SQLite as an analytics engine: it stores events in the server's own database file and answers reports from it.

`SqliteEngine` (tally/sqlite/engine.py) implements the protocols of `tally/engine`.
"""
