"""Periods of summaries: weekdays in every zone, hours that the clocks skip or repeat, days that a zone skipped."""

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise

from tally.notices.periods import Days, Period, days_before, last_due_ms, local_day, next_due_ms
from tally.timeranges import WeekStart, zone
from tests.support.cases import cases


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


@cases(
    ("period", "day", "week_start", "expected"),
    [
        ("day", "2026-03-01", "monday", ("2026-02-28", "2026-02-28")),
        ("week", "2026-11-23", "monday", ("2026-11-16", "2026-11-22")),
        ("week", "2026-11-22", "monday", ("2026-11-09", "2026-11-15")),
        ("week", "2026-11-22", "sunday", ("2026-11-15", "2026-11-21")),
        ("week", "2026-01-01", "monday", ("2025-12-22", "2025-12-28")),
        ("month", "2026-03-01", "monday", ("2026-02-01", "2026-02-28")),
        ("month", "2026-01-31", "monday", ("2025-12-01", "2025-12-31")),
        ("month", "2028-03-15", "monday", ("2028-02-01", "2028-02-29")),
    ],
)
def test_days_of_periods(period: Period, day: str, week_start: WeekStart, expected: tuple[str, str]) -> None:
    found = days_before(period, date.fromisoformat(day), week_start)
    assert found == Days(*map(date.fromisoformat, expected))


@cases(
    ("period", "hour", "name", "after", "expected"),
    [
        ("day", 8, "UTC", "2026-11-29T07:59:59+00:00", "2026-11-29T08:00:00+00:00"),
        ("day", 8, "UTC", "2026-11-29T08:00:00+00:00", "2026-11-30T08:00:00+00:00"),
        # East of UTC Monday begins while it is Sunday there, and the summary is due before Monday begins in UTC.
        ("week", 8, "Pacific/Auckland", "2026-11-28T00:00:00+00:00", "2026-11-30T08:00:00+13:00"),
        ("week", 8, "Pacific/Kiritimati", "2026-11-28T00:00:00+00:00", "2026-11-30T08:00:00+14:00"),
        ("week", 8, "Pacific/Honolulu", "2026-11-30T12:00:00+00:00", "2026-11-30T08:00:00-10:00"),
        ("month", 0, "Asia/Tokyo", "2026-11-30T14:59:59+00:00", "2026-12-01T00:00:00+09:00"),
        ("month", 0, "Asia/Tokyo", "2026-11-30T15:00:00+00:00", "2027-01-01T00:00:00+09:00"),
        # 2:00 does not exist on 29 March 2026 in Berlin, and exists twice on 25 October.
        ("day", 2, "Europe/Berlin", "2026-03-28T12:00:00+00:00", "2026-03-29T03:00:00+02:00"),
        ("day", 2, "Europe/Berlin", "2026-03-29T01:00:00+00:00", "2026-03-30T02:00:00+02:00"),
        ("day", 2, "Europe/Berlin", "2026-10-24T12:00:00+00:00", "2026-10-25T02:00:00+02:00"),
        ("day", 2, "Europe/Berlin", "2026-10-25T00:00:00+00:00", "2026-10-26T02:00:00+01:00"),
        # Half an hour is skipped on Lord Howe Island: 2:00 is 2:30, and the next full hour 3:00.
        ("day", 2, "Australia/Lord_Howe", "2026-10-03T12:00:00+00:00", "2026-10-04T03:00:00+11:00"),
        # Midnight is skipped in Cairo.
        ("day", 0, "Africa/Cairo", "2026-04-23T12:00:00+00:00", "2026-04-24T01:00:00+03:00"),
        # Samoa skipped 30 December 2011.
        ("day", 8, "Pacific/Apia", "2011-12-29T19:00:00+00:00", "2011-12-31T08:00:00+14:00"),
    ],
)
def test_when_the_next_is_due(period: Period, hour: int, name: str, after: str, expected: str) -> None:
    due_ms = next_due_ms(period, hour, zone(name), ms(after))
    assert datetime.fromtimestamp(due_ms / 1000, UTC) == datetime.fromisoformat(expected)
    assert last_due_ms(period, hour, zone(name), due_ms) == due_ms
    assert last_due_ms(period, hour, zone(name), due_ms - 1) < due_ms


@cases("name", ["UTC", "Europe/Berlin", "Pacific/Apia", "America/Sao_Paulo", "Asia/Kathmandu", "Pacific/Kiritimati"])
def test_a_year_has_each_period_once(name: str) -> None:
    tz = zone(name)
    for period, count in (("day", 365), ("week", 52), ("month", 12)):
        at_ms, seen = ms("2026-01-01T12:00:00+00:00"), []
        for _ in range(count):
            at_ms = next_due_ms(period, 3, tz, at_ms)  # type: ignore[arg-type]
            seen.append(days_before(period, local_day(at_ms, tz)))  # type: ignore[arg-type]
        assert len({one.first for one in seen}) == count
        assert all(after.first == before.last + timedelta(days=1) for before, after in pairwise(seen))
