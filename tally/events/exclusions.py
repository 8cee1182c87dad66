"""Exclusions of a website: the events that its owner does not want to count, by address, country, page, host and
referrer.

Each list is configuration. Nothing of a request is stored to apply it: addresses of clients are compared in memory.

- `addresses`: IP addresses and networks of clients.
- `countries`: codes of ISO 3166-1, as in the dimension `country`; with `only_countries`, the only ones that count.
- `pages`: patterns of `pathname`, in which `*` stands for any characters.
- `hostnames`: where there are any, the only hosts whose pages count. `*.example.com` stands for all subdomains. Events
  without a URL have no host and count.
- `referrers`: hosts of referrers, with their subdomains, besides those of the list of referrer spam
  (tally/events/referrer_spam.py), which a website may switch off.
- `not_spam`: hosts of that list that count, with their subdomains.

The texts are checked where they are entered (tally/api/exclusions.py); what is stored is in its shortest form.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_network
from typing import NamedTuple

from tally.events import referrer_spam

KINDS = ("addresses", "countries", "pages", "hostnames", "referrers", "not_spam")
"""The lists, by their names in the API and in the database, in the order in which they are compared."""
ADDRESSES, COUNTRIES, PAGES, HOSTNAMES, REFERRERS, NOT_SPAM = KINDS


class Note(NamedTuple):
    """What is stored with a value of a list: a note, and the number of the person who added it; None: an API key."""

    text: str
    added_by: int | None


class Exclusions:
    """The lists of one website, prepared for comparing. An event takes 1 to 50 µs, the latter with 100 pages.

    `counts_listed`: whether events from the hosts of the list of referrer spam count.
    `excludes_datacenters`: whether web events from the networks of --datacenter-ranges do not.
    `only_countries`: whether the listed countries are the only ones that count. Where there are none, all do, and an
    event whose country is unknown counts always. An event that a server sends has the country of the server's address.
    `notes`: by list and value.
    """

    def __init__(
        self,
        lists: Mapping[str, Sequence[str]],
        *,
        counts_listed: bool = False,
        excludes_datacenters: bool = False,
        only_countries: bool = False,
        notes: Mapping[tuple[str, str], Note] | None = None,
    ) -> None:
        self.lists = {kind: list(lists.get(kind, ())) for kind in KINDS}
        self.notes = notes or {}
        # Networks of equal length are one search: (version, bits of the host) -> the numbers of networks.
        networks: dict[tuple[int, int], set[int]] = defaultdict(set)
        for network in map(ip_network, self.lists[ADDRESSES]):
            host_bits = network.max_prefixlen - network.prefixlen
            networks[network.version, host_bits].add(int(network.network_address) >> host_bits)
        self._networks = list(networks.items())
        self._countries = frozenset(self.lists[COUNTRIES])
        self._pages = [page.split("*") for page in self.lists[PAGES]]
        self._hostnames = [hostname.split("*") for hostname in self.lists[HOSTNAMES]]
        self._referrers, self._not_spam = frozenset(self.lists[REFERRERS]), frozenset(self.lists[NOT_SPAM])
        self.counts_listed, self.excludes_datacenters = counts_listed, excludes_datacenters
        self.only_countries = only_countries

    def is_spam(self, referrer: str) -> bool:
        """Return whether the host of a referrer excludes an event."""
        if self._referrers and referrer_spam.covers(self._referrers, referrer):
            return True
        is_listed = not self.counts_listed and referrer_spam.is_listed(referrer)
        return is_listed and not referrer_spam.covers(self._not_spam, referrer)

    def excluding(self, address: IPv4Address | IPv6Address, country: str, pathname: str, hostname: str) -> str:
        """Return the first of KINDS, without those of referrers, that excludes an event, "" where none does.

        Unset texts are "".
        """
        if any(self._has(address, *of) for of in self._networks):
            return ADDRESSES
        if country and self._countries and (country in self._countries) is not self.only_countries:
            return COUNTRIES
        if any(consists_of(parts, pathname) for parts in self._pages):
            return PAGES
        if hostname and self._hostnames and not any(consists_of(parts, hostname) for parts in self._hostnames):
            return HOSTNAMES
        return ""

    @staticmethod
    def _has(address: IPv4Address | IPv6Address, of: tuple[int, int], networks: set[int]) -> bool:
        version, host_bits = of
        return address.version == version and int(address) >> host_bits in networks


DEFAULT = Exclusions({})
"""Of a website that has none of its own."""


def consists_of(parts: Sequence[str], text: str) -> bool:
    """Return whether a text consists of the parts, in their order, with any characters between two of them.

    Not a regular expression: with several `*` its time grows with a power of the text's length.
    """
    first, last = parts[0], parts[-1]
    if len(parts) == 1:
        return text == first
    place, end = len(first), len(text) - len(last)
    if place > end or not text.startswith(first) or not text.endswith(last):
        return False
    for part in parts[1:-1]:
        found = text.find(part, place, end)
        if found < 0:
            return False
        place = found + len(part)
    return True
