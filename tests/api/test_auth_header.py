"""Sign-in by a header that a proxy sets (--auth-header), which counts from the configured addresses alone.

The real proxies are in tests/robustness/test_auth_header_proxies.py.
"""

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tally.api.auth_header import auth_header
from tally.settings import BadSetting, Settings, settings_from
from tests.api.test_people import ANN, accept, error, invite, joined
from tests.support.app import OWNER, App, MakeApp
from tests.support.cases import cases
from tests.support.page_client import OWN_PAGE, PASSWORD, PageClient, logged_in

HEADER = {"auth_header": "Remote-Email", "auth_header_from": ("127.0.0.1",)}


def named(app: App, email: str = OWNER) -> PageClient:
    """Return a browser whose proxy names a person."""
    return PageClient(app, "198.51.100.7", Remote_Email=email)


async def seen(browser: PageClient) -> Any:
    """Return whom the pages show as signed in; else the status and the code."""
    answer = await browser("GET", "/api/account")
    return answer.json["data"]["email"] if answer.status == 200 else error(answer)


async def test_the_header_signs_in_and_stores_nothing(make_app: MakeApp) -> None:
    app = await make_app(**HEADER)
    website = await app.website()
    browser = named(app)
    assert await seen(browser) == OWNER
    assert [one["id"] for one in (await browser("GET", "/api/account/websites")).json["data"]] == [website]
    assert (await browser("GET", f"/api/account/websites/{website}/stats?period=today")).status == 200
    assert (await browser("PATCH", f"/api/account/websites/{website}", {"name": "Shop"})).status == 200
    assert (browser.cookies, app.sql("select count(*) from login")) == ({}, [(0,)])
    (line,) = app.sql("select actor, via, action from audit")
    assert line == (OWNER, "header", "website_changed")
    assert app.sql("select last_seen_day from person") == [(app.clock.wall_ms() // 86_400_000,)]
    # Access ends with the header.
    assert await seen(PageClient(app)) == (401, "not_logged_in")
    account = (await browser("GET", "/api/account")).json["data"]
    assert (account["signed_in_by"], account["logout_url"]) == ("header", None)


async def test_changes_of_people_are_made_by_the_header_too(make_app: MakeApp) -> None:
    app = await make_app(**HEADER)
    await app.website()
    browser = named(app)
    await invite(browser)
    (invitation,) = (await browser("GET", "/api/account/invitations")).json["data"]
    assert (await browser("DELETE", f"/api/account/invitations/{invitation['id']}")).status == 204
    assert (await browser("POST", "/api/account/logout-everywhere")).status == 204
    assert app.sql("select action, via from audit order by number") == [
        (action, "header") for action in ("person_invited", "invitation_revoked", "sign_out_everywhere")
    ]


async def test_the_case_of_an_address_does_not_matter(make_app: MakeApp) -> None:
    app = await make_app(**HEADER)
    await app.website()
    assert await seen(named(app, OWNER.upper())) == OWNER


@cases(("method", "path"), [("POST", "/api/account/logout"), ("PATCH", "/api/account"), ("POST", "/api/account/leave")])
async def test_pages_of_other_sites_are_refused(make_app: MakeApp, method: str, path: str) -> None:
    """The browser's cookie at the proxy would authorise them."""
    app = await make_app(**HEADER)
    await app.website()
    for site in ({"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": None, "Origin": "https://evil.example"}):
        assert error(await named(app)(method, path, {}, site)) == (403, "cross_site")


async def test_another_address_is_ignored_and_counted(make_app: MakeApp, caplog: pytest.LogCaptureFixture) -> None:
    """The address of the connection counts: what X-Forwarded-For says is the client's."""
    app = await make_app(**HEADER)
    await app.website()
    base = str(app.client.make_url("/"))
    sent = OWN_PAGE | {"Remote-Email": OWNER, "X-Forwarded-For": "127.0.0.1", "Forwarded": "for=127.0.0.1"}
    connector = aiohttp.TCPConnector(local_addr=("127.0.0.2", 0))
    async with aiohttp.ClientSession(base, connector=connector) as elsewhere:
        for path in ("/api/account", "/api/account/keys", "/api/account/audit"):
            async with elsewhere.get(path, headers=sent) as answer:
                assert answer.status == 401
        async with elsewhere.get("/api/account/state", headers=sent) as answer:
            shown = (await answer.json())["data"]
    assert (shown["logged_in"], shown["refused"]) == (False, None)
    assert "tally_auth_header_refused_total 4.0" in (await app.get("/metrics")).text
    assert sum("auth-header-from" in line for line in caplog.messages) == 1


async def test_a_unix_socket_counts_where_it_is_named(make_app: MakeApp, tmp_path: Path) -> None:
    from aiohttp import web

    for sources, status in ((("unix",), 200), (("127.0.0.1",), 401)):
        app = await make_app(auth_header="Remote-Email", auth_header_from=sources)
        await app.website()
        path = tmp_path / f"{status}.sock"
        site = web.UnixSite(app.client.server.runner, str(path))
        await site.start()
        headers = OWN_PAGE | {"Remote-Email": OWNER}
        async with (
            aiohttp.ClientSession("http://tally", connector=aiohttp.UnixConnector(str(path))) as session,
            session.get("/api/account", headers=headers) as answer,
        ):
            assert answer.status == status
        # The other kind of connection does not count.
        assert await seen(named(app)) == ((401, "not_logged_in") if status == 200 else OWNER)


@cases(
    "value",
    ["", "ann", "ann@example.com, bob@example.com", "a" * 65 + "@example.com", "a@" + "b" * 256, "a@b\u200b.example"],
)
async def test_a_header_that_is_no_address(make_app: MakeApp, value: str) -> None:
    app = await make_app(**HEADER, auth_header_create="admin")
    await app.website()
    browser = named(app, value)
    assert await seen(browser) == (403, "bad_auth_header")
    state = (await browser("GET", "/api/account/state")).json["data"]
    assert state["refused"] == {"code": "bad_auth_header", "email": None}
    assert app.sql("select count(*) from person") == [(1,)]


async def test_a_header_sent_twice_and_one_of_another_name(make_app: MakeApp) -> None:
    app = await make_app(**HEADER)
    await app.website()
    for names, expected in (
        (("Remote-Email", "Remote-Email"), (403, "bad_auth_header")),
        (("Remote_Email",), (401, "not_logged_in")),
        (("Remote-Email", "Remote_Email"), OWNER),
    ):
        headers = [*OWN_PAGE.items(), *((name, OWNER) for name in names)]
        async with app.client.get("/api/account", headers=headers) as answer:
            shown = await answer.json()
        assert expected in (shown.get("data", {}).get("email"), (answer.status, shown.get("error", {}).get("code")))


async def test_the_header_takes_precedence_over_the_cookie(make_app: MakeApp) -> None:
    app = await make_app(**HEADER)
    owner = await logged_in(app)
    await joined(app, owner)
    assert await seen(owner) == OWNER
    owner.headers["Remote-Email"] = ANN
    assert await seen(owner) == ANN
    assert error(await owner("GET", "/api/account/people")) == (403, "not_allowed")
    # A refused header ends nothing, and the cookie does not stand in for it.
    owner.headers["Remote-Email"] = "nobody@example.com"
    assert await seen(owner) == (403, "not_invited")


async def test_an_unknown_address_is_refused_until_it_is_invited(make_app: MakeApp) -> None:
    app = await make_app(**HEADER)
    owner = await logged_in(app)
    ann = named(app, ANN.upper())
    assert await seen(ann) == (403, "not_invited")
    assert ANN.upper() in (await ann("GET", "/api/account")).json["error"]["message"]
    state = (await ann("GET", "/api/account/state")).json["data"]
    assert state["refused"] == {"code": "not_invited", "email": ANN.upper()}
    assert app.sql("select count(*) from person") == [(1,)]
    website = await app.website()
    token = await invite(owner, ANN, "editor", [website])
    answers = await asyncio.gather(*(seen(ann) for _ in range(4)))
    assert {answer.lower() for answer in answers} == {ANN}
    (_, member) = (await owner("GET", "/api/account/people")).json["data"]
    assert (member["role"], member["websites"]) == ("editor", [website])
    assert app.sql("select via, action from audit where actor = ? order by number", ANN.upper()) == [
        ("header", "person_joined")
    ]
    assert error(await accept(PageClient(app), token, password=PASSWORD)) == (404, "unknown_invitation")


async def test_unknown_people_are_created_where_it_is_set(make_app: MakeApp) -> None:
    app = await make_app(**HEADER, auth_header_create="viewer")
    await app.website()
    assert await seen(named(app, ANN)) == ANN
    assert app.sql("select role from membership order by person") == [("owner",), ("viewer",)]
    # With two accounts nobody knows which is meant.
    await app.website("other.example", "other@example.com")
    assert await seen(named(app, "bob@example.com")) == (403, "not_invited")


async def test_requests_of_an_unknown_address_are_limited(make_app: MakeApp) -> None:
    """Each reads the file."""
    app = await make_app(**HEADER, key_per_minute=3)
    await app.website()
    answers = [await seen(named(app, ANN)) for _ in range(5)]
    assert answers == [(403, "not_invited")] * 3 + [(429, "rate_limited")] * 2


async def test_keys_share_links_and_events_do_not_take_the_header(make_app: MakeApp) -> None:
    """It signs in to the pages alone."""
    app = await make_app(**HEADER)
    website = await app.website()
    sent = {"Remote-Email": OWNER}
    assert (await app.get("/api/v1/websites", headers=sent)).status == 401
    assert (await app.get("/api/share/none", headers=sent)).status == 404
    event = {"type": "pageview", "url": "https://example.com/", "website_id": website}
    assert (await app.collect(event, headers=sent | {"Remote-Email": "not an address"})).status == 202


async def test_without_passwords(make_app: MakeApp) -> None:
    app = await make_app(**HEADER, password_login="no")
    await app.website()
    for path, sent in (
        ("/api/account/login", {"email": OWNER, "password": PASSWORD}),
        ("/api/account/password", {"current": PASSWORD, "new": PASSWORD + "!"}),
    ):
        assert error(await PageClient(app)("POST", path, sent)) == (404, "not_found")
    owner = named(app)
    state = (await PageClient(app)("GET", "/api/account/state")).json["data"]
    assert (state["password_login"], state["needs_setup"], state["logged_in"]) == (False, False, False)
    token = await invite(owner)
    assert error(await accept(PageClient(app), token, password=PASSWORD)) == (401, "not_logged_in")
    # The sign-in link of the command line is the way back in.
    assert (await PageClient(app)("POST", "/api/account/login/link", {"token": "x"})).status == 404


async def test_the_proxy_asks_for_the_second_factor(make_app: MakeApp) -> None:
    """An account that requires one is open to people of the header, and closed to their passwords."""
    app = await make_app(**HEADER)
    website, owner = await app.website(), await logged_in(app)
    await joined(app, owner)
    await app.admin(lambda connection: connection.execute("update account set requires_second_factor = 1"))
    assert error(await owner("GET", "/api/account")) == (403, "second_factor_due")
    ann = named(app, ANN)
    assert await seen(ann) == ANN
    assert [one["id"] for one in (await ann("GET", "/api/account/websites")).json["data"]] == [website]
    assert (await ann("GET", f"/api/account/websites/{website}")).status == 200


async def test_logging_out_leads_to_the_proxy(make_app: MakeApp) -> None:
    app = await make_app(**HEADER, auth_logout_url="https://auth.example/logout")
    await app.website()
    browser = named(app)
    assert (await browser("GET", "/api/account")).json["data"]["logout_url"] == "https://auth.example/logout"
    assert (await browser("POST", "/api/account/logout")).status == 204


async def test_wrong_passwords_of_two_people_count_apart(make_app: MakeApp) -> None:
    app = await make_app(**HEADER)
    owner = await logged_in(app)
    await joined(app, owner)
    tries = [
        [
            (await named(app, email)("POST", "/api/account/password", {"current": "x" * 10, "new": "y" * 10})).status
            for _ in range(11)
        ]
        for email in (OWNER, ANN)
    ]
    assert tries == [[403] * 10 + [429]] * 2


@cases(
    ("options", "words"),
    [
        ({"auth_header": ["Remote-Email"]}, "need each other"),
        ({"auth_header_from": ["10.0.0.1"]}, "need each other"),
        ({"auth_header_create": ["viewer"]}, "--auth-header-create needs --auth-header"),
        ({"auth_logout_url": ["https://auth.example/"]}, "--auth-logout-url needs --auth-header"),
        ({"password_login": ["no"]}, "--password-login no needs --auth-header"),
        ({"auth_header": ["Remote Email"], "auth_header_from": ["::1"]}, "name of a header"),
        ({"auth_header": ["Remote-Email"], "auth_header_from": ["none"]}, "--auth-header-from 'none'"),
        ({"auth_header": ["Remote-Email"], "auth_header_from": ["10.0.0.1/8"]}, "10.0.0.0/8 for all of it"),
        ({"auth_logout_url": ["javascript:alert(1)"]}, "begins with https"),
    ],
)
def test_settings_that_do_not_fit_together(options: dict[str, list[str]], words: str) -> None:
    with pytest.raises(BadSetting, match=words.replace("(", r"\(")):
        auth_header(settings_from(options, {}))


def test_networks_and_the_socket_together() -> None:
    given = Settings(auth_header="Remote-Email", auth_header_from=("unix", "10.0.0.0/8", "::1"))
    assert auth_header(given) is not None
    assert auth_header(Settings()) is None
