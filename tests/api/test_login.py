"""Logging in and out: permissions, cross-site requests, cookies and sessions.

Passwords are hashed by argon2id; cross-site requests are refused by SameSite and Origin or Sec-Fetch-Site; the session
is renewed at login. Limits on attempts are tested in tests/api/test_login_throttling.py.
"""

import asyncio
from typing import Any

import pytest
from argon2 import PasswordHasher

from tally.accounts import passwords
from tally.accounts.logins import LASTS_MS, MAX_OF_PERSON
from tally.accounts.sign_in import BROWSER_TRIES
from tally.api.auth import AUTH
from tests.api.test_authorization import COLLECTING
from tests.support.app import OWNER, App, MakeApp
from tests.support.cases import cases
from tests.support.page_client import PASSWORD, PageClient, account, logged_in
from tests.support.process import Command

DAY_S = 86_400
WRONG = "not the password"


def error(answer: Any) -> tuple[int, str]:
    return answer.status, answer.json["error"]["code"]


# --- in


async def test_the_right_password_logs_in(app: App) -> None:
    await account(app)
    browser = PageClient(app)
    assert error(await browser("GET", "/api/account")) == (401, "not_logged_in")
    answer = await browser.log_in(OWNER.upper())
    assert answer.status == 200
    assert answer.json["data"]["email"] == OWNER
    assert (await browser("GET", "/api/account")).json["data"] == answer.json["data"]
    assert (await browser("GET", "/api/account/state")).json["data"] == {
        "logged_in": True,
        "needs_setup": False,
        "demo": False,
        "password_login": True,
        "single_sign_on": None,
        "passkeys": False,
        "refused": None,
    }


async def test_unknown_addresses_and_wrong_passwords_have_the_same_response(app: App) -> None:
    """Unknown addresses, wrong passwords and accounts without a password have the same response."""
    await account(app)
    await app.website(account="nobody@example.com")
    answers = [
        await PageClient(app).log_in(OWNER, WRONG),
        await PageClient(app).log_in("unknown@example.com", WRONG),
        await PageClient(app).log_in("nobody@example.com", WRONG),
        await PageClient(app).log_in("no address at all", WRONG),
    ]
    assert {(answer.status, answer.body) for answer in answers} == {(401, answers[0].body)}
    assert answers[0].json["error"]["code"] == "wrong_credentials"
    different = {"Date"}
    assert len({tuple((n, v) for n, v in a.headers.items() if n not in different) for a in answers}) == 1


async def test_unknown_addresses_need_the_same_work(app: App) -> None:
    """The same hash is computed once for each, so that response times are equal."""
    await account(app)
    gate, done = app.application[AUTH], list[str]()
    hashed_now = gate.hashed_now

    async def counted(do: Any, *what: Any) -> Any:
        done.append(f"{do.__name__} {what[0].rsplit('$', 2)[0]}")
        return await hashed_now(do, *what)

    gate.hashed_now = counted
    await PageClient(app).log_in(OWNER, WRONG)
    await PageClient(app).log_in("unknown@example.com", WRONG)
    assert len(done) == 2
    assert len(set(done)) == 1


async def test_a_hash_with_other_parameters_is_renewed(app: App) -> None:
    await account(app)
    other = PasswordHasher(time_cost=1, memory_cost=1024, parallelism=1).hash(PASSWORD)
    await app.admin(lambda connection: connection.execute("update person set password_hash = ?", (other,)))
    assert (await PageClient(app).log_in(OWNER, WRONG)).status == 401
    assert app.sql("select password_hash from person") == [(other,)]
    assert (await PageClient(app).log_in()).status == 200
    stored = app.sql("select password_hash from person")[0][0]
    assert stored != other
    assert not passwords.is_outdated(stored)
    assert (await PageClient(app).log_in()).status == 200


async def test_an_account_created_by_another_process_can_log_in(app: App) -> None:
    await account(app, "late@example.com")
    assert (await PageClient(app).log_in("late@example.com")).status == 200


# --- from where

CHANGES = [
    ("POST", "/api/account/setup"),
    ("POST", "/api/account/login"),
    ("POST", "/api/account/logout"),
    ("POST", "/api/account/logout-everywhere"),
    ("PATCH", "/api/account"),
    ("POST", "/api/account/password"),
    *(("POST", f"/api/account/second-factor/{step}") for step in ("begin", "confirm", "codes")),
    ("DELETE", "/api/account/second-factor"),
    *(("POST", f"/api/account/{of}/{step}") for of in ("passkeys", "login/passkey") for step in ("begin", "finish")),
    ("DELETE", "/api/account/passkeys/AA"),
    ("POST", "/api/account/keys"),
    ("DELETE", "/api/account/keys/1"),
    ("POST", "/api/account/websites"),
    ("PATCH", "/api/account/websites/x"),
    ("DELETE", "/api/account/websites/x"),
    ("PATCH", "/api/account/websites/x/exclusions"),
    ("POST", "/api/account/websites/x/alerts"),
    *((method, "/api/account/websites/x/alerts/y") for method in ("PATCH", "DELETE")),
    ("POST", "/api/account/websites/x/alerts/y/snooze"),
    ("POST", "/api/account/websites/x/share-links"),
    ("PATCH", "/api/account/websites/x/share-links/y"),
    ("DELETE", "/api/account/websites/x/share-links/y"),
    ("DELETE", "/api/account/share-links"),
    ("DELETE", "/api/account/keys"),
    *(
        (method, f"/api/account/websites/x/{kind}{own}")
        for kind in ("annotations", "segments", "goals", "funnels")
        for method, own in (("POST", ""), ("PATCH", "/0000000000000000"), ("DELETE", "/0000000000000000"))
    ),
    ("DELETE", "/api/account/assistants/1"),
    ("POST", "/api/account/authorization"),
    ("POST", "/api/account/login/link"),
    ("POST", "/api/account/channels"),
    *((method, "/api/account/channels/y") for method in ("PATCH", "DELETE")),
    *(("POST", f"/api/account/channels/y/{step}") for step in ("test", "secret")),
    ("POST", "/api/account/reports"),
    ("PATCH", "/api/account/summary"),
    *((method, "/api/account/reports/y") for method in ("PATCH", "DELETE")),
    ("POST", "/api/account/notices/1/send"),
    ("POST", "/api/account/leave"),
    ("POST", "/api/account/invitation"),
    ("POST", "/api/account/invitation/oidc"),
    *((method, "/api/account/oidc") for method in ("POST", "DELETE")),
    ("POST", "/api/account/invitations"),
    ("DELETE", "/api/account/invitations/0000000000000000"),
    *((method, "/api/account/people/1") for method in ("PATCH", "DELETE")),
    ("POST", "/api/account/websites/x/imports"),
    *((method, "/api/account/websites/x/imports/upload") for method in ("POST", "PATCH", "DELETE")),
    ("POST", "/api/account/websites/x/imports/1/undo"),
    *(("POST", f"/api/account/websites/x/deletions{path}") for path in ("", "/preview")),
    ("DELETE", "/api/account/websites/x/deletions/1"),
    *(("POST", f"/api/account/websites/x/rewrites{path}") for path in ("", "/preview")),
    ("POST", "/api/share/x/password"),
]
REFUSED_SITES = ["cross-site", "same-site", "", "SAME-ORIGIN", "same-origin, none"]


def test_every_change_is_in_the_table() -> None:
    from tally.web.routes import ROUTES

    def without_parameters(path: str) -> str:
        values = {
            "{id}": "x",
            "{token}": "x",
            "{number}": "1",
            "{definition}": "0" * 16,
            "{invitation}": "0" * 16,
            "{link}": "y",
            "{passkey}": "AA",
            "{channel}": "y",
            "{report}": "y",
            "{alert}": "y",
        }
        for name, value in values.items():
            path = path.replace(name, value)
        return path

    collecting = (*COLLECTING, "/count", "/count/{website}")
    # Requests with an API key, those of programs and those of links in mails have no session.
    others = [
        route
        for route in ROUTES
        if route.method != "GET"
        and route.path not in collecting
        and not route.path.startswith(("/api/v1/", "/mcp", "/oauth/", "/confirm/", "/unsubscribe/"))
    ]
    changing = {(route.method, without_parameters(route.path)) for route in others}
    assert changing == set(CHANGES)


@pytest.fixture
async def browser(app: App) -> PageClient:
    return await logged_in(app)


@cases(("method", "path"), CHANGES)
async def test_cross_site_changes_are_refused(app: App, browser: PageClient, method: str, path: str) -> None:
    """A change needs Sec-Fetch-Site same-origin or none, or without that header an Origin equal to the host or
    base_url, otherwise 403 `cross_site`, even with the owner's cookie."""
    headers: list[dict[str, str | None]] = [{"Sec-Fetch-Site": site} for site in REFUSED_SITES]
    headers += [
        {"Sec-Fetch-Site": None, "Origin": origin} for origin in ("null", "https://evil.example", "", "x", "http://[")
    ]
    headers += [{"Sec-Fetch-Site": None}, {"Sec-Fetch-Site": "cross-site", "Origin": own_origin(app)}]
    headers += [{"Sec-Fetch-Site": None, "Referer": own_origin(app) + "/"}]
    for one in headers:
        answer = await browser(method, path, {}, headers=one)
        assert error(answer) == (403, "cross_site"), one
    assert app.sql("select count(*) from login") == [(1,)]


def own_origin(app: App) -> str:
    return str(app.client.make_url("/")).rstrip("/")


async def test_same_origin_changes_are_allowed(make_app: MakeApp) -> None:
    app = await make_app(base_url="https://stats.example.com")
    await account(app)
    for headers in (
        {"Sec-Fetch-Site": "same-origin"},
        {"Sec-Fetch-Site": "none"},
        {"Sec-Fetch-Site": None, "Origin": "https://stats.example.com"},
        {"Sec-Fetch-Site": None, "Origin": "HTTPS://STATS.example.com", "Host": "127.0.0.1:8000"},
        {"Sec-Fetch-Site": None, "Origin": "https://other.example", "Host": "other.example"},
    ):
        answer = await PageClient(app)(
            "POST", "/api/account/login", {"email": OWNER, "password": PASSWORD}, headers=dict(headers)
        )
        assert answer.status == 200, headers


async def test_the_http_origin_is_refused_over_https(app: App) -> None:
    """An attacker in the network can answer for http://stats.example.com, so it is not the https origin."""
    await account(app)
    sent = {"email": OWNER, "password": PASSWORD}
    for origin, proto, status in (
        ("http://stats.example.com", "https", 403),
        ("https://stats.example.com", "https", 200),
        ("http://stats.example.com", "http", 200),
    ):
        headers = {"Sec-Fetch-Site": None, "Origin": origin, "Host": "stats.example.com", "X-Forwarded-Proto": proto}
        assert (await PageClient(app)("POST", "/api/account/login", sent, headers=headers)).status == status


async def test_reading_is_allowed_from_other_sites(app: App) -> None:
    """A link in a mail opens the page with a session; the page's own requests are same-origin."""
    browser = await logged_in(app)
    assert (await browser("GET", "/", headers={"Sec-Fetch-Site": "cross-site"})).status == 200
    assert (await browser("GET", "/api/account")).status == 200


# --- cookies

SETTINGS_AND_COOKIES = [
    pytest.param({}, {}, "tally", False, id="plain"),
    pytest.param({}, {"X-Forwarded-Proto": "https"}, "__Host-tally", True, id="proxy-says-https"),
    pytest.param({}, {"X-Forwarded-Proto": "HTTPS, http"}, "__Host-tally", True, id="two-proxies"),
    pytest.param({}, {"X-Forwarded-Proto": "http"}, "tally", False, id="proxy-says-http"),
    pytest.param(
        {"trusted_proxy": ("none",)}, {"X-Forwarded-Proto": "https"}, "tally", False, id="untrusted-peer-says-https"
    ),
    pytest.param({"base_url": "https://stats.example.com"}, {}, "__Host-tally", True, id="base-url-behind-a-proxy"),
    pytest.param(
        {"base_url": "https://stats.example.com", "trusted_proxy": ("none",)},
        {"Host": "stats.example.com"}, "__Host-tally", True, id="base-url-by-its-name",
    ),
    pytest.param(
        {"base_url": "https://stats.example.com", "trusted_proxy": ("none",)},
        {"Host": "192.168.1.5:8000"}, "tally", False, id="past-the-proxy",
    ),
    pytest.param(
        {"base_url": "https://stats.example.com"}, {"X-Forwarded-Proto": "http"}, "tally", False, id="proxy-says-other"
    ),
    pytest.param({"base_url": "http://stats.example.com"}, {}, "tally", False, id="plain-base-url"),
]  # fmt: skip


@pytest.mark.parametrize(("settings", "headers", "name", "is_secure"), SETTINGS_AND_COOKIES)
async def test_the_cookie(
    make_app: MakeApp, settings: Any, headers: dict[str, str], name: str, is_secure: bool
) -> None:
    """`__Host-tally` (Secure) over https, otherwise `tally`; HttpOnly, SameSite=Lax, Path=/, 30 days."""
    app = await make_app(**settings)
    await account(app)
    browser = PageClient(app)
    browser.headers |= headers
    assert (await browser.log_in()).status == 200
    line, of_device = browser.set_cookies
    first, *flags = line.split("; ")
    assert first.partition("=")[0] == name
    assert len(first.partition("=")[2]) == 43
    wanted = {"Path=/", f"Max-Age={30 * DAY_S}", "HttpOnly", "SameSite=Lax"} | ({"Secure"} if is_secure else set())
    assert set(flags) == wanted
    first, *flags = of_device.split("; ")
    assert first.partition("=")[0] == f"{name}-device"
    assert set(flags) == wanted - {f"Max-Age={30 * DAY_S}"} | {f"Max-Age={365 * DAY_S}"}
    assert (await browser("GET", "/api/account")).status == 200
    assert browser.set_cookies == []
    await browser("POST", "/api/account/logout")
    (line,) = browser.set_cookies
    assert line.startswith(f"{name}=; ")
    assert set(line.split("; ")[1:]) == wanted - {f"Max-Age={30 * DAY_S}"} | {"Max-Age=0"}


async def test_the_plain_cookie_is_ignored_over_https(app: App) -> None:
    """An attacker who answers for an http page of the host or a neighbouring host can set the plain cookie."""
    browser = await logged_in(app)
    assert list(browser.cookies) == ["tally", "tally-device"]
    https: dict[str, str | None] = {"X-Forwarded-Proto": "https"}
    assert (await browser("GET", "/api/account", headers=https)).status == 401
    browser.cookies = {"__Host-tally": browser.cookies["tally"]}
    assert (await browser("GET", "/api/account", headers=https)).status == 200
    assert (await browser("GET", "/api/account")).status == 401


async def test_login_ignores_an_earlier_session_value(app: App) -> None:
    """Session fixation: the session token is renewed at login, and the previous session ends."""
    await account(app)
    browser = PageClient(app)
    browser.cookies["tally"] = "chosen-by-an-attacker"
    assert (await browser.log_in()).status == 200
    first = browser.cookies["tally"]
    assert first != "chosen-by-an-attacker"
    assert (await browser.log_in()).status == 200
    assert browser.cookies["tally"] != first
    browser.cookies["tally"] = first
    assert (await browser("GET", "/api/account")).status == 401
    assert app.sql("select count(*) from login") == [(1,)]


@pytest.mark.parametrize("cookie", ["tally=", "tally=x", "tally", "=", "tally=\xff", 'tally="', "tally=" + "a" * 4_000])
async def test_invalid_cookies(app: App, cookie: str) -> None:
    await logged_in(app)
    answer = await PageClient(app)("GET", "/api/account", headers={"Cookie": cookie})
    assert error(answer) == (401, "not_logged_in")


# --- duration of sessions


async def test_sessions_are_kept_after_a_restart(app: App) -> None:
    browser = await logged_in(app)
    await app.restart()
    assert (await browser("GET", "/api/account")).status == 200


async def test_a_session_lasts_30_days_from_its_last_use(app: App) -> None:
    """A session lasts 30 days and is renewed, with its cookie, at most once a day."""
    browser = await logged_in(app)
    before = dict(browser.cookies)
    app.clock.advance(DAY_S - 1)
    await browser("GET", "/api/account")
    assert browser.set_cookies == []
    app.clock.advance(2)
    await browser("GET", "/api/account")
    assert len(browser.set_cookies) == 1
    assert browser.cookies == before
    assert app.sql("select expires_ms from login") == [(app.clock.wall_ms() + LASTS_MS,)]
    app.clock.advance(30 * DAY_S - 1)
    await app.restart()
    assert (await browser("GET", "/api/account")).status == 200
    app.clock.advance(30 * DAY_S)
    assert (await browser("GET", "/api/account")).status == 401
    await PageClient(app).log_in()
    assert app.sql("select count(*) from login") == [(1,)]


@pytest.mark.slow
async def test_the_oldest_sessions_are_removed(app: App) -> None:
    await account(app)
    browsers = []
    for _ in range(MAX_OF_PERSON + 2):
        app.clock.advance(1)
        browsers.append(PageClient(app))
        assert (await browsers[-1].log_in()).status == 200
    assert app.sql("select count(*) from login") == [(MAX_OF_PERSON,)]
    assert app.sql("select count(*) from device_cookie") == [(MAX_OF_PERSON,)]
    statuses = [(await browser("GET", "/api/account")).status for browser in browsers]
    assert statuses == [401] * 2 + [200] * MAX_OF_PERSON


# --- logout


async def test_logout_ends_this_session_only(app: App) -> None:
    browser_1, browser_2 = await logged_in(app), await logged_in(app)
    value = dict(browser_1.cookies)
    assert (await browser_1("POST", "/api/account/logout")).status == 204
    assert list(browser_1.cookies) == ["tally-device"]
    browser_1.cookies = value
    assert (await browser_1("GET", "/api/account")).status == 401
    assert (await browser_2("GET", "/api/account")).status == 200
    await app.restart()
    assert (await browser_1("GET", "/api/account")).status == 401
    assert error(await browser_1("POST", "/api/account/logout")) == (401, "not_logged_in")


async def test_logout_everywhere_ends_all_sessions_of_the_account(app: App) -> None:
    browser_1, browser_2 = await logged_in(app), await logged_in(app)
    other = await logged_in(app, "other@example.com")
    assert (await browser_1("POST", "/api/account/logout-everywhere")).status == 204
    assert browser_1.cookies == {}
    assert (await browser_2("GET", "/api/account")).status == 401
    assert (await other("GET", "/api/account")).status == 200
    await app.restart()
    assert (await browser_2("GET", "/api/account")).status == 401
    assert (await other("GET", "/api/account")).status == 200


async def test_a_new_password_ends_the_other_sessions(app: App) -> None:
    """204; other sessions end; 403 `wrong_password` with a wrong one."""
    browser_1, browser_2 = await logged_in(app), await logged_in(app)
    sent = {"current": WRONG, "new": "another password"}
    assert error(await browser_1("POST", "/api/account/password", sent)) == (403, "wrong_password")
    assert (await browser_2("GET", "/api/account")).status == 200
    assert (await browser_1("POST", "/api/account/password", sent | {"current": PASSWORD})).status == 204
    assert (await browser_1("GET", "/api/account")).status == 200
    assert (await browser_2("GET", "/api/account")).status == 401
    assert (await PageClient(app).log_in()).status == 401
    assert (await PageClient(app).log_in(password="another password")).status == 200


async def test_a_password_changed_during_a_login(app: App) -> None:
    """A login with the old password that finishes after the change must not create a session."""
    browser, late = await logged_in(app), PageClient(app)
    gate = app.application[AUTH]
    begin_session = gate.begin_session

    async def change_first(*what: Any) -> None:
        gate.begin_session = begin_session
        sent = {"current": PASSWORD, "new": "another password"}
        assert (await browser("POST", "/api/account/password", sent)).status == 204
        await begin_session(*what)

    gate.begin_session = change_first
    assert error(await late.log_in()) == (401, "wrong_credentials")
    assert late.cookies == {}
    assert app.sql("select count(*) from login") == [(1,)]


async def test_attempts_of_the_current_password_are_limited(app: App) -> None:
    browser = await logged_in(app)
    sent = {"current": WRONG, "new": "another password"}
    for _ in range(BROWSER_TRIES):
        assert (await browser("POST", "/api/account/password", sent)).status == 403
    assert error(await browser("POST", "/api/account/password", sent)) == (429, "rate_limited")


async def test_a_password_set_by_the_command_ends_all_sessions(app: App, command: Command) -> None:
    """Sessions end, since the password may have been set because another person has it."""
    browser, other = await logged_in(app), await logged_in(app, "other@example.com")
    words = ("account", "password", OWNER, "--password-stdin", "--db", str(app.db))
    done = await asyncio.to_thread(command, *words, stdin="set by the command\n")
    assert done.returncode == 0, done.stderr
    await app.registry.refresh()
    assert (await browser("GET", "/api/account")).status == 401
    assert (await other("GET", "/api/account")).status == 200
    assert (await browser.log_in(password="set by the command")).status == 200
