"""Heatmaps as cells: points -> cells -> bytes. Pure: no database, no clock, no website.

A page is cut into rows of BIN_HEIGHT_PX, each into BINS_X columns over the page's width; a click counts in the cell it
lies in. How far down a view was seen counts in one column more, beside the row that it reached. So a page is one grid.

Pages are of any height up to a million pixels, and what is read and written at once must not be: rows come in bands of
BAND_ROWS. A cell of a band is a number below CELLS, its row times COLUMNS plus its column.

On disk the cells of a band are bytes (`packed`): a head, the cells that were met once, those met more often, each in 16
bits, and the counts of these, in as many bits as the greatest needs. One point is 3 bytes; a page with a thousand
points a day needs less than 2 a point.
"""

from array import array
from collections import Counter
from collections.abc import Mapping

from tally.rollups.int_arrays import as_bytes, numbers_in

# our choice: our heatmap grid. 50 columns over the page's width, rows of 20 CSS pixels.
BINS_X = 50
BIN_HEIGHT_PX = 20
WIDTHS = ("mobile", "tablet", "desktop")
"""Classes of viewports, in the order of their numbers; the words are those of the field `device`."""
# our choice, the usual breakpoints: phones are narrower than 640 CSS pixels, tablets than 1,024.
_BREAKPOINTS = (640, 1_024)
COLUMNS = BINS_X + 1
# our choice: 5,000 pixels. Few pages are longer than two of these; a full one is packed in 5 ms.
BAND_ROWS = 250
CELLS = BAND_ROWS * COLUMNS
CLICK, SCROLL = 0, 1

_COUNTS = "BIQ"
# Of the head, 2 bits say how wide counts are, 6 how many cells were met once; all 6 set: that follows in 16 bits.
_MANY = 63

Cells = Counter[int]
"""cell -> how many points, of one band."""


def width_of(viewport_px: float) -> int:
    """The class of a viewport."""
    return sum(viewport_px >= bound for bound in _BREAKPOINTS)


def bin_of(x: float, y: float, kind: int) -> tuple[int, int]:
    """Row and column of a point as events have it; the column of a scroll depth is 0."""
    return int(y // BIN_HEIGHT_PX), 0 if kind == SCROLL else min(int(x * BINS_X), BINS_X - 1)


def cell_of(kind: int, bin_y: int, bin_x: int) -> tuple[int, int]:
    """The band of a bin, and its cell in it."""
    band, row = divmod(bin_y, BAND_ROWS)
    return band, row * COLUMNS + (BINS_X if kind == SCROLL else bin_x)


def packed(cells: Mapping[int, int]) -> bytes:
    """Cells of a band as bytes; none as no byte."""
    if not cells:
        return b""
    once = array("H", sorted(cell for cell, count in cells.items() if count == 1))
    often = array("H", sorted(cell for cell, count in cells.items() if count > 1))
    most = max(cells.values())
    size = 0 if most < 1 << 8 else 1 if most < 1 << 32 else 2
    counts = array(_COUNTS[size], [cells[cell] for cell in often])
    head = bytes([min(len(once), _MANY) << 2 | size])
    many = [array("H", [len(once)])] if len(once) >= _MANY else []
    return head + b"".join(map(as_bytes, (*many, once, often, counts)))


def add(cells: Cells, blob: bytes) -> None:
    """Adds what `packed` gave. 3 µs, and 35 ns a cell that was met once, 70 ns another one."""
    if not blob:
        return
    begin, once = 1, blob[0] >> 2
    if once == _MANY:
        begin, once = 3, numbers_in("H", blob[1:3])[0]
    middle, code = begin + 2 * once, _COUNTS[blob[0] & 3]
    cells.update(numbers_in("H", blob[begin:middle]))
    end = middle + 2 * ((len(blob) - middle) // (2 + array(code).itemsize))
    known = cells.get
    for cell, count in zip(numbers_in("H", blob[middle:end]), numbers_in(code, blob[end:]), strict=True):
        cells[cell] = known(cell, 0) + count


def totals(cells: Mapping[int, int]) -> tuple[int, int]:
    """How many scroll depths (samples) and how many clicks are in some cells."""
    samples = sum(count for cell, count in cells.items() if cell % COLUMNS == BINS_X)
    return samples, sum(cells.values()) - samples


def shares(depths: Mapping[int, int]) -> list[float]:
    """In percent with one decimal, how many of the depths (row -> views) reach at least each row, from the top on; ends
    before the first 0."""
    samples, found = sum(depths.values()), list[float]()
    reached = samples
    for row in range(max(depths, default=-1) + 1):
        # Half away from zero, in whole numbers.
        share = (2_000 * reached + samples) // (2 * samples) / 10
        if not share:
            break
        found.append(share)
        reached -= depths.get(row, 0)
    return found
