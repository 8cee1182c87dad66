"""Share links in a real Chromium: links and their options, the page in a frame of another site, the password form."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.accessibility import violations, violations_in_each_scheme
from tests.browser.browsers import OpenPage
from tests.browser.customer_site import Pages
from tests.browser.history import SampleServer, sample_server
from tests.support.page_client import LINK

PASSWORD = "a password for the link"
# The frame is dark where the document of the page around it is, which supports both color schemes.
FRAMING = (
    '<!doctype html><html lang="en"><head><title>Statistics</title><meta name="color-scheme" content="light dark">'
    '<meta name="viewport" content="width=device-width"></head><body><main><h1>Statistics</h1>'
    '<iframe src="{link}" title="Website statistics" width="100%" height="800"></iframe></main></body></html>'
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SampleServer]:
    with sample_server(tmp_path_factory.mktemp("sharing")) as one:
        yield one


class Link:
    """A new share link of the website with options; those of before are revoked."""

    def __init__(self, site: SampleServer, owner: Any, **options: Any) -> None:
        self.site, self.owner = site, owner
        self._request("DELETE", f"{site.url}/api/account/share-links")
        links = f"{site.url}/api/account/websites/{site.website}/share-links"
        made = self._request("POST", links, LINK | options)
        self.url, self.settings = site.url + made["path"], f"{links}/{made['id']}"

    def set(self, **options: Any) -> None:
        self._request("PATCH", self.settings, options)

    def _request(self, method: str, url: str, sent: Any = None) -> Any:
        headers = {"Sec-Fetch-Site": "same-origin"}
        answer = self.owner.request.fetch(url, method=method, data=sent or {}, headers=headers)
        assert answer.ok, answer.text()
        return answer.json()["data"] if answer.status != 204 else None


def loaded(page: Any) -> None:
    """Wait until a page or frame has its figures."""
    expect(page.locator(".figure").first).to_be_visible()
    expect(page.locator("[aria-busy=true]")).to_have_count(0)


def test_a_theme_is_selected_on_a_shared_page(site: SampleServer, open_page: OpenPage) -> None:
    link = Link(site, site.log_in(open_page()))
    page = open_page(link.url, color_scheme="light", viewport={"width": 390, "height": 844})
    loaded(page)
    # The link has traffic alone, so that there is nothing to choose.
    expect(page.get_by_role("button", name="All types")).to_have_count(0)
    themes = page.get_by_role("group", name="Theme")
    expect(themes.get_by_role("button", name="System")).to_have_attribute("aria-pressed", "true")
    themes.get_by_role("button", name="Dark").press("Enter")
    expect(themes.get_by_role("button", name="Dark")).to_have_attribute("aria-pressed", "true")
    page.reload()
    loaded(page)
    background = page.locator("body").evaluate("(body) => getComputedStyle(body).backgroundColor")
    assert int(background.partition("(")[2].partition(",")[0]) < 128, background
    assert violations(page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_of_another_site_shows_the_link_in_a_frame(
    site: SampleServer, open_page: OpenPage, pages: Pages, scheme: str
) -> None:
    """Without cookies; and only where the link lists the origin."""
    origin = f"http://localhost:{pages.port}"  # another site than 127.0.0.1
    link = Link(site, site.log_in(open_page()), origins=[origin])
    pages.put("/favicon.ico", "", kind="image/x-icon")
    pages.put("/statistics", FRAMING.format(link=link.url))
    page = open_page(f"{origin}/statistics", color_scheme=scheme)
    frame = page.frame_locator("iframe")
    loaded(frame)
    expect(frame.get_by_role("heading", level=1)).to_be_visible()
    assert page.context.cookies() == []
    background = frame.locator("body").evaluate("(body) => getComputedStyle(body).backgroundColor")
    first = int(background.partition("(")[2].partition(",")[0])
    assert (first > 128) is (scheme == "light"), background
    # A filter works, and the frame stays in its place.
    frame.locator(".card-pages .bar").first.click()
    expect(frame.locator(".chip")).to_have_count(1)
    assert violations(page) == []
    link.set(origins=["https://partner.example"])
    with page.expect_console_message(lambda message: "frame-ancestors" in message.text):
        page.reload()
    expect(frame.locator(".figure")).to_have_count(0)
    page.problems.discard("frame-ancestors")


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_a_password_is_entered_once(site: SampleServer, open_page: OpenPage, scheme: str, width: int) -> None:
    link = Link(site, site.log_in(open_page()), password=PASSWORD)
    page = open_page(link.url, color_scheme=scheme, viewport={"width": width, "height": 800})
    field = page.get_by_label("Password", exact=True)
    expect(field).to_be_focused()
    assert violations(page) == []
    button = page.get_by_role("button", name="View statistics")
    button.click()
    expect(field).to_have_attribute("aria-invalid", "true")
    field.fill("another password")
    field.press("Enter")
    expect(page.get_by_text("Incorrect password.")).to_be_visible()
    expect(field).to_be_focused()
    assert violations(page) == []
    field.fill(PASSWORD)
    button.click()
    loaded(page)
    page.reload()
    loaded(page)
    page.problems.discard("status of 401")


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_fixed_filters_and_hidden_events(site: SampleServer, open_page: OpenPage, scheme: str, width: int) -> None:
    """Fixed chips have no button; neither visitors now nor single events are shown or requested."""
    options = {"filters": ["filter_country=DE", "filter_pathname^=/"], "hide_events": True}
    link = Link(site, site.log_in(open_page()), **options)
    page = open_page(color_scheme=scheme, viewport={"width": width, "height": 900})
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    page.goto(link.url)
    loaded(page)
    expect(page.locator(".chip")).to_have_count(2)
    expect(page.locator(".chip").first).to_have_text("Always Country is Germany")
    expect(page.locator(".chip").last).to_have_text("Always Page begins with /")
    expect(page.locator(".chip button")).to_have_count(0)
    expect(page.locator(".card-events, .card-live")).to_have_count(0)
    assert not [url for url in requested if "/events?" in url or url.endswith("/realtime")]
    assert violations(page) == []


PLACES = ["settings", "dialog"]


def opened(site: SampleServer, page: Any, place: str) -> Any:
    """Open the list of links, in the settings or in the dialog of the dashboard."""
    if place == "settings":
        page.goto(f"{site.url}/websites/{site.website}/settings/sharing")
        return page.get_by_role("main")
    page.goto(f"{site.url}/websites/{site.website}?period=7d")
    loaded(page)
    page.get_by_role("button", name="Share", exact=True).click()
    return page.get_by_role("dialog")


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_several_links_with_all_their_options(
    site: SampleServer, open_page: OpenPage, scheme: str, width: int, place: str
) -> None:
    """The same list and form in both places; one button saves all options, and what is not private is said."""
    page = site.log_in(open_page(color_scheme=scheme, viewport={"width": width, "height": 900}))
    body = opened(site, page, place)
    expect(body).to_contain_text("Annotations are public: every link shows them on the chart.")
    for name in ("Customers", "Team"):
        body.get_by_role("button", name="Create link").click()
        body.get_by_label("Name", exact=True).fill(name)
        body.get_by_role("button", name="Create link").click()
        expect(body.get_by_role("button", name=f"Edit {name}")).to_be_focused()
    expect(body.locator(".share-links > li")).to_have_text([re.compile("Customers"), re.compile("Team")])
    assert violations(page) == []
    body.get_by_role("button", name="Edit Customers").click()
    expect(body.get_by_label("Show single events")).not_to_be_checked()
    expect(body).to_contain_text("The images need no password, also where the link has one")
    origins = body.get_by_label("Frame origins")
    origins.fill("partner.example")
    body.get_by_role("button", name="Save link").click()
    expect(origins).to_have_attribute("aria-invalid", "true")
    expect(origins).to_be_focused()
    origins.fill("https://partner.example\nhttp://localhost:5173")
    body.get_by_label("Show single events").check()
    body.get_by_label("Show badge and counter images").check()
    body.get_by_label(re.compile("^Link password")).fill(PASSWORD)
    assert violations(page) == []
    body.get_by_role("button", name="Save link").click()
    customers = body.locator(".share-links > li").filter(has_text="Customers")
    expect(customers).to_contain_text("with a password · with single events · with badges · in frames of other pages")
    expect(body.locator(".share-links > li").filter(has_text="Team")).to_contain_text("without a password")
    customers.get_by_text("HTML to copy").click()
    expect(page.get_by_label("HTML: Frame", exact=True)).to_contain_text("<iframe src=")
    for alt in ("Visitors in the last 30 days", "Pageviews in total"):
        image = page.get_by_role("img", name=alt)
        image.scroll_into_view_if_needed()
        assert image.evaluate("(image) => image.decode().then(() => image.naturalWidth)") > 0
    assert violations(page) == []
    body.get_by_role("button", name="Edit Customers").click()
    expect(origins).to_have_value("https://partner.example\nhttp://localhost:5173")
    body.get_by_label("Remove password").check()
    body.get_by_role("button", name="Save link").click()
    expect(customers).to_contain_text("without a password")
    before = body.get_by_label("Address of Customers", exact=True).input_value()
    body.get_by_role("button", name="Replace the address of Customers").click()
    page.get_by_role("dialog").last.get_by_role("button", name="Replace address", exact=True).click()
    expect(body.get_by_label("Address of Customers", exact=True)).not_to_have_value(before)
    body.get_by_role("button", name="Revoke Customers").click()
    page.get_by_role("dialog").last.get_by_role("button", name="Revoke", exact=True).click()
    expect(customers).to_have_count(0)
    expect(body.get_by_role("button", name="Create link")).to_be_focused()
    if place == "dialog":
        assert "period=7d" in body.get_by_label("Address of Team", exact=True).input_value()
    page.problems.discard("status of 400")


@pytest.mark.parametrize("place", PLACES)
def test_filters_of_a_link_are_chosen_by_keyboard(site: SampleServer, open_page: OpenPage, place: str) -> None:
    """In the dialog of filters, with what has arrived; over the dialog of the dashboard too."""
    page = site.log_in(open_page())
    body = opened(site, page, place)
    body.get_by_role("button", name="Create link").focus()
    page.keyboard.press("Enter")
    expect(body.get_by_label("Name", exact=True)).to_be_focused()
    page.keyboard.type("Germany")
    for _ in range(2):
        body.get_by_role("button", name="Filter", exact=True).focus()
        page.keyboard.press("Enter")
        dialog = page.get_by_role("dialog").last
        expect(dialog.get_by_label("Field")).to_be_focused()
        if not body.locator(".chip").count():
            dialog.get_by_label("Field").select_option("country")
            dialog.get_by_label("Value").fill("germ")
            page.keyboard.press("Enter")
            expect(body.locator(".chip")).to_have_text("Country is Germany")
        else:
            page.keyboard.press("Escape")
    assert violations(page) == []
    body.get_by_label("Name", exact=True).focus()
    page.keyboard.press("Enter")
    expect(body.locator(".share-links > li")).to_contain_text("Country is Germany")
    guest = open_page(site.url + str(body.get_by_role("link", name="Open Germany").get_attribute("href")))
    loaded(guest)
    expect(guest.locator(".chip.fixed")).to_have_text("Always Country is Germany")
    expect(guest.locator(".card-events")).to_have_count(0)


@pytest.mark.parametrize(
    ("locale", "words"),
    [
        ("de-DE", ["Link erstellen", "Einzelne Ereignisse anzeigen", "Anmerkungen sind öffentlich"]),
        ("fr-FR", ["Créer un lien", "Afficher les événements individuels", "Les annotations sont publiques"]),
        ("es-ES", ["Crear enlace", "Mostrar eventos individuales", "Las anotaciones son públicas"]),
    ],
)
def test_links_in_other_languages(site: SampleServer, open_page: OpenPage, locale: str, words: list[str]) -> None:
    create, events, public = words
    page = site.log_in(open_page(locale=locale, viewport={"width": 390, "height": 900}))
    body = opened(site, page, "settings")
    expect(body).to_contain_text(public)
    body.get_by_role("button", name=create).click()
    expect(body.get_by_label(events)).not_to_be_checked()
    assert violations_in_each_scheme(page) == []
