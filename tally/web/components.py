"""The components of a running application, opened in order when it starts and closed when it ends.

Settings, clock, rate limits, the database and the engine are objects that are passed to whatever uses them; no module
keeps any.
"""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from aiohttp import web

from tally.accounts import audit
from tally.api.auth import AUTH, Auth
from tally.api.context import READ_API, ReadApi
from tally.api.deletions import PREVIEWS, Previews
from tally.api.imports import UPLOADS
from tally.api.params import goals_of
from tally.api.reports import Report
from tally.api.uploads import Uploads
from tally.clock import Clock
from tally.engine.engine import Engine
from tally.engine.values import Goal
from tally.errors import ApiError, log
from tally.events.client import parse_proxies
from tally.events.places import DeferredPlaces, PlaceDatabase
from tally.events.sender import ClientResolver
from tally.events.user_agent import Agents
from tally.http import logging
from tally.ingest.budgets import Budgets
from tally.ingest.collector import COLLECTOR, Collector
from tally.ingest.node import TICK_S, EngineFactory, Node, opened
from tally.maintenance.audit_log import AuditLog
from tally.maintenance.background_work import PAUSE_S
from tally.maintenance.housekeeping import Housekeeping
from tally.maintenance.server_audit import record_expired_keys, record_start
from tally.maintenance.upgrade import copy_first
from tally.notices.addresses import allowed_networks
from tally.notices.mail import mail_server
from tally.rate_limit import Buckets
from tally.settings import Settings
from tally.sqlite.engine import SqliteEngine
from tally.storage.health import begin_check
from tally.storage.node_database import NodeDatabase
from tally.timestamps import DAY_MS
from tally.web.notices import open_notices
from tally.web.status import LISTS

AUDIT_PAUSE_S = 3_600.0
DAMAGE_CHECK = web.AppKey[Callable[[], None]]("damage_check")
"""The check of the database file, if it was begun before the application was built."""


def sqlite_engine(node: Node) -> Engine:
    """Return the engine that stores events in the server's own database."""
    return SqliteEngine(node, _goals(node))


def _goals(node: Node) -> Callable[[int], Sequence[Goal]]:
    definitions = node.registry
    return lambda website: [saved.goal for saved in goals_of(definitions.cache.definitions.get(website, ()))]


def engine_of(settings: Settings) -> EngineFactory:
    """Return what makes the engine of the settings. Raises ValueError."""
    if settings.cluster_mode == "none":
        if settings.clickhouse:
            log.warning("--clickhouse does nothing without --cluster-mode")
        return sqlite_engine
    if not settings.clickhouse:
        raise ValueError(f"--cluster-mode {settings.cluster_mode} needs --clickhouse URL")
    from tally.cluster.engine import FollowEngine, KeepEngine  # here: no other server needs them

    if settings.cluster_mode == "keep":
        from tally.cluster.control import recipients_of  # raises BadSetting before anything is opened

        recipients_of(settings.cluster_key)
    cluster_engine = KeepEngine if settings.cluster_mode == "keep" else FollowEngine
    return lambda node: cluster_engine(node, _goals(node))


async def components(
    app: web.Application, *, settings: Settings, clock: Clock, engine: EngineFactory, reports: Sequence[Report[Any]]
) -> AsyncIterator[None]:
    """Open the database, the engine and what uses them while the application runs (a cleanup context of aiohttp)."""
    trusted, notified = parse_proxies(settings.trusted_proxy), allowed_networks(settings.notify_networks)
    mail = mail_server(settings)
    # An error in a configured file is reported before a database is created.
    places: PlaceDatabase = _configured_places(settings.geoip_db) if settings.geoip_db else DeferredPlaces()
    agents, lists = Agents(), app[LISTS]
    lists.changed.append(agents.forget)
    copy = partial(copy_first, settings, partial(logging.print_notice, settings.log_format), clock.wall_ms())
    async with opened(settings, clock, engine, copy, app.get(DAMAGE_CHECK) or begin_check(settings.db)) as node:
        clients, client_websites = Buckets(settings.client_per_minute), Buckets(settings.website_per_minute)
        resolver = ClientResolver(clock, places, trusted, settings.forwarded_header)
        about_metrics = {"base_url": settings.base_url, "has_metrics_token": bool(settings.metrics_token)}
        node.clock_watch.proxies = lambda: resolver.report() | about_metrics
        budgets = Budgets(settings.client_events_per_hour, settings.client_month_share)
        app[COLLECTOR] = Collector(node, clients, client_websites, resolver, agents, budgets, lists)
        keys, names = Buckets(settings.key_per_minute), [report.name for report in reports]
        app[READ_API] = ReadApi(node, keys, settings.base_url, names)
        token = secrets.token_urlsafe(24)
        app[AUTH] = Auth(
            node,
            settings.base_url,
            trusted,
            settings.key_per_minute,
            token,
            has_passwords=settings.password_login == "yes",
            logout_url=settings.auth_logout_url,
        )
        sender = open_notices(app, node, notified, mail)
        node.each_second.append(lambda _: app[COLLECTOR].salts.expire(clock.deletion_time_ms()))
        app[PREVIEWS] = Previews(settings.backup_dir)
        uploads = app[UPLOADS] = Uploads(settings, clock, node.database.want_empty_log)
        node.each_second.append(
            lambda _: uploads.expire({website.id for website in node.registry.cache.websites.values()})
        )
        if not node.engine.archive.cleans_itself:
            housekeeping = Housekeeping(node.database, node.registry, node.engine.archive, clock, settings.keep_days)
            node.repeat("deletion and retention", housekeeping.work, node.database.health.failed, PAUSE_S)
        async with _audit_tasks(node, settings):
            yield
        app[AUTH].close()
        await uploads.close()
        await sender.close()
    places.close()


@contextlib.asynccontextmanager
async def _audit_tasks(node: Node, settings: Settings) -> AsyncIterator[None]:
    """Have lines of the audit log written about the start and about keys, put into the log, and deleted by age."""
    database, clock = node.database, node.clock
    audit_log = AuditLog(database, clock, node.audit_line)
    node.repeat("the audit log", audit_log.write, database.health.failed, TICK_S)
    # Listening does not wait for it.
    start = partial(record_start, settings=settings, now_ms=clock.wall_ms())
    recorded = asyncio.create_task(database.writer.run(start))
    lines = partial(_audit_lines, database, clock, settings.audit_days)
    node.repeat("lines of the audit log", lines, database.health.failed, AUDIT_PAUSE_S)
    yield
    await asyncio.wait({recorded})
    with contextlib.suppress(ApiError):
        await audit_log.write(is_last=True)


async def _audit_lines(database: NodeDatabase, clock: Clock, days: int) -> None:
    """Write lines about keys that have expired, and delete lines that are older than so many days; 0 keeps them."""
    if database.health.takes_events:
        await database.write(partial(record_expired_keys, now_ms=clock.wall_ms()))
    kept_from_ms = clock.deletion_time_ms() - days * DAY_MS
    expire = partial(audit.expire, kept_from_ms=kept_from_ms)
    while days and database.health.takes_events and await database.write(expire):
        pass


def _configured_places(path: Path) -> PlaceDatabase:
    from tally.events.geoip import Places  # here: its reader takes 15 ms that the bundled database needs later

    return Places(path)
