"""Names of crawlers, link previews, monitors and other automated clients. Data only.

tally/events/user_agent.py decides how a name is matched: in any case, never within a longer word. Each name is from its
operator's public documentation; the page is named above each group. Not listed are:
- names that end in bot, crawler or spider (Googlebot, AhrefsBot, Baiduspider), which the general rule matches;
  tests/unit/events/test_user_agent.py has them;
- HTTP libraries (curl, python-requests, okhttp): they are the clients of apps and servers;
- in-app browsers (Instagram, Pinterest, WhatsApp inside an app): they are people. The link previews of the same
  companies have a User-Agent that begins with their name, hence OPENINGS.

The tests check every name, and that no User-Agent of a person matches.
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

# A User-Agent that begins so is the company's server that fetches a page. The same word later in the User-Agent of a
# browser is a person inside that company's app.
OPENINGS: Final[tuple[str, ...]] = (
    "WhatsApp/",  # WhatsApp FAQ, link previews
    "Pinterest/",  # Pinterest Help, "Pinterest crawler"
    "Feedly/",  # Feedly, "Feedly fetcher"
)

# Common crawlers that the general rule matches. They are listed for their names (tally/events/user_agent.py
# crawler_name), because the User-Agent that was sent is not stored.
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
