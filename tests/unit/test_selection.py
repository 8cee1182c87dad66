"""tests/support/selection.py: which tests run in turn."""

import pytest

from tests.support.selection import has_turn

TESTS = [f"tests/test_one.py::test_{number}" for number in range(400)]


def test_a_fourth_runs_and_another_text_takes_others(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = []
    for turn in ("a", "a", "b"):
        monkeypatch.setenv("TALLY_TURN", turn)
        runs.append([test for test in TESTS if has_turn(test)])
    assert runs[0] == runs[1] != runs[2]
    assert 60 < len(runs[0]) < 140


def test_each_test_has_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    left = set(TESTS)
    for turn in range(60):
        monkeypatch.setenv("TALLY_TURN", str(turn))
        left = {test for test in left if not has_turn(test)}
    assert not left


def test_all_run_without_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TALLY_TURN", raising=False)
    assert all(map(has_turn, TESTS))
