"""How long a 202 takes without ClickHouse and in each mode of a cluster, by one client and by eight; and how long
`cluster recover` takes for the file.

    TALLY_CHDB=PYTHON python bench/cluster_collect.py --folder DIR [--events 200000]

ClickHouse is the one of bench/cluster.py, which has this file's events. The modes take turns, and no day is settled
meanwhile. Needs the extra `age`. Prints a Markdown table.
"""

import argparse
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

import dataset
import pyrage
from client import load
from cluster import FOLLOW, ClickHouse, Measured, run_command
from collect_requests import singles
from dataset import DataSet
from report import Row, ms, percentile, progress, table

KEEP = ("--cluster-mode", "keep", "--cluster-key")
CLIENTS = (1, 8)
_POLL_S = 0.2
# Fills the caches before the first round, in seconds.
_WARM_UP_S = 1.0


def is_healthy(server: Measured) -> bool:
    """Return whether the server accepts events."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/healthz"):
            return True
    except urllib.error.HTTPError:
        return False


def latencies(server: Measured, data_set: DataSet, seconds: float) -> Iterator[tuple[int, list[float]]]:
    """Yield the number of clients, and the seconds that each of their events took."""
    while not is_healthy(server):
        time.sleep(_POLL_S)
    server.wait_until_idle()
    make = singles(data_set.website, "time")
    load(server, make, _WARM_UP_S, connections=1)
    for clients in CLIENTS:
        yield clients, load(server, make, seconds, connections=clients).latencies


def rows_of(data_set: DataSet, folder: Path, clickhouse: ClickHouse, rounds: int, seconds: float) -> Iterator[Row]:
    """Yield the rows of the table."""
    where = ("--clickhouse", clickhouse.url)
    key_file = folder / "key.txt"
    key_file.touch(0o600)
    key_file.write_text(f"{pyrage.x25519.Identity.generate()}\n")
    alone = dataset.copied(data_set, folder / "alone")
    run_command("cluster", "init", *where, "--db", str(data_set.db))
    with Measured(data_set, clickhouse):
        run_command("cluster", "join", *where, "--db", str(data_set.db))
    taken: dict[tuple[str, int], list[float]] = {}
    for number in range(rounds):
        for name, measured, engine, mode in (
            ("without ClickHouse", alone, None, FOLLOW),
            ("follow", data_set, clickhouse, FOLLOW),
            ("keep", data_set, clickhouse, (*KEEP, str(key_file))),
        ):
            with Measured(measured, engine, mode=mode) as server:
                for clients, times in latencies(server, measured, seconds):
                    taken.setdefault((name, clients), []).extend(times)
                    progress(f"round {number + 1}, {name}, {clients}: {ms(percentile(times, 0.5))}")
    for (name, clients), times in taken.items():
        found = f"p50 {ms(percentile(times, 0.5))}, p95 {ms(percentile(times, 0.95))}"
        yield Row("202", f"{name}, {clients} at once", found, f"{len(times):,} events")
    dataset.delete_database(data_set.db)
    begun, used_s = time.perf_counter(), clickhouse.cpu_s()
    run_command("cluster", "recover", *where, "--db", str(data_set.db), "--cluster-key", str(key_file))
    taken_s, used_s = time.perf_counter() - begun, clickhouse.cpu_s() - used_s
    yield Row(
        "recover", f"{data_set.events:,} events", f"{taken_s:.0f} s", f"ClickHouse's processor time {used_s:.0f} s"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--folder", type=Path, required=True, help="where the data set is kept")
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each load")
    words = parser.parse_args(arguments)
    place = words.folder / "collect"
    shutil.rmtree(place, ignore_errors=True)
    data_set = dataset.copied(dataset.prepared(words.folder, words.events), place)
    clickhouse = ClickHouse(place / "clickhouse")
    try:
        print(table(rows_of(data_set, place, clickhouse, words.rounds, words.seconds)))
    finally:
        clickhouse.close()
        shutil.rmtree(place)


if __name__ == "__main__":
    main()
