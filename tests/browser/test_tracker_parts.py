"""The tracker's optional parts: loaded only where an attribute of the script asks for them."""

import sqlite3
from typing import Any

from playwright.sync_api import Page

from tests.browser.conftest import Stage, Visit
from tests.support.process import until

# The button takes as long as an interaction that INP looks at.
TALL = """
    <h1>Tall</h1>
    <button id=b onclick="const end = performance.now() + 100; while (performance.now() < end);">x</button>
    <p style="height: 3000px">text</p>"""


def parts(stage: Stage) -> set[str]:
    """The parts that have been loaded."""
    return {sent.path for sent in stage.wire.sent if sent.path.startswith("/tracker/")}


def ready(stage: Stage, page: Page, name: str) -> None:
    """Waits until the part runs: a page that imports it later gets its values later."""
    until(lambda: f"/tracker/{name}.js" in parts(stage))
    page.evaluate("async (url) => { await import(url) }", f"{stage.stats}/tracker/{name}.js")


def heat(stage: Stage) -> list[tuple[Any, ...]]:
    """The website's heatmap: path, width, kind, row of 20 px, column of 50, points."""
    connection = sqlite3.connect(stage.server.db)
    try:
        return connection.execute(
            "select label.text, viewport, kind, bin_y, bin_x, points from heatmap_point join label"
            " on label.id = heatmap_point.pathname"
            " join website on website.number = heatmap_point.website where website.id = ? order by 1, 3, 4, 5",
            (stage.website,),
        ).fetchall()
    finally:
        connection.close()


def test_no_part_is_loaded_where_none_is_asked_for(stage: Stage, visit: Visit) -> None:
    page = visit(stage.put("/", TALL))
    page.click("#b")
    page.goto(stage.put("/next"))
    stage.counted("/", "/next")
    assert parts(stage) == set()


def test_vitals_are_sent_once_when_they_are_final(stage: Stage, visit: Visit) -> None:
    page = visit(stage.put("/measured", TALL, "data-vitals"))
    ready(stage, page, "vitals")
    page.wait_for_function("() => performance.getEntriesByType('paint').length > 1")
    page.click("#b")
    page.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
    page.evaluate("history.pushState({}, '', '/elsewhere')")
    stage.counted("/measured", "/elsewhere")
    page.goto(stage.put("/next"))
    stage.counted("/measured", "/elsewhere", "vitals", "/next")
    event = next(event for event in stage.events() if event["type"] == "vitals")
    assert event["pathname"] == "/measured"
    assert event["vitals"].keys() == {"lcp", "inp", "fcp", "ttfb", "cls"}
    assert all(event["vitals"][name] is not None for name in ("lcp", "fcp", "ttfb", "cls"))
    assert event["vitals"]["cls"] == 0
    page.evaluate("dispatchEvent(new PageTransitionEvent('pagehide'))")
    page.evaluate("tally.track('end')")
    stage.counted("/measured", "/elsewhere", "vitals", "/next", "end")


def scroll(page: Page, y: int) -> None:
    page.evaluate(
        "(y) => new Promise((done) => { addEventListener('scroll', done, { once: true }); scrollTo(0, y) })", y
    )


def test_heatmap_points(stage: Stage, visit: Visit) -> None:
    """ "click and scroll heatmap points (opt-in, sampled, thinned)"."""
    page = visit(stage.put("/hot", TALL, "data-heatmap=1"), viewport={"width": 1280, "height": 720})
    ready(stage, page, "heatmap")
    for _ in range(3):
        page.mouse.click(640, 205)
    page.mouse.click(64, 30)
    scroll(page, 1000)
    page.mouse.click(64, 30)
    page.focus("#b")
    page.keyboard.press("Enter")
    page.goto(stage.put("/cold"))
    until(lambda: len(heat(stage)) == 4)
    width = 1280
    assert [row[:4] for row in heat(stage)] == [
        ("/hot", 2, 0, 30 // 20),
        ("/hot", 2, 0, 205 // 20),
        ("/hot", 2, 0, 1030 // 20),
        ("/hot", 2, 1, 1720 // 20),
    ]
    assert [row[5] for row in heat(stage)] == [1] * 4
    assert all(abs(row[4] - x / width * 50) <= 1 for row, x in zip(heat(stage)[:3], (64, 640, 64), strict=True))


def test_heatmap_points_of_a_single_page_app_are_of_the_page_they_were_on(stage: Stage, visit: Visit) -> None:
    page = visit(stage.put("/one", TALL, "data-heatmap=1"))
    ready(stage, page, "heatmap")
    page.mouse.click(64, 30)
    page.evaluate("history.pushState({}, '', '/two')")
    page.mouse.click(64, 330)
    page.goto("about:blank")
    until(lambda: len(heat(stage)) == 4)
    assert [row[:3] for row in heat(stage)] == [("/one", 2, 0), ("/one", 2, 1), ("/two", 2, 0), ("/two", 2, 1)]


def test_a_heatmap_is_of_a_sample(stage: Stage, visit: Visit) -> None:
    page = visit()
    page.add_init_script("Math.random = () => 0.2")
    for attribute, is_in in (("data-heatmap=0.1", False), ("data-heatmap", False), ("data-heatmap=0.3", True)):
        page.goto(stage.put("/hot", TALL, attribute))
        ready(stage, page, "heatmap")
        page.mouse.click(64, 30)
        page.goto(stage.put("/blank", tracker=""))
        until(lambda: stage.wire.posts)
        assert is_in or not heat(stage)
    until(lambda: heat(stage))


LINKS = """
    <a id=out href="https://elsewhere.test/path?token=secret#part"><b>out</b></a>
    <a id=file href="/files/report.PDF?x=1">file</a> <a id=saved href="/made" download>made</a>
    <a id=in href="/inside">in</a> <a id=mail href="mailto:a@example.test">mail</a>
    <script>addEventListener("click", (event) => event.preventDefault())</script>"""
IDS = ("out", "file", "saved", "in", "mail")


def test_links(stage: Stage, visit: Visit) -> None:
    """ "outbound links and downloads (opt-in)"."""
    page = visit(stage.put("/", LINKS, "data-links"))
    ready(stage, page, "links")
    for id in IDS:
        page.click(f"#{id}")
    page.click("#out", button="middle")
    page.click("#out", button="right")
    page.evaluate("tally.track('end')")
    stage.counted("/", "outbound", "download", "download", "outbound", "end")
    urls = sorted(event["event_data"]["url"] for event in stage.events() if event["event_data"])
    assert urls == [f"{stage.origin}/files/report.PDF", f"{stage.origin}/made", *["https://elsewhere.test/path"] * 2]


def test_only_the_links_that_are_asked_for(stage: Stage, visit: Visit) -> None:
    for wanted, name in (("outbound", "outbound"), ("downloads", "download")):
        page = visit(stage.put("/", LINKS, f"data-links={wanted}"))
        ready(stage, page, "links")
        for id in IDS:
            page.click(f"#{id}")
        page.evaluate("(name) => tally.track(name)", f"end of {wanted}")
        until(lambda wanted=wanted: f"end of {wanted}" in stage.names())
        assert {"outbound", "download"} & set(stage.names()) <= {"outbound", name}
    stage.counted("/", "/", "outbound", "download", "download", "end of outbound", "end of downloads")


def test_a_link_that_leads_away_is_counted(stage: Stage, visit: Visit) -> None:
    stage.pages.put("/there", "<title>there</title>")
    url = f"http://elsewhere.test:{stage.pages.port}/there"
    page = visit(stage.put("/", f"<a href={url}>go</a>", "data-links"))
    ready(stage, page, "links")
    page.click("a")
    page.wait_for_url(url)
    stage.counted("/", "outbound")


def test_a_part_that_cannot_be_loaded_breaks_nothing(stage: Stage, visit: Visit) -> None:
    page = visit()
    page.route("**/tracker/*.js", lambda route: route.abort())
    page.goto(stage.put("/", TALL, "data-vitals data-heatmap=1 data-links"))
    page.evaluate("tally.track('still')")
    stage.counted("/", "still")
