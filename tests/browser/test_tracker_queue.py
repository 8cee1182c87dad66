"""What the tracker does when events cannot be sent: offline, refused, no answer, several tabs, a server that dies.

Promised: "when offline or refused with 429/5xx it keeps events with timestamp and event_id for up to 72 hours
and sends them later, honouring Retry-After, never resending after another 4xx; with event_id every event counts
exactly once". The clock of a page is moved by the test; the server's is the real one.
"""

import json
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tally.storage.database import open_database
from tests.browser.conftest import Stage, Visit
from tests.browser.customer_site import Pages, Reply, Sent
from tests.support.app import CHROME
from tests.support.process import Serve, until

HOUR_MS = 3_600_000
# Chromium takes names under localhost for secure without TLS, and only there are locks.
both = pytest.mark.parametrize("stage", ["example.test", "shop.localhost"], indirect=True, ids=["plain", "with locks"])


def shelf(page: Page) -> dict[str, str]:
    """What is in localStorage."""
    found: dict[str, str] = page.evaluate("() => ({ ...localStorage })")
    return found


def waiting(page: Page) -> list[str]:
    """The names of the events on the shelf."""
    texts = [key.split(".", 2)[2] for key in shelf(page) if key.count(".") >= 2]
    return sorted(event.get("event_name", event["type"]) for event in map(json.loads, texts))


def sent_names(sent: list[Sent]) -> list[str]:
    return [event.get("event_name", event["type"]) for one in sent for event in one.events]


def now_ms() -> int:
    return int(time.time() * 1000)


def test_offline_and_back(stage: Stage, visit: Visit) -> None:
    page = visit(stage.put("/"))
    stage.counted("/")
    page.context.set_offline(True)
    page.evaluate("tally.track('one'); tally.track('two')")
    until(lambda: waiting(page) == ["one", "two"])
    page.context.set_offline(False)
    stage.counted("/", "one", "two")
    until(lambda: shelf(page) == {})
    late = stage.wire.posts[-1].events
    assert all(abs(event["timestamp"] - now_ms()) < HOUR_MS and event["event_id"] for event in late)


@both
def test_left_while_offline_and_sent_by_the_next_page(stage: Stage, visit: Visit) -> None:
    stage.put("/next")
    page = visit(stage.put("/"))
    stage.counted("/")
    page.context.set_offline(True)
    page.evaluate("tally.track('last'); dispatchEvent(new PageTransitionEvent('pagehide'))")
    assert waiting(page) == ["last"]
    page.context.set_offline(False)
    page.goto(stage.origin + "/next")
    stage.counted("/", "last", "/next")


def test_an_event_keeps_its_time(stage: Stage, visit: Visit) -> None:
    """An hour later it is still of an hour ago."""
    page = visit(stage.put("/"))
    stage.counted("/")
    page.context.set_offline(True)
    page.evaluate("tally.track('early')")
    until(lambda: waiting(page) == ["early"])
    page.evaluate("for (const key of Object.keys(localStorage)) localStorage[key] -= 3600000")
    page.context.set_offline(False)
    stage.counted("/", "early")
    early = next(event for event in stage.events() if event["event_name"] == "early")
    age_ms = now_ms() - datetime.fromisoformat(early["timestamp"]).timestamp() * 1000
    assert HOUR_MS < age_ms < 1.5 * HOUR_MS


def test_after_72_hours_it_is_thrown_away(stage: Stage, visit: Visit) -> None:
    page = visit(stage.put("/"))
    stage.counted("/")
    page.context.set_offline(True)
    page.evaluate("tally.track('old')")
    until(lambda: waiting(page) == ["old"])
    page.evaluate("for (const key of Object.keys(localStorage)) localStorage[key] -= 72 * 3600000 - 60000")
    page.evaluate("tally.track('older')")
    until(lambda: waiting(page) == ["old", "older"])
    page.evaluate(
        "for (const key of Object.keys(localStorage)) if (/older/.test(key)) localStorage[key] -= 72 * 3600000"
    )
    page.context.set_offline(False)
    stage.counted("/", "old")
    until(lambda: shelf(page) == {})
    assert "older" not in sent_names(stage.wire.posts)


@pytest.mark.parametrize("reply", [Reply(500), Reply(502), Reply(503, {"Retry-After": "5"}), Reply(429), Reply(0)])
def test_a_refusal_that_passes_is_tried_again(stage: Stage, visit: Visit, reply: Reply) -> None:
    stage.wire.replies += [reply] * 3
    page = visit()
    page.clock.install()
    page.goto(stage.put("/"))
    until(lambda: len(stage.wire.posts) >= 1 or page.clock.run_for(1000))
    until(lambda: waiting(page) == ["pageview"])
    until(lambda: stage.names() == ["/"] or page.clock.run_for(10_000))
    until(lambda: waiting(page) == [])
    assert len({event["event_id"] for sent in stage.wire.posts for event in sent.events}) == 1
    page.clock.run_for(600_000)
    stage.counted("/")


@both
def test_what_was_refused_waits_for_half_a_minute(stage: Stage, visit: Visit) -> None:
    """Each time anew, where the server does not say how long."""
    stage.wire.replies += [Reply(500)] * 3
    page = visit()
    page.clock.install()
    page.goto(stage.put("/"))
    until(lambda: len(stage.wire.posts) == 1 or page.clock.run_for(1000))
    until(lambda: waiting(page) == ["pageview"])
    for tries in (2, 3):
        page.clock.run_for(15_000)
        assert len(stage.wire.posts) == tries - 1
        until(lambda tries=tries: len(stage.wire.posts) == tries or page.clock.run_for(1000))
        for _ in range(10):
            page.clock.run_for(1000)
        assert len(stage.wire.posts) == tries
    until(lambda: waiting(page) == [] or page.clock.run_for(10_000))
    stage.counted("/")


@both
def test_nothing_more_is_sent_of_who_wants_to_be_ignored(stage: Stage, visit: Visit) -> None:
    """Also where the part that notes it for good cannot be loaded."""
    page = visit(stage.put("/"))
    stage.counted("/")
    page.context.route("**/choice.js", lambda route: route.abort())
    page.context.set_offline(True)
    page.evaluate("for (let i = 0; i < 120; i++) tally.track('kept', { i })")
    until(lambda: len(waiting(page)) == 120)
    stage.wire.held.clear()
    page.context.set_offline(False)
    until(lambda: len(stage.wire.posts) == 2)
    page.evaluate("location.hash = '#tally-ignore'")
    stage.wire.held.set()
    page.evaluate("tally.track('no')")
    until(lambda: waiting(page) == [])
    time.sleep(1)
    assert [len(sent.events) for sent in stage.wire.posts] == [1, 50]


@pytest.mark.parametrize("status", [400, 403, 404, 413, 415])
def test_a_refusal_that_stays_is_not(stage: Stage, visit: Visit, status: int) -> None:
    stage.wire.replies.append(Reply(status, {"Retry-After": "1"}))
    page = visit()
    page.clock.install()
    page.goto(stage.put("/"))
    until(lambda: len(stage.wire.posts) == 1 or page.clock.run_for(1000))
    page.clock.run_for(600_000)
    page.evaluate("tally.track('next')")
    page.clock.run_for(2000)
    stage.counted("next")
    until(lambda: shelf(page) == {})
    assert sent_names(stage.wire.posts) == ["pageview", "next"]


@both
def test_retry_after_is_honoured(stage: Stage, visit: Visit) -> None:
    """Nothing is sent before it has passed, by no page of the website; then everything once."""
    stage.wire.replies.append(Reply(429, {"Retry-After": "3600"}))
    page = visit()
    page.clock.install()
    page.goto(stage.put("/"))
    until(lambda: len(stage.wire.posts) == 1 or page.clock.run_for(1000))
    until(lambda: waiting(page) == ["pageview"])
    assert abs(float(shelf(page)["tally.until"]) - now_ms() - HOUR_MS) < 600_000
    page.evaluate("tally.track('meanwhile')")
    page.clock.run_for(60_000)
    page.goto(stage.put("/next"))
    page.clock.run_for(2000)
    until(lambda: waiting(page) == ["meanwhile", "pageview", "pageview"])
    page.clock.run_for(600_000)
    page.evaluate("dispatchEvent(new Event('online'))")
    page.clock.run_for(60_000)
    assert len(stage.wire.posts) == 1
    page.clock.run_for(HOUR_MS)
    until(lambda: len(stage.names()) == 3 or page.clock.run_for(10_000))
    stage.counted("/", "meanwhile", "/next")
    until(lambda: waiting(page) == [] or page.clock.run_for(10_000))


def test_the_servers_own_429(serve: Serve, pages: Pages, tmp_path: Path, visit: Visit) -> None:
    """Its Retry-After can be read by a page of another origin."""
    open_database(tmp_path / "analytics.db", create=True).close()
    stage = Stage(serve("--website-per-minute", "1"), pages)
    try:
        page = visit(stage.put("/"))
        stage.counted("/")
        page.evaluate("tally.track('more')")
        until(lambda: waiting(page) == ["more"])
        assert stage.wire.posts[-1].status == 429
        wait_ms = float(shelf(page)["tally.until"]) - now_ms()
        assert 30_000 < wait_ms <= 60_000
    finally:
        stage.close()


def test_an_answer_that_is_lost_counts_once(stage: Stage, visit: Visit) -> None:
    """ "with event_id every event counts exactly once": the server has it, and the browser does not know."""
    stage.wire.replies += [Reply(0, reaches=True)] * 3
    page = visit(stage.put("/"))
    until(lambda: waiting(page) == ["pageview"])
    assert stage.names() == ["/"]
    stage.wire.replies.clear()
    page.evaluate("dispatchEvent(new Event('online'))")
    until(lambda: waiting(page) == [])
    assert stage.wire.posts[-1].status == 202
    stage.counted("/")


def test_a_server_that_is_killed_and_started_again(serve: Serve, pages: Pages, tmp_path: Path, visit: Visit) -> None:
    open_database(tmp_path / "analytics.db", create=True).close()
    first = serve()
    stage = Stage(first, pages)
    try:
        page = visit(stage.put("/"))
        stage.counted("/")
        # Chromium itself tries a broken connection again.
        stage.wire.replies += [Reply(0, reaches=True)] * 3
        page.evaluate("tally.track('in the middle')")
        until(lambda: "in the middle" in stage.names() and waiting(page) == ["in the middle"])
        stage.wire.replies.clear()
        first.kill()
        page.evaluate("tally.track('while it is down')")
        until(lambda: waiting(page) == ["in the middle", "while it is down"])
        stage.server = serve()
        page.evaluate("tally.track('up again')")
        stage.counted("/", "in the middle", "while it is down", "up again")
        until(lambda: shelf(page) == {})
    finally:
        stage.close()


@both
def test_much_is_sent_in_whole_batches(stage: Stage, visit: Visit) -> None:
    page = visit(stage.put("/"))
    stage.counted("/")
    page.context.set_offline(True)
    page.evaluate("for (let i = 0; i < 120; i++) tally.track('kept', { i })")
    until(lambda: len(waiting(page)) == 120)
    page.context.set_offline(False)
    stage.counted("/", *["kept"] * 120)
    until(lambda: shelf(page) == {})
    assert [len(sent.events) for sent in stage.wire.posts] == [1, 50, 50, 20]


@both
def test_no_more_than_500_are_kept(stage: Stage, visit: Visit) -> None:
    """The storage is the page's own: it is not to be filled."""
    page = visit(stage.put("/"))
    stage.counted("/")
    page.evaluate("localStorage.own = 'theirs'")
    page.context.set_offline(True)
    page.evaluate("for (let i = 0; i < 600; i++) tally.track('kept', { i })")
    until(lambda: len(waiting(page)) == 500)
    page.context.set_offline(False)
    stage.counted("/", *["kept"] * 500)
    until(lambda: shelf(page) == {"own": "theirs"})


# Counts what a tab has sent, and tells it again and again that it is online, whereupon it would send what waits.
COUNT_AND_ASK = """() => {
    const send = fetch
    window.requests = 0
    window.fetch = (...given) => send(...given).then((answer) => (requests++, answer))
    setInterval(() => navigator.onLine && dispatchEvent(new Event("online")), 5)
}"""


@pytest.mark.parametrize("secure", [True, False])
def test_tabs_share_the_queue(running: Any, pages: Pages, visit: Visit, chromium: Browser, secure: bool) -> None:
    """Several tabs: nothing lost, nothing twice; where there are locks, nothing even sent twice."""
    stage = Stage(running, pages, "shop.localhost" if secure else "example.test")
    context = chromium.new_context(user_agent=CHROME)
    try:
        stage.put("/")
        tabs = [visit(stage.origin + "/", context=context) for _ in range(3)]
        assert [tab.evaluate("!!navigator.locks") for tab in tabs] == [secure] * 3
        stage.counted("/", "/", "/")
        context.set_offline(True)
        for number, tab in enumerate(tabs):
            tab.evaluate("(n) => { for (let i = 0; i < 60; i++) tally.track(`tab ${n}`, { i }) }", number)
        until(lambda: len(waiting(tabs[0])) == 180)
        for tab in tabs:
            tab.evaluate(COUNT_AND_ASK)
        context.set_offline(False)
        names = [name for number in range(3) for name in [f"tab {number}"] * 60]
        stage.counted("/", "/", "/", *names)
        until(lambda: shelf(tabs[0]) == {})
        seen = {(event["event_name"], event["event_data"]["i"]) for event in stage.events() if event["event_name"]}
        assert seen == {(f"tab {number}", i) for number in range(3) for i in range(60)}
        if secure:
            # Whoever took what was sent for what waits would have come to send it by now.
            time.sleep(0.5)
            assert sorted(sent_names(stage.wire.posts)) == sorted([*["pageview"] * 3, *names])
            assert sorted(tab.evaluate("requests") for tab in tabs) == [0, 0, 4], "one tab sends all"
    finally:
        context.close()
        stage.close()


def test_an_event_that_the_server_rejects_in_a_batch_goes(stage: Stage, visit: Visit) -> None:
    page = visit(stage.put("/"))
    page.evaluate("tally.track('x'.repeat(300)); tally.track('good')")
    stage.counted("/", "good")
    page.evaluate("tally.track('x'.repeat(300))")
    until(lambda: any(sent.status == 400 for sent in stage.wire.posts))
    page.evaluate("tally.track('after')")
    stage.counted("/", "good", "after")
    until(lambda: shelf(page) == {})
