"""Web vitals and experiment events by column (tally/columns/measurement_days.py) against a twin that has rows.

Two copies of a database do the same work; the builder of one packs days, that of the other does not. Whatever is read
from one has to be the same in the other.
"""

import io
import random
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial, wraps
from pathlib import Path
from typing import Any, NamedTuple, ParamSpec

import numpy as np
import pytest

from tally.columns import deleted_rows, measurement_days, measurements, read, statements
from tally.columns.column_days import remove
from tally.columns.statements import EXPERIMENTS, WEB_VITALS
from tally.engine.archive import Verdict
from tally.engine.values import Place, Scope
from tally.events.dimensions import FIELDS, GOAL, VARIANT
from tally.events.filters import Filter
from tally.events.validation import AB_ASSIGN, AB_CONVERT, METRICS
from tally.maintenance import deletion, repair, retention, verify
from tally.reports import event_list, experiments, page_leaves, web_vitals
from tally.reports.cache import ResultCache
from tally.rollups import experiments as experiment_rollups
from tally.storage.bulk_insert import insert
from tally.storage.database import connect_reader, snapshot, transaction
from tally.timestamps import local_iso
from tally.transfer import undo
from tally.transfer.exporter import Part, count_events, newest_ms, part_lines
from tally.transfer.files import open_source
from tally.transfer.importer import import_events
from tally.transfer.query import open_query
from tests.support.aged_database import DAY_MS, TODAY, build, import_lines, make, sql, writing_connection
from tests.support.app import NOON_MS
from tests.support.exports import export_events

P = ParamSpec("P")

FIRST, LAST = 1 << 62, 1 << 40
DAYS = 9
NOTHING = 1 << 30
PATHS, DEVICES = ("/", "/a", "/b", ""), ("mobile", "desktop", "")
COUNTRIES = ("DE", "FR", "")


def lines(rng: random.Random, count: int, days: int = DAYS) -> list[dict[str, Any]]:
    """Return lines of an import: web vitals, experiments, heatmap events, and some traffic, in any order."""
    found: list[dict[str, Any]] = []
    for _ in range(count):
        kind = rng.choice(("vitals", "vitals", "leave", "ab_assign", "ab_assign", "ab_convert", "heatmap", "pageview"))
        line = {
            "type": kind,
            # Several events of the same millisecond.
            "timestamp": (TODAY - rng.randrange(5, 5 + days)) * DAY_MS + rng.choice((0, rng.randrange(DAY_MS), 5)),
            "pathname": rng.choice(PATHS[:3] if kind in ("pageview", "leave") else PATHS),
            "device": rng.choice(DEVICES),
            "country": rng.choice(COUNTRIES),
            "referrer": rng.choice(("", "", f"{rng.randrange(20)}.example")),
        }
        if kind == "vitals":
            values = {"lcp": rng.choice((0, 2_500, 4_000.001, 3_600_000, rng.uniform(1, 9_000)))}
            values |= {name: rng.uniform(0, 9_000) for name in ("inp", "fcp", "ttfb") if rng.random() < 0.6}
            values |= {"cls": rng.choice((0, 0.1, rng.random()))} if rng.random() < 0.5 else {}
            line["vitals"] = values
        elif kind == "leave":
            line["vitals"] = {"time_on_page": rng.randrange(1_801), "scroll_depth": rng.choice((0, 70, 75, 100))}
        elif kind != "heatmap":
            line["visitor"] = f"{rng.randrange(6)}"
        if kind.startswith("ab_"):
            line |= {"experiment": rng.choice(("e", "f", "")), "variant": rng.choice(("v", "w"))}
        if kind == "ab_convert":
            line |= {"goal": rng.choice(("g", "h", "")), "value": rng.choice((None, 0, -2.5, 1e-9, 1e15, 0.1 + 0.2))}
        found.append(line)
    return found


class Twins(NamedTuple):
    """Two copies of a database: `packed` has days by column, `rows` has rows."""

    packed: Path
    rows: Path

    def build(self, monkeypatch: pytest.MonkeyPatch, now_ms: int = NOON_MS, keep_days: int = 0) -> None:
        for path, least in ((self.packed, 1), (self.rows, NOTHING)):
            monkeypatch.setattr(measurement_days, "MIN_EVENTS", least)
            assert build(path, now_ms, keep_days)

    def each(self, do: Callable[[Path], Any]) -> Any:
        """Do something with both, and return the result, which has to be the same."""
        of_packed, of_rows = do(self.packed), do(self.rows)
        assert of_packed == of_rows
        return of_packed

    def compare(self, scopes: Sequence[Scope]) -> None:
        """Compare whatever is read, which is right in both."""
        for figures in (exported, listed, reported):
            self.each(partial(figures, scopes=scopes))
        assert self.each(wrong) == []


@pytest.fixture
def twins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Twins:
    twins = Twins(tmp_path / "packed" / "analytics.db", tmp_path / "rows" / "analytics.db")
    for path in twins:
        path.parent.mkdir()
    monkeypatch.setattr(measurement_days, "MIN_EVENTS", NOTHING)
    make(twins.rows, lines(random.Random(1), 500))
    with closing(writing_connection(twins.rows)) as connection:
        connection.execute("vacuum into ?", (str(twins.packed),))
    twins.build(monkeypatch)
    return twins


def packed_days(path: Path, source: int) -> dict[int, int]:
    return dict(sql(path, "select day, events from packed_day where website = 1 and source = ?", source))


# --- what is read


FILTERS: tuple[tuple[Filter, ...], ...] = (
    (),
    (Filter("device", "=", ("mobile", "")),),
    (Filter("pathname", "!=", ("/a",)),),
    (Filter("referrer", "*=", ("1",)),),
    (Filter("country", "=", ("DE",)), Filter("device", "!=", ("mobile",))),
    (Filter("utm_source", "=", ("",)),),
    (Filter("utm_source", "=", ("unknown",)),),
    (Filter("event_name", "=", ("",)),),
    (Filter("entry_page", "=", ("/a",)),),
    (Filter("type", "=", ("vitals", "ab_convert")),),
    (Filter("type", "!=", ("vitals",)),),
    (Filter("type", "=", ("leave",)),),
    (Filter("prop.plan", "!=", ("pro",)),),
    (Filter("prop.plan", "=", ("pro",)),),
)
BEGIN_MS, END_MS = (TODAY - 6 - DAYS) * DAY_MS, TODAY * DAY_MS
SPANS = (
    (BEGIN_MS, END_MS),
    (BEGIN_MS + 3 * DAY_MS + 1, END_MS - 7 * DAY_MS - 1),
    (END_MS - 8 * DAY_MS, END_MS - 7 * DAY_MS),
    (END_MS - 8 * DAY_MS + 5, END_MS - 8 * DAY_MS + 6),
    (END_MS - 9 * DAY_MS + 7, END_MS - 8 * DAY_MS + 80_000_000),
)


SCOPES = [Scope(1, *span, filters) for span in SPANS for filters in FILTERS]


def listing(read: Callable[P, Iterator[Any]]) -> Callable[P, list[Any]]:
    """Return a function that returns what another one yields."""

    @wraps(read)
    def whole(*what: P.args, **named: P.kwargs) -> list[Any]:
        return [*read(*what, **named)]

    return whole


@listing
def exported(path: Path, scopes: Sequence[Scope]) -> Iterator[Any]:
    """Yield what commands read."""
    with closing(connect_reader(path)) as connection:
        whole = io.BytesIO()
        yield export_events(connection, 1, whole)
        yield whole.getvalue()
        yield count_events(connection, 1)
        yield newest_ms(connection, 1)
        yield retention.plan(connection, 1, 9, NOON_MS)
        middle = connection.execute("select max(first_id) from import_range").fetchone()[0]
        with snapshot(connection):
            for part in (Part(0, middle, [SPANS[1]]), Part(middle, LAST, [SPANS[0], SPANS[1]])):
                yield b"".join(part_lines(connection, 1, part))
    for view in ("v_web_vitals", "v_experiment_event"):
        for more in ("", f" where website = '1.example.com' and ts_ms < {SPANS[1][1]} and device = 'mobile'"):
            with open_query(path, f"select * from {view}{more} order by ts_ms, id", 60) as result:
                yield result.columns
                yield from result


@listing
def listed(path: Path, scopes: Sequence[Scope]) -> Iterator[Any]:
    """Yield the pages of the list of events."""
    with closing(connect_reader(path)) as connection:
        for scope in scopes:
            for limit in (1, 7, 1_000) if scope[1:3] == SPANS[1] else (1_000,):
                place, pages = Place(FIRST, FIRST, LAST), 0
                while True:
                    with snapshot(connection):
                        rows = event_list.page(connection, scope, place, limit, ResultCache(), only_traffic=False)
                    yield rows
                    pages += 1
                    if len(rows) < limit or pages == 12:
                        break
                    place = Place(rows[-1][2], rows[-1][0], LAST)


@listing
def reported(path: Path, scopes: Sequence[Scope]) -> Iterator[Any]:
    """Yield the reports."""
    cache = ResultCache()
    with closing(connect_reader(path)) as connection:
        for scope in scopes:
            if any(of.field.startswith(("event_", "entry_", "type", "prop")) for of in scope.filters):
                continue
            with snapshot(connection):
                yield web_vitals.overall(connection, scope, cache)
                for field in ("pathname", "device"):
                    left = page_leaves.by_label(connection, scope, field, cache)
                    yield left and left.counts.tolist()
                for metric in METRICS:
                    yield web_vitals.by_day(connection, scope, metric, cache)
                    for field in ("pathname", "device"):
                        yield web_vitals.by_value(connection, scope, field, metric, 3, cache)
                yield experiments.rows(connection, scope, cache)
                yield experiments.experiments(connection, scope, cache)


@listing
def wrong(path: Path) -> Iterator[Verdict]:
    """Yield what verification finds."""
    with closing(connect_reader(path)) as connection:
        yield from (verdict for verdict in verify.verdicts(connection, 1) if verdict.fault)


@pytest.mark.slow
@pytest.mark.in_turn
@pytest.mark.parametrize("most", [read.MAX_EVENTS, pytest.param(1, marks=pytest.mark.slow)])
def test_all_that_is_read(twins: Twins, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Is the same of days by column as of rows. most: events of a batch."""
    monkeypatch.setattr(read, "MAX_EVENTS", most)
    stored = {source: packed_days(twins.packed, source) for source in (WEB_VITALS, EXPERIMENTS)}
    assert [len(days) for days in stored.values()] == [DAYS, DAYS]
    assert sql(twins.packed, "select count(*) from web_vitals") == [(0,)]
    assert sql(twins.packed, "select count(*) from experiment_event") == [(0,)]
    assert sql(twins.rows, "select count(*) from packed_day where source > 0") == [(0,)]
    twins.compare(SCOPES)
    assert sum(map(len, listed(twins.packed, SCOPES))) > 5_000


@pytest.mark.slow
@pytest.mark.in_turn
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 8))])
def test_days_that_change(twins: Twins, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Late events, whose rows lie beside the columns until they are packed too; imports into days, and those undone."""
    rng = random.Random(seed)
    monkeypatch.setattr(read, "MAX_EVENTS", rng.choice((read.MAX_EVENTS, 100)))
    twins.each(partial(collected, seed=seed))
    beside = {day for (day,) in sql(twins.packed, "select ts / 86400000 from web_vitals where website = 1")}
    assert beside <= packed_days(twins.packed, WEB_VITALS).keys()
    for what in ("", *rng.choices(("import", "late", "build", "undo", "again", "repair"), k=6)):
        if what == "late":
            twins.each(partial(collected, seed=rng.random()))
        elif what == "import":
            more = lines(rng, rng.choice((3, 60)))
            assert twins.each(lambda path: import_lines(path, 1, more)) == (len(more), 0, 0)  # noqa: B023
        elif what == "build":
            twins.build(monkeypatch)
        elif what == "undo":
            [(number,)] = sql(twins.rows, "select coalesce(max(number), 1) from import where state = 'complete'")
            if number > 1 or rng.random() < 0.2:
                twins.each(partial(undone, number=number))
        elif what == "again":
            assert twins.each(import_own_export)[0] == 0
        elif what == "repair":
            twins.each(repaired)
        twins.compare(rng.sample(SCOPES, 10))
    twins.build(monkeypatch)
    twins.compare(rng.sample(SCOPES, 10))
    assert sql(twins.packed, "select count(*) from web_vitals") == [(0,)]


def collected(path: Path, seed: float) -> None:
    """Store late events of stored days, as a commit does after the clock was set back."""
    rng = random.Random(seed)
    with closing(writing_connection(path)) as connection, transaction(connection):
        used: dict[int, list[int]] = {}
        for field, value in connection.execute("select field, value from field_value where website = 1"):
            used.setdefault(field, [0]).append(value)
        [(id_,)] = connection.execute("update meta set value = value + 20 where name = 'next_id' returning value - 20")
        times = [(TODAY - rng.randrange(5, 5 + DAYS)) * DAY_MS + rng.choice((0, 5, 70_000_000)) for _ in range(20)]
        places = [(1, ts, id_ + n) for n, ts in enumerate(times)]
        fields = [[rng.choice(used.get(field, [0])) for field, _ in enumerate(FIELDS)] for _ in places]
        vitals = [
            (
                *place,
                *own,
                *rng.choice(([rng.randrange(9_000), None, 5, None, 0, None, None], [*[None] * 5, 9_000, 75_000])),
            )
            for place, own in zip(places[:8], fields[:8], strict=True)
        ]
        insert(connection, "test", "web_vitals", vitals)
        (experiment,) = connection.execute("select id from label where text = 'e'").fetchone()
        visitors = [visitor for (visitor,) in connection.execute("select distinct visitor from experiment_assignment")]
        for place, own in zip(places[8:], fields[8:], strict=True):
            variant, visitor = rng.choice(used[VARIANT][1:]), rng.choice(visitors)
            key = 1, place[1] // DAY_MS, experiment, visitor
            type_ = rng.choice((AB_ASSIGN, AB_CONVERT))
            row = (*place, type_, visitor, *own, experiment, variant, used[GOAL][1], 0.25)
            insert(connection, "test", "experiment_event", [row])
            if type_ == AB_ASSIGN:
                assigned = {key: experiment_rollups.Assignment(place[1], place[2], variant)}
                experiment_rollups.assign(connection, assigned)
            else:
                experiment_rollups.convert(connection, [(key, used[GOAL][1])])


def undone(path: Path, number: int) -> None:
    with closing(writing_connection(path)) as connection:
        with transaction(connection):
            undo.begin(connection, 1, number, NOON_MS)
        is_left = True
        while is_left:
            with transaction(connection):
                is_left = undo.step(connection, 1, number)


def import_own_export(path: Path) -> tuple[int, int, int]:
    """Import what a website has into it again; return how many lines were accepted, were duplicates, and were bad."""
    with closing(writing_connection(path)) as connection:
        content = io.BytesIO()
        export_events(connection, 1, content)
        source = path.with_name("export.ndjson")
        source.write_bytes(content.getvalue())
        with open_source(str(source)) as opened:
            summary = import_events(connection, 1, opened, now_ms=NOON_MS)
        return summary.accepted, summary.duplicates, summary.bad


def repaired(path: Path) -> list[Verdict]:
    """Change counts of days, and repair them; return what was found."""
    with closing(writing_connection(path)) as connection:
        connection.execute("update experiment_total set visitors = visitors + 1 where website = 1")
        found = [verdict for verdict in verify.verdicts(connection, 1) if verdict.fault]
        for verdict in found:
            with transaction(connection):
                repair.invalidate(connection, 1, verdict)
        return found


# --- when days are packed


def pack(connection: sqlite3.Connection, day: int) -> measurement_days.MeasurementColumns:
    with snapshot(connection):
        packed = measurements.pack(connection, 1, WEB_VITALS, day)
    assert packed is not None
    return packed


def stored(connection: sqlite3.Connection, day: int, packed: measurement_days.MeasurementColumns) -> bool:
    with transaction(connection):
        return measurement_days.store(connection, 1, WEB_VITALS, day, packed)


def test_a_day_that_has_changed_is_not_replaced(twins: Twins) -> None:
    """A row that arrives or is deleted, columns that are replaced, and an import that is being undone."""
    day = TODAY - 6
    with closing(writing_connection(twins.rows)) as connection:
        first = pack(connection, day)
        row = connection.execute("select * from web_vitals where ts / 86400000 = ? limit 1", (day,)).fetchone()
        connection.execute("delete from web_vitals where id = ?", (row[2],))
        assert not stored(connection, day, first)
        insert(connection, "test", "web_vitals", [row])
        connection.execute("update import set state = 'undoing'")
        assert not stored(connection, day, first)
        connection.execute("update import set state = 'complete'")
        assert stored(connection, day, first)
        assert not stored(connection, day, first)
        later = (1, row[1], row[2] + 100_000, *row[3:])
        insert(connection, "test", "web_vitals", [later])
        second = pack(connection, day)
        assert (second.events, second.ids) == (first.events + 1, f"[{later[2]}]")
        deleted_rows.reopen(connection, 1, [day])
        assert not stored(connection, day, second)
        assert stored(connection, day, pack(connection, day))
        assert sql(twins.rows, "select count(*) from web_vitals where ts / 86400000 = ?", day) == [(0,)]
        assert packed_days(twins.rows, WEB_VITALS) == {day: first.events + 1}
        # Columns that have expired do not come back with a late row.
        insert(connection, "test", "web_vitals", [later])
        third = pack(connection, day)
        with transaction(connection):
            remove(connection, 1, WEB_VITALS, day)
        assert not stored(connection, day, third)
        connection.execute("delete from web_vitals where ts / 86400000 = ?", (day,))
        with snapshot(connection):
            assert measurements.pack(connection, 1, WEB_VITALS, day) is None


def test_which_days_are_packed(twins: Twins, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest day before the end that has neither too few rows nor too many."""
    events = dict(sql(twins.rows, "select ts / 86400000, count(*) from web_vitals group by 1"))
    _, least, *_, most, _ = sorted(set(events.values()))
    assert min(events.values()) < least < most < max(events.values())
    monkeypatch.setattr(measurement_days, "MIN_EVENTS", least)
    monkeypatch.setattr(measurement_days, "MAX_EVENTS", most)
    with closing(connect_reader(twins.rows)) as connection:
        found, end = [], TODAY
        while (day := measurement_days.next_day(connection, 1, WEB_VITALS, end)) is not None:
            found.append(day)
            end = day
    assert found == sorted((day for day, count in events.items() if least <= count <= most), reverse=True)
    assert sql(twins.packed, "select max(day) from packed_day where source = 1") == [(TODAY - 5,)]
    # However few they are, rows beside columns are packed.
    collected(twins.packed, 0)
    monkeypatch.setattr(measurement_days, "MIN_EVENTS", NOTHING)
    assert build(twins.packed)
    assert sql(twins.packed, "select count(*) from web_vitals") == [(0,)]


def test_a_day_of_sums_may_have_measurements(twins: Twins, monkeypatch: pytest.MonkeyPatch) -> None:
    """Imported sums count on a day without traffic, whatever is packed; traffic does not put measurements back."""
    day = TODAY - 30
    measured = [{"type": "vitals", "timestamp": day * DAY_MS + n, "vitals": {"lcp": n}} for n in range(9)]
    total = {"type": "imported_sum", "day": local_iso(day * DAY_MS, 0)[:10], "field": "total", "visitors": 5}
    view = {"type": "pageview", "timestamp": day * DAY_MS, "visitor": "1", "pathname": "/"}
    for line in (*measured, None, total, None, view, None):
        if line is None:
            twins.build(monkeypatch)
            twins.each(lambda path: sql(path, "select * from total_15m where website = 1 order by quarter"))
        else:
            assert twins.each(partial(import_lines, website=1, lines=[line])) == (int(line is not total), 0, 0)
    assert sql(twins.packed, "select count(*) from web_vitals") == [(0,)]
    assert packed_days(twins.packed, WEB_VITALS)[day] == len(measured)
    assert twins.each(lambda path: import_lines(path, 1, [view])) == (1, 0, 0)
    assert sql(twins.packed, "select count(*) from web_vitals") == [(0,)]


def test_columns_that_do_not_give_the_rows_are_not_stored(twins: Twins, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as those that a fault of the encoding has changed."""
    encoded = measurements.encoded
    monkeypatch.setattr(
        measurements, "encoded", lambda column, *how: encoded(np.where(column == 2_500_000, 0, column), *how)
    )
    with closing(connect_reader(twins.rows)) as connection, snapshot(connection):
        days = [day for day in range(TODAY - 13, TODAY - 4) if measurements.pack(connection, 1, WEB_VITALS, day)]
        has = "select ts / 86400000 from web_vitals where lcp = 2500000"
        assert len(days) == DAYS - len({day for (day,) in connection.execute(has)}) < DAYS


def test_damaged_columns(twins: Twins, monkeypatch: pytest.MonkeyPatch) -> None:
    """Verification names the day; reports of rows and a new packing refuse it, and the builder goes on."""
    day, field = TODAY - 6, statements.number_of(WEB_VITALS, "lcp")
    sql(
        twins.packed,
        "update day_column set content = cast(content || x'00' as blob) where field = ? and day = ?",
        field,
        day,
    )
    assert wrong(twins.packed) == [Verdict(0, day, verify.LOST_MEASUREMENTS)]
    collected(twins.packed, 1)
    twins.build(monkeypatch)
    beside = sql(twins.packed, "select distinct ts / 86400000 from web_vitals")
    assert beside == [(day,)]


def test_labels_in_columns_alone_are_in_use(twins: Twins, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as the page of an imported heatmap event, which table field_value does not have."""
    only = {"type": "heatmap", "timestamp": (TODAY - 7) * DAY_MS, "pathname": "/only-here", "browser": "Only"}
    twins.each(partial(import_lines, website=1, lines=[only]))
    twins.build(monkeypatch)

    def unused(path: Path) -> list[str]:
        with closing(connect_reader(path)) as connection:
            scan = deletion.LabelScan(connection, lambda: False)
            while scan.step(connection):
                pass
            texts = dict(connection.execute("select id, text from label"))
            return [texts[label] for label in scan.unused(connection)]

    assert not {"/only-here", "Only", "1.example"}.intersection(twins.each(unused))
    assert sql(twins.packed, "select count(*) from experiment_event") == [(0,)]
    # Of a column that cannot be read all labels are in use.
    field = statements.number_of(EXPERIMENTS, "pathname")
    sql(twins.packed, "update day_column set content = x'00' where field = ?", field)
    sql(twins.packed, "insert into label (text) values ('unused')")
    assert unused(twins.packed) == []
