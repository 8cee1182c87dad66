"""Identities, visitors and visits in memory (tally/events/sessions.py). The rules are in
docs/reference/collect-api.md.
"""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tally.events.dimensions import ACQUISITION
from tally.events.identity import IDENTITY_BYTES, Salts
from tally.events.sessions import LOW_BITS, Sessions, SessionUpdate
from tally.events.visits import packed_acquisition
from tests.support.cases import cases

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
DAY = 20_775  # 2026-11-18
MIDNIGHT_MS = DAY * DAY_MS
NOON_MS = MIDNIGHT_MS + 12 * HOUR_MS
GAP_MS = 30 * MINUTE_MS

Shape = tuple[int, int, int, int]
"""Begin, end, pageviews and events of a visit."""


class StoredVisits:
    """The rows of visits: `touch` removes the visits that an event replaces and adds the new one."""

    def __init__(self, sessions: Sessions) -> None:
        self.sessions = sessions
        self.rows: dict[int, Shape] = {}
        self.visitors: set[int] = set()

    def touch(self, ts_ms: int, is_view: bool = True) -> SessionUpdate:
        touch = self.sessions.touch(b"i", ts_ms, is_view)
        for old in touch.before:
            assert self.rows.pop(old.ordinal) == (old.begin_ms, old.end_ms, old.views, old.events)
        visit = touch.visit
        assert visit.ordinal not in self.rows
        self.rows[visit.ordinal] = (visit.begin_ms, visit.end_ms, visit.views, visit.events)
        self.visitors.add(touch.visitor)
        return touch

    def shapes(self) -> list[Shape]:
        return sorted(self.rows.values())


def plain_visits(events: list[tuple[int, bool]]) -> list[Shape]:
    """Return the visits of a visitor's events by definition, from a sorted list."""
    visits: list[Shape] = []
    for ts_ms, is_view in sorted(events):
        if visits and ts_ms - visits[-1][1] <= GAP_MS:
            begin_ms, _, views, custom = visits.pop()
        else:
            begin_ms, views, custom = ts_ms, 0, 0
        visits.append((begin_ms, ts_ms, views + is_view, custom + (not is_view)))
    return visits


def at(*minutes: float) -> list[int]:
    return [NOON_MS + round(m * MINUTE_MS) for m in minutes]


# (id, times in order of arrival, visits as (begin, end, views))
ARRIVALS: list[tuple[str, list[int], list[tuple[int, int, int]]]] = [
    ("one", at(0), [(NOON_MS, NOON_MS, 1)]),
    ("same-moment", at(0, 0, 0), [(NOON_MS, NOON_MS, 3)]),
    ("gap-of-30-minutes-joins", at(0, 30), [(NOON_MS, NOON_MS + GAP_MS, 2)]),
    ("1-ms-more-opens", [NOON_MS, NOON_MS + GAP_MS + 1], [(NOON_MS, NOON_MS, 1), (NOON_MS + GAP_MS + 1,) * 2 + (1,)]),
    ("gap-before-joins", at(0, -30), [(NOON_MS - GAP_MS, NOON_MS, 2)]),
    ("1-ms-more-before", [NOON_MS, NOON_MS - GAP_MS - 1], [(NOON_MS - GAP_MS - 1,) * 2 + (1,), (NOON_MS, NOON_MS, 1)]),
    ("inside", at(0, 20, 10), [(NOON_MS, NOON_MS + 20 * MINUTE_MS, 3)]),
    ("late-joins-two", at(0, 60, 30), [(NOON_MS, NOON_MS + 60 * MINUTE_MS, 3)]),
    ("late-joins-none", at(0, 61.002, 30.001), [(t, t, 1) for t in at(0, 30.001, 61.002)]),
    ("late-joins-the-later", at(0, 60, 31), [(NOON_MS, NOON_MS, 1), (*at(31, 60), 2)]),
    ("late-joins-the-earlier", at(0, 60, 29), [(*at(0, 29), 2), (*at(60, 60), 1)]),
    ("run-of-gaps", at(0, 30, 60, 90), [(NOON_MS, NOON_MS + 90 * MINUTE_MS, 4)]),
    ("backwards", at(90, 60, 30, 0), [(NOON_MS, NOON_MS + 90 * MINUTE_MS, 4)]),
    ("first-and-last-ms", [MIDNIGHT_MS, MIDNIGHT_MS + DAY_MS - 1], [
        (MIDNIGHT_MS, MIDNIGHT_MS, 1), (MIDNIGHT_MS + DAY_MS - 1, MIDNIGHT_MS + DAY_MS - 1, 1)]),
]  # fmt: skip


@cases(("times", "visits"), [a[1:] for a in ARRIVALS], ids=[a[0] for a in ARRIVALS])
def test_visits(times: list[int], visits: list[tuple[int, int, int]]) -> None:
    """A visit is a run of events without a gap over 30 minutes (exactly 30:00.000 joins); a late event can lengthen a
    visit, move its start back, or join two."""
    shelf = StoredVisits(Sessions(10))
    for ts_ms in times:
        shelf.touch(ts_ms)
    assert shelf.shapes() == [(begin, end, views, 0) for begin, end, views in visits]
    assert len(shelf.visitors) == 1


@cases("order", list(itertools.permutations([0, 25, 56, 86.5, 60])))
def test_every_order_of_arrival(order: tuple[float, ...]) -> None:
    """Visits do not depend on the order of arrival."""
    shelf = StoredVisits(Sessions(10))
    for ts_ms in at(*order):
        shelf.touch(ts_ms)
    assert shelf.shapes() == plain_visits([(t, True) for t in at(*order)])


EVENTS = st.lists(
    st.tuples(
        st.one_of(st.integers(0, 47).map(lambda n: n * GAP_MS), st.integers(0, DAY_MS - 1)),
        st.booleans(),
        st.booleans(),
    ),
    max_size=60,
)


@given(events=EVENTS)
def test_equals_a_sorted_list(events: list[tuple[int, bool, bool]]) -> None:
    """For any order of arrival, and after any undo, the visits equal those of a sorted list."""
    sessions = Sessions(10)
    shelf = StoredVisits(sessions)
    kept: list[tuple[int, bool]] = []
    for offset_ms, is_view, holds in events:
        rows = dict(shelf.rows)
        shelf.touch(MIDNIGHT_MS + offset_ms, is_view)
        if holds:
            sessions.keep(NOON_MS)
            kept.append((MIDNIGHT_MS + offset_ms, is_view))
        else:
            sessions.undo()
            shelf.rows = rows
        assert shelf.shapes() == plain_visits(kept)


def acquisition(number: int) -> bytes:
    """The acquisition of an event: none for two of three."""
    return packed_acquisition([number, *[0] * (len(ACQUISITION) - 1)]) if number % 3 == 0 else b""


@settings(deadline=None)
@given(events=EVENTS)
def test_pages_and_acquisition_of_a_visit(events: list[tuple[int, bool, bool]]) -> None:
    """Entry and exit page are those of the first and last pageview, the acquisition is that of the first event which
    carries one, by (timestamp, id), in whatever order events arrive."""
    sessions = Sessions(10)
    kept: list[tuple[int, int, bool]] = []
    for number, (offset_ms, is_view, holds) in enumerate(events, 1):
        ts_ms = MIDNIGHT_MS + offset_ms
        visit = sessions.touch(b"i", ts_ms, is_view, number, acquisition(number)).visit
        own = sorted(event for event in [*kept, (ts_ms, number, is_view)] if visit.begin_ms <= event[0] <= visit.end_ms)
        views = [event[:2] for event in own if event[2]]
        sources = [(ms, acquisition(place)) for ms, place, _ in own if acquisition(place)]
        assert (visit.views, visit.events) == (len(views), len(own) - len(views))
        if views:
            assert (visit.entry_ms, visit.entry_page, visit.exit_ms, visit.exit_page) == (*views[0], *views[-1])
        assert visit.acquisition == (sources[0][1] if sources else b"")
        assert not sources or visit.acquired_ms == sources[0][0]
        if holds:
            sessions.keep(NOON_MS)
            kept.append((ts_ms, number, is_view))
        else:
            sessions.undo()


def test_views_and_custom_events() -> None:
    """Pageviews and events are counted separately, since a bounce has one pageview and no event."""
    shelf = StoredVisits(Sessions(10))
    for is_view in (True, False, False, True, False):
        shelf.touch(NOON_MS, is_view)
    assert shelf.shapes() == [(NOON_MS, NOON_MS, 2, 3)]


def test_max_visits_per_day() -> None:
    """A day has at most 48 visits; all stay in memory, so that a late event joins the right one."""
    shelf = StoredVisits(Sessions(10))
    times = [MIDNIGHT_MS + n * (GAP_MS + 1) for n in range(48)]
    for ts_ms in reversed(times):
        shelf.touch(ts_ms)
    assert shelf.shapes() == [(t, t, 1, 0) for t in times]
    for ts_ms in times:
        shelf.touch(ts_ms + GAP_MS // 2)
    assert shelf.shapes() == [(times[0], times[-1] + GAP_MS // 2, 96, 0)]


# ---------------------------------------------------------------- visitors


def test_visitor_numbers_are_random() -> None:
    """The stored visitor is a number that is not derived from the identity."""
    numbers = set()
    for _ in range(20):
        sessions = Sessions(100)
        for identity in (b"a", b"b", b"c"):
            first = sessions.touch(identity, NOON_MS, True).visitor
            assert sessions.touch(identity, NOON_MS + 5 * HOUR_MS, True).visitor == first
            assert sessions.visitor(identity, NOON_MS) == first
            numbers.add(first)
    assert len(numbers) == 60
    assert all(0 <= number < 2**63 for number in numbers)


@pytest.mark.slow
def test_visitor_numbers_begin_with_the_time() -> None:
    """They are ordered by the first event's time within its day; those of one millisecond differ."""
    sessions = Sessions(500_000)
    times = [MIDNIGHT_MS, *[NOON_MS] * 400_000, NOON_MS + 1, MIDNIGHT_MS + DAY_MS - 1]
    numbers = [sessions.touch(b"%d" % n, ts, True).visitor for n, ts in enumerate(times)]
    assert [number >> LOW_BITS for number in numbers] == [ts % DAY_MS for ts in times]
    assert len(set(numbers)) == len(times)


def test_assignments_and_pageviews_share_the_visitor() -> None:
    """ab_assign has the visitor of the pageviews and does not open or lengthen a visit."""
    sessions = Sessions(10)
    number = sessions.visitor(b"a", NOON_MS)
    touch = sessions.touch(b"a", NOON_MS + MINUTE_MS, True)
    assert touch.visitor == number
    assert touch.before == ()
    assert (touch.visit.begin_ms, touch.visit.views) == (NOON_MS + MINUTE_MS, 1)
    assert sessions.visitor(b"a", NOON_MS + 50 * MINUTE_MS) == number
    assert sessions.touch(b"a", NOON_MS + 60 * MINUTE_MS, True).before == ()


# ---------------------------------------------------------------- keep and undo


def test_undo_of_everything() -> None:
    """A failed transaction changes nothing in memory."""
    sessions = Sessions(10)
    first = sessions.touch(b"a", NOON_MS, True)
    sessions.undo()
    assert len(sessions) == 0
    assert sessions.touch(b"a", NOON_MS, True).before == ()
    assert sessions.touch(b"b", NOON_MS, True).visitor != first.visitor


def test_undo_goes_back_to_the_last_keep() -> None:
    """Undo restores the state of the last keep, evictions included."""
    sessions = Sessions(2)
    a, b = sessions.touch(b"a", NOON_MS, True), sessions.touch(b"b", NOON_MS, True)
    sessions.keep(NOON_MS)
    sessions.touch(b"a", NOON_MS + 1, False)
    sessions.touch(b"c", NOON_MS + 1, True)
    sessions.touch(b"d", NOON_MS + 1, True)
    sessions.undo()
    assert len(sessions) == 2
    for identity, before in ((b"a", a), (b"b", b)):
        touch = sessions.touch(identity, NOON_MS + 2, False)
        assert (touch.visitor, touch.before) == (before.visitor, (before.visit,))
    assert len(sessions) == 2


def test_undo_after_keep_changes_nothing() -> None:
    """Committed changes are not undone."""
    sessions = Sessions(10)
    first = sessions.touch(b"a", NOON_MS, True)
    sessions.keep(NOON_MS)
    sessions.undo()
    assert sessions.touch(b"a", NOON_MS, True).before == (first.visit,)


# ---------------------------------------------------------------- bounds


def test_bounded() -> None:
    """The number of identities is bounded; the least recently used is evicted and counted in a metric."""
    sessions = Sessions(100)
    numbers = {n: sessions.touch(b"%d" % n, NOON_MS, True).visitor for n in range(100)}
    assert sessions.evictions == 0
    sessions.touch(b"0", NOON_MS, True)
    for n in range(100, 150):
        numbers[n] = sessions.touch(b"%d" % n, NOON_MS, True).visitor
        sessions.keep(NOON_MS)
        assert len(sessions) == 100
    assert sessions.evictions == 50
    assert sessions.visitor(b"0", NOON_MS) == numbers[0]
    for n in range(51, 150):
        assert sessions.visitor(b"%d" % n, NOON_MS) == numbers[n]


def test_an_evicted_visitor_is_a_new_one() -> None:
    """After an eviction the same client is a new visitor, once."""
    sessions = Sessions(1)
    first = sessions.touch(b"a", NOON_MS, True)
    sessions.touch(b"b", NOON_MS, True)
    second = sessions.touch(b"a", NOON_MS, True)
    assert second.visitor != first.visitor
    assert second.before == ()
    assert sessions.touch(b"a", NOON_MS, True).visitor == second.visitor


def test_looking_up_an_assignment_counts_as_use() -> None:
    """An identity whose assignment was just looked up is not evicted."""
    sessions = Sessions(2)
    first = sessions.touch(b"a", NOON_MS, True).visitor
    sessions.touch(b"b", NOON_MS, True)
    sessions.keep(NOON_MS)
    assert sessions.visitor(b"a", NOON_MS) == first
    sessions.keep(NOON_MS)
    sessions.touch(b"c", NOON_MS, True)
    sessions.keep(NOON_MS)
    assert sessions.visitor(b"a", NOON_MS) == first


END_MS = MIDNIGHT_MS + DAY_MS + 72 * HOUR_MS
# (id, times of commits after the identity's own, whether it is still known)
SWEEPS = [
    ("same-day", [NOON_MS], True),
    ("next-days", [NOON_MS + DAY_MS, NOON_MS + 2 * DAY_MS, NOON_MS + 3 * DAY_MS], True),
    # Until then an event of the day's last millisecond is accepted and has the same visitor.
    ("just-not-72-hours-past-its-day", [END_MS - 1], True),
    ("1-ms-more-than-72-hours", [END_MS + 1], False),
    ("much-later", [END_MS + 30 * DAY_MS], False),
    ("day-by-day", [NOON_MS + n * DAY_MS for n in range(1, 6)], False),
    ("at-the-very-end-and-after", [END_MS, END_MS + 1], False),
    ("at-the-very-end-and-an-hour-after", [END_MS, END_MS + HOUR_MS], False),
]


@cases(("commits", "known"), [s[1:] for s in SWEEPS], ids=[s[0] for s in SWEEPS])
@cases("offset_ms", [0, -12 * HOUR_MS, 14 * HOUR_MS])
def test_kept_72_hours_past_the_end_of_their_day(commits: list[int], known: bool, offset_ms: int) -> None:
    """Identities expire 72 hours after the end of their day, which is one of their website."""
    sessions = Sessions(10)
    sessions.touch(b"a", NOON_MS, True, offset_ms=offset_ms)
    sessions.visitor(b"b", NOON_MS + 90 * DAY_MS)
    sessions.keep(NOON_MS - offset_ms)
    for moment_ms in commits:
        sessions.keep(moment_ms - offset_ms)
    assert len(sessions) == known + 1


def test_each_day_expires_at_its_own_end() -> None:
    """Identities of websites whose days end at different times expire one after another."""
    sessions = Sessions(10)
    offsets = [14 * HOUR_MS, 0, -12 * HOUR_MS]
    for number, offset_ms in enumerate(offsets):
        sessions.touch(b"%d" % number, NOON_MS, True, offset_ms=offset_ms)
    for left, offset_ms in zip((2, 1, 0), offsets, strict=True):
        sessions.keep(END_MS - offset_ms - 1)
        assert len(sessions) == left + 1
        sessions.keep(END_MS - offset_ms)
        assert len(sessions) == left


# ---------------------------------------------------------------- salts


def test_identities_of_sessions() -> None:
    """With a session_id, the identity is (website, day, session_id)."""
    salts = Salts()
    first = salts.session_identity(1, NOON_MS, "session-1")
    same = [MIDNIGHT_MS, MIDNIGHT_MS + DAY_MS - 1, NOON_MS + 1]
    assert {salts.session_identity(1, ts_ms, "session-1") for ts_ms in same} == {first}
    others = {
        salts.session_identity(2, NOON_MS, "session-1"),
        salts.session_identity(11, NOON_MS, "session-1"),
        salts.session_identity(1, NOON_MS, "session-2"),
        salts.session_identity(1, NOON_MS, "Session-1"),
        salts.session_identity(1, NOON_MS, "session-1 "),
        salts.session_identity(1, MIDNIGHT_MS - 1, "session-1"),
        salts.session_identity(1, MIDNIGHT_MS + DAY_MS, "session-1"),
    }
    assert len(others | {first}) == 8


def test_identities_of_clients() -> None:
    """Without a session_id, it is a hash of (website, client address, User-Agent) keyed with the day's salt."""
    salts = Salts()
    first = salts.client_identity(1, NOON_MS, b"\xcb\0q\x07", "Mozilla")
    assert salts.client_identity(1, MIDNIGHT_MS, b"\xcb\0q\x07", "Mozilla") == first
    others = {
        salts.client_identity(2, NOON_MS, b"\xcb\0q\x07", "Mozilla"),
        salts.client_identity(1, NOON_MS, b"\xcb\0q\x08", "Mozilla"),
        salts.client_identity(1, NOON_MS, b"\xcb\0q\x07", "mozilla"),
        salts.client_identity(1, NOON_MS, b"\xcb\0q\x07", ""),
        salts.client_identity(1, NOON_MS, b"\xcb\0q\x07" + bytes(12), "Mozilla"),
        salts.client_identity(1, NOON_MS - DAY_MS, b"\xcb\0q\x07", "Mozilla"),
        salts.session_identity(1, NOON_MS, "\xcb\0q\x07Mozilla"),
    }
    assert len(others | {first}) == 8
    # The parts of the hash input are separated.
    assert salts.client_identity(1, NOON_MS, b"abcd", "e" * 12) != salts.client_identity(
        1, NOON_MS, b"abcd" + b"e" * 12, ""
    )


def test_salts_are_kept_in_memory_only() -> None:
    """Another process draws another salt."""
    assert Salts().session_identity(1, NOON_MS, "s" * 8) != Salts().session_identity(1, NOON_MS, "s" * 8)


@pytest.mark.parametrize("header", ["Mozilla/5.0 \udce9", "\udcff", "\u00e9", "\U0001f600"])
def test_any_user_agent_can_be_hashed(header: str) -> None:
    """Invalid UTF-8 in a header arrives as lone surrogates."""
    assert len(Salts().client_identity(1, NOON_MS, b"abcd", header)) == IDENTITY_BYTES


@pytest.mark.parametrize(("now_ms", "known"), [(END_MS - 1, True), (END_MS + 1, False), (END_MS + DAY_MS, False)])
def test_salts_expire_with_their_identities(now_ms: int, known: bool) -> None:
    """Without the salt, identities of the day cannot be computed again."""
    salts = Salts()
    before = salts.session_identity(1, NOON_MS, "session-1")
    salts.expire(now_ms)
    assert (salts.session_identity(1, NOON_MS, "session-1") == before) is known


def test_visits_of_deleted_events_are_replaced_with_the_next_event() -> None:
    """Also where the transaction of that event fails; those of a day that is over are forgotten."""
    sessions = Sessions(10)
    first = sessions.touch(b"a", NOON_MS, True, 5)
    sessions.touch(b"a", NOON_MS + 2 * GAP_MS, True, 6)
    sessions.keep(NOON_MS)
    (left,) = [visit for visit in (first.visit,) if visit.views == 1]
    sessions.amend(DAY, {first.visitor: ([left], 1 << 48), 7: ([], 0)})
    for _ in range(2):
        update = sessions.touch(b"a", NOON_MS + GAP_MS, False)
        assert (update.before, update.mask) == ((left,), 1 << 48)
        assert (update.visit.begin_ms, update.visit.end_ms, update.visit.ordinal) == (NOON_MS, NOON_MS + GAP_MS, 0)
        sessions.undo()
    sessions.amend(DAY, {first.visitor: ([], 0)})
    update = sessions.touch(b"a", NOON_MS, True, 5)
    assert (update.visitor, update.before, update.mask, update.visit.ordinal) == (first.visitor, (), 0, 0)
    assert len(sessions._amended) == 1
    sessions.keep(MIDNIGHT_MS + 5 * DAY_MS)
    assert (len(sessions), len(sessions._amended)) == (0, 0)
