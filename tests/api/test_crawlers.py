"""Requests of crawlers: what is counted, in which rows, the limit of rows, the report, and crawlers that count."""

from collections import Counter
from functools import partial
from typing import Any

import pytest

from tally.accounts.api_keys import Grant
from tally.api.crawlers import CRAWLER_COLUMNS
from tally.engine.ingest import Crawl
from tally.ingest import rejected_events
from tally.storage import crawler_days
from tally.storage.crawler_days import API, EVENT, KEPT_DAYS, MAX_PATH, MAX_ROWS, SOURCES
from tally.storage.labels import Labels
from tally.storage.value_limits import OTHER
from tally.timestamps import DAY_MS
from tests.support.app import CHROME, GOOGLEBOT, NOON_MS, Answer, App
from tests.support.cases import cases
from tests.support.page_client import PageClient, logged_in

GPTBOT = "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; GPTBot/1.2; +https://openai.com/gptbot)"
CHATGPT = "Mozilla/5.0 (compatible; ChatGPT-User/1.0; +https://openai.com/bot)"
UNLISTED = "Mozilla/5.0 (compatible; secretbot/1.0)"
PAGE = {"Origin": "https://example.com"}
TODAY = NOON_MS // DAY_MS


class Site:
    """A website, its key, and what crawlers and people send to it."""

    def __init__(self, app: App) -> None:
        self.app = app

    async def fill(self) -> None:
        self.owner, self.id, self.key = await logged_in(self.app), await self.app.website(), await self.app.key()
        self.path = f"/api/account/websites/{self.id}/exclusions"

    async def send(self, pathname: str, ua: str = CHROME, **more: Any) -> Answer:
        event = {"type": "pageview", "website_id": self.id, "url": f"https://example.com{pathname}"} | more
        answer = await self.app.collect(event, headers=PAGE, ua=ua)
        assert answer.status == 202, answer.text
        return answer

    async def report(self, query: str = "from=2020-01-01&to=2020-01-01", expect: int = 200) -> dict[str, Any]:
        query = query if "from" in query or "period" in query else f"period=30d&{query}"
        answer = await self.app.get(f"/api/v1/websites/{self.id}/crawlers?{query}", self.key)
        assert answer.status == expect, answer.text
        json: dict[str, Any] = answer.json
        return json["data"] if expect == 200 else json["error"]

    def rows(self) -> Counter[tuple[int, str, str, int]]:
        rows = self.app.sql(
            "select day, c.text, p.text, source, requests from crawler_day"
            " join label as c on c.id = crawler join label as p on p.id = pathname"
        )
        return Counter({tuple(row[:4]): row[4] for row in rows})


@pytest.fixture
async def site(app: App) -> Site:
    site = Site(app)
    await site.fill()
    return site


async def test_pages_of_crawlers_are_counted_when_they_are_answered(site: Site) -> None:
    """Each answered request is in the file; nothing of the client is."""
    for _ in range(2):
        await site.send("/a?secret=1", GPTBOT)
    await site.send("/b", GOOGLEBOT)
    await site.send("/b", UNLISTED)
    await site.send("/b")
    assert site.rows() == {
        (TODAY, "GPTBot", "/a", EVENT): 2,
        (TODAY, "Googlebot", "/b", EVENT): 1,
        (TODAY, "", "/b", EVENT): 1,
    }
    texts = {text for (text,) in site.app.sql("select text from label")}
    assert not any(part in text for text in texts for part in ("secretbot", "Mozilla", "openai.com", "secret="))
    assert site.app.sql("select count(*) from event") == [(1,)]


@cases(
    "event",
    [
        {"type": "event", "event_name": "signup"},
        {"type": "vitals", "vitals": {"lcp": 1}},
        {"type": "heatmap", "viewport_width": 1280, "x": 0.5, "y": 320},
        {"type": "leave", "event_id": "1", "time_on_page": 4},
    ],
)
async def test_only_pageviews_are_requests(site: Site, event: dict[str, Any]) -> None:
    await site.app.collect({"website_id": site.id, "url": "https://example.com/a"} | event, headers=PAGE, ua=GPTBOT)
    assert site.rows() == {}


async def test_faults_and_apps_are_no_requests(site: Site) -> None:
    """An event that breaks a rule counts as that, and one without web headers as a client's."""
    event = {"type": "pageview", "website_id": site.id, "url": "ftp://example.com/"}
    await site.app.collect(event, headers=PAGE, ua=GPTBOT)
    view = {"type": "screen_view", "name": "a", "session_id": "app-user-1", "website_id": site.id}
    await site.app.collect(view, ua=GPTBOT)
    assert site.rows() == {}


async def test_the_pixel_is_a_source_of_its_own(site: Site) -> None:
    headers = {"Referer": "https://example.com/p"}
    answer = await site.app.get(f"/pixel.gif?website_id={site.id}", headers=headers | {"User-Agent": GPTBOT})
    assert answer.status == 200
    assert site.rows() == {(TODAY, "GPTBot", "/p", SOURCES.index("pixel")): 1}


async def test_days_are_those_of_the_website(site: Site) -> None:
    """In website time, by the time of the request."""
    answer = await site.owner("PATCH", f"/api/account/websites/{site.id}", {"time_zone": "Pacific/Auckland"})
    assert answer.status == 200
    await site.send("/a", GPTBOT, timestamp=NOON_MS)
    await site.send("/a", GPTBOT, timestamp=NOON_MS - DAY_MS)
    assert site.rows() == {(TODAY + 1, "GPTBot", "/a", EVENT): 1, (TODAY, "GPTBot", "/a", EVENT): 1}
    # From then on days cannot begin at another time.
    answer = await site.owner("PATCH", f"/api/account/websites/{site.id}", {"time_zone": "UTC"})
    assert answer.status == 200
    assert site.app.sql("select day_offset_minutes from website") == [(720,)]


async def count(site: Site, counts: dict[tuple[str, str], int], day: int = TODAY) -> None:
    keys = Counter({(1, day, crawler, path, EVENT): requests for (crawler, path), requests in counts.items()})
    await site.app.node.database.write(partial(crawler_days.add_counts, labels=Labels(), counts=keys))


async def test_rows_of_a_day_are_bounded(site: Site) -> None:
    """Further pages are `(other)`, leave no label, and those that have a row go on counting."""
    await count(site, {("GPTBot", f"/{n}"): 1 for n in range(MAX_ROWS - 1)})
    labels = site.app.sql("select count(*) from label")
    await count(site, {("GPTBot", "/last"): 1, ("GPTBot", "/beyond"): 2, ("ClaudeBot", "/beyond"): 3})
    await count(site, {("GPTBot", "/0"): 5, ("GPTBot", "/more"): 1})
    rows = site.rows()
    assert rows[TODAY, "GPTBot", "/last", EVENT] == 1
    assert rows[TODAY, "GPTBot", OTHER, EVENT] == 3
    assert rows[TODAY, "ClaudeBot", OTHER, EVENT] == 3
    assert rows[TODAY, "GPTBot", "/0", EVENT] == 6
    assert len(rows) == MAX_ROWS + 2
    assert site.app.sql("select count(*) from label")[0][0] <= labels[0][0] + 3
    # Another day has its own limit.
    await count(site, {("GPTBot", "/beyond"): 1}, TODAY + 1)
    assert site.rows()[TODAY + 1, "GPTBot", "/beyond", EVENT] == 1


async def test_long_paths_are_other(site: Site) -> None:
    await site.send("/" + "a" * (MAX_PATH - 1), GPTBOT)
    await site.send("/" + "a" * MAX_PATH, GPTBOT)
    assert sorted(len(path) for _, _, path, _ in site.rows()) == [len(OTHER), MAX_PATH]


async def test_a_deleted_website_counts_nothing(site: Site) -> None:
    crawls = [Crawl(99, NOON_MS, "GPTBot", "/a", API)]
    await site.app.node.database.write(partial(crawler_days.add, labels=Labels(), crawls=crawls))
    assert site.rows() == {}


async def test_rows_expire_after_400_days(site: Site) -> None:
    for day in (TODAY - KEPT_DAYS - 2, TODAY - KEPT_DAYS - 1, TODAY - KEPT_DAYS, TODAY):
        await count(site, {("GPTBot", "/a"): 1}, day)
    for changed in ({1}, {1}, set()):
        step = partial(rejected_events.delete_expired, deletion_time_ms=NOON_MS)
        assert await site.app.node.database.write(step) == changed
    assert sorted(day for day, *_ in site.rows()) == [TODAY - KEPT_DAYS, TODAY]


# --- the report


async def test_the_report(site: Site) -> None:
    for path, ua, times in (("/a", GPTBOT, 3), ("/b", GPTBOT, 1), ("/a", CHATGPT, 2), ("/c", GOOGLEBOT, 1)):
        for _ in range(times):
            await site.send(path, ua)
    await count(site, {("GPTBot", "/a"): 7}, TODAY - 30)
    await count(site, {("ClaudeBot", "/a"): 4}, TODAY - 31)
    await site.send("/a", referrer="https://chatgpt.com/")
    await site.send("/b")
    report = await site.report("period=30d")
    assert (report["requests"], report["previous_requests"], report["assistant_visits"]) == (7, 11, 1)
    assert report["purposes"] == [
        {"purpose": "ai_training", "requests": 4, "previous_requests": 11},
        {"purpose": "ai_assistant", "requests": 2, "previous_requests": 0},
        {"purpose": "search", "requests": 1, "previous_requests": 0},
    ]
    assert [row["name"] for row in report["crawlers"]] == ["GPTBot", "ChatGPT-User", "Googlebot", "ClaudeBot"]
    gptbot = {"name": "GPTBot", "operator": "OpenAI", "purpose": "ai_training", "requests": 4, "previous_requests": 7}
    assert report["crawlers"][0] == gptbot | {"pages": 2, "last_day": report["days"][-1]["date"]}
    assert report["crawlers"][-1]["last_day"] is None
    assert len(report["days"]) == 30
    assert report["days"][-1] | {"date": ""} == {
        "date": "",
        "requests": 7,
        "purposes": {"ai_training": 4, "ai_assistant": 2, "search": 1},
    }
    purposes = {"ai_training": 3, "ai_assistant": 2}
    assert report["pages"] == [
        {"pathname": "/a", "requests": 5, "purposes": purposes, "assistant_visits": 1, "pageviews": 1},
        {"pathname": "/b", "requests": 1, "purposes": {"ai_training": 1}, "assistant_visits": 0, "pageviews": 1},
        {"pathname": "/c", "requests": 1, "purposes": {"search": 1}, "assistant_visits": 0, "pageviews": 0},
    ]
    assert report["sources"] == {"event": 7, "pixel": 0, "access_log": 0, "api": 0}


async def test_the_report_by_purpose_and_crawler(site: Site) -> None:
    for path, ua in (("/a", GPTBOT), ("/b", CHATGPT), ("/c", UNLISTED)):
        await site.send(path, ua)
    for query, pages in (
        ("purpose=ai_training", ["/a"]),
        ("crawler=ChatGPT-User", ["/b"]),
        ("crawler=", ["/c"]),
        ("purpose=other", ["/c"]),
        ("purpose=search", []),
        ("crawler=chatgpt-user", []),
        ("limit=1", ["/a"]),
    ):
        report = await site.report(query)
        assert [page["pathname"] for page in report["pages"]] == pages, query
        if "limit" not in query:
            assert report["requests"] == sum(day["requests"] for day in report["days"]) == len(pages)


async def test_the_report_as_csv(site: Site) -> None:
    await site.send("/a", GPTBOT)
    answer = await site.app.get(f"/api/v1/websites/{site.id}/crawlers?period=7d&format=csv", site.key)
    head, row = answer.text.split()
    assert head == ",".join(CRAWLER_COLUMNS)
    assert row.startswith("GPTBot,OpenAI,ai_training,1,0,1,")


@cases(
    ("query", "field"),
    [
        ("purpose=bots", "purpose"),
        ("crawler=" + "a" * 101, "crawler"),
        ("limit=0", "limit"),
        ("from=1970-01-01", "from"),
        ("filter_country=DE", "filter_country"),
    ],
)
async def test_wrong_parameters_are_refused(site: Site, query: str, field: str) -> None:
    assert (await site.report(query, expect=400))["field"] == field


async def test_an_answer_is_cached_until_a_crawler_comes(site: Site) -> None:
    path = f"/api/v1/websites/{site.id}/crawlers?period=7d"
    await site.send("/a", GPTBOT)
    tag = (await site.app.get(path, site.key)).headers["ETag"]
    assert (await site.app.get(path, site.key, headers={"If-None-Match": tag})).status == 304
    await site.send("/a", GPTBOT)
    assert (await site.app.get(path, site.key, headers={"If-None-Match": tag})).status == 200


# --- crawlers that count


async def test_crawlers_count_as_visitors_where_the_owner_wants_it(site: Site) -> None:
    answer = await site.owner("PATCH", site.path, {"crawlers": "count"})
    assert answer.json["data"]["crawlers"] == "count"
    assert (await site.send("/a", GPTBOT)).json == {"ok": True, "accepted": 1, "rejected": 0}
    await site.send("/a", UNLISTED)
    await site.send("/a")
    top = await site.app.get(f"/api/v1/websites/{site.id}/top/browser?period=7d", site.key)
    assert [row["value"] for row in top.json["data"]] == ["Chrome", "Crawler", "GPTBot"]
    assert site.rows().total() == 2, "they are in the report nevertheless"
    await site.owner("PATCH", site.path, {"crawlers": "reject"})
    assert (await site.send("/a", GPTBOT)).json["errors"][0]["code"] == "crawler"


@cases("value", ["all", True, 1, None, ["count"], ""])
async def test_other_values_are_refused(site: Site, value: Any) -> None:
    answer = await site.owner("PATCH", site.path, {"crawlers": value})
    assert (answer.status, answer.json["error"]["field"]) == (400, "crawlers")


# --- requests that are reported


@pytest.fixture
async def reporting(site: Site) -> Any:
    """Return a function that reports requests by a key with the scope import."""
    key = await site.app.key(grant=Grant(("import",)))

    async def report(body: Any) -> Answer:
        headers = {"Authorization": f"Bearer {key}"}
        return await PageClient(site.app)("POST", f"/api/v1/websites/{site.id}/crawls", body, headers)

    return report


async def test_requests_that_a_server_reports(site: Site, reporting: Any) -> None:
    """Those of listed crawlers for pages of the website are counted, all others ignored; no User-Agent is kept."""
    items = [
        {"user_agent": GPTBOT, "url": "https://example.com/a?secret=1"},
        {"user_agent": GPTBOT, "url": "https://www.example.com/a", "time": "2026-11-17T12:00:00Z"},
        {"user_agent": GPTBOT, "url": "https://example.org/a"},
        {"user_agent": CHROME, "url": "https://example.com/a"},
        {"user_agent": UNLISTED, "url": "https://example.com/a"},
    ]
    answer = await reporting({"crawls": items})
    assert (answer.status, answer.json["data"]) == (202, {"counted": 2, "ignored": 3})
    assert site.rows() == {(TODAY, "GPTBot", "/a", API): 1, (TODAY - 1, "GPTBot", "/a", API): 1}
    assert (await site.report("period=30d"))["sources"]["api"] == 2
    assert (await reporting({"crawls": items[3:]})).json["data"] == {"counted": 0, "ignored": 2}
    assert site.app.sql("select count(*) from event") == [(0,)]


GOOD = {"user_agent": GPTBOT, "url": "https://example.com/a"}


@cases(
    ("body", "field"),
    [
        ({"crawls": []}, "crawls"),
        ({"crawls": GOOD}, "crawls"),
        ({}, "crawls"),
        ({"crawls": [GOOD] * 51}, "crawls"),
        ({"crawls": [GOOD, "x"]}, "crawls[1]"),
        ({"crawls": [GOOD | {"ip": "203.0.113.7"}]}, "crawls[0]"),
        ({"crawls": [GOOD | {"url": "/a"}]}, "crawls[0]"),
        ({"crawls": [GOOD | {"url": 5}]}, "crawls[0]"),
        ({"crawls": [{"url": "https://example.com/a"}]}, "crawls[0]"),
        *(
            ({"crawls": [GOOD | {"time": time}]}, "crawls[0]")
            for time in ("yesterday", "2026-11-10T12:00:00Z", "2026-11-19T12:00:00Z", True, [], 10**20)
        ),
    ],
)
async def test_wrong_reports_count_nothing(site: Site, reporting: Any, body: Any, field: str) -> None:
    answer = await reporting(body)
    assert (answer.status, answer.json["error"]["field"]) == (400, field), body
    assert site.rows() == {}
