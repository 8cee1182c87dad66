"""tally/transfer/names.py: each name of other systems becomes one of Tally's, that of collected events."""

import json
from pathlib import Path

import pytest

from tally.events import user_agent
from tally.events.user_agent import Agents
from tally.events.validation import DEVICES
from tally.transfer import values
from tests.support.cases import cases
from tests.support.imports import Imports
from tests.unit.transfer import test_ga4, test_matomo, test_plausible, test_umami

CONVERT = {
    "browsers": values.browser,
    "systems": lambda name: values.system(name)[0],
    "devices": values.device,
}


def device_detector() -> dict[str, dict[str, str]]:
    """Return the names of the list by kind, and what they become."""
    found: dict[str, dict[str, str]] = {kind: {} for kind in CONVERT}
    kind = ""
    for line in (Path(__file__).parent / "device_detector_names.txt").read_text("utf-8").splitlines():
        if line.startswith("["):
            kind = line[1:-1]
        elif kind.endswith(" kept"):
            found[kind.removesuffix(" kept")] |= {name: name for name in line.rstrip(";").split("; ")}
        elif not line.startswith("#"):
            name, _, ours = line.partition(" =")
            found[kind][name] = ours.strip()
    return found


@pytest.mark.parametrize("kind", CONVERT)
def test_names_of_device_detector(kind: str) -> None:
    """A name that is new in its list is added to the file, as kept or with what it becomes."""
    expected = device_detector()[kind]
    assert len(expected) == {"browsers": 716, "systems": 203, "devices": 14}[kind]
    assert {name: CONVERT[kind](name) for name in expected} == expected
    if kind == "devices":
        assert {*expected.values()} <= {*DEVICES}


# https://support.google.com/analytics: the names that properties report.
GA4 = {
    "Amazon Silk": "Silk",
    "Android Browser": "Android Browser",
    "Android Runtime": "",
    "Android Webview": "Android WebView",
    "Chrome": "Chrome",
    "Coc Coc": "Coc Coc",
    "Edge": "Edge",
    "Firefox": "Firefox",
    "Internet Explorer": "Internet Explorer",
    "Mozilla Compatible Agent": "",
    "Opera": "Opera",
    "Opera Mini": "Opera Mini",
    "Playstation 4": "PlayStation Browser",
    "Puffin": "Puffin",
    "Safari": "Safari",
    "Safari (in-app)": "iOS WebView",
    "Samsung Internet": "Samsung Internet",
    "Seamonkey": "SeaMonkey",
    "UC Browser": "UC Browser",
    "Whale Browser": "Whale",
    "YaBrowser": "Yandex Browser",
    "(not set)": "",
}
GA4_SYSTEMS = {
    "Android": "Android",
    "Chrome OS": "ChromeOS",
    "iOS": "iOS",
    "Linux": "Linux",
    "Macintosh": "macOS",
    "Playstation 4": "PlayStation",
    "Tizen": "Tizen",
    "Web0S": "webOS",
    "Windows": "Windows",
    "Windows Phone": "Windows Phone",
    "(not set)": "",
}
# https://github.com/DamonOehlman/detect-browser, 5.3.0
DETECT_BROWSER = {
    "android": "Android Browser",
    "bb10": "BlackBerry WebKit",
    "chrome": "Chrome",
    "chromium-webview": "Android WebView",
    "crios": "Chrome",
    "edge": "Edge",
    "edge-chromium": "Edge",
    "edge-ios": "Edge",
    "facebook": "Facebook",
    "firefox": "Firefox",
    "fxios": "Firefox",
    "ie": "Internet Explorer",
    "instagram": "Instagram",
    "ios": "Safari",
    "ios-webview": "iOS WebView",
    "kakaotalk": "KakaoTalk",
    "miui": "Mi Browser",
    "netfront": "NetFront",
    "opera": "Opera",
    "opera-mini": "Opera Mini",
    "phantomjs": "PhantomJS",
    "pie": "Internet Explorer",
    "safari": "Safari",
    "samsung": "Samsung Internet",
    "silk": "Silk",
    "yandexbrowser": "Yandex Browser",
}
DETECT_BROWSER_SYSTEMS = {
    "Amazon OS": "Android",
    "Android OS": "Android",
    "BlackBerry OS": "BlackBerry OS",
    "Chrome OS": "ChromeOS",
    "iOS": "iOS",
    "Linux": "Linux",
    "Mac OS": "macOS",
    "Windows 10": "Windows",
    "Windows 8.1": "Windows",
    "Windows Mobile": "Windows Mobile",
    "Windows XP": "Windows",
}


@cases(
    ("names", "kind"),
    [
        (GA4, "browsers"),
        (DETECT_BROWSER, "browsers"),
        (GA4_SYSTEMS, "systems"),
        (DETECT_BROWSER_SYSTEMS, "systems"),
    ],
)
def test_names_of_other_lists(names: dict[str, str], kind: str) -> None:
    assert {name: CONVERT[kind](name) for name in names} == names


ANDROID = "Mozilla/5.0 (Linux; Android 14; SM-S911B) AppleWebKit/537.36 (KHTML, like Gecko)"
IPHONE = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko)"
WINDOWS = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0"
# What other systems call the browser and the system of a User-Agent.
SAME = (
    (
        f"{ANDROID} Chrome/141.0.0.0 Mobile Safari/537.36",
        ("Chrome Mobile", "Chrome", "chrome"),
        ("Android", "Android OS"),
    ),
    (f"{IPHONE} CriOS/141.0.0.0 Mobile/15E148 Safari/604.1", ("Chrome Mobile iOS", "crios"), ("iOS",)),
    (f"{IPHONE} Version/17.5 Mobile/15E148 Safari/604.1", ("Mobile Safari", "Safari", "ios"), ("iOS",)),
    (f"{IPHONE} Mobile/15E148", ("Safari (in-app)", "ios-webview"), ("iOS",)),
    (
        f"{ANDROID} Version/4.0 Chrome/141.0.0.0 Mobile Safari/537.36".replace("S911B", "S911B; wv"),
        ("Chrome Webview", "Android Webview", "chromium-webview"),
        ("Android",),
    ),
    (
        f"{ANDROID} SamsungBrowser/28.0 Chrome/130.0.0.0 Mobile Safari/537.36",
        ("Samsung Browser", "Samsung Internet", "samsung"),
        ("Android",),
    ),
    (
        f"{ANDROID} HuaweiBrowser/15.0.0.301 Chrome/114.0.0.0 Mobile Safari/537.36",
        ("Huawei Browser Mobile", "Huawei Browser"),
        ("Android",),
    ),
    (f"{ANDROID} Chrome/141.0.0.0 Mobile Safari/537.36 OPR/90.0.0.0", ("Opera Mobile", "Opera"), ("Android",)),
    (
        f"{ANDROID} VivoBrowser/21.0.0.0 Chrome/120.0.0.0 Mobile Safari/537.36",
        ("vivo Browser", "VivoBrowser"),
        ("Android",),
    ),
    (
        f"{ANDROID} Silk/130.1 like Chrome/130.0.0.0 Safari/537.36",
        ("Mobile Silk", "Amazon Silk", "silk"),
        ("Android", "Fire OS", "Amazon OS"),
    ),
    (f"{WINDOWS} Safari/537.36 Edg/141.0.0.0", ("Microsoft Edge", "Edge", "edge-chromium"), ("Windows", "Windows 10")),
    (f"{WINDOWS} YaBrowser/25.8.0 Safari/537.36", ("Yandex Browser", "YaBrowser", "yandexbrowser"), ("Windows",)),
    (f"{WINDOWS} Whale/4.33.0 Safari/537.36", ("Whale Browser", "Whale"), ("Windows",)),
    (
        "Mozilla/5.0 (Windows NT 6.1; Trident/7.0; rv:11.0) like Gecko",
        ("Internet Explorer", "ie"),
        ("Windows", "Windows 7"),
    ),
    (
        "Mozilla/5.0 (X11; Ubuntu; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
        ("Firefox", "firefox"),
        ("Ubuntu", "GNU/Linux", "Linux"),
    ),
    (
        f"{ANDROID} OculusBrowser/35.0 Chrome/130.0.0.0 VR Safari/537.36",
        ("Oculus Browser",),
        ("Android", "Meta Horizon"),
    ),
)


@cases(("text", "browsers", "systems"), SAME)
def test_imported_names_are_those_of_collected_events(
    text: str, browsers: tuple[str, ...], systems: tuple[str, ...]
) -> None:
    agent = Agents().of(text)
    assert {values.browser(name) for name in browsers} == {agent.browser}
    assert {values.system(name)[0] for name in systems} == {agent.os}


def test_names_of_collected_events_stay() -> None:
    """An export that is imported again has them."""
    browsers = {*user_agent.BROWSERS.values(), *user_agent.TELEVISIONS.values()}
    browsers |= {name for _, name in (*user_agent.NAMED_BROWSERS, *user_agent.APPS)}
    assert {values.browser(name) for name in browsers} == browsers
    systems = {*user_agent.SYSTEMS.values(), *user_agent.TELEVISIONS}
    systems |= {name for _, name in user_agent.NAMED_SYSTEMS}
    assert {values.system(name)[0] for name in systems} == systems


def test_importers_use_them(imports: Imports) -> None:
    """One event of each system that has names, with those of the same product."""
    matomo = test_matomo.visit(
        1, test_matomo.action("/"), browserName="Huawei Browser Mobile", deviceType="Car browser"
    )
    matomo |= {"operatingSystemName": "Arch Linux"}
    assert imports.take("matomo", json.dumps([matomo])) == "1"
    plausible = test_plausible.row(
        browser="Huawei Browser Mobile", operating_system="Arch Linux", screen_size="Wearable"
    )
    assert imports.take("plausible", test_plausible.as_csv([plausible])) == "1"
    umami = test_umami.row("1", browser="samsung", os="Amazon OS")
    assert imports.take("umami", test_umami.export([umami])) == "1"
    device = {"operating_system": "Android", "web_info": {"browser": "YaBrowser"}, "category": "smart tv"}
    assert imports.take("ga4", json.dumps(test_ga4.row(device=device))) == "1"
    assert imports.list("browser") == {"Huawei Browser": 2, "Samsung Internet": 1, "Yandex Browser": 1}
    assert imports.list("os") == {"Linux": 2, "Android": 2}
    assert imports.list("device") == {"other": 2, "desktop": 1, "tv": 1}
