"""One page has one name, whatever the spelling in which it is sent, imported and asked for.

The rule for paths is tested in tests/unit/events/test_paths.py; these tests check that everything that takes a page
follows it.
"""

from typing import Any

import pytest

from tests.support.app import App
from tests.support.page_client import PageClient, logged_in

PAGE = "/%D8%B3%D9%84%D8%A7%D9%85/~a"
SPELLINGS = (
    PAGE,
    "/%d8%b3%d9%84%d8%a7%d9%85/%7Ea",
    "/\u0633\u0644\u0627\u0645/~a",
    "/x/../\u0633%d9%84\u0627%D9%85/./%7e%61",
    "/\u0633\u0644\u0627\u0645\\~a",
)
HOST = "b\u00fccher.example"


class Own:
    """A website of the domain HOST, its owner's browser and its figures."""

    def __init__(self, app: App, browser: PageClient, website: str, key: str) -> None:
        self.app, self.browser, self.website, self.key = app, browser, website, key

    async def collect(self, *events: dict[str, Any]) -> None:
        answer = await self.app.collect({"website_id": self.website, "events": list(events)})
        assert answer.json == {"ok": True, "accepted": len(events), "rejected": 0}, answer.text

    async def report(self, report: str, **query: str) -> Any:
        answer = await self.app.get(f"/api/v1/websites/{self.website}/{report}", self.key, query)
        assert answer.status == 200, answer.text
        return answer.json

    async def pages(self) -> list[tuple[str, int]]:
        rows = (await self.report("top/pathname"))["data"]
        return [(row["value"], row["pageviews"]) for row in rows]

    async def account(self, method: str, path: str, body: Any = None) -> Any:
        answer = await self.browser(method, f"/api/account/websites/{self.website}/{path}", body)
        assert answer.status < 300, answer.text
        return answer.json["data"]


@pytest.fixture
async def own(app: App) -> Own:
    return Own(app, await logged_in(app), await app.website("xn--bcher-kva.example"), await app.key())


def view(path: str, **more: Any) -> dict[str, Any]:
    return {"type": "pageview", "url": f"https://{HOST}{path}", "session_id": "session-1"} | more


async def test_collected_spellings_are_one_page(own: Own) -> None:
    """Alone and in batches, with a query and without, as the name of a screen, and in all types."""
    await own.collect(*(view(path) for path in SPELLINGS))
    for path in SPELLINGS:
        await own.collect(view(f"{path}?utm_source=a#b"))
    await own.collect({"type": "screen_view", "name": "\u0633\u0644\u0627\u0645/~a", "session_id": "session-1"})
    assert await own.pages() == [(PAGE, 11)]
    metrics = [{"type": "vitals", "url": f"https://{HOST}{path}", "lcp": 1} for path in SPELLINGS]
    await own.collect(*metrics)
    rows = (await own.report("vitals", by="pathname"))["data"]
    assert [(row["value"], row["events"]) for row in rows] == [(PAGE, 5)]


async def test_other_formats_name_the_same_page(own: Own) -> None:
    """Plausible (also by its hash), Umami (a URL, a path) and GoatCounter (by its script, and for servers)."""
    for path in SPELLINGS:
        url = f"https://{HOST}{path}"
        await own.app.client.post("/api/event", json={"n": "pageview", "d": "xn--bcher-kva.example", "u": url})
        hashed = {"n": "pageview", "d": "xn--bcher-kva.example", "u": f"https://{HOST}/#{path}", "h": 1}
        await own.app.client.post("/api/event", json=hashed)
        for sent in (url, path.replace("\\", "/")):
            payload = {"website": own.website, "url": sent}
            await own.app.client.post("/api/send", json={"type": "event", "payload": payload})
        await own.app.client.get(f"/count/{own.website}", params={"p": path})
        hits = {"hits": [{"path": path}]}
        bearer = {"Authorization": f"Bearer {own.website}"}
        await own.app.client.post("/api/v0/count", json=hits, headers=bearer)
    assert await own.pages() == [(PAGE, 6 * len(SPELLINGS))]


async def test_a_hash_is_named_without_its_start(own: Own) -> None:
    """As data-hash of the tracker: `#!/test` and `#/test` are /test."""
    for start in ("/#!/", "/#/", "/#!", "/#", "#/", "/?q=1#!/"):
        url = f"https://{HOST}{start}test"
        await own.app.client.post("/api/event", json={"n": "pageview", "d": "xn--bcher-kva.example", "u": url, "h": 1})
    assert await own.pages() == [("/test", 6)]


async def test_values_of_filters(own: Own) -> None:
    """Whole values of pathname, entry_page and exit_page; `meta` has them as stored."""
    await own.collect(view(PAGE), view("/other", session_id="session-2"))
    for path in SPELLINGS:
        for field in ("pathname", "entry_page", "exit_page"):
            found = await own.report("stats", **{f"filter_{field}": path})
            assert (found["data"]["pageviews"], found["meta"]["filters"]) == (1, {field: [PAGE]})
            assert (await own.report("stats", **{f"filter_{field}!": path}))["data"]["pageviews"] == 1
        rows = (await own.report("events", filter_pathname=path))["data"]
        assert [row["pathname"] for row in rows] == [PAGE]


PARTS = (
    *(("pathname*", part) for part in ("\u0644\u0627", "%d9%84%d8%a7", "%D9%84", "/%7e", "\\~")),
    *(("pathname^", part) for part in ("/\u0633", "/%d8%b3", "/%D8", "\\%D8")),
    *(("pathname$", part) for part in ("\u0645/~a", "%d9%85/%7E%61", "%61")),
    *(("hostname", host) for host in ("B\u00dcCHER.example", "xn--bcher-kva.example")),
    *(("hostname^", host) for host in ("b\u00fccher.", "xn--")),
    *(("referrer", host) for host in ("stra\u00dfe.example", "xn--strae-oqa.example")),
    ("referrer*", "stra\u00dfe."),
)


async def test_parts_of_pages_and_hosts(own: Own) -> None:
    """A part that is not ASCII finds what is stored in ASCII."""
    await own.collect(view(PAGE, referrer="https://stra\u00dfe.example/"))
    await own.collect({"type": "screen_view", "name": "other", "session_id": "session-2"})
    for key, value in PARTS:
        found = await own.report("stats", **{f"filter_{key}": value})
        assert found["data"]["pageviews"] == 1, (key, value)


async def test_steps_and_heatmaps(own: Own) -> None:
    """Steps of funnels, the start of journeys and the page of a heatmap."""
    points = {"type": "heatmap", "url": f"https://{HOST}{PAGE}", "viewport_width": 1280, "x": 0.5, "y": 1}
    await own.collect(view("/"), view(PAGE), points)
    for path in SPELLINGS:
        steps = [("step", "pathname:/"), ("step", f"pathname:{path}")]
        funnel = (await own.app.get(f"/api/v1/websites/{own.website}/funnel", own.key, steps)).json["data"]
        assert [(row["value"], row["visits"]) for row in funnel] == [("/", 1), (PAGE, 1)]
        journeys = await own.report("journeys", start=f"pathname:{path}", direction="previous")
        assert (journeys["meta"]["start"], journeys["meta"]["visits"]) == (f"pathname:{PAGE}", 1)
        heatmap = await own.report("heatmap", pathname=path)
        assert (heatmap["meta"]["pathname"], heatmap["data"]["clicks"]) == (PAGE, 1)


async def test_what_owners_save(own: Own) -> None:
    """Goals, segments and fixed filters of a share link."""
    await own.collect(view(PAGE), view("/other", session_id="session-2"))
    link = await own.account("POST", "share-links", {"name": "Readers"})
    for n, spelling in enumerate(SPELLINGS):
        goal = {"name": f"Read {n}", "type": "page", "match": [f"filter_pathname={spelling}"]}
        id = (await own.account("POST", "goals", goal))["id"]
        assert (await own.report("stats", filter_goal=id))["data"]["pageviews"] == 1
        segment = {"name": f"Readers {n}", "filters": [f"filter_pathname={spelling}"]}
        id = (await own.account("POST", "segments", segment))["id"]
        assert (await own.report("stats", segment=id))["data"]["pageviews"] == 1
        await own.account("PATCH", f"share-links/{link['id']}", {"filters": [f"filter_entry_page={spelling}"]})
        shown = await own.app.get(f"/api{link['path']}/stats")
        assert shown.json["data"]["pageviews"] == 1


async def test_excluded_pages(own: Own) -> None:
    """Patterns are answered as they are compared, and can be sent again so."""
    others = ("/\u0633\u0644*", "*%d9%85/%7ea", "/*\u0627*/~a", "/%d8%b3%d9%84%d8%a7%d9%85/**")
    for pattern in (*SPELLINGS, *others):
        shown = (await own.account("PATCH", "exclusions", {"pages": [pattern]}))["pages"]
        assert (await own.account("PATCH", "exclusions", {"pages": shown}))["pages"] == shown
        for path in SPELLINGS:
            answer = await own.app.collect({"website_id": own.website, "events": [view(path), view("/other")]})
            assert [error["code"] for error in answer.json["errors"]] == ["excluded_page"], (pattern, path)


async def test_the_length_of_an_excluded_page(own: Own) -> None:
    """An escape counts as the character that it stands for: what is answered may be sent again."""
    shown = (await own.account("PATCH", "exclusions", {"pages": ["/" + "\u0633" * 499]}))["pages"]
    assert [entry["value"] for entry in shown] == ["/" + "%D8%B3" * 499]
    assert (await own.account("PATCH", "exclusions", {"pages": shown}))["pages"] == shown
