"""Whether what is kept beside the days of packed heatmaps agrees with them, and what is done where it does not.

The cells of a day are the data: nothing is there to count them from anew. Sums of them over blocks of days, and how
many points each page has, are compared with them; `repair` makes both from the days.

By page, where cells are (`of_page`), and by block, where counts are (`is_counted`); each in a snapshot of the caller's.
"""

import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from tally.rollups.heatmap_grid import WIDTHS, Cells, add, totals
from tally.rollups.heatmaps import COUNT_LEVELS, COUNTS, LEVELS, bands, put, summed

Place = tuple[int, int]
"""level, block."""


def pages(connection: sqlite3.Connection, website: int) -> Iterator[int]:
    """The labels of the pages that have packed points: one lookup each."""
    page = -1
    while row := connection.execute(
        "/* heatmaps_verify.pages */ select pathname from heatmap_block where website = ? and pathname > ?"
        " order by pathname limit 1",
        (website, page),
    ).fetchone():
        page = row[0]
        yield page


def of_page(connection: sqlite3.Connection, website: int, page: int) -> set[Place]:
    """The sums of a page that are not those of its days, and its days that are not counted."""
    wrong: set[Place] = set()
    for band in bands(connection, website, page):
        for level in LEVELS[1:]:
            for block, *blobs in _rows(connection, website, page, band, level):
                if list(map(_unpacked, blobs)) != list(
                    map(_unpacked, summed(connection, (website, page, band, level, block), LEVELS[:1]))
                ):
                    wrong.add((level, block))
        days = {row[0] for row in _rows(connection, website, page, band, 0)}
        wrong |= {(0, day) for day in days if _count_of(connection, website, 0, day, page) is None}
    return wrong


def blocks(connection: sqlite3.Connection, website: int) -> Iterator[Place]:
    """The days, and blocks of them, that pages are counted of, or should be."""
    below: set[int] = set()
    for level in COUNT_LEVELS:
        found = {block >> 1 for block in below}
        block = -1
        while row := connection.execute(
            "/* heatmaps_verify.blocks */ select block from heatmap_count where website = ? and level = ? and block > ?"
            " order by block limit 1",
            (website, level, block),
        ).fetchone():
            block = row[0]
            found.add(block)
        yield from ((level, block) for block in sorted(found))
        below = found


def is_counted(connection: sqlite3.Connection, website: int, level: int, block: int) -> bool:
    """Whether the pages of a day, or of a block of days, have the counts that they should have."""
    stored = _counts(connection, website, level, [block])
    if level:
        return stored == _counts(connection, website, level - 1, [2 * block, 2 * block + 1])
    return stored == {page: _counted(connection, website, page, block) for page in stored}


def repair(connection: sqlite3.Connection, website: int, level: int, block: int) -> None:
    """Makes the counts of a day or block, and the sums, from what is below it; and those of the blocks above."""
    if level == 0:
        for page in {*pages(connection, website), *_counts(connection, website, 0, [block])}:
            _set_count(connection, (website, 0, block, page), _counted(connection, website, page, block))
    for above in range(max(level, 1), COUNT_LEVELS[-1] + 1):
        number = block >> above - level
        right = _counts(connection, website, above - 1, [2 * number, 2 * number + 1])
        for page in {*right, *_counts(connection, website, above, [number])}:
            _set_count(connection, (website, above, number, page), right.get(page, []))
        for page in list(pages(connection, website)) if above in LEVELS else ():
            for band in bands(connection, website, page):
                place = (website, page, band, above, number)
                if _row(connection, place):
                    put(connection, place, summed(connection, place, LEVELS[:1]))


def _set_count(connection: sqlite3.Connection, place: tuple[int, ...], counts: Sequence[int]) -> None:
    if any(counts):
        connection.execute(
            "/* heatmaps_verify.count */ insert or replace into heatmap_count values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*place, *counts),
        )
    else:
        connection.execute(
            "/* heatmaps_verify.uncount */ delete from heatmap_count"
            " where website = ? and level = ? and block = ? and pathname = ?",
            place,
        )


def _unpacked(blob: bytes) -> Cells:
    cells = Counter[int]()
    add(cells, blob)
    return cells


def _rows(connection: sqlite3.Connection, website: int, page: int, band: int, level: int) -> Iterator[tuple[Any, ...]]:
    yield from connection.execute(
        f"/* heatmaps_verify.rows */ select block, {', '.join(WIDTHS)} from heatmap_block"
        " where website = ? and pathname = ? and band = ? and level = ?",
        (website, page, band, level),
    )


def _row(connection: sqlite3.Connection, place: tuple[int, ...]) -> tuple[bytes, ...] | None:
    row: tuple[bytes, ...] | None = connection.execute(
        f"/* heatmaps_verify.row */ select {', '.join(WIDTHS)} from heatmap_block"
        " where website = ? and pathname = ? and band = ? and level = ? and block = ?",
        place,
    ).fetchone()
    return row


def _counted(connection: sqlite3.Connection, website: int, page: int, day: int) -> list[int]:
    """The columns COUNTS of a page and day, from its cells."""
    counts = [0] * len(COUNTS)
    for band in bands(connection, website, page):
        for width, blob in enumerate(_row(connection, (website, page, band, 0, day)) or ()):
            samples, clicks = totals(_unpacked(blob))
            counts[2 * width] += clicks
            counts[2 * width + 1] += samples
    return counts


def _counts(connection: sqlite3.Connection, website: int, level: int, numbers: Sequence[int]) -> dict[int, list[int]]:
    """The columns COUNTS of each page, of some blocks together."""
    found: dict[int, list[int]] = {}
    for number in numbers:
        for page, *counts in connection.execute(
            f"/* heatmaps_verify.counts */ select pathname, {', '.join(COUNTS)} from heatmap_count"
            " where website = ? and level = ? and block = ?",
            (website, level, number),
        ):
            before = found.get(page)
            found[page] = counts if before is None else [a + b for a, b in zip(before, counts, strict=True)]
    return found


def _count_of(connection: sqlite3.Connection, website: int, level: int, block: int, page: int) -> tuple[int] | None:
    row: tuple[int] | None = connection.execute(
        "/* heatmaps_verify.count_of */ select 1 from heatmap_count"
        " where website = ? and level = ? and block = ? and pathname = ?",
        (website, level, block, page),
    ).fetchone()
    return row
