"""Annotations on the dashboard's chart: added by a click and by the keyboard, shown, changed, deleted, and shared."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import expect

from tests.browser.accessibility import violations, violations_in_each_scheme
from tests.browser.browsers import OpenPage
from tests.browser.history import SampleServer
from tests.support.page_client import LINK

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
    mark = page.get_by_role("button", name="Newsletter,")
    mark.focus()
    expect(page.locator(".chart-mark-text")).to_be_visible()
    # The focus stays when the chart is drawn again.
    drawn = mark.element_handle()
    page.set_viewport_size({"width": 420, "height": 844})
    page.wait_for_function("(mark) => !mark.isConnected", arg=drawn)
    expect(mark).to_be_focused()

    headers = {"Sec-Fetch-Site": "same-origin"}
    answer = page.request.post(
        f"{site.url}/api/account/websites/{site.website}/share-links",
        data=LINK,
        headers=headers,
    )
    guest = open_page()
    guest.goto(site.url + answer.json()["data"]["path"] + "?period=30d")
    expect(guest.locator(".chart-mark")).to_have_count(1)
    expect(guest.get_by_role("button", name="Annotate")).to_have_count(0)
    guest.locator(".chart-mark").click()
    expect(guest.get_by_role("dialog")).to_have_count(0)


@pytest.mark.parametrize(
    ("locale", "width", "words"),
    [
        ("en-GB", 1280, ["With times of day", "From", "To", "Save annotation"]),
        ("de-DE", 390, ["Mit Uhrzeiten", "Von", "Bis", "Anmerkung speichern"]),
        ("fr-FR", 1280, ["Avec l’heure", "Du", "Au", "Enregistrer l’annotation"]),
        ("es-ES", 390, ["Con la hora", "Desde", "Hasta", "Guardar anotación"]),
    ],
)
def test_dates_and_times_are_chosen(
    site: SampleServer, open_page: OpenPage, locale: str, width: int, words: list[str]
) -> None:
    timed, begin, end, save = words
    page = site.log_in(open_page(locale=locale, viewport={"width": width, "height": 900}))
    path = f"{site.url}/api/account/websites/{site.website}/annotations"
    headers = {"Sec-Fetch-Site": "same-origin"}
    day = str(datetime.now(UTC).date() - timedelta(days=3))
    made = page.request.post(path, data={"text": "Launch", "from": day, "to": None}, headers=headers).json()["data"][
        "id"
    ]
    page.goto(f"{site.url}/websites/{site.website}?period=30d&tz=America/New_York")
    mark = page.get_by_role("button", name=re.compile("aunch, "))
    mark.press("Enter")
    first, last = page.get_by_label(begin, exact=True), page.get_by_label(re.compile(f"^{end}( |$)"))
    expect(first).to_have_attribute("type", "date")
    expect(first).to_have_value(day)
    page.get_by_role("checkbox", name=timed).press("Space")
    expect(first).to_have_attribute("type", "datetime-local")
    expect(first).to_have_value(f"{day}T00:00")
    first.fill(f"{day}T12:30")
    last.fill(f"{day}T14:00")
    assert violations_in_each_scheme(page) == []
    page.get_by_role("button", name=save).press("Enter")
    expect(page.get_by_role("dialog")).to_have_count(0)
    (own,) = site.ask("annotations")["data"]
    zone = ZoneInfo("America/New_York")
    local = [datetime.fromisoformat(f"{day}T{time}").replace(tzinfo=zone) for time in ("12:30", "14:00")]
    assert [datetime.fromisoformat(own[name]) for name in ("from", "to")] == local
    # A time that is not changed keeps its seconds.
    moment = f"{day}T15:00:07.500+00:00"
    assert page.request.patch(f"{path}/{made}", data={"from": moment, "to": None}, headers=headers).ok
    page.reload()
    mark.press("Enter")
    page.locator("[name=text]").fill("Relaunch")
    page.get_by_role("button", name=save).press("Enter")
    expect(page.get_by_role("dialog")).to_have_count(0)
    (own,) = site.ask("annotations")["data"]
    assert (own["text"], datetime.fromisoformat(own["from"])) == ("Relaunch", datetime.fromisoformat(moment))
    # A date again.
    mark.press("Enter")
    page.get_by_role("checkbox", name=timed).press("Space")
    page.get_by_role("button", name=save).press("Enter")
    expect(page.get_by_role("dialog")).to_have_count(0)
    (own,) = site.ask("annotations")["data"]
    assert (own["from"], own["to"]) == (day, None)


def test_a_click_without_the_button_still_selects_a_day(show: Show) -> None:
    page = show()
    click_chart(page)
    expect(page).to_have_url(re.compile("from="))
