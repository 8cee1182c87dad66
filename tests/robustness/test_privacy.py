"""No file and no response of a server contains values that must not be stored, in any encoding or hash.

docs/privacy.md, Not stored: addresses, User-Agents, `session_id`, cookies of visitors, the rest of a URL's query, and
hashes of addresses, User-Agents or session ids. API keys and passwords are stored as hashes.

A real server receives distinctive values (canaries), answers 202, 400, 403, 413, 429 and 500 to them, is restarted,
killed and backed up. After each step all that it wrote is copied: the database with its log, shared memory and lock,
standard error and responses. Then each canary is searched for in all these bytes, plain, encoded and hashed. As a
control, the same search has to find the path of a page, which is stored.
"""

import base64
import hashlib
import json
import sqlite3
import subprocess
import sys
import urllib.parse
from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from functools import cached_property
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tally.events.sessions import LOW_BITS
from tests.support.app import CHROME, ROOT
from tests.support.process import Server, clean_environment, until

SESSIONS = (
    "s3ssion8",  # 8 characters, the minimum
    "canary-session-of-a-visitor",
    "canary session with spaces, 'quotes' and \\ signs",
    "kanarienvogel-äöü-金絲雀",
    "4815162342108771",  # could be stored as an integer
    "c" * 32 + "anarysession" + "x" * 20,  # 64 characters, the maximum
)
IPV4 = ("203.0.113.77", "198.51.100.201", "192.0.2.133", "81.187.45.229", "177.23.99.14", "212.58.249.81")
PRIVATE = "10.177.88.199"
IPV6 = ("2001:db8:ca9a:17:1d2e:3f4a:5b6c:7d8e", "2a02:c0de:77:1::beef:5eed")
AGENTS = (CHROME + " CanaryAgent/7.7.1", "Kanarie-App/3.1.4 (Zaphod 9; de_AT) DentArthur/42.1")
EVENT_IDS = ("canary-event-id-0001", "order 4711 of jane.doe@example.com")
QUERY = "token=canary-query-secret&mail=canary%40example.net"
FRAGMENT = "canary-fragment"
USERINFO = "canary-user:canary-word"
COOKIE = "sid=canary-cookie-value"
PASSWORD = "canary password of the owner"
UNKNOWN_EMAIL = "canary.stranger@example.net"
WRONG, NEXT = "canary word that is wrong", "canary word that comes next"
TOKEN = "canary-setup-token"
STORED = "/canary-path-that-is-stored"
POISON = "canary that no row can hold"

Numbers = npt.NDArray[np.uint64]

# Runs the real application with one additional handler, which raises an exception whose message contains the request's
# body, headers, address and query.
FAILING_SERVER = """
import asyncio, sys
from pathlib import Path
from analytics_server import build_app
from tally.cli.serve import serve
from tally.settings import Settings

async def failing(request):
    body = await request.text()
    raise ValueError(f"{body} {dict(request.headers)} {request.remote} {request.query_string}")

settings = Settings(db=Path(sys.argv[1]), port=0)
app = build_app(settings)
app.router.add_post("/api/fails", failing)
asyncio.run(serve(app, settings))
"""


class ServerRun:
    """A server in a directory of its own, and copies of all that it wrote (`written`), by step and file."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.db = folder, folder / "data" / "analytics.db"
        self.db.parent.mkdir()
        self._log = folder / "stderr.log"
        self.written: dict[str, bytes] = {}
        self.servers: list[Server] = []
        self.key = self.website = ""
        self.sessions: list[str] = []
        self.devices: list[str] = []
        self.statuses: set[int] = set()

    def command(self, *words: str, stdin: str = "") -> str:
        done = subprocess.run(
            [sys.executable, str(ROOT / "analytics_server.py"), *words, "--db", str(self.db)],
            input=stdin,
            capture_output=True,
            text=True,
            env=clean_environment(),
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        self.written[f"stderr of {' '.join(words[:2])}"] = done.stderr.encode()
        return done.stdout.strip()

    @cached_property
    def windows(self) -> Numbers:
        """Return every sequence of 8 bytes in all that was written, in order."""
        found = [
            np.frombuffer(data[start:][: (len(data) - start) // 8 * 8], "u8")
            for data in self.written.values()
            for start in range(8)
        ]
        return np.sort(np.concatenate(found))

    def occurring(self, wanted: Numbers) -> Numbers:
        """Return those of some sequences of 8 bytes that occur."""
        wanted = np.sort(wanted)
        places = np.minimum(self.windows.searchsorted(wanted), len(self.windows) - 1)
        found: Numbers = wanted[self.windows[places] == wanted]
        return found

    def copy_files(self, step: str) -> None:
        """Copy the present contents of every file."""
        for path in [*self.db.parent.iterdir(), self._log]:
            self.written[f"{step}: {path.name}"] = path.read_bytes()

    def serve(self) -> Server:
        options = ("--website-per-minute", "60", "--trusted-proxy", "127.0.0.0/8")
        self.servers.append(Server(self.db, options, {}, self._log, []))
        return self.servers[-1]

    def events(self) -> Iterator[dict[str, Any]]:
        """Yield an event of each type with every canary that its fields accept."""
        url = f"https://{USERINFO}@example.com{STORED}?{QUERY}#{FRAGMENT}"
        more: tuple[dict[str, Any], ...] = (
            {"type": "pageview", "referrer": f"https://{USERINFO}@search.example/?{QUERY}#{FRAGMENT}"},
            {"type": "event", "event_name": "signup", "event_data": {"plan": "gold"}},
            {"type": "screen_view", "name": "home"},
            {"type": "app_event"},
            {"type": "vitals", "vitals": {"lcp": 1200}},
            {"type": "heatmap", "viewport_width": 900, "points": [{"x": 0.5, "y": 100, "kind": "click"}]},
            {"type": "ab_assign", "experiment": "color", "variant": "blue"},
            {"type": "ab_convert", "experiment": "color", "variant": "blue", "goal": "buy", "value": 9.5},
        )
        for fields in more:
            yield {"website_id": self.website, "url": url, **fields}

    def send(self, server: Server, body: Any, address: str, agent: str, **headers: str) -> int:
        sent = {"X-Forwarded-For": address, "User-Agent": agent, "Cookie": COOKIE} | headers
        answer = server.request("POST", f"/api/collect?{QUERY}", body, sent)
        self.statuses.add(answer.status)
        return answer.status

    def send_accepted(self, server: Server) -> None:
        """Send every session, address, User-Agent and event_id with every type of event; all are accepted."""
        addresses = [*IPV4, *IPV6, f"::ffff:{IPV4[0]}"]
        for n in range(max(len(SESSIONS), len(addresses))):
            session, address, agent = SESSIONS[n % len(SESSIONS)], addresses[n % len(addresses)], AGENTS[n % 2]
            known = [event | {"session_id": session} for event in self.events()]
            known[0]["event_id"] = EVENT_IDS[n % 2]
            unknown = list(self.events())
            assert self.send(server, {"website_id": self.website, "events": [*known, *unknown]}, address, agent) == 202

    def send_refused(self, server: Server) -> None:
        """Send the same canaries in requests that are refused for different reasons."""
        view = next(self.events()) | {"session_id": SESSIONS[1], "event_id": EVENT_IDS[0]}
        address, agent = IPV4[1], AGENTS[1]
        assert self.send(server, json.dumps(view)[:-1], address, agent) == 400
        assert self.send(server, view | {"type": SESSIONS[1]}, address, agent) == 400
        assert self.send(server, view | {"session_id": SESSIONS[1] * 9}, address, agent) == 400
        assert self.send(server, view | {"website_id": "0" * 8 + self.website[8:]}, address, agent) == 404
        assert self.send(server, view, address, agent, Origin=f"https://{USERINFO}@evil.example") == 403
        assert self.send(server, view, address, agent, Referer=f"https://evil.example/?{QUERY}") == 403
        for page in (f"http://{IPV4[2]}:3000", f"http://[{IPV6[0]}]"):
            assert self.send(server, view, address, agent, Origin=page) == 403
        assert self.send(server, view | {SESSIONS[1]: SESSIONS[1], "device": SESSIONS[1]}, address, agent) == 202
        assert self.send(server, json.dumps(view) + " " * 65_536, address, agent) == 413
        assert self.send(server, view, address, agent, **{"Content-Encoding": "gzip"}) == 415
        crawler = AGENTS[0] + " (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"
        assert self.send(server, view, address, crawler, Origin="https://example.com") == 202
        assert self.send(server, view, PRIVATE, agent) == 202
        headers = {"Authorization": f"Bearer {self.key}x", "X-Forwarded-For": address, "User-Agent": agent}
        for path in (f"/api/v1/websites/{SESSIONS[1]}/stats", f"/api/v1/websites?key={self.key}&{QUERY}", "/metrics"):
            self.statuses.add(server.request("GET", urllib.parse.quote(path, safe="/?&="), None, headers).status)
        while self.send(server, view | {"event_id": "again"}, address, agent) != 429:
            pass

    def cause_write_errors(self, server: Server) -> None:
        """Cause errors in the writer: a trigger of the database raises one."""
        with closing(sqlite3.connect(self.db, isolation_level=None)) as other:
            other.execute(
                "create trigger poison before insert on event when new.event_name ="
                f" (select id from label where text = '{POISON}') begin select raise(abort, 'poisoned'); end"
            )
        poisoned = {"type": "event", "event_name": POISON, "event_id": EVENT_IDS[0] + "!", "session_id": SESSIONS[1]}
        view = {"website_id": self.website, "url": f"https://example.com/?{QUERY}"} | poisoned
        for address, agent in ((IPV4[0], AGENTS[0]), (IPV6[0], AGENTS[1])):
            assert self.send(server, view, address, agent) == 500
        with closing(sqlite3.connect(self.db, isolation_level=None)) as other:
            other.execute("drop trigger poison")

    def query(self, server: Server) -> None:
        """Query every report and keep the responses, which contain no session_id, address or User-Agent."""
        headers = {"Authorization": f"Bearer {self.key}", "X-Forwarded-For": IPV4[2], "User-Agent": AGENTS[1]}
        queries = ("stats", "timeseries", "top/pathname", "top/browser", "events?limit=1000", "realtime")
        for path in queries:
            answer = server.request("GET", f"/api/v1/websites/{self.website}/{path}", None, headers)
            assert answer.status == 200
            self.written[f"answer: {path}"] = answer.body
        # Rejected events are written once a second.
        rejected = f"/api/v1/websites/{self.website}/rejected"
        until(lambda: b"rate_limited" in server.request("GET", rejected, None, headers).body)
        self.written["answer: rejected"] = server.request("GET", rejected, None, headers).body
        self.written["answer: metrics"] = server.request("GET", "/metrics").body

    def use_pages(self, server: Server) -> None:
        """Sign in with wrong and right passwords, change the password, and exceed the rate limit."""
        own = {"Sec-Fetch-Site": "same-origin", "Content-Type": "application/json", "User-Agent": AGENTS[0]}
        own["Setup-Token"] = TOKEN

        def call(method: str, path: str, body: Any = None, address: str = IPV4[3], cookie: str = "") -> int:
            sent = own | {"X-Forwarded-For": address} | ({"Cookie": cookie} if cookie else {})
            answer = server.request(method, path, body, sent)
            for line in answer.headers.get_all("Set-Cookie", []):  # type: ignore[attr-defined]
                cookie_set = line.partition(";")[0]
                if cookie_set.partition("=")[2]:
                    (self.sessions if cookie_set.startswith("tally=") else self.devices).append(cookie_set)
            self.written[f"answer: {path} {len(self.written)}"] = answer.body
            return answer.status

        right = {"email": "owner@example.com", "password": PASSWORD}
        assert call("GET", "/api/account/setup") == 404
        assert call("POST", "/api/account/login", {"email": UNKNOWN_EMAIL, "password": WRONG}, IPV6[1]) == 401
        assert call("POST", "/api/account/login", right | {"password": WRONG}) == 401
        assert call("POST", "/api/account/login", right) == 200
        assert call("GET", "/api/account", cookie=self.sessions[0]) == 200
        assert call("POST", "/api/account/password", {"current": PASSWORD, "new": NEXT}, cookie=self.sessions[0]) == 204
        assert call("POST", "/api/account/login", right | {"password": NEXT}) == 200
        assert call("POST", "/api/account/password", {"current": NEXT, "new": PASSWORD}, cookie=self.sessions[2]) == 204
        assert call("POST", "/api/account/logout", cookie=self.sessions[3]) == 204
        assert call("POST", "/api/account/login", right) == 200
        while call("POST", "/api/account/login", {"email": UNKNOWN_EMAIL, "password": WRONG}, IPV6[0]) != 429:
            pass

    def cause_exception(self) -> None:
        """Cause an exception in a handler whose message contains canaries."""
        with self._log.open("ab") as stderr:
            child = subprocess.Popen(
                [sys.executable, "-c", FAILING_SERVER, str(self.db)],
                stdout=subprocess.PIPE,
                stderr=stderr,
                cwd=ROOT,
                env=clean_environment(),
            )
        assert child.stdout is not None
        url = child.stdout.readline().decode().removeprefix("listening on ").strip()
        server = Server.__new__(Server)
        server.url, server.process = url, child
        self.servers.append(server)
        for session, address, agent in zip(SESSIONS, [*IPV4, *IPV6], AGENTS * 3, strict=False):
            sent = {"X-Forwarded-For": address, "User-Agent": agent, "Authorization": f"Bearer {self.key}"}
            answer = server.request("POST", f"/api/fails?{QUERY}", {"session_id": session}, sent)
            assert (answer.status, answer.json["error"]["code"]) == (500, "internal_error")
            self.written[f"answer: 500 {session}"] = answer.body
        child.terminate()
        self.written["stdout of a failing server"] = child.stdout.read()
        child.stdout.close()
        assert child.wait(timeout=60) == 0

    def run(self) -> "ServerRun":
        self.command("account", "create", "owner@example.com", "--password-stdin", stdin=PASSWORD)
        self.website = self.command("website", "add", "example.com")
        self.key = self.command("key", "create", "--name", "canary key")
        first = self.serve()
        self.send_accepted(first)
        self.send_refused(first)
        self.cause_write_errors(first)
        self.query(first)
        self.use_pages(first)
        self.copy_files("running")
        assert first.terminate() == 0
        self.copy_files("ended")
        second = self.serve()
        self.send_accepted(second)
        self.copy_files("restarted")
        second.kill()
        self.copy_files("killed")
        third = self.serve()
        self.send_accepted(third)
        self.query(third)
        self.command("backup", str(self.folder / "backup.db"))
        self.written["backup"] = (self.folder / "backup.db").read_bytes()
        self.copy_files("after the backup")
        third.kill()
        self.cause_exception()
        self.copy_files("at the end")
        return self


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerRun]:
    run = ServerRun(tmp_path_factory.mktemp("run"))
    try:
        yield run.run()
    finally:
        for server in run.servers:
            if server.process.poll() is None:
                server.kill()


# The search

HASHES = ("md5", "sha1", "sha224", "sha256", "sha384", "sha512", "sha3_256", "blake2b", "blake2s")
# The first 8 bytes identify a digest, also a truncated one. By chance, three megabytes contain 8 given bytes once in
# 10^12; searching for millions of them finds one by chance once in 10^5 runs.
SHORTEST = 8


def digests(data: bytes) -> Iterator[bytes]:
    for name in HASHES:
        yield hashlib.new(name, data).digest()
    for size in (8, 12, 16, 20, 24, 32, 48):  # a BLAKE2 digest depends on its length
        yield hashlib.blake2b(data, digest_size=size).digest()
        if size <= 32:
            yield hashlib.blake2s(data, digest_size=size).digest()


def shapes(text: str) -> Iterator[bytes]:
    """Yield a text in the forms that a file could contain: several encodings, hex, base64, percent-encoded, JSON."""
    plain = text.encode()
    yield from (plain, text.encode("utf-16-le"), text.encode("utf-16-be"), text.lower().encode())
    yield from (urllib.parse.quote(text).encode(), urllib.parse.quote_plus(text).encode())
    yield json.dumps(text)[1:-1].encode()
    for data in (plain, text.encode("utf-16-le")):
        yield from encoded(data)
    for start in range(3):  # base64 of a longer text that contains it
        yield base64.b64encode(b"\0" * start + plain)[4 if start else 0 : -4]


def encoded(data: bytes) -> Iterator[bytes]:
    yield from (data.hex().encode(), data.hex().upper().encode())
    yield from (base64.b64encode(data).rstrip(b"="), base64.urlsafe_b64encode(data).rstrip(b"="))
    yield from (base64.b32encode(data).rstrip(b"="), base64.b85encode(data))


def hashed(texts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the first bytes of all digests of the texts: raw, encoded, and as numbers of up to 64 bits."""
    for text in texts:
        for digest in digests(text):
            head = digest[:SHORTEST]
            yield from (head.hex().encode(), head.hex().upper().encode(), base64.b64encode(digest)[:11])
            for number in (int.from_bytes(head), int.from_bytes(head, "little")):
                for cut in (number, number % 2**63, number % 2**62, number >> 1, number >> 2):
                    yield cut.to_bytes(8)


def combined(run: ServerRun, parts: tuple[str, ...]) -> Iterator[bytes]:
    """Yield a canary joined with the other inputs of an identity: website and day, in many formats and orders."""
    now = datetime.now(UTC)
    days = (f"{now:%Y-%m-%d}", f"{now:%Y%m%d}", str(int(now.timestamp()) // 86_400))
    canary = "".join(parts)
    yield canary.encode()
    for sign in ("", "|", ":", "-", "/", ",", " ", "\n", "\0"):
        address_bytes = sign.join(parts)
        yield address_bytes.encode()
        for website in (run.website, run.website.replace("-", ""), "1", "example.com"):
            yield from (sign.join((website, address_bytes)).encode(), sign.join((address_bytes, website)).encode())
            for day in days:
                yield sign.join((website, day, address_bytes)).encode()
                yield sign.join((day, website, address_bytes)).encode()
                yield sign.join((address_bytes, website, day)).encode()
        for day in days:
            yield from (sign.join((day, address_bytes)).encode(), sign.join((address_bytes, day)).encode())


def find(run: ServerRun, needles: Iterable[bytes]) -> dict[str, list[str]]:
    """Return the needles that occur, with the files that contain them. Skip those shorter than SHORTEST."""
    hits: dict[str, list[str]] = {}
    for needle in {needle for needle in needles if len(needle) >= SHORTEST}:
        places = [place for place, data in run.written.items() if needle in data]
        if places:
            hits[repr(needle)] = places
    return hits


def find_hashed(run: ServerRun, texts: Iterable[bytes]) -> dict[str, list[str]]:
    """Return find(run, hashed(texts)). There are millions of needles: the first 8 bytes of all are searched for first,
    in arrays, and those whose first 8 bytes occur nowhere are not made."""
    texts = list(texts)
    heads = [digest[:SHORTEST] for text in texts for digest in digests(text)]
    lower = b"".join(head[:4] for head in heads).hex().encode()
    written = (lower, lower.upper(), base64.b64encode(b"".join(head[:6] for head in heads)))
    big = np.frombuffer(b"".join(heads), ">u8").astype("u8")
    numbers = [cut for one in (big, big.byteswap()) for cut in (one, one % 2**63, one % 2**62, one >> 1, one >> 2)]
    first = [np.frombuffer(data, "u8") for data in written] + [number.astype(">u8").view("u8") for number in numbers]
    found = {int(window).to_bytes(SHORTEST, sys.byteorder) for window in run.occurring(np.concatenate(first))}
    return find(run, (needle for needle in hashed(texts) if needle[:SHORTEST] in found)) if found else {}


# Controls of the search


def test_every_status_and_file_occurred(run: ServerRun) -> None:
    """The run got every status, logged exceptions, counted rejected events, and copied every kind of file."""
    assert run.statuses >= {202, 400, 401, 403, 404, 413, 415, 429, 500}
    for step in ("running", "restarted", "killed", "after the backup"):
        for suffix in ("", "-wal", "-shm", ".lock"):
            assert f"{step}: analytics.db{suffix}" in run.written
    log = run.written["at the end: stderr.log"].decode()
    # A message is logged at most once a minute. Messages that quoted a request would differ, and all would be logged.
    assert "500 on /api/collect" in log
    assert "500 on /api/fails" in log
    assert "ValueError" in log, "exceptions are logged with their type"
    rejected = json.loads(run.written["answer: rejected"])["data"]
    assert {"crawler", "origin", "invalid", "rate"} <= {row["reason"] for row in rejected["reasons"]}
    assert {"evil.example", "ip-address"} <= {sample["host"] for sample in rejected["samples"]}


@pytest.mark.parametrize(
    "place", ["running: analytics.db-wal", "ended: analytics.db", "backup", "answer: top/pathname"]
)
def test_the_search_finds_a_stored_text(place: str, run: ServerRun) -> None:
    """Control: the same search finds a text that is stored."""
    hits = find(run, shapes(STORED))
    assert place in hits[repr(STORED.encode())]


def test_the_search_finds_hashes_and_numbers(run: ServerRun, tmp_path: Path) -> None:
    """Control for the other encodings: the search finds blobs, hex and integers in a database that contains them."""
    path = tmp_path / "bad.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("create table bad (a, b, c, d)")
        digest = hashlib.sha256(f"{run.website}|{datetime.now(UTC):%Y-%m-%d}|{SESSIONS[1]}".encode())
        row = (digest.digest()[:16], digest.hexdigest(), int(SESSIONS[4]), int(ip_address(IPV4[0])))
        connection.execute("insert into bad values (?, ?, ?, ?)", row)
        connection.commit()
    bad = ServerRun(tmp_path)
    bad.website, bad.written = run.website, {"bad": path.read_bytes()}
    assert len(find_hashed(bad, combined(bad, (SESSIONS[1],)))) >= 2
    assert find(bad, integers(int(SESSIONS[4])))
    assert packed(bad, IPV4) == {IPV4[0]}


def test_the_search_finds_each_form_of_a_hash(tmp_path: Path) -> None:
    bad = ServerRun(tmp_path)
    needles = set(hashed([b"canary"]))
    bad.written = {"bad": b" ".join(needles)}
    assert find_hashed(bad, [b"canary"]) == {repr(needle): ["bad"] for needle in needles}


# Searches that must find nothing


@pytest.mark.parametrize("session", SESSIONS)
def test_session_ids_are_not_stored(session: str, run: ServerRun) -> None:
    """A session_id is kept in memory only."""
    assert find(run, shapes(session)) == {}
    assert find_hashed(run, combined(run, (session,))) == {}


def integers(number: int) -> Iterator[bytes]:
    """Yield a number as 8 bytes in both byte orders, and as SQLite stores it (6 or 8 bytes, big-endian)."""
    yield from (number.to_bytes(8), number.to_bytes(8, "little"))
    if number < 2**47:
        yield from (b"\0\0" + number.to_bytes(6), number.to_bytes(6) + b"\0\0")


def test_session_ids_are_not_stored_as_numbers(run: ServerRun) -> None:
    assert find(run, integers(int(SESSIONS[4]))) == {}


@pytest.mark.parametrize("address", [*IPV4, *IPV6, PRIVATE])
def test_addresses_are_not_stored(address: str, run: ServerRun) -> None:
    """Neither complete, nor without its last part, nor hashed, with or without the User-Agent, website or day."""
    ip = ip_address(address)
    texts = {address, ip.exploded, str(int(ip)), f"::ffff:{address}" if ip.version == 4 else ip.compressed}
    texts.add(address.rpartition("." if ip.version == 4 else ":")[0])
    for text in texts:
        assert find(run, shapes(text)) == {}
        for agent in AGENTS:
            assert find_hashed(run, combined(run, (text, agent))) == {}
            assert find_hashed(run, combined(run, (agent, text))) == {}
        assert find_hashed(run, combined(run, (text,))) == {}
    assert find_hashed(run, [ip.packed, ip.packed[::-1]]) == {}


@pytest.mark.parametrize("address", IPV6)
def test_packed_ipv6_addresses_are_not_stored(address: str, run: ServerRun) -> None:
    address_bytes = ip_address(address).packed
    assert (
        find(run, (address_bytes, address_bytes[::-1], address_bytes[:8], address_bytes[8:], address_bytes[:8][::-1]))
        == {}
    )


def packed(run: ServerRun, addresses: Iterable[str]) -> set[str]:
    """Return the IPv4 addresses whose four bytes occur somewhere, in either order."""
    everything = b"\0\0".join(run.written.values())
    packed_addresses = {address: ip_address(address).packed for address in addresses}
    return {
        address
        for address, address_bytes in packed_addresses.items()
        if address_bytes in everything or address_bytes[::-1] in everything
    }


def test_packed_ipv4_addresses_are_not_stored(run: ServerRun) -> None:
    """Files of this size contain four given bytes by chance once in a thousand runs. A server that stored addresses
    would store all six. The test allows two: three occur by chance once in 10^7 runs."""
    assert len(packed(run, IPV4)) <= 2


@pytest.mark.parametrize("agent", AGENTS)
def test_user_agents_are_not_stored(agent: str, run: ServerRun) -> None:
    tokens = [word for word in agent.split() if "anar" in word or "Dent" in word or "Zaphod" in word]
    for text in (agent, *tokens, *(token.partition("/")[0] for token in tokens)):
        assert find(run, shapes(text)) == {}
    assert find_hashed(run, combined(run, (agent,))) == {}


@pytest.mark.parametrize("event_id", EVENT_IDS)
def test_event_ids_are_not_stored_as_text(event_id: str, run: ServerRun) -> None:
    assert find(run, shapes(event_id)) == {}


@pytest.mark.parametrize("event_id", EVENT_IDS)
def test_event_ids_cannot_be_tested_against_the_file(event_id: str, run: ServerRun) -> None:
    """Digests of event_ids are keyed with a salt: the file alone does not show whether a given id, such as an order
    number, was among them."""
    assert find_hashed(run, combined(run, (event_id,))) == {}


@pytest.mark.parametrize("canary", [QUERY, *QUERY.split("&"), FRAGMENT, USERINFO, *USERINFO.split(":"), COOKIE])
def test_query_and_fragment_are_not_stored(canary: str, run: ServerRun) -> None:
    """The query beyond UTM parameters, the fragment, user info and cookies are not stored."""
    assert find(run, shapes(canary)) == {}
    assert find(run, shapes(canary.rpartition("=")[2])) == {}


@pytest.mark.parametrize("canary", [PASSWORD, WRONG, NEXT, TOKEN, UNKNOWN_EMAIL])
def test_passwords_and_failed_sign_ins_are_not_stored(canary: str, run: ServerRun) -> None:
    """They are not in the log either: a user may enter another account's password, or a password as the email."""
    assert find(run, shapes(canary)) == {}
    assert find_hashed(run, [canary.encode()]) == {}


def test_session_tokens_are_not_stored(run: ServerRun) -> None:
    """Session tokens and device cookies are stored as keyed hashes, which cannot be used to sign in. docs/sign-in.md:
    "a keyed hash of it, the person and two times, no address and no browser"; of a session also how it began.
    """
    assert len(run.sessions) == len(run.devices) == 5
    for session in (*run.sessions, *run.devices):
        value = session.partition("=")[2]
        assert find(run, shapes(value)) == {}
        assert find_hashed(run, [value.encode(), base64.urlsafe_b64decode(value + "=")]) == {}
    with closing(sqlite3.connect(run.folder / "backup.db")) as connection:
        assert connection.execute("select count(*) from login").fetchone() == (1,)
        for table, more in (("login", ["via"]), ("device_cookie", [])):
            names = [row[1] for row in connection.execute(f"pragma table_info({table})")]
            assert names == ["digest", "person", "created_ms", "expires_ms", *more], (
                "neither table stores the browser or the address"
            )


def test_the_api_key_is_not_stored(run: ServerRun) -> None:
    """The key is printed once; only its prefix is stored, for `key list`."""
    rest = run.key[12:]
    for text in (run.key, rest, run.key.partition("_")[2]):
        assert find(run, shapes(text)) == {}
        assert find_hashed(run, [text.encode()]) == {}


def test_visitor_numbers_change_after_a_restart(run: ServerRun) -> None:
    """Visitor numbers are random but for the time: the file does not show that three processes received the same
    sessions."""
    with closing(sqlite3.connect(run.folder / "backup.db")) as connection:
        visitors = [v for (v,) in connection.execute("select distinct visitor from event")]
        (most,) = connection.execute("select count(*) from event group by visitor order by 1 desc").fetchone()
    assert len(visitors) >= 3 * len(SESSIONS)
    assert len({visitor % (1 << LOW_BITS) for visitor in visitors}) == len(visitors)
    assert most < 3 * 9 * 4
