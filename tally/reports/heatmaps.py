"""Heatmaps over any range of UTC days: where a page was clicked, how far down it was seen, and which pages have any.

All counts are exact: they are sums of what tally/rollups/heatmaps.py has, packed or not.

A grid has one entry for each cell that was clicked. A page has 10,000 cells or so; somebody who sends clicks all over a
page of a million pixels makes it millions, of which the hottest MAX_CELLS are told.
"""

import sqlite3
from collections.abc import Sequence
from heapq import nlargest
from operator import itemgetter
from typing import NamedTuple

from tally.rollups import heatmaps as rollup
from tally.rollups.heatmap_grid import BAND_ROWS, BINS_X, COLUMNS, shares
from tally.storage.sql import measurements as sql

# our choice: more than a page of 20,000 pixels that was clicked everywhere; an answer of 700 KB.
MAX_CELLS = 50_000

Spot = tuple[int, int, int]
"""Column, row, clicks."""


class Heatmap(NamedTuple):
    """A page's clicks, in the order of rows and columns; how many cells there are, and clicks in all; how many views
    told how far down they were seen, and in percent how many of these reached at least each row."""

    grid: list[Spot]
    cells: int
    clicks: int
    samples: int
    scroll: list[float]


class Pages(NamedTuple):
    """(pathname, samples, clicks) of pages, and samples and clicks of what was sent without one."""

    rows: list[tuple[str, int, int]]
    unset: tuple[int, int]


def heatmap(connection: sqlite3.Connection, website: int, pathname: str, days: range, widths: Sequence[int]) -> Heatmap:
    """The heatmap of a page ('': of no page) on some days, of some widths together."""
    row = connection.execute(*sql.labels([pathname])).fetchone()
    grid: list[Spot] = []
    depths: dict[int, int] = {}
    cells = clicks = 0
    if row is not None:
        for band, found in rollup.cells(connection, website, row[0], days.start, days.stop, widths):
            own: list[Spot] = []
            for cell in sorted(found):
                y, x = divmod(cell, COLUMNS)
                if x == BINS_X:
                    depths[band * BAND_ROWS + y] = found[cell]
                else:
                    own.append((x, band * BAND_ROWS + y, found[cell]))
            cells += len(own)
            clicks += sum(map(itemgetter(2), own))
            grid += own
            if len(grid) > 4 * MAX_CELLS:
                grid = _hottest(grid)
    return Heatmap(_hottest(grid), cells, clicks, sum(depths.values()), shares(depths))


def _hottest(grid: list[Spot]) -> list[Spot]:
    if len(grid) <= MAX_CELLS:
        return grid
    return sorted(nlargest(MAX_CELLS, grid, key=itemgetter(2)), key=itemgetter(1, 0))


def pages(connection: sqlite3.Connection, website: int, days: range, widths: Sequence[int], limit: int) -> Pages:
    """The first `limit` pages by samples and clicks together, then in the order of the texts."""
    found = rollup.pages(connection, website, days.start, days.stop, widths, limit)
    unset = found.pop(0)[2:] if found and not found[0][0] else (0, 0)
    return Pages([row[1:] for row in found], unset)
