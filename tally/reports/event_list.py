"""The list of events, newest first: from rows, and from the columns of days that have only these.

The rows are read first. Where they do not fill the page, or such a day lies between them, the newest matching events
of those days are chosen in columns and shown to the same statement (tally/rollups/unpacked_days.py). Days on which no
event matches are skipped.
"""

import sqlite3
from typing import Any

from tally.reports.cache import ResultCache
from tally.reports.coverage import Coverage, coverage_of, plan_of
from tally.rollups import unpacked_days
from tally.storage.sql import events as sql
from tally.storage.sql.events import Place, Scope
from tally.timestamps import DAY_MS


def page(
    connection: sqlite3.Connection, scope: Scope, place: Place, limit: int, cache: ResultCache, *, only_traffic: bool
) -> list[tuple[Any, ...]]:
    """Return the rows of sql.events; `connection` must be in a read transaction."""
    statement = sql.events(scope, place, limit, only_traffic=only_traffic)
    rows = connection.execute(*statement).fetchall()
    from_ms = rows[-1][2] if len(rows) == limit else scope.from_ms
    wanted = scope._replace(from_ms=from_ms, to_ms=min(scope.to_ms, place.ts + 1))
    days = unpacked_days.without_rows(connection, scope.website, from_ms // DAY_MS, (wanted.to_ms - 1) // DAY_MS)
    if not days or wanted.from_ms >= wanted.to_ms:
        return rows
    return (
        connection.execute(*statement).fetchall()
        if _show(coverage_of(connection, wanted, cache), days, place, limit)
        else rows
    )


def _show(coverage: Coverage, days: list[int], place: Place, limit: int) -> bool:
    """Show the newest matching events before a place; return whether there are any."""
    plan = plan_of(coverage)
    shown = 0
    for day in reversed(days):
        begin_ms, end_ms = max(day * DAY_MS, coverage.scope.from_ms), min((day + 1) * DAY_MS, coverage.scope.to_ms)
        if not any(span[0] < end_ms and span[1] > begin_ms for span in (*plan.raw, *plan.rolled)):
            continue
        packed, _ = coverage.packed([(begin_ms, end_ms)], filtered=True)
        if packed:
            which = packed[0].newest(limit - shown, place)
            unpacked_days.show_events(coverage.connection, coverage.website, day, which)
            shown += len(which)
        else:
            # Columns of an earlier layout.
            unpacked_days.show(coverage.connection, coverage.website, [day])
            shown += 1
        if shown >= limit:
            break
    return shown > 0
