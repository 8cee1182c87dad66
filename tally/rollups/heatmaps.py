"""Heatmaps: points stored by commits, packed in the background, and read over any range of days.

A commit adds to `heatmap_point`, one row for each cell. In the background rows are moved to `heatmap_block`, which has
the encoded cells of a band of a page (tally/rollups/heatmap_grid.py), and the number of points of each page is added to
`heatmap_count`. A row is moved in one transaction, so packed and unpacked points together are always complete, and no
state is needed. Late points are moved like any other. Days are packed once they are over; today is packed when it has
many rows, so that reading them stays fast.

The cells of days (level 0) are the data. Sums over blocks of 8 and 64 days (levels 3 and 6) exist for bands with so
many cells that adding days would be slow. A sum is created from all packed cells, and everything packed later is added
to it, so an existing sum is complete. Counts exist for days and for all blocks of 2 to 256 days, so that those of a
year are read without any cell.
"""

import math
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, groupby, islice
from typing import Any

import orjson

from tally.engine.values import WIDTHS
from tally.rollups.heatmap_grid import Cells, add, bin_in, cell_of, packed, totals
from tally.rollups.rollup_state import tiles

LEVELS = (0, 3, 6)
COUNT_LEVELS = tuple(range(9))
COUNTS = tuple(f"{width}_{kind}" for width in WIDTHS for kind in ("clicks", "samples"))
"""The columns of heatmap_count that count, in the order of (width, kind)."""
_COUNT_COLUMNS = ", ".join(("website", "level", "block", "pathname", *COUNTS))

# Processor time that a step takes, whatever else the machine does: with its commit it takes less than 50 ms, during
# which a collect request waits for the writer.
STEP_S = 0.01
_ROWS_A_STEP = 1_000
# Deleting a day adds up the cells of the blocks above it again: 2 ms for a page with many.
_DAYS_A_STEP = 5
# The number of today's rows above which they are packed; they are read in 3 ms.
MAX_ROWS = 10_000
# The size of the parts above which a sum is stored: about 1,500 cells in 3 widths. A page that stays just below it all
# year is read in 10 ms.
SUM_FROM_BYTES = 4_000
_ANY_DAY = 1 << 40
_BYTES_BETWEEN_LOOKS = 2_000_000

Row = tuple[int, ...]
"""day, pathname, width, kind, bin_y, bin_x, points."""
Place = tuple[int, int]
"""level, block."""


# --- packing, in steps, each within a transaction of the caller


def pack_end(connection: sqlite3.Connection, website: int, today: int) -> int | None:
    """Return the day before which points are to be packed now; None where there are none."""
    first = _next_day(connection, website, 0)
    if first is None:
        return None
    (rows,) = connection.execute(
        "/* heatmaps.rows */ select count(*) from (select 1 from heatmap_point where website = ? and day >= 0 limit ?)",
        (website, MAX_ROWS + 1),
    ).fetchone()
    return _ANY_DAY if rows > MAX_ROWS else today if first < today else None


def pack(connection: sqlite3.Connection, website: int, end: int) -> bool:
    """Pack some of the points of the days before `end`; return whether there may be more."""
    rows: list[Row] = connection.execute(
        "/* heatmaps.unpacked */ select day, pathname, viewport, kind, bin_y, bin_x, points from heatmap_point"
        " where website = ? and day < ? order by day, pathname limit ?",
        (website, end, _ROWS_A_STEP),
    ).fetchall()
    done = store(connection, website, rows, time.thread_time() + STEP_S)
    connection.executemany(
        "/* heatmaps.packed */ delete from heatmap_point where website = ? and day = ? and pathname = ?"
        " and viewport = ?"
        " and kind = ? and bin_y = ? and bin_x = ?",
        [(website, *row[:-1]) for row in done],
    )
    return bool(rows)


def store(connection: sqlite3.Connection, website: int, rows: Sequence[Row], end_s: float = math.inf) -> list[Row]:
    """Add points to the packed ones until `end_s` (time.thread_time); return the added rows.

    `rows` are sorted by day and page.
    """
    counts: dict[Row, list[int]] = {}
    done: list[Row] = []
    for (day, pathname, band), band_rows in _by_band(rows):
        _put_in(connection, website, pathname, band, day, band_rows)
        for _, _, width, kind, *_, points in band_rows:
            counts.setdefault((day, pathname), [0] * len(COUNTS))[2 * width + kind] += points
        done += band_rows
        if time.thread_time() > end_s:
            break
    _count(connection, website, counts)
    return done


def _by_band(rows: Sequence[Row]) -> Iterator[tuple[tuple[int, int, int], list[Row]]]:
    """Yield the rows of each (day, page, band), in the order of days and pages."""
    for (day, pathname), of_page in groupby(rows, lambda row: row[:2]):
        bands: dict[int, list[Row]] = {}
        for row in of_page:
            bands.setdefault(cell_of(*row[3:6])[0], []).append(row)
        for band, band_rows in bands.items():
            yield (day, pathname, band), band_rows


def _put_in(
    connection: sqlite3.Connection, website: int, pathname: int, band: int, day: int, rows: Sequence[Row]
) -> None:
    """Add points of a day to the band's cells of the day and of the blocks above it."""
    new: dict[int, Cells] = {}
    for _, _, width, kind, bin_y, bin_x, points in rows:
        new.setdefault(width, Counter())[cell_of(kind, bin_y, bin_x)[1]] += points
    for level in LEVELS:
        place = (website, pathname, band, level, day >> level)
        stored = connection.execute(
            f"/* heatmaps.of */ select {', '.join(WIDTHS)} from heatmap_block"
            " where website = ? and pathname = ? and band = ? and level = ? and block = ?",
            place,
        ).fetchone()
        if stored is None and level:
            if _is_large(connection, place):
                put(connection, place, summed(connection, place))
            continue
        blobs = list(stored or [b""] * len(WIDTHS))
        for width, more in new.items():
            cells = Counter[int]()
            add(cells, blobs[width])
            cells.update(more)
            blobs[width] = packed(cells)
        put(connection, place, blobs)


def put(connection: sqlite3.Connection, place: Row, blobs: Sequence[bytes]) -> None:
    """Write the cells of each width of a place (website, pathname, band, level, block)."""
    connection.execute(
        "/* heatmaps.put */ insert or replace into heatmap_block"
        f" (website, pathname, band, level, block, {', '.join(WIDTHS)}) values (?, ?, ?, ?, ?, ?, ?, ?)",
        (*place, *blobs),
    )


def _is_large(connection: sqlite3.Connection, place: Row) -> bool:
    """Return whether adding the parts of a block would be slow."""
    website, pathname, band, level, block = place
    below = LEVELS[LEVELS.index(level) - 1]
    step = level - below
    (size,) = connection.execute(
        f"/* heatmaps.size */ select sum({' + '.join(f'length({width})' for width in WIDTHS)}) from heatmap_block"
        " where website = ? and pathname = ? and band = ? and level = ? and block >= ? and block < ?",
        (website, pathname, band, below, block << step, (block + 1) << step),
    ).fetchone()
    return size is not None and size > SUM_FROM_BYTES


def summed(connection: sqlite3.Connection, place: Row, levels: Sequence[int] = ()) -> list[bytes]:
    """Return the sum of a band's block from its parts of some levels, by default of all levels below it."""
    website, pathname, band, level, block = place
    cells = tuple(Counter[int]() for _ in WIDTHS)
    below = levels or LEVELS[: LEVELS.index(level)]
    for blobs in _found(connection, (website, pathname, band), (block << level, (block + 1) << level), below):
        for counts, blob in zip(cells, blobs, strict=True):
            add(counts, blob)
    return [packed(counts) for counts in cells]


def _count(connection: sqlite3.Connection, website: int, counts: dict[Row, list[int]]) -> None:
    """Add to the numbers of points of pages, of days and of the blocks above them."""
    more = ", ".join(f"{name} = {name} + excluded.{name}" for name in COUNTS)
    connection.executemany(
        f"/* heatmaps.count */ insert into heatmap_count ({_COUNT_COLUMNS}) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        f" on conflict do update set {more}",
        [
            (website, level, day >> level, pathname, *numbers)
            for level in COUNT_LEVELS
            for (day, pathname), numbers in counts.items()
        ],
    )


# --- reading


def all_points(connection: sqlite3.Connection, website: int) -> Iterator[Row]:
    """Yield the points of all pages and days, packed or not: some places twice."""
    yield from connection.execute(
        "/* heatmaps.all_unpacked */ select day, pathname, viewport, kind, bin_y, bin_x, points from heatmap_point"
        " where website = ? and day >= 0 order by day",
        (website,),
    )
    for day, pathname, band, *blobs in connection.execute(
        f"/* heatmaps.all_packed */ select block, pathname, band, {', '.join(WIDTHS)} from heatmap_block"
        " where website = ? and pathname >= 0 and level = 0 order by block",
        (website,),
    ):
        for width, blob in enumerate(blobs):
            points_of_cells = Counter[int]()
            add(points_of_cells, blob)
            for cell, points in points_of_cells.items():
                yield (day, pathname, width, *bin_in(band, cell), points)


def cells(
    connection: sqlite3.Connection, website: int, pathname: int, first: int, end: int, widths: Sequence[int]
) -> Iterator[tuple[int, Cells]]:
    """Yield (band, cells) of a page on the days in [first, end), of some widths together, from the top on."""
    unpacked: dict[int, Cells] = {}
    for _, _, width, kind, bin_y, bin_x, points in _unpacked_of(connection, website, pathname, first, end):
        if width in widths:
            band, cell = cell_of(kind, bin_y, bin_x)
            unpacked.setdefault(band, Counter())[cell] += points
    for band in sorted({*bands(connection, website, pathname), *unpacked}):
        counts = unpacked.get(band, Counter())
        read = 0
        for blobs in _found(connection, (website, pathname, band), (first, end), widths=widths):
            for blob in blobs:
                add(counts, blob)
            read += sum(map(len, blobs))
            if read > _BYTES_BETWEEN_LOOKS:
                _run_progress_handler(connection)
                read = 0
        yield band, counts


def _run_progress_handler(connection: sqlite3.Connection) -> None:
    """Run 5 ms of SQLite instructions, because its progress handler checks the deadline, and Python code does not."""
    connection.execute(
        "/* heatmaps.progress */ with recursive look (n) as (select 1 union all select n + 1 from look where n < 20000)"
        " select count(*) from look"
    ).fetchall()


def pages(
    connection: sqlite3.Connection, website: int, first: int, end: int, widths: Sequence[int], limit: int
) -> list[tuple[int, str, int, int]]:
    """Return (label, text, samples, clicks) of pages on the days in [first, end), of some widths together.

    Points without a page (label 0) come first, if there are any, then the first `limit` pages by samples plus clicks
    and text. Takes 20 ms for 5,000 pages over a year. SQLite adds and ranks them, in bounded memory for any number of
    pages.
    """
    low, high = connection.execute(
        "/* heatmaps.counted_days */ select (select block from heatmap_count where website = :website and level = 0"
        " order by block limit 1), (select block from heatmap_count where website = :website and level = 0"
        " order by block desc limit 1)",
        {"website": website},
    ).fetchone()
    days = (0, 0) if low is None else _widened(first, end, low, high, COUNT_LEVELS[-1])
    blocks = list(tiles(COUNT_LEVELS, _Everything(), *days))
    samples, clicks = (" + ".join(f"{WIDTHS[width]}_{kind}" for width in widths) for kind in ("samples", "clicks"))
    return connection.execute(
        f"/* heatmaps.pages */ with tile (level, block) as (values (-1, 0){', (?, ?)' * len(blocks)}),"
        " counted (pathname, samples, clicks) as materialized (select pathname, sum(samples), sum(clicks) from"
        f" (select pathname, {samples} as samples, {clicks} as clicks"
        " from tile cross join heatmap_count using (level, block) where website = ?"
        " union all select pathname, iif(kind = 1, points, 0), iif(kind = 0, points, 0) from heatmap_point"
        " where website = ? and day >= ? and day < ? and viewport in (select value from json_each(?)))"
        " group by pathname),"
        # Texts decide among equal counts: only those that may be returned are looked up.
        " least (points) as (select samples + clicks from counted where pathname > 0 order by 1 desc limit 1 offset ?)"
        " select pathname, coalesce((select text from label where id = pathname), '') as text, samples, clicks"
        " from counted where pathname = 0"
        " or samples + clicks >= max(1, coalesce((select points from least), 1))"
        " order by pathname > 0, samples + clicks desc, text"
        " limit ? + exists (select 1 from counted where pathname = 0)",
        [
            *(*chain.from_iterable(blocks), website),
            *(website, first, end, orjson.dumps(list(widths)).decode()),
            *(limit - 1, limit),
        ],
    ).fetchall()


class _Everything:
    """Contains every block: counts exist for all of them."""

    def __contains__(self, block: object) -> bool:
        return True


def _widened(first: int, end: int, low: int, high: int, level: int) -> tuple[int, int]:
    """Limit the days in [first, end) to those with data, `low` to `high`, extended to the edges of blocks of a level.

    The extension needs fewer blocks.
    """
    first = low >> level << level if first <= low else first
    end = (high >> level) + 1 << level if end > high else end
    return first, max(first, end)


def _unpacked_of(connection: sqlite3.Connection, website: int, pathname: int, first: int, end: int) -> Iterator[Row]:
    """Yield the unpacked rows of a page, day by day."""
    day = _next_day(connection, website, first)
    while day is not None and day < end:
        yield from connection.execute(
            "/* heatmaps.unpacked_of */ select day, pathname, viewport, kind, bin_y, bin_x, points from heatmap_point"
            " where website = ? and day = ? and pathname = ?",
            (website, day, pathname),
        )
        day = _next_day(connection, website, day + 1)


def _next_day(connection: sqlite3.Connection, website: int, first: int) -> int | None:
    row = connection.execute(
        "/* heatmaps.next_day */ select day from heatmap_point where website = ? and day >= ? order by day limit 1",
        (website, first),
    ).fetchone()
    return None if row is None else int(row[0])


def bands(connection: sqlite3.Connection, website: int, pathname: int) -> Iterator[int]:
    """Yield the bands of a page that have packed points, with one lookup each."""
    band = -1
    while row := connection.execute(
        "/* heatmaps.bands */ select band from heatmap_block where website = ? and pathname = ? and band > ?"
        " order by band limit 1",
        (website, pathname, band),
    ).fetchone():
        band = row[0]
        yield band


def _found(
    connection: sqlite3.Connection,
    page: tuple[int, int, int],
    days: tuple[int, int],
    levels: Sequence[int] = LEVELS,
    widths: Sequence[int] = (0, 1, 2),
) -> Iterator[tuple[bytes, ...]]:
    """Yield the encoded cells of a band of a page (website, pathname, band), of each of some widths.

    Reads the fewest rows of some levels for the days in [first, end).
    """
    names = ", ".join(WIDTHS[width] for width in widths)
    for level, first, end in _stretches(connection, page, days, levels):
        yield from connection.execute(
            f"/* heatmaps.found */ select {names} from heatmap_block"
            " where website = ? and pathname = ? and band = ? and level = ? and block >= ? and block < ?",
            (*page, level, first, end),
        )


def _stretches(
    connection: sqlite3.Connection, page: tuple[int, int, int], days: tuple[int, int], levels: Sequence[int]
) -> list[tuple[int, int, int]]:
    """Return the blocks to read for some days as (level, first, end), adjacent ones of a level together."""
    place = "website = :website and pathname = :pathname and band = :band"
    of_page = dict(zip(("website", "pathname", "band"), page, strict=True))
    low, high = connection.execute(
        f"/* heatmaps.days */ select (select block from heatmap_block where {place} and level = 0"
        " order by block limit 1)"
        f", (select block from heatmap_block where {place} and level = 0 order by block desc limit 1)",
        of_page,
    ).fetchone()
    if low is None:
        return []
    first, end = _widened(*days, low, high, levels[-1])
    built = {
        (level, block)
        for level in levels[1:]
        for (block,) in connection.execute(
            f"/* heatmaps.sums */ select block from heatmap_block where {place} and level = :level"
            " and block >= :first and block < :end",
            of_page | {"level": level, "first": first >> level, "end": -(-end >> level)},
        )
    }
    stretches: list[tuple[int, int, int]] = []
    for level, block in tiles(levels, built, first, end):
        if stretches and stretches[-1][0] == level:
            stretches[-1] = (*stretches[-1][:2], block + 1)
        else:
            stretches.append((level, block, block + 1))
    return stretches


# --- verification


def pages_after(connection: sqlite3.Connection, website: int, page: int, limit: int) -> list[int]:
    """Return the labels of the next pages after one that have points, packed or not."""
    rows = connection.execute(
        "/* heatmaps.unpacked_pages */ select distinct pathname from heatmap_point where website = ? and day >= 0"
        " and pathname > ? order by pathname limit ?",
        (website, page, limit),
    )
    pages = {row[0] for row in rows}
    pages.update(islice(packed_pages(connection, website, page), limit))
    return sorted(pages)[:limit]


def delete_days(
    connection: sqlite3.Connection, website: int, page: int, first: int, end: int, new: int | None = None
) -> bool:
    """Delete the points of a page on some of the days in [first, end), or give them to the page `new`.

    Return whether there are more.
    """
    moved: list[Row] = connection.execute(
        "/* heatmaps.delete_points */ delete from heatmap_point"
        " where website = ? and day >= ? and day < ? and pathname = ?"
        " returning day, pathname, viewport, kind, bin_y, bin_x, points",
        (website, first, end, page),
    ).fetchall()
    known = list(bands(connection, website, page))
    days: set[int] = set()
    for band in known:
        rows = connection.execute(
            "/* heatmaps.days_to_delete */ select block from heatmap_block where website = ? and pathname = ?"
            " and band = ? and level = 0 and block >= ? and block < ? order by block limit ?",
            (website, page, band, first, end, _DAYS_A_STEP),
        )
        days.update(row[0] for row in rows)
    some = sorted(days)[:_DAYS_A_STEP]
    for day in some:
        gone = _stored_counts(connection, website, 0, [day]).get(page, [0] * len(COUNTS))
        for level in COUNT_LEVELS:
            counts = _stored_counts(connection, website, level, [day >> level]).get(page, gone)
            left = [count - less for count, less in zip(counts, gone, strict=True)]
            _set_count(connection, (website, level, day >> level, page), left)
        for band in known:
            place = (website, page, band, 0, day)
            for width, blob in enumerate(() if new is None else _stored_block(connection, place) or ()):
                moved += [(day, page, width, *bin_in(band, cell), points) for cell, points in _unpack(blob).items()]
            _delete_block(connection, place)
    for level in LEVELS[1:]:
        for place in {(website, page, band, level, day >> level) for band in known for day in some}:
            if _stored_block(connection, place):
                blobs = summed(connection, place, LEVELS[:1])
                if any(blobs):
                    put(connection, place, blobs)
                else:
                    _delete_block(connection, place)
    if new is not None:
        store(connection, website, sorted((day, new, *rest) for day, _, *rest in moved))
    return len(days) > len(some)


def _delete_block(connection: sqlite3.Connection, place: Row) -> None:
    connection.execute(
        "/* heatmaps.delete_block */ delete from heatmap_block"
        " where website = ? and pathname = ? and band = ? and level = ? and block = ?",
        place,
    )


def packed_pages(connection: sqlite3.Connection, website: int, page: int = -1) -> Iterator[int]:
    """Yield the labels of the pages after one that have packed points, with one lookup each."""
    while row := connection.execute(
        "/* heatmaps.packed_pages */ select pathname from heatmap_block where website = ? and pathname > ?"
        " order by pathname limit 1",
        (website, page),
    ).fetchone():
        page = row[0]
        yield page


def wrong_places(connection: sqlite3.Connection, website: int, page: int) -> set[Place]:
    """Return the blocks whose sums of a page differ from those of its days, and its days that have no counts."""
    wrong: set[Place] = set()
    for band in bands(connection, website, page):
        for level in LEVELS[1:]:
            for block, *blobs in _stored_blocks(connection, website, page, band, level):
                if list(map(_unpack, blobs)) != list(
                    map(_unpack, summed(connection, (website, page, band, level, block), LEVELS[:1]))
                ):
                    wrong.add((level, block))
        days = {row[0] for row in _stored_blocks(connection, website, page, band, 0)}
        wrong |= {(0, day) for day in days if _has_count(connection, website, 0, day, page) is None}
    return wrong


def counted_blocks(connection: sqlite3.Connection, website: int) -> Iterator[Place]:
    """Yield the days and blocks that have counts or should have some."""
    below: set[int] = set()
    for level in COUNT_LEVELS:
        blocks = {block >> 1 for block in below}
        block = -1
        while row := connection.execute(
            "/* heatmaps.counted_blocks */ select block from heatmap_count"
            " where website = ? and level = ? and block > ? order by block limit 1",
            (website, level, block),
        ).fetchone():
            block = row[0]
            blocks.add(block)
        yield from ((level, block) for block in sorted(blocks))
        below = blocks


def are_counts_correct(connection: sqlite3.Connection, website: int, level: int, block: int) -> bool:
    """Return whether the counts of all pages of a day or block are correct."""
    stored = _stored_counts(connection, website, level, [block])
    if level:
        return stored == _stored_counts(connection, website, level - 1, [2 * block, 2 * block + 1])
    return stored == {page: _count_cells(connection, website, page, block) for page in stored}


def repair(connection: sqlite3.Connection, website: int, level: int, block: int) -> None:
    """Recompute the counts and sums of a day or block, and of the blocks above, from what is below."""
    if level == 0:
        for page in {*packed_pages(connection, website), *_stored_counts(connection, website, 0, [block])}:
            _set_count(connection, (website, 0, block, page), _count_cells(connection, website, page, block))
    for above in range(max(level, 1), COUNT_LEVELS[-1] + 1):
        number = block >> above - level
        right = _stored_counts(connection, website, above - 1, [2 * number, 2 * number + 1])
        for page in {*right, *_stored_counts(connection, website, above, [number])}:
            _set_count(connection, (website, above, number, page), right.get(page, []))
        for page in list(packed_pages(connection, website)) if above in LEVELS else ():
            for band in bands(connection, website, page):
                place = (website, page, band, above, number)
                if _stored_block(connection, place):
                    put(connection, place, summed(connection, place, LEVELS[:1]))


def _set_count(connection: sqlite3.Connection, place: tuple[int, ...], counts: Sequence[int]) -> None:
    if any(counts):
        connection.execute(
            f"/* heatmaps.set_count */ insert or replace into heatmap_count ({_COUNT_COLUMNS})"
            " values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*place, *counts),
        )
    else:
        connection.execute(
            "/* heatmaps.delete_count */ delete from heatmap_count"
            " where website = ? and level = ? and block = ? and pathname = ?",
            place,
        )


def _unpack(blob: bytes) -> Cells:
    cells = Counter[int]()
    add(cells, blob)
    return cells


def _stored_blocks(
    connection: sqlite3.Connection, website: int, page: int, band: int, level: int
) -> Iterator[tuple[Any, ...]]:
    yield from connection.execute(
        f"/* heatmaps.stored_blocks */ select block, {', '.join(WIDTHS)} from heatmap_block"
        " where website = ? and pathname = ? and band = ? and level = ?",
        (website, page, band, level),
    )


def _stored_block(connection: sqlite3.Connection, place: tuple[int, ...]) -> tuple[bytes, ...] | None:
    row: tuple[bytes, ...] | None = connection.execute(
        f"/* heatmaps.stored_block */ select {', '.join(WIDTHS)} from heatmap_block"
        " where website = ? and pathname = ? and band = ? and level = ? and block = ?",
        place,
    ).fetchone()
    return row


def _count_cells(connection: sqlite3.Connection, website: int, page: int, day: int) -> list[int]:
    """Return the columns COUNTS of a page and day, counted from its cells."""
    counts = [0] * len(COUNTS)
    for band in bands(connection, website, page):
        for width, blob in enumerate(_stored_block(connection, (website, page, band, 0, day)) or ()):
            samples, clicks = totals(_unpack(blob))
            counts[2 * width] += clicks
            counts[2 * width + 1] += samples
    return counts


def _stored_counts(
    connection: sqlite3.Connection, website: int, level: int, numbers: Sequence[int]
) -> dict[int, list[int]]:
    """Return the columns COUNTS of each page, summed over some blocks."""
    counts_of_pages: dict[int, list[int]] = {}
    for number in numbers:
        for page, *counts in connection.execute(
            f"/* heatmaps.stored_counts */ select pathname, {', '.join(COUNTS)} from heatmap_count"
            " where website = ? and level = ? and block = ?",
            (website, level, number),
        ):
            before = counts_of_pages.get(page)
            counts_of_pages[page] = counts if before is None else [a + b for a, b in zip(before, counts, strict=True)]
    return counts_of_pages


def _has_count(connection: sqlite3.Connection, website: int, level: int, block: int, page: int) -> tuple[int] | None:
    row: tuple[int] | None = connection.execute(
        "/* heatmaps.has_count */ select 1 from heatmap_count"
        " where website = ? and level = ? and block = ? and pathname = ?",
        (website, level, block, page),
    ).fetchone()
    return row
