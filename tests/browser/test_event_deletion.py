"""Deletion of events and rewriting of paths in the settings of a website: filters of the dashboard and of a segment, or
a rule, preview, change."""

import os
import re
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, Page, expect

from tests.browser.accessibility import violations
from tests.browser.browsers import SIZES, OpenPage
from tests.browser.owner import add_website, ask, send_view, set_up
from tests.support.process import Serve, Server


def opened(serve: Serve, open_page: OpenPage) -> tuple[Page, Server, Any]:
    """Return a page of an owner, the server, and the owner's website."""
    server = serve()
    page = open_page(viewport=SIZES["wide"], color_scheme="light", locale="en-GB")
    set_up(page, server)
    return page, server, add_website(page, server)


def assert_accessible(page: Page, card: Locator, name: str) -> None:
    """Look for violations on both sizes and in both color schemes, and take pictures where SCREENSHOTS is set."""
    for size, viewport in SIZES.items():
        for scheme in ("light", "dark"):
            page.set_viewport_size(viewport)
            page.emulate_media(color_scheme=scheme)
            assert violations(page) == [], (size, scheme)
            if "SCREENSHOTS" in os.environ:
                card.screenshot(path=Path(os.environ["SCREENSHOTS"]) / f"{name}-{size}-{scheme}.png")


def test_events_are_previewed_and_deleted_on_the_page(serve: Serve, open_page: OpenPage) -> None:
    """By keyboard, on both sizes and in both color schemes."""
    page, server, website = opened(serve, open_page)
    path = f"/api/account/websites/{website['id']}"
    for n in range(4):
        send_view(server, website["id"], f"/private/{n % 2}")
    send_view(server, website["id"], "/")
    ask(page, server, "POST", f"{path}/segments", {"name": "Private pages", "filters": ["filter_pathname^=/private"]})
    # The filters of the dashboard, which its dialog of segments links to.
    page.goto(f"{server.url}/websites/{website['id']}?period=7d&filter_pathname=/")
    page.goto(f"{server.url}/websites/{website['id']}/settings/data?period=7d&filter_pathname=/private/0")
    card = page.locator("#delete-events")
    expect(card.get_by_label("From")).not_to_have_value("")
    card.get_by_role("button", name="Preview").press("Enter")
    expect(card.get_by_text("2 events", exact=True)).to_be_visible()
    card.get_by_label("Take over the filters of a segment").select_option(label="Private pages")
    card.get_by_role("button", name="Preview").press("Enter")
    expect(card.get_by_text("4 events", exact=True)).to_be_visible()
    expect(card.get_by_text("1 visit becomes shorter")).to_be_visible()
    expect(card.get_by_role("link", name="Download first (CSV)")).to_have_attribute("href", re.compile("format=csv"))
    assert_accessible(page, card, "deletion")
    typed = card.get_by_label("Type 4 to confirm that these events are deleted")
    typed.fill("3")
    card.get_by_role("button", name="Delete events").press("Enter")
    expect(card.get_by_text("Type 4.")).to_be_visible()
    typed.fill("4")
    card.get_by_role("button", name="Delete events").press("Enter")
    expect(card.get_by_text("Done · 4 events deleted")).to_be_visible()
    if "SCREENSHOTS" in os.environ:
        card.screenshot(path=Path(os.environ["SCREENSHOTS"]) / "deletion-done.png")
    figures = ask(page, server, "GET", f"{path}/stats?period=7d")[1]["data"]
    assert figures["pageviews"] == 1


def test_paths_are_previewed_and_rewritten_on_the_page(serve: Serve, open_page: OpenPage) -> None:
    """By keyboard, on both sizes and in both color schemes; the ready rule for e-mail addresses."""
    page, server, website = opened(serve, open_page)
    path = f"/api/account/websites/{website['id']}"
    for name in ("/item/1", "/item/2", "/item/2/reviews", "/user/ann@example.com"):
        send_view(server, website["id"], name)
    page.goto(f"{server.url}/websites/{website['id']}/settings/data")
    card = page.locator("#rewrite-paths")
    today = page.evaluate("new Date().toISOString().slice(0, 10)")
    card.get_by_label("From").fill(today)
    card.get_by_label("To", exact=True).fill(today)
    card.get_by_label("Paths", exact=True).fill("/item/*")
    card.get_by_label("New path").fill("/item/*")
    card.get_by_role("button", name="Preview").press("Enter")
    expect(card.get_by_text("2 events", exact=True)).to_be_visible()
    expect(card.get_by_text("2 paths", exact=True)).to_be_visible()
    expect(card.get_by_text("/item/1 → /item/*")).to_be_visible()
    assert_accessible(page, card, "rewriting")
    card.get_by_label("Type 2 to confirm that the paths of these events are rewritten").fill("2")
    card.get_by_role("button", name="Rewrite paths").press("Enter")
    expect(card.get_by_text("Done · 2 events rewritten")).to_be_visible()
    card.get_by_role("button", name="E-mail addresses in paths").press("Enter")
    expect(card.get_by_label("Paths", exact=True)).to_be_focused()
    card.get_by_role("button", name="Preview").press("Enter")
    expect(card.get_by_text("/user/ann@example.com → /user/*")).to_be_visible()
    card.get_by_label("Type 1 to confirm that the path of this event is rewritten").fill("1")
    card.get_by_role("button", name="Rewrite paths").press("Enter")
    expect(card.get_by_text("Done · 1 event rewritten")).to_be_visible()
    if "SCREENSHOTS" in os.environ:
        card.screenshot(path=Path(os.environ["SCREENSHOTS"]) / "rewriting-done.png")
    rows = ask(page, server, "GET", f"{path}/top/pathname?period=7d")[1]["data"]
    assert {row["value"]: row["pageviews"] for row in rows} == {"/item/*": 2, "/item/2/reviews": 1, "/user/*": 1}


def test_rules_for_new_events_are_saved_on_the_page(serve: Serve, open_page: OpenPage) -> None:
    """By keyboard, on both sizes and in both color schemes."""
    page, server, website = opened(serve, open_page)
    page.goto(f"{server.url}/websites/{website['id']}/settings/data")
    card = page.locator("#path-rules")
    card.get_by_label("Rules").fill("/item/* /item/*\n*@*.* *\n")
    card.get_by_role("button", name="Save rules").press("Enter")
    expect(page.get_by_text("The rules are saved.")).to_be_visible()
    expect(card.get_by_label("Rules")).to_have_value("/item/* /item/*\n*@*.* *")
    assert_accessible(page, card, "rules")
    send_view(server, website["id"], "/item/1")
    rows = ask(page, server, "GET", f"/api/account/websites/{website['id']}/top/pathname?period=7d")[1]["data"]
    assert [row["value"] for row in rows] == ["/item/*"]
