"""Coverage: which days of a report's range are counted from totals, from columns, from kept values and imported sums.

E is the set of traffic events of a website in [from, to) that match all filters. A visitor number changes at midnight
UTC, so every figure is a sum over days or parts of days. `plan_of` divides the range: stretches of which all events
count, whose totals and blocks of values are used; days counted with filters, or stale ones, which are counted by column
(`Coverage.columns`); and stale days without events, read from imported sums. Filters that compare parts of texts are
replaced by the labels that match, which are looked up once.

Of a day whose events retention has deleted only totals and values are left. It counts with filters where its values say
that all of its events match, and is omitted where none does; otherwise the report raises BeyondRetention.
"""

import sqlite3
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from tally.columns import column_days
from tally.engine.values import LABELLED, BeyondRetention, Scope, Span
from tally.events.dimensions import FIELDS, PAGES, field_number
from tally.events.filters import Filter, type_numbers
from tally.reports.cache import ResultCache
from tally.rollups import imported_sums, rollup_state
from tally.rollups.imported_sums import OF_DAY_MS
from tally.rollups.rollup_state import FINAL, IMPORTED, KEPT, OPEN, STALE, Blocks, Day
from tally.storage.sql import events as sql
from tally.storage.sql.filters import Condition, LabelFilter, Query, labels_of, labels_with
from tally.timestamps import DAY_MS, QUARTER_MS

if TYPE_CHECKING:
    from tally.reports.day_columns import DayColumns


@dataclass(frozen=True, slots=True)
class Coverage:
    """State of the days of a scope, in one snapshot of the database.

    Keys of cached results take the filters of `scope`, whose values are texts.
    """

    connection: sqlite3.Connection
    scope: Scope
    known: Blocks
    filters: tuple[Filter, ...]
    """The filters of the scope, those that compare parts of texts as labels."""
    cache: ResultCache

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
        versions = array("q")
        for begin_ms, _ in spans:
            versions.extend((begin_ms, self.known.days[begin_ms // DAY_MS].version))
        return versions.tobytes()

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

    def columns(self, spans: Sequence[Span], *, filtered: bool, with_data: bool = False) -> "list[DayColumns]":
        """Return the columns of some days, or parts of days; those without traffic have none.

        Apart from final days are those that may still change, and parts of days, whose ends may move with every
        query: these are not cached. with_data: whether event_data is read. Raises BeyondRetention.
        """
        wanted = {
            day: self.known.days[day] for day in sorted({span[0] // DAY_MS for span in spans}) if day in self.known.days
        }
        if any(known.state == KEPT for known in wanted.values()):
            raise BeyondRetention((self.number(sql.last_kept(self.website)) + 1) * DAY_MS)
        versions = {day: known.version for day, known in wanted.items() if rollup_state.has_ended(known)}
        conditions = conditions_of(self.connection, self.filters if filtered else ())
        with_data |= has_data(conditions)
        sizes = column_days.sizes(self.connection, self.website, versions, with_data=with_data)
        stored = [span for span in spans if span[0] // DAY_MS in sizes]
        final = [span for span in stored if self.final(span)]
        still_open = [span for span in stored if self.complete(span) and not self.final(span)]
        parts = [span for span in stored if not self.complete(span)]
        column_parts = []
        for some in (final, still_open, parts):
            if some:
                # numpy is imported with the first query that needs it.
                from tally.columns.read import Day
                from tally.reports.day_columns import DayColumns

                days = []
                for span in some:
                    day = span[0] // DAY_MS
                    visits, events, data_length = sizes[day]
                    days.append(Day(day, visits, events, *span, data_length, versions[day]))
                key = None if some is parts else self._key(some, filtered=filtered)
                column_parts.append(
                    DayColumns(self.connection, self.website, days, conditions, key, self.cache, with_data=with_data)
                )
        for span in spans:
            day = span[0] // DAY_MS
            if day in wanted and day not in sizes:
                from tally.reports.open_days import OpenColumns

                key = self._key([span], filtered=filtered) if self.complete(span) else None
                columns = OpenColumns(
                    self.connection, self.website, span, wanted[day], conditions, key, self.cache, with_data=with_data
                )
                column_parts.append(columns)
        return column_parts

    def totals_of(self, day: int) -> tuple[int, int, int]:
        """Return the visitors, pageviews and events of a day."""
        first = day * DAY_MS // QUARTER_MS
        visitors, views, events, *_ = self.rows(sql.totals(self.website, first, first + DAY_MS // QUARTER_MS, first))[0]
        return visitors, views, events

    def _key(self, spans: Sequence[Span], *, filtered: bool) -> tuple[Any, ...]:
        """Return what stands for whole days and the filters in the keys of cached results."""
        return self.website, self.scope.filters if filtered else (), self.versions(spans)

    def complete(self, span: Span) -> bool:
        """Return whether a span is one whole day whose version changes with each event that still arrives."""
        known = self.known.days[span[0] // DAY_MS]
        return span[1] - span[0] == DAY_MS and (known.state >= FINAL or rollup_state.has_ended(known))

    def up_to_midnight(self, span: Span) -> Span:
        """Return a span that ends with its day where the day has no event after it, such as today up to now."""
        midnight_ms = -(-span[1] // DAY_MS) * DAY_MS
        day_state = self.known.days.get(span[1] // DAY_MS)
        if span[1] == midnight_ms or day_state is None or day_state.state != OPEN:
            return span
        has_more = self.number(sql.has_events(self.website, span[1], midnight_ms))
        return span if has_more else (span[0], midnight_ms)


class Plan(NamedTuple):
    """The parts of a range: stretches that count without filters, days that count with filters or are stale, and days
    of imported sums that have no totals yet."""

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
    filters = tuple(resolved(connection, scope.website, filter_) for filter_ in scope.filters)
    return Coverage(connection, scope, known, filters, cache)


def resolved(connection: sqlite3.Connection, website: int, filter_: Filter) -> Filter:
    """Return a filter by parts of texts as labels: those that match or, where they are fewer, those that do not."""
    if filter_.is_exact or filter_.field not in LABELLED:
        return filter_
    matching, others = map(orjson.loads, connection.execute(*labels_of(website, filter_)).fetchone())
    if len(others) < len(matching):
        # The unset value matches no part of a text.
        return LabelFilter(filter_.field, filter_.operator, filter_.values, [0, *others], is_not=True)
    return LabelFilter(filter_.field, filter_.operator, filter_.values, matching, is_not=False)


def conditions_of(connection: sqlite3.Connection, filters: Iterable[Filter]) -> list[Condition]:
    """Return filters, after `resolved`, as conditions on columns."""
    conditions = []
    for filter_ in filters:
        if isinstance(filter_, LabelFilter):
            conditions.append(Condition(filter_.field, filter_.labels, filter_.is_not))
        elif filter_.field == "type":
            conditions.append(Condition("type", type_numbers(filter_), False))
        elif filter_.property_name is not None:
            conditions.append(Condition("event_data", (), False, filter_))
        else:
            labels = [label for (label,) in connection.execute(*labels_with(filter_.values))]
            conditions.append(Condition(filter_.field, labels, filter_.operator == "!="))
    return conditions


def conditions_in(connection: sqlite3.Connection, scope: Scope) -> list[Condition]:
    """Return the filters of a scope as conditions on columns."""
    return conditions_of(connection, (resolved(connection, scope.website, filter_) for filter_ in scope.filters))


def has_data(conditions: Iterable[Condition]) -> bool:
    """Return whether a condition is on a property of event_data."""
    return any(condition.column == "event_data" for condition in conditions)


def plan_of(coverage: Coverage) -> Plan:
    """Divide the range of a scope."""
    scope, days = coverage.scope, coverage.known.days
    whole, none = _matching_kept(coverage) if scope.filters else (set(days), set())
    unbuilt = _unbuilt_sums(coverage)
    plan = Plan([], [], sorted(unbuilt))
    goes_on = False
    for day, known in days.items():
        span = (max(scope.from_ms, day * DAY_MS), min(scope.to_ms, (day + 1) * DAY_MS))
        if known.state == IMPORTED:
            # The local day of its date may begin or end on another day, but it counts as a whole.
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


def _matching_kept(coverage: Coverage) -> tuple[set[int], set[int]]:
    """Return the days without events any more on which all of them matched the filters, and those on which none did."""
    kept = [day for day, known in coverage.known.days.items() if known.state == KEPT]
    whole, none = set[int](), set[int]()
    if not kept:
        return whole, none
    conditions = conditions_of(coverage.connection, coverage.filters)
    for day in kept:
        _, views, others = coverage.totals_of(day)
        matching = [_matches(coverage, day, views + others, condition) for condition in conditions]
        if any(matches is False for matches in matching):
            none.add(day)
        elif all(matching):
            whole.add(day)
    return whole, none


def _matches(coverage: Coverage, day: int, events: int, condition: Condition) -> bool | None:
    """Return whether all, or no, events of a day without them met a condition; None where that is not known."""
    if condition.column not in LABELLED or (condition.column not in FIELDS and 0 in condition.labels):
        return None
    from tally.columns.read import is_one_of
    from tally.rollups import value_blocks

    # Of pages only this is known: no visit begins or ends with one that no event of the day is on.
    field = field_number("pathname" if condition.column in PAGES else condition.column)
    counts = [*value_blocks.sums(coverage.connection, coverage.website, field, [(0, day)])]
    matching = sum(int(part[2:4, is_one_of(part[0], condition.labels)].sum()) for part in counts)
    if not counts and condition.column in FIELDS and 0 in condition.labels:
        # The dimension was added later.
        matching = events
    if condition.column in PAGES:
        return None if matching or condition.is_not else False
    if matching == events:
        return not condition.is_not
    return None if matching else condition.is_not
