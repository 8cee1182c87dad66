"""The figures of several websites in one answer: what `stats` adds to lists of websites.

Each website is counted by the `Reports` method of the same name, one after the other, so that one request takes one
connection at a time. Its figures are kept until it changes or its range moves on, and only then counted again. Requests
that arrive while the same is being counted share the answer.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tally.api import params
from tally.api.context import ReadApi
from tally.api.imported import with_sums
from tally.engine.values import BeyondRetention, Requester, Scope, Span, Stats
from tally.events.website import Website
from tally.reports.figures import changes, rounded
from tally.timeranges import PERIODS, Interval, Range, buckets, passed, period_range, previous
from tally.timestamps import DAY_MS, iso

OVERVIEW_PERIODS = tuple(period for period in PERIODS if period != "all")
FIGURES = ("visitors", "visits", "pageviews")
# Points of a sparkline: at most 24 or 25 hours, 90 days or 12 months.
_MAX_DAYS = 90
# A year of months, or 90 days, takes 20 KB.
MAX_CACHED = 500


@dataclass(frozen=True, slots=True)
class OverviewParameters:
    """Of a list of websites: the period of their figures, "" for none."""

    period: str = params.choice("stats", OVERVIEW_PERIODS)


@dataclass(frozen=True, slots=True)
class PageOverviewParameters(OverviewParameters):
    """Of the list that the pages read, also the time zone of the websites that have none of their own."""

    tz: str = params.time_zone()


async def overview(
    api: ReadApi, websites: Sequence[Website], period: str, requester: Requester, tz: str = "UTC"
) -> list[dict[str, Any] | None]:
    """Return the figures of each website in a period; None where events it needs are not kept.

    The period is one of the website's time zone, or of `tz` where it has none.
    """
    now_ms = api.clock.wall_ms()
    spans = [period_range(period, website.time_zone or tz, now_ms) for website in websites]
    # Of a period that is not over, the one before is counted up to the same time.
    others = [previous(span, passed(span, now_ms)) for span in spans]
    keys = [
        api.etag(
            "overview", website.id, website.week_start, api.reports.version(website.number), *_identity(span), other
        )
        for website, span, other in zip(websites, spans, others, strict=True)
    ]

    async def compute(is_gone: Callable[[], bool]) -> list[dict[str, Any] | None]:
        for_page = Requester(requester.claim, is_gone)
        counted = [await _counted(api, *parts, for_page) for parts in zip(websites, spans, others, keys, strict=True)]
        api.overviews.update(zip(keys, counted, strict=True))
        while len(api.overviews) > max(MAX_CACHED, len(keys)):
            del api.overviews[next(iter(api.overviews))]
        return counted

    answered = await api.overview_answers.do(" ".join(keys), requester.is_gone, compute)
    return [
        figures
        and figures
        | {"active_visitors": (await api.reports.realtime(website.number, now_ms, requester)).active_visitors}
        for figures, website in zip(answered, websites, strict=True)
    ]


def _identity(span: Range) -> tuple[int, int, str]:
    return span.from_ms, span.to_ms, span.tz.key


async def _counted(
    api: ReadApi, website: Website, span: Range, other: Span, key: str, requester: Requester
) -> dict[str, Any] | None:
    if key in api.overviews:
        return api.overviews[key]
    series = buckets(span, interval_of(span), week_start=website.week_start)
    edges = [(bucket.from_ms, bucket.to_ms) for bucket in series]
    scopes = Scope(website.number, span.from_ms, span.to_ms), Scope(website.number, *other)
    if interval_of(span) != "hour":
        scopes = with_sums(website, scopes[0], span.tz), with_sums(website, scopes[1], span.tz)
    try:
        now, older, rows = await api.reports.overview(*scopes, edges, requester)
    except BeyondRetention:
        if other == previous(span):
            return None
        # The whole period before may not need events that are no longer kept.
        return await _counted(api, website, span, previous(span), key, requester)
    change = changes(now, older)
    sums = await api.reports.imported_days(scopes[0], (), requester) if website.has_sums else None
    return {
        "from": iso(span.from_ms, span.tz),
        "to": iso(span.to_ms, span.tz),
        **_figures(now),
        "previous": _figures(older),
        "change": {name: change[name] for name in FIGURES},
        **({"imported": True} if sums and sums.counted else {}),
        "series": [
            {"time": bucket.time, "visitors": visitors, "pageviews": views}
            for bucket, (visitors, _, views, _) in zip(series, rows, strict=True)
        ],
    }


def interval_of(span: Range) -> Interval:
    """Return the interval of the points of a sparkline."""
    days = round((span.to_ms - span.from_ms) / DAY_MS)
    return "hour" if days <= 1 else "day" if days <= _MAX_DAYS else "month"


def _figures(stats: Stats) -> dict[str, Any]:
    figures = rounded(stats)
    return {name: figures[name] for name in FIGURES}
