"""The periods of summaries: a day, a week or a month of a time zone, and when the summary of each is due.

The bounds are days of the calendar of the zone, of which the weekday is read afterwards, so that a week begins on its
day in every zone. A summary is due at a full local hour of the day after its period. An hour that the clocks skip is
the next one that exists; one that exists twice counts once; a day that the zone skipped has no summary.
"""

from collections.abc import Iterator
from datetime import date, datetime, timedelta
from typing import Literal, NamedTuple
from zoneinfo import ZoneInfo

from tally.timeranges import WeekStart
from tally.timestamps import DAY_MS, EPOCH, HOUR_MS

Period = Literal["day", "week", "month"]
PERIODS: tuple[Period, ...] = ("day", "week", "month")
# How late a summary may be sent, after the server was down.
LATE_MS: dict[Period, int] = {"day": 12 * HOUR_MS, "week": 3 * DAY_MS, "month": 7 * DAY_MS}
_MAX_DAYS = 40


class Days(NamedTuple):
    """The first and last day of a period."""

    first: date
    last: date


def days_before(period: Period, day: date, week_start: WeekStart = "monday") -> Days:
    """Return the last period that is over at the begin of a day."""
    begin = _begin(period, day, week_start)
    last = begin - timedelta(days=1)
    return Days(_begin(period, last, week_start), last)


def _begin(period: Period, day: date, week_start: WeekStart) -> date:
    """Return the first day of the period that a day lies in."""
    if period == "day":
        return day
    if period == "month":
        return day.replace(day=1)
    return day - timedelta(days=(day.weekday() + (week_start == "sunday")) % 7)


def next_due_ms(period: Period, hour: int, tz: ZoneInfo, after_ms: int, week_start: WeekStart = "monday") -> int:
    """Return when the next summary is due, later than a time."""
    return next(due_ms for due_ms in _due(period, hour, tz, _local_day(after_ms, tz), week_start) if due_ms > after_ms)


def last_due_ms(period: Period, hour: int, tz: ZoneInfo, until_ms: int, week_start: WeekStart = "monday") -> int:
    """Return when the last summary was due, at a time or before."""
    begin = _local_day(until_ms, tz) - timedelta(days=_MAX_DAYS)
    found = 0
    for due_ms in _due(period, hour, tz, begin, week_start):
        if due_ms > until_ms:
            break
        found = due_ms
    return found


def local_day(ms: int, tz: ZoneInfo) -> date:
    """Return the local day of a time."""
    return _local(ms, tz).date()


def _local_day(ms: int, tz: ZoneInfo) -> date:
    # A day earlier: an hour that is skipped may be of the day before.
    return local_day(ms, tz) - timedelta(days=1)


def _local(ms: int, tz: ZoneInfo) -> datetime:
    return (EPOCH + timedelta(milliseconds=ms)).astimezone(tz)


def _due(period: Period, hour: int, tz: ZoneInfo, day: date, week_start: WeekStart) -> Iterator[int]:
    """Yield when the summaries of periods are due that end at a day or later."""
    for number in range(2 * _MAX_DAYS):
        one = day + timedelta(days=number)
        if _begin(period, one, week_start) == one:
            due_ms = _ms(one, hour, tz)
            if local_day(due_ms, tz) == one:
                yield due_ms


def _ms(day: date, hour: int, tz: ZoneInfo) -> int:
    """Return the time of a local hour, or of the next one that exists."""
    local = datetime(day.year, day.month, day.day, hour, tzinfo=tz)
    ms = (local - EPOCH) // timedelta(milliseconds=1)
    found = _local(ms, tz)
    if found.replace(tzinfo=None) == local.replace(tzinfo=None):
        return ms
    # In a gap zoneinfo has the offset before it, with which the time lies behind the gap, at most as far as it is long.
    behind = found.replace(minute=0, second=0, microsecond=0)
    return ms if behind == found else (behind + timedelta(hours=1) - EPOCH) // timedelta(milliseconds=1)
