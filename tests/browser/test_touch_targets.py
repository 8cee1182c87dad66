"""Links and buttons of every page are large enough to touch at 390 pixels, in a real Chromium (WCAG 2.5.8)."""

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.accessibility import violations_in_each_scheme
from tests.browser.browsers import SIZES, OpenPage
from tests.browser.history import SampleServer
from tests.browser.journeys import send_journeys

# The pages of a website, by the end of the address; what they show is that of the journeys.
WEBSITE = {
    "": ".card-places .bar",
    "/live?period=30d": ".events-table td",
    "/events?event=signup": ".property",
    "/funnels?step=pathname:/&step=pathname:/pricing": ".funnel .step-name",
    "/journeys": ".journey-lists .bar",
    "/vitals": ".page-body > *",
    "/heatmaps": ".page-body > *",
    "/experiments": ".page-body > *",
    "/rejected": ".page-body > *",
    **{f"/settings{end}": "form" for end in ("", "/tracking", "/exclusions")},
    **{f"/settings{end}": ".card" for end in ("/goals", "/sharing", "/data", "/danger")},
}
ACCOUNT = {
    "/": ".website-name, .card",
    **{f"/account{end}": ".card" for end in ("", "/keys", "/people", "/activity", "/plan", "/sign-in")},
}
# Controls that a tab, a menu or a dialog shows: what is clicked, and what appears.
OPENED = {
    "?period=30d&all=pathname": "dialog tbody tr",
    "?period=30d&all=referrer": "dialog tbody tr",
}
SMALL = """() => {
  const least = 24, found = [];
  const targets = "a[href], button, summary, select, input, textarea, [role=button], [role=tab]";
  const hidden = ".visually-hidden, .skip, [inert]";
  const isInSentence = (target) => {
    if (getComputedStyle(target).display !== "inline") return false;
    const words = target.closest("p, li, td, th, dd, label, legend, summary, h1, h2, h3, div").textContent;
    return /\\p{L}/u.test(words.replace(target.textContent, ""));
  };
  // The label of a box is part of its target, and so is the card that a link is stretched over.
  const areaOf = (target) => {
    if (target.matches(".stretched")) return target.closest(".card");
    return (target.matches("[type=checkbox], [type=radio]") && target.labels[0]) || target;
  };
  const dialog = document.querySelector("dialog[open]");
  for (const target of (dialog || document).querySelectorAll(targets)) {
    if (!target.checkVisibility({ visibilityProperty: true }) || target.closest(hidden)) continue;
    if (isInSentence(target)) continue;
    const { width, height } = areaOf(target).getBoundingClientRect();
    if (!width || !height || Math.min(width, height) >= least - 0.1) continue;
    found.push(`${Math.round(width)}x${Math.round(height)} ${target.outerHTML.slice(0, 160)}`);
  }
  return [...new Set(found)];
}"""


@pytest.fixture(scope="module", autouse=True)
def _events(site: SampleServer) -> None:
    send_journeys(site, site.second)


def shown(site: SampleServer, open_page: OpenPage, path: str, until: str) -> Any:
    page = site.log_in(open_page(viewport=SIZES["narrow"]))
    page.goto(site.url + path)
    expect(page.locator(until).first).to_be_attached()
    expect(page.locator("[aria-busy=true]")).to_have_count(0)
    return page


@pytest.mark.parametrize("end", WEBSITE)
def test_pages_of_a_website(site: SampleServer, open_page: OpenPage, end: str) -> None:
    page = shown(site, open_page, f"/websites/{site.second}{end}", WEBSITE[end])
    assert page.evaluate(SMALL) == []
    page.locator(".topbar button").click()
    assert page.evaluate(SMALL) == []


@pytest.mark.parametrize("path", ACCOUNT)
def test_pages_of_an_account(site: SampleServer, open_page: OpenPage, path: str) -> None:
    page = shown(site, open_page, path, ACCOUNT[path])
    assert page.evaluate(SMALL) == []


@pytest.mark.parametrize("path", ["/login", "/nowhere"])
def test_pages_without_a_session(site: SampleServer, open_page: OpenPage, path: str) -> None:
    page = open_page(viewport=SIZES["narrow"])
    page.problems.ignore("status of 404")
    page.goto(site.url + path)
    expect(page.locator("h1")).to_be_visible()
    assert page.evaluate(SMALL) == []


@pytest.mark.parametrize("end", OPENED)
def test_dialogs(site: SampleServer, open_page: OpenPage, end: str) -> None:
    page = shown(site, open_page, f"/websites/{site.website}{end}", OPENED[end])
    assert page.evaluate(SMALL) == []
    assert violations_in_each_scheme(page) == []


@pytest.mark.parametrize("name", ["Filter", "Export", "Share", "More"])
def test_dialogs_of_the_dashboard(site: SampleServer, open_page: OpenPage, name: str) -> None:
    page = shown(site, open_page, f"/websites/{site.website}?filter_device=desktop", ".card-places .bar")
    page.get_by_role("button", name=name, exact=True).first.click()
    expect(page.locator("dialog[open]")).to_be_visible()
    assert page.evaluate(SMALL) == []
