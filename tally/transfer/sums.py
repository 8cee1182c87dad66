"""What importers of sums share: files of an archive as records, and items in the shape of a line of sums.

Reading starts again at the beginning and omits what was read before: the names of columns, and texts that other files
refer to, are needed, and an export of sums is small.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from tally.events.validation import Rejection
from tally.transfer.line_format import SUM_TYPE
from tally.transfer.records import Record

BAD_NUMBER = Rejection("invalid_field", "Figures are whole numbers, not negative.")
BAD_DATE = Rejection("invalid_field", "The date is like 2024-11-18.", "date")


def following(records: Iterable[Record], start: int) -> Iterator[Record]:
    """Yield the records that end after a byte."""
    position = 0
    for record in records:
        position += record[1]
        if position > start:
            yield record


def tagged(
    tag: str, records: Iterable[Record], value_of: Callable[[Any], Any] = lambda value: value
) -> Iterator[Record]:
    """Yield records with the name of their file beside each value that can be read."""
    for value, size, lines in records:
        yield (value if value is None or isinstance(value, Rejection) else (tag, value_of(value))), size, lines


def number(text: str) -> int:
    """Return a figure, 0 for an empty text. Raises ValueError."""
    if not text:
        return 0
    if not text.isascii() or not text.isdecimal() or len(text) > 15:
        raise ValueError(text)
    return int(text)


def item(day: str, field: str, value: str, figures: Mapping[str, int]) -> dict[str, Any]:
    """Return an item of sums (SUM_COLUMNS of tally/transfer/line_format.py)."""
    return {"type": SUM_TYPE, "day": day, "field": field, "value": value, **figures}
