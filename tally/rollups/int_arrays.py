"""Encode integers as bytes and decode them: how histograms and heatmaps are stored.

Integers of one width follow each other in little-endian byte order on every platform, so that a database file can be
moved. Neither their width nor their number is stored; the caller has both.

Python's array does it in C, 2 ns an integer, in the byte order of the platform; on big-endian platforms bytes are
swapped.
"""

import sys
from array import array


def as_bytes(numbers: "array[int]") -> bytes:
    """Return the bytes of some integers. On big-endian platforms the array itself is swapped."""
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


def numbers_in(code: str, blob: bytes) -> "array[int]":
    """Return the integers in some bytes; `code` is the type code of `array` for their width."""
    numbers = array(code, blob)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
