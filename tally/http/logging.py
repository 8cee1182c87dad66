"""What a running server says: a line each on standard error, as logfmt or JSON, with the time in UTC.

Nothing personal is in it, whatever is thrown at the server:
- Written is what rooms of ours say (the logger `tally`): constant words, numbers, paths of the settings, names of
  errors, and fields (`extra=fields(...)`) of the same kind.
- Of whoever else logs (asyncio, aiohttp, any library, a warning) it is said who and where, never what: such messages
  quote what was sent. Of a failure its type and places in the code, never its own words, which do the same.
- What never reaches a logger is caught: the loop's failures, those of threads, of the collector, and of the process.

The same line is said once a minute (tally/http/log_dedup.py). A line is one line, in ASCII: whatever is in a value is
escaped. A line that cannot be made is left out, and so is one that cannot be written; the server goes on.
"""

import asyncio
import json
import logging
import re
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, TextIO

from tally.errors import fields, log, where_it_failed
from tally.http.log_dedup import Repeats

OURS = log.name
# our choice: a place in the code is about 60 characters, the longest way to one about thirty of them.
MOST_CHARACTERS = 4_000
_PLAIN = re.compile(r"[!#-<>-\[\]-~]+")
# The beginnings of what asyncio says to its handler; behind them it quotes.
_OF_THE_LOOP = (
    *("Task exception was never retrieved", "Future exception was never retrieved", "Task was destroyed"),
    *("Exception in callback", "Fatal error", "Fatal read error", "Fatal write error", "socket.accept()"),
    *("Unhandled exception in client_connected_cb", "an error occurred during closing of asynchronous generator"),
)


class Lines(logging.Formatter):
    """Makes a line of a record."""

    def __init__(self, write: Callable[[dict[str, Any]], str]) -> None:
        super().__init__()
        self._write = write

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        said = {"time": _time(record.created)} | self.said(record)
        return self._write({name: _short(value) for name, value in said.items() if value is not None})

    def said(self, record: logging.LogRecord) -> dict[str, Any]:
        """What a record says, but when."""
        said: dict[str, Any] = {"level": record.levelname.lower()}
        if record.name == OURS or record.name.startswith(OURS + "."):
            said["msg"] = _message(record)
            said |= getattr(record, "fields", {})
        else:
            said["msg"] = "logged by a library"
            said["logger"] = record.name if re.fullmatch(r"[\w.]{1,64}", record.name, re.ASCII) else "other"
            said["where"] = f"{record.pathname}:{record.lineno} {record.funcName}"
        if record.exc_info and record.exc_info[1] is not None:
            said["error"] = where_it_failed(record.exc_info[1])
        return said

    def key(self, record: logging.LogRecord) -> str:
        """The same for records that say the same. A filter must not fail: whoever logs would."""
        try:
            return str(self.said(record))
        except Exception:
            return str(record.msg)


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:
        # Words and values that do not fit: a fault of ours, and the words alone still say something.
        return str(record.msg)


def _time(seconds: float) -> str:
    whole = int(seconds)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + f".{int((seconds - whole) * 1000):03}Z"


def _short(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    return str(value)[:MOST_CHARACTERS]


def logfmt(said: dict[str, Any]) -> str:
    """`time=... level=error msg="the words" n=3`."""
    return " ".join(f"{name}={_logfmt_value(value)}" for name, value in said.items())


def _logfmt_value(value: Any) -> str:
    if not isinstance(value, str):
        return json.dumps(value)
    return value if _PLAIN.fullmatch(value) else json.dumps(value)


FORMATS: dict[str, Callable[[dict[str, Any]], str]] = {"logfmt": logfmt, "json": json.dumps}


def set_up(format: str, level: str, stream: TextIO | None = None) -> logging.Handler:
    """From now on everything that is logged in this process is written so, to standard error."""
    handler = logging.StreamHandler(stream or sys.stderr)
    lines = Lines(FORMATS[format])
    handler.setFormatter(lines)
    handler.addFilter(Repeats(of=lines.key))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # What cannot be written is otherwise shown with all its values.
    logging.raiseExceptions = False
    logging.captureWarnings(True)
    sys.excepthook = _of_the_process
    sys.unraisablehook = lambda told: _say("a failure that nobody could be told of", told.exc_value)
    threading.excepthook = lambda told: _say("a thread failed", told.exc_value)
    return handler


def announce(format: str, words: str) -> None:
    """Words for people at the start; a line of the log where a machine reads it."""
    if format == "json":
        words = json.dumps({"time": _time(time.time()), "level": "info", "msg": words})
    print(words, file=sys.stderr, flush=True)


def of_the_loop(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """The loop's exception handler: what failed where, without what asyncio quotes."""
    message = str(context.get("message", ""))
    words = next((words for words in _OF_THE_LOOP if message.startswith(words)), "a failure")
    task = context.get("task") or context.get("future")
    coroutine = task.get_coro() if isinstance(task, asyncio.Task) else None
    _say(f"in the loop: {words}", context.get("exception"), task=getattr(coroutine, "__qualname__", None))


def _of_the_process(kind: type[BaseException], failure: BaseException, trace: TracebackType | None) -> None:
    if not isinstance(failure, KeyboardInterrupt):
        _say("the process fails", failure)


def _say(words: str, failure: BaseException | None, **named: Any) -> None:
    error = None if failure is None else where_it_failed(failure)
    log.error(words, extra=fields(error=error, **named))
