"""Writes heatmap points into their packed tables, day by day, without collecting them first.

The cells of a page and day go into table heatmap_block, packed as by tally/rollups/heatmaps.py, and counts of pages
into heatmap_count. Sums over blocks of days are computed at the end, for the bands for which the server has them. Days
are written in order, so that the pages of the file are as full as a server's.
"""

import sqlite3

from heatmap_points import HeatmapPoints
from report import progress
from traffic import path

from tally.rollups import heatmaps
from tally.rollups.heatmap_grid import packed, totals
from tally.storage import database

# Days per transaction: each day changes a page of the file for nearly every page of the website.
_DAYS_A_STEP = 30


def write(connection: sqlite3.Connection, website: int, points: HeatmapPoints, days: range, last_share: float) -> int:
    """Write the points of some days, of the last one a share; return their number."""
    label = dict(connection.execute("/* heatmap_rows.labels */ select text, id from label"))
    numbers = [label[path(rank)] for rank in range(5_000)]
    written = 0
    for first in range(days.start, days.stop, _DAYS_A_STEP):
        with database.transaction(connection):
            for day in range(first, min(first + _DAYS_A_STEP, days.stop)):
                share = last_share if day == days.stop - 1 else 1.0
                written += _write_day(connection, website, points, numbers, day, share)
        progress(f"points up to day {first - days.start} of {len(days)}")
    with database.transaction(connection):
        for level in heatmaps.COUNT_LEVELS[1:]:
            _add_counts_up(connection, website, level)
        for below, level in zip(heatmaps.LEVELS, heatmaps.LEVELS[1:], strict=False):
            _add_cells_up(connection, website, below, level)
    return written


def _write_day(
    connection: sqlite3.Connection, website: int, points: HeatmapPoints, numbers: list[int], day: int, share: float
) -> int:
    blocks, counts = [], []
    written = 0
    for rank, bands in points.day(day, share):
        count = [0] * len(heatmaps.COUNTS)
        for band, widths in bands.items():
            blocks.append((website, numbers[rank], band, 0, day, *map(packed, widths)))
            for width, cells in enumerate(widths):
                samples, clicks = totals(cells)
                count[2 * width] += clicks
                count[2 * width + 1] += samples
        counts.append((website, 0, day, numbers[rank], *count))
        written += sum(count)
    connection.executemany(
        "/* heatmap_rows.block */ insert into heatmap_block values (?, ?, ?, ?, ?, ?, ?, ?)", sorted(blocks)
    )
    marks = ", ".join("?" * (4 + len(heatmaps.COUNTS)))
    connection.executemany(f"/* heatmap_rows.count */ insert into heatmap_count values ({marks})", sorted(counts))
    return written


def _add_counts_up(connection: sqlite3.Connection, website: int, level: int) -> None:
    sums = ", ".join(f"sum({name})" for name in heatmaps.COUNTS)
    connection.execute(
        f"/* heatmap_rows.counts */ insert into heatmap_count select website, ?, block >> 1, pathname, {sums}"
        " from heatmap_count"
        " where website = ? and level = ? group by 3, 4 order by 3, 4",
        (level, website, level - 1),
    )


def _add_cells_up(connection: sqlite3.Connection, website: int, below: int, level: int) -> None:
    """Add the blocks of bands whose parts are large enough (tally/rollups/heatmaps.py SUM_FROM_BYTES)."""
    large = connection.execute(
        "/* heatmap_rows.large */ select website, pathname, band, ?, block >> ? from heatmap_block"
        " where website = ? and level = ? group by 2, 3, 5"
        " having sum(length(mobile) + length(tablet) + length(desktop)) > ?",
        (level, level - below, website, below, heatmaps.SUM_FROM_BYTES),
    ).fetchall()
    connection.executemany(
        "/* heatmap_rows.sums */ insert into heatmap_block values (?, ?, ?, ?, ?, ?, ?, ?)",
        [(*place, *heatmaps.summed(connection, place)) for place in large],
    )
