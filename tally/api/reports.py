"""The table of reports: one row an endpoint about a website.

Adding a report takes one file, which holds a dataclass of parameters and a function, and one row here. Routes
(tally/web/routes.py), the names in /metrics and the tests of authorisation, parameters and openapi.yaml follow from the
table. A report that needs figures which no method of `Reports` returns adds one to tally/reports/engine.py.

Who may ask: whoever has an API key or a session of the website's account reads everything. A share link shows traffic
alone, since event_data, measurements and rejected events may hold what only the owner should see.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar

from tally.api import behaviour, events, measurements, params, rejected, traffic
from tally.api.context import Compute
from tally.reports.engine import Reports

P = TypeVar("P")


class Access(Enum):
    """How a request is authorised to read a website; the value is the path of its endpoints."""

    KEY = "/api/v1/websites/{id}"
    SESSION = "/api/account/websites/{id}"
    LINK = "/api/share/{token}"


OWNER = frozenset((Access.KEY, Access.SESSION))
EVERYONE = frozenset(Access)


def _version(engine: Reports, website: int) -> Hashable:
    return engine.version(website)


def _rejected_version(engine: Reports, website: int) -> Hashable:
    return engine.rejected_version(website)


@dataclass(frozen=True, slots=True)
class Report(Generic[P]):
    """An endpoint. `path` follows the path of `Access`; without `columns` there is no CSV.

    `reads_events`: it always reads single events, so that it cannot answer about days whose events are deleted.
    `version`: what the answer's ETag depends on besides the question.
    """

    path: str
    parameters: type[P]
    compute: Compute[P]
    columns: tuple[str, ...] = ()
    access: frozenset[Access] = OWNER
    reads_events: bool = False
    version: Callable[[Reports, int], Hashable] = _version

    @property
    def name(self) -> str:
        """The first part of the path, by which /metrics calls the report."""
        return self.path.partition("/")[0]

    @property
    def allowed(self) -> frozenset[str]:
        """The names of its parameters, without filters."""
        return params.names_of(self.parameters) | ({"format"} if self.columns else frozenset())


REPORTS: tuple[Report[Any], ...] = (
    Report("stats", traffic.StatsParameters, traffic.stats, access=EVERYONE),
    Report("timeseries", traffic.TimeseriesParameters, traffic.timeseries, traffic.TIMESERIES_COLUMNS, EVERYONE),
    Report("top/{field}", traffic.TopParameters, traffic.top, traffic.TOP_COLUMNS, EVERYONE),
    Report("event-names", traffic.ListParameters, traffic.event_names, traffic.EVENT_NAME_COLUMNS, EVERYONE),
    Report("entry-pages", traffic.ListParameters, traffic.entry_pages, traffic.PAGE_COLUMNS, EVERYONE),
    Report("exit-pages", traffic.ListParameters, traffic.exit_pages, traffic.PAGE_COLUMNS, EVERYONE),
    Report("events", events.EventsParameters, events.events, events.EVENT_COLUMNS, EVERYONE, reads_events=True),
    Report("realtime", traffic.RealtimeParameters, traffic.realtime, access=EVERYONE),
    Report("vitals", measurements.VitalsParameters, measurements.vitals, measurements.VITALS_COLUMNS),
    Report(
        "experiments", measurements.ExperimentsParameters, measurements.experiments, measurements.EXPERIMENT_COLUMNS
    ),
    Report("heatmap", measurements.HeatmapParameters, measurements.heatmap, measurements.HEATMAP_COLUMNS),
    Report(
        "heatmap-pages",
        measurements.HeatmapPagesParameters,
        measurements.heatmap_pages,
        measurements.HEATMAP_PAGE_COLUMNS,
    ),
    Report("funnel", behaviour.FunnelParameters, behaviour.funnel, behaviour.FUNNEL_COLUMNS, reads_events=True),
    Report(
        "event-data",
        behaviour.EventDataParameters,
        behaviour.event_data,
        behaviour.EVENT_DATA_COLUMNS,
        reads_events=True,
    ),
    Report(
        "rejected",
        rejected.RejectedParameters,
        rejected.rejected,
        rejected.REJECTED_COLUMNS,
        version=_rejected_version,
    ),
)
