"""The client of a request: the page that it comes from, and its address.

The page. A web request has an Origin, a Referer or a Sec-Fetch-Site header. Browsers set these and no script can change
them, so other people's pages cannot send events for a website. Origin decides; Referer only where there is no Origin. A
header that names no host (`null`, a list, two headers, an unreadable text) matches no website. A request with none of
the three comes from an app or a server and is not checked: a client that is no browser can forge every header.

The address. It is the socket's peer, unless the peer is a trusted proxy. Then the forwarded header is read from the
right, where the proxy wrote, up to the first address that is not a trusted proxy; what stands further left can be
forged. An entry that is no address, also an empty one, ends the search at the last address found. IPv4-mapped addresses
become IPv4, zone ids are dropped.

Nothing is kept or logged here. Keep in step: "Web request" and "Client address" in docs/reference/, the settings
trusted_proxy and forwarded_header.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from socket import AF_INET, AF_INET6, inet_pton
from typing import NamedTuple

from tally.events.urls import BadUrl, belongs_to, origin_host, url_host

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

LOOPBACK = IPv4Address("127.0.0.1")

# RFC 1918, 6598, 1122, 3927, 4193, 4291. Not `is_private`: Python counts documentation addresses among them.
PRIVATE_NETWORKS: tuple[Network, ...] = (
    IPv4Network("10.0.0.0/8"),
    IPv4Network("172.16.0.0/12"),
    IPv4Network("192.168.0.0/16"),
    IPv4Network("100.64.0.0/10"),
    IPv4Network("127.0.0.0/8"),
    IPv4Network("169.254.0.0/16"),
    IPv6Network("fc00::/7"),
    IPv6Network("fe80::/10"),
    IPv6Network("::1/128"),
)

# Any scheme, for the exact extra origins; no userinfo, since an origin has none.
_REFERER = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://[^/?#@\\\s\x00-\x1f\x7f]+)(?:[/?#][^\x00-\x1f\x7f]*)?")
# An address with port and zone has under 70 characters; the patterns below take time quadratic in the length.
_MAX_ENTRY = 256
_PORT = r"(?::(?:[0-9]{1,5}|_[A-Za-z0-9._-]+))?"  # RFC 7239 6: a number or an obfuscated name
_NODE = re.compile(rf'("?)(?:([0-9.]+){_PORT}|\[([^\[\]"]*:[^\[\]"]*)\]{_PORT}|([^\[\]"]*:[^\[\]"]*))\1')
_PAIR = r'([A-Za-z]+)=("[^"\\]*"|[^";,\s\\]+)'
_PAIRS = re.compile(_PAIR)
_ELEMENT = re.compile(rf"[ \t]*{_PAIR}(?:[ \t]*;[ \t]*{_PAIR})*[ \t]*;?[ \t]*")


class PageOrigin(NamedTuple):
    """The page of a web request: its origin as sent, and the host in it ("" where it names none)."""

    origin: str
    host: str


_NAMELESS = PageOrigin("", "")


def page_origin(headers: Mapping[str, str]) -> PageOrigin | None:
    """Return the page that a web request comes from; None where it is no web request.

    A plain mapping must spell the names as here; aiohttp's, which ignores case, also shows repeated headers.
    """
    if _repeated(headers, "Origin") or ("Origin" not in headers and _repeated(headers, "Referer")):
        return _NAMELESS
    return page_origin_of(headers.get("Origin"), headers.get("Referer"), headers.get("Sec-Fetch-Site"))


def page_origin_of(origin: str | None, referer: str | None, fetch_site: str | None) -> PageOrigin | None:
    """The same for the three headers themselves, None where one was not sent."""
    if origin is not None:
        return _from_origin(origin)
    if referer is not None:
        return _from_referer(referer)
    return None if fetch_site is None else _NAMELESS


def _repeated(headers: Mapping[str, str], name: str) -> bool:
    getall = getattr(headers, "getall", None)
    return getall is not None and len(getall(name, ())) > 1


def _from_origin(text: str) -> PageOrigin:
    try:
        return PageOrigin(text, origin_host(text))
    except BadUrl:
        return PageOrigin(text, "")


def _from_referer(text: str) -> PageOrigin:
    match = _REFERER.fullmatch(text)
    origin = match[1] if match else ""
    try:
        return PageOrigin(origin, url_host(text))
    except BadUrl:
        return PageOrigin(origin, "")


def allows(page: PageOrigin | None, domain: str, extra_origins: Collection[str]) -> bool:
    """Return whether a website of this domain accepts events from a page; always true for None, no web request."""
    if page is None:
        return True
    if extra_origins and _is_extra(page.origin, extra_origins):
        return True
    return belongs_to(page.host, domain)


def _is_extra(origin: str, extra_origins: Collection[str]) -> bool:
    if not origin.isascii() or origin in ("", "null"):  # docs/reference/collect-api.md: `Origin: null` is refused
        return False
    sent = origin.lower()
    return any(sent == extra.lower() for extra in extra_origins)


def parse_proxies(texts: Iterable[str]) -> tuple[Network, ...]:
    """Return the networks of trusted proxies; `none` alone gives none. Raises ValueError with the fix."""
    words = [text.strip() for text in texts]
    if [text.lower() for text in words] == ["none"]:
        return ()
    if "none" in (text.lower() for text in words):
        raise ValueError("--trusted-proxy none stands alone: remove the other networks, or remove none.")
    return parse_networks(words, "--trusted-proxy", "none")


def parse_networks(texts: Iterable[str], option: str, word: str) -> tuple[Network, ...]:
    """Return networks of an option, which takes `word` too. Raises ValueError with the fix."""
    return tuple(_network(text, option, word) for text in texts)


def _network(text: str, option: str, word: str) -> Network:
    try:
        network = ip_network(text, strict=False)
        if "%" in text:
            raise ValueError(text)
    except ValueError:
        raise ValueError(
            f"{option} {text!r} is not a network: write an address such as 10.0.0.5, "
            f"a network such as 10.0.0.0/8, or {word}."
        ) from None
    if "/" in text and network.network_address != ip_address(text.partition("/")[0]):
        raise ValueError(f"{option} {text} is an address in a network: write {network} for all of it.")
    return unmapped(network)


def unmapped(network: Network) -> Network:
    """Return an IPv4-mapped network as IPv4: clients are compared as IPv4, so the mapped one would never match."""
    mapped = network.network_address.ipv4_mapped if isinstance(network, IPv6Network) else None
    if mapped is None or network.prefixlen < 96:  # RFC 4291 2.5.5.2: ::ffff:0:0/96
        return network
    return IPv4Network((int(mapped), network.prefixlen - 96))


def client_address(
    peer: str | None, forwarded: Sequence[str], trusted: tuple[Network, ...], header: str = "X-Forwarded-For"
) -> Address:
    """Return the client's address: the peer, or what trusted proxies wrote in the header's lines, in the order sent.

    A peer that is no address (None, the path of a Unix socket) counts as loopback. `Forwarded` is parsed by RFC 7239,
    any other header as a list of addresses.
    """
    client = plain_address(peer) if peer else LOOPBACK
    if client is None:
        client = LOOPBACK
    if not forwarded or not _is_trusted(client, trusted):
        return client
    read = _element_address if header.lower() == "forwarded" else _node_address
    for line in reversed(forwarded):
        # A comma inside quotes splits too: no address has one, and the halves end the search.
        for entry in reversed(line.split(",")):
            address = read(entry)
            if address is None:
                return client
            client = address
            if not _is_trusted(client, trusted):
                return client
    return client


def is_proxy(peer: str | None, trusted: tuple[Network, ...]) -> bool:
    """Return whether the socket's peer is a trusted proxy."""
    return _is_trusted(client_address(peer, (), trusted), trusted)


def _is_trusted(address: Address, trusted: tuple[Network, ...]) -> bool:
    # A loop, not any(): half the time, and this runs twice a request.
    for network in trusted:  # noqa: SIM110
        if address in network:
            return True
    return False


def plain_address(text: str) -> Address | None:
    """Return an address, IPv4-mapped as IPv4, without its zone id; None for any other text."""
    # inet_pton accepts what ipaddress accepts (a test compares them) in a quarter of the time, 0.4 µs.
    try:
        if ":" not in text:
            return IPv4Address(inet_pton(AF_INET, text))
        address = IPv6Address(inet_pton(AF_INET6, text.partition("%")[0]))
    except (OSError, ValueError):  # ValueError: NUL or a lone surrogate
        return None
    return address.ipv4_mapped or address


def _node_address(text: str) -> Address | None:
    """Return the address of one entry: 192.0.2.7, 192.0.2.7:80, 2001:db8::7, [2001:db8::7]:80, quoted or not."""
    if len(text) > _MAX_ENTRY:
        return None
    entry = text.strip(" \t")
    address = plain_address(entry)
    if address is not None:
        return address
    match = _NODE.fullmatch(entry)
    return plain_address(match[2] or match[3] or match[4]) if match else None


def _element_address(text: str) -> Address | None:
    """Return the address of the `for` of a Forwarded element; None where it is hidden, missing or repeated."""
    if len(text) > _MAX_ENTRY or _ELEMENT.fullmatch(text) is None:
        return None
    nodes = [value for name, value in _PAIRS.findall(text) if name.lower() == "for"]
    return _node_address(nodes[0]) if len(nodes) == 1 else None


def bucket_key(address: Address) -> bytes:
    """Return a client's rate limit key: the 4 bytes of an IPv4 address, the first 8 (the /64) of an IPv6 one."""
    return address.packed[:8]


def wider_networks(key: bytes) -> tuple[bytes, ...]:
    """Return the /56 and the /48 of a rate limit key that is an IPv6 /64; nothing for IPv4."""
    return (key[:7], key[:6]) if len(key) == 8 else ()
