"""clients/js/browser.js in pages: it loads the real tracker, whose functions it calls."""

import json
import subprocess

import pytest

from tests.browser.conftest import TrackedSite, Visit
from tests.support.app import ROOT
from tests.support.process import until

MODULE = ROOT / "clients" / "js" / "browser.js"


@pytest.mark.parametrize("tracked", ["client.test"], indirect=True)
def test_the_tracker_is_loaded_once_and_called(tracked: TrackedSite, visit: Visit) -> None:
    """What is called before the tracker is there is sent after it; a single-page application needs nothing more."""
    tracked.pages.put("/browser.js", MODULE.read_text(), kind="text/javascript")
    page = visit(tracked.put("/start", tracker=""))
    variant = page.evaluate(
        "async ([url, websiteId]) => {"
        " const client = await import('/browser.js');"
        " client.track('early', { plan: 'pro' });"
        " const runs = [client.load({ url, websiteId, links: 'outbound' }), client.load({ url, websiteId })];"
        " const variant = await client.variant('button', ['green', 'blue']);"
        " client.convert('button', { goal: 'order', value: 49.9 });"
        " history.pushState(null, '', '/next');"
        " client.pageview();"
        " if (String(await Promise.all(runs)) !== 'true,true') throw new Error('it does not run');"
        " return variant; }",
        [tracked.stats, tracked.website],
    )
    tracked.counted("/start", "early", "ab_assign", "ab_convert", "/next", "/next")
    events = {event["event_name"] or event["type"]: event for event in tracked.events()}
    assert events["early"]["event_data"] == {"plan": "pro"}
    convert = events["ab_convert"]
    assert (convert["variant"], convert["goal"], convert["value"]) == (variant, "order", 49.9)
    [tag] = page.locator("script[data-website-id]").all()
    assert tag.get_attribute("data-links") == "outbound"
    until(
        lambda: (
            sorted(sent.path for sent in tracked.proxy.sent if "/tracker" in sent.path)
            == ["/tracker.js", "/tracker/leave.js", "/tracker/links.js"]
        )
    )


@pytest.mark.parametrize("tracked", ["client.test"], indirect=True)
def test_without_the_tracker_nothing_fails(tracked: TrackedSite, visit: Visit) -> None:
    """A blocker stops the script, or a server renders the page."""
    tracked.pages.put("/browser.js", MODULE.read_text(), kind="text/javascript")
    page = visit(tracked.put("/start", tracker=""))
    page.route("**/tracker.js", lambda route: route.abort())
    found = page.evaluate(
        "async ([url, websiteId]) => {"
        " const { load, track, variant } = await import('/browser.js');"
        " track('lost');"
        " return [await load({ url, websiteId }), await variant('button', ['green', 'blue'])]; }",
        [tracked.stats, tracked.website],
    )
    assert found == [False, "green"]
    script = (
        f"import {{ load, track, variant }} from {json.dumps(str(MODULE))}; track('lost');"
        "console.log(await load({ url: 'https://stats.example.com' }), await variant('button', ['green']))"
    )
    done = subprocess.run(["node", "--input-type=module", "-e", script], capture_output=True, text=True, check=True)
    assert done.stdout == "false green\n"
