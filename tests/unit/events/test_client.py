"""tally/events/client.py: client address and origin. The rules are in docs/reference/collect-api.md."""

from ipaddress import ip_address, ip_network

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from multidict import CIMultiDict

from tally.events.client import (
    Network,
    PageOrigin,
    allows,
    bucket_key,
    client_address,
    page_origin,
    parse_proxies,
)
from tests.support.cases import cases

# (id, Origin, whether a website registered for example.com accepts it)
ORIGINS = [
    ("same", "https://example.com", True),
    ("http", "http://example.com", True),
    ("subdomain", "https://www.example.com", True),
    ("deep-subdomain", "https://a.b.c.example.com", True),
    ("upper-case", "HTTPS://Example.COM", True),
    ("port", "https://example.com:8443", True),
    ("port-0", "https://example.com:0", True),
    ("port-65535", "https://example.com:65535", True),
    ("trailing-dot", "https://example.com.", True),
    ("trailing-dot-port", "https://www.example.com.:443", True),
    ("underscore-subdomain", "https://my_app.example.com", True),
    ("a-label-subdomain", "https://xn--bcher-kva.example.com", True),
    ("u-label-subdomain", "https://b\u00fccher.example.com", True),
    ("full-width", "https://\uff45xample.com", True),
    ("suffix-attack", "https://evilexample.com", False),
    ("suffix-attack-hyphen", "https://evil-example.com", False),
    ("prefix-attack", "https://example.com.evil.com", False),
    ("prefix-attack-hyphen", "https://example.com-evil.com", False),
    ("other", "https://evil.com", False),
    ("above", "https://com", False),
    ("other-suffix", "https://example.co", False),
    ("longer-suffix", "https://example.comm", False),
    ("com-br", "https://example.com.br", False),
    ("dot-for-letter", "https://example-com", False),
    ("two-trailing-dots", "https://example.com..", False),
    ("leading-dot", "https://.example.com", False),
    ("empty-label", "https://www..example.com", False),
    ("null", "null", False),
    ("null-upper", "NULL", False),
    ("empty", "", False),
    ("blank", " ", False),
    ("star", "*", False),
    ("host-alone", "example.com", False),
    ("scheme-relative", "//example.com", False),
    ("scheme-alone", "https://", False),
    ("file", "file://", False),
    ("file-host", "file://example.com", False),
    ("ftp", "ftp://example.com", False),
    ("ws", "wss://example.com", False),
    ("extension", "chrome-extension://example.com", False),
    ("capacitor", "capacitor://example.com", False),
    ("about", "about:blank", False),
    ("blob", "blob:https://example.com", False),
    ("javascript", "javascript://example.com", False),
    ("slash", "https://example.com/", False),
    ("path", "https://example.com/a", False),
    ("path-attack", "https://evil.com/example.com", False),
    ("path-attack-dot", "https://evil.com/.example.com", False),
    ("query-attack", "https://evil.com?.example.com", False),
    ("fragment-attack", "https://evil.com#.example.com", False),
    ("userinfo", "https://user@example.com", False),
    ("userinfo-attack", "https://example.com@evil.com", False),
    ("userinfo-port-attack", "https://example.com:443@evil.com", False),
    ("backslash-at", "https://evil.com\\@example.com", False),
    ("backslash-dot", "https://evil.com\\.example.com", False),
    ("backslash-for-slash", "https:\\\\example.com", False),
    ("tab-attack", "https://example.com\t.evil.com", False),
    ("tab-inside", "https://exam\tple.com", False),
    ("tab-after", "https://example.com\t", False),
    ("newline-after", "https://example.com\n", False),
    ("newline-attack", "https://evil.com\n.example.com", False),
    ("nul-attack", "https://evil.com\0.example.com", False),
    ("blank-before", " https://example.com", False),
    ("blank-attack", "https://evil.com .example.com", False),
    ("no-break-space-attack", "https://evil.com\u00a0.example.com", False),
    ("full-width-slash-attack", "https://evil.com\uff0f.example.com", False),
    ("full-width-question-attack", "https://evil.com\uff1f.example.com", False),
    ("account-of-attack", "https://evil.c\u2100.example.com", False),
    ("percent-attack", "https://evil.com%2f.example.com", False),
    ("percent-letter", "https://ex%61mple.com", False),
    ("cyrillic-look-alike", "https://ex\u0430mple.com", False),
    ("surrogate", "https://\udcff.example.com", False),
    ("list", "https://example.com, https://evil.com", False),
    ("list-blank", "https://example.com https://example.com", False),
    ("port-empty", "https://example.com:", False),
    ("port-65536", "https://example.com:65536", False),
    ("port-99999", "https://example.com:99999", False),
    ("port-minus", "https://example.com:-1", False),
    ("port-word", "https://example.com:evil", False),
    ("port-attack", "https://evil.com:80.example.com", False),
    ("port-arabic", "https://example.com:\u0668", False),
    ("two-ports", "https://example.com:80:80", False),
    ("ipv6-open", "https://[::1", False),
    ("ipv6-attack", "https://[::1].example.com", False),
    ("brackets", "https://[example.com]", False),
    ("label-64", f"https://{'a' * 64}.example.com", False),
    ("very-long", f"https://{'a.' * 4000}example.com", False),
]


@cases(("origin", "taken"), [pytest.param(o, t, id=i) for i, o, t in ORIGINS])
def test_origins(origin: str, taken: bool) -> None:
    """Hosts are compared as lowercase IDNA labels without port or trailing dot; `Origin: null` and a web request
    without a host are rejected."""
    page = page_origin({"Origin": origin})
    assert page is not None
    assert page.origin == origin
    assert allows(page, "example.com", ()) is taken


@cases(
    ("origin", "domain", "taken"),
    [
        pytest.param("http://localhost:3000", "localhost", True, id="localhost"),
        pytest.param("http://app.localhost", "localhost", True, id="below-localhost"),
        pytest.param("http://192.0.2.7:8080", "192.0.2.7", True, id="ipv4"),
        pytest.param("http://1.192.0.2.7", "192.0.2.7", False, id="below-ipv4"),
        pytest.param("http://192.0.2.71", "192.0.2.7", False, id="other-ipv4"),
        pytest.param("http://127.1", "127.0.0.1", False, id="short-ipv4"),
        pytest.param("http://[::1]:8000", "[::1]", True, id="ipv6"),
        pytest.param("http://[0:0::1]", "[::1]", True, id="ipv6-long"),
        pytest.param("https://xn--bcher-kva.example", "xn--bcher-kva.example", True, id="idn"),
        pytest.param("https://b\u00fccher.example", "xn--bcher-kva.example", True, id="idn-u-label"),
        pytest.param("https://bucher.example", "xn--bcher-kva.example", False, id="idn-look-alike"),
        pytest.param("https://example.com", "www.example.com", False, id="above-the-registered"),
        pytest.param("https://someone.github.io", "else.github.io", False, id="beside"),
    ],
)
def test_origins_of_other_domains(origin: str, domain: str, taken: bool) -> None:
    """The host must be the registered domain or a subdomain of it."""
    assert allows(page_origin({"Origin": origin}), domain, ()) is taken


PAGE = "https://example.com"
EVIL = "https://evil.com"


@cases(
    ("headers", "web", "taken"),
    [
        pytest.param({}, False, True, id="app"),
        pytest.param({"User-Agent": "okhttp/5", "Host": "evil.com"}, False, True, id="app-with-others"),
        pytest.param({"Origin": PAGE}, True, True, id="origin"),
        pytest.param({"Origin": ""}, True, False, id="origin-empty"),
        pytest.param({"Referer": PAGE + "/a?b#c"}, True, True, id="referer"),
        pytest.param({"Referer": PAGE}, True, True, id="referer-no-path"),
        pytest.param({"Referer": "https://www.example.com:8443/a"}, True, True, id="referer-port"),
        pytest.param({"Referer": EVIL + "/https://example.com/"}, True, False, id="referer-other"),
        pytest.param({"Referer": "https://example.com@evil.com/"}, True, False, id="referer-userinfo"),
        pytest.param({"Referer": "https://evil.com\\@example.com/"}, True, False, id="referer-backslash"),
        pytest.param({"Referer": "android-app://example.com/"}, True, False, id="referer-app"),
        pytest.param({"Referer": "/a"}, True, False, id="referer-path"),
        pytest.param({"Referer": ""}, True, False, id="referer-empty"),
        pytest.param({"Sec-Fetch-Site": "same-origin"}, True, False, id="fetch-site-alone"),
        pytest.param({"Sec-Fetch-Site": "none"}, True, False, id="fetch-site-none"),
        pytest.param({"Sec-Fetch-Site": ""}, True, False, id="fetch-site-empty"),
        pytest.param({"Origin": PAGE, "Referer": EVIL}, True, True, id="origin-decides"),
        pytest.param({"Origin": EVIL, "Referer": PAGE}, True, False, id="origin-decides-against"),
        pytest.param({"Origin": "null", "Referer": PAGE}, True, False, id="null-decides"),
        pytest.param({"Origin": "", "Referer": PAGE}, True, False, id="empty-decides"),
        pytest.param({"Referer": PAGE, "Sec-Fetch-Site": "cross-site"}, True, True, id="referer-and-fetch-site"),
    ],
)
def test_web_requests(headers: dict[str, str], web: bool, taken: bool) -> None:
    """A web request has an Origin, Referer or Sec-Fetch-Site header; Origin is checked, else Referer. A request with
    none of the three is from an app or a server and not checked."""
    for form in (headers, CIMultiDict({name.lower(): value for name, value in headers.items()})):
        assert (page_origin(form) is not None) is web
        assert allows(page_origin(form), "example.com", ()) is taken


@pytest.mark.parametrize(
    ("pairs", "taken"),
    [
        pytest.param([("Origin", PAGE), ("origin", PAGE)], False, id="origin-twice"),
        pytest.param([("Origin", PAGE), ("Origin", EVIL)], False, id="two-origins"),
        pytest.param([("Referer", PAGE), ("referer", PAGE)], False, id="referer-twice"),
        pytest.param([("Origin", PAGE), ("Referer", PAGE), ("Referer", EVIL)], True, id="two-referers-undecisive"),
    ],
)
def test_repeated_headers(pairs: list[tuple[str, str]], taken: bool) -> None:
    """A request with two different pages is treated as one without a page, and rejected."""
    assert allows(page_origin(CIMultiDict(pairs)), "example.com", (PAGE,)) is taken


EXTRAS = ("capacitor://localhost", "Ionic://App.Local", "http://localhost:8100", "tauri://kiosk", "null", "")


@cases(
    ("headers", "taken"),
    [
        pytest.param({"Origin": "capacitor://localhost"}, True, id="exact"),
        pytest.param({"Origin": "CAPACITOR://LocalHost"}, True, id="case"),
        pytest.param({"Origin": "ionic://app.local"}, True, id="case-of-the-list"),
        pytest.param({"Origin": "http://localhost:8100"}, True, id="http-extra"),
        pytest.param({"Origin": "http://localhost"}, False, id="http-extra-other-port"),
        pytest.param({"Origin": "https://localhost:8100"}, False, id="http-extra-other-scheme"),
        pytest.param({"Origin": "capacitor://localhost.evil"}, False, id="longer"),
        pytest.param({"Origin": "capacitor://localhost/"}, False, id="slash"),
        pytest.param({"Origin": "capacitor://localhos\u0167"}, False, id="look-alike"),
        pytest.param({"Origin": "tauri://\u212aiosk"}, False, id="kelvin-sign-for-k"),
        pytest.param({"Origin": "tauri://localhost"}, False, id="not-listed"),
        pytest.param({"Origin": "null"}, False, id="null-never"),
        pytest.param({"Origin": ""}, False, id="empty-never"),
        pytest.param({"Origin": PAGE}, True, id="own-domain-still"),
        pytest.param({"Origin": EVIL}, False, id="other-domain-still"),
        pytest.param({"Referer": "capacitor://localhost"}, True, id="referer"),
        pytest.param({"Referer": "capacitor://localhost/index.html?a#b"}, True, id="referer-path"),
        pytest.param({"Referer": "http://localhost:8100/tabs"}, True, id="referer-port"),
        pytest.param({"Referer": "capacitor://localhost@evil/"}, False, id="referer-userinfo"),
        pytest.param({"Referer": "capacitor://localhost\\evil/"}, False, id="referer-backslash"),
        pytest.param({"Referer": "capacitor://localhost/\n"}, False, id="referer-control"),
        pytest.param({"Origin": EVIL, "Referer": "capacitor://localhost/"}, False, id="origin-decides"),
        pytest.param({"Sec-Fetch-Site": "cross-site"}, False, id="fetch-site-alone"),
        pytest.param({}, True, id="app"),
    ],
)
def test_extra_origins(headers: dict[str, str], taken: bool) -> None:
    """A website can allow exact extra origins, such as `capacitor://localhost`."""
    assert allows(page_origin(headers), "example.com", EXTRAS) is taken


def test_page_origin() -> None:
    """The origin as sent and the host that is compared; "" without one."""
    assert page_origin({"Origin": "https://WWW.Example.com:8443"}) == PageOrigin(
        "https://WWW.Example.com:8443", "www.example.com"
    )
    assert page_origin({"Referer": "https://Example.com:8443/a"}) == PageOrigin(
        "https://Example.com:8443", "example.com"
    )
    assert page_origin({"Sec-Fetch-Site": "none"}) == PageOrigin("", "")


LOOPBACK = parse_proxies(["127.0.0.0/8", "::1/128"])
INNER = parse_proxies(["127.0.0.0/8", "::1/128", "10.0.0.0/8", "2001:db8:ffff::/48"])
NONE = parse_proxies(["none"])
ALL = parse_proxies(["0.0.0.0/0", "::/0"])

Walk = tuple[str, str | None, list[str], tuple[Network, ...], str]

WALKS: list[Walk] = [
    ("no-header", "203.0.113.7", [], LOOPBACK, "203.0.113.7"),
    ("no-header-proxy", "127.0.0.1", [], LOOPBACK, "127.0.0.1"),
    ("proxy", "127.0.0.1", ["203.0.113.7"], LOOPBACK, "203.0.113.7"),
    ("proxy-v6", "::1", ["2001:db8::7"], LOOPBACK, "2001:db8::7"),
    ("proxy-mapped", "::ffff:127.0.0.1", ["203.0.113.7"], LOOPBACK, "203.0.113.7"),
    ("peer-mapped", "::ffff:203.0.113.7", [], LOOPBACK, "203.0.113.7"),
    ("peer-zone", "fe80::1%eth0", [], LOOPBACK, "fe80::1"),
    ("peer-none", None, [], LOOPBACK, "127.0.0.1"),
    ("peer-none-header", None, ["203.0.113.7"], LOOPBACK, "203.0.113.7"),
    ("unix-socket", "/run/tally.sock", ["203.0.113.7"], LOOPBACK, "203.0.113.7"),
    ("unix-socket-unnamed", "", ["203.0.113.7"], LOOPBACK, "203.0.113.7"),
    ("unix-socket-none-trusted", "", ["203.0.113.7"], NONE, "127.0.0.1"),
    ("forged-by-client", "203.0.113.7", ["198.51.100.1"], LOOPBACK, "203.0.113.7"),
    ("forged-as-loopback", "203.0.113.7", ["127.0.0.1"], LOOPBACK, "203.0.113.7"),
    ("none-trusted", "127.0.0.1", ["203.0.113.7"], NONE, "127.0.0.1"),
    ("forged-before-proxy", "127.0.0.1", ["198.51.100.1, 203.0.113.7"], LOOPBACK, "203.0.113.7"),
    ("forged-line-before", "127.0.0.1", ["198.51.100.1", "203.0.113.7"], LOOPBACK, "203.0.113.7"),
    ("forged-proxies-before", "127.0.0.1", ["127.0.0.1, 10.0.0.1, 203.0.113.7"], INNER, "203.0.113.7"),
    ("forged-garbage-before", "127.0.0.1", ['evil, ,,", 203.0.113.7'], LOOPBACK, "203.0.113.7"),
    ("two-proxies", "127.0.0.1", ["203.0.113.7, 10.0.0.5"], INNER, "203.0.113.7"),
    ("two-proxies-forged", "127.0.0.1", ["1.1.1.1, 203.0.113.7, 10.0.0.5"], INNER, "203.0.113.7"),
    ("two-proxies-two-lines", "10.0.0.9", ["1.1.1.1,203.0.113.7", "10.0.0.5"], INNER, "203.0.113.7"),
    ("two-proxies-v6", "127.0.0.1", ["2001:db8::7, 2001:db8:ffff::1"], INNER, "2001:db8::7"),
    ("second-proxy-untrusted", "127.0.0.1", ["203.0.113.7, 10.0.0.5"], LOOPBACK, "10.0.0.5"),
    ("all-trusted", "127.0.0.1", ["10.0.0.1, 10.0.0.2"], INNER, "10.0.0.1"),
    ("all-trusted-two-lines", "127.0.0.1", ["10.0.0.1", "10.0.0.2, 10.0.0.3"], INNER, "10.0.0.1"),
    ("all-trusted", "203.0.113.7", ["198.51.100.1, 198.51.100.2"], ALL, "198.51.100.1"),
    ("no-blanks", "127.0.0.1", ["1.1.1.1,203.0.113.7"], LOOPBACK, "203.0.113.7"),
    ("tabs", "127.0.0.1", ["1.1.1.1,\t203.0.113.7\t"], LOOPBACK, "203.0.113.7"),
    ("port", "127.0.0.1", ["203.0.113.7:51234"], LOOPBACK, "203.0.113.7"),
    ("quoted", "127.0.0.1", ['"203.0.113.7"'], LOOPBACK, "203.0.113.7"),
    ("quoted-port", "127.0.0.1", ['"203.0.113.7:80"'], LOOPBACK, "203.0.113.7"),
    ("v6-brackets", "127.0.0.1", ["[2001:db8::7]"], LOOPBACK, "2001:db8::7"),
    ("v6-brackets-port", "127.0.0.1", ["[2001:DB8::7]:443"], LOOPBACK, "2001:db8::7"),
    ("v6-quoted", "127.0.0.1", ['"[2001:db8::7]:443"'], LOOPBACK, "2001:db8::7"),
    ("v6-zone", "127.0.0.1", ["fe80::1%eth0"], LOOPBACK, "fe80::1"),
    ("v6-brackets-zone", "127.0.0.1", ["[fe80::1%25eth0]:80"], LOOPBACK, "fe80::1"),
    ("mapped", "127.0.0.1", ["::ffff:203.0.113.7"], LOOPBACK, "203.0.113.7"),
    ("mapped-hex", "127.0.0.1", ["[::ffff:cb00:7107]:1"], LOOPBACK, "203.0.113.7"),
    ("mapped-proxy-in-list", "127.0.0.1", ["203.0.113.7, ::ffff:10.0.0.5"], INNER, "203.0.113.7"),
    ("garbage", "127.0.0.1", ["unknown"], LOOPBACK, "127.0.0.1"),
    ("garbage-after-proxy", "127.0.0.1", ["203.0.113.7, unknown, 10.0.0.5"], INNER, "10.0.0.5"),
    ("empty-line", "127.0.0.1", [""], LOOPBACK, "127.0.0.1"),
    ("empty-entry-last", "127.0.0.1", ["203.0.113.7,"], LOOPBACK, "127.0.0.1"),
    ("empty-entry-between", "127.0.0.1", ["203.0.113.7,,10.0.0.5"], INNER, "10.0.0.5"),
    ("host-name", "127.0.0.1", ["client.example.com"], LOOPBACK, "127.0.0.1"),
    ("octal", "127.0.0.1", ["203.0.113.07"], LOOPBACK, "127.0.0.1"),
    ("number", "127.0.0.1", ["3405803783"], LOOPBACK, "127.0.0.1"),
    ("three-parts", "127.0.0.1", ["203.0.113"], LOOPBACK, "127.0.0.1"),
    ("too-big", "127.0.0.1", ["203.0.113.256"], LOOPBACK, "127.0.0.1"),
    ("arabic-digits", "127.0.0.1", ["203.0.113.\u0667"], LOOPBACK, "127.0.0.1"),
    ("network", "127.0.0.1", ["203.0.113.7/32"], LOOPBACK, "127.0.0.1"),
    ("port-word", "127.0.0.1", ["203.0.113.7:http"], LOOPBACK, "127.0.0.1"),
    ("v4-in-brackets", "127.0.0.1", ["[203.0.113.7]"], LOOPBACK, "127.0.0.1"),
    ("open-bracket", "127.0.0.1", ["[2001:db8::7"], LOOPBACK, "127.0.0.1"),
    ("open-quote", "127.0.0.1", ['"203.0.113.7'], LOOPBACK, "127.0.0.1"),
    ("blanks-inside", "127.0.0.1", ["203.0.113.7 198.51.100.1"], LOOPBACK, "127.0.0.1"),
    ("forwarded-syntax", "127.0.0.1", ["for=203.0.113.7"], LOOPBACK, "127.0.0.1"),
    ("surrogate", "127.0.0.1", ["203.0.113.7\udcff"], LOOPBACK, "127.0.0.1"),
    ("nul", "127.0.0.1", ["203.0.113.7\0"], LOOPBACK, "127.0.0.1"),
]


@cases(("peer", "lines", "trusted", "client"), [pytest.param(*w[1:], id=w[0]) for w in WALKS])
def test_client_address(peer: str | None, lines: list[str], trusted: tuple[Network, ...], client: str) -> None:
    """The socket's peer; if it is a trusted proxy, the first untrusted address of `X-Forwarded-For` from the right.
    IPv4-mapped addresses are IPv4."""
    assert client_address(peer, lines, trusted) == ip_address(client)


@cases(
    ("lines", "client"),
    [
        pytest.param(["for=203.0.113.7"], "203.0.113.7", id="for"),
        pytest.param(["For=203.0.113.7;Proto=https;By=10.0.0.1"], "203.0.113.7", id="pairs"),
        pytest.param(["proto=https ; for=203.0.113.7"], "203.0.113.7", id="order-and-blanks"),
        pytest.param(['for="203.0.113.7:4711"'], "203.0.113.7", id="quoted-port"),
        pytest.param(['for="[2001:db8:cafe::17]:4711"'], "2001:db8:cafe::17", id="v6"),
        pytest.param(['for="[2001:db8:cafe::17]:_port"'], "2001:db8:cafe::17", id="hidden-port"),
        pytest.param(["for=1.1.1.1, for=203.0.113.7"], "203.0.113.7", id="forged-before"),
        pytest.param(["for=203.0.113.7, for=10.0.0.5"], "203.0.113.7", id="two-proxies"),
        pytest.param(["for=1.1.1.1", "for=203.0.113.7, for=10.0.0.5"], "203.0.113.7", id="two-lines"),
        pytest.param(["for=10.0.0.4, for=10.0.0.5"], "10.0.0.4", id="all-trusted"),
        pytest.param(['for="1.1.1.1, for=203.0.113.7'], "203.0.113.7", id="forged-open-quote-before"),
        pytest.param(['for=203.0.113.7;host="a, for=1.1.1.1"'], "127.0.0.1", id="comma-in-quotes"),
        pytest.param(['for=203.0.113.7;host="a, for=1.1.1.1;b=\\""'], "127.0.0.1", id="escaped-quote"),
        pytest.param(["for=unknown"], "127.0.0.1", id="unknown"),
        pytest.param(["for=_hidden, for=10.0.0.5"], "10.0.0.5", id="hidden"),
        pytest.param(["proto=https"], "127.0.0.1", id="no-for"),
        pytest.param(["for=203.0.113.7;for=1.1.1.1"], "127.0.0.1", id="for-twice"),
        pytest.param(["203.0.113.7"], "127.0.0.1", id="bare-address"),
        pytest.param(["for="], "127.0.0.1", id="empty"),
        pytest.param([""], "127.0.0.1", id="empty-line"),
    ],
)
def test_forwarded(lines: list[str], client: str) -> None:
    """A setting can name another header instead, here that of RFC 7239."""
    assert client_address("127.0.0.1", lines, INNER, "forwarded") == ip_address(client)


def test_another_header_is_a_list_of_addresses() -> None:
    """A header with one address, such as CF-Connecting-IP, is a list of one."""
    assert client_address("127.0.0.1", ["203.0.113.7"], LOOPBACK, "CF-Connecting-IP") == ip_address("203.0.113.7")


@cases(
    ("texts", "networks"),
    [
        pytest.param(["127.0.0.0/8", "::1/128"], ["127.0.0.0/8", "::1/128"], id="default"),
        pytest.param(["10.0.0.5"], ["10.0.0.5/32"], id="address"),
        pytest.param(["2001:db8::7"], ["2001:db8::7/128"], id="address-v6"),
        pytest.param([" 10.0.0.0/8 "], ["10.0.0.0/8"], id="blanks"),
        pytest.param(["10.0.0.0/255.0.0.0"], ["10.0.0.0/8"], id="netmask"),
        pytest.param(["0.0.0.0/0"], ["0.0.0.0/0"], id="all"),
        pytest.param(["::ffff:10.0.0.0/104"], ["10.0.0.0/8"], id="mapped"),
        pytest.param(["::ffff:10.0.0.5"], ["10.0.0.5/32"], id="mapped-address"),
        pytest.param(["none"], [], id="none"),
        pytest.param(["NONE"], [], id="none-upper"),
        pytest.param([], [], id="empty"),
    ],
)
def test_trusted_proxies(texts: list[str], networks: list[str]) -> None:
    """`--trusted-proxy` replaces the default, loopback; `none` trusts no proxy."""
    assert parse_proxies(texts) == tuple(ip_network(network) for network in networks)


@cases(
    ("text", "advice"),
    [
        pytest.param("", "write an address", id="empty"),
        pytest.param("proxy.local", "write an address", id="name"),
        pytest.param("10.0.0.0/33", "write an address", id="mask-too-long"),
        pytest.param("10.0.0", "write an address", id="short"),
        pytest.param("10.0.0.0/8, 127.0.0.1", "write an address", id="list"),
        pytest.param("fe80::1%eth0", "write an address", id="zone"),
        pytest.param("10.1.2.3/8", r"write 10\.0\.0\.0/8", id="host-bits"),
        pytest.param("2001:db8::1/32", r"write 2001:db8::/32", id="host-bits-v6"),
        pytest.param("none", "remove the other networks", id="none-among-others"),
    ],
)
def test_bad_proxies_say_what_to_write(text: str, advice: str) -> None:
    """The message names the fix."""
    with pytest.raises(ValueError, match=f"--trusted-proxy.*{advice}"):
        parse_proxies(["127.0.0.1", text])


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        pytest.param("203.0.113.7", "203.0.113.7", True, id="same-v4"),
        pytest.param("203.0.113.7", "203.0.113.8", False, id="neighbour-v4"),
        pytest.param("2001:db8:0:1::7", "2001:db8:0:1:ffff::1", True, id="same-64"),
        pytest.param("2001:db8:0:1::7", "2001:db8:0:2::7", False, id="next-64"),
        pytest.param("0.0.0.0", "::", False, id="v4-is-never-v6"),
    ],
)
def test_bucket_key(one: str, other: str, same: bool) -> None:
    """A client is an IPv4 address or an IPv6 /64."""
    assert (bucket_key(ip_address(one)) == bucket_key(ip_address(other))) is same
    assert len(bucket_key(ip_address(one))) == (4 if "." in one else 8)


ANY_TEXT = st.text(st.characters(exclude_categories=()))
NODES = st.text(st.sampled_from(list('0127.:[]%",;=for _af/ \t')), max_size=60)
ADDRESSES = st.ip_addresses().map(str)


@settings(deadline=None)
@given(ANY_TEXT, ANY_TEXT, st.sampled_from(["Origin", "Referer", "Sec-Fetch-Site"]))
def test_nothing_in_a_header_raises(text: str, extra: str, name: str) -> None:
    """Hostile headers raise no exception."""
    page = page_origin({name: text})
    assert page is not None
    assert allows(page, "example.com", (extra,)) in (True, False)


@settings(deadline=None)
@given(
    st.none() | ANY_TEXT | NODES,
    st.lists(ANY_TEXT | NODES | ADDRESSES),
    st.sampled_from(["X-Forwarded-For", "Forwarded"]),
)
@example("127.0.0.1", ["\0"], "X-Forwarded-For")
def test_nothing_forwarded_raises(peer: str | None, lines: list[str], header: str) -> None:
    """Any header results in a client."""
    for trusted in (NONE, LOOPBACK, ALL):
        assert bucket_key(client_address(peer, lines, trusted, header))


@settings(deadline=None)
@given(st.lists(ANY_TEXT | NODES | ADDRESSES), st.ip_addresses(v=4, network="203.0.113.0/24").map(str))
def test_forged_addresses_are_ignored(forged: list[str], client: str) -> None:
    """The first untrusted address from the right counts; values that a client prepends do not matter."""
    lines = [*forged[1:], ",".join([*forged[:1], client])]
    assert client_address("127.0.0.1", lines, LOOPBACK) == ip_address(client)
    lines = [*forged[1:], ",".join([*forged[:1], f"for={client}"])]
    assert client_address("127.0.0.1", lines, LOOPBACK, "Forwarded") == ip_address(client)


@settings(deadline=None)
@given(NODES | ADDRESSES | ADDRESSES.map(lambda text: text[:-1]) | ADDRESSES.map(lambda text: "0" + text))
def test_addresses_are_read_as_ipaddress_reads_them(text: str) -> None:
    """The fast parser accepts exactly the addresses that the standard library accepts."""
    try:
        slow = ip_address(text.partition("%")[0] if ":" in text else text)
    except ValueError:
        slow = ip_address("127.0.0.1")  # a peer that is not an address is local
    mapped = slow.ipv4_mapped if slow.version == 6 else None
    assert client_address(text, [], NONE) == (mapped or slow)


@cases("text", [":" * 16_000 + "[", "for=" + ";for=" * 3_000, '"' * 16_000, "1" * 257])
@cases("header", ["X-Forwarded-For", "Forwarded"])
def test_long_entries_are_not_addresses(text: str, header: str) -> None:
    """Longer texts are not addresses and are refused before any pattern is matched."""
    assert client_address("127.0.0.1", [text], parse_proxies(["127.0.0.0/8"]), header) == ip_address("127.0.0.1")
