"""Runs the targets under the fuzzer atheris, which searches for inputs that reach new lines of code.

    pip install -e '.[fuzz]'
    python tests/fuzz/run.py [TARGET ...] [--seconds 10] [--processes 2] [--keep]

Each target runs in a process of its own and begins with its committed corpus. If a target raises, the input is printed
and the exit status is 1. `--keep` adds the smallest inputs that reach new lines to the corpora, which the tests replay
without a fuzzer.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent))

from tests.fuzz import corpora  # noqa: E402

# A body may have 64 KB, but small inputs reach the same lines and run faster.
MAX_BYTES = 2_048
# Short enough to read in a review.
MAX_KEPT_BYTES = 400


def main() -> int:
    """Run the targets; return 0 if none raised."""
    names = [path.stem for path in sorted(corpora.FOLDER.glob("*.txt"))]
    parser = argparse.ArgumentParser(description="Fuzzes the parsers of untrusted input.")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"one of {', '.join(names)}; all by default")
    parser.add_argument("--seconds", type=int, default=10, help="for each target")
    parser.add_argument("--seed", type=int, default=0, help="repeats a run; default 0: a random one")
    parser.add_argument("--processes", type=int, default=2, help="how many targets run at the same time")
    parser.add_argument("--keep", action="store_true", help="add inputs that reach new lines to the corpora")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if unknown := set(options.targets) - set(names):
        parser.error(f"{', '.join(unknown)}: no such target")
    if options.child is not None:
        return fuzz(options.targets[0], options.child, options)
    with ThreadPoolExecutor(options.processes) as workers:
        runs = workers.map(lambda name: run(name, options), options.targets or names)
        return max(runs)


def run(name: str, options: argparse.Namespace) -> int:
    """Run a target in a process of its own; return 1 if it raised."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        corpora.unpack(name, place / "corpus")
        words = [
            sys.executable,
            __file__,
            name,
            f"--seconds={options.seconds}",
            f"--seed={options.seed}",
            "--child",
            str(place),
        ]
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=place, check=False)
        output = done.stdout.decode(errors="replace")
        executed = re.search(r"number_of_executed_units:\s*(\d+)", output) or re.search(r"Done (\d+) runs", output)
        found = [path for path in place.glob("*-*") if path.is_file()]
        for path in found:
            print(f"{name}: {path.read_bytes()!r} makes it raise", flush=True)
        if found or done.returncode:
            print(output[-4_000:], flush=True)
            return 1
        runs = int(executed[1]) if executed else 0
        print(f"{name}: {runs:,} runs in {options.seconds} s, nothing found", flush=True)
        if options.keep:
            print(f"{name}: {keep(name, place)} inputs added")
        # A fuzzer that did not run is a failure.
        return 0 if runs else 1


def fuzz(name: str, place: Path, options: argparse.Namespace) -> int:
    """Run a target in this process."""
    import atheris  # type: ignore[import-not-found, unused-ignore]

    with atheris.instrument_imports(include=["tally", "fuzz", "aiohttp.http_parser"]):
        from tests.fuzz.targets import TARGETS
    words = place / "words"
    words.write_text("".join(f'"{escaped(word)}"\n' for word in corpora.words(name)))
    flags = [f"-max_total_time={options.seconds}", f"-max_len={MAX_BYTES}", f"-dict={words}", "-print_final_stats=1"]
    flags += [f"-seed={options.seed}"] if options.seed else []
    # An input that takes longer, or more memory, is a finding too.
    flags += ["-timeout=10", "-rss_limit_mb=1024", f"-artifact_prefix={place}/", "-verbosity=1"]
    atheris.Setup([sys.argv[0], *flags, str(place / "corpus")], TARGETS[name])
    atheris.Fuzz()
    return 0


def escaped(word: bytes) -> str:
    """Return a word in the syntax of libFuzzer's dictionaries."""
    return "".join(f"\\x{byte:02x}" for byte in word)


def keep(name: str, place: Path) -> int:
    """Add the smallest inputs that reach lines which the corpus does not; return their number."""
    from tests.fuzz.reach import reached

    known = corpora.inputs(name)
    lines = set().union(*(reached(name, data) for data in known))
    fresh = []
    for path in sorted((place / "corpus").iterdir(), key=lambda path: path.stat().st_size):
        data = path.read_bytes()
        if len(data) <= MAX_KEPT_BYTES and (more := reached(name, data) - lines):
            lines |= more
            fresh.append(data)
    corpora.add(name, fresh)
    return len(fresh)


if __name__ == "__main__":
    sys.exit(main())
