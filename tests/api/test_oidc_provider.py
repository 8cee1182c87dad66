"""Sign-in by oidc-provider, a certified OpenID provider, as a real process: pages posted by script, the whole flow."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.api.test_people import ANN, INVITATION, error, invite
from tests.support.app import OWNER, App, MakeApp, ManualClock
from tests.support.openid import (
    CALLBACK,
    CLIENT,
    SECRET,
    NodeProvider,
    come_back,
    new_key,
    node_provider,
    problem_of,
    sign_in_at,
)
from tests.support.page_client import PASSWORD, PageClient, logged_in

BASE = "https://stats.example.com"
PEOPLE = {
    "owner-7": {"email": OWNER, "email_verified": True, "groups": ["admins"]},
    "ann-8": {"email": ANN, "email_verified": True, "groups": ["staff", "viewers"]},
    "unverified-9": {"email": ANN, "email_verified": False},
    "other-10": {"email": "elsewhere@example.net", "email_verified": False},
}


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProvider]:
    with node_provider(tmp_path_factory.mktemp("provider"), BASE, PEOPLE, new_key("one")) as running:
        yield running


@pytest.fixture
def settings(provider: NodeProvider, tmp_path: Path, clock: ManualClock) -> dict[str, Any]:
    """Return the settings of an application whose clock is the provider's."""
    clock.begin_at(int(time.time() * 1000))
    (tmp_path / "secret").write_text(SECRET + "\n")
    return {
        "base_url": BASE,
        "oidc_issuer": provider.url,
        "oidc_client_id": CLIENT,
        "oidc_client_secret_file": tmp_path / "secret",
    }


async def signed_in(browser: PageClient, account: str, path: str = "/sign-in/oidc") -> Any:
    """Sign in at the provider and come back; return the response to that."""
    begun = await browser("GET", path)
    assert begun.status == 302
    return await come_back(browser, await sign_in_at(begun.headers["Location"], account))


async def seen(browser: PageClient) -> Any:
    answer = await browser("GET", "/api/account")
    return answer.json["data"]["email"] if answer.status == 200 else error(answer)


def actions(app: App) -> list[tuple[str, str, str]]:
    """Return the lines of the audit log about signing in and joining, oldest first."""
    rows = app.sql("select via, action, actor from audit order by number")
    return [row for row in rows if row[1] != "website_added"]


async def test_an_invited_address_signs_in(make_app: MakeApp, settings: Any) -> None:
    app = await make_app(**settings)
    owner = await logged_in(app)
    website = await app.website()
    await invite(owner, ANN, "editor", [website])
    ann = PageClient(app, "198.51.100.7")
    answer = await signed_in(ann, "ann-8", "/sign-in/oidc?next=/websites/1%3Fperiod=7d")
    assert (problem_of(answer), answer.headers["Location"]) == (None, "/websites/1?period=7d")
    assert await seen(ann) == ANN
    account = (await ann("GET", "/api/account")).json["data"]
    assert (account["role"], account["signed_in_by"], account["logout_url"]) == ("editor", "oidc", None)
    assert actions(app)[2:] == [
        ("oidc", "person_joined", ANN),
        ("oidc", "single_sign_on_connected", ANN),
        ("oidc", "sign_in", ANN),
    ]
    ((lasts_ms,),) = app.sql("select expires_ms - created_ms from login where via = 'oidc'")
    assert lasts_ms == 24 * 3_600_000
    (identity,) = app.sql("select issuer, subject from identity")
    assert identity == (settings["oidc_issuer"], "ann-8")
    # Another browser, by the identity alone: the address has changed since.
    await app.admin(lambda connection: connection.execute("update person set email = 'x@y.z' where email = ?", (ANN,)))
    again = PageClient(app, "198.51.100.8")
    assert problem_of(await signed_in(again, "ann-8")) is None
    assert await seen(again) == "x@y.z"


async def test_the_session_ends_after_a_day_of_use(make_app: MakeApp, settings: Any) -> None:
    app = await make_app(**settings, oidc_session_hours=2)
    await invite(await logged_in(app))
    ann = PageClient(app)
    await signed_in(ann, "ann-8")
    assert any("Max-Age=7200; HttpOnly; SameSite=Lax; Secure" in line for line in ann.set_cookies)
    app.clock.advance(3_600)
    assert await seen(ann) == ANN
    app.clock.advance(3_601)
    assert await seen(ann) == (401, "not_logged_in")


async def test_a_code_counts_once(make_app: MakeApp, settings: Any, caplog: pytest.LogCaptureFixture) -> None:
    app = await make_app(**settings)
    await invite(await logged_in(app))
    ann = PageClient(app)
    back = await sign_in_at((await ann("GET", "/sign-in/oidc")).headers["Location"], "ann-8")
    cookies = dict(ann.cookies)
    assert problem_of(await come_back(ann, back)) is None
    # The cookie was removed with the first use; a thief of both would still have a code that the provider refuses.
    assert problem_of(await come_back(ann, back)) == "expired"
    thief = PageClient(app, "198.51.100.66")
    thief.cookies = cookies
    assert problem_of(await come_back(thief, back)) == "provider"
    assert await seen(thief) == (401, "not_logged_in")
    assert "invalid_grant" in str(caplog.records[-1].__dict__)
    code = parse_qs(urlsplit(back).query)["code"][0]
    assert all(code not in str(record.__dict__) for record in caplog.records)


async def test_the_keys_are_rotated(make_app: MakeApp, settings: Any, tmp_path: Path) -> None:
    with node_provider(tmp_path, BASE, PEOPLE, new_key("one")) as provider:
        app = await make_app(**settings | {"oidc_issuer": provider.url})
        await invite(await logged_in(app))
        assert problem_of(await signed_in(PageClient(app), "ann-8")) is None
        provider.restart(new_key("two"))
        # At most once a minute.
        assert problem_of(await signed_in(PageClient(app), "ann-8")) == "token"
        app.clock.advance(60)
        assert problem_of(await signed_in(PageClient(app), "ann-8")) is None


async def test_the_provider_is_down(make_app: MakeApp, settings: Any, tmp_path: Path) -> None:
    """The server starts, passwords work, and what was read before is used again."""
    with node_provider(tmp_path, BASE, PEOPLE, new_key("one")) as provider:
        provider.stop()
        app = await make_app(**settings | {"oidc_issuer": provider.url})
        owner = await logged_in(app)
        await invite(owner)
        assert problem_of(await PageClient(app)("GET", "/sign-in/oidc")) == "provider"
        provider._start(new_key("one"))
        # Not asked again at once: requests of strangers would make it a flood.
        assert problem_of(await PageClient(app)("GET", "/sign-in/oidc")) == "provider"
        app.clock.advance(10)
        assert problem_of(await signed_in(PageClient(app), "ann-8")) is None
        ann = PageClient(app)
        back = await sign_in_at((await ann("GET", "/sign-in/oidc")).headers["Location"], "ann-8")
        provider.stop()
        app.clock.advance(3_601)
        assert (await PageClient(app)("GET", "/sign-in/oidc")).headers["Location"].startswith(provider.url)
        assert problem_of(await come_back(ann, back)) == "expired"
        provider._start(new_key("one"))


@pytest.mark.parametrize(("skew_s", "problem"), [(-55, None), (-90, "token"), (3_700, "token")])
async def test_clocks_differ(make_app: MakeApp, settings: Any, skew_s: int, problem: str | None) -> None:
    """Seconds are allowed for; the log names both times for more."""
    app = await make_app(**settings)
    await invite(await logged_in(app))
    app.clock.set_wall(app.clock.wall_ms() + skew_s * 1000)
    assert problem_of(await signed_in(PageClient(app), "ann-8")) == problem


async def test_an_address_that_is_not_verified(make_app: MakeApp, settings: Any) -> None:
    app = await make_app(**settings)
    token = await invite(await logged_in(app))
    assert problem_of(await signed_in(PageClient(app), "unverified-9")) == "unverified"
    assert app.sql("select count(*) from person") == [(1,)]
    # The invitation's link proves the person, whatever address the provider sends.
    ann = PageClient(app)
    begun = await ann("POST", f"{INVITATION}/oidc", {}, {"Invitation-Token": token})
    back = await sign_in_at(begun.json["data"]["location"], "other-10")
    assert problem_of(await come_back(ann, back)) is None
    assert await seen(ann) == ANN
    assert app.sql("select count(*) from invitation") == [(0,)]


async def test_an_address_that_is_trusted(make_app: MakeApp, settings: Any) -> None:
    app = await make_app(**settings, oidc_trust_email="yes")
    await invite(await logged_in(app))
    ann = PageClient(app)
    assert problem_of(await signed_in(ann, "unverified-9")) is None
    assert await seen(ann) == ANN


async def test_a_person_with_a_password_is_asked_for_it_once(make_app: MakeApp, settings: Any) -> None:
    app = await make_app(**settings)
    await logged_in(app)
    owner = PageClient(app, "198.51.100.7")
    assert problem_of(await signed_in(owner, "owner-7", "/sign-in/oidc?next=/account")) == "password"
    assert await seen(owner) == (401, "not_logged_in")
    sent = {"email": OWNER, "password": PASSWORD, "connect": True}
    assert error(await owner("POST", "/api/account/login", sent | {"password": "wrong"})) == (401, "wrong_credentials")
    assert app.sql("select count(*) from identity") == [(0,)]
    assert (await owner("POST", "/api/account/login", sent)).status == 200
    assert app.sql("select subject from identity") == [("owner-7",)]
    # The second time no password is asked for, and the cookie is gone.
    assert error(await owner("POST", "/api/account/login", sent)) == (409, "nothing_to_connect")
    other = PageClient(app, "198.51.100.8")
    assert problem_of(await signed_in(other, "owner-7")) is None
    assert await seen(other) == OWNER


async def test_connecting_and_disconnecting(make_app: MakeApp, settings: Any) -> None:
    app = await make_app(**settings)
    owner = await logged_in(app)
    assert (await owner("GET", "/api/account/oidc")).json["data"] == {"is_connected": False, "can_disconnect": True}
    location = (await owner("POST", "/api/account/oidc", {})).json["data"]["location"]
    answer = await come_back(owner, await sign_in_at(location, "other-10"))
    assert answer.headers["Location"] == "/account/sign-in"
    assert (await owner("GET", "/api/account/oidc")).json["data"] == {"is_connected": True, "can_disconnect": True}
    elsewhere = PageClient(app, "198.51.100.9")
    assert problem_of(await signed_in(elsewhere, "other-10")) is None
    assert await seen(elsewhere) == OWNER
    assert (await owner("DELETE", "/api/account/oidc")).status == 204
    # What the identity has begun ends with it.
    assert await seen(elsewhere) == (401, "not_logged_in")
    assert await seen(owner) == OWNER
    assert problem_of(await signed_in(elsewhere, "other-10")) == "not_invited"
    assert actions(app)[1:] == [
        ("session", "single_sign_on_connected", OWNER),
        ("oidc", "sign_in", OWNER),
        ("session", "single_sign_on_disconnected", OWNER),
    ]


async def test_roles_follow_groups(make_app: MakeApp, settings: Any) -> None:
    app = await make_app(**settings, oidc_role=("viewers=viewer", "staff=editor", "others=admin"))
    owner = await logged_in(app)
    ann = PageClient(app)
    assert problem_of(await signed_in(ann, "ann-8")) is None
    assert (await ann("GET", "/api/account")).json["data"]["role"] == "editor"
    (_, member) = (await owner("GET", "/api/account/people")).json["data"]
    assert (await owner("PATCH", f"/api/account/people/{member['id']}", {"role": "admin"})).status == 200
    assert problem_of(await signed_in(ann, "ann-8")) is None
    assert (await ann("GET", "/api/account")).json["data"]["role"] == "editor"
    assert problem_of(await signed_in(PageClient(app), "other-10")) == "no_group"
    assert app.sql("select via, action from audit where action like 'person_role%' order by number") == [
        ("session", "person_role_changed"),
        ("oidc", "person_role_changed"),
    ]


async def test_unknown_people_are_created_where_it_is_set(make_app: MakeApp, settings: Any) -> None:
    app = await make_app(**settings, oidc_create="viewer", password_login="no")
    await logged_in(await make_app(db=settings["oidc_client_secret_file"].with_name("other.db")))
    await app.website()
    ann = PageClient(app)
    assert problem_of(await signed_in(ann, "other-10")) is None
    account = (await ann("GET", "/api/account")).json["data"]
    assert (account["email"], account["role"]) == ("elsewhere@example.net", "viewer")
    assert (await ann("GET", "/api/account/oidc")).json["data"]["can_disconnect"] is False
    assert error(await ann("DELETE", "/api/account/oidc")) == (409, "last_sign_in")


async def test_logging_out_of_the_provider_too(make_app: MakeApp, settings: Any) -> None:
    app = await make_app(**settings, oidc_logout="yes")
    await invite(await logged_in(app))
    ann = PageClient(app)
    await signed_in(ann, "ann-8")
    assert (await ann("GET", "/api/account")).json["data"]["logout_url"] == "/sign-in/oidc/logout"
    assert (await ann("POST", "/api/account/logout")).status == 204
    where = urlsplit((await ann("GET", "/sign-in/oidc/logout")).headers["Location"])
    assert where.geturl().startswith(settings["oidc_issuer"])
    assert parse_qs(where.query) == {"client_id": [CLIENT], "post_logout_redirect_uri": [f"{BASE}/login"]}


async def test_the_redirect_uri_is_that_of_the_base_url(make_app: MakeApp, settings: Any) -> None:
    """Whatever host and scheme the request has."""
    for more, path in (({}, CALLBACK), ({"base_path": "/stats", "base_url": BASE}, f"/stats{CALLBACK}")):
        app = await make_app(**settings | more)
        host = {"Host": "internal:8000", "X-Forwarded-Proto": "http"}
        answer = await PageClient(app)("GET", more.get("base_path", "") + "/sign-in/oidc", headers=host)
        query = parse_qs(urlsplit(answer.headers["Location"]).query)
        assert query["redirect_uri"] == [BASE + path]
        await app.close()
