"""tally/transfer/times.py: the quick ways to read a time give what the general one gives."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tally.timestamps import event_time_ms
from tally.transfer.times import iso_ms, log_ms, utc_ms
from tests.support.cases import cases

# The beginning and end of an hour, and each place of a minute and second.
TIMES = [datetime(2024, 2, 29, 23, 59, 59, 999_000, UTC) + timedelta(milliseconds=61_001 * n) for n in range(70)]


@pytest.mark.parametrize("time", TIMES, ids=str)
def test_usual_forms(time: datetime) -> None:
    ms = event_time_ms(time.isoformat())
    text, second = time.strftime("%Y-%m-%d %H:%M:%S"), ms // 1_000 * 1_000
    assert iso_ms(time.isoformat(timespec="milliseconds")) == ms
    assert utc_ms(text) == utc_ms(f"{text} UTC") == utc_ms(f"{text.replace(' ', 'T')}Z") == second
    assert utc_ms(f"{text}.{ms % 1_000:03}+00") == utc_ms(f"{text}.{ms % 1_000:03}999") == ms
    assert log_ms(time.strftime("%d/%b/%Y:%H:%M:%S +0000")) == second
    assert log_ms(time.strftime("%d/%b/%Y:%H:%M:%S -0130")) == second + 90 * 60_000


@cases(
    ("read", "text", "ms"),
    [
        (iso_ms, "1970-01-01", 0),
        (iso_ms, "1970-01-01T00:00:01.0005Z", 1_000),
        (iso_ms, "1970-01-01T00:00:01,500Z", 1_500),
        (iso_ms, "1970-01-01T01:00:00.000+01:00", 0),
        (utc_ms, "1970-01-01 01:00:00+01", 0),
        (utc_ms, "1970-01-01 00:00:00.5", 500),
        (utc_ms, "1970-01-01 01:00:00.5+01:00", 500),
        # Leap seconds are the second before them.
        (iso_ms, "2016-12-31T23:59:60.250Z", 1_483_228_799_250),
        (iso_ms, "2017-01-01T05:29:60.000+05:30", 1_483_228_799_000),
        (utc_ms, "2016-12-31 23:59:60", 1_483_228_799_000),
        (utc_ms, "2016-12-31 23:59:60.5+00", 1_483_228_799_500),
        (log_ms, "31/Dec/2016:23:59:60 +0000", 1_483_228_799_000),
        (log_ms, "31/Dec/2016:18:59:60 -0500", 1_483_228_799_000),
    ],
    ids=str,
)
def test_other_forms(read: Any, text: str, ms: int) -> None:
    assert read(text) == ms


NO_TIMES: dict[Callable[[str], int], tuple[str, ...]] = {
    iso_ms: (
        *("", "x", "2024-01-01T10:60:00.000Z", "2024-01-01T10:00:00.1x3Z", "2024-01-01T10:00:60.000Z"),
        *("2024-01-01T25:00:00.000Z", "2024-01-01T10:٠0:00.000Z"),
    ),
    utc_ms: ("", "2024-01-01 10:00:61", "2024-02-30 10:00:00", "2024-01-01 10:00:00.x"),
    log_ms: (
        *("", "01/Jan/2024:10:00:60 +0000", "01/Foo/2024:10:00:00 +0000", "01/Jan/2024:24:00:00 +0000"),
        *("01/Jan/2024 10:00:00", "1/Jan/2024:10:00:00 +0000"),
    ),
}


@cases(("read", "text"), [(read, text) for read, texts in NO_TIMES.items() for text in texts], ids=str)
def test_what_is_no_time(read: Callable[[str], int], text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the importers have the messages
        read(text)
