"""The fast path of collect requests: from the received bytes to the bytes of a 202, without aiohttp.

Every connection starts here. As long as each piece of data is exactly one complete plain `POST /api/collect` whose
events are all valid, it is parsed, admitted, queued and answered by plain function calls: no task, no request and
response objects. The first piece that is anything else is handed over to aiohttp, and the connection with it for good.
Requests that are refused, split, pipelined, compressed or for another route are answered there, by the same functions
in the same order. Measured with uvloop, time of the event loop's thread per request: 101 µs with aiohttp, 46 µs here.

A plain request is one piece of data with a head of at most 8 KB that has each header once, in the strict grammar of
RFC 9112, with one Content-Length and no other framing, and without Expect, Upgrade, Transfer-Encoding or a Connection
other than keep-alive. Anything that a proxy in front could read differently is not plain.

Limits on the time and memory of connections are those of tally/http/connections.py on both paths: aiohttp receives its
data through this class. Where the writer has no capacity, 503 is sent before anything is parsed.

Admission changes nothing until the events are queued, so aiohttp's path may run the checks again from the start. Once
they are queued the response is sent here, whatever the writer decides; no other data is parsed until then.

Only public interfaces of asyncio and aiohttp are used: web.Server makes protocols, a protocol receives bytes. Of a
request only its Claim is kept until it is answered, and header lines that many clients send verbatim (HeaderCache): a
lookup takes a tenth of the time of parsing, which was a sixth of the server's time for an event.
"""

import re
import time
from email.utils import formatdate

from aiohttp import web

from tally.engine.ingest import Outcomes
from tally.errors import OVERLOADED, ApiError, Unanswered
from tally.events.client_hints import hint_headers
from tally.events.sender import Sender
from tally.events.validation import MAX_BODY_BYTES
from tally.http.connections import CONNECTIONS, Connection
from tally.http.middleware import ACTIVE_REQUESTS, ERROR_COUNTS, RESPONSE_COUNTS, HttpProtocol, to_api_error
from tally.http.request_paths import BASE_PATH, COLLECT_PATHS
from tally.http.responses import COLLECT_HEADERS, error_response, serialize
from tally.ingest.collector import COLLECTOR, Claim, accepted_response, read_batch

# A browser's head is 1 to 2 KB; longer ones go to aiohttp.
MAX_HEAD_BYTES = 8_192


def request_lines(base_path: str) -> tuple[bytes, ...]:
    """Return the first lines of plain collect requests to a server below this path."""
    return tuple(f"POST {base_path}{path} HTTP/1.1\r\n".encode() for path in COLLECT_PATHS)


REQUEST_LINES = request_lines("")
# RFC 9112 2.1, 3, 5 and RFC 9110 5.5, 5.6.2, without what these merely tolerate.
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+): ?((?![ \t])[^\x00-\x08\x0a-\x1f\x7f]*(?<![ \t]))")
# Headers whose lines many clients send verbatim and that identify no person. Other lines are parsed each time.
_CACHED = frozenset(
    (
        "accept", "accept-encoding", "accept-language", "cache-control", "connection", "content-length", "content-type",
        "host", "origin", "pragma", "priority", "sec-ch-ua", "sec-ch-ua-mobile", "sec-ch-ua-platform",
        "sec-fetch-dest", "sec-fetch-mode", "sec-fetch-site", "sec-gpc",
        "user-agent", "x-forwarded-proto",
    )
)  # fmt: skip
# 1 MB at most.
MAX_LINES, _MAX_LINE_BYTES = 1_024, 300
# Headers that differ in each request: a printable ASCII value is accepted without the regular expression.
_NAMES = {
    name.encode(): name.lower() for name in ("Referer", "X-Forwarded-For", "X-Real-IP", "CF-Connecting-IP", "Cookie")
}
# With any of these headers the request, or what follows on the connection, is not plain.
_NOT_PLAIN = frozenset(
    ("transfer-encoding", "expect", "upgrade", "content-encoding", "trailer", "te", "proxy-connection")
)
# A browser sends about 20; aiohttp has a limit of its own.
MAX_FIELDS = 64
# The key of 202 responses in the counters.
_ACCEPTED = (COLLECT_PATHS[0], 2)
_ACCEPTED_BODY = b'{"ok":true,"accepted":%d,"rejected":0}'
_HEADERS = "".join(f"{name}: {value}\r\n" for name, value in COLLECT_HEADERS.items())


class ProtocolFactory:
    """Creates the protocol object of each new connection, as web.Server does."""

    def __init__(self, app: web.Application, server: web.Server) -> None:
        self.collector, self.active_requests, self.connections = app[COLLECTOR], app[ACTIVE_REQUESTS], app[CONNECTIONS]
        self.answered, self.refused = app[RESPONSE_COUNTS], app[ERROR_COUNTS]
        self.server = server
        self.lines, self.request_lines = HeaderCache(), request_lines(app[BASE_PATH])
        # During shutdown aiohttp answers all requests, with `Connection: close`.
        self.is_ending = False
        # RFC 9110 6.6.1: a 5xx response needs no Date.
        self.overloaded = ApiError(OVERLOADED, retry_after_s=1)
        self.overloaded_response = serialize(error_response(self.overloaded), COLLECT_HEADERS)
        self._second, self._head, self._of_one = -1, b"", b""

    def __call__(self) -> "FastConnection":
        return FastConnection(self)

    def close(self) -> None:
        """Close the connections that are on the fast path; aiohttp closes its own."""
        for connection in list(self.connections.all):
            if isinstance(connection, FastConnection) and connection.is_fast:
                connection.transport.close()

    def accepted(self, events: int) -> bytes:
        """Return the 202 response to a request whose events were all accepted."""
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
    """One connection. aiohttp's handler, with its timeouts, is created when the connection is handed over."""

    def __init__(self, factory: ProtocolFactory) -> None:
        super().__init__(factory.connections)
        self._factory, self._collector = factory, factory.collector
        self._held = b""
        self._handler: web.RequestHandler | None = None

    @property
    def is_fast(self) -> bool:
        """Whether the connection has not been handed over to aiohttp."""
        return self._handler is None

    def connection_lost(self, failure: Exception | None) -> None:
        """As asyncio.Protocol."""
        super().connection_lost(failure)
        if self._handler is not None:
            self._handler.connection_lost(failure)

    def pause_writing(self) -> None:
        """The client reads slower than the server writes."""
        super().pause_writing()
        if self._handler is not None:
            self._handler.pause_writing()

    def resume_writing(self) -> None:
        """The client has read enough of its responses."""
        super().resume_writing()
        if self._handler is not None:
            self._handler.resume_writing()

    def data_received(self, data: bytes) -> None:
        """Take a plain request; hand the connection over with anything else."""
        if self._handler is not None:
            self.count_heads(data)
            self._handler.data_received(data)
        elif self.is_active:
            self._held += data
            self.transport.pause_reading()
        elif self.unread_bytes or self._factory.is_ending or not self._take(data):
            self._hand_over(data)

    def _hand_over(self, data: bytes) -> None:
        self.count_heads(data)
        self._handler = handler = self._factory.server()
        # web.Server makes handlers of one class only. This one has the API's errors for what is no HTTP.
        handler.__class__ = HttpProtocol
        handler.connection_made(self.transport)
        if self.unread_bytes:
            handler.pause_writing()
        handler.data_received(data)

    def _take(self, data: bytes) -> bool:
        """Queue the events of a plain request. False where the data is none; then nothing was changed."""
        plain = read_plain(data, self._factory.lines, self._factory.request_lines)
        if plain is None:
            return False
        collector, (fields, body) = self._collector, plain
        if collector.ingest.is_full:
            self._refuse_overloaded()
            return True
        try:
            sender = self._sender(fields)
            # Before the body is parsed, so that requests over the limit cost little.
            collector.check_client(sender)
            claim = collector.admit(read_batch(body), sender)
            if type(claim) is not Claim or claim.sources:
                return False
            collector.submit(claim, lambda outcome: self._conclude(claim, outcome))
        except Exception:  # raised again on aiohttp's path, which answers it
            return False
        self.begin_request()
        self._factory.active_requests.add(id(self))
        return True

    def _refuse_overloaded(self) -> None:
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
        user_agent, language = field("user-agent", ""), field("accept-language", "")
        return tuple.__new__(Sender, (client, page, user_agent, language, hint_headers(field)))

    def _conclude(self, claim: Claim, outcome: Outcomes | Exception) -> None:
        answer = self._answer(claim, outcome)
        self._factory.active_requests.discard(id(self))
        self.end_request()
        if answer is None:
            self.abort()
        elif not self.transport.is_closing():
            self.transport.write(answer)
            if self._held:
                self.transport.resume_reading()
                self._hand_over(self._held)

    def _answer(self, claim: Claim, outcome: Outcomes | Exception) -> bytes | None:
        """Return the response, None where the connection is to be closed without one."""
        try:
            accepted = self._collector.settle(claim, outcome)
        except Unanswered:
            return None
        except Exception as failure:
            error = to_api_error(failure, COLLECT_PATHS[0])
            self._count(error)
            response = error_response(error)
        else:
            self._factory.answered[_ACCEPTED] += 1
            if not accepted.errors and not accepted.warnings:
                return self._factory.accepted(accepted.events)
            response = accepted_response(accepted)
        return serialize(response, {**COLLECT_HEADERS, "Date": formatdate(usegmt=True)})

    def _count(self, error: ApiError) -> None:
        self._collector.count_refusal(error)
        self._factory.refused[error.kind.code] += 1
        self._factory.answered[COLLECT_PATHS[0], error.kind.status // 100] += 1


class HeaderCache(dict[bytes, tuple[str, str]]):
    """Parsed header lines: line -> name in lower case, value. Raises NotPlain for a line that is not plain."""

    def __missing__(self, line: bytes) -> tuple[str, str]:
        name, _, value = line.partition(b": ")
        known = _NAMES.get(name)
        if known is not None and value.isascii():
            text = value.decode()
            # Equivalent to the regular expression for these values, in half the time.
            if text and text.isprintable() and text == text.strip():
                return known, text
        match = _FIELD.fullmatch(line)
        if match is None:
            raise NotPlain
        # Decoded as aiohttp does.
        field = match[1].decode().lower(), match[2].decode("utf-8", "surrogateescape")
        if field[0] in _CACHED and len(line) <= _MAX_LINE_BYTES:
            if len(self) >= MAX_LINES:
                self.clear()
            self[line] = field
        return field


class NotPlain(ValueError):
    """A request that is not for the fast path."""


def read_plain(
    data: bytes, lines: HeaderCache, first_lines: tuple[bytes, ...] = REQUEST_LINES
) -> tuple[dict[str, str], bytes] | None:
    """Return headers, by name in lower case, and body where the data is one plain collect request, otherwise None."""
    end = data.find(b"\r\n\r\n", 0, MAX_HEAD_BYTES)
    if end < 0 or not data.startswith(first_lines):
        return None
    _, *head = data[:end].split(b"\r\n")
    if len(head) > MAX_FIELDS:
        return None
    try:
        fields = dict(map(lines.__getitem__, head))
    except NotPlain:
        return None
    connection, length = fields.get("connection"), len(data) - end - 4
    if (
        len(fields) < len(head)
        or not _NOT_PLAIN.isdisjoint(fields)
        or "host" not in fields
        or (connection is not None and connection.lower() != "keep-alive")
        or fields.get("content-length") != str(length)
        or length > MAX_BODY_BYTES
    ):
        return None
    return fields, data[end + 4 :]
