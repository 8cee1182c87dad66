"""Days that are not packed, by column: today above all, whose events are kept in memory.

The first query reads the events of an open day and keeps them (`OpenDay`): their order, times and visitors, and each
column once a query needs it. A later query reads only the events that have arrived since, in the quarter hours whose
totals have changed. The visitors of these, with all of their visits and events of the day, are counted in a part of
their own and no longer in the older one (`OpenBatch`): a visitor is in one part, so that the figures of both add up as
those of two days do. Once many events have arrived, the day is read anew. The readers' threads share what is kept.

A day that is kept holds for a query if its events, and those with a greater id, are as many as the day has in the
snapshot of the query. For ids grow with every commit, an event changes no visits but its visitor's, and what else
changes events, such as an import that is undone, deletes some of them, or is counted (`row_changes` of
tally/storage/meta.py), as new paths of stored events are.

Other days without columns, such as those that an import has just changed, are read for each query, and large days in
parts, each of some of the visitors, so that memory stays bounded.

Importing this module imports numpy, so the callers do it where they need it.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import orjson

from tally.columns import deleted_rows
from tally.columns import statements as sql
from tally.columns.format import Array, Column, Days, differs
from tally.columns.read import MAX_DATA, Day, is_one_of, values_of
from tally.columns.statements import NUMBERS, OF_VISITS, TRAFFIC, Share
from tally.columns.write import Rows, arrays, numbers, of_visits, rows_of, texts_of
from tally.engine.values import Span
from tally.events.validation import PAGEVIEWS
from tally.reports.cache import Cache, ResultCache
from tally.reports.day_columns import Batch, DayColumns
from tally.rollups import rollup_state
from tally.rollups.rollup_state import OPEN
from tally.storage.database import check_interrupt, damaged
from tally.storage.meta import row_changes
from tally.storage.sql.filters import Condition
from tally.timestamps import DAY_MS, QUARTER_MS

MAX_EVENTS = 250_000
"""The most events of a day that are read at once: each takes 100 bytes meanwhile."""
# A day is read anew after so many events, or after so large a part of its own: their visitors take 3 µs each.
MOST_NEW = 300
_PART = 32
_QUARTERS = DAY_MS // QUARTER_MS
# A visitor has at most 48 visits a day.
VISIT_BITS = 6


@dataclass(frozen=True, slots=True)
class _Arrived:
    """The events that have arrived since a day was read, up to a query."""

    known: rollup_state.Day
    quarters: Array
    """The events of each quarter hour of the day."""
    last_id: int
    columns: dict[str, Array] = field(default_factory=dict)
    """By (ts, id), those that one query read behind those of the queries before."""

    @property
    def events(self) -> int:
        """Return the number of events of the day."""
        return int(self.quarters.sum())


@dataclass(frozen=True, slots=True)
class _New:
    """The visitors of events that have arrived, with all of their visits and events of the day."""

    arrived: _Arrived
    is_left: Array
    """Which of the visits that were read are of other visitors."""
    order: Array
    """The places of their events, those that were read and then those that have arrived, by visitor and time."""
    times: Array
    visitors: Array
    """The visitor of each visit, by visitor and start."""
    counts: Array
    """The events of each visit."""
    wanted: str
    """The visitors, as a JSON array."""
    columns: dict[str, Column] = field(default_factory=dict)


@dataclass(slots=True)
class OpenDay:
    """The events of a day in the snapshot that read them. Reading them takes 2 µs an event."""

    website: int
    day: int
    share: Share
    rows: Rows
    first: _Arrived
    """When the day was read: no event has arrived yet."""
    arrived: _Arrived
    """Up to the last query."""
    new: _New | None = None
    """The results of that query."""
    columns: dict[str, tuple[int, Column]] = field(default_factory=dict)
    """Those that a query needed, and how many events the day had when they were read: those of visits hold for visitors
    without events that have arrived until then."""

    @property
    def nbytes(self) -> int:
        """Return the size of its arrays."""
        columns = list(self.columns.values())
        return sum(array.nbytes for array in self.rows) + sum(column.nbytes for _, column in columns)


def batches_of(
    connection: sqlite3.Connection,
    website: int,
    span: Span,
    known: rollup_state.Day,
    days: Cache[OpenDay],
    *,
    with_data: bool,
) -> Iterator["OpenBatch"]:
    """Yield the columns of a day that is not packed, or of a part of one, in parts with other visitors."""
    day = span[0] // DAY_MS
    # Its columns may be of an earlier release, and all that is left of it.
    deleted_rows.show(connection, website, [day], (TRAFFIC,))
    quarters = _quarters(connection, website, day) if known.state == OPEN else None
    if quarters is not None and not with_data and 0 < quarters.sum() <= MAX_EVENTS:
        kept = days.get(_key(connection, website, day))
        if kept is not None and 0 <= quarters.sum() - kept.first.events <= max(MOST_NEW, kept.first.events // _PART):
            batch = _extended(connection, kept, span, known, quarters, days)
            if batch is not None:
                yield batch
                return
    (events, length) = connection.execute(*sql.size(website, day, with_data=with_data)).fetchone()
    parts = max(-(-events // MAX_EVENTS), -(-length // MAX_DATA))
    for number in range(parts):
        share = Share(number, parts)
        rows = rows_of(connection, website, day, share)
        if not len(rows.times):
            continue
        (last_id,) = connection.execute(*sql.last_id(website, day)).fetchone()
        is_kept = parts == 1 and quarters is not None and len(rows.times) == quarters.sum()
        first = _Arrived(known, np.array([len(rows.times)]) if quarters is None else quarters, last_id)
        yield OpenBatch(
            connection, OpenDay(website, day, share, rows, first, first), None, span, days if is_kept else None
        )


def _key(connection: sqlite3.Connection, website: int, day: int) -> tuple[int, int, int]:
    return website, day, row_changes(connection)


def _quarters(connection: sqlite3.Connection, website: int, day: int) -> Array:
    counts = np.zeros(_QUARTERS, np.int64)
    for quarter, events in connection.execute(*sql.quarters(website, day)):
        counts[quarter] = events
    return counts


def _extended(
    connection: sqlite3.Connection,
    kept: OpenDay,
    span: Span,
    known: rollup_state.Day,
    quarters: Array,
    days: Cache[OpenDay],
) -> "OpenBatch | None":
    """Return the columns of a day that was read before; None where it is to be read anew."""
    arrived, new = _arrived(connection, kept, known, quarters), None
    if arrived is None:
        return None
    if arrived.columns:
        new = _new(connection, kept, arrived)
        if new is None:
            return None
    kept.arrived, kept.new = arrived, new
    return OpenBatch(connection, kept, new, span, days)


def _arrived(
    connection: sqlite3.Connection, kept: OpenDay, known: rollup_state.Day, quarters: Array
) -> _Arrived | None:
    """Return what has arrived at a day that has these events in its quarter hours; None where it has other events as
    well."""
    before, total = kept.arrived, int(quarters.sum())
    if before.events > total:
        # Another query had a newer snapshot.
        before = kept.first
    is_same = before.known.version == known.version
    (changed,) = np.nonzero(before.quarters != quarters)
    if is_same and not len(changed):
        return before
    from_ms = kept.day * DAY_MS + int(changed[0]) * QUARTER_MS if is_same else 0
    names = dict.fromkeys(("id", "ts", "visitor", *before.columns))
    query = sql.events_after(kept.website, kept.day, [*names], before.last_id, from_ms)
    columns = dict(zip(names, arrays(connection, query), strict=True))
    if len(columns["id"]) != total - before.events:
        return None
    if before.events == total:
        return replace(before, known=known, quarters=quarters)
    if before.columns:
        columns = {name: np.concatenate([before.columns[name], column]) for name, column in columns.items()}
    return _Arrived(known, quarters, int(columns["id"].max()), columns)


def _new(connection: sqlite3.Connection, kept: OpenDay, arrived: _Arrived) -> _New | None:
    """Return what is new, given the events that have arrived; None where events and visits do not agree."""
    before = kept.new
    if before is not None and before.arrived.columns is arrived.columns:
        return before
    rows, visitors = kept.rows, arrived.columns["visitor"]
    these = np.unique(visitors)
    is_old = np.isin(rows.visitors, these)
    times = np.concatenate([rows.times[np.repeat(is_old, rows.counts)], arrived.columns["ts"]])
    visitors = np.concatenate([np.repeat(rows.visitors[is_old], rows.counts[is_old]), visitors])
    # Visits of a visitor do not overlap, so that this is their order. Of events of one time the older ones come first.
    order = np.lexsort((times, visitors))
    times, visitors = times[order], visitors[order]
    wanted = orjson.dumps(these.tolist()).decode()
    names = ("visitor", "start_ms", "pageviews", "events")
    query = sql.visits_of(kept.website, kept.day, names, wanted)
    visitor, starts, views, others = arrays(connection, query)
    counts = views + others
    begins = np.cumsum(counts) - counts
    if counts.sum() != len(order) or not (
        np.array_equal(visitors[begins], visitor) and np.array_equal(times[begins], starts)
    ):
        return None
    columns = {"pageviews": Column(views, None, True), "events": Column(others, None, True)}
    return _New(arrived, ~is_old, order, times, visitor, counts, wanted, columns)


class OpenBatch(Batch):
    """The columns of an open day: of the visitors without new events and, if any, of those with new ones."""

    def __init__(
        self, connection: sqlite3.Connection, kept: OpenDay, new: _New | None, span: Span, days: Cache[OpenDay] | None
    ) -> None:
        self._kept, self._new, self._kept_days = kept, new, days
        rows = kept.rows
        parts, last_ms = [(len(rows.counts), len(rows.times))], int(rows.times.max())
        self._events = len(rows.times)
        if new is not None:
            left = rows.counts[new.is_left]
            parts = [(len(left), int(left.sum())), (len(new.counts), len(new.order))]
            self._events = new.arrived.events
            last_ms = max(last_ms, int(new.times.max()))
        midnight_ms = kept.day * DAY_MS
        if span[0] == midnight_ms and span[1] > last_ms:
            # Such as today up to now.
            span = midnight_ms, midnight_ms + DAY_MS
        super().__init__(connection, kept.website, [Day(kept.day, *part, *span) for part in parts])

    @cached_property
    def data(self) -> tuple[Array, list[str | None]]:
        """The number of the text of event_data of each event, and the texts; the first is None."""
        ids = values_of(self.column("id")).take(self.event_codes("id"))
        codes, texts = texts_of(self._connection, self._website, self._kept.day, ids, self._kept.share)
        return codes, [None, *texts]

    def _read(self, name: str) -> Days:
        return Days.of(self._split(self._kept_column(name), name))

    def _kept_column(self, name: str) -> Column:
        """Return a column of the events that were read."""
        kept = self._kept
        events, column = kept.columns.get(name, (0, None))
        # A query with a newer snapshot may have read it meanwhile.
        if column is None or events > self._events:
            column = self._read_kept(name)
            kept.columns[name] = self._events, column
            if self._kept_days is not None:
                self._kept_days.put(_key(self._connection, kept.website, kept.day), kept)
        return column

    def _split(self, column: Column, name: str) -> list[Column]:
        """Return the parts of a column, given that of the events that were read."""
        if self._new is None:
            return [column]
        is_left = self._new.is_left if column.is_of_visits else self._is_left_of_events
        if name not in self._new.columns:
            self._new.columns[name] = self._of_new(self._new, column, name)
        return [column._replace(codes=column.codes[is_left]), self._new.columns[name]]

    @cached_property
    def _is_left_of_events(self) -> Array:
        return np.ones(0, bool) if self._new is None else np.repeat(self._new.is_left, self._kept.rows.counts)

    def _read_kept(self, name: str) -> Column:
        rows = self._kept.rows
        if (column := _computed(name, rows)) is not None:
            return column
        if name in ("pageviews", "events"):
            # While an import is undone, table visit has those of events that are deleted already.
            views = self._views()
            return Column(views if name == "pageviews" else rows.counts - views, None, True)
        if name in OF_VISITS:
            column_now = self._visits_now(name)
            return _column(name, column_now[self._places], None)
        query = sql.event_column(self._website, self._kept.day, name, self._kept.share, self._kept.first.last_id)
        return _column(name, numbers(self._connection, query)[rows.order], rows.counts)

    def _views(self) -> Array:
        """The pageviews of each visit that was read."""
        counts, types = self._kept.rows.counts, self._kept_column("type")
        is_view = is_one_of(values_of(types), list(PAGEVIEWS)).take(types.codes)
        of_events = np.repeat(is_view, counts) if types.is_of_visits else is_view
        views: Array = np.add.reduceat(of_events.astype(np.int64), np.cumsum(counts) - counts)
        return views

    def _visits_now(self, name: str) -> Array:
        query = sql.visit_column(self._website, self._kept.day, name, self._kept.share)
        return numbers(self._connection, query)

    @cached_property
    def _places(self) -> Array:
        """The places of the visits that were read among those of the day now. Those of visitors with new events, which
        may be others now, are not used."""
        visitors = self._visits_now("visitor")
        different = np.unique(visitors)
        now = np.searchsorted(different, visitors) << VISIT_BITS | self._visits_now("visit")
        rows = self._kept.rows
        wanted = np.searchsorted(different, rows.visitors) << VISIT_BITS | rows.visits
        places: Array = np.minimum(np.searchsorted(now, wanted), len(now) - 1)
        is_known = (now[places] == wanted) & (visitors[places] == rows.visitors)
        if not np.all(is_known if self._new is None else is_known[self._new.is_left]):
            raise damaged("an event has no visit: see `analytics-server verify`")
        return places

    def _of_new(self, new: _New, column: Column, name: str) -> Column:
        """Return a column of the visitors with new events, given that of the events that were read."""
        if (computed := _computed(name, new)) is not None:
            return computed
        if name in OF_VISITS:
            query = sql.visits_of(self._website, self._kept.day, [name], new.wanted)
            return _column(name, numbers(self._connection, query), None)
        codes = column.codes
        if column.is_of_visits:
            old = np.repeat(codes[~new.is_left], self._kept.rows.counts[~new.is_left])
        else:
            old = codes[~self._is_left_of_events]
        labels = column.values if column.values is not None else codes
        if name not in new.arrived.columns:
            new.arrived.columns[name] = self._of_arrived(new.arrived, name)
        return _column(name, np.concatenate([labels[old], new.arrived.columns[name]])[new.order], new.counts)

    def _of_arrived(self, arrived: _Arrived, name: str) -> Array:
        """Return a column of the events that have arrived, in the order in which the others were read."""
        query = sql.events_after(self._website, self._kept.day, ["id", name], self._kept.first.last_id, 0)
        ids, column = arrays(self._connection, query)
        by_id = np.argsort(ids)
        return column[by_id[np.searchsorted(ids, arrived.columns["id"], sorter=by_id)]]


def _computed(name: str, rows: Rows | _New) -> Column | None:
    """Return a column that follows from the order of events; None for others."""
    if name == "is_first":
        return Column(differs(rows.visitors).astype(np.int64), None, True)
    if name not in ("start_ms", "offset_ms", "duration_ms"):
        return None
    ends = np.cumsum(rows.counts)
    starts = rows.times[ends - rows.counts]
    if name == "duration_ms":
        return Column(rows.times[ends - 1] - starts, None, True)
    if name == "start_ms":
        return Column(starts % DAY_MS, None, True)
    return Column(rows.times - np.repeat(starts, rows.counts), None, False)


def _column(name: str, column: Array, counts: Array | None) -> Column:
    """Return a column of visits or, with the number of events of each visit, one of events."""
    if name in NUMBERS:
        return Column(column, None, counts is None)
    is_of_visits = counts is None
    if counts is not None:
        column, is_of_visits = of_visits(column, counts)
    values, codes = np.unique(column, return_inverse=True)
    return Column(codes.astype(np.min_scalar_type(len(values))), values, is_of_visits)


class OpenColumns(DayColumns):
    """A day without columns, or a part of one, with filters."""

    is_stored = False

    def __init__(
        self,
        connection: sqlite3.Connection,
        website: int,
        span: Span,
        known: rollup_state.Day,
        filters: Sequence[Condition],
        key: tuple[object, ...] | None,
        cache: ResultCache,
        *,
        with_data: bool,
    ) -> None:
        days = [Day(span[0] // DAY_MS, 0, 0, *span)]
        super().__init__(connection, website, days, filters, key, cache, with_data=with_data)
        self._known = known

    def _batches(self) -> Iterator[Batch]:
        days = self._cache.kept_days
        # Rows are read without a turn, for which others would wait.
        for batch in batches_of(
            self._connection, self._website, self.span, self._known, days, with_data=self._with_data
        ):
            check_interrupt()
            with self._turn():
                yield batch
