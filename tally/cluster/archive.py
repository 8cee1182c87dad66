"""What ClickHouse has of a website's copy, read back: events as an export has them, and as lines that an import stores.

A day is read in pages, in order of time and id, so that memory is bounded; what is settled, and what has arrived since,
is determined anew for each day, since the settler goes on meanwhile. Numbers of events and visitors are those of the
file that has shipped them.
"""

from collections.abc import AsyncIterator
from typing import Any

from tally.clickhouse import listing
from tally.clickhouse.client import Client
from tally.clickhouse.settle import settled_days
from tally.clickhouse.visits import Traffic
from tally.engine.archive import Line, Row
from tally.engine.values import Scope
from tally.events.channels import DIRECT
from tally.events.dimensions import ACQUISITION, FIELDS
from tally.events.validation import LEAVE, MEASURES, TRAFFIC, TYPE_NAMES, VITALS
from tally.rollups.web_vitals import from_stored
from tally.timestamps import DAY_MS

# A page is some 10 MB.
_ROWS = 10_000
# Above every day of the tables, and every id.
ALL_DAYS, ALL_IDS = range(1 << 16), 1 << 62
_VITALS = (VITALS, LEAVE)
_NO_SOURCE = dict.fromkeys(ACQUISITION, "") | {"channel": DIRECT}


async def stored(
    client: Client, copy: int, days: range = ALL_DAYS, last_id: int = ALL_IDS
) -> AsyncIterator[list[list[Any]]]:
    """Yield the events of a copy on some days, up to an id, in order of time and id: rows of `listing.following`.

    Raises ApiError where ClickHouse does not answer.
    """
    for (day,) in await client.rows(listing.days(copy, days), {}):
        settled = await settled_days(client, copy, last_id)
        traffic = Traffic(Scope(copy, day * DAY_MS, (day + 1) * DAY_MS), last_id, settled)
        place = (-1, -1)
        while rows := await client.rows(listing.following(traffic, *place, _ROWS), {}):
            yield rows
            place = (rows[-1][2], rows[-1][0])


async def exported(
    client: Client, copy: int, offset_ms: int, days: range = ALL_DAYS, last_id: int = ALL_IDS
) -> AsyncIterator[list[Row]]:
    """Yield the same as rows of COLUMNS, as `Archive.rows` does: with times that have offset_ms less."""
    async for rows in stored(client, copy, days, last_id):
        yield [_exported(row, offset_ms) for row in rows]


async def lines(client: Client, copy: int, days: range = ALL_DAYS, last_id: int = ALL_IDS) -> AsyncIterator[list[Line]]:
    """Yield the same as checked lines of an import, in website time. `row` has the number of the event."""
    async for rows in stored(client, copy, days, last_id):
        yield [_line(row) for row in rows]


def _exported(row: list[Any], offset_ms: int) -> Row:
    id, type_, ts, *rest = row
    end = len(FIELDS)
    texts = [text or None for text in rest[: end + 1]]
    data, visitor, visit, *named, value = rest[end + 1 : end + 8]
    is_measured = type_ in _VITALS
    who = f"{visitor:x}" if visitor and not is_measured else None
    is_traffic = type_ in TRAFFIC
    return [
        id,
        TYPE_NAMES[type_],
        ts - offset_ms,
        *texts,
        data or None,
        f"{who}-{visit}" if is_traffic else None,
        (from_stored(rest[end + 8 : -1]) or None) if is_measured else None,
        *(text or None for text in named),
        None if is_traffic or value is None else float(value),
        who,
    ]


def _line(row: list[Any]) -> Line:
    id, type_, ts, *rest = row
    end = len(FIELDS)
    texts, sends = rest[:end], rest[-1]
    data, visitor, _, *named, value = rest[end + 1 : end + 8]
    own: tuple[Any, ...]
    if type_ in TRAFFIC:
        if not sends:
            texts = [_NO_SOURCE.get(field, text) for field, text in zip(FIELDS, texts, strict=True)]
        texts, own = [*texts, rest[end]], (data or None,)
    elif type_ in _VITALS:
        measured = from_stored(rest[end + 8 : -1])
        own = tuple(map(measured.get, MEASURES))
    else:
        texts, own = [*texts, *named], (value,)
    is_named = type_ not in _VITALS
    return Line(id, ts, type_, None, (id, visitor), visitor if is_named else 0, is_named, tuple(texts), own)
