"""Build the lists in tally/data from maintained ones, which are read from local files.

`crawlers` writes crawlers.json: names of crawlers with operator, purpose and the texts by which they are recognized.
Its two sources have the MIT licence, whose texts are in tally/data/CRAWLERS-LICENSES:

    pip download --no-deps crawler-user-agents      # the wheel
    git clone https://github.com/ai-robots-txt/ai.robots.txt     # robots.json; its commit and date are arguments
    python scripts/refresh_lists.py crawlers crawler_user_agents-1.67.0-py3-none-any.whl robots.json 738c80d 2026-08-22

`referrer-spam` writes referrer_spam.txt: hosts whose visits are referrer spam. Its source is CC0 (public domain):

    git clone https://github.com/matomo-org/referrer-spam-list   # spammers.txt; its commit and date are arguments
    python scripts/refresh_lists.py referrer-spam spammers.txt b1c66b3 2026-08-20

An entry covers its subdomains. The script fails where a line is no host, is a public suffix, or covers a host of
tally/data/referrer_hosts.txt, whose visits are no spam.

`countries` writes country_names.json: names of countries in the languages of notices. Its source, CLDR, has the Unicode
licence, whose text is in tally/data/CLDR-LICENSE:

    npm pack cldr-localenames-full@48.2.0
    python scripts/refresh_lists.py countries cldr-localenames-full-48.2.0.tgz

A pattern is a text in lower case that counts as in tally/events/crawlers.py. Of crawlers whose User-Agents never begin
as a browser's it begins with `^`: the same word later in a browser's User-Agent is a person in that company's app.
HTTP libraries are not taken: they are the clients of apps and servers, which count. The script fails where a source
has a purpose, a tag or a regular expression that the tables below do not have, and where a pattern matches a
User-Agent of the people and apps in tests/unit/events/test_user_agent.py. Then name it in NOT_TAKEN with the reason.
"""

import argparse
import hashlib
import json
import re
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "tally/data/crawlers.json"
SPAM = ROOT / "tally/data/referrer_spam.txt"
COUNTRIES, CLDR_LICENCE = ROOT / "tally/data/country_names.json", ROOT / "tally/data/CLDR-LICENSE"
LANGUAGES = ("en", "de", "fr", "es")
# Groups of countries, and codes that are none.
NO_COUNTRIES = ("EU", "EZ", "QO", "UN", "XA", "XB", "ZZ")

# Tags of crawler-user-agents. An entry with http-library is omitted.
TAGS = {
    "academic": "research",
    "advertising": "advertising",
    "ai-crawler": "ai_training",
    "archiver": "archive",
    "browser-automation": "other",
    "feed-reader": "feed",
    "monitoring": "monitoring",
    "scanner": "security",
    "search-engine": "search",
    "seo": "seo",
    "social-preview": "preview",
}
LIBRARY = "http-library"

# `function` of ai.robots.txt is free text: the beginning of each, and the purpose.
FUNCTIONS = {
    "A massive, artificial intelligence": "ai_training",
    "AI Agents": "ai_assistant",
    "AI Assistants": "ai_assistant",
    "AI Coding Agents": "ai_assistant",
    "AI Data Providers": "ai_training",
    "AI Data Scrapers": "ai_training",
    "AI LLM Scraper": "ai_training",
    "AI Learning Companion": "ai_assistant",
    "AI Search Crawlers": "ai_search",
    "AI data scraper": "ai_training",
    "AI model training": "ai_training",
    "AI powered translation service": "ai_training",
    "AI research crawler": "ai_training",
    "AI search, assistants and agents": "ai_search",
    "AI tools and models for machine learning research": "ai_training",
    "According to the [Meltwater": "ai_training",
    "Build and manage AI models": "ai_training",
    "Checks URLs on your site for SEO": "seo",
    "Claude-SearchBot navigates": "ai_search",
    "Collects data for AI": "ai_search",
    "Company offers AI detection": "ai_assistant",
    "Content is used to train": "ai_training",
    "Crawls sites to provide answers": "ai_search",
    "Crawls your site for ContentShake": "seo",
    "Data Scraper from RSS Feeds": "ai_training",
    "Data collection": "ai_training",
    "Data is sold": "ai_training",
    "Data scraping for custom AI": "ai_training",
    "Extracts data": "ai_training",
    "ImageSiftBot is a web crawler": "ai_training",
    "Insights on AI integration": "ai_training",
    "LLM training": "ai_training",
    "LLM/AI training": "ai_training",
    "Live chat support": "ai_assistant",
    "Ostensibly only for sharing": "preview",
    "Powers features in Siri": "ai_training",
    "Provides open crawl dataset": "ai_training",
    "Retrieves data to provide responses": "ai_assistant",
    "Scrapes": "ai_training",
    "Search engine using generative AI": "ai_search",
    "Search result generation": "ai_search",
    "Service improvement and enabling answers for Alexa": "ai_search",
    "Takes action based on user prompts": "ai_assistant",
    "Training language models": "ai_training",
    "Unclear at this time": "other",
    "Undocumented AI Agents": "other",
    "Used as part of AI apps": "ai_assistant",
    "Used to provide recommendations": "ai_search",
    "Used to train models": "ai_training",
    "Uses data gathered in AI development": "ai_training",
    "We are using the data from the crawler": "ai_training",
}

# Regular expressions of crawler-user-agents, and what is matched for them. An empty tuple: words that people send.
EXPRESSIONS: dict[str, tuple[str, ...]] = {
    "AdsBot-Google([^-]|$)": ("AdsBot-Google",),
    "^Seekbot": ("^Seekbot",),
    "(sistrix|SISTRIX) [cC]rawler": ("SISTRIX Crawler",),
    "Ahrefs(Bot|SiteAudit)": ("AhrefsBot", "AhrefsSiteAudit"),
    "^CrunchBot": ("^CrunchBot",),
    "S[eE][mM]rushBot": ("SemrushBot",),
    "Livelap[bB]ot": ("LivelapBot",),
    "[pP]ingdom": ("Pingdom", "PingdomPageSpeed", "PingdomTMS", "pingbot"),
    "Bark[rR]owler": ("Barkrowler",),
    "^dcrawl": ("^dcrawl",),
    "^LCC ": ("^LCC ",),
    "(^| )sentry\\/": ("^sentry/",),
    "[Cc]urebot": ("Curebot",),
    "BlogTraffic\\/\\d\\.\\d+ Feed-Fetcher": ("BlogTraffic",),
    "(^| )PTST\\/": ("PTST",),
    "^BW\\/": ("^BW/", "rb.gy/oupwis"),
    "[cC]laude[bB]ot": ("ClaudeBot",),
    "[aA]cunetix": ("Acunetix",),
    "[dD]ir[Bb]uster": ("DirBuster",),
    "^ArenaUnfurlBot": ("^ArenaUnfurlBot",),
    "Automaton|Newsify Feed Fetcher": ("Newsify Feed Fetcher",),
    "Chirp|gotosocial": ("gotosocial",),
    "[cC]ludo": ("Cludo",),
    "ContextualBot[\\s\\S]*outcomes\\.net": ("ContextualBot",),
    "Current[\\s\\S]*RSS Reader": ("currentreader.app",),
    "Netumo|netumo": ("Netumo",),
    "Spider[\\s\\S]*spider\\.com": (),
    "GoogleAssociationService$": ("GoogleAssociationService",),
    "^Silk\\/": (),
    "SSL Labs$": ("SSL Labs",),
}

# Crawlers that neither list has by their name: operator and purpose. Each name is from its operator's documentation.
ADDED = {
    ("Google", "advertising"): (
        "Google-Ads-Qualify",
        "Google-Adwords-DisplayAds-WebRender",
        "Google-HotelAdsVerifier",
        "Google-Publisher-Plugin",
        "GoogleAdSenseInfeed",
    ),
    ("Google", "monitoring"): (
        "Google Page Speed Insights",
        "Google PageSpeed Insights",
        "Google-PageSpeed",
        "google_partner_monitoring",
        "Lighthouse",
    ),
    ("Google", "search"): (
        "DuplexWeb-Google",
        "Google Search Console",
        "Google-AMPHTML",
        "Google-Assess",
        "Google-BusinessLinkVerification",
        "Google-PageRenderer",
        "Google-Sites-Thumbnails",
        "Google-Youtube-Links",
    ),
    ("Yandex", "search"): (
        "YandexBlogs",
        "YandexBot",
        "YandexCalendar",
        "YandexDirect",
        "YandexDirectDyn",
        "YandexFavicons",
        "YandexImageResizer",
        "YandexImages",
        "YandexMedia",
        "YandexMetrika",
        "YandexNews",
        "YandexPagechecker",
        "YandexRenderResources",
        "YandexScreenshot",
        "YandexVideo",
        "YandexWebmaster",
    ),
    ("Coc Coc", "search"): ("coccocbot",),
    ("Seekport", "search"): ("SeekportBot",),
    ("Bluesky", "preview"): ("Bluesky Cardyb",),
    ("Pinterest", "preview"): (
        "^Pinterest/",
        "Pinterestbot",
    ),
    ("", "monitoring"): (
        "Better Uptime",
        "CloudflareDiagnostics",
        "CloudflareObservatory",
        "DebugBear",
        "DejaClick",
        "Freshping",
        "GomezAgent",
        "GotSiteMonitor",
        "iplabel",
        "NewRelicPinger",
        "notifyninja",
        "SplunkSynthetics",
        "SyntheticsAgent",
        "YottaaMonitor",
    ),
    ("", "seo"): (
        "Morningscore",
        "Siteimprove",
        "WhatCMS",
        "XaxisSemanticsClassifier",
    ),
    ("", "archive"): ("HTTrack",),
    ("", "security"): ("CybaaAgent",),
    ("", "other"): (
        "CookieHub",
        "Cypress",
        "Functionize",
        "HeadlessEdg",
        "jsdom",
        "Prerender",
        "Rendertron",
        "SlimerJS",
        "TagInspector",
        "wechatdevtools",
    ),
}

# Names of either list that are not matched, by reason.
NOT_TAKEN = {
    "tokens of robots.txt that no request carries": (
        *("Google-Extended", "Applebot-Extended", "Webzio-Extended", "Gemini-Deep-Research"),
    ),
    "programs of people: editors, desktop apps and browsers inside apps": (
        *("Code", "Code/1.", "Cursor", "Trae", "Devin", "opencode", "Fluid", "MetaIAB Facebook", "NV/1"),
    ),
    "words and names of products that User-Agents of people contain": (
        *("Operator", "Spider", "OpenAI", "YaK", "LCC", "NotebookLM", "UseAI", "Viber"),
        *("Butterfly", "Sonic", "Speedy"),  # phones, and a code name of a Slack client
        "AP3A.240617.008",  # a build of Android
    ),
    "programs that show pages to people": (*("Miniature.io", "YLT Chrome", "TSM-turingos", "Amzn-User"),),
}
EXCLUDED = {name.casefold() for names in NOT_TAKEN.values() for name in names}
# Hosts of pages about crawlers, which are not their operators.
NO_OPERATORS = ("github.com", "gitlab.com", "wikipedia.org", "knownagents.com", "darkvisitors.com", "web.archive.org")
MAX_OPERATOR = 40
# Lines of referrer-spam-list that are not taken: public suffixes, below which others own domains.
NO_SPAM = ("kharkov.ua",)


class Problem(SystemExit):
    """What has to be changed before the list can be built."""


def literal(pattern: str) -> str | None:
    """Return the text that a regular expression without any operator stands for, otherwise None."""
    if re.search(r"(?<!\\)[$^.|?*+()\[\]{}]|\\[A-Za-z0-9]", pattern):
        return None
    return re.sub(r"\\(.)", r"\1", pattern)


def texts(entry: dict[str, Any]) -> tuple[str, ...]:
    """Return the texts that are matched for an entry of crawler-user-agents."""
    pattern: str = entry["pattern"]
    text = literal(pattern)
    if text is None:
        if pattern not in EXPRESSIONS:
            raise Problem(f"not in EXPRESSIONS: {pattern!r} of {entry.get('instances', [])[:2]}")
        return EXPRESSIONS[pattern]
    if text.strip(" /").casefold() in EXCLUDED:
        return ()
    examples = [example.lower() for example in entry.get("instances", ())]
    if re.search(r"(bot|crawler|spider|scraper)s?/?$", text.lower()):  # as the general rule
        return (text.rstrip("/"),)
    at_start = bool(examples) and all(example.startswith(text.lower()) for example in examples)
    return (f"^{text}" if at_start else text,)


def purpose_of_tags(tags: list[str]) -> str:
    """Return the purpose of the first tag."""
    unknown = [tag for tag in tags if tag not in TAGS]
    if unknown or not tags:
        raise Problem(f"not in TAGS: {unknown or tags}")
    return TAGS[tags[0]]


def purpose_of_function(function: str) -> str:
    """Return the purpose of a text of ai.robots.txt; the longest beginning decides."""
    known = max((begin for begin in FUNCTIONS if function.startswith(begin)), key=len, default=None)
    if known is None:
        raise Problem(f"not in FUNCTIONS: {function!r}")
    return FUNCTIONS[known]


def operator_of_url(url: str) -> str:
    """Return the host of the page that describes a crawler, '' where that is not its operator's."""
    host = (urlsplit(url).hostname or "").removeprefix("www.")
    return "" if host.endswith(NO_OPERATORS) else host[:MAX_OPERATOR]


def operator_of_text(text: str) -> str:
    """Return the name in a text of ai.robots.txt, '' where it is a sentence."""
    name = re.sub(r"^\[(.+?)\]\(.*$", r"\1", text)
    is_name = len(name) <= MAX_OPERATOR and not re.search(r"Unclear|Unknown|://|[,.] ", name)
    return name if is_name else ""


def read_crawler_user_agents(wheel: Path) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Return the crawlers of the list by their names in lower case, and the list's source."""
    with zipfile.ZipFile(wheel) as archive:
        (member,) = (name for name in archive.namelist() if name.endswith("/crawler-user-agents.json"))
        year, month, day, *_ = archive.getinfo(member).date_time
        entries = json.loads(archive.read(member))
    crawlers: dict[str, dict[str, Any]] = {}
    for entry in entries:
        if LIBRARY in entry["tags"]:
            continue
        purpose, patterns = purpose_of_tags(entry["tags"]), texts(entry)
        if not patterns:
            continue
        name = patterns[0].strip(" ^/;:()-")
        crawler = crawlers.setdefault(
            name.casefold(),
            {"name": name, "operator": operator_of_url(entry.get("url", "")), "purpose": purpose, "patterns": []},
        )
        crawler["patterns"] += [pattern.lower() for pattern in patterns if pattern.lower() not in crawler["patterns"]]
    version, date = wheel.name.split("-")[1], f"{year}-{month:02}-{day:02}"
    url = "https://pypi.org/project/crawler-user-agents/"
    return crawlers, source("crawler-user-agents", version, date, url, wheel)


def add_ai_robots(crawlers: dict[str, dict[str, Any]], path: Path) -> None:
    """Add the agents of ai.robots.txt; of those that are there already, operator and purpose."""
    for listed, entry in json.loads(path.read_bytes()).items():
        name = re.sub(r"[/ ][0-9.]+$", "", listed)
        purpose, operator = purpose_of_function(entry["function"]), operator_of_text(entry["operator"])
        if name.casefold() in EXCLUDED:
            continue
        new = {"name": name, "operator": "", "purpose": purpose, "patterns": [name.lower()]}
        crawler = crawlers.setdefault(name.casefold(), new)
        # These are names of robots, not of apps of people, so they count anywhere.
        crawler["patterns"] = [
            pattern for pattern in crawler["patterns"] if pattern not in ("^" + name.lower(), name.lower())
        ]
        crawler["patterns"].insert(0, name.lower())
        crawler["operator"] = operator or crawler["operator"]
        if purpose != "other":
            crawler["purpose"] = purpose


def source(name: str, version: str, date: str, url: str, path: Path) -> dict[str, str]:
    """Return the record of a source."""
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return {"name": name, "version": version, "date": date, "url": url, "licence": "MIT", "sha256": digest}


def check_people() -> None:
    """Fail where the written list matches a User-Agent of a person or of an app in the tests."""
    sys.path.insert(0, str(ROOT))
    from tally.events.user_agent import Agents, crawler_name
    from tests.unit.events.test_user_agent import CLIENTS, PEOPLE

    agents = Agents()
    texts = [row[0] for row in (*PEOPLE, *CLIENTS)]
    matched = [(crawler_name(text), text) for text in texts if agents.of(text).crawler]
    if matched:
        lines = "\n".join(f"  {name}: {user_agent}" for name, user_agent in matched)
        raise Problem(f"these are no crawlers; add the names to NOT_TAKEN:\n{lines}")


def write_referrer_spam(given: argparse.Namespace) -> None:
    """Write the hosts of referrer spam."""
    sys.path.insert(0, str(ROOT))
    from publicsuffixlist import PublicSuffixList

    from tally.events.referrer_spam import covers
    from tally.events.urls import BadHost, normal_host

    content = given.spammers.read_bytes()
    suffixes, hosts = PublicSuffixList(accept_unknown=False), set()
    for number, line in enumerate(content.decode("utf-8").splitlines(), start=1):
        text = line.strip()
        if not text or text in NO_SPAM:
            continue
        try:
            host = normal_host(text)
        except BadHost:
            raise Problem(f"line {number} is no host: {text!r}") from None
        if "." not in host or suffixes.is_public(host):
            raise Problem(f"line {number} is a public suffix: {text!r}")
        hosts.add(host)
    known = (ROOT / "tally/data/referrer_hosts.txt").read_text("utf-8").splitlines()
    wrong = [text for text in known if "." in text and not text.startswith("#") and covers(hosts, text)]
    if wrong:
        raise Problem(f"these hosts of referrer_hosts.txt would be spam: {wrong}")
    # An entry below another one adds nothing.
    hosts = {host for host in hosts if not covers(hosts, host.partition(".")[2])}
    head = (
        f"# Hosts of referrer spam (tally/events/referrer_spam.py): matomo-org/referrer-spam-list, CC0-1.0\n"
        f"# source: https://github.com/matomo-org/referrer-spam-list\n"
        f"# version: {given.commit}\n# date: {given.date}\n# sha256: {hashlib.sha256(content).hexdigest()}\n"
    )
    SPAM.write_text(head + "".join(f"{host}\n" for host in sorted(hosts)), encoding="utf-8")
    print(f"{SPAM.relative_to(ROOT)}: {len(hosts)} hosts")


def write_countries(given: argparse.Namespace) -> None:
    """Write the names of countries, and the licence of their source."""
    with tarfile.open(given.package) as package:

        def content(name: str) -> bytes:
            file = package.extractfile(f"package/{name}")
            if file is None:
                raise Problem(f"{given.package} has no file {name}")
            return file.read()

        version = json.loads(content("package.json"))["version"]
        names = []
        for language in LANGUAGES:
            read = json.loads(content(f"main/{language}/territories.json"))
            names.append(read["main"][language]["localeDisplayNames"]["territories"])
        CLDR_LICENCE.write_bytes(content("LICENSE"))
    codes = sorted(code for code in names[0] if re.fullmatch("[A-Z]{2}", code) and code not in NO_COUNTRIES)
    rows = ",\n".join(
        f'"{code}":' + json.dumps([own[code] for own in names], ensure_ascii=False, separators=(",", ":"))
        for code in codes
    )
    digest = hashlib.sha256(given.package.read_bytes()).hexdigest()
    about = {"name": "cldr-localenames-full", "version": version, "licence": "Unicode-3.0", "sha256": digest}
    head = f'{{"source":{json.dumps(about)},\n"languages":{json.dumps(LANGUAGES)},\n"names":{{\n'
    COUNTRIES.write_text(f"{head}{rows}\n}}}}\n", encoding="utf-8")
    print(f"{COUNTRIES.relative_to(ROOT)}: {len(codes)} countries")


def main() -> None:
    """Write a list, then check it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    lists = parser.add_subparsers(required=True)
    crawlers = lists.add_parser("crawlers")
    crawlers.add_argument("wheel", type=Path, help="of crawler-user-agents")
    crawlers.add_argument("robots", type=Path, help="robots.json of ai.robots.txt")
    crawlers.add_argument("commit", help="of ai.robots.txt")
    crawlers.add_argument("date", help="of that commit")
    crawlers.set_defaults(write=write_crawlers)
    spam = lists.add_parser("referrer-spam")
    spam.add_argument("spammers", type=Path, help="spammers.txt of referrer-spam-list")
    spam.add_argument("commit", help="of referrer-spam-list")
    spam.add_argument("date", help="of that commit")
    spam.set_defaults(write=write_referrer_spam)
    countries = lists.add_parser("countries")
    countries.add_argument("package", type=Path, help="cldr-localenames-full, as packed by npm")
    countries.set_defaults(write=write_countries)
    given = parser.parse_args()
    given.write(given)


def write_crawlers(given: argparse.Namespace) -> None:
    """Write the crawlers."""
    crawlers, wheel = read_crawler_user_agents(given.wheel)
    add_ai_robots(crawlers, given.robots)
    for (operator, purpose), names in ADDED.items():
        for text in names:
            name = text.strip("^/")
            new = {"name": name, "operator": operator, "purpose": purpose, "patterns": [text.lower()]}
            crawlers.setdefault(name.casefold(), new)
    robots = source(
        "ai.robots.txt", given.commit, given.date, "https://github.com/ai-robots-txt/ai.robots.txt", given.robots
    )
    rows = ",\n".join(
        json.dumps(crawlers[name], ensure_ascii=False, separators=(",", ":")) for name in sorted(crawlers)
    )
    sources = ",\n".join(json.dumps(row, separators=(",", ":")) for row in (wheel, robots))
    TARGET.write_text(f'{{"sources":[\n{sources}\n],"crawlers":[\n{rows}\n]}}\n', encoding="utf-8")
    check_people()
    print(f"{TARGET.relative_to(ROOT)}: {len(crawlers)} crawlers")


if __name__ == "__main__":
    main()
