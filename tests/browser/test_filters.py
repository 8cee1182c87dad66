"""Filters with operators, several values and properties; segments: selected, saved and deleted in the filter row."""

import re
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

import pytest
from playwright.sync_api import expect

from tests.browser.accessibility import violations, violations_in_each_scheme
from tests.browser.browsers import OpenPage
from tests.browser.history import SampleServer
from tests.support.page_client import LINK
from tests.support.process import until

pytestmark = pytest.mark.usefixtures("journeys")


def filters_of(page: Any) -> list[tuple[str, str]]:
    """Return the filters and the segment of the address."""
    sent = parse_qsl(urlsplit(page.url).query, keep_blank_values=True)
    return [(name, value) for name, value in sent if name.startswith("filter_") or name == "segment"]


def visitors(site: SampleServer, *filters: str) -> str:
    """Return what the API counts over seven days with these filters."""
    written = [quote(name) + "=" + quote(value) for name, _, value in (one.partition("=") for one in filters)]
    return str(site.ask("stats?" + "&".join(["period=7d", *written]))["data"]["visitors"])


def shows(page: Any, count: str) -> None:
    expect(page.locator("[data-figure=visitors]")).to_have_attribute("data-value", count)


def chips(page: Any) -> Any:
    return page.locator(".chips .chip")


def opened(site: SampleServer, open_page: OpenPage, query: str = "", **options: Any) -> Any:
    page = site.log_in(open_page(timezone_id="UTC", **options))
    page.goto(f"{site.url}/websites/{site.website}?period=7d{query}")
    expect(page.locator(".figure").first).to_be_visible()
    return page


def test_a_filter_with_an_operator_and_several_values(site: SampleServer, open_page: OpenPage) -> None:
    page = opened(site, open_page)
    page.get_by_role("button", name="Filter", exact=True).click()
    dialog = page.get_by_role("dialog", name="Add a filter")
    dialog.get_by_label("Field").select_option("pathname")
    dialog.get_by_label("Operator").select_option(label="is not")
    # One from the suggestions, another one typed.
    dialog.locator(".suggestions .bar", has_text="/pricing").click()
    expect(dialog.locator(".suggestions .bar[aria-pressed=true]")).to_contain_text("/pricing")
    dialog.get_by_label("Value", exact=True).fill("/elsewhere")
    dialog.get_by_role("button", name="Or", exact=True).click()
    expect(dialog.locator(".filter-values .chip")).to_have_count(2)
    assert violations(page) == []
    dialog.get_by_role("button", name="Add filter").click()
    expect(page.locator("dialog")).to_have_count(0)
    assert filters_of(page) == [("filter_pathname!", "/pricing"), ("filter_pathname!", "/elsewhere")]
    assert "filter_pathname!=/pricing" in page.url
    expect(chips(page)).to_have_text(["Page is not /pricing or /elsewhere"])
    shows(page, visitors(site, "filter_pathname!=/pricing"))

    # Its chip opens it again, and another operator takes its place.
    page.get_by_role("button", name="Page is not /pricing or /elsewhere", exact=True).click()
    dialog = page.get_by_role("dialog", name="Change the filter")
    expect(dialog.get_by_label("Operator")).to_have_value("!")
    dialog.get_by_role("button", name="Remove /elsewhere").click()
    dialog.get_by_label("Operator").select_option(label="begins with")
    dialog.get_by_role("button", name="Change filter").click()
    expect(page.locator("dialog")).to_have_count(0)
    assert filters_of(page) == [("filter_pathname^", "/pricing")]
    expect(chips(page)).to_have_text(["Page begins with /pricing"])
    shows(page, visitors(site, "filter_pathname^=/pricing"))
    page.get_by_role("button", name="Remove filter: Page begins with /pricing").press("Delete")
    expect(page.locator(".chip")).to_have_count(0)


@pytest.mark.parametrize(
    ("locale", "width", "words"),
    [
        ("en-GB", 1280, "Remove the filters"),
        ("de-DE", 390, "Filter entfernen"),
        ("fr-FR", 1280, "Retirer les filtres"),
        ("es-ES", 390, "Quitar los filtros"),
    ],
)
def test_a_list_without_rows_offers_to_remove_the_filters(
    site: SampleServer, open_page: OpenPage, locale: str, width: int, words: str
) -> None:
    page = opened(site, open_page, "&filter_pathname=/nowhere", locale=locale, viewport={"width": width, "height": 844})
    button = page.locator(".card-browsers").get_by_role("button", name=words)
    expect(button).to_be_visible()
    expect(page.locator("[aria-busy=true]")).to_have_count(0)
    assert violations_in_each_scheme(page) == []
    button.focus()
    page.keyboard.press("Enter")
    expect(page.locator(".card-browsers .bar").first).to_be_visible()
    assert filters_of(page) == []
    expect(page.get_by_role("main")).to_be_focused()
    # Without a filter there is nothing to remove.
    expect(page.get_by_role("main").get_by_role("button", name=words)).to_have_count(0)


def test_a_filter_by_a_property(site: SampleServer, open_page: OpenPage) -> None:
    page = opened(site, open_page, viewport={"width": 390, "height": 844})
    page.get_by_role("button", name="Filter", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Field").select_option(label="Property of event data")
    expect(dialog.locator("datalist option[value=plan]")).to_have_count(1)
    dialog.get_by_label("Property of event data").fill("plan")
    dialog.get_by_label("Property of event data").press("Tab")
    dialog.locator(".suggestions .bar", has_text="pro").click()
    assert violations(page) == []
    dialog.get_by_role("button", name="Add filter").click()
    expect(page.locator("dialog")).to_have_count(0)
    expect(chips(page)).to_have_text(["Plan is pro"])
    shows(page, visitors(site, "filter_prop.plan=pro"))
    assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth")


def test_a_country_is_selected_by_name_and_has_no_substring_operators(site: SampleServer, open_page: OpenPage) -> None:
    page = opened(site, open_page)
    page.keyboard.press("f")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Field").select_option("country")
    expect(dialog.get_by_label("Operator").locator("option")).to_have_text(["is", "is not"])
    dialog.locator(".suggestions .bar", has_text="Unknown country").click()
    dialog.get_by_label("Value", exact=True).press("Enter")
    expect(page.locator("dialog")).to_have_count(0)
    expect(chips(page)).to_have_text(["Country is Unknown country"])
    assert filters_of(page) == [("filter_country", "")]


def test_a_value_that_is_typed_before_the_suggestions_arrive_is_found_among_them(
    site: SampleServer, open_page: OpenPage
) -> None:
    """And the key that opens the dialog, pressed twice while its module loads, opens one dialog."""
    page = opened(site, open_page)
    held: list[Any] = []
    modules, suggestions = "**/filter_dialog.js", re.compile("/top/browser.*limit=200")
    page.route(modules, lambda route: held.append(route))
    # Until the page has begun to listen to keys.
    until(lambda: page.keyboard.press("f") or (page.evaluate("1") and held))
    page.keyboard.press("f")
    release(page, modules, held)
    dialog = page.get_by_role("dialog")
    page.route(suggestions, lambda route: held.append(route))
    dialog.get_by_label("Field").select_option("browser")
    dialog.get_by_label("Value", exact=True).fill("firefox")
    dialog.get_by_label("Value", exact=True).press("Enter")
    expect(dialog).to_have_count(1)
    release(page, suggestions, held)
    expect(page.locator("dialog")).to_have_count(0)
    expect(chips(page)).to_have_text(["Browser is Firefox"])
    assert filters_of(page) == [("filter_browser", "Firefox")]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_highlighted_suggestion_is_taken_by_keyboard(site: SampleServer, open_page: OpenPage, scheme: str) -> None:
    """Enter never applies a part of a value."""
    page = opened(site, open_page, viewport={"width": 390, "height": 844}, color_scheme=scheme)
    page.get_by_role("button", name="Filter", exact=True).press("Enter")
    dialog = page.get_by_role("dialog")
    value = dialog.get_by_role("combobox", name="Value", exact=True)
    dialog.get_by_label("Field").select_option("pathname")
    expect(dialog.locator(".suggestions .bar")).not_to_have_count(0)
    second = dialog.locator(".suggestions .bar").nth(1).get_attribute("data-key")
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowUp"):
        value.press(key)
    expect(dialog.locator(".suggestions .bar.active")).to_have_attribute("data-key", str(second))
    active = value.get_attribute("aria-activedescendant")
    expect(dialog.locator(f"#{active}")).to_have_attribute("data-key", str(second))
    value.press("Enter")
    expect(page.locator("dialog")).to_have_count(0)
    assert filters_of(page) == [("filter_pathname", second)]

    page.keyboard.press("f")
    dialog.get_by_label("Field").select_option("country")
    expect(dialog.locator(".suggestions .bar")).not_to_have_count(0)
    value.press_sequentially("germ")
    expect(dialog.locator(".suggestions .bar.active")).to_contain_text("Germany")
    assert violations(page) == []
    value.press("Enter")
    expect(page.locator("dialog")).to_have_count(0)
    assert filters_of(page) == [("filter_pathname", second), ("filter_country", "DE")]


def test_a_text_that_begins_values_can_be_chosen_exactly(site: SampleServer, open_page: OpenPage) -> None:
    page = opened(site, open_page)
    page.keyboard.press("f")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Field").select_option("pathname")
    dialog.get_by_role("combobox", name="Value", exact=True).fill("/pric")
    expect(dialog.locator(".suggestions .bar.active")).to_contain_text("/pricing")
    dialog.get_by_role("button", name="Exactly “/pric”").click()
    dialog.get_by_role("button", name="Add filter").click()
    expect(page.locator("dialog")).to_have_count(0)
    assert filters_of(page) == [("filter_pathname", "/pric")]


@pytest.mark.parametrize(
    ("locale", "field", "typed", "words"),
    [
        ("en-GB", "country", "Germoney", "There is no value called “Germoney”. The nearest is “Germany”."),
        ("de-DE", "country", "Germoney", "Einen Wert „Germoney“ gibt es hier nicht."),
        ("fr-FR", "device", "desktpo", "Il n’y a pas de valeur « desktpo »."),
        ("es-ES", "channel", "Direcctt", "No hay ningún valor «Direcctt»."),
    ],
)
def test_a_value_that_a_field_cannot_have_is_not_applied(
    site: SampleServer, open_page: OpenPage, locale: str, field: str, typed: str, words: str
) -> None:
    page = opened(site, open_page, locale=locale)
    page.keyboard.press("f")
    dialog = page.get_by_role("dialog")
    dialog.locator("#filter-field").select_option(field)
    dialog.locator("#filter-value").fill(typed)
    dialog.locator("#filter-value").press("Enter")
    expect(dialog.get_by_role("alert")).to_contain_text(words)
    assert violations(page) == []
    dialog.locator("button[type=submit]").click()
    expect(dialog.get_by_role("alert")).to_contain_text(words)
    assert filters_of(page) == []


def test_a_country_without_visitors_can_be_chosen(site: SampleServer, open_page: OpenPage) -> None:
    page = opened(site, open_page)
    page.keyboard.press("f")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Field").select_option("country")
    dialog.get_by_role("combobox", name="Value", exact=True).fill("iceland")
    dialog.get_by_role("combobox", name="Value", exact=True).press("Enter")
    expect(page.locator("dialog")).to_have_count(0)
    assert filters_of(page) == [("filter_country", "IS")]


def release(page: Any, pattern: Any, held: list[Any]) -> None:
    """Let requests continue that were held back, once there is one."""
    # Playwright receives requests only while a command runs.
    until(lambda: page.evaluate("1") and held)
    while held:
        held.pop().continue_()
    page.unroute(pattern)


def test_a_segment_is_saved_chosen_and_deleted(site: SampleServer, open_page: OpenPage) -> None:
    page = opened(site, open_page, "&filter_pathname*=pric&filter_browser!=Firefox")
    counted = visitors(site, "filter_pathname*=pric", "filter_browser!=Firefox")
    shows(page, counted)
    page.get_by_role("button", name="Segments", exact=True).click()
    dialog = page.get_by_role("dialog", name="Segments")
    expect(dialog.locator(".chip")).to_have_text(["Page contains pric", "Browser is not Firefox"])
    dialog.get_by_role("button", name="Save as segment").click()
    expect(dialog.get_by_text("Enter a name.")).to_be_visible()
    dialog.get_by_label("Name").fill("Price readers")
    dialog.get_by_role("button", name="Save as segment").click()
    expect(page.locator("dialog")).to_have_count(0)
    (saved,) = site.ask("segments")["data"]
    assert saved["filters"] == ["filter_pathname*=pric", "filter_browser!=Firefox"]
    expect(chips(page)).to_have_text(["Segment Price readers"])
    assert filters_of(page) == [("segment", saved["id"])]
    shows(page, counted)

    # The link shows the same, and the segment goes along to other pages of the website.
    page.reload()
    expect(page.locator(".chip", has_text="Segment Price readers")).to_be_visible()
    page.get_by_role("link", name="Funnels").click()
    expect(page).to_have_url(re.compile(f"segment={saved['id']}"))
    page.get_by_role("button", name="Remove filter: Segment Price readers").click()
    expect(page.locator(".chips .chip")).to_have_count(0)

    page.get_by_role("button", name="Segments", exact=True).click()
    dialog = page.get_by_role("dialog", name="Segments")
    dialog.get_by_label("Name").fill("Empty")
    dialog.get_by_role("button", name="Save as segment").click()
    expect(dialog.get_by_text("To save a segment, add filters first.")).to_be_visible()
    dialog.get_by_role("button", name="Price readers Page contains").click()
    expect(page.locator("dialog")).to_have_count(0)
    assert filters_of(page) == [("segment", saved["id"])]
    page.get_by_role("button", name="Segments", exact=True).click()
    expect(page.locator(".segment-choice[aria-pressed=true]")).to_have_count(1)
    assert violations(page) == []
    page.get_by_role("button", name="Delete Price readers").click()
    page.get_by_role("button", name="Delete segment").click()
    expect(page.get_by_text("No segments yet.")).to_be_visible()
    assert (site.ask("segments")["data"], filters_of(page)) == ([], [])


@pytest.mark.parametrize(
    ("locale", "width", "words"),
    [
        ("en-GB", 1280, ["Segments", "Edit Prices", "Filter", "Country is Germany", "Save segment"]),
        ("de-DE", 390, ["Segmente", "Prices bearbeiten", "Filter", "Land ist Deutschland", "Segment speichern"]),
        ("fr-FR", 390, ["Segments", "Modifier Prices", "Filtre", "Pays est Allemagne", "Enregistrer le segment"]),
        ("es-ES", 1280, ["Segmentos", "Editar Prices", "Filtro", "País es Alemania", "Guardar segmento"]),
    ],
)
def test_a_segment_is_changed_by_keyboard(
    site: SampleServer, open_page: OpenPage, locale: str, width: int, words: list[str]
) -> None:
    segments, edit, add, chip, save = words
    page = opened(site, open_page, locale=locale, viewport={"width": width, "height": 900})
    path = f"{site.url}/api/account/websites/{site.website}/segments"
    headers = {"Sec-Fetch-Site": "same-origin"}
    sent = {"name": "Prices", "filters": ["filter_pathname=/pricing"]}
    page.request.post(path, data=sent, headers=headers)
    page.get_by_role("button", name=segments, exact=True).press("Enter")
    page.get_by_role("button", name=edit, exact=True).press("Enter")
    editor = page.get_by_role("dialog").last
    expect(editor.locator("[name=name]")).to_be_focused()
    editor.get_by_role("button", name=add, exact=True).press("Enter")
    dialog = page.get_by_role("dialog").last
    expect(dialog.locator("#filter-field")).to_be_focused()
    # A segment has no goals, and properties of events.
    expect(dialog.locator("#filter-field option[value=goal]")).to_have_count(0)
    expect(dialog.locator("#filter-field option[value='prop.']")).to_have_count(1)
    dialog.locator("#filter-field").select_option("country")
    dialog.locator("#filter-value").fill("DE")
    page.keyboard.press("Enter")
    expect(editor.locator(".chip").last).to_have_text(chip)
    assert violations_in_each_scheme(page) == []
    editor.get_by_role("button", name=save).press("Enter")
    expect(page.locator("dialog")).to_have_count(1)
    expect(page.get_by_role("dialog")).to_contain_text(chip)
    (saved,) = site.ask("segments")["data"]
    assert saved["filters"] == ["filter_pathname=/pricing", "filter_country=DE"]


def test_share_links_have_no_segments(site: SampleServer, open_page: OpenPage) -> None:
    page = opened(site, open_page)
    answer = page.request.post(
        f"{site.url}/api/account/websites/{site.website}/share-links",
        data=LINK,
        headers={"Sec-Fetch-Site": "same-origin"},
    )
    page.goto(f"{site.url}{answer.json()['data']['path']}?period=7d&filter_pathname$=ing&filter_prop.plan=pro")
    expect(page.locator(".chip")).to_have_text("Page ends with ing")
    shows(page, visitors(site, "filter_pathname$=ing"))
    expect(page.get_by_role("button", name="Segments", exact=True)).to_have_count(0)
    page.get_by_role("button", name="Filter", exact=True).click()
    expect(page.get_by_role("dialog").locator("#filter-field option[value='prop.']")).to_have_count(0)
