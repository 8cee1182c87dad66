"""What goes on beside a measurement, in a process of its own, until the measurement is over.

`send` is a website's steady traffic, single events and small batches, at moments drawn beforehand; where the server is
slower than that, it catches up, and the delays show in its latencies. `ask` is somebody with an open dashboard.
"""

import math
import multiprocessing
import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from types import TracebackType
from typing import Any, NamedTuple, Self

from client import Asker
from questions import TIMED_OUT, unfiltered
from report import percentile
from sending import Words, batch, single

# Nothing runs on for ever where a measurement hangs.
MOST_S = 3600.0
EVENTS_A_SECOND = 200  # the targets'
# A visit's 3.5 events: so often does another visitor come.
_NEW_VISITOR = 1 / 3.5
_SMALL_BATCH = (2, 8)
# Clients wait for their own answers only; one alone would wait for each commit.
_CLIENTS = 8


class Course(NamedTuple):
    """What a companion did: how many events or questions in how long, its latencies from the planned moment on."""

    done: int
    seconds: float
    latencies: list[float]

    @property
    def rate(self) -> float:
        """How many a second."""
        return self.done / self.seconds

    def at(self, share: float) -> float:
        """A percentile of the latencies."""
        return percentile(self.latencies, share)


class Companion:
    """Runs `work(stop, *what)` beside the `with`; its Course is there afterwards."""

    def __init__(self, work: Callable[..., Course], *what: Any) -> None:
        # spawn: a fork would share the sockets and threads of the measurement.
        context = multiprocessing.get_context("spawn")
        self._stop = context.Event()
        self._receiving, sending = context.Pipe(duplex=False)
        self._process = context.Process(target=_run, args=(sending, work, self._stop, *what), daemon=True)
        self.course: Course

    def __enter__(self) -> Self:
        self._process.start()
        # It has begun, its imports are behind it.
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
            self.course = result


def _run(report: Connection, work: Callable[..., Course], stop: Event, *what: Any) -> None:
    report.send("begun")
    try:
        report.send(work(stop, *what))
    except Exception as failure:
        report.send(RuntimeError(f"{work.__name__}: {failure!r}"))


def send(stop: Event, port: int, website: str, per_second: float, says: type[Words] = Words) -> Course:
    """A website's traffic, from several clients that do not wait for each other; `says`: what events say."""
    with ThreadPoolExecutor(_CLIENTS) as pool:
        share = per_second / _CLIENTS
        courses = list(pool.map(lambda number: _send(stop, port, website, share, number, says), range(_CLIENTS)))
    latencies = [one for course in courses for one in course.latencies]
    return Course(sum(course.done for course in courses), courses[0].seconds, latencies)


def _send(stop: Event, port: int, website: str, per_second: float, number: int, says: type[Words]) -> Course:
    """What one client sends, over one connection."""
    draw, words, asker = random.Random(number), says(number, 1), Asker(port)
    newest = 1_000_000 * number
    visitors = [newest] * 10
    done, latencies = 0, list[float]()
    begun = planned = time.perf_counter()
    while planned - begun < MOST_S:
        size = 1 if draw.random() < 0.5 else draw.randint(*_SMALL_BATCH)
        planned += -math.log(1 - draw.random()) * size / per_second
        events = []
        for _ in range(size):
            place = draw.randrange(len(visitors))
            if draw.random() < _NEW_VISITOR:
                newest += 1
                visitors[place] = newest
            events.append(words.event(visitors[place]))
        request = batch(website, events) if size > 1 else single(words, website, events[0])
        if stop.wait(max(0.0, planned - time.perf_counter())):
            break
        status, body = asker.exchange(request)
        if status != 202 or b'"rejected":0' not in body:
            raise RuntimeError(f"not taken: {status} {body!r}")
        latencies.append(time.perf_counter() - planned)
        done += size
    return Course(done, time.perf_counter() - begun, latencies)


def ask(stop: Event, port: int, website: str, key: str, per_second: float) -> Course:
    """Questions over 30 days in turn, unfiltered."""
    asker, asked = Asker(port, key), unfiltered((30,))
    latencies: list[float] = []
    begun = time.perf_counter()
    while time.perf_counter() - begun < MOST_S:
        planned = begun + len(latencies) / per_second
        if stop.wait(max(0.0, planned - time.perf_counter())):
            break
        status, _ = asker.get(asked[len(latencies) % len(asked)].url(website))
        latencies.append(time.perf_counter() - planned if status == 200 else TIMED_OUT)
    return Course(len(latencies), time.perf_counter() - begun, latencies)
