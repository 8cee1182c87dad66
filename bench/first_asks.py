"""Part first: questions with a filter that was not asked before, one by one, and all those of a dashboard at once.

The server keeps sums of complete days, so each round starts it again. A question with another filter comes first: what
it loads is loaded once in the life of a server. Nothing else runs meanwhile.
"""

import threading
import time
from collections.abc import Sequence

from client import Client
from dataset import DataSet, wait_until_built
from queries import Query, run_once
from report import Row, ms, percentile, progress
from servers import Tally
from traffic import HOSTNAME, LARGE_BROWSER, SMALL_BROWSER

from bench import Bench

ROUNDS = 5
_FIELDS = ("pathname", "entry_page", "channel", "referrer", "country", "browser", "os", "device")
# What a dashboard asks when a filter is chosen.
QUESTIONS = ("stats?compare=previous", "timeseries?interval=day", *(f"top/{field}?limit=10" for field in _FIELDS))
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
                queries = [Query("first", days, question, f"{question}&{words}") for question in QUESTIONS]
                progress(f"{ROUNDS} rounds of {len(queries)} questions over {days} days with {words}")
                alone, together = _rounds(data_set, queries)
                slowest = max(alone, key=lambda question: alone[question])
                name = f"{' and '.join('='.join(of) for of in filters)}, {days} days"
                usual_s, slowest_s = percentile(list(alone.values()), 0.5), alone[slowest]
                text = f"{ms(slowest_s)} ({slowest.partition('?')[0]}); median {ms(usual_s)}"
                rows += [
                    Row("first", f"slowest question, {name}", text, target=ms(one_s), met=slowest_s <= one_s),
                    Row("first", f"all at once, {name}", ms(together), target=ms(all_s), met=together <= all_s),
                ]
    return rows


def _rounds(data_set: DataSet, queries: Sequence[Query]) -> tuple[dict[str, float], float]:
    """Return the median seconds of each question by itself, and of all at once."""
    alone: dict[str, list[float]] = {query.which: [] for query in queries}
    together: list[float] = []
    for _ in range(ROUNDS):
        with Tally(data_set.db) as server:
            _ask(server.port, data_set, Query("first", 30, "", "stats?filter_os=iOS"))
            for query in queries:
                alone[query.which].append(_ask(server.port, data_set, query))
        with Tally(data_set.db) as server:
            _ask(server.port, data_set, Query("first", 30, "", "stats?filter_os=iOS"))
            together.append(_at_once(server.port, data_set, queries))
    return {which: percentile(times, 0.5) for which, times in alone.items()}, percentile(together, 0.5)


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
