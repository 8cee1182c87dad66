"""Websites of an account: domain, name and allowed origins.

Plain SQL on a sqlite3 connection. A function that writes leaves the transaction to the caller. What is stored of a
deleted website is deleted in the background (tally/maintenance/deletion.py).
"""

import contextlib
import json
import re
import sqlite3
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from tally.accounts.accounts import Account, AccountError, AccountFull
from tally.accounts.usage import month_of
from tally.events.exclusions import Exclusions, Note
from tally.events.path_rules import PathRule
from tally.events.website import Website
from tally.timestamps import MINUTE_MS

if TYPE_CHECKING:  # reading time zone data takes longer than most commands
    from tally.timeranges import WeekStart

# Of an account. Each is in memory, and all of them are in one answer for the list of websites.
MAX_WEBSITES = 1_000
# One of these has a row as soon as anything is stored that has a day.
_WITH_DAYS = (
    *("event", "web_vitals", "experiment_event", "heatmap_point", "heatmap_count", "rollup_state", "packed_day"),
    *("web_vitals_histogram", "experiment_total", "imported_field", "import", "crawler_day"),
)


class WebsiteSettings(NamedTuple):
    """What the owner sets of a website besides its name, domain and origins. Time zone and currency may be unset.

    path_rules: for the paths of events that arrive.
    """

    time_zone: str | None
    week_start: "WeekStart"
    currency: str | None
    path_rules: tuple[PathRule, ...] = ()


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
    exclusions = all_exclusions(connection)
    rows = connection.execute(
        "/* websites.all */ select w.number, w.id, w.domain, w.name, w.created_ms, w.account, a.plan,"
        " w.time_zone, w.week_start, w.currency, w.day_offset_minutes, w.counts_crawlers,"
        " exists (select 1 from imported_field as own where own.website = w.number), w.path_rules"
        " from website w join account a on a.number = w.account order by w.created_ms, w.number"
    )
    return [
        Website._make(
            (
                *row[:7],
                frozenset(origins.get(row[0], ())),
                *row[7:10],
                bool(row[12]),
                exclusions.get(row[0]),
                row[10],
                bool(row[11]),
                tuple(PathRule(*rule) for rule in json.loads(row[13])),
            )
        )
        for row in rows
    ]


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
    websites = [website for website in all_websites(connection) if text.lower() in (website.id, website.domain)]
    if not websites:
        raise AccountError(f"There is no website {text}: list ids and domains with `website list`.")
    if len(websites) > 1:
        raise AccountError(f"{len(websites)} websites have the domain {text}: give the id (see `website list`).")
    return websites[0]


def add_website(
    connection: sqlite3.Connection,
    owner: Account,
    domain: str,
    name: str,
    origins: Iterable[str],
    now_ms: int,
    id: str | None = None,
    time_zone: str | None = None,
) -> str:
    """Create a website of an account and return its id, by default a random one. Raises AccountError for a known id.

    Its days begin at midnight of the time zone's standard time.
    """
    if id is None:
        id = str(uuid.uuid4())
    elif any(website.id == id for website in all_websites(connection)):
        raise AccountError(f"There is already a website with the id {id}.")
    number = next_number(connection)
    connection.execute(
        "/* websites.add */ insert into website (number, id, account, domain, name, created_ms,"
        " time_zone, day_offset_minutes) values (?, ?, ?, ?, ?, ?, ?, ?)",
        (number, id, owner.number, domain, name, now_ms, time_zone, _offset_of(time_zone, now_ms)),
    )
    _add_origins(connection, number, origins)
    return id


def next_number(connection: sqlite3.Connection) -> int:
    """Return the number of the next website. That of a deleted one is not assigned again: tables may still have its
    rows."""
    row = connection.execute(
        "/* websites.next */ select 1 + max((select coalesce(max(number), 0) from website),"
        " (select coalesce(max(website), 0) from deleted_website))"
    ).fetchone()
    return int(row[0])


def check_website_count(connection: sqlite3.Connection, owner: int) -> None:
    """Raise AccountFull if the account has MAX_WEBSITES."""
    statement = "/* websites.count */ select count(*) from website where account = ?"
    if connection.execute(statement, (owner,)).fetchone()[0] >= MAX_WEBSITES:
        raise AccountFull(f"The account has {MAX_WEBSITES:,} websites, the most that it may have: delete one first.")


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


def update_settings(connection: sqlite3.Connection, number: int, new: WebsiteSettings, now_ms: int) -> None:
    """Set a website's settings; while it has no data, its days follow the time zone."""
    row = connection.execute("/* websites.zone */ select time_zone from website where number = ?", (number,)).fetchone()
    if row is not None and row[0] != new.time_zone:
        place_days(connection, number, new.time_zone, _offset_of(new.time_zone, now_ms))
    connection.execute(
        "/* websites.settings */ update website set time_zone = ?, week_start = ?, currency = ?, path_rules = ?"
        " where number = ?",
        (*new[:3], json.dumps([[rule.pattern, rule.replacement] for rule in new.path_rules]), number),
    )


def place_days(connection: sqlite3.Connection, number: int, time_zone: str | None, offset_minutes: int) -> None:
    """Set a website's time zone and when its days begin, unless it has data."""
    if not has_data(connection, number):
        connection.execute(
            "/* websites.place_days */ update website set time_zone = ?, day_offset_minutes = ? where number = ?",
            (time_zone, offset_minutes, number),
        )


def day_offset_ms(connection: sqlite3.Connection, number: int) -> int:
    """Return what is added to UTC for a website's time; 0 if there is no such website."""
    row = connection.execute(
        "/* websites.offset */ select day_offset_minutes from website where number = ?", (number,)
    ).fetchone()
    return 0 if row is None else int(row[0]) * MINUTE_MS


def day_offsets_ms(connection: sqlite3.Connection) -> dict[int, int]:
    """Return what is added to UTC for the time of each website, by its number, in order."""
    rows = connection.execute("/* websites.offsets */ select number, day_offset_minutes from website order by number")
    return {number: minutes * MINUTE_MS for number, minutes in rows}


def has_data(connection: sqlite3.Connection, number: int) -> bool:
    """Return whether a website has or had data, so that its days can not begin at another time."""
    any_row = " or ".join(f"exists (select 1 from {table} where website = ?1)" for table in _WITH_DAYS)
    return bool(connection.execute(f"/* websites.has_data */ select {any_row}", (number,)).fetchone()[0])


def _offset_of(time_zone: str | None, now_ms: int) -> int:
    """Return the minutes from UTC to a zone's standard time, the smaller offset of a year, in whole quarter hours."""
    if time_zone is None:
        return 0
    from tally.timeranges import standard_offset_minutes  # here: most commands do not need time zones

    return standard_offset_minutes(time_zone, now_ms)


@contextlib.contextmanager
def secure_delete(connection: sqlite3.Connection) -> Iterator[None]:
    """Have SQLite overwrite deleted content within the context."""
    before = connection.execute("pragma secure_delete").fetchone()[0]
    connection.execute("pragma secure_delete = 1").fetchall()
    try:
        yield
    finally:
        connection.execute(f"pragma secure_delete = {int(before)}").fetchall()


def delete_website(connection: sqlite3.Connection, website: int, now_ms: int) -> bool:
    """Delete a website, and subtract its events from its account's usage of the month; return whether it existed."""
    connection.execute(
        "/* websites.delete_usage */ update account_usage set events = max(0, events - coalesce("
        "(select events from website_usage as own where own.website = ?1 and own.month = ?2), 0))"
        " where account = (select account from website where number = ?1) and month = ?2",
        (website, month_of(now_ms)),
    )
    with secure_delete(connection):
        done = connection.execute("/* websites.delete */ delete from website where number = ?", (website,))
    connection.execute(
        "/* websites.record_deletion */ insert or ignore into deleted_website (website, deleted_ms, is_complete)"
        " values (?, ?, 0)",
        (website, now_ms),
    )
    return done.rowcount == 1


def check_currency(text: str) -> str:
    """Return a currency's code. Raises AccountError where it is not three capital letters, as in ISO 4217."""
    if not re.fullmatch("[A-Z]{3}", text):
        raise AccountError("A currency must be a code of ISO 4217 in capital letters, such as EUR.")
    return text


def _add_origins(connection: sqlite3.Connection, number: int, origins: Iterable[str]) -> None:
    connection.executemany(
        "/* websites.add_origin */ insert or ignore into allowed_origin (website, origin) values (?, ?)",
        [(number, origin) for origin in origins],
    )


def all_exclusions(connection: sqlite3.Connection) -> dict[int, Exclusions]:
    """Return the exclusions of each website that has any, by its number."""
    lists: dict[int, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    notes: dict[int, dict[tuple[str, str], Note]] = defaultdict(dict)
    statement = (
        "/* websites.exclusions */ select website, kind, value, note, added_by from exclusion"
        " order by website, kind, value"
    )
    for website, kind, value, note, added_by in connection.execute(statement):
        lists[website][kind].append(value)
        notes[website][kind, value] = Note(note, added_by)
    switches: dict[int, dict[str, bool]] = {}
    statement = (
        "/* websites.switches */ select number, counts_referrer_spam, excludes_datacenters, only_countries from website"
        " where counts_referrer_spam = 1 or excludes_datacenters = 1 or only_countries = 1"
    )
    for website, counts_listed, excludes_datacenters, only_countries in connection.execute(statement):
        switches[website] = {
            "counts_listed": bool(counts_listed),
            "excludes_datacenters": bool(excludes_datacenters),
            "only_countries": bool(only_countries),
        }
    return {
        number: Exclusions(lists[number], notes=notes[number], **switches.get(number, {}))
        for number in lists.keys() | switches.keys()
    }


def set_exclusions(
    connection: sqlite3.Connection,
    website: int,
    lists: Mapping[str, Mapping[str, str | None]],
    switches: Mapping[str, bool],
    person: int | None = None,
) -> None:
    """Replace the given lists of a website, and set the given columns, such as counts_crawlers.

    A list has the note of each value; None: the stored one stays. `person`: who adds those that are new; None is an API
    key.
    """
    for column, is_on in switches.items():
        connection.execute(f"/* websites.switch */ update website set {column} = ? where number = ?", (is_on, website))
    for kind, notes in lists.items():
        statement = "/* websites.added_by */ select value, note, added_by from exclusion where website = ? and kind = ?"
        stored = {value: rest for value, *rest in connection.execute(statement, (website, kind))}
        connection.execute(
            "/* websites.clear_exclusions */ delete from exclusion where website = ? and kind = ?", (website, kind)
        )
        connection.executemany(
            "/* websites.add_exclusions */ insert into exclusion (website, kind, value, note, added_by)"
            " values (?, ?, ?, ?, ?)",
            [
                (website, kind, value, stored_note if note is None else note, added_by)
                for value, note in notes.items()
                for stored_note, added_by in (stored.get(value, ("", person)),)
            ],
        )
