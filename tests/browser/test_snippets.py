"""Snippets of docs/snippets.md in pages: plain ones, and applications built with Vite, each with two pages.

What applications are built with is fetched by `npm ci` in tests/js (tests/browser/test_compat_packages.py).
"""

import json
import subprocess
from pathlib import Path

import pytest

from tests.browser.conftest import TrackedSite, Visit
from tests.browser.test_compat_packages import MODULES, package
from tests.support.app import ROOT

KNOWN = json.loads((ROOT / "static" / "shared" / "snippets.json").read_text())
REACT = """
import { createElement as h } from "react";
import { createRoot } from "react-dom/client";
import { BrowserRouter, Link, Route, Routes } from "react-router";
createRoot(document.getElementById("app")).render(h(BrowserRouter, null, h(Routes, null,
  h(Route, { path: "/", element: h(Link, { to: "/about" }, "About") }),
  h(Route, { path: "/about", element: h("h1", null, "About us") }))));
"""
VUE = """
import { createApp, h } from "vue";
import { createRouter, createWebHistory, RouterLink, RouterView } from "vue-router";
const routes = [
  { path: "/", component: { render: () => h(RouterLink, { to: "/about" }, () => "About") } },
  { path: "/about", component: { render: () => h("h1", "About us") } },
];
createApp(RouterView).use(createRouter({ history: createWebHistory(), routes })).mount("#app");
"""


def snippet(tracked: TrackedSite, name: str) -> str:
    """Return a snippet with the address and the website id of `tracked`."""
    [code] = [one["code"] for one in KNOWN["snippets"] if one["name"] == name]
    return str(code).replace(KNOWN["url"], tracked.stats).replace(KNOWN["website_id"], tracked.website)


@pytest.mark.parametrize("tracked", ["snippets.test"], indirect=True)
@pytest.mark.parametrize("name", ["HTML", "Google Tag Manager"])
def test_plain_pages(tracked: TrackedSite, visit: Visit, name: str) -> None:
    tracked.put("/about", "<h1>About us</h1>", tracker=snippet(tracked, name))
    page = visit(tracked.put("/", "<a href=/about>About</a>", tracker=snippet(tracked, name)))
    page.get_by_text("About").click()
    page.get_by_text("About us").wait_for()
    tracked.counted("/", "/about")


@pytest.mark.parametrize("tracked", ["snippets.test"], indirect=True)
@pytest.mark.parametrize(("name", "program"), [("React", REACT), ("Vue", VUE)])
def test_applications(tracked: TrackedSite, visit: Visit, tmp_path: Path, name: str, program: str) -> None:
    """The second page is opened without a request for it."""
    package("vite")
    (tmp_path / "node_modules").symlink_to(MODULES)
    (tmp_path / "main.js").write_text(program)
    (tmp_path / "index.html").write_text(
        f"<!doctype html><html lang=en><head><title>{name}</title>{snippet(tracked, name)}</head>"
        '<body><div id=app></div><script type="module" src="/main.js"></script></body></html>'
    )
    subprocess.run([MODULES / ".bin" / "vite", "build", "--logLevel", "warn"], cwd=tmp_path, check=True)
    built = tmp_path / "dist"
    for path in built.rglob("*.js"):
        tracked.pages.put(f"/{path.relative_to(built)}", path.read_text(), kind="text/javascript")
    tracked.pages.put("/", (built / "index.html").read_text())
    opened = len(tracked.pages.opened)
    page = visit(f"{tracked.origin}/")
    page.get_by_text("About").click()
    page.get_by_text("About us").wait_for()
    tracked.counted("/", "/about")
    assert "/about" not in tracked.pages.opened[opened:]
