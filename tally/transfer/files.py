"""Read and write files of lines, plain or gzip, within bounded memory.

Nothing here depends on events. A line is the bytes between newlines; one longer than MOST_LINE_BYTES is skipped and
reported as None. An input file is gzip if its first two bytes say so, because files are renamed; an output file is gzip
if its name ends with .gz.

A file can be read again from any byte of its uncompressed lines, and is recognised by its size and its first 64 KiB, so
that an interrupted import can continue. Standard input is read once, or copied to a temporary file to be read again.

An output file is named `<name>.unfinished` until it is complete and synced, so its name never refers to a part.
Failures are BadFile, whose message has the fix.
"""

import contextlib
import gzip
import os
import shutil
import sys
import tempfile
import zlib
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO, cast

# An event with the longest texts takes 60 KB.
MOST_LINE_BYTES = 1_048_576
STANDARD = "-"
# Enough to tell files apart.
_HEAD_BYTES = 65_536
_BLOCK_BYTES = 262_144
# Level 1 is 3 times as fast as 6, the default, and files are a fifth larger.
_GZIP_LEVEL = 1


class BadFile(Exception):
    """A file cannot be read, written or imported; the message has the reason and the fix."""


class Source:
    """An open file of lines. `digest` identifies it; it is empty where the file cannot be read again."""

    def __init__(self, file: BinaryIO, name: str, digest: str, size: int) -> None:
        self.name, self.digest, self.size = name, digest, size
        self._file = file

    @property
    def position(self) -> int:
        """Return how many bytes of the file, as stored, have been read; 0 for standard input."""
        return self._file.tell() if self.size else 0

    def lines(self, start: int = 0) -> Iterator[tuple[bytes | None, int]]:
        """Yield each line from an (uncompressed) byte on, with its length including the newline; None if too long.

        Raises BadFile where the file cannot be read any further.
        """
        if start or self.size:
            self._file.seek(0)
        try:
            yield from _lines(self._blocks(start))
        except (EOFError, zlib.error, gzip.BadGzipFile):
            raise BadFile(
                f"{self.name} is damaged or incomplete: its gzip data cannot be decompressed any further."
            ) from None

    def _blocks(self, start: int) -> Iterator[bytes]:
        begin = _peek(self._file)
        unpacked = cast(BinaryIO, gzip.GzipFile(fileobj=self._file)) if begin == b"\x1f\x8b" else self._file
        if unpacked is self._file and start:
            unpacked.seek(start)
        elif start:
            _skip(unpacked, start)
        is_first = not start
        # read1 returns the available data before it raises; read would lose it.
        while block := unpacked.read1(_BLOCK_BYTES):  # type: ignore[attr-defined]
            if is_first and b"\0" in block[:_HEAD_BYTES]:
                raise BadFile(
                    f"{self.name} is not UTF-8 text, plain or gzip, with one JSON object per line: convert it."
                )
            yield block.removeprefix(b"\xef\xbb\xbf") if is_first else block
            is_first = False


def _peek(file: BinaryIO) -> bytes:
    return cast(bytes, file.peek(2)[:2])  # type: ignore[attr-defined]


def _skip(file: BinaryIO, most: int) -> None:
    while most and (block := file.read(min(most, _BLOCK_BYTES))):
        most -= len(block)


def _lines(blocks: Iterator[bytes]) -> Iterator[tuple[bytes | None, int]]:
    begun, thrown_away = b"", 0
    for block in blocks:
        pieces = (begun + block).split(b"\n")
        begun = pieces.pop()
        for piece in pieces:
            size = thrown_away + len(piece) + 1
            yield (piece if size <= MOST_LINE_BYTES + 1 else None), size
            thrown_away = 0
        if len(begun) > MOST_LINE_BYTES:
            thrown_away += len(begun)
            begun = b""
    size = thrown_away + len(begun)
    if size:
        yield (None if thrown_away else begun), size


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
