"""SIGKILL of a real server while crawlers send pageviews: every request that was answered is counted, once.

A request without a response may be counted or not, as long as none counts twice.
"""

import random
import signal
import sqlite3
import threading
import time
from collections import Counter
from contextlib import closing
from http.client import HTTPException
from pathlib import Path

from tests.support.ledgers import new_file
from tests.support.process import UNLIMITED, Serve, Server, until

KILLS = 8
GPTBOT = "Mozilla/5.0 (compatible; GPTBot/1.2; +https://openai.com/gptbot)"


class Client(threading.Thread):
    """Sends pageviews of pages of its own until the server is gone; `answered` and `sent` count them by page."""

    def __init__(self, server: Server, website: str, name: str) -> None:
        super().__init__()
        self._server, self._website, self._name = server, website, name
        self.answered: Counter[str] = Counter()
        self.sent: Counter[str] = Counter()

    def run(self) -> None:
        for number in range(100_000):
            page = f"/{self._name}/{number % 50}"
            event = {"type": "pageview", "website_id": self._website, "url": f"https://example.com{page}"}
            headers = {"User-Agent": GPTBOT, "Origin": "https://example.com", "Content-Type": "application/json"}
            self.sent[page] += 1
            try:
                answer = self._server.request("POST", "/api/collect", event, headers)
            except (HTTPException, OSError):
                return
            assert answer.status == 202
            self.answered[page] += 1


def counted(db: Path) -> Counter[str]:
    with closing(sqlite3.connect(db)) as connection:
        rows = connection.execute(
            "select text, sum(requests) from crawler_day join label on label.id = pathname group by text"
        )
        return Counter(dict(rows.fetchall()))


def test_answered_requests_of_crawlers_survive_sigkill(serve: Serve, tmp_path: Path) -> None:
    """Four crawlers, and a kill at a random moment, several times on one file."""
    draw, db = random.Random(7), tmp_path / "analytics.db"
    _, (website,) = new_file(db)
    answered, sent = Counter[str](), Counter[str]()
    for kill in range(KILLS):
        server = serve(*UNLIMITED)
        clients = [Client(server, website, f"{kill}-{number}") for number in range(4)]
        for client in clients:
            client.start()
        enough = draw.randrange(5, 60)
        until(lambda clients=clients, enough=enough: sum(one.answered.total() for one in clients) >= enough)
        time.sleep(draw.random() * 0.02)
        assert server.kill() == -signal.SIGKILL
        for client in clients:
            client.join()
            answered += client.answered
            sent += client.sent
        stored = counted(db)
        assert not answered - stored, "an answered request is not counted"
        assert not stored - sent, "a request counts twice"
    with closing(sqlite3.connect(db)) as connection:
        assert connection.execute("select count(*) from event").fetchone() == (0,)
        assert connection.execute("pragma integrity_check").fetchone() == ("ok",)
