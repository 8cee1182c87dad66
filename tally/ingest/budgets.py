"""Optional bounds on the events of one client: an hourly budget and a share of a limited plan's month.

Both are off by default: the limits that always hold are on requests (tally/rate_limit.py). A client is an IPv4 address
or an IPv6 /64, as there. Everything is in memory, so a restart resets it; a client is kept for a month as a hash keyed
with a number that lives as long as the process, never as an address.

The hourly budget is a token bucket of events: full at the start, refilled evenly. The share counts the events of a
client that were stored for an account in a calendar month (UTC), and those of its requests that are not answered yet:
duplicates and rejected events are given back. Memory is bounded: at MAX_CLIENTS the half that sent the least is
dropped, so that a flood of new clients does not hide the one that has used much.
"""

import secrets
from hashlib import blake2b
from statistics import median_low

from tally.rate_limit import Buckets

HOUR_NS = 3_600_000_000_000
# 65,536 counts of about 120 bytes are 8 MB.
MAX_CLIENTS = 65_536


class Budgets:
    """The budgets of all clients; 0 switches one off. For the event loop alone."""

    def __init__(self, events_per_hour: int = 0, month_share: int = 0, max_clients: int = MAX_CLIENTS) -> None:
        self._hourly = Buckets(events_per_hour, span_ns=HOUR_NS) if events_per_hour else None
        self.month_share = month_share
        self._max_clients = max_clients
        self._key = secrets.token_bytes(16)
        self._month = 0
        self._used: dict[bytes, int] = {}

    def wait_s(self, client: bytes, events: int, now_ns: int) -> int:
        """0 where the client may send so many events now, else the whole seconds after which it may."""
        return 0 if self._hourly is None else self._hourly.wait_for_s(client, events, now_ns)

    def has_used_share(self, client: bytes, account: int, limit: int | None, month: int) -> bool:
        """Whether the client has used its share of an account's month, of which `limit` events are in the plan."""
        if not self.month_share or limit is None:
            return False
        used = self._used.get(self._digest(client, account), 0) if month == self._month else 0
        return used * 100 >= self.month_share * limit

    def take(self, client: bytes, events: int, now_ns: int) -> None:
        """Take events from the hourly budget."""
        if self._hourly is not None:
            self._hourly.take(client, now_ns, events)

    def give_back(self, client: bytes, events: int, now_ns: int) -> None:
        """Give events back to the hourly budget: nothing of their request was stored."""
        if self._hourly is not None:
            self._hourly.give_back(client, now_ns, events)

    def take_share(self, client: bytes, account: int, events: int, month: int) -> None:
        """Count events towards the client's share of an account's month, before they are stored."""
        if month != self._month:
            self._used, self._month = {}, month
        digest = self._digest(client, account)
        self._used[digest] = self._used.get(digest, 0) + events
        if len(self._used) > self._max_clients:
            least = median_low(self._used.values())
            self._used = {key: used for key, used in self._used.items() if used > least}

    def give_back_share(self, client: bytes, account: int, events: int, month: int) -> None:
        """Undo `take_share` for events that were not stored. Does nothing if the count was dropped in between."""
        digest = self._digest(client, account)
        if month != self._month or digest not in self._used:
            return
        self._used[digest] -= events
        if self._used[digest] <= 0:
            del self._used[digest]

    def _digest(self, client: bytes, account: int) -> bytes:
        return blake2b(client + account.to_bytes(8), digest_size=8, key=self._key).digest()
