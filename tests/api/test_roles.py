"""What each role may do: every route of the account API is requested with every role, compared with one table.

A route that is missing in the table fails a test. The clients are: an owner, an admin, an editor, a viewer, and an
editor and a viewer who are limited to another website. What an owner and another account receive is in
tests/api/test_authorization.py; a role receives the same as an owner, or 403 `not_allowed`.
"""

import sqlite3
from typing import Any, get_args

import pytest

from tally.accounts.accounts import create_person
from tally.accounts.roles import LEAST, LIMITED_ROLES, ROLES, Action, Membership, Role, may, may_grant
from tests.api.test_authorization import BY_ROUTE, CHANGES, NAMES, Scenario
from tests.support.app import MakeApp
from tests.support.cases import cases
from tests.support.endpoints import ENDPOINTS
from tests.support.page_client import PASSWORD_HASH, PageClient

WEBSITE = "/api/account/websites/{id}"
# The least role of each route; None where a route asks for no session or concerns the person alone.
LEAST_OF_ROUTE: dict[str, Role | None] = {
    "GET /api/account/state": None,
    "GET /api/account/setup": None,
    "POST /api/account/setup": None,
    "POST /api/account/login": None,
    "POST /api/account/login/link": None,
    "POST /api/account/logout": None,
    "POST /api/account/logout-everywhere": None,
    "GET /api/account": "viewer",
    "PATCH /api/account": "viewer",
    "GET /api/account/changelog": "viewer",
    "POST /api/account/password": "viewer",
    # Of the person alone, whatever the role.
    "GET /api/account/second-factor": "viewer",
    "POST /api/account/second-factor/begin": "viewer",
    "POST /api/account/second-factor/confirm": "viewer",
    "POST /api/account/second-factor/codes": "viewer",
    "DELETE /api/account/second-factor": "viewer",
    "GET /api/account/passkeys": "viewer",
    "POST /api/account/passkeys/begin": "viewer",
    "POST /api/account/passkeys/finish": "viewer",
    "DELETE /api/account/passkeys/{passkey}": "viewer",
    "POST /api/account/login/passkey/begin": None,
    "POST /api/account/login/passkey/finish": None,
    "GET /api/account/keys": "admin",
    "POST /api/account/keys": "admin",
    "DELETE /api/account/keys": "admin",
    "DELETE /api/account/keys/{number}": "admin",
    "DELETE /api/account/share-links": "admin",
    # Whatever the role: an assistant sees what its person sees.
    "GET /api/account/assistants": "viewer",
    "DELETE /api/account/assistants/{number}": "viewer",
    "GET /api/account/authorization": "viewer",
    "POST /api/account/authorization": "viewer",
    "GET /api/account/channels": "editor",
    "POST /api/account/channels": "admin",
    "PATCH /api/account/channels/{channel}": "admin",
    "DELETE /api/account/channels/{channel}": "admin",
    "POST /api/account/channels/{channel}/test": "admin",
    "POST /api/account/channels/{channel}/secret": "admin",
    "GET /api/account/summary": "viewer",
    "PATCH /api/account/summary": "viewer",
    "GET /api/account/reports": "editor",
    "POST /api/account/reports": "editor",
    "PATCH /api/account/reports/{report}": "editor",
    "DELETE /api/account/reports/{report}": "editor",
    "GET /api/account/reports/{report}/preview": "editor",
    "GET /api/account/notices": "admin",
    "POST /api/account/notices/{number}/send": "admin",
    "GET /api/account/audit": "admin",
    "GET /api/account/people": "admin",
    "PATCH /api/account/people/{number}": "admin",
    "DELETE /api/account/people/{number}": "admin",
    "GET /api/account/invitations": "admin",
    "POST /api/account/invitations": "admin",
    "DELETE /api/account/invitations/{invitation}": "admin",
    "POST /api/account/leave": "viewer",
    "GET /api/account/invitation": None,
    "POST /api/account/invitation": None,
    # 404 without --oidc-issuer; each person's own (tests/api/test_oidc.py).
    "POST /api/account/invitation/oidc": None,
    "GET /api/account/oidc": None,
    "POST /api/account/oidc": None,
    "DELETE /api/account/oidc": None,
    "GET /api/account/websites": "viewer",
    "POST /api/account/websites": "admin",
    f"GET {WEBSITE}": "viewer",
    f"PATCH {WEBSITE}": "admin",
    f"DELETE {WEBSITE}": "admin",
    f"GET {WEBSITE}/alerts": "editor",
    f"POST {WEBSITE}/alerts": "editor",
    f"PATCH {WEBSITE}/alerts/{{alert}}": "editor",
    f"DELETE {WEBSITE}/alerts/{{alert}}": "editor",
    f"POST {WEBSITE}/alerts/{{alert}}/snooze": "editor",
    f"GET {WEBSITE}/exclusions": "admin",
    f"PATCH {WEBSITE}/exclusions": "admin",
    f"POST {WEBSITE}/share-links": "editor",
    f"PATCH {WEBSITE}/share-links/{{link}}": "editor",
    f"DELETE {WEBSITE}/share-links/{{link}}": "editor",
    **{f"{method} {WEBSITE}/deletions": "admin" for method in ("GET", "POST")},
    f"POST {WEBSITE}/deletions/preview": "admin",
    f"POST {WEBSITE}/rewrites": "admin",
    f"POST {WEBSITE}/rewrites/preview": "admin",
    f"DELETE {WEBSITE}/deletions/{{number}}": "admin",
    f"GET {WEBSITE}/imports": "admin",
    f"POST {WEBSITE}/imports": "admin",
    f"POST {WEBSITE}/imports/upload": "admin",
    f"PATCH {WEBSITE}/imports/upload": "admin",
    f"DELETE {WEBSITE}/imports/upload": "admin",
    f"POST {WEBSITE}/imports/{{number}}/undo": "admin",
}
for _path in ("annotations", "segments", "goals", "funnels"):
    LEAST_OF_ROUTE[f"POST {WEBSITE}/{_path}"] = "editor"
    LEAST_OF_ROUTE[f"PATCH {WEBSITE}/{_path}/{{definition}}"] = "editor"
    LEAST_OF_ROUTE[f"DELETE {WEBSITE}/{_path}/{{definition}}"] = "editor"
ACCOUNT_ROUTES = [name for name in NAMES if " /api/account" in name]
# Reports of a website.
REPORTS = [name for name in ACCOUNT_ROUTES if name.startswith(f"GET {WEBSITE}/") and name not in LEAST_OF_ROUTE]
RESTRICTED = [name for name in ACCOUNT_ROUTES if name in REPORTS or LEAST_OF_ROUTE[name] is not None]
# Status for a role that may, where it differs from the owner's: an admin may not change an owner, who is the person of
# this number; others may leave.
OF_ADMIN = {"PATCH /api/account/people/{number}": 403, "DELETE /api/account/people/{number}": 403}
LEAVING = "POST /api/account/leave"


def least_of(name: str) -> Role:
    return LEAST_OF_ROUTE.get(name) or "viewer"


def test_every_route_is_in_the_table() -> None:
    missing = [name for name in ACCOUNT_ROUTES if name not in LEAST_OF_ROUTE and name not in REPORTS]
    assert missing == []
    assert [name for name in LEAST_OF_ROUTE if name not in ACCOUNT_ROUTES] == []
    # Each report by name, so that a route which begins like one is not taken for one.
    assert {name.rpartition(f"{WEBSITE}/")[2] for name in REPORTS} == {endpoint.path for endpoint in ENDPOINTS}


class People(Scenario):
    """The scenario of the authorisation with a member of each role, and limited members."""

    async def fill(self) -> None:
        await super().fill()
        self.elsewhere = await self.app.website("elsewhere.example")
        self.members: dict[str, PageClient] = {"owner": self.owner}
        for role in ("admin", "editor", "viewer"):
            self.members[role] = await self.member(role)
        for role in ("editor", "viewer"):
            self.members[f"limited {role}"] = await self.member(role, self.elsewhere)

    async def member(self, role: str, website: str | None = None) -> PageClient:
        """Return a browser of a new member, of `website` alone where it is given."""
        email = f"{role}-{'limited' if website else 'all'}@example.com"

        def add(connection: sqlite3.Connection) -> None:
            person = create_person(connection, email, PASSWORD_HASH, 0)
            connection.execute("insert into membership values (1, ?, ?, ?, 0)", (person, role, website is not None))
            connection.execute(
                "insert into membership_website select 1, ?, number from website where id = ?", (person, website)
            )

        await self.app.admin(add)
        browser = PageClient(self.app, f"198.51.100.{50 + len(self.members)}")
        assert (await browser.log_in(email)).status == 200
        return browser

    async def ask(self, client: str, name: str) -> Any:
        """Request a route as a member."""
        self.owner, before = self.members[client], self.owner
        try:
            return await self.request_as("owner", name, BY_ROUTE[name].body)
        finally:
            self.owner = before


@pytest.fixture
async def people(make_app: MakeApp) -> People:
    scenario = People(await make_app(client_per_minute=9_999, website_per_minute=9_999, key_per_minute=9_999))
    await scenario.fill()
    return scenario


@cases("role", ["admin", "editor", "viewer"])
async def test_what_a_role_may_not_do(people: People, role: Role) -> None:
    """Every route above the role is refused, and nothing is changed."""
    before = people.app.sql("select count(*), max(number) from audit")
    refused = [name for name in RESTRICTED if ROLES.index(role) < ROLES.index(least_of(name))]
    assert len(refused) > {"admin": -1, "editor": 15, "viewer": 25}[role]
    for name in refused:
        answer = await people.ask(role, name)
        assert (answer.status, answer.json["error"]["code"]) == (403, "not_allowed"), (role, name)
    assert people.app.sql("select count(*), max(number) from audit") == before


@cases("role", ["admin", "editor", "viewer"])
async def test_what_a_role_may_read(people: People, role: Role) -> None:
    for name in RESTRICTED:
        if name.startswith("GET ") and ROLES.index(role) >= ROLES.index(least_of(name)):
            answer = await people.ask(role, name)
            assert answer.status == 200, (role, name, answer.text)


@pytest.mark.parametrize("name", [name for name in RESTRICTED if not name.startswith("GET ")])
async def test_what_a_role_may_change(people: People, name: str) -> None:
    """The least role of a route receives what an owner receives."""
    status = next(status for other, client, status in CHANGES if (other, client) == (name, "owner"))
    if name == LEAVING:
        status = 204
    answer = await people.ask(least_of(name), name)
    assert answer.status == OF_ADMIN.get(name, status), answer.text


@cases("client", ["limited editor", "limited viewer"])
async def test_a_website_outside_the_limit_is_unknown(people: People, client: str) -> None:
    """Every route of a website answers as for one that does not exist; the one within the limit is shown."""
    routes = [name for name in ACCOUNT_ROUTES if WEBSITE in name]
    assert len(routes) > 40
    for name in routes:
        answer = await people.ask(client, name)
        assert (answer.status, answer.json["error"]["code"]) == (404, "unknown_website"), name
    websites = (await people.members[client]("GET", "/api/account/websites?stats=7d")).json["data"]
    assert [one["id"] for one in websites] == [people.elsewhere]
    answer = await people.members[client]("GET", f"/api/account/websites/{people.elsewhere}/stats")
    assert answer.status == 200
    page = await people.members[client]("GET", f"/websites/{people.website}/heatmaps")
    assert "example.com" not in page.headers["Content-Security-Policy"]


async def test_a_role_applies_to_the_next_request(people: People) -> None:
    path = f"/api/account/websites/{people.website}"
    sent = {"filters": ["filter_country=DE"], "name": "Germany"}
    editor = people.members["editor"]
    assert (await editor("POST", f"{path}/segments", sent)).status == 201
    number = people.app.sql("select number from person where email = 'editor-all@example.com'")[0][0]
    answer = await people.owner("PATCH", f"/api/account/people/{number}", {"role": "viewer"})
    assert answer.status == 200, answer.text
    assert (await editor("POST", f"{path}/segments", sent)).status == 403
    assert (await people.owner("DELETE", f"/api/account/people/{number}")).status == 204
    assert (await editor("GET", path)).status == 401
    assert people.app.sql("select count(*) from person where number = ?", number) == [(0,)]


# What a person may request while the account requires a second factor that the person does not have.
OPEN_WITHOUT_FACTOR = {
    *(name for name in ACCOUNT_ROUTES if any(one in name for one in ("/second-factor", "/passkeys", "/assistants"))),
    "GET /api/account/changelog",
    "POST /api/account/password",
}


@cases("role", [*ROLES, "limited editor", "limited viewer"])
async def test_an_account_that_requires_a_second_factor_is_closed_without_one(people: People, role: str) -> None:
    """Every route that concerns the account is refused, of reports as of changes, and nothing is changed."""
    await people.app.admin(lambda connection: connection.execute("update account set requires_second_factor = 1"))
    if role.startswith("limited"):
        people.website = people.elsewhere
    before = people.app.sql("select count(*), max(number) from audit")
    for name in RESTRICTED:
        if name not in OPEN_WITHOUT_FACTOR:
            answer = await people.ask(role, name)
            assert (answer.status, answer.json["error"]["code"]) == (403, "second_factor_due"), (role, name)
    assert people.app.sql("select count(*), max(number) from audit") == before
    assert (await people.ask(role, "GET /api/account/second-factor")).status == 200
    page = await people.members[role]("GET", f"/websites/{people.website}/heatmaps")
    assert "example.com" not in page.headers["Content-Security-Policy"]


def test_roles_are_ordered() -> None:
    """Each role may do what those before it may; a limit to websites holds for every action."""
    for action in get_args(Action):
        allowed = [may(Membership(1, 1, role, None, 0), action) for role in ROLES]
        assert allowed == sorted(allowed)
        assert allowed[-1]
        assert not may(None, action)
        for role in LIMITED_ROLES:
            member = Membership(1, 1, role, frozenset((7,)), 0)
            assert not may(member, action, 8)
            assert may(member, action, 7) is may(member, action)
    assert LEAST.keys() == set(get_args(Action))


def test_nobody_grants_above_the_own_role() -> None:
    grants = {role: [one for one in ROLES if may_grant(Membership(1, 1, role, None, 0), [one])] for role in ROLES}
    assert grants == {
        "viewer": [],
        "editor": [],
        "admin": ["viewer", "editor", "admin"],
        "owner": ["viewer", "editor", "admin", "owner"],
    }
