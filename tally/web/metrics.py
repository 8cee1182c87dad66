"""The families of /metrics: counters of the server's components as Prometheus metrics.

Components count in plain integers; they are read here when /metrics is requested. No label holds anything that a
request sent: routes are the patterns of the routing table (`none` for other paths), statuses their classes, codes those
of tally/errors.py and of rejected events, endpoints the names of reports (tally/api/reports.py). The number of series
is therefore bounded by the code, and none holds personal data.
"""

import platform
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector as MetricsCollector
from prometheus_client.registry import CollectorRegistry

from tally.accounts.usage import USAGE_WARNINGS
from tally.api.context import ReadApi
from tally.clock import Clock
from tally.http.connections import Connections
from tally.http.middleware import ResponseCounts
from tally.http.request_paths import COLLECT_PATHS
from tally.http.tls import Tls
from tally.ingest.collector import Collector
from tally.ingest.rejected_events import WARNINGS, RejectedEvents
from tally.ingest.store import SQLITE_VERSION, Store
from tally.latency_histogram import Histogram
from tally.maintenance.scheduled_backup import Nightly, ScheduledBackup
from tally.resources import tally_version
from tally.storage.connections import Readers
from tally.storage.health import WORDS
from tally.storage.value_limits import BOUNDED, ValueLimits

if TYPE_CHECKING:
    from tally.maintenance.increment_stream import IncrementStream
    from tally.maintenance.offsite_backup import OffsiteBackup

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
        backups: "tuple[ScheduledBackup | None, OffsiteBackup | None, IncrementStream | None]",
        tls: Tls | None,
        answered: ResponseCounts,
        refused: Counter[str],
        collect_path: str,
        base_path: str = "",
    ) -> None:
        self._collector, self._api, self._backups, self._tls = collector, api, backups, tls
        self._connections = connections
        self._answered, self._refused = answered, refused
        self._base_path = base_path
        self._collect_paths = {*COLLECT_PATHS, collect_path}
        self._process = ProcessCollector(registry=None)

    def collect(self) -> Iterator[Metric]:
        """Yield the families, related ones together."""
        collector, store = self._collector, self._collector.store
        info = {"version": tally_version(), "sqlite": SQLITE_VERSION, "python": platform.python_version()}
        running = GaugeMetricFamily("tally_info", "Always 1; the labels hold the versions.", labels=list(info))
        running.add_metric(list(info.values()), 1)
        yield running
        yield self._requests()
        yield _by_code("tally_requests_refused", "Requests answered with an error, by error code.", self._refused)
        yield from _connections(self._connections)
        yield _counter("tally_events_accepted", "Events accepted, duplicates included.", collector.accepted)
        yield _by_code("tally_events_rejected", "Events rejected, by error code.", collector.rejected)
        yield from _rejected(store.rejected_events)
        yield _folded(store.event_writer.value_limits)
        yield _usage(store, self._collector.clock.wall_ms())
        yield from _writing(store)
        yield self._queries()
        yield from _readers(store.readers)
        joined = self._api.link_answers.joined
        yield _counter(
            "tally_shared_answers", "Requests by share links answered with the result of an identical request.", joined
        )
        yield _state(store)
        yield from _sizes(store)
        sessions = store.event_writer.sessions
        yield _gauge("tally_identities", "Visitor identities in memory.", len(sessions))
        yield _counter(
            "tally_identities_evicted",
            "Visitor identities evicted because the maximum was reached.",
            sessions.evictions,
        )
        early = collector.clients.evictions + collector.client_websites.evictions
        yield _counter(
            "tally_rate_limit_bucket_evictions",
            "Times that rate limit buckets were evicted because the maximum was reached.",
            early,
        )
        yield from _clock(collector.clock)
        local, offsite, increments = self._backups
        yield from _backups(local, collector.clock.wall_ms(), "", "scheduled backup")
        yield from _backups(offsite, collector.clock.wall_ms(), "offsite_", "backup on another machine")
        yield from _increments(increments)
        yield from _certificate(self._tls)
        yield from self._process.collect()

    def _requests(self) -> Metric:
        family = CounterMetricFamily("tally_requests", "Requests answered.", labels=["method", "route", "status"])
        numbers: Counter[tuple[str, str, str]] = Counter()
        for (route, hundreds), number in self._answered.items():
            if route is None:
                found = (_NONE, _NONE)
            elif isinstance(route, str):
                found = ("POST", route)
            else:
                canonical = route.resource.canonical if route.resource else _NONE
                found = (route.method, canonical.removeprefix(self._base_path))
            path = COLLECT_PATHS[0] if found[1] in self._collect_paths else found[1]
            numbers[found[0], path, f"{hundreds}xx"] += number
        for labels, number in sorted(numbers.items()):
            family.add_metric(labels, number)
        return family

    def _queries(self) -> Metric:
        help = "Duration of reports, waiting for a connection included."
        family = HistogramMetricFamily("tally_query_seconds", help, labels=["endpoint"])
        for name, times in sorted(self._api.times.items()):
            family.add_metric([name], *_buckets(times, 1e9))
        return family


def _rejected(rejected: RejectedEvents) -> Iterator[Metric]:
    yield _by_code("tally_collect_refused", "Collect requests refused as a whole, by error code.", rejected.requests)
    codes = Counter({code: number for code, number in rejected.events.items() if code not in WARNINGS})
    yield _by_code("tally_website_events_rejected", "Rejected events of registered websites, by error code.", codes)
    yield _by_code("tally_event_warnings", "Events stored without a field, by warning code.", rejected.events - codes)
    uncounted = "Rejected events missing from the counts by website, because too many counts waited to be written."
    yield _counter("tally_website_events_uncounted", uncounted, rejected.uncounted)


def _usage(store: Store, now_ms: int) -> Metric:
    help = "Accounts that have used at least this percentage of their monthly events."
    family = GaugeMetricFamily("tally_accounts_month_used", help, labels=["percent"])
    for percent in USAGE_WARNINGS:
        family.add_metric([str(percent)], store.accounts_past(percent, now_ms))
    return family


def _folded(limits: ValueLimits) -> Metric:
    help = "Events stored with (other) instead of a new value, because the field's daily limit was reached."
    family = CounterMetricFamily("tally_events_folded", help, labels=["field"])
    for field, name in BOUNDED.items():
        family.add_metric([name], limits.folded[field])
    return family


def _connections(connections: Connections) -> Iterator[Metric]:
    yield _gauge("tally_connections", "Open connections.", connections.open)
    yield _counter("tally_connections_refused", "Connections refused because a limit was reached.", connections.refused)
    yield _counter("tally_connections_evicted", "Idle connections closed to accept new ones.", connections.evicted)
    yield _counter(
        "tally_connections_late", "Connections closed because of a timeout or too much data.", connections.late
    )


def _writing(store: Store) -> Iterator[Metric]:
    counters = store.counters
    yield _histogram("tally_commit_seconds", "Duration of group commits, fsync included.", counters.took, 1e9)
    yield _histogram("tally_commit_events", "Events per group commit.", counters.sizes)
    yield _counter("tally_commits_failed", "Failed group commits.", counters.failed_commits)
    yield _gauge("tally_queue_events", "Events waiting for a commit.", store.queue)


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
    for name, of in (("account", readers.accounts), ("link", readers.links)):
        busy.add_metric([name], of.queue.busy)
        waiting.add_metric([name], of.queue.waiting)
        refused.add_metric([name], of.refused)
        waits.add_metric([name], *_buckets(of.waits, 1e9))
    yield from (busy, waiting, refused, waits)


def _state(store: Store) -> Metric:
    """Return 1 for the state that /healthz reports and 0 for the others."""
    now = store.check_health()
    family = GaugeMetricFamily(
        "tally_storage_state", "1 for the current state of the database, 0 for others.", labels=["state"]
    )
    for state in ("well", *WORDS):
        family.add_metric([state], state == now)
    return family


def _sizes(store: Store) -> Iterator[Metric]:
    yield _gauge("tally_database_bytes", "Size of the database file.", store.file_bytes)
    yield _gauge("tally_log_bytes", "Size of the write-ahead log.", store.log_bytes)
    try:
        free = shutil.disk_usage(store.path.parent).free
    except OSError:
        return
    yield _gauge("tally_disk_free_bytes", "Free space on the database's disk.", free)


def _clock(clock: Clock) -> Iterator[Metric]:
    lead = "Seconds by which the system clock was set forward; negative where it was set back."
    yield _gauge("tally_clock_lead_seconds", lead, clock.ahead_ms / 1000)
    behind = "Seconds by which deletions lag behind the system clock, until the clock is trusted."
    yield _gauge("tally_clock_unconfirmed_seconds", behind, (clock.wall_ms() - clock.deletion_time_ms()) / 1000)


def _backups(backup: Nightly | None, now_ms: int, kind: str, name: str) -> Iterator[Metric]:
    """Yield the metrics of nightly backups, where they are configured; age and time once there is one."""
    if backup is None:
        return
    yield _counter(f"tally_{kind}backups", f"Number of times that a {name} was made and checked.", backup.made)
    yield _counter(f"tally_{kind}backups_failed", f"Number of times that a {name} failed.", backup.failed)
    prefix = f"tally_{kind}backup"
    if backup.last_ms:
        at, age = backup.last_ms / 1000, max(0, now_ms - backup.last_ms) / 1000
        yield _gauge(f"{prefix}_last_timestamp_seconds", f"Time of the newest {name}.", at)
        yield _gauge(f"{prefix}_age_seconds", f"Age of the newest {name}.", age)
    if backup.made:
        yield _gauge(f"{prefix}_bytes", f"Size of the last {name}.", backup.bytes)
        yield _gauge(f"{prefix}_seconds", f"Duration of the last {name}.", backup.took_ns / 1e9)


def _increments(stream: "IncrementStream | None") -> Iterator[Metric]:
    if stream is None:
        return
    yield _counter("tally_increments", "Increments sent to another machine.", stream.sent)
    yield _counter("tally_increments_failed", "Failed attempts to send increments.", stream.failed)
    yield _gauge("tally_increments_behind_seconds", "Time for which events wait to be sent.", stream.behind_ns / 1e9)


def _certificate(tls: Tls | None) -> Iterator[Metric]:
    """Yield the metrics of the certificate, with TLS; its end once there is one."""
    if tls is None:
        return
    yield _counter("tally_certificate_renewals_failed", "Renewals of the certificate that failed.", tls.failed)
    if tls.certificate is not None:
        end = "End of the certificate in use."
        yield _gauge("tally_certificate_expiry_timestamp_seconds", end, tls.certificate.ends_s)


def _by_code(name: str, help: str, numbers: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(name, help, labels=["code"])
    for code, number in sorted(numbers.items()):
        family.add_metric([code], number)
    return family


def _histogram(name: str, help: str, histogram: Histogram, unit: float = 1) -> Metric:
    buckets, total = _buckets(histogram, unit)
    return HistogramMetricFamily(name, help, buckets=buckets, sum_value=total)


def _buckets(histogram: Histogram, unit: float) -> tuple[list[tuple[str, float]], float]:
    """Return cumulative buckets, as Prometheus has them, and the total."""
    counts: Iterable[int] = histogram.counts
    so_far, buckets = 0, []
    for bound, number in zip((*histogram.bounds, None), counts, strict=True):
        so_far += number
        buckets.append(("+Inf" if bound is None else f"{bound / unit:g}", float(so_far)))
    return buckets, histogram.total / unit


def _counter(name: str, help: str, value: float) -> Metric:
    return CounterMetricFamily(name, help, value=value)


def _gauge(name: str, help: str, value: float) -> Metric:
    return GaugeMetricFamily(name, help, value=value)
