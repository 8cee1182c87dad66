"""What sends notices in a running server, and which problems of the server are reported by them.

The parts of the server detect problems for the log, /metrics and /healthz; here is the one place that reads them for
notices (tally/notices/server_problems.py).
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from aiohttp import web

from tally.api.alerts import JUDGE
from tally.api.channels import NOTICES, TESTS, TESTS_PER_MINUTE
from tally.api.context import READ_API
from tally.api.params import goals_of
from tally.api.summaries import Summaries
from tally.base_path import public_url
from tally.events.client import Network
from tally.http.tls import Tls
from tally.ingest.node import Node
from tally.notices.judge import Judge, NamedGoal
from tally.notices.key_expiry import KeyExpiry
from tally.notices.mail import MailServer
from tally.notices.sender import Sender
from tally.notices.server_problems import Problem, ServerProblems
from tally.notices.uptime import BEAT_MS
from tally.rate_limit import Buckets
from tally.storage.health import LOW
from tally.timestamps import SECOND_MS
from tally.web.status import TLS

PAUSE_S, SUMMARIES_PAUSE_S = 5.0, 15.0
# A certificate that is renewed in time has more of its lifetime, or more days, left.
_LATE_SHARE, _LATE_S = 4, 10 * 86_400


def open_notices(app: web.Application, node: Node, networks: Sequence[Network], mail: MailServer | None) -> Sender:
    """Return what sends notices, which begins with the node's tasks."""
    page = public_url(node.settings.base_url, node.settings.base_path)
    sender = app[NOTICES] = Sender(node.database, node.clock, page, networks, mail, lambda: node.registry.key_salt)
    app[TESTS] = Buckets(TESTS_PER_MINUTE)
    node.each_second.append(sender.each_second)
    problems = ServerProblems(
        sender, node.clock, partial(problems_of, app, node), lambda: min(node.registry.cache.accounts, default=None)
    )
    summaries = Summaries(app[READ_API], sender, node.clock)
    node.repeat("sending summaries", summaries.work, _ignored, SUMMARIES_PAUSE_S)
    # Also while the tasks of every second fail.
    node.repeat("watching for problems", problems.check, _ignored, PAUSE_S)
    expiry = KeyExpiry(sender, node.clock, lambda: node.registry.cache.keys.values())
    node.repeat("watching for keys that expire", expiry.check, _ignored, PAUSE_S)
    judge = app[JUDGE] = Judge(sender, node.database, node.registry, node.engine.reports, _goals(node), node.clock)
    node.repeat("the heartbeat of alerts", judge.beat, _ignored, BEAT_MS / SECOND_MS)
    node.repeat("judging alerts", judge.judge, _ignored, PAUSE_S)
    return sender


def _goals(node: Node) -> Callable[[int], list[NamedGoal]]:
    """Return what returns the goals of a website by its number."""

    def goals(website: int) -> list[NamedGoal]:
        saved = goals_of(node.registry.cache.definitions.get(website, ()))
        return [NamedGoal(definition.id, definition.name, definition.goal) for definition in saved]

    return goals


def problems_of(app: web.Application, node: Node) -> Iterator[Problem]:
    """Yield the problems of the server that its parts have detected."""
    health, tls = node.database.health, app[TLS]
    if node.engine.health().has_failed_backup:
        yield "backup_failed"
    if health.is_low:
        yield "disk_low"
    if health.state not in ("well", LOW):
        yield "database_fault"
    if tls is not None and is_late(tls, node.clock.wall_ms() // 1000):
        yield "certificate_not_renewed"


def is_late(tls: Tls, now_s: int) -> bool:
    """Return whether a certificate should have been renewed, or has not been issued."""
    certificate = tls.certificate
    if certificate is None:
        return tls.failed > 0
    left_s = certificate.ends_s - now_s
    return left_s < min((certificate.ends_s - certificate.begins_s) // _LATE_SHARE, _LATE_S)


def _ignored(failure: Exception) -> None:
    """For failures that are no fault of the file."""
