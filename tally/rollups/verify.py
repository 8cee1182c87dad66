"""Whether totals and rollups are what the raw rows say: every one counted anew and compared.

A day that is stale is passed over (no question uses it), and so is one whose raw rows are gone (there is nothing to
count it from); both are told. Each day is compared in one snapshot, so events may arrive meanwhile.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tally.rollups import experiments as trials
from tally.rollups import field_values, rollup_state
from tally.rollups import heatmaps_verify as heat_audit
from tally.rollups import totals as moments
from tally.rollups import visit_pages as visit_days
from tally.rollups import web_vitals as vital_days
from tally.rollups.field_values import ALL
from tally.rollups.rollup_state import KEPT, LEVELS, STALE
from tally.storage.database import snapshot
from tally.storage.sql import events as queries

_OF_MOMENT = (
    "/* verify.of_moment */ select quarter / 96 from total_15m"
    " where website = ? and quarter >= 96 * ? order by quarter limit 1"
)
_OF_EVENT = (
    "/* verify.of_event */ select ts / 86400000 from event where website = ? and ts >= 86400000 * ? order by ts limit 1"
)
_OF_ROLLUP = (
    "/* verify.of_rollup */ select block from rollup"
    " where website = ? and field = ? and level = 0 and block >= ? order by block limit 1"
)


_OF_VITALS = (
    "/* verify.of_vitals */ select ts / 86400000 from web_vitals"
    " where website = ? and ts >= 86400000 * ? order by ts limit 1"
)
_OF_HISTOGRAM = (
    "/* verify.of_histogram */ select block from web_vitals_histogram"
    " where website = ? and breakdown = 0 and level = 0 and block >= ? order by block limit 1"
)


_OF_AB = (
    "/* verify.of_ab */ select ts / 86400000 from experiment_event where website = ?"
    " and ts >= 86400000 * ? order by ts limit 1"
)
_OF_TRIAL = "/* verify.of_trial */ select day from experiment_total where website = ? and day >= ? order by day limit 1"
HISTOGRAMS, TRIALS, HEATMAPS = "histograms of web vitals", "counts of experiments", "sums or counts of heatmaps"
PAGES = "entry and exit pages"
"""The faults of a day, or block of days, whose histograms, counts, sums or pages are wrong."""


class Verdict(NamedTuple):
    """What was found of a day or block of days: what is wrong, or why it was passed over; both '' where it is right."""

    level: int
    block: int
    fault: str = ""
    passed_over: str = ""

    @property
    def first_day(self) -> int:
        """The block's first UTC day."""
        return self.block << self.level


def verdicts(connection: sqlite3.Connection, website: int) -> Iterator[Verdict]:
    """Compares a website's days, oldest first, and then the blocks above them."""
    for day in sorted(_days(connection, website)):
        yield _in_snapshot(connection, website, 0, day)
    for level in LEVELS[1:]:
        blocks = connection.execute(
            "/* verify.blocks */ select block from rollup_state"
            " where website = ? and level = ? and block >= 0 order by block",
            (website, level),
        ).fetchall()
        for (block,) in blocks:
            yield _in_snapshot(connection, website, level, block)
    yield from _pages(connection, website)
    row = connection.execute(*queries.last_kept(website)).fetchone()
    last_kept = -1 if row is None else row[0]
    for day in sorted({*_lookups(connection, _OF_VITALS, website), *_lookups(connection, _OF_HISTOGRAM, website)}):
        wrong = _vitals(connection, website, day, is_gone=day <= last_kept)
        yield from (wrong,) if wrong else ()
    for day in sorted({*_lookups(connection, _OF_AB, website), *_lookups(connection, _OF_TRIAL, website)}):
        if day > last_kept and not _is_trial_right(connection, website, day):
            yield Verdict(0, day, TRIALS)
    yield from (Verdict(*place, HEATMAPS) for place in sorted(_heatmaps(connection, website)))


def _days(connection: sqlite3.Connection, website: int) -> set[int]:
    """The days that anything is known of, be it events, totals or values."""
    statement = "/* verify.days */ select block from rollup_state where website = ? and level = 0 and block >= 0"
    days = {row[0] for row in connection.execute(statement, (website,))}
    days.update(_lookups(connection, _OF_MOMENT, website))
    days.update(_lookups(connection, _OF_EVENT, website))
    for field in range(ALL + 1):
        days.update(_lookups(connection, _OF_ROLLUP, website, field))
    return days


def _lookups(connection: sqlite3.Connection, statement: str, *place: int) -> Iterator[int]:
    """The days that a table has rows of: one lookup each, rather than a look at every row."""
    day = -1
    while row := connection.execute(statement, (*place, day + 1)).fetchone():
        day = row[0]
        yield day


def _in_snapshot(connection: sqlite3.Connection, website: int, level: int, block: int) -> Verdict:
    with snapshot(connection):
        return _block(connection, website, level, block) if level else _day(connection, website, block)


def _day(connection: sqlite3.Connection, website: int, day: int) -> Verdict:
    known = rollup_state.day_state(connection, website, day)
    if known is None:
        return Verdict(0, day, "the record")
    if known.state == STALE:
        return Verdict(0, day, passed_over="to be built")
    if known.state == KEPT:
        return Verdict(0, day, passed_over="its events are gone, its rollups are the data")
    if _totals(connection, website, day) != _without_zeros(moments.counted(connection, website, day)):
        return Verdict(0, day, "totals")
    for field in range(ALL + 1):
        counted = field_values.count_day(connection, website, day, field, known.rolled_up_to_ms)
        if sorted(counted) != _values(connection, website, field, 0, (day,)):
            return Verdict(0, day, f"values of {field_values.field_name(field)}")
    return Verdict(0, day)


def _block(connection: sqlite3.Connection, website: int, level: int, block: int) -> Verdict:
    below = LEVELS[LEVELS.index(level) - 1]
    for field in range(ALL + 1):
        step = level - below
        parts = _values(connection, website, field, below, range(block << step, (block + 1) << step))
        found = _values(connection, website, field, level, (block,))
        if parts != found:
            return Verdict(level, block, f"values of {field_values.field_name(field)}")
    return Verdict(level, block)


def _pages(connection: sqlite3.Connection, website: int) -> Iterator[Verdict]:
    """What is wrong with entry and exit pages, lowest blocks first."""
    statement = "/* verify.built */ select block from rollup_state where website = ? and level = 0 and block >= 0"
    days = [day for (day,) in connection.execute(statement, (website,))]
    for level, block in sorted(visit_days.built(connection, website, days)):
        with snapshot(connection):
            known = None if level else rollup_state.day_state(connection, website, block)
            # The pages of a day whose events are gone are the data.
            if (
                (known is None or known.state != KEPT)
                and visit_days.version(connection, website, level, block) is not None
                and not visit_days.is_right(connection, website, level, block)
            ):
                yield Verdict(level, block, PAGES)


def _vitals(connection: sqlite3.Connection, website: int, day: int, is_gone: bool) -> Verdict | None:
    """What is wrong with the histograms of web vitals of a day, and of the blocks that begin with it."""
    with snapshot(connection):
        if not is_gone and vital_days.of_day(connection, website, day) != vital_days.counted(connection, website, day):
            return Verdict(0, day, HISTOGRAMS)
        for level in vital_days.LEVELS[1:]:
            if not day & (1 << level) - 1 and not vital_days.is_sum(connection, website, level, day >> level):
                return Verdict(level, day >> level, HISTOGRAMS)
    return None


def _is_trial_right(connection: sqlite3.Connection, website: int, day: int) -> bool:
    with snapshot(connection):
        return trials.of_day(connection, website, day) == trials.counted(connection, website, day)


def _heatmaps(connection: sqlite3.Connection, website: int) -> set[tuple[int, int]]:
    """The days, and blocks of them (level, block), whose sums or counts of heatmaps are wrong."""
    wrong: set[tuple[int, int]] = set()
    for page in heat_audit.pages(connection, website):
        with snapshot(connection):
            wrong |= heat_audit.of_page(connection, website, page)
    for place in heat_audit.blocks(connection, website):
        with snapshot(connection):
            if not heat_audit.is_counted(connection, website, *place):
                wrong.add(place)
    return wrong


def _totals(connection: sqlite3.Connection, website: int, day: int) -> moments.Totals:
    first = day * moments.QUARTERS_A_DAY
    rows = connection.execute(
        f"/* verify.totals */ select quarter, {', '.join(moments.COLUMNS)} from total_15m"
        " where website = ? and quarter >= ? and quarter < ?",
        (website, first, first + moments.QUARTERS_A_DAY),
    )
    return _without_zeros({quarter: list(figures) for quarter, *figures in rows})


def _without_zeros(totals: moments.Totals) -> moments.Totals:
    return {quarter: figures for quarter, figures in totals.items() if any(figures)}


def _values(
    connection: sqlite3.Connection, website: int, field: int, level: int, blocks: Iterable[int]
) -> list[tuple[int, ...]]:
    sums: dict[int, list[int]] = {}
    for block in blocks:
        rows = connection.execute(
            "/* verify.values */ select value, visitors, pageviews, events from rollup"
            " where website = ? and field = ? and level = ? and block = ?",
            (website, field, level, block),
        )
        for value, *figures in rows:
            row = sums.setdefault(value, [0, 0, 0])
            for place, number in enumerate(figures):
                row[place] += number
    return sorted((value, *figures) for value, figures in sums.items())
