"""tally/transfer/reader_process.py: another process reads the same chunks, reports the same errors, and ends."""

import contextlib
import gzip
import io
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tally.accounts.accounts import create_account
from tally.accounts.websites import add_website
from tally.engine.archive import Line, SumLine
from tally.events.geoip import CountryDataError
from tally.storage.database import open_database, transaction
from tally.transfer import reader_process
from tally.transfer.chunks import USUAL, Chunk, Chunks, Reading, Sizes
from tally.transfer.files import BadFile, Source, open_source
from tally.transfer.importer import Preview, import_events, preview_events
from tally.transfer.reader_process import ReaderProcess, chunks_of
from tests.support.app import NOON_MS, ROOT
from tests.support.cases import cases

MINUTE = 60_000
READING = Reading(
    format="tally",
    geoip_db=None,
    sizes=Sizes(chunk_lines=9, part_lines=4),
    salt=b"salt" * 4,
    website=1,
    now_ms=NOON_MS,
    domain="example.com",
    origins=frozenset(),
    secret=b"",
    keeps_visitors=False,
    offset_ms=0,
)
AT = {"timestamp": NOON_MS, "visitor": "ann", "id": 1}
KINDS: list[Any] = [
    AT | {"type": "pageview", "pathname": "/", "referrer": "example.org", "city": "Zürich"},
    AT | {"type": "event", "event_name": "buy", "event_data": {"n": 1.5, "t": "ü"}, "visitor": None},
    AT | {"type": "vitals", "pathname": "/", "vitals": {"lcp": 1_200.5}, "id": None},
    AT | {"type": "ab_convert", "experiment": "e", "goal": "g", "value": 3},
    {"type": "imported_sum", "day": "2024-11-18", "field": "country", "value": "DE", "visitors": 12},
    AT | {"type": "pageview"},
    "no object",
]


def written(directory: Path, lines: list[Any]) -> Path:
    path = directory / "in.ndjson"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def views(count: int) -> list[Any]:
    """Return pageviews without ids, each a visit of a visitor."""
    return [
        {"type": "pageview", "pathname": f"/{n % 9}", "timestamp": NOON_MS - n * MINUTE, "visitor": f"{n}"}
        for n in range(count)
    ]


def all_of(chunks: Chunks | ReaderProcess) -> list[Chunk]:
    with contextlib.closing(chunks):
        return [*iter(chunks.next, None)]


@pytest.fixture
def connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[sqlite3.Connection]:
    """A database with a website; files of any size are read by another process, on any machine."""
    monkeypatch.setattr(reader_process, "_MIN_BYTES", 0)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1}, raising=False)
    connection = open_database(tmp_path / "analytics.db", create=True)
    with transaction(connection):
        owner = create_account(connection, "owner@example.com", "business", None, 0)
        add_website(connection, owner, "example.com", "example.com", (), 0)
    yield connection
    connection.close()


def take(connection: sqlite3.Connection, path: Path, **options: Any) -> tuple[Any, list[str]]:
    """Import a file by two processes; return the summary, or what was raised, and the messages."""
    messages: list[str] = []
    options = {"now_ms": NOON_MS, "uses_reader_process": True, "report": messages.append} | options
    with open_source(str(path)) as source:
        try:
            return import_events(connection, 1, source, **options), messages
        except BadFile as failure:
            return str(failure), messages


def count(connection: sqlite3.Connection) -> int:
    ((events,),) = connection.execute("select count(*) from event").fetchall()
    return int(events)


@cases(
    ("lines", "place"),
    [
        (KINDS * 5, (0, 0)),
        (KINDS[:1] * 30, (0, 0)),
        (KINDS[4:5] * 30, (0, 0)),
        (KINDS[5:] * 30, (0, 0)),
        ([], (0, 0)),
        (KINDS * 5, (9, sum(len(json.dumps(line)) + 1 for line in (KINDS * 2)[:9]))),
    ],
    ids=["all kinds", "one kind", "sums", "invalid", "none", "from a place"],
)
def test_the_chunks_are_those_that_this_process_reads(tmp_path: Path, lines: list[Any], place: tuple[int, int]) -> None:
    def comparable(chunk: Chunk) -> Chunk:
        """Return a chunk without the visitors of lines that name none: they are random."""
        found = [one._replace(visitor=0) if isinstance(one, Line) and not one.is_named else one for one in chunk.lines]
        return chunk._replace(lines=found)

    with open_source(str(written(tmp_path, lines))) as source:
        here = all_of(Chunks(READING, source, place))
        there = all_of(ReaderProcess(READING, source, place))
    assert [*map(comparable, there)] == [*map(comparable, here)]
    assert [[type(line) for line in chunk.lines] for chunk in there] == [[*map(type, one.lines)] for one in here]
    assert {type(line) for chunk in there for line in chunk.lines} <= {Line, SumLine}


def test_chunks_grow_up_to_their_size(tmp_path: Path) -> None:
    with open_source(str(written(tmp_path, views(12_000)))) as source:
        chunks = all_of(Chunks(READING._replace(sizes=USUAL._replace(chunk_lines=4_000)), source, (0, 0)))
    assert [len(chunk.lines) for chunk in chunks] == [2_500, 2_500, 4_000, 3_000]
    assert [chunk.end[0] for chunk in chunks] == [2_500, 5_000, 9_000, 12_000]


def test_an_import_and_its_check_by_two_processes(connection: sqlite3.Connection, tmp_path: Path) -> None:
    path = written(tmp_path, [*views(4_000), *KINDS[5:]])
    with open_source(str(path)) as source:
        preview = preview_events(connection, 1, source, now_ms=NOON_MS, uses_reader_process=True)
    assert isinstance(preview, Preview)
    assert (preview.lines, preview.bad, sum(preview.days.values())) == (4_002, 2, 4_000)
    summary, messages = take(connection, path)
    assert summary == (4_000, 0, 2, 0, 4_002, 0)
    assert messages[0] == "line 4,001: missing_field (pathname): This type needs pathname."
    assert count(connection) == 4_000


def test_a_damaged_file_is_imported_up_to_the_damage(connection: sqlite3.Connection, tmp_path: Path) -> None:
    path = tmp_path / "in.ndjson.gz"
    whole = gzip.compress(written(tmp_path, views(20_000)).read_bytes())
    path.write_bytes(whole[: len(whole) // 2])
    failure, _ = take(connection, path)
    with open_source(str(path)) as source, pytest.raises(BadFile) as plain:
        import_events(connection, 1, source, now_ms=NOON_MS)
    events = count(connection)
    assert 0 < events < 20_000
    assert failure.startswith(f"{path} is damaged or incomplete")
    assert str(plain.value).startswith(failure.partition(" It was")[0])
    assert "It was imported up to line" in failure


def test_errors_of_the_format_and_of_the_database_of_places_are_the_same(
    connection: sqlite3.Connection, tmp_path: Path
) -> None:
    path = written(tmp_path, views(1))
    failure, _ = take(connection, path, format="umami")
    assert "has no column" in failure
    assert "imported up to" not in failure
    with pytest.raises(CountryDataError):
        take(connection, path, format="access-log", geoip_db=tmp_path / "absent.mmdb")


@pytest.mark.slow
def test_an_import_continues_after_the_reading_process_is_killed(
    connection: sqlite3.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, views(30_000))
    following = ReaderProcess.next

    def killed(process: ReaderProcess) -> Chunk | None:
        if process.lines:
            process._process.kill()
            process._process.wait()
            # What it has written is lost too.
            assert process._process.stdout is not None
            process._process.stdout.close()
            process._process.stdout = io.BytesIO()
        return following(process)

    with monkeypatch.context() as patched:
        patched.setattr(ReaderProcess, "next", killed)
        failure, _ = take(connection, path)
    assert (
        f"The process that reads {path} has ended unexpectedly, with status -9: run the same command again." in failure
    )
    assert count(connection) == 2_500
    summary, messages = take(connection, path)
    assert summary == (30_000, 0, 0, 0, 30_000, 0)
    assert messages == ["continuing an interrupted import after 2,500 lines"]
    assert count(connection) == 30_000


def test_a_file_that_changes_is_not_read(tmp_path: Path) -> None:
    path = written(tmp_path, views(2))
    with open_source(str(path)) as source:
        written(tmp_path, views(3))
        with pytest.raises(BadFile, match="has changed while it was imported: run the same command again"):
            all_of(ReaderProcess(READING, source, (0, 0)))


def test_the_process_ends_with_an_interrupted_import(
    connection: sqlite3.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[ReaderProcess] = []
    make = ReaderProcess.__init__

    def noted(process: ReaderProcess, *words: Any) -> None:
        make(process, *words)
        begun.append(process)

    def interrupt(position: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ReaderProcess, "__init__", noted)
    with pytest.raises(KeyboardInterrupt):
        take(connection, written(tmp_path, views(30_000)), progress=interrupt)
    (process,) = begun
    assert process._process.returncode == -signal.SIGKILL


def test_the_process_ends_where_the_importing_one_is_killed(tmp_path: Path) -> None:
    """It holds standard error, which is at its end when both have ended."""
    script = (
        "import os, signal; from tally.transfer.files import open_source;"
        " from tests.unit.transfer.test_reader_process import READING, ReaderProcess, written, views;"
        " from pathlib import Path;"
        f" source = open_source(str(written(Path({str(tmp_path)!r}), views(5_000)))).__enter__();"
        " process = ReaderProcess(READING, source, (0, 0)); process.next();"
        " os.kill(os.getpid(), signal.SIGKILL)"
    )
    importing = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stderr=subprocess.PIPE)
    _, errors = importing.communicate()
    assert (importing.returncode, errors) == (-signal.SIGKILL, b"")


@pytest.mark.parametrize("reason", ["small", "one core", "standard input"])
def test_some_files_are_read_by_this_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: str) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0} if reason == "one core" else {0, 1}, raising=False)
    path = written(tmp_path, views(1))
    large = reader_process._MIN_BYTES

    def chosen(change: Callable[[Source], None]) -> type:
        with open_source(str(path)) as source:
            source.size = large
            change(source)
            with contextlib.closing(chunks_of(READING, source, (0, 0))) as chunks:
                return type(chunks)

    def with_reason(source: Source) -> None:
        if reason == "small":
            source.size -= 1
        if reason == "standard input":
            source.digest = ""

    assert chosen(with_reason) is Chunks
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1}, raising=False)
    assert chosen(lambda source: None) is ReaderProcess
