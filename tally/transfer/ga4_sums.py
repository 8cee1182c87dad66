"""Read reports of GA4 that were downloaded as CSV: figures by day, and by the values of one dimension.

A file has comment lines (`#`), which contain the first day, and one or several tables, each with a header after a
blank line or a remark. A table has the days as `Date` (20241118) or as `Nth day`, counted from the first day; where the
file is of a single day it needs neither. Tables without days, and rows of totals, are skipped. Visits need sessions
together with the bounce rate and the average session duration.
"""

import csv
import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Sequence
from datetime import date, timedelta
from typing import Any

from tally.events.validation import Rejection
from tally.transfer import values
from tally.transfer.countries import CODE_OF_COUNTRY
from tally.transfer.files import BadFile, Source
from tally.transfer.ga4 import GA4
from tally.transfer.records import NOT_UTF_8, TOO_LONG, Reader, Record, Site, Skip
from tally.transfer.sums import BAD_DATE, following, item

_BAD_NUMBER = Rejection("invalid_field", "Figures are numbers, not negative.")
_BAD_WIDTH = Rejection("invalid_csv", "The row has another number of fields than the header of its table.")
_NO_DAYS = Skip("rows of tables that are not by day, or by two dimensions")
_TOTALS = Skip("rows of totals")
_OF_SESSIONS = Skip("events of sessions, engagement and pageviews")
_NO_EVENTS = frozenset(
    ("page_view", "screen_view", "session_start", "first_visit", "first_open", "user_engagement", "session_end")
)
_LIMIT = re.compile(r"# *(Start|End) date: *([0-9]{8})\s*")
_OTHER_LIMIT = re.compile(r"# *[^:\uff1a]{1,60}[:\uff1a] *[0-9]{8}\s*")
_UNKNOWN_LANGUAGE = "another language than English"
# Names of the first and last day, the date, users, sessions and views in reports of other languages.
_LANGUAGES = {
    "German": {"enddatum", "aktive nutzer", "nutzer insgesamt", "sitzungen", "aufrufe"},
    "Dutch": {"begindatum", "einddatum", "actieve gebruikers", "totaal aantal gebruikers", "weergaven"},
    "French": {"date de début", "date de fin", "utilisateurs actifs", "nombre total d'utilisateurs", "vues"},
    "Spanish": {"fecha de inicio", "fecha de finalización", "fecha", "usuarios activos", "usuarios totales", "vistas"},
    "Italian": {"data di inizio", "data di fine", "utenti attivi", "utenti totali", "sessioni", "visualizzazioni"},
    "Portuguese": {"data de início", "data de término", "usuários ativos", "total de usuários", "utilizadores ativos"},
    "Polish": {"data rozpoczęcia", "data zakończenia", "aktywni użytkownicy", "sesje"},
    "Swedish": {"slutdatum", "aktiva användare", "totalt antal användare", "sessioner", "visningar"},
    "Danish": {"startdato", "slutdato", "aktive brugere", "visninger"},
    "Turkish": {"başlangıç tarihi", "bitiş tarihi", "etkin kullanıcılar", "oturumlar"},
    "Russian": {"дата начала", "дата", "активные пользователи"},
    "Japanese": {"開始日", "終了日", "日付", "アクティブ ユーザー"},
    "Chinese": {"开始日期", "结束日期", "活跃用户", "開始日期", "結束日期"},
    "Korean": {"시작일", "종료일", "활성 사용자"},
}
_DATE = re.compile(r"([0-9]{4})-?([0-9]{2})-?([0-9]{2})")
_NUMBER = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,18})?", re.ASCII)

Values = Callable[[str], list[tuple[str, str]]]
"""The (field, value) that the text of a dimension becomes."""


def _plain(field: str, convert: Callable[[str], str] = values.label) -> Values:
    return lambda text: [(field, convert(text))]


def _source(text: str) -> list[tuple[str, str]]:
    source, _, medium = text.partition(" / ")
    return [("utm_source", _manual(source)), ("utm_medium", _manual(medium))]


def _manual(text: str) -> str:
    return "" if text.startswith("(") else values.label(text.strip())


def _path(text: str) -> str:
    return values.pathname(text.partition("?")[0])


_DIMENSIONS: dict[str, Values] = {
    "page path": _plain("pathname", _path),
    "page path and screen class": _plain("pathname", _path),
    "page path + query string": _plain("pathname", _path),
    "landing page": _plain("entry_page", _path),
    "landing page + query string": _plain("entry_page", _path),
    "hostname": _plain("hostname"),
    "country": _plain("country", lambda text: CODE_OF_COUNTRY.get(text, "")),
    "country id": _plain("country", values.country),
    "city": _plain("city"),
    "browser": _plain("browser", values.browser),
    "operating system": _plain("os", lambda text: values.system(text)[0]),
    "device category": _plain("device", values.device),
    "event name": _plain("event_name", lambda text: text[: values.MAX_EVENT_NAME]),
    "session source": _plain("utm_source", _manual),
    "session medium": _plain("utm_medium", _manual),
    "session campaign": _plain("utm_campaign", _manual),
    "session source / medium": _source,
}
_VISITORS = ("total users", "users", "active users")
"""The first of these columns that a table has are visitors."""
_METRICS = {"views": "pageviews", "screen page views": "pageviews", "event count": "events", "sessions": "visits"}
_RATE, _DURATION = "bounce rate", "average session duration"
_DAYS = ("date", "nth day")


class _Table:
    """A header: where the day, the dimension and the metrics are. `is_read`: whether its rows have sums."""

    def __init__(self, columns: Sequence[str], first: date | None, last: date | None) -> None:
        self._columns = [column.strip().lower() for column in columns]
        self.width, self._first = len(columns), first
        self._day = next((n for n, name in enumerate(self._columns) if name in _DAYS), -1)
        self._dimensions = [n for n, name in enumerate(self._columns) if name in _DIMENSIONS]
        self._visitors = next((self._columns.index(name) for name in _VISITORS if name in self._columns), -1)
        has_metric = self._visitors >= 0 or any(name in _METRICS for name in self._columns)
        self.is_header = has_metric or self._day >= 0
        is_by_day = self._day >= 0 or (first is not None and first == last)
        known = {self._day, *self._dimensions}
        # The first columns are dimensions: another one divides the rows further.
        others = [n for n, name in enumerate(self._columns) if n not in known and n < max(known, default=0)]
        leading = self._columns[0]
        is_other = not (0 in known or leading in _METRICS or leading in _VISITORS or leading in (_RATE, _DURATION))
        self.is_read = has_metric and is_by_day and len(self._dimensions) <= 1 and not others and not is_other
        if self._day >= 0 and self._columns[self._day] == "nth day" and first is None:
            self.is_read = False

    def sums(self, row: Sequence[str]) -> list[dict[str, Any]] | Skip | Rejection:
        """Return the sums of a row."""
        if not self.is_read:
            return _NO_DAYS
        # It has a field more than the header.
        if row[-1].strip().lower() == "grand total":
            return _TOTALS
        if len(row) != self.width:
            return _BAD_WIDTH
        day = self._date(row)
        if day is None:
            return BAD_DATE
        try:
            figures = self._figures(row)
        except ValueError:
            return _BAD_NUMBER
        if not self._dimensions:
            return [item(day, "total", "", figures)]
        at = self._dimensions[0]
        of_field = _DIMENSIONS[self._columns[at]](row[at].strip())
        if self._columns[at] == "event name":
            if row[at] in _NO_EVENTS:
                return _OF_SESSIONS
            figures = {name: figures[name] for name in ("visitors", "events") if name in figures}
        return [item(day, field, value, figures) for field, value in of_field]

    def _date(self, row: Sequence[str]) -> str | None:
        if self._day < 0:
            return None if self._first is None else self._first.isoformat()
        text = row[self._day].strip()
        if self._columns[self._day] == "nth day":
            is_number = text.isascii() and text.isdecimal() and len(text) <= 5
            return _later(self._first, int(text)) if is_number and self._first else None
        match = _DATE.fullmatch(text)
        return "-".join(match.groups()) if match else None

    def _figures(self, row: Sequence[str]) -> dict[str, int]:
        figures: dict[str, int] = {}
        if self._visitors >= 0:
            figures["visitors"] = round(_number(row[self._visitors]))
        for name, text in zip(self._columns, row, strict=True):
            if name in _METRICS:
                figures[_METRICS[name]] = round(_number(text))
        # "Event count" counts pageviews and sessions too.
        if "event name" not in self._columns:
            figures.pop("events", None)
        if {_RATE, _DURATION} <= set(self._columns) and "visits" in figures:
            rate, seconds = (_number(row[self._columns.index(name)]) for name in (_RATE, _DURATION))
            figures |= {
                "bounces": round(rate * figures["visits"]),
                "duration_ms": round(1_000 * seconds * figures["visits"]),
            }
        return figures


def _later(first: date, days: int) -> str | None:
    try:
        return (first + timedelta(days)).isoformat()
    except OverflowError:
        return None


def _number(text: str) -> float:
    text = text.strip()
    if not _NUMBER.fullmatch(text):
        raise ValueError(text)
    return float(text)


def reader(source: Source, site: Site) -> Reader:
    """Return a reader of rows in JSON or, where the file is CSV, of the sums of a report."""
    first = next(source.blocks(), b"").removeprefix(BOM_UTF8).lstrip()[:1] if source.size else b""
    return GA4Sums(source) if first and first not in b"{[" else GA4(source, site)


class GA4Sums:
    """Reads the rows of a file."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def records(self, start: int) -> Iterator[Record]:
        """Yield (table, fields) of each row of a table. Raises BadFile."""
        return following(self._rows(), start)

    def _rows(self) -> Iterator[Record]:
        table: _Table | None = None
        days: dict[str, date] = {}
        has_table = False
        language = ""
        for raw, size in self._source.lines():
            text = _text(raw)
            if not isinstance(text, str):
                yield text, size, 1
            elif not text or text.startswith("#"):
                language = _language(text, language)
                limit = _LIMIT.fullmatch(text)
                if limit and (day := _of_digits(limit[2])):
                    days[limit[1]] = day
                table = None
                yield None, size, 1
            elif table is None:
                table = _Table(_fields(text), days.get("Start"), days.get("End"))
                language = _language(text, language)
                has_table |= table.is_header and table.is_read
                yield None, size, 1
            else:
                yield (table, _fields(text)), size, 1
        if not has_table and language:
            raise BadFile(
                f"{self._source.name} is a report in {language}: choose English as your language in Google Analytics"
                " (the menu of your user account), and download the report again."
            )
        if not has_table:
            raise BadFile(
                f"{self._source.name} has no table by day: add Date to the report (an exploration), or download a"
                " report of a single day. Besides, it may have one dimension, and users, views, sessions, event count."
            )

    def read(self, value: tuple[_Table, Sequence[str]]) -> Sequence[dict[str, Any] | Skip | Rejection]:
        """Return the sums of a row."""
        sums = value[0].sums(value[1])
        return sums if isinstance(sums, list) else (sums,)


def _text(raw: bytes | None) -> str | Rejection:
    if raw is None:
        return TOO_LONG
    try:
        return raw.decode().strip()
    except UnicodeDecodeError:
        return NOT_UTF_8


def _language(text: str, before: str) -> str:
    """Return the language of a comment or a header that is not English; `before`, that of the lines before, else."""
    words = {word.strip(" #").lower() for word in re.split("[,:\uff1a]", text)}
    is_limit = _OTHER_LIMIT.fullmatch(text) is not None and not _LIMIT.fullmatch(text)
    language = next((name for name, known in _LANGUAGES.items() if words & known), "")
    return language or before or (_UNKNOWN_LANGUAGE if is_limit else "")


def _fields(text: str) -> list[str]:
    """Return the fields of a row; all of it as one field where it is none, because of a carriage return within."""
    try:
        return next(csv.reader([text]), [""])
    except csv.Error:
        return [text]


def _of_digits(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None
