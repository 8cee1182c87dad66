"""tests/support/cases.py: every case runs, and each that fails is named."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.app import ROOT

TESTS = """
import pytest
from tests.support.cases import cases

@cases("a, b", [(1, 1), pytest.param(1, 2, id="first-wrong"), (3, 3), (3, 4)])
@cases("sign", (1, -1))
def test_plain(a, b, sign, tmp_path):
    assert tmp_path.exists()
    assert a * sign == b * sign

@cases("n", [0, 1, 2], ids="abc")
async def test_async(n):
    assert n < 2

@cases("n", [1], ids=lambda n: f"is-{n}")
def test_good(n):
    assert n
"""


@pytest.mark.slow
def test_failing_cases_are_named(tmp_path: Path) -> None:
    """A test of a table fails once and names its failing cases, with plain and asynchronous functions."""
    (tmp_path / "test_tables.py").write_text(TESTS)
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "asyncio_mode=auto", "--rootdir"]
    done = subprocess.run([*words, tmp_path, tmp_path], cwd=ROOT, capture_output=True, text=True)
    named = re.findall(r"^_+ test_\w+ \[(.+)\] _+$", done.stdout, re.MULTILINE)
    assert named == ["1-first-wrong", "-1-first-wrong", "1-3-4", "-1-3-4", "c"]
    failed = [line.split(" - ")[0].split("::")[-1] for line in done.stdout.splitlines() if line.startswith("FAILED")]
    assert failed == ["test_plain", "test_async"]
    assert "1 passed" in done.stdout
