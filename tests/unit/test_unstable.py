"""`.ci/tests`: what fails is run once more, and named where it passes then."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.app import ROOT

# Each test records its runs, and fails in as many as its parameter.
TESTS = """
from pathlib import Path
import pytest

@pytest.mark.parametrize(("name", "failures"), {cases})
def test_it(name, failures):
    with Path(name).open("a+") as runs:
        runs.write("x")
        assert runs.tell() > failures
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("files", "status", "runs_again"),
    [
        ([[1, 0], [1], [1, 1], [1], [1], [1]], 0, True),
        ([[1, 9, 0]], 1, True),
        ([[1]] * 7, 1, False),
        ([[1] * 31], 1, False),
    ],
    ids=["six files fail once", "one test fails twice", "seven files fail", "31 tests fail"],
)
def test_a_test_that_passes_when_run_again_is_named(
    files: list[list[int]], status: int, runs_again: bool, tmp_path: Path
) -> None:
    unstable, runs = list[str](), dict[str, int]()
    for place, failures in enumerate(files):
        cases = [(f"runs {place} {number}", count) for number, count in enumerate(failures)]
        (tmp_path / f"test_{place}.py").write_text(TESTS.format(cases=cases))
        unstable += [f"test_{place}.py::test_it[{name}-1]" for name, count in cases if runs_again and count == 1]
        runs |= {name: 2 if runs_again and count else 1 for name, count in cases}
    done = run(tmp_path, ".venv/bin/python -m pytest -q -n 2")
    assert done.returncode == status, done.stdout + done.stderr
    # With two workers they do not fail in the order of the files.
    assert sorted(re.findall(r"^UNSTABLE: (.*)$", done.stdout, re.MULTILINE)) == unstable
    assert {name: len((tmp_path / name).read_text()) for name in runs} == runs


@pytest.mark.slow
def test_what_does_not_run_to_its_end_is_not_run_again(tmp_path: Path) -> None:
    (tmp_path / "test_scratch.py").write_text("nonsense")
    done = run(tmp_path, ".venv/bin/python -m pytest -q -n 0")
    assert done.returncode == 2
    assert "second run" not in done.stdout
    done = run(tmp_path, "exit 1")
    assert (done.returncode, done.stdout) == (1, "")


def run(folder: Path, command: str) -> "subprocess.CompletedProcess[str]":
    """Run `.ci/tests` in a directory, which gets this Python as its .venv."""
    if not (folder / ".venv").exists():
        (folder / ".venv").symlink_to(sys.prefix)
    (folder / "pytest.ini").write_text("[pytest]\n")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    # Of all plugins that are installed this needs one.
    environment |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": "-p xdist.plugin"}
    return subprocess.run(
        [ROOT / ".ci" / "tests", command], cwd=folder, env=environment, capture_output=True, text=True
    )
