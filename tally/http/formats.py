"""Rows as JSON objects or as CSV: the two shapes of a table in the read API.

A CSV cell that a spreadsheet would run as a formula gets an apostrophe in front, also inside a text where a spreadsheet
that splits on semicolons or tabs would begin a cell; numbers never do, and what is quoted is quoted by the csv module.
Lines end with CRLF (RFC 4180), times and texts are the same as in JSON, unset is empty.
"""

import csv
import io
import re
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import orjson
from aiohttp import web

from tally.http.middleware import json_answer

# Spreadsheets start a formula at these, some also at their full-width forms; a tab or a line break in front of one is
# skipped by some.
_SIGNS = "=+\\-@\uff1d\uff0b\uff0d\uff20"
_FORMULA = re.compile(f"[{_SIGNS}\t\r\n]")
# A spreadsheet that splits on semicolons or tabs (Excel in locales with a decimal comma; LibreOffice by choice) begins
# a cell behind each of them inside a text, and a row behind each line break: the quotes around a text mean nothing in
# the middle of what it takes for a cell. Quotes at the beginning of that cell are removed.
_FORMULA_WITHIN = re.compile(f'([;\t\r\n]["\t\r\n]*)(?=[{_SIGNS}])')
# Compact JSON has a semicolon in strings alone.
_FORMULA_IN_JSON = re.compile(f";(?=[{_SIGNS}])")


def answer(columns: Sequence[str], rows: Iterable[Sequence[Any]], meta: dict[str, Any], as_csv: bool) -> web.Response:
    """`rows` of `columns` as `{"data": [...], "meta": ...}`, or as CSV, which has no place for meta."""
    if as_csv:
        return web.Response(text=csv_text(columns, rows), content_type="text/csv", charset="utf-8")
    data = [dict(zip(columns, row, strict=True)) for row in rows]
    return json_answer({"data": data, "meta": meta})


def round_half_away(figure: Fraction | None, decimals: int) -> float | int | None:
    """Rounded to so many decimals, halves away from zero; an int where there are none."""
    if figure is None:
        return None
    scaled = abs(figure) * 10**decimals
    whole: int = (2 * scaled.numerator + scaled.denominator) // (2 * scaled.denominator)
    signed = -whole if figure < 0 else whole
    return signed / 10**decimals if decimals else signed


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A header row and the rows."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(columns)
    writer.writerows([_cell(value) for value in row] for row in rows)
    return out.getvalue()


def _cell(value: Any) -> Any:
    """A value as it is written: a text that a spreadsheet would run as a formula gets an apostrophe in front of it."""
    if isinstance(value, orjson.Fragment):
        # An apostrophe would change the JSON; an escape does not.
        return _FORMULA_IN_JSON.sub(r"\\u003b", orjson.dumps(value).decode())
    if not isinstance(value, str):
        return value
    if _FORMULA.match(value):
        value = "'" + value
    return _FORMULA_WITHIN.sub(r"\1'", value)
