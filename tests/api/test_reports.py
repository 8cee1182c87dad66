"""The table of reports: routes, parameters, CSV, metrics and openapi.yaml follow from one row per report.

A report defined only in this file shows that adding one takes a dataclass, a function and a row.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from clients.generate import DOCUMENT
from tally.api import params
from tally.api.context import Answer, ReadApi, ReportRequest
from tally.api.params import Ranged
from tally.api.reports import EVERYONE, OWNER, REPORTS, Report
from tally.ingest.node import EngineFactory
from tally.settings import Settings
from tally.web.routes import report_routes
from tests.support.app import App, ManualClock
from tests.support.cases import cases
from tests.support.page_client import LINK, PageClient, logged_in
from tests.support.read_api import view

DAY = "from=2026-11-17&to=2026-11-17"


@dataclass(frozen=True, slots=True)
class BounceParameters(Ranged):
    """Parameters of the report defined in this file."""

    limit: int = params.limit(10)
    unit: str = params.choice("unit", ("percent", "visits"), "percent")


async def bounces(api: ReadApi, request: ReportRequest[BounceParameters]) -> Answer:
    """Return the visits with one pageview."""
    (found,) = await api.reports.stats([request.scope], request.requester)
    share = 100 * found.bounces // found.visits if request.parameters.unit == "percent" else found.bounces
    return Answer(request.meta() | {"limit": request.parameters.limit}, [("bounces", share)])


ADDED = Report("bounces", BounceParameters, bounces, ("value", "share"), OWNER)
SHARED = Report("shared-bounces", BounceParameters, bounces, ("value", "share"), EVERYONE)


@pytest.fixture
async def app(tmp_path: Path, clock: ManualClock, engine: EngineFactory) -> AsyncIterator[App]:
    """An application with two more reports."""
    app = App(Settings(db=tmp_path / "analytics.db"), clock, engine, (*REPORTS, ADDED, SHARED))
    await app.open()
    yield app
    await app.close()


async def report_app(app: App) -> tuple[str, str, PageClient, str]:
    """Return a website with two visits, one of them a bounce, an API key, a session and the path of a share link."""
    website, key = await app.website(), await app.key()
    events = [view("10:00:00", "/", "ann"), view("10:00:00", "/", "bob"), view("10:01:00", "/a", "bob")]
    assert (await app.collect({"website_id": website, "events": events})).json["accepted"] == 3
    session = await logged_in(app)
    link = (await session("POST", f"/api/account/websites/{website}/share-links", LINK)).json["data"]["path"]
    return website, key, session, f"/api{link}"


async def test_a_row_adds_an_endpoint(app: App) -> None:
    website, key, session, link = await report_app(app)
    path = f"/api/v1/websites/{website}/bounces?{DAY}"
    found = await app.get(path, key)
    assert found.json["data"] == [{"value": "bounces", "share": 50}]
    assert found.json["meta"]["limit"] == 10
    assert (await app.get(f"{path}&unit=visits", key)).json["data"][0]["share"] == 1
    assert (await app.get(f"{path}&filter_pathname=/a", key)).json["data"][0]["share"] == 0
    assert (await app.get(f"{path}&format=csv", key)).text == "value,share\r\nbounces,50\r\n"
    again = await app.get(path, key, headers={"If-None-Match": found.headers["ETag"]})
    assert again.status == 304
    assert (await session("GET", f"/api/account/websites/{website}/bounces?{DAY}")).status == 200
    assert (await app.get(f"{link}/bounces?{DAY}")).status == 404
    assert (await app.get(f"{link}/shared-bounces?{DAY}")).json["data"] == found.json["data"]
    assert 'endpoint="shared-bounces"' in (await app.get("/metrics")).text


@cases(
    ("query", "field"),
    [
        ("unit=visitors", "unit"),
        ("unit=visits&unit=visits", "unit"),
        ("limit=0", "limit"),
        ("interval=day", "interval"),
        ("filter_x=1", "filter_x"),
        ("from=x", "from"),
        ("format=xml", "format"),
    ],
)
async def test_invalid_parameters(app: App, query: str, field: str) -> None:
    website, key = await app.website(f"{field}.example.com"), await app.key()
    answer = await app.get(f"/api/v1/websites/{website}/bounces?{query}", key)
    assert (answer.status, answer.json["error"]["field"]) == (400, field), answer.text


async def test_authentication_is_required(app: App) -> None:
    website, _, _, _ = await report_app(app)
    for path in (f"/api/v1/websites/{website}/bounces", f"/api/account/websites/{website}/bounces"):
        assert (await app.get(path)).status == 401


def test_routes_follow_from_the_table() -> None:
    paths = [route.path for route in report_routes((ADDED, SHARED))]
    assert paths == [
        "/api/v1/websites/{id}/bounces",
        "/api/v1/websites/{id}/shared-bounces",
        "/api/account/websites/{id}/bounces",
        "/api/account/websites/{id}/shared-bounces",
        "/api/share/{token}/shared-bounces",
    ]


def documented(report: Report[Any]) -> dict[str, Any]:
    operation: dict[str, Any] = DOCUMENT["paths"][f"/api/v1/websites/{{id}}/{report.path}"]["get"]
    return operation


def test_openapi_has_all_reports() -> None:
    prefix = "/api/v1/websites/{id}/"
    paths = {
        path.removeprefix(prefix)
        for path, methods in DOCUMENT["paths"].items()
        if path.startswith(prefix) and "get" in methods
    }
    # What a key that manages may read is no report.
    assert paths == {report.path for report in REPORTS} | {
        "alerts",
        "deletions",
        "exclusions",
        "imports",
        "share-links",
    }


@cases("report", REPORTS, ids=lambda report: report.name)
def test_openapi_has_all_parameters(report: Report[Any]) -> None:
    described = []
    for parameter in documented(report)["parameters"]:
        while "$ref" in parameter:
            parameter = DOCUMENT["components"]["parameters"][parameter["$ref"].rsplit("/", 1)[-1]]
        if parameter["in"] == "query":
            described.append(parameter["name"])
    filters = {f"filter_{field}" for field in params.filters_of(report.parameters)}
    assert sorted(described) == sorted(report.allowed | filters)


@cases("report", REPORTS, ids=lambda report: report.name)
def test_openapi_has_csv_where_the_report_has_columns(report: Report[Any]) -> None:
    content = documented(report)["responses"]["200"]["content"]
    assert ("text/csv" in content) is bool(report.columns)
