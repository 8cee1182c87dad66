"""Part cold: queries with a filter that was not used before, one by one, and the requests of a dashboard at once.

Those are the queries of a dashboard; a funnel, the values of event_data and journeys, which are on other pages, have
servers of their own. The server keeps sums of complete days, so each round starts it again and waits until it is idle.
A query with another filter comes first: what it loads is loaded once by each server. Nothing else runs
meanwhile.
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
from traffic import EVENT_NAMES, HOSTNAME, LARGE_BROWSER, SMALL_BROWSER, path

from bench import Bench

ROUNDS = 5
_FIELDS = ("pathname", "entry_page", "channel", "referrer", "country", "browser", "os", "device")
_KEY_FIGURES = ("stats?compare=previous", "timeseries?interval=day")
QUERIES = (*_KEY_FIGURES, *(f"top/{field}?limit=10" for field in _FIELDS))
# The requests of a dashboard after a filter is selected: its lists are one request.
CLICK = (*_KEY_FIGURES, f"top?fields={','.join(_FIELDS)}&limit=10")
OTHERS = (
    f"funnel?step=pathname:{path(0)}&step=event_name:{EVENT_NAMES[0]}&step=pathname:{path(1)}",
    f"event-data?event_name={EVENT_NAMES[0]}",
    f"journeys?start=pathname:{path(0)}&direction=next&steps=3",
)
# Filter; targets in seconds of the slowest query and of all together, over 30 and 365 days.
FILTERS = (
    ((("browser", SMALL_BROWSER),), ((0.04, 0.25), (0.3, 1.5))),
    ((("browser", LARGE_BROWSER),), ((0.06, 0.25), (0.5, 1.5))),
    ((("browser", LARGE_BROWSER), ("pathname^", "/docs"), ("hostname", HOSTNAME)), ((0.06, 0.25), (0.5, 1.5))),
)
RANGES = (30, 365)


def cold_queries(bench: Bench) -> list[Row]:
    """Return the rows: the slowest query by itself, and all at once."""
    rows = []
    with bench.copy() as data_set:
        with Tally(data_set.db):
            wait_until_built(data_set.db)
        for filters, targets in FILTERS:
            words = "&".join(f"filter_{field}={value}" for field, value in filters)
            for days, (one_s, all_s) in zip(RANGES, targets, strict=True):
                queries, click, others = (
                    [Query("cold", days, question, f"{question}&{words}") for question in questions]
                    for questions in (QUERIES, CLICK, OTHERS)
                )
                progress(f"{ROUNDS} rounds of {len(queries)} queries over {days} days with {words}")
                alone, other = _one_by_one(data_set, queries), _one_by_one(data_set, others)
                all_ten, at_click = (_together(data_set, group) for group in (queries, click))
                slowest = max(alone, key=lambda question: alone[question])
                name = f"{' and '.join('='.join(of) for of in filters)}, {days} days"
                usual_s, slowest_s = percentile(list(alone.values()), 0.5), alone[slowest]
                text = f"{ms(slowest_s)} ({slowest.partition('?')[0]}); median {ms(usual_s)}"
                rows += [
                    Row("cold", f"slowest query, {name}", text, target=ms(one_s), met=slowest_s <= one_s),
                    Row("cold", f"all {len(queries)} at once, {name}", ms(all_ten)),
                    Row("cold", f"a dashboard's, {name}", ms(at_click), target=ms(all_s), met=at_click <= all_s),
                ]
                rows += [
                    Row("cold", f"{question.partition('?')[0]}, {name}", ms(s), target=ms(one_s), met=s <= one_s)
                    for question, s in other.items()
                ]
    return rows


def _one_by_one(data_set: DataSet, queries: Sequence[Query]) -> dict[str, float]:
    """Return the median seconds of each query by itself, those of a round in turn."""
    taken: dict[str, list[float]] = {query.which: [] for query in queries}
    for _ in range(ROUNDS):
        with _idle_server(data_set) as server:
            for query in queries:
                taken[query.which].append(_query(server.port, data_set, query))
    return {which: percentile(times, 0.5) for which, times in taken.items()}


def _together(data_set: DataSet, queries: Sequence[Query]) -> float:
    """Return the median seconds of some queries at once."""
    taken = []
    for _ in range(ROUNDS):
        with _idle_server(data_set) as server:
            taken.append(_at_once(server.port, data_set, queries))
    return percentile(taken, 0.5)


@contextmanager
def _idle_server(data_set: DataSet) -> Iterator[Tally]:
    with Tally(data_set.db) as server:
        server.wait_until_idle()
        _query(server.port, data_set, Query("cold", 30, "", "stats?filter_os=iOS"))
        yield server


def _query(port: int, data_set: DataSet, query: Query) -> float:
    client = Client(port, data_set.key)
    taken_s = run_once(client, data_set.website, query)
    client.close()
    return taken_s


def _at_once(port: int, data_set: DataSet, queries: Sequence[Query]) -> float:
    threads = [threading.Thread(target=_query, args=(port, data_set, query)) for query in queries]
    begun = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - begun
