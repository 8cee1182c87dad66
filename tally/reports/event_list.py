"""The list of events, newest first: from rows, and from the columns of days that have only these.

The rows are read first. Where they do not fill the page, or such a day lies between them, the newest matching events
of those days are chosen in columns and shown to the same statement (tally/columns/deleted_rows.py). Days on which no
event matches are skipped.
"""

import sqlite3
from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from tally.columns import deleted_rows, measurement_days
from tally.columns.statements import TRAFFIC
from tally.engine.values import Place, Scope, Span, StoredEvent
from tally.events.dimensions import FIELDS
from tally.events.validation import TYPE_NAMES
from tally.reports.cache import ResultCache
from tally.reports.coverage import Coverage, conditions_of, coverage_of, plan_of
from tally.rollups.web_vitals import from_stored
from tally.storage.sql import events as sql
from tally.storage.sql.filters import Condition
from tally.timestamps import DAY_MS

if TYPE_CHECKING:
    from tally.columns.format import Array


def page(
    connection: sqlite3.Connection, scope: Scope, place: Place, limit: int, cache: ResultCache, *, only_traffic: bool
) -> list[tuple[Any, ...]]:
    """Return the rows of sql.events; `connection` must be in a read transaction."""
    statement = sql.events(scope, place, limit, only_traffic=only_traffic)
    rows = connection.execute(*statement).fetchall()
    from_ms = rows[-1][2] if len(rows) == limit else scope.from_ms
    wanted = scope._replace(from_ms=from_ms, to_ms=min(scope.to_ms, place.ts + 1))
    first, last = from_ms // DAY_MS, (wanted.to_ms - 1) // DAY_MS
    sources = (TRAFFIC,) if only_traffic else deleted_rows.ALL
    packed = deleted_rows.parts_without_rows(connection, scope.website, first, last, sources)
    if not packed or wanted.from_ms >= wanted.to_ms:
        return rows
    return (
        connection.execute(*statement).fetchall()
        if _show(coverage_of(connection, wanted, cache), packed, place, limit)
        else rows
    )


def stored_event(row: Sequence[Any]) -> StoredEvent:
    """Return an event from a row of `page`, with its time in UTC. Texts may be None."""
    id, type_, ts, *rest = row
    end = len(FIELDS)
    name, data, visitor, visit, experiment, variant, goal, value, *metrics = rest[end:]
    return StoredEvent(
        id,
        TYPE_NAMES[type_],
        ts,
        tuple(text or "" for text in rest[:end]),
        name or "",
        data,
        None if visit is None else f"{visitor:x}-{visit}",
        from_stored(metrics),
        experiment or "",
        variant or "",
        goal or "",
        value,
    )


def _show(coverage: Coverage, packed: list[tuple[int, int]], place: Place, limit: int) -> bool:
    """Show the newest matching events before a place, of stored days (day, source); return whether there are any."""
    plan, conditions = plan_of(coverage), conditions_of(coverage.connection, coverage.filters)
    shown = 0
    for day, sources in groupby(reversed(packed), key=itemgetter(0)):
        # The newest events of a day may be of any source.
        most = limit - shown
        if most <= 0:
            break
        span = max(day * DAY_MS, coverage.scope.from_ms), min((day + 1) * DAY_MS, coverage.scope.to_ms)
        for _, source in sources:
            is_counted = any(begin_ms < span[1] and end_ms > span[0] for begin_ms, end_ms in (*plan.raw, *plan.rolled))
            if source == TRAFFIC and not is_counted:
                continue
            which = matching(coverage, conditions, source, span, place, most)
            if which is None:
                deleted_rows.show(coverage.connection, coverage.website, [day], [source])
                shown += 1
            elif len(which):
                deleted_rows.show_events(coverage.connection, coverage.website, source, day, which)
                shown += len(which)
    return shown > 0


def matching(
    coverage: Coverage, conditions: Sequence[Condition], source: int, span: Span, place: Place, most: int
) -> "Array | None":
    """Return the places of the newest matching events of a stored day, or a part of one; None for columns of an earlier
    layout."""
    if source == TRAFFIC:
        return _traffic(coverage, span, place, most)
    return _measurements(coverage, conditions, source, span, place, most)


def _traffic(coverage: Coverage, span: Span, place: Place, most: int) -> "Array | None":
    """Return the places of the newest matching events of a day, or a part of one; None for columns of an earlier
    layout."""
    (columns,) = coverage.columns([span], filtered=True)
    return columns.newest(most, place) if columns.is_stored else None


def _measurements(
    coverage: Coverage, conditions: Sequence[Condition], source: int, span: Span, place: Place, most: int
) -> "Array":
    """The same of web vitals or experiment events."""
    from tally.reports.measurement_columns import MeasurementFigures

    scope, day = coverage.scope._replace(from_ms=span[0], to_ms=span[1]), span[0] // DAY_MS
    days = measurement_days.days(coverage.connection, coverage.website, source, day, day)
    return MeasurementFigures(coverage.connection, scope, source, days, conditions, coverage.cache).newest(most, place)
