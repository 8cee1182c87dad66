"""The benchmark with a small data set: it writes rows by its own statements, which a change of the schema can break."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.in_turn
def test_the_benchmark_builds_its_data_and_reads_it(tmp_path: Path) -> None:
    sizes = ("--events", "1000", "--vitals", "4000", "--points", "4000", "--assignments", "4000", "--repeats", "1")
    parts = ("--only", "build", "read", "measurements")
    words = [sys.executable, str(ROOT / "bench" / "run.py"), *sizes, *parts, "--folder", str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "NOT MEASURED" not in done.stdout
