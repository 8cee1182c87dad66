"""tally/transfer/records.py: records of any division of a file, from any of its records on."""

import contextlib
import csv
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tally.events.validation import Rejection
from tally.storage.database import open_database
from tally.transfer import files
from tally.transfer.chunks import Sizes
from tally.transfer.files import Source, open_source
from tally.transfer.importer import import_events
from tally.transfer.records import NOT_UTF_8, UNCLOSED, Record, Table, json_objects, lines
from tests.support.app import NOON_MS
from tests.support.cases import cases
from tests.support.imports import Imports
from tests.unit.transfer.test_matomo import VISITS, action, visit


def table(source: Source, start: int) -> Iterator[Record]:
    return Table(source, lambda columns: None).records(start)


# Objects of 4 KB, so that some cross the blocks in which files are read.
LARGE = [{"id": id, "text": '}\n{ \\" [' * 500} for id in range(200)]
FILES: dict[str, tuple[Callable[[Source, int], Iterator[Record]], str, list[Any]]] = {
    "lines": (lines, "a\n\nb", [b"a", b"b"]),
    "many empty lines": (lines, "a" + "\n" * 100 + "b" + "\r\n" * 50 + "c", [b"a", b"b\r", b"\r", b"c"]),
    "empty lines between rows": (table, "a,b\n" + "\n" * 90 + "1,2" + "\r\n" * 80 + "3,4", [["1", "2"], ["3", "4"]]),
    "empty lines in a field": (table, 'a,b\n1,"' + "\n" * 70 + '"\n3,4', [["1", "\n" * 70], ["3", "4"]]),
    "rows": (table, 'a,b\n1,2\n"x\n""y"",",3\r\n\n4,5', [["1", "2"], ['x\n"y",', "3"], ["4", "5"]]),
    "rows with errors": (table, 'a,b\n"1,2\n3,4\n5,"6"\n', [UNCLOSED, ["3", "4"], ["5", "6"]]),
    "tabs": (table, "a\tb\n1\\t2\t\\N\n['\\'']\t\"\n", [["1\t2", ""], ["['\\'']", '"']]),
    "objects by line": (json_objects, "".join(json.dumps(one) + "\n" for one in LARGE), LARGE),
    "an array": (json_objects, json.dumps(LARGE), LARGE),
    "arrays": (json_objects, json.dumps(LARGE[:3]) + "\r\n" + json.dumps(LARGE[3:], indent=2) + "\n\n", LARGE),
    "no objects": (json_objects, "[\n]\n", []),
    "marked lines": (lines, "\ufeffa\nb\n", [b"a", b"b"]),
    "marked rows": (table, "\ufeffa,b\n1,2\n3,4\n", [["1", "2"], ["3", "4"]]),
    "marked objects": (json_objects, "\ufeff" + json.dumps(LARGE[:9]) + "\n\ufeff" + json.dumps(LARGE[9:]), LARGE),
}


@cases(("divide", "content", "expected"), FILES.values(), ids=FILES)
def test_records_from_any_of_them_on(
    tmp_path: Path, divide: Callable[[Source, int], Iterator[Record]], content: str, expected: list[Any]
) -> None:
    (tmp_path / "file").write_text(content, newline="")
    with open_source(str(tmp_path / "file")) as source:
        found = list(divide(source, 0))
        values = [json.loads(value) if divide is json_objects else value for value, _, _ in found if value is not None]
        assert values == expected
        assert sum(size for _, size, _ in found) == len(content.encode())
        assert sum(number for _, _, number in found) == content.count("\n") + (not content.endswith("\n"))
        at = 0
        # Of many, the first ones and some that follow a block.
        for number, (_, size, _) in enumerate(found):
            at += size
            if number < 5 or number % 37 == 0:
                assert list(divide(source, at)) == found[number + 1 :]


@cases(
    ("content", "expected"),
    [
        ('{"a":1}\n\n{"a":2}\n{"a":3}', [1, 3, 4]),
        ('[\n{"a":1},\r\n{"a":{\n"b":2}},{"a":3}\n]\n', [2, 3, 4]),
        ('[{"a":1},{"a":2}]', [1, 1]),
        (json.dumps(LARGE, indent=1), [2 + 4 * number for number in range(len(LARGE))]),
        ("\n".join(map(json.dumps, LARGE)), [1 + number for number in range(len(LARGE))]),
    ],
)
def test_an_object_has_the_number_of_the_line_on_which_it_begins(
    tmp_path: Path, content: str, expected: list[int]
) -> None:
    (tmp_path / "file").write_text(content, newline="")
    found, read = [], 0
    with open_source(str(tmp_path / "file")) as source:
        for value, _, number in json_objects(source):
            if value is not None:
                found.append(read + 1)
            read += number
    assert found == expected
    assert read == content.count("\n") + (not content.endswith("\n"))


def rows_one_by_one(content: bytes) -> list[Record]:
    """Return the records of the lines after a header of two columns, by the rules at the top of the module."""

    def fields(raw: bytes) -> Any:
        try:
            text = raw.removesuffix(b"\r").decode()
        except UnicodeDecodeError:
            return NOT_UTF_8
        if not text:
            return None
        try:
            found = [*csv.reader([text], strict=True)] if '"' in text else [text.split(",")]
        except csv.Error:
            return UNCLOSED
        row = ["" if field == "\\N" else field for field in found[0]]
        return row if len(row) == 2 else "width"

    lines = content.removesuffix(b"\n").split(b"\n") if content else []
    records: list[Record] = []
    at = 0
    while at < len(lines):
        odd = [n for n in range(at, len(lines)) if lines[n].count(b'"') & 1]
        end = at + 1
        value = fields(lines[at])
        if odd and odd[0] == at:
            end = odd[1] + 1 if len(odd) > 1 else at + 1
            value = fields(b"\n".join(lines[at:end])) if len(odd) > 1 else UNCLOSED
            if isinstance(value, str | Rejection):
                value, end = UNCLOSED, at + 1
        records.append((value, sum(len(line) + 1 for line in lines[at:end]), end - at))
        at = end
    return records


GOOD_ROWS = st.sampled_from([b"1,2", b'"x, y",""', b'"a ""b""",\\N', "é,ü".encode(), b'"c",d\r', b'"\0\0",'])
PIECES = [b"a", b",", b'"', b'""', b"\r", b"\\N", "é".encode(), b"\xff", b"\0"]
ANY_ROWS = st.lists(st.sampled_from(PIECES), max_size=6).map(b"".join)


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    drawn=st.lists(st.one_of(GOOD_ROWS, GOOD_ROWS, GOOD_ROWS, ANY_ROWS), max_size=12),
    block=st.sampled_from([1, 7, 30, 1_000]),
    start=st.integers(0, 12),
)
@pytest.mark.slow
def test_rows_do_not_depend_on_blocks(tmp_path: Path, drawn: list[bytes], block: int, start: int) -> None:
    """Rows that are read together are those that are read one by one."""
    content = b"".join(row + b"\n" for row in drawn)
    path = tmp_path / "file"
    path.write_bytes(b"a,b\n" + content)
    expected = rows_one_by_one(content)
    with pytest.MonkeyPatch.context() as patch, open_source(str(path)) as source:
        patch.setattr(files, "_BLOCK_BYTES", block)
        whole = [*Table(source, lambda columns: None).records(0)]
        assert whole[0] == (None, 4, 1)
        found = [
            ("width" if isinstance(value, Rejection) and "fields" in value.message else value, *more)
            for value, *more in whole[1:]
        ]
        assert found == [tuple(record) for record in expected]
        # From any of its records on.
        at = 4 + sum(size for _, size, _ in expected[:start])
        assert [*Table(source, lambda columns: None).records(at)] == whole[1 + start :]


@pytest.mark.parametrize("after", range(1, 9))
def test_an_interrupted_import_of_visits_continues(imports: Imports, after: int) -> None:
    """A visit has many events, so chunks end between visits and parts within them."""
    more = [visit(10 + n, *[action(f"/{n}/{k}", 60 * k) for k in range(7)], visitorId=f"{n}") for n in range(6)]
    path = imports.file(json.dumps([*VISITS, *more]))
    steps = iter(range(1, 1_000))

    def progress(position: int) -> None:
        if next(steps) == after:
            raise KeyboardInterrupt

    def take() -> int:
        with (
            contextlib.closing(open_database(imports.db, create=False)) as connection,
            open_source(str(path)) as source,
        ):
            sizes = Sizes(chunk_lines=9, part_lines=4)
            options = {"now_ms": NOON_MS, "format": "matomo", "sizes": sizes, "progress": progress}
            return import_events(connection, 1, source, **options).accepted  # type: ignore[arg-type]

    with pytest.raises(KeyboardInterrupt):
        take()
    assert take() == 8 + 6 * 7
    assert imports.sql("select count(*), count(distinct id) from event") == [(50, 50)]
