"""Deletions of events by filter, and rewriting of their paths by a rule: the table `deletion`, one row each.

A row has what is deleted or rewritten, and while that runs its place, with which it continues after a crash
(tally/transfer/event_deletion.py). It stays when it has ended, without its place.
All functions run within a transaction, or on a snapshot, of the caller.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import orjson

from tally.events.filters import Filter
from tally.events.path_rules import PathRule
from tally.storage.sql.events import SOURCE_COLUMNS
from tally.storage.sql.filters import Query, conditions
from tally.timestamps import DAY_MS

RUNNING, DONE, STOPPED = "running", "done", "stopped"
DELETE, REWRITE = "delete", "rewrite"
"""The kinds."""
# Older ones are deleted, so that a program cannot fill the table.
MAX_ENDED = 100
IS_RUNNING = "exists (select 1 from deletion where deletion.website = {website} and deletion.state = 'running')"
"""SQL for whether events of a website are being deleted or rewritten."""


class Plan(NamedTuple):
    """What is deleted: events with ids up to `last_id`, in [from_ms, to_ms) of website time, that match all filters;
    and by source (tally/columns/statements.py) the days that have such events.

    With a rule nothing is deleted: the paths of these events are rewritten.
    """

    from_ms: int
    to_ms: int
    filters: tuple[Filter, ...]
    last_id: int
    days: tuple[tuple[int, ...], ...]
    rule: PathRule | None = None

    @property
    def kind(self) -> str:
        """DELETE or REWRITE."""
        return DELETE if self.rule is None else REWRITE

    @property
    def whole_days(self) -> tuple[int, int]:
        """The first of the whole days of the range, and the end of these."""
        return -(-self.from_ms // DAY_MS), self.to_ms // DAY_MS

    @property
    def deletes_sums(self) -> bool:
        """Whether imported sums of whole days are deleted: they are of no filter."""
        return not self.filters and self.rule is None

    @property
    def covers_heatmaps(self) -> bool:
        """Whether heatmap points of whole days are covered: these are known by page and day alone."""
        return all(of.field == "pathname" or (of.field == "type" and of.accepts("heatmap")) for of in self.filters)


def matching(website: int, plan: Plan, table: str) -> Query:
    """Return an SQL expression for whether a row of a table of events is covered: 0 or 1."""
    filters, values = conditions(website, plan.filters, SOURCE_COLUMNS[table])
    sql = f"({table}.ts >= ? and {table}.ts < ? and {table}.id <= ?{filters})"
    return sql, [plan.from_ms, plan.to_ms, plan.last_id, *values]


class DeletionRecord(NamedTuple):
    """A deletion or a rewriting. `events`: how many it has to change; `changed`: how many are changed."""

    website: int
    number: int
    kind: str
    state: str
    begun_ms: int
    ended_ms: int | None
    events: int
    changed: int
    plan: Plan
    progress: str | None


_COLUMNS = (
    "website, number, kind, state, begun_ms, ended_ms, events, changed, from_ms, to_ms, filters, rule, last_id, days,"
    " progress"
)


def records(connection: sqlite3.Connection, website: int) -> list[DeletionRecord]:
    """Return the deletions of a website, newest first."""
    rows = connection.execute(
        f"/* deletion_records.all */ select {_COLUMNS} from deletion where website = ? order by number desc", (website,)
    )
    return list(map(_record, rows))


def record(connection: sqlite3.Connection, website: int, number: int) -> DeletionRecord | None:
    """Return a deletion of a website; None where there is none of that number."""
    row = connection.execute(
        f"/* deletion_records.one */ select {_COLUMNS} from deletion where website = ? and number = ?",
        (website, number),
    ).fetchone()
    return None if row is None else _record(row)


def _record(row: Sequence[Any]) -> DeletionRecord:
    website, number, kind, state, begun_ms, ended_ms, events, changed, from_ms, to_ms, *plan, progress = row
    filters, rule, last_id, days = plan
    parts = tuple(Filter(field, operator, tuple(values)) for field, operator, values in orjson.loads(filters))
    rules = orjson.loads(rule)
    found = Plan(
        *(from_ms, to_ms, parts, last_id, tuple(map(tuple, orjson.loads(days)))), PathRule(*rules) if rules else None
    )
    return DeletionRecord(website, number, kind, state, begun_ms, ended_ms, events, changed, found, progress)


def running(connection: sqlite3.Connection) -> list[tuple[int, int]]:
    """Return (website, number) of the deletions that run."""
    return connection.execute(
        "/* deletion_records.running */ select website, number from deletion where state = 'running'"
        " order by website, number"
    ).fetchall()


def is_running(connection: sqlite3.Connection, website: int) -> bool:
    """Return whether events of a website are being deleted or rewritten."""
    row = connection.execute(f"/* deletion_records.is_running */ select {IS_RUNNING.format(website='?')}", (website,))
    return bool(row.fetchone()[0])


def with_texts(connection: sqlite3.Connection, before_ms: int) -> list[int]:
    """Return the websites of deletions that ended before a time, and whose texts may be unused now."""
    rows = connection.execute(
        "/* deletion_records.with_texts */ select distinct website from deletion where has_texts and ended_ms <= ?"
        " order by website",
        (before_ms,),
    )
    return [website for (website,) in rows]


def texts_deleted(connection: sqlite3.Connection, websites: Iterable[int], before_ms: int) -> None:
    """Record that the unused texts of websites are deleted: of deletions that ended before a time.

    So are the values of the filters, and rules, which may be such texts.
    """
    connection.executemany(
        "/* deletion_records.texts_deleted */ update deletion set has_texts = 0, filters = '[]', rule = '[]'"
        " where website = ? and ended_ms <= ?",
        [(website, before_ms) for website in websites],
    )


def begin(connection: sqlite3.Connection, website: int, plan: Plan, events: int, now_ms: int) -> int:
    """Insert a deletion, which runs; return its number."""
    filters = [(of.field, of.operator, of.values) for of in plan.filters]
    rule = [] if plan.rule is None else [plan.rule.pattern, plan.rule.replacement]
    ((number,),) = connection.execute(
        "/* deletion_records.begin */ insert into deletion (website, number, kind, state, begun_ms, events, changed,"
        " from_ms, to_ms, filters, rule, last_id, days, progress) values (?1, (select coalesce(max(number), 0) + 1"
        " from deletion where website = ?1), ?2, 'running', ?3, ?4, 0, ?5, ?6, ?7, ?8, ?9, ?10, '[0,0,-1,-1]')"
        " returning number",
        (
            *(website, plan.kind, now_ms, events, plan.from_ms, plan.to_ms),
            *(orjson.dumps(part).decode() for part in (filters, rule)),
            *(plan.last_id, orjson.dumps(plan.days).decode()),
        ),
    ).fetchall()
    connection.execute(
        "/* deletion_records.older */ delete from deletion where website = ? and number <= ? and state != 'running'",
        (website, number - MAX_ENDED),
    )
    return int(number)


def save(connection: sqlite3.Connection, website: int, number: int, place: Sequence[int], changed: int) -> None:
    """Store the place of a running deletion, and add to the number of changed events."""
    connection.execute(
        "/* deletion_records.save */ update deletion set progress = ?, changed = changed + ?"
        " where website = ? and number = ? and state = 'running'",
        (orjson.dumps(place).decode(), changed, website, number),
    )


def end(connection: sqlite3.Connection, website: int, number: int, state: str, now_ms: int) -> bool:
    """Store that a running deletion is done or stopped; return whether it ran."""
    return bool(
        connection.execute(
            "/* deletion_records.end */ update deletion set state = ?, ended_ms = ?, progress = null, days = '[]'"
            " where website = ? and number = ? and state = 'running'",
            (state, now_ms, website, number),
        ).rowcount
    )
