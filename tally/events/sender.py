"""The sender of a collect request: client address, page, User-Agent, Accept-Language and client hints.

The client is the socket's peer or, where that is a trusted proxy, the address in the forwarded header
(tally/events/client.py has the rules). Clients and page origins are cached for a while, in memory only, because both
return within minutes.

For `doctor` it is recorded which forwarded headers arrived, and from what kind of peer, without any address. A proxy on
this machine that adds no header is detected by the requests of browsers: a loopback peer, no forwarded header, and an
Origin, Referer or Host of another machine. Its requests are like local ones, so /metrics then requires a token.

A forwarded header from a private network that is not trusted probably comes from a proxy that is missing in the
settings; all its visitors then count as one client. That is logged at most once a minute, with the option to set and
without the address or the header's value.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from ipaddress import ip_address
from typing import Any, NamedTuple

from tally.clock import Clock
from tally.errors import log
from tally.events.client import (
    PRIVATE_NETWORKS,
    Address,
    Network,
    PageOrigin,
    bucket_key,
    client_address,
    is_proxy,
    page_origin,
    page_origin_of,
    plain_address,
)
from tally.events.client_hints import hint_headers
from tally.events.places import DeferredPlaces, PlaceDatabase
from tally.events.request_context import Place

# One warning a minute is enough to find it in the log.
_WARN_NS = 60_000_000_000
# More origins than the websites of one server have; 5 MB if all are as long as a header may be.
_CACHED_ORIGINS = 256
# A visitor sends several events within minutes; 2 MB. In memory only, as the token buckets are.
_CACHED_CLIENTS = 4_096
# Longer header values are not cached: a header may be 16 KB long, an address is short.
_MAX_CACHED_CHARACTERS = 128
# The names that proxies and hosting companies use. Any of them shows that there is a proxy.
_FORWARDED = ("X-Forwarded-For", "Forwarded", "X-Real-IP", "CF-Connecting-IP", "True-Client-IP", "Fly-Client-IP")
# The rate limit keys (client.bucket_key) of 127.0.0.1 and ::1.
_LOOPBACK_KEYS = frozenset((bytes((127, 0, 0, 1)), bytes(8)))
# A host name has at most 253 characters (RFC 1035).
_MAX_HOST = 300


def is_loopback(host: str) -> bool:
    """Return whether a host is localhost or a loopback address, without port and brackets."""
    if host == "localhost":
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def host_name(host: str) -> str:
    """Return a Host header's name or address in lower case, without port and brackets."""
    return re.sub(r":[0-9]*$", "", host).strip("[]").lower()


@lru_cache(256)
def _is_elsewhere(host: str) -> bool:
    """Return whether a host, with or without a port, names something else than this machine's loopback."""
    name = host_name(host)
    is_local = is_loopback(name) or name in ("", "0.0.0.0", "::") or name.endswith(".localhost")
    return not is_local


class Client(NamedTuple):
    """A client by its address. `key` is its rate limit key; `untrusted_proxy` is the private network of its peer where
    that sent a forwarded header and is not trusted."""

    address: Address
    key: bytes
    place: Place
    untrusted_proxy: Network | None


class Sender(NamedTuple):
    """The sender of one request; `page` is None where it is no web request."""

    client: Client
    page: PageOrigin | None
    user_agent: str
    accept_language: str
    client_hints: tuple[str, str, str] = ("", "", "")


class ClientResolver:
    """Finds the client of each request. Used by the event loop alone."""

    def __init__(self, clock: Clock, places: PlaceDatabase, trusted: tuple[Network, ...], header: str) -> None:
        self._clock, self._places, self._trusted, self.header = clock, places, trusted, header
        self.header_key = header.lower()
        self._warned_ns = -_WARN_NS
        # Kinds of peers since the start: "trusted", "alone" (trusted, without the header), "bare" (alone, and HTTP/1.0,
        # as from an nginx that has only a proxy_pass), "hidden_proxy" (see `has_hidden_proxy`), "direct".
        self.seen: set[str] = set()
        # Networks that sent the header and are not trusted, and names of other headers that arrived without it.
        self.networks: set[str] = set()
        self.others: set[str] = set()
        # Whether a proxy on this machine has passed on a browser's request without the forwarded header.
        self.has_hidden_proxy = False
        # Origins identify pages, not people. A Referer may contain more, so it is not cached.
        self._page_of = lru_cache(_CACHED_ORIGINS)(lambda origin: page_origin_of(origin, None, None))
        self._cached_client = lru_cache(_CACHED_CLIENTS)(self._client)

    def load(self) -> None:
        """Open the database of places, if it is not open yet. Any thread may call this. Raises CountryDataError."""
        if isinstance(self._places, DeferredPlaces):
            self._places.load()

    def sender(
        self, peer: str | None, headers: Mapping[str, str], forwarded: Sequence[str], *, is_http_1_1: bool = True
    ) -> Sender:
        """Return the sender of a request. `headers` ignores case; `forwarded` are the forwarded header's lines."""
        self.record_headers(headers)
        if not is_http_1_1 and not forwarded and is_proxy(peer, self._trusted):
            self.seen.add("bare")
        client = self.client(peer, *forwarded)
        user_agent, language = headers.get("User-Agent", ""), headers.get("Accept-Language", "")
        return Sender(client, page_origin(headers), user_agent, language, hint_headers(headers.get))

    def record_headers(self, headers: Mapping[str, str]) -> None:
        """Record which forwarded headers arrived without the configured one; `headers` ignores case."""
        if self.header not in headers:
            self.others.update(name for name in _FORWARDED if name in headers)

    def check_request(self, peer: str | None, headers: Mapping[str, str]) -> None:
        """Check a request for a proxy that adds no header; all requests but those of the fast path."""
        if not self.has_hidden_proxy and self.header not in headers and is_loopback(peer or ""):
            page = self.page(headers.get("Origin"), headers.get("Referer"), None)
            self._check_names(page, headers.get("Host"))

    def check_event(self, client: Client, page: PageOrigin | None, host: str | None) -> None:
        """The same for an event of the fast path that arrived without the forwarded header."""
        if not self.has_hidden_proxy and client.key in _LOOPBACK_KEYS:
            self._check_names(page, host)

    def _check_names(self, page: PageOrigin | None, host: str | None) -> None:
        for name in (host, page and page.host):
            if name and (len(name) > _MAX_HOST or _is_elsewhere(name)):
                self.has_hidden_proxy = True
                self.seen.add("hidden_proxy")

    def report(self) -> dict[str, Any]:
        """Return what `doctor` reports about proxies, as JSON values."""
        trusted, networks = [str(network) for network in self._trusted], sorted(self.networks)
        others, seen = sorted(self.others), sorted(self.seen)
        return {"header": self.header, "trusted": trusted, "networks": networks, "others": others, "seen": seen}

    def client(self, peer: str | None, *forwarded: str) -> Client:
        """Return the client; the forwarded header's lines are used where the peer is a trusted proxy."""
        find = self._cached_client if sum(map(len, forwarded)) <= _MAX_CACHED_CHARACTERS else self._client
        client = find(peer, *forwarded)
        if client.untrusted_proxy is not None:
            self._warn_of_proxy(client.untrusted_proxy)
        return client

    def _client(self, peer: str | None, *forwarded: str) -> Client:
        address = client_address(peer, forwarded, self._trusted, self.header)
        is_trusted = is_proxy(peer, self._trusted)
        self.seen.add(("trusted" if forwarded else "alone") if is_trusted else "direct")
        proxy = None
        # A header that names another address, from a private network that is not trusted: most likely a proxy.
        if forwarded and forwarded[0].partition(",")[0].strip() != str(address) and not address.is_loopback:
            proxy = next((network for network in PRIVATE_NETWORKS if address in network), None)
        if proxy is not None:
            self.networks.add(str(proxy))
        return Client(address, bucket_key(address), self._places.of(address), proxy)

    def visitor(self, sender: Sender, address: str, user_agent: str) -> Sender:
        """Return the sender for a visitor whom a server names by address and User-Agent; "" and what is no address are
        the server's own. Rate limits remain the server's."""
        client, plain = sender.client, plain_address(address.strip())
        if plain is not None and plain != client.address:
            client = Client(plain, client.key, self._places.of(plain), None)
        if not user_agent:
            return sender._replace(client=client)
        return sender._replace(client=client, user_agent=user_agent, client_hints=("", "", ""))

    def page(self, origin: str | None, referer: str | None, fetch_site: str | None) -> PageOrigin | None:
        """Return the page of a web request, by its three headers."""
        return self._page_of(origin) if origin is not None else page_origin_of(None, referer, fetch_site)

    def _warn_of_proxy(self, network: Network) -> None:
        if self._clock.monotonic_ns() - self._warned_ns < _WARN_NS:
            return
        self._warned_ns = self._clock.monotonic_ns()
        advice = "so all who come through it count as one client: if that is your proxy, add --trusted-proxy"
        log.warning("%s came from an address in %s that is not trusted, %s %s", self.header, network, advice, network)
