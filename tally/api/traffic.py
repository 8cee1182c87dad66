"""Reports about traffic: key figures, time series, top lists, event names, entry and exit pages, realtime.

Each report is a dataclass of parameters and a function that asks the engine and shapes its answer; the table that makes
endpoints of them is tally/api/reports.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tally.api import params
from tally.api.context import Answer, Question, ReadApi
from tally.api.params import Ranged
from tally.events.dimensions import FIELDS
from tally.ingest.realtime import WINDOW_MS
from tally.reports.engine import Page, Side, Stats
from tally.reports.figures import VISIT_FIGURES, changes, rounded
from tally.timeranges import Bucket, Interval, Range, buckets, previous
from tally.timestamps import BadTime, iso

TIMESERIES_COLUMNS = ("time", "visitors", "visits", "pageviews", "events")
TOP_COLUMNS = ("value", "visitors", "pageviews", "events")
EVENT_NAME_COLUMNS = ("value", "visitors", "events")
PAGE_COLUMNS = ("value", "visits", *VISIT_FIGURES)


@dataclass(frozen=True, slots=True)
class StatsParameters(Ranged):
    """Of the key figures; `compare` adds those of the previous range."""

    compare: bool = params.flag("compare", "previous")


@dataclass(frozen=True, slots=True)
class TimeseriesParameters(Ranged):
    """Of a time series."""

    interval: Interval = params.choice("interval", ("day", "hour"), "day")


@dataclass(frozen=True, slots=True)
class ListParameters(Ranged):
    """Of a list."""

    limit: int = params.limit(10)


@dataclass(frozen=True, slots=True)
class TopParameters(ListParameters):
    """Of a list of a field's values."""

    field: str = params.path_part("field", FIELDS)


@dataclass(frozen=True, slots=True)
class RealtimeParameters:
    """Of the present: none but the moment of the request."""

    now_ms: int = params.parameter(lambda sent: sent.now_ms)


async def stats(api: ReadApi, asked: Question[StatsParameters]) -> Answer:
    """Return the seven key figures, and their change against the previous range if asked for."""
    span, compare = asked.parameters.range, asked.parameters.compare
    meta, scopes = asked.meta() | {"compare": "previous" if compare else None}, [asked.scope]
    if compare:
        from_ms, to_ms = previous(span)
        scopes.append(asked.scope._replace(from_ms=from_ms, to_ms=to_ms))
        meta |= {"previous_from": iso(from_ms, span.tz), "previous_to": iso(to_ms, span.tz)}
    now, *before = await api.reports.stats(scopes, asked.requester)
    data: dict[str, Any] = dict(rounded(now))
    if before:
        data |= {"previous": rounded(before[0]), "change": changes(now, before[0])}
    return Answer(meta, data=data)


async def timeseries(api: ReadApi, asked: Question[TimeseriesParameters]) -> Answer:
    """Return figures by local day or hour."""
    interval = asked.parameters.interval
    series = buckets_of(asked.parameters.range, interval)
    spans = [(bucket.from_ms, bucket.to_ms) for bucket in series]
    counted = await api.reports.timeseries(asked.scope, spans, asked.requester)
    # Names written out take a quarter of the time of a generic conversion; a year has 8,760 hours.
    data = [
        {"time": bucket.time, "visitors": visitors, "visits": visits, "pageviews": views, "events": events}
        for bucket, (visitors, visits, views, events) in zip(series, counted, strict=True)
    ]
    rows = (tuple(row.values()) for row in data)
    return Answer(asked.meta() | {"interval": interval}, rows, data)


def buckets_of(span: Range, interval: Interval, field: str = "") -> list[Bucket]:
    """Return the buckets of a range. Raises ApiError 400 for `field` where they are too many."""
    try:
        return buckets(span, interval)
    except BadTime as bad:
        raise params.invalid(field or bad.field, f"{bad}.") from None


async def top(api: ReadApi, asked: Question[TopParameters]) -> Answer:
    """Return the values of a field with the most visitors."""
    field, limit = asked.parameters.field, asked.parameters.limit
    found = await api.reports.top(asked.scope, field, limit, asked.requester)
    unset = dict(zip(TOP_COLUMNS[1:], found.unset, strict=True))
    return Answer(asked.meta() | {"field": field, "limit": limit, "unset": unset}, found.rows)


async def event_names(api: ReadApi, asked: Question[ListParameters]) -> Answer:
    """Return the names of custom events with the most visitors."""
    limit = asked.parameters.limit
    rows = await api.reports.event_names(asked.scope, limit, asked.requester)
    return Answer(asked.meta() | {"limit": limit}, rows)


async def entry_pages(api: ReadApi, asked: Question[ListParameters]) -> Answer:
    """Return the pages with which most visits begin."""
    return await _visit_pages(api, asked, "entry")


async def exit_pages(api: ReadApi, asked: Question[ListParameters]) -> Answer:
    """Return the pages with which most visits end."""
    return await _visit_pages(api, asked, "exit")


async def _visit_pages(api: ReadApi, asked: Question[ListParameters], side: Side) -> Answer:
    limit = asked.parameters.limit
    unset, found = await api.reports.visit_pages(asked.scope, side, limit, asked.requester)
    meta = asked.meta() | {"limit": limit, "unset": {"visits": unset}}
    return Answer(meta, [_page(one) for one in found])


def _page(of: Page) -> Sequence[Any]:
    figures = rounded(Stats(visits=of.visits, bounces=of.bounces, visit_views=of.views, visit_ms=of.ms))
    return of.value, of.visits, *(figures[name] for name in VISIT_FIGURES)


async def realtime(api: ReadApi, asked: Question[RealtimeParameters]) -> Answer:
    """Return the visitors of the last minutes and the pages that they are on."""
    now_ms = asked.parameters.now_ms
    found = await api.reports.realtime(asked.website.number, now_ms, asked.requester)
    data = {
        "active_visitors": found.active_visitors,
        "pages": [{"pathname": path, "visitors": visitors} for path, visitors in found.pages],
        "window_seconds": WINDOW_MS // 1000,
    }
    return Answer({"website_id": asked.website.id, "time": iso(now_ms)}, data=data)
