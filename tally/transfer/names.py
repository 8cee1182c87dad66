"""Names of browsers, systems, devices and sources in other systems, and what collected events have for the same.

- Names are compared in lower case, without spaces, hyphens, slashes and underscores (`plain`).
- What the tables of tally/events/user_agent.py rename is renamed here too: other systems use ua-parser's names as well.
- Versions of one product for some device, and products that collect names otherwise, become what collect names them.
- A browser that another system recognized by more than its User-Agent, or by a table of its own, keeps its name, and so
  does an old system: to collect it is one of the large browsers, which would hide what the other system knew.

Matomo and Plausible use the names of device-detector; Umami those of detect-browser; GA4 has its own.
tests/unit/transfer/test_names.py has the lists, and compares this table with what collect makes of User-Agents.
"""

import re

from tally.events import user_agent

_SEPARATORS = re.compile(r"[ \-/_]+")


def plain(name: str) -> str:
    """Return a name as it is compared."""
    return _SEPARATORS.sub("", name.lower())


_DEVICE_DETECTOR = {
    "Aloha Browser Lite": "Aloha Browser",
    "Amigo": "Mail.ru Chromium Browser",
    "AOL Desktop": "AOL Desktop Gold Browser",
    "AOL Shield Pro": "AOL Shield Browser",
    "Atom": "Atom Browser",
    "Avant Browser": "Avant",
    "AVG Secure Browser": "AVG",
    "Avira Secure Browser": "Avira",
    "BlackBerry Browser": "BlackBerry WebKit",
    "Chrome Frame": "Chrome",
    "Chrome Webview": "Android WebView",
    "Chromium GOST": "Chromium GOST Browser",
    "Coast": "Opera Coast",
    "Craving Explorer": "Craving Explorer Browser",
    "Decentr": "Decentr Web3 Browser",
    "DuckDuckGo Privacy Browser": "DuckDuckGo",
    "Edge WebView": "Edge",
    "Espial TV Browser": "Espial",
    "Fennec": "Firefox",
    "Firefox Klar": "Firefox Focus",
    "Firefox Mobile iOS": "Firefox",
    "Fireweb": "FireWeb",
    "GNOME Web": "Epiphany",
    "Google Search App": "Google App",
    "Headless Chrome": "HeadlessChrome",
    "Headless Edge": "Edge",
    "HeyTapBrowser": "HeyTap Browser",
    "HONOR Browser": "Honor Browser",
    "hola! Browser": "Hola Browser",
    "Huawei Browser Mobile": "Huawei Browser",
    "K-meleon": "K-Meleon",
    "Microsoft Edge": "Edge",
    "MIUI Browser": "Mi Browser",
    "Mobile App": "",
    "Mobile Silk": "Silk",
    "Mypal": "Mypal Browser",
    "Nokia Ovi Browser": "Ovi Browser",
    "Norton Private Browser": "Norton",
    "Odin": "VIDAA Browser",
    "Opera Air": "Opera",
    "Opera Crypto": "Opera",
    "Opera Devices": "Opera",
    "Opera Mini iOS": "Opera Mini",
    "Opera Next": "Opera",
    "Otter Browser": "Otter",
    "Palm Pre": "webOS Browser",
    "PICO Browser": "Pico Browser",
    "Puffin Cloud Browser": "Puffin",
    "Puffin Incognito Browser": "Puffin",
    "Puffin Secure Browser": "Puffin",
    "Puffin Web Browser": "Puffin",
    "QQ Browser Lite": "QQ Browser",
    "QtWebEngine": "Chromium",
    "QuarkPC": "Quark PC",
    "Qutebrowser": "qutebrowser",
    "Safari Technology Preview": "Safari",
    "Samsung Browser": "Samsung Internet",
    "Samsung Browser Lite": "Samsung Internet",
    "SberBrowser": "Sber Browser",
    "Sogou Mobile Browser": "Sogou Browser",
    "Steam In-Game Overlay": "Steam GameOverlay",
    "UC Browser HD": "UC Browser",
    "UC Browser Mini": "UC Browser",
    "UC Browser Turbo": "UC Browser",
    "Vivaldi Mobile iOS": "Vivaldi",
    "vivo Browser": "VivoBrowser",
    "WeTab Browser": "WeTab",
    "Whale Browser": "Whale",
    "wOSBrowser": "webOS Browser",
    "Yahoo! Japan Browser": "Yahoo! Japan",
    "Yandex Browser Corp": "Yandex Browser",
    "Yandex Browser Lite": "Yandex Browser",
}
_GA4 = {
    "Android Browser": "Android Browser",
    "Android Runtime": "",
    "Android Webview": "Android WebView",
    "Android WebView App": "Android WebView",
    "BlackBerry": "BlackBerry WebKit",
    "Mozilla": "",
    "Mozilla Compatible Agent": "",
    "MRCHROME": "Mail.ru Chromium Browser",
    "Nintendo 3DS Browser": "Nintendo Browser",
    "Playstation": "PlayStation Browser",
    "Playstation 3": "PlayStation Browser",
    "Playstation 4": "PlayStation Browser",
    "Playstation 5": "PlayStation Browser",
    "Playstation Vita Browser": "PlayStation Browser",
    "Safari (in-app)": "iOS WebView",
    "Seamonkey": "SeaMonkey",
    "YaBrowser": "Yandex Browser",
    "Yandex": "Yandex Browser",
}
# Those of detect-browser, and of GoatCounter where it has others.
_UMAMI = {
    "android": "Android Browser",
    "bb10": "BlackBerry WebKit",
    "chromium-webview": "Android WebView",
    "crios": "Chrome",
    "edge-chromium": "Edge",
    "edge-ios": "Edge",
    "facebook": "Facebook",
    "fxios": "Firefox",
    "ios": "Safari",
    "ios-webview": "iOS WebView",
    "kakaotalk": "KakaoTalk",
    "miui": "Mi Browser",
    "netfront": "NetFront",
    "opera-mini": "Opera Mini",
    "phantomjs": "PhantomJS",
    "pie": "Internet Explorer",
    "samsung": "Samsung Internet",
    "silk": "Silk",
    "webkit": "",
}
_LINUX = (
    *("Alpine Linux", "Amazon Linux", "AOSC OS", "Arch Linux", "ASPLinux", "Azure Linux", "blackPanther OS"),
    *("BrightSignOS", "Caixa Mágica", "CentOS Stream", "Clear Linux OS", "Coolita OS", "Deepin", "DVKBuntu"),
    *("elementary OS", "EulerOS", "Foresight Linux", "Freebox", "FRITZ!OS", "gNewSense", "GNU/Linux", "GridOS"),
    *("HasCodingOS", "Joli OS", "Kali", "Kanotix", "Knoppix", "LindowsOS", "Linpus", "Linspire", "Liri OS"),
    *("Loongnix", "Lumin OS", "Mint", "moonOS", "Nova", "OpenVZ", "Opera TV", "Oracle Linux", "Ordissimo", "Pardus"),
    *("Proxmox VE", "PureOS", "Raspberry Pi OS", "Raspbian", "Red Star", "RedOS", "Rocky Linux", "Rosa", "Sabayon"),
    *("Scientific Linux", "TencentOS", "TmaxOS", "Turbolinux", "UOS", "VectorLinux", "Webian", "Whale OS"),
    *("Xubuntu", "Zenwalk", "ZorinOS", "Remix OS", "Motorola EZX", "Orsay"),
)
_ANDROID = (
    *("Amazon OS", "Android OS", "Android TV", "Armadillo OS", "Baidu Yi", "Bliss OS", "China OS", "ClearOS Mobile"),
    *("CyanogenMod", "Fire OS", "FydeOS", "HELIX OS", "LeafOS", "Lineage OS", "Meta Horizon", "MildWild", "MocorDroid"),
    *("PICO OS", "RazoDroiD", "Resurrection Remix OS", "Revenge OS", "risingOS", "Sirin OS", "Smartisan OS"),
    *("Wear OS", "YunOS"),
)
_OTHER_SYSTEMS = {
    "Brew": "BREW",
    "Chromium OS": "ChromeOS",
    "HarmonyOS NEXT": "HarmonyOS",
    "iPadOS": "iOS",
    "LuneOS": "webOS",
    "Mac": "macOS",
    "Macintosh": "macOS",
    "macOS": "macOS",
    "Nintendo Mobile": "Nintendo",
    "Nintendo Switch": "Nintendo",
    "Nintendo Wii": "Nintendo",
    "Nintendo WiiU": "Nintendo",
    "Nintendo 3DS": "Nintendo",
    "OpenHarmony": "HarmonyOS",
    "OS X": "macOS",
    "Plan 9": "Plan 9",
    "PlayStation 3": "PlayStation",
    "PlayStation 4": "PlayStation",
    "PlayStation 5": "PlayStation",
    "PlayStation Portable": "PlayStation",
    "PlayStation Vita": "PlayStation",
    "Roku OS": "Roku",
    "SeewoOS": "ChromeOS",
    "Symbian": "Symbian OS",
    "Symbian OS Series 40": "Nokia Series 40",
    "Symbian OS Series 60": "Symbian OS",
    "Windows Mobile": "Windows Mobile",
    "Windows Phone": "Windows Phone",
}
DEVICES = {
    "desktop": "desktop",
    "laptop": "desktop",
    "ultra-wide": "desktop",
    "mobile": "mobile",
    "smartphone": "mobile",
    "phablet": "mobile",
    "feature phone": "mobile",
    "portable media player": "mobile",
    "tablet": "tablet",
    "tv": "tv",
    "smart tv": "tv",
    "console": "console",
    **dict.fromkeys(("car browser", "smart display", "smart speaker", "wearable", "camera", "peripheral"), "other"),
}
"""Names of devices in lower case, and those of tally/events/user_agent.py."""

_KEPT = (
    *("Brave", "Chrome", "Chromium", "Edge", "Facebook", "Firefox", "Instagram", "KakaoTalk", "Opera", "Opera Mini"),
    *("Safari", "Samsung Internet", "Silk", "UC Browser", "Vivaldi", "Whale", "Yandex Browser", "DuckDuckGo"),
)
_KEPT_SYSTEMS = (
    "Android",
    "Fire OS",
    "HarmonyOS",
    "iOS",
    "KaiOS",
    "Linux",
    "Tizen",
    "tvOS",
    "watchOS",
    "webOS",
    "Windows",
)
BROWSERS: dict[str, str] = {
    plain(name): ours
    for names in (
        user_agent.BROWSERS,
        {name: name for name in (*_KEPT, *user_agent.BROWSERS.values())},
        _DEVICE_DETECTOR,
        _GA4,
        _UMAMI,
    )
    for name, ours in names.items()
}
"""Plain names of browsers, and those of collected events."""
SYSTEMS: dict[str, str] = {
    plain(name): ours
    for names in (
        user_agent.SYSTEMS,
        {name: name for name in (*_KEPT_SYSTEMS, *user_agent.SYSTEMS.values())},
        dict.fromkeys(_LINUX, "Linux"),
        dict.fromkeys(_ANDROID, "Android"),
        _OTHER_SYSTEMS,
    )
    for name, ours in names.items()
}
"""Plain names of systems, and those of collected events."""

# What GoatCounter, and Plausible's older exports, have in place of the referrer.
_HOSTS = {
    "Baidu": "baidu.com",
    "Bing": "bing.com",
    "Bluesky": "bsky.app",
    "Brave": "search.brave.com",
    "ChatGPT": "chatgpt.com",
    "DuckDuckGo": "duckduckgo.com",
    "Ecosia": "ecosia.org",
    "Facebook": "facebook.com",
    "GitHub": "github.com",
    "Gmail": "mail.google.com",
    "Google": "google.com",
    "Hacker News": "news.ycombinator.com",
    "Instagram": "instagram.com",
    "LinkedIn": "linkedin.com",
    "Lobsters": "lobste.rs",
    "Mastodon": "mastodon.social",
    "Medium": "medium.com",
    "Naver": "search.naver.com",
    "Outlook.com": "outlook.live.com",
    "Perplexity": "perplexity.ai",
    "Pinterest": "pinterest.com",
    "Product Hunt": "producthunt.com",
    "Quora": "quora.com",
    "Qwant": "qwant.com",
    "Reddit": "reddit.com",
    "Slack": "slack.com",
    "Slack Chat": "slack.com",
    "Stack Overflow": "stackoverflow.com",
    "Startpage": "startpage.com",
    "Telegram": "telegram.org",
    "Telegram Messenger": "telegram.org",
    "Threads": "threads.net",
    "TikTok": "tiktok.com",
    "Twitter": "twitter.com",
    "Vkontakte": "vk.com",
    "WhatsApp": "whatsapp.com",
    "Wikipedia": "wikipedia.org",
    "Yahoo": "search.yahoo.com",
    "Yahoo!": "search.yahoo.com",
    "Yandex": "yandex.com",
    "YouTube": "youtube.com",
}
HOSTS: dict[str, str] = {plain(name): host for name, host in _HOSTS.items()}
"""Plain names of sources, and the hosts of their pages."""
