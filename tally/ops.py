"""What the owner's machines ask: is it well, what does it do, and what does its API look like.

/healthz needs no key and tells nothing about visitors. /metrics answers this machine itself or a bearer of the metrics
token; its figures are plain counters of the rooms, put into Prometheus' text form only when somebody asks, so that
counting costs nothing in between. Nothing personal is in them.
"""

import secrets
import sqlite3
from collections.abc import Iterator, Mapping

from aiohttp import web
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

from tally import errors
from tally.assets import tally_version
from tally.collect import DESK, Desk
from tally.errors import ApiError, json_answer
from tally.nightly import Nightly

METRICS_TOKEN = web.AppKey("metrics_token", str)
OPENAPI = web.AppKey("openapi", bytes)
NIGHTLY = web.AppKey[Nightly | None]("nightly")


async def healthz(request: web.Request) -> web.Response:
    """200 where the process answers and its last commit held; 503 otherwise."""
    store = request.app[DESK].store
    if store.is_failing or store.is_gone:
        raise ApiError(errors.STORAGE_UNAVAILABLE, retry_after_s=5)
    return json_answer({"ok": True, "version": tally_version(), "sqlite": sqlite3.sqlite_version, "queue": store.queue})


async def openapi(request: web.Request) -> web.Response:
    """The document that describes the API to machines."""
    return web.Response(body=request.app[OPENAPI], content_type="application/yaml")


async def metrics(request: web.Request) -> web.Response:
    """Counters for Prometheus."""
    desk, token = request.app[DESK], request.app[METRICS_TOKEN]
    given = request.headers.get("Authorization", "").encode("utf-8", "surrogateescape")
    has_token = bool(token) and secrets.compare_digest(given, f"Bearer {token}".encode())
    # Behind a proxy on this machine everybody seems to come from it: then the token alone counts.
    passed_on = any(name in request.headers for name in ("X-Forwarded-For", "Forwarded", "Via", desk.callers.header))
    if not has_token and (passed_on or not desk.callers.sender(request).caller.address.is_loopback):
        raise ApiError(errors.FORBIDDEN)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Figures(desk, request.app[NIGHTLY]))
    return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4})


class _Figures(Collector):
    def __init__(self, desk: Desk, nightly: Nightly | None) -> None:
        self._desk, self._nightly = desk, nightly

    def collect(self) -> Iterator[Metric]:
        desk, store = self._desk, self._desk.store
        yield _counter("tally_events_accepted", "Events answered as accepted, duplicates included.", desk.accepted)
        yield _by_code("tally_events_rejected", "Events rejected, by code.", desk.rejected)
        yield _by_code("tally_collect_refused", "Collect requests refused whole, by code.", store.left_out.requests)
        yield _by_code(
            "tally_events_left_out", "Events of websites that were not taken, by code.", store.left_out.events
        )
        uncounted = "Events left out that no website counts, for want of room while nothing could be written."
        yield _counter("tally_left_out_uncounted", uncounted, store.left_out.uncounted)
        counters, sessions = store.counters, store.ingest.sessions
        yield _counter("tally_commits", "Groups committed.", counters.commits)
        yield _counter("tally_committed_events", "Events in committed groups.", counters.committed_events)
        yield _counter("tally_commits_failed", "Groups that could not be committed.", counters.failed_commits)
        yield _counter("tally_commit_seconds", "Time spent in commits.", counters.commit_ns / 1e9)
        yield GaugeMetricFamily("tally_log_bytes", "Size of SQLite's log beside the database.", store.log_bytes)
        yield GaugeMetricFamily("tally_queue_events", "Events that wait for a commit.", store.queue)
        yield GaugeMetricFamily("tally_identities", "Visitors kept in memory.", len(sessions))
        yield _counter("tally_identities_evicted", "Visitors forgotten for want of room.", sessions.evictions)
        yield from _backups(self._nightly, desk.clock.wall_ms())
        early = desk.clients.turned_early + desk.client_websites.turned_early
        yield _counter("tally_buckets_turned_early", "Times that a flood of clients emptied the token buckets.", early)


def _backups(nightly: Nightly | None, now_ms: int) -> Iterator[Metric]:
    """Of the nightly backups, where the settings want some; age and time only once one is known."""
    if nightly is None:
        return
    yield _counter("tally_backups", "Nightly backups made and checked.", nightly.made)
    yield _counter("tally_backups_failed", "Nightly backups that could not be made.", nightly.failed)
    if nightly.last_ms:
        at, age = nightly.last_ms / 1000, max(0, now_ms - nightly.last_ms) / 1000
        yield GaugeMetricFamily("tally_backup_last_timestamp_seconds", "When the newest backup was made.", at)
        yield GaugeMetricFamily("tally_backup_age_seconds", "How old the newest backup is.", age)
    if nightly.made:
        yield GaugeMetricFamily("tally_backup_bytes", "Size of the last nightly backup.", nightly.bytes)
        yield GaugeMetricFamily("tally_backup_seconds", "How long it took.", nightly.took_ns / 1e9)


def _counter(name: str, help: str, value: float) -> CounterMetricFamily:
    return CounterMetricFamily(name, help, value=value)


def _by_code(name: str, help: str, counts: Mapping[str, int]) -> CounterMetricFamily:
    family = CounterMetricFamily(name, help, labels=["code"])
    for code, number in sorted(counts.items()):
        family.add_metric([code], number)
    return family
