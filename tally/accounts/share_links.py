"""Share links: a link shows one website to everybody who has it, without an account.

A website has at most one link; creating another one revokes it. The token is stored as it is, so that the owner can
view the link again. A function that writes leaves the transaction to the caller.
"""

import sqlite3


def all_share_links(connection: sqlite3.Connection) -> dict[str, str]:
    """Return the id of every website that has a share link, by the link's token."""
    return dict(
        connection.execute(
            "/* share_links.all */ select share_link.token, website.id from share_link"
            " join website on website.number = share_link.website order by share_link.website"
        )
    )


def create_share_link(connection: sqlite3.Connection, website: int, token: str, now_ms: int) -> None:
    """Set a website's share link. The previous link stops working."""
    connection.execute(
        "/* share_links.create */ insert or replace into share_link values (?, ?, ?)", (website, token, now_ms)
    )


def revoke_share_link(connection: sqlite3.Connection, website: int) -> None:
    """Delete a website's share link."""
    connection.execute("/* share_links.revoke */ delete from share_link where website = ?", (website,))


def revoke_share_links(connection: sqlite3.Connection, account: int) -> None:
    """Delete the share links of all websites of an account."""
    connection.execute(
        "/* share_links.revoke_all */ delete from share_link"
        " where website in (select number from website where account = ?)",
        (account,),
    )
