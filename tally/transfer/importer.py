"""Import the lines of a file into a website, in any order and of any age, beside a running server.

Rules:
- Each transaction leaves the database consistent: rows, visits, assignments, stale marks of the days to rebuild, and
  the import's own row with the progress in the file (tally/storage/import_records.py), so that the same command
  continues an interrupted import. No transaction holds the write lock for much more than 50 ms.
- It stops as interrupted where the disk has too little space, and waits while SQLite's log is full
  (tally/storage/disk_space.py), before each transaction.
- A line with an id that was imported before, or that is an export of an event of the website, changes nothing.
- Quotas, rate limits and origins do not apply: the owner imports.
- An invalid line is reported with its number and skipped. What the format leaves out on purpose is counted by reason.

A chunk of lines is read, checked and sorted by day (tally/transfer/chunks.py), by another process where that is faster
(tally/transfer/reader_process.py). It is written in parts (tally/transfer/import_writer.py); without another process,
lines of the next chunk are read between two parts, while the lock is free. A file has the same chunks each time it is
read, so a position and a number of lines of the chunk that starts there describe the progress exactly.

Two imports may run at the same time: a token in `meta` identifies the one that wrote last, and the other one reads
visits again. Two imports of the same file may not: the second ends as soon as it sees the progress of the first.
"""

import gc
import secrets
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress
from functools import partial
from operator import itemgetter
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import orjson

from tally.accounts.api_keys import key_salt
from tally.accounts.websites import day_offset_ms, domain_and_origins, website_exists
from tally.columns import deleted_rows
from tally.engine.archive import AnyLine
from tally.events.validation import Rejection
from tally.storage import import_records
from tally.storage.database import transaction
from tally.storage.disk_space import TOO_LITTLE_SPACE
from tally.storage.labels import Labels
from tally.storage.wal import keep_log_short
from tally.timestamps import DAY_MS
from tally.transfer.chunks import USUAL, Chunk, Chunks, Reading, Sizes, without_cycles
from tally.transfer.files import BadFile, Source
from tally.transfer.formats import IMPORTERS
from tally.transfer.import_writer import Check, Part, UsedValues, days_of, divided, visitors_of
from tally.transfer.reader_process import ReaderProcess, chunks_of
from tally.transfer.visit_merge import Visits

_FEWEST_PART_LINES = 50
# Unsorted lines take three times as long as sorted ones; this is half of the time that the lock may be held.
_PART_S = 0.025
# In a file of another program every line is invalid.
_MAX_REPORTED = 20


class Bounds(NamedTuple):
    """The setting --min-free-disk in bytes, and the lines that a file may have; 0 is no bound."""

    min_free_bytes: int = 0
    max_lines: int = 0


_UNBOUNDED = Bounds()


class Summary(NamedTuple):
    """The number of imported events, duplicate and invalid lines, imported sums, and all lines of a file, and of the
    requests of crawlers that were counted. Where a line has several objects, each counts as one."""

    accepted: int
    duplicates: int
    bad: int
    sums: int
    lines: int
    crawls: int = 0


class Preview(NamedTuple):
    """What an import would store: valid events by day, how many of them were imported before, the number of further
    copies of events in the file, of invalid lines, and of all lines; then the sums by day, and how many of them belong
    to days and fields that have sums; whether the file was read to its end; and the new requests of crawlers."""

    days: Mapping[int, int]
    known: int
    copies: int
    bad: int
    lines: int
    sums: Mapping[int, int] = MappingProxyType({})
    known_sums: int = 0
    records: int = 0
    is_complete: bool = True
    crawls: int = 0


class Progress(NamedTuple):
    """The progress of an import.

    `lines` and `bytes` are before the current chunk, `done` counts its imported lines. `now_ms` is when the import
    began. `secret` keys the visitors of a format with addresses; it is deleted when the import is complete. `skipped`
    counts what was skipped on purpose, by reason, and `warned` fields that were omitted or cut, by code. `day`, `head`
    and `until` are of a log that is followed (tally/transfer/follow.py): the day of the import, what the file is
    recognized by, and the end of the piece.
    """

    now_ms: int
    lines: int = 0
    bytes: int = 0
    done: int = 0
    accepted: int = 0
    duplicates: int = 0
    bad: int = 0
    secret: str = ""
    skipped: Mapping[str, int] = MappingProxyType({})
    sums: int = 0
    warned: Mapping[str, int] = MappingProxyType({})
    records: int = 0
    crawls: int = 0
    day: int = -1
    head: str = ""
    until: int = 0


def import_events(
    connection: sqlite3.Connection,
    website: int,
    source: Source,
    *,
    now_ms: int,
    format: str = "tally",
    geoip_db: Path | None = None,
    file: str = "",
    strict: bool = False,
    keeps_visitors: bool = False,
    uses_reader_process: bool = False,
    bounds: Bounds = _UNBOUNDED,
    sizes: Sizes = USUAL,
    followed: Progress | None = None,
    report: Callable[[str], None] = lambda words: None,
    progress: Callable[[int], None] = lambda position: None,
) -> Summary:
    """Import the lines of a file into a website; `progress` is called with the position in the file.

    format: the name of a row of IMPORTERS (tally/transfer/formats.py). geoip_db: a database of places, for formats with
    addresses; None is the bundled one. file: what the list of imports calls the file; its own name if empty.
    strict: nothing is imported if any line is invalid. keeps_visitors: the lines were exported from this website, and
    visitors keep their numbers. uses_reader_process: another process may read a large file. bounds: what ends the
    import. followed: the progress with which the piece of a log that is followed is imported; without a secret a new
    import begins there. Raises BadFile; lines that were imported before it stay.
    """
    place = connection, website, source, now_ms, format, geoip_db, uses_reader_process, bounds
    run = _Import(*place, sizes, report, progress, file, keeps_visitors, followed)
    if strict:
        checked = run.check()
        if checked.bad:
            raise BadFile(
                f"{checked.bad:,} of {checked.lines:,} lines are invalid: nothing was imported."
                " Fix them, or run without --strict."
            )
        if not checked.records:
            raise BadFile(
                f"{source.name} is empty: nothing was imported. Choose another file, or run without --strict."
            )
    return run.take()


def preview_events(
    connection: sqlite3.Connection,
    website: int,
    source: Source,
    *,
    now_ms: int,
    format: str = "tally",
    geoip_db: Path | None = None,
    uses_reader_process: bool = False,
    bounds: Bounds = _UNBOUNDED,
    shows_part: bool = False,
    report: Callable[[str], None] = lambda words: None,
    progress: Callable[[int], None] = lambda position: None,
) -> Preview:
    """Return what `import_events` would store, without storing it. Raises BadFile.

    shows_part: a check that is interrupted returns what it has found, in place of raising KeyboardInterrupt.
    """
    place = connection, website, source, now_ms, format, geoip_db, uses_reader_process, bounds
    return _Import(*place, USUAL, report, progress).check(shows_part=shows_part)


class _Found:
    """What a check has found so far."""

    def __init__(self, check: Check) -> None:
        self.check = check
        self.days: Counter[int] = Counter()
        self.sum_days: Counter[int] = Counter()
        self.skipped: Counter[str] = Counter()
        self.warned: Counter[str] = Counter()
        self.known = self.known_sums = self.copies = self.lines = self.records = self.crawls = 0


class _Import:
    """A running import."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        website: int,
        source: Source,
        now_ms: int,
        format: str,
        geoip_db: Path | None,
        uses_reader_process: bool,
        bounds: Bounds,
        sizes: Sizes,
        report: Callable[[str], None],
        progress: Callable[[int], None],
        file: str = "",
        keeps_visitors: bool = False,
        followed: Progress | None = None,
    ) -> None:
        self._connection, self._website, self._source = connection, website, source
        self._progress, self._bad = progress, _BadLines(report)
        self._bounds, self._has_server = bounds, True
        self._report, self._position = report, 0
        self._state = _ImportState(connection, website, source, format, file)
        secret = secrets.token_hex(32) if IMPORTERS[format].has_addresses else ""
        self._at = followed or self._state.progress or Progress(now_ms, secret=secret)
        if followed and not followed.secret:
            self._at = followed._replace(secret=secret)
            self._state.begin_anew()
        domain, origins = domain_and_origins(connection, website)
        reading = Reading(
            format,
            geoip_db,
            sizes,
            salt=key_salt(connection),
            website=website,
            now_ms=self._at.now_ms,
            domain=domain,
            origins=origins,
            secret=bytes.fromhex(self._at.secret),
            keeps_visitors=keeps_visitors,
            offset_ms=self._state.offset_ms,
        )
        self._chunks = partial(chunks_of if uses_reader_process else Chunks, reading, source)
        self._labels, self._visits, self._used = Labels(), Visits(website), UsedValues()
        self._sizes, self._part_lines = sizes, sizes.part_lines

    def check(self, *, shows_part: bool = False) -> Preview:
        """Return what would be imported; report invalid lines. shows_part: return what was found before an interrupt,
        in place of raising KeyboardInterrupt."""
        counted, is_complete = _Found(Check(self._connection, self._website, self._bounds.min_free_bytes)), False
        try:
            with closing(self._chunks((0, 0))) as chunks:
                while chunk := chunks.next():
                    self._check_chunk(chunk, counted)
            is_complete = True
        except KeyboardInterrupt:
            if not shows_part:
                raise
        self._end_reports(counted.skipped, counted.warned)
        if is_complete and not counted.records:
            self._report(f"{self._source.name} is empty")
        counts = counted.days, counted.known, counted.copies, self._bad.seen, max(counted.lines, counted.records)
        return Preview(*counts, counted.sum_days, counted.known_sums, counted.records, is_complete, counted.crawls)

    def _check_chunk(self, chunk: Chunk, counts: "_Found") -> None:
        check = counts.check
        self._require_lines(chunk)
        check.count(len(chunk.lines))
        good: list[AnyLine] = []
        bad = chunk.bad
        for line in chunk.lines:
            rejection = check.rejection(line)
            if rejection is not None:
                bad.append((line.number, rejection))
            elif check.is_copy(line):
                counts.copies += 1
            else:
                good.append(line)
        for number, rejection in sorted(bad, key=itemgetter(0)):
            self._bad.add(number, rejection)
        events, sums, crawls = divided(good)
        part = Part(self._connection, self._website, self._labels, self._visits, self._used, 0)
        known, known_sums = part.known(events), part.known(sums)
        counts.crawls += len(crawls) - part.known(crawls)
        counts.skipped += chunk.skipped
        counts.warned += chunk.warned
        counts.records += chunk.records
        counts.days.update(line.ts_ms // DAY_MS for line in events)
        counts.sum_days.update(line.day for line in sums)
        counts.known, counts.known_sums = counts.known + known, counts.known_sums + known_sums
        counts.lines, _ = chunk.end
        self._progress(chunk.position)

    def _require_lines(self, chunk: Chunk) -> None:
        if 0 < self._bounds.max_lines < chunk.end[0]:
            raise BadFile(
                f"The file has more than {self._bounds.max_lines:,} lines: split it, or import it with the command."
            )

    def take(self) -> Summary:
        """Import the lines that have not been imported yet."""
        if self._state.progress and not self._source.is_growing:
            self._report(f"continuing an interrupted import after {self._at.lines + self._at.done:,} lines")
        try:
            with without_cycles(), closing(self._chunks((self._at.lines, self._at.bytes))) as chunks:
                self._take_chunks(chunks)
        except (BadFile, KeyboardInterrupt, OSError, sqlite3.Error) as failure:
            self._state.interrupt()
            if getattr(failure, "sqlite_errorname", "") == "SQLITE_FULL":
                raise BadFile(TOO_LITTLE_SPACE) from None
            if not isinstance(failure, KeyboardInterrupt):
                raise
            again = "the same command continues" if self._source.digest else "lines with an id are not imported twice"
            self._report(f"interrupted: {self._at.lines + self._at.done:,} lines are imported; {again}")
            raise
        finally:
            if self._source.is_growing:
                self._bad.close()
            else:
                self._end_reports(self._at.skipped, self._at.warned)
        if not self._source.is_growing:
            self._state.close()
        if not self._at.records and not self._source.is_growing:
            self._report(f"{self._source.name} is empty: nothing was imported")
        lines = max(self._at.lines, self._at.records)
        return Summary(self._at.accepted, self._at.duplicates, self._at.bad, self._at.sums, lines, self._at.crawls)

    def _end_reports(self, skipped: Mapping[str, int], warned: Mapping[str, int]) -> None:
        self._bad.close()
        for what, counts in (("skipped", skipped), ("warnings", warned)):
            if counts:
                reasons = sorted(counts.items(), key=lambda reason: (-reason[1], reason[0]))
                self._report(f"{what}: " + ", ".join(f"{count:,} {reason}" for reason, count in reasons))

    def _take_chunks(self, chunks: Chunks | ReaderProcess) -> None:
        while chunk := self._next_of(chunks):
            self._require_lines(chunk)
            for number, rejection in () if self._at.done else chunk.bad:
                self._bad.add(number, rejection)
            for source, days in days_of(chunk.lines[self._at.done :]).items():
                for day in sorted(days):
                    self._require_space()
                    if deleted_rows.parts_without_rows(self._connection, self._website, day, day, [source]):
                        with transaction(self._connection):
                            deleted_rows.reopen(self._connection, self._website, [day], [source])
            self._load_visits(chunk.lines[self._at.done :])
            is_whole = False
            while not is_whole:
                self._require_space()
                begun = time.perf_counter()
                is_whole = self._take_part(chunk)
                self._rest(time.perf_counter() - begun, chunks)
            # What is not of lines may have cycles, such as a parsed User-Agent.
            gc.collect(0)

    def _next_of(self, chunks: Chunks | ReaderProcess) -> Chunk | None:
        try:
            return chunks.next()
        except BadFile as failure:
            if not self._at.accepted + self._at.duplicates + self._at.sums + self._at.crawls:
                raise
            again = "Lines with an id are not imported twice."
            raise BadFile(f"{failure} It was imported up to line {chunks.lines:,}. {again}") from None

    def _take_part(self, chunk: Chunk) -> bool:
        """Import the next lines of a chunk in one transaction; return whether they were the last."""
        before = self._at
        lines = chunk.lines[before.done : before.done + self._part_lines]
        done = before.done + len(lines)
        is_whole = done >= len(chunk.lines)
        with transaction(self._connection):
            if self._state.labels_were_swept():
                self._labels = Labels()
            # Again: they may have been deleted since the chunk was read, and its visits were loaded without them.
            sources = days_of(lines).items()
            reopened = [
                deleted_rows.reopen(self._connection, self._website, days, [source]) for source, days in sources
            ]
            if any([*reopened, self._state.another_wrote()]):
                self._load_visits(chunk.lines[before.done :])
            self._state.begin(before)
            caches = self._labels, self._visits, self._used
            part = Part(self._connection, self._website, *caches, self._state.number)
            part.take(lines)
            at = Progress(
                before.now_ms,
                *((*chunk.end, 0) if is_whole else (before.lines, before.bytes, done)),
                before.accepted + part.accepted,
                before.duplicates + part.duplicates,
                before.bad + len(part.rejected) + (0 if before.done else len(chunk.bad)),
                before.secret,
                before.skipped if before.done else dict(chunk.skipped + Counter(before.skipped)),
                before.sums + part.sums,
                before.warned if before.done else dict(chunk.warned + Counter(before.warned)),
                before.records + (0 if before.done else chunk.records),
                before.crawls + part.crawls,
                before.day,
                before.head,
                before.until,
            )
            self._state.save(at, part, chunk.position)
        self._labels.keep()
        self._at, self._position = at, chunk.position
        for number, rejection in part.rejected:
            self._bad.add(number, rejection)
        return is_whole

    def _require_space(self) -> None:
        """Wait while the log is full. Raises BadFile where the disk has too little space."""
        space, self._has_server = keep_log_short(self._connection, self._bounds.min_free_bytes, self._report)
        if not space.allows_import():
            raise BadFile(TOO_LITTLE_SPACE)

    def _rest(self, took_s: float, chunks: Chunks | ReaderProcess) -> None:
        """Leave the lock free half as long as it was held, without a server a tenth, and read ahead meanwhile."""
        begun = time.perf_counter()
        fitting = int(self._part_lines * _PART_S / took_s)
        self._part_lines = min(max(fitting, _FEWEST_PART_LINES), self._sizes.part_lines)
        chunks.ahead(self._part_lines)
        self._progress(self._position)
        time.sleep(max(0.0, took_s / (2 if self._has_server else 10) - (time.perf_counter() - begun)))

    def _load_visits(self, lines: Iterable[AnyLine]) -> None:
        self._visits.load(self._connection, visitors_of(lines), self._state.number)


class _ImportState:
    """The row of an import with the progress in its file, and which import wrote to the website last."""

    def __init__(self, connection: sqlite3.Connection, website: int, source: Source, format: str, file: str) -> None:
        self._connection, self._website, self._source, self._format = connection, website, source, format
        self._file = file or Path(source.name).name
        # Read in another format, the same file has other lines: it is another import.
        self._place = website, format, source.digest
        self._token_name, self._token = f"importing:{website}", secrets.token_hex(8)
        stored = import_records.unfinished(connection, *self._place)
        self.number = stored[0] if stored else 0
        self._stored: str | None = stored[1] if stored else None
        self.progress = Progress(**orjson.loads(self._stored)) if self._stored else None
        self._ids = import_records.last_ids(connection, website, self.number)
        self._swept: str | None = None
        self.offset_ms = day_offset_ms(connection, website)

    def begin_anew(self) -> None:
        """Let the next part begin another import of the same log."""
        self.number, self._ids = 0, range(0)

    def another_wrote(self) -> bool:
        """Return whether another import has written to the website. Raises BadFile if it imports the same file."""
        if not website_exists(self._connection, self._website):
            raise BadFile("The website has been deleted meanwhile, with the imported lines.")
        if day_offset_ms(self._connection, self._website) != self.offset_ms:
            raise BadFile("The website has another time zone meanwhile: import the file again.")
        stored = import_records.unfinished(self._connection, *self._place)
        if (stored[1] if stored else None) != self._stored:
            raise BadFile(
                f"Another import of {self._source.name} into this website is running, or this one is being undone:"
                " wait until it ends."
            )
        return self._value(self._token_name) != self._token

    def labels_were_swept(self) -> bool:
        """Return whether a server has deleted labels since the last call: cached label numbers may not exist."""
        before, self._swept = self._swept, self._value("swept")
        return before != self._swept

    def begin(self, progress: Progress) -> None:
        """Insert the row of a new import, in the transaction of its first part. Of a log that is followed, the import
        before it is complete then."""
        if not self.number:
            if self._source.is_growing and (before := import_records.unfinished(self._connection, *self._place)):
                import_records.end(self._connection, self._website, before[0], import_records.COMPLETE)
            self.number = import_records.begin(self._connection, *self._place, self._file, progress.now_ms)

    def save(self, progress: Progress, part: Part, position: int) -> None:
        """Store the progress, the ids of the part's events, and that this import wrote last."""
        self._connection.execute(
            "/* importer.save */ insert or replace into meta (name, value) values (?, ?)",
            (self._token_name, self._token),
        )
        self._ids = import_records.add_ids(self._connection, self._website, self.number, self._ids, part.ids)
        stored = orjson.dumps(progress._asdict()).decode() if self._source.digest else None
        import_records.save(
            self._connection,
            self._website,
            self.number,
            import_records.Counts(
                progress.accepted,
                progress.duplicates,
                progress.bad,
                progress.sums,
                progress.crawls,
                progress.skipped,
            ),
            part.days,
            (position, self._source.size),
            stored,
            import_records.FOLLOWING if self._source.is_growing else import_records.RUNNING,
        )
        self._stored = stored

    def interrupt(self) -> None:
        """Store that the import has stopped before its end."""
        if self.number:
            with suppress(sqlite3.Error), transaction(self._connection):
                import_records.end(self._connection, self._website, self.number, import_records.INTERRUPTED)

    def close(self) -> None:
        """Store that the import is complete. Another import that finds its token deleted reads visits again."""
        with transaction(self._connection):
            if self.number:
                import_records.end(self._connection, self._website, self.number, import_records.COMPLETE)
            self._connection.execute("/* importer.delete */ delete from meta where name = ?", (self._token_name,))

    def _value(self, name: str) -> str | None:
        row = self._connection.execute("/* importer.value */ select value from meta where name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])


class _BadLines:
    """Reports rejected lines: each of the first few, then how many more there were by reason."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report, self.seen = report, 0
        self._more: Counter[str] = Counter()

    def add(self, number: int, rejection: Rejection) -> None:
        """Report one line."""
        self.seen += 1
        code, message, field = rejection[:3]
        reason = f"{code} ({field})" if field else code
        if self.seen <= _MAX_REPORTED:
            self._report(f"line {number:,}: {reason}: {message}")
        else:
            self._more[reason] += 1

    def close(self) -> None:
        """Report how many more there were."""
        if self._more:
            reasons = ", ".join(f"{lines:,} {reason}" for reason, lines in self._more.most_common())
            self._report(f"and {self._more.total():,} more rejected lines: {reasons}")
