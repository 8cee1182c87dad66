"""Clients that record the events they send, and checks of a database file whose server was killed.

A `Ledger` records every request that was sent, whether it was answered 202, and its events. Every event has a unique
marker as its name or path; `found` counts how often each is in the file. The checks do not use the server's code:
`lost_or_duplicated` counts rows, `differences_from_raw_rows` computes figures by loops (rollup_database.Reference).

The checks read a copy of the file (`copied_database`), so that the next server recovers what the killed one left, and
not what SQLite has recovered for a test.

SEED of tests/support/selection.py seeds every random choice; the times of kills still depend on the machine.
TALLY_KILLS is the number of kills, 12 by default; the other tests grow with it.
"""

import http.client
import itertools
import json
import os
import random
import sqlite3
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

from tally.accounts.accounts import create_account
from tally.accounts.api_keys import create_api_key
from tally.accounts.websites import add_website
from tally.clock import Clock
from tally.engine.values import Scope
from tally.events.dimensions import FIELDS, PAGES
from tally.events.filters import Filter
from tally.rollups import heatmaps
from tally.storage.database import open_database
from tests.support.app import CHROME
from tests.support.process import Server
from tests.support.rollup_database import DAY_MS, Reference, stored_facts, table_errors, with_all_rows
from tests.support.selection import SEED

KILLS = int(os.environ.get("TALLY_KILLS") or 12)
KILLS_PER_FILE = min(KILLS, 20)
# 1,000 kills of one file would make each check slower than the one before: each part has a file of its own.
parts = pytest.mark.parametrize("part", range(max(1, KILLS // KILLS_PER_FILE)), ids=lambda part: f"part {part}")

OWNER = "owner@example.com"
IMPORTED = "line-"
"""The prefix of names of imported events, which are in no ledger."""
HOUR_MS = 3_600_000
KINDS = ("pageview", "pageview", "screen_view", "event", "app_event", "vitals", "heatmap", "ab_assign", "ab_convert")


def rng_of(part: int, what: str) -> random.Random:
    """Return the random generator of one part of a test, and print the variables that repeat it."""
    print(f"{what}, part {part}: repeat it with TALLY_SEED={SEED}" + (f" TALLY_KILLS={KILLS}" if part else ""))
    return random.Random(f"{SEED} {what} {part}")


# --- sending

_numbers = itertools.count()


@dataclass(eq=False)
class Request:
    """Events of one request: all of them are stored, or none. `state` is sent, acknowledged or unsure (no response).

    `leaves`: the markers of the pageviews whose leave is in the request too, behind them.
    """

    markers: tuple[str, ...]
    body: bytes
    has_ids: bool
    path: str = "/api/collect"
    state: str = "sent"
    leaves: tuple[str, ...] = ()


@dataclass
class Ledger:
    """The requests that were sent to a website."""

    website: str
    name: str
    requests: list[Request] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    """Unexpected responses, as texts."""

    def in_state(self, *states: str) -> list[Request]:
        return [request for request in list(self.requests) if request.state in states]

    def markers(self, *states: str) -> set[str]:
        return {marker for request in self.in_state(*states) for marker in request.markers}

    def new(self, rng: random.Random, number: str) -> Request:
        """Return a new request: a single event or a batch, with event_ids or without."""
        size = rng.choice((1,) * 12 + (2, 3, 4, 7) * 2 + (50,))
        has_ids = rng.random() < 0.5
        now_ms = Clock().wall_ms()
        markers = tuple(f"{self.name}-{number}-{n}" for n in range(size))
        events = [random_event(rng, marker, now_ms) for marker in markers]
        if has_ids:
            events = [event | {"event_id": f"id of {event['marker']}"} for event in events]
        left = [event for event in events if has_ids and event["type"] == "pageview" and rng.random() < 0.5]
        leaves = tuple(event["marker"] for event in left[: 50 - size])
        events += [leave_of(rng, event) for event in left[: 50 - size]]
        for event in events:
            del event["marker"]
        body = (
            {"website_id": self.website, "events": events}
            if len(events) > 1
            else events[0] | {"website_id": self.website}
        )
        path = rng.choice(("/api/collect", "/api/v1/collect"))
        request = Request(markers, json.dumps(body).encode(), has_ids, path, leaves=leaves)
        self.requests.append(request)
        return request


def random_event(rng: random.Random, marker: str, now_ms: int) -> dict[str, Any]:
    """Return an event of any type, of one of 60 visitors; one in five is late, by up to 70 hours."""
    kind = rng.choice(KINDS)
    event: dict[str, Any] = {"marker": marker, "type": kind, "session_id": f"session-{rng.randrange(60)}"}
    event["os"] = rng.choice(("Windows", "Linux", "iOS"))
    if kind in ("pageview", "heatmap"):
        event["url"] = f"https://example.com/{marker}?utm_source=n{rng.randrange(3)}"
    else:
        event["name"] = marker
    if kind in ("event", "app_event"):
        event |= {"event_name": marker, "url": "https://example.com/of-all", "event_data": {"n": rng.randrange(9)}}
    if kind == "vitals":
        event["vitals"] = {"lcp": rng.randrange(5_000)}
    if kind == "heatmap":
        event |= {
            "viewport_width": 1_000,
            "points": [{"x": rng.random(), "y": rng.randrange(2_000), "kind": "click"}],
        }
    if kind.startswith("ab_"):
        event |= {"experiment": "button", "variant": rng.choice(("green", "blue"))}
    late = rng.random()
    if late < 0.2:
        event["timestamp"] = now_ms - rng.randrange(70 * HOUR_MS if late < 0.1 else HOUR_MS)
    return event


def leave_of(rng: random.Random, view: dict[str, Any]) -> dict[str, Any]:
    """Return the leave of a pageview."""
    own = {"type": "leave", "time_on_page": rng.randrange(1_800), "scroll_depth": 5 * rng.randrange(21)}
    return {name: value for name, value in view.items() if name != "session_id"} | own


class Client(threading.Thread):
    """Sends requests one after the other over one connection until it is stopped or loses the server.

    Begins with `first`; pauses `rest_s` between two requests.
    """

    def __init__(self, server: Server, ledger: Ledger, name: str, first: Sequence[Request] = (), rest_s: float = 0):
        super().__init__(daemon=True)
        at = urlsplit(server.url)
        self.connection = http.client.HTTPConnection(at.hostname or "", at.port or 0, timeout=60)
        self.ledger, self.name, self._first, self._rest_s = ledger, name, list(first), rest_s
        self.ended = threading.Event()
        self.failure: BaseException | None = None
        self.answered = 0

    def run(self) -> None:
        rng = random.Random(f"{SEED} {self.name}")
        number = 0
        while not self.ended.is_set():
            request = self._first.pop() if self._first else self.ledger.new(rng, f"{self.name}-{number}")
            number += 1
            if not self.send(request):
                break
            self.ended.wait(self._rest_s)
        for request in self._first:
            request.state = "unsure"

    def send(self, request: Request) -> bool:
        """Send a request; return whether there was a response."""
        try:
            self.connection.request("POST", request.path, request.body, {"User-Agent": CHROME})
            response = self.connection.getresponse()
            body = response.read()
        except (OSError, http.client.HTTPException) as failure:
            request.state, self.failure = "unsure", failure
            return False
        expected = {"ok": True, "accepted": len(request.markers) + len(request.leaves), "rejected": 0}
        if response.status != 202 or json.loads(body) != expected:
            self.ledger.wrong.append(f"{response.status} {body!r} to {request.body!r}")
        request.state = "acknowledged"
        self.answered += 1
        return True


@contextmanager
def sending(server: Server, *ledgers: Ledger, clients: int = 6, rest_s: float = 0) -> Iterator[list[Client]]:
    """Yield clients that send; stop them and wait for them at the end.

    They begin with the requests that have event_ids and had no response: one client sends each of these again.
    """
    again = {ledger.name: [one for one in ledger.in_state("unsure") if one.has_ids] for ledger in ledgers}
    made = []
    for n in range(clients):
        ledger = ledgers[n % len(ledgers)]
        mine = again[ledger.name][n // len(ledgers) :: -(-clients // len(ledgers))]
        # Each client has its own number, so that no marker occurs twice.
        made.append(Client(server, ledger, f"{next(_numbers)}", mine, rest_s))
    for client in made:
        client.start()
    try:
        yield made
    finally:
        for client in made:
            client.ended.set()
        for client in made:
            client.join(timeout=60)
            client.connection.close()
        assert not [client for client in made if client.is_alive()]


def send_again(server: Server, ledger: Ledger) -> None:
    """Send again all requests that have event_ids and had no response."""
    client = Client(server, ledger, "again")
    for request in ledger.in_state("unsure"):
        if request.has_ids:
            assert client.send(request)
    client.connection.close()


# --- checks of the file


def copied_database(db: Path, folder: Path) -> Path:
    """Return a copy of the database file and write-ahead log of a killed server."""
    folder.mkdir(exist_ok=True)
    for old in folder.glob("copied.db*"):
        old.unlink()
    for path in (db, db.with_name(db.name + "-wal")):
        if path.exists():
            # By another process: closing a file that this one's SQLite has open as well would drop its locks.
            subprocess.run(["cp", str(path), str(folder / path.name.replace(db.name, "copied.db"))], check=True)
    return folder / "copied.db"


def found(connection: sqlite3.Connection, website: int) -> Counter[str]:
    """Return how often each marker is in the file, over all tables with events. Leaves have none of their own."""
    with with_all_rows(connection, website):
        return _found(connection, website)


def _found(connection: sqlite3.Connection, website: int) -> Counter[str]:
    text = dict(connection.execute("select id, text from label"))
    kept: Counter[str] = Counter()
    for type_, pathname, name in connection.execute(
        "select type, pathname, event_name from event where website = ?", (website,)
    ):
        kept[text[name] if type_ >= 2 else text[pathname][1:]] += 1
    without_leaves = {"web_vitals": "and time_on_page is null"}
    for table, count in (("web_vitals", "1"), ("experiment_event", "1"), ("heatmap_point", "points")):
        for pathname, times in connection.execute(
            f"select pathname, {count} from {table} where website = ? {without_leaves.get(table, '')}", (website,)
        ):
            kept[text[pathname][1:]] += times
    # Heatmap points that are packed already.
    points = " + ".join(heatmaps.COUNTS)
    for pathname, times in connection.execute(
        f"select pathname, {points} from heatmap_count where website = ? and level = 0", (website,)
    ):
        kept[text[pathname][1:]] += times
    return kept


def found_leaves(connection: sqlite3.Connection, website: int) -> Counter[str]:
    """Return how often each marker has a leave in the file."""
    with with_all_rows(connection, website):
        rows = connection.execute(
            "select text from web_vitals join label on label.id = pathname"
            " where website = ? and time_on_page is not null",
            (website,),
        )
        return Counter(pathname[1:] for (pathname,) in rows)


def sent_markers(kept: Counter[str]) -> Counter[str]:
    """Return the counts without the markers that were imported or were in the file before."""
    return Counter({marker: times for marker, times in kept.items() if not marker.startswith(IMPORTED)})


def lost_or_duplicated(connection: sqlite3.Connection, website: int, ledger: Ledger) -> list[str]:
    """Return where the file differs from the ledger."""
    wrong = list(ledger.wrong)
    kept = sent_markers(found(connection, website))
    wrong += [f"{marker} is there {times} times" for marker, times in kept.items() if times != 1]
    wrong += [f"{marker} was acknowledged and is lost" for marker in ledger.markers("acknowledged") - kept.keys()]
    wrong += [f"{marker} was never sent" for marker in kept.keys() - ledger.markers("acknowledged", "unsure", "sent")]
    for request in ledger.in_state("unsure", "sent"):
        if len({kept[marker] for marker in request.markers}) > 1:
            wrong.append(f"half a request is there: {[(marker, kept[marker]) for marker in request.markers]}")
    left = found_leaves(connection, website)
    leaves = {marker for request in list(ledger.requests) for marker in request.leaves if marker in kept}
    wrong += [
        f"{marker} has {left[marker]} leaves, not {int(marker in leaves)}"
        for marker in leaves | left.keys()
        if left[marker] != (marker in leaves)
    ]
    with_ids = {marker for request in list(ledger.requests) if request.has_ids for marker in request.markers}
    event_ids = connection.execute("select count(*) from event_id where website = ?", (website,)).fetchone()[0]
    if event_ids != len(with_ids & kept.keys()) + len(leaves):
        stored = f"{len(with_ids & kept.keys())} events with one and {len(leaves)} leaves are stored"
        wrong.append(f"{event_ids} event_ids in the file, {stored}")
    return wrong


def inconsistencies(connection: sqlite3.Connection, *websites: int) -> list[str]:
    """Return the inconsistencies in the file. All events of `websites` were sent or imported by the test."""
    wrong = [str(row) for row in connection.execute("pragma integrity_check").fetchall() if row != ("ok",)]
    events = sum(sent_markers(found(connection, website)).total() for website in websites)
    ((used,),) = connection.execute("select coalesce(sum(events), 0) from account_usage").fetchall()
    if used != events:
        wrong.append(f"the month counts {used}, the tables hold {events}")
    ids = "select id from event union all select id from web_vitals union all select id from experiment_event"
    ((all_of_them, different),) = connection.execute(f"select count(*), count(distinct id) from ({ids})").fetchall()
    if all_of_them != different:
        wrong.append(f"{all_of_them - different} ids are there twice")
    for website in websites:
        wrong += visit_errors(connection, website)
    return wrong


def visit_errors(connection: sqlite3.Connection, website: int) -> list[str]:
    """Return the rows of table visit that differ from the visits computed from events."""
    want = Counter(
        (visit.facts[0].visitor, visit.begin_ms, visit.ms, visit.views, visit.events, *visit.pages)
        for visit in Reference(stored_facts(connection, website)).visits
    )
    pages = ", ".join(f"(select text from label where id = {page})" for page in PAGES)
    with with_all_rows(connection, website):
        rows = connection.execute(
            f"select visitor, start_ms, duration_ms, pageviews, events, {pages} from visit where website = ?",
            (website,),
        )
        have = Counter(rows.fetchall())
    return [f"visits that should not be there: {have - want}, that should: {want - have}"] if have != want else []


# --- checks of the responses


def differences_from_raw_rows(
    server: Server, key: str, website: str, db: Path, rng: random.Random | None = None
) -> list[str]:
    """Return where the read API differs from figures counted from raw rows. No client may send meanwhile.

    `rng` chooses one range or filter, for tests in which all of them would take long.
    """
    with closing(sqlite3.connect(db)) as connection:
        statement = "select number, day_offset_minutes from website where id = ?"
        ((number, offset_minutes),) = connection.execute(statement, (website,)).fetchall()
        reference = Reference(stored_facts(connection, number))
    # Rows have the times of the website's days: scopes too, and the requests are shifted back.
    offset_ms = offset_minutes * 60_000
    now_ms = Clock().wall_ms() + offset_ms
    whole = (now_ms // DAY_MS * DAY_MS - 4 * DAY_MS, (now_ms // DAY_MS + 1) * DAY_MS)
    scopes = [
        Scope(number, *whole),
        Scope(number, *whole, (Filter("os", "=", ("Linux", "iOS")),)),
        Scope(number, now_ms - 26 * HOUR_MS - 12_345, now_ms - 61_001),
    ]
    wrong = []
    for scope in [rng.choice(scopes)] if rng else scopes:
        span = f"from={iso(scope.from_ms - offset_ms)}&to={iso(scope.to_ms - offset_ms)}" + "".join(
            f"&filter_{of.name}={value}" for of in scope.filters for value in of.values
        )
        for query, want in queries(reference, scope, offset_ms):
            path = f"/api/v1/websites/{website}/{query}{'&' if '?' in query else '?'}{span}"
            answer = server.request("GET", path, headers={"Authorization": f"Bearer {key}"})
            got = answer.json["data"] if answer.status == 200 else answer.text
            if got != want(got):
                wrong.append(f"{path}: {got}, raw rows say {want(got)}")
    return wrong


def queries(reference: Reference, scope: Scope, offset_ms: int) -> Iterator[tuple[str, Callable[[Any], Any]]]:
    """Yield requests about a range with the expected data; a series is compared by the buckets of the response."""
    yield "stats", lambda got: key_figures(reference, scope)
    yield "timeseries?interval=day", lambda got: series(reference, scope, got, offset_ms)
    yield "timeseries?interval=hour&tz=Asia/Kathmandu", lambda got: series(reference, scope, got, offset_ms)
    for name in ("pathname", "utm_source"):
        _, rows = reference.top(scope, name, 40)
        data = [dict(zip(("value", "visitors", "pageviews", "events"), row, strict=True)) for row in rows]
        yield f"top/{name}?limit=40", lambda got, data=data: data
    names = [dict(zip(("value", "visitors", "events"), row, strict=True)) for row in reference.names(scope, 40)]
    yield "event-names?limit=40", lambda got: names
    for side in ("entry", "exit"):
        pages = [
            {"value": page, "visits": visits} | shares(visits, *of)
            for page, visits, *of in reference.pages(scope, side, 40)[1]
        ]
        yield f"{side}-pages?limit=40", lambda got, pages=pages: pages
    steps = some_steps(reference)
    if steps:
        words = "&".join(f"step={quote(f'{field}:{text}')}" for field, text in steps)
        yield f"funnel?{words}", lambda got: funnel(reference, scope, steps)


def key_figures(reference: Reference, scope: Scope) -> dict[str, Any]:
    found = reference.stats(scope)
    counts = {name: getattr(found, name) for name in ("visitors", "visits", "pageviews", "events")}
    return counts | shares(found.visits, found.bounces, found.visit_views, found.visit_ms)


def shares(visits: int, bounces: int, views: int, ms: int) -> dict[str, Any]:
    """Return the ratios of visits."""
    totals = {
        "bounce_rate": (100 * bounces, 1),
        "views_per_visit": (views, 2),
        "visit_duration": (Fraction(ms, 1_000), 0),
    }
    return {
        name: rounded(Fraction(total, visits), places) if visits else None for name, (total, places) in totals.items()
    }


def some_steps(reference: Reference) -> list[tuple[str, str]]:
    """Return two or three steps of a visit; nearly every event has a unique name or page."""
    for visit in reference.visits:
        steps = [
            ("pathname", fact.texts[0]) if fact.type <= 1 else ("event_name", fact.texts[len(FIELDS)])
            for fact in visit.facts
        ]
        if len(steps) > 1 and all(text for _, text in steps[:3]):
            return steps[:3]
    return []


def funnel(reference: Reference, scope: Scope, steps: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    found = reference.funnel(scope, steps)
    rows = []
    for n, ((name, text), (visits, visitors, ms)) in enumerate(zip(steps, found, strict=True)):
        first, before = found[0][0], found[n - 1][0]
        rows.append(
            {
                "field": name,
                "value": text,
                "visits": visits,
                "visitors": visitors,
                "of_first": rounded(Fraction(100 * visits, first), 1) if first else None,
                "of_previous": rounded(Fraction(100 * visits, before), 1) if n and before else None,
                "mean_seconds": rounded(Fraction(ms, 1_000 * visits), 1) if n and visits else None,
            }
        )
    return rows


def rounded(value: Fraction, places: int) -> float:
    """Round half up; no figure here is negative."""
    return int(value * 10**places + Fraction(1, 2)) / 10**places


def series(reference: Reference, scope: Scope, got: Any, offset_ms: int) -> Any:
    if not isinstance(got, list):
        return "a series"
    begins = [round(datetime.fromisoformat(row["time"]).timestamp() * 1_000) + offset_ms for row in got]
    edges = [(max(begin, scope.from_ms), end) for begin, end in zip(begins, [*begins[1:], scope.to_ms], strict=True)]
    names = ("visitors", "visits", "pageviews", "events")
    rows = reference.series(scope, edges)
    return [{"time": row["time"]} | dict(zip(names, found, strict=True)) for row, found in zip(got, rows, strict=True)]


def iso(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1_000, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


# --- files


# Zones without summer time: a day of the zone is the website's day, but mostly not a day of UTC.
ZONES = ("UTC", "America/Phoenix", "Asia/Kolkata", "Australia/Darwin", "Etc/GMT+12", "Etc/GMT-14")


def new_file(db: Path, websites: int = 1) -> tuple[str, list[str]]:
    """Create a database with an owner and some websites; return a key and the ids of the websites.

    TALLY_SEED chooses when the days of each website begin.
    """
    rng = random.Random(f"{SEED} zones")
    with closing(open_database(db, create=True)) as connection:
        owner = create_account(connection, OWNER, "business", None, 0)
        ids = [
            add_website(connection, owner, "example.com", f"{n}", (), n, time_zone=rng.choice(ZONES))
            for n in range(websites)
        ]
        return create_api_key(connection, owner, "", 0), ids


def check_killed_database(db: Path, folder: Path, *ledgers: Ledger, tables: bool = False) -> None:
    """Check the file of a killed server; with `tables` also its totals and rollups, which takes longer."""
    with closing(sqlite3.connect(copied_database(db, folder))) as connection:
        numbers = dict(connection.execute("select id, number from website"))
        mine = [numbers[ledger.website] for ledger in ledgers]
        for number, ledger in zip(mine, ledgers, strict=True):
            assert_empty(lost_or_duplicated(connection, number, ledger))
        assert_empty(inconsistencies(connection, *mine))
        for number in mine if tables else ():
            assert_empty(table_errors(connection, number))


def assert_empty(wrong: list[str]) -> None:
    """Fail if there are errors, and print the first ten."""
    assert not wrong, f"{len(wrong)} things are wrong (TALLY_SEED={SEED}):\n" + "\n".join(
        one[:1_000] for one in wrong[:10]
    )
