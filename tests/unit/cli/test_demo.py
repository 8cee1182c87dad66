"""`analytics-server demo`: the generated data, its reproducibility, and what it refuses."""

import contextlib
import json
import re
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tally.demo.sites import SITES, Site
from tally.demo.traffic import DAYS, heat_points, lines, rejected
from tally.events.dimensions import EVENT_FIELDS, FIELDS, VISIT_FIELDS
from tally.storage.meta import demo_until
from tally.timeranges import standard_offset_minutes
from tally.timestamps import DAY_MS
from tests.support.app import ROOT, Answer
from tests.support.page_client import OWN_PAGE
from tests.support.process import Command, Server, accept_interrupts, clean_environment, until

UNTIL_MS = 1_795_258_800_000  # 2026-11-21T11:00:00Z
UNTIL = "2026-11-21T11:00:00Z"
FEW = ("--events", "4000")


def offset_ms(site: Site) -> int:
    """Return what the website's time has more than UTC."""
    return standard_offset_minutes(site.time_zone, UNTIL_MS) * 60_000


def stored(db: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Return the readable content of a database; visitors have other numbers in each database."""
    texts, of_visits = (
        ", ".join(f"(select text from label where id = {field})" for field in fields)
        for fields in ((*EVENT_FIELDS, "event_name"), VISIT_FIELDS)
    )
    with sqlite3.connect(db) as connection:
        found = {
            "events": f"select website, ts, id, type, visit, event_data, {texts} from event order by website, ts, id",
            "vitals": "select website, ts, lcp, inp, cls, fcp, ttfb from web_vitals"
            " where time_on_page is null order by website, ts, id",
            "leaves": "select website, ts, time_on_page, scroll_depth from web_vitals"
            " where time_on_page is not null order by website, ts, id",
            "visits": f"select website, start_ms, duration_ms, pageviews, events, {of_visits} from visit"
            " order by 1, 2, 3, 4, 5",
            "ab": "select website, ts, type, value from experiment_event order by website, ts, id",
            "heat": "select website, day, text, viewport, kind, bin_y, bin_x, points"
            " from heatmap_point join label on id = pathname"
            " order by 1, 2, 3, 4, 5, 6, 7",
            "rejected": "select * from rejected_event order by 1, 2, 3",
            "usage": "select month, events from account_usage order by 1",
        }
        return {name: connection.execute(statement).fetchall() for name, statement in found.items()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo")


def start(folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, str(ROOT / "analytics_server.py"), "demo", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=clean_environment(),
    )


class Demo(NamedTuple):
    """A served demo, the cookie of a session, and the output."""

    url: str
    cookie: str
    password: str
    words: str

    def get(self, path: str) -> Any:
        answer = request(self.url, "GET", path, cookie=self.cookie)
        assert answer.status == 200, (path, answer.body)
        return answer.json


def request(url: str, method: str, path: str, body: Any = None, cookie: str = "") -> Answer:
    server = Server.__new__(Server)
    server.url = url
    return server.request(method, path, body, OWN_PAGE | {"Cookie": cookie, "Content-Type": "application/json"})


@pytest.fixture(scope="module")
def demo(folder: Path) -> Iterator[Demo]:
    """Return a served demo with data up to now, and a session."""
    process = start(folder, "--port", "0", *FEW)
    assert process.stdout is not None
    assert process.stderr is not None
    url = process.stdout.readline().strip().removeprefix("listening on ")
    words = ""
    while "database:" not in words:
        words += process.stderr.readline()
    password = re.search(r"^log in with: demo@localhost  password: (\S+)$", words, re.MULTILINE)
    assert password, words
    answer = request(url, "POST", "/api/account/login", {"email": "demo@localhost", "password": password[1]})
    assert answer.status == 200, answer.body
    yield Demo(url, answer.headers["Set-Cookie"].split(";")[0], password[1], words)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 0
    process.communicate()


def test_the_same_call_gives_the_same_figures(folder: Path, command: Command) -> None:
    for name in ("one.db", "two.db"):
        done = command("demo", "--no-serve", "--db", name, "--until", UNTIL, *FEW, cwd=folder)
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
    one, two = stored(folder / "one.db"), stored(folder / "two.db")
    assert one == two
    assert [name for name, rows in one.items() if not rows] == []
    assert 3_400 < len(one["events"]) + len(one["vitals"]) + len(one["ab"]) < 4_600
    # Of the events of the plan, leaves are none.
    assert sum(events for _, events in one["usage"]) == sum(len(one[name]) for name in ("events", "vitals", "ab"))
    # Websites have the numbers 1 to 3; times in the file are website time.
    times = [row[1] - offset_ms(SITES[row[0] - 1]) for row in one["events"]]
    assert UNTIL_MS - 300_000 < max(times) <= UNTIL_MS
    assert min(times) < UNTIL_MS - (DAYS - 2) * DAY_MS
    assert [path.name for path in folder.glob("*unfinished*")] == []
    assert (folder / "one.db").stat().st_mode & 0o777 == 0o600


@pytest.mark.slow
def test_every_page_has_data(demo: Demo) -> None:
    """Every response used by a page of the dashboard, over 30 days or more."""
    websites = {website["name"]: website for website in demo.get("/api/account/websites")["data"]}
    assert list(websites) == ["Coffee shop", "Travel blog", "Habit app"]
    offsets = {website["time_zone"]: website["day_offset_minutes"] for website in websites.values()}
    assert offsets == {"Europe/Berlin": 60, "America/Los_Angeles": -480, "Asia/Kolkata": 330}
    day = datetime.fromtimestamp(datetime.now(UTC).timestamp() - 179 * 86_400, UTC).date()
    shop, _, app = (f"/api/account/websites/{website['id']}" for website in websites.values())
    for base in (shop, app):
        stats = demo.get(f"{base}/stats?from={day}")["data"]
        assert all(value for value in stats.values()), stats
        assert demo.get(f"{base}/realtime")["data"]["active_visitors"] > 3
        experiments = demo.get(f"{base}/experiments?from={day}")["data"]
        assert [goal["variants"][0]["visitors"] > 0 for one in experiments for goal in one["goals"]] == [True]
    of_app = {"platform", "app_version"}
    for field in FIELDS:
        rows = demo.get(f"{app if field in of_app else shop}/top/{field}?from={day}")["data"]
        assert [row for row in rows if row["value"]], field
    pages = demo.get(f"{shop}/top/pathname?from={day}&metrics=visitors,time_on_page,scroll_depth&limit=5")["data"]
    assert all(page["time_on_page"] > 3 and 5 < page["scroll_depth"] < 95 for page in pages), pages
    assert len(demo.get(f"{shop}/event-names?from={day}")["data"]) == 4
    assert demo.get(f"{shop}/event-data?from={day}&event_name=add_to_cart")["data"]
    steps = "step=pathname:/coffee&step=event_name:add_to_cart&step=pathname:/cart"
    assert all(step["visits"] for step in demo.get(f"{shop}/funnel?from={day}&{steps}")["data"])
    vitals = demo.get(f"{shop}/vitals?from={day}")["data"]
    assert all(metric["samples"] for metric in (vitals.values() if isinstance(vitals, dict) else vitals))
    assert demo.get(f"{shop}/heatmap-pages?from={day}")["data"]
    assert demo.get(f"{shop}/rejected")["data"]["events"] > 0
    usage = demo.get("/api/account")["data"]["events_this_month"]
    assert 0 < usage < 4_600


@pytest.mark.parametrize("site", SITES, ids=lambda site: site.domain)
def test_goals_and_funnels_name_what_the_website_has(site: Site) -> None:
    of_events = {f"event_name:{name}" for page in site.pages.values() for name, _ in page.events}
    known = of_events | {f"pathname:{path}" for path in site.pages}
    matched = {one.removeprefix("filter_").replace("=", ":") for goal in site.saved.goals for one in goal["match"]}
    assert matched <= known
    steps = {step for funnel in site.saved.funnels for step in funnel["steps"]}
    assert steps <= known | {f"goal:{goal['name']}" for goal in site.saved.goals}


@pytest.mark.slow
def test_goals_segments_funnels_and_annotations_are_saved(demo: Demo) -> None:
    """The server accepts each of them as it is, reports take them, and annotations are of the last 60 days."""
    for website in demo.get("/api/account/websites")["data"]:
        base = f"/api/account/websites/{website['id']}"
        saved = {kind: demo.get(f"{base}/{kind}")["data"] for kind in ("goals", "segments", "funnels", "annotations")}
        assert all(saved.values()), saved
        for kind, own in saved.items():
            for one in own:
                id, content = one["id"], {name: value for name, value in one.items() if name != "id"}
                answer = request(demo.url, "PATCH", f"{base}/{kind}/{id}", content, demo.cookie)
                assert (answer.status, answer.json) == (200, {"data": {"id": id, **content}})
        assert any(row["conversions"] for row in demo.get(f"{base}/goals/report?period=6mo")["data"])
        for segment in saved["segments"]:
            assert demo.get(f"{base}/stats?period=6mo&segment={segment['id']}")["data"]["visitors"]
        for funnel in saved["funnels"]:
            steps = "&".join(f"step={step}" for step in funnel["steps"])
            assert demo.get(f"{base}/funnel?period=6mo&{steps}")["data"][0]["visits"]
        assert len(saved["annotations"]) == 2
        day = (datetime.now(UTC) - timedelta(days=60)).date().isoformat()
        assert all(day <= one["from"] for one in saved["annotations"])
    shop = demo.get("/api/account/websites")["data"][0]["id"]
    order = demo.get(f"/api/account/websites/{shop}/goals/report?period=6mo")["data"][0]
    assert (order["name"], order["currency"], float(order["value"]) > 0) == ("Order", "EUR", True)


def test_the_pages_are_marked_as_a_demo(demo: Demo) -> None:
    state = demo.get("/api/account/state")["data"]
    assert (state["logged_in"], state["needs_setup"], state["demo"]) == (True, False, True)
    assert demo.get("/api/account")["data"]["demo"] is True
    website = demo.get("/api/account/websites")["data"][0]["id"]
    path = f"/api/account/websites/{website}/share-links"
    made = request(demo.url, "POST", path, {"name": "Readers"}, cookie=demo.cookie)
    shared = request(demo.url, "GET", f"/api{made.json['data']['path']}")
    assert (shared.json["data"]["demo"], shared.json["data"]["name"]) == (True, "Coffee shop")


def test_visits_arrive_while_the_demo_is_served(demo: Demo, folder: Path) -> None:
    """The first one begins at the start of the server, after the end of the file's traffic."""
    websites = [website["id"] for website in demo.get("/api/account/websites")["data"]]
    with contextlib.closing(sqlite3.connect(folder / "demo.db")) as connection:
        ended = demo_until(connection)
    assert ended
    last = datetime.fromisoformat(ended)

    def arrived() -> list[dict[str, Any]]:
        rows = [demo.get(f"/api/account/websites/{id}/events?limit=1")["data"] for id in websites]
        # Each in the time zone of its website.
        return [row for newest in rows for row in newest if datetime.fromisoformat(row["timestamp"]) > last]

    until(arrived)
    assert {row["type"] for row in arrived()} <= {"pageview", "screen_view", "event", "app_event"}
    assert all(row["device"] for row in arrived())


def test_the_demo_listens_on_loopback_only(demo: Demo) -> None:
    assert demo.url.startswith("http://127.0.0.1:")
    assert "setup" not in demo.words


def test_an_existing_demo_is_kept(demo: Demo, folder: Path, command: Command) -> None:
    """Its events are kept and its password is replaced; while it is served nothing changes."""
    busy = command("demo", "--no-serve", cwd=folder)
    assert busy.returncode == 1
    assert "is in use by a running server" in busy.stderr
    assert "password" not in busy.stderr
    before = stored(folder / "two.db")
    again = command("demo", "--no-serve", "--db", "two.db", cwd=folder)
    assert again.returncode == 0
    assert "with traffic up to 2026-11-21 11:00 UTC" in again.stderr
    assert stored(folder / "two.db") == before
    password = re.search(r"password: (\S+)", again.stderr)
    assert password
    assert password[1] != demo.password
    refused = command("demo", "--no-serve", "--db", "two.db", "--until", UNTIL, cwd=folder)
    assert refused.returncode == 1
    assert "--until and --events need a new file" in refused.stderr


def test_other_databases_are_refused_unchanged(tmp_path: Path, command: Command) -> None:
    command("website", "add", "example.com", "--db", "own.db")
    (tmp_path / "notes.md").write_text("# Notes\n")
    before = (tmp_path / "own.db").read_bytes()
    own = command("demo", "--db", "own.db")
    assert own.returncode == 1
    assert "own.db holds other data, not a demo" in own.stderr
    assert (tmp_path / "own.db").read_bytes() == before
    text = command("demo", "--db", "notes.md")
    assert text.returncode == 1
    assert "notes.md is not a SQLite database" in text.stderr
    assert sorted(path.name for path in tmp_path.iterdir() if "own" not in path.name) == ["notes.md"]


def test_the_database_of_the_environment_is_not_filled(tmp_path: Path, command: Command) -> None:
    done = command("demo", "--no-serve", "--events", "1000", env={"ANALYTICS_DB": str(tmp_path / "real.db")})
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["demo.db"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--until", "yesterday"), "--until: must be a date or time"),
        (("--until", "2999-01-01"), "--until: must not lie in the future (got '2999-01-01')"),
        (("--events", "12"), "must be between 1,000 and 2,000,000 (got '12')"),
        (("--port", "x"), "--port"),
    ],
)
def test_a_failed_demo_leaves_no_file(arguments: tuple[str, ...], words: str, tmp_path: Path, command: Command) -> None:
    done = command("demo", *arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_demo_leaves_no_file(tmp_path: Path) -> None:
    process = start(tmp_path, "--no-serve", "--events", "400000")
    until(lambda: any(path.stat().st_size for path in tmp_path.glob("demo.db.unfinished*")))
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, (out, err)
    assert list(tmp_path.iterdir()) == []


def test_tests_in_the_background_can_interrupt_commands() -> None:
    """A shell starts background jobs with SIGINT ignored, which the commands under test would inherit."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        accept_interrupts()
        done = subprocess.run(
            [sys.executable, "-c", "import signal; signal.raise_signal(signal.SIGINT)"], stderr=subprocess.DEVNULL
        )
        assert done.returncode == -signal.SIGINT
    finally:
        signal.signal(signal.SIGINT, before)


# --- the traffic itself


@pytest.mark.slow
@pytest.mark.parametrize("site", SITES, ids=lambda site: site.domain)
def test_traffic_grows_and_has_a_rhythm(site: Any) -> None:
    """By days, hours and weekdays of the website's time zone: it is quiet before the morning there."""
    views: Counter[int] = Counter()
    hours: Counter[int] = Counter()
    weekdays: Counter[int] = Counter()
    for line in lines(site, UNTIL_MS, 0.15):
        if line["type"] in ("pageview", "screen_view"):
            local_ms = line["timestamp"] + offset_ms(site)
            views[local_ms // DAY_MS] += 1
            hours[local_ms // 3_600_000 % 24] += 1
            weekdays[datetime.fromtimestamp(local_ms / 1_000, UTC).weekday()] += 1
    days = [views[day] for day in sorted(views)]
    assert len(days) == DAYS
    assert sum(days[-29:-1]) > 1.3 * sum(days[:28])
    assert max(hours.values()) > 2 * min(hours.values())
    assert min(hours, key=lambda hour: hours[hour]) in range(1, 7)
    assert max(hours, key=lambda hour: hours[hour]) in range(9, 23)
    assert max(weekdays.values()) > 1.1 * min(weekdays.values())


@pytest.mark.slow
def test_generated_data_depends_on_the_seed_only() -> None:
    for site in SITES:
        first, second = (
            (list(lines(site, UNTIL_MS, 0.01)), list(heat_points(site, UNTIL_MS, 0.1)), rejected(site, UNTIL_MS, 0.1))
            for _ in range(2)
        )
        assert json.dumps(first[:2]) == json.dumps(second[:2])
        assert first[2] == second[2]
