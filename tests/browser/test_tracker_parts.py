"""The tracker's optional parts: each is loaded only where the script has its attribute."""

import sqlite3
from contextlib import closing
from typing import Any

from playwright.sync_api import Page

from tests.browser.conftest import TrackedSite, Visit
from tests.support.process import until

# A click on the button takes long enough to be measured as INP.
TALL = """
    <h1>Tall</h1>
    <button id=b onclick="const end = performance.now() + 100; while (performance.now() < end);">x</button>
    <p style="height: 3000px">text</p>"""


def parts(tracked: TrackedSite) -> set[str]:
    """Return the paths of the parts that were loaded."""
    return {sent.path for sent in tracked.proxy.sent if sent.path.startswith("/tracker/")}


def ready(tracked: TrackedSite, page: Page, name: str) -> None:
    """Wait until the part runs: only then does it record."""
    until(lambda: f"/tracker/{name}.js" in parts(tracked))
    page.evaluate("async (url) => { await import(url) }", f"{tracked.stats}/tracker/{name}.js")


def heatmap_points(tracked: TrackedSite) -> list[tuple[Any, ...]]:
    """Return the stored points of the website: path, width, kind, row of 20 px, column of 50, points."""
    connection = sqlite3.connect(tracked.server.db)
    try:
        return connection.execute(
            "select label.text, viewport, kind, bin_y, bin_x, points from heatmap_point join label"
            " on label.id = heatmap_point.pathname"
            " join website on website.number = heatmap_point.website where website.id = ? order by 1, 3, 4, 5",
            (tracked.website,),
        ).fetchall()
    finally:
        connection.close()


def test_no_part_is_loaded_without_its_attribute(tracked: TrackedSite, visit: Visit) -> None:
    page = visit(tracked.put("/", TALL))
    page.click("#b")
    page.goto(tracked.put("/next"))
    tracked.counted("/", "/next")
    assert parts(tracked) == set()


def test_vitals_are_sent_once_when_they_are_final(tracked: TrackedSite, visit: Visit) -> None:
    page = visit(tracked.put("/measured", TALL, "data-vitals"))
    ready(tracked, page, "vitals")
    page.wait_for_function("() => performance.getEntriesByType('paint').length > 1")
    page.click("#b")
    page.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
    page.evaluate("history.pushState({}, '', '/elsewhere')")
    tracked.counted("/measured", "/elsewhere")
    page.goto(tracked.put("/next"))
    tracked.counted("/measured", "/elsewhere", "vitals", "/next")
    event = next(event for event in tracked.events() if event["type"] == "vitals")
    assert event["pathname"] == "/measured"
    assert event["vitals"].keys() == {"lcp", "inp", "fcp", "ttfb", "cls"}
    assert all(event["vitals"][name] is not None for name in ("lcp", "fcp", "ttfb", "cls"))
    assert event["vitals"]["cls"] == 0
    page.evaluate("dispatchEvent(new PageTransitionEvent('pagehide'))")
    page.evaluate("tally.track('end')")
    tracked.counted("/measured", "/elsewhere", "vitals", "/next", "end")


def scroll(page: Page, y: int) -> None:
    page.evaluate(
        "(y) => new Promise((done) => { addEventListener('scroll', done, { once: true }); scrollTo(0, y) })", y
    )


def test_heatmap_points(tracked: TrackedSite, visit: Visit) -> None:
    """Clicks and scroll depth, of a sample of views, thinned."""
    page = visit(tracked.put("/hot", TALL, "data-heatmap=1"), viewport={"width": 1280, "height": 720})
    ready(tracked, page, "heatmap")
    for _ in range(3):
        page.mouse.click(640, 205)
    page.mouse.click(64, 30)
    scroll(page, 1000)
    page.mouse.click(64, 30)
    page.focus("#b")
    page.keyboard.press("Enter")
    page.goto(tracked.put("/cold"))
    until(lambda: len(heatmap_points(tracked)) == 4)
    width = 1280
    assert [row[:4] for row in heatmap_points(tracked)] == [
        ("/hot", 2, 0, 30 // 20),
        ("/hot", 2, 0, 205 // 20),
        ("/hot", 2, 0, 1030 // 20),
        ("/hot", 2, 1, 1720 // 20),
    ]
    assert [row[5] for row in heatmap_points(tracked)] == [1] * 4
    assert all(
        abs(row[4] - x / width * 50) <= 1 for row, x in zip(heatmap_points(tracked)[:3], (64, 640, 64), strict=True)
    )


TEXTS = """
<style>main > * { display: block; width: 400px; height: 30px; margin: 0 0 10px }</style>
<main data-heatmap-text>
<a href="#plans" id="link">  See   <b id="inner">the plans</b></a>
<button type="button" id="long">{long}</button>
<p id="words">Words</p>
<div id="around" style="padding: 10px"><p>Some</p></div>
<label id="label">Card <input id="typed" value="4111 1111"></label>
<div id="edited" contenteditable>Typed by hand</div>
<section data-heatmap-text="off"><button type="button" id="private">Pay as Ann</button></section>
</main>
<button type="button" id="outside">Balance 300</button>
"""


def test_the_text_of_what_is_clicked_is_sent_where_the_page_allows_it(tracked: TrackedSite, visit: Visit) -> None:
    """Of controls and of elements without others in them; never what was typed, and nothing of other elements."""
    page = visit(tracked.put("/named", TEXTS.replace("{long}", "x" * 100), "data-heatmap=1"))
    ready(tracked, page, "heatmap")
    for name in ("inner", "long", "words", "around", "typed", "edited", "private", "outside"):
        box = page.locator(f"#{name}").bounding_box()
        page.mouse.click(box["x"] + 3, box["y"] + 3)
    page.goto("about:blank")
    until(lambda: sum(row[5] for row in heatmap_points(tracked) if row[2] == 0) == 8)
    with closing(sqlite3.connect(tracked.server.db)) as connection:
        texts = connection.execute("select text from heatmap_text order by bin_y").fetchall()
    assert texts == [("See the plans",), ("x" * 80,), ("Words",)]
    bodies = b"".join(sent.body for sent in tracked.proxy.sent)
    assert not [text for text in (b"4111", b"by hand", b"Ann", b"Balance", b"Some") if text in bodies]


def test_heatmap_points_of_a_single_page_app_belong_to_their_page(tracked: TrackedSite, visit: Visit) -> None:
    page = visit(tracked.put("/one", TALL, "data-heatmap=1"))
    ready(tracked, page, "heatmap")
    page.mouse.click(64, 30)
    page.evaluate("history.pushState({}, '', '/two')")
    page.evaluate("history.replaceState({}, '', '/two?q=a')")
    page.mouse.click(64, 330)
    page.evaluate("history.replaceState({}, '', '/two?q=b')")
    scroll(page, 10)
    page.goto("about:blank")
    until(lambda: len(heatmap_points(tracked)) == 4)
    assert [row[:3] for row in heatmap_points(tracked)] == [
        ("/one", 2, 0),
        ("/one", 2, 1),
        ("/two", 2, 0),
        ("/two", 2, 1),
    ]


def test_a_heatmap_is_of_a_sample(tracked: TrackedSite, visit: Visit) -> None:
    page = visit()
    page.add_init_script("Math.random = () => 0.2")
    for attribute, is_in in (("data-heatmap=0.1", False), ("data-heatmap", False), ("data-heatmap=0.3", True)):
        page.goto(tracked.put("/hot", TALL, attribute))
        ready(tracked, page, "heatmap")
        page.mouse.click(64, 30)
        page.goto(tracked.put("/blank", tracker=""))
        until(lambda: tracked.proxy.posts)
        assert is_in or not heatmap_points(tracked)
    until(lambda: heatmap_points(tracked))


LINKS = """
    <a id=out href="https://elsewhere.test/path?token=secret#part"><b>out</b></a>
    <a id=file href="/files/report.PDF?x=1">file</a> <a id=saved href="/made" download>made</a>
    <a id=in href="/inside">in</a> <a id=mail href="mailto:a@example.test">mail</a>
    <script>addEventListener("click", (event) => event.preventDefault())</script>"""
IDS = ("out", "file", "saved", "in", "mail")


def test_links(tracked: TrackedSite, visit: Visit) -> None:
    """Outbound links and downloads."""
    page = visit(tracked.put("/", LINKS, "data-links"))
    ready(tracked, page, "links")
    for id in IDS:
        page.click(f"#{id}")
    page.click("#out", button="middle")
    page.click("#out", button="right")
    page.evaluate("tally.track('end')")
    tracked.counted("/", "outbound", "download", "download", "outbound", "end")
    urls = sorted(event["event_data"]["url"] for event in tracked.events() if event["event_data"])
    assert urls == [
        f"{tracked.origin}/files/report.PDF",
        f"{tracked.origin}/made",
        *["https://elsewhere.test/path"] * 2,
    ]


IN_SVG = """
    <svg width=200 height=30>
        <a id=plain href="https://elsewhere.test/plain?q=1"><rect width=20 height=30 /></a>
        <a id=old xlink:href="https://elsewhere.test/old#a"><circle cx=50 cy=15 r=9 /></a>
        <a id=file href="/map.pdf"><text x=80 y=20>map</text></a>
        <a id=here href="#here"><text x=120 y=20>here</text></a>
        <a id=none><text x=160 y=20>none</text></a>
    </svg>
    <div id=host></div>
    <script>
        host.attachShadow({ mode: "open" }).innerHTML =
            "<a id=deep href='https://elsewhere.test/deep'><slot></slot></a><a id=bad href='https://[bad'>bad</a>";
        host.innerHTML = "<b>deep</b>";
        addEventListener("click", (event) => event.preventDefault());
    </script>"""


def test_links_in_svg_and_in_open_shadow_roots(tracked: TrackedSite, visit: Visit) -> None:
    """By href and xlink:href; a link around a slot is that of what is in the slot."""
    page = visit(tracked.put("/", IN_SVG, "data-links"))
    ready(tracked, page, "links")
    for target in ("#plain rect", "#old circle", "#file text", "#here text", "#none text", "#host b", "#bad"):
        page.locator(target).dispatch_event("click")
    page.evaluate("document.dispatchEvent(new MouseEvent('click')); tally.track('end')")
    tracked.counted("/", "outbound", "outbound", "download", "outbound", "end")
    urls = sorted(event["event_data"]["url"] for event in tracked.events() if event["event_data"])
    outbound = [f"https://elsewhere.test/{name}" for name in ("deep", "old", "plain")]
    assert urls == [f"{tracked.origin}/map.pdf", *outbound]


def test_only_the_configured_kinds_of_links(tracked: TrackedSite, visit: Visit) -> None:
    for wanted, name in (("outbound", "outbound"), ("downloads", "download")):
        page = visit(tracked.put("/", LINKS, f"data-links={wanted}"))
        ready(tracked, page, "links")
        for id in IDS:
            page.click(f"#{id}")
        page.evaluate("(name) => tally.track(name)", f"end of {wanted}")
        until(lambda wanted=wanted: f"end of {wanted}" in tracked.names())
        assert {"outbound", "download"} & set(tracked.names()) <= {"outbound", name}
    tracked.counted("/", "/", "outbound", "download", "download", "end of outbound", "end of downloads")


def test_an_outbound_link_is_counted_before_the_page_is_left(tracked: TrackedSite, visit: Visit) -> None:
    tracked.pages.put("/there", "<title>there</title>")
    url = f"http://elsewhere.test:{tracked.pages.port}/there"
    page = visit(tracked.put("/", f"<a href={url}>go</a>", "data-links"))
    ready(tracked, page, "links")
    page.click("a")
    page.wait_for_url(url)
    tracked.counted("/", "outbound")


def test_a_part_that_cannot_be_loaded_causes_no_errors(tracked: TrackedSite, visit: Visit) -> None:
    page = visit()
    page.route("**/tracker/*.js", lambda route: route.abort())
    page.goto(tracked.put("/", TALL, "data-vitals data-heatmap=1 data-links"))
    page.evaluate("tally.track('still')")
    tracked.counted("/", "still")
