"""Reports from ClickHouse: events that SQLite has decided to store are kept there, and every figure is counted there.

Internal: only tests use it, no command starts it yet. Nothing else imports this package.
"""
