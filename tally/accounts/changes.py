"""Changes of accounts, websites and sessions that take several statements, as functions for one transaction.

The API hands them to the registry (tally/storage/registry.py, `change`), which runs each on the writer in a transaction
of its own: all of its statements are committed, or none. What a function checks before it writes is therefore still
true when it commits.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tally.accounts import logins, websites
from tally.accounts.accounts import (
    FIRST_ACCOUNT,
    Account,
    AccountError,
    all_owners,
    create_account,
    password_hash_of,
    set_email,
    set_password_hash,
)
from tally.accounts.api_keys import delete_api_keys
from tally.accounts.logins import Login
from tally.accounts.share_links import create_share_link, revoke_share_links
from tally.accounts.websites import WebsiteSettings, check_domain_unused, set_exclusions, update_website, website_exists
from tally.events.website import Website


class PasswordChanged(AccountError):
    """The password that was checked is no longer the account's."""


class WebsiteDeleted(AccountError):
    """The website has been deleted since it was looked up."""


class NewSession(NamedTuple):
    """A session and a device cookie of one browser, and the digests of those that end with it."""

    digest: bytes
    login: Login
    device_digest: bytes
    device: Login
    ended: Sequence[bytes]
    ended_devices: Sequence[bytes]


def set_up(connection: sqlite3.Connection, email: str, password_hash: str, now_ms: int) -> int | None:
    """Set the first password; return the account's number, None where an account has a password already."""
    owners = all_owners(connection)
    if any(owner.has_password for owner in owners.values()):
        return None
    if not owners:
        return create_account(connection, email, "business", password_hash, now_ms).number
    # The email address of an existing account means that account.
    owner = next((one for one in owners.values() if one.email.lower() == email.lower()), next(iter(owners.values())))
    if owner.email == FIRST_ACCOUNT:
        set_email(connection, owner.number, email)
    set_password_hash(connection, owner.number, password_hash)
    return owner.number


def change_password(
    connection: sqlite3.Connection,
    account: int,
    stored: str,
    password_hash: str,
    *,
    revokes_keys: bool,
    revokes_links: bool,
) -> None:
    """Set another password and end all sessions. Raises PasswordChanged unless `stored` is still the password's hash.

    `revokes_keys`, `revokes_links`: also revoke the account's API keys and share links.
    """
    if password_hash_of(connection, account) != stored:
        raise PasswordChanged("The password has been changed meanwhile.")
    set_password_hash(connection, account, password_hash)
    logins.delete_account(connection, account)
    if revokes_keys:
        delete_api_keys(connection, account)
    if revokes_links:
        revoke_share_links(connection, account)


def begin_session(connection: sqlite3.Connection, account: int, password_hash: str, new: NewSession) -> None:
    """Store a session and a device. Raises PasswordChanged unless the password's hash is still this one."""
    if password_hash_of(connection, account) != password_hash:
        raise PasswordChanged("The password has been changed meanwhile.")
    logins.delete(connection, list(new.ended))
    logins.store(connection, new.digest, new.login)
    logins.delete_devices(connection, list(new.ended_devices))
    logins.store_device(connection, new.device_digest, new.device)


def add_website(
    connection: sqlite3.Connection,
    owner: Account,
    domain: str,
    name: str,
    origins: Sequence[str],
    now_ms: int,
    *,
    again: bool,
) -> str:
    """Add a website and return its id. Raises AccountFull, and DomainTaken where the account has the domain, unless
    `again`."""
    websites.check_website_count(connection, owner.number)
    if not again:
        check_domain_unused(connection, owner.number, domain)
    return websites.add_website(connection, owner, domain, name, origins, now_ms)


def change_website(
    connection: sqlite3.Connection,
    website: Website,
    name: str,
    domain: str,
    origins: Sequence[str],
    settings: WebsiteSettings,
    *,
    again: bool,
) -> None:
    """Set a website's name, domain, list of allowed origins and settings. Raises WebsiteDeleted.

    Raises DomainTaken where the domain is new and another website of the account has it, unless `again`.
    """
    _check_exists(connection, website.number)
    if domain != website.domain and not again:
        check_domain_unused(connection, website.account, domain)
    update_website(connection, website.number, name, domain, origins)
    websites.update_settings(connection, website.number, settings)


def change_exclusions(connection: sqlite3.Connection, number: int, lists: Mapping[str, Sequence[str]]) -> None:
    """Replace the given lists of a website's exclusions. Raises WebsiteDeleted."""
    _check_exists(connection, number)
    set_exclusions(connection, number, lists)


def share_website(connection: sqlite3.Connection, number: int, token: str, now_ms: int) -> None:
    """Set a website's share link, in place of an older one. Raises WebsiteDeleted."""
    _check_exists(connection, number)
    create_share_link(connection, number, token, now_ms)


def _check_exists(connection: sqlite3.Connection, number: int) -> None:
    if not website_exists(connection, number):
        raise WebsiteDeleted("The website has been deleted.")
