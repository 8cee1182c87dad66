"""The tracker in a real browser, from pages of one site to the server of another.

Each test quotes the sentence of the documentation that it checks. What must not be counted
is shown by what is counted after it.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tally.storage.database import open_database
from tests.browser.conftest import Stage, Visit
from tests.browser.customer_site import Pages, Reply
from tests.support.process import Serve, until

MAC = (
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko)"
    " Version/18.3 Safari/605.1.15"
)
STORAGE = "() => [document.cookie, Object.keys(localStorage), Object.keys(sessionStorage)]"


def stored(page: Page) -> list[Any]:
    """Return what a page keeps (STORAGE), once no event waits: one is removed when its response has arrived."""
    kept: list[Any] = until(lambda: (found := page.evaluate(STORAGE))[1] == [] and found)
    return kept


def end(page: Page, name: str = "end") -> None:
    """An event after all the others."""
    page.evaluate("(name) => tally.track(name)", name)


def test_a_view_is_one_plain_request(stage: Stage, visit: Visit) -> None:
    """ "`text/plain`, no preflight ever": and nothing that tells who somebody is, nor anything left behind."""
    page = visit(stage.put("/pricing") + "?utm_source=news&utm_medium=mail&utm_campaign=may&secret=1#plans")
    stage.counted("/pricing")
    view = stage.events()[0]
    assert (view["hostname"], view["referrer"]) == ("example.test", None)
    assert (view["utm_source"], view["utm_medium"], view["utm_campaign"]) == ("news", "mail", "may")
    assert (view["browser"], view["os"], view["device"], view["language"]) == ("Chrome", "Windows", "desktop", "en-GB")

    [sent] = stage.wire.posts
    assert sent.path == "/api/collect"
    assert sent.headers["content-type"].startswith("text/plain")
    assert sent.headers["origin"] == stage.origin
    assert "cookie" not in sent.headers
    [event] = sent.events
    assert event.keys() == {"type", "url", "referrer", "event_id"}
    assert sent.json.keys() == {"website_id", "context", "events"}
    assert "#" not in event["url"]
    assert stored(page) == ["", [], []]
    assert [s.path for s in stage.wire.sent] == ["/tracker.js", "/api/collect"]


def test_the_referrer_is_that_of_the_visit(stage: Stage, visit: Visit) -> None:
    """The tracker sends the page before, then the website's own, which the server ignores; both events have the
    acquisition of the visit."""
    stage.put("/landing")
    stage.pages.put("/", f'<meta name=referrer content=unsafe-url><a href="{stage.origin}/landing">go</a>')
    page = visit(f"http://elsewhere.test:{stage.pages.port}/")
    page.click("a")
    stage.counted("/landing")
    page.evaluate("history.pushState({}, '', '/next')")
    stage.counted("/landing", "/next")
    assert [event["referrer"] for event in stage.events()] == ["elsewhere.test"] * 2
    assert [event["referrer"] for sent in stage.wire.posts for event in sent.events] == [
        f"http://elsewhere.test:{stage.pages.port}/",
        f"{stage.origin}/landing",
    ]


def test_a_page_with_a_strict_referrer_policy_is_counted(stage: Stage, visit: Visit) -> None:
    """ "a beacon from a page with a strict referrer policy says `Origin: null`": fetch in cors mode does not."""
    page = visit(stage.put("/strict", headers={"Referrer-Policy": "no-referrer"}))
    stage.counted("/strict")
    end(page, "left")
    page.goto("about:blank")
    stage.counted("/strict", "left")
    assert [sent.headers["origin"] for sent in stage.wire.posts] == [stage.origin] * 2
    assert all("referer" not in sent.headers for sent in stage.wire.posts)


def test_single_page_navigation(stage: Stage, visit: Visit) -> None:
    """ "single-page navigation (pushState, replaceState, popstate, optional hash)"; the same URL twice is one view."""
    page = visit(stage.put("/one"))
    for go in (
        "history.pushState({}, '', '/two')",
        "history.pushState({}, '', '/two')",
        "history.replaceState({}, '', '/three')",
        "history.replaceState({at: 3}, '', location.href)",
        "location.hash = 'below'",
        "history.pushState({}, '', '/four?page=2')",
    ):
        page.evaluate(go)
    page.go_back()
    page.evaluate("location.hash = 'above'")
    end(page)
    stage.counted("/one", "/two", "/three", "/four", "/three", "end")


def test_history_still_works_as_the_page_expects(stage: Stage, visit: Visit) -> None:
    page = visit(stage.put("/"))
    page.evaluate("history.pushState({deep: 1}, '', '?a=1')")
    assert page.evaluate("[history.state.deep, location.search, history.length]") == [1, "?a=1", 3]
    error = page.evaluate(
        "(() => { try { history.pushState({}, '', 'https://evil.test/') } catch (e) { return e.name } })()"
    )
    assert error == "SecurityError"


@pytest.mark.parametrize(
    ("url", "paths"),
    [("/#/about", ["/about"]), ("/app#!/about", ["/app/about"]), ("/app/", ["/app/"]), ("/app", ["/app/"])],
)
def test_the_hash_is_a_path_by_option(stage: Stage, visit: Visit, url: str, paths: list[str]) -> None:
    stage.put(url.partition("#")[0], attributes="data-hash")
    page = visit(stage.origin + url)
    page.evaluate("location.hash = '/team?utm_source=x'")
    team = paths[0].rpartition("/")[0].removesuffix("/about") + "/team"
    stage.counted(*paths, team)


def test_a_page_from_the_back_forward_cache_is_counted(stage: Stage, visit: Visit) -> None:
    """The page tells of itself that it came back whole: Playwright loses sight of it."""
    stage.put("/second")
    script = "addEventListener('pageshow', (event) => event.persisted && tally.track('came back'))"
    page = visit(stage.put("/first", f"<script>{script}</script><a href=/second>on</a>"))
    stage.counted("/first")
    page.click("a")
    stage.counted("/first", "/second")
    page.evaluate("setTimeout(() => history.back())")
    stage.counted("/first", "/second", "/first", "came back")
    assert [event.get("referrer") for sent in stage.wire.posts for event in sent.events][2:] == [None, None]


def test_a_prerendered_page_is_counted_when_it_is_shown(stage: Stage, visit: Visit) -> None:
    """ "prerender (counted when shown)". The browser's part is played by the test, so that the moment is known."""
    stage.put("/other", tracker="")
    stage.put("/next", "<script>window.tally = { q: [['track', 'early']] }</script>")
    page = visit()
    page.clock.install()
    page.add_init_script(
        "window.hidden = location.pathname == '/next';"
        "Object.defineProperty(Document.prototype, 'prerendering', { get: () => window.hidden, configurable: true })"
    )
    page.goto(stage.origin + "/next")
    page.evaluate("history.replaceState({}, '', '/next?step=2')")
    page.evaluate("tally.track('before')")
    page.clock.run_for(60_000)
    assert stage.wire.posts == []
    page.evaluate("window.hidden = false; document.dispatchEvent(new Event('prerenderingchange'))")
    page.clock.run_for(2_000)
    stage.counted("/next", "early", "before")


def test_a_page_that_chromium_really_prerenders(stage: Stage, visit: Visit) -> None:
    stage.put("/next")
    rules = {"prerender": [{"source": "list", "urls": ["/next"], "eagerness": "immediate"}]}
    page = visit(stage.put("/", f'<script type=speculationrules>{json.dumps(rules)}</script><a href="/next">on</a>'))
    stage.counted("/")
    until(lambda: "/next" in stage.pages.opened)
    end(page)
    stage.counted("/", "end")
    page.click("a")
    page.wait_for_url("**/next")
    stage.counted("/", "end", "/next")


def test_track(stage: Stage, visit: Visit) -> None:
    page = visit(stage.put("/"))
    page.evaluate("tally.track('signup', { plan: 'pro', seats: 3, trial: false })")
    page.evaluate("tally.track('plain')")
    stage.counted("/", "signup", "plain")
    signup = next(event for event in stage.events() if event["event_name"] == "signup")
    assert (signup["pathname"], signup["event_data"]) == ("/", {"plan": "pro", "seats": 3, "trial": False})


def test_track_never_throws_and_one_bad_event_spoils_no_other(stage: Stage, visit: Visit) -> None:
    page = visit(stage.put("/"))
    page.evaluate(
        "() => { const round = {}; round.round = round;"
        "tally.track('round', round); tally.track('deep', { a: { b: 1 } }); tally.track('big', { a: 1n });"
        "tally.track('x'.repeat(201)); tally.track('huge', { text: 'x'.repeat(70000) }); tally.track();"
        "const data = { step: 1 }; tally.track('changed', data); data.step = 2 }"
    )
    stage.counted("/", "changed")
    assert stage.events()[-1]["event_data"] == {"step": 1}


def test_calls_before_the_script_are_kept(stage: Stage, visit: Visit) -> None:
    """The snippet of docs/tracker.md."""
    page_text = (Path(__file__).parents[2] / "docs" / "tracker.md").read_text()
    stub = page_text[page_text.index("window.tally = window.tally") :].split("</script>")[0]
    calls = "tally.track('early', { a: 1 }); tally.convert('cta', { variant: 'b' })"
    visit(stage.put("/", head=f"<script>{stub}</script><script>{calls}</script>"))
    stage.counted("/", "early", "ab_convert")


@pytest.mark.parametrize(("random", "variant"), [(0, "a"), (0.49, "a"), (0.5, "b"), (0.999999, "b")])
def test_variants(stage: Stage, visit: Visit, random: float, variant: str) -> None:
    """ "`tally.variant(experiment, variants)` (even, sticky for the session, sends ab_assign once)"."""
    page = visit(stage.put("/"))
    page.evaluate("(random) => { Math.random = () => random }", random)
    choose = "tally.variant('cta', ['a', 'b'])"
    assert page.evaluate(choose) == variant
    page.goto(stage.put("/other"))
    page.evaluate(f"Math.random = () => {0.9 - 0.8 * random}")
    assert [page.evaluate(choose) for _ in range(3)] == [variant] * 3
    page.evaluate("tally.convert('cta', { goal: 'order', value: 12.5 })")
    stage.counted("/", "ab_assign", "/other", "ab_convert")
    assigned, converted = (event for event in stage.events() if event["experiment"])
    assert (assigned["experiment"], assigned["variant"]) == ("cta", variant)
    assert [converted[k] for k in ("experiment", "variant", "goal", "value")] == ["cta", variant, "order", 12.5]
    assert stored(page) == ["", [], ["tally.cta"]]


def test_a_variant_that_is_no_longer_offered_is_chosen_anew(stage: Stage, visit: Visit) -> None:
    page = visit(stage.put("/"))
    assert page.evaluate("tally.variant('cta', ['gone'])") == "gone"
    assert page.evaluate("tally.variant('cta', ['new'])") == "new"


def test_attributes(stage: Stage, visit: Visit) -> None:
    """ "`data-track="signup"` attributes": on what is clicked and on forms that are sent, not on clicks in them."""
    body = """
        <button data-track=signup data-track-plan=pro data-track-place-of=top data-other=secret><b>Sign up</b></button>
        <form action=/thanks data-track=order data-track-kind=quick>
          <input name=q value=mine><button id=send>Go</button>
        </form>
        <p id=plain>nothing</p><svg data-track=drawing width=20 height=20><rect width=20 height=20 /></svg>"""
    stage.put("/thanks")
    page = visit(stage.put("/", body))
    page.click("b")
    page.click("#plain")
    page.click("input")
    page.click("rect")
    page.click("#send")
    page.wait_for_url("**/thanks?q=mine")
    stage.counted("/", "signup", "drawing", "order", "/thanks")
    data = {event["event_name"]: event["event_data"] for event in stage.events()}
    assert data["signup"] == {"plan": "pro", "place-of": "top"}
    assert data["order"] == {"kind": "quick"}


def test_a_click_that_stops_others_is_tracked(stage: Stage, visit: Visit) -> None:
    page = visit(stage.put("/", "<button data-track=quiet onclick='event.stopPropagation()'>x</button>"))
    page.click("button")
    stage.counted("/", "quiet")


def test_batches(stage: Stage, visit: Visit) -> None:
    """ "Batches of at most 50 and 60 KB, flushed after a second": the worst text is 3 bytes a character."""
    page = visit(stage.put("/"))
    page.evaluate("for (let i = 0; i < 120; i++) tally.track('small', { i })")
    page.evaluate("for (let i = 0; i < 30; i++) tally.track('large', { i, text: '€'.repeat(1300) })")
    stage.counted("/", *["small"] * 120, *["large"] * 30)
    assert max(len(sent.events) for sent in stage.wire.posts) == 50
    assert 45_000 < max(len(sent.body) for sent in stage.wire.posts) <= 60_000
    numbers = sorted((event["event_name"], event["event_data"]["i"]) for event in stage.events() if event["event_data"])
    assert numbers == [("large", i) for i in range(30)] + [("small", i) for i in range(120)]


def test_more_than_may_be_in_flight_is_sent_a_little_later(stage: Stage, visit: Visit) -> None:
    """Browsers refuse more than 64 KB of keepalive at once: what they refuse waits and is not lost."""
    page = visit(stage.put("/"))
    stage.counted("/")
    stage.wire.held.clear()
    page.evaluate("for (let i = 0; i < 40; i++) tally.track('large', { i, text: '€'.repeat(1300) })")
    page.goto("about:blank")
    until(lambda: len(stage.wire.posts) > 1)
    stage.wire.held.set()
    page.goto(stage.put("/later"))
    stage.counted("/", *["large"] * 40, "/later")


def test_events_go_out_when_the_page_is_left(stage: Stage, visit: Visit) -> None:
    """ "flushed ... on hide": also while an answer is under way, and when the page is closed."""
    page = visit(stage.put("/"))
    stage.counted("/")
    stage.wire.held.clear()
    page.evaluate("tally.track('slow')")
    until(lambda: len(stage.wire.posts) == 2)
    page.evaluate("tally.track('last')")
    page.goto("about:blank")
    until(lambda: len(stage.wire.posts) == 3)
    stage.wire.held.set()
    stage.counted("/", "slow", "last")


def test_events_go_out_when_the_tab_is_closed(stage: Stage, visit: Visit) -> None:
    page = visit(stage.put("/"))
    with page.expect_popup() as opened:
        page.evaluate("window.open('/')")
    popup = opened.value
    until(lambda: popup.evaluate("!!window.tally?.track"))
    with popup.expect_event("close"):
        popup.evaluate("setTimeout(() => { tally.track('closing'); window.close() })")
    stage.counted("/", "/", "closing")


def test_without_keepalive_what_leaving_cuts_off_is_sent_by_the_next_page(stage: Stage, visit: Visit) -> None:
    """Firefox before version 133."""
    page = visit()
    page.add_init_script("const own = fetch; window.fetch = (url, { keepalive, ...rest }) => own(url, rest)")
    page.goto(stage.put("/"))
    stage.counted("/")
    end(page)
    page.goto(stage.put("/blank", tracker=""))
    page.goto(stage.put("/next"))
    stage.counted("/", "end", "/next")


def test_global_privacy_control_is_honoured_by_choice(stage: Stage, visit: Visit) -> None:
    page = visit()
    page.add_init_script("Object.defineProperty(navigator, 'globalPrivacyControl', { value: true })")
    page.goto(stage.put("/quiet", "<a data-track=x href='#x'>x</a>", attributes="data-respect-gpc data-vitals"))
    page.evaluate("tally.track('no')")
    page.click("a")
    assert page.evaluate("tally.variant('cta', ['a', 'b'])") == "a"
    assert page.evaluate(STORAGE) == ["", [], []]
    page.goto(stage.put("/counted"))
    stage.counted("/counted")


def test_without_the_signal_the_attribute_changes_nothing(stage: Stage, visit: Visit) -> None:
    visit(stage.put("/", attributes="data-respect-gpc"))
    stage.counted("/")


def test_an_ipad_that_says_it_is_a_mac(stage: Stage, visit: Visit) -> None:
    page = visit(user_agent=MAC)
    page.add_init_script("Object.defineProperty(navigator, 'maxTouchPoints', { value: 5 })")
    page.goto(stage.put("/"))
    stage.counted("/")
    view = stage.events()[0]
    assert (view["device"], view["os"], view["browser"]) == ("tablet", "iOS", "Safari")
    visit(stage.origin + "/", user_agent=MAC)
    stage.counted("/", "/")
    assert (stage.events()[1]["device"], stage.events()[1]["os"]) == ("desktop", "macOS")


FORBIDDEN = """
    for (const name of ["localStorage", "sessionStorage"])
        Object.defineProperty(window, name, { get() { throw new DOMException("no", "SecurityError") } });
"""


def test_storage_may_be_forbidden(stage: Stage, visit: Visit) -> None:
    page = visit()
    page.add_init_script(FORBIDDEN)
    page.goto(stage.put("/"))
    assert page.evaluate("['a', 'b'].includes(tally.variant('cta', ['a', 'b']))")
    stage.counted("/", "ab_assign")
    stage.wire.replies.append(Reply(500))
    page.evaluate("tally.track('kept')")
    until(lambda: len(stage.wire.posts) == 2)
    end(page)
    stage.counted("/", "ab_assign", "kept", "end")


def test_storage_may_be_full(stage: Stage, visit: Visit) -> None:
    page = visit(stage.put("/"))
    stage.counted("/")
    page.evaluate("localStorage.full = 'x'.repeat(5 * 1024 * 1024 - 10); sessionStorage.full = localStorage.full")
    stage.wire.replies.append(Reply(500))
    end(page, "in memory")
    until(lambda: len(stage.wire.posts) == 2)
    end(page)
    stage.counted("/", "in memory", "end")


@pytest.mark.parametrize("policy", ["connect-src 'none'", "sandbox allow-scripts"])
def test_a_policy_that_forbids_it_breaks_nothing(stage: Stage, visit: Visit, policy: str) -> None:
    page = visit(stage.put("/", attributes="data-vitals data-heatmap=1", headers={"Content-Security-Policy": policy}))
    page.evaluate("tally.track('no'); tally.variant('x', ['a']); history.pushState({}, '', '#x')")
    assert page.evaluate("tally.variant('x', ['a'])") == "a"
    page.goto(stage.put("/free"))
    until(lambda: "/free" in stage.names())
    assert set(stage.names()) <= {"/", "no", "ab_assign", "/free", "vitals"}


def test_a_policy_that_names_the_server_is_enough(stage: Stage, visit: Visit) -> None:
    """docs/tracker.md: script-src and connect-src of the server's address; nothing inline."""
    policy = f"default-src 'none'; script-src {stage.stats}; connect-src {stage.stats}"
    page = visit(
        stage.put("/", attributes="data-vitals data-heatmap=1 data-links", headers={"Content-Security-Policy": policy})
    )
    stage.counted("/")
    until(lambda: {"/tracker/vitals.js", "/tracker/heatmap.js"} <= {sent.path for sent in stage.wire.sent})
    page.goto(stage.origin + "/#tally-ignore")
    page.get_by_role("status").wait_for()


def test_a_page_in_a_file_sends_nothing(stage: Stage, visit: Visit, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(f"<!doctype html>{stage.script()}")
    page = visit(file.as_uri())
    page.evaluate("tally.track('no')")
    page.goto(stage.put("/"))
    stage.counted("/")


def test_a_page_of_another_site_counts_nowhere(stage: Stage, visit: Visit) -> None:
    stage.put("/")
    page = visit(f"http://evil.test:{stage.pages.port}/")
    until(lambda: stage.wire.posts and stage.wire.posts[0].status == 403)
    assert page.evaluate("Object.keys(localStorage)") == []
    visit(f"http://www.example.test:{stage.pages.port}/")
    stage.counted("/")
    assert stage.events()[0]["hostname"] == "www.example.test"


def test_two_copies_count_once(stage: Stage, visit: Visit) -> None:
    page = visit(stage.put("/", stage.script()))
    page.evaluate("history.pushState({}, '', '/two')")
    end(page)
    stage.counted("/", "/two", "end")


def test_two_websites_count_both(stage: Stage, visit: Visit, running: Any, pages: Pages) -> None:
    other = Stage(running, pages)
    try:
        visit(stage.put("/", stage.script(website=other.website)))
        stage.counted("/")
        other.counted("/")
    finally:
        other.close()


def test_it_works_without_a_secure_context(stage: Stage, visit: Visit) -> None:
    """randomUUID and locks are for secure pages alone; the pages of these tests are none."""
    page = visit(stage.put("/"))
    assert page.evaluate("[isSecureContext, crypto.randomUUID, navigator.locks]") == [False, None, None]
    stage.counted("/")


@pytest.mark.parametrize("phone", [False, True])
def test_own_visits_are_left_out_by_a_link(stage: Stage, visit: Visit, phone: bool) -> None:
    """ "An opt-out link for one's own visits that works on a phone"."""
    options: dict[str, Any] = {"viewport": {"width": 360, "height": 640}, "is_mobile": True, "has_touch": True}
    stage.put("/")
    stage.put("/next")
    page = visit(stage.origin + "/#tally-ignore", **options if phone else {})
    box = page.get_by_role("status")
    box.wait_for()
    expect(box).to_have_text(f"Visits to example.test:{stage.pages.port} with this browser are no longer counted.")
    expect(page).to_have_url(stage.origin + "/")
    shape = box.bounding_box()
    assert shape is not None
    assert shape["y"] + shape["height"] <= (640 if phone else 720)
    assert shape["x"] >= 0
    assert shape["x"] + shape["width"] <= (360 if phone else 1280)
    page.goto(stage.origin + "/next")
    page.evaluate("tally.track('no')")
    page.goto(stage.origin + "/#tally-count")
    box.wait_for()
    expect(box).to_contain_text("counted again")
    box.click()
    expect(box).to_have_count(0)
    page.goto(stage.origin + "/next")
    stage.counted("/next")
    assert stored(page) == ["", [], []]


def test_the_opt_out_link_on_the_page_itself(stage: Stage, visit: Visit) -> None:
    page = visit(stage.put("/", "<a href='#tally-ignore'>leave me out</a>"))
    stage.counted("/")
    page.click("a")
    page.get_by_role("status").wait_for()
    page.evaluate("tally.track('no'); history.pushState({}, '', '/no')")
    visit(stage.origin + "/")
    stage.counted("/", "/")


def test_where_nothing_can_be_remembered_the_link_says_so(stage: Stage, visit: Visit) -> None:
    page = visit()
    page.add_init_script(FORBIDDEN)
    stage.put("/")
    page.goto(stage.origin + "/#tally-ignore")
    expect(page.get_by_role("status")).to_contain_text("cannot be excluded")


def test_names_of_the_owners_choice(serve: Serve, pages: Pages, tmp_path: Path, visit: Visit) -> None:
    """ "A script or collect path under a name of the owner's choice (setting)"."""
    open_database(tmp_path / "analytics.db", create=True).close()
    server = serve("--script-path", "/js/site.js", "--collect-path", "/js/send")
    stage = Stage(server, pages)
    try:
        page = visit(stage.put("/", tracker=stage.script("data-vitals", src="/js/site.js")))
        stage.counted("/")
        until(lambda: any(sent.path == "/js/site/vitals.js" for sent in stage.wire.sent))
        page.goto(stage.put("/usual"))
        stage.counted("/", "vitals", "/usual")
        assert {sent.path for sent in stage.wire.posts} == {"/js/send"}
    finally:
        stage.close()


def test_another_address_of_collect_by_attribute(stage: Stage, visit: Visit) -> None:
    visit(stage.put("/", attributes=f'data-api="{stage.stats}/api/v1/collect"'))
    stage.counted("/")
    assert stage.wire.posts[0].path == "/api/v1/collect"


def test_the_pixel_counts_where_there_are_no_scripts(stage: Stage, visit: Visit) -> None:
    """ "A `<noscript>` pixel": as in docs/tracker.md."""
    page_text = (Path(__file__).parents[2] / "docs" / "tracker.md").read_text()
    snippet = "<noscript>" + page_text.split("<noscript>")[1].split("</noscript>")[0] + "</noscript>"
    stage.put("/plain", snippet.replace("https://stats.example.com", stage.stats).replace(
        "c66653dc-e3f4-4325-a39f-da606931a543", stage.website))  # fmt: skip
    page = visit(stage.origin + "/plain?utm_source=news", java_script_enabled=False)
    stage.counted("/plain")
    assert stage.events()[0]["utm_source"] == "news"
    assert page.locator("img").bounding_box() is not None
    visit(stage.origin + "/plain")
    stage.counted("/plain", "/plain")
    assert [sent.method for sent in stage.wire.sent if sent.path.startswith("/pixel.gif")] == ["GET"]


def test_the_pixel_is_an_image(stage: Stage, visit: Visit, chromium: Browser) -> None:
    page = visit(stage.put("/", f'<img src="{stage.stats}/pixel.gif?website_id=nonsense">'))
    until(lambda: page.evaluate("document.querySelector('img').complete"))
    assert page.evaluate(
        "[document.querySelector('img').naturalWidth, document.querySelector('img').naturalHeight]"
    ) == [1, 1]


def test_it_is_seen_at_once_by_who_asks(stage: Stage, visit: Visit) -> None:
    """The figures of the read API are those of the browser's visit."""
    page = visit(stage.put("/"))
    page.evaluate("history.pushState({}, '', '/two')")
    end(page)
    stage.counted("/", "/two", "end")
    figures = stage.ask("stats")
    assert (figures["visitors"], figures["visits"], figures["pageviews"], figures["events"]) == (1, 1, 2, 1)
    assert stage.ask("realtime")["pages"] == [{"pathname": "/two", "visitors": 1}]
