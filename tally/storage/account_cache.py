"""In-memory copy of accounts, websites, API keys, share links, sessions and this month's usage.

It is read in one snapshot: when the server starts, after its own changes, and when another process has written, which
`PRAGMA data_version` shows. An AccountCache is replaced, not modified, except for `usage`, to which the writer adds
with every commit.
"""

import sqlite3
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from tally.accounts import logins
from tally.accounts.accounts import Owner, all_owners
from tally.accounts.api_keys import ApiKey, all_api_keys
from tally.accounts.definitions import Definition, all_definitions
from tally.accounts.logins import Login
from tally.accounts.share_links import ShareLink, all_share_links
from tally.accounts.usage import usage_of_month
from tally.accounts.websites import all_websites
from tally.events.website import Website
from tally.storage import meta


class AccountCache(NamedTuple):
    """Websites by id, API keys by digest, usage by (account, month), accounts by number, share links by token,
    sessions and device cookies by digest; definitions by website number; the end of a demo's traffic
    (tally/demo/build.py), None for other files; websites by domain, the oldest of several."""

    websites: dict[str, Website]
    keys: dict[bytes, ApiKey]
    usage: dict[tuple[int, int], int]
    owners: dict[int, Owner]
    shares: dict[str, ShareLink]
    logins: dict[bytes, Login]
    devices: dict[bytes, Login]
    definitions: dict[int, tuple[Definition, ...]]
    demo_until: str | None = None
    domains: Mapping[str, Website] = MappingProxyType({})

    def websites_of(self, account: int) -> list[Website]:
        """Return the websites of an account, oldest first."""
        return [website for website in self.websites.values() if website.account == account]

    def keys_of(self, account: int) -> list[ApiKey]:
        """Return the API keys of an account, oldest first."""
        return [key for key in self.keys.values() if key.account == account]


def registry(connection: sqlite3.Connection, month: int) -> AccountCache:
    """Read everything from the database."""
    websites = {website.id: website for website in all_websites(connection)}
    owners, shares = all_owners(connection), all_share_links(connection)
    keys, usage = all_api_keys(connection), usage_of_month(connection, month)
    devices = logins.stored_devices(connection)
    definitions, demo_until = all_definitions(connection), meta.demo_until(connection)
    domains: dict[str, Website] = {}
    for website in websites.values():
        domains.setdefault(website.domain, website)
    return AccountCache(
        websites, keys, usage, owners, shares, logins.stored(connection), devices, definitions, demo_until, domains
    )


def registry_if_changed(connection: sqlite3.Connection, known: int, month: int) -> tuple[int, AccountCache | None]:
    """Return the file's data version, and the new contents if it differs from `known`."""
    version = int(connection.execute("pragma data_version").fetchone()[0])
    return version, None if version == known else registry(connection, month)
