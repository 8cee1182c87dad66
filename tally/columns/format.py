"""A day's events by column: arrays of whole numbers as bytes, in table `day_column`.

A column is stored as the distinct values in ascending order and, for each row, the position of its value among them,
both as the narrowest integers they fit, of 1, 2 or 4 bits too. A column with a single value stores no positions.
Numbers with many values, such as times, are stored as differences from the least one. What zlib makes smaller by two
thirds is compressed, such as fields that most visits have no value of: reading takes ten times as long.

The columns and the order of their rows: tally/columns/statements.py.
"""

import zlib
from collections.abc import Iterable, Sequence
from struct import Struct
from struct import error as StructError
from typing import Any, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from tally.events.sessions import LOW_BITS
from tally.storage.database import damaged

Array = NDArray[Any]

# Bits of a position (0: one value, no positions), bytes of a value, whether the rest is compressed, whether
# there is a number for each visit, the number of distinct values, the number of rows, the least value.
_HEADER = Struct("<BBBBIIq")
_MAX_COMPRESSED = 0.33
_LENGTH = Struct("<I")
_LEVEL = 1
# For positions of less than a byte: the 8, 4 or 2 positions that each byte holds, as one integer of so many bytes.
_IN_BYTE = {
    bits: (np.arange(256)[:, None] >> np.arange(0, 8, bits) & (1 << bits) - 1).astype(np.uint8).view(f"u{8 // bits}")
    for bits in (1, 2, 4)
}


class Column(NamedTuple):
    """A column: for each row the position of its value in `values`; without `values`, the value itself."""

    codes: Array
    values: Array | None
    is_of_visits: bool

    @property
    def rows(self) -> Array:
        """Return the value of each row."""
        return self.codes if self.values is None else self.values.take(self.codes)

    @property
    def nbytes(self) -> int:
        """Return the size of its arrays."""
        return self.codes.nbytes + (0 if self.values is None else self.values.nbytes)


def encoded(column: Array, is_of_visits: bool, has_values: bool, most: float = _MAX_COMPRESSED) -> bytes:
    """Return a column as bytes. `has_values`: store the distinct values, for labels; otherwise differences.

    `most`: compressed if that leaves less than this part of the size.
    """
    least = int(column.min())
    rest = column - least
    values = np.empty(0, np.int64)
    if has_values:
        values, rest = np.unique(rest, return_inverse=True)
    bits = _bits(int(rest.max()))
    value_width = _bits(int(values.max(initial=0)), 8) // 8
    content = values.astype(f"<u{value_width}").tobytes() if has_values else b""
    if bits in _IN_BYTE:
        places = np.pad(rest, (0, -len(rest) % 8)).reshape(-1, 8 // bits) << np.arange(0, 8, bits)
        content += places.sum(axis=1).astype(np.uint8).tobytes()
    elif bits:
        content += rest.astype(_integers(bits)).tobytes()
    compressed = zlib.compress(content, _LEVEL)
    is_compressed = len(compressed) < most * len(content)
    header = _HEADER.pack(bits, value_width, is_compressed, is_of_visits, len(values), len(column), least)
    return header + (compressed if is_compressed else content)


class Days(NamedTuple):
    """A column of some days.

    codes: of each day, for each row the position of its value among those of the day or, in a column without values,
    the difference from `least`. values: those of one day after another, `sizes` of each.
    """

    codes: list[Array]
    least: list[int]
    values: Array
    sizes: list[int]
    is_of_visits: list[bool]

    @classmethod
    def of(cls, columns: Sequence[Column]) -> "Days":
        """Return the columns of some days, which have values either all or not at all."""
        values = [column.values for column in columns if column.values is not None]
        return cls(
            [column.codes for column in columns],
            [0] * len(columns),
            np.concatenate([np.empty(0, np.int64), *values]),
            [0 if column.values is None else len(column.values) for column in columns],
            [column.is_of_visits for column in columns],
        )


def decoded(content: bytes) -> Column:
    """Return the column that `encoded` made into bytes."""
    (codes,), (least,), values, (size,), (is_of_visits,) = decoded_days([content])
    return Column(codes, values, is_of_visits) if size else Column(codes + np.int64(least), None, is_of_visits)


def labels_in(content: bytes) -> list[int]:
    """Return the values of a column that has some. Raises sqlite3.DatabaseError where it is damaged."""
    try:
        values = decoded(content).values
    except (zlib.error, ValueError, StructError, IndexError) as failure:
        raise damaged(f"a column is damaged: {failure}") from None
    return [] if values is None else list(values.tolist())


def decoded_days(contents: Iterable[bytes]) -> Days:
    """Return the columns that `encoded` made into bytes, those of days with equally wide numbers at once."""
    days = []
    for content in contents:
        bits, width, is_compressed, is_of_visits, size, rows, least = _HEADER.unpack_from(content)
        rest = memoryview(content)[_HEADER.size :]
        if is_compressed:
            rest = memoryview(zlib.decompress(rest))
        start = size * width
        days.append((bits, rows, rest[start:], width * 8, size, rest[:start], least, bool(is_of_visits)))
    all_bits, all_rows, positions, widths, sizes, own_values, all_least, are_of_visits = map(
        list, zip(*days, strict=True)
    )
    values = np.empty(0, np.int64)
    if any(sizes):
        values = np.concatenate(_numbers(own_values, widths, sizes), dtype=np.int64, casting="unsafe")
        values += np.repeat(all_least, sizes)
    return Days(_numbers(positions, all_bits, all_rows), all_least, values, sizes, are_of_visits)


def _numbers(parts: Sequence[memoryview], bits: Sequence[int], counts: Sequence[int]) -> list[Array]:
    """Return the numbers in each part, so many of so many bits."""
    numbers: list[Array] = [np.empty(0)] * len(parts)
    # Those of less than a byte fill it: `encoded` pads them to a multiple of 8.
    padded = [-(-count // 8) * 8 if width in _IN_BYTE else count for width, count in zip(bits, counts, strict=True)]
    of_width: dict[int, list[int]] = {}
    for place, width in enumerate(bits):
        if len(parts[place]) * 8 != padded[place] * width:
            raise ValueError(f"{len(parts[place])} bytes instead of {padded[place]} numbers of {width} bits")
        of_width.setdefault(width, []).append(place)
    for width, places in of_width.items():
        joined = b"".join([parts[place] for place in places])
        if width in _IN_BYTE:
            whole = _IN_BYTE[width][np.frombuffer(joined, np.uint8), 0].view(np.uint8)
        elif width:
            whole = np.frombuffer(joined, _integers(width))
        else:
            whole = np.zeros(sum(counts[place] for place in places), np.uint8)
        begin = 0
        for place in places:
            numbers[place] = whole[begin : begin + counts[place]]
            begin += padded[place]
    return numbers


def encoded_texts(codes: Array, texts: Sequence[str]) -> bytes:
    """Return a column of texts as bytes: for each row 0, or the number of its text from 1 on. Each text has a row."""
    column = encoded(codes, False, True)
    return _LENGTH.pack(len(column)) + column + zlib.compress(orjson.dumps(texts), _LEVEL)


def decoded_texts(content: bytes) -> tuple[Array, list[str]]:
    """Return the codes and texts that `encoded_texts` made into bytes."""
    (length,) = _LENGTH.unpack_from(content)
    start = _LENGTH.size + length
    codes, values, _ = decoded(content[_LENGTH.size : start])
    if values is not None and values[-1] >= len(values):
        # Every row has a text: there is no 0.
        codes = codes + np.min_scalar_type(len(values)).type(1)
    return codes, orjson.loads(zlib.decompress(content[start:]))


def _integers(bits: int) -> str:
    # Those of 64 bits have a sign: numpy adds an unsigned one to another integer as floats.
    return f"<u{bits // 8}" if bits < 64 else "<i8"


def _bits(largest: int, least: int = 0) -> int:
    return next(bits for bits in (0, 1, 2, 4, 8, 16, 32, 64) if bits >= least and largest < 1 << bits)


def begins_of_visitors(times: Array) -> Array:
    """Return the numbers of visitors whose first events are at these ms of the day, without their low bits.

    A late or an imported event makes the difference to the visitor's number large or negative, but never wrong.
    """
    begins: Array = times.astype(np.int64) << LOW_BITS
    return begins


def ids_of(times: Array, first_id: Array, steps: Array) -> Array:
    """Return the id of each event: of these by time, the first one's, and the difference of each to the one before."""
    ids = np.empty(len(times), np.int64)
    ids[np.argsort(times, kind="stable")] = first_id[0] + np.cumsum(steps)
    return ids


def differs(column: Array) -> Array:
    """Return for each row whether its value differs from that of the row before; True for the first."""
    changes = np.ones(len(column), bool)
    np.not_equal(column[1:], column[:-1], out=changes[1:])
    return changes
