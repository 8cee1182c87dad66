"""Part limits: the deadline of a query, the size of SQLite's log during long reads, and retention.

The deadline is set to a second, and queries are sent that take longer: all events of a year by a filter, a new one each
time, because counted days are cached. The size of the log is measured while events are sent as fast as possible and
such queries run all the time. Retention is measured with a tenth of the data set, to keep a run short: nine months of a
year are deleted while the server runs, and unfiltered figures of whole days are compared before and after.
"""

import json
import time
from collections.abc import Iterator
from contextlib import closing
from threading import Event, Thread

from client import Client, load
from collect_requests import singles
from dataset import DataSet, wait_until_built
from report import Row, ms, progress
from servers import Tally, command
from traffic import DAY_MS

from bench import Bench
from tally.events.dimensions import FIELDS
from tally.storage import database
from tally.timestamps import iso

PART = "limits"
DEADLINE_S = 1
# SQLite checks the deadline every 100,000 steps.
MAX_PAST_S = 0.25
# tally/storage/database.py MAX_WAL_BYTES, and as much again between two checks.
MAX_LOG_BYTES = 2 * 64 * 1_048_576
KEEP_DAYS = 90
_FILTERS = ("type=pageview", "device=desktop", "device=mobile", "browser=Chrome", "os=Windows")
# Deletion takes a few seconds, more on a busy machine.
_MAX_S = 600.0
_POLL_S = 0.2


def limits(bench: Bench) -> list[Row]:
    """Return the rows of all three."""
    return [*_deadline(bench), *_log(bench), *_retention(bench)]


def _slow_query(website: str, days: int = 365, only: str = _FILTERS[0]) -> str:
    from_ms = time.time_ns() // 1_000_000 - days * DAY_MS
    return f"/api/v1/websites/{website}/stats?filter_{only}&from={iso(from_ms)[:-6]}Z"


def _deadline(bench: Bench) -> list[Row]:
    with bench.copy() as data_set, Tally(data_set.db, options=[f"--query-seconds={DEADLINE_S}"]) as tally:
        wait_until_built(data_set.db)
        client, times, codes = Client(tally.port, data_set.key), [], set()
        for only in _FILTERS:
            begun = time.perf_counter()
            status, body = client.get(_slow_query(data_set.website, only=only))
            times.append(time.perf_counter() - begun)
            codes.add(f"{status} {json.loads(body).get('error', {}).get('code', '')}".strip())
        client.close()
    text = f"{', '.join(sorted(codes))} after {ms(min(times))} to {ms(max(times))}"
    is_met = codes == {"503 query_timeout"} and max(times) <= DEADLINE_S + MAX_PAST_S
    target = f"503 query_timeout within {ms(DEADLINE_S + MAX_PAST_S)}"
    return [Row(PART, f"a query beyond a deadline of {DEADLINE_S} s", text, "", "", target, is_met)]


def _log(bench: Bench) -> list[Row]:
    with bench.copy() as data_set, Tally(data_set.db) as tally:
        wait_until_built(data_set.db)
        stop, sizes = Event(), [0]
        threads = [Thread(target=_measure_log, args=(data_set, stop, sizes))]
        threads += [Thread(target=_send_long_queries, args=(tally, data_set, stop)) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            sent = load(tally, singles(data_set.website), bench.seconds * 4)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
    text = f"max {max(sizes) / 1e6:.0f} MB over {len(sent.latencies):,} events, two long queries at any time"
    is_met = max(sizes) <= MAX_LOG_BYTES
    return [Row(PART, "SQLite's log", text, "", "", f"at most {MAX_LOG_BYTES / 1e6:.0f} MB", is_met)]


def _measure_log(data_set: DataSet, stop: Event, sizes: list[int]) -> None:
    log = data_set.db.with_name(data_set.db.name + "-wal")
    while not stop.wait(_POLL_S):
        sizes.append(log.stat().st_size if log.exists() else 0)


def _send_long_queries(tally: Tally, data_set: DataSet, stop: Event) -> None:
    client = Client(tally.port, data_set.key)
    while not stop.is_set():
        client.get(_slow_query(data_set.website, 60))
    client.close()


def _retention(bench: Bench) -> list[Row]:
    with bench.copy(bench.events // 10) as data_set, Tally(data_set.db) as tally:
        wait_until_built(data_set.db)
        client = Client(tally.port, data_set.key)
        paths = list(_of_whole_days(data_set.end_ms))
        before = [client.get(f"/api/v1/websites/{data_set.website}/{path}")[1] for path in paths]
        begun = time.perf_counter()
        done = command("retention", data_set.website, str(KEEP_DAYS), "--yes", "--db", str(data_set.db))
        if done.returncode:
            raise RuntimeError(done.stderr.strip())
        deleted = _wait_until_deleted(data_set)
        taken_s = time.perf_counter() - begun
        progress(f"{deleted:,} events were deleted in {taken_s:.0f} s")
        after = [client.get(f"/api/v1/websites/{data_set.website}/{path}")[1] for path in paths]
        client.close()
    same = sum(one == other for one, other in zip(before, after, strict=True))
    what = f"{deleted:,} of {data_set.events:,} events deleted while the server runs"
    text = f"{taken_s:.0f} s; {same} of {len(paths)} unfiltered responses about past days are equal"
    return [Row(PART, what, text, "", "", "all equal", same == len(paths))]


def _of_whole_days(end_ms: int) -> Iterator[str]:
    """Yield queries over whole days, deleted ones included."""
    today_ms = end_ms // DAY_MS * DAY_MS
    for begin, end in ((360, 0), (360, 200), (120, 30)):
        span = f"from={iso(today_ms - begin * DAY_MS)[:-6]}Z&to={iso(today_ms - end * DAY_MS)[:-6]}Z"
        yield f"stats?{span}"
        yield f"timeseries?{span}"
        for field in FIELDS:
            yield f"top/{field}?{span}"


def _wait_until_deleted(data_set: DataSet) -> int:
    """Wait until all expired events are deleted; return their number."""
    end, day = time.monotonic() + _MAX_S, data_set.end_ms // DAY_MS - KEEP_DAYS
    statement = "/* limits.left */ select count(*) from event where website = 1 and ts < ?"
    with closing(database.connect_reader(data_set.db)) as connection:
        first = last = int(connection.execute(statement, (day * DAY_MS,)).fetchone()[0])
        while last:
            if time.monotonic() > end:
                raise TimeoutError(f"{last:,} of {first:,} events are not deleted yet")
            time.sleep(_POLL_S)
            last = int(connection.execute(statement, (day * DAY_MS,)).fetchone()[0])
    return first
