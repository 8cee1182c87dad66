"""Feeds the targets from a fuzzer: atheris, which looks for bytes that lead to lines not yet reached.

    pip install -e '.[fuzz]'
    python tests/fuzz/run.py [TARGET ...] [--seconds 10] [--at-once 2] [--keep]

Each target runs in a process of its own, from its committed corpus on. A broken promise is written down with the bytes
that break it, and the exit status is 1. `--keep` adds to the corpora the few smallest inputs that reach more than what
is there: the test suite replays these without a fuzzer.
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

# A request's body is 64 KB, but what reads it is found out by less, and small inputs run faster.
MOST_BYTES = 2_048
# What a test suite replays in a moment and a person can read.
MOST_KEPT_BYTES = 400


def main() -> int:
    """Fuzzes; 0 if every promise was kept."""
    names = [path.stem for path in sorted(corpora.FOLDER.glob("*.txt"))]
    reader = argparse.ArgumentParser(description="Fuzzes what reads a stranger's bytes first.")
    reader.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(names)}; all by default")
    reader.add_argument("--seconds", type=int, default=10, help="for each target")
    reader.add_argument("--seed", type=int, default=0, help="the same run again; 0: another one each time")
    reader.add_argument("--at-once", type=int, default=2, help="how many targets run at the same time")
    reader.add_argument("--keep", action="store_true", help="adds what reaches more to the corpora")
    reader.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    asked = reader.parse_args()
    if unknown := set(asked.targets) - set(names):
        reader.error(f"{', '.join(unknown)}: no such target")
    if asked.child is not None:
        return fuzz(asked.targets[0], asked.child, asked)
    with ThreadPoolExecutor(asked.at_once) as workers:
        runs = workers.map(lambda name: run(name, asked), asked.targets or names)
        return max(runs)


def run(name: str, asked: argparse.Namespace) -> int:
    """Fuzzes one target in a process of its own; 1 where a promise was broken."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        corpora.unpack(name, place / "corpus")
        words = [
            sys.executable,
            __file__,
            name,
            f"--seconds={asked.seconds}",
            f"--seed={asked.seed}",
            "--child",
            str(place),
        ]
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=place, check=False)
        said = done.stdout.decode(errors="replace")
        executed = re.search(r"number_of_executed_units:\s*(\d+)", said) or re.search(r"Done (\d+) runs", said)
        found = [path for path in place.glob("*-*") if path.is_file()]
        for path in found:
            print(f"{name}: {path.read_bytes()!r} breaks a promise", flush=True)
        if found or done.returncode:
            print(said[-4_000:], flush=True)
            return 1
        runs = int(executed[1]) if executed else 0
        print(f"{name}: {runs:,} runs in {asked.seconds} s, nothing found", flush=True)
        if asked.keep:
            print(f"{name}: {keep(name, place)} inputs added")
        # A fuzzer that never ran has found nothing either.
        return 0 if runs else 1


def fuzz(name: str, place: Path, asked: argparse.Namespace) -> int:
    """The process of one target."""
    import atheris  # type: ignore[import-not-found, unused-ignore]

    with atheris.instrument_imports(include=["tally", "fuzz", "aiohttp.http_parser"]):
        from tests.fuzz.targets import TARGETS
    words = place / "words"
    words.write_text("".join(f'"{escaped(word)}"\n' for word in corpora.words(name)))
    options = [f"-max_total_time={asked.seconds}", f"-max_len={MOST_BYTES}", f"-dict={words}", "-print_final_stats=1"]
    options += [f"-seed={asked.seed}"] if asked.seed else []
    # A single input that takes longer than this is a finding too; so is more memory.
    options += ["-timeout=10", "-rss_limit_mb=1024", f"-artifact_prefix={place}/", "-verbosity=1"]
    atheris.Setup([sys.argv[0], *options, str(place / "corpus")], TARGETS[name])
    atheris.Fuzz()
    return 0


def escaped(word: bytes) -> str:
    """As libFuzzer's dictionaries have it."""
    return "".join(f"\\x{byte:02x}" for byte in word)


def keep(name: str, place: Path) -> int:
    """Adds the smallest inputs that reach lines of ours which the corpus does not; how many."""
    from tests.fuzz.reach import reached

    known = corpora.inputs(name)
    lines = set().union(*(reached(name, data) for data in known))
    fresh = []
    for path in sorted((place / "corpus").iterdir(), key=lambda path: path.stat().st_size):
        data = path.read_bytes()
        if len(data) <= MOST_KEPT_BYTES and (more := reached(name, data) - lines):
            lines |= more
            fresh.append(data)
    corpora.add(name, fresh)
    return len(fresh)


if __name__ == "__main__":
    sys.exit(main())
