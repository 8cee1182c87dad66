"""In-memory copy of accounts, websites, API keys, share links, sessions and this month's usage.

It is read in one snapshot: when the server starts, after its own changes, and when another process has written, which
`PRAGMA data_version` shows. An AccountCache is replaced, not modified, except for `usage`, to which the writer adds
with every commit.
"""

import sqlite3
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from tally.accounts import logins
from tally.accounts.accounts import Account, Person, all_accounts, all_people
from tally.accounts.api_keys import ApiKey, all_api_keys
from tally.accounts.definitions import Definition, all_definitions
from tally.accounts.logins import Login
from tally.accounts.people import all_memberships
from tally.accounts.roles import Membership, may
from tally.accounts.share_links import ShareLink, all_share_links
from tally.accounts.usage import usage_of_month
from tally.accounts.websites import all_websites
from tally.events.website import Website
from tally.storage import meta


class AccountCache(NamedTuple):
    """Websites by id, API keys by digest, usage by (account, month), accounts and people by number, memberships by
    (account, person), oldest first, share links by token, sessions and device cookies by digest; definitions by website
    number; the end of a demo's traffic (tally/demo/build.py), None for other files; websites by domain, the oldest of
    several."""

    websites: dict[str, Website]
    keys: dict[bytes, ApiKey]
    usage: dict[tuple[int, int], int]
    accounts: dict[int, Account]
    people: dict[int, Person]
    members: dict[tuple[int, int], Membership]
    shares: dict[str, ShareLink]
    logins: dict[bytes, Login]
    devices: dict[bytes, Login]
    definitions: dict[int, tuple[Definition, ...]]
    demo_until: str | None = None
    domains: Mapping[str, Website] = MappingProxyType({})

    def websites_of(self, account: int) -> list[Website]:
        """Return the websites of an account, oldest first."""
        return [website for website in self.websites.values() if website.account == account]

    def memberships_of(self, person: int) -> list[Membership]:
        """Return the memberships of a person, oldest first."""
        return [member for member in self.members.values() if member.person == person]

    def websites_for(self, memberships: Iterable[Membership]) -> list[Website]:
        """Return the websites that a person of these memberships may see, oldest first."""
        members = {member.account: member for member in memberships}
        return [
            website for website in self.websites.values() if may(members.get(website.account), "read", website.number)
        ]

    def time_zone_of(self, account: int) -> str | None:
        """Return the time zone of an account's first owner."""
        owners = [
            member.person for member in self.members.values() if member.account == account and member.role == "owner"
        ]
        return self.people[owners[0]].time_zone

    def keys_of(self, account: int) -> list[ApiKey]:
        """Return the API keys of an account, oldest first."""
        return [key for key in self.keys.values() if key.account == account]


def registry(connection: sqlite3.Connection, month: int) -> AccountCache:
    """Read everything from the database."""
    websites = {website.id: website for website in all_websites(connection)}
    accounts, people, members = all_accounts(connection), all_people(connection), all_memberships(connection)
    shares = all_share_links(connection)
    keys, usage = all_api_keys(connection), usage_of_month(connection, month)
    devices = logins.stored_devices(connection)
    definitions, demo_until = all_definitions(connection), meta.demo_until(connection)
    domains: dict[str, Website] = {}
    for website in websites.values():
        domains.setdefault(website.domain, website)
    return AccountCache(
        websites,
        keys,
        usage,
        accounts,
        people,
        members,
        shares,
        logins.stored(connection),
        devices,
        definitions,
        demo_until,
        domains,
    )


def registry_if_changed(connection: sqlite3.Connection, known: int, month: int) -> tuple[int, AccountCache | None]:
    """Return the file's data version, and the new contents if it differs from `known`."""
    version = int(connection.execute("pragma data_version").fetchone()[0])
    return version, None if version == known else registry(connection, month)
