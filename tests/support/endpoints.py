"""The endpoints about a website that an API key may read, and a valid request of each.

tests/api takes from this table which paths the document describes (test_openapi.py), who may call them
(test_authorization.py), the headers of their responses (test_response_headers.py), and the requests with which the
clients are compared (test_clients.py). An endpoint that is missing here fails tests/api/test_authorization.py.
"""

from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from clients.generate import DOCUMENT, Schema, parameters

# Filters beside those of dimensions.
TRAFFIC = ("entry_page", "exit_page", "event_name", "type")


class Endpoint(NamedTuple):
    """An endpoint below `/api/v1/websites/{id}/`.

    `query` has the required parameters. With `more` it is an example with parameters and filters of each kind.
    `arguments` are those of the path. `filters`: the names of filters beside dimensions, None where dimensions are no
    filters. `is_saved`: its content is what an owner saved. `is_shared`: share links show it, written out here, so that
    a row in REPORTS alone does not publish another report. `scope`: the one that a key needs, written out likewise.
    """

    path: str
    query: str = ""
    more: str = ""
    arguments: tuple[str, ...] = ()
    filters: tuple[str, ...] | None = None
    is_saved: bool = False
    is_shared: bool = False
    scope: str = "reports"

    @property
    def template(self) -> str:
        """The path in the document and in the router."""
        return f"/api/v1/websites/{{id}}/{self.path}"

    @property
    def operation(self) -> Schema:
        """The description in static/openapi.yaml."""
        operation: Schema = DOCUMENT["paths"][self.template]["get"]
        return operation

    @property
    def request(self) -> str:
        """The path and the query of the example."""
        path = self.path.partition("{")[0] + "".join(self.arguments)
        query = "&".join(part for part in (self.query, self.more) if part)
        return f"/{path}?{query}" if query else f"/{path}"

    def given(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return parameters and filters of the example, as a program passes them to a client."""
        types = {one["name"]: one for one in parameters(self.operation)}
        values: dict[str, Any] = {}
        filters: dict[str, Any] = {}
        for name, value in parse_qsl(self.request.partition("?")[2], keep_blank_values=True):
            if name.startswith("filter_"):
                filters.setdefault(name.removeprefix("filter_"), []).append(value)
            elif types[name]["schema"].get("type") == "array":
                values.setdefault(name, []).extend([value] if types[name].get("explode", True) else value.split(","))
            else:
                values[name] = int(value) if types[name]["schema"].get("type") == "integer" else value
        return values, {name: texts if len(texts) > 1 else texts[0] for name, texts in filters.items()}


ENDPOINTS = (
    Endpoint(
        "stats",
        more="from=2026-11-12&to=2026-11-18&compare=previous&filter_country=DE&filter_country=FR"
        "&filter_pathname%5E=/doc&filter_prop.plan!=free",
        filters=TRAFFIC,
        is_shared=True,
    ),
    Endpoint("timeseries", more="period=today&interval=hour", filters=TRAFFIC, is_shared=True),
    Endpoint("top", "fields=pathname,browser", "metrics=visits,visitors&limit=5", filters=TRAFFIC, is_shared=True),
    Endpoint("top/{field}", more="tz=Europe/Berlin&limit=1", arguments=("pathname",), filters=TRAFFIC, is_shared=True),
    Endpoint("changes", more="period=today&limit=3", filters=TRAFFIC, is_shared=True),
    Endpoint("event-names", more="limit=1", filters=TRAFFIC, is_shared=True),
    Endpoint("entry-pages", more="filter_country=DE", filters=TRAFFIC, is_shared=True),
    Endpoint("exit-pages", more="filter_pathname$=b", filters=TRAFFIC, is_shared=True),
    Endpoint("events", more="limit=2&filter_type=pageview", filters=TRAFFIC, is_shared=True, scope="read"),
    Endpoint("realtime", is_shared=True),
    Endpoint("vitals", more="by=pathname&metric=cls", filters=()),
    Endpoint("experiments", filters=()),
    Endpoint("heatmap", "pathname=/docs/a%2520b", "filter_device=desktop"),
    Endpoint("heatmap-pages"),
    Endpoint("funnel", "step=pathname:/pricing&step=event_name:signup", filters=TRAFFIC),
    Endpoint("journeys", "start=pathname:/pricing", "steps=2", filters=TRAFFIC),
    Endpoint("event-data", "event_name=signup", "property=the+plan", filters=("entry_page", "exit_page", "type")),
    Endpoint("rejected", more="from=2026-11-18&to=2026-11-18"),
    Endpoint("crawlers", more="period=7d&purpose=ai_training&crawler=GPTBot&limit=2"),
    Endpoint("goals/report", more="period=7d", filters=TRAFFIC),
    Endpoint("annotations", is_saved=True, is_shared=True),
    Endpoint("segments", is_saved=True),
    Endpoint("goals", is_saved=True),
    Endpoint("funnels", is_saved=True),
)
BY_PATH = {endpoint.path: endpoint for endpoint in ENDPOINTS}
SAVED = tuple(endpoint.path for endpoint in ENDPOINTS if endpoint.is_saved)
