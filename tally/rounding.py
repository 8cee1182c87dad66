"""Rounding of exact figures, and numbers of things in messages.

Figures are exact integers and fractions until they are written. Halves are rounded away from zero, as a reader expects
of 0.5; Python's own `round` takes them to the even neighbour.
"""

from fractions import Fraction


def round_half_away(figure: Fraction | None, decimals: int) -> float | int | None:
    """Return a figure rounded to some decimals, halves away from zero; an int for 0 decimals, None for None."""
    if figure is None:
        return None
    scaled = abs(figure) * 10**decimals
    whole: int = (2 * scaled.numerator + scaled.denominator) // (2 * scaled.denominator)
    signed = -whole if figure < 0 else whole
    return signed / 10**decimals if decimals else signed


def ratio(part: int, whole: int, unit: Fraction | int = 1) -> float | int | None:
    """Return part / whole in some unit (100: percent), rounded to one decimal; None where the whole is 0."""
    return round_half_away(unit * Fraction(part, whole), 1) if whole else None


def counted(number: int, noun: str) -> str:
    """Return a number of things, such as `1 event` and `2,000 events`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
