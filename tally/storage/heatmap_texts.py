"""Table heatmap_text: the text of the element that was clicked last in a cell of a heatmap, which names the cell.

A text comes with a click where the page allows it by the attribute data-heatmap-text (static/tracker/heatmap.js). It
describes the page, not the click: it is stored once for a cell, is not exported, and no figure depends on it. The
newest event by its timestamp decides.

Anyone can send texts, so what they can write is bounded. A page, of which the number is limited
(tally/storage/value_limits.py), has at most MAX_CELLS cells with a text of each width class: 13 KB of them. Further
cells have none. A text is replaced only by that of an event which is at least MIN_INTERVAL_MS newer. A text that
has not changed writes nothing.
"""

import sqlite3
from collections.abc import Mapping, Sequence

from tally.engine.values import WIDTHS
from tally.timestamps import DAY_MS, HOUR_MS

MAX_CELLS = 100
MIN_INTERVAL_MS = HOUR_MS
"""Between the events of two texts of one cell."""

Cell = tuple[int, int, int, int, int]
"""website, label of the path, width class, row, column."""
Text = tuple[int, int, str]
"""column, row, text."""


def store(connection: sqlite3.Connection, texts: Mapping[Cell, tuple[int, str]]) -> None:
    """Store the newest text of each cell; `texts` has the time of its event, and the text."""
    page = "website = ?1 and pathname = ?2 and viewport = ?3"
    known = f"(select 1 from heatmap_text where {page} and bin_y = ?4 and bin_x = ?5)"
    count = f"(select count(*) from heatmap_text where {page})"
    connection.executemany(
        "/* heatmap_texts.store */ insert into heatmap_text (website, pathname, viewport, bin_y, bin_x, text, ts)"
        f" select ?1, ?2, ?3, ?4, ?5, ?6, ?7 where exists {known} or {count} < {MAX_CELLS}"
        " on conflict do update set text = excluded.text, ts = excluded.ts"
        f" where text <> excluded.text and excluded.ts >= ts + {MIN_INTERVAL_MS}",
        [(*cell, text, ts) for cell, (ts, text) in texts.items()],
    )


def texts_of(connection: sqlite3.Connection, website: int, page: int, widths: Sequence[int]) -> list[Text]:
    """Return the texts of a page's cells, by row and column; of several width classes the newest one of each cell."""
    newest: dict[tuple[int, int], tuple[int, str]] = {}
    for width in widths:
        for row, column, ts, text in connection.execute(
            "/* heatmap_texts.of */ select bin_y, bin_x, ts, text from heatmap_text"
            " where website = ? and pathname = ? and viewport = ?",
            (website, page, width),
        ):
            newest[row, column] = max(newest.get((row, column), (0, "")), (ts, text))
    return [(column, row, text) for (row, column), (_, text) in sorted(newest.items())]


def delete_days(
    connection: sqlite3.Connection, website: int, page: int, first: int, end: int, new: int | None = None
) -> None:
    """Delete the texts of a page that came with events on the days in [first, end), or give them to another page."""
    texts: dict[Cell, tuple[int, str]] = {}
    for width in range(len(WIDTHS)):
        rows = connection.execute(
            "/* heatmap_texts.delete */ delete from heatmap_text where website = ?1 and pathname = ?2 and viewport = ?3"
            " and ts + 60000 * (select day_offset_minutes from website where number = ?1) between ?4 and ?5"
            " returning bin_y, bin_x, ts, text",
            (website, page, width, first * DAY_MS, end * DAY_MS - 1),
        ).fetchall()
        if new is not None:
            texts |= {(website, new, width, row, column): (ts, text) for row, column, ts, text in rows}
    store(connection, texts)
