"""Import the lines of a file into a website, in any order and of any age, beside a running server.

Rules:
- Each transaction leaves the database consistent: rows, visits, assignments, stale marks of the days to rebuild, and
  the progress in the file (a row in `meta`), so that the same command continues an interrupted import. No transaction
  holds the write lock for much more than 50 ms.
- A line with an id that was imported before, or that is an export of an event of the website, changes nothing.
- Quotas, rate limits and origins do not apply: the owner imports.
- An invalid line is reported with its number and skipped.

A chunk of lines is read and checked, then sorted by day, so that an unsorted file reads the visits of a day once per
chunk. It is written in parts (tally/transfer/import_writer.py); between two parts, while the lock is free, lines of the
next chunk are read. A file has the same chunks each time it is read, so a position and a number of lines of the chunk
that starts there describe the progress exactly.

Two imports may run at the same time: a token in `meta` tells which wrote last, and the other one reads visits again.
Two imports of the same file may not: the second ends as soon as it sees the progress of the first.
"""

import secrets
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

import orjson

from tally.accounts.api_keys import key_salt
from tally.accounts.websites import domain_and_origins, website_exists
from tally.events.validation import TRAFFIC, Rejection
from tally.storage.database import MAX_WAL_BYTES, transaction
from tally.storage.labels import Labels
from tally.storage.wal import truncate_wal_without_server
from tally.timestamps import DAY_MS
from tally.transfer.files import BadFile, Source
from tally.transfer.import_writer import Check, Part
from tally.transfer.line_format import Line, LineReader
from tally.transfer.visit_merge import Visits

_FEWEST_PART_LINES = 50
# Unsorted lines take three times as long as sorted ones; this is half of the time that the lock may be held.
_PART_S = 0.025
# In a file of another program every line is invalid.
_MOST_TOLD = 20


class Sizes(NamedTuple):
    """How much is read and written at a time. An interrupted import continues with chunks of the same size."""

    # 20,000 usual lines take 25 MB of memory, and there are two chunks.
    chunk_lines: int = 20_000
    chunk_bytes: int = 16 * 1_048_576
    # 2,000 sorted lines take 15 to 25 ms.
    part_lines: int = 2_000


USUAL = Sizes()


class Summary(NamedTuple):
    """The number of imported, duplicate and invalid lines of a file."""

    accepted: int
    duplicates: int
    bad: int


class Progress(NamedTuple):
    """The progress of an import.

    `lines` and `bytes` are before the current chunk, `done` counts its imported lines. `now_ms` is when the import
    began.
    """

    now_ms: int
    lines: int = 0
    bytes: int = 0
    done: int = 0
    accepted: int = 0
    duplicates: int = 0
    bad: int = 0


class Chunk(NamedTuple):
    """Valid lines sorted by day, invalid ones, and the lines and bytes of the file up to the end of the chunk."""

    lines: list[Line]
    bad: list[tuple[int, Rejection]]
    end: tuple[int, int]


def import_events(
    connection: sqlite3.Connection,
    website: int,
    source: Source,
    *,
    now_ms: int,
    strict: bool = False,
    sizes: Sizes = USUAL,
    told: Callable[[str], None] = lambda words: None,
    progress: Callable[[int], None] = lambda position: None,
) -> Summary:
    """Import the lines of a file into a website; `progress` is called with the position in the file.

    strict: nothing is imported if any line is invalid. Raises BadFile; lines that were imported before it stay.
    """
    run = _Import(connection, website, source, now_ms, sizes, told, progress)
    if strict:
        run.check()
    return run.take()


class _Import:
    """A running import."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        website: int,
        source: Source,
        now_ms: int,
        sizes: Sizes,
        told: Callable[[str], None],
        progress: Callable[[int], None],
    ) -> None:
        self._connection, self._website, self._source = connection, website, source
        self._progress, self._bad = progress, _BadLines(told)
        self._told = told
        self._book = _Book(connection, website, source)
        self._at = self._book.progress or Progress(now_ms)
        self._reader = LineReader(
            key_salt(connection), website, self._at.now_ms, *domain_and_origins(connection, website)
        )
        self._labels, self._visits = Labels(), Visits(website)
        self._sizes, self._part_lines = sizes, sizes.part_lines

    def check(self) -> None:
        """Raise BadFile if any line of the file is invalid."""
        check = Check(self._connection, self._website)
        number = 0
        for number, (raw, _) in enumerate(self._source.lines(), 1):
            line = self._reader.read(number, raw)
            rejection = check.rejection(line) if isinstance(line, Line) else line
            if rejection is not None:
                self._bad.tell(number, rejection)
            if not number % self._sizes.part_lines:
                self._progress(self._source.position)
        self._bad.close()
        if self._bad.seen:
            raise BadFile(
                f"{self._bad.seen:,} of {number:,} lines are invalid: nothing was imported."
                " Fix them, or run without --strict."
            )

    def take(self) -> Summary:
        """Import the lines that have not been imported yet."""
        if self._book.progress:
            self._told(f"continuing an interrupted import after {self._at.lines + self._at.done:,} lines")
        try:
            self._take_chunks()
        except KeyboardInterrupt:
            again = "the same command continues" if self._source.digest else "lines with an id are not imported twice"
            self._told(f"interrupted: {self._at.lines + self._at.done:,} lines are imported; {again}")
            raise
        finally:
            self._bad.close()
        self._book.close()
        return Summary(self._at.accepted, self._at.duplicates, self._at.bad)

    def _take_chunks(self) -> None:
        chunks = _Chunks(self._source, self._reader, self._sizes, (self._at.lines, self._at.bytes))
        while chunk := chunks.next():
            for number, rejection in () if self._at.done else chunk.bad:
                self._bad.tell(number, rejection)
            self._load_visits(chunk.lines[self._at.done :])
            is_whole = False
            while not is_whole:
                begun = time.perf_counter()
                is_whole = self._take_part(chunk)
                self._rest(time.perf_counter() - begun, chunks)

    def _take_part(self, chunk: Chunk) -> bool:
        """Import the next lines of a chunk in one transaction; return whether they were the last."""
        before = self._at
        lines = chunk.lines[before.done : before.done + self._part_lines]
        done = before.done + len(lines)
        is_whole = done >= len(chunk.lines)
        with transaction(self._connection):
            if self._book.labels_were_swept():
                self._labels = Labels()
            if self._book.another_wrote():
                self._load_visits(chunk.lines[before.done :])
            part = Part(self._connection, self._website, self._labels, self._visits)
            part.take(lines)
            at = Progress(
                before.now_ms,
                *((*chunk.end, 0) if is_whole else (before.lines, before.bytes, done)),
                before.accepted + part.accepted,
                before.duplicates + part.duplicates,
                before.bad + len(part.rejected) + (0 if before.done else len(chunk.bad)),
            )
            self._book.note(at)
        self._labels.keep()
        self._at = at
        for number, rejection in part.rejected:
            self._bad.tell(number, rejection)
        return is_whole

    def _rest(self, took_s: float, chunks: "_Chunks") -> None:
        """Leave the lock free at least half as long as it was held, and read ahead meanwhile."""
        begun = time.perf_counter()
        fitting = int(self._part_lines * _PART_S / took_s)
        self._part_lines = min(max(fitting, _FEWEST_PART_LINES), self._sizes.part_lines)
        chunks.ahead(self._part_lines)
        truncate_wal_without_server(self._connection, MAX_WAL_BYTES)
        self._progress(self._source.position)
        time.sleep(max(0.0, took_s / 2 - (time.perf_counter() - begun)))

    def _load_visits(self, lines: Iterable[Line]) -> None:
        wanted: dict[int, set[int]] = {}
        for line in lines:
            if line.type in TRAFFIC and line.is_named:
                wanted.setdefault(line.ts_ms // DAY_MS, set()).add(line.visitor)
        self._visits.load(self._connection, wanted)


class _Chunks:
    """The chunks of a file from a position (lines, bytes) on."""

    def __init__(self, source: Source, reader: LineReader, sizes: Sizes, place: tuple[int, int]) -> None:
        self._reader, self._sizes, self._number, self._bytes = reader, sizes, place[0], place[1]
        self._lines = source.lines(place[1])
        self._failure: BadFile | None = None
        self._begin()

    def _begin(self) -> None:
        self._good: list[Line] = []
        self._bad: list[tuple[int, Rejection]] = []
        self._first, self._first_byte = self._number, self._bytes

    def next(self) -> Chunk | None:
        """Return the next chunk; None at the end of the file. Raises BadFile after the last one that can be read."""
        self.ahead(self._sizes.chunk_lines)
        if self._number == self._first:
            if self._failure:
                again = "Use a complete copy: lines with an id are not imported twice."
                raise BadFile(f"{self._failure} It was imported up to line {self._number:,}. {again}")
            return None
        self._good.sort(key=lambda line: line.ts_ms // DAY_MS)
        chunk = Chunk(self._good, self._bad, (self._number, self._bytes))
        self._begin()
        return chunk

    def ahead(self, most: int) -> None:
        """Read up to `most` more lines of the next chunk."""
        read, end_byte = self._reader.read, self._first_byte + self._sizes.chunk_bytes
        stop = min(self._number + most, self._first + self._sizes.chunk_lines)
        try:
            while self._number < stop and self._bytes < end_byte and not self._failure:
                raw, size = next(self._lines)
                self._number += 1
                self._bytes += size
                line = read(self._number, raw)
                if isinstance(line, Line):
                    self._good.append(line)
                elif line is not None:
                    self._bad.append((self._number, line))
        except StopIteration:
            pass
        except BadFile as failure:
            self._failure = failure


class _Book:
    """The rows of an import in `meta`: the progress in its file, and which import wrote to the website last."""

    def __init__(self, connection: sqlite3.Connection, website: int, source: Source) -> None:
        self._connection, self._website, self._file = connection, website, source.name
        self._name = f"import:{website}:{source.digest}" if source.digest else ""
        self._token_name, self._token = f"importing:{website}", secrets.token_hex(8)
        stored = self._value(self._name)
        self.progress = Progress(**orjson.loads(stored)) if stored else None
        self._swept: str | None = None

    def another_wrote(self) -> bool:
        """Return whether another import has written to the website. Raises BadFile if it imports the same file."""
        if not website_exists(self._connection, self._website):
            raise BadFile("The website has been deleted meanwhile, with the imported lines.")
        stored = self._value(self._name)
        if (Progress(**orjson.loads(stored)) if stored else None) != self.progress:
            raise BadFile(f"Another import of {self._file} into this website is running: wait until it ends.")
        return self._value(self._token_name) != self._token

    def labels_were_swept(self) -> bool:
        """Return whether a server has deleted labels since the last call: cached label numbers may not exist."""
        before, self._swept = self._swept, self._value("swept")
        return before != self._swept

    def note(self, progress: Progress) -> None:
        """Store the progress, and that this import wrote last."""
        self._put(self._token_name, self._token)
        if self._name:
            self._put(self._name, orjson.dumps(progress._asdict()).decode())
            self.progress = progress

    def close(self) -> None:
        """Delete the rows of a complete import. Another import that finds its token deleted reads visits again."""
        with transaction(self._connection):
            for name in (self._name, self._token_name):
                self._connection.execute("/* importer.forget */ delete from meta where name = ?", (name,))

    def _value(self, name: str) -> str | None:
        row = self._connection.execute("/* importer.value */ select value from meta where name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def _put(self, name: str, value: str) -> None:
        self._connection.execute("/* importer.note */ insert or replace into meta values (?, ?)", (name, value))


class _BadLines:
    """Reports rejected lines: each of the first few, then how many more there were by reason."""

    def __init__(self, told: Callable[[str], None]) -> None:
        self._told, self.seen = told, 0
        self._more: Counter[str] = Counter()

    def tell(self, number: int, rejection: Rejection) -> None:
        """Report one line."""
        self.seen += 1
        code, message, field = rejection
        reason = f"{code} ({field})" if field else code
        if self.seen <= _MOST_TOLD:
            self._told(f"line {number:,}: {reason}: {message}")
        else:
            self._more[reason] += 1

    def close(self) -> None:
        """Report how many more there were."""
        if self._more:
            reasons = ", ".join(f"{lines:,} {reason}" for reason, lines in self._more.most_common())
            self._told(f"and {self._more.total():,} more rejected lines: {reasons}")
