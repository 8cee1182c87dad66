"""Channels and notices over the API: who may do what, what is checked, and what is shown of secrets and hosts."""

import json
from typing import Any

from tally.accounts.api_keys import Grant
from tally.notices.outbox import New
from tally.timestamps import DAY_MS
from tests.support.app import App, MakeApp
from tests.support.cases import cases
from tests.support.page_client import PageClient, logged_in
from tests.support.receiver import LOOPBACK, receiving, says, sender_of, settle

CHANNELS = "/api/account/channels"
HOOK = {"kind": "webhook", "name": "Ops", "url": "https://hooks.example.com/in/s3cret?key=hidden"}
NTFY = {"kind": "ntfy", "name": "Phone", "url": "https://ntfy.example.com", "topic": "tally", "token": "tk_abc"}


async def add(browser: PageClient, body: dict[str, Any]) -> dict[str, Any]:
    answer = await browser("POST", CHANNELS, body)
    assert answer.status == 201, answer.text
    made: dict[str, Any] = answer.json["data"]
    return made


async def test_a_channel_is_added_changed_paused_and_deleted(app: App) -> None:
    browser = await logged_in(app)
    made = await add(browser, HOOK | {"quiet": {"from": "22:00", "to": "07:30", "time_zone": "Europe/Berlin"}})
    assert made.pop("secret").startswith("whsec_")
    (listed,) = (await browser("GET", CHANNELS)).json["data"]
    assert listed == made
    assert (listed["kind"], listed["name"], listed["host"]) == ("webhook", "Ops", "hooks.example.com")
    assert listed["quiet"] == {"from": "22:00", "to": "07:30", "time_zone": "Europe/Berlin"}
    one = f"{CHANNELS}/{made['id']}"
    answer = await browser("PATCH", one, {"name": "Night", "quiet": None, "paused": True})
    assert answer.status == 200
    assert (answer.json["data"]["name"], answer.json["data"]["quiet"]) == ("Night", None)
    assert answer.json["data"]["paused_at"] is not None
    assert (await browser("PATCH", one, {"paused": False})).json["data"]["paused_at"] is None
    assert (await browser("DELETE", one)).status == 204
    assert (await browser("GET", CHANNELS)).json["data"] == []
    for method, path in (("PATCH", one), ("DELETE", one), ("POST", f"{one}/test"), ("POST", f"{one}/secret")):
        answer = await browser(method, path, {} if method == "PATCH" else None)
        assert (answer.status, answer.json["error"]["code"]) == (404, "unknown_channel")


async def test_no_answer_and_no_line_of_the_audit_log_has_a_secret_or_a_url(app: App) -> None:
    browser = await logged_in(app)
    hook, ntfy = await add(browser, HOOK), await add(browser, NTFY)
    feed = await add(browser, {"kind": "feed", "name": "Reader"})
    new = (await browser("POST", f"{CHANNELS}/{hook['id']}/secret")).json["data"]["secret"]
    other = (await browser("POST", f"{CHANNELS}/{feed['id']}/secret")).json["data"]["path"]
    assert new != hook["secret"]
    assert other != feed["path"]
    answer = await browser("POST", f"{CHANNELS}/{ntfy['id']}/secret")
    assert (answer.status, answer.json["error"]["code"]) == (409, "no_secret")
    await browser("PATCH", f"{CHANNELS}/{ntfy['id']}", {"topic": "other"})
    shown = (await browser("GET", CHANNELS)).text + (await browser("GET", "/api/account/audit")).text
    for secret in (hook["secret"], new, feed["path"], other, "s3cret", "hidden", "tk_abc", "whsec_"):
        assert secret not in shown
    actions = [row["action"] for row in (await browser("GET", "/api/account/audit")).json["data"]][::-1]
    changed = ["channel_added"] * 3 + ["channel_secret_replaced"] * 2 + ["channel_changed"]
    assert actions == ["sign_in", *changed]


BAD: list[tuple[dict[str, Any], int, str]] = [
    ({"kind": "pigeon"}, 400, "kind"),
    ({"name": ""}, 400, "name"),
    ({"name": "a\nb"}, 400, "name"),
    ({"name": 5}, 400, "name"),
    ({"url": 5}, 400, "url"),
    ({"url": ""}, 400, "url"),
    ({"url": "ftp://example.com/"}, 400, "url"),
    ({"url": "https://"}, 400, "url"),
    ({"url": "https://user@example.com/"}, 400, "url"),
    ({"url": "https://user:password@example.com/"}, 400, "url"),
    ({"url": "https://example.com/#part"}, 400, "url"),
    ({"url": "https://example.com:25/"}, 400, "url"),
    ({"url": "https://example.com:0/"}, 400, "url"),
    ({"url": "https://example.com:99999/"}, 400, "url"),
    ({"url": "https://[::1"}, 400, "url"),
    ({"url": f"https://example.com/{'a' * 1000}"}, 400, "url"),
    ({"url": "https://exämple.com/"}, 400, "url"),
    ({"url": "https://example.com/a\r\nX: y"}, 400, "url"),
    ({"topic": "t"}, 400, "topic"),
    ({"quiet": "22:00"}, 400, "quiet"),
    ({"quiet": {"from": "22:00", "to": "22:00", "time_zone": "UTC"}}, 400, "quiet"),
    ({"quiet": {"from": "24:00", "to": "07:00", "time_zone": "UTC"}}, 400, "quiet"),
    ({"quiet": {"from": "22:00", "to": "07:00", "time_zone": "Mars/Base"}}, 400, "quiet"),
    ({"quiet": {"from": "22:00", "to": "07:00", "time_zone": ["UTC"]}}, 400, "quiet"),
    ({"quiet": {"from": 22, "to": "07:00", "time_zone": "UTC"}}, 400, "quiet"),
    ({"other": 1}, 400, "other"),
    ({"url": "http://example.com/"}, 422, "url"),
    ({"url": "https://127.0.0.1/"}, 422, "url"),
    ({"url": "https://127.1/"}, 422, "url"),
    ({"url": "https://0x7f000001/"}, 422, "url"),
    ({"url": "https://2130706433/"}, 422, "url"),
    ({"url": "https://[::1]/"}, 422, "url"),
    ({"url": "https://[::ffff:10.0.0.1]/"}, 422, "url"),
    ({"url": "https://169.254.169.254/latest/meta-data"}, 422, "url"),
]


@cases(("more", "status", "field"), BAD)
async def test_what_is_refused(app: App, more: dict[str, Any], status: int, field: str) -> None:
    browser = await logged_in(app)
    answer = await browser("POST", CHANNELS, HOOK | more)
    assert (answer.status, answer.json["error"]["field"]) == (status, field), answer.text
    if status == 422:
        assert answer.json["error"]["code"] == "channel_refused"
        assert "--notify-networks" in answer.json["error"]["message"]
    assert (await browser("GET", CHANNELS)).json["data"] == []


async def test_an_ntfy_channel_needs_a_topic(app: App) -> None:
    browser = await logged_in(app)
    without = {name: value for name, value in NTFY.items() if name != "topic"}
    for body in (without, NTFY | {"topic": "a b"}, NTFY | {"token": "a\r\nb"}):
        assert (await browser("POST", CHANNELS, body)).status == 400


async def test_an_account_has_at_most_50_channels(app: App) -> None:
    browser = await logged_in(app)
    for number in range(50):
        await add(browser, {"kind": "feed", "name": f"{number}"})
    answer = await browser("POST", CHANNELS, {"kind": "feed", "name": "50"})
    assert (answer.status, answer.json["error"]["code"]) == (409, "too_many_channels")


async def test_a_key_with_manage_changes_channels_and_sees_no_host(app: App) -> None:
    await logged_in(app)
    key = await app.key(grant=Grant(("manage",)))
    by_key = {"Authorization": f"Bearer {key}"}
    async with app.client.post("/api/v1/channels", json=HOOK, headers=by_key) as response:
        assert response.status == 201
        made = (await response.json())["data"]
    assert made["host"] is None
    listed = (await app.get("/api/v1/channels", key)).json["data"]
    assert [one["id"] for one in listed] == [made["id"]]
    async with app.client.delete(f"/api/v1/channels/{made['id']}", headers=by_key) as response:
        assert response.status == 204
    website = await app.website()
    for grant in (Grant(("read",)), Grant(("manage",), (website,))):
        assert (await app.get("/api/v1/channels", await app.key(grant=grant))).status == 403


async def test_other_accounts_see_and_change_nothing(app: App) -> None:
    browser, other = await logged_in(app), await logged_in(app, "other@example.com", ip="198.51.100.2")
    made = await add(browser, HOOK)
    assert (await other("GET", CHANNELS)).json["data"] == []
    one = f"{CHANNELS}/{made['id']}"
    for method, path in (("PATCH", one), ("DELETE", one), ("POST", f"{one}/test"), ("POST", f"{one}/secret")):
        assert (await other(method, path, {} if method == "PATCH" else None)).status == 404
    assert len((await browser("GET", CHANNELS)).json["data"]) == 1


async def test_a_test_answers_how_it_ended(make_app: MakeApp) -> None:
    app = await make_app(notify_networks=LOOPBACK)
    browser = await logged_in(app)
    async with receiving() as receiver:
        made = await add(browser, HOOK | {"url": f"{receiver.url}/in"})
        one = f"{CHANNELS}/{made['id']}/test"
        answer = await browser("POST", one)
        assert answer.json["data"] == {"ok": True, "status": 204, "error": None, "error_code": None}
        assert receiver.received[0].path == "/in"
        receiver.status = 404
        answer = await browser("POST", one)
        assert answer.json["data"] == {"ok": False, "status": 404, "error": "HTTP 404", "error_code": None}
    answer = await browser("POST", one)
    failed = {"ok": False, "status": None, "error": "the connection failed", "error_code": "connection_failed"}
    assert answer.json["data"] == failed
    # A test is no notice.
    assert (await browser("GET", "/api/account/notices")).json["data"] == []
    statuses = {(await browser("POST", one)).status for _ in range(10)}
    assert statuses == {200, 429}


async def test_a_failed_notice_is_listed_and_sent_again(make_app: MakeApp) -> None:
    app = await make_app(notify_networks=LOOPBACK)
    browser = await logged_in(app)
    async with receiving() as receiver:
        made = await add(browser, HOOK | {"url": receiver.url})
        receiver.status = 500
        expires_ms = app.clock.wall_ms() + 4 * DAY_MS
        assert await sender_of(app).add(New(1, "server.problem", "f", says("Title", "Text"), expires_ms)) == 1
        for _ in range(9):
            await settle(app)
            app.clock.advance(6 * 3600)
        await settle(app)
        (row,) = (await browser("GET", "/api/account/notices?state=failed")).json["data"]
        assert (row["channel"], row["attempts"], row["last_error"]) == (made["id"], 7, "HTTP 500")
        assert (row["title"], row["kind"]) == ("Title", "server.problem")
        ids = {one.headers["webhook-id"] for one in receiver.received}
        assert (len(receiver.received), len(ids)) == (7, 1)
        receiver.status = 200
        assert (await browser("POST", f"/api/account/notices/{row['number']}/send")).status == 202
        await settle(app)
        assert receiver.received[-1].headers["webhook-id"] in ids
        (row,) = (await browser("GET", "/api/account/notices?state=sent")).json["data"]
        assert (row["attempts"], row["last_error"]) == (1, None)
        again = await browser("POST", f"/api/account/notices/{row['number']}/send")
        assert (again.status, again.json["error"]["code"]) == (404, "unknown_notice")
    for query in ("state=lost", "state=sent&state=sent", "other=1"):
        assert (await browser("GET", f"/api/account/notices?{query}")).status == 400
    for number in ("x", "9" * 30, "0"):
        assert (await browser("POST", f"/api/account/notices/{number}/send")).status == 404


async def test_a_notice_is_stored_in_the_language_of_each_channel(make_app: MakeApp) -> None:
    app = await make_app(notify_networks=LOOPBACK)
    browser = await logged_in(app)
    made = [await add(browser, {"kind": "feed", "name": code, "language": code}) for code in ("de", "fr")]
    made.append(await add(browser, {"kind": "feed", "name": "default"}))
    assert [one["language"] for one in made] == ["de", "fr", "en"]
    for one in made:
        assert (await browser("POST", f"{CHANNELS}/{one['id']}/test")).json["data"]["ok"]
    titles = [one["title"] for one in (await browser("GET", "/api/account/notices")).json["data"]]
    assert sorted(titles) == ["Test de Tally", "Test from Tally", "Test von Tally"]
    answer = await browser("PATCH", f"{CHANNELS}/{made[0]['id']}", {"language": "es"})
    assert (answer.status, answer.json["data"]["language"]) == (200, "es")
    for bad in ("it", "", None, 5, ["de"]):
        answer = await browser("PATCH", f"{CHANNELS}/{made[0]['id']}", {"language": bad})
        assert (answer.status, answer.json["error"]["field"]) == (400, "language")


async def test_a_token_is_not_sent_to_another_host(app: App) -> None:
    """Who changes the URL of a channel has not seen its token."""
    browser = await logged_in(app)
    one = f"{CHANNELS}/{(await add(browser, NTFY))['id']}"

    def stored() -> dict[str, str]:
        return dict(json.loads(app.sql("select config from channel")[0][0]))

    refused = await browser("PATCH", one, {"url": "https://other.example"})
    assert (refused.status, refused.json["error"]["field"]) == (400, "token")
    assert (stored()["url"], stored()["token"]) == (NTFY["url"], NTFY["token"])
    # The same host, a token of its own, and none.
    for sent, expected in (
        ({"url": "https://ntfy.example.com/path"}, "tk_abc"),
        ({"url": "https://other.example", "token": "tk_other"}, "tk_other"),
        ({"url": "https://third.example", "token": None}, None),
        ({"url": "https://ntfy.example"}, None),
    ):
        assert (await browser("PATCH", one, sent)).status == 200, sent
        assert (stored().get("token"), stored()["url"]) == (expected, sent["url"])
