"""How a database of an older version becomes one of the next: one function a step, never changed once released.

schema.sql is always the newest shape; a step here says in full what it adds to the shape before it, since schema.sql
goes on changing. Each runs in one transaction together with its version number, and has to be quick: the server listens
only afterwards. What takes long is left to the background, as a mark that says it is to be done.
"""

import sqlite3
from collections.abc import Callable

Migration = Callable[[sqlite3.Connection], None]

_ROLLUPS = (
    "/* migrations.keep_days */ alter table website add column keep_days integer check (keep_days >= 0)",
    """/* migrations.moment */ create table moment (
  website integer not null, quarter integer not null, views integer not null, events integer not null,
  firsts integer not null, lasts integer not null, hour_visitors integer not null, visits integer not null,
  bounces integer not null, visit_views integer not null, visit_ms integer not null,
  primary key (website, quarter)
) strict, without rowid""",
    """/* migrations.rollup */ create table rollup (
  website integer not null, field integer not null check (field between 0 and 14),
  level integer not null check (level between 0 and 8), block integer not null, value integer not null,
  visitors integer not null, views integer not null, events integer not null,
  primary key (website, field, level, block, value)
) strict, without rowid""",
    """/* migrations.built */ create table built (
  website integer not null, level integer not null, block integer not null,
  state integer not null check (state between 0 and 3), folded_ms integer not null, version integer not null,
  primary key (website, level, block)
) strict, without rowid""",
    "/* migrations.unfinished */ create index built_unfinished on built (website, block) where level = 0 and state < 2",
    """/* migrations.pair */ create table pair (
  website integer not null, day integer not null, visitor integer not null, field integer not null,
  value integer not null,
  primary key (website, day, visitor, field, value)
) strict, without rowid""",
)


def _add_rollups(connection: sqlite3.Connection) -> None:
    """Version 2: totals, rollups, how long events are kept.

    Every day with traffic begins as stale (0), to be built in the background.
    """
    for statement in _ROLLUPS:
        connection.execute(statement)
    for (website,) in connection.execute("/* migrations.websites */ select number from website").fetchall():
        # One lookup a day with traffic, rather than a look at every event.
        day = _next_day(connection, website, 0)
        while day is not None:
            connection.execute(
                "/* migrations.stale */ insert into built values (?, 0, ?, 0, ?, 1)", (website, day, day * 86_400_000)
            )
            day = _next_day(connection, website, day + 1)


def _next_day(connection: sqlite3.Connection, website: int, first: int) -> int | None:
    row = connection.execute(
        "/* migrations.next_day */ select ts / 86400000 from event where website = ? and ts >= ? order by ts limit 1",
        (website, first * 86_400_000),
    ).fetchone()
    return None if row is None else int(row[0])


_PAGES = (
    "/* migrations.time_zone */ alter table account add column time_zone text",
    """/* migrations.login */ create table login (
  digest blob not null primary key check (length(digest) = 32),
  account integer not null references account (number) on delete cascade,
  created_ms integer not null, ends_ms integer not null
) strict, without rowid""",
    """/* migrations.share */ create table share (
  website integer not null primary key references website (number) on delete cascade,
  token text not null unique check (length(token) = 24), created_ms integer not null
) strict""",
    """/* migrations.gone */ create table gone (
  website integer not null primary key, deleted_ms integer not null,
  is_over integer not null check (is_over in (0, 1))
) strict""",
)


def _add_pages(connection: sqlite3.Connection) -> None:
    """Version 3: logins, links that share a website, websites being deleted, an account's time zone."""
    for statement in _PAGES:
        connection.execute(statement)


_LEFT_OUT = (
    """/* migrations.left_out */ create table left_out (
  website integer not null, quarter integer not null, reason integer not null check (reason between 0 and 63),
  events integer not null check (events > 0),
  primary key (website, quarter, reason)
) strict, without rowid""",
    """/* migrations.left_out_sample */ create table left_out_sample (
  website integer not null, reason integer not null check (reason between 0 and 63), id integer not null,
  ms integer not null, type integer check (type between 0 and 7), field text not null,
  detail text not null check (length(detail) <= 253),
  primary key (website, reason, id)
) strict, without rowid""",
)


def _add_left_out(connection: sqlite3.Connection) -> None:
    """Version 4: what was left out."""
    for statement in _LEFT_OUT:
        connection.execute(statement)


_VITALS = (
    """/* migrations.histogram */ create table histogram (
  website integer not null, cut integer not null check (cut between 0 and 2),
  level integer not null check (level in (-6, -3, -1, 0, 3, 6)), block integer not null, value integer not null,
  events integer not null, poor_lcp integer not null, poor_inp integer not null, poor_fcp integer not null,
  poor_ttfb integer not null, poor_cls integer not null, cells blob not null,
  primary key (website, cut, level, block, value)
) strict, without rowid""",
    "/* migrations.old_vitals */ alter table vitals rename to old_vitals",
    """/* migrations.vitals */ create table vitals (
  website integer not null, ts integer not null, id integer not null, pathname integer not null,
  referrer integer not null, country integer not null, browser integer not null, os integer not null,
  device integer not null, language integer not null, hostname integer not null, utm_source integer not null,
  utm_medium integer not null, utm_campaign integer not null, platform integer not null,
  app_version integer not null, os_version integer not null,
  lcp integer check (lcp between 0 and 3600000000), inp integer check (inp between 0 and 3600000000),
  fcp integer check (fcp between 0 and 3600000000), ttfb integer check (ttfb between 0 and 3600000000),
  cls integer check (cls between 0 and 100000000),
  primary key (website, ts, id)
) strict, without rowid""",
    """/* migrations.move_vitals */ insert into vitals select website, ts, id, pathname, referrer, country, browser, os,
  device, language, hostname, utm_source, utm_medium, utm_campaign, platform, app_version, os_version,
  cast(round(lcp * 1000) as integer), cast(round(inp * 1000) as integer), cast(round(fcp * 1000) as integer),
  cast(round(ttfb * 1000) as integer), cast(round(cls * 1000000) as integer) from old_vitals""",
    "/* migrations.drop_vitals */ drop table old_vitals",
    """/* migrations.pending */ insert into meta
  select 'histograms:' || number, (select value from meta where name = 'next_id') || ' 0 0' from website
  where exists (select 1 from vitals where vitals.website = number)""",
)


_TRIALS = (
    """/* migrations.conversion */ create table conversion (
  website integer not null, day integer not null, experiment integer not null, visitor integer not null,
  goal integer not null,
  primary key (website, day, experiment, visitor, goal)
) strict, without rowid""",
    """/* migrations.trial */ create table trial (
  website integer not null, day integer not null, experiment integer not null, variant integer not null,
  converted integer not null check (converted between 0 and 1), goal integer not null,
  visitors integer not null check (visitors > 0),
  primary key (website, day, experiment, variant, converted, goal)
) strict, without rowid""",
    """/* migrations.convert */ insert into conversion select distinct website, ts / 86400000, experiment, visitor, goal
  from ab where type = 7""",
    """/* migrations.assigned */ insert into trial select website, day, experiment, variant, 0, 0, count(*)
  from assignment group by 1, 2, 3, 4""",
    """/* migrations.converted */ insert into trial select website, day, experiment, variant, 1, goal, count(*)
  from conversion join assignment using (website, day, experiment, visitor) group by 1, 2, 3, 4, 6""",
)


def _add_histograms(connection: sqlite3.Connection) -> None:
    """Version 5: histograms of web vitals, to be filled in the background; their metrics as whole numbers; the
    counts of experiments.

    The one step that copies rows: 2 to 3 seconds a million web vitals.
    """
    for statement in (*_VITALS, *_TRIALS):
        connection.execute(statement)


_HEAT = (
    """/* migrations.heat_block */ create table heat_block (
  website integer not null, pathname integer not null, band integer not null check (band between 0 and 200),
  level integer not null check (level in (0, 3, 6)), block integer not null,
  mobile blob not null, tablet blob not null, desktop blob not null,
  primary key (website, pathname, band, level, block)
) strict, without rowid""",
    """/* migrations.heat_count */ create table heat_count (
  website integer not null, level integer not null check (level between 0 and 8), block integer not null,
  pathname integer not null, mobile_clicks integer not null, mobile_samples integer not null,
  tablet_clicks integer not null, tablet_samples integer not null,
  desktop_clicks integer not null, desktop_samples integer not null,
  primary key (website, level, block, pathname)
) strict, without rowid""",
)


def _add_packed_heatmaps(connection: sqlite3.Connection) -> None:
    """Version 6: heatmaps packed. What is in `heat` is read from there until it is packed, in the background."""
    for statement in _HEAT:
        connection.execute(statement)


_LISTS = (
    """/* migrations.visit_page */ create table visit_page (
  website integer not null, level integer not null check (level in (0, 3, 6)), block integer not null,
  value integer not null, entries integer not null, entry_bounces integer not null, entry_views integer not null,
  entry_ms integer not null, exits integer not null, exit_bounces integer not null, exit_views integer not null,
  exit_ms integer not null,
  primary key (website, level, block, value)
) strict, without rowid""",
    """/* migrations.unnamed */ create table unnamed (
  website integer not null, level integer not null, block integer not null,
  primary key (website, level, block)
) strict, without rowid""",
    # Days on which events still arrive are folded anew; they are few.
    """/* migrations.fold_anew */ update built set state = 0, folded_ms = block * 86400000, version = version + 1
  where level = 0 and state = 1 and website in (select number from website)""",
    """/* migrations.to_be_named */ insert into unnamed select website, level, block from built
  where website in (select number from website) and (level > 0 or state >= 2)""",
    # A day without traffic that only says from when on events are kept lacks nothing.
    """/* migrations.lacks_nothing */ delete from unnamed where level = 0 and website in (select number from website)
  and not exists (select 1 from rollup
  where rollup.website = unnamed.website and field = 14 and rollup.level = 0 and rollup.block = unnamed.block)""",
    """/* migrations.empty_pages */ insert into visit_page select website, 0, block, 0, 0, 0, 0, 0, 0, 0, 0, 0
  from built where website in (select number from website) and level = 0 and state = 3
  and not exists (select 1 from unnamed
  where unnamed.website = built.website and unnamed.level = 0 and unnamed.block = built.block)""",
)


def _add_lists(connection: sqlite3.Connection) -> None:
    """Version 7: event names among the values of days, entry and exit pages; to be added in the background."""
    for statement in _LISTS:
        connection.execute(statement)


MIGRATIONS: tuple[Migration, ...] = (
    _add_rollups,
    _add_pages,
    _add_left_out,
    _add_histograms,
    _add_packed_heatmaps,
    _add_lists,
)
"""The n-th brings a file of version n + 1 to n + 2. Statements only, no commit."""
