"""Time ranges: parse from, to, interval and tz into timestamps and the bounds of buckets.

Pure: no clock is read (the present is passed in), and only files of the package tzdata are opened. The machine's own
time zone database, which may be older, damaged or missing, is not used: an answer is the same on every machine.

Rules (docs/reference/read-api.md):
- A range is half-open, [from, to), in integer milliseconds. Higher precision is rounded up, which selects the same
  events, because their timestamps are whole milliseconds.
- A day runs from its first existing local time to that of the next existing day: 23, 23.5, 24, 24.5 or 25 hours.
  Where clocks go back over midnight, the repeated end of the old day counts with the new one.
- An hour begins at every full local hour and at every change of the offset from UTC; a minute likewise.
- A week begins with the first existing day from Monday (or Sunday) on, a month with its first existing day.
- Buckets tile their range without gap or overlap; only the first and the last are cut.
- The name of a zone is looked up in a list before any file is opened. It is case-sensitive.

How it works: zoneinfo returns the offset at a timestamp but not when it changes. `_spans` finds the changes by probing
and bisection and cuts a range into spans of one offset each, in which days and hours are plain arithmetic. Weeks and
months are counted in the calendar, and the offset is looked up at their first days. Nothing is cached between calls:
probing a year takes 0.2 ms, 365 days of buckets 0.9 ms, 8,760 hours 8 ms, 131 years by month 15 ms.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from functools import cache
from importlib.resources import files
from itertools import repeat
from operator import itemgetter
from typing import Literal, NamedTuple
from zoneinfo import ZoneInfo

from tally.timestamps import DAY_MS, EPOCH, HOUR_MS, MINUTE_MS, SECOND_MS, BadTime, Written, local_isos, read_iso

Interval = Literal["minute", "hour", "day", "week", "month"]
INTERVALS: tuple[Interval, ...] = ("minute", "hour", "day", "week", "month")
WeekStart = Literal["monday", "sunday"]
WEEK_STARTS: tuple[WeekStart, ...] = ("monday", "sunday")
PERIODS = ("today", "yesterday", "7d", "28d", "30d", "90d", "6mo", "12mo", "month", "year", "all")

# docs/reference/read-api.md: the years of from and to, the default range, the buckets of a series.
_FIRST_YEAR, _LAST_YEAR = 1970, 2100
# More than a zone's offset changes otherwise, and less than across the date line.
_ACROSS = timedelta(hours=20)
_DEFAULT_MS = 7 * DAY_MS
_MAX_BUCKETS = 10_000
_MAX_MINUTES_MS = DAY_MS
# No bucket is longer, but for a week or month of a zone that skips a day, or a day with a change of the clock.
_LENGTHS_MS: dict[Interval, int] = {
    "minute": MINUTE_MS,
    "hour": HOUR_MS,
    "day": DAY_MS,
    "week": 7 * DAY_MS,
    "month": 31 * DAY_MS,
}

# Shorter than any offset lasts, or a change and its reversal between two probes would be missed. The shortest
# since 1970 last 7 days less an hour (Boa Vista 2000, Gaza 2040); test_timerange looks at all zones.
_PROBE_S = 2 * DAY_MS // SECOND_MS
# From any time this reaches past the start of its local day, even where a zone skips a day.
_MARGIN_MS = 3 * DAY_MS
_DAMAGED = "the zones of the package tzdata cannot be read: install it again, `pip install --force-reinstall tzdata`"


class ZoneDataError(ValueError):
    """The time zone data cannot be read; the message says how to fix it."""


@dataclass(frozen=True, slots=True)
class Range:
    """The range of a query: [from_ms, to_ms), with from_ms < to_ms, in the time zone tz."""

    from_ms: int
    to_ms: int
    tz: ZoneInfo
    days: tuple[date, date] | None  # first and last local day, where both ends were given as dates alone


class Bucket(NamedTuple):
    """One row of a series: [from_ms, to_ms) within the range; `time` is the local start of the uncut bucket."""

    from_ms: int
    to_ms: int
    time: str


@dataclass(frozen=True, slots=True)
class _Span:
    """A period with one offset from UTC."""

    start_ms: int
    end_ms: int
    offset_ms: int


def zone(name: str) -> ZoneInfo:
    """Return the IANA time zone of exactly this name. Raises BadTime."""
    if name not in zone_names():
        raise BadTime("tz", "tz must be the exact name of an IANA time zone, such as Europe/Berlin or UTC")
    return _loaded(name)


def standard_offset_minutes(name: str, now_ms: int) -> int:
    """Return the minutes from UTC to a zone's standard time in the year of a time, in whole quarter hours.

    That is the smaller of the offsets of January and July. Raises BadTime.
    """
    year, tz = (EPOCH + timedelta(milliseconds=now_ms)).year, zone(name)
    offsets = (datetime(year, month, 1, tzinfo=tz).utcoffset() or timedelta() for month in (1, 7))
    return min(offsets) // timedelta(minutes=15) * 15


@cache
def zone_names() -> frozenset[str]:
    """Return the names that `zone` accepts, about 600."""
    try:
        names = files("tzdata").joinpath("zones").read_text("ascii").split()
    except (ImportError, OSError, ValueError) as failure:
        raise ZoneDataError(_DAMAGED) from failure
    # "Factory" is a placeholder of tzdata, not a zone.
    return frozenset(names) - {"Factory"}


@cache  # at most one entry per name of the list; from_file itself does not cache
def _loaded(name: str) -> ZoneInfo:
    try:
        with files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as source:
            return ZoneInfo.from_file(source, key=name)
    except Exception as failure:  # a damaged file raises many types
        raise ZoneDataError(_DAMAGED) from failure


def parse_range(raw_from: str | None, raw_to: str | None, tz_name: str | None, now_ms: int) -> Range:
    """Parse the parameters from, to and tz (None if not sent). Raises BadTime, which names the invalid one."""
    tz = zone("UTC" if tz_name is None else tz_name)
    first = None if raw_from is None else _read("from", raw_from)
    last = None if raw_to is None else _read("to", raw_to)
    to_ms = now_ms if last is None else _end_ms(last, tz)
    from_ms = to_ms - _DEFAULT_MS if first is None else _start_ms(first, tz)
    if from_ms >= to_ms:
        raise BadTime("from", "from must lie before to, and before now where to is left out")
    if first is None or last is None or first.second is not None or last.second is not None:
        return Range(from_ms, to_ms, tz, None)
    return Range(from_ms, to_ms, tz, (first.day, last.day))


def parse_days(raw_from: str | None, raw_to: str | None, tz_name: str | None, now_ms: int) -> Range:
    """Parse the parameters of a report by whole days: from and to are dates; `to` defaults to today."""
    tz = zone("UTC" if tz_name is None else tz_name)
    first = None if raw_from is None else _read_day("from", raw_from)
    last = _today(tz, now_ms) if raw_to is None else _read_day("to", raw_to)
    if first is None:
        first = last - timedelta(days=_DEFAULT_MS // DAY_MS - 1)
    from_ms, to_ms = _day_start_ms(first, tz), _day_start_ms(last + timedelta(days=1), tz)
    if from_ms >= to_ms:
        raise BadTime("from", "from must not lie behind to, nor behind today where to is left out")
    return Range(from_ms, to_ms, tz, (first, last))


def _read_day(field: str, raw: str) -> date:
    written = _read(field, raw)
    if written.second is not None:
        raise BadTime(field, f"{field} is a date here, such as 2026-11-01: this report is by whole days (of tz)")
    return written.day


def _today(tz: ZoneInfo, now_ms: int) -> date:
    return (EPOCH + timedelta(milliseconds=now_ms)).astimezone(tz).date()


def _read(field: str, raw: str) -> Written:
    try:
        written = read_iso(raw, space_is_plus=True)
    except ValueError:
        written = None
    if written is None or not _FIRST_YEAR <= written.day.year <= _LAST_YEAR:
        raise BadTime(
            field,
            f"{field} must be an ISO 8601 date or time of the years {_FIRST_YEAR} to {_LAST_YEAR},"
            " such as 2026-11-01, 2026-11-01T10:00:00 (in tz) or 2026-11-01T10:00:00+01:00",
        )
    return written


def _start_ms(written: Written, tz: ZoneInfo) -> int:
    if written.second is None:
        return _day_start_ms(written.day, tz)
    rounded_up = 1 if written.finer else 0
    if written.offset_s is not None:
        return written.wall_ms() - written.offset_s * SECOND_MS + rounded_up
    # Without fold, zoneinfo uses the first of two equal local times, and in a gap the offset before the gap.
    # Looked up at the whole second: rounding up may reach a clock change and must not use the offset after it.
    local = datetime.combine(written.day, time(), tz) + timedelta(seconds=written.second)
    return (local - EPOCH) // timedelta(milliseconds=1) + written.ms + rounded_up


def _end_ms(written: Written, tz: ZoneInfo) -> int:
    if written.second is None:
        return _day_start_ms(written.day + timedelta(days=1), tz)
    return _start_ms(written, tz)


def _day_start_ms(day: date, tz: ZoneInfo) -> int:
    return _day_start(day, tz)[0]


def _day_start(day: date, tz: ZoneInfo) -> tuple[int, int]:
    """Return (start_ms, offset_ms) of a local day, or of the next one where the zone skips the day."""
    number = (day - EPOCH.date()).days
    midnight_ms = number * DAY_MS
    before, after = (_offset(tz, (midnight_ms + side_ms) // SECOND_MS) for side_ms in (-DAY_MS, DAY_MS))
    if before == after:
        # No offset lasts shorter than the time between these two, and none is longer than a day.
        offset_ms = before // timedelta(milliseconds=1)
        return midnight_ms - offset_ms, offset_ms
    starts = _day_starts(_spans(tz, midnight_ms - _MARGIN_MS, midnight_ms + _MARGIN_MS))
    return next((start, offset) for start, offset in starts if (start + offset) // DAY_MS >= number)


def passed(requested: Range, now_ms: int) -> int | None:
    """Return the end of the part of a range that has passed, a full minute; None where it is over or has not begun.

    By the minute, so that an answer and its ETag hold for one.
    """
    if not requested.from_ms <= now_ms < requested.to_ms:
        return None
    return min((now_ms // MINUTE_MS + 1) * MINUTE_MS, requested.to_ms)


def whole_days(from_ms: int, to_ms: int, tz: ZoneInfo) -> tuple[int, int]:
    """Return [from, to) of the whole local days in a range; empty where there are none."""
    start_ms = _day_start_ms(_today(tz, from_ms), tz)
    if start_ms < from_ms:
        start_ms = _day_start_ms(_today(tz, from_ms) + timedelta(days=1), tz)
    return start_ms, max(start_ms, _day_start_ms(_today(tz, to_ms), tz))


def previous(requested: Range, until_ms: int | None = None) -> tuple[int, int]:
    """Return [from, to) of the previous range: directly before, of the same length or number of local days.

    A skipped day does not count, as it has no row in a series. `until_ms`, here and below: a time of the requested
    range; the other one then ends with the same local time of its day that belongs to it.
    """
    length_ms = requested.to_ms - requested.from_ms
    if requested.days is None:
        to_ms = requested.to_ms if until_ms is None else until_ms
        return requested.from_ms - length_ms, to_ms - length_ms
    skipped = _skipped_days(requested.tz)
    first, last = requested.days
    count = (last - first).days + 1 - sum(first <= day <= last for day in skipped)

    def earlier(day: date) -> date:
        while day in skipped:
            day -= timedelta(days=1)
        moved = day - timedelta(days=count)
        for one in reversed(skipped):
            if moved <= one < day:
                moved -= timedelta(days=1)
        return moved

    from_ms = _day_start_ms(earlier(_today(requested.tz, requested.from_ms)), requested.tz)
    return _until(requested, until_ms, earlier, from_ms, requested.from_ms)


@cache  # at most one entry per zone
def _skipped_days(tz: ZoneInfo) -> tuple[date, ...]:
    """Return the local days that a zone skipped when it moved across the date line, oldest first.

    It stays on the other side: offsets are compared year by year, not day by day.
    """
    found = []
    for year in range(2 * _FIRST_YEAR - _LAST_YEAR, _LAST_YEAR + 1):
        same, other = ((date(y, 1, 1) - EPOCH.date()).days * (DAY_MS // SECOND_MS) for y in (year, year + 1))
        before = _offset(tz, same)
        if _offset(tz, other) - before < _ACROSS:
            continue
        while other - same > 1:
            middle = (same + other) // 2
            same, other = (same, middle) if _offset(tz, middle) - before >= _ACROSS else (middle, other)
        reached = EPOCH + timedelta(seconds=other) + _offset(tz, same)
        found.append(reached.date())
    return tuple(found)


def shifted_weeks(requested: Range, by_year: bool = False, until_ms: int | None = None) -> tuple[int, int]:
    """Return [from, to) moved back by whole weeks of local time: as few as clear the range, or 52."""
    weeks = 52 if by_year else _weeks_of(requested)
    return _moved(requested, lambda day: day - timedelta(weeks=weeks), until_ms)


def year_before(requested: Range, until_ms: int | None = None) -> tuple[int, int]:
    """Return [from, to) moved back by one year of local time; 29 February becomes 28 February."""
    return _moved(requested, _a_year_before, until_ms)


def _a_year_before(day: date) -> date:
    is_leap_day = (day.month, day.day) == (2, 29)
    return day.replace(year=day.year - 1, day=28 if is_leap_day else day.day)


def _weeks_of(requested: Range) -> int:
    """Return by how many weeks of local time, as few as possible, a range is moved back without an overlap."""
    if requested.days is not None:
        return -(-((requested.days[1] - requested.days[0]).days + 1) // 7)
    # Clock changes make the local time longer or shorter than these.
    weeks = max(1, (requested.to_ms - requested.from_ms) // (7 * DAY_MS))
    while _weeks_before(requested.to_ms, requested.tz, weeks) > requested.from_ms:
        weeks += 1
    return weeks


def _weeks_before(ms: int, tz: ZoneInfo, weeks: int) -> int:
    return _same_local_time(ms, tz, lambda day: day - timedelta(weeks=weeks))


def _moved(requested: Range, move: Callable[[date], date], until_ms: int | None) -> tuple[int, int]:
    """Return a range with other local days and the same local times; as long as the requested one where it would be
    empty, because the clock went back within that one, or forward on the other day."""
    if requested.days is not None:
        first, last = map(move, requested.days)
        from_ms, to_ms = _day_start_ms(first, requested.tz), _day_start_ms(last + timedelta(days=1), requested.tz)
    else:
        from_ms, to_ms = (_same_local_time(ms, requested.tz, move) for ms in (requested.from_ms, requested.to_ms))
    if from_ms >= to_ms:
        return from_ms, from_ms + (requested.to_ms if until_ms is None else until_ms) - requested.from_ms
    return _until(requested, until_ms, move, from_ms, to_ms)


def _until(
    requested: Range, until_ms: int | None, move: Callable[[date], date], from_ms: int, to_ms: int
) -> tuple[int, int]:
    """Return a range that ends with the local time of `until_ms` on the day to which `move` moves its day."""
    if until_ms is None:
        return from_ms, to_ms
    # Of the last millisecond: the end of a day is a time of the next one.
    end_ms = _same_local_time(until_ms - 1, requested.tz, move) + 1
    return from_ms, min(max(end_ms, from_ms + 1), to_ms)


def _same_local_time(ms: int, tz: ZoneInfo, move: Callable[[date], date]) -> int:
    local = (EPOCH + timedelta(milliseconds=ms)).astimezone(tz)
    moved = datetime.combine(move(local.date()), local.time().replace(fold=0), tz)
    return (moved - EPOCH) // timedelta(milliseconds=1)


def period_range(period: str, tz_name: str, now_ms: int, first_ms: int | None = None) -> Range:
    """Return the local days of one of PERIODS. They end with today, but for `yesterday`.

    first_ms: the time with which `all` begins.
    """
    tz = zone(tz_name)
    last = today = _today(tz, now_ms)
    month = today.replace(day=1)
    if period == "yesterday":
        first = last = today - timedelta(days=1)
    elif period == "all":
        first = min(today, today if first_ms is None else _today(tz, first_ms))
    elif period.endswith("d"):
        first = today - timedelta(days=int(period[:-1]) - 1)
    elif period.endswith("mo"):
        months = 12 * month.year + month.month - 1 - (int(period[:-2]) - 1)
        first = date(months // 12, months % 12 + 1, 1)
    else:
        first = {"today": today, "month": month, "year": month.replace(month=1)}[period]
    from_ms, to_ms = _day_start_ms(first, tz), _day_start_ms(last + timedelta(days=1), tz)
    return Range(from_ms, to_ms, tz, (first, last))


def buckets(
    requested: Range, interval: Interval, max_buckets: int = _MAX_BUCKETS, week_start: WeekStart = "monday"
) -> list[Bucket]:
    """Return the buckets of a range in order, cut to it. Raises BadTime for more than `max_buckets`."""
    length_ms = requested.to_ms - requested.from_ms
    if interval == "minute" and length_ms > _MAX_MINUTES_MS:
        raise BadTime("interval", "interval=minute takes a range of at most 24 hours")
    # No bucket lasts twice as long, so this refuses nothing that the exact count below accepts, and bounds the work
    # of that count.
    if length_ms > 2 * max_buckets * _LENGTHS_MS[interval]:
        raise _too_many(interval, max_buckets)
    starts = list(_starts(requested, interval, week_start))
    del starts[: bisect_right(starts, requested.from_ms, key=itemgetter(0)) - 1]
    if len(starts) > max_buckets:
        raise _too_many(interval, max_buckets)
    edges = [requested.from_ms, *(start for start, _ in starts[1:]), requested.to_ms]
    # Half the time of Bucket(...) for each: a year has 8,760 hours.
    return list(map(tuple.__new__, repeat(Bucket), zip(edges, edges[1:], local_isos(starts), strict=False)))


def _starts(requested: Range, interval: Interval, week_start: WeekStart) -> Iterator[tuple[int, int]]:
    """Yield (start_ms, offset_ms) of every bucket that begins in a range, of that in which it begins, and perhaps of
    earlier ones."""
    if interval in ("week", "month"):
        return _calendar_starts(requested, interval, week_start)
    spans = _spans(requested.tz, requested.from_ms - _LENGTHS_MS[interval] - _MARGIN_MS, requested.to_ms)
    return _day_starts(spans) if interval == "day" else _clock_starts(spans, _LENGTHS_MS[interval])


def _calendar_starts(requested: Range, interval: Interval, week_start: WeekStart) -> Iterator[tuple[int, int]]:
    day = _today(requested.tz, requested.from_ms)
    is_month, into_week = interval == "month", (day.weekday() + (week_start == "sunday")) % 7
    day = day.replace(day=1) if is_month else day - timedelta(into_week)
    while (start := _day_start(day, requested.tz))[0] < requested.to_ms:
        yield start
        day = (day + timedelta(31)).replace(day=1) if is_month else day + timedelta(7)


def _too_many(interval: Interval, max_buckets: int) -> BadTime:
    wider = " or ask for interval=day" if interval == "hour" else ""
    return BadTime(
        "interval", f"more than {max_buckets} buckets by {interval}: move from and to closer together{wider}"
    )


def _day_starts(spans: list[_Span]) -> Iterator[tuple[int, int]]:
    """Yield (start_ms, offset_ms) of every local day that begins in the spans."""
    latest = (spans[0].start_ms + spans[0].offset_ms) // DAY_MS
    for span in spans:
        last = (span.end_ms - 1 + span.offset_ms) // DAY_MS
        first = max(latest + 1, (span.start_ms + span.offset_ms) // DAY_MS)
        for day in range(first, last + 1):
            yield max(span.start_ms, day * DAY_MS - span.offset_ms), span.offset_ms
        latest = max(latest, last)


def _clock_starts(spans: list[_Span], length_ms: int) -> Iterator[tuple[int, int]]:
    """Yield (start_ms, offset_ms) of each full local hour or minute, each change of the offset, and the first span."""
    for span in spans:
        into_ms = (span.start_ms + span.offset_ms) % length_ms
        if into_ms:
            yield span.start_ms, span.offset_ms
        for start in range(span.start_ms + -into_ms % length_ms, span.end_ms, length_ms):
            yield start, span.offset_ms


def _spans(tz: ZoneInfo, from_ms: int, to_ms: int) -> list[_Span]:
    """Cut [from_ms, to_ms) into spans of one offset each. All changes in tzdata are at whole seconds."""
    spans = []
    start_ms, offset = from_ms, _offset(tz, from_ms // SECOND_MS)
    probe, end = from_ms // SECOND_MS, -(-to_ms // SECOND_MS)
    while probe < end:
        ahead = min(probe + _PROBE_S, end)
        if _offset(tz, ahead) != offset:
            ahead = _first_other(tz, offset, probe, ahead)
            spans.append(_span(start_ms, ahead * SECOND_MS, offset))
            start_ms, offset = ahead * SECOND_MS, _offset(tz, ahead)
        probe = ahead
    if start_ms < to_ms:
        spans.append(_span(start_ms, to_ms, offset))
    return spans


def _first_other(tz: ZoneInfo, offset: timedelta, same: int, other: int) -> int:
    """Return the second at which the offset changes: it is `offset` at `same` and another at `other`."""
    while other - same > 1:
        middle = (same + other) // 2
        if _offset(tz, middle) == offset:
            same = middle
        else:
            other = middle
    return other


def _span(start_ms: int, end_ms: int, offset: timedelta) -> _Span:
    return _Span(start_ms, end_ms, offset // timedelta(milliseconds=1))


def _offset(tz: ZoneInfo, second: int) -> timedelta:
    local = (EPOCH + timedelta(0, second)).astimezone(tz)
    return local.utcoffset() or timedelta(0)
