"""Account -> Notifications: channels are added, tested and deleted; secrets are shown once; the log of notices."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing

import pytest
from playwright.sync_api import Browser, expect

from tally.notices import outbox
from tally.notices.outbox import New
from tally.timestamps import DAY_MS
from tests.browser.accessibility import violations_in_each_scheme
from tests.browser.browsers import OpenPage, pages_with_refusals
from tests.browser.owner import add_website, ask, set_up
from tests.robustness.test_notices import Hook
from tests.support.mailbox import FROM, mailbox
from tests.support.process import Serve, Server
from tests.support.receiver import says


@pytest.fixture
def server(serve: Serve) -> Server:
    """Return a server of its own, which sends notices to this machine."""
    return serve("--notify-networks", "127.0.0.0/8")


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """Return a function that opens a page in a context of its own."""
    with pages_with_refusals(browser) as opens:
        yield opens


def test_a_channel_from_its_dialog_to_its_end(server: Server, open_page: OpenPage) -> None:
    hook, page = Hook(), open_page()
    set_up(page, server)
    page.goto(server.url + "/account/notifications")
    expect(page.get_by_text("No channels yet.")).to_be_visible()
    expect(page.get_by_role("table")).to_have_count(0)
    page.get_by_role("button", name="Add channel").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Topic")).to_be_visible()
    dialog.get_by_label("Kind").select_option("webhook")
    expect(dialog.get_by_label("Topic")).to_be_hidden()
    assert violations_in_each_scheme(page) == []
    dialog.get_by_label("Name").fill("Ops")
    dialog.get_by_label("URL").fill("http://10.0.0.1/")
    dialog.get_by_text("Quiet hours").click()
    dialog.get_by_role("button", name="Add channel").click()
    expect(dialog.get_by_text("--notify-networks")).to_be_visible()
    dialog.get_by_label("URL").fill(f"http://127.0.0.1:{hook.server_port}/in")
    dialog.get_by_role("button", name="Add channel").click()
    key = page.get_by_role("textbox", name="Signing key of Ops")
    expect(key).to_have_value(re_of_key := key.input_value())
    assert re_of_key.startswith("whsec_")
    row = page.get_by_role("row", name="Ops")
    expect(row).to_contain_text("127.0.0.1")
    expect(row).to_contain_text("Quiet from 22:00 to 07:00")
    row.get_by_role("button", name="Send a test").click()
    expect(page.get_by_text("Test sent")).to_be_visible()
    assert len(hook.ids) == 1
    assert violations_in_each_scheme(page) == []
    page.reload()
    expect(row).to_be_visible()
    expect(page.get_by_text("whsec_")).to_have_count(0)
    row.get_by_role("button", name="Edit").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Name")).to_have_value("Ops")
    expect(dialog.get_by_label("From")).to_have_value("22:00")
    assert violations_in_each_scheme(page) == []
    dialog.get_by_label("Name").fill("Night")
    dialog.get_by_label("From").fill("23:30")
    dialog.get_by_role("button", name="Save").click()
    row = page.get_by_role("row", name="Night")
    expect(row).to_contain_text("Quiet from 23:30 to 07:00")
    row.get_by_role("button", name="Send a test").click()
    expect(page.get_by_text("Test sent").last).to_be_visible()
    row.get_by_role("button", name="Edit").click()
    page.get_by_role("dialog").get_by_text("Quiet hours").click()
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    expect(row).not_to_contain_text("Quiet from")
    (channel,) = ask(page, server, "GET", "/api/account/channels")[1]["data"]
    ask(page, server, "PATCH", f"/api/account/channels/{channel['id']}", {"paused": True, "quiet": None})
    page.reload()
    expect(row).to_contain_text("Paused since")
    row.get_by_role("button", name="Resume").click()
    expect(row).to_contain_text("Active")
    row.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_text("No channels yet.")).to_be_visible()
    hook.shutdown()
    hook.server_close()


def test_a_feed_has_an_address_and_a_failed_notice_is_sent_again(server: Server, open_page: OpenPage) -> None:
    hook, page = Hook(), open_page()
    set_up(page, server)
    page.goto(server.url + "/account/notifications")
    page.get_by_role("button", name="Add channel").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Kind").select_option("feed")
    for label in ("URL", "Topic", "Access token"):
        expect(dialog.get_by_label(label)).to_be_hidden()
    dialog.get_by_label("Name").fill("Reader")
    dialog.get_by_role("button", name="Add channel").click()
    address = page.get_by_role("textbox", name="Address of the feed Reader")
    expect(address).to_be_visible()
    assert server.request("GET", address.input_value().removeprefix(server.url)).status == 200
    body = {"kind": "webhook", "name": "Ops", "url": f"http://127.0.0.1:{hook.server_port}/"}
    status, _ = ask(page, server, "POST", "/api/account/channels", body)
    assert status == 201
    now_ms = time.time_ns() // 1_000_000
    with closing(sqlite3.connect(server.db)) as connection, connection:
        outbox.add(connection, New(1, "server.problem", "x", says("Backup failed", "Text"), now_ms + DAY_MS), now_ms)
        connection.execute(
            "update notice set state = 'failed', attempts = 7, last_error = 'HTTP 500' where state = 'waiting'"
        )
    page.reload()
    row = page.get_by_role("row", name="Backup failed").filter(has_text="HTTP 500")
    expect(row).to_contain_text("Failed")
    assert violations_in_each_scheme(page) == []
    row.get_by_role("button", name="Send again").click()
    expect(row).to_have_count(0)
    while not hook.ids:
        page.wait_for_timeout(50)
    page.set_viewport_size({"width": 390, "height": 800})
    page.reload()
    expect(page.get_by_role("row", name="Ops").filter(has_text="127.0.0.1")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= 390")
    assert violations_in_each_scheme(page) == []
    hook.shutdown()
    hook.server_close()


def test_addresses_and_a_summary(serve: Serve, open_page: OpenPage) -> None:
    with mailbox() as box:
        url = f"smtp://127.0.0.1:{box.port}?tls=none"
        server = serve("--smtp-url", url, "--mail-from", FROM, "--base-url", "https://stats.example.com")
        page = open_page()
        set_up(page, server)
        add_website(page, server)
        page.goto(server.url + "/account/notifications")
        expect(page.get_by_text("--smtp-url")).to_have_count(0)
        expect(page.get_by_text("Summaries")).to_have_count(0)
        page.get_by_role("button", name="Add channel").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Kind").select_option("email")
        expect(dialog.get_by_label("Name")).to_be_hidden()
        dialog.get_by_role("button", name="Add channel").click()
        expect(dialog.get_by_text("Enter an email address.")).to_be_visible()
        dialog.get_by_label("Email addresses").fill("one@elsewhere.example, two@elsewhere.example")
        dialog.get_by_role("button", name="Add channel").click()
        for name in ("one@elsewhere.example", "two@elsewhere.example"):
            # Another row is the notice that asks for the confirmation.
            expect(page.get_by_role("row", name=f"{name} Email")).to_contain_text("Not confirmed")
        assert violations_in_each_scheme(page) == []
        page.get_by_role("button", name="Add summary").click()
        dialog.get_by_role("button", name="Add summary").click()
        expect(dialog.get_by_text("Choose a channel.")).to_be_visible()
        dialog.get_by_label("one@elsewhere.example").check()
        dialog.get_by_label("Period").select_option("day")
        assert violations_in_each_scheme(page) == []
        dialog.get_by_role("button", name="Add summary").click()
        row = page.get_by_role("row", name="All websites")
        expect(row).to_contain_text("Every day")
        expect(row).to_contain_text("one@elsewhere.example")
        row.get_by_role("button", name="Preview").click()
        # From outside: a frame without scripts logs those of tests, too.
        in_frame = "document.querySelector('dialog iframe').contentDocument"
        expect(page.locator("dialog iframe")).to_have_attribute("sandbox", "allow-same-origin")
        page.wait_for_function(f"{in_frame}?.body?.innerText.includes('Bounce rate')")
        # The styles of the mail apply, and nothing in it leads or loads anywhere.
        assert page.evaluate(f"getComputedStyle({in_frame}.querySelector('h1')).fontSize") == "20px"
        assert page.evaluate(f"{in_frame}.querySelectorAll('a[href], img, script, link').length") == 0
        assert violations_in_each_scheme(page) == []
        page.keyboard.press("Escape")
        row.get_by_role("button", name="Delete").click()
        page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        expect(row).to_have_count(0)
