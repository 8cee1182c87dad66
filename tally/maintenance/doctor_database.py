"""The checks of `doctor` that read the database: damage, clock, events in the future, proxies, metrics.

What the running server observed (its clock, the forwarded headers of requests) is read from table meta
(tally/storage/meta.py). Each check yields Findings and changes nothing; the database is opened read-only, with or
without a running server. The other checks are in tally/maintenance/doctor_checks.py.
"""

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from tally.accounts.websites import day_offsets_ms
from tally.clock import CONFIRMED_AFTER_MS, MAX_STEP_MS, MAX_TRUSTED_STOP_MS
from tally.columns import column_days
from tally.maintenance.doctor_checks import Case, Finding, fault, fine, note, sized
from tally.maintenance.upgrade import ADVICE, Plan, plan, way_back
from tally.rounding import counted
from tally.storage import meta
from tally.storage.database import VERSION, BadDatabase, NewerDatabase, known_version, open_unchanged, with_schema
from tally.storage.schema_check import differences
from tally.timestamps import DAY_MS, HOUR_MS, in_words, iso

HELD = f"{CONFIRMED_AFTER_MS // HOUR_MS} hours"
# quick_check reports up to 100 lines for one damaged page.
_MAX_FAULTS = 3


def database(case: Case) -> Iterator[Finding]:
    """Yield the findings of all checks that read the database."""
    has_log = case.log.exists()
    try:
        connection = open_unchanged(case.path)
    except BadDatabase as bad:
        text = way_back(bad, case.settings) if isinstance(bad, NewerDatabase) else str(bad)
        words, _, todo = text.partition(": ")
        yield fault("database", words, todo)
        return
    try:
        yield from _in_the_file(connection, case)
    except sqlite3.DatabaseError as failure:
        yield _damaged(str(failure))
    finally:
        connection.close()
        if not has_log and case.pid is None:
            _tidy(case.path)


def _tidy(path: Path) -> None:
    """Remove the empty log that a read-only connection created and cannot delete."""
    with (
        contextlib.suppress(sqlite3.Error),
        contextlib.closing(with_schema(sqlite3.connect(path, timeout=0))) as connection,
    ):
        connection.execute("pragma user_version").fetchone()


def _in_the_file(connection: sqlite3.Connection, case: Case) -> Iterator[Finding]:
    version = known_version(connection, case.path)
    size = f"{sized(case.path.stat().st_size)}, version {version}"
    if version < VERSION:
        yield _upgrade(size, plan(case.settings))
    else:
        yield from _schema(connection)
    for check in (_clock, _newest, _proxies, _metrics):
        yield from check(connection, case)
    if case.is_quick:
        yield fine("database", f"{size}; not read as a whole (--quick)")
        return
    wrong = [row[0] for row in connection.execute(f"pragma quick_check({_MAX_FAULTS})").fetchall()]
    if wrong != ["ok"]:
        yield _damaged(wrong[0])
        return
    yield fine("database", f"{size}; every page was read and is sound")
    # An older file has other tables.
    days = [day for _, day in column_days.damaged(connection)] if version == VERSION else []
    if days:
        yield fault(
            "columns",
            f"those of {counted(len(days), 'day')} are damaged, such as {iso(days[0] * DAY_MS)[:10]}",
            "`verify` says which; restore a backup made before the damage, and have the disk looked at",
        )


def _schema(connection: sqlite3.Connection) -> Iterator[Finding]:
    if found := differences(connection):
        yield fault(
            "schema",
            f"differs from that of Tally: {found}",
            "undo it if you have made it, since `restore` refuses a copy of this file; otherwise put an earlier backup"
            " in its place",
        )


def _upgrade(size: str, upgrade: Plan) -> Finding:
    words = f"{size}: the next start upgrades it to version {upgrade.newest}"
    if upgrade.obstacle:
        return fault("database", f"{words}, and is refused, because no copy could be made: {upgrade.obstacle}", ADVICE)
    where = f"it makes a copy in {upgrade.directory}" if upgrade.directory else "it makes no copy (--upgrade-backup no)"
    return note("database", f"{words}; {where}")


def _damaged(words: str) -> Finding:
    return fault(
        "database",
        f"is damaged: {' '.join(words.split())}",
        "stop the server, keep a copy of the file as it is, and put the newest backup in its place with `restore`;"
        " then have the disk looked at",
    )


# --- the clock


def _clock(connection: sqlite3.Connection, case: Case) -> Iterator[Finding]:
    noted = meta.clock_state(connection)
    now = iso(case.now_ms)[:16].replace("T", " ")
    if noted is None:
        yield note("clock", f"{now} UTC; no server has noted the time in this file yet")
        return
    behind_ms = noted.monotonic_wall_ms - case.now_ms
    if behind_ms > MAX_STEP_MS:
        yield fault(
            "clock",
            f"{now} UTC, which is {in_words(behind_ms)} before what the server has noted",
            "compare with a clock that is right and set this one (timedatectl, chrony); if it is right now, it was"
            f" wrong before: the server accepts it after {HELD} of running",
        )
    elif abs(noted.ahead_ms) > MAX_STEP_MS:
        yield fault(
            "clock",
            f"was set {'forward' if noted.ahead_ms > 0 else 'back'} by {in_words(noted.ahead_ms)} while the server ran",
            "compare with a clock that is right; if this one is wrong, set it now. Nothing is deleted by the new time"
            f" until it has held for {HELD} of running, so far {in_words(noted.confirmed_ms)}",
        )
    elif noted.unconfirmed_ms > MAX_TRUSTED_STOP_MS and case.pid is not None:
        yield note(
            "clock",
            f"{now} UTC; the server was off for {in_words(noted.unconfirmed_ms)}, or the clock was set forward",
            f"compare with a clock that is right. Nothing is deleted by the new time until it has held for {HELD} of"
            f" running, so far {in_words(noted.confirmed_ms)}",
        )
    else:
        yield fine("clock", f"{now} UTC; the server noted the time {in_words(behind_ms)} ago")


def newest_ms(connection: sqlite3.Connection, after_ms: int) -> int | None:
    """Return the time of the newest event of all websites after a time; None if there is none."""
    statement = (
        "/* doctor_database.newest */ select ts from event where website = ? and ts > ? order by ts desc limit 1"
    )
    newest = [
        (connection.execute(statement, (website, after_ms + offset_ms)).fetchone(), offset_ms)
        for website, offset_ms in day_offsets_ms(connection).items()
    ]
    return max((row[0] - offset_ms for row, offset_ms in newest if row), default=None)


def _newest(connection: sqlite3.Connection, case: Case) -> Iterator[Finding]:
    """Check for events in the future: a clock was ahead when they arrived, or is behind now."""
    newest = newest_ms(connection, case.now_ms + HOUR_MS)
    if newest is not None:
        yield note(
            "clock",
            f"there are events up to {iso(newest)[:16].replace('T', ' ')} UTC, in the future",
            "if the clock is right now, it was ahead when they came: they show up when that day comes",
        )


# --- proxies


def _proxies(connection: sqlite3.Connection, case: Case) -> Iterator[Finding]:
    seen = meta.read(connection, meta.PROXIES)
    try:
        header, kinds = str(seen["header"]), set(seen["seen"])
        networks, others = list(map(str, seen["networks"])), list(map(str, seen["others"]))
    except (TypeError, KeyError):
        yield note("proxies", "no request has been recorded: start the server, send one, and run doctor again")
        return
    for network in networks:
        yield fault(
            "proxies",
            f"{header} came from an address in {network}, which is not trusted: all its requests count as one visitor",
            f"if that is your proxy, start the server with --trusted-proxy {network}",
        )
    if others and "trusted" not in kinds:
        yield fault(
            "proxies",
            f"{', '.join(others)} came in requests, and {header}, which the server reads, did not",
            f"have the proxy set {header} to the visitor's address, or start the server with --forwarded-header"
            f" {others[0]}, if only the proxy can set that",
        )
    elif "bare" in kinds:
        yield fault(
            "proxies",
            f"requests came from this machine as HTTP/1.0 without {header}, as from an nginx that only has a"
            " proxy_pass: all visitors behind the proxy are counted as one",
            f"have the proxy set {header}, X-Forwarded-Proto and Host: docs/deployment.md",
        )
    elif "trusted" in kinds:
        yield fine("proxies", f"a trusted proxy sets {header}")
    elif not networks and "alone" in kinds:
        yield note(
            "proxies",
            f"requests came from this machine without {header}, which is fine if there is no proxy",
            f"a proxy must set {header}: without it all visitors behind it are counted as one, and without"
            " --metrics-token /metrics is public",
        )
    elif not networks and kinds:
        yield fine("proxies", "there is none: clients connect directly")
    elif not networks:
        yield note("proxies", "nothing has come in since the server was started")


# --- metrics


def _metrics(connection: sqlite3.Connection, case: Case) -> Iterator[Finding]:
    """Check whether /metrics could be public: requests through a proxy must not be taken for local ones."""
    seen = meta.read(connection, meta.PROXIES)
    try:
        kinds, header = set(seen["seen"]), str(seen["header"])
        host, has_token = urlsplit(seen["base_url"]).hostname, bool(seen["has_metrics_token"])
    except (TypeError, KeyError, ValueError, AttributeError):
        return
    is_public = bool(host) and host not in ("localhost", "127.0.0.1", "::1")
    todo = f"have the proxy set {header}, or set --metrics-token, and restart the server: docs/deployment.md"
    if has_token:
        yield fine("metrics", "/metrics answers bearers of the metrics token alone")
    elif "hidden_proxy" in kinds:
        yield fault(
            "metrics",
            f"requests of browsers elsewhere came from this machine without {header}, through a proxy that does not set"
            " it: /metrics now answers 403, and was public until the first of them",
            todo,
        )
    elif is_public and "alone" in kinds and "trusted" not in kinds:
        yield note(
            "metrics",
            f"--base-url is public and no request had {header}: /metrics may be public, since a proxy's requests cannot"
            " be distinguished from those of this machine",
            todo,
        )
    else:
        # Whether those programs may be a proxy is a note about proxies.
        yield fine("metrics", "/metrics answers what comes from this machine alone: no --metrics-token is set")
