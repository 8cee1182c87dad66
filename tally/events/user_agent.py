"""Parse a User-Agent header: browser and its version, system and its version, device, whether a crawler sent it.

- What the header does not contain is '', never a guess. HTTP libraries and apps (okhttp, CFNetwork, curl) name no
  browser; a version that browsers have frozen is no version.
- User-Agents stay in memory (docs/reference/definitions.md, "visitor"), in the one bounded cache of Agents.
- The client chooses this text. It is cut to MAX_CHARACTERS first, and no pattern here nests repetitions, so the time
  is bounded by that of 512 characters.

Browser and system are named by ua-parser's tables, then renamed where those split one product in two
(BROWSERS, SYSTEMS). Only two of its three tables are loaded: the third, for devices, takes as much memory
again and has no kinds of device. These come from DEVICES, first match wins; crawlers from crawlers.py
and _crawler.

Not detectable: an iPad that requests desktop pages sends the header of a Mac. Brave sends that of Chrome; its client
hints name it.
"""

import re
from dataclasses import replace
from functools import cache, lru_cache
from threading import Lock
from typing import TYPE_CHECKING, Final

from tally.events.client_hints import ClientHints, read_hints
from tally.events.crawlers import is_crawler, listed_name
from tally.events.request_context import Agent

if TYPE_CHECKING:  # imported with the tables: a server that starts needs neither (30 ms)
    from ua_parser.core import OS, Matchers, Resolver, UserAgent

MAX_CHARACTERS: Final = 512  # in-app browsers reach 400; what is parsed stands at the front
CACHED: Final = 4_096  # an hour of a busy site; 6 MB if all have the maximum length
MAX_LABEL: Final = 100  # the maximum of a label in docs/reference/collect-api.md

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
    "Opera GX": "Opera",  # on desktops its User-Agent seldom contains GX, so its share would be a phone's only
    "DuckDuckGo Mobile": "DuckDuckGo",
    "Ecosia Android": "Ecosia",
    "Ecosia iOS": "Ecosia",
    "QQ Browser Mobile": "QQ Browser",
    "QQ Browser Mini": "QQ Browser",
    # a page inside an app that does not name itself
    "Chrome Mobile WebView": "Android WebView",
    "Mobile Safari UI/WKWebView": "iOS WebView",
    # usual names of these products
    "Android": "Android Browser",
    "MiuiBrowser": "Mi Browser",
    "Amazon Silk": "Silk",
    "WeChat Browser": "WeChat",
    "Google": "Google App",
    "Oculus Browser": "Meta Quest Browser",
    "QtCarBrowser": "Tesla Browser",
    "Seznam prohlížeč": "Seznam Browser",
    "HiBrowser": "Hi Browser",
    "Baidu Explorer": "Baidu Browser",
    "Dragon": "Comodo Dragon",
    # code names of releases
    **dict.fromkeys(("Bon Echo", "GranParadiso", "Firefox (Minefield)", "Firefox (Namoroka)"), "Firefox"),
    "Firefox (Shiretoko)": "Firefox",
    # engines inside a product that does not name itself
    "Chrome Frame": "Chrome",
    "Crosswalk": "Android WebView",
    "Qt Web Engine": "Chromium",
    "QtWebEngine": "Chromium",
    # the table's names for any bare WebKit: a mail program, a Mac app or a television
    "Apple Mail": "",
    "WebKit Nightly": "",
    "HbbTV": "",
    "NetCast Smart TV": "",
    "Other": "",
}

# Pages inside apps, and browsers that the tables name only on some systems, by a token that only they send. The first
# one decides: several apps are built on WeChat's or Alibaba's. The version follows the token.
APPS: Final[tuple[tuple[str, str], ...]] = (
    ("wxwork/", "WeCom"),
    ("MicroMessenger/", "WeChat"),
    ("DingTalk/", "DingTalk"),
    ("AlipayClient/", "Alipay"),
    ("AliApp(AP/", "Alipay"),
    ("AliApp(TB/", "Taobao"),
    ("AliApp(TM/", "Tmall"),
    (" QQ/", "QQ"),
    ("Quark/", "Quark"),
    ("baiduboxapp/", "Baidu App"),
    ("aweme_", "Douyin"),
    ("NewsArticle/", "Toutiao"),
    ("Kwai/", "Kwai"),
    ("xhsminiapp", "Xiaohongshu"),
    ("xhsdiscover", "Xiaohongshu"),
    ("BiliApp/", "Bilibili"),
    ("ZhihuHybrid", "Zhihu"),
    ("NAVER(", "Naver"),
    ("KAKAOTALK", "KakaoTalk"),
    ("DaumApps/", "Daum"),
    ("YJApp-", "Yahoo! Japan"),
    ("SmartNews/", "SmartNews"),
    ("YaBrowser/", "Yandex Browser"),
    ("YaSearchBrowser/", "Yandex Browser"),
    ("YandexSearch/", "Yandex Browser"),
    ("YaApp_", "Yandex Browser"),
    ("Barcelona ", "Threads"),
    ("Instagram ", "Instagram"),
    ("[FB_IAB/Orca-Android", "Facebook Messenger"),
    ("MetaIAB Facebook", "Facebook"),
    ("Safari/537.36Snapchat", "Snapchat"),
    ("Zalo ", "Zalo"),
    ("Viber/", "Viber"),
    ("Discord/", "Discord"),
    ("discord/", "Discord"),
    ("Reddit/", "Reddit"),
    ("BingSapphire/", "Bing"),
    ("GSA/", "Google App"),
    ("MZBrowser/", "Meizu Browser"),
    ("SogouMobileBrowser/", "Sogou Browser"),
    ("PiBrowser/", "Pi Browser"),
    ("PicoBrowser/", "Pico Browser"),
    ("TeslaBrowser/", "Tesla Browser"),
    ("LG Browser/", "LG Browser"),
    ("Odin/", "VIDAA Browser"),
)

# The browsers of televisions that send no name but Safari's, by system.
TELEVISIONS: Final[dict[str, str]] = {"webOS": "LG Browser", "Tizen": "Tizen Browser", "VIDAA": "VIDAA Browser"}

# Browsers that the tables confuse with others, by a token that only they send.
NAMED_BROWSERS: Final[tuple[tuple[re.Pattern[str], str], ...]] = (
    (re.compile(r"\b(?:Focus|Klar)/"), "Firefox Focus"),
    (re.compile(r"\[LinkedInApp\]"), "LinkedIn"),
    (re.compile(r"\bPlayStation\b", re.IGNORECASE), "PlayStation Browser"),
    (re.compile(r"\bNintendo"), "Nintendo Browser"),
)

# Families whose number is another product's: WebKit's, which is frozen, or Qt's.
_WITHOUT_VERSION: Final = frozenset(("Epiphany", "Qt Web Engine", "QtWebEngine"))
# Browsers count to hundreds. A longer number is an error or was made up, and would become a value of its own.
_MAX_MAJOR_DIGITS: Final = 4
# Names that other products send too.
_UNNAMED: Final = frozenset(("Chrome", "Chromium", "Android WebView", "iOS WebView"))
_MAJOR: Final = re.compile(r"[ /]?([0-9]{1,4})(?![0-9])")

SYSTEMS: Final[dict[str, str]] = {
    "Mac OS X": "macOS",
    "Mac OS": "macOS",
    "Chrome OS": "ChromeOS",
    "ATV OS X": "tvOS",
    "WatchOS": "watchOS",
    "Web0S": "webOS",
    "GoogleTV": "Google TV",
    "Chromecast Android": "Chromecast",
    "Chromecast Linux": "Chromecast",
    "Chromecast Fuchsia": "Chromecast",
    "Chromecast SmartSpeaker": "Chromecast",
    "Other": "",
    # few browsers name their distribution, so shares of distributions would be wrong
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
    (re.compile(r"\b(?:Open)?Harmony(?:OS)?\b"), "HarmonyOS"),  # it may contain Android as well
    (re.compile(r"\bPlayStation\b", re.IGNORECASE), "PlayStation"),
    (re.compile(r"\bNintendo"), "Nintendo"),
    # televisions
    (re.compile(r"\bVIDAA\b|\bOdin/"), "VIDAA"),
    (re.compile(r"\bweb[0O]S\b.{0,200}TV", re.IGNORECASE), "webOS"),
    (re.compile(r"\bTiVoOS\b"), "TiVo OS"),
    (re.compile(r"\bTitan ?OS\b"), "Titan OS"),
)

# First match wins, so the order is the rule: those of televisions and consoles also contain Android, Windows or Mobile.
DEVICES: Final[tuple[tuple[str, re.Pattern[str]], ...]] = (
    (
        "tv",
        re.compile(
            r"\b(?:Smart|Andr[o0]id|Google|Apple|Opera|Hbb|Internet|Net|Mi)[ -]?TV|\bTV Safari\b|\(D?TV[;)]|Web0S"
            r"|webOS\.TV|NetCast|\bAFT[A-Z0-9]{1,8}\b|BRAVIA|\bCrKey\b|Chromecast|\bRoku\b|VIDAA|\bViera\b|MiBOX"
            r"|\bOdin/|\bOMI/|\bSRAF/|\bVewd/|\bTiVoOS\b|\bTitan ?OS\b|\bVIZIO\b|\bCE-HTML\b",
            re.IGNORECASE,
        ),
    ),
    ("console", re.compile(r"\bPlayStation\b|\bXbox\b|\bNintendo", re.IGNORECASE)),
    # on the head, in the car, on the wrist
    ("other", re.compile(r"OculusBrowser|PicoBrowser|Wolvic|\bTesla/|QtCarBrowser|\bApple ?Watch|\bwatchOS")),
    # "Tablet PC 2.0" is a component of Windows on desktops; KF... are Amazon's tablets, which may contain Mobile
    ("tablet", re.compile(r"iPad|\bTablet\b(?! PC)|PlayBook|\bKindle\b|\bSilk/|\bKF[A-Z]{2,6}\b")),
    (
        "mobile",
        re.compile(
            r"\bMobi(?:le)?\b|iPhone|iPod|Opera Mini|Windows Phone|BlackBerry|\bBB10\b|\bKAIOS\b|\(Phone;"
            r"|Symbian"
        ),
    ),
    # "Linux" alone is not here: Android has it too, and so do libraries on servers
    ("desktop", re.compile(r"Windows|Macintosh|\bX11\b|\bCrOS\b|\(PC;")),
)

BROWSER_OPENINGS: Final = ("Mozilla/", "Opera/", "UCWEB/")
"""Every browser and web view begins so; apps and HTTP libraries begin with their own name."""
_APPLE_PHONE: Final = re.compile(r"iPhone|iPad|iPod")
_ANDROID_REDUCED: Final = re.compile(r"\bAndroid 10; K\b")
_SAFARI_18: Final = re.compile(r"\bVersion/18\b")


def is_compiled() -> bool:
    """Return whether ua-parser-rs, the compiled engine, is installed.

    Without it ua-parser's engine in Python gives the same, in several times the time, for each User-Agent that is not
    among the latest CACHED.
    """
    from ua_parser import RegexResolver

    return RegexResolver is not None


_building = Lock()


def _installed_resolver() -> "Resolver":
    """Return the fastest installed resolver, one for the process: its tables take 12 MB and 40 ms."""
    with _building:
        return _built_resolver()


@cache
def _built_resolver() -> "Resolver":
    from ua_parser import BasicResolver, RegexResolver

    return (RegexResolver or BasicResolver)(browser_and_os_matchers())


# The model of an Android phone, and where apps repeat it: XBot Junior and Spider 8 are phones.
_MODEL: Final = re.compile(
    r"(\bAndroid [0-9.]+; (?:U; )?(?:[a-z]{2}[-_][A-Za-z]{2}; )?)[^;()]*(?:\([^;()]*\))?"
    r"|\bAndroid \([^()]*\)|FBDV/[^;\]]*"
)


def _without_model(text: str) -> str:
    """Return a User-Agent without the phone's model where a whole browser follows it."""
    browser = text.partition("Android ")[2].partition(") AppleWebKit/")[2]
    return _MODEL.sub(r"\1", text) if "Safari/" in browser else text


class Agents:
    """Parses User-Agents, with a cache of the latest CACHED of them."""

    def __init__(self, resolver: "Resolver | None" = None) -> None:
        """Use this resolver, or the fastest installed one, which is loaded with the first User-Agent."""
        self._resolver = resolver
        self._cached = lru_cache(maxsize=CACHED)(self._read)

    def load(self) -> "Resolver":
        """Return the resolver; load it if no User-Agent has needed it yet. Any thread may call this."""
        if self._resolver is None:
            listed_name("")  # reads the list of crawlers
            self._resolver = _installed_resolver()
        return self._resolver

    def forget(self) -> None:
        """Discard what was computed of the list of crawlers."""
        self._cached.cache_clear()

    def of(self, user_agent: str, client_hints: tuple[str, str, str] = ("", "", "")) -> Agent:
        """Return the Agent of a User-Agent and of client hints (tally/events/client_hints.py). Never raises."""
        return self._cached(user_agent[:MAX_CHARACTERS], client_hints)

    def _read(self, user_agent: str, client_hints: tuple[str, str, str]) -> Agent:
        # aiohttp decodes bytes that are no UTF-8 to lone surrogates, which the compiled parser refuses.
        text = user_agent if user_agent.isascii() else user_agent.encode("utf-8", "replace").decode("utf-8")
        crawler = is_crawler(text)
        if crawler and not is_crawler(plain := _without_model(text)):
            crawler, text = False, plain
        resolver = self.load()
        from ua_parser.core import Domain  # here: loaded with the resolver

        # Behind HbbTV the tables take the brand of a television for its browser and its system.
        parsed = resolver(text.replace("HbbTV/", ""), Domain.USER_AGENT | Domain.OS)
        browses = text.startswith(BROWSER_OPENINGS)
        system = _named(NAMED_SYSTEMS, text) or _system(text, parsed.os, browses)
        device = _device(text, browses)
        browser, browser_version = _browser(text, parsed.user_agent) if browses else ("", "")
        if device == "tv" and browser in ("", "Safari") and system in TELEVISIONS:
            browser, browser_version = TELEVISIONS[system], ""
        agent = Agent(
            browser=browser,
            browser_version=browser_version,
            os=system,
            os_version=_version(text, system, parsed.os),
            device=device,
            crawler=crawler,
            crawler_name=listed_name(text) if crawler else "",
        )
        return _with_hints(agent, read_hints(client_hints)) if any(client_hints) else agent


def _with_hints(agent: Agent, hints: ClientHints) -> Agent:
    """Return an Agent with what client hints know better: the product behind Chrome's User-Agent, and the system and
    device behind that of a page for desktops."""
    if agent.browser in _UNNAMED and hints.browser:
        agent = replace(agent, browser=hints.browser, browser_version=hints.browser_version)
    if hints.os == "Android" and agent.device in ("desktop", "tablet"):
        device = "mobile" if hints.is_mobile else "tablet"
        version = agent.os_version if agent.os == "Android" else ""
        return replace(agent, os="Android", os_version=version, device=device)
    return agent


def crawler_name(user_agent: str) -> str:
    """Return the listed name of a crawler's User-Agent (tally/events/crawlers.py), '' where it is not listed.

    The model of a phone is no name.
    """
    text = user_agent[:MAX_CHARACTERS]
    return listed_name(text) if is_crawler(_without_model(text)) else ""


def browser_and_os_matchers() -> "Matchers":
    """Return ua-parser's tables without the one for devices."""
    from ua_parser.loaders import load_lazy_builtins

    browsers, systems, _ = load_lazy_builtins()
    return browsers, systems, []


def _named(names: tuple[tuple[re.Pattern[str], str], ...], text: str) -> str:
    return next((name for pattern, name in names if pattern.search(text)), "")


def _browser(text: str, parsed: "UserAgent | None") -> tuple[str, str]:
    """Return the browser and its major version; "" for the version of one that the tables confuse with another."""
    for token, app in APPS:
        if token in text:
            version = _MAJOR.match(text, text.index(token) + len(token))
            return app, version[1] if version else ""
    named = _named(NAMED_BROWSERS, text)
    if named or parsed is None:
        return named, ""
    browser = BROWSERS.get(parsed.family, parsed.family)[:MAX_LABEL]
    major = parsed.major or ""
    has_version = browser != "" and parsed.family not in _WITHOUT_VERSION
    is_version = has_version and len(major) <= _MAX_MAJOR_DIGITS and major.isdecimal()
    return browser, major if is_version else ""


def _system(text: str, parsed: "OS | None", browses: bool) -> str:
    # An app's "CFNetwork/1496 Darwin/23.5" is the same on iPhones and Macs; the tables give iOS for both.
    if parsed is None or (not browses and "CFNetwork" in text and not _APPLE_PHONE.search(text)):
        return ""
    return SYSTEMS.get(parsed.family, parsed.family)[:MAX_LABEL]


def _version(text: str, system: str, parsed: "OS | None") -> str:
    """Return the version where it is true, not frozen by the browser."""
    if parsed is None:
        return ""
    parts = [part for part in (parsed.major, parsed.minor, parsed.patch) if part]
    version = ".".join(parts)[:MAX_LABEL]
    return version if system in _TRUE and _TRUE[system](text, parts) else ""


def _windows_is_true(text: str, parts: list[str]) -> bool:
    # Windows 11 sends 10.
    return parts in (["7"], ["8"], ["8", "1"])


def _macos_is_true(text: str, parts: list[str]) -> bool:
    # Safari, Chrome and Firefox have all stayed at 10.15 since; 10.16 was macOS 11 to old programs.
    if not all(part.isdecimal() for part in parts[:2]):
        return False
    numbers = [int(part) for part in parts[:2]]
    return numbers >= [11] or [10, 0] <= numbers < [10, 15]


def _ios_is_true(text: str, parts: list[str]) -> bool:
    # From iOS 26 on WebKit sends 18_6, 18_6_2 or 18_7, and Firefox always sends 18_7: it is true only where there is
    # also a Version/18. https://webkit.org/blog/17333/webkit-features-in-safari-26-0/
    return parts[:2] not in (["18", "6"], ["18", "7"]) or _SAFARI_18.search(text) is not None


def _android_is_true(text: str, parts: list[str]) -> bool:
    return _ANDROID_REDUCED.search(text) is None


# Other systems have no version: ChromeOS and Linux send builds, and for the rest it is not known to be true.
_TRUE: Final = {
    "Windows": _windows_is_true,
    "macOS": _macos_is_true,
    "iOS": _ios_is_true,
    "Android": _android_is_true,
}


def _device(text: str, browses: bool) -> str:
    for device, pattern in DEVICES:
        if device == "desktop" and "Android" in text:
            # Browsers on phones send Mobile, those on tablets do not. Apps send neither.
            return "tablet" if browses else ""
        if pattern.search(text):
            return device
    if not browses:
        return ""
    return "desktop" if "Linux" in text else "other" if "(" in text else ""
