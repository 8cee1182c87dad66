"""The reference: a slow and plain second answer to every read question.

Purpose: `test_model.py` asks the server and this file the same questions and wants the same answers.
Rules of this file:
- it imports nothing of the server: it follows docs/reference/ alone;
- it keeps what was accepted as a plain list, in order of arrival, and counts by loops, lists and sets;
- there is no index, no rollup and no clever step. Visits are cut anew from sorted lists for every question;
- days and hours are found by walking over instants minute by minute (all zones have changed on whole minutes
  since 1972), never by arithmetic on offsets;
- shares and means are Fractions until the last step, then rounded half away from zero.
What it does not know: countries and User-Agents (who sends says what each address and User-Agent of the tests
gives), origins, crawlers, quotas and rate limits, percentiles of web vitals, what is concluded from experiments.

How to read it: `collect` is the collect side, `answer` the read side; all between them serves one of the two.
A question is a path below /api/v1/websites/<id>/ and a list of query parameters, as a client sends them.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from functools import cache
from typing import Any
from urllib.parse import unquote_plus
from zoneinfo import ZoneInfo

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
VISIT_GAP_MS = 30 * MINUTE_MS  # a gap of exactly 30:00.000 joins
LATE_MS = 72 * HOUR_MS  # at most 72 hours old
AHEAD_MS = 5 * MINUTE_MS  # more than 5 minutes ahead
CLAIM_MS = 72 * HOUR_MS  # for 72 hours from the last copy's arrival
ACTIVE_MS = 300_000  # the last 300 seconds
MOST_BUCKETS = 10_000  # more than 10,000 buckets: 400

VIEWS = ("pageview", "screen_view")
CUSTOM = ("event", "app_event")
TRAFFIC = VIEWS + CUSTOM
WITH_REFERRER = (*VIEWS, "event")
MEASUREMENTS = ("vitals", "heatmap", "ab_assign", "ab_convert")
REQUIRED = {
    "pageview": ("url",),
    "screen_view": ("name",),
    "event": ("event_name",),
    "app_event": (),
    **dict.fromkeys(MEASUREMENTS, ()),  # without their fields they are stored, and count in no statistic
}
FIELDS = [
    "pathname",
    "referrer",
    "country",
    "browser",
    "os",
    "device",
    "language",
    "hostname",
    "utm_source",
    "utm_medium",
    "utm_campaign",
    "platform",
    "app_version",
    "os_version",
]
MEASURED = {
    "vitals": ("vitals",),
    "heatmap": ("points", "viewport_width"),
    "ab_assign": ("experiment", "variant"),
    "ab_convert": ("experiment", "variant", "goal", "value"),
}
FROM_CONTEXT = ("platform", "app_version", "os_version", "language", "browser", "os", "device")
DEVICES = ("desktop", "mobile", "tablet", "tv", "console", "other")
SESSIONS = range(8, 65)  # 8 to 64 characters
EVENT_NAME_LIMIT = 200  # at most 200 characters
LABEL_LIMIT = 100  # every other label 100 characters
NAME_LIMIT = 500  # name 500

Json = Any


@dataclass(frozen=True, slots=True)
class Row:
    """One accepted event. `visitor` is None for the four measurement types."""

    order: int
    website: str
    type: str
    at_ms: int
    visitor: tuple[object, ...] | None
    labels: Mapping[str, str | None]
    event_name: str | None = None
    event_data: Json = None
    vitals: Json = None
    experiment: str | None = None
    variant: str | None = None
    goal: str | None = None
    value: Json = None
    points: Json = None
    viewport: float = 0
    person: tuple[object, ...] | None = None  # who sent it, also of a measurement

    def label(self, name: str) -> str | None:
        """Give what a filter on `name` looks at."""
        if name == "type":
            return self.type
        return self.event_name if name == "event_name" else self.labels[name]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the collect endpoint answers; `faults` are (index, code)."""

    status: int
    accepted: int
    rejected: int
    faults: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """What the read API answers; /events is given whole, with each row's visit as a number of our own."""

    status: int
    data: Json = None
    meta: Mapping[str, Json] = field(default_factory=dict)


class Refused(Exception):
    """The request is answered 400."""


# --- time: instants are integer milliseconds since 1970 in UTC


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def instant(moment: datetime) -> int:
    """Give the milliseconds of an aware datetime."""
    return (moment - EPOCH) // timedelta(milliseconds=1)


def local(at_ms: int, zone: str) -> datetime:
    """Give the local time of an instant."""
    return (EPOCH + timedelta(milliseconds=at_ms)).astimezone(ZoneInfo(zone))


def written(at_ms: int, zone: str) -> str:
    """Write an instant as the API does: local, to the millisecond, with its offset."""
    return local(at_ms, zone).isoformat(timespec="milliseconds")


@cache
def day_begin(zone: str, day: date) -> int:
    """Walk to the first instant of a local date, or of what follows a date that does not exist."""
    at_ms = instant(datetime(day.year, day.month, day.day, tzinfo=UTC)) - 16 * HOUR_MS
    while local(at_ms, zone).date() < day:
        at_ms += MINUTE_MS
    return at_ms


def day_exists(zone: str, day: date) -> bool:
    """Say whether any instant has this local date."""
    return local(day_begin(zone, day), zone).date() == day


@cache
def wall_instant(zone: str, wall: datetime) -> int:
    """Walk to the instant of a local minute: the first if ambiguous, moved past the gap if missing."""
    as_utc = instant(wall.replace(tzinfo=UTC))
    before = timedelta()
    for at_ms in range(as_utc - 16 * HOUR_MS, as_utc + 16 * HOUR_MS, MINUTE_MS):
        here = local(at_ms, zone)
        if here.replace(tzinfo=None) == wall:
            return at_ms
        if here.replace(tzinfo=None) < wall:
            before = here.utcoffset() or timedelta()
    return as_utc - before // timedelta(milliseconds=1)


@cache
def hour_begins(zone: str, utc_day: int) -> tuple[int, ...]:
    """Walk one UTC day for the minutes that begin an hour: full local hours and changes of offset."""
    found = []
    before = local(utc_day * DAY_MS - MINUTE_MS, zone).utcoffset()
    for at_ms in range(utc_day * DAY_MS, (utc_day + 1) * DAY_MS, MINUTE_MS):
        here = local(at_ms, zone)
        if here.minute == 0 or here.utcoffset() != before:
            found.append(at_ms)
        before = here.utcoffset()
    return tuple(found)


def buckets(zone: str, interval: str, from_ms: int, to_ms: int) -> list[tuple[int, int]]:
    """Give the (begin, end) of every day or hour that has a moment in [from, to), in order."""
    if interval == "day":
        first, last = local(from_ms, zone).date(), local(to_ms, zone).date()
        days = [first + timedelta(days=n) for n in range(-2, (last - first).days + 3)]
        begins = [day_begin(zone, day) for day in days if day_exists(zone, day)]
    else:
        days_utc = range(from_ms // DAY_MS - 1, to_ms // DAY_MS + 2)
        begins = [at_ms for utc_day in days_utc for at_ms in hour_begins(zone, utc_day)]
    pairs = itertools.pairwise(begins)
    return [(begin, end) for begin, end in pairs if begin < to_ms and end > from_ms]


TIME = re.compile(
    r"(?P<day>\d{4}-\d\d-\d\d)"
    r"(?:[T ](?P<hour>\d\d):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:\.(?P<part>\d+))?)?"
    r"(?P<offset>Z|[-+ ]\d\d:\d\d)?)?"
)


def read_time(text: str, zone: str, *, up: bool) -> int:
    """Read an ISO 8601 time; what is finer than a millisecond is rounded up (questions) or cut (events)."""
    match = TIME.fullmatch(text)
    if match is None:
        raise Refused(text)
    if match["hour"] is None:
        return day_begin(zone, date.fromisoformat(match["day"]))
    wall = datetime.fromisoformat(f"{match['day']}T{match['hour']}:{match['minute']}")
    rest = Fraction(int(match["second"] or 0) * 1000)
    rest += Fraction(int(match["part"] or 0), 10 ** len(match["part"] or "")) * 1000
    rest_ms = -(-rest // 1) if up else rest // 1
    if match["offset"] is None:
        return wall_instant(zone, wall) + rest_ms
    offset = "+00:00" if match["offset"] == "Z" else match["offset"].replace(" ", "+")
    sign = -1 if offset[0] == "-" else 1
    ahead_ms = sign * (int(offset[1:3]) * HOUR_MS + int(offset[4:6]) * MINUTE_MS)
    return instant(wall.replace(tzinfo=UTC)) + rest_ms - ahead_ms


# --- one event: what is wrong with it, and what it says


def present(value: Json) -> bool:
    """Null, an empty string and nothing at all are the same: absent."""
    return value is not None and value != ""


def event_time(value: Json, now_ms: int) -> int | str:
    """Give the event's instant or the code of its fault; ahead by up to 5 minutes is taken as now."""
    if value is None or value == "":
        return now_ms
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return "invalid_field"
    if isinstance(value, str):
        try:
            at_ms = read_time(value, "UTC", up=False)
        except Refused:
            return "invalid_field"
    elif value != int(value):
        return "invalid_field"
    else:
        at_ms = int(value)
    if at_ms < now_ms - LATE_MS:
        return "timestamp_too_old"
    if at_ms > now_ms + AHEAD_MS:
        return "timestamp_in_future"
    return min(at_ms, now_ms)


URL = re.compile(r"(?i:https?)://(?P<host>[^/?#:]+)(?::\d+)?(?P<path>/[^?#]*)?(?:\?(?P<query>[^#]*))?(?:#.*)?")
REFERRER = re.compile(r"(?i:https?|android-app|ios-app)://(?P<host>[^/?#:]+)(?::\d+)?(?:[/?#].*)?")


def text_fault(event: Mapping[str, Json], name: str, sizes: range) -> str | None:
    """Check a text field where it is present."""
    value = event.get(name)
    if not present(value):
        return None
    return None if isinstance(value, str) and len(value) in sizes else "invalid_field"


UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def fault(event: Json, websites: Sequence[str], now_ms: int) -> str | None:
    """Name the first fault of an event with the context already merged into it; None if it is sound."""
    if not isinstance(event, dict) or event.get("type") not in TRAFFIC + MEASUREMENTS:
        return "invalid_type"
    if not present(event.get("website_id")):
        return "missing_field"
    if not UUID.fullmatch(str(event["website_id"])):
        return "invalid_website_id"
    if event["website_id"] not in websites:
        return "unknown_website"
    if any(not present(event.get(name)) for name in REQUIRED[event["type"]]):
        return "missing_field"
    if present(event.get("url")) and not URL.fullmatch(str(event["url"])):
        return "invalid_url"
    if event["type"] in WITH_REFERRER and present(event.get("referrer")) and not REFERRER.fullmatch(event["referrer"]):
        return "invalid_url"
    names = dict.fromkeys(FROM_CONTEXT, range(1, LABEL_LIMIT + 1))
    names |= {"session_id": SESSIONS, "name": range(1, NAME_LIMIT + 1), "event_id": range(1, 65)}
    if event["type"] in CUSTOM:
        names["event_name"] = range(1, EVENT_NAME_LIMIT + 1)
    for name, sizes in names.items():
        if text_fault(event, name, sizes):
            return "invalid_field"
    if present(event.get("device")) and event["device"] not in DEVICES:
        return "invalid_field"
    if event["type"] in CUSTOM and present(data := event.get("event_data")):
        values = data.values() if isinstance(data, dict) else [[]]
        if any(isinstance(value, dict | list) for value in values):
            return "invalid_event_data"
    at_ms = event_time(event.get("timestamp"), now_ms)
    return at_ms if isinstance(at_ms, str) else None


def content(event: Mapping[str, Json]) -> str:
    """Write what makes it another event than one with the same event_id: neither time, nor sender, nor labels."""
    url = URL.fullmatch(event["url"]) if "url" in event else None
    own = {name: event.get(name) for name in ("event_name", "event_data") if event["type"] in CUSTOM}
    own |= {name: event.get(name) for name in MEASURED.get(event["type"], ())}
    where = [url["host"].lower(), url["path"] or "/", url["query"] or ""] if url else []
    return json.dumps([event["type"], where, event.get("name"), own], sort_keys=True)


def canonical_language(tag: str) -> str:
    """Write a language tag in its canonical case: en-US, zh-Hant-TW."""
    first, *others = tag.split("-")
    cases = {2: str.upper, 4: str.title}
    return "-".join([first.lower(), *(cases.get(len(part), str.lower)(part) for part in others)])


def bare_host(host: str) -> str:
    """Give a host as a referrer is stored: lowercase, without www."""
    return host.lower().removeprefix("www.")


@dataclass(frozen=True, slots=True)
class Sender:
    """Who sent a request, with what the tables say about the address and the User-Agent."""

    address: str
    user_agent: str
    country: str | None
    defaults: Mapping[str, str | None]
    language: str | None = None


def labels_of(event: Mapping[str, Json], sender: Sender, domain: str) -> dict[str, str | None]:
    """Give the 14 dimensions of an event."""
    said = {name: event[name] if present(event.get(name)) else sender.defaults.get(name) for name in FROM_CONTEXT}
    if not present(event.get("os_version")) and said["os"] != sender.defaults.get("os"):
        said["os_version"] = None  # "only where it is true": the User-Agent's version is not another system's
    if said["language"] is None:
        said["language"] = sender.language
    if said["language"] is not None:
        said["language"] = canonical_language(said["language"])
    labels: dict[str, str | None] = dict.fromkeys(FIELDS)
    labels |= said | {"country": sender.country}
    name = event.get("name")
    if present(name):
        labels["pathname"] = "/" + str(name)
    if present(event.get("url")):
        url = URL.fullmatch(event["url"])
        assert url is not None
        if event["type"] != "screen_view":
            labels["pathname"] = url["path"] or "/"
        labels["hostname"] = url["host"].lower().encode("idna").decode()
        for pair in (url["query"] or "").split("&"):
            key, _, value = pair.partition("=")
            if key in ("utm_source", "utm_medium", "utm_campaign") and value:
                labels[key] = unquote_plus(value)
    if event["type"] in WITH_REFERRER and present(event.get("referrer")):
        referrer = REFERRER.fullmatch(event["referrer"])
        assert referrer is not None
        host = bare_host(referrer["host"])
        if host != domain and not host.endswith("." + domain):
            labels["referrer"] = host
    return labels


# --- figures


def rounded(value: Fraction | None, places: int) -> int | float | None:
    """Round half away from zero."""
    if value is None:
        return None
    tenths = int(abs(value) * 10**places + Fraction(1, 2))
    whole = Fraction(tenths, 10**places) * (-1 if value < 0 else 1)
    return int(whole) if places == 0 else float(whole)


OF_VISITS = ("bounce_rate", "views_per_visit", "visit_duration")
PLACES = {"bounce_rate": 1, "views_per_visit": 2}  # decimals; all else is whole


def mean(values: Sequence[int]) -> Fraction | None:
    """Give the exact mean, None of nothing."""
    return Fraction(sum(values), len(values)) if values else None


def counts(rows: Iterable[Row]) -> dict[str, int]:
    """Count visitors, pageviews and events of some traffic events."""
    chosen = list(rows)
    return {
        "visitors": len({row.visitor for row in chosen}),
        "pageviews": len([row for row in chosen if row.type in VIEWS]),
        "events": len([row for row in chosen if row.type in CUSTOM]),
    }


def is_bounce(visit: Sequence[Row]) -> bool:
    """Exactly one view and no custom event, over the visit's whole life."""
    return [row.type in VIEWS for row in visit] == [True]


def figures(chosen: Sequence[Row], visits: Sequence[Sequence[Row]]) -> dict[str, Fraction | None]:
    """Give the seven key figures unrounded."""
    bounces = [1 if is_bounce(visit) else 0 for visit in visits]
    views = [len([row for row in visit if row.type in VIEWS]) for visit in visits]
    lives_ms = [visit[-1].at_ms - visit[0].at_ms for visit in visits]
    share, life_ms = mean(bounces), mean(lives_ms)
    whole = {name: Fraction(count) for name, count in counts(chosen).items()}
    return whole | {
        "visits": Fraction(len(visits)),
        "bounce_rate": None if share is None else share * 100,
        "views_per_visit": mean(views),
        "visit_duration": None if life_ms is None else life_ms / 1000,
    }


def percent(part: int, whole: int) -> float | int | None:
    """Give a share in percent with one decimal, None of nothing."""
    return rounded(Fraction(100 * part, whole), 1) if whole else None


def one_after_another(visit: Sequence[Row], steps: Sequence[tuple[str, str]]) -> list[Row]:
    """Give the events that meet a funnel's steps, as many as are met, each after the one before."""
    met: list[Row] = []
    for row in visit:
        if len(met) == len(steps):
            break
        name, value = steps[len(met)]
        if row.type in (VIEWS if name == "pathname" else CUSTOM) and row.label(name) == value:
            met.append(row)
    return met


def same_value(one: Json, other: Json) -> bool:
    """Say whether two JSON scalars are one value: 1 and 1.0 are, 1 and true are not."""
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def json_order(value: Json) -> tuple[int, Json]:
    """Give the place of a JSON scalar: null, false, true, numbers, texts by code point."""
    if value is None:
        return 0, 0
    return (1 if isinstance(value, bool) else 3 if isinstance(value, str) else 2), value


def numbers_of(values: Sequence[Json]) -> dict[str, Json] | None:
    """Give the figures of those values that are numbers; percentiles by the nearest rank."""
    found = sorted(value for value in values if isinstance(value, int | float) and not isinstance(value, bool))
    if not found:
        return None
    total = sum(map(Fraction, found), Fraction())
    least = {share: next(n for n in range(1, len(found) + 1) if 100 * n >= share * len(found)) for share in (50, 95)}
    return {
        "samples": len(found),
        "sum": float(total),
        "mean": float(total / len(found)),
        "min": found[0],
        "p50": found[least[50] - 1],
        "p95": found[least[95] - 1],
        "max": found[-1],
    }


def width_class(viewport: float) -> str:
    """Name the class of a viewport: "phones under 640 pixels wide, tablets under 1,024"."""
    return "mobile" if viewport < 640 else "tablet" if viewport < 1024 else "desktop"


def rating(metric: str, value: float) -> str:
    """Rate a web vital by the published thresholds."""
    good, poor = {"lcp": (2500, 4000), "inp": (200, 500), "cls": (0.1, 0.25)}[metric]
    return "good" if value <= good else "poor" if value > poor else "needs_improvement"


def rated(values: Sequence[float], metric: str) -> dict[str, Json]:
    """Count values of a web vital and give the shares of each rating."""
    ratings = [rating(metric, value) for value in values]
    shares = {name: percent(ratings.count(name), len(values)) for name in ("good", "needs_improvement", "poor")}
    return {"samples": len(values), **shares}


def change(now: Fraction | None, before: Fraction | None) -> int | float | None:
    """Give the relative change in percent; null where the previous figure is 0 or null."""
    return rounded((now - before) / before * 100, 1) if before and now is not None else None


@dataclass(frozen=True, slots=True)
class Question:
    """A path below /api/v1/websites/<id>/ and its query parameters."""

    path: str
    params: tuple[tuple[str, str], ...] = ()

    def get(self, name: str, default: str = "") -> str:
        """Give one parameter."""
        return dict(self.params).get(name, default)

    @property
    def zone(self) -> str:
        """Give the zone asked for."""
        return self.get("tz", "UTC")

    @property
    def limit(self) -> int:
        """Give how many rows are asked for at most."""
        return int(self.get("limit", "10"))

    @property
    def steps(self) -> list[tuple[str, str]]:
        """Give the steps of a funnel."""
        texts = [value.partition(":") for name, value in self.params if name == "step"]
        return [(name, value) for name, _, value in texts]

    @property
    def filters(self) -> dict[str, list[str]]:
        """Give the filters by field."""
        found: dict[str, list[str]] = {}
        for name, value in self.params:
            if name.startswith("filter_"):
                found.setdefault(name.removeprefix("filter_"), []).append(value)
        return found

    def matches(self, row: Row) -> bool:
        """Say whether an event passes: any value of a field, all the fields, empty for unset."""
        return all((row.label(name) or "") in values for name, values in self.filters.items())

    def range(self, now_ms: int) -> tuple[int, int]:
        """Resolve from and to."""
        texts = dict(self.params)
        # Now lies within its millisecond, and what is finer than one is rounded up: so an event answered 202 in
        # this very millisecond "is in every answer begun after it".
        to_ms = now_ms + 1
        if "to" in texts:
            last = a_date(texts["to"])
            to_ms = read_time(texts["to"], self.zone, up=True)
            if last is not None:  # that day is included
                to_ms = day_begin(self.zone, last + timedelta(days=1))
        from_ms = to_ms - 7 * DAY_MS
        if "from" in texts:
            from_ms = read_time(texts["from"], self.zone, up=True)
        if from_ms >= to_ms:
            raise Refused("from is not before to")
        return from_ms, to_ms

    def previous(self, from_ms: int, to_ms: int) -> tuple[int, int]:
        """Give the range just before: of equal length, or of as many local days where both ends are dates."""
        first, last = a_date(self.get("from")), a_date(self.get("to"))
        if first is None or last is None:
            return from_ms - (to_ms - from_ms), from_ms
        days = [first + timedelta(days=n) for n in range((last - first).days + 1)]
        left = len([day for day in days if day_exists(self.zone, day)])
        while left:
            first -= timedelta(days=1)
            left -= day_exists(self.zone, first)
        return day_begin(self.zone, first), from_ms


def a_date(text: str) -> date | None:
    """Read a date that stands alone."""
    return date.fromisoformat(text) if re.fullmatch(r"\d{4}-\d\d-\d\d", text) else None


# --- the reference itself


class Model:
    """Some websites of one domain: what they were sent, and what they must answer."""

    def __init__(self, websites: Sequence[str], domain: str = "example.com") -> None:
        self.websites = websites
        self.domain = domain
        self.rows: list[Row] = []
        self.claims: dict[tuple[str, ...], int] = {}
        self.assigned: dict[tuple[object, ...], str] = {}
        self.life = 0

    def restart(self) -> None:
        """Forget who is who, as a restart does: the same person is a new visitor once."""
        self.life += 1

    def collect(self, body: Mapping[str, Json], sender: Sender, now_ms: int) -> Verdict:
        """Take a request."""
        events = [self.merged(event, body) for event in body.get("events", [body])]
        ids = [event.get("website_id") for event in events if isinstance(event, dict)]
        sent = [id for id in ids if UUID.fullmatch(str(id))]
        if sent and not any(id in self.websites for id in sent):
            return Verdict(404, 0, 0, ())
        faults: list[tuple[int, str]] = []
        for index, event in enumerate(events):
            code = self.take(event, sender, now_ms)
            if code is not None:
                faults.append((index, code))
        accepted = len(events) - len(faults)
        return Verdict(202 if accepted else 400, accepted, len(faults), tuple(faults))

    def merged(self, event: Json, body: Mapping[str, Json]) -> Json:
        """Fill in what the event leaves to the batch: website_id, and the context's seven fields."""
        if not isinstance(event, dict):
            return event
        full = {name: value for name, value in event.items() if present(value)}
        context = body.get("context") or {}
        below = {name: context[name] for name in FROM_CONTEXT if present(context.get(name))}
        return {"website_id": body.get("website_id"), **below, **full}

    def take(self, event: Json, sender: Sender, now_ms: int) -> str | None:
        """Take one event; give the code of its fault, None if it counts as accepted."""
        code = fault(event, self.websites, now_ms)
        if code is not None:
            return code
        at_ms = event_time(event.get("timestamp"), now_ms)
        assert isinstance(at_ms, int)
        visitor = self.visitor(event, sender, at_ms)
        variant = event.get("variant")
        if event["type"] == "ab_convert" and variant is None and "experiment" in event:
            variant = self.assigned.get((*visitor, event["experiment"]))
            if variant is None:
                return "no_assignment"
        if "event_id" in event:
            copy = (event["website_id"], event["event_id"], content(event))
            arrived_ms = self.claims.get(copy)
            self.claims[copy] = now_ms
            if arrived_ms is not None and now_ms - arrived_ms <= CLAIM_MS:
                return None
        if event["type"] == "ab_assign" and "experiment" in event and variant is not None:
            self.assigned[(*visitor, event["experiment"])] = event["variant"]
        self.rows.append(self.row(event, sender, at_ms, visitor, variant))
        return None

    def visitor(self, event: Mapping[str, Json], sender: Sender, at_ms: int) -> tuple[object, ...]:
        """Say who it is: website, the event's own UTC day, and session_id or else address and User-Agent."""
        who = (event["session_id"],) if "session_id" in event else (sender.address, sender.user_agent)
        return (self.life, event["website_id"], at_ms // DAY_MS, *who)

    def row(
        self,
        event: Mapping[str, Json],
        sender: Sender,
        at_ms: int,
        visitor: tuple[object, ...],
        variant: str | None,
    ) -> Row:
        """Make the stored event: each type keeps its own fields and ignores the others'."""
        kind = event["type"]
        own: dict[str, Json] = {}
        if kind in CUSTOM:
            own = {name: event.get(name) for name in ("event_name", "event_data")}
        elif kind == "vitals":
            own = {"vitals": event.get("vitals")}
        elif kind == "heatmap":
            if "points" in event and "viewport_width" in event:
                own = {"points": event["points"], "viewport": event["viewport_width"]}
        elif kind in ("ab_assign", "ab_convert"):
            own = {"experiment": event.get("experiment"), "variant": variant}
        if kind == "ab_convert":
            own |= {name: event.get(name) for name in ("goal", "value")}
        who = visitor if kind in TRAFFIC else None
        labels = labels_of(event, sender, self.domain)
        return Row(len(self.rows), event["website_id"], kind, at_ms, who, labels, person=visitor, **own)

    def answer(self, question: Question, now_ms: int, website: str) -> Answer:
        """Answer a question about one of the websites."""
        return Reader([row for row in self.rows if row.website == website]).answer(question, now_ms)


class Reader:
    """The read side, over the accepted events of one website."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = rows

    def visits(self) -> list[list[Row]]:
        """Cut every visitor's traffic events, sorted by time, where a gap is longer than 30 minutes."""
        found: list[list[Row]] = []
        traffic = [row for row in self.rows if row.type in TRAFFIC]
        for visitor in {row.visitor for row in traffic}:
            mine = sorted((row for row in traffic if row.visitor == visitor), key=lambda row: (row.at_ms, row.order))
            visit = [mine[0]]
            for row in mine[1:]:
                if row.at_ms - visit[-1].at_ms > VISIT_GAP_MS:
                    found.append(visit)
                    visit = []
                visit.append(row)
            found.append(visit)
        return found

    def chosen(self, question: Question, from_ms: int, to_ms: int) -> list[Row]:
        """Give E: the traffic events in [from, to) that match all the filters."""
        traffic = [row for row in self.rows if row.type in TRAFFIC]
        return [row for row in traffic if from_ms <= row.at_ms < to_ms and question.matches(row)]

    def chosen_visits(self, chosen: Sequence[Row], from_ms: int, to_ms: int) -> list[list[Row]]:
        """Give the visits that begin in the range and have at least one event in E."""
        orders = {row.order for row in chosen}
        begun = [visit for visit in self.visits() if from_ms <= visit[0].at_ms < to_ms]
        return [visit for visit in begun if any(row.order in orders for row in visit)]

    def figures(self, question: Question, from_ms: int, to_ms: int) -> dict[str, Fraction | None]:
        """Give the seven key figures of a range, unrounded."""
        chosen = self.chosen(question, from_ms, to_ms)
        return figures(chosen, self.chosen_visits(chosen, from_ms, to_ms))

    def answer(self, question: Question, now_ms: int) -> Answer:
        """Answer a question."""
        if question.path == "realtime":
            return self.realtime(now_ms)
        try:
            from_ms, to_ms = question.range(now_ms)
            kind, _, _name = question.path.partition("/")
            data, meta = {
                "stats": self.stats,
                "timeseries": self.timeseries,
                "top": self.top,
                "events": self.events,
                "event-names": self.event_names,
                "entry-pages": self.side_pages,
                "exit-pages": self.side_pages,
                "funnel": self.funnel,
                "event-data": self.event_data,
                "vitals": self.vitals,
                "experiments": self.experiments,
                "heatmap": self.heatmap,
                "heatmap-pages": self.heatmap_pages,
            }[kind](question, from_ms, to_ms)
        except Refused:
            return Answer(400)
        zone = question.zone
        meta = {
            "from": written(from_ms, zone),
            "to": written(to_ms, zone),
            "tz": zone,
            "filters": question.filters,
            **meta,
        }
        return Answer(200, data, meta)

    def stats(self, question: Question, from_ms: int, to_ms: int) -> tuple[Json, dict[str, Json]]:
        """Answer /stats."""
        now = self.figures(question, from_ms, to_ms)
        data: dict[str, Json] = {name: rounded(value, PLACES.get(name, 0)) for name, value in now.items()}
        if not question.get("compare"):
            return data, {"compare": None}
        previous_from_ms, previous_to_ms = question.previous(from_ms, to_ms)
        before = self.figures(question, previous_from_ms, previous_to_ms)
        data["previous"] = {name: rounded(value, PLACES.get(name, 0)) for name, value in before.items()}
        data["change"] = {name: change(now[name], before[name]) for name in now}
        meta = {
            "compare": "previous",
            "previous_from": written(previous_from_ms, question.zone),
            "previous_to": written(previous_to_ms, question.zone),
        }
        return data, meta

    def timeseries(self, question: Question, from_ms: int, to_ms: int) -> tuple[Json, dict[str, Json]]:
        """Answer /timeseries."""
        interval = question.get("interval", "day")
        chosen = self.chosen(question, from_ms, to_ms)
        visits = self.chosen_visits(chosen, from_ms, to_ms)
        edges = buckets(question.zone, interval, from_ms, to_ms)
        if len(edges) > MOST_BUCKETS:
            raise Refused("too many buckets")
        data = []
        for begin, end in edges:
            inside = counts(row for row in chosen if begin <= row.at_ms < end)
            begun = len([visit for visit in visits if begin <= visit[0].at_ms < end])
            data.append({"time": written(begin, question.zone), **inside, "visits": begun})
        return data, {"interval": interval}

    def top(self, question: Question, from_ms: int, to_ms: int) -> tuple[Json, dict[str, Json]]:
        """Answer /top/:field."""
        name = question.path.removeprefix("top/")
        chosen = self.chosen(question, from_ms, to_ms)
        found = {row.labels[name] for row in chosen}
        lines: list[dict[str, Any]] = [
            {"value": value, **counts(row for row in chosen if row.labels[name] == value)}
            for value in found
            if value is not None
        ]
        lines.sort(key=lambda line: (-line["visitors"], -line["pageviews"], -line["events"], line["value"]))
        limit = int(question.get("limit", "10"))
        unset = counts(row for row in chosen if row.labels[name] is None)
        return lines[:limit], {"field": name, "limit": limit, "unset": unset}

    def event_names(self, question: Question, from_ms: int, to_ms: int) -> tuple[Json, dict[str, Json]]:
        """Answer /event-names."""
        named = [row for row in self.chosen(question, from_ms, to_ms) if row.event_name is not None]
        lines: list[dict[str, Any]] = []
        for name in {row.event_name for row in named}:
            visitors = {row.visitor for row in named if row.event_name == name}
            events = len([row for row in named if row.event_name == name])
            lines.append({"value": name, "visitors": len(visitors), "events": events})
        lines.sort(key=lambda line: (-line["visitors"], -line["events"], line["value"]))
        return lines[: question.limit], {"limit": question.limit}

    def side_pages(self, question: Question, from_ms: int, to_ms: int) -> tuple[Json, dict[str, Json]]:
        """Answer /entry-pages and /exit-pages."""
        place = 0 if question.path == "entry-pages" else -1
        pages: dict[str | None, list[list[Row]]] = {}
        for visit in self.chosen_visits(self.chosen(question, from_ms, to_ms), from_ms, to_ms):
            views = [row for row in visit if row.type in VIEWS]
            pages.setdefault(views[place].labels["pathname"] if views else None, []).append(visit)
        unset = len(pages.pop(None, []))
        lines: list[dict[str, Any]] = []
        for page, visits in pages.items():
            of_visits = figures([], visits)
            shares = {name: rounded(of_visits[name], PLACES.get(name, 0)) for name in OF_VISITS}
            lines.append({"value": page, "visits": len(visits), **shares})
        lines.sort(key=lambda line: (-line["visits"], line["value"]))
        return lines[: question.limit], {"limit": question.limit, "unset": {"visits": unset}}

    def funnel(self, question: Question, from_ms: int, to_ms: int) -> tuple[Json, dict[str, Json]]:
        """Answer /funnel."""
        visits = self.chosen_visits(self.chosen(question, from_ms, to_ms), from_ms, to_ms)
        followed = [one_after_another(visit, question.steps) for visit in visits]
        lines = []
        for n, (name, value) in enumerate(question.steps):
            reached = [met for met in followed if len(met) > n]
            before = len([met for met in followed if len(met) > n - 1])
            waited = mean([met[n].at_ms - met[n - 1].at_ms for met in reached]) if n else None
            lines.append(
                {
                    "field": name,
                    "value": value,
                    "visits": len(reached),
                    "visitors": len({met[0].visitor for met in reached}),
                    "of_first": percent(len(reached), len([met for met in followed if met])),
                    "of_previous": percent(len(reached), before) if n else None,
                    "mean_seconds": None if waited is None else rounded(waited / 1000, 1),
                }
            )
        return lines, {}

    def event_data(self, question: Question, from_ms: int, to_ms: int) -> tuple[Json, dict[str, Json]]:
        """Answer /event-data."""
        name, only = question.get("event_name"), dict(question.params).get("property")
        own = [row for row in self.chosen(question, from_ms, to_ms) if row.event_name == name]
        properties = {key for row in own for key in row.event_data or {} if only is None or key == only}
        lines: list[dict[str, Any]] = []
        for key in properties:
            having = [row for row in own if key in (row.event_data or {})]
            groups: list[list[Row]] = []
            for row in having:
                alike = [group for group in groups if same_value(group[0].event_data[key], row.event_data[key])]
                if alike:
                    alike[0].append(row)
                else:
                    groups.append([row])
            values = [
                {
                    "value": group[0].event_data[key],
                    "events": len(group),
                    "visitors": len({row.visitor for row in group}),
                }
                for group in groups
            ]
            values.sort(key=lambda line: (-line["events"], -line["visitors"], json_order(line["value"])))
            numbers = numbers_of([row.event_data[key] for row in having])
            of_all = {"property": key, "events": len(having), "distinct": len(values), "numbers": numbers}
            lines.append({**of_all, "values": values[: question.limit], "exact": True})
        lines.sort(key=lambda line: (-line["events"], line["property"]))
        visitors = len({row.visitor for row in own})
        meta = {"event_name": name, "property": only, "limit": question.limit, "events": len(own), "visitors": visitors}
        return lines[:50], {**meta, "properties": len(properties), "exact": True}

    def measured(self, kind: str, question: Question, from_ms: int, to_ms: int) -> list[Row]:
        """Give the measurements of a type in [from, to) that match all the filters."""
        rows = [row for row in self.rows if row.type == kind and from_ms <= row.at_ms < to_ms]
        return [row for row in rows if question.matches(row)]

    def vitals(self, question: Question, from_ms: int, to_ms: int) -> tuple[Json, dict[str, Json]]:
        """Answer /vitals for what is exact: counts and ratings of three metrics, or by pathname or device."""
        rows = [row for row in self.measured("vitals", question, from_ms, to_ms) if row.vitals]
        by = question.get("by")
        if not by:
            values = {name: [row.vitals[name] for row in rows if name in row.vitals] for name in ("lcp", "inp", "cls")}
            return [{"metric": name, **rated(found, name)} for name, found in values.items()], {"by": None}
        metric = question.get("metric")
        lines: list[dict[str, Any]] = []
        poor: dict[Json, int] = {}
        for value in {row.labels[by] for row in rows if row.labels[by] is not None}:
            own = [row for row in rows if row.labels[by] == value]
            found = [row.vitals[metric] for row in own if metric in row.vitals]
            poor[value] = len([number for number in found if rating(metric, number) == "poor"])
            lines.append({"value": value, "events": len(own), **rated(found, metric)})
        lines.sort(key=lambda line: (-poor[line["value"]], -line["events"], line["value"]))
        return lines[: question.limit], {"by": by, "metric": metric, "limit": question.limit}

    def experiments(self, question: Question, from_ms: int, to_ms: int) -> tuple[Json, dict[str, Json]]:
        """Answer /experiments for what is counted: visitors by variant, and who converted, by goal and variant.

        Of one person all assignments are to one variant here.
        """
        assigned = [row for row in self.measured("ab_assign", question, from_ms, to_ms) if row.variant]
        converted = self.measured("ab_convert", Question(""), from_ms, to_ms)
        lines: list[dict[str, Any]] = []
        for name in sorted({row.experiment for row in assigned if row.experiment}):
            variant_of = {row.person: row.variant for row in assigned if row.experiment == name}
            done = {(row.person, row.goal) for row in converted if row.experiment == name and row.person in variant_of}
            variants = sorted({variant for variant in variant_of.values() if variant})
            goals = {
                goal: {
                    variant: len([who for who, goal_ in done if goal_ == goal and variant_of[who] == variant])
                    for variant in variants
                }
                for goal in {goal for _, goal in done}
            }
            visitors = {variant: list(variant_of.values()).count(variant) for variant in variants}
            lines.append({"experiment": name, "variants": visitors, "goals": goals})
        return lines, {}

    def pointed(self, question: Question, from_ms: int, to_ms: int) -> tuple[list[Row], dict[str, Json]]:
        """Give the heatmap events of the UTC days that a range touches, of the widths asked for, and meta."""
        first_ms, end_ms = from_ms // DAY_MS * DAY_MS, -(-to_ms // DAY_MS) * DAY_MS
        rows = [row for row in self.rows if row.points is not None and first_ms <= row.at_ms < end_ms]
        widths = question.filters.get("device")
        edges = {"from": written(first_ms, question.zone), "to": written(end_ms, question.zone)}
        meta = {**edges, "widened": (first_ms, end_ms) != (from_ms, to_ms)}
        return [row for row in rows if widths is None or width_class(row.viewport) in widths], meta

    def heatmap(self, question: Question, from_ms: int, to_ms: int) -> tuple[Json, dict[str, Json]]:
        """Answer /heatmap."""
        rows, meta = self.pointed(question, from_ms, to_ms)
        page = question.get("pathname")
        points = [point for row in rows if row.labels["pathname"] == page for point in row.points]
        clicks = [point for point in points if point["kind"] == "click"]
        cells = [(int(point["y"] // 20), min(int(point["x"] * 50), 49)) for point in clicks]
        depths = [point["y"] // 20 for point in points if point["kind"] == "scroll"]
        scroll: list[Json] = []
        while share := percent(len([depth for depth in depths if depth >= len(scroll)]), len(depths)):
            scroll.append(share)
        grid = [[x, y, cells.count((y, x))] for y, x in sorted(set(cells))]
        sums = {"samples": len(depths), "clicks": len(clicks), "scroll": scroll}
        data = {"grid": grid, "bins_x": 50, "bin_height": 20, **sums}
        return data, {**meta, "pathname": page, "cells": len(grid)}

    def heatmap_pages(self, question: Question, from_ms: int, to_ms: int) -> tuple[Json, dict[str, Json]]:
        """Answer /heatmap-pages."""
        rows, meta = self.pointed(question, from_ms, to_ms)
        lines: list[dict[str, Any]] = []
        for page in {row.labels["pathname"] for row in rows}:
            kinds = [point["kind"] for row in rows if row.labels["pathname"] == page for point in row.points]
            lines.append({"value": page, "samples": kinds.count("scroll"), "clicks": kinds.count("click")})
        lines.sort(key=lambda line: (-line["samples"] - line["clicks"], line["value"]))
        return lines[: question.limit], {**meta, "limit": question.limit, "unset": {"samples": 0, "clicks": 0}}

    def events(self, question: Question, from_ms: int, to_ms: int) -> tuple[Json, dict[str, Json]]:
        """Answer /events with the whole list; `visit` is a number, the same for all events of one visit."""
        number = {row.order: index for index, visit in enumerate(self.visits()) for row in visit}
        rows = [row for row in self.rows if row.points is None and from_ms <= row.at_ms < to_ms]
        rows = sorted(filter(question.matches, rows), key=lambda row: (row.at_ms, row.order), reverse=True)
        data = [
            {
                "type": row.type,
                "timestamp": written(row.at_ms, question.zone),
                **row.labels,
                "event_name": row.event_name,
                "event_data": row.event_data,
                "visit": number.get(row.order),
                "vitals": row.vitals,
                "experiment": row.experiment,
                "variant": row.variant,
                "goal": row.goal,
                "value": row.value,
            }
            for row in rows
        ]
        return data, {"limit": int(question.get("limit", "100"))}

    def realtime(self, now_ms: int) -> Answer:
        """Answer /realtime; pages as a table of pathname to visitors."""
        pages: dict[str | None, set[object]] = {}
        active: set[object] = set()
        for visit in self.visits():
            if any(now_ms - ACTIVE_MS <= row.at_ms <= now_ms for row in visit):
                active.add(visit[0].visitor)
                views = [row for row in visit if row.type in VIEWS]
                if views:
                    pages.setdefault(views[-1].labels["pathname"], set()).add(visit[0].visitor)
        table = {page: len(visitors) for page, visitors in pages.items()}
        data = {"active_visitors": len(active), "pages": table, "window_seconds": 300}
        return Answer(200, data, {"time": written(now_ms, "UTC")})
