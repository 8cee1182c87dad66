"""The components of a running application, opened in order when it starts and closed when it ends.

Settings, clock, rate limits, the store and the analytics engine are objects that are passed to whatever uses them; no
module keeps any. Background work belongs to the store.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from aiohttp import web

from tally.api.auth import AUTH, Auth
from tally.api.context import READ_API, ReadApi
from tally.api.reports import Report
from tally.clock import Clock
from tally.events.client import parse_proxies
from tally.events.geoip import Countries
from tally.events.sender import ClientResolver
from tally.events.sessions import Sessions
from tally.ingest.budgets import Budgets
from tally.ingest.collector import COLLECTOR, Collector
from tally.ingest.lifecycle import opened
from tally.ingest.store import Store
from tally.ingest.writer import EventWriter
from tally.maintenance.scheduled_backup import ScheduledBackup
from tally.rate_limit import Buckets
from tally.reports.engine import Reports
from tally.settings import Settings
from tally.storage.value_limits import Limits
from tally.web.status import SCHEDULED_BACKUP

Engine = Callable[[Store], Reports]
"""Makes the analytics engine of a server."""


async def components(
    app: web.Application, *, settings: Settings, clock: Clock, engine: Engine, reports: Sequence[Report[Any]]
) -> AsyncIterator[None]:
    """Open the store and what uses it while the application runs (a cleanup context of aiohttp)."""
    trusted = parse_proxies(settings.trusted_proxy)
    limits = {"free": settings.free_events, "pro": settings.pro_events}
    new_values = Limits(settings.max_new_values, settings.max_new_names)
    event_writer = EventWriter(Sessions(settings.max_identities), limits.get, clock, new_values)
    # Unpacked while the database is checked, which takes as long.
    unpacking = asyncio.create_task(asyncio.to_thread(Countries, settings.geoip_db))
    if settings.geoip_db is not None:
        # An error in a configured file is reported before a database is created.
        await unpacking
    min_free_bytes = settings.min_free_disk * 1_000_000
    async with opened(
        settings.db, event_writer, clock, settings.query_seconds, settings.keep_days, min_free_bytes
    ) as store:
        countries = await unpacking
        clients, client_websites = Buckets(settings.client_per_minute), Buckets(settings.website_per_minute)
        resolver = ClientResolver(clock, countries, trusted, settings.forwarded_header)
        about_metrics = {"base_url": settings.base_url, "has_metrics_token": bool(settings.metrics_token)}
        store.clock_watch.proxies = lambda: resolver.report() | about_metrics
        budgets = Budgets(settings.client_events_per_hour, settings.client_month_share)
        app[COLLECTOR] = Collector(store, store.ingest, clock, clients, client_websites, resolver, budgets)
        keys, names = Buckets(settings.key_per_minute), [report.name for report in reports]
        app[READ_API] = ReadApi(store, engine(store), clock, keys, settings.base_url, names)
        token = secrets.token_urlsafe(24)
        app[AUTH] = Auth(store, clock, settings.base_url, trusted, settings.key_per_minute, token)
        store.each_second.append(lambda _: app[COLLECTOR].salts.expire(clock.deletion_time_ms()))
        backup = app[SCHEDULED_BACKUP] = _scheduled_backup(settings, clock)
        if backup is not None:
            store.each_second.append(backup.start_if_due)
        yield
        if backup is not None:
            backup.close()
        app[AUTH].close()
    countries.close()


def _scheduled_backup(settings: Settings, clock: Clock) -> ScheduledBackup | None:
    if settings.backup_dir is None:
        return None
    return ScheduledBackup(settings.db, settings.backup_dir, settings.backup_keep, settings.backup_hour, clock)
