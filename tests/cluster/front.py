"""A double of the network, not of the engine: ClickHouse's HTTP interface in front of its engine in this process.

usage: front.py DIRECTORY [PORT]; prints the port of 127.0.0.1 once it answers.
Needs chdb-core, in an environment of its own.
"""

import re
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

from chdb import session

SESSION, LOCK = session.Session(sys.argv[1]), threading.Lock()


def form_of(body: bytes, boundary: bytes) -> dict[str, str]:
    parts = [part[2:-2].partition(b"\r\n\r\n") for part in body.split(b"--" + boundary)[1:-1]]
    return {re.search(rb'name="([^"]*)"', head)[1].decode(): value.decode() for head, _, value in parts}


def answer_of(sent: dict[str, str], form: dict[str, str], body: bytes) -> bytes:
    statement, database = form.pop("query", "") or sent.pop("query"), sent.pop("database", "default")
    kind = sent.pop("default_format", "TabSeparated")
    settings = ", ".join(f"{name} = '{value}'" for name, value in sent.items() if name != "wait_end_of_query")
    with LOCK, tempfile.NamedTemporaryFile() as file:
        if body:
            file.write(body)
            file.flush()
            head, kind = re.fullmatch(r"(.*) format (\w+)", statement).groups()
            statement = f"{head} from infile '{file.name}' settings {settings} format {kind}"
        elif settings:
            statement += f" settings {settings}"
        SESSION.query(f"use {database}")
        return SESSION.query(statement, kind, params={name[6:]: text for name, text in form.items()}).bytes() or b""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        code, body = "", self.rfile.read(int(self.headers["Content-Length"]))
        boundary = self.headers.get("Content-Type", "").partition("boundary=")[2].encode()
        try:
            form, body = (form_of(body, boundary), b"") if boundary else ({}, body)
            found = answer_of(dict(parse_qsl(urlsplit(self.path).query)), form, body)
        except Exception as failure:
            found, code = str(failure).encode(), (re.search(r"Code: (\d+)", str(failure)) or ["", "1"])[1]
        self.send_response(500 if code else 200)
        self.send_header("Content-Length", str(len(found)))
        self.send_header("X-ClickHouse-Exception-Code", code)
        self.end_headers()
        self.wfile.write(found)


Handler.log_message = lambda *args: None
# The head and the body of an answer are sent one after the other: without this the second waits 40 ms.
Handler.disable_nagle_algorithm = True
server = ThreadingHTTPServer(("127.0.0.1", int([*sys.argv, 0][2])), Handler)
print(server.server_port, flush=True)
server.serve_forever()
