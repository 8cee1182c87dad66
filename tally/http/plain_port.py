"""Plain HTTP beside HTTPS, for --acme: answers the validations of the certificate authority, redirects everything else.

A connection has one request and is within the bounds of tally/http/connections.py. Nothing of a request reaches the
application: neither events nor cookies are accepted without TLS. The redirect goes to the domain in Host where it is
one of the certificate's, otherwise to the first of these, so that no request chooses another host.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tally.http.connections import HEAD_S, Connection, Connections
from tally.http.responses import MINIMAL_HEADERS
from tally.http.tls import Tls

# A browser's head is 1 to 2 KB.
MAX_HEAD_BYTES = 16_384
# RFC 8555, 8.3.
CHALLENGES = "/.well-known/acme-challenge/"
_REQUEST_LINE = re.compile(rb"(?:\r\n)?([A-Z]{1,20}) (/[\x21-\x7e]*) HTTP/1\.[01]\r\n")
_HOST = re.compile(rb"\r\nhost:[ \t]*([a-z0-9.-]+)", re.IGNORECASE)
_REASONS = {200: "OK", 308: "Permanent Redirect", 400: "Bad Request", 404: "Not Found", 503: "Service Unavailable"}


@dataclass
class PlainPort:
    """What the connections share. `challenges`: the response to each token that is validated now."""

    domains: tuple[str, ...]
    base_url: str
    tls: Tls
    challenges: Mapping[str, str] = field(default_factory=dict)

    def connect(self, connections: Connections) -> "PlainConnection":
        """Return the protocol of a new connection."""
        return PlainConnection(connections, self.answer)

    def answer(self, head: bytes) -> bytes:
        """Return the response to a request's head."""
        line = _REQUEST_LINE.match(head)
        if line is None:
            return _response(400, "Send an HTTP/1.1 request.\n")
        target = line[2].decode()
        if target.startswith(CHALLENGES):
            content = self.challenges.get(target.removeprefix(CHALLENGES))
            return _response(404, "No such challenge.\n") if content is None else _response(200, content)
        if self.tls.certificate is None:
            text = "This server has no certificate yet: try again in a minute. Its log names the reason.\n"
            return _response(503, text, "Retry-After: 10")
        # The base URL may have a port; its path is in the target already.
        origin = re.match(r"https://[^/]+", self.base_url)
        host = _HOST.search(head)
        named = host[1].decode().lower() if host is not None else ""
        to = origin[0] if origin else f"https://{named if named in self.domains else self.domains[0]}"
        return _response(308, "", f"Location: {to}{target}")


class PlainConnection(Connection):
    """One connection: its request, of which `answer` gets the head, is answered, then it is closed."""

    def __init__(self, connections: Connections, answer: Callable[[bytes], bytes]) -> None:
        super().__init__(connections)
        self._answer = answer
        self._head = b""
        self._is_answered = False

    def data_received(self, data: bytes) -> None:
        """Answer the request when its head is complete; what follows is not read."""
        if self._is_answered:
            return
        self.count_heads(data)
        self._head += data
        if b"\r\n\r\n" in self._head or len(self._head) > MAX_HEAD_BYTES:
            self._is_answered = True
            self.transport.write(self._answer(self._head))
            self._head = b""
            self.release_heads()
            # Closed by the client or at the deadline: closing with unread bytes resets it, and the response is lost.
            self.deadline_s = self._loop.time() + HEAD_S
            if self.transport.can_write_eof():
                self.transport.write_eof()
            else:
                self.transport.close()


def _response(status: int, text: str, *lines: str) -> bytes:
    body = text.encode()
    head = (
        f"HTTP/1.1 {status} {_REASONS[status]}",
        *lines,
        "Content-Type: text/plain; charset=utf-8",
        *(f"{name}: {value}" for name, value in MINIMAL_HEADERS.items()),
        f"Content-Length: {len(body)}",
        "Connection: close",
        "",
        "",
    )
    return "\r\n".join(head).encode() + body
