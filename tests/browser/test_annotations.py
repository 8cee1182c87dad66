"""Annotations on the dashboard's chart: added by a click and by the keyboard, shown, changed, deleted, and shared."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.accessibility import violations
from tests.browser.browsers import OpenPage
from tests.browser.history import SampleServer

Show = Callable[..., Any]


@pytest.fixture
def show(site: SampleServer, open_page: OpenPage) -> Show:
    """Return a function that opens the dashboard and waits until it is loaded."""

    def show(**options: Any) -> Any:
        page = site.log_in(open_page(**options))
        page.goto(f"{site.url}/websites/{site.website}?period=30d")
        expect(page.locator("canvas")).to_have_count(1)
        expect(page.locator("[aria-busy=true]")).to_have_count(0)
        return page

    return show


def click_chart(page: Any) -> None:
    plot = page.locator(".chart .u-over")
    plot.hover(position={"x": 200, "y": 100})
    expect(page.locator(".chart-tip")).to_be_visible()
    plot.click(position={"x": 202, "y": 100})


def saved(site: SampleServer) -> list[str]:
    return [one["text"] for one in site.ask("annotations")["data"]]


def test_an_annotation_is_added_by_a_click_changed_and_deleted(site: SampleServer, show: Show) -> None:
    page = show()
    address = page.url
    page.get_by_role("button", name="Annotate").click()
    click_chart(page)
    page.get_by_label("Text").fill("Launch")
    page.get_by_role("button", name="Add annotation").click()
    mark = page.locator(".chart-mark")
    expect(mark).to_have_count(1)
    assert (page.url, saved(site)) == (address, ["Launch"])
    # On a wide chart the text of a single marker is shown without pointing at it, on a narrow one it is not.
    text = page.locator(".chart-mark-text")
    expect(text).to_be_visible()
    page.set_viewport_size({"width": 390, "height": 844})
    expect(text).to_be_hidden()
    mark.hover()
    expect(text).to_be_visible()
    page.set_viewport_size({"width": 1280, "height": 900})
    mark.hover()
    assert violations(page) == []

    mark.click()
    page.get_by_label("Text").fill("Relaunch")
    page.get_by_role("button", name="Save annotation").click()
    expect(page.get_by_role("button", name="Relaunch,")).to_be_visible()

    mark.click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    page.get_by_role("dialog", name="Delete annotation?").get_by_role("button", name="Delete").click()
    expect(mark).to_have_count(0)
    assert saved(site) == []


def test_an_annotation_is_added_by_the_keyboard_and_shared(site: SampleServer, show: Show, open_page: OpenPage) -> None:
    page = show(viewport={"width": 390, "height": 844})
    page.get_by_role("button", name="Annotate").press("Enter")
    chart = page.get_by_role("slider")
    chart.press("ArrowLeft")
    chart.press("ArrowLeft")
    chart.press("Enter")
    page.get_by_label("Text").fill("Newsletter")
    page.get_by_label("Text").press("Enter")
    expect(page.get_by_role("button", name="Newsletter,")).to_be_visible()
    page.get_by_role("button", name="Newsletter,").focus()
    expect(page.locator(".chart-mark-text")).to_be_visible()

    headers = {"Sec-Fetch-Site": "same-origin"}
    answer = page.request.post(
        f"{site.url}/api/account/websites/{site.website}/share",
        data="{}",
        headers=headers | {"Content-Type": "application/json"},
    )
    guest = open_page()
    guest.goto(site.url + answer.json()["data"]["share"] + "?period=30d")
    expect(guest.locator(".chart-mark")).to_have_count(1)
    expect(guest.get_by_role("button", name="Annotate")).to_have_count(0)
    guest.locator(".chart-mark").click()
    expect(guest.get_by_role("dialog")).to_have_count(0)


def test_a_click_without_the_button_still_selects_a_day(show: Show) -> None:
    page = show()
    click_chart(page)
    expect(page).to_have_url(re.compile("from="))
