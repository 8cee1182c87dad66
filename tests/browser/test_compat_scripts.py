"""The tags of Plausible, Umami and GoatCounter in a browser, with only the host changed.

Each website has a domain of its own: the tags name a website by its domain.
"""

from typing import Any

import pytest

from tests.browser.conftest import TrackedSite, Visit

QUEUE = (
    "<script>window.plausible = window.plausible || function () {"
    " (window.plausible.q = window.plausible.q || []).push(arguments) }</script>"
)


def on(domain: str) -> Any:
    """Set the domain of the website."""
    return pytest.mark.parametrize("tracked", [domain], indirect=True)


def data_of(tracked: TrackedSite, name: str) -> Any:
    """Return the event_data of the event of a name."""
    return next(event["event_data"] for event in tracked.events() if event["event_name"] == name)


@on("plausible-one.test")
def test_plausibles_tag(tracked: TrackedSite, visit: Visit) -> None:
    """data-domain, the function with its queue, properties, revenue, callback, tagged elements, navigation."""
    tag = f'<script defer data-domain="{tracked.domain}" src="{tracked.stats}/js/script.tagged-events.js"></script>'
    button = '<button class="x plausible-event-name=Sign+up plausible-event-plan=pro">up</button>'
    early = "<script>plausible('early', {props: {a: 1}})</script>"
    form = '<form onsubmit="return false" class="plausible-event-name=Order"><input><button id=order>x</button></form>'
    page = visit(tracked.put("/pricing", button + form, head=QUEUE + early, tracker=tag))
    page.evaluate(
        "new Promise((callback) => plausible('Buy', {props: {a: 'b'}, revenue: {amount: '9.5', currency: 'EUR'},"
        " callback}))"
    )
    page.click("button")
    # A form is counted when it is submitted, not where it is clicked; an event may have the document as its target.
    page.click("input")
    page.click("#order")
    page.evaluate("document.dispatchEvent(new MouseEvent('click'))")
    page.evaluate("history.pushState({}, '', '/next')")
    tracked.counted("/pricing", "early", "Buy", "Sign up", "Order", "/next")
    assert data_of(tracked, "early") == {"a": 1}
    assert data_of(tracked, "Buy") == {"a": "b", "value": 9.5, "currency": "EUR"}
    assert data_of(tracked, "Sign up") == {"plan": "pro"}
    assert {sent.path for sent in tracked.proxy.posts} == {"/api/event"}


TAGS = {
    "plausible": '<script defer data-domain="{domain}" src="{stats}/js/script.js"></script>',
    "umami": '<script defer src="{stats}/script.js" data-website-id="{website}"></script>',
    "goatcounter": '<script data-goatcounter="{stats}/count/{website}" async src="{stats}/count.js"></script>',
}
CALLS = {"plausible": "plausible('pageview')", "umami": "umami.track()", "goatcounter": "goatcounter.count()"}


@on("rules.test")
@pytest.mark.parametrize("system", TAGS)
def test_a_change_of_the_query_alone_is_no_view(tracked: TrackedSite, visit: Visit, system: str) -> None:
    """As in the tracker; the function of the system counts in any case."""
    tag = TAGS[system].format(domain=tracked.domain, stats=tracked.stats, website=tracked.website)
    page = visit(tracked.put("/search", tracker=tag) + "?utm_source=news")
    tracked.counted("/search")
    page.evaluate("for (const query of ['', '?q=a', '?q=an']) history.replaceState({}, '', '/search' + query)")
    page.evaluate("history.pushState({}, '', '/result?id=1')")
    tracked.counted("/search", "/result")
    page.evaluate("history.pushState({}, '', '/result?id=2')")
    page.evaluate(CALLS[system])
    tracked.counted("/search", "/result", "/result")


TAGGED = {
    "plausible": "class=plausible-event-name=Deep",
    "umami": "data-umami-event=Deep",
    "goatcounter": "data-goatcounter-click=Deep",
}


@on("shadows.test")
@pytest.mark.parametrize("system", TAGS)
def test_tagged_elements_in_open_shadow_roots_and_in_svg(tracked: TrackedSite, visit: Visit, system: str) -> None:
    tag = TAGS[system].format(domain=tracked.domain, stats=tracked.stats, website=tracked.website)
    body = f"""<div id=host></div><svg {TAGGED[system]} width=60 height=30><rect width=50 height=30 /></svg>
        <script>host.attachShadow({{ mode: "open" }}).innerHTML = "<p {TAGGED[system]}><b>x</b></p>"</script>"""
    page = visit(tracked.put("/", body, tracker=tag))
    tracked.counted("/")
    page.click("#host b")
    page.click("rect")
    tracked.counted("/", "Deep", "Deep")


@on("plausible-two.test")
def test_plausibles_script_names(tracked: TrackedSite, visit: Visit) -> None:
    """`manual`, `hash` and `outbound-links` in the name of the script; `#/path` is a path."""
    tag = f'<script defer data-domain="www.{tracked.domain}" src="{tracked.stats}/js/script.hash.manual.js"></script>'
    page = visit(tracked.put("/", "", tracker=tag) + "#/about")
    page.evaluate("plausible('pageview')")
    page.evaluate("plausible('pageview', {u: location.origin + '/made-up'})")
    page.evaluate("plausible('end')")
    tracked.counted("/", "/made-up", "end")
    outbound = (
        f'<script defer data-domain="{tracked.domain}" src="{tracked.stats}/js/plausible.outbound-links.js"></script>'
    )
    page = visit(tracked.put("/links", "<a href='http://elsewhere.test/x' target=_blank>x</a>", tracker=outbound))
    page.wait_for_load_state("networkidle")
    page.click("a")
    tracked.counted("/", "/made-up", "end", "/links", "outbound")


@on("plausible-three.test")
def test_plausibles_opt_out(tracked: TrackedSite, visit: Visit) -> None:
    tag = f'<script defer data-domain="{tracked.domain}" src="{tracked.stats}/js/script.js"></script>'
    page = visit(tracked.put("/", "", tracker=tag.replace("script.js", "nothing.js")))
    page.evaluate("localStorage.plausible_ignore = 'true'")
    page.goto(tracked.put("/ignored", "", tracker=tag))
    page.evaluate("plausible('ignored')")
    page.evaluate("localStorage.removeItem('plausible_ignore')")
    page.goto(tracked.put("/counted", "", tracker=tag))
    tracked.counted("/counted")


@on("umami-one.test")
def test_umamis_tag(tracked: TrackedSite, visit: Visit) -> None:
    """data-website-id, data-tag, data-domains, umami.track in its forms, data-umami-event."""
    attributes = f'data-tag="beta" data-domains="{tracked.domain}"'
    button = "<button data-umami-event='sign up' data-umami-event-plan=pro>up</button>"
    page = visit(tracked.put("/pricing", button, tracker=tracked.script(attributes, "/script.js")))
    page.evaluate("umami.track('buy', {cart: {items: 2}, at: new Date(0), none: null})")
    page.evaluate("umami.track((props) => ({...props, url: '/virtual'}))")
    page.evaluate("umami.track(() => null)")
    page.evaluate("umami.identify('user-7')")
    page.click("button")
    tracked.counted("/pricing", "buy", "/virtual", "sign up")
    assert data_of(tracked, "buy") == {
        **{"tag": "beta", "cart": '{"items":2}', "at": "1970-01-01T00:00:00.000Z", "none": None}
    }
    assert data_of(tracked, "sign up") == {"tag": "beta", "plan": "pro"}
    assert {sent.path for sent in tracked.proxy.posts} == {"/api/send"}


@on("umami-two.test")
def test_umamis_attributes(tracked: TrackedSite, visit: Visit) -> None:
    """data-auto-track and data-host-url; another host than those of data-domains is not counted."""
    attributes = f'data-auto-track="false" data-host-url="{tracked.stats}/"'
    page = visit(tracked.put("/", "", tracker=tracked.script(attributes, "/script.js")))
    page.evaluate("umami.track()")
    page.evaluate("history.pushState({}, '', '/next')")
    page.evaluate("umami.track('end')")
    other = visit(tracked.put("/other", "", tracker=tracked.script("data-domains='a.test, b.test'", "/script.js")))
    other.evaluate("umami.track('other')")
    tracked.counted("/", "end")
    assert {sent.path for sent in tracked.proxy.posts} == {"/api/send"}


@on("goat-one.test")
def test_goatcounters_tag(tracked: TrackedSite, visit: Visit) -> None:
    """data-goatcounter without a website: that of the page; the function, and elements with data-goatcounter-click."""
    tag = f'<script data-goatcounter="{tracked.stats}/count" async src="{tracked.stats}/count.js"></script>'
    button = "<button data-goatcounter-click='click-buy'>buy</button>"
    page = visit(tracked.put("/pricing", button, tracker=tag))
    page.evaluate("goatcounter.count({path: 'virtual/page'})")
    page.evaluate("goatcounter.count({path: 'signup', event: true})")
    page.click("button")
    tracked.counted("/pricing", "/virtual/page", "signup", "click-buy")
    assert {sent.path for sent in tracked.proxy.posts} == {"/count"}


@on("goat-two.test")
def test_goatcounters_settings(tracked: TrackedSite, visit: Visit) -> None:
    """no_onload, and a website in the path."""
    tag = f'<script data-goatcounter="{tracked.stats}/count/{tracked.website}" src="{tracked.stats}/count.js"></script>'
    page = visit(tracked.put("/", "", head="<script>goatcounter = {no_onload: true}</script>", tracker=tag))
    page.evaluate("goatcounter.count({path: (path) => path + 'made-up'})")
    tracked.counted("/made-up")
    assert {sent.path for sent in tracked.proxy.posts} == {f"/count/{tracked.website}"}
