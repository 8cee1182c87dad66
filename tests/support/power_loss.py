"""Simulated power loss: what a disk may hold if the power fails at any time while a server runs.

`Recording` records the system calls of a running server on the database and its write-ahead log with strace: writes,
fsyncs, truncations and removals, and between them the requests received and the 202 responses sent. `states` replays
them and yields the possible contents of the disk before and after each fsync and after each 202.

The model of the disk: data covered by an fsync is on it. Of later writes it may hold none, all, or any part in any
order, also half a page; RANDOM_SUBSETS such parts are drawn at random. File names are durable, a removal is complete or
has not happened, and the size of a file follows its writes.

    python tests/support/power_loss.py SYNCHRONOUS PAGES -- python analytics_server.py serve ...

runs the server with another `pragma synchronous`, of which the test must detect `off` and `normal`, and with a
checkpoint after every PAGES pages, so that a short recording contains many.
"""

import random
import re
import signal
import subprocess
import sys
import types
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
SECTOR = 512
# Random parts of the pending writes that are tried, besides none and all of them.
RANDOM_SUBSETS = 3
_EVENT_NAME = re.compile(rb"/event-[0-9]+-[0-9]+-[0-9]+/")
_CALL = re.compile(r"(\w+)\((?:(\d+)<([^>]*)>|\"([^\"]*)\")(.*)\) += (-?\d+)", re.DOTALL)
_TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')
CALLS = "pwrite64,fdatasync,fsync,ftruncate,unlink,write,writev,sendto,sendmsg,read,recvfrom,recvmsg"


class Call(NamedTuple):
    """A recorded call.

    `kind` is write, sync, truncate, remove, request or response. `file` is "" for the database and "-wal" for its log,
    and a file descriptor for requests and responses. `at` is an offset or a size in bytes.
    """

    kind: str
    file: str
    at: int = 0
    data: bytes = b""


class State(NamedTuple):
    """Possible contents of the disk: files by suffix ("" or "-wal"), and the names of the acknowledged events."""

    files: dict[str, bytes]
    acknowledged: frozenset[bytes]


class Recording:
    """Records a running server from now until it exits. `initial` has the contents of the files at the start."""

    def __init__(self, pid: int, db: Path, trace: Path) -> None:
        self._db, self._trace = db, trace
        words = ["strace", "-f", "-q", "-y", "-xx", "-s", "100000", "-o", str(trace), "-e", f"trace={CALLS}"]
        self.process = subprocess.Popen([*words, "-p", str(pid)], stderr=subprocess.DEVNULL)
        self._pid = pid
        self.initial: dict[str, bytes] = {}

    def is_attached(self) -> bool:
        """Return whether every thread is traced, and read `initial` once that is so."""
        assert self.process.poll() is None, "strace cannot attach"
        tasks = Path(f"/proc/{self._pid}/task").iterdir()
        if not all(f"TracerPid:\t{self.process.pid}\n" in (task / "status").read_text() for task in tasks):
            return False
        self.initial = {suffix: Path(f"{self._db}{suffix}").read_bytes() for suffix in ("", "-wal")}
        return True

    def calls(self) -> list[Call]:
        """Return the recorded calls in order, once the server has exited."""
        self.process.wait(timeout=60)
        suffixes = {str(self._db).encode(): "", f"{self._db}-wal".encode(): "-wal"}
        return [call for line in _completed_calls(self._trace) if (call := _call(line, suffixes)) is not None]

    def stop(self) -> None:
        """Stop strace if it still runs."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(timeout=60)


def _completed_calls(trace: Path) -> Iterator[str]:
    """Yield each call as one line when it returned; a response when it began, because a client may see it then."""
    unfinished: dict[str, str] = {}
    for line in trace.read_text().splitlines():
        thread, _, text = line.partition(" ")
        text = text.strip()
        if text.endswith("<unfinished ...>"):
            text = text.removesuffix("<unfinished ...>")
            if text.startswith(("write(", "writev(", "sendto(", "sendmsg(")):
                yield f"{text}) = 0"
            else:
                unfinished[thread] = text
        elif " resumed>" in text and thread in unfinished:
            yield unfinished.pop(thread) + text.partition(" resumed>")[2]
        else:
            yield text


def _call(line: str, suffixes: dict[bytes, str]) -> Call | None:
    match = _CALL.match(line)
    if match is None or int(match[6]) < 0:
        return None
    name, place = match[1], _unescaped(match[3] if match[3] is not None else match[4])
    texts = [_unescaped(text) for text in _TEXT.findall(match[5])]
    numbers = re.findall(r", (\d+)", match[5])
    if place in suffixes:
        suffix = suffixes[place]
        if name == "pwrite64":
            assert int(numbers[-2]) == int(match[6]) == len(texts[0]), "all bytes are written and recorded"
            return Call("write", suffix, int(numbers[-1]), texts[0])
        if name in ("fsync", "fdatasync"):
            return Call("sync", suffix)
        if name == "ftruncate":
            return Call("truncate", suffix, int(numbers[-1]))
        if name == "unlink":
            return Call("remove", suffix)
    data = b"".join(texts)
    if name.startswith(("read", "recv")) and _EVENT_NAME.search(data):
        return Call("request", match[2], data=data)
    if name.startswith(("write", "send")) and data.startswith(b"HTTP/1.1 202"):
        return Call("response", match[2])
    return None


def _unescaped(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", "")) if text.startswith("\\x") else text.encode()


def event_names(data: bytes) -> list[bytes]:
    """Return the names of events in a request."""
    return _EVENT_NAME.findall(data)


def states(initial: dict[str, bytes], calls: Sequence[Call]) -> Iterator[State]:
    """Yield the possible contents of the disk after a power loss at any of these times."""
    generator = random.Random(1)
    durable: dict[str, bytes | None] = dict(initial)
    pending: dict[str, list[Call]] = {suffix: [] for suffix in initial}
    requested: dict[str, list[bytes]] = {}
    acknowledged: set[bytes] = set()
    for call in calls:
        if call.kind == "request":
            requested.setdefault(call.file, []).extend(event_names(call.data))
        elif call.kind == "response":
            acknowledged.update(requested.pop(call.file, ()))
            yield from _possible(durable, pending, acknowledged, generator)
        elif call.kind == "sync":
            yield from _possible(durable, pending, acknowledged, generator)
            durable[call.file] = _replayed(durable[call.file], pending[call.file])
            pending[call.file] = []
            yield from _possible(durable, pending, acknowledged, generator)
        else:
            pending[call.file].append(call)
    yield from _possible(durable, pending, acknowledged, generator)


def _possible(
    durable: dict[str, bytes | None], pending: dict[str, list[Call]], acknowledged: set[bytes], generator: random.Random
) -> Iterator[State]:
    events = frozenset(acknowledged)
    choices = [{suffix: [] for suffix in durable}, pending]
    for _ in range(RANDOM_SUBSETS):
        choices.append({suffix: _random_part(calls, generator) for suffix, calls in pending.items()})
    for choice in choices if any(pending.values()) else choices[:1]:
        contents = {suffix: _replayed(durable[suffix], choice[suffix]) for suffix in durable}
        yield State({suffix: content for suffix, content in contents.items() if content is not None}, events)


def _random_part(calls: Sequence[Call], generator: random.Random) -> list[Call]:
    """Return some of the calls in another order, and some writes only in part."""
    chosen = [call for call in calls if generator.random() < 0.6]
    generator.shuffle(chosen)
    torn = []
    for call in chosen:
        if call.kind == "write" and len(call.data) > SECTOR and generator.random() < 0.3:
            begin = generator.randrange(0, len(call.data), SECTOR)
            end = generator.randrange(begin, len(call.data), SECTOR) + SECTOR
            call = call._replace(at=call.at + begin, data=call.data[begin:end])
        torn.append(call)
    return torn


def _replayed(content: bytes | None, calls: Sequence[Call]) -> bytes | None:
    """Return the content after the calls; None for a file that was removed."""
    now = None if content is None else bytearray(content)
    for call in calls:
        if call.kind == "remove":
            now = None
        elif now is not None and call.kind == "truncate":
            now[call.at :] = bytes(max(0, call.at - len(now)))
        elif now is not None:
            now.extend(bytes(max(0, call.at - len(now))))
            now[call.at : call.at + len(call.data)] = call.data
    return None if now is None else bytes(now)


def run_with(synchronous: str, pages: str, arguments: list[str]) -> int:
    """Run the server with other constants in tally/storage/database.py; return its exit status."""
    sys.path.insert(0, str(ROOT))
    source = (ROOT / "tally" / "storage" / "database.py").read_text()
    for old, new in (
        ("pragma synchronous = full", f"pragma synchronous = {synchronous}"),
        ("CHECKPOINT_PAGES = 4_000", f"CHECKPOINT_PAGES = {int(pages)}"),
    ):
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    database = types.ModuleType("tally.storage.database")
    sys.modules["tally.storage.database"] = database
    exec(compile(source, "database.py", "exec"), database.__dict__)
    import analytics_server

    return analytics_server.main(arguments)


if __name__ == "__main__":
    # -- python analytics_server.py serve ...
    sys.exit(run_with(sys.argv[1], sys.argv[2], sys.argv[6:]))
