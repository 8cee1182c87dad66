"""Share links have read connections of their own, so that API keys and sessions never wait for them.

Each link runs one query at a time, with a shorter deadline; identical queries in progress share one response.
"""

import asyncio
import select
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tally.api.context import READ_API
from tally.engine.values import Claim
from tally.errors import ApiError
from tally.storage.connections import LINK_READERS, MAX_WAITING_OF_LINK, READERS
from tests.robustness.test_disconnected_clients import DATE, ENDLESS, SHORT, RunningServer, lengthen, start
from tests.support.aged_database import sql
from tests.support.app import App, MakeApp
from tests.support.page_client import LINK, PASSWORD, PASSWORD_HASH, PageClient, logged_in
from tests.support.process import until

__all__ = ["start"]
TOKEN = "t" * 24
LINKS = 16
ALL_DAY = "from=2026-11-18&to=2026-11-18"


def by_link(running: RunningServer, question: str) -> socket.socket:
    client = running.connect()
    client.sendall(f"GET /api/share/{TOKEN}/{question} HTTP/1.1\r\nHost: h\r\n\r\n".encode())
    return client


@pytest.mark.slow
def test_owners_do_not_wait_for_links(start: Callable[..., RunningServer], tmp_path: Path) -> None:
    """While links run endless queries, requests by key and by session get a response at once."""
    running = start("--query-seconds", "100000")
    db = tmp_path / "analytics.db"
    sql(
        db,
        "insert into share_link (website, id, name, token, created_ms)"
        " select number, '0123456789abcdef', 'n', ?, 0 from website where number = 1",
        TOKEN,
    )
    sql(db, "update person set password_hash = ?", PASSWORD_HASH)
    email = sql(db, "select email from person")[0][0]
    own_page = {"Sec-Fetch-Site": "same-origin", "Content-Type": "application/json"}
    sent = {"email": email, "password": PASSWORD}
    entered = running.server.request("POST", "/api/account/login", sent, headers=own_page)
    cookie = {"Cookie": entered.headers["Set-Cookie"].split(";")[0]}
    lengthen(db, ENDLESS)
    is_busy = running.is_busy(LINK_READERS)
    clients = [by_link(running, f"{SHORT}&filter_pathname=/{n}") for n in range(LINKS)]
    for _ in range(2):
        clients.append(by_link(running, f"stats?from={DATE}&to={DATE}&filter_type=pageview"))
    until(is_busy)
    assert running.get(SHORT) == 200
    session = running.server.request("GET", f"/api/account/websites/{running.website}/{SHORT}", headers=cookie)
    assert session.status == 200
    # Only the links' deadline can end these queries: the server's is a day away.
    first, _, _ = select.select(clients, [], [], 60)
    assert {error_code(client) for client in first} <= {"query_timeout", "overloaded"}
    for client in clients:
        client.close()
    assert running.server.request("GET", f"/api/share/{TOKEN}/{SHORT}").status == 200


def error_code(client: socket.socket) -> str:
    """Read a 503 response and return the code of its error."""
    text = b""
    while b'"}}' not in text:
        more = client.recv(65_536)
        assert more, text
        text += more
    assert text.startswith(b"HTTP/1.1 503 ")
    return text.partition(b'"code":"')[2].partition(b'"')[0].decode()


class Held:
    """Keep read connections of one class busy until `free` is set."""

    def __init__(self, app: App) -> None:
        self.app, self.free = app, threading.Event()
        self.tasks: list[asyncio.Task[Any]] = []

    def hold(self, connections: int, claim: Claim) -> None:
        read = self.app.database.read
        for _ in range(connections):
            self.tasks.append(asyncio.create_task(read(lambda _: self.free.wait(60), claim=claim)))


@pytest.fixture
def held(app: App) -> Iterator[Held]:
    one = Held(app)
    yield one
    one.free.set()


async def wait_until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.005)


async def share_link(app: App) -> tuple[str, str]:
    """Return a website's id and the API path of its share link."""
    browser = await logged_in(app)
    website = await app.website()
    answer = await browser("POST", f"/api/account/websites/{website}/share-links", LINK)
    return website, f"/api{answer.json['data']['path']}"


@pytest.mark.parametrize("question", [f"stats?{ALL_DAY}", f"top/pathname?{ALL_DAY}&format=csv", f"events?{ALL_DAY}"])
async def test_identical_queries_of_a_link_share_one_response(app: App, held: Held, question: str) -> None:
    """A query that starts after an event was acknowledged includes it: it does not join an older query."""
    website, link = await share_link(app)
    event = {"type": "pageview", "url": "https://example.com/", "website_id": website}
    await app.collect(event)
    links, flights = app.database.readers.links, app.application[READ_API].link_answers
    held.hold(LINK_READERS, Claim(True, 99))
    await asyncio.sleep(0)

    def ask(path: str = question) -> "asyncio.Task[Any]":
        return asyncio.create_task(PageClient(app)("GET", f"{link}/{path}"))

    same = [ask() for _ in range(5)]
    await wait_until(lambda: flights.joined == 4)
    other = ask(question.replace("2026-11-18", "2026-11-17", 1))
    await wait_until(lambda: links.queue.waiting == 2)
    assert (await app.collect(event)).status == 202
    later = ask()
    await wait_until(lambda: links.queue.waiting == 3)
    assert flights.joined == 4
    held.free.set()
    answers = [await one for one in (*same, other, later)]
    assert [answer.status for answer in answers] == [200] * 7
    assert len({(answer.body, answer.headers["ETag"], answer.headers["Content-Type"]) for answer in answers[:5]}) == 1
    own = await logged_in(app)
    expected = (await own("GET", f"/api/account/websites/{website}/{question}")).body
    assert answers[6].body == expected or question.startswith("events")
    assert answers[6].headers["ETag"] != answers[0].headers["ETag"]
    if question.startswith("events"):
        assert len(answers[6].json["data"]) == 2
    await asyncio.gather(*held.tasks)


async def test_a_shared_response_has_its_own_link_header(app: App, held: Held) -> None:
    """The Link header of CSV has the prefix and URL of its own request, not of an equivalent one that waits."""
    website, link = await share_link(app)
    for _ in range(2):
        await app.collect({"type": "pageview", "url": "https://example.com/", "website_id": website})
    links, flights = app.database.readers.links, app.application[READ_API].link_answers
    held.hold(LINK_READERS, Claim(True, 99))
    await asyncio.sleep(0)
    path = f"{link}/events?{ALL_DAY}&format=csv&limit=1"
    other_order = f"{link}/events?limit=1&{ALL_DAY}&format=csv"
    requested = [(path, "/evil"), (path, None), (other_order, None), (path, None)]
    tasks = []
    for number, (one, prefix) in enumerate(requested):
        tasks.append(asyncio.create_task(PageClient(app)("GET", one, headers={"X-Forwarded-Prefix": prefix})))

        def is_waiting(number: int = number) -> bool:
            return links.queue.waiting + flights.joined > number

        await wait_until(is_waiting)
    assert flights.joined == 1
    held.free.set()
    for (one, prefix), task in zip(requested, tasks, strict=True):
        answer = await task
        assert answer.status == 200
        assert answer.headers["Link"].startswith(f"<{prefix or ''}{one}&cursor="), answer.headers["Link"]
    await asyncio.gather(*held.tasks)


async def test_each_link_has_a_bounded_queue(app: App, held: Held) -> None:
    """With a full queue the response is 503 at once; another link gets its turn after one query."""
    held.hold(LINK_READERS, Claim(True, 99))
    await asyncio.sleep(0)
    order: list[int] = []

    async def ask(website: int) -> None:
        await app.database.read(lambda _: None, claim=Claim(True, website))
        order.append(website)

    waiting = [asyncio.create_task(ask(1)) for _ in range(MAX_WAITING_OF_LINK)]
    await asyncio.sleep(0)
    with pytest.raises(ApiError) as refusal:
        await app.database.read(lambda _: None, claim=Claim(True, 1))
    assert (refusal.value.kind.code, refusal.value.headers) == ("overloaded", {"Retry-After": "10"})
    waiting.append(asyncio.create_task(ask(2)))
    await asyncio.sleep(0)
    samples = (await app.get("/metrics")).text
    assert f'tally_readers_waiting{{class="link"}} {MAX_WAITING_OF_LINK + 1}.0' in samples
    assert 'tally_readers_busy{class="link"} 1.0' in samples
    assert 'tally_readers_refused_total{class="link"} 1.0' in samples
    held.free.set()
    await asyncio.gather(*waiting, *held.tasks)
    assert order.index(2) == 1
    assert 'tally_readers_waiting{class="link"} 0.0' in (await app.get("/metrics")).text


async def test_accounts_take_turns(app: App, held: Held) -> None:
    """An account with many queries delays another account by one query."""
    held.hold(READERS, Claim(False, 1))
    await asyncio.sleep(0)
    order: list[int] = []

    async def ask(account: int) -> None:
        await app.database.read(lambda _: None, claim=Claim(False, account))
        order.append(account)

    waiting = [asyncio.create_task(ask(1)) for _ in range(20)]
    await asyncio.sleep(0)
    waiting.append(asyncio.create_task(ask(2)))
    await asyncio.sleep(0)
    held.free.set()
    await asyncio.gather(*waiting, *held.tasks)
    assert order.index(2) <= READERS


async def test_a_query_that_waited_too_long_leaves_the_queue(make_app: MakeApp) -> None:
    app = await make_app(query_seconds=1)
    held = Held(app)
    held.hold(LINK_READERS, Claim(True, 99))
    await asyncio.sleep(0)
    with pytest.raises(ApiError) as refusal:
        await app.database.read(lambda _: None, claim=Claim(True, 1))
    assert refusal.value.kind.code == "overloaded"
    assert app.database.readers.links.queue.waiting == 0
    held.free.set()
    await asyncio.gather(*held.tasks)
    assert await app.database.read(lambda _: 7, claim=Claim(True, 1)) == 7


async def test_all_read_connections_can_be_held(app: App) -> None:
    """To truncate the write-ahead log: a second holder waits for the first, and queries of both classes wait."""
    order: list[str] = []

    async def hold(name: str) -> None:
        async with app.database.readers.held():
            order.append(name)
            await asyncio.sleep(0.02)
            order.append(name)

    async def ask(claim: Claim) -> None:
        await app.database.read(lambda _: None, claim=claim)

    holding: list[Awaitable[None]] = [hold("a"), hold("b")]
    tasks = [asyncio.ensure_future(one) for one in holding]
    await asyncio.sleep(0.005)
    tasks += [asyncio.ensure_future(ask(Claim(is_link, 1))) for is_link in (False, True)]
    async with asyncio.timeout(30):
        await asyncio.gather(*tasks)
    assert order == ["a", "a", "b", "b"]
    assert (app.database.readers.accounts.queue.busy, app.database.readers.links.queue.busy) == (0, 0)
