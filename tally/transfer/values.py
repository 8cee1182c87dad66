"""Convert values of other systems to those of a line (tally/transfer/line_format.py).

A value that is unknown or too long costs the value, not the event: it becomes "" or is cut, as by collect where a
browser sends it. Names of browsers, systems and devices become those of collected events (tally/transfer/names.py), so
that both count together.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar, cast

from tally.events.geoip import COUNTRIES
from tally.events.urls import BadUrl, imported_referrer, utm
from tally.events.validation import normal_language
from tally.transfer.names import BROWSERS, DEVICES, HOSTS, SYSTEMS, plain

MAX_LABEL = 100
MAX_EVENT_NAME = 200
# Results of a few texts, 2 MB a function. A line of a file may have texts of up to 1 MiB.
_CACHED = 4_096
_LONGEST_CACHED = 400

_DESKTOP_SYSTEMS = frozenset(("Windows", "macOS", "Linux", "ChromeOS"))
# The narrowest tablets are 600 CSS pixels wide; phones in portrait have under 500.
_TABLET_WIDTH = 600
_REGION = re.compile(r"[A-Z0-9]{1,3}")
UTM = ("utm_source", "utm_medium", "utm_campaign", "utm_content", "utm_term")
_UNKNOWN = frozenset(("", "unknown", "(not set)", "not set", "unk", "other", "null", "xx"))


_Function = TypeVar("_Function", bound=Callable[..., Any])


def cached(function: _Function) -> _Function:
    """Return a function of texts that keeps its latest results, of short texts only. A value that is no text is ""."""
    short = lru_cache(_CACHED)(function)

    def call(*texts: Any) -> Any:
        try:
            is_short = len("".join(texts)) <= _LONGEST_CACHED
        except TypeError:
            return call(*[text if isinstance(text, str) else "" for text in texts])
        return short(*texts) if is_short else function(*texts)

    return cast(_Function, call)


def label(text: str, most: int = MAX_LABEL) -> str:
    """Return a text that fits a dimension: "" for what other systems write where they have nothing."""
    return "" if text.lower() in _UNKNOWN else text[:most]


@cached
def referrer(text: str) -> str:
    """Return a referrer as it is stored, from a URL or a host with or without a path; "" where it is neither."""
    try:
        return imported_referrer(text) if text else ""
    except BadUrl:
        return ""


def source(name: str) -> dict[str, str]:
    """Return where a visit came from as fields of a line, from a name in place of a referrer: the host of its pages or,
    as for Email and RSS, which are no website, `utm_source`."""
    host = HOSTS.get(plain(name)) or (referrer(name) if "." in name and " " not in name else "")
    return {"referrer": host} if host else {"utm_source": label(name)}


def pathname(path: str) -> str:
    """Return a path as it is stored, with its first slash."""
    return path if path.startswith("/") else f"/{path}"


@cached
def utm_columns(*texts: str) -> dict[str, str]:
    """Return the UTM values of texts of the columns UTM."""
    return {name: text[:MAX_LABEL] for name, text in zip(UTM, texts, strict=True) if text}


def campaign(query: str) -> dict[str, str]:
    """Return the UTM values of a query as fields of a line."""
    return _campaign(query) if "utm_" in query else {}


@cached
def _campaign(query: str) -> dict[str, str]:
    return {name: value for name, value in zip(UTM, utm(query), strict=True) if value}


def country(text: str) -> str:
    """Return an ISO 3166-1 alpha-2 code in upper case, "" for another text."""
    code = text.upper()
    return code if code in COUNTRIES else ""


@cached
def language(text: str) -> str:
    """Return a language tag in its usual case, "" for another text."""
    return normal_language(text)


@cached
def place(country_text: str, region_text: str) -> dict[str, str]:
    """Return country and region as fields of a line, from a country's code and that of a region in it."""
    code = country(country_text)
    return {"country": code, "region": region(code, region_text)}


def region(country: str, text: str) -> str:
    """Return an ISO 3166-2 code of a country, from the code with or without the country; "" for another text."""
    code = text.upper().removeprefix(f"{country}-")
    return f"{country}-{code}" if country and _REGION.fullmatch(code) else ""


@cached
def browser(text: str) -> str:
    """Return our name of a browser, without a version."""
    return BROWSERS.get(plain(text), label(text))


@cached
def system(text: str) -> tuple[str, str]:
    """Return our name of a system and its version, from a text with or without one: `Windows 10`, `macOS 10.15`."""
    whole = SYSTEMS.get(plain(text))
    if whole is not None:
        return whole, ""
    name, version = split_version(text)
    compared = plain(name)
    ours = SYSTEMS.get(compared, "Windows" if compared[:7] == "windows" else label(name))
    return ours, os_version(ours, version)


@cached
def split_version(text: str) -> tuple[str, str]:
    """Return a name and the version after it, "" where there is none: `Chrome 86` is Chrome and 86."""
    name, _, version = text.rpartition(" ")
    return (name, version) if name and version[:1].isdigit() else (text, "")


def major(version: str) -> str:
    """Return the first number of a browser's version, as it is collected."""
    first = version.partition(".")[0]
    return first if first.isascii() and first.isdecimal() and len(first) <= 4 else ""


def os_version(system: str, version: str) -> str:
    """Return the version of a system where browsers send the true one (tally/events/user_agent.py), else ""."""
    parts = version.split(".")
    if not major(version):
        return ""
    if system == "Windows":
        return version if version in ("7", "8", "8.1") else ""
    if system == "macOS":
        return label(version) if int(parts[0]) >= 11 or (parts[:2] < ["10", "15"] and parts[1:2] != ["9"]) else ""
    return label(version) if system in ("iOS", "Android") else ""


def device(text: str) -> str:
    """Return our kind of a device, "" where it is unknown."""
    return DEVICES.get(text.lower(), "")


def device_of(system: str, width: int) -> str:
    """Return the kind of device of one of our systems with a screen of this width in CSS pixels (0: unknown)."""
    if system in _DESKTOP_SYSTEMS:
        return "desktop"
    if system in ("iOS", "Android") and width > 0:
        return "tablet" if width >= _TABLET_WIDTH else "mobile"
    return ""
