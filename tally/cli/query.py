"""The command `query`: read-only SQL over the database, beside a running server.

tally/transfer/query.py runs the SQL. The rows are written while they are read, so memory is bounded: a table keeps its
first rows, from which the widths of its columns follow. Collected texts may have any character: a table shows control
characters as escapes, and CSV marks formulas.
"""

import argparse
import contextlib
import os
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

import orjson

from tally.cli.console import Failure, argument, database, printable, say, set_function
from tally.settings import Settings
from tally.transfer.query import BadQuery, open_query

_STANDARD = "-"
_MAX_SQL_BYTES = 1_000_000
_MAX_SECONDS = 86_400
# The rows that are kept in memory at once; the widths of a table's columns follow from the first of them.
_ROWS_AT_ONCE = 1_000
_MAX_WIDTH = 80
# How long a function may take after the end of the query's time.
_GRACE_S = 5.0

Rows = Iterable[Sequence[Any]]
Writer = Callable[[Sequence[str], Rows], None]


def add_query(parser: argparse.ArgumentParser) -> None:
    """Add the options of `query`."""
    set_function(parser, _query)
    parser.add_argument("sql", metavar="SQL", help="a SELECT statement; - reads it from standard input")
    parser.add_argument("--format", choices=_WRITERS, default="table", help="table (default), csv or jsonl")
    parser.add_argument(
        "--limit",
        metavar="ROWS",
        type=argument(_row_count),
        default=1_000,
        help="maximum number of rows, 0 for all (default: 1000)",
    )
    parser.add_argument(
        "--seconds",
        metavar="S",
        type=argument(_seconds),
        default=30.0,
        help="maximum duration of the query in seconds (default: 30)",
    )


def _row_count(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,12}", text):
        raise ValueError(f"must be a number of rows, 0 for all (got {text!r})")
    return int(text)


def _seconds(text: str) -> float:
    if not re.fullmatch(r"[0-9]{1,5}(\.[0-9]{1,3})?", text) or not 0 < float(text) <= _MAX_SECONDS:
        raise ValueError(f"must be between 0.001 and {_MAX_SECONDS} (got {text!r})")
    return float(text)


def _query(arguments: argparse.Namespace, settings: Settings) -> None:
    sql = arguments.sql if arguments.sql != _STANDARD else _from_standard_input()
    try:
        # `database` checks the file, and deletes SQLite's log at the end where no server runs. The query has a
        # connection of its own, which can only read.
        with (
            database(settings, write=False),
            _ended_after(arguments.seconds),
            open_query(settings.db, sql, arguments.seconds) as result,
        ):
            rows = iter(result)
            _WRITERS[arguments.format](result.columns, islice(rows, arguments.limit) if arguments.limit else rows)
            if next(rows, None) is not None:
                say(f"the result has more than {arguments.limit:,} rows: raise --limit, or set it to 0 for all")
    except BadQuery as bad:
        raise Failure(str(bad)) from None


@contextlib.contextmanager
def _ended_after(seconds: float) -> Iterator[None]:
    """End the process where the block takes much longer: no single call of a function can be interrupted."""

    def end() -> None:
        say(f"analytics-server: the query took longer than {seconds:g} s and could not be interrupted")
        os._exit(1)

    timer = threading.Timer(seconds + _GRACE_S, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _from_standard_input() -> str:
    sql = sys.stdin.read(_MAX_SQL_BYTES + 1)
    if len(sql) > _MAX_SQL_BYTES:
        raise Failure(f"the query has more than {_MAX_SQL_BYTES:,} characters")
    return sql


def _write_table(columns: Sequence[str], rows: Rows) -> None:
    """Write aligned columns: numbers to the right, long texts cut, nulls empty."""
    unread = iter(rows)
    names = [_shown(name) for name in columns]
    # The values themselves may be long.
    kinds = [set[bool]() for _ in columns]
    shown = []
    for row in islice(unread, _ROWS_AT_ONCE):
        shown.append([_shown(value) for value in row])
        for kind, value in zip(kinds, row, strict=True):
            if value is not None:
                kind.add(isinstance(value, int | float))
    widths = [max(map(len, column)) for column in zip(names, *shown, strict=True)]
    is_number = [kind == {True} for kind in kinds]

    def write(cells: Iterable[str]) -> None:
        aligned = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(cells, widths, is_number, strict=True)
        )
        print("  ".join(aligned).rstrip())

    write(names)
    write("-" * width for width in widths)
    for cells in chain(shown, ([_shown(value) for value in row] for row in unread)):
        write(cells)


def _shown(value: object) -> str:
    """Return a value in one line, without control characters: a terminal would obey those of a collected text."""
    text = "" if value is None else value.hex() if isinstance(value, bytes) else str(value)
    return printable(text[: _MAX_WIDTH - 1] + "…" if len(text) > _MAX_WIDTH else text)


def _write_csv(columns: Sequence[str], rows: Rows) -> None:
    """Write CSV as the read API does (tally/http/formats.py)."""
    from tally.http.formats import csv_lines  # here: imports aiohttp, which the other formats do not need

    unread: Iterator[Sequence[Any]] = chain([columns], map(_plain, rows))
    while text := csv_lines(islice(unread, 1)):
        sys.stdout.write(text)


def _write_json(columns: Sequence[str], rows: Rows) -> None:
    """Write one JSON object a row. Raises BadQuery if two columns have the same name."""
    repeated = next((name for name in columns if columns.count(name) > 1), None)
    if repeated is not None:
        raise BadQuery(f"two columns are named {repeated}: name them with AS")
    for row in rows:
        print(orjson.dumps(dict(zip(columns, _plain(row), strict=True))).decode())


def _plain(row: Sequence[Any]) -> list[Any]:
    return [value.hex() if isinstance(value, bytes) else value for value in row]


_WRITERS: dict[str, Writer] = {"table": _write_table, "csv": _write_csv, "jsonl": _write_json}
