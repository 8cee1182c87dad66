"""The figures of /metrics: what the rooms count, put into Prometheus' families.

The rooms count in plain integers, whether anybody asks or not; here they are only read. No label ever holds anything
that came with a request: routes are the table's own patterns (what is at no route of ours is `none`), statuses their
classes, codes those of tally/errors.py and of rejections, endpoints those of tally/api/traffic.py. So the number of
series is bounded by the code, whatever is sent, and nothing personal is in them.
"""

import platform
import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector as MetricsCollector

from tally.accounts.usage import USAGE_WARNINGS
from tally.api.context import Reader
from tally.clock import Clock
from tally.http.connections import Connections
from tally.http.middleware import ResponseCounts
from tally.http.request_paths import COLLECT_PATHS
from tally.ingest.collector import Collector
from tally.ingest.rejected_events import RejectedEvents
from tally.ingest.store import Store
from tally.latency_histogram import Histogram
from tally.maintenance.scheduled_backup import ScheduledBackup
from tally.resources import tally_version
from tally.storage.connections import Readers
from tally.storage.health import WORDS
from tally.storage.value_limits import BOUNDED, ValueLimits

_NONE = "none"


class Figures(MetricsCollector):
    """All of them, as they are now. `answered`, `refused`: tally/errors.py; `collect_path`: the owner's choice."""

    def __init__(
        self,
        desk: Collector,
        reader: Reader,
        connections: Connections,
        nightly: ScheduledBackup | None,
        answered: ResponseCounts,
        refused: Counter[str],
        collect_path: str,
        base_path: str = "",
    ) -> None:
        self._desk, self._reader, self._nightly = desk, reader, nightly
        self._connections = connections
        self._answered, self._refused = answered, refused
        self._base_path = base_path
        self._collect_paths = {*COLLECT_PATHS, collect_path}
        self._process = ProcessCollector(registry=None)

    def collect(self) -> Iterator[Metric]:
        """The families, in an order that people read well."""
        desk, store = self._desk, self._desk.store
        info = {"version": tally_version(), "sqlite": sqlite3.sqlite_version, "python": platform.python_version()}
        running = GaugeMetricFamily("tally_info", "1; what runs is in the labels.", labels=list(info))
        running.add_metric(list(info.values()), 1)
        yield running
        yield self._requests()
        yield _by_code("tally_requests_refused", "Requests answered with an error, by its code.", self._refused)
        yield from _connections(self._connections)
        yield _counter("tally_events_accepted", "Events answered as accepted, duplicates included.", desk.accepted)
        yield _by_code("tally_events_rejected", "Events rejected, by code.", desk.rejected)
        yield from _left_out(store.rejected_events)
        yield _folded(store.event_writer.value_limits)
        yield _usage(store, self._desk.clock.wall_ms())
        yield from _writing(store)
        yield self._queries()
        yield from _readers(store.readers)
        joined = self._reader.link_answers.joined
        yield _counter("tally_shared_answers", "Questions by share links that took the answer of another.", joined)
        yield _state(store)
        yield from _sizes(store)
        sessions = store.event_writer.sessions
        yield _gauge("tally_identities", "Visitors kept in memory.", len(sessions))
        yield _counter("tally_identities_evicted", "Visitors forgotten for want of room.", sessions.evictions)
        early = desk.clients.rotated_early + desk.client_websites.rotated_early
        yield _counter("tally_buckets_turned_early", "Times that a flood of clients emptied the token buckets.", early)
        yield from _clock(desk.clock)
        yield from _backups(self._nightly, desk.clock.wall_ms())
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
        help = "Time from a question of the read API to its figures, waiting for a connection included."
        family = HistogramMetricFamily("tally_query_seconds", help, labels=["endpoint"])
        for name, times in sorted(self._reader.times.items()):
            family.add_metric([name], *_buckets(times, 1e9))
        return family


def _left_out(left_out: RejectedEvents) -> Iterator[Metric]:
    yield _by_code("tally_collect_refused", "Collect requests refused whole, by code.", left_out.requests)
    yield _by_code("tally_events_left_out", "Events of websites that were not taken, by code.", left_out.events)
    uncounted = "Events left out that no website counts, for want of room while nothing could be written."
    yield _counter("tally_left_out_uncounted", uncounted, left_out.uncounted)


def _usage(store: Store, now_ms: int) -> Metric:
    help = "Accounts that have used at least so many percent of their plan's events of this month."
    family = GaugeMetricFamily("tally_accounts_month_used", help, labels=["percent"])
    for percent in USAGE_WARNINGS:
        family.add_metric([str(percent)], store.accounts_past(percent, now_ms))
    return family


def _folded(limits: ValueLimits) -> Metric:
    help = "Events stored with (other) in place of a new value beyond its field's limit of the day, by field."
    family = CounterMetricFamily("tally_events_folded", help, labels=["field"])
    for field, name in enumerate(BOUNDED):
        family.add_metric([name], limits.folded[field])
    return family


def _connections(connections: Connections) -> Iterator[Metric]:
    yield _gauge("tally_connections", "Connections that are open.", connections.open)
    yield _counter("tally_connections_refused", "Connections refused at a bound.", connections.refused)
    yield _counter("tally_connections_evicted", "Connections closed to make room.", connections.evicted)
    yield _counter("tally_connections_late", "Connections closed for being late, or for too much.", connections.late)


def _writing(store: Store) -> Iterator[Metric]:
    counters = store.counters
    yield _histogram("tally_commit_seconds", "Time from a group's start to its commit on disk.", counters.took, 1e9)
    yield _histogram("tally_commit_events", "Events in a committed group.", counters.sizes)
    yield _counter("tally_commits_failed", "Groups that could not be committed.", counters.failed_commits)
    yield _gauge("tally_queue_events", "Events that wait for a commit.", store.queue)


def _readers(readers: Readers) -> Iterator[Metric]:
    """Connections for reading, by who they are for: accounts (keys and sessions), or share links."""
    busy = GaugeMetricFamily("tally_readers_busy", "Connections that answer a question.", labels=["class"])
    waiting = GaugeMetricFamily("tally_readers_waiting", "Questions that wait for a connection.", labels=["class"])
    refused = CounterMetricFamily("tally_readers_refused", "Questions that waited for too long.", labels=["class"])
    waits = HistogramMetricFamily("tally_readers_wait_seconds", "How long questions waited.", labels=["class"])
    for name, of in (("account", readers.accounts), ("link", readers.links)):
        busy.add_metric([name], of.queue.busy)
        waiting.add_metric([name], of.queue.waiting)
        refused.add_metric([name], of.refused)
        waits.add_metric([name], *_buckets(of.waits, 1e9))
    yield from (busy, waiting, refused, waits)


def _state(store: Store) -> Metric:
    """1 at the one word that /healthz goes by."""
    now = store.look()
    family = GaugeMetricFamily("tally_storage_state", "1 where it stands so with the database.", labels=["state"])
    for state in ("well", *WORDS):
        family.add_metric([state], state == now)
    return family


def _sizes(store: Store) -> Iterator[Metric]:
    yield _gauge("tally_database_bytes", "Size of the database file.", store.file_bytes)
    yield _gauge("tally_log_bytes", "Size of SQLite's log beside the database.", store.log_bytes)
    try:
        free = shutil.disk_usage(store.path.parent).free
    except OSError:
        return
    yield _gauge("tally_disk_free_bytes", "Room that is left on the database's disk.", free)


def _clock(clock: Clock) -> Iterator[Metric]:
    lead = "How far the system's clock is ahead of where it stood before it was set; below 0 where it was set back."
    yield _gauge("tally_clock_lead_seconds", lead, clock.ahead_ms / 1000)
    behind = "How far deletions are behind the system's clock, since it has not held for long enough."
    yield _gauge("tally_clock_unbelieved_seconds", behind, (clock.wall_ms() - clock.deletion_time_ms()) / 1000)


def _backups(nightly: ScheduledBackup | None, now_ms: int) -> Iterator[Metric]:
    """Of the nightly backups, where the settings want some; age and time only once one is known."""
    if nightly is None:
        return
    yield _counter("tally_backups", "ScheduledBackup backups made and checked.", nightly.made)
    yield _counter("tally_backups_failed", "ScheduledBackup backups that could not be made.", nightly.failed)
    if nightly.last_ms:
        at, age = nightly.last_ms / 1000, max(0, now_ms - nightly.last_ms) / 1000
        yield _gauge("tally_backup_last_timestamp_seconds", "When the newest backup was made.", at)
        yield _gauge("tally_backup_age_seconds", "How old the newest backup is.", age)
    if nightly.made:
        yield _gauge("tally_backup_bytes", "Size of the last nightly backup.", nightly.bytes)
        yield _gauge("tally_backup_seconds", "How long it took.", nightly.took_ns / 1e9)


def _by_code(name: str, help: str, numbers: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(name, help, labels=["code"])
    for code, number in sorted(numbers.items()):
        family.add_metric([code], number)
    return family


def _histogram(name: str, help: str, histogram: Histogram, unit: float = 1) -> Metric:
    buckets, total = _buckets(histogram, unit)
    return HistogramMetricFamily(name, help, buckets=buckets, sum_value=total)


def _buckets(histogram: Histogram, unit: float) -> tuple[list[tuple[str, float]], float]:
    """Prometheus' way: each bucket holds those before it too."""
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
