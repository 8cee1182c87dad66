"""The families of /metrics of a server that is followed by ClickHouse.

Imported when /metrics is first requested, as those of the SQLite engine are. Its parts count in plain integers, which
are read here.
"""

from collections.abc import Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, Metric

from tally.cluster.confirmed_commit import ConfirmedCommit
from tally.cluster.control import Control
from tally.cluster.outbox import Outbox
from tally.cluster.reports import FollowReports
from tally.cluster.shipper import Shipper
from tally.cluster.worker import PeriodicWorker, Worker
from tally.http.metric_families import counter, gauge, histogram


def families(shipper: Shipper, outbox: Outbox, reports: FollowReports, workers: Iterable[Worker]) -> Iterator[Metric]:
    """Yield the families."""
    yield gauge(
        "tally_cluster_up", "Whether ClickHouse is followed: 1, or 0 after a failure.", int(not shipper.problem)
    )
    yield gauge("tally_cluster_lag_batches", "Commits that ClickHouse does not have yet.", shipper.lag)
    yield gauge("tally_cluster_outbox_bytes", "Size of the commits that ClickHouse does not have yet.", outbox.bytes)
    yield counter("tally_cluster_failures", "Attempts to ship that failed.", shipper.failures)
    family = CounterMetricFamily("tally_cluster_reports", "Reports by the engine that answered.", labels=["engine"])
    family.add_metric(["clickhouse"], reports.by_clickhouse)
    family.add_metric(["sqlite"], reports.by_sqlite)
    yield family
    help = "Times that work in ClickHouse beside shipping failed, and is tried again."
    family = CounterMetricFamily("tally_cluster_work_failures", help, labels=["work"])
    for worker in workers:
        if isinstance(worker, PeriodicWorker):
            family.add_metric([worker.name], worker.failed)
    yield family


def confirmation(confirmed: ConfirmedCommit, control: Control) -> Iterator[Metric]:
    """Yield the families of `--cluster-mode keep`."""
    help = "Time from the commit of a request until ClickHouse had confirmed its events."
    yield histogram("tally_cluster_confirm_seconds", help, confirmed.took, 1e9)
    yield gauge("tally_cluster_unconfirmed_events", "Events whose requests wait for ClickHouse.", confirmed.events)
    yield counter(
        "tally_cluster_unanswered", "Requests closed without an answer, not confirmed in time.", confirmed.unanswered
    )
    help = "Whether events are refused because of ClickHouse."
    yield gauge("tally_cluster_refusing", help, int(bool(confirmed.refusal)))
    help = "Whether ClickHouse has the newest accounts and websites: 1, or 0 after a failure."
    yield gauge("tally_cluster_control_up", help, int(not control.problem))
