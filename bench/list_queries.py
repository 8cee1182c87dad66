"""Part lists: the time of event names, entry and exit pages, properties of event_data, and funnels.

As in the part read, over the same data set: warm, on one keep-alive connection, while another process sends 200 events
per second. Plain SQL over raw rows runs before the server is started.
"""

from baselines import timed
from queries import RANGES, Query, over_ranges
from reads import row, timed_queries
from report import Row
from traffic import EVENT_NAMES, path

from bench import Bench

# The target of p95, in seconds.
MAX_P95_S = 0.05
_COMMON, _RARE, _PAGE = EVENT_NAMES[0], EVENT_NAMES[-1], path(0)

_RANGE = "from event where website = :website and ts >= :begin and ts < :end"
_FIRST_PAGES = (
    "select pathname, count(*) from (select pathname, row_number() over (partition by visitor, visit order by {order})"
    f" as place {_RANGE} and type <= 1) where place = 1 group by 1 order by 2 desc limit 10"
)
_PLAIN = {
    "event names": (
        f"select event_name, count(distinct visitor), count(*) {_RANGE} and type >= 2 group by 1 order by 2 desc"
        " limit 10"
    ),
    "entry pages": _FIRST_PAGES.format(order="ts, id"),
    "exit pages": _FIRST_PAGES.format(order="ts desc, id desc"),
    "event data": (
        "select key, value, count(*) from event, json_each(event_data) where website = :website and ts >= :begin"
        " and ts < :end and event_name = (select id from label where text = :name) and event_data is not null"
        " group by 1, 2 order by 3 desc limit 10"
    ),
    "funnel": (
        f"with one as (select visitor, visit, min(ts) as ts {_RANGE} and type <= 1 and pathname ="
        " (select id from label where text = :page) group by 1, 2), two as (select visitor, visit, max(ts) as ts"
        f" {_RANGE} and event_name = (select id from label where text = :name) group by 1, 2)"
        " select count(*), sum(two.ts >= one.ts) from one left join two using (visitor, visit)"
    ),
}


def _queries() -> list[Query]:
    two = f"step=pathname:{_PAGE}&step=event_name:{_COMMON}"
    kinds = [
        ("event names", "", "event-names"),
        ("entry pages", "", "entry-pages"),
        ("exit pages", "", "exit-pages"),
        ("event data", "common", f"event-data?event_name={_COMMON}"),
        ("event data", "rare", f"event-data?event_name={_RARE}"),
        ("funnel", "2 steps", f"funnel?{two}"),
        ("funnel", "4 steps", f"funnel?{two}&step=pathname:{path(1)}&step=pathname:{path(2)}"),
    ]
    return over_ranges(kinds)


def lists(bench: Bench) -> list[Row]:
    """Return a row for each query, with plain SQL as its baseline."""
    rows_db = bench.data_set().rows_db
    baselines = {
        (kind, days): timed(rows_db, (f"/* list_queries.plain */ {sql}",), days, page=_PAGE, name=_COMMON)
        for kind, sql in _PLAIN.items()
        for days in RANGES
    }
    with bench.copy() as data_set:
        times, _ = timed_queries(data_set, _queries(), bench.repeats)
    return [
        row("lists", f"{kind}, {days} days", times, (kind, days), baselines[kind, days], MAX_P95_S)
        for kind in _PLAIN
        for days in RANGES
    ]
