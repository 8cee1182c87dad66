"""The process that checks or imports an uploaded file (tally/api/uploads.py).

A process of its own, because reading lines would delay requests in the server's. It writes to the database as the
command `import` does, beside the server. It is the command UPLOAD_WORKER (tally/resources.py), whose
argument is a Job as JSON. It prints JSON lines: {"at": position in the file}, {"message": text}, and at its end
{"preview": ...}, {"imported": ...} or {"failed": reason}.

It reads the file itself (not tally/transfer/reader_process.py), so that the server keeps a processor core.

It ends as on Ctrl-C when its standard input ends: its turn is over, the server has cancelled it, or has itself ended.
What was imported stays, and the import is interrupted; a check returns what it has found so far.
"""

import os
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from tally.events.geoip import CountryDataError
from tally.storage.database import BadDatabase, open_database
from tally.timestamps import DAY_MS, iso
from tally.transfer.files import BadFile, open_source
from tally.transfer.importer import Bounds, Preview, Summary, import_events, preview_events

_SHOWN_EVERY_S = 0.2
# Empty lines count too. A line of an access log takes 250 bytes.
_MAX_LINES = 100_000_000


class Job(NamedTuple):
    """What is done: with the file of an upload, whose name was `name`, and the website of a number."""

    db: str
    website: int
    format: str
    file: str
    name: str
    now_ms: int
    geoip_db: str | None
    is_preview: bool
    min_free_bytes: int


def main(words: Sequence[str]) -> None:
    """Do the job of the first argument."""
    threading.Thread(target=_end_with_input, daemon=True).start()
    job = Job(**orjson.loads(words[0]))
    try:
        _print(_shown(_run(job)))
    except (BadFile, BadDatabase, CountryDataError) as failure:
        # The reason names the file by its path on the server.
        _print({"failed": str(failure).replace(job.file, job.name)})
    except (OSError, sqlite3.Error) as failure:
        _print({"failed": f"The database or the file cannot be used: {failure}. Continue when that is fixed."})
    except KeyboardInterrupt:
        _print({"failed": "interrupted"})


def _end_with_input() -> None:
    # Not sys.stdin, whose lock an ending interpreter would wait for.
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGINT)


def _run(job: Job) -> Preview | Summary:
    shown_s = 0.0

    def progress(position: int) -> None:
        nonlocal shown_s
        if time.monotonic() - shown_s > _SHOWN_EVERY_S:
            shown_s = time.monotonic()
            _print({"at": position})

    def report(words: str) -> None:
        _print({"message": words})

    connection = open_database(Path(job.db), create=False)
    geoip_db = Path(job.geoip_db) if job.geoip_db else None
    common: dict[str, Any] = {"now_ms": job.now_ms, "format": job.format, "geoip_db": geoip_db}
    common |= {"report": report, "progress": progress, "bounds": Bounds(job.min_free_bytes, _MAX_LINES)}
    try:
        with open_source(job.file) as source:
            if job.is_preview:
                return preview_events(connection, job.website, source, shows_part=True, **common)
            return import_events(connection, job.website, source, file=job.name, **common)
    finally:
        connection.close()


def _shown(result: Preview | Summary) -> dict[str, Any]:
    if isinstance(result, Summary):
        return {"imported": result._asdict()}
    days = sorted({*result.days, *result.sums})
    preview = {
        "events": sum(result.days.values()),
        "sums": sum(result.sums.values()),
        "days": len(days),
        "first_day": iso(days[0] * DAY_MS)[:10] if days else None,
        "last_day": iso(days[-1] * DAY_MS)[:10] if days else None,
        "known": result.known + result.copies,
        "known_sums": result.known_sums,
        "crawls": result.crawls,
        "rejected": result.bad,
        "lines": result.lines,
        "complete": result.is_complete,
    }
    return {"preview": preview}


def _print(what: dict[str, Any]) -> None:
    sys.stdout.buffer.write(orjson.dumps(what) + b"\n")
    sys.stdout.buffer.flush()
