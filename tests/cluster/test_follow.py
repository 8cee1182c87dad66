"""`--cluster-mode follow` with its real parts: the server as a process, and ClickHouse's engine behind front.py, which
is killed and started again as a server would be.

Whatever ends when, ClickHouse has afterwards what SQLite has: nothing is missing and nothing is there twice.
"""

import asyncio
import json
import random
import re
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tally.accounts.websites import all_websites
from tally.clickhouse.client import NoAnswer, Refused
from tally.cluster import join, settler, setup
from tally.cluster import reports as cluster_reports
from tally.cluster.compare import Comparison, _plain
from tally.cluster.engine import FollowEngine
from tally.cluster.servers import Servers
from tally.cluster.unloader import Unloader
from tally.engine.values import Requester, Scope
from tally.events.filters import Filter
from tally.maintenance import retention
from tally.settings import Settings
from tally.storage.cluster_tables import DELETED_MS, Copy, copy_of
from tally.storage.database import Connection, open_database, transaction
from tests.cluster.engine import FRONT, PYTHON, needs_clickhouse
from tests.support.aged_database import DAY_MS, DAYS, KEEP, TODAY, built_database
from tests.support.app import ROOT, App, ManualClock, wait_until
from tests.support.ledgers import new_file
from tests.support.process import UNLIMITED, Serve, Server, clean_environment, until

pytestmark = needs_clickhouse
NOW_MS = time.time_ns() // 1_000_000
UNFILTERED = "stats?from=2020-01-01"
# ClickHouse answers it; without a filter it is a sum of totals, which are SQLite's.
RANGE = f"{UNFILTERED}&filter_type=pageview"


class ClickHouse:
    """The engine behind its front, at one address in all its lives."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._port = folder, 0
        self.start()

    def start(self) -> None:
        words = [PYTHON, str(FRONT), str(self._folder), str(self._port)]
        self._process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self._port = int(self._process.stdout.readline())

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def rows(self, statement: str) -> list[list[Any]]:
        return [json.loads(line) for line in self.execute(statement).splitlines()]

    def execute(self, statement: str) -> bytes:
        boundary = "b"
        form = f'--{boundary}\r\nContent-Disposition: form-data; name="query"\r\n\r\n{statement}\r\n--{boundary}--\r\n'
        request = urllib.request.Request(
            f"{self.url}/?database=tally&default_format=JSONCompactEachRow&output_format_json_quote_64bit_integers=0",
            form.encode(),
            {"Content-Type": f"multipart/form-data; boundary={boundary}"},
        )
        with urllib.request.urlopen(request) as answer:
            return bytes(answer.read())


@pytest.fixture
def clickhouse(tmp_path: Path) -> Iterator[ClickHouse]:
    opened = ClickHouse(tmp_path / "clickhouse")
    yield opened
    opened.kill()


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "analytics.db"


class Site:
    """A website of a file, whose server and commands know ClickHouse."""

    def __init__(self, db: Path, clickhouse: ClickHouse) -> None:
        self.db, self._clickhouse = db, clickhouse
        self.key, (self.id,) = new_file(db)

    def run(self, *words: str, fails: bool = False) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, str(ROOT / "analytics_server.py"), *words, "--db", str(self.db)]
        done = subprocess.run(command, text=True, capture_output=True, env=clean_environment())
        assert (done.returncode != 0) == fails, done.stdout + done.stderr
        return done

    def cluster(self, *words: str, fails: bool = False) -> str:
        done = self.run("cluster", *words, "--clickhouse", self._clickhouse.url, fails=fails)
        return done.stdout + done.stderr

    def add(self, domain: str) -> str:
        """Add a website and return its id."""
        return self.run("website", "add", domain).stdout.split()[-1]

    @property
    def options(self) -> tuple[str, ...]:
        return (*UNLIMITED, "--cluster-mode", "follow", "--clickhouse", self._clickhouse.url)

    def send(self, server: Server, *numbers: int, **more: Any) -> None:
        """Send page views whose pages are numbers."""
        events = [
            {
                "website_id": self.id,
                "type": "pageview",
                "url": f"https://example.com/{number}",
                "event_id": f"event-{number}",
                "session_id": f"session-of-{number % 7}",
                "referrer": f"https://ref{number % 5}.example/",
                "timestamp": NOW_MS - 60_000 * (number % 4_000),
                **more,
            }
            for number in numbers
        ]
        answer = server.request("POST", "/api/collect", {"events": events})
        assert answer.status == 202, answer.body

    def get(self, server: Server, report: str) -> Any:
        answer = server.request(
            "GET", f"/api/v1/websites/{self.id}/{report}", headers={"Authorization": f"Bearer {self.key}"}
        )
        assert answer.status == 200, answer.body
        return json.loads(answer.body)

    def pages(self) -> list[str]:
        """Return the pages that SQLite has, each as often as it is stored."""
        with closing(sqlite3.connect(self.db)) as file:
            rows = file.execute("select text from event join label on label.id = pathname order by text")
            return [text for (text,) in rows]

    def shipped_pages(self) -> list[str]:
        """Return the pages that ClickHouse has of the website's copy."""
        with closing(sqlite3.connect(self.db)) as file:
            ((copy,),) = file.execute("select copy from cluster_copy where state = 'joined'")
        return [
            row[0]
            for row in self._clickhouse.rows(
                f"select toString(pathname) as p from event where website = {copy} order by p"
            )
        ]

    def waiting(self) -> int:
        with closing(sqlite3.connect(self.db)) as file:
            return int(file.execute("select count(*) from cluster_outbox").fetchone()[0])


@pytest.fixture
def site(db: Path, clickhouse: ClickHouse) -> Site:
    return Site(db, clickhouse)


def metric(server: Server, name: str) -> float:
    text = server.request("GET", "/metrics").body.decode()
    return float(next(line.split()[-1] for line in text.splitlines() if line.startswith(f"{name} ")))


def answered(server: Server) -> tuple[float, float]:
    """Return how many reports ClickHouse and SQLite have answered."""
    return tuple(metric(server, f'tally_cluster_reports_total{{engine="{name}"}}') for name in ("clickhouse", "sqlite"))  # type: ignore[return-value]


def by_clickhouse(server: Server, ask: Callable[[], Any]) -> Any:
    """Return an answer that ClickHouse gave."""

    def asked() -> Any:
        before = answered(server)[0]
        found = ask()
        return (found,) if answered(server)[0] > before else None

    return until(asked)[0]


def test_what_is_there_and_what_comes_is_answered_by_clickhouse(site: Site, serve: Serve, tmp_path: Path) -> None:
    server = serve(*UNLIMITED)
    site.send(server, *range(40))
    assert server.terminate() == 0
    assert "ClickHouse 26" in site.cluster("check")
    site.cluster("init")
    # Again: it may have been interrupted.
    assert "the tables are there" in site.cluster("init")
    server = serve(*site.options)
    site.send(server, *range(40, 60))
    assert site.get(server, RANGE)["data"]["pageviews"] == 60
    assert "not joined" in site.cluster("status")
    site.cluster("join")
    assert "ClickHouse answers" in site.cluster("status")
    for number in range(60, 70):
        site.send(server, number)
        # Each question counts the event that was answered before it.
        assert by_clickhouse(server, lambda: site.get(server, RANGE))["data"]["pageviews"] == number + 1
    assert "equal" in site.cluster("compare", "--days", "7")
    assert site.shipped_pages() == site.pages()
    assert server.request("GET", "/healthz").body == b'{"ok":true,"queue":0,"cluster_lag":0}'
    # A website without events has its copy with its first one; one that was imported to has to be joined.
    first = site.id
    site.id = site.add("new.example")
    site.send(server, *range(5))
    assert by_clickhouse(server, lambda: site.get(server, RANGE))["data"]["pageviews"] == 5
    assert server.terminate() == 0
    early, site.id = site.add("early.example"), site.add("imported.example")
    lines = tmp_path / "line.ndjson"
    lines.write_text('{"type": "pageview", "timestamp": "2026-01-01T10:00:00Z", "pathname": "/old", "visit_id": "v"}\n')
    site.run("import", str(lines), "--website", site.id)
    server = serve(*site.options)
    site.send(server, *range(5))
    assert site.get(server, RANGE)["data"]["pageviews"] == 6
    status = site.cluster("status").splitlines()
    assert [line.split(maxsplit=1)[1] for line in status if "answers" in line] == [
        "ClickHouse answers",
        "ClickHouse answers",
        "SQLite answers: no events yet",
        "SQLite answers: import; a server that runs joins it again",
    ], status
    site.id = early
    site.send(server, *range(5))
    assert by_clickhouse(server, lambda: site.get(server, RANGE))["data"]["pageviews"] == 5
    site.id = first
    assert by_clickhouse(server, lambda: site.get(server, RANGE))["data"]["pageviews"] == 70


def followed(site: Site, serve: Serve) -> Server:
    """Return a server whose website is joined and has ten page views, which ClickHouse counts."""
    site.cluster("init")
    server = serve(*site.options)
    site.cluster("join")
    site.send(server, *range(10))
    assert by_clickhouse(server, lambda: site.get(server, RANGE))["data"]["pageviews"] == 10
    return server


def test_collecting_and_reports_go_on_while_clickhouse_is_away(
    site: Site, serve: Serve, clickhouse: ClickHouse
) -> None:
    server = followed(site, serve)
    clickhouse.kill()
    for number in range(10, 30):
        site.send(server, number)
        assert site.get(server, RANGE)["data"]["pageviews"] == number + 1
    assert site.waiting() > 0
    assert metric(server, "tally_cluster_up") == 0
    assert metric(server, 'tally_cluster_work_failures_total{work="settling"}') == 0
    assert "does not answer" in site.cluster("check", fails=True)
    # Restarted while ClickHouse is away.
    assert server.terminate() == 0
    server = serve(*site.options)
    site.send(server, *range(30, 40))
    clickhouse.start()
    assert by_clickhouse(server, lambda: site.get(server, RANGE))["data"]["pageviews"] == 40
    until(lambda: not site.waiting())
    assert site.shipped_pages() == site.pages()


def test_tables_that_are_emptied_answer_nothing(site: Site, serve: Serve, clickhouse: ClickHouse) -> None:
    """No report is ClickHouse's, and empty, until the next shipment finds that its data is lost."""
    server = followed(site, serve)
    until(lambda: not site.waiting())
    before = answered(server)
    for table in ("event", "shipped"):
        clickhouse.execute(f"truncate table {table}")
    # Another question: the answer to the first one is in the cache.
    assert site.get(server, "stats?from=2020-01-02&filter_type=pageview")["data"]["pageviews"] == 10
    assert answered(server) == (before[0], before[1] + 1)
    until(lambda: "belongs to another file" in server.stderr())


def test_a_server_that_may_lack_what_another_one_has_is_not_asked(
    site: Site, serve: Serve, clickhouse: ClickHouse
) -> None:
    """Of several servers, one is used once it has what the others have: these tables cannot be asked to wait for it."""
    server = followed(site, serve)
    assert server.terminate() == 0
    two = ("--clickhouse", f"{clickhouse.url}/")
    assert "tables are those of one server" in site.cluster("init", *two, fails=True)
    server = serve(*site.options, *two)
    site.send(server, 10)
    until(lambda: metric(server, "tally_cluster_failures_total") >= 2)
    assert site.get(server, RANGE)["data"]["pageviews"] == 11
    assert answered(server)[0] == 0
    assert site.waiting()


def test_kills_of_both_at_random_moments_lose_and_double_nothing(
    site: Site, serve: Serve, clickhouse: ClickHouse
) -> None:
    site.cluster("init")
    server = serve(*site.options)
    site.cluster("join")
    rng = random.Random(11)
    for turn in range(10):
        stop = threading.Event()

        def send(first: int, server: Server = server, stop: threading.Event = stop) -> None:
            while not stop.is_set():
                try:
                    site.send(server, *range(first, first + 5))
                except (OSError, AssertionError, ConnectionError):
                    return
                first += 5

        client = threading.Thread(target=send, args=(10_000 * turn,))
        client.start()
        # Something is shipped each second.
        time.sleep(rng.uniform(0.1, 1.3))
        if rng.random() < 0.5:
            server.kill()
            stop.set()
            client.join()
            server = serve(*site.options)
        else:
            clickhouse.kill()
            time.sleep(rng.uniform(0, 0.5))
            clickhouse.start()
            stop.set()
            client.join()
    until(lambda: not site.waiting(), 60)
    assert site.shipped_pages() == site.pages()
    assert len(site.pages()) > 100
    assert "equal" in site.cluster("compare", "--days", "7")
    assert server.terminate() == 0


async def compare_all(both: Comparison, connection: sqlite3.Connection, number: int | None) -> None:
    """Compare a website, or all."""
    for website in all_websites(connection):
        if number not in (None, website.number):
            continue
        found = [one async for one in both.differences(website, DAYS)]
        assert found
        assert not any(found), next(filter(None, found))


async def compare_beyond_retention(app: App) -> None:
    """Of expired days SQLite answers, of the others ClickHouse, and figures are added up."""
    whole = Scope(1, (TODAY - DAYS) * DAY_MS, TODAY * DAY_MS)
    days = [(day * DAY_MS, (day + 1) * DAY_MS) for day in range(TODAY - DAYS, TODAY)]
    reports, requester = app.running.reports, Requester()
    asked: tuple[Callable[[Any], Any], ...] = (
        lambda engine: engine.stats([whole, whole._replace(from_ms=(TODAY - 3) * DAY_MS)], requester),
        lambda engine: engine.timeseries(whole, days, requester),
        lambda engine: engine.overview(whole, whole._replace(to_ms=(TODAY - 35) * DAY_MS), days, requester),
    )
    known = [_plain(await ask(app.running.sqlite_reports)) for ask in asked]
    answered = reports.by_clickhouse
    # Sums of totals.
    assert [_plain(await ask(reports)) for ask in asked] == known
    assert reports.by_clickhouse == answered
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cluster_reports, "_OF_TOTALS", ())
        assert [_plain(await ask(reports)) for ask in asked] == known
    assert reports.by_clickhouse == answered + 3


async def next_website_is_tried(app: App, servers: Servers, clock: ManualClock) -> None:
    """Where a day of one website cannot be unloaded, those of the next one are."""
    tried = []

    class Failing(Unloader):
        async def _unload(self, website: int, offset_ms: int, copy: Copy) -> bool:
            tried.append(website)
            raise NoAnswer("it takes too long")

    running = app.running
    own = servers, running.shipper, app.database, running.archive, lambda: running.work.builder, clock, KEEP
    with pytest.raises(NoAnswer):
        await Failing(*own).work()
    assert tried == [1, 2]

    class FailingFirst(Unloader):
        async def _unload(self, website: int, offset_ms: int, copy: Copy) -> bool:
            if website == 1:
                raise NoAnswer("it takes too long")
            return True

    # Without a pause: it may have another day.
    assert await FailingFirst(*own).work()


async def compare_until_settled(app: App, clickhouse: ClickHouse, clock: ManualClock) -> None:
    """SQLite answers while too many events are not settled; a day that cannot be settled delays no other website."""
    reports, work = app.running.reports, app.running.settler.work
    whole = Scope(1, (TODAY - DAYS) * DAY_MS, TODAY * DAY_MS, (Filter("type", "=", ("pageview",)),))

    async def is_of_clickhouse() -> bool:
        answered = reports.by_clickhouse
        assert await reports.stats([whole], Requester()) == await app.running.sqlite_reports.stats([whole], Requester())
        return bool(reports.by_clickhouse > answered)

    assert await is_of_clickhouse()
    ((open_events,),) = clickhouse.rows(f"select count() from event where website = 1 and day >= {TODAY - 4}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cluster_reports, "_MAX_UNSETTLED", open_events)
        assert not await is_of_clickhouse()
        clickhouse.execute("alter table settled add constraint other check website != 1")
        with pytest.raises(Refused):
            await work()
        assert await work()
        assert clickhouse.rows("select distinct website from settled_day") == [[2]]
        clickhouse.execute("alter table settled drop constraint other")
        clock.advance(3_600)
        while not await is_of_clickhouse():
            assert await work()


async def aged(db: Path, clickhouse: ClickHouse) -> None:
    """Join a file of forty days whose days are stored by column, compare it, and again after most have expired."""
    words = {"clickhouse": (clickhouse.url,), "cluster_mode": "follow"}
    clock = ManualClock()
    settings = Settings(db=db, **words)  # type: ignore[arg-type]
    servers = Servers(settings.clickhouse, settings.cluster_name)
    with closing(open_database(db, create=False)) as connection:
        await setup.init(connection, settings, again=False)
        app = App(settings, clock, lambda node: FollowEngine(node))
        await app.open()
        try:
            for website in (1, 2):
                await join.join(connection, settings, servers, website, lambda sent: None)
            await next_website_is_tried(app, servers, clock)
            await compare_until_settled(app, clickhouse, clock)
            for keep_days in (None, KEEP):
                await compare_aged(app, clickhouse, connection, Comparison(app.database, servers, clock), keep_days)
            expired = f"select count() from event where website = 1 and day < {TODAY - KEEP}"
            await wait_until(lambda: clickhouse.rows(expired) == [[0]])
        finally:
            await app.close()
            await servers.close()


async def compare_aged(
    app: App, clickhouse: ClickHouse, connection: Connection, both: Comparison, keep_days: int | None
) -> None:
    with transaction(connection):
        retention.set_keep_days(connection, 1, keep_days)
    await wait_until(lambda: not keep_days or copy_of(connection, 1).from_day == TODAY - keep_days)
    with pytest.MonkeyPatch.context() as patch:
        # What is not read any more is deleted at once.
        patch.setattr(settler, "KEPT_S", 0)
        while await app.running.settler.work():
            pass
    ((first_day,),) = clickhouse.rows("select min(day) from event")
    assert first_day == TODAY - 4
    # Retention has changed the first one alone.
    await compare_all(both, connection, 1 if keep_days else None)
    await compare_beyond_retention(app)


def test_an_aged_file_is_answered_equally_before_and_after_retention(tmp_path: Path, clickhouse: ClickHouse) -> None:
    asyncio.run(aged(built_database(tmp_path / "aged"), clickhouse))


class Gate(ThreadingHTTPServer):
    """Between a server and ClickHouse: it hands requests on, and ends one of both at a chosen one, before it is handed
    on or before it is answered."""

    def __init__(self, clickhouse: ClickHouse) -> None:
        super().__init__(("127.0.0.1", 0), _Handing)
        self.clickhouse = clickhouse
        # (table of the insert, "before" or "after"), and what to do then.
        self.at, self.do = ("", ""), lambda: None
        self.is_done = threading.Event()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def choose(self, table: str, moment: str, do: Callable[[], Any]) -> None:
        self.is_done.clear()
        self.do, self.at = do, (table, moment)

    def passes(self, table: str, moment: str) -> bool:
        if self.at != (table, moment):
            return True
        self.at = ("", "")
        self.do()
        self.is_done.set()
        return False


class _Handing(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Gate

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        found = re.search(r"query=insert\+into\+(\w+)", self.path)
        table = found[1] if found else ""
        request = urllib.request.Request(
            self.server.clickhouse.url + self.path, body, {"Content-Type": self.headers.get("Content-Type", "x/x")}
        )
        self.close_connection = True
        if not self.server.passes(table, "before"):
            return
        try:
            with urllib.request.urlopen(request) as answer:
                status, text = answer.status, answer.read()
        except urllib.error.HTTPError as failure:
            status, text = failure.code, failure.read()
        except OSError:
            return
        if self.server.passes(table, "after"):
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(text)

    def log_message(self, *args: object) -> None:
        pass


def test_ends_at_every_step_of_a_shipment_lose_and_double_nothing(
    site: Site, serve: Serve, clickhouse: ClickHouse
) -> None:
    gate = Gate(clickhouse)
    site.cluster("init")
    options = (*UNLIMITED, "--cluster-mode", "follow", "--clickhouse", gate.url)
    server = serve(*options)
    site.cluster("join")
    number = 0
    for victim in ("server", "clickhouse"):
        for table in ("event", "measure", "shipped"):
            for moment in ("before", "after"):
                gate.choose(table, moment, server.process.kill if victim == "server" else clickhouse.kill)
                site.send(server, *range(number, number + 3))
                site.send(server, number, type="vitals", vitals={"lcp": number}, event_id=f"vitals-{number}")
                number += 3
                assert gate.is_done.wait(60), (victim, table, moment)
                if victim == "server":
                    server.kill()
                    server = serve(*options)
                else:
                    clickhouse.start()
                until(lambda: not site.waiting(), 60)
                assert site.shipped_pages() == site.pages(), (victim, table, moment)
    ((measured,),) = clickhouse.rows("select count() from measure")
    assert measured == number // 3
    gate.shutdown()
    gate.server_close()


def test_a_website_whose_copy_has_ended_does_not_begin_one_as_a_new_website(
    site: Site, serve: Serve, clickhouse: ClickHouse
) -> None:
    """A new installation, and a server that has known the website since it had no events."""
    db, site.db = site.db, site.db.with_name("new.db")
    assert "the tables are there" in site.cluster("init")
    assert serve(*site.options, db=site.db).terminate() == 0
    site.db = db
    clickhouse.execute("drop database tally")
    site.cluster("init")
    server = serve(*site.options)
    site.send(server, *range(10))
    assert by_clickhouse(server, lambda: site.get(server, RANGE))["data"]["pageviews"] == 10
    # As where ClickHouse was away for too long, and it is time to delete the copy once more.
    with closing(sqlite3.connect(site.db)) as file:
        file.execute("update cluster_copy set state = 'ended', deleted_ms = 1")
        file.commit()
        until(lambda: file.execute("select deleted_ms from cluster_copy").fetchall() == [(DELETED_MS,)])
    site.send(server, 10)
    assert site.get(server, RANGE)["data"]["pageviews"] == 11
    site.cluster("init", "--again")
    site.send(server, 11)
    assert site.get(server, RANGE)["data"]["pageviews"] == 12
    assert "SQLite answers" in site.cluster("status")
    site.cluster("join")
    site.send(server, 12)
    assert by_clickhouse(server, lambda: site.get(server, RANGE))["data"]["pageviews"] == 13
    # Only the last one has to be known.
    site.cluster("join", "--again")
    with closing(sqlite3.connect(site.db)) as file:
        until(lambda: file.execute("select copy from cluster_copy order by copy").fetchall() == [(2,), (3,)])


def test_a_join_that_is_interrupted_begins_again(site: Site, serve: Serve, clickhouse: ClickHouse) -> None:
    gate = Gate(clickhouse)
    site.cluster("init")
    server = serve(*site.options)
    site.send(server, *range(30))
    site.send(server, 1, type="vitals", vitals={"lcp": 1}, event_id="vitals")
    for table, moment in (("event", "after"), ("measure", "before")):
        words = ["cluster", "join", "--again", "--clickhouse", gate.url, "--db", str(site.db)]
        command = subprocess.Popen(
            [sys.executable, str(ROOT / "analytics_server.py"), *words],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=clean_environment(),
        )
        gate.choose(table, moment, command.kill)
        assert gate.is_done.wait(60)
        command.wait()
        # The copy that is there goes on answering.
        site.send(server, *range(30 + command.pid % 7, 50))
        assert by_clickhouse(server, lambda: site.get(server, RANGE))["data"]["pageviews"] == len(site.pages())
    site.cluster("join", "--again")
    assert "complete" in site.cluster("join")
    assert site.shipped_pages() == site.pages()
    # What the interrupted ones have left is deleted.
    until(lambda: clickhouse.rows("select uniqExact(website) from event") == [[1]])
    assert "equal" in site.cluster("compare", "--days", "30")
    gate.shutdown()
    gate.server_close()


def test_an_import_ends_the_copy_and_so_does_a_server_without_cluster(
    site: Site, serve: Serve, clickhouse: ClickHouse, tmp_path: Path
) -> None:
    site.cluster("init")
    server = serve(*site.options)
    site.send(server, *range(20))
    site.cluster("join")
    assert by_clickhouse(server, lambda: site.get(server, RANGE))["data"]["pageviews"] == 20
    lines = tmp_path / "more.ndjson"
    lines.write_text(
        "".join(
            json.dumps(
                {"type": "pageview", "timestamp": f"2026-01-0{n}T10:00:00Z", "pathname": "/old", "visit_id": "v"}
            )
            + "\n"
            for n in range(1, 6)
        )
    )
    site.run("import", str(lines), "--website", site.id)
    assert site.get(server, RANGE)["data"]["pageviews"] == 25
    assert "import" in site.cluster("status")
    site.cluster("join")
    assert by_clickhouse(server, lambda: site.get(server, RANGE))["data"]["pageviews"] == 25
    assert "equal" in site.cluster("compare", "--days", "400")
    lines.write_text(
        "".join(
            json.dumps({"type": "imported_sum", "day": f"2025-12-{n}", "field": field, "visitors": n, "pageviews": 50})
            + "\n"
            for n in range(10, 20)
            for field in ("total", "pathname", "entry_page")
        )
    )
    site.run("import", str(lines), "--website", site.id)
    # The server learns within seconds that the website has sums.
    until(lambda: site.get(server, UNFILTERED)["data"]["pageviews"] == 525)
    site.cluster("join")
    assert by_clickhouse(server, lambda: site.get(server, RANGE))["data"]["pageviews"] == 25
    assert "equal" in site.cluster("compare", "--days", "400")
    assert server.terminate() == 0
    server = serve(*UNLIMITED)
    site.send(server, *range(100, 110))
    assert server.terminate() == 0
    server = serve(*site.options)
    assert site.get(server, UNFILTERED)["data"]["pageviews"] == 535
    assert "without cluster" in site.cluster("status")
    site.cluster("join")
    assert by_clickhouse(server, lambda: site.get(server, RANGE))["data"]["pageviews"] == 35
    # Nothing is left of a deleted website.
    site.run("website", "remove", site.id, "--yes")
    until(lambda: clickhouse.rows("select count() from event") == [[0]])


def test_an_older_file_or_older_tables_are_not_followed(
    site: Site, serve: Serve, clickhouse: ClickHouse, tmp_path: Path
) -> None:
    site.cluster("init")
    server = serve(*site.options)
    site.cluster("join")
    site.send(server, *range(10))
    until(lambda: not site.waiting())
    site.run("backup", str(tmp_path / "copy.db"))
    site.send(server, *range(10, 20))
    until(lambda: not site.waiting())
    assert server.terminate() == 0
    site.run("restore", str(tmp_path / "copy.db"))
    server = serve(*site.options)
    site.send(server, *range(20, 25))
    until(lambda: "older copy" in server.stderr())
    assert site.get(server, RANGE)["data"]["pageviews"] == 15
    assert answered(server)[0] == 0
    assert server.terminate() == 0
    site.cluster("init", "--again")
    # As an earlier version has made them.
    clickhouse.execute("drop table day_sum")
    clickhouse.execute("alter table settled drop column city")
    server = serve(*site.options)
    until(lambda: "ClickHouse lacks settled.city" in server.stderr())
    site.cluster("init")
    site.cluster("join")
    assert by_clickhouse(server, lambda: site.get(server, RANGE))["data"]["pageviews"] == 15
    assert site.shipped_pages() == site.pages()
