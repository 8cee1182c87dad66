"""The tracker loaded in other ways than by the snippet: modules, tag managers, copies, inline and evaluated code.

Each of these works, or logs one warning on the console with the problem. docs/tracker.md has the same as a table.
"""

import pytest
from playwright.sync_api import Page

from tests.browser.conftest import Tab, TrackedSite, Visit, everywhere
from tests.browser.customer_site import Reply
from tests.support.app import ROOT
from tests.support.process import until

SOURCE = (ROOT / "static" / "tracker.js").read_text()
HINT = "see data-website-id, data-api, allowed origins"


def warnings(page: Page) -> list[str]:
    """Return a list to which the tracker's warnings of a page are added."""
    found: list[str] = []
    page.on("console", lambda message: found.append(message.text) if "Tally" in message.text else None)
    return found


def wait_for_warning(page: Page, logged: list[str]) -> None:
    """Wait until there is a warning. Playwright receives it only while a command runs."""
    until(lambda: page.evaluate("1") and logged)


def module(tracked: TrackedSite, query: str = "", attributes: str = "") -> str:
    return f'<script type=module src="{tracked.stats}/tracker.js{query}" {attributes}></script>'


@everywhere
def test_a_module(tracked: TrackedSite, tab: Tab) -> None:
    """document.currentScript is null in modules; attributes and parts work."""
    own = f'data-website-id="{tracked.website}" data-links'
    tab.goto(tracked.put("/attributes", tracker=module(tracked, attributes=own)))
    until(lambda: any(sent.path == "/tracker/links.js" for sent in tracked.proxy.sent))
    tab.goto(tracked.put("/query", tracker=module(tracked, f"?id={tracked.website}")))
    tracked.counted("/attributes", "/query")


READ_ONLY = {
    "frozen": "Object.freeze(history)",
    "frozen prototype": "Object.freeze(History.prototype)",
    "one function": "Object.defineProperty(history, 'pushState', { value: history.pushState, writable: false })",
    "getter": "Object.defineProperty(history, 'replaceState', { get: () => History.prototype.replaceState })",
}


@pytest.mark.parametrize("kind", READ_ONLY)
@pytest.mark.parametrize("is_module", [True, False])
def test_a_page_whose_history_is_read_only(tracked: TrackedSite, visit: Visit, kind: str, is_module: bool) -> None:
    """In modules a failed assignment throws. Views are counted, and in browsers with the Navigation API all."""
    own = f'data-website-id="{tracked.website}"'
    script = module(tracked, attributes=own) if is_module else tracked.script()
    page = visit(tracked.put("/", head=f"<script>{READ_ONLY[kind]}</script>", tracker=script))
    tracked.counted("/")
    page.evaluate("history.pushState({}, '', '/two'); tally.track('end')")
    tracked.counted("/", "/two", "end")


def test_a_module_that_another_imports(tracked: TrackedSite, visit: Visit) -> None:
    """No element is its own. In WebKit, whose stacks have no queries, this warns; see docs/tracker.md."""
    text = f'<script type=module>import "{tracked.stats}/tracker.js?v=2&id={tracked.website}"</script>'
    visit(tracked.put("/imported", tracker=text))
    tracked.counted("/imported")


@everywhere
def test_the_navigation_api(tracked: TrackedSite, tab: Tab) -> None:
    """Sites that navigate by it never call pushState."""
    tab.goto(tracked.put("/one"))
    if not tab.evaluate("'navigation' in window"):
        pytest.skip("this browser has no Navigation API")
    tracked.counted("/one")
    tab.evaluate("navigation.addEventListener('navigate', (event) => event.canIntercept && event.intercept())")
    tab.evaluate("async () => { await navigation.navigate('/two').finished; return 1 }")
    tab.evaluate("async () => { await navigation.navigate('/two').finished; return 1 }")
    tab.evaluate("async () => { await navigation.navigate('/three', { history: 'replace' }).finished; return 1 }")
    tab.evaluate("async () => { history.pushState({}, '', '/four'); return 1 }")
    tab.evaluate("async () => { await navigation.back().finished; return 1 }")
    tracked.counted("/one", "/two", "/three", "/four", "/three")


@pytest.mark.parametrize("query", ["?id={}", "?id={}&_=1763800000000", "?v=2&id={}"])
def test_attributes_that_were_stripped(tracked: TrackedSite, visit: Visit, query: str) -> None:
    """Tag managers and jQuery 4 keep only a script's src, to which jQuery adds `_` against caches."""
    src = f"{tracked.stats}/tracker.js{query.format(tracked.website)}"
    make = f"<script>document.head.append(Object.assign(document.createElement('script'), {{ src: '{src}' }}))</script>"
    page = visit()
    logged = warnings(page)
    page.goto(tracked.put("/", tracker=make))
    tracked.counted("/")
    assert logged == []
    assert page.evaluate(f"'{tracked.website}' in tally")


def test_the_attribute_takes_precedence_and_parts_load_beside_a_query(tracked: TrackedSite, visit: Visit) -> None:
    visit(tracked.put("/", tracker=tracked.script("data-links", src="/tracker.js?id=wrong&at=/a/b.js")))
    tracked.counted("/")
    until(lambda: any(sent.path == "/tracker/links.js" for sent in tracked.proxy.sent))


def test_a_script_without_any_id(tracked: TrackedSite, visit: Visit) -> None:
    page = visit()
    logged = warnings(page)
    page.goto(tracked.put("/", tracker=f'<script defer src="{tracked.stats}/tracker.js"></script>'))
    wait_for_warning(page, logged)
    page.evaluate("tally.track('more')")
    until(lambda: len(tracked.proxy.posts) == 2)
    page.wait_for_function("() => Object.keys(localStorage).length == 0")
    reason = "missing_field in website_id; website_id says which website the event belongs to"
    fix = "set data-website-id, or ?id= in the script's URL"
    assert logged == [f"Tally: pageview on {tracked.origin}/ was not stored: {reason}; {fix}"]
    page.wait_for_function("() => Object.keys(localStorage).length == 0")


COPIES = {
    "copied file": '<script defer src="/js/copy.js" {}></script>',
    "copied module": '<script type=module src="/js/copy.js" {}></script>',
    "inline": "<script {}>{source}</script>",
    "eval": "<script {}>(0, eval)(document.getElementById('text').textContent)</script>",
}


def put_copy(tracked: TrackedSite, kind: str, attributes: str) -> str:
    """Put a page with a copy of the tracker on the website itself; return its URL."""
    tracked.pages.put("/js/copy.js", SOURCE, kind="text/javascript")
    text = f"<script type=text/plain id=text>{SOURCE}</script>" if kind == "eval" else ""
    own = f'data-website-id="{tracked.website}" {attributes}'
    return tracked.put("/", tracker=text + COPIES[kind].replace("{}", own, 1).replace("{source}", SOURCE))


@pytest.mark.parametrize("kind", COPIES)
def test_copies_work_with_the_servers_address(tracked: TrackedSite, visit: Visit, kind: str) -> None:
    page = visit()
    logged = warnings(page)
    page.goto(put_copy(tracked, kind, f'data-api="{tracked.stats}/api/collect"'))
    tracked.counted("/")
    assert logged == []


@pytest.mark.parametrize("kind", COPIES)
def test_copies_without_the_servers_address_warn_once(tracked: TrackedSite, visit: Visit, kind: str) -> None:
    """They send to their own address; no event stays queued."""
    page = visit()
    logged = warnings(page)
    page.goto(put_copy(tracked, kind, ""))
    wait_for_warning(page, logged)
    tracked.pages.opened.clear()
    page.evaluate("tally.track('more')")
    until(lambda: len(tracked.pages.opened) > 0)
    page.wait_for_function("() => Object.keys(localStorage).length == 0")
    folder = "/js" if "copied" in kind else ""
    assert logged == [f"Tally: 404 from {tracked.origin}{folder}/api/collect; {HINT}"]


def test_code_that_is_evaluated_later_and_has_no_element(tracked: TrackedSite, visit: Visit) -> None:
    page = visit(tracked.put("/", tracker=""))
    logged = warnings(page)
    page.evaluate("(text) => { setTimeout(text) }", SOURCE)
    wait_for_warning(page, logged)
    assert len(logged) == 1
    assert HINT in logged[0]


def test_a_copy_on_a_host_without_responses(tracked: TrackedSite, visit: Visit) -> None:
    """As with a CDN that responds without CORS headers, or not at all: the script cannot read the status."""
    tracked.pages.put("/js/copy.js", SOURCE, kind="text/javascript")
    other = f"http://static.test:{tracked.pages.port}"
    page = visit()
    logged = warnings(page)
    text = f'<script defer src="{other}/js/copy.js" data-website-id="{tracked.website}"></script>'
    page.goto(tracked.put("/", tracker=text))
    wait_for_warning(page, logged)
    assert logged == [f"Tally: no answer from {other}/js/api/collect; {HINT}"]


def test_a_page_of_a_refused_origin_warns_once(tracked: TrackedSite, visit: Visit) -> None:
    tracked.put("/")
    page = visit()
    logged = warnings(page)
    page.goto(f"http://localhost:{tracked.pages.port}/")
    wait_for_warning(page, logged)
    page.evaluate("tally.track('more')")
    until(lambda: len(tracked.proxy.posts) == 2)
    page.wait_for_function("() => Object.keys(localStorage).length == 0")
    assert logged == [f"Tally: 403 from {tracked.stats}/api/collect; {HINT}"]


@pytest.mark.parametrize("status", [429, 503])
def test_temporary_failures_log_no_warning(tracked: TrackedSite, visit: Visit, status: int) -> None:
    tracked.proxy.replies.append(Reply(status))
    page = visit()
    logged = warnings(page)
    page.goto(tracked.put("/"))
    tracked.posted(1)
    page.wait_for_function("() => Object.keys(localStorage).length > 0")
    assert logged == []


def test_a_page_of_an_app(tracked: TrackedSite, visit: Visit) -> None:
    """A web view's page is at capacitor://localhost, and some browsers give "null" as the origin of such addresses.

    No browser for tests opens such a page: the script sees this address in place of its page's.
    """
    page = """{ href: "capacitor://localhost/orders?x=1#y", protocol: "capacitor:", host: "localhost", origin: "null",
        hostname: "localhost", pathname: "/orders", search: "?x=1", hash: "#y" }"""
    own = f'data-website-id="{tracked.website}" data-api="{tracked.stats}/api/collect"'
    run = f"new Function('location', document.getElementById('text').textContent)({page})"
    text = f"<script type=text/plain id=text>{SOURCE}</script><script {own}>{run}</script>"
    visit(tracked.put("/", tracker=text))
    assert [event["url"] for event in tracked.posted(1)[0].events] == ["capacitor://localhost/orders?x=1"]
