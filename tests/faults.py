"""Plants faults one by one in a copy of the code and expects the tests to fail: a test that cannot fail proves nothing.

    python tests/faults.py [NAME ...]

Each fault is one exact replacement in one file. For each, the named part of the suite runs on the copy and must fail;
with the code as it is, the same parts must pass, which is checked first. Exit status 0 if every fault was found.
"""

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent


class Fault(NamedTuple):
    """`old` stands exactly once in `file` and becomes `new`; `tests` must notice."""

    name: str
    file: str
    old: str
    new: str
    tests: str


FAULTS = (
    Fault(
        "a gap of 29 minutes",
        "tally/sessions.py",
        "VISIT_GAP_MS = 30 * 60 * 1000",
        "VISIT_GAP_MS = 29 * 60 * 1000",
        "tests/test_sessions.py",
    ),
    Fault(
        "73 hours",
        "tally/events.py",
        "OLDEST_MS = 72 * 3_600_000",
        "OLDEST_MS = 73 * 3_600_000",
        "tests/test_collect_fields.py",
    ),
    Fault(
        "synchronous OFF",
        "tally/schema.py",
        "pragma synchronous = full",
        "pragma synchronous = off",
        "tests/test_store.py",
    ),
    Fault(
        "a dropped dot in the origin check",
        "tally/hosts.py",
        'host.endswith("." + domain)',
        "host.endswith(domain)",
        "tests/test_hosts.py",
    ),
    Fault(
        "X-Forwarded-For believed from anyone",
        "tally/origin.py",
        "    if not forwarded or not _is_trusted(believed, trusted):\n        return believed\n    read",
        "    if not forwarded:\n        return believed\n    read",
        "tests/test_origin.py",
    ),
    Fault(
        "the answer before the commit",
        "tally/store.py",
        "        self._writer.start(",
        "        for job, tell in group:\n            tell([None] * len(job.rows))\n        self._writer.start(",
        "tests/test_store.py",
    ),
    Fault(
        "filters joined by or",
        "tally/queries.py",
        'sql += f" and {column} in (select id',
        'sql += f" or {column} in (select id',
        "tests/test_read_api.py",
    ),
    Fault(
        "a day of 24 hours on a clock change",
        "tally/timerange.py",
        "yield max(span.start_ms, day * DAY_MS - span.offset_ms), span.offset_ms",
        "yield day * DAY_MS - spans[0].offset_ms, span.offset_ms",
        "tests/test_timerange.py",
    ),
)


def main() -> int:
    """Plants each fault; the number that no test noticed is the exit status."""
    chosen = [fault for fault in FAULTS if not sys.argv[1:] or fault.name in sys.argv[1:]]
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        shutil.copytree(
            ROOT, copy, ignore=shutil.ignore_patterns(".git", ".venv", "__pycache__", ".hypothesis", "*.db*")
        )
        tests = sorted({part for fault in chosen for part in fault.tests.split()})
        if run(copy, tests) != 0:
            print("without a fault these tests must pass:", *tests)
            return 1
        for fault in chosen:
            begun = time.monotonic()
            found = is_found(copy, fault)
            missed += not found
            print(f"{'found ' if found else 'MISSED'}  {fault.name}  ({time.monotonic() - begun:.0f} s)", flush=True)
    print(f"{len(chosen) - missed} faults found, {missed} missed")
    return min(missed, 1)


def is_found(copy: Path, fault: Fault) -> bool:
    """Whether the tests fail while the fault is in the copy."""
    path = copy / fault.file
    text = path.read_text()
    if text.count(fault.old) != 1:
        raise SystemExit(f"{fault.name}: {fault.old!r} stands {text.count(fault.old)} times in {fault.file}, not once")
    path.write_text(text.replace(fault.old, fault.new))
    try:
        # 1: tests ran and some failed. Anything else, such as 2 for code that does not load, is no finding.
        return run(copy, fault.tests.split()) == 1
    finally:
        path.write_text(text)


def run(copy: Path, tests: list[str]) -> int:
    """pytest's exit status for some tests of the copy."""
    words = [sys.executable, "-m", "pytest", "-q", "-x", "--no-header", "-p", "no:cacheprovider", *tests]
    return subprocess.run(words, cwd=copy, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode


if __name__ == "__main__":
    sys.exit(main())
