"""Time ranges: parse from, to, interval and tz into timestamps and the bounds of buckets.

Pure: no clock is read (the present is passed in), and only files of the package tzdata are opened. The machine's own
time zone database, which may be older, damaged or missing, is not used: an answer is the same on every machine.

Rules (docs/reference/read-api.md):
- A range is half-open, [from, to), in integer milliseconds. Higher precision is rounded up, which selects the same
  events, because their timestamps are whole milliseconds.
- A day runs from its first existing local time to that of the next existing day: 23, 23.5, 24, 24.5 or 25 hours.
  Where clocks go back over midnight, the repeated end of the old day counts with the new one.
- An hour begins at every full local hour and at every change of the offset from UTC.
- Buckets tile their range without gap or overlap; only the first and the last are cut.
- The name of a zone is looked up in a list before any file is opened. It is case-sensitive.

How it works: zoneinfo returns the offset at a timestamp but not when it changes. `_spans` finds the changes by probing
and bisection and cuts a range into spans of one offset each, in which days and hours are plain arithmetic. Nothing is
cached between calls: probing a year takes 0.2 ms, 365 days of buckets 0.9 ms, 8,760 hours 8 ms.
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

# docs/reference/read-api.md: the years of from and to, the default range, the buckets of a series.
_FIRST_YEAR, _LAST_YEAR = 1970, 2100
_DEFAULT_MS = 7 * DAY_MS
_MAX_BUCKETS = 10_000

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
    """Return the start of a local day, or of the next one where the zone skips the day."""
    number = (day - EPOCH.date()).days
    midnight_ms = number * DAY_MS
    starts = _day_starts(_spans(tz, midnight_ms - _MARGIN_MS, midnight_ms + _MARGIN_MS))
    return next(start for start, offset in starts if (start + offset) // DAY_MS >= number)


def previous(asked: Range) -> tuple[int, int]:
    """Return [from, to) of the previous range: directly before, of the same length or number of local days.

    A skipped day does not count, as it has no row in a series.
    """
    length_ms = asked.to_ms - asked.from_ms
    if asked.days is None:
        return asked.from_ms - length_ms, asked.from_ms
    before_ms = asked.from_ms - length_ms - _MARGIN_MS
    starts = [start for start, _ in _day_starts(_spans(asked.tz, before_ms, asked.to_ms))]
    first = bisect_left(starts, asked.from_ms)
    return starts[first - (len(starts) - first)], asked.from_ms


def buckets(asked: Range, interval: Interval, max_buckets: int = _MAX_BUCKETS) -> list[Bucket]:
    """Return the buckets of a range in order, cut to it. Raises BadTime for more than `max_buckets`."""
    length_ms = asked.to_ms - asked.from_ms
    # No bucket lasts two hours or two days, so this refuses nothing that the exact count below accepts,
    # and bounds the work of that count.
    if length_ms > 2 * max_buckets * (HOUR_MS if interval == "hour" else DAY_MS):
        raise _too_many(interval, max_buckets)
    spans = _spans(asked.tz, asked.from_ms - _MARGIN_MS, asked.to_ms)
    starts = list(_hour_starts(spans) if interval == "hour" else _day_starts(spans))
    del starts[: bisect_right(starts, asked.from_ms, key=itemgetter(0)) - 1]
    if len(starts) > max_buckets:
        raise _too_many(interval, max_buckets)
    edges = [asked.from_ms, *(start for start, _ in starts[1:]), asked.to_ms]
    # Half the time of Bucket(...) for each: a year has 8,760 hours.
    return list(map(tuple.__new__, repeat(Bucket), zip(edges, edges[1:], local_isos(starts), strict=False)))


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


def _hour_starts(spans: list[_Span]) -> Iterator[tuple[int, int]]:
    """Yield (start_ms, offset_ms) of every full local hour, every change of the offset, and the first span."""
    for span in spans:
        into_hour_ms = (span.start_ms + span.offset_ms) % HOUR_MS
        if into_hour_ms:
            yield span.start_ms, span.offset_ms
        for start in range(span.start_ms + -into_hour_ms % HOUR_MS, span.end_ms, HOUR_MS):
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
