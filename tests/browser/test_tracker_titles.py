"""The tracker sends the title of a page with its view: docs/tracker.md, "data-no-title".

That a title is not sent follows from the event that is sent without it.
"""

from datetime import datetime, timedelta
from typing import Any

from tests.browser.conftest import TrackedSite, Visit
from tests.browser.customer_site import Reply
from tests.support.process import until


def sent_titles(tracked: TrackedSite) -> list[tuple[str, Any]]:
    """Return path and title of each view that was sent; without the field, the title is "-"."""
    return [
        (event["url"].removeprefix(tracked.origin), event.get("title", "-"))
        for sent in tracked.proxy.posts
        for event in sent.events
        if event["type"] == "pageview"
    ]


def titles(tracked: TrackedSite) -> dict[str, Any]:
    """Return the title of each page in the read API's list."""
    return {row["value"]: row.get("title") for row in tracked.ask("top/pathname?period=all")}


def test_a_page_is_listed_with_its_title(tracked: TrackedSite, visit: Visit) -> None:
    """As it is when the view is sent; what is longer is cut without a warning."""
    late = "<script>setTimeout(() => (document.title = '  Set\\n late  '), 100)</script>"
    visit(tracked.put("/late", late))
    tracked.counted("/late")
    page = visit(tracked.put("/long", f"<script>document.title = '{'x' * 199}\U0001f600y'</script>"))
    warned: list[str] = []
    page.on("console", lambda message: warned.append(message.text))
    tracked.counted("/late", "/long")
    assert titles(tracked) == {"/late": "Set late", "/long": "x" * 199 + "\ufffd"}
    assert warned == []


def test_an_application_sets_the_title_after_the_address(tracked: TrackedSite, visit: Visit) -> None:
    """Each view has the title of its own page: none that is sent within half a second of the view, or after the next
    one."""
    page = visit()
    page.clock.install()
    page.goto(tracked.put("/"))
    tracked.counted("/")
    # From here on time passes in the page where the test says so.
    page.clock.pause_at(datetime.now() + timedelta(minutes=1))
    page.evaluate("history.pushState({}, '', '/quick')")
    page.clock.run_for(300)
    page.evaluate("history.pushState({}, '', '/slow')")
    page.clock.run_for(100)
    page.evaluate("document.title = 'Slow'")
    page.clock.run_for(600)
    tracked.counted("/", "/quick", "/slow")
    page.evaluate("tally.track('after')")
    page.clock.run_for(1000)
    tracked.counted("/", "/quick", "/slow", "after")
    assert sent_titles(tracked) == [("/", "/"), ("/quick", "-"), ("/slow", "Slow")]
    # The tracker sends at once when the browser is online again.
    page.evaluate("history.pushState({}, '', '/soon'); dispatchEvent(new Event('online'))")
    tracked.counted("/", "/quick", "/slow", "after", "/soon")
    assert sent_titles(tracked)[3:] == [("/soon", "-")]


def test_a_page_that_is_left_soon_is_counted_without_title(tracked: TrackedSite, visit: Visit) -> None:
    tracked.put("/second")
    visit(tracked.put("/first", "<script>addEventListener('load', () => (location.href = '/second'))</script>"))
    tracked.counted("/first", "/second")
    # The first page does not learn whether its view arrived, so the second one sends a copy.
    assert {*sent_titles(tracked)} == {("/first", "-"), ("/second", "/second")}


def test_data_no_title_deletes_what_is_stored(tracked: TrackedSite, visit: Visit) -> None:
    """The stored title is of a view two hours ago."""
    stored = {"type": "pageview", "url": f"{tracked.origin}/order", "title": "Order of Ann"}
    age = {"website_id": tracked.website, "age_ms": 7_200_000}
    assert tracked.server.request("POST", "/api/collect", stored | age).status == 202
    assert titles(tracked) == {"/order": "Order of Ann"}
    visit(tracked.put("/order", attributes="data-no-title"))
    until(lambda: titles(tracked) == {"/order": None})
    assert sent_titles(tracked) == [("/order", "")]


def test_an_element_named_title_costs_no_view(tracked: TrackedSite, visit: Visit) -> None:
    """document.title is then the element."""
    visit(tracked.put("/", "<form name=title></form>"))
    tracked.counted("/")
    assert sent_titles(tracked) == [("/", "-")]


def test_a_kept_view_is_sent_without_title_by_another_page(tracked: TrackedSite, visit: Visit) -> None:
    """The title would be that of the other page."""
    tracked.proxy.replies.append(Reply(500))
    page = visit(tracked.put("/kept"))
    until(lambda: page.evaluate("Object.keys(localStorage).length"))
    page.goto(tracked.put("/next"))
    tracked.counted("/kept", "/next")
    assert sent_titles(tracked)[0] == ("/kept", "/kept")
    assert {*sent_titles(tracked)[1:]} == {("/kept", "-"), ("/next", "/next")}
