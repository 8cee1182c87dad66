"""Heatmap points in the packed store: written day after day, as the background packs them, without collecting first.

A day's cells of a page go into table heatmap_block as tally/rollups/heatmaps.py would have packed them, and counts of
pages into heatmap_count; sums over blocks of days are made at the end, of bands that the product would have them of.
Days come in their order, so that the file is as full, or as empty, as that of a server.
"""

import sqlite3

from pointing import Pointing
from report import say
from traffic import path

from tally.rollups import heatmaps
from tally.rollups.heatmap_grid import packed, totals
from tally.storage import database

# So many days a transaction, since a day touches a page of the file for nearly every page of the website.
_DAYS_A_STEP = 30


def write(connection: sqlite3.Connection, website: int, pointing: Pointing, days: range, last_share: float) -> int:
    """Writes the points of some days, of the last one a share; how many there are."""
    label = dict(connection.execute("/* heated.labels */ select text, id from label"))
    numbers = [label[path(rank)] for rank in range(5_000)]
    written = 0
    for first in range(days.start, days.stop, _DAYS_A_STEP):
        with database.transaction(connection):
            for day in range(first, min(first + _DAYS_A_STEP, days.stop)):
                share = last_share if day == days.stop - 1 else 1.0
                written += _write_day(connection, website, pointing, numbers, day, share)
        say(f"points up to day {first - days.start} of {len(days)}")
    with database.transaction(connection):
        for level in heatmaps.COUNT_LEVELS[1:]:
            _add_counts_up(connection, website, level)
        for below, level in zip(heatmaps.LEVELS, heatmaps.LEVELS[1:], strict=False):
            _add_cells_up(connection, website, below, level)
    return written


def _write_day(
    connection: sqlite3.Connection, website: int, pointing: Pointing, numbers: list[int], day: int, share: float
) -> int:
    blocks, counts = [], []
    written = 0
    for rank, bands in pointing.day(day, share):
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
        "/* heated.block */ insert into heatmap_block values (?, ?, ?, ?, ?, ?, ?, ?)", sorted(blocks)
    )
    marks = ", ".join("?" * (4 + len(heatmaps.COUNTS)))
    connection.executemany(f"/* heated.count */ insert into heatmap_count values ({marks})", sorted(counts))
    return written


def _add_counts_up(connection: sqlite3.Connection, website: int, level: int) -> None:
    sums = ", ".join(f"sum({name})" for name in heatmaps.COUNTS)
    connection.execute(
        f"/* heated.counts */ insert into heatmap_count select website, ?, block >> 1, pathname, {sums}"
        " from heatmap_count"
        " where website = ? and level = ? group by 3, 4 order by 3, 4",
        (level, website, level - 1),
    )


def _add_cells_up(connection: sqlite3.Connection, website: int, below: int, level: int) -> None:
    """Blocks of bands whose parts are large enough (tally/rollups/heatmaps.py SUM_FROM_BYTES)."""
    large = connection.execute(
        "/* heated.large */ select website, pathname, band, ?, block >> ? from heatmap_block"
        " where website = ? and level = ? group by 2, 3, 5"
        " having sum(length(mobile) + length(tablet) + length(desktop)) > ?",
        (level, level - below, website, below, heatmaps.SUM_FROM_BYTES),
    ).fetchall()
    connection.executemany(
        "/* heated.sums */ insert into heatmap_block values (?, ?, ?, ?, ?, ?, ?, ?)",
        [(*place, *heatmaps.summed(connection, place)) for place in large],
    )
