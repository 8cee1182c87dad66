"""Alerts of a website with ten steady weeks: what fires, what is stored, once; and the API of alerts."""

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tally.accounts.api_keys import Grant
from tally.api.alerts import JUDGE
from tally.notices import uptime
from tally.timestamps import DAY_MS, HOUR_MS, iso
from tests.support.app import NOON_MS, MakeApp
from tests.support.cases import cases
from tests.support.page_client import PageClient, logged_in
from tests.support.receiver import LOOPBACK, receiving, settle
from tests.support.steady_website import copy_database, visit

CHANNELS = "/api/account/channels"


class Watched:
    """An application with the steady website, whose owner has a feed."""

    def __init__(self, app: Any, owner: PageClient, website: str, channel: str) -> None:
        self.app, self.owner, self.website, self.channel = app, owner, website, channel
        self.path = f"/api/account/websites/{website}/alerts"

    async def add(self, kind: str, **fields: Any) -> dict[str, Any]:
        answer = await self.owner("POST", self.path, {"kind": kind} | fields)
        assert answer.status == 201, answer.text
        added: dict[str, Any] = answer.json["data"]
        return added

    async def alert(self) -> dict[str, Any]:
        """Return the only alert."""
        (found,) = (await self.owner("GET", self.path)).json["data"]
        alert: dict[str, Any] = found
        return alert

    async def judge_at(self, ms: int) -> None:
        """Have the hour judged that has ended before a time."""
        self.app.clock.advance((ms - self.app.clock.wall_ms()) / 1000)
        # As the task of each minute does.
        uptime_until = self.app.sql("select value from meta where name = 'heartbeat'")
        if uptime_until:
            with closing(sqlite3.connect(self.app.db)) as connection, connection:
                _ran_until(connection, ms)
        self.app.application[JUDGE].changed()
        await self.app.application[JUDGE].judge()

    async def judge_after(self, hours: int, visits: int = 10, **fields: Any) -> None:
        """Send the visits of the next hours, each of which is judged."""
        for _ in range(hours):
            begin_ms = self.app.clock.wall_ms() // HOUR_MS * HOUR_MS
            self.app.clock.advance((begin_ms + 30 * 60_000 - self.app.clock.wall_ms()) / 1000)
            await visit(self.app, self.website, begin_ms + 20 * 60_000, visits, **fields)
            await self.judge_at(begin_ms + HOUR_MS + 5 * 60_000)

    def notices(self) -> list[tuple[Any, ...]]:
        return [
            (kind, priority, content["title"])
            for kind, priority, payload in self.app.sql("select kind, priority, payload from notice order by number")
            for content in (json.loads(payload),)
        ]

    def content(self) -> dict[str, Any]:
        (payload,) = self.app.sql("select payload from notice order by number desc limit 1")
        content: dict[str, Any] = json.loads(payload[0])
        return content


def _ran_until(connection: Any, ms: int) -> None:
    """Store heartbeats up to a time, as if the tasks had run."""
    until_ms, gaps = uptime.read(connection)
    assert until_ms is not None
    for at_ms in range(until_ms + 60_000, ms + 1, 60_000):
        uptime.meta.write(connection, uptime.meta.HEARTBEAT, [at_ms, [*gaps]])


@pytest.fixture
async def watched(make_app: MakeApp, tmp_path: Path) -> Watched:
    website = copy_database(tmp_path / "analytics.db")
    app = await make_app(notify_networks=LOOPBACK, website_per_minute=1_000_000)
    owner = PageClient(app, "203.0.113.7")
    assert (await owner.log_in("owner@example.com")).status == 200
    made = await owner("POST", CHANNELS, {"kind": "feed", "name": "Reader"})
    return Watched(app, owner, website, made.json["data"]["id"])


FIRED = ("alert.fired", "normal", "Example: far more visits than usual")


async def test_a_spike_is_reported_once_with_what_it_is_about(watched: Watched) -> None:
    await watched.add("spike")
    await watched.judge_after(1)
    assert ((await watched.alert())["state"], watched.notices()) == ("ok", [])
    await watched.judge_after(1, 40, referrer="https://hn.example/item", url="https://example.com/post")
    alert = await watched.alert()
    end_ms = NOON_MS + 2 * HOUR_MS
    assert (alert["state"], alert["since"], alert["result"]) == ("firing", iso(end_ms), "judged")
    assert watched.notices() == [FIRED]
    content = watched.content()
    assert content["text"].splitlines() == [
        "18 Nov 2026, 13:00 – 14:00 (UTC)",
        "Visits: 40, usual at this time of the week: 10",
        "Sources: hn.example (40)",
        "Pages: /post (40)",
    ]
    day = "from=2026-11-18&to=2026-11-18"
    hours = "tz=UTC&interval=hour&match_weekday=true&figure=visits"
    assert content["path"] == f"/websites/{watched.website}?{day}&{hours}"
    data = content["data"]
    assert (data["alert"], data["kind"], data["visits"], data["usual"]) == (alert["id"], "spike", 40, 10)
    assert (data["from"], data["to"]) == (iso(end_ms - HOUR_MS), iso(end_ms))
    # It lasts, and is over after two hours; no second notice within 12 hours.
    await watched.judge_after(1, 60)
    assert (await watched.alert())["state"] == "firing"
    await watched.judge_after(1)
    assert (await watched.alert())["state"] == "firing"
    await watched.judge_after(1)
    assert (await watched.alert())["state"] == "ok"
    await watched.judge_after(1, 80)
    assert ((await watched.alert())["state"], len(watched.notices())) == ("ok", 1)


async def test_a_drop_and_that_it_is_over(watched: Watched) -> None:
    await watched.add("drop")
    # Within three hours 30 visits are usual.
    await watched.judge_after(2, 2)
    assert watched.notices() == []
    await watched.judge_after(1, 2)
    assert watched.notices() == [("alert.fired", "normal", "Example: far fewer visits than usual")]
    lines = watched.content()["text"].splitlines()
    assert lines[0] == "18 Nov 2026, 12:00 – 15:00 (UTC)"
    assert lines[1:3] == ["Visits: 6, usual at this time of the week: 30", "What is still there:"]
    await watched.judge_after(2)
    assert (await watched.alert())["state"] == "firing"
    await watched.judge_after(2)
    assert (await watched.alert())["state"] == "ok"
    assert watched.notices()[1:] == [("alert.resolved", "normal", "Example: visits are back")]


async def test_silence_is_urgent(watched: Watched) -> None:
    await watched.add("silence")
    await watched.judge_after(1, 0)
    assert watched.notices() == []
    await watched.judge_after(1, 0)
    assert watched.notices() == [("alert.fired", "urgent", "Example: no events arrive")]
    assert "Check that the website is reachable" in watched.content()["text"]
    await watched.judge_after(2, 1)
    assert watched.notices()[1:] == [("alert.resolved", "normal", "Example: events arrive again")]


async def test_a_restart_and_another_judgement_repeat_nothing(watched: Watched) -> None:
    await watched.add("spike")
    await watched.judge_after(1, 40)
    before = await watched.alert()
    assert watched.notices() == [FIRED]
    await watched.app.restart()
    await watched.app.application[JUDGE].judge()
    assert (await watched.alert(), watched.notices()) == (before, [FIRED])
    # Nor where the state was not stored: the notice names the hour.
    await watched.app.admin(
        lambda connection: connection.execute("update alert set state = 'ok', judged_ms = null, fired_ms = null")
    )
    watched.app.application[JUDGE]._slot = -1
    await watched.app.application[JUDGE].judge()
    assert ((await watched.alert())["state"], watched.notices()) == ("firing", [FIRED])


async def test_the_state_and_the_notice_are_stored_together(watched: Watched) -> None:
    """Nothing of the transaction is left where it fails in between, and the next attempt stores all of it."""
    await watched.add("spike")
    trigger = "create trigger fails before insert on notice begin select raise(abort, 'fails'); end"
    with closing(sqlite3.connect(watched.app.db)) as connection:
        connection.execute(trigger)
    await watched.judge_after(1, 40)
    alert = await watched.alert()
    assert (alert["state"], alert["judged_at"], watched.notices()) == ("ok", None, [])
    with closing(sqlite3.connect(watched.app.db)) as connection:
        connection.execute("drop trigger fails")
    while not watched.app.database.health.is_writable:
        await asyncio.sleep(0.05)
    watched.app.application[JUDGE]._slot = -1
    await watched.app.application[JUDGE].judge()
    assert ((await watched.alert())["state"], watched.notices()) == ("firing", [FIRED])


async def test_an_hour_with_a_downtime_is_not_judged(watched: Watched) -> None:
    await watched.add("silence", hours=1)
    await watched.judge_after(1)
    # The server is off for ten minutes of the next hour.
    app = watched.app
    end_ms = NOON_MS + 2 * HOUR_MS
    await app.admin(lambda connection: _ran_until(connection, end_ms - 20 * 60_000))
    app.clock.advance((end_ms - 10 * 60_000 - app.clock.wall_ms()) / 1000)
    await app.restart()
    app.application[JUDGE].changed()
    await app.application[JUDGE].beat()
    await watched.judge_at(end_ms + 5 * 60_000)
    alert = await watched.alert()
    assert (alert["state"], alert["result"], watched.notices()) == ("ok", "not_judged", [])
    await watched.judge_after(1, 0)
    assert [kind for kind, _, _ in watched.notices()] == ["alert.fired"]


async def test_while_the_clock_is_in_doubt_nothing_is_judged(watched: Watched) -> None:
    await watched.add("silence", hours=1)
    await watched.judge_after(1)
    watched.app.clock.set_wall(watched.app.clock.wall_ms() + 30 * DAY_MS)
    await watched.app.application[JUDGE].judge()
    watched.app.clock.set_wall(NOON_MS + 10 * HOUR_MS)
    await watched.app.application[JUDGE].judge()
    assert ((await watched.alert())["judged_at"], watched.notices()) == (iso(NOON_MS + HOUR_MS), [])


async def test_a_clock_that_was_years_ahead_stops_no_alert(watched: Watched) -> None:
    await watched.add("spike")
    await watched.app.admin(
        lambda connection: connection.execute(
            "update alert set judged_ms = ?1, fired_ms = ?1, since_ms = ?1", (NOON_MS + 1_000 * DAY_MS,)
        )
    )
    await watched.judge_after(1, 40)
    assert watched.notices() == [FIRED]


async def test_a_snoozed_alert_reports_nothing_until_the_end(watched: Watched) -> None:
    added = await watched.add("silence")
    await watched.judge_after(1)
    answer = await watched.owner("POST", f"{watched.path}/{added['id']}/snooze", {"hours": 3})
    assert answer.json["data"]["snoozed_until"] == iso(watched.app.clock.wall_ms() + 3 * HOUR_MS)
    await watched.judge_after(2, 0)
    assert ((await watched.alert())["state"], watched.notices()) == ("ok", [])
    await watched.judge_after(1, 0)
    assert (await watched.alert())["snoozed_until"] is None
    # What lasts is reported then.
    assert [kind for kind, _, _ in watched.notices()] == ["alert.fired"]
    await watched.owner("POST", f"{watched.path}/{added['id']}/snooze", {"hours": 720})
    await watched.judge_after(2, 5)
    assert ((await watched.alert())["state"], len(watched.notices())) == ("ok", 1)


async def test_a_new_website_is_not_judged(watched: Watched) -> None:
    website = await watched.app.website("new.example")
    new = Watched(watched.app, watched.owner, website, watched.channel)
    for kind in ("spike", "drop", "silence", "new_source"):
        await new.add(kind)
    await watched.judge_at(NOON_MS + HOUR_MS + 5 * 60_000)
    assert {one["result"] for one in (await watched.owner("GET", new.path)).json["data"]} <= {
        "not_judged",
        "too_few_weeks",
    }
    assert watched.notices() == []


async def test_a_goal_is_reported_once_a_period(watched: Watched) -> None:
    goal = {"name": "Sign-up", "type": "page", "match": ["filter_pathname=/pricing"]}
    made = await watched.owner("POST", watched.path.replace("alerts", "goals"), goal)
    # 2 of each hour are of /pricing.
    await watched.add("goal", goal=made.json["data"]["id"], min=26)
    await watched.judge_after(1)
    assert watched.notices() == []
    await watched.judge_after(1, 5, url="https://example.com/pricing")
    assert watched.notices() == [("goal.reached", "normal", "Example: goal “Sign-up” reached")]
    await watched.judge_after(1, 50, url="https://example.com/pricing")
    assert len(watched.notices()) == 1
    # On the next day again.
    await watched.judge_at(NOON_MS + 13 * HOUR_MS + 5 * 60_000)
    assert (await watched.alert())["state"] == "ok"
    await watched.judge_after(1, 30, url="https://example.com/pricing")
    assert len(watched.notices()) == 2
    await watched.owner("DELETE", f"{watched.path.replace('alerts', 'goals')}/{made.json['data']['id']}")
    await watched.judge_after(1)
    alert = await watched.alert()
    assert (alert["state"], alert["result"]) == ("ok", "not_judged")


async def test_a_new_source_is_reported_once(watched: Watched) -> None:
    await watched.add("new_source")
    await watched.judge_after(1, 2, referrer="https://lobste.example/s/1")
    await watched.judge_after(1, 5, referrer="https://search.example/")
    assert watched.notices() == []
    await watched.judge_after(1, 1, referrer="https://lobste.example/s/1")
    assert watched.notices() == [("alert.fired", "normal", "Example: new source lobste.example")]
    assert watched.content()["path"].endswith("&filter_referrer=lobste.example")
    await watched.judge_after(2, 3, referrer="https://lobste.example/s/1")
    assert len(watched.notices()) == 1


async def test_the_quota_is_reported_once_for_the_account(make_app: MakeApp) -> None:
    app = await make_app(free_events=10)
    owner = await logged_in(app, plan="free")
    await owner("POST", CHANNELS, {"kind": "feed", "name": "Reader"})
    websites = [await app.website(f"{name}.example") for name in ("a", "b")]
    watched = [Watched(app, owner, one, "") for one in websites]
    for one in watched:
        await one.add("quota")
    await visit(app, websites[0], NOON_MS, 7, url="https://a.example/")
    await watched[0].judge_at(NOON_MS + HOUR_MS + 5 * 60_000)
    assert watched[0].notices() == []
    for used, share in ((1, "80%"), (2, "100%")):
        await visit(app, websites[0], app.clock.wall_ms(), used, url="https://a.example/")
        await watched[0].judge_at(app.clock.wall_ms() + HOUR_MS)
        await watched[0].judge_at(app.clock.wall_ms() + HOUR_MS)
        assert watched[0].notices()[-1][2] == f"{share} of the month's events are used"
    assert len(watched[0].notices()) == 2


async def test_an_alert_goes_to_the_channels_that_it_names(watched: Watched) -> None:
    async with receiving() as receiver:
        body = {"kind": "webhook", "name": "Hook", "url": receiver.url, "language": "de"}
        made = (await watched.owner("POST", CHANNELS, body)).json["data"]
        await watched.add("spike", channels=[made["id"]])
        await watched.judge_after(1, 40)
        await settle(watched.app)
        (received,) = receiver.received
        sent = json.loads(received.body)
        assert (sent["type"], sent["data"]["title"]) == ("alert.fired", "Example: weit mehr Besuche als üblich")
        assert len(watched.notices()) == 1
        # Without a channel that is left nothing is sent.
        assert (await watched.owner("DELETE", f"{CHANNELS}/{made['id']}")).status == 204
        assert (await watched.alert())["channels"] == [made["id"]]


async def test_a_zone_with_half_hours_and_hours_in_which_clocks_change(watched: Watched) -> None:
    await watched.owner("PATCH", watched.path.removesuffix("/alerts"), {"time_zone": "Asia/Kolkata"})
    await watched.add("drop")
    # 18:30 in Kolkata is no full hour.
    await watched.judge_at(NOON_MS + HOUR_MS + 5 * 60_000)
    alert = await watched.alert()
    assert (alert["judged_at"], alert["result"]) == (iso(NOON_MS + HOUR_MS // 2), "judged")
    await watched.judge_at(NOON_MS + 95 * 60_000)
    assert (await watched.alert())["judged_at"] == iso(NOON_MS + 90 * 60_000)
    await watched.owner("PATCH", watched.path.removesuffix("/alerts"), {"time_zone": "Europe/Berlin"})
    await watched.judge_at(NOON_MS + 2 * HOUR_MS + 5 * 60_000)
    # Compared with hours before and after the change of 25 October.
    assert (await watched.alert())["result"] == "judged"


# --- the API


async def test_alerts_are_added_changed_and_deleted(watched: Watched) -> None:
    added = await watched.add("spike", factor=2.5, channels=[watched.channel])
    assert added == {
        "id": added["id"],
        "kind": "spike",
        "factor": 2.5,
        "sensitive": False,
        "min_visits": None,
        "channels": [watched.channel],
        "state": "ok",
        "since": iso(NOON_MS),
        "judged_at": None,
        "result": "waiting",
        "snoozed_until": None,
        "created_at": iso(NOON_MS),
    }
    await watched.judge_after(1, 40)
    assert (await watched.alert())["state"] == "firing"
    one = f"{watched.path}/{added['id']}"
    # Other channels change no state, other limits do.
    answer = await watched.owner("PATCH", one, {"channels": None})
    assert (answer.json["data"]["state"], answer.json["data"]["channels"]) == ("firing", None)
    answer = await watched.owner("PATCH", one, {"min_visits": 500, "sensitive": True})
    data = answer.json["data"]
    assert (data["state"], data["factor"], data["min_visits"], data["result"]) == ("ok", 2.5, 500, "waiting")
    assert (await watched.owner("DELETE", one)).status == 204
    assert (await watched.owner("GET", watched.path)).json["data"] == []
    for method, path in (("PATCH", one), ("DELETE", one), ("POST", f"{one}/snooze")):
        answer = await watched.owner(
            method, path, None if method == "DELETE" else {"hours": 1} if "snooze" in path else {}
        )
        assert (answer.status, answer.json["error"]["code"]) == (404, "unknown_alert")
    actions = [row[0] for row in watched.app.sql("select action from audit where action like 'alert%' order by number")]
    assert actions == ["alert_added", "alert_changed", "alert_changed", "alert_deleted"]


@cases(
    ("body", "field"),
    [
        ({}, "kind"),
        *(({"kind": kind}, "kind") for kind in ("other", 5, None, ["spike"])),
        *(({"kind": "spike", "factor": value}, "factor") for value in (1.4, 20.1, "3", True, None)),
        *(({"kind": "spike", "min_visits": value}, "min_visits") for value in (0, 1_000_001, 1.5, "1", True)),
        ({"kind": "spike", "sensitive": 1}, "sensitive"),
        *(({"kind": "silence", "hours": value}, "hours") for value in (0, 73, 1.0, "1")),
        ({"kind": "drop", "hours": 5}, "hours"),
        ({"kind": "goal", "min": 5}, "goal"),
        ({"kind": "goal", "goal": "0" * 16, "min": 5}, "goal"),
        *(({"kind": "quota", "channels": value}, "channels") for value in ([], "x", ["0" * 16], [5], {}, [[]])),
        ({"kind": "quota", "other": 1}, "other"),
    ],
)
async def test_what_is_refused(watched: Watched, body: dict[str, Any], field: str) -> None:
    answer = await watched.owner("POST", watched.path, body)
    assert (answer.status, answer.json["error"]["field"]) == (400, field), answer.text
    assert (await watched.owner("GET", watched.path)).json["data"] == []


async def test_the_fields_of_a_goal_and_of_a_snooze(watched: Watched) -> None:
    goal = {"name": "Sign-up", "type": "page", "match": ["filter_pathname=/pricing"]}
    id = (await watched.owner("POST", watched.path.replace("alerts", "goals"), goal)).json["data"]["id"]
    for more, field in (({}, "min"), ({"min": 0}, "min"), ({"min": 1, "period": "year"}, "period")):
        answer = await watched.owner("POST", watched.path, {"kind": "goal", "goal": id} | more)
        assert (answer.status, answer.json["error"]["field"]) == (400, field)
    added = await watched.add("goal", goal=id, min=1, period="month")
    for hours in (0, 721, "1", 1.5, True):
        answer = await watched.owner("POST", f"{watched.path}/{added['id']}/snooze", {"hours": hours})
        assert (answer.status, answer.json["error"]["field"]) == (400, "hours")
    assert (await watched.owner("POST", f"{watched.path}/{added['id']}/snooze", {})).status == 400
    await watched.owner("POST", f"{watched.path}/{added['id']}/snooze", {"hours": 1})
    answer = await watched.owner("POST", f"{watched.path}/{added['id']}/snooze", {"hours": None})
    assert answer.json["data"]["snoozed_until"] is None


async def test_an_account_has_at_most_200_alerts(watched: Watched) -> None:
    await watched.app.admin(
        lambda connection: connection.executemany(
            "insert into alert (id, website, kind, params, created_ms, since_ms) values (?, 1, 'drop', '{}', 0, 0)",
            [(f"{number:016x}",) for number in range(200)],
        )
    )
    answer = await watched.owner("POST", watched.path, {"kind": "drop"})
    assert (answer.status, answer.json["error"]["code"]) == (409, "too_many_alerts")


async def test_a_key_with_manage_has_the_same_handlers(watched: Watched) -> None:
    key = await watched.app.key(grant=Grant(("manage",)))
    by_key = {"Authorization": f"Bearer {key}"}
    path = f"/api/v1/websites/{watched.website}/alerts"
    async with watched.app.client.post(path, json={"kind": "drop"}, headers=by_key) as response:
        assert response.status == 201
        made = (await response.json())["data"]
    assert (await watched.app.get(path, key)).json["data"] == [made]
    assert (await watched.app.get(path, await watched.app.key(grant=Grant(("read",))))).status == 403
    async with watched.app.client.delete(f"{path}/{made['id']}", headers=by_key) as response:
        assert response.status == 204


async def test_other_accounts_see_and_change_nothing(watched: Watched) -> None:
    added = await watched.add("drop")
    other = await logged_in(watched.app, "other@example.com", ip="198.51.100.2")
    foreign = (await other("POST", CHANNELS, {"kind": "feed", "name": "Reader"})).json["data"]["id"]
    assert (await other("GET", watched.path)).status == 404
    assert (await other("DELETE", f"{watched.path}/{added['id']}")).status == 404
    answer = await watched.owner("PATCH", f"{watched.path}/{added['id']}", {"channels": [foreign]})
    assert (answer.status, answer.json["error"]["field"]) == (400, "channels")
    # An alert belongs to its website.
    second = await watched.app.website("second.example")
    assert (await watched.owner("DELETE", f"/api/account/websites/{second}/alerts/{added['id']}")).status == 404


async def test_alerts_go_with_the_website_and_without_alerts_nothing_is_written(watched: Watched) -> None:
    await watched.app.application[JUDGE].beat()
    assert watched.app.sql("select * from meta where name = 'heartbeat'") == []
    await watched.add("drop")
    await watched.app.application[JUDGE].beat()
    assert len(watched.app.sql("select * from meta where name = 'heartbeat'")) == 1
    answer = await watched.owner("DELETE", watched.path.removesuffix("/alerts"), {"domain": "example.com"})
    assert answer.status == 202, answer.text
    assert watched.app.sql("select * from alert") == []
    await watched.judge_at(NOON_MS + HOUR_MS + 5 * 60_000)
    await watched.app.application[JUDGE].beat()
    assert watched.app.sql("select * from meta where name = 'heartbeat'") == []
