"""The protocol of an analytics engine as a whole: what it consists of, and its lifecycle.

An application makes one engine (`build_app(engine=...)`) and opens it once its own database is open. The database has
accounts, websites, API keys and counts of rejected events whatever the engine is; all that is stored of events is the
engine's. `SqliteEngine` (tally/sqlite/engine.py) keeps it in the same file.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from tally.engine.archive import Archive
from tally.engine.ingest import Ingest, PreparedEvent
from tally.engine.reports import Reports

if TYPE_CHECKING:  # it is imported after the server listens
    from prometheus_client.core import Metric

OnCommitted = Callable[[Sequence[PreparedEvent]], None]
"""Called on the event loop with the events of a commit, before their requests are answered."""


class Health(NamedTuple):
    """Why an engine accepts no events, "" where it does, how many events wait to be durable, whether the last backup
    failed, and how many commits another database that follows does not have yet, None where none follows."""

    problem: str
    queue: int
    has_failed_backup: bool = False
    lag: int | None = None


class Engine(Protocol):
    """An analytics engine. Used by the event loop alone."""

    @property
    def reports(self) -> Reports:
        """What answers queries."""

    @property
    def ingest(self) -> Ingest:
        """What stores events."""

    @property
    def archive(self) -> Archive:
        """What moves, checks and deletes whole data."""

    async def open(self) -> None:
        """Start. Raises BadDatabase where what is stored cannot be used."""

    async def close(self) -> None:
        """Make durable what waits, answer its requests and end; no report is running."""

    async def each_second(self, now_ms: int) -> None:
        """Do what is due, in a bounded time. Raises ApiError or the engine's own errors; it is called again."""

    def health(self) -> Health:
        """Return whether events are accepted, for /healthz."""

    def metrics(self) -> "Iterable[Metric]":
        """Yield the engine's families of /metrics."""
