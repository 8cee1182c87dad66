"""Rules of a website for the paths of events that arrive (docs/deleting-events.md)."""

from typing import Any

import pytest

from tests.support.app import NOON_MS, OWNER, App
from tests.support.page_client import PageClient, logged_in

RULES = [
    {"pattern": "*@*.*", "replacement": "*"},
    {"pattern": "/item/*", "replacement": "/item/*"},
]
CRAWLER = "Mozilla/5.0 (compatible; GPTBot/1.2; +https://openai.com/gptbot)"
PAGE = {"Origin": "https://example.com"}


async def changed(browser: PageClient, website: str, rules: Any) -> Any:
    """Set the rules of a website."""
    return await browser("PATCH", f"/api/account/websites/{website}", {"path_rules": rules})


def event(kind: str, path: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "url": f"https://example.com{path}?q=1", "timestamp": NOON_MS} | more


async def test_rules_apply_to_what_arrives(app: App) -> None:
    """To every type, each to the result of the one before it; the old paths are stored nowhere."""
    browser, website = await logged_in(app, OWNER), await app.website()
    answer = await changed(browser, website, RULES)
    assert (answer.status, answer.json["data"]["path_rules"]) == (200, RULES)
    points = [{"kind": "click", "x": 0.5, "y": 100}]
    events = [
        event("pageview", "/item/ann@example.com", title="Item"),
        event("event", "/item/2", event_name="buy"),
        event("vitals", "/item/3", vitals={"lcp": 100}),
        event("ab_assign", "/item/4", experiment="e", variant="v"),
        event("heatmap", "/item/5", points=points, viewport_width=800),
        event("pageview", "/user/ann%40example.com/orders"),
        event("pageview", "/other"),
    ]
    answer = await app.collect({"website_id": website, "events": events})
    assert answer.json["accepted"] == len(events), answer.text
    crawl = event("pageview", "/item/6")
    await app.collect({"website_id": website, "events": [crawl]}, ua=CRAWLER, headers=PAGE)
    texts = {text for (text,) in app.sql("select text from label")}
    assert {text for text in texts if text.startswith("/")} == {"/item/*", "/user/*/orders", "/other"}
    for table in ("event", "web_vitals", "experiment_event", "heatmap_point", "crawler_day", "page_title"):
        assert ("/item/*",) in app.sql(f"select text from {table} join label on label.id = pathname"), table
    entries = app.sql("select text from visit join label on label.id = entry_page")
    assert ("/item/*",) in entries
    assert (await changed(browser, website, [])).json["data"]["path_rules"] == []
    await app.collect({"website_id": website, "events": [event("pageview", "/item/7")]})
    assert ("/item/7",) in app.sql("select text from event join label on label.id = pathname")


async def test_excluded_pages_are_compared_with_the_old_path(app: App) -> None:
    """What was excluded before a rule stays excluded."""
    browser, website = await logged_in(app, OWNER), await app.website()
    await changed(browser, website, [{"pattern": "/item/**", "replacement": "/item"}])
    await browser("PATCH", f"/api/account/websites/{website}/exclusions", {"pages": ["/item/1"]})
    await app.collect({"website_id": website, "events": [event("pageview", "/item/1"), event("pageview", "/item/2")]})
    assert app.sql("select text from event join label on label.id = pathname") == [("/item",)]


@pytest.mark.parametrize(
    "rules",
    [
        "*",
        [RULES[0]] * 21,
        ["/a /b"],
        [{"pattern": "/a"}],
        [{"pattern": "/a", "replacement": "/b", "more": 1}],
        [{"pattern": "/a", "replacement": 1}],
        [{"pattern": "/a", "replacement": "b"}],
        [{"pattern": "*", "replacement": "b"}],
    ],
    ids=str,
)
async def test_invalid_rules_change_nothing(app: App, rules: Any) -> None:
    """400 with the field."""
    browser, website = await logged_in(app, OWNER), await app.website()
    await changed(browser, website, RULES)
    answer = await changed(browser, website, rules)
    assert (answer.status, answer.json["error"]["field"]) == (400, "path_rules")
    shown = await browser("GET", f"/api/account/websites/{website}")
    assert shown.json["data"]["path_rules"] == RULES


async def test_a_change_is_in_the_audit_log(app: App) -> None:
    """With the former and the new rules; other fields keep them."""
    browser, website = await logged_in(app, OWNER), await app.website()
    await changed(browser, website, RULES)
    await browser("PATCH", f"/api/account/websites/{website}", {"name": "Shop"})
    shown = await browser("GET", f"/api/account/websites/{website}")
    assert shown.json["data"]["path_rules"] == RULES
    details = [detail for (detail,) in app.sql("select detail from audit where action = 'website_changed'")]
    assert len(details) == 2
    assert "path_rules" in details[0]
    assert "path_rules" not in details[1]
