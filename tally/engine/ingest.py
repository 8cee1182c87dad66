"""The interface between the collector and the storage engine: what is appended, and what becomes of it.

Everything is plain values: texts, numbers and the records of `tally/events`. The collector and the fast path use
`Ingest` alone; they run no SQL and see no label numbers. The SQLite engine is `GroupCommit`
(tally/sqlite/group_commit.py) with `EventWriter` (tally/sqlite/writer.py).
"""

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, Protocol

from tally.events.validation import Event, FieldWarning, Rejection
from tally.events.website import Website

MONTH_FULL = Rejection("monthly_limit_reached", "This month's events are used up: send it again next month (UTC).")
NO_ASSIGNMENT = Rejection(
    "no_assignment", "This visitor has no assignment today: send ab_assign first, or the variant with it.", "variant"
)

NO_EVENT_DATA = FieldWarning("without_event_data", "event_data")
"""The day's limit of event_data is reached."""


class PreparedEvent(NamedTuple):
    """A valid event to be stored. `identity` (of identity.Salts) is empty where the event's type has no visitor."""

    website: Website
    event: Event
    dimensions: tuple[str, ...]
    identity: bytes


class Crawl(NamedTuple):
    """A page that a crawler requested: the website's number, the crawler's name in the list, "" for one without, and
    where the request is known from: a position in SOURCES of tally/storage/crawler_days.py."""

    website: int
    ts_ms: int
    crawler: str
    pathname: str
    source: int


class WriteRequest(NamedTuple):
    """The valid events of one request, when it arrived, its client's rate limit key, which is not stored, and the
    pages that a crawler requested, which count in the same transaction."""

    events: Sequence[PreparedEvent]
    arrived_ms: int
    client_key: bytes = b""
    crawls: Sequence[Crawl] = ()

    @property
    def size(self) -> int:
        """The number of events and requests of crawlers."""
        return len(self.events) + len(self.crawls)


DUPLICATE: Literal[False] = False
Outcomes = list[Rejection | FieldWarning | Literal[False] | None]
"""For each event of a WriteRequest: None where it is stored, a FieldWarning where it is stored without a field,
DUPLICATE where it is a copy of a stored event and is accepted, otherwise why it is rejected."""

OnWritten = Callable[[Outcomes | Exception], None]
"""Called on the event loop with what became of a WriteRequest."""


class Ingest(Protocol):
    """A storage engine for events. Used by the event loop alone."""

    @property
    def is_full(self) -> bool:
        """Whether so many events wait for a commit that no request is accepted."""

    def append(self, request: WriteRequest, on_written: OnWritten) -> None:
        """Queue a request's events and return at once. Raises ApiError 503 where nothing can be queued.

        `on_written` is called later with the outcomes, once the events are durable, or with the failure; with
        Unanswered where they are stored, but not as durable as they are to be. Never before `append` returns.
        """
