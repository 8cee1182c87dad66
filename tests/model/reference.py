"""Reference implementation: a slow, plain second implementation of the collect and read APIs.

`test_model.py` sends the same requests to the server and to this file and compares the responses.
- It imports no code of the server and follows docs/reference/ and static/openapi.yaml alone.
- Accepted events are a plain list in order of arrival, counted with loops, lists and sets.
- There are no indexes and no rollups. Visits are computed from sorted lists for every query.
- Days and hours are found minute by minute (since 1972 all zones change on whole minutes), without arithmetic
  on offsets.
- Shares and means are Fractions until the last step, then rounded half away from zero.
Not implemented: lookup of countries and User-Agents (`Sender` has their results), origins, crawlers, quotas, rate
limits and the conclusions of experiments.

`Model.collect` is the collect side, `Model.respond` the read side. A query is a path below
/api/v1/websites/<id>/ and a list of query parameters, as a client sends them.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import cache
from itertools import pairwise
from operator import contains
from typing import Any
from urllib.parse import quote, unquote, unquote_plus
from zoneinfo import ZoneInfo

from clients.generate import SCHEMAS

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
VISIT_GAP_MS = 30 * MINUTE_MS  # events exactly 30:00.000 apart are in the same visit
MAX_AGE_MS = 72 * HOUR_MS  # at most 72 hours old
MAX_AHEAD_MS = 5 * MINUTE_MS  # more than 5 minutes ahead
DEDUPLICATION_MS = 72 * HOUR_MS  # 72 hours after the arrival of the last copy
ACTIVE_MS = 300_000  # the last 300 seconds
MAX_BUCKETS = 10_000  # more than 10,000 buckets: 400

VIEWS = ("pageview", "screen_view")
CUSTOM = ("event", "app_event")
TRAFFIC = VIEWS + CUSTOM
REFERRER_TYPES = (*VIEWS, "event")
MEASUREMENTS = ("vitals", "heatmap", "ab_assign", "ab_convert")
REQUIRED_FIELDS = {
    "pageview": ("url",),
    "screen_view": ("name",),
    "event": ("event_name",),
    "app_event": (),
    **dict.fromkeys(MEASUREMENTS, ()),  # without their fields they are stored, and count in no statistic
}
# The dimensions, in the order of /events: between `timestamp` and `event_name`.
_COLUMNS = list(SCHEMAS["StoredEvent"]["properties"])
FIELDS = tuple(_COLUMNS[_COLUMNS.index("timestamp") + 1 : _COLUMNS.index("event_name")])
UTM = ("utm_source", "utm_medium", "utm_campaign", "utm_content", "utm_term")
ACQUISITION = ("referrer", *UTM)
# The hosts of the scenarios that docs/reference/channels.md has an own channel for.
HOST_CHANNELS = {"google.com": "Organic search", "t.co": "Organic social", "com.google.android.gm": "Email"}
VISIT_PAGES = ("entry_page", "exit_page")
MEASUREMENT_FIELDS = {
    "vitals": ("vitals",),
    "heatmap": ("points", "viewport_width"),
    "ab_assign": ("experiment", "variant"),
    "ab_convert": ("experiment", "variant", "goal", "value"),
}
CONTEXT_FIELDS = ("platform", "app_version", "os_version", "language", "browser", "os", "device")
DEVICES = ("desktop", "mobile", "tablet", "tv", "console", "other")
SESSION_ID_LENGTHS = range(8, 65)  # 8 to 64 characters
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
    sender_identity: tuple[object, ...] | None = None  # the visitor, also for the measurement types
    entry_page: str | None = None
    exit_page: str | None = None

    def label(self, name: str) -> str | None:
        """Return the value that a filter on `name` compares."""
        if name == "type":
            return self.type
        if name in VISIT_PAGES:
            return self.entry_page if name == "entry_page" else self.exit_page
        return self.event_name if name == "event_name" else self.labels[name]


@dataclass(frozen=True, slots=True)
class CollectResponse:
    """Response of the collect endpoint; `errors` are (index, code)."""

    status: int
    accepted: int
    rejected: int
    errors: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class Response:
    """Response of the read API; of /events all pages at once, with visits numbered from 0."""

    status: int
    data: Json = None
    meta: Mapping[str, Json] = field(default_factory=dict)


class BadRequest(Exception):
    """The response is 400."""


# --- time: instants are integer milliseconds since 1970 in UTC


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def instant(time: datetime) -> int:
    """Return the milliseconds of an aware datetime."""
    return (time - EPOCH) // timedelta(milliseconds=1)


def local(at_ms: int, zone: str) -> datetime:
    """Return the local time of an instant."""
    return (EPOCH + timedelta(milliseconds=at_ms)).astimezone(ZoneInfo(zone))


def format_time(at_ms: int, zone: str) -> str:
    """Return an instant in the format of the API: local time with milliseconds and offset."""
    return local(at_ms, zone).isoformat(timespec="milliseconds")


@cache
def day_start(zone: str, day: date) -> int:
    """Return the first instant of a local date, or of the next date if this one does not exist in the zone."""
    at_ms = instant(datetime(day.year, day.month, day.day, tzinfo=UTC)) - 16 * HOUR_MS
    while local(at_ms, zone).date() < day:
        at_ms += MINUTE_MS
    return at_ms


def day_exists(zone: str, day: date) -> bool:
    """Return whether any instant has this local date."""
    return local(day_start(zone, day), zone).date() == day


@cache
def instant_of_local_time(zone: str, wall: datetime) -> int:
    """Return the instant of a local minute: the first if it occurs twice, after the gap if it is missing."""
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
def hour_starts(zone: str, utc_day: int) -> tuple[int, ...]:
    """Return the instants of a UTC day at which a local hour begins: full hours and changes of offset."""
    found = []
    before = local(utc_day * DAY_MS - MINUTE_MS, zone).utcoffset()
    for at_ms in range(utc_day * DAY_MS, (utc_day + 1) * DAY_MS, MINUTE_MS):
        here = local(at_ms, zone)
        if here.minute == 0 or here.utcoffset() != before:
            found.append(at_ms)
        before = here.utcoffset()
    return tuple(found)


def buckets(zone: str, interval: str, from_ms: int, to_ms: int) -> list[tuple[int, int]]:
    """Return the (begin, end) of every bucket that overlaps [from, to), in order."""
    if interval in ("day", "week", "month"):
        first, last = local(from_ms, zone).date(), local(to_ms, zone).date()
        days = [first + timedelta(days=n) for n in range(-33, (last - first).days + 34)]
        of_bucket: dict[object, date] = {}
        for day in days:
            if day_exists(zone, day):
                of_bucket.setdefault(
                    {"day": day, "week": day.isocalendar()[:2], "month": (day.year, day.month)}[interval], day
                )
        # The first of these days may be in the middle of a week or month.
        begins = [day_start(zone, day) for day in [*of_bucket.values()][1:]]
    elif interval == "minute":
        if to_ms - from_ms > DAY_MS:
            raise BadRequest("more than 24 hours by minute")
        begins = [minute * MINUTE_MS for minute in range(from_ms // MINUTE_MS, to_ms // MINUTE_MS + 2)]
    else:
        days_utc = range(from_ms // DAY_MS - 1, to_ms // DAY_MS + 2)
        begins = [at_ms for utc_day in days_utc for at_ms in hour_starts(zone, utc_day)]
    pairs = itertools.pairwise(begins)
    return [(begin, end) for begin, end in pairs if begin < to_ms and end > from_ms]


TIME = re.compile(
    r"(?P<day>\d{4}-\d\d-\d\d)"
    r"(?:[T ](?P<hour>\d\d):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:\.(?P<part>\d+))?)?"
    r"(?P<offset>Z|[-+ ]\d\d:\d\d)?)?"
)


def parse_time(text: str, zone: str, *, up: bool) -> int:
    """Return the instant of an ISO 8601 time; fractions of a millisecond are rounded up (queries) or down (events)."""
    match = TIME.fullmatch(text)
    if match is None:
        raise BadRequest(text)
    if match["hour"] is None:
        return day_start(zone, date.fromisoformat(match["day"]))
    wall = datetime.fromisoformat(f"{match['day']}T{match['hour']}:{match['minute']}")
    rest = Fraction(int(match["second"] or 0) * 1000)
    rest += Fraction(int(match["part"] or 0), 10 ** len(match["part"] or "")) * 1000
    rest_ms = -(-rest // 1) if up else rest // 1
    if match["offset"] is None:
        return instant_of_local_time(zone, wall) + rest_ms
    offset = "+00:00" if match["offset"] == "Z" else match["offset"].replace(" ", "+")
    sign = -1 if offset[0] == "-" else 1
    ahead_ms = sign * (int(offset[1:3]) * HOUR_MS + int(offset[4:6]) * MINUTE_MS)
    return instant(wall.replace(tzinfo=UTC)) + rest_ms - ahead_ms


# --- validation and dimensions of one event


def present(value: Json) -> bool:
    """Return whether a field has a value: null and the empty string count as absent."""
    return value is not None and value != ""


def event_time(value: Json, now_ms: int) -> int | str:
    """Return the event's instant or its error code; times up to 5 minutes in the future become now."""
    if value is None or value == "":
        return now_ms
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return "invalid_field"
    if isinstance(value, str):
        try:
            at_ms = parse_time(value, "UTC", up=False)
        except BadRequest:
            return "invalid_field"
    elif value != int(value):
        return "invalid_field"
    else:
        at_ms = int(value)
    if at_ms < now_ms - MAX_AGE_MS:
        return "timestamp_too_old"
    if at_ms > now_ms + MAX_AHEAD_MS:
        return "timestamp_in_future"
    return min(at_ms, now_ms)


URL = re.compile(r"(?i:https?)://(?P<host>[^/?#:]+)(?::\d+)?(?P<path>/[^?#]*)?(?:\?(?P<query>[^#]*))?(?:#.*)?")
REFERRER = re.compile(r"(?i:https?|android-app|ios-app)://(?P<host>[^/?#:]+)(?::\d+)?(?:[/?#].*)?")
LANGUAGE = re.compile(r"[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*")


PAGES = ("pathname", "entry_page", "exit_page")


def stored_text(text: str) -> str:
    """Return a part of a path as it is stored: ASCII, escapes in upper case, none of unreserved characters."""
    found = ""
    for piece in re.findall("%[0-9A-Fa-f]{2}|.", text.replace("\\", "/")):
        character = unquote(piece)
        if re.fullmatch("[A-Za-z0-9._~-]", character):
            found += character
        else:
            found += piece.upper() if len(piece) == 3 else quote(piece, safe="!$&'()*+,/:;=@[]|%")
    return found


def stored_path(path: str) -> str:
    """Return a path as it is stored, without segments of dots."""
    first, *segments = stored_text(path).split("/")
    kept: list[str] = []
    for segment in segments:
        kept = kept[:-1] if segment == ".." else kept if segment == "." else [*kept, segment]
    return "/".join([first, *kept, *([""] if segments[-1:] in ([".."], ["."]) else [])])


def text_error(event: Mapping[str, Json], name: str, sizes: range) -> str | None:
    """Return the error code of a text field, or None if it is absent or valid."""
    value = event.get(name)
    if not present(value):
        return None
    return None if isinstance(value, str) and len(value) in sizes else "invalid_field"


def described(fields: Mapping[str, Json]) -> dict[str, Json]:
    """Return the fields of an event or context, without the descriptive ones that break a rule; long texts are cut."""
    kept = dict(fields)
    for name in CONTEXT_FIELDS:
        value = kept.get(name, "")
        if not isinstance(value, str) or "\0" in value:
            del kept[name]
        elif value:
            kept[name] = value[:LABEL_LIMIT]
    if "device" in kept and kept["device"] not in DEVICES:
        del kept["device"]
    if "language" in kept and not LANGUAGE.fullmatch(kept["language"]):
        del kept["language"]
    if "referrer" in kept and not (isinstance(kept["referrer"], str) and REFERRER.fullmatch(kept["referrer"])):
        del kept["referrer"]
    return kept


UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def event_error(event: Json, websites: Sequence[str], now_ms: int) -> str | None:
    """Return the code of the first error of an event merged with its context, or None if it is valid."""
    if not isinstance(event, dict) or event.get("type") not in TRAFFIC + MEASUREMENTS:
        return "invalid_type"
    if not present(event.get("website_id")):
        return "missing_field"
    if not UUID.fullmatch(str(event["website_id"])):
        return "invalid_website_id"
    if event["website_id"] not in websites:
        return "unknown_website"
    if any(not present(event.get(name)) for name in REQUIRED_FIELDS[event["type"]]):
        return "missing_field"
    if present(event.get("url")) and not URL.fullmatch(str(event["url"])):
        return "invalid_url"
    names = {"session_id": SESSION_ID_LENGTHS, "name": range(1, NAME_LIMIT + 1), "event_id": range(1, 65)}
    if event["type"] in CUSTOM:
        names["event_name"] = range(1, EVENT_NAME_LIMIT + 1)
    for name, sizes in names.items():
        if text_error(event, name, sizes):
            return "invalid_field"
    if event["type"] in CUSTOM and present(data := event.get("event_data")):
        values = data.values() if isinstance(data, dict) else [[]]
        if any(isinstance(value, dict | list) for value in values):
            return "invalid_event_data"
    at_ms = event_time(event.get("timestamp"), now_ms)
    return at_ms if isinstance(at_ms, str) else None


def event_content(event: Mapping[str, Json]) -> str:
    """Return the content that deduplication compares for equal event_ids: without time, sender and labels."""
    url = URL.fullmatch(event["url"]) if "url" in event else None
    own = {name: event.get(name) for name in ("event_name", "event_data") if event["type"] in CUSTOM}
    own |= {name: event.get(name) for name in MEASUREMENT_FIELDS.get(event["type"], ())}
    where = [url["host"].lower(), stored_path(url["path"] or "/"), url["query"] or ""] if url else []
    return json.dumps([event["type"], where, event.get("name"), own], sort_keys=True)


def canonical_language(tag: str) -> str:
    """Return a language tag in its canonical case: en-US, zh-Hant-TW."""
    first, *others = tag.split("-")
    cases = {2: str.upper, 4: str.title}
    return "-".join([first.lower(), *(cases.get(len(part), str.lower)(part) for part in others)])


def bare_host(host: str) -> str:
    """Return the host of a referrer as it is stored: lowercase, without www."""
    return host.lower().removeprefix("www.")


@dataclass(frozen=True, slots=True)
class Sender:
    """Sender of a request, with the place of the address and the dimensions of the User-Agent."""

    address: str
    user_agent: str
    country: str | None
    defaults: Mapping[str, str | None]
    language: str | None = None
    region: str | None = None
    city: str | None = None


def labels_of(event: Mapping[str, Json], sender: Sender, domain: str) -> dict[str, str | None]:
    """Return the dimensions of an event."""
    values = {name: event[name] if present(event.get(name)) else sender.defaults.get(name) for name in CONTEXT_FIELDS}
    if not present(event.get("os_version")) and values["os"] != sender.defaults.get("os"):
        values["os_version"] = None  # the User-Agent's version belongs to the User-Agent's system only
    is_same_browser = values["browser"] == sender.defaults.get("browser")
    values["browser_version"] = sender.defaults.get("browser_version") if is_same_browser else None
    if values["language"] is None:
        values["language"] = sender.language
    if values["language"] is not None:
        values["language"] = canonical_language(values["language"])
    labels: dict[str, str | None] = dict.fromkeys(FIELDS)
    labels |= values | {"country": sender.country, "region": sender.region, "city": sender.city}
    name = event.get("name")
    if present(name):
        labels["pathname"] = stored_path("/" + str(name))
    if present(event.get("url")):
        url = URL.fullmatch(event["url"])
        assert url is not None
        if event["type"] != "screen_view":
            labels["pathname"] = stored_path(url["path"] or "/")
        labels["hostname"] = url["host"].lower().encode("idna").decode()
        for pair in (url["query"] or "").split("&"):
            key, _, value = pair.partition("=")
            if key in UTM and value:
                labels[key] = unquote_plus(value)
    if event["type"] in REFERRER_TYPES and present(event.get("referrer")):
        referrer = REFERRER.fullmatch(event["referrer"])
        assert referrer is not None
        host = bare_host(referrer["host"])
        if host != domain and not host.endswith("." + domain):
            labels["referrer"] = host
    labels["channel"] = channel(labels)
    return labels


def channel(labels: Mapping[str, str | None]) -> str:
    """Return the channel, by the rows of docs/reference/channels.md that apply to the scenarios."""
    if not any(labels[name] for name in ("referrer", "utm_source", "utm_medium", "utm_campaign")):
        return "Direct"
    # The source is utm_source where it is set; no utm_source of the scenarios has an own channel.
    of_host = None if labels["utm_source"] else HOST_CHANNELS.get(labels["referrer"] or "")
    if of_host in ("Organic search", "Organic social"):
        return of_host
    medium = re.sub("[^a-z]", "", (labels["utm_medium"] or "").lower())
    if of_host == "Email" or "email" in medium:
        return "Email"
    return "Referral" if (labels["utm_source"] or labels["referrer"]) and not medium else "Other"


# --- figures


def rounded(value: Fraction | None, places: int) -> int | float | None:
    """Round half away from zero."""
    if value is None:
        return None
    tenths = int(abs(value) * 10**places + Fraction(1, 2))
    whole = Fraction(tenths, 10**places) * (-1 if value < 0 else 1)
    return int(whole) if places == 0 else float(whole)


VISIT_FIGURES = ("bounce_rate", "views_per_visit", "visit_duration")
DECIMALS = {"bounce_rate": 1, "views_per_visit": 2}  # decimals; the other figures are integers


def mean(values: Sequence[int]) -> Fraction | None:
    """Return the exact mean, or None if there are no values."""
    return Fraction(sum(values), len(values)) if values else None


def counts(rows: Iterable[Row]) -> dict[str, int]:
    """Count visitors, pageviews and events of some traffic events."""
    matching = list(rows)
    return {
        "visitors": len({row.visitor for row in matching}),
        "pageviews": len([row for row in matching if row.type in VIEWS]),
        "events": len([row for row in matching if row.type in CUSTOM]),
    }


def is_bounce(visit: Sequence[Row]) -> bool:
    """Return whether the visit has exactly one pageview and no custom event, in the range or not."""
    return [row.type in VIEWS for row in visit] == [True]


def figures(matching: Sequence[Row], visits: Sequence[Sequence[Row]]) -> dict[str, Fraction | None]:
    """Return the seven key figures, unrounded."""
    bounces = [1 if is_bounce(visit) else 0 for visit in visits]
    views = [len([row for row in visit if row.type in VIEWS]) for visit in visits]
    durations_ms = [visit[-1].at_ms - visit[0].at_ms for visit in visits]
    share, duration_ms = mean(bounces), mean(durations_ms)
    whole = {name: Fraction(count) for name, count in counts(matching).items()}
    return whole | {
        "visits": Fraction(len(visits)),
        "bounce_rate": None if share is None else share * 100,
        "views_per_visit": mean(views),
        "visit_duration": None if duration_ms is None else duration_ms / 1000,
    }


def percent(part: int, whole: int) -> float | int | None:
    """Return a share in percent with one decimal, or None if `whole` is 0."""
    return rounded(Fraction(100 * part, whole), 1) if whole else None


def completed_steps(visit: Sequence[Row], steps: Sequence[tuple[str, str]]) -> list[Row]:
    """Return the events that complete the steps of a funnel in order, up to the first step not completed."""
    completed: list[Row] = []
    for row in visit:
        if len(completed) == len(steps):
            break
        name, value = steps[len(completed)]
        if name == "goal":
            completed += [row] if GOALS[value].counts(row) else []
        elif row.type in (VIEWS if name == "pathname" else CUSTOM) and row.label(name) == value:
            completed.append(row)
    return completed


def step_fields(row: Row) -> list[str]:
    """Return the field that names a row as a step of a journey."""
    return ["pathname"] if row.type in VIEWS else ["event_name"] if row.type in CUSTOM else []


def step_parts(step: str) -> tuple[str | None, str | None]:
    """Return the field and value of a step written field:value; None where there is none."""
    name, _, value = step.partition(":")
    return name or None, value or None


def is_same_value(one: Json, other: Json) -> bool:
    """Return whether two JSON scalars are equal: 1 and 1.0 are, 1 and true are not."""
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def json_sort_key(value: Json) -> tuple[int, Json]:
    """Return the sort key of a JSON scalar: null, false, true, numbers, texts by code point."""
    if value is None:
        return 0, 0
    return (1 if isinstance(value, bool) else 3 if isinstance(value, str) else 2), value


def number_statistics(values: Sequence[Json]) -> dict[str, Json] | None:
    """Return the statistics of the numbers among the values; percentiles by the nearest rank."""
    found = sorted(value for value in values if isinstance(value, int | float) and not isinstance(value, bool))
    if not found:
        return None
    total = sum(map(Fraction, found), Fraction())
    ranks = {share: next(n for n in range(1, len(found) + 1) if 100 * n >= share * len(found)) for share in (50, 95)}
    return {
        "samples": len(found),
        "sum": float(total),
        "mean": float(total / len(found)),
        "min": found[0],
        "p50": found[ranks[50] - 1],
        "p95": found[ranks[95] - 1],
        "max": found[-1],
    }


def width_class(viewport: float) -> str:
    """Return the device class of a viewport: mobile below 640 pixels, tablet below 1,024."""
    return "mobile" if viewport < 640 else "tablet" if viewport < 1024 else "desktop"


WEB_VITALS = {"lcp": (2500, 4000), "inp": (200, 500), "fcp": (1800, 3000), "ttfb": (800, 1800), "cls": (0.1, 0.25)}


def rating(metric: str, value: float) -> str:
    """Rate a web vital by the published thresholds."""
    good, poor = WEB_VITALS[metric]
    return "good" if value <= good else "poor" if value > poor else "needs_improvement"


def summary_of_vital(values: Sequence[float], metric: str) -> dict[str, Json]:
    """Return the number of values of a web vital, its percentiles and the share of each rating."""
    ranked = sorted(values)
    ranks = {percent: math.ceil(Fraction(percent * len(ranked), 100)) for percent in (50, 75, 95)}
    percentiles = {f"p{percent}": ranked[rank - 1] if ranked else None for percent, rank in ranks.items()}
    ratings = [rating(metric, value) for value in values]
    shares = {name: percent(ratings.count(name), len(values)) for name in ("good", "needs_improvement", "poor")}
    return {"samples": len(values), **percentiles, **shares}


def change(now: Fraction | None, before: Fraction | None) -> int | float | None:
    """Return the relative change in percent; null where the previous figure is 0 or null."""
    return rounded((now - before) / before * 100, 1) if before and now is not None else None


@dataclass(frozen=True, slots=True)
class Goal:
    """A saved goal: the types and filters of its conversions, and the property that holds their value."""

    types: tuple[str, ...]
    filters: Mapping[str, Sequence[str]]
    value: str | None = None

    def counts(self, row: Row) -> bool:
        """Return whether an event is a conversion."""
        return row.type in self.types and all(
            (row.label(name) or "") in values for name, values in self.filters.items()
        )


# By what a goal orders a list, beside the key figures.
GOAL_ORDERS = ("conversions", "conversion_rate")
# What both websites of every scenario have, by id.
GOALS = {
    "0" * 15 + "1": Goal(CUSTOM, {"event_name": ["signup"]}, "n"),
    "0" * 15 + "2": Goal(CUSTOM, {"event_name": ["signup", "Signup", "+49"]}, "x"),
    "0" * 15 + "3": Goal(VIEWS, {"pathname": ["/shop", "/", "/Home"]}),
}
SEGMENTS = {
    "0" * 15 + "4": {"pathname": ["/", "/shop", "/shop/"]},
    "0" * 15 + "5": {"event_name": ["signup", ""], "country": ["JP", ""]},
}


def conversions(goal: Goal, matching: Sequence[Row]) -> dict[str, Json]:
    """Return what a goal adds to a row with some events."""
    own = [row for row in matching if goal.counts(row)]
    visitors = {row.visitor for row in own}
    values = [(row.event_data or {}).get(goal.value) for row in own]
    numbers = [Decimal(str(value)) for value in values if type(value) in (int, float) or value == "3"]
    total = sum(numbers, Decimal())
    return {
        "conversions": len(own),
        "converted_visitors": len(visitors),
        "conversion_rate": percent(len(visitors), len({row.visitor for row in matching})),
        "conversion_value": None if goal.value is None else f"{total:.2f}",
    }


@dataclass(frozen=True, slots=True)
class Query:
    """A path below /api/v1/websites/<id>/ and its query parameters."""

    path: str
    params: tuple[tuple[str, str], ...] = ()

    def get(self, name: str, default: str = "") -> str:
        """Return the value of a parameter."""
        return dict(self.params).get(name, default)

    @property
    def zone(self) -> str:
        """Return the time zone of the query."""
        return self.get("tz", "UTC")

    @property
    def limit(self) -> int:
        """Return the maximum number of rows."""
        return int(self.get("limit", "10"))

    @property
    def steps(self) -> list[tuple[str, str]]:
        """Return the steps of a funnel."""
        texts = [value.partition(":") for name, value in self.params if name == "step"]
        return [(name, stored_path(value) if name == "pathname" else value) for name, _, value in texts]

    @property
    def filters(self) -> dict[str, list[str]]:
        """Return the filters by field, pages in the spelling in which they are stored."""
        found: dict[str, dict[str, None]] = {}
        for name, value in self.params:
            if name.startswith("filter_"):
                key = name.removeprefix("filter_")
                stored = value
                if key.rstrip("!*^$") in PAGES:
                    stored = stored_path(value) if key[-1] not in "*^$" else stored_text(value)
                found.setdefault(key, {})[stored] = None
        return {key: list(values) for key, values in found.items()}

    def matches(self, row: Row) -> bool:
        """Return whether an event passes every filter; the empty value means unset."""
        own = [(name, values) for name, values in self.filters.items() if name != "goal"]
        segment, goal = self.get("segment"), self.get("filter_goal")
        own += list(SEGMENTS[segment].items()) if segment else []
        return all(passes(row, name, values) for name, values in own) and (not goal or GOALS[goal].counts(row))

    def added(self, matching: Sequence[Row]) -> dict[str, Json]:
        """Return what the goal of the query adds to a row with some events."""
        return conversions(GOALS[self.get("goal")], matching) if self.get("goal") else {}

    def range(self, now_ms: int) -> tuple[int, int]:
        """Return the instants of from and to."""
        texts = dict(self.params)
        # Fractions of a millisecond are rounded up, now included: an event answered 202 in the current
        # millisecond is included in every query that begins after it.
        to_ms = now_ms + 1
        if "to" in texts:
            last = parse_date(texts["to"])
            to_ms = parse_time(texts["to"], self.zone, up=True)
            if last is not None:  # a date as the end includes that day
                to_ms = day_start(self.zone, last + timedelta(days=1))
        from_ms = to_ms - 7 * DAY_MS
        if "from" in texts:
            from_ms = parse_time(texts["from"], self.zone, up=True)
        if from_ms >= to_ms:
            raise BadRequest("from is not before to")
        return from_ms, to_ms

    def compared(self, from_ms: int, to_ms: int) -> tuple[int, int]:
        """Return the range to compare with."""
        if self.is_by_place:
            return self.previous(from_ms, to_ms)
        begin_ms, end_ms = self.moved_range(from_ms, to_ms)
        return begin_ms, end_ms if begin_ms < end_ms else begin_ms + to_ms - from_ms

    @property
    def is_by_place(self) -> bool:
        """Return whether the other range is the one just before."""
        return self.get("compare") == "previous" and not self.get("match_weekday")

    def moved_range(self, from_ms: int, to_ms: int) -> tuple[int, int]:
        """Return the range of the same local times; it is empty where the clock went back within the one of the query,
        or forward in the other."""
        first, last = parse_date(self.get("from")), parse_date(self.get("to"))
        weeks = self.weeks(from_ms, to_ms)
        if first is not None and last is not None:
            begin_ms = day_start(self.zone, self.moved(first, weeks))
            return begin_ms, day_start(self.zone, self.moved(last, weeks) + timedelta(days=1))
        return self.moved_time(from_ms, weeks), self.moved_time(to_ms, weeks)

    def weeks(self, from_ms: int, to_ms: int) -> int:
        """Return by how many weeks the other range is earlier, with match_weekday: the fewest without an overlap."""
        first, last = parse_date(self.get("from")), parse_date(self.get("to"))
        if self.get("compare") == "year":
            return 52
        if first is not None and last is not None:
            return math.ceil(((last - first).days + 1) / 7)
        return next(weeks for weeks in itertools.count(1) if self.moved_time(to_ms, weeks) <= from_ms)

    def moved(self, day: date, weeks: int) -> date:
        """Return the day of the other range that a day is compared with."""
        if self.get("match_weekday"):
            return day - timedelta(weeks=weeks)
        return date(day.year - 1, day.month, 28 if (day.month, day.day) == (2, 29) else day.day)

    def moved_time(self, at_ms: int, weeks: int) -> int:
        """Return the instant of the same local time on another day."""
        here = local(at_ms, self.zone)
        return self.same_time(at_ms, self.moved(here.date(), weeks))

    def same_time(self, at_ms: int, day: date) -> int:
        """Return the instant on a day that has the local time of `at_ms`."""
        wall = datetime.combine(day, local(at_ms, self.zone).time().replace(second=0, microsecond=0))
        return instant_of_local_time(self.zone, wall) + at_ms % MINUTE_MS

    def part_compared(self, from_ms: int, to_ms: int, now_ms: int) -> tuple[int, int]:
        """Return the range to compare with: as much of it as has passed of one that is not over."""
        begin_ms, end_ms = self.compared(from_ms, to_ms)
        if not from_ms <= now_ms < to_ms:
            return begin_ms, end_ms
        last_ms = min(now_ms - now_ms % MINUTE_MS + MINUTE_MS, to_ms) - 1
        first, last = parse_date(self.get("from")), parse_date(self.get("to"))
        if not self.is_by_place:
            part_ms = self.moved_time(last_ms, self.weeks(from_ms, to_ms))
            moved_from_ms, moved_to_ms = self.moved_range(from_ms, to_ms)
            if moved_from_ms >= moved_to_ms:
                part_ms = begin_ms + last_ms - from_ms
        elif first and last:
            part_ms = self.same_time(last_ms, self.as_many_before(local(last_ms, self.zone).date(), first, last))
        else:
            part_ms = last_ms - (to_ms - from_ms)
        return begin_ms, min(max(part_ms + 1, begin_ms + 1), end_ms)

    def previous(self, from_ms: int, to_ms: int) -> tuple[int, int]:
        """Return the previous range: of equal length, or of as many local days if both ends are dates."""
        first, last = parse_date(self.get("from")), parse_date(self.get("to"))
        if first is None or last is None:
            return from_ms - (to_ms - from_ms), from_ms
        return day_start(self.zone, self.as_many_before(first, first, last)), from_ms

    def as_many_before(self, day: date, first: date, last: date) -> date:
        """Return the day that is as many days before another as there are from `first` to `last`."""
        days = [first + timedelta(days=n) for n in range((last - first).days + 1)]
        left = len([day for day in days if day_exists(self.zone, day)])
        while left:
            day -= timedelta(days=1)
            left -= day_exists(self.zone, day)
        return day


def passes(row: Row, name: str, values: Sequence[str]) -> bool:
    """Return whether an event passes a filter: a field or `prop.` and a property, with the operator at its end."""
    field, operator = (name[:-1], name[-1]) if name[-1] in "!*^$" else (name, "")
    if field.startswith("prop."):
        data = row.event_data or {}
        own = data.get(field.removeprefix("prop."), "")
        found = own if isinstance(own, str) else None
        same = any(found == value or (found is None and equals(own, value)) for value in values)
    else:
        found = row.label(field) or ""
        same = found in values
    if operator in ("", "!"):
        return same is not (operator == "!")
    tests: dict[str, Callable[[str, str], bool]] = {"*": contains, "^": str.startswith, "$": str.endswith}
    return found is not None and any(tests[operator](found, value) for value in values)


def equals(own: Json, text: str) -> bool:
    """Return whether a value equals the number, true, false or null that a text is."""
    try:
        value = json.loads(text)
    except ValueError:
        return False
    is_scalar = type(value) in (int, float, bool, type(None))
    return is_scalar and isinstance(own, bool) is isinstance(value, bool) and bool(own == value)


def parse_date(text: str) -> date | None:
    """Return the date if the text is a date without a time, else None."""
    return date.fromisoformat(text) if re.fullmatch(r"\d{4}-\d\d-\d\d", text) else None


# --- the model


class Model:
    """Model of the server for some websites of one domain."""

    def __init__(self, websites: Sequence[str], domain: str = "example.com", offset_ms: int = 0) -> None:
        self.websites, self.offset_ms = websites, offset_ms
        self.domain = domain
        self.rows: list[Row] = []
        self.event_ids: dict[tuple[str, ...], int] = {}
        self.assignments: dict[tuple[object, ...], str] = {}
        self.restarts = 0

    def restart(self) -> None:
        """Discard the visitor identities, as a restart does: a returning client is counted as a new visitor."""
        self.restarts += 1

    def collect(self, body: Mapping[str, Json], sender: Sender, now_ms: int) -> CollectResponse:
        """Process a collect request."""
        events = [self.merged(event, body) for event in body.get("events", [body])]
        ids = [event.get("website_id") for event in events if isinstance(event, dict)]
        sent = [id for id in ids if UUID.fullmatch(str(id))]
        if sent and not any(id in self.websites for id in sent):
            return CollectResponse(404, 0, 0, ())
        errors: list[tuple[int, str]] = []
        for index, event in enumerate(events):
            code = self.accept(event, sender, now_ms)
            if code is not None:
                errors.append((index, code))
        accepted = len(events) - len(errors)
        return CollectResponse(202 if accepted else 400, accepted, len(errors), tuple(errors))

    def merged(self, event: Json, body: Mapping[str, Json]) -> Json:
        """Return the event with the defaults of its batch: website_id and the seven fields of the context."""
        if not isinstance(event, dict):
            return event
        full = described({name: value for name, value in event.items() if present(value)})
        context = body.get("context") or {}
        below = described({name: context[name] for name in CONTEXT_FIELDS if present(context.get(name))})
        return {"website_id": body.get("website_id"), **below, **full}

    def accept(self, event: Json, sender: Sender, now_ms: int) -> str | None:
        """Process one event; return its error code, or None if it is accepted."""
        code = event_error(event, self.websites, now_ms)
        if code is not None:
            return code
        at_ms = event_time(event.get("timestamp"), now_ms)
        assert isinstance(at_ms, int)
        visitor = self.visitor(event, sender, at_ms)
        variant = event.get("variant")
        if event["type"] == "ab_convert" and variant is None and "experiment" in event:
            variant = self.assignments.get((*visitor, event["experiment"]))
            if variant is None:
                return "no_assignment"
        if "event_id" in event:
            copy = (event["website_id"], event["event_id"], event_content(event))
            arrived_ms = self.event_ids.get(copy)
            self.event_ids[copy] = now_ms
            if arrived_ms is not None and now_ms - arrived_ms <= DEDUPLICATION_MS:
                return None
        if event["type"] == "ab_assign" and "experiment" in event and variant is not None:
            self.assignments[(*visitor, event["experiment"])] = event["variant"]
        self.rows.append(self.row(event, sender, at_ms, visitor, variant))
        return None

    def visitor(self, event: Mapping[str, Json], sender: Sender, at_ms: int) -> tuple[object, ...]:
        """Return the visitor: website, its day of the event, and session_id or else address and User-Agent."""
        identity = (event["session_id"],) if "session_id" in event else (sender.address, sender.user_agent)
        return (self.restarts, event["website_id"], (at_ms + self.offset_ms) // DAY_MS, *identity)

    def row(
        self,
        event: Mapping[str, Json],
        sender: Sender,
        at_ms: int,
        visitor: tuple[object, ...],
        variant: str | None,
    ) -> Row:
        """Return the stored event: only fields that belong to its type are kept."""
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
        counted_visitor = visitor if kind in TRAFFIC else None
        labels = labels_of(event, sender, self.domain)
        return Row(
            len(self.rows), event["website_id"], kind, at_ms, counted_visitor, labels, sender_identity=visitor, **own
        )

    def respond(self, query: Query, now_ms: int, website: str) -> Response:
        """Return the response to a query about one of the websites."""
        return ReadModel([row for row in self.rows if row.website == website], now_ms, self.offset_ms).respond(query)


def shared(visit: Sequence[Row]) -> list[Row]:
    """Return the events of a visit with what all of them have in common.

    The acquisition is that of the first event which carries a referrer or any utm value, whole.
    """
    carrying = [row for row in visit if any(row.label(name) is not None for name in ACQUISITION)]
    source = {name: carrying[0].labels[name] if carrying else None for name in ACQUISITION}
    source["channel"] = carrying[0].labels["channel"] if carrying else "Direct"
    pages = [row.labels["pathname"] for row in visit if row.type in VIEWS] or [None]
    return [replace(row, labels={**row.labels, **source}, entry_page=pages[0], exit_page=pages[-1]) for row in visit]


class ReadModel:
    """Read API over the accepted events of one website."""

    def __init__(self, rows: Sequence[Row], now_ms: int, offset_ms: int = 0) -> None:
        self.rows, self.now_ms, self.offset_ms = rows, now_ms, offset_ms
        # Visits depend on times only; every event then has the acquisition and the pages of its visit.
        of_visit = {
            row.order: changed for visit in self.visits() for row, changed in zip(visit, shared(visit), strict=True)
        }
        self.rows = [of_visit.get(row.order, row) for row in rows]

    def visits(self) -> list[list[Row]]:
        """Return the visits: each visitor's traffic events by time, split at gaps longer than 30 minutes."""
        found: list[list[Row]] = []
        traffic = [row for row in self.rows if row.type in TRAFFIC]
        for visitor in {row.visitor for row in traffic}:
            own = sorted((row for row in traffic if row.visitor == visitor), key=lambda row: (row.at_ms, row.order))
            visit = [own[0]]
            for row in own[1:]:
                if row.at_ms - visit[-1].at_ms > VISIT_GAP_MS:
                    found.append(visit)
                    visit = []
                visit.append(row)
            found.append(visit)
        return found

    def matching(self, query: Query, from_ms: int, to_ms: int) -> list[Row]:
        """Return the traffic events in [from, to) that match all filters."""
        traffic = [row for row in self.rows if row.type in TRAFFIC]
        return [row for row in traffic if from_ms <= row.at_ms < to_ms and query.matches(row)]

    def matching_visits(self, matching: Sequence[Row], from_ms: int, to_ms: int) -> list[list[Row]]:
        """Return the visits that begin in the range and have at least one matching event."""
        orders = {row.order for row in matching}
        begun = [visit for visit in self.visits() if from_ms <= visit[0].at_ms < to_ms]
        return [visit for visit in begun if any(row.order in orders for row in visit)]

    def figures(self, query: Query, from_ms: int, to_ms: int) -> dict[str, Fraction | None]:
        """Return the seven key figures of a range, unrounded."""
        matching = self.matching(query, from_ms, to_ms)
        return figures(matching, self.matching_visits(matching, from_ms, to_ms))

    def respond(self, query: Query) -> Response:
        """Return the response to a query."""
        if query.path == "realtime":
            return self.realtime(self.now_ms)
        try:
            from_ms, to_ms = query.range(self.now_ms)
            kind, _, _name = query.path.partition("/")
            data, meta = {
                "stats": self.stats,
                "timeseries": self.timeseries,
                "top": self.top,
                "events": self.events,
                "goals": self.goals,
                "event-names": self.event_names,
                "entry-pages": self.entry_or_exit_pages,
                "exit-pages": self.entry_or_exit_pages,
                "funnel": self.funnel,
                "journeys": self.journeys,
                "event-data": self.event_data,
                "vitals": self.vitals,
                "experiments": self.experiments,
                "heatmap": self.heatmap,
                "heatmap-pages": self.heatmap_pages,
            }[kind](query, from_ms, to_ms)
        except BadRequest:
            return Response(400)
        zone = query.zone
        meta = {
            "from": format_time(from_ms, zone),
            "to": format_time(to_ms, zone),
            "tz": zone,
            "filters": query.filters,
            **meta,
        }
        return Response(200, data, meta)

    def stats(self, query: Query, from_ms: int, to_ms: int) -> tuple[Json, dict[str, Json]]:
        """Return the response of /stats."""
        now = self.figures(query, from_ms, to_ms)
        data: dict[str, Json] = {name: rounded(value, DECIMALS.get(name, 0)) for name, value in now.items()}
        data |= query.added(self.matching(query, from_ms, to_ms))
        meta, other = self.compared(query, from_ms, to_ms)
        if other is None:
            return data, {"compare": None}
        before = self.figures(query, *other)
        data["previous"] = {name: rounded(value, DECIMALS.get(name, 0)) for name, value in before.items()}
        data["previous"] |= query.added(self.matching(query, *other))
        data["change"] = {name: change(now[name], before[name]) for name in now}
        return data, meta

    def compared(
        self, query: Query, from_ms: int, to_ms: int, *, whole: bool = False
    ) -> tuple[dict[str, Json], tuple[int, int] | None]:
        """Return the part of meta about the range to compare with, and the range."""
        if not query.get("compare"):
            return {}, None
        begin_ms, end_ms = query.compared(from_ms, to_ms) if whole else query.part_compared(from_ms, to_ms, self.now_ms)
        meta: dict[str, Json] = {
            "compare": query.get("compare"),
            "previous_from": format_time(begin_ms, query.zone),
            "previous_to": format_time(end_ms, query.zone),
        }
        return meta | ({"match_weekday": True} if query.get("match_weekday") else {}), (begin_ms, end_ms)

    def timeseries(self, query: Query, from_ms: int, to_ms: int) -> tuple[Json, dict[str, Json]]:
        """Return the response of /timeseries."""
        interval = query.get("interval", "day")
        meta, other = self.compared(query, from_ms, to_ms, whole=True)
        meta |= {"interval": interval} | ({"week_start": "monday"} if interval == "week" else {})
        data = self.series(query, interval, from_ms, to_ms)
        if other is not None:
            before = self.series(query, interval, *other)
            for n, row in enumerate(data):
                row["previous"] = before[n] if n < len(before) else None
        return data, meta

    def series(self, query: Query, interval: str, from_ms: int, to_ms: int) -> list[dict[str, Any]]:
        """Return the rows of a time series."""
        matching = self.matching(query, from_ms, to_ms)
        visits = self.matching_visits(matching, from_ms, to_ms)
        edges = buckets(query.zone, interval, from_ms, to_ms)
        if len(edges) > MAX_BUCKETS:
            raise BadRequest("too many buckets")
        data: list[dict[str, Any]] = []
        for begin, end in edges:
            own = [row for row in matching if begin <= row.at_ms < end]
            inside = counts(own) | query.added(own)
            begun = len([visit for visit in visits if begin <= visit[0].at_ms < end])
            data.append({"time": format_time(begin, query.zone), **inside, "visits": begun})
        return data

    def top(self, query: Query, from_ms: int, to_ms: int) -> tuple[Json, dict[str, Json]]:
        """Return the response of /top/:field."""
        name = query.path.removeprefix("top/")
        matching = self.matching(query, from_ms, to_ms)
        found = {row.label(name) for row in matching}
        result_rows: list[dict[str, Any]] = [
            {"value": value, **counts(own)}
            for value in found
            if value is not None
            for own in [[row for row in matching if row.label(name) == value]]
        ]
        result_rows.sort(key=lambda line: (-line["visitors"], -line["pageviews"], -line["events"], line["value"]))
        limit = int(query.get("limit", "10"))
        offset = int(query.get("offset", "0"))
        meta, other = self.compared(query, from_ms, to_ms)
        begun = self.begun(from_ms, to_ms)
        if query.get("sort") or query.get("order"):
            sort, order = query.get("sort", "visitors"), query.get("order", "desc")
            meta |= {"sort": sort, "order": order}
            values = [line["value"] for line in result_rows]
            if sort in GOAL_ORDERS:
                result_rows.sort(key=lambda line: -self.goal_orders(query, matching, name, line["value"])[sort][1])
                exact = {value: self.goal_orders(query, matching, name, value)[sort][0] for value in values}
            else:
                exact = {value: self.of_value(matching, begun, name, value)[1][sort] for value in values}
            # The sort is stable. Values without the figure come last in both orders.
            result_rows.sort(key=lambda line: (exact[line["value"]] or 0) * (1 if order == "asc" else -1))
            result_rows.sort(key=lambda line: exact[line["value"]] is None)
        values = [line["value"] for line in result_rows[offset : offset + limit]]
        *shown, unset = [self.list_row(query, matching, begun, name, value) for value in (*values, None)]
        if other is not None:
            before, begun_before = self.matching(query, *other), self.begun(*other)
            for shown_row in (*shown, unset):
                shown_row["previous"] = self.list_row(query, before, begun_before, name, shown_row["value"])
                del shown_row["previous"]["value"]
        del unset["value"]
        meta |= {"field": name, "limit": limit, "offset": offset, "total": len(result_rows), "unset": unset}
        return shown, meta

    def begun(self, from_ms: int, to_ms: int) -> list[list[Row]]:
        """Return the visits that begin in the range."""
        return [visit for visit in self.visits() if from_ms <= visit[0].at_ms < to_ms]

    def of_value(
        self, matching: Sequence[Row], begun: Sequence[Sequence[Row]], name: str, value: str | None
    ) -> tuple[list[Row], dict[str, Fraction | None]]:
        """Return the events with a value among some events, and their key figures."""
        own = [row for row in matching if row.label(name) == value]
        orders = {row.order for row in own}
        return own, figures(own, [visit for visit in begun if any(row.order in orders for row in visit)])

    @staticmethod
    def goal_orders(
        query: Query, matching: Sequence[Row], name: str, value: str | None
    ) -> dict[str, tuple[Fraction, Fraction]]:
        """Return the figures of a value by which a goal orders, each with the one that decides between equal ones."""
        own = [row for row in matching if row.label(name) == value]
        found = query.added(own)
        conversions = Fraction(found["conversions"])
        rate = Fraction(found["converted_visitors"], len({row.visitor for row in own}))
        return {"conversions": (conversions, rate), "conversion_rate": (rate, conversions)}

    def list_row(
        self, query: Query, matching: Sequence[Row], begun: Sequence[Sequence[Row]], name: str, value: str | None
    ) -> dict[str, Any]:
        """Return a row of a list."""
        own, found = self.of_value(matching, begun, name, value)
        metrics = query.get("metrics", "visitors,pageviews,events").split(",")
        shown = {metric: rounded(found[metric], DECIMALS.get(metric, 0)) for metric in metrics}
        return {"value": value} | shown | query.added(own)

    def goals(self, query: Query, from_ms: int, to_ms: int) -> tuple[Json, dict[str, Json]]:
        """Return the response of /goals/report, without what identifies the goal."""
        matching = self.matching(query, from_ms, to_ms)
        found = [conversions(goal, matching) for goal in GOALS.values()]
        return found, {"visitors": len({row.visitor for row in matching})}

    def event_names(self, query: Query, from_ms: int, to_ms: int) -> tuple[Json, dict[str, Json]]:
        """Return the response of /event-names."""
        named = [row for row in self.matching(query, from_ms, to_ms) if row.event_name is not None]
        result_rows: list[dict[str, Any]] = []
        for name in {row.event_name for row in named}:
            visitors = {row.visitor for row in named if row.event_name == name}
            events = len([row for row in named if row.event_name == name])
            result_rows.append({"value": name, "visitors": len(visitors), "events": events})
        result_rows.sort(key=lambda line: (-line["visitors"], -line["events"], line["value"]))
        return result_rows[: query.limit], {"limit": query.limit}

    def entry_or_exit_pages(self, query: Query, from_ms: int, to_ms: int) -> tuple[Json, dict[str, Json]]:
        """Return the response of /entry-pages and /exit-pages."""
        place = 0 if query.path == "entry-pages" else -1
        pages: dict[str | None, list[list[Row]]] = {}
        for visit in self.matching_visits(self.matching(query, from_ms, to_ms), from_ms, to_ms):
            views = [row for row in visit if row.type in VIEWS]
            pages.setdefault(views[place].labels["pathname"] if views else None, []).append(visit)
        unset = len(pages.pop(None, []))
        result_rows: list[dict[str, Any]] = []
        for page, visits in pages.items():
            of_visits = figures([], visits)
            shares = {name: rounded(of_visits[name], DECIMALS.get(name, 0)) for name in VISIT_FIGURES}
            result_rows.append({"value": page, "visits": len(visits), **shares})
        result_rows.sort(key=lambda line: (-line["visits"], line["value"]))
        return result_rows[: query.limit], {"limit": query.limit, "unset": {"visits": unset}}

    def funnel(self, query: Query, from_ms: int, to_ms: int) -> tuple[Json, dict[str, Json]]:
        """Return the response of /funnel."""
        visits = self.matching_visits(self.matching(query, from_ms, to_ms), from_ms, to_ms)
        funnel_visits = [completed_steps(visit, query.steps) for visit in visits]
        result_rows = []
        for n, (name, value) in enumerate(query.steps):
            reached = [completed for completed in funnel_visits if len(completed) > n]
            before = len([completed for completed in funnel_visits if len(completed) > n - 1])
            wait_ms = mean([completed[n].at_ms - completed[n - 1].at_ms for completed in reached]) if n else None
            result_rows.append(
                {
                    "field": name,
                    "value": value,
                    "visits": len(reached),
                    "visitors": len({completed[0].visitor for completed in reached}),
                    "of_first": percent(len(reached), len([completed for completed in funnel_visits if completed])),
                    "of_previous": percent(len(reached), before) if n else None,
                    "mean_seconds": None if wait_ms is None else rounded(wait_ms / 1000, 1),
                }
            )
        return result_rows, {}

    def journeys(self, query: Query, from_ms: int, to_ms: int) -> tuple[Json, dict[str, Json]]:
        """Return the response of /journeys."""
        field, _, value = query.get("start").partition(":")
        start = f"{field}:{stored_path(value) if field == 'pathname' else value}"
        count = int(query.get("steps", "3"))
        direction, limit = query.get("direction", "next"), int(query.get("limit", "5"))
        paths: list[list[str]] = []
        for visit in self.matching_visits(self.matching(query, from_ms, to_ms), from_ms, to_ms):
            steps = [f"{name}:{row.label(name)}" for row in visit for name in step_fields(row) if row.label(name)]
            steps = [step for n, step in enumerate(steps) if not n or steps[n - 1] != step]
            if start in steps:
                place = steps.index(start)
                way = steps[place + 1 :] if direction == "next" else steps[:place][::-1]
                paths.append(way[:count])
        first: list[list[str]] = []
        for n in range(count):
            visits = Counter(path[n] for path in paths if len(path) > n)
            first.append(sorted(visits, key=lambda step, of=visits: (-of[step], step))[:limit])
        links: Counter[tuple[int, str, str]] = Counter()
        for path in paths:
            shown = [start, *(step if step in first[n] else ":(other)" for n, step in enumerate(path))]
            if len(path) < count:
                shown.append(":")
            links.update((n, *pair) for n, pair in enumerate(pairwise(shown), 1))
        order = sorted(links, key=lambda link: (link[0], -links[link], link[1].split(":", 1), link[2].split(":", 1)))
        rows = [
            {
                "step": n,
                **dict(zip(("from_field", "from_value"), step_parts(before), strict=True)),
                **dict(zip(("field", "value"), step_parts(after), strict=True)),
                "visits": links[n, before, after],
            }
            for n, before, after in order
        ]
        return rows, {"start": start, "direction": direction, "steps": count, "limit": limit, "visits": len(paths)}

    def event_data(self, query: Query, from_ms: int, to_ms: int) -> tuple[Json, dict[str, Json]]:
        """Return the response of /event-data."""
        name, only = query.get("event_name"), dict(query.params).get("property")
        own = [row for row in self.matching(query, from_ms, to_ms) if row.event_name == name]
        properties = {key for row in own for key in row.event_data or {} if only is None or key == only}
        result_rows: list[dict[str, Any]] = []
        for key in properties:
            having = [row for row in own if key in (row.event_data or {})]
            groups: list[list[Row]] = []
            for row in having:
                alike = [group for group in groups if is_same_value(group[0].event_data[key], row.event_data[key])]
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
            values.sort(key=lambda line: (-line["events"], -line["visitors"], json_sort_key(line["value"])))
            numbers = number_statistics([row.event_data[key] for row in having])
            of_all = {"property": key, "events": len(having), "distinct": len(values), "numbers": numbers}
            result_rows.append({**of_all, "values": values[: query.limit], "exact": True})
        result_rows.sort(key=lambda line: (-line["events"], line["property"]))
        visitors = len({row.visitor for row in own})
        meta = {"event_name": name, "property": only, "limit": query.limit, "events": len(own), "visitors": visitors}
        return result_rows[:50], {**meta, "properties": len(properties), "exact": True}

    def measurements(self, kind: str, query: Query, from_ms: int, to_ms: int) -> list[Row]:
        """Return the events of a measurement type in [from, to) that match all filters."""
        rows = [row for row in self.rows if row.type == kind and from_ms <= row.at_ms < to_ms]
        return [row for row in rows if query.matches(row)]

    def vitals(self, query: Query, from_ms: int, to_ms: int) -> tuple[Json, dict[str, Json]]:
        """Return /vitals: all metrics, or one by pathname or device."""
        rows = [row for row in self.measurements("vitals", query, from_ms, to_ms) if row.vitals]
        by = query.get("by")
        if not by:
            values = {name: [row.vitals[name] for row in rows if name in row.vitals] for name in WEB_VITALS}
            units = dict.fromkeys(WEB_VITALS, "ms") | {"cls": ""}
            summaries = {name: summary_of_vital(found, name) for name, found in values.items()}
            metrics = [{"metric": name, "unit": units[name], **found} for name, found in summaries.items()]
            return metrics, {"by": None, "relative_error": 0}
        metric = query.get("metric")
        result_rows: list[dict[str, Any]] = []
        poor: dict[Json, int] = {}
        for value in {row.labels[by] for row in rows if row.labels[by] is not None}:
            own = [row for row in rows if row.labels[by] == value]
            found = [row.vitals[metric] for row in own if metric in row.vitals]
            poor[value] = len([number for number in found if rating(metric, number) == "poor"])
            result_rows.append({"value": value, "events": len(own), **summary_of_vital(found, metric)})
        result_rows.sort(key=lambda line: (-poor[line["value"]], -line["events"], line["value"]))
        return result_rows[: query.limit], {"by": by, "metric": metric, "limit": query.limit, "relative_error": 0}

    def experiments(self, query: Query, from_ms: int, to_ms: int) -> tuple[Json, dict[str, Json]]:
        """Return the counts of /experiments: visitors by variant, and converted visitors by goal and variant.

        The scenarios assign every visitor to one variant only.
        """
        assignments = [row for row in self.measurements("ab_assign", query, from_ms, to_ms) if row.variant]
        conversions = self.measurements("ab_convert", Query(""), from_ms, to_ms)
        result_rows: list[dict[str, Any]] = []
        for name in sorted({row.experiment for row in assignments if row.experiment}):
            variant_of = {row.sender_identity: row.variant for row in assignments if row.experiment == name}
            converted = {
                (row.sender_identity, row.goal)
                for row in conversions
                if row.experiment == name and row.sender_identity in variant_of
            }
            variants = sorted({variant for variant in variant_of.values() if variant})
            goals = {
                goal: {
                    variant: len([one for one, goal_ in converted if goal_ == goal and variant_of[one] == variant])
                    for variant in variants
                }
                for goal in {goal for _, goal in converted}
            }
            visitors = {variant: list(variant_of.values()).count(variant) for variant in variants}
            result_rows.append({"experiment": name, "variants": visitors, "goals": goals})
        return result_rows, {}

    def heatmap_events(self, query: Query, from_ms: int, to_ms: int) -> tuple[list[Row], dict[str, Json]]:
        """Return the heatmap events of all days of the website in the range and of the filtered devices, and meta."""
        own_from_ms, own_to_ms = from_ms + self.offset_ms, to_ms + self.offset_ms
        first_ms = own_from_ms // DAY_MS * DAY_MS - self.offset_ms
        end_ms = -(-own_to_ms // DAY_MS) * DAY_MS - self.offset_ms
        rows = [row for row in self.rows if row.points is not None and first_ms <= row.at_ms < end_ms]
        devices = query.filters.get("device")
        edges = {"from": format_time(first_ms, query.zone), "to": format_time(end_ms, query.zone)}
        meta = {**edges, "widened": (first_ms, end_ms) != (from_ms, to_ms)}
        return [row for row in rows if devices is None or width_class(row.viewport) in devices], meta

    def heatmap(self, query: Query, from_ms: int, to_ms: int) -> tuple[Json, dict[str, Json]]:
        """Return the response of /heatmap."""
        rows, meta = self.heatmap_events(query, from_ms, to_ms)
        page = stored_path(query.get("pathname"))
        points = [point for row in rows if row.labels["pathname"] == page for point in row.points]
        clicks = [point for point in points if point["kind"] == "click"]
        cells = [(int(point["y"] // 20), min(int(point["x"] * 50), 49)) for point in clicks]
        depths = [point["y"] // 20 for point in points if point["kind"] == "scroll"]
        scroll: list[Json] = []
        while share := percent(len([depth for depth in depths if depth >= len(scroll)]), len(depths)):
            scroll.append(share)
        grid = [[x, y, cells.count((y, x))] for y, x in sorted(set(cells))]
        sums = {"samples": len(depths), "clicks": len(clicks), "scroll": scroll}
        data = {"grid": grid, "bins_x": 50, "bin_height": 20, **sums, "texts": []}
        return data, {**meta, "pathname": page, "cells": len(grid)}

    def heatmap_pages(self, query: Query, from_ms: int, to_ms: int) -> tuple[Json, dict[str, Json]]:
        """Return the response of /heatmap-pages."""
        rows, meta = self.heatmap_events(query, from_ms, to_ms)
        result_rows: list[dict[str, Any]] = []
        for page in {row.labels["pathname"] for row in rows}:
            kinds = [point["kind"] for row in rows if row.labels["pathname"] == page for point in row.points]
            result_rows.append({"value": page, "samples": kinds.count("scroll"), "clicks": kinds.count("click")})
        result_rows.sort(key=lambda line: (-line["samples"] - line["clicks"], line["value"]))
        return result_rows[: query.limit], {**meta, "limit": query.limit, "unset": {"samples": 0, "clicks": 0}}

    def events(self, query: Query, from_ms: int, to_ms: int) -> tuple[Json, dict[str, Json]]:
        """Return all rows of /events; `visit` is a number, the same for all events of a visit."""
        number = {row.order: index for index, visit in enumerate(self.visits()) for row in visit}
        rows = [row for row in self.rows if row.points is None and from_ms <= row.at_ms < to_ms]
        rows = sorted(filter(query.matches, rows), key=lambda row: (row.at_ms, row.order), reverse=True)
        data = [
            {
                "type": row.type,
                "timestamp": format_time(row.at_ms, query.zone),
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
        return data, {"limit": int(query.get("limit", "100"))}

    def realtime(self, now_ms: int) -> Response:
        """Return the response of /realtime, with pages as a dict of pathname to visitors."""
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
        return Response(200, data, {"time": format_time(now_ms, "UTC")})
