"""The outbox: the rows of ClickHouse that the events of each commit become, stored in the transaction of the commit.

A batch is what one commit has stored of websites that have a copy in ClickHouse; the first events of a website begin
its copy. Batches are numbered without gaps and sent in order, several in one insert (`Shipment`). Which ones is
recorded before they are sent: after any failure the same rows are sent again under the same token, so that ClickHouse
stores them once.

Where ClickHouse is away for long, the outbox is bounded: beyond MAX_BYTES all copies end, reports are SQLite's, and
`cluster join` copies the websites anew.
"""

import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import orjson

from tally.accounts.websites import all_websites, has_data, next_number
from tally.clickhouse.rows import Row, StoredRow, rows_of
from tally.errors import log, where_it_failed
from tally.events.dimensions import FIELDS
from tally.events.validation import LEAVE, MEASURES
from tally.sqlite.decision import Decision
from tally.sqlite.rows import Rows
from tally.storage import cluster_tables
from tally.timestamps import DAY_MS

MAX_BYTES = 512 * 1_048_576
"""Of the outbox, compressed: about 10 million events."""
# Of one insert, compressed: less than 30 MB of JSON.
_SHIPMENT_BYTES = 1_000_000
_LEVEL = 1


class Shipment(NamedTuple):
    """Batches that are sent together: of a series, after the last that was shipped, to `last`, claimed at a time."""

    series: str
    shipped: int
    last: int
    claimed_ms: int


class Outbox:
    """Stores the batches. `take` and `keep` are called on the writer's thread, as the rest of a commit."""

    def __init__(self) -> None:
        # The last batch that is committed, and the size of all that are not shipped.
        self.last = self.bytes = 0
        self._taken = (0, 0)
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
        """Store what a commit has stored of websites with a copy, in its transaction."""
        self._taken = (self.last, 0)
        copies = self._copies(connection, decision.offsets)
        if not copies:
            return
        if self.bytes > MAX_BYTES:
            cluster_tables.end_all(connection, "ClickHouse was away for too long")
            return
        try:
            bodies = batch_of(_stored(connection, decision, rows, copies))
            for row in _increased(connection, decision, copies):
                bodies["measure"] = bodies.get("measure", b"") + orjson.dumps(row) + b"\n"
        except (KeyError, TypeError, ValueError) as failure:
            # A fault here must not keep an event from being stored.
            log.error("a commit cannot be shipped: %s", where_it_failed(failure))
            cluster_tables.end_all(connection, "a commit could not be shipped")
            return
        # A commit whose outcome was unknown may have been stored.
        stored = connection.execute("/* outbox.last */ select max(number) from cluster_outbox").fetchone()[0]
        number = max(self.last, stored or 0) + 1
        packed = [(number, name, zlib.compress(body, _LEVEL)) for name, body in bodies.items()]
        if packed:
            connection.executemany(
                "/* outbox.take */ insert into cluster_outbox (number, name, body) values (?, ?, ?)", packed
            )
            self._taken = (number, sum(len(body) for _, _, body in packed))

    def _copies(self, connection: sqlite3.Connection, websites: Iterable[int]) -> dict[int, int]:
        copies = {}
        for website in websites:
            copy = cluster_tables.copy_of(connection, website)
            if copy is not None:
                copies[website] = copy.copy
            elif (website in self._empty or website >= self._next_website) and not cluster_tables.has_any_copy(
                connection, website
            ):
                copies[website] = cluster_tables.begin(connection, website, "joined")
        return copies

    def keep(self) -> None:
        """Count what was taken, once its transaction is committed."""
        self.last, size = self._taken
        self.bytes += size
        self._taken = (self.last, 0)

    # --- shipping, each a transaction of the writer's thread

    def claim(self, connection: sqlite3.Connection, now_ms: int) -> Shipment | None:
        """Return the batches to be sent next, the same ones until they are shipped; None where there are none."""
        series, shipped, claimed, claimed_ms = connection.execute(
            "/* outbox.state */ select series, shipped, claimed, claimed_ms from cluster_state"
        ).fetchone()
        if claimed > shipped:
            return Shipment(series, shipped, claimed, claimed_ms)
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
            return None
        connection.execute("/* outbox.claim */ update cluster_state set claimed = ?, claimed_ms = ?", (last, now_ms))
        return Shipment(series, shipped, last, now_ms)

    def confirm(self, connection: sqlite3.Connection, last: int) -> None:
        """Delete the batches up to the last one that ClickHouse has."""
        freed = connection.execute(
            "/* outbox.freed */ select coalesce(sum(length(body)), 0) from cluster_outbox where number <= ?", (last,)
        ).fetchone()[0]
        connection.execute("/* outbox.delete */ delete from cluster_outbox where number <= ?", (last,))
        connection.execute("/* outbox.shipped */ update cluster_state set shipped = ?, claimed = ?", (last, last))
        self.bytes -= freed


def bodies_of(connection: sqlite3.Connection, shipment: Shipment) -> dict[str, bytes]:
    """Return the rows of a shipment by table, as lines of JSON."""
    found: dict[str, list[bytes]] = {}
    for name, body in connection.execute(
        "/* outbox.bodies */ select name, body from cluster_outbox where number > ? and number <= ? order by number",
        (shipment.shipped, shipment.last),
    ):
        found.setdefault(name, []).append(zlib.decompress(body))
    return {name: b"".join(bodies) for name, bodies in sorted(found.items())}


def batch_of(stored: Iterable[StoredRow]) -> dict[str, bytes]:
    """Return the rows of events by table, as lines of JSON."""
    return {name: lines_of(rows) for name, rows in rows_of(stored).items() if rows}


def lines_of(rows: Iterable[Mapping[str, Any]]) -> bytes:
    """Return rows as lines of JSON."""
    return b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows)


def _stored(
    connection: sqlite3.Connection, decision: Decision, rows: Rows, copies: Mapping[int, int]
) -> Iterator[StoredRow]:
    """Yield the stored events of websites with a copy, as events of the copy."""
    texts = {0: ""}
    for event, (id, visitor, label) in zip(decision.kept, rows.places(decision.kept), strict=True):
        number = event.website.number
        if number not in copies:
            continue
        if label not in texts:
            texts[label] = _text(connection, label)
        minutes = decision.offsets[number] // 60_000
        website = event.website._replace(number=copies[number], day_offset_minutes=minutes)
        yield StoredRow(event._replace(website=website), id, visitor, texts[label])


def _increased(connection: sqlite3.Connection, decision: Decision, copies: Mapping[int, int]) -> Iterator[Row]:
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
            yield measure_row(copies[website], ts, id, LEAVE, texts) | dict(
                zip(MEASURES, row[len(FIELDS) :], strict=True)
            )


def measure_row(copy: int, ts: int, id: int, type_: int, texts: Iterable[str]) -> Row:
    """Return the columns of a row of `measure` that each has; `texts`: those of FIELDS."""
    place = {"website": copy, "day": ts // DAY_MS, "ts": ts, "id": id, "type": type_, "visitor": 0}
    return place | dict(zip(FIELDS, texts, strict=True))


def _text(connection: sqlite3.Connection, label: int) -> str:
    row = connection.execute("/* outbox.text */ select text from label where id = ?", (label,)).fetchone()
    return "" if row is None else str(row[0])
