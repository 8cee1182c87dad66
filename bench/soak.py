"""The soak: everything at once for half an hour, and whether the server is at the end what it was at the beginning.

    python bench/soak.py [--seconds 1800] [--rate 150] [--events 500000] [--folder DIR] [--out soak.md]

A website with a past is asked about and gets events, singly and in batches, while one request in twenty is one that
nobody should send (bench/mixture.py). Each request has its moment, drawn beforehand: a latency is counted from
there, so a server that stands still for a second is seen to. Every 10 s a row is noted: resident memory, open
files, threads, SQLite's log and the database, latencies, answers 5xx, answers that are not the right ones. The table
is written to --out after every row, so an interrupted soak leaves what it saw.

The verdict at the end: whether memory, files and threads are flat (a line is laid through the rows of the last two
thirds; the first third is for caches to fill), whether SQLite's log, which is written over and over and keeps its size,
stays within its bound, whether anything was answered 5xx or wrongly, whether every event that was accepted is in the
file, and whether the server then ends in good order. Exit status 0 if all of it holds.

This is no test: nothing here is run by pytest. The server is this project's own, on 127.0.0.1.
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

# The checkout this file lies in, installed or not.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import dataset
from mixture import CLOSED, COLLECT, HOSTILE, READ, Kind, kinds
from report import percentile, say
from run import machine
from servers import Tally

# A row.
EVERY_S = 10.0
WARM_UP = 1 / 3
# An answer that takes longer than this never comes.
MOST_WAIT_S = 30.0
# As many connections as a proxy keeps open.
CONNECTIONS = {COLLECT: 16, READ: 6}
MOST_LOG_MB = 64 * 1_048_576 / 1e6
# What a flat line may rise over the rows that count, beyond its own noise, as standing.MOST_GROWTH_MB.
FLAT = {"memory": 3.0, "files": 3.0, "threads": 1.0}
HEAD = (
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
        """The row as texts."""
        times = [
            cell
            for some in (self.collects, self.reads)
            for cell in (f"{len(some):,}", *(f"{1000 * percentile(some, p):.1f}" if some else "" for p in (0.5, 0.99)))
        ]
        sizes = [f"{self.memory:.1f}", f"{self.files:.0f}", f"{self.threads:.0f}", f"{self.log:.1f}"]
        return [f"{self.at_s:.0f}", *sizes, f"{self.database:.1f}", *times, f"{self.failed}", f"{self.wrong}"]


class Tallying:
    """What the clients have seen."""

    def __init__(self) -> None:
        self.latencies: dict[str, list[float]] = {COLLECT: [], READ: [], HOSTILE: []}
        self.statuses: defaultdict[str, Counter[int]] = defaultdict(Counter)
        self.wrong: list[str] = []
        self.failed = self.wrongs = self.accepted = self.unsure = 0

    def note(self, kind: Kind, status: int, body: bytes, taken_s: float) -> None:
        """An answer, or CLOSED."""
        self.statuses[kind.name][status] += 1
        self.failed += status >= 500 and status not in kind.right
        self.latencies[kind.group].append(taken_s)
        is_right = status in kind.right
        if kind.events and status == 202:
            is_right = b'"accepted":%d,"rejected":0' % kind.events in body
            self.accepted += kind.events
        if not is_right:
            self.wrongs += 1
            if len(self.wrong) < 20:
                self.wrong.append(f"{kind.name}: {status} {body[:120]!r}")


class Line(asyncio.Protocol):
    """One keep-alive connection: sends a request and waits for the whole answer."""

    def __init__(self) -> None:
        self._held = b""
        self._is_head = False
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None
        self.is_closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._held += data
        end = self._held.find(b"\r\n\r\n") + 4
        if end < 4 or self._answer is None or self._answer.done():
            return
        head = self._held[:end].lower()
        at = head.find(b"content-length: ")
        length = int(head[at + 16 : head.index(b"\r\n", at)]) if at >= 0 and not self._is_head else 0
        if len(self._held) >= end + length:
            answer, self._held = self._held[end : end + length], self._held[end + length :]
            self.is_closed |= b"connection: close" in head
            self._answer.set_result((int(head[9:12]), answer))

    def connection_lost(self, failure: Exception | None) -> None:
        self.is_closed = True
        if self._answer is not None and not self._answer.done():
            self._answer.set_result((CLOSED, b""))

    async def exchange(self, request: bytes) -> tuple[int, bytes]:
        """Status and body; CLOSED where the server closed the connection without an answer."""
        self._is_head = request.startswith(b"HEAD")
        self._answer = asyncio.get_running_loop().create_future()
        self.transport.write(request)  # type: ignore[attr-defined]
        async with asyncio.timeout(MOST_WAIT_S):
            return await self._answer


class Pool:
    """The connections of a group. A request waits for a free one; a broken one is made anew."""

    def __init__(self, port: int, size: int) -> None:
        self._port = port
        self._free: asyncio.LifoQueue[Line | None] = asyncio.LifoQueue()
        for _ in range(size):
            self._free.put_nowait(None)

    async def exchange(self, request: bytes) -> tuple[int, bytes]:
        """Status and body of an answer."""
        line = await self._free.get()
        try:
            if line is None or line.is_closed:
                line = await connected(self._port)
            return await line.exchange(request)
        except BaseException:
            if line is not None:
                line.transport.close()  # type: ignore[attr-defined]
            line = None
            raise
        finally:
            self._free.put_nowait(line)


async def connected(port: int) -> Line:
    """A new connection."""
    _, line = await asyncio.get_running_loop().create_connection(Line, "127.0.0.1", port)
    return line


class Soak:
    """One run."""

    def __init__(self, server: Tally, db: Path, out: Path, website: str, key: str, rate: float, seconds: float) -> None:
        self._server, self._db, self._out = server, db, out
        self._kinds, self._seconds = kinds(website, key, rate), seconds
        self.seen = Tallying()
        self.samples: list[Sample] = []

    async def run(self) -> None:
        """Sends and samples until the time is over."""
        self._pools = {group: Pool(self._server.port, size) for group, size in CONNECTIONS.items()}
        self._begun = time.perf_counter()
        sampler = asyncio.create_task(self._sample())
        await asyncio.gather(*(self._keep_sending(kind, n / len(self._kinds)) for n, kind in enumerate(self._kinds)))
        await sampler

    async def _keep_sending(self, kind: Kind, offset: float) -> None:
        under_way: set[asyncio.Task[None]] = set()
        for n in range(int(self._seconds * kind.per_second)):
            planned = self._begun + (n + offset) / kind.per_second
            await asyncio.sleep(max(0.0, planned - time.perf_counter()))
            task = asyncio.create_task(self._send(kind, n, planned))
            under_way.add(task)
            task.add_done_callback(under_way.discard)
            if self._server.process.poll() is not None:
                raise RuntimeError(f"the server has ended with {self._server.process.returncode}")
        if under_way:
            _, late = await asyncio.wait(under_way, timeout=2 * MOST_WAIT_S)
            for task in late:
                # Whoever stands in a line that grows without end is not waited for; it is noted as wrong.
                task.cancel()

    async def _send(self, kind: Kind, n: int, planned: float) -> None:
        status, body = CLOSED, b""
        try:
            request = kind.make(n)
            if kind.group == HOSTILE:
                status, body = await self._alone(request, kind.gives_up)
            else:
                status, body = await self._pools[kind.group].exchange(request)
        except (OSError, TimeoutError, asyncio.CancelledError) as failure:
            body = repr(failure).encode()
        if status == CLOSED and kind.events:
            self.seen.unsure += kind.events
        self.seen.note(kind, status, body, time.perf_counter() - planned)

    async def _alone(self, request: bytes, gives_up: bool) -> tuple[int, bytes]:
        """An exchange over a connection of its own."""
        line = await connected(self._server.port)
        try:
            if gives_up:
                line.transport.write(request)  # type: ignore[attr-defined]
                await asyncio.sleep(0.05)
                return CLOSED, b""
            return await line.exchange(request)
        finally:
            line.transport.close()  # type: ignore[attr-defined]

    async def _sample(self) -> None:
        rows = max(2, round(self._seconds / EVERY_S))
        for n in range(1, rows + 1):
            due = self._begun + n * self._seconds / rows
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            if self._server.process.poll() is not None:
                return
            self.samples.append(self._row())
            # A disk that is full must not end the soak.
            with suppress(OSError):
                self._out.write_text(report(self, verdict=None))

    def _row(self) -> Sample:
        of_process = Path(f"/proc/{self._server.process.pid}")
        log = self._db.with_name(self._db.name + "-wal")
        collects, reads = self.seen.latencies[COLLECT], self.seen.latencies[READ]
        for group in self.seen.latencies:
            self.seen.latencies[group] = []
        return Sample(
            time.perf_counter() - self._begun,
            self._server.resident_mb(),
            len(os.listdir(of_process / "fd")),
            len(os.listdir(of_process / "task")),
            log.stat().st_size / 1e6 if log.exists() else 0.0,
            self._db.stat().st_size / 1e6,
            collects,
            reads,
            self.seen.failed,
            self.seen.wrongs,
        )


# --- what it came to


class Fit(NamedTuple):
    """A line through points by least squares: its rise over all of them, and that rise's standard error."""

    rise: float
    error: float


def fit(points: Sequence[tuple[float, float]]) -> Fit:
    """The line through (time, value)."""
    n = len(points)
    mean_x, mean_y = sum(x for x, _ in points) / n, sum(y for _, y in points) / n
    square = sum((x - mean_x) ** 2 for x, _ in points)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / square
    rest = sum((y - mean_y - slope * (x - mean_x)) ** 2 for x, y in points)
    span = points[-1][0] - points[0][0]
    error = (rest / max(1, n - 2) / square) ** 0.5
    return Fit(slope * span, error * span)


class Verdict(NamedTuple):
    """One thing that has to hold."""

    what: str
    told: str
    holds: bool


def flatness(samples: Sequence[Sample]) -> list[Verdict]:
    """Whether what should not grow does not, over the rows after the warm-up."""
    counted = samples[int(len(samples) * WARM_UP) :]
    if len(counted) < 3:
        return [Verdict("flat", f"{len(counted)} rows are too few to say", False)]
    found = []
    values: dict[str, Callable[[Sample], float]] = {
        "memory": lambda row: row.memory,
        "files": lambda row: row.files,
        "threads": lambda row: row.threads,
    }
    span_s = counted[-1].at_s - counted[0].at_s
    for name, value in values.items():
        line = fit([(row.at_s, value(row)) for row in counted])
        ends = f"{value(counted[0]):.1f} to {value(counted[-1]):.1f}, most {max(map(value, counted)):.1f}"
        told = f"{ends}; the line rises by {line.rise:+.2f} (error {line.error:.2f}) in {span_s:.0f} s"
        # Where values jump about, a line through them says little: what is beyond two errors counts.
        found.append(Verdict(f"{name} is flat", told, line.rise - 2 * line.error <= FLAT[name]))
    most = max(row.log for row in samples)
    found.append(Verdict("the log stays under 64 MiB", f"most {most:.1f} MB", most <= MOST_LOG_MB))
    return found


def answered(seen: Tallying) -> list[Verdict]:
    """Whether all answers were the right ones."""
    total = sum(sum(statuses.values()) for statuses in seen.statuses.values())
    wrong = "; ".join(seen.wrong[:5])
    return [
        Verdict("no answer is 5xx", f"{seen.failed} of {total:,}", not seen.failed),
        Verdict("every answer is the right one", f"{seen.wrongs} are not {wrong}".strip(), not seen.wrongs),
    ]


def kept(db: Path, before: int, seen: Tallying) -> list[Verdict]:
    """Whether the file holds what was accepted. Those that had no answer may be there or not."""
    now = count(db)
    with closing(sqlite3.connect(db)) as connection:
        sound = [row[0] for row in connection.execute("pragma integrity_check")]
    told = f"{seen.accepted:,} accepted, {now - before:,} more in the file, {seen.unsure} without an answer"
    return [
        Verdict("every accepted event is in the file", told, 0 <= now - before - seen.accepted <= seen.unsure),
        Verdict("integrity_check", ", ".join(sound[:3]), sound == ["ok"]),
    ]


def count(db: Path) -> int:
    """Events in the file."""
    with closing(sqlite3.connect(db)) as connection:
        tables = ("event", "vitals")
        return sum(connection.execute(f"select count(*) from {table}").fetchone()[0] for table in tables)


def report(soak: Soak, verdict: Sequence[Verdict] | None) -> str:
    """The verdict, and the table of all rows, in markdown."""
    lines = [f"# Soak: {machine()}", ""]
    if verdict is None:
        lines += ["It is not over, or was interrupted: there is no verdict.", ""]
    else:
        lines += ["| what | measured | holds |", "| --- | --- | --- |"]
        lines += [
            f"| {one.what} | {one.told.replace('|', '/')} | {'yes' if one.holds else '**NO**'} |" for one in verdict
        ]
        lines += ["", "| requests | statuses |", "| --- | --- |"]
        for name, statuses in soak.seen.statuses.items():
            each = ", ".join(f"{status or 'closed'}: {n:,}" for status, n in sorted(statuses.items()))
            lines.append(f"| {name} | {each} |")
        lines.append("")
    lines += [f"| {' | '.join(HEAD)} |", "|" + " ---: |" * len(HEAD)]
    lines += [f"| {' | '.join(sample.cells())} |" for sample in soak.samples]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Soaks; 0 where everything holds."""
    parser = argparse.ArgumentParser(description="Runs everything at once for a while, and says whether it stays flat.")
    parser.add_argument("--seconds", type=float, default=1_800, help="how long; default 1,800")
    parser.add_argument("--rate", type=float, default=150, help="requests a second; default 150: 405 events, 31 reads")
    parser.add_argument("--events", type=int, default=500_000, help="the website's past; default 500,000")
    parser.add_argument("--folder", type=Path, help="where that past is kept; a temporary one if left out")
    parser.add_argument("--out", type=Path, default=Path("soak.md"), help="where the table goes; default soak.md")
    given = parser.parse_args(arguments)
    # As an interrupt: the server and the files that were begun are ended and deleted on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="tally-soak-") as temporary:
        folder = given.folder or Path(temporary)
        known = dataset.copied(dataset.prepared(folder, given.events), folder / "work")
        before = count(known.db)
        try:
            soak, ended = soaked(known, given)
            good_end = Verdict("SIGTERM: exit 0", f"exit {ended}", ended == 0)
            verdict = [*flatness(soak.samples), *answered(soak.seen), *kept(known.db, before, soak.seen), good_end]
        finally:
            dataset.drop(known.db)
    text = report(soak, verdict)
    given.out.write_text(text)
    print(text[: text.index(f"| {HEAD[0]} |")])
    say(f"the table is in {given.out.resolve()}")
    return 0 if all(one.holds for one in verdict) else 1


def soaked(known: dataset.DataSet, given: argparse.Namespace) -> tuple[Soak, int]:
    """A run that is over, and how the server ended."""
    with Tally(known.db) as server:
        say(f"{given.seconds:.0f} s of {given.rate:.0f} requests a second; the table grows in {given.out.resolve()}")
        soak = Soak(server, known.db, given.out, known.website, known.key, given.rate, given.seconds)
        try:
            asyncio.run(soak.run())
        except Exception as failure:
            soak.seen.wrongs += 1
            soak.seen.wrong.insert(0, f"the soak broke off: {failure!r}")
            say(f"broke off: {failure!r}")
        if server.process.poll() is None:
            server.process.terminate()
        return soak, server.process.wait()


if __name__ == "__main__":
    sys.exit(main())
