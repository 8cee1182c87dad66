"""Load during a measurement, from a process of its own.

`send_events` sends the steady traffic of a website, single events and small batches, at times drawn beforehand. A
latency is counted from the planned time, so it includes the delay where the server is slower. `send_queries` sends the
queries of an open dashboard. `fill_today` sends what a whole day has before, so that figures do not depend on the hour.
"""

import math
import multiprocessing
import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from types import TracebackType
from typing import Any, NamedTuple, Self

from client import Client
from collect_requests import EVENTS_PER_BATCH, EventGenerator, batch, single
from dataset import DAYS, DataSet, wait_until_built
from queries import TIMED_OUT, unfiltered
from report import percentile

from tally.storage import database
from tally.timestamps import DAY_MS

# Ends the process if a measurement hangs.
MAX_S = 3600.0
EVENTS_PER_SECOND = 200  # of the targets
# The probability that the next event is of a new visitor: a visit has 3.5 events.
_NEW_VISITOR = 1 / 3.5
_VISIT_MS = 20 * 60_000
_SMALL_BATCH = (2, 8)
# Each client waits for its own response; a single one would wait for each commit.
_CLIENTS = 8


class Outcome(NamedTuple):
    """The number of events or queries sent, in how many seconds, and latencies in seconds from the planned times."""

    done: int
    seconds: float
    latencies: list[float]

    @property
    def rate(self) -> float:
        """Return the number per second."""
        return self.done / self.seconds

    def at(self, share: float) -> float:
        """Return a percentile of the latencies."""
        return percentile(self.latencies, share)


class BackgroundProcess:
    """Runs `work(stop, *arguments)` during the `with` block; `outcome` is set at its end."""

    def __init__(self, work: Callable[..., Outcome], *arguments: Any) -> None:
        # spawn: a fork would share the sockets and threads of the measurement.
        context = multiprocessing.get_context("spawn")
        self._stop = context.Event()
        self._receiving, sending = context.Pipe(duplex=False)
        self._process = context.Process(target=_run, args=(sending, work, self._stop, *arguments), daemon=True)
        self.outcome: Outcome

    def __enter__(self) -> Self:
        self._process.start()
        # Sent when the imports are done.
        self._receiving.recv()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: object, trace: TracebackType | None) -> None:
        self._stop.set()
        result = self._receiving.recv()
        self._process.join()
        if isinstance(result, BaseException):
            if kind is None:
                raise result
        else:
            self.outcome = result


def _run(report: Connection, work: Callable[..., Outcome], stop: Event, *arguments: Any) -> None:
    report.send("begun")
    try:
        report.send(work(stop, *arguments))
    except Exception as failure:
        report.send(RuntimeError(f"{work.__name__}: {failure!r}"))


def fill_today(port: int, data_set: DataSet) -> None:
    """Send events until today has those of a whole day of the data set, whatever time it is.

    Their times are spread over the day until now. Returns when everything is built.
    """
    now_ms = time.time_ns() // 1_000_000
    midnight_ms = now_ms // DAY_MS * DAY_MS
    with closing(database.connect_reader(data_set.db)) as connection:
        statement = "/* background.today */ select count(*) from event where ts >= ?"
        missing = data_set.events // DAYS - connection.execute(statement, (midnight_ms,)).fetchone()[0]
    sessions, draw = max(1, int(missing * _NEW_VISITOR)), random.Random(5)
    begun_ms = [draw.randrange(midnight_ms, now_ms) for _ in range(sessions)]
    # As on the days of the data set, nearly all events of a visitor are one visit.
    of = [draw.randrange(sessions) for _ in range(missing)]
    planned = sorted((min(begun_ms[session] + draw.randrange(_VISIT_MS), now_ms), session) for session in of)
    generated, client = EventGenerator(5, sessions), Client(port)
    for begin in range(0, missing, EVENTS_PER_BATCH):
        some = planned[begin : begin + EVENTS_PER_BATCH]
        events = [generated.event(session) | {"timestamp": ms} for ms, session in some]
        status, _ = client.exchange(batch(data_set.website, events))
        if status != 202:
            raise RuntimeError(f"a batch was not accepted: {status}")
    client.close()
    wait_until_built(data_set.db)


def send_events(
    stop: Event, port: int, website: str, per_second: float, generator: type[EventGenerator] = EventGenerator
) -> Outcome:
    """Send the traffic of a website from several clients that do not wait for each other."""
    with ThreadPoolExecutor(_CLIENTS) as pool:
        share = per_second / _CLIENTS
        outcomes = list(pool.map(lambda number: _send(stop, port, website, share, number, generator), range(_CLIENTS)))
    latencies = [one for outcome in outcomes for one in outcome.latencies]
    return Outcome(sum(outcome.done for outcome in outcomes), outcomes[0].seconds, latencies)


def _send(
    stop: Event, port: int, website: str, per_second: float, number: int, generator: type[EventGenerator]
) -> Outcome:
    """Send the events of one client over one connection."""
    rng, generated, client = random.Random(number), generator(number, 1), Client(port)
    newest = 1_000_000 * number
    visitors = [newest] * 10
    done, latencies = 0, list[float]()
    begun = planned = time.perf_counter()
    while planned - begun < MAX_S:
        size = 1 if rng.random() < 0.5 else rng.randint(*_SMALL_BATCH)
        planned += -math.log(1 - rng.random()) * size / per_second
        events = []
        for _ in range(size):
            place = rng.randrange(len(visitors))
            if rng.random() < _NEW_VISITOR:
                newest += 1
                visitors[place] = newest
            events.append(generated.event(visitors[place]))
        request = batch(website, events) if size > 1 else single(generated, website, events[0])
        if stop.wait(max(0.0, planned - time.perf_counter())):
            break
        status, body = client.exchange(request)
        if status != 202 or b'"rejected":0' not in body:
            raise RuntimeError(f"not accepted: {status} {body!r}")
        latencies.append(time.perf_counter() - planned)
        done += size
    return Outcome(done, time.perf_counter() - begun, latencies)


def send_queries(stop: Event, port: int, website: str, key: str, per_second: float) -> Outcome:
    """Send unfiltered queries over 30 days in turn."""
    client, queries = Client(port, key), unfiltered((30,))
    latencies: list[float] = []
    begun = time.perf_counter()
    while time.perf_counter() - begun < MAX_S:
        planned = begun + len(latencies) / per_second
        if stop.wait(max(0.0, planned - time.perf_counter())):
            break
        status, _ = client.get(queries[len(latencies) % len(queries)].url(website))
        latencies.append(time.perf_counter() - planned if status == 200 else TIMED_OUT)
    return Outcome(len(latencies), time.perf_counter() - begun, latencies)
