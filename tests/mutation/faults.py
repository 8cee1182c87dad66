"""Plant faults one by one in a copy of the code and expect the tests to fail: a test that cannot fail proves nothing.

    python tests/mutation/faults.py [--note] [--check] [--part N/K] [NAME ...]

Each fault is a patch in tests/mutation/patches; NAME is its file name without `.patch`. Its first lines name the fault
and the tests of which at least one must fail with it:

    Fault: an almost full disk refuses nothing
    Tests: tests/robustness/test_min_free_disk.py

A patch applies where its lines stand, at another line number too, and without up to three lines of context around the
change. Exit status 0 if every fault was found; the same tests must pass without faults, which is checked first.

`--check` only checks that all patches apply. tests/mutation/noticed.json holds the test that noticed each fault: it
runs first, and the other tests run only where it passes or no longer exists. `--note` writes this file for the faults
named; for all of them that takes about 15 minutes, and a run with the file about 7. `--part N/K` takes every K-th
fault, beginning with another one for each N.
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
NOTICED = ROOT / "tests" / "mutation" / "noticed.json"
# One for each core of the smallest machine that runs this.
WORKERS = 2
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
    """Plant each fault; return 0 if all were noticed."""
    words = [word for word in sys.argv[1:] if word not in ("--note", "--check")]
    is_noting = "--note" in sys.argv[1:]
    faults = [read_fault(path) for path in sorted(PATCHES.glob("*.patch"))]
    if words[:1] == ["--part"]:
        turn, parts_in_all = map(int, words[1].split("/"))
        chosen = faults[turn % parts_in_all :: parts_in_all]
    else:
        chosen = [fault for fault in faults if not words or fault.name in words]
    if unknown := set() if words[:1] == ["--part"] else set(words) - {fault.name for fault in faults}:
        raise SystemExit(f"no such patch: {', '.join(sorted(unknown))}")
    if wrong := unapplied(chosen):
        print(*wrong, f"{len(wrong)} of {len(chosen)} patches do not apply", sep="\n")
        return 1
    if "--check" in sys.argv[1:]:
        print(f"all {len(chosen)} patches apply")
        return 0
    known: dict[str, str] = json.loads(NOTICED.read_text()) if NOTICED.exists() else {}
    noticed = {} if is_noting else known
    missed = 0
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(WORKERS) as workers:
        copies: SimpleQueue[Path] = SimpleQueue()
        for n in range(WORKERS):
            copies.put(copied(Path(folder) / f"copy{n}"))

        def all_pass() -> bool:
            return all(workers.map(lambda part: at_work(copies, lambda copy: passes(copy, part)), parts(chosen, known)))

        # With --note the tests that notice are not known before.
        if not is_noting and not all_pass():
            return 1
        found = workers.map(lambda fault: at_work(copies, lambda copy: found_by(copy, fault, noticed)), chosen)
        for fault, test in zip(chosen, found, strict=True):
            missed += test is None
            print(f"{'MISSED' if test is None else 'found '}  {fault.name}", flush=True)
            known |= {fault.name: test} if test else {}
            if is_noting:
                note(known, faults)
        if is_noting and not all_pass():
            return 1
    print(f"{len(chosen) - missed} faults found, {missed} missed")
    return min(missed, 1)


def unapplied(faults: list[Fault]) -> list[str]:
    """Return what is wrong with the patches that do not apply."""
    wrong = []
    for fault in faults:
        try:
            if all(path.read_text() == text for path, text in planted(ROOT, fault).items()):
                raise BadPatch(f"tests/mutation/patches/{fault.name}.patch changes nothing")
        except BadPatch as failure:
            wrong.append(str(failure))
    return wrong


def note(known: dict[str, str], faults: list[Fault]) -> None:
    """Write which test noticed which fault, without faults that no longer exist."""
    names = {fault.name for fault in faults}
    NOTICED.write_text(json.dumps({name: known[name] for name in sorted(known) if name in names}, indent=1) + "\n")


def parts(chosen: list[Fault], noticed: dict[str, str]) -> list[list[str]]:
    """Return the tests that must pass without faults, one list a worker: those that noticed, else all of a fault."""
    asked = sorted({noticed[fault.name] for fault in chosen if fault.name in noticed})
    asked += sorted({test for fault in chosen if fault.name not in noticed for test in fault.tests})
    # Tests of a file stay together, because they may share fixtures that are slow to make.
    shares = (asked[n * len(asked) // WORKERS : (n + 1) * len(asked) // WORKERS] for n in range(WORKERS))
    return [share for share in shares if share]


def copied(copy: Path) -> Path:
    """Return a copy of the code."""
    ignored = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".hypothesis", "node_modules", "*.db*")
    shutil.copytree(ROOT, copy, ignore=ignored)
    return copy


def at_work(copies: "SimpleQueue[Path]", do: Callable[[Path], Any]) -> Any:
    """Call a function with a copy that nothing else uses meanwhile."""
    copy = copies.get()
    try:
        return do(copy)
    finally:
        copies.put(copy)


def found_by(copy: Path, fault: Fault, noticed: dict[str, str]) -> str | None:
    """Return the test that fails while the fault is in the copy, or None."""
    changed = planted(copy, fault)
    kept = {path: path.read_text() for path in changed}
    for path, text in changed.items():
        path.write_text(text)
    try:
        first = [noticed[fault.name]] if fault.name in noticed else fault.tests
        return first_failure(copy, first) or (first_failure(copy, fault.tests) if fault.name in noticed else None)
    finally:
        for path, text in kept.items():
            path.write_text(text)


def first_failure(copy: Path, tests: list[str]) -> str | None:
    """Return the first of some tests that fails, or None."""
    done = run(copy, tests)
    # 1: tests ran and some failed. Anything else, such as 2 for code that does not load, is no finding.
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
        # A test that noticed has another name now: all tests of the fault will run.
        return all(run(copy, [test]).returncode in (0, 4) for test in tests)
    if done.returncode:
        print("without a fault these tests must pass:", done.stdout[-3_000:])
    return done.returncode == 0


def run(copy: Path, tests: list[str]) -> "subprocess.CompletedProcess[str]":
    """Run some tests of the copy with pytest."""
    words = [sys.executable, "-m", "pytest", "-q", "-x", "--no-header", "-n", "0", "-p", "no:cacheprovider", *tests]
    environment = os.environ | {"TALLY_FAULT": "1", "COLUMNS": "500"}
    return subprocess.run(
        words, cwd=copy, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )


if __name__ == "__main__":
    sys.exit(main())
