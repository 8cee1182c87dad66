"""tally/http/formats.py: rows as JSON objects or as CSV.

The rules are in docs/reference/read-api.md, Responses (CSV). Lines end with CRLF (RFC 4180).
"""

import csv
import io
import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tally.http.formats import csv_response, csv_text, records
from tests.support.cases import cases


def cell(value: Any) -> str:
    """Return a cell as CSV, from a line with a second cell: alone, an empty cell would be an empty line."""
    text = csv_text(("a", "b"), [(value, "x")])
    assert text.startswith("a,b\r\n")
    return text.removeprefix("a,b\r\n").removesuffix(",x\r\n")


@cases(
    ("value", "written"),
    [
        pytest.param("plain", "plain", id="plain"),
        pytest.param("", "", id="empty"),
        pytest.param(None, "", id="unset"),
        pytest.param(0, "0", id="zero"),
        pytest.param(-1, "-1", id="negative-integer"),
        pytest.param(-2.5, "-2.5", id="negative-float"),
        pytest.param(1e300, "1e+300", id="large-float"),
        pytest.param("a,b", '"a,b"', id="comma"),
        pytest.param('say "x"', '"say ""x"""', id="quotes"),
        pytest.param("a\nb", '"a\nb"', id="line-feed"),
        pytest.param("a\rb", '"a\rb"', id="carriage-return"),
        pytest.param("a\r\nb", '"a\r\nb"', id="both"),
        pytest.param(" a ", " a ", id="blanks"),
        pytest.param("ä\U0001f600", "ä\U0001f600", id="unicode"),
        pytest.param("'", "'", id="apostrophe"),
        pytest.param("a=1", "a=1", id="formula-within"),
        pytest.param("a; b", "a; b", id="semicolon"),
        pytest.param("a;=1", "a;'=1", id="formula-after-a-semicolon"),
        pytest.param("a\t-1", "a\t'-1", id="formula-after-a-tab"),
        pytest.param('a;"\t=1', '"a;""\t\'=1"', id="formula-after-a-quote"),
        pytest.param("a\r\n+1", '"a\r\n\'+1"', id="formula-on-a-second-line"),
        pytest.param("=1;@x", "'=1;'@x", id="two-formulas"),
        pytest.param(orjson.Fragment('{"a":"x;=1;y"}'), '"{""a"":""x\\u003b=1;y""}"', id="formula-in-json"),
        pytest.param(" =1", " =1", id="blank-before"),
        pytest.param(orjson.Fragment('{"a":1,"b":"x"}'), '"{""a"":1,""b"":""x""}"', id="json"),
    ],
)
def test_a_cell(value: Any, written: str) -> None:
    """RFC 4180: a cell with a comma, quote or line break is quoted, and quotes are doubled."""
    assert cell(value) == written


@cases("first", ["=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20"])
@cases("rest", ["", "1", "cmd|' /C calc'!A0", 'HYPERLINK("http://x")', "1,2"])
def test_texts_that_look_like_formulas_get_an_apostrophe(first: str, rest: str) -> None:
    """A spreadsheet would run such cells as formulas."""
    (row,) = csv.reader(io.StringIO(cell(first + rest), newline=""))
    assert row == ["'" + first + rest]


@given(st.lists(st.tuples(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), st.integers())))
def test_texts_round_trip(rows: list[tuple[str, int]]) -> None:
    """RFC 4180: parsing returns the texts, except for apostrophes before possible formulas."""
    header, *found = csv.reader(io.StringIO(csv_text(("a", "b"), rows), newline=""), strict=True)
    assert header == ["a", "b"]
    assert [(a.replace("'", ""), int(b)) for a, b in found] == [(a.replace("'", ""), b) for a, b in rows]
    assert not any(a.startswith(("=", "+", "-", "@", "\t", "\r")) for a, _ in found)


# Texts of the characters that matter here.
HOSTILE = st.text(st.sampled_from("=+-@\uff1d;\t\r\n\",'a1 "), max_size=12)
FORMULAS = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@given(rows=st.lists(st.tuples(HOSTILE, st.dictionaries(HOSTILE, HOSTILE, max_size=2), HOSTILE), min_size=1))
def test_no_delimiter_makes_a_formula_of_a_part_of_a_cell(delimiter: str, rows: list[tuple[Any, ...]]) -> None:
    """Some locales split cells at semicolons or tabs; no part may begin like a formula."""
    written = csv_text(("a", "b", "c"), [(a, orjson.Fragment(orjson.dumps(b)), c) for a, b, c in rows])
    for row in csv.reader(io.StringIO(written, newline=""), delimiter=delimiter):
        assert not [cell for cell in row if cell.lstrip("\t\r\n").startswith(FORMULAS)]
    for (_, data, _), row in zip(rows, list(csv.DictReader(io.StringIO(written, newline=""))), strict=True):
        assert json.loads(row["b"]) == data


def test_lines_end_with_crlf_and_an_empty_list_has_a_header() -> None:
    """The header is written without rows too."""
    assert csv_text(("a", "b"), []) == "a,b\r\n"
    assert csv_text(("a", "b"), [(1, 2), (3, None)]) == "a,b\r\n1,2\r\n3,\r\n"


def test_records() -> None:
    """Keys in the order of the columns, texts unchanged."""
    found = records(("b", "a"), [("=1", None), ("x", orjson.Fragment("[1]"))])
    assert json.loads(orjson.dumps(found)) == [{"b": "=1", "a": None}, {"b": "x", "a": [1]}]
    assert list(found[0]) == ["b", "a"]


def test_as_csv() -> None:
    """text/csv in UTF-8."""
    response = csv_response(("a",), [("é",), ("=1",)])
    assert (response.status, response.headers["Content-Type"]) == (200, "text/csv; charset=utf-8")
    assert response.body == "a\r\né\r\n'=1\r\n".encode()
    marked = csv_response(("a",), [("é",), ("=1",)], has_mark=True)
    assert marked.body == b"\xef\xbb\xbf" + response.body


def test_a_row_of_another_length_raises() -> None:
    """Otherwise its cells would be in the wrong columns."""
    with pytest.raises(ValueError, match="argument 2"):
        records(("a", "b"), [(1,)])
