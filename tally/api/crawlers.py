"""The report of crawlers: who reads a website, by crawler, purpose, day and page, and who comes from AI assistants.

Requests are counted by days of the website (tally/storage/crawler_days.py), so a day of another time zone is that date
of the website. Operators and purposes come from the list of crawlers; a crawler is what its User-Agent names, which
anyone can send. Beside the pages stand figures of people, from events: visits that begin there from an AI assistant,
and pageviews; null where the events are no longer kept.

`take_crawls` counts requests that a server, an edge worker or a plugin has seen. A User-Agent is compared with the list
and dropped; what the list does not have is ignored.
"""

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import Any, NamedTuple

from aiohttp import web

from tally.api import params
from tally.api.auth import AUTH, invalid
from tally.api.context import Answer, ReadApi, ReportRequest
from tally.api.traffic import buckets_of
from tally.engine.ingest import Crawl, WriteRequest
from tally.engine.values import BeyondRetention, Scope, TopQuery
from tally.events.channels import AI_ASSISTANTS
from tally.events.crawlers import PURPOSES, UNLISTED, Crawler
from tally.events.filters import Filter
from tally.events.path_rules import rewritten
from tally.events.urls import BadUrl, belongs_to, parse_page_url
from tally.events.user_agent import crawler_name
from tally.events.validation import AHEAD_MS, OLDEST_MS
from tally.events.website import Website
from tally.http.responses import json_response
from tally.ingest.collector import COLLECTOR
from tally.storage import crawler_days
from tally.storage.crawler_days import API, SOURCES, Crawls
from tally.timeranges import Range
from tally.timestamps import BadTime, event_time_ms

CRAWLER_COLUMNS = ("crawler", "operator", "purpose", "requests", "previous_requests", "pages", "last_day")
MAX_NAME = 100
_EPOCH = date(1970, 1, 1).toordinal()
_FROM_ASSISTANTS = Filter("channel", "=", (AI_ASSISTANTS,))


@dataclass(frozen=True, slots=True)
class CrawlersParameters:
    """Of the requests of crawlers, which are counted by days. `crawler`: a name of the list, "" for those without."""

    range: Range = params.day_range()
    purpose: str = params.choice("purpose", PURPOSES)
    crawler: str | None = params.optional_text("crawler", MAX_NAME)
    limit: int = params.limit(20)


MAX_CRAWLS = 50
_CRAWL_FIELDS = frozenset(("user_agent", "url", "time"))


async def take_crawls(request: web.Request) -> web.Response:
    """POST .../crawls: count the pages that listed crawlers requested; 202 once they are durable."""
    auth, collector = request.app[AUTH], request.app[COLLECTOR]
    session, sent = await auth.session_and_body(request, ("crawls",))
    website = await auth.website(request, session, "configure")
    items = sent.get("crawls")
    if not isinstance(items, list) or not 1 <= len(items) <= MAX_CRAWLS:
        raise invalid("crawls", f"crawls must be a list of 1 to {MAX_CRAWLS} requests.")
    now_ms = collector.clock.wall_ms()
    found = [_crawl(website, item, f"crawls[{place}]", now_ms) for place, item in enumerate(items)]
    crawls = [crawl for crawl in found if crawl is not None]
    if crawls:
        written: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        write = WriteRequest((), now_ms, crawls=crawls)
        collector.ingest.append(write, lambda outcome: None if written.done() else written.set_result(outcome))
        outcome = await written
        if isinstance(outcome, Exception):
            raise outcome
    return json_response({"data": {"counted": len(crawls), "ignored": len(found) - len(crawls)}}, 202)


def _crawl(website: Website, item: Any, place: str, now_ms: int) -> Crawl | None:
    """Return the request of an item; None where its crawler is not listed or the page is of another website.

    Raises ApiError 400.
    """
    if not isinstance(item, dict) or item.keys() - _CRAWL_FIELDS:
        raise invalid(place, f"{place} must be an object with user_agent, url and, optionally, time.")
    agent, url = item.get("user_agent"), item.get("url")
    if not isinstance(agent, str) or not isinstance(url, str):
        raise invalid(place, f"{place}: user_agent and url must be texts.")
    try:
        page = parse_page_url(url)
        ms = now_ms if item.get("time") is None else event_time_ms(item["time"])
    except BadUrl:
        raise invalid(place, f"{place}: url must be that of a page, such as https://example.com/pricing.") from None
    except (BadTime, TypeError, ValueError):
        raise invalid(place, f"{place}: time must be ISO 8601 or milliseconds since 1970.") from None
    if not now_ms - OLDEST_MS <= ms <= now_ms + AHEAD_MS:
        raise invalid(place, f"{place}: time must be of the last 72 hours.")
    name = crawler_name(agent)
    if not name or not belongs_to(page.host, website.domain):
        return None
    return Crawl(website.number, ms, name, rewritten(website.path_rules, page.path), API)


class People(NamedTuple):
    """Figures of people: visits from AI assistants, these by first page, and pageviews by page."""

    visits: int
    entries: Mapping[str, int]
    pageviews: Mapping[str, int]


async def crawlers(api: ReadApi, request: ReportRequest[CrawlersParameters]) -> Answer:
    """Return the crawlers with the most requests first, the days in order, and the first pages."""
    own = request.parameters
    dates = [bucket.time[:10] for bucket in buckets_of(own.range, "day", field="from")]
    first, end = _day(dates[0]), _day(dates[-1]) + 1
    days, before = range(first, end), range(2 * first - end, first)

    def is_chosen(name: str, of: Crawler) -> bool:
        return own.purpose in ("", of.purpose) and own.crawler in (None, name)

    read = partial(
        crawler_days.read,
        website=request.website.number,
        days=days,
        before=before,
        is_chosen=is_chosen,
        limit=own.limit,
    )
    found = await api.node.database.read(read, request.requester.is_gone, request.requester.claim)
    people = await _people(api, request, list(dict.fromkeys(page.pathname for page in found.pages)))
    listed = _crawlers(found, days)
    data = {
        "requests": sum(row["requests"] for row in listed),
        "previous_requests": sum(row["previous_requests"] for row in listed),
        "assistant_visits": None if people is None else people.visits,
        "purposes": _purposes(listed),
        "crawlers": listed,
        "days": _days(found, dates),
        "pages": _pages(found, people),
        "sources": _sources(found, days),
    }
    rows = ((row["name"], *list(row.values())[1:]) for row in listed)
    return Answer(request.meta() | {"limit": own.limit}, rows, data)


def _day(text: str) -> int:
    """Return the number of a date, in days since 1970."""
    return date.fromisoformat(text).toordinal() - _EPOCH


def _date(day: int) -> str:
    return date.fromordinal(_EPOCH + day).isoformat()


async def _people(api: ReadApi, request: ReportRequest[CrawlersParameters], pages: Collection[str]) -> People | None:
    """Return the figures of people; None where their events are no longer kept."""
    span = request.parameters.range
    scope = Scope(request.website.number, span.from_ms, span.to_ms, request.view.filters)
    assistants = scope._replace(filters=(*scope.filters, _FROM_ASSISTANTS))
    try:
        (all_visits,) = await api.reports.stats([assistants], request.requester)
        entries = await _figures(api, request, assistants, "entry_page", pages)
        views = await _figures(api, request, scope, "pathname", pages)
    except BeyondRetention:
        return None
    return People(
        all_visits.visits,
        {page: row.visits for page, row in entries.items()},
        {page: row.pageviews for page, row in views.items()},
    )


async def _figures(
    api: ReadApi, request: ReportRequest[CrawlersParameters], scope: Scope, field: str, pages: Collection[str]
) -> dict[str, Any]:
    """Return the key figures of each page that has any, by a field."""
    if not pages:
        return {}
    within = scope._replace(filters=(*scope.filters, Filter(field, "=", tuple(pages))))
    query = TopQuery(field, len(pages), has_visits=True)
    (top,) = await api.reports.top(within, [query], request.requester)
    return {row.value: row.figures for row in (top.unset, *top.rows)}


def _crawlers(found: Crawls, days: range) -> list[dict[str, Any]]:
    requests, previous, last = Counter[str](), Counter[str](), dict[str, int]()
    for row in found.days:
        if row.day in days:
            requests[row.crawler] += row.requests
            last[row.crawler] = row.day
        else:
            previous[row.crawler] += row.requests
    names = sorted({*requests, *previous}, key=lambda name: (-requests[name], -previous[name], name))
    return [
        {
            "name": name,
            "operator": found.crawlers.get(name, UNLISTED).operator,
            "purpose": found.crawlers.get(name, UNLISTED).purpose,
            "requests": requests[name],
            "previous_requests": previous[name],
            "pages": found.pages_of.get(name, 0),
            "last_day": _date(last[name]) if name in last else None,
        }
        for name in names
    ]


def _purposes(listed: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    requests, previous = Counter[str](), Counter[str]()
    for row in listed:
        requests[row["purpose"]] += row["requests"]
        previous[row["purpose"]] += row["previous_requests"]
    return [
        {"purpose": one, "requests": requests[one], "previous_requests": previous[one]}
        for one in PURPOSES
        if one in requests
    ]


def _days(found: Crawls, dates: Sequence[str]) -> list[dict[str, Any]]:
    by_date: dict[str, Counter[str]] = {}
    for row in found.days:
        by_date.setdefault(_date(row.day), Counter())[found.crawlers[row.crawler].purpose] += row.requests
    purposes = [(one, by_date.get(one, Counter[str]())) for one in dates]
    return [{"date": one, "requests": of.total(), "purposes": dict(of)} for one, of in purposes]


def _pages(found: Crawls, people: People | None) -> list[dict[str, Any]]:
    by_page: dict[str, Counter[str]] = {}
    for row in found.pages:
        by_page.setdefault(row.pathname, Counter())[found.crawlers[row.crawler].purpose] += row.requests
    return [
        {
            "pathname": page,
            "requests": purposes.total(),
            "purposes": dict(purposes),
            "assistant_visits": None if people is None else people.entries.get(page, 0),
            "pageviews": None if people is None else people.pageviews.get(page, 0),
        }
        for page, purposes in by_page.items()
    ]


def _sources(found: Crawls, days: range) -> dict[str, int]:
    sums = Counter[int]()
    for row in found.days:
        if row.day in days:
            sums[row.source] += row.requests
    return {name: sums[number] for number, name in enumerate(SOURCES)}
