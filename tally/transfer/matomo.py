"""Read visits of Matomo's Live.getLastVisitsDetails as JSON: an object per visit, in arrays or one per line.

A visit has its actions, each with its own time. Page views, events, site searches, downloads and outbound links become
events; goal conversions and orders are skipped, since they are made of others. An action is known by the id of its
visit and its place in it.
"""

from collections.abc import Iterator
from typing import Any

from tally.events.json_text import read_json
from tally.events.urls import BadUrl, WebUrl, parse_page_url
from tally.events.validation import Rejection
from tally.transfer import values
from tally.transfer.files import Source
from tally.transfer.records import Record, Site, Skip, json_objects

_BAD_JSON = Rejection("invalid_json", "The visit is not JSON in UTF-8.")
_BAD_VISIT = Rejection("invalid_visit", "A visit has idVisit and a list actionDetails.")
# Each action of a visit has them: with long ones, a file of 1 MB would take gigabytes of memory.
_MAX_ID_CHARACTERS = 200
_LONG_ID = Rejection("invalid_visit", f"idVisit and visitorId have at most {_MAX_ID_CHARACTERS} characters.")
_BAD_ACTION = Rejection(
    "invalid_action", "An action has a type, a timestamp in seconds and, if it is a page view, a url."
)
_OTHER = Skip("goal conversions, orders and other actions")
_MAX_LINK = 1_000
# The names that the tracker gives to the same events.
_NAMED = {"download": "download", "outlink": "outbound", "search": "search"}


class Matomo:
    """Reads the visits of a file."""

    def __init__(self, source: Source, site: Site) -> None:
        self._source, self._domain = source, site.domain

    def records(self, start: int) -> Iterator[Record]:
        """Yield the visits of the file. Raises BadFile."""
        return json_objects(self._source, start)

    def read(self, value: bytes) -> list[dict[str, Any] | Skip | Rejection]:
        """Return the events of a visit."""
        try:
            visit = read_json(value)
        except ValueError:
            return [_BAD_JSON]
        if visit.get("result") == "error":
            message = str(visit.get("message"))[:200]
            return [Rejection("invalid_visit", f"The file has an error message in place of visits: {message}")]
        actions, id = visit.get("actionDetails"), visit.get("idVisit")
        if not isinstance(actions, list) or not isinstance(id, int | str):
            return [_BAD_VISIT]
        of_visit, events = _of_visit(visit), []
        if max(len(str(id)), len(of_visit["visitor"])) > _MAX_ID_CHARACTERS:
            return [_LONG_ID]
        # The referrer and the campaign are those of the visit's first event.
        source = _source(visit)
        for number, action in enumerate(actions):
            event = self._event(action) if isinstance(action, dict) else _BAD_ACTION
            if isinstance(event, dict):
                event = of_visit | source | event | {"id": f"{id}:{number}"}
                source = {}
            events.append(event)
        return events

    def _event(self, action: dict[str, Any]) -> dict[str, Any] | Skip | Rejection:
        kind, timestamp, address = _text(action, "type"), action.get("timestamp"), _text(action, "url")
        if kind != "action" and kind != "event" and kind not in _NAMED:
            return _OTHER
        try:
            url = _url(address) if address and kind not in ("download", "outlink") else None
        except BadUrl:
            return _BAD_ACTION
        if not isinstance(timestamp, int):
            return _BAD_ACTION
        event: dict[str, Any] = {"type": "event", "timestamp": timestamp * 1_000, "hostname": self._domain}
        if url:
            event |= {"pathname": url.path, "hostname": url.host, **values.campaign(url.query)}
        if kind == "action":
            return event | {"type": "pageview"} if url else _BAD_ACTION
        if kind == "event":
            event["event_name"] = _text(action, "eventAction")[: values.MAX_EVENT_NAME]
            data = {"category": action.get("eventCategory"), "name": action.get("eventName")}
            data["value"] = action.get("eventValue")
        else:
            event["event_name"] = _NAMED[kind]
            # Without the query, as by the tracker.
            link = address.partition("?")[0].partition("#")[0][:_MAX_LINK]
            data = {"keyword": action.get("siteSearchKeyword")} if kind == "search" else {"url": link}
        event["event_data"] = {name: value for name, value in data.items() if isinstance(value, str | int | float)}
        return event


def _of_visit(visit: dict[str, Any]) -> dict[str, Any]:
    """Return the values that all events of a visit have."""
    os, os_version = values.system(_text(visit, "operatingSystem"))
    name = _text(visit, "operatingSystemName")
    if name:
        os, _ = values.system(name)
        os_version = values.os_version(os, _text(visit, "operatingSystemVersion"))
    browser, version = values.split_version(_text(visit, "browser"))
    return {
        "visitor": _text(visit, "visitorId") or _text(visit, "fingerprint") or str(visit["idVisit"]),
        "browser": values.browser(_text(visit, "browserName") or browser),
        "browser_version": values.major(_text(visit, "browserVersion") or version),
        "os": os,
        "os_version": os_version,
        "device": values.device(_text(visit, "deviceType")),
        "language": values.language(_text(visit, "languageCode")),
        **values.place(_text(visit, "countryCode"), _text(visit, "regionCode")),
        "city": values.label(_text(visit, "city")),
    }


def _source(visit: dict[str, Any]) -> dict[str, str]:
    """Return the referrer and the UTM values of a visit."""
    source = {"referrer": _text(visit, "referrerUrl")}
    if visit.get("referrerType") == "campaign":
        # The last four are there with the plugin Marketing Campaigns Reporting.
        for field, name in (
            ("utm_campaign", "referrerName"),
            ("utm_term", "referrerKeyword"),
            ("utm_campaign", "campaignName"),
            ("utm_source", "campaignSource"),
            ("utm_medium", "campaignMedium"),
            ("utm_content", "campaignContent"),
            ("utm_term", "campaignKeyword"),
        ):
            if text := _text(visit, name):
                source[field] = text[: values.MAX_LABEL]
    return source


def _text(values: dict[str, Any], name: str) -> str:
    value = values.get(name)
    return value if isinstance(value, str) else ""


@values.cached
def _url(text: str) -> WebUrl:
    """Return a page's URL, with or without its scheme. Raises BadUrl."""
    return parse_page_url(text if "://" in text else f"https://{text}")
