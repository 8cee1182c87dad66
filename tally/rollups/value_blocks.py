"""Counts of each field's values over blocks of days, as arrays: the table `rollup_block`.

A block has the sums of 32 final days: of each field, the values in ascending order and the figures of each: visitors,
pageviews and events. Of entry and exit pages these are the figures of the visits that begin or end with a page. A day
whose events retention deletes has such arrays of its own (level 0), written first: they are all that is left of its
values. In memory an array has a row of values, a row for each figure, and a column for each value. Clients can send a
million different values, so a block is stored in chunks of up to CHUNK values and read in the order of their first
values: a sum over blocks is complete up to the value with which the next chunk begins, and only what may still change
is held.

Of a chunk, each row of the array is stored in as few bytes a number as its largest one needs, the values as
differences, first the lowest byte of all numbers, then the next one (a tenth less than number after number), and all of
it is compressed where that makes it smaller. A value takes 3 bytes, that of pages 5.

Which blocks are complete: tally/rollups/rollup_state.py. What they are counted from: tally/reports/value_sums.py.
Importing this module imports numpy, so the callers do it where they need it.
"""

import sqlite3
import zlib
from collections.abc import Iterator, Sequence

import numpy as np
import orjson

from tally.columns.format import Array, differs
from tally.events.dimensions import FIELDS, PAGES, field_number
from tally.storage.database import check_interrupt, damaged
from tally.storage.sql import events as sql

LISTED = (*FIELDS, "event_name", *PAGES)
"""The fields whose values are counted."""
FIGURES_OF = {field_number(name): 6 if name in PAGES else 3 for name in LISTED}
"""The fields of blocks, and how many figures their values have: visitors, pageviews and events. Those of entry and exit
pages (0: visits without one): visits, bounces, the pageviews and milliseconds of the visits, visitors and events."""
CHUNK = 1_000
"""The most values of a chunk."""
CHUNKS_PER_STEP = 200
"""The most chunks that a step writes or deletes: up to 600 KB, of pages 2 MB."""
# Sums are held up to so many values of the blocks: 2 MB, of pages 3.
_MAX_HELD = 60_000
# Bytes of a number of a row, a byte for each row at the beginning of a chunk; 0: all of its numbers are 0.
_WIDTHS = (0, 1, 2, 4, 8)
# Added to the first width of a chunk whose numbers are compressed.
_IS_COMPRESSED = 16
# Takes a twentieth less space than level 1, and 40 µs more for a chunk.
_LEVEL = 6

Chunk = tuple[int, int, bytes]
"""The field, the first value and the content of a chunk."""


# --- chunks


def encoded(counts: Array) -> bytes:
    """Return the chunk of an array with at least one value."""
    rows = counts.copy()
    rows[0, 1:] -= counts[0, :-1]
    rows[0, 0] = 0
    widths = [next(width for width in _WIDTHS if largest < 1 << 8 * width) for largest in rows.max(axis=1).tolist()]
    # Differences have at least a byte, so that the number of values follows from the length.
    widths[0] = max(widths[0], 1)
    content = b"".join(
        row.astype(f"<u{width}").view(np.uint8).reshape(-1, width).T.tobytes()
        for row, width in zip(rows, widths, strict=True)
        if width
    )
    compressed = zlib.compress(content, _LEVEL)
    if len(compressed) < len(content):
        widths[0] |= _IS_COMPRESSED
        content = compressed
    return bytes(widths) + content


def decoded(field: int, first_value: int, content: bytes) -> Array:
    """Return the array of a field's chunk. Raises sqlite3.DatabaseError, as of a damaged file, if it is not one."""
    try:
        first_width, *widths = content[: 1 + FIGURES_OF[field]]
        widths.insert(0, first_width & ~_IS_COMPRESSED)
        numbers = memoryview(content)[len(widths) :]
        if first_width & _IS_COMPRESSED:
            numbers = memoryview(zlib.decompress(numbers))
        values, rest = divmod(len(numbers), sum(widths))
        if rest or not values or not widths[0] or not set(widths).issubset(_WIDTHS):
            raise ValueError
    except (ArithmeticError, ValueError, zlib.error):
        raise damaged("counts of a block of days are damaged") from None
    rows, start = np.zeros((len(widths), values), np.int64), 0
    for row, width in zip(rows, widths, strict=True):
        if width:
            in_order = np.frombuffer(numbers, np.uint8, values * width, start).reshape(width, -1).T
            row[:] = np.frombuffer(in_order.tobytes(), f"<u{width}")
            start += values * width
    rows[0] = first_value + np.cumsum(rows[0])
    return rows


# --- sums


def sums(
    connection: sqlite3.Connection, website: int, field: int, blocks: Sequence[tuple[int, int]]
) -> Iterator[Array]:
    """Yield the sums of a field over blocks (level, number), as arrays of ascending values."""
    levels = sql.by_level(blocks)
    chunk = (
        "select first_value, content from rollup_block where website = ? and field = ? and level = ?"
        " and block in (select value from json_each(?))"
    )
    rows = connection.execute(
        f"/* value_blocks.sums */ {' union all '.join([chunk] * len(levels))} order by first_value",
        [part for level in levels for part in (website, field, *level)],
    )
    held: list[Array] = []
    size, most = 0, _MAX_HELD
    for first_value, content in rows:
        if size > most:
            check_interrupt()
            counts = _summed(held)
            end = int(np.searchsorted(counts[0], first_value))
            yield counts[:, :end]
            held, size = [counts[:, end:]], counts.shape[1] - end
            most = max(_MAX_HELD, 2 * size)
        held.append(decoded(field, first_value, content))
        size += held[-1].shape[1]
    if held:
        yield _summed(held)


def days_without(connection: sqlite3.Connection, website: int, field: int, days: Sequence[int]) -> set[int]:
    """Return those of some days with arrays of their own that have none of a field, such as a dimension that was added
    later."""
    rows = connection.execute(
        "/* value_blocks.days */ select block from rollup_block where website = ? and field = ? and level = 0"
        " and block in (select value from json_each(?))",
        (website, field, orjson.dumps(days).decode()),
    )
    return set(days).difference(day for (day,) in rows)


def _summed(parts: Sequence[Array]) -> Array:
    joined = np.concatenate(parts, axis=1)
    joined = joined[:, np.argsort(joined[0], kind="stable")]
    begins = np.flatnonzero(differs(joined[0]))
    counts = np.add.reduceat(joined, begins, axis=1)
    counts[0] = joined[0, begins]
    return counts


# --- building, in steps, each within a transaction of the caller


def chunks_of(field: int, counts: Array) -> list[Chunk]:
    """Return the chunks of an array of a field."""
    parts = (counts[:, start : start + CHUNK] for start in range(0, counts.shape[1], CHUNK))
    return [(field, int(part[0, 0]), encoded(part)) for part in parts]


def add_chunks(connection: sqlite3.Connection, website: int, level: int, block: int, rows: Sequence[Chunk]) -> None:
    """Write up to CHUNKS_PER_STEP chunks of a block."""
    connection.executemany(
        "/* value_blocks.add */ insert into rollup_block (website, level, block, field, first_value, content)"
        " values (?, ?, ?, ?, ?, ?)",
        [(website, level, block, *row) for row in rows],
    )


def delete_chunks(connection: sqlite3.Connection, website: int, level: int, block: int) -> int:
    """Delete up to CHUNKS_PER_STEP chunks of a block; return their number."""
    return connection.execute(
        "/* value_blocks.delete */ delete from rollup_block where rowid in (select rowid from rollup_block"
        f" where website = ? and field in ({', '.join(map(str, FIGURES_OF))}) and level = ? and block = ? limit ?)",
        (website, level, block, CHUNKS_PER_STEP),
    ).rowcount
