"""Names of custom events on days, and in blocks of days, from before these were counted: added in the background.

`unnamed` lists such days and blocks. The names of a day are counted from its events, those of a block added up from the
blocks below it, as for every other field (tally/rollups.py); then its row goes. Until then the day is counted from its
events by whoever asks, and the block is not used; where the events are gone, that is all there will ever be.
"""

import sqlite3
from itertools import pairwise

from tally import rollups
from tally.rollups import ALL, LEVELS


def unnamed(connection: sqlite3.Connection, website: int) -> set[tuple[int, int]]:
    """The days and blocks (level, number) whose names are not in."""
    rows = connection.execute("/* naming.unnamed */ select level, block from unnamed where website = ?", (website,))
    return set(rows)


def next_unnamed(connection: sqlite3.Connection, website: int) -> tuple[int, int, int] | None:
    """The lowest, oldest block (level, number, version) whose names can be added and are not."""
    for below, level in ((0, 0), *pairwise(LEVELS)):
        row = connection.execute(
            "/* naming.next_unnamed */ select own.block, version from unnamed as own cross join built"
            " using (website, level, block) where website = :website and level = :level and state = 2"
            " and not exists (select 1 from unnamed as part where part.website = :website and part.level = :below"
            " and :below < :level and part.block >= own.block << :step"
            " and part.block < (own.block + 1) << :step) order by block limit 1",
            {"website": website, "level": level, "below": below, "step": level - below},
        ).fetchone()
        if row:
            return level, *row
    return None


def drop_names(connection: sqlite3.Connection, website: int, level: int, block: int) -> int:
    """Deletes up to ROWS_A_STEP names of a block."""
    old = connection.execute(
        "/* naming.old_names */ select value from rollup"
        " where website = ? and field = ? and level = ? and block = ? and value > 0 limit ?",
        (website, ALL, level, block, rollups.ROWS_A_STEP),
    ).fetchall()
    connection.executemany(
        "/* naming.drop_names */ delete from rollup"
        " where website = ? and field = ? and level = ? and block = ? and value = ?",
        [(website, ALL, level, block, value) for (value,) in old],
    )
    return len(old)


def set_named(connection: sqlite3.Connection, website: int, level: int, block: int, version: int) -> None:
    """Says that the names of a block are in, unless it is of another version by now."""
    connection.execute(
        "/* naming.named */ delete from unnamed where website = :website and level = :level and block = :block"
        " and exists (select 1 from built where built.website = :website"
        " and built.level = :level and built.block = :block and state = 2 and version = :version)",
        {"website": website, "level": level, "block": block, "version": version},
    )
