"""Heatmaps over any range of days: clicks by cell, scroll depth by row, and the pages that have any.

All counts are exact sums of the rollups (tally/rollups/heatmaps.py).

A grid has one entry per clicked cell, about 10,000 for a usual page. A client that sends clicks all over a page of a
million pixels makes it millions; the MAX_CELLS with the most clicks are returned.
"""

import sqlite3
from collections.abc import Sequence
from heapq import nlargest
from operator import itemgetter

from tally.engine.values import BINS_X, Heatmap, Spot
from tally.engine.values import HeatmapPages as Pages
from tally.rollups import heatmaps as rollup
from tally.rollups.heatmap_grid import BAND_ROWS, COLUMNS, shares
from tally.storage import heatmap_texts
from tally.storage.sql import measurements as sql

# More than a page of 20,000 pixels with clicks everywhere has; a response of 700 KB.
MAX_CELLS = 50_000


def heatmap(connection: sqlite3.Connection, website: int, pathname: str, days: range, widths: Sequence[int]) -> Heatmap:
    """Return the heatmap of a page ('' for events without one) on some days, summed over some widths."""
    row = connection.execute(*sql.labels([pathname])).fetchone()
    grid: list[Spot] = []
    depths: dict[int, int] = {}
    texts: list[heatmap_texts.Text] = []
    cells = clicks = 0
    if row is not None:
        texts = heatmap_texts.texts_of(connection, website, row[0], widths)
        for band, points in rollup.cells(connection, website, row[0], days.start, days.stop, widths):
            spots: list[Spot] = []
            for cell in sorted(points):
                y, x = divmod(cell, COLUMNS)
                if x == BINS_X:
                    depths[band * BAND_ROWS + y] = points[cell]
                else:
                    spots.append((x, band * BAND_ROWS + y, points[cell]))
            cells += len(spots)
            clicks += sum(map(itemgetter(2), spots))
            grid += spots
            if len(grid) > 4 * MAX_CELLS:
                grid = _hottest(grid)
    return Heatmap(_hottest(grid), cells, clicks, sum(depths.values()), shares(depths), texts)


def _hottest(grid: list[Spot]) -> list[Spot]:
    if len(grid) <= MAX_CELLS:
        return grid
    return sorted(nlargest(MAX_CELLS, grid, key=itemgetter(2)), key=itemgetter(1, 0))


def pages(connection: sqlite3.Connection, website: int, days: range, widths: Sequence[int], limit: int) -> Pages:
    """Return the first `limit` pages by the sum of samples and clicks, then by text."""
    rows = rollup.pages(connection, website, days.start, days.stop, widths, limit)
    unset = rows.pop(0)[2:] if rows and not rows[0][0] else (0, 0)
    return Pages([row[1:] for row in rows], unset)
