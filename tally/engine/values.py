"""The values of an engine's protocols: what a report is asked, and what it returns.

Plain values: texts, integers, floats, dates in milliseconds. No connection, row or label number is among them, so that
an engine on another database needs nothing but this package and `tally/events`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from tally.events.dimensions import FIELDS, PAGES
from tally.events.filters import Filter


class Claim(NamedTuple):
    """The requester of a query: an account by its number (0: the server itself), or the share link of a website."""

    is_link: bool
    number: int


SERVER = Claim(False, 0)

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


class BeyondRetention(ValueError):
    """The report needs events that retention has deleted; they exist from `from_ms` on."""

    def __init__(self, from_ms: int) -> None:
        super().__init__(from_ms)
        self.from_ms = from_ms


LABELLED = (*FIELDS, *PAGES, "event_name")
"""The fields whose values are labels."""

FILTERS = (*LABELLED, "type")
"""The fields that filter_<field> accepts, besides properties: the dimensions, entry_page, exit_page, event_name and
type."""


class Scope(NamedTuple):
    """The events of a query: website, range and filters, all of which hold.

    whole_days: the whole local days of the range, where imported sums (figures by day, without events) count for these;
    None for reports that need events.
    """

    website: int
    from_ms: int
    to_ms: int
    filters: tuple[Filter, ...] = ()
    whole_days: tuple[int, int] | None = None


class Traffic(NamedTuple):
    """The number of traffic events of a website; a lower bound unless `is_exact`."""

    events: int
    is_exact: bool


class ImportedDays(NamedTuple):
    """The days of imported sums in a range: how many there are, those that count, as (first, last) without gaps, the
    figures that some sums of the fields lack, and by field how many days that count have it."""

    days: int
    counted: list[tuple[int, int]]
    missing: tuple[str, ...]
    by_field: dict[str, int]


MILLIONTHS = 1_000_000
"""Of a unit: values of goals are sums of whole millionths."""


class Goal(NamedTuple):
    """What a goal counts: events that match its filters, and the property of event_data that holds their value."""

    filters: tuple[Filter, ...]
    value: str | None = None


class Stats(NamedTuple):
    """Key figures as exact sums."""

    visitors: int = 0
    pageviews: int = 0
    events: int = 0
    visits: int = 0
    bounces: int = 0
    visit_views: int = 0
    visit_ms: int = 0


class Conversions(NamedTuple):
    """The conversions of a goal. `value`: the sum of their values in millionths; 0 for a goal without values."""

    events: int = 0
    visitors: int = 0
    value: int = 0
    without_value: int = 0


GOAL_ORDERS = ("conversions", "conversion_rate")
"""What the values of a field can be ordered by where the conversions of a goal are counted."""


class GoalFigures(NamedTuple):
    """The visitors of a scope, and the conversions of each goal."""

    visitors: int
    goals: list[Conversions]


class Leaves(NamedTuple):
    """How many page views sent what they measured when they were left, the median of their time on the page, and how
    many of them reached 75 percent of its height."""

    samples: int = 0
    median_ms: int = 0
    reached: int = 0


LEAVE_ORDERS = ("time_on_page", "scroll_depth")
"""The figures of Leaves by which a list of pages can be sorted: the median, and the share that reached 75 percent."""


class TopQuery(NamedTuple):
    """Parameters of a list: values of a field from `offset` on, in the order of a figure.

    compare: a scope in which the same values are counted as well; goal: whose conversions are counted; has_visits:
    whether figures about visits are; has_leaves: whether Leaves are. order: a key figure (reports/figures.py), one
    of LEAVE_ORDERS or, with a goal, one of GOAL_ORDERS, descending unless `ascending`, and then the other one of these
    two descending; then as without an order: visitors, pageviews and events descending, then text.
    """

    field: str
    limit: int
    offset: int = 0
    compare: Scope | None = None
    goal: Goal | None = None
    has_visits: bool = False
    order: str = ""
    ascending: bool = False
    has_leaves: bool = False


class TopRow(NamedTuple):
    """A value, "" is unset, with its figures in the scope and in the one to compare with.

    Those about visits are 0 unless the query needs them. Leaves are None unless it does, and where filters allow none.
    """

    value: str
    figures: Stats
    conversions: Conversions | None = None
    previous: Stats | None = None
    previous_conversions: Conversions | None = None
    leaves: Leaves | None = None
    previous_leaves: Leaves | None = None


class Top(NamedTuple):
    """The unset value, some rows, and how many values there are, without the unset one."""

    unset: TopRow
    rows: list[TopRow]
    total: int


class Page(NamedTuple):
    """A page that visits begin or end with; '' for visits without a view."""

    value: str
    visits: int
    bounces: int
    views: int
    ms: int


class VisitPages(NamedTuple):
    """The visits without a page, the first pages, and these in the range to compare with; None where there is none."""

    unset: int
    rows: list[Page]
    previous: list[Page] | None = None


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


class Place(NamedTuple):
    """The end of a page of events: the next page starts before (ts, id), with ids up to `last_id`."""

    ts: int
    id: int
    last_id: int


class EventPage(NamedTuple):
    """Events, newest first; `last_id` is the newest event's id of the first page, which later pages repeat."""

    events: list[StoredEvent]
    last_id: int


REALTIME_MS = 300_000
"""How long a visitor counts as active after an event."""


class Realtime(NamedTuple):
    """Visitors of the last 300 seconds, and (pathname, visitors) of at most 100 pages, most visitors first."""

    active_visitors: int
    pages: list[tuple[str, int]]


MIN_STEPS, MAX_STEPS = 2, 8
"""Of a funnel."""
STEP_FIELDS = ("pathname", "event_name")
"""The fields of steps of funnels and journeys: a pageview's path, an event's name."""


class FunnelStep(NamedTuple):
    """A step: the events with a text in a field of STEP_FIELDS or, where there are filters, those that match them."""

    field: str
    text: str
    filters: tuple[Filter, ...] | None = None


class Reached(NamedTuple):
    """Visits that completed a step, their visitors, and the sum of milliseconds since the step before."""

    visits: int
    visitors: int
    ms: int


MAX_JOURNEY_STEPS = 5

Direction = Literal["next", "previous"]


class JourneyStep(NamedTuple):
    """A step of a journey. Without a field: the end of the visit (""), or all other steps (OTHER_STEPS)."""

    field: str
    value: str


OTHER_STEPS = JourneyStep("", "(other)")

END = JourneyStep("", "")


class Link(NamedTuple):
    """Visits that go from one place to the next; `step` is the number of the second one, from 1 on."""

    step: int
    begin: JourneyStep
    end: JourneyStep
    visits: int


DATA_PERCENTILES = (50, 95)


class Numbers(NamedTuple):
    """Statistics of numbers; percentiles by nearest rank, None where values or properties were dropped.

    Sum and mean are rounded once, from exact values; None beyond the greatest double.
    """

    samples: int
    sum: float | None
    mean: float | None
    min: float
    percentiles: tuple[float | None, ...]
    max: float


class Property(NamedTuple):
    """A property: its events, distinct values, and the first of these as (value, events, visitors).

    Where `exact` is false, `distinct` and the counts of values are lower bounds. Where properties were dropped as well,
    so that the number of properties is a lower bound, `events` is one too, and the numbers may lack some.
    """

    name: str
    events: int
    distinct: int
    values: list[tuple[Any, int, int]]
    numbers: Numbers | None
    exact: bool


class Data(NamedTuple):
    """Events of a name, their visitors, the number of their properties, and the first of these.

    Where `exact` is false, the number of properties is a lower bound or a property is not exact.
    """

    events: int
    visitors: int
    properties: int
    first: list[Property]
    exact: bool


# Thresholds as published at https://web.dev/articles/vitals: good up to the first, poor above the second.
THRESHOLDS: dict[str, tuple[float, float]] = {
    "lcp": (2_500, 4_000),
    "inp": (200, 500),
    "fcp": (1_800, 3_000),
    "ttfb": (800, 1_800),
    "cls": (0.1, 0.25),
}

VITALS_PERCENTILES = (50, 75, 95)


class Summary(NamedTuple):
    """A metric's number of values, its VITALS_PERCENTILES (None without values), and how many have each rating.

    relative_error: of the percentiles, 0 where they are exact.
    """

    samples: int
    percentiles: tuple[float | None, ...]
    good: int
    middling: int
    poor: int
    relative_error: float


class VitalsRow(NamedTuple):
    """A value of the field, its events (with any metric), and the summary of the metric."""

    value: str
    events: int
    summary: Summary


class Arm(NamedTuple):
    """A variant with respect to a goal. Rates are 0 to 1.

    `lift` is relative to the baseline's rate; None for the baseline itself, or if its rate is 0. `p_value` is for one
    planned look, `p_value_any_time` for any number of looks; both are corrected for several variants.
    """

    variant: str
    visitors: int
    conversions: int
    interval: tuple[float, float] | None
    lift: float | None
    p_value: float | None
    p_value_any_time: float | None
    has_enough: bool


class ExperimentGoal(NamedTuple):
    """The variants' results for a goal."""

    goal: str
    arms: list[Arm]


class Experiment(NamedTuple):
    """An experiment: `visitors` by variant, the baseline first; `split_p_value` tests for an even split.

    `omitted`: the number of variants and of goals that are not returned.
    """

    name: str
    visitors: dict[str, int]
    split_p_value: float | None
    goals: list[ExperimentGoal]
    omitted: tuple[int, int] = (0, 0)


# 50 columns over the page's width, rows of 20 CSS pixels: about the size of a finger or a small button.
BINS_X = 50

BIN_HEIGHT_PX = 20

WIDTHS = ("mobile", "tablet", "desktop")
"""Classes of viewports, in the order of their numbers; the words are those of the field `device`."""

Spot = tuple[int, int, int]
"""Column, row, clicks."""


class Heatmap(NamedTuple):
    """The clicks of a page, ordered by row and column.

    `cells` and `clicks` count all of them; `samples` is the number of pageviews with a scroll depth, and `scroll` the
    percentage of these that reached at least each row. `texts` has (column, row, text) of cells whose element's text is
    known, by row and column.
    """

    grid: list[Spot]
    cells: int
    clicks: int
    samples: int
    scroll: list[float]
    texts: Sequence[tuple[int, int, str]] = ()


class HeatmapPages(NamedTuple):
    """Rows (pathname, samples, clicks), and samples and clicks of events without a page."""

    rows: list[tuple[str, int, int]]
    unset: tuple[int, int]
