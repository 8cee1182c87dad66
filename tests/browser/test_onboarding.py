"""The page that waits for a website's first event, beside a real page of another origin that carries the tracker."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.accessibility import violations, violations_in_each_scheme
from tests.browser.browsers import OpenPage
from tests.browser.customer_site import Pages
from tests.browser.owner import add_website, ask, command, set_up
from tests.support.process import Server, until


@pytest.fixture
def place(tmp_path: Path) -> Iterator[tuple[Server, Pages]]:
    server = Server(tmp_path / "analytics.db", (), {}, tmp_path / "stderr.log", [])
    pages = Pages()
    yield server, pages
    pages.close()
    server.kill()


@pytest.mark.by_default
def test_a_refused_origin_is_named_and_allowed_in_place(place: tuple[Server, Pages], open_page: OpenPage) -> None:
    server, pages = place
    owner, visitor = open_page(), open_page()
    set_up(owner, server)
    website = add_website(owner, server)
    # Without time on page: whether that is measured before the page is left depends on time.
    own = f'data-website-id="{website["id"]}" data-no-leave'
    snippet = f'<script defer src="{server.url}/tracker.js" {own}></script>'
    pages.put("/", f"<!doctype html><html lang=en><head><title>Shop</title>{snippet}</head></html>")
    origin = f"http://localhost:{pages.port}"

    owner.goto(f"{server.url}/websites/{website['id']}")
    expect(owner.get_by_text("Waiting for the first event")).to_be_visible()
    for _ in range(2):
        # The tracker has its answer then: the next page sends again what has none.
        with visitor.expect_console_message(lambda message: "Tally: 403 from" in message.text):
            visitor.goto(f"{origin}/")
    expect(owner.get_by_text(f"2 events from {origin} were refused:")).to_be_visible()
    expect(owner.get_by_text("Allow only your own origins")).to_be_visible()
    assert violations(owner) == []
    owner.get_by_role("button", name="Allow this origin").click()
    expect(owner.get_by_text(f"{origin} is now allowed")).to_be_visible()
    with visitor.expect_response("**/api/collect") as taken:
        visitor.goto(f"{origin}/")
    assert taken.value.status == 202
    # The first event: the dashboard takes the place of the snippet.
    expect(owner.locator(".figure").first).to_be_visible()
    # The visitor's page is not Tally's: its two refusals, and its missing icon.
    visitor.problems.discard("status of 40")


@pytest.mark.parametrize(
    ("locale", "words"),
    [
        ("en-US", "3 events from HeadlessChrome were not counted: Crawlers"),
        ("de-DE", "3 Ereignisse von HeadlessChrome wurden nicht gezählt: Crawler"),
    ],
)
def test_every_reason_is_named_while_a_page_waits(
    place: tuple[Server, Pages], open_page: OpenPage, locale: str, words: str
) -> None:
    """Crawlers too, which are answered 202; and fields that are invalid."""
    server, _ = place
    page = open_page(locale=locale)
    set_up(page, server)
    website = add_website(page, server)
    page.goto(f"{server.url}/websites/{website['id']}")
    expect(page.locator(".waiting")).to_be_visible()
    event = {"type": "pageview", "website_id": website["id"], "url": "https://example.com/"}
    agent = "Mozilla/5.0 (X11; Linux x86_64) HeadlessChrome/142.0.0.0 Safari/537.36"
    # Only web requests are a crawler's.
    robot = {"User-Agent": agent, "Origin": "https://example.com"}
    for _ in range(3):
        assert server.request("POST", "/api/collect", event, robot).status == 202
    expect(page.get_by_text(words)).to_be_visible()
    server.request("POST", "/api/collect", event | {"url": "nothing"})
    expect(page.locator(".waiting-place .notice")).to_have_count(2)
    assert violations(page) == []


@pytest.mark.parametrize(
    ("locale", "width", "names"),
    [
        ("en-US", 1280, ("Next steps", "Count “signup”", "Share this dashboard", "Dismiss")),
        ("de-DE", 390, ("Nächste Schritte", "„signup“ zählen", "Dieses Dashboard teilen", "Ausblenden")),
        ("fr-FR", 1280, ("Étapes suivantes", "Compter « signup »", "Partager ce tableau de bord", "Masquer")),
        ("es-ES", 390, ("Próximos pasos", "Contar «signup»", "Compartir este panel", "Ocultar")),
    ],
)
def test_next_steps_after_the_first_event(
    place: tuple[Server, Pages], open_page: OpenPage, locale: str, width: int, names: tuple[str, ...]
) -> None:
    """By keyboard: an event that has arrived becomes a goal, the link is made, and the card stays away."""
    server, _ = place
    title, count, share, dismiss = names
    owner = open_page(locale=locale, viewport={"width": width, "height": 800})
    set_up(owner, server)
    website = add_website(owner, server)
    address = f"{server.url}/websites/{website['id']}"
    owner.goto(address)
    # A page that waits has no next steps.
    expect(owner.locator(".waiting")).to_be_visible()
    expect(owner.locator(".next-card")).to_have_count(0)
    event = {"type": "event", "event_name": "signup", "url": "https://example.com/"}
    sent = server.request("POST", "/api/collect", {"website_id": website["id"], "events": [event]})
    assert sent.json["accepted"] == 1
    card = owner.get_by_role("region", name=title)
    button = card.get_by_role("button", name=count)
    expect(button).to_be_visible()
    expect(card.get_by_role("link", name="example.com")).to_have_attribute("href", "https://example.com/#tally-ignore")
    assert violations_in_each_scheme(owner) == []
    assert owner.evaluate("document.scrollingElement.scrollWidth <= innerWidth")
    button.focus()
    owner.keyboard.press("Enter")
    expect(owner.locator(".goal-name")).to_have_text("signup")
    expect(button).to_have_count(0)
    status, goals = ask(owner, server, "GET", f"/api/account/websites/{website['id']}/goals")
    assert (status, [one["match"] for one in goals["data"]]) == (200, [["filter_event_name=signup"]])
    card.get_by_role("button", name=share).focus()
    owner.keyboard.press("Enter")
    expect(owner.get_by_role("dialog")).to_be_visible()
    owner.keyboard.press("Escape")
    expect(owner.get_by_role("dialog")).to_have_count(0)
    card.get_by_role("button", name=dismiss).focus()
    owner.keyboard.press("Enter")
    expect(card).to_be_hidden()
    expect(owner.locator("button.figure").first).to_be_focused()
    owner.reload()
    expect(owner.locator(".figure").first).to_be_visible()
    expect(owner.locator("[aria-busy=true]")).to_have_count(0)
    expect(card).to_be_hidden()


def test_after_an_import_no_page_shows_that_there_are_no_events(
    place: tuple[Server, Pages], open_page: OpenPage, tmp_path: Path
) -> None:
    """Pages that were open before the import show its events, though they are older than the newest days."""
    server, _ = place
    page = open_page()
    set_up(page, server)
    website = add_website(page, server)
    own = f"{server.url}/websites/{website['id']}"
    page.goto(f"{own}/events")
    words = page.get_by_text("No events have been received from this website yet")
    expect(words).to_be_visible()
    file = tmp_path / "in.ndjson"
    line = '{"type": "pageview", "timestamp": "2026-01-%02dT12:00:00Z", "pathname": "/"}\n'
    file.write_text("".join(line % (1 + n % 28) for n in range(85)))

    page.goto(own)
    expect(page.get_by_text("Waiting for the first event")).to_be_visible()
    command(server, "import", str(file), "--website", website["id"])
    expect(page.locator(".figure").first).to_be_visible()
    page.goto(f"{own}/events")
    expect(page.get_by_text("No events in this range")).to_be_visible()
    page.wait_for_load_state("networkidle")
    expect(words).to_have_count(0)
    page.goto(f"{own}/settings/danger")
    delete: Any = page.get_by_role("button", name="Delete website and its 85 events")
    expect(delete).to_be_visible()
    # More arrive while the page is open: the dialog names the number at that time.
    file.write_text("".join(line % (1 + n % 28) for n in range(10)).replace('"/"', '"/more"'))
    command(server, "import", str(file), "--website", website["id"])
    # The server reads what other processes wrote about once a second.
    path = f"/api/account/websites/{website['id']}"
    until(lambda: ask(page, server, "GET", path)[1]["data"]["events"] == 95)
    delete.click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Delete website and its 95 events")).to_be_visible()
