"""The benchmark: builds a large website, measures speed and size together with baselines, and prints a Markdown table.

    python bench/run.py [--events 10000000] [--seconds 5] [--rounds 3] [--folder DIR] [--only PART ...]

With --folder the data set is kept and reused by the next run. Parts use a copy of it, and plain SQL reads a file with
the rows of all days, three times as large. Messages go to standard error, the table to standard output.
All servers are this project's own, on 127.0.0.1. Compare ratios: every baseline is measured in the same run, on the
same machine. A part that fails has a row NOT MEASURED, and the exit status is 1.

These are no tests: pytest does not run them, and a slow result is no failure.
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

# The clone that has this file, whether or not it is installed.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import alert_hours
import cold_queries
import collect_rates
import distinct_values
import goal_queries
import limits
import list_queries
import measurement_queries
import reads
import resources
import transfer
from measurements import Sizes
from report import Row, missing, progress, table
from servers import HAS_UVLOOP

from bench import Bench

PARTS: dict[str, Callable[[Bench], list[Row]]] = {
    "build": resources.build,
    "read": reads.read,
    "cold": cold_queries.cold_queries,
    "growth": reads.growth,
    "filtered": reads.filtered_reads,
    "lists": list_queries.lists,
    "goals": goal_queries.goals,
    "alerts": alert_hours.alerts,
    "measurements": measurement_queries.measurements,
    "collect": collect_rates.collect,
    "batches": collect_rates.batches_of_fifty,
    "mixed": collect_rates.mixed,
    "memory": resources.memory,
    "disk": resources.disk,
    "start": resources.start,
    "transfer": transfer.transfer,
    "limits": limits.limits,
    "values": distinct_values.distinct_values,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts; return 1 if one could not be measured."""
    given = _parser().parse_args(arguments)
    # As for an interrupt: servers are stopped and files are deleted.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="tally-bench-") as temporary:
        sizes = Sizes(given.vitals, given.points, given.assignments)
        bench = Bench(given.folder or Path(temporary), given.events, given.seconds, given.rounds, given.repeats, sizes)
        rows = [row for part in given.only or PARTS for row in _measured(part, bench)]
    print(f"{machine()}\n\n{table(rows)}")
    return any("NOT MEASURED" in row.measured for row in rows)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Measures speed and size.")
    parser.add_argument("--events", type=int, default=10_000_000, help="events of the data set; default 10,000,000")
    parser.add_argument("--vitals", type=int, default=5_000_000, help="web vitals; default 5,000,000")
    parser.add_argument("--points", type=int, default=50_000_000, help="heatmap points; default 50,000,000")
    parser.add_argument("--assignments", type=int, default=200_000, help="assignments to experiments; default 200,000")
    parser.add_argument("--seconds", type=float, default=5, help="length of each load; default 5")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of loads and baselines in turn; default 3")
    parser.add_argument("--repeats", type=int, default=40, help="how often each query is sent; default 40")
    parser.add_argument("--folder", type=Path, help="directory of the data set; default: a temporary one")
    parser.add_argument("--only", nargs="+", choices=PARTS, metavar="PART", help=f"parts to run: {', '.join(PARTS)}")
    return parser


def _measured(part: str, bench: Bench) -> list[Row]:
    """Return the rows of a part; if it failed, a row NOT MEASURED."""
    begun = time.perf_counter()
    progress(f"== {part}")
    try:
        rows = PARTS[part](bench)
    except Exception as failure:
        traceback.print_exc()
        rows = [missing(part, f"failed: {type(failure).__name__}: {str(failure)[:200]}".replace("|", "/"))]
    progress(f"== {part} took {time.perf_counter() - begun:.0f} s")
    return rows


def machine() -> str:
    """Return a description of the machine, in one line."""
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
