"""Parts collect, batches and mixed: the rate at which events are accepted, each durable before its 202.

Single events are compared with a bare aiohttp handler that parses and responds, and with bare commits with fsync of as
many rows as there are connections, the most that the disk allows at that moment. Batches are compared with a bare
executemany with fsync into the same table. All are measured in turn, in several rounds, because the speed of a machine
varies: the ratio is the median of the rounds. A row names the client where it was the limit.
"""

import statistics
import time
from contextlib import ExitStack

from background import BackgroundProcess, Outcome, send_queries
from baselines import BulkInsert
from client import CONNECTIONS, Load, load
from collect_requests import EVENTS_PER_BATCH, MakeRequest, batches, changing_visitors, singles
from dataset import DataSet, delete_database, wait_until_built
from report import Row, ms, progress
from servers import HAS_UVLOOP, BareServer, Tally

from bench import Bench

# Targets: the minimum, and the goal.
SINGLE_RATIO, SINGLE_GOAL = 0.55, 0.7
SINGLE_P99 = 3.0
BATCH_EVENTS, BATCH_GOAL = 30_000, 60_000
BATCH_RATIO = 0.3
# A dashboard sends about twenty queries; this is one opened every two seconds.
QUERIES_PER_SECOND = 10.0
# A client that uses more of a core limits the rate.
_CLIENT_LIMITS = 0.9
# Fills the caches before the measurement, in seconds.
_WARM_UP_S = 1.0


def collect(bench: Bench) -> list[Row]:
    """Return the rows of single events: on both kinds of event loop, with an event_id each, and what is written."""
    with_uvloop = [
        ("uvloop in both", True, ""),
        ("uvloop in both, an event_id each", True, "time"),
        ("uvloop in both, an event_id without a time each", True, "random"),
    ]
    without = [("asyncio's own loop in both", False, "")]
    rows = []
    for what, uvloop, event_ids in [*(with_uvloop if HAS_UVLOOP else []), *without]:
        with bench.copy() as data_set, Tally(data_set.db, uvloop=uvloop) as tally, BareServer(uvloop=uvloop) as bare:
            wait_until_built(data_set.db)
            make = _numbered(singles(data_set.website, event_ids))
            disk = BulkInsert(data_set.db.parent)
            try:
                rows += _compared_with_bare(bench, f"single events, {what}", make, tally, bare, disk)
            finally:
                delete_database(disk.db)
    return [*rows, _written(bench)]


def _written(bench: Bench) -> Row:
    """Return the row of what is written for events of visitors who come and go, as on a website."""
    with bench.copy() as data_set, Tally(data_set.db) as tally:
        wait_until_built(data_set.db)
        make = _numbered(changing_visitors(data_set.website))
        load(tally, make, _WARM_UP_S)
        before = tally.written()
        loads = [load(tally, make, bench.seconds) for _ in range(bench.rounds)]
        each = (tally.written() - before) / sum(len(one.latencies) for one in loads)
    what = "single events of visitors who come and go"
    return Row("collect", what, f"{_rate_text(loads)}, {each / 1000:.1f} KB written each", "", "")


def _numbered(make: MakeRequest) -> MakeRequest:
    """Return the requests with numbers that continue from load to load, so that no event_id is sent twice."""
    sent = 0

    def following(_: int) -> bytes:
        nonlocal sent
        sent += 1
        return make(sent)

    return following


def _compared_with_bare(
    bench: Bench, what: str, make: MakeRequest, tally: Tally, bare: BareServer, disk: BulkInsert
) -> list[Row]:
    ours, baseline, commits = list[Load](), list[Load](), list[float]()
    for server in (bare, tally):
        load(server, make, _WARM_UP_S)
    for _ in range(bench.rounds):
        baseline.append(load(bare, make, bench.seconds))
        ours.append(load(tally, make, bench.seconds))
        commits.append(disk.rate(min(1.0, bench.seconds), CONNECTIONS))
        progress(f"{what}: {ours[-1].rate:,.0f} of {baseline[-1].rate:,.0f} a second")
    ratios = [one.rate / other.rate for one, other in zip(ours, baseline, strict=True)]
    tails = [one.at(0.99) / other.at(0.99) for one, other in zip(ours, baseline, strict=True)]
    bounds = [one.rate / other for one, other in zip(ours, commits, strict=True)]
    rows = f"bare commits of {CONNECTIONS} rows {statistics.median(commits):,.0f} rows/s"
    target = f"at least {SINGLE_RATIO} (goal {SINGLE_GOAL})"
    return [
        Row("collect", what, _rate_text(ours), f"bare handler {_rate_text(baseline)}", _median(ratios), target,
            statistics.median(ratios) >= SINGLE_RATIO),
        Row("collect", f"{what}: and bare commits", _rate_text(ours), rows, _median(bounds)),
        Row("collect", f"{what}: p99", _tail(ours), f"bare handler {_tail(baseline)}", _median(tails),
            f"at most {SINGLE_P99:.0f} times", statistics.median(tails) <= SINGLE_P99),
    ]  # fmt: skip


def _rate_text(loads: list[Load]) -> str:
    rate, each, share = (
        statistics.median(numbers)
        for numbers in zip(*((x.rate, x.server_s, x.client_share) for x in loads), strict=True)
    )
    limits = f", LIMITED BY THE CLIENT at {share:.0%} of a core" if share > _CLIENT_LIMITS else ""
    return f"{rate:,.0f} requests/s, {each * 1e6:,.0f} µs of processor each{limits}"


def _tail(loads: list[Load]) -> str:
    return f"p50 {ms(statistics.median(one.at(0.5) for one in loads))}, p99 {_p99(loads)}"


def _p99(loads: list[Load]) -> str:
    return ms(statistics.median(one.at(0.99) for one in loads))


def _median(ratios: list[float]) -> str:
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def batches_of_fifty(bench: Bench) -> list[Row]:
    """Return the rows of batches, with a bare executemany in transactions of the same size as the server's."""
    ours, baseline, sizes = list[Load](), list[float](), list[float]()
    with ExitStack() as closing:
        data_set = closing.enter_context(bench.copy())
        tally = closing.enter_context(Tally(data_set.db))
        wait_until_built(data_set.db)
        bare = BulkInsert(data_set.db.parent)
        closing.callback(delete_database, bare.db)
        make = batches(data_set.website)
        load(tally, make, _WARM_UP_S)
        for _ in range(bench.rounds):
            before = tally.figures()
            ours.append(load(tally, make, bench.seconds))
            sizes.append(_events_per_commit(before, tally.figures()))
            baseline.append(bare.rate(bench.seconds, round(sizes[-1])))
            progress(f"batches: {ours[-1].rate * EVENTS_PER_BATCH:,.0f} of {baseline[-1]:,.0f} events a second")
    rates = [one.rate * EVENTS_PER_BATCH for one in ours]
    ratios = [rate / other for rate, other in zip(rates, baseline, strict=True)]
    rate = statistics.median(rates)
    what = f"batches of {EVENTS_PER_BATCH}, {CONNECTIONS} connections"
    each = statistics.median(one.server_s for one in ours) / EVENTS_PER_BATCH
    text = f"{rate:,.0f} events/s, {each * 1e6:,.0f} µs of processor each, p99 {_p99(ours)}"
    rows = f"executemany {statistics.median(baseline):,.0f} rows/s, {statistics.median(sizes):,.0f} a commit"
    aim = f"at least {BATCH_EVENTS:,} events/s (goal {BATCH_GOAL:,})"
    return [
        Row("batches", what, text, "", "", aim, rate >= BATCH_EVENTS),
        Row("batches", f"{what}, and the baseline", text, rows, _median(ratios), f"at least {BATCH_RATIO}",
            statistics.median(ratios) >= BATCH_RATIO),
    ]  # fmt: skip


def _events_per_commit(before: dict[str, float], after: dict[str, float]) -> float:
    grown = {name: after[name] - before[name] for name in ("tally_commit_events_sum", "tally_commit_seconds_count")}
    return grown["tally_commit_events_sum"] / grown["tally_commit_seconds_count"]


def mixed(bench: Bench) -> list[Row]:
    """Return the rows of collecting at full speed without and with queries, and of queries without and with it."""
    with bench.copy() as data_set, Tally(data_set.db) as tally:
        wait_until_built(data_set.db)
        make = singles(data_set.website)
        load(tally, make, _WARM_UP_S)
        alone, loaded = list[Load](), list[Load]()
        calm, busy = list[Outcome](), list[Outcome]()
        for _ in range(bench.rounds):
            alone.append(load(tally, make, bench.seconds))
            with _dashboard(tally, data_set) as dashboard:
                loaded.append(load(tally, make, bench.seconds))
            busy.append(dashboard.outcome)
            with _dashboard(tally, data_set) as dashboard:
                time.sleep(bench.seconds)
            calm.append(dashboard.outcome)
    load_text = f"{QUERIES_PER_SECOND:.0f} queries/s over 30 days"
    ratios = [one.rate / other.rate for one, other in zip(loaded, alone, strict=True)]
    slower = [one.at(0.95) / other.at(0.95) for one, other in zip(busy, calm, strict=True)]
    return [
        Row("mixed", f"single events during {load_text}", f"{_rate_text(loaded)}, p99 {_p99(loaded)}",
            f"without them {_rate_text(alone)}, p99 {_p99(alone)}", _median(ratios)),
        Row("mixed", f"{load_text} during single events at full speed", _outcome_text(busy),
            f"without them {_outcome_text(calm)}", f"{_median(slower)} of p95"),
    ]  # fmt: skip


def _dashboard(tally: Tally, data_set: DataSet) -> BackgroundProcess:
    return BackgroundProcess(send_queries, tally.port, data_set.website, data_set.key, QUERIES_PER_SECOND)


def _outcome_text(outcomes: list[Outcome]) -> str:
    p50, p95 = (statistics.median(one.at(share) for one in outcomes) for share in (0.5, 0.95))
    return f"{statistics.median(one.rate for one in outcomes):.1f} queries/s, p50 {ms(p50)}, p95 {ms(p95)}"
