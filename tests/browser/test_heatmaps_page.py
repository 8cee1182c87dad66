"""The heatmap page, in a real Chromium: it draws what the read API returns, which is what was sent.

Points are sent as the tracker sends them. The website's own page is on another local server, which allows framing or
forbids it. Pixels are read from the canvas. Tests wait for conditions.
"""

import math
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.accessibility import violations, violations_in_each_scheme
from tests.browser.browsers import SIZES, ZONE, OpenPage, Problems, exported, exported_text
from tests.browser.customer_site import Pages
from tests.browser.history import EMAIL, KEY, PASSWORD, SampleServer, run
from tests.support.process import Server, until

WIDTHS = {"mobile": 400, "tablet": 800, "desktop": 1440}
COLUMNS, ROW_PX = 50, 20
Point = dict[str, Any]
Shown = Callable[..., Any]


def clicks(draw: random.Random, number: int) -> list[Point]:
    """Return clicks: most on a button in the middle, the others anywhere."""
    found = []
    for _ in range(number):
        near = draw.random() < 0.6
        x, y = (draw.gauss(0.5, 0.03), draw.gauss(430, 20)) if near else (draw.random(), draw.random() * 2_500)
        found.append({"kind": "click", "x": round(min(max(x, 0), 1), 3), "y": max(0, int(y))})
    return found


def percent(share: float) -> str:
    """Return a share as pages show it."""
    return "100%" if share == 100 else f"{share:.1f}%"


def scroll(depth: int) -> Point:
    return {"kind": "scroll", "x": 0, "y": depth}


class Site(SampleServer):
    """A server with points, the website's own pages, and what was sent by page and width class."""

    pages: Pages
    sent: dict[tuple[str, str], list[Point]]

    def heatmap_event(self, path: str, device: str, *points: Point) -> dict[str, Any]:
        """Return the heatmap event of a view of a page of the second website, for `send`."""
        self.sent.setdefault((path, device), []).extend(points)
        url = f"https://shop.example{path}"
        return {"type": "heatmap", "url": url, "viewport_width": WIDTHS[device], "points": list(points)}

    def map(self, path: str, device: str) -> Any:
        """Return the read API's heatmap of the last seven days."""
        query = f"heatmap?pathname={path}&filter_device={device}&tz={ZONE}"
        request = self.server.request(
            "GET", f"/api/v1/websites/{self.second}/{query}", headers={"Authorization": f"Bearer {self.key}"}
        )
        assert request.status == 200, request.text
        return request.json["data"]

    def views(self) -> int:
        """Return the pageviews of today."""
        answer = self.server.request(
            "GET",
            f"/api/v1/websites/{self.second}/stats",
            headers={"Authorization": f"Bearer {self.key}"},
        )
        return int(answer.json["data"]["pageviews"])


# A website's page with the tracker, and with the pixel for browsers without scripts.
OWN_PAGE = """<!doctype html><html lang=en><meta name=viewport content=width=device-width><title>shop</title>
<link rel=icon href="data:,">
<script defer src="{url}/tracker.js" data-website-id="{website}" data-heatmap="1"></script>
<body style="margin:0;background:#e8f0ff"><h1 id=heading>The shop's own page</h1><a href="/other">on</a>
<script>document.getElementById("heading").textContent = "a script has run"</script>
<noscript><img src="{url}/pixel.gif?website_id={website}" referrerpolicy="no-referrer-when-downgrade" alt=""></noscript>
<p style="height:2000px">text</p></body></html>"""
FORBIDDEN = {
    "X-Frame-Options": {"X-Frame-Options": "DENY"},
    "frame-ancestors": {"Content-Security-Policy": "frame-ancestors 'none'"},
}


def fill(site: Site) -> None:
    """Send points of some pages; for tablets, of one page only."""
    draw = random.Random(6)
    events = [
        site.heatmap_event("/", device, *clicks(draw, draw.randrange(9)), scroll(draw.choice((700, 900, 1_300, 2_600))))
        for device, views in (("desktop", 40), ("mobile", 15))
        for _ in range(views)
    ]
    events += [site.heatmap_event("/read", "desktop", scroll(depth)) for depth in (800, 800, 5_000)]
    events += [site.heatmap_event("/quick", "tablet", *clicks(draw, 5))]
    deep = {"kind": "click", "x": 0.5, "y": 150_000}
    events += [
        site.heatmap_event("/long", "desktop", *clicks(draw, 9), deep, deep, scroll(200_000)),
        site.heatmap_event("/long", "mobile"),
    ]
    events += [site.heatmap_event(f"/blog/{n:02}", "desktop", scroll(720)) for n in range(12)]
    events = [event for event in events if event["points"]]
    # The hostname of the page comes from a pageview.
    events.append({"type": "pageview", "url": f"http://localhost:{site.pages.port}/"})
    for first in range(0, len(events), 50):
        site.send(site.second, *events[first : first + 50])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("heatmaps")
    db = folder / "analytics.db"
    run(db, "account", "create", EMAIL, "--password-stdin", stdin=PASSWORD)
    pages = Pages()
    origin = f"http://localhost:{pages.port}"
    website = run(db, "website", "add", "shop.example", "--allow-origin", origin)
    empty = run(db, "website", "add", "empty.example")
    key = run(db, "key", "create", *KEY)
    server = Server(db, ("--key-per-minute", "100000"), {}, Path(folder) / "stderr.log", [])
    one = Site(server, key, website, empty, website)
    one.pages, one.sent = pages, {}
    try:
        own = OWN_PAGE.format(url=server.url, website=website)
        for path in ("/", "/quick", "/read", "/other"):
            pages.put(path, own)
        fill(one)
        yield one
    finally:
        server.kill()
        pages.close()


@pytest.fixture
def shown(site: Site, open_page: OpenPage) -> Shown:
    """Return a function that opens the page of a heatmap and waits until it is loaded."""

    def show(query: str = "pathname=/", **options: Any) -> Any:
        page = site.log_in(open_page(**options))
        page.goto(f"{site.url}/websites/{site.second}/heatmaps?period=7d&tz={ZONE}&{query}")
        return loaded(page)

    return show


def without_scripts(page: Any) -> Any:
    """Ignore the errors of blocked scripts, which are expected in a frame; return the page."""
    # Under load the frame has been drawn before the browser reports them.
    page.problems.ignore("Blocked script execution")
    return page


def loaded(page: Any) -> Any:
    """Return the page once all responses have arrived."""
    expect(page.locator(".sheet-title")).to_be_visible()
    expect(page.locator("[aria-busy=true]")).to_have_count(0)
    return page


def cells(page: Any, samples: int = 1) -> dict[tuple[int, int], tuple[int, int, int, int]]:
    """Return the color in the middle of each cell of the canvas that is not blank."""
    found = page.evaluate(
        """(samples) => {
          const canvas = document.querySelector(".sheet-clicks");
          const { width, height } = canvas;
          const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
          const found = [];
          for (let y = 0; y < height / samples; y++)
            for (let x = 0; x < width / samples; x++) {
              const at = 4 * ((y * samples + (samples >> 1)) * width + x * samples + (samples >> 1));
              if (data[at + 3]) found.push([x, y, ...data.slice(at, at + 4)]);
            }
          return found;
        }""",
        samples,
    )
    return {(x, y): (red, green, blue, alpha) for x, y, red, green, blue, alpha in found}


def lightness(colour: tuple[int, int, int, int]) -> float:
    """Return CIE L*, 0 to 100, in which equal steps are perceived as equal."""
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in (c / 255 for c in colour)]
    light = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return float(116 * light ** (1 / 3) - 16)


def counted(site: Site, path: str, device: str) -> Counter[tuple[int, int]]:
    """Return the clicks of each cell, counted from what was sent."""
    points = [point for point in site.sent[path, device] if point["kind"] == "click"]
    return Counter((min(int(point["x"] * COLUMNS), COLUMNS - 1), point["y"] // ROW_PX) for point in points)


def depths(site: Site, path: str, device: str) -> list[int]:
    return [point["y"] for point in site.sent[path, device] if point["kind"] == "scroll"]


def words(x: int, y: int) -> str:
    return f"{2 * x} to {2 * x + 2}% from the left, {y * ROW_PX:,} to {(y + 1) * ROW_PX:,} px from the top"


# --- figures


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_click_is_drawn_at_its_position(site: Site, shown: Shown, scheme: str) -> None:
    """Cells as they are: those that were clicked and no others; the more clicks, the darker, or in the dark lighter."""
    page = shown("pathname=/&device=desktop&edges=cells", color_scheme=scheme)
    sent = counted(site, "/", "desktop")
    assert Counter({(x, y): count for x, y, count in site.map("/", "desktop")["grid"]}) == sent
    pixels = cells(page)
    assert pixels.keys() == sent.keys()
    assert len(set(sent.values())) > 3
    colours = {count: {pixels[cell] for cell in sent if sent[cell] == count} for count in sent.values()}
    assert all(len(of) == 1 for of in colours.values())
    lights = [lightness(colours[count].pop()) for count in sorted(colours)]
    assert sorted(set(lights), reverse=scheme == "light") == lights
    assert abs(lights[0] - lights[-1]) > 40


def test_the_smoothed_drawing_has_the_color_of_each_count(site: Site, shown: Shown) -> None:
    """In the middle of each cell is the colour of its own count. Others fade out, and are blank from 36 px on."""
    page = shown("pathname=/&device=desktop")
    soft = cells(page, 5)
    sent = counted(site, "/", "desktop")

    def distance(cell: tuple[int, int]) -> float:
        """Return the distance to the nearest clicked cell, in CSS pixels of the page."""
        return min(math.hypot((cell[0] - x) * 1_280 / COLUMNS, (cell[1] - y) * ROW_PX) for x, y in sent)

    between = {cell: colour for cell, colour in soft.items() if cell not in sent}
    assert {round(distance(cell)) for cell in between} == {20, 26, 32}
    faintest = min(soft[cell][3] for cell in sent)
    alone = [
        alpha
        for (x, y), (*_, alpha) in between.items()
        if sum(math.hypot((a - x) * 1_280 / COLUMNS, (b - y) * ROW_PX) < 36 for a, b in sent) == 1
    ]
    assert 0 < max(alone) < 0.5 * faintest
    page.get_by_role("button", name="Cells", exact=True).click()
    page.wait_for_url("**&edges=cells")
    expect(page.locator(".sheet-clicks.cells")).to_have_count(1)
    assert {cell: soft[cell] for cell in sent} == cells(page)


def spots(sent: Counter[tuple[int, int]]) -> list[tuple[int, int, int, int, int]]:
    """Return the hot spots of a desktop, counted from what was sent: clicks, -top, -left, right and bottom.

    Each has the cells within two to the sides and one up and down of the one with the most clicks.
    """
    left, found = sorted(sent, key=lambda cell: (-sent[cell], cell[1], cell[0])), []
    while left:
        x, y = left[0]
        own = [cell for cell in left if abs(cell[0] - x) <= 2 and abs(cell[1] - y) <= 1]
        left = [cell for cell in left if cell not in own]
        columns, rows = [cell[0] for cell in own], [cell[1] for cell in own]
        found.append((sum(sent[cell] for cell in own), -min(rows), -min(columns), max(columns) + 1, max(rows) + 1))
    return sorted(found, reverse=True)


def name(spot: tuple[int, int, int, int, int]) -> str:
    """Return the position of a spot in words; a screen of a desktop has 36 rows."""
    _, top, left, right, bottom = spot
    screen, row = divmod((bottom - top) / 2, 36)
    vertical, horizontal = ("Top", "", "Bottom")[int(row // 12)], int(3 * (right - left) / 2 / COLUMNS)
    place = f"{vertical} {('left', 'center', 'right')[horizontal]}".strip().capitalize()
    on_screen = f" of screen {screen + 1:.0f}" if screen else ""
    return f"{place}{on_screen} ({-2 * left}%), {-top * ROW_PX:,} px from the top"


def test_hot_spots_are_named_by_their_position(site: Site, shown: Shown) -> None:
    page = shown("pathname=/&device=desktop")
    sent = counted(site, "/", "desktop")
    expected = spots(sent)
    assert len(expected) < len(sent)
    total = sum(sent.values())
    listed = [
        f"{rank}{name(one)}{one[0]}{100 * one[0] / total:.1f}%" for rank, one in enumerate(expected[:10], start=1)
    ]
    expect(page.locator(".places-card tbody tr")).to_have_text(listed)
    # The same numbers are on the drawing.
    expect(page.locator(".sheet-spot")).to_have_text([str(rank) for rank in range(1, 11)])
    page.get_by_role("button", name=f"All {len(expected)} positions").click()
    dialog = page.get_by_role("dialog", name="Positions by clicks")
    expect(dialog.locator("tbody tr")).to_have_count(min(50, len(expected)))
    count, top, left, right, bottom = last = expected[-1]
    exact = f"{-2 * left} to {2 * right}% from the left, {-top * ROW_PX:,} to {bottom * ROW_PX:,} px from the top"
    dialog.get_by_role("searchbox").fill(exact)
    expect(dialog.locator("tbody tr")).to_have_count(1)
    dialog.get_by_role("button", name=name(last)).click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.locator(".sheet-tip")).to_contain_text(f"{count} click")
    expect(page.locator(".sheet-tip")).to_contain_text(exact)


def test_ranks_cover_no_label_on_phones(shown: Shown) -> None:
    """The ranks beside the lines' labels are moved, and so is a label beside another; none covers a label."""
    covered = """() => {
      const boxes = [...document.querySelectorAll(".sheet-label, .sheet-spot")].map((node) => {
        const { left, top, right, bottom } = node.getBoundingClientRect();
        const isLabel = node.matches(".sheet-label");
        return { name: node.textContent, isLabel, left: left + 1, top: top + 1, right: right - 1, bottom: bottom - 1 };
      });
      return boxes.flatMap((a, i) => boxes.slice(i + 1)
        .filter((b) => a.isLabel && a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom)
        .map((b) => `${a.name} / ${b.name}`));
    }"""
    for device in ("desktop", "mobile"):
        page = shown(f"pathname=/&device={device}", viewport={"width": 390, "height": 844})
        expect(page.locator(".sheet-spot")).not_to_have_count(0)
        assert page.evaluate(covered) == []


def test_a_hot_spot_is_highlighted_on_the_drawing(site: Site, shown: Shown) -> None:
    """From the table by keyboard; from the drawing by the pointer, whose tooltip has the cell's number."""
    page = shown("pathname=/&device=desktop")
    count, top, left, right, bottom = spots(counted(site, "/", "desktop"))[0]
    page.locator("[data-key=place-1]").press("Enter")
    expect(page.locator(".sheet-tip")).to_contain_text(f"{count} clicks")
    at, paper = page.locator(".sheet-mark").bounding_box(), page.locator(".sheet-paper").bounding_box()
    width, height = at["width"] / (right + left), at["height"] / (bottom + top)
    assert abs((at["x"] - paper["x"]) / paper["width"] + left / COLUMNS) < 0.002
    assert abs(at["y"] - paper["y"] + top * height) < 2
    page.mouse.move(at["x"] + 3.5 * width, at["y"] - 8.5 * height)
    expect(page.locator(".sheet-tip")).to_contain_text(words(3 - left, -top - 9))
    reached = sum(depth >= (-top - 9) * ROW_PX for depth in depths(site, "/", "desktop"))
    assert reached == 40
    expect(page.locator(".sheet-tip")).to_contain_text("100% of pageviews reach this depth")
    page.mouse.move(2, 2)
    expect(page.locator(".sheet-tip")).to_be_hidden()


def test_scroll_depth(site: Site, shown: Shown) -> None:
    """The curve, its table and the words, compared with what was sent."""
    page = shown("pathname=/&device=desktop")
    own = depths(site, "/", "desktop")
    reached = [100 * sum(depth >= i * ROW_PX for depth in own) / len(own) for i in range(max(own) // ROW_PX + 1)]
    assert site.map("/", "desktop")["scroll"] == pytest.approx(reached, abs=0.051)
    slider = page.get_by_role("slider")
    expect(slider).to_have_attribute("aria-valuemax", str(len(reached)))
    slider.focus()
    slider.press("Home")
    for i in range(0, 43, 7):
        text = f"{i * ROW_PX:,} px: {percent(reached[i])} of pageviews reach this depth"
        expect(slider).to_have_attribute("aria-valuetext", text)
        slider.press("PageDown")
    page.get_by_text("Table of this curve").click()
    for row in page.locator(".depth-card tbody tr").all():
        depth, share = row.locator("th").inner_text(), row.locator("td").inner_text()
        assert share == percent(reached[int(depth.removesuffix(" px").replace(",", "")) // ROW_PX])
    half = max(i for i, share in enumerate(reached) if share >= 50) * ROW_PX
    expect(page.locator(".depth-words")).to_contain_text(f"Half of {len(own)} pageviews reach {half:,} px")
    quarters = [max(i for i, share in enumerate(reached) if share >= part) * ROW_PX for part in (75, 25)]
    expected_text = f"75% reach {quarters[0]:,} px, 25% reach {quarters[1]:,} px"
    expect(page.locator(".depth-words")).to_contain_text(expected_text)
    expect(page.locator(".sheet-label.part")).to_have_text(
        [
            f"{part}% of pageviews reach {depth:,} px"
            for part, depth in ((75, quarters[0]), (50, half), (25, quarters[1]))
        ]
    )


def bottom(locator: Any) -> float:
    """Return the lower edge of an element."""
    box = locator.bounding_box()
    return float(box["y"] + box["height"])


def test_a_label_at_the_lower_edge_stands_above_its_line(shown: Shown) -> None:
    page = shown("pathname=/read")
    lowest = page.locator(".sheet-line.part").last.bounding_box()
    expect(page.locator(".sheet-label.part")).to_have_count(3)
    edge = bottom(page.locator(".sheet-paper"))
    for one in page.locator(".sheet-label.part").all():
        assert bottom(one) <= min(lowest["y"] + 1, edge)


def test_width_classes(site: Site, shown: Shown) -> None:
    """Each with its counts; the one with the most is shown first."""
    page = shown()
    for device, title in (("mobile", "Phone"), ("tablet", "Tablet"), ("desktop", "Desktop")):
        sent = site.sent.get(("/", device), [])
        own = sum(point["kind"] == "click" for point in sent)
        button = page.locator(f"[data-device={device}]")
        expect(button).to_have_text(f"{title}{own} clicks{len(sent) - own} pageviews")
        expect(button).to_have_attribute("aria-pressed", str(device == "desktop").lower())
    page.locator("[data-device=mobile]").click()
    page.wait_for_url("**&device=mobile")
    expect(page.locator("[data-device=mobile]")).to_be_focused()
    expect(page.locator(".sheet-head")).to_contain_text("on phones (narrower than 640 px)")
    assert page.locator(".sheet-paper").bounding_box()["width"] == 390
    expect(page.locator(".sheet-label.screen")).to_have_text("Fold, 660 px")
    assert cells(page, 5).keys() >= counted(site, "/", "mobile").keys()
    page.locator("[data-device=tablet]").click()
    expect(page.locator(".sheet-message")).to_contain_text("No data from tablets for / in this range")
    assert cells(page, 5) == {}
    expect(page.locator(".places-card")).to_contain_text("No clicks in this range.")


def test_pages_are_listed_and_searched(site: Site, shown: Shown) -> None:
    page = shown("")
    kinds: dict[str, Counter[str]] = {}
    for (path, _), points in site.sent.items():
        kinds.setdefault(path, Counter()).update(point["kind"] for point in points)
    expected = sorted(kinds, key=lambda path: (-kinds[path].total(), path))
    rows = page.locator(".pages-card .bar")
    expect(rows.locator(".bar-label")).to_have_text(expected[:8])
    first = kinds[expected[0]]
    expect(rows.first).to_have_text(f"{expected[0]}{first['scroll']} pageviews{first['click']} clicks")
    expect(rows.first).to_have_attribute("aria-pressed", "true")
    expect(page.locator(".sheet-title")).to_have_text(expected[0])
    page.keyboard.press("/")
    dialog = page.get_by_role("dialog", name="Pages with heatmaps")
    expect(dialog.locator(".bar")).to_have_count(len(kinds))
    dialog.get_by_role("searchbox").fill("BLOG/11")
    expect(dialog.locator(".bar")).to_have_count(1)
    dialog.locator(".bar").click()
    page.wait_for_url("**&pathname=/blog/11")
    expect(page.locator(".sheet-title")).to_have_text("/blog/11")
    # It is listed although it is not among the first.
    expect(page.locator(".pages-card .bar[aria-pressed=true]")).to_have_text("/blog/111 pageview0 clicks")
    page.go_back()
    expect(page.locator(".sheet-title")).to_have_text(expected[0])


def test_layers(shown: Shown) -> None:
    """What is drawn is in the address, so that a link and a reload show the same."""
    page = shown("pathname=/&device=desktop")
    expect(page.locator(".sheet-clicks")).to_be_visible()
    expect(page.locator(".sheet-fog")).to_be_visible()
    page.locator(".segment", has_text="Scroll").click()
    page.wait_for_url("**&hide=clicks")
    expect(page.locator(".sheet-clicks")).to_be_hidden()
    page.locator(".segment", has_text="Clicks").click()
    page.wait_for_url("**&hide=scroll")
    page.reload()
    loaded(page)
    expect(page.locator(".sheet-clicks")).to_be_visible()
    expect(page.locator(".sheet-fog")).to_be_hidden()
    expect(page.locator(".sheet-label.part")).to_have_count(0)
    page.locator(".segment", has_text="Both").click()
    expect(page.locator(".sheet-label.part")).to_have_count(3)


def test_parts_that_few_views_reach_are_dimmed(site: Site, shown: Shown) -> None:
    page = shown("pathname=/&device=desktop")
    alphas = page.evaluate(
        """() => { const { width, height } = document.querySelector(".sheet-fog");
          const pen = document.querySelector(".sheet-fog").getContext("2d");
          return [...pen.getImageData(0, 0, width, height).data].filter((_, i) => i % 4 === 3); }"""
    )
    own = depths(site, "/", "desktop")
    thick = [1 - sum(depth >= i * ROW_PX for depth in own) / len(own) for i in range(len(alphas))]
    assert [alpha / 255 for alpha in alphas] == pytest.approx([0.6 * one for one in thick], abs=0.005)


def test_ranges_are_whole_days_of_the_website(site: Site, shown: Shown) -> None:
    """The days of the picker are local; the page names the website's days that are counted, here those of UTC."""
    page = shown("pathname=/")
    page.keyboard.press("1")
    page.wait_for_url("**period=today**")
    # A day in Berlin begins on the evening before, UTC.
    days = page.evaluate(
        """(zone) => {
          const day = new Intl.DateTimeFormat("sv-SE", { timeZone: zone }).format();
          const noon = Date.parse(`${day}T12:00:00Z`);
          const words = { timeZone: "UTC", day: "numeric", month: "short", year: "numeric" };
          return new Intl.DateTimeFormat("en-US", words).formatRange(noon - 86400000, noon);
        }""",
        ZONE,
    )
    expect(page.locator(".sheet-head")).to_contain_text(f"{days}, whole days.")
    page.goto(page.url.replace(f"tz={ZONE}", "tz=UTC"))
    page.wait_for_url("**tz=UTC**")
    shown_days = page.locator(".when-days").inner_text()
    today = page.evaluate("new Intl.DateTimeFormat('en-US', { timeZone: 'UTC', dateStyle: 'medium' }).format()")
    assert today in shown_days
    expect(page.locator(".sheet-head")).to_contain_text(f"{shown_days}, whole days.")


# --- few and many points


def test_depths_without_clicks_and_clicks_without_depths(shown: Shown) -> None:
    page = shown("pathname=/read")
    expect(page.locator(".sheet-message")).to_have_text("No clicks on desktops in this range.")
    expect(page.locator(".depth-words")).to_contain_text("Half of 3 pageviews reach 800 px")
    assert exported(page) == []
    expect(page.get_by_role("dialog")).to_contain_text("There is nothing to export in this range.")
    page.keyboard.press("Escape")
    page.locator(".pages-card .bar", has_text="/quick").click()
    page.wait_for_url("**&pathname=/quick")
    expect(page.locator(".sheet-message")).to_contain_text("No scroll depths in this range")
    expect(page.locator(".depth-card")).to_contain_text("No scroll depths in this range.")
    assert cells(page, 5)
    page.locator(".pages-card .bar", has_text="/read").click()
    expect(page.locator(".depth-words")).to_contain_text("Half of 3 pageviews reach 800 px")
    expect(page.locator(".depth-card canvas")).to_have_count(1)


def test_a_very_long_page_is_truncated_with_a_notice(shown: Shown) -> None:
    page = shown("pathname=/long")
    expect(page.locator(".sheet-message")).to_have_text("Drawn up to 20,000 px; 2 deeper clicks are in the lists.")
    assert page.locator(".sheet-clicks").evaluate("(canvas) => canvas.height") == 20_000 / ROW_PX * 5
    expect(page.locator(".places-card")).to_contain_text(
        re.compile(r"of screen 209 \(\d+%\), 150,000 px from the top2")
    )
    expect(page.locator(".depth-words")).to_contain_text("Max.: 200,020 px")


def test_thousands_of_cells(site: Site, shown: Shown) -> None:
    """A page that was clicked everywhere: every cell is drawn."""
    draw = random.Random(9)
    cells_of = [(x, y) for x in range(COLUMNS) for y in range(100)]
    draw.shuffle(cells_of)
    points = [{"kind": "click", "x": (x + 0.5) / COLUMNS, "y": y * ROW_PX + 7} for x, y in cells_of]
    parts = [points[first : first + 100] for first in range(0, len(points), 100)]
    for few in (parts[at : at + 8] for at in range(0, len(parts), 8)):
        site.send(site.second, *(site.heatmap_event("/everywhere", "desktop", *part) for part in few))
    page = shown("pathname=/everywhere")
    assert len(cells(page, 5)) == 5_000
    # Two cells to the sides and one up and down: spots of at most 15 cells.
    number = int(re.search(r"\d+", page.locator("[data-key=all-places]").inner_text())[0])  # type: ignore[index]
    assert 5_000 / 15 <= number < 5_000 / 5
    expect(page.locator(".legend-one")).to_be_visible()
    del site.sent["/everywhere", "desktop"]


def test_a_website_without_points(site: Site, open_page: OpenPage) -> None:
    """The page shows the snippet with data-heatmap."""
    page = site.log_in(open_page())
    page.goto(f"{site.url}/websites/{site.empty}/heatmaps")
    expect(page.get_by_role("heading", name="No heatmaps in this range")).to_be_visible()
    expect(page.locator(".snippet pre")).to_contain_text(f'data-website-id="{site.empty}" data-heatmap="0.1"></script>')
    expect(page.locator("canvas")).to_have_count(0)
    assert violations(page) == []


def test_a_failed_request_shows_an_error_and_can_be_retried(site: Site, open_page: OpenPage) -> None:
    page = site.log_in(open_page())
    body = {"ok": False, "error": {"code": "storage_unavailable", "message": "The database cannot be reached."}}
    pattern = re.compile(r"/heatmap\?")
    page.route(pattern, lambda route: route.fulfill(status=503, json=body))
    page.goto(f"{site.url}/websites/{site.second}/heatmaps")
    expect(page.get_by_role("alert")).to_contain_text("Heatmaps cannot be shown.")
    expect(page.get_by_role("alert")).to_contain_text("The database cannot be reached.")
    page.unroute(pattern)
    page.get_by_role("button", name="Try again").click()
    loaded(page)
    assert cells(page, 5)
    page.problems.discard("503")


# --- over the website's page


def test_over_the_websites_page(site: Site, open_page: OpenPage, shown: Shown) -> None:
    """It is shown, no script of it runs, and its visit is not counted, by tracker or pixel; by itself it counts."""
    own = f"http://localhost:{site.pages.port}/"
    before = site.views()
    open_page(own)
    until(lambda: site.views() == before + 1)
    open_page(own, java_script_enabled=False)
    until(lambda: site.views() == before + 2)
    page = shown("pathname=/&device=desktop")
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    site.pages.opened.clear()
    expect(page.locator("iframe")).to_have_count(0)
    with page.expect_response(lambda response: "/pixel.gif" in response.url) as pixel:
        page.get_by_role("button", name="Live page").click()
    assert not pixel.value.request.headers.get("referer")
    page.wait_for_url("**&over=page")
    frame = page.locator("iframe")
    expect(page.frame_locator("iframe").locator("h1")).to_have_text("The shop's own page")
    assert (frame.get_attribute("src"), frame.get_attribute("sandbox")) == (own, "")
    assert not [url for url in requested if "/collect" in url]
    expect(page.locator(".framing")).to_contain_text("this is not counted as a visit")
    # Events that were sent before this request would be counted by now.
    assert site.views() == before + 2
    assert site.pages.opened.count("/") == 1
    # As wide as its class, made smaller; neither pointer nor keyboard come into it.
    assert frame.evaluate("(one) => one.offsetWidth") == 1_280
    assert frame.bounding_box()["width"] == pytest.approx(page.locator(".sheet-paper").bounding_box()["width"], abs=1)
    page.locator(".sheet-paper").click(position={"x": 10, "y": 50}, force=True)
    assert page.evaluate("document.querySelector('.sheet-under').inert")
    assert site.pages.opened.count("/other") == 0
    # Drawn anew, it is not opened again.
    page.get_by_role("button", name="Cells", exact=True).click()
    page.wait_for_url("**edges=cells**")
    assert site.pages.opened.count("/") == 1
    assert cells(page).keys() == counted(site, "/", "desktop").keys()
    page.locator(".segment", has_text="Plain").click()
    expect(page.locator("iframe")).to_have_count(0)
    without_scripts(page)


@pytest.mark.parametrize("headers", FORBIDDEN.values(), ids=FORBIDDEN.keys())
def test_a_page_that_forbids_framing(site: Site, shown: Shown, headers: dict[str, str]) -> None:
    """A page cannot detect it: there are instructions, and a button for the plain background."""
    site.pages.put("/read", OWN_PAGE.format(url=site.url, website=site.second), headers)
    page = shown(f"pathname=/read&over=page&at=http://localhost:{site.pages.port}")
    until(lambda: "/read" in site.pages.opened)
    page.get_by_text("Is the page blank or different?").click()
    expect(page.locator(".framing")).to_contain_text(f"frame-ancestors 'self' {site.url}")
    page.get_by_role("button", name="plain background", exact=True).click()
    expect(page.locator("iframe")).to_have_count(0)
    expect(page.locator(".sheet-label.part")).not_to_have_count(0)
    page.problems.discard("Refused to display", "frame-ancestors", "Framing")
    site.pages.opened.clear()


def test_the_port_of_a_website_of_this_computer_is_typed(site: Site, shown: Shown) -> None:
    """Heatmaps have no ports: the frame shows the page on the one that is entered, which the address keeps."""
    page = shown("pathname=/")
    created = page.request.post(
        f"{site.url}/api/account/websites", data={"domain": "localhost"}, headers={"Sec-Fetch-Site": "same-origin"}
    )
    website = created.json()["data"]["id"]
    site.pages.put("/local", "<!doctype html><title>Local</title><p>local</p>")
    points = [{"kind": "click", "x": 0.5, "y": 100}]
    site.send(website, {"type": "heatmap", "url": "http://localhost/local", "viewport_width": 1280, "points": points})
    page.goto(f"{site.url}/websites/{website}/heatmaps?period=today&pathname=/local&over=page&at=http://localhost")
    port = page.get_by_label("Port of localhost")
    expect(port).to_have_value("80")
    port.fill(str(site.pages.port))
    port.press("Enter")
    expect(page.locator("iframe")).to_have_attribute("src", f"http://localhost:{site.pages.port}/local")
    expect(page).to_have_url(re.compile(rf"at=http(:|%3A)//localhost(:|%3A){site.pages.port}"))
    expect(page.frame_locator("iframe").locator("p")).to_have_text("local")
    expect(port).to_have_value(str(site.pages.port))
    assert violations(page) == []
    found = page.evaluate(
        """async () => { const { addressesOf } = await import("/assets/heatmaps/page_frame.js");
          const at = ["http://localhost:3000", "http://localhost:3000/x", "http://evil.example:3000", "http://127.0.0.1:3000"];
          return at.map((one) => addressesOf({ domain: "localhost", origins: [] }, [], one).includes(one)); }"""
    )
    assert found == [True, False, False, False]
    page.problems.discard("ERR_CONNECTION_REFUSED", "chrome-error")


def test_only_addresses_of_the_website_are_framed(site: Site, shown: Shown) -> None:
    """Whatever the address or a path contains; the server's policy has the same addresses."""
    page = shown("pathname=/&over=page&at=https://evil.example")
    listed = f"http://localhost:{site.pages.port}"
    options = page.get_by_label("Address of the page").locator("option")
    expect(options).to_have_text([listed, "https://shop.example", "http://shop.example"])
    assert page.locator("iframe").get_attribute("src") == f"{listed}/"
    found = page.evaluate(
        """async () => { const { addressesOf, pageAt } = await import("/assets/heatmaps/page_frame.js");
          const site = { domain: "a.example", origins: ["app://x", "https://b.example"] };
          return [addressesOf(site, ["evil.example", "xa.example", "www.a.example", ""]),
                  ...["//evil.example/x", "/\\\\\\\\evil.example", "@evil.example", "/ok?x", ""].map((path) =>
                    pageAt("https://a.example", path))]; }"""
    )
    assert found[0] == [
        *("https://www.a.example", "http://www.a.example", "https://a.example", "http://a.example"),
        "https://b.example",
    ]
    assert all(url is None or url.startswith("https://a.example/") for url in found[1:])
    with page.expect_console_message(lambda message: "policy frame-src" in message.text):
        page.evaluate(
            "document.body.append(Object.assign(document.createElement('iframe'), { src: 'https://evil.example' }))"
        )
    without_scripts(page).problems.discard("policy frame-src", "Framing")


def test_no_other_page_may_frame_anything(site: Site, open_page: OpenPage) -> None:
    """A browser keeps the policy of the document that it loaded, so the page is loaded anew on entry and on exit."""
    page = site.log_in(open_page())
    policies: list[str] = []
    page.on("response", lambda answer: answer.request.is_navigation_request() and policies.append(policy(answer)))
    page.goto(f"{site.url}/websites/{site.second}?period=30d&tz=UTC")
    page.locator(".sidebar").get_by_role("link", name="Heatmaps").click()
    loaded(page)
    assert page.url.endswith("/heatmaps?period=30d&tz=UTC")
    page.keyboard.press("2")
    page.wait_for_url("**/heatmaps?period=7d&tz=UTC")
    page.locator(".sidebar").get_by_role("link", name="Overview").click()
    expect(page.locator(".figure")).to_have_count(7)
    own = f"https://shop.example http://shop.example https://*.shop.example http://*.shop.example http://localhost:{site.pages.port}"
    assert policies == ["", own, ""]
    page.go_back()
    loaded(page)
    page.go_back()
    loaded(page)
    page.go_back()
    expect(page.locator(".figure")).to_have_count(7)
    assert policies[3:] in ([own, ""], [own, own, ""], [])
    with page.expect_console_message(lambda message: "policy frame-src" in message.text):
        page.evaluate(
            "document.body.append(Object.assign(document.createElement('iframe'), { src: 'https://shop.example' }))"
        )
    page.problems.discard("policy frame-src", "Framing", "frame-src")


def policy(answer: Any) -> str:
    """Return the sources that a page may frame."""
    return re.sub(r".*frame-ancestors 'none'(; frame-src )?", "", answer.headers["content-security-policy"])


def test_expected_problems_that_are_reported_late_are_ignored() -> None:
    problems = Problems()
    problems.add("Blocked script execution in one frame")
    problems.ignore("Blocked script execution")
    for problem in ("Blocked script execution in another frame", "ReferenceError: x"):
        problems.add(problem)
    assert problems == ["ReferenceError: x"]


def test_an_open_page_is_refreshed(site: Site, open_page: OpenPage) -> None:
    """New points are shown; the page below is not loaded again."""
    page = site.log_in(open_page(fresh=True))
    page.clock.install()
    site.pages.opened.clear()
    own = f"http://localhost:{site.pages.port}"
    page.goto(
        f"{site.url}/websites/{site.second}/heatmaps?period=today&tz=UTC&pathname=/quick&over=page&at={own}&edges=cells"
    )
    loaded(page)
    expect(page.frame_locator("iframe").locator("h1")).to_be_visible()
    before = len(cells(page))
    site.send(site.second, site.heatmap_event("/quick", "tablet", {"kind": "click", "x": 0.99, "y": 3}))

    def is_there() -> bool:
        page.clock.run_for(61_000)
        return len(cells(page)) == before + 1

    until(is_there)
    assert site.pages.opened.count("/quick") == 1
    without_scripts(page)


# --- accessibility


@pytest.mark.parametrize("size", SIZES)
def test_accessible(shown: Shown, size: str) -> None:
    """axe-core finds no violations and the page does not scroll sideways, in both color schemes and both sizes."""
    page = shown("pathname=/&device=desktop", viewport=SIZES[size])
    page.get_by_text("Table of this curve").click()
    assert violations_in_each_scheme(page) == []


@pytest.mark.parametrize(("size", "scheme"), [("wide", "dark"), ("narrow", "light")])
def test_accessible_over_the_page(shown: Shown, size: str, scheme: str) -> None:
    page = shown("pathname=/&over=page", viewport=SIZES[size], color_scheme=scheme)
    page.get_by_text("Is the page blank or different?").click()
    expect(page.frame_locator("iframe").locator("h1")).to_be_visible()
    assert violations(page) == []
    without_scripts(page)


def test_all_controls_are_reached_by_tab(shown: Shown) -> None:
    page = shown("pathname=/&over=page")
    reached = set()
    for _ in range(75):
        page.keyboard.press("Tab")
        reached.add(
            page.evaluate(
                "document.activeElement.dataset.key || document.activeElement.getAttribute('aria-label')"
                " || document.activeElement.textContent.trim()"
            )
        )
    expected = {"period-30d", "page-/", "all-pages", "class-mobile", "scroll", "cells", "over", "address"}
    expected |= {"Is the page blank or different?", "Heatmap of /, desktops", "place-1", "all-places"}
    expected |= {"export", "Table of this curve", "Keyboard shortcuts"}
    assert expected - reached == set()
    assert not [one for one in reached if one and "own page" in one]
    without_scripts(page)


def test_csv(site: Site, shown: Shown) -> None:
    page = shown("pathname=/&device=mobile")
    lines = exported_text(page, "CSV of all positions").splitlines()
    assert lines[0] == "x,y,count"
    sent = counted(site, "/", "mobile")
    assert Counter({(int(x), int(y)): int(count) for x, y, count in (line.split(",") for line in lines[1:])}) == sent


def test_another_accounts_website_is_not_found(site: Site, open_page: OpenPage) -> None:
    page = site.log_in(open_page())
    page.goto(f"{site.url}/websites/00000000-0000-4000-8000-000000000000/heatmaps")
    expect(page.get_by_role("heading", name="Website not found")).to_be_visible()


def test_the_login_returns_to_the_page(site: Site, open_page: OpenPage) -> None:
    """It is loaded anew after the login, with its own policy."""
    page = open_page()
    policies: list[str] = []
    page.on("response", lambda answer: answer.request.is_navigation_request() and policies.append(policy(answer)))
    page.goto(f"{site.url}/websites/{site.second}/heatmaps?pathname=/")
    page.get_by_label("Email").fill(EMAIL)
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    loaded(page)
    assert policies[0] == ""
    assert policies[-1].startswith("https://shop.example ")
    page.problems.discard("401")


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("locale", "place"),
    [
        ("en-GB", "Center (50%), 300 px from the top"),
        ("de-DE", "In der Mitte (50"),
        ("fr-FR", "Au centre (50"),
        ("es-ES", "En el centro (50"),
    ],
)
def test_positions_are_named_by_the_text_that_was_clicked(
    site: Site, shown: Shown, size: str, locale: str, place: str
) -> None:
    """With the place below it; found by its text, and chosen by keyboard. A text is no markup."""
    texts = [(0.5, 300, "<b>Start</b> for free"), (0.5, 900, None)]
    points = [{"kind": "click", "x": x, "y": y, "text": text} for x, y, text in texts]
    site.send(site.second, *(site.heatmap_event("/named", "desktop", *points) for _ in range(2)))
    page = shown("pathname=/named&device=desktop", viewport=SIZES[size], locale=locale)
    rows = page.locator(".places-card tbody tr")
    expect(rows.first).to_contain_text("<b>Start</b> for free")
    expect(rows.first.locator(".spot-exact")).to_contain_text(place)
    expect(rows.nth(1)).not_to_contain_text("Start")
    assert violations_in_each_scheme(page) == []
    rows.first.get_by_role("button").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".sheet-tip")).to_be_visible()
