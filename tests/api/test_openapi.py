"""static/openapi.yaml describes what the server does.

First the document alone (valid, complete, its examples match their schemas), then the document against the tables in
the code, then against a real server: one request for each status, and random requests. Responses are validated against
a strict copy of the document in which objects may have no undescribed keys.
"""

import json
import tomllib
from collections.abc import Iterator
from contextlib import closing
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlencode

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, assume, given, settings
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate
from referencing import Registry
from referencing.jsonschema import DRAFT202012
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from clients.generate import DOCUMENT, read
from tally import errors
from tally.accounts.accounts import create_account, set_plan
from tally.accounts.api_keys import Grant, create_api_key
from tally.accounts.definitions import Kind, add_definition
from tally.accounts.share_links import change_share_link, create_share_link
from tally.accounts.websites import add_website
from tally.clock import Clock
from tally.events import validation as events
from tally.events.dimensions import FIELDS, PAGES
from tally.http import request_paths
from tally.ingest import rejected_events
from tally.storage.database import open_database
from tally.web.routes import ROUTES
from tests.support.app import OWNER, ROOT
from tests.support.cases import cases
from tests.support.endpoints import BY_PATH, ENDPOINTS, SAVED
from tests.support.process import NO_RATE_LIMITS, Server, until

SCHEMAS: dict[str, Any] = DOCUMENT["components"]["schemas"]
NAME = "urn:openapi"

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    response_headers_conformance,
]

# Parameters without which an endpoint does not answer.
REQUIRED = {endpoint.path: parse_qs(endpoint.query) for endpoint in ENDPOINTS}
READ_PATHS = ("/api/v1/websites", *(endpoint.template for endpoint in ENDPOINTS))
BADGE_PATHS = ("/api/share/{token}/badge.svg", "/api/share/{token}/counter.svg")
COLLECT_PATHS = ("/api/collect", "/api/v1/collect")


def at(pointer: str) -> Any:
    """Return the node of the document at a JSON pointer (`#/a/b`)."""
    node: Any = DOCUMENT
    for part in pointer.removeprefix("#/").split("/"):
        part = part.replace("~1", "/").replace("~0", "~")
        node = node[int(part)] if isinstance(node, list) else node[part]
    return node


def resolved(node: dict[str, Any]) -> dict[str, Any]:
    """Return the node, or the node its `$ref` points to."""
    return at(node["$ref"]) if "$ref" in node else node


def nodes(node: Any, pointer: str = "#") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every object below `node`, with its pointer."""
    if isinstance(node, dict):
        yield pointer, node
    children = node if isinstance(node, dict) else dict(enumerate(node)) if isinstance(node, list) else {}
    for key, child in children.items():
        yield from nodes(child, f"{pointer}/{str(key).replace('~', '~0').replace('/', '~1')}")


def referred(node: Any) -> set[str]:
    """Return the pointers of everything a node refers to, directly or indirectly."""
    found: set[str] = set()
    todo = [node]
    while todo:
        new = {n["$ref"] for _, n in nodes(todo.pop()) if isinstance(n.get("$ref"), str)} - found
        found |= new
        todo += map(at, new)
    return found


def strict_copy(document: dict[str, Any]) -> dict[str, Any]:
    """Return a copy in which response objects may have no undescribed keys; request bodies stay open."""
    copy = deepcopy(document)
    sent = referred(document["components"]["requestBodies"])
    for name, schema in copy["components"]["schemas"].items():
        described = schema.get("type") == "object" and "properties" in schema
        if described and f"#/components/schemas/{name}" not in sent:
            schema.setdefault("additionalProperties", False)
    return copy


STRICT_DOCUMENT = strict_copy(DOCUMENT)
REGISTRY: Registry[Any] = Registry().with_resource(NAME, DRAFT202012.create_resource(STRICT_DOCUMENT))


def schema_errors(value: object, pointer: str) -> list[str]:
    """Return the errors of a value against the schema at the pointer."""
    schema = {"$ref": f"{NAME}{pointer}"}
    validator = Draft202012Validator(schema, registry=REGISTRY, format_checker=Draft202012Validator.FORMAT_CHECKER)
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(value)]


# ---- the document alone ------------------------------------------------------------------------------------


def test_the_document_is_valid_openapi_3_1() -> None:
    validate(DOCUMENT)  # raises if it is invalid

    assert DOCUMENT["openapi"].startswith("3.1.")


def test_version_and_licence() -> None:
    """The version is that of the API, as in its paths: clients without a session do not learn that of the server."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    info = DOCUMENT["info"]
    assert (info["version"], info["license"]["identifier"]) == ("1", project["license"])


def test_no_description_is_cut_at_a_comma() -> None:
    """In YAML a comma ends an unquoted string inside {...}; the rest becomes a key."""

    def keys(value: Any) -> Iterator[str]:
        if isinstance(value, dict):
            yield from map(str, value)
        for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            yield from keys(item)

    assert [key for key in keys(DOCUMENT) if " " in key] == []


def test_every_component_is_used() -> None:
    defined = {f"#/components/{kind}/{name}" for kind, of in DOCUMENT["components"].items() for name in of}
    schemes = {f"#/components/securitySchemes/{name}" for name in DOCUMENT["components"]["securitySchemes"]}

    assert defined - schemes == referred([DOCUMENT["paths"], DOCUMENT["webhooks"]])


# docs/reference/errors.md: the codes of each status.
COLLECT_CODES = {
    "400": {"invalid_json", "invalid_body", "too_many_events", "no_valid_event"},
    "403": {"origin_not_allowed"},
    "404": {"unknown_website"},
    "413": {"body_too_large"},
    "415": {"unsupported_encoding"},
    "429": {"rate_limited", "monthly_limit_reached"},
    "500": {"internal_error"},
    "503": {"storage_unavailable", "overloaded"},
}
READ_CODES = {
    "400": {"invalid_parameter"},
    "401": {"missing_api_key", "invalid_api_key", "key_expired"},
    "403": {"plan_has_no_keys", "missing_scope"},
    "404": {"unknown_website"},
    "429": {"rate_limited"},
    "500": {"internal_error"},
    "503": {"storage_unavailable", "overloaded", "query_timeout"},
}
# Endpoints with a range can return 400 `beyond_retention`: the rows the query needs are deleted.
RANGE_CODES = READ_CODES | {"400": {"invalid_parameter", "beyond_retention"}}
BADGE_CODES = {
    "400": {"invalid_parameter", "beyond_retention"},
    "403": {"not_shared"},
    "404": {"unknown_share_link"},
    "429": {"rate_limited"},
    "500": {"internal_error"},
    "503": {"storage_unavailable", "overloaded", "query_timeout"},
}
# Operations without a body that take parameters of a query.
WITH_PARAMETERS = ("/api/v1/notices", "/api/v1/reports/{report}/preview")
# The management API and imports; which of these codes an operation has follows from its method and its path.
MANAGE_CODES = {
    "400": {"invalid_field", "invalid_json", "invalid_body", "invalid_parameter"},
    "401": {"missing_api_key", "invalid_api_key", "key_expired"},
    "403": {"plan_has_no_keys", "missing_scope"},
    "404": {
        *("unknown_website", "unknown_definition", "unknown_share_link", "unknown_import"),
        *("unknown_alert", "unknown_channel", "unknown_report", "unknown_notice", "unknown_deletion"),
    },
    "409": {
        *("website_exists", "too_many_websites", "too_many_definitions", "too_many_share_links"),
        *("too_many_alerts", "too_many_channels", "too_many_reports"),
        *("no_secret", "preview_outdated", "deletion_running", "events_in_clickhouse"),
    },
    "413": {"body_too_large"},
    "415": {"unsupported_media_type", "unsupported_encoding"},
    "422": {"channel_refused"},
    "429": {"rate_limited"},
    "500": {"internal_error"},
    "503": {"storage_unavailable", "overloaded", "query_timeout"},
}
# Many events in one request also have the codes of collect.
BULK_EVENTS = "post", "/api/v1/websites/{id}/events"
BULK_CODES = MANAGE_CODES | {
    "400": {"invalid_field", "invalid_json", "invalid_body", "too_many_events", "no_valid_event"},
    "429": {"rate_limited", "monthly_limit_reached"},
}
MANAGED = [
    (method, path)
    for path, item in DOCUMENT["paths"].items()
    for method, operation in item.items()
    if operation["tags"][0] in ("Manage", "Import")
]
# Last, since random requests to the others need the website.
MANAGED.sort(key=("delete", "/api/v1/websites/{id}").__eq__)
CODES = (
    [("post", path, COLLECT_CODES) for path in COLLECT_PATHS]
    + [("get", path, BADGE_CODES) for path in BADGE_PATHS]
    # /websites has no id, so it has no 404.
    + [("get", READ_PATHS[0], {status: codes for status, codes in READ_CODES.items() if status != "404"})]
    + [("get", endpoint.template, READ_CODES if endpoint.filters is None else RANGE_CODES) for endpoint in ENDPOINTS]
)


@cases(("method", "path", "codes"), CODES, ids=[path for _, path, _ in CODES])
def test_every_status_lists_its_codes(method: str, path: str, codes: dict[str, set[str]]) -> None:
    answers = DOCUMENT["paths"][path][method]["responses"]
    listed = {
        status: set(schema["properties"]["error"]["properties"]["code"]["enum"])
        for status, answer in answers.items()
        if status >= "400"
        for schema in [resolved(answer)["content"]["application/json"]["schema"]]
    }

    assert listed == codes


@cases(("method", "path"), MANAGED)
def test_codes_of_the_management_api(method: str, path: str) -> None:
    operation = DOCUMENT["paths"][path][method]
    listed = {
        status: set(schema["properties"]["error"]["properties"]["code"]["enum"])
        for status, answer in operation["responses"].items()
        if status >= "400"
        for schema in [resolved(answer)["content"]["application/json"]["schema"]]
    }
    codes = BULK_CODES if (method, path) == BULK_EVENTS else MANAGE_CODES
    assert listed.items() <= codes.items()
    assert listed.keys() >= {"401", "403", "429", "500", "503"} | ({"404"} if "{id}" in path else set())
    assert ("400" in listed) is ("requestBody" in operation or path in WITH_PARAMETERS)
    assert operation["security"] == [{"apiKey": []}]


def test_codes_of_rejected_events() -> None:
    """All codes from `invalid_type` on, in this order."""
    assert SCHEMAS["EventErrorCode"]["enum"] == [
        *("invalid_type", "invalid_website_id", "unknown_website", "origin_not_allowed", "missing_field"),
        *("invalid_field", "invalid_url", "invalid_event_data", "event_data_too_large", "timestamp_too_old"),
        *("timestamp_in_future", "monthly_limit_reached", "no_assignment", "crawler"),
        *("excluded_address", "excluded_country", "excluded_page", "excluded_hostname", "referrer_spam", "datacenter"),
    ]


def test_error_codes_equal_those_of_the_server() -> None:
    kinds = {value.code for value in vars(errors).values() if isinstance(value, errors.Kind)}

    assert set(SCHEMAS["ErrorCode"]["enum"]) == kinds - {kind.code for kind in errors.OF_PAGES}


@cases("name", [endpoint.path for endpoint in ENDPOINTS if endpoint.filters is not None])
def test_every_field_is_a_filter(name: str) -> None:
    """Each dimension; for traffic also entry_page, exit_page, event_name and type."""
    others = BY_PATH[name].filters or ()
    filters = [
        p
        for p in map(resolved, BY_PATH[name].operation["parameters"])
        if p["name"].startswith("filter_") and p["name"] != "filter_goal"
    ]

    assert [p["name"] for p in filters] == [f"filter_{field}" for field in (*FIELDS, *others)]
    assert {(p["in"], p["style"], p["explode"], resolved(p["schema"])["type"]) for p in filters} == {
        ("query", "form", True, "array")
    }


@cases("path", READ_PATHS)
def test_read_endpoints_need_a_key(path: str) -> None:
    """Every read endpoint declares `Authorization: Bearer <API_KEY>`."""
    assert DOCUMENT["paths"][path]["get"]["security"] == [{"apiKey": []}]


@pytest.mark.parametrize("path", COLLECT_PATHS)
def test_collect_endpoints_need_no_key(path: str) -> None:
    """/api/collect and /api/v1/collect declare no authentication."""
    assert "security" not in DOCUMENT["paths"][path]["post"]
    assert "security" not in DOCUMENT


def test_top_accepts_every_field() -> None:
    assert set(SCHEMAS["Field"]["enum"]) == {*FIELDS, *PAGES}


def test_columns_of_events() -> None:
    """The columns of /websites/:id/events."""
    columns = ["id", "type", "timestamp", *FIELDS, "event_name", "event_data", "visit", "vitals"]
    columns += ["experiment", "variant", "goal", "value"]

    assert list(SCHEMAS["StoredEvent"]["properties"]) == columns
    assert SCHEMAS["StoredEvent"]["required"] == columns


def examples() -> Iterator[tuple[str, Any]]:
    """Yield (pointer to a schema, example) for every example of the document."""
    for pointer, node in nodes(DOCUMENT):
        below = f"{pointer}/schema"
        if "schema" in node and "example" in node:
            yield below, node["example"]
        if "schema" in node and "examples" in node:
            yield from ((below, one["value"]) for one in node["examples"].values())
        if "schema" not in node and isinstance(node.get("examples"), list):
            yield from ((pointer, value) for value in node["examples"])


EXAMPLES = list(examples())


@cases(("pointer", "value"), EXAMPLES, ids=[pointer for pointer, _ in EXAMPLES])
def test_every_example_matches_its_schema(pointer: str, value: object) -> None:
    assert schema_errors(value, pointer) == []


def test_the_text_plain_example_is_an_event() -> None:
    """A text/plain body is parsed as JSON."""
    pointer = "#/components/requestBodies/Collect/content/text~1plain"

    assert schema_errors(json.loads(at(pointer)["example"]), f"{pointer}/schema/contentSchema") == []


BAD_ANSWERS = [
    pytest.param({"ok": True, "accepted": 1}, "CollectAnswer", id="a required key is missing"),
    pytest.param({"data": [], "meta": {"page": 1}}, "WebsitesAnswer", id="an undescribed key"),
    pytest.param({"ok": False, "error": {"code": "x", "message": "x"}}, "Error", id="an unknown code"),
    pytest.param({"type": "pageview"}, "SingleEvent", id="a pageview without its url"),
    pytest.param("2026-11-21T00:00:00Z", "Time", id="a time without milliseconds"),
]


@pytest.mark.parametrize(("value", "name"), BAD_ANSWERS)
def test_schemas_reject_invalid_values(value: object, name: str) -> None:
    assert schema_errors(value, f"#/components/schemas/{name}") != []


# ---- the document and the code's tables --------------------------------------------------------------------


def test_the_document_has_every_public_route() -> None:
    """Only the public API: endpoints for the pages may change with them."""
    pages = {
        "tally.api.account",
        "tally.web.pages",
        "tally.web.tracker",
        "tally.api.websites",
        # The formats of other systems, which docs/migrating-trackers.md describes.
        "tally.ingest.compat.endpoint",
        # JSON-RPC, and OAuth for it, which docs/mcp.md describes.
        "tally.mcp.endpoint",
        "tally.api.oauth",
        # Pages behind the links of mails, which docs/notifications.md describes.
        "tally.web.mail_links",
        # Pages of the sign-in, which docs/single-sign-on.md describes.
        "tally.api.oidc",
    }
    public = [row for row in ROUTES if row.handler.__module__ not in pages]
    routed = {
        (row.method, row.path)
        for row in public
        if row.path in BADGE_PATHS or not row.path.startswith((*request_paths.ACCOUNT_PATHS, "/feeds/"))
    }
    documented = {(method.upper(), path) for path, item in DOCUMENT["paths"].items() for method in item}

    assert documented == {row for row in routed if row[0] not in ("HEAD", "OPTIONS")}


@cases("number", range(len(events.TYPES)), ids=events.TYPES)
def test_fields_of_a_type_equal_those_of_the_server(number: int) -> None:
    schema = at(SCHEMAS["Event"]["discriminator"]["mapping"][events.TYPES[number]])
    described = {*SCHEMAS["EventFields"]["properties"], *schema["properties"]}

    assert described == {
        *events.RULES[number],
        *events.FLAT.get(number, ()),
        "type",
        "website_id",
        "timestamp",
        "age_ms",
    }
    assert set(schema["required"]) == {"type", *events.REQUIRED[number]}


def test_fields_of_the_context() -> None:
    """`context` may fill platform, app_version, os_version, language, browser, os, device."""
    fields = ["platform", "app_version", "os_version", "language", "browser", "os", "device"]

    assert list(SCHEMAS["Context"]["properties"]) == fields


# ---- the document and a server -----------------------------------------------------------------------------

SCHEMA = schemathesis.openapi.from_dict(STRICT_DOCUMENT)
GOAL, SEGMENT, SHARE_LINK, SHARE_TOKEN = "1" * 16, "2" * 16, "3" * 16, "a" * 24
# One definition of each kind.
DEFINED: dict[Kind, dict[str, Any]] = {
    "annotation": {"from": "2026-11-20T10:00:00.000+00:00", "to": None, "text": "Launch"},
    "segment": {"name": "Germany", "filters": ["filter_country=DE"]},
    "goal": {
        **{"name": "Signup", "type": "event", "match": ["filter_event_name=signup"]},
        **{"value": "seats", "currency": "EUR"},
    },
    "funnel": {"name": "Checkout", "steps": ["pathname:/pricing", "event_name:signup"]},
}
WEBSITE = "{website}"  # stands for the real id in the tables below
SITE = f"/api/v1/websites/{WEBSITE}"
PAGE = "https://www.example.com/pricing?utm_source=newsletter"
PAGEVIEW = {"type": "pageview", "website_id": WEBSITE, "url": PAGE}
# One event of each type, so that responses have every kind of row.
POINT = {"x": 0.5, "y": 40, "kind": "click"}
STORED: list[dict[str, Any]] = [
    {"type": "pageview", "url": PAGE, "referrer": "https://news.example.org/"},
    {"type": "event", "url": PAGE, "event_name": "signup", "event_data": {"seats": 3}},
    {"type": "screen_view", "name": "Home", "platform": "ios", "session_id": "session-2"},
    {"type": "app_event", "event_name": "purchase", "session_id": "session-2"},
    {"type": "vitals", "url": PAGE, "vitals": {"lcp": 1840.5, "cls": 0.02}},
    {"type": "heatmap", "url": PAGE, "viewport_width": 1440, "points": [POINT]},
    {"type": "ab_assign", "experiment": "headline", "variant": "short"},
    {"type": "ab_convert", "experiment": "headline", "goal": "signup", "value": 29.9},
]


class Site(NamedTuple):
    """A running server, a website with a few events, and an API key for it."""

    url: str
    website: str
    key: str
    db: Path


class Sites:
    """Start and stop servers, each on its own database with one website and one API key."""

    def __init__(self, folders: pytest.TempPathFactory) -> None:
        self._folders = folders
        self._servers: list[Server] = []

    def start(self, *options: str, plan: str = "business", scopes: tuple[str, ...] = ("read",)) -> Site:
        """Start a server with these options, for an account on the plan, with a key that has the scopes."""
        folder = self._folders.mktemp("site")
        db = folder / "analytics.db"
        now_ms = Clock().wall_ms()
        with closing(open_database(db, create=True)) as connection:
            connection.execute("begin immediate")
            owner = create_account(connection, OWNER, "business", None, now_ms)
            website = add_website(connection, owner, "example.com", "Example", (), now_ms)
            key = create_api_key(connection, owner, "", now_ms, Grant(scopes))
            ((number,),) = connection.execute("select number from website").fetchall()
            for kind, content in DEFINED.items():
                id = add_definition(connection, number, kind, content, now_ms)
                known = {"goal": GOAL, "segment": SEGMENT}.get(kind, id)
                connection.execute("update definition set id = ? where id = ?", (known, id))
            create_share_link(connection, number, SHARE_LINK, SHARE_TOKEN, now_ms)
            change_share_link(connection, number, SHARE_LINK, {"shows_badges": True})
            set_plan(connection, OWNER, plan)
            connection.execute("commit")
        server = Server(db, options, {}, folder / "stderr.log", [])
        self._servers.append(server)
        return Site(server.url, website, key, db)

    def end(self) -> None:
        """Stop all servers."""
        for server in self._servers:
            server.kill()


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sites]:
    started = Sites(tmp_path_factory)
    yield started
    started.end()


@pytest.fixture(scope="module")
def site(sites: Sites) -> Site:
    """A site without rate limits and with an event of each type, shared by all tests of the module."""
    started = sites.start(*NO_RATE_LIMITS)
    stored = ask(started, "POST", "/api/collect", body={"website_id": WEBSITE, "events": STORED})
    assert stored.json() == {"ok": True, "accepted": len(STORED), "rejected": 0}
    return started


@pytest.fixture(scope="module")
def managed(sites: Sites) -> Site:
    """A site of its own, whose key manages and imports, for what changes it."""
    return sites.start(*NO_RATE_LIMITS, scopes=("manage", "import"))


def filled(value: Any, website: str) -> Any:
    """Return the value with WEBSITE replaced by the real id."""
    return json.loads(json.dumps(value).replace(WEBSITE, website))


def ask(
    site: Site,
    method: str,
    path: str,
    *,
    body: Any = None,
    query: dict[str, Any] | None = None,
    headers: dict[str, str] | None = None,
    media_type: str = "application/json",
) -> schemathesis.Response:
    """Send a request with the key as the document describes it and validate the response against the document."""
    template, parameters = template_of(path)
    case = SCHEMA[template][method].Case(
        path_parameters=filled(parameters, site.website),
        query=query or {},
        headers={"Authorization": f"Bearer {site.key}", **(headers or {})},
        **({} if body is None else {"body": filled(body, site.website), "media_type": media_type}),
    )
    return case.call_and_validate(base_url=site.url, checks=CHECKS)


def template_of(path: str) -> tuple[str, dict[str, str]]:
    """Return the path template of the document that matches a path, and the values of its parameters."""
    parts = path.split("/")
    for template in DOCUMENT["paths"]:
        names = template.split("/")
        given_for = {n.strip("{}"): p for n, p in zip(names, parts, strict=False) if n.startswith("{")}
        if len(names) == len(parts) and template.format(**given_for) == path:
            return template, given_for
    raise LookupError(path)


ELSEWHERE = "00000000-0000-4000-8000-000000000000"
DAY = {"from": "2026-11-01", "to": "2026-11-01"}

BADGES = f"/api/share/{SHARE_TOKEN}"
BADGE_CASES = [
    pytest.param(f"{BADGES}/badge.svg", {}, {}, 200, id="a badge"),
    pytest.param(
        f"{BADGES}/counter.svg", {"metric": "visitors", "period": "7d", "label": "x"}, {}, 200, id="a counter"
    ),
    pytest.param(f"{BADGES}/badge.svg", {"metric": "hits"}, {}, 400, id="an unknown metric of a badge"),
    pytest.param("/api/share/another/counter.svg", {}, {}, 404, id="a counter of an unknown link"),
]
READ_CASES = [
    *BADGE_CASES,
    pytest.param("/api/v1/websites", {}, {}, 200, id="websites"),
    pytest.param(f"{SITE}/stats", {}, {}, 200, id="stats"),
    pytest.param(f"{SITE}/stats", {"compare": "previous"}, {}, 200, id="stats compared"),
    pytest.param(f"{SITE}/stats", DAY | {"compare": "previous"}, {}, 200, id="stats without events"),
    pytest.param(f"{SITE}/stats", {"filter_type": ["pageview", "event"]}, {}, 200, id="a filter twice"),
    pytest.param(f"{SITE}/stats", {"filter_utm_medium": [""]}, {}, 200, id="a filter for unset"),
    pytest.param(f"{SITE}/timeseries", {"interval": "hour", "tz": "Asia/Kolkata"}, {}, 200, id="hours"),
    pytest.param(f"{SITE}/timeseries", {"format": "csv"}, {}, 200, id="timeseries as csv"),
    pytest.param(f"{SITE}/top/platform", {"limit": 1}, {}, 200, id="top"),
    pytest.param(
        f"{SITE}/top", {"fields": "os,exit_page", "compare": "previous"}, {}, 200, id="lists of several fields"
    ),
    *(
        pytest.param(f"{SITE}/{name}", {**more, "limit": 1}, {}, 200, id=f"{name}{more}")
        for name in ("event-names", "entry-pages", "exit-pages")
        for more in ({}, {"format": "csv"})
    ),
    pytest.param(f"{SITE}/top/pathname", {}, {"Accept": "text/csv"}, 200, id="top as csv by Accept"),
    pytest.param(f"{SITE}/events", {}, {}, 200, id="events"),
    pytest.param(f"{SITE}/events", {"limit": 2, "tz": "Europe/Berlin"}, {}, 200, id="events, first page"),
    pytest.param(f"{SITE}/events", {"limit": 2, "format": "csv"}, {}, 200, id="events as csv"),
    pytest.param(f"{SITE}/realtime", {}, {}, 200, id="realtime"),
    *(
        pytest.param(f"{SITE}/vitals", {"by": by} if by else {}, {}, 200, id=f"vitals by {by}")
        for by in ("", "pathname", "device", "day")
    ),
    pytest.param(f"{SITE}/vitals", {"format": "csv", "filter_country": ["DE"]}, {}, 200, id="vitals as csv"),
    pytest.param(f"{SITE}/vitals", {"by": "country"}, {}, 400, id="vitals by something else"),
    pytest.param(f"{SITE}/vitals", {"by": "pathname", "metric": "fid"}, {}, 400, id="an unknown metric"),
    pytest.param(f"{SITE}/vitals", {"filter_type": ["vitals"]}, {}, 400, id="a filter that vitals do not have"),
    pytest.param(f"{SITE}/experiments", {}, {}, 200, id="experiments"),
    pytest.param(f"{SITE}/experiments", {"format": "csv"}, {}, 200, id="experiments as csv"),
    pytest.param(f"{SITE}/heatmap", {"pathname": "/pricing"}, {}, 200, id="heatmap"),
    pytest.param(f"{SITE}/heatmap", {"pathname": "/no", "tz": "Asia/Kolkata"}, {}, 200, id="a heatmap without points"),
    pytest.param(f"{SITE}/heatmap", {"pathname": "/", "filter_device": ["mobile", "tablet"]}, {}, 200, id="widths"),
    pytest.param(f"{SITE}/heatmap", {"pathname": "/pricing", "format": "csv"}, {}, 200, id="heatmap as csv"),
    pytest.param(f"{SITE}/heatmap", {}, {}, 400, id="a heatmap without pathname"),
    pytest.param(f"{SITE}/heatmap", {"pathname": "/", "filter_device": ["tv"]}, {}, 400, id="an unknown width"),
    pytest.param(f"{SITE}/heatmap-pages", {}, {}, 200, id="pages with heatmaps"),
    pytest.param(f"{SITE}/heatmap-pages", {"limit": 1, "format": "csv"}, {}, 200, id="pages with heatmaps as csv"),
    pytest.param(f"{SITE}/heatmap-pages", {"filter_os": ["iOS"]}, {}, 400, id="a filter that heatmaps do not have"),
    pytest.param(f"{SITE}/funnel", REQUIRED["funnel"], {}, 200, id="a funnel"),
    pytest.param(f"{SITE}/funnel", REQUIRED["funnel"] | {"format": "csv"}, {}, 200, id="a funnel as csv"),
    pytest.param(f"{SITE}/funnel", {"step": ["pathname:/"]}, {}, 400, id="a funnel of one step"),
    pytest.param(f"{SITE}/journeys", REQUIRED["journeys"], {}, 200, id="journeys"),
    pytest.param(f"{SITE}/journeys", REQUIRED["journeys"] | {"format": "csv"}, {}, 200, id="journeys as csv"),
    pytest.param(f"{SITE}/journeys", {}, {}, 400, id="journeys without start or end"),
    pytest.param(f"{SITE}/journeys", REQUIRED["journeys"] | {"steps": "6"}, {}, 400, id="journeys of six steps"),
    pytest.param(f"{SITE}/event-data", REQUIRED["event-data"], {}, 200, id="event_data"),
    pytest.param(f"{SITE}/event-data", REQUIRED["event-data"] | {"format": "csv"}, {}, 200, id="event_data as csv"),
    pytest.param(f"{SITE}/event-data", {}, {}, 400, id="event_data without event_name"),
    pytest.param(f"{SITE}/crawlers", {"purpose": "search"}, {}, 200, id="crawlers"),
    pytest.param(f"{SITE}/crawlers", {"format": "csv"}, {}, 200, id="crawlers as csv"),
    pytest.param(f"{SITE}/crawlers", {"purpose": "x"}, {}, 400, id="crawlers of an unknown purpose"),
    pytest.param(f"{SITE}/rejected", {}, {}, 200, id="rejected"),
    pytest.param(f"{SITE}/rejected", {"tz": "Asia/Kolkata", "format": "csv"}, {}, 200, id="rejected as csv"),
    pytest.param(f"{SITE}/rejected", {"from": "2026-11-01T10:00"}, {}, 400, id="rejected with a time of day"),
    pytest.param(f"{SITE}/goals/report", {}, {}, 200, id="goals/report"),
    pytest.param(f"{SITE}/goals/report", {"format": "csv"}, {}, 200, id="goals/report as csv"),
    *(
        pytest.param(f"{SITE}/{name}", {"goal": GOAL, "segment": SEGMENT}, {}, 200, id=f"{name} with a goal")
        for name in ("stats", "timeseries", "top/os")
    ),
    pytest.param(f"{SITE}/stats", {"goal": GOAL, "compare": "previous"}, {}, 200, id="a goal compared"),
    pytest.param(f"{SITE}/events", {"filter_goal": GOAL}, {}, 200, id="events of a goal"),
    pytest.param(f"{SITE}/stats", {"goal": "0" * 16}, {}, 400, id="an unknown goal"),
    *(pytest.param(f"{SITE}/{name}", {}, {}, 200, id=name) for name in SAVED),
    *(pytest.param(f"{SITE}/{name}", {"limit": "1"}, {}, 400, id=f"{name} has no parameters") for name in SAVED),
    pytest.param("/api/v1/websites", {"page": "2"}, {}, 400, id="websites has no parameters"),
    pytest.param(f"{SITE}/stats", {"filter_town": ["Bonn"]}, {}, 400, id="an unknown filter"),
    pytest.param(f"{SITE}/stats", {"tz": ["UTC", "UTC"]}, {}, 400, id="a single value twice"),
    pytest.param(f"{SITE}/stats", {"filter_type": ["click"]}, {}, 400, id="an unknown type"),
    pytest.param(f"{SITE}/timeseries", {"interval": "fortnight"}, {}, 400, id="an unknown interval"),
    pytest.param(f"{SITE}/timeseries", {"from": "1970-01-01"}, {}, 400, id="too many buckets"),
    pytest.param(f"{SITE}/top/town", {}, {}, 400, id="an unknown field"),
    pytest.param(f"{SITE}/top/os", {"limit": "0"}, {}, 400, id="limit 0"),
    pytest.param(f"{SITE}/events", {"cursor": "damaged"}, {}, 400, id="an invalid cursor"),
    pytest.param(f"{SITE}/realtime", {"filter_os": ["iOS"]}, {}, 400, id="realtime has no filters"),
    *(
        pytest.param(path.format(id=WEBSITE, field="os"), {}, {"Authorization": sent}, 401, id=f"{path}-{sent}")
        for path in READ_PATHS
        for sent in ("Bearer wrong", "Basic d3Jvbmc6", "")
    ),
    *(
        pytest.param(path.format(id=sent, field="os"), {}, {}, 404, id=f"{path} of {name}")
        for path in READ_PATHS[1:]
        for sent, name in ((ELSEWHERE, "an unknown website"), ("example.com", "a malformed id"))
    ),
]


@cases(("path", "query", "headers", "status"), READ_CASES)
def test_read_responses(site: Site, path: str, query: dict[str, Any], headers: dict[str, str], status: int) -> None:
    assert ask(site, "GET", path, query=query, headers=headers).status_code == status


@pytest.fixture
def site_of_rollups(sites: Sites) -> Site:
    """A site whose day 20,000, 2024-10-04, is kept as rollups only: state 3."""
    site = sites.start(*NO_RATE_LIMITS)
    with closing(open_database(site.db, create=False)) as connection:
        connection.execute("insert into rollup_state select number, 0, 0, 20000, 3, 1, 1 from website")
    return site


@cases("name", [endpoint.path for endpoint in ENDPOINTS if endpoint.filters])
def test_queries_beyond_retention(site_of_rollups: Site, name: str) -> None:
    """Return 400 `beyond_retention` with the time from which rows are kept."""
    path = f"{SITE}/{name}".replace("{field}", "os")
    query = {
        "from": "2024-10-04T10:00Z",
        "to": "2024-10-05T10:00Z",
        "filter_type": ["event"],
        **REQUIRED[name],
    }

    answer = ask(site_of_rollups, "GET", path, query=query)

    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "beyond_retention")
    assert "2024-10-05T00:00:00.000+00:00" in answer.json()["error"]["message"]


COLLECT_CASES = [
    pytest.param(PAGEVIEW, {}, 202, id="a pageview"),
    pytest.param({"events": [PAGEVIEW, {"type": "click"}]}, {}, 202, id="one of two rejected"),
    pytest.param(PAGEVIEW, {"Origin": "https://shop.example.com"}, 202, id="from a subdomain"),
    pytest.param({"website_id": WEBSITE}, {}, 400, id="no valid event"),
    pytest.param([PAGEVIEW], {}, 400, id="not an object"),
    pytest.param({"events": []}, {}, 400, id="no events"),
    pytest.param({"website_id": WEBSITE, "events": [PAGEVIEW] * 51}, {}, 400, id="51 events"),
    pytest.param(PAGEVIEW, {"Origin": "https://example.org"}, 403, id="a foreign origin"),
    pytest.param(PAGEVIEW | {"website_id": ELSEWHERE}, {}, 404, id="an unknown website"),
    pytest.param(PAGEVIEW | {"more": "x" * 65_536}, {}, 413, id="too large"),
    pytest.param(PAGEVIEW, {"Content-Encoding": "gzip"}, 415, id="compressed"),
]


@cases("path", COLLECT_PATHS)
@cases(("body", "headers", "status"), COLLECT_CASES)
def test_collect_responses(site: Site, path: str, body: object, headers: dict[str, str], status: int) -> None:
    assert ask(site, "POST", path, body=body, headers=headers).status_code == status


TEXTS = [pytest.param(json.dumps(PAGEVIEW), 202, id="an event"), pytest.param("{", 400, id="not JSON")]


@pytest.mark.parametrize(("body", "status"), TEXTS)
def test_collect_responses_to_plain_text(site: Site, body: str, status: int) -> None:
    """Browsers send the body as text/plain."""
    text = body.replace(WEBSITE, site.website)

    assert ask(site, "POST", "/api/collect", body=text, media_type="text/plain").status_code == status


def test_rejected_events_response(site: Site) -> None:
    """All codes and reasons of rejected events are in the document."""
    # Counts are written within about a second.
    for agent, origin in (("Googlebot/2.1", "https://example.com"), ("", "https://other.example"), ("", "null")):
        ask(site, "POST", "/api/collect", body=PAGEVIEW, headers={"Origin": origin, "User-Agent": agent or "x"})
    wrong = [{"type": "click"}, PAGEVIEW | {"url": "/"}, PAGEVIEW | {"timestamp": 0}]
    ask(site, "POST", "/api/collect", body={"website_id": WEBSITE, "events": wrong})
    found: list[Any] = []

    def has_all() -> bool:
        found[:] = [ask(site, "GET", f"{SITE}/rejected").json()["data"]]
        expected = {"crawler", "origin_not_allowed", "invalid_type", "invalid_url", "timestamp_too_old"}
        return expected <= {row["code"] for row in found[0]["reasons"]}

    until(has_all)
    assert {"Googlebot"} <= {sample["crawler"] for sample in found[0]["samples"]}
    assert [{code for code, _ in rejected_events.REASONS}, {reason for _, reason in rejected_events.REASONS}] == [
        {*SCHEMAS["RejectedCode"]["enum"]},
        {*SCHEMAS["RejectedReasonName"]["enum"]},
    ]


@pytest.mark.parametrize("name", ["stats", "timeseries", "top/os", "events"])
def test_not_modified(site: Site, name: str) -> None:
    """`If-None-Match` with the ETag of an unchanged response returns 304 without a body."""
    tag = ask(site, "GET", f"{SITE}/{name}", query=DAY).headers["etag"][0]
    again = ask(site, "GET", f"{SITE}/{name}", query=DAY, headers={"If-None-Match": tag})

    assert (again.status_code, again.content) == (304, b"")


def test_csv_pages_have_a_link_header(site: Site) -> None:
    """A CSV page links to the next one; the last page has no Link header."""
    first = ask(site, "GET", f"{SITE}/events", query={"limit": 2, "format": "csv"})
    last = ask(site, "GET", f"{SITE}/events", query=DAY | {"format": "csv"})

    assert first.headers["link"][0].endswith('rel="next"')
    assert "link" not in last.headers


def test_client_rate_limit_response(sites: Sites) -> None:
    """A client over its rate limit gets 429 `rate_limited`."""
    site = sites.start("--client-per-minute=1")
    answers = [ask(site, "POST", "/api/collect", body=PAGEVIEW) for _ in range(2)]

    assert [answer.status_code for answer in answers] == [202, 429]


def test_monthly_limit_response(sites: Sites) -> None:
    """An account over its monthly limit gets 429 `monthly_limit_reached`."""
    site = sites.start("--free-events=1", plan="free")
    answers = [ask(site, "POST", "/api/collect", body=PAGEVIEW) for _ in range(2)]

    assert [answer.status_code for answer in answers] == [202, 429]


def test_key_rate_limit_response(sites: Sites) -> None:
    """A key over its rate limit gets 429 with Retry-After."""
    site = sites.start("--key-per-minute=1")
    answers = [ask(site, "GET", "/api/v1/websites") for _ in range(2)]

    assert [answer.status_code for answer in answers] == [200, 429]


def test_plan_without_keys_response(sites: Sites) -> None:
    """A key of an account whose plan has no keys gets 403 `plan_has_no_keys`."""
    assert ask(sites.start(plan="free"), "GET", "/api/v1/websites").status_code == 403


def test_metrics_forbidden_response(site: Site) -> None:
    """`/metrics` is for loopback clients, or for a token from the settings."""
    answer = ask(site, "GET", "/metrics", headers={"X-Forwarded-For": "203.0.113.7"})

    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "forbidden")


def test_the_server_serves_the_document(site: Site) -> None:
    """`/api/v1/openapi.yaml` equals static/openapi.yaml."""
    assert read(ask(site, "GET", "/api/v1/openapi.yaml").content) == DOCUMENT


# aiohttp's max_line_size is 8,190 bytes: a longer request line never reaches the server's code.
LONGEST_QUERY = 8_000
# How much of a random request is replaced by valid values: random ones have no valid id, key or time zone.
AIMS = ("random", "with a key", "with a key and a website", "valid", "plain")
OPERATIONS = [(method, path) for path, item in DOCUMENT["paths"].items() for method in item]
BY_PAGES = [row for row in OPERATIONS if row not in MANAGED]
WITHOUT_PARAMETERS = ("/api/v1/openapi.yaml", "/healthz", "/metrics")


def aimed(case: schemathesis.Case[Any], aim: str, site: Site) -> schemathesis.Case[Any]:
    """Return the random request with the parts that `aim` names replaced by valid values."""
    if aim == "random":
        return case
    case.headers = {**(case.headers or {}), "Authorization": f"Bearer {site.key}"}
    if aim == "with a key":
        return case
    if "id" in case.path_parameters:
        case.path_parameters = case.path_parameters | {"id": site.website}
    if isinstance(case.body, dict) and case.operation.path in COLLECT_PATHS:
        case.body = case.body | {"website_id": site.website}
    if aim == "with a key and a website":
        return case
    if "token" in case.path_parameters:
        case.path_parameters = case.path_parameters | {"token": SHARE_TOKEN}
    if "field" in case.path_parameters:
        case.path_parameters = case.path_parameters | {"field": "os"}
    case.headers = {"Authorization": f"Bearer {site.key}"}
    # Random values of these are seldom valid; without them the server uses defaults.
    seldom = ("from", "to", "tz", "cursor", "segment", "filter_goal", "goal")
    if aim == "plain":
        case.query = REQUIRED.get(case.operation.path.rpartition("/")[2], {})
    else:
        case.query = {k: v for k, v in (case.query or {}).items() if k not in seldom}
    if case.operation.path in COLLECT_PATHS:
        case.body = aimed_body(case.body, aim, site)
    elif aim == "plain" and (case.operation.method, case.operation.path) in MANAGED:
        case.body = example_body(case)
    return case


def example_body(case: schemathesis.Case[Any]) -> Any:
    """Return the example of an operation's body, or the body as it is."""
    operation = DOCUMENT["paths"][case.operation.path][case.operation.method]
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    return content.get("example", case.body)


def aimed_body(body: Any, aim: str, site: Site) -> Any:
    """Return the body with the site's id; for `plain` and for texts a valid pageview."""
    known = filled(PAGEVIEW, site.website)
    if aim == "plain" or not isinstance(body, dict):
        return json.dumps(known) if isinstance(body, str) else known
    here = {"website_id": site.website, "timestamp": None}
    if not isinstance(body.get("events"), list):
        return body | here
    return body | here | {"events": [i | here if isinstance(i, dict) else i for i in body["events"]]}


@pytest.mark.in_turn
@pytest.mark.slow
@cases(("method", "path"), BY_PAGES, ids=[path for _, path in BY_PAGES])
def test_responses_to_random_requests(site: Site, method: str, path: str) -> None:
    # Requests have an X-Schemathesis-... header, which looks like a proxy's: /metrics then requires a token.
    expected = 403 if path == "/metrics" else 202 if method == "post" else 200
    assert expected in statuses_of_random_requests(site, method, path)


@pytest.mark.in_turn
@pytest.mark.slow
@cases(("method", "path"), MANAGED, ids=[f"{method} {path}" for method, path in MANAGED])
def test_responses_to_random_changes(managed: Site, method: str, path: str) -> None:
    met = statuses_of_random_requests(managed, method, path)
    # What is saved, imported and uploaded is not known to random requests.
    saved = {"{definition}", "{link}", "{channel}", "{report}", "{alert}", "{number}"}
    is_known = not saved & set(path.split("/")) and (
        ("/imports" not in path or method == "get")
        # The channels of the example are not those of the account.
        and (method, path) != ("post", "/api/v1/reports")
    )
    # The example adds a domain that the account has already.
    assert not is_known or {200, 201, 202, 204, 409} & met


def statuses_of_random_requests(site: Site, method: str, path: str) -> set[int]:
    """Send requests of an operation, validate their responses, and return their statuses."""
    operation = SCHEMA[path][method]
    drawn = operation.as_strategy(generation_mode=schemathesis.GenerationMode.POSITIVE)
    if path not in WITHOUT_PARAMETERS:
        drawn |= operation.as_strategy(generation_mode=schemathesis.GenerationMode.NEGATIVE)
    met: set[int] = set()

    @settings(
        max_examples=8,  # 100 requests take about 2 s per operation
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=drawn)
    def run(case: schemathesis.Case[Any], aim: str) -> None:
        request = aimed(case, aim, site)
        assume(len(urlencode(request.query or {}, doseq=True)) < LONGEST_QUERY)
        met.add(request.call_and_validate(base_url=site.url, checks=CHECKS).status_code)

    for aim in AIMS:  # each by itself, so that every run sends plain requests too
        run(aim=aim)
    return met
