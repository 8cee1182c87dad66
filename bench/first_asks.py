"""Part first: questions with a filter that was not asked before, one by one, and the requests of a dashboard at once.

The server keeps sums of complete days, so each round starts it again and waits until it is idle. A question with
another filter comes first: what it loads is loaded once in the life of a server. Nothing else runs meanwhile.
"""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from client import Client
from dataset import DataSet, wait_until_built
from queries import Query, run_once
from report import Row, ms, percentile, progress
from servers import Tally
from traffic import HOSTNAME, LARGE_BROWSER, SMALL_BROWSER

from bench import Bench

ROUNDS = 5
_FIELDS = ("pathname", "entry_page", "channel", "referrer", "country", "browser", "os", "device")
_KEY_FIGURES = ("stats?compare=previous", "timeseries?interval=day")
QUESTIONS = (*_KEY_FIGURES, *(f"top/{field}?limit=10" for field in _FIELDS))
# What a dashboard asks when a filter is chosen: its lists in one request.
CLICK = (*_KEY_FIGURES, f"top?fields={','.join(_FIELDS)}&limit=10")
# Filter; targets in seconds of the slowest question and of all together, over 30 and 365 days.
FILTERS = (
    ((("browser", SMALL_BROWSER),), ((0.04, 0.25), (0.3, 1.5))),
    ((("browser", LARGE_BROWSER),), ((0.06, 0.25), (0.5, 1.5))),
    ((("browser", LARGE_BROWSER), ("pathname^", "/docs"), ("hostname", HOSTNAME)), ((0.06, 0.25), (0.5, 1.5))),
)
RANGES = (30, 365)


def first_asks(bench: Bench) -> list[Row]:
    """Return the rows: the slowest question by itself, and all at once."""
    rows = []
    with bench.copy() as data_set:
        with Tally(data_set.db):
            wait_until_built(data_set.db)
        for filters, targets in FILTERS:
            words = "&".join(f"filter_{field}={value}" for field, value in filters)
            for days, (one_s, all_s) in zip(RANGES, targets, strict=True):
                queries, click = (
                    [Query("first", days, question, f"{question}&{words}") for question in questions]
                    for questions in (QUESTIONS, CLICK)
                )
                progress(f"{ROUNDS} rounds of {len(queries)} questions over {days} days with {words}")
                alone, (all_ten, at_click) = _rounds(data_set, queries, (queries, click))
                slowest = max(alone, key=lambda question: alone[question])
                name = f"{' and '.join('='.join(of) for of in filters)}, {days} days"
                usual_s, slowest_s = percentile(list(alone.values()), 0.5), alone[slowest]
                text = f"{ms(slowest_s)} ({slowest.partition('?')[0]}); median {ms(usual_s)}"
                rows += [
                    Row("first", f"slowest question, {name}", text, target=ms(one_s), met=slowest_s <= one_s),
                    Row("first", f"all {len(queries)} at once, {name}", ms(all_ten)),
                    Row("first", f"a dashboard's, {name}", ms(at_click), target=ms(all_s), met=at_click <= all_s),
                ]
    return rows


def _rounds(
    data_set: DataSet, queries: Sequence[Query], groups: Sequence[Sequence[Query]]
) -> tuple[dict[str, float], list[float]]:
    """Return the median seconds of each question by itself, and of each group of questions at once."""
    alone: dict[str, list[float]] = {query.which: [] for query in queries}
    together: list[list[float]] = [[] for _ in groups]
    for _ in range(ROUNDS):
        with _idle_server(data_set) as server:
            for query in queries:
                alone[query.which].append(_ask(server.port, data_set, query))
        for group, times in zip(groups, together, strict=True):
            with _idle_server(data_set) as server:
                times.append(_at_once(server.port, data_set, group))
    return {which: percentile(times, 0.5) for which, times in alone.items()}, [percentile(t, 0.5) for t in together]


@contextmanager
def _idle_server(data_set: DataSet) -> Iterator[Tally]:
    with Tally(data_set.db) as server:
        server.wait_until_idle()
        _ask(server.port, data_set, Query("first", 30, "", "stats?filter_os=iOS"))
        yield server


def _ask(port: int, data_set: DataSet, query: Query) -> float:
    client = Client(port, data_set.key)
    taken_s = run_once(client, data_set.website, query)
    client.close()
    return taken_s


def _at_once(port: int, data_set: DataSet, queries: Sequence[Query]) -> float:
    threads = [threading.Thread(target=_ask, args=(port, data_set, query)) for query in queries]
    begun = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - begun
