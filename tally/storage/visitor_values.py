"""The values of each visitor of an open UTC day, so that a rollup counts a visitor once per value.

A rollup counts visitors by value, so an event that is rolled up adds one only if its visitor did not have that value
on that day before. Most visitors have one value in nearly every field. So a row of open_day_visitor holds the values of
one event of the visitor, and open_day_visitor_value only those that differ from it: 55 bytes for a visitor with one
event, where a row for each field took 340. The rows of a day are deleted when it is final
(tally/rollups/rollup_state.py).

The statements here are parts of transactions of tally/rollups/field_values.py. `temp.fresh` holds the events to be
rolled up, with columns visitor, type, the dimensions and event_name.
"""

import sqlite3

from tally.events.dimensions import EVENT_FIELDS

NAMES = "event_name"
NO_COLUMN = "0"
"""In place of a column: the value 0, which every visitor has."""

_FIRST = "open_day_visitor as first where first.website = ?1 and first.day = ?2 and first.visitor = "
_TABLES = (("open_day_visitor_value", "visitor, field, value"), ("open_day_visitor", "visitor"))


def is_new(column: str) -> str:
    """Return SQL that is true where a row (visitor, value) of `news` has a value that the visitor did not have.

    Parameters: ?1 the website, ?2 the day, ?3 the field's number.
    """
    if column == NO_COLUMN:
        return f"not exists (select 1 from {_FIRST}news.visitor)"
    return (
        f"not exists (select 1 from {_FIRST}news.visitor and first.{column} = news.value)"
        " and not exists (select 1 from open_day_visitor_value as more where more.website = ?1 and more.day = ?2"
        " and more.visitor = news.visitor and more.field = ?3 and more.value = news.value)"
    )


def add_visitors(connection: sqlite3.Connection, website: int, day: int) -> None:
    """Store the visitors of temp.fresh that the day does not have yet, each with the values of one event."""
    connection.execute(
        "/* visitor_values.add_visitors */ insert or ignore into open_day_visitor"
        f" (website, day, visitor, {', '.join((*EVENT_FIELDS, NAMES))})"
        f" select ?1, ?2, visitor, {', '.join((*EVENT_FIELDS, NAMES))} from temp.fresh"
        " where rowid in (select min(rowid) from temp.fresh group by visitor)",
        (website, day),
    )


def add_values(connection: sqlite3.Connection, website: int, day: int, field: int, column: str) -> None:
    """Store the values of a field in temp.fresh that differ from their visitor's row; after `add_visitors`."""
    only = f" and fresh.{column} > 0" if column == NAMES else ""
    connection.execute(
        "/* visitor_values.add_values */ insert or ignore into open_day_visitor_value"
        " (website, day, visitor, field, value)"
        f" select distinct ?1, ?2, fresh.visitor, ?3, fresh.{column} from temp.fresh as fresh cross join {_FIRST}"
        f"fresh.visitor and first.{column} <> fresh.{column}{only}",
        (website, day, field),
    )


def drop(connection: sqlite3.Connection, website: int, day: int, rows: int) -> int:
    """Delete up to `rows` rows of a day; return how many."""
    for table, key in _TABLES:
        names = f"website, day, {key}"
        old = connection.execute(
            f"/* visitor_values.old */ select {names} from {table} where website = ? and day = ? limit ?",
            (website, day, rows),
        ).fetchall()
        if old:
            marks = ", ".join("?" * len(old[0]))
            connection.executemany(f"/* visitor_values.drop */ delete from {table} where ({names}) = ({marks})", old)
            return len(old)
    return 0
