"""The tables of a server that follows its database with ClickHouse. They are made by `cluster init`, and exist in no
other file.

A website's events in ClickHouse are a copy, which has a number of its own there. Whatever changes stored events in
another way than commits of the server calls `change` in the same transaction: parts of imports, steps of their undo and
of deletions. The website's reports are SQLite's from then on, until another copy is complete (tally/cluster/join.py);
the old one still gets what is committed. The copy of a deleted website, or of one whose days begin at another time than
when it was made, counts for nothing.

A website whose first events a server ships has its copy with them (`begin`): there is nothing to join.
"""

import sqlite3
from typing import NamedTuple

from tally.storage import deletion_records, import_records

SCRIPT = """
create table cluster_state (
  series      text    not null,  -- of this file's batches; another one after `cluster init --again`
  shipped     integer not null,  -- the last batch that ClickHouse has
  claimed     integer not null,  -- the last batch of those that are being sent, in one insert a table
  claimed_ms  integer not null
) strict;
create table cluster_outbox (
  number  integer not null,  -- of the batch: the events of a commit
  name    text    not null,  -- table of ClickHouse
  body    blob    not null,  -- its rows as lines of JSON, compressed
  primary key (number, name)
) strict;
create table cluster_copy (
  copy         integer primary key autoincrement,
  website      integer not null,
  state        text    not null check (state in ('joining', 'joined', 'ended')),
  day_offset_minutes  integer not null,     -- of the website, when it was begun
  from_day     integer not null,            -- in website time: older events have expired
  own_day      integer not null default 0,  -- the file has events from this day on; ClickHouse alone has those before
  cleared_day  integer not null default 0,  -- events before it are deleted in ClickHouse as well
  last_id      integer not null default 0,  -- of the events that `cluster join` has sent
  changes      integer not null default 0,  -- of the website's events, which the copy lacks: it answers nothing more
  held_ms      integer not null default 0,  -- when days were put back, or events changed last: none leaves for a day
  reason       text    not null default '',
  deleted_ms   integer                      -- of an ended copy: when ClickHouse deleted it first
) strict;
create table cluster_day (
  copy       integer not null,
  first_day  integer not null,
  end_day    integer not null,  -- not among them
  events     integer not null,  -- of these days, which ClickHouse alone has
  digest     blob    not null,  -- of their export (tally/cluster/archive.py)
  primary key (copy, first_day)
) strict;
create unique index cluster_copy_of_website on cluster_copy (website, state) where state != 'ended';
"""
TABLES = ("cluster_copy", "cluster_day", "cluster_outbox", "cluster_state")
DELETED_MS = 1 << 62
"""In place of when ClickHouse deleted an ended copy first: nothing of it is left there."""


class Copy(NamedTuple):
    """A copy of a website that is not ended."""

    copy: int
    state: str
    from_day: int
    own_day: int
    last_id: int
    changes: int
    held_ms: int
    has_sums: int

    @property
    def is_complete(self) -> bool:
        """Whether it has all of the website's events."""
        return self.state == "joined" and not self.changes

    @property
    def unloaded(self) -> range:
        """The days that ClickHouse alone has."""
        return range(self.from_day, self.own_day)


class UnloadedDays(Exception):
    """Events of a website are in ClickHouse alone, which does not allow a change; the message says what does."""

    def __init__(self) -> None:
        super().__init__(
            "Older events of this website are in ClickHouse alone: run `analytics-server cluster load WEBSITE`, which"
            " puts them back into the database, and repeat this."
        )


def exist(connection: sqlite3.Connection) -> bool:
    """Return whether the file has the tables."""
    found = connection.execute(
        "/* cluster_tables.exist */ select 1 from sqlite_schema where type = 'table' and name = 'cluster_copy'"
    )
    return found.fetchone() is not None


def series(connection: sqlite3.Connection) -> str:
    """Return the series of the file's batches."""
    return str(connection.execute("/* cluster_tables.series */ select series from cluster_state").fetchone()[0])


def copy_of(connection: sqlite3.Connection, website: int) -> Copy | None:
    """Return the copy of a website that is joined, else the one that is being joined, None where it has none."""
    row = connection.execute(
        "/* cluster_tables.copy */ select copy, state, from_day, own_day, last_id, changes, held_ms,"
        f" exists (select 1 from imported_field where imported_field.website = number) {_LIVE} order by state limit 1",
        (website,),
    ).fetchone()
    return Copy(*row) if row else None


def live_copies(connection: sqlite3.Connection, website: int) -> dict[int, str]:
    """Return the states of the copies that get what is committed: the joined one and the one that is being joined."""
    return dict(connection.execute(f"/* cluster_tables.live */ select copy, state {_LIVE}", (website,)).fetchall())


_LIVE = (
    "from cluster_copy join website on number = cluster_copy.website"
    " and website.day_offset_minutes = cluster_copy.day_offset_minutes where website = ? and state != 'ended'"
)


def has_any_copy(connection: sqlite3.Connection, website: int) -> bool:
    """Return whether a website has a copy, or had one that is ended."""
    rows = connection.execute("/* cluster_tables.any */ select 1 from cluster_copy where website = ?", (website,))
    return rows.fetchone() is not None


def begin(connection: sqlite3.Connection, website: int, state: str, from_day: int = 0, lacks: str = "") -> int:
    """Begin a copy of a website, in place of one in the same state; return its number. lacks: what it lacks from the
    beginning on, if anything."""
    connection.execute(
        "/* cluster_tables.replace */ update cluster_copy set state = 'ended' where website = ? and state = ?",
        (website, state),
    )
    row = connection.execute(
        "/* cluster_tables.begin */ insert into cluster_copy (website, state, from_day, changes, reason,"
        " day_offset_minutes) values (?1, ?2, ?3, ?4 != '', ?4,"
        " coalesce((select day_offset_minutes from website where number = ?1), 0)) returning copy",
        (website, state, from_day, lacks),
    ).fetchone()
    return int(row[0])


def change(connection: sqlite3.Connection, website: int, reason: str) -> None:
    """Record that a website's events change, in the transaction of the change: its copies lack it. Raises
    UnloadedDays."""
    if exist(connection):
        require_all(connection, website)
        if not has_any_copy(connection, website):
            begin(connection, website, "joined", lacks=reason)
        connection.execute(
            "/* cluster_tables.change */ update cluster_copy set changes = changes + 1, reason = ?,"
            " held_ms = 1000 * strftime('%s', 'now') where website = ? and state != 'ended'",
            (reason, website),
        )


def is_changing(connection: sqlite3.Connection, website: int) -> bool:
    """Return whether events of a website are being deleted, rewritten or undone in steps, which need all of them."""
    undoing = {number for number, _ in import_records.undoing(connection)}
    return website in undoing or deletion_records.is_running(connection, website)


def end_all(connection: sqlite3.Connection, reason: str) -> None:
    """End all copies, in a transaction of the caller. Does nothing in a file without the tables. Raises
    UnloadedDays."""
    if exist(connection):
        require_all(connection)
        connection.execute(
            "/* cluster_tables.end_all */ update cluster_copy set state = 'ended', reason = ? where state != 'ended'",
            (reason,),
        )


def expire(connection: sqlite3.Connection, website: int, day: int) -> None:
    """Record that the events of a website before a day expire, before they are deleted."""
    if exist(connection):
        connection.execute(
            "/* cluster_tables.expire */ update cluster_copy set from_day = ?1"
            " where website = ?2 and state != 'ended' and from_day < ?1",
            (day, website),
        )


def require_all(connection: sqlite3.Connection, website: int | None = None) -> None:
    """Raise UnloadedDays where the file lacks events of a website, or of any, which its copy has."""
    if exist(connection):
        row = connection.execute(
            "/* cluster_tables.unloaded */ select 1 from cluster_copy where state != 'ended' and from_day < own_day"
            " and website = coalesce(?, website) limit 1",
            (website,),
        ).fetchone()
        if row is not None:
            raise UnloadedDays


class Unloaded(NamedTuple):
    """Days whose events a copy alone has: how many, and a hash of their export."""

    copy: int
    first: int
    end: int
    events: int
    digest: bytes


def unload(connection: sqlite3.Connection, days: Unloaded) -> None:
    """Record that the file has the events of some days no more, before they are deleted."""
    connection.execute(
        "/* cluster_tables.day */ insert into cluster_day (copy, first_day, end_day, events, digest)"
        " values (?, ?, ?, ?, ?)",
        days,
    )
    _set_own_day(connection, days.copy, days.end)


def begin_load(connection: sqlite3.Connection, copy: Copy, now_ms: int) -> None:
    """Record that unloaded days of a copy, whose rows are deleted, are put back: nothing is unloaded for a day."""
    connection.execute(
        "/* cluster_tables.begin_load */ update cluster_copy set held_ms = ? where copy = ?", (now_ms, copy.copy)
    )


def end_load(connection: sqlite3.Connection, copy: Copy) -> None:
    """Record that days may be unloaded again, unless they are put back once more."""
    connection.execute(
        "/* cluster_tables.end_load */ update cluster_copy set held_ms = 0 where copy = ? and held_ms = ?",
        (copy.copy, copy.held_ms),
    )


def loading_end(connection: sqlite3.Connection, website: int) -> int:
    """Return the day before which rows are of days that are put back, and not complete; 0 where there are none."""
    copy = copy_of(connection, website) if exist(connection) else None
    return copy.own_day if copy is not None and copy.held_ms else 0


def load(connection: sqlite3.Connection, days: Unloaded) -> None:
    """Record that the file has the events of the last unloaded days again."""
    connection.execute(
        "/* cluster_tables.loaded */ delete from cluster_day where copy = ? and first_day = ?", (days.copy, days.first)
    )
    _set_own_day(connection, days.copy, days.first)


def _set_own_day(connection: sqlite3.Connection, copy: int, day: int) -> None:
    connection.execute("/* cluster_tables.own_day */ update cluster_copy set own_day = ? where copy = ?", (day, copy))


def unloaded_events(connection: sqlite3.Connection, website: int, end: int) -> int:
    """Return how many events before a day ClickHouse alone has of a website."""
    copy = copy_of(connection, website) if exist(connection) else None
    days = [] if copy is None else unloaded_days(connection, copy.copy)
    return sum(one.events for one in days if one.end <= end)


def unloaded_days(connection: sqlite3.Connection, copy: int) -> list[Unloaded]:
    """Return what was recorded of the days that a copy alone has, of which none has expired."""
    rows = connection.execute(
        "/* cluster_tables.days */ select cluster_day.* from cluster_day join cluster_copy using (copy)"
        " where copy = ? and first_day >= from_day order by first_day",
        (copy,),
    )
    return [Unloaded(*row) for row in rows]


def last_unloaded(connection: sqlite3.Connection, copy: int) -> Unloaded:
    """Return what was recorded of the newest days that a copy alone has."""
    row = connection.execute(
        "/* cluster_tables.last_day */ select * from cluster_day where copy = ? order by first_day desc limit 1",
        (copy,),
    ).fetchone()
    return Unloaded(*row)
