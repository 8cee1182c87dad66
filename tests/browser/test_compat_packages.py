"""The published packages of Plausible and Umami against a real server, with only the host changed.

They are fetched by `npm ci` in tests/js. Without them the tests are skipped; with TALLY_MUST_PACKAGES, as in .ci/run,
they fail.
"""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.browser.conftest import TrackedSite, Visit
from tests.support.app import ROOT

MODULES = ROOT / "tests" / "js" / "node_modules"


def package(name: str) -> Path:
    """Return the directory of a package."""
    path = MODULES / name
    if not path.is_dir():
        assert not os.environ.get("TALLY_MUST_PACKAGES"), "run npm ci in tests/js"
        pytest.skip(f"NOT TESTED: {name} is not installed (npm ci in tests/js)")
    return path


def put_modules(tracked: TrackedSite, folder: Path) -> None:
    """Put the modules of a package below /module/, with the extension that imports of a browser need."""
    for path in folder.rglob("*.js"):
        text = re.sub(r"(from ')(\./[^']+?)(?:\.js)?(')", r"\1\2.js\3", path.read_text())
        tracked.pages.put(f"/module/{path.relative_to(folder)}", text, kind="text/javascript")


@pytest.mark.parametrize("tracked", ["package-one.test"], indirect=True)
def test_plausible_tracker(tracked: TrackedSite, visit: Visit) -> None:
    put_modules(tracked, package("plausible-tracker") / "build" / "module")
    page = visit(tracked.put("/start", tracker=""))
    page.evaluate(
        "async ([domain, apiHost]) => {"
        " const { default: Plausible } = await import('/module/index.js');"
        " window.tracker = Plausible({ domain, apiHost, trackLocalhost: true });"
        " await new Promise((callback) => tracker.trackPageview({}, { callback }));"
        " await new Promise((callback) => tracker.trackEvent('Signup', { callback, props: { plan: 'pro' } })); }",
        [tracked.domain, tracked.stats],
    )
    tracked.counted("/start", "Signup")
    assert tracked.events()[-1]["event_data"] == {"plan": "pro"}
    assert [(sent.path, sent.status) for sent in tracked.proxy.posts] == [("/api/event", 202)] * 2


@pytest.mark.parametrize("tracked", ["package-two.test"], indirect=True)
def test_plausibles_official_package(tracked: TrackedSite, visit: Visit) -> None:
    put_modules(tracked, package("@plausible-analytics/tracker"))
    page = visit()
    # The package sends nothing from a browser that a program drives.
    page.add_init_script("Object.defineProperty(Navigator.prototype, 'webdriver', { get: () => false })")
    page.goto(tracked.put("/start", tracker=""))
    page.evaluate(
        "async ([domain, endpoint]) => {"
        " window.tracker = await import('/module/plausible.js');"
        " tracker.init({ domain, endpoint });"
        " await new Promise((callback) => tracker.track('Signup', { callback, props: { plan: 'pro' } })); }",
        [tracked.domain, f"{tracked.stats}/api/event"],
    )
    tracked.counted("/start", "Signup")
    assert [event["event_data"] for event in tracked.events() if event["type"] == "event"] == [{"plan": "pro"}]
    assert {(sent.path, sent.status) for sent in tracked.proxy.posts} == {("/api/event", 202)}


def test_umami_node(tracked: TrackedSite) -> None:
    """It sends a path without a hostname: the page is one of the website's domain."""
    script = (
        "const { Umami } = require(process.argv[1]);"
        "const [websiteId, hostUrl] = process.argv.slice(2);"
        "const umami = new Umami({ websiteId, hostUrl });"
        "(async () => { const answers = [await umami.track({ url: '/home' }), await umami.track('signup', { a: 1 }),"
        " await umami.identify({ b: 2 })];"
        " for (const answer of answers) console.log(answer.status, JSON.stringify(await answer.json())); })()"
    )
    url = f"http://127.0.0.1:{tracked.proxy.port}"
    given = ["node", "-e", script, str(package("@umami/node")), tracked.website, url]
    printed = subprocess.run(given, capture_output=True, text=True, check=True).stdout.splitlines()
    nil = "00000000-0000-0000-0000-000000000000"
    assert printed == [f'200 {{"cache":"","sessionId":"{nil}","visitId":"{nil}"}}'] * 3
    tracked.counted("/home", "signup")
    [home] = [event for event in tracked.events() if event["type"] == "pageview"]
    assert home["hostname"] == tracked.domain
