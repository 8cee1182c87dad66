"""Parts read, filtered and growth: the time of queries over HTTP, compared with plain SQL over raw rows.

All are sent on one keep-alive connection, with warm caches, while another process sends 200 events per second to the
same website. Plain SQL runs before the server is started, alone on the machine. The ratio is the time of plain SQL
divided by p95 of the slowest zone or field.
"""

from background import EVENTS_PER_SECOND, BackgroundProcess, Outcome, fill_today, send_events
from baselines import MAX_S, plain_sql_s, share
from client import Client
from collect_requests import EventGenerator
from dataset import DataSet
from queries import RANGES, TIMED_OUT, Query, QueryTimes, filtered, quick, run_queries, unfiltered
from report import Row, ms, progress
from servers import Tally
from traffic import HOSTNAME, LARGE_BROWSER, SMALL_BROWSER

from bench import Bench

KINDS = ("stats", "timeseries day", "timeseries hour", "top")
# Targets of p95, in seconds.
UNFILTERED_S = 0.05
QUICK_S = 0.01
GROWTH = 2.0
# Field and value of the filter, and the target for each of RANGES. The last one matches all events.
FILTERS = (
    ("browser", SMALL_BROWSER, (0.02, 0.04, 0.3)),
    ("browser", LARGE_BROWSER, (0.03, 0.06, 0.5)),
    ("hostname", HOSTNAME, (0.05, 0.05, 0.05)),
)


def timed_queries(
    data_set: DataSet, queries: list[Query], rounds: int, generator: type[EventGenerator] = EventGenerator
) -> tuple[QueryTimes, Outcome]:
    """Return the times of queries, and the outcome of sending events meanwhile."""
    with Tally(data_set.db) as server:
        fill_today(server.port, data_set)
        progress(f"{len(queries)} queries, {rounds} rounds, {EVENTS_PER_SECOND} events per second meanwhile")
        with BackgroundProcess(send_events, server.port, data_set.website, EVENTS_PER_SECOND, generator) as sender:
            client = Client(server.port, data_set.key)
            times = run_queries(client, data_set.website, queries, rounds)
            client.close()
        return times, sender.outcome


def read(bench: Bench) -> list[Row]:
    """Return the rows of unfiltered queries, realtime, and a page of events."""
    baselines = {(kind, days): plain_sql_s(bench.data_set(), kind, days) for kind in KINDS for days in RANGES}
    progress("plain SQL is done")
    with bench.copy() as data_set:
        times, sent = timed_queries(data_set, [*unfiltered(), *quick()], bench.repeats)
    bench.times = times
    rows = [
        row("read", f"{kind}, {days} days", times, (kind, days), baselines[kind, days], UNFILTERED_S)
        for kind in KINDS
        for days in RANGES
    ]
    rows += [row("read", q.kind, times, (q.kind, q.days), 0.0, QUICK_S) for q in quick()]
    sent_text = (
        f"{sent.rate:.0f} events/s, p50 {ms(sent.at(0.5))}, p99 {ms(sent.at(0.99))}, worst {ms(max(sent.latencies))}"
    )
    return [*rows, Row("read", "collected during these queries", sent_text)]


def row(part: str, what: str, times: QueryTimes, of: tuple[str, int], baseline: float | None, target_s: float) -> Row:
    """Return a row. `baseline`: the seconds of plain SQL, None if it was interrupted, 0 if there is none."""
    group = times.group(*of)
    over, seconds = ("over ", MAX_S) if baseline is None else ("", baseline)
    text = f"plain SQL {over}{ms(seconds)}" if seconds else ""
    ratio = f"{over}{_number(seconds / group.p95)} times faster" if seconds and group.p95 != TIMED_OUT else ""
    return Row(part, what, group.text(), text, ratio, f"p95 max {ms(target_s)}", group.p95 <= target_s)


def _number(times: float) -> str:
    return f"{times:,.0f}" if times >= 10 else f"{times:.1f}"


def filtered_reads(bench: Bench) -> list[Row]:
    """Return the rows of queries with a filter that matches 6 %, 55 % and all of the events."""
    kinds = ("stats", "top pathname", "timeseries day")
    baselines = {
        (value, kind, days): plain_sql_s(bench.data_set(), kind, days, field, value)
        for field, value, _ in FILTERS
        for kind in kinds
        for days in RANGES
    }
    progress("plain SQL is done")
    rows = []
    with bench.copy() as data_set:
        for field, value, targets in FILTERS:
            times, _ = timed_queries(data_set, filtered(field, value), max(3, bench.repeats // 4))
            covers = f"{share(bench.data_set(), field, value) * 100:.0f} %"
            rows += [
                row("filtered", f"{kind}, {covers}, {days} days", times, (kind, days), baselines[value, kind, days], s)
                for kind in kinds
                for days, s in zip(RANGES, targets, strict=True)
            ]
    return rows


def growth(bench: Bench) -> list[Row]:
    """Return how much longer the same queries take with ten times as many events."""
    if bench.times is None:
        with bench.copy() as data_set:
            bench.times, _ = timed_queries(data_set, unfiltered(), bench.repeats)
    small = bench.events // 10
    with bench.copy(small) as data_set:
        before, _ = timed_queries(data_set, unfiltered(), bench.repeats)
    rows = []
    for kind in KINDS:
        for days in RANGES:
            large, little = bench.times.group(kind, days), before.group(kind, days)
            ratio = large.p50 / little.p50
            what = f"{kind}, {days} days: {small:,} to {bench.events:,} events"
            text = f"p50 {ms(little.p50)} to {ms(large.p50)}"
            target = f"max {GROWTH:.0f} times"
            rows.append(Row("growth", what, text, "", f"{ratio:.1f} times", target, ratio <= GROWTH))
    return rows
