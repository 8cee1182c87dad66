"""tests/mutation: every fault can be planted in the code as it is, and names tests that exist."""

from pathlib import Path

import pytest

from tests.mutation import faults
from tests.mutation.faults import BadFault, Change, Fault, changed
from tests.support.cases import cases

FILES = sorted(faults.FOLDER.glob("*.toml"))
FAULTS = faults.read_faults()


def test_every_fault_can_be_planted() -> None:
    """A change of the code that a fault quotes changes the fault in the same commit."""
    assert len(FAULTS) > 380
    assert faults.misplaced(FAULTS) == []


@cases("path", FILES, ids=[path.stem for path in FILES])
def test_faults_are_in_the_file_of_their_package_sorted(path: Path) -> None:
    """By file and name: branches that each add some rarely conflict."""
    found = [(Path(fault.changes[0].file), fault.name) for fault in faults.faults_in(path)]
    assert found == sorted(found)
    assert {file.parts[file.parts[0] == "tally" and len(file.parts) > 2] for file, _ in found} == {path.stem}


def test_names_are_unique() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)


def test_every_fault_is_recorded() -> None:
    """`faults.py --record NAME` does it."""
    assert [fault.name for fault in FAULTS if not fault.detected_by] == []


@pytest.mark.slow
def test_named_and_recorded_tests_exist() -> None:
    faults_read = [fault._replace(tests=[*fault.tests, fault.detected_by or ""]) for fault in FAULTS]
    assert faults.missing_tests(faults_read, faults.collected(faults_read)) == []


def test_tests_that_pytest_does_not_collect_are_missing() -> None:
    here = "tests/unit/test_mutations.py"
    # A function that is no test, a test that is not in the file, and a file.
    missing = [f"{here}::one_fault", f"{here}::test_unknown", "tests/unit/test_unknown.py"]
    fault = one_fault([here, f"{here}::test_every_fault_is_recorded", *missing])
    assert faults.missing_tests([fault], faults.collected([fault])) == sorted(missing)


def one_fault(tests: list[str]) -> Fault:
    return Fault("a_name", "a title", [], tests, None)


def test_some_faults_are_those_of_changed_files_first_and_others_by_the_seed() -> None:
    file, test = "tally/events/validation.py", "tests/api/test_metrics.py"
    of_changes = [
        fault
        for fault in FAULTS
        if file in {change.file for change in fault.changes}
        or test in {name.partition("::")[0] for name in fault.tests}
    ]
    assert 2 < len(of_changes) < 40
    for seed in ("a", "b"):
        chosen = faults.some(FAULTS, 48, seed, {file, test, "README.md"})
        assert len(chosen) == 48
        assert [fault for fault in chosen if fault in of_changes] == of_changes
    assert len(faults.some(FAULTS, 2, "a", {file, test})) == 2

    without = [faults.some(FAULTS, 48, seed, set()) for seed in ("a", "a", "b")]
    assert without[0] == without[1] != without[2]


CODE = """LIMIT = 1


@decorated(1)
def first():
    return LIMIT + 1


class Second:
    def first(self):
        return LIMIT + 1
"""


@cases(
    ("function", "old", "expected"),
    [
        ("", "LIMIT = 1", CODE.replace("LIMIT = 1", "X")),
        ("first", "LIMIT + 1", CODE.replace("LIMIT + 1", "X", 1)),
        ("first", "decorated(1)", CODE.replace("decorated(1)", "X")),
        ("Second", "return LIMIT + 1", "X".join(CODE.rsplit("return LIMIT + 1", 1))),
        ("Second.first", "        return LIMIT + 1\n", "X".join(CODE.rsplit("        return LIMIT + 1\n", 1))),
    ],
)
def test_a_text_is_changed_in_its_function(function: str, old: str, expected: str) -> None:
    assert changed(CODE, Change("a.py", function, old, "X")) == expected


@cases(
    ("function", "old", "message"),
    [
        ("", "LIMIT + 1", "2 times"),
        ("first", "1", "2 times"),
        ("first", "LIMIT = 1", "0 times"),
        ("second", "LIMIT", "0 functions second"),
    ],
)
def test_a_text_that_is_not_there_once(function: str, old: str, message: str) -> None:
    with pytest.raises(BadFault, match=message):
        changed(CODE, Change("a.py", function, old, "X"))


@cases(
    ("table", "message"),
    [
        ("file = 'a'\nold = 'b'\nnew = 'c'\n", "name: needs 'tests'"),
        ("function_ = 'a'\n", "name: no such key: function_"),
    ],
    ids=["without its tests", "an unknown key"],
)
def test_a_table_that_cannot_be_read(table: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "area.toml").write_text(f"[name]\n{table}")
    with pytest.raises(BadFault, match=message):
        faults.faults_in(tmp_path / "area.toml")


def test_the_record_is_written_beside_the_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faults, "FOLDER", tmp_path)
    (tmp_path / "area.toml").write_text("[a]\n# why\nfile = 'x'\n\n[ab]\ndetected_by = 'old'\nfile = 'y'\n")
    faults.record("a", 'test[\\d "x"]')
    faults.record("ab", "new")
    assert (tmp_path / "area.toml").read_text() == (
        '[a]\ndetected_by = "test[\\\\d \\"x\\"]"\n# why\nfile = \'x\'\n\n[ab]\ndetected_by = "new"\nfile = \'y\'\n'
    )
