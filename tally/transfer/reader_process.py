"""Read and check the lines of a file in a process of its own, so that an import uses two processor cores.

Reading and checking take more than half of the time of an import; the process that imports resolves labels, computes
visits and writes. The other process is the command READER_PROCESS (tally/resources.py). It gets what to read on its
standard input, and writes chunks (tally/transfer/chunks.py) to its standard output: pickled by column, 2 µs a line on
both sides. It reads the next chunk while the importing process writes the one before, and waits until that is taken, so
there are never more than three in memory.

The salt, which keys visitors, goes through the pipe: other users can read command lines. The process has a process
group of its own, so that Ctrl-C interrupts the importing process alone, which ends it. Where the importing process is
killed, the other one ends when it writes its chunk.
"""

import gc
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any

from tally.engine.archive import AnyLine
from tally.events.geoip import CountryDataError
from tally.resources import READER_PROCESS, program
from tally.transfer.chunks import Chunk, Chunks, Reading, without_cycles
from tally.transfer.files import BadFile, Source, open_source

# Starting the process takes as long as reading some MB.
_MIN_BYTES = 1_048_576


def chunks_of(reading: Reading, source: Source, place: tuple[int, int]) -> "Chunks | ReaderProcess":
    """Return the chunks of a file from a place on, by another process where the file and the machine allow it.

    Standard input is read here, and so are small files, and all where there is one processor core.
    """
    has_second_core = len(os.sched_getaffinity(0)) > 1 if hasattr(os, "sched_getaffinity") else True
    if has_second_core and source.digest and source.size >= _MIN_BYTES:
        return ReaderProcess(reading, source, place)
    return Chunks(reading, source, place)


class ReaderProcess:
    """The chunks of a file, read by another process; has the methods of Chunks."""

    def __init__(self, reading: Reading, source: Source, place: tuple[int, int]) -> None:
        self.lines, self._name = place[0], source.name
        start, directory = program()
        self._process = subprocess.Popen(
            [*start, READER_PROCESS],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": str(directory)},
            process_group=0,
        )
        assert self._process.stdin is not None
        with self._process.stdin as sent:
            pickle.dump((reading, source.name, source.digest, place), sent)

    def next(self) -> Chunk | None:
        """Return the next chunk; None at the end of the file. Raises BadFile, CountryDataError, OSError."""
        assert self._process.stdout is not None
        try:
            answer = pickle.load(self._process.stdout)
        except (EOFError, pickle.UnpicklingError):
            raise BadFile(
                f"The process that reads {self._name} has ended unexpectedly, with status {self._process.wait()}:"
                " run the same command again."
            ) from None
        if isinstance(answer, Exception):
            raise answer
        if answer is None:
            return None
        order, by_kind, *others = answer
        chunk = Chunk(_lines(order, by_kind), *others)
        self.lines = chunk.end[0]
        return chunk

    def ahead(self, most: int) -> None:
        """Do nothing: the process reads ahead by itself."""

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


def main() -> None:
    """Write the chunks of a file to standard output, then None or the failure."""
    # The process that reads them may have been killed.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    reading, name, digest, place = pickle.load(sys.stdin.buffer)
    try:
        with open_source(name) as source, without_cycles():
            if source.digest != digest:
                raise BadFile(f"{name} has changed while it was imported: run the same command again.")
            chunks = Chunks(reading, source, place)
            while chunk := chunks.next():
                _send((*_by_column(chunk.lines), *chunk[1:]))
                gc.collect(0)
            _send(None)
    except (BadFile, CountryDataError, OSError) as failure:
        _send(failure)


def _send(what: Any) -> None:
    pickle.dump(what, sys.stdout.buffer, pickle.HIGHEST_PROTOCOL)
    sys.stdout.buffer.flush()


def _by_column(lines: Sequence[AnyLine]) -> tuple[bytes, list[tuple[type, list[Any]]]]:
    """Return the number of the kind of each line, b"" where all have one kind, and the columns of each kind.

    Lines of a kind have the same number of texts, each of which is a column.
    """
    kinds: dict[tuple[type[AnyLine], int], list[AnyLine]] = {}
    for line in lines:
        kinds.setdefault((type(line), len(line.texts)), []).append(line)
    numbers = {kind: number for number, kind in enumerate(kinds)}
    order = bytes([numbers[type(line), len(line.texts)] for line in lines] if len(kinds) > 1 else [])
    columns_by_kind = []
    for (kind, _), of_kind in kinds.items():
        columns: list[Any] = [*zip(*of_kind, strict=True)]
        texts = kind._fields.index("texts")
        columns[texts] = [*zip(*columns[texts], strict=True)]
        columns_by_kind.append((kind, columns))
    return order, columns_by_kind


def _lines(order: bytes, kinds: Sequence[tuple[type[AnyLine], list[Any]]]) -> list[AnyLine]:
    """Return the lines of what `_by_column` returns."""
    made: list[Iterator[AnyLine]] = []
    for kind, columns in kinds:
        texts = kind._fields.index("texts")
        columns[texts] = zip(*columns[texts], strict=True)
        # As kind(...), in half the time.
        made.append(map(partial(tuple.__new__, kind), zip(*columns, strict=True)))
    return [next(made[number]) for number in order] if order else [*chain.from_iterable(made)]
