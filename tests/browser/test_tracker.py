"""The tracker in a real browser: pages of one site, a server of another.

That something is not counted follows from a later event that is.

Reference: docs/tracker.md and static/tracker/README.md.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tally.storage.database import open_database
from tests.browser.conftest import TrackedSite, Visit
from tests.browser.customer_site import Pages, Reply, age_s
from tests.support.process import Serve, until

MAC = (
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko)"
    " Version/18.3 Safari/605.1.15"
)
STORAGE = "() => [document.cookie, Object.keys(localStorage), Object.keys(sessionStorage)]"


def stored(page: Page) -> list[Any]:
    """Return what a page stores (STORAGE) once no event is queued: each is removed when its response has arrived."""
    kept: list[Any] = until(lambda: (found := page.evaluate(STORAGE))[1] == [] and found)
    return kept


def end(page: Page, name: str = "end") -> None:
    """Send an event after all others."""
    page.evaluate("(name) => tally.track(name)", name)


def test_a_view_is_one_plain_request(tracked: TrackedSite, visit: Visit) -> None:
    """It is text/plain without a preflight; no identifier is sent and nothing stays stored."""
    page = visit(tracked.put("/pricing") + "?utm_source=news&utm_medium=mail&utm_campaign=may&secret=1#plans")
    tracked.counted("/pricing")
    view = tracked.events()[0]
    assert (view["hostname"], view["referrer"]) == ("example.test", None)
    assert (view["utm_source"], view["utm_medium"], view["utm_campaign"]) == ("news", "mail", "may")
    assert (view["browser"], view["os"], view["device"], view["language"]) == ("Chrome", "Windows", "desktop", "en-GB")

    [sent] = tracked.proxy.posts
    assert sent.path == "/api/collect"
    assert sent.headers["content-type"].startswith("text/plain")
    assert sent.headers["origin"] == tracked.origin
    assert "cookie" not in sent.headers
    [event] = sent.events
    assert event.keys() == {"type", "url", "referrer", "event_id", "title"}
    assert 0 <= age_s(event["event_id"]) < 3_600
    assert sent.json.keys() == {"website_id", "context", "events"}
    assert "#" not in event["url"]
    assert stored(page) == ["", [], []]
    assert [s.path for s in tracked.proxy.sent] == ["/tracker.js", "/api/collect"]


def test_the_referrer_is_that_of_the_visit(tracked: TrackedSite, visit: Visit) -> None:
    """The tracker sends the page before, then the website's own, which the server ignores; both events have the
    acquisition of the visit."""
    tracked.put("/landing")
    tracked.pages.put("/", f'<meta name=referrer content=unsafe-url><a href="{tracked.origin}/landing">go</a>')
    page = visit(f"http://elsewhere.test:{tracked.pages.port}/")
    page.click("a")
    tracked.counted("/landing")
    page.evaluate("history.pushState({}, '', '/next')")
    tracked.counted("/landing", "/next")
    assert [event["referrer"] for event in tracked.events()] == ["elsewhere.test"] * 2
    assert [event["referrer"] for sent in tracked.proxy.posts for event in sent.events] == [
        f"http://elsewhere.test:{tracked.pages.port}/",
        f"{tracked.origin}/landing",
    ]


def test_a_page_with_a_strict_referrer_policy_is_counted(tracked: TrackedSite, visit: Visit) -> None:
    """Beacons of such a page have `Origin: null`; fetch in cors mode has the page's origin."""
    page = visit(tracked.put("/strict", headers={"Referrer-Policy": "no-referrer"}))
    tracked.counted("/strict")
    end(page, "left")
    page.goto("about:blank")
    tracked.counted("/strict", "left")
    assert [sent.headers["origin"] for sent in tracked.proxy.posts] == [tracked.origin] * 2
    assert all("referer" not in sent.headers for sent in tracked.proxy.posts)


def test_single_page_navigation(tracked: TrackedSite, visit: Visit) -> None:
    """pushState, replaceState and popstate are views; the same path twice is one view."""
    page = visit(tracked.put("/one"))
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
    tracked.counted("/one", "/two", "/three", "/four", "/three", "end")


def test_the_history_functions_return_and_throw_as_without_the_tracker(tracked: TrackedSite, visit: Visit) -> None:
    page = visit(tracked.put("/"))
    page.evaluate("history.pushState({deep: 1}, '', '?a=1')")
    assert page.evaluate("[history.state.deep, location.search, history.length]") == [1, "?a=1", 3]
    error = page.evaluate(
        "(() => { try { history.pushState({}, '', 'https://evil.test/') } catch (e) { return e.name } })()"
    )
    assert error == "SecurityError"


QUERIES = """
    for (const query of ["?q=a", "?q=an", "?q=ana", "", "?page=2", "?page=3#more"])
        history[query < "?q" ? "pushState" : "replaceState"]({}, "", location.pathname + query)"""


def test_a_change_of_the_query_alone_is_no_view(tracked: TrackedSite, visit: Visit) -> None:
    """A search box, infinite scroll, utm values that are removed from the address, and the way back through them."""
    page = visit(tracked.put("/search") + "?utm_source=news&utm_medium=mail")
    page.evaluate("history.replaceState(history.state, '', location.pathname)")
    page.evaluate(QUERIES)
    page.go_back()
    page.evaluate("history.replaceState({}, '', '?q=back')")
    page.evaluate("location.hash = 'below'")
    page.evaluate("history.pushState({}, '', '/result?id=1')")
    page.evaluate("history.pushState({}, '', '/search?q=ana')")
    tracked.counted("/search", "/result", "/search")
    views = tracked.events()
    assert [view["utm_source"] for view in views] == ["news"] * 3
    assert [event["referrer"] for sent in tracked.proxy.posts for event in sent.events] == [
        "",
        f"{tracked.origin}/search",
        f"{tracked.origin}/result",
    ]


def test_a_visit_of_one_page_whose_address_is_cleaned_is_a_bounce(tracked: TrackedSite, visit: Visit) -> None:
    page = visit(tracked.put("/landing") + "?utm_source=news&utm_campaign=may&gclid=x")
    page.evaluate("history.replaceState({}, '', '/landing?gclid=x'); history.replaceState({}, '', '/landing')")
    page.goto(tracked.put("/blank", tracker=""))
    until(lambda: tracked.names() == ["/landing"])
    figures = tracked.ask("stats")
    assert (figures["pageviews"], figures["bounce_rate"]) == (1, 100)


def test_an_address_that_is_cleaned_before_the_script_runs(tracked: TrackedSite, visit: Visit) -> None:
    clean = "<script>history.replaceState({}, '', location.pathname)</script>"
    page = visit(tracked.put("/landing", head=clean) + "?utm_source=news")
    end(page)
    tracked.counted("/landing", "end")


def test_queries_are_pages_by_option(tracked: TrackedSite, visit: Visit) -> None:
    page = visit(tracked.put("/list", attributes="data-query") + "?page=1")
    page.evaluate("history.pushState({}, '', '?page=2')")
    page.evaluate("history.pushState({}, '', '?page=2#end')")
    page.evaluate("history.pushState({}, '', '?page=3')")
    end(page)
    tracked.counted("/list", "/list", "/list", "end")


def test_a_view_by_call_is_always_counted(tracked: TrackedSite, visit: Visit) -> None:
    """tally.pageview(); what follows is compared with the page of the call."""
    page = visit(tracked.put("/wizard"))
    page.evaluate("tally.pageview(); history.replaceState({}, '', '?step=2'); tally.pageview()")
    page.evaluate("history.replaceState({}, '', '?step=3')")
    end(page)
    tracked.counted("/wizard", "/wizard", "/wizard", "end")
    assert {event["referrer"] for event in tracked.events()} == {None}


def test_a_query_of_any_length_costs_no_view(tracked: TrackedSite, visit: Visit) -> None:
    """Of the page, and of the page before, which is sent without it. The values at its beginning are read."""
    page = visit(tracked.put("/app") + "?utm_source=news&state=" + "x" * 30_000)
    page.evaluate("history.pushState({}, '', '/next?state=' + 'y'.repeat(9000))")
    page.evaluate("history.pushState({}, '', '/end')")
    tracked.counted("/app", "/next", "/end")
    assert tracked.events()[0]["utm_source"] == "news"


@pytest.mark.parametrize(
    ("url", "path"),
    [
        *(("/#/about", "/about"), ("/app#!/about", "/app/about"), ("/app#team", "/app/team"), ("/app/#/a", "/app/a")),
        *(("/app/", "/app/"), ("/app", "/app"), ("/app#", "/app"), ("/app#/", "/app"), ("/app#!/", "/app")),
        *(("/app/#/", "/app/"), ("/", "/"), ("/#/", "/"), ("/app?a=1", "/app"), ("/app?a=1#/", "/app")),
        *(("/app#/?utm_source=x", "/app"), ("/app?utm_source=x#/?b=1", "/app"), ("/app?a=/#/b?utm_source=x", "/app/b")),
        ("/app?utm_source=x#/b?c=1", "/app/b"),
    ],
)
def test_the_hash_is_a_path_by_option(tracked: TrackedSite, visit: Visit, url: str, path: str) -> None:
    """A page without a fragment has the name that it has everywhere; queries on both sides are read."""
    tracked.put(re.split("[?#]", url)[0], attributes="data-hash")
    page = visit(tracked.origin + url)
    tracked.counted(path)
    assert tracked.events()[0]["utm_source"] == ("x" if "utm_source" in url else None)
    page.evaluate("history.replaceState({}, '', '?other=1' + location.hash)")
    page.evaluate("location.hash = '/other?utm_source=y'")
    page.evaluate("location.hash = '/other?utm_source=z'")
    end(page)
    tracked.counted(path, re.split("[?#]", url)[0].removesuffix("/") + "/other", "end")


def test_a_page_from_the_back_forward_cache_is_counted(tracked: TrackedSite, visit: Visit) -> None:
    """The page itself reports that it was restored: Playwright does not see it."""
    tracked.put("/second")
    script = "addEventListener('pageshow', (event) => event.persisted && tally.track('came back'))"
    page = visit(tracked.put("/first", f"<script>{script}</script><a href=/second>on</a>"))
    tracked.counted("/first")
    page.click("a")
    tracked.counted("/first", "/second")
    page.evaluate("setTimeout(() => history.back())")
    tracked.counted("/first", "/second", "/first", "came back")
    assert [event.get("referrer") for sent in tracked.proxy.posts for event in sent.events][2:] == [None, None]


def test_a_prerendered_page_is_counted_when_it_is_shown(tracked: TrackedSite, visit: Visit) -> None:
    """The test changes the state of the document, so that its time is known."""
    tracked.put("/other", tracker="")
    tracked.put("/next", "<script>window.tally = { q: [['track', 'early']] }</script>")
    page = visit()
    page.clock.install()
    page.add_init_script(
        "window.hidden = location.pathname == '/next';"
        "Object.defineProperty(Document.prototype, 'prerendering', { get: () => window.hidden, configurable: true })"
    )
    page.goto(tracked.origin + "/next")
    page.evaluate("history.replaceState({}, '', '/next?step=2')")
    page.evaluate("tally.track('before')")
    page.clock.run_for(60_000)
    assert tracked.proxy.posts == []
    page.evaluate("window.hidden = false; document.dispatchEvent(new Event('prerenderingchange'))")
    page.clock.run_for(2_000)
    tracked.counted("/next", "early", "before")


def test_a_page_that_chromium_prerenders(tracked: TrackedSite, visit: Visit) -> None:
    tracked.put("/next")
    rules = {"prerender": [{"source": "list", "urls": ["/next"], "eagerness": "immediate"}]}
    page = visit(tracked.put("/", f'<script type=speculationrules>{json.dumps(rules)}</script><a href="/next">on</a>'))
    tracked.counted("/")
    until(lambda: "/next" in tracked.pages.opened)
    end(page)
    tracked.counted("/", "end")
    page.click("a")
    page.wait_for_url("**/next")
    tracked.counted("/", "end", "/next")


def test_track(tracked: TrackedSite, visit: Visit) -> None:
    page = visit(tracked.put("/"))
    page.evaluate("tally.track('signup', { plan: 'pro', seats: 3, trial: false })")
    page.evaluate("tally.track('plain')")
    tracked.counted("/", "signup", "plain")
    signup = next(event for event in tracked.events() if event["event_name"] == "signup")
    assert (signup["pathname"], signup["event_data"]) == ("/", {"plan": "pro", "seats": 3, "trial": False})


def test_nested_values_become_text(tracked: TrackedSite, visit: Visit) -> None:
    """JSON text, as with umami.track of /script.js; what JSON does not have is omitted, and the event is counted."""
    page = visit(tracked.put("/"))
    page.evaluate(
        "() => { const round = {}; round.round = round;"
        "tally.track('purchase', { items: ['a', 'b'], cart: { total: 5, at: [1, { b: null }] }, none: [], total: 5 });"
        "tally.track('values', { when: new Date(0), page: new URL('https://a.test/x'), nothing: null, no: undefined,"
        " not: NaN, yes: true, call: () => 1, set: new Set([1]), empty: {} });"
        "tally.track('odd', { round, body: document.body, big: 1n, deep: { big: 1n }, plain: 1 }) }"
    )
    tracked.counted("/", "purchase", "values", "odd")
    data = {event["event_name"]: event["event_data"] for event in tracked.events()}
    cart = '{"total":5,"at":[1,{"b":null}]}'
    assert data["purchase"] == {"items": '["a","b"]', "cart": cart, "none": "[]", "total": 5}
    assert data["values"] == {
        "when": "1970-01-01T00:00:00.000Z",
        "page": "https://a.test/x",
        **{"nothing": None, "not": None, "yes": True, "set": "{}", "empty": "{}"},
    }
    assert data["odd"] == {"body": "{}", "plain": 1}


def test_track_never_throws_and_an_invalid_event_affects_no_other(tracked: TrackedSite, visit: Visit) -> None:
    page = visit(tracked.put("/"))
    page.evaluate(
        "() => { tally.track('x'.repeat(201)); tally.track('huge', { text: 'x'.repeat(70000) }); tally.track();"
        "tally.track('text', 'no object'); tally.track('list', ['a']); tally.track(Symbol('no'));"
        "tally.track('wide', { list: 'x'.repeat(5000).split('') });"
        "const data = { step: 1 }; tally.track('changed', data); data.step = 2 }"
    )
    tracked.counted("/", "changed")
    assert tracked.events()[-1]["event_data"] == {"step": 1}


def test_calls_before_the_script_are_kept(tracked: TrackedSite, visit: Visit) -> None:
    """The snippet of docs/tracker.md."""
    page_text = (Path(__file__).parents[2] / "docs" / "tracker.md").read_text()
    stub = page_text[page_text.index("window.tally = window.tally") :].split("</script>")[0]
    calls = "tally.track('early', { a: 1 }); tally.convert('cta', { variant: 'b' }); tally.pageview()"
    visit(tracked.put("/", head=f"<script>{stub}</script><script>{calls}</script>"))
    tracked.counted("/", "early", "ab_convert", "/")


@pytest.mark.parametrize(("random", "variant"), [(0, "a"), (0.49, "a"), (0.5, "b"), (0.999999, "b")])
def test_variants(tracked: TrackedSite, visit: Visit, random: float, variant: str) -> None:
    """tally.variant assigns evenly, keeps the variant for the session and sends ab_assign once."""
    page = visit(tracked.put("/"))
    page.evaluate("(random) => { Math.random = () => random }", random)
    choose = "tally.variant('cta', ['a', 'b'])"
    assert page.evaluate(choose) == variant
    page.goto(tracked.put("/other"))
    page.evaluate(f"Math.random = () => {0.9 - 0.8 * random}")
    assert [page.evaluate(choose) for _ in range(3)] == [variant] * 3
    page.evaluate("tally.convert('cta', { goal: 'order', value: 12.5 })")
    tracked.counted("/", "ab_assign", "/other", "ab_convert")
    assigned, converted = (event for event in tracked.events() if event["experiment"])
    assert (assigned["experiment"], assigned["variant"]) == ("cta", variant)
    assert [converted[k] for k in ("experiment", "variant", "goal", "value")] == ["cta", variant, "order", 12.5]
    assert stored(page) == ["", [], ["tally.cta"]]


def test_a_variant_that_is_no_longer_listed_is_assigned_anew(tracked: TrackedSite, visit: Visit) -> None:
    page = visit(tracked.put("/"))
    assert page.evaluate("tally.variant('cta', ['gone'])") == "gone"
    assert page.evaluate("tally.variant('cta', ['new'])") == "new"


def test_attributes(tracked: TrackedSite, visit: Visit) -> None:
    """data-track: on clicked elements and submitted forms, not on clicks in forms."""
    body = """
        <button data-track=signup data-track-plan=pro data-track-place-of=top data-other=secret><b>Sign up</b></button>
        <form action=/thanks data-track=order data-track-kind=quick>
          <input name=q value=mine><button id=send>Go</button>
        </form>
        <p id=plain>nothing</p><svg data-track=drawing width=20 height=20><rect width=20 height=20 /></svg>"""
    tracked.put("/thanks")
    page = visit(tracked.put("/", body))
    page.click("b")
    page.click("#plain")
    page.click("input")
    page.click("rect")
    page.click("#send")
    page.wait_for_url("**/thanks?q=mine")
    tracked.counted("/", "signup", "drawing", "order", "/thanks")
    data = {event["event_name"]: event["event_data"] for event in tracked.events()}
    assert data["signup"] == {"plan": "pro", "place-of": "top"}
    assert data["order"] == {"kind": "quick"}


SHADOW = """
    <div id=host></div><div id=slotted><form id=light data-track=light onsubmit="return false"><button>x</button></form>
    </div><script>
    const root = host.attachShadow({ mode: "open" });
    root.innerHTML = `
        <button id=button data-track=deep data-track-plan=pro><b>x</b></button>
        <form id=form data-track=order><input id=input><button id=send>Go</button></form>
        <div id=inner></div>`;
    const stop = (event) => { event.preventDefault(); event.stopPropagation() };
    root.querySelector("#form").addEventListener("submit", stop);
    root.querySelector("#inner").attachShadow({ mode: "open" }).innerHTML = "<p data-track=deeper>y</p>";
    slotted.attachShadow({ mode: "open" }).innerHTML = "<section><i>z</i><slot></slot></section>";
    </script>"""


def test_elements_in_open_shadow_roots_and_in_svg(tracked: TrackedSite, visit: Visit) -> None:
    """Forms too, whose submit event does not leave a shadow root; one in a slot is counted once."""
    drawing = "<svg width=60 height=30><a href='#x' data-track=drawing><rect width=50 height=30 /></a></svg>"
    page = visit(tracked.put("/", SHADOW + drawing))
    page.click("#host b")
    page.click("#host #input")
    page.keyboard.press("Enter")
    page.click("#host #send")
    page.click("#inner p")
    page.click("#slotted i")
    page.click("#light button")
    page.click("rect")
    end(page)
    tracked.counted("/", "deep", "order", "order", "deeper", "light", "drawing", "end")
    assert next(e["event_data"] for e in tracked.events() if e["event_name"] == "deep") == {"plan": "pro"}


def test_a_click_whose_propagation_is_stopped_is_tracked(tracked: TrackedSite, visit: Visit) -> None:
    page = visit(tracked.put("/", "<button data-track=quiet onclick='event.stopPropagation()'>x</button>"))
    page.click("button")
    tracked.counted("/", "quiet")


def test_batches(tracked: TrackedSite, visit: Visit) -> None:
    """At most 50 events and 60 KB, sent after a second; the longest characters take 3 bytes."""
    page = visit(tracked.put("/"))
    page.evaluate("for (let i = 0; i < 120; i++) tally.track('small', { i })")
    page.evaluate("for (let i = 0; i < 30; i++) tally.track('large', { i, text: '€'.repeat(1300) })")
    tracked.counted("/", *["small"] * 120, *["large"] * 30)
    assert max(len(sent.events) for sent in tracked.proxy.posts) == 50
    assert 45_000 < max(len(sent.body) for sent in tracked.proxy.posts) <= 60_000
    numbers = sorted(
        (event["event_name"], event["event_data"]["i"]) for event in tracked.events() if event["event_data"]
    )
    assert numbers == [("large", i) for i in range(30)] + [("small", i) for i in range(120)]


def test_events_beyond_the_keepalive_limit_are_sent_later(tracked: TrackedSite, visit: Visit) -> None:
    """Browsers refuse more than 64 KB of keepalive requests at once; refused events stay queued."""
    page = visit(tracked.put("/"))
    tracked.counted("/")
    tracked.proxy.held.clear()
    page.evaluate("for (let i = 0; i < 40; i++) tally.track('large', { i, text: '€'.repeat(1300) })")
    page.goto("about:blank")
    until(lambda: len(tracked.proxy.posts) > 1)
    tracked.proxy.held.set()
    page.goto(tracked.put("/later"))
    tracked.counted("/", *["large"] * 40, "/later")


def test_events_are_sent_when_the_page_is_left(tracked: TrackedSite, visit: Visit) -> None:
    """Also during a request, and when the page is closed."""
    page = visit(tracked.put("/"))
    tracked.counted("/")
    tracked.proxy.held.clear()
    page.evaluate("tally.track('slow')")
    until(lambda: len(tracked.proxy.posts) == 2)
    page.evaluate("tally.track('last')")
    page.goto("about:blank")
    until(lambda: len(tracked.proxy.posts) == 3)
    tracked.proxy.held.set()
    tracked.counted("/", "slow", "last")


def test_events_are_sent_when_the_tab_is_closed(tracked: TrackedSite, visit: Visit) -> None:
    page = visit(tracked.put("/"))
    with page.expect_popup() as opened:
        page.evaluate("window.open('/')")
    popup = opened.value
    until(lambda: popup.evaluate("!!window.tally?.track"))
    with popup.expect_event("close"):
        popup.evaluate("setTimeout(() => { tally.track('closing'); window.close() })")
    tracked.counted("/", "/", "closing")


def test_without_keepalive_aborted_events_are_sent_by_the_next_page(tracked: TrackedSite, visit: Visit) -> None:
    """Firefox before version 133."""
    page = visit()
    page.add_init_script("const own = fetch; window.fetch = (url, { keepalive, ...rest }) => own(url, rest)")
    page.goto(tracked.put("/"))
    tracked.counted("/")
    end(page)
    page.goto(tracked.put("/blank", tracker=""))
    page.goto(tracked.put("/next"))
    tracked.counted("/", "end", "/next")


def test_global_privacy_control_is_respected_where_configured(tracked: TrackedSite, visit: Visit) -> None:
    page = visit()
    page.add_init_script("Object.defineProperty(navigator, 'globalPrivacyControl', { value: true })")
    page.goto(tracked.put("/quiet", "<a data-track=x href='#x'>x</a>", attributes="data-respect-gpc data-vitals"))
    page.evaluate("tally.track('no')")
    page.click("a")
    assert page.evaluate("tally.variant('cta', ['a', 'b'])") == "a"
    assert page.evaluate(STORAGE) == ["", [], []]
    page.goto(tracked.put("/counted"))
    tracked.counted("/counted")


def test_without_the_signal_the_attribute_changes_nothing(tracked: TrackedSite, visit: Visit) -> None:
    visit(tracked.put("/", attributes="data-respect-gpc"))
    tracked.counted("/")


def test_an_ipad_with_the_user_agent_of_a_mac(tracked: TrackedSite, visit: Visit) -> None:
    page = visit(user_agent=MAC)
    page.add_init_script("Object.defineProperty(navigator, 'maxTouchPoints', { value: 5 })")
    page.goto(tracked.put("/"))
    tracked.counted("/")
    view = tracked.events()[0]
    assert (view["device"], view["os"], view["browser"]) == ("tablet", "iOS", "Safari")
    visit(tracked.origin + "/", user_agent=MAC)
    tracked.counted("/", "/")
    assert (tracked.events()[1]["device"], tracked.events()[1]["os"]) == ("desktop", "macOS")


FORBIDDEN = """
    for (const name of ["localStorage", "sessionStorage"])
        Object.defineProperty(window, name, { get() { throw new DOMException("no", "SecurityError") } });
"""


def test_events_are_sent_where_storage_is_forbidden(tracked: TrackedSite, visit: Visit) -> None:
    page = visit()
    page.add_init_script(FORBIDDEN)
    page.goto(tracked.put("/"))
    assert page.evaluate("['a', 'b'].includes(tally.variant('cta', ['a', 'b']))")
    tracked.counted("/", "ab_assign")
    tracked.proxy.replies.append(Reply(500))
    page.evaluate("tally.track('kept')")
    until(lambda: len(tracked.proxy.posts) == 2)
    end(page)
    tracked.counted("/", "ab_assign", "kept", "end")


def test_events_are_sent_where_storage_is_full(tracked: TrackedSite, visit: Visit) -> None:
    page = visit(tracked.put("/"))
    tracked.counted("/")
    page.evaluate("localStorage.full = 'x'.repeat(5 * 1024 * 1024 - 10); sessionStorage.full = localStorage.full")
    tracked.proxy.replies.append(Reply(500))
    end(page, "in memory")
    until(lambda: len(tracked.proxy.posts) == 2)
    end(page)
    tracked.counted("/", "in memory", "end")


@pytest.mark.parametrize("policy", ["connect-src 'none'", "sandbox allow-scripts"])
def test_a_policy_that_forbids_the_tracker_causes_no_errors(tracked: TrackedSite, visit: Visit, policy: str) -> None:
    page = visit(tracked.put("/", attributes="data-vitals data-heatmap=1", headers={"Content-Security-Policy": policy}))
    page.evaluate("tally.track('no'); tally.variant('x', ['a']); history.pushState({}, '', '#x')")
    assert page.evaluate("tally.variant('x', ['a'])") == "a"
    page.goto(tracked.put("/free"))
    until(lambda: "/free" in tracked.names())
    assert set(tracked.names()) <= {"/", "no", "ab_assign", "/free", "vitals"}


def test_a_policy_that_names_the_server_is_enough(tracked: TrackedSite, visit: Visit) -> None:
    """docs/tracker.md: script-src and connect-src of the server's address; nothing inline."""
    policy = f"default-src 'none'; script-src {tracked.stats}; connect-src {tracked.stats}"
    page = visit(
        tracked.put(
            "/", attributes="data-vitals data-heatmap=1 data-links", headers={"Content-Security-Policy": policy}
        )
    )
    tracked.counted("/")
    until(lambda: {"/tracker/vitals.js", "/tracker/heatmap.js"} <= {sent.path for sent in tracked.proxy.sent})
    page.goto(tracked.origin + "/#tally-ignore")
    page.get_by_role("status").wait_for()


def test_a_page_in_a_file_sends_nothing(tracked: TrackedSite, visit: Visit, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(f"<!doctype html>{tracked.script()}")
    page = visit(file.as_uri())
    page.evaluate("tally.track('no')")
    page.goto(tracked.put("/"))
    tracked.counted("/")


def test_a_page_of_another_site_is_not_counted(tracked: TrackedSite, visit: Visit) -> None:
    tracked.put("/")
    page = visit(f"http://evil.test:{tracked.pages.port}/")
    until(lambda: tracked.proxy.posts and tracked.proxy.posts[0].status == 403)
    assert page.evaluate("Object.keys(localStorage)") == []
    visit(f"http://www.example.test:{tracked.pages.port}/")
    tracked.counted("/")
    assert tracked.events()[0]["hostname"] == "www.example.test"


def test_two_copies_count_once(tracked: TrackedSite, visit: Visit) -> None:
    page = visit(tracked.put("/", tracked.script()))
    page.evaluate("history.pushState({}, '', '/two')")
    end(page)
    tracked.counted("/", "/two", "end")


def test_two_websites_count_both(tracked: TrackedSite, visit: Visit, running: Any, pages: Pages) -> None:
    other = TrackedSite(running, pages)
    try:
        visit(tracked.put("/", tracked.script(website=other.website)))
        tracked.counted("/")
        other.counted("/")
    finally:
        other.close()


def test_it_works_without_a_secure_context(tracked: TrackedSite, visit: Visit) -> None:
    """randomUUID and locks exist in secure contexts alone; the pages of these tests are not secure."""
    page = visit(tracked.put("/"))
    assert page.evaluate("[isSecureContext, crypto.randomUUID, navigator.locks]") == [False, None, None]
    tracked.counted("/")


@pytest.mark.parametrize("phone", [False, True])
def test_own_visits_are_excluded_by_a_link(tracked: TrackedSite, visit: Visit, phone: bool) -> None:
    options: dict[str, Any] = {"viewport": {"width": 360, "height": 640}, "is_mobile": True, "has_touch": True}
    tracked.put("/")
    tracked.put("/next")
    page = visit(tracked.origin + "/#tally-ignore", **options if phone else {})
    box = page.get_by_role("status")
    box.wait_for()
    expect(box).to_have_text(f"Visits to example.test:{tracked.pages.port} with this browser are no longer counted.")
    expect(page).to_have_url(tracked.origin + "/")
    shape = box.bounding_box()
    assert shape is not None
    assert shape["y"] + shape["height"] <= (640 if phone else 720)
    assert shape["x"] >= 0
    assert shape["x"] + shape["width"] <= (360 if phone else 1280)
    page.goto(tracked.origin + "/next")
    page.evaluate("tally.track('no')")
    page.goto(tracked.origin + "/#tally-count")
    box.wait_for()
    expect(box).to_contain_text("counted again")
    box.click()
    expect(box).to_have_count(0)
    page.goto(tracked.origin + "/next")
    tracked.counted("/next")
    assert stored(page) == ["", [], []]


def test_the_opt_out_link_on_the_page_itself(tracked: TrackedSite, visit: Visit) -> None:
    page = visit(tracked.put("/", "<a href='#tally-ignore'>exclude my visits</a>"))
    tracked.counted("/")
    page.click("a")
    page.get_by_role("status").wait_for()
    page.evaluate("tally.track('no'); history.pushState({}, '', '/no')")
    visit(tracked.origin + "/")
    tracked.counted("/", "/")


def test_without_storage_the_opt_out_link_shows_an_error(tracked: TrackedSite, visit: Visit) -> None:
    page = visit()
    page.add_init_script(FORBIDDEN)
    tracked.put("/")
    page.goto(tracked.origin + "/#tally-ignore")
    expect(page.get_by_role("status")).to_contain_text("cannot be excluded")


def test_custom_script_and_collect_paths(serve: Serve, pages: Pages, tmp_path: Path, visit: Visit) -> None:
    open_database(tmp_path / "analytics.db", create=True).close()
    server = serve("--script-path", "/js/site.js", "--collect-path", "/js/send")
    tracked = TrackedSite(server, pages)
    try:
        page = visit(tracked.put("/", tracker=tracked.script("data-vitals", src="/js/site.js")))
        tracked.counted("/")
        until(lambda: any(sent.path == "/js/site/vitals.js" for sent in tracked.proxy.sent))
        page.goto(tracked.put("/usual"))
        tracked.counted("/", "vitals", "/usual")
        assert {sent.path for sent in tracked.proxy.posts} == {"/js/send"}
    finally:
        tracked.close()


def test_another_collect_address_by_attribute(tracked: TrackedSite, visit: Visit) -> None:
    visit(tracked.put("/", attributes=f'data-api="{tracked.stats}/api/v1/collect"'))
    tracked.counted("/")
    assert tracked.proxy.posts[0].path == "/api/v1/collect"


def test_the_pixel_counts_where_there_are_no_scripts(tracked: TrackedSite, visit: Visit) -> None:
    """The snippet of docs/tracker.md."""
    page_text = (Path(__file__).parents[2] / "docs" / "tracker.md").read_text()
    snippet = "<noscript>" + page_text.split("<noscript>")[1].split("</noscript>")[0] + "</noscript>"
    tracked.put("/plain", snippet.replace("https://stats.example.com", tracked.stats).replace(
        "c66653dc-e3f4-4325-a39f-da606931a543", tracked.website))  # fmt: skip
    page = visit(tracked.origin + "/plain?utm_source=news", java_script_enabled=False)
    tracked.counted("/plain")
    assert tracked.events()[0]["utm_source"] == "news"
    assert page.locator("img").bounding_box() is not None
    visit(tracked.origin + "/plain")
    tracked.counted("/plain", "/plain")
    assert [sent.method for sent in tracked.proxy.sent if sent.path.startswith("/pixel.gif")] == ["GET"]


def test_the_pixel_is_an_image(tracked: TrackedSite, visit: Visit, chromium: Browser) -> None:
    page = visit(tracked.put("/", f'<img src="{tracked.stats}/pixel.gif?website_id=nonsense">'))
    until(lambda: page.evaluate("document.querySelector('img').complete"))
    assert page.evaluate(
        "[document.querySelector('img').naturalWidth, document.querySelector('img').naturalHeight]"
    ) == [1, 1]


def test_events_are_in_the_next_read_response(tracked: TrackedSite, visit: Visit) -> None:
    """The figures of the read API are those of the browser's visit."""
    page = visit(tracked.put("/"))
    page.evaluate("history.pushState({}, '', '/two')")
    end(page)
    tracked.counted("/", "/two", "end")
    figures = tracked.ask("stats")
    assert (figures["visitors"], figures["visits"], figures["pageviews"], figures["events"]) == (1, 1, 2, 1)
    assert tracked.ask("realtime")["pages"] == [{"pathname": "/two", "visitors": 1}]
