"""Pages that crawlers requested: counts by day of the website, crawler, page and source.

A row has nothing of the client: no address and no User-Agent. `add` runs within the caller's transaction, that of the
writer for events (tally/sqlite/writer.py), so that a request of a crawler that was answered is counted.

A website has at most MAX_ROWS rows a day: then further pages count as `(other)`, with one row for each crawler and
source. So do paths of more than MAX_PATH characters. Rows are kept for KEPT_DAYS.

What an import counts has rows of its own, so that its undo deletes these alone.
"""

import sqlite3
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import orjson

from tally.accounts.websites import day_offset_ms, website_exists
from tally.engine.ingest import Crawl
from tally.events.crawlers import Crawler, described
from tally.storage.labels import Labels
from tally.storage.value_limits import OTHER
from tally.timestamps import DAY_MS

SOURCES = ("event", "pixel", "access_log", "api")
"""Where a request is known from; the position is the number in the database."""
EVENT, PIXEL, ACCESS_LOG, API = range(4)
MAX_ROWS = 5_000
MAX_PATH = 500
# A year, and the days that are compared with it.
KEPT_DAYS = 400

Key = tuple[int, int, str, str, int]
"""Website, day of the website, crawler, pathname, source."""


class CrawlerDay(NamedTuple):
    """The requests of a crawler on a day, from one source."""

    day: int
    crawler: str
    source: int
    requests: int


class CrawledPage(NamedTuple):
    """The requests for a page by a crawler."""

    pathname: str
    crawler: str
    requests: int


def add(connection: sqlite3.Connection, labels: Labels, crawls: Iterable[Crawl]) -> None:
    """Count requests of the websites that exist."""
    offsets: dict[int, int | None] = {}
    counts: Counter[Key] = Counter()
    for website, ts_ms, crawler, pathname, source in crawls:
        if website not in offsets:
            exists = website_exists(connection, website)
            offsets[website] = day_offset_ms(connection, website) if exists else None
        offset_ms = offsets[website]
        if offset_ms is not None:
            page = pathname if len(pathname) <= MAX_PATH else OTHER
            counts[website, (ts_ms + offset_ms) // DAY_MS, crawler, page, source] += 1
    add_counts(connection, labels, counts)


def add_counts(connection: sqlite3.Connection, labels: Labels, counts: Counter[Key], of_import: int = 0) -> None:
    """Add counts to those of the database, within the limit of rows. of_import: the number of the import."""
    limited = _limited(connection, labels, counts, of_import)
    numbers = labels.numbers_of(connection, {text for key in limited for text in key[2:4]})
    connection.executemany(
        "/* crawler_days.add */ insert into crawler_day (website, day, crawler, pathname, source, import, requests)"
        " values (?, ?, ?, ?, ?, ?, ?) on conflict do update set requests = requests + excluded.requests",
        [
            (website, day, numbers[crawler], numbers[pathname], source, of_import, requests)
            for (website, day, crawler, pathname, source), requests in limited.items()
        ],
    )


def _limited(connection: sqlite3.Connection, labels: Labels, counts: Counter[Key], of_import: int) -> Counter[Key]:
    """Return the counts with `(other)` for new pages of days that have MAX_ROWS rows."""
    # Looked up, not created: a page that is not stored leaves no label.
    known = labels.find(connection, {text for key in counts for text in key[2:4]})
    left: dict[tuple[int, int], int] = {}
    limited: Counter[Key] = Counter()
    for key, requests in counts.items():
        website, day, crawler, pathname, source = key
        numbers = known.get(crawler), known.get(pathname)
        if pathname != OTHER and not _is_stored(connection, *numbers, key, of_import):
            place = website, day
            if place not in left:
                left[place] = MAX_ROWS - _rows(connection, website, day)
            left[place] -= 1
            if left[place] < 0:
                pathname = OTHER
        limited[website, day, crawler, pathname, source] += requests
    return limited


def _is_stored(
    connection: sqlite3.Connection, crawler: int | None, pathname: int | None, key: Key, of_import: int
) -> bool:
    if crawler is None or pathname is None:
        return False
    row = connection.execute(
        "/* crawler_days.stored */ select 1 from crawler_day"
        " where website = ? and day = ? and crawler = ? and pathname = ? and source = ? and import = ?",
        (*key[:2], crawler, pathname, key[4], of_import),
    ).fetchone()
    return row is not None


def _rows(connection: sqlite3.Connection, website: int, day: int) -> int:
    row = connection.execute(
        "/* crawler_days.rows */ select count(*) from crawler_day where website = ? and day = ?", (website, day)
    ).fetchone()
    return int(row[0])


def next_day(connection: sqlite3.Connection, website: int, first: int, end: int) -> int | None:
    """Return the first day in [first, end) that has rows; None where there is none."""
    row = connection.execute(
        "/* crawler_days.next_day */ select day from crawler_day where website = ? and day >= ? and day < ?"
        " order by day limit 1",
        (website, first, end),
    ).fetchone()
    return None if row is None else int(row[0])


def pages_on(connection: sqlite3.Connection, website: int, day: int) -> list[int]:
    """Return the labels of the pages of a day."""
    rows = connection.execute(
        "/* crawler_days.pages_on */ select distinct pathname from crawler_day where website = ? and day = ?",
        (website, day),
    )
    return [page for (page,) in rows]


def pages_in(connection: sqlite3.Connection, website: int, first: int, end: int) -> list[tuple[int, str]]:
    """Return label and text of the pages of the days in [first, end)."""
    return connection.execute(
        "/* crawler_days.pages_in */ select distinct pathname, text from crawler_day join label on label.id = pathname"
        " where website = ? and day >= ? and day < ?",
        (website, first, end),
    ).fetchall()


def move(connection: sqlite3.Connection, website: int, day: int, pages: Mapping[int, int]) -> None:
    """Count the requests of a day for some pages, by their labels, for other pages."""
    wanted = orjson.dumps(list(pages)).decode()
    rows = connection.execute(
        "/* crawler_days.take */ delete from crawler_day where website = ? and day = ?"
        " and pathname in (select value from json_each(?)) returning crawler, pathname, source, import, requests",
        (website, day, wanted),
    ).fetchall()
    connection.executemany(
        "/* crawler_days.move */ insert into crawler_day (website, day, crawler, pathname, source, import, requests)"
        " values (?, ?, ?, ?, ?, ?, ?) on conflict do update set requests = requests + excluded.requests",
        [(website, day, crawler, pages[page], *rest) for crawler, page, *rest in rows],
    )


def delete_expired(connection: sqlite3.Connection, website: int, first_day: int) -> int:
    """Delete the rows of a website's oldest day, where that is before `first_day`; return their number."""
    return connection.execute(
        "/* crawler_days.delete */ delete from crawler_day where website = ?1 and day < ?2"
        " and day = (select min(day) from crawler_day where website = ?1)",
        (website, first_day),
    ).rowcount


def others(
    connection: sqlite3.Connection, website: int, of_import: int, places: Iterable[tuple[int, str, int]]
) -> set[tuple[int, str, int]]:
    """Return those of some days, crawlers and sources of which the website has requests that another import, or none,
    has counted."""
    return {
        (day, crawler, source)
        for day, crawler, source in places
        if connection.execute(
            "/* crawler_days.others */ select 1 from crawler_day where website = ? and day = ?"
            " and crawler = (select id from label where text = ?) and source = ? and import != ? limit 1",
            (website, day, crawler, source, of_import),
        ).fetchone()
    }


def delete_some(connection: sqlite3.Connection, website: int, of_import: int, after: int) -> int | None:
    """Delete what an import has counted of the next of its days after a day; return that day, None where none is left.

    Within a transaction of the caller.
    """
    row = connection.execute(
        "/* crawler_days.next */ select min(day) from crawler_day where website = ?1 and day > ?3 and day >="
        " (select first_day from import where website = ?1 and number = ?2)"
        " and day <= (select last_day from import where website = ?1 and number = ?2)",
        (website, of_import, after),
    ).fetchone()
    if row[0] is None:
        return None
    connection.execute(
        "/* crawler_days.undo */ delete from crawler_day where website = ? and day = ? and import = ?",
        (website, row[0], of_import),
    )
    return int(row[0])


def export(connection: sqlite3.Connection, website: int) -> sqlite3.Cursor:
    """Return rows of (day, crawler, pathname, source, requests), the oldest day first."""
    return connection.execute(
        "/* crawler_days.export */ select day, c.text, p.text, source, sum(requests) from crawler_day"
        " join label as c on c.id = crawler join label as p on p.id = pathname where website = ?"
        " group by day, crawler, pathname, source order by day, crawler, pathname, source",
        (website,),
    )


class Crawls(NamedTuple):
    """What was read: sums of the days and of those before, pages, different pages by crawler, and the crawlers."""

    days: list[CrawlerDay]
    pages: Sequence[CrawledPage]
    pages_of: Mapping[str, int]
    crawlers: Mapping[str, Crawler]


def read(
    connection: sqlite3.Connection,
    website: int,
    days: range,
    before: range,
    is_chosen: Callable[[str, Crawler], bool],
    limit: int,
) -> Crawls:
    """Return the requests of the crawlers that are chosen, on some days and on those before, and `limit` pages."""
    sums = _days(connection, website, days, before)
    known = described({row.crawler for row in sums})
    chosen = {name for name, crawler in known.items() if is_chosen(name, crawler)}
    rows = [row for row in sums if row.crawler in chosen]
    pages = _pages(connection, website, days, chosen, limit)
    return Crawls(rows, pages, _pages_of(connection, website, days), known)


def _days(connection: sqlite3.Connection, website: int, days: range, before: range) -> list[CrawlerDay]:
    """Return the sums of each day, crawler and source of some days and of those before, which end where they begin."""
    rows = connection.execute(
        "/* crawler_days.days */ select day, text, source, sum(requests) from crawler_day"
        " join label on label.id = crawler where website = ? and day >= ? and day < ?"
        " group by day, crawler, source order by day",
        (website, before.start, days.stop),
    )
    return [CrawlerDay(*row) for row in rows]


def _pages_of(connection: sqlite3.Connection, website: int, days: range) -> dict[str, int]:
    """Return the number of different pages of each crawler."""
    rows = connection.execute(
        "/* crawler_days.pages_of */ select text, count(distinct pathname) from crawler_day"
        " join label on label.id = crawler where website = ? and day >= ? and day < ? group by crawler",
        (website, days.start, days.stop),
    )
    return dict(rows.fetchall())


def _pages(
    connection: sqlite3.Connection, website: int, days: range, crawlers: Collection[str], limit: int
) -> Sequence[CrawledPage]:
    """Return the requests by crawler of the `limit` pages that some crawlers requested most, the most first."""
    names = orjson.dumps(list(crawlers)).decode()
    rows = connection.execute(
        "/* crawler_days.pages */ with chosen as"
        " (select id from label where text in (select value from json_each(?1))),"
        " page as (select pathname, sum(requests) as total from crawler_day where website = ?2 and day >= ?3"
        " and day < ?4 and crawler in chosen group by pathname order by total desc, pathname limit ?5)"
        " select p.text, c.text, sum(requests) from page"
        " join crawler_day as own on own.website = ?2 and day >= ?3 and day < ?4 and own.pathname = page.pathname"
        " and crawler in chosen join label as p on p.id = page.pathname join label as c on c.id = crawler"
        " group by page.pathname, crawler order by total desc, p.text, sum(requests) desc, c.text",
        (names, website, days.start, days.stop, limit),
    )
    return [CrawledPage(*row) for row in rows]
