"""Read and check the lines of a file in chunks, in this process (tally/transfer/reader_process.py: in another one).

A chunk has the valid lines of a part of the file, sorted by day, so that an unsorted file reads the visits of a day
once per chunk. It ends with a record, and where it ends depends on where it begins and on what was read of it only: a
file has the same chunks each time it is read, in whichever process, and an interrupted import continues within one.
"""

import gc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tally.engine.archive import AnyLine, CrawlLine, Line, SumLine
from tally.events.validation import FieldWarning, Rejection
from tally.timestamps import DAY_MS
from tally.transfer.files import BadFile, Source
from tally.transfer.formats import IMPORTERS
from tally.transfer.line_format import LineReader
from tally.transfer.records import Site, Skip

# So that writing does not wait for long.
_FIRST_LINES = 2_500


class Sizes(NamedTuple):
    """How much is read and written at a time. An interrupted import continues with chunks of the same size."""

    # 12 MB of usual lines; there are two chunks in memory, or three with another process. The last one is written when
    # all is read. With 20,000 lines unsorted files take a twentieth less processor time, and large files the same.
    chunk_lines: int = 10_000
    chunk_bytes: int = 16 * 1_048_576
    # 2,000 sorted lines take 15 to 25 ms.
    part_lines: int = 2_000

    def lines_after(self, lines: int) -> int:
        """Return the size of the chunk after so many lines: small at first, then it doubles what was read."""
        return min(self.chunk_lines, max(lines, _FIRST_LINES))


USUAL = Sizes()


class Chunk(NamedTuple):
    """Valid lines sorted by day, invalid ones, what was skipped by reason, the lines and bytes of the file up to the
    end of the chunk, and how many bytes of the file, as stored, have been read.

    warned: how many fields of valid lines were omitted or cut, by the code of the warning. records: how many lines,
    rows or objects were read that have something.
    """

    lines: list[AnyLine]
    bad: list[tuple[int, Rejection]]
    skipped: Counter[str]
    end: tuple[int, int]
    position: int
    warned: Counter[str]
    records: int


class Reading(NamedTuple):
    """How lines are read and checked: as a format, for a website (LineReader in tally/transfer/line_format.py)."""

    format: str
    geoip_db: Path | None
    sizes: Sizes
    salt: bytes
    website: int
    now_ms: int
    domain: str
    origins: frozenset[str]
    secret: bytes
    keeps_visitors: bool
    offset_ms: int


class Chunks:
    """The chunks of a file from a place (lines, bytes) on. `lines` is the number of lines before the next chunk.

    Raises BadFile, CountryDataError.
    """

    def __init__(self, reading: Reading, source: Source, place: tuple[int, int]) -> None:
        reader = IMPORTERS[reading.format].reader(source, Site(reading.domain, reading.geoip_db))
        self._source, self._sizes, self._read = source, reading.sizes, reader.read
        lines = LineReader(
            reading.salt,
            reading.website,
            reading.now_ms,
            reading.domain,
            reading.origins,
            reading.secret,
            keeps_visitors=reading.keeps_visitors,
            offset_ms=reading.offset_ms,
        )
        self._line, self._warnings = lines.line, lines.warnings
        self._number, self._bytes = place
        self._records = reader.records(place[1])
        self._failure: BadFile | None = None
        self._begin()

    def _begin(self) -> None:
        # Without what is empty: a file may have a million empty lines in a row.
        self._seen = 0
        self._good: list[AnyLine] = []
        self._bad: list[tuple[int, Rejection]] = []
        self._skipped: Counter[str] = Counter()
        self._warned: Counter[str] = Counter()
        self._count = 0
        self.lines, self._first_byte = self._number, self._bytes

    def next(self) -> Chunk | None:
        """Return the next chunk; None at the end of the file. Raises BadFile after the last one that can be read."""
        self.ahead(self._sizes.chunk_lines)
        if self._number == self.lines and self._bytes == self._first_byte:
            if self._failure:
                raise self._failure
            return None
        self._good.sort(key=lambda line: line.ts_ms // DAY_MS)
        end = self._number, self._bytes
        chunk = Chunk(self._good, self._bad, self._skipped, end, self._source.position, self._warned, self._count)
        self._begin()
        return chunk

    def ahead(self, most: int) -> None:
        """Read up to `most` more records of the next chunk. The chunk is the same however often this is called."""
        chunk_lines, end_byte = self._sizes.lines_after(self.lines), self._first_byte + self._sizes.chunk_bytes
        stop = min(self._seen + most, chunk_lines)
        good, bad, check, read = self._good, self._bad, self._line, self._read
        number, position = self._number, self._bytes
        try:
            while (
                self._seen < stop and position < end_byte and len(good) + len(bad) < chunk_lines and not self._failure
            ):
                value, size, lines = next(self._records)
                first = number + 1
                number += lines
                position += size
                if value is None:
                    continue
                self._seen += 1
                rejection: Rejection | None = None
                has_item = 0
                for item in (value,) if isinstance(value, Rejection) else read(value):
                    has_item = 1
                    line = item if isinstance(item, (Skip, Rejection, FieldWarning)) else check(first, item)
                    if type(line) is Line or isinstance(line, (SumLine, CrawlLine)):
                        good.append(line)
                        if self._warnings:
                            self._warned.update(warning.code for warning in self._warnings)
                    elif isinstance(line, Rejection):
                        # The first of a record: lines are counted.
                        rejection = rejection or line
                    elif isinstance(line, Skip):
                        self._skipped[line.reason] += 1
                    elif isinstance(line, FieldWarning):
                        self._warned[line.code] += 1
                    self._warnings.clear()
                self._count += has_item
                if rejection is not None:
                    bad.append((first, rejection))
        except StopIteration:
            pass
        except BadFile as failure:
            self._failure = failure
        finally:
            self._number, self._bytes = number, position

    def close(self) -> None:
        """Do nothing: there is no other process to end."""


@contextmanager
def without_cycles() -> Iterator[None]:
    """Disable garbage collection while lines are read: they have no cycles, and it takes a tenth of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
