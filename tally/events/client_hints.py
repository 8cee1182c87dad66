"""Read the three client hints that browsers send without being asked: Sec-CH-UA, Sec-CH-UA-Mobile, Sec-CH-UA-Platform.

Browsers built on Chromium send them on secure origins. They name the product (Brave, DuckDuckGo) where the User-Agent
is Chrome's, and the system where a page for desktops was requested. Only names of the tables below are used, so brands
that browsers make up to keep servers from comparing the list (GREASE, "Not)A;Brand") have no effect.

The client chooses these texts: a header over MAX_CHARACTERS and one that breaks the grammar (RFC 9651, of which only
strings, booleans and the parameter `v` are sent) are ignored, each by itself. They are no part of a visitor's identity,
and are kept in the cache of tally/events/user_agent.py alone.
"""

import re
from collections.abc import Callable
from typing import Final, NamedTuple

MAX_CHARACTERS: Final = 300  # a browser sends about 70

BRANDS: Final[dict[str, str]] = {
    "AVG Secure Browser": "AVG Secure Browser",
    "Aloha Browser": "Aloha Browser",
    "Avast Secure Browser": "Avast Secure Browser",
    "Avira Secure Browser": "Avira",
    "Brave": "Brave",
    "CCleaner Browser": "CCleaner Browser",
    "Coc Coc": "Coc Coc",
    "CocCoc": "Coc Coc",
    "DuckDuckGo": "DuckDuckGo",
    "Ecosia": "Ecosia",
    "Huawei Browser": "Huawei Browser",
    "HuaweiBrowser": "Huawei Browser",
    "Microsoft Edge": "Edge",
    "Norton Private Browser": "Norton Private Browser",
    "Norton Secure Browser": "Norton Private Browser",
    "Oculus Browser": "Meta Quest Browser",
    "Meta Quest Browser": "Meta Quest Browser",
    "Opera": "Opera",
    "Opera GX": "Opera",
    "OperaMobile": "Opera",
    "Samsung Internet": "Samsung Internet",
    "Vivaldi": "Vivaldi",
    "Whale": "Whale",
    "YaBrowser": "Yandex Browser",
    "Yandex": "Yandex Browser",
}

PLATFORMS: Final[dict[str, str]] = {
    "Android": "Android",
    "Chrome OS": "ChromeOS",
    "Chromium OS": "ChromeOS",
    "Linux": "Linux",
    "Windows": "Windows",
    "iOS": "iOS",
    "macOS": "macOS",
}

_TEXT: Final = r'"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\]){0,64})"'
_BRAND: Final = re.compile(_TEXT + r'[ \t]*(?:;[ \t]*v="([0-9]{1,4})(?:\.[0-9.]{0,20})?")?[ \t]*(?:,[ \t]*|$)')
_PLATFORM: Final = re.compile(_TEXT)


class ClientHints(NamedTuple):
    """What the three headers say; "" and None where one is absent, broken or names nothing of the tables."""

    browser: str
    browser_version: str
    os: str
    is_mobile: bool | None


NO_HINTS: Final = ClientHints("", "", "", None)


def hint_headers(header: Callable[[str], str | None]) -> tuple[str, str, str]:
    """Return the values of the three headers, "" for each that is absent or too long. `header` gets one by its name in
    lower case, and has to ignore the case of the names that were sent."""
    texts = (header("sec-ch-ua"), header("sec-ch-ua-mobile"), header("sec-ch-ua-platform"))
    brands, mobile, platform = (text if text and len(text) <= MAX_CHARACTERS else "" for text in texts)
    return brands, mobile, platform


def read_hints(headers: tuple[str, str, str]) -> ClientHints:
    """Return what the three headers say. Never raises."""
    brands, mobile, platform = headers
    browser, version = _brand(brands)
    system = _PLATFORM.fullmatch(platform)
    return ClientHints(
        browser=browser,
        browser_version=version,
        os=PLATFORMS.get(system[1], "") if system else "",
        is_mobile={"?0": False, "?1": True}.get(mobile),
    )


def _brand(brands: str) -> tuple[str, str]:
    """Return the listed brand that stands first and its version, "" where none is listed or the header is broken."""
    named, at = ("", ""), 0
    while at < len(brands):
        brand = _BRAND.match(brands, at)
        if brand is None:
            return "", ""
        if not named[0] and brand[1] in BRANDS:
            named = BRANDS[brand[1]], brand[2] or ""
        at = brand.end()
    return named
