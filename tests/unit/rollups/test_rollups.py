"""Totals, rollups and remembered sums against plain counting, whatever happens in whatever order.

docs/reference/definitions.md: "Every figure about traffic is exact. Rollups and caches give the same number as the
plain query over raw events". Here the limits are small, so that in a handful of events everything occurs that takes
months otherwise: folds in several steps, late events, days that become final, blocks of all levels that are built,
become stale and are built anew, a process killed in the middle of it. test_model.py asks the same over HTTP.

EXAMPLES are played, or as many as the variable ROLLUP_EXAMPLES says; each asks all of its questions after every step.
"""

import os
import shutil
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tally.events.dimensions import FIELDS
from tally.maintenance import retention
from tally.reports import partial_days, ranking, stats, top
from tally.rollups import field_values, rollup_state, visit_pages
from tally.storage.sql.events import Scope
from tally.timeranges import Range, buckets
from tests.support.app import ManualClock
from tests.support.rollup_database import (
    DAY_MS,
    HOUR_MS,
    LATE_MS,
    MINUTE_MS,
    QUARTER_MS,
    Plain,
    RollupHarness,
    left_over,
    make_file,
    wrong_tables,
)
from tests.support.selection import examples

EXAMPLES = int(os.environ.get("ROLLUP_EXAMPLES") or examples(250, default=30))
# tests/mutation/faults.py only wants to know whether there is a failure, not the smallest one.
PHASES = [phase for phase in Phase if phase is not Phase.shrink or not os.environ.get("TALLY_FAULT")]
# So small that a step is made of nearly every row.
LIMITS = {
    (field_values, "ROLL_UP_EVENTS"): 3,
    (field_values, "ROWS_PER_STEP"): 4,
    (rollup_state, "ROWS_PER_STEP"): 4,
    (retention, "ROWS_PER_STEP"): 4,
    (visit_pages, "MOST_PAGES"): 2,
    (stats, "_FEW"): 3,
    (partial_days, "_EVENTS_A_VALUE"): 0,
    (ranking, "MAX_HELD"): 3,
    (top, "_TILES_A_STATEMENT"): 3,
    (visit_pages, "_CROWD"): 0.001,  # 86 seconds of a day
}

# Zones and instants on which their clocks change, or a midnight of theirs.
ZONES = {
    "UTC": "2026-11-18T00:00:00Z",
    "America/New_York": "2026-03-08T07:00:00Z",
    "Asia/Kolkata": "2026-06-30T18:30:00Z",
    "Australia/Lord_Howe": "2026-10-03T15:30:00Z",  # half an hour
    "Pacific/Apia": "2011-12-30T10:00:00Z",  # 2011-12-30 does not exist
    "Africa/Casablanca": "2026-02-15T02:00:00Z",  # Ramadan
    "Europe/London": "2026-10-25T01:00:00Z",
    "Africa/Monrovia": "1972-01-07T00:44:30Z",  # -0:44:30 until then: no hour of it lies on a quarter
}
NAMES = tuple(ZONES)
STEPS_MS = (
    *(0, 0, 1, -1, MINUTE_MS, -MINUTE_MS, QUARTER_MS, -QUARTER_MS, QUARTER_MS + 1, 10 * MINUTE_MS),
    *(30 * MINUTE_MS, 30 * MINUTE_MS, 30 * MINUTE_MS + 1, -30 * MINUTE_MS, 59 * MINUTE_MS, 60 * MINUTE_MS),
    *(HOUR_MS + 1, -HOUR_MS, 90 * MINUTE_MS + 500, 5 * HOUR_MS, DAY_MS, -DAY_MS, -2 * DAY_MS),
)
WAITS_MS = (
    *(0, 1, 10_000, 10_001, 20 * MINUTE_MS, HOUR_MS, 6 * HOUR_MS, DAY_MS, LATE_MS, 4 * DAY_MS, 5 * DAY_MS),
    *(17 * DAY_MS, 130 * DAY_MS, 300 * DAY_MS),
)
# Days before the world's beginning on which imports lie: near each other, and in other blocks of each level.
LONG_AGO = (5, 6, 7, 8, 8, 9, 12, 13, 20, 40, 41, 70, 135, 260, 261, 400, 513, 530, 700)


def look(number: int) -> tuple[str, ...]:
    """The 14 fields and event_name: one the same everywhere, one nearly so, others in fewer and more values."""
    pools = ("", "x", "y", "\uffff", "\U0001f600")
    texts = [pools[(number * (place + 1) + place) % len(pools)] for place in range(len(FIELDS))]
    texts[FIELDS.index("hostname")] = "example.com"
    texts[FIELDS.index("platform")] = "app" if number % 8 == 3 else "web"
    texts[FIELDS.index("pathname")] = f"/{number}"
    return (*texts, "")


LOOKS = tuple(look(number) for number in range(12))
FILTERS: tuple[tuple[tuple[str, tuple[str, ...]], ...], ...] = (
    (),
    (),
    (),
    (("hostname", ("example.com",)),),  # everything
    (("platform", ("web",)),),  # everything, on some days
    (("platform", ("app",)),),  # nothing, on most
    (("platform", ("app", "web", "tv")), ("hostname", ("example.com", ""))),
    (("pathname", ("/0", "/1")),),
    (("hostname", ("nobody",)),),
    (("type", ("event", "app_event")),),
    (("event_name", ("signup",)), ("platform", ("web",))),
    (("browser", ("",)), ("platform", ("web",))),
)


def below(end: int) -> st.SearchStrategy[int]:
    return st.integers(0, end - 1)


# An event: which known time it lies near and by how much, its type, session and look.
EVENTS = st.lists(st.tuples(below(40), below(len(STEPS_MS)), below(6), below(3), below(12)), min_size=2, max_size=10)
SENT = st.tuples(st.just("send"), below(5), EVENTS)
BROUGHT = st.tuples(st.just("bring"), st.lists(below(len(LONG_AGO) + 4), min_size=1, max_size=3), EVENTS)
WAITED = st.tuples(st.just("wait"), below(len(WAITS_MS)), st.none())
BUILT = st.tuples(st.just("build"), st.none(), st.none())
# Killed after some steps; meanwhile, before some of the steps, other things happen.
KILLED = st.tuples(st.just("build"), below(120), st.none())
BESIDE = st.tuples(
    st.just("build"),
    st.one_of(st.none(), below(200)),
    st.lists(st.tuples(below(12), st.one_of(SENT, BROUGHT, st.just(("ask", 0, None)))), max_size=4),
)
STEPS = st.lists(st.one_of(SENT, SENT, BROUGHT, WAITED, WAITED, BUILT, BUILT, KILLED, BESIDE), min_size=6, max_size=16)
# A question: what it asks, its ends by known times, how far apart they are at most, zone, filter, field, limit.
QUESTIONS = st.lists(
    st.tuples(
        below(7),
        st.tuples(below(40), below(10), below(40), below(10)),
        below(len(NAMES)),
        below(len(FILTERS)),
        below(len(FIELDS)),
        below(4),
    ),
    min_size=6,
    max_size=10,
)


class Times:
    """The times a world turns on: of every event so far, and the edges of quarters and days around them."""

    def __init__(self, start_ms: int) -> None:
        self.events_ms = [start_ms]

    def near(self, number: int, step: int) -> int:
        """A known time and a step from it."""
        return self.events_ms[number % len(self.events_ms)] + STEPS_MS[step]

    def edge(self, number: int, kind: int) -> int:
        """An end of a range: on an event, beside it, on edges of its quarter and day, before and after everything."""
        at_ms = self.events_ms[number % len(self.events_ms)]
        quarter_ms, day_ms = at_ms // QUARTER_MS * QUARTER_MS, at_ms // DAY_MS * DAY_MS
        return (
            *(at_ms, at_ms + 1, quarter_ms, quarter_ms + QUARTER_MS, day_ms, day_ms + DAY_MS, at_ms - 7 * MINUTE_MS),
            *(max(self.events_ms) + 12_345, min(self.events_ms) - DAY_MS - 777, day_ms + 30 * MINUTE_MS),
        )[kind]


class Asked:
    """A question with its ends settled, so that it stays the same while the world goes on."""

    def __init__(self, drawn: tuple[Any, ...], times: Times) -> None:
        self.kind, ends, zone, filter_, field, limit = drawn
        first, last = sorted((times.edge(*ends[:2]), times.edge(*ends[2:])))
        self.from_ms, self.to_ms = first, max(last, first + 1)
        if self.kind == 2:  # hours
            self.to_ms = min(self.to_ms, self.from_ms + 9 * DAY_MS)
        self.zone, self.filters, self.field = NAMES[zone], FILTERS[filter_], FIELDS[field]
        self.limit = (1, 2, 5, 1000)[limit]
        span = Range(self.from_ms, self.to_ms, ZoneInfo(self.zone), None)
        edges = buckets(span, "hour" if self.kind == 2 else "day") if self.kind in (1, 2) else []
        self.edges = [(bucket.from_ms, bucket.to_ms) for bucket in edges]

    def answers(self, harness: RollupHarness, plain: Plain) -> tuple[Any, Any]:
        """The answer of tally/reports/stats.py, and the plain one."""
        scope: Scope = harness.scope(self.from_ms, self.to_ms, self.filters)
        if self.kind == 0:
            return harness.stats(scope), plain.stats(scope)
        if self.kind == 3:
            return harness.top(scope, self.field, self.limit), plain.top(scope, self.field, self.limit)
        if self.kind == 4:
            return harness.names(scope, self.limit), plain.names(scope, self.limit)
        if self.kind > 4:
            side = ("entry", "exit")[self.kind - 5]
            return harness.pages(scope, side, self.limit), plain.pages(scope, side, self.limit)
        return harness.series(scope, self.edges), plain.series(scope, self.edges)

    def __repr__(self) -> str:
        kind = (
            *("stats", "series by day", "series by hour", f"top {self.field} {self.limit}"),
            *(f"names {self.limit}", f"entry pages {self.limit}", f"exit pages {self.limit}"),
        )[self.kind]
        return f"{kind} [{self.from_ms}, {self.to_ms}) {self.zone} {self.filters}"


class World:
    """One example under way."""

    def __init__(self, harness: RollupHarness, start_ms: int, questions: list[Any], seen: Counter[str]) -> None:
        self.harness, self.start_ms, self.drawn, self.seen = harness, start_ms, questions, seen
        self.times = Times(start_ms)
        # All that there ever is: what is remembered of it has to follow every change.
        always = Times(start_ms - 702 * DAY_MS)
        always.events_ms.append(start_ms + 2_000 * DAY_MS)
        self.asked = [
            Asked((kind, (0, 8, 0, 7), 0, 0, field, 3), always)
            for kind, field in ((0, 0), (3, 1), (4, 0), (5, 0), (6, 0))
        ]

    def play(self, step: tuple[Any, ...]) -> None:
        """Does a step."""
        kind, how, what = step
        self.seen[kind] += 1
        getattr(self, f"_{kind}")(how, what)

    def _facts(self, events: list[Any], places_ms: list[int]) -> list[tuple[int, int, str, tuple[str, ...]]]:
        facts = []
        for number, (ts, (_, _, kind, session, texts)) in enumerate(zip(places_ms, events, strict=True)):
            self.times.events_ms.append(ts)
            type_ = (0, 0, 0, 1, 2, 3)[kind]
            named = (*LOOKS[texts][:14], ("", "signup", "download")[number % 3] if type_ >= 2 else "")
            facts.append((ts, type_, f"session-{session}", named))
        return facts

    def _send(self, website: int, events: list[Any]) -> None:
        now_ms = self.harness.now_ms
        places_ms = [now_ms - (now_ms - self.times.near(*event[:2])) % LATE_MS for event in events]
        self.harness.send(*self._facts(events, places_ms), website=int(website == 4))

    def _bring(self, days: list[int], events: list[Any]) -> None:
        places_ms = []
        for number, event in enumerate(events):
            day = days[number % len(days)]
            begin_ms = self.harness.now_ms // DAY_MS - (day - len(LONG_AGO))
            if day < len(LONG_AGO):
                begin_ms = self.start_ms // DAY_MS - LONG_AGO[day]
            places_ms.append(begin_ms * DAY_MS + self.times.near(*event[:2]) % DAY_MS)
        self.harness.bring(*self._facts(events, places_ms))

    def _wait(self, number: int, _: None) -> None:
        self.harness.advance(WAITS_MS[number])

    def _build(self, steps: int | None, beside: list[Any] | None) -> None:
        happenings: dict[int, Any] = {at * 7 % 40: what for at, what in beside or ()}
        last = max(happenings, default=-1)
        self.harness.meanwhile = [
            (lambda step=happenings[n]: self.play(step)) if n in happenings else (lambda: None) for n in range(last + 1)
        ]
        self.seen["killed"] += not self.harness.build(steps)
        self.harness.meanwhile = []

    def _ask(self, *_: Any) -> None:
        self.compare()

    def compare(self) -> None:
        """All questions so far and one more: the same numbers as by plain counting."""
        if len(self.asked) < len(self.drawn) + 5:
            self.asked.append(Asked(self.drawn[len(self.asked) - 5], self.times))
        plain = self.harness.plain()
        for question in self.asked:
            got, want = question.answers(self.harness, plain)
            self.seen["comparisons"] += 1
            assert got == want, f"{question}\nnow: {self.harness.now_ms}\nfigures: {got}\nplain:   {want}"
        for day in self.harness.days().values():
            self.seen[("stale", "open", "final", "kept")[day.state]] += 1
        self.seen["blocks"] += self.harness.reader.execute(
            "select count(*) from rollup_state where level > 0"
        ).fetchone()[0]


def instant(text: str) -> int:
    return (datetime.fromisoformat(text) - datetime.fromisoformat("1970-01-01T00:00:00Z")) // MILLISECOND


MILLISECOND = datetime.resolution * 1_000


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database file to copy for each example."""
    path = tmp_path_factory.mktemp("rollups") / "template.db"
    make_file(path)
    return path


@pytest.fixture(scope="module")
def small_limits() -> Iterator[None]:
    """The limits as small as they may be."""
    with pytest.MonkeyPatch.context() as patch:
        for (room, name), value in LIMITS.items():
            patch.setattr(room, name, value)
        yield


@pytest.fixture(scope="module")
def seen() -> Iterator[Counter[str]]:
    """What has occurred in the examples; told at the end."""
    counter: Counter[str] = Counter()
    yield counter
    print(dict(counter))


@pytest.mark.usefixtures("small_limits")
@settings(max_examples=EXAMPLES, deadline=None, phases=PHASES, suppress_health_check=list(HealthCheck))
@given(below(len(NAMES)), below(4), st.sampled_from((1_000, 1_000, 2)), STEPS, QUESTIONS)
def test_every_figure_is_the_plain_one(
    template: Path, seen: Counter[str], zone: int, after: int, identities: int, steps: list[Any], drawn: list[Any]
) -> None:
    """The same number as the plain query over raw events, after every step and while days are built."""
    path = template.with_name("example.db")
    shutil.copyfile(template, path)
    change_ms = instant(ZONES[NAMES[zone]])
    start_ms = change_ms + (HOUR_MS, 12 * HOUR_MS, 2 * DAY_MS + 3 * HOUR_MS + 1, 0)[after]
    harness = RollupHarness(path, ManualClock(start_ms), identities)
    world = World(harness, start_ms, drawn, seen)
    world.times.events_ms.append(change_ms)
    seen["examples"] += 1
    try:
        for step in steps:
            world.play(step)
            world.compare()
        harness.build_all()
        world.compare()
        for website in harness.websites:
            assert wrong_tables(harness.reader, website.number) == []
            assert left_over(harness.reader, website.number) == []
    finally:
        harness.close()
        for file in template.parent.glob("example.db*"):
            file.unlink()
