"""Who sends a request to collect: the client by its address, the page it comes from, its browser and language.

A client is found by the socket's peer or, where that is a trusted proxy, by the forwarded header
(tally/events/client.py says how). What was found of an address is remembered for a while, in memory, as are the origins
of pages: both return within minutes. Only what is as short as addresses are is kept, since a header may be 16 KB.

What `doctor` is to say of proxies is kept in a few words: which headers came, and from what kind of peer. A proxy on
this machine that adds no header is detected by the requests of browsers: a loopback peer, no forwarded header, and an
Origin, Referer or Host of another machine. Its requests look like local ones, so /metrics then requires a token.

A forwarded header from a private network that is not trusted is most likely a proxy nobody told us of, which makes one
client of all its visitors: that is logged once a minute with the option to set. Neither the address nor what the header
says is.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from ipaddress import ip_address
from typing import Any, NamedTuple

from aiohttp import HttpVersion11, web

from tally.clock import Clock
from tally.errors import log
from tally.events.client import (
    PRIVATE_NETWORKS,
    Address,
    Asker,
    Network,
    asker,
    bucket_key,
    client_address,
    is_proxy,
    page_of,
)
from tally.events.geoip import Countries

_WARN_NS = 60_000_000_000
# our choice: more origins than the websites of one server have; 5 MB if all are as long as a header may be.
_ORIGINS = 256
# our choice: a visitor sends a few events within minutes; 2 MB, in memory only, as the token buckets are.
_CALLERS = 4_096
_MOST_REMEMBERED = 128
# The names that proxies and their hosts use; whichever is not the one we read tells of a proxy all the same.
_FORWARDED = ("X-Forwarded-For", "Forwarded", "X-Real-IP", "CF-Connecting-IP", "True-Client-IP", "Fly-Client-IP")


# Keys of buckets (tally/origin.py) of 127.0.0.1 and ::1.
_LOOPBACK_CLIENTS = frozenset((bytes((127, 0, 0, 1)), bytes(8)))
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


class Caller(NamedTuple):
    """A client by its address: the key of its bucket, its country, and the private network of a proxy not believed."""

    address: Address
    client: bytes
    country: str
    proxy: Network | None


class Sender(NamedTuple):
    """Who sends a request, for as long as it is answered."""

    caller: Caller
    page: Asker | None
    user_agent: str
    accept_language: str


class Callers:
    """Finds out who sends. Used by the event loop alone."""

    def __init__(self, clock: Clock, countries: Countries, trusted: tuple[Network, ...], header: str) -> None:
        self._clock, self._countries, self._trusted, self.header = clock, countries, trusted, header
        self.header_key = header.lower()
        self._warned_ns = -_WARN_NS
        # Since the start: "trusted", "alone" (a trusted peer without the header), "bare" (alone, and as HTTP/1.0, as
        # from an nginx that only has a proxy_pass), "hidden_proxy" (`has_hidden_proxy`), "direct"; networks that
        # are not trusted and sent it, and names of other headers that came instead of it.
        self.seen: set[str] = set()
        self.networks: set[str] = set()
        self.others: set[str] = set()
        # Whether a proxy on this machine has passed on a browser's request without the forwarded header.
        self.has_hidden_proxy = False
        # Origins name pages, not people; Referers may hold more than that and are read anew each time.
        self._page_of = lru_cache(_ORIGINS)(lambda origin: page_of(origin, None, None))
        self._caller_of = lru_cache(_CALLERS)(self._caller)

    def sender(self, request: web.Request) -> Sender:
        """Who sends this request, by the headers that may be believed."""
        headers = request.headers
        self.look_at(headers)
        if request.version != HttpVersion11 and self.header not in headers and is_proxy(request.remote, self._trusted):
            self.seen.add("bare")
        caller = self.caller(request.remote, *headers.getall(self.header, ()))
        return Sender(caller, asker(headers), headers.get("User-Agent", ""), headers.get("Accept-Language", ""))

    def look_at(self, headers: Mapping[str, str]) -> None:
        """Notes which forwarded headers came where the one that is read did not; `headers` ignores case."""
        if self.header not in headers:
            self.others.update(name for name in _FORWARDED if name in headers)

    def check_request(self, request: web.Request) -> None:
        """Check a request for a proxy that adds no header; all requests but those of the fast path."""
        headers = request.headers
        if not self.has_hidden_proxy and self.header not in headers and is_loopback(request.remote or ""):
            page = self.page(headers.get("Origin"), headers.get("Referer"), None)
            self._check_names(page, headers.get("Host"))

    def check_event(self, caller: Caller, page: Asker | None, host: str | None) -> None:
        """The same for an event of the fast path that came without the forwarded header."""
        if not self.has_hidden_proxy and caller.client in _LOOPBACK_CLIENTS:
            self._check_names(page, host)

    def _check_names(self, page: Asker | None, host: str | None) -> None:
        for name in (host, page and page.host):
            if name and (len(name) > _MAX_HOST or _is_elsewhere(name)):
                self.has_hidden_proxy = True
                self.seen.add("hidden_proxy")

    def noted(self) -> dict[str, Any]:
        """What `doctor` is to know of proxies."""
        trusted, networks = [str(network) for network in self._trusted], sorted(self.networks)
        others, seen = sorted(self.others), sorted(self.seen)
        return {"header": self.header, "trusted": trusted, "networks": networks, "others": others, "seen": seen}

    def caller(self, peer: str | None, *forwarded: str) -> Caller:
        """The client, by the forwarded header's lines where they may be believed."""
        look = self._caller_of if sum(map(len, forwarded)) <= _MOST_REMEMBERED else self._caller
        caller = look(peer, *forwarded)
        if caller.proxy is not None:
            self._warn_of_proxy(caller.proxy)
        return caller

    def _caller(self, peer: str | None, *forwarded: str) -> Caller:
        address = client_address(peer, forwarded, self._trusted, self.header)
        is_trusted = is_proxy(peer, self._trusted)
        self.seen.add(("trusted" if forwarded else "alone") if is_trusted else "direct")
        proxy = None
        # It says for whom it speaks and is not believed: from a private network, most likely a proxy.
        if forwarded and forwarded[0].partition(",")[0].strip() != str(address) and not address.is_loopback:
            proxy = next((network for network in PRIVATE_NETWORKS if address in network), None)
        if proxy is not None:
            self.networks.add(str(proxy))
        return Caller(address, bucket_key(address), self._countries.of(address), proxy)

    def page(self, origin: str | None, referer: str | None, fetch_site: str | None) -> Asker | None:
        """The page a web request comes from, by its three headers."""
        return self._page_of(origin) if origin is not None else page_of(None, referer, fetch_site)

    def _warn_of_proxy(self, network: Network) -> None:
        if self._clock.monotonic_ns() - self._warned_ns < _WARN_NS:
            return
        self._warned_ns = self._clock.monotonic_ns()
        advice = "so all who come through it count as one client: if that is your proxy, add --trusted-proxy"
        log.warning("%s came from an address in %s that is not trusted, %s %s", self.header, network, advice, network)
