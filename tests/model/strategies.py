"""What hypothesis draws for `test_model.py`: worlds, that is events delivered and questions asked of them.

A world is small on purpose: up to 4 session_ids, 2 addresses, 3 User-Agents, few values for each field, so
that ties, shared visitors and joined visits happen in most of them. Its times are not spread evenly.
Nearly every one is another time of the world plus a step at which a rule turns (30:00.000, 30:00.001, 72 h,
5 minutes, midnights, clock changes), so that visits are joined, brought forward and cut at the millisecond.

- `worlds()` gives a World: the instant it starts, then a list of steps: Delivery, AtOnce, Restart, Build and Ask.
- Texts are drawn ready to send. Nothing here knows an answer: the model does.
- Hypothesis shrinks towards the first value of each list, so the plainest value stands first.
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
    ACTIVE_MS,
    AHEAD_MS,
    DAY_MS,
    FIELDS,
    HOUR_MS,
    LATE_MS,
    MEASURED,
    MINUTE_MS,
    Question,
    day_begin,
    instant,
    local,
)

T = TypeVar("T")

DOMAIN = "example.com"
UNKNOWN = "00000000-0000-4000-8000-000000000000"

# User-Agents whose outcome is beyond dispute, and that outcome. Chrome's Windows is frozen: no os_version.
CHROME_WINDOWS = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36"
)
SAFARI_IPHONE = (
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko)"
    " Version/17.5 Mobile/15E148 Safari/604.1"
)
OKHTTP = "okhttp/4.12.0"  # an app's library: tells nothing of browser, system or device
USER_AGENTS: Mapping[str, Mapping[str, str]] = {
    CHROME_WINDOWS: {"browser": "Chrome", "os": "Windows", "device": "desktop"},
    SAFARI_IPHONE: {"browser": "Safari", "os": "iOS", "device": "mobile", "os_version": "17.5"},
    OKHTTP: {},
}
# Text of the forwarded header -> the address it is, and its country: the University of Tokyo, and an address for
# documentation, which is nowhere. The two spellings of each are one client.
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

STEPS_MS = (
    0,
    10 * MINUTE_MS,
    *(30 * MINUTE_MS,) * 2,  # joins
    30 * MINUTE_MS + 1,  # cuts
    -10 * MINUTE_MS,
    *(-30 * MINUTE_MS,) * 2,  # brings a begin forward
    -30 * MINUTE_MS - 1,
    *(60 * MINUTE_MS,) * 2,  # leaves room for a late event that joins two visits
    60 * MINUTE_MS + 1,
    -60 * MINUTE_MS,
    1,
    -1,
    5 * MINUTE_MS + 1,
    90 * MINUTE_MS + 500,
    DAY_MS,
    -DAY_MS,
)
WAITS_MS = (0, 1, 0, 5 * MINUTE_MS, 30 * MINUTE_MS, 31 * MINUTE_MS, 6 * HOUR_MS, DAY_MS, LATE_MS, LATE_MS + 1)

URLS = (
    "https://example.com/",
    "https://example.com",
    "https://EXAMPLE.com:8443/Shop//a%20b/?utm_source=News&x=1&utm_medium=e-mail&utm_campaign=caf%C3%A9+1#top",
    "http://www.example.com/shop/?utm_source=app&utm_medium=#utm_medium=no",
    "https://example.com/shop",
    "https://bücher.example.com/%C3%BC?utm_campaign=%3D1%2B1",
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
SAID: Mapping[str, tuple[str | None, ...]] = {
    # The last two that are texts stand in another order by UTF-16 than by code point.
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
VITALS = ({"lcp": 2500.5, "cls": 0.1}, {"inp": 200}, {"lcp": 4000.001, "inp": 200.5, "cls": 0.26})
POINTS = (
    ({"x": 0.5, "y": 10, "kind": "click"}, {"x": 1, "y": 2000, "kind": "scroll"}),
    ({"x": 1, "y": 19.99, "kind": "click"}, {"x": 0, "y": 20, "kind": "click"}),
    ({"x": 0, "y": 1999.5, "kind": "scroll"},),
)
VIEWPORTS = (1280, 1023.5, 390)
VALUES = (None, 3, 9.5, -2, 0)

# Values a filter may ask for: what the fields above come to, what nobody sent, and the empty text for unset.
FILTER_VALUES: Mapping[str, tuple[str, ...]] = {
    "pathname": ("/", "/shop", "/shop/", "/Home", "/Shop//a%20b/", "//shop", "/nowhere", ""),
    "referrer": ("google.com", "t.co", "notexample.com", "Google.com", ""),
    "country": ("JP", "", "jp"),
    "hostname": ("example.com", "www.example.com", "xn--bcher-kva.example.com", ""),
    "utm_source": ("News", "news", "app", ""),
    "utm_medium": ("e-mail", ""),
    "utm_campaign": ("café 1", "=1+1", ""),
    "event_name": ("signup", "Signup", "+49", "nobody", ""),
    "type": ("pageview", "screen_view", "event", "app_event", "vitals", ""),
    **{name: tuple(dict.fromkeys(value or "" for value in values)) for name, values in SAID.items()},
}
assert {*FIELDS, "event_name", "type"} == set(FILTER_VALUES)

# One thing wrong with each; laid over a sound event.
SPOILERS: tuple[Mapping[str, Any], ...] = (
    {"type": "page_view"},
    {"type": None},
    {"website_id": UNKNOWN},
    {"website_id": "example.com"},
    {"session_id": "seven77"},
    {"session_id": "x" * 65},
    {"url": "/only/a/path"},
    {"url": "ftp://example.com/"},
    {"device": "phone"},
    {"platform": 5},
    {"platform": "p" * 101},
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
    """One request to the collect endpoint, `wait_ms` after the step before it."""

    wait_ms: int
    forwarded: str
    user_agent: str
    accept_language: str | None
    events: tuple[Mapping[str, Any], ...]
    context: Mapping[str, Any] | None = None
    id_in: str = "batch"  # where the website_id stands: batch, event, both; mixed: events of both websites
    single: bool = False

    def body(self, websites: Sequence[str]) -> dict[str, Any]:
        """Give the JSON body. All events are of the first of two websites, if not mixed."""
        ids = [websites[n % 2 if self.id_in == "mixed" else 0] for n in range(len(self.events))]
        with_id = [{"website_id": id, **event} for id, event in zip(ids, self.events, strict=True)]
        if self.single and len(self.events) == 1:
            return with_id[0]
        body: dict[str, Any] = {"events": list(self.events) if self.id_in == "batch" else with_id}
        if self.id_in != "event":
            body["website_id"] = UNKNOWN if self.id_in == "both" else websites[0]  # the event's own id wins
        return body if self.context is None else body | {"context": self.context}


@dataclass(frozen=True, slots=True)
class AtOnce:
    """Requests sent at the same time, each of them twice.

    Which comes first is chance, so nothing may depend on it: each event has an event_id of its own, no two of
    different requests have the same timestamp, and no conversion leans on an assignment.
    """

    wait_ms: int
    deliveries: tuple[Delivery, ...]


@dataclass(frozen=True, slots=True)
class Restart:
    """The server is stopped and started on the same file."""


@dataclass(frozen=True, slots=True)
class Build:
    """The background work on rollups is done, as far as there is any now."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A question, and how to put it: as CSV or not, and what happens between two pages of a walk."""

    question: Question
    other: bool = False  # of the second website
    as_csv: bool = False
    wait_between_pages_ms: int = 0
    arrival_between_pages: bool = False


@dataclass(frozen=True, slots=True)
class World:
    """Where the clock starts, and what happens then."""

    start_ms: int
    zone: str
    steps: tuple[Delivery | AtOnce | Restart | Build | Ask, ...]


@dataclass(slots=True)
class Times:
    """The times a world turns on: its midnights and clock changes, and the time of every event drawn so far."""

    zone: str
    now_ms: int
    events_ms: list[int] = field(default_factory=list)
    drawn: int = 0
    with_id: list[dict[str, Any]] = field(default_factory=list)  # events with an event_id
    sent: dict[str | None, list[tuple[int, str]]] = field(default_factory=dict)  # time and step, by session_id
    names: list[str] = field(default_factory=list)  # of custom events with event_data
    pages: list[str] = field(default_factory=list)  # of heatmaps
    apart_ms: int = 0  # not 0 in requests sent at once: what keeps their timestamps apart

    def note(self, event: Mapping[str, Any], at_ms: int) -> None:
        """Remember what questions may be about."""
        kind = event["type"]
        page = "/" + event["name"] if kind == "screen_view" else urlsplit(event.get("url") or "").path or "/"
        if kind in ("event", "app_event"):
            self.sent.setdefault(event.get("session_id"), []).append((at_ms, f"event_name:{event['event_name']}"))
            self.names += [event["event_name"]] if event.get("event_data") else []
        elif kind in ("pageview", "screen_view"):
            self.sent.setdefault(event.get("session_id"), []).append((at_ms, f"pathname:{page}"))
        elif kind == "heatmap":
            self.pages.append(page)

    def pairs(self) -> list[tuple[str, str]]:
        """Give steps that somebody took one after the other within half an hour."""
        runs = [sorted(own) for own in self.sent.values()]
        near = [pair for own in runs for pair in pairwise(own) if pair[1][0] - pair[0][0] <= 30 * MINUTE_MS]
        return list(dict.fromkeys((one[1], other[1]) for one, other in near))

    @property
    def turns_ms(self) -> list[int]:
        """Give the midnights and clock changes that an event of now may still lie on."""
        today = local(self.now_ms, self.zone).date()
        midnights = [day_begin(self.zone, today - timedelta(days=n)) for n in range(3)]
        changes = [read_utc(text) for text in CLOCK_CHANGES[self.zone]]
        turns = [*changes, self.now_ms // DAY_MS * DAY_MS, *midnights]
        return [at_ms for at_ms in turns if 0 <= self.now_ms - at_ms <= LATE_MS] or [self.now_ms - HOUR_MS]


def read_utc(text: str) -> int:
    """Read the instants of CLOCK_CHANGES."""
    return instant(datetime.strptime(text, "%Y-%m-%dT%H:%MZ").replace(tzinfo=UTC))


@cache
def below(end: int) -> st.SearchStrategy[int]:
    """Draw a number from 0 on. Kept: to make a strategy costs more than to draw from it."""
    return st.integers(0, end - 1)


def pick(draw: st.DrawFn, values: Sequence[T]) -> T:
    """Draw one of some values, the first if all is simple."""
    return values[draw(below(len(values)))]


def seldom(draw: st.DrawFn, one_in: int) -> bool:
    """Draw yes once in so many times."""
    return draw(below(one_in)) == one_in // 2


def spelled_times(at_ms: int, hours: int) -> list[Any]:
    """Spell an instant as a client may: integer, integral float, ISO 8601 with and without offset."""
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


def event_time(draw: st.DrawFn, times: Times) -> int:
    """Draw an instant: another of the world plus a step, folded into the last 72 hours; or an edge."""
    kind = pick(draw, ["event"] * 9 + ["turn"] * 3 + ["now"] * 2 + ["edge"])
    if kind == "now":
        return times.now_ms
    if kind == "edge":
        ahead, late, active = times.now_ms + AHEAD_MS, times.now_ms - LATE_MS, times.now_ms - ACTIVE_MS
        return pick(draw, [late, ahead, active, late - 1, ahead + 1, active - 1, times.now_ms + 1])
    bases_ms = times.turns_ms if kind == "turn" else [times.now_ms, *times.events_ms]
    at_ms = pick(draw, bases_ms) + pick(draw, STEPS_MS)
    at_ms = times.now_ms - (times.now_ms - at_ms) % LATE_MS
    times.events_ms.append(at_ms)
    return at_ms


def fields(pools: Mapping[str, Sequence[Any]], names: Sequence[str]) -> st.SearchStrategy[dict[str, Any]]:
    """Draw an object with some of `names`, each from its pool."""
    return st.fixed_dictionaries({}, optional={name: st.sampled_from(pools[name]) for name in names})


LOOKS = fields(SAID, list(SAID))
NOISE: tuple[Mapping[str, Any], ...] = (
    {},
    {},
    {},
    {"unknown": {"a": [1]}, "event_name": "not its own", "referrer": "https://t.co/"},
    {"name": "Named", "event_data": None, "session_id": None},
)


def own_fields(draw: st.DrawFn, kind: str, session: str | None, at_once: bool) -> dict[str, Any]:
    """Draw what the type asks for and some of what it allows."""
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
        # One person sees one variant: which of two assignments counts is not this test's question.
        own |= {"experiment": "price", "variant": "A" if session is None else session[-1]}
    if kind == "ab_convert":
        own |= {"goal": pick(draw, ("buy", None)), "value": pick(draw, VALUES)}
        own["variant"] = own["variant"] if at_once else pick(draw, (own["variant"], None))
    if kind in MEASURED and not draw(below(6)):
        # As a client does that sends the required fields alone.
        own = {name: value for name, value in own.items() if name not in MEASURED[kind] or draw(below(3)) == 0}
    return own


@st.composite
def events(draw: st.DrawFn, times: Times, sessions: Sequence[str | None], looks: Sequence[Any]) -> dict[str, Any]:
    """Draw one event."""
    kind = pick(draw, TYPES)
    session = pick(draw, sessions)
    event: dict[str, Any] = {"type": kind, **pick(draw, looks), **pick(draw, NOISE)}
    if session is not None:
        event["session_id"] = session
    event |= own_fields(draw, kind, session, times.apart_ms > 0)
    at_ms = event_time(draw, times) - times.apart_ms
    if at_ms != times.now_ms:
        event["timestamp"] = pick(draw, spelled_times(at_ms, pick(draw, (0, 5, -3))))
    extra = draw(below(20))
    times.drawn += 1
    times.note(event, at_ms)
    if times.apart_ms:
        event["event_id"] = f"at-once-{times.drawn}"
    elif extra < 5 and not kind.startswith("ab_"):
        event["event_id"] = ("copy-1", "copy-1", "copy-1", "copy-2", "ü" * 64)[extra]
        times.with_id.append(event)
    elif extra < 8 and times.with_id:
        # The same content again, at another time and by another sender.
        own = ("session_id", "timestamp")
        again = {name: value for name, value in pick(draw, times.with_id).items() if name not in own}
        return again | {name: event[name] for name in own if name in event}
    if extra == 12:
        event |= pick(draw, SPOILERS)
    return event


@st.composite
def deliveries(
    draw: st.DrawFn, times: Times, sessions: Sequence[str | None], looks: Sequence[Any], most: int
) -> Delivery:
    """Draw one request; the clock of `times` moves on by its wait."""
    wait_ms = pick(draw, WAITS_MS)
    times.now_ms += wait_ms
    drawn = draw(st.lists(events(times, sessions, looks), min_size=1, max_size=most))
    context = pick(draw, [None, *looks])
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
        seldom(draw, 2),
    )


@st.composite
def crowds(draw: st.DrawFn, times: Times, sessions: Sequence[str | None], looks: Sequence[Any], most: int) -> AtOnce:
    """Draw requests sent at once."""
    drawn = []
    for n in range(2 + draw(below(3))):
        times.apart_ms = 100 * (n + 1)  # no steps between events add up to a tenth of a second
        drawn.append(draw(deliveries(times, sessions, looks, most)))
    times.apart_ms = 0
    return AtOnce(sum(delivery.wait_ms for delivery in drawn), tuple(drawn))


def bridges(draw: st.DrawFn, times: Times, session: str) -> tuple[list[Delivery], list[Delivery]]:
    """Draw two visits an hour apart, and what arrives late between them: it joins them, or misses by 1 ms."""
    if seldom(draw, 2):
        return [], []
    start_ms = times.now_ms - pick(draw, (2 * HOUR_MS, 12 * HOUR_MS, DAY_MS))
    halfway_ms = 30 * MINUTE_MS + pick(draw, (0, 0, 0, 1, -1))
    times.events_ms += [start_ms, start_ms + halfway_ms, start_ms + HOUR_MS]

    def sent(*offsets_ms: int) -> Delivery:
        event = {"session_id": session, "event_name": "signup"}
        kinds = [(pick(draw, ("pageview", "event")), pick(draw, URLS), start_ms + ms) for ms in offsets_ms]
        found = [{**event, "type": kind, "url": url, "timestamp": at_ms} for kind, url, at_ms in kinds]
        for one in found:
            times.note(one, one["timestamp"])
        return Delivery(0, next(iter(ADDRESSES)), CHROME_WINDOWS, None, tuple(found))

    return [sent(0, HOUR_MS)], [sent(halfway_ms)]


# --- questions


def spelled_edges(at_ms: int, zone: str) -> list[tuple[int, str]]:
    """Spell an end of a range in the ways a reader may, each with about the instant it means."""
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
def ranges(draw: st.DrawFn, times: Times, zone: str) -> list[tuple[str, str]]:
    """Draw from and to: none, one or both; two dates, or any mixture of spellings."""
    shape = pick(draw, ["dates", "none", "none", "both", "both", "both", "from", "to"])
    if shape == "none":
        return []
    edges = []
    for _ in range(2):
        bases_ms = times.turns_ms if seldom(draw, 2) else [times.now_ms, *times.events_ms]
        at_ms = pick(draw, bases_ms) + pick(draw, (0, 1, -1, 7))
        spelled = spelled_edges(at_ms, zone)
        edges.append(pick(draw, [spelled[1], spelled[7], spelled[8]] if shape == "dates" else spelled))
    if shape in ("from", "to"):
        return [(shape, edges[0][1])]
    first, last = sorted(edges)
    return [("from", first[1]), ("to", last[1])]


ALL_FILTERS = [(name, value) for name, values in FILTER_VALUES.items() for value in values]
# Half of the filters split visits: one and the same visitor sends several types and goes to several pages.
SPLITTING = [(name, value) for name, value in ALL_FILTERS if name in ("type", "pathname") and value]
FILTERS = st.sampled_from(SPLITTING) | st.sampled_from(ALL_FILTERS)
TOPS = [f"top/{name}" for name in FIELDS]
HEATMAPS = ["heatmap", "heatmap-pages"]
PATHS = {
    "traffic": [
        *("stats", "timeseries") * 3,
        *("realtime", "entry-pages", "exit-pages", "funnel", "funnel", "vitals", "experiments"),
    ],
    "lists": ["events", "events", "stats", *TOPS, "event-names", "event-data", "event-data", *HEATMAPS],
}
LIMITED = ("events", "event-names", "entry-pages", "exit-pages", "event-data", "heatmap-pages")
# Mostly what many visits meet; then what few do, and what nobody does.
STEPS = (
    *("pathname:/", "event_name:signup") * 3,
    *(
        "pathname:/shop",
        "pathname:/shop/",
        "pathname:/Home",
        "event_name:Signup",
        "event_name:+49",
        "pathname:/nowhere",
    ),
)
# Of what these are asked there is little: half of their questions are about all of it.
RARE = ("funnel", "event-data", "event-names", "vitals", "experiments", *HEATMAPS)


# Of the last two the model knows the counts alone; stats has no CSV.
WITHOUT_CSV = ("stats", "vitals", "experiments")


def is_taken(path: str, name: str) -> bool:
    """Say whether an endpoint takes a filter: measurements know no type or name, points no field at all."""
    if path in HEATMAPS:
        return False
    without = {"event-data": ("event_name",), "vitals": ("type", "event_name"), "experiments": ("type", "event_name")}
    return name not in without.get(path, ())


def own_params(draw: st.DrawFn, path: str, times: Times) -> list[tuple[str, str]]:
    """Draw what an endpoint takes for itself alone."""
    if path == "funnel":
        pairs = times.pairs()
        taken = pick(draw, pairs) if pairs and not seldom(draw, 4) else (pick(draw, STEPS), pick(draw, STEPS))
        return [
            ("step", step) for step in (*taken, *(pick(draw, STEPS) for _ in range(pick(draw, (0, 0, 0, 1, 2, 6)))))
        ]
    if path == "event-data":
        name = pick(draw, [None, None, "plan", "b", "nothing"])
        return [
            ("event_name", pick(draw, [*times.names, pick(draw, EVENT_NAMES)])),
            *([("property", name)] if name else []),
        ]
    if path == "vitals":
        by = pick(draw, [None, "pathname", "device"])
        return [("by", by), ("metric", pick(draw, ("lcp", "inp", "cls")))] if by else []
    found = [("pathname", pick(draw, [*times.pages, "/nowhere"]))] if path == "heatmap" else []
    if path in HEATMAPS and seldom(draw, 3):
        found.append(("filter_device", pick(draw, ("desktop", "mobile"))))
    return found


@st.composite
def asks(draw: st.DrawFn, times: Times, paths: Sequence[str], most_filters: int) -> Ask:
    """Draw one question."""
    path = pick(draw, paths)
    other = seldom(draw, 6)
    if path == "realtime":
        return Ask(Question(path), other)
    zone = times.zone if not seldom(draw, 4) else pick(draw, list(CLOCK_CHANGES))
    whole = path in RARE and seldom(draw, 2)
    params = [] if whole else draw(ranges(times, zone))
    if zone != "UTC":
        params.append(("tz", zone))
    chosen = dict.fromkeys(() if whole else draw(st.lists(FILTERS, max_size=most_filters)))
    params += [(f"filter_{name}", value) for name, value in chosen if is_taken(path, name)]
    params += own_params(draw, path, times)
    if path == "stats" and seldom(draw, 2):
        params.append(("compare", "previous"))
    if path == "timeseries":
        interval = pick(draw, ["hour", "day", "hour", None])
        params += [("interval", interval)] if interval else []
    if path in LIMITED or path.startswith("top/"):
        limit = pick(draw, [None, 1, 2, 3, 5, 1000])
        params += [("limit", str(limit))] if limit else []
    question = Question(path, tuple(params))
    if path == "events":
        return Ask(question, other, seldom(draw, 4), pick(draw, (0, 1, DAY_MS)), seldom(draw, 2))
    return Ask(question, other, path not in WITHOUT_CSV and seldom(draw, 4))


@st.composite
def worlds(draw: st.DrawFn, about: str, most_events: int = 14, most_filters: int = 2) -> World:
    """Draw a world with questions about `traffic` (figures over time) or `lists` (top lists, events)."""
    zone = pick(draw, list(CLOCK_CHANGES))
    change_ms = read_utc(pick(draw, CLOCK_CHANGES[zone]))
    after_ms = pick(draw, (HOUR_MS, 12 * HOUR_MS, 5 * MINUTE_MS, DAY_MS, 2 * DAY_MS + 3 * HOUR_MS + 1, 0))
    times = Times(zone, change_ms + after_ms)
    start_ms = times.now_ms
    sessions = SESSIONS[: 1 + draw(below(len(SESSIONS)))]
    looks = draw(st.lists(LOOKS, min_size=2, max_size=4))

    first = draw(st.lists(deliveries(times, sessions, looks, most_events), min_size=1, max_size=3))
    piers, keystone = bridges(draw, times, pick(draw, [session for session in sessions if session]))
    questions = draw(st.lists(asks(times, PATHS[about], most_filters), min_size=4, max_size=6))
    # The same questions before and after: what was counted early must not be kept once late events arrive.
    early = questions[: draw(below(3))]
    restart = [Restart()] if seldom(draw, 20) else []
    sent = deliveries(times, sessions, looks, most_events) | crowds(times, sessions, looks, most_events // 2)
    then = draw(st.lists(sent, max_size=2))
    later = draw(st.lists(asks(times, PATHS[about], most_filters), max_size=1)) if then else []
    # Folded before the first questions, so that what comes then is late; and once more after it.
    built, again = ([Build()], [Build()]) if seldom(draw, 5) else ([], [])
    return World(
        start_ms, zone, (*first, *piers, *built, *early, *restart, *keystone, *then, *again, *questions, *later)
    )
