"""The reports of ClickHouse against those of SQLite, with ClickHouse's engine in a process of its own."""
