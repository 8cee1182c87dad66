"""Websites of an account: domain, name and allowed origins.

Plain SQL on a sqlite3 connection. A function that writes leaves the transaction to the caller. Deleting a website is in
tally/maintenance/deletion.py.
"""

import sqlite3
import uuid
from collections.abc import Iterable
from typing import NamedTuple

from tally.accounts.accounts import Account, AccountError


class Website(NamedTuple):
    """A website as the server caches it; other tables refer to it by `number`, the API by `id`."""

    number: int
    id: str
    domain: str
    name: str
    created_ms: int
    account: int
    plan: str
    origins: frozenset[str]


class DomainTaken(AccountError):
    """The account already has a website for the domain; `id` is that website's id."""

    def __init__(self, domain: str, id: str) -> None:
        super().__init__(f"There is already a website for {domain}: {id}")
        self.id = id


def all_websites(connection: sqlite3.Connection) -> list[Website]:
    """Return every website, oldest first."""
    origins: dict[int, set[str]] = {}
    for number, origin in connection.execute("/* websites.all_origins */ select website, origin from allowed_origin"):
        origins.setdefault(number, set()).add(origin)
    rows = connection.execute(
        "/* websites.all */ select w.number, w.id, w.domain, w.name, w.created_ms, w.account, a.plan"
        " from website w join account a on a.number = w.account order by w.created_ms, w.number"
    )
    return [Website._make((*row, frozenset(origins.get(row[0], ())))) for row in rows]


def domain_and_origins(connection: sqlite3.Connection, number: int) -> tuple[str, frozenset[str]]:
    """Return a website's domain and allowed origins; the domain is "" if there is no such website."""
    row = connection.execute("/* websites.domain */ select domain from website where number = ?", (number,)).fetchone()
    origins = connection.execute(
        "/* websites.origins */ select origin from allowed_origin where website = ?", (number,)
    )
    return row[0] if row else "", frozenset(origin for (origin,) in origins)


def website_exists(connection: sqlite3.Connection, number: int) -> bool:
    """Return whether there is a website with that number."""
    statement = "/* websites.exists */ select 1 from website where number = ?"
    return connection.execute(statement, (number,)).fetchone() is not None


def find_website(connection: sqlite3.Connection, text: str) -> Website:
    """Return the website with an id or domain. Raises AccountError."""
    found = [website for website in all_websites(connection) if text.lower() in (website.id, website.domain)]
    if not found:
        raise AccountError(f"There is no website {text}: list ids and domains with `website list`.")
    if len(found) > 1:
        raise AccountError(f"{len(found)} websites have the domain {text}: give the id (see `website list`).")
    return found[0]


def add_website(
    connection: sqlite3.Connection, owner: Account, domain: str, name: str, origins: Iterable[str], now_ms: int
) -> str:
    """Create a website of an account and return its id."""
    id = str(uuid.uuid4())
    # The number of a deleted website is not assigned again: tables may still have its rows.
    row = connection.execute(
        "/* websites.add */ insert into website (number, id, account, domain, name, created_ms)"
        " values (1 + max((select coalesce(max(number), 0) from website),"
        " (select coalesce(max(website), 0) from deleted_website)), ?, ?, ?, ?, ?) returning number",
        (id, owner.number, domain, name, now_ms),
    ).fetchone()
    _add_origins(connection, row[0], origins)
    return id


def check_domain_unused(connection: sqlite3.Connection, owner: int, domain: str) -> None:
    """Raise DomainTaken if the account has a website for the domain."""
    row = connection.execute(
        "/* websites.of_domain */ select id from website where account = ? and domain = ? order by number limit 1",
        (owner, domain),
    ).fetchone()
    if row is not None:
        raise DomainTaken(domain, row[0])


def update_website(connection: sqlite3.Connection, number: int, name: str, domain: str, origins: Iterable[str]) -> None:
    """Change a website's name, domain and allowed origins."""
    connection.execute(
        "/* websites.update */ update website set name = ?, domain = ? where number = ?", (name, domain, number)
    )
    connection.execute("/* websites.clear_origins */ delete from allowed_origin where website = ?", (number,))
    _add_origins(connection, number, origins)


def _add_origins(connection: sqlite3.Connection, number: int, origins: Iterable[str]) -> None:
    connection.executemany(
        "/* websites.add_origin */ insert or ignore into allowed_origin (website, origin) values (?, ?)",
        [(number, origin) for origin in origins],
    )
