"""Read rows of Umami's table website_event, as CSV with a header: one row per event.

Columns are found by their names. A query that joins table session gives browser, system, device, language and place
(docs/importing.md has it); Umami Cloud exports them in the same row. A row is known by its event_id.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import orjson

from tally.events.validation import METRICS, Rejection
from tally.transfer import values
from tally.transfer.files import Source
from tally.transfer.records import Record, Site, Skip, Table

_NEEDED = ("event_id", "session_id", "created_at", "url_path", "event_type")
_HINT = "export table website_event with a header, as docs/importing.md shows."
_CLICKS = (Skip("clicks on links and pixels"),)
_NO_VALUES = Skip("performance events without values")
_BAD_TIME = Rejection("invalid_field", "created_at is like 2024-11-18 09:00:00.123+00.", "created_at")
_BAD_TYPE = Rejection("invalid_type", "event_type is 1 (page view), 2 (event), 3, 4 or 5 (performance).", "event_type")
_BAD_DATA = Rejection("invalid_event_data", "event_data is a JSON object.", "event_data")
_VIEW, _EVENT, _PERFORMANCE = "1", "2", "5"


class Umami:
    """Reads the rows of an export."""

    def __init__(self, source: Source, site: Site) -> None:
        self._domain = site.domain
        self._table = Table.with_columns(source, _NEEDED, _HINT)

    def records(self, start: int) -> Iterator[Record]:
        """Yield the rows of the file. Raises BadFile."""
        return self._table.records(start)

    def read(self, value: Sequence[str]) -> tuple[dict[str, Any] | Skip | Rejection, ...]:
        """Return the event of a row."""
        row = dict(zip(self._table.columns, value, strict=True))
        kind, get = row["event_type"], row.get
        if kind in ("3", "4"):
            return _CLICKS
        try:
            ts_ms = values.utc_ms(row["created_at"])
        except ValueError:
            return (_BAD_TIME,)
        country = values.country(get("country", ""))
        os, os_version = values.system(get("os", ""))
        path = row["url_path"].partition("#")[0]
        event: dict[str, Any] = {
            "type": "pageview",
            "timestamp": ts_ms,
            "visitor": row["session_id"],
            "id": row["event_id"],
            "hostname": get("hostname") or self._domain,
            "pathname": values.pathname(path),
            "referrer": values.referrer(get("referrer_domain", "")),
            "browser": values.browser(get("browser", "")),
            "os": os,
            "os_version": os_version,
            "device": values.device(get("device", "")),
            "language": values.language(get("language", "")),
            "country": country,
            "region": values.region(country, get("region") or get("subdivision1") or ""),
            "city": values.label(get("city", "")),
            **values.campaign(get("url_query", "").removeprefix("?")),
            **values.utm_columns(row),
        }
        if kind == _EVENT:
            return self._event(event, row)
        if kind == _PERFORMANCE:
            return _vitals(event, row)
        return (event,) if kind == _VIEW else (_BAD_TYPE,)

    @staticmethod
    def _event(event: dict[str, Any], row: dict[str, str]) -> tuple[dict[str, Any] | Rejection, ...]:
        event |= {"type": "event", "event_name": row.get("event_name", "")[: values.MAX_EVENT_NAME]}
        if data := row.get("event_data"):
            try:
                event["event_data"] = orjson.loads(data)
            except ValueError:
                return (_BAD_DATA,)
        return (event,)


def _vitals(event: dict[str, Any], row: dict[str, str]) -> tuple[dict[str, Any] | Skip | Rejection, ...]:
    try:
        vitals = {name: float(row[name]) for name in METRICS if row.get(name)}
    except ValueError:
        return (Rejection("invalid_field", "A metric of performance is a number.", "vitals"),)
    return (event | {"type": "vitals", "vitals": vitals} if vitals else _NO_VALUES,)
