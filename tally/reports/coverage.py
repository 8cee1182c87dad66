"""Coverage: which parts of a report's range are read from rollups, and which from raw rows.

E is the set of traffic events of a website in [from, to) that match all filters. A visitor number changes at midnight
UTC, so every figure is a sum over days or parts of days. `plan_of` divides the range into stretches read from rollups
(unfiltered, or days on which all events match the filters) and days read from raw rows (filtered, or stale). Raw rows
are read with one statement per day: the small set of distinct values stays in the CPU cache, and the deadline is
checked in between. Days on which no event has a filter's values are skipped.

A report that needs raw rows deleted by retention raises BeyondRetention.
"""

import sqlite3
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from tally.events.dimensions import FIELDS
from tally.rollups import rollup_state
from tally.rollups.rollup_state import FINAL, KEPT, STALE, Blocks, Day
from tally.storage.sql import events as sql
from tally.storage.sql.events import Query, Scope
from tally.timestamps import DAY_MS

Span = tuple[int, int]
"""[from, to) in milliseconds."""


class BeyondRetention(ValueError):
    """The report needs raw rows that retention has deleted; they exist from `from_ms` on."""

    def __init__(self, from_ms: int) -> None:
        super().__init__(from_ms)
        self.from_ms = from_ms


@dataclass(frozen=True, slots=True)
class Coverage:
    """State of the days of a scope, in one snapshot of the database."""

    connection: sqlite3.Connection
    scope: Scope
    known: Blocks
    gone: list[int]
    """Days whose raw rows are deleted."""

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
        """Return the day of a span that is one whole final day, otherwise None."""
        day = self.known.days[span[0] // DAY_MS]
        return day if day.state == FINAL and span[1] - span[0] == DAY_MS else None

    def complete(self, span: Span) -> Day | None:
        """Return the day of a span that is one whole day, rolled up to its end, otherwise None.

        Its version changes with each event that still arrives.
        """
        day = self.known.days[span[0] // DAY_MS]
        is_whole = span[1] - span[0] == DAY_MS == day.rolled_up_to_ms - span[0]
        return day if day.state != STALE and is_whole else None

    def raw(self, span: Span, filtered: bool = False) -> Scope:
        """Return a scope for the raw rows of a span. Raises BeyondRetention if they are deleted."""
        if any(span[0] < (day + 1) * DAY_MS and span[1] > day * DAY_MS for day in self.gone):
            raise BeyondRetention((self.number(sql.last_kept(self.website)) + 1) * DAY_MS)
        return Scope(self.website, *span, self.scope.filters if filtered else ())


class Plan(NamedTuple):
    """A range, divided into stretches read from rollups and days read from raw rows."""

    rolled: list[Span]
    raw: list[Span]


def check_retention(connection: sqlite3.Connection, scope: Scope) -> None:
    """Raise BeyondRetention if raw rows of the range are deleted, also for days without traffic."""
    row = connection.execute(*sql.last_kept(scope.website)).fetchone()
    if row and scope.from_ms < (row[0] + 1) * DAY_MS:
        raise BeyondRetention((row[0] + 1) * DAY_MS)


def coverage_of(connection: sqlite3.Connection, scope: Scope) -> Coverage:
    """Return the coverage of a scope; `connection` must be in a read transaction."""
    first, end = scope.from_ms // DAY_MS, -(-scope.to_ms // DAY_MS)
    known = rollup_state.blocks(connection, scope.website, first, end)
    return Coverage(connection, scope, known, [day for day, of in known.days.items() if of.state == KEPT])


def plan_of(coverage: Coverage) -> Plan:
    """Divide the range of a scope."""
    scope, days = coverage.scope, coverage.known.days
    whole, none = _covered(coverage) if scope.filters else (set(days), set())
    plan = Plan([], [])
    goes_on = False
    for day, known in days.items():
        span = (max(scope.from_ms, day * DAY_MS), min(scope.to_ms, (day + 1) * DAY_MS))
        if day in none:
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


def _covered(coverage: Coverage) -> tuple[set[int], set[int]]:
    """Return the days on which all events match the filters, and those on which none does."""
    days, filters = coverage.known.days, coverage.scope.filters
    if not days or any(field not in FIELDS for field, _ in filters):
        return set(), set()
    first, end = min(days), max(days) + 1
    folded = dict(coverage.rows(sql.folded(coverage.website, first, end)))
    whole, none = set(days), set()
    for field, values in filters:
        found = dict(coverage.rows(sql.matching(coverage.website, FIELDS.index(field), first, end, values)))
        whole &= {day for day in days if found.get(day, 0) == folded.get(day, 0)}
        none |= {day for day in days if day not in found}
    stale = {day for day, known in days.items() if known.state == STALE}
    partial = {
        day for day, known in days.items() if known.state != STALE and known.rolled_up_to_ms < (day + 1) * DAY_MS
    }
    whole = {day for day in whole - stale if day not in partial or _rest_matches(coverage, day, all_of_it=True)}
    none = {day for day in none - stale if day not in partial or _rest_matches(coverage, day, all_of_it=False)}
    return whole, none


def _rest_matches(coverage: Coverage, day: int, all_of_it: bool) -> bool:
    """Return whether all events, or none, match the filters in the part of a day that is not rolled up yet."""
    span = (coverage.known.days[day].rolled_up_to_ms, (day + 1) * DAY_MS)
    matching = coverage.number(sql.traffic(coverage.raw(span, filtered=True)))
    return matching == (coverage.number(sql.traffic(coverage.raw(span))) if all_of_it else 0)
