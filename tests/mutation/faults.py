"""Mutation tests: apply one fault at a time to a copy of the code, and check that a test fails.

    python tests/mutation/faults.py [--record] [--check] [--passed] [--part N/K] [NAME ...]

Each fault is a patch in tests/mutation/patches; NAME is its file name without `.patch`. Its first lines name the fault
and the tests of which at least one must fail with it:

    Fault: an almost full disk refuses nothing
    Tests: tests/robustness/test_min_free_disk.py

A patch is applied where its lines are, also at another line number, and without up to three lines of context. Exit
status 0 if every fault was detected. The same tests must pass without faults, which is checked first.

`--passed` checks that only for the tests of faults that are not recorded. The recorded ones passed in a copy when they
were recorded, and .ci/run gives this option where it has just run all tests of the same code.
`--check` only checks that all patches apply and that pytest collects the tests they name.
`--record` writes tests/mutation/detected_by.json for the faults named: the test that detected each fault. That test
runs first, and the others run only if it passes or no longer exists.
`--part N/K` takes every K-th fault, from the N-th on.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PATCHES = ROOT / "tests" / "mutation" / "patches"
DETECTED_BY = ROOT / "tests" / "mutation" / "detected_by.json"
# One per core of the smallest machine on which this runs.
WORKERS = 2
# All tests that a fault names take a minute or two. A test that waits for ever detects nothing and must not block CI.
MAX_RUN_S = 900
# Lines of context that may have changed before and after a change.
MAX_FUZZ = 3


class BadPatch(Exception):
    """A patch cannot be read, or does not apply."""


class Hunk(NamedTuple):
    """Lines `old` become `new`; `at` is the index of the first one when the patch was made."""

    at: int
    old: list[str]
    new: list[str]
    before: int
    after: int


class Fault(NamedTuple):
    """`name` is the file name; one of `tests` must fail while `hunks` are applied to their files."""

    name: str
    title: str
    tests: list[str]
    hunks: list[tuple[str, Hunk]]


def read_fault(path: Path) -> Fault:
    """Return the fault of a patch file."""
    head, _, diff = path.read_text().partition("\n--- a/")
    fields = dict(line.split(": ", 1) for line in head.splitlines() if ": " in line)
    if not fields.keys() >= {"Fault", "Tests"} or not diff:
        raise BadPatch(f"{path.name} needs the lines `Fault: ...` and `Tests: ...`, and a diff")
    hunks = []
    for part in ("--- a/" + diff).split("--- a/")[1:]:
        names, *found = re.split(r"(?m)^(?=@@ )", part)
        hunks += [(names.splitlines()[0], _hunk(text)) for text in found]
    return Fault(path.stem, fields["Fault"], fields["Tests"].split(), hunks)


def _hunk(text: str) -> Hunk:
    head, *lines = text.splitlines()
    match = re.match(r"@@ -(\d+)", head)
    if match is None:
        raise BadPatch(f"not the head of a hunk: {head!r}")
    kept = [index for index, line in enumerate(lines) if line[:1] not in "+-"]
    changed = [index for index in range(len(lines)) if index not in kept]
    old = [line[1:] for line in lines if line[:1] != "+"]
    new = [line[1:] for line in lines if line[:1] != "-"]
    return Hunk(int(match[1]) - 1, old, new, changed[0], len(lines) - 1 - changed[-1])


def applied(text: str, hunk: Hunk) -> str:
    """Return a text with a hunk applied where its lines stand; raises BadPatch where they do not."""
    lines = text.split("\n")
    for fuzz in range(MAX_FUZZ + 1):
        head, tail = min(fuzz, hunk.before), min(fuzz, hunk.after)
        old, new = hunk.old[head : len(hunk.old) - tail], hunk.new[head : len(hunk.new) - tail]
        found = [at for at in range(len(lines) - len(old) + 1) if old and lines[at : at + len(old)] == old]
        # Without context the changed lines alone must be unique.
        has_context = not fuzz or head < hunk.before or tail < hunk.after
        if found and (has_context or len(found) == 1):
            at = min(found, key=lambda at: abs(at - hunk.at - head))
            return "\n".join(lines[:at] + new + lines[at + len(old) :])
    changed = "\n".join(hunk.old[hunk.before : len(hunk.old) - hunk.after])
    raise BadPatch(f"these lines are not there, or not among these neighbours:\n{changed}")


def planted(root: Path, fault: Fault) -> dict[Path, str]:
    """Return the files of a fault, changed."""
    texts: dict[Path, str] = {}
    for name, hunk in fault.hunks:
        path = root / name
        try:
            texts[path] = applied(texts.get(path) or path.read_text(), hunk)
        except (BadPatch, OSError) as failure:
            raise BadPatch(f"tests/mutation/patches/{fault.name}.patch, {name}: {failure}") from None
    return texts


def main() -> int:
    """Apply each fault; return 0 if all were detected."""
    words = [word for word in sys.argv[1:] if word not in ("--record", "--check", "--passed")]
    is_recording = "--record" in sys.argv[1:]
    faults = [read_fault(path) for path in sorted(PATCHES.glob("*.patch"))]
    if words[:1] == ["--part"]:
        number, parts_in_all = map(int, words[1].split("/"))
        chosen = faults[number % parts_in_all :: parts_in_all]
    else:
        chosen = [fault for fault in faults if not words or fault.name in words]
    if unknown := set() if words[:1] == ["--part"] else set(words) - {fault.name for fault in faults}:
        raise SystemExit(f"no such patch: {', '.join(sorted(unknown))}")
    if wrong := unapplied(chosen):
        print(*wrong, f"{len(wrong)} of {len(chosen)} patches do not apply", sep="\n")
        return 1
    if missing := missing_tests(chosen, collected(chosen)):
        print(*missing, f"pytest does not collect {len(missing)} of the tests that patches name", sep="\n")
        return 1
    if "--check" in sys.argv[1:]:
        print(f"all {len(chosen)} patches apply, and their tests exist")
        return 0
    recorded: dict[str, str] = json.loads(DETECTED_BY.read_text()) if DETECTED_BY.exists() else {}
    detected_by = {} if is_recording else recorded
    unchecked = recorded.keys() if "--passed" in sys.argv[1:] else ()
    checked = [fault for fault in chosen if fault.name not in unchecked]
    missed = 0
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(WORKERS) as workers:
        copies: SimpleQueue[Path] = SimpleQueue()
        for n in range(WORKERS):
            copies.put(copied(Path(folder) / f"copy{n}"))

        def all_pass() -> bool:
            return all(
                workers.map(lambda part: with_copy(copies, lambda copy: passes(copy, part)), parts(checked, recorded))
            )

        # With --record the detecting tests are known only afterwards.
        if not is_recording and not all_pass():
            return 1
        found = workers.map(
            lambda fault: with_copy(copies, lambda copy: detecting_test(copy, fault, detected_by)), chosen
        )
        for fault, test in zip(chosen, found, strict=True):
            missed += test is None
            print(f"{'MISSED  ' if test is None else 'detected'}  {fault.name}", flush=True)
            recorded |= {fault.name: test} if test else {}
            if is_recording:
                record(recorded, faults)
        if is_recording and not all_pass():
            return 1
    print(f"{len(chosen) - missed} faults detected, {missed} missed")
    return min(missed, 1)


def unapplied(faults: list[Fault]) -> list[str]:
    """Return an error for each patch that does not apply."""
    wrong = []
    for fault in faults:
        try:
            if all(path.read_text() == text for path, text in planted(ROOT, fault).items()):
                raise BadPatch(f"tests/mutation/patches/{fault.name}.patch changes nothing")
        except BadPatch as failure:
            wrong.append(str(failure))
    return wrong


def collected(faults: list[Fault]) -> set[str]:
    """Return the files of the named tests and what pytest collects in them, with and without the case in brackets."""
    files = {test.partition("::")[0] for fault in faults for test in fault.tests}
    done = run(ROOT, ["--collect-only", *sorted(file for file in files if (ROOT / file).exists())])
    if done.returncode:
        raise SystemExit(f"{sys.executable} -m pytest cannot collect the tests:\n{done.stdout[-3_000:]}")
    ids = [line for line in done.stdout.splitlines() if "::" in line and line.partition("::")[0] in files]
    return {name for id in ids for name in (id, id.partition("[")[0], id.partition("::")[0])}


def missing_tests(faults: list[Fault], collected: set[str]) -> list[str]:
    """Return the tests named by patches, files or functions in them, that are not among the collected ones."""
    return sorted({test for fault in faults for test in fault.tests} - collected)


def record(recorded: dict[str, str], faults: list[Fault]) -> None:
    """Write DETECTED_BY, without faults that no longer exist."""
    names = {fault.name for fault in faults}
    DETECTED_BY.write_text(
        json.dumps({name: recorded[name] for name in sorted(recorded) if name in names}, indent=1) + "\n"
    )


def parts(chosen: list[Fault], detected_by: dict[str, str]) -> list[list[str]]:
    """Return the tests that must pass without faults, a list per worker: the recorded test of a fault, else all."""
    tests = sorted({detected_by[fault.name] for fault in chosen if fault.name in detected_by})
    tests += sorted({test for fault in chosen if fault.name not in detected_by for test in fault.tests})
    # Tests of a file stay together, because they may share fixtures that are slow to make.
    shares = (tests[n * len(tests) // WORKERS : (n + 1) * len(tests) // WORKERS] for n in range(WORKERS))
    return [share for share in shares if share]


def copied(copy: Path) -> Path:
    """Return a copy of the code."""
    ignored = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".hypothesis", "node_modules", "*.db*")
    shutil.copytree(ROOT, copy, ignore=ignored)
    return copy


def with_copy(copies: "SimpleQueue[Path]", do: Callable[[Path], Any]) -> Any:
    """Call a function with a copy that no other worker uses."""
    copy = copies.get()
    try:
        return do(copy)
    finally:
        copies.put(copy)


def detecting_test(copy: Path, fault: Fault, detected_by: dict[str, str]) -> str | None:
    """Return the test that fails with the fault in the copy, None if none does."""
    changed = planted(copy, fault)
    kept = {path: path.read_text() for path in changed}
    for path, text in changed.items():
        path.write_text(text)
    try:
        first = [detected_by[fault.name]] if fault.name in detected_by else fault.tests
        return first_failure(copy, first) or (first_failure(copy, fault.tests) if fault.name in detected_by else None)
    finally:
        for path, text in kept.items():
            path.write_text(text)
        # Hypothesis starts with what has failed before: the next fault must not profit from it.
        shutil.rmtree(copy / ".hypothesis", ignore_errors=True)


def first_failure(copy: Path, tests: list[str]) -> str | None:
    """Return the first of some tests that fails, or None."""
    done = run(copy, tests)
    # 1: tests ran and some failed. Any other status, such as 2 for code that cannot be imported, detects nothing.
    match = (
        re.search(r"^(?:FAILED|ERROR) (\S+::.*?)(?: - .*)?$", done.stdout, re.MULTILINE)
        if done.returncode == 1
        else None
    )
    return match[1] if match else None


def passes(copy: Path, tests: list[str]) -> bool:
    """Return whether some tests pass, without those that no longer exist; print the failures."""
    done = run(copy, tests)
    if done.returncode == 4:
        # A recorded test has another name now: all tests of the fault will run.
        return all(run(copy, [test]).returncode in (0, 4) for test in tests)
    if done.returncode:
        print("without a fault these tests must pass:", done.stdout[-3_000:])
    return done.returncode == 0


def run(copy: Path, tests: list[str]) -> "subprocess.CompletedProcess[str]":
    """Run some tests of the copy with pytest; status -1 where they do not end within MAX_RUN_S."""
    # The plugin of schemathesis takes a third of the time in which pytest starts.
    options = ["-q", "-x", "--no-header", "-n", "0", "-p", "no:cacheprovider", "-p", "no:schemathesis"]
    # Random tests fail with a fault always or never. An explanation of how two long lists differ takes minutes.
    options += ["--hypothesis-seed=0", "--assert=plain"]
    words = [sys.executable, "-m", "pytest", *options, *tests]
    # Python keeps compiled modules for the next run: otherwise each compiles all of them. With CI set, Hypothesis would
    # draw other examples than where the fault was recorded.
    ignored = ("PYTHONDONTWRITEBYTECODE", "CI")
    kept = {name: value for name, value in os.environ.items() if name not in ignored}
    environment = kept | {"TALLY_FAULT": "1", "COLUMNS": "500"}
    try:
        return subprocess.run(
            words,
            cwd=copy,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=MAX_RUN_S,
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(words, -1, f"not at its end after {MAX_RUN_S} seconds")


if __name__ == "__main__":
    sys.exit(main())
