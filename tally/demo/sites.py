"""The websites of the demo as tables: pages, paths through them, sources, countries, devices, events, experiments.

Every number here is invented. The hosts of the websites end in .example, which RFC 2606 reserves, so that none of them
exists. Weights are relative; tally/demo/traffic.py draws from them.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

EXIT = ""
"""In Page.onward: the visit ends here."""


class Page(NamedTuple):
    """A page or a screen: the weights of what a visit does next, and the custom events sent there with their odds."""

    onward: Mapping[str, float]
    events: tuple[tuple[str, float], ...] = ()
    seconds: float = 45.0
    weight: float = 1.0
    """How heavy the page is to load: multiplies its LCP."""


class Campaign(NamedTuple):
    """A source of visits: referrer and UTM values; `ages` are the days before the end on which it runs."""

    weight: float
    referrer: str = ""
    source: str = ""
    medium: str = ""
    name: str = ""
    ages: tuple[int, int] = (0, 100_000)
    landing: Mapping[str, float] | None = None
    content: str = ""
    term: str = ""


class Client(NamedTuple):
    """What a visitor uses."""

    weight: float
    device: str
    browser: str
    os: str
    os_version: str = ""
    platform: str = ""


class Trial(NamedTuple):
    """An experiment: where it assigns, how often each variant reaches the goal, and how many days ago it began."""

    name: str
    at: str
    goal: str
    rates: Mapping[str, float]
    began: int
    value: float | None = None


class Annotation(NamedTuple):
    """A text on the chart: the days before the end on which it begins and, of a range, ends."""

    age: int
    text: str
    last: int | None = None


class Saved(NamedTuple):
    """What the owner of a website has saved, as tally/api/definitions.py describes it.

    A step `goal:` of a funnel has the name of a goal in place of its id.
    """

    goals: tuple[Mapping[str, Any], ...]
    segments: tuple[Mapping[str, Any], ...]
    funnels: tuple[Mapping[str, Any], ...]
    annotations: tuple[Annotation, ...]


class Site(NamedTuple):
    """A website of the demo; `visits` is the mean of a day at the end of the half year, at 200,000 events in all."""

    name: str
    domain: str
    time_zone: str
    home: str
    """The country of two thirds of the visitors, who are in the website's time zone."""
    visits: float
    growth: float
    """Visits of the first day as a share of those of the last."""
    weekdays: tuple[float, ...]
    landing: Mapping[str, float]
    pages: Mapping[str, Page]
    sources: tuple[Campaign, ...]
    clients: tuple[Client, ...]
    bounce: float
    saved: Saved
    trials: tuple[Trial, ...] = ()
    spike: tuple[int, float, str] | None = None
    """Days before the end, how many times the usual visits, and the referrer of the additional ones."""
    is_app: bool = False


# Country, weight, hours ahead of UTC, languages. Of today's time zones one each: the day's rhythm needs no more.
# Newest major versions when this was written; a fifth of the visitors has the one before.
BROWSER_VERSIONS = {"Chrome": 142, "Edge": 142, "Firefox": 145, "Safari": 26, "Samsung Internet": 28}
# Region (ISO 3166-2) and city of visitors, as a database of cities would give them.
CITIES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "US": (("US-CA", "San Francisco"), ("US-NY", "New York"), ("US-TX", "Austin"), ("US-NY", "New York")),
    "DE": (("DE-BE", "Berlin"), ("DE-BY", "Munich"), ("DE-HH", "Hamburg")),
    "GB": (("GB-ENG", "London"), ("GB-ENG", "Manchester"), ("GB-SCT", "Edinburgh")),
    "FR": (("FR-IDF", "Paris"), ("FR-ARA", "Lyon")),
    "CA": (("CA-ON", "Toronto"), ("CA-QC", "Montreal")),
}
COUNTRIES: tuple[tuple[str, float, int, tuple[str, ...]], ...] = (
    ("US", 24, -6, ("en-US", "en-US", "en-US", "es-US")),
    ("DE", 16, 1, ("de-DE", "de-DE", "de-DE", "en-GB")),
    ("GB", 11, 0, ("en-GB",)),
    ("FR", 8, 1, ("fr-FR",)),
    ("NL", 5, 1, ("nl-NL", "en-GB")),
    ("CA", 5, -5, ("en-CA", "fr-CA")),
    ("IN", 4.5, 5, ("en-IN", "hi-IN")),
    ("ES", 4, 1, ("es-ES",)),
    ("IT", 4, 1, ("it-IT",)),
    ("AT", 3, 1, ("de-AT",)),
    ("CH", 3, 1, ("de-CH", "fr-CH")),
    ("BR", 2.5, -3, ("pt-BR",)),
    ("AU", 2.5, 10, ("en-AU",)),
    ("JP", 2, 9, ("ja-JP",)),
    ("PL", 2, 1, ("pl-PL",)),
    ("SE", 1.8, 1, ("sv-SE",)),
    ("MX", 1.5, -6, ("es-MX",)),
    ("DK", 1.2, 1, ("da-DK",)),
    ("PT", 1, 0, ("pt-PT",)),
    ("ZA", 0.7, 2, ("en-ZA",)),
    ("KE", 0.5, 3, ("en-KE",)),
    ("NZ", 0.5, 12, ("en-NZ",)),
    ("", 0.6, 0, ("en-US",)),
)

# Visits by local hour, from midnight on: quiet nights, a first peak at noon and a higher one in the evening.
HOURS = (6, 4, 3, 2, 2, 3, 8, 18, 30, 38, 42, 45, 48, 44, 42, 41, 42, 44, 48, 56, 62, 55, 36, 16)

_WEB_CLIENTS = (
    Client(26, "desktop", "Chrome", "Windows"),
    Client(9, "desktop", "Chrome", "macOS"),
    Client(8, "desktop", "Safari", "macOS"),
    Client(6, "desktop", "Edge", "Windows"),
    Client(5, "desktop", "Firefox", "Windows"),
    Client(3, "desktop", "Firefox", "Linux"),
    Client(14, "mobile", "Safari", "iOS", "26.0"),
    Client(7, "mobile", "Safari", "iOS", "17.5"),
    Client(16, "mobile", "Chrome", "Android"),
    Client(3, "mobile", "Samsung Internet", "Android"),
    Client(2, "tablet", "Safari", "iOS", "17.5"),
    Client(1, "tablet", "Chrome", "Android"),
)


def _goal(name: str, match: str, value: str | None = None, currency: str | None = None) -> Mapping[str, Any]:
    kind = "page" if match.startswith("filter_pathname") else "event"
    return {"name": name, "type": kind, "match": [match], "value": value, "currency": currency}


_SHOP = Site(
    name="Coffee shop",
    domain="coffee.example",
    time_zone="Europe/Berlin",
    home="DE",
    visits=205,
    growth=0.5,
    weekdays=(1.15, 1.04, 0.98, 0.94, 0.88, 0.78, 1.1),
    landing={"/": 40, "/coffee": 12, "/coffee/house-blend": 9, "/brew-guides/pour-over": 14, "/equipment/grinder": 8},
    pages={
        "/": Page({"/coffee": 45, "/subscription": 14, "/brew-guides": 10, "/equipment": 14, "/about": 5, EXIT: 26}),
        "/coffee": Page(
            {"/coffee/house-blend": 30, "/coffee/guji": 24, "/coffee/huila": 17, "/coffee/decaf": 9, EXIT: 20},
            (("filter_used", 0.15),),
        ),
        "/coffee/house-blend": Page(
            {"/cart": 34, "/coffee": 22, "/subscription": 8, EXIT: 30}, (("add_to_cart", 0.3),)
        ),
        "/coffee/guji": Page({"/cart": 30, "/coffee": 26, EXIT: 34}, (("add_to_cart", 0.26),), 60, 1.2),
        "/coffee/huila": Page({"/cart": 24, "/coffee": 30, EXIT: 36}, (("add_to_cart", 0.22),), 55, 1.2),
        "/coffee/decaf": Page({"/cart": 22, "/coffee": 28, EXIT: 40}, (("add_to_cart", 0.2),)),
        "/equipment": Page({"/equipment/grinder": 40, "/equipment/kettle": 25, "/coffee": 10, EXIT: 25}),
        "/equipment/grinder": Page({"/cart": 16, "/equipment": 24, EXIT: 50}, (("add_to_cart", 0.14),), 80, 1.6),
        "/equipment/kettle": Page({"/cart": 16, "/equipment": 24, EXIT: 50}, (("add_to_cart", 0.14),), 70, 1.5),
        "/subscription": Page({"/cart": 22, "/coffee": 24, EXIT: 44}, (("add_to_cart", 0.18),), 70),
        "/brew-guides": Page({"/brew-guides/pour-over": 40, "/brew-guides/french-press": 28, EXIT: 28}),
        "/brew-guides/pour-over": Page(
            {"/equipment": 12, "/coffee": 12, "/brew-guides": 14, EXIT: 60}, (("newsletter_signup", 0.03),), 140
        ),
        "/brew-guides/french-press": Page(
            {"/coffee": 12, "/brew-guides": 14, EXIT: 60}, (("newsletter_signup", 0.03),), 120
        ),
        "/about": Page({"/": 20, "/coffee": 14, EXIT: 60}),
        "/cart": Page({"/checkout": 58, "/coffee": 16, EXIT: 26}, (), 30),
        "/checkout": Page({"/thank-you": 64, EXIT: 36}, (), 95, 0.9),
        "/thank-you": Page({EXIT: 92, "/coffee": 8}, (("order", 1.0),), 20, 0.7),
    },
    sources=(
        Campaign(28),
        Campaign(30, "google.com"),
        Campaign(4, "bing.com"),
        Campaign(4, "duckduckgo.com"),
        Campaign(7, "instagram.com"),
        Campaign(2, "reddit.com", landing={"/brew-guides/pour-over": 3, "/equipment/grinder": 2}),
        Campaign(3, "chatgpt.com", landing={"/equipment/grinder": 3, "/coffee": 1}),
        Campaign(2, "youtube.com", landing={"/brew-guides/pour-over": 1}),
        Campaign(
            *(9, "google.com", "google", "cpc", "grinders", (0, 75), {"/equipment/grinder": 5, "/equipment": 1}),
            *("text-ad", "coffee grinder"),
        ),
        Campaign(5, "instagram.com", "instagram", "paid_social", "new-harvest", (30, 58), {"/coffee/guji": 1}),
        Campaign(6, "", "newsletter", "email", "monthly-roast", landing={"/coffee": 3, "/subscription": 2}),
        Campaign(7, "", "newsletter", "email", "subscription-offer", (0, 16), {"/subscription": 1}),
    ),
    clients=_WEB_CLIENTS,
    bounce=0.34,
    saved=Saved(
        goals=(
            _goal("Order", "filter_event_name=order", "value", "EUR"),
            _goal("Added to cart", "filter_event_name=add_to_cart"),
            _goal("Checkout", "filter_pathname=/checkout"),
            _goal("Newsletter", "filter_event_name=newsletter_signup"),
        ),
        segments=(
            {"name": "Paid campaigns", "filters": ["filter_channel=Paid search", "filter_channel=Paid social"]},
            {"name": "Phones", "filters": ["filter_device=mobile"]},
        ),
        funnels=(
            {
                "name": "From coffee to order",
                "steps": ["pathname:/coffee", "event_name:add_to_cart", "pathname:/checkout", "goal:Order"],
            },
        ),
        annotations=(
            Annotation(58, "Instagram ads for the new harvest", 30),
            Annotation(4, "Free shipping from 40 euros"),
        ),
    ),
    trials=(Trial("checkout-layout", "/cart", "order", {"control": 0.40, "one-page": 0.485}, 62, 31.0),),
)

_POSTS = (
    ("night-trains-europe", 30),
    ("lisbon-on-foot", 20),
    ("packing-list", 18),
    ("slow-travel-guide", 12),
    ("hiking-the-dolomites", 11),
    ("ferry-to-the-lofoten", 9),
    ("budget-tokyo", 8),
    ("city-cards-compared", 6),
)
_POST = Page(
    {"/": 10, "/newsletter": 4, "/posts/packing-list": 8, "/posts/night-trains-europe": 6, EXIT: 60},
    (("newsletter_signup", 0.025), ("outbound", 0.06), ("share", 0.015)),
    150,
    1.15,
)

_BLOG = Site(
    name="Travel blog",
    domain="travel.example",
    time_zone="America/Los_Angeles",
    home="US",
    visits=205,
    growth=0.62,
    weekdays=(0.95, 0.91, 0.89, 0.91, 0.96, 1.14, 1.26),
    landing={"/": 18, "/newsletter": 1, **{f"/posts/{name}": weight for name, weight in _POSTS}},
    pages={
        "/": Page({**{f"/posts/{name}": weight for name, weight in _POSTS}, "/about": 6, EXIT: 40}, (), 35),
        **{f"/posts/{name}": _POST for name, _ in _POSTS},
        "/newsletter": Page({"/": 20, EXIT: 70}, (("newsletter_signup", 0.35),), 30, 0.7),
        "/about": Page({"/": 30, "/newsletter": 8, EXIT: 60}, (), 40, 0.8),
    },
    sources=(
        Campaign(20),
        Campaign(42, "google.com"),
        Campaign(5, "bing.com"),
        Campaign(5, "duckduckgo.com"),
        Campaign(6, "pinterest.com"),
        Campaign(5, "facebook.com"),
        Campaign(3, "reddit.com", landing={"/posts/night-trains-europe": 1}),
        Campaign(3, "perplexity.ai"),
        Campaign(4, "chatgpt.com"),
        Campaign(9, "", "newsletter", "email", "weekly-letter", landing={"/posts/slow-travel-guide": 2, "/": 3}),
        Campaign(3, "", "mastodon", "social", "night-trains", (20, 70), {"/posts/night-trains-europe": 1}),
    ),
    clients=_WEB_CLIENTS,
    bounce=0.46,
    saved=Saved(
        goals=(
            _goal("Newsletter", "filter_event_name=newsletter_signup"),
            _goal("Link to a partner", "filter_event_name=outbound"),
            _goal("Post shared", "filter_event_name=share"),
        ),
        segments=({"name": "Readers from search", "filters": ["filter_channel=Organic search"]},),
        funnels=({"name": "Newsletter", "steps": ["pathname:/", "pathname:/newsletter", "goal:Newsletter"]},),
        annotations=(
            Annotation(47, "Night trains on the front page of Hacker News"),
            Annotation(5, "New post: Lisbon on foot"),
        ),
    ),
    trials=(Trial("newsletter-headline", "/newsletter", "signup", {"original": 0.31, "question": 0.33}, 90),),
    spike=(47, 3.4, "news.ycombinator.com"),
)

_APP = Site(
    name="Habit app",
    domain="habits.example",
    time_zone="Asia/Kolkata",
    home="IN",
    visits=140,
    growth=0.3,
    weekdays=(1.08, 1.05, 1.03, 1.0, 0.95, 0.9, 0.99),
    landing={"/today": 78, "/onboarding": 14, "/reminder": 8},
    pages={
        "/onboarding": Page({"/new-habit": 62, "/today": 18, EXIT: 20}, (), 50),
        "/today": Page(
            {"/habit": 30, "/statistics": 14, "/new-habit": 7, "/settings": 4, EXIT: 55}, (("habit_done", 0.6),), 25
        ),
        "/reminder": Page({"/today": 66, EXIT: 34}, (("habit_done", 0.45),), 12),
        "/habit": Page({"/today": 50, "/statistics": 12, EXIT: 40}, (("habit_done", 0.25),), 20),
        "/statistics": Page({"/today": 40, "/upgrade": 9, EXIT: 50}, (), 40),
        "/new-habit": Page({"/today": 70, EXIT: 20}, (("habit_created", 0.72),), 45),
        "/settings": Page({"/today": 50, "/upgrade": 8, EXIT: 40}, (("reminder_set", 0.3),), 30),
        "/upgrade": Page({"/today": 60, EXIT: 40}, (("upgrade", 0.12),), 50),
    },
    sources=(
        Campaign(88),
        Campaign(7, "", "newsletter", "email", "tips"),
        Campaign(5, "", "apple_search_ads", "cpc", "habit-tracker", (0, 60), {"/onboarding": 1}),
    ),
    clients=(
        Client(36, "mobile", "", "iOS", "26.0", "ios"),
        Client(20, "mobile", "", "iOS", "18.5", "ios"),
        Client(24, "mobile", "", "Android", "16", "android"),
        Client(15, "mobile", "", "Android", "15", "android"),
        Client(5, "tablet", "", "iOS", "26.0", "ios"),
    ),
    bounce=0.12,
    saved=Saved(
        goals=(
            _goal("Habit created", "filter_event_name=habit_created"),
            _goal("Upgrade", "filter_event_name=upgrade"),
        ),
        segments=({"name": "iOS", "filters": ["filter_platform=ios"]},),
        funnels=(
            {"name": "Onboarding", "steps": ["pathname:/onboarding", "pathname:/new-habit", "goal:Habit created"]},
        ),
        annotations=(Annotation(21, "Release 2.5.0"), Annotation(3, "Push notifications repaired")),
    ),
    trials=(Trial("onboarding-tour", "/onboarding", "habit_created", {"control": 0.44, "skip-tour": 0.52}, 45),),
    is_app=True,
)

SITES = (_SHOP, _BLOG, _APP)
"""In the order in which they are listed."""

# Releases of the app: since how many days before the end each is out.
RELEASES = ((160, "2.3.0"), (104, "2.4.0"), (58, "2.4.1"), (21, "2.5.0"))
FIRST_RELEASE = "2.2.0"

PRODUCTS: Mapping[str, tuple[str, float]] = {
    "/coffee/house-blend": ("house-blend", 11.9),
    "/coffee/guji": ("guji", 15.5),
    "/coffee/huila": ("huila", 13.9),
    "/coffee/decaf": ("decaf", 12.5),
    "/equipment/grinder": ("grinder", 129.0),
    "/equipment/kettle": ("kettle", 89.0),
    "/subscription": ("subscription", 24.0),
}

# Heatmaps: per page its height in pixels of a desktop, clicks a day, and the places that are clicked: across (0 to 1),
# down in pixels, spread of both, weight.
HOT: Mapping[str, Mapping[str, tuple[int, float, tuple[tuple[float, int, float, int, float], ...]]]] = {
    "coffee.example": {
        "/": (
            3_200,
            60,
            (
                (0.3, 40, 0.012, 8, 12),
                (0.4, 40, 0.012, 8, 9),
                (0.5, 40, 0.012, 8, 6),
                (0.25, 460, 0.04, 14, 22),
                (0.2, 980, 0.05, 60, 14),
                (0.5, 980, 0.05, 60, 11),
                (0.8, 980, 0.05, 60, 7),
                (0.5, 1_850, 0.06, 20, 5),
                (0.93, 40, 0.012, 8, 6),
                (0.5, 1_500, 0.28, 900, 8),
            ),
        ),
        "/coffee/house-blend": (
            2_100,
            34,
            (
                (0.72, 520, 0.035, 10, 26),
                (0.66, 430, 0.03, 9, 10),
                (0.25, 640, 0.09, 120, 9),
                (0.93, 40, 0.012, 8, 8),
                (0.5, 1_300, 0.25, 400, 6),
            ),
        ),
    },
    "travel.example": {
        "/posts/night-trains-europe": (
            6_400,
            42,
            (
                (0.35, 40, 0.02, 8, 8),
                (0.45, 900, 0.08, 30, 12),
                (0.42, 2_100, 0.1, 30, 10),
                (0.5, 3_400, 0.1, 40, 7),
                (0.5, 6_050, 0.06, 14, 6),
                (0.5, 3_000, 0.2, 1_800, 9),
            ),
        ),
    },
}
