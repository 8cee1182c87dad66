"""Undo of imports: all reports equal those of a database that never had the import (docs/importing.md, Undo)."""

import contextlib
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tally.maintenance.verify import verdicts
from tally.storage import import_records
from tally.storage.database import connect_reader, transaction
from tally.transfer import undo
from tests.support.aged_database import writing_connection
from tests.support.app import NOON_MS
from tests.support.imports import Imports
from tests.support.read_api import SyncApp, sync_app_at

MINUTE = 60_000
SPAN = "from=2026-10-01&to=2026-11-18"
REPORTS = (
    *("stats", "timeseries?interval=day", "top/pathname", "top/referrer", "top/utm_source", "events?limit=1000"),
    *("vitals", "vitals?by=pathname&metric=lcp", "experiments", "event-names", "entry-pages", "exit-pages"),
    *("event-data?event_name=m", "funnel?step=pathname:/a&step=pathname:/b", "stats?filter_os=iOS", "goals/report"),
)


def lines_of(rng: random.Random, name: str, count: int) -> list[dict[str, Any]]:
    """Return lines of a few visitors, whom other files have too, with few distinct times per day."""
    lines = []
    for number in range(count):
        kind = rng.choice(
            ("pageview", "pageview", "screen_view", "event", "app_event", "vitals", "ab_assign", "ab_convert")
        )
        day = rng.choice((0, 0, 3, 20, 21))
        line: dict[str, Any] = {
            "type": kind,
            "timestamp": NOON_MS - day * 86_400_000 - rng.randrange(0, 120, 7) * MINUTE - 3,
            "pathname": f"/{rng.choice('abc')}",
            "visitor": rng.choice(("ann", "bob", f"of {name}")),
            "os": rng.choice(("Linux", "iOS")),
        }
        if number % 3:
            line["id"] = f"{name} {number}"
        if kind == "pageview" and rng.random() < 0.5:
            line |= {"referrer": f"{name}{number}.example.org", "utm_source": rng.choice(("x", name))}
        if kind in ("event", "app_event"):
            line |= {"event_name": rng.choice("mn"), "event_data": {"n": "x" * rng.choice((1, 900))}}
        if kind == "vitals":
            line["vitals"] = {"lcp": rng.randrange(5_000), "cls": rng.random()}
        if kind[:2] == "ab":
            line |= {"experiment": rng.choice("ef"), "variant": rng.choice("vw")}
        if kind == "ab_convert":
            line |= {"goal": rng.choice(("g", "h")), "value": 1.5}
        lines.append(line)
    return lines


class Twin:
    """A server with a website and a goal, to which events are sent and files are imported."""

    def __init__(self, sync_app: SyncApp, directory: Path) -> None:
        self.imports = Imports(sync_app, sync_app.site(), directory)
        live = [
            {"type": "pageview", "url": "https://example.com/a", "timestamp": NOON_MS - n * 11 * MINUTE}
            | ({"referrer": "https://live.example.org/"} if n % 3 else {})
            for n in range(12)
        ]
        self.imports.site.send(*live)

    def take(self, lines: Sequence[Any], *options: str) -> None:
        self.imports.take("tally", "".join(json.dumps(line) + "\n" for line in lines), *options)

    def undo(self, number: int) -> None:
        self.imports.command("--undo", str(number))

    def work(self) -> None:
        """Do the background work of the server."""
        work = self.imports.sync_app.app.background_work
        self.imports.sync_app.run(work.builder.work())

    def reports(self) -> dict[str, Any]:
        found = {}
        for report in REPORTS:
            found[report] = self.imports.site.data(f"{report}{'&' if '?' in report else '?'}{SPAN}")
        visits: dict[str, int] = {}
        rows = [row | {"id": None} for row in found["events?limit=1000"]]
        rows.sort(key=lambda row: json.dumps(row | {"visit": None}, sort_keys=True))
        found["events?limit=1000"] = [
            row | {"visit": row["visit"] and visits.setdefault(row["visit"], len(visits))} for row in rows
        ]
        return found

    def check(self) -> None:
        with contextlib.closing(connect_reader(self.imports.db)) as reader:
            assert [one for one in verdicts(reader, 1) if one.fault] == []
            assert reader.execute("pragma integrity_check").fetchall() == [("ok",)]


@pytest.fixture
def twins(tmp_path: Path) -> Any:
    with contextlib.ExitStack() as open_:
        (tmp_path / "1").mkdir()
        (tmp_path / "2").mkdir()
        yield tuple(
            Twin(open_.enter_context(sync_app_at(tmp_path / name / "analytics.db")), tmp_path / name) for name in "12"
        )


@pytest.mark.slow
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)], ids=str)
def test_an_undone_import_leaves_nothing(twins: tuple[Twin, Twin], order: tuple[int, ...]) -> None:
    """Three files with visitors in common; the first of them is undone, before and after days were built."""
    one, other = twins
    rng = random.Random(str(order))
    files = [lines_of(rng, name, 60) for name in ("first", "second", "third")]
    for place, number in enumerate(order):
        one.take(files[number])
        if place == 1:
            one.work()
        if number:
            other.take(files[number])
    one.work()
    other.work()
    expected = other.reports()
    assert one.reports() != expected
    undone = order.index(0) + 1
    one.undo(undone)
    assert one.reports() == expected
    one.work()
    assert one.reports() == expected
    one.check()
    for table in ("import_id", "import_range"):
        assert one.imports.sql(f"select count(*) from {table} where import = {undone}") == [(0,)]
    # The same file again: the figures of a database that has all three.
    one.take(files[0])
    other.take(files[0])
    assert one.imports.sql("select state, events from import where number = 4") == [("complete", 60)]
    one.work()
    other.work()
    assert one.reports() == other.reports()
    for number in (1, 2, 3, 4):
        if number != undone:
            one.undo(number)
    one.work()
    for table in ("import_id", "import_range", "import_visit", "experiment_event", "web_vitals", "event_data_part"):
        assert one.imports.sql(f"select count(*) from {table}") == [(0,)], table
    assert one.imports.sql("select count(*) from event") == [(12,)]
    assert one.imports.sql("select sum(pageviews) from visit") == [(12,)]
    one.check()


def test_all_days_begin_with_the_first_event_that_is_left(imports: Imports) -> None:
    """docs/reference/read-api.md, Ranges: `period=all`; a day that has lost its only events has none."""
    line = {"id": 1, "type": "pageview", "timestamp": NOON_MS - 20 * 86_400_000, "pathname": "/", "visitor": "a"}
    begins = []
    work = imports.sync_app.app.background_work.builder.work
    assert imports.site.json("stats?period=all")["meta"]["from"][:10] == "2026-11-18"
    imports.site.send({"type": "pageview", "url": "https://example.com/", "timestamp": NOON_MS - 86_400_000})
    for words in ((), ("--undo", "1")):
        if words:
            imports.command(*words)
        else:
            imports.take("tally", json.dumps(line))
        imports.sync_app.run(work())
        begins.append(imports.site.json("stats?period=all")["meta"]["from"][:10])
    assert begins == ["2026-10-29", "2026-11-17"]


def test_days_of_an_import_alone_need_no_rows(imports: Imports) -> None:
    """On a full disk there is no space to put the rows of stored days back: where all are of the import, none is."""
    day = NOON_MS // 86_400_000 - 20
    own = [
        {"id": n, "type": "pageview", "timestamp": (day + n % 3) * 86_400_000 + n, "pathname": "/"} for n in range(90)
    ]
    mixed = [{"type": "pageview", "timestamp": (day + 3) * 86_400_000, "pathname": "/other"}]
    work = imports.sync_app.app.background_work.builder.work
    imports.take("tally", json.dumps(mixed[0]))
    imports.take(
        "tally", "".join(json.dumps(one) + "\n" for one in [*own, own[0] | {"timestamp": (day + 3) * 86_400_000}])
    )
    imports.sync_app.run(work())
    assert imports.sql("select count(*) from event") == [(0,)]
    assert imports.sql("select count(*) from packed_day") == [(4,)]
    with contextlib.closing(writing_connection(imports.db)) as connection:
        with transaction(connection):
            undo.begin(connection, 1, 2, NOON_MS)
        while connection.execute("select progress from import where number = 2").fetchone()[0].startswith("[0,"):
            with transaction(connection):
                assert undo.step(connection, 1, 2)
    assert imports.sql("select count(*) from event") == [(2,)], "those of the day that has another event"
    imports.command("--undo", "2")
    imports.sync_app.run(work())
    assert imports.site.data("stats?from=2026-10-01&to=2026-11-18")["pageviews"] == 1
    with contextlib.closing(connect_reader(imports.db)) as reader:
        assert [one for one in verdicts(reader, 1) if one.fault] == []


def test_duplicates_stay(imports: Imports) -> None:
    """Rows from before the import are kept, also if its file has them; those of the import alone are deleted."""
    lines = [{"id": n, "type": "pageview", "timestamp": NOON_MS, "pathname": f"/{n}", "visitor": "a"} for n in range(4)]

    def take(some: Sequence[Any]) -> None:
        imports.take("tally", "".join(json.dumps(line) + "\n" for line in some))

    take(lines[:2])
    take(lines)
    assert imports.command("--list").split("\n")[0].split("\t")[3:6] == ["2", "2", "0"]
    imports.command("--undo", "2")
    assert imports.sql("select text from event join label on label.id = pathname order by 1") == [("/0",), ("/1",)]
    take(lines)
    assert imports.command("--list").split("\n")[0].split("\t")[3:6] == ["2", "2", "0"]


def test_an_undo_continues_after_every_step(imports: Imports, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step is one transaction, so an undo that was killed between two is continued by the server."""
    monkeypatch.setattr(undo, "_ROWS", 7)
    monkeypatch.setattr(undo, "_FEW_ROWS", 3)
    rng = random.Random("steps")
    for name in ("first", "second"):
        imports.take("tally", "".join(json.dumps(line) + "\n" for line in lines_of(rng, name, 60)))
    before = imports.sql("select count(*) from event")
    with contextlib.closing(writing_connection(imports.db)) as connection:
        with transaction(connection):
            undo.begin(connection, 1, 1, NOON_MS)
        for _ in range(4):
            with transaction(connection):
                assert undo.step(connection, 1, 1)
            assert import_records.undoing(connection) == [(1, 1)]
    assert imports.sql("select count(*) from event") < before
    # The command continues it, and then there is nothing to undo.
    imports.command("--undo", "1")
    assert "Import 1 is undone" in imports.command("--undo", "1", status=1)
    assert "There is no import 9" in imports.command("--undo", "9", status=1)
    assert imports.sql("select count(*) from import_range where import = 1") == [(0,)]
    assert imports.sql("select state from import") == [(import_records.UNDONE,), (import_records.COMPLETE,)]
