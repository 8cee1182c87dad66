"""Storage of event_data: short values in the event's row, long values in table event_data_part.

SQLite keeps a row of table event in one page up to 1,002 bytes; a longer one gets a page of 4,096 bytes for what is
beyond, used by nothing else. An event with 1,200 bytes of event_data took 4,700 bytes that way, and such events could
grow the file by 230 KB a request of 64 KB. So event_data beyond INLINE_BYTES is stored in rows of table
event_data_part, of which eight fill a page; the event's row has an empty text in its place, which is not JSON. The key
of a part is one integer, made of the event's id, which is unique over all websites: SQLite fills the pages of such a
table to the end where rows are written in order, and to four fifths where the key has several columns.

SQL that reads event_data uses STORED in place of the column; code that stores events calls `split`, and code that
deletes events calls `delete`.
"""

import sqlite3
from collections.abc import Iterable

# With a row's other columns at most 600 bytes: six rows a page. Nearly all event_data is shorter.
INLINE_BYTES = 480
# UTF-8 has up to 4 bytes a character: the bytes of a text of at most so many need no check.
_SURE_CHARACTERS = INLINE_BYTES // 4
# More than 4,096 bytes make.
_PARTS = 16

STORED = (
    "iif(event.event_data = '', (select group_concat(text, '') from (select text from event_data_part as part"
    f" where part.number between {_PARTS} * event.id and {_PARTS} * event.id + {_PARTS - 1} order by part.number)),"
    " event.event_data)"
)
"""SQL for the event_data of a row of table event."""

Part = tuple[int, str]
"""A row of table event_data_part: number, text."""


def split(event_data: str | None, id: int) -> tuple[str | None, list[Part]]:
    """Return what goes into the row of the event of that id, and the parts of a long one; 0.1 µs for a short one."""
    if event_data is None or len(event_data) <= _SURE_CHARACTERS:
        return event_data, []
    whole = event_data.encode()
    if len(whole) <= INLINE_BYTES:
        return event_data, []
    return "", list(enumerate(_cut(whole), _PARTS * id))


def _cut(whole: bytes) -> Iterable[str]:
    start = 0
    while start < len(whole):
        end = start + INLINE_BYTES
        # Not within a character: its further bytes begin with the bits 10.
        while end < len(whole) and whole[end] & 0xC0 == 0x80:
            end -= 1
        yield whole[start:end].decode()
        start = end


def add(connection: sqlite3.Connection, parts: Iterable[Part]) -> None:
    """Store parts, in the transaction that stores their events."""
    connection.executemany("/* event_data.add */ insert into event_data_part (number, text) values (?, ?)", parts)


def delete(connection: sqlite3.Connection, events: Iterable[tuple[int, int, int]]) -> None:
    """Delete the parts of events: (website, ts, id)."""
    connection.executemany(
        "/* event_data.delete */ delete from event_data_part where number between ? and ?",
        [(_PARTS * id, _PARTS * id + _PARTS - 1) for _, _, id in events],
    )
