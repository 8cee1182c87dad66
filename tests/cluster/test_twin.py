"""ClickHouse and SQLite answer every report with the same bytes: one stream of events enters both."""

import json
import random
import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tally.accounts.definitions import add_definition
from tally.api.context import READ_API
from tally.clickhouse.settle import delete_unread, next_days, settle
from tally.cluster.archive import digest_of, exported
from tally.engine.archive import FIGURES
from tally.ingest.node import Node
from tally.reports import experiments
from tally.storage.database import Connection, open_database
from tally.transfer.files import open_source
from tally.transfer.importer import import_events
from tests.cluster.engine import ClickHouseEngine, needs_clickhouse
from tests.support.read_api import DAY_MS, NOON_MS, Site, SyncApp, sync_app_at

pytestmark = needs_clickhouse
ZONES = ("UTC", "Europe/Berlin", "America/St_Johns", "Asia/Kathmandu")
RANGES = (
    "from=2026-11-15&to=2026-11-18",
    "from=2026-11-16T07:13:00.001Z&to=2026-11-17T22:59:59.5Z",
    "from=2026-11-17&to=2026-11-17",
)
FILTERS = (
    "",
    "&filter_pathname*=o&filter_referrer!=google.com",
    "&filter_entry_page^=/b&filter_country=DE&filter_country=US",
    "&filter_channel=Direct&filter_type=pageview&filter_type=event",
    "&filter_exit_page!=/&filter_utm_source=news&filter_utm_source=",
    "&filter_prop.price=1&filter_prop.price=pro&filter_prop.price=",
    "&filter_prop.plan*=o",
    "&filter_event_name=buy&filter_prop.price!=2.5",
)
REPORTS = (
    "stats?{0}",
    "stats?{0}&compare=previous",
    "timeseries?{0}&interval=hour",
    "timeseries?{0}&interval=day",
    *(f"top/{field}?{{0}}" for field in ("pathname", "referrer", "channel", "browser")),
    "event-names?{0}&limit=3",
    "top/pathname?{0}&limit=3&offset=2",
    "top/pathname?{0}&limit=5&compare=previous",
    "top/utm_source?{0}&sort=visit_duration",
    "top/pathname?{0}&sort=bounce_rate&order=asc",
    "top/referrer?{0}&goal={1}",
    "top/pathname?{0}&goal={1}&sort=conversion_rate",
    "entry-pages?{0}&limit=4",
    "exit-pages?{0}&limit=4&compare=previous",
    "goals/report?{0}",
    "stats?{0}&goal={1}",
    "timeseries?{0}&interval=day&goal={1}",
    "top/pathname?{0}&goal={1}&compare=previous&limit=4",
    "top?{0}&fields=pathname,country&compare=previous",
    "changes?{0}&compare=previous",
    "funnel?{0}&step=pathname:/pricing&step=event_name:buy",
    "funnel?{0}&step=pathname:/&step=goal:{1}&step=pathname:/o",
    "journeys?{0}&start=pathname:/pricing&steps=3&limit=2",
    "journeys?{0}&start=event_name:buy&steps=2&limit=3&direction=previous",
    "event-data?{0}&event_name=buy",
    "event-data?{0}&event_name=buy&property=price&limit=2",
    "events?{0}&limit=7",
)
MEASURED_FILTERS = ("", "&filter_pathname*=o&filter_device=desktop", "&filter_referrer=&filter_browser^=Ch")
MEASURED = (
    "vitals?{0}",
    "vitals?{0}&by=pathname&metric=inp&limit=3",
    "vitals?{0}&by=device",
    "vitals?{0}&by=day&metric=cls",
    "experiments?{0}",
    "heatmap?{0}&pathname=/pricing",
    "heatmap-pages?{0}&limit=3",
    "events?{0}&limit=60",
    "top/pathname?{0}&metrics=visitors,time_on_page,scroll_depth,samples&limit=4",
    "top/pathname?{0}&metrics=samples&sort=time_on_page&order=asc&compare=previous",
    "top/pathname?{0}&metrics=visits,samples&sort=scroll_depth",
)
PATHS = ("/", "/pricing", "/blog", "/blog/a", "/docs", "/o", "/Z", "/%C3%BC")
REFERRERS = ("https://google.com/", "https://news.example.org/x", "https://t.co/", "https://bing.com/q")
VALUES: tuple[Any, ...] = (1, 1.0, 2.5, "29.90", "-3", "x", "1e3", 10**10, 0.1, "0.0000005", True, None, "", "1")
GAPS_MS = (0, 1, 1_000, 60_000, 600_000, 1_799_999, 1_800_000, 1_800_001, 4_000_000)


def history(rng: random.Random) -> list[dict[str, Any]]:
    """Return the events of some visitors within the last 72 hours, in random order."""
    events = []
    for visitor in range(60):
        at_ms = NOON_MS - rng.randrange(71 * 3_600_000)
        for _ in range(rng.randint(1, 8)):
            kind = rng.random()
            event: dict[str, Any] = {
                "timestamp": min(at_ms, NOON_MS),
                "session_id": f"session-{visitor}",
                "url": f"https://example.com{rng.choice(PATHS)}",
            }
            if rng.random() < 0.2:
                event["url"] += f"?utm_source={rng.choice(['news', 'ads'])}&utm_medium={rng.choice(['cpc', 'email'])}"
            if rng.random() < 0.3:
                event["referrer"] = rng.choice(REFERRERS)
            if kind < 0.65:
                event["type"] = "pageview"
            elif kind < 0.72:
                event |= {"type": "screen_view", "name": rng.choice(["Home", "Shop"])}
            else:
                properties = rng.sample(["plan", "price", "a.b"], rng.randint(0, 3))
                data = {name: rng.choice(VALUES) for name in properties}
                event |= {"type": "event", "event_name": rng.choice(["signup", "buy"]), "event_data": data or None}
            events.append({name: value for name, value in event.items() if value is not None})
            at_ms += rng.choice(GAPS_MS)
    rng.shuffle(events)
    return events


def measurements(rng: random.Random) -> list[dict[str, Any]]:
    """Return web vitals, leaves with their page views, points of heatmaps and events of experiments."""
    events = list[dict[str, Any]]()
    for number in range(150):
        event: dict[str, Any] = {
            "timestamp": NOON_MS - rng.randrange(71 * 3_600_000),
            "session_id": f"session-{number % 30}",
            "url": f"https://example.com{rng.choice(PATHS)}",
        }
        experiment = {"experiment": rng.choice(["price", "color"])}
        vitals = {
            name: rng.choice([0, 100, 200.5, 2_500, 2_500.1, 4_001]) for name in ("lcp", "inp") if rng.random() < 0.8
        }
        point = {"x": rng.random(), "y": rng.randrange(3_000), "kind": rng.choice(["click", "scroll"])}
        leave = {"type": "leave", "event_id": f"view-{number}", "url": event["url"]}
        events += [
            event | {"type": "pageview", "event_id": f"view-{number}"},
            event | leave | {"time_on_page": rng.randrange(100), "scroll_depth": rng.randrange(101)},
            event | {"type": "vitals", "vitals": vitals | {"cls": rng.choice([0, 0.1, 0.1001, 0.25, 0.3])}},
            event | {"type": "heatmap", "viewport_width": rng.choice([400, 800, 1_200]), "points": [point]},
            event | experiment | {"type": "ab_assign", "variant": rng.choice(["a", "b", "control"])},
            event | experiment | {"type": "ab_convert", "variant": "a", "goal": rng.choice(["buy", "call"])},
        ]
    return events


@pytest.fixture(scope="module")
def twin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SyncApp]:
    """Return an application whose engine has both."""
    engines: list[ClickHouseEngine] = []

    def both(node: Node) -> ClickHouseEngine:
        engines.append(ClickHouseEngine(node))
        return engines[-1]

    with sync_app_at(Path(tmp_path_factory.mktemp("twin")) / "analytics.db", both) as opened:
        yield opened


@pytest.fixture(scope="module")
def site(twin: SyncApp) -> Site:
    site = twin.site()
    rng = random.Random(7)
    site.send(*history(rng))
    site.send(*measurements(rng))
    return site


def answers(twin: SyncApp, site: Site, report: str) -> list[bytes]:
    """Return the bodies of a report by ClickHouse and by SQLite."""
    engine, api = twin.app.running, twin.app.application[READ_API]
    bodies = list[bytes]()
    for api.reports in (engine.reports, engine.sqlite_reports):
        answer = site.get(report)
        bodies.append(f"{answer.status} ".encode() + answer.body)
    return bodies


ASKED = [(report, FILTERS) for report in REPORTS] + [(report, MEASURED_FILTERS) for report in MEASURED]


@pytest.mark.parametrize(("report", "filters"), ASKED, ids=[report for report, _ in ASKED])
def test_equal_bodies(twin: SyncApp, site: Site, goal: str, report: str, filters: tuple[str, ...]) -> None:
    for asked in questions(report, filters, goal):
        assert_equal(twin, site, asked)


def questions(report: str, filters: Sequence[str], goal: str = "", ranges: Sequence[str] = RANGES) -> Iterator[str]:
    """Yield a report without filters, and with some, over several ranges in several zones: other ones for each."""
    rng = random.Random(report)
    for own in ("", *rng.sample(filters, min(3, len(filters)))):
        yield report.format(f"{rng.choice(ranges)}&tz={rng.choice(ZONES)}{own}", goal)


# Of the 72 hours before NOON_MS; a part of the day before is open.
SETTLED = (NOON_MS // DAY_MS - 3, NOON_MS // DAY_MS - 2)


@pytest.fixture(scope="module")
def settled_site(twin: SyncApp) -> Site:
    """Return a website with settled days, of which one has got events since."""
    site, rng = twin.site(), random.Random(8)
    events = history(rng)
    site.send(*events[:-20])
    site.send(*measurements(rng))
    for day in SETTLED:
        assert settle_day(twin, site, day)
    site.send(*(event for event in events[-20:] if event["timestamp"] // DAY_MS != SETTLED[0]))
    return site


def settle_day(twin: SyncApp, site: Site, day: int) -> int:
    engine = twin.app.running
    number = twin.app.registry.website(site.id).number
    return int(twin.run(settle(engine.client, number, day, twin.run(engine.last_id()))))


@pytest.mark.parametrize("report", REPORTS)
def test_equal_bodies_of_settled_days(twin: SyncApp, settled_site: Site, goal: str, report: str) -> None:
    for asked in questions(report, FILTERS, goal) if "{1}" not in report else ():
        assert_equal(twin, settled_site, asked)


def test_equal_exports(twin: SyncApp, site: Site, settled_site: Site) -> None:
    """What is read back of open, settled and late events is what SQLite exports, but for the numbers of visits."""
    engine = twin.app.running
    twin.run(engine.last_id())
    for one in (site, settled_site):
        number = twin.app.registry.website(one.id).number
        exports = engine.archive.rows(number), exported(engine.client, number, engine.offset_ms(number))
        of_file, of_clickhouse = [twin.run(digest_of(rows)) for rows in exports]
        assert of_file[0] > 800
        assert of_clickhouse == of_file


def test_a_day_that_is_settled_again(twin: SyncApp, settled_site: Site) -> None:
    """Figures stay the same, and the days have as many events as SQLite."""
    for day in SETTLED:
        begin, end = day * DAY_MS, (day + 1) * DAY_MS
        number = twin.app.registry.website(settled_site.id).number
        ((events,),) = twin.app.sql(
            "select count(*) from event where website = ? and ts >= ? and ts < ?", number, begin, end
        )
        assert settle_day(twin, settled_site, day) == events
    client, copies = twin.app.running.client, [(number, 0)]
    # All that is read of the days is what was settled.
    assert twin.run(next_days(client, copies, SETTLED[1] + 1)) == []
    while twin.run(delete_unread(client, copies, 0)):
        pass
    left = "select (select count() from event where {0}), (select uniqExact(version) from settled where {0})"
    ((rows, versions),) = twin.run(client.rows(left.format(f"website = {number} and day <= {SETTLED[1]}"), {}))
    assert (rows, versions) == (0, 1)
    for report in REPORTS[:8]:
        for asked in questions(report, FILTERS):
            assert_equal(twin, settled_site, asked)


def assert_equal(twin: SyncApp, site: Site, report: str) -> None:
    clickhouse, sqlite = answers(twin, site, report)
    # Some reports refuse some filters.
    assert sqlite.startswith((b"200 ", b"400 ") if "filter_" in report else b"200 "), (report, sqlite)
    assert visits_numbered(clickhouse) == visits_numbered(sqlite), report


def visits_numbered(body: bytes) -> bytes:
    """Return a list of events with the visits numbered as they occur: what stands for a visit is an engine's own."""
    numbers: dict[bytes, bytes] = {}
    return re.sub(rb'(?<="visit":)"[^"]*"', lambda found: numbers.setdefault(found[0], b"%d" % len(numbers)), body)


def sums(rng: random.Random) -> list[dict[str, Any]]:
    """Return lines of imported sums: of values with and without visits, and of none."""
    lines = []
    for day in range(1, 18):
        for field, values in SUMS.items():
            for value in values:
                figures = {name: rng.choice((0, 1, 3, 40)) for name in FIGURES}
                place = {"type": "imported_sum", "day": f"2026-11-{day:02}", "field": field, "value": value or None}
                if (day, field) == (15, "total"):
                    lines.append(place | figures | {"visitors": 3})
                elif rng.random() < 0.8:
                    lines.append(place | figures)
    return lines


SUMS = {
    "total": ("",),
    "pathname": ("/", "/pricing", "/only", ""),
    "referrer": ("google.com", ""),
    "channel": ("Direct", "Search"),
    "browser": ("Chrome", "Lynx"),
    "country": ("DE", "XK"),
    "utm_source": ("news", ""),
    "entry_page": ("/", "/only", ""),
    "exit_page": ("/pricing", "/o"),
    "event_name": ("buy", "sold"),
}
RANGES_OF_SUMS = (
    "from=2026-11-01&to=2026-11-18",
    "from=2026-11-02T07:13:00.001Z&to=2026-11-16T22:59:59.5Z",
    "from=2026-11-15&to=2026-11-15",
    "from=2026-11-12&to=2026-11-17",
)
FIRST_EVENTS_MS = NOON_MS - 60 * 3_600_000


@pytest.fixture(scope="module")
def site_of_sums(twin: SyncApp, tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Return a website with imported sums, of which some are of days with events."""
    site, rng = twin.site(), random.Random(9)
    site.send(*(event for event in history(rng) if event["timestamp"] >= FIRST_EVENTS_MS))
    lines = tmp_path_factory.mktemp("sums") / "sums.ndjson"
    lines.write_text("".join(json.dumps(line) + "\n" for line in sums(rng)))

    def take(connection: Connection) -> int:
        with open_source(str(lines)) as source:
            number = twin.app.registry.website(site.id).number
            return import_events(connection, number, source, now_ms=NOON_MS).bad

    with closing(open_database(twin.app.db, create=False)) as connection:
        assert take(connection) == 0
    twin.run(twin.app.registry.refresh())
    return site


@pytest.mark.parametrize("report", REPORTS)
def test_equal_bodies_with_imported_sums(twin: SyncApp, site_of_sums: Site, report: str) -> None:
    goal = saved_goal(twin, site_of_sums) if "{1}" in report else ""
    for asked in questions(report, FILTERS[:5], goal, RANGES_OF_SUMS):
        assert_equal(twin, site_of_sums, asked)


def test_a_day_of_sums_that_gets_an_event(twin: SyncApp, site_of_sums: Site) -> None:
    """Its sums do not count any more, also once it is settled."""
    day = NOON_MS // DAY_MS - 3
    asked = f"stats?{RANGES_OF_SUMS[2]}&tz=UTC"
    assert site_of_sums.data(asked)["visitors"] == 3
    late = {"type": "pageview", "url": "https://example.com/late", "timestamp": day * DAY_MS + 22 * 3_600_000}
    site_of_sums.send(late | {"session_id": "session-late"})
    for _ in range(2):
        assert site_of_sums.data(asked)["visitors"] == 1
        for report in REPORTS[:12]:
            if "{1}" not in report:
                for other in questions(report, FILTERS, "", RANGES_OF_SUMS):
                    assert_equal(twin, site_of_sums, other)
        settle_day(twin, site_of_sums, day)


def test_more_counts_of_experiments_than_are_read(twin: SyncApp, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in (3, 5, 12, 30):
        monkeypatch.setattr(experiments, "MAX_ROWS", limit)
        for asked in questions("experiments?{0}", MEASURED_FILTERS):
            assert_equal(twin, site, asked)


@pytest.fixture(scope="module")
def goal(twin: SyncApp, site: Site) -> str:
    """Return the id of the first of some saved goals."""
    return saved_goal(twin, site)


def saved_goal(twin: SyncApp, site: Site) -> str:
    number = twin.app.registry.website(site.id).number
    goals = (
        {"name": "Buy", "type": "event", "match": ["filter_event_name=buy"], "value": "price", "currency": "EUR"},
        {"name": "Blog", "type": "page", "match": ["filter_pathname^=/b", "filter_referrer="], "value": None},
    )
    ids = [
        twin.run(twin.app.registry.change(add_definition, number, "goal", {"currency": None} | one, NOON_MS))
        for one in goals
    ]
    return str(ids[0])
