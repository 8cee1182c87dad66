"""A day's events by column: arrays of whole numbers as bytes, in table `day_column`.

A column is stored as the distinct values in ascending order and, for each row, the position of its value among them,
both as the narrowest integers they fit. A column with a single value stores no positions. Numbers with many values,
such as times, are stored as differences from the least one. What zlib makes smaller by two fifths is compressed: of
paths it saves a quarter, and takes fifty times as long to read.

The columns and the order of their rows: tally/storage/sql/day_columns.py.
"""

import zlib
from struct import Struct
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

# Width of a position and of a value in bytes (0: one value, no positions), whether the rest is compressed, whether
# there is a number for each visit, the number of distinct values, the number of rows, the least value.
_HEADER = Struct("<BBBBIIq")
_LEAST_SAVING = 0.6
_LEVEL = 1


class Column(NamedTuple):
    """A column: for each row the position of its value in `values`; without `values`, the value itself."""

    codes: Array
    values: Array | None
    is_of_visits: bool


def encoded(column: Array, is_of_visits: bool, has_values: bool) -> bytes:
    """Return a column as bytes. `has_values`: store the distinct values, for labels; otherwise differences."""
    least = int(column.min())
    rest = column - least
    values = np.empty(0, np.int64)
    if has_values:
        values, rest = np.unique(rest, return_inverse=True)
    width = _width(int(rest.max()))
    value_width = _width(int(values.max(initial=0))) or 1
    content = values.astype(f"<u{value_width}").tobytes() if has_values else b""
    if width:
        content += rest.astype(f"<u{width}").tobytes()
    compressed = zlib.compress(content, _LEVEL)
    is_compressed = len(compressed) < _LEAST_SAVING * len(content)
    header = _HEADER.pack(width, value_width, is_compressed, is_of_visits, len(values), len(column), least)
    return header + (compressed if is_compressed else content)


def decoded(content: bytes) -> Column:
    """Return the column that `encoded` made into bytes."""
    width, value_width, is_compressed, is_of_visits, distinct, rows, least = _HEADER.unpack_from(content)
    rest = zlib.decompress(memoryview(content)[_HEADER.size :]) if is_compressed else content
    start = 0 if is_compressed else _HEADER.size
    values = None
    if distinct:
        values = np.frombuffer(rest, f"<u{value_width}", distinct, start).astype(np.int64) + least
        start += distinct * value_width
    codes = np.frombuffer(rest, f"<u{width}", rows, start) if width else np.zeros(rows, np.uint8)
    if values is None:
        codes = codes.astype(np.int64) + least
    return Column(codes, values, bool(is_of_visits))


def _width(largest: int) -> int:
    return next(width for width in (0, 1, 2, 4, 8) if largest < 1 << 8 * width)


def differs(column: Array) -> Array:
    """Return for each row whether its value differs from that of the row before; True for the first."""
    found = np.ones(len(column), bool)
    np.not_equal(column[1:], column[:-1], out=found[1:])
    return found
