"""Compare all rollups with the raw rows that they are counted from.

`verdicts` counts every day again from raw rows and every block from its days, and yields what differs. A
stale day is skipped, because no report uses it, and so is a day whose raw rows have expired, because nothing is left to
count it from; both are reported. Each day is compared in one snapshot, so events may arrive meanwhile.
"""

import sqlite3
from collections.abc import Iterator, Sequence

from tally.columns import column_days, deleted_rows, measurement_days, statements
from tally.engine.archive import Verdict
from tally.engine.values import Goal
from tally.events.dimensions import field_number
from tally.reports import goals, value_sums
from tally.rollups import (
    experiments,
    goal_days,
    heatmaps,
    rollup_state,
    totals,
)
from tally.rollups.rollup_state import BLOCK_LEVEL, FINAL, KEPT, STALE
from tally.storage.database import snapshot
from tally.storage.sql import events

# The first day, from a day on, of which a table has rows.
_NEXT_TOTAL = (
    "/* verify.next_total */ select quarter / 96 from total_15m"
    " where website = ? and quarter >= 96 * ? order by quarter limit 1"
)
_NEXT_EVENT = (
    "/* verify.next_event */ select ts / 86400000 from event"
    " where website = ? and ts >= 86400000 * ? order by ts limit 1"
)
_NEXT_EXPERIMENT_EVENT = (
    "/* verify.next_experiment_event */ select ts / 86400000 from experiment_event where website = ?"
    " and ts >= 86400000 * ? order by ts limit 1"
)
_NEXT_EXPERIMENT_TOTAL = (
    "/* verify.next_experiment_total */ select day from experiment_total where website = ? and day >= ?"
    " order by day limit 1"
)
# Above every day.
_LAST = 1 << 32
EXPERIMENTS, HEATMAPS = "counts of experiments", "sums or counts of heatmaps"
CONVERSIONS, COLUMNS = "conversions of goals", "columns"
LOST_TRAFFIC = "columns of events without rows"
LOST_MEASUREMENTS = "columns of web vitals or experiments without rows"
LOST_HISTOGRAMS = "histograms of web vitals whose events have expired"
LOST_UNLOADED = "events that ClickHouse alone has"
LOST = (LOST_TRAFFIC, LOST_MEASUREMENTS, LOST_HISTOGRAMS, LOST_UNLOADED)
"""What is wrong with a day or block: values of `Verdict.fault`. Of what is LOST, only a backup has the content."""


def verdicts(connection: sqlite3.Connection, website: int, saved: Sequence[Goal] = ()) -> Iterator[Verdict]:
    """Yield a verdict for each day of a website, oldest first, for the blocks above, and for what else is wrong.

    saved: the goals that are saved for the website.
    """
    # Days of which only columns are left, and these cannot be read.
    damaged = set[int]()
    for day in sorted(_days(connection, website)):
        with snapshot(connection):
            verdict = _day(connection, website, day)
        if verdict.fault in LOST:
            damaged.add(day)
        yield verdict
    columns = _columns(connection, website)
    # What is counted from wrong columns is checked once these are right.
    damaged |= columns
    blocks = connection.execute(
        "/* verify.blocks */ select block from rollup_state"
        " where website = ? and kind = 0 and level = ? and block >= 0 and state = 2 order by block",
        (website, BLOCK_LEVEL),
    ).fetchall()
    for (block,) in blocks:
        first = block << BLOCK_LEVEL
        if not damaged.intersection(range(first, first + (1 << BLOCK_LEVEL))):
            with snapshot(connection):
                verdict = _block(connection, website, block)
            yield verdict
    row = connection.execute(*events.last_kept(website)).fetchone()
    last_kept = -1 if row is None else row[0]
    yield from _vitals(connection, website)
    packed = {day for day, _ in measurement_days.days(connection, website, statements.EXPERIMENTS, 0, _LAST)}
    counted = (_days_of(connection, of, website) for of in (_NEXT_EXPERIMENT_EVENT, _NEXT_EXPERIMENT_TOTAL))
    for day in sorted(packed.union(*counted)):
        wrong = _experiments(connection, website, day) if day > last_kept else None
        yield from (wrong,) if wrong else ()
    yield from (Verdict(0, day, CONVERSIONS) for day in sorted(_goals(connection, website, saved, damaged)))
    yield from (Verdict(0, day, COLUMNS) for day in sorted(columns))
    yield from (Verdict(*place, HEATMAPS) for place in sorted(_heatmaps(connection, website)))


def _days(connection: sqlite3.Connection, website: int) -> set[int]:
    """Return the days that have events, totals, values or a state."""
    statement = (
        "/* verify.days */ select block from rollup_state where website = ? and kind = 0 and level = 0 and block >= 0"
    )
    days = {row[0] for row in connection.execute(statement, (website,))}
    days.update(_days_of(connection, _NEXT_TOTAL, website))
    days.update(_days_of(connection, _NEXT_EVENT, website))
    return days


def _days_of(connection: sqlite3.Connection, statement: str, *place: int) -> Iterator[int]:
    """Yield the days of which a table has rows: one lookup for each day, rather than a scan of all rows."""
    day = -1
    while row := connection.execute(statement, (*place, day + 1)).fetchone():
        day = row[0]
        yield day


def _day(connection: sqlite3.Connection, website: int, day: int) -> Verdict:
    known = rollup_state.day_state(connection, website, day)
    if known is None:
        return Verdict(0, day, "missing state")
    if known.state == STALE:
        return Verdict(0, day, skipped="it is rebuilt in the background")
    if known.state == KEPT:
        return Verdict(0, day, skipped="its events have expired")
    if not _can_show(connection, website, day, statements.TRAFFIC):
        return Verdict(0, day, LOST_TRAFFIC)
    counted = _without_zeros(totals.count_day(connection, website, day))
    return Verdict(0, day, "" if _totals(connection, website, day) == counted else "totals")


def _can_show(connection: sqlite3.Connection, website: int, day: int, source: int) -> bool:
    """Let statements see the rows of a day that has only columns; return False where the columns are damaged."""
    try:
        deleted_rows.show(connection, website, [day], (source,))
    except sqlite3.DatabaseError as failure:
        if failure.sqlite_errorcode != sqlite3.SQLITE_CORRUPT:
            raise
        return False
    return True


def _block(connection: sqlite3.Connection, website: int, block: int) -> Verdict:
    import numpy as np

    from tally.rollups import value_blocks

    first = block << BLOCK_LEVEL
    for field in value_blocks.LISTED:
        counts = value_sums.count_days(connection, website, first, first + (1 << BLOCK_LEVEL), field)
        # A day without events that has expired has a value without any.
        counts = counts[:, counts[1:].any(axis=0)]
        wrong = Verdict(BLOCK_LEVEL, block, f"values of {field}")
        try:
            stored = [*value_blocks.sums(connection, website, field_number(field), [(BLOCK_LEVEL, block)])]
        except sqlite3.DatabaseError as failure:
            if failure.sqlite_errorcode != sqlite3.SQLITE_CORRUPT:
                raise
            return wrong
        joined = np.concatenate(stored, axis=1) if stored else counts[:, :0]
        if not np.array_equal(joined[:, joined[1:].any(axis=0)], counts):
            return wrong
    return Verdict(BLOCK_LEVEL, block)


def _is_counted(connection: sqlite3.Connection, website: int, day: int, goal: Goal) -> bool:
    stored = goal_days.stored(connection, website, day, goal)
    return all(
        rows == sorted(map(tuple, goals.of_day(connection, website, day, goal, field)))
        for field, rows in stored.items()
    )


def _vitals(connection: sqlite3.Connection, website: int) -> Iterator[Verdict]:
    """Yield what is wrong with the columns of web vitals, and with what is left of those that have expired."""
    # numpy is imported with the first column that is read.
    from tally.rollups import vitals_histogram

    for day, _ in measurement_days.days(connection, website, statements.WEB_VITALS, 0, _LAST):
        with snapshot(connection):
            if not _can_show(connection, website, day, statements.WEB_VITALS):
                yield Verdict(0, day, LOST_MEASUREMENTS)
    for day, _ in vitals_histogram.days(connection, website, 0, _LAST):
        with snapshot(connection):
            if not vitals_histogram.is_correct(connection, website, day):
                yield Verdict(0, day, LOST_HISTOGRAMS)


def _experiments(connection: sqlite3.Connection, website: int, day: int) -> Verdict | None:
    """Return what is wrong with the counts of experiments of a day."""
    with snapshot(connection):
        if not _can_show(connection, website, day, statements.EXPERIMENTS):
            return Verdict(0, day, LOST_MEASUREMENTS)
        counted = experiments.count_day(connection, website, day)
        return Verdict(0, day, EXPERIMENTS) if experiments.stored_day(connection, website, day) != counted else None


def _goals(connection: sqlite3.Connection, website: int, saved: Sequence[Goal], damaged: set[int]) -> set[int]:
    """Return the final days whose conversions are wrong. Those of a day whose events have expired cannot be counted."""
    wrong: set[int] = set()
    for day in _days(connection, website) - damaged:
        with snapshot(connection):
            known = rollup_state.day_state(connection, website, day)
            if known is not None and known.state == FINAL:
                counted = (of for of in saved if goal_days.complete(connection, website, of, {day: known.version}))
                if not all(_is_counted(connection, website, day, of) for of in counted):
                    wrong.add(day)
    return wrong


def _columns(connection: sqlite3.Connection, website: int) -> set[int]:
    """Return the stored days that have rows, and whose columns are not those of these."""
    from tally.columns.write import is_correct

    wrong: set[int] = set()
    for day in column_days.stored(connection, website):
        with snapshot(connection):
            known = rollup_state.day_state(connection, website, day)
            versions = {day: known.version} if known is not None and rollup_state.has_ended(known) else {}
            if deleted_rows.without_rows(connection, website, day, day):
                continue
            if column_days.sizes(connection, website, versions) and not is_correct(connection, website, day):
                wrong.add(day)
    return wrong


def _heatmaps(connection: sqlite3.Connection, website: int) -> set[tuple[int, int]]:
    """Return the days and blocks of days (level, block) whose sums or counts of heatmaps are wrong."""
    wrong: set[tuple[int, int]] = set()
    for page in heatmaps.packed_pages(connection, website):
        with snapshot(connection):
            wrong |= heatmaps.wrong_places(connection, website, page)
    for place in heatmaps.counted_blocks(connection, website):
        with snapshot(connection):
            if not heatmaps.are_counts_correct(connection, website, *place):
                wrong.add(place)
    return wrong


def _totals(connection: sqlite3.Connection, website: int, day: int) -> totals.Totals:
    first = day * totals.QUARTERS_PER_DAY
    rows = connection.execute(
        f"/* verify.totals */ select quarter, {', '.join(totals.COLUMNS)} from total_15m"
        " where website = ? and quarter >= ? and quarter < ?",
        (website, first, first + totals.QUARTERS_PER_DAY),
    )
    return _without_zeros({quarter: list(figures) for quarter, *figures in rows})


def _without_zeros(day: totals.Totals) -> totals.Totals:
    return {quarter: figures for quarter, figures in day.items() if any(figures)}
