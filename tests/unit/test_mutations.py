"""tests/mutation: every patch applies to the code as it is, and names tests that exist."""

import json

import pytest

from tests.mutation import faults
from tests.mutation.faults import BadPatch, Fault, Hunk, applied
from tests.support.cases import cases

PATCHES = sorted(faults.PATCHES.glob("*.patch"))
DETECTED_BY = json.loads(faults.DETECTED_BY.read_text())


def test_every_patch_applies() -> None:
    """A change of the code that a patch is about changes the patch in the same commit."""
    assert len(PATCHES) > 200
    assert faults.unapplied([faults.read_fault(path) for path in PATCHES]) == []


@pytest.mark.slow
def test_named_and_recorded_tests_exist() -> None:
    read = map(faults.read_fault, PATCHES)
    faults_read = [fault._replace(tests=[*fault.tests, DETECTED_BY.get(fault.name, fault.tests[0])]) for fault in read]
    assert faults.missing_tests(faults_read, faults.collected(faults_read)) == []


def test_tests_that_pytest_does_not_collect_are_missing() -> None:
    here = "tests/unit/test_mutations.py"
    # A function that is no test, a test that is not in the file, and a file.
    missing = [f"{here}::one_fault", f"{here}::test_unknown", "tests/unit/test_unknown.py"]
    fault = one_fault([here, f"{here}::test_every_fault_is_recorded", *missing])
    assert faults.missing_tests([fault], faults.collected([fault])) == sorted(missing)


def one_fault(tests: list[str]) -> Fault:
    return Fault("a_name", "a title", tests, [])


def test_every_fault_is_recorded() -> None:
    """`faults.py --record NAME` does it."""
    assert sorted(DETECTED_BY) == [path.stem for path in PATCHES]


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
