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


def _is_shop(of: Source) -> bool:
    return of.category == "shopping" or _SHOP.search(of.campaign) is not None


def _has_email_name(text: str) -> bool:
    return "email" in text or "newsletter" in text


RULES: Final[tuple[tuple[str, Callable[[Source], bool]], ...]] = (
    (DIRECT, lambda of: not (of.text or of.medium or of.campaign)),
    (OTHER, lambda of: "cross-network" in of.campaign),
    (SHOPPING, lambda of: of.is_paid and (_is_shop(of) or of.medium in _SHOPPING_ADS)),
    (PAID_SEARCH, lambda of: of.is_paid and (of.category == "search" or of.medium in _SEARCH_ADS)),
    (PAID_SOCIAL, lambda of: of.is_paid and (of.category == "social" or of.medium in _SOCIAL_ADS)),
    (VIDEO, lambda of: of.is_paid and (of.category == "video" or of.medium in _VIDEO_ADS)),
    (DISPLAY, lambda of: of.category == "display" or of.is_display),
    (OTHER, lambda of: of.is_paid),
    (SHOPPING, _is_shop),
    (ORGANIC_SOCIAL, lambda of: of.category == "social" or of.medium in _SOCIAL_MEDIA),
    (VIDEO, lambda of: of.category == "video" or "video" in of.medium),
    (AI_ASSISTANTS, lambda of: of.category == "ai" or of.medium in _AI_MEDIA or of.campaign in ("ai_chat", "ai-chat")),
    (ORGANIC_SEARCH, lambda of: of.category == "search" or of.medium == "organic"),
    (EMAIL, lambda of: of.category == "email" or _has_email_name(of.name) or _has_email_name(of.medium)),
    (AFFILIATES, lambda of: of.category == "affiliates" or of.medium in ("affiliate", "affiliates")),
    (REFERRAL, lambda of: of.medium in ("referral", "app", "link")),
    (AUDIO, lambda of: of.category == "audio" or of.medium in ("audio", "podcast")),
    (SMS, lambda of: of.category == "sms" or of.medium == "sms"),
    (
        PUSH,
        lambda of: (
            of.category == "push" or of.medium.endswith("push") or "mobile" in of.medium or "notification" in of.medium
        ),
    ),
    (REFERRAL, lambda of: of.text != "" and of.medium == ""),
    (OTHER, lambda of: True),
)
"""Channel and condition. The first condition that holds decides."""

CHANNELS: Final = frozenset(name for name, _ in RULES)


@lru_cache(_CACHED)
def channel(referrer: str, utm_source: str = "", utm_medium: str = "", utm_campaign: str = "") -> str:
    """Return the channel, one of CHANNELS, of a visit's acquisition as it is stored ("" is unset)."""
    of = _source(referrer, utm_source, utm_medium, utm_campaign)
    for name, holds in RULES:
        if holds(of):
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
    if found := hosts.get(host):
        return found
    labels = host.split(".")
    first, beyond = labels[0], len(labels)
    if beyond < 2:
        return ""
    for length in (1, 2):  # of a country's domain, at the end
        if beyond > length and _COUNTRY.fullmatch(".".join(labels[-length:])):
            any_country = [*labels[:-length], "*"]
            for below in range(max(0, beyond - _MAX_LABELS), len(any_country) - 1):
                found = hosts.get(".".join(any_country[below:]))
                if found and (below == 0 or found != "search"):
                    return found
    if len(first) == 2 and (found := hosts.get(".".join(["*", *labels[1:]]))):  # de.search.yahoo.com
        return found
    if beyond > 2 and _WEBMAIL.fullmatch(first):
        return "email"
    if first in _MOBILE and 2 < beyond <= _MAX_LABELS + 1 and host_category(".".join(labels[1:])) == "search":
        return "search"
    for below in range(max(1, beyond - _MAX_LABELS), beyond - 1):
        if found := hosts.get(".".join(labels[below:])):
            return "" if found == "search" and labels[below] != "search" else found
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
