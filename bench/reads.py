"""Parts read, filtered and growth: how long questions take over HTTP, beside plain SQL over raw rows.

All are asked on one keep-alive connection, warm, while a process beside sends 200 events a second to the same website.
Plain SQL runs before the server is started, alone on the machine. A ratio is plain SQL's time through ours (the p95
of the slowest zone or field): how many times faster.
"""

from client import Asker
from companions import EVENTS_A_SECOND, Companion, Course, send
from dataset import DataSet, settled
from floors import MOST_S, plain_sql_s, share
from questions import RANGES, TIMED_OUT, Answers, Question, ask, filtered, quick, unfiltered
from report import Row, ms, say
from sending import Words
from servers import Tally
from traffic import HOSTNAME, LARGE_BROWSER, SMALL_BROWSER

from bench import Bench

KINDS = ("stats", "timeseries day", "timeseries hour", "top")
# Targets of the issue, p95 in seconds.
UNFILTERED_S = 0.05
QUICK_S = 0.01
GROWTH = 2.0
# What is filtered by, and the target of each of RANGES; one value covers everything, which is to cost as without.
FILTERS = (
    ("browser", SMALL_BROWSER, (0.05, 0.2, 2.0)),
    ("browser", LARGE_BROWSER, (0.12, 0.5, 6.0)),
    ("hostname", HOSTNAME, (0.05, 0.05, 0.05)),
)


def asked(known: DataSet, questions: list[Question], rounds: int, says: type[Words] = Words) -> tuple[Answers, Course]:
    """Asks while events come in; `says`: what they say."""
    with Tally(known.db) as server:
        settled(known.db)
        say(f"{len(questions)} questions, {rounds} rounds, {EVENTS_A_SECOND} events a second beside them")
        with Companion(send, server.port, known.website, EVENTS_A_SECOND, says) as sender:
            asker = Asker(server.port, known.key)
            answers = ask(asker, known.website, questions, rounds)
            asker.close()
        return answers, sender.course


def read(bench: Bench) -> list[Row]:
    """The unfiltered questions, realtime, and a page of events."""
    floors = {(kind, days): plain_sql_s(bench.known(), kind, days) for kind in KINDS for days in RANGES}
    say("plain SQL is done")
    with bench.copy() as known:
        answers, sent = asked(known, [*unfiltered(), *quick()], bench.asks)
    bench.answers = answers
    rows = [
        row("read", f"{kind}, {days} days", answers, (kind, days), floors[kind, days], UNFILTERED_S)
        for kind in KINDS
        for days in RANGES
    ]
    rows += [row("read", q.kind, answers, (q.kind, q.days), 0.0, QUICK_S) for q in quick()]
    beside = (
        f"{sent.rate:.0f} events/s, p50 {ms(sent.at(0.5))}, p99 {ms(sent.at(0.99))}, worst {ms(max(sent.latencies))}"
    )
    return [*rows, Row("read", "collected beside these questions", beside)]


def row(part: str, what: str, answers: Answers, of: tuple[str, int], floor: float | None, target_s: float) -> Row:
    """`floor`: how long plain SQL took, None where it was given up, 0 where there is none."""
    group = answers.group(*of)
    over, seconds = ("over ", MOST_S) if floor is None else ("", floor)
    told = f"plain SQL {over}{ms(seconds)}" if seconds else ""
    ratio = f"{over}{_number(seconds / group.p95)} times faster" if seconds and group.p95 != TIMED_OUT else ""
    return Row(part, what, group.text(), told, ratio, f"p95 at most {ms(target_s)}", group.p95 <= target_s)


def _number(times: float) -> str:
    return f"{times:,.0f}" if times >= 10 else f"{times:.1f}"


def filtered_reads(bench: Bench) -> list[Row]:
    """Questions with one filter, of 6 %, 55 % and all of the events."""
    kinds = ("stats", "top pathname", "timeseries day")
    floors = {
        (value, kind, days): plain_sql_s(bench.known(), kind, days, field, value)
        for field, value, _ in FILTERS
        for kind in kinds
        for days in RANGES
    }
    say("plain SQL is done")
    rows = []
    with bench.copy() as known:
        for field, value, targets in FILTERS:
            answers, _ = asked(known, filtered(field, value), max(3, bench.asks // 4))
            covers = f"{share(known, field, value) * 100:.0f} %"
            rows += [
                row("filtered", f"{kind}, {covers}, {days} days", answers, (kind, days), floors[value, kind, days], s)
                for kind in kinds
                for days, s in zip(RANGES, targets, strict=True)
            ]
    return rows


def growth(bench: Bench) -> list[Row]:
    """The same questions over a tenth of the events: what ten times as many cost more."""
    if bench.answers is None:
        with bench.copy() as known:
            bench.answers, _ = asked(known, unfiltered(), bench.asks)
    small = bench.events // 10
    with bench.copy(small) as known:
        before, _ = asked(known, unfiltered(), bench.asks)
    rows = []
    for kind in KINDS:
        for days in RANGES:
            large, little = bench.answers.group(kind, days), before.group(kind, days)
            ratio = large.p50 / little.p50
            what = f"{kind}, {days} days: {small:,} to {bench.events:,} events"
            told = f"p50 {ms(little.p50)} to {ms(large.p50)}"
            target = f"at most {GROWTH:.0f} times"
            rows.append(Row("growth", what, told, "", f"{ratio:.1f} times", target, ratio <= GROWTH))
    return rows
