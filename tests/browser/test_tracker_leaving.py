"""Events of a page that is left while the server fails, in Chromium and Firefox (WebKit: tests/browser/webdriver.py).

When a page is left, events are stored and sent, and removed from the storage after a response that is not 429 or
5xx; those that remain are sent by the website's next page and count once by their event_id.
"""

import json

import pytest

from tests.browser.conftest import Tab, TrackedSite, Visit, everywhere
from tests.browser.customer_site import Reply
from tests.support.process import until

LEFT_OVER = (
    """(own) => Object.keys(localStorage).filter((key) => key.startsWith(own)).map((key) => key.slice(own.length))"""
)


def stored(tab: Tab, tracked: TrackedSite) -> list[str]:
    """Return the names of this website's events in localStorage."""
    texts = tab.evaluate(LEFT_OVER, f"tally.{tracked.website}.")
    return sorted(event.get("event_name", event["type"]) for event in map(json.loads, texts))


def fail(tracked: TrackedSite, how: str) -> None:
    """Make the server give no response, or 503, from now on."""
    if how == "no answer":
        tracked.proxy.is_cut = True
    else:
        tracked.proxy.replies += [Reply(503)] * 50


def recover(tracked: TrackedSite) -> None:
    """Make the server respond again."""
    tracked.proxy.is_cut = False
    tracked.proxy.replies.clear()


@everywhere
@pytest.mark.parametrize("how", ["no answer", "503"])
def test_events_of_a_page_that_is_left_while_the_server_is_down(tracked: TrackedSite, tab: Tab, how: str) -> None:
    """One was sent before, one is sent when the page is left."""
    tracked.put("/away", tracker="")
    tracked.put("/next")
    tab.goto(tracked.put("/"))
    tracked.counted("/")
    tracked.proxy.held.clear()
    tab.evaluate("tally.track('on its way')")
    until(lambda: len(tracked.proxy.posts) == 2)
    tab.evaluate("tally.track('last')")
    fail(tracked, how)
    tab.goto(tracked.origin + "/away")
    until(lambda: len(tracked.proxy.posts) >= 3)
    tracked.proxy.held.set()
    assert stored(tab, tracked) == ["last", "on its way"]
    recover(tracked)
    tab.goto(tracked.origin + "/next")
    tracked.counted("/", "on its way", "last", "/next")
    until(lambda: stored(tab, tracked) == [])


@everywhere
def test_events_sent_while_leaving_count_once(tracked: TrackedSite, tab: Tab) -> None:
    """The page is closed before the response: the next one sends a copy, in the request of its own view."""
    tracked.put("/away", tracker="")
    tracked.put("/next")
    tab.goto(tracked.put("/"))
    tracked.counted("/")
    until(lambda: stored(tab, tracked) == [])
    tracked.proxy.held.clear()
    tab.evaluate("tally.track('last')")
    until(lambda: len(tracked.proxy.posts) == 2)
    tab.goto(tracked.origin + "/away")
    tracked.proxy.held.set()
    tracked.counted("/", "last")
    tab.goto(tracked.origin + "/next")
    tracked.counted("/", "last", "/next")
    until(lambda: stored(tab, tracked) == [])
    assert [len(sent.events) for sent in tracked.proxy.posts] == [1, 1, 2]
    copies = [event["event_id"] for sent in tracked.proxy.posts for event in sent.events if event["type"] == "event"]
    assert len(copies) == 2
    assert len(set(copies)) == 1


@everywhere
def test_nothing_is_stored_while_events_can_be_sent(tracked: TrackedSite, tab: Tab) -> None:
    """Events are stored only while the page is hidden, until the response."""
    tab.goto(tracked.put("/"))
    tracked.counted("/")
    tracked.proxy.held.clear()
    tab.evaluate("tally.track('usual')")
    until(lambda: len(tracked.proxy.posts) == 2)
    assert stored(tab, tracked) == []
    hide = "Object.defineProperty(document, 'hidden', { value: true, configurable: true })"
    tab.evaluate(f"[{hide}, document.dispatchEvent(new Event('visibilitychange', {{ bubbles: true }}))].length")
    assert stored(tab, tracked) == ["usual"]
    tracked.proxy.held.set()
    until(lambda: stored(tab, tracked) == [])
    tracked.counted("/", "usual")


@everywhere
def test_vitals_are_queued_too(tracked: TrackedSite, tab: Tab) -> None:
    """A part adds its event when the page is left, after the core has read the queue."""
    tracked.put("/away", tracker="")
    tracked.put("/next")
    tab.goto(tracked.put("/", "<p>text", "data-vitals"))
    tracked.counted("/")
    ready = "async (url) => { await import(url); await new Promise((done) => setTimeout(done, 300)); return true }"
    tab.evaluate(ready, f"{tracked.stats}/tracker/vitals.js")
    fail(tracked, "no answer")
    tab.goto(tracked.origin + "/away")
    assert stored(tab, tracked) == ["vitals"]
    recover(tracked)
    tab.goto(tracked.origin + "/next")
    tracked.counted("/", "vitals", "/next")


def test_no_more_than_500_are_stored_while_leaving(tracked: TrackedSite, visit: Visit) -> None:
    tracked.put("/away", tracker="")
    page = visit(tracked.put("/"))
    tracked.counted("/")
    tracked.proxy.is_cut = True
    page.evaluate("for (let i = 0; i < 600; i++) tally.track('many', { i })")
    page.goto(tracked.origin + "/away")
    assert len(stored(page, tracked)) == 500
    page.evaluate("localStorage.clear()")


def test_a_full_storage_does_not_prevent_sending(tracked: TrackedSite, visit: Visit) -> None:
    tracked.put("/away", tracker="")
    page = visit(tracked.put("/"))
    tracked.counted("/")
    page.evaluate("localStorage.full = 'x'.repeat(5 * 1024 * 1024 - 10)")
    page.evaluate("tally.track('last')")
    page.goto(tracked.origin + "/away")
    tracked.counted("/", "last")


def test_opting_out_in_one_tab_deletes_what_another_stores(tracked: TrackedSite, visit: Visit) -> None:
    """`#tally-ignore` deletes queued events; another tab that fails afterwards stores none for its next page."""
    page = visit(tracked.put("/"))
    other = visit(tracked.origin + "/", context=page.context)
    tracked.counted("/", "/")
    tracked.proxy.replies += [Reply(503)] * 50
    page.evaluate("tally.track('one')")
    until(lambda: stored(page, tracked) == ["one"])
    tracked.proxy.held.clear()
    other.evaluate("tally.track('two')")
    before = len(tracked.proxy.posts)
    until(lambda: len(tracked.proxy.posts) > before)
    page.evaluate("location.hash = '#tally-ignore'")
    page.get_by_role("status").wait_for()
    tracked.proxy.held.set()
    until(lambda: tracked.proxy.posts[-1].status == 503)
    recover(tracked)
    other.goto(tracked.put("/next"))
    until(lambda: stored(other, tracked) == [])
    visit(tracked.origin + "/")
    tracked.counted("/", "/", "/")
