"""Part goals: the time of reports with goals, and of counting all days for goals that are saved later.

As in the part read, over the same data set: warm, on one keep-alive connection, while another process sends 200 events
per second. Two goals are saved first: a frequent event, and pageviews of a directory. Plain SQL counts the conversions
of the event over raw rows, before the server is started.
"""

import sqlite3
import time
from contextlib import closing

from background import EVENTS_PER_SECOND, BackgroundProcess, fill_today, send_events
from baselines import timed
from client import Client
from dataset import DataSet, wait_until_built
from queries import RANGES, Query, over_ranges, run_queries
from reads import row
from report import Row, progress
from servers import Tally
from traffic import EVENT_NAMES, path

from bench import Bench
from tally.accounts.definitions import add_definition
from tally.accounts.websites import find_website
from tally.storage import database

# The target of p95, in seconds.
MAX_P95_S = 0.05
_COMMON, _DIRECTORY = EVENT_NAMES[0], path(1).rsplit("/", 1)[0] + "/"
_PLAIN = (
    "/* goal_queries.plain */ select count(*), count(distinct visitor) from event where website = :website"
    " and ts >= :begin and ts < :end and event_name = (select id from label where text = :name)"
)
_UNCOUNTED = (
    "/* goal_queries.uncounted */ select count(*) from rollup_state as day where kind = 0 and level = 0 and block >= 0"
    " and state = 2 and (select count(*) from rollup_state as own where own.website = day.website and own.kind > 1"
    " and own.level = 0 and own.block = day.block and own.state = 2 and own.version = day.version) < ?"
)


def goals(bench: Bench) -> list[Row]:
    """Return a row for each kind of query, and one for the counting of all days."""
    plain = {days: timed(bench.data_set().rows_db, (_PLAIN,), days, name=_COMMON) for days in RANGES}
    progress("plain SQL is done")
    with bench.copy() as data_set:
        saved = _saved_goals(data_set)
        begun = time.perf_counter()
        with Tally(data_set.db) as server:
            wait_until_built(data_set.db)
            _wait_until_counted(data_set, len(saved))
            counted_s = time.perf_counter() - begun
            fill_today(server.port, data_set)
            queries = _queries(saved[0])
            progress(f"{len(queries)} queries, {bench.repeats} rounds, {EVENTS_PER_SECOND} events per second meanwhile")
            with BackgroundProcess(send_events, server.port, data_set.website, EVENTS_PER_SECOND):
                client = Client(server.port, data_set.key)
                times = run_queries(client, data_set.website, queries, bench.repeats)
                client.close()
    rows = [
        row("goals", f"{kind}, {days} days", times, (kind, days), plain[days], MAX_P95_S)
        for kind in dict.fromkeys(query.kind for query in queries)
        for days in RANGES
    ]
    return [*rows, Row("goals", f"counting all days for {len(saved)} new goals", f"{counted_s:.0f} s")]


def _queries(goal: str) -> list[Query]:
    kinds = [
        ("report of goals", "", "goals/report"),
        ("with a goal", "stats", f"stats?goal={goal}"),
        ("with a goal", "timeseries", f"timeseries?goal={goal}"),
        ("with a goal", "sources", f"top/referrer?goal={goal}"),
        ("with a goal", "pages", f"top/pathname?goal={goal}"),
    ]
    return over_ranges(kinds)


def _saved_goals(data_set: DataSet) -> list[str]:
    """Save the goals; return their ids."""
    contents = [
        {"name": "Event", "type": "event", "match": [f"filter_event_name={_COMMON}"], "value": None, "currency": None},
        {"name": "Pages", "type": "page", "match": [f"filter_pathname^={_DIRECTORY}"], "value": None, "currency": None},
    ]
    with closing(database.open_database(data_set.db, create=False)) as connection, database.transaction(connection):
        number = find_website(connection, data_set.website).number
        return [add_definition(connection, number, "goal", content, data_set.end_ms) for content in contents]


def _wait_until_counted(data_set: DataSet, goals: int) -> None:
    with closing(sqlite3.connect(f"{data_set.db.as_uri()}?mode=ro", uri=True)) as connection:
        while connection.execute(_UNCOUNTED, (goals,)).fetchone()[0]:
            time.sleep(0.5)
