"""A database file with the real writer and rollup builder but no server, and a plain second implementation.

`RollupHarness` is a SQLite file with the real EventWriter and RollupBuilder. Their connections have no threads
(`Hand`), so that a test may read, write or kill before any step of the builder. A step is one transaction, so a kill
within a step has the effect of a kill before it.

`Plain` is the second implementation. docs/reference/definitions.md: "Every figure about traffic is exact. Rollups and
caches give the same number as the plain query over raw events". It counts by loops over the rows of table `event`:
visits are computed from the times of events, and no total or rollup is read.
"""

import random
import sqlite3
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from tally.accounts.accounts import create_account
from tally.accounts.websites import Website, add_website, all_websites
from tally.clock import Clock
from tally.events.dimensions import FIELDS
from tally.events.identity import Salts
from tally.events.sessions import Sessions
from tally.events.validation import TYPES, Event
from tally.ingest.engine import PreparedEvent, WriteRequest
from tally.ingest.writer import EventWriter
from tally.maintenance.rollup_builder import RollupBuilder
from tally.reports import stats as stats_report
from tally.reports import top as top_report
from tally.reports import visit_pages
from tally.reports.cache import ResultCache
from tally.reports.stats import Stats
from tally.rollups import field_values, rollup_state
from tally.rollups import totals as quarter_totals
from tally.rollups import visit_pages as visit_pages_rollup
from tally.rollups.field_values import ALL
from tally.rollups.rollup_state import KEPT, LEVELS, OPEN, STALE
from tally.storage.connections import Thread
from tally.storage.database import connect_reader, open_database, transaction
from tally.storage.sql.events import Scope
from tests.support.app import NOON_MS, ManualClock

T = TypeVar("T")

MINUTE_MS = 60_000
QUARTER_MS = 15 * MINUTE_MS
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
LATE_MS = 72 * HOUR_MS  # at most 72 hours old
GAP_MS = 30 * MINUTE_MS  # a gap of exactly 30:00.000 joins
FINAL = range(rollup_state.FINAL, KEPT + 1)


# --- the second implementation


class Fact(NamedTuple):
    """A traffic event as it is stored; `texts` are the 14 fields and event_name. `id` decides among equal times."""

    ts: int
    type: int
    visitor: int
    texts: tuple[str, ...]
    id: int = 0


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


class Plain:
    """Every figure about some events, computed by loops."""

    def __init__(self, facts: Iterable[Fact]) -> None:
        self.facts = sorted(facts, key=lambda fact: (fact.ts, fact.id))
        self.visits = [Visit(run) for run in runs(self.facts)]

    def _chosen(self, scope: Scope) -> list[Fact]:
        return [fact for fact in self.facts if scope.from_ms <= fact.ts < scope.to_ms and _matches(fact, scope)]

    def _begun(self, scope: Scope) -> list[Visit]:
        """Return the visits that begin in the range and have a matching event in it."""
        return [
            visit
            for visit in self.visits
            if scope.from_ms <= visit.begin_ms < scope.to_ms
            and any(scope.from_ms <= fact.ts < scope.to_ms and _matches(fact, scope) for fact in visit.facts)
        ]

    def stats(self, scope: Scope) -> Stats:
        """Return the key figures of the matching events."""
        visits = self._begun(scope)
        bounces = sum(visit.views == 1 and visit.events == 0 for visit in visits)
        sums = (sum(visit.views for visit in visits), sum(visit.ms for visit in visits))
        return Stats(*counted(self._chosen(scope)), len(visits), bounces, *sums)

    def series(self, scope: Scope, edges: Sequence[tuple[int, int]]) -> list[tuple[int, int, int, int]]:
        """Return visitors, visits, pageviews and events of each bucket."""
        begins = [edge[0] for edge in edges]
        facts: defaultdict[int, list[Fact]] = defaultdict(list)
        visits: defaultdict[int, int] = defaultdict(int)
        for fact in self._chosen(scope):
            facts[bisect_right(begins, fact.ts) - 1].append(fact)
        for visit in self._begun(scope):
            visits[bisect_right(begins, visit.begin_ms) - 1] += 1
        rows = [(0, 0, 0, 0)] * len(edges)
        for n in facts.keys() | visits.keys():
            visitors, views, events = counted(facts[n])
            rows[n] = (visitors, visits[n], views, events)
        return rows

    def top(self, scope: Scope, field: str, limit: int) -> tuple[tuple[int, ...], list[tuple[str, int, int, int]]]:
        """Return the figures of events without a value, and the first rows."""
        groups: defaultdict[str, list[Fact]] = defaultdict(list)
        for fact in self._chosen(scope):
            groups[fact.texts[FIELDS.index(field)]].append(fact)
        unset = counted(groups.pop("", []))
        rows = [(value, *counted(facts)) for value, facts in groups.items()]
        return unset, sorted(rows, key=lambda row: (-row[1], -row[2], -row[3], row[0]))[:limit]

    def names(self, scope: Scope, limit: int) -> list[tuple[str, int, int]]:
        """Return the first names of custom events with visitors and events."""
        groups: defaultdict[str, list[Fact]] = defaultdict(list)
        for fact in self._chosen(scope):
            if fact.type >= 2 and fact.texts[len(FIELDS)]:
                groups[fact.texts[len(FIELDS)]].append(fact)
        rows = [(name, len({fact.visitor for fact in facts}), len(facts)) for name, facts in groups.items()]
        return sorted(rows, key=lambda row: (-row[1], -row[2], row[0]))[:limit]

    def pages(self, scope: Scope, side: str, limit: int) -> tuple[int, list[tuple[str, int, int, int, int]]]:
        """Return how many visits have no pageview, and the first pages with visits, bounces, pageviews and ms."""
        groups: defaultdict[str, list[Visit]] = defaultdict(list)
        for visit in self._begun(scope):
            shown = [fact.texts[0] for fact in visit.facts if fact.type <= 1]
            groups[shown[0 if side == "entry" else -1] if shown else ""].append(visit)
        unset = len(groups.pop("", []))
        rows = [
            (
                page,
                len(visits),
                sum(visit.views == 1 and visit.events == 0 for visit in visits),
                sum(visit.views for visit in visits),
                sum(visit.ms for visit in visits),
            )
            for page, visits in groups.items()
        ]
        return unset, sorted(rows, key=lambda row: (-row[1], row[0]))[:limit]

    def funnel(self, scope: Scope, steps: Sequence[tuple[str, str]]) -> list[tuple[int, int, int]]:
        """Return visits, visitors and milliseconds since the step before of each step (field, text)."""
        found: list[list[tuple[int, int]]] = [[] for _ in steps]
        for visit in self._begun(scope):
            n, before_ms = 0, visit.begin_ms
            for fact in visit.facts:
                if n < len(steps) and _meets(fact, *steps[n]):
                    found[n].append((fact.visitor, fact.ts - before_ms if n else 0))
                    n, before_ms = n + 1, fact.ts
        return [(len(of), len({who for who, _ in of}), sum(ms for _, ms in of)) for of in found]


def counted(facts: Sequence[Fact]) -> tuple[int, int, int]:
    """Return visitors, pageviews and events."""
    views = sum(fact.type <= 1 for fact in facts)
    return len({fact.visitor for fact in facts}), views, len(facts) - views


class Dated(Protocol):
    """An event with a time and a visitor."""

    @property
    def ts(self) -> int: ...

    @property
    def visitor(self) -> int: ...


E = TypeVar("E", bound=Dated)


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


def _meets(fact: Fact, field: str, text: str) -> bool:
    if field == "pathname":
        return fact.type <= 1 and fact.texts[0] == text
    return fact.type >= 2 and fact.texts[len(FIELDS)] == text


def _matches(fact: Fact, scope: Scope) -> bool:
    names = (*FIELDS, "event_name")
    return all(
        (TYPES[fact.type] if field == "type" else fact.texts[names.index(field)]) in values
        for field, values in scope.filters
    )


# --- the database file


class Killed(BaseException):
    """The process was killed. Not an Exception, so that nothing handles it."""


class Hand:
    """A connection with the interface of a Thread, whose steps run in the calling thread after `before` was called."""

    def __init__(self, connection: sqlite3.Connection, before: Callable[[str], None]) -> None:
        self._conn = connection
        self._before = before
        self.most_written = 0
        """The most rows that one step wrote."""

    begin_snapshot = Thread.begin_snapshot

    async def run(self, step: Callable[[sqlite3.Connection], T]) -> T:
        self._before(step.__qualname__)
        written = self._conn.total_changes
        result = step(self._conn)
        self.most_written = max(self.most_written, self._conn.total_changes - written)
        return result


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that awaits nothing but its turn, and return its result."""
    try:
        while True:
            work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result


def make_file(path: Path, websites: int = 2) -> None:
    """Create a database with an account and some websites."""
    connection = open_database(path, create=True)
    with transaction(connection):
        owner = create_account(connection, "owner@example.com", "business", None, 0)
        for number in range(websites):
            add_website(connection, owner, f"{number}.example.com", "", (), number)
    connection.close()  # empties the log, so that the file alone can be copied


class RollupHarness:
    """A database file with a writer, a builder and a reader; `restart` discards what a server has in memory."""

    def __init__(self, path: Path, clock: Clock | None = None, identities: int = 1_000) -> None:
        self.path, self.identities = path, identities
        self.clock = clock or ManualClock(NOON_MS)
        self.websites: list[Website] = []
        self.meanwhile: list[Callable[[], None]] = []
        self.most_written = 0
        self._gone: dict[int, tuple[int, Fact]] = {}
        self._visitor = 0
        self._open()

    def _open(self) -> None:
        self.writer, self.looker, self.reader = (
            open_database(self.path, create=False),
            connect_reader(self.path),
            connect_reader(self.path),
        )
        # What is tested survives a kill, not a power loss. With fsync most of the time would go to the disk.
        self.writer.execute("pragma synchronous = off")
        self.websites = all_websites(self.writer)
        self.salts, self.sessions = Salts(), Sessions(self.identities)
        self.ingest = EventWriter(self.sessions, lambda plan: None, self.clock)
        self.ingest.start(self.writer)
        self.remembered = ResultCache()
        self._hands = (Hand(self.writer, self._before), Hand(self.looker, self._before))
        self.builder = RollupBuilder(*self._hands, self.clock, rest=0)  # type: ignore[arg-type]
        self._steps = 0
        # A visitor number belongs to one day and is never used again.
        brought = "select coalesce(max(visitor), 0) from event where id < 0"
        self._visitor = max(self._visitor, self.writer.execute(brought).fetchone()[0])

    def close(self) -> None:
        """Close the file, whatever is in progress."""
        self.most_written = max(self.most_written, self._hands[0].most_written)
        for connection in (self.looker, self.reader, self.writer):
            connection.close()

    def restart(self) -> None:
        """Close and open again, as after a kill."""
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
        """Commit a group of traffic events (ts, type, session, the 14 fields and event_name), perhaps with event_data,
        as a server does."""
        now_ms, site = self.now_ms, self.websites[website]
        rows = [
            PreparedEvent(
                site,
                Event(type_, ts, event_name=texts[14], event_data=own),
                texts[:14],
                self.salts.session_identity(site.number, ts, session),
            )
            for (ts, type_, session, texts), own in zip(facts, data or [None] * len(facts), strict=True)
        ]
        # Two jobs, as of two requests in one group.
        jobs = [WriteRequest(part, now_ms) for part in (rows[::2], rows[1::2]) if part]
        self.ingest.write(self.writer, jobs)

    def bring(self, *facts: tuple[int, int, str, tuple[str, ...]], website: int = 0) -> None:
        """Add events as an import does: rows and stale marks in one transaction on another connection, no deltas."""
        number = self.websites[website].number
        connection = open_database(self.path, create=False)
        connection.execute("pragma synchronous = off")
        try:
            with transaction(connection):
                days = {ts // DAY_MS for ts, *_ in facts}
                for day in sorted(days):
                    self._bring_day(connection, number, [fact for fact in facts if fact[0] // DAY_MS == day])
                rollup_state.mark_stale(connection, number, sorted(days))
        finally:
            connection.close()

    def _bring_day(
        self, connection: sqlite3.Connection, website: int, facts: Sequence[tuple[int, int, str, tuple[str, ...]]]
    ) -> None:
        labels = {text: label_of(connection, text) for *_, texts in facts for text in texts}
        visitors: dict[str, int] = {}
        for *_, session, _ in facts:
            self._visitor += session not in visitors
            visitors.setdefault(session, self._visitor)
        ids = int(connection.execute("select min(coalesce(min(id), 0), 0) from event").fetchone()[0])
        known = sorted(Fact(ts, type_, visitors[session], texts) for ts, type_, session, texts in facts)
        ordinals: defaultdict[int, int] = defaultdict(int)
        for visit in map(Visit, runs(known)):
            visitor = visit.facts[0].visitor
            ordinal, ordinals[visitor] = ordinals[visitor], ordinals[visitor] + 1
            row = (website, visit.begin_ms, visitor, ordinal, visit.ms, visit.views, visit.events)
            connection.execute("insert into visit values (?, ?, ?, ?, ?, ?, ?)", row)
            for fact in visit.facts:
                ids -= 1
                values = (website, fact.ts, ids, fact.type, visitor, ordinal, *(labels[text] for text in fact.texts))
                connection.execute(f"insert into event values ({', '.join('?' * 21)}, null)", values)

    # -- building

    def build(self, steps: int | None = None) -> bool:
        """Do the background work, or kill and start it again after some steps; return whether it ended.

        Before each step the next function of `meanwhile` runs.
        """
        self._steps = 1 << 60 if steps is None else steps
        try:
            at_once(self.builder.work())
        except Killed:
            self.restart()
            return False
        return True

    def _before(self, step: str) -> None:
        if self._steps <= 0:
            raise Killed
        self._steps -= 1
        if self.meanwhile:
            self.meanwhile.pop(0)()

    def build_all(self) -> None:
        """Build everything after restarting so much later that every day and block is final."""
        self.advance(2 * 256 * DAY_MS)
        self.advance(2 * 256 * DAY_MS)
        self.restart()
        self.build()

    # -- reading

    def facts(self, website: int = 0) -> list[Fact]:
        """Return the traffic that is stored, or was before retention deleted it."""
        names = ", ".join(
            f"(select text from label where label.id = event.{field})" for field in (*FIELDS, "event_name")
        )
        number = self.websites[website].number
        rows = self.reader.execute(f"select id, ts, type, visitor, {names} from event where website = ?", (number,))
        self._gone |= {row[0]: (number, Fact(*row[1:4], row[4:], row[0])) for row in rows}
        return [fact for number_, fact in self._gone.values() if number_ == number]

    def plain(self, website: int = 0) -> Plain:
        """Return the second implementation over the events of a website."""
        return Plain(self.facts(website))

    def ask(self, question: Callable[[sqlite3.Connection], T]) -> T:
        """Run a query in a snapshot, as the server does."""
        self.reader.execute("begin")
        try:
            return question(self.reader)
        finally:
            self.reader.execute("rollback")

    def scope(
        self, from_ms: int, to_ms: int, filters: tuple[tuple[str, tuple[str, ...]], ...] = (), website: int = 0
    ) -> Scope:
        return Scope(self.websites[website].number, from_ms, to_ms, filters)

    def stats(self, scope: Scope) -> Stats:
        return self.ask(lambda connection: stats_report.stats(connection, scope, self.remembered))

    def series(self, scope: Scope, edges: Sequence[tuple[int, int]]) -> list[tuple[int, int, int, int]]:
        found = self.ask(lambda connection: stats_report.series(connection, scope, edges, self.remembered))
        return [(row[0], row[1], row[2], row[3]) for row in found]

    def top(self, scope: Scope, field: str, limit: int) -> tuple[tuple[int, ...], list[tuple[str, int, int, int]]]:
        found = self.ask(lambda connection: top_report.top(connection, scope, field, limit, self.remembered))
        return tuple(found.unset), found.rows

    def names(self, scope: Scope, limit: int) -> list[tuple[str, int, int]]:
        return self.ask(lambda connection: top_report.names(connection, scope, limit, self.remembered))

    def pages(self, scope: Scope, side: str, limit: int) -> tuple[int, list[tuple[str, int, int, int, int]]]:
        unset, found = self.ask(lambda run: visit_pages.pages(run, scope, side, limit, self.remembered))
        return unset, [tuple(page) for page in found]

    def days(self, website: int = 0) -> dict[int, rollup_state.Day]:
        """Return the rows of `rollup_state` for days."""
        rows = self.reader.execute(
            "select block, state, rolled_up_to_ms, version from rollup_state where website = ? and level = 0",
            (self.websites[website].number,),
        )
        return {day: rollup_state.Day(*rest) for day, *rest in rows}


def label_of(connection: sqlite3.Connection, text: str) -> int:
    """Return the number of a text, which is stored if it is new."""
    connection.execute("insert or ignore into label (text) values (?)", (text,))
    return int(connection.execute("select id from label where text = ?", (text,)).fetchone()[0])


def fill(path: Path, website: int, days: Sequence[int], events_a_day: int) -> None:
    """Insert events of old days with their visits by plain SQL, each of another visitor; mark the days stale."""
    connection = open_database(path, create=False)
    connection.execute("pragma synchronous = off")
    with transaction(connection):
        chance = random.Random(website)
        paths = [label_of(connection, f"/{n}") for n in range(events_a_day)]
        systems = [label_of(connection, text) for text in ("Windows", "iOS", "Android")]
        # Ids of an import: below those that a server assigns, and unique to the website.
        id_ = -website * 100_000_000
        for day in days:
            for n in range(events_a_day):
                id_ -= 1
                ts, visitor = day * DAY_MS + chance.randrange(DAY_MS), chance.getrandbits(60)
                row = (website, ts, id_, 0, visitor, 0, paths[n], 0, 0, 0, systems[n % 3], *([0] * 10))
                connection.execute(f"insert into event values ({', '.join('?' * 21)}, null)", row)
                connection.execute("insert into visit values (?, ?, ?, 0, 0, 1, 0)", (website, ts, visitor))
        rollup_state.mark_stale(connection, website, days)
    connection.close()


# --- the tables against raw rows

Values = dict[tuple[int, int, int], dict[int, tuple[int, ...]]]
"""(field, level, block) -> value -> visitors, views, events."""


def wrong_tables(connection: sqlite3.Connection, website: int) -> list[str]:
    """Return where total_15m, rollup and rollup_state differ from what count_day of totals and field_values counts.

    Stale days are left out, and so are days whose raw rows were deleted.
    """
    wrong = []
    days = {
        day: (state, folded_ms)
        for day, state, folded_ms in connection.execute(
            "select block, state, rolled_up_to_ms from rollup_state where website = ? and level = 0", (website,)
        )
    }
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
    values: Values = defaultdict(dict)
    for field, level, block, value, *row in connection.execute(
        "select field, level, block, value, visitors, pageviews, events from rollup where website = ?", (website,)
    ):
        values[field, level, block][value] = tuple(row)
    for day, (state, folded_ms) in days.items():
        if state in (STALE, KEPT):
            continue
        if totals[day] != quarter_totals.count_day(connection, website, day):
            wrong.append(f"totals of day {day}: {totals[day]} {quarter_totals.count_day(connection, website, day)}")
        for field in range(ALL + 1):
            want = field_values.count_day(connection, website, day, field, folded_ms if state == OPEN else None)
            if values[field, 0, day] != {value: tuple(row) for value, *row in want}:
                wrong.append(f"values of {field_values.field_name(field)} on day {day}")
    wrong += _wrong_blocks(connection, website, days, values)
    for level, block in visit_pages_rollup.built(connection, website, sorted(days)):
        of_days = {state for day, (state, _) in days.items() if day >> level == block}
        if not of_days <= set(FINAL):
            wrong.append(f"pages of block {block} of level {level} are built over days that are not final")
        if (level or of_days != {KEPT}) and not visit_pages_rollup.is_correct(connection, website, level, block):
            wrong.append(f"pages in block {block} of level {level}")
    return wrong


def _wrong_blocks(
    connection: sqlite3.Connection, website: int, days: dict[int, tuple[int, int]], values: Values
) -> list[str]:
    wrong = []
    blocks = connection.execute(
        "select level, block from rollup_state where website = ? and level > 0", (website,)
    ).fetchall()
    for level, block in blocks:
        within = [day for day in range(block << level, (block + 1) << level) if day in days]
        if not within or any(days[day][0] not in FINAL for day in within):
            wrong.append(f"block {block} of level {level} is built over days that are not final")
        for field in range(ALL + 1):
            sums: dict[int, tuple[int, ...]] = {}
            for day in within:
                for value, row in values[field, 0, day].items():
                    sums[value] = tuple(map(sum, zip(row, sums.get(value, (0, 0, 0)), strict=True)))
            if values[field, level, block] != sums:
                wrong.append(f"values of {field_values.field_name(field)} in block {block} of level {level}")
    return wrong


def left_over(connection: sqlite3.Connection, website: int) -> list[str]:
    """Return what is still to be built or deleted once everything is final; empty where the builder is right."""
    left = []
    days = [
        day
        for (day,) in connection.execute("select block from rollup_state where website = ? and level = 0", (website,))
    ]
    wanted = {(level, day >> level) for day in days for level in LEVELS[1:]}
    built = set(connection.execute("select level, block from rollup_state where website = ? and level > 0", (website,)))
    left += [f"not built: {sorted(wanted - built)}"] if wanted - built else []
    left += [f"built over nothing: {sorted(built - wanted)}"] if built - wanted else []
    unbuilt = {(level, day >> level) for day in days for level in (3, 6)} - visit_pages_rollup.built(
        connection, website, days
    )
    left += [f"pages not built: {sorted(unbuilt)}"] if unbuilt else []
    for what, statement in (
        ("days that are not final", "select block from rollup_state where website = ? and level = 0 and state < 2"),
        (
            "values of visitors",
            "select day from open_day_visitor_value where website = ?1"
            " union select day from open_day_visitor where website = ?1",
        ),
        (
            "pages of no block",
            "select level, block from visit_page as page where website = ?1 and not exists (select 1 from visit_page"
            " as own where own.website = ?1 and own.level = page.level and own.block = page.block and own.value = 0)",
        ),
        (
            "values of no block",
            "select distinct level, block from rollup where website = ?1 and not exists"
            " (select 1 from rollup_state where website = ?1 and rollup_state.level = rollup.level"
            " and rollup_state.block = rollup.block)",
        ),
    ):
        rows = connection.execute(statement, (website,)).fetchall()
        left += [f"{what}: {rows}"] if rows else []
    return left
