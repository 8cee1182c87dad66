"""Accessibility checks with axe-core."""

from collections.abc import Sequence
from typing import Any

from axe_playwright_python.sync_playwright import Axe

# The rules that depend on colors.
COLORS = ("color-contrast", "link-in-text-block")


def violations(page: Any, *, target_size: bool = True, only: Sequence[str] = ()) -> list[str]:
    """Return the violations that axe-core finds on the page, and whether the page scrolls sideways.

    `only`: the rules to check. Otherwise all that axe-core enables by default, and `target_size` of WCAG 2.2 AA, which
    is wrong about links that a menu covers and a link whose ::after covers a card: pages with these omit it.
    """
    options = {"runOnly": list(only)} if only else {"rules": {"target-size": {"enabled": target_size}}}
    if page.evaluate("typeof axe") == "undefined":
        page.evaluate(Axe().axe_script)
    # Of other results axe would describe each element: a sixth of the processor time.
    found = [
        f"{page.url} {one['id']}: {node['html'][:200]} {node['failureSummary']}"
        for one in page.evaluate(
            "async (options) => (await axe.run(options)).violations", options | {"resultTypes": ["violations"]}
        )
        for node in one["nodes"]
    ]
    if page.evaluate("document.scrollingElement.scrollWidth > innerWidth"):
        found.append(f"{page.url} scrolls sideways")
    return found


def violations_in_each_scheme(page: Any, *, target_size: bool = True) -> list[str]:
    """Return the violations in the light and, of colors, in the dark scheme; without motion colors change at once."""
    found = []
    for scheme, only in (("light", ()), ("dark", COLORS)):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        found += [f"{scheme}: {violation}" for violation in violations(page, target_size=target_size, only=only)]
    return found
