"""The key figures of a website as they are shown: ratios of the exact sums in `Stats`, rounded, and their change.

Ratios are of the visits that begin in the range. They are fractions until the last step, so that the change between two
ranges is computed from exact figures.
"""

from fractions import Fraction

from tally.reports.stats import Stats
from tally.rounding import round_half_away

VISIT_FIGURES = ("bounce_rate", "views_per_visit", "visit_duration")
"""The ratios among the key figures: percent, pageviews, seconds."""
_DECIMALS = {"bounce_rate": 1, "views_per_visit": 2}

Figure = float | int | None
"""A rounded figure; None where it is not defined, such as a ratio of no visits."""


def key_figures(of: Stats) -> dict[str, Fraction | None]:
    """Return the seven key figures, exact; visit_duration in seconds."""
    visits = of.visits
    return {
        "visitors": Fraction(of.visitors),
        "visits": Fraction(visits),
        "pageviews": Fraction(of.pageviews),
        "events": Fraction(of.events),
        "bounce_rate": Fraction(100 * of.bounces, visits) if visits else None,
        "views_per_visit": Fraction(of.visit_views, visits) if visits else None,
        "visit_duration": Fraction(of.visit_ms, 1000 * visits) if visits else None,
    }


def rounded(of: Stats) -> dict[str, Figure]:
    """Return the seven key figures as they are shown."""
    return {name: round_half_away(figure, _DECIMALS.get(name, 0)) for name, figure in key_figures(of).items()}


def changes(now: Stats, before: Stats) -> dict[str, Figure]:
    """Return the change of each key figure in percent, with one decimal; None where `before` is 0 or not defined."""
    older = key_figures(before)
    return {name: _change(figure, older[name]) for name, figure in key_figures(now).items()}


def _change(now: Fraction | None, before: Fraction | None) -> Figure:
    if now is None or not before:
        return None
    return round_half_away((now - before) / before * 100, 1)
