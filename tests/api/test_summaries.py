"""Summaries: when they are sent, what they say, who may have them; figures are those of the read API."""

import json
import re
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import html5lib
import pytest

from tally.api.context import READ_API
from tally.api.summaries import Summaries
from tally.engine.values import BeyondRetention
from tally.notices.channels import MAX_CHANNELS
from tally.notices.outbox import Content, New
from tally.notices.texts import LANGUAGES, text
from tally.timestamps import DAY_MS
from tests.api.test_oauth import member
from tests.support.app import OWNER, App, MakeApp
from tests.support.cases import cases
from tests.support.mailbox import FROM, Mailbox, mailbox
from tests.support.page_client import PageClient, logged_in
from tests.support.receiver import LOOPBACK, receiving, sender_of, settle

CHANNELS, REPORTS = "/api/account/channels", "/api/account/reports"
BASE = "https://stats.example.com"
HOSTILE = "/<b>bold</b>&\"'"


class Owner:
    """An application that sends mail to a mailbox, and its owner with a channel."""

    def __init__(self, app: App, browser: PageClient, box: Mailbox) -> None:
        self.app, self.browser, self.box = app, browser, box
        self.summaries = Summaries(app.application[READ_API], sender_of(app), app.clock)

    async def channel(self, **more: Any) -> str:
        answer = await self.browser("POST", CHANNELS, {"kind": "email", "name": "Mail", "address": OWNER} | more)
        assert answer.status == 201, answer.text
        id: str = answer.json["data"]["id"]
        return id

    async def report(self, status: int = 201, **body: Any) -> dict[str, Any]:
        answer = await self.browser("POST", REPORTS, body)
        assert answer.status == status, answer.text
        made: dict[str, Any] = answer.json.get("data") or answer.json["error"]
        return made

    async def at(self, time: str) -> None:
        """Have it be a time, and all done that is due."""
        ms = int(datetime.fromisoformat(time).timestamp() * 1000)
        self.app.clock.advance((ms - self.app.clock.monotonic_wall_ms()) / 1000)
        await self.summaries.work()
        await settle(self.app)

    def notices(self) -> list[tuple[str, str]]:
        return self.app.sql("select kind, state from notice order by number")


@pytest.fixture
async def owner(make_app: MakeApp) -> AsyncIterator[Owner]:
    with mailbox() as box:
        url = f"smtp://127.0.0.1:{box.port}?tls=none"
        app = await make_app(base_url=BASE, smtp_url=url, mail_from=FROM, notify_networks=LOOPBACK)
        await app.website("example.com")
        yield Owner(app, await logged_in(app), box)


async def fill(app: App, id: str) -> None:
    """Store three days of events: two visitors, then three, then one today."""
    now_ms = app.clock.wall_ms()
    visits = [
        (2, "ann", "/"),
        (2, "bob", "/"),
        (1, "ann", "/"),
        (1, "bob", HOSTILE),
        (1, "cat", "/new"),
        (0, "ann", "/"),
    ]
    for days, who, path in visits:
        body = {
            "type": "pageview",
            "website_id": id,
            "url": f"https://example.com{path}",
            "timestamp": now_ms - days * DAY_MS,
            "session_id": f"session-of-{who}",
            "referrer": "https://search.example/" if who == "cat" else "",
        }
        answer = await app.collect(body)
        assert answer.status == 202, answer.text


async def website_of(owner: Owner) -> str:
    (website,) = (await owner.browser("GET", "/api/account/websites")).json["data"]
    id: str = website["id"]
    return id


async def test_a_summary_of_a_day_arrives_once_with_the_figures_of_the_read_api(owner: Owner) -> None:
    id = await website_of(owner)
    await fill(owner.app, id)
    report = await owner.report(period="day", channels=[await owner.channel(language="de")], websites=[id])
    # It is noon on 18 November: the next is due tomorrow.
    assert report["next_at"] == "2026-11-19T08:00:00.000+00:00"
    await owner.at("2026-11-19T07:59:50+00:00")
    assert owner.box.mails == []
    await owner.at("2026-11-19T08:00:10+00:00")
    await owner.at("2026-11-19T09:00:00+00:00")
    (received,) = owner.box.mails
    assert received["Subject"] == "example.com: 1 Besucher, 18. Nov. 2026"
    assert owner.notices() == [("summary.day", "sent")]
    # The next day has no visitors.
    await owner.at("2026-11-20T08:00:10+00:00")
    assert len(owner.box.mails) == 1


async def test_a_summary_of_a_week_has_the_figures_of_the_read_api(owner: Owner) -> None:
    id = await website_of(owner)
    await fill(owner.app, id)
    channel = await owner.channel()
    await owner.report(period="week", channels=[channel], websites=[id], hour=0)
    await owner.at("2026-11-23T00:00:10+00:00")
    (received,) = owner.box.mails
    text_part, html = (part.get_content() for part in received.iter_parts())
    key = await owner.app.key()
    query = "from=2026-11-16&to=2026-11-22&tz=UTC"
    stats = (await owner.app.get(f"/api/v1/websites/{id}/stats?{query}&compare=previous", key)).json["data"]
    assert stats["visitors"] == 6
    assert received["Subject"] == f"example.com: {stats['visitors']} visitors, 16 Nov – 22 Nov 2026"
    for words in ("Visitors: 6", "Visits: 6", "Pageviews: 6", f"Bounce rate: {stats['bounce_rate']:.1f}%"):
        assert words in text_part
    pages = (await owner.app.get(f"/api/v1/websites/{id}/top/pathname?{query}", key)).json["data"]
    for row in pages:
        assert f"- {row['value']}: {row['visitors']} (new)" in text_part
    parsed = html5lib.parse(html, namespaceHTMLElements=False)
    shown = "".join(parsed.itertext())
    for row in pages:
        assert row["value"] in shown
    assert len(html.encode()) < 60_000
    assert parsed.findall(".//img") == parsed.findall(".//script") == parsed.findall(".//b") == []
    links = {a.get("href") for a in parsed.iter("a")}
    assert f"{BASE}/websites/{id}?{query}" in links
    assert all(link.startswith(BASE) for link in links)
    bars = [one for one in parsed.iter("div") if one.get("class") == "bar"]
    assert len(bars) == 7


async def test_a_summary_with_filters_has_the_figures_of_the_read_api_with_them(owner: Owner) -> None:
    id = await website_of(owner)
    await fill(owner.app, id)
    filters = ["filter_pathname=/", "filter_pathname=/new", "filter_referrer!=search.example", "filter_city!=<b>"]
    made = await owner.report(period="week", channels=[await owner.channel()], websites=[id], filters=filters)
    assert made["filters"] == filters
    await owner.at("2026-11-23T08:00:10+00:00")
    (received,) = owner.box.mails
    words, html = (part.get_content() for part in received.iter_parts())
    written = "filter_pathname=/&filter_pathname=/new&filter_referrer!=search.example&filter_city!=%3Cb%3E"
    query = f"from=2026-11-16&to=2026-11-22&tz=UTC&{written}"
    key = await owner.app.key()
    stats = (await owner.app.get(f"/api/v1/websites/{id}/stats?{query}", key)).json["data"]
    assert 0 < stats["visitors"] < 6
    assert f"Visitors: {stats['visitors']}" in words
    assert f"Pageviews: {stats['pageviews']}" in words
    assert "Only: page is / or /new, referrer is not search.example" in words
    parsed = html5lib.parse(html, namespaceHTMLElements=False)
    assert "referrer is not search.example, city is not <b>" in "".join(parsed.itertext())
    assert parsed.findall(".//b") == []
    (link,) = re.findall(rf"({BASE}/websites/\S+)", words)
    opened = parse_qsl(urlsplit(link).query)
    assert [f"{name}={value}" for name, value in opened if name.startswith("filter_")] == filters
    # Without filters it may be of several websites again.
    one = f"{REPORTS}/{made['id']}"
    assert (await owner.browser("PATCH", one, {"websites": None})).status == 400
    assert (await owner.browser("PATCH", one, {"websites": None, "filters": []})).status == 200


async def test_filters_whose_events_are_gone_hold_up_no_later_summary(
    owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = await website_of(owner)
    more = {"channels": [await owner.channel()], "websites": [id], "filters": ["filter_pathname=/"]}
    for period in ("month", "day"):
        await owner.report(period=period, skip_empty=False, **more)
    real, kept_ms = owner.app.node.engine.reports.stats, owner.app.clock.wall_ms()

    async def stats(scopes: Any, requester: Any) -> Any:
        if min(scope.from_ms for scope in scopes) < kept_ms:
            raise BeyondRetention(kept_ms)
        return await real(scopes, requester)

    monkeypatch.setattr(owner.app.node.engine.reports, "stats", stats)
    await owner.at("2026-12-01T08:00:10+00:00")
    listed = (await owner.browser("GET", REPORTS)).json["data"]
    assert {one["next_at"][:10] for one in listed} == {"2026-12-02", "2027-01-01"}
    assert [one["Subject"] for one in owner.box.mails] == ["example.com: 0 visitors, 30 Nov 2026"]
    # The day before is kept no more: the figures of the first day have no change.
    kept_ms = owner.app.clock.wall_ms() - 32 * 3_600_000
    await owner.at("2026-12-02T08:00:10+00:00")
    assert owner.box.mails[1]["Subject"] == "example.com: 0 visitors, 1 Dec 2026"


async def test_alerts_of_the_period_are_in_the_summary(owner: Owner) -> None:
    id = await website_of(owner)
    await fill(owner.app, id)
    number = owner.app.registry.website(id).number
    hour = {
        "alert": "0" * 16,
        "website": id,
        "from": "2026-11-17T13:00:00.000+00:00",
        "to": "2026-11-17T14:00:00.000+00:00",
    }
    spike = hour | {"kind": "spike", "visits": 40, "usual": 9.5, "sources": [], "pages": []}
    source = hour | {"kind": "new_source", "source": "news.example", "visits": 3}
    outside = spike | {"from": "2026-11-18T09:00:00.000+00:00", "to": "2026-11-18T10:00:00.000+00:00"}
    await owner.channel(kind="feed", address=None)
    channel = await owner.channel(language="de")
    for fact, data in enumerate((spike, source, outside)):
        content = Content("Title", "Text", "", data)
        new = New(1, "alert.fired", str(fact), lambda _, content=content: content, 2**50, website=number)
        await sender_of(owner.app).add(new)
    await owner.report(period="day", channels=[channel], websites=[id])
    preview = f"{REPORTS}/{(await owner.browser('GET', REPORTS)).json['data'][0]['id']}/preview"
    shown = (await owner.browser("GET", f"{preview}?language=en")).json["data"]
    line = (
        "17 Nov 2026, 13:00: example.com: far more visits than usual. Visits: 40, usual at this time of the week: 9.5"
    )
    for words in (shown["text"], html5lib.parse(shown["html"], namespaceHTMLElements=False)):
        said = words if isinstance(words, str) else "\n".join(words.itertext())
        assert said.count(line) == 1
        assert "17 Nov 2026: example.com: new source news.example" in said
        assert "18 Nov" not in said


async def test_missed_periods_are_one_and_late_ones_expire(owner: Owner) -> None:
    id = await website_of(owner)
    channel = await owner.channel()
    await owner.report(period="day", channels=[channel], websites=[id], skip_empty=False)
    # Down for three days, and up within 12 hours of the last.
    await owner.at("2026-11-21T19:59:00+00:00")
    assert [one["Subject"] for one in owner.box.mails] == ["example.com: 0 visitors, 20 Nov 2026"]
    await owner.at("2026-11-23T20:00:01+00:00")
    assert owner.notices() == [("summary.day", "sent"), ("summary.day", "expired")]
    await owner.at("2026-11-24T08:00:01+00:00")
    assert len(owner.box.mails) == 2


async def test_several_websites_are_one_mail_and_other_channels_have_it_too(owner: Owner) -> None:
    first = await website_of(owner)
    second = await owner.app.website("second.example")
    for id in (first, second):
        await fill(owner.app, id)
    async with receiving() as receiver:
        hook = await owner.channel(kind="webhook", url=receiver.url, address=None)
        chat = await owner.channel(kind="slack", url=receiver.url, address=None)
        await owner.report(period="week", channels=[await owner.channel(), hook, chat])
        await owner.at("2026-11-23T08:00:10+00:00")
        assert len(owner.box.mails) == 1
        assert owner.box.mails[0]["Subject"] == "2 websites: 12 visitors, 16 Nov – 22 Nov 2026"
        bodies = [json.loads(one.body) for one in receiver.received]
        (event,) = [one for one in bodies if one.get("type")]
        assert event["type"] == "summary.week"
        assert event["data"]["details"]["totals"]["visitors"] == 12
        assert len(event["data"]["details"]["websites"]) == 2
        assert max(len(one.body) for one in receiver.received) <= 20_000
        (said,) = [one["text"] for one in bodies if "text" in one]
        assert "second.example: 6 visitors" in said


BAD: list[tuple[dict[str, Any], str]] = [
    ({"period": "year"}, "period"),
    ({"period": None}, "period"),
    ({"hour": 24}, "hour"),
    ({"hour": -1}, "hour"),
    ({"hour": True}, "hour"),
    ({"hour": "8"}, "hour"),
    ({"channels": []}, "channels"),
    ({"channels": ["0" * 16]}, "channels"),
    ({"channels": [["x"]]}, "channels"),
    ({"channels": "x"}, "channels"),
    ({"websites": []}, "websites"),
    ({"websites": ["x"]}, "websites"),
    ({"websites": [["x"]]}, "websites"),
    ({"skip_empty": 1}, "skip_empty"),
    ({"filters": ["filter_country=DE"]}, "filters"),
    ({"filters": ["filter_planet=Mars"]}, "filters"),
    ({"filters": ["country=DE"]}, "filters"),
    ({"filters": "filter_country=DE"}, "filters"),
    ({"filters": ["filter_country=DE"] * 21}, "filters"),
    ({"other": 1}, "other"),
]


@cases(("more", "field"), BAD)
async def test_what_is_refused(owner: Owner, more: dict[str, Any], field: str) -> None:
    channel = await owner.channel()
    good = {"period": "week", "channels": [channel]}
    assert (await owner.report(400, **(good | more)))["field"] == field
    await owner.browser("DELETE", f"{CHANNELS}/{channel}")
    assert (await owner.browser("GET", REPORTS)).json["data"] == []


async def test_a_report_is_changed_and_deleted(owner: Owner) -> None:
    id, channel = await website_of(owner), await owner.channel()
    made = await owner.report(period="week", channels=[channel])
    one = f"{REPORTS}/{made['id']}"
    answer = await owner.browser("PATCH", one, {"period": "month", "hour": 23, "websites": [id], "skip_empty": False})
    assert answer.json["data"]["next_at"] == "2026-12-01T23:00:00.000+00:00"
    assert (await owner.browser("GET", REPORTS)).json["data"] == [answer.json["data"]]
    assert (await owner.browser("PATCH", one, {"hour": 25})).status == 400
    assert (await owner.browser("DELETE", one)).status == 204
    for method, path in (("PATCH", one), ("DELETE", one), ("GET", f"{one}/preview")):
        answer = await owner.browser(method, path, {} if method == "PATCH" else None)
        assert (answer.status, answer.json["error"]["code"]) == (404, "unknown_report")
    actions = [row["action"] for row in (await owner.browser("GET", "/api/account/audit")).json["data"]]
    assert actions[:3] == ["report_deleted", "report_changed", "report_added"]


async def test_a_preview_in_each_language(owner: Owner) -> None:
    id = await website_of(owner)
    await fill(owner.app, id)
    made = await owner.report(period="day", channels=[await owner.channel()])
    for language in LANGUAGES:
        answer = await owner.browser("GET", f"{REPORTS}/{made['id']}/preview?language={language}")
        assert answer.status == 200, answer.text
        assert text(language, "summaries.count_visitors", count=3) in answer.json["data"]["title"]
        assert text(language, "summaries.bounce_rate") in answer.json["data"]["text"]
        html5lib.parse(answer.json["data"]["html"], namespaceHTMLElements=False)
    assert (await owner.browser("GET", f"{REPORTS}/{made['id']}/preview?language=it")).status == 400


async def test_fifty_reports_are_the_most(owner: Owner) -> None:
    channel = await owner.channel()
    for _ in range(50):
        await owner.report(period="week", channels=[channel])
    assert (await owner.report(409, period="week", channels=[channel]))["code"] == "too_many_reports"


async def test_a_report_that_fails_holds_up_no_other(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = await website_of(owner), await owner.app.website("second.example")
    channel = await owner.channel()
    for id in (first, second):
        await owner.report(period="day", channels=[channel], websites=[id], skip_empty=False)
    real = owner.app.node.engine.reports.stats
    number = owner.app.registry.website(first).number

    async def stats(scopes: Any, requester: Any) -> Any:
        if scopes[0].website == number:
            raise RuntimeError("broken")
        return await real(scopes, requester)

    with monkeypatch.context() as patch:
        patch.setattr(owner.app.node.engine.reports, "stats", stats)
        await owner.at("2026-11-19T08:00:10+00:00")
    assert [one["Subject"] for one in owner.box.mails] == ["second.example: 0 visitors, 18 Nov 2026"]
    await owner.at("2026-11-19T08:06:00+00:00")
    assert owner.box.mails[1]["Subject"] == "example.com: 0 visitors, 18 Nov 2026"


async def test_a_viewer_has_a_summary_of_the_websites_that_it_sees(owner: Owner) -> None:
    id = await website_of(owner)
    other = await owner.app.website("second.example")
    for one in (id, other):
        await fill(owner.app, one)
    viewer = await member(owner.app, "viewer", other)
    path = "/api/account/summary"
    assert (await viewer("GET", path)).json == {
        "meta": {"mail": True},
        "data": {"period": None, "hour": 8, "websites": None},
    }
    answer = await viewer("PATCH", path, {"period": "week", "language": "fr"})
    assert answer.json["data"] == {"period": "week", "hour": 8, "websites": None}
    for bad in ({"websites": [id]}, {"period": "year"}, {"language": "it"}, {"hour": 24}, {"channels": []}):
        assert (await viewer("PATCH", path, {"period": "week"} | bad)).status == 400
    # It is no channel of the account.
    assert (await owner.browser("GET", CHANNELS)).json["data"] == []
    assert (await owner.browser("GET", REPORTS)).json["data"] == []
    await owner.at("2026-11-23T08:00:10+00:00")
    (received,) = owner.box.mails
    assert received["To"] == "viewer@example.com"
    assert received["Subject"].startswith("second.example: 6 visiteurs")
    # It ends with the membership.
    await owner.app.admin(lambda connection: connection.execute("delete from membership where role = 'viewer'"))
    await owner.at("2026-11-30T08:00:10+00:00")
    assert owner.app.sql("select count(*) from report") == owner.app.sql("select count(*) from channel") == [(0,)]
    assert len(owner.box.mails) == 1


async def test_channels_of_the_account_leave_room_for_the_summary_of_a_person(owner: Owner) -> None:
    for number in range(MAX_CHANNELS):
        sent = {"kind": "feed", "name": f"Reader {number}"}
        assert (await owner.browser("POST", CHANNELS, sent)).status == 201
    assert (await owner.browser("PATCH", "/api/account/summary", {"period": "week"})).status == 200


async def test_names_are_escaped_in_a_preview(owner: Owner) -> None:
    id = await website_of(owner)
    await fill(owner.app, id)
    await owner.browser("PATCH", f"/api/account/websites/{id}", {"name": "<img src=x>"})
    goal = {"name": "<i>Signup</i>", "type": "event", "match": ["filter_event_name=signup"]}
    assert (await owner.browser("POST", f"/api/account/websites/{id}/goals", goal)).status == 201
    made = await owner.report(period="day", channels=[await owner.channel()])
    html = (await owner.browser("GET", f"{REPORTS}/{made['id']}/preview")).json["data"]["html"]
    assert "&lt;img" in html
    assert "<img" not in html
    assert "&lt;i&gt;Signup" in html


async def test_a_person_ends_the_own_summary(owner: Owner) -> None:
    path = "/api/account/summary"
    assert (await owner.browser("PATCH", path, {"period": "day", "hour": 7})).json["data"]["hour"] == 7
    assert (await owner.browser("PATCH", path, {"period": "month"})).json["data"]["period"] == "month"
    assert owner.app.sql("select period, count(*) from report") == [("month", 1)]
    assert (await owner.browser("PATCH", path, {"period": None})).json["data"]["period"] is None
    assert owner.app.sql("select count(*) from report") == owner.app.sql("select count(*) from channel") == [(0,)]


async def test_a_limited_editor_makes_reports_of_the_websites_that_it_sees(owner: Owner) -> None:
    id = await website_of(owner)
    other = await owner.app.website("second.example")
    editor, channel = await member(owner.app, "editor", other), await owner.channel()
    foreign = (await owner.report(period="week", channels=[channel], websites=[id]))["id"]
    whole = (await owner.report(period="week", channels=[channel]))["id"]
    for websites in (None, [id], [id, other]):
        answer = await editor("POST", REPORTS, {"period": "week", "channels": [channel], "websites": websites})
        assert (answer.status, answer.json["error"]["field"]) == (400, "websites")
    answer = await editor("POST", REPORTS, {"period": "week", "channels": [channel], "websites": [other]})
    assert answer.status == 201
    assert [one["id"] for one in (await editor("GET", REPORTS)).json["data"]] == [answer.json["data"]["id"]]
    for one in (foreign, whole):
        assert (await editor("PATCH", f"{REPORTS}/{one}", {"hour": 1})).status == 404
        assert (await editor("GET", f"{REPORTS}/{one}/preview")).status == 404
        assert (await editor("DELETE", f"{REPORTS}/{one}")).status == 404


async def test_many_websites_with_long_names_stay_small(owner: Owner) -> None:
    names = [f"/{number}{'x' * 300}" for number in range(8)]
    for number in range(4):
        id = await owner.app.website(f"site{number}.example")
        for place, name in enumerate(names):
            url = f"https://site{number}.example{name}"
            who = f"session-of-{place}-{number}"
            body = {"type": "pageview", "website_id": id, "url": url, "session_id": who}
            assert (await owner.app.collect(body)).status == 202
    await owner.report(period="month", channels=[await owner.channel()])
    await owner.at("2026-12-01T08:00:10+00:00")
    (received,) = owner.box.mails
    _, html = received.iter_parts()
    assert received["Subject"] == "5 websites: 32 visitors, 1 Nov – 30 Nov 2026"
    assert len(html.get_content().encode()) <= 60_000
    (payload,) = owner.app.sql("select payload from notice")[0]
    assert len(json.dumps(json.loads(payload)["data"])) <= 16_000
