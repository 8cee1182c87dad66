"""tally/transfer/records.py: records of any division of a file, from any of its records on."""

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tally.storage.database import open_database
from tally.transfer.files import Source, open_source
from tally.transfer.importer import Sizes, import_events
from tally.transfer.records import UNCLOSED, Record, Table, json_objects, lines
from tests.support.app import NOON_MS
from tests.support.cases import cases
from tests.support.imports import Imports
from tests.unit.transfer.test_matomo import VISITS, action, visit


def table(source: Source, start: int) -> Iterator[Record]:
    return Table(source, lambda columns: None).records(start)


# Objects of 4 KB, so that some cross the blocks in which files are read.
LARGE = [{"id": id, "text": '}\n{ \\" [' * 500} for id in range(200)]
FILES: dict[str, tuple[Callable[[Source, int], Iterator[Record]], str, list[Any]]] = {
    "lines": (lines, "a\n\nb", [b"a", b"", b"b"]),
    "rows": (table, 'a,b\n1,2\n"x\n""y"",",3\r\n\n4,5', [["1", "2"], ['x\n"y",', "3"], ["4", "5"]]),
    "rows with errors": (table, 'a,b\n"1,2\n3,4\n5,"6"\n', [UNCLOSED, ["3", "4"], ["5", "6"]]),
    "tabs": (table, "a\tb\n1\\t2\t\\N\n['\\'']\t\"\n", [["1\t2", ""], ["['\\'']", '"']]),
    "objects by line": (json_objects, "".join(json.dumps(one) + "\n" for one in LARGE), LARGE),
    "an array": (json_objects, json.dumps(LARGE), LARGE),
    "arrays": (json_objects, json.dumps(LARGE[:3]) + "\r\n" + json.dumps(LARGE[3:], indent=2) + "\n\n", LARGE),
    "no objects": (json_objects, "[\n]\n", []),
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
        assert sum(size for _, size, _ in found) == len(content)
        assert sum(number for _, _, number in found) == len(content.rstrip("\n").split("\n")) or divide is json_objects
        at = 0
        # Of many, the first ones and some that follow a block.
        for number, (_, size, _) in enumerate(found):
            at += size
            if number < 5 or number % 37 == 0:
                assert list(divide(source, at)) == found[number + 1 :]


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
            given = {"now_ms": NOON_MS, "format": "matomo", "sizes": sizes, "progress": progress}
            return import_events(connection, 1, source, **given).accepted  # type: ignore[arg-type]

    with pytest.raises(KeyboardInterrupt):
        take()
    assert take() == 8 + 6 * 7
    assert imports.sql("select count(*), count(distinct id) from event") == [(50, 50)]
