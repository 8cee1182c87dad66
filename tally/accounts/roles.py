"""Roles of people in an account, and what each may do.

`may` is the only place that decides what a signed-in person may do. The API asks it through `Auth.account` (an account)
and `Auth.website` (a website); tests/api/test_roles.py requests every route with every role. What an API key may
do is decided by its scopes, without this module.
"""

from collections.abc import Iterable
from typing import Literal, NamedTuple

Role = Literal["viewer", "editor", "admin", "owner"]
# Each may do what those before it may.
ROLES: tuple[Role, ...] = ("viewer", "editor", "admin", "owner")
# Roles that can be limited to some websites of the account.
LIMITED_ROLES = frozenset(("viewer", "editor"))

Action = Literal["read", "define", "configure", "keys", "people", "audit", "own"]
LEAST: dict[Action, Role] = {
    # Reports, and the list of websites.
    "read": "viewer",
    # Annotations, segments, goals, funnels and share links.
    "define": "editor",
    # Settings of websites, origins, exclusions and imports; adding and deleting websites.
    "configure": "admin",
    "keys": "admin",
    "people": "admin",
    "audit": "admin",
    # Owners, and what concerns the account as a whole.
    "own": "owner",
}


class Membership(NamedTuple):
    """A person's role in an account; `websites` has the numbers of those that a limited member sees, None is all.

    `is_due`: the account requires a second factor, which the person does not have.
    """

    account: int
    person: int
    role: Role
    websites: frozenset[int] | None
    created_ms: int
    is_due: bool = False


def is_at_least(role: Role, least: Role) -> bool:
    """Return whether a role may do what another one may."""
    return ROLES.index(role) >= ROLES.index(least)


def may(member: Membership | None, action: Action, website: int | None = None) -> bool:
    """Return whether a member may do something in the account; with `website`, to that website of the account.

    A member whose second factor is due may do nothing.
    """
    if member is None or member.is_due or not is_at_least(member.role, LEAST[action]):
        return False
    return website is None or member.websites is None or website in member.websites


def may_grant(member: Membership, roles: Iterable[Role]) -> bool:
    """Return whether a member may give and take these roles: none above its own."""
    return may(member, "people") and all(is_at_least(member.role, role) for role in roles)
