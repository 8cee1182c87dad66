"""Heatmap points of one busy website, drawn from a seed. Pure: no file, no clock.

The pages are those of the traffic, with the same Zipf distribution. Each has the layout of one of a few templates:
links and buttons get four clicks in five, Zipf-distributed, the other clicks are anywhere, fewer further down. A view
has three clicks and a scroll depth. Half of the views are on phones, where pages are one and a half times as long.

All points of a template are in a table of equally likely entries, so that drawing a point is one lookup.
"""

import random
from collections import Counter
from collections.abc import Iterator

from traffic import PATHS, relative_traffic, zipf

from tally.engine.values import BIN_HEIGHT_PX, BINS_X
from tally.rollups.heatmap_grid import CELLS, CLICK, SCROLL, Cells, cell_of

TEMPLATES = 24
CLICKS_A_VIEW = 3
# Percent of the views, height of a page relative to a desktop's, height of a viewport.
_WIDTHS = ((50, 1.5, 750), (5, 1.2, 1_000), (45, 1.0, 900))
_MIN_PX, _MAX_PX = 1_800, 6_000
_LINKS, _IN_LINKS = 40, 0.8
_TABLE_SIZE = 1 << 14

Bands = dict[int, tuple[Cells, ...]]
"""The cells of each viewport width by band of a page."""


class HeatmapPoints:
    """Draws days; `points` is the number over all `days`."""

    def __init__(self, seed: int, points: int, days: int) -> None:
        self._seed = seed
        rng = random.Random(f"{seed} templates")
        self._tables = [_table(rng) for _ in range(TEMPLATES)]
        whole = sum(1 / n for n in range(1, PATHS + 1))
        self._means = [points / days / whole / n for n in range(1, PATHS + 1)]

    def day(self, day: int, share: float = 1.0) -> Iterator[tuple[int, Bands]]:
        """Yield the rank and the points of each page that has any on a day, or on a share of one."""
        rng = random.Random(f"{self._seed} points {day}")
        rand, choices, share = rng.random, rng.choices, share * relative_traffic(day)
        for rank, mean in enumerate(self._means):
            views = int(mean * share / (1 + CLICKS_A_VIEW) + rand())
            if views:
                clicks, depths = self._tables[rank % TEMPLATES]
                yield rank, _split(choices(clicks, k=CLICKS_A_VIEW * views) + choices(depths, k=views))


def _split(codes: list[int]) -> Bands:
    bands: Bands = {}
    for code, count in Counter(codes).items():
        place, cell = divmod(code, CELLS)
        band, width = divmod(place, len(_WIDTHS))
        if band not in bands:
            bands[band] = Counter(), Counter(), Counter()
        bands[band][width][cell] = count
    return bands


def _table(rng: random.Random) -> tuple[list[int], list[int]]:
    """Return clicks and scroll depths of a template as codes: band, width and cell in one number."""
    clicks, depths = list[int](), list[int]()
    tall_px = rng.uniform(_MIN_PX, _MAX_PX)
    for width, (percent, taller, viewport_px) in enumerate(_WIDTHS):
        height_px = tall_px * taller
        share = percent * _TABLE_SIZE // 100
        links = zipf([(rng.random(), rng.random() ** 1.5 * height_px) for _ in range(_LINKS)], 1 << 10)
        for _ in range(share):
            x, y_px = rng.choice(links)
            if rng.random() < _IN_LINKS:
                # A link is some 80 pixels wide and 30 high.
                x, y_px = min(max(x + rng.gauss(0, 0.02), 0.0), 1.0), max(y_px + rng.gauss(0, 8), 0.0)
            else:
                x, y_px = rng.random(), min(rng.expovariate(2.5), 1.0) * height_px
            clicks.append(_code(width, CLICK, y_px, min(int(x * BINS_X), BINS_X - 1)))
            reached = rng.choice((0.0, rng.random(), rng.random() ** 2, 1.0))
            depths.append(_code(width, SCROLL, max(viewport_px, reached * height_px), 0))
    return clicks, depths


def _code(width: int, kind: int, y_px: float, bin_x: int) -> int:
    band, cell = cell_of(kind, int(y_px // BIN_HEIGHT_PX), bin_x)
    return (band * len(_WIDTHS) + width) * CELLS + cell
