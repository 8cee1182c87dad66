"""What ClickHouse has of a website's copy, read back: events as an export has them, and as lines that an import stores.

A day is read in pages, in order of time and id, so that memory is bounded; what is settled, and what has arrived since,
is determined anew for each day, since the settler goes on meanwhile. Numbers of events and visitors are those of the
file that has shipped them.
"""

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing
from hashlib import blake2b
from pathlib import Path
from typing import Any

import orjson

from tally.accounts.websites import day_offset_ms
from tally.clickhouse import listing
from tally.clickhouse.client import Client
from tally.clickhouse.settle import traffic_days
from tally.clickhouse.visits import NO_SOURCE, Traffic
from tally.cluster.servers import Servers, opened
from tally.engine.archive import COLUMNS, CrawlRow, Line, Row, SumRow, Verdict
from tally.engine.values import Scope
from tally.events.dimensions import FIELDS
from tally.events.validation import LEAVE, MEASURES, TRAFFIC, TYPE_NAMES, VITALS
from tally.maintenance.deletion_worker import Write
from tally.maintenance.verify import LOST_UNLOADED
from tally.rollups.web_vitals import from_stored
from tally.settings import Settings
from tally.sqlite.archive import FileArchive, GoalsOf
from tally.storage.cluster_tables import Copy, Unloaded, copy_of, unloaded_days
from tally.storage.database import Connection, transaction
from tally.timestamps import DAY_MS
from tally.transfer.exporter import exported as file_rows
from tally.transfer.import_writer import restore

# A page is some 10 MB.
_ROWS = 10_000
# Of a transaction, during which a collect request waits for the writer.
_LINES = 1_000
# Each sorts its day.
PAGE_S = 600
# Above every day of the tables, and every id.
ALL_DAYS, ALL_IDS = range(1 << 16), 1 << 62
_VITALS = (VITALS, LEAVE)
_TIMESTAMP = COLUMNS.index("timestamp")
# SQLite numbers visits in the order of their first events to arrive, ClickHouse in that of their times.
_VISIT = COLUMNS.index("visit")
_NO_COPY = Copy(0, "", 0, 0, 0, 0, 0, 0)


async def stored(
    client: Client, copy: int, days: range = ALL_DAYS, last_id: int = ALL_IDS
) -> AsyncIterator[list[list[Any]]]:
    """Yield the events of a copy on some days, up to an id, in order of time and id: rows of `listing.following`.

    Raises ApiError where ClickHouse does not answer.
    """
    for (day,) in await client.rows(listing.days(copy, days), {}):
        stored = await traffic_days(client, copy, last_id, day)
        traffic = Traffic(Scope(copy, day * DAY_MS, (day + 1) * DAY_MS), last_id, stored)
        place = (-1, -1)
        while rows := await client.rows(listing.following(traffic, *place, _ROWS), {}):
            yield rows
            if len(rows) < _ROWS:
                break
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


class ClusterArchive(FileArchive):
    """The archive of a file some of whose days ClickHouse alone may have, which is asked about these."""

    def __init__(self, path: Path, write: Write, goals_of: GoalsOf, settings: Settings) -> None:
        super().__init__(path, write, goals_of)
        self._settings = settings

    async def rows(self, website: int, days: range | None = None) -> AsyncIterator[Sequence[SumRow | CrawlRow | Row]]:
        """As `Archive`. Raises ApiError where ClickHouse does not answer."""
        is_read = False
        # Where ClickHouse does not answer, too, the connection ends here, and its thread.
        async with aclosing(self._read(lambda connection: _file_rows(connection, website, days))) as read:
            async for copy, offset_ms, batch in read:
                if not is_read and (not batch or isinstance(batch[0], list)):
                    is_read = True
                    wanted = copy.unloaded if days is None else _both(copy.unloaded, days)
                    if wanted:
                        async with opened(self._settings, PAGE_S) as servers:
                            async for rows in exported(servers.client, copy.copy, offset_ms, wanted):
                                yield rows
                # A day's rows are deleted after it is recorded that the file has them no more.
                first_ms = copy.own_day * DAY_MS - offset_ms
                yield [row for row in batch if not isinstance(row, list) or row[_TIMESTAMP] >= first_ms]

    async def verify(self, website: int) -> AsyncIterator[Verdict]:
        """As `Archive`: of days that ClickHouse alone has, their events are compared with what the file had."""
        copy, offset_ms, known = await anext(self._read(lambda connection: iter([_recorded(connection, website)])))
        async for verdict in super().verify(website):
            if not verdict.skipped or verdict.first_day not in copy.unloaded:
                yield verdict
        if not known:
            return
        async with opened(self._settings, PAGE_S) as servers:
            for days in known:
                read = exported(servers.client, copy.copy, offset_ms, range(days.first, days.end))
                is_right = await digest_of(read) == (days.events, days.digest)
                yield Verdict(0, days.end - 1, "" if is_right else LOST_UNLOADED)


def _recorded(connection: sqlite3.Connection, website: int) -> tuple[Copy, int, list[Unloaded]]:
    copy = copy_of(connection, website) or _NO_COPY
    return copy, day_offset_ms(connection, website), unloaded_days(connection, copy.copy)


async def digest_of(batches: AsyncIterator[Sequence[Any]]) -> tuple[int, bytes]:
    """Return the number of exported events and a hash of them, without the number of the visit."""
    events, digest = 0, blake2b()
    async for batch in batches:
        rows = [row[:_VISIT] + row[_VISIT + 1 :] for row in batch if isinstance(row, list)]
        events += len(rows)
        digest.update(b"".join(map(orjson.dumps, rows)))
    return events, digest.digest()


def _file_rows(
    connection: sqlite3.Connection, website: int, days: range | None
) -> Iterator[tuple[Copy, int, Sequence[SumRow | CrawlRow | Row]]]:
    """Yield what the file has, and the copy of the same moment with it; at the end nothing."""
    exported = file_rows(connection, website, days)
    batch: Sequence[SumRow | CrawlRow | Row] = next(exported, [])
    # Within the snapshot of the export.
    copy = copy_of(connection, website) or _NO_COPY
    offset_ms = day_offset_ms(connection, website)
    while batch:
        yield copy, offset_ms, batch
        batch = next(exported, [])
    yield copy, offset_ms, []


def _both(some: range, others: range) -> range:
    return range(max(some.start, others.start), min(some.stop, others.stop))


async def fill(
    connection: Connection,
    servers: Servers,
    website: int,
    copy: int,
    days: range,
    report: Callable[[int], None] = lambda events: None,
    before: int = 0,
    *,
    counts: bool = True,
    rest: float = 0.0,
) -> int:
    """Store the events that a copy has on some days in a file that has none of these days, under their numbers; return
    how many. `report` is called with the number so far, those `before` included. counts: whether they are counted, as
    they are not where what was counted of them has stayed. rest: how long the file's lock is left free after each
    transaction, as a share of what that took. Raises ApiError where ClickHouse does not answer.
    """
    events = 0
    async for page in lines(servers.client, copy, days):
        for first in range(0, len(page), _LINES):
            some, begun_s = page[first : first + _LINES], time.perf_counter()
            with transaction(connection):
                restore(connection, website, some, counts=counts)
            events += len(some)
            report(before + events)
            await asyncio.sleep(rest * (time.perf_counter() - begun_s))
    return events


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
    values: tuple[Any, ...]
    if type_ in TRAFFIC:
        if not sends:
            texts = [NO_SOURCE.get(field, text) for field, text in zip(FIELDS, texts, strict=True)]
        texts, values = [*texts, rest[end]], (data or None,)
    elif type_ in _VITALS:
        measured = from_stored(rest[end + 8 : -1])
        values = tuple(map(measured.get, MEASURES))
    else:
        texts, values = [*texts, *named], (value,)
    is_named = type_ not in _VITALS
    return Line(id, ts, type_, None, (id, visitor), visitor if is_named else 0, is_named, tuple(texts), values)
