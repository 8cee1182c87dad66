"""The names that crawlers, link previews, monitors and other machines give themselves: data, no rules.

Who reads it: tally/events/user_agent.py, which alone decides how a name is matched (any case, never in a longer
word).
What is in it: names whose operators write them in public documentation; the page is named above each
group.
What is not in it:
- names that end in bot, crawler or spider (Googlebot, AhrefsBot, Baiduspider): the general rule finds
  them without a list. They stand in tests/unit/events/test_user_agent.py, so that the rule is held to them;
- HTTP libraries (curl, python-requests, okhttp): CONTRACT.md, they are the clients of apps and servers;
- in-app browsers (Instagram, Pinterest, WhatsApp inside an app): people. The link previews of the same
  companies have a User-Agent that begins with their name, hence OPENINGS.

The test holds every name to the rule, and every User-Agent of a person to stay a person's.
"""

from typing import Final

NAMES: Final[tuple[str, ...]] = (
    # Google Search Central, "Google's common crawlers", "special-case crawlers", "user-triggered fetchers"
    "APIs-Google",
    "DuplexWeb-Google",
    "FeedFetcher-Google",
    "Google Favicon",
    "Google Web Preview",
    "Google-Adwords-Instant",
    "Google-InspectionTool",
    "Google-NotebookLM",
    "Google-PageRenderer",
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
    # Yandex Webmaster, "Yandex robots": most end in Bot and need no line here
    "YandexMetrika",
    "YandexImages",
    "YandexVideo",
    "YandexMedia",
    "YandexBlogs",
    "YandexFavicons",
    "YandexWebmaster",
    "YandexPagechecker",
    "YandexImageResizer",
    "YandexDirect",
    "YandexDirectDyn",
    "YandexNews",
    "YandexCalendar",
    "YandexScreenshot",
    "YandexRenderResources",
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
    "Google-PageSpeed",
    # Chrome for Developers, "Chrome Headless mode" and "Lighthouse"
    "HeadlessChrome",
    "HeadlessEdg",
    "Lighthouse",
    "Google Page Speed Insights",
    "Google PageSpeed Insights",
    # The tools' own manuals: PhantomJS, SlimerJS, jsdom, Prerender, Rendertron
    "PhantomJS",
    "SlimerJS",
    "jsdom",
    "Prerender",
    "Rendertron",
    # Monitors: the help pages of Pingdom, StatusCake, GTmetrix, Site24x7, New Relic, Datadog, Checkly,
    # Better Stack, HetrixTools, Freshping, WebPageTest, Catchpoint, DebugBear, Dareboost, Uptime Kuma,
    # updown.io, NodePing and Cloudflare about how to let their checks through
    "PingdomTMS",
    "PingdomPageSpeed",
    "StatusCake",
    "GTmetrix",
    "Site24x7",
    "NewRelicPinger",
    "NewRelicSynthetics",
    "DatadogSynthetics",
    "Checkly",
    "Better Uptime",
    "HetrixTools",
    "Freshping",
    "PTST",
    "Catchpoint",
    "DebugBear",
    "Dareboost",
    "Uptime-Kuma",
    "updown.io",
    "NodePing",
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
    "HTTrack",
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

# A User-Agent that begins so is the company's machine that fetches a page; the same word later, in the
# User-Agent of a browser, is a person inside that company's app.
OPENINGS: Final[tuple[str, ...]] = (
    "WhatsApp/",  # WhatsApp FAQ, link previews
    "Pinterest/",  # Pinterest Help, "Pinterest crawler"
    "Feedly/",  # Feedly, "Feedly fetcher"
)

# Usual ones that the general rule finds: here so that an owner can be told their names (tally/events/user_agent.py
# crawler_name), since what they wrote themselves is kept nowhere.
BOTS: Final[tuple[str, ...]] = (
    *("AdsBot-Google", "AhrefsBot", "Amazonbot", "Applebot", "archive.org_bot", "AwarioBot", "Baiduspider", "BLEXBot"),
    *("bingbot", "Bytespider", "CCBot", "ClaudeBot", "Claude-SearchBot", "coccocbot", "DataForSeoBot", "Discordbot"),
    *("DotBot", "DuckDuckBot", "Googlebot", "GPTBot", "ImagesiftBot", "LinkedInBot", "MJ12bot", "MojeekBot"),
    *("OAI-SearchBot", "PerplexityBot", "PetalBot", "Pingdom.com_bot", "Pinterestbot", "Qwantbot", "redditbot"),
    *(
        "SeekportBot",
        "SemrushBot",
        "SeznamBot",
        "Slackbot",
        "Storebot-Google",
        "TelegramBot",
        "Twitterbot",
        "UptimeRobot",
    ),
    "YandexBot",
)
