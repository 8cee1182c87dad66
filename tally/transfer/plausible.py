"""Read rows of Plausible's table events_v2, as CSV or TSV with a header: one row per event. Its export of sums:
tally/transfer/plausible_sums.py.

Columns are found by their names. Rows have no ids: a row is known by its time, visitor, session, name, page,
properties and revenue, so equal ones of one second are one event. ClickHouse writes unknown countries as two NULs in
CSV. Revenue becomes the properties `value` and `currency`, as where it is collected (tally/ingest/compat/plausible.py).
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from tally.events.validation import Rejection
from tally.transfer import values
from tally.transfer.files import Source
from tally.transfer.records import Record, Site, Skip, Table, unescaped

_NEEDED = ("timestamp", "name", "user_id", "pathname")
_HINT = "export table events_v2 with a header, as docs/importing.md shows."
_ENGAGEMENT = (Skip("engagement events"),)
_BAD_TIME = Rejection("invalid_field", "timestamp is like 2024-11-18 09:00:00.", "timestamp")
_BAD_DATA = Rejection("invalid_event_data", "meta.key and meta.value have different lengths.", "meta.key")
# An array of texts: ['a','b\'c'].
_TEXT = re.compile(r"'((?:[^'\\]++|\\.)*+)'", re.DOTALL)
# A Decimal64(3).
_AMOUNT = re.compile(r"-?[0-9]{1,18}(?:\.[0-9]{1,18})?")
_NO_SOURCE = frozenset(("", "Direct / None"))


class Plausible:
    """Reads the rows of an export."""

    def __init__(self, source: Source, site: Site) -> None:
        self._domain = site.domain
        self._table = Table.with_columns(source, _NEEDED, _HINT, allow_nul=True)

    def records(self, start: int) -> Iterator[Record]:
        """Yield the rows of the file. Raises BadFile."""
        return self._table.records(start)

    def read(self, value: Sequence[str]) -> tuple[dict[str, Any] | Skip | Rejection, ...]:
        """Return the event of a row."""
        row = dict(zip(self._table.columns, value, strict=True))
        name, get = row["name"], row.get
        if name in ("engagement", "pageleave"):
            return _ENGAGEMENT
        try:
            ts_ms = values.utc_ms(row["timestamp"])
        except ValueError:
            return (_BAD_TIME,)
        country = values.country(get("country_code", ""))
        os, _ = values.system(get("operating_system", ""))
        path, hostname = row["pathname"], get("hostname") or self._domain
        keys, contents = get("meta.key", ""), get("meta.value", "")
        amount = get("revenue_source_amount", "")
        event: dict[str, Any] = {
            "type": "pageview",
            "timestamp": ts_ms,
            "visitor": row["user_id"],
            "id": "\n".join((get("session_id", ""), name, hostname, path, keys, contents, *filter(None, (amount,)))),
            "hostname": hostname,
            "pathname": values.pathname(path),
            "referrer": values.referrer(get("referrer", "")),
            "browser": values.browser(get("browser", "")),
            "browser_version": values.major(get("browser_version", "")),
            "os": os,
            "os_version": values.os_version(os, get("operating_system_version", "")),
            "device": values.device(get("screen_size", "")),
            "country": country,
            "region": values.region(country, get("subdivision1_code", "")),
            **values.utm_columns(row),
        }
        # A source without a referrer comes from a parameter of the URL, such as ?ref=.
        if not get("referrer") and not get("utm_source") and get("referrer_source", "") not in _NO_SOURCE:
            event["utm_source"] = row["referrer_source"][: values.MAX_LABEL]
        if name == "pageview":
            return (event,)
        event |= {"type": "event", "event_name": name[: values.MAX_EVENT_NAME]}
        if keys not in ("", "[]"):
            names, texts = _texts(keys), _texts(contents)
            if len(names) != len(texts):
                return (_BAD_DATA,)
            event["event_data"] = dict(zip(names, texts, strict=True))
        if _AMOUNT.fullmatch(amount):
            event["event_data"] = event.get("event_data", {}) | {"value": float(amount)}
            if currency := get("revenue_source_currency", "").strip("\0"):
                event["event_data"]["currency"] = currency
        return (event,)


def _texts(array: str) -> list[str]:
    """Return the texts of an array as ClickHouse writes it."""
    return [unescaped(text) if "\\" in text else text for text in _TEXT.findall(array)]
