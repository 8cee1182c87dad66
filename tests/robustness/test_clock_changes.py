"""The system's clock set forward and back, by an hour and by 40 days, over midnights, month, year and leap day.

Rate limits and timeouts use the monotonic clock, events the system clock, and monthly limits are reset at 00:00 UTC on
the 1st. docs/monitoring.md, Clock: "Deletions do not follow it at once".

The whole application at work with a clock that the tests set: one shows the time, the other measures waiting. A real
process under `faketime`, where that is installed, does the same once more.
"""

import logging
import os
import sqlite3
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tally.clock import CONFIRMED_AFTER_MS, MAX_STEP_MS, MAX_TRUSTED_STOP_MS, ClockState
from tally.maintenance import retention
from tally.rollups.verify import verdicts
from tally.storage import meta
from tally.storage.database import connect_reader
from tally.timestamps import iso
from tests.support.app import NOON_MS, ROOT, App, MakeApp, ManualClock
from tests.support.page_client import PageClient, logged_in
from tests.support.process import Command, Serve, clean_environment, until

SECOND_MS = 1_000
MINUTE_MS = 60_000
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
JUMPS = {"-40d": -40 * DAY_MS, "-1h": -HOUR_MS, "+1h": HOUR_MS, "+73h": 73 * HOUR_MS, "+40d": 40 * DAY_MS}
by_jump = pytest.mark.parametrize("jump_ms", JUMPS.values(), ids=JUMPS)


# --- the clock itself


def run(clock: ManualClock, seconds: float, step: float = 60) -> None:
    """Time goes by, and the clock is looked at as the server does, if not as often."""
    for _ in range(round(seconds / step)):
        clock.advance(step)
        clock.check()


def times(clock: ManualClock) -> tuple[int, int]:
    """Steady and sure."""
    return clock.monotonic_wall_ms(), clock.deletion_time_ms()


def test_without_a_jump_all_times_are_one(clock: ManualClock) -> None:
    run(clock, 200_000, 500)
    assert times(clock) == (clock.wall_ms(), clock.wall_ms())
    assert (clock.ahead_ms, clock.unconfirmed_ms) == (0, 0)


@by_jump
def test_deletions_never_believe_a_jump_forward_and_always_one_back(clock: ManualClock, jump_ms: int) -> None:
    before = clock.wall_ms()
    clock.set_wall(before + jump_ms)
    # At once, before anybody has looked.
    assert times(clock) == (before, before + min(jump_ms, 0))
    assert clock.check()
    assert not clock.check()
    run(clock, CONFIRMED_AFTER_MS / 1000 - 60)
    assert clock.ahead_ms == jump_ms
    run(clock, 60)
    assert times(clock) == (clock.wall_ms(), clock.wall_ms())
    assert clock.ahead_ms == 0


@by_jump
def test_forth_and_back_is_as_if_nothing_had_been(clock: ManualClock, jump_ms: int) -> None:
    for _ in range(5):
        clock.set_wall(clock.wall_ms() + jump_ms)
        run(clock, CONFIRMED_AFTER_MS / 2000)
        clock.set_wall(clock.wall_ms() - jump_ms)
        run(clock, CONFIRMED_AFTER_MS / 2000)
        assert clock.ahead_ms == 0
    assert times(clock) == (clock.wall_ms(), clock.wall_ms())


def test_small_steps_do_not_walk_away_with_the_time(clock: ManualClock) -> None:
    """Each of them alone is as good as none; in a day they come to no more than one."""
    start = clock.wall_ms()
    for _ in range(1_000):
        clock.set_wall(clock.wall_ms() + MAX_STEP_MS)
        run(clock, 60)
    assert clock.wall_ms() - start > 80 * HOUR_MS
    assert clock.deletion_time_ms() - start <= 1_000 * MINUTE_MS + MAX_STEP_MS


def test_a_clock_that_is_corrected_now_and_then_is_followed(clock: ManualClock) -> None:
    """A machine whose clock is set once an hour instead of being held in step: ten seconds at a time."""
    for _ in range(100):
        clock.set_wall(clock.wall_ms() + 10 * SECOND_MS)
        run(clock, 3_600, 600)
    assert clock.wall_ms() - clock.deletion_time_ms() <= MAX_STEP_MS


# What the file says, how long ago it said so by the clock of the start; lead, owed then, and after a day of running.
STARTS = {
    "a restart": (ClockState(0, 0, 0, 0), 5 * SECOND_MS, 0, 0),
    "a stop that is believed": (ClockState(0, 0, 0, 0), MAX_TRUSTED_STOP_MS, 0, 0),
    "a longer one": (ClockState(0, 0, 0, 0), MAX_TRUSTED_STOP_MS + 1, 0, MAX_TRUSTED_STOP_MS + 1),
    "a month": (ClockState(0, 0, 0, 0), 30 * DAY_MS, 0, 30 * DAY_MS),
    "set back a little": (ClockState(0, 0, 0, 0), -MAX_STEP_MS, 0, 0),
    "set back": (ClockState(0, 0, 0, 0), -HOUR_MS, -HOUR_MS, 0),
    "a clock of 1970": (ClockState(0, 0, 0, 0), -NOON_MS, -NOON_MS, 0),
    "in the middle of a jump": (ClockState(0, 40 * DAY_MS, 0, HOUR_MS), 40 * DAY_MS + 1, 0, 40 * DAY_MS + 1),
    "after a jump was undone": (ClockState(0, 40 * DAY_MS, 0, HOUR_MS), 2 * SECOND_MS, 0, 2 * SECOND_MS),
    "in the middle of a jump back": (ClockState(0, -HOUR_MS, 0, HOUR_MS), -HOUR_MS, -HOUR_MS, 0),
    "before the last stop was believed": (ClockState(0, 0, DAY_MS, HOUR_MS), 2 * SECOND_MS, 0, DAY_MS + 2 * SECOND_MS),
}


@pytest.mark.parametrize(("noted", "off_ms", "ahead_ms", "unconfirmed_ms"), STARTS.values(), ids=STARTS)
def test_a_start(noted: ClockState, off_ms: int, ahead_ms: int, unconfirmed_ms: int) -> None:
    clock = ManualClock()
    clock.resume(noted._replace(monotonic_wall_ms=clock.wall_ms() - off_ms))
    assert (clock.ahead_ms, clock.unconfirmed_ms) == (ahead_ms, unconfirmed_ms)
    assert clock.deletion_time_ms() == min(clock.wall_ms(), clock.monotonic_wall_ms() - unconfirmed_ms)
    run(clock, CONFIRMED_AFTER_MS / 1000)
    assert (clock.ahead_ms, clock.unconfirmed_ms) == (0, 0)


def test_hours_of_running_add_up_over_nights_off() -> None:
    """A machine that runs eight hours a day never runs for 24, and its clock is believed all the same."""
    noted, wall_ms, days = ClockState(NOON_MS, 0, 0, 0), NOON_MS, 0
    while days < 10:
        wall_ms += 16 * HOUR_MS
        clock = ManualClock(wall_ms)
        clock.resume(noted)
        run(clock, 8 * 3_600)
        wall_ms, noted, days = clock.wall_ms(), clock.state(), days + 1
        if clock.unconfirmed_ms == 0:
            break
        assert clock.unconfirmed_ms == days * 16 * HOUR_MS
    assert days == 3


def test_hours_do_not_add_up_over_a_stop_of_days() -> None:
    """Or a clock would be believed for what another one had done."""
    clock = ManualClock()
    clock.resume(ClockState(clock.wall_ms() - 40 * DAY_MS, 0, HOUR_MS + 1, CONFIRMED_AFTER_MS - MINUTE_MS))
    run(clock, CONFIRMED_AFTER_MS / 1000 - 60)
    assert clock.unconfirmed_ms > 40 * DAY_MS


# --- the application


def view(website: str, **more: Any) -> dict[str, Any]:
    return {"type": "pageview", "website_id": website, "url": "https://example.com/", "session_id": "s" * 8} | more


class Life:
    """An application with a past of nine days, an owner who is logged in, and a list of what it took."""

    def __init__(self, app: App, website: str, key: str, browser: PageClient) -> None:
        self.app, self.website, self.key, self.browser = app, website, key, browser
        self.taken: list[int] = []
        self.clock = app.clock

    async def send(self, **more: Any) -> None:
        answer = await self.app.collect(view(self.website, **more))
        assert (answer.status, answer.json) == (202, {"ok": True, "accepted": 1, "rejected": 0}), answer.text
        self.taken.append(more.get("timestamp", self.clock.wall_ms()))

    async def again(self, event_id: str) -> None:
        """Sends what was sent before: taken, and not stored again."""
        answer = await self.app.collect(view(self.website, event_id=event_id))
        assert (answer.status, answer.json["accepted"]) == (202, 1)

    async def work(self) -> None:
        await self.app.store.tick()
        await self.app.store.builder.work()

    async def look(self) -> None:
        """Everything answers, and nothing was lost, counted twice, or counted wrong."""
        app, base = self.app, f"/api/v1/websites/{self.website}"
        first, last = iso(min(self.taken))[:10], iso(max(self.taken))[:10]
        span = f"from={first}&to={last}"
        sent = len(self.taken)
        assert app.sql("select ts from event order by ts") == [(ts,) for ts in sorted(self.taken)]
        stats = await app.get(f"{base}/stats?{span}", self.key)
        assert (stats.status, stats.json["data"]["pageviews"]) == (200, sent), stats.text
        days = (await app.get(f"{base}/timeseries?{span}", self.key)).json["data"]
        counted = {row["time"][:10]: row["pageviews"] for row in days if row["pageviews"]}
        assert counted == Counter(iso(ts)[:10] for ts in self.taken)
        assert stats.json["data"]["visitors"] == sum(row["visitors"] for row in days)
        top = await app.get(f"{base}/top/pathname?{span}", self.key)
        assert top.json["data"][0]["pageviews"] == sent
        events = await app.get(f"{base}/events?{span}&limit=1000", self.key)
        assert len(events.json["data"]) == sent
        for question in ("stats", "timeseries?interval=hour", "top/browser", "events", "realtime"):
            assert (await app.get(f"{base}/{question}", self.key)).status == 200
        assert (await self.browser("GET", "/api/account")).status == 200, "still logged in"
        for path in ("/healthz", "/metrics", "/", "/tracker.js"):
            assert (await app.get(path)).status == 200
        self.verify()

    def verify(self) -> None:
        connection = connect_reader(self.app.db)
        try:
            assert [verdict for verdict in verdicts(connection, 1) if verdict.fault] == []
        finally:
            connection.close()


async def keep(app: App, days: int) -> None:
    await app.admin(lambda connection: retention.set_keep_days(connection, 1, days))


@pytest.fixture
async def life(make_app: MakeApp) -> Life:
    app = await make_app(keep_days=60)
    website, key = await app.website(), await app.key()
    life = Life(app, website, key, await logged_in(app))
    for _ in range(9):
        await life.send()
        app.clock.advance(DAY_MS / 1000)
        await life.work()
    await life.send(event_id="first")
    await life.send()
    return life


@by_jump
async def test_clock_jumps_forward_and_back(life: Life, jump_ms: int) -> None:
    """No 5xx, figures right, nothing lost: events, event_ids, visitors, logins, rollups."""
    clock, visitors = life.clock, life.app.sql("select count(distinct visitor) from event")[0][0]
    # What a clock dates 40 days back is older than 12 days, and goes.
    await keep(life.app, 12 if jump_ms > 0 else 60)
    await life.look()
    clock.set_wall(clock.wall_ms() + jump_ms)
    for _ in range(3):
        # The first requests come before anybody has looked at the clock.
        await life.again("first")
        await life.send()
        await life.send(event_id=f"there-{clock.wall_ms()}")
        await life.work()
        await life.look()
        clock.advance(600)
    clock.set_wall(clock.wall_ms() - jump_ms)
    await life.again("first")
    for ts in (ts for ts in life.taken[-6:][1::2] if ts):
        await life.again(f"there-{ts}")
    await life.send()
    await life.work()
    await life.look()
    # The same person, the same day: those of before, and one more for another day that the jump went to.
    days = len({ts // DAY_MS for ts in life.taken})
    assert life.app.sql("select count(distinct visitor) from event") == [(days,)]
    assert days == visitors + (abs(jump_ms) > DAY_MS)
    # A day on, what is over goes, and nothing else.
    clock.advance(DAY_MS / 1000)
    await life.send()
    await life.work()
    await life.look()


async def test_a_clock_that_stays_ahead_is_believed_after_a_day(life: Life, caplog: pytest.LogCaptureFixture) -> None:
    """Deletions wait for it, and then they follow: rows, event_ids, identities."""
    clock, app = life.clock, life.app
    caplog.set_level(logging.INFO, "tally")
    await keep(app, 12)

    def counted() -> list[int]:
        return [app.sql(f"select count(*) from {table}")[0][0] for table in ("event", "event_id")]

    before = counted()
    clock.set_wall(clock.wall_ms() + 40 * DAY_MS)
    for _ in range(23):
        await life.work()
        clock.advance(3_600)
    assert counted() == before
    assert len(app.store.event_writer.sessions) > 0
    metrics = (await app.get("/metrics")).text
    for name in ("lead", "unbelieved"):
        line = next(line for line in metrics.splitlines() if line.startswith(f"tally_clock_{name}_seconds "))
        assert float(line.split()[1]) == 40 * DAY_MS / 1000
    await life.look()
    assert [record.levelname for record in caplog.records if "clock was set forward by 40 d 0 h" in record.message] == [
        "WARNING"
    ]
    clock.advance(3_600)
    await life.work()
    await life.work()
    assert any("believed" in record.message for record in caplog.records)
    assert counted() == [0, 0]
    assert len(app.store.event_writer.sessions) == 0
    # What is counted of it stays.
    span = f"from={iso(min(life.taken))[:10]}&to={iso(max(life.taken))[:10]}"
    stats = await app.get(f"/api/v1/websites/{life.website}/stats?{span}", life.key)
    assert stats.json["data"]["pageviews"] == len(life.taken)


async def test_a_start_with_a_clock_that_is_ahead_deletes_nothing(life: Life, caplog: pytest.LogCaptureFixture) -> None:
    """It looks like a server that was off for 40 days; either way there is time to see it."""
    clock, app = life.clock, life.app
    caplog.set_level(logging.INFO, "tally")
    await keep(app, 12)
    before = app.sql("select count(*) from event"), app.sql("select count(*) from event_id")
    await app.close()
    clock.set_wall(clock.wall_ms() + 40 * DAY_MS)
    clock.__init__(clock.wall_ms())  # type: ignore[misc]  # another process
    await app.open()
    await life.work()
    clock.advance(12 * 3_600)
    await life.work()
    await app.restart()
    await life.work()
    assert (app.sql("select count(*) from event"), app.sql("select count(*) from event_id")) == before
    assert any("last note in the database is 40 d" in record.message for record in caplog.records)
    await life.again("first")
    assert app.sql("select count(*) from event") == before[0]
    # Put right again, nothing has happened.
    await app.close()
    clock.__init__(clock.wall_ms() - 40 * DAY_MS)  # type: ignore[misc]
    await app.open()
    await life.work()
    await life.again("first")
    assert (app.sql("select count(*) from event"), app.sql("select count(*) from event_id")) == before


async def test_the_note_outlives_a_kill(life: Life) -> None:
    """It is written while the server runs, not at its end alone."""
    app = life.app
    app.clock.advance(700)
    await life.app.store.clock_watch.note()
    connection = sqlite3.connect(app.db)
    found = meta.clock_state(connection)
    connection.close()
    assert found is not None
    assert found.monotonic_wall_ms == app.clock.wall_ms()


@pytest.mark.parametrize("value", ["", "[]", "[1, 2, 3]", '[1, 2, 3, "4"]', "{}", 7, b"\xff", "[1, 2, 3, 4, 5]", "nul"])
async def test_a_note_that_cannot_be_read_is_none(app: App, value: object) -> None:
    await app.admin(lambda run: run.execute("insert or replace into meta values ('clock', ?)", (value,)))
    assert await app.admin(meta.clock_state) is None


@by_jump
async def test_timestamps_good_for_either_clock_are_taken(life: Life, jump_ms: int) -> None:
    """What a browser kept while it was offline and sends with its right time is not refused for good by a wrong clock.
    Without a jump: "timestamp older than 72 hours, more than 5 minutes ahead" are rejected."""
    clock, right = life.clock, life.clock.wall_ms()
    clock.set_wall(right + jump_ms)
    for ts in (right, right - 10 * MINUTE_MS, right + jump_ms, right - 72 * HOUR_MS, right + jump_ms - 72 * HOUR_MS):
        await life.send(timestamp=ts)
    await life.work()
    await life.look()
    earliest, latest = sorted((right, right + jump_ms))
    early, late = earliest - 72 * HOUR_MS - 1, latest + 5 * MINUTE_MS + 1
    for ts, code in ((early, "timestamp_too_old"), (late, "timestamp_in_future")):
        answer = await life.app.collect(view(life.website, timestamp=ts))
        assert (answer.status, answer.json["errors"][0]["code"]) == (400, code)


# --- months


FULL = (429, "monthly_limit_reached")


async def take(app: App, website: str) -> tuple[int, str]:
    answer = await app.collect(view(website))
    if answer.status == 429:
        assert int(answer.headers["Retry-After"]) >= 1
    return answer.status, "" if answer.status == 202 else answer.json["error"]["code"]


@pytest.mark.parametrize("is_restarted", [False, True], ids=["running on", "restarted"])
@pytest.mark.parametrize("jump_ms", [40 * DAY_MS, -40 * DAY_MS], ids=["+40d", "-40d"])
async def test_a_full_month_is_full_again_when_the_clock_is_back(
    make_app: MakeApp, jump_ms: int, is_restarted: bool
) -> None:
    """The quota is of the calendar month that the clock shows; a jump neither opens it for good nor closes another."""
    app = await make_app(free_events=3)
    website = await app.website(plan="free")

    async def jump(by_ms: int) -> None:
        app.clock.set_wall(app.clock.wall_ms() + by_ms)
        if is_restarted:
            await app.restart()
        await app.store.tick()

    assert [await take(app, website) for _ in range(4)] == [(202, "")] * 3 + [FULL]
    await jump(jump_ms)
    assert [await take(app, website) for _ in range(4)] == [(202, "")] * 3 + [FULL]
    await jump(-jump_ms)
    assert await take(app, website) == FULL
    assert app.sql("select events from account_usage where events > 0") == [(3,), (3,)]


# Just before midnight; the seconds of the month that Retry-After tells then are 10.
ENDS = ("2026-12-31", "2027-02-28", "2028-02-29", "2026-11-30", "2027-03-31")


@pytest.mark.parametrize("day", ENDS)
async def test_over_the_end_of_a_month(make_app: MakeApp, day: str) -> None:
    """ "reset at 00:00 UTC on the 1st; Retry-After <= seconds to it", and a clock that goes back over it."""
    last_ms = round(time_of(f"{day}T23:59:50Z"))
    clock_app = await make_app(free_events=2)
    app, clock = clock_app, clock_app.clock
    clock.__init__(last_ms)  # type: ignore[misc]
    await app.restart()
    website, key = await app.website(plan="free"), ""
    assert [await take(app, website) for _ in range(2)] == [(202, "")] * 2
    answer = await app.collect(view(website))
    assert (answer.status, answer.headers["Retry-After"]) == (429, "10")
    clock.advance(10)
    assert [await take(app, website) for _ in range(3)] == [(202, "")] * 2 + [FULL]
    clock.set_wall(last_ms)
    assert await take(app, website) == FULL
    await app.admin(lambda run: run.execute("update account set plan = 'business'"))
    key = await app.key()
    assert await take(app, website) == (202, "")
    await app.store.builder.work()
    span = f"from={iso(last_ms)[:10]}&to={iso(last_ms + DAY_MS)[:10]}"
    rows = (await app.get(f"/api/v1/websites/{website}/timeseries?{span}", key)).json["data"]
    assert [(row["time"][:10], row["pageviews"], row["visitors"]) for row in rows] == [
        (day, 3, 1),
        (iso(last_ms + DAY_MS)[:10], 2, 1),
    ]
    months = {iso(ms)[:7].replace("-", "") for ms in (last_ms, last_ms + DAY_MS)}
    assert dict(app.sql("select month, events from account_usage")) == dict(
        zip(map(int, sorted(months)), (3, 2), strict=True)
    )


def time_of(text: str) -> int:
    from datetime import datetime

    return round(datetime.fromisoformat(text).timestamp() * 1000)


@pytest.mark.parametrize("start", ["2028-02-28T12:00:00Z", "2027-02-27T12:00:00Z", "2026-12-30T12:00:00Z"])
async def test_day_by_day_over_leap_day_and_new_year(make_app: MakeApp, start: str) -> None:
    """A view a day, folded, closed and let go as the days go by: each day has its own, whatever it is called."""
    app = await make_app(keep_days=5)
    app.clock.__init__(time_of(start))  # type: ignore[misc]
    await app.restart()
    website, key = await app.website(), await app.key()
    days = []
    for _ in range(12):
        assert await take(app, website) == (202, "")
        days.append(iso(app.clock.wall_ms())[:10])
        app.clock.advance(DAY_MS / 1000)
        await app.store.tick()
        await app.store.builder.work()
    assert ("2028-02-29" in days) == start.startswith("2028")
    rows = (await app.get(f"/api/v1/websites/{website}/timeseries?from={days[0]}&to={days[-1]}", key)).json["data"]
    assert [(row["time"][:10], row["pageviews"]) for row in rows] == [(day, 1) for day in days]
    assert [iso(ts)[:10] for (ts,) in app.sql("select ts from event order by ts")] == days[-5:]


# --- logins


@by_jump
async def test_a_login_over_a_jump(app: App, jump_ms: int) -> None:
    """Nobody is logged out by it or logged in for longer, and one can log in during it."""
    browser = await logged_in(app)
    app.clock.set_wall(app.clock.wall_ms() + jump_ms)
    await app.store.tick()
    assert (await browser("GET", "/api/account")).status == 200
    other = PageClient(app)
    assert (await other.log_in()).status == 200
    assert (await other("GET", "/api/account")).status == 200
    app.clock.set_wall(app.clock.wall_ms() - jump_ms)
    await app.store.tick()
    for one in (browser, other):
        assert (await one("GET", "/api/account")).status == 200
    app.clock.advance(30 * DAY_MS / 1000)
    for one in (browser, other):
        assert (await one("GET", "/api/account")).status == 401


# --- a real process


def need_faketime() -> str:
    """The library's path; skips where it is not installed, or fails where TALLY_MUST_FAKE_TIME is set."""
    library = sorted(Path("/usr/lib").glob("**/faketime/libfaketimeMT.so.1"))
    if not library:
        assert not os.environ.get("TALLY_MUST_FAKE_TIME"), "install faketime: apt-get install faketime"
        pytest.skip("NOT TESTED: a system clock that jumps under a real process (apt-get install faketime)")
    return str(library[0])


def test_the_clock_of_a_real_process_jumps(serve: Serve, command: Command, tmp_path: Path) -> None:
    """Back by two hours, ahead by 40 days, and back to where it was, while requests come in."""
    offset = tmp_path / "offset"
    offset.write_text("+0")
    faked = {
        "LD_PRELOAD": need_faketime(),
        "FAKETIME_TIMESTAMP_FILE": str(offset),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    server = serve("--keep-days", "5", "--website-per-minute", "9999", env=faked)
    website = command("website", "add", "example.com").stdout.strip()

    def send(event_id: str) -> int:
        return server.request("POST", "/api/collect", view(website, event_id=event_id)).status

    until(lambda: send("first") == 202)
    sent = 1
    for by, told in (("-2h", "back by 2 h 0 min"), ("+40d", "ahead"), ("+0", "the system's clock is back")):
        offset.write_text(by)
        for n in range(10):
            assert (send(f"{by}{n}"), send(f"{by}{n}"), send("first")) == (202, 202, 202)
            sent += 1
        # A second warning within a minute is not logged.
        until(lambda told=told: told == "ahead" or told in server.stderr())
        assert server.request("GET", "/healthz").status == 200
    assert server.terminate() == 0
    connection = sqlite3.connect(server.db)
    (found,) = connection.execute("select count(*) from event").fetchone()
    days = connection.execute("select max(ts) - min(ts) from event").fetchone()[0] // DAY_MS
    connection.close()
    assert (found, days) == (sent, 40)
    assert "level=error" not in server.stderr()


# --- zones


ASK_ZONES = """
import sys
from tally.timeranges import buckets, parse_range, zone, zone_names
print(len(zone_names()))
for name in ("Europe/Berlin", "America/New_York", "Asia/Kathmandu", "America/Argentina/Ushuaia", "Etc/GMT+5"):
    for day in ("2026-03-29", "2026-10-25"):
        print(name, buckets(parse_range(day, day, name, 0), "hour")[::23])
"""


def ask_zones(**environment: str) -> "subprocess.CompletedProcess[str]":
    words = [sys.executable, "-c", ASK_ZONES]
    path = os.pathsep.join([*([environment.pop("FIRST")] if "FIRST" in environment else []), str(ROOT)])
    return subprocess.run(
        words, capture_output=True, text=True, env=clean_environment(PYTHONPATH=path, **environment), timeout=60
    )


@pytest.fixture
def damaged_zones(tmp_path: Path) -> Path:
    """A time zone database of a host whose files are damaged, empty, of another zone, or folders."""
    folder = tmp_path / "zones"
    (folder / "Europe").mkdir(parents=True)
    (folder / "America" / "New_York").mkdir(parents=True)
    (folder / "Asia").mkdir()
    (folder / "Europe" / "Berlin").write_bytes(b"TZif2 and then nothing of the kind")
    (folder / "Asia" / "Kathmandu").write_bytes(b"")
    return folder


def test_zones_are_those_of_the_package(damaged_zones: Path, tmp_path: Path) -> None:
    """T4: whatever the host has, or has not."""
    usual = ask_zones()
    assert usual.returncode == 0, usual.stderr
    assert int(usual.stdout.split()[0]) > 500
    for path in ("", str(damaged_zones), str(tmp_path / "nothing here")):
        assert ask_zones(PYTHONTZPATH=path).stdout == usual.stdout


def test_a_server_on_a_host_with_damaged_zones(serve: Serve, command: Command, damaged_zones: Path) -> None:
    server = serve(env={"PYTHONTZPATH": str(damaged_zones)})
    website = command("website", "add", "example.com").stdout.strip()
    key = command("key", "create").stdout.strip()
    for zone in ("Europe/Berlin", "America/New_York", "Asia/Kathmandu"):
        answer = until(
            lambda zone=zone: (
                (
                    got := server.request(
                        "GET",
                        f"/api/v1/websites/{website}/timeseries?from=2026-10-25&to=2026-10-25&interval=hour&tz={zone}",
                        headers={"Authorization": f"Bearer {key}"},
                    )
                ).status
                != 404
                and got
            )
        )
        assert answer.status == 200, answer.text
        assert len(answer.json["data"]) == (25 if zone == "Europe/Berlin" else 24)
    assert server.terminate() == 0


@pytest.mark.parametrize(
    "content", [None, b"\xff\xfe", b"UTC\nEurope/Berlin\n"], ids=["no list", "no text", "no files"]
)
def test_a_start_without_zone_data_says_so(tmp_path: Path, content: bytes | None) -> None:
    """At the start, with what to do, and not at the first question."""
    package = tmp_path / "first" / "tzdata"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    if content is not None:
        (package / "zones").write_bytes(content)
    words = [sys.executable, str(ROOT / "analytics_server.py"), "--port", "0", "--db", str(tmp_path / "a.db")]
    ended = subprocess.run(
        words, capture_output=True, text=True, env=clean_environment(PYTHONPATH=str(package.parent)), timeout=60
    )
    assert ended.returncode in (1, 2)
    assert "tzdata" in ended.stderr
    assert "install" in ended.stderr
    assert "Traceback" not in ended.stderr
