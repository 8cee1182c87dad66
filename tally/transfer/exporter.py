"""Export the events of a website: traffic, web vitals and experiments, one line (or row) each, oldest first. JSON lines
begin with its imported sums and the requests of crawlers by day.

An export is one snapshot while the server continues, so the file is the state at one moment; SQLite cannot reset its
write-ahead log until it ends. Memory is bounded: rows are read a thousand at a time, and a few megabytes of
the texts of labels are cached.

Heatmap points are stored as counts, not events, and are not exported. tally/transfer/line_format.py describes a line.

The columns here follow COLUMNS in tally/engine/archive.py; tally/api/read.py returns the same values.
"""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import groupby
from operator import itemgetter
from typing import Any, BinaryIO, NamedTuple

import orjson

from tally.accounts.websites import day_offset_ms
from tally.columns import deleted_rows
from tally.engine.archive import COLUMNS, FIELD_NUMBERS, FIGURES, CrawlRow, Row, SumRow
from tally.events.dimensions import ACQUISITION, FIELDS
from tally.events.validation import LEAVE, MEASURES, TYPE_NAMES, VITALS
from tally.rollups.web_vitals import from_stored
from tally.storage import crawler_days
from tally.storage.crawler_days import SOURCES
from tally.storage.database import damaged, snapshot
from tally.storage.event_data import STORED
from tally.storage.import_records import IMPORT_OF
from tally.storage.sql.events import MEASURED_TYPE, of_visit
from tally.timestamps import DAY_MS, local_iso
from tally.transfer.line_format import CRAWL_COLUMNS, CRAWL_TYPE, SUM_COLUMNS, SUM_TYPE

# A few hundred kilobytes.
_ROWS_AT_ONCE = 1_000
# 20,000 usual texts, or a thousand of the longest.
_MAX_CHARACTERS = 8_000_000
LABELLED = (*FIELDS, "event_name", "experiment", "variant", "goal")
_PLAIN = ("type", "visitor", "visit", "event_data", "value", *MEASURES)
# The columns that each of the tables lacks, with the value to read instead.
_TABLES: tuple[tuple[str, dict[str, str]], ...] = (
    (
        "event",
        dict.fromkeys(("experiment", "variant", "goal"), "0")
        | dict.fromkeys(("value", *MEASURES), "null")
        | {"event_data": STORED}
        | {field: of_visit(field) for field in ACQUISITION},
    ),
    (
        "web_vitals",
        dict.fromkeys(("event_name", "experiment", "variant", "goal"), "0")
        | dict.fromkeys(("visitor", "visit", "event_data", "value"), "null")
        | {"type": MEASURED_TYPE},
    ),
    ("experiment_event", {"event_name": "0"} | dict.fromkeys(("visit", "event_data", *MEASURES), "null")),
)
_FIRST_TEXT = 2
_FIELD_NAMES = {number: name for name, number in FIELD_NUMBERS.items()}
# Above every timestamp.
_END_MS = 1 << 62
_TIMESTAMP, _EVENT_DATA = COLUMNS.index("timestamp"), COLUMNS.index("event_data")


Write = Callable[[Sequence[Row]], object]
"""Writes events to a file."""


class Part(NamedTuple):
    """A part of a website's events: those with ids in (after, to] and times in one of the ranges [from_ms, to_ms).

    Without the events of imports.
    """

    after: int
    to: int
    ranges: Sequence[tuple[int, int]]


Format = Callable[[BinaryIO], AbstractContextManager[Write]]
"""Yields the function that writes rows to a file, which is complete when the block ends."""


@contextmanager
def json_lines(out: BinaryIO) -> Iterator[Write]:
    """Yield a function that writes each row as a line of JSON."""
    yield lambda rows: out.write(b"".join(map(_line, rows)))


def write_export(
    out: BinaryIO,
    format: Format,
    exported: Iterable[Sequence[SumRow | CrawlRow | Row]],
    progress: Callable[[int], None] = lambda events: None,
) -> int:
    """Write what an archive yields, but events in JSON lines only; return the number of events. `progress` is called
    with the number so far."""
    written = 0
    with format(out) as write:
        for rows in exported:
            if format is json_lines:
                out.write(b"".join(_day_line(row) for row in rows if not isinstance(row, list)))
            events = [row for row in rows if isinstance(row, list)]
            if events:
                write(events)
                written += len(events)
                progress(written)
    return written


def exported(
    connection: sqlite3.Connection, website: int, days: range | None = None
) -> Iterator[Sequence[SumRow | CrawlRow | Row]]:
    """Yield the imported sums of a website, then its events in order of time and id: of some days, or all, which have
    the requests of crawlers between them."""
    begin_ms, end_ms = (0, _END_MS) if days is None else (days.start * DAY_MS, days.stop * DAY_MS)
    texts = _Texts(connection)
    with snapshot(connection):
        yield from _sums(connection, website, texts, days)
        if days is None:
            yield from _crawls(connection, website)
        batches = _batches(connection, website, begin_ms, end_ms)
        yield from _exported(texts, batches, day_offset_ms(connection, website))


def part_lines(connection: sqlite3.Connection, website: int, part: Part) -> Iterator[bytes]:
    """Yield the lines of a part of a website's events, many at once, within a snapshot of the caller."""
    offset_ms = day_offset_ms(connection, website)
    part = part._replace(ranges=[(begin_ms + offset_ms, end_ms + offset_ms) for begin_ms, end_ms in part.ranges])
    for rows in _exported(_Texts(connection), _batches_of_part(connection, website, part), offset_ms):
        yield b"".join(map(_line, rows))


def _exported(texts: "_Texts", batches: Iterable[list[tuple[Any, ...]]], offset_ms: int) -> Iterator[list[Row]]:
    """Yield rows of the database as rows of COLUMNS, with times that have offset_ms less."""
    for rows in batches:
        known = texts.of(rows)
        with _damage_found():
            values = [_values(row, known, offset_ms) for row in rows]
        yield values


@contextmanager
def _damage_found() -> Iterator[None]:
    """Raise sqlite3.DatabaseError where a row has a label, type or field that does not exist."""
    try:
        yield
    except KeyError as missing:
        raise damaged(f"the database is damaged: a row refers to {missing}, which does not exist") from None


def count_events(connection: sqlite3.Connection, website: int) -> int:
    """Return the number of lines of an export. Takes 0.1 s a million."""
    counts = " union all ".join(
        f"select count(*) as events from {table} where website = :website and ts >= 0" for table, _ in _TABLES
    )
    row = connection.execute(f"/* exporter.count */ select sum(events) from ({counts})", {"website": website})
    return int(row.fetchone()[0]) + deleted_rows.events_without_rows(connection, website, _END_MS // DAY_MS)


def newest_ms(connection: sqlite3.Connection, website: int) -> int:
    """Return the time of the newest event; 0 where there is none."""
    newest = 0
    for source, (table, _) in enumerate(_TABLES):
        row = connection.execute(
            f"/* exporter.newest */ select max(ts) from {table} where website = ? and ts >= 0", (website,)
        )
        newest = max(newest, row.fetchone()[0] or 0)
        days = deleted_rows.parts_without_rows(connection, website, newest // DAY_MS, _END_MS // DAY_MS, [source])
        if days:
            newest = max(newest, deleted_rows.last_ms(connection, website, source, days[-1][0]))
    return newest and newest - day_offset_ms(connection, website)


class StoredLine(NamedTuple):
    """An event as it is stored, in website time. `texts`: those of LABELLED; `carries`: whether the visit has its
    acquisition from it; the fields of the acquisition are those of the visit."""

    ts: int
    id: int
    type: int
    texts: list[str | None]
    visitor: int
    event_data: str | None
    value: float | None
    measures: Sequence[int | None]
    carries: bool


def stored_lines(connection: sqlite3.Connection, website: int) -> Iterator[list[StoredLine]]:
    """Yield the events of a website, many at once, within a snapshot of the caller."""
    texts, end = _Texts(connection), _FIRST_TEXT + len(LABELLED)
    carries = {"event": f"ts = {of_visit('start_ms + own.acquired_after_ms')}"}
    for rows in _batches(connection, website, 0, _END_MS, carries):
        known = texts.of(rows)
        with _damage_found():
            lines = [
                StoredLine(
                    *(row[0], row[1], row[end], [known[number] for number in row[_FIRST_TEXT:end]], row[end + 1] or 0),
                    *(row[end + 3], row[end + 4], row[end + 5 : -1], bool(row[-1])),
                )
                for row in rows
            ]
        yield lines


def _batches(
    connection: sqlite3.Connection, website: int, from_ms: int, to_ms: int, more: Mapping[str, str] | None = None
) -> Iterator[list[tuple[Any, ...]]]:
    select = f"/* exporter.rows */ {_select('ts >= :begin and ts < :end', more)}"
    for begin_ms, end_ms in _with_rows(connection, website, from_ms, to_ms):
        yield from _fetched(connection.execute(select, {"website": website, "begin": begin_ms, "end": end_ms}))


def _batches_of_part(connection: sqlite3.Connection, website: int, part: Part) -> Iterator[list[tuple[Any, ...]]]:
    is_own = f"{IMPORT_OF.format(id='id', website=':website')} is null"
    select = _select(f"ts >= :begin and ts < :end and id > :after and id <= :to and {is_own}")
    named = {"website": website, "after": part.after, "to": part.to}
    for span in part.ranges:
        for begin_ms, end_ms in _with_rows(connection, website, *span, part.after):
            bounds = named | {"begin": begin_ms, "end": end_ms}
            yield from _fetched(connection.execute(f"/* exporter.part */ {select}", bounds))


def _with_rows(
    connection: sqlite3.Connection, website: int, begin_ms: int, end_ms: int, after: int = -1
) -> Iterator[tuple[int, int]]:
    """Yield the parts of a time span in order, with the rows of days that have only columns shown a day at a time.

    after: the rows of a day that has no greater id are not needed.
    """
    packed = deleted_rows.parts_without_rows(connection, website, begin_ms // DAY_MS, (end_ms - 1) // DAY_MS)
    for day, parts in groupby(packed, key=itemgetter(0)):
        if all(deleted_rows.last_id(connection, website, source, day) <= after for _, source in parts):
            continue
        if begin_ms < day * DAY_MS:
            yield begin_ms, day * DAY_MS
            begin_ms = day * DAY_MS
        deleted_rows.show(connection, website, [day])
        day_end_ms = min((day + 1) * DAY_MS, end_ms)
        yield begin_ms, day_end_ms
        deleted_rows.hide(connection)
        begin_ms = day_end_ms
    if begin_ms < end_ms:
        yield begin_ms, end_ms


def _select(condition: str, more: Mapping[str, str] | None = None) -> str:
    """`more`: SQL of another column by table, 0 where the table is not named."""
    # SQLite merges the three tables in the order of their keys, without sorting.
    parts = " union all ".join(
        f"select ts, id, {', '.join(f'{missing.get(column, column)} as {column}' for column in (*LABELLED, *_PLAIN))}"
        f"{'' if more is None else f', {more.get(table, 0)}'}"
        f" from {table} where website = :website and {condition}"
        for table, missing in _TABLES
    )
    return f"{parts} order by ts, id"


def _fetched(rows: sqlite3.Cursor) -> Iterator[list[tuple[Any, ...]]]:
    while batch := rows.fetchmany(_ROWS_AT_ONCE):
        yield batch


def _sums(connection: sqlite3.Connection, website: int, texts: "_Texts", days: range | None) -> Iterator[list[SumRow]]:
    first, end = (0, _END_MS) if days is None else (days.start, days.stop)
    rows = connection.execute(
        f"/* exporter.sums */ select field, day, value, imported_field.figures, {', '.join(FIGURES)}"
        " from imported_field join imported_sum using (website, field, day)"
        " where website = ? and +day >= ? and +day < ? order by field, day, value",
        (website, first, end),
    )
    while batch := rows.fetchmany(_ROWS_AT_ONCE):
        known = texts.of_labels({row[2] for row in batch})
        with _damage_found():
            sums = [
                SumRow(
                    day,
                    _FIELD_NAMES[field],
                    known[value],
                    tuple(figure if bits >> n & 1 else None for n, figure in enumerate(figures)),
                )
                for field, day, value, bits, *figures in batch
            ]
        yield sums


def _crawls(connection: sqlite3.Connection, website: int) -> Iterator[list[CrawlRow]]:
    rows = crawler_days.export(connection, website)
    while batch := rows.fetchmany(_ROWS_AT_ONCE):
        yield [
            CrawlRow(day, crawler or None, pathname, SOURCES[source], requests)
            for day, crawler, pathname, source, requests in batch
        ]


class _Texts:
    """A cache of the texts of labels."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._known: dict[int, str | None] = {0: None}
        self._characters = 0

    def of(self, rows: Iterable[Sequence[Any]]) -> dict[int, str | None]:
        """Return a mapping with the texts of all labels of these rows; None for unset."""
        end = _FIRST_TEXT + len(LABELLED)
        return self.of_labels(set().union(*[row[_FIRST_TEXT:end] for row in rows]))

    def of_labels(self, labels: set[int]) -> dict[int, str | None]:
        """Return a mapping with the texts of some labels; None for unset."""
        if self._characters > _MAX_CHARACTERS:
            self._known, self._characters = {0: None}, 0
        missing = labels.difference(self._known)
        rows = self._connection.execute(
            "/* exporter.texts */ select id, text from label where id in (select value from json_each(?))",
            (orjson.dumps(list(missing)).decode(),),
        )
        for number, text in rows:
            self._known[number] = text
            self._characters += len(text)
        return self._known


def _values(row: Sequence[Any], texts: dict[int, str | None], offset_ms: int) -> Row:
    """Return the values of COLUMNS for a row of the database."""
    end = _FIRST_TEXT + len(LABELLED)
    *dimensions, name, experiment, variant, goal = [texts[number] for number in row[_FIRST_TEXT:end]]
    type_, visitor, visit, data, value, *metrics = row[end:]
    # Heatmap events have no visitor, stored as 0.
    who = f"{visitor:x}" if visitor else None
    return [
        row[1],
        TYPE_NAMES[type_],
        row[0] - offset_ms,
        *dimensions,
        name,
        data,
        None if visit is None else f"{who}-{visit}",
        (from_stored(metrics) or None) if type_ in (VITALS, LEAVE) else None,
        experiment,
        variant,
        goal,
        value,
        who,
    ]


def _day_line(row: SumRow | CrawlRow) -> bytes:
    """Return a row of a day without events as a line."""
    day = local_iso(row.day * DAY_MS, 0)[:10]
    columns, values = (
        (SUM_COLUMNS, (SUM_TYPE, day, row.field, row.value, *row.figures))
        if isinstance(row, SumRow)
        else (CRAWL_COLUMNS, (CRAWL_TYPE, day, *row[1:]))
    )
    return orjson.dumps(dict(zip(columns, values, strict=True)), option=orjson.OPT_APPEND_NEWLINE)


def _line(values: Row) -> bytes:
    """Return a row as a line. Takes about 5 µs, `_values` included."""
    values[_TIMESTAMP] = local_iso(values[_TIMESTAMP], 0)
    if values[_EVENT_DATA] is not None:
        values[_EVENT_DATA] = orjson.Fragment(values[_EVENT_DATA])
    return orjson.dumps(dict(zip(COLUMNS, values, strict=True)), option=orjson.OPT_APPEND_NEWLINE)
