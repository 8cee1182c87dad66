"""Read rows of GA4's BigQuery export as JSON: an object per event, one per line or in arrays. Reports as CSV have sums:
tally/transfer/ga4_sums.py.

A row has the event's parameters as a list of keys with typed values; integers are texts, as BigQuery writes them. Web
pages and apps are read. Sessions and engagement, which GA4 stores as events, are skipped. A row is known by its time
in microseconds, name, user, page, parameters and position in its batch.
"""

from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

from tally.events.json_text import read_json
from tally.events.urls import BadUrl, WebUrl, parse_page_url
from tally.events.validation import Rejection
from tally.transfer import values
from tally.transfer.countries import CODE_OF_COUNTRY
from tally.transfer.files import Source
from tally.transfer.records import Record, Site, Skip, json_objects

_BAD_JSON = Rejection("invalid_json", "The row is not JSON in UTF-8.")
_BAD_ROW = Rejection("invalid_row", "A row has event_name and event_timestamp in microseconds.")
_BAD_PAGE = Rejection("invalid_url", "page_location is the full URL of a page.", "page_location")
_ENGAGEMENT = Skip("events of sessions and engagement")
_SESSION_EVENTS = frozenset(("session_start", "first_visit", "first_open", "user_engagement", "session_end"))
# Parameters that are no properties of an event: those about its page, session and source.
_OWN = ("ga_", "page_", "firebase_", "engagement_", "session_", "engaged_", "gclid", "dclid", "srsltid", "batch_")
_OWN_PARAMETERS = frozenset(("source", "medium", "campaign", "term", "content", "campaign_id", "entrances"))
_INT64 = 1 << 63
# Those that nearly every row has, of which nothing is read.
_NOT_READ = frozenset(
    (
        *("ga_session_id", "ga_session_number", "page_title", "engaged_session_event", "session_engaged"),
        *("engagement_time_msec", "entrances", "batch_page_id", "batch_ordering_id"),
    )
)
_NOT_SET = "(not set)"
_DEVICE = ("operating_system", "operating_system_version", "category", "browser", "browser_version")
_WEB, _GEO = ("browser", "browser_version"), ("country", "city")
# In the order of values.UTM.
_MANUAL = ("manual_source", "manual_medium", "manual_campaign_name", "manual_content", "manual_term")
_ABSENT = ("",) * len(_DEVICE)
_PLATFORMS = {"ANDROID": "android", "IOS": "ios"}

Fields = dict[str, str]


class GA4:
    """Reads the rows of an export."""

    def __init__(self, source: Source, site: Site) -> None:
        self._source, self._domain = source, site.domain

    def records(self, start: int) -> Iterator[Record]:
        """Yield the rows of the file. Raises BadFile."""
        return json_objects(self._source, start)

    def read(self, value: bytes) -> tuple[dict[str, Any] | Skip | Rejection, ...]:
        """Return the event of a row."""
        try:
            row = read_json(value)
        except ValueError:
            return (_BAD_JSON,)
        name, user = row.get("event_name"), row.get("user_pseudo_id")
        try:
            time_us = int(row["event_timestamp"])
        except (KeyError, ValueError, TypeError):
            return (_BAD_ROW,)
        if not isinstance(name, str) or not name:
            return (_BAD_ROW,)
        if name in _SESSION_EVENTS:
            return (_ENGAGEMENT,)
        parameters, all_of_them = _parameters(row.get("event_params"))
        page = parameters.get("page_location")
        try:
            url = _url(page) if isinstance(page, str) and page else None
        except BadUrl:
            return (_BAD_PAGE,)
        device, app, referrer = _object(row, "device"), row.get("app_info"), parameters.get("page_referrer")
        web = _object(device, "web_info")
        event: dict[str, Any] = {
            "timestamp": time_us // 1_000,
            "visitor": user if isinstance(user, str) else None,
            "id": f"{time_us} {name} {page} {row.get('event_bundle_sequence_id')} {row.get('batch_event_index')}"
            f" {all_of_them}",
            "hostname": url.host if url else _text(web, "hostname") or self._domain,
            "referrer": referrer,
            "language": values.language(device.get("language", "")),
            "platform": _PLATFORMS.get(_text(row, "platform"), ""),
            "app_version": values.label(_text(app, "version")) if isinstance(app, dict) else "",
            **_agent(*map(device.get, _DEVICE, _ABSENT), *map(web.get, _WEB, _ABSENT)),
            **_place(*map(_object(row, "geo").get, _GEO, _ABSENT)),
        }
        if url:
            event["pathname"] = url.path
            if url.query:
                event |= values.campaign(url.query)
        source = row.get("collected_traffic_source")
        if isinstance(source, dict):
            event |= _campaign(*map(source.get, _MANUAL, _ABSENT))
        return (_typed(event, name, parameters),)


@values.cached
def _campaign(*texts: str) -> Fields:
    """Return the UTM values of texts of _MANUAL. GA4 writes those that are none in parentheses, such as (direct)."""
    return values.utm_columns(*["" if text[:1] == "(" else text for text in texts])


@values.cached
def _agent(*texts: str) -> Fields:
    """Return browser, system and device as fields of a line, from texts of _DEVICE and _WEB.

    A device has a browser of its own where there is none on the web, as in an app.
    """
    system, version, device, app, app_version, web, web_version = map(_set, texts)
    os, _ = values.system(system)
    named, number = values.split_version(version)
    return {
        "browser": values.browser(web or app),
        "browser_version": values.major(web_version or app_version),
        "os": os,
        "os_version": values.os_version(os, number or named),
        "device": values.device(device),
    }


@values.cached
def _place(country: str, city: str) -> Fields:
    """Return country and city as fields of a line."""
    return {"country": CODE_OF_COUNTRY.get(country, ""), "city": values.label(city)}


def _set(text: str) -> str:
    return text if text != _NOT_SET else ""


def _typed(event: dict[str, Any], name: str, parameters: dict[str, Any]) -> dict[str, Any] | Rejection:
    """Return the event with its type and what that type has."""
    if name == "page_view":
        event["type"] = "pageview"
        return event if "pathname" in event else _BAD_PAGE
    screen = parameters.get("firebase_screen") or parameters.get("firebase_screen_class")
    if name == "screen_view" and isinstance(screen, str):
        return event | {"type": "screen_view", "pathname": f"/{screen}"}
    data = {
        key: value
        for key, value in parameters.items()
        if value is not None and key not in _OWN_PARAMETERS and not key.startswith(_OWN)
    }
    return event | {"type": "event", "event_name": name[: values.MAX_EVENT_NAME], "event_data": data or None}


def _parameters(stored: Any) -> tuple[dict[str, str | int | float | None], str]:
    """Return the parameters of a row by their names, without some that are not read; and all of them as a short text,
    whatever their order."""
    parameters: dict[str, str | int | float | None] = {}
    every: list[str] = []
    for parameter in stored if isinstance(stored, list) else ():
        key = parameter.get("key") if isinstance(parameter, dict) else None
        value = parameter.get("value") if isinstance(parameter, dict) else None
        if not isinstance(key, str) or not isinstance(value, dict):
            continue
        text = value.get("string_value")
        read = text if isinstance(text, str) else _number(value)
        every.append(f"{key} {read}")
        if key not in _NOT_READ:
            parameters[key] = read
    return parameters, blake2b("\n".join(sorted(every)).encode(), digest_size=8).hexdigest()


def _number(typed: dict[str, Any]) -> str | int | float | None:
    """Return the value of a parameter that is no text."""
    number = typed.get("int_value")
    if isinstance(number, str) and len(number) <= 20 and number.removeprefix("-").isdecimal():
        # An INT64 in BigQuery; orjson, which writes event_data, has no larger ones either.
        return whole if -_INT64 <= (whole := int(number)) < _INT64 else number
    for value in (number, typed.get("double_value"), typed.get("float_value")):
        if isinstance(value, int | float):
            return value
    return None


def _object(row: dict[str, Any], name: str) -> dict[str, Any]:
    value = row.get(name)
    return value if isinstance(value, dict) else {}


def _text(row: dict[str, Any], name: str) -> str:
    value = row.get(name)
    return value if isinstance(value, str) and value != _NOT_SET else ""


@values.cached
def _url(text: str) -> WebUrl:
    return parse_page_url(text)
