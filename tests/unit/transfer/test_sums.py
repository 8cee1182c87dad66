"""Imported sums: exports of other systems by day, in figures of whole days, never together with events of a day."""

import json
import zipfile
from collections import Counter
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

from analytics_server import main
from tally.engine.archive import FIELD_NUMBERS, Verdict
from tally.maintenance import verify
from tally.rollups.rollup_state import IMPORTED, STALE
from tally.rollups.traffic import traffic_of
from tally.storage.database import connect_reader, open_database
from tally.transfer.chunks import Sizes
from tally.transfer.files import open_source
from tally.transfer.importer import import_events
from tests.support import sums_files
from tests.support.app import NOON_MS
from tests.support.cases import cases
from tests.support.imports import Imports
from tests.support.read_api import NOON, view
from tests.support.sums_files import FIRST, days, of_day, plausible_archive, share

ALL = days()
LAST = ALL[-1]
RANGE = "from=2024-03-26&to=2024-04-04"


def work(imports: Imports) -> None:
    """Do the background work of the server."""
    imports.sync_app.run(imports.sync_app.app.background_work.builder.work())


def take(imports: Imports, format: str, content: str | bytes, *options: str) -> str:
    printed = imports.take(format, content, *options)
    work(imports)
    return printed


def wrong(imports: Imports) -> list[Verdict]:
    """Return what verification finds wrong."""
    reader = connect_reader(imports.db)
    try:
        number = reader.execute("select number from website where id = ?", (imports.site.id,)).fetchone()[0]
        return [one for one in verify.verdicts(reader, number) if one.fault]
    finally:
        reader.close()


def total(some: list[date], name: str) -> int:
    return sum(of_day(day)[name] for day in some)


def figures(some: list[date]) -> dict[str, Any]:
    """Return the key figures of days of sums, computed here."""
    visits = total(some, "visits")
    return {
        "visitors": total(some, "visitors"),
        "pageviews": total(some, "pageviews"),
        "events": 3 * len(some),
        "visits": visits,
        "bounce_rate": round(total(some, "bounces") / visits * 100, 1) if visits else None,
        "views_per_visit": round(total(some, "pageviews") / visits, 2) if visits else None,
        "visit_duration": round(total(some, "visit_duration") / visits) if visits else None,
    }


def line(at: str, who: str = "a", path: str = "/own") -> str:
    return (
        json.dumps({"id": f"{at}{who}", "type": "pageview", "timestamp": at, "visitor": who, "pathname": path}) + "\n"
    )


def test_reports_of_whole_days_are_those_of_the_file(imports: Imports) -> None:
    printed = take(imports, "plausible", plausible_archive(ALL))
    assert int(printed) == 40 * len(ALL)
    assert "skipped: 10 engagement events" in imports.errors
    site = imports.site
    for zone in ("UTC", "Europe/Berlin", "America/New_York", "Pacific/Honolulu", "Pacific/Auckland", "Asia/Kolkata"):
        for first, last in (
            (FIRST, LAST),
            (date(2024, 3, 27), date(2024, 4, 2)),
            (date(2024, 3, 31), date(2024, 3, 31)),
        ):
            some = [day for day in ALL if first <= day <= last]
            span = f"from={first}&to={last}&tz={zone}"
            answer = site.json(f"stats?{span}")
            assert answer["data"] == figures(some), span
            assert answer["meta"]["imported"] == {
                "days": len(some),
                "counted_days": len(some),
                "ranges": [{"from": str(first), "to": str(last)}],
                "fields": {"total": len(some)},
                "missing": [],
            }
            rows = site.data(f"timeseries?{span}&interval=day")
            assert [(row["time"][:10], row["visitors"], row["visits"], row["pageviews"]) for row in rows] == [
                (str(day), *(of_day(day)[name] for name in ("visitors", "visits", "pageviews"))) for day in some
            ]
            for interval in ("week", "month"):
                by_bucket = Counter[str]()
                for day in some:
                    start = day - timedelta(day.weekday()) if interval == "week" else day.replace(day=1)
                    by_bucket[str(start)] += of_day(day)["pageviews"]
                rows = site.data(f"timeseries?{span}&interval={interval}")
                assert {row["time"][:10]: row["pageviews"] for row in rows} == by_bucket
            half = {name: sum(share(of_day(day), 1)[name] for day in some) for name in of_day(FIRST)}
            rest = {name: sum(share(of_day(day), 2)[name] for day in some) for name in of_day(FIRST)}
            for field, expected in {
                "pathname": {"/pricing": rest["visitors"], "/": half["visitors"]},
                "referrer": {"news.ycombinator.com": half["visitors"]},
                "utm_source": {"letter": rest["visitors"]},
                "channel": {"Email": rest["visitors"], "Organic social": half["visitors"], "Direct": half["visitors"]},
                "region": {"DE-HH": rest["visitors"], "DE-BE": half["visitors"]},
                "device": {"mobile": 2 * half["visitors"]},
                "browser": {"Edge": rest["visitors"]},
                "browser_version": {"131": rest["visitors"]},
                "os": {"Windows": rest["visitors"]},
                "entry_page": {"/": half["visitors"]},
                "exit_page": {"/pricing": half["visitors"]},
                "language": {},
            }.items():
                found = site.json(f"top/{field}?{span}")
                assert {row["value"]: row["visitors"] for row in found["data"]} == expected, (field, span)
                assert found["meta"]["imported"]["fields"] == {field: len(some) if expected else 0}
            found = site.data(f"top/browser?{span}&metrics=visits,bounce_rate,visit_duration")
            assert found == [
                {
                    "value": "Edge",
                    "visits": rest["visits"],
                    "bounce_rate": round(rest["bounces"] / rest["visits"] * 100 + 1e-9, 1),
                    "visit_duration": int(rest["visit_duration"] / rest["visits"] + 0.5),
                }
            ]
            names = site.data(f"event-names?{span}")
            assert names == [{"value": "Signup", "visitors": 2 * len(some), "events": 3 * len(some)}]
            for side, path in (("entry", "/"), ("exit", "/pricing")):
                (page,) = site.data(f"{side}-pages?{span}")
                assert (page["value"], page["visits"]) == (path, half["visits"])
    assert wrong(imports) == []


def test_meta_has_the_reason_why_sums_are_excluded(imports: Imports) -> None:
    take(imports, "plausible", plausible_archive(ALL))
    for request, visitors, counted, reason in (
        (f"stats?{RANGE}&filter_country=DE", 0, 0, "filters"),
        (f"stats?{RANGE}&filter_hostname!=x", 0, 0, "filters"),
        (f"top/pathname?{RANGE}&filter_device=mobile", 0, 0, "filters"),
        ("stats?from=2024-03-26T01:00:00Z&to=2024-03-28T00:00:00Z", total(ALL[1:2], "visitors"), 1, "part_of_day"),
        ("stats?from=2024-03-26T00:00:00Z&to=2024-03-28T11:00:00Z", total(ALL[:2], "visitors"), 2, "part_of_day"),
        ("stats?from=2024-03-26T08:00:00Z&to=2024-03-26T20:00:00Z", 0, 0, "part_of_day"),
        ("timeseries?from=2024-03-26&to=2024-03-28&interval=hour", 0, 0, "interval"),
        ("top/pathname?from=2024-03-26T09:00:00Z&to=2024-03-26T11:00:00Z", 0, 0, "part_of_day"),
    ):
        answer = imports.site.json(request)
        data = answer["data"]
        found = sum(row["visitors"] for row in data) if isinstance(data, list) else data["visitors"]
        assert (found, answer["meta"]["imported"]["counted_days"]) == (visitors, counted), request
        assert answer["meta"]["imported"]["excluded_by"] == reason
    before = imports.site.json("stats?from=2024-04-05&to=2024-04-14&compare=previous")
    assert before["data"]["previous"] == figures(ALL)
    assert "imported" not in before["meta"]
    assert before["meta"]["previous_imported"]["counted_days"] == len(ALL)
    assert "imported" not in imports.site.json("stats?from=2024-05-01&to=2024-05-19")["meta"]


SOME = ALL[:4]


def test_a_day_counts_from_events_or_from_sums(imports: Imports) -> None:
    archive = plausible_archive(SOME)
    take(imports, "plausible", archive)
    own = [("2024-03-27T00:00:00Z", "a"), ("2024-03-27T23:00:00Z", "b"), ("2024-03-28T10:00:00Z", "a")]
    assert take(imports, "tally", "".join(line(*one) for one in own)) == "3"

    def check() -> None:
        for zone in ("UTC", "Europe/Berlin", "America/New_York"):
            answer = imports.site.json(f"stats?{RANGE}&tz={zone}")
            assert answer["data"]["visitors"] == total([SOME[0], SOME[3]], "visitors") + 3, zone
            assert answer["meta"]["imported"]["ranges"] == [
                {"from": "2024-03-26", "to": "2024-03-26"},
                {"from": "2024-03-29", "to": "2024-03-29"},
            ]
        assert imports.list("pathname")["/own"] == 3
        assert imports.site.data("entry-pages?" + RANGE)[-1]["value"] == "/own"
        assert imports.site.data(f"stats?{RANGE}&filter_pathname=/own")["visitors"] == 3
        # Hours of days with events are shown, among days of sums.
        rows = imports.site.data("timeseries?from=2024-03-26&to=2024-03-29&interval=hour")
        assert [row["time"][:13] for row in rows if row["visitors"]] == [at[:13] for at, _ in own]
        # Sums are no stored events, and final days have columns in place of rows.
        rows = imports.sync_app.app.sql("select count(*) from event")[0][0]
        packed = imports.sync_app.app.sql("select coalesce(sum(events), 0) from packed_day where raw_rows = 0")[0][0]
        assert rows + packed == 3
        assert wrong(imports) == []

    check()
    # In the other order of the imports it is the same.
    imports.command("--undo", "1")
    work(imports)
    assert imports.site.data(f"stats?{RANGE}")["visitors"] == 3
    assert take(imports, "plausible", archive) == str(40 * len(SOME))
    check()
    # Events expire, sums do not; the days of expired events keep their figures.
    main(["retention", "example.com", "90", "--yes", "--db", str(imports.db)])
    work(imports)
    answer = imports.site.json(f"stats?{RANGE}")
    assert imports.sql("select count(*) from event") == [(0,)]
    assert answer["data"]["visitors"] == total([SOME[0], SOME[3]], "visitors") + 3
    assert wrong(imports) == []
    imports.command("--undo", "3")
    work(imports)
    assert imports.site.data(f"stats?{RANGE}")["visitors"] == 3
    assert (
        imports.sql("select count(*) from imported_sum") == imports.sql("select count(*) from imported_field") == [(0,)]
    )


def of_reports(imports: Imports) -> list[Any]:
    """Return what each report has of imported sums, in several time zones, and what it says about them."""
    found = []
    for zone in ("UTC", "Europe/Berlin", "America/New_York", "Pacific/Auckland"):
        span = f"from=2024-03-27&to=2024-04-04&tz={zone}"
        for report in (
            f"stats?{span}",
            *(f"timeseries?{span}&interval={interval}" for interval in ("hour", "day", "week", "month")),
            *(f"top/{field}?{span}" for field in ("pathname", "channel", "browser", "entry_page", "exit_page")),
            *(f"top/{field}?{span}&metrics=visits,visit_duration" for field in ("device", "entry_page")),
            *(f"{list}?{span}" for list in ("event-names", "entry-pages", "exit-pages")),
            f"stats?{span}&filter_device=mobile",
            f"stats?from=2024-03-27T12:00:00Z&to=2024-03-31T08:00:00Z&tz={zone}",
        ):
            answer = imports.site.json(report)
            found.append((report, answer["data"], answer["meta"].get("imported")))
    return found


def test_sums_count_from_their_import_on(imports: Imports) -> None:
    """Whether their days are rolled up or not: on all days, on some, and after sums of another field."""
    archive = plausible_archive(ALL)
    imports.take("plausible", archive)
    assert imports.sql("select distinct state from rollup_state where kind = 0") == [(STALE,)]
    assert imports.site.data(f"stats?{RANGE}") == figures(ALL)
    before = of_reports(imports)
    work(imports)
    assert imports.sql("select distinct state from rollup_state where kind = 0 and level = 0") == [(IMPORTED,)]
    assert of_reports(imports) == before

    of_language = {"type": "imported_sum", "field": "language", "value": "de", "visitors": 3}
    imports.take("tally", "".join(json.dumps(of_language | {"day": str(day)}) + "\n" for day in SOME))
    assert len(imports.sql(f"select 1 from rollup_state where kind = 0 and level = 0 and state = {STALE}")) == len(SOME)
    assert of_reports(imports) == before
    assert imports.list("language", "visitors") == {"de": 3 * len(SOME)}
    work(imports)
    assert of_reports(imports) == before
    assert imports.list("language", "visitors") == {"de": 3 * len(SOME)}

    # Of a day with events, sums count again from the moment at which the import of these is undone.
    assert take(imports, "tally", line("2024-03-28T10:00:00Z") + line("2024-03-29T10:00:00Z")) == "2"
    assert of_reports(imports) != before
    imports.command("--undo", "3")
    assert of_reports(imports) == before
    imports.command("--undo", "1")
    assert imports.site.data(f"stats?{RANGE}") == figures([])


def test_the_first_event_of_a_day_replaces_its_sums(imports: Imports) -> None:
    """Also while the day is not over, as on the day on which the tracker is installed."""
    today = datetime.fromisoformat(NOON).date()
    some = [today - timedelta(1), today]
    take(imports, "plausible", plausible_archive(some))
    span = f"from={some[0]}&to={today}"
    assert imports.site.data(f"stats?{span}") == figures(some)
    assert imports.sync_app.run(imports.sync_app.app.database.read(lambda run: traffic_of(run, [1])))[1].events == 0
    for _ in range(2):
        imports.site.send(view(NOON_MS))
        for is_built in (False, True):
            if is_built:
                work(imports)
            assert imports.site.data(f"stats?{span}")["visitors"] == of_day(some[0])["visitors"] + 1
    assert {row["value"] for row in imports.site.data(f"top/pathname?from={today}&to={today}")} == {"/"}
    assert imports.sync_app.run(imports.sync_app.app.database.read(lambda run: traffic_of(run, [1])))[1].events == 2
    assert wrong(imports) == []


def test_an_archive_with_two_files_of_one_name_is_refused(imports: Imports) -> None:
    head = "date,visitors,pageviews,bounces,visits,visit_duration\n"
    files = {f"imported_visitors_{day:%Y%m%d}_{day:%Y%m%d}.csv": f"{head}{day},5,9,1,5,10\n" for day in ALL[:2]}
    first, second = map(str.encode, files)
    assert imports.take("plausible", sums_files.archive(files).replace(second, first), status=1) == ""
    assert "is a zip archive with several files of one name: use the original export." in imports.errors
    assert imports.sql("select count(*) from imported_sum") == [(0,)]


def test_the_same_file_again_adds_nothing(imports: Imports) -> None:
    archive = plausible_archive(ALL[:2])
    dry = imports.take("plausible", archive, "--dry-run")
    assert dry == ""
    assert "sums: 80 of 2 days, 2024-03-26 to 2024-03-27; 0 are of fields and days that have sums" in imports.errors
    assert imports.sql("select count(*) from imported_sum") == [(0,)]
    assert take(imports, "plausible", archive) == "80"
    assert "imported 0 events and 80 sums, skipped 0 duplicates, rejected 0 of 42 lines" in imports.errors
    stored = imports.sql("select * from imported_sum"), imports.sql("select * from imported_field")
    # A longer file adds its new days, also in another system's format.
    assert take(imports, "plausible", plausible_archive(ALL[:3])) == "40"
    assert "skipped 80 duplicates" in imports.errors
    imports.take("plausible", archive, "--dry-run")
    assert "80 are of fields and days that have sums already" in imports.errors
    assert take(imports, "ga4", sums_files.ga4_exploration(ALL[:4])) == "1"
    assert imports.site.data(f"stats?{RANGE}")["visitors"] == total(ALL[:4], "visitors")
    assert imports.command("--list").splitlines()[-1].split("\t")[3:] == [
        *("0", "0", "0", "2", "2024-03-26..2024-03-27", "plausible", "imported", "80", "0")
    ]
    for number in ("3", "2"):
        imports.command("--undo", number)
    assert (imports.sql("select * from imported_sum"), imports.sql("select * from imported_field")) == stored


def test_an_interrupted_import_continues_where_it_was(imports: Imports) -> None:
    """Each row of the file is added once, whatever the part that was imported."""
    connection = open_database(imports.db, create=False)
    path = imports.file(plausible_archive(ALL[:2]))

    def interrupted(position: int) -> None:
        raise KeyboardInterrupt

    try:
        for _ in range(200):
            with open_source(str(path)) as source:
                sizes = Sizes(chunk_lines=7, part_lines=3)
                try:
                    import_events(
                        connection, 1, source, now_ms=NOON_MS, format="plausible", sizes=sizes, progress=interrupted
                    )
                    break
                except KeyboardInterrupt:
                    pass
    finally:
        connection.close()
    (row,) = imports.sql("select number, state, sums, duplicates from import")
    assert row == (1, "complete", 80, 0)
    imports.sync_app.run(imports.sync_app.app.registry.refresh())
    work(imports)
    assert imports.site.data(f"stats?{RANGE}") == figures(ALL[:2])
    assert imports.list("device", "pageviews") == {
        "mobile": 2 * sum(share(of_day(day), 1)["pageviews"] for day in ALL[:2])
    }


def test_an_export_contains_the_sums(imports: Imports, tmp_path: Path) -> None:
    take(imports, "plausible", plausible_archive(ALL[:2]))
    take(imports, "goatcounter", sums_files.goatcounter_archive(ALL[2:3]))
    take(imports, "tally", line("2024-03-29T10:00:00Z"))
    path = tmp_path / "out.ndjson"
    assert main(["export", imports.site.id, str(path), "--db", str(imports.db)]) == 0
    lines = [json.loads(text) for text in path.read_text().splitlines()]
    assert {
        "type": "imported_sum",
        "day": "2024-03-26",
        "field": "pathname",
        "value": "/",
        "visitors": share(of_day(FIRST), 1)["visitors"],
        "visits": None,
        "pageviews": share(of_day(FIRST), 1)["pageviews"],
        "events": None,
        "bounces": None,
        "duration_ms": None,
    } in lines
    assert take(imports, "tally", path) == "0"
    other = Imports(imports.sync_app, imports.sync_app.site("example.net"), tmp_path)
    assert take(other, "tally", path) == str(len(lines))
    for report in ("stats", "timeseries", "top/pathname", "top/country", "top/channel", "entry-pages", "event-names"):
        one, two = (site.site.json(f"{report}?{RANGE}") for site in (imports, other))
        assert (one["data"], one["meta"]["imported"]) == (two["data"], two["meta"]["imported"])
    assert wrong(other) == []


def test_views_per_visit_are_of_sums_with_visits(imports: Imports) -> None:
    """Beside days of events, whether sums are rolled up or not. Pageviews are of all days."""
    of_visits = {"visits": 10, "pageviews": 20, "bounces": 4, "duration_ms": 60_000}
    given = [
        ("2024-03-26", "/", of_visits),
        ("2024-03-27", "/", {"pageviews": 80}),
        ("2024-03-28", "/", of_visits),
        # Of one day, a page with visits and one without.
        ("2024-03-28", "/b", {"visits": 0, "pageviews": 7, "bounces": 0, "duration_ms": 0}),
    ]
    lines = [
        {"type": "imported_sum", "day": day, "field": field, "value": value, "visitors": 1, **figures}
        for day, value, figures in given
        for field in ("entry_page", "exit_page")
    ]
    events = line("2024-03-29T10:00:00Z", path="/") + line("2024-03-29T10:01:00Z", path="/")
    imports.take("tally", "".join(json.dumps(one) + "\n" for one in lines) + events)
    for is_built in (False, True):
        if is_built:
            work(imports)
        for side in ("entry", "exit"):
            for _ in range(2):
                pages = {page["value"]: page for page in imports.site.data(f"{side}-pages?{RANGE}")}
                assert (pages["/"]["visits"], pages["/"]["views_per_visit"]) == (21, 2.0)
                assert pages["/b"]["views_per_visit"] is None
            ranked = imports.site.data(f"top/{side}_page?{RANGE}&metrics=visits,views_per_visit,pageviews")
            assert {row["value"]: (row["visits"], row["views_per_visit"], row["pageviews"]) for row in ranked} == {
                "/": (21, 2.0, 122),
                "/b": (0, None, 7),
            }
    # Sums that are imported later count, too.
    more = {"type": "imported_sum", "day": "2024-03-30", "field": "entry_page", "value": "/"}
    take(imports, "tally", json.dumps(more | {"visits": 21, "pageviews": 21, "bounces": 0, "duration_ms": 0}) + "\n")
    assert imports.site.data(f"entry-pages?{RANGE}")[0]["views_per_visit"] == 1.5
    assert wrong(imports) == []


def test_goatcounter_counts(imports: Imports) -> None:
    take(imports, "goatcounter", sums_files.goatcounter_archive(SOME))
    assert "skipped: 4 counts of browsers, systems and places of custom events" in imports.errors
    of_home = total(SOME, "visitors") + 2 * len(SOME)
    answer = imports.site.json(f"stats?{RANGE}")
    assert answer["data"] | {"events": 0} == figures([]) | {"pageviews": of_home + 4 * len(SOME)}
    assert answer["data"]["events"] == 5 * len(SOME)
    assert answer["meta"]["imported"]["missing"] == ["visitors", "visits", "bounces", "visit_duration"]
    assert imports.list("pathname", "visitors") == {"/": of_home, "/docs": 4 * len(SOME)}
    assert imports.list("referrer") == {"google.com": total(SOME, "visitors"), "reddit.com": 4 * len(SOME)}
    assert imports.list("browser") == {"Firefox": total(SOME, "visitors")}
    assert imports.list("os") == {"Windows": total(SOME, "visitors")}
    assert imports.list("os_version") == {"7": total(SOME, "visitors")}
    assert imports.list("region") == {"RO-B": total(SOME, "visitors")}
    assert imports.site.data(f"event-names?{RANGE}") == [{"value": "signup", "visitors": 20, "events": 20}]


def test_ga4_reports(imports: Imports) -> None:
    assert take(imports, "ga4", sums_files.ga4_exploration(SOME)) == "4"
    assert "skipped: 1 rows of totals" in imports.errors
    stats = imports.site.data(f"stats?{RANGE}")
    visits = total(SOME, "visits")
    bounces = sum(round(of_day(day)["visits"] / 4) for day in SOME)
    assert stats == figures(SOME) | {
        "events": 0,
        "bounce_rate": round(bounces / visits * 100, 1),
        "visit_duration": 51,
    }
    imports.command("--undo", "1")
    assert take(imports, "ga4", sums_files.ga4_snapshot(SOME)) == "4"
    assert "skipped: 1 rows of tables that are not by day" in imports.errors
    answer = imports.site.json(f"stats?{RANGE}")
    assert answer["data"] == figures([]) | {"visitors": total(SOME, "visitors")}
    assert answer["meta"]["imported"]["missing"] == ["visits", "pageviews", "events", "bounces", "visit_duration"]
    # A file of one day needs no date; one report has one field.
    day = "# Start date: 20240326\n# End date: 20240326\n\n"
    assert take(imports, "ga4", f"{day}Country,Active users,Views\nGermany,3,5\nNowhere,1,1\n") == "2"
    assert imports.list("country") == {"DE": 5}
    page = "Date,Page path and screen class,Views\n2024-03-26,/a?x=1,3\n2024-03-26,/a?x=2,4\n2024-03-27,/b,x\n"
    assert take(imports, "ga4", page) == "2"
    assert "line 4: invalid_field: Figures are numbers" in imports.errors
    assert imports.list("pathname") == {"/a": 7}
    inner = "Date,Country,Active users\n20240328,Ger\rmany,3\n20240328,Germany,4\n"
    assert take(imports, "ga4", inner) == "1"
    assert "invalid_csv: The row has another number of fields" in imports.errors
    for head in ("", "# Start date: 20241201\n# End date: 20241203\n\n"):
        imports.take("ga4", f"{head}Country,Active users\nGermany,3\n", status=1)
        assert "has no table by day: add Date to the report" in imports.errors
        assert "It was imported up to line" not in imports.errors


REFUSED = {
    "a file of another version": ({"x/info.json": '{"export_version": "2.0"}'}, "is version 2.0 of GoatCounter's"),
    "without a version": ({"x/info.json": "{}"}, "its info.json has no export_version"),
    "a long version": ({"x/info.json": "\n" * 65_537}, "its info.json is too long"),
    "names without an id": ({"x/paths.jsonl": '{"path": "/"}\n'}, "a line in paths.jsonl without its fields"),
    "too many files": ({f"x/{n}": "" for n in range(101)}, "files, more than 100"),
    "a bomb": ({"x/hit_stats.jsonl": " " * 40_000_000}, "decompresses to more than 500 times its size"),
}


@cases(("changed", "error"), REFUSED.values(), ids=REFUSED)
def test_archives_that_are_refused(imports: Imports, changed: dict[str, str], error: str) -> None:
    files = {"x/info.json": '{"export_version": "1.0"}', "x/paths.jsonl": '{"id": 1, "path": "/"}\n'} | changed
    imports.take("goatcounter", sums_files.archive(files, zipfile.ZIP_DEFLATED), status=1)
    assert error in imports.errors


def test_damaged_archives_are_refused(imports: Imports) -> None:
    whole = plausible_archive(SOME)
    for cut in (len(whole) // 2, len(whole) - 30):
        imports.take("plausible", whole[:cut], status=1)
        assert "is damaged or incomplete" in imports.errors
    at = whole.index(b"2024-03-26")
    imports.take("plausible", whole[:at] + b"2024-03-25" + whole[at + 10 :], status=1)
    assert "is damaged or incomplete" in imports.errors
    missing = sums_files.archive({"imported_visitors_20240326_20240326.csv": '"date","pageviews"\n"2024-03-26",1\n'})
    imports.take("plausible", missing, status=1)
    assert "has no column visitors in its first line" in imports.errors


REJECTED = {
    "no day": ({"day": None}, "day"),
    "no date": ({"day": "20240326"}, "day"),
    "a day that does not exist": ({"day": "2024-02-30"}, "day"),
    "a day after today": ({"day": "2099-01-01"}, "day"),
    "an unknown field": ({"field": "title"}, "field"),
    "a field that is no text": ({"field": ["pathname"]}, "field"),
    "a long value": ({"field": "country", "value": "x" * 101}, "value"),
    "a value of all traffic": ({"field": "total"}, "value"),
    "an event without a name": ({"field": "event_name", "value": ""}, "value"),
    "a negative figure": ({"visitors": -1}, "visitors"),
    "a fraction": ({"visitors": 1.5}, "visitors"),
    "visits alone": ({"visitors": None, "visits": 3}, "invalid"),
    "no figures": ({"visitors": None}, "invalid"),
}


@cases(("changed", "field"), REJECTED.values(), ids=REJECTED)
def test_lines_of_sums_that_are_rejected(imports: Imports, changed: dict[str, Any], field: str) -> None:
    sent = {"type": "imported_sum", "day": "2024-03-26", "field": "pathname", "value": "/", "visitors": 1} | changed
    imports.take("tally", json.dumps(sent) + "\n", status=1)
    assert f"({field}): " in imports.errors or "missing_field: A sum needs some of" in imports.errors


def test_older_exports_of_plausible(imports: Imports) -> None:
    """Sources are names, without the column of referrers, and exit pages have their exits alone."""
    visits = "visitors,visits,visit_duration,bounces"
    sources = [("Google", "", 5), ("Hacker News", "", 4), ("blog.example.org", "", 3), ("Letter", "", 2), ("", "", 9)]
    files = {
        "imported_sources_20240326_20240404.csv": f"date,source,utm_medium,{visits}\n"
        + "".join(f"2024-03-26,{name},{medium},{n},{n},{60 * n},1\n" for name, medium, n in sources),
        "imported_exit_pages_20240326_20240404.csv": "date,exit_page,visitors,exits\n2024-03-26,/pricing,4,5\n",
    }
    take(imports, "plausible", sums_files.archive(files))
    assert imports.list("referrer", "visitors") == {"google.com": 5, "news.ycombinator.com": 4, "blog.example.org": 3}
    assert imports.list("utm_source", "visitors") == {"Letter": 2}
    assert imports.list("channel", "visitors") == {
        "Direct": 9,
        "Organic search": 5,
        "Organic social": 4,
        "Referral": 5,
    }
    (page,) = imports.site.data("exit-pages?" + RANGE)
    assert (page["value"], page["visits"]) == ("/pricing", 5)


def of_bad_referrers(format: str, day: date) -> str | bytes:
    """Return a file with 3 pageviews of "about:blank" and 2 of example.org."""
    counts = (("about:blank", 3), ("www.example.org/a", 2))
    if format == "plausible":
        rows = "".join(f"{day},a,{text},{n}\n" for text, n in counts)
        sources = f"date,source,referrer,pageviews\n{rows}"
        return sums_files.archive({"imported_sources_20240326_20240404.csv": sources})
    if format == "goatcounter":
        refs = [{"id": n, "ref": text, "ref_scheme": "h"} for text, n in counts]
        hits = [{"hour": f"{day}T09:00:00Z", "path_id": 1, "ref_id": n, "count": n} for _, n in counts]
        of_files = {"paths": [{"id": 1, "path": "/"}], "refs": refs, "hit_stats": hits}
        files = {f"{name}.jsonl": "".join(f"{json.dumps(row)}\n" for row in rows) for name, rows in of_files.items()}
        return sums_files.archive({"info.json": '{"export_version": "1.0"}', **files})
    line = {"type": "imported_sum", "day": f"{day}", "field": "referrer"}
    return "".join(f"{json.dumps(line | {'value': text, 'pageviews': n})}\n" for text, n in counts)


@cases(("format", "day"), [("goatcounter", ALL[0]), ("plausible", ALL[1]), ("tally", ALL[2])])
def test_referrers_that_are_none_are_counted(imports: Imports, format: str, day: date) -> None:
    """They cost the value, not the figures."""
    content = of_bad_referrers(format, day)
    for options in (["--dry-run"], []):
        imports.take(format, content, *options)
        assert "warnings: 1 without_referrer" in imports.errors
        assert "invalid_" not in imports.errors
    stored = imports.sql(
        "select text, pageviews from imported_sum join label on id = value"
        f" where field = {FIELD_NUMBERS['referrer']} and day = {(day - date(1970, 1, 1)).days} order by pageviews"
    )
    assert stored == [("example.org", 2), ("", 3)]


def test_rows_of_zeros_are_no_sums(imports: Imports) -> None:
    """They would keep another system's figures of those days out."""
    head = "# Start date: 20240326\n# End date: 20240329\n\nNth day,Active users\n"
    assert take(imports, "ga4", head + "0000,3\n0001,0\n0002,0\n") == "1"
    assert "skipped: 2 rows whose figures are all 0" in imports.errors
    zeros = {"type": "imported_sum", "day": "2024-03-28", "field": "country", "value": "DE", "visitors": 0, "visits": 0}
    assert take(imports, "tally", json.dumps(zeros)) == "0"
    assert imports.site.json(f"stats?{RANGE}")["meta"]["imported"]["days"] == 1
    assert int(take(imports, "plausible", plausible_archive(ALL[1:2]))) > 0
    assert imports.site.data(f"stats?{RANGE}")["visitors"] == 3 + of_day(ALL[1])["visitors"]
