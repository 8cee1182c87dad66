"""Share links: a link shows one website to every holder of it, without an account.

A website has at most one link; creating another one revokes it and keeps its options. The token is stored as it is, so
that the owner can view the link again; a password only as a hash. A function that writes leaves the transaction to the
caller.
"""

import json
import sqlite3
from collections.abc import Mapping
from typing import Any, NamedTuple


class ShareOptions(NamedTuple):
    """What an owner has chosen for a share link.

    password_hash: argon2id, "" for none; origins: those whose pages may show the link's page in a frame; filters: as in
    a query, each name=value, applied to everything the link shows.
    """

    password_hash: str = ""
    origins: tuple[str, ...] = ()
    filters: tuple[str, ...] = ()
    hides_events: bool = False
    shows_badges: bool = False


class ShareLink(NamedTuple):
    """A share link as the server caches it; `website` is the id."""

    token: str
    website: str
    options: ShareOptions


def all_share_links(connection: sqlite3.Connection) -> dict[str, ShareLink]:
    """Return every share link by its token."""
    rows = connection.execute(
        "/* share_links.all */ select share_link.token, website.id, password_hash, origins, filters, hides_events,"
        " shows_badges from share_link join website on website.number = share_link.website order by share_link.website"
    )
    return {
        token: ShareLink(
            token,
            website,
            ShareOptions(
                password_hash, tuple(json.loads(origins)), tuple(json.loads(filters)), bool(hides), bool(badges)
            ),
        )
        for token, website, password_hash, origins, filters, hides, badges in rows
    }


def create_share_link(connection: sqlite3.Connection, website: int, token: str, now_ms: int) -> None:
    """Set a website's share link. The previous link stops working; its options hold for the new one."""
    connection.execute(
        "/* share_links.create */ insert into share_link (website, token, created_ms) values (?, ?, ?)"
        " on conflict (website) do update set token = excluded.token, created_ms = excluded.created_ms",
        (website, token, now_ms),
    )


def change_share_link(connection: sqlite3.Connection, website: int, changed: Mapping[str, Any]) -> bool:
    """Set some options of a website's share link, by their names; return whether the website has one."""
    given = {name: json.dumps(value) if isinstance(value, list) else value for name, value in changed.items()}
    cursor = connection.execute(
        "/* share_links.change */ update share_link set password_hash = coalesce(:password_hash, password_hash),"
        " origins = coalesce(:origins, origins), filters = coalesce(:filters, filters),"
        " hides_events = coalesce(:hides_events, hides_events), shows_badges = coalesce(:shows_badges, shows_badges)"
        " where website = :website",
        {**dict.fromkeys(ShareOptions._fields), **given, "website": website},
    )
    return cursor.rowcount == 1


def revoke_share_link(connection: sqlite3.Connection, website: int) -> None:
    """Delete a website's share link and its options."""
    connection.execute("/* share_links.revoke */ delete from share_link where website = ?", (website,))


def revoke_share_links(connection: sqlite3.Connection, account: int) -> None:
    """Delete the share links of all websites of an account."""
    connection.execute(
        "/* share_links.revoke_all */ delete from share_link"
        " where website in (select number from website where account = ?)",
        (account,),
    )
