"""Heatmap points as visitors of one busy website make them, drawn from a seed. Pure: no file, no clock.

The pages are those of the traffic, by the same Zipf, each laid out after one of a few templates: links and buttons that
take four clicks in five, zipf among them, the rest of the clicks anywhere, fewer further down. A view tells how far
down it was seen and clicks three times. Half of all views are on phones, on which pages are half as long again.

How: all points of a template are laid out in a table of equally likely places, so that one point is one look.
"""

import random
from collections import Counter
from collections.abc import Iterator

from traffic import PATHS, quieter, zipf

from tally.rollups.heatmap_grid import BIN_HEIGHT_PX, BINS_X, CELLS, CLICK, SCROLL, Cells, cell_of

TEMPLATES = 24
CLICKS_A_VIEW = 3
# Percent of the views, height of a page beside a desktop's, height of a viewport.
_WIDTHS = ((50, 1.5, 750), (5, 1.2, 1_000), (45, 1.0, 900))
_LEAST_PX, _MOST_PX = 1_800, 6_000
_LINKS, _IN_LINKS = 40, 0.8
_PLACES = 1 << 14

Bands = dict[int, tuple[Cells, ...]]
"""By band of a page the cells of each width."""


class Pointing:
    """Draws days: `points` over all of so many days."""

    def __init__(self, seed: int, points: int, days: int) -> None:
        self._seed = seed
        draw = random.Random(f"{seed} templates")
        self._tables = [_table(draw) for _ in range(TEMPLATES)]
        whole = sum(1 / n for n in range(1, PATHS + 1))
        self._means = [points / days / whole / n for n in range(1, PATHS + 1)]

    def day(self, day: int, share: float = 1.0) -> Iterator[tuple[int, Bands]]:
        """The points of each page (its rank) that has any on a UTC day, or on a share of one."""
        draw = random.Random(f"{self._seed} points {day}")
        rand, choices, share = draw.random, draw.choices, share * quieter(day)
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


def _table(draw: random.Random) -> tuple[list[int], list[int]]:
    """Clicks and depths of a template, as codes: band, width and cell in one number."""
    clicks, depths = list[int](), list[int]()
    tall_px = draw.uniform(_LEAST_PX, _MOST_PX)
    for width, (percent, taller, viewport_px) in enumerate(_WIDTHS):
        height_px = tall_px * taller
        share = percent * _PLACES // 100
        links = zipf([(draw.random(), draw.random() ** 1.5 * height_px) for _ in range(_LINKS)], 1 << 10)
        for _ in range(share):
            x, y_px = draw.choice(links)
            if draw.random() < _IN_LINKS:
                # A link is some 80 pixels wide and 30 high.
                x, y_px = min(max(x + draw.gauss(0, 0.02), 0.0), 1.0), max(y_px + draw.gauss(0, 8), 0.0)
            else:
                x, y_px = draw.random(), min(draw.expovariate(2.5), 1.0) * height_px
            clicks.append(_code(width, CLICK, y_px, min(int(x * BINS_X), BINS_X - 1)))
            reached = draw.choice((0.0, draw.random(), draw.random() ** 2, 1.0))
            depths.append(_code(width, SCROLL, max(viewport_px, reached * height_px), 0))
    return clicks, depths


def _code(width: int, kind: int, y_px: float, bin_x: int) -> int:
    band, cell = cell_of(kind, int(y_px // BIN_HEIGHT_PX), bin_x)
    return (band * len(_WIDTHS) + width) * CELLS + cell
