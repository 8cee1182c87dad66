"""Lines of the audit log in the server's log, and the line of a key that reads single events."""

import asyncio
import json
import logging
import sqlite3
from collections.abc import Callable
from typing import Any

import pytest

from tally.accounts.api_keys import Grant
from tally.accounts.audit import MAX_SINGLY, MORE, Entry, by_command, record
from tally.maintenance.audit_log import AuditLog
from tally.timestamps import HOUR_MS
from tally.web import components
from tests.support.app import OWNER, App, MakeApp, wait_until
from tests.support.page_client import PASSWORD, logged_in
from tests.support.process import Serve

Logged = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> Logged:
    """Return a function that returns the fields of what was logged as `audit`."""
    monkeypatch.setattr(components, "TICK_S", 0.02)
    caplog.set_level(logging.INFO, "tally")
    return lambda: [vars(one)["fields"] for one in caplog.records if one.getMessage() == "audit"]


async def wait_for(number: int, logged: Logged) -> list[dict[str, Any]]:
    """Return the fields of what is logged, once there are so many lines."""
    await wait_until(lambda: len(logged()) >= number)
    # Nothing more follows.
    await asyncio.sleep(0.1)
    return logged()


async def test_each_line_is_logged_once(make_app: MakeApp, logged: Logged) -> None:
    app = await make_app()
    browser = await logged_in(app)
    made = await browser("POST", "/api/account/keys", {"name": "wall"})
    await app.admin(lambda connection: record(connection, by_command(1), Entry("plan_changed"), app.clock.wall_ms()))
    lines = await wait_for(3, logged)
    assert [(one["action"], one["actor"], one["via"], one["account"]) for one in lines] == [
        ("sign_in", OWNER, "session", 1),
        ("key_created", OWNER, "session", 1),
        ("plan_changed", "command line", "cli", 1),
    ]
    assert json.loads(lines[0]["detail"]) == {"by": "password"}
    texts = json.dumps(lines)
    assert made.json["data"]["value"] not in texts
    assert PASSWORD not in texts
    assert browser.ip not in texts
    # What was logged is not logged again by the next start.
    await app.restart()
    await browser.log_in()
    assert [one["action"] for one in (await wait_for(4, logged))[3:]] == ["sign_in"]


async def test_the_last_call_may_come_while_another_one_reads(
    make_app: MakeApp, logged: Logged, caplog: pytest.LogCaptureFixture
) -> None:
    app = await make_app()
    await logged_in(app)
    await wait_for(1, logged)
    caplog.clear()
    audit_log = AuditLog(app.database, app.clock, 0)
    await asyncio.gather(audit_log.write(), audit_log.write(is_last=True))
    assert [one["action"] for one in logged()] == ["sign_in"]


async def test_a_change_that_is_not_committed_is_not_logged(make_app: MakeApp, logged: Logged) -> None:
    app = await make_app()
    await logged_in(app)
    await wait_for(1, logged)
    connection = sqlite3.connect(app.db, isolation_level=None)
    connection.execute("begin immediate")
    record(connection, by_command(1), Entry("plan_changed"), app.clock.wall_ms())
    await asyncio.sleep(0.1)
    connection.execute("rollback")
    connection.close()
    assert [one["action"] for one in await wait_for(1, logged)] == ["sign_in"]


async def test_many_changes_of_a_second_are_logged_with_their_number(make_app: MakeApp, logged: Logged) -> None:
    app = await make_app()
    await logged_in(app)
    app.clock.advance(1)

    def add(connection: sqlite3.Connection) -> None:
        for _ in range(MAX_SINGLY + 3):
            record(connection, by_command(1), Entry("plan_changed"), app.clock.wall_ms())

    await app.admin(add)
    assert len(await wait_for(MAX_SINGLY + 1, logged)) == MAX_SINGLY + 1
    app.clock.advance(1)
    last = (await wait_for(MAX_SINGLY + 2, logged))[-1]
    assert (last["action"], json.loads(last["detail"])) == (MORE, {"plan_changed": 3})


async def test_filters_of_a_deletion_are_not_logged(make_app: MakeApp, logged: Logged) -> None:
    """They may have what visitors have sent, such as an address in a path."""
    app = await make_app()
    detail = {"events": 1, "filters": ["filter_pathname=/ann@example.com"]}
    entry = Entry("events_deleted", detail=detail)
    await app.admin(lambda connection: record(connection, by_command(1), entry, app.clock.wall_ms()))
    (line,) = await wait_for(1, logged)
    assert json.loads(line["detail"]) == {"events": 1}


async def test_numbers_that_begin_again(make_app: MakeApp, logged: Logged) -> None:
    """Once all lines have expired."""
    app = await make_app()
    browser = await logged_in(app)
    await browser("POST", "/api/account/keys", {"name": "wall"})
    await wait_for(2, logged)
    await app.admin(lambda connection: connection.execute("delete from audit"))
    await browser("POST", "/api/account/keys", {"name": "door"})
    assert [one["target"] for one in (await wait_for(3, logged))[2:]] == ["door"]


def test_the_log_of_a_process(serve: Serve) -> None:
    """Also what was written just before its end."""
    for days in ("400", "30"):
        server = serve("--log-format", "json", "--audit-days", days)
        assert server.terminate() == 0
    lines = [json.loads(line) for line in server.stderr().splitlines() if '"audit"' in line]
    assert [(one["level"], one["actor"], one["action"], one["detail"]) for one in lines] == [
        ("info", "server", "settings_changed", '{"settings": ["audit_days"]}')
    ]


# --- reading single events by a key


async def reads(app: App) -> list[tuple[Any, ...]]:
    return app.sql("select actor, via, website, target from audit where action = 'events_read' order by number")


async def test_a_key_that_reads_single_events_has_a_line_an_hour(make_app: MakeApp) -> None:
    app = await make_app()
    first, second, key = await app.website("a.example"), await app.website("b.example"), await app.key()
    prefix = app.sql("select prefix from api_key")[0][0]

    async def read(website: str, report: str = "events") -> int:
        return (await app.get(f"/api/v1/websites/{website}/{report}?period=7d", key)).status

    for website in (first, first, second):
        assert await read(website) == 200
    assert await read(first, "stats") == 200
    expected = [(prefix, "key", first, "a.example"), (prefix, "key", second, "b.example")]
    assert await reads(app) == expected
    app.clock.advance(HOUR_MS // 1000)
    assert await read(first) == 200
    assert await reads(app) == [*expected, expected[0]]


async def test_a_key_without_the_scope_has_no_line(make_app: MakeApp) -> None:
    app = await make_app()
    website, key = await app.website(), await app.key(grant=Grant(("reports",)))
    assert (await app.get(f"/api/v1/websites/{website}/events?period=7d", key)).status == 403
    other = await app.key("other@example.com")
    assert (await app.get(f"/api/v1/websites/{website}/events?period=7d", other)).status == 404
    assert await reads(app) == []


async def test_an_assistant_that_reads_single_events_has_a_line(make_app: MakeApp) -> None:
    app = await make_app()
    website, key = await app.website(), await app.key()
    for tool in ("list_single_events", "get_stats", "list_single_events"):
        call = {"name": tool, "arguments": {"website": "example.com"}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
        answer = await app.collect(message, path="/mcp", headers={"Authorization": f"Bearer {key}"})
        assert answer.json["result"].get("isError") is not True, answer.text
    assert [row[2] for row in await reads(app)] == [website]


async def test_events_are_read_while_no_line_can_be_written(make_app: MakeApp) -> None:
    app = await make_app()
    website, key = await app.website(), await app.key()
    path = f"/api/v1/websites/{website}/events?period=7d"
    await app.database.writer.run(lambda connection: connection.execute("pragma busy_timeout = 50"))
    other = sqlite3.connect(app.db, isolation_level=None)
    other.execute("begin immediate")
    assert (await app.get(path, key)).status == 200
    other.execute("rollback")
    other.close()
    assert await reads(app) == []
    while not app.database.health.is_writable:
        await asyncio.sleep(0.05)
    assert (await app.get(path, key)).status == 200
    assert len(await reads(app)) == 1
