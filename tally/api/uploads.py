"""Files that are uploaded to be imported, one per website, and the processes that check and import them.

An upload is two files in the directory `<database>.uploads`: its bytes, and its name, format and size as JSON. They
are named by the public id of the website: another database at the same path has other websites of the same numbers. The
browser sends it in pieces, each with the byte at which it begins, so that an upload continues at the byte reached, also
after a
restart of the server. When it is complete, a process checks it (tally/transfer/upload_worker.py); when the
owner agrees, another imports it. The files are deleted when the import is complete, when the upload is removed, when
its website is deleted, and after KEEP_S without a change.

Processes run one at a time, and accounts take turns (tally/storage/fair_queue.py). After TURN_S a process ends where
another one waits: an import continues in its next turn, a check shows what it has found. So a file that takes hours
delays another account by a minute. A file that gets no further in a turn, or takes MAX_S in all, is interrupted.

The messages of a process are in memory. After a restart a complete upload is checked again. Where its import had begun,
it is `interrupted` and can be continued.
"""

import asyncio
import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from tally import errors
from tally.clock import Clock
from tally.errors import ApiError, log, where_it_failed
from tally.events.website import Website
from tally.resources import UPLOAD_ENDINGS, UPLOAD_WORKER, program, uploads_directory
from tally.settings import Settings
from tally.storage.disk_space import TOO_LITTLE_SPACE, disk_space
from tally.storage.fair_queue import FairQueue

# nginx refuses bodies of more than 1 MiB by default.
MAX_PIECE_BYTES = 1_000_000
KEEP_S = 86_400
_EXPIRED_EVERY_S = 600
TURN_S = 60.0
_START_S = 60.0
# Of 100 million lines, at 10,000 a second; an import of a gigabyte takes a quarter of an hour.
MAX_S = 4 * 3_600.0
# It ends with its input at once; the database may be locked, or its disk slow.
_END_S = 15.0
_MAX_MESSAGES = 50
# A message of the worker quotes a field of a line.
_MAX_LINE_BYTES = 65_536
_TURN_OVER = ""
RECEIVING, WAITING, CHECKING, CHECKED, IMPORTING, INTERRUPTED, FAILED = (
    *("receiving", "waiting", "checking", "checked", "importing", "interrupted", "failed"),
)


@dataclass
class Upload:
    """An upload. `position` is in bytes of the file; `preview`, `messages` and `error` come from the process."""

    website: Website
    name: str
    format: str
    size: int
    received: int = 0
    is_begun: bool = False
    state: str = RECEIVING
    position: int = 0
    preview: dict[str, Any] | None = None
    messages: list[str] = field(default_factory=list)
    error: str = ""
    task: asyncio.Task[None] | None = None
    # How long its processes ran, without the checks.
    used_s: float = 0.0

    def shown(self) -> dict[str, Any]:
        """Return the upload as the API shows it."""
        names = ("name", "format", "size", "received", "state", "position", "preview", "messages", "error")
        return {name: getattr(self, name) for name in names}


class Uploads:
    """The uploads of a server. Used by the event loop alone. `done` is called after each import."""

    def __init__(self, settings: Settings, clock: Clock, done: Callable[[], None]) -> None:
        self._db, self._geoip_db, self._clock, self._done = settings.db.resolve(), settings.geoip_db, clock, done
        self.max_bytes = settings.max_upload * 1_000_000
        self._min_free_bytes = settings.min_free_disk * 1_000_000
        self._directory = uploads_directory(self._db)
        self._uploads: dict[str, Upload] = {}
        # One slot, for one process; an account has one upload per website.
        self._turns: FairQueue[None] = FairQueue([None], max_waiting=1 << 30)
        self._expired_s = 0.0
        self._ids: set[str] = set()

    def of(self, website: Website) -> Upload | None:
        """Return the upload of a website; a complete one that a server before this one received is checked again."""
        if website.id not in self._uploads:
            with suppress(OSError, ValueError, TypeError):
                stored = orjson.loads(self._about(website).read_bytes())
                upload = Upload(website, **stored, received=self._file(website).stat().st_size)
                self._uploads[website.id] = upload
                if upload.is_begun:
                    upload.state = INTERRUPTED
                elif upload.received == upload.size:
                    self._start(upload, is_preview=True)
        return self._uploads.get(website.id)

    def begin(self, website: Website, name: str, format: str, size: int) -> Upload:
        """Begin an upload. Raises ApiError 400 where there is one already, 413 and 503 where it is too large."""
        if self.of(website) is not None:
            raise _refused("upload", "This website has an upload already: import or remove it first.")
        if size > self.max_bytes:
            message = f"The file has {size:,} bytes, more than --max-upload allows ({self.max_bytes:,})."
            raise ApiError(errors.BODY_TOO_LARGE, f"{message} Compress it, split it, or import it with the command.")
        self._directory.mkdir(mode=0o700, exist_ok=True)
        self._check_disk(size)
        upload = Upload(website, name, format, size)
        self._file(website).touch(0o600)
        os.truncate(self._file(website), 0)
        self._save(upload)
        self._uploads[website.id] = upload
        return upload

    def add(self, upload: Upload, offset: int, piece: bytes) -> None:
        """Append a piece that begins at a byte. Raises ApiError 400 and 503."""
        if upload.state != RECEIVING or offset != upload.received or offset + len(piece) > upload.size:
            message = f"offset must be the number of bytes received, {upload.received} (got {offset}), within the file."
            raise _refused("offset", message)
        self._check_disk(len(piece))
        with self._file(upload.website).open("r+b") as file:
            # After a piece that was written in part, as when the disk was full.
            file.seek(offset)
            file.write(piece)
        upload.received += len(piece)
        if upload.received == upload.size:
            self._start(upload, is_preview=True)

    def refuse_unchecked(self, upload: Upload) -> None:
        """Raise ApiError 400 unless the upload is checked and can be imported."""
        if upload.state not in (CHECKED, INTERRUPTED):
            raise _refused("upload", f"The upload is {upload.state}: wait until it is checked.")

    def run(self, upload: Upload) -> None:
        """Import a checked upload, or continue its import. Raises ApiError 400."""
        self.refuse_unchecked(upload)
        upload.is_begun, upload.used_s = True, 0.0
        self._save(upload)
        self._start(upload, is_preview=False)

    async def remove(self, upload: Upload) -> None:
        """Delete the files of an upload, once its process has ended. What was imported stays."""
        await self._end([upload])
        self._discard(upload)

    async def close(self) -> None:
        """End all processes: the server ends."""
        await self._end(self._uploads.values())

    def _end_of(self, upload: Upload, task: asyncio.Task[None]) -> None:
        self._discard(upload)

    async def _end(self, uploads: Iterable[Upload]) -> None:
        tasks = [upload.task for upload in uploads if upload.task is not None]
        for task in tasks:
            # Cancelled again, it would no longer wait for its process.
            if not task.cancelling():
                task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def expire(self, ids: set[str]) -> None:
        """Delete the files of websites that are not among `ids`, and now and then those without a change for KEEP_S."""
        is_due = not self._expired_s or time.monotonic() - self._expired_s >= _EXPIRED_EVERY_S
        if not is_due and self._ids <= ids:
            return
        self._expired_s, self._ids = time.monotonic(), ids
        for gone in [upload for id, upload in self._uploads.items() if id not in ids]:
            if gone.task is not None and not gone.task.cancelling():
                gone.task.add_done_callback(partial(self._end_of, gone))
                gone.task.cancel()
        with suppress(OSError):
            for path in list(self._directory.iterdir()):
                upload = self._uploads.get(path.stem)
                is_old = abs(time.time() - path.stat().st_mtime) > KEEP_S
                is_ours = path.suffix in UPLOAD_ENDINGS
                if is_ours and (upload is None or upload.task is None) and (path.stem not in ids or is_old):
                    path.unlink()
                    self._uploads.pop(path.stem, None)

    # --- files

    def _file(self, website: Website) -> Path:
        return self._directory / f"{website.id}.part"

    def _about(self, website: Website) -> Path:
        return self._directory / f"{website.id}.json"

    def _save(self, upload: Upload) -> None:
        kept = {name: getattr(upload, name) for name in ("name", "format", "size", "is_begun")}
        self._about(upload.website).write_bytes(orjson.dumps(kept))

    def _discard(self, upload: Upload) -> None:
        if self._uploads.get(upload.website.id) is not upload:
            return
        for path in (self._about(upload.website), self._file(upload.website)):
            path.unlink(missing_ok=True)
        self._uploads.pop(upload.website.id, None)

    def _check_disk(self, more_bytes: int) -> None:
        if not disk_space(self._db, self._min_free_bytes).allows_import(more_bytes):
            raise ApiError(errors.STORAGE_UNAVAILABLE, TOO_LITTLE_SPACE, retry_after_s=60)

    # --- processes

    def _start(self, upload: Upload, *, is_preview: bool) -> None:
        upload.state, upload.position, upload.error, upload.messages = WAITING, 0, "", []
        upload.task = asyncio.create_task(self._process(upload, is_preview))

    async def _process(self, upload: Upload, is_preview: bool) -> None:
        try:
            output = await self._turn(upload, is_preview)
            while output.get("failed") == _TURN_OVER:
                output = await self._turn(upload, is_preview)
        except (OSError, ValueError) as failure:
            log.error("the import of an uploaded file failed: %s", where_it_failed(failure))
            output = {}
        upload.task = None
        if "preview" in output:
            upload.state, upload.preview = CHECKED, output["preview"]
        elif "imported" in output:
            self._discard(upload)
        else:
            # Where nothing was imported there is nothing to continue.
            upload.state = FAILED if is_preview else INTERRUPTED
            upload.error = output.get("failed", "The process that reads the file has ended unexpectedly.")
        self._done()

    async def _turn(self, upload: Upload, is_preview: bool) -> dict[str, Any]:
        """Run a process once it is the account's turn; return its last line, or _TURN_OVER as its failure."""
        upload.state, account = WAITING, upload.website.account
        await self._turns.acquire(account)
        begun_s = time.monotonic()
        try:
            upload.state = CHECKING if is_preview else IMPORTING
            return await self._run(upload, is_preview)
        finally:
            upload.used_s += time.monotonic() - begun_s
            self._turns.release(None)

    async def _run(self, upload: Upload, is_preview: bool) -> dict[str, Any]:
        process = await self._started(upload, is_preview)
        assert process.stdout is not None
        output: dict[str, Any] = {}
        advanced, over = asyncio.Event(), asyncio.Event()
        turn = asyncio.create_task(self._end_turn(process, advanced, over, upload.used_s))
        try:
            async for line in process.stdout:
                output = orjson.loads(line)
                if "at" in output:
                    advanced.set()
                upload.position = output.get("at", upload.position)
                if "message" in output and len(upload.messages) < _MAX_MESSAGES:
                    upload.messages.append(output["message"])
        finally:
            turn.cancel()
            await asyncio.shield(_stop(process))
        if not over.is_set() or "preview" in output or "imported" in output:
            return output
        if upload.used_s + TURN_S > MAX_S:
            return {"failed": f"The file was read for {MAX_S / 3_600:.0f} hours: continue, or split it."}
        return {"failed": _TURN_OVER if advanced.is_set() else "No line was read in a minute: split the file."}

    async def _started(self, upload: Upload, is_preview: bool) -> asyncio.subprocess.Process:
        job = {
            "db": str(self._db),
            "website": upload.website.number,
            "format": upload.format,
            "file": str(self._file(upload.website)),
            "name": upload.name,
            "now_ms": self._clock.wall_ms(),
            "geoip_db": str(self._geoip_db.resolve()) if self._geoip_db else None,
            "is_preview": is_preview,
            "min_free_bytes": self._min_free_bytes,
        }
        start, directory = program()
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(
            *(*start, UPLOAD_WORKER, orjson.dumps(job).decode()),
            stdin=pipe,
            stdout=pipe,
            limit=_MAX_LINE_BYTES,
            env=os.environ | {"PYTHONPATH": str(directory)},
        )

    async def _end_turn(
        self, process: asyncio.subprocess.Process, advanced: asyncio.Event, over: asyncio.Event, used_s: float
    ) -> None:
        """End the process after TURN_S where another one waits, and after MAX_S in all."""
        begun_s = time.monotonic()
        # Reading up to where it continues is not part of its turn, but bounded too.
        with suppress(TimeoutError):
            async with asyncio.timeout(_START_S):
                await advanced.wait()
        end_s, has_time = time.monotonic() + TURN_S, True
        while has_time:
            await asyncio.sleep(min(1.0, TURN_S))
            now_s = time.monotonic()
            has_time = (now_s < end_s or not self._turns.waiting) and used_s + now_s - begun_s < MAX_S
        over.set()
        assert process.stdin is not None
        process.stdin.close()
        await asyncio.sleep(_END_S)
        process.kill()


async def _stop(process: asyncio.subprocess.Process) -> None:
    """Return once the process has ended. It ends with its input, and may wait for its output to be read."""
    if process.stdin is not None:
        process.stdin.close()
    try:
        async with asyncio.timeout(_END_S):
            await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()


def _refused(field: str, message: str) -> ApiError:
    return ApiError(errors.INVALID_FIELD, message, field=field)
