"""Identities at an OpenID provider: which person an issuer's subject is. The SQL of table identity.

The email address never signs anyone in. An identity is connected to a person in one of four ways: by an invitation's
link, by a person who is signed in, by a verified address that is invited or has no password, or as a new person.

Each function runs in a transaction of its caller.
"""

import sqlite3
from collections.abc import Callable
from typing import NamedTuple

from tally.accounts import audit, people
from tally.accounts.accounts import AccountError, password_hash_of
from tally.accounts.passkeys import passkeys_of
from tally.accounts.roles import LIMITED_ROLES, Role

_CONNECTED = audit.Entry("single_sign_on_connected")


class Refused(AccountError):
    """The identity signs nobody in; `problem` is the code of the page's sentence."""

    def __init__(self, problem: str, message: str) -> None:
        super().__init__(message)
        self.problem = problem


class PasswordNeeded(Refused):
    """The address is that of a person with a password, which is asked for once."""

    def __init__(self, person: int) -> None:
        super().__init__("password", "the address is that of a person with a password")
        self.person = person


class LastSignIn(AccountError):
    """The person would have no way to sign in."""


class Identity(NamedTuple):
    """A person at a provider."""

    issuer: str
    subject: str


class Arrival(NamedTuple):
    """Who has signed in at the provider. `email`: None where the provider sends none that is usable.

    `role`: by the groups, None where none matches; `follows_groups`: the role must be by them. `create`: the role of
    unknown people, None where they are refused. `has_passwords`: people may sign in by password.
    """

    identity: Identity
    email: str | None
    is_verified: bool
    role: Role | None
    follows_groups: bool
    create: Role | None
    has_passwords: bool


def person_of(connection: sqlite3.Connection, identity: Identity) -> int | None:
    """Return the person of an identity; None where it is not connected."""
    statement = "/* identities.person_of */ select person from identity where issuer = ? and subject = ?"
    row = connection.execute(statement, identity).fetchone()
    return None if row is None else int(row[0])


def is_connected(connection: sqlite3.Connection, person: int, issuer: str) -> bool:
    """Return whether a person has an identity at a provider. One of a former provider signs nobody in."""
    statement = "/* identities.is_connected */ select 1 from identity where person = ? and issuer = ?"
    return connection.execute(statement, (person, issuer)).fetchone() is not None


def check(connection: sqlite3.Connection, identity: Identity, person: int) -> None:
    """Raise Refused unless the identity is still the person's."""
    if person_of(connection, identity) != person:
        raise Refused("expired", "the identity was disconnected meanwhile")


def connect(connection: sqlite3.Connection, identity: Identity, person: int, now_ms: int) -> bool:
    """Connect an identity to a person; return whether it was not before. Raises Refused."""
    before = person_of(connection, identity)
    if before == person:
        return False
    if before is not None or is_connected(connection, person, identity.issuer):
        raise Refused("taken", "the identity is another person's, or the person has another identity")
    connection.execute(
        "/* identities.connect */ insert into identity (issuer, subject, person, created_ms) values (?, ?, ?, ?)",
        (*identity, person, now_ms),
    )
    return True


def connect_after(
    check: Callable[[sqlite3.Connection], object], identity: Identity, person: int, email: str, now_ms: int
) -> Callable[[sqlite3.Connection], None]:
    """Return a function that connects an identity once `check`, of a password, does not raise."""

    def both(connection: sqlite3.Connection) -> None:
        check(connection)
        if connect(connection, identity, person, now_ms):
            _record(connection, person, email, "session", now_ms)

    return both


def disconnect(
    connection: sqlite3.Connection, person: int, session: bytes, *, has_passwords: bool, has_passkeys: bool
) -> bool:
    """Remove a person's identities and end the sessions that it has begun, but for one; return whether there was one.

    Raises LastSignIn where no other way to sign in is left.
    """
    by_password = has_passwords and password_hash_of(connection, person) is not None
    if not by_password and not (has_passkeys and passkeys_of(connection, person)):
        raise LastSignIn("Without single sign-on you could not sign in.")
    done = connection.execute("/* identities.disconnect */ delete from identity where person = ?", (person,))
    connection.execute(
        "/* identities.end_sessions */ delete from login where person = ? and via = 'oidc' and digest <> ?",
        (person, session),
    )
    return done.rowcount > 0


def enter(connection: sqlite3.Connection, who: Arrival, invitation: bytes | None, now_ms: int) -> int:
    """Return the person who has signed in at the provider, connected or created now where that is allowed.

    `invitation`: the digest of the link that the person has opened. Raises Refused, PasswordNeeded, and TooManyPeople,
    UnknownInvitation of tally/accounts/people.py.
    """
    person = person_of(connection, who.identity)
    members = [] if person is None else people.memberships_of(connection, person)
    is_owner = any(member.role == "owner" for member in members)
    if who.follows_groups and who.role is None and not is_owner:
        raise Refused("no_group", "no group of the person has a role in --oidc-role")
    if invitation is not None:
        person = _invited(connection, who, person, invitation, now_ms)
    elif person is None:
        person = _first_entered(connection, who, now_ms)
    if who.role is not None:
        _follow_groups(connection, person, who.role, now_ms)
    return person


def _invited(connection: sqlite3.Connection, who: Arrival, person: int | None, digest: bytes, now_ms: int) -> int:
    """Accept an invitation, whatever address the provider sends: the link has proved the person."""
    invitation = people.find_invitation(connection, digest, now_ms)
    if person is not None and _email(connection, person).lower() != invitation.email.lower():
        raise Refused("other_person", "the identity is another person's than the invited one")
    if person is None and people.with_email(connection, invitation.email) is not None:
        # The link was made by a member of one account; the person may be a member of others.
        raise Refused("has_person", "the invited address has a person, who is not connected")
    person = people.accept_invitation(connection, digest, person, None, now_ms)
    people.record_joined(connection, invitation, person, "oidc", now_ms)
    _connect(connection, who.identity, person, invitation.email, now_ms)
    return person


def _first_entered(connection: sqlite3.Connection, who: Arrival, now_ms: int) -> int:
    """Connect an identity that is not known by its address, or create its person."""
    if who.email is None:
        raise Refused("no_email", "the provider sends no email address: add the scope email")
    person = people.with_email(connection, who.email)
    is_invited = person is None and bool(people.invitations_of(connection, who.email, now_ms))
    if (person is not None or is_invited) and not who.is_verified:
        raise Refused("unverified", "the provider does not vouch for the address: email_verified is not true")
    if person is not None:
        has_password = password_hash_of(connection, person) is not None
        # An address alone takes over neither a password nor a passkey.
        is_taken = not who.has_passwords if has_password else bool(passkeys_of(connection, person))
        if is_taken or is_connected(connection, person, who.identity.issuer):
            raise Refused("has_person", "the address has a person, who must connect single sign-on")
        if has_password:
            raise PasswordNeeded(person)
    else:
        person = people.join_by_address(connection, who.email, who.role or who.create, now_ms, "oidc")
    if person is None:
        raise Refused("not_invited", "the address has no person and no invitation, and --oidc-create is none")
    _connect(connection, who.identity, person, who.email, now_ms)
    return person


def _connect(connection: sqlite3.Connection, identity: Identity, person: int, email: str, now_ms: int) -> None:
    if connect(connection, identity, person, now_ms):
        _record(connection, person, email, "oidc", now_ms)


def _record(connection: sqlite3.Connection, person: int, email: str, via: audit.Via, now_ms: int) -> None:
    for member in people.memberships_of(connection, person):
        audit.record(connection, audit.Actor(member.account, email, via, person), _CONNECTED, now_ms)


def _follow_groups(connection: sqlite3.Connection, person: int, role: Role, now_ms: int) -> None:
    """Give a person the role of the groups in each account that the person does not own."""
    for member in people.memberships_of(connection, person):
        if member.role in ("owner", role):
            continue
        websites = member.websites if role in LIMITED_ROLES else None
        people.change_member(connection, member.account, person, role, websites, None)
        email = _email(connection, person)
        detail = {"role": [member.role, role], "websites": None if websites is None else len(websites)}
        entry = audit.Entry("person_role_changed", target=email, detail=detail)
        audit.record(connection, audit.Actor(member.account, email, "oidc", person), entry, now_ms)


def _email(connection: sqlite3.Connection, person: int) -> str:
    statement = "/* identities.email */ select email from person where number = ?"
    return str(connection.execute(statement, (person,)).fetchone()[0])
