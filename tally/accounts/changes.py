"""Changes of accounts, websites and sessions that take several statements, as functions for one transaction.

The API hands them to the registry (tally/storage/registry.py, `change`), which runs each on the writer in a transaction
of its own: all of its statements are committed, or none. What a function checks before it writes is therefore still
true when it commits.
"""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from tally.accounts import logins, people, websites
from tally.accounts.accounts import (
    FIRST_ACCOUNT,
    Account,
    AccountError,
    all_people,
    create_account,
    password_hash_of,
    set_email,
    set_password_hash,
    with_address,
)
from tally.accounts.audit import Actor, Entry, record
from tally.accounts.logins import Login
from tally.accounts.share_links import change_share_link, create_share_link
from tally.accounts.websites import WebsiteSettings, check_domain_unused, set_exclusions, update_website, website_exists
from tally.events.website import Website

T = TypeVar("T")


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
    """Set the first password; return the person's number, None where a person has a password already."""
    persons = all_people(connection)
    if any(person.has_password for person in persons.values()):
        return None
    if not persons:
        create_account(connection, email, "business", password_hash, now_ms)
        return next(iter(all_people(connection)))
    # The email address of a person means that person.
    person = with_address(persons.values(), email) or next(iter(persons.values()))
    if person.email == FIRST_ACCOUNT:
        set_email(connection, person.number, email)
    set_password_hash(connection, person.number, password_hash)
    return person.number


def no_change(connection: sqlite3.Connection) -> None:
    """Change nothing, for a line of the audit log about work that follows."""


def remove_member(
    connection: sqlite3.Connection, account: int, person: int, by: Actor, entry: Entry, now_ms: int
) -> None:
    """End a membership, with a line of the audit log. Raises as people.remove_member."""
    people.remove_member(connection, account, person, by.person)
    record(connection, by, entry, now_ms)
    # After the line, which may be of this person.
    people.delete_if_alone(connection, person)


def accept_invitation(
    connection: sqlite3.Connection,
    invitation: people.Invitation,
    digest: bytes,
    person: int | None,
    password_hash: str | None,
    now_ms: int,
) -> int:
    """Make a person a member, with a line of the audit log; return the person's number.

    Raises as people.accept_invitation.
    """
    person = people.accept_invitation(connection, digest, person, password_hash, now_ms)
    people.record_joined(connection, invitation, person, "session", now_ms)
    return person


def change_password(connection: sqlite3.Connection, person: int, stored: str, password_hash: str) -> None:
    """Set another password and end all sessions. Raises PasswordChanged unless `stored` is still its hash."""
    check_password_hash(connection, person, stored)
    set_password_hash(connection, person, password_hash)
    logins.delete_of_person(connection, person)


def with_password(step: Callable[[Any], T], person: int, password_hash: str) -> Callable[[sqlite3.Connection], T]:
    """Return a function that does what `step` does; it raises as `check_password_hash`."""

    def both(connection: sqlite3.Connection) -> T:
        check_password_hash(connection, person, password_hash)
        return step(connection)

    return both


def check_password_hash(connection: sqlite3.Connection, person: int, password_hash: str) -> None:
    """Raise PasswordChanged unless the hash of the person's password is still this one."""
    if password_hash_of(connection, person) != password_hash:
        raise PasswordChanged("The password has been changed meanwhile.")


def begin_session(connection: sqlite3.Connection, check: Callable[[sqlite3.Connection], T], new: NewSession) -> T:
    """Store a session and a device; return what `check` returns.

    `check` raises where what was shown for the session does not hold any more.
    """
    checked = check(connection)
    logins.delete(connection, list(new.ended))
    logins.store(connection, new.digest, new.login)
    logins.delete_devices(connection, list(new.ended_devices))
    logins.store_device(connection, new.device_digest, new.device)
    return checked


def add_website(
    connection: sqlite3.Connection,
    owner: Account,
    domain: str,
    name: str,
    origins: Sequence[str],
    now_ms: int,
    *,
    again: bool,
    time_zone: str | None = None,
) -> str:
    """Add a website and return its id. Raises AccountFull, and DomainTaken where the account has the domain, unless
    `again`."""
    websites.check_website_count(connection, owner.number)
    if not again:
        check_domain_unused(connection, owner.number, domain)
    return websites.add_website(connection, owner, domain, name, origins, now_ms, time_zone=time_zone)


def change_website(
    connection: sqlite3.Connection,
    website: Website,
    name: str,
    domain: str,
    origins: Sequence[str],
    settings: WebsiteSettings,
    now_ms: int,
    *,
    again: bool,
) -> None:
    """Set a website's name, domain, list of allowed origins and settings. Raises WebsiteDeleted.

    Raises DomainTaken where the domain is new and another website of the account has it, unless `again`.
    """
    check_exists(connection, website.number)
    if domain != website.domain and not again:
        check_domain_unused(connection, website.account, domain)
    update_website(connection, website.number, name, domain, origins)
    websites.update_settings(connection, website.number, settings, now_ms)


def change_exclusions(
    connection: sqlite3.Connection,
    number: int,
    lists: Mapping[str, Mapping[str, str | None]],
    switches: Mapping[str, bool],
    person: int | None,
) -> None:
    """Change a website's exclusions, as `websites.set_exclusions`. Raises WebsiteDeleted."""
    check_exists(connection, number)
    set_exclusions(connection, number, lists, switches, person)


def add_share_link(
    connection: sqlite3.Connection, number: int, id: str, token: str, changed: Mapping[str, Any], now_ms: int
) -> None:
    """Add a share link with the name and the options of `changed`. Raises WebsiteDeleted, AccountFull."""
    check_exists(connection, number)
    create_share_link(connection, number, id, token, now_ms)
    change_share_link(connection, number, id, changed)


def check_exists(connection: sqlite3.Connection, number: int) -> None:
    """Raise WebsiteDeleted where there is no website of that number any more."""
    if not website_exists(connection, number):
        raise WebsiteDeleted("The website has been deleted.")
