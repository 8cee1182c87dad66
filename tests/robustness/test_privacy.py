"""What must never be written down is looked for everywhere, in every shape it could have: the whole stay of a server.

docs/privacy.md lists what is not stored: addresses, User-Agents, `session_id`, cookies, the rest of a URL's query,
hashes of these. API keys and passwords are stored as hashes.

A real server is sent distinctive values (canaries), answers 202, 400, 403, 413, 429 and 500 to them, is restarted and
killed, and is backed up. After each step all that it wrote is kept: the database with its log, shared memory and lock,
and what it said. Then each canary is looked for in the bytes of all that, plain and packed and hashed. That the search
finds what is there is shown by the path of a page, which is stored and found.
"""

import base64
import hashlib
import json
import sqlite3
import subprocess
import sys
import urllib.parse
from array import array
from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from functools import cached_property
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from tests.support.app import CHROME, ROOT
from tests.support.process import Server, clean_environment, until

SESSIONS = (
    "s3ssion8",  # 8 characters, the fewest
    "canary-session-of-a-visitor",
    "canary session with spaces, 'quotes' and \\ signs",
    "kanarienvogel-äöü-金絲雀",
    "4815162342108771",  # could be stored as an integer
    "c" * 32 + "anarysession" + "x" * 20,  # 64, the most
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
STRANGER = "canary.stranger@example.net"
WRONG, NEXT = "canary word that is wrong", "canary word that comes next"
TOKEN = "canary-setup-token"
STORED = "/canary-path-that-is-stored"
POISON = "canary that no row can hold"

# A program of the test's own around the real application, with one handler that fails as a bug would: its message
# quotes all it knows of the sender.
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


class Stay:
    """A server's stay in one folder, and copies of all that it wrote, by step and file."""

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
    def windows(self) -> set[int]:
        """Every 8 bytes in a row of all that was written."""
        windows: set[int] = set()
        for data in self.written.values():
            for start in range(8):
                windows.update(array("Q", data[start : start + max(0, len(data) - start) // 8 * 8]))
        return windows

    def keep(self, step: str) -> None:
        """Copies every file as it is now."""
        for path in [*self.db.parent.iterdir(), self._log]:
            self.written[f"{step}: {path.name}"] = path.read_bytes()

    def serve(self) -> Server:
        options = ("--website-per-minute", "60", "--trusted-proxy", "127.0.0.0/8")
        self.servers.append(Server(self.db, options, {}, self._log, []))
        return self.servers[-1]

    def events(self) -> Iterator[dict[str, Any]]:
        """One of each type with every canary that an event can carry."""
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

    def everybody(self, server: Server) -> None:
        """Every session, address, agent and event_id is sent with every type of event, and accepted."""
        addresses = [*IPV4, *IPV6, f"::ffff:{IPV4[0]}"]
        for n in range(max(len(SESSIONS), len(addresses))):
            session, address, agent = SESSIONS[n % len(SESSIONS)], addresses[n % len(addresses)], AGENTS[n % 2]
            known = [event | {"session_id": session} for event in self.events()]
            known[0]["event_id"] = EVENT_IDS[n % 2]
            unknown = list(self.events())
            assert self.send(server, {"website_id": self.website, "events": [*known, *unknown]}, address, agent) == 202

    def refusals(self, server: Server) -> None:
        """The same canaries in requests that are refused, each in its own way."""
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
        assert self.send(server, view | {SESSIONS[1]: SESSIONS[1], "device": SESSIONS[1]}, address, agent) == 400
        assert self.send(server, json.dumps(view) + " " * 65_536, address, agent) == 413
        assert self.send(server, view, address, agent, **{"Content-Encoding": "gzip"}) == 415
        crawler = AGENTS[0] + " (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"
        assert self.send(server, view, address, crawler, Origin="https://example.com") == 202
        assert self.send(server, view, PRIVATE, agent) == 202
        asked = {"Authorization": f"Bearer {self.key}x", "X-Forwarded-For": address, "User-Agent": agent}
        for path in (f"/api/v1/websites/{SESSIONS[1]}/stats", f"/api/v1/websites?key={self.key}&{QUERY}", "/metrics"):
            self.statuses.add(server.request("GET", urllib.parse.quote(path, safe="/?&="), None, asked).status)
        while self.send(server, view | {"event_id": "again"}, address, agent) != 429:
            pass

    def failures(self, server: Server) -> None:
        """A real failure of the writer: the file refuses a row, for a reason that is nobody's fault."""
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

    def read(self, server: Server) -> None:
        """Every question is asked; what is answered is kept too: "Never a session_id, an address or a User-Agent"."""
        asked = {"Authorization": f"Bearer {self.key}", "X-Forwarded-For": IPV4[2], "User-Agent": AGENTS[1]}
        questions = ("stats", "timeseries", "top/pathname", "top/browser", "events?limit=1000", "realtime")
        for question in questions:
            answer = server.request("GET", f"/api/v1/websites/{self.website}/{question}", None, asked)
            assert answer.status == 200
            self.written[f"answer: {question}"] = answer.body
        # Written with the next second.
        left_out = f"/api/v1/websites/{self.website}/rejected"
        until(lambda: b"rate_limited" in server.request("GET", left_out, None, asked).body)
        self.written["answer: rejected"] = server.request("GET", left_out, None, asked).body
        self.written["answer: metrics"] = server.request("GET", "/metrics").body

    def pages(self, server: Server) -> None:
        """Logins that fail and that do not, another password, a request too many."""
        own = {"Sec-Fetch-Site": "same-origin", "Content-Type": "application/json", "User-Agent": AGENTS[0]}
        own["Setup-Token"] = TOKEN

        def ask(method: str, path: str, body: Any = None, address: str = IPV4[3], cookie: str = "") -> int:
            sent = own | {"X-Forwarded-For": address} | ({"Cookie": cookie} if cookie else {})
            answer = server.request(method, path, body, sent)
            for line in answer.headers.get_all("Set-Cookie", []):  # type: ignore[attr-defined]
                given = line.partition(";")[0]
                if given.partition("=")[2]:
                    (self.sessions if given.startswith("tally=") else self.devices).append(given)
            self.written[f"answer: {path} {len(self.written)}"] = answer.body
            return answer.status

        right = {"email": "owner@example.com", "password": PASSWORD}
        assert ask("GET", "/api/account/setup") == 404
        assert ask("POST", "/api/account/login", {"email": STRANGER, "password": WRONG}, IPV6[1]) == 401
        assert ask("POST", "/api/account/login", right | {"password": WRONG}) == 401
        assert ask("POST", "/api/account/login", right) == 200
        assert ask("GET", "/api/account", cookie=self.sessions[0]) == 200
        assert ask("POST", "/api/account/password", {"current": PASSWORD, "new": NEXT}, cookie=self.sessions[0]) == 204
        assert ask("POST", "/api/account/login", right | {"password": NEXT}) == 200
        assert ask("POST", "/api/account/password", {"current": NEXT, "new": PASSWORD}, cookie=self.sessions[2]) == 204
        assert ask("POST", "/api/account/logout", cookie=self.sessions[3]) == 204
        assert ask("POST", "/api/account/login", right) == 200
        while ask("POST", "/api/account/login", {"email": STRANGER, "password": WRONG}, IPV6[0]) != 429:
            pass

    def bug(self) -> None:
        """A handler that fails with a message full of canaries."""
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

    def run(self) -> "Stay":
        self.command("account", "create", "owner@example.com", "--password-stdin", stdin=PASSWORD)
        self.website = self.command("website", "add", "example.com")
        self.key = self.command("key", "create", "--name", "canary key")
        first = self.serve()
        self.everybody(first)
        self.refusals(first)
        self.failures(first)
        self.read(first)
        self.pages(first)
        self.keep("running")
        assert first.terminate() == 0
        self.keep("ended")
        second = self.serve()
        self.everybody(second)
        self.keep("restarted")
        second.kill()
        self.keep("killed")
        third = self.serve()
        self.everybody(third)
        self.read(third)
        self.command("backup", str(self.folder / "backup.db"))
        self.written["backup"] = (self.folder / "backup.db").read_bytes()
        self.keep("after the backup")
        third.kill()
        self.bug()
        self.keep("at the end")
        return self


@pytest.fixture(scope="module")
def stay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stay]:
    stay = Stay(tmp_path_factory.mktemp("stay"))
    try:
        yield stay.run()
    finally:
        for server in stay.servers:
            if server.process.poll() is None:
                server.kill()


# The search

HASHES = ("md5", "sha1", "sha224", "sha256", "sha384", "sha512", "sha3_256", "blake2b", "blake2s")
# The first 8 bytes of a digest are enough to know it by, also where it was cut. That 8 given bytes stand somewhere in
# three megabytes by chance happens once in 10^12; the millions that are looked for here find one once in 10^5 runs.
SHORTEST = 8


def digests(data: bytes) -> Iterator[bytes]:
    for name in HASHES:
        yield hashlib.new(name, data).digest()
    for size in (8, 12, 16, 20, 24, 32, 48):  # BLAKE2 makes another digest for every length
        yield hashlib.blake2b(data, digest_size=size).digest()
        if size <= 32:
            yield hashlib.blake2s(data, digest_size=size).digest()


def shapes(text: str) -> Iterator[bytes]:
    """A text as it could stand in a file: in several encodings, as hex, base64, percent-encoded, in JSON."""
    plain = text.encode()
    yield from (plain, text.encode("utf-16-le"), text.encode("utf-16-be"), text.lower().encode())
    yield from (urllib.parse.quote(text).encode(), urllib.parse.quote_plus(text).encode())
    yield json.dumps(text)[1:-1].encode()
    for data in (plain, text.encode("utf-16-le")):
        yield from spelled(data)
    for start in range(3):  # base64 of a longer text that has it in the middle
        yield base64.b64encode(b"\0" * start + plain)[4 if start else 0 : -4]


def spelled(data: bytes) -> Iterator[bytes]:
    yield from (data.hex().encode(), data.hex().upper().encode())
    yield from (base64.b64encode(data).rstrip(b"="), base64.urlsafe_b64encode(data).rstrip(b"="))
    yield from (base64.b32encode(data).rstrip(b"="), base64.b85encode(data))


def hashed(texts: Iterable[bytes]) -> Iterator[bytes]:
    """The beginnings of all digests of the texts, raw, spelled, and as the numbers of up to 64 bits made of them."""
    for text in texts:
        for digest in digests(text):
            head = digest[:SHORTEST]
            yield from (head.hex().encode(), head.hex().upper().encode(), base64.b64encode(digest)[:11])
            for number in (int.from_bytes(head), int.from_bytes(head, "little")):
                for cut in (number, number % 2**63, number % 2**62, number >> 1, number >> 2):
                    yield cut.to_bytes(8)


def joined(stay: Stay, parts: tuple[str, ...]) -> Iterator[bytes]:
    """A canary with what an identity is made of: website and day, in many spellings and orders."""
    now = datetime.now(UTC)
    days = (f"{now:%Y-%m-%d}", f"{now:%Y%m%d}", str(int(now.timestamp()) // 86_400))
    canary = "".join(parts)
    yield canary.encode()
    for sign in ("", "|", ":", "-", "/", ",", " ", "\n", "\0"):
        whole = sign.join(parts)
        yield whole.encode()
        for website in (stay.website, stay.website.replace("-", ""), "1", "example.com"):
            yield from (sign.join((website, whole)).encode(), sign.join((whole, website)).encode())
            for day in days:
                yield sign.join((website, day, whole)).encode()
                yield sign.join((day, website, whole)).encode()
                yield sign.join((whole, website, day)).encode()
        for day in days:
            yield from (sign.join((day, whole)).encode(), sign.join((whole, day)).encode())


def found(stay: Stay, needles: Iterable[bytes]) -> dict[str, list[str]]:
    """The needles that are in something written, with the places. Shorter ones than SHORTEST are not looked for."""
    hits: dict[str, list[str]] = {}
    for needle in {needle for needle in needles if len(needle) >= SHORTEST}:
        # Millions of needles in megabytes: only those whose beginning stands somewhere are looked for in earnest.
        if int.from_bytes(needle[:SHORTEST], sys.byteorder) in stay.windows:
            places = [place for place, data in stay.written.items() if needle in data]
            if places:
                hits[repr(needle)] = places
    return hits


# What a finding looks like


def test_everything_happened(stay: Stay) -> None:
    """Every answer that could leave a trace was given, and every kind of file was looked at."""
    assert stay.statuses >= {202, 400, 401, 403, 404, 413, 415, 429, 500}
    for step in ("running", "restarted", "killed", "after the backup"):
        for suffix in ("", "-wal", "-shm", ".lock"):
            assert f"{step}: analytics.db{suffix}" in stay.written
    log = stay.written["at the end: stderr.log"].decode()
    # Once a minute each: if they quoted what was sent, they would differ, and stand there one and all.
    assert "500 on /api/collect" in log
    assert "500 on /api/fails" in log
    assert "ValueError" in log, "failures are logged, by their places"
    left_out = json.loads(stay.written["answer: rejected"])["data"]
    assert {"crawler", "origin", "invalid", "rate"} <= {row["reason"] for row in left_out["reasons"]}
    assert {"evil.example", "ip-address"} <= {sample["host"] for sample in left_out["samples"]}


@pytest.mark.parametrize(
    "place", ["running: analytics.db-wal", "ended: analytics.db", "backup", "answer: top/pathname"]
)
def test_the_search_finds_what_is_stored(place: str, stay: Stay) -> None:
    """The control: the same search over the same bytes finds a text that is stored, in its place."""
    hits = found(stay, shapes(STORED))
    assert place in hits[repr(STORED.encode())]


def test_the_search_finds_hashes_and_numbers(stay: Stay, tmp_path: Path) -> None:
    """The control for the other shapes: in a file that holds them, as blob, hex and integers, they are found."""
    path = tmp_path / "bad.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("create table bad (a, b, c, d)")
        digest = hashlib.sha256(f"{stay.website}|{datetime.now(UTC):%Y-%m-%d}|{SESSIONS[1]}".encode())
        row = (digest.digest()[:16], digest.hexdigest(), int(SESSIONS[4]), int(ip_address(IPV4[0])))
        connection.execute("insert into bad values (?, ?, ?, ?)", row)
        connection.commit()
    bad = Stay(tmp_path)
    bad.website, bad.written = stay.website, {"bad": path.read_bytes()}
    assert len(found(bad, hashed(joined(bad, (SESSIONS[1],))))) >= 2
    assert found(bad, integers(int(SESSIONS[4])))
    assert packed(bad, IPV4) == {IPV4[0]}


# Nothing is found


@pytest.mark.parametrize("session", SESSIONS)
def test_session_ids_are_nowhere(session: str, stay: Stay) -> None:
    """ "session_id: ephemeral, held in memory only, must never be persisted" (seed)."""
    assert found(stay, shapes(session)) == {}
    assert found(stay, hashed(joined(stay, (session,)))) == {}


def integers(number: int) -> Iterator[bytes]:
    """As a number of 8 bytes either way round; SQLite itself stores 6 or 8 bytes, big end first."""
    yield from (number.to_bytes(8), number.to_bytes(8, "little"))
    if number < 2**47:
        yield from (b"\0\0" + number.to_bytes(6), number.to_bytes(6) + b"\0\0")


def test_session_ids_are_nowhere_as_numbers(stay: Stay) -> None:
    assert found(stay, integers(int(SESSIONS[4]))) == {}


@pytest.mark.parametrize("address", [*IPV4, *IPV6, PRIVATE])
def test_addresses_are_nowhere(address: str, stay: Stay) -> None:
    """Not whole, not as a /24 or /64, not hashed alone or with the User-Agent, website or day."""
    ip = ip_address(address)
    texts = {address, ip.exploded, str(int(ip)), f"::ffff:{address}" if ip.version == 4 else ip.compressed}
    texts.add(address.rpartition("." if ip.version == 4 else ":")[0])
    for text in texts:
        assert found(stay, shapes(text)) == {}
        for agent in AGENTS:
            assert found(stay, hashed(joined(stay, (text, agent)))) == {}
            assert found(stay, hashed(joined(stay, (agent, text)))) == {}
        assert found(stay, hashed(joined(stay, (text,)))) == {}
    assert found(stay, hashed([ip.packed, ip.packed[::-1]])) == {}


@pytest.mark.parametrize("address", IPV6)
def test_ipv6_addresses_are_nowhere_packed(address: str, stay: Stay) -> None:
    whole = ip_address(address).packed
    assert found(stay, (whole, whole[::-1], whole[:8], whole[8:], whole[:8][::-1])) == {}


def packed(stay: Stay, addresses: Iterable[str]) -> set[str]:
    """The IPv4 addresses whose four bytes stand somewhere, in either order."""
    everything = b"\0\0".join(stay.written.values())
    wholes = {address: ip_address(address).packed for address in addresses}
    return {address for address, whole in wholes.items() if whole in everything or whole[::-1] in everything}


def test_ipv4_addresses_are_nowhere_packed(stay: Stay) -> None:
    """Four given bytes stand in files of this size by chance once in a thousand tries. Who stores addresses stores all
    six: two are let pass, so that chance does not fail the test (three at once: 1 in 10^7)."""
    assert len(packed(stay, IPV4)) <= 2


@pytest.mark.parametrize("agent", AGENTS)
def test_user_agents_are_nowhere(agent: str, stay: Stay) -> None:
    tokens = [word for word in agent.split() if "anar" in word or "Dent" in word or "Zaphod" in word]
    for text in (agent, *tokens, *(token.partition("/")[0] for token in tokens)):
        assert found(stay, shapes(text)) == {}
    assert found(stay, hashed(joined(stay, (agent,)))) == {}


@pytest.mark.parametrize("event_id", EVENT_IDS)
def test_event_ids_are_nowhere_as_text(event_id: str, stay: Stay) -> None:
    assert found(stay, shapes(event_id)) == {}


@pytest.mark.parametrize("event_id", EVENT_IDS)
def test_event_ids_cannot_be_guessed_from_the_file(event_id: str, stay: Stay) -> None:
    """Digests of event_ids are keyed with a salt: without it nobody can test whether a given id, such as the number of
    an order, was among them."""
    assert found(stay, hashed(joined(stay, (event_id,)))) == {}


@pytest.mark.parametrize("canary", [QUERY, *QUERY.split("&"), FRAGMENT, USERINFO, *USERINFO.split(":"), COOKIE])
def test_the_rest_of_a_url_is_nowhere(canary: str, stay: Stay) -> None:
    """ "the rest of query and fragment is dropped and never stored"; nor are cookies."""
    assert found(stay, shapes(canary)) == {}
    assert found(stay, shapes(canary.rpartition("=")[2])) == {}


@pytest.mark.parametrize("canary", [PASSWORD, WRONG, NEXT, TOKEN, STRANGER])
def test_passwords_and_what_was_tried_are_nowhere(canary: str, stay: Stay) -> None:
    """Nor in the log: whoever mistypes may have typed another account's, or the password for the address."""
    assert found(stay, shapes(canary)) == {}
    assert found(stay, hashed([canary.encode()])) == {}


def test_sessions_are_nowhere(stay: Stay) -> None:
    """docs/sign-in.md: sessions are stored as keyed hashes, so that nobody can log in with what is in the file."""
    assert len(stay.sessions) == len(stay.devices) == 5
    for session in (*stay.sessions, *stay.devices):
        value = session.partition("=")[2]
        assert found(stay, shapes(value)) == {}
        assert found(stay, hashed([value.encode(), base64.urlsafe_b64decode(value + "=")])) == {}
    with closing(sqlite3.connect(stay.folder / "backup.db")) as connection:
        assert connection.execute("select count(*) from login").fetchone() == (1,)
        for table in ("login", "device_cookie"):
            names = [row[1] for row in connection.execute(f"pragma table_info({table})")]
            assert names == ["digest", "account", "created_ms", "expires_ms"], (
                "neither says anything of browser or place"
            )


def test_the_key_is_nowhere(stay: Stay) -> None:
    """ "prints the key, this once": only its prefix is kept, for `key list`."""
    rest = stay.key[12:]
    for text in (stay.key, rest, stay.key.partition("_")[2]):
        assert found(stay, shapes(text)) == {}
        assert found(stay, hashed([text.encode()])) == {}


def test_a_visitor_is_another_one_after_a_restart(stay: Stay) -> None:
    """What is stored is drawn anew: nothing in the file tells that three processes saw the same sessions."""
    with closing(sqlite3.connect(stay.folder / "backup.db")) as connection:
        visitors = [v for (v,) in connection.execute("select distinct visitor from event")]
        (most,) = connection.execute("select count(*) from event group by visitor order by 1 desc").fetchone()
    assert len(visitors) >= 3 * len(SESSIONS)
    assert len({visitor >> 40 for visitor in visitors}) == len(visitors), "they are spread over all numbers"
    assert most < 3 * 9 * 4
