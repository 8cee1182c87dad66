"""The format of exported and imported events: one JSON object per line.

A line is an object like a row of /events with an additional `visitor`: a text that identifies one visitor of a day.
Heatmap points are counts, not events, and have no lines; a heatmap event without points has one.

The rules of a field are those of a collected event (tally/events/validation.py) where it has the same meaning. The
dimensions are texts as stored: nothing is derived from a URL or a User-Agent. Unknown keys and `visit` are ignored;
null and an empty text mean absent. An invalid line is a Rejection, so that the other lines are imported; a field that
only describes an event is omitted or cut, with a warning.

- The visitor of a line becomes a number, a keyed hash of the file's visitor, the day and the website: the same for
  the same visitor in another file, different every day, and without meaning unless the salt is known. A line without a
  visitor is a visitor of its own.
- The id of a line is not stored: an event gets an id of this database. With the line's time, type and visitor (of web
  vitals the values) it identifies the line within a website (`key`, 64 bits, a keyed hash), and table `import_id`
  stores that, so that a line is imported once.
- A line exported from this database has the id and visitor of its row (`row`), so that it is not imported into the
  website from which it was exported.
- A path is stored in its one spelling (`normal_path` of tally/events/urls.py), whatever the file has.
- A referrer is a URL or a host and is stored as by collect: the host in lower case without `www.`, and nothing if it is
  the website's own.
- The channel of a line is not read, but computed from its referrer and UTM values.
- A line of the type SUM_TYPE has no event, but the figures of a day by one value of a field, as another system exports
  them (tally/rollups/imported_sums.py): SUM_COLUMNS. Figures that the system does not have are absent.

The keys of a line of an event are COLUMNS of tally/engine/archive.py, in this order.
"""

import re
import secrets
from collections.abc import Callable, Mapping
from datetime import date
from functools import lru_cache
from hashlib import blake2b
from operator import gt
from typing import Any

import orjson

from tally.engine.archive import FIELD_NUMBERS, FIGURES, AnyLine, CrawlLine, Line, SumLine
from tally.events.dimensions import CHANNEL, ENTRY_PAGE, EXIT_PAGE, FIELDS, channel_of
from tally.events.fields import DIMENSIONS
from tally.events.urls import MAX_PATH_CHARACTERS, BadUrl, external_referrer, imported_referrer, normal_path
from tally.events.validation import (
    AHEAD_MS,
    HEATMAP,
    LEAVE,
    REQUIRED,
    RULES,
    TRAFFIC,
    VITALS,
    WITH_VISITOR,
    Fault,
    FieldWarning,
    Rejection,
    type_of,
)
from tally.storage.crawler_days import KEPT_DAYS, MAX_PATH, SOURCES
from tally.storage.value_limits import OTHER
from tally.timestamps import DAY_MS, event_time_ms
from tally.transfer.records import Skip
from tally.transfer.times import iso_ms

SUM_TYPE = "imported_sum"
SUM_COLUMNS = ("type", "day", "field", "value", *FIGURES)
"""The type of a line of sums, and its keys. `day` is a date, `field` one of FIELD_NUMBERS."""

CRAWL_TYPE = "crawler_day"
CRAWL_COLUMNS = ("type", "day", "crawler", "pathname", "source", "requests")
"""The type of a line of the requests of a crawler for a page on a day (tally/storage/crawler_days.py), and its keys.
`source` is one of SOURCES. The reader of access logs names `timestamp` and `id` in place of the day: such a line has a
key as an event has."""

# In the keys of such lines, in place of the number of an event type.
_CRAWL = -1
# Of a website and day.
_MAX_FIGURE = 1 << 40
# The figures of visits go together: ratios of some visits alone would be wrong.
_OF_VISITS = ("visits", "bounces", "duration_ms")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
# The largest integer of SQLite.
_MAX_ID = (1 << 63) - 1
_VISITOR_BITS = 62
_NO_IDS = frozenset((bool, list, dict))
_LIMITS = tuple((one.name, one.max_characters) for one in DIMENSIONS)
_LENGTHS = tuple(most for _, most in _LIMITS)
_LEAST_LENGTH = min(_LENGTHS)
_PATHNAME, _REFERRER = FIELDS.index("pathname"), FIELDS.index("referrer")
_PAGES = tuple(FIELD_NUMBERS[name] for name in ("pathname", "entry_page", "exit_page"))
_MAX_LONG = _LENGTHS[_PATHNAME]
_EPOCH = date(1970, 1, 1)
_ABSENT = ("",) * len(FIELDS)
# Caches: 4 MB of visitors and 2 MB of referrers, if all have the maximum length 6 and 2 MB.
_CACHED_VISITORS, _CACHED_REFERRERS = 16_384, 4_096
_LONGEST_CACHED = 200
# A line has a pathname where a collected event has url or name, and no event_id, but what it says of its page view.
_NAMES = {"url": "pathname", "name": "pathname", "event_id": "vitals"}
_REQUIRED = {
    number: ("timestamp", *(_NAMES.get(field, field) for field in fields)) for number, fields in REQUIRED.items()
}

BAD_JSON = Rejection("invalid_json", "The line is not JSON in UTF-8.")
_ZEROS = Skip("rows whose figures are all 0")
_OLD_CRAWLS = Skip(f"requests of crawlers more than {KEPT_DAYS} days ago")
NO_HEATMAP = Rejection("invalid_type", "Heatmap points are stored as counts and cannot be imported.", "type")


class _Wrong(ValueError):
    def __init__(self, code: str, message: str, field: str) -> None:
        super().__init__(code)
        self.rejection = Rejection(code, message, field)


_ReadOther = Callable[[int, dict[str, Any]], SumLine | CrawlLine | Skip]
"""Reads a line without an event. Raises _Wrong."""


class LineReader:
    """Checks lines for a website of the database with this salt. Times slightly after `now_ms` become `now_ms`.

    `domain` and `origins` are the website's: its own pages are dropped as referrers, as by collect. `secret` replaces
    the salt for visitors, who are then not part of a line's key: with another secret they have other numbers, and the
    line still has its key. With `keeps_visitors` the lines are this website's own, and visitors keep their numbers.
    `offset_ms` is added to the times of lines, for website time.
    """

    def __init__(
        self,
        salt: bytes,
        website: int,
        now_ms: int,
        domain: str = "",
        origins: frozenset[str] = frozenset(),
        secret: bytes = b"",
        *,
        keeps_visitors: bool = False,
        offset_ms: int = 0,
    ) -> None:
        self._keeps_visitors, self._offset_ms = keeps_visitors, offset_ms
        self._salt, self._website, self._now_ms = salt, website, now_ms
        self._domain, self._origins, self._secret = domain, origins, secret
        # Copied for each number: a quarter of the time of a new one with its key. Together with the key, what all
        # texts begin with is hashed once.
        self._of_id = blake2b(b"%d:" % website, digest_size=8, key=salt, person=b"id")
        self._of_visitor = blake2b(b"%d:" % website, digest_size=8, key=secret or salt, person=b"visitor")
        # A visitor has several events a day, many events have the same referrer.
        self._visitor_number = lru_cache(_CACHED_VISITORS)(self._hashed_visitor)
        self._external_referrer = lru_cache(_CACHED_REFERRERS)(self._read_referrer)
        self._others: dict[str, _ReadOther] = {SUM_TYPE: self._sum, CRAWL_TYPE: self._crawl}
        self.warnings: list[FieldWarning] = []
        """What is new here after a call of `line`, of which the caller empties it."""

    def line(self, number: int, item: Any) -> AnyLine | Skip | Rejection:
        """Return the line with this number of a value, which is a dict if it is valid; a Skip for a sum of zeros. Takes
        about 10 µs."""
        type_ = type_of(item)
        if isinstance(type_, Rejection):
            kind = item.get("type") if isinstance(item, dict) else None
            read = self._others.get(kind) if isinstance(kind, str) else None
            return type_ if read is None else self._checked(read, number, item)
        if type_ == HEATMAP and any(item.get(field) is not None for field in ("points", "x", "y")):
            return NO_HEATMAP
        try:
            return self._line(number, type_, item)
        except _Wrong as wrong:
            return wrong.rejection

    @staticmethod
    def _checked(read: _ReadOther, number: int, item: dict[str, Any]) -> SumLine | CrawlLine | Skip | Rejection:
        try:
            return read(number, item)
        except _Wrong as wrong:
            return wrong.rejection

    def _crawl(self, number: int, item: dict[str, Any]) -> CrawlLine | Skip:
        key = None
        if "timestamp" in item:
            ts_ms, key = self._time(item["timestamp"]) + self._offset_ms, self._key(_CRAWL, item)[0]
        else:
            ts_ms = self._date(item) * DAY_MS
        crawler, path = item.get("crawler") or "", item.get("pathname")
        if not isinstance(crawler, str) or len(crawler) > _LEAST_LENGTH or "\0" in crawler:
            message = f"crawler is text of at most {_LEAST_LENGTH:,} characters, without NUL."
            raise _Wrong("invalid_field", message, "crawler")
        if not isinstance(path, str) or not path or "\0" in path:
            raise _Wrong("invalid_field", "pathname is text, without NUL.", "pathname")
        if path != OTHER:
            path = normal_path(path)
        if item.get("source") not in SOURCES:
            raise _Wrong("invalid_field", f"source is one of {', '.join(SOURCES)}.", "source")
        requests = item.get("requests")
        if type(requests) is not int or not 1 <= requests <= _MAX_FIGURE:
            raise _Wrong("invalid_field", "requests is a whole number, at least 1.", "requests")
        if ts_ms // DAY_MS < self._now_ms // DAY_MS - KEPT_DAYS:
            return _OLD_CRAWLS
        texts = crawler, path if len(path) <= MAX_PATH else OTHER
        return CrawlLine(number, ts_ms, key, texts, SOURCES.index(item["source"]), requests)

    def _date(self, item: Mapping[str, Any]) -> int:
        day = _day(item.get("day"))
        if day is None or not 0 <= day <= (self._now_ms + DAY_MS) // DAY_MS:
            # One day ahead of UTC, because of time zones.
            raise _Wrong("invalid_field", "day is a date such as 2024-11-18, from 1970 to today.", "day")
        return day

    def _sum(self, number: int, item: dict[str, Any]) -> SumLine | Skip:
        day = self._date(item)
        name, value = item.get("field"), item.get("value") or ""
        field = FIELD_NUMBERS.get(name) if isinstance(name, str) else None
        if field is None:
            raise _Wrong("invalid_field", f"field is one of {', '.join(FIELD_NUMBERS)}.", "field")
        most = _LENGTHS[field] if field < len(_LENGTHS) else 0 if name == "total" else _LENGTHS[0]
        if field == _REFERRER:
            value = self._referrer_of(value)
        if not isinstance(value, str) or len(value) > most or "\0" in value or (not value and name == "event_name"):
            raise _Wrong("invalid_field", f"value is text of at most {most:,} characters, without NUL.", "value")
        if field in _PAGES:
            value = _page(value, "value")
        sent = {figure: item[figure] for figure in FIGURES if item.get(figure) is not None}
        if not all(type(one) is int and 0 <= one <= _MAX_FIGURE for one in sent.values()):
            raise _Wrong("invalid_field", f"{', '.join(FIGURES)} are whole numbers, not negative.", "visitors")
        if sent and not any(sent.values()):
            # It would keep another system's figures of that day out.
            return _ZEROS
        if not sent.keys() >= {*_OF_VISITS}:
            # Lists of entry and exit pages are of visits alone; older exports have no more.
            omitted = _OF_VISITS[1:] if field in (ENTRY_PAGE, EXIT_PAGE) else _OF_VISITS
            sent = {figure: one for figure, one in sent.items() if figure not in omitted}
        if not sent:
            raise _Wrong("missing_field", f"A sum needs some of {', '.join(FIGURES)}, those of visits together.", "")
        known = sum(1 << n for n, figure in enumerate(FIGURES) if figure in sent)
        return SumLine(number, day, field, (value,), known, tuple(sent.get(figure, 0) for figure in FIGURES))

    def _line(self, number: int, type_: int, item: dict[str, Any]) -> Line:
        for field in _REQUIRED[type_]:
            if item.get(field) in (None, ""):
                raise _Wrong("missing_field", f"This type needs {field}.", field)
        ts_ms = self._time(item["timestamp"]) + self._offset_ms
        texts = _texts(item, self._referrer_of(item.get("referrer")), self.warnings)
        texts[_PATHNAME] = _page(texts[_PATHNAME], "pathname")
        texts[CHANNEL] = channel_of(texts)
        rest: tuple[Any, ...] = (None,)
        if type_ in TRAFFIC:
            texts.append(_ruled(type_, item, "event_name", "") if "event_name" in item else "")
            if "event_data" in item:
                rest = (_ruled(type_, item, "event_data", None),)
        elif type_ in (VITALS, LEAVE):
            metrics = _ruled(type_, item, "vitals", ()) if item.get("vitals") else ()
            return Line(number, ts_ms, type_, *self._key(type_, item), 0, False, tuple(texts), metrics)
        elif type_ == HEATMAP:
            return Line(number, ts_ms, type_, *self._key(type_, item), 0, False, (*texts, "", "", ""), (None,))
        else:
            # An assignment has neither goal nor value, as when it is collected.
            texts += [_ruled(type_, item, field, "") for field in ("experiment", "variant", "goal")]
            rest = (_ruled(type_, item, "value", None),)
        visitor = item.get("visitor")
        is_named = visitor is not None and visitor != ""
        who = self._visitor(visitor, ts_ms // DAY_MS) if is_named else secrets.randbits(_VISITOR_BITS)
        key, row = self._key(type_, item)
        # As Line(...), in half the time.
        return tuple.__new__(Line, (number, ts_ms, type_, key, row, who, is_named, tuple(texts), rest))

    def _time(self, value: Any) -> int:
        if type(value) is int and 0 <= value <= self._now_ms:
            return value
        try:
            ts_ms = iso_ms(value) if isinstance(value, str) else event_time_ms(value)
        except ValueError:
            message = "timestamp is whole milliseconds since 1970, or ISO 8601 text."
            raise _Wrong("invalid_field", message, "timestamp") from None
        if ts_ms < 0:
            raise _Wrong("timestamp_too_old", "timestamp lies before 1970.", "timestamp")
        if ts_ms > self._now_ms + AHEAD_MS:
            message = "timestamp is more than 5 minutes ahead: it has not happened yet."
            raise _Wrong("timestamp_in_future", message, "timestamp")
        return min(ts_ms, self._now_ms)

    def _visitor(self, visitor: Any, day: int) -> int:
        if not isinstance(visitor, str):
            raise _Wrong("invalid_field", "visitor is text.", "visitor")
        if self._keeps_visitors and (number := _stored_visitor(visitor)) is not None:
            return number
        return (self._visitor_number if len(visitor) <= _LONGEST_CACHED else self._hashed_visitor)(visitor, day)

    def _hashed_visitor(self, visitor: str, day: int) -> int:
        return _number(self._of_visitor, b"%d:" % day + visitor.encode()) >> (64 - _VISITOR_BITS)

    def _referrer_of(self, value: Any) -> str:
        """Return the referrer of an event or a sum as it is stored. One that is none costs the value alone."""
        if value is None or value == "":
            return ""
        try:
            return self._referrer(value.strip()) if isinstance(value, str) else self._without("referrer")
        except _Wrong:
            return self._without("referrer")

    def _without(self, field: str) -> str:
        self.warnings.append(FieldWarning(f"without_{field}", field))
        return ""

    def _referrer(self, text: str) -> str:
        return (self._external_referrer if len(text) <= _LONGEST_CACHED else self._read_referrer)(text)

    def _read_referrer(self, text: str) -> str:
        """Return a referrer as it is stored, "" where it is a page of the website. Raises _Wrong."""
        try:
            return external_referrer(imported_referrer(text), self._domain, self._origins)
        except BadUrl as bad:
            message = f"referrer is a host or the full URL of the page before: {bad}"
            raise _Wrong("invalid_url", message, "referrer") from None

    def _key(self, type_: int, item: Mapping[str, Any]) -> tuple[int | None, tuple[int, int] | None]:
        """Return `key` and `row` of a line."""
        id, visitor = item.get("id"), item.get("visitor") or None
        if id is None or id == "":
            return None, None
        if type(id) in _NO_IDS:
            raise _Wrong("invalid_field", "id is a number or text.", "id")
        if visitor is not None and not isinstance(visitor, str):
            raise _Wrong("invalid_field", "visitor is text.", "visitor")
        # These have no visitor: their values stand for it.
        who_sent = item.get("vitals") if type_ in (VITALS, LEAVE) else None if self._secret else visitor
        sent = orjson.dumps((type_, id, who_sent), option=orjson.OPT_SORT_KEYS)
        key = _number(self._of_id, sent) - (1 << 63)
        if not isinstance(id, int) or not 0 < id <= _MAX_ID:
            return key, None
        who = 0 if type_ not in WITH_VISITOR else _stored_visitor(visitor)
        return key, None if who is None else (id, who)


def _number(keyed: blake2b, text: bytes) -> int:
    digest = keyed.copy()
    digest.update(text)
    return int.from_bytes(digest.digest(), "little")


def _day(value: Any) -> int | None:
    """Return the number of a day from an ISO date, None where it is none."""
    try:
        return (date.fromisoformat(value) - _EPOCH).days if isinstance(value, str) and _DATE.fullmatch(value) else None
    except ValueError:
        return None


def _stored_visitor(visitor: Any) -> int | None:
    """Return the number of a visitor as an export writes it, None where it is another text."""
    try:
        number = int(visitor, 16) if isinstance(visitor, str) and len(visitor) <= 16 else None
    except ValueError:
        return None
    return number if number is not None and f"{number:x}" == visitor and number < 1 << _VISITOR_BITS else None


def _texts(item: dict[str, Any], referrer: str, warnings: list[FieldWarning]) -> list[str]:
    """Return the dimensions of a line, with this referrer. Takes 1.5 µs where all present values are valid.

    One that is no text of the right length is omitted or cut, with a warning, but for the page and its host.
    """
    values = [*map(item.get, FIELDS, _ABSENT)]
    values[_REFERRER] = referrer
    if None in values:
        values = ["" if value is None else value for value in values]
    try:
        together = "".join(values)
        pathname = len(values[_PATHNAME])
        # Each limit is checked only where the labels together exceed the least one.
        is_short = len(together) - pathname - len(referrer) <= _LEAST_LENGTH and pathname <= _MAX_LONG
        if (is_short or not any(map(gt, map(len, values), _LENGTHS))) and "\0" not in together:
            return values
    except TypeError:
        pass
    return [_text(field, value, most, warnings) for (field, most), value in zip(_LIMITS, values, strict=True)]


def _text(field: str, value: Any, most: int, warnings: list[FieldWarning]) -> str:
    is_text = isinstance(value, str) and "\0" not in value
    if is_text and len(value) <= most:
        return str(value)
    if field in ("pathname", "hostname"):
        raise _Wrong("invalid_field", f"This is text of at most {most:,} characters, without NUL.", field)
    warnings.append(FieldWarning("value_cut" if is_text else f"without_{field}", field))
    return value[:most] if is_text else ""


def _page(text: str, field: str) -> str:
    """Return a path as it is stored. Raises _Wrong."""
    path = normal_path(text)
    if len(path) > MAX_PATH_CHARACTERS:
        message = f"A path has at most {MAX_PATH_CHARACTERS:,} characters, percent-encoded."
        raise _Wrong("invalid_field", message, field)
    return path


def _ruled(type_: int, item: Mapping[str, Any], field: str, absent: Any) -> Any:
    """Return a field, checked by the rule for a collected event of the type."""
    value = item.get(field)
    if value is None or (value == "" and absent == ""):
        return absent
    read = RULES[type_].get(field)
    if read is None:
        return absent
    try:
        return read(value)
    except Fault as fault:
        raise _Wrong(fault.code, fault.message, field) from None
