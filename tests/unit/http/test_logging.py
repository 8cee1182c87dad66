"""What the server logs: one line a thing, readable by machines, and nobody in it, whatever is thrown at it.

"structured logs in logfmt or JSON without personal data". What a whole stay of a server leaves in its log is searched
in tests/robustness/test_privacy.py; here failures of every kind, on purpose, quote what a visitor sent.
"""

import http.client
import io
import json
import logging
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tally.errors import fields
from tally.http import logging as logs
from tests.support.app import ROOT
from tests.support.process import Serve, clean_environment, until

CANARY = "canary-203.0.113.77-jane.doe@example.com-tly_0123456789abcdef"
TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
by_format = pytest.mark.parametrize("format", logs.FORMATS)
TEXTS = st.text(st.characters(codec=None), max_size=60) | st.sampled_from(
    ("", " ", '"', "a=b", "a\nb", "\x1b[2J", "\u2028")
)


def read_logfmt(line: str) -> dict[str, Any]:
    """A line as any reader of logfmt understands it: names, and values plain or quoted as in JSON."""
    said: dict[str, Any] = {}
    rest = line
    while rest:
        match = re.match(r'([a-z_]+)=("(?:[^"\\]|\\.)*"|[^ "]+)(?: |$)', rest)
        assert match, line
        assert match[1] not in said
        said[match[1]] = json.loads(match[2]) if match[2].startswith('"') else match[2]
        rest = rest[match.end() :]
    return said


READ = {"logfmt": read_logfmt, "json": json.loads}


def written(format: str, record: logging.LogRecord) -> dict[str, Any]:
    """A record as it is written and read again."""
    line = logs.Lines(logs.FORMATS[format]).format(record)
    assert line.isascii()
    assert line.isprintable(), "one line, and nothing that moves a terminal's cursor"
    said: dict[str, Any] = READ[format](line)
    assert re.fullmatch(TIME, said["time"])
    assert list(said)[:3] == ["time", "level", "msg"]
    return said


def record(
    name: str, words: object, *values: Any, failure: BaseException | None = None, **named: Any
) -> logging.LogRecord:
    made = logging.getLogger(name).makeRecord(
        name,
        logging.ERROR,
        "/somewhere/code.py",
        7,
        words,
        values,
        None,
        "function",
        fields(**named) if named else None,
    )
    made.exc_info = (type(failure), failure, None) if failure else None
    return made


# Our own words


@by_format
@given(TEXTS, TEXTS)
def test_words_come_out_as_they_went_in(format: str, words: str, value: str) -> None:
    said = written(format, record("tally", "it says %s", words, what=value, number=3, nothing=None))
    assert said["msg"] == f"it says {words}"
    assert said["what"] == value
    assert said["number"] == ("3" if format == "logfmt" else 3)
    assert "nothing" not in said
    assert said["level"] == "error"


@by_format
def test_very_long_words_are_cut(format: str) -> None:
    assert len(written(format, record("tally", "x" * 100_000, what="y" * 100_000))["what"]) == logs.MOST_CHARACTERS


@by_format
def test_words_that_do_not_fit_their_values(format: str) -> None:
    """A fault of ours: something is said all the same, and not the values."""
    assert written(format, record("tally", "%d of %s", CANARY)) | {"time": ""} == {
        "time": "",
        "level": "error",
        "msg": "%d of %s",
    }


@by_format
def test_of_a_failure_type_and_places(format: str) -> None:
    try:
        raise ValueError(CANARY)
    except ValueError as failure:
        said = written(format, record("tally.part", "it failed", failure=failure))
    assert re.fullmatch(r"ValueError < .*test_logs\.py:\d+ test_of_a_failure_type_and_places", said["error"])
    assert CANARY not in str(said)


def test_times_are_utc() -> None:
    made = record("tally", "x")
    made.created = 1_795_003_200.9996
    assert written("json", made)["time"] == "2026-11-18T12:00:00.999Z"


# Others' words


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
def test_others_are_named_and_not_quoted(
    format: str, name: str, words: str, values: tuple[Any, ...], failure: BaseException | None
) -> None:
    said = written(format, record(name, words, *values, failure=failure, client=CANARY))
    assert CANARY not in str(said)
    assert said["msg"] == "logged by a library"
    assert said["where"] == "/somewhere/code.py:7 function"
    assert said["logger"] in (name, "other")
    assert ("error" in said) == (failure is not None)


# A real server, to which all of it happens

FAILING = """
import asyncio, gc, logging, sys, threading, warnings
from pathlib import Path
from aiohttp import web
from analytics_server import build_app
from tally.serving import serve
from tally.settings import Settings

kept = []

class Clumsy:
    def __init__(self, told):
        self.told = told
    def __del__(self):
        raise ValueError(self.told)

async def later(told):
    raise ValueError(told)

def soon(told):
    raise ValueError(told)

class Bad(asyncio.Protocol):
    def data_received(self, data):
        raise ValueError(data)

async def fails(request):
    told = await request.text() + str(dict(request.headers))
    loop, kind = asyncio.get_running_loop(), request.match_info["kind"]
    if kind == "handler":
        raise ValueError(told)
    if kind == "task":
        loop.create_task(later(told))
    if kind == "callback":
        loop.call_soon(soon, told)
    if kind == "future":
        loop.create_future().set_exception(ValueError(told))
    if kind == "thread":
        threading.Thread(target=soon, args=(told,), name=told).start()
    if kind == "collector":
        Clumsy(told)
    if kind == "library":
        logging.getLogger("asyncio").error("%s of " + told, told)
        logging.getLogger(told).error(told)
        logging.error(told)
    if kind == "warning":
        warnings.warn(told)
    if kind == "odd":
        logging.getLogger("tally").error("%d %d", told)
    if kind == "protocol":
        server = await loop.create_server(Bad, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(told.encode())
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
WORDS = {
    "handler": "500 on /fails/{kind}",
    "task": "in the loop: Task exception was never retrieved",
    "callback": "in the loop: Exception in callback",
    "future": "in the loop: Future exception was never retrieved",
    "thread": "a thread failed",
    "collector": "a failure that nobody could be told of",
    "library": "asyncio",
    "warning": "py.warnings",
    "odd": "%d %d",
    "protocol": "in the loop: Fatal error",
}


def loops() -> Iterator[str]:
    yield "None"
    try:
        import uvloop  # noqa: F401

        yield UVLOOP
    except ImportError:
        pass


@by_format
@pytest.mark.parametrize("loop", list(loops()), ids=lambda loop: "asyncio" if loop == "None" else "uvloop")
def test_nobody_is_in_the_log(format: str, loop: str, tmp_path: Path) -> None:
    words = [sys.executable, "-c", FAILING.replace("LOOP", loop), str(tmp_path / "analytics.db"), format, CANARY]
    log = tmp_path / "stderr.log"
    with log.open("wb") as stderr:
        child = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=stderr, cwd=ROOT, env=clean_environment())
    assert child.stdout is not None
    at = urlsplit(child.stdout.readline().decode().removeprefix("listening on ").strip())

    def lines() -> list[dict[str, Any]]:
        found = log.read_text().splitlines()
        # What is for people is words there, unless the whole log is JSON.
        return [READ[format](line) for line in found if format == "json" or not line.startswith("set up Tally: ")]

    try:
        for kind, expected in WORDS.items():
            connection = http.client.HTTPConnection(at.hostname or "", at.port or 0, timeout=60)
            headers = {"User-Agent": CANARY, "X-Forwarded-For": CANARY, "Cookie": CANARY, "Authorization": CANARY}
            connection.request("POST", f"/fails/{kind}?{CANARY}", CANARY, headers)
            assert connection.getresponse().status == (500 if kind == "handler" else 200)
            connection.close()
            until(lambda expected=expected: expected in [line.get("logger", line["msg"]) for line in lines()], 60)
    finally:
        child.terminate()
        assert child.wait(timeout=60) == 1
        child.stdout.close()
    said = lines()
    assert said[-1]["msg"] == "the process fails"
    for line in said:
        if "error" in line:
            assert re.match(r"ValueError( < |$)", line["error"]), line
    assert CANARY not in log.read_text()
    assert "canary" not in log.read_text()
    assert "Traceback" not in log.read_text()


# Settings


def test_the_start_in_json(serve: Serve, tmp_path: Path) -> None:
    """Then the words at the start are lines of it too: whoever reads it need not know others."""
    server = serve("--log-format", "json")
    assert server.terminate() == 0
    said = [json.loads(line) for line in server.stderr().splitlines()]
    assert [line["msg"].split(":")[0] for line in said] == ["database", "set up Tally"]
    assert said[0]["msg"] == f"database: {tmp_path / 'analytics.db'}"


@pytest.mark.parametrize(("level", "levels"), [("debug", 4), ("info", 3), ("warning", 2), ("error", 1)])
def test_levels(level: str, levels: int) -> None:
    program = f"logs.set_up('logfmt', {level!r})\n"
    done = in_a_process(program + "for name in ('debug', 'info', 'warning', 'error'): getattr(log, name)('x')")
    assert (done.returncode, done.stdout) == (0, "")
    assert len(done.stderr.splitlines()) == levels


def in_a_process(program: str) -> "subprocess.CompletedProcess[str]":
    """Lines of Python in a process of their own: what is set up stays."""
    program = "import logging, sys\nfrom tally import logs\nfrom tally.errors import fields, log\n" + program
    words = [sys.executable, "-c", program]
    return subprocess.run(words, capture_output=True, text=True, cwd=ROOT, env=clean_environment())


def test_a_log_that_cannot_be_written_stops_nothing() -> None:
    """The disk with the log is full: the server goes on."""
    program = "sys.stderr = open('/dev/full', 'w')\nlogs.set_up('logfmt', 'info')\n"
    program += "for n in range(3): log.error('it failed: %s', n)\n"
    done = in_a_process(program + "print('goes on', flush=True)\n__import__('os')._exit(0)")
    assert (done.returncode, done.stdout, done.stderr) == (0, "goes on\n", "")


@by_format
def test_a_line_that_cannot_be_made_is_not_shown_otherwise(format: str) -> None:
    """Python's own way would be a traceback with all values."""
    program = f"logs.set_up({format!r}, 'info')\nclass Odd:\n def __repr__(self): raise ValueError({CANARY!r})\n"
    program += f"log.error('it failed: %s', {CANARY!r}, extra=fields(what=Odd(), who={CANARY!r}))\n"
    done = in_a_process(program + "log.error('and goes on')")
    assert done.returncode == 0
    assert [READ[format](line)["msg"] for line in done.stderr.splitlines()] == ["and goes on"]


def test_the_same_thing_is_said_once() -> None:
    """Whoever says it: a library that strangers make talk would fill the disk too."""
    program = "logs.set_up('logfmt', 'info')\nfor n in range(1000):\n"
    program += " log.error('it failed', extra=fields(error='here'))\n"
    program += " logging.getLogger('asyncio').warning('said by %s', n)\n"
    program += "log.error('it failed', extra=fields(error='there'))"
    said = [read_logfmt(line) for line in in_a_process(program).stderr.splitlines()]
    assert [(line["msg"], line.get("error")) for line in said] == [
        ("it failed", "here"),
        ("logged by a library", None),
        ("it failed", "there"),
    ]


def test_the_formats_are_those_of_the_setting() -> None:
    stream = io.StringIO()
    line = logs.Lines(logs.FORMATS["logfmt"]).format(record("tally", "a b", n=1.5, yes=True, word="plain", path="/a/b"))
    stream.write(line)
    assert re.fullmatch(rf'time={TIME} level=error msg="a b" n=1\.5 yes=true word=plain path=/a/b', stream.getvalue())
