"""The contract of an engine: what each method of its protocols returns, by hand, for a day of three visitors.

Every engine in ENGINES (tests/api/conftest.py) runs this. Figures over random histories are compared in tests/model.
"""

import asyncio
import inspect
from collections.abc import Hashable
from typing import Any

import pytest

from tally.accounts.websites import delete_website
from tally.engine.archive import COLUMNS, FIELD_NUMBERS, Archive, Line, SumLine, SumRow, Taken, Verdict
from tally.engine.engine import Engine, Health
from tally.engine.ingest import DUPLICATE, Ingest, OnWritten, WriteRequest
from tally.engine.reports import Reports
from tally.engine.values import (
    BeyondRetention,
    Conversions,
    FunnelStep,
    Goal,
    GoalFigures,
    HeatmapPages,
    JourneyStep,
    Link,
    Page,
    Place,
    Reached,
    Realtime,
    Requester,
    Scope,
    Stats,
    TopQuery,
    TopRow,
    Traffic,
)
from tally.events.dimensions import FIELDS
from tally.events.filters import Filter
from tally.events.validation import PAGEVIEW
from tally.storage import import_records
from tally.timestamps import DAY_MS, HOUR_MS
from tally.transfer import undo
from tests.support.app import App, MakeApp, ManualClock
from tests.support.read_api import NOON_MS, custom, event, ms, view

REQUESTER = Requester()
BEGIN_MS = ms("00:00:00")
PRICING = (Filter("pathname", "=", ("/pricing",)),)
SIGNUP = Goal((Filter("event_name", "=", ("signup",)),), "price")
CLICK = {"x": 0.5, "y": 100, "kind": "click"}
SENT = [
    view("09:00:00", "/?utm_source=news", "ann"),
    view("09:10:00", "/pricing", "ann"),
    custom("09:20:00", "signup", "ann", event_data={"plan": "pro", "price": 9.5}),
    view("11:00:00", "/", "ann"),
    view("10:00:00", "/pricing", "bob"),
    view("10:00:01", "/pricing", "cem") | {"title": "Prices"},
    view("12:00:00", "/blog", "cem"),
    event("vitals", "09:00:05", "ann", url="https://example.com/pricing", vitals={"lcp": 1_000}),
    event("heatmap", "09:00:06", "ann", url="https://example.com/pricing", viewport_width=1_200, points=[CLICK]),
    event("ab_assign", "09:00:07", "ann", experiment="price", variant="b"),
    event("ab_convert", "09:00:08", "ann", experiment="price", goal="buy"),
    view(NOON_MS - 60_000, "/now", "dee"),
]
STATS = Stats(visitors=3, pageviews=6, events=1, visits=5, bounces=4, visit_views=6, visit_ms=1_200_000)
SIGNUPS = Conversions(events=1, visitors=1, value=9_500_000, without_value=0)


class Contract:
    """An engine that has stored SENT, and the scopes of a question about them. A subclass has an example of each member
    of a protocol, under its name."""

    website_id = ""

    def __init__(self, app: App, website: int) -> None:
        self.app, self.reports, self.website = app, app.running.reports, website
        self.day = Scope(website, BEGIN_MS, BEGIN_MS + DAY_MS)
        self.pricing = self.day._replace(filters=PRICING)
        self.before = Scope(website, BEGIN_MS - DAY_MS, BEGIN_MS)
        self.ten_ms = BEGIN_MS + 10 * HOUR_MS
        self.halves = [(BEGIN_MS, self.ten_ms), (self.ten_ms, BEGIN_MS + DAY_MS)]
        self.days = range(BEGIN_MS // DAY_MS, BEGIN_MS // DAY_MS + 1)


class ReportsContract(Contract):
    async def version(self) -> None:
        before = self.reports.version(self.website), self.reports.version(self.website + 1)
        sent = view("13:00:00", "/", "eve") | {"website_id": self.website_id}
        assert (await self.app.collect(sent)).status == 202
        assert self.reports.version(self.website) != before[0]
        assert self.reports.version(self.website + 1) == before[1]

    async def refresh(self) -> None:
        await self.reports.refresh(REQUESTER)

    async def traffic(self) -> None:
        found = await self.reports.traffic([self.website, self.website + 1], REQUESTER)
        assert found == {self.website: Traffic(8, True), self.website + 1: Traffic(0, True)}

    async def first_event_ms(self) -> None:
        assert await self.reports.first_event_ms(self.website, REQUESTER) == ms("09:00:00")
        assert await self.reports.first_event_ms(self.website + 1, REQUESTER) is None

    async def imported_days(self) -> None:
        assert await self.reports.imported_days(self.day, ["pathname"], REQUESTER) is None

    async def stats(self) -> None:
        pricing = Stats(visitors=3, pageviews=3, events=0, visits=3, bounces=2, visit_views=4, visit_ms=1_200_000)
        scopes = [self.day, self.pricing, self.before]
        assert await self.reports.stats(scopes, REQUESTER) == [STATS, pricing, Stats()]

    async def goal_stats(self) -> None:
        assert await self.reports.goal_stats([self.day], SIGNUP, REQUESTER) == [(STATS, SIGNUPS)]

    async def timeseries(self) -> None:
        found = await self.reports.timeseries(self.day, self.halves, REQUESTER)
        assert [tuple(row) for row in found] == [(1, 1, 2, 1), (3, 4, 4, 0)]

    async def goal_timeseries(self) -> None:
        found = await self.reports.goal_timeseries(self.day, SIGNUP, self.halves, REQUESTER)
        assert [(tuple(row), of) for row, of in found] == [((1, 1, 2, 1), SIGNUPS), ((3, 4, 4, 0), Conversions())]

    async def overview(self) -> None:
        now, before, rows = await self.reports.overview(self.day, self.before, self.halves, REQUESTER)
        assert (now, before, [tuple(row) for row in rows]) == (STATS, Stats(), [(1, 1, 2, 1), (3, 4, 4, 0)])

    async def top(self) -> None:
        queries = [TopQuery("pathname", 2), TopQuery("utm_source", 5, goal=SIGNUP), TopQuery("pathname", 5, 2)]
        paths, sources, rest = await self.reports.top(self.day, queries, REQUESTER)
        assert paths.unset == TopRow("", Stats(visitors=1, events=1))
        assert paths.rows == [TopRow("/pricing", Stats(3, 3)), TopRow("/", Stats(1, 2))]
        assert (paths.total, rest.rows) == (3, [TopRow("/blog", Stats(1, 1))])
        by_conversions = TopQuery("pathname", 1, goal=SIGNUP, order="conversions", ascending=True)
        (fewest,) = await self.reports.top(self.day, [by_conversions], REQUESTER)
        assert [(row.value, row.conversions) for row in fewest.rows] == [("/pricing", Conversions())]
        # The source is that of the visit.
        (source,) = sources.rows
        assert (source.value, source.figures[:3], source.conversions) == ("news", (1, 2, 1), SIGNUPS)

    async def goals(self) -> None:
        assert await self.reports.goals(self.day, [SIGNUP], REQUESTER) == GoalFigures(3, [SIGNUPS])

    async def visit_pages(self) -> None:
        entries = [Page("/", 2, 1, 3, 1_200_000), Page("/pricing", 2, 2, 2, 0), Page("/blog", 1, 1, 1, 0)]
        assert await self.reports.visit_pages(self.day, "entry_page", 5, REQUESTER) == (0, entries, None)
        assert (await self.reports.visit_pages(self.day, "exit_page", 1, REQUESTER))[1][0].value == "/pricing"

    async def page_titles(self) -> None:
        pages = ["/", "/pricing", "/nowhere"]
        assert await self.reports.page_titles(self.website, pages, REQUESTER) == {"/pricing": "Prices"}
        assert await self.reports.page_titles(self.website + 1, pages, REQUESTER) == {}

    async def events(self) -> None:
        first = await self.reports.events(self.day, None, 2, True, REQUESTER)
        assert [(row.type, row.dimensions[0], row.timestamp_ms) for row in first.events] == [
            ("pageview", "/blog", ms("12:00:00")),
            ("pageview", "/", ms("11:00:00")),
        ]
        last = first.events[-1]
        rest = await self.reports.events(
            self.day, Place(last.timestamp_ms, last.id, first.last_id), 50, False, REQUESTER
        )
        assert [row.type for row in rest.events][:3] == ["pageview", "pageview", "event"]
        # Neither the event of the next day nor that of the heatmap.
        assert (len(rest.events), rest.last_id) == (len(SENT) - 4, first.last_id)
        assert rest.events[2].event_data == '{"plan":"pro","price":9.5}'
        of_ann = {
            row.visit for row in rest.events if row.timestamp_ms <= ms("09:20:00") and row.type in ("pageview", "event")
        }
        assert len(of_ann) == 1

    async def realtime(self) -> None:
        assert await self.reports.realtime(self.website, NOON_MS, REQUESTER) == Realtime(1, [("/now", 1)])

    async def vitals(self) -> None:
        found = await self.reports.vitals(self.day, REQUESTER)
        assert (next(iter(found)), found["lcp"].samples, found["lcp"].good) == ("lcp", 1, 1)
        assert found["lcp"].percentiles[1] == pytest.approx(1_000, rel=0.02)

    async def vitals_by_value(self) -> None:
        (row,) = await self.reports.vitals_by_value(self.day, "pathname", "lcp", 5, REQUESTER)
        assert (row.value, row.events, row.summary.samples) == ("/pricing", 1, 1)

    async def vitals_by_day(self) -> None:
        ((start_ms, summary),) = await self.reports.vitals_by_day(self.day, "lcp", REQUESTER)
        assert (start_ms, summary.samples) == (BEGIN_MS, 1)

    async def experiments(self) -> None:
        ((experiment,), omitted) = await self.reports.experiments(self.day, REQUESTER)
        assert (experiment.name, experiment.visitors, omitted) == ("price", {"b": 1}, 0)
        assert [(of.goal, of.arms[0].conversions) for of in experiment.goals] == [("buy", 1)]

    async def heatmap(self) -> None:
        found = await self.reports.heatmap(self.website, "/pricing", self.days, ["desktop"], REQUESTER)
        assert (found.grid, found.clicks, found.samples) == ([(25, 5, 1)], 1, 0)
        assert (await self.reports.heatmap(self.website, "/pricing", self.days, ["mobile"], REQUESTER)).clicks == 0

    async def heatmap_pages(self) -> None:
        found = await self.reports.heatmap_pages(self.website, self.days, ["desktop"], 5, REQUESTER)
        assert found == HeatmapPages([("/pricing", 0, 1)], (0, 0))

    async def funnel(self) -> None:
        steps = [FunnelStep("pathname", "/"), FunnelStep("pathname", "/pricing"), FunnelStep("", "", SIGNUP.filters)]
        found = await self.reports.funnel(self.day, steps, REQUESTER)
        assert found == [Reached(2, 1, 0), Reached(1, 1, 600_000), Reached(1, 1, 600_000)]

    async def journeys(self) -> None:
        found = await self.reports.journeys(self.day, ("pathname", "/"), "next", 1, 5, REQUESTER)
        start = JourneyStep("pathname", "/")
        ends = [Link(1, start, JourneyStep("pathname", "/pricing"), 1), Link(1, start, JourneyStep("", ""), 1)]
        assert sorted(found) == sorted(ends)

    async def event_data(self) -> None:
        found = await self.reports.event_data(self.day, "signup", None, 5, REQUESTER)
        assert (found.events, found.visitors, found.properties, found.exact) == (1, 1, 2, True)
        assert {of.name: of.values for of in found.first} == {"plan": [("pro", 1, 1)], "price": [(9.5, 1, 1)]}
        only = await self.reports.event_data(self.day, "signup", "price", 5, REQUESTER)
        assert [(of.name, of.numbers.sum) for of in only.first] == [("price", 9.5)]


class IngestContract(Contract):
    async def append(self) -> None:
        """What is appended is durable before its outcome, and a copy is one."""
        ingest, requests = self.app.running.ingest, list[WriteRequest]()
        append = ingest.append

        def noted(request: WriteRequest, on_written: OnWritten) -> None:
            requests.append(request)
            append(request, on_written)

        ingest.append = noted  # type: ignore[method-assign]
        sent = view("14:00:00", "/", "eve", event_id="event-1") | {"website_id": self.website_id}
        assert (await self.app.collect(sent)).status == 202
        (row,) = requests[0].events
        other = row._replace(event=row.event._replace(event_id="event-2"))
        outcomes: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        append(WriteRequest([row, other], requests[0].arrived_ms), outcomes.set_result)
        assert not outcomes.done()
        assert await outcomes == [DUPLICATE, None]
        assert (await self.reports.stats([self.day], REQUESTER))[0].pageviews == STATS.pageviews + 2

    async def is_full(self) -> None:
        assert not self.app.running.ingest.is_full


class ArchiveContract(Contract):
    """`imported`: a day before those of SENT, and lines of it."""

    def __init__(self, app: App, website: int) -> None:
        super().__init__(app, website)
        self.archive = app.running.archive
        self.imported = self.day._replace(from_ms=BEGIN_MS - 9 * DAY_MS, to_ms=BEGIN_MS - 8 * DAY_MS)
        texts = [(*(path if field == "pathname" else "" for field in FIELDS), "") for path in ("/old", "/older")]
        self.lines = [
            Line(number, self.imported.from_ms + number * HOUR_MS, PAGEVIEW, number, None, 7, True, of_line, (None,))
            for number, of_line in enumerate(texts, 1)
        ]

    async def begun(self) -> int:
        """Return the number of an import that has begun."""
        place = self.website, "tally", "", "file.ndjson", NOON_MS
        return await self.app.database.write(lambda connection: import_records.begin(connection, *place))

    async def views(self, scope: Scope) -> int:
        return (await self.reports.stats([scope], REQUESTER))[0].pageviews

    async def cleans_itself(self) -> None:
        assert self.archive.cleans_itself in (False, True)

    async def parts(self) -> None:
        before = await self.archive.parts(self.website)
        assert [part.day for part in before] == [self.days.start, self.days.start + 1]
        for day, sent in enumerate((view("15:00:00", "/", "eve"), view(NOON_MS - 30_000, "/", "eve"))):
            assert (await self.app.collect(sent | {"website_id": self.website_id})).status == 202
            after = await self.archive.parts(self.website)
            assert [now != earlier for now, earlier in zip(after, before, strict=True)] == [day == 0, day == 1]
            before = after
        assert await self.archive.parts(self.website + 1) == []

    async def rows(self) -> None:
        everything = [row async for rows in self.archive.rows(self.website) for row in rows]
        rows = [row async for rows in self.archive.rows(self.website, self.days) for row in rows]
        assert (len(everything), everything[:-1]) == (len(SENT) - 1, rows)
        first = dict(zip(COLUMNS, rows[0], strict=True))
        assert (first["type"], first["timestamp"]) == ("pageview", ms("09:00:00"))
        assert (first["pathname"], first["utm_source"], first["event_name"]) == ("/", "news", None)
        assert [row async for rows in self.archive.rows(self.website + 1) for row in rows] == []

    async def take(self) -> None:
        number = await self.begun()
        assert await self.archive.take(self.website, number, self.lines) == Taken(2, 0, 0, 0, [])
        assert await self.archive.take(self.website, number, self.lines) == Taken(0, 0, 0, 2, [])
        assert await self.views(self.imported) == 2
        total = SumLine(3, self.imported.from_ms // DAY_MS - 1, FIELD_NUMBERS["total"], ("",), 4, (0, 0, 5, 0, 0, 0))
        assert await self.archive.take(self.website, number, [total]) == Taken(0, 1, 0, 0, [])
        (sums,) = [row async for rows in self.archive.rows(self.website) for row in rows if isinstance(row, SumRow)]
        assert sums == SumRow(total.day, "total", None, (None, None, 5, None, None, None))

    async def undo(self) -> None:
        number = await self.begun()
        await self.archive.take(self.website, number, self.lines)
        await self.app.database.write(
            lambda connection: import_records.end(connection, self.website, number, import_records.COMPLETE)
        )
        await self.app.database.write(lambda connection: undo.begin(connection, self.website, number, NOON_MS))
        while await self.archive.undo(self.website, number):
            pass
        assert (await self.views(self.imported), await self.views(self.day)) == (0, STATS.pageviews)
        assert await self.archive.take(self.website, await self.begun(), self.lines) == Taken(2, 0, 0, 0, [])

    async def verify(self) -> None:
        verdicts = [verdict async for verdict in self.archive.verify(self.website)]
        assert {self.days.start, self.days.start + 1} <= {verdict.first_day for verdict in verdicts}
        assert [verdict for verdict in verdicts if verdict.fault] == []

    async def repair(self) -> None:
        await self.archive.repair(self.website, [Verdict(0, self.days.start, "totals")])
        assert await self.views(self.day) == STATS.pageviews

    async def forget(self) -> None:
        while await self.archive.forget(self.website):
            pass
        assert await self.archive.parts(self.website) == []
        assert [row async for rows in self.archive.rows(self.website) for row in rows] == []

    async def expire(self) -> None:
        """Days expire one after another, as soon as no event of theirs can arrive; sums of whole days are kept."""
        self.app.clock.advance(12 * 86_400)
        from_ms = None
        async with asyncio.timeout(60):
            while from_ms is None:
                await self.archive.expire(self.website, self.days.stop)
                try:
                    await self.reports.events(self.day, None, 1, True, REQUESTER)
                    await asyncio.sleep(0.01)
                except BeyondRetention as failure:
                    from_ms = failure.from_ms
        assert from_ms == self.day.to_ms
        assert await self.reports.stats([self.day], REQUESTER) == [STATS]


class EngineContract(Contract):
    async def reports(self) -> None:
        assert isinstance(self.app.running.reports.version(self.website), Hashable)

    async def ingest(self) -> None:
        assert not self.app.running.ingest.is_full

    async def archive(self) -> None:
        assert len(await self.app.running.archive.parts(self.website)) == 2

    async def each_second(self) -> None:
        await self.app.running.each_second(NOON_MS)

    async def health(self) -> None:
        assert self.app.running.health() == Health("", 0)

    async def metrics(self) -> None:
        names = [family.name for family in self.app.running.metrics()]
        assert len(set(names)) == len(names)

    async def open(self) -> None:
        """What was stored before `close` is there after `open`."""
        await self.app.restart()
        assert await self.app.running.reports.stats([self.day], REQUESTER) == [STATS]

    close = open


def members(protocol: type) -> list[str]:
    """The names of what an engine has to have."""
    return [name for name in {**vars(protocol), **inspect.get_annotations(protocol)} if not name.startswith("_")]


async def made(make_app: MakeApp, contract: type[Contract]) -> Contract:
    """The examples of a protocol, for an engine that has stored SENT."""
    app = await make_app()
    id = await app.website()
    assert (await app.collect({"website_id": id, "events": SENT})).json["accepted"] == len(SENT)
    examples = contract(app, app.registry.website(id).number)
    examples.website_id = id
    return examples


async def run(examples: Contract, name: str) -> None:
    """Run the example of a member; without one, fail."""
    # Of the class: an attribute has the name of a member.
    await getattr(type(examples), name)(examples)


async def test_every_method_of_reports(make_app: MakeApp, subtests: pytest.Subtests) -> None:
    """`version`, which stores an event, is last."""
    examples = await made(make_app, ReportsContract)
    for name in sorted(members(Reports), key="version".__eq__):
        with subtests.test(name):
            await run(examples, name)


CONTRACTS: dict[type, type[Contract]] = {Ingest: IngestContract, Archive: ArchiveContract, Engine: EngineContract}
MEMBERS = [(protocol, name) for protocol in CONTRACTS for name in members(protocol)]


@pytest.mark.parametrize(
    ("protocol", "name"), MEMBERS, ids=[f"{protocol.__name__}.{name}" for protocol, name in MEMBERS]
)
async def test_what_writes(protocol: type, name: str, make_app: MakeApp, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each member of the other protocols, with an engine of its own."""
    for module in ("maintenance.background_work", "web.components"):
        monkeypatch.setattr(f"tally.{module}.PAUSE_S", 0.01)
    await run(await made(make_app, CONTRACTS[protocol]), name)


async def test_deleted_websites_and_expired_events(
    make_app: MakeApp, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a deleted website nothing is left; events expire after their days, and sums of whole days are kept."""
    for module in ("maintenance.background_work", "web.components"):
        monkeypatch.setattr(f"tally.{module}.PAUSE_S", 0.01)
    app = await make_app(keep_days=10)
    scopes = []
    for domain in ("example.com", "example.org"):
        id = await app.website(domain)
        assert (await app.collect({"website_id": id, "events": SENT})).json["accepted"] == len(SENT)
        scopes.append(Scope(app.registry.website(id).number, BEGIN_MS, BEGIN_MS + DAY_MS))
    deleted, kept = scopes
    await app.registry.change(delete_website, deleted.website, clock.wall_ms())
    async with asyncio.timeout(60):
        while await app.running.reports.stats([deleted], REQUESTER) != [Stats()]:
            await asyncio.sleep(0.01)
    assert await app.running.reports.stats([kept], REQUESTER) == [STATS]
    clock.advance(12 * 86_400)
    beyond = None
    async with asyncio.timeout(60):
        while beyond is None:
            try:
                await app.running.reports.events(kept, None, 1, True, REQUESTER)
                await asyncio.sleep(0.01)
            except BeyondRetention as failure:
                beyond = failure
    # Days expire one after another.
    assert kept.to_ms <= beyond.from_ms <= clock.wall_ms() // DAY_MS * DAY_MS - 10 * DAY_MS
    assert await app.running.reports.stats([kept], REQUESTER) == [STATS]
