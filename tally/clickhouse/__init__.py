"""Reports from ClickHouse: events that SQLite has decided to store are kept there, and every figure is counted there.

Internal: imported by tally/cluster alone.
"""
