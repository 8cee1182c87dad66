"""Website settings -> Alerts: an alert is added, changed, snoozed and deleted."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.accessibility import violations_in_each_scheme
from tests.browser.browsers import OpenPage, pages_with_refusals
from tests.browser.owner import add_website, ask, set_up
from tests.support.process import Serve, Server


@pytest.fixture
def server(serve: Serve) -> Server:
    """Return a server of its own."""
    return serve()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """Return a function that opens a page in a context of its own."""
    with pages_with_refusals(browser) as opens:
        yield opens


def test_an_alert_from_its_dialog_to_its_end(server: Server, open_page: OpenPage) -> None:
    page = open_page()
    set_up(page, server)
    website = add_website(page, server)
    page.goto(f"{server.url}/websites/{website['id']}/settings/alerts")
    expect(page.get_by_text("No alerts yet.")).to_be_visible()
    expect(page.get_by_text("of which there are none yet")).to_be_visible()
    for name in ("Phone", "Ops"):
        assert ask(page, server, "POST", "/api/account/channels", {"kind": "feed", "name": name})[0] == 201
    page.reload()
    expect(page.get_by_text("No alerts yet.")).to_be_visible()
    expect(page.get_by_text("of which there are none yet")).to_have_count(0)
    page.get_by_role("button", name="Add alert").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Times the usual visits")).to_be_hidden()
    dialog.get_by_label("Kind").select_option("spike")
    dialog.get_by_label("Times the usual visits").fill("50")
    dialog.get_by_label("Ops").check()
    assert violations_in_each_scheme(page) == []
    dialog.get_by_role("button", name="Add alert").click()
    expect(dialog.get_by_text("factor must be")).to_be_visible()
    dialog.get_by_label("Times the usual visits").fill("2.5")
    dialog.get_by_role("button", name="Add alert").click()
    row = page.get_by_role("row", name="More visits")
    expect(row).to_contain_text("2.5 times the usual")
    expect(row).to_contain_text("Ops")
    expect(row).to_contain_text("Not judged yet")
    assert violations_in_each_scheme(page) == []
    row.get_by_role("button", name="Snooze").click()
    dialog.get_by_role("button", name="Snooze").click()
    expect(row).to_contain_text("Snoozed until")
    row.get_by_role("button", name="End snooze").click()
    expect(row).not_to_contain_text("Snoozed until")
    row.get_by_role("button", name="Edit").click()
    dialog.get_by_label("Visits in an hour").fill("200")
    dialog.get_by_label("Ops").uncheck()
    dialog.get_by_role("button", name="Save alert").click()
    expect(row).to_contain_text("From 200 visits in an hour on")
    expect(row).not_to_contain_text("Ops")
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    row.get_by_role("button", name="Delete").click()
    dialog.get_by_role("button", name="Delete").click()
    expect(page.get_by_text("No alerts yet.")).to_be_visible()
