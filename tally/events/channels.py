"""The channel of a visit, from its acquisition: referrer and utm values.

- RULES is the table of docs/reference/channels.md; the first row that matches decides. Its order is that of GA4's
  default channel group, with a row for AI assistants.
- The source is utm_source where it is set, otherwise the referrer (a host or an app's id, as it is stored). Its
  category comes from data/referrer_hosts.txt.
- Letters and digits alone are compared, in lower case: "Paid-Social" is "paidsocial". "(none)" and "(not set)" are
  unset, as in GA4.
- Only what is stored is used, so that a channel can be computed again from it: no click ids (gclid), no path.

A host is looked up as it is, then by its parent domains, the longest entry first. Of search engines only the very host
counts, since their domains have other services (docs.google.com), and those that name the same search: below `search.`,
and the mobile host of an entry.
"""

import re
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Final, NamedTuple

from tally.resources import asset

DIRECT: Final = "Direct"
PAID_SEARCH: Final = "Paid search"
PAID_SOCIAL: Final = "Paid social"
DISPLAY: Final = "Display"
SHOPPING: Final = "Shopping"
ORGANIC_SOCIAL: Final = "Organic social"
VIDEO: Final = "Video"
AI_ASSISTANTS: Final = "AI assistants"
ORGANIC_SEARCH: Final = "Organic search"
EMAIL: Final = "Email"
AFFILIATES: Final = "Affiliates"
REFERRAL: Final = "Referral"
AUDIO: Final = "Audio"
SMS: Final = "SMS"
PUSH: Final = "Push"
OTHER: Final = "Other"

HOSTS: Final = "data/referrer_hosts.txt"
CATEGORIES: Final = (
    "ai",
    "search",
    "social",
    "video",
    "shopping",
    "email",
    "affiliates",
    "display",
    "push",
    "sms",
    "audio",
    "referral",
)

# Acquisitions repeat: one that is not cached takes some 6 µs, one that is 0.2 µs. About 1 MB if all have the maximum
# length.
_CACHED: Final = 1_024
# The longest entries have four labels, so that a host of a hundred labels takes no longer.
_MAX_LABELS: Final = 5
_UNCOMPARED: Final = re.compile(r"[^a-z0-9]+")
# First labels of the hosts of a search engine for other devices.
_MOBILE: Final = frozenset(("m", "mobile", "wap", "touch", "lite", "search"))
# What `*` stands for at the end of an entry.
_COUNTRY: Final = re.compile(r"(?:(?:com?|org|net|edu|or|ne)\.)?[a-z]{2}|com")
_WEBMAIL: Final = re.compile(r"(?:e|ex|w|web)?mail[0-9]{0,3}|lightmailer(?:-[a-z]+)?|mailbusiness|owa")
_UNSET: Final = frozenset(("direct", "none", "notset"))
# GA4: a campaign of shops. `e` may precede, as in eshop; another letter may not, as in bishop.
_SHOP: Final = re.compile(r"(?:^|[^a-df-z])shop|shopping")
# The name of an advertisement's source is that of its website and one of these: google_ads, fbad, LinkedIn-Paid.
_PAID_ENDINGS: Final = ("adwords", "ads", "ad", "cpc", "ppc", "paid")
_PAID_NAMES: Final = dict.fromkeys(
    ("adwords", "gads", "microsoftads", "msads", "applesearchads", "yandexdirect"), "search"
)
# A medium is paid with one of these words, whatever stands beside it: social-paid, search_ads.
_PAID_WORDS: Final = frozenset(("ad", "ads", "adwords", "paid", "ppc", "remarketing", "retargeting", "sea", "sem"))
_SEARCH_ADS: Final = frozenset(
    ("paidsearch", "searchpaid", "searchad", "searchads", "sea", "sem", "googleads", "adwords")
)
_SOCIAL_ADS: Final = frozenset(("paidsocial", "socialpaid", "socialad", "socialads", "psocial", "paidsocialmedia"))
_VIDEO_ADS: Final = frozenset(("paidvideo", "videopaid", "videoad", "videoads"))
_SHOPPING_ADS: Final = frozenset(("paidshopping", "shoppingpaid", "shoppingad", "shoppingads"))
_ADS: Final = _SEARCH_ADS | _SOCIAL_ADS | _VIDEO_ADS | _SHOPPING_ADS


class Source(NamedTuple):
    """What the rules compare. `category` is one of CATEGORIES or ""; `name` is utm_source, "" where it is not set."""

    category: str
    text: str
    name: str
    medium: str
    campaign: str
    is_paid: bool
    is_display: bool


_SOCIAL_MEDIA: Final = frozenset(("social", "socialnetwork", "socialmedia", "sm", "organicsocial"))
_DISPLAY_MEDIA: Final = frozenset(("display", "banner", "expandable", "interstitial", "cpm"))
_DISPLAY_WORDS: Final = _DISPLAY_MEDIA - {"cpm"}
_AI_MEDIA: Final = frozenset(("aiassistant", "aichat", "aisearch", "llm", "chatbot"))


def _is_shop(source: Source) -> bool:
    return source.category == "shopping" or _SHOP.search(source.campaign) is not None


def _has_email_name(text: str) -> bool:
    return "email" in text or "newsletter" in text


RULES: Final[tuple[tuple[str, Callable[[Source], bool]], ...]] = (
    (DIRECT, lambda source: not (source.text or source.medium or source.campaign)),
    (OTHER, lambda source: "cross-network" in source.campaign),
    (SHOPPING, lambda source: source.is_paid and (_is_shop(source) or source.medium in _SHOPPING_ADS)),
    (PAID_SEARCH, lambda source: source.is_paid and (source.category == "search" or source.medium in _SEARCH_ADS)),
    (PAID_SOCIAL, lambda source: source.is_paid and (source.category == "social" or source.medium in _SOCIAL_ADS)),
    (VIDEO, lambda source: source.is_paid and (source.category == "video" or source.medium in _VIDEO_ADS)),
    (DISPLAY, lambda source: source.category == "display" or source.is_display),
    (OTHER, lambda source: source.is_paid),
    (SHOPPING, _is_shop),
    (ORGANIC_SOCIAL, lambda source: source.category == "social" or source.medium in _SOCIAL_MEDIA),
    (VIDEO, lambda source: source.category == "video" or "video" in source.medium),
    (
        AI_ASSISTANTS,
        lambda source: (
            source.category == "ai" or source.medium in _AI_MEDIA or source.campaign in ("ai_chat", "ai-chat")
        ),
    ),
    (ORGANIC_SEARCH, lambda source: source.category == "search" or source.medium == "organic"),
    (
        EMAIL,
        lambda source: source.category == "email" or _has_email_name(source.name) or _has_email_name(source.medium),
    ),
    (AFFILIATES, lambda source: source.category == "affiliates" or source.medium in ("affiliate", "affiliates")),
    (REFERRAL, lambda source: source.medium in ("referral", "app", "link")),
    (AUDIO, lambda source: source.category == "audio" or source.medium in ("audio", "podcast")),
    (SMS, lambda source: source.category == "sms" or source.medium == "sms"),
    (
        PUSH,
        lambda source: (
            source.category == "push"
            or source.medium.endswith("push")
            or "mobile" in source.medium
            or "notification" in source.medium
        ),
    ),
    (REFERRAL, lambda source: source.text != "" and source.medium == ""),
    (OTHER, lambda source: True),
)
"""Channel and condition. The first condition that holds decides."""

CHANNELS: Final = frozenset(name for name, _ in RULES)


@lru_cache(_CACHED)
def channel(referrer: str, utm_source: str = "", utm_medium: str = "", utm_campaign: str = "") -> str:
    """Return the channel, one of CHANNELS, of a visit's acquisition as it is stored ("" is unset)."""
    source = _source(referrer, utm_source, utm_medium, utm_campaign)
    for name, holds in RULES:
        if holds(source):
            return name
    raise AssertionError("the last rule always holds")


def _source(referrer: str, utm_source: str, utm_medium: str, utm_campaign: str) -> Source:
    name, medium = _compared(utm_source), _compared(utm_medium)
    category, is_paid_name = _named(utm_source.strip().lower(), name) if name else (host_category(referrer), False)
    words = frozenset(_UNCOMPARED.split(utm_medium.lower()))
    is_display = medium in _DISPLAY_MEDIA or not words.isdisjoint(_DISPLAY_WORDS)
    has_paid_word = not words.isdisjoint(_PAID_WORDS) or medium in _ADS
    # Of a display medium only what GA4's rules name is paid: google / cpm is paid search, google / display-ads is not.
    is_paid_medium = "cp" in medium or medium.startswith("paid") or (has_paid_word and not is_display)
    return Source(
        category=category,
        text=name or referrer,
        name=name,
        medium=medium,
        campaign=utm_campaign.strip().lower(),
        is_paid=is_paid_medium or is_paid_name,
        is_display=is_display,
    )


def _compared(value: str) -> str:
    """Return the part of a utm value that rules compare; "" for a value that means none."""
    plain = _UNCOMPARED.sub("", value.lower())
    return "" if plain in _UNSET else plain or value.strip()


def _named(utm_source: str, name: str) -> tuple[str, bool]:
    """Return the category of a utm_source, and whether it names advertisements."""
    names = _entries().names
    if "." in utm_source:
        host = utm_source.rpartition("://")[2].partition("/")[0].removeprefix("www.")
        if category := host_category(host):
            return category, False
    if name in names:
        return names[name], False
    if name in _PAID_NAMES:
        return _PAID_NAMES[name], True
    stems = (name.removesuffix(ending) for ending in _PAID_ENDINGS if name.endswith(ending))
    category = next((names[stem] for stem in stems if stem in names), "")
    return category, category != ""


@lru_cache(_CACHED)
def host_category(host: str) -> str:
    """Return the category of a referrer's host or app id, one of CATEGORIES, "" where no list has it."""
    hosts = _entries().hosts
    if category := hosts.get(host):
        return category
    labels = host.split(".")
    first, beyond = labels[0], len(labels)
    if beyond < 2:
        return ""
    for length in (1, 2):  # of a country's domain, at the end
        if beyond > length and _COUNTRY.fullmatch(".".join(labels[-length:])):
            any_country = [*labels[:-length], "*"]
            for below in range(max(0, beyond - _MAX_LABELS), len(any_country) - 1):
                category = hosts.get(".".join(any_country[below:]))
                if category and (below == 0 or category != "search"):
                    return category
    if len(first) == 2 and (category := hosts.get(".".join(["*", *labels[1:]]))):  # de.search.yahoo.com
        return category
    if beyond > 2 and _WEBMAIL.fullmatch(first):
        return "email"
    if first in _MOBILE and 2 < beyond <= _MAX_LABELS + 1 and host_category(".".join(labels[1:])) == "search":
        return "search"
    for below in range(max(1, beyond - _MAX_LABELS), beyond - 1):
        if category := hosts.get(".".join(labels[below:])):
            return "" if category == "search" and labels[below] != "search" else category
    return ""


class _Entries(NamedTuple):
    hosts: dict[str, str]
    names: dict[str, str]


@cache
def _entries() -> _Entries:
    """Return the category of each host and app id, and of each name in utm_source, of the list."""
    entries, category = _Entries({}, {}), ""
    for line in asset(HOSTS).read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            category = line.strip("[]")
        elif line and not line.startswith("#"):
            (entries.hosts if "." in line else entries.names)[line] = category
    return entries
