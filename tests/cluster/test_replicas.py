"""A real server that writes to three real replicas of an old ClickHouse: server, replicas and coordinator are killed at
random moments, and at last a replica's disk is lost. What differs in the old server is in replicas.py.

With `--cluster-mode keep` every survivor has what was answered with 202, once, without the server; and what the server
has stored, once it has sent that.
"""

import random
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.engine import new_key_file
from tests.cluster.replicas import ROOT, Dialect, Replicas, until
from tests.cluster.test_follow import Site
from tests.support.process import UNLIMITED, Serve, Server

pytestmark = pytest.mark.skipif(not ROOT, reason="NOT TESTED: needs the packages of three replicas (.ci/replicas)")
KILLS_S = 30
SEED = random.SystemRandom().randrange(1_000_000)


@pytest.fixture
def replicas() -> Iterator[Replicas]:
    # Paths of the old server may not be long.
    folder = Path(tempfile.mkdtemp(prefix="replicas-"))
    opened = Replicas(folder)
    try:
        for dialect in opened.dialects:
            dialect.wait()
        yield opened
    finally:
        opened.close()
        shutil.rmtree(folder)


class Sites(Site):
    """A website whose server and commands know all replicas."""

    mode = "follow"

    def __init__(self, db: Path, replicas: Replicas) -> None:
        self.urls = replicas.urls
        super().__init__(db, replicas)  # type: ignore[arg-type]
        self.key_file = new_key_file(db.parent)

    def cluster(self, *words: str, fails: bool = False) -> str:
        done = self.run("cluster", *words, *self._words, fails=fails)
        return done.stdout + done.stderr

    @property
    def options(self) -> tuple[str, ...]:
        return (*UNLIMITED, "--cluster-mode", self.mode, "--cluster-key", str(self.key_file), *self._words)

    @property
    def _words(self) -> list[str]:
        return [word for url in self.urls for word in ("--clickhouse", url)]


class Client(threading.Thread):
    """Sends page views until `end` is called; what has no answer is sent again, as trackers do."""

    def __init__(self, site: Site, first: int) -> None:
        super().__init__()
        self.server: Server | None = None
        self.acknowledged: list[int] = []
        self._site, self._first, self._is_over = site, first, threading.Event()
        self.start()

    def run(self) -> None:
        for first in range(self._first, self._first + 1_000_000, 5):
            numbers = range(first, first + 5)
            while not self._is_over.is_set():
                try:
                    assert self.server is not None
                    self._site.send(self.server, *numbers)
                    self.acknowledged += numbers
                    break
                except (OSError, AssertionError, ConnectionError):
                    time.sleep(0.1)
            else:
                return
            time.sleep(0.03)

    def end(self) -> None:
        self._is_over.set()
        self.join()


def pages_of(dialect: Dialect) -> list[str]:
    """Return the pages that a replica has once it has what the others have."""
    dialect.ask("system sync replica event")
    return [text for (text,) in dialect.ask("select pathname from event order by pathname")]


def test_kills_and_the_loss_of_a_disk_lose_and_double_nothing(tmp_path: Path, serve: Serve, replicas: Replicas) -> None:
    print(f"random.Random({SEED}) chooses what is killed")
    rng, site = random.Random(SEED), Sites(tmp_path / "analytics.db", replicas)
    assert site.cluster("check").count("ClickHouse 18.16.1, tables, inserts and their repetition work") == 3
    one = ("--clickhouse", replicas.urls[0])
    site.run("cluster", "init", *one)
    assert "tables are those of one server" in site.cluster("init", fails=True)
    site.cluster("init", "--again")
    server = serve(*site.options)
    site.cluster("join")
    assert server.terminate() == 0
    # What a command stored that names one of several servers would be on that one alone.
    key = ("--cluster-key", str(site.key_file))
    assert "tables are those of several servers" in site.run("cluster", "join", "--again", *one, fails=True).stderr
    db, site.db = site.db, tmp_path / "new.db"
    done = site.run("cluster", "recover", *one, *key, fails=True)
    assert "tables are those of several servers" in done.stderr
    site.db = db
    server = serve(*UNLIMITED, "--cluster-mode", "keep", *key, *one)
    until(lambda: "tables are those of several servers" in server.stderr())
    assert server.terminate() == 0
    site.mode = "keep"
    server = serve(*site.options)
    clients: list[Client] = []

    def send() -> None:
        for _ in range(2):
            clients.append(Client(site, 1_000_000 * len(clients)))
            clients[-1].server = server

    def served() -> Server:
        opened = serve(*site.options)
        for client in clients:
            client.server = opened
        return opened

    send()
    try:
        end_s = time.monotonic() + KILLS_S
        while time.monotonic() < end_s:
            time.sleep(rng.uniform(0.5, 3))
            victim = rng.choice(["server", *replicas.services])
            if victim == "server":
                server.kill()
                server = served()
            else:
                replicas.services[victim].kill()
                time.sleep(rng.uniform(0.2, 3))
                replicas.services[victim].start()
        # Enough to tell whether something is lost, also where two were away for most of the time.
        until(lambda: sum(len(client.acknowledged) for client in clients) > 100, 120)
        for client in clients:
            client.end()
        until(lambda: not site.waiting(), 120)
        # The machine of the replica in use is gone for good while it is written to and the others are away. They are
        # known to be away before: what is on its way when they go may be on that disk alone, and the old server writes
        # nothing more until it has it.
        lost = replicas.used
        others = [replicas.services[one.name] for one in replicas.dialects if one is not lost]
        for other in others:
            other.kill()
        until(lambda: lost.ask("select active_replicas from system.replicas where table = 'event'") == [["1"]])
        send()
        time.sleep(3)
        replicas.lose(lost)
        for other in others:
            other.start()
        time.sleep(5)
    finally:
        for client in clients:
            client.end()
        print(server.stderr(), *(line for dialect in replicas.dialects for line in dialect.refusals[-12:]), sep="\n")
    # Those that are left have what was answered, whatever the server still has to send.
    server.kill()
    acknowledged = {f"/{number}" for client in clients for number in client.acknowledged}
    assert len(acknowledged) > 100
    for dialect in replicas.dialects:
        if dialect is not lost:
            until(lambda dialect=dialect: acknowledged <= set(pages_of(dialect)))
    server = served()
    until(lambda: not site.waiting(), 120)
    stored = sorted(site.pages())
    assert len(stored) == len(set(stored))
    assert acknowledged <= set(stored)
    for dialect in replicas.dialects:
        if dialect is not lost:
            until(lambda dialect=dialect: pages_of(dialect) == stored)
    # A command uses another one where the first that it knows is away.
    urls = sorted(replicas.urls, key=lambda url: url != lost.url)
    words = [word for url in urls for word in ("--clickhouse", url)]
    status = site.run("cluster", "status", *words).stdout
    assert status.count("\thas batch") == 2
    assert f"{lost.url.rpartition('@')[2]}\tdoes not answer" in status
    # Another machine in its place, with an empty disk and a name of its own.
    replicas.replace(lost, "127.0.0.14")
    lost.wait()
    # It has nothing yet, and is asked first which series there is.
    site.urls.sort(key=lost.url.__ne__)
    site.cluster("init")
    until(lambda: pages_of(lost) == stored)
    for dialect in replicas.dialects:
        dialect.ask("system sync replica series")
        assert dialect.ask("select count() from series") == [["1"]]
    until(lambda: server.request("GET", "/healthz").status == 200)
    site.send(server, 3_000_000)
    until(lambda: not site.waiting())
    # Two have it when it is answered.
    until(lambda: sum("/3000000" in pages_of(dialect) for dialect in replicas.dialects) >= 2)
    assert server.terminate() == 0
