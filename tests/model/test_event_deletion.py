"""Deletion of events by filter: all reports equal those of a database that never had the events. Rewriting of paths:
they equal those of a database that has had the new paths from the beginning.

Each random history is given to two servers: from the first the events that match filters are deleted; the second gets
only the others. What an event carried as its acquisition is known of the event that decided it for its visit alone
(docs/decisions/acquisition-by-visit.md), so the second server gets it of these events.
"""

import contextlib
import json
import os
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tally.events.path_rules import PathRule
from tally.maintenance.verify import verdicts
from tally.reports.deletion_preview import DeletionPreview, preview
from tally.storage.database import connect_reader, snapshot
from tally.timestamps import DAY_MS, MINUTE_MS
from tally.transfer import event_deletion
from tests.support.app import NOON_MS
from tests.support.deletions import delete_events, filters_of, last_id
from tests.support.imports import Imports
from tests.support.read_api import SyncApp, sync_app_at
from tests.support.selection import examples
from tests.unit.transfer.test_undo import REPORTS, SPAN

EXAMPLES = int(os.environ.get("MODEL_EXAMPLES") or examples(24, default=4))
TRAFFIC = ("pageview", "screen_view", "event", "app_event")
CLICKS = (("/a", 0), ("/a", 1), ("/c", 1))
"""Page and age in days of events of heatmaps."""
GAP_MS = 30 * MINUTE_MS
MEASUREMENTS = ("ab_assign", "vitals")
Event = dict[str, Any]


class Filter:
    """A filter as it is written, and whether an event matches it; `visit`: the events of the event's visit."""

    def __init__(self, written: Sequence[str], matches: Callable[[Event, list[Event]], bool]) -> None:
        self.written, self.matches = written, matches


def _acquisition(visit: Sequence[Event]) -> Event | None:
    return next((event for event in visit if event.get("referrer")), None)


def _referrer(event: Event, visit: list[Event]) -> str:
    found = (_acquisition(visit) if event["type"] in TRAFFIC else event) or {}
    return str(found.get("referrer", ""))


def _entry(event: Event, visit: list[Event]) -> str:
    views = [one["path"] for one in visit if one["type"] in TRAFFIC[:2]]
    return views[0] if views and event["type"] in TRAFFIC else ""


FILTERS = (
    Filter(["filter_pathname=/a"], lambda event, visit: event["path"] == "/a"),
    Filter(["filter_pathname^=/a", "filter_pathname^=/b"], lambda event, visit: event["path"] in ("/a", "/b")),
    Filter(["filter_event_name=signup"], lambda event, visit: event.get("event_name") == "signup"),
    Filter(["filter_referrer=news.example"], lambda event, visit: _referrer(event, visit) == "news.example"),
    Filter(["filter_referrer!=news.example"], lambda event, visit: _referrer(event, visit) != "news.example"),
    Filter(["filter_entry_page=/b"], lambda event, visit: _entry(event, visit) == "/b"),
    Filter(
        ["filter_type=pageview", "filter_os=iOS"],
        lambda event, visit: event["type"] == "pageview" and event["os"] == "iOS",
    ),
    Filter(["filter_prop.plan=pro"], lambda event, visit: event.get("event_data", {}).get("plan") == "pro"),
    Filter(
        ["filter_type=ab_assign", "filter_type=vitals"], lambda event, visit: event["type"] in ("ab_assign", "vitals")
    ),
    Filter([], lambda event, visit: True),
)


def history(rng: random.Random, count: int, source: str) -> list[Event]:
    """Return events of a few visitors; those of a file have other times, and visitors that other files have too."""
    events = []
    for _ in range(count):
        kinds = ("pageview", "pageview", "screen_view", "event", "app_event", "vitals", "ab_assign", "ab_convert")
        kind = rng.choice(kinds if source != "live" else kinds[:2] + kinds[3:])
        day = rng.choice((0, 0, 1, 2)) if source == "live" else rng.choice((1, 19, 20, 21))
        event: Event = {
            "type": kind,
            "timestamp": NOON_MS - day * DAY_MS - rng.randrange(0, 180, 7) * MINUTE_MS,
            "path": rng.choice(("/a", "/b", "/c")),
            "who": rng.choice(("ann", "bob", "cleo", source)),
            "os": rng.choice(("Linux", "iOS")),
        }
        if kind == "pageview" and rng.random() < 0.4:
            event["referrer"] = rng.choice(("news.example", "blog.example"))
        if kind in ("event", "app_event"):
            event |= {"event_name": rng.choice(("signup", "m")), "event_data": {"plan": rng.choice(("pro", "x" * 900))}}
        if kind == "vitals":
            event["vitals"] = {"lcp": rng.randrange(5_000), "cls": round(rng.random(), 3)}
        if kind.startswith("ab"):
            event |= {"experiment": rng.choice("ef"), "variant": rng.choice("vw")}
        if kind == "ab_convert":
            event |= {"goal": rng.choice(("g", "h")), "value": 1.5}
        events.append(event)
    return events


def visits_of(events: Sequence[Event]) -> dict[int, list[Event]]:
    """Return the visit of each traffic event of one source, by its id()."""
    found: dict[int, list[Event]] = {}
    traffic = [event for event in events if event["type"] in TRAFFIC]
    for key in {(event["who"], event["timestamp"] // DAY_MS) for event in traffic}:
        own = [event for event in traffic if (event["who"], event["timestamp"] // DAY_MS) == key]
        # Of equal times the order of arrival decides.
        own.sort(key=lambda event: event["timestamp"])
        visit: list[Event] = []
        for event in own:
            if visit and event["timestamp"] - visit[-1]["timestamp"] > GAP_MS:
                visit = []
            visit.append(event)
            found[id(event)] = visit
    return found


class Twin:
    """A server with a website."""

    def __init__(self, sync_app: SyncApp, directory: Path) -> None:
        self.imports = Imports(sync_app, sync_app.site(), directory)

    def send(self, events: Sequence[Event]) -> None:
        """Send live events, in their order."""
        sent = []
        for event in events:
            own = {name: value for name, value in event.items() if name not in ("path", "who", "referrer")}
            own |= {"url": f"https://example.com{event['path']}", "session_id": f"session of {event['who']}"}
            if "referrer" in event:
                own["referrer"] = f"https://{event['referrer']}/"
            sent.append(own)
        self.imports.site.send(*sent)

    def take(self, events: Sequence[Event]) -> None:
        """Import events."""
        lines = []
        for event in events:
            own = {name: value for name, value in event.items() if name not in ("path", "who")}
            lines.append(own | {"pathname": event["path"], "visitor": event["who"], "hostname": "example.com"})
        self.imports.take("tally", "".join(json.dumps(line) + "\n" for line in lines))

    def click(self, path: str, day: int) -> None:
        """Send clicks of a heatmap."""
        points = [{"kind": "click", "x": 0.5, "y": 100 + 10 * n} for n in range(3)]
        url = f"https://example.com{path}"
        self.imports.site.send(
            {
                "type": "heatmap",
                "url": url,
                "timestamp": NOON_MS - day * DAY_MS,
                "points": points,
                "viewport_width": 800,
            }
        )

    def work(self) -> None:
        """Do the background work of the server."""
        work = self.imports.sync_app.app.background_work
        self.imports.sync_app.run(work.builder.work())

    def reports(self) -> dict[str, Any]:
        """Return the figures of all reports."""
        reports = (
            *REPORTS,
            "heatmap?pathname=/a",
            "heatmap?pathname=/c",
            "heatmap-pages",
            "journeys?start=pathname:/a",
            "top/channel",
            "realtime",
        )
        found = {}
        for report in reports:
            span = "" if report == "realtime" else f"{'&' if '?' in report else '?'}{SPAN}"
            answer = self.imports.site.get(report + span)
            assert answer.status == 200, (report, answer.text)
            found[report] = answer.json["data"]
        visits: dict[str, int] = {}
        rows = [row | {"id": None} for row in found["events?limit=1000"]]
        rows.sort(key=lambda row: json.dumps(row | {"visit": None}, sort_keys=True))
        found["events?limit=1000"] = [
            row | {"visit": row["visit"] and visits.setdefault(row["visit"], len(visits))} for row in rows
        ]
        return found

    def preview(self, written: Sequence[str], span: tuple[int, int], rule: PathRule | None = None) -> DeletionPreview:
        """Return what a deletion would delete, or a rule would rewrite."""
        with contextlib.closing(connect_reader(self.imports.db)) as reader, snapshot(reader):
            return preview(reader, 1, span, filters_of(written), last_id(reader), rule)

    def delete(self, written: Sequence[str], span: tuple[int, int], rule: PathRule | None = None) -> DeletionPreview:
        """Delete events or rewrite their paths, and return what the preview said."""
        app, run = self.imports.sync_app.app, self.imports.sync_app.run
        return delete_events(app, run, 1, filters_of(written), span, rule)

    def check(self) -> None:
        """Check the database."""
        with contextlib.closing(connect_reader(self.imports.db)) as reader:
            assert [one for one in verdicts(reader, 1) if one.fault] == []
            assert reader.execute("pragma integrity_check").fetchall() == [("ok",)]


@pytest.fixture
def twins(tmp_path: Path) -> Iterator[tuple[Twin, Twin]]:
    with contextlib.ExitStack() as open_:
        for name in "12":
            (tmp_path / name).mkdir()
        one, other = (
            Twin(open_.enter_context(sync_app_at(tmp_path / name / "analytics.db")), tmp_path / name) for name in "12"
        )
        yield one, other


def left_of(events: Sequence[Event], is_gone: Callable[[Event], bool]) -> list[Event]:
    """Return the events of one source that stay, each with the acquisition that is known of it."""
    visits, left = visits_of(events), []
    for event in events:
        visit = visits.get(id(event), [event])
        if is_gone(event):
            continue
        if event["type"] in TRAFFIC:
            source = _acquisition(visit)
            is_source = source is not None and source["timestamp"] == event["timestamp"]
            event = {name: value for name, value in event.items() if name != "referrer"}
            if source is not None and is_source:
                event["referrer"] = source["referrer"]
        left.append(event)
    return left


@pytest.mark.slow
@pytest.mark.random_examples
@pytest.mark.parametrize("seed", range(EXAMPLES))
def test_deleted_events_leave_nothing(twins: tuple[Twin, Twin], seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Live and imported events, days before and after they are stored by column, and events that arrive afterwards."""
    one, other = twins
    rng = random.Random(f"deletion {seed}")
    monkeypatch.setattr(event_deletion, "_ROWS", rng.choice((2, 7, 1_000)))
    monkeypatch.setattr(event_deletion, "_FEW_ROWS", rng.choice((2, 250)))
    filter = FILTERS[seed % len(FILTERS)]
    first, last = (0, 30) if seed % 3 else (rng.randrange(3), rng.randrange(3, 22))
    end_ms = (NOON_MS // DAY_MS + 1) * DAY_MS
    span = end_ms - last * DAY_MS, end_ms - first * DAY_MS
    if seed % 4 == 3:
        span = span[0] + 11 * 3_600_000, span[1]
    sources = {name: history(rng, 50, name) for name in ("live", "first", "second")}

    def is_deleted(event: Event, visit: list[Event]) -> bool:
        # A visit is of events of all times.
        return span[0] <= event["timestamp"] < span[1] and filter.matches(event, visit)

    whole = visits_of(sources["live"]) | visits_of(sources["first"] + sources["second"])

    def is_gone(event: Event) -> bool:
        return is_deleted(event, whole.get(id(event), [event]))

    for twin in twins:
        parts = {name: own if twin is one else left_of(own, is_gone) for name, own in sources.items()}
        twin.send(parts["live"])
        for path, day in CLICKS:
            by_page = all(name.startswith("filter_pathname") for name in filter.written)
            midnight_ms = (NOON_MS // DAY_MS - day) * DAY_MS
            in_span = span[0] <= midnight_ms and midnight_ms + DAY_MS <= span[1]
            if twin is one or not (by_page and in_span and filter.matches({"path": path}, [])):
                twin.click(path, day)
        for name in ("first", "second"):
            twin.take(parts[name])
    if rng.random() < 0.7:
        one.work()
    other.work()
    found = one.preview(filter.written, span)
    assert found.events == sum(is_gone(event) for own in sources.values() for event in own)
    assert one.delete(filter.written, span) == found
    assert one.preview(filter.written, span).events == 0
    assert_equal_from_now_on(twins, rng)


RULES = (
    PathRule("/a", "/b"),
    PathRule("/*", "/*"),
    PathRule("/c/**", "/c"),
    PathRule("*@*.*", "*"),
    PathRule("/a/*", "/a"),
)


@pytest.mark.slow
@pytest.mark.random_examples
@pytest.mark.parametrize("seed", range(EXAMPLES))
def test_rewritten_paths_are_those_of_the_beginning(
    twins: tuple[Twin, Twin], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Live and imported events, days before and after they are stored by column, and events that arrive afterwards."""
    one, other = twins
    rng = random.Random(f"rewriting {seed}")
    monkeypatch.setattr(event_deletion, "_ROWS", rng.choice((2, 7, 1_000)))
    monkeypatch.setattr(event_deletion, "_FEW_ROWS", rng.choice((2, 250)))
    rule = RULES[seed % len(RULES)]
    first, last = (0, 30) if seed % 3 else (rng.randrange(3), rng.randrange(3, 22))
    end_ms = (NOON_MS // DAY_MS + 1) * DAY_MS
    span = end_ms - last * DAY_MS, end_ms - first * DAY_MS
    paths = ("/a", "/b", "/c", "/a/ann@example.com", "/c/1/2", "/a/bob%40example.com")
    sources = {name: history(rng, 50, name) for name in ("live", "first", "second")}
    for event in (event for events in sources.values() for event in events):
        event["path"] = rng.choice(paths)

    def rewritten(event: Event) -> Event:
        is_covered = span[0] <= event["timestamp"] < span[1]
        return event | {"path": rule.apply(event["path"])} if is_covered else event

    for twin in twins:
        parts = sources if twin is one else {name: [*map(rewritten, own)] for name, own in sources.items()}
        twin.send(parts["live"])
        for path, day in (*CLICKS, ("/c/1/2", 0), ("/a/ann@example.com", 1)):
            midnight_ms = (NOON_MS // DAY_MS - day) * DAY_MS
            in_span = span[0] <= midnight_ms and midnight_ms + DAY_MS <= span[1]
            twin.click(rule.apply(path) if twin is other and in_span else path, day)
        for name in ("first", "second"):
            twin.take(parts[name])
    if rng.random() < 0.7:
        one.work()
    other.work()
    # What reports keep in memory must not hold afterwards.
    one.reports()
    changed = [event for own in sources.values() for event in own if rewritten(event) != event]
    found = one.preview((), span, rule)
    assert found.events == len(changed)
    assert found.paths == len({event["path"] for event in changed})
    assert all(rule.apply(old) == new for old, new in found.renamed)
    assert one.delete((), span, rule) == found
    assert one.preview((), span, rule).events == 0
    assert_equal_from_now_on(twins, rng)


def assert_equal_from_now_on(twins: tuple[Twin, Twin], rng: random.Random) -> None:
    """Compare reports at once, after the background work, and after further events; and check the changed database."""
    one, other = twins
    expected = other.reports()
    assert_equal(one.reports(), expected)
    one.work()
    assert_equal(one.reports(), expected)
    one.check()
    later = history(rng, 12, "live")
    for twin in twins:
        twin.send(later)
        twin.work()
    one.check()
    assert_equal(one.reports(), other.reports())


def assert_equal(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """Compare reports one by one, so that a failure names one."""
    for report, data in expected.items():
        assert found[report] == data, report
