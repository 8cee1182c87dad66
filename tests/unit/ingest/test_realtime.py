"""tally/sqlite/realtime.py: realtime figures in memory against a plain reference over the stored rows.

The rules are in docs/reference/read-api.md, Realtime. Events are written by tally/sqlite/writer.py into a real
database; each test decides when snapshots are read and when commits are handed over. Over HTTP:
tests/api/test_read_realtime.py.
"""

import sqlite3
import tracemalloc
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tally.engine.ingest import PreparedEvent, WriteRequest
from tally.events.dimensions import EVENT_FIELDS, FIELDS
from tally.events.sessions import Sessions
from tally.events.validation import Event
from tally.events.visits import VISIT_GAP_MS, Visit
from tally.events.website import Website
from tally.sqlite.realtime import (
    ASKED_MS,
    LONGEST_TEXT,
    MAX_PAGES,
    MAX_TEXTS,
    WINDOW_MS,
    Present,
    Realtime,
    Seen,
    Watch,
    most_visited,
    read_snapshot,
)
from tally.sqlite.writer import EventWriter
from tally.storage.database import open_database
from tally.storage.sql import events as sql
from tally.timestamps import DAY_MS
from tests.support.app import ManualClock
from tests.support.cases import cases
from tests.support.selection import examples

MINUTE_MS = 60_000
MIDNIGHT_MS = 20_775 * DAY_MS  # 2026-11-18
NOON_MS = MIDNIGHT_MS + DAY_MS // 2
W, OTHER = 1, 2
SITES = {n: Website(n, f"site-{n}", "example.com", "", 0, 1, "business", frozenset()) for n in range(1, 9)}
NO_OFFSETS = dict.fromkeys(SITES, 0)
PAGEVIEW, CUSTOM = 0, 2

Answer = tuple[int, list[tuple[str, int]]]
"""The number of active visitors, and the pages with their visitors."""


class Sent(NamedTuple):
    """An event to send: its time, path (empty for a custom event), visitor and website."""

    ts_ms: int
    path: str = ""
    visitor_id: str = "ann"
    website: int = W


def row(sent: Sent) -> PreparedEvent:
    event = Event(PAGEVIEW if sent.path else CUSTOM, sent.ts_ms, event_name="" if sent.path else "signup")
    identity = f"{sent.website} {sent.visitor_id} {sent.ts_ms // DAY_MS}".encode()
    return PreparedEvent(SITES[sent.website], event, (sent.path or "/elsewhere", *[""] * (len(FIELDS) - 1)), identity)


def reference(connection: sqlite3.Connection, website: int, now_ms: int) -> Answer:
    """Return the answer by its definition, over all rows; visits are computed without the column `visit`."""
    rows = connection.execute(
        "select visitor, ts, event.id, type <= 1, text from event join label on label.id = pathname"
        " where website = ? and ts <= ? order by ts, event.id",
        (website, now_ms),
    )
    visits: dict[int, list[list[tuple[Any, ...]]]] = {}
    for visitor, *event in rows:
        own = visits.setdefault(visitor, [])
        if not own or event[0] - own[-1][-1][0] > VISIT_GAP_MS:
            own.append([])
        own[-1].append(tuple(event))
    active: set[int] = set()
    pages: dict[str, set[int]] = {}
    for visitor, own in visits.items():
        for visit in own:
            if any(ts >= now_ms - 300_000 for ts, *_ in visit):
                active.add(visitor)
                for _, _, _, path in [event for event in visit if event[2]][-1:]:
                    pages.setdefault(path, set()).add(visitor)
    listed = sorted(((path, len(visitors)) for path, visitors in pages.items()), key=lambda page: (-page[1], page[0]))
    return len(active), listed[:100]


class RealtimeDatabase:
    """A writer with its database and the realtime figures; commits are handed over at once, or when published."""

    def __init__(
        self, connection: sqlite3.Connection, live: Realtime, now_ms: int = NOON_MS, identities: int = 100
    ) -> None:
        self.connection, self.live, self.now_ms = connection, live, now_ms
        self.ingest = EventWriter(Sessions(identities), lambda plan: None, ManualClock(now_ms))
        self.ingest.start(connection)
        self.unpublished: deque[dict[tuple[int, int, int], Visit]] = deque()
        self.watches: dict[int, Watch] = {}
        self.seen: dict[int, Seen] = {}

    def commit(self, *events: Sent) -> None:
        jobs = [WriteRequest([row(event) for event in events], self.now_ms)]
        self.unpublished.append(self.ingest.write(self.connection, jobs).visits)

    def publish(self) -> None:
        while self.unpublished:
            self.live.hand_over(self.unpublished.popleft(), NO_OFFSETS)

    def send(self, *events: Sent) -> None:
        self.commit(*events)
        self.publish()

    def begin(self, website: int = W) -> None:
        watch = self.live.begin(website, self.now_ms)
        if watch is not None:
            self.watches[website] = watch
            self.seen.pop(website, None)

    def look(self, website: int = W) -> None:
        self.seen[website] = read_snapshot(self.connection, website, self.now_ms, website in self.watches)

    def fill(self, website: int = W) -> None:
        if website in self.watches and website in self.seen:
            self.live.fill(website, self.watches.pop(website), self.seen.pop(website))

    def load(self, website: int = W) -> None:
        self.begin(website)
        self.look(website)
        self.fill(website)

    def with_texts(self, present: Present) -> Answer:
        """Return the answer; texts that are not cached are read from the database."""
        texts = self.live.texts(present)
        missing = [page for page, _ in present.pages if page not in texts]
        found = self.connection.execute(*sql.texts(missing)).fetchall()
        self.live.learn(found)
        return present.active, most_visited(present, texts | dict(found))

    def from_memory(self, website: int = W) -> Answer | None:
        """Return the answer from memory, or None."""
        present = self.live.present(website, self.now_ms)
        return None if present is None else self.with_texts(present)

    def from_database(self, website: int = W) -> Answer:
        """Return the answer from the database."""
        return self.with_texts(read_snapshot(self.connection, website, self.now_ms, False).present)

    def reference(self, website: int = W) -> Answer:
        return reference(self.connection, website, self.now_ms)


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    """Return a database as the product creates it."""
    connection = open_database(tmp_path_factory.mktemp("live") / "analytics.db", create=True)
    yield connection
    connection.close()


@pytest.fixture
def connection(empty: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Return a copy in memory, for one test."""
    copy = copied(empty)
    yield copy
    copy.close()


def copied(empty: sqlite3.Connection) -> sqlite3.Connection:
    copy = sqlite3.connect(":memory:", isolation_level=None)
    empty.backup(copy)
    return copy


@pytest.fixture
def database(connection: sqlite3.Connection) -> RealtimeDatabase:
    return RealtimeDatabase(connection, Realtime())


def ago(seconds: float) -> int:
    return NOON_MS - round(seconds * 1000)


# --- what a commit changes

# (id, events stored before the website is watched, groups committed afterwards, expected answer)
COMMITS: list[tuple[str, list[Sent], list[list[Sent]], Answer]] = [
    ("a-view", [], [[Sent(ago(0), "/a")]], (1, [("/a", 1)])),
    ("a-custom-event", [], [[Sent(ago(0))]], (1, [])),
    ("goes-on", [Sent(ago(9), "/a")], [[Sent(ago(0), "/b")]], (1, [("/b", 1)])),
    ("stays", [Sent(ago(9), "/a")], [[Sent(ago(0))]], (1, [("/a", 1)])),
    ("late-view-before-the-latest", [Sent(ago(9), "/a")], [[Sent(ago(10), "/b")]], (1, [("/a", 1)])),
    ("late-view-after-the-latest", [Sent(ago(9), "/a"), Sent(ago(1))], [[Sent(ago(8), "/b")]], (1, [("/b", 1)])),
    ("same-moment", [Sent(ago(9), "/a")], [[Sent(ago(9), "/b")]], (1, [("/b", 1)])),
    ("same-moment-of-one-group", [], [[Sent(ago(9), "/a"), Sent(ago(9), "/b")]], (1, [("/b", 1)])),
    ("view-before-the-window", [Sent(ago(900), "/a")], [[Sent(ago(0))]], (1, [("/a", 1)])),
    ("view-just-before-the-window", [Sent(ago(300.001), "/a"), Sent(ago(0))], [], (1, [("/a", 1)])),
    ("view-30-minutes-before-the-window", [Sent(ago(2100), "/a"), Sent(ago(300))], [], (1, [("/a", 1)])),
    ("view-of-the-visit-before", [Sent(ago(2100.001), "/a"), Sent(ago(300))], [], (1, [])),
    ("late-view-before-the-window", [Sent(ago(9))], [[Sent(ago(900), "/a")]], (1, [("/a", 1)])),
    ("on-the-edge", [], [[Sent(ago(300), "/a"), Sent(ago(300.001), "/b", "bob")]], (1, [("/a", 1)])),
    ("of-a-visit-that-is-over", [Sent(ago(9), "/a")], [[Sent(ago(4000), "/b")]], (1, [("/a", 1)])),
    ("a-new-visit-has-no-page-yet", [Sent(ago(3000), "/a")], [[Sent(ago(0))]], (1, [])),
    # 50:00 and 0:09 ago are two visits, 25:00 ago joins them
    ("joined-with-its-page", [Sent(ago(3000), "/a"), Sent(ago(9))], [[Sent(ago(1500))]], (1, [("/a", 1)])),
    ("joined-by-a-view", [Sent(ago(3000), "/a"), Sent(ago(9))], [[Sent(ago(1500), "/b")]], (1, [("/b", 1)])),
    ("joined-keeps-the-later", [Sent(ago(3000), "/a"), Sent(ago(9), "/b")], [[Sent(ago(1500))]], (1, [("/b", 1)])),
    ("joined-the-later-came-first", [Sent(ago(9), "/b"), Sent(ago(3000), "/a")], [[Sent(ago(1500))]], (1, [("/b", 1)])),
    ("joined-twice", [Sent(ago(5000), "/a"), Sent(ago(3300)), Sent(ago(9))],
        [[Sent(ago(1600))], [Sent(ago(4000))]], (1, [("/a", 1)])),
    ("others", [Sent(ago(9), "/a", "bob")], [[Sent(ago(0), "/a"), Sent(ago(0), "/b", "cat")]],
        (3, [("/a", 2), ("/b", 1)])),
    ("another-website", [Sent(ago(9), "/a")], [[Sent(ago(0), "/b", "ann", OTHER)]], (1, [("/a", 1)])),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after", "expected"), [c[1:] for c in COMMITS], ids=[c[0] for c in COMMITS])
def test_effects_of_a_commit(
    database: RealtimeDatabase, before: list[Sent], after: list[list[Sent]], expected: Answer
) -> None:
    """A committed event is in every later answer, by the commits handed over alone."""
    database.send(*before)
    database.load()
    for group in after:
        database.send(*group)
    assert database.from_memory() == expected
    assert database.from_database() == database.reference() == expected


ORDERS = [
    order.split()
    for order in (
        "begin commit publish look fill",
        "begin commit look publish fill",
        "begin commit look fill publish",
        "begin look commit publish fill",
        "begin look commit fill publish",
        "begin look fill commit publish",
        "commit begin look fill publish",
        "commit begin look publish fill",
        "commit begin publish look fill",
        "commit publish begin look fill",
    )
]


@cases("order", ORDERS, ids="-".join)
@cases(("before", "after", "expected"), [c[1:] for c in COMMITS], ids=[c[0] for c in COMMITS])
def test_commits_while_a_snapshot_is_read(
    empty: sqlite3.Connection, order: list[str], before: list[Sent], after: list[list[Sent]], expected: Answer
) -> None:
    """A commit counts once, whether it is in the snapshot or comes after it."""
    database = RealtimeDatabase(copied(empty), Realtime())
    steps: dict[str, Callable[[], None]] = {"begin": database.begin, "look": database.look, "fill": database.fill}
    steps |= {"publish": database.publish}
    database.send(*before)
    for step in order:
        if step == "commit":
            for group in after:
                database.commit(*group)
        else:
            steps[step]()
    assert database.from_memory() == database.reference() == expected
    database.connection.close()


def test_visitors_leave(database: RealtimeDatabase) -> None:
    """A visitor is active for exactly 300 seconds after the last event."""
    database.load()
    database.send(*(Sent(NOON_MS + n, f"/{n}", f"{n}") for n in (-1500, -999, -1, 0)))
    database.now_ms += 298_500
    database.send(Sent(database.now_ms, "/on", "-999"))
    assert database.from_memory() == (4, [("/-1", 1), ("/-1500", 1), ("/0", 1), ("/on", 1)])
    for now_ms, active in (
        (NOON_MS + 299_998, 3),
        (NOON_MS + 299_999, 3),
        (NOON_MS + 300_000, 2),
        (NOON_MS + 300_001, 1),
    ):
        database.now_ms = now_ms
        assert database.from_memory() == database.reference()
        assert database.live.visitors == active
    database.now_ms += 298_500
    assert database.from_memory() == (0, [])
    assert database.live.visitors == 0


def test_a_visit_that_began_before_the_window(database: RealtimeDatabase) -> None:
    """If the latest pageview is hours before the window, its visit is read back to it."""
    database.send(Sent(ago(9 * 3600), "/early"), Sent(ago(9 * 3600), "", "bob"))
    database.send(*(Sent(ago(n * 1800), "", visitor_id) for n in range(18) for visitor_id in ("ann", "bob")))
    database.send(Sent(ago(1800.001), "/other", "cat"), Sent(ago(0), "", "cat"))
    database.load()
    assert database.from_memory() == database.from_database() == database.reference() == (3, [("/early", 1)])


def test_midnight(connection: sqlite3.Connection) -> None:
    """A visit that is open at midnight UTC counts as two."""
    database = RealtimeDatabase(connection, Realtime(), MIDNIGHT_MS - 1)
    database.send(Sent(MIDNIGHT_MS - 20 * MINUTE_MS, "/before"), Sent(MIDNIGHT_MS - 1))
    database.load()
    database.now_ms = MIDNIGHT_MS + MINUTE_MS
    database.send(Sent(database.now_ms))
    assert database.from_memory() == database.reference() == (2, [("/before", 1)])


# --- when figures come from the database


@pytest.mark.parametrize(("back_ms", "is_kept"), [(0, True), (1, False), (MINUTE_MS, False), (3_600_000, False)])
def test_a_clock_set_back(database: RealtimeDatabase, back_ms: int, is_kept: bool) -> None:
    """Events later than now are not counted, and visitors who left later are: the database is read."""
    database.send(Sent(ago(299), "/old", "bob"))
    database.load()
    database.send(Sent(NOON_MS, "/new"))
    database.now_ms = NOON_MS - back_ms
    assert (database.from_memory() is not None) is is_kept
    assert database.from_database() == database.reference()
    database.now_ms = NOON_MS
    assert database.from_memory() == database.reference() == (2, [("/new", 1), ("/old", 1)])


def test_a_clock_set_back_after_a_sweep(database: RealtimeDatabase) -> None:
    """Visitors removed by a sweep may have been active at an earlier time, so the database is read."""
    database.send(Sent(ago(299), "/old"))
    database.load()
    database.live.sweep(NOON_MS + 1001)
    assert database.from_memory() is None
    database.now_ms += 1001
    assert database.from_memory() == (0, [])


@pytest.mark.parametrize(("later_ms", "is_kept"), [(MINUTE_MS, True), (MINUTE_MS + 1, False)])
def test_rows_later_than_now(database: RealtimeDatabase, later_ms: int, is_kept: bool) -> None:
    """Events up to a minute ahead may have arrived during the read; others mean a clock that was set back."""
    database.send(Sent(NOON_MS + later_ms, "/later"), Sent(NOON_MS, "/now", "bob"))
    database.load()
    assert database.from_memory() is None
    assert database.from_database() == database.reference() == (1, [("/now", 1)])
    database.now_ms += later_ms
    assert database.from_memory() == ((2, [("/later", 1), ("/now", 1)]) if is_kept else None)


def test_unqueried_websites_are_released(database: RealtimeDatabase) -> None:
    """Memory is released two minutes after the last query, by a clock set back too."""
    database.send(Sent(NOON_MS, "/a"))
    for moved_ms, is_kept in ((ASKED_MS, True), (ASKED_MS + 1, False), (-ASKED_MS - 1, False)):
        database.load()
        assert database.from_memory() is not None
        database.live.sweep(database.now_ms + moved_ms)
        assert (database.live.visitors == 1) is is_kept
        database.live.clear()
    database.load()
    database.now_ms += ASKED_MS
    assert database.from_memory() is not None
    database.live.sweep(database.now_ms + ASKED_MS)
    assert database.live.visitors == 1


def test_writes_of_another_process(database: RealtimeDatabase) -> None:
    """All figures are dropped, and so is a snapshot that was read before."""
    database.send(Sent(NOON_MS, "/a"))
    database.load()
    database.live.clear()
    assert database.from_memory() is None
    database.begin()
    database.look()
    database.live.clear()
    database.fill()
    assert database.from_memory() is None
    database.begin()
    database.look()
    old = database.watches[W]
    database.live.clear()
    database.begin()
    database.live.fill(W, old, database.seen.pop(W, Seen(Present(0, []), {})))
    assert database.from_memory() is None
    database.look()
    database.fill()
    assert database.from_memory() == (1, [("/a", 1)])


def test_one_snapshot_at_a_time(database: RealtimeDatabase) -> None:
    """Queries during a snapshot are answered from the database."""
    assert database.live.begin(W, NOON_MS) is not None
    assert database.live.begin(W, NOON_MS) is None
    assert database.from_memory() is None


def test_a_snapshot_that_fails(database: RealtimeDatabase) -> None:
    """The next query reads another snapshot."""
    watch = database.live.begin(W, NOON_MS)
    assert watch is not None
    database.live.fill(W, watch, None)
    assert database.from_memory() is None
    database.load()
    assert database.from_memory() == (0, [])


# --- bounds


def test_max_websites(connection: sqlite3.Connection) -> None:
    """Websites beyond the limit are answered from the database until another one is released."""
    database = RealtimeDatabase(connection, Realtime(most_websites=2))
    for website in (1, 2, 3):
        database.load(website)
    assert [database.from_memory(website) for website in (1, 2, 3)] == [(0, []), (0, []), None]
    database.now_ms += 1
    assert database.from_memory(2) is not None
    database.now_ms = NOON_MS + ASKED_MS + 1
    database.live.sweep(database.now_ms)
    database.load(3)
    assert [database.from_memory(website) is not None for website in (1, 2, 3)] == [False, True, True]


def test_max_visitors_in_the_database(connection: sqlite3.Connection) -> None:
    """A website with too many visitors is not kept in memory, and not tried again for a while."""
    database = RealtimeDatabase(connection, Realtime(most_visitors=3))
    database.send(*(Sent(NOON_MS, "/a", f"{n}") for n in range(4)), Sent(NOON_MS, "/a", "ann", OTHER))
    database.load(OTHER)
    database.load()
    assert (database.from_memory(), database.from_memory(OTHER)) == (None, (1, [("/a", 1)]))
    assert database.live.begin(W, NOON_MS) is None
    database.live.sweep(NOON_MS + ASKED_MS)
    assert database.live.begin(W, NOON_MS) is None
    database.live.sweep(NOON_MS + ASKED_MS + 1)
    assert database.live.begin(W, NOON_MS) is not None


def test_max_visitors_reached_by_commits(connection: sqlite3.Connection) -> None:
    """The website with the most visitors is released, others stay."""
    database = RealtimeDatabase(connection, Realtime(most_visitors=3))
    for website in (W, OTHER):
        database.load(website)
    database.send(Sent(NOON_MS, "/a", "ann", OTHER), *(Sent(NOON_MS, "/a", f"{n}") for n in range(2)))
    database.live.sweep(NOON_MS)
    assert (database.from_memory(), database.from_memory(OTHER)) == ((2, [("/a", 2)]), (1, [("/a", 1)]))
    database.send(Sent(NOON_MS, "/a", "one more"))
    database.live.sweep(NOON_MS)
    assert (database.from_memory(), database.from_memory(OTHER)) == (None, (1, [("/a", 1)]))
    assert database.live.begin(W, NOON_MS) is None


def test_bytes_of_a_visitor() -> None:
    """MAX_VISITORS is based on 230 bytes per visitor; memory of visitors who have left is released."""
    live, visitors = Realtime(), 20_000
    watch = live.begin(W, NOON_MS)
    assert watch is not None
    tracemalloc.start()
    try:
        live.fill(W, watch, Seen(Present(0, []), {}))
        before = tracemalloc.get_traced_memory()[0]
        for n in range(visitors):
            end_ms = NOON_MS + n * 15
            live.hand_over(
                {(W, (1 << 61) + n, 0): Visit(0, end_ms, end_ms, 1, 0, exit_page=1000 + n % 3000)}, NO_OFFSETS
            )
        held = tracemalloc.get_traced_memory()[0] - before
        assert live.visitors == visitors
        assert held < 240 * visitors
        assert live.present(W, NOON_MS + 2 * WINDOW_MS) is not None
        assert live.visitors == 0
        # The dictionary keeps its table until it grows again.
        assert tracemalloc.get_traced_memory()[0] - before < 0.4 * held
    finally:
        tracemalloc.stop()


# --- pages and their texts


def test_pages_that_tie() -> None:
    """At most 100 pages, by visitors, then by path; all pages that tie with the last one are compared."""
    live = Realtime()
    watch = live.begin(W, NOON_MS)
    assert watch is not None
    counts = {page: 3 if page < 60 else 2 if page < 300 else 1 for page in range(1, 400)}
    visitors_of_pages = [page for page, visitors in counts.items() for _ in range(visitors)]
    last_seen_of_visitor = {visitor: (NOON_MS, page) for visitor, page in enumerate(visitors_of_pages)} | {
        10**6: (NOON_MS, -1)
    }
    live.fill(W, watch, Seen(Present(0, []), last_seen_of_visitor))
    present = live.present(W, NOON_MS)
    assert present is not None
    assert present.active == len(visitors_of_pages) + 1
    assert dict(present.pages) == {page: visitors for page, visitors in counts.items() if visitors > 1}
    texts = {page: f"/{1000 - page}" for page in counts}
    by_path = sorted(range(60, 300), key=texts.__getitem__)
    expected = [*sorted(range(1, 60), key=texts.__getitem__), *by_path][:MAX_PAGES]
    assert most_visited(present, texts) == [(texts[page], counts[page]) for page in expected]


def test_texts_are_cached() -> None:
    """Up to a limit, and only short texts."""
    live = Realtime()
    present_pages = Present(0, [(1, 1), (2, 1), (3, 1)])
    live.learn([(1, "/a"), (2, "x" * LONGEST_TEXT), (3, "x" * (LONGEST_TEXT + 1)), (4, "/d")])
    assert live.texts(present_pages) == {1: "/a", 2: "x" * LONGEST_TEXT}
    live.learn((label, "/") for label in range(100, 100 + MAX_TEXTS - 3))
    assert live.texts(present_pages) == {1: "/a", 2: "x" * LONGEST_TEXT}
    live.learn([(5, "/e")])
    assert live.texts(present_pages) == {}


# --- random histories

EDGES_MS = (0, 1, 999, 1000, 299_999, 300_000, 300_001, VISIT_GAP_MS - 1, VISIT_GAP_MS, VISIT_GAP_MS + 1, 3_600_000)
AGES = st.one_of(st.sampled_from(EDGES_MS), st.integers(0, 20 * MINUTE_MS), st.integers(0, 4 * VISIT_GAP_MS))
EVENTS = st.tuples(
    AGES, st.sampled_from(["", "", "/a", "/b", "/c"]), st.sampled_from("abcd"), st.sampled_from([W, W, OTHER])
)
WEBSITES = st.sampled_from([W, W, W, OTHER])
STEPS = st.one_of(
    st.tuples(st.just("commit"), st.lists(EVENTS, min_size=1, max_size=4)),
    st.tuples(st.just("commit"), st.lists(EVENTS, min_size=1, max_size=4)),
    st.tuples(st.just("wait"), st.sampled_from([*EDGES_MS, 10, 10_000, MINUTE_MS])),
    st.tuples(st.just("set back"), st.sampled_from([1, 1000, MINUTE_MS, MINUTE_MS + 1, 2 * ASKED_MS])),
    st.tuples(st.sampled_from(["begin", "look", "fill", "ask", "ask", "ask"]), WEBSITES),
    st.tuples(st.just("import"), st.lists(EVENTS, min_size=1, max_size=2)),
    st.tuples(st.sampled_from(["publish", "publish", "sweep"]), st.none()),
)


def import_in_another_process(database: RealtimeDatabase, events: Sequence[tuple[int, str, str, int]]) -> None:
    """Write visitors with ids below zero as another process does; the store detects the change."""
    for age_ms, path, _, website in events:
        number = -1 - database.connection.execute("select count(*) from event").fetchone()[0]
        database.connection.execute("insert or ignore into label (text) values (?)", (path,))
        database.connection.execute(
            f"insert into event select ?, ?, ?, ?, ?, 0, id, {', '.join('0' * len(EVENT_FIELDS))}, null"
            " from label where text = ?",
            (website, database.now_ms - age_ms, number, PAGEVIEW if path else CUSTOM, number, path),
        )
    database.live.clear()


def run_steps(database: RealtimeDatabase, steps: Sequence[tuple[str, Any]]) -> Counter[str]:
    """Run steps; compare each query with the reference, from memory where possible, and from the database."""
    answers: Counter[str] = Counter()
    for step, what in steps:
        if step == "commit":
            database.commit(*(Sent(database.now_ms - age_ms, *rest) for age_ms, *rest in what))
        elif step == "import":
            import_in_another_process(database, what)
        elif step == "wait":
            database.now_ms += what
        elif step == "set back":
            database.now_ms -= what
        elif step == "publish":
            database.publish()
        elif step == "sweep":
            database.live.sweep(database.now_ms)
        elif step == "ask":
            database.publish()
            from_memory = database.from_memory(what)
            answers["memory" if from_memory else "file"] += 1
            assert from_memory in (None, database.reference(what))
            assert database.from_database(what) == database.reference(what)
            if from_memory is None:
                database.load(what)
        else:
            {"begin": database.begin, "look": database.look, "fill": database.fill}[step](what)
    return answers


@pytest.mark.random_examples
@settings(
    max_examples=examples(300, default=60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    steps=st.lists(STEPS, max_size=40),
    begin_ms=st.sampled_from([NOON_MS, MIDNIGHT_MS + 2 * MINUTE_MS]),
    identities=st.sampled_from([2, 100]),
    visitors=st.sampled_from([3, 1000]),
)
def test_random_histories(
    empty: sqlite3.Connection, steps: list[tuple[str, Any]], begin_ms: int, identities: int, visitors: int
) -> None:
    """Figures from memory equal the plain query over raw events."""
    copy = copied(empty)
    try:
        run_steps(RealtimeDatabase(copy, Realtime(most_visitors=visitors), begin_ms, identities), steps)
    finally:
        copy.close()


def test_a_long_history_is_answered_from_memory(database: RealtimeDatabase) -> None:
    """Without a clock set back or other processes, only the first query reads the database."""
    database.load()
    visitors_of_pages = "abcdefgh"
    steps: list[tuple[str, Any]] = []
    for n in range(600):
        age_ms = (n * 7_919) % 400_000 if n % 5 == 0 else 0
        steps.append(("commit", [(age_ms, ("", f"/{n % 7}")[n % 3 > 0], visitors_of_pages[n * n % 8], W)]))
        steps += [("wait", (n * 104_729) % 90_000), ("sweep", None), ("ask", W)]
    assert run_steps(database, steps) == {"memory": 600}
