"""Part journeys: how long lists of event names, entry and exit pages, what is in event_data and funnels take.

As in the part read, over the same data set: warm, on one keep-alive connection, while a process beside sends 200 events
a second. Plain SQL over raw rows, what anybody would write first, runs before the server is started.
"""

from floors import timed
from questions import RANGES, Question
from reads import asked, row
from report import Row
from traffic import EVENT_NAMES, path

from bench import Bench

# Target of the issue, p95 in seconds.
ANSWERED_S = 0.05
_COMMON, _RARE, _PAGE = EVENT_NAMES[0], EVENT_NAMES[-1], path(0)

_RANGE = "from event where website = :website and ts >= :begin and ts < :end"
_ENDS = (
    "select pathname, count(*) from (select pathname, row_number() over (partition by visitor, visit order by {order})"
    f" as place {_RANGE} and type <= 1) where place = 1 group by 1 order by 2 desc limit 10"
)
_PLAIN = {
    "event names": (
        f"select event_name, count(distinct visitor), count(*) {_RANGE} and type >= 2 group by 1 order by 2 desc"
        " limit 10"
    ),
    "entry pages": _ENDS.format(order="ts, id"),
    "exit pages": _ENDS.format(order="ts desc, id desc"),
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


def _questions() -> list[Question]:
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
    return [Question(kind, days, which, path) for days in RANGES for kind, which, path in kinds]


def journeys(bench: Bench) -> list[Row]:
    """Each question beside plain SQL."""
    floors = {
        (kind, days): timed(bench.known(), (f"/* journeys.plain */ {sql}",), days, page=_PAGE, name=_COMMON)
        for kind, sql in _PLAIN.items()
        for days in RANGES
    }
    with bench.copy() as known:
        answers, _ = asked(known, _questions(), bench.asks)
    return [
        row("journeys", f"{kind}, {days} days", answers, (kind, days), floors[kind, days], ANSWERED_S)
        for kind in _PLAIN
        for days in RANGES
    ]
