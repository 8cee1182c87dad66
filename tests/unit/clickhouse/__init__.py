"""Unit tests of tally/clickhouse, which need no ClickHouse; tests/cluster has those with its engine."""
