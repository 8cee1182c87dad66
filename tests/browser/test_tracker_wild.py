"""The tracker as websites load it otherwise than by the snippet: modules, tag managers, copies, inline and eval'd code.

Each of these works, or one warning on the console says what is wrong. docs/tracker.md has the same as a table.
"""

import pytest
from playwright.sync_api import Page

from tests.browser.conftest import Stage, Tab, Visit, everywhere
from tests.browser.customer_site import Reply
from tests.support.app import ROOT
from tests.support.process import until

SOURCE = (ROOT / "static" / "tracker.js").read_text()
HINT = "check data-website-id, data-api, allowed origins"


def warnings(page: Page) -> list[str]:
    """Collect the tracker's warnings of a page."""
    found: list[str] = []
    page.on("console", lambda message: found.append(message.text) if "Tally" in message.text else None)
    return found


def wait_for_warning(page: Page, logged: list[str]) -> None:
    """Wait until there is a warning. Playwright receives it only while a command runs."""
    until(lambda: page.evaluate("1") and logged)


def module(stage: Stage, query: str = "", attributes: str = "") -> str:
    return f'<script type=module src="{stage.stats}/tracker.js{query}" {attributes}></script>'


@everywhere
def test_a_module(stage: Stage, tab: Tab) -> None:
    """document.currentScript is null there; attributes and parts work all the same."""
    own = f'data-website-id="{stage.website}" data-links'
    tab.goto(stage.put("/attributes", tracker=module(stage, attributes=own)))
    until(lambda: any(sent.path == "/tracker/links.js" for sent in stage.wire.sent))
    tab.goto(stage.put("/query", tracker=module(stage, f"?id={stage.website}")))
    stage.counted("/attributes", "/query")


def test_a_module_that_another_imports(stage: Stage, visit: Visit) -> None:
    """No element is its own. In WebKit, whose stacks have no queries, this warns; see docs/tracker.md."""
    text = f'<script type=module>import "{stage.stats}/tracker.js?v=2&id={stage.website}"</script>'
    visit(stage.put("/imported", tracker=text))
    stage.counted("/imported")


@everywhere
def test_the_navigation_api(stage: Stage, tab: Tab) -> None:
    """Sites that navigate by it never call pushState."""
    tab.goto(stage.put("/one"))
    if not tab.evaluate("'navigation' in window"):
        pytest.skip("this browser has no Navigation API")
    stage.counted("/one")
    tab.evaluate("navigation.addEventListener('navigate', (event) => event.canIntercept && event.intercept())")
    tab.evaluate("async () => { await navigation.navigate('/two').finished; return 1 }")
    tab.evaluate("async () => { await navigation.navigate('/two').finished; return 1 }")
    tab.evaluate("async () => { await navigation.navigate('/three', { history: 'replace' }).finished; return 1 }")
    tab.evaluate("async () => { history.pushState({}, '', '/four'); return 1 }")
    tab.evaluate("async () => { await navigation.back().finished; return 1 }")
    stage.counted("/one", "/two", "/three", "/four", "/three")


@pytest.mark.parametrize("query", ["?id={}", "?id={}&_=1763800000000", "?v=2&id={}"])
def test_attributes_that_were_stripped(stage: Stage, visit: Visit, query: str) -> None:
    """Tag managers and jQuery 4 keep a script's src alone; jQuery adds `_`, against caches."""
    src = f"{stage.stats}/tracker.js{query.format(stage.website)}"
    make = f"<script>document.head.append(Object.assign(document.createElement('script'), {{ src: '{src}' }}))</script>"
    page = visit()
    logged = warnings(page)
    page.goto(stage.put("/", tracker=make))
    stage.counted("/")
    assert logged == []
    assert page.evaluate(f"'{stage.website}' in tally")


def test_the_attribute_wins_and_a_part_is_found_beside_a_query(stage: Stage, visit: Visit) -> None:
    visit(stage.put("/", tracker=stage.script("data-links", src="/tracker.js?id=wrong&at=/a/b.js")))
    stage.counted("/")
    until(lambda: any(sent.path == "/tracker/links.js" for sent in stage.wire.sent))


def test_a_script_without_any_id(stage: Stage, visit: Visit) -> None:
    page = visit()
    logged = warnings(page)
    page.goto(stage.put("/", tracker=f'<script defer src="{stage.stats}/tracker.js"></script>'))
    wait_for_warning(page, logged)
    page.evaluate("tally.track('more')")
    until(lambda: len(stage.wire.posts) == 2)
    page.wait_for_function("() => Object.keys(localStorage).length == 0")
    assert logged == [f"Tally: 400 from {stage.stats}/api/collect; {HINT}"]
    page.wait_for_function("() => Object.keys(localStorage).length == 0")


COPIES = {
    "copied file": '<script defer src="/js/copy.js" {}></script>',
    "copied module": '<script type=module src="/js/copy.js" {}></script>',
    "inline": "<script {}>{source}</script>",
    "eval": "<script {}>(0, eval)(document.getElementById('text').textContent)</script>",
}


def put_copy(stage: Stage, kind: str, attributes: str) -> str:
    """Puts a page with a copy of the tracker on the website itself; its URL."""
    stage.pages.put("/js/copy.js", SOURCE, kind="text/javascript")
    text = f"<script type=text/plain id=text>{SOURCE}</script>" if kind == "eval" else ""
    own = f'data-website-id="{stage.website}" {attributes}'
    return stage.put("/", tracker=text + COPIES[kind].replace("{}", own, 1).replace("{source}", SOURCE))


@pytest.mark.parametrize("kind", COPIES)
def test_copies_work_with_the_servers_address(stage: Stage, visit: Visit, kind: str) -> None:
    page = visit()
    logged = warnings(page)
    page.goto(put_copy(stage, kind, f'data-api="{stage.stats}/api/collect"'))
    stage.counted("/")
    assert logged == []


@pytest.mark.parametrize("kind", COPIES)
def test_copies_without_it_say_so_once(stage: Stage, visit: Visit, kind: str) -> None:
    """They send to where they are; no event waits for what will never take it."""
    page = visit()
    logged = warnings(page)
    page.goto(put_copy(stage, kind, ""))
    wait_for_warning(page, logged)
    stage.pages.opened.clear()
    page.evaluate("tally.track('more')")
    until(lambda: len(stage.pages.opened) > 0)
    page.wait_for_function("() => Object.keys(localStorage).length == 0")
    folder = "/js" if "copied" in kind else ""
    assert logged == [f"Tally: 404 from {stage.origin}{folder}/api/collect; {HINT}"]


def test_code_that_is_evaluated_later_and_has_no_element(stage: Stage, visit: Visit) -> None:
    page = visit(stage.put("/", tracker=""))
    logged = warnings(page)
    page.evaluate("(text) => { setTimeout(text) }", SOURCE)
    wait_for_warning(page, logged)
    assert len(logged) == 1
    assert HINT in logged[0]


def test_a_copy_on_a_host_that_is_silent(stage: Stage, visit: Visit) -> None:
    """As where a network for static files answers without CORS, or not at all: the status cannot be seen."""
    stage.pages.put("/js/copy.js", SOURCE, kind="text/javascript")
    other = f"http://static.test:{stage.pages.port}"
    page = visit()
    logged = warnings(page)
    text = f'<script defer src="{other}/js/copy.js" data-website-id="{stage.website}"></script>'
    page.goto(stage.put("/", tracker=text))
    wait_for_warning(page, logged)
    assert logged == [f"Tally: no answer from {other}/js/api/collect; {HINT}"]


def test_a_page_that_may_not_send_is_told_once(stage: Stage, visit: Visit) -> None:
    stage.put("/")
    page = visit()
    logged = warnings(page)
    page.goto(f"http://localhost:{stage.pages.port}/")
    wait_for_warning(page, logged)
    page.evaluate("tally.track('more')")
    until(lambda: len(stage.wire.posts) == 2)
    page.wait_for_function("() => Object.keys(localStorage).length == 0")
    assert logged == [f"Tally: 403 from {stage.stats}/api/collect; {HINT}"]


@pytest.mark.parametrize("status", [429, 503])
def test_a_refusal_that_passes_is_no_warning(stage: Stage, visit: Visit, status: int) -> None:
    stage.wire.replies.append(Reply(status))
    page = visit()
    logged = warnings(page)
    page.goto(stage.put("/"))
    stage.posted(1)
    page.wait_for_function("() => Object.keys(localStorage).length > 0")
    assert logged == []


def test_a_page_of_an_app(stage: Stage, visit: Visit) -> None:
    """A web view's page is at capacitor://localhost, and some browsers give "null" as the origin of such addresses.

    No browser for tests opens such a page: the script sees this address in place of its page's.
    """
    page = """{ href: "capacitor://localhost/orders?x=1#y", protocol: "capacitor:", host: "localhost", origin: "null",
        hostname: "localhost", pathname: "/orders", search: "?x=1", hash: "#y" }"""
    own = f'data-website-id="{stage.website}" data-api="{stage.stats}/api/collect"'
    run = f"new Function('location', document.getElementById('text').textContent)({page})"
    text = f"<script type=text/plain id=text>{SOURCE}</script><script {own}>{run}</script>"
    visit(stage.put("/", tracker=text))
    assert [event["url"] for event in stage.posted(1)[0].events] == ["capacitor://localhost/orders?x=1"]
