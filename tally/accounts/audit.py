"""The audit log: who changed what, and when. A line is written in the transaction of its change.

A line has the email address of the account at that time, or `command line`; no IP address, no browser and no secret.
`audited` returns a step for one transaction that makes a change and writes its line, so that there is no change without
a line and no line without a change. Lines are deleted by age alone: `--audit-days`, `expire`.

A program that changes much does not fill the log: MAX_SINGLY lines of an actor in a second are stored singly, and the
rest of the second as one line, which counts them by action.
"""

import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Concatenate, Literal, NamedTuple, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
# By which authorisation a change was made.
Via = Literal["session", "header", "oidc", "key", "cli", "system"]
# Expired lines that one transaction deletes, so that changes do not wait for it.
_MAX_DELETED = 1_000
MAX_LINES = 1_000
# Lines of an actor in one second, and how many of the newest lines are read for it: more than people act in a second.
MAX_SINGLY, _SEEN = 20, 200
MORE = "more_changes"
_COLUMNS = "number, ms, account, actor, via, person, action, website, target, detail"


class Actor(NamedTuple):
    """Who acts: the account that is changed (None: the whole server), the email address of a person, an API key,
    `command line` or `server`, by which authorisation, and the person's number."""

    account: int | None
    name: str
    via: Via
    person: int | None = None


class Entry(NamedTuple):
    """What is changed: an action, the id of a website, the name of what is changed, and details without secrets."""

    action: str
    website: str | None = None
    target: str = ""
    detail: Mapping[str, Any] = {}


class Line(NamedTuple):
    """A line of the log."""

    number: int
    ms: int
    actor: Actor
    entry: Entry


def by_command(account: int | None) -> Actor:
    """Return the actor of a command that changes an account; None for the whole server."""
    return Actor(account, "command line", "cli")


def by_server(account: int | None = None) -> Actor:
    """Return the actor of what the server does by itself."""
    return Actor(account, "server", "system")


def record(connection: sqlite3.Connection, actor: Actor, entry: Entry, now_ms: int) -> None:
    """Write a line, or count it in the last one of a second in which the actor has MAX_SINGLY lines."""
    newest = connection.execute(
        "/* audit.of_second */ select number, action, detail from"
        " (select * from audit where account is ? order by number desc limit ?)"
        " where actor = ? and via = ? and ms / 1000 = ? / 1000 order by number desc",
        (actor.account, _SEEN, actor.name, actor.via, now_ms),
    ).fetchmany(MAX_SINGLY)
    if newest and newest[0][1] == MORE:
        counts = json.loads(newest[0][2])
        counts[entry.action] = counts.get(entry.action, 0) + 1
        connection.execute(
            "/* audit.count */ update audit set detail = ? where number = ?", (json.dumps(counts), newest[0][0])
        )
        return
    if len(newest) == MAX_SINGLY:
        entry = Entry(MORE, detail={entry.action: 1})
    connection.execute(
        "/* audit.record */ insert into audit (account, actor, via, person, ms, action, website, target, detail)"
        " values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*actor, now_ms, *entry[:3], json.dumps(entry.detail, ensure_ascii=False)),
    )


def expire(connection: sqlite3.Connection, kept_from_ms: int) -> bool:
    """Delete lines of before a time; return whether some may be left."""
    done = connection.execute(
        "/* audit.expire */ delete from audit where ms < ?1 and number in"
        " (select number from audit order by number limit ?2)",
        (kept_from_ms, _MAX_DELETED),
    )
    return done.rowcount == _MAX_DELETED


def former_member(person: int) -> str:
    """Return what stands for a person who has left, in place of the address."""
    return f"former member {person}"


def forget_person(connection: sqlite3.Connection, person: int) -> None:
    """Replace the address of a person in all lines, before the person is deleted."""
    connection.execute(
        "/* audit.forget_person */ update audit set actor = ? where person = ?", (former_member(person), person)
    )


def if_done(entry: Entry) -> Callable[[bool], list[Entry]]:
    """Return the `entry` of `audited` for a step that returns whether it has changed anything."""
    return lambda is_done: [entry] if is_done else []


def audited(
    step: Callable[Concatenate[sqlite3.Connection, P], T],
    actor: Actor,
    entry: Entry | Callable[[T], list[Entry]],
    now_ms: int,
) -> Callable[Concatenate[sqlite3.Connection, P], T]:
    """Return a function that does what `step` does and writes a line.

    `entry` may be a function of the step's result, which returns the lines: none where nothing was changed.
    """

    def both(connection: sqlite3.Connection, /, *args: P.args, **kwargs: P.kwargs) -> T:
        result = step(connection, *args, **kwargs)
        for line in [entry] if isinstance(entry, Entry) else entry(result):
            record(connection, actor, line, now_ms)
        return result

    return both


def newest(connection: sqlite3.Connection) -> int:
    """Return the number of the newest line; 0 where there is none."""
    statement = "/* audit.newest */ select coalesce(max(number), 0) from audit"
    return int(connection.execute(statement).fetchone()[0])


def written_after(connection: sqlite3.Connection, number: int) -> tuple[int, list[Line]]:
    """Return lines after a number, oldest first, at most MAX_LINES, and the number after which they are.

    That is 0 where the newest one is lower: all lines have expired meanwhile, and numbers begin again.
    """
    if number > newest(connection):
        number = 0
    rows = connection.execute(
        f"/* audit.written_after */ select {_COLUMNS} from audit where number > ? order by number limit ?",
        (number, MAX_LINES),
    )
    return number, [_line(row) for row in rows]


def _line(row: Sequence[Any]) -> Line:
    return Line(row[0], row[1], Actor(*row[2:6]), Entry(row[6], row[7], row[8], json.loads(row[9])))


def lines(
    connection: sqlite3.Connection,
    account: int | None,
    *,
    before: int | None = None,
    action: str | None = None,
    website: str | None = None,
    person: int | None = None,
    since_ms: int = 0,
    limit: int = MAX_LINES,
) -> list[Line]:
    """Return lines of an account, or of all for None, newest first.

    Only those numbered below `before`, of an action, of a website, of a person, not older than `since_ms`.
    """
    rows = connection.execute(
        f"/* audit.lines */ select {_COLUMNS} from audit"
        " where (?1 is null or account = ?1) and (?2 is null or number < ?2) and (?3 is null or action = ?3)"
        " and (?4 is null or website = ?4) and (?5 is null or person = ?5) and ms >= ?6"
        " order by number desc limit ?7",
        (account, before, action, website, person, since_ms, limit),
    )
    return [_line(row) for row in rows]
