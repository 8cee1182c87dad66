"""Compare the responses of the server with those of the model over HTTP, and the model with figures worked out by hand.

docs/reference/definitions.md: "Every figure about traffic is exact. Rollups and caches give the same number as the
plain query over raw events". This is that test. One real server on a real SQLite file serves many examples, each
with two websites of its own.

Each of the two kinds of scenario runs EXAMPLES times; the variable MODEL_EXAMPLES sets another number. In CI (the
variable CI) and with --hypothesis-profile=ci the scenarios are the same in every run; otherwise they are random,
and --hypothesis-seed=N repeats a run.
"""

from __future__ import annotations

import asyncio
import csv
import io
import json
import os
import re
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tally.ingest.node import EngineFactory
from tally.maintenance import background_work
from tally.settings import Settings
from tests.model.reference import (
    DAY_MS,
    FIELDS,
    GOALS,
    HOUR_MS,
    MINUTE_MS,
    SEGMENTS,
    VIEWS,
    Model,
    Query,
    Response,
    Sender,
    buckets,
    change,
    day_start,
    format_time,
    instant,
    local,
    parse_time,
    rounded,
)
from tests.model.strategies import (
    ACCEPT_LANGUAGE,
    ADDRESSES,
    CLOCK_CHANGES,
    DOMAIN,
    USER_AGENTS,
    BuildRollups,
    ConcurrentDeliveries,
    Delivery,
    QueryStep,
    Restart,
    Scenario,
    read_utc,
    scenarios,
)
from tests.support.app import App, ManualClock
from tests.support.cases import cases
from tests.support.selection import examples

EXAMPLES = int(os.environ.get("MODEL_EXAMPLES") or examples(70, default=4))  # of each of the two kinds of scenario
EXAMPLES_PER_FILE = 100  # a new website makes the server reload all websites of its database
NO_LIMIT = 10**9  # requests per minute; rate limits have their own tests
SENT_BETWEEN_PAGES = "sent-between-pages"
OFFSETS = (0, -720, -480, -210, 330, 345, 570, 840)  # minutes from UTC to the time of the websites


# --- the server against the model


@dataclass(slots=True)
class Server:
    """The server under test, and counts of what was compared."""

    loop: asyncio.AbstractEventLoop
    folder: Path
    engine: EngineFactory
    app: App = field(init=False)
    key: str = field(init=False)
    examples: int = 0
    events: int = 0
    queries: int = 0
    not_modified: int = 0
    comparisons: int = 0
    built: int = 0
    days_without_rows: int = 0

    async def open(self) -> None:
        """Start a server on a new database, with rate limits that are never reached."""
        settings = Settings(
            db=self.folder / f"{self.examples}.db",
            client_per_minute=NO_LIMIT,
            website_per_minute=NO_LIMIT,
            key_per_minute=NO_LIMIT,
        )
        self.app = App(settings, ManualClock(), self.engine)
        await self.app.open()
        self.key = await self.app.key()

    async def build(self) -> None:
        """Complete the pending background work on rollups."""
        builder = self.app.background_work.builder
        builder._rest, builder._is_busy = 0, lambda: False
        await builder.work()
        self.built += 1
        self.days_without_rows += self.app.sql("select count(*) from packed_day where raw_rows = 0")[0][0]

    async def next(self) -> None:
        """Count an example; change to a new database after EXAMPLES_PER_FILE of them."""
        self.examples += 1
        if self.examples % EXAMPLES_PER_FILE == 0:
            await self.app.close()
            await self.open()


class Example:
    """One scenario: two websites on the server and a model of them."""

    def __init__(self, server: Server, websites: list[str], now_ms: int, offset_minutes: int = 0) -> None:
        self.server = server
        self.app = server.app
        self.websites = websites
        self.model = Model(websites, DOMAIN, offset_minutes * MINUTE_MS)
        self.now_ms = now_ms
        self.responses: dict[str, Any] = {}

    def wait(self, ms: int) -> None:
        """Advance the clock."""
        self.now_ms += ms
        self.app.clock.advance(ms / 1000)

    async def deliver(self, step: Delivery) -> None:
        """Advance the clock, then send a request."""
        self.wait(step.wait_ms)
        await self.send(step)

    async def deliver_concurrently(self, step: ConcurrentDeliveries) -> None:
        """Send requests at the same time, each of them twice: one of the two is a duplicate."""
        self.wait(step.wait_ms)
        await asyncio.gather(*(self.send(delivery) for delivery in step.deliveries * 2))

    async def send(self, step: Delivery) -> None:
        """Send a collect request to server and model and compare the responses."""
        address, country = ADDRESSES[step.forwarded]
        defaults = USER_AGENTS[step.user_agent]
        sender = Sender(address, step.user_agent, country, defaults, ACCEPT_LANGUAGE[step.accept_language])
        body = step.body(self.websites)
        headers = {"Accept-Language": step.accept_language} if step.accept_language else {}
        response = await self.app.collect(body, ip=step.forwarded, ua=step.user_agent, headers=headers)
        expected = self.model.collect(body, sender, self.now_ms)
        errors = tuple((error["index"], error["code"]) for error in response.json.get("errors", ()))
        numbers = (response.json.get("accepted", 0), response.json.get("rejected", len(errors)))
        self.assert_equal(f"POST {json.dumps(body)}", (response.status, *numbers, errors), expected_outcome(expected))
        self.server.events += len(step.events)

    async def query(self, step: QueryStep) -> None:
        """Send a query to server and model and compare the responses."""
        website = self.websites[step.second_website]
        expected = self.model.respond(step.query, self.now_ms, website)
        if step.query.path == "events" and expected.status == 200:
            await self.walk(step, expected, website)
            return
        about = describe(step.query)
        params = list(step.query.params) + ([("format", "csv")] if step.as_csv else [])
        response = await self.get(website, step.query.path, params)
        self.assert_equal(about + " status", response.status, expected.status)
        if expected.status != 200:
            return
        if step.as_csv:
            self.assert_equal(about + " as CSV", response.text, as_csv(step.query, expected))
            return
        data = response.json["data"]
        if step.query.path == "realtime":
            pages = {page["pathname"]: page["visitors"] for page in data["pages"]}
            self.assert_equal(about + " number of pages", len(pages), len(data["pages"]))
            data = {**data, "pages": pages}
        if step.query.path == "goals/report":
            data = figures_of_goals(data)
        if step.query.path == "experiments":
            data = counts_of_experiments(data)
        self.assert_equal(about, data, expected.data)
        if step.query.path == "event-data":  # in Python True == 1
            self.assert_equal(about + " booleans", booleans(data), booleans(expected.data))
        self.assert_meta(about, response.json["meta"], expected, website)

    async def walk(self, step: QueryStep, expected: Response, website: str) -> None:
        """Read /events page by page: together the pages equal the model's list at the time of the first page."""
        about = describe(step.query)
        rows: list[dict[str, Any]] = []
        cursor: str | None = ""
        pages = 0
        while cursor is not None:
            params = list(step.query.params) + ([("cursor", cursor)] if cursor else [])
            response = await self.get(website, "events", params + ([("format", "csv")] if step.as_csv else []))
            self.assert_equal(f"{about} status of page {pages}", response.status, 200)
            page, cursor = (
                read_csv_page(response)
                if step.as_csv
                else (response.json["data"], response.json["meta"]["next_cursor"])
            )
            if not step.as_csv:
                self.assert_meta(about, response.json["meta"], expected, website)
            rows += page
            pages += 1
            limit = expected.meta["limit"]
            self.assert_equal(
                f"{about} rows of page {pages}",
                len(page) <= limit and (len(page) == limit or not cursor),
                True,
            )
            self.assert_equal(f"{about} pages", pages <= len(expected.data) + 3, True)
            if pages == 1 and cursor:
                await self.between_pages(step, expected)
        self.assert_equal(about + " order", *in_order(rows))
        fresh = [row for row in rows if row["event_name"] != SENT_BETWEEN_PAGES]
        kept = [row for row in expected.data if row["event_name"] != SENT_BETWEEN_PAGES]
        self.assert_equal(about, number_visits(fresh), number_visits(kept))

    async def between_pages(self, step: QueryStep, expected: Response) -> None:
        """Advance the clock and send events between two pages."""
        self.wait(step.wait_between_pages_ms)
        if not step.event_between_pages:
            return
        middle_ms = instant(read(expected.data[len(expected.data) // 2]["timestamp"]))
        times_ms = [self.now_ms, max(middle_ms, self.now_ms - 71 * HOUR_MS)]
        event = {
            "type": "event",
            "event_name": SENT_BETWEEN_PAGES,
            "session_id": SENT_BETWEEN_PAGES,
            "url": "https://example.com/",
        }
        events = tuple({**event, "timestamp": at_ms} for at_ms in times_ms)
        await self.deliver(Delivery(0, next(iter(ADDRESSES)), next(iter(USER_AGENTS)), None, events))

    async def get(self, website: str, path: str, params: list[tuple[str, str]]) -> Any:
        """Send a query as a browser does: with the ETag of the last response, which is reused after 304."""
        query = f"{website}/{path}?{urlencode(params)}"
        last = self.responses.get(query)
        headers = {"If-None-Match": last.headers["ETag"]} if last else {}
        response = await self.app.get(f"/api/v1/websites/{query}", key=self.server.key, headers=headers)
        if last and response.status == 304:
            self.server.not_modified += 1
            return last
        if response.status == 200:
            self.responses[query] = response
        return response

    def assert_meta(self, about: str, meta: dict[str, Any], expected: Response, website: str) -> None:
        """Compare the meta of both responses."""
        expected_meta = {"website_id": website, **expected.meta}
        self.assert_equal(about + " meta", {name: meta.get(name, "missing") for name in expected_meta}, expected_meta)

    def assert_equal(self, about: str, server: Any, model: Any) -> None:
        """Compare two values and count the comparison."""
        self.server.comparisons += 1
        assert server == model, (
            f"\n{about}\nnow:    {format_time(self.now_ms, 'UTC')}\nserver: {server}\nmodel:  {model}"
        )


def expected_outcome(response: Any) -> tuple[Any, ...]:
    """Return a CollectResponse as a tuple for comparison."""
    return response.status, response.accepted, response.rejected, response.errors


def counts_of_experiments(data: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the counts of each experiment, without its conclusions."""
    return [
        {
            "experiment": one["experiment"],
            "variants": {of["variant"]: of["visitors"] for of in one["variants"]},
            "goals": {
                goal["goal"]: {of["variant"]: of["conversions"] for of in goal["variants"]} for goal in one["goals"]
            },
        }
        for one in data
    ]


def figures_of_goals(data: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the figures of the report of goals under the names that `goal` has elsewhere."""
    names = {"visitors": "converted_visitors", "value": "conversion_value"}
    of = ("conversions", "visitors", "conversion_rate", "value")
    return [{names.get(name, name): row[name] for name in of} for row in data]


def booleans(data: list[dict[str, Any]]) -> list[list[bool]]:
    """Return for each value of event_data whether it is a boolean."""
    return [[isinstance(line["value"], bool) for line in of["values"]] for of in data]


def describe(query: Query) -> str:
    """Return a query as text for messages."""
    return f"GET {query.path} {' '.join(f'{name}={value!r}' for name, value in query.params)}"


def read(time: str) -> Any:
    """Return a time of a response as a datetime."""
    return local(parse_time(time, "UTC", up=True), "UTC")


def cell(value: Any) -> str:
    """Return a CSV cell; one that a spreadsheet would evaluate as a formula begins with an apostrophe."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return "'" + value if value[:1] in ("=", "+", "-", "@", "\t", "\r") else value
    return str(value)


def as_csv(query: Query, expected: Response) -> str:
    """Return the model's response as CSV."""
    names, rows = COLUMNS.get(query.path, COLUMNS["top"]), expected.data
    if query.get("metrics"):
        names = ["value", *query.get("metrics").split(",")]
    if query.get("goal"):
        names = [*names, "conversions", "converted_visitors", "conversion_rate", "conversion_value"]
    if query.path == "event-data":
        rows = [{"property": of["property"], **line} for of in expected.data for line in of["values"]]
    if query.path == "heatmap":
        rows = [dict(zip(names, spot, strict=True)) for spot in expected.data["grid"]]
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\r\n")
    lines.writerow(names)
    lines.writerows([cell(row[name]) for name in names] for row in rows)
    return text.getvalue()


PAGE_COLUMNS = ["value", "visits", "bounce_rate", "views_per_visit", "visit_duration"]
COLUMNS = {
    "top": ["value", "visitors", "pageviews", "events"],
    "timeseries": ["time", "visitors", "visits", "pageviews", "events"],
    "event-names": ["value", "visitors", "events"],
    "entry-pages": PAGE_COLUMNS,
    "exit-pages": PAGE_COLUMNS,
    "funnel": ["field", "value", "visits", "visitors", "of_first", "of_previous", "mean_seconds"],
    "journeys": ["step", "from_field", "from_value", "field", "value", "visits"],
    "event-data": ["property", "value", "events", "visitors"],
    "heatmap": ["x", "y", "count"],
    "heatmap-pages": ["value", "samples", "clicks"],
}


def read_csv_page(response: Any) -> tuple[list[dict[str, Any]], str | None]:
    """Return the rows of a CSV page of /events and the cursor of its Link header."""
    rows = []
    for line in csv.DictReader(io.StringIO(response.text, newline="")):
        row: dict[str, Any] = {name: text or None for name, text in line.items()}
        for name in ("event_data", "vitals", "value", "id"):
            row[name] = None if row[name] is None else json.loads(row[name])
        for name, text in row.items():
            if isinstance(text, str) and text.startswith("'"):
                assert cell(text[1:]) == text, f"a needless apostrophe in {name}: {text}"
                row[name] = text[1:]
            else:
                assert not isinstance(text, str) or cell(text) == text, f"a formula in {name}: {text}"
        rows.append(row)
    link = re.search(r"<([^>]*)>;\s*rel=\"?next\"?", response.headers.get("Link", ""))
    return rows, dict(parse_qsl(urlsplit(link[1]).query))["cursor"] if link else None


def in_order(rows: list[dict[str, Any]]) -> tuple[list[Any], list[Any]]:
    """Return the (timestamp, id) of the rows as received and as expected: newest first, without duplicates."""
    keys = [(read(row["timestamp"]), row["id"]) for row in rows]
    return keys, sorted(set(keys), reverse=True)


def number_visits(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows with opaque visits replaced by numbers from 0, without ids."""
    numbers: dict[Any, int] = {}
    numbered = []
    for row in rows:
        visit = row["visit"]
        number = None if visit is None else numbers.setdefault(visit, len(numbers))
        numbered.append({name: value for name, value in row.items() if name != "id"} | {"visit": number})
    return numbered


def save_definitions(connection: sqlite3.Connection, websites: list[str]) -> None:
    """Save the goals and segments of the model, with their ids, for each website."""

    def written(filters: Any) -> list[str]:
        return [f"filter_{name}={value}" for name, values in filters.items() for value in values]

    rows: list[tuple[str, str, dict[str, Any]]] = [
        *(
            (id, "goal", {"name": id, "type": kind, "match": written(of.filters), "value": of.value, "currency": None})
            for id, of in GOALS.items()
            for kind in ["page" if of.types == VIEWS else "event"]
        ),
        *((id, "segment", {"name": id, "filters": written(filters)}) for id, filters in SEGMENTS.items()),
    ]
    for website in websites:
        connection.executemany(
            "insert into definition (website, id, kind, created_ms, content)"
            " select number, ?, ?, ?, ? from website where id = ?",
            [(id, kind, n, json.dumps(content), website) for n, (id, kind, content) in enumerate(rows)],
        )


async def run_scenario(server: Server, scenario: Scenario, offset_minutes: int) -> None:
    """Run a scenario on the server and on the model."""
    await server.next()
    websites = [await server.app.website(domain=DOMAIN) for _ in range(2)]
    await server.app.admin(lambda connection: save_definitions(connection, websites))
    await server.app.admin(
        lambda connection: connection.execute(
            f"update website set day_offset_minutes = ? where id in ({', '.join('?' * len(websites))})",
            (offset_minutes, *websites),
        )
    )
    server.app.clock.begin_at(scenario.start_ms)
    example = Example(server, websites, scenario.start_ms, offset_minutes)
    for step in scenario.steps:
        if isinstance(step, Delivery):
            await example.deliver(step)
        elif isinstance(step, ConcurrentDeliveries):
            await example.deliver_concurrently(step)
        elif isinstance(step, Restart):
            await server.app.restart()
            example.model.restart()
        elif isinstance(step, BuildRollups):
            await server.build()
        else:
            await example.query(step)
            server.queries += 1


@pytest.fixture(scope="module")
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, engine: EngineFactory
) -> Iterator[Server]:
    """Start one server for all examples, on its own event loop; print the counts at the end."""
    loop = asyncio.new_event_loop()
    server = Server(loop, tmp_path_factory.mktemp("model"), engine)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(background_work, "PAUSE_S", 1e6)  # the scenarios decide when rollups are built
        loop.run_until_complete(server.open())
        yield server
        loop.run_until_complete(server.app.close())
    loop.close()
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print(
            f"\nmodel: {server.examples} examples, {server.events} events, {server.queries} queries"
            f" ({server.not_modified} responses 304), {server.comparisons} comparisons, built {server.built} times,"
            f" {server.days_without_rows} days by column alone"
        )


@pytest.mark.random_examples
# The two health checks object to large scenarios, which are intended here.
@pytest.mark.parametrize("subject", ["traffic", "lists"])
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(data=st.data())
def test_every_response_equals_the_model(server: Server, subject: str, data: st.DataObject) -> None:
    """Every response of the server equals the model's."""
    offset_minutes = data.draw(st.sampled_from(OFFSETS))
    server.loop.run_until_complete(run_scenario(server, data.draw(scenarios(subject)), offset_minutes))


# --- the model against figures worked out by hand

NOON = "2026-11-18T12:00:00.000Z"  # a Wednesday
PHONE = Sender("192.0.2.7", "okhttp/4.12.0", None, {})
WEBSITE = "3f0c8c1e-58a7-4c39-9d5c-0f2d8e6b7a10"
ALL = Query("stats", (("from", "2026-11-01"), ("to", "2026-11-30")))


def ms(text: str) -> int:
    """Return the instant of a UTC time."""
    return parse_time(text, "UTC", up=True)


def view(time: str, session: str | None = "session-a", path: str = "/", **more: Any) -> dict[str, Any]:
    """Return a pageview at a time of 2026-11-18."""
    full = time if "T" in time else f"2026-11-18T{time}Z"
    return {
        "type": "pageview",
        "website_id": WEBSITE,
        "url": f"https://example.com{path}",
        "session_id": session,
        "timestamp": full,
        **more,
    }


def custom(time: str, session: str = "session-a", name: str = "signup") -> dict[str, Any]:
    """Return a custom event at a time of 2026-11-18."""
    return {**view(time, session), "type": "event", "event_name": name}


def model_of(*events: dict[str, Any], now: str = NOON) -> Model:
    """Return a model that has received events one by one."""
    model = Model([WEBSITE])
    for event in events:
        assert model.collect(event, PHONE, ms(now)).accepted == 1
    return model


def stats_of(*events: dict[str, Any], query: Query = ALL) -> dict[str, Any]:
    """Return the key figures of a new model with these events."""
    data: dict[str, Any] = model_of(*events).respond(query, ms(NOON), WEBSITE).data
    return data


KEYS = ("visitors", "visits", "pageviews", "events", "bounce_rate", "views_per_visit", "visit_duration")


@cases(
    ("events", "figures"),
    [
        # visitors, visits, pageviews, events, bounce_rate, views_per_visit, visit_duration
        pytest.param([], (0, 0, 0, 0, None, None, None), id="no events"),
        pytest.param([view("10:00:00")], (1, 1, 1, 0, 100.0, 1.0, 0), id="one view is a bounce"),
        # One gap of exactly 30:00.000: one visit of 1800 s.
        pytest.param([view("10:00:00"), view("10:30:00")], (1, 1, 2, 0, 0.0, 2.0, 1800), id="30:00.000 is one visit"),
        pytest.param(
            [view("10:00:00"), view("10:30:00.001")], (1, 2, 2, 0, 100.0, 1.0, 0), id="30:00.001 is two visits"
        ),
        # 10:00 and 11:00 are two visits until the event of 10:30 arrives: then one of 3600 s with three views.
        pytest.param(
            [view("10:00:00"), view("11:00:00"), view("10:30:00")],
            (1, 1, 3, 0, 0.0, 3.0, 3600),
            id="late event joins two visits",
        ),
        # 23:50 and 00:10 of one session: each UTC day has its own visitor.
        pytest.param(
            [view("2026-11-17T23:50:00Z"), view("00:10:00")],
            (2, 2, 2, 0, 100.0, 1.0, 0),
            id="midnight UTC starts a new visitor",
        ),
        # A custom event alone: no view, so no bounce; views per visit 0.
        pytest.param([custom("10:00:00")], (1, 1, 0, 1, 0.0, 0.0, 0), id="custom event alone"),
        # A view and a custom event a minute later: no bounce, 60 s.
        pytest.param([view("10:00:00"), custom("10:01:00")], (1, 1, 1, 1, 0.0, 1.0, 60), id="view and custom event"),
        # Vitals between two views 40 minutes apart do not extend the visit: two visits, both bounces.
        pytest.param(
            [
                view("10:00:00"),
                {**view("10:20:00"), "type": "vitals", "vitals": {"lcp": 1}},
                view("10:40:00"),
            ],
            (1, 2, 2, 0, 100.0, 1.0, 0),
            id="measurements do not extend a visit",
        ),
        # Three visits of 0, 0 and 1 s: mean 0.33 s = 0; two bounces in three = 66.66 %; 4 views / 3 = 1.333
        pytest.param(
            [
                view("10:00:00", "visitor-1"),
                view("10:00:00", "visitor-2"),
                view("10:00:00"),
                view("10:00:01"),
            ],
            (3, 3, 4, 0, 66.7, 1.33, 0),
            id="thirds",
        ),
        # Two visits of 0 and 1 s: mean 0.5 s, half away from zero = 1.
        pytest.param(
            [view("10:00:00", "visitor-1"), view("10:00:00"), view("10:00:01")],
            (2, 2, 3, 0, 50.0, 1.5, 1),
            id="half",
        ),
        # Without a session_id address and User-Agent identify the visitor; they are the same here.
        pytest.param([view("10:00:00", None), view("10:01:00", None)], (1, 1, 2, 0, 0.0, 2.0, 60), id="no session_id"),
    ],
)
def test_model_key_figures(events: list[dict[str, Any]], figures: tuple[Any, ...]) -> None:
    """Key figures by the definitions of visitor, visit, bounce and duration."""
    assert stats_of(*events) == dict(zip(KEYS, figures, strict=True))


@cases(
    ("params", "figures"),
    [
        # The visit runs from 10:00 to 10:40 over /a, /b, /a.
        # From 10:10 on: the visit began before, so no visit; its visitor and two views are in the range.
        ((("from", "2026-11-18T10:10Z"),), (1, 0, 2, 0, None, None, None)),
        # Up to 10:40:00.000, exclusive; the figures of a visit include its events outside: 3 views, 2400 s.
        ((("from", "2026-11-18T10:00Z"), ("to", "2026-11-18T10:40Z")), (1, 1, 2, 0, 0.0, 3.0, 2400)),
        # Only /b: one matching view, and the visit has a matching event.
        ((("filter_pathname", "/b"),), (1, 1, 1, 0, 0.0, 3.0, 2400)),
        ((("filter_pathname", "/b"), ("filter_pathname", "/a")), (1, 1, 3, 0, 0.0, 3.0, 2400)),
        ((("filter_pathname", "/b"), ("filter_type", "event")), (0, 0, 0, 0, None, None, None)),
        ((("filter_browser", ""), ("filter_pathname", "/b")), (1, 1, 1, 0, 0.0, 3.0, 2400)),
        # 00:00 local on the 19th in Auckland (+13:00) is 11:00 UTC: all events are before, on the 18th.
        ((("from", "2026-11-19"), ("tz", "Pacific/Auckland")), (0, 0, 0, 0, None, None, None)),
        (
            (("from", "2026-11-18"), ("to", "2026-11-18"), ("tz", "Pacific/Auckland")),
            (1, 1, 3, 0, 0.0, 3.0, 2400),
        ),
    ],
    ids=[
        "begun before",
        "half open",
        "filter",
        "same field: or",
        "fields: and",
        "unset",
        "after",
        "local day",
    ],
)
def test_model_ranges_and_filters(params: tuple[tuple[str, str], ...], figures: tuple[Any, ...]) -> None:
    """Visits count if they begin in the range and have at least one event that matches the filters."""
    events = [view("10:00:00", path="/a"), view("10:20:00", path="/b"), view("10:40:00", path="/a")]
    assert stats_of(*events, query=Query("stats", params)) == dict(zip(KEYS, figures, strict=True))


@cases(
    ("value", "places", "result"),
    [
        (Fraction(1, 8), 2, 0.13),  # 0.125
        (Fraction(-1, 8), 2, -0.13),
        (Fraction(5, 2), 0, 3),  # half to even would be 2
        (Fraction(1875, 100), 1, 18.8),  # 3 of 16
        (Fraction(-249, 20), 1, -12.5),  # -12.45
        (None, 1, None),
    ],
)
def test_model_rounding(value: Fraction | None, places: int, result: float | None) -> None:
    """Figures are rounded half away from zero."""
    assert rounded(value, places) == result


def test_model_change() -> None:
    """Changes are computed from unrounded values, with one decimal; null if the previous figure is 0 or null."""
    assert change(Fraction(1), Fraction(3)) == -66.7
    assert change(Fraction(0), Fraction(3)) == -100.0
    assert [change(Fraction(1), Fraction(0)), change(Fraction(1), None), change(None, Fraction(1))] == [None] * 3


DAY_LENGTHS = [  # zone, local day, its first instant, its length in hours
    ("Europe/Berlin", "2026-03-29", "2026-03-28T23:00Z", 23),
    ("Europe/Berlin", "2026-10-25", "2026-10-24T22:00Z", 25),
    ("Australia/Lord_Howe", "2026-10-04", "2026-10-03T13:30Z", 23.5),
    ("Australia/Lord_Howe", "2026-04-05", "2026-04-04T13:00Z", 24.5),
    ("America/Havana", "2026-03-08", "2026-03-08T05:00Z", 23),  # begins at 01:00: midnight does not exist
    ("America/Havana", "2025-11-02", "2025-11-02T04:00Z", 25),  # midnight occurs twice: the first
    ("Asia/Beirut", "2026-10-24", "2026-10-23T21:00Z", 25),  # 23:00 occurs twice
    ("Asia/Kathmandu", "2026-07-01", "2026-06-30T18:15Z", 24),
    ("Pacific/Apia", "2011-12-29", "2011-12-29T10:00Z", 24),
    ("Pacific/Apia", "2011-12-31", "2011-12-30T10:00Z", 24),
]


@cases(("zone", "day", "begin", "hours"), DAY_LENGTHS)
def test_model_days(zone: str, day: str, begin: str, hours: float) -> None:
    """A day runs from its first existing local instant to the next day's."""
    moment = read(f"{day}T00:00Z").date()
    assert day_start(zone, moment) == ms(begin)
    assert buckets(zone, "day", ms(begin), ms(begin) + 1) == [(ms(begin), ms(begin) + int(hours * HOUR_MS))]


def test_model_hours() -> None:
    """An hour begins at every full local hour and at every change of offset."""
    # Lord Howe, 2026-04-05: at 02:00+11:00 the clock goes back to 01:30+10:30.
    edges = buckets("Australia/Lord_Howe", "hour", ms("2026-04-04T14:00Z"), ms("2026-04-04T16:00Z"))
    assert [format_time(begin, "Australia/Lord_Howe") for begin, _ in edges] == [
        "2026-04-05T01:00:00.000+11:00",
        "2026-04-05T01:30:00.000+10:30",
        "2026-04-05T02:00:00.000+10:30",
    ]
    # Kathmandu is at +05:45: from 10:00 UTC = 15:45 local, the bucket that began at 15:00 local = 09:15 UTC.
    assert buckets("Asia/Kathmandu", "hour", ms("2026-06-30T10:00Z"), ms("2026-06-30T10:15Z")) == [
        (ms("2026-06-30T09:15Z"), ms("2026-06-30T10:15Z"))
    ]
    # Apia, 2011-12-29 to 2011-12-31: the 30th has no row.
    days = buckets("Pacific/Apia", "day", ms("2011-12-29T10:00Z"), ms("2011-12-31T10:00Z"))
    assert [begin for begin, _ in days] == [ms("2011-12-29T10:00Z"), ms("2011-12-30T10:00Z")]


@cases(
    ("zone", "text", "utc"),
    [
        ("Europe/Berlin", "2026-03-29T02:30", "2026-03-29T01:30Z"),  # missing: 03:30+02:00
        ("Europe/Berlin", "2026-10-25T02:30", "2026-10-25T00:30Z"),  # twice: the first, +02:00
        ("Europe/Berlin", "2026-10-25T02:30+01:00", "2026-10-25T01:30Z"),
        ("Australia/Lord_Howe", "2026-10-04T02:10", "2026-10-03T15:40Z"),  # missing: 02:40+11:00
        ("Asia/Kolkata", "2026-11-18T10:00:00 05:30", "2026-11-18T04:30Z"),  # a space is a plus
        ("UTC", "2026-11-18T10:00:00.0001", "2026-11-18T10:00:00.001Z"),
    ],
)
def test_model_times(zone: str, text: str, utc: str) -> None:
    """A time without offset is in tz (ambiguous: the first; missing: after the gap)."""
    assert parse_time(text, zone, up=True) == ms(utc)


def test_model_series_visits_add_up() -> None:
    """The visits of the buckets add up to the visits of the range, with filters too."""
    # One visit from 10:50 on /a to 11:10 on /b: it counts at 10:00, where it begins, also for /b alone.
    model = model_of(view("10:50:00", path="/a"), view("11:10:00", path="/b"))
    params = (("from", "2026-11-18T10:00Z"), ("to", "2026-11-18T12:00Z"), ("interval", "hour"))
    rows = model.respond(Query("timeseries", (*params, ("filter_pathname", "/b"))), ms(NOON), WEBSITE).data
    assert rows == [
        {"time": "2026-11-18T10:00:00.000+00:00", "visitors": 0, "visits": 1, "pageviews": 0, "events": 0},
        {"time": "2026-11-18T11:00:00.000+00:00", "visitors": 1, "visits": 0, "pageviews": 1, "events": 0},
    ]


def test_model_top_list() -> None:
    """Rows are sorted by visitors, pageviews and events descending, then by value ascending by code point."""
    sent = [("a", "/x"), ("b", "/x"), ("a", "/é"), ("a", "/Z"), ("a", "/z"), ("a", "/y"), ("a", "/y")]
    sessions = {"a": "visitor-a", "b": "visitor-b"}
    events = [view("10:00:00", sessions[visitor], path) for visitor, path in sent]
    # /x two visitors; /y one visitor, two views; the others one and one: %C3%A9 (25), Z (5A), z (7A).
    model = model_of(*events, {**custom("10:00:00"), "url": None})
    response = model.respond(Query("top/pathname", (("from", "2026-11-18T00:00Z"), ("limit", "4"))), ms(NOON), WEBSITE)
    assert [(row["value"], row["visitors"], row["pageviews"], row["events"]) for row in response.data] == [
        ("/x", 2, 2, 0),
        ("/y", 1, 2, 0),
        ("/%C3%A9", 1, 1, 0),
        ("/Z", 1, 1, 0),
    ]
    assert response.meta["unset"] == {"visitors": 1, "pageviews": 0, "events": 1}


def test_model_funnels_and_event_data() -> None:
    """docs/reference/read-api.md: steps in order, other events between them allowed; 1 equals 1.0 and not true."""
    model = model_of(
        *(view(time, "visitor-1", path) for time, path in (("10:00:00", "/b"), ("10:00:10", "/a"), ("10:01:10", "/b"))),
        {**custom("10:02:00", "visitor-1"), "event_data": {"n": 1, "plan": "pro"}},
        {**custom("10:02:01", "visitor-1"), "event_data": {"n": 1.0}},
        view("10:00:00", "visitor-2", "/a"),
        {**custom("10:00:30", "visitor-2"), "event_data": {"n": True}},
        custom("10:00:00", "visitor-3"),
    )

    def query(path: str, *params: tuple[str, str]) -> Response:
        return model.respond(Query(path, (("from", "2026-11-18"), *params)), ms(NOON), WEBSITE)

    steps = [("step", step) for step in ("pathname:/a", "pathname:/b", "event_name:signup")]
    rows = [tuple(row.values())[2:] for row in query("funnel", *steps).data]
    assert rows == [(2, 2, 100.0, None, None), (1, 1, 50.0, 50.0, 60.0), (1, 1, 50.0, 100.0, 50.0)]
    found = query("event-data", ("event_name", "signup"))
    assert [(of["property"], of["events"], of["distinct"]) for of in found.data] == [("n", 3, 2), ("plan", 1, 1)]
    assert [tuple(line.values()) for line in found.data[0]["values"]] == [(1, 2, 1), (True, 1, 1)]
    assert (found.data[0]["numbers"]["samples"], found.meta["events"], found.meta["visitors"]) == (2, 4, 3)
    assert [(row["value"], row["visits"]) for row in query("entry-pages").data] == [("/a", 1), ("/b", 1)]
    assert query("exit-pages").meta["unset"] == {"visits": 1}
    assert query("event-names").data == [{"value": "signup", "visitors": 3, "events": 4}]


def test_model_labels() -> None:
    """Dimensions of an event from its fields, its batch, its URL and its User-Agent."""
    url = "https://WWW.Example.com:8443/Shop//a%20b/?utm_source=caf%C3%A9+1&utm_medium=#utm_campaign=no"
    more = {
        "url": url,
        "referrer": "https://www.T.co:443/x",
        "language": "zh-hant-tw",
        "os": "",
        "device": "tv",
    }
    sender = Sender(
        "192.0.2.7",
        "any",
        "JP",
        {"os": "iOS", "device": "mobile", "os_version": "17.5", "browser_version": "17"},
        region="JP-13",
        city="Tokyo",
    )
    model = Model([WEBSITE])
    model.collect(
        {"website_id": WEBSITE, "events": [view("10:00:00", **more)], "context": {"os_version": "9"}},
        sender,
        ms(NOON),
    )
    expected = dict.fromkeys(FIELDS) | {
        "pathname": "/Shop//a%20b/",
        "hostname": "www.example.com",
        "utm_source": "café 1",
        "referrer": "t.co",
        "language": "zh-Hant-TW",
        "country": "JP",
        "os": "iOS",  # an empty text is absent: the value of the User-Agent
        "device": "tv",
        "os_version": "9",
        "browser_version": "17",
        "region": "JP-13",
        "city": "Tokyo",
        "channel": "Referral",
    }
    assert model.rows[0].labels == expected


@pytest.mark.parametrize(
    ("event", "code"),
    [
        (view("2026-11-15T12:00:00.000Z"), None),  # 72 hours to the millisecond
        (view("2026-11-15T11:59:59.999Z"), "timestamp_too_old"),
        (view("2026-11-18T12:05:00.000Z"), None),
        (view("2026-11-18T12:05:00.001Z"), "timestamp_in_future"),
        (view("10:00:00", "seven77"), "invalid_field"),
        (view("10:00:00", url="ftp://example.com/"), "invalid_url"),
        (view("10:00:00", url=""), "missing_field"),
        (view("10:00:00", type="click"), "invalid_type"),
        ({**custom("10:00:00"), "event_data": {"a": []}}, "invalid_event_data"),
        (view("10:00:00", type="ab_convert", experiment="price"), "no_assignment"),
    ],
)
def test_model_rejected_events(event: dict[str, Any], code: str | None) -> None:
    """Each invalid event is rejected with its code; the limits themselves are valid."""
    response = Model([WEBSITE]).collect(event, PHONE, ms(NOON))
    assert response.errors == (((0, code),) if code else ())
    assert response.status == (400 if code else 202)


def test_model_deduplication() -> None:
    """Copies with the same content are not stored again within 72 hours of the last copy's arrival."""
    model, now_ms = Model([WEBSITE]), ms(NOON)
    event = {key: value for key, value in view("", event_id="copy").items() if key != "timestamp"}
    for wait_ms, stored in [(0, 1), (1, 1), (72 * HOUR_MS, 1), (72 * HOUR_MS, 1), (72 * HOUR_MS + 1, 2), (DAY_MS, 2)]:
        now_ms += wait_ms
        assert model.collect(event, PHONE, now_ms).accepted == 1
        assert len(model.rows) == stored, wait_ms
    others = [{"url": "https://example.com/?x"}, {"type": "screen_view", "name": "/"}, {"name": "n"}]
    for second_website in others:
        model.collect(event | second_website, PHONE, now_ms)
    assert len(model.rows) == 2 + len(others)


def test_model_realtime() -> None:
    """Active visitors had an event within 300 seconds; their page is the latest view of the visit."""
    model = model_of(
        view("11:40:00", "visitor-1", "/a"),
        custom("11:56:00", "visitor-1"),  # active; latest view of the visit is /a
        view("11:54:59.999", "visitor-2", "/b"),  # 300.001 s ago
        view("11:55:00", "visitor-3", "/c"),
        view("12:00:00", "visitor-3", "/d"),
        custom("12:00:00", "visitor-4"),  # active, on no page
    )
    expected = {"active_visitors": 3, "pages": {"/a": 1, "/d": 1}, "window_seconds": 300}
    assert model.respond(Query("realtime"), ms(NOON), WEBSITE).data == expected


def test_model_events() -> None:
    """/events has all types except heatmap, newest first (timestamp, then id)."""
    heatmap = {"type": "heatmap", "points": [{"x": 0, "y": 0, "kind": "click"}], "viewport_width": 1}
    model = model_of(
        view("10:00:00", path="/first"),
        view("10:00:00", path="/second"),
        view("09:00:00", path="/late"),
        {**view("10:00:00"), **heatmap},
    )
    rows = model.respond(Query("events", (("tz", "Asia/Kolkata"),)), ms(NOON), WEBSITE).data
    assert [(row["timestamp"], row["pathname"]) for row in rows] == [
        ("2026-11-18T15:30:00.000+05:30", "/second"),
        ("2026-11-18T15:30:00.000+05:30", "/first"),
        ("2026-11-18T14:30:00.000+05:30", "/late"),
    ]
    assert rows[0]["visit"] == rows[1]["visit"] != rows[2]["visit"]


@cases(("zone", "text"), [(zone, text) for zone, texts in CLOCK_CHANGES.items() for text in texts])
def test_clock_changes_of_the_scenarios(zone: str, text: str) -> None:
    """Every instant of CLOCK_CHANGES is a change of offset, except in three zones without changes."""
    after_ms = read_utc(text)
    changed = local(after_ms, zone).utcoffset() != local(after_ms - MINUTE_MS, zone).utcoffset()
    assert changed == (zone not in ("UTC", "Asia/Kathmandu", "Asia/Kolkata"))
