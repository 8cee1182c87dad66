"""Parts collect, batches and mixed: how fast events are taken, each durable before its 202.

Single events run beside a bare aiohttp handler that parses and answers, and beside a bare commit with fsync of as many
rows as there are connections, which no group can beat: it tells what the disk gives at that moment. Batches run beside
bare executemany with fsync into the same table. All are measured in turn, several rounds, since machines drift: the
ratio is the median of the rounds'. The client's share of a core is watched, and said where it is what limits.
"""

import statistics
import time
from contextlib import ExitStack

from client import CONNECTIONS, Load, load
from companions import Companion, Course, ask
from dataset import DataSet, drop, settled
from floors import Executemany
from report import Row, ms, say
from sending import EVENTS_A_BATCH, Make, batches, singles
from servers import HAS_UVLOOP, Bare, Tally

from bench import Bench

# Targets of the issue.
SINGLE_RATIO, SINGLE_AIM = 0.55, 0.7
SINGLE_P99 = 3.0
BATCH_EVENTS, BATCH_AIM = 30_000, 60_000
BATCH_RATIO = 0.3
# A page of a dashboard asks about twenty questions; this is one opened every two seconds.
QUESTIONS_A_SECOND = 10.0
# Where so much of a core goes to the client, a faster server would not show.
_CLIENT_LIMITS = 0.9
# Before anything is counted: code paths are warm, labels known.
_WARM_S = 1.0


def collect(bench: Bench) -> list[Row]:
    """Single events beside the bare handler: on both kinds of event loop, and with an event_id each."""
    with_uvloop = [("uvloop in both", True, False), ("uvloop in both, an event_id each", True, True)]
    without = [("asyncio's own loop in both", False, False)]
    rows = []
    for what, uvloop, with_event_id in [*(with_uvloop if HAS_UVLOOP else []), *without]:
        with bench.copy() as known, Tally(known.db, uvloop=uvloop) as tally, Bare(uvloop=uvloop) as bare:
            settled(known.db)
            make = _numbered(singles(known.website, with_event_id=with_event_id))
            disk = Executemany(known.db.parent)
            try:
                rows += _beside_bare(bench, f"single events, {what}", make, tally, bare, disk)
            finally:
                drop(disk.db)
    return rows


def _numbered(make: Make) -> Make:
    """The same requests with numbers that go on from one load to the next: no event_id comes twice."""
    sent = 0

    def following(_: int) -> bytes:
        nonlocal sent
        sent += 1
        return make(sent)

    return following


def _beside_bare(bench: Bench, what: str, make: Make, tally: Tally, bare: Bare, disk: Executemany) -> list[Row]:
    ours, floor, commits = list[Load](), list[Load](), list[float]()
    for server in (bare, tally):
        load(server, make, _WARM_S)
    for _ in range(bench.rounds):
        floor.append(load(bare, make, bench.seconds))
        ours.append(load(tally, make, bench.seconds))
        commits.append(disk.rate(min(1.0, bench.seconds), CONNECTIONS))
        say(f"{what}: {ours[-1].rate:,.0f} of {floor[-1].rate:,.0f} a second")
    ratios = [one.rate / other.rate for one, other in zip(ours, floor, strict=True)]
    tails = [one.at(0.99) / other.at(0.99) for one, other in zip(ours, floor, strict=True)]
    bounds = [one.rate / other for one, other in zip(ours, commits, strict=True)]
    rows = f"bare commits of {CONNECTIONS} rows {statistics.median(commits):,.0f} rows/s"
    target = f"at least {SINGLE_RATIO} (aim {SINGLE_AIM})"
    return [
        Row("collect", what, _told(ours), f"bare handler {_told(floor)}", _median(ratios), target,
            statistics.median(ratios) >= SINGLE_RATIO),
        Row("collect", f"{what}: beside the disk", _told(ours), rows, _median(bounds)),
        Row("collect", f"{what}: p99", _tail(ours), f"bare handler {_tail(floor)}", _median(tails),
            f"at most {SINGLE_P99:.0f} times", statistics.median(tails) <= SINGLE_P99),
    ]  # fmt: skip


def _told(loads: list[Load]) -> str:
    rate, each, share = (
        statistics.median(numbers)
        for numbers in zip(*((x.rate, x.server_s, x.client_share) for x in loads), strict=True)
    )
    limits = f", the client LIMITS at {share:.0%} of a core" if share > _CLIENT_LIMITS else ""
    return f"{rate:,.0f} requests/s, {each * 1e6:,.0f} µs of processor each{limits}"


def _tail(loads: list[Load]) -> str:
    return f"p50 {ms(statistics.median(one.at(0.5) for one in loads))}, p99 {_p99(loads)}"


def _p99(loads: list[Load]) -> str:
    return ms(statistics.median(one.at(0.99) for one in loads))


def _median(ratios: list[float]) -> str:
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def batches_of_fifty(bench: Bench) -> list[Row]:
    """Batches beside bare executemany in transactions of the size that the server's own had."""
    ours, floor, sizes = list[Load](), list[float](), list[float]()
    with ExitStack() as closing:
        known = closing.enter_context(bench.copy())
        tally = closing.enter_context(Tally(known.db))
        settled(known.db)
        bare = Executemany(known.db.parent)
        closing.callback(drop, bare.db)
        make = batches(known.website)
        load(tally, make, _WARM_S)
        for _ in range(bench.rounds):
            before = tally.figures()
            ours.append(load(tally, make, bench.seconds))
            sizes.append(_events_a_commit(before, tally.figures()))
            floor.append(bare.rate(bench.seconds, round(sizes[-1])))
            say(f"batches: {ours[-1].rate * EVENTS_A_BATCH:,.0f} of {floor[-1]:,.0f} events a second")
    rates = [one.rate * EVENTS_A_BATCH for one in ours]
    ratios = [rate / other for rate, other in zip(rates, floor, strict=True)]
    rate = statistics.median(rates)
    what = f"batches of {EVENTS_A_BATCH}, {CONNECTIONS} connections"
    each = statistics.median(one.server_s for one in ours) / EVENTS_A_BATCH
    told = f"{rate:,.0f} events/s, {each * 1e6:,.0f} µs of processor each, p99 {_p99(ours)}"
    rows = f"executemany {statistics.median(floor):,.0f} rows/s, {statistics.median(sizes):,.0f} a commit"
    aim = f"at least {BATCH_EVENTS:,} events/s (aim {BATCH_AIM:,})"
    return [
        Row("batches", what, told, "", "", aim, rate >= BATCH_EVENTS),
        Row("batches", f"{what}: beside the floor", told, rows, _median(ratios), f"at least {BATCH_RATIO}",
            statistics.median(ratios) >= BATCH_RATIO),
    ]  # fmt: skip


def _events_a_commit(before: dict[str, float], after: dict[str, float]) -> float:
    grown = {name: after[name] - before[name] for name in ("tally_commit_events_sum", "tally_commit_seconds_count")}
    return grown["tally_commit_events_sum"] / grown["tally_commit_seconds_count"]


def mixed(bench: Bench) -> list[Row]:
    """Collect at full speed without and with questions beside it; questions without and with collect."""
    with bench.copy() as known, Tally(known.db) as tally:
        settled(known.db)
        make = singles(known.website)
        load(tally, make, _WARM_S)
        alone, beside = list[Load](), list[Load]()
        calm, busy = list[Course](), list[Course]()
        for _ in range(bench.rounds):
            alone.append(load(tally, make, bench.seconds))
            with _dashboard(tally, known) as asker:
                beside.append(load(tally, make, bench.seconds))
            busy.append(asker.course)
            with _dashboard(tally, known) as asker:
                time.sleep(bench.seconds)
            calm.append(asker.course)
    asked = f"{QUESTIONS_A_SECOND:.0f} questions/s over 30 days"
    ratios = [one.rate / other.rate for one, other in zip(beside, alone, strict=True)]
    slower = [one.at(0.95) / other.at(0.95) for one, other in zip(busy, calm, strict=True)]
    return [
        Row("mixed", f"single events beside {asked}", f"{_told(beside)}, p99 {_p99(beside)}",
            f"without them {_told(alone)}, p99 {_p99(alone)}", _median(ratios)),
        Row("mixed", f"{asked} beside single events at full speed", _course(busy),
            f"with nothing beside them {_course(calm)}", f"{_median(slower)} of p95"),
    ]  # fmt: skip


def _dashboard(tally: Tally, known: DataSet) -> Companion:
    return Companion(ask, tally.port, known.website, known.key, QUESTIONS_A_SECOND)


def _course(courses: list[Course]) -> str:
    p50, p95 = (statistics.median(one.at(share) for one in courses) for share in (0.5, 0.95))
    return f"{statistics.median(one.rate for one in courses):.1f} questions/s, p50 {ms(p50)}, p95 {ms(p95)}"
