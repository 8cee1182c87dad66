"""Read and write files of lines, plain, gzip or (input) zip, within bounded memory.

Nothing here depends on events. A line is the bytes between newlines; one longer than MAX_LINE_BYTES is skipped and
reported as None, and one longer than ENDLESS_LINE_BYTES ends the file. Many empty lines in a row are read as one item
(`lines_in`): a file of them compresses to a thousandth.

An input file is gzip or zip if its first bytes are those of the format, because files are renamed; an output file is
gzip if its name ends with .gz. A zip archive of events has one file; one of sums has several (`members`). They are read
from the archive: nothing is written.

Text compresses to a tenth or so. A file that decompresses to more than MAX_RATIO times its size is refused once
RATIO_FREE_BYTES have been read.

A file can be read again from any byte of its uncompressed lines, and is recognised by its size and its first 64 KiB, so
that an interrupted import can continue. Standard input is read once, or copied to a temporary file to be read again.

An output file is named `<name>.unfinished` until it is complete and synced, so its name never refers to a part.
Failures are BadFile, whose message has the fix.
"""

import codecs
import contextlib
import gzip
import os
import re
import shutil
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Generator, Iterator
from functools import partial
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, cast

# An event with the longest texts takes 60 KB.
MAX_LINE_BYTES = 1_048_576
# 300 MB are read in a second, without a result.
ENDLESS_LINE_BYTES = 64 * 1_048_576
STANDARD = "-"
# Enough to identify a file.
_HEAD_BYTES = 65_536
# Enough to see that every second byte is 0.
_SAMPLED_BYTES = 64
# How SQLite's files begin; other files that are no text have a first line that is not UTF-8.
_DATABASE = b"SQLite format 3\0"
# The same line again and again compresses to a 300th; deflate reaches 1,032.
MAX_RATIO = 500
RATIO_FREE_BYTES = 16 * 1_048_576
# Shorter than the longest line.
_BLOCK_BYTES = 262_144
# The exports of other systems have 7 to 20.
MAX_MEMBERS = 100
# The list of the files of an archive, of which zipfile makes 7 times as much in memory: some 10,000 files.
MAX_DIRECTORY_BYTES = 1_048_576
# Of fewer empty lines each is read as a line.
_MANY = 32
_EMPTY_LINES = re.compile(rb"(?:\A|(?<=\n))(?:\n{%d,}|(?:\r\n){%d,})" % (_MANY, _MANY))
# Level 1 is 3 times as fast as 6, the default, and files are a fifth larger.
_GZIP_LEVEL = 1


Line = tuple[bytes | None, int]
"""A line without its newline, None where it is too long, and its length with the newline. Of empty lines in a row,
`lines_in` of them, the first one and the length of all."""


def lines_in(line: Line) -> int:
    """Return how many lines an item stands for."""
    raw, size = line
    if raw == b"":
        return size
    return size // 2 or 1 if raw == b"\r" else 1


class BadFile(Exception):
    """A file cannot be read, written or imported; the message has the reason and the fix."""


class Source:
    """An open file of lines. `digest` identifies it; it is empty where the file cannot be read again. is_growing: it is
    a log that is being written, up to a byte."""

    def __init__(self, file: BinaryIO, name: str, digest: str, size: int, *, is_growing: bool = False) -> None:
        self.name, self.digest, self.size, self.is_growing = name, digest, size, is_growing
        self._file = file

    @property
    def position(self) -> int:
        """Return how many bytes of the file, as stored, have been read; 0 for standard input."""
        return self._file.tell() if self.size else 0

    def lines(self, start: int = 0) -> Iterator[Line]:
        """Yield each line from an (uncompressed) byte on. Raises BadFile where it cannot be read any further."""
        return chain.from_iterable(self.line_lists(start))

    def line_lists(self, start: int = 0) -> Iterator[list[Line]]:
        """Yield the same lines as lists of those that end in the same block."""
        return _line_lists(self.blocks(start), start)

    def blocks(self, start: int = 0) -> Iterator[bytes]:
        """Yield the bytes from an (uncompressed) byte on, in pieces. Raises BadFile."""
        if start or self.size:
            self._file.seek(0)
        with self._unpacking(), contextlib.closing(self._blocks(start)) as blocks:
            yield from blocks

    def _blocks(self, start: int) -> Generator[bytes]:
        begin, packed = self._file.peek(4)[:4], _Counted(self._file)  # type: ignore[attr-defined]
        if begin[:2] == b"\x1f\x8b":
            unpacked = cast(BinaryIO, gzip.GzipFile(fileobj=cast(BinaryIO, packed)))
        elif begin == b"PK\x03\x04":
            with _damaged_archives():
                unpacked = self._member()
        else:
            unpacked = self._file
        if start and unpacked is self._file:
            unpacked.seek(start)
        elif start:
            _skip(unpacked, start)
        is_first, read_bytes = not start, start
        # read1 returns the available data before it raises; read would lose it.
        while block := unpacked.read1(_BLOCK_BYTES):  # type: ignore[attr-defined]
            read_bytes += len(block)
            if packed.bytes and read_bytes > max(RATIO_FREE_BYTES, MAX_RATIO * packed.bytes):
                raise BadFile(self._too_large())
            if is_first:
                self._check_text(block[:_HEAD_BYTES])
            yield block
            is_first = False

    def _check_text(self, head: bytes) -> None:
        """Raise BadFile where a file begins as no UTF-8 text does.

        NULs alone do not tell: a log has them after a crash, and a row may have one.
        """
        if b"\0" not in head and not head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return
        # Of UTF-16 in Latin letters, every second byte is 0.
        is_zero = [head[first:_SAMPLED_BYTES:2].count(0) > _SAMPLED_BYTES // 4 for first in (0, 1)]
        if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or is_zero[0] != is_zero[1]:
            raise BadFile(
                f"{self.name} is UTF-16 text: save it as UTF-8 (Excel: CSV UTF-8; PowerShell: Out-File -Encoding utf8)."
            )
        try:
            codecs.getincrementaldecoder("utf-8")().decode(head.partition(b"\n")[0])
            is_text = not head.startswith(_DATABASE)
        except UnicodeDecodeError:
            is_text = False
        if not is_text:
            raise BadFile(f"{self.name} is not UTF-8 text, plain, gzip or zip: convert it.")

    def _member(self) -> BinaryIO:
        """Return the file of a zip archive. Raises BadFile, zipfile.BadZipFile."""
        if not self.size:
            raise BadFile(f"{self.name} is a zip archive, which cannot be read from a pipe: name a file.")
        archive = self._archive()
        members = _files_of(archive)
        if len(members) != 1:
            raise BadFile(f"{self.name} is a zip archive of {len(members):,} files: unpack it and name one of them.")
        return self._opened(archive, members[0])

    def _archive(self) -> zipfile.ZipFile:
        """Return the file as a zip archive. Raises BadFile, and what zipfile raises for damaged archives."""
        return zipfile.ZipFile(cast(BinaryIO, _Archived(self._file, self.name)))

    def _opened(self, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> BinaryIO:
        if member.flag_bits & 1:
            raise BadFile(f"{self.name} is an encrypted zip archive: unpack it and name its file.")
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise BadFile(f"{self.name} is a zip archive whose compression is not deflate: unpack it.")
        # zipfile reads no more than the size that the archive names.
        if member.file_size > max(RATIO_FREE_BYTES, MAX_RATIO * member.compress_size):
            raise BadFile(self._too_large())
        return cast(BinaryIO, archive.open(member))

    def members(self) -> list[str]:
        """Return the names of the files of a zip archive; [] where it is none, or standard input. Raises BadFile."""
        if not self.size:
            return []
        self._file.seek(0)
        if self._file.read(4) != b"PK\x03\x04":
            return []
        with self._unpacking(), _damaged_archives():
            members = _files_of(self._archive())
            # Several members may have the same compressed data.
            if sum(member.file_size for member in members) > max(RATIO_FREE_BYTES, MAX_RATIO * self.size):
                raise BadFile(self._too_large())
            if len(members) > MAX_MEMBERS:
                raise BadFile(f"{self.name} is a zip archive of {len(members):,} files, more than {MAX_MEMBERS:,}.")
            names = [member.filename for member in members]
            # They are read by their names.
            if len({*names}) < len(names):
                raise BadFile(f"{self.name} is a zip archive with several files of one name: use the original export.")
            return names

    def member_line_lists(self, name: str) -> Iterator[list[Line]]:
        """Yield the lines of a file of a zip archive as `line_lists` does. Raises BadFile."""
        with self._unpacking():
            with _damaged_archives():
                archive = self._archive()
                opened = self._opened(archive, archive.getinfo(name))
            with opened as file:
                yield from _line_lists(iter(partial(file.read, _BLOCK_BYTES), b""))

    @contextlib.contextmanager
    def _unpacking(self) -> Iterator[None]:
        try:
            yield
        except (EOFError, zlib.error, gzip.BadGzipFile, zipfile.BadZipFile):
            raise BadFile(
                f"{self.name} is damaged or incomplete: its compressed data cannot be decompressed any further."
                " Use a complete copy."
            ) from None

    def _too_large(self) -> str:
        return f"{self.name} decompresses to more than {MAX_RATIO} times its size: it is no file of events."


class Member:
    """A file of a zip archive, read as a Source of lines."""

    def __init__(self, source: Source, file: str) -> None:
        self.name = f"{file} in {source.name}"
        self._source, self._file = source, file

    def lines(self) -> Iterator[Line]:
        """Yield the lines as Source.lines does, from the beginning alone. Raises BadFile."""
        return chain.from_iterable(self.line_lists())

    def line_lists(self, start: int = 0) -> Iterator[list[Line]]:
        """Yield the lines as Source.line_lists does, from the beginning alone. Raises BadFile."""
        return self._source.member_line_lists(self._file)


@contextlib.contextmanager
def _damaged_archives() -> Iterator[None]:
    """Raise BadZipFile for all that zipfile raises for damaged archives: OSError, IndexError, UnicodeDecodeError,
    NotImplementedError."""
    try:
        yield
    except (BadFile, zipfile.BadZipFile):
        raise
    except Exception as fault:
        raise zipfile.BadZipFile from fault


def _files_of(archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    return [entry for entry in archive.infolist() if not entry.is_dir() and not entry.filename.startswith("__MACOSX/")]


class _Counted:
    """A file of which the bytes that were read are counted."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self.bytes = file, 0

    def read(self, most: int = -1) -> bytes:
        data = self._file.read(most)
        self.bytes += len(data)
        return data


class _Archived:
    """The file of a zip archive. zipfile reads the list of its files at once, however long it is."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file, self._name = file, name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def read(self, most: int = -1) -> bytes:
        """Raises BadFile."""
        if most > MAX_DIRECTORY_BYTES:
            raise BadFile(f"{self._name} is a zip archive of too many files: unpack it and name one of them.")
        return self._file.read(most)


def _skip(file: BinaryIO, most: int) -> None:
    while most and (block := file.read(min(most, _BLOCK_BYTES))):
        most -= len(block)


def _line_lists(blocks: Iterator[bytes], start: int = 0) -> Iterator[list[Line]]:
    """Yield the lines of blocks that begin at a byte of a file, the first one without a byte order mark."""
    # Blocks may be of a single byte: gzip files of many parts have such.
    begun, thrown_away = bytearray(), 0
    for block in blocks:
        begun += block
        if b"\n" in block:
            whole, _, rest = bytes(begun).rpartition(b"\n")
            begun = bytearray(rest)
            whole += b"\n"
            # Only the first one may have begun in an earlier block, and be longer than a block.
            first = whole.find(b"\n") + 1
            if thrown_away + first > MAX_LINE_BYTES + 1:
                lines = [(None, thrown_away + first), *_lines_of(whole[first:])]
            else:
                lines = _lines_of(whole)
                text, size = lines[0]
                if not start and text is not None:
                    lines[0] = text.removeprefix(codecs.BOM_UTF8), size
            start, thrown_away = 1, 0
            yield lines
        if len(begun) > MAX_LINE_BYTES:
            thrown_away += len(begun)
            begun = bytearray()
        if thrown_away > ENDLESS_LINE_BYTES:
            raise BadFile("The file has a line of more than 64 MiB: it is no file of lines. Use the original file.")
    size = thrown_away + len(begun)
    if size:
        last = bytes(begun) if start else bytes(begun).removeprefix(codecs.BOM_UTF8)
        yield [(None if thrown_away else last, size)]


def _lines_of(whole: bytes) -> list[Line]:
    """Return the lines of some bytes that end with a newline."""
    lines: list[Line] = []
    at = 0
    # A search for a text takes a tenth of the time of one for the expression.
    has_run = b"\n" * _MANY in whole or b"\r\n" * _MANY in whole
    for run in _EMPTY_LINES.finditer(whole) if has_run else ():
        if run.start() > at:
            lines += [(piece, len(piece) + 1) for piece in whole[at : run.start() - 1].split(b"\n")]
        lines.append((b"\r" if run[0][:1] == b"\r" else b"", len(run[0])))
        at = run.end()
    if at < len(whole):
        lines += [(piece, len(piece) + 1) for piece in whole[at:-1].split(b"\n")]
    return lines


@contextlib.contextmanager
def open_source(name: str, *, again: bool = False) -> Iterator[Source]:
    """Open a file, or standard input for `-`; `again`: it will be read more than once. Raises BadFile."""
    with contextlib.ExitStack() as closing:
        if name == STANDARD and not again:
            yield Source(sys.stdin.buffer, "standard input", "", 0)
            return
        if name == STANDARD:
            kept = closing.enter_context(tempfile.TemporaryFile())
            shutil.copyfileobj(sys.stdin.buffer, kept)
            yield Source(cast(BinaryIO, kept), "standard input", "", max(1, kept.tell()))
            return
        file = closing.enter_context(_opened(Path(name)))
        size = os.fstat(file.fileno()).st_size
        digest = blake2b(file.read(_HEAD_BYTES), digest_size=16, salt=size.to_bytes(8, "little")).hexdigest()
        yield Source(file, name, digest, max(1, size))


def _opened(path: Path) -> BinaryIO:
    if path.is_dir():
        raise BadFile(f"{path} is a directory: name a file.")
    try:
        return path.open("rb")
    except OSError as failure:
        raise BadFile(
            f"{path} cannot be read ({failure.strerror}): name an existing file that this user may read."
        ) from None


@contextlib.contextmanager
def open_target(name: str) -> Iterator[BinaryIO]:
    """Open a new file for writing, or standard output for `-`; it gets its name at the end. Raises BadFile."""
    if name == STANDARD:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    path = Path(name)
    if path.exists():
        raise BadFile(f"{path} exists already: choose another name. Files are not overwritten.")
    if not path.resolve().parent.is_dir():
        raise BadFile(f"The directory {path.resolve().parent} does not exist: create it first.")
    unfinished = path.with_name(path.name + ".unfinished")
    try:
        # It has visitors' data: only this user may read it.
        with os.fdopen(os.open(unfinished, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "wb") as file:
            if path.suffix == ".gz":
                with gzip.GzipFile("", "wb", _GZIP_LEVEL, file, mtime=0) as packed:
                    yield cast(BinaryIO, packed)
            else:
                yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)
