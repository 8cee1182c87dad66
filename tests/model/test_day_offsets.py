"""A website whose days begin at another time than midnight UTC has the figures of one with UTC days, shifted.

Each random history is given to two servers: on one the website's days begin `offset` minutes before midnight UTC; the
other has UTC days, and its clock and all times of the history are `offset` later. Every method of `Reports`, asked for
the same ranges, equals on both, and so do exports and what is imported from them. tests/model/test_model.py compares
figures with a model that has an offset of its own.
"""

import json
import os
import random
from collections.abc import Callable, Sequence
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tally.engine.values import BeyondRetention, FunnelStep, Goal, Place, Requester, Scope, TopQuery
from tally.events.filters import Filter
from tally.maintenance import background_work
from tally.maintenance.verify import verdicts
from tally.settings import Settings
from tally.storage import import_records
from tally.storage.database import open_database, transaction
from tally.timestamps import DAY_MS, HOUR_MS, MINUTE_MS, QUARTER_MS
from tally.transfer import undo
from tally.transfer.files import open_source
from tally.transfer.importer import import_events
from tests.support.app import App, ManualClock
from tests.support.exports import export_events
from tests.support.read_api import NOON_MS, ms
from tests.support.selection import examples

OFFSETS = (-720, -480, -210, 330, 345, 570, 840)
STEPS = 45
REQUESTER = Requester()
SIGNUP = Goal((Filter("event_name", "=", ("signup",)),), "price")
PATHS = ("/", "/a", "/b", "/c")
FILTERS = (
    (),
    (),
    (Filter("pathname", "=", ("/a",)),),
    (Filter("device", "=", ("desktop",)), Filter("event_name", "!=", ("signup",))),
    (Filter("utm_source", "=", ("news",)),),
)
FUNNEL = (FunnelStep("pathname", "/"), FunnelStep("pathname", "/a"), FunnelStep("", "", SIGNUP.filters))
AGENTS = (
    "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko)"
    " Version/17.5 Mobile/15E148 Safari/604.1",
)


class Side:
    """One of the servers. `later_ms`: what its times have more than those of the history, which is in UTC; `offset_ms`:
    what the time of its website has more than UTC."""

    def __init__(self, folder: Path, offset_minutes: int, later_minutes: int) -> None:
        self.offset_ms, self.later_ms = offset_minutes * MINUTE_MS, later_minutes * MINUTE_MS
        # No limit on rates: all events come from few addresses.
        settings = Settings(db=folder / "analytics.db", client_per_minute=10**9, website_per_minute=10**9)
        self.app = App(settings, ManualClock())
        self.website = ""

    async def open(self) -> None:
        """Start the server with a website."""
        await self.app.open()
        self.app.clock.begin_at(NOON_MS + self.later_ms)
        self.website = await self.add("example.com", self.offset_ms // MINUTE_MS)

    async def add(self, domain: str, offset_minutes: int) -> str:
        """Add a website and return its id."""
        id = await self.app.website(domain)
        statement = "update website set day_offset_minutes = ? where id = ?"
        await self.app.admin(lambda connection: connection.execute(statement, (offset_minutes, id)))
        return id

    def number(self, id: str) -> int:
        """Return the number of a website."""
        return int(self.app.sql("select number from website where id = ?", id)[0][0])

    async def build(self) -> None:
        """Complete the pending background work."""
        builder = self.app.background_work.builder
        builder._rest, builder._is_busy = 0, lambda: False
        await builder.work()

    def import_lines(self, lines: Sequence[Any], website: str) -> tuple[int, int, int]:
        """Import lines, whose times are those of the history, and return what became of them."""
        sent = [line | {"timestamp": line["timestamp"] + self.later_ms} for line in lines]
        path = self.app.db.with_name("lines.ndjson")
        path.write_text("".join(json.dumps(line) + "\n" for line in sent))
        connection = open_database(self.app.db, create=False)
        try:
            with open_source(str(path)) as source:
                result = import_events(
                    connection, self.number(website), source, now_ms=self.app.clock.wall_ms(), file="history.ndjson"
                )
            return result.accepted, result.duplicates, result.bad
        finally:
            connection.close()

    def undo_import(self) -> bool:
        """Undo the oldest import that is left; return whether there was one."""
        connection, number = open_database(self.app.db, create=False), self.number(self.website)
        try:
            with transaction(connection):
                known = [one for one in import_records.records(connection, number) if one.state == "complete"]
                if known:
                    undo.begin(connection, number, known[-1].number, self.app.clock.wall_ms())
            is_left = bool(known)
            while is_left:
                with transaction(connection):
                    is_left = undo.step(connection, number, known[-1].number)
            return bool(known)
        finally:
            connection.close()

    def exported(self, website: str) -> list[dict[str, Any]]:
        """Return the lines of an export, with the times of the history and visitors as numbers."""
        connection, out = open_database(self.app.db, create=False), BytesIO()
        try:
            export_events(connection, self.number(website), out)
        finally:
            connection.close()
        lines, known = [], dict[Any, int]()
        for line in map(json.loads, out.getvalue().splitlines()):
            del line["id"]
            line["timestamp"] = ms(line["timestamp"]) - self.later_ms
            if line["visitor"]:
                visitor = f"{known.setdefault(line['visitor'], len(known) + 1):x}"
                line["visitor"], visit = visitor, line["visit"]
                line["visit"] = visit and f"{visitor}-{visit.partition('-')[2]}"
            lines.append(line)
        return lines

    def wrong(self) -> list[Any]:
        """Return what `verify` finds wrong in the file."""
        connection = open_database(self.app.db, create=False)
        try:
            return [of for of in verdicts(connection, self.number(self.website), ()) if of.fault]
        finally:
            connection.close()

    async def ask(self, begin_ms: int, end_ms: int, cuts: Sequence[int], filters: Sequence[Filter]) -> dict[str, Any]:
        """Return the answer of each report about a range of the history, with the times of the history."""
        reports, website = self.app.running.reports, self.number(self.website)
        scope = Scope(website, begin_ms + self.later_ms, end_ms + self.later_ms, tuple(filters))
        before = scope._replace(from_ms=2 * scope.from_ms - scope.to_ms, to_ms=scope.from_ms)
        edges = [ms + self.later_ms for ms in (begin_ms, *cuts, end_ms)]
        spans = list(pairwise(edges))
        ends = (ms + self.later_ms + self.offset_ms for ms in (begin_ms, end_ms - 1))
        first_day, last_day = (ms // DAY_MS for ms in ends)
        days = range(first_day, last_day + 1)
        lists = [TopQuery("pathname", 3), TopQuery("utm_source", 9, goal=SIGNUP), TopQuery("device", 9, compare=before)]
        plain = scope._replace(filters=())
        asked: dict[str, Any] = {
            "first": reports.first_event_ms(website, REQUESTER),
            "stats": reports.stats([scope, before], REQUESTER),
            "goal_stats": reports.goal_stats([scope], SIGNUP, REQUESTER),
            "timeseries": reports.timeseries(scope, spans, REQUESTER),
            "goal_timeseries": reports.goal_timeseries(scope, SIGNUP, spans, REQUESTER),
            "overview": reports.overview(scope, before, spans, REQUESTER),
            "top": reports.top(scope, lists, REQUESTER),
            "leaves": reports.top(scope, [TopQuery("pathname", 9, has_leaves=True)], REQUESTER),
            "goals": reports.goals(scope, [SIGNUP], REQUESTER),
            "event_names": reports.top(scope, [TopQuery("event_name", 9)], REQUESTER),
            "entry_pages": reports.visit_pages(scope, "entry_page", 9, REQUESTER, before),
            "exit_pages": reports.visit_pages(scope, "exit_page", 9, REQUESTER),
            "vitals": reports.vitals(plain, REQUESTER),
            "vitals_by_value": reports.vitals_by_value(plain, "pathname", "lcp", 9, REQUESTER),
            "vitals_by_day": reports.vitals_by_day(plain, "lcp", REQUESTER),
            "experiments": reports.experiments(plain, REQUESTER),
            "heatmap": reports.heatmap(website, "/a", days, ["desktop"], REQUESTER),
            "heatmap_pages": reports.heatmap_pages(website, days, ["desktop", "mobile"], 9, REQUESTER),
            "funnel": reports.funnel(scope, FUNNEL, REQUESTER),
            "journeys": reports.journeys(scope, ("pathname", "/"), "next", 3, 9, REQUESTER),
            "event_data": reports.event_data(scope, "signup", None, 9, REQUESTER),
            "events": self.events(scope),
            "realtime": reports.realtime(website, self.app.clock.wall_ms(), REQUESTER),
        }
        answers = {}
        for name, question in asked.items():
            try:
                answers[name] = await question
            except BeyondRetention as beyond:
                answers[name] = ("beyond", beyond.from_ms - self.later_ms)
        if isinstance(answers["first"], int):
            answers["first"] -= self.later_ms
        if isinstance(answers["vitals_by_day"], list):
            answers["vitals_by_day"] = [(ms - self.later_ms, of) for ms, of in answers["vitals_by_day"]]
        return answers

    async def events(self, scope: Scope) -> list[Any]:
        """Return all events of a scope, read page by page, with visits as numbers in order of appearance."""
        found, place, visits = list[Any](), None, dict[Any, int]()
        while True:
            page = await self.app.running.reports.events(scope, place, 7, False, REQUESTER)
            found += page.events
            if len(page.events) < 7:
                break
            place = Place(page.events[-1].timestamp_ms, page.events[-1].id, page.last_id)
        return [
            one._replace(id=0, timestamp_ms=one.timestamp_ms - self.later_ms, visit=number)
            for one in found
            for number in [None if one.visit is None else visits.setdefault(one.visit, len(visits))]
        ]


def sent(draw: random.Random, now_ms: int) -> dict[str, Any]:
    """Return an event of the history; its timestamp is up to 72 hours old, most near a quarter hour."""
    late = draw.choice((0, 0, 1, 20 * MINUTE_MS, 31 * MINUTE_MS, draw.randrange(72 * HOUR_MS)))
    at_ms = now_ms - late
    if draw.random() < 0.3:
        at_ms = min(now_ms, max(now_ms - 71 * HOUR_MS, at_ms // QUARTER_MS * QUARTER_MS + draw.choice((-1, 0, 1))))
    path = draw.choice(PATHS)
    kind = draw.choice(("pageview",) * 6 + ("event", "event", "vitals", "heatmap", "ab_assign", "ab_convert"))
    event: dict[str, Any] = {"type": kind, "timestamp": at_ms, "url": f"https://example.com{path}"}
    event["session_id"] = f"session-{draw.randrange(4)}"
    if kind == "pageview" and draw.random() < 0.3:
        event["url"] += "?utm_source=" + draw.choice(("news", "ads"))
    elif kind == "event":
        event |= {"event_name": draw.choice(("signup", "play")), "event_data": {"price": draw.randrange(9)}}
    elif kind == "vitals":
        event["vitals"] = {"lcp": draw.randrange(100, 5_000)}
    elif kind == "heatmap":
        event |= {"viewport_width": 1_200, "points": [{"x": 0.5, "y": draw.randrange(900), "kind": "click"}]}
    elif kind == "ab_assign":
        event |= {"experiment": "price", "variant": draw.choice("ab")}
    elif kind == "ab_convert":
        event |= {"experiment": "price", "goal": "buy"}
    return event


def line(draw: random.Random, now_ms: int) -> dict[str, Any]:
    """Return a line of an import up to 20 days old; a visitor may have lines of many days."""
    kind, at_ms = draw.choice(("pageview", "pageview", "event")), now_ms - draw.randrange(20 * DAY_MS)
    if draw.random() < 0.5:
        at_ms = at_ms // DAY_MS * DAY_MS + draw.randrange(2 * HOUR_MS)
    found = {"type": kind, "timestamp": at_ms, "visitor": f"v{draw.randrange(3)}", "pathname": draw.choice(PATHS)}
    return found | ({"event_name": "signup"} if kind == "event" else {})


class History:
    """A random history, given to both sides step by step."""

    def __init__(self, draw: random.Random, sides: Sequence[Side]) -> None:
        self.draw, self.sides, self.now_ms = draw, sides, NOON_MS
        # The pageviews that have an event_id.
        self.views: list[dict[str, Any]] = []

    async def step(self) -> None:
        """Do a random step."""
        steps: list[tuple[int, Callable[[], Any]]] = [
            (16, self.send),
            (5, self.wait),
            (4, self.ask),
            (2, self.build),
            (1, self.restart),
            (1, self.import_lines),
            (1, self.undo),
            (1, self.keep_days),
        ]
        (do,) = self.draw.choices([one for _, one in steps], [weight for weight, _ in steps])
        await do()

    async def send(self) -> None:
        events = [self.event() for _ in range(self.draw.randrange(1, 9))]
        agent, answers = self.draw.choice(AGENTS), []
        if self.draw.random() < 0.5:
            events = [{name: of for name, of in one.items() if name != "session_id"} for one in events]
        for side in self.sides:
            own = [one | {"timestamp": one["timestamp"] + side.later_ms} for one in events]
            body = {"website_id": side.website, "events": own}
            answer = await side.app.collect(body, ua=agent)
            answers.append((answer.status, answer.json.get("accepted"), answer.json.get("errors")))
        assert answers[0] == answers[1]

    def event(self) -> dict[str, Any]:
        """Return an event, or a leave of one of the latest pageviews, some of which have been left before."""
        if self.views and self.draw.random() < 0.2:
            measured = {"time_on_page": self.draw.randrange(90), "scroll_depth": 5 * self.draw.randrange(21)}
            return self.draw.choice(self.views[-20:]) | {"type": "leave"} | measured
        event = sent(self.draw, self.now_ms)
        if event["type"] == "pageview" and self.draw.random() < 0.6:
            event["event_id"] = f"view {len(self.views)}"
            self.views.append(event)
        return event

    async def wait(self) -> None:
        ms = self.draw.choice((MINUTE_MS, 10 * MINUTE_MS, 31 * MINUTE_MS, 5 * HOUR_MS, DAY_MS, 4 * DAY_MS))
        self.now_ms += ms
        for side in self.sides:
            side.app.clock.advance(ms / 1000)

    async def build(self) -> None:
        for side in self.sides:
            await side.build()

    async def restart(self) -> None:
        for side in self.sides:
            await side.app.restart()

    async def import_lines(self) -> None:
        lines = [line(self.draw, self.now_ms) for _ in range(self.draw.randrange(1, 40))]
        found = [side.import_lines(lines, side.website) for side in self.sides]
        assert found[0] == found[1]
        await self.refresh()

    async def undo(self) -> None:
        assert len({side.undo_import() for side in self.sides}) == 1
        await self.refresh()

    async def keep_days(self) -> None:
        days = self.draw.choice((None, None, 5, 7))
        for side in self.sides:
            number = side.number(side.website)
            await side.app.admin(
                lambda connection, number=number: connection.execute(
                    "update website set keep_days = ? where number = ?", (days, number)
                )
            )
            await side.build()

    async def refresh(self) -> None:
        for side in self.sides:
            await side.app.registry.refresh()
            await side.app.running.reports.refresh(REQUESTER)

    async def ask(self) -> None:
        """Ask about a range that begins and ends anywhere, or with days of the website."""
        draw, unit = self.draw, self.draw.choice((DAY_MS, QUARTER_MS, HOUR_MS, 1))
        end_ms = self.now_ms + draw.choice((0, 1, DAY_MS)) - draw.randrange(4) * DAY_MS
        begin_ms = end_ms - draw.choice((QUARTER_MS, DAY_MS, 3 * DAY_MS, 25 * DAY_MS)) - draw.randrange(DAY_MS)
        begin_ms, end_ms = (
            (ms + self.sides[0].offset_ms) // unit * unit - self.sides[0].offset_ms for ms in (begin_ms, end_ms + unit)
        )
        cuts = sorted({draw.randrange(begin_ms + 1, end_ms) // QUARTER_MS * QUARTER_MS for _ in range(4)})
        cuts = [ms for ms in cuts if begin_ms < ms < end_ms]
        filters = draw.choice(FILTERS)
        one, other = [await side.ask(begin_ms, end_ms, cuts, filters) for side in self.sides]
        for name, answer in one.items():
            assert answer == other[name], (name, begin_ms, end_ms, cuts, filters)

    async def compare_files(self) -> None:
        """Compare what `verify` finds, exports, and what is imported from them to a website with other days."""
        assert [side.wrong() for side in self.sides] == [[], []]
        exports = [side.exported(side.website) for side in self.sides]
        assert exports[0] == exports[1]
        one, other = self.sides
        before_ms = other.later_ms
        offsets = [minutes for minutes in (0, *OFFSETS) if -720 <= minutes - before_ms // MINUTE_MS <= 840]
        one.offset_ms = self.draw.choice(offsets) * MINUTE_MS
        other.offset_ms = one.offset_ms - before_ms
        for side in self.sides:
            side.website = await side.add("other.example", side.offset_ms // MINUTE_MS)
            accepted, _, bad = side.import_lines(exports[0], side.website)
            assert (accepted, bad) == (len(exports[0]), 0)
        await self.refresh()
        for _ in range(2):
            await self.ask()
            await self.build()
        assert [side.wrong() for side in self.sides] == [[], []]
        again = [side.exported(side.website) for side in self.sides]
        assert again[0] == again[1]
        assert len(again[0]) == len(exports[0])


@pytest.mark.random_examples
@pytest.mark.parametrize("number", range(examples(len(OFFSETS), default=1)))
async def test_a_shifted_history_has_shifted_figures(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A history on a website with an offset equals the shifted history on a website with UTC days."""
    monkeypatch.setattr(background_work, "PAUSE_S", 1e6)  # the history decides when rollups are built
    seed = int(os.environ.get("SEED") or random.randrange(1 << 32))
    draw = random.Random(seed)
    offset = draw.choice(OFFSETS) if examples(2, default=1) == 1 else OFFSETS[number]
    folders = [tmp_path / side for side in "ab"]
    for folder in folders:
        folder.mkdir()
    sides = Side(folders[0], offset, 0), Side(folders[1], 0, offset)
    for side in sides:
        await side.open()
    history = History(draw, sides)
    try:
        for _ in range(STEPS):
            await history.step()
        for _ in range(3):
            await history.ask()
        await history.compare_files()
    except AssertionError as error:
        raise AssertionError(f"offset {offset}, seed {seed}: {error}") from error
    finally:
        for side in sides:
            await side.app.close()
