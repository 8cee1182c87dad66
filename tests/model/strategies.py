"""Hypothesis strategies for `test_model.py`: scenarios of delivered events and queries.

A scenario is small on purpose: up to 4 session_ids, 2 addresses, 3 User-Agents and few values for each field, so
that ties, shared visitors and joined visits are frequent. Times are not spread evenly: most are another time of
the scenario plus an offset at which a rule changes its result (30:00.000, 30:00.001, 72 h, 5 minutes, midnights,
clock changes), so that visits are joined, extended and split by a millisecond.

- `scenarios()` draws a Scenario: the instant it starts and a list of steps: Delivery, ConcurrentDeliveries,
  Restart, BuildRollups and QueryStep.
- Texts are drawn ready to send. Expected responses come from the model, not from here.
- Hypothesis shrinks towards the first value of each list, so the simplest value comes first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
from typing import Any, TypeVar
from urllib.parse import urlsplit

from hypothesis import strategies as st

from tests.model.reference import (
    ACQUISITION,
    ACTIVE_MS,
    DAY_MS,
    FIELDS,
    GOAL_ORDERS,
    GOALS,
    HOUR_MS,
    MAX_AGE_MS,
    MAX_AHEAD_MS,
    MEASUREMENT_FIELDS,
    MINUTE_MS,
    SEGMENTS,
    VISIT_PAGES,
    Query,
    day_start,
    instant,
    local,
)

T = TypeVar("T")

DOMAIN = "example.com"
UNKNOWN = "00000000-0000-4000-8000-000000000000"

# User-Agents that have only one reading, with their dimensions. Chrome freezes the Windows version: no os_version.
CHROME_WINDOWS = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36"
)
SAFARI_IPHONE = (
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko)"
    " Version/17.5 Mobile/15E148 Safari/604.1"
)
OKHTTP = "okhttp/4.12.0"  # an HTTP library of apps: no browser, system or device
USER_AGENTS: Mapping[str, Mapping[str, str]] = {
    CHROME_WINDOWS: {"browser": "Chrome", "browser_version": "142", "os": "Windows", "device": "desktop"},
    SAFARI_IPHONE: {
        "browser": "Safari",
        "browser_version": "17",
        "os": "iOS",
        "device": "mobile",
        "os_version": "17.5",
    },
    OKHTTP: {},
}
# X-Forwarded-For -> normalised address and its country: one of the University of Tokyo, and one of the range for
# documentation, which has no country. The two notations of each are the same client.
ADDRESSES = {
    "133.11.0.1": ("133.11.0.1", "JP"),
    "::ffff:133.11.0.1": ("133.11.0.1", "JP"),
    "2001:db8::1": ("2001:db8::1", None),
    "2001:0DB8:0:0::1": ("2001:db8::1", None),
}
ACCEPT_LANGUAGE = {None: None, "de-CH, de;q=0.9, en;q=0.8": "de-CH", "fr": "fr"}

# Zones and instants at which their clocks change: checked against the zone database by test_model.
CLOCK_CHANGES = {
    "UTC": ("2026-11-18T12:00Z",),
    "Europe/Berlin": ("2026-03-29T01:00Z", "2026-10-25T01:00Z"),
    "America/New_York": ("2026-03-08T07:00Z", "2026-11-01T06:00Z"),
    "America/Havana": ("2026-03-08T05:00Z", "2025-11-02T05:00Z"),  # midnight missing; midnight twice
    "Australia/Lord_Howe": ("2026-10-03T15:30Z", "2026-04-04T15:00Z"),  # half an hour
    "Pacific/Chatham": ("2026-09-26T14:00Z", "2026-04-04T14:00Z"),  # +12:45 and +13:45
    "Africa/Casablanca": ("2026-02-15T02:00Z", "2026-03-22T02:00Z"),  # Ramadan
    "Asia/Beirut": ("2026-03-28T22:00Z", "2026-10-24T21:00Z"),  # midnight missing; 23:00 twice
    "America/Santiago": ("2026-04-05T03:00Z", "2026-09-06T04:00Z"),
    "Asia/Kathmandu": ("2026-06-30T18:15Z",),  # +05:45, no changes: a local midnight
    "Asia/Kolkata": ("2026-06-30T18:30Z",),  # +05:30
    "Pacific/Apia": ("2011-12-30T10:00Z",),  # 2011-12-30 does not exist
    "America/St_Johns": ("2010-11-07T02:31Z", "2026-03-08T05:30Z"),  # 00:01 back to 23:01 of the day before
}

OFFSETS_MS = (
    0,
    10 * MINUTE_MS,
    *(30 * MINUTE_MS,) * 2,  # same visit
    30 * MINUTE_MS + 1,  # new visit
    -10 * MINUTE_MS,
    *(-30 * MINUTE_MS,) * 2,  # moves the start of a visit back
    -30 * MINUTE_MS - 1,
    *(60 * MINUTE_MS,) * 2,  # a late event between the two joins both visits
    60 * MINUTE_MS + 1,
    -60 * MINUTE_MS,
    1,
    -1,
    5 * MINUTE_MS + 1,
    90 * MINUTE_MS + 500,
    DAY_MS,
    -DAY_MS,
)
# Of a scenario: events of a delivery, filters of a query.
MAX_EVENTS, MAX_FILTERS = 14, 2
WAITS_MS = (0, 1, 0, 5 * MINUTE_MS, 30 * MINUTE_MS, 31 * MINUTE_MS, 6 * HOUR_MS, DAY_MS, MAX_AGE_MS, MAX_AGE_MS + 1)

URLS = (
    "https://example.com/",
    "https://example.com",
    "https://EXAMPLE.com:8443/Shop//a%20b/?utm_source=News&x=1&utm_medium=e-mail&utm_campaign=caf%C3%A9+1#top",
    "http://www.example.com/shop/?utm_source=app&utm_medium=#utm_medium=no",
    "https://example.com/shop",
    "https://bücher.example.com/%C3%BC?utm_campaign=%3D1%2B1&utm_term=",
    # Other spellings of /%C3%BC and of /shop.
    "https://example.com/%c3%bc",
    "https://example.com/a/../ü#top",
    "https://example.com/%73ho%70",
    "https://example.com/shop/?utm_content=top&utm_term=red+shoes",
    "HTTPS://xn--bcher-kva.example.com/Stra%C3%9Fe?utm_source=News",
)
NAMES = ("Home", "shop", "/shop", "app", "Ünïcode 画面", "=1+1", "n" * 500)
REFERRERS = (
    "https://www.google.com/search?q=1",
    "https://GOOGLE.com",
    "https://example.com/shop",
    "https://Blog.example.com/",
    "https://notexample.com/",
    "https://example.com.evil.example/",
    "android-app://com.google.android.gm",
    "https://t.co:443/abc",
    "",
    None,
)
CONTEXT_VALUES: Mapping[str, tuple[str | None, ...]] = {
    # The last two texts sort differently by UTF-16 and by code point.
    "platform": ("web", "Web", "=cmd()", "\uff5e", "\U0001f600", "", None),
    "app_version": ("1.9", "1.10", " 1.9", "-1", "", None),
    "os_version": ("14", "17.5", "@x", "", None),
    "language": ("de", "EN-us", "en-US", "zh-hant-tw", "", None),
    "browser": ("Chrome", "chrome", "Safari", "Ünï", "", None),
    "os": ("Windows", "iOS", "Plan 9", "", None),
    "device": ("desktop", "mobile", "tv", "", None),
}
SESSIONS = ("session-a", None, "session-A", "séssion-ß", "s" * 64)
EVENT_NAMES = ("signup", "signup", "signup", "Signup", "+49", "kauf ü", "x" * 200)
EVENT_DATA: tuple[Any, ...] = (
    None,
    {"plan": "pro", "n": 3, "x": 1.5, "b": True, "z": None},
    {"é": "ü"},
    {},
    {"plan": 1, "n": "3", "x": -0.5, "b": 1, "z": False},
)
VITALS = (
    {"lcp": 2500.5, "cls": 0.1},
    {"inp": 200, "ttfb": 0.004},
    {"lcp": 4000.001, "inp": 200.5, "cls": 0.26},
    {"lcp": 2500, "fcp": 812.3, "cls": 0},
)
POINTS = (
    ({"x": 0.5, "y": 10, "kind": "click"}, {"x": 1, "y": 2000, "kind": "scroll"}),
    ({"x": 1, "y": 19.99, "kind": "click"}, {"x": 0, "y": 20, "kind": "click"}),
    ({"x": 0, "y": 1999.5, "kind": "scroll"},),
)
VIEWPORTS = (1280, 1023.5, 390)
VALUES = (None, 3, 9.5, -2, 0)

# Values of filters: values of the fields above, values that no event has, and the empty text for unset.
FILTER_VALUES: Mapping[str, tuple[str, ...]] = {
    "pathname": ("/", "/shop", "/shop/", "/Home", "/Shop//a b/", "//shop", "/nowhere", "", "/ü", "/%c3%bc"),
    "referrer": ("google.com", "t.co", "notexample.com", "Google.com", ""),
    "country": ("JP", "", "jp"),
    "region": ("JP-13", ""),
    "city": ("Tokyo", ""),
    "browser_version": ("142", "17", "42", ""),
    "hostname": ("example.com", "www.example.com", "xn--bcher-kva.example.com", ""),
    "utm_source": ("News", "news", "app", ""),
    "utm_medium": ("e-mail", ""),
    "utm_campaign": ("café 1", "=1+1", ""),
    "utm_content": ("top", ""),
    "utm_term": ("red shoes", ""),
    "channel": ("Direct", "Organic search", "Referral", "Email", "Other", "direct", ""),
    "entry_page": ("/", "/shop", "/shop/", "/Home", "/nowhere", "", "/%c3%BC"),
    "exit_page": ("/", "/shop", "/Shop//a%20b/", "/app", ""),
    "event_name": ("signup", "Signup", "+49", "never-sent", ""),
    "type": ("pageview", "screen_view", "event", "app_event", "vitals", ""),
    **{name: tuple(dict.fromkeys(value or "" for value in values)) for name, values in CONTEXT_VALUES.items()},
}
_UNEQUAL = {*FIELDS, *VISIT_PAGES, "event_name", "type"} ^ set(FILTER_VALUES)
assert not _UNEQUAL, f"add to FILTER_VALUES, or remove there: {_UNEQUAL}"

KEY_FIGURES = (*("visitors", "visits", "pageviews", "events", "bounce_rate", "views_per_visit", "visit_duration"),)

# Descriptive fields that break their rules: the event is stored without them, or with a part.
BAD_DESCRIPTIONS: tuple[Mapping[str, Any], ...] = (
    *({"device": "phone"}, {"platform": 5}, {"platform": "p" * 101}, {"referrer": "about:blank"}),
    *({"language": "not a tag"}, {"os": "\0"}, {"app_version": ["1"]}, {"referrer": "partner.example"}),
)
# Each makes a valid event invalid.
INVALID_FIELDS: tuple[Mapping[str, Any], ...] = (
    {"type": "page_view"},
    {"type": None},
    {"website_id": UNKNOWN},
    {"website_id": "example.com"},
    {"session_id": "seven77"},
    {"session_id": "x" * 65},
    {"url": "/only/a/path"},
    {"url": "ftp://example.com/"},
    {"timestamp": True},
    {"timestamp": "yesterday"},
    {"timestamp": 1.5},
)
TYPES = (
    *("pageview",) * 8,
    *("screen_view",) * 3,
    *("event",) * 4,
    *("app_event",) * 2,
    *("vitals", "heatmap") * 2,
    *("ab_assign", "ab_convert"),
)


@dataclass(frozen=True, slots=True)
class Delivery:
    """One request to the collect endpoint, `wait_ms` after the previous step."""

    wait_ms: int
    forwarded: str
    user_agent: str
    accept_language: str | None
    events: tuple[Mapping[str, Any], ...]
    context: Mapping[str, Any] | None = None
    id_in: str = "batch"  # where website_id is set: batch, event or both; mixed: events of both websites
    single: bool = False

    def body(self, websites: Sequence[str]) -> dict[str, Any]:
        """Return the JSON body. All events belong to the first of two websites unless `id_in` is mixed."""
        ids = [websites[n % 2 if self.id_in == "mixed" else 0] for n in range(len(self.events))]
        events_with_id = [{"website_id": id, **event} for id, event in zip(ids, self.events, strict=True)]
        if self.single and len(self.events) == 1:
            return events_with_id[0]
        body: dict[str, Any] = {"events": list(self.events) if self.id_in == "batch" else events_with_id}
        if self.id_in != "event":
            body["website_id"] = UNKNOWN if self.id_in == "both" else websites[0]  # the event's own id wins
        return body if self.context is None else body | {"context": self.context}


@dataclass(frozen=True, slots=True)
class ConcurrentDeliveries:
    """Requests sent at the same time, each of them twice.

    Their order is random, so the result must not depend on it: each event has its own event_id, events of
    different requests have different timestamps, and no conversion depends on an assignment.
    """

    wait_ms: int
    deliveries: tuple[Delivery, ...]


@dataclass(frozen=True, slots=True)
class Restart:
    """Stop the server and start it on the same file."""


@dataclass(frozen=True, slots=True)
class BuildRollups:
    """Complete the pending background work on rollups."""


@dataclass(frozen=True, slots=True)
class QueryStep:
    """A query, its format, and what happens between two of its pages."""

    query: Query
    second_website: bool = False
    as_csv: bool = False
    wait_between_pages_ms: int = 0
    event_between_pages: bool = False


@dataclass(frozen=True, slots=True)
class Scenario:
    """The start of the clock, a time zone, and the steps."""

    start_ms: int
    zone: str
    steps: tuple[Delivery | ConcurrentDeliveries | Restart | BuildRollups | QueryStep, ...]


@dataclass(slots=True)
class Timeline:
    """What was drawn so far: time zone, current time, and times and contents of the events."""

    zone: str
    now_ms: int
    events_ms: list[int] = field(default_factory=list)
    drawn: int = 0
    events_with_id: list[dict[str, Any]] = field(default_factory=list)  # events with an event_id
    sent: dict[str | None, list[tuple[int, str]]] = field(default_factory=dict)  # (time, funnel step) by session_id
    names: list[str] = field(default_factory=list)  # names of custom events with event_data
    pages: list[str] = field(default_factory=list)  # pathnames of heatmap events
    offset_ms: int = 0  # in concurrent requests: makes their timestamps differ

    def record(self, event: Mapping[str, Any], at_ms: int) -> None:
        """Record what queries can refer to."""
        kind = event["type"]
        page = "/" + event["name"] if kind == "screen_view" else urlsplit(event.get("url") or "").path or "/"
        if kind in ("event", "app_event"):
            self.sent.setdefault(event.get("session_id"), []).append((at_ms, f"event_name:{event['event_name']}"))
            self.names += [event["event_name"]] if event.get("event_data") else []
        elif kind in ("pageview", "screen_view"):
            self.sent.setdefault(event.get("session_id"), []).append((at_ms, f"pathname:{page}"))
        elif kind == "heatmap":
            self.pages.append(page)

    def consecutive_steps(self) -> list[tuple[str, str]]:
        """Return pairs of funnel steps that one session completed within half an hour."""
        runs = [sorted(own) for own in self.sent.values()]
        near = [pair for own in runs for pair in pairwise(own) if pair[1][0] - pair[0][0] <= 30 * MINUTE_MS]
        return list(dict.fromkeys((one[1], second_website[1]) for one, second_website in near))

    @property
    def boundaries_ms(self) -> list[int]:
        """Return the midnights and clock changes within the maximum age of an event."""
        today = local(self.now_ms, self.zone).date()
        midnights = [day_start(self.zone, today - timedelta(days=n)) for n in range(3)]
        changes = [read_utc(text) for text in CLOCK_CHANGES[self.zone]]
        boundaries = [*changes, self.now_ms // DAY_MS * DAY_MS, *midnights]
        return [at_ms for at_ms in boundaries if 0 <= self.now_ms - at_ms <= MAX_AGE_MS] or [self.now_ms - HOUR_MS]


def read_utc(text: str) -> int:
    """Return the instant of a text of CLOCK_CHANGES."""
    return instant(datetime.strptime(text, "%Y-%m-%dT%H:%MZ").replace(tzinfo=UTC))


@cache
def below(end: int) -> st.SearchStrategy[int]:
    """Return a strategy for integers in [0, end). Cached: creating a strategy costs more than drawing from it."""
    return st.integers(0, end - 1)


def pick(draw: st.DrawFn, values: Sequence[T]) -> T:
    """Draw one of some values; shrinks to the first."""
    return values[draw(below(len(values)))]


def rng(draw: st.DrawFn, count: int) -> bool:
    """Draw True once in `count` times, on average."""
    return draw(below(count)) == count // 2


def time_formats(at_ms: int, hours: int) -> list[Any]:
    """Return an instant in the formats a client may send: integer, integral float, ISO 8601 with and without offset."""
    moment = datetime.fromtimestamp(at_ms // 1000, UTC) + timedelta(milliseconds=at_ms % 1000)
    there = moment + timedelta(hours=hours, minutes=30 if hours > 0 else 0)
    text = moment.replace(tzinfo=None).isoformat(timespec="milliseconds")
    offset = f"{'+' if hours >= 0 else '-'}{abs(hours):02}:{30 if hours > 0 else 0:02}"
    return [
        at_ms,
        text + "Z",
        float(at_ms),
        text,
        text + "999Z",
        there.replace(tzinfo=None).isoformat(timespec="milliseconds") + offset,
    ]


def event_time(draw: st.DrawFn, timeline: Timeline) -> int:
    """Draw an instant: another one of the scenario plus an offset, within the last 72 hours; or a limit."""
    kind = pick(draw, ["event"] * 9 + ["boundary"] * 3 + ["now"] * 2 + ["limit"])
    if kind == "now":
        return timeline.now_ms
    if kind == "limit":
        ahead, late, active = timeline.now_ms + MAX_AHEAD_MS, timeline.now_ms - MAX_AGE_MS, timeline.now_ms - ACTIVE_MS
        return pick(draw, [late, ahead, active, late - 1, ahead + 1, active - 1, timeline.now_ms + 1])
    bases_ms = timeline.boundaries_ms if kind == "boundary" else [timeline.now_ms, *timeline.events_ms]
    at_ms = pick(draw, bases_ms) + pick(draw, OFFSETS_MS)
    at_ms = timeline.now_ms - (timeline.now_ms - at_ms) % MAX_AGE_MS
    timeline.events_ms.append(at_ms)
    return at_ms


def fields(pools: Mapping[str, Sequence[Any]], names: Sequence[str]) -> st.SearchStrategy[dict[str, Any]]:
    """Return a strategy for objects with some of `names`, each with a value of its pool."""
    return st.fixed_dictionaries({}, optional={name: st.sampled_from(pools[name]) for name in names})


CONTEXTS = fields(CONTEXT_VALUES, list(CONTEXT_VALUES))
IGNORED_FIELDS: tuple[Mapping[str, Any], ...] = (
    {},
    {},
    {},
    {"unknown": {"a": [1]}, "event_name": "not its own", "referrer": "https://t.co/"},
    {"name": "Named", "event_data": None, "session_id": None},
)


def type_fields(draw: st.DrawFn, kind: str, session: str | None, at_once: bool) -> dict[str, Any]:
    """Draw the required fields of a type and some of its optional fields."""
    if kind in ("pageview", "event", "vitals", "heatmap"):
        own: dict[str, Any] = {"url": pick(draw, URLS)}
    else:
        own = {"name": pick(draw, NAMES), "url": pick(draw, (None, *URLS[:2]))}
    if kind in ("pageview", "screen_view", "event"):
        own["referrer"] = pick(draw, REFERRERS)
    if kind in ("event", "app_event"):
        own |= {
            "event_name": pick(draw, EVENT_NAMES),
            "event_data": pick(draw, EVENT_DATA),
        }
    if kind == "vitals":
        own["vitals"] = pick(draw, VITALS)
    if kind == "heatmap":
        own |= {"points": list(pick(draw, POINTS)), "viewport_width": pick(draw, VIEWPORTS)}
    if kind in ("ab_assign", "ab_convert"):
        # A visitor has one variant only: which of two assignments counts is tested elsewhere.
        own |= {"experiment": "price", "variant": "A" if session is None else session[-1]}
    if kind == "ab_convert":
        own |= {"goal": pick(draw, ("buy", None)), "value": pick(draw, VALUES)}
        own["variant"] = own["variant"] if at_once else pick(draw, (own["variant"], None))
    if kind in MEASUREMENT_FIELDS and not draw(below(6)):
        # A client that sends required fields only.
        own = {
            name: value for name, value in own.items() if name not in MEASUREMENT_FIELDS[kind] or draw(below(3)) == 0
        }
    return own


@st.composite
def events(
    draw: st.DrawFn, timeline: Timeline, sessions: Sequence[str | None], contexts: Sequence[Any]
) -> dict[str, Any]:
    """Draw one event."""
    kind = pick(draw, TYPES)
    session = pick(draw, sessions)
    event: dict[str, Any] = {"type": kind, **pick(draw, contexts), **pick(draw, IGNORED_FIELDS)}
    if session is not None:
        event["session_id"] = session
    event |= type_fields(draw, kind, session, timeline.offset_ms > 0)
    at_ms = event_time(draw, timeline) - timeline.offset_ms
    if at_ms != timeline.now_ms:
        event["timestamp"] = pick(draw, time_formats(at_ms, pick(draw, (0, 5, -3))))
    extra = draw(below(20))
    timeline.drawn += 1
    timeline.record(event, at_ms)
    if timeline.offset_ms:
        event["event_id"] = f"at-once-{timeline.drawn}"
    elif extra < 5 and not kind.startswith("ab_"):
        event["event_id"] = ("copy-1", "copy-1", "copy-1", "copy-2", "ü" * 64)[extra]
        timeline.events_with_id.append(event)
    elif extra < 8 and timeline.events_with_id:
        # The same content, at another time and from another sender.
        own = ("session_id", "timestamp")
        rebuilt = {name: value for name, value in pick(draw, timeline.events_with_id).items() if name not in own}
        return rebuilt | {name: event[name] for name in own if name in event}
    if extra == 12:
        event |= pick(draw, INVALID_FIELDS)
    if extra == 13:
        event |= pick(draw, BAD_DESCRIPTIONS)
    return event


@st.composite
def deliveries(
    draw: st.DrawFn, timeline: Timeline, sessions: Sequence[str | None], contexts: Sequence[Any], max_events: int
) -> Delivery:
    """Draw one request; `timeline.now_ms` advances by its wait."""
    wait_ms = pick(draw, WAITS_MS)
    timeline.now_ms += wait_ms
    drawn = draw(st.lists(events(timeline, sessions, contexts), min_size=1, max_size=max_events))
    context = pick(draw, [None, *contexts])
    if context is not None:
        context = {**context, "session_id": "ignored-here", "url": "https://example.com/ignored"}
    return Delivery(
        wait_ms,
        pick(draw, list(ADDRESSES)),
        pick(draw, list(USER_AGENTS)),
        pick(draw, list(ACCEPT_LANGUAGE)),
        tuple(drawn),
        context,
        pick(draw, ["batch", "event", "both", "mixed"]),
        rng(draw, 2),
    )


@st.composite
def concurrent_deliveries(
    draw: st.DrawFn, timeline: Timeline, sessions: Sequence[str | None], contexts: Sequence[Any], max_events: int
) -> ConcurrentDeliveries:
    """Draw requests sent at the same time."""
    drawn = []
    for n in range(2 + draw(below(3))):
        timeline.offset_ms = 100 * (n + 1)  # no sum of offsets is a tenth of a second
        drawn.append(draw(deliveries(timeline, sessions, contexts, max_events)))
    timeline.offset_ms = 0
    return ConcurrentDeliveries(sum(delivery.wait_ms for delivery in drawn), tuple(drawn))


def visits_and_late_event(draw: st.DrawFn, timeline: Timeline, session: str) -> tuple[list[Delivery], list[Delivery]]:
    """Draw two visits an hour apart, and a late event halfway that joins them or misses one by 1 ms."""
    if rng(draw, 2):
        return [], []
    start_ms = timeline.now_ms - pick(draw, (2 * HOUR_MS, 12 * HOUR_MS, DAY_MS))
    halfway_ms = 30 * MINUTE_MS + pick(draw, (0, 0, 0, 1, -1))
    timeline.events_ms += [start_ms, start_ms + halfway_ms, start_ms + HOUR_MS]

    def delivery(*offsets_ms: int) -> Delivery:
        event = {"session_id": session, "event_name": "signup"}
        kinds = [(pick(draw, ("pageview", "event")), pick(draw, URLS), start_ms + ms) for ms in offsets_ms]
        found = [{**event, "type": kind, "url": url, "timestamp": at_ms} for kind, url, at_ms in kinds]
        for one in found:
            timeline.record(one, one["timestamp"])
        return Delivery(0, next(iter(ADDRESSES)), CHROME_WINDOWS, None, tuple(found))

    return [delivery(0, HOUR_MS)], [delivery(halfway_ms)]


# --- queries


def range_end_formats(at_ms: int, zone: str) -> list[tuple[int, str]]:
    """Return an end of a range in the formats a client may send, each with roughly its instant."""
    here = local(at_ms, zone)
    exact, wall = here.isoformat(timespec="milliseconds"), here.replace(tzinfo=None)
    earlier = wall - timedelta(minutes=30)
    in_utc = local(at_ms, "UTC").replace(tzinfo=None).isoformat(timespec="milliseconds")
    return [
        (at_ms, exact),
        (at_ms, here.date().isoformat()),
        (at_ms, in_utc + "Z"),
        (at_ms, exact[:-6] + exact[-6:].replace("+", " ")),
        (at_ms, wall.isoformat(timespec="milliseconds")),
        (at_ms - 30 * MINUTE_MS, earlier.isoformat(timespec="minutes")),  # may be missing
        (at_ms, in_utc + "001Z"),  # rounded up to the next millisecond
        (at_ms + DAY_MS, (here.date() + timedelta(days=1)).isoformat()),
        (at_ms - DAY_MS, (here.date() - timedelta(days=1)).isoformat()),
    ]


@st.composite
def ranges(draw: st.DrawFn, timeline: Timeline, zone: str) -> list[tuple[str, str]]:
    """Draw from and to: none, one or both; two dates, or any mixture of formats."""
    shape = pick(draw, ["dates", "none", "none", "both", "both", "both", "from", "to"])
    if shape == "none":
        return []
    edges = []
    for _ in range(2):
        bases_ms = timeline.boundaries_ms if rng(draw, 2) else [timeline.now_ms, *timeline.events_ms]
        at_ms = pick(draw, bases_ms) + pick(draw, (0, 1, -1, 7))
        formats = range_end_formats(at_ms, zone)
        edges.append(pick(draw, [formats[1], formats[7], formats[8]] if shape == "dates" else formats))
    if shape in ("from", "to"):
        return [(shape, edges[0][1])]
    first, last = sorted(edges)
    return [("from", first[1]), ("to", last[1])]


ALL_FILTERS = [(name, value) for name, values in FILTER_VALUES.items() for value in values]
# Half of the filters match some events of a visit only: types and pathnames vary within a visit.
TYPE_AND_PATH_FILTERS = [(name, value) for name, value in ALL_FILTERS if name in ("type", "pathname") and value]
OPERATOR_FILTERS = [
    *((f"{name}!", value) for name, value in ALL_FILTERS),
    *(
        *(("pathname*", "s"), ("pathname*", "h"), ("pathname^", "/s"), ("pathname^", "/"), ("pathname$", "/")),
        *(("pathname*", "_"), ("pathname$", "%"), ("referrer$", ".com"), ("country*", "J"), ("event_name^", "s")),
        *(("event_name*", "4"), ("hostname*", "example"), ("type^", "app"), ("type*", "e"), ("utm_source*", "ew")),
        *(("entry_page^", "/s"), ("exit_page*", "h"), ("utm_term$", "s"), ("pathname*", "ü"), ("entry_page$", "%bc")),
    ),
]
PROPERTY_FILTERS = [
    (f"prop.{name}{operator}", value)
    for name in ("plan", "b", "nothing")
    for operator, value in (("", ""), ("!", ""), ("", "pro"), ("!", "pro"), ("*", "r"), ("", "1"), ("!", "true"))
]
VISIT_FILTERS = [(name, value) for name, value in ALL_FILTERS if name in (*ACQUISITION, "channel", *VISIT_PAGES)]
FILTERS = (
    st.sampled_from(TYPE_AND_PATH_FILTERS)
    | st.sampled_from(ALL_FILTERS)
    | st.sampled_from(VISIT_FILTERS)
    | st.sampled_from(OPERATOR_FILTERS)
    | st.sampled_from(PROPERTY_FILTERS)
)
TOP_LISTS = [f"top/{name}" for name in (*FIELDS, *VISIT_PAGES)]
HEATMAPS = ["heatmap", "heatmap-pages"]
PATHS = {
    "traffic": [
        *("stats", "timeseries") * 3,
        *("goals/report",) * 2,
        *("realtime", "entry-pages", "exit-pages", "funnel", "funnel", "journeys", "journeys", "vitals", "experiments"),
    ],
    "lists": ["events", "events", "stats", *TOP_LISTS, "event-names", "event-data", "event-data", *HEATMAPS],
}
LIMITED = ("events", "event-names", "entry-pages", "exit-pages", "event-data", "heatmap-pages")
# Mostly steps that many visits complete; then some that few do, and one that none does.
STEPS = (
    *("pathname:/", "event_name:signup") * 3,
    *(
        "pathname:/shop",
        "pathname:/shop/",
        "pathname:/Home",
        "pathname:/ü",
        "event_name:Signup",
        "event_name:+49",
        "pathname:/nowhere",
    ),
)
FUNNEL_STEPS = (*STEPS, *(f"goal:{id}" for id in GOALS))
# These reports use few of the events: half of their queries have neither range nor filters.
SMALL_REPORTS = ("funnel", "journeys", "event-data", "event-names", "vitals", "experiments", *HEATMAPS)


# The model has only the counts of the last two; stats has no CSV.
WITHOUT_CSV = ("stats", "goals/report", "vitals", "experiments")


def accepts_filter(path: str, name: str) -> bool:
    """Return whether an endpoint accepts a filter."""
    if path in HEATMAPS:
        return False
    no_traffic = (*VISIT_PAGES, "type", "event_name")
    without = {"event-data": ("event_name",), "vitals": no_traffic, "experiments": no_traffic}
    if path in without and name.startswith("prop."):
        return path == "event-data"
    return name.rstrip("!*^$") not in without.get(path, ())


def endpoint_params(draw: st.DrawFn, path: str, timeline: Timeline) -> list[tuple[str, str]]:
    """Draw the parameters of this endpoint only."""
    if path == "funnel":
        consecutive_steps = timeline.consecutive_steps()
        first_two = (
            pick(draw, consecutive_steps)
            if consecutive_steps and not rng(draw, 4)
            else (pick(draw, FUNNEL_STEPS), pick(draw, FUNNEL_STEPS))
        )
        more = (pick(draw, FUNNEL_STEPS) for _ in range(pick(draw, (0, 0, 0, 1, 2, 6))))
        return [("step", step) for step in (*first_two, *more)]
    if path == "journeys":
        consecutive_steps = timeline.consecutive_steps()
        start = pick(draw, pick(draw, consecutive_steps)) if consecutive_steps else pick(draw, STEPS)
        return [
            ("start", start),
            *([("direction", "previous")] if rng(draw, 2) else []),
            *([("steps", pick(draw, ("1", "2", "5")))] if rng(draw, 2) else []),
            *([("limit", pick(draw, ("1", "2", "20")))] if not rng(draw, 3) else []),
        ]
    if path == "event-data":
        name = pick(draw, [None, None, "plan", "b", "nothing"])
        return [
            ("event_name", pick(draw, [*timeline.names, pick(draw, EVENT_NAMES)])),
            *([("property", name)] if name else []),
        ]
    if path == "vitals":
        by = pick(draw, [None, "pathname", "device"])
        return [("by", by), ("metric", pick(draw, ("lcp", "inp", "cls")))] if by else []
    found = [("pathname", pick(draw, [*timeline.pages, "/nowhere"]))] if path == "heatmap" else []
    if path in HEATMAPS and rng(draw, 3):
        found.append(("filter_device", pick(draw, ("desktop", "mobile"))))
    return found


def saved_params(draw: st.DrawFn, path: str) -> list[tuple[str, str]]:
    """Draw a goal whose figures are added, a segment, and a goal that is a filter."""
    found = []
    if (path in ("stats", "timeseries") or path.startswith("top/")) and rng(draw, 2):
        found.append(("goal", pick(draw, list(GOALS))))
    if accepts_filter(path, "event_name"):
        found += [("segment", pick(draw, list(SEGMENTS)))] if rng(draw, 8) else []
        found += [("filter_goal", pick(draw, list(GOALS)))] if rng(draw, 8) else []
    return found


@st.composite
def queries(draw: st.DrawFn, timeline: Timeline, paths: Sequence[str], max_filters: int) -> QueryStep:
    """Draw one query."""
    path = pick(draw, paths)
    second_website = rng(draw, 6)
    if path == "realtime":
        return QueryStep(Query(path), second_website)
    zone = timeline.zone if not rng(draw, 4) else pick(draw, list(CLOCK_CHANGES))
    unrestricted = path in SMALL_REPORTS and rng(draw, 2)
    params = [] if unrestricted else draw(ranges(timeline, zone))
    if zone != "UTC":
        params.append(("tz", zone))
    chosen = dict.fromkeys(() if unrestricted else draw(st.lists(FILTERS, max_size=max_filters)))
    params += [(f"filter_{name}", value) for name, value in chosen if accepts_filter(path, name)]
    params += endpoint_params(draw, path, timeline)
    params += saved_params(draw, path)
    compared = path.split("/")[0] in ("stats", "timeseries", "top") and rng(draw, 2)
    if compared:
        params.append(("compare", pick(draw, ("previous", "previous", "year"))))
        params += [("match_weekday", "true")] if rng(draw, 3) else []
    if path == "timeseries":
        interval = pick(draw, ["hour", "day", "hour", "week", "month", "minute", None])
        params += [("interval", interval)] if interval else []
    if path in LIMITED or path.startswith("top/"):
        limit = pick(draw, [None, 1, 2, 3, 5, 1000])
        params += [("limit", str(limit))] if limit else []
    if path.startswith("top/") and rng(draw, 4):
        params.append(("offset", pick(draw, ("1", "2"))))
    if path.startswith("top/") and rng(draw, 3):
        metrics = draw(st.lists(st.sampled_from(KEY_FIGURES), min_size=1, unique=True))
        params.append(("metrics", ",".join(metrics)))
    if path.startswith("top/") and rng(draw, 3):
        orders = (*KEY_FIGURES, *GOAL_ORDERS * 3) if "goal" in dict(params) else KEY_FIGURES
        params.append(("sort", pick(draw, orders)))
        params += [("order", "asc")] if rng(draw, 2) else []
    query = Query(path, tuple(params))
    if path == "events":
        return QueryStep(query, second_website, rng(draw, 4), pick(draw, (0, 1, DAY_MS)), rng(draw, 2))
    return QueryStep(query, second_website, not compared and path not in WITHOUT_CSV and rng(draw, 4))


@st.composite
def scenarios(draw: st.DrawFn, subject: str) -> Scenario:
    """Draw a scenario with queries about `traffic` (figures over time) or `lists` (top lists, events)."""
    zone = pick(draw, list(CLOCK_CHANGES))
    change_ms = read_utc(pick(draw, CLOCK_CHANGES[zone]))
    after_ms = pick(draw, (HOUR_MS, 12 * HOUR_MS, 5 * MINUTE_MS, DAY_MS, 2 * DAY_MS + 3 * HOUR_MS + 1, 0))
    timeline = Timeline(zone, change_ms + after_ms)
    start_ms = timeline.now_ms
    sessions = SESSIONS[: 1 + draw(below(len(SESSIONS)))]
    contexts = draw(st.lists(CONTEXTS, min_size=2, max_size=4))

    first = draw(st.lists(deliveries(timeline, sessions, contexts, MAX_EVENTS), min_size=1, max_size=3))
    two_visits, late_event = visits_and_late_event(
        draw, timeline, pick(draw, [session for session in sessions if session])
    )
    final_queries = draw(st.lists(queries(timeline, PATHS[subject], MAX_FILTERS), min_size=4, max_size=6))
    # The same queries before and after late events: cached results must be invalidated.
    early_queries = final_queries[: draw(below(3))]
    restart = [Restart()] if rng(draw, 20) else []
    requests = deliveries(timeline, sessions, contexts, MAX_EVENTS) | concurrent_deliveries(
        timeline, sessions, contexts, MAX_EVENTS // 2
    )
    later_deliveries = draw(st.lists(requests, max_size=2))
    later_queries = (
        draw(st.lists(queries(timeline, PATHS[subject], MAX_FILTERS), max_size=1)) if later_deliveries else []
    )
    # Rollups are built before the first queries, so that later events change built blocks; and again after them.
    built, rebuilt = ([BuildRollups()], [BuildRollups()]) if rng(draw, 5) else ([], [])
    return Scenario(
        start_ms,
        zone,
        (
            *first,
            *two_visits,
            *built,
            *early_queries,
            *restart,
            *late_event,
            *later_deliveries,
            *rebuilt,
            *final_queries,
            *later_queries,
        ),
    )
