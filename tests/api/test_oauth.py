"""Connecting assistants by OAuth: the flow, each refusal, what ends a connection, and attacks.

The official client for Python goes through the same flow in tests/robustness/test_mcp_clients.py.
"""

import base64
import hashlib
import json
import sqlite3
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from tally.accounts import assistants
from tally.accounts.accounts import create_person, set_plan
from tally.accounts.assistants import BadClient, client_of, new_client
from tally.api.auth import AUTH
from tally.timestamps import DAY_MS
from tests.support.app import OWNER, Answer, App, MakeApp
from tests.support.cases import cases
from tests.support.page_client import PASSWORD_HASH, PageClient, logged_in

BACK = "https://assistant.example/back"
VERIFIER = "v" * 43
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).decode().rstrip("=")
PING = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "list_websites", "arguments": {}}}


def error(answer: Answer) -> tuple[int, str]:
    return answer.status, answer.json["error"]["code"]


class Flow:
    """What a program and a person's browser send."""

    def __init__(self, app: App, browser: PageClient) -> None:
        self.app, self.browser = app, browser
        self.client = client_of_program()

    def asked(self, **other: Any) -> dict[str, Any]:
        asked = {
            "response_type": "code",
            "client_id": self.client,
            "redirect_uri": BACK,
            "code_challenge": CHALLENGE,
            "code_challenge_method": "S256",
            "state": "state & more",
        } | other
        return {name: value for name, value in asked.items() if value is not None}

    async def allowed(self, **other: Any) -> Answer:
        return await self.browser("POST", "/api/account/authorization", self.asked(allow=True) | other)

    async def code(self, **other: Any) -> str:
        answer = await self.allowed(**other)
        assert answer.status == 200, answer.text
        return parse_qs(urlsplit(answer.json["data"]["redirect"]).query)["code"][0]

    async def token(self, **form: str) -> Answer:
        """Exchange a code or a refresh token."""
        sent = {"client_id": self.client} | form
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        async with self.app.client.post("/oauth/token", data=urlencode(sent).encode(), headers=headers) as response:
            return Answer(response.status, response.headers, await response.read())

    async def exchange(self, code: str, **other: str) -> Answer:
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": BACK, "code_verifier": VERIFIER}
        return await self.token(**form | other)

    async def renew(self, refresh: str, **other: str) -> Answer:
        return await self.token(**{"grant_type": "refresh_token", "refresh_token": refresh} | other)

    async def connected(self, **other: Any) -> dict[str, Any]:
        answer = await self.exchange(await self.code(**other))
        assert answer.status == 200, answer.text
        tokens: dict[str, Any] = answer.json
        return tokens

    async def mcp(self, token: str) -> Answer:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        async with self.app.client.post("/mcp", data=json.dumps(PING).encode(), headers=headers) as response:
            return Answer(response.status, response.headers, await response.read())

    async def domains(self, token: str) -> list[str]:
        answer = await self.mcp(token)
        assert answer.status == 200, answer.text
        return [row["domain"] for row in answer.json["result"]["structuredContent"]["data"]]


def client_of_program(*addresses: str) -> str:
    return new_client("Assistant", [*addresses] or [BACK]).id


async def flow(make_app: MakeApp, **settings: Any) -> Flow:
    app = await make_app(**settings)
    await app.website("one.example")
    await app.website("two.example")
    return Flow(app, await logged_in(app))


async def member(app: App, role: str, website: str | None = None) -> PageClient:
    """Return the browser of a new member, of one website where it is given."""
    email = f"{role}@example.com"

    def add(connection: sqlite3.Connection) -> None:
        person = create_person(connection, email, PASSWORD_HASH, 0)
        connection.execute("insert into membership values (1, ?, ?, ?, 0)", (person, role, website is not None))
        connection.execute(
            "insert into membership_website select 1, ?, number from website where id = ?", (person, website)
        )

    await app.admin(add)
    browser = PageClient(app, "198.51.100.2")
    assert (await browser.log_in(email)).status == 200
    return browser


# --- the flow


async def test_a_program_learns_where_to_go_registers_and_reads(make_app: MakeApp) -> None:
    made = await flow(make_app, base_url="https://stats.example.com/tally")
    root = "https://stats.example.com/tally"
    refused = await made.mcp("tla_1.2.x")
    assert refused.status == 401
    assert f'resource_metadata="{root}/.well-known/oauth-protected-resource"' in refused.headers["WWW-Authenticate"]
    for path in ("/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"):
        about = await made.browser("GET", path)
        assert (about.json["resource"], about.json["authorization_servers"]) == (f"{root}/mcp", [root])
    about = await made.browser("GET", "/.well-known/oauth-authorization-server")
    assert about.json["issuer"] == root
    ends = ("authorization_endpoint", "token_endpoint", "registration_endpoint")
    assert [about.json[name] for name in ends] == [
        f"{root}/oauth/{name}" for name in ("authorize", "token", "register")
    ]
    sent = {"client_name": "Assistant", "redirect_uris": [BACK], "token_endpoint_auth_method": "client_secret_post"}
    registered = await made.browser("POST", "/oauth/register", sent)
    assert (registered.status, registered.json["token_endpoint_auth_method"]) == (201, "none")
    assert registered.json["client_id"] == made.client

    asked = made.asked(resource=f"{root}/mcp", scope="reports")
    shown = await made.browser("GET", f"/api/account/authorization?{urlencode(asked)}")
    assert shown.json["data"] == {
        "name": "Assistant",
        "place": "assistant.example",
        "account": OWNER,
        "websites": [{"id": one["id"], "name": one["name"]} for one in shown.json["data"]["websites"]],
    }
    answer = await made.browser("POST", "/api/account/authorization", asked | {"allow": True})
    address, _, query = answer.json["data"]["redirect"].partition("?")
    given = parse_qs(query)
    assert (address, given["state"], given["iss"]) == (BACK, ["state & more"], [root])
    answer = await made.exchange(given["code"][0], resource=f"{root}/mcp")
    assert (answer.status, answer.headers["Cache-Control"]) == (200, "no-store")
    tokens = answer.json
    assert (tokens["token_type"], tokens["expires_in"], tokens["scope"]) == ("Bearer", 3600, "reports")
    assert await made.domains(tokens["access_token"]) == ["one.example", "two.example"]


async def test_a_person_who_refuses_is_sent_back_without_a_code(make_app: MakeApp) -> None:
    made = await flow(make_app)
    answer = await made.allowed(allow=False)
    given = parse_qs(urlsplit(answer.json["data"]["redirect"]).query)
    assert (given["error"], given["state"], "code" in given) == (["access_denied"], ["state & more"], False)
    assert (await made.browser("GET", "/api/account/assistants")).json["data"] == []


async def test_an_address_with_a_query_keeps_it(make_app: MakeApp) -> None:
    made = await flow(make_app)
    back = f"{BACK}?tenant=1"
    made.client = client_of_program(back)
    answer = await made.allowed(redirect_uri=back)
    given = parse_qs(urlsplit(answer.json["data"]["redirect"]).query)
    assert given["tenant"] == ["1"]
    assert "code" in given


# --- what a person allows


async def test_only_the_chosen_websites_are_read(make_app: MakeApp) -> None:
    made = await flow(make_app)
    chosen = (await made.browser("GET", "/api/account/websites")).json["data"][0]
    tokens = await made.connected(websites=[chosen["id"]])
    assert await made.domains(tokens["access_token"]) == [chosen["domain"]]


@cases("websites", [[], "all", ["00000000-0000-4000-8000-000000000000"], [1]])
async def test_other_websites_than_those_of_the_account_are_refused(make_app: MakeApp, websites: Any) -> None:
    made = await flow(make_app)
    assert error(await made.allowed(websites=websites)) == (400, "invalid_field")


async def test_a_limited_member_gives_no_more_than_it_sees(make_app: MakeApp) -> None:
    made = await flow(make_app)
    one, two = (await made.browser("GET", "/api/account/websites")).json["data"]
    viewer = Flow(made.app, await member(made.app, "viewer", one["id"]))
    assert error(await viewer.allowed(websites=[two["id"]])) == (400, "invalid_field")
    tokens = await viewer.connected()
    assert await viewer.domains(tokens["access_token"]) == ["one.example"]
    # A later limit applies to the next question.
    person = next(p for p in (await made.browser("GET", "/api/account/people")).json["data"] if p["role"] == "viewer")
    change = {"role": "viewer", "websites": [two["id"]]}
    assert (await made.browser("PATCH", f"/api/account/people/{person['id']}", change)).status == 200
    assert await viewer.domains(tokens["access_token"]) == ["two.example"]
    # It ends with the membership.
    assert (await made.browser("DELETE", f"/api/account/people/{person['id']}")).status == 204
    assert (await viewer.mcp(tokens["access_token"])).status == 401
    assert (await viewer.renew(tokens["refresh_token"])).json["error"] == "invalid_grant"
    assert (await made.browser("GET", "/api/account/keys")).json["data"] == []


async def test_a_code_of_a_person_who_has_left_meanwhile_gives_nothing(make_app: MakeApp) -> None:
    made = await flow(make_app)
    viewer = Flow(made.app, await member(made.app, "viewer"))
    code = await viewer.code()
    person = next(p for p in (await made.browser("GET", "/api/account/people")).json["data"] if p["role"] == "viewer")
    assert (await made.browser("DELETE", f"/api/account/people/{person['id']}")).status == 204
    answer = await viewer.exchange(code)
    assert (answer.status, answer.json["error"]) == (400, "invalid_grant")
    assert (await made.browser("GET", "/api/account/keys")).json["data"] == []


async def test_a_second_factor_that_is_due_comes_first(make_app: MakeApp) -> None:
    made = await flow(make_app)
    viewer = Flow(made.app, await member(made.app, "viewer"))
    tokens = await viewer.connected()
    await made.app.admin(
        lambda connection: connection.execute("update account set requires_second_factor = 1").rowcount
    )
    assert error(await viewer.allowed()) == (403, "second_factor_due")
    assert (await viewer.mcp(tokens["access_token"])).status == 401


async def test_an_account_without_keys_connects_nothing(make_app: MakeApp) -> None:
    made = await flow(make_app)
    await made.app.admin(lambda connection: set_plan(connection, OWNER, "free"))
    assert error(await made.allowed()) == (403, "plan_has_no_keys")


# --- malformed requests


@cases(
    "change",
    [
        {"response_type": "token"},
        {"response_type": None},
        {"code_challenge": None},
        {"code_challenge": "short"},
        {"code_challenge_method": "plain"},
        {"code_challenge_method": None},
        {"scope": "manage"},
        {"resource": "https://elsewhere.example/mcp"},
        {"client_id": None},
        {"client_id": "x"},
        {"client_id": "W10"},
        {"client_id": "e30"},
        {"redirect_uri": None},
        {"redirect_uri": "https://evil.example/back"},
        {"redirect_uri": f"{BACK}/"},
        {"redirect_uri": f"{BACK}?x"},
    ],
)
async def test_a_malformed_request_never_sends_a_browser_away(make_app: MakeApp, change: Mapping[str, Any]) -> None:
    made = await flow(make_app)
    query = urlencode(made.asked(**change))
    for answer in (
        await made.browser("GET", f"/api/account/authorization?{query}"),
        await made.browser("POST", "/api/account/authorization", made.asked(**change, allow=True)),
    ):
        assert error(answer) == (400, "bad_authorization")
        assert BACK not in answer.text
    # The page is drawn by a script that asks the same: the server itself never redirects.
    assert (await made.browser("GET", f"/oauth/authorize?{query}")).status == 200


@cases("field", ["client_id", "state", "resource"])
async def test_a_field_that_is_no_string_is_named(make_app: MakeApp, field: str) -> None:
    made = await flow(make_app)
    answer = await made.browser("POST", "/api/account/authorization", made.asked(allow=True) | {field: 1})
    assert (answer.status, answer.json["error"]["field"]) == (400, field)


@cases(
    "address",
    [
        "https://assistant.example/back",
        "http://127.0.0.1:33418/callback",
        "http://localhost/callback",
        "http://[::1]:80/callback",
        "cursor://anysphere.cursor-mcp/oauth/callback",
        "com.example.app:/oauth",
    ],
)
def test_an_address_of_a_program_is_taken(address: str) -> None:
    client = new_client("Assistant", [address])
    assert client_of(client.id) == client
    assert client.takes(address)


@cases(
    "address",
    [
        "http://assistant.example/back",
        "javascript:alert(1)",
        "JavaScript://%0aalert(1)",
        "data:text/html,x",
        "vbscript:x",
        "file:///etc/passwd",
        "blob:https://x",
        "//assistant.example",
        "/back",
        "",
        "https://",
        "https://[::1",
        "https://user@assistant.example/",
        "https://assistant.example/#fragment",
        "https://assistant.example/ x",
        "https://assistant.example/\r\nX: y",
        "https://ässistant.example/",
        f"https://assistant.example/{'x' * 300}",
        1,
        None,
    ],
)
def test_another_address_is_refused(address: Any) -> None:
    with pytest.raises(BadClient):
        new_client("Assistant", [address])


@cases("port", ["", ":1", ":65535"])
def test_the_port_of_the_own_machine_may_differ(port: str) -> None:
    client = new_client("Assistant", ["http://127.0.0.1:33418/callback"])
    assert client.takes(f"http://127.0.0.1{port}/callback")
    assert not client.takes(f"http://localhost{port}/callback")
    assert not client.takes(f"http://127.0.0.1{port}/other")
    assert not new_client("Assistant", [BACK]).takes("https://assistant.example:8443/back")


@cases(
    "sent, code",
    [
        ({}, "invalid_redirect_uri"),
        ({"redirect_uris": []}, "invalid_redirect_uri"),
        ({"redirect_uris": [BACK] * 6}, "invalid_redirect_uri"),
        ({"redirect_uris": BACK}, "invalid_redirect_uri"),
        ({"redirect_uris": [BACK], "client_name": ""}, "invalid_client_metadata"),
        ({"redirect_uris": [BACK], "client_name": "x" * 81}, "invalid_client_metadata"),
        ({"redirect_uris": [BACK], "client_name": "a\u202eb"}, "invalid_client_metadata"),
        ({"redirect_uris": [BACK], "client_name": 1}, "invalid_client_metadata"),
    ],
)
async def test_a_malformed_registration_is_refused(make_app: MakeApp, sent: dict[str, Any], code: str) -> None:
    made = await flow(make_app)
    answer = await made.browser("POST", "/oauth/register", sent)
    assert (answer.status, answer.json["error"]) == (400, code)


async def test_a_registration_is_an_object_of_json(make_app: MakeApp) -> None:
    made = await flow(make_app)
    assert error(await made.browser("POST", "/oauth/register", b"{")) == (400, "invalid_json")
    assert error(await made.browser("POST", "/oauth/register", [])) == (400, "invalid_body")


@cases(
    "form, code",
    [
        ({}, "unsupported_grant_type"),
        ({"grant_type": "password"}, "unsupported_grant_type"),
        ({"grant_type": "authorization_code"}, "invalid_grant"),
        ({"grant_type": "authorization_code", "code": "unknown", "code_verifier": "é"}, "invalid_grant"),
        ({"grant_type": "refresh_token"}, "invalid_grant"),
        ({"grant_type": "refresh_token", "refresh_token": "tly_unknown"}, "invalid_grant"),
        ({"grant_type": "refresh_token", "resource": "https://elsewhere.example/mcp"}, "invalid_target"),
        ({f"field{n}": "" for n in range(30)}, "invalid_request"),
    ],
)
async def test_a_malformed_request_for_a_token_is_refused(make_app: MakeApp, form: dict[str, str], code: str) -> None:
    answer = await (await flow(make_app)).token(**form)
    assert (answer.status, answer.json["error"]) == (400, code)


@cases("body", [b"a=1&a=2", b"a=%ff", b"\xff", b"grant_type=refresh_token&refresh_token=%00\xc3\xa9"])
async def test_a_malformed_form_is_refused(make_app: MakeApp, body: bytes) -> None:
    made = await flow(make_app)
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    async with made.app.client.post("/oauth/token", data=body, headers=headers) as response:
        assert (response.status, "error" in await response.json()) == (400, True)


# --- codes


@cases(
    "change",
    [
        {"code_verifier": "w" * 43},
        {"code_verifier": ""},
        {"code_verifier": CHALLENGE},
        {"redirect_uri": "https://evil.example/back"},
        {"client_id": client_of_program("https://evil.example/back")},
    ],
)
async def test_a_code_is_of_one_client_and_its_verifier(make_app: MakeApp, change: dict[str, str]) -> None:
    made = await flow(make_app)
    code = await made.code()
    answer = await made.exchange(code, **change)
    assert (answer.status, answer.json["error"]) == (400, "invalid_grant")
    # Who has guessed wrong gets no second try.
    assert (await made.exchange(code)).json["error"] == "invalid_grant"


async def test_a_code_expires_after_a_minute(make_app: MakeApp) -> None:
    made = await flow(make_app)
    code = await made.code()
    made.app.clock.advance(60)
    assert (await made.exchange(code)).json["error"] == "invalid_grant"


async def test_a_code_that_is_used_twice_ends_what_it_has_connected(make_app: MakeApp) -> None:
    made = await flow(make_app)
    code = await made.code()
    tokens = (await made.exchange(code)).json
    assert (await made.mcp(tokens["access_token"])).status == 200
    assert (await made.exchange(code)).json["error"] == "invalid_grant"
    assert (await made.mcp(tokens["access_token"])).status == 401
    assert (await made.renew(tokens["refresh_token"])).json["error"] == "invalid_grant"


async def test_codes_are_bounded_in_memory(make_app: MakeApp) -> None:
    made = await flow(make_app)
    first = await made.code()
    codes = made.app.application[AUTH].codes
    consent, now_ns = codes._open[first][0], made.app.clock.monotonic_ns()
    for person in range(assistants.MAX_CODES - 1):
        codes.new(consent._replace(person=1_000 + person), now_ns)
    newest = codes.new(consent, now_ns)
    assert len(codes._open) == assistants.MAX_CODES
    assert (await made.exchange(first)).json["error"] == "invalid_grant"
    assert (await made.exchange(newest)).status == 200


async def test_a_person_displaces_no_code_of_another_one(make_app: MakeApp) -> None:
    made = await flow(make_app)
    first = await made.code()
    codes = made.app.application[AUTH].codes
    consent, now_ns = codes._open[first][0], made.app.clock.monotonic_ns()
    for _ in range(assistants.MAX_CODES):
        codes.new(consent._replace(person=99), now_ns)
    assert len(codes._open) == 1 + assistants.MAX_OF_PERSON
    assert (await made.exchange(first)).status == 200


# --- tokens


async def test_an_access_token_lasts_an_hour_and_is_for_assistants_alone(make_app: MakeApp) -> None:
    made = await flow(make_app)
    tokens = await made.connected()
    for value in (tokens["access_token"], tokens["refresh_token"]):
        answer = await made.browser("GET", "/api/v1/websites", headers={"Authorization": f"Bearer {value}"})
        assert error(answer) == (401, "invalid_api_key")
    # A refresh token reads nothing, at /mcp either.
    assert (await made.mcp(tokens["refresh_token"])).status == 401
    made.app.clock.advance(3_599)
    assert (await made.mcp(tokens["access_token"])).status == 200
    made.app.clock.advance(1)
    assert (await made.mcp(tokens["access_token"])).status == 401


@cases(
    "token", ["tla_", "tla_1", "tla_1.9999999999999.", "tla_x.y.z", "tla_1.9999999999999.é", "tla_..", "tla_9" * 900]
)
async def test_a_made_up_access_token_is_refused(make_app: MakeApp, token: str) -> None:
    made = await flow(make_app)
    await made.connected()
    assert (await made.mcp(token)).status == 401


async def test_an_access_token_of_another_process_is_refused(make_app: MakeApp) -> None:
    made = await flow(make_app)
    tokens = await made.connected()
    prefix = tokens["access_token"].removeprefix("tla_").partition(".")[0]
    forged = assistants.Codes().access_token(prefix, made.app.clock.wall_ms())
    assert (await made.mcp(forged)).status == 401


async def test_a_refresh_token_is_replaced_each_time(make_app: MakeApp) -> None:
    made = await flow(make_app)
    first = await made.connected()
    made.app.clock.advance(29 * DAY_MS / 1000)
    second = (await made.renew(first["refresh_token"])).json
    assert second["refresh_token"] != first["refresh_token"]
    assert (await made.mcp(second["access_token"])).status == 200
    # The answer may have been lost: the one before counts for a minute, and its successor takes the place of the other.
    made.app.clock.advance(59)
    third = (await made.renew(first["refresh_token"])).json
    assert (await made.renew(second["refresh_token"])).json["error"] == "invalid_grant"
    made.app.clock.advance(1)
    # Two have it.
    assert (await made.renew(first["refresh_token"])).json["error"] == "invalid_grant"
    assert (await made.mcp(third["access_token"])).status == 401
    assert (await made.renew(third["refresh_token"])).json["error"] == "invalid_grant"
    lines = (await made.browser("GET", "/api/account/audit")).json["data"]
    assert [line["action"] for line in lines][:2] == ["assistant_disconnected", "assistant_connected"]


async def test_a_refresh_token_expires_after_30_days_and_is_one_clients(make_app: MakeApp) -> None:
    made = await flow(make_app)
    tokens = await made.connected()
    other = client_of_program("https://evil.example/back")
    assert (await made.renew(tokens["refresh_token"], client_id=other)).json["error"] == "invalid_grant"
    made.app.clock.advance(30 * DAY_MS / 1000)
    assert (await made.renew(tokens["refresh_token"])).json["error"] == "invalid_grant"


# --- what is connected


async def test_a_person_sees_and_ends_what_it_has_connected(make_app: MakeApp) -> None:
    made = await flow(make_app)
    viewer = Flow(made.app, await member(made.app, "viewer"))
    tokens, others = await made.connected(), await viewer.connected()
    (shown,) = (await made.browser("GET", "/api/account/assistants")).json["data"]
    (of_viewer,) = (await viewer.browser("GET", "/api/account/assistants")).json["data"]
    assert (shown["name"], shown["websites"]) == ("Assistant", None)
    assert error(await viewer.browser("DELETE", f"/api/account/assistants/{shown['id']}")) == (404, "unknown_key")
    assert (await made.browser("DELETE", f"/api/account/assistants/{shown['id']}")).status == 204
    assert [(await f.mcp(t["access_token"])).status for f, t in ((made, tokens), (viewer, others))] == [401, 200]
    # An admin sees and ends those of all, beside the keys.
    (key,) = (await made.browser("GET", "/api/account/keys")).json["data"]
    assert (key["id"], key["is_assistant"], key["scopes"]) == (of_viewer["id"], True, ["reports"])
    assert (await made.browser("DELETE", f"/api/account/keys/{key['id']}")).status == 204
    assert (await viewer.mcp(others["access_token"])).status == 401


async def test_the_same_assistant_takes_the_place_of_the_one_before(make_app: MakeApp) -> None:
    made = await flow(make_app)
    before, after = await made.connected(), await made.connected()
    assert [(await made.mcp(one["access_token"])).status for one in (before, after)] == [401, 200]
    assert len((await made.browser("GET", "/api/account/assistants")).json["data"]) == 1


async def test_a_person_connects_at_most_ten(make_app: MakeApp) -> None:
    made = await flow(make_app)
    for number in range(assistants.MAX_OF_PERSON):
        back = f"https://assistant.example/{number}"
        made.client = client_of_program(back)
        assert (await made.exchange(await made.code(redirect_uri=back), redirect_uri=back)).status == 200
    made.client = client_of_program()
    answer = await made.exchange(await made.code())
    assert (answer.status, answer.json["error"]) == (400, "invalid_grant")
    assert "10 connected assistants" in answer.json["error_description"]


async def test_nothing_secret_is_in_the_file_or_the_log(make_app: MakeApp, capfd: pytest.CaptureFixture[str]) -> None:
    made = await flow(make_app)
    code = await made.code()
    tokens = (await made.exchange(code)).json
    await made.renew(tokens["refresh_token"])
    secrets = [code, VERIFIER, tokens["access_token"], tokens["refresh_token"]]
    stored = b"".join(path.read_bytes() for path in made.app.db.parent.glob("*.db*"))
    said = "".join(capfd.readouterr())
    assert b"Assistant" in stored
    assert [one for one in secrets if one.encode() in stored or one in said] == []


async def test_a_page_of_another_website_can_allow_nothing(make_app: MakeApp) -> None:
    made = await flow(make_app)
    for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}):
        answer = await made.browser("POST", "/api/account/authorization", made.asked(allow=True), headers)
        assert error(answer) == (403, "cross_site")


async def test_a_person_of_another_account_gives_nothing_of_this_one(make_app: MakeApp) -> None:
    made = await flow(make_app)
    (website, _) = (await made.browser("GET", "/api/account/websites")).json["data"]
    other = Flow(made.app, await logged_in(made.app, "other@example.com", ip="198.51.100.3"))
    asked = other.asked(allow=True)
    assert error(await other.browser("POST", "/api/account/authorization?account=1", asked)) == (404, "unknown_account")
    assert error(await other.allowed(websites=[website["id"]])) == (400, "invalid_field")
    tokens = await other.connected()
    assert await other.domains(tokens["access_token"]) == []
