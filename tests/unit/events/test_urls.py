"""Hosts and URLs (tally/events/urls.py).

The rules are in docs/reference/collect-api.md, Origin.
"""

import ipaddress
from contextlib import suppress

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tally.events import client, urls
from tally.events.urls import (
    BadHost,
    BadUrl,
    Utm,
    WebUrl,
    belongs_to,
    is_address,
    normal_host,
    origin_host,
    parse_web_url,
    readable_host,
    referrer_host,
    registrable_domain,
    utm,
)
from tests.support.cases import cases

L63 = "a" * 63
LONGEST = ".".join([L63, L63, L63, "a" * 61])  # 253 characters
U_LONGEST = ".".join([L63, L63, L63, "a" * 47, "b\u00fccher"])
A_LONGEST = ".".join([L63, L63, L63, "a" * 47, "xn--bcher-kva"])  # 253 too

HOSTS = [
    ("plain", "example.com", "example.com"),
    ("upper-case", "WWW.Example.COM", "www.example.com"),
    ("trailing-dot", "example.com.", "example.com"),
    ("single-label", "localhost", "localhost"),
    ("underscore", "my_site.example.com", "my_site.example.com"),
    ("outer-hyphens", "-a-.example.com", "-a-.example.com"),
    ("digits-first", "1und1.de", "1und1.de"),
    ("digits-inside", "1.2.3.example", "1.2.3.example"),
    ("ends-in-digit", "example.h3", "example.h3"),
    ("a-label", "xn--bcher-kva.example", "xn--bcher-kva.example"),
    ("a-label-upper", "XN--BCHER-KVA.example", "xn--bcher-kva.example"),
    ("a-label-unchecked", "xn--zzzzzz99999.example", "xn--zzzzzz99999.example"),
    ("u-label", "b\u00fccher.example", "xn--bcher-kva.example"),
    ("u-label-upper", "B\u00dcCHER.example", "xn--bcher-kva.example"),
    ("u-label-decomposed", "bu\u0308cher.example", "xn--bcher-kva.example"),
    ("u-label-trailing-dot", "b\u00fccher.example.", "xn--bcher-kva.example"),
    ("sharp-s-stays", "fa\u00df.de", "xn--fa-hia.de"),
    ("final-sigma-stays", "\u03b2\u03cc\u03bb\u03bf\u03c2.com", "xn--nxasmm1c.com"),
    ("ideographic-dot", "\u65e5\u672c\u3002jp", "xn--wgv71a.jp"),
    ("full-width", "\uff45\uff58ample.com", "example.com"),
    ("kelvin-sign", "\u212a.example", "k.example"),
    ("soft-hyphen", "ex\u00adample.com", "example.com"),
    ("underscore-beside-u-label", "my_site.b\u00fccher.example", "my_site.xn--bcher-kva.example"),
    ("ipv4", "192.0.2.7", "192.0.2.7"),
    ("ipv4-trailing-dot", "192.0.2.7.", "192.0.2.7"),
    ("ipv4-full-width", "\uff11\uff19\uff12.0.2.7", "192.0.2.7"),
    ("ipv6", "[2001:DB8:0:0:0:0:0:7]", "[2001:db8::7]"),
    ("ipv6-loopback", "[::1]", "[::1]"),
    ("ipv6-mapped", "[::ffff:192.0.2.7]", "[::ffff:c000:207]"),
    ("label-63", L63 + ".com", L63 + ".com"),
    ("whole-253", LONGEST, LONGEST),
    ("whole-253-and-dot", LONGEST + ".", LONGEST),
    ("u-whole-253", U_LONGEST, A_LONGEST),
    ("u-whole-253-and-dot", U_LONGEST + ".", A_LONGEST),
]

BAD_HOSTS = [
    ("empty", ""),
    ("dot", "."),
    ("two-trailing-dots", "example.com.."),
    ("leading-dot", ".example.com"),
    ("empty-label", "example..com"),
    ("space", "exa mple.com"),
    ("space-before", " example.com"),
    ("newline-after", "example.com\n"),
    ("tab", "example.com\t.evil.com"),
    ("nul", "example.com\0"),
    ("port", "example.com:80"),
    ("slash", "example.com/"),
    ("backslash", "evil.com\\example.com"),
    ("at", "a@example.com"),
    ("percent", "ex%61mple.com"),
    ("star", "*.example.com"),
    ("comma", "example.com,evil.com"),
    ("label-64", "a" * 64 + ".com"),
    ("whole-254", LONGEST + "a"),
    ("whole-254-and-dot", LONGEST + "a."),
    ("very-long", "a." * 5000 + "com"),
    ("u-very-long", "\u00e4." * 5000 + "com"),
    ("u-whole-254", ".".join(["b\u00fccher", "a" * 48, L63, L63, L63])),
    ("u-label-long", "\u00e4" * 64 + ".com"),
    ("u-many-labels", "\u00e4." * 120 + "com"),
    ("number", "2130706433"),
    ("short-ipv4", "127.1"),
    ("octal-ipv4", "0177.0.0.1"),
    ("zeros-ipv4", "192.0.02.7"),
    ("hex-ipv4", "0x7f.0.0.1"),
    ("hex-last", "example.0x7f"),
    ("hex-empty-last", "example.0x"),
    ("hex-upper-last", "example.0X1"),
    ("number-last", "example.1"),
    ("number-last-dot", "example.1."),
    ("ipv4-256", "192.0.2.256"),
    ("ipv4-five", "1.2.3.4.5"),
    ("ipv4-and-full-width-dot", "1.2.3\uff0e4.5"),
    ("ipv6-bare", "2001:db8::7"),
    ("ipv6-open", "[::1"),
    ("ipv6-closed-only", "::1]"),
    ("ipv6-empty", "[]"),
    ("ipv6-bracket-alone", "["),
    ("ipv6-zone", "[fe80::1%eth0]"),
    ("ipv6-port", "[::1]:80"),
    ("ipv6-trailing-dot", "[::1]."),
    ("ipv4-in-brackets", "[192.0.2.7]"),
    ("joiner", "a\u200db.com"),
    ("full-width-slash", "evil.com\uff0fexample.com"),
    ("account-of", "evil\u2100example.com"),
    ("one-dot-leader", "example\u2024com"),
    ("no-break-space", "exa\u00a0mple.com"),
    ("bidi-mix", "\u05d0a\u05d1.com"),
    ("emoji-variation-only", "\ufe0f.com"),
    ("lone-surrogate", "\ud800.com"),
]


@cases(("text", "host"), [pytest.param(t, h, id=i) for i, t, h in HOSTS])
def test_normal_host(text: str, host: str) -> None:
    """Hosts become lowercase A-labels without port."""
    assert normal_host(text) == host
    assert normal_host(host) == host


@cases(
    ("host", "text"),
    [
        ("example.com", "example.com"),
        ("xn--bcher-kva.example", "b\u00fccher.example"),
        ("my_site.xn--bcher-kva.xn--p1ai", "my_site.b\u00fccher.\u0440\u0444"),
        ("xn--zzzzzz99999.example", "xn--zzzzzz99999.example"),
        ("xn--abc.example", "xn--abc.example"),
        ("[2001:db8::7]", "[2001:db8::7]"),
    ],
)
def test_readable_host(host: str, text: str) -> None:
    """A-labels are shown as the names that they stand for; those that stand for none stay as they are."""
    assert (readable_host(host), normal_host(text)) == (text, host)


@cases("text", [pytest.param(t, id=i) for i, t in BAD_HOSTS])
def test_bad_hosts(text: str) -> None:
    """Invalid hosts raise BadHost."""
    with pytest.raises(BadHost, match=r"^[A-Z].*\.$"):
        normal_host(text)


URLS = [
    ("host-alone", "https://example.com", WebUrl("example.com", "/", "")),
    ("slash", "http://example.com/", WebUrl("example.com", "/", "")),
    ("scheme-upper", "HTTPS://Example.COM/A", WebUrl("example.com", "/A", "")),
    ("path-dots-and-escapes", "https://example.com/A//b/../%7Ec/", WebUrl("example.com", "/A//~c/", "")),
    ("path-unicode", "https://example.com/\u00fc \u65e5", WebUrl("example.com", "/%C3%BC%20%E6%97%A5", "")),
    ("path-second-slash", "https://example.com//evil.com", WebUrl("example.com", "//evil.com", "")),
    ("path-at", "https://example.com/@evil.com", WebUrl("example.com", "/@evil.com", "")),
    ("path-backslash", "https://example.com/\\evil", WebUrl("example.com", "//evil", "")),
    ("path-semicolon", "https://example.com/a;b=c", WebUrl("example.com", "/a;b=c", "")),
    ("query", "https://example.com/a?b=c&d", WebUrl("example.com", "/a", "b=c&d")),
    ("query-no-path", "https://example.com?b=c", WebUrl("example.com", "/", "b=c")),
    ("query-empty", "https://example.com/a?", WebUrl("example.com", "/a", "")),
    ("query-question-mark", "https://example.com/a?b?c", WebUrl("example.com", "/a", "b?c")),
    ("query-slash-at", "https://example.com?a/@evil.com", WebUrl("example.com", "/", "a/@evil.com")),
    ("fragment", "https://example.com/a?b#c", WebUrl("example.com", "/a", "b")),
    ("fragment-no-path", "https://example.com#@evil.com", WebUrl("example.com", "/", "")),
    ("fragment-question", "https://example.com/a#b?c", WebUrl("example.com", "/a", "")),
    ("port", "https://example.com:8443/a", WebUrl("example.com", "/a", "")),
    ("port-0", "https://example.com:0/", WebUrl("example.com", "/", "")),
    ("port-65535", "https://example.com:65535/", WebUrl("example.com", "/", "")),
    ("trailing-dot", "https://example.com./a", WebUrl("example.com", "/a", "")),
    ("idn", "https://B\u00fccher.example/a", WebUrl("xn--bcher-kva.example", "/a", "")),
    ("ipv4", "http://192.0.2.7/a", WebUrl("192.0.2.7", "/a", "")),
    ("ipv6-port", "http://[2001:DB8::7]:80/a", WebUrl("[2001:db8::7]", "/a", "")),
    ("userinfo", "https://user:pass@example.com/a", WebUrl("example.com", "/a", "")),
    ("userinfo-like-host", "https://example.com@evil.com/", WebUrl("evil.com", "/", "")),
    ("userinfo-port-like", "https://example.com:80@evil.com:81/", WebUrl("evil.com", "/", "")),
    ("userinfo-empty", "https://@example.com/", WebUrl("example.com", "/", "")),
]

BAD_URLS = [
    ("empty", ""),
    ("host-only", "example.com"),
    ("no-scheme", "//example.com/"),
    ("path-only", "/a"),
    ("one-slash", "https:/example.com"),
    ("no-host", "https://"),
    ("three-slashes", "https:///example.com"),
    ("query-for-host", "https://?example.com"),
    ("ftp", "ftp://example.com/"),
    ("javascript", "javascript:alert(1)"),
    ("javascript-slashes", "javascript://example.com/%0aalert(1)"),
    ("httpss", "httpss://example.com/"),
    ("long-s-scheme", "http\u017f://example.com/"),
    ("blank-before", " https://example.com/"),
    ("blank-in-host", "https://exa mple.com/"),
    ("blank-after-host", "https://example.com /"),
    ("blank-in-userinfo", "https://a b@example.com/"),
    ("ideographic-space", "https://example.com\u3000/"),
    ("tab-in-host", "https://example.com\t.evil.com/"),
    ("tab-in-path", "https://example.com/a\tb"),
    ("newline-in-query", "https://example.com/?a\nb"),
    ("newline-at-end", "https://example.com/\n"),
    ("newline-at-end-of-host", "https://example.com\n"),
    ("nul-in-fragment", "https://example.com/#a\0"),
    ("delete", "https://example.com/\x7f"),
    ("backslash-at", "https://evil.com\\@example.com"),
    ("backslash-at-path", "https://evil.com\\@example.com/a"),
    ("backslash-for-slash", "https://evil.com\\example.com/"),
    ("backslashes-for-slashes", "https:\\\\example.com/"),
    ("two-at", "https://a@evil.com@example.com/"),
    ("userinfo-alone", "https://user@/"),
    ("port-alone", "https://:80/"),
    ("port-empty", "https://example.com:/"),
    ("port-65536", "https://example.com:65536/"),
    ("port-99999", "https://example.com:99999/"),
    ("port-word", "https://example.com:http/"),
    ("port-minus", "https://example.com:-1/"),
    ("port-arabic", "https://example.com:\u0668\u0660/"),
    ("port-long", "https://example.com:" + "0" * 5000 + "80/"),
    ("two-ports", "https://example.com:80:80/"),
    ("ipv6-open", "https://[::1/"),
    ("ipv6-junk", "https://[::1]evil.com/"),
    ("ipv6-bare", "https://2001:db8::7/"),
    ("host-percent", "https://example%2ecom/"),
    ("host-number", "https://2130706433/"),
    ("host-very-long", "https://" + "a." * 4000 + "com/"),
]


@cases(("text", "url"), [pytest.param(t, u, id=i) for i, t, u in URLS])
def test_web_urls(text: str, url: WebUrl) -> None:
    """The path is `/` where empty; case, slashes and escapes stay as sent."""
    assert parse_web_url(text) == url


@cases("text", [pytest.param(t, id=i) for i, t in BAD_URLS])
def test_bad_urls(text: str) -> None:
    """Anything but a full http(s) URL raises BadUrl."""
    with pytest.raises(BadUrl, match=r"^[A-Z].*\.$"):
        parse_web_url(text)
    with pytest.raises(BadUrl):
        referrer_host(text)


@cases(
    ("text", "words"),
    [
        pytest.param("ftp://example.com/", "begins with http", id="scheme"),
        pytest.param("https://example.com/\0", "control character", id="control"),
        pytest.param("https://evil.com\\@example.com", "backslash", id="backslash"),
        pytest.param("https://a@b@example.com", "more than one @", id="two-at"),
        pytest.param("https://example.com:65536", "65535", id="port"),
        pytest.param("https://exa_mple..com", "labels", id="host"),
    ],
)
def test_errors_of_bad_urls(text: str, words: str) -> None:
    """The message names the problem."""
    with pytest.raises(BadUrl, match=words):
        parse_web_url(text)


@cases(
    ("query", "values"),
    [
        pytest.param("", ("", "", ""), id="empty"),
        pytest.param("a=b&source=c", ("", "", ""), id="none"),
        pytest.param("utm_source=a&utm_medium=b&utm_campaign=c", ("a", "b", "c"), id="all"),
        pytest.param(
            "utm_term=e+f&utm_content=d%26&utm_campaign=c&utm_medium=b&utm_source=a",
            ("a", "b", "c", "d&", "e f"),
            id="all-five",
        ),
        pytest.param("utm_content=d", ("", "", "", "d"), id="content-only"),
        pytest.param("utm_id=1&utm_terms=x", (), id="unknown-names"),
        pytest.param("x=1&utm_campaign=c&utm_source=a", ("a", "", "c"), id="any-order"),
        pytest.param("utm_source=a&utm_source=b", ("a", "", ""), id="first-wins"),
        pytest.param("utm_source=&utm_source=b", ("", "", ""), id="first-wins-empty"),
        pytest.param("utm_source&utm_medium=m", ("", "m", ""), id="no-equals"),
        pytest.param("utm_source=a=b", ("a=b", "", ""), id="equals-inside"),
        pytest.param("utm_source=a+b%20c%2Bd", ("a b c+d", "", ""), id="blanks"),
        pytest.param("utm_source=%C3%BC&utm_medium=\u00fc", ("\u00fc", "\u00fc", ""), id="utf-8"),
        pytest.param("utm_source=%FFa&utm_medium=%C3", ("\ufffda", "\ufffd", ""), id="bad-utf-8"),
        pytest.param("utm_source=%ED%A0%80", ("\ufffd\ufffd\ufffd", "", ""), id="escaped-surrogate"),
        pytest.param("utm_source=100%&utm_medium=%zz", ("100%", "%zz", ""), id="bad-escape"),
        pytest.param("utm_source=a%00b&utm_medium=m", ("", "m", ""), id="nul"),
        pytest.param("utm_source=" + "a" * 200 + "%00", ("", "", ""), id="nul-after-the-truncated-part"),
        pytest.param("UTM_SOURCE=a&utm_Medium=b", ("", "", ""), id="case"),
        pytest.param("xutm_source=a&utm_sourcex=b", ("", "", ""), id="other-names"),
        pytest.param("utm_source=a;utm_medium=b", ("a;utm_medium=b", "", ""), id="semicolon-joins"),
        pytest.param("utm_source=" + "a" * 101, ("a" * 100, "", ""), id="truncated"),
        pytest.param("utm_source=" + "%F0%9F%98%80" * 101, ("\U0001f600" * 100, "", ""), id="truncated-wide"),
        pytest.param("&&utm_source=a&&", ("a", "", ""), id="empty-parts"),
    ],
)
def test_utm(query: str, values: tuple[str, ...]) -> None:
    """utm values are decoded from the query, truncated to 100 characters, and empty if they contain NUL."""
    assert utm(query) == Utm(*values)


@cases(
    ("text", "host"),
    [
        pytest.param("https://www.google.com/search?q=x", "google.com", id="www"),
        pytest.param("https://WWW.Google.com", "google.com", id="www-upper"),
        pytest.param("https://www.www.example.com/", "www.example.com", id="one-www-only"),
        pytest.param("https://www2.example.com/", "www2.example.com", id="www2"),
        pytest.param("https://awww.example.com/", "awww.example.com", id="awww"),
        pytest.param("http://l.example.com:80/", "l.example.com", id="port"),
        pytest.param("android-app://com.google.android.gm", "com.google.android.gm", id="android"),
        pytest.param("ANDROID-APP://com.Slack/https/x", "com.slack", id="android-path"),
        pytest.param("android-app://www.example.app/", "www.example.app", id="package-kept"),
        pytest.param("ios-app://544007664/vnd.youtube/x", "544007664", id="ios"),
    ],
)
def test_referrer_host(text: str, host: str) -> None:
    """A referrer is stored as its lowercase host without `www.`."""
    assert referrer_host(text) == host


@cases(
    "text",
    [
        "android-app://",
        "android-app:///x",
        "android-app:com.example",
        "android-app://com.example:80",
        "android-app://a@com.example",
        "android-app://com..example",
        "android-app://com.ex ample",
        "android-app://com.example/\0",
        "android-app://" + "a." * 200 + "b",
        "android-app://b\u00fccher",
        "io\u017f-app://com.example",
        "linux-app://com.example",
        "about:client",
        "www.google.com",
    ],
)
def test_bad_referrers(text: str) -> None:
    """Only http(s), android-app and ios-app URLs are accepted."""
    with pytest.raises(BadUrl):
        referrer_host(text)


@cases(
    ("host", "domain", "belongs"),
    [
        pytest.param("example.com", "example.com", True, id="equal"),
        pytest.param("a.b.example.com", "example.com", True, id="below"),
        pytest.param("evilexample.com", "example.com", False, id="suffix-of-a-label"),
        pytest.param("example.com.evil.com", "example.com", False, id="prefix"),
        pytest.param("example.com", "www.example.com", False, id="above"),
        pytest.param("com", "example.com", False, id="far-above"),
        pytest.param("localhost", "localhost", True, id="single-label"),
        pytest.param("app.localhost", "localhost", True, id="below-single-label"),
        pytest.param("192.0.2.7", "192.0.2.7", True, id="ipv4"),
        pytest.param("192.0.2.70", "192.0.2.7", False, id="ipv4-longer"),
        pytest.param("a.192.0.2.7", "192.0.2.7", False, id="below-ipv4"),
        pytest.param("192.0.2.7", "2.7", False, id="ipv4-end"),
        pytest.param("[::1]", "[::1]", True, id="ipv6"),
        pytest.param("a.[::1]", "[::1]", False, id="below-ipv6"),
        pytest.param("", "example.com", False, id="no-host"),
        pytest.param("example.com", "", False, id="no-domain"),
        pytest.param("", "", False, id="neither"),
        pytest.param("example.com.", "", False, id="dot-and-no-domain"),
    ],
)
def test_belongs_to(host: str, domain: str, belongs: bool) -> None:
    """The host must be the registered domain or a subdomain of it."""
    assert belongs_to(host, domain) is belongs


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("192.0.2.7", True),
        ("[::1]", True),
        ("example.com", False),
        ("example.h3", False),
        ("localhost", False),
    ],
)
def test_is_address(host: str, address: bool) -> None:
    """An IP address has no subdomains, so it is compared as a whole."""
    assert is_address(host) is address


@cases(
    ("text", "domain", "noted"),
    [
        pytest.param("example.com", "example.com", [], id="plain"),
        pytest.param(" Example.COM. ", "example.com", [], id="case-blanks-dot"),
        pytest.param("shop.example.co.uk", "shop.example.co.uk", [], id="subdomain"),
        pytest.param("https://example.com/", "example.com", ["only its host is used"], id="url"),
        pytest.param("example.com/blog?a=b", "example.com", ["only its host is used"], id="path"),
        pytest.param("www.example.com", "example.com", ["leading www."], id="www"),
        pytest.param("example.com:8080", "example.com", ["port 8080"], id="port"),
        pytest.param("localhost:3000", "localhost", ["port 3000"], id="localhost-port"),
        pytest.param("http://WWW.example.com:8080/a", "example.com", ["host", "port 8080", "leading www."], id="all"),
        pytest.param("b\u00fccher.example", "xn--bcher-kva.example", ["kept as xn--bcher-kva"], id="idn"),
        pytest.param("localhost", "localhost", [], id="localhost"),
        pytest.param("intranet", "intranet", [], id="single-label"),
        pytest.param("www.intranet", "intranet", ["leading www."], id="www-single-label"),
        pytest.param("192.0.2.7", "192.0.2.7", [], id="ipv4"),
        pytest.param("[2001:DB8::7]", "[2001:db8::7]", [], id="ipv6"),
        pytest.param("::1", "[::1]", [], id="ipv6-bare"),
        pytest.param("http://[::1]:8000/", "[::1]", ["host", "port 8000"], id="ipv6-url"),
        pytest.param("someone.github.io", "someone.github.io", [], id="below-private-suffix"),
        pytest.param("www.com", "www.com", [], id="www-is-the-name"),
        pytest.param("www.co.ck", "www.co.ck", [], id="www-is-the-name-below-wildcard"),
        pytest.param("www.ck", "www.ck", [], id="exception-rule"),
        pytest.param("city.kawasaki.jp", "city.kawasaki.jp", [], id="exception-below-wildcard"),
    ],
)
def test_registrable_domain(text: str, domain: str, noted: list[str]) -> None:
    """A URL is reduced to its host and a leading `www.` is dropped; both are noted."""
    got, notes = registrable_domain(text)
    assert got == domain
    assert len(notes) == len(noted)
    assert all(words in note.message for words, note in zip(noted, notes, strict=True))


@cases(
    "text",
    [
        "com",
        "co.uk",
        "github.io",
        "https://github.io/",
        "GITHUB.IO.",
        "foo.ck",
        "www.kawasaki.jp",
        "xn--p1ai",
        "\u0440\u0444",
    ],
)
def test_public_suffixes_are_refused(text: str) -> None:
    """The error names the fix."""
    with pytest.raises(BadHost, match=r"public suffix.*Give your own domain, such as example\."):
        registrable_domain(text)


@cases(
    "text",
    [
        "",
        " ",
        "https://",
        "ftp://example.com",
        "mailto:me@example.com",
        "me@example.com",
        "*.example.com",
        "example.com:99999",
        "exa mple.com",
        "https://evil.com\\@example.com",
        "example.com\0",
        "a:b:c",
        "127.1",
    ],
)
def test_invalid_domains_are_refused(text: str) -> None:
    """Every error shows an example."""
    with pytest.raises(BadHost, match=r"such as example\.com\."):
        registrable_domain(text)


ANY_TEXT = st.text(st.characters(exclude_categories=()))  # lone surrogates included
HOSTISH = st.text("aZ0x9.-_[]:%@\\/?# \t\u00fc\u3002\uff11\u00df\u0308\u200d\u05d0", max_size=40)


@settings(deadline=None)
@given(ANY_TEXT | HOSTISH)
@example("\ud800.com")
@example("xn--\u00fc")
def test_normalization_is_idempotent(text: str) -> None:
    """Any text raises BadHost or gives a lowercase ASCII host that stays the same when normalized again."""
    try:
        host = normal_host(text)
    except BadHost:
        return
    assert host.isascii()
    assert host == host.lower()
    assert 1 <= len(host) <= 253
    assert normal_host(host) == host
    assert normal_host(host.upper()) == host


@settings(deadline=None)
@given(st.one_of(ANY_TEXT, HOSTISH, HOSTISH.map("https://{}".format), HOSTISH.map("android-app://{}".format)))
def test_urls_raise_nothing_but_bad_url(text: str) -> None:
    """Any other exception would be a 500."""
    for read in (parse_web_url, referrer_host, origin_host):
        with suppress(BadUrl):
            assert read(text)


@settings(deadline=None)
@given(ANY_TEXT | HOSTISH)
def test_registering_raises_nothing_but_bad_host(text: str) -> None:
    """Any text gives a normalized host or BadHost."""
    try:
        domain, _ = registrable_domain(text)
    except BadHost:
        return
    assert normal_host(domain) == domain


@settings(deadline=None)
@given(ANY_TEXT.map("utm_source={}".format) | st.text("utm_sorce=&%+0f\u00fc"))
def test_utm_values_fit(query: str) -> None:
    """Values have at most 100 characters and no NUL."""
    assert all(len(value) <= 100 and "\0" not in value for value in utm(query))


@settings(deadline=None)
@given(HOSTISH)
def test_an_origin_and_its_url_name_the_same_host(text: str) -> None:
    """The parsers of origins and of URLs never disagree about a host."""
    try:
        host = origin_host(f"https://{text}")
    except BadUrl:
        return
    assert parse_web_url(f"https://{text}/a?b#c").host == host


@settings(deadline=None)
@given(st.ip_addresses(v=6))
def test_ipv6_hosts_have_one_spelling(address: ipaddress.IPv6Address) -> None:
    """All spellings of an address give the same host."""
    assert normal_host(f"[{address.exploded}]") == normal_host(f"[{address.compressed.upper()}]")


def test_only_plain_pages_are_cached() -> None:
    """URLs with a query, userinfo or another host are not kept, not even in memory (docs/privacy.md)."""
    urls._page_url_of.cache_clear()
    for text in (
        "https://a.example/?t=1",
        "https://a.example/#t",
        "https://jane:pw@a.example/",
        "https://a.example/" * 9,
    ):
        assert urls.parse_page_url(text) == urls.parse_web_url(text)
    assert urls._page_url_of.cache_info().currsize == 0
    assert client.page_origin_of(None, "https://a.example/account/reset", None) is not None
    assert urls._page_url_of.cache_info().currsize == 0
    for _ in range(2):
        assert urls.parse_page_url("https://A.example/p") == urls.parse_web_url("https://A.example/p")
    assert urls._page_url_of.cache_info().hits == 1
