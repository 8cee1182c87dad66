"""Read Plausible's export: a zip archive of CSV files, each with sums by day of the values of some columns.

A file is known by its name, `imported_pages_20240101_20241231.csv`, and columns by theirs; older exports have fewer.
The sums of a column are those of all rows with its value: a visitor who has two values of another column of the same
file on a day counts twice, as in Plausible.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import chain
from typing import Any

from tally.events.channels import channel
from tally.events.validation import Rejection
from tally.transfer import values
from tally.transfer.files import Member, Source
from tally.transfer.plausible import Plausible
from tally.transfer.records import Reader, Record, Site, Skip, Table
from tally.transfer.sums import BAD_NUMBER, following, item, number, tagged

TABLE = re.compile(r"(?:.*/)?(?:imported_)?([a-z_]+)_[0-9]{8}_[0-9]{8}\.csv")
_NO_SOURCE = frozenset(("", "Direct / None"))
_ENGAGEMENT = (Skip("engagement events"),)

Row = Mapping[str, str]
Items = Iterator[tuple[str, str, dict[str, int]]]
"""(field, value, figures)."""


def _of_visits(row: Row) -> dict[str, int]:
    """Return the figures that most files have."""
    duration = {"duration_ms": 1_000 * number(row["visit_duration"])} if "visit_duration" in row else {}
    return _only(row, "visitors", "visits", "pageviews", "bounces") | duration


def _only(row: Row, *names: str) -> dict[str, int]:
    return {name: number(row[name]) for name in names if name in row}


def _total(row: Row) -> Items:
    yield "total", "", _of_visits(row)


def _sources(row: Row) -> Items:
    figures = _of_visits(row)
    referrer = row.get("referrer", "")
    utm = dict(values.utm_columns(*[row.get(name, "") for name in values.UTM]))
    source = row.get("source", "")
    if source not in _NO_SOURCE and not referrer and not utm.get("utm_source"):
        # With a column for it, a source without a referrer comes from a parameter of the URL, such as ?ref=. Older
        # exports have no such column, and a name such as Google in place of most referrers.
        of_name = {"utm_source": source[: values.MAX_LABEL]} if "referrer" in row else values.source(source)
        referrer = of_name.get("referrer", "")
        utm |= {name: text for name, text in of_name.items() if name != "referrer"}
    yield "referrer", referrer, figures
    for name in ("utm_source", "utm_medium", "utm_campaign", "utm_content", "utm_term"):
        yield name, utm.get(name, ""), figures
    campaign = (utm.get(name, "") for name in ("utm_source", "utm_medium", "utm_campaign"))
    yield "channel", channel(values.referrer(referrer), *campaign), figures


def _pages(row: Row) -> Items:
    yield "pathname", values.pathname(row["page"]), _only(row, "visitors", "pageviews")
    if row.get("hostname"):
        # The visitors of the pages of a host do not add up to its own.
        yield "hostname", row["hostname"], _only(row, "pageviews")


def _side(row: Row, side: str, visits: str) -> Items:
    figures = _of_visits(row) | {"visits": number(row[visits])}
    yield f"{side}_page", values.pathname(row[f"{side}_page"]), figures


def _events(row: Row) -> Items:
    figures = _only(row, "visitors", "events")
    yield "event_name", row["name"][: values.MAX_EVENT_NAME], figures
    yield "total", "", _only(row, "events")


def _places(row: Row) -> Items:
    figures, country = _of_visits(row), values.country(row["country"])
    yield "country", country, figures
    yield "region", values.region(country, row.get("region", "")), figures


def _devices(row: Row) -> Items:
    yield "device", values.device(row["device"]), _of_visits(row)


def _browsers(row: Row) -> Items:
    yield "browser", values.browser(row["browser"]), _of_visits(row)
    if "browser_version" in row:
        yield "browser_version", values.major(row["browser_version"]), _of_visits(row)


def _systems(row: Row) -> Items:
    name, _ = values.system(row["operating_system"])
    yield "os", name, _of_visits(row)
    if "operating_system_version" in row:
        yield "os_version", values.os_version(name, row["operating_system_version"]), _of_visits(row)


# The files by name, with the columns that each needs besides `date`.
_TABLES: dict[str, tuple[tuple[str, ...], Callable[[Row], Items]]] = {
    "visitors": (("visitors",), _total),
    "sources": (("source",), _sources),
    "pages": (("page",), _pages),
    "entry_pages": (("entry_page", "entrances"), partial(_side, side="entry", visits="entrances")),
    "exit_pages": (("exit_page", "exits"), partial(_side, side="exit", visits="exits")),
    "custom_events": (("name", "events"), _events),
    "locations": (("country",), _places),
    "devices": (("device",), _devices),
    "browsers": (("browser",), _browsers),
    "operating_systems": (("operating_system",), _systems),
}


def table_of(file: str) -> str:
    """Return which of the files of an export a name is; "" for another one."""
    match = TABLE.fullmatch(file)
    return match[1] if match and match[1] in _TABLES else ""


def reader(source: Source, site: Site) -> Reader:
    """Return a reader of rows or, where the file is an archive as Plausible exports it, of sums."""
    files = [file for file in source.members() if table_of(file)]
    return PlausibleSums(source, files) if files else Plausible(source, site)


class PlausibleSums:
    """Reads the files of an archive."""

    def __init__(self, source: Source, files: list[str]) -> None:
        self._source, self._files = source, files

    def records(self, start: int) -> Iterator[Record]:
        """Yield the rows of all files. Raises BadFile."""
        return following(chain.from_iterable(map(self._rows, self._files)), start)

    def _rows(self, file: str) -> Iterator[Record]:
        table = table_of(file)
        needed = ("date", *_TABLES[table][0])
        rows = Table.with_columns(Member(self._source, file), needed, "use the archive as Plausible has made it.")
        return tagged(table, rows.records(), lambda row: dict(zip(rows.columns, row, strict=True)))

    def read(self, value: tuple[str, Row]) -> tuple[dict[str, Any] | Skip | Rejection, ...]:
        """Return the sums of a row."""
        table, row = value
        if row.get("name") in ("engagement", "pageleave", "pageview") and table == "custom_events":
            return _ENGAGEMENT
        try:
            return tuple(item(row["date"], *sums) for sums in _TABLES[table][1](row))
        except ValueError:
            return (BAD_NUMBER,)
