"""What is in event_data: of each property its values, how often and by how many visitors each was sent; its numbers.

Values are JSON's own: the text "1", the number 1 and true are three values, 1 and 1.0 are one. They are counted as
bytes whose order is the values' own (`written`): null, false, true, numbers by size, texts by code point. All of it is
exact: sums are kept as whole multiples of the smallest number there is, so no order of adding makes a difference.

Each day, or part of one, is read by visitor (a day's visitors are its own), so that who sent a value twice follows on
himself, and counted into a `Found`; those of whole days, if they are small, are remembered under the day's version. A
`Total` adds them up. Where there are more values than MOST_BYTES hold, it goes on in a file of its own that has no name
and ends with the question; where that grows beyond MOST_FILE_BYTES, TooManyValues says so.
"""

import contextlib
import marshal
import sqlite3
import sys
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from heapq import heappush, heappushpop
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import orjson

from tally.events.json_scalars import FALSE, NUMBER, TRUE, nearest, read, written
from tally.reports.cache import ResultCache
from tally.reports.coverage import Coverage, Span, ground_of, parts_of
from tally.storage.sql import behaviour as behaving
from tally.storage.sql.behaviour import LINE
from tally.storage.sql.events import Scope
from tally.timestamps import DAY_MS

MOST_PROPERTIES = 50
PERCENTILES = (50, 95)
# our choice: of what is held in memory, twice in a question: 13,000 values of 36 characters each time.
MOST_BYTES = 4_000_000
# our choice: what one visitor may send in a day, an app's own server say; his values cannot be parted.
_MOST_OF_VISITOR = 4 * MOST_BYTES
# our choice: two million values of 36 characters; sorting them takes 2 seconds.
MOST_FILE_BYTES = 128_000_000
# our choice: a year of such days is half of what is remembered; an usual one takes 1 KB.
_MOST_REMEMBERED = 8_000
# our choice: up to 4 MB of text at once.
_ROWS = 1_000
_VALUE_BYTES, _PROPERTY_BYTES = 250, 500

# The smallest double is a 2^1074th.
_UNIT_BITS = 1_074

Row = tuple[str, bytes, int, int]
"""A property, a value as `written`, its events, its visitors."""


class TooManyValues(ValueError):
    """More different values than can be counted in one question."""


# --- a day, or a part of one


@dataclass(slots=True)
class Found:
    """Events of a name, their visitors, and of each property (events, visitors) of each of its values, as `written`."""

    events: int = 0
    visitors: int = 0
    of: dict[str, dict[bytes, tuple[int, int]]] = field(default_factory=dict)


class _Counting:
    """Counts events, each visitor's one after another."""

    def __init__(self, only: str | None) -> None:
        self._only = only
        self.visitor = -1
        self._start()

    def _start(self) -> None:
        self._events = self._visitors = self.bytes = 0
        # Of each value its events, its visitors, and the last of them.
        self._of: dict[str, dict[Any, list[int]]] = {}

    def add(self, visitor: int, text: str) -> None:
        """Counts an event."""
        self._events += 1
        if visitor != self.visitor:
            self.visitor = visitor
            self._visitors += 1
        only = self._only
        data = orjson.loads(text)
        if only is not None:
            data = {only: data[only]} if only in data else {}
        for name, value in data.items():
            values = self._of.get(name)
            if values is None:
                values = self._of[name] = {}
                self.bytes += _PROPERTY_BYTES + sys.getsizeof(name)
            # Equal to no other value: true would be 1.
            key = value if value is not True and value is not False else TRUE if value else FALSE
            counts = values.get(key)
            if counts is None:
                values[key] = [1, 1, visitor]
                self.bytes += _VALUE_BYTES + sys.getsizeof(value)
                continue
            counts[0] += 1
            if counts[2] != visitor:
                counts[1] += 1
                counts[2] = visitor

    def take(self) -> Found:
        """What has been counted; begins anew."""
        found = Found(self._events, self._visitors)
        for name, values in self._of.items():
            found.of[name] = {
                value if isinstance(value, bytes) else written(value): (events, visitors)
                for value, (events, visitors, _) in values.items()
            }
        self._start()
        return found


def _read(ground: Coverage, scope: Scope, label: int, only: str | None) -> Iterator[Found]:
    """A day, or a part of one: whole if it is small, else in pieces."""
    counting = _Counting(only)
    for texts, numbers in ground.connection.execute(*behaving.data(scope, label, _ROWS)):
        visitors, lines = orjson.loads(numbers), texts.split(LINE)
        for n in sorted(range(len(lines)), key=visitors.__getitem__):
            if counting.bytes > MOST_BYTES:
                if visitors[n] != counting.visitor:
                    yield counting.take()
                elif counting.bytes > _MOST_OF_VISITOR:
                    raise TooManyValues
            counting.add(visitors[n], lines[n])
    yield counting.take()


# --- a range


class Total:
    """Sums of `Found`: in memory, and in a file without a name where that is too much."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._of: dict[str, dict[bytes, tuple[int, int]]] = {}
        self._bytes = self._file_bytes = 0
        self._file: sqlite3.Connection | None = None
        self.events = self.visitors = 0

    def close(self) -> None:
        """Takes the file away."""
        if self._file is not None:
            self._file.close()

    def add(self, found: Found) -> None:
        """Adds what was found. Raises TooManyValues."""
        self.events += found.events
        self.visitors += found.visitors
        if self._file is not None:
            self._put_away(found.of)
            return
        for name, more in found.of.items():
            values = self._of.get(name)
            if values is None:
                values = self._of[name] = {}
                self._bytes += _PROPERTY_BYTES + sys.getsizeof(name)
            for value, counts in more.items():
                before = values.get(value)
                if before is None:
                    values[value] = counts
                    self._bytes += _VALUE_BYTES + len(value)
                else:
                    values[value] = before[0] + counts[0], before[1] + counts[1]
        if self._bytes > MOST_BYTES:
            self._put_away(self._of)
            self._of = {}

    def _put_away(self, of: dict[str, dict[bytes, tuple[int, int]]]) -> None:
        """Adds values to the file. Raises TooManyValues."""
        if self._file is None:
            self._file = _new_file(self._connection)
        rows = [(name, value, *counts) for name, values in of.items() for value, counts in values.items()]
        self._file_bytes += sum(len(name) + len(value) + 20 for name, value, *_ in rows)
        if self._file_bytes > MOST_FILE_BYTES:
            raise TooManyValues
        self._file.executemany("/* properties.put_away */ insert into piece values (?, ?, ?, ?)", rows)

    def properties(self) -> tuple[int, dict[str, tuple[int, int]]]:
        """How many there are, and of the first MOST_PROPERTIES by events (descending) and name: events, and how many of
        them have a number there."""
        if self._file is not None:
            file = self._file
            (count,) = file.execute("/* properties.count */ select count(distinct property) from piece").fetchone()
            rows = file.execute(
                "/* properties.first */ select property, sum(events), sum(iif(substr(value, 1, 1) = ?, events, 0))"
                " from piece group by property order by 2 desc, 1 limit ?",
                (NUMBER, MOST_PROPERTIES),
            )
            return count, {name: (events, samples) for name, events, samples in rows}
        found = {
            name: (
                sum(events for events, _ in values.values()),
                sum(events for value, (events, _) in values.items() if value.startswith(NUMBER)),
            )
            for name, values in self._of.items()
        }
        first = sorted(found.items(), key=lambda item: (-item[1][0], item[0]))[:MOST_PROPERTIES]
        return len(found), dict(first)

    def rows(self, names: Iterable[str]) -> Iterator[Row]:
        """The values of some properties, in the order of both."""
        if self._file is None:
            for name in sorted(names):
                yield from ((name, value, *counts) for value, counts in sorted(self._of[name].items()))
        else:
            yield from self._file.execute(
                "/* properties.rows */ select property, value, sum(events), sum(visitors) from piece"
                " where property in (select value from json_each(?)) group by property, value order by property, value",
                (orjson.dumps(list(names)).decode(),),
            )


def _new_file(connection: sqlite3.Connection) -> sqlite3.Connection:
    """A database of its own; its statements are given up when those of `connection` are to be."""
    file = sqlite3.connect("", isolation_level=None)
    for pragma in ("journal_mode = off", "synchronous = off", "temp_store = file", "cache_size = -2048"):
        file.execute(f"pragma {pragma}").fetchall()
    file.execute(
        "/* properties.piece */ create table piece (property text, value blob, events integer, visitors integer)"
    )
    file.set_progress_handler(lambda: _is_over(connection), _STEPS_BETWEEN_LOOKS)
    return file


# our choice: a look takes 5 ms, so many steps 100 and more.
_STEPS_BETWEEN_LOOKS = 2_000_000


def _is_over(connection: sqlite3.Connection) -> bool:
    """Whether this connection's statements are given up: found out by one long enough for it to look (threads.py)."""
    try:
        connection.execute(
            "/* properties.look */ with recursive step (n) as"
            " (select 1 union all select n + 1 from step where n < 20000) select max(n) from step"
        ).fetchone()
    except sqlite3.OperationalError:
        return True
    return False


# --- what is told


class Numbers(NamedTuple):
    """Numbers by nearest rank; sum and mean are rounded once, from exact ones. None is beyond the greatest double."""

    samples: int
    sum: float | None
    mean: float | None
    min: float
    percentiles: tuple[float, ...]
    max: float


class Property(NamedTuple):
    """A property: events that have it, how many different values, the first of them (value, events, visitors)."""

    name: str
    events: int
    distinct: int
    values: list[tuple[Any, int, int]]
    numbers: Numbers | None


class Data(NamedTuple):
    """Events of a name, their visitors, how many properties they have, and the first of these."""

    events: int
    visitors: int
    properties: int
    first: list[Property]


def data(
    connection: sqlite3.Connection,
    scope: Scope,
    event_name: str,
    only: str | None,
    limit: int,
    remembered: ResultCache,
) -> Data:
    """What is in event_data of a name's events, or one property of it. Raises BeyondRetention and TooManyValues."""
    ground = ground_of(connection, scope)
    parts = parts_of(ground)
    spans = [(span, ground.raw(span, filtered=True)) for span in parts.raw]
    spans += [(span, ground.raw(span)) for span in _days(ground, parts.rolled)]
    label = ground.rows(behaving.label(event_name))
    with contextlib.closing(Total(connection)) as total:
        for span, own in spans if label else ():
            for found in _of_day(ground, span, own, (event_name, label[0][0]), only, remembered):
                total.add(found)
        count, first = total.properties()
        rows = groupby(total.rows(first), key=itemgetter(0))
        told = {name: _property(name, *first[name], of, limit) for name, of in rows}
        return Data(total.events, total.visitors, count, [told[name] for name in first])


def _days(ground: Coverage, stretches: Iterable[Span]) -> Iterator[Span]:
    for from_ms, to_ms in stretches:
        for day in ground.known.days:
            span = max(from_ms, day * DAY_MS), min(to_ms, (day + 1) * DAY_MS)
            if span[0] < span[1]:
                yield span


def _of_day(
    ground: Coverage, span: Span, scope: Scope, name: tuple[str, int], only: str | None, remembered: ResultCache
) -> Iterator[Found]:
    day = ground.complete(span)
    key = ("data", ground.website, span[0], day and day.version, scope.filters, name[0], only)
    known = remembered.get(key) if day else None
    if known is not None:
        yield Found(*marshal.loads(known))
        return
    pieces = _read(ground, scope, name[1], only)
    first, second = next(pieces), next(pieces, None)
    yield first
    if second is not None:
        yield second
        yield from pieces
    elif day:
        packed = array("B", marshal.dumps((first.events, first.visitors, first.of)))
        if len(packed) <= _MOST_REMEMBERED:
            remembered.put(key, packed)


def _property(name: str, events: int, samples: int, rows: Iterable[Row], limit: int) -> Property:
    first: list[tuple[int, int, int, bytes]] = []
    distinct = before = total = 0
    ranks = [-(-samples * percent // 100) for percent in PERCENTILES]
    at: list[float] = []
    least = greatest = None
    for _, value, times, visitors in rows:
        distinct += 1
        entry = times, visitors, -distinct, value
        if len(first) < limit:
            heappush(first, entry)
        else:
            heappushpop(first, entry)
        if value.startswith(NUMBER):
            greatest = read(value)
            least = greatest if least is None else least
            n, of = greatest.as_integer_ratio()
            total += times * n << _UNIT_BITS + 1 - of.bit_length()
            before += times
            while len(at) < len(ranks) and ranks[len(at)] <= before:
                at.append(greatest)
    numbers = None
    if least is not None and greatest is not None:
        exact = Fraction(total, 1 << _UNIT_BITS)
        numbers = Numbers(samples, nearest(exact), nearest(exact / samples), least, tuple(at), greatest)
    values = [(read(value), times, visitors) for times, visitors, _, value in sorted(first, reverse=True)]
    return Property(name, events, distinct, values, numbers)
