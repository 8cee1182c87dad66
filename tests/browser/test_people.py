"""The pages of people: nothing is drawn for one person alone; inviting, joining, roles, leaving, a link to sign in."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.accessibility import violations, violations_in_each_scheme
from tests.browser.browsers import OpenPage, pages_with_refusals
from tests.browser.owner import EMAIL, PASSWORD, add_website, ask, command, send_view, set_up
from tests.support.process import Serve, Server

ANN = "ann@example.com"


@pytest.fixture
def server(serve: Serve) -> Server:
    """Return a server of its own."""
    return serve()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """Return a function that opens a page in a context of its own, as in another browser."""
    with pages_with_refusals(browser) as opens:
        yield opens


def invite(page: Page, server: Server, role: str = "viewer", email: str = ANN) -> str:
    """Return the path of a new invitation, made by HTTP."""
    status, answer = ask(page, server, "POST", "/api/account/invitations", {"email": email, "role": role})
    assert status == 201, answer
    return "/invitation#" + str(answer["data"]["link"].partition("#")[2])


def join(page: Page, server: Server, path: str) -> None:
    """Accept an invitation on its page, as a new person."""
    # Where the page is shown already, it would be drawn again while it is filled in.
    page.goto("about:blank")
    page.goto(server.url + path)
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_role("button", name="Join").click()
    expect(page).to_have_url(server.url + "/")


def test_one_person_alone_notices_nothing(server: Server, open_page: OpenPage) -> None:
    """No role, no list and no column of people on any page; only the form that invites somebody."""
    page = open_page()
    set_up(page, server)
    website = add_website(page, server)
    for path in (
        "/",
        f"/websites/{website['id']}",
        f"/websites/{website['id']}/settings",
        "/account",
        "/account/keys",
        "/account/plan",
    ):
        page.goto(server.url + path)
        page.wait_for_load_state("networkidle")
        main = page.locator("main")
        expect(main).not_to_be_empty()
        for word in ("Role", "Owner", "Viewer", "Created by", "Leave", "People with access"):
            expect(main.get_by_text(word, exact=True)).to_have_count(0)
        expect(page.get_by_role("combobox", name="Account")).to_have_count(0)
    page.goto(server.url + "/account/people")
    expect(page.get_by_role("button", name="Invite", exact=True)).to_be_visible()
    page.wait_for_load_state("networkidle")
    expect(page.get_by_role("table")).to_have_count(0)
    expect(page.get_by_text("Leave", exact=True)).to_have_count(0)


def test_somebody_is_invited_joins_and_is_removed(server: Server, open_page: OpenPage) -> None:
    page, guest = open_page(), open_page()
    set_up(page, server)
    first, second = add_website(page, server), add_website(page, server, "second.example")
    page.goto(server.url + "/account/people")
    page.get_by_label("Email").fill(ANN)
    page.get_by_label("Role", exact=True).select_option("editor")
    expect(page.get_by_text("Also saves annotations")).to_be_visible()
    page.get_by_role("checkbox", name="second.example").uncheck()
    page.get_by_role("button", name="Invite", exact=True).click()
    link = page.get_by_label(f"Invitation link for {ANN}").input_value()
    assert link.startswith(f"{server.url}/invitation#")
    expect(page.get_by_role("heading", name="Open invitations")).to_be_visible()
    guest.goto(link)
    expect(guest.get_by_text(f"{EMAIL} invites {ANN}")).to_be_visible()
    join(guest, server, link.removeprefix(server.url))
    expect(guest.get_by_text("example.com").first).to_be_visible()
    expect(guest.get_by_text("second.example")).to_have_count(0)
    guest.goto(f"{server.url}/websites/{first['id']}")
    expect(guest.get_by_role("link", name="Overview")).to_be_visible()
    expect(guest.get_by_role("link", name="Settings").first).to_be_visible()
    guest.goto(server.url + "/account")
    expect(guest.get_by_role("link", name="API keys")).to_have_count(0)
    page.reload()
    page.get_by_label(f"Role of {ANN}").select_option("admin")
    expect(page.get_by_text(f"Changed: {ANN}")).to_be_visible()
    guest.goto(f"{server.url}/websites/{second['id']}")
    expect(guest.get_by_role("link", name="Settings").first).to_be_visible()
    page.get_by_role("button", name=f"Remove {ANN}").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(page.get_by_role("table")).to_have_count(0)
    guest.goto(server.url + "/")
    expect(guest).to_have_url(server.url + "/login")


def test_the_websites_of_a_person_are_chosen(server: Server, open_page: OpenPage) -> None:
    page, guest = open_page(), open_page()
    set_up(page, server)
    add_website(page, server)
    second = add_website(page, server, "second.example")
    join(guest, server, invite(page, server))
    page.goto(server.url + "/account/people")
    page.get_by_role("button", name="All websites").click()
    page.get_by_role("dialog").get_by_role("checkbox", name="example.com", exact=True).uncheck()
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    expect(page.get_by_role("button", name="1 website")).to_be_visible()
    assert [one["id"] for one in ask(guest, server, "GET", "/api/account/websites")[1]["data"]] == [second["id"]]


def test_a_used_invitation_and_another_person_are_refused(server: Server, open_page: OpenPage) -> None:
    page, guest = open_page(), open_page()
    set_up(page, server)
    path = invite(page, server)
    page.goto(server.url + path)
    expect(page.get_by_text(f"You are logged in as {EMAIL}")).to_be_visible()
    join(guest, server, path)
    late = open_page()
    late.goto(server.url + path)
    expect(late.get_by_role("heading", name="This invitation is no longer valid")).to_be_visible()


def test_a_person_who_has_a_password_logs_in_first(server: Server, open_page: OpenPage) -> None:
    page, ann = open_page(), open_page()
    set_up(page, server)
    command(server, "account", "create", ANN, "--password-stdin", stdin=PASSWORD + "\n")
    path = invite(page, server, "admin")
    ann.goto(server.url + path)
    ann.get_by_role("link", name="Log in").click()
    # The address of the login page is requested when it is reloaded: the token is in its hash too.
    expect(ann).to_have_url(f"{server.url}/login#next={quote(path, safe='')}")
    ann.reload()
    ann.get_by_label("Email").fill(ANN)
    ann.get_by_label("Password", exact=True).fill(PASSWORD)
    ann.get_by_role("button", name="Log in").click()
    ann.get_by_role("button", name="Join").click()
    expect(ann).to_have_url(server.url + "/")
    members = ask(page, server, "GET", "/api/account/people")[1]["data"]
    assert [(one["email"], one["role"]) for one in members] == [(EMAIL, "owner"), (ANN, "admin")]


def test_a_link_of_the_command_signs_in_once(server: Server, open_page: OpenPage) -> None:
    page = open_page()
    set_up(page, server)
    path = command(server, "person", "link", EMAIL).partition("/login#")[2]
    for at, expected in enumerate(("/", "/login")):
        fresh = open_page()
        fresh.goto(f"{server.url}/login#{path}")
        expect(fresh).to_have_url(server.url + expected)
        if at:
            expect(fresh.get_by_text("This sign-in link is no longer valid.")).to_be_visible()


@pytest.mark.parametrize(("size", "scheme"), [("wide", "light"), ("narrow", "dark")])
def test_axe_finds_nothing(size: str, scheme: str, server: Server, open_page: OpenPage) -> None:
    page, guest = open_page(size, scheme), open_page(size, scheme)
    set_up(page, server)
    add_website(page, server)
    add_website(page, server, "second.example")
    path = invite(page, server)
    found: list[str] = []
    guest.goto(server.url + path)
    guest.get_by_role("button", name="Join").wait_for()
    found += violations(guest)
    page.goto(server.url + path)
    page.get_by_text("You are logged in as").wait_for()
    found += violations(page)
    join(guest, server, path)
    page.goto(server.url + "/account/people")
    page.get_by_role("table").wait_for()
    page.get_by_label("Email").fill("bob@example.com")
    page.get_by_role("button", name="Invite", exact=True).click()
    page.get_by_label("Invitation link for bob@example.com").wait_for()
    found += violations(page)
    page.get_by_role("button", name="All websites").click()
    page.get_by_role("dialog").wait_for()
    found += violations(page)
    assert found == []


def test_activity_is_shown_where_there_are_several_people(server: Server, open_page: OpenPage) -> None:
    """Hidden for one person alone; then all lines in pages of 50, by action, person and website, and a download."""
    page, guest = open_page(), open_page()
    set_up(page, server)
    website, second = add_website(page, server), add_website(page, server, "second.example")
    page.goto(server.url + "/account")
    tabs = page.get_by_role("navigation", name="Account")
    expect(tabs.get_by_role("link", name="API keys")).to_be_visible()
    expect(tabs.get_by_role("link", name="Activity")).to_have_count(0)
    join(guest, server, invite(page, server, "admin"))
    for at in range(50):
        if at % 18 == 0:
            # More than 20 lines of a person within a second become one.
            time.sleep(1.1)
        sent = {"name": f"Segment {at}", "filters": ["filter_country=DE"]}
        path = f"/api/account/websites/{website['id']}/segments"
        assert ask(guest, server, "POST", path, sent)[0] == 201
    assert ask(page, server, "PATCH", f"/api/account/websites/{second['id']}", {"name": "Second"})[0] == 200
    page.goto(server.url + "/account")
    tabs.get_by_role("link", name="Activity").click()
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(50)
    expect(rows.first).to_contain_text("Changed a website")
    expect(rows.first).to_contain_text("second.example → Second")
    expect(rows.nth(1)).to_contain_text(ANN)
    page.get_by_role("button", name="Show older").click()
    expect(page.get_by_text("Invited a person", exact=True).last).to_be_visible()
    expect(page.get_by_role("button", name="Show older")).to_have_count(0)
    page.get_by_label("Action").select_option("Joined")
    expect(rows).to_have_count(1)
    page.get_by_label("Action").select_option("All actions")
    page.get_by_label("Website", exact=True).select_option("Second")
    expect(rows).to_have_count(2)
    page.get_by_label("Person", exact=True).select_option(ANN)
    expect(page.get_by_text("No changes match.")).to_be_visible()
    page.get_by_label("Website", exact=True).select_option("All websites")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download CSV").click()
    text = download.value.path().read_text()
    assert text.count("segment_created") == 50
    assert EMAIL not in text


def test_a_role_sees_no_buttons_that_would_be_refused(server: Server, open_page: OpenPage) -> None:
    page, guest = open_page(), open_page()
    set_up(page, server)
    website = add_website(page, server)
    path = f"/api/account/websites/{website['id']}"
    steps = ["pathname:/", "pathname:/done"]
    assert ask(page, server, "POST", f"{path}/funnels", {"name": "Order", "steps": steps})[0] == 201
    event = {"type": "pageview", "website_id": website["id"], "url": "https://example.com/"}
    assert server.request("POST", "/api/collect", event).status == 202
    join(guest, server, invite(page, server, "viewer"))
    person = next(one for one in ask(page, server, "GET", "/api/account/people")[1]["data"] if one["email"] == ANN)
    for role in ("viewer", "editor", "admin"):
        assert ask(page, server, "PATCH", f"/api/account/people/{person['id']}", {"role": role})[0] == 200
        guest.goto(f"{server.url}/websites/{website['id']}/funnels")
        saved = guest.get_by_role("group", name="Saved funnels")
        expect(saved.get_by_role("button", name="Order", exact=True)).to_be_visible()
        expect(saved.get_by_role("button", name="Delete Order")).to_be_visible(visible=role != "viewer")
        guest.goto(server.url + "/")
        expect(guest.get_by_role("link", name="example.com").first).to_be_visible()
        expect(guest.locator("main").get_by_role("link", name="Add website")).to_be_visible(visible=role == "admin")
        expect(guest.get_by_role("link", name="Settings of example.com")).to_be_visible(visible=role != "viewer")
        guest.goto(f"{server.url}/websites/{website['id']}")
        expect(guest.get_by_role("heading", name="example.com")).to_be_visible()
        expect(guest.locator("a[href$='/settings']").first).to_be_visible(visible=role != "viewer")
        expect(guest.get_by_role("button", name="Share", exact=True)).to_be_visible(visible=role != "viewer")


@pytest.mark.parametrize("width", [1280, 390])
def test_an_editor_finds_goals_and_sharing_alone_in_the_settings(
    server: Server, open_page: OpenPage, width: int
) -> None:
    page, guest = open_page(), open_page("wide" if width == 1280 else "narrow")
    set_up(page, server)
    website = add_website(page, server)
    send_view(server, website["id"])
    join(guest, server, invite(page, server, "editor"))
    settings = f"{server.url}/websites/{website['id']}/settings"
    guest.goto(settings)
    expect(guest).to_have_url(settings + "/goals")
    sections = guest.locator(".section-tabs a")
    expect(sections).to_have_text(["Goals", "Alerts", "Sharing"])
    guest.get_by_role("button", name="Add goal").press("Enter")
    guest.get_by_label("Name", exact=True).fill("Prices")
    guest.get_by_label("Counts").select_option("Page")
    guest.get_by_label("Name or path").fill("/pricing")
    guest.get_by_label("Name or path").press("Enter")
    expect(guest.get_by_role("button", name="Edit Prices")).to_be_visible()
    sections.last.focus()
    guest.keyboard.press("Enter")
    expect(guest).to_have_url(settings + "/sharing")
    guest.get_by_role("button", name="Create link").press("Enter")
    guest.get_by_label("Name", exact=True).fill("Team")
    guest.get_by_label("Name", exact=True).press("Enter")
    expect(guest.get_by_role("button", name="Revoke Team")).to_be_visible()
    assert violations_in_each_scheme(guest) == []
    for section in ("tracking", "exclusions", "data", "danger"):
        guest.goto(f"{settings}/{section}")
        expect(guest).to_have_url(settings + "/goals")
    guest.keyboard.press("ControlOrMeta+k")
    guest.get_by_role("combobox").fill("Settings")
    options = guest.get_by_role("dialog").get_by_role("option")
    expect(options.filter(has_text="Sharing")).to_have_count(0)
    guest.get_by_role("combobox").fill("Shar")
    expect(options.filter(has_text="Sharing")).to_have_count(1)
    guest.get_by_role("combobox").fill("Track")
    expect(options).to_have_count(0)
    person = next(one for one in ask(page, server, "GET", "/api/account/people")[1]["data"] if one["email"] == ANN)
    assert ask(page, server, "PATCH", f"/api/account/people/{person['id']}", {"role": "viewer"})[0] == 200
    guest.goto(f"{settings}/goals")
    expect(guest).to_have_url(f"{server.url}/websites/{website['id']}")
    expect(guest.get_by_role("link", name="Settings", exact=True)).to_have_count(0)


def test_a_viewer_reads_annotations(server: Server, open_page: OpenPage) -> None:
    """The dialog has no form, whose changes would be refused; that of an editor has one."""
    page, guest = open_page(), open_page()
    set_up(page, server)
    website = add_website(page, server)
    send_view(server, website["id"])
    path = f"/api/account/websites/{website['id']}"
    day = str(datetime.now(UTC).date())
    assert ask(page, server, "POST", f"{path}/annotations", {"text": "Launch", "from": day, "to": None})[0] == 201
    join(guest, server, invite(page, server, "viewer"))
    person = next(one for one in ask(page, server, "GET", "/api/account/people")[1]["data"] if one["email"] == ANN)
    for role in ("viewer", "editor"):
        assert ask(page, server, "PATCH", f"/api/account/people/{person['id']}", {"role": role})[0] == 200
        guest.goto(f"{server.url}/websites/{website['id']}?period=30d")
        guest.reload()
        guest.locator(".chart-mark").press("Enter")
        dialog = guest.get_by_role("dialog", name="Annotation")
        expect(dialog).to_be_visible()
        expect(dialog.get_by_text("Launch", exact=True)).to_have_count(1 if role == "viewer" else 0)
        for name in ("Save annotation", "Delete"):
            expect(dialog.get_by_role("button", name=name)).to_have_count(0 if role == "viewer" else 1)
        expect(dialog.locator("form")).to_have_count(0 if role == "viewer" else 1)
        assert violations(guest) == []


def test_who_is_a_member_of_two_accounts_chooses_one(server: Server, open_page: OpenPage) -> None:
    """The websites of both are listed under their names; the pages of the account concern the chosen one."""
    page, ann = open_page(), open_page()
    set_up(page, server)
    add_website(page, server)
    command(server, "account", "create", ANN, "--password-stdin", stdin=PASSWORD + "\n")
    assert ask(ann, server, "POST", "/api/account/login", {"email": ANN, "password": PASSWORD})[0] == 200
    ann.goto(server.url + invite(page, server, "viewer"))
    ann.get_by_role("button", name="Join").click()
    expect(ann).to_have_url(server.url + "/")
    add_website(ann, server, "ann.example")
    ann.reload()
    expect(ann.get_by_role("heading", level=2, name=EMAIL)).to_be_visible()
    expect(ann.get_by_role("heading", level=2, name=ANN)).to_be_visible()
    ann.goto(server.url + "/account")
    tabs = ann.get_by_role("navigation", name="Account")
    expect(tabs.get_by_role("link", name="People")).to_be_visible()
    ann.locator(".user-menu summary").click()
    ann.get_by_role("combobox", name="Account").select_option(EMAIL)
    expect(tabs.get_by_role("link", name="Account")).to_be_visible()
    expect(tabs.get_by_role("link", name="People")).to_have_count(0)
    # Removed: the account of before is shown.
    people = ask(page, server, "GET", "/api/account/people")[1]["data"]
    number = next(one["id"] for one in people if one["email"] == ANN)
    assert ask(page, server, "DELETE", f"/api/account/people/{number}")[0] == 204
    ann.reload()
    expect(tabs.get_by_role("link", name="People")).to_be_visible()
    expect(ann.get_by_role("combobox", name="Account")).to_have_count(0)


def test_the_settings_of_a_website_list_who_sees_it(server: Server, open_page: OpenPage) -> None:
    page, guest = open_page(), open_page()
    set_up(page, server)
    first, second = add_website(page, server), add_website(page, server, "second.example")
    join(guest, server, invite(page, server))
    people = ask(page, server, "GET", "/api/account/people")[1]["data"]
    number = next(one["id"] for one in people if one["email"] == ANN)
    assert ask(page, server, "PATCH", f"/api/account/people/{number}", {"websites": [second["id"]]})[0] == 200
    for website, seen in ((first, [EMAIL]), (second, [EMAIL, ANN])):
        page.goto(f"{server.url}/websites/{website['id']}/settings")
        heading = page.get_by_role("heading", name="People with access")
        listed = page.locator("section", has=heading).get_by_role("listitem")
        expect(listed).to_have_count(len(seen))
        expect(listed).to_contain_text(seen)
