"""The protocol for what moves, checks or removes whole data of an engine, and the values that pass through it.

- Export reads parts (days) of a website: `parts` and `rows`.
- Import stores lines: `take`. An import has a number, under which `undo` deletes what it stored.
- `forget` and `expire` delete websites and days; `verify` and `repair` are about what the engine has computed ahead.

Days are days of the website, since 1970. What is called may fail at any point; it is then called again, also after a
restart, and continues. The server calls `undo`, `forget` and `expire` until nothing is left
(tally/maintenance/housekeeping.py), unless an engine `cleans_itself`. Commands call the others; SQLite has both in
tally/sqlite/archive.py.
"""

from collections.abc import AsyncIterator, Hashable, Sequence
from typing import Any, NamedTuple, Protocol

from tally.events.dimensions import ALL_TRAFFIC, ENTRY_PAGE, EVENT_NAME, EXIT_PAGE, FIELDS, PAGES
from tally.events.validation import Rejection
from tally.timestamps import DAY_MS

COLUMNS = (
    *("id", "type", "timestamp", *FIELDS, "event_name", "event_data", "visit", "vitals"),
    *("experiment", "variant", "goal", "value", "visitor"),
)
"""What an exported event consists of."""
Row = list[Any]
"""An exported event: the values of COLUMNS, with the time in milliseconds and event_data as JSON text."""

FIGURES = ("visitors", "visits", "pageviews", "events", "bounces", "duration_ms")
"""The figures of an imported sum."""
FIELD_NUMBERS = {
    **{name: number for number, name in enumerate(FIELDS)},
    **dict(zip((*PAGES, "event_name", "total"), (ENTRY_PAGE, EXIT_PAGE, EVENT_NAME, ALL_TRAFFIC), strict=True)),
}
"""The fields of imported sums by name; `total` are the figures of all traffic of the day."""


class Part(NamedTuple):
    """A day with events, and a value that differs after every change of them."""

    day: int
    version: Hashable


class SumRow(NamedTuple):
    """The imported sums of a day by one value of a field, a name of FIELD_NUMBERS. `figures`: of FIGURES, None where
    the other system does not have it."""

    day: int
    field: str
    value: str | None
    figures: tuple[int | None, ...]


class CrawlRow(NamedTuple):
    """The requests of a crawler, None for one without a name, for a page on a day, and where they are known from."""

    day: int
    crawler: str | None
    pathname: str
    source: str
    requests: int


class Line(NamedTuple):
    """A checked line to import. `is_named`: whether the file names its visitor (0 for vitals).

    key: what a line with an id is known by, None without one. row: id and visitor of the row of which the line is an
    export, if it is one of this database (visitor 0 for vitals), else None.
    texts: the dimensions, then event_name of traffic; then experiment, variant, goal of A/B. rest: event_data of
    traffic, the five metrics of vitals, value of A/B.
    """

    number: int
    ts_ms: int
    type: int
    key: int | None
    row: tuple[int, int] | None
    visitor: int
    is_named: bool
    texts: tuple[str, ...]
    rest: tuple[Any, ...]


class SumLine(NamedTuple):
    """A checked line of sums. field: of FIELD_NUMBERS. known: bits of the figures that it has."""

    number: int
    day: int
    field: int
    texts: tuple[str]
    known: int
    figures: tuple[int, ...]

    @property
    def ts_ms(self) -> int:
        """Return midnight UTC of the date."""
        return self.day * DAY_MS


class CrawlLine(NamedTuple):
    """A checked line of requests of a crawler. key: as of Line; None where the line is of a day. texts: crawler and
    path. source: a position in SOURCES of tally/storage/crawler_days.py."""

    number: int
    ts_ms: int
    key: int | None
    texts: tuple[str, str]
    source: int
    requests: int


AnyLine = Line | SumLine | CrawlLine


class Taken(NamedTuple):
    """What became of imported lines: how many events, sums and requests of crawlers were stored, how many lines were
    known before, and which were rejected, by their numbers."""

    events: int
    sums: int
    crawls: int
    duplicates: int
    rejected: Sequence[tuple[int, Rejection]]


class Verdict(NamedTuple):
    """The result for a day or block of days: what is wrong, or why it was skipped; both '' where it is correct."""

    level: int
    block: int
    fault: str = ""
    skipped: str = ""

    @property
    def first_day(self) -> int:
        """Return the block's first day."""
        return self.block << self.level


class Archive(Protocol):
    """The stored data of an engine. `cleans_itself`: whether it deletes on its own what the server's database says is
    to be deleted."""

    cleans_itself: bool

    async def parts(self, website: int) -> list[Part]:
        """Return the days that have events, oldest first."""

    def rows(self, website: int, days: range | None = None) -> AsyncIterator[Sequence[SumRow | CrawlRow | Row]]:
        """Yield the imported sums of some days, or all, then the events in order of time and id, many at once, all as
        of one moment.

        All days have the requests of crawlers between them, which are in the server's database.
        """

    async def take(self, website: int, number: int, lines: Sequence[AnyLine]) -> Taken:
        """Store lines of an import, all or none of them."""

    async def undo(self, website: int, number: int) -> bool:
        """Delete some of what an import stored; return whether there is more. Its lines can be imported again."""

    async def forget(self, website: int) -> bool:
        """Delete some of what is stored of a deleted website; return whether there is more."""

    async def expire(self, website: int, day: int) -> bool:
        """Delete some of the events before a day and keep their sums; return whether there is more."""

    def verify(self, website: int) -> AsyncIterator[Verdict]:
        """Yield a verdict for each day, oldest first, and for what is computed from days."""

    async def repair(self, website: int, wrong: Sequence[Verdict]) -> None:
        """Have what is wrong computed again, where its events are there."""
