"""The families of /metrics that are the SQLite engine's: writing, visitors in memory, folded values, backups.

Imported when /metrics is first requested, since Prometheus' client takes some time to load. Its parts count in plain
integers, which are read here.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, Metric

from tally.clock import Clock
from tally.http.metric_families import counter, gauge, histogram
from tally.maintenance.scheduled_backup import Nightly
from tally.sqlite.decision import Decider
from tally.sqlite.group_commit import GroupCommit
from tally.storage.value_limits import BOUNDED, ValueLimits

if TYPE_CHECKING:
    from tally.maintenance.increment_stream import IncrementStream


def families(
    ingest: GroupCommit,
    decider: Decider,
    clock: Clock,
    backup: Nightly | None,
    offsite: Nightly | None,
    increments: "IncrementStream | None",
) -> Iterator[Metric]:
    """Yield the families, related ones together."""
    yield _folded(decider.value_limits)
    yield from _writing(ingest)
    sessions = decider.sessions
    yield gauge("tally_identities", "Visitor identities in memory.", len(sessions))
    yield counter(
        "tally_identities_evicted", "Visitor identities evicted because the maximum was reached.", sessions.evictions
    )
    yield from _backups(backup, clock.wall_ms(), "", "scheduled backup")
    yield from _backups(offsite, clock.wall_ms(), "offsite_", "backup on another machine")
    yield from _increments(increments)


def _folded(limits: ValueLimits) -> Metric:
    help = "Events stored with (other) instead of a new value, because the field's daily limit was reached."
    family = CounterMetricFamily("tally_events_folded", help, labels=["field"])
    for field, name in BOUNDED.items():
        family.add_metric([name], limits.folded[field])
    return family


def _writing(ingest: GroupCommit) -> Iterator[Metric]:
    counters = ingest.counters
    yield histogram("tally_commit_seconds", "Duration of group commits, fsync included.", counters.took, 1e9)
    yield histogram("tally_commit_events", "Events per group commit.", counters.sizes)
    yield counter("tally_commits_failed", "Failed group commits.", counters.failed_commits)
    yield gauge("tally_queue_events", "Events waiting for a commit.", ingest.queue)


def _backups(backup: Nightly | None, now_ms: int, kind: str, name: str) -> Iterator[Metric]:
    """Yield the metrics of nightly backups, where they are configured; age and time once there is one."""
    if backup is None:
        return
    yield counter(f"tally_{kind}backups", f"Number of times that a {name} was made and checked.", backup.made)
    yield counter(f"tally_{kind}backups_failed", f"Number of times that a {name} failed.", backup.failed)
    prefix = f"tally_{kind}backup"
    if backup.last_ms:
        at, age = backup.last_ms / 1000, max(0, now_ms - backup.last_ms) / 1000
        yield gauge(f"{prefix}_last_timestamp_seconds", f"Time of the newest {name}.", at)
        yield gauge(f"{prefix}_age_seconds", f"Age of the newest {name}.", age)
    if backup.made:
        yield gauge(f"{prefix}_bytes", f"Size of the last {name}.", backup.bytes)
        yield gauge(f"{prefix}_seconds", f"Duration of the last {name}.", backup.took_ns / 1e9)


def _increments(stream: "IncrementStream | None") -> Iterator[Metric]:
    if stream is None:
        return
    yield counter("tally_increments", "Increments sent to another machine.", stream.sent)
    yield counter("tally_increments_failed", "Failed attempts to send increments.", stream.failed)
    yield gauge("tally_increments_behind_seconds", "Time for which events wait to be sent.", stream.behind_ns / 1e9)
