"""Share links: a link shows one website to every holder of it, without an account.

A website may have several, each with a name and options; single events are hidden unless the owner shows them. The
token is stored as it is, so that the owner can view the link again; a password only as a hash. A function that writes
leaves the transaction to the caller.
"""

import json
import sqlite3
from collections.abc import Mapping
from typing import Any, NamedTuple

from tally.accounts.accounts import AccountFull

MAX_LINKS = 50
"""Of a website."""


class ShareOptions(NamedTuple):
    """What an owner has chosen for a share link.

    password_hash: argon2id, "" for none; origins: those whose pages may show the link's page in a frame; filters: as in
    a query, each name=value, applied to everything the link shows.
    """

    password_hash: str = ""
    origins: tuple[str, ...] = ()
    filters: tuple[str, ...] = ()
    hides_events: bool = True
    shows_badges: bool = False


class ShareLink(NamedTuple):
    """A share link as the server caches it; `website` is the id. `id` and `name` are for the owner alone."""

    token: str
    website: str
    id: str
    name: str
    created_ms: int
    options: ShareOptions


def all_share_links(connection: sqlite3.Connection) -> dict[str, ShareLink]:
    """Return every share link by its token; those of a website in the order in which they were created."""
    rows = connection.execute(
        "/* share_links.all */ select token, website.id, share_link.id, share_link.name, share_link.created_ms,"
        " password_hash, origins, filters, hides_events, shows_badges"
        " from share_link join website on website.number = share_link.website"
        " order by share_link.website, share_link.created_ms, share_link.id"
    )
    return {
        token: ShareLink(
            *(token, website, id, name, created_ms),
            ShareOptions(
                password_hash, tuple(json.loads(origins)), tuple(json.loads(filters)), bool(hides), bool(badges)
            ),
        )
        for token, website, id, name, created_ms, password_hash, origins, filters, hides, badges in rows
    }


def create_share_link(connection: sqlite3.Connection, website: int, id: str, token: str, now_ms: int) -> None:
    """Add a share link with the options that a new one has. Raises AccountFull where the website has MAX_LINKS."""
    statement = "/* share_links.count */ select count(*) from share_link where website = ?"
    if connection.execute(statement, (website,)).fetchone()[0] >= MAX_LINKS:
        raise AccountFull(f"The website has {MAX_LINKS} share links, the most that it may have: revoke one first.")
    connection.execute(
        "/* share_links.create */ insert into share_link (website, id, name, token, created_ms)"
        " values (?, ?, '', ?, ?)",
        (website, id, token, now_ms),
    )


def change_share_link(connection: sqlite3.Connection, website: int, id: str, changed: Mapping[str, Any]) -> bool:
    """Set what `changed` has of a website's share link, by the names of columns; return whether there is the link."""
    stored = {name: json.dumps(value) if isinstance(value, list) else value for name, value in changed.items()}
    cursor = connection.execute(
        "/* share_links.change */ update share_link set name = coalesce(:name, name), token = coalesce(:token, token),"
        " password_hash = coalesce(:password_hash, password_hash), origins = coalesce(:origins, origins),"
        " filters = coalesce(:filters, filters), hides_events = coalesce(:hides_events, hides_events),"
        " shows_badges = coalesce(:shows_badges, shows_badges) where website = :website and id = :id",
        {**dict.fromkeys(("name", "token", *ShareOptions._fields)), **stored, "website": website, "id": id},
    )
    return cursor.rowcount == 1


def revoke_share_link(connection: sqlite3.Connection, website: int, id: str) -> bool:
    """Delete a share link of a website; return whether there was one."""
    statement = "/* share_links.revoke */ delete from share_link where website = ? and id = ?"
    return connection.execute(statement, (website, id)).rowcount == 1


def revoke_share_links(connection: sqlite3.Connection, account: int) -> None:
    """Delete the share links of all websites of an account."""
    connection.execute(
        "/* share_links.revoke_all */ delete from share_link"
        " where website in (select number from website where account = ?)",
        (account,),
    )
