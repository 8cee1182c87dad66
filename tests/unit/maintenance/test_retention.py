"""Retention of raw events: which rows are deleted, in which order, which figures stay, which queries are refused.

docs/backup.md, Retention: "Older raw events are deleted while the server runs. Their rollups stay: unfiltered figures
of whole days of the website; all but top lists also of whole hours and local days". "From then on the rollups are the
data": "`backup` includes them", "Nothing deletes them". "A query that needs expired events (most filters, a range that
cuts an hour, `/events`) is 400 `beyond_retention`, with the time from which it can be answered."

Most tests set the time to the day TODAY (tests/support/aged_database.py). The command uses the system clock, and a
database (`aged`) whose result does not depend on the time of the test.
"""

import asyncio
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest

from analytics_server import main
from tally.accounts.accounts import create_account, find_account
from tally.accounts.websites import add_website
from tally.columns import measurement_days
from tally.events.dimensions import FIELDS
from tally.maintenance import retention
from tally.maintenance.rollup_builder import Now, RollupBuilder
from tally.rollups import rollup_state
from tally.rollups.rollup_state import KEPT, OPEN, STALE
from tally.storage.connections import on_thread
from tally.storage.database import connect_reader, transaction
from tally.timestamps import iso
from tests.support.aged_database import (
    DAY_MS,
    DAYS,
    KEEP,
    ONE_BROWSER,
    QUIET,
    RAW_TABLES,
    RECENT_OS,
    TODAY,
    VITALS_ONLY,
    Output,
    build,
    built_database,
    import_lines,
    keep,
    make,
    old_rows,
    past_events,
    rollup_states,
    rows,
    run_in_process,
    sql,
    with_rows,
    writing_connection,
)
from tests.support.app import ManualClock
from tests.support.cases import cases
from tests.support.process import Command, Serve, until
from tests.support.read_api import SyncApp, sync_app_at

FIRST_KEPT = TODAY - KEEP
FROM_MS = FIRST_KEPT * DAY_MS
FIGURES_OF_DAYS = ("rollup_block", "total_15m", "heatmap_block", "heatmap_count")
ZONES = ("UTC", "America/New_York", "Europe/London", "Asia/Kolkata", "Asia/Kathmandu", "Pacific/Chatham")


def day(back: int) -> str:
    """Return the date so many days before TODAY."""
    return iso((TODAY - back) * DAY_MS)[:10]


@pytest.fixture
def db(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a database with the rows of every day, which stay."""
    path = with_rows(built_database(tmp_path))
    monkeypatch.setattr(measurement_days, "MIN_EVENTS", 1 << 30)
    return path


def step(path: Path, now_ms: int = TODAY * DAY_MS, after: Callable[[], None] = lambda: None) -> bool:
    """Run one step of retention on new connections; return whether there may be more. `after` is called after each of
    its transactions."""

    async def retain() -> bool:
        writer, reader = await on_thread(writing_connection(path)), await on_thread(connect_reader(path))
        try:
            builder = RollupBuilder(writer, reader, ManualClock(now_ms), rest=0)
            write = builder.write

            async def followed(*what: Any) -> Any:
                result = await write(*what)
                after()
                return result

            builder._write = followed  # type: ignore[method-assign]
            return await builder.retention(1, Now(now_ms, now_ms))
        finally:
            await reader.close()
            await writer.close()

    return asyncio.run(retain())


def lasting(path: Path, website: int = 1) -> dict[str, list[tuple[Any, ...]]]:
    """Return what retention neither deletes nor changes: totals, points and the values of blocks of days."""
    found = rows(path, *FIGURES_OF_DAYS[1:], website=website)
    found["rollup_block"] = sql(
        path, "select * from rollup_block where website = ? and level > 0 order by 2, 3, 4, 5", website
    )
    return found


def kept_values(path: Path, website: int = 1) -> dict[int, list[tuple[Any, ...]]]:
    """Return the values of single days."""
    found: dict[int, list[tuple[Any, ...]]] = {}
    values = "select block, field, first_value, content from rollup_block where website = ? and level = 0 order by 2, 3"
    for day_of, *value in sql(path, values, website):
        found.setdefault(day_of, []).append(tuple(value))
    return found


# --- what is deleted


def test_expired_days_are_deleted(db: Path) -> None:
    before, raw, old = lasting(db), rows(db, *RAW_TABLES), old_rows(db, FIRST_KEPT)
    assert min(old.values()) > 20
    assert min(map(len, before.values())) > 0
    keep(db)
    assert build(db)
    assert old_rows(db, FIRST_KEPT) == dict.fromkeys(RAW_TABLES, 0)
    for table, left in rows(db, *RAW_TABLES).items():
        assert left, f"{table}: today and {KEEP} days before it stay"
        assert set(left) <= set(raw[table])
        assert len(left) == len(raw[table]) - old[table]
    assert {day for day, state in rollup_states(db).items() if state == KEPT} == {
        d for d in rollup_states(db) if d < FIRST_KEPT
    }
    assert lasting(db) == before


def test_columns_of_expired_days_are_deleted(tmp_path: Path) -> None:
    """Of traffic, web vitals and experiments; those of other days stay as they are."""
    db = built_database(tmp_path)
    packed = "select source, day from packed_day where website = 1"
    before, columns = sql(db, packed), rows(db, "day_column")["day_column"]
    assert {(source, day < FIRST_KEPT) for source, day in before} == {(n, old) for n in range(3) for old in (0, 1)}
    keep(db)
    assert build(db)
    assert set(sql(db, packed)) == {(source, day) for source, day in before if day >= FIRST_KEPT}
    assert rows(db, "day_column")["day_column"] == [row for row in columns if row[2] >= FIRST_KEPT]


def test_other_websites_are_not_changed(db: Path) -> None:
    tables = (*RAW_TABLES, *FIGURES_OF_DAYS, "rollup_state")
    before = rows(db, *tables, website=2)
    keep(db)
    assert build(db)
    assert rows(db, *tables, website=2) == before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("own", "setting", "goes"),
    [
        (None, 0, False),
        (None, KEEP, True),
        (KEEP, 0, True),
        (0, KEEP, False),
        (KEEP, DAYS - 5, True),
        (DAYS + 1, 5, False),
    ],
    ids=["neither", "the setting", "its own", "for ever wins", "its own is shorter", "its own is longer"],
)
def test_the_website_overrides_the_setting(db: Path, own: int | None, setting: int, goes: bool) -> None:
    keep(db, own)
    assert build(db, keep_days=setting)
    assert (sum(old_rows(db, FIRST_KEPT).values()) == 0) == goes
    assert (KEPT in rollup_states(db).values()) == goes


@pytest.mark.slow
@pytest.mark.parametrize("days", [1, 4, 5], ids=lambda days: f"{days} days")
def test_days_that_may_get_events_are_not_deleted(db: Path, days: int) -> None:
    """Whatever the setting, a day is kept until 72 hours and a margin after its end, since events may still arrive."""
    keep(db, days)
    assert build(db)
    assert {d for d, state in rollup_states(db).items() if state == KEPT} == {
        d for d in rollup_states(db) if d < TODAY - 5
    }


@pytest.mark.slow
def test_a_stale_day_delays_later_days(db: Path) -> None:
    keep(db)
    connection = writing_connection(db)
    stale = TODAY - 30
    with transaction(connection):
        rollup_state.mark_stale(connection, 1, [stale])
    connection.close()
    while step(db):
        pass
    assert {d for d, state in rollup_states(db).items() if state == KEPT} == {d for d in rollup_states(db) if d < stale}
    assert rollup_states(db)[stale] == STALE
    assert sum(old_rows(db, stale).values()) == 0
    assert sql(db, "select count(*) from event where website = 1 and ts < ?", FROM_MS)[0][0] > 100
    assert build(db)
    assert sum(old_rows(db, FIRST_KEPT).values()) == 0


def test_open_days_wait_for_the_builder(tmp_path: Path) -> None:
    """After a stop of months the last days are still open. They have expired, but are counted before deletion."""
    db = make(tmp_path / "analytics.db", past_events(back=(2, 1, 0)))
    assert set(rollup_states(db).values()) == {OPEN}
    keep(db)
    later = (TODAY + 90) * DAY_MS
    before = rows(db, *RAW_TABLES)
    assert not step(db, later)
    assert rows(db, *RAW_TABLES) == before
    assert build(db, later)
    assert rows(db, *RAW_TABLES) == {key: [] for key in RAW_TABLES}
    assert set(rollup_states(db).values()) == {KEPT}


# --- order of deletion, and interrupted deletions


@pytest.mark.slow
def test_a_day_is_marked_before_its_rows_are_deleted(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The order is checked after every transaction. Before it is marked its values are counted."""
    monkeypatch.setattr(retention, "ROWS_PER_STEP", 100)
    days, first = 10, TODAY - DAYS + 10
    keep(db, DAYS - days)
    assert kept_values(db) == {}
    whole = dict(sql(db, "select ts / ?, count(*) from event where website = 1 group by 1", DAY_MS))
    values: dict[int, list[tuple[Any, ...]]] = {}
    steps, partly, counted_first = 0, 0, 0

    def check() -> None:
        nonlocal steps, partly, counted_first
        steps += 1
        left = dict(sql(db, "select ts / ?, count(*) from event where website = 1 group by 1", DAY_MS))
        kept = {day for day, state in rollup_states(db).items() if state == KEPT}
        assert {day for day in whole if left.get(day, 0) < whole[day]} <= kept
        visits = {day for (day,) in sql(db, "select distinct start_ms / ? from visit where website = 1", DAY_MS)}
        assert set(whole) - visits <= kept
        partly += any(0 < left.get(day, 0) < whole[day] for day in whole)
        found = kept_values(db)
        counted_first += bool(found.keys() - kept)
        for day in kept:
            assert values.setdefault(day, found.get(day, [])) == found.get(day, []), "its values do not change any more"

    while step(db, after=check):
        pass
    assert steps > 20 * days
    assert partly, "some steps delete only a part of a day's rows"
    assert counted_first > 10 * days
    assert sum(old_rows(db, first).values()) == 0
    assert {day for day in whole if day < first} == {day for day in values if values[day]}


def test_a_day_that_changes_while_its_values_are_counted_is_counted_again(db: Path) -> None:
    keep(db)
    oldest, late = TODAY - DAYS, {"type": "pageview", "timestamp": (TODAY - DAYS) * DAY_MS + 1, "pathname": "/late"}
    before = answers(db, f"top/pathname?from={day(DAYS)}&to={day(DAYS)}&limit=1000")[0]["data"]
    changed: list[int] = []

    def change() -> None:
        if not changed and oldest in kept_values(db):
            assert import_lines(db, 1, [late | {"visitor": "late"}]) == (1, 0, 0)
            changed.append(rollup_states(db)[oldest])

    step(db, after=change)
    assert changed == [STALE]
    assert rollup_states(db)[oldest] == STALE
    assert build(db)
    assert rollup_states(db)[oldest] == KEPT
    after = answers(db, f"top/pathname?from={day(DAYS)}&to={day(DAYS)}&limit=1000")[0]["data"]
    new = {"value": "/late", "visitors": 1, "pageviews": 1, "events": 0}
    assert sorted(row["value"] for row in after) == sorted([*(row["value"] for row in before), "/late"])
    assert [{name: row[name] for name in new} for row in after if row not in before] == [new]


@pytest.mark.slow
# A day takes 26 steps; once all expired days are marked, from the 767th on rows are deleted.
@pytest.mark.parametrize("steps", [22, 23, 24, 45, 46, 47, 48, 300, 766, 768, 770, 780, 790, 800])
def test_a_killed_deletion_continues(db: Path, steps: int) -> None:
    before = lasting(db)
    keep(db)
    assert not build(db, steps=steps), "the deletion was interrupted"
    state = rollup_states(db)
    assert all(state[d] == KEPT for d in missing_days(db))
    assert build(db)
    assert sum(old_rows(db, FIRST_KEPT).values()) == 0
    assert {d for d, state in rollup_states(db).items() if state == KEPT} == {
        d for d in rollup_states(db) if d < FIRST_KEPT
    }
    assert lasting(db) == before


def missing_days(path: Path) -> set[int]:
    """Return the days that have fewer events than their totals."""
    counted = dict(sql(path, "select ts / ?, count(*) from event where website = 1 group by 1", DAY_MS))
    totals = sql(path, "select quarter / 96, sum(pageviews + events) from total_15m where website = 1 group by 1")
    return {day for day, events in totals if counted.get(day, 0) != events}


# --- figures that stay


class Two(NamedTuple):
    """Applications on two copies of a database, `after` without the old events, and the path of a website's reports."""

    before: SyncApp
    after: SyncApp
    path: str


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    folder = tmp_path_factory.mktemp("two")
    whole = built_database(folder / "whole")
    part = built_database(folder / "part")
    keep(part)
    assert build(part)
    website = sql(whole, "select id from website where number = 1")[0][0]
    with sync_app_at(whole) as before, sync_app_at(part) as after:
        yield Two(before, after, f"/api/v1/websites/{website}/")


SPANS = {
    "all of it": (DAYS, 0),
    "all that is kept": (DAYS, KEEP + 1),
    "across": (DAYS - 7, KEEP - 3),
    "one day": (KEEP + 1, KEEP + 1),
    "the last that is gone and the first that is not": (KEEP + 1, KEEP),
    "without traffic": (QUIET, VITALS_ONLY),
}


def asked_of_whole_days() -> Iterator[str]:
    for first, last in SPANS.values():
        span = f"from={day(first)}&to={day(last)}"
        for zone in ZONES:
            yield f"stats?{span}&tz={zone}"
            yield f"timeseries?interval=day&{span}&tz={zone}"
            yield f"timeseries?interval=hour&{span}&tz={zone}"
        yield f"stats?{span}&compare=previous"
        for field in FIELDS:
            yield f"top/{field}?{span}&limit=1000"
        for limit in (1, 3, 7):
            yield f"top/pathname?{span}&limit={limit}"
        for filter_ in ("hostname=example.com", "utm_source=", "hostname=example.com&filter_device=&filter_os=Linux"):
            yield f"stats?from={day(DAYS)}&to={day(KEEP + 1)}&filter_{filter_}"
    kept = f"from={day(DAYS)}&to={day(KEEP + 1)}"
    one = f"from={day(ONE_BROWSER)}&to={day(ONE_BROWSER)}"
    for filter_ in (f"os={RECENT_OS}", "browser=Lynx", "utm_source=news", f"os={RECENT_OS}&filter_browser=Chrome"):
        yield f"stats?{kept}&filter_{filter_}"
        yield f"timeseries?{kept}&filter_{filter_}&tz=America/New_York"
        yield f"top/country?{kept}&filter_{filter_}"
        # No match on deleted days; RECENT_OS occurs on kept days.
        yield f"stats?from={day(DAYS)}&to={day(0)}&filter_{filter_}"
        yield f"top/pathname?from={day(DAYS)}&to={day(0)}&filter_{filter_}"
    for side in ("entry_page", "exit_page"):
        # No event of these days has such a page.
        yield f"stats?{kept}&filter_{side}=/nowhere&filter_{side}=/never"
        yield f"top/country?{kept}&filter_{side}^=/no"
        yield f"top/{side}?{kept}"
    yield f"stats?{one}&filter_browser=Chrome"
    yield f"timeseries?{one}&filter_browser=Chrome&filter_browser=Firefox&interval=hour"
    yield f"top/pathname?{one}&filter_browser=Chrome&limit=1000"


def asked_of_quarters() -> Iterator[str]:
    """Yield queries of ranges that begin or end within a day, at a quarter hour."""
    kept = DAYS - 3
    for begin, end in (("20:00", "04:00"), ("00:00", "10:00"), ("23:45", "00:15")):
        next_day = kept if end == "10:00" else kept - 1
        yield f"stats?from={day(kept)}T{begin}&to={day(next_day)}T{end}"
    yield f"timeseries?interval=hour&from={day(kept)}T10:00&to={day(kept)}T15:00"
    yield f"timeseries?interval=hour&from={day(kept)}T10:00&to={day(kept)}T15:00&tz=Asia/Kolkata"
    yield f"timeseries?interval=hour&from={day(kept)}T10:00&to={day(kept)}T11:00"


@pytest.mark.slow
@cases("question", dict.fromkeys([*asked_of_whole_days(), *asked_of_quarters()]))
def test_figures_stay_equal(two: Two, question: str) -> None:
    before, after = (sync_app.get(two.path + question, sync_app.key) for sync_app in (two.before, two.after))
    assert before.status == 200, before.text
    assert after.status == 200, after.text
    assert after.json == before.json


def test_the_compared_results_are_not_empty(two: Two) -> None:
    """Control for test_figures_stay_equal: the results that it compares are not empty."""
    kept = f"from={day(DAYS)}&to={day(KEEP + 1)}"
    data = two.after.get(f"{two.path}stats?{kept}", two.after.key).json["data"]
    assert min(data["visitors"], data["visits"], data["pageviews"], data["events"]) > 100
    one = two.after.get(f"{two.path}stats?{kept}&filter_hostname=example.com", two.after.key)
    assert one.json["data"] == data
    recent = f"{two.path}stats?from={day(DAYS)}&to={day(0)}&filter_os={RECENT_OS}"
    assert two.after.get(recent, two.after.key).json["data"]["visitors"] > 10


def test_key_figures_of_a_whole_hour_are_kept(two: Two) -> None:
    """docs/backup.md: "all but top lists also of whole hours and local days"."""
    question = f"stats?from={day(DAYS - 3)}T10:00&to={day(DAYS - 3)}T11:00"
    before, after = (sync_app.get(two.path + question, sync_app.key) for sync_app in (two.before, two.after))
    assert after.status == 200, after.text
    assert after.json == before.json


# --- refused queries

BACK = f"from={day(DAYS)}&to={day(0)}"
ONE = f"from={day(KEEP + 1)}&to={day(KEEP + 1)}"
REFUSED = {
    "a filter": f"stats?{BACK}&filter_browser=Chrome",
    "a filter on the day before": f"stats?{ONE}&filter_browser=Chrome",
    "a filter of a series": f"timeseries?{BACK}&filter_country=DE",
    "a filter of a top list": f"top/pathname?{BACK}&filter_country=",
    "a filter by type": f"stats?{BACK}&filter_type=pageview",
    "a filter by unset event_name": f"stats?{BACK}&filter_event_name=",
    "a filter by the entry page": f"stats?{ONE}&filter_entry_page=/1",
    "a filter by another exit page": f"stats?{ONE}&filter_exit_page!=/nowhere",
    "a filter by no entry page": f"top/os?{ONE}&filter_entry_page=",
    "a ragged beginning": f"stats?from={day(DAYS - 3)}T10:00:00.001&to={day(0)}",
    "a ragged beginning of a series": f"timeseries?from={day(DAYS - 3)}T10:00:00.001&to={day(0)}",
    "a ragged end": f"stats?from={day(DAYS)}&to={day(DAYS - 3)}T10:00:00.001",
    "three hours of a day": f"stats?from={day(DAYS - 3)}T10:00&to={day(DAYS - 3)}T13:00",
    "a top list that begins within a day": f"top/browser?from={day(KEEP + 1)}T12:00&to={day(0)}",
    "a top list of local days": f"top/pathname?{BACK}&tz=America/New_York",
    "a top list of local days elsewhere": f"top/browser?{ONE}&tz=Asia/Kolkata",
    "events that reach back": f"events?{BACK}",
    "events that reach back a millisecond": f"events?from={day(KEEP + 1)}T23:59:59.999&to={day(0)}",
    "what is compared with": f"stats?from={day(KEEP)}T00:30:00.001&to={day(0)}T00:00&compare=previous",
}


@cases("question", REFUSED.values(), ids=REFUSED)
def test_queries_that_need_deleted_events_are_refused(two: Two, question: str) -> None:
    assert two.before.get(two.path + question, two.before.key).status == 200
    answer = two.after.get(two.path + question, two.after.key)
    assert (answer.status, answer.json["ok"]) == (400, False)
    error = answer.json["error"]
    assert (error["code"], error["field"]) == ("beyond_retention", "from")
    assert iso(FROM_MS) in error["message"], "the message has the time from which the query can be answered"


@cases("question", [text for name, text in REFUSED.items() if name != "what is compared with"], ids=lambda text: text)
def test_queries_from_the_reported_time_are_answered(two: Two, question: str) -> None:
    error = two.after.get(two.path + question, two.after.key).json["error"]
    moment = next(word for word in error["message"].split() if word[:4].isdecimal())
    endpoint, _, query = question.partition("?")
    kept = [part for part in query.split("&") if not part.startswith(("from=", "to=", "tz="))]
    question = f"{endpoint}?{'&'.join([*kept, f'from={quote(moment)}'])}"
    before, after = (sync_app.get(two.path + question, sync_app.key) for sync_app in (two.before, two.after))
    assert after.status == 200, after.text
    assert after.json["data"] == before.json["data"]


def test_events_of_a_day_without_traffic_are_refused_too(tmp_path: Path) -> None:
    """A day with only web vitals: they are deleted too, so `/events` is refused and does not return an empty list."""
    db = make(tmp_path / "analytics.db", past_events(back=(30, VITALS_ONLY, 0)))
    keep(db)
    assert build(db)
    assert sum(old_rows(db, FIRST_KEPT).values()) == 0
    website = sql(db, "select id from website")[0][0]
    with sync_app_at(db) as sync_app:
        span = f"from={day(VITALS_ONLY)}&to={day(VITALS_ONLY)}"
        answer = sync_app.get(f"/api/v1/websites/{website}/events?{span}", sync_app.key)
    assert (answer.status, answer.json.get("error", {}).get("code")) == (400, "beyond_retention"), answer.text


LISTS = ("event-names", "entry-pages", "exit-pages")
FUNNEL = "funnel?step=pathname:/&step=pathname:/pricing"


@cases(
    ("question", "also_helps"),
    [
        (f"stats?{BACK}&filter_browser=Chrome", "without filters for whole days of the website."),
        (f"top/pathname?from={day(DAYS - 3)}T10:00&to={day(0)}", "without filters for whole days of the website."),
        (f"events?{BACK}", ""),
        (f"{FUNNEL}&{BACK}", ""),
        (f"event-data?event_name=signup&{BACK}", ""),
        *((f"{name}?{BACK}&filter_browser=Chrome", "without filters for whole days of the website.") for name in LISTS),
    ],
)
def test_the_error_names_the_fix(two: Two, question: str, also_helps: str) -> None:
    """Only fixes that work are named: funnels, event data and single events need raw events with any parameters."""
    message = two.after.get(two.path + question, two.after.key).json["error"]["message"]
    start = f"Single events are kept from {iso(FROM_MS)} on: use a range from then on"
    assert message.startswith(start)
    assert also_helps in message
    assert (message == f"{start}.") is (not also_helps)


@cases("report", ["stats", "top/browser"])
def test_whole_days_are_compared_where_a_part_of_one_is_deleted(two: Two, report: str) -> None:
    """The range ends in the future, so the previous range would end within a day whose events are deleted. Its end is
    moved to the end of that day."""
    span = f"from={day(KEEP)}&to={day(0)}"
    other = f"compare_from={day(2 * KEEP + 1)}&compare_to={day(KEEP + 1)}"
    part, after = (of.get(f"{two.path}{report}?{span}&compare=previous", of.key).json for of in (two.before, two.after))
    assert (part["meta"]["previous_to"][:10], after["meta"]["previous_to"]) == (day(KEEP + 1), iso(FROM_MS))
    whole = two.before.get(f"{two.path}{report}?{span}&compare=custom&{other}", two.before.key).json
    assert after["data"] == whole["data"] != part["data"]


def test_the_overview_compares_whole_days_where_a_part_of_one_is_deleted(two: Two) -> None:
    before, after = (of.get("/api/v1/websites?stats=30d", of.key).json["data"] for of in (two.before, two.after))
    assert 0 < before[0]["stats"]["previous"]["visitors"] < after[0]["stats"]["previous"]["visitors"]


def test_csv_queries_are_refused_too(two: Two) -> None:
    answer = two.after.get(f"{two.path}events?{BACK}&format=csv", two.after.key)
    assert (answer.status, answer.json["error"]["code"]) == (400, "beyond_retention")


# --- days whose events are deleted: their rollups are the data


def answers(path: Path, *questions: str) -> list[Any]:
    """Return the JSON of the responses to queries of website 1 of a database."""
    website = sql(path, "select id from website where number = 1")[0][0]
    with sync_app_at(path) as sync_app:
        found = [sync_app.get(f"/api/v1/websites/{website}/{question}", sync_app.key) for question in questions]
    assert {answer.status for answer in found} == {200}, [answer.text for answer in found]
    return [answer.json for answer in found]


FIGURES = (
    f"stats?{BACK}",
    f"timeseries?{BACK}&interval=hour&tz=Asia/Kathmandu",
    f"top/pathname?{BACK}&limit=1000",
    f"top/browser?{ONE}",
)


def test_retention_is_kept_by_backups_and_restarts(
    db: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = answers(db, *FIGURES)
    keep(db)
    assert build(db)
    copy = tmp_path / "copy.db"
    assert run_in_process(main, capsys, "backup", str(copy), "--db", str(db))[0] == 0
    db.unlink()
    assert answers(copy, *FIGURES) == before
    assert build(copy)
    assert answers(copy, *FIGURES) == before
    assert rollup_states(copy)[TODAY - DAYS] == KEPT


def test_marking_a_kept_day_deletes_nothing(db: Path) -> None:
    before = answers(db, *FIGURES)
    keep(db)
    assert build(db)
    values = "select * from rollup_block where website = 1 order by 2, 3, 4, 5"
    kept, moments = sql(db, values), rows(db, "total_15m")
    connection = writing_connection(db)
    with transaction(connection):
        rollup_state.mark_stale(connection, 1, [TODAY - DAYS, TODAY - 30, FIRST_KEPT - 1])
    connection.close()
    assert {rollup_states(db)[d] for d in (TODAY - DAYS, TODAY - 30, FIRST_KEPT - 1)} == {KEPT}
    assert answers(db, *FIGURES) == before
    assert build(db)
    assert (sql(db, values), rows(db, "total_15m")) == (kept, moments)
    assert answers(db, *FIGURES) == before


def test_deleted_events_do_not_return_with_a_longer_retention(db: Path) -> None:
    before = answers(db, *FIGURES)
    keep(db)
    assert build(db)
    keep(db, 0)
    assert build(db)
    assert rollup_states(db)[TODAY - 30] == KEPT
    assert answers(db, *FIGURES) == before


@pytest.mark.parametrize("kind", ["pageview", "event", "vitals", "ab_assign"])
def test_an_import_into_a_kept_day_is_refused(db: Path, kind: str) -> None:
    """Its figures would differ from its events, and could not be counted again from raw events."""
    keep(db)
    assert build(db)
    tables = (*RAW_TABLES, *FIGURES_OF_DAYS, "rollup_state")
    before = rows(db, *tables)
    what = {"vitals": {"lcp": 2}, "experiment": "e", "variant": "v", "event_name": "buy", "pathname": "/"}
    line = what | {"type": kind, "timestamp": FROM_MS - 1}
    assert import_lines(db, 1, [line]) == (0, 0, 1)
    assert rows(db, *tables) == before
    assert import_lines(db, 1, [line | {"timestamp": FROM_MS}]) == (1, 0, 0)


# --- the command


Here = Callable[..., Output]


@pytest.fixture(scope="module")
def aged_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a database with events of 37 to 40 and of 2 and 3 days ago by the system clock, so that a midnight during
    the tests changes nothing."""
    today = time.time_ns() // 1_000_000 // DAY_MS
    lines = past_events(today, [40, 39, 38, 37, 3, 2, 1], (today - 1) * DAY_MS)
    path = tmp_path_factory.mktemp("aged") / "analytics.db"
    return with_rows(make(path, lines, past_events(today, [40]), now_ms=today * DAY_MS))


@pytest.fixture
def aged(aged_template: Path, tmp_path: Path) -> Path:
    """Return a copy of that database."""
    return Path(shutil.copy(aged_template, tmp_path / "analytics.db"))


@pytest.fixture
def here(aged: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Here:
    """Return a function that runs the command `retention` with arguments in this process."""
    monkeypatch.delenv("ANALYTICS_KEEP_DAYS", raising=False)

    def run(*words: str) -> Output:
        try:
            return run_in_process(main, capsys, "retention", "--db", str(aged), *words)
        except SystemExit as end:  # raised by argparse
            return Output(int(end.code or 0), *capsys.readouterr())

    return run


def events_of(path: Path) -> int:
    of_rows = sum(len(rows(path, table)[table]) for table in ("event", "web_vitals", "experiment_event"))
    return (
        of_rows + sql(path, "select coalesce(sum(events), 0) from packed_day where website = 1 and raw_rows = 0")[0][0]
    )


def go(aged: Path) -> int:
    before = events_of(aged)
    assert build(aged, time.time_ns() // 1_000_000)
    return before - events_of(aged)


def test_a_dry_run_reports_and_changes_nothing(here: Here, aged: Path) -> None:
    tables = (*RAW_TABLES, *FIGURES_OF_DAYS, "rollup_state")
    before = rows(aged, *tables), sql(aged, "select * from website")
    days = [time.time_ns() // 1_000_000 // DAY_MS - 10]
    dry = here("1.example.com", "10")
    days.append(time.time_ns() // 1_000_000 // DAY_MS - 10)  # a different day if midnight has passed
    assert (dry.status, dry.out) == (0, "")
    assert "would be deleted" in dry.err
    assert "add --yes" in dry.err
    assert any(iso(day * DAY_MS)[:10] in dry.err for day in days)
    assert (rows(aged, *tables), sql(aged, "select * from website")) == before
    assert go(aged) == 0
    done = here("1.example.com", "10", "--yes")
    assert (done.status, done.out) == (0, "")
    assert "would be deleted" not in done.err
    gone = go(aged)
    assert gone > 100
    assert f"{gone:,} events" in dry.err
    assert f"{gone:,} events" in done.err


@pytest.mark.parametrize("days", ["forever", "default", "10"])
def test_every_dry_run_reports_that_nothing_was_changed(here: Here, aged: Path, days: str) -> None:
    """Without --yes the setting is not changed, and the output names the option."""
    keep(aged, 20)
    dry = here("1.example.com", days)
    assert dry.status == 0
    assert sql(aged, "select keep_days from website where number = 1") == [(20,)]
    assert "--yes" in dry.err


@pytest.mark.parametrize(("days", "kept"), [("forever", 0), ("default", None), ("10", 10), ("5", 5), ("365", 365)])
def test_yes_applies_the_change(here: Here, aged: Path, days: str, kept: int | None) -> None:
    keep(aged, 20)
    assert here("1.example.com", days, "--yes").status == 0
    assert sql(aged, "select number, keep_days from website order by 1") == [(1, kept), (2, None)]


@pytest.mark.parametrize(
    ("days", "words"), [("forever", "forever"), ("default", "forever"), ("12", "12 days")], ids=lambda text: text
)
def test_yes_prints_the_new_setting(here: Here, aged: Path, days: str, words: str) -> None:
    """The output has the new setting, not the old one."""
    keep(aged, 20)
    assert f"kept {words}" in here("1.example.com", days, "--yes").err


def test_the_list(here: Here, aged: Path) -> None:
    keep(aged, 90)
    ids = [id for (id,) in sql(aged, "select id from website order by number")]
    shown = f"{ids[0]}\t1.example.com\t90\n{ids[1]}\t2.example.com\t%s\n"
    assert here()[:2] == (0, shown % "forever")
    assert here("--keep-days", "30")[:2] == (0, shown % "30")
    keep(aged, 0, website=2)
    assert here("--keep-days", "30")[:2] == (0, shown % "forever")


def test_a_website_prints_its_setting(here: Here, aged: Path) -> None:
    assert "kept forever" in here("1.example.com").err
    keep(aged, 90)
    shown = here("1.example.com")
    assert (shown.status, shown.out) == (0, "")
    assert "kept 90 days" in shown.err


@cases("days", ["0", "4", "-5", "4.5", "abc", "", "5 days", "٧", "9999999", "Forever"])
def test_invalid_days_are_refused(here: Here, aged: Path, days: str) -> None:
    refused = here("--yes", "--", "1.example.com", days)
    assert refused.status in (1, 2)
    assert refused.out == ""
    assert "5" in refused.err
    assert "forever" in refused.err
    assert sql(aged, "select keep_days from website") == [(None,), (None,)]


@pytest.mark.parametrize("given", ["nosuch.example.com", "00000000-0000-4000-8000-000000000000"])
def test_an_unknown_website_is_reported(here: Here, aged: Path, given: str) -> None:
    refused = here(given, "10", "--yes")
    assert (refused.status, refused.out) == (1, "")
    assert "website list" in refused.err
    assert sql(aged, "select keep_days from website") == [(None,), (None,)]


@pytest.mark.parametrize(
    "words",
    [("--yes", "1.example.com", "10"), ("1.example.com", "--yes", "10"), ("1.example.com", "10", "--yes")],
    ids=" ".join,
)
def test_options_in_any_order(here: Here, aged: Path, words: Sequence[str]) -> None:
    assert here(*words)[:2] == (0, "")
    assert sql(aged, "select keep_days from website order by number") == [(10,), (None,)]


@pytest.mark.parametrize("how", ["id", "ID", "domain", "DOMAIN"])
def test_a_website_by_id_or_domain(here: Here, aged: Path, how: str) -> None:
    (name,) = sql(aged, f"select {how.lower()} from website where number = 2")[0]
    assert here(name.upper() if how.isupper() else name, "10", "--yes").status == 0
    assert sql(aged, "select keep_days from website order by number") == [(None,), (10,)]


def test_two_websites_of_one_domain_need_an_id(here: Here, aged: Path) -> None:
    connection = writing_connection(aged)
    with transaction(connection):
        other = create_account(connection, "other@example.com", "business", None, 0)
        id = add_website(connection, other, "1.example.com", "", (), 0)
    connection.close()
    refused = here("1.example.com", "10", "--yes")
    assert (refused.status, refused.out) == (1, "")
    assert "2 websites" in refused.err
    assert "id" in refused.err
    assert here(id, "10", "--yes").status == 0
    assert sql(aged, "select keep_days from website order by number") == [(None,), (None,), (10,)]


@pytest.mark.parametrize("words", [("1.example.com", "10", "11"), ("--nosuch",), ("--keep-days", "4")], ids=" ".join)
def test_wrong_usage(here: Here, words: Sequence[str]) -> None:
    assert here(*words)[:2] == (2, "")


def test_a_dry_run_does_not_lock_the_database(here: Here, aged: Path) -> None:
    """Counting 10 million events takes a second or more, and a server whose commit waits longer than
    SERVER_BUSY_S (2 s) responds 503."""
    seen: list[str] = []
    connect = sqlite3.connect

    def listening(*arguments: Any, **named: Any) -> sqlite3.Connection:
        connection = connect(*arguments, **named)
        connection.set_trace_callback(seen.append)
        return connection

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite3, "connect", listening)
        assert here("1.example.com", "10", "--yes").status == 0
    counting = [number for number, text in enumerate(seen) if "retention.plan" in text]
    holding = [number for number, text in enumerate(seen) if text.lower() == "begin immediate"]
    ended = [number for number, text in enumerate(seen) if text.lower() == "commit"]
    assert counting
    assert holding
    for number in counting:
        begun = [at for at in holding if at < number]
        over = [at for at in ended if at < number]
        assert len(begun) == len(over), "events are counted in no write transaction"


# --- the running server


@pytest.mark.slow
def test_the_server_applies_retention(serve: Serve, command: Command, aged: Path, tmp_path: Path) -> None:
    """Websites 1 and 3 follow --keep-days; website 2 keeps its events forever until a command sets 15 days."""
    connection = writing_connection(aged)
    with transaction(connection):
        owner = find_account(connection, None)
        add_website(connection, owner, "3.example.com", "", (), 0)
    connection.close()
    today = time.time_ns() // 1_000_000 // DAY_MS
    assert import_lines(aged, 3, past_events(today, [40]), today * DAY_MS)[2] == 0
    assert build(aged)
    before = {website: lasting(aged, website) for website in (1, 2, 3)}
    keep(aged, 0, website=2)
    server = serve("--keep-days", "10")
    key = command("key", "create").stdout.strip()
    until(lambda: sum(old_rows(aged, today - 12, website=1).values()) == 0)
    until(lambda: sum(old_rows(aged, today - 12, website=3).values()) == 0)
    # Its measurements are stored by column.
    assert {table for table, count in old_rows(aged, today - 12, website=2).items() if not count} == {
        *("web_vitals", "experiment_event")
    }
    changed = command("retention", "2.example.com", "15", "--yes")
    assert (changed.returncode, changed.stdout) == (0, "")
    until(lambda: sum(old_rows(aged, today - 17, website=2).values()) == 0)
    assert {website: lasting(aged, website) for website in (1, 2, 3)} == before
    (id,) = sql(aged, "select id from website where number = 2")[0]
    bearer = {"Authorization": f"Bearer {key}"}
    gone = server.request("GET", f"/api/v1/websites/{id}/events?from=2020-01-01", headers=bearer)
    assert (gone.status, gone.json["error"]["code"]) == (400, "beyond_retention")
    whole = f"/api/v1/websites/{id}/stats?from={iso((today - 40) * DAY_MS)[:10]}&to={iso((today - 40) * DAY_MS)[:10]}"
    assert server.request("GET", whole, headers=bearer).json["data"]["pageviews"] > 10
    assert server.terminate() == 0
    assert "level=error" not in server.stderr()
