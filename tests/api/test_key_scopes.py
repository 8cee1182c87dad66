"""What an API key may do: every route for keys with every scope, outside of the key's websites, and after its expiry.

A route that is missing in SCOPE_OF fails a test. Valid requests are those of tests/api/test_authorization.py.
"""

import asyncio
import json
import os
import re
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tally.accounts.api_keys import ALLOWED_BY, Grant, revoke_api_key
from tally.api.definitions import KINDS
from tally.timestamps import DAY_MS
from tally.web.routes import ROUTES
from tests.api.test_authorization import BY_ROUTE, CLIENTS, Scenario
from tests.support.app import OWNER, ROOT, Answer, App, MakeApp
from tests.support.cases import cases
from tests.support.endpoints import ENDPOINTS
from tests.support.page_client import PageClient, account, logged_in

SCOPES = ("reports", "read", "import", "manage")
# The scopes of a key that allow a request, by the scope that the request requires.
ALLOWING: Mapping[str, tuple[str, ...]] = {
    "reports": ("reports", "read", "manage"),
    "read": ("read", "manage"),
    "import": ("import",),
    "manage": ("manage",),
}
SITE = "/api/v1/websites/{id}"
SCOPE_OF = {
    "GET /api/v1/websites": "reports",
    **{f"GET {one.template}": one.scope for one in ENDPOINTS},
    "POST /api/v1/websites": "manage",
    **{f"{method} {SITE}": "manage" for method in ("GET", "PATCH", "DELETE")},
    **{f"{method} {SITE}/exclusions": "manage" for method in ("GET", "PATCH")},
    **{f"{method} {SITE}/share-links": "manage" for method in ("GET", "POST")},
    **{f"{method} {SITE}/share-links/{{link}}": "manage" for method in ("PATCH", "DELETE")},
    **{f"POST {SITE}/{of.path}": "manage" for of in KINDS},
    **{f"{method} {SITE}/{of.path}/{{definition}}": "manage" for of in KINDS for method in ("PATCH", "DELETE")},
    **{f"{method} {SITE}/deletions": "manage" for method in ("GET", "POST")},
    f"POST {SITE}/deletions/preview": "manage",
    f"POST {SITE}/rewrites": "manage",
    f"POST {SITE}/rewrites/preview": "manage",
    f"DELETE {SITE}/deletions/{{number}}": "manage",
    **{f"{method} {SITE}/imports": "import" for method in ("GET", "POST")},
    **{f"{method} {SITE}/imports/upload": "import" for method in ("POST", "PATCH", "DELETE")},
    f"POST {SITE}/imports/{{number}}/undo": "import",
    f"POST {SITE}/crawls": "import",
    **{f"{method} {SITE}/alerts": "manage" for method in ("GET", "POST")},
    **{f"{method} {SITE}/alerts/{{alert}}": "manage" for method in ("PATCH", "DELETE")},
    f"POST {SITE}/alerts/{{alert}}/snooze": "manage",
    f"POST {SITE}/events": "import",
    **{f"{method} /api/v1/channels": "manage" for method in ("GET", "POST")},
    **{f"{method} /api/v1/channels/{{channel}}": "manage" for method in ("PATCH", "DELETE")},
    **{f"{method} /api/v1/reports": "manage" for method in ("GET", "POST")},
    **{f"{method} /api/v1/reports/{{report}}": "manage" for method in ("PATCH", "DELETE")},
    "GET /api/v1/reports/{report}/preview": "manage",
    **{f"POST /api/v1/channels/{{channel}}/{path}": "manage" for path in ("test", "secret")},
    "GET /api/v1/notices": "manage",
    "POST /api/v1/notices/{number}/send": "manage",
}
NAMES = [f"{route.method} {route.path}" for route in ROUTES if f"{route.method} {route.path}" in SCOPE_OF]
REFUSED = [(name, scope) for name in NAMES for scope in SCOPES if scope not in ALLOWING[SCOPE_OF[name]]]
ALLOWED = [(name, scope) for name in NAMES for scope in SCOPES if scope in ALLOWING[SCOPE_OF[name]]]
CHANGES = [name for name in NAMES if SCOPE_OF[name] in ("manage", "import")]
# Of the routes that the pages have in another form.
STATUSES = {f"GET {SITE}/share-links": 200, f"POST {SITE}/crawls": 202, f"POST {SITE}/events": 202}
Send = Callable[..., Awaitable[Answer]]
LATER = "00000000-0000-4000-8000-000000000000"


def test_every_route_has_a_scope() -> None:
    by_key = {f"{one.method} {one.path}" for one in ROUTES if one.path.startswith("/api/v1/")}
    others = {"POST /api/v1/collect", "GET /api/v1/openapi.yaml"}
    assert by_key - others == set(SCOPE_OF), "add the route to SCOPE_OF, and reports to tests/support/endpoints.py"
    assert set(ALLOWED_BY) == set(SCOPES)


@pytest.fixture
async def scenario(make_app: MakeApp) -> Scenario:
    """Return a scenario with high rate limits."""
    scenario = Scenario(await make_app(client_per_minute=9_999, website_per_minute=9_999, key_per_minute=9_999))
    await scenario.fill()
    return scenario


@pytest.fixture
async def key_of(scenario: Scenario) -> Mapping[str, str]:
    """Return a key with each scope alone."""
    return {scope: await scenario.app.key(grant=Grant((scope,))) for scope in SCOPES}


@cases(("name", "scope"), REFUSED)
async def test_a_key_without_the_scope(scenario: Scenario, key_of: Mapping[str, str], name: str, scope: str) -> None:
    answer = await scenario.request_as("key", name, BY_ROUTE[name].body, key_of[scope])
    assert (answer.status, answer.json["error"]["code"]) == (403, "missing_scope"), name
    challenge = f'Bearer realm="Tally", error="insufficient_scope", scope="{SCOPE_OF[name]}"'
    assert answer.headers["WWW-Authenticate"] == challenge
    assert scenario.website not in answer.text
    assert "RateLimit-Limit" in answer.headers


@cases(("name", "scope"), [row for row in ALLOWED if row[0].startswith("GET ")])
async def test_a_key_that_reads(scenario: Scenario, key_of: Mapping[str, str], name: str, scope: str) -> None:
    answer = await scenario.request_as("key", name, BY_ROUTE[name].body, key_of[scope])
    assert answer.status == 200, answer.text


@pytest.mark.parametrize("name", CHANGES)
async def test_a_key_that_changes(scenario: Scenario, name: str) -> None:
    """It is answered as the owner's browser is; one that is limited to the website may do the same."""
    of_pages = BY_ROUTE.get(name.replace("/api/v1", "/api/account"))
    status = STATUSES[name] if of_pages is None else of_pages.statuses[CLIENTS.index("owner")]
    grant = Grant((SCOPE_OF[name],), (scenario.website,) if "{id}" in name else None)
    answer = await scenario.request_as("key", name, BY_ROUTE[name].body, await scenario.app.key(grant=grant))
    assert answer.status == status, answer.text
    assert "Access-Control-Allow-Origin" not in answer.headers
    assert answer.headers["Cache-Control"] == "no-store"
    assert "RateLimit-Limit" in answer.headers


@cases("name", CHANGES)
async def test_no_page_of_another_origin_manages(scenario: Scenario, name: str) -> None:
    """A preflight does not allow the method, and the owner's session does not authorise it."""
    method, _, path = name.partition(" ")
    values = {"id": scenario.website, "definition": scenario.definition, "number": 1, "link": scenario.link}
    values |= {"alert": scenario.alert, "channel": scenario.channel, "report": scenario.report}
    asks: dict[str, str | None] = {"Origin": "https://evil.example", "Access-Control-Request-Method": method}
    preflight = await scenario.owner("OPTIONS", path.format(**values), headers=asks)
    assert preflight.status == 405 or method not in preflight.headers["Access-Control-Allow-Methods"].split(", ")
    answer = await scenario.request_as("owner", name, BY_ROUTE[name].body)
    assert (answer.status, answer.json["error"]["code"]) == (401, "missing_api_key")
    assert "Access-Control-Allow-Origin" not in answer.headers


async def test_scopes_add_up(app: App) -> None:
    website = await app.website()
    key = await app.key(grant=Grant(("import", "reports")))
    statuses = [(await app.get(f"/api/v1/websites/{website}/{path}", key)).status for path in ("stats", "events")]
    assert statuses == [200, 403]


@cases("name", [name for name in NAMES if "{id}" in name])
async def test_websites_outside_of_a_key(scenario: Scenario, name: str) -> None:
    """They are answered as websites that do not exist, whatever the case of the id."""
    second = await scenario.app.website("other.example.org")
    key = await scenario.app.key(grant=Grant(SCOPES, (second,)))
    answers: list[Answer] = []
    for website in (scenario.website, scenario.website.upper(), LATER):
        scenario.website, before = website, scenario.website
        answers.append(await scenario.request_as("key", name, BY_ROUTE[name].body, key))
        scenario.website = before
    assert {(answer.status, answer.body) for answer in answers} == {(404, answers[0].body)}
    assert answers[0].json["error"]["code"] == "unknown_website"


async def test_websites_of_a_key(app: App) -> None:
    """A key lists and reads its own websites alone, also after one of them is deleted."""
    first, second, third = [await app.website(domain) for domain in ("a.example", "b.example", "c.example")]
    browser = await logged_in(app)
    key = await app.key(grant=Grant(("read",), (first, third)))

    async def listed(query: str = "") -> list[str]:
        return [row["id"] for row in (await app.get(f"/api/v1/websites{query}", key)).json["data"]]

    assert await listed() == await listed("?stats=7d") == [first, third]
    statuses = [(await app.get(f"/api/v1/websites/{id}/stats", key)).status for id in (first, first.upper(), second)]
    assert statuses == [200, 200, 404]
    for id, domain in ((first, "a.example"), (third, "c.example")):
        assert (await browser("DELETE", f"/api/account/websites/{id}", {"domain": domain})).status == 202
    assert await listed() == [], "a key without a website is not one for all"


@cases("name", NAMES)
async def test_a_key_that_has_expired(scenario: Scenario, name: str) -> None:
    now_ms = scenario.app.clock.monotonic_wall_ms()
    key = await scenario.app.key(grant=Grant(SCOPES, None, now_ms))
    answer = await scenario.request_as("key", name, BY_ROUTE[name].body, key)
    assert (answer.status, answer.json["error"]["code"]) == (401, "key_expired")
    assert answer.headers["WWW-Authenticate"] == 'Bearer realm="Tally", error="invalid_token"'
    assert "RateLimit-Limit" not in answer.headers


async def test_a_key_expires_while_the_server_runs(app: App) -> None:
    website, browser = await app.website(), await logged_in(app)
    created = (await browser("POST", "/api/account/keys", {"name": "", "expires_days": 1})).json["data"]
    path = f"/api/v1/websites/{website}/stats"
    app.clock.advance(24 * 3_600 - 1)
    assert (await app.get(path, created["value"])).status == 200
    app.clock.advance(1)
    assert (await app.get(path, created["value"])).json["error"]["code"] == "key_expired"
    await app.restart()
    assert (await app.get(path, created["value"])).json["error"]["code"] == "key_expired"
    # It stays in the list until it is revoked.
    assert [row["id"] for row in (await browser("GET", "/api/account/keys")).json["data"]] == [created["id"]]


async def test_keys_as_they_were(app: App) -> None:
    """A key without a scope, websites and an expiry of its own reads all websites and does not expire."""
    await app.key()
    assert app.sql("select scopes, websites, expires_ms from api_key") == [('["read"]', None, None)]
    rows = "insert into api_key (account, name, prefix, digest, created_ms) select account, 'old', '', zeroblob(32), 0"
    await app.admin(lambda connection: connection.execute(f"{rows} from api_key"))
    assert app.registry.cache.keys[bytes(32)].grant == Grant(("read",), None, None)


async def test_a_scope_that_this_release_lacks_allows_nothing(app: App) -> None:
    website = await app.website()
    key = await app.key(grant=Grant(("write",)))
    answer = await app.get(f"/api/v1/websites/{website}/stats", key)
    assert (answer.status, answer.json["error"]["code"]) == (403, "missing_scope")


async def test_a_key_is_created_with_scopes_websites_and_an_expiry(app: App) -> None:
    browser = await logged_in(app)
    website = await app.website()
    sent = {"name": "wall", "scopes": ["reports", "import", "reports"], "websites": [website], "expires_days": 365}
    created = (await browser("POST", "/api/account/keys", sent)).json["data"]
    expected = {"scopes": ["reports", "import"], "websites": [website], "expires_at": "2027-11-18T12:00:00.000+00:00"}
    assert created.items() >= expected.items()
    (listed,) = (await browser("GET", "/api/account/keys")).json["data"]
    assert listed == {name: value for name, value in created.items() if name != "value"}
    default = (await browser("POST", "/api/account/keys", {"name": "default"})).json["data"]
    assert default.items() >= {"scopes": ["read"], "websites": None, "expires_at": None}.items()
    assert app.registry.key(default["value"]).grant.expires_ms is None
    assert app.registry.key(created["value"]).grant.expires_ms == app.clock.wall_ms() + 365 * DAY_MS


INVALID: list[tuple[str, Any]] = [
    *(("scopes", value) for value in (None, [], "read", ["write"], [1], [["read"]], {"read": True}, ["read", None])),
    *(("websites", value) for value in ([], "all", [LATER], [1], [None], [["x"]], {}, 0, ["x" * 5_000])),
    *(("expires_days", value) for value in (0, -1, 3_651, 1.5, "1", True, [], 10**30)),
]


@cases(("field", "value"), INVALID)
async def test_invalid_fields(app: App, field: str, value: Any) -> None:
    browser = await logged_in(app)
    answer = await browser("POST", "/api/account/keys", {"name": "", field: value})
    assert (answer.status, answer.json["error"]["code"], answer.json["error"]["field"]) == (400, "invalid_field", field)
    assert len(answer.text) < 300
    assert app.sql("select count(*) from api_key") == [(0,)]


async def test_a_key_is_not_limited_to_websites_of_another_account(app: App) -> None:
    browser = await logged_in(app)
    own, foreign = await app.website(), await app.website("other.example", "other@example.com")
    answer = await browser("POST", "/api/account/keys", {"name": "", "websites": [own, foreign]})
    assert (answer.status, answer.json["error"]["field"]) == (400, "websites")
    # Nor does one that is stored so reach it.
    key = await app.key(OWNER, grant=Grant(SCOPES, (foreign,)))
    assert (await app.get(f"/api/v1/websites/{foreign}/stats", key)).status == 404
    assert (await app.get("/api/v1/websites", key)).json["data"] == []
    assert (await PageClient(app)("GET", "/api/account/keys")).status == 401


# --- the management API


@pytest.fixture
async def managing(app: App) -> Callable[..., Awaitable[Answer]]:
    """Return a function that sends requests with a key that manages the account."""
    await account(app)
    key = await app.key(grant=Grant(("manage",)))

    async def send(method: str, path: str, body: Any = None, own: str = key) -> Answer:
        return await PageClient(app)(
            method, f"/api/v1/websites{path}", body, headers={"Authorization": f"Bearer {own}"}
        )

    return send


async def test_a_program_that_provisions_a_website(managing: Send, app: App) -> None:
    created = await managing("POST", "", {"domain": "www.example.com", "name": "Shop"})
    assert created.status == 201
    id = created.json["data"]["id"]
    assert created.json["meta"]["notes"] != []
    again = await managing("POST", "", {"domain": "example.com"})
    assert (again.status, again.json["error"]["code"], again.json["website_id"]) == (409, "website_exists", id)
    changed = await managing("PATCH", f"/{id}", {"time_zone": "Europe/Berlin"})
    assert (
        changed.json["data"].items() >= {"name": "Shop", "time_zone": "Europe/Berlin", "domain": "example.com"}.items()
    )
    assert (await managing("GET", f"/{id}")).json["data"]["time_zone"] == "Europe/Berlin"
    await managing("PATCH", f"/{id}/exclusions", {"countries": ["de"]})
    assert (await managing("GET", f"/{id}/exclusions")).json["data"]["countries"][0]["value"] == "DE"
    goal = await managing("POST", f"/{id}/goals", {"name": "Signup", "type": "event", "match": ["filter_event_name=s"]})
    assert [one["id"] for one in (await managing("GET", f"/{id}/goals")).json["data"]] == [goal.json["data"]["id"]]
    browser = await logged_in(app)
    assert [one["id"] for one in (await browser("GET", "/api/account/websites")).json["data"]] == [id]


async def test_a_deploy_marks_itself_on_the_chart(managing: Send, app: App) -> None:
    website, browser = await app.website(), await logged_in(app)
    sent = {"from": "2026-11-18T12:00:00Z", "text": "Deploy 4f2c1a9"}
    assert (await managing("POST", f"/{website}/annotations", sent)).status == 201
    (shown,) = (await browser("GET", f"/api/account/websites/{website}/annotations")).json["data"]
    assert (shown["text"], shown["from"]) == ("Deploy 4f2c1a9", "2026-11-18T12:00:00.000+00:00")
    refused = await managing("POST", f"/{website}/annotations", {"text": "x"})
    assert (refused.status, refused.json["error"]["field"]) == (400, "from")


async def test_each_change_has_a_line_of_the_audit_log(managing: Send, app: App) -> None:
    """With the key as the actor, its prefix and its name."""
    browser = await logged_in(app)
    sent = {"name": "deploys", "scopes": ["manage"]}
    key = (await browser("POST", "/api/account/keys", sent)).json["data"]
    own, before = key["value"], len((await browser("GET", "/api/account/audit")).json["data"])
    id = (await managing("POST", "", {"domain": "example.com"}, own)).json["data"]["id"]
    requests: list[tuple[str, str, Any, str]] = [
        ("PATCH", f"/{id}", {"name": "Shop"}, "website_changed"),
        ("POST", f"/{id}/annotations", {"from": "2026-11-20", "text": "Launch"}, "annotation_created"),
        ("PATCH", f"/{id}/exclusions", {"countries": ["DE"]}, "exclusions_changed"),
        ("POST", f"/{id}/share-links", {"name": "Readers"}, "share_link_created"),
        ("PATCH", f"/{id}/share-links/{{link}}", {"hide_events": True}, "share_link_changed"),
        ("DELETE", f"/{id}/share-links/{{link}}", None, "share_link_revoked"),
        ("DELETE", f"/{id}", {"domain": "example.com"}, "website_deleted"),
    ]
    link = ""
    for method, path, body, action in requests:
        answer = await managing(method, path.format(link=link), body, own)
        assert answer.status < 300
        link = answer.json["data"]["id"] if action == "share_link_created" else link
    found = (await browser("GET", "/api/account/audit")).json["data"][::-1]
    assert [line["action"] for line in found[before:]] == ["website_added", *(action for *_, action in requests)]
    actors = {(line["actor"], line["via"]) for line in found[before:]}
    assert actors == {(f"{key['prefix']} deploys", "key")}
    assert own not in json.dumps(found)
    assert found[before - 1]["detail"]["scopes"] == ["manage"]


async def test_the_line_of_a_deployment(app: App, tmp_path: Path) -> None:
    """The first command in docs/reference/management-api.md, run in a repository."""
    page = (ROOT / "docs" / "reference" / "management-api.md").read_text()
    (line,) = re.findall(r"^```bash\n(curl .*)\n```", page, re.MULTILINE)
    website = await app.website()
    key = await app.key(grant=Grant(("manage",), (website,)))
    names = {"TALLY_URL": str(app.client.make_url("")).rstrip("/"), "TALLY_KEY": key, "WEBSITE": website}
    commit = "git init -q . && git -c user.name=a -c user.email=a@b.c commit -q --allow-empty -m first"
    process = await asyncio.create_subprocess_exec(
        *("bash", "-ec", f"{commit}\n{line}"), cwd=tmp_path, env=os.environ | names, stdout=subprocess.PIPE
    )
    out, _ = await process.communicate()
    assert process.returncode == 0
    ((content,),) = app.sql("select content from definition")
    assert json.loads(out)["data"].items() >= json.loads(content).items()
    assert re.fullmatch(r"Deploy [0-9a-f]{7,}", json.loads(content)["text"])


async def test_a_website_is_deleted_with_its_domain_alone(managing: Send, app: App) -> None:
    website = await app.website()
    for body in ({}, {"domain": "other.example"}, {"domain": None}, {"domain": website}):
        refused = await managing("DELETE", f"/{website}", body)
        assert (refused.status, refused.json["error"]["field"]) == (400, "domain")
    assert (await managing("DELETE", f"/{website}")).status == 415
    assert (await managing("GET", f"/{website}")).status == 200
    assert (await managing("DELETE", f"/{website}", {"domain": "example.com"})).status == 202
    assert (await managing("GET", f"/{website}")).status == 404


async def test_share_links_by_a_key(managing: Send, app: App) -> None:
    """A link is created with its options, never without them; a change keeps what is not sent."""
    path = f"/{await app.website()}/share-links"
    assert (await managing("GET", path)).json["data"] == []
    for invalid in ({"password": "short"}, {"filters": ["filter_nothing=1"]}, {"title": "x"}, {"name": " "}):
        assert (await managing("POST", path, {"name": "Customers"} | invalid)).status == 400
    assert app.sql("select count(*) from share_link") == [(0,)]
    sent = {"name": "Customers", "password": "a long passphrase", "badges": True}
    made = await managing("POST", path, sent)
    first = made.json["data"]
    assert (made.status, first["name"], first["has_password"], first["badges"]) == (201, "Customers", True, True)
    assert first["hide_events"] is True
    assert (await PageClient(app)("GET", f"/api{first['path']}")).status == 401
    second = (await managing("PATCH", f"{path}/{first['id']}", {"hide_events": False})).json["data"]
    assert second == first | {"hide_events": False}
    assert (await managing("GET", path)).json["data"] == [second]
    assert (await managing("DELETE", f"{path}/{first['id']}")).status == 204
    assert (await PageClient(app)("GET", f"/api{first['path']}")).status == 404


async def test_a_limited_key_neither_adds_websites_nor_learns_of_others(managing: Send, app: App) -> None:
    own, other = await app.website("a.example"), await app.website("b.example")
    key = await app.key(grant=Grant(("manage",), (own,)))
    for domain in ("new.example", "b.example"):
        refused = await managing("POST", "", {"domain": domain}, key)
        assert (refused.status, refused.json["error"]["code"]) == (403, "missing_scope")
        assert other not in refused.text
    taken = await managing("PATCH", f"/{own}", {"domain": "b.example"}, key)
    assert (taken.status, taken.json["error"]["code"]) == (409, "website_exists")
    assert other not in taken.text
    assert (await managing("PATCH", f"/{own}", {"name": "A"}, key)).status == 200


async def test_a_key_that_is_revoked_while_its_body_arrives(app: App) -> None:
    """The change is refused, as it is for a session that ends meanwhile."""
    website = await app.website()
    key = await app.key(grant=Grant(("manage",)))
    arrived = asyncio.Event()

    async def body() -> AsyncIterator[bytes]:
        yield b'{"name": '
        await arrived.wait()
        yield b'"renamed"}'

    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    path = f"/api/v1/websites/{website}"
    sending = asyncio.create_task(app.client.patch(path, data=body(), headers=headers))
    while not app.registry._used_keys:  # authorised
        await asyncio.sleep(0.001)
    await app.admin(lambda connection: revoke_api_key(connection, key))
    arrived.set()
    async with await sending as response:
        assert (response.status, (await response.json())["error"]["code"]) == (401, "invalid_api_key")
    assert app.sql("select name from website") == [("example.com",)]


async def test_a_file_is_imported_with_a_key(app: App) -> None:
    website = await app.website()
    key = await app.key(grant=Grant(("import",), (website,)))
    event = {"type": "pageview", "pathname": "/a", "timestamp": "2026-10-01T12:00:00Z", "id": "1"}
    file = (json.dumps(event) + "\n").encode()
    headers, path = {"Authorization": f"Bearer {key}"}, f"/api/v1/websites/{website}/imports"
    client = PageClient(app)
    begun = await client("POST", f"{path}/upload", {"name": "e.ndjson", "format": "tally", "size": len(file)}, headers)
    assert begun.status == 201, begun.text
    assert (await client("PATCH", f"{path}/upload?offset=0", file, headers)).status == 200
    while (await client("GET", path, headers=headers)).json["data"]["upload"]["state"] != "checked":
        await asyncio.sleep(0.005)
    assert (await client("POST", path, {}, headers)).status == 202
    while (await client("GET", path, headers=headers)).json["data"]["upload"] is not None:
        await asyncio.sleep(0.005)
    (done,) = (await client("GET", path, headers=headers)).json["data"]["imports"]
    assert done["events"] == 1
