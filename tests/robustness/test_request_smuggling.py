"""Request smuggling: requests that two servers could parse differently, sent directly and through real proxies.

Sent directly, each of them must have the same result with both parsers of the server (tally/ingest/fast_path.py and
aiohttp's). An ambiguous request is refused. The connection is closed after it and after every request whose end is not
certain
(tally/http/connection_reuse.py), so that later bytes are not read as another request: RFC 9112 sections 2.2, 3, 5, 6,
7, 9 and 11.

Through proxies that share their connections between clients, two signed-in clients must get their own responses while
others send the same requests with a whole request in each body and after it.
"""

import asyncio
import contextlib
import json
import re
import socket
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple
from urllib.parse import quote, urlsplit

import pytest

from tally.accounts.accounts import create_account, find_person, set_password_hash
from tally.accounts.websites import add_website
from tally.storage.database import open_database, transaction
from tests.support import proxies
from tests.support.page_client import OWN_PAGE, PASSWORD, PASSWORD_HASH
from tests.support.process import Server

VIEW = {"type": "pageview", "url": "https://example.com/one", "website_id": "WEBSITE"}
NEXT_REQUEST = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
# Responses to each signed-in client during the attacks, which take several rounds.
ANSWERS = 100
ACCOUNTS = ("first@example.com", "second@example.com")


class Case(NamedTuple):
    """A request with the placeholders BODY, SIZE and HEX (its length in decimal and hexadecimal), and the statuses of
    its responses and of that to a later request, if that is answered."""

    sent: bytes
    answers: str


def post(*lines: str, first: str = "POST /api/collect HTTP/1.1", end: str = "\r\n") -> bytes:
    return end.join((first, *lines, "", "BODY")).encode()


PLAIN = ("Host: x", "Content-Length: SIZE")
CHUNKED = ("Host: x", "Transfer-Encoding: chunked")
HEX = b"HEX\r\nBODY\r\n"
CHUNKS = HEX + b"0\r\n\r\n"
H2C = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA")
WEBSOCKET = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: eA==")
COLLECT_1_0 = "POST /api/collect HTTP/1.0"
CASES = {
    # Unambiguous and accepted.
    "plain": Case(post(*PLAIN), "202 200"),
    "chunked": Case(post(*CHUNKED).replace(b"BODY", CHUNKS), "202"),
    "a chunk's extension": Case(post(*CHUNKED).replace(b"BODY", b"HEX;a=b\r\nBODY\r\n0\r\n\r\n"), "202"),
    "a trailer": Case(post(*CHUNKED).replace(b"BODY", HEX + b"0\r\nX-Trailer: y\r\n\r\n"), "202"),
    "a line before": Case(b"\r\n" + post(*PLAIN), "202 200"),
    "two lines before": Case(b"\r\n\r\n" + post(*PLAIN), "202 200"),
    "an absolute URI": Case(post(*PLAIN, first="POST http://x/api/collect HTTP/1.1"), "202 200"),
    "zeros before the length": Case(post("Host: x", "Content-Length: 000SIZE"), "202 200"),
    "names in capitals": Case(post("HOST: x", "CONTENT-LENGTH: SIZE"), "202 200"),
    "no space after the colon": Case(post("Host:x", "Content-Length:SIZE"), "202 200"),
    "spaces around a value": Case(post("Host: x", "Content-Length:  \tSIZE \t"), "202 200"),
    "a version of old": Case(post(*PLAIN, first="POST /api/collect HTTP/1.0"), "202"),
    "a body behind its end": Case(post(*PLAIN) + b"\r\n", "202 200"),
    "two spaces in the first line": Case(post(*PLAIN, first="POST  /api/collect HTTP/1.1"), "202 200"),
    # Unambiguous and refused.
    "no length": Case(post("Host: x"), "400"),
    "a length of 0": Case(post("Host: x", "Content-Length: 0").replace(b"BODY", b""), "400 200"),
    "a path that is none": Case(post(*PLAIN, first="POST /api/collect%2e HTTP/1.1"), "404 200"),
    "a path with a dot segment": Case(post(*PLAIN, first="POST /api/../api/collect HTTP/1.1"), "404 200"),
    "a body that is compressed": Case(post(*PLAIN, "Content-Encoding: gzip"), "415 200"),
    # Unambiguous, but the connection is closed: another server may determine a different end of the request.
    "chunked in capitals": Case(post("Host: x", "Transfer-Encoding: Chunked").replace(b"BODY", CHUNKS), "202"),
    "HTTP/1.0 that would stay": Case(post(*PLAIN, "Connection: keep-alive", first=COLLECT_1_0), "202"),
    "an expectation": Case(post(*PLAIN, "Expect: 100-continue"), "100 202"),
    "an expectation in HTTP/1.0": Case(post(*PLAIN, "Expect: 100-continue", first=COLLECT_1_0), "202"),
    "a trailer that names a host": Case(post(*CHUNKED).replace(b"BODY", HEX + b"0\r\nHost: y\r\n\r\n"), "202"),
    "a trailer that expects": Case(post(*CHUNKED).replace(b"BODY", HEX + b"0\r\nExpect: y\r\n\r\n"), "202"),
    "a trailer that is a cookie": Case(post(*CHUNKED).replace(b"BODY", HEX + b"0\r\nCookie: a=b\r\n\r\n"), "202"),
    "a trailer that was announced": Case(
        post(*CHUNKED, "Trailer: Expect").replace(b"BODY", HEX + b"0\r\nExpect: y\r\n\r\n"), "202"
    ),
    "an offer of h2c": Case(post(*PLAIN, *H2C), "202"),
    "an offer of h2c, with chunks": Case(post(*CHUNKED, *H2C).replace(b"BODY", CHUNKS), "202"),
    "an offer of h2c, and half a request": Case(
        post("Host: x", *H2C, first="GET /healthz HTTP/1.1") + b"GET / HTTP/1.1\r\nHost: x\r\nX: ", "200"
    ),
    "an upgrade to nothing": Case(post(*PLAIN, "Connection: upgrade"), "202 200"),
    "a GET with a body": Case(post(*PLAIN, first="GET /healthz HTTP/1.1"), "200"),
    "a GET with chunks": Case(post(*CHUNKED, first="GET /healthz HTTP/1.1").replace(b"BODY", CHUNKS), "200"),
    "a HEAD with a body": Case(post(*PLAIN, first="HEAD /healthz HTTP/1.1"), "200"),
    "a HEAD of nothing with a body": Case(post(*PLAIN, first="HEAD /nowhere HTTP/1.1"), "404"),
    "a DELETE with a body": Case(post(*PLAIN, first="DELETE /healthz HTTP/1.1"), "405"),
    "an OPTIONS with a body": Case(post(*PLAIN, first="OPTIONS /api/collect HTTP/1.1"), "204"),
    "an OPTIONS of all with a body": Case(post(*PLAIN, first="OPTIONS * HTTP/1.1"), "404"),
    "a GET without a body": Case(post("Host: x", first="GET /healthz HTTP/1.1").replace(b"BODY", b""), "200 200"),
    "a HEAD without a body": Case(post("Host: x", first="HEAD /healthz HTTP/1.1").replace(b"BODY", b""), "200 200"),
    "an answer without a body": Case(
        post("Host: x", first="OPTIONS /api/collect HTTP/1.1").replace(b"BODY", b""), "204 200"
    ),
    "a HEAD of nothing": Case(post("Host: x", first="HEAD /nowhere HTTP/1.1").replace(b"BODY", b""), "404 200"),
    # Refused, and the connection is closed.
    "CONNECT": Case(post("Host: x", first="CONNECT x:80 HTTP/1.1").replace(b"BODY", b""), "405"),
    "CONNECT with a body": Case(post(*PLAIN, first="CONNECT x:80 HTTP/1.1"), "405"),
    "CONNECT with a body to a path": Case(post(*PLAIN, first="CONNECT /api/collect HTTP/1.1"), "405"),
    "CONNECT with a body to a URL": Case(post(*PLAIN, first="CONNECT http://x/api/collect HTTP/1.1"), "400"),
    "CONNECT with chunks": Case(post(*CHUNKED, first="CONNECT x:80 HTTP/1.1").replace(b"BODY", CHUNKS), "405"),
    "CONNECT with chunks to a path": Case(post(*CHUNKED, first="CONNECT / HTTP/1.1").replace(b"BODY", CHUNKS), "405"),
    "CONNECT that expects": Case(post(*PLAIN, "Expect: 100-continue", first="CONNECT x:80 HTTP/1.1"), "100 405"),
    "CONNECT that upgrades": Case(post(*PLAIN, *WEBSOCKET, first="CONNECT x:80 HTTP/1.1"), "405"),
    "CONNECT in HTTP/1.0": Case(post(*PLAIN, "Connection: keep-alive", first="CONNECT x:80 HTTP/1.0"), "405"),
    "TRACE": Case(post("Host: x", first="TRACE /healthz HTTP/1.1").replace(b"BODY", b""), "405"),
    "TRACE with a body": Case(post(*PLAIN, first="TRACE /healthz HTTP/1.1"), "405"),
    "a method of WebDAV": Case(post(*PLAIN, first="PROPFIND /healthz HTTP/1.1"), "405"),
    "a method of another protocol": Case(post(*PLAIN, first="SOURCE /healthz HTTP/1.1"), "405"),
    "an unknown method": Case(post(*PLAIN, first="FOO /healthz HTTP/1.1"), "400"),
    "an upgrade": Case(post(*PLAIN, *WEBSOCKET), "400"),
    "an upgrade with chunks": Case(post(*CHUNKED, *WEBSOCKET).replace(b"BODY", CHUNKS), "400"),
    "an upgrade without a body": Case(post("Host: x", *WEBSOCKET, first="GET /healthz HTTP/1.1"), "400"),
    "an upgrade of this hop alone": Case(post(*PLAIN, "Upgrade: websocket"), "400"),
    "an upgrade to two": Case(post(*PLAIN, "Connection: upgrade", "Upgrade: h2c, websocket"), "400"),
    "another expectation": Case(post(*PLAIN, "Expect: 200-ok"), "417"),
    "another expectation of nothing": Case(post(*PLAIN, "Expect: 200-ok", first="POST /nowhere HTTP/1.1"), "417"),
    "HTTP/0.9": Case(post(*PLAIN, first="POST /api/collect"), "400"),
    "HTTP/0.9 alone": Case(b"GET /healthz\r\n\r\n", "400"),
    "HTTP/1.2": Case(post(*PLAIN, first="POST /api/collect HTTP/1.2"), "400"),
    "HTTP/2.0": Case(post(*PLAIN, first="POST /api/collect HTTP/2.0"), "400"),
    "HTTP/3.0": Case(post(*PLAIN, first="POST /api/collect HTTP/3.0"), "400"),
    "the preface of HTTP/2": Case(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nBODY", "400"),
    "chunks in HTTP/1.0": Case(
        post(*CHUNKED, "Connection: keep-alive", first=COLLECT_1_0).replace(b"BODY", CHUNKS), "400"
    ),
    "two codings": Case(post("Host: x", "Transfer-Encoding: gzip, chunked").replace(b"BODY", CHUNKS), "400"),
    "a coding and nothing": Case(post("Host: x", "Transfer-Encoding: chunked,").replace(b"BODY", CHUNKS), "400"),
    "nothing and a coding": Case(post("Host: x", "Transfer-Encoding: ,chunked").replace(b"BODY", CHUNKS), "400"),
    "a coding with a parameter": Case(
        post("Host: x", "Transfer-Encoding: chunked;a=b").replace(b"BODY", CHUNKS), "400"
    ),
    "a coding in quotes": Case(post("Host: x", 'Transfer-Encoding: "chunked"').replace(b"BODY", CHUNKS), "400"),
    "a coding behind a vertical tab": Case(
        post("Host: x", "Transfer-Encoding: \x0bchunked").replace(b"BODY", CHUNKS), "400"
    ),
    "an empty coding": Case(post("Host: x", "Transfer-Encoding:").replace(b"BODY", CHUNKS), "400"),
    "an empty coding and a length": Case(post(*PLAIN, "Transfer-Encoding:"), "400"),
    "the coding identity": Case(post(*PLAIN, "Transfer-Encoding: identity"), "400"),
    "a chunk's extension with a bare end": Case(post(*CHUNKED).replace(b"BODY", b"HEX;a\nBODY\r\n0\r\n\r\n"), "400"),
    "a chunk's extension with a return": Case(post(*CHUNKED).replace(b"BODY", b"HEX;a\rb\r\nBODY\r\n0\r\n\r\n"), "400"),
    "a space behind a size": Case(post(*CHUNKED).replace(b"BODY", b"HEX \r\nBODY\r\n0\r\n\r\n"), "400"),
    "a size in 0x": Case(post(*CHUNKED).replace(b"BODY", b"0xHEX\r\nBODY\r\n0\r\n\r\n"), "400"),
    # Ambiguous: refused, and later bytes are not read.
    "a length and chunks": Case(post(*PLAIN, "Transfer-Encoding: chunked").replace(b"BODY", CHUNKS), "400"),
    "chunks and a length": Case(post(*CHUNKED, "Content-Length: SIZE").replace(b"BODY", CHUNKS), "400"),
    "two lengths": Case(post("Host: x", "Content-Length: 1", "Content-Length: SIZE"), "400"),
    "two equal lengths": Case(post(*PLAIN, "Content-Length: SIZE"), "400"),
    "a list of lengths": Case(post("Host: x", "Content-Length: SIZE, SIZE"), "400"),
    "a length with a sign": Case(post("Host: x", "Content-Length: +SIZE"), "400"),
    "a length below 0": Case(post("Host: x", "Content-Length: -1"), "400"),
    "a length with an underscore": Case(post("Host: x", "Content-Length: 1_0"), "400"),
    "a length in hexadecimal": Case(post("Host: x", "Content-Length: 0xHEX"), "400"),
    "an empty length": Case(post("Host: x", "Content-Length:"), "400"),
    "a length beyond all numbers": Case(post("Host: x", "Content-Length: 99999999999999999999"), "400"),
    "a length in other digits": Case(post("Host: x", "Content-Length: \u0661\u0662"), "400"),
    "chunks twice": Case(post(*CHUNKED, "Transfer-Encoding: chunked").replace(b"BODY", CHUNKS), "400"),
    "an unknown coding": Case(post("Host: x", "Transfer-Encoding: xchunked"), "400"),
    "chunks, then identity": Case(post("Host: x", "Transfer-Encoding: chunked, identity"), "400"),
    "a coding behind a tab": Case(post(*PLAIN, "Transfer-Encoding:\tchunked"), "400"),
    "a coding behind another line's end": Case(post(*PLAIN, "X: y\rTransfer-Encoding: chunked"), "400"),
    "a space before the colon": Case(post("Host: x", "Content-Length : SIZE"), "400"),
    "a space before the name": Case(post("Host: x", " Content-Length: SIZE"), "400"),
    "a folded line": Case(post("Host: x", "X: y", " z", "Content-Length: SIZE"), "400"),
    "a line without a colon": Case(post(*PLAIN, "Transfer-Encoding"), "400"),
    "a line without a name": Case(post(*PLAIN, ": chunked"), "400"),
    "a NUL in a value": Case(post(*PLAIN, "X: a\0b"), "400"),
    "a NUL in a name": Case(post(*PLAIN, "X\0: y"), "400"),
    "a letter beyond ASCII in a name": Case(post(*PLAIN, "X\xe9: y"), "400"),
    "ends of lines that are bare": Case(post(*PLAIN, end="\n"), "400"),
    "one end of a line that is bare": Case(post(*PLAIN, "X: y\nTransfer-Encoding: chunked"), "400"),
    "a carriage return alone": Case(post(*PLAIN, end="\r"), "400"),
    "two hosts": Case(post(*PLAIN, "Host: y"), "400"),
    "no host": Case(post("Content-Length: SIZE"), "400"),
    "a space in the path": Case(post(*PLAIN, first="POST /api/ collect HTTP/1.1"), "400"),
    "a version that is none": Case(post(*PLAIN, first="POST /api/collect HTTP/1.2.3"), "400"),
    "a method in small letters": Case(post(*PLAIN, first="post /api/collect HTTP/1.1"), "400"),
    "a size that is none": Case(post(*CHUNKED).replace(b"BODY", b"g\r\nBODY\r\n0\r\n\r\n"), "400"),
    "a size with a sign": Case(post(*CHUNKED).replace(b"BODY", b"+HEX\r\nBODY\r\n0\r\n\r\n"), "400"),
    "a size beyond all numbers": Case(post(*CHUNKED).replace(b"BODY", b"f" * 20 + b"\r\nBODY\r\n0\r\n\r\n"), "400"),
    "a chunk longer than its size": Case(post(*CHUNKED).replace(b"BODY", b"1\r\nBODY\r\n0\r\n\r\n"), "400"),
    "chunks with bare ends": Case(post(*CHUNKED).replace(b"BODY", b"HEX\nBODY\n0\n\n"), "400"),
}


class Site(NamedTuple):
    """A real server with a website, and two accounts with the cookies of their sessions."""

    server: Server
    website: str
    cookies: tuple[str, ...]

    @property
    def port(self) -> int:
        """Return the port of 127.0.0.1 on which the server listens."""
        return urlsplit(self.server.url).port or 0

    def fill(self, sent: bytes, name: str, *, body: bytes = b"") -> bytes:
        """Return a case's bytes with `body`, by default an event of the path /name, for the placeholders."""
        body = body or self.event(name)
        return sent.replace(b"SIZE", b"%d" % len(body)).replace(b"HEX", b"%x" % len(body)).replace(b"BODY", body)

    def event(self, name: str) -> bytes:
        """Return a pageview of the path /name as JSON."""
        view = {"type": "pageview", "url": f"https://example.com/{quote(name)}", "website_id": self.website}
        return json.dumps(view).encode()

    def stored(self, name: str) -> int:
        """Return the number of events of the path /name in the database."""
        with contextlib.closing(sqlite3.connect(self.server.db)) as connection:
            statement = "select count(*) from event join label on label.id = event.pathname where label.text = ?"
            return int(connection.execute(statement, (f"/{quote(name)}",)).fetchone()[0])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    db, now_ms = tmp_path_factory.mktemp("server") / "analytics.db", time.time_ns() // 1_000_000
    with contextlib.closing(open_database(db, create=True)) as connection, transaction(connection):
        for email in ACCOUNTS:
            owner = create_account(connection, email, "business", None, now_ms)
            set_password_hash(connection, find_person(connection, email).number, PASSWORD_HASH)
        website = add_website(connection, owner, "example.com", "example.com", (), now_ms)
    limits = [f"--{name}-per-minute=1000000" for name in ("client", "website", "key")]
    server = Server(db, tuple(limits), {}, db.with_name("log"), [])
    try:
        yield Site(server, website, tuple(log_in(server, email) for email in ACCOUNTS))
    finally:
        server.kill()


def log_in(server: Server, email: str) -> str:
    """Sign in and return the cookie of the session."""
    headers = OWN_PAGE | {"Content-Type": "application/json"}
    answer = server.request("POST", "/api/account/login", {"email": email, "password": PASSWORD}, headers)
    return str(answer.headers["Set-Cookie"].partition(";")[0])


def answers(port: int, sent: bytes, *, long: bool) -> str:
    """Return the statuses of all responses on one connection, until the server closes it.

    With `long` the connection has been passed from the fast path to aiohttp before.
    """
    with socket.create_connection(("127.0.0.1", port), 30) as one, one.makefile("rb") as stream:
        if long:
            one.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            read_status(stream, b"GET")
        one.sendall(sent)
        statuses = []
        # The first response is read before more is sent.
        with contextlib.suppress(OSError):
            statuses += read_status(stream, sent[:4])
            if statuses == [100]:
                statuses += read_status(stream, sent[:4])
            one.sendall(NEXT_REQUEST)
            while status := read_status(stream, b""):
                statuses += status
        return " ".join(map(str, statuses))


def read_status(stream: BinaryIO, method: bytes) -> list[int]:
    """Read the next response; return its status, [] if there is none."""
    head: list[bytes] = []
    while (line := stream.readline()) != b"\r\n":
        if not line:
            return []
        head.append(line.lower())
    status = int(head[0].split()[1])
    lengths = [int(line.partition(b":")[2]) for line in head if line.startswith(b"content-length:")]
    if method != b"HEAD" and status not in (100, 204, 304):
        stream.read(lengths[0])
    return [status]


@pytest.mark.parametrize("name", CASES)
def test_both_ways_read_it_alike(name: str, site: Site) -> None:
    """Both parsers return the expected statuses, and one event is stored for each 202."""
    sent = site.fill(CASES[name].sent, name)
    assert [answers(site.port, sent, long=long) for long in (False, True)] == [CASES[name].answers] * 2
    assert site.stored(name) == (2 if "202" in CASES[name].answers else 0)


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_an_answer_304_has_no_body(method: str, site: Site) -> None:
    """RFC 9112 6.3: a 304 response ends with its headers, whatever its Content-Length is."""
    known = site.server.request("GET", "/tracker.js").headers["ETag"]
    head = post("Host: x", f"If-None-Match: {known}", first=f"{method} /tracker.js HTTP/1.1").replace(b"BODY", b"")
    assert answers(site.port, head, long=True) == "304 200"


# --- through proxies


class Victim:
    """A signed-in client that requests its own account in a loop, on one connection to a proxy if possible.

    `own` counts its own responses, `foreign` has all others.
    """

    def __init__(self, port: int, cookie: str, email: str) -> None:
        self.port, self.email, self.own, self.foreign = port, email, 0, list[str]()
        headers = {"Host": "x", "Cookie": cookie} | OWN_PAGE
        lines = [f"{name}: {value}" for name, value in headers.items()]
        self._request = "\r\n".join(["GET /api/account HTTP/1.1", *lines, "", ""]).encode()

    async def run(self, ending: asyncio.Event) -> None:
        """Send requests until `ending` is set."""
        while not ending.is_set():
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            try:
                while not ending.is_set() and await self._ask(reader, writer):
                    pass
            finally:
                writer.close()

    async def _ask(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        writer.write(self._request)
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = re.search(r"content-length: (\d+)", head)
        body = (await reader.readexactly(int(length[1]) if length else 0)).decode()
        if head.startswith("http/1.1 200") and json.loads(body)["data"]["email"] == self.email:
            self.own += 1
        else:
            self.foreign.append(f"{head.partition(chr(13))[0]} {body}")
        return "connection: close" not in head


async def attack(port: int, sent: bytes) -> None:
    """Send bytes, and disconnect after a response or 0.2 s."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    with contextlib.suppress(OSError, TimeoutError):
        writer.write(sent)
        # A proxy that waits for more bytes sends no response.
        async with asyncio.timeout(0.2):
            await reader.read(65_536)
    writer.close()


@pytest.mark.parametrize("proxy", proxies.SHARING)
async def test_no_client_gets_another_ones_answer(proxy: str, site: Site, tmp_path: Path) -> None:
    """Signed-in clients get only their own responses, and no event is stored. Events of requests that the proxy
    recognises are refused because of proxies.ORIGIN: a stored event was in a request that it did not recognise."""
    front = proxies.Proxy(proxy, proxies.SHARING[proxy], f"127.0.0.1:{site.port}", tmp_path / proxy)
    ending, crowd = asyncio.Event(), asyncio.Semaphore(8)
    victims = [Victim(front.port, *who) for who in zip(site.cookies, ACCOUNTS, strict=True)]

    async def sent(attempt: bytes) -> None:
        async with crowd:
            await attack(front.port, attempt)

    attempts = []
    for name, case in CASES.items():
        hidden = site.fill(post(*PLAIN), "", body=site.event(f"{proxy} {name}"))
        attempts += [site.fill(case.sent, name, body=hidden), site.fill(case.sent, "seen") + hidden]
    try:
        async with asyncio.TaskGroup() as group:
            for victim in victims:
                group.create_task(victim.run(ending))
            while min(victim.own for victim in victims) < ANSWERS and not any(victim.foreign for victim in victims):
                await asyncio.gather(*map(sent, attempts))
            ending.set()
    finally:
        front.stop()
    assert [victim.foreign for victim in victims] == [[], []]
    assert [name for name in CASES if site.stored(f"{proxy} {name}")] == []
