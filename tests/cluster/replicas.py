"""Three replicas of clickhouse-server 18.16 and ZooKeeper 3.8: processes on loopback that are started again when they
exit, as a service manager does.

The packages of Debian are unpacked below TALLY_REPLICAS (.ci/replicas), and configured by the files of
deploy/clickhouse. The old server has quorum, replication and its coordinator, but not the dialect of the one that Tally
is built for. `Dialect`, in front of each server, changes what Tally sends as little as possible, and says so at each
change: nothing but the write path can be tested so.
"""

import base64
import http.client
import os
import re
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

ROOT = os.environ.get("TALLY_REPLICAS", "")
# Of an answer: a server that hangs is no server.
_ANSWER_S = 15
DEPLOY = Path(__file__).parents[2] / "deploy" / "clickhouse"
PASSWORD = "clickhouse"
_SERVER = """<yandex>
<logger><level>warning</level><log>{folder}/log</log><errorlog>{folder}/errors</errorlog></logger>
<http_port>{http}</http_port><tcp_port>{tcp}</tcp_port><path>{folder}/data/</path><tmp_path>{folder}/temporary/</tmp_path>
<mark_cache_size>5368709</mark_cache_size><users_config>{folder}/users.xml</users_config>
<default_profile>default</default_profile><default_database>default</default_database></yandex>
"""
_USERS = """<yandex><profiles><default/></profiles><users><default><password></password>
<profile>default</profile><quota>default</quota></default></users><quotas><default/></quotas></yandex>
"""


def _deployed(file: str, replaced: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return a file of deploy/clickhouse for the old server, with other addresses."""
    text = (DEPLOY / file).read_text()
    # The name of the root, and settings of tables that it refuses.
    text = re.sub(r"(</?)clickhouse>", r"\1yandex>", text)
    text = re.sub(r"<merge_tree>.*</merge_tree>", "", text, flags=re.DOTALL)
    for old, new in replaced.items():
        assert re.search(old, text), f"deploy/clickhouse/{file} has no {old}"
        text = re.sub(old, new, text)
    return text


_ZOOKEEPER = """tickTime=500
dataDir={folder}/data
clientPort={port}
clientPortAddress=127.0.0.1
admin.enableServer=false
"""


def free_ports(number: int) -> list[int]:
    """Return ports of 127.0.0.1 that nothing listens on."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


# Of servers: the address is the name, as that of a machine is.
NAMES = ("127.0.0.11", "127.0.0.12", "127.0.0.13")


class Service:
    """A program that is started again when it exits, unless it is meant to be down."""

    def __init__(self, name: str, words: Sequence[str], folder: Path, env: Mapping[str, str]) -> None:
        self.name, self.folder, self._words, self._env = name, folder, words, env
        self.exits = 0
        self._lock, self._process = threading.Lock(), None
        self.is_wanted = False

    def start(self) -> None:
        self.is_wanted = True
        self.check()

    def check(self) -> None:
        """Start the program if it has exited."""
        with self._lock:
            if not self.is_wanted or (self._process is not None and self._process.poll() is None):
                return
            self.exits += self._process is not None
            libraries = ":".join(f"{ROOT}/{place}/x86_64-linux-gnu" for place in ("usr/lib", "lib"))
            with (self.folder / "out").open("ab") as out:
                self._process = subprocess.Popen(
                    self._words,
                    stdout=out,
                    stderr=out,
                    cwd=self.folder,
                    env=os.environ | self._env | {"LD_LIBRARY_PATH": libraries},
                    start_new_session=True,
                )

    def kill(self) -> None:
        """Send SIGKILL; it stays down until `start`."""
        self.is_wanted = False
        with self._lock:
            if self._process is not None:
                self._process.kill()
                self._process.wait()
                self._process = None


class Replicas:
    """The services, and an address for each server, in front of which a Dialect is."""

    def __init__(self, folder: Path, names: Sequence[str] = NAMES) -> None:
        self._folder, (self._zookeeper,) = folder, free_ports(1)
        self.services: dict[str, Service] = {}
        self.dialects: list[Dialect] = []
        self._add_zookeeper()
        for name in names:
            self.dialects.append(Dialect(name, self.add(name)))
        self._is_over = threading.Event()
        self._supervisor = threading.Thread(target=self._supervise)
        self._supervisor.start()

    @property
    def urls(self) -> list[str]:
        """The addresses of the servers."""
        return [one.url for one in self.dialects]

    def add(self, name: str) -> int:
        """Start a server with an empty disk, with the configuration of deploy/clickhouse; return its port."""
        http_port, tcp, interserver = free_ports(3)
        folder = self._folder / name
        for part in ("data", "temporary", "config.d", "users.d"):
            (folder / part).mkdir(parents=True)
        (folder / "users.xml").write_text(_USERS)
        (folder / "users.d" / "tally.xml").write_text(_deployed("users.d/tally.xml"))
        (folder / "config.xml").write_text(_SERVER.format(folder=folder, http=http_port, tcp=tcp))
        addresses = {
            r"0\.0\.0\.0": name,
            r">9009<": f">{interserver}<",
            r"<host>clickhouse-\d</host><port>9181<": f"<host>127.0.0.1</host><port>{self._zookeeper}<",
            r"session_timeout_ms>30000": "session_timeout_ms>4000",
        }
        (folder / "config.d" / "tally.xml").write_text(_deployed("config.d/tally.xml", addresses))
        environment = {"TALLY_NAME": name, "TALLY_NUMBER": "1", "TALLY_INTERSERVER_PASSWORD": "between"}
        words = ["nice", f"{ROOT}/usr/sbin/clickhouse-server", f"--config-file={folder}/config.xml"]
        self._run(name, words, folder, environment | {"TALLY_CLICKHOUSE_PASSWORD": PASSWORD})
        return http_port

    def _add_zookeeper(self) -> None:
        folder = self._folder / "zookeeper"
        (folder / "data").mkdir(parents=True)
        (folder / "zoo.cfg").write_text(_ZOOKEEPER.format(folder=folder, port=self._zookeeper))
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        self._run(
            "zookeeper", ["java", "-Xmx128m", "-cp", f"{ROOT}/usr/share/java/*", main, str(folder / "zoo.cfg")], folder
        )

    def _run(
        self, name: str, words: Sequence[str], folder: Path, env: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self.services[name] = Service(name, words, folder, env)
        self.services[name].start()

    def _supervise(self) -> None:
        while not self._is_over.wait(0.3):
            for service in list(self.services.values()):
                service.check()

    @property
    def used(self) -> "Dialect":
        """What is in front of the server that was written to last."""
        return max(self.dialects, key=lambda dialect: dialect.written_s)

    def lose(self, lost: "Dialect") -> None:
        """Kill a server and delete its disk."""
        self.services[lost.name].kill()
        shutil.rmtree(self.services[lost.name].folder)

    def replace(self, lost: "Dialect", name: str) -> None:
        """Start a server with an empty disk, at the address of a lost one."""
        lost.name, lost.port = name, self.add(name)

    def close(self) -> None:
        """End everything."""
        self._is_over.set()
        self._supervisor.join()
        for service in self.services.values():
            service.kill()
        for dialect in self.dialects:
            dialect.shutdown()
            dialect.server_close()


_UNKNOWN = {
    # There are no tokens: an insert with the same rows is stored once, by the hash of its block.
    "insert_deduplication_token",
    "async_insert",
    "insert_quorum_parallel",
    "cancel_http_readonly_queries_on_client_close",
    # Not a whole number there.
    "max_execution_time",
}
_REPLACED = (
    # The settings of modern tables, and a window of blocks that is known as well.
    (r" settings fsync_after_insert.*", " settings replicated_deduplication_window = 10000"),
    # It waits for merges as well.
    (r"(system sync replica .*) lightweight$", r"\1"),
    # Dropping is always at once.
    (r"(drop table .*) sync$", r"\1"),
    # Rows do not expire.
    (r" ttl .* hour", ""),
    # A type that is an experiment there.
    (r"LowCardinality\(String\)", "String"),
    (r" settings mutations_sync = [012]$", ""),
)


class Dialect(ThreadingHTTPServer):
    """Between Tally and an old server: hands requests on in the dialect of 18.16, and its answers back as they are."""

    daemon_threads = True

    def __init__(self, name: str, port: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handing)
        self.name, self.port = name, port
        # When an insert was last answered.
        self.written_s = 0.0
        self.refusals: list[str] = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that has ended is part of the test."""

    @property
    def url(self) -> str:
        """The address that Tally uses."""
        return f"http://tally:{PASSWORD}@127.0.0.1:{self.server_port}"

    def wait(self) -> None:
        """Wait until the server reaches the coordinator."""
        until(lambda: self.ask("select 1 from system.zookeeper where path = '/'", "default"))

    def ask(self, statement: str, database: str = "tally") -> list[list[str]]:
        """Return the rows of a query as texts. Raises OSError, HTTPException, and Refusal."""
        known = "Basic " + base64.b64encode(f"tally:{PASSWORD}".encode()).decode()
        status, _, body = self.hand_on({"query": statement, "database": database}, b"", known)
        if status != 200:
            raise Refusal(f"{self.name}: {body.decode()}")
        return [line.split("\t") for line in body.decode().splitlines()]

    def hand_on(self, sent: dict[str, str], body: bytes, authorization: str) -> tuple[int, str, bytes]:
        """Send a request to the server; return its status, error code and answer. Raises OSError, HTTPException."""
        for old, new in _REPLACED:
            sent["query"] = re.sub(old, new, sent["query"])
        query = urlencode({name: value for name, value in sent.items() if name not in _UNKNOWN})
        with closing(http.client.HTTPConnection(self.name, self.port, timeout=_ANSWER_S)) as connection:
            connection.request("POST", f"/?{query}", body, {"Authorization": authorization})
            answer = connection.getresponse()
            found = answer.read()
        if answer.status == 200 and sent["query"].startswith("insert"):
            self.written_s = time.monotonic()
        if answer.status != 200:
            self.refusals.append(f"{time.monotonic():.1f} {self.name} {sent['query'][:60]}: {found[:200]!r}")
        code = "" if answer.status == 200 else (re.search(rb"Code: (\d+)", found) or [b"", b"1"])[1].decode()
        return answer.status, code, found


class Refusal(Exception):
    """A server has refused a query."""


def _form_of(body: bytes, boundary: bytes) -> dict[str, str]:
    parts = [part[2:-2].partition(b"\r\n\r\n") for part in body.split(b"--" + boundary)[1:-1]]
    return {head.split(b'name="')[1].partition(b'"')[0].decode(): value.decode() for head, _, value in parts}


class _Handing(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Dialect

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"] or 0))
        sent = dict(parse_qsl(urlsplit(self.path).query))
        boundary = self.headers.get("Content-Type", "").partition("boundary=")[2].encode()
        if boundary:
            # The old server reads statements from the address, and has no parameters.
            form, body = _form_of(body, boundary), b""
            sent["query"] = re.sub(
                r"\{(\w+):String\}", lambda found: f"'{form[f'param_{found[1]}']}'", form.get("query", "")
            )
        if "query" not in sent:
            sent["query"], body = body.decode(), b""
        try:
            status, code, answer = self.server.hand_on(sent, body, self.headers.get("Authorization", ""))
        except (OSError, http.client.HTTPException):
            self.close_connection = True
            return
        self.send_response(status)
        self.send_header("Content-Length", str(len(answer)))
        self.send_header("X-ClickHouse-Exception-Code", code)
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *args: object) -> None:
        """Nothing is logged."""


def until(holds: Callable[[], Any], seconds: float = 60) -> Any:
    """Call a function until it returns a true value without a failure of a server, and return that."""
    deadline = time.monotonic() + seconds
    while True:
        failure = "no true value"
        try:
            if found := holds():
                return found
        except (OSError, http.client.HTTPException, Refusal) as problem:
            failure = str(problem)
        assert time.monotonic() < deadline, failure[:500]
        time.sleep(0.2)
