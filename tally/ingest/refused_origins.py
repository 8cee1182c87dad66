"""Origins of pages whose events were refused a moment ago, per website: what the setup page offers to allow.

Kept in memory only, and only for a few minutes: anyone can send events from any origin. Bounds: MAX_WEBSITES websites,
the least recently seen are dropped first; MAX_ORIGINS origins of each. Of these the client with the most origins loses
one first, then origins that are not local, so that other clients do not displace the origin that the owner is testing.
An origin is kept only where it could be allowed as it stands (`exact_origin`), and where its host is a name or a
private address: a public address may be a person's.

Recording one is a few dictionary operations, on refused requests alone.
"""

from collections import Counter, OrderedDict
from ipaddress import ip_address
from typing import NamedTuple

from tally.events.client import PRIVATE_NETWORKS
from tally.events.urls import BadHost, exact_origin

# A page lists only a few: an owner tests from one or two.
MAX_ORIGINS = 5
# 5 origins of up to 300 bytes each: under 2 MB.
MAX_WEBSITES = 500
_MAX_CHARACTERS = 300
# Older ones are not what the owner is trying out now.
KEEP_MS = 600_000


class RefusedOrigin(NamedTuple):
    """An origin, how many of its events were refused since it was first kept, when the last one was and its client.

    `is_local`: localhost, a private address, or an app.
    """

    origin: str
    events: int
    last_ms: int
    client: bytes
    is_local: bool


class RefusedOrigins:
    """The newest refused origins of each website. Used by the event loop alone."""

    def __init__(self) -> None:
        self._of_website: OrderedDict[int, OrderedDict[str, RefusedOrigin]] = OrderedDict()

    def record(self, website: int, sent: str, client: bytes, now_ms: int) -> None:
        """Count one refused event of a client's page with this Origin."""
        allowable = _allowable(sent)
        if allowable is None:
            return
        origin, is_local = allowable
        kept = self._of_website.get(website)
        if kept is None:
            kept = self._of_website[website] = OrderedDict()
            if len(self._of_website) > MAX_WEBSITES:
                self._of_website.popitem(last=False)
        self._of_website.move_to_end(website)
        before = kept.get(origin)
        events = before.events + 1 if before and now_ms - before.last_ms < KEEP_MS else 1
        kept[origin] = RefusedOrigin(origin, events, now_ms, client, is_local)
        kept.move_to_end(origin)
        if len(kept) > MAX_ORIGINS:
            by_client = Counter(entry.client for entry in kept.values())
            # The first of several is the least recently seen.
            worst = max(kept.values(), key=lambda entry: (by_client[entry.client], not entry.is_local))
            del kept[worst.origin]

    def newest(self, website: int, now_ms: int) -> list[RefusedOrigin]:
        """Return a website's refused origins of the last ten minutes, the newest first."""
        kept = self._of_website.get(website)
        if kept is None:
            return []
        return [entry for entry in reversed(kept.values()) if now_ms - entry.last_ms < KEEP_MS]

    def delete(self, website: int, origins: frozenset[str]) -> None:
        """Drop origins that have been allowed."""
        kept = self._of_website.get(website)
        if kept is not None:
            for origin in origins:
                kept.pop(origin, None)


def _allowable(sent: str) -> tuple[str, bool] | None:
    """Return an origin as it could be allowed and whether it is local; None where it is not shown."""
    if not 0 < len(sent) <= _MAX_CHARACTERS:
        return None
    try:
        origin = exact_origin(sent)
    except BadHost:
        return None
    scheme, _, host = origin.partition("://")
    name = host[1 : host.index("]")] if host.startswith("[") else host.partition(":")[0]
    try:
        address = ip_address(name)
    except ValueError:
        is_local = scheme not in ("http", "https") or name == "localhost" or name.endswith(".localhost")
        return origin, is_local
    return (origin, True) if any(address in network for network in PRIVATE_NETWORKS) else None
