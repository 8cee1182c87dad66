"""Ranges of time: from, to, interval and tz of a question become instants and the edges of buckets.

Pure: no clock is read here (now comes in), and only files of the package tzdata are ever opened. The machine's own time
zone database, which may be older, damaged or missing, plays no part: an answer is the same on every machine.

Rules (CONTRACT.md, Read API):
- A range is half-open, [from, to), in integer milliseconds. Precision beyond that is rounded up, which among
  events of whole milliseconds finds exactly those that were asked for.
- A day runs from its first existing local instant to the next existing day's: 23, 23.5, 24, 24.5 or 25 hours.
  Where clocks go back over midnight, the repeated end of the old day counts with the new one.
- An hour begins at every full local hour and at every change of the offset from UTC.
- Buckets tile their range without gap or overlap; only the first and the last are cut.
- A zone's name is looked up in a list before it comes near a file system. Case counts.

How: zoneinfo tells the offset of an instant but not when it changes. `_spans` probes and bisects, and so cuts
a stretch of time into spans of one offset each, in which days and hours are plain arithmetic. Nothing is kept
between calls: probing a year costs 0.2 ms, 365 days of buckets 0.9 ms, 8,760 hours 8 ms.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from functools import cache
from importlib.resources import files
from itertools import repeat
from operator import itemgetter
from typing import Literal, NamedTuple
from zoneinfo import ZoneInfo

from tally.timestamps import DAY_MS, EPOCH, HOUR_MS, SECOND_MS, BadTime, Written, local_isos, read_iso

Interval = Literal["day", "hour"]

_FIRST_YEAR, _LAST_YEAR = 1970, 2100  # contract: from, to
_DEFAULT_MS = 7 * DAY_MS  # seed: the last 7 days
_MOST_BUCKETS = 10_000  # contract: timeseries

# Shorter than any spell of an offset, or a change and its undoing would hide between two probes. The shortest
# since 1970 last 7 days less an hour (Boa Vista 2000, Gaza 2040); test_timerange looks at all zones.
_PROBE_S = 2 * DAY_MS // SECOND_MS
# Reaches from any instant past the beginning of its local day, whatever the clocks do, even leave out a day.
_MARGIN_MS = 3 * DAY_MS
_DAMAGED = "the zones of the package tzdata cannot be read: install it again, `pip install --force-reinstall tzdata`"


class ZoneDataError(ValueError):
    """The time zone data cannot be read; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Range:
    """What a question asks about: [from_ms, to_ms), with from_ms < to_ms, seen in tz."""

    from_ms: int
    to_ms: int
    tz: ZoneInfo
    days: tuple[date, date] | None  # first and last local day, where both ends were given as dates alone


class Bucket(NamedTuple):
    """One row of a series: [from_ms, to_ms) lies in the range, `time` is the bucket's own local start."""

    from_ms: int
    to_ms: int
    time: str


@dataclass(frozen=True, slots=True)
class _Span:
    """A stretch of time with one offset from UTC."""

    start_ms: int
    end_ms: int
    offset_ms: int


def zone(name: str) -> ZoneInfo:
    """Give the IANA time zone of this exact name; BadTime for every other text."""
    if name not in zone_names():
        raise BadTime("tz", "tz must be the exact name of an IANA time zone, such as Europe/Berlin or UTC")
    return _loaded(name)


@cache
def zone_names() -> frozenset[str]:
    """Give the names that `zone` takes, about 600."""
    try:
        names = files("tzdata").joinpath("zones").read_text("ascii").split()
    except (ImportError, OSError, ValueError) as failure:
        raise ZoneDataError(_DAMAGED) from failure
    # Factory is the name of no zone.
    return frozenset(names) - {"Factory"}


@cache  # at most one entry a name in the list; nobody else keeps what was read from a file
def _loaded(name: str) -> ZoneInfo:
    try:
        with files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as source:
            return ZoneInfo.from_file(source, key=name)
    except Exception as failure:  # noise fails in many ways
        raise ZoneDataError(_DAMAGED) from failure


def parse_range(raw_from: str | None, raw_to: str | None, tz_name: str | None, now_ms: int) -> Range:
    """Read the parameters from, to and tz, None where one was not sent; BadTime names the one to blame."""
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
    """The same for what is told by whole days: from and to are dates, the last one is today where it is not sent."""
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
        raise BadTime(field, f"{field} is a date here, such as 2026-11-01: this is told by whole days (of tz)")
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
    # Without fold, zoneinfo takes the first of two, and in a gap the offset before it: forward by its length.
    # Asked for the whole second: rounding up may reach the change of the clock, and must not read beyond it.
    local = datetime.combine(written.day, time(), tz) + timedelta(seconds=written.second)
    return (local - EPOCH) // timedelta(milliseconds=1) + written.ms + rounded_up


def _end_ms(written: Written, tz: ZoneInfo) -> int:
    if written.second is None:
        return _day_start_ms(written.day + timedelta(days=1), tz)
    return _start_ms(written, tz)


def _day_start_ms(day: date, tz: ZoneInfo) -> int:
    """Give the first instant of a local day, or of the next one where the day does not exist."""
    number = (day - EPOCH.date()).days
    midnight_ms = number * DAY_MS
    starts = _day_starts(_spans(tz, midnight_ms - _MARGIN_MS, midnight_ms + _MARGIN_MS))
    return next(start for start, offset in starts if (start + offset) // DAY_MS >= number)


def previous(asked: Range) -> tuple[int, int]:
    """Give [from, to) of the range to compare with: just before, of equal length, or of as many local days.

    A day that does not exist counts as none, just as it has no row in a series.
    """
    length_ms = asked.to_ms - asked.from_ms
    if asked.days is None:
        return asked.from_ms - length_ms, asked.from_ms
    before_ms = asked.from_ms - length_ms - _MARGIN_MS
    starts = [start for start, _ in _day_starts(_spans(asked.tz, before_ms, asked.to_ms))]
    first = bisect_left(starts, asked.from_ms)
    return starts[first - (len(starts) - first)], asked.from_ms


def buckets(asked: Range, interval: Interval, most: int = _MOST_BUCKETS) -> list[Bucket]:
    """Give the buckets of a range in order, cut to it; BadTime where they are more than `most`."""
    length_ms = asked.to_ms - asked.from_ms
    # No bucket lasts two hours or two days, so this refuses nothing that the count below would take,
    # and leaves it at most about twice too much to count.
    if length_ms > 2 * most * (HOUR_MS if interval == "hour" else DAY_MS):
        raise _too_many(interval, most)
    spans = _spans(asked.tz, asked.from_ms - _MARGIN_MS, asked.to_ms)
    starts = list(_hour_starts(spans) if interval == "hour" else _day_starts(spans))
    del starts[: bisect_right(starts, asked.from_ms, key=itemgetter(0)) - 1]
    if len(starts) > most:
        raise _too_many(interval, most)
    edges = [asked.from_ms, *(start for start, _ in starts[1:]), asked.to_ms]
    # As Bucket(...) does, in half the time: a year has 8,760 hours.
    return list(map(tuple.__new__, repeat(Bucket), zip(edges, edges[1:], local_isos(starts), strict=False)))


def _too_many(interval: Interval, most: int) -> BadTime:
    wider = " or ask for interval=day" if interval == "hour" else ""
    return BadTime("interval", f"more than {most} buckets by {interval}: move from and to closer together{wider}")


def _day_starts(spans: list[_Span]) -> Iterator[tuple[int, int]]:
    """Give (instant, offset) of every local day's beginning, but not of the day under way at the edge."""
    latest = (spans[0].start_ms + spans[0].offset_ms) // DAY_MS
    for span in spans:
        last = (span.end_ms - 1 + span.offset_ms) // DAY_MS
        first = max(latest + 1, (span.start_ms + span.offset_ms) // DAY_MS)
        for day in range(first, last + 1):
            yield max(span.start_ms, day * DAY_MS - span.offset_ms), span.offset_ms
        latest = max(latest, last)


def _hour_starts(spans: list[_Span]) -> Iterator[tuple[int, int]]:
    """Give (instant, offset) of every full local hour, every change of the offset, and the edge."""
    for span in spans:
        into_hour_ms = (span.start_ms + span.offset_ms) % HOUR_MS
        if into_hour_ms:
            yield span.start_ms, span.offset_ms
        for start in range(span.start_ms + -into_hour_ms % HOUR_MS, span.end_ms, HOUR_MS):
            yield start, span.offset_ms


def _spans(tz: ZoneInfo, from_ms: int, to_ms: int) -> list[_Span]:
    """Cut [from_ms, to_ms) into spans of one offset each. Every known change lies on a whole second."""
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
    """Give the second of a change away from `offset`, which holds at `same` and no more at `other`."""
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
