"""Events of a page that is left while the server cannot take them, in Chromium and Firefox (and WebKit, by request).

Events are stored when a page is left, sent, and removed from the storage after an answer that is not
429 or 5xx; what remains is sent by the website's next page and counts once by its event_id.
"""

import json

import pytest

from tests.browser.conftest import Stage, Tab, Visit, everywhere
from tests.browser.customer_site import Reply
from tests.support.process import until

LEFT_OVER = (
    """(own) => Object.keys(localStorage).filter((key) => key.startsWith(own)).map((key) => key.slice(own.length))"""
)


def stored(tab: Tab, stage: Stage) -> list[str]:
    """The names of this website's events in localStorage."""
    texts = tab.evaluate(LEFT_OVER, f"tally.{stage.website}.")
    return sorted(event.get("event_name", event["type"]) for event in map(json.loads, texts))


def break_down(stage: Stage, how: str) -> None:
    """From now on the server gives no answer, or 503."""
    if how == "no answer":
        stage.wire.is_cut = True
    else:
        stage.wire.replies += [Reply(503)] * 50


def come_back(stage: Stage) -> None:
    """The server answers again."""
    stage.wire.is_cut = False
    stage.wire.replies.clear()


@everywhere
@pytest.mark.parametrize("how", ["no answer", "503"])
def test_events_of_a_page_that_is_left_while_the_server_is_down(stage: Stage, tab: Tab, how: str) -> None:
    """One has been on its way since before, one is sent by the leaving itself."""
    stage.put("/away", tracker="")
    stage.put("/next")
    tab.goto(stage.put("/"))
    stage.counted("/")
    stage.wire.held.clear()
    tab.evaluate("tally.track('on its way')")
    until(lambda: len(stage.wire.posts) == 2)
    tab.evaluate("tally.track('last')")
    break_down(stage, how)
    tab.goto(stage.origin + "/away")
    until(lambda: len(stage.wire.posts) >= 3)
    stage.wire.held.set()
    assert stored(tab, stage) == ["last", "on its way"]
    come_back(stage)
    tab.goto(stage.origin + "/next")
    stage.counted("/", "on its way", "last", "/next")
    until(lambda: stored(tab, stage) == [])


@everywhere
def test_what_was_sent_while_leaving_counts_once(stage: Stage, tab: Tab) -> None:
    """The page is gone before the answer: the next one sends a copy, in the request of its own view."""
    stage.put("/away", tracker="")
    stage.put("/next")
    tab.goto(stage.put("/"))
    stage.counted("/")
    until(lambda: stored(tab, stage) == [])
    stage.wire.held.clear()
    tab.evaluate("tally.track('last')")
    until(lambda: len(stage.wire.posts) == 2)
    tab.goto(stage.origin + "/away")
    stage.wire.held.set()
    stage.counted("/", "last")
    tab.goto(stage.origin + "/next")
    stage.counted("/", "last", "/next")
    until(lambda: stored(tab, stage) == [])
    assert [len(sent.events) for sent in stage.wire.posts] == [1, 1, 2]
    copies = [event["event_id"] for sent in stage.wire.posts for event in sent.events if event["type"] == "event"]
    assert len(copies) == 2
    assert len(set(copies)) == 1


@everywhere
def test_nothing_is_stored_while_events_can_be_sent(stage: Stage, tab: Tab) -> None:
    """Stored only while the page is hidden, until the answer."""
    tab.goto(stage.put("/"))
    stage.counted("/")
    stage.wire.held.clear()
    tab.evaluate("tally.track('usual')")
    until(lambda: len(stage.wire.posts) == 2)
    assert stored(tab, stage) == []
    hide = "Object.defineProperty(document, 'hidden', { value: true, configurable: true })"
    tab.evaluate(f"[{hide}, document.dispatchEvent(new Event('visibilitychange', {{ bubbles: true }}))].length")
    assert stored(tab, stage) == ["usual"]
    stage.wire.held.set()
    until(lambda: stored(tab, stage) == [])
    stage.counted("/", "usual")


@everywhere
def test_vitals_wait_as_well(stage: Stage, tab: Tab) -> None:
    """A part sends when the page is left, after the core has looked at what there is."""
    stage.put("/away", tracker="")
    stage.put("/next")
    tab.goto(stage.put("/", "<p>text", "data-vitals"))
    stage.counted("/")
    ready = "async (url) => { await import(url); await new Promise((done) => setTimeout(done, 300)); return true }"
    tab.evaluate(ready, f"{stage.stats}/tracker/vitals.js")
    break_down(stage, "no answer")
    tab.goto(stage.origin + "/away")
    assert stored(tab, stage) == ["vitals"]
    come_back(stage)
    tab.goto(stage.origin + "/next")
    stage.counted("/", "vitals", "/next")


def test_no_more_than_500_are_stored_while_leaving(stage: Stage, visit: Visit) -> None:
    stage.put("/away", tracker="")
    page = visit(stage.put("/"))
    stage.counted("/")
    stage.wire.is_cut = True
    page.evaluate("for (let i = 0; i < 600; i++) tally.track('many', { i })")
    page.goto(stage.origin + "/away")
    assert len(stored(page, stage)) == 500
    page.evaluate("localStorage.clear()")


def test_a_full_storage_does_not_keep_events_from_being_sent(stage: Stage, visit: Visit) -> None:
    stage.put("/away", tracker="")
    page = visit(stage.put("/"))
    stage.counted("/")
    page.evaluate("localStorage.full = 'x'.repeat(5 * 1024 * 1024 - 10)")
    page.evaluate("tally.track('last')")
    page.goto(stage.origin + "/away")
    stage.counted("/", "last")


def test_opting_out_in_one_tab_deletes_what_another_stores(stage: Stage, visit: Visit) -> None:
    """`#tally-ignore` deletes what waits; another tab that fails afterwards leaves nothing for its next page."""
    page = visit(stage.put("/"))
    other = visit(stage.origin + "/", context=page.context)
    stage.counted("/", "/")
    stage.wire.replies += [Reply(503)] * 50
    page.evaluate("tally.track('one')")
    until(lambda: stored(page, stage) == ["one"])
    stage.wire.held.clear()
    other.evaluate("tally.track('two')")
    before = len(stage.wire.posts)
    until(lambda: len(stage.wire.posts) > before)
    page.evaluate("location.hash = '#tally-ignore'")
    page.get_by_role("status").wait_for()
    stage.wire.held.set()
    until(lambda: stage.wire.posts[-1].status == 503)
    come_back(stage)
    other.goto(stage.put("/next"))
    until(lambda: stored(other, stage) == [])
    visit(stage.origin + "/")
    stage.counted("/", "/", "/")
