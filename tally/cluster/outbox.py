"""The outbox: the rows of ClickHouse that the events of each commit become, stored in the transaction of the commit.

A batch is what one commit has stored of websites that have a copy in ClickHouse; the first events of a website begin
its copy. Batches are numbered without gaps and sent in order, several in one insert (`Shipment`). Which ones is
recorded before they are sent: after any failure the same rows are sent again under the same token, so that ClickHouse
stores them once.

Where ClickHouse is away for long, the outbox is bounded: beyond MAX_BYTES all copies end, reports are SQLite's, and
`cluster join` copies the websites anew. With `--cluster-mode keep` no copy ends: events are refused.
"""

import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import orjson

from tally.accounts.websites import all_websites, has_data, next_number
from tally.clickhouse.rows import Row, StoredRow, rows_of
from tally.errors import STORAGE_UNAVAILABLE, ApiError, log, where_it_failed
from tally.events.dimensions import FIELDS
from tally.events.validation import LEAVE, MEASURES
from tally.sqlite.decision import Decision
from tally.sqlite.rows import Rows
from tally.storage import cluster_tables
from tally.storage.health import RETRY_S
from tally.timestamps import DAY_MS

MAX_BYTES = 512 * 1_048_576
"""Of the outbox, compressed: about 10 million events."""
# Of one insert, compressed: less than 30 MB of JSON.
_SHIPMENT_BYTES = 1_000_000
_LEVEL = 1
Copies = Mapping[int, Sequence[int]]
"""The copies that get the events of a website, by its number."""


class Shipment(NamedTuple):
    """Batches that are sent together: of a series, after the last that was shipped, to `last`, claimed at a time.

    `packed` has their rows by table, compressed. Where there is nothing to be sent, `last` is `shipped`.
    """

    series: str
    shipped: int
    last: int
    claimed_ms: int
    packed: Mapping[str, Sequence[bytes]]

    def bodies(self) -> dict[str, bytes]:
        """Return the rows by table, as lines of JSON."""
        return {name: b"".join(map(zlib.decompress, packed)) for name, packed in sorted(self.packed.items())}


class Outbox:
    """Stores the batches. `take` and `keep` are called on the writer's thread, as the rest of a commit.

    is_strict: a commit that cannot be shipped is refused; otherwise it is stored, and ends what it is missing in. The
    event_ids are shipped as well, and which copies have begun: what another machine needs in place of this one.
    """

    def __init__(self, *, is_strict: bool = False) -> None:
        self.is_strict = is_strict
        # The last batch that is committed, and the size of all that are not shipped.
        self.last = self.bytes = 0
        self._taken = (0, 0)
        # Why a commit was refused last.
        self._refused_for = ""
        # Websites without data when the server started, and the first number of those that were added later.
        self._empty: set[int] = set()
        self._next_website = 0

    def start(self, connection: sqlite3.Connection) -> None:
        """Continue after the batches in the file."""
        row = connection.execute(
            "/* outbox.start */ select max(shipped, claimed, coalesce(max(number), 0)), coalesce(sum(length(body)), 0)"
            " from cluster_state left join cluster_outbox"
        ).fetchone()
        self.last, self.bytes = row
        self._taken = (self.last, 0)
        numbers = [website.number for website in all_websites(connection)]
        self._empty = {number for number in numbers if not has_data(connection, number)}
        self._next_website = next_number(connection)

    def take(self, connection: sqlite3.Connection, decision: Decision, rows: Rows) -> None:
        """Store what a commit has stored of websites with a copy, in its transaction. Raises ApiError 503."""
        self._taken = (self.last, 0)
        begun: list[Row] = []
        copies = self._copies(connection, decision.offsets, begun)
        if not copies:
            return
        if self.bytes > MAX_BYTES:
            self._give_up(connection, "ClickHouse was away for too long")
            return
        try:
            tables = rows_of(_stored(connection, decision, rows, copies))
            tables["measure"] += _increased(connection, decision, copies)
            # A commit whose outcome was unknown may have been stored.
            stored = connection.execute("/* outbox.last */ select max(number) from cluster_outbox").fetchone()[0]
            number = max(self.last, stored or 0) + 1
            if self.is_strict:
                tables |= {"event_id": [*_event_ids(decision, copies)], "copy": begun}
            for row in chain.from_iterable(tables.values()):
                row["batch"] = number
            packed = [(number, name, zlib.compress(lines_of(table), _LEVEL)) for name, table in tables.items() if table]
        except (KeyError, TypeError, ValueError) as failure:
            # A fault here must not keep an event from being stored.
            log.error("a commit cannot be shipped: %s", where_it_failed(failure))
            self._give_up(connection, "a commit could not be shipped")
            return
        if packed:
            connection.executemany(
                "/* outbox.take */ insert into cluster_outbox (number, name, body) values (?, ?, ?)", packed
            )
            self._taken = (number, sum(len(body) for _, _, body in packed))

    def _give_up(self, connection: sqlite3.Connection, reason: str) -> None:
        """End all copies; raise ApiError where commits that are not shipped are refused."""
        if not self.is_strict:
            cluster_tables.end_all(connection, reason)
            return
        if reason != self._refused_for:
            log.error("events are refused: %s", reason)
        self._refused_for = reason
        raise ApiError(STORAGE_UNAVAILABLE, retry_after_s=RETRY_S)

    def _copies(self, connection: sqlite3.Connection, offsets: Mapping[int, int], begun: list[Row]) -> Copies:
        """Return the copies of websites. `begun` gets rows of those that begin."""
        copies = {}
        for website, offset_ms in offsets.items():
            live = cluster_tables.live_copies(connection, website)
            is_new = website in self._empty or website >= self._next_website
            has_all = is_new and not live and not cluster_tables.has_any_copy(connection, website)
            # One that is being joined may end before it is complete.
            if has_all or (self.is_strict and "joined" not in live.values()):
                lacks, minutes = "" if has_all else "earlier events", offset_ms // 60_000
                number = cluster_tables.begin(connection, website, "joined", lacks=lacks)
                live[number] = "joined"
                begun.append({"website": number, "number": website, "day_offset_minutes": minutes})
            if live:
                copies[website] = [*live]
        return copies

    def keep(self) -> None:
        """Count what was taken, once its transaction is committed."""
        self.last, size = self._taken
        self.bytes += size
        self._taken = (self.last, 0)

    # --- shipping, in transactions of the writer's thread

    def next(self, connection: sqlite3.Connection, done: tuple[str, int], now_ms: int, *, may_claim: bool) -> Shipment:
        """Delete the batches up to the last one that ClickHouse has (`done`: its series and number), and return those
        to be sent next: the ones that are claimed until they are shipped, then others where these may be claimed."""
        series, shipped, claimed, claimed_ms = connection.execute(
            "/* outbox.state */ select series, shipped, claimed, claimed_ms from cluster_state"
        ).fetchone()
        if done[0] == series and done[1] > shipped:
            shipped = done[1]
            self._confirm(connection, shipped)
        if claimed <= shipped:
            claimed, claimed_ms = self._claim(connection, shipped, now_ms) if may_claim else shipped, now_ms
        packed: dict[str, list[bytes]] = {}
        for name, body in connection.execute(
            "/* outbox.bodies */ select name, body from cluster_outbox where number > ? and number <= ?"
            " order by number",
            (shipped, claimed),
        ):
            packed.setdefault(name, []).append(body)
        return Shipment(series, shipped, claimed, claimed_ms, packed)

    def _claim(self, connection: sqlite3.Connection, shipped: int, now_ms: int) -> int:
        """Record which batches are sent next; return the last of them, `shipped` where there are none."""
        last = size = 0
        for number, length in connection.execute(
            "/* outbox.sizes */ select number, length(body) from cluster_outbox where number > ? order by number",
            (shipped,),
        ):
            if last and number != last and size + length > _SHIPMENT_BYTES:
                break
            last, size = number, size + length
        if not last:
            self.bytes = 0
            return shipped
        connection.execute("/* outbox.claim */ update cluster_state set claimed = ?, claimed_ms = ?", (last, now_ms))
        return last

    def _confirm(self, connection: sqlite3.Connection, last: int) -> None:
        freed = connection.execute(
            "/* outbox.freed */ select coalesce(sum(length(body)), 0) from cluster_outbox where number <= ?", (last,)
        ).fetchone()[0]
        connection.execute("/* outbox.delete */ delete from cluster_outbox where number <= ?", (last,))
        connection.execute("/* outbox.shipped */ update cluster_state set shipped = ?, claimed = ?", (last, last))
        self.bytes -= freed


def lines_of(rows: Iterable[Mapping[str, Any]]) -> bytes:
    """Return rows as lines of JSON."""
    return b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows)


def _stored(connection: sqlite3.Connection, decision: Decision, rows: Rows, copies: Copies) -> Iterator[StoredRow]:
    """Yield the stored events of websites with a copy, as events of the copy."""
    texts = {0: ""}
    for event, (id, visitor, label) in zip(decision.kept, rows.places(decision.kept), strict=True):
        number = event.website.number
        if number not in copies:
            continue
        if label not in texts:
            texts[label] = _text(connection, label)
        minutes = decision.offsets[number] // 60_000
        for copy in copies[number]:
            website = event.website._replace(number=copy, day_offset_minutes=minutes)
            yield StoredRow(event._replace(website=website), id, visitor, texts[label])


def _event_ids(decision: Decision, copies: Copies) -> Iterator[Row]:
    for website, minute_ms, digest, arrived_ms, row_ts, row_id in decision.event_ids:
        if website in copies:
            yield {
                **{"website_number": website, "minute_ms": minute_ms, "digest": digest.hex()},
                **{"arrived_ms": arrived_ms, "row_ts": row_ts or 0, "row_id": row_id or 0},
            }


def _increased(connection: sqlite3.Connection, decision: Decision, copies: Copies) -> Iterator[Row]:
    """Yield the rows of stored leaves that were sent again, with their greatest values."""
    columns = ", ".join((*FIELDS, *MEASURES))
    for website, ts, id in decision.left_again:
        if website not in copies:
            continue
        row = connection.execute(
            f"/* outbox.leave */ select {columns} from web_vitals where website = ? and ts = ? and id = ?",
            (website, ts, id),
        ).fetchone()
        if row is not None:
            texts = [_text(connection, label) if label else "" for label in row[: len(FIELDS)]]
            measures = dict(zip(MEASURES, row[len(FIELDS) :], strict=True))
            for copy in copies[website]:
                yield measure_row(copy, ts, id, LEAVE, texts) | measures


def measure_row(copy: int, ts: int, id: int, type_: int, texts: Iterable[str]) -> Row:
    """Return the columns of a row of `measure` that each has; `texts`: those of FIELDS."""
    place = {"website": copy, "day": ts // DAY_MS, "ts": ts, "id": id, "type": type_, "visitor": 0}
    return place | dict(zip(FIELDS, texts, strict=True))


def _text(connection: sqlite3.Connection, label: int) -> str:
    row = connection.execute("/* outbox.text */ select text from label where id = ?", (label,)).fetchone()
    return "" if row is None else str(row[0])
