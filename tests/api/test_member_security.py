"""What a member could try: more than the role allows, another account, and acting on after being removed.

What each route answers to each role is in tests/api/test_roles.py, invitations are in tests/api/test_people.py.
"""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from tally.accounts import people
from tally.accounts.accounts import create_account, find_person
from tally.accounts.api_keys import Grant
from tally.storage.database import open_database
from tests.api.test_people import ANN, NEW_PASSWORD, accept, error, invite, joined, link, number_of
from tests.support.app import OWNER, App
from tests.support.cases import cases
from tests.support.page_client import LINK, PASSWORD_HASH, PageClient, logged_in

OTHER = "other@example.com"
SEGMENT = {"name": "Germany", "filters": ["filter_country=DE"]}


def write(app: App, do: Callable[[sqlite3.Connection], Any]) -> None:
    """Change the file as another process does, which the server reads a second later."""
    with closing(open_database(app.db, create=False)) as connection, connection:
        do(connection)


def end_membership(app: App, email: str) -> None:
    """End a membership of the first account without the server having read it."""

    def end(connection: sqlite3.Connection) -> None:
        number = find_person(connection, email).number
        people.remove_member(connection, 1, number, None)
        people.delete_if_alone(connection, number)

    write(app, end)


# --- acting on after being removed


@cases(
    ("method", "path", "sent"),
    [
        ("POST", "/api/account/websites", {"domain": "new.example"}),
        ("PATCH", "/api/account/websites/{id}", {"name": "Taken over"}),
        ("DELETE", "/api/account/websites/{id}", {"domain": "example.com"}),
        ("POST", "/api/account/websites/{id}/segments", SEGMENT),
        ("POST", "/api/account/websites/{id}/share-links", LINK),
        ("PATCH", "/api/account/websites/{id}/exclusions", {"addresses": ["203.0.113.9"]}),
        ("POST", "/api/account/keys", {"name": "kept"}),
        ("POST", "/api/account/logout-everywhere", None),
        ("POST", "/api/account/invitations", {"email": "x@example.com", "role": "admin"}),
    ],
)
async def test_a_change_that_began_before_its_person_was_removed_is_refused(
    app: App, method: str, path: str, sent: Any
) -> None:
    """The membership is read in the transaction of the change; no line is written, and the file is not at fault."""
    website, owner = await app.website(), await logged_in(app)
    admin = await joined(app, owner, role="admin")
    end_membership(app, ANN)
    before = app.sql("select count(*) from audit")
    answer = await admin(method, path.format(id=website), sent)
    assert error(answer) == (403, "not_allowed")
    assert app.sql("select count(*) from audit") == before
    assert not app.database.health.fault
    assert (await owner("POST", f"/api/account/websites/{website}/segments", SEGMENT)).status == 201
    assert app.sql("select distinct domain, name from website") == [("example.com", "example.com")]
    assert app.sql("select count(*) from api_key") == [(0,)]


async def test_a_removed_person_has_no_session_and_no_known_browser(app: App) -> None:
    """Neither after a new invitation of the same address: the sessions of before stay ended."""
    owner = await logged_in(app)
    ann = await joined(app, owner, role="admin")
    number = number_of(app, ANN)
    assert (await owner("DELETE", f"/api/account/people/{number}")).status == 204
    for table in ("login", "device_cookie", "membership", "membership_website"):
        assert app.sql(f"select count(*) from {table} where person = ?", number) == [(0,)], table
    assert error(await ann("GET", "/api/account")) == (401, "not_logged_in")
    await joined(app, owner, role="owner")
    assert error(await ann("GET", "/api/account")) == (401, "not_logged_in")


async def test_a_removed_person_leaves_no_way_back(app: App) -> None:
    """Open invitations and sign-in links of the person end; keys stay, for the programs that use them."""
    owner = await logged_in(app)
    admin = await joined(app, owner, role="admin")
    token, sign_in = await invite(admin, "second@example.com", "admin"), await link(app, ANN)
    made = (await admin("POST", "/api/account/keys", {"name": "deploy"})).json["data"]
    key, number = made["value"], number_of(app, ANN)
    assert made["created_by"] == ANN
    assert (await owner("DELETE", f"/api/account/people/{number}")).status == 204
    browser = PageClient(app, "198.51.100.9")
    assert error(await accept(browser, token, password=NEW_PASSWORD)) == (404, "unknown_invitation")
    answer = await browser("POST", "/api/account/login/link", {"token": sign_in})
    assert error(answer) == (404, "unknown_sign_in_link")
    assert (await app.get("/api/v1/websites", key=key)).status == 200
    # An address that is used again is another person.
    await joined(app, owner)
    (made,) = (await owner("GET", "/api/account/keys")).json["data"]
    assert made["created_by"] == f"former member {number}"


# --- more than the role allows


async def test_an_admin_does_not_replace_the_invitation_of_an_owner(app: App) -> None:
    """An invitation replaces the open one of its address, as revoking it would."""
    owner = await logged_in(app)
    admin = await joined(app, owner, role="admin")
    token = await invite(owner, "x@example.com", "owner")
    answer = await admin("POST", "/api/account/invitations", {"email": "X@example.com", "role": "viewer"})
    assert error(answer) == (403, "not_allowed")
    (listed,) = (await owner("GET", "/api/account/invitations")).json["data"]
    assert listed["role"] == "owner"
    assert (await accept(PageClient(app, "198.51.100.99"), token, password=NEW_PASSWORD)).status == 201


async def test_a_viewer_does_not_see_share_links(app: App) -> None:
    """A share link is valid after its holder has left; who may not revoke it does not receive it."""
    website, owner = await app.website(), await logged_in(app)
    shared = (await owner("POST", f"/api/account/websites/{website}/share-links", LINK)).json["data"]
    for role, expected in (("viewer", []), ("editor", [shared])):
        browser = await joined(app, owner, f"{role}@example.com", role)
        (listed,) = (await browser("GET", "/api/account/websites")).json["data"]
        alone = (await browser("GET", f"/api/account/websites/{website}")).json["data"]
        assert [listed["share_links"], alone["share_links"]] == [expected, expected]


async def test_an_admin_who_is_demoted_gains_nothing_by_an_own_invitation(app: App) -> None:
    owner = await logged_in(app)
    admin = await joined(app, owner, role="admin")
    number = number_of(app, ANN)
    assert (await admin("PATCH", f"/api/account/people/{number}", {"role": "viewer"})).status == 200
    for method, path, sent in (
        ("PATCH", f"/api/account/people/{number}", {"role": "admin"}),
        ("POST", "/api/account/invitations", {"email": ANN, "role": "admin"}),
        ("PATCH", f"/api/account/people/{number}", {"websites": None}),
    ):
        assert error(await admin(method, path, sent)) == (403, "not_allowed"), path


# --- another account


@pytest.fixture
async def both(app: App) -> tuple[PageClient, PageClient]:
    """Return the browsers of the first account's owner, and of another owner who is a viewer of the first account."""
    await app.website()
    owner, other = await logged_in(app), await logged_in(app, OTHER, ip="198.51.100.2")
    assert (await accept(other, await invite(owner, OTHER, "viewer"))).status == 201
    return owner, other


async def test_a_role_in_one_account_is_none_in_another(app: App, both: tuple[PageClient, PageClient]) -> None:
    """Who owns one account and sees another one names either in `account`, with what is in the other's paths."""
    owner, other = both
    foreign, boss = await invite(owner), number_of(app, OWNER)
    (open_one,) = (await owner("GET", "/api/account/invitations")).json["data"]
    key = (await owner("POST", "/api/account/keys", {"name": "key"})).json["data"]
    refused, unknown = (403, "not_allowed"), {"people": "unknown_person", "keys": "unknown_key"}
    sent = {"email": "x@example.com", "role": "viewer", "name": "new", "domain": "x.example"}
    for method, path, body in (
        ("GET", "keys", None),
        ("POST", "keys", {"name": "mine"}),
        ("DELETE", f"keys/{key['id']}", None),
        ("GET", "audit", None),
        ("GET", "people", None),
        ("PATCH", f"people/{boss}", {"role": "viewer"}),
        ("DELETE", f"people/{boss}", None),
        ("GET", "invitations", None),
        ("POST", "invitations", {name: sent[name] for name in ("email", "role")}),
        ("DELETE", f"invitations/{open_one['id']}", None),
        ("POST", "websites", {"domain": "x.example"}),
    ):
        assert error(await other(method, f"/api/account/{path}?account=1", body)) == refused, path
        if "/" in path:
            kind = path.partition("/")[0]
            expected = (404, unknown.get(kind, "unknown_invitation"))
            assert error(await other(method, f"/api/account/{path}?account=2", body)) == expected, path
    for twice in ("account=1&account=2", "account=2&account=1", "account=", "account=1.0", "account=%31%20"):
        assert error(await other("GET", f"/api/account/keys?{twice}")) == (404, "unknown_account"), twice
    assert (await owner("GET", "/api/account/invitations")).json["data"] == [open_one]
    assert (await accept(PageClient(app, "198.51.100.99"), foreign, password=NEW_PASSWORD)).status == 201


async def test_a_key_reaches_the_websites_of_its_account_alone(app: App, both: tuple[PageClient, PageClient]) -> None:
    """Also where the person who made it sees the websites of both."""
    owner, other = both
    (website,) = (await owner("GET", "/api/account/websites")).json["data"]
    made = await other("POST", "/api/account/keys", {"name": "all", "scopes": ["manage", "import"]})
    headers = {"Authorization": f"Bearer {made.json['data']['value']}", "Content-Type": "application/json"}
    for method, path, sent in (
        ("GET", "", None),
        ("PATCH", "", b'{"name": "x"}'),
        ("GET", "/stats?period=7d", None),
        ("POST", "/share-links", b'{"name": "x"}'),
        ("GET", "/imports", None),
        ("POST", "/segments", b'{"name": "x", "filters": ["filter_country=DE"]}'),
    ):
        for query in ("", "account=1"):
            separator = "&" if "?" in path else "?"
            target = f"/api/v1/websites/{website['id']}{path}{separator}{query}"
            async with app.client.request(method, target, data=sent, headers=headers) as answer:
                assert answer.status == 404, target
    limited = {"name": "x", "websites": [website["id"]]}
    answer = await other("POST", "/api/account/keys", limited)
    assert (answer.status, answer.json["error"]["field"]) == (400, "websites")
    # `account` of a website that is added is that of the key.
    added = "/api/v1/websites?account=1"
    async with app.client.post(added, data=b'{"domain": "k.example"}', headers=headers) as answer:
        assert answer.status == 201
    assert app.sql("select account from website where domain = 'k.example'") == [(2,)]


async def test_a_key_never_reaches_people_and_keys(app: App) -> None:
    """Whatever its scopes: a leaked key does not become a person."""
    key = await app.key(grant=Grant(("manage", "import"), None, None))
    for path in ("", "/people", "/invitations", "/keys", "/audit", "/websites"):
        assert (await app.get(f"/api/account{path}", key=key)).status == 401, path
        missing = await app.get(f"/api/v1{path}", key=key)
        assert missing.status == (200 if path == "/websites" else 404), path


# --- sessions


async def test_a_session_begins_under_a_new_value(app: App) -> None:
    """By an invitation and by a link as by a password: a value that was planted in the browser is not used."""
    owner = await logged_in(app)
    planted = "x" * 43
    for begin in ("invitation", "link"):
        browser = PageClient(app, "198.51.100.9")
        browser.cookies = {"tally": planted, "tally-device": planted}
        if begin == "invitation":
            assert (await accept(browser, await invite(owner), password=NEW_PASSWORD)).status == 201
        else:
            token = await link(app)
            assert (await browser("POST", "/api/account/login/link", {"token": token})).status == 204
        assert planted not in browser.cookies.values()
        thief = PageClient(app, "198.51.100.10")
        thief.cookies = {"tally": planted, "tally-device": planted}
        assert error(await thief("GET", "/api/account")) == (401, "not_logged_in")


async def test_a_link_ends_the_session_that_the_browser_had(app: App) -> None:
    owner = await logged_in(app)
    ann = await joined(app, owner)
    before = dict(ann.cookies)
    assert (await ann("POST", "/api/account/login/link", {"token": await link(app)})).status == 204
    assert (await ann("GET", "/api/account")).json["data"]["email"] == OWNER
    ann.cookies = before
    assert error(await ann("GET", "/api/account")) == (401, "not_logged_in")


async def test_a_person_whom_a_command_has_just_created_logs_in(app: App) -> None:
    """Within the second in which the server has not read it."""
    await logged_in(app)
    # Several: the server may read a change right after it was made.
    for at in range(4):
        email = f"new{at}@example.com"
        write(app, lambda connection, email=email: create_account(connection, email, "business", PASSWORD_HASH, 0))
        assert (await PageClient(app, f"198.51.100.{at}").log_in(email)).status == 200
