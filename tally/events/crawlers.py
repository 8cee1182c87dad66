"""Crawlers, link previews, monitors and other automated clients, recognized by their User-Agents.

Names come from data/crawlers.json, which scripts/refresh_lists.py builds from two maintained lists, and from NAMES
below, which are kept by hand where the lists have them at the beginning of a User-Agent alone, or by another name.
Unlisted crawlers are recognized by a general rule: bot, crawler, spider or scraper at the end of a word, or the URL of
the crawler's documentation.

A name counts in any case, never within a longer word: no letter precedes or follows. A pattern that begins with `^`
counts at the beginning of a User-Agent alone: that is the company's server that fetches a page, while the same word
later in the User-Agent of a browser is a person inside that company's app.

Each pattern is filed under its longest run of letters. A User-Agent has some 20 runs, so a look-up of each takes 10 µs
where one expression of all names takes a millisecond. Not listed are HTTP libraries (curl, python-requests, okhttp):
they are the clients of apps and servers. The tests check every name, and that no User-Agent of a person matches.
"""

import json
import re
from collections.abc import Iterable
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from tally.resources import DataFile

# Each name is from its operator's public documentation; the page is named above each group. Names that end in bot,
# crawler or spider need no line.
NAMES: Final[tuple[str, ...]] = (
    # Google Search Central, "Google's common crawlers", "special-case crawlers", "user-triggered fetchers"
    "APIs-Google",
    "FeedFetcher-Google",
    "Google Favicon",
    "Google Web Preview",
    "Google-Adwords-Instant",
    "Google-InspectionTool",
    "Google-NotebookLM",
    "Google-Read-Aloud",
    "Google-Safety",
    "Google-Site-Verification",
    "GoogleAssociationService",
    "GoogleImageProxy",
    "GoogleOther",
    "GoogleProducer",
    "Mediapartners-Google",
    # Bing Webmaster Tools, "Which crawlers does Bing use?": bingbot and adidxbot need no line here
    "BingPreview",
    "MicrosoftPreview",
    # Yahoo Help, "What is Slurp?"
    "Slurp",
    # Naver Search Advisor, "Yeti"; Daum, "Daum robot"; Sogou Help, "Sogou spider"
    "Yeti",
    "Daumoa",
    # OpenAI platform documentation, "Overview of OpenAI crawlers"
    "ChatGPT-User",
    "ChatGPT Agent",
    # Anthropic support, "Does Anthropic crawl data from the web?"
    "Claude-User",
    "Claude-Web",
    "anthropic-ai",
    # Perplexity documentation, "Perplexity crawlers"
    "Perplexity-User",
    # Mistral documentation, "Mistral crawlers"; Cohere; Diffbot documentation
    "MistralAI-User",
    "cohere-ai",
    # Meta for Developers, "Meta web crawlers"
    "facebookexternalhit",
    "facebookcatalog",
    "meta-externalagent",
    "meta-externalads",
    "meta-externalfetcher",
    "meta-webindexer",
    # Link previews. Slack API, "Slack robots"; Snap; Skype; VK developers; Embedly; Iframely; Flipboard
    "Slack-ImgProxy",
    "Snap URL Preview Service",
    "SkypeUriPreview",
    "vkShare",
    "Embedly",
    "Iframely",
    "FlipboardProxy",
    # Chrome for Developers, "Chrome Headless mode" and "Lighthouse"
    "HeadlessChrome",
    # The tools' own manuals: PhantomJS, SlimerJS, jsdom, Prerender, Rendertron
    "PhantomJS",
    # Monitors: the help pages of Pingdom, StatusCake, GTmetrix, Site24x7, New Relic, Datadog, Checkly,
    # Better Stack, HetrixTools, Freshping, WebPageTest, Catchpoint, DebugBear, Dareboost, Uptime Kuma,
    # updown.io, NodePing and Cloudflare about how to let their checks through
    "PingdomTMS",
    "PingdomPageSpeed",
    "StatusCake",
    "GTmetrix",
    "Site24x7",
    "NewRelicSynthetics",
    "DatadogSynthetics",
    "Checkly",
    "HetrixTools",
    "PTST",
    "Catchpoint",
    "Dareboost",
    "Uptime-Kuma",
    "updown.io",
    "NodePing",
    # Dynatrace and Gomez, SmartBear AlertSite, Splunk, Yottaa, ip-label, NotifyNinja, GotSiteMonitor, Cloudflare
    # Observatory and Diagnostics: monitors that run the scripts of a page in a browser
    "RuxitSynthetic",
    # Scanners of consent, accessibility and tags; browsers under test: OneTrust, CookieHub, Siteimprove, InfoTrust,
    # Cypress, Functionize, the WeChat developer tools
    "OneTrust",
    "Cloudflare-Healthchecks",
    "Cloudflare-Traffic-Manager",
    # Search engine optimisation. Ahrefs, Sitebulb, OnCrawl, Xenu, W3C: their pages about their robots
    "AhrefsSiteAudit",
    "Sitebulb",
    "OnCrawl",
    "Xenu Link Sleuth",
    "W3C_Validator",
    "W3C-checklink",
    # Archives and crawling software: Internet Archive, Heritrix, Apache Nutch, HTTrack, Scrapy
    "ia_archiver",
    "heritrix",
    "Nutch",
    "Scrapy",
    # Scanners of the whole network: Censys, Palo Alto Expanse, ZGrab, Nmap, Nikto, WPScan, Detectify, Qualys
    "CensysInspect",
    "Expanse",
    "zgrab",
    "Nmap Scripting Engine",
    "Nikto",
    "sqlmap",
    "WPScan",
    "Detectify",
    "Qualys",
)

DATA: Final = "data/crawlers.json"

PURPOSES: Final = (
    *("ai_training", "ai_search", "ai_assistant", "search", "preview", "seo", "monitoring", "feed", "archive"),
    *("security", "research", "advertising", "other"),
)
"""What crawlers are for, by the list; those of AI first."""

# CUBOT makes phones. "+http" begins the URL of a crawler's documentation.
_GENERAL: Final = re.compile(
    r"(?:(?<!cu)bots?|crawlers?|spiders?|scrapers?)(?![a-z])|^mozilla/.{0,500}\+https?://", re.ASCII
)
_LETTERS: Final = re.compile(r"[a-z]+")


def is_crawler(user_agent: str) -> bool:
    """Return whether a User-Agent is a crawler's."""
    return listed_name(user_agent) != "" or _GENERAL.search(user_agent.lower()) is not None


def listed_name(user_agent: str) -> str:
    """Return the listed name of a crawler's User-Agent, '' where it is not listed. Never other text of the header."""
    text, filed = user_agent.lower(), _filed()
    names = [
        (len(pattern), name)
        for run in _LETTERS.findall(text)
        for pattern, name in filed.get(run, ())
        if _stands(pattern, text)
    ]
    # The longest pattern: Google-InspectionTool before a shorter one at its beginning.
    return max(names)[1] if names else ""


_FILE: Final = DataFile(DATA)


def read_from(path: Path | None) -> None:
    """Use another file of the list from now on (tally/events/lists.py); None is the bundled one."""
    if _FILE.replace(path):
        _filed.cache_clear()


class Crawler(NamedTuple):
    """What the list has of a crawler; operator "" where it is not known."""

    operator: str
    purpose: str


UNLISTED: Final = Crawler("", "other")


def described(names: Iterable[str]) -> dict[str, Crawler]:
    """Return what the list has of names, as `listed_name` returns them. Reads the list, in 5 ms."""
    wanted = {name.lower(): name for name in names}
    described = dict.fromkeys(wanted.values(), UNLISTED)

    def read(entry: dict[str, Any]) -> None:
        patterns = entry.get("patterns", ())
        for text in (entry["name"].lower(), *patterns) if patterns else ():
            name = wanted.get(text.strip("^/"))
            if name is not None:
                described[name] = Crawler(entry["operator"], entry["purpose"])

    json.loads(_FILE.path.read_bytes(), object_hook=read)
    return described


def _stands(pattern: str, text: str) -> bool:
    """Return whether a pattern is in a text, not within a longer word."""
    if pattern[0] == "^":
        return text.startswith(pattern[1:])
    begin = text.find(pattern)
    while begin >= 0:
        end = begin + len(pattern)
        within = (pattern[0].isalnum() and text[begin - 1 : begin].isalpha()) or (
            pattern[-1].isalnum() and text[end : end + 1].isalpha()
        )
        if not within:
            return True
        begin = text.find(pattern, begin + 1)
    return False


@cache
def _filed() -> dict[str, tuple[tuple[str, str], ...]]:
    """Return patterns and names by the pattern's longest run of letters. The names kept by hand come first."""
    listed = {name.lower(): name for name in NAMES}
    json.loads(_FILE.path.read_bytes(), object_hook=partial(_add, listed))
    filed: dict[str, tuple[tuple[str, str], ...]] = {}
    for pattern, name in listed.items():
        run = max(_LETTERS.findall(pattern), key=len, default="")
        filed[run] = (*filed.get(run, ()), (pattern, name))
    return filed


def _add(listed: dict[str, str], entry: dict[str, Any]) -> None:
    """Add the patterns of one object of the list. None is kept of it: operators and purposes take a megabyte."""
    for pattern in entry.get("patterns", ()):
        listed.setdefault(pattern, entry["name"])
