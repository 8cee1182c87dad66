"""Login, setup, account area and websites in a real Chromium: forms, errors, keys.

Elements are found by label and role, as assistive technology finds them.
"""

import json
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tally.resources import tally_version
from tally.storage import meta
from tally.storage.database import open_database, transaction
from tests.browser.accessibility import violations, violations_in_each_scheme
from tests.browser.browsers import SIZES, OpenPage, pages_of
from tests.browser.owner import (
    EMAIL,
    PASSWORD,
    add_website,
    ask,
    command,
    log_in,
    send_view,
    set_plan,
    set_up,
    setup_link,
)
from tests.support.app import ROOT
from tests.support.process import Serve, Server, until

# Chromium logs each response of 4xx, which these tests expect.
REFUSAL = "Failed to load resource: the server responded with a status of 4"

MARKUP = "<b>Shop</b><img src=x onerror=\"document.title='hit'\">"


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """Return a function that opens a page in a context of its own, as in another browser."""
    opened: list[Any] = []

    def open_page(size: str = "wide", scheme: str = "light") -> Page:
        opened.append(opens(viewport=SIZES[size], color_scheme=scheme, locale="en-GB"))
        return opened[-1]

    with pages_of(browser) as opens:
        yield open_page
        for page in opened:
            page.problems.discard(REFUSAL)


def test_the_last_step_of_the_setup_is_in_the_language_of_the_page(serve: Serve, browser: Browser) -> None:
    server = serve()
    with pages_of(browser) as opens:
        page = opens(viewport=SIZES["narrow"], locale="de-DE")
        set_up(page, server)
        page.goto(server.url + "/setup")
        page.get_by_label("Domain", exact=True).fill("https://www.example.de:8443/start")
        page.get_by_label("Domain", exact=True).press("Enter")
        lead = page.locator(".lead")
        expect(lead).to_contain_text("Wochen beginnen am Montag, und Werte sind in EUR angegeben")
        expect(lead).to_contain_text("example.de gilt auch für www.example.de")
        expect(lead).to_contain_text("8443")
        for word in (" the ", " is ", " covers "):
            expect(lead).not_to_contain_text(word)
        assert violations(page) == []


@pytest.fixture
def server(serve: Serve) -> Server:
    """Return a server without an account, for one test."""
    return serve()


@pytest.fixture(scope="module")
def unset(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Yield a server without an account, for tests that do not create one."""
    with running(tmp_path_factory.mktemp("unset")) as one:
        yield one


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Yield a server with the owner's account and no website, for tests that leave it so."""
    with running(tmp_path_factory.mktemp("own")) as one:
        sent = {"token": setup_link(one).partition("#")[2], "email": EMAIL, "password": PASSWORD}
        headers = {"Content-Type": "application/json", "Sec-Fetch-Site": "same-origin"}
        answer = one.request("POST", "/api/account/setup", sent, headers)
        assert answer.status == 201, answer.text
        yield one


@pytest.fixture
def emptied(own: Server) -> Iterator[Server]:
    """Yield the same server for a test that adds websites or keys or sets a time zone; remove them after it."""
    yield own
    headers = {"Content-Type": "application/json", "Sec-Fetch-Site": "same-origin"}
    answer = own.request("POST", "/api/account/login", {"email": EMAIL, "password": PASSWORD}, headers)
    headers["Cookie"] = "; ".join(line.partition(";")[0] for line in answer.headers.get_all("Set-Cookie", []))
    for kind in ("websites", "keys"):
        for one in own.request("GET", f"/api/account/{kind}", headers=headers).json["data"]:
            body = {"domain": one["domain"]} if kind == "websites" else None
            answer = own.request("DELETE", f"/api/account/{kind}/{one['id']}", body, headers)
            assert answer.status in (202, 204), answer.text
    assert own.request("PATCH", "/api/account", {"time_zone": None}, headers).status == 200


@contextmanager
def running(folder: Path) -> Iterator[Server]:
    """Yield a server with a database in a directory."""
    server = Server(folder / "analytics.db", (), {}, folder / "stderr.log", [])
    yield server
    server.kill()


def button(page: Any, name: str) -> Any:
    return page.get_by_role("button", name=name, exact=True)


def field(page: Page, label: str) -> Any:
    return page.get_by_label(label, exact=True)


# First run


def test_first_run(server: Server, open_page: OpenPage) -> None:
    """From the printed link to the first event, with a reload between."""
    page = open_page()
    page.goto(setup_link(server))
    field(page, "Email").fill(EMAIL)
    field(page, "Password").fill(PASSWORD)
    expect(page.get_by_text("Strong.")).to_be_visible()
    field(page, "Password").press("Enter")

    expect(page.get_by_role("heading", name="Your first website")).to_be_visible()
    expect(page).to_have_url(server.url + "/setup")
    page.reload()
    expect(field(page, "Domain")).to_be_focused()
    field(page, "Domain").fill("https://www.example.com/start")
    field(page, "Domain").press("Enter")

    expect(page.get_by_text("Waiting for the first event")).to_be_visible()
    expect(page.get_by_text("The leading www. is dropped")).to_be_visible()
    expect(page.get_by_text("Weeks begin on Monday and values are in GBP, as usual in your region.")).to_be_visible()
    (stored,) = ask(page, server, "GET", "/api/account/websites")[1]["data"]
    assert (stored["week_start"], stored["currency"]) == ("monday", "GBP")
    snippet = page.get_by_label("Snippet").inner_text()
    id = re.search(r'data-website-id="([0-9a-f-]{36})"', snippet)
    assert id is not None
    assert f'src="{server.url}/tracker.js"' in snippet
    expect(page.get_by_text("Last checked at")).to_be_visible()
    # The event comes between the answers of a check: it is not taken for an imported one.
    held, sent = list[Route](), list[str]()

    def send_between(route: Route) -> None:
        answer = route.fetch()
        if not sent:
            send_view(server, id[1], "/<i>first</i>")
            sent.append(answer.text())
        route.fulfill(response=answer)
        while held:
            held.pop().continue_()

    page.route("**/events?limit=1", send_between)
    page.route(f"**/api/account/websites/{id[1]}", lambda route: route.continue_() if sent else held.append(route))
    arrived = page.get_by_role("status").filter(has_text="Events are arriving")
    expect(arrived).to_contain_text("/<i>first</i>")
    expect(page.get_by_role("list", name="Steps")).to_contain_text("First event, done")
    page.get_by_role("link", name="Go to dashboard").click()
    # With the view in it, which the dashboard puts there: the plain address may be replaced before this check.
    page.wait_for_url(f"**/websites/{id[1]}?**")


def test_the_snippet_is_copied(emptied: Server, open_page: OpenPage) -> None:
    page = open_page()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    log_in(page, emptied)
    website = add_website(page, emptied)
    page.goto(emptied.url + "/setup")
    button(page, "Copy snippet").click()
    expect(button(page, "Copied")).to_be_visible()
    assert website["id"] in page.evaluate("navigator.clipboard.readText()")


@pytest.mark.parametrize("place", ["/setup", "/websites/{id}", "/websites/{id}/settings/tracking"])
def test_snippets_of_systems(emptied: Server, open_page: OpenPage, place: str) -> None:
    """Each is the one of the docs with the server's address and the website's id; selected and copied by keyboard."""
    page = open_page()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    log_in(page, emptied)
    website = add_website(page, emptied)["id"]
    page.goto(emptied.url + place.format(id=website))
    choice = field(page, "Website built with")
    choice.focus()
    known = json.loads((ROOT / "static" / "shared" / "snippets.json").read_text())
    for snippet in known["snippets"]:
        expect(choice.locator("option:checked")).to_have_text(snippet["name"])
        code = snippet["code"].replace(known["url"], emptied.url).replace(known["website_id"], website)
        expect(page.get_by_label("Snippet")).to_have_text(code, use_inner_text=True)
        expect(page.locator(".snippet")).to_contain_text(snippet.get("file") or snippet.get("menu") or "every page")
        page.keyboard.press("ArrowDown")
    assert violations_in_each_scheme(page) == []
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(button(page, "Copied")).to_be_focused()
    assert page.evaluate("navigator.clipboard.readText()") == code


def test_a_server_without_an_account_shows_where_its_setup_link_is(unset: Server, open_page: OpenPage) -> None:
    page = open_page()
    page.goto(unset.url)
    expect(page.get_by_role("heading", name="Set up Tally")).to_be_visible()
    expect(page.get_by_text("set up Tally: http")).to_be_visible()
    page.goto(unset.url + "/setup#wrong")
    expect(page.get_by_role("heading", name="This link is no longer valid")).to_be_visible()


def test_a_setup_link_works_once(server: Server, open_page: OpenPage) -> None:
    page, other = open_page(), open_page()
    set_up(page, server)
    other.goto(setup_link(server))
    expect(other.get_by_role("heading", name="This setup link has been used")).to_be_visible()
    other.get_by_role("link", name="Log in").click()
    expect(other.get_by_role("heading", name="Log in")).to_be_visible()


def test_the_link_sets_the_password_of_an_account_made_by_the_command(serve: Serve, open_page: OpenPage) -> None:
    server = serve()
    command(server, "website", "add", "example.com")
    page = open_page()
    page.goto(setup_link(server))
    field(page, "Email").fill("me@example.com")
    field(page, "Password").fill(PASSWORD)
    button(page, "Create account").click()
    # The website is there: only its events are missing.
    expect(page.get_by_role("heading", name="Add the snippet")).to_be_visible()


@pytest.mark.parametrize(
    ("email", "password", "label", "words"),
    [
        ("", PASSWORD, "Email", "Enter your email address."),
        ("nobody", PASSWORD, "Email", "Enter an email address such as name@example.com."),
        (EMAIL, "", "Password", "Enter a password."),
        (EMAIL, "nine char", "Password", "Use at least 10 characters."),
        (EMAIL, "x" * 201, "Password", "Use at most 200 characters."),
    ],
    ids=["no address", "bad address", "no password", "short password", "long password"],
)
def test_an_error_is_shown_at_its_field(
    email: str, password: str, label: str, words: str, unset: Server, open_page: OpenPage
) -> None:
    """The field has it as its description, and the focus."""
    page = open_page()
    page.goto(setup_link(unset))
    field(page, "Email").fill(email)
    field(page, "Password").fill(password)
    button(page, "Create account").click()
    wrong = field(page, label)
    expect(wrong).to_be_focused()
    expect(wrong).to_have_attribute("aria-invalid", "true")
    described = (wrong.get_attribute("aria-describedby") or "").split()
    assert words in [page.locator(f"#{id}").inner_text() for id in described]
    wrong.press_sequentially("x")
    expect(wrong).not_to_have_attribute("aria-invalid", "true")


STRENGTHS = (
    ("short", 0),
    ("passwordpassword", 1),
    ("aaaaaaaaaaaaaaa", 1),
    ("1234567890123", 1),
    ("qwertyuiop1987", 1),
    ("owner-owner-2026", 1),
    ("Sommerferien7", 1),
    ("lamp harbour quiet", 2),
    ("quiet lamp over the harbour", 3),
    ("v9#Lq2!xTz81mW", 3),
)


def test_password_strength_is_shown_as_text(unset: Server, open_page: OpenPage) -> None:
    page = open_page()
    page.goto(unset.url + "/setup")
    script = "async ([p, e]) => (await import('/assets/shared/password_strength.js')).strength(p, e)"
    for password, level in STRENGTHS:
        strength = page.evaluate(script, [password, "owner@example.com"])
        assert strength["level"] == level, (password, strength)
        assert (strength["fault"] is not None) == (level == 0), (password, strength)


def test_password_fields_work_with_password_managers(server: Server, open_page: OpenPage) -> None:
    page = open_page()
    page.goto(setup_link(server))
    expect(field(page, "Email")).to_have_attribute("autocomplete", "username")
    new = field(page, "Password")
    expect(new).to_have_attribute("autocomplete", "new-password")
    new.fill(PASSWORD)
    button(page, "Show password").click()
    expect(new).to_have_attribute("type", "text")
    button(page, "Hide password").click()
    expect(new).to_have_attribute("type", "password")
    set_up(page, server)
    page.goto(server.url + "/account")
    expect(field(page, "Current password")).to_have_attribute("autocomplete", "current-password")
    expect(field(page, "New password")).to_have_attribute("autocomplete", "new-password")
    expect(page.locator("input[autocomplete=username]")).to_have_value(EMAIL)
    page.context.clear_cookies()
    page.goto(server.url + "/login")
    expect(field(page, "Password")).to_have_attribute("autocomplete", "current-password")


# Login


def login_page(page: Page, server: Server, path: str = "/login") -> None:
    page.goto(server.url + path)
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()


def type_login(page: Page, password: str = PASSWORD) -> None:
    field(page, "Email").fill(EMAIL)
    field(page, "Password").fill(password)
    field(page, "Password").press("Enter")


def test_the_login_returns_to_the_requested_page(own: Server, open_page: OpenPage) -> None:
    page = open_page()
    page.goto(own.url + "/account/plan")
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    expect(page).to_have_url(own.url + "/login?next=%2Faccount%2Fplan")
    expect(field(page, "Email")).to_be_focused()
    type_login(page)
    expect(page.get_by_role("heading", name="Usage", exact=True)).to_be_visible()
    expect(page).to_have_url(own.url + "/account/plan")


@pytest.mark.parametrize("next", ["https://evil.example/", "//evil.example/", "/\\evil.example", "javascript:alert(1)"])
def test_the_login_redirects_to_no_other_site(next: str, own: Server, open_page: OpenPage) -> None:
    page = open_page()
    login_page(page, own, f"/login?next={next}")
    type_login(page)
    expect(page.get_by_role("heading", name="Websites", exact=True)).to_be_visible()
    expect(page).to_have_url(own.url + "/")


def test_a_wrong_password_is_shown_at_its_field(own: Server, open_page: OpenPage) -> None:
    page = open_page()
    login_page(page, own)
    type_login(page, "not this one")
    password = field(page, "Password")
    expect(password).to_have_attribute("aria-invalid", "true")
    expect(password).to_be_focused()
    type_login(page)
    expect(page.get_by_role("heading", name="Websites", exact=True)).to_be_visible()


def test_after_too_many_attempts_the_login_shows_when_to_retry(server: Server, open_page: OpenPage) -> None:
    page = open_page()
    set_up(page, server)
    page.context.clear_cookies()
    wrong = {"email": EMAIL, "password": "not this one"}
    statuses = [(ask(page, server, "POST", "/api/account/login", wrong))[0] for _ in range(11)]
    assert statuses[0] == 401
    assert statuses[-1] == 429
    login_page(page, server)
    type_login(page)
    words = "Too many failed attempts. Try again after "
    expect(page.get_by_role("alert").filter(has_text=words)).to_be_visible()
    expect(button(page, "Log in")).to_be_disabled()


def test_an_expired_session_redirects_to_the_login_and_back(own: Server, open_page: OpenPage) -> None:
    page = open_page()
    log_in(page, own)
    page.goto(own.url + "/account/keys")
    field(page, "Name").fill("Report")
    page.context.clear_cookies()
    field(page, "Name").press("Enter")
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    type_login(page)
    expect(page.get_by_role("heading", name="API keys", exact=True)).to_be_visible()


def test_a_form_is_sent_once(emptied: Server, open_page: OpenPage) -> None:
    """However often the button is pressed during the request."""
    page = open_page()
    log_in(page, emptied)
    page.goto(emptied.url + "/account/keys")
    sent: list[Any] = []

    def hold(route: Any) -> None:
        if route.request.method == "POST":
            sent.append(route)
        else:
            route.continue_()

    page.route("**/api/account/keys", hold)
    field(page, "Name").fill("Report")
    field(page, "Name").press("Enter")
    expect(button(page, "Creating key…")).to_have_attribute("aria-disabled", "true")
    field(page, "Name").press("Enter")
    button(page, "Creating key…").click(force=True)
    # Playwright receives requests only while a command runs.
    until(lambda: page.evaluate("1") and sent)
    sent[0].continue_()
    expect(page.get_by_text("Key created: Report")).to_be_visible()
    assert len(sent) == 1
    expect(page.get_by_role("row")).to_have_count(2)


def test_a_server_that_cannot_be_reached_is_shown_as_text(own: Server, open_page: OpenPage) -> None:
    page = open_page()
    log_in(page, own)
    page.goto(own.url + "/account")
    page.route("**/api/account", lambda route: route.abort() if route.request.method == "PATCH" else route.continue_())
    button(page, "Save time zone").click()
    expect(page.get_by_role("alert").filter(has_text="The server does not respond")).to_be_visible()
    page.unroute("**/api/account")
    button(page, "Save time zone").click()
    expect(page.get_by_text("Time zone saved.")).to_be_visible()
    page.problems.discard("net::ERR_FAILED")


# API keys


def test_a_key_is_shown_once_reads_and_is_revoked(emptied: Server, open_page: OpenPage) -> None:
    page = open_page()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    log_in(page, emptied)
    website = add_website(page, emptied)
    page.goto(emptied.url)
    page.get_by_role("navigation", name="Websites and account").get_by_text(EMAIL).click()
    page.get_by_role("link", name="API keys").click()
    field(page, "Name").fill(MARKUP)
    button(page, "Create key").click()

    shown = page.get_by_label(f"Value of the key {MARKUP}")
    expect(shown).to_be_focused()
    key = shown.input_value()
    button(page, "Copy key").click()
    expect(button(page, "Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == key
    bearer = {"Authorization": f"Bearer {key}"}
    read = emptied.request("GET", "/api/v1/websites", headers=bearer)
    assert [one["id"] for one in read.json["data"]] == [website["id"]]

    page.reload()
    row = page.get_by_role("row").filter(has_text=key[:12])
    expect(row).to_contain_text(MARKUP)
    assert key not in page.content()
    row.get_by_role("button", name="Revoke key").click()
    expect(button(page, "Cancel")).to_be_focused()
    page.keyboard.press("Escape")
    expect(row).to_be_visible()
    row.get_by_role("button", name="Revoke key").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke key").click()
    expect(page.get_by_text("No keys yet.")).to_be_visible()
    assert emptied.request("GET", "/api/v1/websites", headers=bearer).status == 401
    expect(page).to_have_title("API keys · Tally")


def test_the_options_of_a_key(emptied: Server, open_page: OpenPage) -> None:
    """They are one collapsed part, whose summary says what is chosen."""
    page = open_page()
    log_in(page, emptied)
    first, second = add_website(page, emptied), add_website(page, emptied, "other.example.org")
    page.goto(emptied.url + "/account/keys")
    summary = page.locator("summary").filter(has_text="Options: Reports and single events · All websites · 365 days")
    expect(summary).to_be_visible()
    for label in ("Allows", "Expires after"):
        expect(field(page, label)).to_be_hidden()
    field(page, "Name").fill("default")
    field(page, "Name").press("Enter")
    expect(page.get_by_label("Value of the key default")).to_be_focused()
    button(page, "Done").click()

    summary.focus()
    summary.press("Enter")
    field(page, "Allows").select_option("Reports")
    field(page, first["name"]).check()
    field(page, "Expires after").select_option("never")
    expect(page.get_by_text("Options: Reports · 1 website · never")).to_be_visible()
    assert violations_in_each_scheme(page) == []
    field(page, "Name").fill("wall")
    button(page, "Create key").click()
    expect(page.get_by_label("Value of the key wall")).to_be_focused()
    expect(page.get_by_role("row").filter(has_text="wall")).to_contain_text(f"Reports · {first['name']}")
    expect(page.get_by_role("row").filter(has_text="default")).to_contain_text("Expires on")
    default, wall = ask(page, emptied, "GET", "/api/account/keys")[1]["data"]
    assert (default["scopes"], default["websites"]) == (["read"], None)
    lasts = datetime.fromisoformat(default["expires_at"]) - datetime.fromisoformat(default["created_at"])
    assert abs(lasts - timedelta(days=365)) < timedelta(minutes=1)
    assert (wall["scopes"], wall["websites"], wall["expires_at"]) == (["reports"], [first["id"]], None)
    assert second["id"] not in wall["websites"]
    button(page, "Done").click()
    expect(summary).to_be_visible()


@pytest.mark.parametrize("size", ["narrow", "wide"])
def test_a_new_key_comes_with_what_an_assistant_needs(emptied: Server, open_page: OpenPage, size: str) -> None:
    """What is copied answers; a key that reads no figures has none of it."""
    page = open_page(size)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    log_in(page, emptied)
    page.goto(emptied.url + "/account/keys")
    field(page, "Name").fill("assistant")
    button(page, "Create key").click()
    key = page.get_by_label("Value of the key assistant").input_value()
    summary = page.locator("summary").filter(has_text="Set up an assistant (MCP)")
    summary.focus()
    summary.press("Enter")
    assert violations_in_each_scheme(page) == []
    button(page, "Copy for Claude Code").click()
    command = page.evaluate("navigator.clipboard.readText()")
    assert command == (
        f'claude mcp add --transport http tally {emptied.url}/mcp --header "Authorization: Bearer {key}"'
    )
    button(page, "Copy for Cursor").click()
    (cursor,) = json.loads(page.evaluate("navigator.clipboard.readText()"))["mcpServers"].values()
    button(page, "Copy for VS Code").click()
    (code,) = json.loads(page.evaluate("navigator.clipboard.readText()"))["servers"].values()
    assert (code.pop("type"), code) == ("http", cursor)
    sent = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    answer = emptied.request(
        "POST",
        cursor["url"].removeprefix(emptied.url),
        sent,
        headers=cursor["headers"] | {"Content-Type": "application/json"},
    )
    assert any(tool["name"] == "get_stats" for tool in answer.json["result"]["tools"])
    button(page, "Done").click()
    page.locator("summary").filter(has_text="Options:").click()
    field(page, "Allows").select_option("Importing files")
    field(page, "Name").fill("files")
    button(page, "Create key").click()
    expect(page.get_by_label("Value of the key files")).to_be_visible()
    expect(summary).to_have_count(0)


def test_keys_that_expire_soon_are_marked(emptied: Server, open_page: OpenPage) -> None:
    page = open_page("narrow")
    log_in(page, emptied)
    for days in (1, 14, 15):
        body = {"name": f"for {days} days", "expires_days": days}
        assert ask(page, emptied, "POST", "/api/account/keys", body)[0] == 201
    with closing(open_database(emptied.db, create=False)) as connection, transaction(connection):
        connection.execute("update api_key set expires_ms = 0 where name = 'for 1 days'")
    until(lambda: ask(page, emptied, "GET", "/api/account/keys")[1]["data"][0]["expires_at"].startswith("1970"))
    page.goto(emptied.url + "/account/keys")
    expect(page.get_by_role("row").filter(has_text="for 1 days")).to_contain_text("Expired on 1 Jan 1970")
    expect(page.get_by_role("row").filter(has_text="for 14 days")).to_contain_text("Expires soon:")
    expect(page.get_by_role("row").filter(has_text="for 15 days")).to_contain_text("Expires on")
    assert violations_in_each_scheme(page) == []


def test_the_free_plan_shows_why_it_has_no_keys(server: Server, open_page: OpenPage) -> None:
    page = open_page()
    set_up(page, server)
    set_plan(page, server, "free")
    page.goto(server.url + "/account/keys")
    expect(page.get_by_text("API keys are part of the pro and business plans")).to_be_visible()
    expect(page.get_by_text(f"analytics-server account plan {EMAIL} pro")).to_be_visible()
    expect(button(page, "Create key")).to_have_count(0)


def test_usage_is_shown_with_the_limit(serve: Serve, open_page: OpenPage) -> None:
    server = serve("--free-events", "2")
    page = open_page()
    set_up(page, server)
    set_plan(page, server, "free")
    website = add_website(page, server)
    send_view(server, website["id"])
    page.goto(server.url + "/account/plan")
    meter = page.get_by_role("meter", name="Events used this month")
    expect(meter).to_have_attribute("aria-valuetext", "1 of 2")
    send_view(server, website["id"])
    page.reload()
    expect(page.get_by_text("The monthly event limit is reached")).to_be_visible()


# The account


def test_all_keys_and_all_share_links_are_revoked_apart_from_the_password(server: Server, open_page: OpenPage) -> None:
    """Each with a question, whose safe answer has the focus; by keyboard alone."""
    page = open_page()
    set_up(page, server)
    path = f"/api/account/websites/{add_website(page, server)['id']}/share-links"
    link = ask(page, server, "POST", path, {"name": "Readers"})[1]["data"]["path"]
    for name in ("report", "export"):
        ask(page, server, "POST", "/api/account/keys", {"name": name})

    def opened() -> tuple[int, int]:
        return len(ask(page, server, "GET", "/api/account/keys")[1]["data"]), server.request(
            "GET", f"/api{link}"
        ).status

    page.goto(server.url + "/account")
    expect(page.get_by_role("heading", name="Share links")).to_be_visible()
    expect(page.get_by_role("checkbox")).to_have_count(0)
    assert violations(page) == []
    revoke = button(page, "Revoke all share links")
    revoke.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog").get_by_role("button", name="Cancel")).to_be_focused()
    page.keyboard.press("Enter")
    assert opened() == (2, 200)
    expect(revoke).to_be_focused()
    page.keyboard.press("Enter")
    reach(page, "Revoke all share links")
    page.keyboard.press("Enter")
    expect(page.get_by_text("No website has a share link.")).to_be_focused()
    assert opened() == (2, 404)
    page.goto(server.url + "/account/keys")
    button(page, "Revoke all API keys").click()
    button(page.get_by_role("dialog"), "Revoke all API keys").click()
    expect(page.get_by_text("No keys yet.")).to_be_visible()
    expect(field(page, "Name")).to_be_focused()
    assert opened() == (0, 404)


def test_a_password_is_changed_and_other_browsers_are_logged_out(server: Server, open_page: OpenPage) -> None:
    page, other = open_page(), open_page()
    set_up(page, server)
    log_in(other, server)
    other.goto(server.url + "/account")
    page.goto(server.url + "/account")
    field(page, "Current password").fill("not this one")
    field(page, "New password").fill("another lamp on the pier")
    button(page, "Change password").click()
    expect(field(page, "Current password")).to_have_attribute("aria-invalid", "true")
    expect(field(page, "Current password")).to_be_focused()
    field(page, "Current password").fill(PASSWORD)
    button(page, "Change password").click()
    expect(page.get_by_text("Password changed.")).to_be_visible()
    expect(field(page, "New password")).to_have_value("")
    page.reload()
    expect(page.get_by_role("heading", name="Account", exact=True)).to_be_visible()
    button(other, "Save time zone").click()
    expect(other.get_by_role("heading", name="Log in")).to_be_visible()
    type_login(other, "another lamp on the pier")
    expect(other.get_by_role("heading", name="Account", exact=True)).to_be_visible()


def test_logging_out_everywhere_ends_the_session_of_another_browser(own: Server, open_page: OpenPage) -> None:
    page, other = open_page(), open_page()
    log_in(page, own)
    log_in(other, own)
    other.goto(own.url + "/account/plan")
    page.goto(own.url + "/account")
    button(page, "Log out everywhere").click()
    page.get_by_role("dialog").get_by_role("button", name="Log out everywhere").click()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    other.get_by_role("link", name="Account", exact=True).first.click()
    expect(other.get_by_role("heading", name="Log in")).to_be_visible()


def test_after_a_logout_the_back_button_shows_no_page(own: Server, open_page: OpenPage) -> None:
    page = open_page()
    log_in(page, own)
    page.goto(own.url)
    page.get_by_role("navigation", name="Websites and account").get_by_text(EMAIL).click()
    button(page, "Log out").click()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    page.goto(own.url + "/account")
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()


def test_the_time_zone_is_stored(emptied: Server, open_page: OpenPage) -> None:
    page = open_page()
    log_in(page, emptied)
    page.goto(emptied.url + "/account")
    zone = field(page, "Time zone of reports")
    expect(zone.locator("option").first).to_have_text("Browser time zone (Europe/Berlin)")
    zone.select_option("Asia/Kathmandu")
    button(page, "Save time zone").click()
    expect(page.get_by_text("Time zone saved.")).to_be_visible()
    page.reload()
    expect(zone).to_have_value("Asia/Kathmandu")


def test_the_version_links_to_its_changes(own: Server, open_page: OpenPage) -> None:
    page = open_page()
    log_in(page, own)
    page.goto(own.url + "/account")
    expect(page.get_by_text(f"Tally {tally_version()}")).to_be_visible()
    with page.expect_popup() as opened:
        page.get_by_role("link", name="Changes of this release").click()
    expect(opened.value.get_by_text("# Changelog")).to_be_visible()
    assert opened.value.url == own.url + "/api/account/changelog"


# Websites


def test_a_website_is_added_renamed_and_deleted(emptied: Server, open_page: OpenPage) -> None:
    page = open_page()
    log_in(page, emptied)
    page.goto(emptied.url)
    expect(page.get_by_role("heading", name="No websites yet")).to_be_visible()
    page.get_by_role("main").get_by_role("link", name="Add website").click()
    field(page, "Domain").fill("com")
    field(page, "Domain").press("Enter")
    expect(field(page, "Domain")).to_have_attribute("aria-invalid", "true")
    field(page, "Domain").fill("example.com")
    button(page, "Add website").click()
    expect(page.get_by_role("heading", name="Add the snippet to example.com")).to_be_visible()
    page.get_by_role("dialog").press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    card = page.get_by_role("main").get_by_role("listitem").filter(has_text="example.com")
    expect(card).to_contain_text("No events yet.")

    _, answer = ask(page, emptied, "GET", "/api/account/websites")
    id = answer["data"][0]["id"]
    for path in ("/", "/pricing"):
        send_view(emptied, id, path)
    page.goto(emptied.url)
    expect(card).to_contain_text("Pageviews2")
    expect(card).to_contain_text("1 now")

    card.get_by_role("link", name="Settings of example.com").click()
    field(page, "Name").fill(MARKUP)
    field(page, "Domain").fill("www.example.org")
    button(page, "Save settings").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Settings of {MARKUP}")
    expect(field(page, "Domain")).to_have_value("example.org")
    expect(page.get_by_role("navigation", name="Websites and account")).to_contain_text(MARKUP)
    expect(page).to_have_title(f"General · Settings of {MARKUP} · Tally")

    page.get_by_role("link", name="Danger zone").click()
    button(page, "Delete website and its 2 events").click()
    dialog = page.get_by_role("dialog")
    # What arrives while the dialog is open is said before it is deleted.
    send_view(emptied, id, "/late", "example.org")
    until(lambda: ask(page, emptied, "GET", f"/api/account/websites/{id}")[1]["data"]["events"] == 3)
    dialog.get_by_label("Type example.org to confirm").fill("example.org")
    dialog.get_by_role("button", name="Delete website and its 2 events").press("Enter")
    expect(dialog.get_by_role("button", name="Delete website and its 3 events")).to_be_visible()
    expect(dialog.get_by_role("alert").filter(has_text="Events have arrived")).to_be_visible()
    expect(dialog.get_by_label("Type example.org to confirm")).to_have_value("example.org")
    assert ask(page, emptied, "GET", f"/api/account/websites/{id}")[0] == 200
    dialog.get_by_label("Type example.org to confirm").fill("example.com")
    dialog.get_by_role("button", name="Delete website").click()
    expect(dialog.get_by_text("This is not example.org.")).to_be_visible()
    dialog.get_by_label("Type example.org to confirm").fill("example.org")
    dialog.get_by_role("button", name="Delete website").click()
    expect(page.get_by_role("heading", name="No websites yet")).to_be_visible()
    event = {"type": "pageview", "website_id": id, "url": "https://example.org/"}
    assert emptied.request("POST", "/api/collect", event).status == 404
    page.goto(f"{emptied.url}/websites/{id}/settings")
    expect(page.get_by_role("heading", name="Website not found")).to_be_visible()


def test_a_domain_is_added_again_only_after_confirmation(emptied: Server, open_page: OpenPage) -> None:
    page = open_page()
    log_in(page, emptied)
    add_website(page, emptied)
    page.goto(f"{emptied.url}/#add")
    field(page, "Domain").fill("example.com")
    button(page, "Add website").click()
    expect(page.get_by_text("You already have a website with the domain example.com.")).to_be_visible()
    assert len(ask(page, emptied, "GET", "/api/account/websites")[1]["data"]) == 1
    button(page, "Add website").click()
    expect(page.get_by_role("heading", name="Add the snippet to example.com")).to_be_visible()
    assert len(ask(page, emptied, "GET", "/api/account/websites")[1]["data"]) == 2


def test_a_demo_has_a_notice_on_its_pages_and_at_the_login(server: Server, open_page: OpenPage) -> None:
    page = open_page()
    set_up(page, server)
    page.goto(server.url)
    expect(page.get_by_role("heading", name="No websites yet")).to_be_visible()
    banner = page.get_by_role("complementary", name="Demo data")
    expect(banner).to_have_count(0)
    with closing(open_database(server.db, create=False)) as connection:
        meta.write(connection, meta.DEMO, "2026-11-21T11:00:00.000+00:00")
    until(lambda: ask(page, server, "GET", "/api/account/state")[1]["data"]["demo"])
    page.goto(server.url)
    expect(banner).to_have_text("Demo data All traffic shown here is generated.")
    expect(page.get_by_role("heading", name="No websites yet")).to_be_visible()
    assert violations(page) == []
    ask(page, server, "POST", "/api/account/logout")
    page.goto(f"{server.url}/login")
    expect(page.get_by_text("This server shows demo data.")).to_be_visible()


def test_allowed_origins(emptied: Server, open_page: OpenPage) -> None:
    page = open_page()
    log_in(page, emptied)
    website = add_website(page, emptied)
    page.goto(f"{emptied.url}/websites/{website['id']}/settings/tracking")
    other = field(page, "Origins")
    other.fill("partner.example")
    button(page, "Save origins").click()
    expect(other).to_have_attribute("aria-invalid", "true")
    other.fill("https://partner.example\ncapacitor://localhost")
    button(page, "Save origins").click()
    expect(page.get_by_text("Origins saved.")).to_be_visible()
    send_view(emptied, website["id"], domain="partner.example")
    page.reload()
    expect(other).to_have_value("capacitor://localhost\nhttps://partner.example")


def test_exclusions(emptied: Server, open_page: OpenPage) -> None:
    page = open_page()
    log_in(page, emptied)
    website = add_website(page, emptied)
    page.goto(f"{emptied.url}/websites/{website['id']}/settings/exclusions")
    addresses = page.get_by_role("region", name="Excluded addresses")
    rows = addresses.locator("tbody tr")
    addresses.get_by_role("button", name="Add to Excluded addresses").click()
    dialog = page.get_by_role("dialog")
    typed = dialog.get_by_label("Excluded addresses")
    expect(typed).to_be_focused()
    button(dialog, "Add").click()
    expect(dialog.get_by_text("Enter at least one.")).to_be_visible()
    typed.fill("203.0.113.7/24")
    button(dialog, "Add").click()
    expect(typed).to_have_attribute("aria-invalid", "true")
    expect(dialog.get_by_text("write 203.0.113.0/24")).to_be_visible()
    typed.fill("203.0.113.0/24 198.51.100.7")
    note = "<b>a</b><img src=x onerror=alert(1)>"
    dialog.get_by_label("Note").fill(note)
    assert violations(page) == []
    button(dialog, "Add").click()
    expect(dialog).to_have_count(0)
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text(note)
    assert page.locator("main b, main img").count() == 0
    # The account has one person, who knows who has added them.
    expect(addresses.get_by_text("Added by")).to_have_count(0)
    page.get_by_role("button", name="Add my address (127.0.0.1)").click()
    expect(rows).to_have_count(3)
    expect(page.get_by_role("button", name="Add my address")).to_have_count(0)
    addresses.get_by_role("button", name="Remove 198.51.100.7").press("Enter")
    expect(rows).to_have_count(2)
    countries = page.get_by_role("region", name="Excluded countries")
    for name in ("Germany", "Austria"):
        countries.get_by_role("button", name="Add to Excluded countries").click()
        dialog.get_by_label("Country").select_option(name)
        button(dialog, "Add").click()
        expect(countries.get_by_role("row", name=name)).to_be_visible()
    page.get_by_label("Count the listed countries only").check()
    button(page, "Save exclusions").click()
    expect(page.get_by_role("region", name="Countries to count").locator("tbody tr")).to_have_count(2)
    page.reload()
    expect(rows.locator("th")).to_have_text(["127.0.0.1", "203.0.113.0/24"])
    expect(page.get_by_label("Count the listed countries only")).to_be_checked()
    assert violations(page) == []
    send_view(emptied, website["id"])
    rejected = f"/api/account/websites/{website['id']}/rejected?period=today"
    until(lambda: ask(page, emptied, "GET", rejected)[1]["data"]["events"])
    page.locator("#main").get_by_role("link", name="Rejected events").click()
    expect(page.get_by_text("The visitor's address is in the list of excluded addresses.")).to_be_visible()
    page.get_by_role("link", name="Exclusions", exact=True).click()
    expect(rows).to_have_count(2)


def test_markup_in_names_is_shown_as_text(emptied: Server, open_page: OpenPage) -> None:
    page = open_page()
    log_in(page, emptied)
    website = add_website(page, emptied, name=MARKUP)
    ask(page, emptied, "POST", "/api/account/keys", {"name": MARKUP})
    for path in ("/", f"/websites/{website['id']}/settings", "/account/keys"):
        page.goto("about:blank")
        page.goto(emptied.url + path)
        expect(page.get_by_role("main").get_by_text(MARKUP).first).to_be_visible()
        assert page.locator("main b, main img, nav b, nav img").count() == 0
        assert page.title() != "hit"


# Keyboard and accessibility


def test_by_keyboard_alone(emptied: Server, open_page: OpenPage) -> None:
    """Log in, add a website, close the dialog, open the user menu, go to the keys, make one, revoke it."""
    page = open_page()
    login_page(page, emptied)
    keys = page.keyboard
    keys.type(EMAIL)
    keys.press("Tab")
    keys.type(PASSWORD)
    keys.press("Enter")
    expect(page.get_by_role("heading", name="No websites yet")).to_be_visible()
    reach(page, "Add website")
    keys.press("Enter")
    expect(field(page, "Domain")).to_be_focused()
    keys.type("example.com")
    keys.press("Enter")
    expect(page.get_by_text("Waiting for the first event")).to_be_visible()
    reach(page, "Copy snippet")
    keys.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    reach(page, EMAIL)
    keys.press("Enter")
    expect(page.get_by_role("link", name="API keys")).to_be_visible()
    reach(page, "API keys")
    keys.press("Enter")
    expect(page.get_by_role("heading", name="API keys", exact=True)).to_be_visible()
    expect(page.get_by_role("main")).to_be_focused()
    reach(page, "Name")
    keys.type("Report")
    keys.press("Enter")
    expect(page.get_by_label("Value of the key Report")).to_be_focused()
    reach(page, "Done")
    keys.press("Enter")
    expect(field(page, "Name")).to_be_focused()
    reach(page, "Revoke key Report")
    keys.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    reach(page, "Revoke key")
    keys.press("Enter")
    expect(page.get_by_text("No keys yet.")).to_be_visible()
    expect(field(page, "Name")).to_be_focused()


NAME_OF_FOCUS = """() => { const one = document.activeElement;
  return one.getAttribute("aria-label") || one.labels?.[0]?.textContent || one.textContent.trim(); }"""


def reach(page: Page, name: str) -> None:
    """Press Tab until the element of that name has the focus."""
    seen: list[str] = []
    for _ in range(40):
        page.keyboard.press("Tab")
        seen.append(page.evaluate(NAME_OF_FOCUS))
        if seen[-1] == name:
            return
    raise AssertionError(f"{name} is not reached by Tab: {seen}")


@pytest.mark.parametrize(("size", "scheme"), [("wide", "light"), ("narrow", "dark")])
def test_axe_finds_nothing(size: str, scheme: str, serve: Serve, open_page: OpenPage) -> None:
    """On any of these pages, with errors, dialogs and notices; none scrolls sideways."""
    server = serve("--free-events", "2")
    page = open_page(size, scheme)
    found: list[str] = []

    def check(what: str) -> None:
        page.get_by_text(what).first.wait_for()
        found.extend(violations(page))

    page.goto(server.url)
    check("it prints a setup link")
    page.goto("about:blank")
    page.goto(setup_link(server))
    check("Create the owner account")
    field(page, "Password").fill("passwordpassword")
    check("Weak:")
    button(page, "Create account").click()
    check("Enter your email address.")
    set_up(page, server)
    page.goto(server.url)
    check("No websites yet")
    page.goto(server.url + "/setup")
    check("Your first website")
    website = add_website(page, server)
    page.reload()
    check("Last checked at")
    page.goto(server.url)
    check("No events yet.")
    send_view(server, website["id"])
    page.goto(server.url + "/setup")
    page.goto(server.url)
    check("1 now")
    page.get_by_role("main").get_by_role("link", name="Add website").click()
    check("optional")
    settings = f"{server.url}/websites/{website['id']}/settings"
    page.goto(f"{settings}/sharing")
    check("Anyone with a link")
    button(page, "Create link").click()
    check("The images need no password")
    button(page, "Create link").click()
    check("Enter a name.")
    field(page, "Name").fill("Readers")
    button(page, "Create link").click()
    check("without a password")
    page.goto(f"{settings}/tracking")
    button(page, "Check for events").click()
    check("Events are arriving")
    page.goto(f"{settings}/danger")
    button(page, "Delete website and its 1 event").click()
    button(page.get_by_role("dialog"), "Delete website and its 1 event").click()
    check("Type example.com here.")
    page.goto(server.url + "/account/keys")
    check("No keys yet.")
    field(page, "Name").fill("Report")
    button(page, "Create key").click()
    check("It is shown only once")
    page.get_by_role("button", name="Revoke key").click()
    check("This cannot be undone.")
    page.goto(server.url + "/account")
    check("A session expires")
    page.goto(server.url + "/account/plan")
    check("No limit.")
    set_plan(page, server, "free")
    send_view(server, website["id"])
    page.reload()
    check("The monthly event limit is reached")
    page.goto(server.url + "/account/keys")
    check("No API keys on this plan")
    page.context.clear_cookies()
    login_page(page, server)
    page.get_by_text("Forgot your password?").click()
    type_login(page, "not this one")
    check("Incorrect email or password")
    assert found == []
