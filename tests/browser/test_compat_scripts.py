"""The tags of Plausible, Umami and GoatCounter in a browser, with only the host changed.

Each website has a domain of its own: the tags name a website by its domain.
"""

from typing import Any

import pytest

from tests.browser.conftest import Stage, Visit

QUEUE = (
    "<script>window.plausible = window.plausible || function () {"
    " (window.plausible.q = window.plausible.q || []).push(arguments) }</script>"
)


def on(domain: str) -> Any:
    """Set the domain of the website."""
    return pytest.mark.parametrize("stage", [domain], indirect=True)


def data_of(stage: Stage, name: str) -> Any:
    """Return the event_data of the event of a name."""
    return next(event["event_data"] for event in stage.events() if event["event_name"] == name)


@on("plausible-one.test")
def test_plausibles_tag(stage: Stage, visit: Visit) -> None:
    """data-domain, the function with its queue, properties, revenue, callback, tagged elements, navigation."""
    tag = f'<script defer data-domain="{stage.domain}" src="{stage.stats}/js/script.tagged-events.js"></script>'
    button = '<button class="x plausible-event-name=Sign+up plausible-event-plan=pro">up</button>'
    early = "<script>plausible('early', {props: {a: 1}})</script>"
    form = '<form onsubmit="return false" class="plausible-event-name=Order"><input><button id=order>x</button></form>'
    page = visit(stage.put("/pricing", button + form, head=QUEUE + early, tracker=tag))
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
    stage.counted("/pricing", "early", "Buy", "Sign up", "Order", "/next")
    assert data_of(stage, "early") == {"a": 1}
    assert data_of(stage, "Buy") == {"a": "b", "value": 9.5, "currency": "EUR"}
    assert data_of(stage, "Sign up") == {"plan": "pro"}
    assert {sent.path for sent in stage.wire.posts} == {"/api/event"}


@on("plausible-two.test")
def test_plausibles_script_names(stage: Stage, visit: Visit) -> None:
    """`manual`, `hash` and `outbound-links` in the name of the script; `#/path` is a path."""
    tag = f'<script defer data-domain="www.{stage.domain}" src="{stage.stats}/js/script.hash.manual.js"></script>'
    page = visit(stage.put("/", "", tracker=tag) + "#/about")
    page.evaluate("plausible('pageview')")
    page.evaluate("plausible('pageview', {u: location.origin + '/made-up'})")
    page.evaluate("plausible('end')")
    stage.counted("/", "/made-up", "end")
    outbound = (
        f'<script defer data-domain="{stage.domain}" src="{stage.stats}/js/plausible.outbound-links.js"></script>'
    )
    page = visit(stage.put("/links", "<a href='http://elsewhere.test/x' target=_blank>x</a>", tracker=outbound))
    page.wait_for_load_state("networkidle")
    page.click("a")
    stage.counted("/", "/made-up", "end", "/links", "outbound")


@on("plausible-three.test")
def test_plausibles_opt_out(stage: Stage, visit: Visit) -> None:
    tag = f'<script defer data-domain="{stage.domain}" src="{stage.stats}/js/script.js"></script>'
    page = visit(stage.put("/", "", tracker=tag.replace("script.js", "nothing.js")))
    page.evaluate("localStorage.plausible_ignore = 'true'")
    page.goto(stage.put("/ignored", "", tracker=tag))
    page.evaluate("plausible('ignored')")
    page.evaluate("localStorage.removeItem('plausible_ignore')")
    page.goto(stage.put("/counted", "", tracker=tag))
    stage.counted("/counted")


@on("umami-one.test")
def test_umamis_tag(stage: Stage, visit: Visit) -> None:
    """data-website-id, data-tag, data-domains, umami.track in its forms, data-umami-event."""
    attributes = f'data-tag="beta" data-domains="{stage.domain}"'
    button = "<button data-umami-event='sign up' data-umami-event-plan=pro>up</button>"
    page = visit(stage.put("/pricing", button, tracker=stage.script(attributes, "/script.js")))
    page.evaluate("umami.track('buy', {cart: {items: 2}})")
    page.evaluate("umami.track((props) => ({...props, url: '/virtual'}))")
    page.evaluate("umami.track(() => null)")
    page.evaluate("umami.identify('user-7')")
    page.click("button")
    stage.counted("/pricing", "buy", "/virtual", "sign up")
    assert data_of(stage, "buy") == {"tag": "beta", "cart": '{"items":2}'}
    assert data_of(stage, "sign up") == {"tag": "beta", "plan": "pro"}
    assert {sent.path for sent in stage.wire.posts} == {"/api/send"}


@on("umami-two.test")
def test_umamis_attributes(stage: Stage, visit: Visit) -> None:
    """data-auto-track and data-host-url; another host than those of data-domains is not counted."""
    attributes = f'data-auto-track="false" data-host-url="{stage.stats}/"'
    page = visit(stage.put("/", "", tracker=stage.script(attributes, "/script.js")))
    page.evaluate("umami.track()")
    page.evaluate("history.pushState({}, '', '/next')")
    page.evaluate("umami.track('end')")
    other = visit(stage.put("/other", "", tracker=stage.script("data-domains='a.test, b.test'", "/script.js")))
    other.evaluate("umami.track('other')")
    stage.counted("/", "end")
    assert {sent.path for sent in stage.wire.posts} == {"/api/send"}


@on("goat-one.test")
def test_goatcounters_tag(stage: Stage, visit: Visit) -> None:
    """data-goatcounter without a website: that of the page; the function, and elements with data-goatcounter-click."""
    tag = f'<script data-goatcounter="{stage.stats}/count" async src="{stage.stats}/count.js"></script>'
    button = "<button data-goatcounter-click='click-buy'>buy</button>"
    page = visit(stage.put("/pricing", button, tracker=tag))
    page.evaluate("goatcounter.count({path: 'virtual/page'})")
    page.evaluate("goatcounter.count({path: 'signup', event: true})")
    page.click("button")
    stage.counted("/pricing", "/virtual/page", "signup", "click-buy")
    assert {sent.path for sent in stage.wire.posts} == {"/count"}


@on("goat-two.test")
def test_goatcounters_settings(stage: Stage, visit: Visit) -> None:
    """no_onload, and a website in the path."""
    tag = f'<script data-goatcounter="{stage.stats}/count/{stage.website}" src="{stage.stats}/count.js"></script>'
    page = visit(stage.put("/", "", head="<script>goatcounter = {no_onload: true}</script>", tracker=tag))
    page.evaluate("goatcounter.count({path: (path) => path + 'made-up'})")
    stage.counted("/made-up")
    assert {sent.path for sent in stage.wire.posts} == {f"/count/{stage.website}"}
