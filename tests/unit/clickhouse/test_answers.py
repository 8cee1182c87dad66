"""What a server or a proxy answers in place of the rows of a query is no answer: least of all that there are none."""

import asyncio
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tally.clickhouse.client import Client
from tally.errors import STORAGE_UNAVAILABLE, ApiError

WHOLE = b'{"meta":[{"name":"n","type":"UInt8"}],"data":[[1],[2]],"rows":2}'
OTHERS = {
    "empty": b"",
    "cut off": WHOLE[:-3],
    "a row is missing": WHOLE.replace(b",[2]", b""),
    "lines": b"[1]\n[2]\n",
    "a line": b"[1]",
    "no rows": b"{}",
    "a page": b"<html></html>",
    "a number": b"0",
}


def answer_to(body: bytes) -> list[list[int]]:
    """Return the rows of a query that is answered 200 with a body."""

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    async def ask() -> list[list[int]]:
        client = Client(f"http://127.0.0.1:{server.server_port}", "tally")
        try:
            return await client.rows("select n from numbers", {})
        finally:
            await client.close()

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            return asyncio.run(ask())
        finally:
            server.shutdown()


def test_a_whole_answer() -> None:
    """Rows are returned, and none where the answer says so."""
    assert answer_to(WHOLE) == [[1], [2]]
    assert answer_to(b'{"meta":[],"data":[],"rows":0}') == []


@pytest.mark.parametrize("body", OTHERS.values(), ids=OTHERS)
def test_what_is_no_answer(body: bytes) -> None:
    """Nothing else is taken for one: reports are then SQLite's."""
    with pytest.raises(ApiError) as raised:
        answer_to(body)
    assert raised.value.kind == STORAGE_UNAVAILABLE
