"""A database with the real writer and rollup builder but no server, and a reference implementation of the reports.

`RollupHarness` is a SQLite file with the real EventWriter and RollupBuilder. Their connections run in the calling
thread (`InlineThread`), so that a test may read, write or end the work before any step of the builder. A step is one
transaction, so a kill within a step has the effect of a kill before it.

`Reference` is the reference implementation. docs/reference/definitions.md: "Rollups and caches give the same
number as the plain query over raw events". It counts by loops over the rows of table
`event`: visits are computed from the times of events, and no total or rollup is read.
"""

import json
import random
import sqlite3
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from tally.accounts.accounts import create_account
from tally.accounts.websites import add_website, all_websites
from tally.clock import Clock
from tally.columns import deleted_rows, measurement_days, measurements
from tally.engine.ingest import PreparedEvent, WriteRequest
from tally.engine.values import Scope, Stats
from tally.events.dimensions import ACQUISITION, CHANNEL, EVENT_FIELDS, FIELDS, PAGES, channel_of, field_number
from tally.events.filters import Filter
from tally.events.identity import Salts
from tally.events.sessions import Sessions
from tally.events.validation import TYPES, Event
from tally.events.visits import NO_ACQUISITION
from tally.events.website import Website
from tally.maintenance.rollup_builder import RollupBuilder
from tally.reports import stats as stats_report
from tally.reports import top as top_report
from tally.reports import visit_pages
from tally.reports.cache import ResultCache
from tally.rollups import (
    rollup_state,
    value_blocks,
)
from tally.rollups import totals as quarter_totals
from tally.rollups.rollup_state import BLOCK_LEVEL, KEPT, STALE
from tally.sqlite.writer import EventWriter
from tally.storage.connections import Thread
from tally.storage.database import connect_reader, open_database, snapshot, transaction
from tally.storage.disk_space import UNKNOWN_SPACE
from tally.storage.value_limits import add_values
from tests.support.app import NOON_MS, ManualClock, new_database

T = TypeVar("T")

MINUTE_MS = 60_000
QUARTER_MS = 15 * MINUTE_MS
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
LATE_MS = 72 * HOUR_MS  # at most 72 hours old
GAP_MS = 30 * MINUTE_MS  # a gap of exactly 30:00.000 joins
FINAL = range(rollup_state.FINAL, KEPT + 1)


# --- the reference implementation


class Fact(NamedTuple):
    """A traffic event. `texts` has its own values of FIELDS, then event_name. At equal times `id` decides."""

    ts: int
    type: int
    visitor: int
    texts: tuple[str, ...]
    id: int = 0
    data: str | None = None


class Visit(NamedTuple):
    """A maximal run of one visitor's events without a gap over 30 minutes."""

    facts: list[Fact]

    @property
    def begin_ms(self) -> int:
        return self.facts[0].ts

    @property
    def ms(self) -> int:
        return self.facts[-1].ts - self.facts[0].ts

    @property
    def views(self) -> int:
        return sum(fact.type <= 1 for fact in self.facts)

    @property
    def events(self) -> int:
        return len(self.facts) - self.views

    @property
    def pages(self) -> tuple[str, str]:
        """Return the pathnames of the first and the last pageview; '' where there is none."""
        shown = [fact.texts[0] for fact in self.facts if fact.type <= 1] or [""]
        return shown[0], shown[-1]


def of_visits(visits: Iterable[Visit]) -> Iterable[Fact]:
    """Yield the events of visits, each with the acquisition of its visit."""
    for visit in visits:
        sources = (tuple(fact.texts[place] for place in SOURCE) for fact in visit.facts)
        first = next((source for source in sources if source != NO_ACQUISITION), NO_ACQUISITION)
        for fact in visit.facts:
            texts = list(fact.texts)
            for place, text in zip(SOURCE, first, strict=True):
                texts[place] = text
            yield fact._replace(texts=tuple(texts))


SOURCE = [FIELDS.index(name) for name in ACQUISITION]
"""Where the acquisition is among the texts of a Fact."""


class Reference:
    """Computes every figure about some events by loops."""

    def __init__(self, facts: Iterable[Fact]) -> None:
        visits = map(Visit, runs(sorted(facts, key=lambda fact: (fact.ts, fact.id))))
        self.facts = sorted(of_visits(visits), key=lambda fact: (fact.ts, fact.id))
        self.visits = [Visit(run) for run in runs(self.facts)]
        # Entry and exit page of each event's visit, by the event.
        self._pages = {(fact.ts, fact.id): visit.pages for visit in self.visits for fact in visit.facts}

    def value(self, fact: Fact, field: str) -> str:
        """Return the value of a field of an event; for entry and exit page, of its visit."""
        if field in PAGES:
            return self._pages[fact.ts, fact.id][PAGES.index(field)]
        return TYPES[fact.type] if field == "type" else fact.texts[(*FIELDS, "event_name").index(field)]

    def _matches(self, fact: Fact, scope: Scope) -> bool:
        return all(
            of.accepts(self.value(fact, of.field)) if of.property_name is None else accepts_data(of, fact.data)
            for of in scope.filters
        )

    def facts_in(self, scope: Scope) -> list[Fact]:
        """Return the matching events."""
        return [fact for fact in self.facts if scope.from_ms <= fact.ts < scope.to_ms and self._matches(fact, scope)]

    def visits_in(self, scope: Scope) -> list[Visit]:
        """Return the visits that begin in the range and have a matching event in it."""
        return [
            visit
            for visit in self.visits
            if scope.from_ms <= visit.begin_ms < scope.to_ms
            and any(scope.from_ms <= fact.ts < scope.to_ms and self._matches(fact, scope) for fact in visit.facts)
        ]

    def stats(self, scope: Scope) -> Stats:
        """Return the key figures of the matching events."""
        return Stats(*counted(self.facts_in(scope)), *visit_figures(self.visits_in(scope)))

    def series(self, scope: Scope, edges: Sequence[tuple[int, int]]) -> list[tuple[int, int, int, int]]:
        """Return visitors, visits, pageviews and events of each bucket."""
        begins = [edge[0] for edge in edges]
        facts: defaultdict[int, list[Fact]] = defaultdict(list)
        visits: defaultdict[int, int] = defaultdict(int)
        for fact in self.facts_in(scope):
            facts[bisect_right(begins, fact.ts) - 1].append(fact)
        for visit in self.visits_in(scope):
            visits[bisect_right(begins, visit.begin_ms) - 1] += 1
        rows = [(0, 0, 0, 0)] * len(edges)
        for n in facts.keys() | visits.keys():
            visitors, views, events = counted(facts[n])
            rows[n] = (visitors, visits[n], views, events)
        return rows

    def by_value(self, scope: Scope, field: str) -> dict[str, tuple[int, int, int]]:
        """Return visitors, pageviews and events of each value of a field; of event_name only those with one."""
        groups: defaultdict[str, list[Fact]] = defaultdict(list)
        for fact in self.facts_in(scope):
            groups[self.value(fact, field)].append(fact)
        if field == "event_name":
            groups.pop("", None)
        return {value: counted(facts) for value, facts in groups.items()}

    def by_page(self, scope: Scope, side: str) -> dict[str, tuple[int, int, int, int]]:
        """Return visits, bounces, pageviews and ms of each entry or exit page."""
        groups: defaultdict[str, list[Visit]] = defaultdict(list)
        for visit in self.visits_in(scope):
            groups[visit.pages[0 if side == "entry" else 1]].append(visit)
        return {page: visit_figures(visits) for page, visits in groups.items()}

    def top(self, scope: Scope, field: str, limit: int) -> tuple[tuple[int, ...], list[tuple[str, int, int, int]]]:
        """Return the figures of events without a value, and the first rows."""
        groups = self.by_value(scope, field)
        unset = groups.pop("", (0, 0, 0))
        rows = [(value, *figures) for value, figures in groups.items()]
        return unset, sorted(rows, key=lambda row: (-row[1], -row[2], -row[3], row[0]))[:limit]

    def names(self, scope: Scope, limit: int) -> list[tuple[str, int, int]]:
        """Return the first names of custom events with visitors and events."""
        groups: defaultdict[str, list[Fact]] = defaultdict(list)
        for fact in self.facts_in(scope):
            if fact.type >= 2 and fact.texts[len(FIELDS)]:
                groups[fact.texts[len(FIELDS)]].append(fact)
        rows = [(name, len({fact.visitor for fact in facts}), len(facts)) for name, facts in groups.items()]
        return sorted(rows, key=lambda row: (-row[1], -row[2], row[0]))[:limit]

    def pages(self, scope: Scope, side: str, limit: int) -> tuple[int, list[tuple[str, int, int, int, int]]]:
        """Return the visits without a pageview, and (page, visits, bounces, pageviews, ms) of the first pages."""
        groups = self.by_page(scope, side)
        unset, *_ = groups.pop("", (0,))
        rows = [(page, *figures) for page, figures in groups.items()]
        return unset, sorted(rows, key=lambda row: (-row[1], row[0]))[:limit]

    def funnel(self, scope: Scope, steps: Sequence[tuple[str, str]]) -> list[tuple[int, int, int]]:
        """Return (visits, visitors, ms since the previous step) of each step (field, text)."""
        found: list[list[tuple[int, int]]] = [[] for _ in steps]
        for visit in self.visits_in(scope):
            n, before_ms = 0, visit.begin_ms
            for fact in visit.facts:
                if n < len(steps) and _is_step(fact, *steps[n]):
                    found[n].append((fact.visitor, fact.ts - before_ms if n else 0))
                    n, before_ms = n + 1, fact.ts
        return [(len(of), len({who for who, _ in of}), sum(ms for _, ms in of)) for of in found]


def counted(facts: Sequence[Fact]) -> tuple[int, int, int]:
    """Return visitors, pageviews and events."""
    views = sum(fact.type <= 1 for fact in facts)
    return len({fact.visitor for fact in facts}), views, len(facts) - views


def visit_figures(visits: Sequence[Visit]) -> tuple[int, int, int, int]:
    """Return the number of visits, of bounces, of pageviews, and ms."""
    bounces = sum(visit.views == 1 and visit.events == 0 for visit in visits)
    return len(visits), bounces, sum(visit.views for visit in visits), sum(visit.ms for visit in visits)


class TimedEvent(Protocol):
    """An event with a time and a visitor."""

    @property
    def ts(self) -> int: ...

    @property
    def visitor(self) -> int: ...


E = TypeVar("E", bound=TimedEvent)


def runs(facts: Sequence[E]) -> list[list[E]]:
    """Return visits: runs of a visitor's events without a gap over 30 minutes. `facts` are ordered by time."""
    open_runs: dict[int, list[E]] = {}
    found = []
    for fact in facts:
        run = open_runs.get(fact.visitor)
        if run is None or fact.ts - run[-1].ts > GAP_MS:
            run = open_runs[fact.visitor] = []
            found.append(run)
        run.append(fact)
    return found


def accepts_data(of: Filter, data: str | None) -> bool:
    """Return whether a filter on a property accepts event_data. Numbers are compared by value."""
    value = json.loads(data or "{}").get(of.property_name, "")
    if of.operator == "!=":
        return not accepts_data(Filter(of.field, "=", of.values), data)
    if isinstance(value, str):
        return of.accepts(value)
    if of.operator != "=":
        return False
    if isinstance(value, bool) or value is None:
        return json.dumps(value) in of.values
    return any(value == float(text) for text in of.values if text[-1:].isdigit())


def _is_step(fact: Fact, field: str, text: str) -> bool:
    if field == "pathname":
        return fact.type <= 1 and fact.texts[0] == text
    return fact.type >= 2 and fact.texts[len(FIELDS)] == text


# --- the database file


class Killed(BaseException):
    """Ends the work where a process would be killed. No Exception, so that no handler catches it."""


class InlineThread:
    """A connection with the interface of `Thread`. Steps run in the calling thread; `before` is called before each."""

    def __init__(self, connection: sqlite3.Connection, before: Callable[[str], None]) -> None:
        self._conn = connection
        self._before = before
        self.max_rows_written = 0
        """The largest number of rows that one step wrote."""

    begin_snapshot = Thread.begin_snapshot

    async def run(self, step: Callable[[sqlite3.Connection], T]) -> T:
        self._before(step.__qualname__)
        written = self._conn.total_changes
        result = step(self._conn)
        self.max_rows_written = max(self.max_rows_written, self._conn.total_changes - written)
        return result


def run_inline(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine whose awaits never wait for an event, and return its result."""
    try:
        while True:
            work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result


def make_file(path: Path, websites: int = 2) -> None:
    """Create a database with an account and some websites."""
    connection = new_database(path)
    with transaction(connection):
        owner = create_account(connection, "owner@example.com", "business", None, 0)
        for number in range(websites):
            add_website(connection, owner, f"{number}.example.com", "", (), number)
    connection.close()  # empties the log, so that the file alone can be copied


def with_channel(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Return texts that begin with those of FIELDS, with the channel that the other fields determine."""
    return (*texts[:CHANNEL], channel_of(texts), *texts[CHANNEL + 1 :])


class RollupHarness:
    """A database file with a writer, a builder with its reader, and a reader for reports.

    `before_steps` are functions of which one is called before each step of the builder. `max_rows_written` is the
    largest number of rows that one step wrote. `space` is the space of the disk.
    """

    def __init__(self, path: Path, clock: Clock | None = None, identities: int = 1_000) -> None:
        self.path, self.identities = path, identities
        self.clock = clock or ManualClock(NOON_MS)
        self.websites: list[Website] = []
        self.before_steps: list[Callable[[], None]] = []
        self.max_rows_written = 0
        self.space = UNKNOWN_SPACE
        self._all_facts: dict[int, tuple[int, Fact]] = {}
        # Values of FIELDS of each event that was sent or imported, by id. The file has acquisition by visit only.
        self._sent: dict[int, tuple[str, ...]] = {}
        self._visitor = self._least_id = 0
        self._open()

    def _open(self) -> None:
        self.writer, self.builder_reader, self.reader = (
            open_database(self.path, create=False),
            connect_reader(self.path),
            connect_reader(self.path),
        )
        # Tests end the process, not the power; fsync would take most of their time.
        self.writer.execute("pragma synchronous = off")
        self.websites = all_websites(self.writer)
        self.salts, self.sessions = Salts(), Sessions(self.identities)
        self.ingest = EventWriter(self.sessions, lambda plan: None, self.clock)
        self.ingest.start(self.writer)
        self.cache = ResultCache()
        self._threads = (InlineThread(self.writer, self._before), InlineThread(self.builder_reader, self._before))
        self.builder = RollupBuilder(*self._threads, self.clock, rest=0, space=lambda: self.space)  # type: ignore[arg-type]
        self._steps = 0
        for website in self.websites:
            with with_all_rows(self.reader, website.number):
                (least,) = self.reader.execute("select coalesce(min(id), 0) from event").fetchone()
                self._least_id = min(self._least_id, least)
        # A visitor number belongs to one day and is never used again.
        imported = "select coalesce(max(visitor), 0) from event where id < 0"
        self._visitor = max(self._visitor, self.writer.execute(imported).fetchone()[0])

    def close(self) -> None:
        """Close all connections, also during work."""
        self.max_rows_written = max(self.max_rows_written, self._threads[0].max_rows_written)
        for connection in (self.reader, self.builder_reader, self.writer):
            connection.close()

    def restart(self) -> None:
        """Close and open again, without what a server keeps in memory."""
        self.close()
        self._open()

    def advance(self, ms: int) -> None:
        """Advance the clock."""
        self.clock.advance(ms / 1_000)  # type: ignore[attr-defined]

    @property
    def now_ms(self) -> int:
        return self.clock.wall_ms()

    # -- writing

    def send(
        self, *facts: tuple[int, int, str, tuple[str, ...]], website: int = 0, data: Sequence[str | None] = ()
    ) -> None:
        """Commit a group of traffic events (ts, type, session, FIELDS and event_name), optionally with event_data."""
        now_ms, site = self.now_ms, self.websites[website]
        rows = [
            PreparedEvent(
                site,
                Event(type_, ts, event_name=texts[-1], event_data=own),
                with_channel(texts)[:-1],
                self.salts.session_identity(site.number, ts, session),
            )
            for (ts, type_, session, texts), own in zip(facts, data or [None] * len(facts), strict=True)
        ]
        # Two requests in one group.
        jobs = [WriteRequest(part, now_ms) for part in (rows[::2], rows[1::2]) if part]
        before = self.writer.execute("select coalesce(max(id), 0) from event").fetchone()[0]
        self.ingest.write(self.writer, jobs)
        sent = [row.dimensions for job in jobs for row in job.events]
        new = self.writer.execute("select id from event where id > ? order by id", (before,)).fetchall()
        # Others are rows of a stored day that were put back.
        self._sent |= {id: texts for (id,), texts in zip(new[-len(sent) :], sent, strict=True)}

    def import_events(self, *facts: tuple[int, int, str, tuple[str, ...]], website: int = 0) -> None:
        """Add events as an import does: rows and stale marks in one transaction on another connection, no totals."""
        number = self.websites[website].number
        connection = open_database(self.path, create=False)
        connection.execute("pragma synchronous = off")
        try:
            with transaction(connection):
                facts = tuple((*fact[:3], with_channel(fact[3])) for fact in facts)
                days = {ts // DAY_MS for ts, *_ in facts}
                for day in sorted(days):
                    self._import_day(connection, number, [fact for fact in facts if fact[0] // DAY_MS == day])
                rollup_state.mark_stale(connection, number, sorted(days))
        finally:
            connection.close()

    def _import_day(
        self, connection: sqlite3.Connection, website: int, facts: Sequence[tuple[int, int, str, tuple[str, ...]]]
    ) -> None:
        labels = {text: label_of(connection, text) for text in {"", *(text for *_, texts in facts for text in texts)}}
        add_values(
            connection,
            {
                (website, field_number(field), labels[text])
                for *_, texts in facts
                for field, text in zip((*FIELDS, "event_name"), texts, strict=True)
                if text
            },
        )
        visitors: dict[str, int] = {}
        for *_, session, _ in facts:
            self._visitor += session not in visitors
            visitors.setdefault(session, self._visitor)
        # Below those of all other events; of equal times the later of `known` has the greater one.
        # Rows of stored days are deleted, so this does not follow from the file.
        ids = self._least_id = self._least_id - len(facts) - 1
        known = sorted(Fact(ts, type_, visitors[session], texts) for ts, type_, session, texts in facts)
        ordinals: defaultdict[int, int] = defaultdict(int)
        for visit in map(Visit, runs(known)):
            visitor = visit.facts[0].visitor
            ordinal, ordinals[visitor] = ordinals[visitor], ordinals[visitor] + 1
            source = [labels[text] for text in next(iter(of_visits([visit]))).texts]
            pages = [fact for fact in visit.facts if fact.type <= 1]
            values = {
                **{"website": website, "day": visit.begin_ms // DAY_MS, "visitor": visitor, "visit": ordinal},
                **{"start_ms": visit.begin_ms, "duration_ms": visit.ms, "pageviews": visit.views},
                **{"events": visit.events, "entry_page": labels[visit.pages[0]], "exit_page": labels[visit.pages[1]]},
                "entry_after_ms": pages[0].ts - visit.begin_ms if pages else 0,
                "exit_before_ms": visit.facts[-1].ts - pages[-1].ts if pages else 0,
                **{name: source[place] for name, place in zip(ACQUISITION, SOURCE, strict=True)},
                "acquired_after_ms": 0,
            }
            insert_row(connection, "visit", values)
            for fact in visit.facts:
                ids += 1
                self._sent[ids] = fact.texts[:-1]
                texts = dict(zip((*FIELDS, "event_name"), fact.texts, strict=True))
                values = {
                    **{"website": website, "ts": fact.ts, "id": ids, "type": fact.type, "visitor": visitor},
                    "visit": ordinal,
                    **{name: labels[texts[name]] for name in (*EVENT_FIELDS, "event_name")},
                }
                insert_row(connection, "event", values)

    # -- building

    def build(self, steps: int | None = None) -> bool:
        """Do the background work; return whether it was completed. After `steps` steps, end it and restart.

        Before each step the next function of `before_steps` runs.
        """
        self._steps = 1 << 60 if steps is None else steps
        try:
            run_inline(self.builder.work())
        except Killed:
            self.restart()
            return False
        return True

    def _before(self, step: str) -> None:
        if self._steps <= 0:
            raise Killed
        self._steps -= 1
        if self.before_steps:
            self.before_steps.pop(0)()

    def build_all(self) -> None:
        """Build everything after restarting so much later that every day and block is final."""
        self.advance(2 * 256 * DAY_MS)
        self.advance(2 * 256 * DAY_MS)
        self.restart()
        self.build()

    # -- reading

    def facts(self, website: int = 0) -> list[Fact]:
        """Return the stored traffic events, and those that retention has deleted."""
        number, found = self.websites[website].number, stored_facts(self.reader, self.websites[website].number)
        for fact in found:
            own = self._sent.get(fact.id)
            if own is not None:
                # The values that a row of event has are those that were sent.
                same = [FIELDS.index(name) for name in EVENT_FIELDS]
                assert [fact.texts[place] for place in same] == [own[place] for place in same]
                fact = fact._replace(texts=(*own, fact.texts[-1]))
            self._all_facts[fact.id] = number, fact
        return [fact for number_, fact in self._all_facts.values() if number_ == number]

    def reference(self, website: int = 0) -> Reference:
        """Return the reference implementation on the events of a website."""
        return Reference(self.facts(website))

    def query(self, question: Callable[[sqlite3.Connection], T]) -> T:
        """Return what a function returns that reads in one snapshot, as the server does."""
        self.reader.execute("begin")
        try:
            return question(self.reader)
        finally:
            self.reader.execute("rollback")

    def scope(self, from_ms: int, to_ms: int, filters: tuple[Filter, ...] = (), website: int = 0) -> Scope:
        return Scope(self.websites[website].number, from_ms, to_ms, filters)

    def stats(self, scope: Scope) -> Stats:
        return self.query(lambda connection: stats_report.stats(connection, scope, self.cache))

    def series(self, scope: Scope, edges: Sequence[tuple[int, int]]) -> list[tuple[int, int, int, int]]:
        found = self.query(lambda connection: stats_report.series(connection, scope, edges, self.cache))
        return [(row[0], row[1], row[2], row[3]) for row in found]

    def by_value(self, scope: Scope, field: str) -> dict[str, tuple[int, int, int]]:
        """Return visitors, pageviews and events of each value of a field; of event_name only those with one."""
        groups: defaultdict[str, list[Fact]] = defaultdict(list)
        for fact in self.facts_in(scope):
            groups[self.value(fact, field)].append(fact)
        if field == "event_name":
            groups.pop("", None)
        return {value: counted(facts) for value, facts in groups.items()}

    def by_page(self, scope: Scope, side: str) -> dict[str, tuple[int, int, int, int]]:
        """Return visits, bounces, pageviews and ms of each entry or exit page."""
        groups: defaultdict[str, list[Visit]] = defaultdict(list)
        for visit in self.visits_in(scope):
            groups[visit.pages[0 if side == "entry" else 1]].append(visit)
        return {page: visit_figures(visits) for page, visits in groups.items()}

    def top(self, scope: Scope, field: str, limit: int) -> tuple[tuple[int, ...], list[tuple[str, int, int, int]]]:
        queries = [top_report.TopQuery(field, limit)]
        (found,) = self.query(lambda connection: top_report.top(connection, scope, queries, self.cache))
        return tuple(found.unset.figures[:3]), [(row.value, *row.figures[:3]) for row in found.rows]

    def names(self, scope: Scope, limit: int) -> list[tuple[str, int, int]]:
        _, rows = self.top(scope, "event_name", limit)
        return [(text, visitors, events) for text, visitors, _, events in rows]

    def pages(self, scope: Scope, side: str, limit: int) -> tuple[int, list[tuple[str, int, int, int, int]]]:
        unset, found, _ = self.query(lambda run: visit_pages.pages(run, scope, f"{side}_page", limit, self.cache))
        return unset, [tuple(page) for page in found]

    def days(self, website: int = 0) -> dict[int, rollup_state.Day]:
        """Return the rows of `rollup_state` for days."""
        rows = self.reader.execute(
            "select block, state, is_over, version from rollup_state where website = ? and kind = 0 and level = 0",
            (self.websites[website].number,),
        )
        return {day: rollup_state.Day(*rest) for day, *rest in rows}


@contextmanager
def with_all_rows(connection: sqlite3.Connection, website: int) -> Iterator[None]:
    """Run a read transaction in which statements see the rows of stored days too."""
    with snapshot(connection):
        deleted_rows.show(connection, website, deleted_rows.without_rows(connection, website, 0, 1 << 32))
        yield


def keep_rows(connection: sqlite3.Connection) -> None:
    """Put the rows of all stored days back, and keep the builder from deleting them again."""
    with transaction(connection):
        for website in all_websites(connection):
            deleted_rows.reopen(
                connection,
                website.number,
                [
                    day
                    for (day,) in connection.execute(
                        "select day from packed_day where website = ?", (website.number,)
                    ).fetchall()
                ],
            )
        connection.execute("update packed_day set raw_rows = 2")


def stored_facts(connection: sqlite3.Connection, website: int) -> list[Fact]:
    """Return the traffic events in a file, each with the acquisition of its visit. `connection` reads only."""
    with with_all_rows(connection, website):
        return _stored_facts(connection, website)


def _stored_facts(connection: sqlite3.Connection, website: int) -> list[Fact]:
    text = dict(connection.execute("select id, text from label"))
    columns = ", ".join((*FIELDS, "event_name"))
    rows = connection.execute(
        f"select ts, type, visitor, id, event_data, {columns} from event join visit using (website, visitor, visit)"
        f" where website = ? and visit.day = ts / {DAY_MS}",
        (website,),
    )
    return [Fact(*row[:3], tuple(text[number] for number in row[5:]), *row[3:5]) for row in rows]


def insert_row(connection: sqlite3.Connection, table: str, values: dict[str, int]) -> None:
    """Insert a row."""
    marks = ", ".join("?" * len(values))
    connection.execute(f"insert into {table} ({', '.join(values)}) values ({marks})", list(values.values()))


def label_of(connection: sqlite3.Connection, text: str) -> int:
    """Return the number of a text, which is stored if it is new."""
    connection.execute("insert or ignore into label (text) values (?)", (text,))
    return int(connection.execute("select id from label where text = ?", (text,)).fetchone()[0])


def fill(path: Path, website: int, days: Sequence[int], events_a_day: int) -> None:
    """Insert events of old days, each of another visitor, with their visits; mark the days stale."""
    connection = open_database(path, create=False)
    connection.execute("pragma synchronous = off")
    with transaction(connection):
        rng = random.Random(website)
        paths = [label_of(connection, f"/{n}") for n in range(events_a_day)]
        systems = [label_of(connection, text) for text in ("Windows", "iOS", "Android")]
        # Ids of an import: below those that a server assigns, and unique to the website.
        id_ = -website * 100_000_000
        for day in days:
            for n in range(events_a_day):
                id_ -= 1
                ts, visitor = day * DAY_MS + rng.randrange(DAY_MS), rng.getrandbits(60)
                own = {"website": website, "visitor": visitor, "visit": 0}
                fields = dict.fromkeys((*EVENT_FIELDS, "event_name"), 0) | {"pathname": paths[n], "os": systems[n % 3]}
                insert_row(connection, "event", {**own, "ts": ts, "id": id_, "type": 0, **fields})
                times = {"day": day, "start_ms": ts, "duration_ms": 0, "pageviews": 1, "events": 0}
                rest = dict.fromkeys((*ACQUISITION, "entry_after_ms", "exit_before_ms", "acquired_after_ms"), 0)
                pages = dict.fromkeys(PAGES, paths[n])
                insert_row(connection, "visit", {**own, **times, **rest, **pages})
        rollup_state.mark_stale(connection, website, days)
    connection.close()


# --- the tables against raw rows


def table_errors(connection: sqlite3.Connection, website: int) -> list[str]:
    """Return where total_15m, rollup_block and rollup_state differ from what is counted from rows.

    Stale days and days whose raw events were deleted are not compared. `connection` reads only.
    """
    with with_all_rows(connection, website):
        return _table_errors(connection, website)


def _table_errors(connection: sqlite3.Connection, website: int) -> list[str]:
    wrong = []
    days = dict(
        connection.execute(
            "select block, state from rollup_state where website = ? and kind = 0 and level = 0", (website,)
        )
    )
    statement = f"select distinct ts / {DAY_MS} from event where website = ?"
    with_traffic = {day for (day,) in connection.execute(statement, (website,))}
    if not with_traffic <= days.keys():
        wrong.append(f"days missing in rollup_state: {with_traffic - days.keys()}")
    totals: defaultdict[int, quarter_totals.Totals] = defaultdict(dict)
    for quarter, *row in connection.execute(
        f"select quarter, {', '.join(quarter_totals.COLUMNS)} from total_15m where website = ?", (website,)
    ):
        if any(row):
            totals[quarter // 96][quarter] = row
    for day, state in days.items():
        if state not in (STALE, KEPT) and totals[day] != quarter_totals.count_day(connection, website, day):
            wrong.append(f"totals of day {day}: {totals[day]} {quarter_totals.count_day(connection, website, day)}")
    return wrong + _block_errors(connection, website, days)


def _block_errors(connection: sqlite3.Connection, website: int, days: dict[int, int]) -> list[str]:
    """Compare blocks whose events are all there with loops over the facts."""
    wrong = []
    reference, text = (
        Reference(_stored_facts(connection, website)),
        dict(connection.execute("select id, text from label")),
    )
    blocks = connection.execute(
        "select block from rollup_state where website = ? and kind = 0 and level = ? and state = 2",
        (website, BLOCK_LEVEL),
    ).fetchall()
    for (block,) in blocks:
        within = [day for day in range(block << BLOCK_LEVEL, (block + 1) << BLOCK_LEVEL) if day in days]
        if not within or any(days[day] not in FINAL for day in within):
            wrong.append(f"block {block} is built over days that are not final")
        if any(days[day] != rollup_state.FINAL for day in within):
            continue
        scope = Scope(website, (block << BLOCK_LEVEL) * DAY_MS, ((block + 1) << BLOCK_LEVEL) * DAY_MS)
        for field in (*FIELDS, "event_name"):
            counts = [*value_blocks.sums(connection, website, field_number(field), [(BLOCK_LEVEL, block)])]
            found = {text[row[0]]: tuple(row[1:]) for part in counts for row in part.T.tolist()}
            if found != reference.by_value(scope, field):
                wrong.append(f"values of {field} in block {block}")
        for side in ("entry", "exit"):
            counts = [*value_blocks.sums(connection, website, field_number(f"{side}_page"), [(BLOCK_LEVEL, block)])]
            found = {text[row[0]]: tuple(row[1:5]) for part in counts for row in part.T.tolist()}
            if found != reference.by_page(scope, side):
                wrong.append(f"{side} pages in block {block}")
    return wrong


def unfinished_work(connection: sqlite3.Connection, website: int) -> list[str]:
    """Return what the builder has not built or not deleted though every day is final; empty if it is correct."""
    left = []
    days = [
        day
        for (day,) in connection.execute(
            "select block from rollup_state where website = ? and kind = 0 and level = 0", (website,)
        )
    ]
    wanted = {(BLOCK_LEVEL, day >> BLOCK_LEVEL) for day in days}
    built = set(
        connection.execute(
            "select level, block from rollup_state where website = ? and kind = 0 and level > 0 and state = 2",
            (website,),
        )
    )
    left += [f"not built: {sorted(wanted - built)}"] if wanted - built else []
    left += [f"built over nothing: {sorted(built - wanted)}"] if built - wanted else []
    for what, statement in (
        (
            "days that are not final",
            "select block from rollup_state where website = ? and kind = 0 and level = 0 and state < 2",
        ),
        (
            "values of no block",
            "select level, block from rollup_block where website = ?1"
            " except select level, block from rollup_state where website = ?1 and kind = 0",
        ),
    ):
        rows = connection.execute(statement, (website,)).fetchall()
        left += [f"{what}: {rows}"] if rows else []
    return left


def pack_measurements(connection: sqlite3.Connection, source: int, days: Iterable[int], website: int = 1) -> None:
    """Replace the web vitals or experiment events of some days by columns, as the builder does."""
    for day in days:
        with snapshot(connection):
            packed = measurements.pack(connection, website, source, day)
        assert packed is not None
        with transaction(connection):
            assert measurement_days.store(connection, website, source, day, packed)
