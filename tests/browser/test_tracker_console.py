"""What the tracker says in the console about events that were not stored, or stored without a field.

Reference: docs/tracker.md, Console warnings.
"""

import pytest
from playwright.sync_api import Page

from tests.browser.conftest import TrackedSite, Visit
from tests.browser.test_tracker_loading import SOURCE, wait_for_warning, warnings
from tests.browser.test_tracker_parts import parts
from tests.support.process import until

PART = "/tracker/console.js"


def lines(page: Page, logged: list[str], number: int) -> list[str]:
    """Wait until so many warnings are logged; return them."""
    until(lambda: page.evaluate("1") and len(logged) >= number)
    return logged


def end(tracked: TrackedSite, page: Page) -> None:
    """Send an event after all others, and wait until it is counted."""
    page.evaluate("tally.track('end')")
    until(lambda: "end" in tracked.names())


def test_what_is_rejected_is_named_once(tracked: TrackedSite, visit: Visit) -> None:
    """With event, field and fix; in a 202 and in a 400."""
    page = visit()
    logged = warnings(page)
    page.goto(tracked.put("/shop"))
    tracked.counted("/shop")
    assert parts(tracked) == set()
    page.evaluate("tally.track('purchase', { text: 'x'.repeat(5000) }); tally.track('good')")
    [line] = lines(page, logged, 1)
    assert line == (
        f"Tally: purchase on {tracked.origin}/shop was not stored: event_data_too_large in event_data; event_data is at"
        " most 4,096 bytes as compact JSON; give tally.track an object of at most 4,096 bytes as JSON"
    )
    page.evaluate("tally.track('purchase', { text: 'y'.repeat(5000) })")
    page.evaluate("tally.track(); tally.track('list', 'no object'); tally.convert('button', { value: 'ten' })")
    found = lines(page, logged, 4)
    assert {sent.status for sent in tracked.proxy.posts[2:]} == {400}
    assert ["missing_field in event_name" in found[1], "list on" in found[2]] == [True, True]
    assert ["invalid_event_data in event_data" in found[2], "in value; value is" in found[3]] == [True, True]
    end(tracked, page)
    assert len(logged) == 4
    assert parts(tracked) == {PART}


def test_an_event_that_is_too_large_to_be_sent_is_named(tracked: TrackedSite, visit: Visit) -> None:
    page = visit()
    logged = warnings(page)
    page.goto(tracked.put("/"))
    page.evaluate("for (let i = 0; i < 3; i++) tally.track('huge', { text: 'x'.repeat(70_000) })")
    [line] = lines(page, logged, 1)
    assert "Tally: huge on" in line
    assert "was not stored: event_data_too_large in event_data; give tally.track" in line
    end(tracked, page)
    assert len(logged) == 1


def test_what_is_stored_without_a_field_is_named(tracked: TrackedSite, visit: Visit) -> None:
    """The first response is one with a warning: it is no mistake in the setup."""
    page = visit()
    logged = warnings(page)
    page.add_init_script("Object.defineProperty(document, 'referrer', { get: () => 'about:blank' })")
    page.goto(tracked.put("/") + "?utm_campaign=" + "x" * 101)
    found = sorted(lines(page, logged, 2))
    assert "pageview on" in found[0]
    assert "was stored with a warning: value_cut in utm_campaign; shorten it to 100 characters" in found[0]
    assert "was stored with a warning: without_referrer in referrer; the page before" in found[1]
    page.evaluate("tally.pageview()")
    end(tracked, page)
    assert len(logged) == 2


def test_no_more_than_20_lines(tracked: TrackedSite, visit: Visit) -> None:
    page = visit()
    logged = warnings(page)
    page.goto(tracked.put("/"))
    page.evaluate("for (let i = 0; i < 30; i++) tally.track(`event ${i}`, 'no object')")
    lines(page, logged, 20)
    end(tracked, page)
    assert len(logged) == 20


def test_an_event_that_another_server_refuses_is_named(tracked: TrackedSite, visit: Visit) -> None:
    """As a firewall does, with 400 and no list of errors."""
    page = visit()
    logged = warnings(page)
    page.goto(tracked.put("/"))
    tracked.counted("/")
    tracked.proxy.forbidden = b"union select"
    page.evaluate("tally.track('before'); tally.track('comment', { text: 'union select' }); tally.track('after')")
    tracked.counted("/", "before", "after")
    assert lines(page, logged, 1) == [f"Tally: comment on {tracked.origin}/ was not stored: status 400"]


@pytest.mark.parametrize("kind", ["copy", "inline"])
def test_without_the_part_the_first_response_itself_is_shown(tracked: TrackedSite, visit: Visit, kind: str) -> None:
    """A copy of the script alone, beside which there is no directory of parts."""
    tracked.pages.put("/js/copy.js", SOURCE, kind="text/javascript")
    own = f'data-website-id="{tracked.website}" data-api="{tracked.stats}/api/collect"'
    text = f'<script defer src="/js/copy.js" {own}></script>' if kind == "copy" else f"<script {own}>{SOURCE}</script>"
    page = visit()
    logged = warnings(page)
    page.goto(tracked.put("/", tracker=text))
    page.evaluate("tally.track('one', 'no object')")
    wait_for_warning(page, logged)
    page.evaluate("tally.track('two', 'no object')")
    until(lambda: len(tracked.proxy.posts) >= 2)
    end(tracked, page)
    assert len(logged) == 1
    assert logged[0].startswith("Tally: {")
