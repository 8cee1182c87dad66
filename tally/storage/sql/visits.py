"""SQL for entry and exit pages: the pathname of the first and the last pageview of each visit.

As in tally/storage/sql/events.py, whose Scope and filters these are. Nothing about it is stored with a visit: what its
first view is follows from the events themselves, in order of (timestamp, id), however late they came. A visit has its
begin and its end, so one look into the clustered key finds the view, mostly at the first event it meets.
"""

from tally.storage.sql.events import IS_PAGEVIEW, Query, Scope, filters_of

SIDES = ("entry", "exit")
_ORDER = {"entry": "ts, event.id", "exit": "ts desc, event.id desc"}


def _visits(scope: Scope, select: str) -> Query:
    """Return `select` over the visits that start in a scope and, with filters, have an event in E."""
    span = [scope.website, scope.from_ms, scope.to_ms]
    sql = f"select {select} from visit as own where website = ? and start_ms >= ? and start_ms < ?"
    if not scope.filters:
        return sql, span
    filters, values = filters_of(scope, {})
    return (
        "with met as materialized (select distinct visitor, visit from event"
        f" where website = ? and ts >= ? and ts < ?{filters})"
        f" {sql} and (visitor, visit) in (select visitor, visit from met)",
        [*span, *values, *span],
    )


def pages(scope: Scope, side: str) -> Query:
    """A row (label, visits, bounces, their views, their ms) for each page that is a side of these visits.

    0 is none: visits without a view. 1.1 µs a visit, where it has no views far from its ends.
    """
    page = (
        "iif(pageviews, coalesce((select pathname from event where event.website = own.website and ts >= own.start_ms"
        " and ts <= own.start_ms + own.duration_ms and event.visitor = own.visitor and event.visit = own.visit"
        f" and {IS_PAGEVIEW}"
        f" order by {_ORDER[side]} limit 1), 0), 0)"
    )
    sql, parameters = _visits(
        scope, f"{page}, count(*), sum(pageviews = 1 and events = 0), sum(pageviews), sum(duration_ms)"
    )
    return f"/* visits.pages */ {sql} group by 1", parameters


def mixed_ms(scope: Scope) -> Query:
    """One number: the total duration of the visits that have both pageviews and events."""
    return (
        "/* visits.mixed_ms */ select coalesce(sum(duration_ms), 0) from visit"
        " where website = ? and start_ms >= ? and start_ms < ? and pageviews and events",
        [scope.website, scope.from_ms, scope.to_ms],
    )


def visits(scope: Scope) -> Query:
    """(visitor, visit, is a bounce, pageviews, duration in ms) of each of these visits."""
    sql, parameters = _visits(scope, "visitor, visit, pageviews = 1 and events = 0, pageviews, duration_ms")
    return f"/* visits.visits */ {sql}", parameters


def views(website: int, from_ms: int, to_ms: int, side: str) -> Query:
    """(visitor, visit, label of the pathname) of each view of a time, those first that a side looks for."""
    return (
        "/* visits.views */ select visitor, visit, pathname from event where website = ? and ts >= ? and ts < ?"
        f" and {IS_PAGEVIEW} order by {_ORDER[side]}",
        [website, from_ms, to_ms],
    )
