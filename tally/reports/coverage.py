"""Coverage: which parts of a report's range are read from rollups, and which from raw rows.

E is the set of traffic events of a website in [from, to) that match all filters. A visitor number changes at midnight
UTC, so every figure is a sum over days or parts of days. `plan_of` divides the range into stretches read from rollups
(unfiltered, or days on which all events match the filters), days read from raw rows (filtered, or stale), and stale
days without events, read from imported sums. Raw rows are read one day per statement: this is faster than one statement
for the range, and the deadline is checked after each. Of these, days whose events are stored by column as well are
counted there together, which is much faster (tally/reports/packed_days.py). Days on which no event has a filter's
values are skipped. Filters that compare parts of texts are replaced by the labels that match, which are looked up once.

A report that needs raw rows deleted by retention raises BeyondRetention.
"""

import sqlite3
from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from tally.engine.values import LABELLED, BeyondRetention, Scope, Span
from tally.events.dimensions import FIELDS, PAGES, VISIT_FIELDS, field_number
from tally.events.filters import Filter
from tally.reports.cache import ResultCache, packed
from tally.rollups import imported_sums, packed_days, rollup_state, unpacked_days
from tally.rollups.imported_sums import OF_DAY_MS
from tally.rollups.rollup_state import FINAL, IMPORTED, KEPT, OPEN, STALE, Blocks, Day
from tally.storage.sql import events as sql
from tally.storage.sql.day_columns import TRAFFIC
from tally.storage.sql.filters import Condition, LabelFilter, Query, labels_of, labels_with, type_numbers
from tally.timestamps import DAY_MS, QUARTER_MS

if TYPE_CHECKING:
    from tally.reports.open_days import OpenBatch
    from tally.reports.packed_days import PackedDays


# A statement takes 0.2 ms to read so many labels; of more, those of its day are selected first.
_MAX_LABELS = 1_000
# Of a label on a day, 0.7 µs each. Beyond that only days without events are checked: others are counted sooner.
_MAX_LOOK_UPS = 20_000


MIN_EVENTS = 2_000
"""An open day with so many events is kept in memory. Statements take 0.3 to 1 µs an event: fewer are soon counted."""
MAX_EVENTS = 250_000
"""The most events of such a day. While it is read, an event takes 100 bytes."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """State of the days of a scope, in one snapshot of the database.

    Keys of cached results take the filters of `scope`, whose values are texts.
    """

    connection: sqlite3.Connection
    scope: Scope
    known: Blocks
    deleted_days: list[int]
    """Days whose raw rows are deleted."""
    filters: tuple[Filter, ...]
    """The filters of the scope, those that compare parts of texts as labels."""
    cache: ResultCache
    _open_batches: "dict[Span, OpenBatch | None]" = field(default_factory=dict)

    @property
    def website(self) -> int:
        """Return the number of the website."""
        return self.scope.website

    def rows(self, query: Query) -> list[tuple[Any, ...]]:
        """Return all rows of a query."""
        return self.connection.execute(*query).fetchall()

    def number(self, query: Query) -> int:
        """Return the single number that a query selects."""
        return int(self.connection.execute(*query).fetchone()[0])

    def final_from(self, first: int) -> int:
        """Return the first day from `first` on that is not final, or the end of the range."""
        open_days = (day for day, known in self.known.days.items() if day >= first and known.state < FINAL)
        return next(open_days, -(-self.scope.to_ms // DAY_MS))

    def version_of(self, first: int, end: int) -> int:
        """Return the sum of the versions of the days in [first, end)."""
        return sum(known.version for day, known in self.known.days.items() if first <= day < end)

    def versions(self, spans: Iterable[Span]) -> bytes:
        """Return whole days with their versions as bytes, for a cache key.

        A sum of versions would not do: other days with other versions may have the same sum.
        """
        found = array("q")
        for begin_ms, _ in spans:
            found.extend((begin_ms, self.known.days[begin_ms // DAY_MS].version))
        return found.tobytes()

    def final(self, span: Span) -> Day | None:
        """Return the day of a span that is one whole final day, or one of imported sums, otherwise None."""
        day = self.known.days[span[0] // DAY_MS]
        return day if day.state in (FINAL, IMPORTED) and span[1] - span[0] == DAY_MS else None

    def is_imported(self, span: Span) -> bool:
        """Return whether a span is a day of imported sums."""
        return self.known.days[span[0] // DAY_MS].state == IMPORTED

    def counts_sums_of(self, day: int) -> bool:
        """Return whether a day of imported sums counts: it is within the whole days of the range, without filters."""
        first_ms, end_ms = self.scope.whole_days or (0, 0)
        return not self.scope.filters and first_ms <= day * DAY_MS + OF_DAY_MS < end_ms

    def packed(
        self, spans: Sequence[Span], *, filtered: bool, with_data: bool = False
    ) -> "tuple[list[PackedDays], list[Span]]":
        """Return those of some days, or parts of days, that are stored by column, and the others.

        Apart from final days are those that may still change, and parts of days, whose ends may move with every
        query: these are not cached. with_data: whether event_data is read.
        """
        wanted = {span[0] // DAY_MS: self.known.days[span[0] // DAY_MS] for span in spans}
        versions = {day: known.version for day, known in wanted.items() if rollup_state.is_rolled_up(day, known)}
        own = conditions_of(self.connection, self.filters if filtered else ())
        with_data |= has_data(own)
        sizes = packed_days.sizes(self.connection, self.website, versions, with_data=with_data)
        stored = [span for span in spans if span[0] // DAY_MS in sizes]
        final = [span for span in stored if self.final(span)]
        still_open = [span for span in stored if self.complete(span) and not self.final(span)]
        parts = [span for span in stored if not self.complete(span)]
        found = []
        for some in (final, still_open, parts):
            if some:
                # numpy is imported with the first query that needs it.
                from tally.reports.joined_columns import Day
                from tally.reports.packed_days import PackedDays

                days = []
                for span in some:
                    day = span[0] // DAY_MS
                    visits, events, data_length = sizes[day]
                    days.append(Day(day, visits, events, *span, data_length, versions[day]))
                key = None if some is parts else self._key(some, filtered=filtered)
                found.append(PackedDays(self.connection, self.website, days, own, key, self.cache, with_data=with_data))
        rest = [span for span in spans if span[0] // DAY_MS not in sizes]
        # Without filters statements count visits, which takes less than reading what has arrived.
        batches = {span: self._open_batch(span) for span in rest if own and not with_data}
        opened = {span: batch for span, batch in batches.items() if batch is not None}
        for span, batch in opened.items():
            from tally.reports.open_days import OpenColumns

            key = self._key([span], filtered=filtered) if self.complete(span) else None
            found.append(OpenColumns(self.connection, batch, own, key, self.cache))
        return found, [span for span in rest if span not in opened]

    def _key(self, spans: Sequence[Span], *, filtered: bool) -> tuple[Any, ...]:
        """Return what stands for whole days and the filters in the keys of cached results."""
        return self.website, self.scope.filters if filtered else (), self.versions(spans)

    def _open_batch(self, span: Span) -> "OpenBatch | None":
        """Return the columns of a day that is not packed, or of a part of one; None where its rows are to be read."""
        known = self.known.days[span[0] // DAY_MS]
        if known.state != OPEN:
            return None
        if span not in self._open_batches:
            first = span[0] // DAY_MS * (DAY_MS // QUARTER_MS)
            end = first + DAY_MS // QUARTER_MS
            _, views, others, *_ = self.rows(sql.totals(self.website, first, end, end))[0]
            batch = None
            if MIN_EVENTS <= views + others <= MAX_EVENTS:
                from tally.reports.open_days import open_batch

                batch = open_batch(self.connection, self.website, span, known, views + others, self.cache.kept_days)
            self._open_batches[span] = batch
        return self._open_batches[span]

    def complete_day(self, span: Span) -> bool:
        """Return whether the values of the day of a span, or of which it is a part, are rolled up to its end."""
        day, known = span[0] // DAY_MS, self.known.days.get(span[0] // DAY_MS)
        return known is not None and known.state != STALE and known.rolled_up_to_ms == (day + 1) * DAY_MS

    def complete(self, span: Span) -> Day | None:
        """Return the day of a span that is one whole day, rolled up to its end, otherwise None.

        Its version changes with each event that still arrives.
        """
        day = self.known.days[span[0] // DAY_MS]
        is_whole = span[1] - span[0] == DAY_MS == day.rolled_up_to_ms - span[0]
        return day if day.state != STALE and is_whole else None

    def raw(self, span: Span, filtered: bool = False) -> Scope:
        """Return a scope for the raw rows of a span. Raises BeyondRetention if they are deleted.

        The rows of a day that has only columns are seen by the statements of this snapshot from then on.

        The beginning of a day after which the day has no event is widened to the whole day, such as today up to now:
        figures of whole visits are then counted from visits alone.
        """
        if any(span[0] < (day + 1) * DAY_MS and span[1] > day * DAY_MS for day in self.deleted_days):
            raise BeyondRetention((self.number(sql.last_kept(self.website)) + 1) * DAY_MS)
        from_ms, to_ms = span
        unpacked_days.show(self.connection, self.website, self._final_days(span), (TRAFFIC,))
        midnight_ms = from_ms + DAY_MS
        if from_ms % DAY_MS == 0 and to_ms < midnight_ms:
            is_rest_empty = not self.rows(sql.visitors_between(self.website, to_ms, midnight_ms, 1))
            to_ms = midnight_ms if is_rest_empty else to_ms
        filters = tuple(self._of_day(of, span) for of in self.filters) if filtered else ()
        return Scope(self.website, from_ms, to_ms, filters)

    def _final_days(self, span: Span) -> list[int]:
        """Return the final days in which a span begins and ends: others have their rows."""
        days = [day for day in {span[0] // DAY_MS, (span[1] - 1) // DAY_MS} if day in self.known.days]
        return [day for day in days if self.known.days[day].state == FINAL]

    def edge(self, span: Span) -> "PackedDays | None":
        """Return the columns of a part of a day, without filters, where these are all that is left of it."""
        day = span[0] // DAY_MS
        if not self._final_days(span) or not unpacked_days.without_rows(self.connection, self.website, day, day):
            return None
        found, _ = self.packed([span], filtered=False)
        return found[0] if found else None

    def _of_day(self, of: Filter, span: Span) -> Filter:
        """Return a filter with the labels of a day alone, where it has many and the day's are known."""
        if not isinstance(of, LabelFilter) or len(of.labels) <= _MAX_LABELS or not self.complete_day(span):
            return of
        if of.field in PAGES or (of.field in VISIT_FIELDS and self.known.days[span[0] // DAY_MS].state < FINAL):
            return of
        values = self.rows(sql.values_of_day(self.website, field_number(of.field), span[0] // DAY_MS))
        return replace(of, labels=sorted({value for (value,) in values}.intersection(of.labels)))


class Plan(NamedTuple):
    """A range, divided into stretches read from rollups, days read from raw rows, and days read from imported sums.

    The days of `sums` are those of imported sums that are not rolled up yet.
    """

    rolled: list[Span]
    raw: list[Span]
    sums: list[int]


def check_retention(connection: sqlite3.Connection, scope: Scope) -> None:
    """Raise BeyondRetention if raw rows of the range are deleted, also for days without traffic."""
    row = connection.execute(*sql.last_kept(scope.website)).fetchone()
    if row and scope.from_ms < (row[0] + 1) * DAY_MS:
        raise BeyondRetention((row[0] + 1) * DAY_MS)


def coverage_of(connection: sqlite3.Connection, scope: Scope, cache: ResultCache) -> Coverage:
    """Return the coverage of a scope; `connection` must be in a read transaction."""
    first, end = scope.from_ms // DAY_MS, -(-scope.to_ms // DAY_MS)
    known = rollup_state.blocks(connection, scope.website, first, end)
    deleted_days = [day for day, of in known.days.items() if of.state == KEPT]
    filters = tuple(resolved(connection, scope.website, of) for of in scope.filters)
    return Coverage(connection, scope, known, deleted_days, filters, cache)


def resolved(connection: sqlite3.Connection, website: int, of: Filter) -> Filter:
    """Return a filter by parts of texts as labels: those that match or, where they are fewer, those that do not."""
    if of.is_exact or of.field not in LABELLED:
        return of
    matching, others = map(orjson.loads, connection.execute(*labels_of(website, of)).fetchone())
    if len(others) < len(matching):
        # The unset value matches no part of a text.
        return LabelFilter(of.field, of.operator, of.values, [0, *others], is_not=True)
    return LabelFilter(of.field, of.operator, of.values, matching, is_not=False)


def conditions_of(connection: sqlite3.Connection, filters: Iterable[Filter]) -> list[Condition]:
    """Return filters, after `resolved`, as conditions on columns."""
    found = []
    for of in filters:
        if isinstance(of, LabelFilter):
            found.append(Condition(of.field, of.labels, of.is_not))
        elif of.field == "type":
            found.append(Condition("type", type_numbers(of), False))
        elif of.property_name is not None:
            found.append(Condition("event_data", (), False, of))
        else:
            labels = [label for (label,) in connection.execute(*labels_with(of.values))]
            found.append(Condition(of.field, labels, of.operator == "!="))
    return found


def conditions_in(connection: sqlite3.Connection, scope: Scope) -> list[Condition]:
    """Return the filters of a scope as conditions on columns."""
    return conditions_of(connection, (resolved(connection, scope.website, of) for of in scope.filters))


def has_data(conditions: Iterable[Condition]) -> bool:
    """Return whether a condition is on a property of event_data."""
    return any(one.column == "event_data" for one in conditions)


def plan_of(coverage: Coverage) -> Plan:
    """Divide the range of a scope."""
    scope, days = coverage.scope, coverage.known.days
    whole, none = _covered(coverage) if scope.filters else (set(days), set())
    unbuilt = _unbuilt_sums(coverage)
    plan = Plan([], [], sorted(unbuilt))
    goes_on = False
    for day, known in days.items():
        span = (max(scope.from_ms, day * DAY_MS), min(scope.to_ms, (day + 1) * DAY_MS))
        if known.state == IMPORTED:
            # The local day of its date may begin or end on another UTC day, but it counts as a whole.
            span = day * DAY_MS, (day + 1) * DAY_MS
        if day in none or day in unbuilt or (known.state == IMPORTED and not coverage.counts_sums_of(day)):
            goes_on = False
        elif day not in whole or known.state == STALE:
            plan.raw.append(span)
            goes_on = False
        elif goes_on:
            # Days without traffic in between do not matter.
            plan.rolled[-1] = (plan.rolled[-1][0], span[1])
        else:
            plan.rolled.append(span)
            goes_on = True
    return plan


def _unbuilt_sums(coverage: Coverage) -> set[int]:
    """Return the stale days that count from imported sums."""
    days = coverage.known.days.items()
    stale = [day for day, known in days if known.state == STALE and coverage.counts_sums_of(day)]
    return imported_sums.used(coverage.connection, coverage.website, stale) if stale else set()


def days_of(coverage: Coverage, stretches: Iterable[Span]) -> Iterator[Span]:
    """Yield the days with traffic, or parts of them, in some stretches."""
    for from_ms, to_ms in stretches:
        for day in coverage.known.days:
            span = max(from_ms, day * DAY_MS), min(to_ms, (day + 1) * DAY_MS)
            if span[0] < span[1]:
                yield span


def _covered(coverage: Coverage) -> tuple[set[int], set[int]]:
    """Return the days on which all events match the filters, and those on which none does."""
    days = coverage.known.days
    counted = [of for of in coverage.filters if of.field in FIELDS or _is_of_names(of) or _is_of_pages(of)]
    if not days or not counted:
        return set(), set()
    folded = dict(coverage.rows(sql.folded(coverage.website, days)))
    # Of other fields no counts are known.
    whole = set(days) if len(counted) == len(coverage.filters) else set()
    none: set[int] = set()
    for of in counted:
        number = field_number("pathname" if of.field in PAGES else of.field)
        wanted: Collection[int] = days
        if isinstance(of, LabelFilter):
            wanted, found, is_not = *_days_with(coverage, number, of), of.is_not
        else:
            found, is_not = (
                dict(coverage.rows(sql.matching(coverage.website, number, wanted, of.values))),
                of.operator == "!=",
            )
        all_of_them = {day for day in wanted if found.get(day, 0) == folded.get(day, 0)}
        none_of_them = {day for day in wanted if day not in found}
        if of.field in PAGES:
            # No visit begins or ends with a page that no event of the day is on. More is not known.
            whole, none = set(), none | none_of_them
            continue
        whole &= none_of_them if is_not else all_of_them
        none |= all_of_them if is_not else none_of_them
    # Fields of visits are in rollup once a day is final.
    least = FINAL if coverage.scope.of_visits else STALE + 1
    unknown = {day for day, known in days.items() if known.state < least}
    partial = {
        day for day, known in days.items() if known.state >= least and known.rolled_up_to_ms < (day + 1) * DAY_MS
    }
    whole = {day for day in whole - unknown if day not in partial or _rest_matches(coverage, day, all_of_it=True)}
    none = {day for day in none - unknown if day not in partial or _rest_matches(coverage, day, all_of_it=False)}
    return whole, none


def _days_with(coverage: Coverage, number: int, of: LabelFilter) -> tuple[Collection[int], dict[int, int]]:
    """Return the days on which labels are looked up, and the events with one of them on those that have any.

    These are final days, so that what is found is cached: it does not change with labels that a day does not have.
    """
    final = [day for day, known in coverage.known.days.items() if known.state >= FINAL]
    if len(final) * len(of.labels) > _MAX_LOOK_UPS:
        final = coverage.deleted_days
    versions = coverage.versions((day * DAY_MS, 0) for day in final)
    key = ("matching", coverage.website, of.field, of.operator, of.values, of.is_not, versions)

    def look_up() -> "array[int]":
        return packed(coverage.rows(sql.matching_labels(coverage.website, number, final, of.labels)))

    numbers = iter(coverage.cache.find(key, look_up) if final else ())
    return final, dict(zip(numbers, numbers, strict=True))


def _is_of_names(of: Filter) -> bool:
    """Return whether a filter is about names of events alone: in the rollup the unset name stands for all traffic."""
    if of.field != "event_name":
        return False
    return 0 not in of.labels if isinstance(of, LabelFilter) else "" not in of.values


def _is_of_pages(of: Filter) -> bool:
    """Return whether a filter is for some entry or exit pages."""
    if of.field not in PAGES:
        return False
    return (
        not of.is_not and 0 not in of.labels
        if isinstance(of, LabelFilter)
        else of.operator == "=" and "" not in of.values
    )


def _rest_matches(coverage: Coverage, day: int, all_of_it: bool) -> bool:
    """Return whether all events, or none, match the filters in the part of a day that is not rolled up yet."""
    span = (coverage.known.days[day].rolled_up_to_ms, (day + 1) * DAY_MS)
    matching = coverage.number(sql.traffic(coverage.raw(span, filtered=True)))
    return matching == (coverage.number(sql.traffic(coverage.raw(span))) if all_of_it else 0)
