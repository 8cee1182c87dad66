"""The short way of a collect request that needs nothing but its 202: from the bytes that came to the bytes that go.

A connection begins here. As long as each piece that arrives is exactly one whole, plain `POST /api/collect` whose
events are all valid, it is read, judged, queued and answered by plain calls: no task, no request and response objects.
The first piece that is anything else goes to aiohttp, and with it the connection for good: whatever is refused, split
up, sent ahead, compressed or of another route is answered there, by the same functions in the same order. Measured
with uvloop, all that the loop's thread does for a request: 101 us by aiohttp's way, 46 by this one.

What is plain: one piece; a head of at most 8 KB with each header once, in the strict grammar of RFC 9112, framed by one
Content-Length and nothing else, that asks for nothing (no Expect, Upgrade, Transfer-Encoding, Connection but
keep-alive). Whatever a proxy in front could read differently is therefore not read here.

What a connection may cost, in time and in memory, is looked after by tally/http/connections.py, on either way: aiohttp
gets its bytes through here. Where the writer has no room, that is said before anything is read or asked of the sender.

The checks have no effect until tokens are taken, so aiohttp's way may run them again from the start. After that the
answer is given here, whatever the writer says. While it is awaited nothing else is read.

Rules: only asyncio's and aiohttp's public interfaces (web.Server makes protocols, a protocol takes bytes). Nothing is
kept of a request but its claim until it is answered, and the lines of its head that half the world sends (Lines): to
find one takes a tenth of what reading it takes, and reading heads was a sixth of all that the server does for an event.
"""

import re
import time
from email.utils import formatdate

from aiohttp import web

from tally.errors import OVERLOADED, ApiError
from tally.events.sender import Sender
from tally.events.validation import MOST_BODY_BYTES
from tally.http.connections import CONNECTIONS, Connection
from tally.http.middleware import ACTIVE_REQUESTS, ERROR_COUNTS, RESPONSE_COUNTS, HttpProtocol, to_api_error
from tally.http.request_paths import BASE_PATH, COLLECT_PATHS
from tally.http.responses import COLLECT_HEADERS, error_response, serialize
from tally.ingest.collector import COLLECTOR, Claim, accepted_response, read_batch
from tally.ingest.engine import Outcomes

# our choice: a browser's head is 1 to 2 KB; aiohttp takes longer ones.
MOST_HEAD_BYTES = 8_192


def openings_below(base_path: str) -> tuple[bytes, ...]:
    """Return the first lines of plain collect requests to a server below this path."""
    return tuple(f"POST {base_path}{path} HTTP/1.1\r\n".encode() for path in COLLECT_PATHS)


OPENINGS = openings_below("")
# RFC 9112 2.1, 3, 5 and RFC 9110 5.5, 5.6.2, without anything that is tolerated but not plain.
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+): ?((?![ \t])[^\x00-\x08\x0a-\x1f\x7f]*(?<![ \t]))")
# What comes again and again and tells of nobody is kept; other lines are read each time.
_KEPT = frozenset(
    (
        "accept", "accept-encoding", "accept-language", "cache-control", "connection", "content-length", "content-type",
        "host", "origin", "pragma", "priority", "sec-fetch-dest", "sec-fetch-mode", "sec-fetch-site", "sec-gpc",
        "user-agent", "x-forwarded-proto",
    )
)  # fmt: skip
# our choice: 1 MB of them at most.
MOST_LINES, _LONGEST_LINE = 1_024, 300
# Not kept, and so read each time: where the value is plain ASCII, without the grammar.
_NAMES = {
    name.encode(): name.lower() for name in ("Referer", "X-Forwarded-For", "X-Real-IP", "CF-Connecting-IP", "Cookie")
}
# With any of these the request, or the connection after it, is not plain.
_ASKS = frozenset(("transfer-encoding", "expect", "upgrade", "content-encoding", "trailer", "te", "proxy-connection"))
# our choice: a browser sends about 20; aiohttp has a bound of its own.
MOST_FIELDS = 64
# A key of the counter of answers.
_ACCEPTED = (COLLECT_PATHS[0], 2)
_ACCEPTED_BODY = b'{"ok":true,"accepted":%d,"rejected":0}'
_HEADERS = "".join(f"{name}: {value}\r\n" for name, value in COLLECT_HEADERS.items())


class ProtocolFactory:
    """Makes the protocol of each new connection, as web.Server does."""

    def __init__(self, app: web.Application, server: web.Server) -> None:
        self.collector, self.under_way, self.connections = app[COLLECTOR], app[ACTIVE_REQUESTS], app[CONNECTIONS]
        self.answered, self.refused = app[RESPONSE_COUNTS], app[ERROR_COUNTS]
        self.server = server
        self.lines, self.openings = Lines(), openings_below(app[BASE_PATH])
        # Then aiohttp answers, with `Connection: close`.
        self.is_ending = False
        # RFC 9110 6.6.1: a Date may be left out of what is 5xx.
        self.overloaded = ApiError(OVERLOADED, retry_after_s=1)
        self.overloaded_response = serialize(error_response(self.overloaded), COLLECT_HEADERS)
        self._second, self._head, self._of_one = -1, b"", b""

    def __call__(self) -> "FastConnection":
        return FastConnection(self)

    def close(self) -> None:
        """Ends the connections that are still here, as aiohttp ends its own."""
        for way in list(self.connections.all):
            if isinstance(way, FastConnection) and way.is_short:
                way.transport.close()

    def accepted(self, events: int) -> bytes:
        """The answer 202 to a request all of whose events were taken."""
        second = int(time.time())
        if second != self._second:
            date = formatdate(second, usegmt=True)
            head = f"HTTP/1.1 202 Accepted\r\n{_HEADERS}Content-Type: application/json\r\nDate: {date}\r\n"
            self._second, self._head = second, head.encode()
            self._of_one = self._accepted(1)
        return self._of_one if events == 1 else self._accepted(events)

    def _accepted(self, events: int) -> bytes:
        body = _ACCEPTED_BODY % events
        return b"%bContent-Length: %d\r\n\r\n%b" % (self._head, len(body), body)


class FastConnection(Connection):
    """One connection, until it is aiohttp's, which learns of it only then: its own clocks start from there."""

    def __init__(self, factory: ProtocolFactory) -> None:
        super().__init__(factory.connections)
        self._factory, self._collector = factory, factory.collector
        self._held = b""
        self._aiohttps: web.RequestHandler | None = None

    @property
    def is_short(self) -> bool:
        """Whether aiohttp has not heard of it."""
        return self._aiohttps is None

    def connection_lost(self, failure: Exception | None) -> None:
        """He has gone."""
        super().connection_lost(failure)
        if self._aiohttps is not None:
            self._aiohttps.connection_lost(failure)

    def pause_writing(self) -> None:
        """Somebody who does not read his answers."""
        super().pause_writing()
        if self._aiohttps is not None:
            self._aiohttps.pause_writing()

    def resume_writing(self) -> None:
        """He reads on."""
        super().resume_writing()
        if self._aiohttps is not None:
            self._aiohttps.resume_writing()

    def data_received(self, data: bytes) -> None:
        """A plain request, or the end of this way."""
        if self._aiohttps is not None:
            self.count_heads(data)
            self._aiohttps.data_received(data)
        elif self.is_active:
            self._held += data
            self.transport.pause_reading()
        elif self.unread_bytes or self._factory.is_ending or not self._take(data):
            self._hand_over(data)

    def _hand_over(self, data: bytes) -> None:
        self.count_heads(data)
        self._aiohttps = aiohttps = self._factory.server()
        # web.Server makes no other, but for this: it answers in our words what is no HTTP.
        aiohttps.__class__ = HttpProtocol
        aiohttps.connection_made(self.transport)
        if self.unread_bytes:
            aiohttps.pause_writing()
        aiohttps.data_received(data)

    def _take(self, data: bytes) -> bool:
        """Queues what is in a plain request. False where it is none, and then nothing has happened."""
        plain = read_plain(data, self._factory.lines, self._factory.openings)
        if plain is None:
            return False
        collector, (fields, body) = self._collector, plain
        if collector.ingest.is_full:
            self._refuse_for_want_of_room()
            return True
        try:
            sender = self._sender(fields)
            # Before the body is parsed: a client without a token is to cost as little as possible.
            collector.check_client(sender)
            claim = collector.admit(read_batch(body), sender)
            if type(claim) is not Claim or claim.sources:
                return False
            collector.submit(claim, lambda outcome: self._conclude(claim, outcome))
        except Exception:  # aiohttp's path meets it again, and answers it
            return False
        self.begin_request()
        self._factory.under_way.add(id(self))
        return True

    def _refuse_for_want_of_room(self) -> None:
        self._count(self._factory.overloaded)
        self.transport.write(self._factory.overloaded_response)
        self.end_request()

    def _sender(self, fields: dict[str, str]) -> Sender:
        field, resolver = fields.get, self._collector.resolver
        forwarded = field(resolver.header_key)
        client = resolver.client(self.peer) if forwarded is None else resolver.client(self.peer, forwarded)
        page = resolver.page(field("origin"), field("referer"), field("sec-fetch-site"))
        if forwarded is None and self.peer:
            resolver.check_event(client, page, field("host"))
        return tuple.__new__(Sender, (client, page, field("user-agent", ""), field("accept-language", "")))

    def _conclude(self, claim: Claim, outcome: Outcomes | Exception) -> None:
        answer = self._answer(claim, outcome)
        self._factory.under_way.discard(id(self))
        self.end_request()
        if not self.transport.is_closing():
            self.transport.write(answer)
            if self._held:
                self.transport.resume_reading()
                self._hand_over(self._held)

    def _answer(self, claim: Claim, outcome: Outcomes | Exception) -> bytes:
        try:
            accepted = self._collector.settle(claim, outcome)
        except Exception as failure:
            error = to_api_error(failure, COLLECT_PATHS[0])
            self._count(error)
            response = error_response(error)
        else:
            self._factory.answered[_ACCEPTED] += 1
            if not accepted.errors:
                return self._factory.accepted(accepted.events)
            response = accepted_response(accepted)
        return serialize(response, {**COLLECT_HEADERS, "Date": formatdate(usegmt=True)})

    def _count(self, error: ApiError) -> None:
        self._collector.count_refusal(error)
        self._factory.refused[error.kind.code] += 1
        self._factory.answered[COLLECT_PATHS[0], error.kind.status // 100] += 1


class Lines(dict[bytes, tuple[str, str]]):
    """Header lines, each with its name in lower case and its value. Raises NotPlain for one that is not plain."""

    def __missing__(self, line: bytes) -> tuple[str, str]:
        name, _, told = line.partition(b": ")
        known = _NAMES.get(name)
        if known is not None and told.isascii():
            text = told.decode()
            # What the grammar below comes to for these, in half the time.
            if text and text.isprintable() and text == text.strip():
                return known, text
        match = _FIELD.fullmatch(line)
        if match is None:
            raise NotPlain
        # As aiohttp does.
        field = match[1].decode().lower(), match[2].decode("utf-8", "surrogateescape")
        if field[0] in _KEPT and len(line) <= _LONGEST_LINE:
            if len(self) >= MOST_LINES:
                self.clear()
            self[line] = field
        return field


class NotPlain(ValueError):
    """Not for the short way."""


def read_plain(
    data: bytes, lines: Lines, openings: tuple[bytes, ...] = OPENINGS
) -> tuple[dict[str, str], bytes] | None:
    """Headers, by names in lower case, and body of a piece that is one whole plain collect request; else None."""
    end = data.find(b"\r\n\r\n", 0, MOST_HEAD_BYTES)
    if end < 0 or not data.startswith(openings):
        return None
    _, *head = data[:end].split(b"\r\n")
    if len(head) > MOST_FIELDS:
        return None
    try:
        fields = dict(map(lines.__getitem__, head))
    except NotPlain:
        return None
    connection, length = fields.get("connection"), len(data) - end - 4
    if (
        len(fields) < len(head)
        or not _ASKS.isdisjoint(fields)
        or "host" not in fields
        or (connection is not None and connection.lower() != "keep-alive")
        or fields.get("content-length") != str(length)
        or length > MOST_BODY_BYTES
    ):
        return None
    return fields, data[end + 4 :]
