"""Accounts, websites and API keys: what the owner sets up. Plain SQL on a sqlite3 connection.

Used by the command line (its own process) and by the server, which reads everything here into memory and looks again
when another process has written. A function that writes leaves the transaction to its caller.

API keys are stored as a hash keyed with the file's own random salt: the file holds nothing that a key could be
recognised by without it. Passwords are stored as argon2id. Neither is ever logged.
"""

import re
import secrets
import sqlite3
import uuid
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

from tally.timestamps import DAY_MS

# CONTRACT-2 H: percentages of a month at which owners are warned.
USAGE_WARNINGS = (80, 100)
# CONTRACT, Plans.
PLANS = ("free", "pro", "business")
PLANS_WITH_KEYS = frozenset(("pro", "business"))
# our choice: long enough to tell keys apart at a glance, 48 bits of 256.
PREFIX_LENGTH = 12
_KEY_START = "tly_"
# our choice: the account that the first `website add` makes has to be called something.
FIRST_ACCOUNT = "owner@localhost"


class AccountError(ValueError):
    """What was asked cannot be done; the message says why and what to do."""


class DomainTaken(AccountError):
    """The account has a website of that domain; `id` is that website's."""

    def __init__(self, domain: str, id: str) -> None:
        super().__init__(f"There is a website {domain} already: {id}")
        self.id = id


class Account(NamedTuple):
    """Somebody who owns websites and keys."""

    number: int
    email: str
    plan: str


class Owner(NamedTuple):
    """An account as the server keeps it in memory."""

    number: int
    email: str
    plan: str
    time_zone: str | None
    has_password: bool
    # Digest of the stored password hash: another value after each change. b"" without a password.
    password_version: bytes


# Reading the rows of stale days one by one, 0.1 us each.
MAX_COUNTED = 200_000


class Website(NamedTuple):
    """A website as the server keeps it in memory; `number` is what the other tables call it."""

    number: int
    id: str
    domain: str
    name: str
    created_ms: int
    account: int
    plan: str
    origins: frozenset[str]


class Key(NamedTuple):
    """An API key without its value."""

    number: int
    account: int
    plan: str
    name: str
    prefix: str
    created_ms: int
    last_used_ms: int | None


def websites(connection: sqlite3.Connection) -> list[Website]:
    """Every website, oldest first."""
    origins: dict[int, set[str]] = {}
    for number, origin in connection.execute("/* accounts.origins */ select website, origin from allowed_origin"):
        origins.setdefault(number, set()).add(origin)
    rows = connection.execute(
        "/* accounts.websites */ select w.number, w.id, w.domain, w.name, w.created_ms, w.account, a.plan"
        " from website w join account a on a.number = w.account order by w.created_ms, w.number"
    )
    return [Website._make((*row, frozenset(origins.get(row[0], ())))) for row in rows]


def own_hosts(connection: sqlite3.Connection, number: int) -> tuple[str, frozenset[str]]:
    """Return a website's domain and allowed extra origins; the domain is "" where there is no such website."""
    row = connection.execute("/* accounts.domain */ select domain from website where number = ?", (number,)).fetchone()
    origins = connection.execute(
        "/* accounts.origins_of */ select origin from allowed_origin where website = ?", (number,)
    )
    return row[0] if row else "", frozenset(origin for (origin,) in origins)


def website_is_there(connection: sqlite3.Connection, number: int) -> bool:
    """Whether the website of that number has not been deleted."""
    return (
        connection.execute("/* accounts.is_there */ select 1 from website where number = ?", (number,)).fetchone()
        is not None
    )


def keys(connection: sqlite3.Connection) -> dict[bytes, Key]:
    """Every API key by its digest."""
    rows = connection.execute(
        "/* accounts.keys */ select k.digest, k.number, k.account, a.plan, k.name, k.prefix, k.created_ms,"
        " k.last_used_ms from api_key k join account a on a.number = k.account order by k.number"
    )
    return {digest: Key(*rest) for digest, *rest in rows}


def owners(connection: sqlite3.Connection) -> dict[int, Owner]:
    """Every account by its number, oldest first."""
    rows = connection.execute(
        "/* accounts.owners */ select number, email, plan, time_zone, password_hash from account order by number"
    )
    return {
        number: Owner(number, email, plan, zone, stored is not None, _password_version(stored))
        for number, email, plan, zone, stored in rows
    }


def _password_version(stored: str | None) -> bytes:
    return b"" if stored is None else blake2b(stored.encode(), digest_size=16).digest()


def shares(connection: sqlite3.Connection) -> dict[str, str]:
    """The id of every website that has a shared link, by the link's token."""
    return dict(
        connection.execute(
            "/* accounts.shares */ select share_link.token, website.id from share_link"
            " join website on website.number = share_link.website order by share_link.website"
        )
    )


def usage(connection: sqlite3.Connection, month: int) -> dict[tuple[int, int], int]:
    """Accepted events of a month (202611), by account number and month."""
    rows = connection.execute(
        "/* accounts.usage */ select account, events from account cross join account_usage"
        " on account_usage.account = account.number and month = ?",
        (month,),
    )
    return {(account, month): events for account, events in rows}


def month_of(ms: int) -> int:
    """The UTC calendar month of a moment, as 202611."""
    return _month_of_day(ms // 86_400_000)


@lru_cache(maxsize=8)  # asked twice for each event, nearly always of today
def _month_of_day(day: int) -> int:
    moment = datetime.fromtimestamp(day * 86_400, UTC)
    return moment.year * 100 + moment.month


def month_ends_in_s(ms: int) -> int:
    """Whole seconds, at least 1, until the next UTC month begins."""
    moment = datetime.fromtimestamp(ms / 1000, UTC)
    year, month = (moment.year + 1, 1) if moment.month == 12 else (moment.year, moment.month + 1)
    return max(1, -(-(int(datetime(year, month, 1, tzinfo=UTC).timestamp()) * 1000 - ms) // 1000))


def key_salt(connection: sqlite3.Connection) -> bytes:
    """The salt of this file's key hashes."""
    return bytes.fromhex(
        connection.execute("/* accounts.key_salt */ select value from meta where name = 'key_salt'").fetchone()[0]
    )


def key_digest(value: str, salt: bytes) -> bytes:
    """What is stored of an API key: 32 bytes."""
    return blake2b(value.encode("utf-8", "surrogateescape"), digest_size=32, key=salt).digest()


def account(connection: sqlite3.Connection, email: str | None) -> Account:
    """The account of that address, or the only one where none is named. Raises AccountError."""
    rows = connection.execute("/* accounts.all */ select number, email, plan from account order by number").fetchall()
    if email is None:
        if len(rows) == 1:
            return Account(*rows[0])
        if not rows:
            raise AccountError(
                "There is no account yet: `website add DOMAIN` or `account create EMAIL` makes the first."
            )
        raise AccountError(f"There are {len(rows)} accounts: say which with --account EMAIL.")
    for row in rows:
        if row[1].lower() == email.lower():
            return Account(*row)
    raise AccountError(f"There is no account {email}: `account create {email}` makes it.")


def any_account(connection: sqlite3.Connection) -> bool:
    """Whether there is an account."""
    return connection.execute("/* accounts.any */ select 1 from account limit 1").fetchone() is not None


def check_email(email: str) -> None:
    """Raises AccountError for what is no e-mail address."""
    if not re.fullmatch(r"[^@\s\x00-\x1f]{1,64}@[^@\s\x00-\x1f]{1,255}", email):
        raise AccountError(f"{email!r} is no e-mail address.")


def one_line(text: str, what: str) -> str:
    """A name as it may be given to a website or a key. Raises AccountError."""
    if not text.isprintable() or len(text) > 100:
        raise AccountError(f"{what} is at most 100 characters on one line, without control characters.")
    return text


def create_account(
    connection: sqlite3.Connection, email: str, plan: str, password_hash: str | None, now_ms: int
) -> Account:
    """A new account. Raises AccountError for an address that is none or is taken."""
    check_email(email)
    try:
        row = connection.execute(
            "/* accounts.create */ insert into account (email, plan, password_hash, created_ms)"
            " values (?, ?, ?, ?) returning number",
            (email, plan, password_hash, now_ms),
        ).fetchone()
    except sqlite3.IntegrityError:
        raise AccountError(f"There is an account {email} already.") from None
    return Account(row[0], email, plan)


def set_plan(connection: sqlite3.Connection, email: str, plan: str) -> None:
    """Moves an account to another plan."""
    number = account(connection, email).number
    connection.execute("/* accounts.set_plan */ update account set plan = ? where number = ?", (plan, number))


def password_hash(connection: sqlite3.Connection, number: int) -> str | None:
    """The hash of an account's password; None where it has none."""
    statement = "/* accounts.password_hash */ select password_hash from account where number = ?"
    row = connection.execute(statement, (number,)).fetchone()
    return None if row is None else row[0]


def set_password_hash(
    connection: sqlite3.Connection, number: int, password_hash: str, instead_of: str | None = None
) -> None:
    """Sets an account's password; with `instead_of` only if it is that one still."""
    connection.execute(
        "/* accounts.set_password */ update account set password_hash = ? where number = ?"
        " and coalesce(password_hash = ?, 1)",
        (password_hash, number, instead_of),
    )


def set_email(connection: sqlite3.Connection, number: int, email: str) -> None:
    """Changes an account's address."""
    connection.execute("/* accounts.set_email */ update account set email = ? where number = ?", (email, number))


def set_time_zone(connection: sqlite3.Connection, number: int, name: str | None) -> None:
    """The time zone in which an account's figures are shown; None is the browser's own."""
    connection.execute("/* accounts.set_zone */ update account set time_zone = ? where number = ?", (name, number))


def add_website(
    connection: sqlite3.Connection, owner: Account, domain: str, name: str, origins: Iterable[str], now_ms: int
) -> str:
    """A new website of an account; its id."""
    id = str(uuid.uuid4())
    # Never a number that a deleted one had: rows of it may still be there.
    row = connection.execute(
        "/* accounts.add_website */ insert into website (number, id, account, domain, name, created_ms)"
        " values (1 + max((select coalesce(max(number), 0) from website),"
        " (select coalesce(max(website), 0) from deleted_website)), ?, ?, ?, ?, ?) returning number",
        (id, owner.number, domain, name, now_ms),
    ).fetchone()
    connection.executemany(
        "/* accounts.add_origin */ insert or ignore into allowed_origin (website, origin) values (?, ?)",
        [(row[0], origin) for origin in origins],
    )
    return id


def refuse_second(connection: sqlite3.Connection, owner: int, domain: str) -> None:
    """Raise DomainTaken where the account has a website of that domain."""
    row = connection.execute(
        "/* accounts.of_domain */ select id from website where account = ? and domain = ? order by number limit 1",
        (owner, domain),
    ).fetchone()
    if row is not None:
        raise DomainTaken(domain, row[0])


def is_there(connection: sqlite3.Connection, website: int) -> bool:
    """Whether there is a website of that number."""
    statement = "/* accounts.is_there */ select 1 from website where number = ?"
    return connection.execute(statement, (website,)).fetchone() is not None


def create_key(connection: sqlite3.Connection, owner: Account, name: str, now_ms: int) -> str:
    """A new API key of an account; its value, which is told this once. Raises AccountError on a plan without keys."""
    if owner.plan not in PLANS_WITH_KEYS:
        raise AccountError(
            f"{owner.email} is on the {owner.plan} plan, which has no API keys:"
            f" `account plan {owner.email} pro` raises it."
        )
    value = _KEY_START + secrets.token_urlsafe(32)
    connection.execute(
        "/* accounts.create_key */ insert into api_key (account, name, prefix, digest, created_ms)"
        " values (?, ?, ?, ?, ?)",
        (owner.number, name, value[:PREFIX_LENGTH], key_digest(value, key_salt(connection)), now_ms),
    )
    return value


def revoke_key(connection: sqlite3.Connection, prefix: str) -> Key:
    """Deletes the one key whose shown prefix begins with `prefix`, or is its beginning. Raises AccountError."""
    found = [key for key in keys(connection).values() if prefix and _is_meant(key.prefix, prefix)]
    if not found:
        raise AccountError(f"No key begins with {prefix!r}: `key list` shows them.")
    if len(found) > 1:
        raise AccountError(f"{len(found)} keys begin with {prefix!r}: give more of the prefix, see `key list`.")
    connection.execute("/* accounts.revoke_key */ delete from api_key where number = ?", (found[0].number,))
    return found[0]


def delete_key(connection: sqlite3.Connection, number: int) -> None:
    """Revokes the key of that number."""
    connection.execute("/* accounts.delete_key */ delete from api_key where number = ?", (number,))


def delete_keys(connection: sqlite3.Connection, account: int) -> None:
    """Revokes every API key of an account."""
    connection.execute("/* accounts.delete_keys */ delete from api_key where account = ?", (account,))


def _is_meant(shown: str, given: str) -> bool:
    # Somebody who still has the whole key may paste it; only its beginning is known here.
    return shown.startswith(given) or (len(given) > len(shown) and given.startswith(shown))


def note_use(connection: sqlite3.Connection, used: Iterable[tuple[int, int]]) -> None:
    """Notes when keys were last used: pairs of (milliseconds, key number)."""
    connection.executemany("/* accounts.note_use */ update api_key set last_used_ms = ? where number = ?", used)


class Traffic(NamedTuple):
    """How many traffic events a website has; at least so many where not `is_exact`."""

    events: int
    is_exact: bool


def traffic(connection: sqlite3.Connection, websites: Iterable[int]) -> dict[int, Traffic]:
    """Return the traffic events of each website, by its number.

    A row is read per quarter of an hour, 100,000 in 10 ms. The events of days whose totals an import has made stale are
    counted one by one, MAX_COUNTED of them at most in one call: 200,000 take about 20 ms.
    """
    found, left = {}, MAX_COUNTED
    for website in websites:
        sums = connection.execute(
            "/* accounts.traffic */ select coalesce(sum(pageviews + events), 0) from total_15m where website = ?",
            (website,),
        )
        events, is_exact = int(sums.fetchone()[0]), True
        stale = connection.execute(
            "/* accounts.stale_days */ select block from rollup_state"
            " where website = ? and level = 0 and state < 2 and state = 0 order by block",
            (website,),
        )
        for (day,) in stale.fetchall():
            span = (website, day * DAY_MS, (day + 1) * DAY_MS)
            own = connection.execute(
                "/* accounts.stale_traffic */ select (select count(*) from (select 1 from event"
                " where website = ?1 and ts >= ?2 and ts < ?3 limit ?4)), (select coalesce(sum(pageviews + events), 0)"
                " from total_15m where website = ?1 and quarter >= ?2 / 900000 and quarter < ?3 / 900000)",
                (*span, left + 1),
            )
            counted, known = own.fetchone()
            is_exact = counted <= left
            if not is_exact:
                break
            events, left = events + counted - known, left - counted
        found[website] = Traffic(events, is_exact)
    return found


def change_website(connection: sqlite3.Connection, number: int, name: str, domain: str, origins: Iterable[str]) -> None:
    """Another name, domain and list of exact origins."""
    connection.execute(
        "/* accounts.change_website */ update website set name = ?, domain = ? where number = ?", (name, domain, number)
    )
    connection.execute("/* accounts.clear_origins */ delete from allowed_origin where website = ?", (number,))
    connection.executemany(
        "/* accounts.add_origin */ insert or ignore into allowed_origin (website, origin) values (?, ?)",
        [(number, origin) for origin in origins],
    )


def share_website(connection: sqlite3.Connection, number: int, token: str, now_ms: int) -> None:
    """A website's shared link; one that it had before opens nothing from now on."""
    connection.execute(
        "/* accounts.share */ insert or replace into share_link values (?, ?, ?)", (number, token, now_ms)
    )


def unshare_website(connection: sqlite3.Connection, number: int) -> None:
    """Withdraws a website's shared link."""
    connection.execute("/* accounts.unshare */ delete from share_link where website = ?", (number,))


def unshare_account(connection: sqlite3.Connection, account: int) -> None:
    """Revokes the share links of all websites of an account."""
    connection.execute(
        "/* accounts.unshare_all */ delete from share_link where website in (select number from website"
        " where account = ?)",
        (account,),
    )
