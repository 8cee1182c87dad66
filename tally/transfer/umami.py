"""Read rows of Umami's table website_event, as CSV with a header: one row per event.

Columns are found by their names. A query that joins table session gives browser, system, device, language and place
(docs/importing.md has it); Umami Cloud exports them in the same row. A row is known by its event_id.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tally.events.json_text import read_json
from tally.events.validation import METRICS, Rejection
from tally.transfer import values
from tally.transfer.files import BadFile, Source
from tally.transfer.records import Record, Site, Skip, Table
from tally.transfer.times import utc_ms

_NEEDED = ("event_id", "session_id", "created_at", "url_path", "event_type")
_COLUMNS = (
    *("event_type", "created_at", "session_id", "event_id", "hostname", "url_path", "url_query", "referrer_domain"),
    *("event_name", "event_data", *values.UTM, "browser", "os", "device", "language"),
    *("country", "region", "subdivision1", "city", *METRICS),
)
_UTM, _AGENT, _PLACE, _VITALS = slice(10, 15), slice(15, 19), slice(19, 23), slice(23, None)
_HINT = "export table website_event with a header, as docs/importing.md shows."
# The export of a website's page, with sums of the shown range.
_OWN_EXPORT = {"events.csv", "pages.csv", "referrers.csv"}
_NO_EVENTS = (
    "is Umami's own export, which has sums without dates and cannot be imported: export the rows of its database, as"
    " docs/importing.md shows, or use Umami Cloud's data export."
)
_CLICKS = (Skip("clicks on links and pixels"),)
_NO_VALUES = Skip("performance events without values")
_BAD_TIME = Rejection("invalid_field", "created_at is like 2024-11-18 09:00:00.123+00.", "created_at")
_BAD_TYPE = Rejection("invalid_type", "event_type is 1 (page view), 2 (event), 3, 4 or 5 (performance).", "event_type")
_BAD_DATA = Rejection("invalid_event_data", "event_data is a JSON object.", "event_data")
_VIEW, _EVENT, _PERFORMANCE = "1", "2", "5"


def reader(source: Source, site: Site) -> "Umami":
    """Return a reader of rows. Raises BadFile where the file is Umami's own export, which has no events."""
    files = {file.rpartition("/")[2] for file in source.members()}
    if files >= _OWN_EXPORT:
        raise BadFile(f"{source.name} {_NO_EVENTS}")
    if len(files) > 1 and "website_event.csv" in files:
        raise BadFile(f"{source.name} is a data export of Umami Cloud: unpack it and name its website_event.csv.")
    return Umami(source, site)


class Umami:
    """Reads the rows of an export."""

    def __init__(self, source: Source, site: Site) -> None:
        self._domain = site.domain
        table = Table.with_columns(source, _NEEDED, _HINT)

        def check(columns: Sequence[str]) -> None:
            if [*columns] == ["x", "y"]:
                raise BadFile(f"{source.name} {_NO_EVENTS}")
            table.check(columns)

        self._table = Table(source, check)
        self._fields: Callable[[Sequence[str]], tuple[str, ...]] | None = None

    def records(self, start: int) -> Iterator[Record]:
        """Yield the rows of the file. Raises BadFile."""
        return self._table.records(start)

    def read(self, value: Sequence[str]) -> tuple[dict[str, Any] | Skip | Rejection, ...]:
        """Return the event of a row."""
        if self._fields is None:
            self._fields = self._table.fields(_COLUMNS)
        fields = self._fields(value)
        kind, time, visitor, id, hostname, path, query, referrer, event_name, event_data = fields[:10]
        if kind in ("3", "4"):
            return _CLICKS
        try:
            ts_ms = utc_ms(time)
        except ValueError:
            return (_BAD_TIME,)
        event: dict[str, Any] = {
            "type": "pageview",
            "timestamp": ts_ms,
            "visitor": visitor,
            "id": id,
            "hostname": hostname or self._domain,
            "pathname": values.pathname(path.partition("#")[0]),
            "referrer": referrer,
            **values.campaign(query.removeprefix("?")),
            **values.utm_columns(*fields[_UTM]),
            **_agent(*fields[_AGENT]),
            **_place(*fields[_PLACE]),
        }
        if kind == _EVENT:
            return _event(event, event_name, event_data)
        if kind == _PERFORMANCE:
            return _vitals(event, fields[_VITALS])
        return (event,) if kind == _VIEW else (_BAD_TYPE,)


@values.cached
def _agent(browser: str, system: str, device: str, language: str) -> dict[str, str]:
    """Return browser, system, device and language as fields of a line."""
    os, os_version = values.system(system)
    return {
        "browser": values.browser(browser),
        "os": os,
        "os_version": os_version,
        "device": values.device(device),
        "language": values.language(language),
    }


@values.cached
def _place(country: str, region: str, subdivision: str, city: str) -> dict[str, str]:
    """Return country, region and city as fields of a line."""
    return values.place(country, region or subdivision) | {"city": values.label(city)}


def _event(event: dict[str, Any], name: str, data: str) -> tuple[dict[str, Any] | Rejection, ...]:
    event |= {"type": "event", "event_name": name[: values.MAX_EVENT_NAME]}
    if data:
        try:
            event["event_data"] = read_json(data.encode())
        except ValueError:
            return (_BAD_DATA,)
    return (event,)


def _vitals(event: dict[str, Any], texts: Sequence[str]) -> tuple[dict[str, Any] | Skip | Rejection, ...]:
    try:
        vitals = {name: float(text) for name, text in zip(METRICS, texts, strict=True) if text}
    except ValueError:
        return (Rejection("invalid_field", "A metric of performance is a number.", "vitals"),)
    return (event | {"type": "vitals", "vitals": vitals} if vitals else _NO_VALUES,)
