"""The soak test: half an hour of mixed load, and whether memory, files and threads of the server stay flat.

    python bench/soak.py [--seconds 1800] [--rate 150] [--events 500000] [--folder DIR] [--out soak.md]

A website with stored events gets queries and events, singly and in batches; one request in twenty is hostile
(bench/soak_requests.py). A request has a planned time, and its latency is counted from there, so that a server that
stops for a second is noticed. Every 10 s a row is recorded: resident memory, open files, threads, SQLite's log and the
database, latencies, 5xx responses, wrong responses. The table is written to --out after every row, also if it is
interrupted.

The checks at the end: memory, files and threads are flat (a line is fitted through the rows of the last two thirds; in
the first third caches fill), SQLite's log stays within its limit, no response was 5xx or wrong, every accepted event is
in the database, and the server stops with status 0. Exit status 0 if all of them pass.

pytest does not run this. The server is this project's own, on 127.0.0.1.
"""

import argparse
import asyncio
import os
import signal
import sqlite3
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

# The clone that has this file, whether or not it is installed.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import dataset
from report import percentile, progress
from run import machine
from servers import Tally
from soak_requests import CLOSED, COLLECT, HOSTILE, READ, RequestKind, request_kinds

# Between two rows.
SAMPLE_INTERVAL_S = 10.0
WARM_UP = 1 / 3
# A response that takes longer is an error.
MAX_WAIT_S = 30.0
# About as many connections as a reverse proxy keeps open.
CONNECTIONS = {COLLECT: 16, READ: 6}
MAX_LOG_MB = 64 * 1_048_576 / 1e6
# Growth beyond two standard errors that is accepted: MB, files, threads (see resources.MAX_GROWTH_MB).
MAX_GROWTH = {"memory": 3.0, "files": 3.0, "threads": 1.0}
COLUMNS = (
    *("s", "memory MB", "files", "threads", "log MB", "database MB"),
    *("collects", "p50 ms", "p99 ms", "reads", "p50 ms", "p99 ms", "5xx", "wrong"),
)


class Sample(NamedTuple):
    """One row: sizes in MB of 1,000,000 bytes, latencies in seconds."""

    at_s: float
    memory: float
    files: float
    threads: float
    log: float
    database: float
    collects: list[float]
    reads: list[float]
    failed: int
    wrong: int

    def cells(self) -> list[str]:
        """Return the cells as texts."""
        times = [
            cell
            for some in (self.collects, self.reads)
            for cell in (f"{len(some):,}", *(f"{1000 * percentile(some, p):.1f}" if some else "" for p in (0.5, 0.99)))
        ]
        sizes = [f"{self.memory:.1f}", f"{self.files:.0f}", f"{self.threads:.0f}", f"{self.log:.1f}"]
        return [f"{self.at_s:.0f}", *sizes, f"{self.database:.1f}", *times, f"{self.failed}", f"{self.wrong}"]


class Results:
    """The responses that the clients have received."""

    def __init__(self) -> None:
        self.latencies: dict[str, list[float]] = {COLLECT: [], READ: [], HOSTILE: []}
        self.statuses: defaultdict[str, Counter[int]] = defaultdict(Counter)
        self.wrong: list[str] = []
        self.failed = self.wrong_count = self.accepted = self.without_response = 0

    def add(self, kind: RequestKind, status: int, body: bytes, taken_s: float) -> None:
        """Count a response; status CLOSED for a connection that was closed without one."""
        self.statuses[kind.name][status] += 1
        self.failed += status >= 500 and status not in kind.expected
        self.latencies[kind.group].append(taken_s)
        is_expected = status in kind.expected
        if kind.events and status == 202:
            is_expected = b'"accepted":%d,"rejected":0' % kind.events in body
            self.accepted += kind.events
        if not is_expected:
            self.wrong_count += 1
            if len(self.wrong) < 20:
                self.wrong.append(f"{kind.name}: {status} {body[:120]!r}")


class Connection(asyncio.Protocol):
    """One keep-alive connection: sends a request and waits for the whole response."""

    def __init__(self) -> None:
        self._unparsed = b""
        self._is_head = False
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None
        self.is_closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._unparsed += data
        end = self._unparsed.find(b"\r\n\r\n") + 4
        if end < 4 or self._answer is None or self._answer.done():
            return
        head = self._unparsed[:end].lower()
        at = head.find(b"content-length: ")
        length = int(head[at + 16 : head.index(b"\r\n", at)]) if at >= 0 and not self._is_head else 0
        if len(self._unparsed) >= end + length:
            answer, self._unparsed = self._unparsed[end : end + length], self._unparsed[end + length :]
            self.is_closed |= b"connection: close" in head
            self._answer.set_result((int(head[9:12]), answer))

    def connection_lost(self, failure: Exception | None) -> None:
        self.is_closed = True
        if self._answer is not None and not self._answer.done():
            self._answer.set_result((CLOSED, b""))

    async def exchange(self, request: bytes) -> tuple[int, bytes]:
        """Return status and body; status CLOSED if the server closed the connection without a response."""
        self._is_head = request.startswith(b"HEAD")
        self._answer = asyncio.get_running_loop().create_future()
        self.transport.write(request)  # type: ignore[attr-defined]
        async with asyncio.timeout(MAX_WAIT_S):
            return await self._answer


class Pool:
    """The connections of a group. A request waits for a free one; a closed one is replaced."""

    def __init__(self, port: int, size: int) -> None:
        self._port = port
        self._free: asyncio.LifoQueue[Connection | None] = asyncio.LifoQueue()
        for _ in range(size):
            self._free.put_nowait(None)

    async def exchange(self, request: bytes) -> tuple[int, bytes]:
        """Return status and body of the response."""
        connection = await self._free.get()
        try:
            if connection is None or connection.is_closed:
                connection = await connected(self._port)
            return await connection.exchange(request)
        except BaseException:
            if connection is not None:
                connection.transport.close()  # type: ignore[attr-defined]
            connection = None
            raise
        finally:
            self._free.put_nowait(connection)


async def connected(port: int) -> Connection:
    """Return a new connection."""
    _, connection = await asyncio.get_running_loop().create_connection(Connection, "127.0.0.1", port)
    return connection


class Soak:
    """One run."""

    def __init__(self, server: Tally, db: Path, out: Path, website: str, key: str, rate: float, seconds: float) -> None:
        self._server, self._db, self._out = server, db, out
        self._kinds, self._seconds = request_kinds(website, key, rate), seconds
        self.results = Results()
        self.samples: list[Sample] = []

    async def run(self) -> None:
        """Send and sample until the time is over."""
        self._pools = {group: Pool(self._server.port, size) for group, size in CONNECTIONS.items()}
        self._begun = time.perf_counter()
        sampler = asyncio.create_task(self._sample())
        await asyncio.gather(*(self._keep_sending(kind, n / len(self._kinds)) for n, kind in enumerate(self._kinds)))
        await sampler

    async def _keep_sending(self, kind: RequestKind, offset: float) -> None:
        pending: set[asyncio.Task[None]] = set()
        for n in range(int(self._seconds * kind.per_second)):
            planned = self._begun + (n + offset) / kind.per_second
            await asyncio.sleep(max(0.0, planned - time.perf_counter()))
            task = asyncio.create_task(self._send(kind, n, planned))
            pending.add(task)
            task.add_done_callback(pending.discard)
            if self._server.process.poll() is not None:
                raise RuntimeError(f"the server has ended with {self._server.process.returncode}")
        if pending:
            _, late = await asyncio.wait(pending, timeout=2 * MAX_WAIT_S)
            for task in late:
                # Counted as wrong.
                task.cancel()

    async def _send(self, kind: RequestKind, n: int, planned: float) -> None:
        status, body = CLOSED, b""
        try:
            request = kind.make(n)
            if kind.group == HOSTILE:
                status, body = await self._send_alone(request, kind.disconnects)
            else:
                status, body = await self._pools[kind.group].exchange(request)
        except (OSError, TimeoutError, asyncio.CancelledError) as failure:
            body = repr(failure).encode()
        if status == CLOSED and kind.events:
            self.results.without_response += kind.events
        self.results.add(kind, status, body, time.perf_counter() - planned)

    async def _send_alone(self, request: bytes, disconnects: bool) -> tuple[int, bytes]:
        """Return the response over a connection of its own."""
        connection = await connected(self._server.port)
        try:
            if disconnects:
                connection.transport.write(request)  # type: ignore[attr-defined]
                await asyncio.sleep(0.05)
                return CLOSED, b""
            return await connection.exchange(request)
        finally:
            connection.transport.close()  # type: ignore[attr-defined]

    async def _sample(self) -> None:
        rows = max(2, round(self._seconds / SAMPLE_INTERVAL_S))
        for n in range(1, rows + 1):
            due = self._begun + n * self._seconds / rows
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            if self._server.process.poll() is not None:
                return
            self.samples.append(self._row())
            # A full disk must not end the run.
            with suppress(OSError):
                self._out.write_text(report(self, checks=None))

    def _row(self) -> Sample:
        of_process = Path(f"/proc/{self._server.process.pid}")
        log = self._db.with_name(self._db.name + "-wal")
        collects, reads = self.results.latencies[COLLECT], self.results.latencies[READ]
        for group in self.results.latencies:
            self.results.latencies[group] = []
        return Sample(
            time.perf_counter() - self._begun,
            self._server.resident_mb(),
            len(os.listdir(of_process / "fd")),
            len(os.listdir(of_process / "task")),
            log.stat().st_size / 1e6 if log.exists() else 0.0,
            self._db.stat().st_size / 1e6,
            collects,
            reads,
            self.results.failed,
            self.results.wrong_count,
        )


# --- the checks


class Fit(NamedTuple):
    """A least-squares line: its rise over all points, and the standard error of the rise."""

    rise: float
    error: float


def fit(points: Sequence[tuple[float, float]]) -> Fit:
    """Return the line through points (time, value)."""
    n = len(points)
    mean_x, mean_y = sum(x for x, _ in points) / n, sum(y for _, y in points) / n
    square = sum((x - mean_x) ** 2 for x, _ in points)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / square
    rest = sum((y - mean_y - slope * (x - mean_x)) ** 2 for x, y in points)
    span = points[-1][0] - points[0][0]
    error = (rest / max(1, n - 2) / square) ** 0.5
    return Fit(slope * span, error * span)


class Check(NamedTuple):
    """One check and its result."""

    what: str
    text: str
    passed: bool


def flatness(samples: Sequence[Sample]) -> list[Check]:
    """Check that memory, files and threads do not grow in the rows after the warm-up."""
    counted = samples[int(len(samples) * WARM_UP) :]
    if len(counted) < 3:
        return [Check("flat", f"{len(counted)} rows are too few", False)]
    found = []
    values: dict[str, Callable[[Sample], float]] = {
        "memory": lambda row: row.memory,
        "files": lambda row: row.files,
        "threads": lambda row: row.threads,
    }
    span_s = counted[-1].at_s - counted[0].at_s
    for name, value in values.items():
        trend = fit([(row.at_s, value(row)) for row in counted])
        ends = f"{value(counted[0]):.1f} to {value(counted[-1]):.1f}, most {max(map(value, counted)):.1f}"
        text = f"{ends}; the line rises by {trend.rise:+.2f} (error {trend.error:.2f}) in {span_s:.0f} s"
        # Growth counts beyond two standard errors.
        found.append(Check(f"{name} is flat", text, trend.rise - 2 * trend.error <= MAX_GROWTH[name]))
    most = max(row.log for row in samples)
    found.append(Check("the log stays under 64 MiB", f"most {most:.1f} MB", most <= MAX_LOG_MB))
    return found


def responses(results: Results) -> list[Check]:
    """Check that all responses were the expected ones."""
    total = sum(sum(statuses.values()) for statuses in results.statuses.values())
    wrong = "; ".join(results.wrong[:5])
    return [
        Check("no response is 5xx", f"{results.failed} of {total:,}", not results.failed),
        Check(
            "every response is the expected one",
            f"{results.wrong_count} wrong {wrong}".strip(),
            not results.wrong_count,
        ),
    ]


def stored_events(db: Path, before: int, results: Results) -> list[Check]:
    """Check that accepted events are in the database. Those without a response may be there or not."""
    now = count(db)
    with closing(sqlite3.connect(db)) as connection:
        integrity = [row[0] for row in connection.execute("pragma integrity_check")]
    added = now - before
    text = f"{results.accepted:,} accepted, {added:,} added to the file, {results.without_response} without a response"
    return [
        Check(
            "every accepted event is in the file",
            text,
            0 <= added - results.accepted <= results.without_response,
        ),
        Check("integrity_check", ", ".join(integrity[:3]), integrity == ["ok"]),
    ]


def count(db: Path) -> int:
    """Return the number of events in the database."""
    with closing(sqlite3.connect(db)) as connection:
        tables = ("event", "web_vitals")
        return sum(connection.execute(f"select count(*) from {table}").fetchone()[0] for table in tables)


def report(soak: Soak, checks: Sequence[Check] | None) -> str:
    """Return the checks and the table of all rows in Markdown."""
    lines = [f"# Soak: {machine()}", ""]
    if checks is None:
        lines += ["Not complete, or interrupted: nothing was checked.", ""]
    else:
        lines += ["| what | measured | passed |", "| --- | --- | --- |"]
        lines += [
            f"| {one.what} | {one.text.replace('|', '/')} | {'yes' if one.passed else '**NO**'} |" for one in checks
        ]
        lines += ["", "| requests | statuses |", "| --- | --- |"]
        for name, statuses in soak.results.statuses.items():
            each = ", ".join(f"{status or 'closed'}: {n:,}" for status, n in sorted(statuses.items()))
            lines.append(f"| {name} | {each} |")
        lines.append("")
    lines += [f"| {' | '.join(COLUMNS)} |", "|" + " ---: |" * len(COLUMNS)]
    lines += [f"| {' | '.join(sample.cells())} |" for sample in soak.samples]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the soak test; return 0 if all checks pass."""
    parser = argparse.ArgumentParser(
        description="Runs a mixed load and checks that memory, files and threads do not grow."
    )
    parser.add_argument("--seconds", type=float, default=1_800, help="duration; default 1,800")
    parser.add_argument(
        "--rate", type=float, default=150, help="requests per second; default 150: 405 events, 31 reads"
    )
    parser.add_argument("--events", type=int, default=500_000, help="stored events of the website; default 500,000")
    parser.add_argument("--folder", type=Path, help="directory of the data set; default: a temporary one")
    parser.add_argument("--out", type=Path, default=Path("soak.md"), help="file of the table; default soak.md")
    given = parser.parse_args(arguments)
    # As for an interrupt: the server is stopped and files are deleted.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="tally-soak-") as temporary:
        folder = given.folder or Path(temporary)
        data_set = dataset.copied(dataset.prepared(folder, given.events), folder / "work")
        before = count(data_set.db)
        try:
            soak, exit_code = run_soak(data_set, given)
            exit_status = Check("SIGTERM: exit 0", f"exit {exit_code}", exit_code == 0)
            checks = [
                *flatness(soak.samples),
                *responses(soak.results),
                *stored_events(data_set.db, before, soak.results),
                exit_status,
            ]
        finally:
            dataset.delete_database(data_set.db)
    text = report(soak, checks)
    given.out.write_text(text)
    print(text[: text.index(f"| {COLUMNS[0]} |")])
    progress(f"the table is in {given.out.resolve()}")
    return 0 if all(one.passed for one in checks) else 1


def run_soak(data_set: dataset.DataSet, given: argparse.Namespace) -> tuple[Soak, int]:
    """Run the load; return the run and the exit status of the server."""
    with Tally(data_set.db) as server:
        progress(f"{given.seconds:.0f} s of {given.rate:.0f} requests a second; table: {given.out.resolve()}")
        soak = Soak(server, data_set.db, given.out, data_set.website, data_set.key, given.rate, given.seconds)
        try:
            asyncio.run(soak.run())
        except Exception as failure:
            soak.results.wrong_count += 1
            soak.results.wrong.insert(0, f"the run failed: {failure!r}")
            progress(f"failed: {failure!r}")
        if server.process.poll() is None:
            server.process.terminate()
        return soak, server.process.wait()


if __name__ == "__main__":
    sys.exit(main())
