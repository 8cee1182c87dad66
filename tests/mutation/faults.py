"""Mutation tests: make one fault at a time in a copy of the code, and check that a test fails.

    python tests/mutation/faults.py [--record] [--check] [--passed] [--some N --seed TEXT --changed FILE] [NAME ...]

Each fault is a table of a TOML file in tests/mutation, the one named after the package:

    [an_almost_full_disk_refuses_nothing]
    detected_by = "tests/robustness/test_min_free_disk.py::test_nothing_is_stored"
    file = "tally/storage/health.py"
    function = "Health.check"
    old = 'free < self._min_free'
    new = 'False'
    tests = ["tests/robustness/test_min_free_disk.py"]

`old`, which is in the function or class of Python once, or once in the file where none is named, becomes `new`. At
least one of `tests` must fail then. `what` says what the name does not; tables of `also` change more places. Exit
status 0 if every fault was detected. The same tests must pass without faults, which is checked first.

`--passed` checks that only for the tests of faults that are not recorded. The recorded ones passed in a copy when they
were recorded, and .ci/run gives this option where it has just run the tests of the same code.
`--check` only checks that each `old` is there once and that pytest collects the tests.
`--record` writes `detected_by`, the test that detected a fault: it runs first, and the others only if it passes.
`--some N` takes at most N faults: first those of which a file or a test is named in FILE, a path a line, then others; a
seed always gives the same ones. .ci/run gives the hash of the commit's tree, so that other commits take others.

Faults that only tests/cluster detects need ClickHouse's engine, which .ci/clickhouse installs; without it they are
named and skipped.
"""

import argparse
import ast
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests" / "mutation"
# One per core of the smallest machine on which this runs.
WORKERS = 2
# All tests that a fault names take a minute or two. A test that waits for ever detects nothing and must not block CI.
MAX_RUN_S = 900
# Python with ClickHouse's engine: what the tests call TALLY_CHDB.
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tally"
ENGINE = os.environ.get("TALLY_CHDB") or next(map(str, _CACHE.glob("chdb-core==*/bin/python")), None)
_KEYS = {"detected_by", "what", "file", "function", "old", "new", "tests", "also"}


class BadFault(Exception):
    """A table cannot be read, or its text is not in the code once."""


class Change(NamedTuple):
    """`old` becomes `new` in a function or class of a file; in the whole file where `function` is empty."""

    file: str
    function: str
    old: str
    new: str


class Fault(NamedTuple):
    """One of `tests` must fail while `changes` are made: `detected_by`, if that is recorded."""

    name: str
    what: str
    changes: list[Change]
    tests: list[str]
    detected_by: str | None


def read_faults() -> list[Fault]:
    """Return all faults, in the order of their files."""
    return [fault for path in sorted(FOLDER.glob("*.toml")) for fault in faults_in(path)]


def faults_in(path: Path) -> list[Fault]:
    """Return the faults of a file."""
    return [_fault(name, table) for name, table in tomllib.loads(path.read_text()).items()]


def _fault(name: str, table: dict[str, Any]) -> Fault:
    places = [table, *table.get("also", [])]
    if wrong := {key for place in places for key in place} - _KEYS:
        raise BadFault(f"{name}: no such key: {', '.join(sorted(wrong))}")
    try:
        changes = [Change(place["file"], place.get("function", ""), place["old"], place["new"]) for place in places]
        return Fault(name, table.get("what", name.replace("_", " ")), changes, table["tests"], table.get("detected_by"))
    except KeyError as missing:
        raise BadFault(f"{name}: needs {missing}") from None


def changed(text: str, change: Change) -> str:
    """Return the text of a file with a change; raises BadFault where `old` is not there once."""
    start, end = 0, len(text)
    if change.function:
        places = [place for name, *place in functions(text) if name == change.function]
        if len(places) != 1:
            raise BadFault(f"{change.file} has {len(places)} functions {change.function}, not 1")
        start, end = places[0]
    if (count := text.count(change.old, start, end)) != 1:
        raise BadFault(f"{change.file} {change.function} has {count} times, not once:\n{change.old}")
    at = text.index(change.old, start)
    return text[:at] + change.new + text[at + len(change.old) :]


@lru_cache(maxsize=256)
def functions(text: str) -> list[tuple[str, int, int]]:
    """Return the functions and classes of Python's code: name, first character, and the one behind the last."""
    starts = [0, *(match.end() for match in re.finditer("\n", text)), len(text)]
    found = []

    def walk(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                first = min([child.lineno, *(decorator.lineno for decorator in child.decorator_list)])
                found.append((prefix + child.name, starts[first - 1], starts[child.end_lineno or first]))
                walk(child, f"{prefix}{child.name}.")
            else:
                walk(child, prefix)

    walk(ast.parse(text), "")
    return found


def planted(root: Path, fault: Fault) -> dict[Path, str]:
    """Return the files of a fault, changed."""
    texts: dict[Path, str] = {}
    for change in fault.changes:
        path = root / change.file
        try:
            texts[path] = changed(texts.get(path) or path.read_text(), change)
        except (BadFault, OSError) as failure:
            raise BadFault(f"{fault.name}: {failure}") from None
    return texts


def main() -> int:
    """Plant each fault; return 0 if all were detected."""
    options = _options()
    faults = read_faults()
    if unknown := set(options.name) - {fault.name for fault in faults}:
        raise SystemExit(f"no such fault: {', '.join(sorted(unknown))}")
    chosen = [fault for fault in faults if not options.name or fault.name in options.name]
    if options.some is not None:
        files = set(options.changed.read_text().splitlines()) if options.changed else set[str]()
        chosen = some(chosen, options.some, options.seed, files)
    if wrong := misplaced(chosen):
        print(*wrong, f"{len(wrong)} of {len(chosen)} faults cannot be planted", sep="\n")
        return 1
    if missing := missing_tests(chosen, collected(chosen)):
        print(*missing, f"pytest does not collect {len(missing)} of the tests that faults name", sep="\n")
        return 1
    if options.check:
        print(f"all {len(chosen)} faults can be planted, and their tests exist")
        return 0
    if ENGINE is None:
        skipped = [fault.name for fault in chosen if needs_clickhouse(fault)]
        chosen = [fault for fault in chosen if fault.name not in skipped]
        print(*(f"SKIPPED   {name}: run .ci/clickhouse first" for name in skipped), sep="\n", flush=True)
    missed = undetected(chosen, is_recording=options.record, have_passed=options.passed)
    if missed is None:
        return 1
    print(f"{len(chosen) - missed} faults detected, {missed} missed")
    return min(missed, 1)


def needs_clickhouse(fault: Fault) -> bool:
    """Return whether only tests with ClickHouse's engine can detect a fault."""
    return with_clickhouse(fault.tests)


def with_clickhouse(tests: list[str]) -> bool:
    """Return whether all of some tests are with ClickHouse's engine. Where it is named, others run with it, too."""
    return all(test.startswith("tests/cluster/") for test in tests)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    for option in ("--record", "--check", "--passed"):
        parser.add_argument(option, action="store_true")
    parser.add_argument("--some", type=int)
    parser.add_argument("--seed", default="")
    parser.add_argument("--changed", type=Path)
    parser.add_argument("name", nargs="*")
    return parser.parse_args()


def some(faults: list[Fault], count: int, seed: str, changed: set[str]) -> list[Fault]:
    """Return a part of the faults, those of changed files and tests first."""

    def key(fault: Fault) -> tuple[bool, str]:
        files = {change.file for change in fault.changes} | {test.partition("::")[0] for test in fault.tests}
        return not files & changed, hashlib.sha256(f"{seed} {fault.name}".encode()).hexdigest()

    chosen = sorted(faults, key=key)[:count]
    return [fault for fault in faults if fault in chosen]


def undetected(chosen: list[Fault], *, is_recording: bool, have_passed: bool) -> int | None:
    """Return how many faults no test detects; None where tests fail without a fault."""
    checked = [fault for fault in chosen if not (fault.detected_by and have_passed)]
    missed = 0
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(WORKERS) as workers:
        copies: SimpleQueue[Path] = SimpleQueue()
        for n in range(WORKERS):
            copies.put(copied(Path(folder) / f"copy{n}"))

        def all_pass(faults: list[Fault]) -> bool:
            return all(workers.map(lambda part: with_copy(copies, lambda copy: passes(copy, part)), parts(faults)))

        # With --record the detecting tests are known only afterwards.
        if is_recording:
            chosen = [fault._replace(detected_by=None) for fault in chosen]
        elif not all_pass(checked):
            return None
        found = workers.map(lambda fault: with_copy(copies, lambda copy: detecting_test(copy, fault)), chosen)
        for n, (fault, test) in enumerate(zip(chosen, found, strict=True)):
            missed += test is None
            print(f"{'MISSED  ' if test is None else 'detected'}  {fault.name}: {fault.what}", flush=True)
            if is_recording and test:
                record(fault.name, test)
                chosen[n] = fault._replace(detected_by=test)
        if is_recording and not all_pass(chosen):
            return None
    return missed


def misplaced(faults: list[Fault]) -> list[str]:
    """Return an error for each fault that cannot be planted."""
    wrong = []
    for fault in faults:
        try:
            if all(path.read_text() == text for path, text in planted(ROOT, fault).items()):
                raise BadFault(f"{fault.name} changes nothing")
        except BadFault as failure:
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
    """Return the tests named by faults, files or functions in them, that are not among the collected ones."""
    return sorted({test for fault in faults for test in fault.tests} - collected)


def record(name: str, test: str) -> None:
    """Write the test that detected a fault into the first line of its table."""
    table = re.compile(rf"(?m)^\[{name}\]\n(detected_by = .*\n)?")
    [path] = [path for path in FOLDER.glob("*.toml") if table.search(path.read_text())]
    line = f"[{name}]\ndetected_by = {json.dumps(test)}\n"
    path.write_text(table.sub(lambda _: line, path.read_text(), count=1))


def parts(faults: list[Fault]) -> list[list[str]]:
    """Return the tests that must pass without faults, a list per worker: the recorded test of a fault, else all."""
    tests = sorted({fault.detected_by for fault in faults if fault.detected_by})
    tests += sorted({test for fault in faults if not fault.detected_by for test in fault.tests})
    # Tests of a file stay together, because they may share fixtures that are slow to make.
    kinds = [[test for test in tests if with_clickhouse([test]) == kind] for kind in (False, True)]
    shares = (kind[n * len(kind) // WORKERS : (n + 1) * len(kind) // WORKERS] for kind in kinds for n in range(WORKERS))
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


def detecting_test(copy: Path, fault: Fault) -> str | None:
    """Return the test that fails with the fault in the copy, None if none does."""
    texts = planted(copy, fault)
    kept = {path: path.read_text() for path in texts}
    for path, text in texts.items():
        path.write_text(text)
    try:
        recorded = first_failure(copy, [fault.detected_by]) if fault.detected_by else None
        return recorded or first_failure(copy, fault.tests)
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
    ignored = ("PYTHONDONTWRITEBYTECODE", "CI", "TALLY_CHDB")
    kept = {name: value for name, value in os.environ.items() if name not in ignored}
    environment = kept | {"TALLY_FAULT": "1", "COLUMNS": "500"}
    if ENGINE and with_clickhouse(tests):
        environment["TALLY_CHDB"] = ENGINE
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
