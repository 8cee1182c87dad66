"""A website's own pages, and a proxy between browsers and the real server.

`Pages` is the website: an HTTP server of texts. `RecordingProxy` records every request and passes it on to the real
server; a test can have it respond itself, delay requests, or drop responses. Both listen on 127.0.0.1; Chromium
resolves every name under .test to that address, so pages and server are of different sites.
"""

import json
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

HOP = ("connection", "keep-alive", "transfer-encoding", "content-length", "date", "server")


def age_s(event_id: str) -> float:
    """Return how many seconds ago an event_id was made, which begins with the time in milliseconds."""
    begins = re.fullmatch(r"(\d{13})([0-9a-f.-]{9,})", event_id)
    assert begins, event_id
    return time.time() - int(begins[1]) / 1000


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *arguments: Any) -> None:
        pass

    def reply(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in (headers | {"Content-Length": str(len(body))}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


class _ThreadServer:
    """An HTTP server on a thread of its own."""

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@dataclass
class Text:
    """The response of a website at a path."""

    body: str
    headers: dict[str, str]
    kind: str


class Pages(_ThreadServer):
    """The website, for every host name. `put` sets the content of a path."""

    def __init__(self) -> None:
        self.texts: dict[str, Text] = {}
        self.opened: list[str] = []
        pages = self

        class Handler(_Handler):
            def do_GET(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                path = urlsplit(self.path).path
                pages.opened.append(path)
                text = pages.texts.get(path)
                if text is None:
                    self.reply(404, {"Content-Type": "text/plain"}, b"")
                else:
                    self.reply(200, {"Content-Type": f"{text.kind}; charset=utf-8"} | text.headers, text.body.encode())

            do_POST = do_HEAD = do_GET

        super().__init__(Handler)

    def put(self, path: str, body: str, headers: dict[str, str] | None = None, kind: str = "text/html") -> None:
        """Set the content of a path."""
        self.texts[path] = Text(body, headers or {}, kind)


@dataclass
class Sent:
    """A request that reached the proxy, and the status of its response (0: none)."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    status: int = 0

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[dict[str, Any]]:
        """Return the events of a batch."""
        return list(self.json["events"])


@dataclass
class Reply:
    """A response of the proxy itself, 0 for none. `reaches`: the server gets the request, its response is dropped."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    reaches: bool = False


class RecordingProxy(_ThreadServer):
    """A proxy between browsers and the real server. `replies` are used in order, one for each POST.

    `forbidden`: as a firewall does, requests with this text are refused with 400.
    """

    def __init__(self, target: Callable[[], str]) -> None:
        self.sent: list[Sent] = []
        self.replies: list[Reply] = []
        self.is_cut = False
        self.forbidden = b""
        self.address = "203.0.113.1"
        self.held = threading.Event()
        self.held.set()
        proxy = self

        class Handler(_Handler):
            def answer(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = self.rfile.read(length) if length else b""
                sent = Sent(self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body)
                proxy.sent.append(sent)
                if self.command == "POST":
                    proxy.held.wait()
                own = proxy.replies.pop(0) if proxy.replies and self.command == "POST" else None
                if proxy.forbidden and proxy.forbidden in body:
                    own = Reply(400)
                cut = proxy.is_cut or (own is not None and own.status == 0)
                if cut and not (own and own.reaches):
                    return self.cut()
                if own is not None and not own.reaches:
                    sent.status = own.status
                    opens = {"Access-Control-Allow-Origin": "*", "Access-Control-Expose-Headers": "Retry-After"}
                    return self.reply(own.status, opens | own.headers, b"{}")
                try:
                    status, headers, text = proxy.pass_on(target(), sent)
                except (OSError, HTTPException):
                    return self.cut()
                sent.status = status
                if own is not None:
                    return self.cut()
                return self.reply(status, headers, text)

            def cut(self) -> None:
                self.close_connection = True
                self.connection.close()

            do_GET = do_POST = do_OPTIONS = do_HEAD = answer

        super().__init__(Handler)

    def pass_on(self, url: str, sent: Sent) -> tuple[int, dict[str, str], bytes]:
        """Return the real server's response."""
        at = urlsplit(url)
        connection = HTTPConnection(at.hostname or "", at.port or 0, timeout=60)
        try:
            own = {"x-forwarded-for": self.address, "connection": "close"}
            connection.request(sent.method, sent.path, sent.body or None, sent.headers | own)
            response = connection.getresponse()
            headers = {name: value for name, value in response.headers.items() if name.lower() not in HOP}
            return response.status, headers, response.read()
        finally:
            connection.close()

    @property
    def posts(self) -> list[Sent]:
        """Return the collect requests."""
        return [sent for sent in self.sent if sent.method == "POST"]
