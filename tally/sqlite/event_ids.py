"""Table event_id: which events with an `event_id` arrived within the last 72 hours.

Of an event_id two things are stored: a keyed digest of it and of the event's content, and the minute of the time at its
beginning, if it has one: 13 digits, milliseconds since 1970. The tracker and the clients send such ids. The table is
ordered by the minute: these ids lie in the few pages of the current one, which stay in memory. Other ids have 0 there
and lie in the order of their digests, all over the ids of 72 hours.

Where a clock is wrong, the difference to the arrival could identify the device. So the minute is only stored where it
is that of the arrival, which is stored as well; otherwise 0 is. The row of an event may be at either place, and a copy
that arrives later is stored at 0, where the event itself is not. `arrivals` looks at both.

A leave has the event_id of its page view. Its values are no content: later ones of the same view are copies, which may
increase them. So the place of its row is stored with it.
"""

import re
import sqlite3
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from itertools import chain

from tally.events.json_scalars import canonical
from tally.events.validation import LEAVE, OLDEST_MS, PAGEVIEW, TRAFFIC, Event
from tally.storage.bulk_insert import insert, marks, parts
from tally.storage.database import transaction
from tally.timestamps import MINUTE_MS

Key = tuple[int, int, bytes]
"""Website, minute of the time at the beginning of the event_id (its first ms since 1970, or 0), digest."""

Row = tuple[int, int]
"""The ts and id of a row."""

Stored = tuple[int, int, bytes, int, int | None, int | None]
"""A row of the table."""

_TIME = re.compile("[1-9][0-9]{12}")
_NO_URL = ("", "", "")
# The fields of Event from here on are those of measurements.
_MEASUREMENT = Event._fields.index("vitals")


def key_of(website: int, event: Event, salt: bytes) -> Key:
    """Return the key of an event that has an event_id. Its digest is a hash of 16 bytes, keyed with the salt.

    Content is type, url, name, event_name, event_data by value, and the fields of measurements: an event with a guessed
    event_id and other content is no duplicate. Time, visitor, referrer and labels such as app_version are not content,
    because a client may resend an event later, after an update, from another network. 2 to 3 µs.
    """
    host, path, query = (event.url or _NO_URL)[:3]
    data = event.event_data
    if data:
        data = canonical(data).decode()
    # No text contains NUL, so different events give different bytes.
    content = f"{event.event_id}\0{event.type}\0{host}\0{path}\0{query}\0{event.name}\0{event.event_name}\0{data}"
    if event.type not in TRAFFIC and event.type != LEAVE:
        content += f"\0{event[_MEASUREMENT:]}"
    time = _TIME.match(event.event_id)
    return website, minute_of(int(time[0])) if time else 0, blake2b(content.encode(), digest_size=16, key=salt).digest()


def view_of(website: int, leave: Event, salt: bytes) -> Key:
    """Return the key of the page view that a leave belongs to."""
    return key_of(website, leave._replace(type=PAGEVIEW), salt)


def minute_of(ms: int) -> int:
    """Return the first ms of a minute."""
    return ms - ms % MINUTE_MS


def arrivals(connection: sqlite3.Connection, keys: Sequence[Key]) -> tuple[dict[Key, int], dict[Key, Row]]:
    """Return when the last copy of each event arrived (ms since 1970), and the rows of leaves, for those stored."""
    times: dict[Key, int] = {}
    rows: dict[Key, Row] = {}
    for part in parts([*keys, *[(website, 0, digest) for website, minute_ms, digest in keys if minute_ms]]):
        # With `in (list)` SQLite would scan the whole table.
        statement = (
            f"/* event_ids.arrivals */ with sent (website, minute_ms, digest) as (values {marks(3, len(part))})"
            " select id.website, id.minute_ms, id.digest, arrived_ms, row_ts, row_id"
            " from sent cross join event_id as id using (website, minute_ms, digest)"
        )
        for *place, arrived_ms, row_ts, row_id in connection.execute(statement, list(chain.from_iterable(part))):
            key = (place[0], place[1], place[2])
            times[key] = arrived_ms
            if row_id is not None:
                rows[key] = (row_ts, row_id)
    if times:
        for website, minute_ms, digest in keys:
            late_ms = times.get((website, 0, digest), 0)
            if minute_ms and late_ms > times.get((website, minute_ms, digest), 0):
                times[website, minute_ms, digest] = late_ms
            if minute_ms and (website, 0, digest) in rows:
                rows[website, minute_ms, digest] = rows[website, 0, digest]
    return times, rows


def store(
    connection: sqlite3.Connection, arrived_ms: Mapping[Key, int], rows_of_leaves: Mapping[Key, Row]
) -> list[Stored]:
    """Store when each event, or its newest copy, arrived; return the rows."""
    rows: list[Stored] = [
        (website, minute_ms if minute_ms == minute_of(ms) else 0, digest, ms, *rows_of_leaves.get(key, (None, None)))
        for key, ms in arrived_ms.items()
        for website, minute_ms, digest in (key,)
    ]
    insert(connection, "event_ids", "event_id", rows, "insert or replace")
    return rows


def delete_expired(connection: sqlite3.Connection, deletion_time_ms: int, most: int = 2_000) -> int:
    """Delete up to `most` event_ids of which no copy came for 72 hours; return how many."""
    old = connection.execute(
        "/* event_ids.old */ select * from (select website, minute_ms, digest from event_id"
        " where minute_ms = 0 and arrived_ms < :oldest_ms limit :most)"
        " union all select event_id.website, minute_ms, digest from website cross join event_id"
        " on event_id.website = website.number and minute_ms between 1 and :oldest_ms"
        " where arrived_ms < :oldest_ms limit :most",
        {"oldest_ms": deletion_time_ms - OLDEST_MS, "most": most},
    ).fetchall()
    if old:
        with transaction(connection):
            connection.executemany(
                "/* event_ids.delete_expired */ delete from event_id"
                " where website = ? and minute_ms = ? and digest = ?",
                old,
            )
    return len(old)
