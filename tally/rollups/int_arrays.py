"""Whole numbers as bytes and back: how the cells of histograms and heatmaps lie in the file.

Numbers of one width stand side by side, the lowest byte of each first, whatever machine wrote them: a file may be moved
to another one. Nothing says where they end or how wide they are; who wrote them knows.

Python's array does it in C, 2 ns a number; it writes as its machine does, and so is turned around on the others.
"""

import sys
from array import array


def as_bytes(numbers: "array[int]") -> bytes:
    """The bytes of some numbers; what was given may be turned around by it."""
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


def numbers_in(code: str, blob: bytes) -> "array[int]":
    """The numbers in some bytes; `code` is array's for their width."""
    numbers = array(code, blob)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
