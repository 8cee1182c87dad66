"""Time on page and scroll depth as the tracker measures them in real pages (docs/decisions/time-on-page.md)."""

import json
from typing import Any

import pytest

from tests.browser.conftest import Tab, TrackedSite, Visit, everywhere
from tests.browser.customer_site import Reply
from tests.support.process import until

HIGH = "<div style='height: 3000px'></div>"
STORED = "(own) => Object.keys(localStorage).filter((key) => key.startsWith(own)).map((key) => key.slice(own.length))"


@pytest.fixture
def measured(tracked: TrackedSite) -> TrackedSite:
    """A website whose pages measure."""
    tracked.leaves = True
    return tracked


def leaves(tracked: TrackedSite) -> list[dict[str, Any]]:
    """Return the leaves that are counted, in the order of their time: path, seconds, percent."""
    return [{"path": event["pathname"], **event["vitals"]} for event in tracked.events() if event["type"] == "leave"]


def sent(tracked: TrackedSite) -> list[dict[str, Any]]:
    """Return the leaves that reached the proxy, in order."""
    return [event for post in tracked.proxy.posts for event in post.events if event["type"] == "leave"]


LOADED = "performance.getEntriesByType('resource').some(({ name }) => name.endsWith('/tracker/leave.js'))"


def ready(page: Any) -> None:
    """Wait until the part is loaded, from the browser's cache too, and has looked at the page."""
    page.wait_for_function(f"{LOADED} && performance.now() > 2500")


def hide(page: Any, hidden: bool) -> None:
    """Hide the page, or show it, as a change of tabs does."""
    page.evaluate(
        """(hidden) => {
            Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
            document.dispatchEvent(new Event("visibilitychange", { bubbles: true }));
        }""",
        hidden,
    )


def test_a_page_that_is_scrolled_and_left(measured: TrackedSite, visit: Visit) -> None:
    """With its time and depth, tied to its view by event_id; the last page of the visit too."""
    measured.put("/next", HIGH)
    page = visit(measured.put("/", HIGH))
    ready(page)
    page.evaluate("scrollTo(0, 1e5)")
    page.wait_for_timeout(1_000)
    page.evaluate("scrollTo(0, 0)")
    page.goto(measured.origin + "/next")
    ready(page)
    page.close(run_before_unload=True)
    until(lambda: len(leaves(measured)) == 2)
    first, second = leaves(measured)
    assert (first["path"], first["scroll_depth"], second["path"]) == ("/", 100, "/next")
    assert 2 <= first["time_on_page"] <= 60
    # A window of 720 of 3,000 pixels.
    assert second["scroll_depth"] in (20, 25)
    views = {event["event_id"] for post in measured.proxy.posts for event in post.events if event["type"] == "pageview"}
    assert {event["event_id"] for event in sent(measured)} == views
    assert {event["vitals"]["scroll_depth"] % 5 for event in sent(measured)} == {0}


def test_a_page_that_is_hidden_and_shown_again(measured: TrackedSite, visit: Visit) -> None:
    """Seconds in the background do not count, and the sums of both count once."""
    page = visit(measured.put("/", HIGH))
    ready(page)
    hide(page, True)
    until(lambda: len(leaves(measured)) == 1)
    before = leaves(measured)[0]
    page.wait_for_timeout(3_000)
    hide(page, False)
    page.evaluate("scrollTo(0, 1e5)")
    page.wait_for_timeout(1_100)
    hide(page, True)
    until(lambda: leaves(measured)[0]["scroll_depth"] == 100)
    (after,) = leaves(measured)
    assert before["time_on_page"] < after["time_on_page"] <= before["time_on_page"] + 2
    assert len({event["event_id"] for event in sent(measured)}) == 1


def test_a_page_without_use_counts_30_seconds(measured: TrackedSite, visit: Visit) -> None:
    page = visit(measured.put("/", HIGH))
    ready(page)
    page.evaluate("now = performance.now.bind(performance); performance.now = () => now() + 900e3")
    hide(page, True)
    until(lambda: len(leaves(measured)) == 1)
    assert leaves(measured)[0]["time_on_page"] == 30


def test_views_of_an_application(measured: TrackedSite, visit: Visit) -> None:
    """Each view by itself; a leave is sent in the request of the next view."""
    page = visit(measured.put("/", HIGH))
    ready(page)
    page.evaluate("scrollTo(0, 1e5)")
    page.wait_for_function("scrollY > 1000")
    page.mouse.move(5, 5)
    page.evaluate("history.pushState({}, '', '/second'); scrollTo(0, 0)")
    measured.counted("/", "/second", "leave")
    (first,) = leaves(measured)
    assert (first["path"], first["scroll_depth"]) == ("/", 100)
    page.wait_for_timeout(1_000)
    hide(page, True)
    until(lambda: len(leaves(measured)) == 2)
    second = leaves(measured)[1]
    assert second["path"] == "/second"
    assert second["scroll_depth"] in (20, 25)
    assert [sorted(event["type"] for event in post.events) for post in measured.proxy.posts] == [
        ["pageview"],
        ["leave", "pageview"],
        ["leave"],
    ]


@everywhere
@pytest.mark.parametrize("how", ["no answer", "503"])
def test_a_page_that_is_left_while_the_server_is_down(measured: TrackedSite, tab: Tab, how: str) -> None:
    """The view and its leave are stored, and sent in this order by the website's next page."""
    measured.put("/away", tracker="")
    measured.put("/next", tracker=measured.script("data-no-leave"))
    tab.goto(measured.put("/", HIGH))
    until(lambda: tab.evaluate(LOADED))
    measured.counted("/")
    if how == "no answer":
        measured.proxy.is_cut = True
    else:
        measured.proxy.replies += [Reply(503)] * 50
    tab.evaluate("tally.pageview()")
    tab.goto(measured.origin + "/away")
    until(lambda: len(measured.proxy.posts) >= 2)
    texts = sorted(tab.evaluate(STORED, f"tally.{measured.website}."))
    types = [json.loads(text)["type"] for text in texts]
    assert types[-2:] == ["pageview", "leave"], "in the order in which they are sent"
    measured.proxy.is_cut = False
    measured.proxy.replies.clear()
    tab.goto(measured.origin + "/next")
    measured.counted("/", "/", "/next", *["leave"] * types.count("leave"))
    until(lambda: tab.evaluate(STORED, f"tally.{measured.website}.") == [])


def test_many_leaves_take_no_place_of_a_view(measured: TrackedSite, visit: Visit) -> None:
    """Where events wait, a leave is stored only while there are fewer than 100."""
    page = visit(measured.put("/", HIGH))
    ready(page)
    measured.proxy.is_cut = True
    page.evaluate("for (let n = 0; n < 600; n++) history.pushState({}, '', '/' + n)")
    page.goto(measured.put("/plain", tracker=""))
    stored = [json.loads(text)["type"] for text in page.evaluate(STORED, f"tally.{measured.website}.")]
    assert stored.count("leave") <= 100
    assert stored.count("pageview") >= 400


@pytest.mark.parametrize("attributes", ["data-no-leave", "data-respect-gpc"])
def test_nothing_is_measured_without_consent(measured: TrackedSite, visit: Visit, attributes: str) -> None:
    page = visit(measured.put("/", HIGH, attributes=attributes))
    if attributes == "data-no-leave":
        measured.counted("/")
        hide(page, True)
        page.evaluate("tally.track('after')")
        measured.counted("/", "after")
        assert not any("leave" in one.path for one in measured.proxy.sent)
    assert sent(measured) == []


def test_an_opt_out_deletes_what_was_measured(measured: TrackedSite, visit: Visit) -> None:
    page = visit(measured.put("/", HIGH))
    ready(page)
    measured.counted("/")
    page.evaluate("localStorage['tally.ignore'] = 1")
    hide(page, True)
    page.goto("about:blank")
    assert sent(measured) == []


def test_a_page_of_the_back_forward_cache_is_another_view(measured: TrackedSite, visit: Visit) -> None:
    page = visit(measured.put("/", HIGH))
    ready(page)
    page.evaluate("dispatchEvent(new PageTransitionEvent('pagehide', { persisted: true }))")
    until(lambda: len(leaves(measured)) == 1)
    page.evaluate("dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))")
    page.wait_for_timeout(1_600)
    hide(page, True)
    until(lambda: len(leaves(measured)) == 2)
    assert len({event["event_id"] for event in sent(measured)}) == 2
