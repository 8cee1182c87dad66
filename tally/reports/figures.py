"""The key figures of a website as they are shown: ratios of the exact sums in `Stats`, rounded, and their change.

Ratios are of the visits that begin in the range. They are fractions until the last step, so that the change between two
ranges is computed from exact figures.
"""

from fractions import Fraction

from tally.engine.values import Stats
from tally.rounding import round_half_away

VISIT_FIGURES = ("bounce_rate", "views_per_visit", "visit_duration")
"""The ratios among the key figures: percent, pageviews, seconds."""
KEY_FIGURES = ("visitors", "visits", "pageviews", "events", *VISIT_FIGURES)
OF_VISITS = {"bounce_rate": "bounces", "views_per_visit": "visit_views", "visit_duration": "visit_ms"}
"""Of a ratio: the field of Stats that is divided by the visits."""
_UNITS = {"bounce_rate": Fraction(100), "visit_duration": Fraction(1, 1000)}
_DECIMALS = {"bounce_rate": 1, "views_per_visit": 2}

Figure = float | int | None
"""A rounded figure; None where it is not defined, such as a ratio of no visits."""


def parts_of(stats: Stats, name: str) -> tuple[int, int]:
    """Return a key figure as a fraction, without its unit: numerator and denominator."""
    part = getattr(stats, OF_VISITS.get(name, name))
    return part, stats.visits if name in OF_VISITS else 1


def key_figures(stats: Stats) -> dict[str, Fraction | None]:
    """Return the seven key figures, exact; visit_duration in seconds."""
    parts = {name: parts_of(stats, name) for name in KEY_FIGURES}
    return {
        name: Fraction(part, whole) * _UNITS.get(name, 1) if whole else None for name, (part, whole) in parts.items()
    }


def rounded(stats: Stats) -> dict[str, Figure]:
    """Return the seven key figures as they are shown."""
    return {name: round_half_away(figure, _DECIMALS.get(name, 0)) for name, figure in key_figures(stats).items()}


def changes(now: Stats, before: Stats) -> dict[str, Figure]:
    """Return the change of each key figure in percent, with one decimal; None where `before` is 0 or not defined."""
    older = key_figures(before)
    return {name: _change(figure, older[name]) for name, figure in key_figures(now).items()}


def _change(now: Fraction | None, before: Fraction | None) -> Figure:
    if now is None or not before:
        return None
    return round_half_away((now - before) / before * 100, 1)
