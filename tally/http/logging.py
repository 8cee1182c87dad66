"""The log: one line for each record on standard error, as logfmt or JSON, with the time in UTC.

The log contains no personal data of visitors, whatever clients send. Lines of the audit log in it have the email
addresses of the people who sign in (tally/maintenance/audit_log.py).
- Other records of the logger `tally` are written with their message and fields (`extra=fields(...)`). By convention
  these hold only constant texts, numbers, paths from the settings and names of errors.
- Records of any other logger (asyncio, aiohttp, warnings) are written with logger and place only: their messages may
  quote a request. Exceptions are written with type and places in the code, without their message, for the same reason.
- Exceptions that reach no logger are logged too: those of the event loop, of threads, of finalizers, and of the
  process.

The same line is written once a minute (`RepeatFilter`): a failing disk makes every request fail, and its log would fill
the disk and hide everything else. Each record is a single line in ASCII, with other characters escaped. A record that
cannot be formatted or written is dropped; the server continues.
"""

import asyncio
import contextlib
import json
import logging
import re
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from tally.errors import fields, log, where_it_failed

APP_LOGGER = log.name
# A place in the code takes about 60 characters, and the longest stack has about 30.
MAX_VALUE_CHARACTERS = 4_000
# Long enough that repeats do not fill a disk, short enough that the log shows that a problem continues.
REPEAT_S = 60.0
# More than the number of places in the code that log.
MAX_REPEATED_LINES = 200
_PLAIN = re.compile(r"[!#-<>-\[\]-~]+")
# How asyncio's messages to the exception handler begin; what follows may quote data.
_LOOP_MESSAGES = (
    *("Task exception was never retrieved", "Future exception was never retrieved", "Task was destroyed"),
    *("Exception in callback", "Fatal error", "Fatal read error", "Fatal write error", "socket.accept()"),
    *("Unhandled exception in client_connected_cb", "an error occurred during closing of asynchronous generator"),
)


class LineFormatter(logging.Formatter):
    """Formats a record as one line."""

    def __init__(self, encode: Callable[[dict[str, Any]], str]) -> None:
        super().__init__()
        self._encode = encode

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, without a line break."""
        values = {"time": _time(record.created)} | self.values(record)
        return self._encode({name: _short(value) for name, value in values.items() if value is not None})

    def values(self, record: logging.LogRecord) -> dict[str, Any]:
        """Return the values of a record that are written, except its time."""
        values: dict[str, Any] = {"level": record.levelname.lower()}
        if record.name == APP_LOGGER or record.name.startswith(APP_LOGGER + "."):
            values["msg"] = _message(record)
            values |= getattr(record, "fields", {})
        else:
            values["msg"] = "logged by a library"
            values["logger"] = record.name if re.fullmatch(r"[\w.]{1,64}", record.name, re.ASCII) else "other"
            values["where"] = f"{record.pathname}:{record.lineno} {record.funcName}"
        if record.exc_info and record.exc_info[1] is not None:
            values["error"] = where_it_failed(record.exc_info[1])
        return values

    def key(self, record: logging.LogRecord) -> str:
        """Return a text that is equal for records with equal lines. Never raises, because a filter must not."""
        try:
            return str(self.values(record))
        except Exception:
            return str(record.msg)


class RepeatFilter(logging.Filter):
    """Drops a line that was written less than REPEAT_S ago, and adds the number of dropped ones to the next.

    `now_s` is a monotonic clock; records are equal when their `key` is.
    """

    def __init__(
        self,
        now_s: Callable[[], float] = time.monotonic,
        key: Callable[[logging.LogRecord], str] = logging.LogRecord.getMessage,
    ) -> None:
        super().__init__()
        self._now_s, self._key = now_s, key
        # key -> until when it is dropped, and how often it was.
        self._dropped: dict[str, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the record is written."""
        key, now_s = self._key(record), self._now_s()
        until_s, times = self._dropped.get(key, (now_s, 0))
        if now_s < until_s:
            self._dropped[key] = until_s, times + 1
            return False
        if times:
            record.msg, record.args = "%s (repeated %d times)", (record.getMessage(), times)
        if len(self._dropped) >= MAX_REPEATED_LINES:
            self._dropped.clear()
        self._dropped[key] = now_s + REPEAT_S, 0
        return True


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:
        # The arguments do not fit the format, which is a bug; the format alone is still useful.
        return str(record.msg)


def _time(seconds: float) -> str:
    whole = int(seconds)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + f".{int((seconds - whole) * 1000):03}Z"


def _short(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    return str(value)[:MAX_VALUE_CHARACTERS]


def logfmt(values: dict[str, Any]) -> str:
    """Return the values as logfmt: `time=... level=error msg="some text" n=3`."""
    return " ".join(f"{name}={_logfmt_value(value)}" for name, value in values.items())


def _logfmt_value(value: Any) -> str:
    if not isinstance(value, str):
        return json.dumps(value)
    return value if _PLAIN.fullmatch(value) else json.dumps(value)


FORMATS: dict[str, Callable[[dict[str, Any]], str]] = {"logfmt": logfmt, "json": json.dumps}


def configure(format: str, level: str) -> logging.Handler:
    """Write all records of this process, and its unhandled exceptions, to standard error in this format."""
    handler = logging.StreamHandler()
    formatter = LineFormatter(FORMATS[format])
    handler.setFormatter(formatter)
    handler.addFilter(RepeatFilter(key=formatter.key))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # Otherwise a record that cannot be formatted is printed with all its values.
    logging.raiseExceptions = False
    logging.captureWarnings(True)
    sys.excepthook = _log_process_failure
    sys.unraisablehook = lambda args: _log_exception("unraisable exception", args.exc_value)
    threading.excepthook = lambda args: _log_exception("thread failed", args.exc_value)
    return handler


def print_notice(format: str, text: str) -> None:
    """Print a text for the administrator at the terminal; as a log line where the log is JSON.

    What cannot be written, such as to a full disk, is lost: the server does not end because of its log.
    """
    if format == "json":
        text = json.dumps({"time": _time(time.time()), "level": "info", "msg": text})
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr, flush=True)


def log_loop_failure(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an exception of the event loop. This is its exception handler; what asyncio quotes is left out."""
    message = str(context.get("message", ""))
    text = next((known for known in _LOOP_MESSAGES if message.startswith(known)), "an exception")
    task = context.get("task") or context.get("future")
    coroutine = task.get_coro() if isinstance(task, asyncio.Task) else None
    _log_exception(f"event loop: {text}", context.get("exception"), task=getattr(coroutine, "__qualname__", None))


def _log_process_failure(kind: type[BaseException], failure: BaseException, trace: TracebackType | None) -> None:
    if not isinstance(failure, KeyboardInterrupt):
        _log_exception("process failed", failure)


def _log_exception(text: str, failure: BaseException | None, **named: Any) -> None:
    error = None if failure is None else where_it_failed(failure)
    log.error(text, extra=fields(error=error, **named))
