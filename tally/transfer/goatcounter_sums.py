"""Read GoatCounter's JSON export, version 1: a zip archive of files of JSON lines, with counts by hour or day.

A count is the number of sessions that viewed a page: GoatCounter shows it as visitors, but visitors of several pages
count once for each. So it becomes visitors and pageviews of a page, and pageviews alone of everything else. Counts of
screen widths and of languages (codes of three letters) are skipped, and so are those of browsers, systems and places of
custom events.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Any

import orjson

from tally.events.validation import Rejection
from tally.transfer import values
from tally.transfer.files import BadFile, Member, Source
from tally.transfer.goatcounter import GoatCounter, source_of
from tally.transfer.records import TOO_LONG, Reader, Record, Site, Skip
from tally.transfer.sums import BAD_NUMBER, following, item, tagged

_BAD_ROW = Rejection("invalid_row", "The line is not a JSON object with the fields of this file.")
_OF_EVENTS = (Skip("counts of browsers, systems and places of custom events"),)
_COUNTS = ("hit_stats", "browser_stats", "system_stats", "location_stats")
# Pages, referrers, browsers and systems are in memory: some 200 bytes each, and their texts.
_MAX_NAMES = 500_000
_MAX_CHARACTERS = 50_000_000
# Usual ones have 200.
_MAX_INFO_BYTES = 65_536

Row = Mapping[str, Any]


def reader(source: Source, site: Site) -> Reader:
    """Return a reader of the JSON export or, where the file is not an archive of several, of the CSV export."""
    files = source.members()
    has_info = any(file.rpartition("/")[2] == "info.json" for file in files)
    return GoatCounterSums(source, files) if has_info else GoatCounter(source, site)


class GoatCounterSums:
    """Reads the files of an archive."""

    def __init__(self, source: Source, files: list[str]) -> None:
        self._source, self._name = source, source.name
        self._files = {file.rpartition("/")[2].removesuffix(".jsonl"): file for file in files}
        self._paths: dict[Any, tuple[str, bool]] = {}
        self._refs: dict[Any, dict[str, str]] = {}
        self._browsers: dict[Any, tuple[str, str]] = {}
        self._systems: dict[Any, tuple[str, str]] = {}

    def records(self, start: int) -> Iterator[Record]:
        """Yield the lines of all files with counts. Raises BadFile."""
        info, size = b"", 0
        for raw, length in Member(self._source, self._files["info.json"]).lines():
            size += length
            if size > _MAX_INFO_BYTES:
                raise BadFile(f"{self._name} is no export of GoatCounter: its info.json is too long.")
            info += raw or b""
        try:
            version = str(orjson.loads(info)["export_version"])
        except (ValueError, KeyError, TypeError):
            raise BadFile(f"{self._name} is no export of GoatCounter: its info.json has no export_version.") from None
        if version.partition(".")[0] != "1":
            raise BadFile(f"{self._name} is version {version[:20]} of GoatCounter's export; version 1 can be imported.")
        self._paths = self._by_id("paths", lambda row: (str(row["path"]), bool(row.get("event"))))
        self._refs = self._by_id("refs", lambda row: source_of(str(row["ref"]), str(row.get("ref_scheme") or "")))
        self._browsers = self._by_id("browsers", _browser)
        self._systems = self._by_id("systems", lambda row: _system(str(row["name"]), str(row.get("version") or "")))
        files = (tagged(name, self._rows(name)) for name in _COUNTS if name in self._files)
        return following(chain.from_iterable(files), start)

    def _rows(self, name: str) -> Iterator[Record]:
        for raw, size in Member(self._source, self._files[name]).lines():
            yield (TOO_LONG if raw is None else _row(raw)), size, 1

    def _by_id(self, name: str, value_of: Callable[[Row], Any]) -> dict[Any, Any]:
        values: dict[Any, Any] = {}
        size = 0
        for row, bytes_, _ in self._rows(name) if name in self._files else ():
            if not isinstance(row, dict):
                continue
            size += bytes_
            if len(values) == _MAX_NAMES or size > _MAX_CHARACTERS:
                raise BadFile(f"{self._name} has more than {_MAX_NAMES:,} {name}, or too long ones.")
            try:
                values[row["id"]] = value_of(row)
            except (KeyError, TypeError):
                raise BadFile(f"{self._name} has a line in {name}.jsonl without its fields.") from None
        return values

    def read(self, value: tuple[str, Row]) -> tuple[dict[str, Any] | Skip | Rejection, ...]:
        """Return the sums of a line."""
        table, row = value
        try:
            day, count = str(row["hour" if table == "hit_stats" else "day"])[:10], row["count"]
            path, is_event = self._paths[row["path_id"]]
            if type(count) is not int or count < 0:
                return (BAD_NUMBER,)
            if table == "hit_stats":
                return tuple(self._hits(day, path, is_event, count, row))
            if is_event:
                return _OF_EVENTS
            return tuple(item(day, field, text, {"pageviews": count}) for field, text in self._fields(table, row))
        except (KeyError, TypeError):
            return (_BAD_ROW,)

    def _hits(self, day: str, path: str, is_event: bool, count: int, row: Row) -> Iterator[dict[str, Any]]:
        if is_event:
            yield item(day, "total", "", {"events": count})
            yield item(day, "event_name", path[: values.MAX_EVENT_NAME], {"visitors": count, "events": count})
            return
        pageviews = {"pageviews": count}
        yield item(day, "total", "", pageviews)
        pathname = values.pathname(path.partition("?")[0])
        yield item(day, "pathname", pathname, {"visitors": count, "pageviews": count})
        source = self._refs[row["ref_id"]] if row.get("ref_id") else {}
        for field in ("referrer", "utm_source"):
            yield item(day, field, source.get(field, ""), pageviews)

    def _fields(self, table: str, row: Row) -> Iterator[tuple[str, str]]:
        if table == "location_stats":
            place = str(row["location"])
            country = values.country(place[:2])
            yield "country", country
            yield "region", values.region(country, place[3:])
            return
        kind, by_id = ("browser", self._browsers) if table == "browser_stats" else ("os", self._systems)
        name, version = by_id[row["browser_id" if kind == "browser" else "system_id"]]
        yield kind, name
        yield f"{kind}_version", version


def _row(raw: bytes) -> Row | Rejection | None:
    if not raw.strip():
        return None
    try:
        row = orjson.loads(raw)
    except ValueError:
        return _BAD_ROW
    return row if isinstance(row, dict) else _BAD_ROW


def _browser(row: Row) -> tuple[str, str]:
    return values.browser(str(row["name"])), values.major(str(row.get("version") or ""))


def _system(name: str, version: str) -> tuple[str, str]:
    ours, _ = values.system(name)
    return ours, values.os_version(ours, version)
