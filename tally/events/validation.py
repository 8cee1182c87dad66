"""Validation of collect requests: bytes -> Batch -> Event or Rejection, by one table of rules for each type.

Pure: no lookup of websites or clients, no database, and the time is passed in. The only exception for any input is
BadBody. An event that breaks a rule is returned as a Rejection, so that the others of its batch are stored. A field
that only describes an event (referrer, language, labels) does not reject it: it is omitted or cut, with a warning.

`parse_body` checks the JSON and the shape of the request. RULES has, for each type (tally/events/event_types.py), the
fields that it may have; a rule is a function from the JSON value to the stored value that raises Fault, or Repair with
the value to store instead. `read_event` checks the required fields, then reads the fields that were sent, then fills in
what only the batch's context has.
Unknown fields are ignored. null counts as absent, and so does an empty string where the field may be absent and has no
minimum length.

Keep in step: the field tables of docs/reference/collect-api.md, static/openapi.yaml.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tally.events import event_types
from tally.events.event_types import EVENT_TYPES
from tally.events.json_scalars import compact
from tally.events.json_text import read_json
from tally.events.urls import (
    MAX_UTM_CHARACTERS,
    BadUrl,
    WebUrl,
    app_page_url,
    cut_utm,
    has_controls,
    parse_page_url,
    referrer_host,
)
from tally.timestamps import event_time_ms, unit_hint

if TYPE_CHECKING:  # which loads the country database's reader
    from tally.events.sender import Sender

# The limits of docs/reference/limits.md.
MAX_BODY_BYTES = 65_536
MAX_EVENTS = 50
MAX_EVENT_DATA_BYTES = 4_096
MAX_URL_CHARACTERS = 8_192
MAX_LABEL_CHARACTERS = 100
MAX_TITLE_CHARACTERS = 200
MAX_POINT_TEXT_CHARACTERS = 80
OLDEST_MS = 72 * 3_600_000
# docs/reference/collect-api.md: a timestamp up to 5 minutes in the future counts as now.
AHEAD_MS = 5 * 60_000

TYPES = tuple(type_.name for type_ in EVENT_TYPES)
"""The names of all types."""
TRAFFIC_TYPES = tuple(type_.name for type_ in EVENT_TYPES if type_.is_traffic)
"""The names of the types of traffic; the others are measurements."""
TYPE_NAMES = {type_.number: type_.name for type_ in EVENT_TYPES}
TYPE_NUMBERS = {type_.name: type_.number for type_ in EVENT_TYPES}
TRAFFIC = frozenset(type_.number for type_ in EVENT_TYPES if type_.is_traffic)
PAGEVIEWS = frozenset(type_.number for type_ in EVENT_TYPES if type_.is_pageview)
WITH_VISITOR = frozenset(type_.number for type_ in EVENT_TYPES if type_.has_visitor)
WITH_EXPERIMENT = frozenset(type_.number for type_ in EVENT_TYPES if "experiment" in type_.fields)
"""The numbers of the types that are traffic, are pageviews, have a visitor, name an experiment."""
PAGEVIEW, SCREEN_VIEW, EVENT, APP_EVENT, VITALS, HEATMAP, AB_ASSIGN, AB_CONVERT, LEAVE = (
    TYPE_NUMBERS[name]
    for name in (
        *("pageview", "screen_view", "event", "app_event", "vitals", "heatmap", "ab_assign", "ab_convert"),
        "leave",
    )
)
_POINT_KINDS = ("click", "scroll")
# What follows the tag in a system's locale: en_US.UTF-8, sr_RS@latin, zh_TW_#Hant.
_LOCALE_END = re.compile("[.@]|_#")
METRICS, PAGE_METRICS, MEASURES = event_types.METRICS, event_types.PAGE_METRICS, event_types.MEASURES
"""What vitals measure, what leave measures, and both, in the order of the columns of table web_vitals."""
DEVICES = ("desktop", "mobile", "tablet", "tv", "console", "other")
NO_LANGUAGES = ("C", "POSIX")
"""The locales of programs without a language."""
# docs/reference/collect-api.md: milliseconds up to an hour; cls has no unit; seconds, percent.
MAX_OF_METRIC = dict(zip(MEASURES, (*[3_600_000] * 4, 100, 1_800, 100), strict=True))


class BadBody(ValueError):
    """The request as a whole cannot be read; `code` is invalid_json, invalid_body or too_many_events."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class Rejection(NamedTuple):
    """Why one event is rejected. `detail`: what a sample shows, the host of a referrer; no response has it."""

    code: str
    message: str
    field: str = ""
    detail: str = ""


class Fault(ValueError):
    """A field breaks its rule."""

    def __init__(self, code: str, message: str, field: str = "") -> None:
        super().__init__(code)
        self.code, self.message, self.field = code, message, field


class Repair(ValueError):
    """A field that breaks its rule and does not decide about its event; `value` is stored in its place.

    `code`: of the FieldWarning. By default value_cut where a value is stored, otherwise without_FIELD.
    """

    def __init__(self, value: Any, code: str = "") -> None:
        super().__init__(code)
        self.value, self.code = value, code


class FieldWarning(NamedTuple):
    """What an event is stored without: the code, and the field that broke its rule."""

    code: str
    field: str


class Batch(NamedTuple):
    """A request: its items as they came, with the website_id and the context they share.

    `visitors` has the sender of each item where a server sends for visitors, or why the item is rejected, and is empty
    where the sender is one.
    `takes_domains`: a website_id may be the website's domain or a host below it, as in formats of other systems.
    `source`: where requests of crawlers are known from (tally/storage/crawler_days.py).
    """

    items: list[Any]
    website_id: Any
    context: dict[str, Any]
    visitors: "tuple[Sender | Rejection, ...]" = ()
    takes_domains: bool = False
    source: int = 0


class Point(NamedTuple):
    """A heatmap point: kind 0 click or 1 scroll, x a fraction of the page's width, y in CSS pixels from the top."""

    kind: int
    x: float
    y: float
    # Of the clicked element; "" where the page does not allow it.
    text: str = ""


class Event(NamedTuple):
    """A checked event. A named tuple, because 50 of them a request take a third of the time of dataclasses."""

    type: int
    ts_ms: int
    url: WebUrl | None = None
    name: str = ""
    referrer: str = ""
    event_name: str = ""
    event_data: str | None = None
    platform: str = ""
    app_version: str = ""
    os_version: str = ""
    browser: str = ""
    os: str = ""
    device: str = ""
    language: str = ""
    session_id: str = ""
    event_id: str = ""
    title: str | None = None
    warnings: tuple[FieldWarning, ...] = ()
    vitals: tuple[float | None, ...] = ()
    points: tuple[Point, ...] = ()
    viewport_width: float = 0
    experiment: str = ""
    variant: str = ""
    goal: str = ""
    value: float | None = None


def parse_body(body: bytes) -> Batch:
    """Return the batch of a body: a single event, or a batch with `events`. Raises BadBody."""
    try:
        value = read_json(body)
    except ValueError:
        raise BadBody("invalid_json") from None
    if not isinstance(value, dict):
        raise BadBody("invalid_body")
    context = value.get("context")
    if not (context is None or isinstance(context, dict)):
        raise BadBody("invalid_body")
    if "events" not in value:
        return tuple.__new__(Batch, ([value], None, context or {}, (), False, 0))
    items = value["events"]
    if not isinstance(items, list) or not items:
        raise BadBody("invalid_body")
    if len(items) > MAX_EVENTS:
        raise BadBody("too_many_events")
    return Batch(items, value.get("website_id"), context or {})


def type_of(item: Any) -> int | Rejection:
    """Return the number of an item's type."""
    if not isinstance(item, dict):
        return Rejection("invalid_type", "An event is a JSON object with a type.", "type")
    name = item.get("type")
    number = TYPE_NUMBERS.get(name) if isinstance(name, str) else None
    if number is None:
        return Rejection("invalid_type", f"type is one of {', '.join(TYPES)}.", "type")
    return number


def read_event(
    item: dict[str, Any],
    type_: int,
    context: Mapping[str, Any],
    now_ms: int,
    large_skew_ms: int = 0,
    origins: Collection[str] = (),
) -> Event | Rejection:
    """Return the checked fields of an item of a known type, or why it is rejected.

    now_ms: when it arrived. large_skew_ms: how far that is ahead of another clock that may be right as well; a
    timestamp that is valid for either is accepted. origins: the extra origins that the website allows; pages of other
    schemes than http and https are accepted from these alone.
    """
    rules = RULES[type_]
    for field in REQUIRED[type_]:
        if item.get(field) in (None, ""):
            return Rejection("missing_field", f"{TYPE_NAMES[type_]} needs {field}.", field)
    # In the order of Event: a dict of keywords takes 1.5 µs longer per event.
    kept = _BLANK.copy()
    kept[0] = type_
    field = ""
    try:
        for field, value in item.items():
            read = rules.get(field)
            if read is not None and value is not None and (value != "" or field not in _MAY_BE_EMPTY):
                try:
                    kept[_PLACE[field]] = read(value)
                except Repair as repair:
                    _keep_repaired(kept, field, repair)
        if context:
            _read_context(context, rules, kept)
        url = kept[_URL]
        if url is not None:
            if url.origin and url.origin not in origins:
                field = "url"
                raise Fault("invalid_url", "url is a full http or https URL, or of an origin that the website allows.")
            if "utm_" in url.query and len(url.query) > MAX_UTM_CHARACTERS:
                kept[_WARNINGS] += tuple(FieldWarning("value_cut", name) for name in cut_utm(url.query))
        if "://" in kept[_REFERRER] and kept[_REFERRER] not in origins:
            _keep_repaired(kept, "referrer", Repair(""))
        if type_ in FLAT:
            _read_flat(item, type_, kept)
        field = "timestamp"
        kept[1] = _arrival(item, now_ms, large_skew_ms)
    except Fault as fault:
        return Rejection(fault.code, fault.message, fault.field or field)
    # As Event(*kept), in a third of the time.
    return tuple.__new__(Event, kept)


def _keep_repaired(kept: list[Any], field: str, repair: Repair) -> None:
    """Keep what is stored in place of a field's value, with a warning."""
    kept[_PLACE[field]] = repair.value
    code = repair.code or ("value_cut" if repair.value else f"without_{field}")
    kept[_WARNINGS] += (FieldWarning(code, field),)


def _read_context(context: Mapping[str, Any], rules: Mapping[str, Callable[[Any], Any]], kept: list[Any]) -> None:
    """Fill in what the event itself does not have."""
    for field in _FROM_CONTEXT:
        value = context.get(field)
        if not kept[_PLACE[field]] and value is not None and value != "":
            try:
                kept[_PLACE[field]] = rules[field](value)
            except Repair as repair:
                _keep_repaired(kept, field, repair)


def _arrival(item: Mapping[str, Any], now_ms: int, large_skew_ms: int) -> int:
    """Return the time of an event that arrives now: that long ago where it has an age, otherwise its timestamp."""
    value = item.get("age_ms")
    if value is not None:
        return now_ms - _age_ms(value)
    value = item.get("timestamp")
    if value is None:
        return now_ms
    try:
        ts_ms = event_time_ms(value)
    except ValueError:
        hint = unit_hint(value)
        raise Fault("invalid_field", f"timestamp is whole milliseconds since 1970, or ISO 8601 text{hint}.") from None
    early_ms, late_ms = (now_ms - large_skew_ms, now_ms) if large_skew_ms > 0 else (now_ms, now_ms - large_skew_ms)
    if ts_ms < early_ms - OLDEST_MS:
        hint = unit_hint(value)
        raise Fault("timestamp_too_old", f"timestamp is more than 72 hours old: too late to be counted{hint}.")
    if ts_ms > late_ms + AHEAD_MS:
        raise Fault("timestamp_in_future", "timestamp is more than 5 minutes ahead: set the sender's clock.")
    return min(ts_ms, late_ms)


def _age_ms(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0 or value % 1:
        raise Fault("invalid_field", "age_ms is whole milliseconds, 0 or more.", "age_ms")
    if value > OLDEST_MS:
        raise Fault("timestamp_too_old", "age_ms is more than 72 hours: too late to be counted.", "age_ms")
    return int(value)


def _text(most: int, least: int = 0) -> Callable[[Any], str]:
    bounds = f"{least} to {most}" if least else f"at most {most}"

    def read(value: Any) -> str:
        if not isinstance(value, str) or not least <= len(value) <= most or "\0" in value:
            raise Fault("invalid_field", f"This is text of {bounds} characters, without NUL.")
        return value

    return read


def _number(value: Any, least: float, most: float, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise Fault("invalid_field", f"{what} is a number from {least:,} to {most:,}.")
    # 1, 1.0 and -0.0, 0 are the same values: an event's digest must not differ. Adding 0.0 is faster than float().
    return value + 0.0


def _label(value: Any) -> str:
    """Return a label. Raises Repair: it is cut to 100 characters, and omitted where it is no text or holds NUL."""
    if not isinstance(value, str) or "\0" in value:
        raise Repair("")
    if len(value) > MAX_LABEL_CHARACTERS:
        raise Repair(value[:MAX_LABEL_CHARACTERS])
    return value


def _title(value: Any) -> str:
    """Return a page's title, white space as one space each. Raises Repair: it is cut, and omitted where it is no text.

    An empty title says that the page has none.
    """
    if not isinstance(value, str) or "\0" in value:
        raise Repair(None)
    # Cut first: a body may consist of white space.
    title = " ".join(value[:MAX_URL_CHARACTERS].split())
    if len(title) > MAX_TITLE_CHARACTERS:
        raise Repair(title[:MAX_TITLE_CHARACTERS])
    return title


def _url(value: Any) -> WebUrl:
    """Return the URL of a page. Raises Fault; Repair where only its query or fragment breaks a rule."""
    if not isinstance(value, str):
        raise Fault("invalid_field", "url is text.")
    text = value.strip()
    if len(text) <= MAX_URL_CHARACTERS:
        try:
            return parse_page_url(text)
        except BadUrl:
            page = app_page_url(text)
            if page is not None:
                return page
    return _page_without_query(text)


def _page_without_query(text: str) -> WebUrl:
    """Raise Repair with the page of a URL whose query or fragment breaks a rule, or the Fault of its other parts.

    A query that is merely long is kept, because it may name the campaign.
    """
    head = text.partition("#")[0]
    bare, _, query = head.partition("?")
    if len(bare) > MAX_URL_CHARACTERS or "\0" in bare:
        raise Fault("invalid_field", "url is at most 8,192 characters without query and fragment, and without NUL.")
    page = app_page_url(bare)
    if page is None:
        try:
            page = parse_page_url(bare)
        except BadUrl as bad:
            raise Fault("invalid_url", f"url is a full http or https URL: {bad}") from None
    if has_controls(query):
        raise Repair(page, "without_query")
    raise Repair(page._replace(query=query), "value_cut")


def _referrer(value: Any) -> str:
    """Return the host of a referrer. Raises Repair: it is omitted where it is no URL."""
    if not isinstance(value, str):
        raise Repair("")
    text = value.strip()
    # Only its host is stored.
    short = text[:MAX_URL_CHARACTERS]
    try:
        host = referrer_host(short)
    except BadUrl:
        page = app_page_url(short)
        host = page.origin if page is not None else ""
    if not host or len(text) > MAX_URL_CHARACTERS:
        raise Repair(host)
    return host


def _language(value: Any) -> str:
    """Return a language tag. Raises Repair: it is omitted where it is none."""
    if value in NO_LANGUAGES:
        return ""
    tag = normal_language(value) if isinstance(value, str) else ""
    if not tag:
        raise Repair("")
    return tag


def _device(value: Any) -> str:
    """Return a kind of device. Raises Repair: it is omitted where it is none of DEVICES."""
    if not isinstance(value, str) or value not in DEVICES:
        raise Repair("")
    return value


def _event_data(value: Any) -> str:
    if not isinstance(value, dict) or any(isinstance(v, dict | list) for v in value.values()):
        raise Fault("invalid_event_data", "event_data is a flat object: text, numbers, true, false or null.")
    if any("\0" in k or (isinstance(v, str) and "\0" in v) for k, v in value.items()):
        raise Fault("invalid_event_data", "event_data holds no NUL.")
    text = compact(value)
    if len(text) > MAX_EVENT_DATA_BYTES:
        raise Fault("event_data_too_large", "event_data is at most 4,096 bytes as compact JSON.")
    return text.decode()


def _read_flat(item: Mapping[str, Any], type_: int, kept: list[Any]) -> None:
    """Read the metrics, or the point, that vitals, leave and heatmap events have at their top level."""
    if type_ == HEATMAP:
        point = _flat_point(item)
        if point is not None and not kept[_PLACE["points"]]:
            kept[_PLACE["points"]] = (point,)
        return
    flat = FLAT[type_]
    metrics = [
        None if name not in flat or item.get(name) is None else _metric(name, item[name], name) for name in MEASURES
    ]
    name, value = item.get("name"), item.get("value")
    if "value" in flat and value is not None and isinstance(name, str) and name.lower() in METRICS:
        # A metric in the format of the library web-vitals; `name` is then not a screen's.
        metrics[METRICS.index(name.lower())] = _metric(name.lower(), value, "value")
        kept[_PLACE["name"]] = ""
    if any(metric is not None for metric in metrics):
        measures = kept[_PLACE["vitals"]] or [None] * len(MEASURES)
        kept[_PLACE["vitals"]] = tuple(
            flat if metric is None else metric for flat, metric in zip(metrics, measures, strict=True)
        )
    if type_ == LEAVE:
        kept[_PLACE["vitals"]] = _whole(kept[_PLACE["vitals"]] or ())


def _whole(values: tuple[float | None, ...]) -> tuple[float | None, ...]:
    """Return what a leave measures, in whole seconds and percent. Raises Fault where one is missing."""
    for name, value in zip(PAGE_METRICS, values[len(METRICS) :] or (None,), strict=False):
        if value is None:
            raise Fault("missing_field", f"leave needs {' and '.join(PAGE_METRICS)}.", name)
    return tuple(None if value is None else float(round(value)) for value in values)


def _metric(name: str, value: Any, field: str) -> float:
    try:
        return float(_number(value, 0.0, MAX_OF_METRIC[name], name))
    except Fault as fault:
        raise Fault(fault.code, fault.message, field) from None


def _flat_point(item: Mapping[str, Any]) -> Point | None:
    x, y, kind = item.get("x"), item.get("y"), item.get("kind")
    if x is None and y is None:
        return None
    for field, value in (("x", x), ("y", y)):
        if value is None:
            raise Fault("missing_field", "A point has x and y.", field)
    if kind not in (None, *_POINT_KINDS):
        raise Fault("invalid_field", f"kind is one of {', '.join(_POINT_KINDS)}.", "kind")
    field = "x"
    try:
        across = _number(x, 0, 1, "x")
        field = "y"
        return Point(_POINT_KINDS.index(kind or "click"), across, _number(y, 0, 1_000_000, "y"))
    except Fault as fault:
        raise Fault(fault.code, fault.message, field) from None


def _vitals(value: Any) -> tuple[float | None, ...]:
    if isinstance(value, dict) and isinstance(name := value.get("name"), str) and name.lower() in METRICS:
        # A metric in the format of the library web-vitals.
        value = {name.lower(): value.get("value")}
    return _measured(value, METRICS)


def _measured(value: Any, names: Sequence[str]) -> tuple[float | None, ...]:
    """Return the values of MEASURES of an object with some of these names."""
    if not isinstance(value, dict) or value.keys().isdisjoint(names):
        raise Fault("invalid_field", f"vitals is an object with at least one of {', '.join(names)}.")
    for name, number in value.items():
        least, most = (0.0, MAX_OF_METRIC[name]) if name in names else (-1e308, 1e308)
        _number(number, least, most, name if name in names else "A metric")
    return tuple(float(value[name]) if name in names and name in value else None for name in MEASURES)


def _points(value: Any) -> tuple[Point, ...]:
    if not isinstance(value, list) or not 1 <= len(value) <= 100:
        raise Fault("invalid_field", "points is a list of 1 to 100 points.")
    return tuple(map(_point, value))


def _point(value: Any) -> Point:
    if not isinstance(value, dict) or value.get("kind") not in _POINT_KINDS:
        raise Fault("invalid_field", "A point is {x, y, kind}, kind click or scroll.")
    x, y = _number(value.get("x"), 0, 1, "x"), _number(value.get("y"), 0, 1_000_000, "y")
    text = value.get("text")
    if text is not None and not (isinstance(text, str) and "\0" not in text):
        raise Fault("invalid_field", "text is the text of the element that was clicked.")
    # Cut first: a body may consist of white space.
    words = " ".join((text or "")[:MAX_URL_CHARACTERS].split())[:MAX_POINT_TEXT_CHARACTERS]
    return Point(_POINT_KINDS.index(value["kind"]), x, y, words.rstrip())


def _viewport_width(value: Any) -> float:
    return _number(value, 1, 20_000, "viewport_width")


def _value(value: Any) -> float:
    return float(_number(value, -1e308, 1e308, "value"))


def normal_language(tag: str) -> str:
    """Return the BCP 47 tag of a tag or locale in its usual case (en-US, zh-Hant-TW), "" where it is none.

    Extensions and subtags for private use are omitted.
    """
    if len(tag) > MAX_LABEL_CHARACTERS or not tag.isascii():
        return ""
    first, *others = _LOCALE_END.split(tag, 1)[0].replace("_", "-").split("-")
    if not (first.isalpha() and 2 <= len(first) <= 8) or not all(s.isalnum() and len(s) <= 8 for s in others):
        return ""
    cased = [first.lower()]
    for s in others:
        if len(s) == 1:
            # RFC 5646 2.2.6, 2.2.7: extensions and private use, of any content, which could identify a person.
            break
        cased.append(s.upper() if len(s) == 2 and s.isalpha() else s.title() if len(s) == 4 else s.lower())
    return "-".join(cased)


# Sizes: docs/reference/limits.md: url 8,192, name 500, every other label 100 characters.
_strict_label = _text(MAX_LABEL_CHARACTERS)
_EVERY_TYPE: dict[str, Callable[[Any], Any]] = {
    "url": _url,
    "name": _text(500),
    "platform": _label,
    "app_version": _label,
    "os_version": _label,
    "browser": _label,
    "os": _label,
    "device": _device,
    "language": _language,
    "session_id": _text(64, 8),
    "event_id": _text(64, 1),
}
_OF_SOME_TYPES: dict[str, Callable[[Any], Any]] = {
    "referrer": _referrer,
    "title": _title,
    "event_name": _text(200),
    "event_data": _event_data,
    "vitals": _vitals,
    "points": _points,
    "viewport_width": _viewport_width,
    "experiment": _strict_label,
    "variant": _strict_label,
    "goal": _strict_label,
    "value": _value,
}
RULES = {type_.number: _EVERY_TYPE | {field: _OF_SOME_TYPES[field] for field in type_.fields} for type_ in EVENT_TYPES}
RULES[LEAVE]["vitals"] = lambda value: _whole(_measured(value, PAGE_METRICS))
"""By type number: field -> the function that reads it."""
REQUIRED = {type_.number: type_.required for type_ in EVENT_TYPES}
FLAT = {type_.number: type_.flat for type_ in EVENT_TYPES if type_.flat}
"""By type number: what is also read at the event's top level (`_read_flat`)."""
_FROM_CONTEXT = ("platform", "app_version", "os_version", "language", "browser", "os", "device")
_MAY_BE_EMPTY = frozenset(("url", "name", "referrer", "event_name", "experiment", "variant", "goal", *_FROM_CONTEXT))
_PLACE = {field: place for place, field in enumerate(Event._fields)}
_URL, _REFERRER, _WARNINGS = _PLACE["url"], _PLACE["referrer"], _PLACE["warnings"]
_BLANK: list[Any] = [0, 0, *Event._field_defaults.values()]
