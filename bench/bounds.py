"""Part bounds: the deadline of a question, the size of SQLite's log beside long reads, and letting events go.

The deadline is set to a second, and questions asked that take longer: all events of a year by a filter, another one
each time, since days that were counted are remembered. The log is watched while events come in as fast as they are
answered and such questions are asked all the time. Letting go works on a data set of a tenth, so that a run stays
short: nine months of a year go while the server runs, and unfiltered figures of whole UTC days are compared before and
after.
"""

import json
import time
from collections.abc import Iterator
from contextlib import closing
from threading import Event, Thread

from client import Asker, load
from dataset import DataSet, settled
from report import Row, ms, say
from sending import singles
from servers import Tally, command
from traffic import DAY_MS

from bench import Bench
from tally.events.dimensions import FIELDS
from tally.storage import database
from tally.timestamps import iso

PART = "bounds"
DEADLINE_S = 1
# A look every 100,000 steps of SQLite, and the answer's way.
MOST_PAST_S = 0.25
# tally/ingest/store.py MOST_LOG_BYTES, and what one group and a look a second add.
MOST_LOG_BYTES = 2 * 64 * 1_048_576
KEEP_DAYS = 90
_FILTERS = ("type=pageview", "device=desktop", "device=mobile", "browser=Chrome", "os=Windows")
# Letting go takes a few seconds; this is for a machine that is busy otherwise.
_MOST_S = 600.0
_POLL_S = 0.2


def bounds(bench: Bench) -> list[Row]:
    """The rows of all three."""
    return [*_deadline(bench), *_log(bench), *_letting_go(bench)]


def _long(website: str, days: int = 365, only: str = _FILTERS[0]) -> str:
    from_ms = time.time_ns() // 1_000_000 - days * DAY_MS
    return f"/api/v1/websites/{website}/stats?filter_{only}&from={iso(from_ms)[:-6]}Z"


def _deadline(bench: Bench) -> list[Row]:
    with bench.copy() as known, Tally(known.db, options=[f"--query-seconds={DEADLINE_S}"]) as tally:
        settled(known.db)
        asker, times, codes = Asker(tally.port, known.key), [], set()
        for only in _FILTERS:
            begun = time.perf_counter()
            status, body = asker.get(_long(known.website, only=only))
            times.append(time.perf_counter() - begun)
            codes.add(f"{status} {json.loads(body).get('error', {}).get('code', '')}".strip())
        asker.close()
    told = f"{', '.join(sorted(codes))} after {ms(min(times))} to {ms(max(times))}"
    is_met = codes == {"503 query_timeout"} and max(times) <= DEADLINE_S + MOST_PAST_S
    target = f"503 query_timeout within {ms(DEADLINE_S + MOST_PAST_S)}"
    return [Row(PART, f"a question past a deadline of {DEADLINE_S} s", told, "", "", target, is_met)]


def _log(bench: Bench) -> list[Row]:
    with bench.copy() as known, Tally(known.db) as tally:
        settled(known.db)
        stop, sizes = Event(), [0]
        beside = [Thread(target=_watch, args=(known, stop, sizes))]
        beside += [Thread(target=_read_on, args=(tally, known, stop)) for _ in range(2)]
        for thread in beside:
            thread.start()
        try:
            sent = load(tally, singles(known.website), bench.seconds * 4)
        finally:
            stop.set()
            for thread in beside:
                thread.join()
    told = f"at most {max(sizes) / 1e6:.0f} MB over {len(sent.latencies):,} events, two long reads at any time"
    is_met = max(sizes) <= MOST_LOG_BYTES
    return [Row(PART, "SQLite's log", told, "", "", f"at most {MOST_LOG_BYTES / 1e6:.0f} MB", is_met)]


def _watch(known: DataSet, stop: Event, sizes: list[int]) -> None:
    log = known.db.with_name(known.db.name + "-wal")
    while not stop.wait(_POLL_S):
        sizes.append(log.stat().st_size if log.exists() else 0)


def _read_on(tally: Tally, known: DataSet, stop: Event) -> None:
    asker = Asker(tally.port, known.key)
    while not stop.is_set():
        asker.get(_long(known.website, 60))
    asker.close()


def _letting_go(bench: Bench) -> list[Row]:
    with bench.copy(bench.events // 10) as known, Tally(known.db) as tally:
        settled(known.db)
        asker = Asker(tally.port, known.key)
        paths = list(_of_whole_days(known.end_ms))
        before = [asker.get(f"/api/v1/websites/{known.website}/{path}")[1] for path in paths]
        begun = time.perf_counter()
        done = command("retention", known.website, str(KEEP_DAYS), "--yes", "--db", str(known.db))
        if done.returncode:
            raise RuntimeError(done.stderr.strip())
        gone = _wait_until_gone(known)
        taken_s = time.perf_counter() - begun
        say(f"{gone:,} events were let go in {taken_s:.0f} s")
        after = [asker.get(f"/api/v1/websites/{known.website}/{path}")[1] for path in paths]
        asker.close()
    same = sum(one == other for one, other in zip(before, after, strict=True))
    what = f"{gone:,} of {known.events:,} events let go beside the running server"
    told = f"{taken_s:.0f} s; {same} of {len(paths)} unfiltered answers about past days are the same"
    return [Row(PART, what, told, "", "", "all the same", same == len(paths))]


def _of_whole_days(end_ms: int) -> Iterator[str]:
    """Questions about whole UTC days, those that go among them."""
    today_ms = end_ms // DAY_MS * DAY_MS
    for begin, end in ((360, 0), (360, 200), (120, 30)):
        span = f"from={iso(today_ms - begin * DAY_MS)[:-6]}Z&to={iso(today_ms - end * DAY_MS)[:-6]}Z"
        yield f"stats?{span}"
        yield f"timeseries?{span}"
        for field in FIELDS:
            yield f"top/{field}?{span}"


def _wait_until_gone(known: DataSet) -> int:
    """How many events were let go, once no more are."""
    end, day = time.monotonic() + _MOST_S, known.end_ms // DAY_MS - KEEP_DAYS
    statement = "/* bounds.left */ select count(*) from event where website = 1 and ts < ?"
    with closing(database.connect_reader(known.db)) as connection:
        first = last = int(connection.execute(statement, (day * DAY_MS,)).fetchone()[0])
        while last:
            if time.monotonic() > end:
                raise TimeoutError(f"{last:,} of {first:,} events are still there")
            time.sleep(_POLL_S)
            last = int(connection.execute(statement, (day * DAY_MS,)).fetchone()[0])
    return first
