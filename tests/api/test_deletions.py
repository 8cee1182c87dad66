"""Deletion of events by filter over HTTP: preview, deletion, progress, stop (docs/deleting-events.md)."""

import asyncio
from typing import Any

import pytest

from tally.storage.disk_space import DiskSpace
from tally.transfer import event_deletion
from tests.support.app import NOON_MS, OWNER, App
from tests.support.page_client import PageClient, logged_in

DAY_MS = 86_400_000
RANGE = {"from": "2026-11-01", "to": "2026-11-18"}
GPTBOT = "Mozilla/5.0 (compatible; GPTBot/1.2; +https://openai.com/gptbot)"


class Site:
    """A website with events, of a signed-in owner."""

    def __init__(self, app: App, browser: PageClient, id: str) -> None:
        self.app, self.browser, self.id = app, browser, id
        self.path = f"/api/account/websites/{id}/deletions"

    async def send(self, path: str, count: int, day: int = 0) -> None:
        event = {"type": "pageview", "url": f"https://example.com{path}", "timestamp": NOON_MS - day * DAY_MS}
        for n in range(count):
            own = event | {"session_id": f"session {path} {n}"}
            answer = await self.app.collect({"website_id": self.id, "events": [own]})
            assert answer.json["accepted"] == 1, answer.text

    async def preview(self, *filters: str, **more: Any) -> Any:
        return await self.browser("POST", f"{self.path}/preview", RANGE | {"filters": list(filters)} | more)

    async def delete(self, preview: Any, **more: Any) -> Any:
        sent = {"preview": preview["id"], "events": preview["events"]} | more
        return await self.browser("POST", self.path, sent)

    async def state(self) -> Any:
        return (await self.browser("GET", self.path)).json["data"]

    async def end(self) -> Any:
        """Return the newest deletion once it has ended."""
        while (found := (await self.state())[0])["state"] == "running":
            await asyncio.sleep(0.02)
        return found

    async def pageviews(self) -> dict[str, int]:
        answer = await self.browser(
            "GET", f"/api/account/websites/{self.id}/top/pathname?from=2026-11-01&to=2026-11-18"
        )
        return {row["value"]: row["pageviews"] for row in answer.json["data"]}


@pytest.fixture
async def site(app: App) -> Site:
    site = Site(app, await logged_in(app, OWNER), await app.website())
    await site.send("/a", 3)
    await site.send("/a", 2, 1)
    await site.send("/b", 4)
    return site


async def test_events_are_previewed_and_deleted(site: Site) -> None:
    """Another number of events than was previewed is refused."""
    preview = (await site.preview("filter_pathname=/a")).json["data"]
    assert preview["events"] == 5
    assert (preview["visits_gone"], preview["visits_changed"], preview["days"]) == (5, 0, 2)
    assert preview["samples"] == {"pathname": ["/a"]}
    assert (preview["not_covered"], preview["backups"], preview["imported_sums_days"]) == ([], [], 0)
    answer = await site.delete(preview, events=4)
    assert (answer.status, answer.json["error"]["code"], answer.json["events"]) == (409, "preview_outdated", 5)
    await site.send("/a", 6)
    answer = await site.delete(preview)
    assert (answer.status, answer.json["error"]["code"], answer.json["events"]) == (409, "preview_outdated", 11)
    answer = await site.delete(preview, events=11)
    assert answer.status == 202, answer.text
    found = await site.end()
    assert (found["state"], found["events"], found["changed"]) == ("done", 11, 11)
    assert (found["from"], found["filters"]) == ("2026-11-01T00:00:00.000+00:00", ["filter_pathname=/a"])
    assert await site.pageviews() == {"/b": 4}
    await site.send("/a", 1)
    assert await site.pageviews() == {"/a": 1, "/b": 4}
    assert site.app.sql("select sum(pageviews) from visit") == [(5,)], "the visitor in memory has lost its events"
    lines = site.app.sql("select action, detail from audit where action = 'events_deleted'")
    assert len(lines) == 1
    assert "filter_pathname=/a" in lines[0][1]


class Rewrites:
    """The paths of a website for rewriting."""

    def __init__(self, site: Site) -> None:
        self.site, self.path = site, site.path.replace("/deletions", "/rewrites")

    async def preview(self, pattern: str, replacement: str, **more: Any) -> Any:
        sent = RANGE | {"pattern": pattern, "replacement": replacement} | more
        return await self.site.browser("POST", f"{self.path}/preview", sent)

    async def begin(self, preview: Any) -> Any:
        return await self.site.browser("POST", self.path, {"preview": preview["id"], "events": preview["events"]})


async def test_paths_are_previewed_and_rewritten(site: Site) -> None:
    """The visitor in memory has the new page; the old texts are deleted a minute later, and the rule with them."""
    rewrites = Rewrites(site)
    await site.send("/item/1", 2)
    await site.send("/item/2", 1)
    await site.send("/user/ann@example.com/orders", 1)
    preview = (await rewrites.preview("/item/*", "/item/*")).json["data"]
    assert (preview["events"], preview["paths"], preview["days"]) == (3, 2, 1)
    assert preview["samples"] == [{"old": "/item/1", "new": "/item/*"}, {"old": "/item/2", "new": "/item/*"}]
    assert (preview["not_covered"], preview["backups"]) == ([], [])
    assert (preview["pattern"], preview["replacement"]) == ("/item/*", "/item/*")
    # A preview is of one kind.
    assert (await site.delete(preview)).json["error"]["code"] == "preview_outdated"
    answer = await rewrites.begin(preview)
    assert answer.status == 202, answer.text
    record = await site.end()
    assert (record["kind"], record["state"], record["events"], record["changed"]) == ("rewrite", "done", 3, 3)
    assert (record["rule"], record["filters"]) == ({"pattern": "/item/*", "replacement": "/item/*"}, [])
    pages = {"/a": 5, "/b": 4, "/item/*": 3}
    assert await site.pageviews() == pages | {"/user/ann@example.com/orders": 1}
    answer = await rewrites.begin((await rewrites.preview("*@*.*", "*")).json["data"])
    assert answer.status == 202
    await site.end()
    assert await site.pageviews() == pages | {"/user/*/orders": 1}
    # Of the session whose page is in memory: its next event ends the visit on another page.
    assert site.app.sql(
        "select text from visit join label on label.id = exit_page where text like '/%*%' group by text"
    ) == [("/item/*",), ("/user/*/orders",)]
    lines = site.app.sql("select detail from audit where action = 'paths_rewritten' order by number")
    assert len(lines) == 2
    assert '"pattern":"/item/*"' in lines[0][0].replace('": "', '":"')
    await site.app.background_work.stop()
    site.app.clock.advance(61)
    await site.app.background_work.deletion_worker.work()
    assert site.app.sql("select text from label where text like '/item/%' or text like '%@%'") == [("/item/*",)]
    assert site.app.sql("select distinct has_texts, rule from deletion") == [(0, "[]")]
    assert (await site.state())[0]["rule"] is None


async def test_pages_that_only_crawlers_and_heatmaps_have_are_rewritten(site: Site) -> None:
    rewrites, page = Rewrites(site), "https://example.com/user/ann@example.com"
    crawled = {"website_id": site.id, "type": "pageview", "url": page}
    await site.app.collect(crawled, headers={"Origin": "https://example.com"}, ua=GPTBOT)
    points = {"website_id": site.id, "type": "heatmap", "url": f"{page}/map", "viewport_width": 1280}
    answer = await site.app.collect(points | {"points": [{"x": 0.5, "y": 100, "kind": "click"}]})
    assert answer.status == 202, answer.text
    # Of a part of a day they are not covered.
    part = (await rewrites.preview("*@*.*", "*", **{"to": "2026-11-18T23:00:00Z"})).json["data"]
    assert (part["events"], part["paths"], part["not_covered"]) == (0, 0, ["heatmaps", "crawlers"])
    preview = (await rewrites.preview("*@*.*", "*")).json["data"]
    assert (preview["events"], preview["paths"], preview["not_covered"]) == (0, 2, [])
    assert {"old": "/user/ann@example.com", "new": "/user/*"} in preview["samples"]
    assert (await rewrites.begin(preview)).status == 202
    assert (await site.end())["state"] == "done"
    pages = "select text from {} join label on label.id = pathname"
    assert site.app.sql(pages.format("crawler_day")) == [("/user/*",)]
    (row,) = (await site.browser("GET", site.path.replace("/deletions", "/heatmap-pages"))).json["data"]
    assert row["value"] == "/user/*/map"


async def test_a_deletion_waits_for_free_space(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its days get rows beside their columns."""
    full = DiskSpace(1_000_000, 4_000_000, 0, 100_000_000)
    removal = site.app.background_work.removal
    monkeypatch.setattr(removal, "_space", lambda: full)
    await site.delete((await site.preview("filter_pathname=/a")).json["data"])
    assert not any([await turn.step() for turn in await removal.turns()])
    assert (await site.state())[0]["changed"] == 0
    monkeypatch.undo()
    assert (await site.end())["changed"] == 5


async def test_a_rewriting_is_stopped(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """While it runs, neither a deletion nor another one begins; what has the new path keeps it."""
    monkeypatch.setattr(event_deletion, "_ROWS", 1)
    await site.app.background_work.stop()
    rewrites = Rewrites(site)
    preview = (await rewrites.preview("/a", "/c")).json["data"]
    assert (await rewrites.begin(preview)).status == 202
    assert (await rewrites.begin(preview)).json["error"]["code"] == "deletion_running"
    assert (await site.delete((await site.preview("filter_pathname=/b")).json["data"])).status == 409
    (turn,) = await site.app.background_work.removal.turns()
    await turn.step()
    answer = await site.browser("DELETE", f"{site.path}/1")
    assert (answer.status, answer.json["data"][0]["state"]) == (200, "stopped")
    changed = answer.json["data"][0]["changed"]
    assert 0 < changed < 5
    assert await site.pageviews() == {"/a": 5 - changed, "/b": 4, "/c": changed}
    assert site.app.sql("select action from audit order by number desc limit 1") == [("rewriting_stopped",)]


@pytest.mark.parametrize(
    ("pattern", "replacement", "field"),
    [
        ("", "/a", "pattern"),
        ("/a", "", "replacement"),
        ("/a", "b", "replacement"),
        ("a", "/b", "pattern"),
        ("*", "x", "pattern"),
        ("/a?b", "/a", "pattern"),
        ("/a", "/a#b", "replacement"),
        ("/**/a", "/a", "pattern"),
        ("/" + "a" * 500, "/a", "pattern"),
        ("/a", 1, "replacement"),
    ],
    ids=str,
)
async def test_an_invalid_rule_names_its_field(site: Site, pattern: str, replacement: Any, field: str) -> None:
    """400 with the field at fault."""
    answer = await Rewrites(site).preview(pattern, replacement)
    assert (answer.status, answer.json["error"]["code"], answer.json["error"]["field"]) == (400, "invalid_field", field)


async def test_a_preview_belongs_to_one_website_and_is_the_newest(site: Site) -> None:
    """After a restart, and after another preview of the website, an id is unknown."""
    first = (await site.preview("filter_pathname=/b")).json["data"]
    second = (await site.preview("filter_pathname=/b")).json["data"]
    assert first["events"] == second["events"] == 4
    assert (await site.delete(first)).json["error"]["code"] == "preview_outdated"
    other = await site.app.website("other.example")
    answer = await site.browser(
        "POST", f"/api/account/websites/{other}/deletions", {"preview": second["id"], "events": 4}
    )
    assert answer.json["error"]["code"] == "preview_outdated"
    assert site.app.sql("select count(*) from deletion") == [(0,)]


async def test_a_deletion_continues_after_a_restart_and_can_be_stopped(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One deletion at a time a website; what is deleted before it is stopped stays deleted."""
    monkeypatch.setattr(event_deletion, "_ROWS", 1)
    await site.app.background_work.stop()
    preview = (await site.preview("filter_pathname=/b")).json["data"]
    assert (await site.delete(preview)).status == 202
    assert (await site.delete(preview)).json["error"]["code"] == "deletion_running"
    removal = site.app.background_work.removal
    for _ in range(2):
        (turn,) = await removal.turns()
        await turn.step()
    assert (await site.state())[0]["changed"] < 4
    await site.app.restart()
    found = await site.end()
    assert (found["state"], found["changed"]) == ("done", 4)
    assert await site.pageviews() == {"/a": 5}
    await site.app.background_work.stop()
    preview = (await site.preview("filter_pathname=/a")).json["data"]
    await site.delete(preview)
    (turn,) = await site.app.background_work.removal.turns()
    await turn.step()
    answer = await site.browser("DELETE", f"{site.path}/2")
    assert (answer.status, answer.json["data"][0]["state"]) == (200, "stopped")
    assert await site.app.background_work.removal.turns() == []
    left = 5 - answer.json["data"][0]["changed"]
    assert sum((await site.pageviews()).values()) == left
    assert 0 < left < 5
    assert (await site.browser("DELETE", f"{site.path}/3")).json["error"]["code"] == "unknown_deletion"
    assert (await site.browser("DELETE", f"{site.path}/x")).json["error"]["code"] == "unknown_deletion"


async def test_the_usage_of_the_month_is_given_back(app: App) -> None:
    """Of accounts with a monthly limit: docs/reference/limits.md."""
    site = Site(app, await logged_in(app, OWNER, plan="free"), await app.website(plan="free"))
    await site.send("/a", 3)
    await site.send("/b", 2)
    assert app.sql("select events from website_usage") == [(5,)]
    await site.delete((await site.preview("filter_pathname=/a")).json["data"])
    await site.end()
    assert app.sql("select events from website_usage") == [(2,)]
    assert app.sql("select sum(events) from account_usage") == [(2,)]


@pytest.mark.parametrize(
    ("sent", "field"),
    [
        ({"from": "2026-11-01"}, "to"),
        ({"from": "soon", "to": "2026-11-18"}, "from"),
        ({"from": "2026-11-18", "to": "2026-11-01"}, "from"),
        (RANGE | {"tz": "Mars/Base"}, "tz"),
        (RANGE | {"filters": "filter_pathname=/a"}, "filters"),
        (RANGE | {"filters": ["pathname=/a"]}, "filters"),
        (RANGE | {"filters": ["filter_pathname=/a"] * 21}, "filters"),
        (RANGE | {"types": []}, "types"),
        (RANGE | {"types": ["click"]}, "types"),
        (RANGE | {"samples": 3}, "samples"),
    ],
    ids=str,
)
async def test_what_is_invalid_is_named(site: Site, sent: dict[str, Any], field: str) -> None:
    """400 with the field at fault."""
    answer = await site.browser("POST", f"{site.path}/preview", sent)
    assert (answer.status, answer.json["error"]["code"], answer.json["error"]["field"]) == (400, "invalid_field", field)


async def test_types_are_a_filter(site: Site) -> None:
    """`types` is short for a filter by type."""
    assert (await site.preview(types=["pageview"])).json["data"]["events"] == 9
    assert (await site.preview(types=["event"])).json["data"]["events"] == 0


async def test_texts_of_deleted_events_are_deleted(site: Site) -> None:
    """A minute later, where no other event has them; a value that is sent again is known again, also to filters."""
    await site.send("/ann@example.com", 2)
    await site.delete((await site.preview("filter_pathname=/ann@example.com")).json["data"])
    await site.end()
    stored = "select count(*) from label where text like '%ann@%'"
    assert site.app.sql(stored) == [(1,)]
    await site.app.background_work.stop()
    site.app.clock.advance(61)
    await site.app.background_work.deletion_worker.work()
    assert site.app.sql(stored) == [(0,)]
    assert site.app.sql("select has_texts, filters, rule from deletion") == [(0, "[]", "[]")]
    assert await site.app.background_work.deletion_worker.turns() == []
    assert await site.pageviews() == {"/a": 5, "/b": 4}
    await site.send("/ann@example.com", 1)
    await site.send("/a", 1)
    found = (await site.preview("filter_pathname*=@example")).json["data"]
    assert (found["events"], found["samples"]) == (1, {"pathname": ["/ann@example.com"]})
    assert (await site.preview("filter_pathname^=/a")).json["data"]["events"] == 7
