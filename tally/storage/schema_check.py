"""Compare the schema of a database with schema.sql: what a file has that Tally does not make, or lacks.

A file from elsewhere may have a trigger that undoes changes of passwords, a view in place of a table, or a constraint
that deletes rows; SQLite reports such a file as sound. The text of each statement is compared, without comments and
blanks, and the parts of a table in any order, since a migration adds a column at the end. Statistics, which `analyze`
stores, are no difference.
"""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import cache

from tally.resources import asset
from tally.storage import cluster_tables
from tally.storage.database import statements

_STATISTICS = frozenset(("sqlite_stat1", "sqlite_stat4"))
# Strings and quoted names; comments; words and numbers; any other character. Blanks are between them.
_TOKEN = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|/\*.*?\*/|\w+|\S""", re.DOTALL)
_MAX_SHOWN = 3

Schema = dict[tuple[str, str], tuple[str, ...]]


def differences(connection: sqlite3.Connection) -> str:
    """Return what differs from schema.sql, on one line; "" where nothing does.

    The database has the schema version of this release.
    """
    expected, stored = expected_schema(has_cluster=cluster_tables.exist(connection)), _schema(connection)
    words = [
        *(f"the {kind} {name!a} is not part of Tally" for kind, name in sorted(stored.keys() - expected.keys())),
        *(f"the {kind} {name} is missing" for kind, name in sorted(expected.keys() - stored.keys())),
        *(
            f"the {kind} {name} is another than that of Tally"
            for kind, name in sorted(stored.keys() & expected.keys())
            if stored[kind, name] != expected[kind, name]
        ),
    ]
    more = f", and {len(words) - _MAX_SHOWN} more" if len(words) > _MAX_SHOWN else ""
    return ", ".join(word[:200] for word in words[:_MAX_SHOWN]) + more


@cache
def expected_schema(*, has_cluster: bool = False) -> Schema:
    """Return the objects that schema.sql makes, with those of a server that follows with ClickHouse."""
    with closing(sqlite3.connect(":memory:")) as new:
        for statement in statements(asset("schema.sql").read_text("utf-8")):
            new.execute(statement)
        for statement in statements(cluster_tables.SCRIPT) if has_cluster else ():
            new.execute(statement)
        return _schema(new)


def _schema(connection: sqlite3.Connection) -> Schema:
    """Return the table and the parts of the statement of each object."""
    rows = connection.execute("/* schema_check.all */ select type, name, tbl_name, sql from sqlite_schema").fetchall()
    return {
        (str(kind), str(name)): (str(table), *_parts(str(sql or "")))
        for kind, name, table, sql in rows
        if (kind, name) not in {("table", statistics) for statistics in _STATISTICS}
    }


def _parts(sql: str) -> list[str]:
    """Return the parts of a statement between its commas, sorted: columns and constraints of a table."""
    parts, depth = [""], 0
    for lexeme in _tokens(sql):
        depth += (lexeme == "(") - (lexeme == ")")
        if lexeme == "," and depth == 1:
            parts.append("")
        # The outer parentheses are no part of a column, which may be the first or the last one.
        elif (lexeme, depth) in (("(", 1), (")", 0)):
            parts += [lexeme, ""]
        else:
            parts[-1] += f" {lexeme}"
    return sorted(parts)


def _tokens(sql: str) -> Iterator[str]:
    for lexeme in _TOKEN.findall(sql):
        if not lexeme.startswith(("--", "/*")):
            yield lexeme
