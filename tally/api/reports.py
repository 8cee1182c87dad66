"""The table of reports: one row an endpoint about a website.

Adding a report takes one file, which holds a dataclass of parameters and a function, and one row here. Routes
(tally/web/routes.py), the names in /metrics and the tests of authorisation, parameters and openapi.yaml follow from the
table. A report that needs figures which no method of `Reports` returns adds one to tally/engine/reports.py.

Authorisation: a session of the website's account may read everything, and so may an API key, by its scope. A share
link shows traffic alone, since event_data, measurements and rejected events may hold what only the owner should see.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar

from tally.accounts.api_keys import Scope
from tally.api import behaviour, changes, crawlers, definitions, events, goals, measurements, params, rejected, traffic
from tally.api.context import Compute, ReadApi

P = TypeVar("P")


class Access(Enum):
    """How a request is authorised to read a website; the value is the path of its endpoints."""

    KEY = "/api/v1/websites/{id}"
    SESSION = "/api/account/websites/{id}"
    LINK = "/api/share/{token}"


OWNER = frozenset((Access.KEY, Access.SESSION))
EVERYONE = frozenset(Access)


def _version(api: ReadApi, website: int) -> Hashable:
    return api.reports.version(website)


def _no_version(api: ReadApi, website: int) -> Hashable:
    """Return the version of an answer that does not depend on events."""
    return None


def _rejected_version(api: ReadApi, website: int) -> Hashable:
    return api.node.rejected_events.version_of(website)


def _crawlers_version(api: ReadApi, website: int) -> Hashable:
    return _version(api, website), _rejected_version(api, website)


@dataclass(frozen=True, slots=True)
class Report(Generic[P]):
    """An endpoint. `path` follows the path of `Access`; without `columns` there is no CSV.

    `reads_events`: it always reads single events, so that it cannot answer about days whose events are deleted.
    `lists_events`: it returns single events, which a share link may hide.
    `version`: what the answer's ETag depends on besides the request.
    """

    path: str
    parameters: type[P]
    compute: Compute[P]
    columns: tuple[str, ...] = ()
    access: frozenset[Access] = OWNER
    reads_events: bool = False
    lists_events: bool = False
    version: Callable[[ReadApi, int], Hashable] = _version

    @property
    def name(self) -> str:
        """The first part of the path, by which /metrics calls the report."""
        return self.path.partition("/")[0]

    @property
    def scope(self) -> Scope:
        """The scope that an API key needs: single events are not part of `reports`."""
        return "read" if self.lists_events else "reports"

    @property
    def takes_filters(self) -> bool:
        """Whether it counts the events that match filters."""
        return hasattr(self.parameters, "filters")

    @property
    def depends_on_events(self) -> bool:
        """Whether its answer follows from what visitors sent."""
        return self.version is not _no_version

    @property
    def allowed(self) -> frozenset[str]:
        """The names of its parameters, without filters."""
        return params.names_of(self.parameters) | ({"format"} if self.columns else frozenset())


REPORTS: tuple[Report[Any], ...] = (
    Report("stats", traffic.StatsParameters, traffic.stats, access=EVERYONE),
    Report("timeseries", traffic.TimeseriesParameters, traffic.timeseries, traffic.TIMESERIES_COLUMNS, EVERYONE),
    Report("top", traffic.TopListsParameters, traffic.top_lists, access=EVERYONE),
    Report("top/{field}", traffic.TopParameters, traffic.top, traffic.TOP_COLUMNS, EVERYONE),
    Report("changes", changes.ChangesParameters, changes.changes, changes.CHANGE_COLUMNS, EVERYONE),
    Report("event-names", traffic.ComparedListParameters, traffic.event_names, traffic.EVENT_NAME_COLUMNS, EVERYONE),
    Report("entry-pages", traffic.ComparedListParameters, traffic.entry_pages, traffic.PAGE_COLUMNS, EVERYONE),
    Report("exit-pages", traffic.ComparedListParameters, traffic.exit_pages, traffic.PAGE_COLUMNS, EVERYONE),
    Report(
        "events",
        events.EventsParameters,
        events.events,
        events.EVENT_COLUMNS,
        EVERYONE,
        reads_events=True,
        lists_events=True,
    ),
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
    Report("journeys", behaviour.JourneysParameters, behaviour.journeys, behaviour.JOURNEY_COLUMNS, reads_events=True),
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
    Report(
        "crawlers",
        crawlers.CrawlersParameters,
        crawlers.crawlers,
        crawlers.CRAWLER_COLUMNS,
        version=_crawlers_version,
    ),
    Report("goals/report", goals.GoalsParameters, goals.report, goals.GOAL_COLUMNS),
    *(
        Report(
            of.path,
            definitions.ListParameters,
            definitions.listed(of),
            access=EVERYONE if of is definitions.ANNOTATIONS else OWNER,
            version=_no_version,
        )
        for of in definitions.KINDS
    ),
)
