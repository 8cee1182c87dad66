"""Pack the events of a past day by column (tally/columns/column_days.py).

The columns are read one after another from the rows of one snapshot, 8 µs an event with all of them. A day is not
packed where it has more than MAX_EVENTS, which would take too much memory, or where its events and visits do not agree.
For the same reason event_data is not, where the different texts of a day are longer than MAX_TEXTS. Otherwise the
columns of a final day hold all that the rows hold (tally/columns/deleted_rows.py). The rows of an earlier one stay, so
that event_data is not packed there where nearly every event has another text, such as an order's id: it would be stored
twice.
"""

import sqlite3
from typing import NamedTuple

import numpy as np
import orjson

from tally.columns import statements as sql
from tally.columns.column_days import NO_COLUMNS, ColumnsOfDay
from tally.columns.format import Array, begins_of_visitors, differs, encoded, encoded_texts
from tally.columns.statements import EVERY_VISITOR, NUMBERS, OF_EVENTS, OF_VISITS, Share
from tally.storage.sql.filters import Query
from tally.timestamps import DAY_MS

# The largest column as a JSON text and as a list: 60 MB.
MAX_EVENTS = 1_000_000
# Characters.
MAX_TEXTS = 1_000_000
# So few take no space, whether they repeat or not.
FEW_TEXTS = 10_000
_VISIT_COLUMNS = tuple(sorted(OF_VISITS - {"is_first"}))
_ROW_COLUMNS = ("entry_after_ms", "exit_before_ms", "acquired_after_ms")
# Read rarely: compressed wherever that makes them smaller.
_SMALLER = 1.0


class Rows(NamedTuple):
    """The events of a day, by (visitor, visit, ts, id), and its visits by (visitor, visit)."""

    times: Array
    order: Array
    """The place of each event by (ts, id)."""
    visitors: Array
    """The visitor of each visit."""
    visits: Array
    """The number of each visit among those of its visitor."""
    counts: Array
    """The events of each visit."""


def columns_of_day(connection: sqlite3.Connection, website: int, day: int, *, is_final: bool) -> ColumnsOfDay:
    """Return the columns of a day that is over, from its rows; `connection` must be in a read transaction."""
    if connection.execute(*sql.number_of_events(website, day, MAX_EVENTS + 1)).fetchone()[0] > MAX_EVENTS:
        return NO_COLUMNS
    rows = rows_of(connection, website, day)
    if not len(rows.times) or not _agree(connection, website, day, rows):
        return NO_COLUMNS
    times, order, visitors, _, counts = rows
    ids = _events(connection, website, day, "id")[order]
    visits = {name: _visits(connection, website, day, name) for name in ("visit", *_ROW_COLUMNS, *_VISIT_COLUMNS)}
    visit_columns = {name: visits[name] for name in _VISIT_COLUMNS} | {"is_first": differs(visitors)}
    visit_columns["start_ms"] = visits["start_ms"] - day * DAY_MS
    columns = {
        name: encoded(column.astype(np.int64), True, name not in NUMBERS) for name, column in visit_columns.items()
    }
    offsets = times - np.repeat(visits["start_ms"], counts)
    columns["offset_ms"] = encoded(offsets, False, False)
    for name in OF_EVENTS:
        column, is_of_visits = of_visits(_events(connection, website, day, name)[order], counts)
        columns[name] = encoded(column, is_of_visits, True)
    columns |= {name: encoded(visits[name], True, True, _SMALLER) for name in ("visit", *_ROW_COLUMNS)}
    firsts = visit_columns["is_first"]
    rest = visitors[firsts] - begins_of_visitors(visit_columns["start_ms"][firsts])
    columns["visitor"] = encoded(rest, False, False, _SMALLER)
    in_time = ids[np.argsort(times, kind="stable")]
    columns["first_id"] = encoded(in_time[:1], False, False)
    columns["id_step"] = encoded(np.diff(in_time, prepend=in_time[:1]), False, False, _SMALLER)
    texts = _texts(connection, website, day, ids, is_final=is_final)
    if texts is None:
        return ColumnsOfDay(len(counts), len(ids), columns, None)
    codes, different = texts
    columns["event_data"] = encoded_texts(codes, different)
    return ColumnsOfDay(len(counts), len(ids), columns, sum(map(len, different)))


def rows_of(connection: sqlite3.Connection, website: int, day: int, share: Share = EVERY_VISITOR) -> Rows:
    """Return the order of a day's events, of some visitors."""
    times, visits, visitors = (_events(connection, website, day, name, share) for name in ("ts", "visit", "visitor"))
    # The events are read by (ts, id), and remain in this order within a visit.
    order = np.lexsort((visits, visitors))
    visits, visitors = visits[order], visitors[order]
    begins = np.flatnonzero(differs(visitors) | differs(visits)) if len(times) else np.empty(0, np.int64)
    counts, visits, visitors = np.diff(begins, append=len(times)), visits[begins], visitors[begins]
    return Rows(times[order], order, visitors, visits, counts)


def _agree(connection: sqlite3.Connection, website: int, day: int, rows: Rows) -> bool:
    """Return whether the events and the visits of a day agree, as they do but while an import is undone."""
    visits = {name: _visits(connection, website, day, name) for name in ("visitor", "visit", "pageviews", "events")}
    return (
        np.array_equal(visits["visitor"], rows.visitors)
        and np.array_equal(visits["visit"], rows.visits)
        and np.array_equal(visits["pageviews"] + visits["events"], rows.counts)
    )


def _texts(
    connection: sqlite3.Connection, website: int, day: int, ids: Array, *, is_final: bool
) -> tuple[Array, list[str]] | None:
    """Return what `texts_of` does; None where event_data is not packed."""
    try:
        codes, texts = texts_of(connection, website, day, ids, most=MAX_TEXTS)
    except TextsTooLong:
        return None
    lengths = np.array([0, *map(len, texts)])
    is_repeated = int(lengths.sum()) <= max(FEW_TEXTS, int(lengths[codes].sum()) // 2)
    return (codes, texts) if is_final or is_repeated else None


class TextsTooLong(Exception):
    """The different texts of event_data of a day are longer than the limit."""


def texts_of(
    connection: sqlite3.Connection,
    website: int,
    day: int,
    ids: Array,
    share: Share = EVERY_VISITOR,
    most: int | None = None,
) -> tuple[Array, list[str]]:
    """Return for each event with one of these ids 0, or the number of its text of event_data from 1 on, and the
    different texts. Raises TextsTooLong where these have more than `most` characters."""
    known: dict[str, int] = {}
    codes, by_id, length = np.zeros(len(ids), np.int64), np.argsort(ids), 0
    for some, texts in connection.execute(*sql.event_data(website, day, share)):
        part = orjson.loads(texts)
        length += sum(map(len, set(part).difference(known)))
        if most is not None and length > most:
            raise TextsTooLong
        places = np.searchsorted(ids, orjson.loads(some), sorter=by_id)
        codes[by_id[places]] = [known.setdefault(text, len(known) + 1) for text in part]
    return codes, list(known)


def _events(connection: sqlite3.Connection, website: int, day: int, column: str, share: Share = EVERY_VISITOR) -> Array:
    return numbers(connection, sql.event_column(website, day, column, share))


def _visits(connection: sqlite3.Connection, website: int, day: int, column: str, share: Share = EVERY_VISITOR) -> Array:
    return numbers(connection, sql.visit_column(website, day, column, share))


def of_visits(column: Array, counts: Array) -> tuple[Array, bool]:
    """Return a column of events with one value a visit, and True; as it is, and False, where a visit has several.

    counts: the events of each visit.
    """
    of_first: Array = column[np.cumsum(counts) - counts]
    is_of_visits = np.array_equal(np.repeat(of_first, counts), column)
    return of_first if is_of_visits else column, is_of_visits


def numbers(connection: sqlite3.Connection, query: Query) -> Array:
    """Return the column that a query selects as a JSON array."""
    (column,) = arrays(connection, query)
    return column


def arrays(connection: sqlite3.Connection, query: Query) -> list[Array]:
    """Return the columns that a query selects as one row of JSON arrays."""
    # One text of all numbers: row by row, the interpreter's lock would be released for each.
    return [np.array(orjson.loads(text), np.int64) for text in connection.execute(*query).fetchone()]


def is_correct(connection: sqlite3.Connection, website: int, day: int) -> bool:
    """Return whether the columns of a stored day are those of its rows."""
    columns = sql.stored(connection, website, sql.TRAFFIC, day)
    return columns == columns_of_day(connection, website, day, is_final="event_data" in columns).columns
