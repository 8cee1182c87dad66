"""The grid of heatmaps: points to cells, cells to bytes. Pure functions without a database.

A page is divided into rows of BIN_HEIGHT_PX and BINS_X columns over its width; a click counts in its cell. The scroll
depth of a pageview counts in an additional column, in the row that it reached.

Pages may be a million pixels high, and reads and writes must stay small, so rows are grouped into bands of BAND_ROWS. A
cell of a band is a number below CELLS: its row times COLUMNS plus its column.

`packed` encodes the cells of a band: a head, the cells with count 1, the other cells, each in 16 bits, and the counts
of these, in as many bits as the greatest needs. One point takes 3 bytes; on a page with a thousand points a day it is
less than 2.
"""

from array import array
from collections import Counter
from collections.abc import Mapping

from tally.engine.values import BIN_HEIGHT_PX, BINS_X
from tally.rollups.int_arrays import as_bytes, numbers_in

# The usual breakpoints: phones are narrower than 640 CSS pixels, tablets than 1,024.
_BREAKPOINTS = (640, 1_024)
COLUMNS = BINS_X + 1
# 5,000 pixels. Few pages have more than two bands; a full one is packed in 5 ms.
BAND_ROWS = 250
CELLS = BAND_ROWS * COLUMNS
CLICK, SCROLL = 0, 1

_COUNTS = "BIQ"
# The head: 2 bits for the width of counts, 6 for the number of cells with count 1; if all 6 are set, it follows in 16.
_MANY = 63

Cells = Counter[int]
"""cell -> number of points, of one band."""


def width_of(viewport_px: float) -> int:
    """Return the class of a viewport width, a position in WIDTHS."""
    return sum(viewport_px >= bound for bound in _BREAKPOINTS)


def bin_of(x: float, y: float, kind: int) -> tuple[int, int]:
    """Return the row and column of a point of an event; the column of a scroll depth is 0."""
    return int(y // BIN_HEIGHT_PX), 0 if kind == SCROLL else min(int(x * BINS_X), BINS_X - 1)


def cell_of(kind: int, bin_y: int, bin_x: int) -> tuple[int, int]:
    """Return the band of a bin, and its cell in the band."""
    band, row = divmod(bin_y, BAND_ROWS)
    return band, row * COLUMNS + (BINS_X if kind == SCROLL else bin_x)


def bin_in(band: int, cell: int) -> tuple[int, int, int]:
    """Return the kind, row and column of a cell of a band: the reverse of `cell_of`."""
    row, column = divmod(cell, COLUMNS)
    return (SCROLL, band * BAND_ROWS + row, 0) if column == BINS_X else (CLICK, band * BAND_ROWS + row, column)


def packed(cells: Mapping[int, int]) -> bytes:
    """Encode the cells of a band; b"" without cells."""
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
    """Add encoded cells to `cells`. Takes 3 µs, 35 ns for a cell with count 1 and 70 ns for any other."""
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
    """Return the number of scroll depths (samples) and of clicks in some cells."""
    samples = sum(count for cell, count in cells.items() if cell % COLUMNS == BINS_X)
    return samples, sum(cells.values()) - samples


def shares(depths: Mapping[int, int]) -> list[float]:
    """Return for each row from the top on the percentage, with one decimal, of depths (row -> pageviews) that reach it.

    The list ends before the first 0.
    """
    samples, listed = sum(depths.values()), list[float]()
    reached = samples
    for row in range(max(depths, default=-1) + 1):
        # Rounded half away from zero, in integers.
        share = (2_000 * reached + samples) // (2 * samples) / 10
        if not share:
            break
        listed.append(share)
        reached -= depths.get(row, 0)
    return listed
