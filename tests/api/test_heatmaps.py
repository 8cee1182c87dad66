"""Heatmaps, packed or not, compared with plain counting of the points sent.

The expected result is counted from the list of points for each query. Points are sent to the real endpoint; when they
are packed, and when the process is killed, is random.
"""

import csv
import io
import random
import sqlite3
import time
import tracemalloc
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tally.engine.values import BINS_X, WIDTHS
from tally.maintenance import background_work
from tally.maintenance.verify import HEATMAPS, verdicts
from tally.reports import heatmaps
from tally.rollups import heatmap_grid
from tally.rollups import heatmaps as heatmap_rollups
from tally.rollups.heatmap_grid import BAND_ROWS, CELLS
from tally.rollups.heatmaps import COUNT_LEVELS, LEVELS
from tally.storage.database import open_database, transaction
from tally.timestamps import DAY_MS, iso
from tests.support.app import NOON_MS, Answer, App, MakeApp

TODAY = NOON_MS // DAY_MS
# Widths on both sides of each bound: phones under 640 pixels, tablets under 1,024.
VIEWPORTS = {1: 0, 639: 0, 640: 1, 1_023: 1, 1_024: 2, 20_000: 2}
PATHS = ["/", "/a", "/a/b", "/" + "l" * 8_172]  # with the host a URL of 8,192 characters


class Point(NamedTuple):
    """A point to send."""

    day: int
    path: str
    width: int
    kind: str
    x: float
    y: float


class Plain:
    """The list of all points sent."""

    def __init__(self) -> None:
        self.points: list[Point] = []

    def chosen(self, first: int, end: int, widths: tuple[str, ...]) -> list[Point]:
        wanted = {WIDTHS.index(width) for width in widths or WIDTHS}
        return [point for point in self.points if first <= point.day < end and point.width in wanted]

    def heatmap(self, path: str, first: int, end: int, widths: tuple[str, ...] = ()) -> dict[str, Any]:
        points = [point for point in self.chosen(first, end, widths) if point.path == path]
        clicks = Counter((min(int(50 * point.x), 49), int(point.y / 20)) for point in points if point.kind == "click")
        depths = [int(point.y / 20) for point in points if point.kind == "scroll"]
        scroll, row = [], 0
        while depths and (share := 100 * sum(depth >= row for depth in depths) / len(depths)) >= 0.05:
            scroll.append(int(share * 10 + 0.5) / 10)
            row += 1
        return {
            "grid": sorted(([x, y, count] for (x, y), count in clicks.items()), key=lambda spot: (spot[1], spot[0])),
            "bins_x": 50,
            "bin_height": 20,
            "samples": len(depths),
            "clicks": sum(clicks.values()),
            "scroll": scroll,
            "texts": [],
        }

    def pages(self, first: int, end: int, widths: tuple[str, ...] = (), limit: int = 10) -> list[dict[str, Any]]:
        points = self.chosen(first, end, widths)
        kinds = {kind: Counter(point.path for point in points if point.kind == kind) for kind in ("scroll", "click")}
        rows = [
            {"value": path, "samples": kinds["scroll"][path], "clicks": kinds["click"][path]}
            for path in {point.path for point in points}
        ]
        return sorted(rows, key=lambda row: (-row["samples"] - row["clicks"], row["value"]))[:limit]


class Killed(Exception):
    """The process is killed."""


class HeatmapServer:
    """A server and the list of points; packing runs only when a test requests it."""

    def __init__(self, app: App, website: str, key: str) -> None:
        self.app, self.website, self.key, self.plain = app, website, key, Plain()
        [(self.number,)] = app.sql("select number from website where id = ?", website)

    async def send(self, *points: Point) -> None:
        """Send points to the endpoint, up to 50 events at once."""
        events = []
        for page in dict.fromkeys(point[:3] for point in points):
            own = [point for point in points if point[:3] == page]
            day, path, width = page
            at_ms = self.app.clock.wall_ms() if day == self.today() else day * DAY_MS + 86_399_999
            viewport = random.Random(len(self.plain.points)).choice([px for px, of in VIEWPORTS.items() if of == width])
            for start in range(0, len(own), 100):
                sent = [{"x": point.x, "y": point.y, "kind": point.kind} for point in own[start : start + 100]]
                event = {"type": "heatmap", "url": f"https://example.com{path}", "viewport_width": viewport}
                events.append(event | {"points": sent, "timestamp": at_ms})
        for start in range(0, len(events), 20):
            answer = await self.app.collect({"website_id": self.website, "events": events[start : start + 20]})
            assert (answer.status, answer.json["rejected"]) == (202, 0), answer.text
            self.app.clock.advance(1)
        self.plain.points += points

    def today(self) -> int:
        return self.app.clock.wall_ms() // DAY_MS

    async def pack(self, steps: int = 1 << 30, end: int | None = None, killed: bool = False) -> None:
        """Run some steps of packing, or one that is rolled back in the middle."""

        def step(connection: sqlite3.Connection) -> bool:
            until = heatmap_rollups.pack_end(connection, self.number, self.today()) if end is None else end
            more = until is not None and heatmap_rollups.pack(connection, self.number, until)
            if killed:
                raise Killed
            return more

        for _ in range(min(steps, 1_000)):
            if not await self.app.admin(step):
                return
        assert steps < 1_000, "it comes to an end"

    async def query(self, what: str, **params: Any) -> Answer:
        return await self.app.get(f"/api/v1/websites/{self.website}/{what}", self.key, params)

    async def check(self, first: int, end: int, widths: tuple[str, ...] = (), limit: int = 10) -> None:
        """Compare all pages and their list with the points sent."""
        span: dict[str, Any] = {"from": iso(first * DAY_MS)[:10], "to": iso((end - 1) * DAY_MS)[:10]}
        if widths:
            span["filter_device"] = list(widths)
        for path in [*dict.fromkeys(point.path for point in self.plain.points), "/nowhere"]:
            answer = await self.query("heatmap", pathname=path, **span)
            assert answer.status == 200, answer.text
            assert answer.json["data"] == self.plain.heatmap(path, first, end, widths)
            assert answer.json["meta"]["cells"] == len(answer.json["data"]["grid"])
        listed = (await self.query("heatmap-pages", limit=limit, **span)).json
        assert listed["data"] == self.plain.pages(first, end, widths, limit)

    def wrong(self) -> list[tuple[int, int]]:
        """Return the heatmap errors that verify finds."""
        with closing(open_database(self.app.db, create=False)) as connection:
            found = verdicts(connection, self.number)
            return [(verdict.level, verdict.block) for verdict in found if verdict.fault == HEATMAPS]


@pytest.fixture
async def server(make_app: MakeApp, monkeypatch: pytest.MonkeyPatch) -> HeatmapServer:
    monkeypatch.setattr(background_work, "PAUSE_S", 1e6)
    app = await make_app(client_per_minute=1 << 20, website_per_minute=1 << 20, key_per_minute=1 << 20)
    return HeatmapServer(app, await app.website(), await app.key())


def random_points(rng: random.Random, today: int, count: int) -> list[Point]:
    """Return points of three days with uneven pages, often at the bounds of cells."""
    found = []
    for _ in range(count):
        y = rng.choice((0, 19.99, 20, 4_999, 5_000, 1_000_000, *(rng.randrange(5_200) for _ in range(20))))
        page = (today - rng.choice((0, 0, 1, 2)), rng.choice(PATHS[:2] + PATHS), rng.randrange(3))
        kind = rng.choice(("click", "click", "click", "scroll"))
        found.append(Point(*page, kind, rng.choice((0, 1, 0.02, 0.98, rng.random())), y))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
async def test_against_plain_counting(server: HeatmapServer, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Points over some 80 days with late ones, packed or killed at random, queried over random ranges."""
    monkeypatch.setattr(heatmap_rollups, "SUM_FROM_BYTES", 40)
    monkeypatch.setattr(heatmap_rollups, "_ROWS_A_STEP", 40)
    rng = random.Random(seed)
    begun = server.today()
    while server.today() < begun + 80:
        await server.send(*random_points(rng, server.today(), rng.randrange(1, 30)))
        if rng.random() < 0.5:
            await server.pack(rng.choice((1, 5, 1 << 30)), rng.choice((None, None, 1 << 40)))
        if rng.random() < 0.1:
            with pytest.raises(Killed):
                await server.pack(killed=True)
        if rng.random() < 0.15:
            first = begun + rng.randrange(-3, 80)
            widths = tuple(width for width in WIDTHS if rng.random() < 0.4)
            await server.check(first, first + rng.randrange(1, 80), widths, rng.choice((1, 10)))
        server.app.clock.advance(rng.choice((3_600, 2 * 86_400, 3 * 86_400)))
    for _ in range(2):
        await server.check(begun - 3, begun + 90)
        await server.check(begun + 5, begun + 71, ("mobile", "desktop"))
        await server.pack()
    assert server.wrong() == []
    rows = dict(server.app.sql("select level, count(*) from heatmap_block group by level"))
    assert min(rows[level] for level in LEVELS) > 0
    assert [row[0] for row in server.app.sql("select distinct level from heatmap_count")] == list(COUNT_LEVELS)
    assert server.app.sql("select count(*) from heatmap_point where day < ?", server.today()) == [(0,)]


async def test_many_points_of_today_are_packed(server: HeatmapServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many points of the current day are packed; few stay as rows until its end."""
    monkeypatch.setattr(heatmap_rollups, "MAX_ROWS", 100)
    points = random_points(random.Random(1), server.today(), 600)
    today = [point for point in points if point.day == server.today()]
    await server.send(*today[:80])
    await server.pack()
    assert server.app.sql("select count(*) from heatmap_count") == [(0,)]
    await server.send(*today[80:])
    [(before,)] = server.app.sql("select count(*) from heatmap_point")
    await server.pack()
    [(left,)] = server.app.sql("select count(*) from heatmap_point")
    assert left <= 100 < before, "a step may end with few points left, which then stay"
    await server.check(server.today(), server.today() + 1)


async def test_the_background_packs(server: HeatmapServer) -> None:
    """Only days that are over are packed."""
    await server.send(*random_points(random.Random(2), server.today(), 200))
    await server.app.background_work.builder.work()
    assert server.app.sql("select distinct day from heatmap_point") == [(server.today(),)]
    await server.check(server.today() - 2, server.today() + 1)
    server.app.clock.advance(86_400)
    await server.app.background_work.builder.work()
    assert server.app.sql("select count(*) from heatmap_point") == [(0,)]
    await server.check(server.today() - 3, server.today())


async def test_a_range_is_widened_to_days(server: HeatmapServer) -> None:
    """Points are stored by day of the website, so ranges are widened to days, which meta contains."""
    today = server.today()
    points = [Point(day, "/", 0, "click", 0.5, 5) for day in (today - 2, today - 1, today)]
    await server.send(*points)
    await server.pack()
    zone = {"tz": "Asia/Kolkata", "pathname": "/"}
    cases = (
        ({"from": iso((today - 1) * DAY_MS), "to": iso(today * DAY_MS)}, 1, False),
        ({"from": iso((today - 1) * DAY_MS + 1), "to": iso(today * DAY_MS + 1)}, 2, True),
        ({"from": iso(today * DAY_MS - 1), "to": iso(today * DAY_MS)}, 1, True),
        ({"from": iso(today * DAY_MS)[:10], "to": iso(today * DAY_MS)[:10]}, 2, True),  # Kolkata's midnight: 18:30
        ({}, 3, True),
    )
    for span, clicks, widened in cases:
        answer = await server.query("heatmap", **span, **zone)
        assert (answer.json["data"]["clicks"], answer.json["meta"]["widened"]) == (clicks, widened), span
    meta = answer.json["meta"]
    assert (meta["from"], meta["to"]) == ("2026-11-11T05:30:00.000+05:30", "2026-11-19T05:30:00.000+05:30")


async def test_ranges_with_any_ends(server: HeatmapServer) -> None:
    """Ranges that begin and end on days with points and beside them, read from any blocks."""
    first = server.today() - 2
    await server.send(*[point._replace(path="/") for point in random_points(random.Random(6), server.today(), 30)])
    for end in (first + 1, first + 3):
        await server.pack(end=end)
        for begin in range(first - 1, first + 4):
            for end in range(begin + 1, first + 5):
                await server.check(begin, end)


async def test_points_without_a_page(server: HeatmapServer) -> None:
    """Points without a page are counted in meta, not in the list, and can be queried."""
    event = {"type": "heatmap", "points": [{"x": 0, "y": 0, "kind": "click"}] * 3, "viewport_width": 5}
    assert (await server.app.collect(event | {"website_id": server.website})).status == 202
    for _ in range(2):
        answer = await server.query("heatmap-pages")
        assert (answer.json["data"], answer.json["meta"]["unset"]) == ([], {"samples": 0, "clicks": 3})
        assert (await server.query("heatmap", pathname="")).json["data"]["grid"] == [[0, 0, 3]]
        await server.pack(end=1 << 40)


async def test_csv(server: HeatmapServer) -> None:
    """The rows of the grid and of the list; texts that look like formulas get an apostrophe."""
    await server.send(*[Point(server.today(), "/a", 2, "click", x, 45) for x in (0, 0.5, 0.5)])
    rows = list(csv.reader(io.StringIO((await server.query("heatmap", pathname="/a", format="csv")).text)))
    assert rows == [["x", "y", "count"], ["0", "2", "1"], ["25", "2", "2"]]
    rows = list(csv.reader(io.StringIO((await server.query("heatmap-pages", format="csv")).text)))
    assert rows == [["value", "samples", "clicks"], ["/a", "0", "3"]]


@pytest.mark.parametrize(
    ("what", "params", "field"),
    [
        ("heatmap", {}, "pathname"),
        ("heatmap", {"pathname": ["/", "/a"]}, "pathname"),
        ("heatmap", {"pathname": "/" * 8_193}, "pathname"),
        ("heatmap", {"pathname": "/", "filter_device": "tv"}, "filter_device"),
        ("heatmap", {"pathname": "/", "filter_device": ["mobile", ""]}, "filter_device"),
        ("heatmap", {"pathname": "/", "filter_pathname": "/"}, "filter_pathname"),
        ("heatmap", {"pathname": "/", "limit": 5}, "limit"),
        ("heatmap-pages", {"pathname": "/"}, "pathname"),
        ("heatmap-pages", {"limit": 1_001}, "limit"),
        ("heatmap-pages", {"filter_country": "DE"}, "filter_country"),
        ("heatmap-pages", {"filter_device": "phone"}, "filter_device"),
        ("stats", {"pathname": "/"}, "pathname"),
    ],
)
async def test_bad_parameters(server: HeatmapServer, what: str, params: dict[str, Any], field: str) -> None:
    answer = await server.query(what, **params)
    assert (answer.status, answer.json["error"]["code"]) == (400, "invalid_parameter"), answer.text
    assert answer.json["error"]["field"] == field


async def test_unchanged_responses_are_304(server: HeatmapServer) -> None:
    """304 until a point arrives; other pages and widths have other ETags. Packing does not change them."""
    await server.send(Point(server.today() - 1, "/a", 0, "click", 0, 0))
    span = {"from": "2026-11-01", "to": "2026-11-30"}
    tags = {}
    for params in ({"pathname": "/a"}, {"pathname": "/b"}, {"pathname": "/a", "filter_device": "mobile"}):
        answer = await server.query("heatmap", **span, **params)
        tags[answer.headers["ETag"]] = params | span
    assert len(tags) == 3
    path = f"/api/v1/websites/{server.website}/heatmap"
    await server.app.background_work.builder.work()
    assert server.app.sql("select count(*) from heatmap_point") == [(0,)]
    for tag, params in tags.items():
        assert (await server.app.get(path, server.key, params, headers={"If-None-Match": tag})).status == 304
    await server.send(Point(server.today(), "/a", 0, "click", 0, 0))
    for tag, params in tags.items():
        assert (await server.app.get(path, server.key, params, headers={"If-None-Match": tag})).status == 200


# --- cells as bytes


@given(st.dictionaries(st.integers(0, CELLS - 1), st.integers(1, 3) | st.integers(1, (1 << 64) - 1)))
def test_cells_as_bytes(cells: dict[int, int]) -> None:
    """Adding is exact; an empty grid has no bytes, and one point has three."""
    found = Counter({5: 1, 7: 2})
    heatmap_grid.add(found, heatmap_grid.packed(cells))
    assert found == Counter({5: 1, 7: 2}) + Counter(cells)
    assert bool(cells) == bool(heatmap_grid.packed(cells))
    samples, clicks = heatmap_grid.totals(cells)
    assert samples + clicks == sum(cells.values())
    assert samples == sum(count for cell, count in cells.items() if cell % (BINS_X + 1) == BINS_X)
    assert len(heatmap_grid.packed({5: 1})) == 3


@given(st.floats(0, 1), st.floats(0, 1_000_000), st.integers(0, 1))
def test_a_cell_is_in_its_band(x: float, y: float, kind: int) -> None:
    bin_y, bin_x = heatmap_grid.bin_of(x, y, kind)
    band, cell = heatmap_grid.cell_of(kind, bin_y, bin_x)
    row, column = divmod(cell, BINS_X + 1)
    assert (band * BAND_ROWS + row, column) == (int(y / 20), 50 if kind else min(int(x * 50), 49))
    assert 0 <= cell < CELLS
    assert 0 <= band <= 200


# --- hostile input


def packing_costs(path: Path, rows: list[tuple[int, ...]]) -> tuple[int, int]:
    """Pack rows; return the number of steps, and the most rows and bytes of cells that one step writes."""
    steps, max_written = 0, 0
    with closing(open_database(path, create=True)) as connection:
        connection.execute("pragma synchronous = off")
        with transaction(connection):
            connection.executemany("insert into heatmap_point values (1, ?, ?, ?, ?, ?, ?, ?)", rows)
        more = True
        while more:
            before = connection.total_changes
            with transaction(connection):
                more = heatmap_rollups.pack(connection, 1, 1 << 40)
            max_written = max(max_written, connection.total_changes - before)
            steps += 1
    return steps, max_written


def test_steps_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step ends after the cells, bands or pages during which its time ran out."""
    monkeypatch.setattr(heatmap_rollups, "STEP_S", 0)
    rng = random.Random(4)
    tall = [(day, 1, width, kind, y, 0, 1) for day in (1, 2) for width in range(3) for kind in (0, 1)
            for y in range(0, 50_001, 500)]  # fmt: skip
    many = [(3, page, page % 3, 0, rng.randrange(100), 5, 1) for page in range(2, 300)]
    steps, max_written = packing_costs(tmp_path / "a.db", [*tall, *many])
    # A piece is a band of a page and day: few points of these, 3 levels of cells, 9 of counts, and the rows that go.
    assert steps > len(many) + 200
    assert max_written <= 6 + 3 + 9


def test_a_slow_machine_packs_as_much_in_a_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step ends by the time of a processor that it took, so it packs as much while others use the machine."""
    monkeypatch.setattr(heatmap_rollups, "STEP_S", 0.1)
    rows = [(3, page, 0, 0, 7, 5, 1) for page in range(2, 12)]
    with closing(open_database(tmp_path / "a.db", create=True)) as connection:
        with transaction(connection):
            connection.executemany("insert into heatmap_point values (1, ?, ?, ?, ?, ?, ?, ?)", rows)
        connection.set_trace_callback(lambda statement: time.sleep(0.02 * statement.startswith("/* heatmaps.of")))
        with transaction(connection):
            heatmap_rollups.pack(connection, 1, 1 << 40)
        assert connection.execute("select count(*) from heatmap_point").fetchone() == (0,)


async def test_a_page_clicked_in_every_cell(server: HeatmapServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blobs are bounded, and the cells with the most points are returned, if every cell was clicked."""
    monkeypatch.setattr(heatmaps, "MAX_CELLS", 2_000)
    await server.send(
        Point(server.today(), "/a", 1, "click", 0, 1_000_000), Point(server.today(), "/a", 1, "click", 1, 0)
    )
    await server.pack(end=1 << 40)
    [(page,)] = server.app.sql("select pathname from heatmap_count where level = 0")
    rows = [
        (server.number, server.today(), page, width, 0, y, x, 1 + (y * BINS_X + x) % 300)
        for width in range(3) for y in range(BAND_ROWS) for x in range(BINS_X)
    ]  # fmt: skip
    await server.app.admin(
        lambda run: run.executemany("insert into heatmap_point values (?, ?, ?, ?, ?, ?, ?, ?)", rows).rowcount
    )
    plain = Counter({(y, x): 3 * count for _, _, _, width, _, y, x, count in rows if not width})
    plain += Counter({(0, 49): 1, (50_000, 0): 1})
    for _ in range(2):
        answer = await server.query("heatmap", pathname="/a")
        data = answer.json["data"]
        assert (answer.json["meta"]["cells"], data["clicks"]) == (len(plain), sum(plain.values()))
        assert len(data["grid"]) == 2_000
        assert {(y, x): count for x, y, count in data["grid"]}.items() <= plain.items()
        assert sorted(count for *_, count in data["grid"]) == sorted(plain.values())[-2_000:]
        assert [(y, x) for x, y, _ in data["grid"]] == sorted((y, x) for x, y, _ in data["grid"])
        await server.pack(end=1 << 40)
    [(longest,)] = server.app.sql("select max(length(mobile)) from heatmap_block")
    assert longest < 6 * CELLS


def test_deadlines_interrupt_additions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The deadline of a query is checked between statements, which are short."""
    with closing(open_database(tmp_path / "a.db", create=True)) as connection:
        rows = [(day, 0, 1, 0, band * BAND_ROWS, 0, 1) for day in range(9) for band in range(8)]
        heatmap_rollups.store(connection, 1, rows)
        connection.set_progress_handler(lambda: True, 100_000)
        assert heatmaps.heatmap(connection, 1, "", range(9), (0, 1, 2)).clicks == 72
        monkeypatch.setattr(heatmap_rollups, "_BYTES_BETWEEN_LOOKS", 0)
        with pytest.raises(sqlite3.OperationalError, match="interrupted"):
            heatmaps.heatmap(connection, 1, "", range(9), (0, 1, 2))


# --- verify


FAULTS = {
    "a sum without a cell": ("update heatmap_block set mobile = x'' where level = 3", {3}),
    "a sum over many days": ("update heatmap_block set desktop = x'' where level = 6", {6}),
    "a count": ("update heatmap_count set mobile_clicks = mobile_clicks + 1 where level = 0", {0, 1}),
    "a count of a block": ("update heatmap_count set tablet_samples = 77 where level = 4", {4, 5}),
    "a count that is not there": ("delete from heatmap_count where level = 0", {0, 1}),
    "a count of no cells": ("insert into heatmap_count values (1, 0, 999, 5, 1, 1, 1, 1, 1, 1)", {0, 1}),
    "a count of no days": ("insert into heatmap_count values (1, 2, 99999, 5, 1, 1, 1, 1, 1, 1)", {2, 3}),
    "no counts at all": ("delete from heatmap_count", {0}),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_verify(server: HeatmapServer, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    """Errors that verify finds are repaired from the rows of days."""
    monkeypatch.setattr(heatmap_rollups, "SUM_FROM_BYTES", 10)
    rng = random.Random(5)
    for _ in range(2):
        await server.send(*random_points(rng, server.today(), 60))
        server.app.clock.advance(86_400)
        await server.pack()
    assert server.wrong() == []
    statement, levels = FAULTS[fault]
    await server.app.admin(lambda connection: connection.execute(statement).rowcount)
    assert {level for level, _ in server.wrong()} == levels
    with closing(open_database(server.app.db, create=False)) as connection:
        for level, block in server.wrong():
            with transaction(connection):
                heatmap_rollups.repair(connection, server.number, level, block)
    assert server.wrong() == []
    await server.check(server.today() - 9, server.today())


async def test_invented_pages_are_bounded(app: App) -> None:
    """Only the pages that may be returned, and the unset page, are held in memory."""
    website, key = await app.website(), await app.key()
    server, made_up = HeatmapServer(app, website, key), 20_000

    def store(connection: sqlite3.Connection) -> None:
        connection.executemany(
            "insert into label values (?, ?)", [(100_000 + n, f"/{n:05}") for n in reversed(range(made_up))]
        )
        rows = [(server.number, TODAY, 100_000 + n, 2, 0, n % 7, 3, 1) for n in range(made_up)]
        # One page with most points, one unset, one visited by phones only.
        rows += [(server.number, TODAY, number, width, 1, 0, 0, 2) for number, width in ((100_007, 2), (0, 2), (1, 0))]
        connection.execute("insert or ignore into label values (1, '/phones')")
        connection.executemany("insert into heatmap_point values (?, ?, ?, ?, ?, ?, ?, ?)", rows)

    await app.admin(store)
    for packed in (False, True):
        if packed:
            await server.pack(5, TODAY + 1)
        tracemalloc.start()
        answer = await server.query("heatmap-pages", filter_device="desktop", limit=3)
        (_, peak) = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 1_000_000
        assert answer.json["meta"]["unset"] == {"samples": 2, "clicks": 0}
        assert [tuple(row.values()) for row in answer.json["data"]] == [
            ("/00007", 2, 1),
            ("/00000", 0, 1),
            ("/00001", 0, 1),
        ]
    assert (await server.query("heatmap-pages", filter_device="tablet")).json["data"] == []
    phones = (await server.query("heatmap-pages", filter_device="mobile")).json["data"]
    assert [row["samples"] for row in phones] == [2]
