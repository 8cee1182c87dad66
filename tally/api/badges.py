"""Badge and counter of a share link: SVG images with one figure, for pages of any site, where its owner allows them.

A badge has a label and a figure side by side, as READMEs have them; a counter has a figure above its label, for the
foot of a page. The figures of a period are computed at most once in five minutes for each link's website and filters,
and browsers and proxies may store the image as long. The link's fixed filters apply; its password is not required,
since an image has no form.

The images have no script, no style sheet and no link, so that any policy allows them. Their only text from
the request is the label: printable characters, escaped. Widths are estimated, since the server does not measure fonts;
`textLength` makes the texts fit.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from html import escape
from typing import Literal
from unicodedata import east_asian_width

from aiohttp import web

from tally import errors
from tally.api import params, sharing
from tally.api.auth import AUTH
from tally.api.context import READ_API, View
from tally.api.imported import with_sums
from tally.api.params import Sent
from tally.engine.values import BeyondRetention, Requester, Scope, Stats
from tally.errors import ApiError
from tally.http.responses import RESPONSE_HEADERS
from tally.timeranges import Range, parse_range, zone
from tally.timestamps import iso

LASTS_S = 300
# Of some 200 bytes each.
MAX_CACHED = 1_024
MAX_LABEL_CHARACTERS = 40
# Days with today, in the website's time zone; 0 is all days.
PERIODS = {"day": 1, "7d": 7, "30d": 30, "12m": 365, "all": 0}
_IN_PERIOD = {
    "day": "today",
    "7d": "in the last 7 days",
    "30d": "in the last 30 days",
    "12m": "in the last 12 months",
    "all": "in total",
}
METRICS = {"visitors": "Visitors", "pageviews": "Pageviews"}
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
    "Cross-Origin-Resource-Policy": "cross-origin",
}
# Before any event.
_FIRST_DAY = "1970-01-02"
_FONT = 'font-family="Verdana,DejaVu Sans,Geneva,sans-serif"'

Drawn = Callable[[str, str, str], str]
"""Makes an image of a title, a label and a figure, which it escapes."""


def _label(sent: Sent) -> str | None:
    label = sent.value("label")
    if label is None:
        return None
    if not 1 <= len(label) <= MAX_LABEL_CHARACTERS or not label.isprintable():
        size = f"1 to {MAX_LABEL_CHARACTERS} printable characters"
        raise params.invalid("label", f"label must have {size} (got {params.shown(label)}).")
    return label


@dataclass(frozen=True, slots=True)
class BadgeParameters:
    """Of a badge."""

    metric: str = params.choice("metric", tuple(METRICS), "visitors")
    period: str = params.choice("period", tuple(PERIODS), "30d")
    label: str | None = params.parameter(_label, "label")


@dataclass(frozen=True, slots=True)
class CounterParameters:
    """Of a counter."""

    metric: str = params.choice("metric", tuple(METRICS), "pageviews")
    period: str = params.choice("period", tuple(PERIODS), "all")
    label: str | None = params.parameter(_label, "label")


async def badge(request: web.Request) -> web.Response:
    """GET /api/share/{token}/badge.svg: a label and a figure side by side."""
    return await _image(request, BadgeParameters, badge_svg)


async def counter(request: web.Request) -> web.Response:
    """GET /api/share/{token}/counter.svg: a figure above its label."""
    return await _image(request, CounterParameters, counter_svg)


async def _image(
    request: web.Request, declared: type[BadgeParameters] | type[CounterParameters], draw: Drawn
) -> web.Response:
    view, api = sharing.by_badge(request), request.app[READ_API]
    params.refuse_other_than_utf8(request.raw_path)
    parameters = params.read(declared, Sent(request.query, request.match_info, api.clock.wall_ms()))
    figures = await _figures(request, view, parameters.period)
    figure = figures.visitors if parameters.metric == "visitors" else figures.pageviews
    number, name = f"{figure:,}", METRICS[parameters.metric]
    image = draw(f"{name} {_IN_PERIOD[parameters.period]}: {number}", parameters.label or name, number)
    request[RESPONSE_HEADERS] = HEADERS
    headers = {"Content-Type": "image/svg+xml", "Cache-Control": f"public, max-age={LASTS_S}"}
    return web.Response(body=image.encode(), headers=headers)


async def _figures(request: web.Request, view: View, period: str) -> Stats:
    """Return the key figures of a period, not older than LASTS_S. Raises ApiError 400."""
    api, website = request.app[READ_API], view.website
    now_ms, now_ns = api.clock.wall_ms(), api.clock.monotonic_ns()
    time_zone = website.time_zone or request.app[AUTH].registry.cache.time_zone_of(website.account) or "UTC"
    key = repr((website.id, view.filters, period, time_zone))
    known = api.badges.get(key)
    if known is not None and now_ns - known[0] < LASTS_S * 1_000_000_000:
        return known[1]
    span = _range(period, now_ms, time_zone)
    scope = with_sums(website, Scope(website.number, span.from_ms, span.to_ms, view.filters), span.tz)

    async def compute(is_gone: Callable[[], bool]) -> Stats:
        (figures,) = await api.reports.stats([scope], Requester(view.claim, is_gone))
        api.badges.pop(key, None)
        while len(api.badges) >= MAX_CACHED:
            del api.badges[next(iter(api.badges))]
        api.badges[key] = now_ns, figures
        return figures

    try:
        return await api.badge_answers.do(key, lambda: request.transport is None, compute)
    except BeyondRetention as beyond:
        message = f"Single events are kept from {iso(beyond.from_ms)} on: choose a shorter period."
        raise ApiError(errors.BEYOND_RETENTION, message, field="period") from None


def _range(period: str, now_ms: int, time_zone: str) -> Range:
    """Return the last days of a period, today among them, until now."""
    days = PERIODS[period]
    today = datetime.fromtimestamp(now_ms // 1000, zone(time_zone)).date()
    first = (today - timedelta(days=days - 1)).isoformat() if days else _FIRST_DAY
    return parse_range(first, None, time_zone, now_ms + 1)


# --- images


def width_px(text: str, size: int) -> int:
    """Return the estimated width of a text in a font of `size` pixels."""
    return sum(size if east_asian_width(character) in "WF" else round(size * 0.64) for character in text)


def _svg(width: int, height: int, title: str, body: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
        f' role="img" aria-label="{escape(title)}"><title>{escape(title)}</title>{body}</svg>'
    )


def _text(text: str, x: float, y: int, size: int, fill: str, anchor: Literal["start", "middle"]) -> str:
    length = width_px(text, size)
    return (
        f'<text x="{x:g}" y="{y}" font-size="{size}" fill="{fill}" text-anchor="{anchor}" textLength="{length}"'
        f' lengthAdjust="spacingAndGlyphs" {_FONT}>{escape(text)}</text>'
    )


def badge_svg(title: str, label: str, figure: str) -> str:
    """Return a badge."""
    left, right = width_px(label, 11) + 14, width_px(figure, 11) + 14
    width = left + right
    body = (
        f'<clipPath id="r"><rect width="{width}" height="20" rx="4"/></clipPath><g clip-path="url(#r)">'
        f'<rect width="{left}" height="20" fill="#3d4451"/><rect x="{left}" width="{right}" height="20"'
        ' fill="#1d63c4"/>'
        f"{_text(label, 7, 14, 11, '#fff', 'start')}{_text(figure, left + 7, 14, 11, '#fff', 'start')}</g>"
    )
    return _svg(width, 20, title, body)


def counter_svg(title: str, label: str, figure: str) -> str:
    """Return a counter."""
    width = max(width_px(label, 12), width_px(figure, 20), 56) + 32
    body = (
        f'<rect x="0.5" y="0.5" width="{width - 1}" height="59" rx="8" fill="#fff" stroke="#c9ced6"/>'
        f"{_text(figure, width / 2, 29, 20, '#1a1f2b', 'middle')}{_text(label, width / 2, 48, 12, '#525a69', 'middle')}"
    )
    return _svg(width, 60, title, body)
