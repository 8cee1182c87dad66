"""Divide a file into records: lines, rows of CSV or TSV, JSON objects. Within bounded memory.

A record is (value, bytes, lines): its value, or a Rejection where it cannot be read; its size in the (uncompressed)
file and its number of lines, with what separates it from the record before. So the sum of the sizes is a place at which
reading can start again.

- Rows of CSV follow RFC 4180: a quoted field may have newlines and doubled quotes. A row is over where the number of
  quotes is even. If that gives no row of the header's width, an unclosed quote has joined lines: the first line is
  rejected and reading continues with the second one. So every line is read twice at most.
- Rows of TSV are lines, with the escapes of ClickHouse, PostgreSQL and MySQL: `\\t`, `\\n`. Arrays, `[...]`, keep
  their escapes. In CSV and TSV, a field `\\N` is empty.
- JSON objects may be one per line, in an array, or both; each is at most MAX_LINE_BYTES long. What separates two
  objects is a record of its own, without a value, where a line ends in it: an object's number is that of the line on
  which it begins.
"""

import csv
import re
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, takewhile
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from tally.events.validation import FieldWarning, Rejection
from tally.transfer.files import MAX_LINE_BYTES, BadFile, Line, Member, Source, lines_in

Record = tuple[Any, int, int]


class Site(NamedTuple):
    """What a reader may use: the website's domain, and the database of places (None: the bundled one)."""

    domain: str
    geoip_db: Path | None = None


class Skip(NamedTuple):
    """What is skipped on purpose, such as a crawler's request. `reason` is a short text in the plural."""

    reason: str


class Reader(Protocol):
    """Reads a file."""

    def records(self, start: int) -> Iterator[Record]:
        """Yield the records of the file from a byte on. Raises BadFile."""

    def read(self, value: Any) -> Iterable[dict[str, Any] | Skip | Rejection | FieldWarning]:
        """Return the items of a record's value: events, with warnings about them, what is skipped on purpose, and what
        is invalid."""


TOO_LONG = Rejection("line_too_long", "A line must be at most 1 MiB long.")
NOT_UTF_8 = Rejection("invalid_text", "The line is not UTF-8.")
UNCLOSED = Rejection("invalid_csv", "A quoted field is not closed, or is followed by more than a separator.")

# A line and what is read beyond its end to find the end of a row.
_MAX_ROW_BYTES = MAX_LINE_BYTES
# csv refuses fields of more than 128 KiB by default.
csv.field_size_limit(2 * _MAX_ROW_BYTES)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "0": "\0", "N": ""}
# A JSON value in brackets, as far as needed to find its end: brackets are not matched by kind. Quantifiers are
# possessive, so that time is linear. Values in events are at most 8 deep.
_STRING = rb'"(?:[^"\\]++|\\.)*+"'
_DEEPEST = rb"[{\[](?:[^{}\[\]\"]++|" + _STRING + rb")*+[}\]]"


def _nested(levels: int) -> bytes:
    pattern = _DEEPEST
    for _ in range(levels - 1):
        pattern = rb"[{\[](?:[^{}\[\]\"]++|" + _STRING + rb"|" + pattern + rb")*+[}\]]"
    return pattern


_OBJECT = re.compile(_nested(8), re.DOTALL)
# A byte order mark begins a file, and each part of a file that is made of several.
_BETWEEN = re.compile(rb"(?:[\s,\[\]]++|\xef\xbb\xbf)*+")


def lines(source: Source, start: int = 0) -> Iterator[Record]:
    """Yield each line as bytes, None for empty ones."""
    for line in source.lines(start):
        raw, size = line
        yield (TOO_LONG if raw is None else raw or None), size, lines_in(line)


class Table:
    """A CSV or TSV file with a header: `columns` are its names once `records` has begun."""

    def __init__(self, source: Source | Member, check: Callable[[Sequence[str]], None]) -> None:
        """`check` is called with the columns and raises BadFile if they are not those of the format."""
        self._source, self.check = source, check
        self.columns: list[str] = []

    @classmethod
    def with_columns(cls, source: Source | Member, needed: Collection[str], hint: str) -> "Table":
        """Return a table that has at least these columns. hint: what file it should be, for the error."""

        def check(columns: Sequence[str]) -> None:
            missing = [name for name in needed if name not in columns]
            if missing:
                raise BadFile(f"{source.name} has no column {', '.join(missing)} in its first line: {hint}")
            # As `select *` from several tables writes them: which of the two is meant cannot be known.
            twice = [name for name, times in Counter(columns).items() if times > 1]
            if twice:
                raise BadFile(f"{source.name} has column {', '.join(twice[:3])} more than once: {hint}")

        return cls(source, check)

    def fields(self, names: Sequence[str]) -> Callable[[Sequence[str]], tuple[str, ...]]:
        """Return a function that returns a row's fields of these columns, "" for a column that the file does not have.

        `records` must have begun.
        """
        places = {name: place for place, name in enumerate(self.columns)}
        fields = itemgetter(*[places.get(name, -1) for name in names])
        return lambda row: fields([*row, ""])

    def records(self, start: int = 0) -> Iterator[Record]:
        """Yield each row as a list of fields, and None for the header. Raises BadFile."""
        lists = self._source.line_lists()
        first = next(lists, None) or [(b"", 0)]
        raw, size = first.pop(0)
        header = _text(raw or b"")
        if isinstance(header, Rejection) or not raw:
            raise BadFile(f"{self._source.name} has no header: its first line must name the columns.")
        is_tsv = "\t" in header and "," not in header
        self.columns = header.split("\t") if is_tsv else _row(header) or [""]
        self.check(self.columns)
        if start:
            lists = self._source.line_lists(start)
        else:
            yield None, size, 1
            lists = chain([first], lists)
        yield from self._escaped(chain.from_iterable(lists)) if is_tsv else self._quoted(lists)

    def _escaped(self, lines: Iterator[Line]) -> Iterator[Record]:
        width = len(self.columns)
        for raw, size in lines:
            text = TOO_LONG if raw is None else _text(raw)
            if isinstance(text, Rejection) or not text:
                yield text or None, size, lines_in((raw, size))
                continue
            fields = text.split("\t")
            if "\\" in text:
                fields = [unescaped(field) if "\\" in field and field[0] != "[" else field for field in fields]
            yield (fields if len(fields) == width else self._width(len(fields))), size, 1

    def _quoted(self, lists: Iterator[list[Line]]) -> Iterator[Record]:
        waiting: deque[Line] = deque()
        for lines in lists:
            waiting.extend(lines)
            while waiting:
                paired = [*takewhile(_has_paired_quotes, waiting)]
                if paired:
                    for _ in paired:
                        waiting.popleft()
                    yield from zip(self._rows(paired), [size for _, size in paired], map(lines_in, paired), strict=True)
                else:
                    yield self._long_row(waiting, lists)

    def _rows(self, paired: Sequence[Line]) -> Sequence[list[str] | Rejection | None]:
        """Return the fields of lines of which each is a row."""
        content = b"\n".join([raw for raw, _ in paired if raw is not None])
        # A carriage return that is part of a field needs a check of each line.
        if b"\r\r" not in content:
            with suppress(UnicodeDecodeError, csv.Error):
                # A call for many lines takes half the time of one for each.
                rows = [*csv.reader(content.decode().split("\n"), strict=True)]
                if len(rows) == len(paired) and {*map(len, rows)} == {len(self.columns)}:
                    return [*map(_without_nulls, rows)] if b"\\N" in content else rows
        return [self._fields(raw) for raw, _ in paired if raw is not None]

    def _long_row(self, waiting: deque[Line], lists: Iterator[list[Line]]) -> Record:
        """Take the first line, which is too long or has a quote without its pair, with those that complete its row."""
        raw, size = waiting.popleft()
        if raw is None:
            return TOO_LONG, size, 1
        parts, whole, is_open = [(raw, size)], size, True
        while is_open and whole <= _MAX_ROW_BYTES:
            if not waiting:
                waiting.extend(next(lists, ()))
            more, more_size = waiting.popleft() if waiting else (None, 0)
            if more is None:
                if more_size:
                    waiting.appendleft((more, more_size))
                break
            parts.append((more, more_size))
            whole += more_size
            is_open = not more.count(b'"') & 1
        lines = [part for line in parts for part in [line[0]] * lines_in(line)]
        value = UNCLOSED if is_open else self._fields(b"\n".join(lines))
        if isinstance(value, Rejection):
            waiting.extendleft(reversed(parts[1:]))
            return UNCLOSED, size, 1
        return value, whole, len(lines)

    def _fields(self, raw: bytes) -> list[str] | Rejection | None:
        text = _text(raw)
        if isinstance(text, Rejection) or not text:
            return text or None
        fields = _row(text)
        if fields is None:
            return UNCLOSED
        if "\\N" in text:
            fields = _without_nulls(fields)
        return fields if len(fields) == len(self.columns) else self._width(len(fields))

    def _width(self, fields: int) -> Rejection:
        return Rejection("invalid_csv", f"The row has {fields:,} fields; the header has {len(self.columns):,}.")


def _has_paired_quotes(line: Line) -> bool:
    raw, _ = line
    return raw is not None and not raw.count(b'"') & 1


def _without_nulls(fields: list[str]) -> list[str]:
    return ["" if field == "\\N" else field for field in fields]


def unescaped(text: str) -> str:
    """Return a text without its escapes by backslashes."""
    return _ESCAPE.sub(lambda match: _ESCAPED.get(match[1], match[1]), text)


def _text(raw: bytes) -> str | Rejection:
    try:
        return raw.removesuffix(b"\r").decode()
    except UnicodeDecodeError:
        return NOT_UTF_8


def _row(text: str) -> list[str] | None:
    """Return the fields of a row of CSV, None where it is none."""
    if '"' not in text:
        return text.split(",")
    try:
        rows = list(csv.reader([text], strict=True))
    except csv.Error:
        return None
    return rows[0] if len(rows) == 1 else None


def json_objects(source: Source, start: int = 0) -> Iterator[Record]:
    """Yield each JSON object as bytes: of lines, of arrays, or of both. Raises BadFile where there is anything else."""
    blocks = source.blocks(start)
    rest, at, is_over, position, newline = b"", 0, False, start, -1
    while True:
        begin = _BETWEEN.match(rest, at).end()  # type: ignore[union-attr]
        is_object = rest[begin : begin + 1] == b"{"
        if 0 <= newline < begin:
            newline = rest.find(b"\n", begin)
            between = rest.count(b"\n", at, begin)
            if between and begin < len(rest):
                yield None, begin - at, between
                position += begin - at
                at = begin
        end = 0
        if is_object and rest[newline - 1 : newline + 2] == b"}\n{":
            # Only between objects is there a line that begins with a brace after one that ends with one: 20 µs less
            # for a line of 1 KB.
            end = newline
        elif is_object and (is_over or newline != len(rest) - 1):
            match = _OBJECT.match(rest, begin)
            # Where more may follow, it is not known yet whether this is the end of the last line.
            end = match.end() if match and (is_over or match.end() < len(rest)) else 0
        if end and end - begin <= MAX_LINE_BYTES:
            yield rest[begin:end], end - at, rest.count(b"\n", at, end) + (end == len(rest))
            position += end - at
            at = end
            continue
        if is_over and begin == len(rest):
            if begin > at:
                yield None, begin - at, rest.count(b"\n", at) + (not rest.endswith(b"\n"))
            return
        is_other = begin < len(rest) and not is_object
        if is_other or is_over or len(rest) - begin > MAX_LINE_BYTES or begin - at > MAX_LINE_BYTES:
            raise BadFile(_json_fault(source, rest[begin : begin + 20], position + begin - at))
        # The beginning of an object is parsed again when there is twice as much of it.
        pieces, missing = [rest[at:]], len(rest) - at
        while missing >= 0:
            block = next(blocks, b"")
            is_over = not block
            if is_over:
                break
            pieces.append(block)
            missing -= len(block)
        rest, at = b"".join(pieces), 0
        newline = rest.find(b"\n")


def _json_fault(source: Source, shown: bytes, byte: int) -> str:
    if not shown.startswith(b"{"):
        return f"{source.name} is not JSON with an object per event or visit: byte {byte:,} begins {shown!r}."
    return (
        f"The JSON object at byte {byte:,} of {source.name} is not closed, is longer than 1 MiB or has more than 8"
        " levels. Use a complete file."
    )
