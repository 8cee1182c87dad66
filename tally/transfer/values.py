"""Convert values of other systems to those of a line (tally/transfer/line_format.py).

A value that is unknown or too long costs the value, not the event: it becomes "" or is cut, as by collect where a
browser sends it. Names of browsers, systems and devices become those of tally/events/user_agent.py, so that imported
and collected events count together.
"""

import re
from collections.abc import Mapping
from functools import lru_cache

from tally.events.geoip import COUNTRIES
from tally.events.urls import BadUrl, imported_referrer, utm
from tally.events.validation import normal_language
from tally.timestamps import event_time_ms

MAX_LABEL = 100
MAX_EVENT_NAME = 200
_CACHED = 4_096

# Names in lower case, without spaces, hyphens and slashes -> ours.
_BROWSERS = {
    "android": "Android Browser",
    "androidbrowser": "Android Browser",
    "androidwebview": "Android WebView",
    "androidwebviewapp": "Android WebView",
    "chromemobile": "Chrome",
    "chromemobileios": "Chrome",
    "chromewebview": "Android WebView",
    "chromium": "Chromium",
    "chromiumwebview": "Android WebView",
    "crios": "Chrome",
    "duckduckgoprivacybrowser": "DuckDuckGo",
    "edge": "Edge",
    "edgechromium": "Edge",
    "edgeios": "Edge",
    "facebook": "Facebook",
    "firefoxmobile": "Firefox",
    "firefoxmobileios": "Firefox",
    "fxios": "Firefox",
    "ie": "Internet Explorer",
    "internetexplorer": "Internet Explorer",
    "instagram": "Instagram",
    "ios": "Safari",
    "ioswebview": "iOS WebView",
    "microsoftedge": "Edge",
    "miui": "Mi Browser",
    "miuibrowser": "Mi Browser",
    "mobileapp": "",
    "mobilesafari": "Safari",
    "operamini": "Opera Mini",
    "operamobile": "Opera",
    "safariinapp": "iOS WebView",
    "samsung": "Samsung Internet",
    "samsungbrowser": "Samsung Internet",
    "samsunginternet": "Samsung Internet",
    "silk": "Silk",
    "webkit": "",
    "yandexbrowser": "Yandex Browser",
}
_PLAIN_BROWSERS = {name.lower(): name for name in ("Chrome", "Firefox", "Safari", "Opera", "Brave", "Vivaldi")}
_SYSTEMS = {
    "amazonos": "Fire OS",
    "androidos": "Android",
    "chromeos": "ChromeOS",
    "chromiumos": "ChromeOS",
    "gnulinux": "Linux",
    "ios": "iOS",
    "ipados": "iOS",
    "mac": "macOS",
    "macos": "macOS",
    "macosx": "macOS",
    "macintosh": "macOS",
    "osx": "macOS",
    "ubuntu": "Linux",
    "debian": "Linux",
    "fedora": "Linux",
    "windows": "Windows",
    "windowsmobile": "Windows Mobile",
    "windowsphone": "Windows Phone",
}
_PLAIN_SYSTEMS = {name.lower(): name for name in ("Android", "Linux", "Tizen", "KaiOS", "HarmonyOS", "tvOS", "webOS")}
_DEVICES = {
    "desktop": "desktop",
    "laptop": "desktop",
    "ultra-wide": "desktop",
    "mobile": "mobile",
    "smartphone": "mobile",
    "phablet": "mobile",
    "feature phone": "mobile",
    "tablet": "tablet",
    "tv": "tv",
    "smart tv": "tv",
    "console": "console",
}
_DESKTOP_SYSTEMS = frozenset(("Windows", "macOS", "Linux", "ChromeOS"))
# The narrowest tablets are 600 CSS pixels wide; phones in portrait have under 500.
_TABLET_WIDTH = 600
_UTC, _ZERO = frozenset(("", "Z", "+00", "+00:00", " UTC")), frozenset(("", "00", "00:00"))
_REGION = re.compile(r"[A-Z0-9]{1,3}")
_UTM = ("utm_source", "utm_medium", "utm_campaign", "utm_content", "utm_term")
_UNKNOWN = frozenset(("", "unknown", "(not set)", "not set", "unk", "other", "null", "xx"))


def label(text: str, most: int = MAX_LABEL) -> str:
    """Return a text that fits a dimension: "" for what other systems write where they have nothing."""
    return "" if text.lower() in _UNKNOWN else text[:most]


def referrer(text: str) -> str:
    """Return a referrer as it is stored, from a URL or a host with or without a path; "" where it is neither."""
    try:
        return imported_referrer(text) if text else ""
    except BadUrl:
        return ""


def pathname(path: str) -> str:
    """Return a path as it is stored, with its first slash."""
    return path if path.startswith("/") else f"/{path}"


def utm_columns(row: Mapping[str, str]) -> dict[str, str]:
    """Return the UTM values that a row has in columns of these names."""
    return {name: row[name][:MAX_LABEL] for name in _UTM if row.get(name)}


def campaign(query: str) -> dict[str, str]:
    """Return the UTM values of a query as fields of a line."""
    if "utm_" not in query:
        return {}
    return {f"utm_{name}": value for name, value in utm(query)._asdict().items() if value}


def country(text: str) -> str:
    """Return an ISO 3166-1 alpha-2 code in upper case, "" for another text."""
    code = text.upper()
    return code if code in COUNTRIES else ""


@lru_cache(1_024)
def language(text: str) -> str:
    """Return a language tag in its usual case, "" for another text."""
    return normal_language(text)


def region(country: str, text: str) -> str:
    """Return an ISO 3166-2 code of a country, from the code with or without the country; "" for another text."""
    code = text.upper().removeprefix(f"{country}-")
    return f"{country}-{code}" if country and _REGION.fullmatch(code) else ""


def utc_ms(text: str) -> int:
    """Return the milliseconds of a time such as `2026-11-21 10:00:00.123+00`, in UTC unless it has an offset.

    Raises ValueError.
    """
    fraction_ms, rest = 0, text[19:]
    if rest[:1] == ".":
        digits, _, offset = rest[1:].removesuffix("Z").partition("+")
        if digits.isascii() and digits.isdecimal() and offset in _ZERO:
            fraction_ms, rest = int(digits[:3].ljust(3, "0")), ""
    minute = text[14:16] + text[17:19]
    if (
        rest in _UTC
        and text[13:17:3] == "::"
        and len(minute) == 4
        and minute.isascii()
        and minute.isdecimal()
        and minute[0] < "6"
        and minute[2] < "6"
    ):
        return _hour_ms(text[:13]) + (int(minute[:2]) * 60 + int(minute[2:])) * 1_000 + fraction_ms
    return event_time_ms(text.removesuffix(" UTC"))


@lru_cache(maxsize=16_384)  # two years of hours, 3 MB
def _hour_ms(text: str) -> int:
    return event_time_ms(f"{text}:00:00Z")


@lru_cache(_CACHED)
def browser(text: str) -> str:
    """Return our name of a browser, without a version."""
    name = _plain(text)
    return _BROWSERS.get(name, _PLAIN_BROWSERS.get(name, label(text)))


@lru_cache(_CACHED)
def system(text: str) -> tuple[str, str]:
    """Return our name of a system and its version, from a text with or without one: `Windows 10`, `macOS 10.15`."""
    name, version = split_version(text)
    plain = _plain(name)
    ours = _SYSTEMS.get(plain) or _PLAIN_SYSTEMS.get(plain) or ("Windows" if plain[:7] == "windows" else label(name))
    return ours, os_version(ours, version)


@lru_cache(_CACHED)
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
    return _DEVICES.get(text.lower(), "")


def device_of(system: str, width: int) -> str:
    """Return the kind of device of one of our systems with a screen of this width in CSS pixels (0: unknown)."""
    if system in _DESKTOP_SYSTEMS:
        return "desktop"
    if system in ("iOS", "Android") and width > 0:
        return "tablet" if width >= _TABLET_WIDTH else "mobile"
    return ""


def _plain(text: str) -> str:
    return text.lower().replace(" ", "").replace("-", "").replace("/", "").replace("_", "")
