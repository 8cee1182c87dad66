"""/api/account: setup, the account, its API keys, websites and share links."""

import asyncio
import re
import time
from codecs import BOM_UTF8
from typing import Any

import pytest

from tally.accounts import passwords
from tally.accounts.accounts import set_password_hash
from tally.accounts.api_keys import MAX_KEYS
from tally.accounts.sign_in import TRIES_A_MINUTE
from tally.accounts.websites import MAX_WEBSITES
from tally.api.auth import AUTH
from tally.api.websites import MAX_ORIGINS
from tally.events.validation import TRAFFIC_TYPES, TYPES
from tally.resources import tally_version
from tests.support.app import OWNER, Answer, App, MakeApp
from tests.support.page_client import LINK, PASSWORD, PageClient, account, logged_in
from tests.support.process import Command, Serve

PAGE = {"type": "pageview", "url": "https://example.com/a"}


def refused(answer: Answer, status: int, code: str, field: str | None = None) -> None:
    assert (answer.status, answer.json["ok"], answer.json["error"]["code"]) == (status, False, code), answer.text
    assert answer.json["error"].get("field") == field
    assert answer.headers["Cache-Control"] == "no-store"


# --- first run


def token(app: App) -> str:
    return str(app.application[AUTH].setup_token)


def setup_header(setup_token: str) -> dict[str, str | None]:
    """Return the header that carries the setup token; it is not in the path, because proxies log paths."""
    return {"Setup-Token": setup_token}


async def test_setup_creates_the_first_account(app: App) -> None:
    """Setup creates the first account and logs in; `needs_setup` is true while no account has a password."""
    browser = PageClient(app)
    assert (await browser("GET", "/api/account/state")).json["data"] == {
        "logged_in": False,
        "needs_setup": True,
        "demo": False,
        "password_login": True,
        "single_sign_on": None,
        "passkeys": False,
        "refused": None,
    }
    answer = await browser("GET", "/api/account/setup", headers=setup_header(token(app)))
    assert (answer.status, answer.json) == (200, {"data": {"email": None}})
    sent = {"token": token(app), "email": " ann@example.com ", "password": PASSWORD}
    answer = await browser("POST", "/api/account/setup", sent)
    assert answer.status == 201
    assert (answer.json["data"]["email"], answer.json["data"]["plan"]) == ("ann@example.com", "business")
    assert (await browser("GET", "/api/account/state")).json["data"] == {
        "logged_in": True,
        "needs_setup": False,
        "demo": False,
        "password_login": True,
        "single_sign_on": None,
        "passkeys": False,
        "refused": None,
    }
    assert (await PageClient(app).log_in("ann@example.com")).status == 200
    stored = app.sql("select password_hash from person")[0][0]
    assert stored.startswith("$argon2id$")


async def test_the_setup_link_works_once(app: App) -> None:
    """A used or wrong link is answered 404 `unknown_setup_link`, also for the second of two requests sent at once."""
    used = token(app)
    sent = [{"token": used, "email": f"{name}@example.com", "password": PASSWORD} for name in ("a", "b")]
    answers = await asyncio.gather(*(PageClient(app)("POST", "/api/account/setup", one) for one in sent))
    assert sorted(answer.status for answer in answers) == [201, 404]
    assert app.sql("select count(*) from account") == [(1,)]
    refused(await PageClient(app)("GET", "/api/account/setup", headers=setup_header(used)), 404, "unknown_setup_link")
    refused(await PageClient(app)("POST", "/api/account/setup", sent[0]), 404, "unknown_setup_link")
    await app.restart()
    refused(
        await PageClient(app)("GET", "/api/account/setup", headers=setup_header(token(app))),
        404,
        "unknown_setup_link",
    )


async def test_setup_replaces_the_local_address(app: App) -> None:
    """The email of the setup replaces `owner@localhost`."""
    website = await app.website(account="owner@localhost")
    browser = PageClient(app)
    answer = await browser("GET", "/api/account/setup", headers=setup_header(token(app)))
    assert answer.json["data"]["email"] is None
    sent = {"token": token(app), "email": "ann@example.com", "password": PASSWORD}
    assert (await browser("POST", "/api/account/setup", sent)).json["data"]["email"] == "ann@example.com"
    assert [one["id"] for one in (await browser("GET", "/api/account/websites")).json["data"]] == [website]
    assert app.sql("select email from person") == [("ann@example.com",)]


async def test_setup_keeps_an_existing_address(app: App) -> None:
    """The setup of an account with an address sets its password only; the email sent is ignored."""
    await app.website(account="ann@example.com", plan="pro")
    answer = await PageClient(app)("GET", "/api/account/setup", headers=setup_header(token(app)))
    assert answer.json["data"]["email"] == "ann@example.com"
    sent = {"token": token(app), "email": "eve@example.com", "password": PASSWORD}
    answer = await PageClient(app)("POST", "/api/account/setup", sent)
    assert (answer.json["data"]["email"], answer.json["data"]["plan"]) == ("ann@example.com", "pro")


async def test_a_password_set_by_the_command_line_invalidates_the_setup_link(app: App) -> None:
    await account(app)
    refused(
        await PageClient(app)("GET", "/api/account/setup", headers=setup_header(token(app))),
        404,
        "unknown_setup_link",
    )
    sent = {"token": token(app), "email": "eve@example.com", "password": PASSWORD}
    refused(await PageClient(app)("POST", "/api/account/setup", sent), 404, "unknown_setup_link")


@pytest.mark.parametrize("given", ["", "x", "\u00e4", "%00", "%ED%A0%80"])
async def test_wrong_setup_tokens_are_refused(app: App, given: str) -> None:
    refused(await PageClient(app)("GET", "/api/account/setup", headers=setup_header(given)), 404, "unknown_setup_link")
    refused(await PageClient(app)("GET", "/api/account/setup"), 404, "unknown_setup_link")


async def test_setup_attempts_are_limited_by_address(app: App) -> None:
    for _ in range(TRIES_A_MINUTE):
        refused(
            await PageClient(app)("GET", "/api/account/setup", headers=setup_header("x")), 404, "unknown_setup_link"
        )
    refused(await PageClient(app)("GET", "/api/account/setup", headers=setup_header(token(app))), 429, "rate_limited")
    other = PageClient(app, ip="198.51.100.9")
    for _ in range(2 * TRIES_A_MINUTE):
        assert (await other("GET", "/api/account/setup", headers=setup_header(token(app)))).status == 200


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"email": "no address"}, "email"),
        ({"email": 5}, "email"),
        ({"email": ""}, "email"),
        ({"password": "123456789"}, "password"),
        ({"password": "x" * 201}, "password"),
        ({"password": None}, "password"),
        ({"token": None}, "token"),
        ({"more": 1}, "more"),
    ],
)
async def test_invalid_setups(app: App, changed: dict[str, Any], field: str) -> None:
    """The password has 10 to 200 characters, otherwise 400 `invalid_field` with the field password."""
    sent = {"token": token(app), "email": "ann@example.com", "password": PASSWORD} | changed
    refused(await PageClient(app)("POST", "/api/account/setup", sent), 400, "invalid_field", field)
    assert app.sql("select count(*) from account") == [(0,)]


def test_the_setup_link_is_printed_to_standard_error(serve: Serve, command: Command) -> None:
    """The server prints `set up Tally: BASE_URL/setup#TOKEN` to standard error with a new token at each start, until an
    account has a password."""
    links = []
    for arguments, place in ((("--base-url", "https://stats.example.com"), "https://stats.example.com"), ((), None)):
        server = serve(*arguments)
        (line,) = [line for line in server.stderr().splitlines() if "/setup#" in line]
        assert line.startswith(f"set up Tally: {place or server.url}/setup#")
        links.append(line.partition("#")[2])
        found = server.request(
            "GET", "/api/account/setup", headers={"Sec-Fetch-Site": "none", "Setup-Token": links[-1]}
        )
        assert found.status == 200
        server.terminate()
    assert len(links[0]) >= 32
    assert links[0] != links[1]
    command("account", "create", "ann@example.com", "--password-stdin", stdin=PASSWORD)
    assert "/setup#" not in serve().stderr()


# --- the account


async def test_the_account(make_app: MakeApp) -> None:
    app = await make_app(pro_events=500, base_url="https://stats.example.com")
    browser = await logged_in(app, plan="pro")
    website = await app.website()
    await app.collect(PAGE | {"website_id": website})
    answer = await browser("GET", "/api/account")
    assert answer.headers["Cache-Control"] == "no-store"
    data = answer.json["data"]
    version = data.pop("version")
    assert version == tally_version()
    changes = await browser("GET", "/api/account/changelog")
    assert (changes.status, changes.headers["Content-Type"]) == (200, "text/plain; charset=utf-8")
    assert re.search(rf"^## {re.escape(version.partition('+')[0])}", changes.text, re.MULTILINE)
    assert data == {
        "id": 1,
        "name": OWNER,
        "email": OWNER,
        "role": "owner",
        "people": 1,
        "accounts": [{"id": 1, "name": OWNER, "role": "owner"}],
        "plan": "pro",
        "time_zone": None,
        "events_this_month": 1,
        "events_limit": 500,
        "usage_warning": None,
        "disk_is_low": False,
        "month_ends_at": "2026-12-01T00:00:00.000+00:00",
        "has_keys": True,
        "base_url": "https://stats.example.com",
        "demo": False,
        "signed_in_by": "session",
        "logout_url": None,
        "single_sign_on": None,
        "requires_second_factor": False,
        "second_factor": None,
        "passkeys": 0,
        "password_login": True,
    }


async def test_a_plan_changed_by_the_command_line_applies(app: App) -> None:
    browser = await logged_in(app)
    assert (await browser("GET", "/api/account")).json["data"]["events_limit"] is None
    await account(app, plan="free")
    data = (await browser("GET", "/api/account")).json["data"]
    assert (data["plan"], data["has_keys"], data["events_limit"]) == ("free", False, 100_000)


async def test_the_time_zone(app: App) -> None:
    """The time zone is an IANA name, or null for that of the browser; it is stored."""
    browser = await logged_in(app)
    answer = await browser("PATCH", "/api/account", {"time_zone": "Asia/Kathmandu"})
    assert answer.json["data"]["time_zone"] == "Asia/Kathmandu"
    await app.restart()
    assert (await browser("GET", "/api/account")).json["data"]["time_zone"] == "Asia/Kathmandu"
    assert (await browser("PATCH", "/api/account", {})).json["data"]["time_zone"] == "Asia/Kathmandu"
    assert (await browser("PATCH", "/api/account", {"time_zone": None})).json["data"]["time_zone"] is None


@pytest.mark.parametrize(
    "name", ["", "Europe", "europe/berlin", "../../etc/passwd", "Mars/Base", 5, ["UTC"], "x" * 9_000]
)
async def test_invalid_time_zones(app: App, name: Any) -> None:
    browser = await logged_in(app)
    refused(await browser("PATCH", "/api/account", {"time_zone": name}), 400, "invalid_field", "time_zone")


@pytest.mark.parametrize("new", ["123456789", "x" * 201, 5, None])
async def test_invalid_new_passwords(app: App, new: Any) -> None:
    browser = await logged_in(app)
    answer = await browser("POST", "/api/account/password", {"current": PASSWORD, "new": new})
    refused(answer, 400, "invalid_field", "new" if new in (5, None) else "password")


async def test_a_new_password_ends_all_sessions(app: App) -> None:
    """All sessions end, including one with a copy of this browser's cookie; this browser gets a new cookie."""
    browser, other = await logged_in(app), PageClient(app)
    copied = PageClient(app)
    copied.cookies = dict(browser.cookies)
    assert (await other.log_in()).status == 200
    answer = await browser("POST", "/api/account/password", {"current": PASSWORD, "new": "another horse battery"})
    assert answer.status == 204
    assert (await browser("GET", "/api/account")).status == 200
    assert [(await one("GET", "/api/account")).status for one in (copied, other)] == [401, 401]
    assert (await PageClient(app).log_in(password="another horse battery")).status == 200


@pytest.mark.parametrize("revoked", ["keys", "share-links"])
async def test_all_keys_or_all_share_links_are_revoked(app: App, revoked: str) -> None:
    """Those of other accounts are kept, and so is what was not asked for."""
    browser, other = await logged_in(app), await logged_in(app, "other@example.com")
    is_valid_after: dict[str, bool] = {}
    for one, email in ((browser, OWNER), (other, "other@example.com")):
        for domain in (f"a.{email[:5]}.com", f"b.{email[:5]}.com"):
            website = await app.website(domain, email)
            link = (await one("POST", f"/api/account/websites/{website}/share-links", LINK)).json["data"]["path"]
            is_valid_after[f"/api{link}"] = one is other or revoked == "keys"
        for name in ("report", "export"):
            key = (await one("POST", "/api/account/keys", {"name": name})).json["data"]["value"]
            is_valid_after[key] = one is other or revoked == "share-links"
    for _ in range(2):
        assert (await browser("DELETE", f"/api/account/{revoked}")).status == 204
    for credential, is_valid in is_valid_after.items():
        if credential.startswith("/"):
            assert (await PageClient(app)("GET", credential)).status == (200 if is_valid else 404)
        else:
            assert (await app.get("/api/v1/websites", credential)).status == (200 if is_valid else 401)


async def test_a_password_set_during_a_change_is_kept(app: App) -> None:
    """A change with the old password fails if the password is set by the command line meanwhile."""
    browser = await logged_in(app)
    number, hashing = await account(app), app.application[AUTH].hashing
    reset = passwords.hashed("set by the owner")

    async def slow(do: Any, *what: Any, **more: Any) -> Any:
        result = await hashing(do, *what, **more)
        if do is passwords.hashed:
            await app.admin(lambda connection: set_password_hash(connection, number, reset))
        return result

    app.application[AUTH].hashing = slow
    answer = await browser("POST", "/api/account/password", {"current": PASSWORD, "new": "chosen by the other"})
    refused(answer, 403, "wrong_password", "current")
    assert app.sql("select password_hash from person") == [(reset,)]


async def test_requests_of_an_ended_session_are_refused(app: App) -> None:
    """The session is checked again when the body is complete, since a body may arrive slowly."""
    browser = await logged_in(app)
    cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    body = b'{"name": "late"}'
    reader, writer = await asyncio.open_connection(app.client.host, app.client.port)
    head = (
        "POST /api/account/keys HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nConnection: close\r\n"
        f"Sec-Fetch-Site: same-origin\r\nCookie: {cookie}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    writer.write(head.encode() + body[:5])
    await writer.drain()
    assert (await browser("POST", "/api/account/logout-everywhere")).status == 204
    writer.write(body[5:])
    answer = await reader.read()
    writer.close()
    assert answer.startswith(b"HTTP/1.1 401 ")
    assert app.sql("select count(*) from api_key") == [(0,)]


async def test_cross_site_requests_are_refused(app: App) -> None:
    """Another site's page cannot learn from a response that the user is logged in."""
    browser = await logged_in(app)
    answer = await browser("GET", "/api/account", headers={"Sec-Fetch-Site": "cross-site"})
    refused(answer, 403, "cross_site")
    for fetch_site in ("none", None):
        assert (await browser("GET", "/api/account", headers={"Sec-Fetch-Site": fetch_site})).status == 200


# --- bodies


@pytest.mark.parametrize(
    ("body", "kind", "status", "code"),
    [
        (b"{}", "text/plain", 415, "unsupported_media_type"),
        (b"{}", None, 415, "unsupported_media_type"),
        (b"email=a&password=b", "application/x-www-form-urlencoded", 415, "unsupported_media_type"),
        (b"{", "application/json", 400, "invalid_json"),
        (b"", "application/json", 400, "invalid_json"),
        (b'{"email": "\xff"}', "application/json", 400, "invalid_json"),
        (b"[]", "application/json", 400, "invalid_body"),
        (b'"x"', "application/json", 400, "invalid_body"),
        (b"{}", "application/json; charset=utf-8", 400, "invalid_field"),
        (b'{"email": "a@b.c", "password": "' + b"x" * 70_000 + b'"}', "application/json", 413, "body_too_large"),
    ],
    ids=str,
)
async def test_a_body_is_a_json_object(app: App, body: bytes, kind: str | None, status: int, code: str) -> None:
    """The body must be `application/json`, which a form on another site cannot send; otherwise 415."""
    answer = await PageClient(app)("POST", "/api/account/login", body, headers={"Content-Type": kind})
    assert (answer.status, answer.json["error"]["code"]) == (status, code)


async def test_a_content_type_of_many_parameters_takes_little_time(app: App) -> None:
    """Parsing 14,000 of them took 2 s, before any limit of attempts."""

    async def seconds(parameters: int) -> float:
        begun = time.process_time()
        for number in range(10):
            kind = {"Content-Type": f"application/json; a={number}{';' * parameters}"}
            answer = await PageClient(app)("POST", "/api/account/login", b"{}", headers=kind)
            assert answer.json["error"]["code"] == "invalid_field"
        return time.process_time() - begun

    assert await seconds(14_000) < 10 * await seconds(1)


# --- API keys


async def test_a_key_is_created_used_and_revoked(app: App) -> None:
    browser = await logged_in(app)
    website = await app.website()
    assert (await browser("GET", "/api/account/keys")).json == {"data": []}
    created = await browser("POST", "/api/account/keys", {"name": " laptop "})
    assert created.status == 201
    key = created.json["data"]
    value = key.pop("value")
    assert value.startswith(key["prefix"])
    assert (key["name"], key["last_used_at"], key["created_at"]) == ("laptop", None, "2026-11-18T12:00:00.000+00:00")
    assert (await app.get(f"/api/v1/websites/{website}/stats", value)).status == 200
    app.clock.advance(61)
    await app.node.tick()
    await app.restart()
    (listed,) = (await browser("GET", "/api/account/keys")).json["data"]
    assert listed == key | {"last_used_at": "2026-11-18T12:00:00.000+00:00"}
    assert (await browser("DELETE", f"/api/account/keys/{key['id']}")).status == 204
    assert (await app.get(f"/api/v1/websites/{website}/stats", value)).status == 401
    refused(await browser("DELETE", f"/api/account/keys/{key['id']}"), 404, "unknown_key")
    assert (await browser("GET", "/api/account/keys")).json == {"data": []}


async def test_an_account_has_at_most_100_keys(app: App, command: Command) -> None:
    """By the page and by the command; other accounts are not affected."""
    owner, other = await logged_in(app), await logged_in(app, "other@example.com")
    for number in range(MAX_KEYS):
        assert (await owner("POST", "/api/account/keys", {"name": f"key {number}"})).status == 201
    full = await owner("POST", "/api/account/keys", {"name": "one more"})
    assert (full.status, full.json["error"]["code"]) == (409, "too_many_keys")
    done = await asyncio.to_thread(command, "key", "create", "--name", "x", "--account", OWNER, "--db", str(app.db))
    assert (done.returncode, "has 100 API keys" in done.stderr) == (1, True)
    assert (await other("POST", "/api/account/keys", {"name": "first"})).status == 201
    first = (await owner("GET", "/api/account/keys")).json["data"][0]["id"]
    assert (await owner("DELETE", f"/api/account/keys/{first}")).status == 204
    assert (await owner("POST", "/api/account/keys", {"name": "one more"})).status == 201


async def test_an_account_has_at_most_1000_websites(app: App, command: Command) -> None:
    owner, other = await logged_in(app), await logged_in(app, "other@example.com")
    copies = (
        "with recursive n(i) as (select 1 union all select i + 1 from n where i < ?)"
        " insert into website (number, id, account, domain, name, created_ms)"
        " select i, printf('00000000-0000-4000-8000-%012x', i), 1, printf('%d.example.com', i), '', 0 from n"
    )
    await app.admin(lambda connection: connection.execute(copies, (MAX_WEBSITES - 1,)))
    new = {"domain": "example.org"}
    assert (await owner("POST", "/api/account/websites", new)).status == 201
    full = await owner("POST", "/api/account/websites", new | {"again": True})
    assert (full.status, full.json["error"]["code"]) == (409, "too_many_websites")
    words = ("website", "add", "example.net", "--account", OWNER, "--db", str(app.db))
    done = await asyncio.to_thread(command, *words)
    assert (done.returncode, "has 1,000 websites" in done.stderr) == (1, True)
    assert (await other("POST", "/api/account/websites", new)).status == 201


async def test_the_free_plan_has_no_keys(app: App) -> None:
    browser = await logged_in(app, plan="free")
    refused(await browser("POST", "/api/account/keys", {"name": "laptop"}), 403, "plan_has_no_keys")
    assert app.sql("select count(*) from api_key") == [(0,)]


@pytest.mark.parametrize("name", [5, None, "x" * 101, "two\nlines", "\0"])
async def test_invalid_key_names(app: App, name: Any) -> None:
    browser = await logged_in(app)
    refused(await browser("POST", "/api/account/keys", {"name": name}), 400, "invalid_field", "name")


@pytest.mark.parametrize("number", ["0", "-1", "x", "1e0", "\u0661", "9" * 30, "1%20"])
async def test_unknown_key_numbers(app: App, number: str) -> None:
    browser = await logged_in(app)
    await browser("POST", "/api/account/keys", {"name": ""})
    refused(await browser("DELETE", f"/api/account/keys/{number}"), 404, "unknown_key")


async def test_keys_of_other_accounts_are_neither_listed_nor_revoked(app: App) -> None:
    owner, other = await logged_in(app), await logged_in(app, "other@example.com")
    number = (await owner("POST", "/api/account/keys", {"name": "mine"})).json["data"]["id"]
    assert (await other("GET", "/api/account/keys")).json == {"data": []}
    refused(await other("DELETE", f"/api/account/keys/{number}"), 404, "unknown_key")
    assert len((await owner("GET", "/api/account/keys")).json["data"]) == 1


# --- websites


async def test_a_new_website_accepts_events_at_once(app: App) -> None:
    browser = await logged_in(app)
    answer = await browser("POST", "/api/account/websites", {"domain": "https://www.Example.com/about"})
    assert answer.status == 201
    website = answer.json["data"]
    assert website | {"id": ""} == {
        "id": "",
        "name": "example.com",
        "time_zone": None,
        "day_offset_minutes": 0,
        "week_start": "monday",
        "currency": None,
        "path_rules": [],
        "domain": "example.com",
        "created_at": "2026-11-18T12:00:00.000+00:00",
        "origins": [],
        "share_links": [],
        "events": 0,
        "events_exact": True,
    }
    notes = {note["code"]: note for note in answer.json["meta"]["notes"]}
    assert notes["www_dropped"]["values"] == {"domain": "example.com", "typed": "www.example.com"}
    assert "www." in notes["www_dropped"]["message"]
    page = PAGE | {"website_id": website["id"]}
    assert (await app.collect(page, headers={"Origin": "https://shop.example.com"})).status == 202
    assert (await app.collect({"type": "event", "event_name": "x", "website_id": website["id"]})).status == 202
    assert (await browser("GET", "/api/account/websites")).json["data"] == [website | {"events": 2, "account": 1}]


async def test_event_counts_are_current(app: App) -> None:
    """The count is refreshed after each change of the website."""
    browser = await logged_in(app)
    website = await app.website()

    async def events() -> int:
        return int((await browser("GET", "/api/account/websites")).json["data"][0]["events"])

    for views in (99_999, 1):
        await app.admin(
            lambda connection, views=views: connection.execute(
                "insert into total_15m values (1, ?, ?, 0, 0, 0, 0, 0, 0, 0, 0)", (views, views)
            )
        )
    assert await events() == 100_000
    for expected in (100_001, 100_002):
        assert (await app.collect(PAGE | {"website_id": website})).status == 202
        assert await events() == expected


@pytest.mark.parametrize("domain", ["", "co.uk", "a b", "ann@example.com", "exa_mple..com", "x" * 3_000, 5, None])
async def test_invalid_domains_have_the_message_of_the_command(app: App, command: Command, domain: Any) -> None:
    """400 `invalid_field` with the field domain and the message of the command line."""
    browser = await logged_in(app)
    answer = await browser("POST", "/api/account/websites", {"domain": domain})
    refused(answer, 400, "invalid_field", "domain")
    if isinstance(domain, str) and 0 < len(domain) < 100:
        done = await asyncio.to_thread(command, "website", "add", domain)
        assert answer.json["error"]["message"] in done.stderr
    website = await app.website()
    refused(
        await browser("PATCH", f"/api/account/websites/{website}", {"domain": domain}), 400, "invalid_field", "domain"
    )


async def test_a_changed_website_applies_at_once(app: App) -> None:
    """New domains and origins apply to events as soon as the request is answered."""
    browser = await logged_in(app)
    path = f"/api/account/websites/{(website := await app.website())}"
    page, native = PAGE | {"website_id": website}, {"Origin": "capacitor://localhost"}
    assert (await app.collect(page, headers=native)).status == 403
    answer = await browser("PATCH", path, {"origins": ["CAPACITOR://localhost", "https://app.example.net:443"]})
    assert answer.json["data"]["origins"] == ["capacitor://localhost", "https://app.example.net"]
    assert answer.json["data"]["name"] == "example.com"
    assert (await app.collect(page, headers=native)).status == 202
    answer = await browser("PATCH", path, {"domain": "Example.ORG", "origins": []})
    # The name was the domain, and follows it.
    assert (answer.json["data"]["domain"], answer.json["data"]["name"]) == ("example.org", "example.org")
    assert (await app.collect(page, headers=native)).status == 403
    assert (await app.collect(page, headers={"Origin": "https://example.com"})).status == 403
    assert (await app.collect(page, headers={"Origin": "https://example.org"})).status == 202
    answer = await browser("PATCH", path, {"name": "The shop"})
    assert (await browser("PATCH", path, {"domain": "shop.example"})).json["data"]["name"] == "The shop"
    await app.restart()
    (listed,) = (await browser("GET", "/api/account/websites")).json["data"]
    assert (listed["name"], listed["domain"], listed["origins"]) == ("The shop", "shop.example", [])


@pytest.mark.parametrize(
    ("sent", "field"),
    [
        ({"name": "x" * 101}, "name"),
        ({"name": "a\tb"}, "name"),
        ({"name": 5}, "name"),
        ({"origins": "https://a.example"}, "origins"),
        ({"origins": [5]}, "origins"),
        ({"origins": ["a.example"]}, "origins"),
        ({"origins": ["https://a.example/path"]}, "origins"),
        ({"origins": ["https://a.example"] * (MAX_ORIGINS + 1)}, "origins"),
        ({"id": "x"}, "id"),
    ],
)
async def test_invalid_changes_of_a_website(app: App, sent: dict[str, Any], field: str) -> None:
    browser = await logged_in(app)
    website = await app.website()
    before = app.sql("select * from website")
    refused(await browser("PATCH", f"/api/account/websites/{website}", sent), 400, "invalid_field", field)
    assert app.sql("select * from website") == before


async def test_a_domain_is_added_once(app: App) -> None:
    """A second website with the same domain needs `again`; websites of other accounts do not count."""
    browser = await logged_in(app)
    first = (await browser("POST", "/api/account/websites", {"domain": "example.com"})).json["data"]["id"]
    again = await browser("POST", "/api/account/websites", {"domain": "https://www.example.com/pricing"})
    refused(again, 409, "website_exists", "domain")
    assert first in again.json["error"]["message"]
    assert again.json["website_id"] == first
    assert len((await browser("GET", "/api/account/websites")).json["data"]) == 1
    invalid = await browser("POST", "/api/account/websites", {"domain": "example.com", "again": 1})
    refused(invalid, 400, "invalid_field", "again")
    second_website = await browser("POST", "/api/account/websites", {"domain": "example.com", "again": True})
    assert second_website.status == 201
    assert second_website.json["data"]["id"] != first
    other = await logged_in(app, "other@example.com")
    assert (await other("POST", "/api/account/websites", {"domain": "example.com"})).status == 201


async def test_a_domain_of_another_website_is_refused_in_a_change(app: App) -> None:
    browser = await logged_in(app)
    first = (await browser("POST", "/api/account/websites", {"domain": "example.com"})).json["data"]["id"]
    second = (await browser("POST", "/api/account/websites", {"domain": "example.org"})).json["data"]["id"]
    path = f"/api/account/websites/{second}"
    taken = await browser("PATCH", path, {"domain": "www.example.com"})
    refused(taken, 409, "website_exists", "domain")
    assert taken.json["website_id"] == first
    refused(await browser("PATCH", path, {"domain": "example.com", "again": "yes"}), 400, "invalid_field", "again")
    assert (await browser("PATCH", path, {"domain": "example.org", "name": "Shop"})).status == 200
    second_website = await browser("PATCH", path, {"domain": "example.com", "again": True})
    assert (second_website.status, second_website.json["data"]["domain"]) == (200, "example.com")
    # A website can keep its domain although another one has it.
    assert (await browser("PATCH", path, {"domain": "example.com"})).status == 200


# --- share links


async def test_share_links_work_until_they_are_revoked(app: App) -> None:
    """POST adds a link with a name; each has an address of its own; DELETE revokes one, and no other."""
    browser, visitor = await logged_in(app), PageClient(app, ip="198.51.100.7")
    website = await app.website()
    path = f"/api/account/websites/{website}/share-links"
    await browser("PATCH", "/api/account", {"time_zone": "Asia/Tokyo"})
    first = (await browser("POST", path, {"name": "Customers"})).json["data"]
    app.clock.advance(1)
    second = (await browser("POST", path, {"name": " Team "})).json["data"]
    assert len(second["path"].removeprefix("/share/")) == 24
    assert (first["name"], second["name"]) == ("Customers", "Team")
    shown = await visitor("GET", f"/api{second['path']}")
    assert shown.json["data"] == {
        "name": "example.com",
        "domain": "example.com",
        "time_zone": "Asia/Tokyo",
        "day_offset_minutes": 0,
        "demo": False,
        "filters": {},
        "hides_events": True,
    }
    assert shown.headers["Cache-Control"] == "no-store"
    assert (await browser("GET", "/api/account/websites")).json["data"][0]["share_links"] == [first, second]
    await app.restart()
    assert (await visitor("GET", f"/api{second['path']}")).status == 200
    assert (await browser("DELETE", f"{path}/{second['id']}")).status == 204
    refused(await browser("DELETE", f"{path}/{second['id']}"), 404, "unknown_share_link")
    refused(await visitor("GET", f"/api{second['path']}"), 404, "unknown_share_link")
    refused(await visitor("GET", f"/api{second['path']}/stats"), 404, "unknown_share_link")
    assert (await visitor("GET", f"/api{first['path']}")).status == 200
    assert app.sql("select name from share_link") == [("Customers",)]


# Not from FIELDS: whether links show a new dimension is decided here.
SHOWN_BY_LINK = {
    *("id", "type", "timestamp", "pathname", "referrer", "country", "browser", "os", "device", "language", "hostname"),
    *("utm_source", "utm_medium", "utm_campaign", "utm_content", "utm_term", "platform", "app_version", "os_version"),
    *("browser_version", "region", "city", "channel", "event_name"),
}
SECRETS = ("4711", "canary")


async def test_downloads_of_pages_have_a_byte_order_mark(app: App) -> None:
    """Excel opens them, by a session and by a share link; a program that sends a key gets none."""
    browser, visitor, website, key = await logged_in(app), PageClient(app), await app.website(), await app.key()
    await app.collect({"type": "pageview", "website_id": website, "url": "https://example.com/über"})
    link = (await browser("POST", f"/api/account/websites/{website}/share-links", LINK)).json["data"]["path"]
    for what in ("top/pathname", "events", "timeseries"):
        plain = await app.get(f"/api/v1/websites/{website}/{what}?format=csv", key)
        assert plain.body[:3] != BOM_UTF8
        own = await browser("GET", f"/api/account/websites/{website}/{what}?format=csv")
        shared = await visitor("GET", f"/api{link}/{what}?format=csv")
        assert own.body == BOM_UTF8 + plain.body, what
        assert shared.body[:3] == BOM_UTF8 != shared.body[3:6]


async def test_a_share_link_returns_traffic_only(app: App) -> None:
    """A share link returns pageviews and events only, without event_data, value, goal, experiment, variant, vitals and
    visit: as JSON, as CSV, on further pages, and with any filters."""
    browser, visitor = await logged_in(app), PageClient(app)
    website = await app.website()
    url = "https://example.com/shop"
    for sent in (
        {"type": "pageview", "url": url, "event_id": "view-1"},
        {"type": "leave", "url": url, "event_id": "view-1", "time_on_page": 1471, "scroll_depth": 100},
        {"type": "event", "event_name": "order", "url": url, "event_data": {"canary": 4711}},
        {"type": "screen_view", "name": "Home"},
        {"type": "app_event", "event_name": "tap"},
        {"type": "vitals", "url": url, "vitals": {"lcp": 4711}},
        {"type": "ab_assign", "url": url, "experiment": "canary-x", "variant": "canary-v", "session_id": "12345678"},
        {
            **{"type": "ab_convert", "url": url, "experiment": "canary-x", "variant": "canary-v"},
            **{"goal": "canary-g", "value": 4711, "session_id": "12345678"},
        },
    ):
        assert (await app.collect(sent | {"website_id": website})).status == 202
    link = (await browser("POST", f"/api/account/websites/{website}/share-links", LINK)).json["data"]["path"]
    own = await browser("GET", f"/api/account/websites/{website}/events")
    assert {row["type"] for row in own.json["data"]} == {*TYPES} - {"heatmap"}
    assert all(secret in own.text for secret in SECRETS)
    shared = await visitor("GET", f"/api{link}/events")
    traffic = [row for row in own.json["data"] if row["type"] in TRAFFIC_TYPES]
    assert shared.json["data"] == [{name: row[name] for name in row if name in SHOWN_BY_LINK} for row in traffic]
    assert [{*row} for row in shared.json["data"]] == [SHOWN_BY_LINK] * 4
    assert own.headers["ETag"] != shared.headers["ETag"]
    again = await visitor("GET", f"/api{link}/events", headers={"If-None-Match": own.headers["ETag"]})
    assert again.status == 200
    csv = await visitor("GET", f"/api{link}/events?format=csv")
    assert {*csv.text.removeprefix("\ufeff").splitlines()[0].split(",")} == SHOWN_BY_LINK
    paged, following = [], ""
    while following is not None:
        answer = await visitor("GET", f"/api{link}/events?limit=1{following and '&cursor=' + following}")
        paged += answer.json["data"]
        following = answer.json["meta"]["next_cursor"]
    assert paged == shared.json["data"]
    for answer in (shared, csv, await visitor("GET", f"/api{link}/realtime")):
        assert not [secret for secret in SECRETS if secret in answer.text]


@pytest.mark.parametrize("endpoint", ["stats", "timeseries", "top/pathname", "events", "event-names", "entry-pages"])
async def test_filter_types_of_share_links(app: App, endpoint: str) -> None:
    """`filter_type` accepts the types that a share link returns; the owner may use all types."""
    browser, visitor = await logged_in(app), PageClient(app)
    website = await app.website()
    link = (await browser("POST", f"/api/account/websites/{website}/share-links", LINK)).json["data"]["path"]
    for type_ in TYPES:
        query = f"{endpoint}?filter_type={type_}"
        assert (await browser("GET", f"/api/account/websites/{website}/{query}")).status == 200
        answer = await visitor("GET", f"/api{link}/{query}")
        assert answer.status == (200 if type_ in TRAFFIC_TYPES else 400), type_
        if answer.status == 400:
            assert answer.json["error"]["field"] == "filter_type"
            assert "ab_convert" not in answer.json["error"]["message"]


# --- responses of the read API

QUERIES = (
    "stats?compare=previous",
    "timeseries?interval=hour&tz=Asia/Kathmandu",
    "top/pathname?limit=3",
    "events?limit=2",
    "realtime",
    "stats?filter_browser=Chrome",
    "timeseries?format=csv",
    "stats?nonsense=1",
    "top/nonsense",
)


@pytest.mark.parametrize("query", QUERIES)
async def test_responses_equal_those_of_the_read_api(app: App, query: str) -> None:
    """Sessions and share links use the handlers, parameters, responses, ETags and CSV of the read API."""
    browser, visitor = await logged_in(app), PageClient(app)
    website, key = await app.website(), await app.key()
    for path in "abc":
        await app.collect({"type": "pageview", "url": f"https://example.com/{path}", "website_id": website})
    link = (await browser("POST", f"/api/account/websites/{website}/share-links", LINK)).json["data"]["path"]
    by_key = await app.get(f"/api/v1/websites/{website}/{query}", key)
    by_session = await browser("GET", f"/api/account/websites/{website}/{query}")
    by_link = await visitor("GET", f"/api{link}/{query}")
    assert by_key.status == by_session.status == by_link.status
    # Downloads of the pages begin with a byte order mark (docs/reference/account-api.md).
    mark = b"\xef\xbb\xbf" if by_key.headers["Content-Type"].startswith("text/csv") else b""
    assert mark + by_key.body == by_session.body
    if not query.startswith("events"):  # test_a_link_shows_traffic_alone
        assert mark + by_key.body == by_link.body
    assert by_key.headers["Access-Control-Allow-Origin"] == "*"
    for answer, vary in ((by_session, "Accept, Cookie"), (by_link, "Accept")):
        assert not [name for name in answer.headers if name.lower().startswith("access-control")]
        assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
        if answer.status == 200:
            assert answer.headers["Cache-Control"] == "private, no-cache"
            assert answer.headers["Vary"] == vary
    if by_session.status == 200:
        assert by_session.headers["ETag"] == by_key.headers["ETag"]
        tag = {"If-None-Match": by_session.headers["ETag"]}
        again = await browser("GET", f"/api/account/websites/{website}/{query}", headers=tag)
        assert (again.status, again.headers["Vary"]) == (304, "Accept, Cookie")
        await browser("POST", "/api/account/logout")
        refused(await browser("GET", f"/api/account/websites/{website}/{query}", headers=tag), 401, "not_logged_in")


async def test_paging_of_events_by_cursor(app: App) -> None:
    browser = await logged_in(app)
    website = await app.website()
    for _ in range(3):
        await app.collect(PAGE | {"website_id": website})
    path = f"/api/account/websites/{website}/events?limit=2"
    first = (await browser("GET", path)).json
    second = (await browser("GET", f"{path}&cursor={first['meta']['next_cursor']}")).json
    assert (len(first["data"]), len(second["data"])) == (2, 1)
    link = (await browser("GET", f"{path}&format=csv")).headers["Link"]
    assert link.startswith(f"</api/account/websites/{website}/events?")


async def test_requests_are_limited(make_app: MakeApp) -> None:
    """Requests per minute are limited as for keys: by account for sessions, by address for share links."""
    app = await make_app(key_per_minute=3)
    browser, visitor = await logged_in(app), PageClient(app)
    website = await app.website()
    link = (await browser("POST", f"/api/account/websites/{website}/share-links", LINK)).json["data"]["path"]
    for client, path in ((browser, f"/api/account/websites/{website}"), (visitor, f"/api{link}")):
        assert [(await client("GET", f"{path}/stats")).status for _ in range(4)] == [200, 200, 200, 429]
    assert (await PageClient(app, ip="198.51.100.3")("GET", f"/api{link}/stats")).status == 200
