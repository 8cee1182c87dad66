"""The answers to questions about one website: one snapshot, figures in, JSON or CSV out; the same for whoever may ask.

Who may ask is not decided here, but in tally/api/endpoints.py.

Figures come out of SQL as exact integers. What is a ratio is a Fraction until it is written, rounded half away from
zero.
"""

import base64
import secrets
import sqlite3
import struct
from fractions import Fraction
from hashlib import blake2b
from typing import Any, TypeVar

import orjson
from aiohttp import web

from tally import errors
from tally.accounts.websites import Website
from tally.api.context import Answer, Reader, View, scope_of
from tally.api.params import Question
from tally.base_path import public_url
from tally.errors import ApiError
from tally.events.dimensions import FIELDS
from tally.events.validation import TYPE_NAMES
from tally.http.formats import round_half_away, table_response
from tally.http.responses import json_response
from tally.ingest import rejected_events as left_out
from tally.ingest.realtime import WINDOW_MS, Present, look, most_visited
from tally.ingest.writer import ids_end
from tally.reports import stats as figures
from tally.reports import top as toplists
from tally.reports import visit_pages as visit_figures
from tally.reports.coverage import check_retention
from tally.reports.stats import Stats
from tally.rollups.vitals_histogram import from_stored
from tally.storage import value_limits
from tally.storage.sql import events as queries
from tally.storage.sql.events import Place
from tally.timeranges import buckets, previous
from tally.timestamps import DAY_MS, BadTime, iso

# our choice: 1,000 usual events are a quarter of it; a page of the longest paths would be 33 MB for each who asks.
MOST_PAGE_CHARACTERS = 2_000_000
AB_COLUMNS = ("experiment", "variant", "goal", "value")
_CURSOR = struct.Struct(">16sqqqqq")
_FIRST = 1 << 62

T = TypeVar("T")


async def _stats(reader: Reader, view: View, asked: Question, _: str) -> web.Response:
    website = view.website
    scope = scope_of(website, asked)
    meta = asked.meta(website.id) | {"compare": "previous" if asked.compare else None}
    scopes = [scope]
    if asked.compare:
        from_ms, to_ms = previous(asked.range)
        scopes.append(scope._replace(from_ms=from_ms, to_ms=to_ms))
        meta |= {"previous_from": iso(from_ms, asked.range.tz), "previous_to": iso(to_ms, asked.range.tz)}
    found = await reader.find(
        asked, lambda connection: [_figures(figures.stats(connection, one, reader.remembered)) for one in scopes]
    )
    now = found[0]
    data = _rounded(now)
    if asked.compare:
        before = found[1]
        data |= {"previous": _rounded(before), "change": {name: _change(now[name], before[name]) for name in now}}
    return json_response({"data": data, "meta": meta})


def _figures(found: figures.Stats) -> dict[str, Fraction | None]:
    """The seven key figures, unrounded; durations in seconds."""
    visits = found.visits
    return {
        "visitors": Fraction(found.visitors),
        "visits": Fraction(visits),
        "pageviews": Fraction(found.pageviews),
        "events": Fraction(found.events),
        "bounce_rate": Fraction(100 * found.bounces, visits) if visits else None,
        "views_per_visit": Fraction(found.visit_views, visits) if visits else None,
        "visit_duration": Fraction(found.visit_ms, 1000 * visits) if visits else None,
    }


_OF_VISITS = ("bounce_rate", "views_per_visit", "visit_duration")
_DECIMALS = {"bounce_rate": 1, "views_per_visit": 2}


def _rounded(figures: dict[str, Fraction | None]) -> dict[str, Any]:
    return {name: round_half_away(figure, _DECIMALS.get(name, 0)) for name, figure in figures.items()}


def _change(now: Fraction | None, before: Fraction | None) -> float | None:
    if now is None or not before:
        return None
    return round_half_away((now - before) / before * 100, 1)


async def _timeseries(reader: Reader, view: View, asked: Question, _: str) -> web.Response:
    website = view.website
    try:
        series = buckets(asked.range, asked.interval)
    except BadTime as bad:
        raise ApiError(errors.INVALID_PARAMETER, str(bad), field=bad.field) from None
    scope = scope_of(website, asked)
    edges = [(bucket.from_ms, bucket.to_ms) for bucket in series]
    counted = await reader.find(asked, lambda connection: figures.series(connection, scope, edges, reader.remembered))
    meta = asked.meta(website.id) | {"interval": asked.interval}
    if asked.csv:
        rows = [(bucket.time, *counts) for bucket, counts in zip(series, counted, strict=True)]
        return table_response(("time", "visitors", "visits", "pageviews", "events"), rows, meta, as_csv=True)
    # Names written out: a year's hours take a quarter of the time that table_response would.
    data = [
        {"time": bucket.time, "visitors": visitors, "visits": visits, "pageviews": views, "events": customs}
        for bucket, (visitors, visits, views, customs) in zip(series, counted, strict=True)
    ]
    return json_response({"data": data, "meta": meta})


async def _top(reader: Reader, view: View, asked: Question, field: str) -> web.Response:
    website, scope = view.website, scope_of(view.website, asked)
    found = await reader.find(asked, lambda run: toplists.top(run, scope, field, asked.limit, reader.remembered))
    names = ("visitors", "pageviews", "events")
    meta = asked.meta(website.id) | {
        "field": field,
        "limit": asked.limit,
        "unset": dict(zip(names, found.unset, strict=True)),
    }
    return table_response(("value", *names), found.rows, meta, asked.csv)


async def _event_names(reader: Reader, view: View, asked: Question, _: str) -> web.Response:
    scope = scope_of(view.website, asked)
    rows = await reader.find(asked, lambda run: toplists.names(run, scope, asked.limit, reader.remembered))
    meta = asked.meta(view.website.id) | {"limit": asked.limit}
    return table_response(("value", "visitors", "events"), rows, meta, asked.csv)


async def _visit_pages(reader: Reader, view: View, asked: Question, _: str) -> web.Response:
    scope, side = scope_of(view.website, asked), asked.endpoint.removesuffix("-pages")
    unset, found = await reader.find(
        asked, lambda run: visit_figures.pages(run, scope, side, asked.limit, reader.remembered)
    )
    meta = asked.meta(view.website.id) | {"limit": asked.limit, "unset": {"visits": unset}}
    return table_response(("value", "visits", *_OF_VISITS), [_page(one) for one in found], meta, asked.csv)


def _page(of: visit_figures.Page) -> tuple[Any, ...]:
    figures = _rounded(_figures(Stats(visits=of.visits, bounces=of.bounces, visit_views=of.views, visit_ms=of.ms)))
    return of.value, of.visits, *(figures[name] for name in _OF_VISITS)


# What a share link shows of an event: its traffic. A list of what is shown, so that a column added later is not. Event
# names are shown, as in the list of them; event_data is not, since it may hold prices and anything else;
# nor the visit, which would tell whose events belong together.
SHARED_EVENT_COLUMNS = ("id", "type", "timestamp", *FIELDS, "event_name")
EVENT_COLUMNS = ("id", "type", "timestamp", *FIELDS, "event_name", "event_data", "visit", "vitals", *AB_COLUMNS)


async def _events(reader: Reader, view: View, asked: Question, _: str) -> web.Response:
    website = view.website
    scope = scope_of(website, asked)
    # Everything with an id up to the last one is committed: later pages show nothing that comes after this one.
    start = Place(_FIRST, _FIRST, reader.store.last_id)
    if asked.cursor:
        from_ms, to_ms, start = _from_cursor(reader, website, asked)
        scope = scope._replace(from_ms=from_ms, to_ms=to_ms)

    def page(connection: sqlite3.Connection) -> tuple[int, list[tuple[Any, ...]]]:
        check_retention(connection, scope)
        statement = queries.events(scope, start, asked.limit + 1, only_traffic=view.is_shared)
        return ids_end(connection), connection.execute(*statement).fetchall()

    given_out, found = await reader.find(asked, page)
    if not asked.cursor and await reader.store.catch_up(given_out):
        # Another process has imported events: they are shown at once.
        start = start._replace(last_id=reader.store.last_id)
        found = (await reader.find(asked, page))[1]
    shown = _fitting(found, asked.limit)
    columns = SHARED_EVENT_COLUMNS if view.is_shared else EVENT_COLUMNS
    rows = [_event_row(row, asked) for row in found[:shown]]
    if view.is_shared:
        places = [EVENT_COLUMNS.index(column) for column in columns]
        rows = [tuple(row[place] for place in places) for row in rows]
    following = ""
    if len(found) > shown:
        id, _, ts = found[shown - 1][:3]
        following = _cursor(reader, website, asked, (scope.from_ms, scope.to_ms, ts, id, start.last_id))
    meta = asked.meta(website.id) | {"limit": asked.limit, "next_cursor": following or None}
    meta |= {"from": iso(scope.from_ms, asked.range.tz), "to": iso(scope.to_ms, asked.range.tz)}
    response = table_response(columns, rows, meta, asked.csv)
    if asked.csv and following:
        root = public_url(reader.base_url, asked.prefix) or asked.prefix
        response.headers["Link"] = f'<{root}{asked.url.update_query(cursor=following)}>; rel="next"'
    return response


def _fitting(rows: list[tuple[Any, ...]], limit: int) -> int:
    """How many rows make a page: `limit`, or fewer where their texts are long; at least one."""
    characters = 0
    for number, row in enumerate(rows[:limit]):
        characters += sum(len(value) for value in row if isinstance(value, str))
        if characters > MOST_PAGE_CHARACTERS and number:
            return number
    return min(limit, len(rows))


def _event_row(row: tuple[Any, ...], asked: Question) -> tuple[Any, ...]:
    """The values of EVENT_COLUMNS."""
    id, type_, ts, *rest = row
    dimensions, (name, data, visitor, visit) = rest[: len(FIELDS)], rest[len(FIELDS) : len(FIELDS) + 4]
    experiment, variant, goal, value, *metrics = rest[len(FIELDS) + 4 :]
    vitals = from_stored(metrics)
    return (
        id,
        TYPE_NAMES[type_],
        iso(ts, asked.range.tz),
        *(text or None for text in dimensions),
        name or None,
        None if data is None else orjson.Fragment(data),
        None if visit is None else f"{visitor:x}-{visit}",
        orjson.Fragment(orjson.dumps(vitals)) if vitals else None,
        experiment or None,
        variant or None,
        goal or None,
        value,
    )


def _cursor(reader: Reader, website: Website, asked: Question, numbers: tuple[int, ...]) -> str:
    seal = blake2b(repr((website.id, asked.raw, numbers)).encode(), digest_size=16, key=reader.store.key_salt).digest()
    return base64.urlsafe_b64encode(_CURSOR.pack(seal, *numbers)).decode().rstrip("=")


def _from_cursor(reader: Reader, website: Website, asked: Question) -> tuple[int, int, Place]:
    """Range and place out of a cursor; it must be ours and of the same question. Raises ApiError 400."""
    text = asked.cursor
    try:
        _, *numbers = _CURSOR.unpack(base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True))
    except (ValueError, struct.error):
        numbers = []
    if not numbers or not secrets.compare_digest(
        _cursor(reader, website, asked, tuple(numbers)).encode(), text.encode()
    ):
        message = "cursor is meta.next_cursor of the page before, with the same website, from, to, tz and filters."
        raise ApiError(errors.INVALID_PARAMETER, message, field="cursor")
    from_ms, to_ms, *place = numbers
    return from_ms, to_ms, Place(*place)


async def _realtime(reader: Reader, view: View, asked: Question, _: str) -> web.Response:
    website = view.website
    live, now_ms = reader.store.live, asked.now_ms
    present = live.present(website.number, now_ms) or await _present(reader, website.number, asked)
    texts = live.texts(present)
    missing = [page for page, _ in present.pages if page not in texts]
    if missing:
        found = await reader.find(asked, lambda connection: connection.execute(*queries.texts(missing)).fetchall())
        live.learn(found)
        texts.update(found)
    data = {
        "active_visitors": present.active,
        "pages": [{"pathname": path, "visitors": visitors} for path, visitors in most_visited(present, texts)],
        "window_seconds": WINDOW_MS // 1000,
    }
    return json_response({"data": data, "meta": {"website_id": website.id, "time": iso(now_ms)}})


async def _present(reader: Reader, website: int, asked: Question) -> Present:
    """Who is here, from the file; kept for the next question where it can be."""
    live, seen = reader.store.live, None
    watch = live.begin(website, asked.now_ms)
    try:
        seen = await reader.find(asked, lambda connection: look(connection, website, asked.now_ms, watch is not None))
    finally:
        if watch is not None:
            live.fill(website, watch, seen)
    return seen.present


async def _left_out(reader: Reader, view: View, asked: Question, _: str) -> web.Response:
    number, span = view.website.number, asked.range
    try:
        series = buckets(span, "day")
    except BadTime as bad:
        raise ApiError(errors.INVALID_PARAMETER, str(bad), field="from") from None
    edges = [(day.from_ms, day.to_ms) for day in series]
    days, samples, folded = await reader.find(
        asked,
        lambda run: (
            left_out.days(run, number, edges),
            left_out.samples(run, number, span.from_ms, span.to_ms),
            value_limits.folded(run, number, span.from_ms // DAY_MS, -(-span.to_ms // DAY_MS)),
        ),
    )
    meta = asked.meta(view.website.id)
    del meta["filters"]
    told = left_out.told([day.time for day in series], days, samples, span.tz)
    if asked.csv:
        return table_response(left_out.COLUMNS, left_out.rows(told), meta, as_csv=True)
    told["folded"] = [value_limits.folded_row(*row) for row in folded]
    return json_response({"data": told, "meta": meta})


ANSWERS: dict[str, Answer] = {
    "stats": _stats,
    "timeseries": _timeseries,
    "top": _top,
    "event-names": _event_names,
    "entry-pages": _visit_pages,
    "exit-pages": _visit_pages,
    "events": _events,
    "realtime": _realtime,
    "rejected": _left_out,
}
