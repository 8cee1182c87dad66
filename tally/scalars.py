"""JSON's scalars as bytes whose order is that of the values, and numbers as JSON has them.

Equal values are the same bytes, and no others are: the text "1", the number 1 and true differ, 1 and 1.0 do not. The
order is null, false, true, numbers by size, texts by code point; SQLite compares blobs as Python does bytes. Numbers
are what tally/events.py lets through: doubles, and integers of 64 bits, signed or not, which are compared exactly.
"""

import struct
import sys
from fractions import Fraction
from math import nextafter
from typing import Any

NULL, FALSE, TRUE, NUMBER, TEXT = (bytes((kind,)) for kind in range(5))
"""What the bytes of each kind begin with."""
_ORDERED = struct.Struct(">QH")
_DOUBLE, _BITS = struct.Struct(">d"), struct.Struct(">Q")
_SIGN, _ALL_BITS = 1 << 63, (1 << 64) - 1


def written(value: Any) -> bytes:
    """A JSON scalar as bytes: the same for equal values alone, and in the order of the values."""
    if value is None:
        return NULL
    if isinstance(value, bool):
        return TRUE if value else FALSE
    return TEXT + value.encode() if isinstance(value, str) else NUMBER + _ordered(value)


def _ordered(number: float) -> bytes:
    """The bits of the greatest double that is no greater, in an order of their own, and how much the number is more."""
    near = float(number) + 0.0  # no -0.0
    if near > number:
        near = nextafter(near, -sys.float_info.max)
    (bits,) = _BITS.unpack(_DOUBLE.pack(near))
    more = int(number) - int(near) if near != number else 0
    return _ORDERED.pack(~bits & _ALL_BITS if bits & _SIGN else bits | _SIGN, more)


def read(value: bytes) -> Any:
    """The value again: a number without a fraction as an int, where JSON has one for it (64 bits)."""
    kind = value[:1]
    if kind == TEXT:
        return value[1:].decode()
    if kind != NUMBER:
        return {NULL: None, FALSE: False, TRUE: True}[kind]
    bits, more = _ORDERED.unpack_from(value, 1)
    (near,) = _DOUBLE.unpack(_BITS.pack(bits & ~_SIGN if bits & _SIGN else ~bits & _ALL_BITS))
    return _whole(int(near) + more) if near.is_integer() else near


def _whole(number: int) -> int | float:
    return number if -_SIGN <= number < 1 << 64 else float(number)


def nearest(number: Fraction) -> float | None:
    """The number that JSON has for it, rounded once; None beyond the greatest double."""
    try:
        return _whole(number.numerator) if number.denominator == 1 else float(number)
    except OverflowError:
        return None
