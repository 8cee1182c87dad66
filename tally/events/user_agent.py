"""What a User-Agent header says: browser, system and its version, kind of device, whether a crawler sent it.

Rules of this room:
- It says only what the header says; what the header does not tell is '', never a guess. HTTP libraries
  and apps (okhttp, CFNetwork, curl) name no browser; a version that its maker has frozen is no version.
- Pure: text in, Agent out, nothing written, nothing looked up. User-Agents stay in memory (CONTRACT.md,
  "visitor"), in the one bounded cache inside Agents.
- A client chooses this text. It is cut to MAX_CHARACTERS before anything else looks at it, and no pattern
  here nests repetitions: the worst header costs what 512 characters cost.

Browser and system are named by ua-parser's tables, then renamed where those split one product in two
(BROWSERS, SYSTEMS). Only two of its three tables are loaded: the third, for devices, takes as much memory
again and knows no kinds of device. These come from DEVICES, first match wins; crawlers from crawlers.py
and _CRAWLER.

What no server can know: an iPad asking for desktop pages sends the header of a Mac, Brave that of Chrome.
"""

import re
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Final

from ua_parser import BasicResolver, RegexResolver
from ua_parser.core import OS, Domain, Matchers, Resolver
from ua_parser.loaders import load_lazy_builtins

from tally.events.crawlers import BOTS, NAMES, OPENINGS

MAX_CHARACTERS: Final = 512  # our choice: in-app browsers reach 400, everything telling stands at the front
REMEMBERED: Final = 4_096  # our choice: a busy site's hour; 4 MB if all are at their longest
MAX_LABEL: Final = 100  # CONTRACT.md, sizes: every other label 100 characters

BROWSERS: Final[dict[str, str]] = {
    # one product under a name per platform
    "Chrome Mobile": "Chrome",
    "Chrome Mobile iOS": "Chrome",
    "Mobile Safari": "Safari",
    "Firefox Mobile": "Firefox",
    "Firefox iOS": "Firefox",
    "Firefox Alpha": "Firefox",
    "Firefox Beta": "Firefox",
    "Edge Mobile": "Edge",
    "IE": "Internet Explorer",
    "IE Mobile": "Internet Explorer",
    "IE Large Screen": "Internet Explorer",
    "Opera Mobile": "Opera",
    "Opera Tablet": "Opera",
    "Opera Touch": "Opera",
    "Opera GX": "Opera",  # on the desktop it seldom says GX, so its share would be a phone's only
    "DuckDuckGo Mobile": "DuckDuckGo",
    "Ecosia Android": "Ecosia",
    "Ecosia iOS": "Ecosia",
    "QQ Browser Mobile": "QQ Browser",
    "QQ Browser Mini": "QQ Browser",
    # a page inside an app that does not name itself
    "Chrome Mobile WebView": "Android WebView",
    "Mobile Safari UI/WKWebView": "iOS WebView",
    # names nobody says
    "Android": "Android Browser",
    "MiuiBrowser": "Mi Browser",
    "Amazon Silk": "Silk",
    "WeChat Browser": "WeChat",
    "Google": "Google App",
    "Oculus Browser": "Meta Quest Browser",
    # the table's name for any bare WebKit, be it a mail program, a Mac app or a television: it tells nothing
    "Apple Mail": "",
    "Other": "",
}

# Browsers the tables take for another, by a token that only they send.
NAMED_BROWSERS: Final[tuple[tuple[re.Pattern[str], str], ...]] = (
    (re.compile(r"\b(?:Focus|Klar)/"), "Firefox Focus"),
    (re.compile(r"\[LinkedInApp\]"), "LinkedIn"),
    (re.compile(r"\bPlayStation\b", re.IGNORECASE), "PlayStation Browser"),
    (re.compile(r"\bNintendo"), "Nintendo Browser"),
)

SYSTEMS: Final[dict[str, str]] = {
    "Mac OS X": "macOS",
    "Mac OS": "macOS",
    "Chrome OS": "ChromeOS",
    "ATV OS X": "tvOS",
    "WatchOS": "watchOS",
    "Web0S": "webOS",
    "Chromecast Android": "Chromecast",
    "Chromecast Linux": "Chromecast",
    "Chromecast Fuchsia": "Chromecast",
    "Chromecast SmartSpeaker": "Chromecast",
    "Other": "",
    # few browsers name their distribution: a list of those that do would be a list of packagers
    **dict.fromkeys(
        (
            "Arch Linux",
            "BackTrack",
            "CentOS",
            "Debian",
            "Fedora",
            "Gentoo",
            "Kubuntu",
            "Linux Mint",
            "Lubuntu",
            "Mageia",
            "Mandriva",
            "PCLinuxOS",
            "Puppy",
            "Red Hat",
            "SUSE",
            "Slackware",
            "Ubuntu",
            "openSUSE",
        ),
        "Linux",
    ),
}

NAMED_SYSTEMS: Final[tuple[tuple[re.Pattern[str], str], ...]] = (
    (re.compile(r"\b(?:Open)?Harmony(?:OS)?\b"), "HarmonyOS"),  # it may say Android as well
    (re.compile(r"\bPlayStation\b", re.IGNORECASE), "PlayStation"),
    (re.compile(r"\bNintendo"), "Nintendo"),
)

# First match wins, so the order is the rule: televisions and consoles also say Android, Windows or Mobile.
DEVICES: Final[tuple[tuple[str, re.Pattern[str]], ...]] = (
    (
        "tv",
        re.compile(
            r"\b(?:Smart|Android|Google|Apple|Opera|Hbb|Internet|Net|Mi|D)[ -]?TV|\bTV Safari\b|Web0S"
            r"|webOS\.TV|NetCast|\bAFT[A-Z0-9]{1,8}\b|BRAVIA|\bCrKey\b|Chromecast|\bRoku\b|VIDAA|Viera|MiBOX",
            re.IGNORECASE,
        ),
    ),
    ("console", re.compile(r"\bPlayStation\b|\bXbox\b|\bNintendo", re.IGNORECASE)),
    # on the head, in the car, on the wrist
    ("other", re.compile(r"OculusBrowser|PicoBrowser|Wolvic|\bTesla/|QtCarBrowser|\bApple ?Watch|\bwatchOS")),
    # "Tablet PC 2.0" is a component of Windows on desktops; KF... are Amazon's tablets, which may say Mobile
    ("tablet", re.compile(r"iPad|\bTablet\b(?! PC)|PlayBook|\bKindle\b|\bSilk/|\bKF[A-Z]{2,6}\b")),
    (
        "mobile",
        re.compile(
            r"\bMobi(?:le)?\b|iPhone|iPod|Opera Mini|Windows Phone|BlackBerry|\bBB10\b|\bKAIOS\b|\(Phone;"
            r"|Symbian"
        ),
    ),
    # "Linux" alone is not here: Android says it too, and so do libraries on servers
    ("desktop", re.compile(r"Windows|Macintosh|\bX11\b|\bCrOS\b|\(PC;")),
)

# Every browser and web view begins so; apps and HTTP libraries begin with their own name.
_BROWSER_OPENING: Final = ("Mozilla/", "Opera/", "UCWEB/")
_APPLE_PHONE: Final = re.compile(r"iPhone|iPad|iPod")
_ANDROID_REDUCED: Final = re.compile(r"\bAndroid 10; K\b")
_SAFARI_18: Final = re.compile(r"\bVersion/18\b")
# In any case, never within a longer word. CUBOT makes phones. By "+http" crawlers say who they are.
_CRAWLER: Final = re.compile(
    r"(?<![a-z])(?:" + "|".join(re.escape(name) for name in NAMES) + r")(?![a-z])"
    r"|(?:(?<!cu)bots?|crawlers?|spiders?|scrapers?)(?![a-z])"
    r"|^(?:" + "|".join(re.escape(opening) for opening in OPENINGS) + r")"
    r"|^Mozilla/.{0,500}\+https?://",
    re.IGNORECASE | re.ASCII,
)

_TOLD: Final = {name.lower(): name for name in (*NAMES, *BOTS)}
# The longest first: Google-InspectionTool before a shorter name that it begins with.
_TELLING: Final = re.compile(
    r"(?<![a-z])(?:" + "|".join(map(re.escape, sorted(_TOLD, key=len, reverse=True))) + r")(?![a-z])",
    re.IGNORECASE | re.ASCII,
)


IS_COMPILED: Final = RegexResolver is not None
"""Whether ua-parser-rs, the compiled engine, is installed. Without it ua-parser's engine in Python gives the same, in
several times the time, for each User-Agent that is not among the latest REMEMBERED."""


@dataclass(frozen=True, slots=True)
class Agent:
    """What one User-Agent says; '' where it does not say.

    device is one of desktop, mobile, tablet, tv, console, other (CONTRACT.md, fields beyond the seed), or ''.
    """

    browser: str
    os: str
    os_version: str
    device: str
    crawler: bool


@cache
def _installed_resolver() -> Resolver:
    """Return the fastest installed resolver, one for the process: its tables take 12 MB and 40 ms."""
    return (RegexResolver or BasicResolver)(browser_and_os_matchers())


class Agents:
    """Reads User-Agents and remembers the latest REMEMBERED of them."""

    def __init__(self, resolver: Resolver | None = None) -> None:
        """Use a resolver of one's own in place of the fastest installed one."""
        self._resolver = resolver or _installed_resolver()
        self._remembered = lru_cache(maxsize=REMEMBERED)(self._read)

    def of(self, user_agent: str) -> Agent:
        """Says what a User-Agent says. Any text will do: none raises."""
        return self._remembered(user_agent[:MAX_CHARACTERS])

    def _read(self, user_agent: str) -> Agent:
        # aiohttp hands on bytes that are no UTF-8 as lone surrogates, which the compiled parser refuses
        text = user_agent if user_agent.isascii() else user_agent.encode("utf-8", "replace").decode("utf-8")
        parsed = self._resolver(text, Domain.USER_AGENT | Domain.OS)
        browses = text.startswith(_BROWSER_OPENING)
        system = _named(NAMED_SYSTEMS, text) or _system(text, parsed.os, browses)
        return Agent(
            browser=_browser(text, parsed.user_agent.family if parsed.user_agent else "") if browses else "",
            os=system,
            os_version=_version(text, system, parsed.os),
            device=_device(text, browses),
            crawler=_CRAWLER.search(text) is not None,
        )


def crawler_name(user_agent: str) -> str:
    """The name in our own list by which a crawler's User-Agent is known; '' where it is not in it."""
    text = user_agent[:MAX_CHARACTERS]
    found = _TELLING.search(text)
    if found:
        return _TOLD[found[0].lower()]
    return next((name.rstrip("/") for name in OPENINGS if text.lower().startswith(name.lower())), "")


def browser_and_os_matchers() -> Matchers:
    """Gives ua-parser's tables without the one for devices."""
    browsers, systems, _ = load_lazy_builtins()
    return browsers, systems, []


def _named(names: tuple[tuple[re.Pattern[str], str], ...], text: str) -> str:
    return next((name for pattern, name in names if pattern.search(text)), "")


def _browser(text: str, family: str) -> str:
    return _named(NAMED_BROWSERS, text) or BROWSERS.get(family, family)[:MAX_LABEL]


def _system(text: str, parsed: OS | None, browses: bool) -> str:
    # An app's "CFNetwork/1496 Darwin/23.5" is the same on iPhones and Macs; the tables say iOS to both.
    if parsed is None or (not browses and "CFNetwork" in text and not _APPLE_PHONE.search(text)):
        return ""
    return SYSTEMS.get(parsed.family, parsed.family)[:MAX_LABEL]


def _version(text: str, system: str, parsed: OS | None) -> str:
    """Gives the version where it is true (CONTRACT.md, dimensions: frozen User-Agents tell nothing)."""
    if parsed is None:
        return ""
    parts = [part for part in (parsed.major, parsed.minor, parsed.patch) if part]
    version = ".".join(parts)[:MAX_LABEL]
    return version if system in _TRUE and _TRUE[system](text, parts) else ""


def _windows_is_true(text: str, parts: list[str]) -> bool:
    # Windows 11 says 10.
    return parts in (["7"], ["8"], ["8", "1"])


def _macos_is_true(text: str, parts: list[str]) -> bool:
    # Safari, Chrome and Firefox have all stayed at 10.15 since; 10.16 was macOS 11 to old programs.
    if not all(part.isdecimal() for part in parts[:2]):
        return False
    numbers = [int(part) for part in parts[:2]]
    return numbers >= [11] or [10, 0] <= numbers < [10, 15]


def _ios_is_true(text: str, parts: list[str]) -> bool:
    # From iOS 26 on WebKit says 18_6, 18_6_2 or 18_7, and Firefox says 18_7 everywhere: only a Version/18
    # beside it shows that it is meant. https://webkit.org/blog/17333/webkit-features-in-safari-26-0/
    return parts[:2] not in (["18", "6"], ["18", "7"]) or _SAFARI_18.search(text) is not None


def _android_is_true(text: str, parts: list[str]) -> bool:
    return _ANDROID_REDUCED.search(text) is None


# What is not here has no version: ChromeOS and Linux name builds, of the rest nobody has shown it to be true.
_TRUE: Final = {
    "Windows": _windows_is_true,
    "macOS": _macos_is_true,
    "iOS": _ios_is_true,
    "Android": _android_is_true,
}


def _device(text: str, browses: bool) -> str:
    for device, pattern in DEVICES:
        if device == "desktop" and "Android" in text:
            # Browsers on phones say Mobile, on tablets they do not. Apps say neither.
            return "tablet" if browses else ""
        if pattern.search(text):
            return device
    if not browses:
        return ""
    return "desktop" if "Linux" in text else "other" if "(" in text else ""
