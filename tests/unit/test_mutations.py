"""tests/mutation: every patch applies to the code as it is, and names tests that exist."""

import json
import re

import pytest

from tests.mutation import faults
from tests.mutation.faults import BadPatch, Hunk, applied
from tests.support.app import ROOT
from tests.support.cases import cases

PATCHES = sorted(faults.PATCHES.glob("*.patch"))


def test_every_patch_applies() -> None:
    """A change of the code that a patch is about changes the patch in the same commit."""
    assert len(PATCHES) > 200
    assert faults.unapplied([faults.read_fault(path) for path in PATCHES]) == []


def test_every_patch_names_tests_that_exist() -> None:
    named = {test for path in PATCHES for test in faults.read_fault(path).tests}
    assert [test for test in sorted(named) if not exists(test)] == []


def test_noticed_names_patches() -> None:
    noticed = json.loads(faults.NOTICED.read_text())
    assert noticed.keys() <= {path.stem for path in PATCHES}


def exists(test: str) -> bool:
    """Return whether a test file, or a function in it, exists."""
    file, _, name = test.partition("::")
    return (ROOT / file).exists() and (
        not name or re.search(rf"\bdef {re.escape(name.partition('[')[0])}\(", (ROOT / file).read_text()) is not None
    )


HUNK = Hunk(2, ["b", "c", "d"], ["b", "C", "d"], 1, 1)


@cases(
    ("text", "expected"),
    [
        pytest.param("a\nb\nc\nd\n", "a\nb\nC\nd\n", id="another line number"),
        pytest.param("b\nc\nd\nb\nc\nd\nb\nc\nd", "b\nc\nd\nb\nC\nd\nb\nc\nd", id="the nearest of several"),
        pytest.param("x\nc\ny\n", "x\nC\ny\n", id="other lines around"),
    ],
)
def test_a_hunk_is_applied_where_its_lines_stand(text: str, expected: str) -> None:
    assert applied(text, HUNK) == expected


@cases("text", ["", "b\nd\n", "x\nc\ny\nc\n"], ids=["empty", "missing", "not unique without its neighbours"])
def test_a_hunk_without_a_place(text: str) -> None:
    with pytest.raises(BadPatch):
        applied(text, HUNK)
