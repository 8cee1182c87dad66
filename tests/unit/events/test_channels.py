"""The channel of an acquisition (tally/events/channels.py), and the list of hosts that it uses.

The rules are in docs/reference/channels.md.
"""

import re

from hypothesis import given
from hypothesis import strategies as st

from tally.events import channels
from tally.events.channels import CATEGORIES, CHANNELS, RULES, channel, host_category
from tally.resources import asset
from tests.support.app import ROOT
from tests.support.cases import cases

PAGE = (ROOT / "docs/reference/channels.md").read_text()
# The channel of each category, for a referrer without utm values.
UNTAGGED = {
    "ai": "AI assistants",
    "search": "Organic search",
    "social": "Organic social",
    "video": "Video",
    "shopping": "Shopping",
    "email": "Email",
    "affiliates": "Affiliates",
    "display": "Display",
    "push": "Push",
    "sms": "SMS",
    "audio": "Audio",
    "referral": "Referral",
}


def entries(name: str) -> list[tuple[str, str]]:
    """Each entry of a list and its category."""
    found, category = [], ""
    for line in asset(name).read_text().splitlines():
        if line.startswith("["):
            category = line[1:-1]
        elif line and not line.startswith("#"):
            found.append((line, category))
    return found


def example(entry: str) -> str:
    """A host that an entry with `*` stands for."""
    return re.sub(r"^\*", "de", re.sub(r"\*$", "co.uk", entry))


@cases(
    ("referrer", "expected"),
    [
        ("", "Direct"),
        ("google.com", "Organic search"),
        ("google.de", "Organic search"),
        ("google.co.uk", "Organic search"),
        ("google.com.br", "Organic search"),
        ("bing.com", "Organic search"),
        ("cn.bing.com", "Organic search"),
        ("de.search.yahoo.com", "Organic search"),
        ("duckduckgo.com", "Organic search"),
        ("yandex.ru", "Organic search"),
        ("com.google.android.googlequicksearchbox", "Organic search"),
        ("docs.google.com", "Referral"),
        ("docs.google.de", "Referral"),
        ("accounts.google.com", "Referral"),
        ("google.example.com", "Referral"),
        ("evilgoogle.com", "Referral"),
        ("cnn.com", "Referral"),
        ("facebook.com", "Organic social"),
        ("l.facebook.com", "Organic social"),
        ("lm.facebook.com", "Organic social"),
        ("t.co", "Organic social"),
        ("old.reddit.com", "Organic social"),
        ("com.reddit.frontpage", "Organic social"),
        ("pinterest.co.kr", "Organic social"),
        ("news.ycombinator.com", "Organic social"),
        ("out-of-t.co", "Referral"),
        ("youtube.com", "Video"),
        ("m.youtube.com", "Video"),
        ("amazon.co.jp", "Shopping"),
        ("smile.amazon.com", "Shopping"),
        ("aws.amazon.com", "Referral"),
        ("chatgpt.com", "AI assistants"),
        ("chat.openai.com", "AI assistants"),
        ("claude.ai", "AI assistants"),
        ("gemini.google.com", "AI assistants"),
        ("copilot.microsoft.com", "AI assistants"),
        ("perplexity.ai", "AI assistants"),
        ("grok.com", "AI assistants"),
        ("chat.deepseek.com", "AI assistants"),
        ("chat.mistral.ai", "AI assistants"),
        ("meta.ai", "AI assistants"),
        ("duck.ai", "AI assistants"),
        ("com.openai.chatgpt", "AI assistants"),
        ("mail.google.com", "Email"),
        ("com.google.android.gm", "Email"),
        ("webmail.company.example", "Email"),
        ("mail.example", "Referral"),
        ("googleads.g.doubleclick.net", "Display"),
        ("open.spotify.com", "Audio"),
        ("awin1.com", "Affiliates"),
        ("m.weibo.cn", "Organic social"),
        ("weibo.cn", "Organic social"),
        ("l.wl.co", "Organic social"),
        # hosts of an engine for other devices, and what is below its search. host
        ("m.bing.com", "Organic search"),
        ("m.duckduckgo.com", "Organic search"),
        ("m.yandex.com.tr", "Organic search"),
        ("m.search.daum.net", "Organic search"),
        ("image.search.naver.com", "Organic search"),
        ("video.search.yahoo.co.jp", "Organic search"),
        ("so.toutiao.com", "Organic search"),
        ("search.walla.co.il", "Organic search"),
        ("petalsearch.com", "Organic search"),
        ("mail.google.co.uk", "Email"),
        ("m.docs.google.com", "Referral"),
        ("m.example.com", "Referral"),
        ("blog.ecosia.org", "Referral"),
        ("help.kagi.com", "Referral"),
        ("search.example.com", "Referral"),
        # redirectors of advertisements
        ("googleadservices.com", "Display"),
        ("partner.googleadservices.com", "Display"),
        ("ad.doubleclick.net", "Display"),
        ("syndicatedsearch.goog", "Display"),
        ("yabs.yandex.ru", "Display"),
        ("an.yandex.ru", "Display"),
        ("ad.search.naver.com", "Display"),
        ("m365.cloud.microsoft", "AI assistants"),
        ("assistant.kagi.com", "AI assistants"),
        ("blog.example.com", "Referral"),
        ("localhost", "Referral"),
        ("192.0.2.7", "Referral"),
        ("[2001:db8::7]", "Referral"),
    ],
)
def test_referrer_alone(referrer: str, expected: str) -> None:
    """Hosts of search engines exactly, others with subdomains; everything unknown is a referral."""
    assert channel(referrer) == expected


@cases(
    ("acquisition", "expected"),
    [
        # 1, 2: nothing, and campaigns over several networks
        (("", "(direct)", "(none)"), "Direct"),
        (("", "direct", "(not set)"), "Direct"),
        (("", "google", "cpc", "Cross-Network"), "Other"),
        # 3: paid, a shop
        (("", "amazon", "cpc"), "Shopping"),
        (("", "google", "cpc", "summer-shop"), "Shopping"),
        (("", "google", "cpc", "eshop sale"), "Shopping"),
        (("", "google", "cpc", "Google Shopping"), "Shopping"),
        (("", "google", "cpc", "workshop"), "Paid search"),
        (("", "partner", "paid-shopping"), "Shopping"),
        # 4 to 6: paid, by the source
        (("", "google", "cpc"), "Paid search"),
        (("google.com", "", "cpc"), "Paid search"),
        (("", "bing", "ppc"), "Paid search"),
        (("", "google", "cpm"), "Paid search"),
        (("", "Google Ads"), "Paid search"),
        (("", "adwords"), "Paid search"),
        (("", "agency", "paid_search"), "Paid search"),
        (("", "facebook", "paid"), "Paid social"),
        (("", "fb_ad"), "Paid social"),
        (("", "l.instagram.com", "cpc"), "Paid social"),
        (("", "linkedin", "Paid Social"), "Paid social"),
        (("", "agency", "paid-social"), "Paid social"),
        (("", "facebook", "retargeting"), "Paid social"),
        (("", "youtube", "cpv", ""), "Video"),
        (("", "youtube", "paidvideo"), "Video"),
        (("", "threads"), "Organic social"),
        (("", "google", "sea"), "Paid search"),
        (("", "agency", "SEA"), "Paid search"),
        (("", "bing", "search_ads"), "Paid search"),
        (("", "google", "remarketing"), "Paid search"),
        (("", "gads"), "Paid search"),
        (("", "facebook", "social-paid"), "Paid social"),
        (("", "agency", "social_paid"), "Paid social"),
        (("", "agency", "socialads"), "Paid social"),
        (("", "facebook", "ads"), "Paid social"),
        (("", "youtube", "video-ads"), "Video"),
        (("", "partner", "shopping ads"), "Shopping"),
        (("", "facebook", "unpaid"), "Organic social"),
        (("", "google", "display-ads"), "Display"),
        (("", "partner", "downloads"), "Other"),
        (("", "partner", "sponsored-ad"), "Other"),
        # 7, 8: display, other advertisements
        (("", "news", "banner"), "Display"),
        (("", "news", "cpm"), "Display"),
        (("", "taboola", "cpc"), "Display"),
        (("", "news", "cpc"), "Other"),
        (("", "chatgpt.com", "cpc"), "Other"),
        (("", "email", "cpc"), "Other"),
        # 9 to 13: not paid, by source or medium
        (("", "ebay", "feed"), "Shopping"),
        (("", "newsletter", "email", "shop"), "Shopping"),
        (("", "facebook", "post"), "Organic social"),
        (("", "facebook", "email"), "Organic social"),
        (("", "hootsuite", "social"), "Organic social"),
        (("", "team", "Social Media"), "Organic social"),
        (("", "team", "video-post"), "Video"),
        (("", "vimeo", "referral"), "Video"),
        (("", "chatgpt.com"), "AI assistants"),
        (("", "openai.com"), "AI assistants"),
        (("", "openai"), "AI assistants"),
        (("qwant.com", "qwant", "referral", "ai_chat"), "AI assistants"),
        (("qwant.com", "qwant", "referral"), "Organic search"),
        (("", "agency", "ai-chat"), "AI assistants"),
        (("", "https://chatgpt.com/"), "AI assistants"),
        (("google.com", "chatgpt.com"), "AI assistants"),
        (("", "perplexity", "referral"), "AI assistants"),
        (("", "tool", "ai-assistant"), "AI assistants"),
        (("", "directory", "organic"), "Organic search"),
        (("", "google"), "Organic search"),
        (("", "www.google.com", "organic"), "Organic search"),
        # 14 to 19: by medium or name
        (("", "july", "e-mail"), "Email"),
        (("", "july", "E Mail"), "Email"),
        (("", "weekly_newsletter"), "Email"),
        (("", "mailchimp", "july"), "Email"),
        (("", "partner", "affiliate"), "Affiliates"),
        (("", "awin"), "Affiliates"),
        (("", "partner", "referral"), "Referral"),
        (("", "shop app", "app"), "Referral"),
        (("", "show", "audio"), "Audio"),
        (("", "show", "podcast"), "Audio"),
        (("", "sms"), "SMS"),
        (("", "campaign", "SMS"), "SMS"),
        (("", "app", "web-push"), "Push"),
        (("", "app", "mobile"), "Push"),
        (("", "app", "notification"), "Push"),
        (("", "firebase"), "Push"),
        # 20, 21: what remains
        (("", "partner"), "Referral"),
        (("", "群"), "Referral"),
        (("example.com", "", "(none)"), "Referral"),
        (("", "poster", "flyer"), "Other"),
        (("", "", "传单"), "Other"),
        (("example.com", "", "flyer"), "Other"),
        (("", "", "", "spring"), "Other"),
    ],
)
def test_tagged(acquisition: tuple[str, ...], expected: str) -> None:
    """The rows of the table in their order: GA4's rules, and those that the page adds."""
    assert channel(*acquisition) == expected


def test_the_page_has_the_rules() -> None:
    """The first row that applies decides."""
    rows = re.findall(r"^\| [0-9]+ \| ([^|]+) \|", PAGE, re.MULTILINE)
    assert rows == [name for name, _ in RULES]
    assert set(UNTAGGED.values()) | {"Direct", "Other", "Paid search", "Paid social"} == CHANNELS


def test_the_list_is_well_formed() -> None:
    listed = entries(channels.HOSTS)
    for entry, category in listed:
        assert category in CATEGORIES, entry
        is_host = r"(\*\.)?[a-z0-9_-]+(\.[a-z0-9_-]+)*\.([a-z0-9_-]+|\*)"
        assert re.fullmatch(is_host if "." in entry else r"[a-z0-9]+", entry), entry
        assert not entry.startswith("www."), entry
    names = [entry for entry, _ in listed]
    assert sorted(names) == sorted(set(names)), "an entry is repeated"


def test_every_entry_has_its_channel() -> None:
    """Looked up as a host, as the id of an Android app, or (utm_source) as a name."""
    for entry, category in entries(channels.HOSTS):
        acquisition = (example(entry),) if "." in entry else ("", entry)
        assert channel(*acquisition) == UNTAGGED[category], entry


@given(st.lists(st.text(max_size=120), min_size=4, max_size=4))
def test_any_text_has_a_channel(texts: list[str]) -> None:
    assert channel(*texts) in CHANNELS


def test_caches_are_bounded() -> None:
    for number in range(3_000):
        channel(f"{number}.example", f"s{number}")
        host_category(f"{number}.example")
    for cached in (channel, host_category):
        assert cached.cache_info().currsize <= cached.cache_info().maxsize == 1_024
