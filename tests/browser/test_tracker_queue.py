"""The tracker's queue of unsent events: offline, refused, no response, several tabs, a killed server.

Events are stored for up to 72 hours, sent with their age and event_id, retried after 429 and 5xx with respect to
Retry-After, and dropped after another 4xx; by its event_id every event counts exactly once. The test sets the clock of
a page; the server's is the real one.
"""

import json
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Request

from tally.storage.database import open_database
from tests.browser.conftest import TrackedSite, Visit
from tests.browser.customer_site import Pages, Reply, Sent
from tests.support.app import CHROME
from tests.support.process import Serve, until

HOUR_MS = 3_600_000
# Chromium treats names under localhost as secure without TLS; locks exist in secure contexts only.
both = pytest.mark.parametrize(
    "tracked", ["example.test", "shop.localhost"], indirect=True, ids=["plain", "with locks"]
)


# Makes what waits older by so many milliseconds, of all events or of those with a name.
AGE = """([ms, name]) => {
    for (const key of Object.keys(localStorage))
        if (/\\d{13}/.test(key) && key.includes(name)) {
            delete localStorage[key];
            localStorage[key.replace(/\\d{13}/, (time) => time - ms)] = 1;
        }
}"""


def local_storage(page: Page) -> dict[str, str]:
    """Return the content of localStorage."""
    found: dict[str, str] = page.evaluate("() => ({ ...localStorage })")
    return found


def waiting(page: Page) -> list[str]:
    """Return the names of the queued events in localStorage."""
    texts = [key.split(".", 2)[2] for key in local_storage(page) if key.count(".") >= 2]
    return sorted(event.get("event_name", event["type"]) for event in map(json.loads, texts))


def sent_names(sent: list[Sent]) -> list[str]:
    return [event.get("event_name", event["type"]) for one in sent for event in one.events]


def is_collect(request: Request) -> bool:
    return request.url.endswith("/api/collect")


def now_ms() -> int:
    return int(time.time() * 1000)


def age_ms(tracked: TrackedSite, name: str) -> float:
    """Return how long ago an event was, as stored."""
    event = next(event for event in tracked.events() if event["event_name"] == name)
    return now_ms() - datetime.fromisoformat(event["timestamp"]).timestamp() * 1000


def test_offline_and_back(tracked: TrackedSite, visit: Visit) -> None:
    page = visit(tracked.put("/"))
    tracked.counted("/")
    page.context.set_offline(True)
    page.evaluate("tally.track('one'); tally.track('two')")
    until(lambda: waiting(page) == ["one", "two"])
    page.context.set_offline(False)
    tracked.counted("/", "one", "two")
    until(lambda: local_storage(page) == {})
    first, *late = (event for sent in tracked.proxy.posts for event in sent.events)
    assert "age_ms" not in first
    assert all(0 < event["age_ms"] < HOUR_MS and event["event_id"] and "timestamp" not in event for event in late)


@both
def test_left_while_offline_and_sent_by_the_next_page(tracked: TrackedSite, visit: Visit) -> None:
    tracked.put("/next")
    page = visit(tracked.put("/"))
    tracked.counted("/")
    page.context.set_offline(True)
    page.evaluate("tally.track('last'); dispatchEvent(new PageTransitionEvent('pagehide'))")
    assert waiting(page) == ["last"]
    page.context.set_offline(False)
    page.goto(tracked.origin + "/next")
    tracked.counted("/", "last", "/next")


def test_an_event_keeps_its_time(tracked: TrackedSite, visit: Visit) -> None:
    """An event that is sent an hour later has the time at which it was tracked."""
    page = visit(tracked.put("/"))
    tracked.counted("/")
    page.context.set_offline(True)
    page.evaluate("tally.track('early')")
    until(lambda: waiting(page) == ["early"])
    page.evaluate(AGE, [HOUR_MS, ""])
    page.context.set_offline(False)
    tracked.counted("/", "early")
    assert HOUR_MS < age_ms(tracked, "early") < 1.5 * HOUR_MS


# A clock that is `shift` milliseconds ahead; performance.now() is not moved with it.
CLOCK = "window.shift = {}; const real = Date.now; Date.now = () => real() + window.shift"


@pytest.mark.parametrize("hours", [-72, -1, 1, 72])
def test_a_device_whose_clock_is_wrong(tracked: TrackedSite, visit: Visit, hours: int) -> None:
    """The time of an event is counted back from its arrival, on the page itself and on the next one."""
    tracked.put("/next")
    page = visit()
    page.add_init_script(CLOCK.format(hours * HOUR_MS))
    # What has no answer when the network ends would be sent again, below with another event_id.
    with page.expect_event("requestfinished", is_collect):
        page.goto(tracked.put("/"))
    tracked.counted("/")
    page.context.set_offline(True)
    page.evaluate("tally.track('here')")
    until(lambda: waiting(page) == ["here"])
    with page.expect_event("requestfinished", is_collect):
        page.context.set_offline(False)
    tracked.counted("/", "here")
    page.context.set_offline(True)
    # An event is stored once more when its request has failed.
    with page.expect_event("requestfailed", is_collect):
        page.evaluate("tally.track('left'); dispatchEvent(new PageTransitionEvent('pagehide'))")
    assert waiting(page) == ["left"]
    page.evaluate(AGE, [HOUR_MS, ""])
    page.context.set_offline(False)
    page.goto(tracked.origin + "/next")
    tracked.counted("/", "here", "left", "/next")
    assert 0 <= age_ms(tracked, "here") < HOUR_MS / 2
    assert HOUR_MS < age_ms(tracked, "left") < 1.5 * HOUR_MS


def test_a_clock_that_is_set_back_while_events_wait(tracked: TrackedSite, visit: Visit) -> None:
    """On one page, by performance.now(); a later page sends what seems to be from the future as of now."""
    tracked.put("/next")
    page = visit()
    page.add_init_script("window.shift = 0;" + CLOCK.format("sessionStorage.shift || 0"))
    page.goto(tracked.put("/"))
    tracked.counted("/")
    page.context.set_offline(True)
    page.evaluate("tally.track('one')")
    until(lambda: waiting(page) == ["one"])
    page.evaluate("ms => { window.shift = -ms }", 2 * HOUR_MS)
    page.evaluate("tally.track('two')")
    until(lambda: waiting(page) == ["one", "two"])
    page.context.set_offline(False)
    tracked.counted("/", "one", "two")
    assert tracked.names() == ["/", "one", "two"]
    page.context.set_offline(True)
    page.evaluate("window.shift = 0; tally.track('three'); dispatchEvent(new PageTransitionEvent('pagehide'))")
    page.evaluate("ms => { sessionStorage.shift = -ms }", 2 * HOUR_MS)
    page.context.set_offline(False)
    page.goto(tracked.origin + "/next")
    tracked.counted("/", "one", "two", "three", "/next")
    assert all(0 <= age_ms(tracked, name) < HOUR_MS / 2 for name in ("one", "two", "three"))


def test_a_device_that_sleeps_while_events_wait(tracked: TrackedSite, visit: Visit) -> None:
    """performance.now() may stand still meanwhile, so the clock decides."""
    page = visit()
    page.add_init_script(CLOCK.format(0))
    page.goto(tracked.put("/"))
    tracked.counted("/")
    page.context.set_offline(True)
    page.evaluate("tally.track('before')")
    until(lambda: waiting(page) == ["before"])
    page.evaluate("ms => { window.shift = ms }", 5 * HOUR_MS)
    page.context.set_offline(False)
    tracked.counted("/", "before")
    assert 5 * HOUR_MS < age_ms(tracked, "before") < 5.5 * HOUR_MS


def test_events_that_waited_keep_their_order(tracked: TrackedSite, visit: Visit) -> None:
    """Also those of one millisecond."""
    tracked.put("/next")
    page = visit(tracked.put("/"))
    tracked.counted("/")
    page.context.set_offline(True)
    names = [f"step {n}" for n in range(30)]
    page.evaluate("names => names.forEach((name) => tally.track(name))", names)
    until(lambda: len(waiting(page)) == len(names))
    page.context.set_offline(False)
    page.goto(tracked.origin + "/next")
    tracked.counted("/", *names, "/next")
    assert tracked.names() == ["/", *names, "/next"]


def test_after_72_hours_an_event_is_dropped(tracked: TrackedSite, visit: Visit) -> None:
    page = visit(tracked.put("/"))
    tracked.counted("/")
    page.context.set_offline(True)
    page.evaluate("tally.track('old')")
    until(lambda: waiting(page) == ["old"])
    page.evaluate(AGE, [72 * HOUR_MS - 60_000, ""])
    page.evaluate("tally.track('older')")
    until(lambda: waiting(page) == ["old", "older"])
    page.evaluate(AGE, [72 * HOUR_MS, "older"])
    page.context.set_offline(False)
    tracked.counted("/", "old")
    until(lambda: local_storage(page) == {})
    assert "older" not in sent_names(tracked.proxy.posts)


@pytest.mark.parametrize("reply", [Reply(500), Reply(502), Reply(503, {"Retry-After": "5"}), Reply(429), Reply(0)])
def test_temporary_failures_are_retried(tracked: TrackedSite, visit: Visit, reply: Reply) -> None:
    tracked.proxy.replies += [reply] * 3
    page = visit()
    page.clock.install()
    page.goto(tracked.put("/"))
    until(lambda: len(tracked.proxy.posts) >= 1 or page.clock.run_for(1000))
    until(lambda: waiting(page) == ["pageview"])
    until(lambda: tracked.names() == ["/"] or page.clock.run_for(10_000))
    until(lambda: waiting(page) == [])
    assert len({event["event_id"] for sent in tracked.proxy.posts for event in sent.events}) == 1
    page.clock.run_for(600_000)
    tracked.counted("/")


@both
def test_refused_events_are_retried_after_half_a_minute(tracked: TrackedSite, visit: Visit) -> None:
    """After each response without Retry-After."""
    tracked.proxy.replies += [Reply(500)] * 3
    page = visit()
    page.clock.install()
    page.goto(tracked.put("/"))
    until(lambda: len(tracked.proxy.posts) == 1 or page.clock.run_for(1000))
    until(lambda: waiting(page) == ["pageview"])
    for tries in (2, 3):
        page.clock.run_for(15_000)
        assert len(tracked.proxy.posts) == tries - 1
        until(lambda tries=tries: len(tracked.proxy.posts) == tries or page.clock.run_for(1000))
        for _ in range(10):
            page.clock.run_for(1000)
        assert len(tracked.proxy.posts) == tries
    until(lambda: waiting(page) == [] or page.clock.run_for(10_000))
    tracked.counted("/")


@both
def test_queued_events_are_dropped_after_an_opt_out(tracked: TrackedSite, visit: Visit) -> None:
    """Also where the part that stores the opt-out cannot be loaded."""
    page = visit(tracked.put("/"))
    tracked.counted("/")
    page.context.route("**/choice.js", lambda route: route.abort())
    page.context.set_offline(True)
    page.evaluate("for (let i = 0; i < 120; i++) tally.track('kept', { i })")
    until(lambda: len(waiting(page)) == 120)
    tracked.proxy.held.clear()
    page.context.set_offline(False)
    until(lambda: len(tracked.proxy.posts) == 2)
    page.evaluate("location.hash = '#tally-ignore'")
    tracked.proxy.held.set()
    page.evaluate("tally.track('no')")
    until(lambda: waiting(page) == [])
    time.sleep(1)
    assert [len(sent.events) for sent in tracked.proxy.posts] == [1, 50]


@pytest.mark.parametrize("is_left", [False, True])
@both
def test_an_event_that_is_refused_takes_no_other_with_it(tracked: TrackedSite, visit: Visit, is_left: bool) -> None:
    """A batch that is refused as a whole is sent again event by event, stored events too."""
    tracked.put("/next")
    page = visit(tracked.put("/"))
    tracked.counted("/")
    tracked.proxy.forbidden = b"union select"
    page.context.set_offline(True)
    page.evaluate("for (let i = 0; i < 20; i++) tally.track('kept', { i, text: i == 7 ? 'union select' : 'x' })")
    until(lambda: len(waiting(page)) == 20)
    page.evaluate("tally.track('fresh')")
    page.context.set_offline(False)
    if is_left:
        page.goto(tracked.origin + "/next")
    tracked.counted("/", *["kept"] * 19, "fresh", *["/next"] * is_left)
    until(lambda: local_storage(page) == {})
    first, *_, last = (sent.events for sent in tracked.proxy.posts if sent.status == 400)
    assert len(first) > 1
    assert [event["event_data"]["text"] for event in last] == ["union select"]


@pytest.mark.parametrize("status", [400, 403, 404, 413, 415])
def test_permanent_failures_are_not_retried(tracked: TrackedSite, visit: Visit, status: int) -> None:
    tracked.proxy.replies.append(Reply(status, {"Retry-After": "1"}))
    page = visit()
    page.clock.install()
    page.goto(tracked.put("/"))
    until(lambda: len(tracked.proxy.posts) == 1 or page.clock.run_for(1000))
    page.clock.run_for(600_000)
    page.evaluate("tally.track('next')")
    page.clock.run_for(2000)
    tracked.counted("next")
    until(lambda: local_storage(page) == {})
    assert sent_names(tracked.proxy.posts) == ["pageview", "next"]


@both
def test_retry_after_is_respected(tracked: TrackedSite, visit: Visit) -> None:
    """Nothing is sent before it has passed, by no page of the website; then everything once."""
    tracked.proxy.replies.append(Reply(429, {"Retry-After": "3600"}))
    page = visit()
    page.clock.install()
    page.goto(tracked.put("/"))
    until(lambda: len(tracked.proxy.posts) == 1 or page.clock.run_for(1000))
    until(lambda: waiting(page) == ["pageview"])
    assert abs(float(local_storage(page)["tally.until"]) - now_ms() - HOUR_MS) < 600_000
    page.evaluate("tally.track('meanwhile')")
    page.clock.run_for(60_000)
    page.goto(tracked.put("/next"))
    page.clock.run_for(2000)
    until(lambda: waiting(page) == ["meanwhile", "pageview", "pageview"])
    page.clock.run_for(600_000)
    page.evaluate("dispatchEvent(new Event('online'))")
    page.clock.run_for(60_000)
    assert len(tracked.proxy.posts) == 1
    page.clock.run_for(HOUR_MS)
    until(lambda: len(tracked.names()) == 3 or page.clock.run_for(10_000))
    tracked.counted("/", "meanwhile", "/next")
    until(lambda: waiting(page) == [] or page.clock.run_for(10_000))


def test_a_429_of_the_server(serve: Serve, pages: Pages, tmp_path: Path, visit: Visit) -> None:
    """Its Retry-After can be read by a page of another origin."""
    open_database(tmp_path / "analytics.db", create=True).close()
    tracked = TrackedSite(serve("--website-per-minute", "1"), pages)
    try:
        page = visit(tracked.put("/"))
        tracked.counted("/")
        page.evaluate("tally.track('more')")
        until(lambda: waiting(page) == ["more"])
        assert tracked.proxy.posts[-1].status == 429
        wait_ms = float(local_storage(page)["tally.until"]) - now_ms()
        assert 30_000 < wait_ms <= 60_000
    finally:
        tracked.close()


def test_an_event_whose_response_is_lost_counts_once(tracked: TrackedSite, visit: Visit) -> None:
    """The server has stored it, and the browser gets no response."""
    tracked.proxy.replies += [Reply(0, reaches=True)] * 3
    page = visit(tracked.put("/"))
    until(lambda: waiting(page) == ["pageview"])
    assert tracked.names() == ["/"]
    tracked.proxy.replies.clear()
    page.evaluate("dispatchEvent(new Event('online'))")
    until(lambda: waiting(page) == [])
    assert tracked.proxy.posts[-1].status == 202
    tracked.counted("/")


def test_a_server_that_is_killed_and_started_again(serve: Serve, pages: Pages, tmp_path: Path, visit: Visit) -> None:
    open_database(tmp_path / "analytics.db", create=True).close()
    first = serve()
    tracked = TrackedSite(first, pages)
    try:
        page = visit(tracked.put("/"))
        tracked.counted("/")
        # Chromium itself retries on a broken connection.
        tracked.proxy.replies += [Reply(0, reaches=True)] * 3
        page.evaluate("tally.track('in the middle')")
        until(lambda: "in the middle" in tracked.names() and waiting(page) == ["in the middle"])
        tracked.proxy.replies.clear()
        first.kill()
        page.evaluate("tally.track('while it is down')")
        until(lambda: waiting(page) == ["in the middle", "while it is down"])
        tracked.server = serve()
        page.evaluate("tally.track('up again')")
        tracked.counted("/", "in the middle", "while it is down", "up again")
        until(lambda: local_storage(page) == {})
    finally:
        tracked.close()


@both
def test_many_events_are_sent_in_full_batches(tracked: TrackedSite, visit: Visit) -> None:
    page = visit(tracked.put("/"))
    tracked.counted("/")
    page.context.set_offline(True)
    page.evaluate("for (let i = 0; i < 120; i++) tally.track('kept', { i })")
    until(lambda: len(waiting(page)) == 120)
    page.context.set_offline(False)
    tracked.counted("/", *["kept"] * 120)
    until(lambda: local_storage(page) == {})
    assert [len(sent.events) for sent in tracked.proxy.posts] == [1, 50, 50, 20]


@both
def test_no_more_than_500_are_kept(tracked: TrackedSite, visit: Visit) -> None:
    """The page needs the storage too."""
    page = visit(tracked.put("/"))
    tracked.counted("/")
    page.evaluate("localStorage.own = 'theirs'")
    page.context.set_offline(True)
    page.evaluate("for (let i = 0; i < 600; i++) tally.track('kept', { i })")
    until(lambda: len(waiting(page)) == 500)
    page.context.set_offline(False)
    tracked.counted("/", *["kept"] * 500)
    until(lambda: local_storage(page) == {"own": "theirs"})


# Count the requests of a tab, and dispatch `online` repeatedly, upon which it would send queued events.
COUNT_AND_TRIGGER = """() => {
    const send = fetch
    window.requests = 0
    window.fetch = (...given) => send(...given).then((answer) => (requests++, answer))
    setInterval(() => navigator.onLine && dispatchEvent(new Event("online")), 5)
}"""


@pytest.mark.parametrize("secure", [True, False])
def test_tabs_share_the_queue(running: Any, pages: Pages, visit: Visit, chromium: Browser, secure: bool) -> None:
    """No event of several tabs is lost or counted twice; with locks none is sent twice."""
    tracked = TrackedSite(running, pages, "shop.localhost" if secure else "example.test")
    context = chromium.new_context(user_agent=CHROME)
    try:
        tracked.put("/")
        tabs = [visit(tracked.origin + "/", context=context) for _ in range(3)]
        assert [tab.evaluate("!!navigator.locks") for tab in tabs] == [secure] * 3
        tracked.counted("/", "/", "/")
        context.set_offline(True)
        for number, tab in enumerate(tabs):
            tab.evaluate("(n) => { for (let i = 0; i < 60; i++) tally.track(`tab ${n}`, { i }) }", number)
        until(lambda: len(waiting(tabs[0])) == 180)
        for tab in tabs:
            tab.evaluate(COUNT_AND_TRIGGER)
        context.set_offline(False)
        names = [name for number in range(3) for name in [f"tab {number}"] * 60]
        tracked.counted("/", "/", "/", *names)
        until(lambda: local_storage(tabs[0]) == {})
        seen = {(event["event_name"], event["event_data"]["i"]) for event in tracked.events() if event["event_name"]}
        assert seen == {(f"tab {number}", i) for number in range(3) for i in range(60)}
        if secure:
            # A tab that took sent events for queued ones would have sent them by now.
            time.sleep(0.5)
            assert sorted(sent_names(tracked.proxy.posts)) == sorted([*["pageview"] * 3, *names])
            assert sorted(tab.evaluate("requests") for tab in tabs) == [0, 0, 4], "one tab sends all"
    finally:
        context.close()
        tracked.close()


def test_an_event_that_the_server_rejects_is_removed_from_the_queue(tracked: TrackedSite, visit: Visit) -> None:
    page = visit(tracked.put("/"))
    page.evaluate("tally.track('x'.repeat(300)); tally.track('good')")
    tracked.counted("/", "good")
    page.evaluate("tally.track('x'.repeat(300))")
    until(lambda: any(sent.status == 400 for sent in tracked.proxy.posts))
    page.evaluate("tally.track('after')")
    tracked.counted("/", "good", "after")
    until(lambda: local_storage(page) == {})
