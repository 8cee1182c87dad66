"""Networks of data centers, of the file of --datacenter-ranges (tally/events/lists.py).

Of each IP version the networks are one sorted array of edges: where they begin, where they end, in turn. An address is
inside where the number of edges up to it is odd. bench/datacenters.py measures memory and time.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final, NamedTuple

from tally.events.client import Address

_BITS: Final = {4: 32, 6: 128}
_LOW: Final = (1 << 64) - 1


class Span(NamedTuple):
    """The addresses of a network, `first` to `end` without the latter. `is_out`: they are no data center's."""

    version: int
    first: int
    end: int
    is_out: bool


class Ranges:
    """Addresses that are in a network, and in none that is taken out."""

    def __init__(self, spans: Iterable[Span] = ()) -> None:
        marks: dict[int, list[int]] = {4: [], 6: []}
        for version, first, end, is_out in spans:
            marks[version] += (first << 2 | is_out, end << 2 | 2 | is_out)
        self._ipv4 = array("I", _edges(marks[4], 32))
        # No array has 128 bits: the upper and the lower half of each edge.
        self._high, self._low = array("Q"), array("Q")
        for edge in _edges(marks[6], 128):
            self._high.append(edge >> 64)
            self._low.append(edge & _LOW)

    def __contains__(self, address: Address) -> bool:
        number = int(address)
        if address.version == 4:
            return bisect_right(self._ipv4, number) % 2 == 1
        begin = bisect_left(self._high, number >> 64)
        end = bisect_right(self._high, number >> 64, begin)
        return bisect_right(self._low, number & _LOW, begin, end) % 2 == 1


def _edges(marks: list[int], bits: int) -> Iterator[int]:
    """Yield where addresses begin to be inside or to be outside, in order.

    A mark is a position, shifted by 2, with 2 for an end and 1 for a network that is taken out.
    """
    marks.sort()
    depths, is_inside = [0, 0], False
    for position, group in groupby(marks, lambda mark: mark >> 2):
        for mark in group:
            depths[mark & 1] += 1 - (mark & 2)
        if (depths[0] > 0 and not depths[1]) is not is_inside:
            is_inside = not is_inside
            if not position >> bits:  # the end of all addresses is no address
                yield position
