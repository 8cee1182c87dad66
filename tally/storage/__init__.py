"""SQLite as an engine: the database file, connections and their threads, labels, bulk inserts, health, recovery.

May import `events`, `accounts` and the vocabulary. Statements for reading events are in `storage/sql/`.
"""
