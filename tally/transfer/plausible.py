"""Read rows of Plausible's table events_v2, as CSV or TSV with a header: one row per event. Its export of sums:
tally/transfer/plausible_sums.py.

Columns are found by their names. Rows have no ids: a row is known by its time, visitor, session, name, page,
properties and revenue, so equal ones of one second are one event. ClickHouse writes unknown countries as two NULs in
CSV. Revenue becomes the properties `value` and `currency`, as where it is collected (tally/ingest/compat/plausible.py).
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tally.events.validation import Rejection
from tally.transfer import values
from tally.transfer.files import Source
from tally.transfer.records import Record, Site, Skip, Table, unescaped
from tally.transfer.times import utc_ms

_NEEDED = ("timestamp", "name", "user_id", "pathname")
_COLUMNS = (
    *("name", "timestamp", "user_id", "session_id", "pathname", "hostname", "referrer", "referrer_source"),
    *("meta.key", "meta.value", "revenue_source_amount", "revenue_source_currency", *values.UTM),
    *("browser", "browser_version", "operating_system", "operating_system_version", "screen_size"),
    *("country_code", "subdivision1_code"),
)
_UTM, _AGENT, _PLACE = slice(12, 17), slice(17, 22), slice(22, 24)
_HINT = "export table events_v2 with a header, as docs/importing.md shows."
_ENGAGEMENT = (Skip("engagement events"),)
_BAD_TIME = Rejection("invalid_field", "timestamp is like 2024-11-18 09:00:00.", "timestamp")
_BAD_DATA = Rejection("invalid_event_data", "meta.key and meta.value have different lengths.", "meta.key")
# An array of texts: ['a','b\'c']. One that is not closed is taken too: from each quote in it, a search for the end
# would begin again.
_TEXT = re.compile(r"'((?:[^'\\]++|\\.)*+)(?:'|\Z)", re.DOTALL)
# A Decimal64(3).
_AMOUNT = re.compile(r"-?[0-9]{1,18}(?:\.[0-9]{1,18})?")
_NO_SOURCE = frozenset(("", "Direct / None"))


class Plausible:
    """Reads the rows of an export."""

    def __init__(self, source: Source, site: Site) -> None:
        self._domain = site.domain
        self._table = Table.with_columns(source, _NEEDED, _HINT)
        self._fields: Callable[[Sequence[str]], tuple[str, ...]] | None = None

    def records(self, start: int) -> Iterator[Record]:
        """Yield the rows of the file. Raises BadFile."""
        return self._table.records(start)

    def read(self, value: Sequence[str]) -> tuple[dict[str, Any] | Skip | Rejection, ...]:
        """Return the event of a row."""
        if self._fields is None:
            self._fields = self._table.fields(_COLUMNS)
        fields = self._fields(value)
        name, time, user, session, path, hostname, referrer, source, keys, contents, amount, currency = fields[:12]
        if name in ("engagement", "pageleave"):
            return _ENGAGEMENT
        try:
            ts_ms = utc_ms(time)
        except ValueError:
            return (_BAD_TIME,)
        hostname = hostname or self._domain
        currency = currency.strip("\0")
        id = session, name, hostname, path, keys, contents
        event: dict[str, Any] = {
            "type": "pageview",
            "timestamp": ts_ms,
            "visitor": user,
            "id": "\n".join((*id, *filter(None, (amount, currency)))),
            "hostname": hostname,
            "pathname": values.pathname(path),
            "referrer": "" if referrer in _NO_SOURCE else referrer,
            **values.utm_columns(*fields[_UTM]),
            **_agent(*fields[_AGENT]),
            **values.place(*fields[_PLACE]),
        }
        # A source without a referrer comes from a parameter of the URL, such as ?ref=.
        if not referrer and "utm_source" not in event and source not in _NO_SOURCE:
            event["utm_source"] = source[: values.MAX_LABEL]
        if name == "pageview":
            return (event,)
        event |= {"type": "event", "event_name": name[: values.MAX_EVENT_NAME]}
        if keys not in ("", "[]"):
            names, texts = _texts(keys), _texts(contents)
            if len(names) != len(texts):
                return (_BAD_DATA,)
            event["event_data"] = dict(zip(names, texts, strict=True))
        if amount and _AMOUNT.fullmatch(amount):
            event["event_data"] = event.get("event_data", {}) | {"value": float(amount)}
            if currency:
                event["event_data"]["currency"] = currency
        return (event,)


@values.cached
def _agent(browser: str, browser_version: str, system: str, os_version: str, screen: str) -> dict[str, str]:
    """Return browser, system and device as fields of a line."""
    os, _ = values.system(system)
    return {
        "browser": values.browser(browser),
        "browser_version": values.major(browser_version),
        "os": os,
        "os_version": values.os_version(os, os_version),
        "device": values.device(screen),
    }


def _texts(array: str) -> list[str]:
    """Return the texts of an array as ClickHouse writes it."""
    return [unescaped(text) if "\\" in text else text for text in _TEXT.findall(array)]
