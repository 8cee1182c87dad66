"""tests/support/selection.py: which tests run in turn."""

from pathlib import Path

import pytest

from tests.support.selection import changed_paths, has_turn, is_touched

TESTS = [f"tests/test_one.py::test_{number}" for number in range(400)]


@pytest.mark.parametrize(("turns", "least", "most"), [(4, 60, 140), (2, 140, 260)])
def test_a_part_runs_and_another_text_takes_others(
    monkeypatch: pytest.MonkeyPatch, turns: int, least: int, most: int
) -> None:
    runs = []
    for turn in ("a", "a", "b"):
        monkeypatch.setenv("TALLY_TURN", turn)
        runs.append([test for test in TESTS if has_turn(test, turns)])
    assert runs[0] == runs[1] != runs[2]
    assert least < len(runs[0]) < most


def test_each_test_has_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    left = set(TESTS)
    for turn in range(60):
        monkeypatch.setenv("TALLY_TURN", str(turn))
        left = {test for test in left if not has_turn(test)}
    assert not left


def test_all_run_without_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TALLY_TURN", raising=False)
    assert all(map(has_turn, TESTS))


def test_what_a_change_touches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    files = ["tests/robustness/test_crash.py", "tests/robustness/test_process.py", "tests/browser/test_goals.py"]
    monkeypatch.delenv("TALLY_CHANGED", raising=False)
    assert [is_touched(file, changed_paths()) for file in files] == [False, False, False]
    changed = tmp_path / "changed"
    monkeypatch.setenv("TALLY_CHANGED", str(changed))
    changed.write_text("examples/static/page.js\ntests/robustness/test_crash.py\n")
    assert [is_touched(file, changed_paths()) for file in files] == [True, False, False]
    changed.write_text("static/tracker.js\n")
    assert [is_touched(file, changed_paths()) for file in files] == [False, False, True]
