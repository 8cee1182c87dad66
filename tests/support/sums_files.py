"""Files of sums by day in the shape of other systems' exports, with figures that follow from the day."""

import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from datetime import date, timedelta

FIRST = date(2024, 3, 26)
DAYS = 10
"""The first 8 are a block of days; the clocks of Europe change on one of them."""


def days(first: date = FIRST, count: int = DAYS) -> list[date]:
    return [first + timedelta(n) for n in range(count)]


def of_day(day: date) -> dict[str, int]:
    """Return the figures of a day: different ones each day."""
    n = day.toordinal() % 89
    return {
        "visitors": 10 + n,
        "pageviews": 30 + 2 * n,
        "bounces": 3 + n % 7,
        "visits": 12 + n,
        "visit_duration": 600 + n,
    }


def share(figures: Mapping[str, int], part: int) -> dict[str, int]:
    """Return a part of the figures: those of all parts from 1 to 2 are less than the whole."""
    return {name: figure * part // 4 for name, figure in figures.items()}


VISITS = ("visitors", "visits", "visit_duration", "bounces", "pageviews")


def plausible(some: Sequence[date]) -> dict[str, list[dict[str, object]]]:
    """Return the rows of each file of Plausible's export."""
    tables: dict[str, list[dict[str, object]]] = {}

    def add(table: str, day: date, figures: Mapping[str, int], **texts: str) -> None:
        tables.setdefault(table, []).append({"date": day.isoformat(), **texts, **figures})

    for day in some:
        of = of_day(day)
        half, rest = share(of, 1), share(of, 2)
        add("visitors", day, of)
        empty = dict.fromkeys(("utm_medium", "utm_campaign", "utm_content", "utm_term"), "")
        add("sources", day, half, source="Hacker News", referrer="news.ycombinator.com/item", utm_source="", **empty)
        add("sources", day, rest, source="letter", referrer="", utm_source="letter", **empty | {"utm_medium": "email"})
        add("sources", day, half, source="", referrer="", utm_source="", **empty)
        for path, own in (("/", half), ("/pricing", rest)):
            add(
                "pages",
                day,
                {name: own[name] for name in ("visits", "visitors", "pageviews")},
                hostname="example.com",
                page=path,
            )
        some_of = {name: half[name] for name in ("visitors", "visit_duration", "bounces", "pageviews")}
        add("entry_pages", day, some_of | {"entrances": half["visits"]}, entry_page="/")
        add("exit_pages", day, some_of | {"exits": half["visits"]}, exit_page="/pricing")
        add("custom_events", day, {"visitors": 2, "events": 3}, name="Signup", link_url="", path="")
        add("custom_events", day, {"visitors": 1, "events": 1}, name="engagement", link_url="", path="")
        add("locations", day, half, country="DE", region="DE-BE", city="2950159")
        add("locations", day, rest, country="DE", region="DE-HH", city="2911298")
        # The same key may come several times.
        add("devices", day, half, device="Mobile")
        add("devices", day, half, device="Mobile")
        add("browsers", day, rest, browser="Microsoft Edge", browser_version="131.0")
        add("operating_systems", day, rest, operating_system="Windows", operating_system_version="10")
    return tables


def as_csv(rows: Sequence[Mapping[str, object]]) -> str:
    """Return rows as ClickHouse writes CSVWithNames: texts and dates in quotes, numbers without."""
    lines = [",".join(f'"{name}"' for name in rows[0])]
    lines += [",".join(str(one) if isinstance(one, int) else f'"{one}"' for one in row.values()) for row in rows]
    return "\n".join(lines) + "\n"


def archive(files: Mapping[str, str | bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as zipped:
        for name, content in files.items():
            zipped.writestr(name, content)
    return out.getvalue()


def plausible_archive(some: Sequence[date]) -> bytes:
    first, last = (f"{day:%Y%m%d}" for day in (some[0], some[-1]))
    return archive({f"imported_{name}_{first}_{last}.csv": as_csv(rows) for name, rows in plausible(some).items()})


def goatcounter_archive(some: Sequence[date]) -> bytes:
    """Return GoatCounter's JSON export of two pages and an event, with hits at two hours of each day."""
    folder = "goatcounter-export-example-20241118T100000Z"
    hits, browsers, systems, places = [], [], [], []
    for day in some:
        n = of_day(day)["visitors"]
        for hour, path, ref, count in ((9, 1, 1, n), (10, 1, 0, 2), (10, 2, 2, 4), (10, 3, 0, 5)):
            hits.append({"hour": f"{day}T{hour:02}:00:00Z", "path_id": path, "ref_id": ref, "count": count})
        browsers.append({"day": f"{day}", "path_id": 1, "browser_id": 7, "count": n})
        browsers.append({"day": f"{day}", "path_id": 3, "browser_id": 7, "count": 5})
        systems.append({"day": f"{day}", "path_id": 1, "system_id": 8, "count": n})
        places.append({"day": f"{day}", "path_id": 1, "location": "RO-B", "count": n})
    files = {
        "paths": [
            {"id": 1, "path": "/", "title": "Home"},
            {"id": 2, "path": "/docs"},
            {"id": 3, "path": "signup", "event": True},
        ],
        "refs": [
            {"id": 1, "ref": "Google", "ref_scheme": "g"},
            {"id": 2, "ref": "www.reddit.com/r/x", "ref_scheme": "h"},
        ],
        "browsers": [{"id": 7, "name": "Firefox", "version": "115"}],
        "systems": [{"id": 8, "name": "Windows", "version": "7"}],
        "hit_stats": hits,
        "browser_stats": browsers,
        "system_stats": systems,
        "location_stats": places,
        "size_stats": [{"day": "2024-03-26", "path_id": 1, "width": 1920, "count": 1}],
    }
    lines = {f"{folder}/{name}.jsonl": "".join(json.dumps(row) + "\n" for row in rows) for name, rows in files.items()}
    return archive({f"{folder}/info.json": json.dumps({"export_version": "1.0"}), **lines}, zipfile.ZIP_DEFLATED)


def ga4_exploration(some: Sequence[date]) -> str:
    """Return a free-form exploration by date with the figures of visits."""
    rows = [
        f"{day:%Y%m%d},{of['visitors']},{of['visits']},{of['pageviews']},0.25,50.5"
        for day in some
        for of in [of_day(day)]
    ]
    head = "# -----\n# Account: Example\n# Start date: 20240326\n# End date: 20240404\n# -----\n\n"
    return (
        head
        + "Date,Total users,Sessions,Views,Bounce rate,Average session duration\n,9,9,9,0.1,1,Grand total\n"
        + "\n".join(rows)
        + "\n"
    )


def ga4_snapshot(some: Sequence[date]) -> str:
    """Return a snapshot of several cards: one by day, others over the whole range."""
    rows = [f"{n:04},{of_day(day)['visitors']}" for n, day in enumerate(some)]
    start = f"# Start date: {some[0]:%Y%m%d}\n# End date: {some[-1]:%Y%m%d}\n"
    return (
        f"# All Users\n{start}\nNth day,Active users\n"
        + "\n".join(rows)
        + f"\n\n# All Users\n{start}\nCountry,Active users\nGermany,7\n"
    )
