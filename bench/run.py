"""The benchmark: builds a large website, runs everything that is promised about speed and size beside its floors,
and prints one table, in markdown.

    python bench/run.py [--events 10000000] [--seconds 5] [--rounds 3] [--folder DIR] [--only PART ...]

With --folder the data set is kept and used again by the next run; a copy of it is worked on there, so it wants room
for two. Words go to standard error, the table to standard output. All servers are this project's own, on 127.0.0.1.
What counts are ratios: every floor is measured in the same run, on the same machine. A part that fails has a row that
says so, and the exit status is 1.

This is no test: nothing here is run by pytest, and nothing fails because it was slow.
"""

import argparse
import os
import platform
import signal
import sqlite3
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

# The checkout this file lies in, installed or not.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import bounds
import collects
import distinct_values
import gauging
import journeys
import moving
import reads
import standing
from measurements import Sizes
from report import Row, missing, say, table
from servers import HAS_UVLOOP

from bench import Bench

PARTS: dict[str, Callable[[Bench], list[Row]]] = {
    "build": standing.build,
    "read": reads.read,
    "growth": reads.growth,
    "filtered": reads.filtered_reads,
    "journeys": journeys.journeys,
    "measurements": gauging.measurements,
    "collect": collects.collect,
    "batches": collects.batches_of_fifty,
    "mixed": collects.mixed,
    "memory": standing.memory,
    "disk": standing.disk,
    "start": standing.start,
    "move": moving.move,
    "bounds": bounds.bounds,
    "values": distinct_values.distinct_values,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the parts; 1 where one could not be measured."""
    given = _parser().parse_args(arguments)
    # As an interrupt: servers and files that were begun are ended and deleted on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="tally-bench-") as temporary:
        sizes = Sizes(given.vitals, given.points, given.assignments)
        bench = Bench(given.folder or Path(temporary), given.events, given.seconds, given.rounds, given.asks, sizes)
        rows = [row for part in given.only or PARTS for row in _measured(part, bench)]
    print(f"{machine()}\n\n{table(rows)}")
    return any("NOT MEASURED" in row.measured for row in rows)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Measures everything that is promised about speed and size.")
    parser.add_argument("--events", type=int, default=10_000_000, help="of the data set; default 10,000,000")
    parser.add_argument("--vitals", type=int, default=5_000_000, help="of measurements; default 5,000,000")
    parser.add_argument("--points", type=int, default=50_000_000, help="of heatmaps; default 50,000,000")
    parser.add_argument("--assignments", type=int, default=200_000, help="of measurements; default 200,000")
    parser.add_argument("--seconds", type=float, default=5, help="of each load; default 5")
    parser.add_argument("--rounds", type=int, default=3, help="of loads and floors in turn; default 3")
    parser.add_argument("--asks", type=int, default=40, help="of each question; default 40, a quarter where filtered")
    parser.add_argument("--folder", type=Path, help="where the data set is kept; a temporary one if left out")
    parser.add_argument("--only", nargs="+", choices=PARTS, metavar="PART", help=f"of {', '.join(PARTS)}")
    return parser


def _measured(part: str, bench: Bench) -> list[Row]:
    """The rows of a part; one that says so where it failed: the others are worth having all the same."""
    begun = time.perf_counter()
    say(f"== {part}")
    try:
        rows = PARTS[part](bench)
    except Exception as failure:
        traceback.print_exc()
        rows = [missing(part, f"failed: {type(failure).__name__}: {str(failure)[:200]}".replace("|", "/"))]
    say(f"== {part} took {time.perf_counter() - begun:.0f} s")
    return rows


def machine() -> str:
    """What it ran on, in a line."""
    load = os.getloadavg()[0]
    loop = "uvloop" if HAS_UVLOOP else "asyncio's own loop, uvloop is not installed"
    return (
        f"{time.strftime('%Y-%m-%d', time.gmtime())}, {os.cpu_count()} cores ({_processor()}),"
        f" Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {loop} in both servers;"
        f" load average {load:.1f} at the end."
    )


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())


if __name__ == "__main__":
    sys.exit(main())
