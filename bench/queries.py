"""The measured queries, and how they are sent: in turn, over one connection, with warm caches.

All ranges end now and begin so many days ago, to the millisecond, as on a dashboard; `to` is omitted. Queries are sent
round by round, not each forty times in a row, so that the data of today changes equally often for all of them.
"""

import json
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from client import Client
from report import ms, percentile
from traffic import DAY_MS

from tally.events.dimensions import FIELDS

RANGES = (7, 30, 365)  # days, of the targets
ZONES = ("UTC", "America/New_York", "Asia/Kolkata")  # of the targets
# A slow query is sent fewer times, so that a slow server is measured within minutes.
_MAX_S_PER_QUERY = 8.0
_MIN_REQUESTS = 3
TIMED_OUT = float("inf")


class Query(NamedTuple):
    """One query. `kind` and `days` group queries into rows of the table; `which` distinguishes those of a group."""

    kind: str
    days: int
    which: str
    path: str

    def url(self, website: str) -> str:
        """Return its path as of now."""
        from_ms = time.time_ns() // 1_000_000 - self.days * DAY_MS
        begin = datetime.fromtimestamp(from_ms / 1000, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"
        ranged = f"{'&' if '?' in self.path else '?'}from={begin}" if self.days else ""
        return f"/api/v1/websites/{website}/{self.path}{ranged}"


def over_ranges(kinds: Iterable[tuple[str, str, str]]) -> list[Query]:
    """Return queries, given as (kind, which, path), over each of RANGES."""
    return [Query(kind, days, which, path) for days in RANGES for kind, which, path in kinds]


def unfiltered(ranges: Sequence[int] = RANGES) -> list[Query]:
    """Return every query with a target of 50 ms."""
    return [query for days in ranges for query in _unfiltered(days)]


def _unfiltered(days: int) -> Iterable[Query]:
    yield Query("stats", days, "UTC", "stats")
    for interval in ("day", "hour"):
        for zone in ZONES:
            yield Query(f"timeseries {interval}", days, zone, f"timeseries?interval={interval}&tz={zone}")
    for field in FIELDS:
        yield Query("top", days, field, f"top/{field}")


def quick() -> list[Query]:
    """Return those with a target of 10 ms."""
    return [Query("realtime", 0, "", "realtime"), Query("page of events", 7, "", "events")]


def filtered(field: str, value: str) -> list[Query]:
    """Return queries with one filter."""
    return [
        Query(kind, days, value, f"{path}filter_{field}={value}")
        for days in RANGES
        for kind, path in (("stats", "stats?"), ("top pathname", "top/pathname?"), ("timeseries day", "timeseries?"))
    ]


class QueryTimes:
    """The seconds of each query; TIMED_OUT for 503 query_timeout."""

    def __init__(self) -> None:
        self.times: dict[Query, list[float]] = {}

    def add(self, query: Query, seconds: float) -> None:
        """Add a time."""
        self.times.setdefault(query, []).append(seconds)

    def is_enough(self, query: Query) -> bool:
        """Return whether the query has taken its share of the time."""
        times = self.times.get(query, [])
        return times.count(TIMED_OUT) >= 2 or (len(times) >= _MIN_REQUESTS and sum(times) > _MAX_S_PER_QUERY)

    def group(self, kind: str, days: int) -> "Group":
        """Return the times of the queries of a kind over so many days."""
        return Group({q.which: times for q, times in self.times.items() if (q.kind, q.days) == (kind, days)})


class Group:
    """The times of the queries of one row of the table."""

    def __init__(self, times: dict[str, list[float]]) -> None:
        self._times = times
        p95s = {which: percentile(some, 0.95) for which, some in times.items()}
        self.worst = max(p95s, key=lambda which: p95s[which])
        self.p95 = p95s[self.worst]
        self.p50 = percentile([one for some in times.values() for one in some], 0.5)

    def text(self) -> str:
        """Return p50 of all, and p95 of the slowest query."""
        if self.p95 == TIMED_OUT:
            return f"503 query_timeout ({self.worst})"
        worst = f" ({self.worst})" if len(self._times) > 1 else ""
        return f"p50 {ms(self.p50)}, p95 {ms(self.p95)}{worst}"


def run_queries(client: Client, website: str, queries: Sequence[Query], rounds: int) -> QueryTimes:
    """Send all queries, round by round, after one round that is not counted."""
    times = QueryTimes()
    for query in queries:
        run_once(client, website, query)
    for _ in range(rounds):
        for query in queries:
            if not times.is_enough(query):
                times.add(query, run_once(client, website, query))
    return times


def run_once(client: Client, website: str, query: Query) -> float:
    """Return the seconds of a query; TIMED_OUT for 503 query_timeout."""
    url = query.url(website)
    begun = time.perf_counter()
    status, body = client.get(url)
    taken_s = time.perf_counter() - begun
    if status == 503 and json.loads(body)["error"]["code"] == "query_timeout":
        return TIMED_OUT
    if status != 200:
        raise RuntimeError(f"{url} returned {status}: {body[:300]!r}")
    return taken_s
