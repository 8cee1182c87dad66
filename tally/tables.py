"""Rows as JSON objects or as CSV: the two shapes of a table in the read API.

A CSV cell that a spreadsheet would run as a formula gets an apostrophe in front; numbers never do, and what is quoted
is quoted by the csv module. Lines end with CRLF (RFC 4180), times and texts are the same as in JSON, unset is empty.
"""

import csv
import io
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import orjson
from aiohttp import web

from tally.errors import json_answer

# Spreadsheets start a formula at these, some also at their full-width forms; a tab or a line break in front of one is
# skipped by some.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


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
    if isinstance(value, orjson.Fragment):
        return orjson.dumps(value).decode()
    if isinstance(value, str) and value.startswith(_FORMULA):
        return "'" + value
    return value
