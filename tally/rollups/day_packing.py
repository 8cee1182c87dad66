"""Pack the events of a past day by column (tally/rollups/packed_days.py).

The columns are read one after another from the rows of one snapshot, 8 µs an event with all of them. A day is not
packed where it has more than MAX_EVENTS, which would take too much memory, or where its events and visits do not agree.
For the same reason event_data is not, where the different texts of a day are longer than MAX_TEXTS. Nor is it where
nearly every event has another text, such as an order's id: it would be stored twice, and reading its rows is quicker
(2.5 s of processor time against 6.0 s for 500,000 different texts).
"""

import sqlite3
from collections.abc import Iterator

import numpy as np
import orjson

from tally.rollups.packed_days import NOT_PACKED, Packed
from tally.storage.day_columns import Array, differs, encoded, encoded_texts
from tally.storage.sql import day_columns as sql
from tally.storage.sql.day_columns import NUMBERS, OF_EVENTS, OF_VISITS
from tally.timestamps import DAY_MS

# The largest column as a JSON text and as a list: 60 MB.
MAX_EVENTS = 1_000_000
# Characters.
MAX_TEXTS = 1_000_000
# So few take no time, whether they repeat or not.
FEW_TEXTS = 10_000
_VISIT_COLUMNS = tuple(sorted(OF_VISITS - {"is_first"}))


def pack_day(connection: sqlite3.Connection, website: int, day: int) -> Packed:
    """Return the columns of a day that is over, from its rows; `connection` must be in a read transaction."""
    if connection.execute(*sql.number_of_events(website, day, MAX_EVENTS + 1)).fetchone()[0] > MAX_EVENTS:
        return NOT_PACKED
    keys = ("id", "ts", "visit", "visitor")
    ids, times, visits, visitors = (_events(connection, website, day, name) for name in keys)
    if not len(ids):
        return NOT_PACKED
    order = np.lexsort((ids, times, visits, visitors))
    visitors, visits = visitors[order], visits[order]
    begins = np.flatnonzero(differs(visitors) | differs(visits))
    counts = np.diff(begins, append=len(ids))
    own = {name: _visits(connection, website, day, name) for name in ("visitor", "visit", *_VISIT_COLUMNS)}
    if not (
        np.array_equal(own["visitor"], visitors[begins])
        and np.array_equal(own["visit"], visits[begins])
        and np.array_equal(own["pageviews"] + own["events"], counts)
    ):
        return NOT_PACKED
    of_visits = {name: own[name] for name in _VISIT_COLUMNS} | {"is_first": differs(own["visitor"])}
    of_visits["start_ms"] = own["start_ms"] - day * DAY_MS
    columns = {name: encoded(column.astype(np.int64), True, name not in NUMBERS) for name, column in of_visits.items()}
    offsets = times[order] - np.repeat(own["start_ms"], counts)
    columns["offset_ms"] = encoded(offsets, False, False)
    for name in OF_EVENTS:
        column = _events(connection, website, day, name)[order]
        is_of_visits = np.array_equal(np.repeat(column[begins], counts), column)
        columns[name] = encoded(column[begins] if is_of_visits else column, is_of_visits, True)
    texts = _texts(connection, website, day, ids[order])
    return Packed(len(begins), len(ids), columns if texts is None else columns | {"event_data": texts})


def _texts(connection: sqlite3.Connection, website: int, day: int, ids: Array) -> bytes | None:
    """Return the column of event_data of events with these ids; None where its texts are too long or seldom repeat."""
    numbers: dict[str, int] = {}
    codes, by_id, length = np.zeros(len(ids), np.int64), np.argsort(ids), 0
    length_with_copies = 0
    for some, texts in connection.execute(*sql.event_data(website, day)):
        own = orjson.loads(texts)
        length += sum(map(len, set(own).difference(numbers)))
        if length > MAX_TEXTS:
            return None
        length_with_copies += sum(map(len, own))
        places = np.searchsorted(ids, orjson.loads(some), sorter=by_id)
        codes[by_id[places]] = [numbers.setdefault(text, len(numbers) + 1) for text in own]
    if length > max(FEW_TEXTS, length_with_copies // 2):
        return None
    return encoded_texts(codes, list(numbers))


def _events(connection: sqlite3.Connection, website: int, day: int, column: str) -> Array:
    return _numbers(connection.execute(*sql.event_column(website, day, column)))


def _visits(connection: sqlite3.Connection, website: int, day: int, column: str) -> Array:
    return _numbers(connection.execute(*sql.visit_column(website, day, column)))


def _numbers(rows: Iterator[tuple[str]]) -> Array:
    # One text of all numbers: row by row, the interpreter's lock would be released for each.
    (text,) = next(iter(rows))
    return np.array(orjson.loads(text), np.int64)


def is_correct(connection: sqlite3.Connection, website: int, day: int) -> bool:
    """Return whether the columns of a packed day are those of its rows."""
    return sql.stored(connection, website, day) == pack_day(connection, website, day).columns
