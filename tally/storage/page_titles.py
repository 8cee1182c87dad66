"""Table page_title: the title that each page had last, shown beside its path.

A title comes with a pageview and describes the page, not the event: it is stored once for a path, is not exported, and
no figure depends on it. The newest pageview by its timestamp decides; where that has an empty title the page has none.

Anyone can send titles, so what they can write is bounded. A path has one title of at most 200 characters, and only
paths that are stored have one: their number is limited (tally/storage/value_limits.py). A title is replaced only by
that of a pageview which is at least MIN_INTERVAL_MS newer. A title that has not changed writes nothing: 4 µs for
each page of a group.
"""

import json
import sqlite3
from collections.abc import Collection, Mapping

from tally.timestamps import HOUR_MS

MIN_INTERVAL_MS = HOUR_MS
"""Between the pageviews of two titles of one path."""

Titles = Mapping[tuple[int, int], tuple[int, str]]
"""By (website, label of the path): the pageview's time, and its title."""


def store(connection: sqlite3.Connection, titles: Titles) -> None:
    """Store the newest title of each path."""
    titled = [(*page, title, ts) for page, (ts, title) in titles.items() if title]
    # Such a page gets no row, but loses the title that it had.
    untitled = [(ts, *page) for page, (ts, title) in titles.items() if not title]
    if titled:
        connection.executemany(
            "/* page_titles.store */ insert into page_title (website, pathname, title, ts) values (?, ?, ?, ?)"
            " on conflict do update set title = excluded.title, ts = excluded.ts"
            f" where title <> excluded.title and excluded.ts >= ts + {MIN_INTERVAL_MS}",
            titled,
        )
    if untitled:
        connection.executemany(
            "/* page_titles.clear */ update page_title set title = '', ts = ?1"
            f" where website = ?2 and pathname = ?3 and title <> '' and ?1 >= ts + {MIN_INTERVAL_MS}",
            untitled,
        )


def take(
    connection: sqlite3.Connection, website: int, views: Collection[tuple[int, int]]
) -> dict[int, tuple[int, str]]:
    """Delete the titles that came with some pageviews (label of the path, time); return time and title by path."""
    found: dict[int, tuple[int, str]] = {}
    for page, ts in dict.fromkeys(views):
        rows = connection.execute(
            "/* page_titles.take */ delete from page_title where website = ? and pathname = ? and ts = ?"
            " returning title",
            (website, page, ts),
        )
        found.update((page, (ts, title)) for (title,) in rows.fetchall())
    return found


def titles_of(connection: sqlite3.Connection, website: int, pages: Collection[str]) -> dict[str, str]:
    """Return the titles of those pages that have one."""
    rows = connection.execute(
        "/* page_titles.of */ select text, title from json_each(?) as page cross join label on label.text = page.value"
        " cross join page_title on page_title.website = ? and pathname = label.id where title <> ''",
        (json.dumps(list(pages)), website),
    )
    return dict(rows.fetchall())
