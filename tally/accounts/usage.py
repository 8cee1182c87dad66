"""Monthly usage of accounts: accepted events by UTC calendar month of arrival.

Months are written as numbers: 202611 is November 2026. The writer adds to table account_usage in the transaction that
stores events (tally/sqlite/decision.py).
"""

import sqlite3
from datetime import UTC, datetime
from functools import lru_cache

# Percentages of the monthly limit at which owners are warned (docs/reference/limits.md).
USAGE_WARNINGS = (80, 100)


def usage_of_month(connection: sqlite3.Connection, month: int) -> dict[tuple[int, int], int]:
    """Return the accepted events of a month by (account number, month)."""
    rows = connection.execute(
        "/* usage.of_month */ select account, events from account cross join account_usage"
        " on account_usage.account = account.number and month = ?",
        (month,),
    )
    return {(account, month): events for account, events in rows}


def month_of(ms: int) -> int:
    """Return the UTC calendar month of a time in milliseconds."""
    return _month_of_day(ms // 86_400_000)


@lru_cache(maxsize=8)  # called twice for each event, nearly always with today
def _month_of_day(day: int) -> int:
    date = datetime.fromtimestamp(day * 86_400, UTC)
    return date.year * 100 + date.month


def month_ends_in_s(ms: int) -> int:
    """Return the whole seconds, at least 1, until the next UTC month begins."""
    now = datetime.fromtimestamp(ms / 1000, UTC)
    year, month = (now.year + 1, 1) if now.month == 12 else (now.year, now.month + 1)
    return max(1, -(-(int(datetime(year, month, 1, tzinfo=UTC).timestamp()) * 1000 - ms) // 1000))
