"""Simulated power loss: what a disk may hold if the power fails at any time while a server runs.

`Recording` records with strace the calls of a running server on the database and its log in order (writes, fsyncs,
truncations, removals), and between them the requests received and the 202 responses sent. `states` replays them and
yields, for the time before and after each fsync and after each 202, what the disk may hold. Data covered by an fsync is
there. Of later writes a disk may hold none, all, or any part in any order, half a page included; three of these are
drawn at random. File names are durable, removals happen at once or not at all, and a file's size follows its writes.

    python tests/support/power_loss.py SYNCHRONOUS PAGES -- python analytics_server.py serve ...

runs the server with another `pragma synchronous` (the check must catch `off` and `normal`) and with a checkpoint after
every so many pages, so that a short recording contains many.
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
# Random states, beside none and all of the writes.
BY_CHANCE = 3
_NAME = re.compile(rb"/cut-[0-9]+-[0-9]+-[0-9]+/")
_CALL = re.compile(r"(\w+)\((?:(\d+)<([^>]*)>|\"([^\"]*)\")(.*)\) += (-?\d+)", re.DOTALL)
_TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')
CALLS = "pwrite64,fdatasync,fsync,ftruncate,unlink,write,writev,sendto,sendmsg,read,recvfrom,recvmsg"


class Call(NamedTuple):
    """A recorded call: `kind` is write, sync, cut (truncation), remove, request or answer."""

    kind: str
    file: str
    at: int = 0
    data: bytes = b""


class State(NamedTuple):
    """What a disk may hold: file contents by suffix ("" or "-wal"), and the events acknowledged by then."""

    files: dict[str, bytes]
    acknowledged: frozenset[bytes]


class Recording:
    """strace on a running server from now until it ends."""

    def __init__(self, pid: int, db: Path, trace: Path) -> None:
        self._db, self._trace = db, trace
        words = ["strace", "-f", "-q", "-y", "-xx", "-s", "100000", "-o", str(trace), "-e", f"trace={CALLS}"]
        self.process = subprocess.Popen([*words, "-p", str(pid)], stderr=subprocess.DEVNULL)
        self._pid = pid
        self.before: dict[str, bytes] = {}

    def is_on(self) -> bool:
        """Return whether every thread is traced; the file contents at that time are the initial state."""
        assert self.process.poll() is None, "strace cannot attach"
        tasks = Path(f"/proc/{self._pid}/task").iterdir()
        if not all(f"TracerPid:\t{self.process.pid}\n" in (task / "status").read_text() for task in tasks):
            return False
        self.before = {end: Path(f"{self._db}{end}").read_bytes() for end in ("", "-wal")}
        return True

    def calls(self) -> list[Call]:
        """Return the recorded calls once the server has ended."""
        self.process.wait(timeout=60)
        ends = {str(self._db).encode(): "", f"{self._db}-wal".encode(): "-wal"}
        return [call for line in _whole_lines(self._trace) if (call := _call(line, ends)) is not None]

    def end(self) -> None:
        """Stop strace if the server still runs."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(timeout=60)


def _whole_lines(trace: Path) -> Iterator[str]:
    """Yield each call as one line at its end; a response at its begin, because clients may see it from then on."""
    begun: dict[str, str] = {}
    for line in trace.read_text().splitlines():
        thread, _, text = line.partition(" ")
        text = text.strip()
        if text.endswith("<unfinished ...>"):
            text = text.removesuffix("<unfinished ...>")
            if text.startswith(("write(", "writev(", "sendto(", "sendmsg(")):
                yield f"{text}) = 0"
            else:
                begun[thread] = text
        elif " resumed>" in text and thread in begun:
            yield begun.pop(thread) + text.partition(" resumed>")[2]
        else:
            yield text


def _call(line: str, ends: dict[bytes, str]) -> Call | None:
    match = _CALL.match(line)
    if match is None or int(match[6]) < 0:
        return None
    name, place = match[1], _bytes(match[3] if match[3] is not None else match[4])
    texts = [_bytes(text) for text in _TEXT.findall(match[5])]
    numbers = re.findall(r", (\d+)", match[5])
    if place in ends:
        end = ends[place]
        if name == "pwrite64":
            assert int(numbers[-2]) == int(match[6]) == len(texts[0]), "the whole of it was written and recorded"
            return Call("write", end, int(numbers[-1]), texts[0])
        if name in ("fsync", "fdatasync"):
            return Call("sync", end)
        if name == "ftruncate":
            return Call("cut", end, int(numbers[-1]))
        if name == "unlink":
            return Call("remove", end)
    data = b"".join(texts)
    if name.startswith(("read", "recv")) and _NAME.search(data):
        return Call("request", match[2], data=data)
    if name.startswith(("write", "send")) and data.startswith(b"HTTP/1.1 202"):
        return Call("answer", match[2])
    return None


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", "")) if text.startswith("\\x") else text.encode()


def names(data: bytes) -> list[bytes]:
    """Return the names of events in a request."""
    return _NAME.findall(data)


def states(before: dict[str, bytes], calls: Sequence[Call]) -> Iterator[State]:
    """Yield what a disk may hold if the power fails at any of these times."""
    chance = random.Random(1)
    safe: dict[str, bytes | None] = dict(before)
    since: dict[str, list[Call]] = {end: [] for end in before}
    asked: dict[str, list[bytes]] = {}
    acknowledged: set[bytes] = set()
    for call in calls:
        if call.kind == "request":
            asked.setdefault(call.file, []).extend(names(call.data))
        elif call.kind == "answer":
            acknowledged.update(asked.pop(call.file, ()))
            yield from _found(safe, since, acknowledged, chance)
        elif call.kind == "sync":
            yield from _found(safe, since, acknowledged, chance)
            safe[call.file] = _played(safe[call.file], since[call.file])
            since[call.file] = []
            yield from _found(safe, since, acknowledged, chance)
        else:
            since[call.file].append(call)
    yield from _found(safe, since, acknowledged, chance)


def _found(
    safe: dict[str, bytes | None], since: dict[str, list[Call]], acknowledged: set[bytes], chance: random.Random
) -> Iterator[State]:
    told = frozenset(acknowledged)
    kept = [{end: [] for end in safe}, since]
    kept += [{end: _by_chance(calls, chance) for end, calls in since.items()} for _ in range(BY_CHANCE)]
    for choice in kept if any(since.values()) else kept[:1]:
        played = {end: _played(safe[end], choice[end]) for end in safe}
        yield State({end: content for end, content in played.items() if content is not None}, told)


def _by_chance(calls: Sequence[Call], chance: random.Random) -> list[Call]:
    """Return some of the calls in another order, some of them in part."""
    some = [call for call in calls if chance.random() < 0.6]
    chance.shuffle(some)
    torn = []
    for call in some:
        if call.kind == "write" and len(call.data) > SECTOR and chance.random() < 0.3:
            begin = chance.randrange(0, len(call.data), SECTOR)
            end = chance.randrange(begin, len(call.data), SECTOR) + SECTOR
            call = call._replace(at=call.at + begin, data=call.data[begin:end])
        torn.append(call)
    return torn


def _played(content: bytes | None, calls: Sequence[Call]) -> bytes | None:
    """Return the content after the calls; None for a file that was removed."""
    now = None if content is None else bytearray(content)
    for call in calls:
        if call.kind == "remove":
            now = None
        elif now is not None and call.kind == "cut":
            now[call.at :] = bytes(max(0, call.at - len(now)))
        elif now is not None:
            now.extend(bytes(max(0, call.at - len(now))))
            now[call.at : call.at + len(call.data)] = call.data
    return None if now is None else bytes(now)


def run_otherwise(synchronous: str, pages: str, arguments: list[str]) -> int:
    """Run the server with a changed copy of database.py."""
    sys.path.insert(0, str(ROOT))
    source = (ROOT / "tally" / "storage" / "database.py").read_text()
    for old, new in (
        ("pragma synchronous = full", f"pragma synchronous = {synchronous}"),
        ("CHECKPOINT_PAGES = 4_000", f"CHECKPOINT_PAGES = {int(pages)}"),
    ):
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    schema = types.ModuleType("tally.storage.database")
    sys.modules["tally.storage.database"] = schema
    exec(compile(source, "database.py", "exec"), schema.__dict__)
    import analytics_server

    return analytics_server.main(arguments)


if __name__ == "__main__":
    # -- python analytics_server.py serve ...
    sys.exit(run_otherwise(sys.argv[1], sys.argv[2], sys.argv[6:]))
