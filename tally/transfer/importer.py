"""Lines of a file into a website's events: in any order and of any age, beside a running server.

Rules:
- Each transaction leaves everything right: rows, visits, assignments, the marks of days whose rollups are to be built
  anew, and how far the file has been taken (a row in `meta`), so that the same command goes on where this one was
  interrupted. None holds the lock on writing for much more than 50 ms.
- A line with an id that was imported before, or that is an export of an event of the website, changes nothing.
- Quotas, limits and origins are the server's: an import is the owner's.
- A line that breaks a rule is told with its number, and passed over.

How it works: a chunk of lines is read and checked, then put in the order of their days, so that a file in no order at
all asks for the visits of a day once a chunk. It is written in parts (tally/transfer/import_writer.py); between two
parts, while the lock is free, lines of the next chunk are read. A file makes the same chunks each time it is read, so
"so many lines of the chunk that begins there" says exactly what has been taken.

Two imports may run at once: a token in `meta` says who wrote last, and who finds another's asks for visits anew. Two of
the same file may not: the second ends as soon as it sees that the first goes on.
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
# our choice: lines in no order take three times as long as those in order; half of what the lock may be held.
_PART_S = 0.025
# our choice: a file of another program has every line bad.
_MOST_TOLD = 20


class Sizes(NamedTuple):
    """How much is done at once. A file that was begun has to be gone on with in chunks of the same size."""

    # our choice: 20,000 usual lines are 25 MB in memory, where there are two chunks.
    chunk_lines: int = 20_000
    chunk_bytes: int = 16 * 1_048_576
    # our choice: 2,000 lines in order take 15 to 25 ms.
    part_lines: int = 2_000


USUAL = Sizes()


class Summary(NamedTuple):
    """What became of the lines of a file."""

    accepted: int
    duplicates: int
    bad: int


class Progress(NamedTuple):
    """How far a file has been taken: the lines and bytes before the chunk under way, how many lines of that chunk, and
    what became of all of them. `now_ms`: when the import began."""

    now_ms: int
    lines: int = 0
    bytes: int = 0
    done: int = 0
    accepted: int = 0
    duplicates: int = 0
    bad: int = 0


class Chunk(NamedTuple):
    """Lines in the order of their days, the bad ones, and the lines and bytes of the file up to its end."""

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
    """Takes the lines of a file into a website; `progress` is told the place in the file.

    strict: nothing is taken where any line is bad. Raises BadFile; what was taken by then stays.
    """
    run = _Import(connection, website, source, now_ms, sizes, told, progress)
    if strict:
        run.check()
    return run.take()


class _Import:
    """An import under way."""

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
        """Raises BadFile where any line of the file is bad."""
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
                f"{self._bad.seen:,} of {number:,} lines are bad: nothing was taken. Mend them, or leave --strict out."
            )

    def take(self) -> Summary:
        """Takes what has not been taken yet."""
        if self._book.progress:
            self._told(f"this file was begun before: going on after {self._at.lines + self._at.done:,} lines")
        try:
            self._take_chunks()
        except KeyboardInterrupt:
            again = "the same command goes on there" if self._source.digest else "lines with an id are not taken twice"
            self._told(f"interrupted: {self._at.lines + self._at.done:,} lines are done; {again}")
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
        """One transaction: the next lines of a chunk, and that they have been taken. Whether it was the last."""
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
        """Leaves the lock free at least half as long as it was held, and reads on meanwhile."""
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
    """The chunks of a file from a place (lines, bytes) on."""

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
        """The next chunk; None at the end of the file. Raises BadFile after the last that can be read."""
        self.ahead(self._sizes.chunk_lines)
        if self._number == self._first:
            if self._failure:
                again = "Give a whole copy: lines with an id are not taken twice."
                raise BadFile(f"{self._failure} It was taken up to line {self._number:,}. {again}")
            return None
        self._good.sort(key=lambda line: line.ts_ms // DAY_MS)
        chunk = Chunk(self._good, self._bad, (self._number, self._bytes))
        self._begin()
        return chunk

    def ahead(self, most: int) -> None:
        """Reads so many more lines of the next chunk, if it has them."""
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
    """What an import keeps in `meta`: how far its file has been taken, and who wrote to the website last."""

    def __init__(self, connection: sqlite3.Connection, website: int, source: Source) -> None:
        self._connection, self._website, self._file = connection, website, source.name
        self._name = f"import:{website}:{source.digest}" if source.digest else ""
        self._token_name, self._token = f"importing:{website}", secrets.token_hex(8)
        stored = self._value(self._name)
        self.progress = Progress(**orjson.loads(stored)) if stored else None
        self._swept: str | None = None

    def another_wrote(self) -> bool:
        """Whether another import has written to the website since this one did. Raises BadFile if it is the same."""
        if not website_exists(self._connection, self._website):
            raise BadFile("The website has been deleted meanwhile: what was taken of the file is gone with it.")
        stored = self._value(self._name)
        if (Progress(**orjson.loads(stored)) if stored else None) != self.progress:
            raise BadFile(f"Another import of {self._file} into this website is under way: let it come to its end.")
        return self._value(self._token_name) != self._token

    def labels_were_swept(self) -> bool:
        """Whether a server has taken labels away since this was asked last: remembered numbers may point nowhere."""
        before, self._swept = self._swept, self._value("swept")
        return before != self._swept

    def note(self, progress: Progress) -> None:
        """Writes down how far the file has been taken, and that it was this import that wrote last."""
        self._put(self._token_name, self._token)
        if self._name:
            self._put(self._name, orjson.dumps(progress._asdict()).decode())
            self.progress = progress

    def close(self) -> None:
        """The file has been taken: forgets it. Whoever finds his token gone asks for visits anew."""
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
        """Tells of one."""
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
