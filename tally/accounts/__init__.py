"""Accounts, websites, API keys, sign-in sessions and passwords: what an owner sets up.

May import the vocabulary (tally/*.py) alone. Plain SQL on a `sqlite3` connection; no HTTP, no statistics.
"""
