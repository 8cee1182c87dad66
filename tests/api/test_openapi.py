"""static/openapi.yaml says what the server does.

First the document alone (valid, complete, its examples true), then the document against the code's tables, then against
a real server: asked by hand for each status that chance does not meet, and asked at random. Answers are held against a
closed copy of the document, in which an object may have no key that is not described.
"""

import json
import tomllib
from collections.abc import Iterator
from contextlib import closing
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import pytest
import schemathesis
import yaml
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
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

from tally import errors
from tally.accounts.accounts import create_account, set_plan
from tally.accounts.api_keys import create_api_key
from tally.accounts.websites import add_website
from tally.clock import Clock
from tally.events import validation as events
from tally.http import request_paths
from tally.ingest import rejected_events
from tally.storage.database import open_database
from tally.web.routes import ROUTES
from tests.support.app import OWNER, ROOT
from tests.support.cases import cases
from tests.support.process import NO_RATE_LIMITS, Server, until
from tests.support.selection import examples as amount_of_examples

DOCUMENT: dict[str, Any] = yaml.safe_load(
    (Path(__file__).parents[2] / "static" / "openapi.yaml").read_text(encoding="utf-8")
)
SCHEMAS: dict[str, Any] = DOCUMENT["components"]["schemas"]
NAME = "urn:openapi"

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    response_headers_conformance,
]

# docs/reference/read-api.md, Filters: the 14 dimensions.
FIELDS = (
    *("pathname", "referrer", "country", "browser", "os", "device", "language", "hostname"),
    *("utm_source", "utm_medium", "utm_campaign", "platform", "app_version", "os_version"),
)
# "filter_<field>=value on stats, timeseries, top and events".
FILTERED = ("stats", "timeseries", "top/{field}", "events", "event-names", "entry-pages", "exit-pages")
# Of measurements: the 14 fields alone.
MEASURED = ("vitals", "experiments")
# Of heatmaps: how wide a page was seen.
HEATMAPS = ("heatmap", "heatmap-pages")
# Of visits and custom events, which have a type.
FOLLOWED = ("funnel", "event-data")
NEEDED: dict[str, dict[str, Any]] = {
    "funnel": {"step": ["pathname:/", "event_name:signup"]},
    "event-data": {"event_name": "signup"},
}
ABOUT_ONE = (*FILTERED, "realtime", *MEASURED, *HEATMAPS, *FOLLOWED, "rejected")
READ_PATHS = ("/api/v1/websites", *(f"/api/v1/websites/{{id}}/{name}" for name in ABOUT_ONE))
COLLECT_PATHS = ("/api/collect", "/api/v1/collect")


def at(pointer: str) -> Any:
    """The node of the document at a JSON pointer (`#/a/b`)."""
    node: Any = DOCUMENT
    for part in pointer.removeprefix("#/").split("/"):
        part = part.replace("~1", "/").replace("~0", "~")
        node = node[int(part)] if isinstance(node, list) else node[part]
    return node


def resolved(node: dict[str, Any]) -> dict[str, Any]:
    """The node, or what it refers to."""
    return at(node["$ref"]) if "$ref" in node else node


def nodes(node: Any, pointer: str = "#") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every object below `node`, with its pointer."""
    if isinstance(node, dict):
        yield pointer, node
    children = node if isinstance(node, dict) else dict(enumerate(node)) if isinstance(node, list) else {}
    for key, child in children.items():
        yield from nodes(child, f"{pointer}/{str(key).replace('~', '~0').replace('/', '~1')}")


def referred(node: Any) -> set[str]:
    """Pointers of everything that a node refers to, over any number of steps."""
    found: set[str] = set()
    todo = [node]
    while todo:
        new = {n["$ref"] for _, n in nodes(todo.pop()) if isinstance(n.get("$ref"), str)} - found
        found |= new
        todo += map(at, new)
    return found


def closed(document: dict[str, Any]) -> dict[str, Any]:
    """A copy in which answers may hold no key that is not described; what clients send stays open."""
    copy = deepcopy(document)
    sent = referred(document["components"]["requestBodies"])
    for name, schema in copy["components"]["schemas"].items():
        described = schema.get("type") == "object" and "properties" in schema
        if described and f"#/components/schemas/{name}" not in sent:
            schema.setdefault("additionalProperties", False)
    return copy


CLOSED = closed(DOCUMENT)
REGISTRY: Registry[Any] = Registry().with_resource(NAME, DRAFT202012.create_resource(CLOSED))


def complaints(value: object, pointer: str) -> list[str]:
    """What is wrong with a value by the schema at the pointer."""
    schema = {"$ref": f"{NAME}{pointer}"}
    validator = Draft202012Validator(schema, registry=REGISTRY, format_checker=Draft202012Validator.FORMAT_CHECKER)
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(value)]


# ---- the document alone ------------------------------------------------------------------------------------


def test_it_is_valid_openapi_3_1() -> None:
    validate(DOCUMENT)  # raises where it is not

    assert DOCUMENT["openapi"].startswith("3.1.")


def test_it_names_the_version_and_the_licence() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    info = DOCUMENT["info"]
    assert (info["version"], info["license"]["identifier"]) == (project["version"], project["license"])


def test_no_description_is_cut_at_a_comma() -> None:
    """In YAML a comma ends an unquoted text of {...}; what follows becomes a key."""

    def keys(value: Any) -> Iterator[str]:
        if isinstance(value, dict):
            yield from map(str, value)
        for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            yield from keys(item)

    assert [key for key in keys(DOCUMENT) if " " in key] == []


def test_every_component_is_used() -> None:
    defined = {f"#/components/{kind}/{name}" for kind, of in DOCUMENT["components"].items() for name in of}
    schemes = {f"#/components/securitySchemes/{name}" for name in DOCUMENT["components"]["securitySchemes"]}

    assert defined - schemes == referred(DOCUMENT["paths"])


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
    "401": {"missing_api_key", "invalid_api_key"},
    "403": {"plan_has_no_keys"},
    "404": {"unknown_website"},
    "429": {"rate_limited"},
    "500": {"internal_error"},
    "503": {"storage_unavailable", "overloaded", "query_timeout"},
}
# "a question that needs raw rows that are gone is answered 400 `beyond_retention`": where figures are of a range.
RANGE_CODES = READ_CODES | {"400": {"invalid_parameter", "beyond_retention"}}
CODES = (
    [("post", path, COLLECT_CODES) for path in COLLECT_PATHS]
    # /websites names no website, so none can be unknown.
    + [("get", READ_PATHS[0], {status: codes for status, codes in READ_CODES.items() if status != "404"})]
    + [
        ("get", path, READ_CODES if path.endswith(("realtime", "rejected", *HEATMAPS)) else RANGE_CODES)
        for path in READ_PATHS[1:]
    ]
)


@cases(("method", "path", "codes"), CODES, ids=[path for _, path, _ in CODES])
def test_every_status_names_its_codes(method: str, path: str, codes: dict[str, set[str]]) -> None:
    answers = DOCUMENT["paths"][path][method]["responses"]
    told = {
        status: set(schema["properties"]["error"]["properties"]["code"]["enum"])
        for status, answer in answers.items()
        if status >= "400"
        for schema in [resolved(answer)["content"]["application/json"]["schema"]]
    }

    assert told == codes


def test_the_codes_of_rejected_events_are_the_contracts() -> None:
    """Codes: `invalid_type`, ... `crawler`."""
    assert SCHEMAS["EventErrorCode"]["enum"] == [
        *("invalid_type", "invalid_website_id", "unknown_website", "origin_not_allowed", "missing_field"),
        *("invalid_field", "invalid_url", "invalid_event_data", "event_data_too_large", "timestamp_too_old"),
        *("timestamp_in_future", "monthly_limit_reached", "no_assignment", "crawler"),
    ]


def test_the_list_of_codes_is_the_servers() -> None:
    kinds = {value.code for value in vars(errors).values() if isinstance(value, errors.Kind)}

    assert set(SCHEMAS["ErrorCode"]["enum"]) == kinds - {kind.code for kind in errors.OF_PAGES}


@cases("name", [*FILTERED, *MEASURED, *FOLLOWED])
def test_every_field_is_a_filter(name: str) -> None:
    """Any of the 14 fields of :field, and `event_name`, `type`."""
    others = () if name in MEASURED else ("type",) if name == "event-data" else ("event_name", "type")
    operation = DOCUMENT["paths"][f"/api/v1/websites/{{id}}/{name}"]["get"]
    filters = [p for p in map(resolved, operation["parameters"]) if p["name"].startswith("filter_")]

    assert [p["name"] for p in filters] == [f"filter_{field}" for field in (*FIELDS, *others)]
    assert {(p["in"], p["style"], p["explode"], resolved(p["schema"])["type"]) for p in filters} == {
        ("query", "form", True, "array")
    }


@cases("path", READ_PATHS)
def test_reading_needs_a_key(path: str) -> None:
    """`Authorization: Bearer <API_KEY>`; missing or wrong: 401."""
    assert DOCUMENT["paths"][path]["get"]["security"] == [{"apiKey": []}]


@pytest.mark.parametrize("path", COLLECT_PATHS)
def test_collecting_needs_no_key(path: str) -> None:
    """Collect (/api/collect and /api/v1/collect) | None."""
    assert "security" not in DOCUMENT["paths"][path]["post"]
    assert "security" not in DOCUMENT


def test_top_takes_the_14_fields() -> None:
    assert tuple(SCHEMAS["Field"]["enum"]) == FIELDS


def test_the_columns_of_events_are_the_contracts() -> None:
    """The columns of /websites/:id/events."""
    columns = ["id", "type", "timestamp", *FIELDS, "event_name", "event_data", "visit", "vitals"]
    columns += ["experiment", "variant", "goal", "value"]

    assert list(SCHEMAS["StoredEvent"]["properties"]) == columns
    assert SCHEMAS["StoredEvent"]["required"] == columns


def examples() -> Iterator[tuple[str, Any]]:
    """(pointer to a schema, a value said to be an example of it) for every example of the document."""
    for pointer, node in nodes(DOCUMENT):
        below = f"{pointer}/schema"
        if "schema" in node and "example" in node:
            yield below, node["example"]
        if "schema" in node and "examples" in node:
            yield from ((below, told["value"]) for told in node["examples"].values())
        if "schema" not in node and isinstance(node.get("examples"), list):
            yield from ((pointer, value) for value in node["examples"])


EXAMPLES = list(examples())


@cases(("pointer", "value"), EXAMPLES, ids=[pointer for pointer, _ in EXAMPLES])
def test_every_example_fits_its_schema(pointer: str, value: object) -> None:
    assert complaints(value, pointer) == []


def test_the_example_in_plain_text_is_an_event() -> None:
    """The body is sent as text/plain ...; the service reads it as JSON."""
    pointer = "#/components/requestBodies/Collect/content/text~1plain"

    assert complaints(json.loads(at(pointer)["example"]), f"{pointer}/schema/contentSchema") == []


BAD_ANSWERS = [
    pytest.param({"ok": True, "accepted": 1}, "CollectAnswer", id="a required key is missing"),
    pytest.param({"data": [], "meta": {"page": 1}}, "WebsitesAnswer", id="a key nobody described"),
    pytest.param({"ok": False, "error": {"code": "x", "message": "x"}}, "Error", id="an unknown code"),
    pytest.param({"type": "pageview"}, "SingleEvent", id="a pageview without its url"),
    pytest.param("2026-11-21T00:00:00Z", "Time", id="a time without milliseconds"),
]


@pytest.mark.parametrize(("value", "name"), BAD_ANSWERS)
def test_the_schemas_refuse_what_is_wrong(value: object, name: str) -> None:
    assert complaints(value, f"#/components/schemas/{name}") != []


# ---- the document and the code's tables --------------------------------------------------------------------


def test_routes_and_document_agree() -> None:
    """The public API alone: what the pages ask of their own server may change with them."""
    pages = {
        "tally.api.account",
        "tally.web.pages",
        "tally.web.tracker",
        "tally.api.websites",
    }
    public = [row for row in ROUTES if row.handler.__module__ not in pages]
    routed = {(row.method, row.path) for row in public if not row.path.startswith(request_paths.ACCOUNT_PATHS)}
    documented = {(method.upper(), path) for path, item in DOCUMENT["paths"].items() for method in item}

    assert documented == {row for row in routed if row[0] not in ("HEAD", "OPTIONS")}


@cases("number", range(len(events.TYPES)), ids=events.TYPES)
def test_the_fields_of_a_type_are_those_the_server_reads(number: int) -> None:
    schema = at(SCHEMAS["Event"]["discriminator"]["mapping"][events.TYPES[number]])
    told = {*SCHEMAS["EventFields"]["properties"], *schema["properties"]}

    assert told == {*events.RULES[number], *events.FLAT.get(number, ()), "type", "website_id", "timestamp"}
    assert set(schema["required"]) == {"type", *events.REQUIRED[number]}


def test_a_context_fills_the_fields_of_the_contract() -> None:
    """`context` may fill platform, app_version, os_version, language, browser, os, device."""
    told = ["platform", "app_version", "os_version", "language", "browser", "os", "device"]

    assert list(SCHEMAS["Context"]["properties"]) == told


# ---- the document and a server -----------------------------------------------------------------------------

SCHEMA = schemathesis.openapi.from_dict(CLOSED)
WEBSITE = "{website}"  # stands for the real id in the tables below
SITE = f"/api/v1/websites/{WEBSITE}"
PAGE = "https://www.example.com/pricing?utm_source=newsletter"
PAGEVIEW = {"type": "pageview", "website_id": WEBSITE, "url": PAGE}
# One of each type, so that every kind of row is in the answers.
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
# So many that no limit but the one under test is met.


class Site(NamedTuple):
    """A running server, a website of it that has a few events, and a key that may read it."""

    url: str
    website: str
    key: str
    db: Path


class Sites:
    """Starts servers on files of their own, each with one website and one key, and ends them."""

    def __init__(self, folders: pytest.TempPathFactory) -> None:
        self._folders = folders
        self._servers: list[Server] = []

    def start(self, *options: str, plan: str = "business") -> Site:
        """A server with these options, whose website and key belong to an account of the plan."""
        folder = self._folders.mktemp("site")
        db = folder / "analytics.db"
        now_ms = Clock().wall_ms()
        with closing(open_database(db, create=True)) as connection:
            connection.execute("begin immediate")
            owner = create_account(connection, OWNER, "business", None, now_ms)
            website = add_website(connection, owner, "example.com", "Example", (), now_ms)
            key = create_api_key(connection, owner, "", now_ms)
            set_plan(connection, OWNER, plan)
            connection.execute("commit")
        server = Server(db, options, {}, folder / "stderr.log", [])
        self._servers.append(server)
        return Site(server.url, website, key, db)

    def end(self) -> None:
        """Ends all servers."""
        for server in self._servers:
            server.kill()


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sites]:
    started = Sites(tmp_path_factory)
    yield started
    started.end()


@pytest.fixture(scope="module")
def site(sites: Sites) -> Site:
    """A site without limits in the way, with an event of each type. One for all tests: none needs it empty."""
    started = sites.start(*NO_RATE_LIMITS)
    stored = ask(started, "POST", "/api/collect", body={"website_id": WEBSITE, "events": STORED})
    assert stored.json() == {"ok": True, "accepted": len(STORED), "rejected": 0}
    return started


def filled(value: Any, website: str) -> Any:
    """The value with the real id where WEBSITE stands for it."""
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
    """Asks the server as the document describes, with the key, and holds the answer against the document."""
    template, parameters = template_of(path)
    case = SCHEMA[template][method].Case(
        path_parameters=filled(parameters, site.website),
        query=query or {},
        headers={"Authorization": f"Bearer {site.key}", **(headers or {})},
        **({"body": filled(body, site.website), "media_type": media_type} if method == "POST" else {}),
    )
    return case.call_and_validate(base_url=site.url, checks=CHECKS)


def template_of(path: str) -> tuple[str, dict[str, str]]:
    """The path of the document that a path belongs to, and what stands in its parameters."""
    parts = path.split("/")
    for template in DOCUMENT["paths"]:
        names = template.split("/")
        given_for = {n.strip("{}"): p for n, p in zip(names, parts, strict=False) if n.startswith("{")}
        if len(names) == len(parts) and template.format(**given_for) == path:
            return template, given_for
    raise LookupError(path)


ELSEWHERE = "00000000-0000-4000-8000-000000000000"
DAY = {"from": "2026-11-01", "to": "2026-11-01"}

READ_CASES = [
    pytest.param("/api/v1/websites", {}, {}, 200, id="websites"),
    pytest.param(f"{SITE}/stats", {}, {}, 200, id="stats"),
    pytest.param(f"{SITE}/stats", {"compare": "previous"}, {}, 200, id="stats compared"),
    pytest.param(f"{SITE}/stats", DAY | {"compare": "previous"}, {}, 200, id="stats where nothing happened"),
    pytest.param(f"{SITE}/stats", {"filter_type": ["pageview", "event"]}, {}, 200, id="a filter twice"),
    pytest.param(f"{SITE}/stats", {"filter_utm_medium": [""]}, {}, 200, id="a filter for unset"),
    pytest.param(f"{SITE}/timeseries", {"interval": "hour", "tz": "Asia/Kolkata"}, {}, 200, id="hours"),
    pytest.param(f"{SITE}/timeseries", {"format": "csv"}, {}, 200, id="timeseries as csv"),
    pytest.param(f"{SITE}/top/platform", {"limit": 1}, {}, 200, id="top"),
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
    pytest.param(f"{SITE}/vitals", {"filter_type": ["vitals"]}, {}, 400, id="a filter that vitals do not take"),
    pytest.param(f"{SITE}/experiments", {}, {}, 200, id="experiments"),
    pytest.param(f"{SITE}/experiments", {"format": "csv"}, {}, 200, id="experiments as csv"),
    pytest.param(f"{SITE}/heatmap", {"pathname": "/pricing"}, {}, 200, id="heatmap"),
    pytest.param(f"{SITE}/heatmap", {"pathname": "/no", "tz": "Asia/Kolkata"}, {}, 200, id="a heatmap without points"),
    pytest.param(f"{SITE}/heatmap", {"pathname": "/", "filter_device": ["mobile", "tablet"]}, {}, 200, id="widths"),
    pytest.param(f"{SITE}/heatmap", {"pathname": "/pricing", "format": "csv"}, {}, 200, id="heatmap as csv"),
    pytest.param(f"{SITE}/heatmap", {}, {}, 400, id="a heatmap of no page"),
    pytest.param(f"{SITE}/heatmap", {"pathname": "/", "filter_device": ["tv"]}, {}, 400, id="an unknown width"),
    pytest.param(f"{SITE}/heatmap-pages", {}, {}, 200, id="pages with heatmaps"),
    pytest.param(f"{SITE}/heatmap-pages", {"limit": 1, "format": "csv"}, {}, 200, id="pages with heatmaps as csv"),
    pytest.param(f"{SITE}/heatmap-pages", {"filter_os": ["iOS"]}, {}, 400, id="a filter that heatmaps do not take"),
    pytest.param(f"{SITE}/funnel", NEEDED["funnel"], {}, 200, id="a funnel"),
    pytest.param(f"{SITE}/funnel", NEEDED["funnel"] | {"format": "csv"}, {}, 200, id="a funnel as csv"),
    pytest.param(f"{SITE}/funnel", {"step": ["pathname:/"]}, {}, 400, id="a funnel of one step"),
    pytest.param(f"{SITE}/event-data", NEEDED["event-data"], {}, 200, id="event_data"),
    pytest.param(f"{SITE}/event-data", NEEDED["event-data"] | {"format": "csv"}, {}, 200, id="event_data as csv"),
    pytest.param(f"{SITE}/event-data", {}, {}, 400, id="event_data of no name"),
    pytest.param(f"{SITE}/rejected", {}, {}, 200, id="what was left out"),
    pytest.param(f"{SITE}/rejected", {"tz": "Asia/Kolkata", "format": "csv"}, {}, 200, id="what was left out as csv"),
    pytest.param(f"{SITE}/rejected", {"from": "2026-11-01T10:00"}, {}, 400, id="no day"),
    pytest.param("/api/v1/websites", {"page": "2"}, {}, 400, id="websites takes nothing"),
    pytest.param(f"{SITE}/stats", {"filter_city": ["Bonn"]}, {}, 400, id="an unknown filter"),
    pytest.param(f"{SITE}/stats", {"tz": ["UTC", "UTC"]}, {}, 400, id="a single value twice"),
    pytest.param(f"{SITE}/stats", {"filter_type": ["click"]}, {}, 400, id="an unknown type"),
    pytest.param(f"{SITE}/timeseries", {"interval": "week"}, {}, 400, id="an unknown interval"),
    pytest.param(f"{SITE}/timeseries", {"from": "1970-01-01"}, {}, 400, id="too many buckets"),
    pytest.param(f"{SITE}/top/city", {}, {}, 400, id="an unknown field"),
    pytest.param(f"{SITE}/top/os", {"limit": "0"}, {}, 400, id="limit 0"),
    pytest.param(f"{SITE}/events", {"cursor": "damaged"}, {}, 400, id="a damaged cursor"),
    pytest.param(f"{SITE}/realtime", {"filter_os": ["iOS"]}, {}, 400, id="realtime takes no filter"),
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
def test_an_answer_is_as_described(
    site: Site, path: str, query: dict[str, Any], headers: dict[str, str], status: int
) -> None:
    assert ask(site, "GET", path, query=query, headers=headers).status_code == status


@cases("name", [*FILTERED, *FOLLOWED])
def test_events_that_are_gone_are_described(sites: Sites, name: str) -> None:
    """The rule: "answered 400 `beyond_retention`, saying from when it can be asked"."""
    site = sites.start(*NO_RATE_LIMITS)
    with closing(open_database(site.db, create=False)) as connection:
        # Day 20,000, 2024-10-04, is kept as rollups alone: state 3.
        connection.execute("insert into rollup_state select number, 0, 20000, 3, 20001 * 86400000, 1 from website")
    path = f"{SITE}/{name}".replace("{field}", "os")
    query = {"from": "2024-10-04T10:00Z", "to": "2024-10-05T10:00Z", "filter_type": ["event"], **NEEDED.get(name, {})}

    answer = ask(site, "GET", path, query=query)

    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "beyond_retention")
    assert "2024-10-05T00:00:00.000+00:00" in answer.json()["error"]["message"]


COLLECT_CASES = [
    pytest.param(PAGEVIEW, {}, 202, id="a pageview"),
    pytest.param({"events": [PAGEVIEW, {"type": "click"}]}, {}, 202, id="one of two rejected"),
    pytest.param(PAGEVIEW, {"Origin": "https://shop.example.com"}, 202, id="from a subdomain"),
    pytest.param({"website_id": WEBSITE}, {}, 400, id="no valid event"),
    pytest.param([PAGEVIEW], {}, 400, id="no object"),
    pytest.param({"events": []}, {}, 400, id="no events"),
    pytest.param({"website_id": WEBSITE, "events": [PAGEVIEW] * 51}, {}, 400, id="51 events"),
    pytest.param(PAGEVIEW, {"Origin": "https://example.org"}, 403, id="a foreign origin"),
    pytest.param(PAGEVIEW | {"website_id": ELSEWHERE}, {}, 404, id="an unknown website"),
    pytest.param(PAGEVIEW | {"more": "x" * 65_536}, {}, 413, id="too large"),
    pytest.param(PAGEVIEW, {"Content-Encoding": "gzip"}, 415, id="compressed"),
]


@cases("path", COLLECT_PATHS)
@cases(("body", "headers", "status"), COLLECT_CASES)
def test_an_answer_to_an_event_is_as_described(
    site: Site, path: str, body: object, headers: dict[str, str], status: int
) -> None:
    assert ask(site, "POST", path, body=body, headers=headers).status_code == status


TEXTS = [pytest.param(json.dumps(PAGEVIEW), 202, id="an event"), pytest.param("{", 400, id="not JSON")]


@pytest.mark.parametrize(("body", "status"), TEXTS)
def test_an_answer_to_plain_text_is_as_described(site: Site, body: str, status: int) -> None:
    """From browsers the body is sent as text/plain."""
    text = body.replace(WEBSITE, site.website)

    assert ask(site, "POST", "/api/collect", body=text, media_type="text/plain").status_code == status


def test_what_was_left_out_is_told_as_described(site: Site) -> None:
    """Every code that a website's owner may be told, with examples."""
    # The days' zone is this machine's own UTC; what was counted is written within a second or so.
    for agent, origin in (("Googlebot/2.1", "https://example.com"), ("", "https://other.example"), ("", "null")):
        ask(site, "POST", "/api/collect", body=PAGEVIEW, headers={"Origin": origin, "User-Agent": agent or "x"})
    wrong = [{"type": "click"}, PAGEVIEW | {"url": "/"}, PAGEVIEW | {"timestamp": 0}]
    ask(site, "POST", "/api/collect", body={"website_id": WEBSITE, "events": wrong})
    told: list[Any] = []

    def has_all() -> bool:
        told[:] = [ask(site, "GET", f"{SITE}/rejected").json()["data"]]
        expected = {"crawler", "origin_not_allowed", "invalid_type", "invalid_url", "timestamp_too_old"}
        return expected <= {row["code"] for row in told[0]["reasons"]}

    until(has_all)
    assert {"Googlebot"} <= {sample["crawler"] for sample in told[0]["samples"]}
    assert [{code for code, _ in rejected_events.REASONS}, {reason for _, reason in rejected_events.REASONS}] == [
        {*SCHEMAS["RejectedCode"]["enum"]},
        {*SCHEMAS["RejectedReasonName"]["enum"]},
    ]


@pytest.mark.parametrize("name", ["stats", "timeseries", "top/os", "events"])
def test_an_unchanged_answer_is_304(site: Site, name: str) -> None:
    """`ETag` is a hash of the question ...; `If-None-Match` gives 304."""
    tag = ask(site, "GET", f"{SITE}/{name}", query=DAY).headers["etag"][0]
    again = ask(site, "GET", f"{SITE}/{name}", query=DAY, headers={"If-None-Match": tag})

    assert (again.status_code, again.content) == (304, b"")


def test_the_next_page_of_a_csv_is_in_its_link(site: Site) -> None:
    """`meta.next_cursor` (null at the end; in CSV as a Link header)."""
    first = ask(site, "GET", f"{SITE}/events", query={"limit": 2, "format": "csv"})
    last = ask(site, "GET", f"{SITE}/events", query=DAY | {"format": "csv"})

    assert first.headers["link"][0].endswith('rel="next"')
    assert "link" not in last.headers


def test_a_client_over_its_rate_is_told_as_described(sites: Sites) -> None:
    """Client over its bucket: 429 `rate_limited`."""
    site = sites.start("--client-per-minute=1")
    answers = [ask(site, "POST", "/api/collect", body=PAGEVIEW) for _ in range(2)]

    assert [answer.status_code for answer in answers] == [202, 429]


def test_a_full_month_is_told_as_described(sites: Sites) -> None:
    """Every account concerned has its month full: 429 `monthly_limit_reached`."""
    site = sites.start("--free-events=1", plan="free")
    answers = [ask(site, "POST", "/api/collect", body=PAGEVIEW) for _ in range(2)]

    assert [answer.status_code for answer in answers] == [202, 429]


def test_a_key_over_its_rate_is_told_as_described(sites: Sites) -> None:
    """600 requests a minute a key ...; 429 with Retry-After."""
    site = sites.start("--key-per-minute=1")
    answers = [ask(site, "GET", "/api/v1/websites") for _ in range(2)]

    assert [answer.status_code for answer in answers] == [200, 429]


def test_a_plan_without_keys_is_told_as_described(sites: Sites) -> None:
    """A key whose account fell to a plan without keys: 403 `plan_has_no_keys`."""
    assert ask(sites.start(plan="free"), "GET", "/api/v1/websites").status_code == 403


def test_metrics_are_refused_to_strangers_as_described(site: Site) -> None:
    """`/metrics` answers loopback, or a token from the settings."""
    answer = ask(site, "GET", "/metrics", headers={"X-Forwarded-For": "203.0.113.7"})

    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "forbidden")


def test_the_server_serves_the_document(site: Site) -> None:
    """`openapi.yaml`, which the server itself serves."""
    assert yaml.safe_load(ask(site, "GET", "/api/v1/openapi.yaml").content) == DOCUMENT


# aiohttp's max_line_size is 8,190 bytes: a longer request line never reaches the server's code.
LONGEST_QUERY = 8_000
# How much of a drawn request is made to fit the site. Chance alone knows no website, no key and no time zone.
AIMS = ("as drawn", "with a key", "with a key and a website", "answerable", "plain")
OPERATIONS = [(method, path) for path, item in DOCUMENT["paths"].items() for method in item]
WITHOUT_PARAMETERS = ("/api/v1/openapi.yaml", "/healthz", "/metrics")


def aimed(case: schemathesis.Case[Any], aim: str, site: Site) -> schemathesis.Case[Any]:
    """The drawn request with as much of it made to fit as the aim says."""
    if aim == "as drawn":
        return case
    case.headers = {**(case.headers or {}), "Authorization": f"Bearer {site.key}"}
    if aim == "with a key":
        return case
    if "id" in case.path_parameters:
        case.path_parameters = case.path_parameters | {"id": site.website}
    if isinstance(case.body, dict):
        case.body = case.body | {"website_id": site.website}
    if aim == "with a key and a website":
        return case
    if "field" in case.path_parameters:
        case.path_parameters = case.path_parameters | {"field": "os"}
    case.headers = {"Authorization": f"Bearer {site.key}"}
    # What is seldom right by chance: left out, the server has defaults.
    seldom = ("from", "to", "tz", "cursor")
    case.query = {} if aim == "plain" else {k: v for k, v in (case.query or {}).items() if k not in seldom}
    if case.operation.method == "post":
        case.body = aimed_body(case.body, aim, site)
    return case


def aimed_body(body: Any, aim: str, site: Site) -> Any:
    """A body that names the site's website; a plain one, or text, is a known event."""
    known = filled(PAGEVIEW, site.website)
    if aim == "plain" or not isinstance(body, dict):
        return json.dumps(known) if isinstance(body, str) else known
    here = {"website_id": site.website, "timestamp": None}
    if not isinstance(body.get("events"), list):
        return body | here
    return body | here | {"events": [i | here if isinstance(i, dict) else i for i in body["events"]]}


@cases(("method", "path"), OPERATIONS, ids=[path for _, path in OPERATIONS])
def test_answers_to_random_requests_are_as_described(site: Site, method: str, path: str) -> None:
    operation = SCHEMA[path][method]
    drawn = operation.as_strategy(generation_mode=schemathesis.GenerationMode.POSITIVE)
    if path not in WITHOUT_PARAMETERS:
        drawn |= operation.as_strategy(generation_mode=schemathesis.GenerationMode.NEGATIVE)
    met: set[int] = set()

    @settings(
        max_examples=amount_of_examples(100, default=8),  # 100 take some 2 s an operation
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=drawn, aim=st.sampled_from(AIMS))
    def run(case: schemathesis.Case[Any], aim: str) -> None:
        request = aimed(case, aim, site)
        assume(len(urlencode(request.query or {}, doseq=True)) < LONGEST_QUERY)
        met.add(request.call_and_validate(base_url=site.url, checks=CHECKS).status_code)

    run()

    # The requests carry a header X-Schemathesis-..., as a proxy adds them: these get no metrics without a token.
    assert (403 if path == "/metrics" else 202 if method == "post" else 200) in met
