"""The tool `describe`: the words of the other tools, and what the owner of a website has saved.

Figures are described in a sentence each; docs/reference/definitions.md defines them. What is saved is what the read API
answers about it.
"""

from typing import Any

from aiohttp import web
from multidict import MultiDict

from tally.api import endpoints
from tally.api.context import READ_API, View
from tally.api.definitions import KINDS
from tally.api.reports import REPORTS
from tally.base_path import public_url
from tally.engine.values import FILTERS
from tally.events.dimensions import FIELDS, PAGES
from tally.events.filters import PROPERTY_PREFIX
from tally.http.request_paths import public_prefix
from tally.timeranges import INTERVALS, PERIODS

FIGURES = {
    "visitors": "distinct visitors; a visitor is counted once per day of the website, so days add up",
    "visits": "visits that begin in the range; one ends after 30 minutes without an event",
    "pageviews": "pageviews and screen views",
    "events": "custom events",
    "bounce_rate": "percent of visits with one pageview and no custom event",
    "views_per_visit": "mean number of pageviews of a visit",
    "visit_duration": "mean duration of a visit in seconds",
    "conversions": "events or pageviews that match a goal",
    "converted_visitors": "distinct visitors with a conversion",
    "conversion_rate": "percent of visitors with a conversion",
    "p_value": "chance of a difference at least as large if nothing had changed",
}
OPERATORS = {
    "=": "is one of the values",
    "!=": "is none of the values",
    "*=": "contains a value",
    "^=": "begins with a value",
    "$=": "ends with a value",
}
_SAVED = [report for report in REPORTS if report.path in {of.path for of in KINDS}]


async def description(request: web.Request, view: View | None) -> dict[str, Any]:
    """Return what the other tools take and return; of a website also what its owner has saved. Raises ApiError."""
    api, query = request.app[READ_API], MultiDict[str]()
    root = public_url(api.base_url, public_prefix(request)) or public_prefix(request)
    data: dict[str, Any] = {
        "figures": FIGURES,
        "fields": [*FIELDS, *PAGES],
        "filters": {
            "fields": [*FILTERS, f"{PROPERTY_PREFIX}<property of event_data>", "goal (its id, with =)"],
            "operators": OPERATORS,
            "several": "all filters must match",
        },
        "periods": list(PERIODS),
        "intervals": list(INTERVALS),
        "range": "from and to are ISO 8601 in tz, by default the website's; neither: the last 7 days",
        "api": f"{root}/api/v1/openapi.yaml",
    }
    if view is not None:
        data["website"] = {"id": view.website.id, "domain": view.website.domain}
        for report in _SAVED:
            data[report.path] = (await endpoints.content(request, report, view, query, {}))["data"]
    return {"data": data, "meta": {}}
