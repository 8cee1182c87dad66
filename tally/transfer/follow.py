"""Follow an access log: import its lines as they are written (`import --follow`).

Whole lines are imported in pieces by tally/transfer/importer.py, which stores the position with them in one
transaction: after a kill at any moment no line is missing or counts twice. The import's row has, with the position, a
digest of the beginning of the file, by which the file is recognized under any name.

- Rotation by renaming: the open file is read until it has got nothing for _GRACE_S and the name has another file.
  After a restart it is looked for among the rotated files, whose names are the log's with a number or a date; those
  that are newer follow, then the log. By copying and truncating: the file no longer begins as it did, or is shorter,
  and the copy is read first.
- Each day of the website is an import of its own, which begins with the first line of the day in the transaction that
  completes the one before. So the key of its visitors is deleted with the day (docs/privacy.md).
- The database is open only while lines are imported.
"""

import io
import os
import re
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO, cast

import orjson

from tally.accounts.websites import day_offset_ms
from tally.storage import import_records
from tally.storage.database import transaction
from tally.timestamps import DAY_MS
from tally.transfer.access_log import line_ms
from tally.transfer.files import BadFile, Source
from tally.transfer.importer import Bounds, Progress, import_events

FORMAT = "access-log"
_POLL_S = 1.0
# After the signal to reopen its log, a web server writes the last lines of running requests into the old one.
_GRACE_S = 5.0
_HEAD_BYTES = 1_024
_PIECE_BYTES = 4 * 1_048_576


class _Window(io.RawIOBase):
    """The beginning of a file that grows."""

    def __init__(self, file: BinaryIO, end: int) -> None:
        super().__init__()
        self._file, self._end, self._at = file, end, 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to a byte; return it."""
        self._at = offset + (0, self._at, self._end)[whence]
        return self._at

    def tell(self) -> int:
        """Return the position."""
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Read bytes up to the end; return their number."""
        block = os.pread(self._file.fileno(), min(len(buffer), max(0, self._end - self._at)), self._at)
        buffer[: len(block)] = block
        self._at += len(block)
        return len(block)


class Follower:
    """Imports a log into a website. `connect` opens the database; `report` takes messages."""

    def __init__(
        self,
        path: Path,
        website: int,
        connect: Callable[[], AbstractContextManager[sqlite3.Connection]],
        *,
        geoip_db: Path | None,
        bounds: Bounds,
        now_ms: Callable[[], int],
        report: Callable[[str], None],
    ) -> None:
        self._path, self._website, self._connect = path, website, connect
        self._geoip_db, self._bounds, self._now_ms, self._report = geoip_db, bounds, now_ms, report
        self._digest = blake2b(os.fsencode(path.absolute()), digest_size=16, person=b"follow").hexdigest()
        self._file: BinaryIO | None = None
        with connect() as connection:
            self._at = self._stored(connection) or Progress(now_ms())
            self._offset_ms = day_offset_ms(connection, website)

    def run(self) -> None:
        """Import what the log has and gets, until KeyboardInterrupt. Raises BadFile."""
        try:
            while True:
                if not self.step():
                    time.sleep(_POLL_S)
        finally:
            with suppress(sqlite3.Error), self._connect() as connection, transaction(connection):
                if stored := import_records.unfinished(connection, self._website, FORMAT, self._digest):
                    import_records.end(connection, self._website, stored[0], import_records.INTERRUPTED)
            self._close()

    def step(self) -> bool:
        """Import the next piece, or turn to the next file; return False where there is nothing to do yet."""
        if self._file is None and not self._open():
            return False
        assert self._file is not None
        status = os.fstat(self._file.fileno())
        size = status.st_size
        if not self._is_same(self._file, size):
            self._close()
            return True
        if self._take(self._file, size):
            return True
        if self._is_named(self._file) or time.time() - status.st_mtime < _GRACE_S:
            return False
        if size > self._at.bytes:
            self._import(self._file, size, self._at.day)
        self._turn(self._file)
        return True

    # --- files

    def _open(self) -> bool:
        """Open the file that was read before, or the log; return whether there is one."""
        if self._at.head:
            for path in (self._path, *self._rotated()):
                with suppress(FileNotFoundError):
                    file = path.open("rb")
                    if self._is_same(file, os.fstat(file.fileno()).st_size):
                        self._file = file
                        return True
                    file.close()
            self._report(
                f"the log that was read up to byte {self._at.bytes:,} is neither {self._path} nor a rotated file beside"
                " it: if it was compressed, import that file without --follow, which counts no line twice"
            )
            self._begin_file()
        with suppress(FileNotFoundError):
            self._file = self._path.open("rb")
            if os.pread(self._file.fileno(), 2, 0) == b"\x1f\x8b":
                raise BadFile(f"{self._path} is compressed: follow the log that the server writes.")
        return self._file is not None

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file = None

    def _is_same(self, file: BinaryIO, size: int) -> bool:
        """Return whether a file begins with what was read."""
        length = int(self._at.head.partition(":")[0] or 0)
        return size >= self._at.bytes and self._at.head in ("", _head(file, length))

    def _is_named(self, file: BinaryIO) -> bool:
        """Return whether a file has the name of the log, or none has it."""
        try:
            return os.path.samestat(os.stat(self._path), os.fstat(file.fileno()))
        except FileNotFoundError:
            return True

    def _rotated(self) -> list[Path]:
        """Return the rotated files that are not compressed, the oldest first."""
        stem, suffix = map(re.escape, (self._path.stem, self._path.suffix))
        name = re.compile(rf"{stem}{suffix}[.-][0-9][0-9TZ:._-]*|{stem}-[0-9][0-9TZ:._-]*{suffix}")
        found = []
        for path in self._path.parent.iterdir():
            with suppress(FileNotFoundError):
                if name.fullmatch(path.name) and path.is_file():
                    found.append((path.stat().st_mtime_ns, path))
        return [path for _, path in sorted(found)]

    def _turn(self, file: BinaryIO) -> None:
        """Open the file after one that is complete: the next rotated one, or the log."""
        before = os.fstat(file.fileno())
        self._close()
        self._begin_file()
        for path in self._rotated():
            with suppress(FileNotFoundError):
                status = path.stat()
                if status.st_mtime_ns > before.st_mtime_ns and not os.path.samestat(status, before):
                    self._file = path.open("rb")
                    return

    def _begin_file(self) -> None:
        self._at = self._at._replace(lines=0, bytes=0, done=0, head="", until=0)

    # --- lines

    def _take(self, file: BinaryIO, size: int) -> bool:
        """Import the next whole lines of a day; return False where there is none."""
        if self._at.done:
            # The rest of a piece that was interrupted: it is the same chunk only up to the same byte.
            self._import(file, self._at.until, self._at.day)
            return True
        block = os.pread(file.fileno(), min(size - self._at.bytes, _PIECE_BYTES), self._at.bytes)
        length = block.rfind(b"\n") + 1 or (len(block) if len(block) == _PIECE_BYTES else 0)
        if not length:
            return False
        length, day = self._of_one_day(block[:length])
        self._import(file, self._at.bytes + length, day)
        return True

    def _of_one_day(self, block: bytes) -> tuple[int, int]:
        """Return how many bytes belong to one import, and its day: the import's, or a later one that begins it."""
        day, position = self._at.day, 0
        today = (self._now_ms() + self._offset_ms) // DAY_MS
        for line in _lines(block):
            ms = line_ms(line.rstrip(b"\n"))
            own = day if ms is None else (ms + self._offset_ms) // DAY_MS
            if day < own <= today:
                if position and day >= 0:
                    break
                day = own
            position += len(line)
        return position, day

    def _import(self, file: BinaryIO, end: int, day: int) -> None:
        window = cast(BinaryIO, io.BufferedReader(_Window(file, end)))
        source = Source(window, str(self._path), self._digest, end, is_growing=True)
        at = self._at
        if day != at.day and at.secret:
            # Without a secret: a new import.
            at = Progress(self._now_ms(), at.lines, at.bytes)
        # Lines are judged by the time at which their piece is read; the rest of an interrupted one by the same again.
        now_ms = at.now_ms if at.done else self._now_ms()
        at = at._replace(now_ms=now_ms, day=day, head=_head(file, min(_HEAD_BYTES, end)), until=end)
        with window, self._connect() as connection:
            import_events(
                connection,
                self._website,
                source,
                now_ms=self._now_ms(),
                format=FORMAT,
                geoip_db=self._geoip_db,
                bounds=self._bounds,
                report=self._report,
                followed=at,
            )
            stored = self._stored(connection)
        if stored is None:
            raise BadFile("The import of the log is being undone: start again when that has ended.")
        self._at = stored

    def _stored(self, connection: sqlite3.Connection) -> Progress | None:
        found = import_records.unfinished(connection, self._website, FORMAT, self._digest)
        return Progress(**orjson.loads(found[1])) if found else None


def _head(file: BinaryIO, length: int) -> str:
    """Return what a file is recognized by: the length of its beginning and a digest of that."""
    return f"{length}:{blake2b(os.pread(file.fileno(), length, 0), digest_size=16).hexdigest()}"


def _lines(block: bytes) -> Iterator[bytes]:
    begin = 0
    while begin < len(block):
        end = block.find(b"\n", begin) + 1 or len(block)
        yield block[begin:end]
        begin = end
