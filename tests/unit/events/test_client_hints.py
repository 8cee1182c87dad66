"""tally/events/client_hints.py: brands, platforms and bad headers, and what they change in an Agent.

The rules are in docs/reference/collect-api.md, Client hints.
"""

from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict

from tally.events.client_hints import MAX_CHARACTERS, NO_HINTS, ClientHints, hint_headers, read_hints
from tally.events.user_agent import Agents
from tests.support.cases import cases

BLINK = "AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.0.0"
WINDOWS = f"Mozilla/5.0 (Windows NT 10.0; Win64; x64) {BLINK} Safari/537.36"
PHONE = f"Mozilla/5.0 (Linux; Android 10; K) {BLINK} Mobile Safari/537.36"
LINUX = f"Mozilla/5.0 (X11; Linux x86_64) {BLINK} Safari/537.36"
GREASE = '"Not)A;Brand";v="8"'


def brands(*names: str) -> str:
    """Return the value of Sec-CH-UA for these brands beside Chromium and a made-up one."""
    return ", ".join([GREASE, '"Chromium";v="138"', *(f'"{name}";v="138"' for name in names)])


@cases(
    ("header", "browser", "version"),
    [
        (brands("Brave"), "Brave", "138"),
        (brands("DuckDuckGo"), "DuckDuckGo", "138"),
        (brands("Microsoft Edge"), "Edge", "138"),
        (brands("Opera", "OperaMobile"), "Opera", "138"),
        (brands("Vivaldi"), "Vivaldi", "138"),
        (brands("Samsung Internet"), "Samsung Internet", "138"),
        (brands("YaBrowser"), "Yandex Browser", "138"),
        (brands("Google Chrome"), "", ""),
        (brands(), "", ""),
        (brands("A name that no table has"), "", ""),
        ('"Brave";v="138.0.7204.97"', "Brave", "138"),
        ('"Brave"', "Brave", ""),
        ('" Not A;Brand";v="99", "Brave";v="138"', "Brave", "138"),
        ('"\\\\Not\\"A;Brand";v="99","Brave";v="138"', "Brave", "138"),
        # broken
        ("Brave", "", ""),
        ('"Brave', "", ""),
        ('"Brave";v=138', "", ""),
        ('"Brave";v="138" "Chromium"', "", ""),
        ('"Brave";v="138",,', "", ""),
        ('"Brave";v="x"', "", ""),
        ('"Brave";v="138", "ä"', "", ""),
        ('"Brave";v="13800"', "", ""),
        ("", "", ""),
    ],
)
def test_the_first_known_brand_names_the_browser(header: str, browser: str, version: str) -> None:
    """Brands that are not known have no effect; a header that breaks the grammar is ignored."""
    assert read_hints((header, "", "")) == NO_HINTS._replace(browser=browser, browser_version=version)


@cases(
    ("mobile", "platform", "expected"),
    [
        ("?0", '"Windows"', ClientHints("", "", "Windows", False)),
        ("?1", '"Android"', ClientHints("", "", "Android", True)),
        ("?1", '"Chrome OS"', ClientHints("", "", "ChromeOS", True)),
        ("1", "Android", NO_HINTS),
        ("?2", '"Android', NO_HINTS),
        ("?1;a", '"Android" ', NO_HINTS),
        ("true", '"Nokia"', NO_HINTS),
    ],
)
def test_mobile_and_platform(mobile: str, platform: str, expected: ClientHints) -> None:
    """Each header by itself: a broken one is ignored."""
    assert read_hints(("", mobile, platform)) == expected


def test_headers_are_bounded_and_their_names_ignore_case() -> None:
    """A header of more than 300 characters is ignored; the others are read."""
    long = brands("Brave").ljust(MAX_CHARACTERS + 1)
    headers = CIMultiDict({"Sec-CH-UA": long, "SEC-CH-UA-MOBILE": "?1", "sec-ch-ua-platform": '"Android"'})
    assert hint_headers(headers.get) == ("", "?1", '"Android"')
    headers["Sec-CH-UA"] = long[:-1]
    assert hint_headers(headers.get) == (long[:-1], "?1", '"Android"')
    assert hint_headers({}.get) == ("", "", "")


@cases(
    ("user_agent", "headers", "expected"),
    [
        (WINDOWS, (brands("Brave"), "?0", '"Windows"'), ("Brave", "138", "Windows", "desktop")),
        (PHONE, (brands("DuckDuckGo"), "?1", '"Android"'), ("DuckDuckGo", "138", "Android", "mobile")),
        (WINDOWS, (brands("Google Chrome"), "?0", '"Windows"'), ("Chrome", "138", "Windows", "desktop")),
        # the User-Agent names the product
        (f"{WINDOWS} Edg/137.0.0.0", (brands("Brave"), "?0", '"Windows"'), ("Edge", "137", "Windows", "desktop")),
        # a page for desktops was requested
        (LINUX, (brands("Google Chrome"), "?1", '"Android"'), ("Chrome", "138", "Android", "mobile")),
        (LINUX, (brands("Google Chrome"), "?0", '"Android"'), ("Chrome", "138", "Android", "tablet")),
        # apps and programs have no browser
        ("okhttp/4.12.0", (brands("Brave"), "?1", '"Android"'), ("", "", "", "")),
    ],
)
def test_hints_add_what_the_user_agent_cannot_say(
    user_agent: str, headers: tuple[str, str, str], expected: tuple[str, ...]
) -> None:
    agent = Agents().of(user_agent, headers)
    assert (agent.browser, agent.browser_version, agent.os, agent.device) == expected
    assert not agent.crawler


@given(st.text(max_size=400), st.text(max_size=8), st.text(max_size=40))
def test_no_header_raises(user_agent_brands: str, mobile: str, platform: str) -> None:
    hints = read_hints((user_agent_brands, mobile, platform))
    assert len(hints.browser_version) <= 4
