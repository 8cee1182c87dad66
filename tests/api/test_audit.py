"""The audit log: a line for each change, in the transaction of the change, without a secret."""

import asyncio
import csv
import io
import json
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyotp
import pytest

from tally.accounts import audit
from tally.accounts.accounts import find_account
from tally.accounts.api_keys import delete_api_keys
from tally.accounts.audit import MAX_SINGLY, MORE, Entry, audited, by_command, record
from tally.storage import meta
from tally.storage.database import VERSION
from tally.timestamps import DAY_MS
from tally.web import components
from tests.support.app import OWNER, App, MakeApp
from tests.support.page_client import LINK, PASSWORD, PageClient, logged_in

FACTOR = "/api/account/second-factor"
ANNOTATION = {"from": "2026-11-20", "text": "Launch"}


async def lines(browser: PageClient, query: str = "") -> list[dict[str, Any]]:
    """Return the lines of the log, newest first."""
    answer = await browser("GET", f"/api/account/audit{query}")
    assert answer.status == 200, answer.text
    found: list[dict[str, Any]] = answer.json["data"]
    return found


async def test_each_change_has_one_line_and_reads_have_none(app: App) -> None:
    """Every route of the account that changes something, in an order in which each succeeds."""
    website, browser = await app.website(), await logged_in(app)
    one = f"/api/account/websites/{website}"
    assert [line["action"] for line in await lines(browser)] == ["sign_in"]
    key = await browser("POST", "/api/account/keys", {"name": "wall"})
    made = await browser("POST", f"{one}/annotations", ANNOTATION)
    other = (await browser("POST", "/api/account/websites", {"domain": "new.example"})).json["data"]["id"]
    link = (await browser("POST", f"{one}/share-links", LINK)).json["data"]["id"]
    definition, number = made.json["data"]["id"], key.json["data"]["id"]
    actions = [line["action"] for line in await lines(browser)][::-1]
    assert actions == ["sign_in", "key_created", "annotation_created", "website_added", "share_link_created"]
    for method, path, body, action in (
        ("PATCH", f"{one}/annotations/{definition}", {"text": "Relaunch"}, "annotation_changed"),
        ("DELETE", f"{one}/annotations/{definition}", None, "annotation_deleted"),
        ("PATCH", one, {"name": "Shop", "currency": "EUR"}, "website_changed"),
        ("PATCH", f"{one}/exclusions", {"addresses": ["203.0.113.9"]}, "exclusions_changed"),
        ("PATCH", f"{one}/share-links/{link}", {"badges": True}, "share_link_changed"),
        ("DELETE", f"{one}/share-links/{link}", None, "share_link_revoked"),
        ("DELETE", f"/api/account/keys/{number}", None, "key_revoked"),
        ("DELETE", "/api/account/keys", None, "keys_revoked"),
        ("DELETE", "/api/account/share-links", None, "share_links_revoked"),
        ("DELETE", f"/api/account/websites/{other}", {"domain": "new.example"}, "website_deleted"),
    ):
        before = len(await lines(browser))
        assert (await browser("GET", one)).status == 200
        answer = await browser(method, path, body)
        assert answer.status < 300, answer.text
        now = await lines(browser)
        assert (now[0]["action"], len(now)) == (action, before + 1)
        assert (now[0]["actor"], now[0]["via"]) == (OWNER, "session")
    changed = (await lines(browser, "?action=website_changed"))[0]
    assert changed["detail"] == {"name": ["example.com", "Shop"], "currency": [None, "EUR"]}
    assert {line["website_id"] for line in await lines(browser, f"?website={other}")} == {other}


async def test_a_change_that_changes_nothing_has_no_line(app: App) -> None:
    website, browser = await app.website(), await logged_in(app)
    link = f"/api/account/websites/{website}/share-links/{'0' * 16}"
    assert (await browser("DELETE", link)).status == 404
    assert (await browser("PATCH", link, {"badges": True})).status == 404
    assert (await browser("DELETE", "/api/account/keys/9")).status == 404
    assert (await browser("PATCH", f"/api/account/websites/{website}", {"name": "example.com"})).status == 200
    assert [line["action"] for line in await lines(browser)] == ["sign_in"]


async def test_a_failure_after_the_change_leaves_neither(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line is written last; a failure there undoes the change, and one of the change writes no line."""
    browser = await logged_in(app)

    def fail(*args: object) -> None:
        raise sqlite3.OperationalError("planted")

    with monkeypatch.context() as patched:
        patched.setattr(audit, "record", fail)
        assert (await browser("POST", "/api/account/keys", {"name": "wall"})).status == 503
    assert app.sql("select count(*) from api_key") == [(0,)]
    assert (await browser("POST", "/api/account/keys", {"name": "wall"})).status == 201

    def change_and_fail(connection: sqlite3.Connection) -> None:
        account = find_account(connection, OWNER).number
        both = audited(delete_api_keys, by_command(account), Entry("key_revoked"), 0)
        both(connection, account)
        raise KeyError

    with pytest.raises(KeyError):
        await app.admin(change_and_fail)
    assert app.sql("select (select count(*) from api_key), (select count(*) from audit where via = 'cli')") == [(1, 0)]


async def test_it_has_no_secret_and_no_address(app: App) -> None:
    """What each request has sent or received that must not be stored is searched for in all lines, and in the log."""
    website, browser = await app.website(), await logged_in(app)
    one = f"/api/account/websites/{website}"
    value = (await browser("POST", "/api/account/keys", {"name": "wall"})).json["data"]["value"]
    link = (await browser("POST", f"{one}/share-links", LINK)).json["data"]
    token = link["path"].rpartition("/")[2]
    link_password, new_password, wrong = "a password of the link", "another long password", "a wrong long password"
    changes = {"password": link_password, "new_address": True}
    other = (await browser("PATCH", f"{one}/share-links/{link['id']}", changes)).json["data"]["path"].rpartition("/")[2]
    assert (await browser("PATCH", f"{one}/exclusions", {"addresses": ["203.0.113.9"]})).status == 200
    invited = await browser("POST", "/api/account/invitations", {"email": "ann@example.com", "role": "viewer"})
    invitation = invited.json["data"]["link"].rpartition("#")[2]
    begun = (await browser("POST", f"{FACTOR}/begin", {"password": PASSWORD})).json["data"]
    totp = pyotp.TOTP(begun["secret"])
    first = totp.at(app.clock.wall_ms() // 1_000)
    codes = (await browser("POST", f"{FACTOR}/confirm", {"code": first})).json["data"]["codes"]
    cookies = [*browser.cookies.values()]
    sent = {"email": OWNER, "password": PASSWORD, "code": codes[0]}
    assert (await browser("POST", "/api/account/login", sent)).status == 200
    assert (await browser("POST", "/api/account/login", sent)).status == 401
    assert (await browser("POST", "/api/account/login", sent | {"password": wrong})).status == 401
    changed = await browser("POST", "/api/account/password", {"current": PASSWORD, "new": new_password})
    assert changed.status == 204
    stored = json.dumps(app.sql("select * from audit"))
    rows = app.sql("select password_hash from person union select password_hash from share_link")
    digests = [row[0].hex() for row in app.sql("select digest from recovery_code union select digest from login")]
    passwords = [PASSWORD, link_password, new_password, wrong, *(row[0] for row in rows)]
    tokens = [value, value[12:], token, other, invitation, *cookies, *browser.cookies.values()]
    factors = [begun["secret"], first, *codes, *(code.replace("-", "") for code in codes), *digests]
    for secret in (*passwords, *tokens, *factors, browser.ip, "203.0.113.9", "Mozilla"):
        assert secret not in stored
    actions = {line["action"] for line in await lines(browser)}
    assert actions >= {"password_changed", "recovery_code_used", "sign_in_refused", "second_factor_set"}


async def test_a_share_link_is_named(app: App) -> None:
    website, browser = await app.website(), await logged_in(app)
    one = f"/api/account/websites/{website}/share-links"
    link = (await browser("POST", one, LINK)).json["data"]["id"]
    await browser("PATCH", f"{one}/{link}", {"name": "Investors", "new_address": True})
    await browser("DELETE", f"{one}/{link}")
    found = [(line["action"], line["target"], line["detail"]) for line in await lines(browser, f"?website={website}")]
    assert found == [
        ("share_link_revoked", "Investors", {}),
        ("share_link_changed", "Readers", {"options": ["name", "new_address"]}),
        ("share_link_created", "Readers", {}),
    ]


async def test_single_events_as_a_file_have_a_line(app: App) -> None:
    """Lists of events on the pages, other reports as files and refused requests have none."""
    website, browser = await app.website(), await logged_in(app)
    one = f"/api/account/websites/{website}"
    for path, status in (
        ("events?period=7d", 200),
        ("top/pathname?period=7d&format=csv", 200),
        ("events?period=9x&format=csv", 400),
    ):
        assert (await browser("GET", f"{one}/{path}")).status == status
    assert [line["action"] for line in await lines(browser)] == ["sign_in"]
    exported = await browser("GET", f"{one}/events?period=7d&format=csv")
    assert exported.status == 200
    again = await browser(
        "GET", f"{one}/events?period=7d&format=csv", headers={"If-None-Match": exported.headers["ETag"]}
    )
    assert again.status == 304
    found = [(line["action"], line["website_id"], line["detail"]) for line in await lines(browser)]
    assert found == [("events_exported", website, {"format": "csv"}), ("sign_in", None, {"by": "password"})]


async def test_many_changes_in_a_second_are_counted_in_one_line(app: App) -> None:
    website, browser = await app.website(), await logged_in(app)
    app.clock.advance(1)
    path = f"/api/account/websites/{website}/annotations"
    made = [(await browser("POST", path, ANNOTATION)).json["data"]["id"] for _ in range(MAX_SINGLY + 3)]
    for definition in made[:2]:
        assert (await browser("DELETE", f"{path}/{definition}")).status == 204
    other = await logged_in(app, "other@example.com", ip="198.51.100.2")
    assert [line["action"] for line in await lines(other)] == ["sign_in"]
    shown = await lines(browser)
    assert (shown[0]["action"], shown[0]["detail"]) == (MORE, {"annotation_created": 3, "annotation_deleted": 2})
    assert [line["action"] for line in shown[1:]] == ["annotation_created"] * MAX_SINGLY + ["sign_in"]
    # The next second is another one, and so is another actor.
    await app.admin(lambda connection: record(connection, by_command(1), Entry("plan_changed"), app.clock.wall_ms()))
    app.clock.advance(1)
    assert (await browser("POST", path, ANNOTATION)).status == 201
    assert [line["action"] for line in await lines(browser)][:3] == ["annotation_created", "plan_changed", MORE]


async def test_an_expired_key_has_one_line(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    browser = await logged_in(app)
    for name, days in (("wall", 1), ("report", 2), ("other", None)):
        await browser("POST", "/api/account/keys", {"name": name, "expires_days": days})
    monkeypatch.setattr(components, "AUDIT_PAUSE_S", 0.02)
    for wanted in (["wall"], ["report", "wall"]):
        app.clock.advance(DAY_MS // 1_000)
        await app.restart()
        await browser.log_in()
        for _ in range(500):
            expired = await lines(browser, "?action=key_expired")
            if len(expired) == len(wanted):
                break
            await asyncio.sleep(0.02)
        # Again, after the pause, nothing more.
        await asyncio.sleep(0.1)
        expired = await lines(browser, "?action=key_expired")
        assert [line["target"].partition(" ")[2] for line in expired] == wanted
        assert {(line["actor"], line["via"]) for line in expired} == {("server", "system")}


async def restarted(app: App) -> None:
    """Restart, and wait for the writer's first step."""
    await app.restart()
    await app.registry.refresh()


async def test_a_start_with_other_settings_names_them(make_app: MakeApp) -> None:
    """Their values, which may be secrets, are in no line and in no row."""
    token = "a-token-of-the-metrics"
    app = await make_app()
    browser = await logged_in(app)
    await restarted(app)
    assert app.sql("select action from audit where account is null") == []
    app.settings = replace(app.settings, metrics_token=token, audit_days=30)
    await restarted(app)
    await restarted(app)
    where = "from audit where account is null"
    assert app.sql(f"select actor, via, action, detail {where}") == [
        ("server", "system", "settings_changed", '{"settings": ["audit_days", "metrics_token"]}')
    ]
    assert token not in json.dumps(app.sql("select value from meta"))
    # An account's people do not see what concerns the server.
    assert {line["action"] for line in await lines(browser)} == {"sign_in"}

    def as_before_an_upgrade(connection: sqlite3.Connection) -> None:
        meta.write(connection, meta.START, meta.read(connection, meta.START) | {"schema": VERSION - 1})

    await app.admin(as_before_an_upgrade)
    await restarted(app)
    assert app.sql(f"select action, detail {where} order by number desc limit 1") == [
        ("database_upgraded", f'{{"schema": [{VERSION - 1}, {VERSION}]}}')
    ]


async def test_a_backup_that_fails_has_one_line(make_app: MakeApp, tmp_path: Path) -> None:
    """Further attempts of the same failure have none."""
    directory = tmp_path / "backups"
    directory.mkdir()
    app = await make_app(backup_dir=directory)
    backup = app.running.backup
    for _ in range(500):
        if backup.made:
            break
        await app.node.tick()
    directory.rename(tmp_path / "away")
    for failed in (1, 2):
        app.clock.advance(DAY_MS // 1_000)
        for _ in range(500):
            await app.node.tick()
            if backup.failed == failed:
                break
            await asyncio.sleep(0.02)
        await app.node.tick()
    assert app.sql("select actor, action, target from audit where account is null") == [
        ("server", "backup_failed", "nightly backup")
    ]


async def test_an_account_sees_its_lines_alone(app: App) -> None:
    browser, other = await logged_in(app), await logged_in(app, "other@example.com", ip="198.51.100.2")
    await browser("POST", "/api/account/keys", {"name": "wall"})
    assert [line["action"] for line in await lines(other)] == ["sign_in"]
    assert {line["actor"] for line in await lines(other)} == {"other@example.com"}


async def test_pages_of_lines_and_invalid_parameters(app: App) -> None:
    browser = await logged_in(app)
    for name in ("a", "b", "c"):
        await browser("POST", "/api/account/keys", {"name": name})
    first = await lines(browser, "?limit=2")
    rest = await lines(browser, f"?before={first[-1]['number']}")
    assert [line["target"] for line in first + rest] == ["c", "b", "a", ""]
    for query, field in (
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("before=x", "before"),
        ("before=%D9%A1", "before"),
        ("limit=1&limit=2", "limit"),
        ("owner=1", "owner"),
        ("format=xml", "format"),
    ):
        answer = await browser("GET", f"/api/account/audit?{query}")
        assert (answer.status, answer.json["error"]["field"]) == (400, field), query
    # Text that no column has, with quotes: nothing is found.
    assert await lines(browser, "?action=%27%20or%201") == []


async def test_no_request_changes_or_deletes_lines(app: App) -> None:
    browser = await logged_in(app)
    for method in ("POST", "PATCH", "DELETE", "PUT"):
        assert (await browser(method, "/api/account/audit", {})).status == 405
    assert len(await lines(browser)) == 1


async def test_expired_lines_are_deleted(make_app: MakeApp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(components, "AUDIT_PAUSE_S", 0.02)
    app = await make_app(audit_days=30)
    browser = await logged_in(app)
    account = app.sql("select number from account")[0][0]
    kept_ms = app.clock.wall_ms() - 30 * DAY_MS

    def add(connection: sqlite3.Connection) -> None:
        record(connection, by_command(account), Entry("kept"), kept_ms)
        # More than one transaction deletes.
        for at in range(1_001):
            record(connection, by_command(account), Entry("old"), kept_ms - 1 - at * 1_000)

    await app.admin(add)
    for _ in range(500):
        if all(line["action"] != "old" for line in await lines(browser)):
            break
        await asyncio.sleep(0.02)
    assert [line["action"] for line in await lines(browser)] == ["kept", "sign_in"]


async def test_lines_are_kept_without_limit(make_app: MakeApp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(components, "AUDIT_PAUSE_S", 0.02)
    app = await make_app(audit_days=0)
    browser = await logged_in(app)
    account = app.sql("select number from account")[0][0]
    await app.admin(lambda connection: record(connection, by_command(account), Entry("old"), 0))
    await asyncio.sleep(0.2)
    assert [line["action"] for line in await lines(browser)] == ["old", "sign_in"]


@pytest.mark.parametrize("what", ["key", "website", "annotation", "share"])
async def test_two_deletions_at_once_write_one_line(app: App, what: str) -> None:
    """Both requests know what is to be deleted; the one that is second finds nothing."""
    website, browser = await app.website(), await logged_in(app)
    one = f"/api/account/websites/{website}"
    key = (await browser("POST", "/api/account/keys", {"name": "wall"})).json["data"]["id"]
    annotation = (await browser("POST", f"{one}/annotations", ANNOTATION)).json["data"]["id"]
    link = (await browser("POST", f"{one}/share-links", LINK)).json["data"]["id"]
    paths = {"key": f"/api/account/keys/{key}", "website": one, "share": f"{one}/share-links/{link}"}
    path = paths.get(what, f"{one}/annotations/{annotation}")
    body = {"domain": "example.com"} if what == "website" else None
    before = len(await lines(browser))
    answers = await asyncio.gather(*(browser("DELETE", path, body) for _ in range(4)))
    statuses = sorted(answer.status for answer in answers)
    assert statuses == [202 if what == "website" else 204, 404, 404, 404]
    assert len(await lines(browser)) == before + 1


async def test_lines_as_csv_and_ndjson(app: App) -> None:
    browser = await logged_in(app)
    await browser("POST", "/api/account/keys", {"name": "=1+1"})
    await browser("POST", "/api/account/keys", {"name": 'a "b", ü'})
    shown = await lines(browser)
    each_line = await browser("GET", "/api/account/audit?format=ndjson")
    assert each_line.headers["Content-Type"] == "application/x-ndjson; charset=utf-8"
    assert [json.loads(line) for line in each_line.text.splitlines()] == shown
    table = await browser("GET", "/api/account/audit?format=csv")
    assert table.headers["Content-Type"] == "text/csv; charset=utf-8"
    rows = list(csv.DictReader(io.StringIO(table.text)))
    assert [row["target"] for row in rows] == ['a "b", ü', "'=1+1", ""]
    assert [(int(row["number"]), json.loads(row["detail"])) for row in rows] == [
        (line["number"], line["detail"]) for line in shown
    ]


async def test_lines_of_a_person(app: App) -> None:
    browser = await logged_in(app)
    account, person = app.sql("select account, person from membership")[0]
    await app.admin(lambda connection: record(connection, by_command(account), Entry("old"), 0))
    assert [line["action"] for line in await lines(browser)] == ["old", "sign_in"]
    assert [line["action"] for line in await lines(browser, f"?person={person}")] == ["sign_in"]
    assert await lines(browser, "?person=999") == []


async def test_a_key_that_changes_something_is_named(app: App) -> None:
    website, browser = await app.website(), await logged_in(app)
    sent = {"name": "deploy", "scopes": ["manage"]}
    key = (await browser("POST", "/api/account/keys", sent)).json["data"]
    headers: dict[str, str | None] = {"Authorization": f"Bearer {key['value']}", "Sec-Fetch-Site": None}
    path = f"/api/v1/websites/{website}/annotations"
    assert (await PageClient(app)("POST", path, ANNOTATION, headers)).status == 201
    line = (await lines(browser))[0]
    assert (line["action"], line["actor"], line["via"]) == ("annotation_created", f"{key['prefix']} deploy", "key")
    assert key["value"] not in json.dumps(await lines(browser))
