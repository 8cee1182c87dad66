"""The server against the model over HTTP, every answer compared; and the model against figures made by hand.

docs/reference/definitions.md: "Every figure about traffic is exact. Rollups and caches give the same number as the
plain query over raw events". This is that test. One real server on a real SQLite file serves many examples, each of
which has two websites of its own.

EXAMPLES of each of the two kinds of world are played, or as many as the variable MODEL_EXAMPLES says. Where
the environment says CI, and with --hypothesis-profile=ci, they are the same in every run; elsewhere they are
new ones each time, and --hypothesis-seed=N repeats them.
"""

from __future__ import annotations

import asyncio
import csv
import io
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tally.ingest import lifecycle
from tally.settings import Settings
from tests.model.reference import (
    DAY_MS,
    FIELDS,
    HOUR_MS,
    MINUTE_MS,
    Answer,
    Model,
    Question,
    Sender,
    buckets,
    change,
    day_begin,
    instant,
    local,
    read_time,
    rounded,
    written,
)
from tests.model.strategies import (
    ACCEPT_LANGUAGE,
    ADDRESSES,
    CLOCK_CHANGES,
    DOMAIN,
    USER_AGENTS,
    Ask,
    AtOnce,
    Build,
    Delivery,
    Restart,
    World,
    read_utc,
    worlds,
)
from tests.support.app import App, ManualClock
from tests.support.cases import cases
from tests.support.selection import examples

EXAMPLES = int(os.environ.get("MODEL_EXAMPLES") or examples(600, default=12))  # of each of two kinds of world
EXAMPLES_A_FILE = 100  # Every new website makes the server read all of its file's websites again
NO_LIMIT = 10**9  # requests a minute; the limits have tests of their own
BETWEEN = "arrived-between-pages"


# --- the server against the model


@dataclass(slots=True)
class Match:
    """The server under test, and how much of it was compared."""

    loop: asyncio.AbstractEventLoop
    folder: Path
    app: App = field(init=False)
    key: str = field(init=False)
    examples: int = 0
    events: int = 0
    questions: int = 0
    unchanged: int = 0
    values: int = 0
    built: int = 0

    async def open(self) -> None:
        """Open a server on a new file, with the rate limits out of the way."""
        settings = Settings(
            db=self.folder / f"{self.examples}.db",
            client_per_minute=NO_LIMIT,
            website_per_minute=NO_LIMIT,
            key_per_minute=NO_LIMIT,
        )
        self.app = App(settings, ManualClock())
        await self.app.open()
        self.key = await self.app.key()

    async def build(self) -> None:
        """Do the background work on rollups, without rests."""
        builder = self.app.store.builder
        builder._rest, builder._is_busy = 0, lambda: False
        await builder.work()
        self.built += 1

    async def next(self) -> None:
        """Count an example; move on to a new file where this one has had enough."""
        self.examples += 1
        if self.examples % EXAMPLES_A_FILE == 0:
            await self.app.close()
            await self.open()


class Example:
    """One world: two websites on the server and a model of them."""

    def __init__(self, match: Match, websites: list[str], now_ms: int) -> None:
        self.match = match
        self.app = match.app
        self.websites = websites
        self.model = Model(websites, DOMAIN)
        self.now_ms = now_ms
        self.answers: dict[str, Any] = {}

    def wait(self, ms: int) -> None:
        """Let time pass."""
        self.now_ms += ms
        self.app.clock.advance(ms / 1000)

    async def deliver(self, step: Delivery) -> None:
        """Send a request after its wait."""
        self.wait(step.wait_ms)
        await self.send(step)

    async def deliver_at_once(self, step: AtOnce) -> None:
        """Send requests at the same time, each of them twice: the second is a copy, whichever that is."""
        self.wait(step.wait_ms)
        await asyncio.gather(*(self.send(delivery) for delivery in step.deliveries * 2))

    async def send(self, step: Delivery) -> None:
        """Send a request; the answer must count as the model counts."""
        address, country = ADDRESSES[step.forwarded]
        defaults = USER_AGENTS[step.user_agent]
        sender = Sender(address, step.user_agent, country, defaults, ACCEPT_LANGUAGE[step.accept_language])
        body = step.body(self.websites)
        headers = {"Accept-Language": step.accept_language} if step.accept_language else {}
        got = await self.app.collect(body, ip=step.forwarded, ua=step.user_agent, headers=headers)
        want = self.model.collect(body, sender, self.now_ms)
        faults = tuple((error["index"], error["code"]) for error in got.json.get("errors", ()))
        numbers = (got.json.get("accepted", 0), got.json.get("rejected", len(faults)))
        self.same(f"POST {json.dumps(body)}", (got.status, *numbers, faults), want_of(want))
        self.match.events += len(step.events)

    async def ask(self, step: Ask) -> None:
        """Put a question; the answer must be the model's."""
        website = self.websites[step.other]
        want = self.model.answer(step.question, self.now_ms, website)
        if step.question.path == "events" and want.status == 200:
            await self.walk(step, want, website)
            return
        about = describe(step.question)
        params = list(step.question.params) + ([("format", "csv")] if step.as_csv else [])
        got = await self.get(website, step.question.path, params)
        self.same(about + " status", got.status, want.status)
        if want.status != 200:
            return
        if step.as_csv:
            self.same(about + " as CSV", got.text, as_csv(step.question, want))
            return
        data = got.json["data"]
        if step.question.path == "realtime":
            pages = {page["pathname"]: page["visitors"] for page in data["pages"]}
            self.same(about + " number of pages", len(pages), len(data["pages"]))
            data = {**data, "pages": pages}
        if step.question.path in COUNTED:
            data = COUNTED[step.question.path](data)
        self.same(about, data, want.data)
        if step.question.path == "event-data":  # to Python, true is 1
            self.same(about + " truths", truths(data), truths(want.data))
        self.same_meta(about, got.json["meta"], want, website)

    async def walk(self, step: Ask, want: Answer, website: str) -> None:
        """Take /events page by page: together the pages must be the model's list as it was at the start."""
        about = describe(step.question)
        rows: list[dict[str, Any]] = []
        cursor: str | None = ""
        pages = 0
        while cursor is not None:
            params = list(step.question.params) + ([("cursor", cursor)] if cursor else [])
            got = await self.get(website, "events", params + ([("format", "csv")] if step.as_csv else []))
            self.same(f"{about} status of page {pages}", got.status, 200)
            page, cursor = read_csv_page(got) if step.as_csv else (got.json["data"], got.json["meta"]["next_cursor"])
            if not step.as_csv:
                self.same_meta(about, got.json["meta"], want, website)
            rows += page
            pages += 1
            limit = want.meta["limit"]
            self.same(
                f"{about} rows of page {pages}",
                len(page) <= limit and (len(page) == limit or not cursor),
                True,
            )
            self.same(f"{about} pages", pages <= len(want.data) + 3, True)
            if pages == 1 and cursor:
                await self.between_pages(step, want)
        self.same(about + " order", *in_order(rows))
        fresh = [row for row in rows if row["event_name"] != BETWEEN]
        kept = [row for row in want.data if row["event_name"] != BETWEEN]
        self.same(about, number_visits(fresh), number_visits(kept))

    async def between_pages(self, step: Ask, want: Answer) -> None:
        """Let time pass and events arrive while somebody pages."""
        self.wait(step.wait_between_pages_ms)
        if not step.arrival_between_pages:
            return
        middle_ms = instant(read(want.data[len(want.data) // 2]["timestamp"]))
        times_ms = [self.now_ms, max(middle_ms, self.now_ms - 71 * HOUR_MS)]
        event = {"type": "event", "event_name": BETWEEN, "session_id": BETWEEN, "url": "https://example.com/"}
        events = tuple({**event, "timestamp": at_ms} for at_ms in times_ms)
        await self.deliver(Delivery(0, next(iter(ADDRESSES)), next(iter(USER_AGENTS)), None, events))

    async def get(self, website: str, path: str, params: list[tuple[str, str]]) -> Any:
        """Ask the server as a browser does: with the ETag of the last answer, which 304 says still holds."""
        query = f"{website}/{path}?{urlencode(params)}"
        last = self.answers.get(query)
        headers = {"If-None-Match": last.headers["ETag"]} if last else {}
        got = await self.app.get(f"/api/v1/websites/{query}", key=self.match.key, headers=headers)
        if last and got.status == 304:
            self.match.unchanged += 1
            return last
        if got.status == 200:
            self.answers[query] = got
        return got

    def same_meta(self, about: str, meta: dict[str, Any], want: Answer, website: str) -> None:
        """Compare what the answer says it understood with what the model understood."""
        wanted = {"website_id": website, **want.meta}
        self.same(about + " meta", {name: meta.get(name, "not there") for name in wanted}, wanted)

    def same(self, about: str, server: Any, model: Any) -> None:
        """Compare and count."""
        self.match.values += 1
        assert server == model, f"\n{about}\nnow:    {written(self.now_ms, 'UTC')}\nserver: {server}\nmodel:  {model}"


def want_of(verdict: Any) -> tuple[Any, ...]:
    """Give a Verdict as compared with the answer of the collect endpoint."""
    return verdict.status, verdict.accepted, verdict.rejected, verdict.faults


def counts_of_vitals(data: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out what is told to 2 percent, and two metrics that nobody sends."""
    rows = [{name: value for name, value in row.items() if name[0] != "p" or name == "poor"} for row in data]
    order = ("lcp", "inp", "cls")
    own = [row for row in rows if row.get("metric", "lcp") in order]
    for row in own:
        row.pop("unit", None)
    return sorted(own, key=lambda row: order.index(row["metric"])) if data and "metric" in data[0] else own


def counts_of_experiments(data: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out what is concluded."""
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


COUNTED = {"vitals": counts_of_vitals, "experiments": counts_of_experiments}


def truths(data: list[dict[str, Any]]) -> list[list[bool]]:
    """Say which values of event_data are true or false."""
    return [[isinstance(line["value"], bool) for line in of["values"]] for of in data]


def describe(question: Question) -> str:
    """Write a question as it is asked."""
    return f"GET {question.path} {' '.join(f'{name}={value!r}' for name, value in question.params)}"


def read(time: str) -> Any:
    """Read a time of an answer."""
    return local(read_time(time, "UTC", up=True), "UTC")


def cell(value: Any) -> str:
    """Write a CSV cell: "cells that a spreadsheet would run as a formula are made harmless"."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return "'" + value if value[:1] in ("=", "+", "-", "@", "\t", "\r") else value
    return str(value)


def as_csv(question: Question, want: Answer) -> str:
    """Write the model's answer as CSV."""
    names, rows = COLUMNS.get(question.path, COLUMNS["top"]), want.data
    if question.path == "event-data":
        rows = [{"property": of["property"], **line} for of in want.data for line in of["values"]]
    if question.path == "heatmap":
        rows = [dict(zip(names, spot, strict=True)) for spot in want.data["grid"]]
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\r\n")
    lines.writerow(names)
    lines.writerows([cell(row[name]) for name in names] for row in rows)
    return text.getvalue()


OF_PAGES = ["value", "visits", "bounce_rate", "views_per_visit", "visit_duration"]
COLUMNS = {
    "top": ["value", "visitors", "pageviews", "events"],
    "timeseries": ["time", "visitors", "visits", "pageviews", "events"],
    "event-names": ["value", "visitors", "events"],
    "entry-pages": OF_PAGES,
    "exit-pages": OF_PAGES,
    "funnel": ["field", "value", "visits", "visitors", "of_first", "of_previous", "mean_seconds"],
    "event-data": ["property", "value", "events", "visitors"],
    "heatmap": ["x", "y", "count"],
    "heatmap-pages": ["value", "samples", "clicks"],
}


def read_csv_page(got: Any) -> tuple[list[dict[str, Any]], str | None]:
    """Read one page of /events in CSV back into rows, and the cursor out of the Link header."""
    rows = []
    for line in csv.DictReader(io.StringIO(got.text, newline="")):
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
    link = re.search(r"<([^>]*)>;\s*rel=\"?next\"?", got.headers.get("Link", ""))
    return rows, dict(parse_qsl(urlsplit(link[1]).query))["cursor"] if link else None


def in_order(rows: list[dict[str, Any]]) -> tuple[list[Any], list[Any]]:
    """Give the (timestamp, id) of the rows as they came and as they must come: newest first, none twice."""
    keys = [(read(row["timestamp"]), row["id"]) for row in rows]
    return keys, sorted(set(keys), reverse=True)


def number_visits(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Replace the opaque visit of each row by the number of its first row here; leave out the id."""
    numbers: dict[Any, int] = {}
    numbered = []
    for row in rows:
        visit = row["visit"]
        number = None if visit is None else numbers.setdefault(visit, len(numbers))
        numbered.append({name: value for name, value in row.items() if name != "id"} | {"visit": number})
    return numbered


async def play(match: Match, world: World) -> None:
    """Play one world on the server and on the model."""
    await match.next()
    websites = [await match.app.website(domain=DOMAIN) for _ in range(2)]
    match.app.clock.begin_at(world.start_ms)
    example = Example(match, websites, world.start_ms)
    for step in world.steps:
        if isinstance(step, Delivery):
            await example.deliver(step)
        elif isinstance(step, AtOnce):
            await example.deliver_at_once(step)
        elif isinstance(step, Restart):
            await match.app.restart()
            example.model.restart()
        elif isinstance(step, Build):
            await match.build()
        else:
            await example.ask(step)
            match.questions += 1


@pytest.fixture(scope="module")
def match(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Match]:
    """A real server for all examples, on an event loop of its own; tells at the end how much it was asked."""
    loop = asyncio.new_event_loop()
    played = Match(loop, tmp_path_factory.mktemp("model"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lifecycle, "PAUSE_S", 1e6)  # the worlds say when rollups are worked on
        loop.run_until_complete(played.open())
        yield played
        loop.run_until_complete(played.app.close())
    loop.close()
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print(
            f"\nmodel: {played.examples} examples, {played.events} events, {played.questions} questions"
            f" ({played.unchanged} answers 304), {played.values} comparisons, built {played.built} times"
        )


# The two health checks measure how large the drawn worlds are, which they are meant to be.
@pytest.mark.parametrize("about", ["traffic", "lists"])
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(data=st.data())
def test_every_answer_is_the_models(match: Match, about: str, data: st.DataObject) -> None:
    """Gives the same number as the plain query over raw events, and a test proves it."""
    match.loop.run_until_complete(play(match, data.draw(worlds(about))))


# --- the model against figures worked out by hand

NOON = "2026-11-18T12:00:00.000Z"  # a Wednesday
PHONE = Sender("192.0.2.7", "okhttp/4.12.0", None, {})
WEBSITE = "3f0c8c1e-58a7-4c39-9d5c-0f2d8e6b7a10"
ALL = Question("stats", (("from", "2026-11-01"), ("to", "2026-11-30")))


def ms(text: str) -> int:
    """Read an instant in UTC."""
    return read_time(text, "UTC", up=True)


def view(time: str, session: str | None = "session-a", path: str = "/", **more: Any) -> dict[str, Any]:
    """Make a pageview at a time of 2026-11-18."""
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
    """Make a custom event at a time of 2026-11-18."""
    return {**view(time, session), "type": "event", "event_name": name}


def model_of(*events: dict[str, Any], now: str = NOON) -> Model:
    """Make a model that was sent events one by one."""
    model = Model([WEBSITE])
    for event in events:
        assert model.collect(event, PHONE, ms(now)).accepted == 1
    return model


def stats_of(*events: dict[str, Any], question: Question = ALL) -> dict[str, Any]:
    """Ask a fresh model for the key figures."""
    data: dict[str, Any] = model_of(*events).answer(question, ms(NOON), WEBSITE).data
    return data


KEYS = ("visitors", "visits", "pageviews", "events", "bounce_rate", "views_per_visit", "visit_duration")


@cases(
    ("events", "figures"),
    [
        # visitors, visits, pageviews, events, bounce_rate, views_per_visit, visit_duration
        pytest.param([], (0, 0, 0, 0, None, None, None), id="nothing"),
        pytest.param([view("10:00:00")], (1, 1, 1, 0, 100.0, 1.0, 0), id="one view is a bounce"),
        # One gap of exactly 30:00.000: one visit of 1800 s.
        pytest.param([view("10:00:00"), view("10:30:00")], (1, 1, 2, 0, 0.0, 2.0, 1800), id="30:00.000 joins"),
        pytest.param([view("10:00:00"), view("10:30:00.001")], (1, 2, 2, 0, 100.0, 1.0, 0), id="30:00.001 cuts"),
        # 10:00 and 11:00 are two visits until 10:30 arrives: then one of 3600 s with three views.
        pytest.param(
            [view("10:00:00"), view("11:00:00"), view("10:30:00")],
            (1, 1, 3, 0, 0.0, 3.0, 3600),
            id="late one joins",
        ),
        # 23:50 and 00:10 of one session: each UTC day has its own visitor.
        pytest.param(
            [view("2026-11-17T23:50:00Z"), view("00:10:00")],
            (2, 2, 2, 0, 100.0, 1.0, 0),
            id="midnight UTC cuts",
        ),
        # A custom event alone: no view, so no bounce; views per visit 0.
        pytest.param([custom("10:00:00")], (1, 1, 0, 1, 0.0, 0.0, 0), id="custom event alone"),
        # A view and a custom event a minute later: no bounce, 60 s.
        pytest.param([view("10:00:00"), custom("10:01:00")], (1, 1, 1, 1, 0.0, 1.0, 60), id="view and custom event"),
        # Vitals between two views that are 40 minutes apart lengthen nothing: two visits, both bounces.
        pytest.param(
            [
                view("10:00:00"),
                {**view("10:20:00"), "type": "vitals", "vitals": {"lcp": 1}},
                view("10:40:00"),
            ],
            (1, 2, 2, 0, 100.0, 1.0, 0),
            id="measurements lengthen no visit",
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
        # Without a session_id: address and User-Agent, which are one here.
        pytest.param([view("10:00:00", None), view("10:01:00", None)], (1, 1, 2, 0, 0.0, 2.0, 60), id="no session_id"),
    ],
)
def test_model_key_figures(events: list[dict[str, Any]], figures: tuple[Any, ...]) -> None:
    """visitor, visit, bounce, duration and the list below them."""
    assert stats_of(*events) == dict(zip(KEYS, figures, strict=True))


@cases(
    ("params", "figures"),
    [
        # The visit runs from 10:00 to 10:40 over /a, /b, /a.
        # From 10:10 on: it did not begin there, so no visit; but its visitor and two views are there.
        ((("from", "2026-11-18T10:10Z"),), (1, 0, 2, 0, None, None, None)),
        # Up to 10:40:00.000, which is outside; the visit is told over its whole life: 3 views, 2400 s.
        ((("from", "2026-11-18T10:00Z"), ("to", "2026-11-18T10:40Z")), (1, 1, 2, 0, 0.0, 3.0, 2400)),
        # Only /b: one view in E, the visit has an event in E.
        ((("filter_pathname", "/b"),), (1, 1, 1, 0, 0.0, 3.0, 2400)),
        ((("filter_pathname", "/b"), ("filter_pathname", "/a")), (1, 1, 3, 0, 0.0, 3.0, 2400)),
        ((("filter_pathname", "/b"), ("filter_type", "event")), (0, 0, 0, 0, None, None, None)),
        ((("filter_browser", ""), ("filter_pathname", "/b")), (1, 1, 1, 0, 0.0, 3.0, 2400)),
        # 00:00 local on the 19th in Auckland (+13:00) is 11:00 UTC: all is before, on the 18th.
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
    """Visits that begin in the range and have at least one event in E; and the filters."""
    events = [view("10:00:00", path="/a"), view("10:20:00", path="/b"), view("10:40:00", path="/a")]
    assert stats_of(*events, question=Question("stats", params)) == dict(zip(KEYS, figures, strict=True))


@cases(
    ("value", "places", "result"),
    [
        (Fraction(1, 8), 2, 0.13),  # 0.125
        (Fraction(-1, 8), 2, -0.13),
        (Fraction(5, 2), 0, 3),  # to even it would be 2
        (Fraction(1875, 100), 1, 18.8),  # 3 of 16
        (Fraction(-249, 20), 1, -12.5),  # -12.45
        (None, 1, None),
    ],
)
def test_model_rounding(value: Fraction | None, places: int, result: float | None) -> None:
    """Rounded half away from zero from exact integers."""
    assert rounded(value, places) == result


def test_model_change() -> None:
    """From unrounded values, one decimal; null where the previous figure is 0 or null."""
    assert change(Fraction(1), Fraction(3)) == -66.7
    assert change(Fraction(0), Fraction(3)) == -100.0
    assert [change(Fraction(1), Fraction(0)), change(Fraction(1), None), change(None, Fraction(1))] == [None] * 3


HOURS = [  # zone, local day, its first instant, its length in hours; None: a day that does not exist
    ("Europe/Berlin", "2026-03-29", "2026-03-28T23:00Z", 23),
    ("Europe/Berlin", "2026-10-25", "2026-10-24T22:00Z", 25),
    ("Australia/Lord_Howe", "2026-10-04", "2026-10-03T13:30Z", 23.5),
    ("Australia/Lord_Howe", "2026-04-05", "2026-04-04T13:00Z", 24.5),
    ("America/Havana", "2026-03-08", "2026-03-08T05:00Z", 23),  # begins at 01:00: there is no midnight
    ("America/Havana", "2025-11-02", "2025-11-02T04:00Z", 25),  # midnight comes twice: the first
    ("Asia/Beirut", "2026-10-24", "2026-10-23T21:00Z", 25),  # 23:00 comes twice
    ("Asia/Kathmandu", "2026-07-01", "2026-06-30T18:15Z", 24),
    ("Pacific/Apia", "2011-12-29", "2011-12-29T10:00Z", 24),
    ("Pacific/Apia", "2011-12-31", "2011-12-30T10:00Z", 24),
]


@cases(("zone", "day", "begin", "hours"), HOURS)
def test_model_days(zone: str, day: str, begin: str, hours: float) -> None:
    """A day runs from its first existing local instant to the next day's."""
    moment = read(f"{day}T00:00Z").date()
    assert day_begin(zone, moment) == ms(begin)
    assert buckets(zone, "day", ms(begin), ms(begin) + 1) == [(ms(begin), ms(begin) + int(hours * HOUR_MS))]


def test_model_hours() -> None:
    """An hour begins at every full local hour and at every change of offset."""
    # Lord Howe, 2026-04-05: at 02:00+11:00 the clock goes back to 01:30+10:30.
    edges = buckets("Australia/Lord_Howe", "hour", ms("2026-04-04T14:00Z"), ms("2026-04-04T16:00Z"))
    assert [written(begin, "Australia/Lord_Howe") for begin, _ in edges] == [
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
    assert read_time(text, zone, up=True) == ms(utc)


def test_model_series_visits_add_up() -> None:
    """The visits of the buckets add up to the visits of the range, with filters too."""
    # One visit from 10:50 on /a to 11:10 on /b: it counts at 10:00, where it begins, also for /b alone.
    model = model_of(view("10:50:00", path="/a"), view("11:10:00", path="/b"))
    params = (("from", "2026-11-18T10:00Z"), ("to", "2026-11-18T12:00Z"), ("interval", "hour"))
    rows = model.answer(Question("timeseries", (*params, ("filter_pathname", "/b"))), ms(NOON), WEBSITE).data
    assert rows == [
        {"time": "2026-11-18T10:00:00.000+00:00", "visitors": 0, "visits": 1, "pageviews": 0, "events": 0},
        {"time": "2026-11-18T11:00:00.000+00:00", "visitors": 1, "visits": 0, "pageviews": 1, "events": 0},
    ]


def test_model_top_list() -> None:
    """By visitors, pageviews, events descending, then value ascending by code point."""
    sent = [("a", "/x"), ("b", "/x"), ("a", "/é"), ("a", "/Z"), ("a", "/z"), ("a", "/y"), ("a", "/y")]
    names = {"a": "visitor-a", "b": "visitor-b"}
    events = [view("10:00:00", names[who], path) for who, path in sent]
    # /x two visitors; /y one visitor, two views; the others one and one: Z (5A), z (7A), é (E9).
    model = model_of(*events, {**custom("10:00:00"), "url": None})
    got = model.answer(Question("top/pathname", (("from", "2026-11-18T00:00Z"), ("limit", "4"))), ms(NOON), WEBSITE)
    assert [(row["value"], row["visitors"], row["pageviews"], row["events"]) for row in got.data] == [
        ("/x", 2, 2, 0),
        ("/y", 1, 2, 0),
        ("/Z", 1, 1, 0),
        ("/z", 1, 1, 0),
    ]
    assert got.meta["unset"] == {"visitors": 1, "pageviews": 0, "events": 1}


def test_model_behaviour() -> None:
    """docs/reference/read-api.md: steps in order with anything in between; the value 1 equals 1.0 and not true."""
    model = model_of(
        *(view(time, "visitor-1", path) for time, path in (("10:00:00", "/b"), ("10:00:10", "/a"), ("10:01:10", "/b"))),
        {**custom("10:02:00", "visitor-1"), "event_data": {"n": 1, "plan": "pro"}},
        {**custom("10:02:01", "visitor-1"), "event_data": {"n": 1.0}},
        view("10:00:00", "visitor-2", "/a"),
        {**custom("10:00:30", "visitor-2"), "event_data": {"n": True}},
        custom("10:00:00", "visitor-3"),
    )

    def ask(path: str, *params: tuple[str, str]) -> Answer:
        return model.answer(Question(path, (("from", "2026-11-18"), *params)), ms(NOON), WEBSITE)

    steps = [("step", step) for step in ("pathname:/a", "pathname:/b", "event_name:signup")]
    rows = [tuple(row.values())[2:] for row in ask("funnel", *steps).data]
    assert rows == [(2, 2, 100.0, None, None), (1, 1, 50.0, 50.0, 60.0), (1, 1, 50.0, 100.0, 50.0)]
    found = ask("event-data", ("event_name", "signup"))
    assert [(of["property"], of["events"], of["distinct"]) for of in found.data] == [("n", 3, 2), ("plan", 1, 1)]
    assert [tuple(line.values()) for line in found.data[0]["values"]] == [(1, 2, 1), (True, 1, 1)]
    assert (found.data[0]["numbers"]["samples"], found.meta["events"], found.meta["visitors"]) == (2, 4, 3)
    assert [(row["value"], row["visits"]) for row in ask("entry-pages").data] == [("/a", 1), ("/b", 1)]
    assert ask("exit-pages").meta["unset"] == {"visits": 1}
    assert ask("event-names").data == [{"value": "signup", "visitors": 3, "events": 4}]


def test_model_labels() -> None:
    """Contract, Dimensions, and the rows of referrer and language."""
    url = "https://WWW.Example.com:8443/Shop//a%20b/?utm_source=caf%C3%A9+1&utm_medium=#utm_campaign=no"
    more = {
        "url": url,
        "referrer": "https://www.T.co:443/x",
        "language": "zh-hant-tw",
        "os": "",
        "device": "tv",
    }
    sender = Sender("192.0.2.7", "any", "JP", {"os": "iOS", "device": "mobile", "os_version": "17.5"})
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
        "os": "iOS",  # an empty text is absent, so the User-Agent speaks
        "device": "tv",
        "os_version": "9",
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
def test_model_faults(event: dict[str, Any], code: str | None) -> None:
    """An event is rejected when."""
    verdict = Model([WEBSITE]).collect(event, PHONE, ms(NOON))
    assert verdict.faults == (((0, code),) if code else ())
    assert verdict.status == (400 if code else 202)


def test_model_copies() -> None:
    """For 72 hours from the last copy's arrival copies of the same content are not stored again."""
    model, now_ms = Model([WEBSITE]), ms(NOON)
    event = {key: value for key, value in view("", event_id="copy").items() if key != "timestamp"}
    for wait_ms, stored in [(0, 1), (1, 1), (72 * HOUR_MS, 1), (72 * HOUR_MS, 1), (72 * HOUR_MS + 1, 2), (DAY_MS, 2)]:
        now_ms += wait_ms
        assert model.collect(event, PHONE, now_ms).accepted == 1
        assert len(model.rows) == stored, wait_ms
    others = [{"url": "https://example.com/?x"}, {"type": "screen_view", "name": "/"}, {"name": "n"}]
    for other in others:
        model.collect(event | other, PHONE, now_ms)
    assert len(model.rows) == 2 + len(others)


def test_model_realtime() -> None:
    """Within 300 seconds, each on the page of its visit's latest view."""
    model = model_of(
        view("11:40:00", "visitor-1", "/a"),
        custom("11:56:00", "visitor-1"),  # active; latest view of the visit is /a
        view("11:54:59.999", "visitor-2", "/b"),  # too long ago
        view("11:55:00", "visitor-3", "/c"),
        view("12:00:00", "visitor-3", "/d"),
        custom("12:00:00", "visitor-4"),  # active, on no page
    )
    want = {"active_visitors": 3, "pages": {"/a": 1, "/d": 1}, "window_seconds": 300}
    assert model.answer(Question("realtime"), ms(NOON), WEBSITE).data == want


def test_model_events() -> None:
    """Newest first (timestamp, then id), every type but heatmap."""
    heatmap = {"type": "heatmap", "points": [{"x": 0, "y": 0, "kind": "click"}], "viewport_width": 1}
    model = model_of(
        view("10:00:00", path="/first"),
        view("10:00:00", path="/second"),
        view("09:00:00", path="/late"),
        {**view("10:00:00"), **heatmap},
    )
    rows = model.answer(Question("events", (("tz", "Asia/Kolkata"),)), ms(NOON), WEBSITE).data
    assert [(row["timestamp"], row["pathname"]) for row in rows] == [
        ("2026-11-18T15:30:00.000+05:30", "/second"),
        ("2026-11-18T15:30:00.000+05:30", "/first"),
        ("2026-11-18T14:30:00.000+05:30", "/late"),
    ]
    assert rows[0]["visit"] == rows[1]["visit"] != rows[2]["visit"]


@cases(("zone", "text"), [(zone, text) for zone, texts in CLOCK_CHANGES.items() for text in texts])
def test_strategies_know_the_clock_changes(zone: str, text: str) -> None:
    """The worlds turn on these instants: each is a change of the clock, save in three zones without."""
    after_ms = read_utc(text)
    changed = local(after_ms, zone).utcoffset() != local(after_ms - MINUTE_MS, zone).utcoffset()
    assert changed == (zone not in ("UTC", "Asia/Kathmandu", "Asia/Kolkata"))
