"""When the days of a website begin: set with its time zone, fixed once it has data, followed by all that is by day."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import pytest

from tally.maintenance import background_work
from tally.rollups.rollup_state import FINAL, FINAL_AFTER_MS, OPEN
from tally.timeranges import BadTime, standard_offset_minutes
from tally.timestamps import DAY_MS, HOUR_MS, MINUTE_MS, iso
from tests.support.app import NOON_MS, App, MakeApp
from tests.support.cases import cases
from tests.support.page_client import PageClient, logged_in
from tests.support.read_api import ms, view

LOS_ANGELES, KOLKATA = "America/Los_Angeles", "Asia/Kolkata"
MIDNIGHT_MS = NOON_MS // DAY_MS * DAY_MS
# (zone, minutes from UTC to its standard time in 2026)
ZONES = [
    ("UTC", 0),
    (LOS_ANGELES, -480),
    ("Europe/Berlin", 60),
    (KOLKATA, 330),
    ("Asia/Kathmandu", 345),
    ("Pacific/Auckland", 720),
    ("America/St_Johns", -210),
    ("Australia/Lord_Howe", 630),
    ("Pacific/Kiritimati", 840),
    ("Etc/GMT+12", -720),
    ("Pacific/Marquesas", -570),
]


def around(at_ms: int) -> str:
    """Return the parameters of a range of two hours."""
    begin, end = (quote(iso(ms)) for ms in (at_ms - HOUR_MS, at_ms + HOUR_MS))
    return f"from={begin}&to={end}"


class Owner:
    """An owner's browser and API key."""

    def __init__(self, app: App, browser: PageClient, key: str) -> None:
        self.app, self.browser, self.key = app, browser, key

    async def add(self, **fields: Any) -> str:
        """Add a website; return its id."""
        answer = await self.browser("POST", "/api/account/websites", {"domain": "example.com", "again": True} | fields)
        assert answer.status == 201, answer.text
        return str(answer.json["data"]["id"])

    async def change(self, website: str, time_zone: str | None) -> tuple[str | None, int]:
        """Change the time zone; return it and the offset."""
        answer = await self.browser("PATCH", f"/api/account/websites/{website}", {"time_zone": time_zone})
        assert answer.status == 200, answer.text
        return await self.shown(website)

    async def shown(self, website: str) -> tuple[str | None, int]:
        """Return a website's time zone and offset, which its settings, its list and its reports show alike."""
        data = (await self.browser("GET", f"/api/account/websites/{website}")).json["data"]
        listed = (await self.app.get("/api/v1/websites", self.key)).json["data"]
        (same,) = [one for one in listed if one["id"] == website]
        assert (same["time_zone"], same["day_offset_minutes"]) == (data["time_zone"], data["day_offset_minutes"])
        assert (await self.report(website, "stats"))["meta"]["day_offset_minutes"] == data["day_offset_minutes"]
        return data["time_zone"], data["day_offset_minutes"]

    async def report(self, website: str, report: str) -> Any:
        """Return the answer of a report."""
        return (await self.app.get(f"/api/v1/websites/{website}/{report}", self.key)).json

    async def send(self, website: str, *events: dict[str, Any]) -> None:
        """Send events, all of which are accepted."""
        answer = await self.app.collect({"website_id": website, "events": list(events)})
        assert (answer.status, answer.json["rejected"]) == (202, 0), answer.text


@pytest.fixture
async def owner(app: App) -> Owner:
    return Owner(app, await logged_in(app), await app.key())


@cases(("zone", "minutes"), ZONES, ids=[zone for zone, _ in ZONES])
def test_standard_offsets(zone: str, minutes: int) -> None:
    """The offset is that of standard time, in summer and in winter."""
    for month in (1, 4, 7, 10):
        at = datetime(2026, month, 1, tzinfo=UTC)
        assert standard_offset_minutes(zone, int(at.timestamp() * 1000)) == minutes


def test_offsets_are_quarter_hours() -> None:
    """Of a zone whose offset is no quarter of an hour, the next smaller one; an unknown zone is refused."""
    assert standard_offset_minutes("Africa/Monrovia", ms("1970-01-01T00:00:00Z")) == -45
    with pytest.raises(BadTime):
        standard_offset_minutes("Europe/Nowhere", NOON_MS)


async def test_days_follow_the_zone_until_there_is_data(owner: Owner) -> None:
    """A website without data takes the offset of each new zone; later the zone changes alone."""
    website = await owner.add()
    assert await owner.shown(website) == (None, 0)
    assert await owner.change(website, KOLKATA) == (KOLKATA, 330)
    assert await owner.change(website, LOS_ANGELES) == (LOS_ANGELES, -480)
    await owner.send(website, view(NOON_MS))
    assert await owner.change(website, KOLKATA) == (KOLKATA, -480)
    assert await owner.change(website, None) == (None, -480)
    assert await owner.shown(await owner.add(time_zone="Asia/Kathmandu")) == ("Asia/Kathmandu", 345)


@cases("kind", ["vitals", "heatmap", "ab_assign"])
async def test_measurements_fix_the_days(owner: Owner, kind: str) -> None:
    """Data of every kind has a day."""
    website = await owner.add(time_zone=KOLKATA)
    page = {"type": kind, "timestamp": NOON_MS, "url": "https://example.com/", "session_id": "session-a"}
    more: dict[str, Any] = {
        "vitals": {"vitals": {"lcp": 1}},
        "heatmap": {"viewport_width": 1_000, "points": [{"x": 0.5, "y": 1, "kind": "click"}]},
        "ab_assign": {"experiment": "e", "variant": "v"},
    }
    await owner.send(website, page | more[kind])
    assert await owner.change(website, "UTC") == ("UTC", 330)


async def test_an_unknown_zone_is_refused(owner: Owner) -> None:
    """A new website with a zone that does not exist is not added."""
    answer = await owner.browser("POST", "/api/account/websites", {"domain": "a.example", "time_zone": "Mars"})
    assert (answer.status, answer.json["error"]["field"]) == (400, "time_zone")


async def test_a_visit_over_midnight_utc_is_one(owner: Owner) -> None:
    """In Los Angeles midnight UTC is an afternoon: one visitor, one visit; midnight there ends both."""
    website = await owner.add(time_zone=LOS_ANGELES)
    day = MIDNIGHT_MS - DAY_MS
    await owner.send(website, view(day - 10 * MINUTE_MS), view(day + 10 * MINUTE_MS))
    local = day + 8 * HOUR_MS
    await owner.send(website, view(local - MINUTE_MS, who="bob"), view(local + MINUTE_MS, who="bob"))
    report = await owner.report(website, f"stats?{around(day)}")
    assert (report["data"]["visitors"], report["data"]["visits"], report["data"]["bounce_rate"]) == (1, 1, 0)
    report = await owner.report(website, f"stats?{around(local)}")
    assert (report["data"]["visitors"], report["data"]["visits"], report["data"]["bounce_rate"]) == (2, 2, 100)


async def test_a_local_day_counts_each_visitor_once(owner: Owner) -> None:
    """A person who comes in the morning and in the evening of a local day is one visitor of that day."""
    visitors = {}
    for zone in (LOS_ANGELES, "UTC"):
        website = await owner.add(time_zone=zone)
        morning = view("2026-11-16T17:00:00Z"), view("2026-11-17T03:00:00Z")
        await owner.send(website, *morning)
        report = await owner.report(website, f"stats?from=2026-11-16&to=2026-11-16&tz={LOS_ANGELES}")
        visitors[zone] = report["data"]["visitors"]
    assert visitors == {LOS_ANGELES: 1, "UTC": 2}


async def test_events_hashed_before_the_days_moved(owner: Owner) -> None:
    """An event that another process's change of the zone overtakes is stored in the website's new day."""
    app, website = owner.app, await owner.add(time_zone=LOS_ANGELES)
    with closing(sqlite3.connect(app.db)) as connection, connection:
        connection.execute("update website set day_offset_minutes = 0")
    # One day in Los Angeles, two in UTC.
    await owner.send(website, view(MIDNIGHT_MS - 1), view(MIDNIGHT_MS), view(MIDNIGHT_MS + 1))
    await app.registry.refresh()
    report = await owner.report(website, "stats?period=7d")
    assert (report["data"]["visitors"], report["data"]["visits"], report["data"]["pageviews"]) == (2, 2, 3)
    assert await owner.shown(website) == (LOS_ANGELES, 0)


async def test_new_values_are_limited_by_day_of_the_website(make_app: MakeApp) -> None:
    """The limit begins again at midnight of the website, and not at midnight UTC."""
    app = await make_app(max_new_values=3)
    owner = Owner(app, await logged_in(app), await app.key())
    website = await owner.add(time_zone=KOLKATA)

    async def stored(name: str) -> bool:
        await owner.send(website, view(app.clock.wall_ms(), f"/{name}"))
        rows = (await owner.report(website, "top/pathname?period=30d"))["data"]
        return f"/{name}" in {row["value"] for row in rows}

    assert [await stored(f"a{n}") for n in range(5)] == [True, True, True, False, False]
    app.clock.advance(6 * 3600)  # 18:00 UTC, half an hour before midnight in India
    assert not await stored("b")
    app.clock.advance(3600)
    assert await stored("c")
    app.clock.advance(6 * 3600)  # the next day in UTC
    assert [await stored(f"d{n}") for n in range(3)] == [True, True, False]
    folded = (await owner.report(website, "rejected?period=7d"))["data"]["folded"]
    assert {row["day"] for row in folded} == {"2026-11-18", "2026-11-19"}


async def test_days_become_final_by_the_clock_of_the_website(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    """A day that ends 14 hours before that of UTC is final as much earlier."""
    monkeypatch.setattr(background_work, "PAUSE_S", 1e6)  # no other work than the test's
    app, website = owner.app, await owner.add(time_zone="Pacific/Kiritimati")
    await owner.send(website, view(NOON_MS))
    day = (NOON_MS + 14 * HOUR_MS) // DAY_MS
    ends_ms = (day + 1) * DAY_MS - 14 * HOUR_MS
    builder = app.background_work.builder
    builder._rest, builder._is_busy = 0, lambda: False
    for early_ms, state in ((MINUTE_MS, OPEN), (-MINUTE_MS, FINAL)):
        app.clock.advance((ends_ms + FINAL_AFTER_MS - early_ms - app.clock.wall_ms()) / 1000)
        await builder.work()
        assert app.sql("select state from rollup_state where kind = 0 and level = 0 and block = ?", day) == [(state,)]
