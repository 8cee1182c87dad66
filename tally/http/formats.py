"""The two formats of a table in the read API: JSON objects, and CSV.

In CSV a text that a spreadsheet would run as a formula gets an apostrophe in front, also within the text where a
spreadsheet that splits on semicolons or tabs would begin a cell; numbers never do. The csv module does the quoting.
Lines end with CRLF (RFC 4180). Times and texts are the same as in JSON, null is an empty cell. A file that a person
opens begins with a byte order mark: without it, Excel reads UTF-8 as the code page of its locale.
"""

import csv
import io
import re
from collections.abc import Iterable, Sequence
from typing import Any

import orjson
from aiohttp import web

# A formula starts with one of these, in some spreadsheets also with its full-width form; some skip a tab or a line
# break in front of it.
_SIGNS = "=+\\-@\uff1d\uff0b\uff0d\uff20"
_FORMULA = re.compile(f"[{_SIGNS}\t\r\n]")
# A spreadsheet that splits on semicolons or tabs (Excel in locales with a decimal comma; LibreOffice by choice) begins
# a cell after each of them within a text, and a row after each line break, because it does not honour quotes in the
# middle of a cell. It removes quotes at the beginning of that cell.
_FORMULA_WITHIN = re.compile(f'([;\t\r\n]["\t\r\n]*)(?=[{_SIGNS}])')
# Compact JSON has semicolons only in strings.
_FORMULA_IN_JSON = re.compile(f";(?=[{_SIGNS}])")


def csv_response(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, has_mark: bool = False) -> web.Response:
    """Return the rows as CSV. has_mark: with a byte order mark."""
    text = ("\ufeff" if has_mark else "") + csv_text(columns, rows)
    return web.Response(text=text, content_type="text/csv", charset="utf-8")


def records(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[dict[str, Any]]:
    """Return the rows as JSON has them: objects by column."""
    return [dict(zip(columns, row, strict=True)) for row in rows]


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a header row and the rows as CSV."""
    return csv_lines([columns]) + csv_lines(rows)


def csv_lines(rows: Iterable[Sequence[Any]]) -> str:
    """Return the rows as CSV, without a header."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerows([_cell(value) for value in row] for row in rows)
    return out.getvalue()


def _cell(value: Any) -> Any:
    """Return the value to write: a text that a spreadsheet would run as a formula gets an apostrophe in front."""
    if isinstance(value, orjson.Fragment):
        # An apostrophe would change the JSON; an escape does not.
        return _FORMULA_IN_JSON.sub(r"\\u003b", orjson.dumps(value).decode())
    if not isinstance(value, str):
        return value
    if _FORMULA.match(value):
        value = "'" + value
    return _FORMULA_WITHIN.sub(r"\1'", value)
