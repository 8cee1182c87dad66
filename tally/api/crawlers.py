"""The report of crawlers: who reads a website, by crawler, purpose, day and page, and who comes from AI assistants.

Requests are counted by days of the website (tally/storage/crawler_days.py), so a day of another time zone is that date
of the website. Operators and purposes come from the list of crawlers; a crawler is what its User-Agent names, which
anyone can send. Beside the pages stand figures of people, from events: visits that begin there from an AI assistant,
and pageviews; null where the events are no longer kept.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import Any, NamedTuple

from tally.api import params
from tally.api.context import Answer, ReadApi, ReportRequest
from tally.api.traffic import buckets_of
from tally.engine.values import BeyondRetention, Scope, TopQuery
from tally.events.channels import AI_ASSISTANTS
from tally.events.crawlers import PURPOSES, UNLISTED, Crawler
from tally.events.filters import Filter
from tally.storage import crawler_days
from tally.storage.crawler_days import SOURCES, Crawls
from tally.timeranges import Range

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
