"""Following the database with ClickHouse: the outbox, what ships it, and reports from whichever engine is up to date.

Imported only where a cluster is configured, and by the `cluster` commands.
"""
