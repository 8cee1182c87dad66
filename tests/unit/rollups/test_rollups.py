"""Totals, rollups and cached sums against the reference implementation, in random histories.

docs/reference/definitions.md: "Rollups and caches give the same number as the plain query over raw
events". The limits are set so low that a few events cover what otherwise takes months: folds in
several steps, late events, days that become final, blocks of all levels that are built, become stale and are
rebuilt, and a process that is killed in between. tests/model/test_model.py makes the same comparison over HTTP.

ROLLUP_EXAMPLES sets the number of examples. Every example repeats all its queries after every step.
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
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tally.columns import read
from tally.engine.values import Scope
from tally.events.dimensions import FIELDS, PAGES
from tally.events.filters import Filter
from tally.maintenance import retention
from tally.reports import open_days, sums
from tally.rollups import rollup_state, value_blocks
from tally.timeranges import Range, buckets
from tests.support.app import ManualClock
from tests.support.rollup_database import (
    DAY_MS,
    HOUR_MS,
    LATE_MS,
    MINUTE_MS,
    QUARTER_MS,
    SOURCE,
    Reference,
    RollupHarness,
    make_file,
    table_errors,
    unfinished_work,
    with_channel,
)
from tests.support.selection import examples

EXAMPLES = int(os.environ.get("ROLLUP_EXAMPLES") or examples(50, default=3))
# So low that almost every row is a step of its own.
LIMITS = {
    (rollup_state, "ROWS_PER_STEP"): 4,
    (retention, "ROWS_PER_STEP"): 4,
    (open_days, "MOST_NEW"): 3,
    (read, "MAX_EVENTS"): 5,
    (sums, "MAX_HELD"): 3,
    (value_blocks, "_MAX_HELD"): 3,
    (value_blocks, "CHUNK"): 2,
}

# Zones, each with an instant at which its clocks change or at which its day begins.
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
# Days before the start of the history that imports write to: some adjacent, some in other blocks of each level.
LONG_AGO = (5, 6, 7, 8, 8, 9, 12, 13, 20, 40, 41, 70, 135, 260, 261, 400, 513, 530, 700)


def field_values_of(number: int) -> tuple[str, ...]:
    """Return the fields and event_name: one constant, one almost constant, the others of few or many values.

    Two of three carry no acquisition.
    """
    pools = ("", "x", "y", "\uffff", "\U0001f600")
    texts = [pools[(number * (place + 1) + place) % len(pools)] for place in range(len(FIELDS))]
    texts[FIELDS.index("hostname")] = "example.com"
    texts[FIELDS.index("platform")] = "app" if number % 8 == 3 else "web"
    texts[FIELDS.index("pathname")] = f"/{number}"
    if number % 3:
        for place in SOURCE:
            texts[place] = ""
    return with_channel((*texts, ""))


FIELD_VALUES = tuple(field_values_of(number) for number in range(12))
FILTERS: tuple[tuple[Filter, ...], ...] = (
    (),
    (),
    (),
    (Filter("hostname", "=", ("example.com",)),),  # everything
    (Filter("platform", "=", ("web",)),),  # everything, on some days
    (Filter("platform", "=", ("app",)),),  # nothing, on most
    (Filter("platform", "=", ("app", "web", "tv")), Filter("hostname", "=", ("example.com", ""))),
    (Filter("pathname", "=", ("/0", "/1")),),
    (Filter("hostname", "=", ("unknown.example",)),),
    (Filter("type", "=", ("event", "app_event")),),
    (Filter("event_name", "=", ("signup",)), Filter("platform", "=", ("web",))),
    (Filter("browser", "=", ("",)), Filter("platform", "=", ("web",))),
    (Filter("referrer", "=", ("x", "y")),),
    (Filter("utm_source", "=", ("",)), Filter("entry_page", "=", ("/0", "/1", "/2", "/3"))),
    (Filter("exit_page", "!=", ("/4", "/5", "")), Filter("platform", "=", ("web",))),
    (Filter("referrer", "!=", ("",)), Filter("type", "=", ("event", "app_event"))),
    (Filter("entry_page", "$=", ("1", "2")),),
    (Filter("channel", "=", ("Direct",)),),
    (Filter("channel", "^=", ("Ref", "Oth")), Filter("platform", "=", ("web",))),
)
LISTED = (*FIELDS, *PAGES)


def integers_below(end: int) -> st.SearchStrategy[int]:
    return st.integers(0, end - 1)


# An event: the known time it lies near and the distance from it, its type, session and field values.
EVENTS = st.lists(
    st.tuples(
        integers_below(40), integers_below(len(STEPS_MS)), integers_below(6), integers_below(3), integers_below(12)
    ),
    min_size=2,
    max_size=10,
)
SENT = st.tuples(st.just("send"), integers_below(5), EVENTS)
IMPORTED = st.tuples(st.just("bring"), st.lists(integers_below(len(LONG_AGO) + 4), min_size=1, max_size=3), EVENTS)
WAITED = st.tuples(st.just("wait"), integers_below(len(WAITS_MS)), st.none())
BUILT = st.tuples(st.just("build"), st.none(), st.none())
# The build is killed after some steps.
# In INTERRUPTED_BUILD, other steps run before some steps of the build.
KILLED_BUILD = st.tuples(st.just("build"), integers_below(120), st.none())
INTERRUPTED_BUILD = st.tuples(
    st.just("build"),
    st.one_of(st.none(), integers_below(200)),
    st.lists(st.tuples(integers_below(12), st.one_of(SENT, IMPORTED, st.just(("ask", 0, None)))), max_size=4),
)
STEPS = st.lists(
    st.one_of(SENT, SENT, IMPORTED, WAITED, WAITED, BUILT, BUILT, KILLED_BUILD, INTERRUPTED_BUILD),
    min_size=6,
    max_size=16,
)
# A query: the report, the ends of its range relative to known times, zone, filter, field, limit.
QUERIES = st.lists(
    st.tuples(
        integers_below(7),
        st.tuples(integers_below(40), integers_below(10), integers_below(40), integers_below(10)),
        integers_below(len(NAMES)),
        integers_below(len(FILTERS)),
        integers_below(len(LISTED)),
        integers_below(4),
    ),
    min_size=6,
    max_size=10,
)


class Times:
    """The times of a history: of every event so far, and the edges of quarters and days around them."""

    def __init__(self, start_ms: int) -> None:
        self.events_ms = [start_ms]

    def near(self, number: int, step: int) -> int:
        """Return a known time plus a step."""
        return self.events_ms[number % len(self.events_ms)] + STEPS_MS[step]

    def edge(self, number: int, kind: int) -> int:
        """Return an end of a range: on or beside an event, at edges of its quarter and day, or outside all events."""
        at_ms = self.events_ms[number % len(self.events_ms)]
        quarter_ms, day_ms = at_ms // QUARTER_MS * QUARTER_MS, at_ms // DAY_MS * DAY_MS
        return (
            *(at_ms, at_ms + 1, quarter_ms, quarter_ms + QUARTER_MS, day_ms, day_ms + DAY_MS, at_ms - 7 * MINUTE_MS),
            *(max(self.events_ms) + 12_345, min(self.events_ms) - DAY_MS - 777, day_ms + 30 * MINUTE_MS),
        )[kind]


class Query:
    """A query with fixed ends, which stays the same while the history continues."""

    def __init__(self, drawn: tuple[Any, ...], times: Times) -> None:
        self.kind, ends, zone, filter_, field, limit = drawn
        first, last = sorted((times.edge(*ends[:2]), times.edge(*ends[2:])))
        self.from_ms, self.to_ms = first, max(last, first + 1)
        if self.kind == 2:  # hours
            self.to_ms = min(self.to_ms, self.from_ms + 9 * DAY_MS)
        self.zone, self.filters, self.field = NAMES[zone], FILTERS[filter_], LISTED[field]
        self.limit = (1, 2, 5, 1000)[limit]
        span = Range(self.from_ms, self.to_ms, ZoneInfo(self.zone), None)
        edges = buckets(span, "hour" if self.kind == 2 else "day") if self.kind in (1, 2) else []
        self.edges = [(bucket.from_ms, bucket.to_ms) for bucket in edges]

    def results(self, harness: RollupHarness, reference: Reference) -> tuple[Any, Any]:
        """Return the result of tally/reports/stats.py and the expected one."""
        scope: Scope = harness.scope(self.from_ms, self.to_ms, self.filters)
        if self.kind == 0:
            return harness.stats(scope), reference.stats(scope)
        if self.kind == 3:
            return harness.top(scope, self.field, self.limit), reference.top(scope, self.field, self.limit)
        if self.kind == 4:
            return harness.names(scope, self.limit), reference.names(scope, self.limit)
        if self.kind > 4:
            side = ("entry", "exit")[self.kind - 5]
            return harness.pages(scope, side, self.limit), reference.pages(scope, side, self.limit)
        return harness.series(scope, self.edges), reference.series(scope, self.edges)

    def __repr__(self) -> str:
        kind = (
            *("stats", "series by day", "series by hour", f"top {self.field} {self.limit}"),
            *(f"names {self.limit}", f"entry pages {self.limit}", f"exit pages {self.limit}"),
        )[self.kind]
        return f"{kind} [{self.from_ms}, {self.to_ms}) {self.zone} {self.filters}"


class History:
    """One running example."""

    def __init__(self, harness: RollupHarness, start_ms: int, queries_drawn: list[Any], seen: Counter[str]) -> None:
        self.harness, self.start_ms, self.drawn, self.seen = harness, start_ms, queries_drawn, seen
        self.times = Times(start_ms)
        # Queries over all times, whose cached results have to follow every change.
        always = Times(start_ms - 702 * DAY_MS)
        always.events_ms.append(start_ms + 2_000 * DAY_MS)
        self.queries = [
            Query((kind, (0, 8, 0, 7), 0, 0, field, 3), always)
            for kind, field in ((0, 0), (3, 1), (4, 0), (5, 0), (6, 0))
        ]

    def play(self, step: tuple[Any, ...]) -> None:
        """Run one step."""
        kind, how, what = step
        self.seen[kind] += 1
        getattr(self, f"_{kind}")(how, what)

    def _facts(self, events: list[Any], places_ms: list[int]) -> list[tuple[int, int, str, tuple[str, ...]]]:
        facts = []
        for number, (ts, (_, _, kind, session, texts)) in enumerate(zip(places_ms, events, strict=True)):
            self.times.events_ms.append(ts)
            type_ = (0, 0, 0, 1, 2, 3)[kind]
            named = (*FIELD_VALUES[texts][:-1], ("", "signup", "download")[number % 3] if type_ >= 2 else "")
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
        self.harness.import_events(*self._facts(events, places_ms))

    def _wait(self, number: int, _: None) -> None:
        self.harness.advance(WAITS_MS[number])

    def _build(self, steps: int | None, interruptions_drawn: list[Any] | None) -> None:
        interruptions: dict[int, Any] = {at * 7 % 40: what for at, what in interruptions_drawn or ()}
        last = max(interruptions, default=-1)
        self.harness.before_steps = [
            (lambda step=interruptions[n]: self.play(step)) if n in interruptions else (lambda: None)
            for n in range(last + 1)
        ]
        self.seen["killed"] += not self.harness.build(steps)
        self.harness.before_steps = []

    def _ask(self, *_: Any) -> None:
        self.compare()

    def compare(self) -> None:
        """Repeat all queries so far and a new one, and compare them with the reference implementation."""
        if len(self.queries) < len(self.drawn) + 5:
            self.queries.append(Query(self.drawn[len(self.queries) - 5], self.times))
        reference = self.harness.reference()
        for query in self.queries:
            got, want = query.results(self.harness, reference)
            self.seen["comparisons"] += 1
            assert got == want, f"{query}\nnow: {self.harness.now_ms}\nfigures: {got}\nplain:   {want}"
        for day in self.harness.days().values():
            self.seen[("stale", "open", "final", "kept")[day.state]] += 1
        self.seen["blocks"] += self.harness.reader.execute(
            "select count(*) from rollup_state where kind = 0 and level > 0"
        ).fetchone()[0]


def instant(text: str) -> int:
    return (datetime.fromisoformat(text) - datetime.fromisoformat("1970-01-01T00:00:00Z")) // MILLISECOND


MILLISECOND = datetime.resolution * 1_000


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a database file to copy for each example."""
    path = tmp_path_factory.mktemp("rollups") / "template.db"
    make_file(path)
    return path


@pytest.fixture(scope="module")
def small_limits() -> Iterator[None]:
    """Set the limits as low as possible."""
    with pytest.MonkeyPatch.context() as patch:
        for (module, name), value in LIMITS.items():
            patch.setattr(module, name, value)
        yield


@pytest.fixture(scope="module")
def seen() -> Iterator[Counter[str]]:
    """Count what occurred in the examples; printed at the end."""
    counter: Counter[str] = Counter()
    yield counter
    print(dict(counter))


@pytest.mark.random_examples
@pytest.mark.usefixtures("small_limits")
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(integers_below(len(NAMES)), integers_below(4), st.sampled_from((1_000, 1_000, 2)), STEPS, QUERIES)
def test_figures_equal_plain_counting(
    template: Path, seen: Counter[str], zone: int, after: int, identities: int, steps: list[Any], drawn: list[Any]
) -> None:
    """Figures equal the plain query over raw events after every step and while days are built."""
    path = template.with_name("example.db")
    shutil.copyfile(template, path)
    change_ms = instant(ZONES[NAMES[zone]])
    start_ms = change_ms + (HOUR_MS, 12 * HOUR_MS, 2 * DAY_MS + 3 * HOUR_MS + 1, 0)[after]
    harness = RollupHarness(path, ManualClock(start_ms), identities)
    history = History(harness, start_ms, drawn, seen)
    history.times.events_ms.append(change_ms)
    seen["examples"] += 1
    try:
        for step in steps:
            history.play(step)
            history.compare()
        harness.build_all()
        history.compare()
        for website in harness.websites:
            assert table_errors(harness.reader, website.number) == []
            assert unfinished_work(harness.reader, website.number) == []
    finally:
        harness.close()
        for file in template.parent.glob("example.db*"):
            file.unlink()
