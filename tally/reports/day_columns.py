"""Figures of days by column: stored days (tally/columns/column_days.py), and those that are read into columns
(tally/reports/open_days.py).

The days of a query are read in batches of MAX_EVENTS events, whose columns are joined, and every operation is one of
numpy on whole columns, which releases the interpreter's lock. `take` and `compress` are used in place of brackets,
which take two to five times as long. A batch has its own numbers for visits, visitors and the values of each field, so
that values of different days are not mixed and visitors of days add up.

E is the set of traffic events of a website in [from, to) that match all filters. A filter on a field that is equal for
all events of a visit is decided for visits; only others need events. Conditions on event_data are decided for each
different text.
"""

import sqlite3
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from itertools import accumulate, chain, count
from typing import Any, Literal, NamedTuple

import numpy as np
import orjson

from tally.columns import statements
from tally.columns.format import Array, Column, Days, decoded_texts, differs, ids_of
from tally.columns.read import (
    Columns,
    Day,
    JoinedColumns,
    in_batches,
    is_one_of,
    is_wanted,
    numbers_in,
    one_after_another,
    values_of,
)
from tally.engine.values import STEP_FIELDS, Place, Span
from tally.events.json_scalars import key_of
from tally.events.validation import PAGEVIEWS
from tally.reports.cache import ResultCache
from tally.reports.sums import Sums
from tally.rollups.goal_days import COLUMNS, PART, millionths
from tally.storage.database import check_interrupt
from tally.storage.sql.behaviour import step_code
from tally.storage.sql.filters import Condition, matching_texts
from tally.storage.sql.goals import values_of_texts
from tally.timestamps import DAY_MS

# Texts of event_data that are parsed at once: a few megabytes.
_TEXTS = 10_000


class Batch(JoinedColumns):
    """The columns of the traffic of some stored days. Two of `days` may be parts of one day that have no visitor in
    common."""

    source = statements.TRAFFIC

    @cached_property
    def visits(self) -> int:
        """The number of visits."""
        return sum(day.visits for day in self.days)

    def _parts_of(self, days: Days) -> list[Array]:
        parts, is_of_visits = days.codes, all(days.is_of_visits)
        if any(days.is_of_visits) and not is_of_visits:
            ends = list(accumulate(day.visits for day in self.days))
            parts = [
                np.repeat(part, self.events_of_visit[end - day.visits : end]) if of_visits else part
                for part, of_visits, end, day in zip(parts, days.is_of_visits, ends, self.days, strict=True)
            ]
        return parts

    @cached_property
    def events_of_visit(self) -> Array:
        """The number of events of each visit."""
        return self.numbers("pageviews") + self.numbers("events")

    @cached_property
    def first_event(self) -> Array:
        """The first event of each visit."""
        events: Array = np.cumsum(self.events_of_visit) - self.events_of_visit
        return events

    @cached_property
    def visit_of_event(self) -> Array:
        """The visit of each event."""
        return _group_of_each(self.events_of_visit)

    @cached_property
    def visitor_of_visit(self) -> Array:
        """The visitor of each visit, as a number from 0 on."""
        return np.cumsum(self.numbers("is_first")) - 1

    @cached_property
    def day_of_visit(self) -> Array:
        """The position of each visit's day among `days`."""
        return np.repeat(np.arange(len(self.days)), [day.visits for day in self.days])

    @cached_property
    def start_ms(self) -> Array:
        """When each visit starts, in milliseconds since 1970."""
        midnights = np.array([day.day * DAY_MS for day in self.days])
        starts: Array = self.numbers("start_ms") + midnights.take(self.day_of_visit)
        return starts

    @cached_property
    def times(self) -> Array:
        """The timestamp of each event."""
        times: Array = self.start_ms.take(self.visit_of_event) + self.numbers("offset_ms")
        return times

    def is_pageview(self, events: Array | None = None) -> Array:
        """Return whether each of some events, or of all, counts as a pageview."""
        is_view = is_one_of(values_of(self.column("type")), list(PAGEVIEWS))
        is_pageview: Array = is_view.take(self.event_codes("type", events))
        return is_pageview

    def is_begun(self, visits: Array) -> Array:
        """Return whether each of some visits starts in its part of a day."""
        if not self.is_partial:
            return np.ones(len(visits), bool)
        starts, day = self.start_ms.take(visits), self.day_of_visit.take(visits)
        is_begun: Array = (starts >= self._parts[0].take(day)) & (starts < self._parts[1].take(day))
        return is_begun

    def begun(self, visits: Array) -> Array:
        """Return those of some visits that start in their part of a day."""
        return visits.compress(self.is_begun(visits)) if self.is_partial else visits

    @cached_property
    def is_within(self) -> Array:
        """Whether each event is in its part of a day."""
        from_ms, to_ms = self._parts
        day = self.day_of_visit.take(self.visit_of_event)
        return (self.times >= from_ms.take(day)) & (self.times < to_ms.take(day))

    @cached_property
    def _parts(self) -> tuple[Array, Array]:
        return np.array([day.from_ms for day in self.days]), np.array([day.to_ms for day in self.days])

    def condition(self, condition: Condition) -> tuple[Array, bool]:
        """Return which rows meet a condition, and whether these are visits."""
        wanted, column = self._wanted(condition)
        return is_wanted(wanted, column.codes), column.is_of_visits

    def meeting(self, conditions: Iterable[Condition], events: Array | None = None) -> Array:
        """Return the places, among some events or all of them, of those that meet some conditions."""
        places: Array | None = None
        for condition in conditions:
            rows = places if events is None else events if places is None else events.take(places)
            wanted, column = self._wanted(condition)
            (matching,) = np.nonzero(is_wanted(wanted, self._codes(column, rows)))
            places = matching if places is None else places.take(matching)
        return np.arange(len(self.visit_of_event) if events is None else len(events)) if places is None else places

    def _wanted(self, condition: Condition) -> tuple[Array, Column]:
        """Return which codes of a column meet a condition, and the column."""
        if condition.of is None:
            return self.wanted(condition), self.column(condition.column)
        codes, texts = self.data
        matching = numbers_in(self._connection, matching_texts(condition.of, orjson.dumps(texts).decode()))
        return _mask(len(texts), matching), Column(codes, None, False)

    @cached_property
    def data(self) -> tuple[Array, list[str | None]]:
        """The number of the text of event_data of each event, and the texts: of each day None, and then its own."""
        codes, sizes, texts = list[Array](), list[int](), list[str | None]()
        for content in self._contents("event_data"):
            part, more = decoded_texts(content)
            codes.append(part)
            sizes.append(1 + len(more))
            texts += None, *more
        return one_after_another(codes, accumulate(sizes, initial=0), np.min_scalar_type(len(texts))), texts

    def event_codes(self, name: str, events: Array | None = None) -> Array:
        """Return the codes of a column for some events, or for all."""
        return self._codes(self.column(name), events)

    def _codes(self, column: Column, events: Array | None) -> Array:
        rows = events
        if column.is_of_visits:
            rows = self.visit_of_event if events is None else self.visit_of_event.take(events)
        return column.codes if rows is None else column.codes.take(rows)


Value = tuple[Any, int, int]
"""A value of a property of event_data (`key_of`), its events and their visitors."""


class Matched(NamedTuple):
    """E in a batch: its visits, the pageviews and events of each in E, and the events; None where all of them are."""

    visits: Array
    pageviews: Array
    events: Array
    which: Array | None


class DayColumns:
    """Some stored days of a website, or parts of days, with filters.

    key: stands for these in the keys of cached results; None where results are not cached.
    with_data: whether event_data is read. is_stored: whether they are read from stored columns.
    """

    is_stored = True

    def __init__(
        self,
        connection: sqlite3.Connection,
        website: int,
        days: Sequence[Day],
        filters: Sequence[Condition],
        key: tuple[Any, ...] | None,
        cache: ResultCache,
        *,
        with_data: bool,
    ) -> None:
        self._connection, self._website, self._filters, self._cache = connection, website, filters, cache
        self._days, self._key, self._with_data = days, key, with_data

    @property
    def span(self) -> Span:
        """Return the time from the first day, or part of one, to the end of the last."""
        return self._days[0].from_ms, self._days[-1].to_ms

    def key(self, *what: Any) -> tuple[Any, ...] | None:
        """Return the key of a result, None if it is not cached."""
        return None if self._key is None else (*what, *self._key)

    def _turn(self) -> AbstractContextManager[None]:
        # Texts of event_data take up to a second, most of it under the interpreter's lock: others would wait.
        return nullcontext() if self._with_data else self._cache.turn()

    def _batches(self) -> Iterator[Batch]:
        for days in in_batches(self._days):
            check_interrupt()
            with self._turn():
                if len(days) == 1 and not days[0].is_whole:
                    # A part of a day, whose ends may move with every query: its columns are kept, not its figures.
                    key = ("columns", self._website, days[0].day, days[0].version)
                    columns = self._cache.kept_days.get(key) or Columns()
                    yield Batch(self._connection, self._website, days, columns)
                    self._cache.kept_days.put(key, columns)
                else:
                    yield Batch(self._connection, self._website, days)

    def _matched(self, batch: Batch) -> Matched:
        """Return E in a batch."""
        key = None
        if self._key is not None and batch.days[0].version is not None:
            website, filters, _ = self._key
            key = ("matched", website, filters, [(day.day, day.version) for day in batch.days])
        bits = np.frombuffer(self._cache.find(key, lambda: self._bits(batch)), np.uint8)
        if bits[0]:
            visits = _places(bits[1:], batch.visits)
            return Matched(visits, batch.numbers("pageviews").take(visits), batch.numbers("events").take(visits), None)
        which = _places(bits[1:], len(batch.visit_of_event))
        visit_of = batch.visit_of_event.take(which)
        views = np.bincount(visit_of.compress(batch.is_pageview(which)), minlength=batch.visits)
        events = np.bincount(visit_of, minlength=batch.visits)
        visits = np.flatnonzero(events != 0)
        return Matched(visits, views.take(visits), (events - views).take(visits), which)

    def _bits(self, batch: Batch) -> "array[int]":
        """Return 1 and a bit for each visit in E or, where events of a visit differ, 0 and a bit for each event."""
        batch.load(["pageviews", "events", *(condition.column for condition in self._filters if condition.of is None)])
        of_visits, of_events = np.ones(batch.visits, bool), [batch.is_within] if batch.is_partial else []
        for condition in self._filters:
            bits, is_of_visits = batch.condition(condition)
            if is_of_visits:
                of_visits &= bits
            else:
                of_events.append(bits)
        rows = of_visits.take(batch.visit_of_event) if of_events else of_visits
        for bits in of_events:
            rows &= bits
        return array("B", bytes([not of_events]) + np.packbits(rows).tobytes())

    def _begun(self, batch: Batch) -> Array:
        """Return the visits that start in a batch's parts of days and have an event in E."""
        return batch.begun(self._matched(batch).visits)

    def stats(self) -> list[int]:
        """Return visitors, pageviews and events of E; of the visits that start in the range and have an event in E
        their number, bounces, pageviews and duration in ms."""
        total = np.zeros(7, np.int64)
        for batch in self._batches():
            matched = self._matched(batch)
            visitors = np.count_nonzero(differs(batch.visitor_of_visit.take(matched.visits)))
            begun = batch.begun(matched.visits)
            figures = matched.pageviews, matched.events, *_visit_figures(batch, begun)
            views, events, *rest = (column.sum() for column in figures)
            total += [visitors, views, events, len(begun), *rest]
        return total.tolist()

    def newest(self, limit: int, before: Place) -> Array:
        """Return the places of the newest events of E before a place in the list of events, up to a limit.

        For one day: places are those among its events.
        """
        (batch,) = self._batches()
        which, _ = _events_of(batch, self._matched(batch))
        times = batch.times
        ids = ids_of(times, batch.numbers("first_id"), batch.numbers("id_step"))
        times, ids = times.take(which), ids.take(which)
        is_before = (times < before.ts) | ((times == before.ts) & (ids < before.id))
        is_before &= ids <= before.last_id
        which, times, ids = (column.compress(is_before) for column in (which, times, ids))
        newest: Array = which[np.lexsort((ids, times))[::-1][:limit]]
        return newest

    def came(self, which: Literal["first", "last"]) -> int:
        """Return the visitors whose first, or last, event of the day is in a part of a day, whatever the filters."""
        visitors = 0
        for batch in self._batches():
            begins = np.flatnonzero(batch.numbers("is_first"))
            if which == "first":
                times = np.minimum.reduceat(batch.start_ms, begins)
            else:
                times = np.maximum.reduceat(batch.start_ms + batch.numbers("duration_ms"), begins)
            visitors += int(np.count_nonzero((times >= self.span[0]) & (times < self.span[1])))
        return visitors

    def counts(self, fields: Sequence[str]) -> list[Array]:
        """Return visitors, pageviews and events by label of each field."""
        sums = [Sums(3) for _ in fields]
        for batch in self._batches() if fields else ():
            matched = self._matched(batch)
            for field, field_sums in zip(fields, sums, strict=True):
                column = batch.column(field)
                if column.is_of_visits:
                    codes, members = column.codes.take(matched.visits), batch.visitor_of_visit.take(matched.visits)
                    figures: Iterable[Array] = _totals(column, codes, matched.pageviews, matched.events)
                else:
                    which, members = _events_of(batch, matched)
                    codes = column.codes.take(which)
                    figures = _views_and_events(column, codes, batch.is_pageview(which))
                _add(field_sums, column, _distinct(column, codes, members), *figures)
        counts = {field: field_sums.counts for field, field_sums in zip(fields, sums, strict=True)}
        return [
            field_counts[:, field_counts[0] != 0] if field == "event_name" else field_counts
            for field, field_counts in counts.items()
        ]

    def visit_figures(self, field: str) -> Array:
        """Return visits, bounces, their pageviews and ms by label: of the visits that begin in the range and have an
        event with the value in E."""
        sums = Sums(4)
        for batch in self._batches():
            matched = self._matched(batch)
            column = batch.column(field)
            if column.is_of_visits:
                visits = matched.visits
                codes = column.codes.take(visits)
            else:
                which, _ = _events_of(batch, matched)
                codes, visits = _pairs(column.codes.take(which), batch.visit_of_event.take(which))
            is_begun = batch.is_begun(visits)
            figures = _visit_figures(batch, visits.compress(is_begun))
            _add(sums, column, *_totals(column, codes.compress(is_begun), None, *figures))
        return sums.counts

    def pages(self, field: str) -> Array:
        """Return visits, bounces, pageviews, ms, visitors and events by label of entry_page or exit_page."""
        sums = Sums(6)
        for batch in self._batches():
            visits, column = self._begun(batch), batch.column(field)
            codes = column.codes.take(visits)
            events = batch.numbers("events").take(visits)
            *figures, events = _totals(column, codes, None, *_visit_figures(batch, visits), events)
            _add(sums, column, *figures, _distinct(column, codes, batch.visitor_of_visit.take(visits)), events)
        return sums.counts

    def series(self, edges: Sequence[Span]) -> Array:
        """Return visitors, visits, pageviews and events by bucket, for buckets that tile the range."""
        starts, column = np.array([begin for begin, _ in edges]), _numbers_below(len(edges))
        sums = Sums(4)
        for batch in self._batches():
            matched = self._matched(batch)
            begun = batch.begun(matched.visits)
            buckets = _buckets(batch, starts)
            if buckets is not None:
                members, of_day = batch.visitor_of_visit.take(matched.visits), buckets.take(batch.day_of_visit)
                codes, begins = of_day.take(matched.visits), of_day.take(begun)
                figures: Iterable[Array] = _totals(column, codes, matched.pageviews, matched.events)
            else:
                which, members = _events_of(batch, matched)
                codes = _bucket_of(starts, batch.times.take(which))
                begins = _bucket_of(starts, batch.start_ms.take(begun))
                figures = _views_and_events(column, codes, batch.is_pageview(which))
            # A bucket may hold days of several batches and several days of one: visitors of days add up.
            _add(sums, column, _distinct(column, codes, members), *_totals(column, begins, None), *figures)
        return sums.counts

    def conversions(self, field: str, edges: Sequence[Span], value_name: str | None) -> Array:
        """Return the COLUMNS of tally/rollups/goal_days.py by label of a field, number of a bucket, or 0."""
        sums = Sums(len(COLUMNS))
        starts = np.array([begin for begin, _ in edges])
        for batch in self._batches():
            which, members = _events_of(batch, self._matched(batch))
            if field:
                column, codes = batch.column(field), batch.event_codes(field, which)
            else:
                column = _numbers_below(max(1, len(edges)))
                codes = _bucket_of(starts, batch.times.take(which)) if edges else np.zeros(len(which), np.int64)
            values: Array = np.zeros((3, len(which)), np.int64)
            if value_name is not None:
                texts_of, texts = batch.data
                rows = self._connection.execute(*values_of_texts(orjson.dumps(texts).decode(), value_name))
                amounts_of = [millionths(value) for (value,) in rows]
                parts = [(0, 0, 1) if amount is None else (*divmod(amount, PART), 0) for amount in amounts_of]
                values = np.array(parts, np.int64).T[:, texts_of[which]]
            events, *amounts = _totals(column, codes, None, *values)
            _add(sums, column, events, _distinct(column, codes, members), *amounts)
        return sums.counts

    def event_data(self, event_name: int, only: str | None) -> Iterator[tuple[int, int, dict[str, list[Value]]]]:
        """Yield the events of a name in some days, their visitors, and by property, or of one, its values."""
        for batch in self._batches():
            named = batch.meeting([Condition("event_name", [event_name], False)])
            which, members = _in_matched(batch, self._matched(batch), named.compress(~batch.is_pageview(named)))
            codes, texts = batch.data
            used, codes = np.unique(codes.take(which), return_inverse=True)
            # The numbers of the pairs of all texts, one text after another.
            numbers, values, sizes = _numbered_pairs([texts[text] or "{}" for text in used.tolist()], only)
            counts = sizes.take(codes)
            begins = (np.cumsum(sizes) - sizes).take(codes)
            places = np.repeat(begins - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
            column, codes = _numbers_below(len(numbers)), values.take(places)
            (events,) = _totals(column, codes, None)
            visitors = _distinct(column, codes, np.repeat(members, counts))
            values_of_names: dict[str, list[Value]] = {}
            for (name, value), *figures in zip(numbers, events.tolist(), visitors.tolist(), strict=True):
                values_of_names.setdefault(name, []).append((value, *figures))
            yield len(which), int(np.count_nonzero(differs(members))), values_of_names

    # --- the order of a visit's events

    def funnel(self, steps: Sequence[Sequence[Condition]]) -> list[tuple[int, ...]]:
        """Return (visits, visitors, ms) of each step, as tally/reports/funnels.py counts them."""
        total = np.zeros((len(steps), 3), np.int64)
        for batch in self._batches():
            visits, offsets = self._begun(batch), batch.numbers("offset_ms")
            places = np.empty(0, np.int64)
            for number, step in enumerate(steps):
                # The first event that meets the step, behind that of the step before.
                events, visit_of = _events_in(batch, visits)
                if number:
                    is_behind = events > places.take(visit_of)
                    events, visit_of = events.compress(is_behind), visit_of.compress(is_behind)
                hits = batch.meeting(step, events)
                hits = hits.compress(differs(visit_of.take(hits)))
                reached, hit_places = visit_of.take(hits), events.take(hits)
                spent = (offsets.take(hit_places) - offsets.take(places.take(reached))).sum() if number else 0
                visits, places = visits.take(reached), hit_places
                visitors = np.count_nonzero(differs(batch.visitor_of_visit.take(visits)))
                total[number] += [len(visits), visitors, spent]
        return [tuple(row) for row in total.tolist()]

    def journeys(self, chosen: int, is_next: bool, steps: int) -> Iterator[Array]:
        """Yield the journeys of tally/reports/journeys.py, one of each visit."""
        for batch in self._batches():
            visits = self._begun(batch)
            events, visit = _events_in(batch, visits) if len(visits) < batch.visits else (None, batch.visit_of_event)
            paths, names = (
                step_code(field, values_of(batch.column(field))).take(batch.event_codes(field, events))
                for field in STEP_FIELDS
            )
            codes = np.where(batch.is_pageview(events), paths, names)
            # Without steps that have no text, then without those that repeat the one before.
            (which,) = np.nonzero(codes > 1)
            visit, codes = visit.take(which), codes.take(which)
            is_new = differs(visit) | differs(codes)
            visit, codes = visit.compress(is_new), codes.compress(is_new)
            hits = np.flatnonzero(codes == chosen)
            hits = hits[differs(visit[hits])]
            journeys = np.zeros((1 + steps, len(hits)), np.int64)
            journeys[0] = 1
            for step in range(1, 1 + steps):
                places = hits + (step if is_next else -step)
                is_inside = (places >= 0) & (places < len(codes))
                is_inside[is_inside] = visit[places[is_inside]] == visit[hits[is_inside]]
                journeys[step, is_inside] = codes[places[is_inside]]
            yield journeys


def _numbered_pairs(texts: Sequence[str], only: str | None) -> tuple[dict[tuple[str, Any], int], Array, Array]:
    """Return the numbers of the pairs (property, key_of the value) in texts of event_data, those of all texts one after
    another, and how many each text has."""
    numbers: dict[tuple[str, Any], int] = {}
    parts, sizes = [np.empty(0, np.int64)], list[int]()
    for begin in range(0, len(texts), _TEXTS):
        data = orjson.loads(f"[{','.join(texts[begin : begin + _TEXTS])}]")
        if only is not None:
            data = [{only: properties[only]} if only in properties else {} for properties in data]
        values = list(chain.from_iterable(properties.values() for properties in data))
        if bool in set(map(type, values)):
            values = list(map(key_of, values))
        pairs = list(zip(chain.from_iterable(data), values, strict=True))
        new = [pair for pair in dict.fromkeys(pairs) if pair not in numbers]
        numbers.update(zip(new, count(len(numbers))))
        parts.append(np.fromiter(map(numbers.__getitem__, pairs), np.int64, len(pairs)))
        sizes += map(len, data)
    return numbers, np.concatenate(parts), np.array(sizes, np.int64)


def _events_of(batch: Batch, matched: Matched) -> tuple[Array, Array]:
    """Return the events of E, and the visitor of each."""
    if matched.which is not None:
        return matched.which, batch.visitor_of_visit.take(batch.visit_of_event.take(matched.which))
    events, visit_of = _events_in(batch, matched.visits)
    return events, batch.visitor_of_visit.take(matched.visits).take(visit_of)


def _events_in(batch: Batch, visits: Array) -> tuple[Array, Array]:
    """Return the events of some visits, and the place of the visit of each among them."""
    counts = batch.events_of_visit.take(visits)
    visit_of = _group_of_each(counts)
    # The first event of each visit, less the events of the visits before it among these.
    begins = batch.first_event.take(visits) - (np.cumsum(counts) - counts)
    return begins.take(visit_of) + np.arange(len(visit_of)), visit_of


def _in_matched(batch: Batch, matched: Matched, events: Array) -> tuple[Array, Array]:
    """Return those of some events that are in E, and the visitor of each."""
    visits = batch.visit_of_event.take(events)
    if matched.which is None:
        is_in = _mask(batch.visits, matched.visits).take(visits)
    else:
        is_in = _mask(len(batch.visit_of_event), matched.which).take(events)
    return events.compress(is_in), batch.visitor_of_visit.take(visits.compress(is_in))


def _mask(count: int, places: Array | list[int]) -> Array:
    """Return which of so many rows are at some places."""
    mask = np.zeros(count, bool)
    mask[places] = True
    return mask


def _places(bits: Array, count: int) -> Array:
    """Return which of so many bits are set. np.flatnonzero takes five times as long for integers."""
    return np.flatnonzero(np.unpackbits(bits, count=count).view(bool))


def _group_of_each(sizes: Array) -> Array:
    """Return the number of the group of each member of groups, none of them empty, of these sizes.

    np.repeat would take twice as long.
    """
    ends = np.cumsum(sizes)
    begins = np.zeros(ends[-1] if len(ends) else 0, np.int32)
    begins[ends[:-1]] = 1
    return np.cumsum(begins, out=begins)


def _numbers_below(end: int) -> Column:
    """Return a column whose codes are its values."""
    return Column(np.zeros(0, np.int64), np.arange(end), False)


def _bucket_of(starts: Array, times: Array) -> Array:
    return np.searchsorted(starts, times, "right") - 1


def _buckets(batch: Batch, starts: Array) -> Array | None:
    """Return the bucket of each day where every day lies in one bucket."""
    first = _bucket_of(starts, np.array([day.from_ms for day in batch.days]))
    last = _bucket_of(starts, np.array([day.to_ms - 1 for day in batch.days]))
    return first if np.array_equal(first, last) else None


def _visit_figures(batch: Batch, visits: Array) -> tuple[Array, Array, Array]:
    """Return whether it is a bounce, pageviews and duration of each of some visits."""
    views, events, ms = (batch.numbers(name).take(visits) for name in ("pageviews", "events", "duration_ms"))
    return (views == 1) & (events == 0), views, ms


def _add(sums: Sums, column: Column, *figures: Array) -> None:
    """Add figures, each a number for each of the values of a column, where there are any."""
    counts = np.array([values_of(column), *figures])
    sums.add(counts.compress(np.bitwise_or.reduce(counts[1:]) != 0, axis=1))


def _distinct(column: Column, codes: Array, members: Array) -> Array:
    """Return the number of distinct members of each value of a column, of rows with these codes."""
    return np.bincount(_pairs(codes, members)[0], minlength=len(values_of(column)))


def _totals(column: Column, codes: Array, *figures: Array | None) -> Iterator[Array]:
    """Yield the sum of each figure for each value of a column, of rows with these codes; None is 1 for each row."""
    for weights in figures:
        # Sums below 2^53, which doubles hold exactly.
        yield np.bincount(codes, weights=weights, minlength=len(values_of(column))).astype(np.int64)


def _views_and_events(column: Column, codes: Array, is_view: Array) -> tuple[Array, Array]:
    """Return the number of pageviews and of events of each value of a column, of events with these codes."""
    end = len(values_of(column))
    both = np.bincount(codes + end * is_view, minlength=2 * end)
    return both[end:], both[:end]


def _pairs(codes: Array, members: Array) -> tuple[Array, Array]:
    """Return the distinct pairs of a code and a member, in their order."""
    bits = int(members.max(initial=0)).bit_length()
    # numpy sorts whole numbers with the processor's vector instructions: those of 32 bits in half the time.
    kind = np.dtype(np.uint32 if bits + int(codes.max(initial=0)).bit_length() <= 32 else np.uint64)
    pairs: Array = codes.astype(kind) << bits | members.astype(kind)
    pairs.sort()
    pairs = pairs[differs(pairs)]
    return (pairs >> bits).astype(np.int64), (pairs & (1 << bits) - 1).astype(np.int64)
