"""The components of a running application, opened in order when it starts and closed when it ends.

Settings, clock, rate limits, the store and the analytics engine are objects that are passed to whatever uses them; no
module keeps any. The store's background work is made here, because it needs the saved goals.
"""

import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aiohttp import web

from tally.api.auth import AUTH, Auth
from tally.api.context import READ_API, ReadApi
from tally.api.imports import UPLOADS
from tally.api.params import goals_of
from tally.api.reports import Report
from tally.api.uploads import Uploads
from tally.clock import Clock
from tally.engine.ingest import Ingest
from tally.engine.reports import Reports
from tally.events.client import parse_proxies
from tally.events.places import DeferredPlaces, PlaceDatabase
from tally.events.sender import ClientResolver
from tally.events.sessions import Sessions
from tally.events.user_agent import Agents
from tally.http import logging
from tally.ingest.budgets import Budgets
from tally.ingest.collector import COLLECTOR, Collector
from tally.ingest.lifecycle import opened
from tally.ingest.store import Store
from tally.ingest.writer import EventWriter
from tally.maintenance.background_work import BackgroundWork
from tally.maintenance.scheduled_backup import ScheduledBackup
from tally.maintenance.upgrade import copy_first
from tally.rate_limit import Buckets
from tally.settings import Settings
from tally.storage.connections import Thread
from tally.storage.health import begin_check
from tally.storage.value_limits import Limits
from tally.web.status import OFFSITE, SCHEDULED_BACKUP

if TYPE_CHECKING:
    from tally.maintenance.increment_stream import IncrementStream
    from tally.maintenance.offsite_backup import OffsiteBackup

ReportEngine = Callable[[Store], Reports]
"""Makes the engine that answers reports."""
IngestEngine = Callable[[Store], Ingest]
"""Makes the engine that stores events."""
BACKGROUND_WORK = web.AppKey("background_work", BackgroundWork)
DAMAGE_CHECK = web.AppKey[Callable[[], None]]("damage_check")
"""The check of the database file, if it was begun before the application was built."""


def group_commit(store: Store) -> Ingest:
    """Return the engine that stores events in the server's database."""
    return store.ingest


async def components(
    app: web.Application,
    *,
    settings: Settings,
    clock: Clock,
    engine: ReportEngine,
    ingest: IngestEngine,
    reports: Sequence[Report[Any]],
) -> AsyncIterator[None]:
    """Open the store and what uses it while the application runs (a cleanup context of aiohttp)."""
    trusted = parse_proxies(settings.trusted_proxy)
    # An error in a configured file is reported before a database is created.
    places: PlaceDatabase = _configured_places(settings.geoip_db) if settings.geoip_db else DeferredPlaces()
    agents = Agents()
    event_writer, min_free_bytes = _event_writer(settings, clock), settings.min_free_disk * 1_000_000
    make_work = partial(_background_work, app, settings.keep_days, clock)
    copy = partial(copy_first, settings, partial(logging.print_notice, settings.log_format), clock.wall_ms())
    async with opened(
        settings.db,
        event_writer,
        clock,
        settings.query_seconds,
        min_free_bytes,
        make_work,
        copy,
        app.get(DAMAGE_CHECK) or begin_check(settings.db),
    ) as store:
        clients, client_websites = Buckets(settings.client_per_minute), Buckets(settings.website_per_minute)
        resolver = ClientResolver(clock, places, trusted, settings.forwarded_header)
        about_metrics = {"base_url": settings.base_url, "has_metrics_token": bool(settings.metrics_token)}
        store.clock_watch.proxies = lambda: resolver.report() | about_metrics
        budgets = Budgets(settings.client_events_per_hour, settings.client_month_share)
        app[COLLECTOR] = Collector(store, ingest(store), clock, clients, client_websites, resolver, agents, budgets)
        keys, names = Buckets(settings.key_per_minute), [report.name for report in reports]
        app[READ_API] = ReadApi(store, engine(store), clock, keys, settings.base_url, names)
        token = secrets.token_urlsafe(24)
        app[AUTH] = Auth(store, clock, settings.base_url, trusted, settings.key_per_minute, token)
        store.each_second.append(lambda _: app[COLLECTOR].salts.expire(clock.deletion_time_ms()))
        uploads = app[UPLOADS] = Uploads(settings, clock, store.want_empty_log)
        store.each_second.append(lambda _: uploads.expire({one.id for one in store.registry.websites.values()}))
        backup = app[SCHEDULED_BACKUP] = _scheduled_backup(settings, clock, store)
        offsite = app[OFFSITE] = _offsite(settings, clock, store)
        yield
        for running in (backup, *offsite):
            if running is not None:
                running.close()
        app[AUTH].close()
        await uploads.close()
    places.close()


def _configured_places(path: Path) -> PlaceDatabase:
    from tally.events.geoip import Places  # here: its reader takes 15 ms that the bundled database needs later

    return Places(path)


def _event_writer(settings: Settings, clock: Clock) -> EventWriter:
    limits = {"free": settings.free_events, "pro": settings.pro_events}
    new_values = Limits(settings.max_new_values, settings.max_new_names, settings.max_event_data * 1_000_000)
    return EventWriter(Sessions(settings.max_identities), limits.get, clock, new_values)


def _background_work(
    app: web.Application, keep_days: int, clock: Clock, store: Store, writer: Thread, reader: Thread
) -> BackgroundWork:
    app[BACKGROUND_WORK] = work = BackgroundWork(
        writer,
        reader,
        store.event_writer.labels,
        clock,
        keep_days=keep_days,
        is_busy=store.is_busy,
        changed=store.note_change,
        goals_of=lambda website: [saved.goal for saved in goals_of(store.registry.definitions.get(website, ()))],
        deleted=store.want_empty_log,
        failed=store.health.failed,
        space=store.health.space_now,
    )
    return work


def _scheduled_backup(settings: Settings, clock: Clock, store: Store) -> ScheduledBackup | None:
    if settings.backup_dir is None:
        return None
    backup = ScheduledBackup(settings.db, settings.backup_dir, settings.backup_keep, settings.backup_hour, clock)
    store.each_second.append(backup.start_if_due)
    return backup


def _offsite(settings: Settings, clock: Clock, store: Store) -> "tuple[OffsiteBackup | None, IncrementStream | None]":
    """Return what sends backups to another machine, and new events; None for what is not configured."""
    if not settings.backup_to:
        return None, None
    # here: most servers do not need them
    from tally.maintenance.increment_stream import IncrementStream
    from tally.maintenance.offsite_backup import OffsiteBackup, offsite_of

    offsite = offsite_of(settings)
    backup = OffsiteBackup(offsite, settings.backup_hour, clock, lambda: store.last_id)
    store.each_second.append(backup.start_if_due)
    if not settings.backup_increment_seconds:
        return backup, None
    stream = IncrementStream(offsite, settings.backup_increment_seconds, clock)
    backup.began, backup.is_needed = stream.begin_after, lambda: stream.needs_backup
    store.committed = stream.note
    store.each_second.append(lambda now_ms: stream.start_if_due(store.last_id, now_ms))
    return backup, stream
