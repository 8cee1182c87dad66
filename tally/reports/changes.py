"""What changed between two ranges: the values of fields whose figures moved most beyond chance. Pure functions.

Counts of visitors, or of those who converted, are compared as two Poisson counts over the lengths of the ranges, and
conversion rates as two rates (tally/reports/significance.py). All rows that are looked at are corrected together
(Holm), so that 95 of 100 comparisons in which nothing but chance moved anything name no row.

Fields that divide visitors in nearly the same way are a kind (KINDS), of which the field with the strongest row alone
is shown: a campaign that ends would otherwise be named by its channel, its referrer and each utm value.

Another field's value explains a row where it has most of the row's change, and its part in the row has changed beyond
chance. A value that has most of the visitors in any case explains nothing.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tally.engine.values import Top, TopRow
from tally.events.dimensions import FIELDS, PAGES
from tally.reports.significance import MIN_OF_A_KIND, holm, poisson_p_value, pooled_p_value

METRICS = ("visitors", "converted_visitors", "conversion_rate")
"""What may be compared; the last two are of a goal."""
KINDS = (
    ("channel", "referrer", "utm_source", "utm_medium", "utm_campaign", "utm_content", "utm_term"),
    ("pathname", "entry_page", "exit_page"),
    ("country", "region", "city", "language"),
    ("device", "browser", "browser_version", "os", "os_version"),
    ("platform", "app_version", "hostname"),
)
"""The first field of a kind is shown where several have equal rows. A field that is missing is a kind by itself."""
_OF_KINDS = tuple(field for kind in KINDS for field in kind)
LOOKED_AT = (*_OF_KINDS, *(field for field in (*FIELDS, *PAGES, "event_name") if field not in _OF_KINDS))
"""The fields whose values are compared."""
_EXPLAINING = ("channel", "referrer", "utm_campaign", "country", "language", "device", "browser", "os", "entry_page")
MAX_P_VALUE = 0.05
# Smaller changes are not worth a sentence, as they are no colour on the pages: one of ten.
_LEAST_PART = 10


class Move(NamedTuple):
    """A row that moved, and its p-value, corrected for all rows that were looked at."""

    field: str
    row: TopRow
    p_value: float


Explained = tuple[Move, tuple[str, TopRow] | None]
"""A move, and the field and row that explain it."""


class Measure(NamedTuple):
    """What is compared: a metric, and the lengths of the range before and of the range."""

    metric: str
    lengths: tuple[int, int]

    @property
    def is_rate(self) -> bool:
        """Whether rates are compared."""
        return self.metric == "conversion_rate"

    def counts(self, row: TopRow) -> tuple[int, int]:
        """Return the count before and now."""
        if self.metric == "visitors":
            return row.previous.visitors if row.previous else 0, row.figures.visitors
        before, now = row.previous_conversions, row.conversions
        return before.visitors if before else 0, now.visitors if now else 0

    def wholes(self, row: TopRow) -> tuple[int, int]:
        """Return what the counts are relative to: visitors, or the lengths of the ranges."""
        return (row.previous.visitors if row.previous else 0, row.figures.visitors) if self.is_rate else self.lengths

    def excess(self, row: TopRow) -> int:
        """Return the change relative to the wholes, multiplied by both; below 0 where there is less than before."""
        (before, now), (whole_before, whole_now) = self.counts(row), self.wholes(row)
        return now * whole_before - before * whole_now

    def p_value(self, row: TopRow) -> float | None:
        """Return the p-value of no change; None where there is too little for a test."""
        counts, wholes = self.counts(row), self.wholes(row)
        if not self.is_rate:
            return poisson_p_value(counts, wholes)
        return pooled_p_value(counts, wholes) if _is_enough(counts, wholes) else None

    def is_large(self, row: TopRow) -> bool:
        """Return whether the change is at least a tenth of what was before."""
        return abs(self.excess(row)) * _LEAST_PART >= self.counts(row)[0] * self.wholes(row)[1]


def rows_of(field: str, now: Top, before: Top) -> list[TopRow]:
    """Return the rows of a field that are among the first of either range; [] where all visitors have one value.

    `before` is the list of the range before, compared with the range: its figures are exchanged.
    """
    rows = {row.value: row for row in (*map(exchanged, before.rows), *now.rows)}
    unset = now.unset.figures.visitors or before.unset.figures.visitors
    # Those without an event are not in its list.
    return list(rows.values()) if len(rows) > 1 or unset or field == "event_name" else []


def exchanged(row: TopRow) -> TopRow:
    """Return a row with the figures of both ranges exchanged."""
    assert row.previous is not None
    return TopRow(row.value, row.previous, row.previous_conversions, row.figures, row.conversions)


def moves(rows: Iterable[tuple[str, TopRow]], measure: Measure) -> tuple[list[Move], int]:
    """Return the rows that moved beyond chance, the strongest first, one field of each kind, and how many were tested.

    rows: (field, row), in the order of LOOKED_AT. Nothing is tested where the range before has no visitors.
    """
    rows = list(rows)
    if not any(row.previous and row.previous.visitors for _, row in rows):
        return [], 0
    tested = [(field, row, p_value) for field, row in rows if (p_value := measure.p_value(row)) is not None]
    corrected = holm([p_value for *_, p_value in tested])
    listed = [Move(field, row, p_value) for (field, row, _), p_value in zip(tested, corrected, strict=True)]
    # The sort is stable: the first field of a kind comes first.
    listed.sort(key=lambda move: (move.p_value, -abs(measure.excess(move.row))))
    shown: dict[str, str] = {}
    return [
        move
        for move in listed
        if move.p_value < MAX_P_VALUE
        and measure.is_large(move.row)
        and shown.setdefault(_kind(move.field), move.field) == move.field
    ], len(tested)


def _kind(field: str) -> str:
    return next((kind[0] for kind in KINDS if field in kind), field)


def explaining(field: str) -> list[str]:
    """Return the fields whose values may explain a row of a field."""
    return [explaining_field for explaining_field in _EXPLAINING if _kind(explaining_field) != _kind(field)]


def explanation(moved: TopRow, candidates: Sequence[tuple[str, TopRow]], measure: Measure) -> tuple[str, TopRow] | None:
    """Return the field and row that explain most of the change of a row; None where none does.

    candidates: (field, row) of the row's visitors.
    """
    change, whole = measure.excess(moved), measure.counts(moved)
    possible = [
        (candidate, p_value)
        for candidate in candidates
        if 2 * measure.excess(candidate[1]) * change > change * change
        and _is_enough(measure.counts(candidate[1]), whole)
        and (p_value := pooled_p_value(measure.counts(candidate[1]), whole)) is not None
    ]
    if not possible:
        return None
    corrected = holm([p_value for _, p_value in possible])
    ranked = zip(corrected, ((-abs(measure.excess(row)), field, row) for (field, row), _ in possible), strict=True)
    p_value, (_, field, row) = min(ranked, key=lambda candidate: (candidate[0], candidate[1][0]))
    return (field, row) if p_value < MAX_P_VALUE else None


def without_repeated(explained: Sequence[Explained]) -> list[Explained]:
    """Return the moves without those that an earlier one explains and is explained by: both say the same."""
    said: set[tuple[str, ...]] = set()
    kept = []
    for move, by in explained:
        name = move.field, move.row.value
        cause = (by[0], by[1].value) if by else ()
        if (*cause, *name) not in said:
            said.add((*name, *cause))
            kept.append((move, by))
    return kept


def _is_enough(counts: Sequence[int], wholes: Sequence[int]) -> bool:
    """Return whether equal rates would give each of two wholes enough of both kinds for a test."""
    both, part = sum(wholes), sum(counts)
    return min(part, both - part) * min(wholes) >= MIN_OF_A_KIND * both > 0
