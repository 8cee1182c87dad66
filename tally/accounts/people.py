"""People of an account: memberships, invitations, one-time sign-in links.

Each function runs in one transaction of its caller. What it requires is read in that transaction: the role of the
person who acts, and whether another owner is left. An account has an owner at any time.

The token of an invitation or a sign-in link is in the link alone; a keyed digest of it is stored. A person who is a
member of no account any more is deleted, with all sessions. The open invitations of a person end with the person's
membership, and with each change of the role.
"""

import json
import secrets
import sqlite3
from collections.abc import Callable, Collection, Iterable
from hashlib import blake2b
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

from tally.accounts import assistants, audit
from tally.accounts.accounts import AccountError, create_person
from tally.accounts.roles import LIMITED_ROLES, Membership, Role, may_grant
from tally.timestamps import DAY_MS

MAX_PEOPLE, MAX_INVITATIONS, MAX_LIMIT = 200, 50, 1_000
INVITATION_LASTS_MS, SIGN_IN_LINK_LASTS_MS = 7 * DAY_MS, 600_000


T = TypeVar("T")
P = ParamSpec("P")


class NotAMember(AccountError):
    """A person who acts is no member of the account any more."""


class LastOwner(AccountError):
    """The account would have no owner."""


class NotAllowed(AccountError):
    """The role of the person who acts does not allow it."""


class UnknownPerson(AccountError):
    """The account has no such member."""


class UnknownInvitation(AccountError):
    """The invitation or the sign-in link is used, revoked, expired, or there was none."""


class AlreadyMember(AccountError):
    """The person is a member of the account already."""


class TooManyPeople(AccountError):
    """The account has as many people or open invitations as it may have."""


class Invitation(NamedTuple):
    """An open invitation. `websites`: numbers, None is all; `created_by` None is the command line."""

    id: str
    account: int
    email: str
    role: Role
    websites: tuple[int, ...] | None
    created_by: int | None
    created_ms: int
    expires_ms: int


def token_digest(token: str, salt: bytes) -> bytes:
    """Return the stored digest of the token of an invitation or a sign-in link."""
    return blake2b(token.encode("utf-8", "surrogatepass"), digest_size=32, key=salt, person=b"link").digest()


def new_token() -> str:
    """Return a token of 32 random bytes."""
    return secrets.token_urlsafe(32)


# --- members


def all_memberships(connection: sqlite3.Connection) -> dict[tuple[int, int], Membership]:
    """Return every membership by account and person, oldest first."""
    limits: dict[tuple[int, int], set[int]] = {}
    for account, person, website in connection.execute(
        "/* people.limits */ select account, person, website from membership_website"
    ):
        limits.setdefault((account, person), set()).add(website)
    rows = connection.execute(
        "/* people.members */ select account, person, role, is_limited, m.created_ms,"
        " requires_second_factor and totp_secret is null"
        " and not exists (select 1 from passkey where passkey.person = m.person) from membership m"
        " join account a on a.number = account join person p on p.number = person order by m.created_ms, person"
    )
    return {
        (account, person): Membership(
            account,
            person,
            role,
            frozenset(limits.get((account, person), ())) if is_limited else None,
            created_ms,
            bool(is_due),
        )
        for account, person, role, is_limited, created_ms, is_due in rows
    }


def memberships_of(connection: sqlite3.Connection, person: int) -> list[Membership]:
    """Return the memberships of a person, oldest first."""
    return [member for member in all_memberships(connection).values() if member.person == person]


def by_members(
    step: Callable[Concatenate[Any, P], T], actors: Collection[audit.Actor]
) -> Callable[Concatenate[Any, P], T]:
    """Return a function that does what `step` does if the people are still members of the accounts.

    They may have been removed since the request was authorised. It raises NotAMember.
    """

    def checked(connection: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        for actor in actors:
            if actor.person is not None and not is_member(connection, actor.account, actor.person):
                raise NotAMember("You are no member of this account any more.")
        return step(connection, *args, **kwargs)

    return checked


def is_member(connection: sqlite3.Connection, account: int | None, person: int) -> bool:
    """Return whether a person is a member of an account."""
    statement = "/* people.is_member */ select 1 from membership where account = ? and person = ?"
    return connection.execute(statement, (account, person)).fetchone() is not None


def _member(connection: sqlite3.Connection, account: int, person: int) -> Membership:
    member = all_memberships(connection).get((account, person))
    if member is None:
        raise UnknownPerson("The account has no such member.")
    return member


def _check_grant(connection: sqlite3.Connection, account: int, by: int | None, *roles: Role) -> None:
    """Raise NotAllowed unless the person, or the command line (None), may give and take these roles now."""
    if by is not None:
        member = all_memberships(connection).get((account, by))
        if member is None or not may_grant(member, roles):
            raise NotAllowed("Nobody may give or take a role above their own.")


def _check_owner_left(connection: sqlite3.Connection, account: int, but: int) -> None:
    statement = "/* people.other_owner */ select 1 from membership where account = ? and role = 'owner' and person <> ?"
    if connection.execute(statement, (account, but)).fetchone() is None:
        raise LastOwner("The account must keep an owner: make another person an owner first.")


def _limit(connection: sqlite3.Connection, account: int, person: int, websites: Iterable[int] | None) -> None:
    connection.execute(
        "/* people.clear_limit */ delete from membership_website where account = ? and person = ?", (account, person)
    )
    connection.executemany(
        # Of the account, and not deleted meanwhile.
        "/* people.limit */ insert or ignore into membership_website (account, person, website)"
        " select ?, ?, number from website where number = ? and account = ?",
        [(account, person, website, account) for website in websites or ()],
    )


def change_member(
    connection: sqlite3.Connection,
    account: int,
    person: int,
    role: Role,
    websites: frozenset[int] | None,
    by: int | None,
) -> None:
    """Set a member's role and limit. Raises LastOwner, NotAllowed, UnknownPerson."""
    before = _member(connection, account, person)
    _check_grant(connection, account, by, before.role, role)
    if role != "owner" and before.role == "owner":
        _check_owner_left(connection, account, person)
    if role not in LIMITED_ROLES:
        websites = None
    connection.execute(
        "/* people.change */ update membership set role = ?, is_limited = ? where account = ? and person = ?",
        (role, websites is not None, account, person),
    )
    _limit(connection, account, person, websites)
    if role != before.role:
        _revoke_invitations_by(connection, account, person)


def remove_member(connection: sqlite3.Connection, account: int, person: int, by: int | None) -> None:
    """End a membership; `by` is the person who acts, who may leave. Raises LastOwner, NotAllowed, UnknownPerson."""
    before = _member(connection, account, person)
    if by != person:
        _check_grant(connection, account, by, before.role)
    if before.role == "owner":
        _check_owner_left(connection, account, person)
    _revoke_invitations_by(connection, account, person)
    assistants.disconnect_all(connection, account, person)
    connection.execute("/* people.remove */ delete from membership where account = ? and person = ?", (account, person))


def delete_if_alone(connection: sqlite3.Connection, person: int) -> None:
    """Delete a person who is a member of no account."""
    statement = "/* people.any_account */ select 1 from membership where person = ?"
    if connection.execute(statement, (person,)).fetchone() is None:
        audit.forget_person(connection, person)
        connection.execute("/* people.delete */ delete from person where number = ?", (person,))


def _revoke_invitations_by(connection: sqlite3.Connection, account: int, person: int) -> None:
    connection.execute(
        "/* people.revoke_by */ delete from invitation where account = ? and created_by = ?", (account, person)
    )


# --- invitations


_INVITATION = "id, account, email, role, websites, created_by, created_ms, expires_ms"


def _invitation(row: tuple[str, int, str, Role, str | None, int | None, int, int]) -> Invitation:
    return Invitation(*row[:4], None if row[4] is None else tuple(json.loads(row[4])), *row[5:])


def invitations(connection: sqlite3.Connection, account: int, now_ms: int) -> list[Invitation]:
    """Return the open invitations of an account, oldest first."""
    rows = connection.execute(
        f"/* people.invitations */ select {_INVITATION} from invitation where account = ? and expires_ms > ?"
        " order by created_ms, id",
        (account, now_ms),
    )
    return [_invitation(row) for row in rows]


def find_invitation(connection: sqlite3.Connection, digest: bytes, now_ms: int) -> Invitation:
    """Return the open invitation of a token's digest. Raises UnknownInvitation."""
    row = connection.execute(
        f"/* people.invitation */ select {_INVITATION} from invitation where digest = ? and expires_ms > ?",
        (digest, now_ms),
    ).fetchone()
    if row is None:
        raise UnknownInvitation("This invitation is invalid, expired or already used.")
    return _invitation(row)


def new_invitation(
    account: int, email: str, role: Role, websites: Collection[int] | None, created_by: int | None, now_ms: int
) -> Invitation:
    """Return an invitation that begins now, which `invite` stores."""
    limit = None if websites is None else tuple(sorted(websites))
    id, expires_ms = secrets.token_hex(8), now_ms + INVITATION_LASTS_MS
    return Invitation(id, account, email, role, limit, created_by, now_ms, expires_ms)


def invite(connection: sqlite3.Connection, new: Invitation, digest: bytes) -> None:
    """Store an invitation, in place of an open one of the same address.

    Raises AlreadyMember, NotAllowed, TooManyPeople.
    """
    replaced = connection.execute(
        "/* people.replaced */ select role from invitation where account = ? and email = ? and expires_ms > ?",
        (new.account, new.email, new.created_ms),
    )
    _check_grant(connection, new.account, new.created_by, new.role, *(role for (role,) in replaced))
    connection.execute(
        "/* people.expire */ delete from invitation where account = ? and (expires_ms <= ? or email = ?)",
        (new.account, new.created_ms, new.email),
    )
    member = connection.execute(
        "/* people.has_address */ select 1 from membership join person on number = person"
        " where account = ? and email = ?",
        (new.account, new.email),
    ).fetchone()
    if member is not None:
        raise AlreadyMember(f"{new.email} is a member of this account already.")
    if len(invitations(connection, new.account, new.created_ms)) >= MAX_INVITATIONS:
        raise TooManyPeople(f"The account has {MAX_INVITATIONS} open invitations: revoke one first.")
    _check_people(connection, new.account)
    websites = None if new.websites is None else json.dumps(new.websites)
    connection.execute(
        f"/* people.invite */ insert into invitation ({_INVITATION}, digest) values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*new[:4], websites, *new[5:], digest),
    )


def _check_people(connection: sqlite3.Connection, account: int) -> None:
    statement = "/* people.count */ select count(*) from membership where account = ?"
    if connection.execute(statement, (account,)).fetchone()[0] >= MAX_PEOPLE:
        raise TooManyPeople(f"The account has {MAX_PEOPLE} people, the most that it may have.")


def revoke_invitation(connection: sqlite3.Connection, account: int, id: str, by: int | None) -> str:
    """Delete an open invitation and return its address. Raises NotAllowed, UnknownInvitation."""
    row = connection.execute(
        "/* people.find_invitation */ select email, role from invitation where account = ? and id = ?", (account, id)
    ).fetchone()
    if row is None:
        raise UnknownInvitation("There is no such invitation.")
    _check_grant(connection, account, by, row[1])
    connection.execute("/* people.revoke */ delete from invitation where id = ?", (id,))
    return str(row[0])


def accept_invitation(
    connection: sqlite3.Connection, digest: bytes, person: int | None, password_hash: str | None, now_ms: int
) -> int:
    """Make a person a member, a new one where `person` is None; return the person's number. The invitation ends.

    Raises AlreadyMember, TooManyPeople, UnknownInvitation.
    """
    return _join(connection, find_invitation(connection, digest, now_ms), person, password_hash, now_ms)


def with_email(connection: sqlite3.Connection, email: str) -> int | None:
    """Return the number of the person with an address; None without."""
    row = connection.execute(
        "/* people.of_address */ select number from person where email = ? collate nocase", (email,)
    ).fetchone()
    return None if row is None else int(row[0])


def invitations_of(connection: sqlite3.Connection, email: str, now_ms: int) -> list[Invitation]:
    """Return the open invitations of an address in all accounts, oldest first."""
    rows = connection.execute(
        f"/* people.invitations_of */ select {_INVITATION} from invitation where email = ? collate nocase"
        " and expires_ms > ? order by created_ms, id",
        (email, now_ms),
    )
    return [_invitation(row) for row in rows]


def record_joined(
    connection: sqlite3.Connection, invitation: Invitation, person: int, via: audit.Via, now_ms: int
) -> None:
    """Write the line of the audit log about a person who has joined."""
    entry = audit.Entry("person_joined", target=invitation.email, detail={"role": invitation.role})
    audit.record(connection, audit.Actor(invitation.account, invitation.email, via, person), entry, now_ms)


def join_by_address(
    connection: sqlite3.Connection, email: str, create: Role | None, now_ms: int, via: audit.Via
) -> int | None:
    """Return the number of the person of an address that was proved otherwise than by a link of ours; None without.

    An address without a person accepts its open invitations; without one it becomes a member of the only account with
    the role `create`. Each has a line of the audit log. Raises TooManyPeople.
    """
    person = with_email(connection, email)
    if person is not None:
        return person
    offers = invitations_of(connection, email, now_ms)
    accounts = connection.execute("/* people.accounts */ select number from account limit 2").fetchall()
    if not offers and create is not None and len(accounts) == 1:
        offers = [new_invitation(accounts[0][0], email, create, None, None, now_ms)]
    for invitation in offers:
        person = _join(connection, invitation, person, None, now_ms)
        record_joined(connection, invitation._replace(email=email), person, via, now_ms)
    return person


def _join(
    connection: sqlite3.Connection, invitation: Invitation, person: int | None, password_hash: str | None, now_ms: int
) -> int:
    if person is None:
        try:
            person = create_person(connection, invitation.email, password_hash, now_ms)
        except sqlite3.IntegrityError:
            raise AlreadyMember(f"Log in as {invitation.email} first.") from None
    _check_people(connection, invitation.account)
    try:
        connection.execute(
            "/* people.join */ insert into membership (account, person, role, is_limited, created_ms)"
            " values (?, ?, ?, ?, ?)",
            (invitation.account, person, invitation.role, invitation.websites is not None, now_ms),
        )
    except sqlite3.IntegrityError:
        raise AlreadyMember(f"{invitation.email} is a member of this account already.") from None
    _limit(connection, invitation.account, person, invitation.websites)
    connection.execute("/* people.accepted */ delete from invitation where id = ?", (invitation.id,))
    return person


# --- sign-in links


def create_sign_in_link(connection: sqlite3.Connection, person: int, digest: bytes, now_ms: int) -> None:
    """Store a one-time link with which a person signs in; an earlier one ends."""
    connection.execute(
        "/* people.expire_links */ delete from sign_in_link where person = ? or expires_ms <= ?", (person, now_ms)
    )
    connection.execute(
        "/* people.sign_in_link */ insert into sign_in_link (digest, person, expires_ms) values (?, ?, ?)",
        (digest, person, now_ms + SIGN_IN_LINK_LASTS_MS),
    )


def person_of_link(connection: sqlite3.Connection, digest: bytes, now_ms: int) -> int:
    """Return the person of a sign-in link. Raises UnknownInvitation."""
    row = connection.execute(
        "/* people.person_of_link */ select person from sign_in_link where digest = ? and expires_ms > ?",
        (digest, now_ms),
    ).fetchone()
    if row is None:
        raise UnknownInvitation("This sign-in link is invalid, expired or already used.")
    return int(row[0])


def use_sign_in_link(connection: sqlite3.Connection, digest: bytes, now_ms: int) -> None:
    """End a sign-in link. Raises UnknownInvitation."""
    person_of_link(connection, digest, now_ms)
    connection.execute("/* people.use_link */ delete from sign_in_link where digest = ?", (digest,))
