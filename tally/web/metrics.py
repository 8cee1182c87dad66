"""The families of /metrics: counters of the server's components as Prometheus metrics.

Components count in plain integers; they are read here when /metrics is requested. No label holds anything that a
request sent: routes are the patterns of the routing table (`none` for other paths), statuses their classes, codes those
of tally/errors.py and of rejected events, endpoints the names of reports (tally/api/reports.py). The number of series
is therefore bounded by the code, and none holds personal data.
"""

import platform
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import date

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector as MetricsCollector
from prometheus_client.registry import CollectorRegistry

from tally.accounts.usage import USAGE_WARNINGS
from tally.api.auth_header import AuthHeader
from tally.api.context import ReadApi
from tally.clock import Clock
from tally.events.lists import Lists
from tally.http.connections import Connections
from tally.http.metric_families import buckets, by_code, counter, gauge
from tally.http.middleware import ResponseCounts
from tally.http.request_paths import COLLECT_PATHS
from tally.http.tls import Tls
from tally.ingest.collector import Collector
from tally.ingest.rejected_events import WARNINGS, RejectedEvents
from tally.resources import tally_version
from tally.storage.connections import Readers
from tally.storage.health import WORDS
from tally.storage.node_database import SQLITE_VERSION, NodeDatabase
from tally.storage.registry import Registry

_NONE = "none"


def exposition(families: MetricsCollector) -> tuple[bytes, str]:
    """Return families in Prometheus' text format, and its content type."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(families)
    return generate_latest(registry), CONTENT_TYPE_PLAIN_0_0_4


class ServerMetrics(MetricsCollector):
    """All families, at the moment they are read.

    `answered` and `refused`: see tally/http/middleware.py; `collect_path`: the configured one.
    """

    def __init__(
        self,
        collector: Collector,
        api: ReadApi,
        connections: Connections,
        tls: Tls | None,
        answered: ResponseCounts,
        refused: Counter[str],
        collect_path: str,
        base_path: str = "",
        header: AuthHeader | None = None,
        notices: Mapping[str, int] | None = None,
        lists: Lists | None = None,
    ) -> None:
        self._collector, self._api, self._tls, self._header = collector, api, tls, header
        self._connections = connections
        self._answered, self._refused = answered, refused
        self._base_path = base_path
        self._notices = notices or {}
        self._lists = lists or Lists(None)
        self._collect_paths = {*COLLECT_PATHS, collect_path}
        self._process = ProcessCollector(registry=None)

    def collect(self) -> Iterator[Metric]:
        """Yield the families, related ones together."""
        collector, node = self._collector, self._api.node
        info = {"version": tally_version(), "sqlite": SQLITE_VERSION, "python": platform.python_version()}
        running = GaugeMetricFamily("tally_info", "Always 1; the labels hold the versions.", labels=list(info))
        running.add_metric(list(info.values()), 1)
        yield running
        yield self._requests()
        yield by_code("tally_requests_refused", "Requests answered with an error, by error code.", self._refused)
        yield from _connections(self._connections)
        yield counter("tally_events_accepted", "Events accepted, duplicates included.", collector.accepted)
        yield by_code("tally_events_rejected", "Events rejected, by error code.", collector.rejected)
        yield from _rejected(node.rejected_events)
        yield _usage(node.registry, collector.clock.wall_ms())
        yield self._queries()
        yield from _readers(node.database.readers)
        joined = self._api.link_answers.joined
        yield counter(
            "tally_shared_answers", "Requests by share links answered with the result of an identical request.", joined
        )
        yield _state(node.database)
        yield from _sizes(node.database)
        early = collector.clients.evictions + collector.client_websites.evictions
        yield counter(
            "tally_rate_limit_bucket_evictions",
            "Times that rate limit buckets were evicted because the maximum was reached.",
            early,
        )
        yield from _clock(collector.clock)
        yield from node.engine.metrics()
        yield from _certificate(self._tls)
        yield _notices(self._notices)
        yield _lists(self._lists)
        if self._header is not None:
            help = "Requests whose sign-in header was ignored, because it came from another address."
            yield counter("tally_auth_header_refused", help, self._header.refused)
        yield from self._process.collect()

    def _requests(self) -> Metric:
        family = CounterMetricFamily("tally_requests", "Requests answered.", labels=["method", "route", "status"])
        numbers: Counter[tuple[str, str, str]] = Counter()
        for (route, hundreds), number in self._answered.items():
            if route is None:
                endpoint = (_NONE, _NONE)
            elif isinstance(route, str):
                endpoint = ("POST", route)
            else:
                canonical = route.resource.canonical if route.resource else _NONE
                endpoint = (route.method, canonical.removeprefix(self._base_path))
            path = COLLECT_PATHS[0] if endpoint[1] in self._collect_paths else endpoint[1]
            numbers[endpoint[0], path, f"{hundreds}xx"] += number
        for labels, number in sorted(numbers.items()):
            family.add_metric(labels, number)
        return family

    def _queries(self) -> Metric:
        help = "Duration of reports, waiting for a connection included."
        family = HistogramMetricFamily("tally_query_seconds", help, labels=["endpoint"])
        for name, times in sorted(self._api.times.items()):
            family.add_metric([name], *buckets(times, 1e9))
        return family


def _rejected(rejected: RejectedEvents) -> Iterator[Metric]:
    yield by_code("tally_collect_refused", "Collect requests refused as a whole, by error code.", rejected.requests)
    codes = Counter({code: number for code, number in rejected.events.items() if code not in WARNINGS})
    yield by_code("tally_website_events_rejected", "Rejected events of registered websites, by error code.", codes)
    yield by_code("tally_event_warnings", "Events stored without a field, by warning code.", rejected.events - codes)
    uncounted = "Rejected events missing from the counts by website, because too many counts waited to be written."
    yield counter("tally_website_events_uncounted", uncounted, rejected.uncounted)


def _usage(registry: Registry, now_ms: int) -> Metric:
    help = "Accounts that have used at least this percentage of their monthly events."
    family = GaugeMetricFamily("tally_accounts_month_used", help, labels=["percent"])
    for percent in USAGE_WARNINGS:
        family.add_metric([str(percent)], registry.accounts_past(percent, now_ms))
    return family


def _connections(connections: Connections) -> Iterator[Metric]:
    yield gauge("tally_connections", "Open connections.", connections.open)
    yield counter("tally_connections_refused", "Connections refused because a limit was reached.", connections.refused)
    yield counter("tally_connections_evicted", "Idle connections closed to accept new ones.", connections.evicted)
    yield counter(
        "tally_connections_late", "Connections closed because of a timeout or too much data.", connections.late
    )


def _readers(readers: Readers) -> Iterator[Metric]:
    """Yield the metrics of reading connections, by class: accounts (API keys and sessions) or share links."""
    busy = GaugeMetricFamily("tally_readers_busy", "Reading connections in use.", labels=["class"])
    waiting = GaugeMetricFamily("tally_readers_waiting", "Reports waiting for a reading connection.", labels=["class"])
    refused = CounterMetricFamily(
        "tally_readers_refused", "Reports refused after waiting too long for a reading connection.", labels=["class"]
    )
    waits = HistogramMetricFamily(
        "tally_readers_wait_seconds", "Time that reports waited for a reading connection.", labels=["class"]
    )
    for name, reader_class in (("account", readers.accounts), ("link", readers.links)):
        busy.add_metric([name], reader_class.queue.busy)
        waiting.add_metric([name], reader_class.queue.waiting)
        refused.add_metric([name], reader_class.refused)
        waits.add_metric([name], *buckets(reader_class.waits, 1e9))
    yield from (busy, waiting, refused, waits)


def _state(database: NodeDatabase) -> Metric:
    """Return 1 for the state that /healthz reports and 0 for the others."""
    now = database.check_health()
    family = GaugeMetricFamily(
        "tally_storage_state", "1 for the current state of the database, 0 for others.", labels=["state"]
    )
    for state in ("well", *WORDS):
        family.add_metric([state], state == now)
    return family


def _sizes(database: NodeDatabase) -> Iterator[Metric]:
    yield gauge("tally_database_bytes", "Size of the database file.", database.file_bytes)
    yield gauge("tally_log_bytes", "Size of the write-ahead log.", database.log_bytes)
    try:
        free = shutil.disk_usage(database.path.parent).free
    except OSError:
        return
    yield gauge("tally_disk_free_bytes", "Free space on the database's disk.", free)


def _clock(clock: Clock) -> Iterator[Metric]:
    lead = "Seconds by which the system clock was set forward; negative where it was set back."
    yield gauge("tally_clock_lead_seconds", lead, clock.ahead_ms / 1000)
    behind = "Seconds by which deletions lag behind the system clock, until the clock is trusted."
    yield gauge("tally_clock_unconfirmed_seconds", behind, (clock.wall_ms() - clock.deletion_time_ms()) / 1000)


def _notices(counts: Mapping[str, int]) -> Metric:
    help = "Notices sent, sent again later, failed, and expired before they were sent."
    family = CounterMetricFamily("tally_notices", help, labels=["state"])
    for state, number in counts.items():
        family.add_metric([state], number)
    return family


def _lists(lists: Lists) -> Metric:
    help = "Date of the lists of crawlers and referrer spam, as seconds since 1970."
    family = GaugeMetricFamily("tally_list_date_seconds", help, labels=["list"])
    for file in lists.files:
        family.add_metric([file.name], file.made.toordinal() * 86_400 - date(1970, 1, 1).toordinal() * 86_400)
    return family


def _certificate(tls: Tls | None) -> Iterator[Metric]:
    """Yield the metrics of the certificate, with TLS; its end once there is one."""
    if tls is None:
        return
    yield counter("tally_certificate_renewals_failed", "Renewals of the certificate that failed.", tls.failed)
    if tls.certificate is not None:
        end = "End of the certificate in use."
        yield gauge("tally_certificate_expiry_timestamp_seconds", end, tls.certificate.ends_s)
