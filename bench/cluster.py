"""The same questions to SQLite and to ClickHouse, which follows a copy of the same file: times, sizes, and the time of
`cluster join`.

    TALLY_CHDB=PYTHON python bench/cluster.py --folder DIR [--events 1000000]

TALLY_CHDB names a Python with chdb-core: ClickHouse's engine in one process, behind tests/cluster/front.py, which
answers one request at a time. Each question is asked over HTTP to a server that has just started; those of ClickHouse
before any day is settled, and after all are. What SQLite answers in each mode is not asked: questions without a filter
that are sums of totals. The data set in DIR is kept. Prints a Markdown table: in brackets is the processor time of both
processes, which depends less on what else runs.
"""

import argparse
import os
import shutil
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import dataset
from client import Client
from dataset import DataSet
from queries import Query, run_once
from report import Row, ms, percentile, progress, table
from servers import COMMAND, METRICS, NO_RATE_LIMITS, ROOT, Server, Tally, cpu_s
from traffic import DAY_MS, EVENT_NAMES, LARGE_BROWSER, SMALL_BROWSER, path

RANGES = (30, 365)
SMALL, LARGE = f"filter_browser={SMALL_BROWSER}", f"filter_browser={LARGE_BROWSER}"
# Name, and the report.
QUESTIONS = (
    ("key figures of page views", "stats?filter_type=pageview"),
    ("key figures, 6 % match", f"stats?{SMALL}"),
    ("key figures, 55 % match", f"stats?{LARGE}"),
    ("series by day, 55 % match", f"timeseries?interval=day&{LARGE}"),
    ("list of paths", "top/pathname"),
    ("list of paths, 55 % match", f"top/pathname?{LARGE}"),
    ("list of channels, 6 % match", f"top/channel?{SMALL}"),
    ("entry pages, 55 % match", f"entry-pages?{LARGE}"),
    (
        "funnel of three steps, 55 % match",
        f"funnel?step=pathname:{path(0)}&step=event_name:{EVENT_NAMES[0]}&step=pathname:{path(1)}&{LARGE}",
    ),
    ("journeys of three steps, 55 % match", f"journeys?start=pathname:{path(0)}&direction=next&steps=3&{LARGE}"),
    ("event data, 55 % match", f"event-data?event_name={EVENT_NAMES[0]}&{LARGE}"),
)
FOLLOW = ("--cluster-mode", "follow")
# Days are settled at once, or never; ClickHouse is asked about any number of open ones. A question may take longer than
# the server's limit.
_SERVER = (
    f"import sys; sys.path.insert(0, {str(ROOT)!r})\nimport analytics_server\n"
    "from tally.cluster import reports, settler\n"
    "reports._MAX_UNSETTLED, settler.Settler.pause_s = 1 << 62, {pause_s}\nsys.exit(analytics_server.main())"
)
_SETTLED_WITHIN_S = 3_600


class ClickHouse:
    """The engine behind its front."""

    def __init__(self, folder: Path) -> None:
        words = [os.environ["TALLY_CHDB"], str(ROOT / "tests/cluster/front.py"), str(folder)]
        self._process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.url = f"http://127.0.0.1:{int(self._process.stdout.readline())}"

    def value(self, statement: str) -> int:
        """Return the number that a query answers."""
        sent = urllib.parse.urlencode({"database": "tally", "query": statement})
        with urllib.request.urlopen(f"{self.url}/?{sent}", b"") as answer:
            return int(answer.read() or 0)

    def size(self, table: str) -> int:
        """Return the bytes of a table."""
        return self.value(f"select sum(bytes_on_disk) from system.parts where active and table = '{table}'")

    def cpu_s(self) -> float:
        """Return its processor time in seconds."""
        return cpu_s(self._process.pid)

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()


class Measured(Tally):
    """A server of the file, which ClickHouse follows or not. `mode`: the options of a cluster."""

    def __init__(
        self, data_set: DataSet, clickhouse: ClickHouse | None, pause_s: float = 1e9, mode: Sequence[str] = FOLLOW
    ) -> None:
        options = ["serve", "--port=0", f"--db={data_set.db}", "--query-seconds=120", *NO_RATE_LIMITS, *METRICS]
        cluster = () if clickhouse is None else (*mode, "--clickhouse", clickhouse.url)
        Server.__init__(self, sys.executable, "-c", _SERVER.format(pause_s=pause_s), *options, *cluster)


class Time(NamedTuple):
    """The seconds of an answer, and those of processor time that both processes took meanwhile."""

    answer_s: float
    processor_s: float

    def text(self) -> str:
        """Return both."""
        return f"{ms(self.answer_s)} ({ms(self.processor_s)})"


def median(times: Sequence[Time]) -> Time:
    """Return the median of each."""
    return Time(*(percentile(some, 0.5) for some in zip(*times, strict=True)))


def times_of(data_set: DataSet, clickhouse: ClickHouse | None, rounds: int) -> dict[Query, Time]:
    """Return the medians of each question, to a server that has just started."""
    taken: dict[Query, list[Time]] = {}
    for days in RANGES * rounds:
        # SQLite's keeps the sums of days: those of a shorter range would count.
        with Measured(data_set, clickhouse) as opened:
            opened.wait_until_idle()
            client = Client(opened.port, data_set.key)
            # What is loaded once is loaded by another filter.
            run_once(client, data_set.website, Query("", days, "", "stats?filter_os=iOS"))
            for name, question in QUESTIONS:
                query = Query(name, days, "", question)
                used_s = opened.cpu_s() + (clickhouse.cpu_s() if clickhouse else 0)
                answer_s = run_once(client, data_set.website, query)
                used_s = opened.cpu_s() + (clickhouse.cpu_s() if clickhouse else 0) - used_s
                taken.setdefault(query, []).append(Time(answer_s, used_s))
                progress(f"{name}, {days} days: {taken[query][-1].text()}")
            client.close()
            if opened.figures().get('tally_cluster_reports_total{engine="sqlite"}'):
                raise RuntimeError("SQLite has answered in place of ClickHouse")
    return {query: median(times) for query, times in taken.items()}


def run_command(*words: str) -> None:
    """Run a command of the project. Raises RuntimeError where it fails."""
    done = subprocess.run([*COMMAND, *words], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)


@contextmanager
def settled(data_set: DataSet, clickhouse: ClickHouse) -> Iterator[float]:
    """Settle all days but the last ones, and yield the seconds that it took."""
    begun = time.perf_counter()
    days = clickhouse.value(f"select uniqExact(day) from event where day < {data_set.end_ms // DAY_MS - 4}")
    with Measured(data_set, clickhouse, 0.1):
        while (done := clickhouse.value("select uniqExact(day) from settled_day")) < days:
            if time.perf_counter() - begun > _SETTLED_WITHIN_S:
                raise TimeoutError(f"{done} of {days} days are settled")
            time.sleep(1)
    yield time.perf_counter() - begun


def rows_of(data_set: DataSet, clickhouse: ClickHouse, rounds: int) -> Iterator[Row]:
    """Yield the rows of the table."""
    where = ("--clickhouse", clickhouse.url, "--db", str(data_set.db))
    progress("SQLite is asked")
    by_sqlite = times_of(data_set, None, rounds)
    run_command("cluster", "init", *where)
    progress("`cluster join`")
    with Measured(data_set, clickhouse):
        begun = time.perf_counter()
        run_command("cluster", "join", *where)
        joined_s = time.perf_counter() - begun
    yield Row("join", f"{data_set.events:,} events", f"{joined_s:.0f} s")
    yield Row("size", "SQLite, an event", f"{data_set.db.stat().st_size / data_set.events:.1f} bytes")
    yield Row("size", "ClickHouse, an event, not settled", f"{clickhouse.size('event') / data_set.events:.1f} bytes")
    progress("ClickHouse is asked about open days")
    by_open = times_of(data_set, clickhouse, rounds)
    progress("days are settled")
    with settled(data_set, clickhouse) as settled_s:
        yield Row("settle", "all days", f"{settled_s:.0f} s")
    number = clickhouse.value("select count() from settled")
    yield Row("size", "ClickHouse, an event, settled", f"{clickhouse.size('settled') / number:.1f} bytes")
    progress("ClickHouse is asked about settled days")
    by_settled = times_of(data_set, clickhouse, rounds)
    for query, by_file in by_sqlite.items():
        found = f"open {by_open[query].text()}, settled {by_settled[query].text()}"
        yield Row("ask", f"{query.kind}, {query.days} days", found, f"SQLite {by_file.text()}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--folder", type=Path, required=True, help="where the data set is kept")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    words = parser.parse_args(arguments)
    data_set = dataset.copied(dataset.prepared(words.folder, words.events), words.folder / "cluster")
    place = words.folder / "clickhouse"
    shutil.rmtree(place, ignore_errors=True)
    clickhouse = ClickHouse(place)
    try:
        rows = []
        for row in rows_of(data_set, clickhouse, words.rounds):
            progress(f"{row.what}: {row.measured} {row.baseline}")
            rows.append(row)
        print(table(rows))
    finally:
        clickhouse.close()
        shutil.rmtree(place)
        dataset.delete_database(data_set.db)


if __name__ == "__main__":
    main()
