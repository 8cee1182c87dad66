"""The protocol between the API and an analytics engine, and the values that pass through it.

`Reports` has all queries of the API about events. Its methods take a `Scope` (a website, a range, filters) and a
`Requester`, and return plain values: texts, integers, floats, dates in milliseconds. No connection, row or label number
passes through it, so an engine on another database implements these methods and nothing else
(tests/api/test_engine.py runs the API on one that keeps a list in memory). `SqliteReports`
(tally/ingest/sqlite_reports.py) is the engine that runs the functions of this package on the server's database.

Each call answers from one snapshot of the data. Figures are exact sums; ratios are formed by the API's modules from
them (tally/reports/figures.py). Every method raises `BeyondRetention` where it needs events that are no longer kept,
and ApiError 503 where the engine is overloaded, takes too long or cannot be reached.

Accounts, websites, API keys and sessions are not part of an engine: they stay in SQLite.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from tally.events.filters import Filter
from tally.reports.coverage import BeyondRetention
from tally.reports.event_data import Data
from tally.reports.experiments import Experiment
from tally.reports.funnels import MAX_STEPS, MIN_STEPS, FunnelStep, Reached
from tally.reports.goals import MILLIONTHS, Conversions, Goal, GoalFigures
from tally.reports.heatmaps import Heatmap
from tally.reports.heatmaps import Pages as HeatmapPages
from tally.reports.journeys import MAX_STEPS as MAX_JOURNEY_STEPS
from tally.reports.journeys import Direction, Link
from tally.reports.stats import Stats
from tally.reports.top import Top, TopQuery, TopRow
from tally.reports.visit_pages import Page
from tally.reports.web_vitals import Row as VitalsRow
from tally.rollups.heatmap_grid import WIDTHS
from tally.rollups.imported_sums import ImportedDays
from tally.rollups.traffic import Traffic
from tally.rollups.web_vitals import Summary
from tally.storage.connections import SERVER, Claim
from tally.storage.sql.behaviour import STEP_FIELDS
from tally.storage.sql.events import Place, Scope
from tally.storage.sql.filters import FILTERS

__all__ = [
    "FILTERS",
    "MAX_JOURNEY_STEPS",
    "MAX_STEPS",
    "MILLIONTHS",
    "MIN_STEPS",
    "SERVER",
    "STEP_FIELDS",
    "WIDTHS",
    "BeyondRetention",
    "Claim",
    "Conversions",
    "Data",
    "Direction",
    "EventPage",
    "Experiment",
    "Filter",
    "Folded",
    "FunnelStep",
    "Goal",
    "GoalFigures",
    "Heatmap",
    "HeatmapPages",
    "ImportedDays",
    "Link",
    "Page",
    "Place",
    "Reached",
    "Realtime",
    "Rejected",
    "RejectedExample",
    "Reports",
    "Requester",
    "Scope",
    "Span",
    "Stats",
    "StoredEvent",
    "Summary",
    "Top",
    "TopQuery",
    "TopRow",
    "Traffic",
    "VitalsRow",
]

Span = tuple[int, int]
"""[from, to) in milliseconds since 1970."""


def _stays() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Requester:
    """The request that a report answers. `claim` decides the queue and the deadline.

    `is_gone` returns whether the client has disconnected, so that the report is cancelled. It is called from any thread
    and stays true.
    """

    claim: Claim = SERVER
    is_gone: Callable[[], bool] = _stays


class StoredEvent(NamedTuple):
    """An event of the list of events. Texts are "" where unset; `dimensions` are in the order of FIELDS.

    `event_data` is JSON text. `visit` identifies the visit within the website; None for measurements.
    """

    id: int
    type: str
    timestamp_ms: int
    dimensions: tuple[str, ...]
    event_name: str
    event_data: str | None
    visit: str | None
    vitals: Mapping[str, float]
    experiment: str
    variant: str
    goal: str
    value: float | None


class EventPage(NamedTuple):
    """Events, newest first; `last_id` is the newest event's id of the first page, which later pages repeat."""

    events: list[StoredEvent]
    last_id: int


class Realtime(NamedTuple):
    """Visitors of the last 300 seconds, and (pathname, visitors) of at most 100 pages, most visitors first."""

    active_visitors: int
    pages: list[tuple[str, int]]


class RejectedExample(NamedTuple):
    """A rejected event without personal data. `detail`: the page's host or the crawler's name; "" where unset."""

    code: str
    time_ms: int
    type: str | None
    field: str
    detail: str


class Folded(NamedTuple):
    """How many values of a field were new on a UTC day (ISO date), and events stored with `(other)` instead of one."""

    day: str
    field: str
    new_values: int
    events: int


class Rejected(NamedTuple):
    """Rejected events of each day by error code; examples and folded values, newest first."""

    days: list[dict[str, int]]
    examples: list[RejectedExample]
    folded: list[Folded]


class Reports(Protocol):
    """An analytics engine."""

    def version(self, website: int) -> Hashable:
        """Return a value that differs after every change of what can be read of a website's events."""

    def rejected_version(self, website: int) -> Hashable:
        """The same for what `rejected` returns."""

    async def refresh(self, requester: Requester) -> None:
        """Have versions count the events that another process has written meanwhile."""

    async def traffic(self, websites: Sequence[int], requester: Requester) -> dict[int, Traffic]:
        """Return the number of stored events of each website."""

    async def first_event_ms(self, website: int, requester: Requester) -> int | None:
        """Return the time of the first traffic event, or the start of its quarter hour; None where there is none."""

    async def imported_days(self, scope: Scope, fields: Sequence[str], requester: Requester) -> ImportedDays | None:
        """Return the days of imported sums in a scope, and which of them count; None where there are none."""

    async def stats(self, scopes: Sequence[Scope], requester: Requester) -> list[Stats]:
        """Return the key figures of each scope, all from one snapshot."""

    async def goal_stats(
        self, scopes: Sequence[Scope], goal: Goal, requester: Requester
    ) -> list[tuple[Stats, Conversions]]:
        """Return the key figures of each scope with the conversions of a goal, all from one snapshot."""

    async def timeseries(self, scope: Scope, buckets: Sequence[Span], requester: Requester) -> list[Sequence[int]]:
        """Return (visitors, visits, pageviews, events) of each bucket; the buckets tile the scope's range."""

    async def goal_timeseries(
        self, scope: Scope, goal: Goal, buckets: Sequence[Span], requester: Requester
    ) -> list[tuple[Sequence[int], Conversions]]:
        """Return the row of `timeseries` of each bucket with the conversions of a goal, all from one snapshot."""

    async def overview(
        self, scope: Scope, compare: Scope, buckets: Sequence[Span], requester: Requester
    ) -> tuple[Stats, Stats, list[Sequence[int]]]:
        """Return the key figures of two scopes and the time series of the first, all from one snapshot."""

    async def top(self, scope: Scope, queries: Sequence[TopQuery], requester: Requester) -> list[Top]:
        """Return some values of a field for each query, all from one snapshot."""

    async def goals(self, scope: Scope, goals: Sequence[Goal], requester: Requester) -> GoalFigures:
        """Return the visitors of a scope, and the conversions of each goal."""

    async def event_names(self, scope: Scope, limit: int, requester: Requester) -> list[tuple[str, int, int]]:
        """Return (name, visitors, events) of the first `limit` custom events by both, descending, and name."""

    async def visit_pages(self, scope: Scope, field: str, limit: int, requester: Requester) -> tuple[int, list[Page]]:
        """Return the visits without a page, and the first `limit` values of entry_page or exit_page by visits, text."""

    async def events(
        self, scope: Scope, after: Place | None, limit: int, only_traffic: bool, requester: Requester
    ) -> EventPage:
        """Return up to `limit` events that follow a place, newest first; None is the beginning."""

    async def realtime(self, website: int, now_ms: int, requester: Requester) -> Realtime:
        """Return the visitors of the last 300 seconds."""

    async def vitals(self, scope: Scope, requester: Requester) -> dict[str, Summary]:
        """Return the summary of each web vital, in the order of METRICS."""

    async def vitals_by_value(
        self, scope: Scope, field: str, metric: str, limit: int, requester: Requester
    ) -> list[VitalsRow]:
        """Return the first `limit` values of pathname or device by poor values of the metric, events and text."""

    async def vitals_by_day(self, scope: Scope, metric: str, requester: Requester) -> list[tuple[int, Summary]]:
        """Return (start in milliseconds, summary) of each UTC day of a scope."""

    async def experiments(self, scope: Scope, requester: Requester) -> tuple[list[Experiment], int]:
        """Return the experiments, by name, and how many are omitted."""

    async def heatmap(
        self, website: int, pathname: str, days: range, widths: Sequence[str], requester: Requester
    ) -> Heatmap:
        """Return the clicks and scroll depths of a page on some UTC days (since 1970), of some classes of WIDTHS."""

    async def heatmap_pages(
        self, website: int, days: range, widths: Sequence[str], limit: int, requester: Requester
    ) -> HeatmapPages:
        """Return the first `limit` pages that have heatmap data, by samples and clicks together, then by text."""

    async def funnel(self, scope: Scope, steps: Sequence[FunnelStep], requester: Requester) -> list[Reached]:
        """Return the visits and visitors that reached each of some steps."""

    async def journeys(
        self, scope: Scope, start: tuple[str, str], direction: Direction, steps: int, limit: int, requester: Requester
    ) -> list[Link]:
        """Return the links between the first `limit` steps at each distance from a step (field, text)."""

    async def event_data(
        self, scope: Scope, event_name: str, only: str | None, limit: int, requester: Requester
    ) -> Data:
        """Return what event_data holds of a name's events, or one property of it."""

    async def rejected(self, website: int, days: Sequence[Span], requester: Requester) -> Rejected:
        """Return the rejected events of each of some days, which tile a range."""
