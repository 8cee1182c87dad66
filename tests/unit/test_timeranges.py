"""tally/timestamps.py and tally/timeranges.py: tables computed by hand, and a walk over every minute as reference.

The rules are in docs/reference/read-api.md, Ranges and Time series, and docs/reference/collect-api.md, Fields. UTC
instants are written out, so that no table depends on the code that it checks.
"""

import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from importlib.resources import files
from itertools import pairwise
from typing import Any, Literal
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from tally import timeranges
from tally.timeranges import (
    Bucket,
    Range,
    buckets,
    parse_range,
    passed,
    period_range,
    previous,
    shifted_weeks,
    year_before,
    zone,
    zone_names,
)
from tally.timestamps import BadTime, event_time_ms, iso, local_iso
from tests.support.cases import cases
from tests.support.selection import examples

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
NOW = "2026-11-18T12:00:00.250"


def ms(utc: str) -> int:
    """Milliseconds of a UTC time written without an offset."""
    return (datetime.fromisoformat(utc).replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(
        milliseconds=1
    )


def range_of(raw_from: str | None, raw_to: str | None, tz: str | None = None) -> Range:
    return parse_range(raw_from, raw_to, tz, ms(NOW))


def field_of_error(call: Callable[..., object], *args: object) -> str:
    with pytest.raises(BadTime) as caught:
        call(*args)
    assert str(caught.value).strip()
    return caught.value.field


# --- zones --------------------------------------------------------------------------------------------------


def test_every_iana_zone_is_accepted() -> None:
    """Tz is an IANA name."""
    assert {"UTC", "Europe/Berlin", "Asia/Kathmandu", "America/Argentina/Ushuaia"} <= zone_names()
    assert len(zone_names()) > 590
    for name in zone_names():
        assert zone(name).key == name
        assert range_of("2026-11-01", "2026-11-02", name).tz is zone(name)


@cases(
    "name",
    [
        "",
        " ",
        "europe/berlin",
        "EUROPE/BERLIN",
        "Europe/Berlin ",
        "Europe/Berlin\n",
        "Europe",
        "Europe/",
        "/etc/passwd",
        "../etc/passwd",
        "../UTC",
        "Europe/../UTC",
        "./UTC",
        "Factory",
        "localtime",
        "posixrules",
        "right/UTC",
        "posix/UTC",
        "zone.tab",
        "tzdata.zi",
        "zones",
        "+02:00",
        "CEST",
        "UTC+1",
        "UTC\0",
        "\0",
        "\ud800",
        "Europe/Berlin\udc80",
        "Ä",
        "A" * 100_000,
        "a/" * 50_000,
        "CON",
        "'; drop table events; --",
    ],
    ids=lambda name: ascii(name)[:24],
)
def test_no_other_text_is_a_zone(name: str) -> None:
    """The error names the field tz."""
    assert field_of_error(zone, name) == "tz"
    assert field_of_error(range_of, "2026-11-01", "2026-11-02", name) == "tz"


# --- the timestamp of an event ------------------------------------------------------------------------------

TEN = "2026-11-21T10:00:00.000"


@cases(
    ("value", "utc"),
    [
        (0, "1970-01-01T00:00:00"),
        (-1, "1969-12-31T23:59:59.999"),
        (1_795_255_200_000, TEN),
        (1_795_255_200_000.0, TEN),
        ("2026-11-21T10:00:00.000Z", TEN),
        ("2026-11-21T10:00:00.000z", TEN),
        ("2026-11-21t10:00:00Z", TEN),
        ("2026-11-21 10:00:00Z", TEN),
        ("2026-11-21T10:00Z", TEN),
        ("2026-11-21T10:00", TEN),  # without an offset UTC
        ("2026-11-21 10:00:00", TEN),
        ("2026-11-21", "2026-11-21T00:00:00"),
        ("2026-11-21T11:00:00+01:00", TEN),
        ("2026-11-21T11:00:00+0100", TEN),
        ("2026-11-21T11:00:00+01", TEN),
        ("2026-11-21T04:30:00.000-05:30", TEN),
        ("2026-11-21T10:00:00-00:00", TEN),
        ("2026-11-21T09:15:30-00:44:30", TEN),
        ("2026-11-21T10:00:00.5Z", "2026-11-21T10:00:00.500"),
        ("2026-11-21T10:00:00,25Z", "2026-11-21T10:00:00.250"),
        ("2026-11-21T10:00:00.1239999999Z", "2026-11-21T10:00:00.123"),
        ("2026-11-21T23:59:59.9999Z", "2026-11-21T23:59:59.999"),
        ("2026-11-21T10:00:00." + "0" * 60_000 + "1Z", TEN),
        ("2024-02-29", "2024-02-29T00:00:00"),
        ("0001-01-01", "0001-01-01T00:00:00"),
        ("9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999"),
    ],
    ids=lambda value: ascii(value)[:34],
)
def test_timestamps_of_events(value: int | float | str, utc: str) -> None:
    """Integer milliseconds (a float only where integral), or ISO 8601; without an offset UTC."""
    assert event_time_ms(value) == ms(utc)


INVALID_TIMES = [
    "",
    " ",
    "now",
    "1795255200000",
    "2026",
    "2026-11",
    "2026-11-21T",
    "2026-11-21Z",
    "2026-11-21+01:00",
    "2026-11-21T10:00:00+",
    "2026-11-21T10:00:00+1",
    "2026-11-21T10:00:00+01:0",
    "2026-11-21T10:00:00+24:00",
    "2026-11-21T10:00:00+01:60",
    "2026-11-21T10:00:00+0100:30",
    "2026-11-21T10:00:00+01:0030",
    "2026-11-21T10:00:00\u221201:00",
    "2026-11-21T10:00:00 Z",
    "2026-11-21T10:00:00 GMT",
    "2026-11-21T10:00:00.Z",
    "2026-11-21T10:00.5Z",
    "2026-11-21T24:00:00Z",
    "2026-11-21T23:60:00Z",
    "2026-11-21T23:59:60Z",
    "2026-11-21  10:00:00Z",
    "2026-11-21_10:00:00Z",
    " 2026-11-21",
    "2026-11-21 ",
    "2026-11-21\n",
    "2026-11-21T10:00:00Z\n",
    "2026-11-21T10:00:00Z\0",
    "20261121T1000000Z",
    "2026112",
    "2026-325",
    "2026-W54-6",
    "2026W478",
    "26-11-21",
    "2026-1-1",
    "21.11.2026",
    "11/21/2026",
    "+2026-11-21",
    "-0001-01-01",
    "12026-11-21",
    "0000-01-01",
    "2026-00-01",
    "2026-13-01",
    "2026-11-31",
    "2026-02-29",
    "\u0662\u0660\u0662\u0666-11-21",
    "\uff12026-11-21",
    "2026-11-21T1\u0660:00:00Z",
    "\ud800",
    "2026-11-21T10:00:00Z\udfff",
    "2" * 65_000,
    "2026-11-21T10:00:00." + "9" * 65_000 + "x",
]


@cases(
    "value",
    [
        # A leap second is the second before it.
        *[time for time in INVALID_TIMES if time != "2026-11-21T23:59:60Z"],
        "2026-11-21T10:00:00 01:00",  # a space for a plus is a matter of URLs
        "0001-01-01T00:00:00+00:01",  # the year 0 in UTC
        "9999-12-31T23:59:59-00:01",
        253_402_300_800_000,
        -62_135_596_800_001,
        2**63,
        -(2**63),
        10**5_000,
        1e300,
        0.5,
        1_795_255_200_000.25,
        float("nan"),
        float("inf"),
        float("-inf"),
        True,
        False,
    ],
    ids=lambda value: ascii(value)[:34] if not isinstance(value, int) or value < 2**70 else "5001 digits",
)
def test_invalid_timestamps_of_events(value: int | float | str) -> None:
    """Any invalid time raises ValueError."""
    assert field_of_error(event_time_ms, value) == "timestamp"


@given(st.one_of(st.integers(), st.floats(), st.text(), st.text("0123456789-:.,TtZz +", max_size=40)))
@example(value="2026-11-21T10:00:00.000+23:59")
def test_no_timestamp_raises_anything_else(value: int | float | str) -> None:
    try:
        found = event_time_ms(value)
    except BadTime:
        return
    assert ms("0001-01-01T00:00:00") <= found <= ms("9999-12-31T23:59:59.999")
    assert event_time_ms(iso(found)) == found


# --- writing ------------------------------------------------------------------------------------------------


@cases(
    ("utc", "tz", "text"),
    [
        ("2026-11-20T23:00:00", "Europe/Berlin", "2026-11-21T00:00:00.000+01:00"),
        ("2026-11-21T10:00:00.007", "UTC", "2026-11-21T10:00:00.007+00:00"),
        ("1969-12-31T23:59:59.999", "UTC", "1969-12-31T23:59:59.999+00:00"),
        ("2026-11-21T10:00:00", "Asia/Kathmandu", "2026-11-21T15:45:00.000+05:45"),
        ("2026-11-21T10:00:00", "America/St_Johns", "2026-11-21T06:30:00.000-03:30"),
        ("1971-01-01T00:00:00", "Africa/Monrovia", "1970-12-31T23:15:30.000-00:44:30"),
        ("0001-01-01T00:00:00", "UTC", "0001-01-01T00:00:00.000+00:00"),
        ("9999-12-31T23:59:59.999", "UTC", "9999-12-31T23:59:59.999+00:00"),
    ],
    ids=lambda value: value,
)
def test_formatted_times(utc: str, tz: str, text: str) -> None:
    """Times are ISO 8601 with an offset, to the millisecond."""
    assert iso(ms(utc), ZoneInfo(tz)) == text
    offset = ZoneInfo(tz).utcoffset(datetime.fromisoformat(text).replace(tzinfo=None))
    assert offset is not None
    assert local_iso(ms(utc), offset // timedelta(milliseconds=1)) == text


def test_times_are_formatted_in_utc_by_default() -> None:
    assert iso(ms(TEN)) == "2026-11-21T10:00:00.000+00:00"


@given(st.sampled_from(sorted(zone_names())), st.integers(ms("1970-01-02T00:00:00"), ms("2100-12-30T00:00:00")))
@example(name="Africa/Monrovia", at=ms("1971-05-01T12:00:00.001"))
def test_formatted_times_can_be_parsed(name: str, at: int) -> None:
    """Every time in a response is a valid `from`, with its plus escaped or not, for any tz."""
    text = iso(at, ZoneInfo(name))
    assert parse_range(text, None, "Asia/Tokyo", at + 1).from_ms == at
    assert parse_range(text.replace("+", " "), None, "Asia/Tokyo", at + 1).from_ms == at


# --- from, to, tz -------------------------------------------------------------------------------------------


@cases(
    ("raw_from", "raw_to", "tz", "utc_from", "utc_to"),
    [
        # "Neither: the last 7 days up to now."
        (None, None, None, "2026-11-11T12:00:00.250", NOW),
        (None, None, "Europe/Berlin", "2026-11-11T12:00:00.250", NOW),
        # "Only `from`: to is now." "Only `to`: from is 7 days before it", always 168 hours.
        ("2026-11-01", None, None, "2026-11-01T00:00:00", NOW),
        (None, "2026-10-27T00:00:00", "Europe/Berlin", "2026-10-19T23:00:00", "2026-10-26T23:00:00"),
        (None, "2026-11-02", None, "2026-10-27T00:00:00", "2026-11-03T00:00:00"),
        (None, "1970-01-01T00:00:00Z", None, "1969-12-25T00:00:00", "1970-01-01T00:00:00"),
        # A date is local midnight in tz (default UTC); `to` as a date includes that day
        ("2026-11-01", "2026-11-01", None, "2026-11-01T00:00:00", "2026-11-02T00:00:00"),
        ("2026-11-01", "2026-11-02", "Europe/Berlin", "2026-10-31T23:00:00", "2026-11-02T23:00:00"),
        ("2026-10-25", "2026-10-25", "Europe/Berlin", "2026-10-24T22:00:00", "2026-10-25T23:00:00"),
        ("1970-01-01", "2100-12-31", "Asia/Tokyo", "1969-12-31T15:00:00", "2100-12-31T15:00:00"),
        # ... its first existing instant: Beirut and Havana have no midnight then, Apia no such day
        ("2026-03-29", "2026-03-29", "Asia/Beirut", "2026-03-28T22:00:00", "2026-03-29T21:00:00"),
        ("2026-03-08", "2026-03-08", "America/Havana", "2026-03-08T05:00:00", "2026-03-09T04:00:00"),
        ("2011-12-30", "2011-12-31", "Pacific/Apia", "2011-12-30T10:00:00", "2011-12-31T10:00:00"),
        ("2011-12-29", "2011-12-30", "Pacific/Apia", "2011-12-29T10:00:00", "2011-12-30T10:00:00"),
        # ... and the first of the two midnights of St John's
        ("2010-11-07", "2010-11-07", "America/St_Johns", "2010-11-07T02:30:00", "2010-11-08T03:30:00"),
        # A time without offset is in tz: the first of two, or after a gap
        ("2026-11-01T10:00", "2026-11-01 11:00:00", None, "2026-11-01T10:00:00", "2026-11-01T11:00:00"),
        (
            "2026-10-25T02:30",
            "2026-10-25T03:00",
            "Europe/Berlin",
            "2026-10-25T00:30:00",
            "2026-10-25T02:00:00",
        ),
        (
            "2026-03-29T02:30",
            "2026-03-29T04:00",
            "Europe/Berlin",
            "2026-03-29T01:30:00",
            "2026-03-29T02:00:00",
        ),
        (
            "2026-03-29T02:00",
            "2026-03-29T04:00",
            "Europe/Berlin",
            "2026-03-29T01:00:00",
            "2026-03-29T02:00:00",
        ),
        (
            "2026-10-04T02:10",
            "2026-10-05",
            "Australia/Lord_Howe",
            "2026-10-03T15:40:00",
            "2026-10-05T13:00:00",
        ),
        ("2011-12-30T10:00", "2012-01-01", "Pacific/Apia", "2011-12-30T20:00:00", "2012-01-01T10:00:00"),
        # A space before an offset is a plus, one between date and time a separator
        (
            "2026-11-01T00:00:00 02:00",
            "2026-11-01 08:00",
            "Asia/Tokyo",
            "2026-10-31T22:00:00",
            "2026-10-31T23:00:00",
        ),
        ("2026-11-01 00:00 0200", "2026-11-01 04:00Z", None, "2026-10-31T22:00:00", "2026-11-01T04:00:00"),
        ("2026-11-01T00:00 02", "2026-11-01T00:00-02", None, "2026-10-31T22:00:00", "2026-11-01T02:00:00"),
        ("2026-11-01T00:00:00.5 02:00", "2026-11-02", None, "2026-10-31T22:00:00.500", "2026-11-03T00:00:00"),
        # finer than a millisecond: rounded up, which selects the same events of a half-open range
        ("2026-11-01T00:00:00.0000Z", "2026-11-02", None, "2026-11-01T00:00:00", "2026-11-03T00:00:00"),
        ("2026-11-01T00:00:00.0001Z", "2026-11-02", None, "2026-11-01T00:00:00.001", "2026-11-03T00:00:00"),
        ("2026-11-01", "2026-11-01T23:59:59.9999999", None, "2026-11-01T00:00:00", "2026-11-02T00:00:00"),
        # ... just before the first 03:00, rounded up, is the time at which Berlin's clocks go back to 02:00
        (
            "2026-10-25T02:59:59.9995",
            "2026-10-26",
            "Europe/Berlin",
            "2026-10-25T01:00:00",
            "2026-10-26T23:00:00",
        ),
    ],
)
def test_ranges(raw_from: str | None, raw_to: str | None, tz: str | None, utc_from: str, utc_to: str) -> None:
    """The comment above each group of rows quotes the rule."""
    found = range_of(raw_from, raw_to, tz)
    assert (iso(found.from_ms), iso(found.to_ms)) == (iso(ms(utc_from)), iso(ms(utc_to)))
    assert found.tz.key == (tz or "UTC")


@cases(
    ("raw_from", "raw_to", "tz", "field"),
    [
        # "from not before to"
        ("2026-11-02", "2026-11-01", None, "from"),
        ("2026-11-01T10:00", "2026-11-01T10:00", None, "from"),
        ("2026-11-01T10:00:00.0001", "2026-11-01T10:00:00.001", None, "from"),
        ("2026-11-01T10:00:00+01:00", "2026-11-01T10:00:00+02:00", None, "from"),
        (NOW, None, None, "from"),
        ("2026-11-19", None, None, "from"),
        ("2011-12-30", "2011-12-30", "Pacific/Apia", "from"),  # a day that did not exist holds nothing
        # "years 1970 to 2100"
        ("1969-12-31", "2026-11-01", None, "from"),
        ("0001-01-01", "2026-11-01", None, "from"),
        ("2101-01-01", None, None, "from"),
        ("2026-11-01", "2101-01-01", None, "to"),
        ("2026-11-01", "9999-12-31T23:59:59-12:00", None, "to"),
        ("9999-12-31", "0001-01-01", None, "from"),
        # an invalid value; the zone is checked first, since the others are read in it
        ("", None, None, "from"),
        (None, "", None, "to"),
        ("2026-11-01", "", None, "to"),
        ("", "", "", "tz"),
        (None, None, "Mars/Olympus", "tz"),
        ("1790000000000", None, None, "from"),
        (None, "yesterday", None, "to"),
        ("2026-11-01T00:00:00  02:00", None, None, "from"),
        ("2026-11-01 02:00 ", None, None, "from"),
        ("2026-11-01 02000", None, None, "from"),
    ],
)
def test_invalid_ranges(raw_from: str | None, raw_to: str | None, tz: str | None, field: str) -> None:
    """The error names the field."""
    assert field_of_error(range_of, raw_from, raw_to, tz) == field


@cases("text", INVALID_TIMES, ids=lambda text: ascii(text)[:34])
def test_invalid_times_are_rejected(text: str) -> None:
    """An invalid time is not replaced by a default."""
    assert field_of_error(range_of, text, None) == "from"
    assert field_of_error(range_of, None, text) == "to"


ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=30)
NEARLY_A_TIME = st.from_regex(
    r"(19[67]|20[0-9]|210)[0-9]-[01][0-9]-[0-3][0-9]"
    r"([Tt ][0-2][0-9]:[0-6][0-9](:[0-6][0-9]([.,][0-9]{1,12})?)?([Zz]|[-+ ][0-2][0-9](:?[0-6][0-9])?)?)?",
    fullmatch=True,
)
RAW = st.none() | NEARLY_A_TIME | ANY_TEXT


@given(RAW, RAW, st.none() | st.sampled_from(sorted(zone_names())) | ANY_TEXT)
def test_no_text_raises_anything_but_bad_time(raw_from: str | None, raw_to: str | None, tz: str | None) -> None:
    try:
        found = range_of(raw_from, raw_to, tz)
    except BadTime:
        return
    assert found.from_ms < found.to_ms
    assert previous(found)[0] < previous(found)[1] == found.from_ms


def clocks(tz: ZoneInfo, wall: datetime) -> int:
    """Return the minute at which clocks first show `wall`, or the corresponding one after a gap."""
    guess = int(wall.replace(tzinfo=UTC).timestamp())
    before: datetime | None = None
    for at in range(guess - 16 * 3600, guess + 40 * 3600, 60):
        shown = datetime.fromtimestamp(at, tz).replace(tzinfo=None)
        if shown == wall:
            return at * 1000
        if before is not None and before < wall < shown:
            return (at - 60) * 1000 + (wall - before) // timedelta(milliseconds=1)
        before = max(shown, before or shown)
    raise AssertionError("the clocks never show this time")


# --- the reference: a walk over every minute, and over every second at changes -----------------------------

Interval = Literal["day", "hour"]


def shown_hour(local: datetime) -> tuple[Any, ...]:
    return (local.date(), local.hour, local.utcoffset())


def shown_day(local: datetime) -> date:
    return local.date()


def local_at(tz: ZoneInfo, second: int) -> datetime:
    return datetime.fromtimestamp(second, tz)


def beginnings(tz: ZoneInfo, first: int, end: int, interval: Interval) -> Iterator[datetime]:
    """Yield every second in (first, end] at which an hour begins, or a day for the first time."""
    shown = shown_hour if interval == "hour" else shown_day
    latest = local_at(tz, first).date()
    for minute in range(first, end, 60):
        if shown(local_at(tz, minute)) == shown(local_at(tz, minute + 60)):
            continue
        for second in range(minute + 1, minute + 61):
            local = local_at(tz, second)
            if interval == "hour" and shown(local) != shown(local_at(tz, second - 1)):
                yield local
            if interval == "day" and local.date() > latest:
                latest = local.date()
                yield local


def slow_buckets(range_of: Range, interval: Interval) -> list[Bucket]:
    """Return the buckets of a range by definition."""
    first = (range_of.from_ms // 1000 - (3 if interval == "hour" else 72) * 3600) // 60 * 60
    starts = [
        (int(local.timestamp()) * 1000, local.isoformat(timespec="milliseconds"))
        for local in beginnings(range_of.tz, first, range_of.to_ms // 1000 + 60, interval)
    ]
    return [
        Bucket(max(at, range_of.from_ms), min(after, range_of.to_ms), text)
        for (at, text), (after, _) in pairwise([*starts, (range_of.to_ms, "")])
        if after > range_of.from_ms and at < range_of.to_ms
    ]


def changes(tz: ZoneInfo, year: int) -> list[int]:
    """Return the days of a year, as seconds, on which the offset differs from the day before."""
    first = int(datetime(year, 1, 1, tzinfo=UTC).timestamp())
    days = range(first, first + 366 * 86400, 86400)
    return [day for day in days if local_at(tz, day).utcoffset() != local_at(tz, day - 86400).utcoffset()]


ODD = [
    ("Africa/Monrovia", 1972),
    ("America/Boa_Vista", 2000),
    ("America/Caracas", 2007),
    ("America/Havana", 2026),
    ("America/Santiago", 2026),
    ("America/Sao_Paulo", 2018),
    ("America/St_Johns", 1988),
    ("America/St_Johns", 2010),
    ("Antarctica/Casey", 2018),
    ("Antarctica/Troll", 2026),
    ("Asia/Beirut", 2026),
    ("Asia/Gaza", 2040),
    ("Asia/Kathmandu", 1986),
    ("Asia/Pyongyang", 2015),
    ("Australia/Lord_Howe", 2026),
    ("Europe/Berlin", 2026),
    ("Pacific/Apia", 2011),
    ("Pacific/Chatham", 2026),
    ("Pacific/Kiritimati", 1994),
    ("Pacific/Kwajalein", 1993),
]


@st.composite
def ranges(draw: st.DrawFn) -> Range:
    """Draw a range of up to three days, near a change of offset if the zone has one in that year."""
    anywhere = st.tuples(st.sampled_from(sorted(zone_names())), st.integers(1970, 2100))
    name, year = draw(st.one_of(st.sampled_from(ODD), anywhere))
    tz = ZoneInfo(name)
    new_year = int(datetime(year, 1, 1, tzinfo=UTC).timestamp())
    middle = draw(st.sampled_from(changes(tz, year) or [new_year]))
    # Drawn in minutes and then in milliseconds: hypothesis prefers the small numbers of a large interval.
    stray = st.sampled_from([0, 0, 1, 999, 30_000, 59_999])
    from_ms = (middle + 60 * draw(st.integers(-3 * 1440, 1440))) * 1000 + draw(stray)
    minutes = draw(st.one_of(st.integers(0, 180), st.integers(0, 3 * 1440)))
    length_ms = max(1, minutes * 60_000 + draw(stray))
    return Range(from_ms, from_ms + length_ms, tz, None)


@pytest.mark.random_examples
@settings(deadline=None, max_examples=examples(250, default=40))
@given(ranges(), st.sampled_from(["day", "hour"]))
def test_buckets_equal_the_slow_walk(range_of: Range, interval: Interval) -> None:
    """For days and hours: the start, `time` and the part in the range."""
    assert buckets(range_of, interval) == slow_buckets(range_of, interval)


@pytest.mark.random_examples
@settings(deadline=None, max_examples=examples(250, default=40))
@given(ranges(), st.integers(0, 70), st.sampled_from(["monday", "sunday"]))
@example(Range(ms("1994-12-31T10:00:00"), ms("1995-01-02T10:00:00"), zone("Pacific/Kiritimati"), None), 40, "sunday")
def test_weeks_and_months_begin_with_their_first_day(range_of: Range, more_days: int, week_start: Any) -> None:
    """In every zone, near its clock changes: where a day begins is compared with the slow walk above."""
    range_of = replace(range_of, to_ms=range_of.to_ms + more_days * DAY_MS)
    # The first bucket begins up to a month earlier.
    days = buckets(replace(range_of, from_ms=range_of.from_ms - 40 * DAY_MS), "day")[1:]

    def month(day: date) -> Any:
        return day.year, day.month

    def week(day: date) -> Any:
        return (day.toordinal() - (week_start == "monday")) // 7

    numbers: dict[Interval, Callable[[date], Any]] = {"month": month, "week": week}
    for interval, number in numbers.items():
        begins: dict[Any, tuple[int, str]] = {}
        for day in days:
            begins.setdefault(number(date.fromisoformat(day.time[:10])), (day.from_ms, day.time))
        # Of the first one here, days may be missing.
        some = list(begins.values())[1:]
        kept = [one for n, one in enumerate(some) if n + 1 == len(some) or some[n + 1][0] > range_of.from_ms]
        found = [(each.from_ms, each.time) for each in buckets(range_of, interval, week_start=week_start)]
        assert found == [(max(start_ms, range_of.from_ms), time) for start_ms, time in kept]


@pytest.mark.slow
@settings(deadline=None, max_examples=100)
@given(
    st.sampled_from(sorted(zone_names())),
    st.datetimes(datetime(1970, 1, 2), datetime(2100, 12, 30)),
    st.integers(1, 400),
    st.sampled_from(["day", "hour"]),
)
def test_buckets_cover_their_range(name: str, begin: datetime, days: int, interval: Interval) -> None:
    """In order, without gaps or overlaps."""
    from_ms = ms(begin.isoformat())
    range_of = Range(from_ms, from_ms + days * DAY_MS + 1, zone(name), None)
    found = buckets(range_of, interval)
    assert (found[0].from_ms, found[-1].to_ms) == (range_of.from_ms, range_of.to_ms)
    assert all(one.from_ms < one.to_ms == after.from_ms for one, after in pairwise(found))
    assert [iso(each.from_ms, range_of.tz) for each in found[1:]] == [each.time for each in found[1:]]
    assert len({each.time[:10] if interval == "day" else each.time for each in found}) == len(found)


@settings(deadline=None, max_examples=100)
@given(
    st.one_of(st.sampled_from(ODD).map(lambda odd: odd[0]), st.sampled_from(sorted(zone_names()))),
    st.data(),
)
def test_local_times(name: str, data: st.DataObject) -> None:
    """A time without offset is in tz; an ambiguous one is the first, a missing one is after the gap."""
    year = data.draw(st.sampled_from([year for odd, year in ODD if odd == name] or [1973, 2026, 2090]))
    days = changes(zone(name), year) or [ms(f"{year}-06-01T00:00:00") // 1000]
    at = data.draw(st.sampled_from(days)) + 60 * data.draw(st.integers(-36 * 60, 12 * 60))
    # Whole minutes of the local clock; Liberia's of 1971 lie 30 s beside the walk's steps.
    wall = datetime.fromtimestamp(at, UTC).replace(tzinfo=None)
    if name == "Africa/Monrovia":
        wall += timedelta(seconds=30)
    found = parse_range(wall.isoformat(), "2100-12-31", name, 0)
    assert iso(found.from_ms) == iso(clocks(zone(name), wall))


# --- days and hours by hand ---------------------------------------------------------------------------------


def rows(found: list[Bucket]) -> list[tuple[str, str, float]]:
    """Return (time, its UTC instant, hours) of each bucket."""
    return [(b.time, iso(b.from_ms)[:19], (b.to_ms - b.from_ms) / HOUR_MS) for b in found]


@cases(
    ("tz", "days", "expected"),
    [
        pytest.param(
            "Europe/Berlin",
            ("2026-03-28", "2026-03-30"),
            [
                ("2026-03-28T00:00:00.000+01:00", "2026-03-27T23:00:00", 24),
                ("2026-03-29T00:00:00.000+01:00", "2026-03-28T23:00:00", 23),
                ("2026-03-30T00:00:00.000+02:00", "2026-03-29T22:00:00", 24),
            ],
            id="a day of 23 hours",
        ),
        pytest.param(
            "Europe/Berlin",
            ("2026-10-24", "2026-10-26"),
            [
                ("2026-10-24T00:00:00.000+02:00", "2026-10-23T22:00:00", 24),
                ("2026-10-25T00:00:00.000+02:00", "2026-10-24T22:00:00", 25),
                ("2026-10-26T00:00:00.000+01:00", "2026-10-25T23:00:00", 24),
            ],
            id="a day of 25 hours",
        ),
        pytest.param(
            "Australia/Lord_Howe",
            ("2026-10-04", "2026-10-05"),
            [
                ("2026-10-04T00:00:00.000+10:30", "2026-10-03T13:30:00", 23.5),
                ("2026-10-05T00:00:00.000+11:00", "2026-10-04T13:00:00", 24),
            ],
            id="a day of 23.5 hours",
        ),
        pytest.param(
            "Australia/Lord_Howe",
            ("2026-04-05", "2026-04-06"),
            [
                ("2026-04-05T00:00:00.000+11:00", "2026-04-04T13:00:00", 24.5),
                ("2026-04-06T00:00:00.000+10:30", "2026-04-05T13:30:00", 24),
            ],
            id="a day of 24.5 hours",
        ),
        pytest.param(
            "Pacific/Chatham",
            ("2026-04-05", "2026-04-06"),
            [
                ("2026-04-05T00:00:00.000+13:45", "2026-04-04T10:15:00", 25),
                ("2026-04-06T00:00:00.000+12:45", "2026-04-05T11:15:00", 24),
            ],
            id="a zone of quarter hours",
        ),
        pytest.param(
            "Pacific/Apia",
            ("2011-12-29", "2011-12-31"),
            [
                ("2011-12-29T00:00:00.000-10:00", "2011-12-29T10:00:00", 24),
                ("2011-12-31T00:00:00.000+14:00", "2011-12-30T10:00:00", 24),
            ],
            id="a day that does not exist has no row",
        ),
        pytest.param(
            "America/Havana",
            ("2026-03-07", "2026-03-09"),
            [
                ("2026-03-07T00:00:00.000-05:00", "2026-03-07T05:00:00", 24),
                ("2026-03-08T01:00:00.000-04:00", "2026-03-08T05:00:00", 23),
                ("2026-03-09T00:00:00.000-04:00", "2026-03-09T04:00:00", 24),
            ],
            id="no midnight in Havana",
        ),
        pytest.param(
            "America/Santiago",
            ("2026-09-06", "2026-09-06"),
            [("2026-09-06T01:00:00.000-03:00", "2026-09-06T04:00:00", 23)],
            id="no midnight in Santiago",
        ),
        pytest.param(
            "Asia/Beirut",
            ("2026-03-29", "2026-03-29"),
            [("2026-03-29T01:00:00.000+03:00", "2026-03-28T22:00:00", 23)],
            id="no midnight in Beirut",
        ),
        pytest.param(
            "America/Sao_Paulo",
            ("2018-02-17", "2018-02-18"),
            [
                ("2018-02-17T00:00:00.000-02:00", "2018-02-17T02:00:00", 25),
                ("2018-02-18T00:00:00.000-03:00", "2018-02-18T03:00:00", 24),
            ],
            id="midnight goes back to 23:00",
        ),
        pytest.param(
            "America/St_Johns",
            ("2010-03-14", "2010-03-14"),
            [("2010-03-14T00:00:00.000-03:30", "2010-03-14T03:30:00", 23)],
            id="forward at 00:01",
        ),
        pytest.param(
            "America/St_Johns",
            ("2010-11-06", "2010-11-08"),
            [
                ("2010-11-06T00:00:00.000-02:30", "2010-11-06T02:30:00", 24),
                ("2010-11-07T00:00:00.000-02:30", "2010-11-07T02:30:00", 25),
                ("2010-11-08T00:00:00.000-03:30", "2010-11-08T03:30:00", 24),
            ],
            id="back at 00:01, into the day before",
        ),
        pytest.param(
            "America/Boa_Vista",
            ("2000-10-07", "2000-10-15"),
            [
                ("2000-10-07T00:00:00.000-04:00", "2000-10-07T04:00:00", 24),
                ("2000-10-08T01:00:00.000-03:00", "2000-10-08T04:00:00", 23),
                *((f"2000-10-{d:02}T00:00:00.000-03:00", f"2000-10-{d:02}T03:00:00", 24) for d in range(9, 14)),
                ("2000-10-14T00:00:00.000-03:00", "2000-10-14T03:00:00", 25),
                ("2000-10-15T00:00:00.000-04:00", "2000-10-15T04:00:00", 24),
            ],
            id="a summer time of one week",
        ),
        pytest.param(
            "Africa/Monrovia",
            ("1972-01-06", "1972-01-08"),
            [
                ("1972-01-06T00:00:00.000-00:44:30", "1972-01-06T00:44:30", 24),
                ("1972-01-07T00:44:30.000+00:00", "1972-01-07T00:44:30", 23 + 15.5 / 60),
                ("1972-01-08T00:00:00.000+00:00", "1972-01-08T00:00:00", 24),
            ],
            id="an offset with seconds",
        ),
    ],
)
def test_days(tz: str, days: tuple[str, str], expected: list[tuple[str, str, float]]) -> None:
    """A day runs from its first existing local instant to that of the next day (23, 23.5, 24.5 or 25 hours on clock
    changes; a day that does not exist has no row)."""
    assert rows(buckets(range_of(*days, tz), "day")) == expected


def test_a_gap_around_midnight_begins_the_day_after_it() -> None:
    """Toronto's 23:30 became 00:30 in 1919, before the first supported year; the rule is the same."""
    found = buckets(Range(ms("1919-03-30T05:00:00"), ms("1919-04-01T04:00:00"), zone("America/Toronto"), None), "day")
    assert rows(found) == [
        ("1919-03-30T00:00:00.000-05:00", "1919-03-30T05:00:00", 23.5),
        ("1919-03-31T00:30:00.000-04:00", "1919-03-31T04:30:00", 23.5),
    ]


@cases(
    ("tz", "times", "expected"),
    [
        pytest.param(
            "Europe/Berlin",
            ("2026-10-25T01:00", "2026-10-25T04:00"),
            [
                ("2026-10-25T01:00:00.000+02:00", "2026-10-24T23:00:00", 1),
                ("2026-10-25T02:00:00.000+02:00", "2026-10-25T00:00:00", 1),
                ("2026-10-25T02:00:00.000+01:00", "2026-10-25T01:00:00", 1),
                ("2026-10-25T03:00:00.000+01:00", "2026-10-25T02:00:00", 1),
            ],
            id="the same hour twice",
        ),
        pytest.param(
            "Europe/Berlin",
            ("2026-03-29T01:00", "2026-03-29T04:00"),
            [
                ("2026-03-29T01:00:00.000+01:00", "2026-03-29T00:00:00", 1),
                ("2026-03-29T03:00:00.000+02:00", "2026-03-29T01:00:00", 1),
            ],
            id="an hour left out",
        ),
        pytest.param(
            "Asia/Kathmandu",
            ("2026-11-01T00:00", "2026-11-01T02:00"),
            [
                ("2026-11-01T00:00:00.000+05:45", "2026-10-31T18:15:00", 1),
                ("2026-11-01T01:00:00.000+05:45", "2026-10-31T19:15:00", 1),
            ],
            id="full local hours, not UTC's",
        ),
        pytest.param(
            "Australia/Lord_Howe",
            ("2026-04-05T01:00", "2026-04-05T03:00"),
            [
                ("2026-04-05T01:00:00.000+11:00", "2026-04-04T14:00:00", 1),
                ("2026-04-05T01:30:00.000+10:30", "2026-04-04T15:00:00", 0.5),
                ("2026-04-05T02:00:00.000+10:30", "2026-04-04T15:30:00", 1),
            ],
            id="half an hour again",
        ),
        pytest.param(
            "Australia/Lord_Howe",
            ("2026-10-04T01:00", "2026-10-04T04:00"),
            [
                ("2026-10-04T01:00:00.000+10:30", "2026-10-03T14:30:00", 1),
                ("2026-10-04T02:30:00.000+11:00", "2026-10-03T15:30:00", 0.5),
                ("2026-10-04T03:00:00.000+11:00", "2026-10-03T16:00:00", 1),
            ],
            id="half an hour left out",
        ),
        pytest.param(
            "Asia/Kathmandu",
            ("1985-12-31T23:00", "1986-01-01T02:00"),
            [
                ("1985-12-31T23:00:00.000+05:30", "1985-12-31T17:30:00", 1),
                ("1986-01-01T00:15:00.000+05:45", "1985-12-31T18:30:00", 0.75),
                ("1986-01-01T01:00:00.000+05:45", "1985-12-31T19:15:00", 1),
            ],
            id="a quarter left out",
        ),
        pytest.param(
            "America/St_Johns",
            ("2010-11-06T23:00", "2010-11-07T01:00"),
            [
                ("2010-11-06T23:00:00.000-02:30", "2010-11-07T01:30:00", 1),
                ("2010-11-07T00:00:00.000-02:30", "2010-11-07T02:30:00", 1 / 60),
                ("2010-11-06T23:01:00.000-03:30", "2010-11-07T02:31:00", 59 / 60),
                ("2010-11-07T00:00:00.000-03:30", "2010-11-07T03:30:00", 1),
            ],
            id="back at 00:01",
        ),
        pytest.param(
            "Africa/Monrovia",
            ("1972-01-06T23:00", "1972-01-07T02:00"),
            [
                ("1972-01-06T23:00:00.000-00:44:30", "1972-01-06T23:44:30", 1),
                ("1972-01-07T00:44:30.000+00:00", "1972-01-07T00:44:30", 15.5 / 60),
                ("1972-01-07T01:00:00.000+00:00", "1972-01-07T01:00:00", 1),
            ],
            id="an offset with seconds",
        ),
    ],
)
def test_hours(tz: str, times: tuple[str, str], expected: list[tuple[str, str, float]]) -> None:
    """An hour begins at every full local hour and at every change of offset."""
    assert rows(buckets(range_of(*times, tz), "hour")) == expected


@pytest.mark.parametrize(
    ("times", "interval", "expected"),
    [
        pytest.param(
            ("2026-10-25T12:30", "2026-10-26T00:00:00.001"),
            "day",
            [
                Bucket(ms("2026-10-25T11:30:00"), ms("2026-10-25T23:00:00"), "2026-10-25T00:00:00.000+02:00"),
                Bucket(ms("2026-10-25T23:00:00"), ms("2026-10-25T23:00:00.001"), "2026-10-26T00:00:00.000+01:00"),
            ],
            id="days",
        ),
        pytest.param(
            ("2026-10-25T23:30", "2026-10-25T23:45"),
            "day",
            [Bucket(ms("2026-10-25T22:30:00"), ms("2026-10-25T22:45:00"), "2026-10-25T00:00:00.000+02:00")],
            id="the 25th hour of a day",
        ),
        pytest.param(
            ("2026-11-01T10:59:59.999", "2026-11-01T11:30"),
            "hour",
            [
                Bucket(ms("2026-11-01T09:59:59.999"), ms("2026-11-01T10:00:00"), "2026-11-01T10:00:00.000+01:00"),
                Bucket(ms("2026-11-01T10:00:00"), ms("2026-11-01T10:30:00"), "2026-11-01T11:00:00.000+01:00"),
            ],
            id="hours",
        ),
        pytest.param(
            ("2026-11-01T10:00:00.001", "2026-11-01T10:00:00.002"),
            "hour",
            [
                Bucket(
                    ms("2026-11-01T09:00:00.001"),
                    ms("2026-11-01T09:00:00.002"),
                    "2026-11-01T10:00:00.000+01:00",
                )
            ],
            id="one millisecond",
        ),
    ],
)
def test_first_and_last_buckets_are_cut(times: tuple[str, str], interval: Interval, expected: list[Bucket]) -> None:
    """First and last buckets are limited to the range; `time` is not."""
    assert buckets(range_of(*times, "Europe/Berlin"), interval) == expected


@pytest.mark.parametrize(
    ("interval", "fits", "too_long"),
    [
        ("day", ("2026-01-01", "2053-05-18"), ("2026-01-01", "2053-05-19")),
        ("hour", ("2026-01-01T00:00", "2027-02-21T16:00"), ("2026-01-01T00:00", "2027-02-21T16:00:00.001")),
        ("hour", ("2026-01-01T00:59:59.999", "2027-02-21T15:00:00.001"), ("1970-01-01", "2100-12-31")),
        ("day", ("1970-01-01", "1997-05-18"), ("1970-01-01", "2100-12-31")),
        (
            "day",
            ("2026-07-01", "2053-11-15"),
            ("2026-07-01", "2053-11-16T00:00:00.001"),
        ),  # an hour more in all
    ],
)
def test_more_than_10000_buckets_are_rejected(
    interval: Interval, fits: tuple[str, str], too_long: tuple[str, str]
) -> None:
    """More than 10,000 buckets: 400."""
    assert len(buckets(range_of(*fits, "Europe/Berlin"), interval)) == 10_000
    assert field_of_error(buckets, range_of(*too_long, "Europe/Berlin"), interval) == "interval"


def test_the_maximum_is_a_parameter() -> None:
    range_of_two = range_of("2026-11-01", "2026-11-02")
    assert len(buckets(range_of_two, "day", 2)) == 2
    assert field_of_error(buckets, range_of_two, "day", 1) == "interval"


# --- the previous range -------------------------------------------------------------------------------------


@cases(
    ("raw_from", "raw_to", "tz", "utc_from", "utc_to"),
    [
        pytest.param(
            *("2026-11-10T10:00", "2026-11-10T12:30", "UTC", "2026-11-10T07:30:00", "2026-11-10T10:00:00"),
            id="equal length",
        ),
        pytest.param(
            *(
                "2026-10-26T00:00",
                "2026-10-27T00:00",
                "Europe/Berlin",
                "2026-10-24T23:00:00",
                "2026-10-25T23:00:00",
            ),
            id="times at midnight are not dates",
        ),
        pytest.param(
            *("2026-10-26", "2026-10-26", "Europe/Berlin", "2026-10-24T22:00:00", "2026-10-25T23:00:00"),
            id="the day before had 25 hours",
        ),
        pytest.param(
            *("2026-10-23", "2026-10-25", "Europe/Berlin", "2026-10-19T22:00:00", "2026-10-22T22:00:00"),
            id="the requested days had 73 hours",
        ),
        pytest.param(
            *("2026-03-30", "2026-04-05", "Europe/Berlin", "2026-03-22T23:00:00", "2026-03-29T22:00:00"),
            id="the week before had 167 hours",
        ),
        pytest.param(
            *("2011-12-31", "2012-01-01", "Pacific/Apia", "2011-12-28T10:00:00", "2011-12-30T10:00:00"),
            id="the previous day does not exist",
        ),
        pytest.param(
            *("2011-12-29", "2011-12-31", "Pacific/Apia", "2011-12-27T10:00:00", "2011-12-29T10:00:00"),
            id="a requested day does not exist",
        ),
        pytest.param(
            *("1970-01-01", "2100-12-31", "UTC", "1839-01-01T00:00:00", "1970-01-01T00:00:00"),
            id="the longest range",
        ),
    ],
)
def test_the_previous_range(raw_from: str, raw_to: str, tz: str, utc_from: str, utc_to: str) -> None:
    """Of equal length just before, or the same number of local days if both ends are dates."""
    assert [iso(each) for each in previous(range_of(raw_from, raw_to, tz))] == [
        iso(ms(utc_from)),
        iso(ms(utc_to)),
    ]


@cases(
    ("raw_from", "raw_to", "days"),
    [
        ("2026-11-01", "2026-11-03", (date(2026, 11, 1), date(2026, 11, 3))),
        ("2026-11-01", None, None),
        (None, "2026-11-03", None),
        (None, None, None),
        ("2026-11-01", "2026-11-04T00:00", None),
        ("2026-11-01T00:00", "2026-11-03", None),
    ],
)
def test_only_two_dates_select_days(raw_from: str | None, raw_to: str | None, days: tuple[date, date] | None) -> None:
    """`days` is set if both ends are dates."""
    assert range_of(raw_from, raw_to, "Europe/Berlin").days == days


# --- an assumption of the search for changes ----------------------------------------------------------


def recorded_changes(name: str) -> list[int]:
    """Read the instants at which a zone's offset changes from its file (RFC 9636), in seconds."""
    blob = files("tzdata.zoneinfo").joinpath(*name.split("/")).read_bytes()
    utc, std, leap, times, types, letters = struct.unpack(">6l", blob[20:44])
    at = 44 + times * 5 + types * 6 + letters + leap * 8 + std + utc  # the second block has 64-bit times
    _, _, _, times, types, _ = struct.unpack(">6l", blob[at + 20 : at + 44])
    at += 44
    instants = struct.unpack(f">{times}q", blob[at : at + 8 * times])
    kinds = blob[at + 8 * times : at + 9 * times]
    offsets = [struct.unpack(">l", blob[at + 9 * times + 6 * i :][:4])[0] for i in range(types)]
    shown = [offsets[0], *(offsets[kind] for kind in kinds)]
    return [instant for instant, (old, new) in zip(instants, pairwise(shown), strict=True) if old != new]


def test_every_offset_lasts_longer_than_two_probes() -> None:
    """The shortest period of an offset in the zone data contains at least two probes of tally/timeranges.py."""
    recorded = {name: [at for at in recorded_changes(name) if at >= 0] for name in sorted(zone_names())}
    spells = [later - at for times in recorded.values() for at, later in pairwise(times)]
    assert len(spells) > 10_000
    assert min(spells) > 2 * timeranges._PROBE_S


# --- weeks, months, minutes, periods, ranges to compare with


@cases(
    ("range_of", "interval", "week_start", "starts"),
    [
        (("2026-03-27", "2026-04-06"), "week", "monday", ("03-23", "03-30", "04-06")),
        (("2026-03-27", "2026-04-06"), "week", "sunday", ("03-22", "03-29", "04-05")),
        (("2026-03-30", "2026-04-05"), "week", "monday", ("03-30",)),
        (("2026-10-20", "2026-11-01"), "week", "monday", ("10-19", "10-26")),
        (("2026-02-15", "2026-04-01"), "month", "monday", ("02-01", "03-01", "04-01")),
        (("2026-03-31", "2026-03-31"), "month", "sunday", ("03-01",)),
    ],
)
def test_weeks_and_months(range_of: tuple[str, str], interval: Any, week_start: Any, starts: tuple[str, ...]) -> None:
    """They begin at local midnight, also where the clock has changed in them; the first and the last one are cut."""
    span = parse_range(*range_of, "Europe/Berlin", 0)
    found = buckets(span, interval, week_start=week_start)
    assert [bucket.time[5:16] for bucket in found] == [f"{start}T00:00" for start in starts]
    assert (found[0].from_ms, found[-1].to_ms) == (span.from_ms, span.to_ms)
    assert all(one.to_ms == other.from_ms for one, other in pairwise(found))
    assert [bucket.from_ms for bucket in found[1:]] == [
        parse_range(f"2026-{start}", None, "Europe/Berlin", 1 << 42).from_ms for start in starts[1:]
    ]


@cases(
    ("range_of", "tz", "times"),
    [
        (("2026-03-29T01:58:30", "2026-03-29T03:01:00"), "Europe/Berlin", ("01:58", "01:59", "03:00")),
        (("2026-11-18T10:00:00Z", "2026-11-18T10:01:00.001Z"), "UTC", ("10:00", "10:01")),
    ],
)
def test_minutes(range_of: tuple[str, str], tz: str, times: tuple[str, ...]) -> None:
    found = buckets(parse_range(*range_of, tz, 0), "minute")
    assert [bucket.time[11:16] for bucket in found] == [*times]


def test_minutes_of_more_than_a_day_are_refused() -> None:
    assert len(buckets(parse_range("2026-11-18", "2026-11-18", "UTC", 0), "minute")) == 1_440
    with pytest.raises(BadTime, match="at most 24 hours"):
        buckets(parse_range("2026-10-25", "2026-10-25", "Europe/Berlin", 0), "minute")


@cases(
    ("period", "first", "last"),
    [
        ("today", "2026-03-31", "2026-03-31"),
        ("yesterday", "2026-03-30", "2026-03-30"),
        ("7d", "2026-03-25", "2026-03-31"),
        ("28d", "2026-03-04", "2026-03-31"),
        ("30d", "2026-03-02", "2026-03-31"),
        ("90d", "2026-01-01", "2026-03-31"),
        ("month", "2026-03-01", "2026-03-31"),
        ("year", "2026-01-01", "2026-03-31"),
        ("6mo", "2025-10-01", "2026-03-31"),
        ("12mo", "2025-04-01", "2026-03-31"),
        ("all", "2025-12-25", "2026-03-31"),
    ],
)
def test_periods(period: str, first: str, last: str) -> None:
    """At 22:30 UTC it is the next day in Berlin; the days are those of the zone."""
    now_ms, first_ms = (parse_range(None, text, None, 0).to_ms for text in ("2026-03-30T22:30Z", "2025-12-24T23:30Z"))
    found = period_range(period, "Europe/Berlin", now_ms, first_ms)
    assert found == parse_range(first, last, "Europe/Berlin", 0)


@cases(
    ("range_of", "by_year", "weekly", "year"),
    [
        (("2026-11-11", "2026-11-17"), False, ("2026-11-04", "2026-11-10"), ("2025-11-11", "2025-11-17")),
        (("2026-11-11", "2026-11-18"), False, ("2026-10-28", "2026-11-04"), ("2025-11-11", "2025-11-18")),
        (("2026-10-25", "2026-10-25"), True, ("2025-10-26", "2025-10-26"), ("2025-10-25", "2025-10-25")),
        (("2024-02-29", "2024-02-29"), True, ("2023-03-02", "2023-03-02"), ("2023-02-28", "2023-02-28")),
        (
            ("2026-03-30T10:00", "2026-03-30T12:00"),
            False,
            ("2026-03-23T10:00", "2026-03-23T12:00"),
            ("2025-03-30T10:00", "2025-03-30T12:00"),
        ),
        # A week of local time in 167 hours, and one in 169.
        (
            ("2026-03-23T00:00", "2026-03-30T01:00"),
            False,
            ("2026-03-09T00:00", "2026-03-16T01:00"),
            ("2025-03-23T00:00", "2025-03-30T01:00"),
        ),
        (
            ("2026-10-19T00:00", "2026-10-26T00:00"),
            False,
            ("2026-10-12T00:00", "2026-10-19T00:00"),
            ("2025-10-19T00:00", "2025-10-26T00:00"),
        ),
        # The end would be at 02:30 on 29 March, which is 03:30.
        (
            ("2026-03-29T03:00", "2026-04-05T02:30"),
            False,
            ("2026-03-15T03:00", "2026-03-22T02:30"),
            ("2025-03-29T03:00", "2025-04-05T02:30"),
        ),
    ],
)
def test_ranges_to_compare_with(
    range_of: tuple[str, str], by_year: bool, weekly: tuple[str, str], year: tuple[str, str]
) -> None:
    """The same local times, whatever the clock did in between."""
    span, weeks, year_ago = (parse_range(*one, "Europe/Berlin", 0) for one in (range_of, weekly, year))
    assert shifted_weeks(span, by_year) == (weeks.from_ms, weeks.to_ms)
    assert year_before(span) == (year_ago.from_ms, year_ago.to_ms)


@cases(
    ("range_of", "now", "by_days", "by_weeks", "by_year"),
    [
        pytest.param(
            *(("2026-10-25", "2026-10-25"), "2026-10-25T14:00", "2026-10-24T14:01", "2026-10-18T14:01"),
            "2025-10-25T14:01",
            id="a day of 25 hours",
        ),
        pytest.param(
            *(("2026-03-30", "2026-03-30"), "2026-03-30T02:30", "2026-03-29T03:31", "2026-03-23T02:31"),
            "2025-03-30T03:31",
            id="a time that does not exist before",
        ),
        pytest.param(
            *(("2026-11-16", "2026-11-22"), "2026-11-18T23:59:59", "2026-11-12T00:00", "2026-11-12T00:00"),
            "2025-11-19T00:00",
            id="the last minute of a day",
        ),
        pytest.param(
            *(("2024-02-28", "2024-03-01"), "2024-02-29T10:00", "2024-02-26T10:01", "2024-02-22T10:01"),
            "2023-02-28T10:01",
            id="29 February",
        ),
        pytest.param(
            *(("2024-02-28", "2024-02-28"), "2024-02-28T23:59:30", "2024-02-28T00:00", "2024-02-22T00:00"),
            "2023-03-01T00:00",
            id="the day before 29 February",
        ),
        pytest.param(
            *(("2026-11-18", "2026-11-18"), "2026-11-18T00:00", "2026-11-17T00:01", "2026-11-11T00:01"),
            "2025-11-18T00:01",
            id="the first minute",
        ),
    ],
)
def test_as_much_of_the_other_range_as_has_passed(
    range_of: tuple[str, str], now: str, by_days: str, by_weeks: str, by_year: str
) -> None:
    """Up to the same local time, in full minutes."""
    span = parse_range(*range_of, "Europe/Berlin", 0)
    now_ms, *ends = (parse_range(None, text, "Europe/Berlin", 0).to_ms for text in (now, by_days, by_weeks, by_year))
    until_ms = passed(span, now_ms)
    found = [previous(span, until_ms), shifted_weeks(span, until_ms=until_ms), year_before(span, until_ms)]
    assert [end for _, end in found] == ends
    assert [start for start, _ in found] == [of(span)[0] for of in (previous, shifted_weeks, year_before)]


def test_a_skipped_day_does_not_count_up_to_the_same_time() -> None:
    """There was no 30 December 2011 in Apia."""
    span = parse_range("2011-12-31", "2012-01-01", "Pacific/Apia", 0)
    now_ms = parse_range(None, "2011-12-31T08:00", "Pacific/Apia", 0).to_ms
    _, end_ms = previous(span, passed(span, now_ms))
    assert end_ms == parse_range(None, "2011-12-28T08:01", "Pacific/Apia", 0).to_ms


@pytest.fixture
def looked_up(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets each second of which an offset is looked up."""
    found, offset = list[int](), timeranges._offset

    def counted(zone: ZoneInfo, second: int) -> timedelta:
        found.append(second)
        return offset(zone, second)

    monkeypatch.setattr(timeranges, "_offset", counted)
    return found


ODD_ZONES = ["UTC", "Pacific/Apia", "Pacific/Kiritimati", "Kwajalein", "Africa/Casablanca"]


@pytest.mark.parametrize("tz", ODD_ZONES)
def test_the_previous_range_takes_no_longer_for_131_years(tz: str, looked_up: list[int]) -> None:
    """It is computed from the days that a zone skipped: the offsets of all days before are not looked up."""
    spans = [parse_range(*days, tz, 0) for days in (("1970-01-02", "2100-12-31"), ("2025-11-01", "2026-10-31"))]
    timeranges._skipped_days(zone(tz))
    looked_up.clear()
    for span in spans:
        previous(span)
    assert len(looked_up) < 200


@pytest.mark.parametrize("tz", ODD_ZONES)
def test_months_of_131_years_take_few_look_ups(tz: str, looked_up: list[int]) -> None:
    """Two for each, and more where the clock changes near its first day; a share link may ask for so much."""
    span = parse_range("1970-01-02", "2100-12-31", tz, 0)
    looked_up.clear()
    months = len(buckets(span, "month"))
    assert months == 131 * 12
    assert len(looked_up) < 3 * months


@cases("now", ["2026-11-17T23:59:59.999", "2026-11-20T00:00", "2026-12-01"])
def test_a_range_that_is_over_or_has_not_begun_has_no_part_that_passed(now: str) -> None:
    span = parse_range("2026-11-18", "2026-11-19", "UTC", 0)
    assert passed(span, parse_range(now, "2100-01-01", "UTC", 0).from_ms) is None


@cases(
    ("range_of", "tz", "by_year", "expected"),
    [
        # Both times are in the hour that occurs twice, the end in its repetition.
        pytest.param(
            ("2026-10-25T00:34:30Z", "2026-10-25T01:04:30Z"),
            *("Atlantic/Azores", False, ("2025-10-26T00:34:30Z", "2025-10-26T01:04:30Z")),
            id="52 weeks before, when it occurs twice too",
        ),
        pytest.param(
            ("2026-10-25T00:34:30Z", "2026-10-25T01:04:30Z"),
            *("Atlantic/Azores", True, ("2025-10-25T00:34:30Z", "2025-10-25T01:04:30Z")),
            id="a year before",
        ),
        # 02:50 to 03:10: on the other day the clock goes from 02:00 to 03:00.
        pytest.param(
            ("2026-03-30T00:50:00Z", "2026-03-30T01:10:00Z"),
            *("Europe/Berlin", True, ("2025-03-30T01:50:00Z", "2025-03-30T02:10:00Z")),
            id="a gap",
        ),
        pytest.param(
            ("2012-12-30", "2012-12-30"),
            *("Pacific/Apia", True, ("2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z")),
            id="a day that was skipped",
        ),
    ],
)
def test_a_range_to_compare_with_that_would_be_empty_is_as_long(
    range_of: tuple[str, str], tz: str, by_year: bool, expected: tuple[str, str]
) -> None:
    span = parse_range(*range_of, tz, 0)
    found = year_before(span) if by_year else shifted_weeks(span, by_year=True)
    assert found == tuple(ms(text.rstrip("Z")) for text in expected)
    middle_ms = (span.from_ms + span.to_ms) // 2
    part = year_before(span, middle_ms) if by_year else shifted_weeks(span, by_year=True, until_ms=middle_ms)
    assert part == (found[0], found[0] + middle_ms - span.from_ms)


@pytest.mark.random_examples
@settings(deadline=None, max_examples=examples(400, default=60))
@given(ranges(), st.data())
def test_no_range_to_compare_with_is_empty(range_of: Range, data: st.DataObject) -> None:
    """In every zone, near its clock changes; with ends at times, and with as much of it as has passed."""
    assume(range_of.from_ms >= 2 * 366 * DAY_MS)
    until_ms = data.draw(st.none() | st.integers(range_of.from_ms + 1, range_of.to_ms))
    for whole, part in (
        (shifted_weeks(range_of), shifted_weeks(range_of, until_ms=until_ms)),
        (shifted_weeks(range_of, by_year=True), shifted_weeks(range_of, by_year=True, until_ms=until_ms)),
        (year_before(range_of), year_before(range_of, until_ms)),
        (previous(range_of), previous(range_of, until_ms)),
    ):
        assert part[0] == whole[0] < part[1] <= whole[1] <= range_of.from_ms
        if until_ms is None:
            assert part == whole
