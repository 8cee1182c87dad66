"""Power cuts on paper: what a disk may hold if the power goes at any moment of a server's life.

`Recording` writes down, by strace, what a running server asks of the database and its log, in order: writes, fsyncs,
cuts, removals; and between them the requests that came and the 202s that went. `states` plays that back and gives, for
the moment before and after each fsync and after each 202, what may be found afterwards. What an fsync has covered is
there. Of what was written since, a disk may have kept nothing, everything, or any part of it in any order, a page by
halves; three of those that are drawn by chance. Names of files count as kept, as a removal does once it was asked for
or not at all; the size of a file changes with its writes.

    python tests/support/power_loss.py SYNCHRONOUS PAGES -- python analytics_server.py serve ...

runs the server with another `pragma synchronous` (`off` and `normal` are what the check must catch) and with a log that
is copied into the database every so many pages, so that a short recording sees it often.
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
# Beside nothing and everything.
BY_CHANCE = 3
_NAME = re.compile(rb"/cut-[0-9]+-[0-9]+-[0-9]+/")
_CALL = re.compile(r"(\w+)\((?:(\d+)<([^>]*)>|\"([^\"]*)\")(.*)\) += (-?\d+)", re.DOTALL)
_TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')
CALLS = "pwrite64,fdatasync,fsync,ftruncate,unlink,write,writev,sendto,sendmsg,read,recvfrom,recvmsg"


class Call(NamedTuple):
    """Something that happened: `kind` is write, sync, cut, remove, request or answer."""

    kind: str
    file: str
    at: int = 0
    data: bytes = b""


class State(NamedTuple):
    """What a disk may hold: by the end of the file's name ("" or "-wal") its content, and who had his 202 by then."""

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
        """Whether every thread is watched; what the files hold then is where the recording begins."""
        assert self.process.poll() is None, "strace cannot attach"
        tasks = Path(f"/proc/{self._pid}/task").iterdir()
        if not all(f"TracerPid:\t{self.process.pid}\n" in (task / "status").read_text() for task in tasks):
            return False
        self.before = {end: Path(f"{self._db}{end}").read_bytes() for end in ("", "-wal")}
        return True

    def calls(self) -> list[Call]:
        """What happened, once the server has ended."""
        self.process.wait(timeout=60)
        ends = {str(self._db).encode(): "", f"{self._db}-wal".encode(): "-wal"}
        return [call for line in _whole_lines(self._trace) if (call := _call(line, ends)) is not None]

    def end(self) -> None:
        """Ends strace where the server has not ended it."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(timeout=60)


def _whole_lines(trace: Path) -> Iterator[str]:
    """Each call as one line, when it was over; an answer when it began, since it may be seen from then on."""
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
    """The names of events in a request."""
    return _NAME.findall(data)


def states(before: dict[str, bytes], calls: Sequence[Call]) -> Iterator[State]:
    """What a disk may hold if the power goes at one of the moments."""
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
    """Some of the calls in another order, some of them in part."""
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
    """The content after the calls; None for a file that was removed."""
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
    """The server with another database.py in memory."""
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
