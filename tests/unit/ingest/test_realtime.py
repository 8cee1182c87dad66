"""tally/ingest/realtime.py: what is kept in memory of who is here, against a plain reference over the rows of the file.

The rules are in docs/reference/read-api.md, Realtime. The events go through the real writer (tally/ingest/writer.py)
into the product's tables; who reads when, and what is handed over when, is up to each test. Over HTTP:
test_read_realtime.py.
"""

import sqlite3
import tracemalloc
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tally.accounts.websites import Website
from tally.events.dimensions import FIELDS
from tally.events.sessions import Sessions
from tally.events.validation import Event
from tally.events.visits import VISIT_GAP_MS, Visit
from tally.ingest.engine import PreparedEvent, WriteRequest
from tally.ingest.realtime import (
    ASKED_MS,
    LONGEST_TEXT,
    MOST_PAGES,
    MOST_TEXTS,
    WINDOW_MS,
    Present,
    Realtime,
    Seen,
    Watch,
    look,
    most_visited,
)
from tally.ingest.writer import EventWriter
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
PAGEVIEW, CUSTOM = 0, 2

Answer = tuple[int, list[tuple[str, int]]]
"""How many are here, and the pages with their visitors."""


class Sent(NamedTuple):
    """An event on its way: when, of whom, a view of a path or, without one, a custom event."""

    ts_ms: int
    path: str = ""
    who: str = "ann"
    website: int = W


def row(sent: Sent) -> PreparedEvent:
    event = Event(PAGEVIEW if sent.path else CUSTOM, sent.ts_ms, event_name="" if sent.path else "signup")
    identity = f"{sent.website} {sent.who} {sent.ts_ms // DAY_MS}".encode()
    return PreparedEvent(SITES[sent.website], event, (sent.path or "/elsewhere", *[""] * (len(FIELDS) - 1)), identity)


def reference(connection: sqlite3.Connection, website: int, now_ms: int) -> Answer:
    """By the definition, over all rows: visits are computed again, without the column `visit`."""
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


class World:
    """A writer, its file, and what is kept of it; commits are handed over at once, or when they are published."""

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
            self.live.hand_over(self.unpublished.popleft())

    def send(self, *events: Sent) -> None:
        self.commit(*events)
        self.publish()

    def begin(self, website: int = W) -> None:
        watch = self.live.begin(website, self.now_ms)
        if watch is not None:
            self.watches[website] = watch
            self.seen.pop(website, None)

    def look(self, website: int = W) -> None:
        self.seen[website] = look(self.connection, website, self.now_ms, website in self.watches)

    def fill(self, website: int = W) -> None:
        if website in self.watches and website in self.seen:
            self.live.fill(website, self.watches.pop(website), self.seen.pop(website))

    def load(self, website: int = W) -> None:
        self.begin(website)
        self.look(website)
        self.fill(website)

    def written(self, present: Present) -> Answer:
        """As it is answered: texts that are not known are looked up."""
        texts = self.live.texts(present)
        missing = [page for page, _ in present.pages if page not in texts]
        found = self.connection.execute(*sql.texts(missing)).fetchall()
        self.live.learn(found)
        return present.active, most_visited(present, texts | dict(found))

    def kept(self, website: int = W) -> Answer | None:
        """The answer from memory."""
        present = self.live.present(website, self.now_ms)
        return None if present is None else self.written(present)

    def read(self, website: int = W) -> Answer:
        """The answer from the file."""
        return self.written(look(self.connection, website, self.now_ms, False).present)

    def reference(self, website: int = W) -> Answer:
        return reference(self.connection, website, self.now_ms)


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    """A database as the product makes it."""
    connection = open_database(tmp_path_factory.mktemp("live") / "analytics.db", create=True)
    yield connection
    connection.close()


@pytest.fixture
def connection(empty: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """A copy in memory, for one test."""
    copy = copied(empty)
    yield copy
    copy.close()


def copied(empty: sqlite3.Connection) -> sqlite3.Connection:
    copy = sqlite3.connect(":memory:", isolation_level=None)
    empty.backup(copy)
    return copy


@pytest.fixture
def world(connection: sqlite3.Connection) -> World:
    return World(connection, Realtime())


def ago(seconds: float) -> int:
    return NOON_MS - round(seconds * 1000)


# --- what a commit changes

# (id, what is in the file, what comes once it is kept, the answer)
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
def test_what_a_commit_changes(world: World, before: list[Sent], after: list[list[Sent]], expected: Answer) -> None:
    """An event answered 202 is in every answer begun after it: by what is handed over alone."""
    world.send(*before)
    world.load()
    for group in after:
        world.send(*group)
    assert world.kept() == expected
    assert world.read() == world.reference() == expected


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
    """Commits count once, whether the snapshot has them already or they came after it."""
    world = World(copied(empty), Realtime())
    steps: dict[str, Callable[[], None]] = {"begin": world.begin, "look": world.look, "fill": world.fill}
    steps |= {"publish": world.publish}
    world.send(*before)
    for step in order:
        if step == "commit":
            for group in after:
                world.commit(*group)
        else:
            steps[step]()
    assert world.kept() == world.reference() == expected
    world.connection.close()


def test_visitors_leave(world: World) -> None:
    """In the last 300 seconds: to the millisecond, whoever was seen since stays."""
    world.load()
    world.send(*(Sent(NOON_MS + n, f"/{n}", f"{n}") for n in (-1500, -999, -1, 0)))
    world.now_ms += 298_500
    world.send(Sent(world.now_ms, "/on", "-999"))
    assert world.kept() == (4, [("/-1", 1), ("/-1500", 1), ("/0", 1), ("/on", 1)])
    for now_ms, active in (
        (NOON_MS + 299_998, 3),
        (NOON_MS + 299_999, 3),
        (NOON_MS + 300_000, 2),
        (NOON_MS + 300_001, 1),
    ):
        world.now_ms = now_ms
        assert world.kept() == world.reference()
        assert world.live.visitors == active
    world.now_ms += 298_500
    assert world.kept() == (0, [])
    assert world.live.visitors == 0


def test_a_chain_of_events_older_than_the_window(world: World) -> None:
    """A visit may go on for hours after its latest view: the file is read back to where it was."""
    world.send(Sent(ago(9 * 3600), "/early"), Sent(ago(9 * 3600), "", "bob"))
    world.send(*(Sent(ago(n * 1800), "", who) for n in range(18) for who in ("ann", "bob")))
    world.send(Sent(ago(1800.001), "/other", "cat"), Sent(ago(0), "", "cat"))
    world.load()
    assert world.kept() == world.read() == world.reference() == (3, [("/early", 1)])


def test_midnight(connection: sqlite3.Connection) -> None:
    """A visit under way at midnight UTC counts as two."""
    world = World(connection, Realtime(), MIDNIGHT_MS - 1)
    world.send(Sent(MIDNIGHT_MS - 20 * MINUTE_MS, "/before"), Sent(MIDNIGHT_MS - 1))
    world.load()
    world.now_ms = MIDNIGHT_MS + MINUTE_MS
    world.send(Sent(world.now_ms))
    assert world.kept() == world.reference() == (2, [("/before", 1)])


# --- where memory does not know


@pytest.mark.parametrize(("back_ms", "is_kept"), [(0, True), (1, False), (MINUTE_MS, False), (3_600_000, False)])
def test_a_clock_set_back(world: World, back_ms: int, is_kept: bool) -> None:
    """What is stamped later than now is not here yet; who has left by then is back: the file knows."""
    world.send(Sent(ago(299), "/old", "bob"))
    world.load()
    world.send(Sent(NOON_MS, "/new"))
    world.now_ms = NOON_MS - back_ms
    assert (world.kept() is not None) is is_kept
    assert world.read() == world.reference()
    world.now_ms = NOON_MS
    assert world.kept() == world.reference() == (2, [("/new", 1), ("/old", 1)])


def test_a_clock_set_back_after_a_sweep(world: World) -> None:
    """Those that a sweep let go are not here at that time, but were before it."""
    world.send(Sent(ago(299), "/old"))
    world.load()
    world.live.sweep(NOON_MS + 1001)
    assert world.kept() is None
    world.now_ms += 1001
    assert world.kept() == (0, [])


@pytest.mark.parametrize(("later_ms", "is_kept"), [(MINUTE_MS, True), (MINUTE_MS + 1, False)])
def test_rows_of_the_future(world: World, later_ms: int, is_kept: bool) -> None:
    """A few seconds are what arrived while the reader was waited for; more is a clock that was set back."""
    world.send(Sent(NOON_MS + later_ms, "/later"), Sent(NOON_MS, "/now", "bob"))
    world.load()
    assert world.kept() is None
    assert world.read() == world.reference() == (1, [("/now", 1)])
    world.now_ms += later_ms
    assert world.kept() == ((2, [("/later", 1), ("/now", 1)]) if is_kept else None)


def test_what_is_not_asked_for_is_forgotten(world: World) -> None:
    """Two minutes after the last question; the clock set back counts too."""
    world.send(Sent(NOON_MS, "/a"))
    for moved_ms, is_kept in ((ASKED_MS, True), (ASKED_MS + 1, False), (-ASKED_MS - 1, False)):
        world.load()
        assert world.kept() is not None
        world.live.sweep(world.now_ms + moved_ms)
        assert (world.live.visitors == 1) is is_kept
        world.live.forget()
    world.load()
    world.now_ms += ASKED_MS
    assert world.kept() is not None
    world.live.sweep(world.now_ms + ASKED_MS)
    assert world.live.visitors == 1


def test_another_process_has_written(world: World) -> None:
    """Everything is forgotten, and a snapshot from before that is not taken."""
    world.send(Sent(NOON_MS, "/a"))
    world.load()
    world.live.forget()
    assert world.kept() is None
    world.begin()
    world.look()
    world.live.forget()
    world.fill()
    assert world.kept() is None
    world.begin()
    world.look()
    old = world.watches[W]
    world.live.forget()
    world.begin()
    world.live.fill(W, old, world.seen.pop(W, Seen(Present(0, []), {})))
    assert world.kept() is None
    world.look()
    world.fill()
    assert world.kept() == (1, [("/a", 1)])


def test_one_snapshot_at_a_time(world: World) -> None:
    """Who asks while a snapshot is read is answered from the file."""
    assert world.live.begin(W, NOON_MS) is not None
    assert world.live.begin(W, NOON_MS) is None
    assert world.kept() is None


def test_a_snapshot_that_fails(world: World) -> None:
    """The next question tries again."""
    watch = world.live.begin(W, NOON_MS)
    assert watch is not None
    world.live.fill(W, watch, None)
    assert world.kept() is None
    world.load()
    assert world.kept() == (0, [])


# --- bounds


def test_so_many_websites(connection: sqlite3.Connection) -> None:
    """Those beyond are answered from the file, until one of the others is not asked about any more."""
    world = World(connection, Realtime(most_websites=2))
    for website in (1, 2, 3):
        world.load(website)
    assert [world.kept(website) for website in (1, 2, 3)] == [(0, []), (0, []), None]
    world.now_ms += 1
    assert world.kept(2) is not None
    world.now_ms = NOON_MS + ASKED_MS + 1
    world.live.sweep(world.now_ms)
    world.load(3)
    assert [world.kept(website) is not None for website in (1, 2, 3)] == [False, True, True]


def test_so_many_visitors_in_the_file(connection: sqlite3.Connection) -> None:
    """A website with more is not kept, and not tried again for a while."""
    world = World(connection, Realtime(most_visitors=3))
    world.send(*(Sent(NOON_MS, "/a", f"{n}") for n in range(4)), Sent(NOON_MS, "/a", "ann", OTHER))
    world.load(OTHER)
    world.load()
    assert (world.kept(), world.kept(OTHER)) == (None, (1, [("/a", 1)]))
    assert world.live.begin(W, NOON_MS) is None
    world.live.sweep(NOON_MS + ASKED_MS)
    assert world.live.begin(W, NOON_MS) is None
    world.live.sweep(NOON_MS + ASKED_MS + 1)
    assert world.live.begin(W, NOON_MS) is not None


def test_so_many_visitors_come(connection: sqlite3.Connection) -> None:
    """The website with the most is given up, others stay."""
    world = World(connection, Realtime(most_visitors=3))
    for website in (W, OTHER):
        world.load(website)
    world.send(Sent(NOON_MS, "/a", "ann", OTHER), *(Sent(NOON_MS, "/a", f"{n}") for n in range(2)))
    world.live.sweep(NOON_MS)
    assert (world.kept(), world.kept(OTHER)) == ((2, [("/a", 2)]), (1, [("/a", 1)]))
    world.send(Sent(NOON_MS, "/a", "one more"))
    world.live.sweep(NOON_MS)
    assert (world.kept(), world.kept(OTHER)) == (None, (1, [("/a", 1)]))
    assert world.live.begin(W, NOON_MS) is None


def test_bytes_of_a_visitor() -> None:
    """MOST_VISITORS says 230 bytes a visitor; what has left is given back."""
    live, visitors = Realtime(), 20_000
    watch = live.begin(W, NOON_MS)
    assert watch is not None
    tracemalloc.start()
    try:
        live.fill(W, watch, Seen(Present(0, []), {}))
        before = tracemalloc.get_traced_memory()[0]
        for n in range(visitors):
            end_ms = NOON_MS + n * 15
            live.hand_over({(W, (1 << 61) + n, 0): Visit(0, end_ms, end_ms, 1, 0, end_ms, 1000 + n % 3000)})
        held = tracemalloc.get_traced_memory()[0] - before
        assert live.visitors == visitors
        assert held < 240 * visitors
        assert live.present(W, NOON_MS + 2 * WINDOW_MS) is not None
        assert live.visitors == 0
        # Less the dictionary's own table, which shrinks when it next grows.
        assert tracemalloc.get_traced_memory()[0] - before < 0.4 * held
    finally:
        tracemalloc.stop()


# --- pages and their texts


def test_pages_that_tie() -> None:
    """At most 100 pages, by visitors, then by path: of those that tie with the last, all are looked at."""
    live = Realtime()
    watch = live.begin(W, NOON_MS)
    assert watch is not None
    counts = {page: 3 if page < 60 else 2 if page < 300 else 1 for page in range(1, 400)}
    people = [page for page, visitors in counts.items() for _ in range(visitors)]
    here = {visitor: (NOON_MS, page) for visitor, page in enumerate(people)} | {10**6: (NOON_MS, -1)}
    live.fill(W, watch, Seen(Present(0, []), here))
    present = live.present(W, NOON_MS)
    assert present is not None
    assert present.active == len(people) + 1
    assert dict(present.pages) == {page: visitors for page, visitors in counts.items() if visitors > 1}
    texts = {page: f"/{1000 - page}" for page in counts}
    by_path = sorted(range(60, 300), key=texts.__getitem__)
    expected = [*sorted(range(1, 60), key=texts.__getitem__), *by_path][:MOST_PAGES]
    assert most_visited(present, texts) == [(texts[page], counts[page]) for page in expected]


def test_texts_are_remembered() -> None:
    """Up to a bound, and not the long ones."""
    live = Realtime()
    asked = Present(0, [(1, 1), (2, 1), (3, 1)])
    live.learn([(1, "/a"), (2, "x" * LONGEST_TEXT), (3, "x" * (LONGEST_TEXT + 1)), (4, "/d")])
    assert live.texts(asked) == {1: "/a", 2: "x" * LONGEST_TEXT}
    live.learn((label, "/") for label in range(100, 100 + MOST_TEXTS - 3))
    assert live.texts(asked) == {1: "/a", 2: "x" * LONGEST_TEXT}
    live.learn([(5, "/e")])
    assert live.texts(asked) == {}


# --- anything in any order

EDGES_MS = (0, 1, 999, 1000, 299_999, 300_000, 300_001, VISIT_GAP_MS - 1, VISIT_GAP_MS, VISIT_GAP_MS + 1, 3_600_000)
AGES = st.one_of(st.sampled_from(EDGES_MS), st.integers(0, 20 * MINUTE_MS), st.integers(0, 4 * VISIT_GAP_MS))
EVENTS = st.tuples(
    AGES, st.sampled_from(["", "", "/a", "/b", "/c"]), st.sampled_from("abcd"), st.sampled_from([W, W, OTHER])
)
WEBSITES = st.sampled_from([W, W, W, OTHER])
DO = st.one_of(
    st.tuples(st.just("commit"), st.lists(EVENTS, min_size=1, max_size=4)),
    st.tuples(st.just("commit"), st.lists(EVENTS, min_size=1, max_size=4)),
    st.tuples(st.just("wait"), st.sampled_from([*EDGES_MS, 10, 10_000, MINUTE_MS])),
    st.tuples(st.just("set back"), st.sampled_from([1, 1000, MINUTE_MS, MINUTE_MS + 1, 2 * ASKED_MS])),
    st.tuples(st.sampled_from(["begin", "look", "fill", "ask", "ask", "ask"]), WEBSITES),
    st.tuples(st.just("import"), st.lists(EVENTS, min_size=1, max_size=2)),
    st.tuples(st.sampled_from(["publish", "publish", "sweep"]), st.none()),
)


def import_(world: World, events: Sequence[tuple[int, str, str, int]]) -> None:
    """Another process writes visitors of its own, with ids below zero; the store notices."""
    for age_ms, path, _, website in events:
        number = -1 - world.connection.execute("select count(*) from event").fetchone()[0]
        world.connection.execute("insert or ignore into label (text) values (?)", (path,))
        world.connection.execute(
            f"insert into event select ?, ?, ?, ?, ?, 0, id, {', '.join('0' * 14)}, null from label where text = ?",
            (website, world.now_ms - age_ms, number, PAGEVIEW if path else CUSTOM, number, path),
        )
    world.live.forget()


def play(world: World, steps: Sequence[tuple[str, Any]]) -> Counter[str]:
    """Plays steps; each question is compared from memory, where it knows, and from the file."""
    answers: Counter[str] = Counter()
    for step, what in steps:
        if step == "commit":
            world.commit(*(Sent(world.now_ms - age_ms, *rest) for age_ms, *rest in what))
        elif step == "import":
            import_(world, what)
        elif step == "wait":
            world.now_ms += what
        elif step == "set back":
            world.now_ms -= what
        elif step == "publish":
            world.publish()
        elif step == "sweep":
            world.live.sweep(world.now_ms)
        elif step == "ask":
            world.publish()
            kept = world.kept(what)
            answers["memory" if kept else "file"] += 1
            assert kept in (None, world.reference(what))
            assert world.read(what) == world.reference(what)
            if kept is None:
                world.load(what)
        else:
            {"begin": world.begin, "look": world.look, "fill": world.fill}[step](what)
    return answers


@settings(
    max_examples=examples(300, default=60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    steps=st.lists(DO, max_size=40),
    begin_ms=st.sampled_from([NOON_MS, MIDNIGHT_MS + 2 * MINUTE_MS]),
    identities=st.sampled_from([2, 100]),
    visitors=st.sampled_from([3, 1000]),
)
def test_anything_in_any_order(
    empty: sqlite3.Connection, steps: list[tuple[str, Any]], begin_ms: int, identities: int, visitors: int
) -> None:
    """Any faster way to compute one ... gives the same number as the plain query over raw events."""
    copy = copied(empty)
    try:
        play(World(copy, Realtime(most_visitors=visitors), begin_ms, identities), steps)
    finally:
        copy.close()


def test_a_long_run_is_answered_from_memory(world: World) -> None:
    """Without the clock set back or other processes, only the first question reads the file."""
    world.load()
    people = "abcdefgh"
    steps: list[tuple[str, Any]] = []
    for n in range(600):
        age_ms = (n * 7_919) % 400_000 if n % 5 == 0 else 0
        steps.append(("commit", [(age_ms, ("", f"/{n % 7}")[n % 3 > 0], people[n * n % 8], W)]))
        steps += [("wait", (n * 104_729) % 90_000), ("sweep", None), ("ask", W)]
    assert play(world, steps) == {"memory": 600}
