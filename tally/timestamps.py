"""Timestamps as text: parse and format ISO 8601.

A timestamp is an integer: milliseconds since 1970-01-01T00:00:00Z, without leap seconds, negative before 1970.
Only that integer is stored and compared. Text is used at the edges (requests, responses, files), and this module has
its only parser and its only formatter.

Rules:
- The parser accepts every form that `datetime.fromisoformat` accepts (week dates, the basic format and more), and
  those of the pattern below. It applies no time zone: `Written` holds what the text contains.
- The pattern, which is tried first because nearly all texts match it: `2026-11-21`, and after a T, a t or one space
  `10:00`, `10:00:30`, `10:00:30.5` or `10:00:30,5` with any number of digits, then nothing, `Z`, `+01:00`, `+0100`,
  `+01`, or `+01:00:30`, which the formatter needs for Liberia before 1972. Hours end at 23, minutes and seconds at 59.
- Text that is no time raises ValueError, whatever was sent.
- The formatter always writes milliseconds and an offset; UTC is `+00:00`.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache

SECOND_MS = 1_000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
# The buckets of quarter-hour totals (tally/rollups/totals.py).
QUARTER_MS = HOUR_MS // 4

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY = EPOCH.toordinal()
_LOCAL_EPOCH = EPOCH.replace(tzinfo=None)
# The years that datetime and ISO 8601's four digits share: 1 to 9999, in UTC.
_EARLIEST_MS = (date.min.toordinal() - _EPOCH_DAY) * DAY_MS
_LATEST_MS = (date.max.toordinal() + 1 - _EPOCH_DAY) * DAY_MS - 1

# The other forms of ISO 8601 that `fromisoformat` accepts. It also accepts what is none: any separator, NUL, `.Z`.
_OTHER_TIME = r"[0-9]{2}(?::?[0-9]{2}(?::?[0-9]{2}(?:[.,][0-9]{1,20})?)?)?"
_OTHER = re.compile(
    r"[0-9]{4}(?:-?[0-9]{2}-?[0-9]{2}|-?[Ww][0-9]{2}(?:-?[0-9])?)"
    rf"(?:[Tt ]{_OTHER_TIME}(?:[Zz]|(?P<sign>[-+ ])[0-9]{{2}}"
    r"(?::?[0-5][0-9](?::?[0-5][0-9](?:[.,][0-9]{1,20})?)?)?)?)?"
)

_UNITS = {"seconds": 1, "milliseconds": 10**3, "microseconds": 10**6, "nanoseconds": 10**9}
_FIRST_S, _END_S = (date(year, 1, 1).toordinal() * 86_400 - _EPOCH_DAY * 86_400 for year in (2000, 2100))
_DIGITS = re.compile(r"[0-9]{1,20}(?:\.[0-9]{1,20})?")

_HOURS = {hour * HOUR_MS: f"T{hour:02}:00:00.000" for hour in range(24)}

_ISO = re.compile(
    r"""
    (?P<day>[0-9]{4}-[0-9]{2}-[0-9]{2})
    (?:
        [Tt\ ](?P<hour>[01][0-9]|2[0-3]):(?P<minute>[0-5][0-9])
        (?: :(?P<second>[0-5][0-9]) (?:[.,](?P<fraction>[0-9]+))? )?
        (?:
            (?P<utc>[Zz])
            | (?P<sign>[-+\ ])(?P<offset_hour>[01][0-9]|2[0-3])
              (?: (?P<colon>:)?(?P<offset_minute>[0-5][0-9])
                  (?(colon)(?: :(?P<offset_second>[0-5][0-9]))?) )?
        )?
    )?
    """,
    re.VERBOSE,
)

_LEAP_SECOND = re.compile(r"([^Tt ]*[Tt ][0-9]{2}:[0-9]{2}):60(.*)")


class BadTime(ValueError):
    """A time, time zone or interval is invalid: the message says what is accepted, `field` names the parameter."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


@dataclass(frozen=True, slots=True)
class Written:
    """What a text contains: a day, and the time of day if it has one. Nothing is filled in."""

    day: date
    second: int | None  # of the day; None where the text is a date alone
    ms: int  # 0 to 999, cut off, not rounded
    finer: bool  # whether the text is more precise than milliseconds
    offset_s: int | None  # east of UTC; None where the text has no offset

    def wall_ms(self) -> int:
        """Return the timestamp of this day and time in UTC, whatever the offset."""
        days = self.day.toordinal() - _EPOCH_DAY
        return days * DAY_MS + (self.second or 0) * SECOND_MS + self.ms


def read_iso(text: str, *, space_is_plus: bool = False) -> Written:
    """Parse a date or a time. Raises ValueError.

    `space_is_plus`: a space in place of an offset's sign is a plus sign that URL decoding has replaced.
    """
    found = _ISO.fullmatch(text)
    if found is None or (found["sign"] == " " and not space_is_plus):
        return _read_other(text, space_is_plus)
    day = date.fromisoformat(found["day"])
    if found["hour"] is None:
        return Written(day, None, 0, False, None)
    second = _seconds(found["hour"], found["minute"], found["second"])
    fraction = found["fraction"] or ""
    ms, finer = int(fraction[:3].ljust(3, "0")), fraction[3:].strip("0") != ""
    return Written(day, second, ms, finer, _offset_s(found))


def _read_other(text: str, space_is_plus: bool) -> Written:
    """Parse the other forms of `fromisoformat`, which cuts off what is more precise than a microsecond."""
    found = _OTHER.fullmatch(text)
    if found is None or (found["sign"] == " " and not space_is_plus):
        raise ValueError("not an ISO 8601 date or time")
    if found["sign"] == " ":
        text = f"{text[: found.start('sign')]}+{text[found.end('sign') :]}"
    try:
        return Written(date.fromisoformat(text), None, 0, False, None)
    except ValueError:
        read = datetime.fromisoformat(text)
    offset = read.utcoffset()
    if offset is not None and offset.microseconds:
        try:
            read, offset = read.astimezone(UTC), timedelta(0)
        except OverflowError:
            raise ValueError("not in the years 1 to 9999") from None
    second = _seconds(str(read.hour), str(read.minute), str(read.second))
    ms, rest = divmod(read.microsecond, 1_000)
    return Written(read.date(), second, ms, rest > 0, None if offset is None else int(offset.total_seconds()))


def _offset_s(found: re.Match[str]) -> int | None:
    if found["utc"]:
        return 0
    if found["sign"] is None:
        return None
    size = _seconds(found["offset_hour"], found["offset_minute"], found["offset_second"])
    return -size if found["sign"] == "-" else size


def _seconds(hour: str, minute: str | None, second: str | None) -> int:
    return int(hour) * 3_600 + int(minute or 0) * 60 + int(second or 0)


def unit_hint(value: object) -> str:
    """Return what a message adds to a refused time that is one of 2000 to 2099 in another unit, or as text; "" if none.

    As milliseconds, seconds of these years are in the first weeks of 1970, microseconds and nanoseconds in no year that
    a date can have.
    """
    number, as_text = value, ""
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        number, as_text = float(value), " as text"
    if isinstance(number, bool) or not isinstance(number, int | float):
        return ""
    for unit, a_second in _UNITS.items():
        if _FIRST_S * a_second <= number < _END_S * a_second and (as_text or unit != "milliseconds"):
            return f" (this looks like {unit}{as_text})"
    return ""


def event_time_ms(value: int | float | str) -> int:
    """Return the milliseconds of an event's `timestamp`. Raises BadTime outside the years 1 to 9999.

    Accepts integer milliseconds (a float only where integral) or ISO 8601; without an offset, UTC. A date alone is
    midnight UTC; precision beyond the millisecond is cut off (docs/reference/collect-api.md).
    """
    ms = _sent_ms(value)
    if ms is None or not _EARLIEST_MS <= ms <= _LATEST_MS:
        raise BadTime(
            "timestamp",
            "timestamp must be a whole number of milliseconds since 1970 or an ISO 8601 time"
            f" such as 2026-11-21T10:00:00.000Z{unit_hint(value)}",
        )
    return ms


def _sent_ms(value: object) -> int | None:
    match value:
        case bool():  # JSON's true is no number, but Python's True is an int
            return None
        case int():
            return value
        case float():
            return int(value) if value.is_integer() else None
        case str():
            try:
                written = read_iso(value)
            except ValueError:
                return _leap_second_ms(value)
            return written.wall_ms() - (written.offset_s or 0) * SECOND_MS
    return None


def _leap_second_ms(text: str) -> int | None:
    """Return the milliseconds of a time in a leap second, 23:59:60 UTC, as those of the second before it, which is the
    last of the same day; None where the text is none."""
    found = _LEAP_SECOND.fullmatch(text)
    ms = _sent_ms(f"{found[1]}:59{found[2]}") if found else None
    return ms if ms is not None and ms % DAY_MS >= DAY_MS - SECOND_MS else None


def iso(ms: int, zone: tzinfo = UTC) -> str:
    """Format a timestamp of the years 1 to 9999 in a time zone: 2026-11-21T00:00:00.000+01:00.

    Takes 1.9 µs, so 2 ms for 1,000 events; series, which know the offset of each bucket, use local_iso.
    """
    # Sum instead of datetime.fromtimestamp: exact, and some platforms refuse negative timestamps.
    return (EPOCH + timedelta(0, 0, 0, ms)).astimezone(zone).isoformat(timespec="milliseconds")


def local_iso(ms: int, offset_ms: int) -> str:
    """Format a timestamp whose UTC offset is known, as iso does, in 0.4 µs on a full hour, else 1.1 µs."""
    day, rest_ms = divmod(ms + offset_ms, DAY_MS)
    if rest_ms in _HOURS:
        return _day_text(day) + _HOURS[rest_ms] + _offset_text(offset_ms)
    local = _LOCAL_EPOCH + timedelta(0, 0, 0, ms + offset_ms)
    return local.isoformat(timespec="milliseconds") + _offset_text(offset_ms)


def local_isos(instants: Iterable[tuple[int, int]]) -> list[str]:
    """Format timestamps with their UTC offsets as local_iso does, in half the time for each of many."""
    hours, of_day = _HOURS.get, _day_text
    return [
        of_day(local_ms // DAY_MS) + hour + _offset_text(offset_ms)
        if (hour := hours((local_ms := ms + offset_ms) % DAY_MS))
        else local_iso(ms, offset_ms)
        for ms, offset_ms in instants
    ]


@lru_cache(maxsize=1_024)  # a series by hours asks for each day 24 times
def _day_text(day: int) -> str:
    return (EPOCH + timedelta(day)).date().isoformat()


@lru_cache(maxsize=256)  # a zone has 2 to 10 offsets, all zones since 1970 fewer than 100
def _offset_text(offset_ms: int) -> str:
    hours, rest = divmod(abs(offset_ms) // SECOND_MS, 3_600)
    minutes, seconds = divmod(rest, 60)
    text = f"{'-' if offset_ms < 0 else '+'}{hours:02}:{minutes:02}"
    return f"{text}:{seconds:02}" if seconds else text


def in_words(ms: int) -> str:
    """A length of time in words: the two largest units."""
    minutes = (abs(ms) + 30_000) // 60_000
    if minutes < 60:
        return f"{minutes} min" if minutes else "less than a minute"
    days, hours = divmod(minutes // 60, 24)
    return f"{days} d {hours} h" if days else f"{hours} h {minutes % 60} min"
