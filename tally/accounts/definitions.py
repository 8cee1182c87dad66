"""Definitions: annotations, segments, goals and funnels that the owner of a website has saved.

They are settings, not events: nothing that arrives is changed by them, and exports of events do not contain them. All
four are stored in one table as JSON objects, whose fields tally/api/definitions.py checks. They are few and small, so
the server keeps all of them in memory (tally/storage/account_cache.py). A function that writes leaves the transaction
to the caller.
"""

import secrets
import sqlite3
from typing import Any, Literal, NamedTuple

import orjson

from tally.accounts.accounts import AccountError
from tally.accounts.changes import WebsiteDeleted
from tally.accounts.websites import website_exists

Kind = Literal["annotation", "segment", "goal", "funnel"]

MAX_OF_KIND: dict[Kind, int] = {"annotation": 1_000, "segment": 100, "goal": 100, "funnel": 100}
"""How many of each kind a website may have."""


class Definition(NamedTuple):
    """An annotation, segment, goal or funnel. `content` is not changed once it is read."""

    id: str
    kind: Kind
    content: dict[str, Any]


class UnknownDefinition(AccountError):
    """The website has no definition of the kind with this id."""


class TooManyDefinitions(AccountError):
    """The website has as many definitions of the kind as it may have."""


def all_definitions(connection: sqlite3.Connection) -> dict[int, tuple[Definition, ...]]:
    """Return the definitions of every website by its number, oldest first."""
    by_website: dict[int, list[Definition]] = {}
    for website, id, kind, content in connection.execute(
        "/* definitions.all */ select website, id, kind, content from definition order by website, created_ms, id"
    ):
        by_website.setdefault(website, []).append(Definition(id, kind, orjson.loads(content)))
    return {website: tuple(definitions) for website, definitions in by_website.items()}


def add_definition(
    connection: sqlite3.Connection, website: int, kind: Kind, content: dict[str, Any], now_ms: int
) -> str:
    """Store a definition and return its id. Raises WebsiteDeleted, TooManyDefinitions."""
    if not website_exists(connection, website):
        raise WebsiteDeleted("The website has been deleted.")
    statement = "/* definitions.count */ select count(*) from definition where website = ? and kind = ?"
    if connection.execute(statement, (website, kind)).fetchone()[0] >= MAX_OF_KIND[kind]:
        raise TooManyDefinitions(f"A website has at most {MAX_OF_KIND[kind]} {kind}s: delete one first.")
    id = secrets.token_hex(8)
    connection.execute(
        # Two of one millisecond keep their order.
        "/* definitions.add */ insert into definition (website, id, kind, created_ms, content) values (?, ?, ?,"
        " max(?, coalesce((select max(created_ms) + 1 from definition where website = ?), 0)), ?)",
        (website, id, kind, now_ms, website, orjson.dumps(content).decode()),
    )
    return id


def update_definition(
    connection: sqlite3.Connection, website: int, kind: Kind, id: str, content: dict[str, Any]
) -> None:
    """Set the content of a definition. Raises UnknownDefinition."""
    done = connection.execute(
        "/* definitions.update */ update definition set content = ? where website = ? and id = ? and kind = ?",
        (orjson.dumps(content).decode(), website, id, kind),
    )
    if not done.rowcount:
        raise UnknownDefinition(f"There is no {kind} {id}.")


def delete_definition(connection: sqlite3.Connection, website: int, kind: Kind, id: str) -> None:
    """Delete a definition. Raises UnknownDefinition."""
    done = connection.execute(
        "/* definitions.delete */ delete from definition where website = ? and id = ? and kind = ?", (website, id, kind)
    )
    if not done.rowcount:
        raise UnknownDefinition(f"There is no {kind} {id}.")
