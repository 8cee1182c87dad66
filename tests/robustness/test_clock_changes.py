"""Jumps of the system clock, forward and back by up to 40 days, also across midnight, month, year and leap day.

Rate limits and timeouts use the monotonic clock, events are dated by the system clock, and monthly limits are reset at
00:00 UTC on the 1st. docs/monitoring.md, Clock: "Deletions do not follow it at once".

The tests run the whole application with a wall clock and a monotonic clock that they set. Where `faketime` is
installed, they also run a real process.
"""

import logging
import os
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tally.clock import CONFIRMED_AFTER_MS, MAX_STEP_MS, MAX_TRUSTED_STOP_MS, ClockState
from tally.maintenance import retention
from tally.maintenance.verify import verdicts
from tally.storage import meta
from tally.storage.database import connect_reader
from tally.timestamps import iso
from tests.support.app import NOON_MS, ROOT, App, MakeApp, ManualClock
from tests.support.page_client import PageClient, logged_in
from tests.support.process import Command, Serve, clean_environment, until
from tests.support.rollup_database import with_all_rows

SECOND_MS = 1_000
MINUTE_MS = 60_000
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
JUMPS = {"-40d": -40 * DAY_MS, "-1h": -HOUR_MS, "+1h": HOUR_MS, "+73h": 73 * HOUR_MS, "+40d": 40 * DAY_MS}
by_jump = pytest.mark.parametrize("jump_ms", JUMPS.values(), ids=JUMPS)


# --- the class Clock


def run(clock: ManualClock, seconds: float, step: float = 60) -> None:
    """Advance the clock in steps of so many seconds, and call `check` after each. The server calls it every second."""
    for _ in range(round(seconds / step)):
        clock.advance(step)
        clock.check()


def times(clock: ManualClock) -> tuple[int, int]:
    """Return the monotonic wall time and the time for deletions."""
    return clock.monotonic_wall_ms(), clock.deletion_time_ms()


def test_all_times_agree_without_a_jump(clock: ManualClock) -> None:
    run(clock, 200_000, 500)
    assert times(clock) == (clock.wall_ms(), clock.wall_ms())
    assert (clock.ahead_ms, clock.unconfirmed_ms) == (0, 0)


@by_jump
def test_deletions_ignore_a_jump_forward_and_follow_one_back(clock: ManualClock, jump_ms: int) -> None:
    before = clock.wall_ms()
    clock.set_wall(before + jump_ms)
    # Before the first call of `check`.
    assert times(clock) == (before, before + min(jump_ms, 0))
    assert clock.check()
    assert not clock.check()
    run(clock, CONFIRMED_AFTER_MS / 1000 - 60)
    assert clock.ahead_ms == jump_ms
    run(clock, 60)
    assert times(clock) == (clock.wall_ms(), clock.wall_ms())
    assert clock.ahead_ms == 0


@by_jump
def test_a_reverted_jump_has_no_effect(clock: ManualClock, jump_ms: int) -> None:
    for _ in range(5):
        clock.set_wall(clock.wall_ms() + jump_ms)
        run(clock, CONFIRMED_AFTER_MS / 2000)
        clock.set_wall(clock.wall_ms() - jump_ms)
        run(clock, CONFIRMED_AFTER_MS / 2000)
        assert clock.ahead_ms == 0
    assert times(clock) == (clock.wall_ms(), clock.wall_ms())


def test_many_small_steps_do_not_advance_deletions(clock: ManualClock) -> None:
    """The clock is set forward by MAX_STEP_MS every minute: deletions advance by the minutes and at most one step."""
    start = clock.wall_ms()
    for _ in range(1_000):
        clock.set_wall(clock.wall_ms() + MAX_STEP_MS)
        run(clock, 60)
    assert clock.wall_ms() - start > 80 * HOUR_MS
    assert clock.deletion_time_ms() - start <= 1_000 * MINUTE_MS + MAX_STEP_MS


def test_hourly_corrections_are_followed(clock: ManualClock) -> None:
    """The clock is corrected by ten seconds every hour: deletions stay within MAX_STEP_MS of it."""
    for _ in range(100):
        clock.set_wall(clock.wall_ms() + 10 * SECOND_MS)
        run(clock, 3_600, 600)
    assert clock.wall_ms() - clock.deletion_time_ms() <= MAX_STEP_MS


# The stored state, its age at the start by the wall clock (ms), and the expected `ahead_ms` and `unconfirmed_ms`.
STARTS = {
    "a restart": (ClockState(0, 0, 0, 0), 5 * SECOND_MS, 0, 0),
    "a stop that is trusted": (ClockState(0, 0, 0, 0), MAX_TRUSTED_STOP_MS, 0, 0),
    "a longer stop": (ClockState(0, 0, 0, 0), MAX_TRUSTED_STOP_MS + 1, 0, MAX_TRUSTED_STOP_MS + 1),
    "a month": (ClockState(0, 0, 0, 0), 30 * DAY_MS, 0, 30 * DAY_MS),
    "set back a little": (ClockState(0, 0, 0, 0), -MAX_STEP_MS, 0, 0),
    "set back": (ClockState(0, 0, 0, 0), -HOUR_MS, -HOUR_MS, 0),
    "a clock of 1970": (ClockState(0, 0, 0, 0), -NOON_MS, -NOON_MS, 0),
    "during a jump": (ClockState(0, 40 * DAY_MS, 0, HOUR_MS), 40 * DAY_MS + 1, 0, 40 * DAY_MS + 1),
    "after a jump was undone": (ClockState(0, 40 * DAY_MS, 0, HOUR_MS), 2 * SECOND_MS, 0, 2 * SECOND_MS),
    "during a jump back": (ClockState(0, -HOUR_MS, 0, HOUR_MS), -HOUR_MS, -HOUR_MS, 0),
    "before the last stop was trusted": (ClockState(0, 0, DAY_MS, HOUR_MS), 2 * SECOND_MS, 0, DAY_MS + 2 * SECOND_MS),
}


@pytest.mark.parametrize(("noted", "off_ms", "ahead_ms", "unconfirmed_ms"), STARTS.values(), ids=STARTS)
def test_a_start(noted: ClockState, off_ms: int, ahead_ms: int, unconfirmed_ms: int) -> None:
    clock = ManualClock()
    clock.resume(noted._replace(monotonic_wall_ms=clock.wall_ms() - off_ms))
    assert (clock.ahead_ms, clock.unconfirmed_ms) == (ahead_ms, unconfirmed_ms)
    assert clock.deletion_time_ms() == min(clock.wall_ms(), clock.monotonic_wall_ms() - unconfirmed_ms)
    run(clock, CONFIRMED_AFTER_MS / 1000)
    assert (clock.ahead_ms, clock.unconfirmed_ms) == (0, 0)


def test_running_hours_add_up_across_short_stops() -> None:
    """A server that runs for eight hours each day, never for 24 hours in a row: its clock is confirmed on day 3."""
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


def test_running_hours_do_not_add_up_across_long_stops() -> None:
    """After a stop of 40 days, earlier hours of running do not confirm the clock: it may have been set meanwhile."""
    clock = ManualClock()
    clock.resume(ClockState(clock.wall_ms() - 40 * DAY_MS, 0, HOUR_MS + 1, CONFIRMED_AFTER_MS - MINUTE_MS))
    run(clock, CONFIRMED_AFTER_MS / 1000 - 60)
    assert clock.unconfirmed_ms > 40 * DAY_MS


# --- the application


def view(website: str, **more: Any) -> dict[str, Any]:
    return {"type": "pageview", "website_id": website, "url": "https://example.com/", "session_id": "s" * 8} | more


class RunningApp:
    """An application with events of nine days, a signed-in owner, and the timestamps of accepted events (`taken`)."""

    def __init__(self, app: App, website: str, key: str, browser: PageClient) -> None:
        self.app, self.website, self.key, self.browser = app, website, key, browser
        self.taken: list[int] = []
        self.clock = app.clock

    async def send(self, **more: Any) -> None:
        answer = await self.app.collect(view(self.website, **more))
        assert (answer.status, answer.json) == (202, {"ok": True, "accepted": 1, "rejected": 0}), answer.text
        self.taken.append(more.get("timestamp", self.clock.wall_ms()))

    async def resend(self, event_id: str) -> None:
        """Send an event with an event_id that was sent before: it is accepted, and not stored a second time."""
        answer = await self.app.collect(view(self.website, event_id=event_id))
        assert (answer.status, answer.json["accepted"]) == (202, 1)

    async def work(self) -> None:
        await self.app.node.tick()
        await self.app.background_work.builder.work()

    async def check(self) -> None:
        """Check that every endpoint answers, and that every event is stored and counted exactly once."""
        app, base = self.app, f"/api/v1/websites/{self.website}"
        first, last = iso(min(self.taken))[:10], iso(max(self.taken))[:10]
        span = f"from={first}&to={last}"
        sent = len(self.taken)
        assert all_rows(app, "select ts from event order by ts") == [(ts,) for ts in sorted(self.taken)]
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
        assert (await self.browser("GET", "/api/account")).status == 200, "the session is still valid"
        for path in ("/healthz", "/metrics", "/", "/tracker.js"):
            assert (await app.get(path)).status == 200
        self.verify()

    def verify(self) -> None:
        connection = connect_reader(self.app.db)
        try:
            assert [verdict for verdict in verdicts(connection, 1) if verdict.fault] == []
        finally:
            connection.close()


def all_rows(app: App, statement: str) -> list[tuple[Any, ...]]:
    """Return the rows of a statement over the events of the first website, those stored by column too."""
    with closing(connect_reader(app.db)) as connection, with_all_rows(connection, 1):
        return connection.execute(statement).fetchall()


async def keep(app: App, days: int) -> None:
    await app.admin(lambda connection: retention.set_keep_days(connection, 1, days))


@pytest.fixture
async def running(make_app: MakeApp) -> RunningApp:
    app = await make_app(keep_days=60)
    website, key = await app.website(), await app.key()
    running = RunningApp(app, website, key, await logged_in(app))
    for _ in range(9):
        await running.send()
        app.clock.advance(DAY_MS / 1000)
        await running.work()
    await running.send(event_id="first")
    await running.send()
    return running


@by_jump
async def test_clock_jumps_forward_and_back(running: RunningApp, jump_ms: int) -> None:
    """No response is 5xx; events, event_ids, visitors, sessions and rollups are correct after each step."""
    clock, visitors = running.clock, all_rows(running.app, "select count(distinct visitor) from event")[0][0]
    # 60 days for a jump back: with 12, events dated 40 days back would expire.
    await keep(running.app, 12 if jump_ms > 0 else 60)
    await running.check()
    clock.set_wall(clock.wall_ms() + jump_ms)
    for _ in range(3):
        # The first requests arrive before the clock is checked.
        await running.resend("first")
        await running.send()
        await running.send(event_id=f"there-{clock.wall_ms()}")
        await running.work()
        await running.check()
        clock.advance(600)
    clock.set_wall(clock.wall_ms() - jump_ms)
    await running.resend("first")
    for ts in (ts for ts in running.taken[-6:][1::2] if ts):
        await running.resend(f"there-{ts}")
    await running.send()
    await running.work()
    await running.check()
    # One visitor per day, also for the day that the clock jumped to.
    days = len({ts // DAY_MS for ts in running.taken})
    assert all_rows(running.app, "select count(distinct visitor) from event") == [(days,)]
    assert days == visitors + (abs(jump_ms) > DAY_MS)
    # A day later nothing is deleted, since no event is past its retention.
    clock.advance(DAY_MS / 1000)
    await running.send()
    await running.work()
    await running.check()


async def test_a_clock_that_stays_ahead_is_trusted_after_a_day(
    running: RunningApp, caplog: pytest.LogCaptureFixture
) -> None:
    """Rows, event_ids and identities are deleted by the new time only after 24 hours of running."""
    clock, app = running.clock, running.app
    caplog.set_level(logging.INFO, "tally")
    await keep(app, 12)

    def counted() -> list[int]:
        return [all_rows(app, f"select count(*) from {table}")[0][0] for table in ("event", "event_id")]

    before = counted()
    clock.set_wall(clock.wall_ms() + 40 * DAY_MS)
    for _ in range(23):
        await running.work()
        clock.advance(3_600)
    assert counted() == before
    assert len(app.running.event_writer.decider.sessions) > 0
    metrics = (await app.get("/metrics")).text
    for name in ("lead", "unconfirmed"):
        line = next(line for line in metrics.splitlines() if line.startswith(f"tally_clock_{name}_seconds "))
        assert float(line.split()[1]) == 40 * DAY_MS / 1000
    await running.check()
    assert [record.levelname for record in caplog.records if "clock was set forward by 40 d 0 h" in record.message] == [
        "WARNING"
    ]
    clock.advance(3_600)
    await running.work()
    await running.work()
    assert any("accepted" in record.message for record in caplog.records)
    assert counted() == [0, 0]
    assert len(app.running.event_writer.decider.sessions) == 0
    # The figures of the deleted events are served from rollups.
    span = f"from={iso(min(running.taken))[:10]}&to={iso(max(running.taken))[:10]}"
    stats = await app.get(f"/api/v1/websites/{running.website}/stats?{span}", running.key)
    assert stats.json["data"]["pageviews"] == len(running.taken)


async def test_a_start_with_a_clock_that_is_ahead_deletes_nothing(
    running: RunningApp, caplog: pytest.LogCaptureFixture
) -> None:
    """A stop of 40 days cannot be distinguished from a clock that is 40 days ahead: deletions wait in both cases."""
    clock, app = running.clock, running.app
    caplog.set_level(logging.INFO, "tally")
    await keep(app, 12)
    before = all_rows(app, "select count(*) from event"), app.sql("select count(*) from event_id")
    await app.close()
    clock.set_wall(clock.wall_ms() + 40 * DAY_MS)
    clock.__init__(clock.wall_ms())  # type: ignore[misc]  # another process
    await app.open()
    await running.work()
    clock.advance(12 * 3_600)
    await running.work()
    await app.restart()
    await running.work()
    assert (all_rows(app, "select count(*) from event"), app.sql("select count(*) from event_id")) == before
    assert any("last note in the database is 40 d" in record.message for record in caplog.records)
    await running.resend("first")
    assert all_rows(app, "select count(*) from event") == before[0]
    # After the clock is corrected, all events and event_ids are still stored.
    await app.close()
    clock.__init__(clock.wall_ms() - 40 * DAY_MS)  # type: ignore[misc]
    await app.open()
    await running.work()
    await running.resend("first")
    assert (all_rows(app, "select count(*) from event"), app.sql("select count(*) from event_id")) == before


async def test_the_clock_state_survives_a_kill(running: RunningApp) -> None:
    """The clock's state is written while the server runs, not only when it stops."""
    app = running.app
    app.clock.advance(700)
    await running.app.node.clock_watch.note()
    connection = sqlite3.connect(app.db)
    found = meta.clock_state(connection)
    connection.close()
    assert found is not None
    assert found.monotonic_wall_ms == app.clock.wall_ms()


@pytest.mark.parametrize("value", ["", "[]", "[1, 2, 3]", '[1, 2, 3, "4"]', "{}", 7, b"\xff", "[1, 2, 3, 4, 5]", "nul"])
async def test_an_unreadable_clock_state_is_ignored(app: App, value: object) -> None:
    await app.admin(lambda run: run.execute("insert or replace into meta values ('clock', ?)", (value,)))
    assert await app.admin(meta.clock_state) is None


@by_jump
async def test_timestamps_valid_for_either_clock_are_accepted(running: RunningApp, jump_ms: int) -> None:
    """Clients have the right time while the server's clock is wrong: timestamps that are valid by either are accepted.
    Those more than 72 hours before the earlier or 5 minutes after the later are rejected."""
    clock, right = running.clock, running.clock.wall_ms()
    clock.set_wall(right + jump_ms)
    for ts in (right, right - 10 * MINUTE_MS, right + jump_ms, right - 72 * HOUR_MS, right + jump_ms - 72 * HOUR_MS):
        await running.send(timestamp=ts)
    await running.work()
    await running.check()
    earliest, latest = sorted((right, right + jump_ms))
    early, late = earliest - 72 * HOUR_MS - 1, latest + 5 * MINUTE_MS + 1
    for ts, code in ((early, "timestamp_too_old"), (late, "timestamp_in_future")):
        answer = await running.app.collect(view(running.website, timestamp=ts))
        assert (answer.status, answer.json["errors"][0]["code"]) == (400, code)


# --- months


FULL = (429, "monthly_limit_reached")


async def take(app: App, website: str) -> tuple[int, str]:
    answer = await app.collect(view(website))
    if answer.status == 429:
        assert int(answer.headers["Retry-After"]) >= 1
    return answer.status, "" if answer.status == 202 else answer.json["error"]["code"]


@pytest.mark.parametrize("is_restarted", [False, True], ids=["still running", "restarted"])
@pytest.mark.parametrize("jump_ms", [40 * DAY_MS, -40 * DAY_MS], ids=["+40d", "-40d"])
async def test_a_used_up_month_is_used_up_again_when_the_clock_is_set_back(
    make_app: MakeApp, jump_ms: int, is_restarted: bool
) -> None:
    """Usage is counted by calendar month of the system clock. A jump does not change the usage of another month."""
    app = await make_app(free_events=3)
    website = await app.website(plan="free")

    async def jump(by_ms: int) -> None:
        app.clock.set_wall(app.clock.wall_ms() + by_ms)
        if is_restarted:
            await app.restart()
        await app.node.tick()

    assert [await take(app, website) for _ in range(4)] == [(202, "")] * 3 + [FULL]
    await jump(jump_ms)
    assert [await take(app, website) for _ in range(4)] == [(202, "")] * 3 + [FULL]
    await jump(-jump_ms)
    assert await take(app, website) == FULL
    assert app.sql("select events from account_usage where events > 0") == [(3,), (3,)]


# The last days of months. The test begins at 23:59:50 UTC, so Retry-After is 10.
ENDS = ("2026-12-31", "2027-02-28", "2028-02-29", "2026-11-30", "2027-03-31")


@pytest.mark.parametrize("day", ENDS)
async def test_over_the_end_of_a_month(make_app: MakeApp, day: str) -> None:
    """Usage is reset at 00:00 UTC on the 1st, and Retry-After ends there. A clock set back uses the old month again."""
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
    await app.background_work.builder.work()
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
    """Send one pageview per day while rollups and retention run: each day counts one, and 5 days of events are kept."""
    app = await make_app(keep_days=5)
    app.clock.__init__(time_of(start))  # type: ignore[misc]
    await app.restart()
    website, key = await app.website(), await app.key()
    days = []
    for _ in range(12):
        assert await take(app, website) == (202, "")
        days.append(iso(app.clock.wall_ms())[:10])
        app.clock.advance(DAY_MS / 1000)
        await app.node.tick()
        await app.background_work.builder.work()
    assert ("2028-02-29" in days) == start.startswith("2028")
    rows = (await app.get(f"/api/v1/websites/{website}/timeseries?from={days[0]}&to={days[-1]}", key)).json["data"]
    assert [(row["time"][:10], row["pageviews"]) for row in rows] == [(day, 1) for day in days]
    assert [iso(ts)[:10] for (ts,) in all_rows(app, "select ts from event order by ts")] == days[-5:]


# --- logins


@by_jump
async def test_a_login_over_a_jump(app: App, jump_ms: int) -> None:
    """A jump ends no session, extends none, and does not prevent signing in."""
    browser = await logged_in(app)
    app.clock.set_wall(app.clock.wall_ms() + jump_ms)
    await app.node.tick()
    assert (await browser("GET", "/api/account")).status == 200
    other = PageClient(app)
    assert (await other.log_in()).status == 200
    assert (await other("GET", "/api/account")).status == 200
    app.clock.set_wall(app.clock.wall_ms() - jump_ms)
    await app.node.tick()
    for one in (browser, other):
        assert (await one("GET", "/api/account")).status == 200
    app.clock.advance(30 * DAY_MS / 1000)
    for one in (browser, other):
        assert (await one("GET", "/api/account")).status == 401


# --- a real process


def need_faketime() -> str:
    """Return the path of libfaketime. Skip the test if it is not installed, or fail if TALLY_MUST_FAKE_TIME is set."""
    library = sorted(Path("/usr/lib").glob("**/faketime/libfaketimeMT.so.1"))
    if not library:
        assert not os.environ.get("TALLY_MUST_FAKE_TIME"), "install faketime: apt-get install faketime"
        pytest.skip("NOT TESTED: a system clock that jumps under a real process (apt-get install faketime)")
    return str(library[0])


def test_the_clock_of_a_real_process_jumps(serve: Serve, command: Command, tmp_path: Path) -> None:
    """Set the clock back by two hours, forward by 40 days and to the right time: each event is stored once."""
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
    for by, logged in (("-2h", "back by 2 h 0 min"), ("+40d", "ahead"), ("+0", "the system's clock is back")):
        offset.write_text(by)
        for n in range(10):
            assert (send(f"{by}{n}"), send(f"{by}{n}"), send("first")) == (202, 202, 202)
            sent += 1
        # The warning of the second jump may be missing: the log repeats a message at most once a minute.
        until(lambda logged=logged: logged == "ahead" or logged in server.stderr())
        assert server.request("GET", "/healthz").status == 200
    assert server.terminate() == 0
    connection = sqlite3.connect(server.db)
    (found,) = connection.execute("select count(*) from event").fetchone()
    days = connection.execute("select max(ts) - min(ts) from event").fetchone()[0] // DAY_MS
    connection.close()
    assert (found, days) == (sent, 40)
    assert "level=error" not in server.stderr()


# --- zones


PRINT_ZONES = """
import sys
from tally.timeranges import buckets, parse_range, zone, zone_names
print(len(zone_names()))
for name in ("Europe/Berlin", "America/New_York", "Asia/Kathmandu", "America/Argentina/Ushuaia", "Etc/GMT+5"):
    for day in ("2026-03-29", "2026-10-25"):
        print(name, buckets(parse_range(day, day, name, 0), "hour")[::23])
"""


def print_zones(**environment: str) -> "subprocess.CompletedProcess[str]":
    words = [sys.executable, "-c", PRINT_ZONES]
    path = os.pathsep.join([*([environment.pop("FIRST")] if "FIRST" in environment else []), str(ROOT)])
    return subprocess.run(
        words, capture_output=True, text=True, env=clean_environment(PYTHONPATH=path, **environment), timeout=60
    )


@pytest.fixture
def damaged_zones(tmp_path: Path) -> Path:
    """Return the path of a time zone database with a damaged file, an empty one, and a directory in place of a file."""
    folder = tmp_path / "zones"
    (folder / "Europe").mkdir(parents=True)
    (folder / "America" / "New_York").mkdir(parents=True)
    (folder / "Asia").mkdir()
    (folder / "Europe" / "Berlin").write_bytes(b"TZif2 and then nothing of the kind")
    (folder / "Asia" / "Kathmandu").write_bytes(b"")
    return folder


def test_zones_are_those_of_the_package(damaged_zones: Path, tmp_path: Path) -> None:
    """The zones do not depend on the host's time zone database."""
    usual = print_zones()
    assert usual.returncode == 0, usual.stderr
    assert int(usual.stdout.split()[0]) > 500
    for path in ("", str(damaged_zones), str(tmp_path / "nothing here")):
        assert print_zones(PYTHONTZPATH=path).stdout == usual.stdout


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
    """The command exits with status 1 or 2, and names the package and the fix, instead of failing at a query."""
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
