"""Share links in a real Chromium: options in the settings, the page in a frame of another site, the password form."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.accessibility import violations
from tests.browser.browsers import OpenPage
from tests.browser.customer_site import Pages
from tests.browser.history import SampleServer, sample_server

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
    """The share link of the website, created anew with options."""

    def __init__(self, site: SampleServer, owner: Any, **options: Any) -> None:
        self.site, self.owner = site, owner
        self.settings = f"{site.url}/api/account/websites/{site.website}/share"
        self._request("DELETE")
        self.url = site.url + self._request("POST")["share"]
        self.set(**options)

    def set(self, **options: Any) -> None:
        self._request("PATCH", options)

    def _request(self, method: str, sent: Any = None) -> Any:
        headers = {"Sec-Fetch-Site": "same-origin"}
        answer = self.owner.request.fetch(self.settings, method=method, data=sent or {}, headers=headers)
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


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_options_in_the_settings(site: SampleServer, open_page: OpenPage, scheme: str, width: int) -> None:
    page = site.log_in(open_page(color_scheme=scheme, viewport={"width": width, "height": 900}))
    Link(site, page)
    page.goto(f"{site.url}/websites/{site.website}#settings")
    origins, filters = page.get_by_label("Frame origins"), page.get_by_label("Fixed filters")
    origins.fill("partner.example")
    page.get_by_role("button", name="Save options").click()
    expect(origins).to_have_attribute("aria-invalid", "true")
    origins.fill("https://partner.example\nhttp://localhost:5173")
    filters.fill("filter_country=DE")
    page.get_by_label("Hide single events").check()
    page.get_by_label("Show badge and counter images").check()
    page.get_by_role("button", name="Save options").click()
    expect(page.get_by_text("Options saved.")).to_be_visible()
    expect(page.get_by_label("HTML: Frame", exact=True)).to_contain_text("<iframe src=")
    for alt in ("Visitors in the last 30 days", "Pageviews in total"):
        image = page.get_by_role("img", name=alt)
        expect(image).to_be_visible()
        image.scroll_into_view_if_needed()
        assert image.evaluate("(image) => image.decode().then(() => image.naturalWidth)") > 0
    page.get_by_label("Link password", exact=True).fill(PASSWORD)
    page.get_by_role("button", name="Set password").click()
    expect(page.get_by_text("Viewers enter a password.")).to_be_visible()
    assert violations(page) == []
    page.reload()
    expect(filters).to_have_value("filter_country=DE")
    expect(origins).to_have_value("https://partner.example\nhttp://localhost:5173")
    expect(page.get_by_label("Hide single events")).to_be_checked()
    page.get_by_role("button", name="Remove password").click()
    expect(page.get_by_text("No password.")).to_be_visible()
    page.problems.discard("status of 400")
