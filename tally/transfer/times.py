"""Read the times of files. Most are in an hour that other times had, so that of each only minutes and seconds are new.

Hours are cached; minutes, seconds and milliseconds are looked up in tables, which also refuse what is none. A time in
another form than those below is read by tally/timestamps.py, in 4 µs rather than 0.5.
"""

import re
from functools import lru_cache

from tally.timestamps import DAY_MS, SECOND_MS, event_time_ms

# Milliseconds by `59:59`, and by the digits of a fraction.
_CLOCK = {f"{minute:02}:{second:02}": (60 * minute + second) * 1_000 for minute in range(60) for second in range(60)}
_FRACTION = {f"{ms:03}": ms for ms in range(1_000)}
# Two years of hours, 3 MB; a file may be in any order.
_CACHED = 16_384
_EXPORTED = frozenset(("+00:00", "Z"))
_UTC, _ZERO = frozenset(("", "Z", "+00", "+00:00", " UTC")), frozenset(("", "00", "00:00"))
_AFTER_FRACTION = frozenset(("", "Z", "+00", "+00:00"))
_LOG = re.compile(r"([0-9]{2})/([A-Z][a-z]{2})/([0-9]{4}):([0-9]{2}):00:00 ([+-][0-9]{4})")
_NAMES = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTHS = {name: number for number, name in enumerate(_NAMES, 1)}


def iso_ms(text: str) -> int:
    """Return the milliseconds of an ISO 8601 time; the form of an export is `2026-11-21T10:00:00.123+00:00`.

    Raises ValueError.
    """
    clock_ms, fraction_ms = _CLOCK.get(text[14:19]), _FRACTION.get(text[20:23])
    if clock_ms is None or fraction_ms is None or text[13:20:6] != ":." or text[23:] not in _EXPORTED:
        return event_time_ms(text)
    return _hour_ms(text[:13]) + clock_ms + fraction_ms


def utc_ms(text: str) -> int:
    """Return the milliseconds of a time such as `2026-11-21 10:00:00.123+00`, in UTC unless it has an offset.

    Raises ValueError.
    """
    fraction_ms, rest = 0, text[19:]
    if rest[4:] in _AFTER_FRACTION and rest[:1] == "." and rest[1:4] in _FRACTION:
        fraction_ms, rest = _FRACTION[rest[1:4]], ""
    elif rest[:1] == ".":
        digits, _, offset = rest[1:].removesuffix("Z").partition("+")
        if digits.isascii() and digits.isdecimal() and offset in _ZERO:
            fraction_ms, rest = int(digits[:3].ljust(3, "0")), ""
    clock_ms = _CLOCK.get(text[14:19])
    if clock_ms is None or text[13:14] != ":" or rest not in _UTC:
        return event_time_ms(text.removesuffix(" UTC"))
    return _hour_ms(text[:13]) + clock_ms + fraction_ms


def log_ms(text: str) -> int:
    """Return the milliseconds of a time of an access log, `10/Oct/2000:13:55:36 -0700`. Raises ValueError."""
    clock, is_leap = text[15:20], text[17:20] == ":60"
    clock_ms = _CLOCK.get(f"{clock[:3]}59" if is_leap else clock)
    if clock_ms is None or text[14:21:6] != ": ":
        raise ValueError(text)
    ms = _log_hour_ms(text[:14], text[21:]) + clock_ms
    # As in tally/timestamps.py.
    if is_leap and ms % DAY_MS < DAY_MS - SECOND_MS:
        raise ValueError(text)
    return ms


@lru_cache(_CACHED)
def _hour_ms(text: str) -> int:
    return event_time_ms(f"{text}:00:00Z")


@lru_cache(_CACHED)
def _log_hour_ms(hour: str, offset: str) -> int:
    match = _LOG.fullmatch(f"{hour}:00:00 {offset}")
    if match is None or match[2] not in _MONTHS:
        raise ValueError(hour)
    return event_time_ms(f"{match[3]}-{_MONTHS[match[2]]:02}-{match[1]}T{match[4]}:00:00{match[5]}")
