"""tally/http/logging.py: one line for each record, machine-readable, without personal data whatever fails.

Exceptions and log messages of every kind quote CANARY, which a client sent; no line may contain it.
tests/robustness/test_privacy.py searches the log of a complete server run.
"""

import http.client
import io
import json
import logging
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tally.errors import fields
from tally.http import logging as logs
from tests.support.app import ROOT
from tests.support.process import Serve, clean_environment

CANARY = "canary-203.0.113.77-jane.doe@example.com-tly_0123456789abcdef"
TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
by_format = pytest.mark.parametrize("format", logs.FORMATS)
TEXTS = st.text(st.characters(codec=None), max_size=60) | st.sampled_from(
    ("", " ", '"', "a=b", "a\nb", "\x1b[2J", "\u2028")
)


def read_logfmt(line: str) -> dict[str, Any]:
    """Parse a line of logfmt: names, and values plain or quoted as in JSON."""
    values: dict[str, Any] = {}
    rest = line
    while rest:
        match = re.match(r'([a-z_]+)=("(?:[^"\\]|\\.)*"|[^ "]+)(?: |$)', rest)
        assert match, line
        assert match[1] not in values
        values[match[1]] = json.loads(match[2]) if match[2].startswith('"') else match[2]
        rest = rest[match.end() :]
    return values


READ = {"logfmt": read_logfmt, "json": json.loads}


def written(format: str, record: logging.LogRecord) -> dict[str, Any]:
    """Return the values of a record, formatted and parsed again."""
    line = logs.LineFormatter(logs.FORMATS[format]).format(record)
    assert line.isascii()
    assert line.isprintable(), "one line, without control characters of terminals"
    values: dict[str, Any] = READ[format](line)
    assert re.fullmatch(TIME, values["time"])
    assert list(values)[:3] == ["time", "level", "msg"]
    return values


def record(
    name: str, message: object, *arguments: Any, failure: BaseException | None = None, **named: Any
) -> logging.LogRecord:
    made = logging.getLogger(name).makeRecord(
        name,
        logging.ERROR,
        "/somewhere/code.py",
        7,
        message,
        arguments,
        None,
        "function",
        fields(**named) if named else None,
    )
    made.exc_info = (type(failure), failure, None) if failure else None
    return made


# Records of the application's logger


@by_format
@given(TEXTS, TEXTS)
def test_message_and_fields_round_trip(format: str, text: str, value: str) -> None:
    values = written(format, record("tally", "text: %s", text, what=value, number=3, nothing=None))
    assert values["msg"] == f"text: {text}"
    assert values["what"] == value
    assert values["number"] == ("3" if format == "logfmt" else 3)
    assert "nothing" not in values
    assert values["level"] == "error"


@by_format
def test_long_values_are_truncated(format: str) -> None:
    assert len(written(format, record("tally", "x" * 100_000, what="y" * 100_000))["what"]) == logs.MAX_VALUE_CHARACTERS


@by_format
def test_a_message_that_does_not_fit_its_arguments(format: str) -> None:
    """The message is written without the arguments."""
    assert written(format, record("tally", "%d of %s", CANARY)) | {"time": ""} == {
        "time": "",
        "level": "error",
        "msg": "%d of %s",
    }


@by_format
def test_an_exception_is_written_as_type_and_place(format: str) -> None:
    try:
        raise ValueError(CANARY)
    except ValueError as failure:
        values = written(format, record("tally.part", "it failed", failure=failure))
    place = r".*test_logging\.py:\d+ test_an_exception_is_written_as_type_and_place"
    assert re.fullmatch(rf"ValueError < {place}", values["error"])
    assert CANARY not in str(values)


def test_times_are_utc() -> None:
    made = record("tally", "x")
    made.created = 1_795_003_200.9996
    assert written("json", made)["time"] == "2026-11-18T12:00:00.999Z"


# Records of other loggers


@by_format
@given(
    st.sampled_from(("asyncio", "aiohttp.server", "aiohttp.access", "py.warnings", "root", CANARY, "tallyho", "a b\n")),
    st.sampled_from((CANARY, f"%s {CANARY}", f"{CANARY}\n%d", "%s")),
    st.sampled_from(((), (CANARY,), (CANARY, CANARY), ({"k": CANARY},))),
    st.sampled_from(
        (
            None,
            ValueError(CANARY),
            OSError(2, CANARY, CANARY),
            KeyError(CANARY),
            ExceptionGroup(CANARY, [ValueError(CANARY)]),
        )
    ),
)
def test_other_loggers_are_named_and_not_quoted(
    format: str, name: str, message: str, arguments: tuple[Any, ...], failure: BaseException | None
) -> None:
    values = written(format, record(name, message, *arguments, failure=failure, client=CANARY))
    assert CANARY not in str(values)
    assert values["msg"] == "logged by a library"
    assert values["where"] == "/somewhere/code.py:7 function"
    assert values["logger"] in (name, "other")
    assert ("error" in values) == (failure is not None)


# Every kind of failure in a running server

FAILING = """
import asyncio, gc, logging, sys, threading, warnings
from pathlib import Path
from aiohttp import web
from analytics_server import build_app
from tally.cli.serve import serve
from tally.settings import Settings

kept = []

class FailingFinalizer:
    def __init__(self, sent):
        self.sent = sent
    def __del__(self):
        raise ValueError(self.sent)

async def later(sent):
    raise ValueError(sent)

def soon(sent):
    raise ValueError(sent)

class Bad(asyncio.Protocol):
    def data_received(self, data):
        raise ValueError(data)

async def fails(request):
    sent = await request.text() + str(dict(request.headers))
    loop, kind = asyncio.get_running_loop(), request.match_info["kind"]
    if kind == "handler":
        raise ValueError(sent)
    if kind == "task":
        loop.create_task(later(sent))
    if kind == "callback":
        loop.call_soon(soon, sent)
    if kind == "future":
        loop.create_future().set_exception(ValueError(sent))
    if kind == "thread":
        threading.Thread(target=soon, args=(sent,), name=sent).start()
    if kind == "finalizer":
        FailingFinalizer(sent)
    if kind == "library":
        logging.getLogger("asyncio").error("%s of " + sent, sent)
        logging.getLogger(sent).error(sent)
        logging.error(sent)
    if kind == "warning":
        warnings.warn(sent)
    if kind == "format":
        logging.getLogger("tally").error("%d %d", sent)
    if kind == "protocol":
        server = await loop.create_server(Bad, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(sent.encode())
        await reader.read()
    await asyncio.sleep(0)
    gc.collect()
    return web.Response()

settings = Settings(db=Path(sys.argv[1]), port=0, log_format=sys.argv[2])
app = build_app(settings)
app.router.add_post("/fails/{kind}", fails)
with asyncio.Runner(loop_factory=LOOP) as runner:
    runner.run(serve(app, settings))
raise ValueError(sys.argv[3])
"""
UVLOOP = "__import__('uvloop').new_event_loop"
# Kind of failure -> the message, or the logger, of its line.
EXPECTED = {
    "handler": "500 on /fails/{kind}",
    "task": "event loop: Task exception was never retrieved",
    "callback": "event loop: Exception in callback",
    "future": "event loop: Future exception was never retrieved",
    "thread": "thread failed",
    "finalizer": "unraisable exception",
    "library": "asyncio",
    "warning": "py.warnings",
    "format": "%d %d",
    "protocol": "event loop: Fatal error",
}


def loops() -> Iterator[str]:
    yield "None"
    try:
        import uvloop  # noqa: F401

        yield UVLOOP
    except ImportError:
        pass


@pytest.mark.slow
@pytest.mark.parametrize(
    ("format", "loop"),
    list(zip(logs.FORMATS, cycle(loops()), strict=False)),
    ids=lambda value: {"None": "asyncio", UVLOOP: "uvloop"}.get(value, value),
)
def test_no_failure_puts_personal_data_in_the_log(format: str, loop: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", FAILING.replace("LOOP", loop), str(tmp_path / "analytics.db"), format, CANARY]
    log = tmp_path / "stderr.log"
    with log.open("wb") as stderr:
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, cwd=ROOT, env=clean_environment())
    assert child.stdout is not None
    at = urlsplit(child.stdout.readline().decode().removeprefix("listening on ").strip())

    try:
        for kind in EXPECTED:
            connection = http.client.HTTPConnection(at.hostname or "", at.port or 0, timeout=60)
            headers = {"User-Agent": CANARY, "X-Forwarded-For": CANARY, "Cookie": CANARY, "Authorization": CANARY}
            connection.request("POST", f"/fails/{kind}?{CANARY}", CANARY, headers)
            assert connection.getresponse().status == (500 if kind == "handler" else 200)
            connection.close()
    finally:
        child.terminate()
        assert child.wait(timeout=60) == 1
        child.stdout.close()
    # Notices are plain text, unless the log is JSON.
    logged = [
        READ[format](line)
        for line in log.read_text().splitlines()
        if format == "json" or not line.startswith("set up Tally: ")
    ]
    assert set(EXPECTED.values()) <= {line.get("logger", line["msg"]) for line in logged}
    assert logged[-1]["msg"] == "process failed"
    for line in logged:
        if "error" in line:
            assert re.match(r"ValueError( < |$)", line["error"]), line
    assert CANARY not in log.read_text()
    assert "canary" not in log.read_text()
    assert "Traceback" not in log.read_text()


# Settings


def test_the_start_in_json(serve: Serve, tmp_path: Path) -> None:
    """The notices at the start are JSON lines too."""
    server = serve("--log-format", "json")
    assert server.terminate() == 0
    logged = [json.loads(line) for line in server.stderr().splitlines()]
    assert [line["msg"].split(":")[0] for line in logged] == ["database", "set up Tally"]
    assert logged[0]["msg"] == f"database: {tmp_path / 'analytics.db'}"


@pytest.mark.parametrize(("level", "levels"), [("debug", 4), ("info", 3), ("warning", 2), ("error", 1)])
def test_levels(level: str, levels: int) -> None:
    program = f"logs.configure('logfmt', {level!r})\n"
    done = in_a_process(program + "for name in ('debug', 'info', 'warning', 'error'): getattr(log, name)('x')")
    assert (done.returncode, done.stdout) == (0, "")
    assert len(done.stderr.splitlines()) == levels


def in_a_process(program: str) -> "subprocess.CompletedProcess[str]":
    """Run a program in a process of its own, because `configure` changes the whole process."""
    program = (
        "import logging, sys\nfrom tally.http import logging as logs\nfrom tally.errors import fields, log\n" + program
    )
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, env=clean_environment()
    )


def test_a_log_that_cannot_be_written() -> None:
    """With a full disk under the log, the program continues."""
    program = "sys.stderr = open('/dev/full', 'w')\nlogs.configure('logfmt', 'info')\n"
    program += "for n in range(3): log.error('it failed: %s', n)\n"
    done = in_a_process(program + "print('goes on', flush=True)\n__import__('os')._exit(0)")
    assert (done.returncode, done.stdout, done.stderr) == (0, "goes on\n", "")


@by_format
def test_a_record_that_cannot_be_formatted_is_dropped(format: str) -> None:
    """Python's logging would print a traceback with all values."""
    program = f"logs.configure({format!r}, 'info')\nclass Odd:\n def __repr__(self): raise ValueError({CANARY!r})\n"
    program += f"log.error('it failed: %s', {CANARY!r}, extra=fields(what=Odd(), who={CANARY!r}))\n"
    done = in_a_process(program + "log.error('and goes on')")
    assert done.returncode == 0
    assert [READ[format](line)["msg"] for line in done.stderr.splitlines()] == ["and goes on"]


def test_repeated_lines_are_dropped() -> None:
    """Of every logger: a library that clients make log would fill the disk too."""
    program = "logs.configure('logfmt', 'info')\nfor n in range(1000):\n"
    program += " log.error('it failed', extra=fields(error='here'))\n"
    program += " logging.getLogger('asyncio').warning('request %s', n)\n"
    program += "log.error('it failed', extra=fields(error='there'))"
    logged = [read_logfmt(line) for line in in_a_process(program).stderr.splitlines()]
    assert [(line["msg"], line.get("error")) for line in logged] == [
        ("it failed", "here"),
        ("logged by a library", None),
        ("it failed", "there"),
    ]


def test_a_repeated_line_is_written_once_a_minute_with_its_number(caplog: pytest.LogCaptureFixture) -> None:
    log, now_s = logging.Logger("test"), [100.0]
    log.addHandler(caplog.handler)
    log.addFilter(logs.RepeatFilter(lambda: now_s[0]))
    for now_s[0] in (100.0, 101.0, 102.0, 159.0):
        log.error("%s failed: %s", "a commit", "SQLITE_FULL")
        log.error("%s failed: %s", "reading", "SQLITE_FULL")
    for now_s[0] in (160.0, 161.0, 300.0):
        log.error("%s failed: %s", "a commit", "SQLITE_FULL")
    for n in range(1_000):
        log.error("another %d", n)
    assert caplog.messages[:5] == [
        "a commit failed: SQLITE_FULL",
        "reading failed: SQLITE_FULL",
        "a commit failed: SQLITE_FULL (repeated 3 times)",
        "a commit failed: SQLITE_FULL (repeated 1 times)",
        "another 0",
    ]
    assert len(caplog.messages) == 1_004


def test_logfmt() -> None:
    stream = io.StringIO()
    line = logs.LineFormatter(logs.FORMATS["logfmt"]).format(
        record("tally", "a b", n=1.5, yes=True, word="plain", path="/a/b")
    )
    stream.write(line)
    assert re.fullmatch(rf'time={TIME} level=error msg="a b" n=1\.5 yes=true word=plain path=/a/b', stream.getvalue())
