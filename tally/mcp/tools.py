"""The table of tools, and calling one: its arguments become a report's query, and the report's answer its result.

A tool adds no figure and checks no parameter: `content` of tally/api/endpoints.py does what the report's endpoint does.
There are few tools, with short descriptions, since each assistant reads all of them in each conversation.
"""

import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

from aiohttp import web

from tally import errors
from tally.accounts.api_keys import ApiKey, Scope
from tally.api import endpoints, params, read
from tally.api.context import BY_KEY, READ_API, View
from tally.api.keys import record_reading
from tally.api.params import Sent
from tally.api.reports import REPORTS
from tally.errors import ApiError
from tally.mcp.arguments import SCHEMAS, nearest, query_of
from tally.mcp.content import tool_error, tool_result
from tally.mcp.describing import description
from tally.mcp.protocol import INVALID_PARAMS, Refusal

_REPORTS = {report.path: report for report in REPORTS}
_RANGE = ("period", "from", "to", "tz")
# Without segments: describe has the filters of each.
_FILTERED = (*_RANGE, "filters")
_COMPARED = (*_FILTERED, "compare")
_DEFAULT_ROWS, _MAX_ROWS = 20, 100


class Tool(NamedTuple):
    """A tool. `report`: the path of its report, or of the list of websites; "" for `describe`.

    `limit`: the default and the maximum number of rows, None where it takes no limit.
    """

    name: str
    description: str
    report: str
    arguments: tuple[str, ...] = ()
    required: tuple[str, ...] = ("website",)
    limit: tuple[int, int] | None = None

    @property
    def scope(self) -> Scope:
        """The scope that a key needs."""
        return _REPORTS[self.report].scope if self.report in _REPORTS else "reports"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its arguments."""
        website = () if self.report == "websites" else ("website",)
        return (*website, *self.arguments, *(("limit",) if self.limit else ()))


_ROWS = (_DEFAULT_ROWS, _MAX_ROWS)
TOOLS = (
    Tool("list_websites", "Websites of this key. Start here.", "websites", ("stats",), ()),
    Tool(
        "describe",
        "Fields, filters, periods, figures; with website also its goals, segments, funnels, annotations.",
        "",
        required=(),
    ),
    Tool("get_stats", "Key figures of a range.", "stats", (*_COMPARED, "goal")),
    Tool("get_timeseries", "Figures by interval.", "timeseries", (*_COMPARED, "goal", "interval")),
    Tool(
        "get_top",
        "Values of a field with the most visitors, such as pages or countries.",
        "top/{field}",
        ("field", *_COMPARED, "goal", "metrics", "sort", "order", "offset"),
        ("website", "field"),
        _ROWS,
    ),
    Tool(
        "get_changes",
        "What moved most beyond chance between two ranges.",
        "changes",
        (*_COMPARED, "goal"),
        limit=(5, 20),
    ),
    Tool("get_goals", "Conversions of all saved goals.", "goals/report", _COMPARED),
    Tool(
        "get_funnel",
        "How many visits take steps one after another.",
        "funnel",
        ("step", *_COMPARED),
        ("website", "step"),
    ),
    Tool(
        "get_journeys",
        "Where visits go from a page or event.",
        "journeys",
        ("start", "direction", "steps", *_COMPARED),
        ("website", "start"),
        (5, 20),
    ),
    Tool(
        "get_events",
        "Names of custom events; of one name its properties and values.",
        "event-names",
        ("event_name", "property", *_FILTERED),
        limit=_ROWS,
    ),
    Tool("get_web_vitals", "Loading and response times.", "vitals", ("by", "metric", *_FILTERED), limit=_ROWS),
    Tool("get_experiments", "Results of A/B tests.", "experiments", _FILTERED),
    Tool("get_realtime", "Visitors of the last minutes.", "realtime"),
    Tool(
        "get_crawlers",
        "Crawlers that read the pages, by purpose such as AI training; visits of people from AI assistants.",
        "crawlers",
        (*_RANGE, "purpose", "crawler"),
        limit=_ROWS,
    ),
    Tool("get_data_quality", "Events that were rejected, crawlers among them, and why.", "rejected", _RANGE),
    Tool(
        "list_single_events",
        "Single events, newest first.",
        "events",
        (*_FILTERED, "cursor"),
        limit=_ROWS,
    ),
)
_BY_NAME = {tool.name: tool for tool in TOOLS}


def allowed_tools(key: ApiKey) -> list[dict[str, Any]]:
    """Return the tools that a key may call, as `tools/list` has them."""
    return [_listed(tool) for tool in TOOLS if key.grant.allows(tool.scope)]


@functools.cache
def _listed(tool: Tool) -> dict[str, Any]:
    schemas = {name: SCHEMAS[name] for name in tool.names if name != "limit"}
    if tool.limit:
        default, most = tool.limit
        schemas["limit"] = {"type": "integer", "maximum": most, "default": default}
    return {
        "name": tool.name,
        "description": tool.description,
        "inputSchema": {
            "type": "object",
            "properties": schemas,
            "required": tool.required,
            "additionalProperties": False,
        },
        "outputSchema": {"type": "object", "required": ("data", "meta")},
        "annotations": {
            "readOnlyHint": True,
            "destructiveHint": False,
            "idempotentHint": True,
            "openWorldHint": False,
        },
    }


async def call(request: web.Request, key: ApiKey, sent: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of `tools/call`. Raises Refusal for an unknown tool.

    A report that refuses its parameters, or is not computed in time, is a result that says so.
    """
    name, arguments = sent.get("name"), sent.get("arguments") or {}
    tool = _BY_NAME.get(name) if isinstance(name, str) else None
    if tool is None:
        raise Refusal(INVALID_PARAMS, f"Unknown tool{nearest(str(name), [*_BY_NAME])}: tools/list has all.")
    if not key.grant.allows(tool.scope):
        raise Refusal(INVALID_PARAMS, f"{tool.name} needs a key with the scope {tool.scope}.")
    if not isinstance(arguments, dict):
        raise Refusal(INVALID_PARAMS, "arguments must be an object.")
    try:
        return tool_result(await _content(request, key, tool, arguments))
    except ApiError as error:
        return tool_error(error.message)


async def _content(request: web.Request, key: ApiKey, tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return `data` and `meta` of a tool. Raises ApiError."""
    for name in arguments:
        if name not in tool.names:
            takes = ", ".join(tool.names) or "no arguments"
            raise params.invalid(name[:100], f"Unknown argument{nearest(name, tool.names)}: {tool.name} takes {takes}.")
    query = query_of(arguments)
    if tool.report == "websites":
        return await read.content(request, key, query)
    website = query.pop("website", None)
    if not tool.report:
        view = None if website is None else await _view(request, key, website)
        return await description(request, view)
    if website is None:
        raise params.invalid("website", "website is required: the id or domain of one of list_websites.")
    view = await _view(request, key, website)
    if tool.scope == "read":
        await record_reading(request, key, view.website)
    if tool.limit:
        default, most = tool.limit
        query.setdefault("limit", str(default))
        params.whole_number(Sent(query, {}, 0), "limit", 1, most, default)
    path = {"field": query.pop("field", "")} if "{field}" in tool.report else {}
    # One tool for events, since an assistant asks for names first and then for the properties of one.
    report = "event-data" if tool.name == "get_events" and "event_name" in query else tool.report
    return await endpoints.content(request, _REPORTS[report], view, query, path)


async def _view(request: web.Request, key: ApiKey, website: str) -> View:
    """Return what a key may read of the website with this id or domain. Raises ApiError 404, as for any other one."""
    api, wanted = request.app[READ_API], website.lower()
    for is_fresh in (False, True):
        if is_fresh:
            await api.registry.read_changes()
        for site in read.websites_of(api, key):
            if wanted in (site.id, site.domain):
                return View(site, BY_KEY)
    known = [text for site in read.websites_of(api, key) for text in (site.domain, site.id)]
    raise ApiError(
        errors.UNKNOWN_WEBSITE, f"Unknown website{nearest(wanted, known)}: list_websites has all of this key."
    )
