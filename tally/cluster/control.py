"""The control copy: the small tables of the database file, such as accounts and websites, as one row of ClickHouse.

With it and the events in ClickHouse another machine can replace this one (tally/cluster/recover.py). It has password
hashes, keys and addresses, so it is encrypted for the keys of --cluster-key: who reads ClickHouse learns nothing of it.

A change by the pages or the API is answered once a row has it. Where ClickHouse is away, the change is undone in its
transaction and refused; where it goes away after the commit, the answer is 503 and the next row has the change. Changes
by commands and by background work are found by comparing the tables every PAUSE_S.
"""

import asyncio
import base64
import io
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from tally.clickhouse import schema
from tally.clickhouse.client import Client
from tally.clock import Clock
from tally.cluster.servers import Servers
from tally.cluster.shipper import OTHER_SERIES, CannotFollow, last_shipped
from tally.cluster.worker import FAILURES, Worker, reason_of
from tally.errors import STORAGE_UNAVAILABLE, ApiError, log, where_it_failed
from tally.offsite import age
from tally.offsite.destination import DestinationError
from tally.settings import BadSetting, Settings
from tally.storage import cluster_tables
from tally.storage.database import VERSION
from tally.storage.health import RETRY_S
from tally.storage.node_database import NodeDatabase

PAUSE_S = 2.0
# What changes all the time without a person's doing is copied less often.
_SLOW_S = 60.0
_FAILURES = (*FAILURES, CannotFollow, DestinationError)
AWAY = "ClickHouse is away, or another server has replaced this one: nothing was changed."
NOT_COPIED_YET = "The change was made, but ClickHouse does not have it yet: look whether it is there."
KEPT = 20
"""Rows that are kept."""
COPIED = {
    "meta": "where name in ('key_salt', 'start', 'keys_expired', 'demo')",
    **dict.fromkeys(("account", "person", "recovery_code", "passkey", "identity", "membership"), ""),
    **dict.fromkeys(("website", "membership_website", "invitation", "allowed_origin", "exclusion", "share_link"), ""),
    **dict.fromkeys(("definition", "deleted_website", "api_key", "channel", "report", "alert"), ""),
    **dict.fromkeys(("import", "import_range", "deletion", "account_usage", "website_usage", "cluster_copy"), ""),
    "audit": "where number > (select coalesce(max(number), 0) - 2000 from audit)",
    # Last: a number is of one person for ever.
    "sqlite_sequence": "",
}
"""The tables that are copied, and which of their rows."""
_SLOW = frozenset(("account_usage", "website_usage", "import", "import_range", "audit"))
_FAST = [name for name in COPIED if name not in _SLOW]
_LINES = "import_id import_visit"
_FROM_EVENTS = (
    "event event_data_part visit web_vitals experiment_event experiment_assignment experiment_conversion"
    " experiment_total heatmap_point heatmap_block heatmap_count imported_field imported_sum label field_value event_id"
)
_COUNTED = "total_15m rollup_block rollup_state goal_day packed_day day_column web_vitals_histogram"
_FIGURES = "rejected_event rejected_sample crawler_day new_value page_title heatmap_text"
_MOMENT = "login device_cookie sign_in_link notice cluster_state cluster_outbox cluster_day"
NOT_COPIED = {
    name: reason
    for names, reason in (
        (_MOMENT, "of a moment: people sign in again, and a new series begins"),
        (_FROM_EVENTS, "ClickHouse has the events"),
        (_COUNTED, "counted from events; figures of expired days are lost"),
        (_FIGURES, "grows with traffic; lost"),
        (_LINES, "grows with imports; lost"),
    )
    for name in names.split()
}
"""The other tables, and why they are not."""
# When something was used last; where an import continues, with the key of its day; which days the file has.
_OMITTED = frozenset(("last_seen_day", "last_used_day", "last_used_ms", "progress", "own_day"))
Tables = Mapping[str, bytes]


class Control(Worker):
    """Keeps the control copy of a server (`Elsewhere` of tally/storage/registry.py).

    `is_away`: whether nothing can be copied now.
    """

    def __init__(
        self,
        servers: Servers,
        database: NodeDatabase,
        clock: Clock,
        settings: Settings,
        is_away: Callable[[], bool],
    ) -> None:
        self.problem = ""
        self._servers, self._database, self._clock = servers, database, clock
        self._wait_s = settings.cluster_ack_seconds
        # Checked at the start.
        self._recipients = recipients_of(settings.cluster_key)
        self._is_away = is_away
        self._copying = asyncio.Lock()
        # What the newest row has: of all tables, and of those that are copied at once.
        self._copied = (b"", b"")
        self._copied_s = 0.0
        # What the file had when the newest row had everything.
        self._version: object = None
        super().__init__()

    def state(self, connection: sqlite3.Connection) -> bytes:
        """Return a digest of what is copied at once."""
        return _digests(tables_of(connection, _FAST))[1]

    def check(self) -> None:
        """Raise ApiError where a change cannot be copied now."""
        if self.problem or self._is_away():
            raise ApiError(STORAGE_UNAVAILABLE, AWAY, retry_after_s=RETRY_S)

    async def copy(self) -> None:
        """Copy what is committed and must not wait. Raises ApiError."""
        try:
            async with asyncio.timeout(self._wait_s):
                await self._copy()
        except Exception as failure:
            self._failed(failure)
            raise ApiError(STORAGE_UNAVAILABLE, NOT_COPIED_YET, retry_after_s=RETRY_S) from None

    async def _run(self) -> None:
        while True:
            try:
                await self._copy()
            except Exception as failure:
                self._failed(failure)
            await asyncio.sleep(PAUSE_S)

    def _failed(self, failure: Exception) -> None:
        problem = reason_of(failure) if isinstance(failure, _FAILURES) else ""
        if not self.problem:
            log.error("accounts and websites are not copied to ClickHouse: %s", problem or where_it_failed(failure))
        self.problem = problem or type(failure).__name__

    async def _copy(self) -> None:
        async with self._copying:
            version = await self._database.writer.run(_version)
            if version != self._version:
                self._version = version if await self._copy_changed() else None
            self.problem = ""

    async def _copy_changed(self) -> bool:
        """Copy what must not wait, or has waited; return whether the newest row has everything."""
        tables = await self._database.read(tables_of)
        digests, is_due = _digests(tables), time.monotonic() >= self._copied_s + _SLOW_S
        if digests[1] != self._copied[1] or (is_due and digests != self._copied):
            client, series = self._servers.client, await self._database.read(cluster_tables.series)
            await _check(client, series)
            await write(client, series, tables, self._recipients, self._clock.wall_ms())
            # Where another server has become active meanwhile, it may not have read the row.
            await _check(client, series)
            self._copied, self._copied_s = digests, time.monotonic()
        return digests == self._copied


def recipients_of(key: Path | None) -> list[str]:
    """Return the keys for which the copy is encrypted. Raises BadSetting."""
    if key is None:
        raise BadSetting("name the key file that encrypts accounts and websites in ClickHouse: --cluster-key FILE")
    try:
        return age.recipients_in(key)
    except DestinationError as failure:
        raise BadSetting(f"--cluster-key: {failure}") from None


async def _check(client: Client, series: str) -> None:
    """Raise CannotFollow where another server is active, or ClickHouse has the tables of another file."""
    if await last_shipped(client, series) is None:
        raise CannotFollow(OTHER_SERIES)


def _version(connection: sqlite3.Connection) -> object:
    """Return what differs after each change of the file, also by another process."""
    return connection, connection.total_changes, *connection.execute("pragma data_version").fetchone()


def tables_of(connection: sqlite3.Connection, tables: Iterable[str] = tuple(COPIED)) -> Tables:
    """Return the rows of the copied tables as lines of JSON, by table."""
    lines = {}
    for table in tables:
        columns = connection.execute(f"/* control.columns */ pragma table_info({table})")
        names = [name for _, name, *_ in columns if name not in _OMITTED]
        rows = connection.execute(f"/* control.rows */ select {', '.join(names)} from {table} {COPIED[table]}")
        lines[table] = b"".join(
            orjson.dumps(row, default=_stored, option=orjson.OPT_APPEND_NEWLINE) for row in ([table, names], *rows)
        )
    return lines


def _stored(value: bytes) -> list[str]:
    # No column has a list.
    return [value.hex()]


def _digests(tables: Tables) -> tuple[bytes, bytes]:
    every, fast = blake2b(), blake2b()
    for name, lines in tables.items():
        every.update(lines)
        if name not in _SLOW:
            fast.update(lines)
    return every.digest(), fast.digest()


async def write(client: Client, series: str, tables: Tables, recipients: list[str], now_ms: int) -> None:
    """Store a row. Raises Refused, NoAnswer, ApiError."""
    ((last,),) = await client.rows("select max(number) from control", {}, claim=None)
    number = last + 1
    # So that an old row is not taken for a new one.
    head = orjson.dumps([series, number], option=orjson.OPT_APPEND_NEWLINE)
    body = await asyncio.to_thread(_encrypted, b"".join((head, *tables.values())), recipients)
    row = {"series": series, "number": number, "at_ms": now_ms, "schema": VERSION, "body": body}
    await client.insert("control", [row], f"{series}/control/{number}/{body[-32:]}")
    if number % KEPT == 0:
        await client.execute(schema.delete_where("control", f"number <= {number - KEPT}", waits_for=0))


def _encrypted(lines: bytes, recipients: list[str]) -> str:
    target = io.BytesIO()
    age.encrypt(io.BytesIO(zlib.compress(lines)), target, recipients)
    return base64.b64encode(target.getvalue()).decode()


class Copy(NamedTuple):
    """A control copy: its series, number and time, and the columns and rows of each table."""

    series: str
    number: int
    at_ms: int
    tables: Mapping[str, tuple[list[str], list[list[Any]]]]


async def newest(client: Client, key: Path) -> Copy:
    """Return the newest control copy that can be decrypted. Raises CannotFollow, ApiError."""
    rows = await client.rows(
        f"select series, number, at_ms, schema, body from control order by number desc, at_ms desc limit {KEPT}", {}
    )
    problem = "ClickHouse has no control copy: a server with --cluster-mode keep makes it"
    for series, number, at_ms, version, body in rows:
        if version != VERSION:
            raise CannotFollow(
                f"The control copy has schema version {version}, and this release has {VERSION}: use the release that"
                " has written it."
            )
        try:
            head, *lines = map(orjson.loads, _decrypted(body, key, f"control copy {number}").splitlines())
        except (DestinationError, ValueError, zlib.error) as failure:
            problem = str(failure).rstrip(".")
        else:
            if head == [series, number]:
                return Copy(series, number, at_ms, _by_table(lines))
    raise CannotFollow(problem)


def _decrypted(body: str, key: Path, name: str) -> bytes:
    target = io.BytesIO()
    age.decrypt(io.BytesIO(base64.b64decode(body)), target, key, name)
    return zlib.decompress(target.getvalue())


def _by_table(lines: list[list[Any]]) -> dict[str, tuple[list[str], list[list[Any]]]]:
    tables: dict[str, tuple[list[str], list[list[Any]]]] = {}
    rows: list[list[Any]] = []
    for line in lines:
        # A table's first line has a list, the names of its columns, behind its own name.
        if len(line) == 2 and isinstance(line[1], list) and line[0] in COPIED and line[0] not in tables:
            tables[line[0]] = line[1], (rows := [])
        else:
            rows.append([bytes.fromhex(value[0]) if isinstance(value, list) else value for value in line])
    return tables


def store(connection: sqlite3.Connection, copy: Copy) -> None:
    """Store the rows in a new file, in a transaction of the caller. Raises CannotFollow."""
    connection.execute("pragma defer_foreign_keys = on")
    for table, (names, rows) in copy.tables.items():
        existing = {name for _, name, *_ in connection.execute(f"/* control.existing */ pragma table_info({table})")}
        if not existing.issuperset(names):
            raise CannotFollow(f"the control copy has other columns of {table}: use the release that has written it")
        if table == "sqlite_sequence":
            connection.execute("/* control.sequences */ delete from sqlite_sequence")
        columns, marks = ", ".join(names), ", ".join("?" * len(names))
        connection.executemany(f"/* control.store */ insert or replace into {table} ({columns}) values ({marks})", rows)
