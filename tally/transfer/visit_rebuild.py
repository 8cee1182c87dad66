"""Delete events of a visitor's day, or give them other paths, and compute its visits again from what is stored then.

A visit that loses events may become shorter, end, or become several. What an event carried as its acquisition is stored
with the visit that it decided (docs/decisions/acquisition-by-visit.md): the visit that is left with that event keeps
the acquisition, others have none. Visits are numbered anew from 0: a row's number is below 48.

Of an imported visitor whom several imports share, the visits of each import alone are computed too
(tally/transfer/visit_merge.py).
"""

import sqlite3
from collections.abc import Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from tally.events.validation import PAGEVIEWS
from tally.events.visits import Visit
from tally.storage import event_data, visit_rows
from tally.storage.bulk_insert import insert
from tally.storage.import_records import IMPORT_OF
from tally.storage.sql.filters import Query
from tally.timestamps import DAY_MS, QUARTER_MS
from tally.transfer.new_paths import NewPaths
from tally.transfer.visit_merge import News, combined, cut


class Rebuilt(NamedTuple):
    """What is left of a visitor's day: the visits, and a bit for each quarter hour with an event. `changed`: (ts, id,
    number of the import or None, pathname before) of the events that were deleted or have another path."""

    visits: list[Visit]
    mask: int
    changed: list[tuple[int, int, int | None, int]]


class _Event(NamedTuple):
    ts_ms: int
    id: int
    type: int
    visit: int
    page: int
    owner: int | None


_place = attrgetter("ts_ms", "id")


def change_events(
    connection: sqlite3.Connection,
    website: int,
    day: int,
    visitor: int,
    matching: Query,
    new_paths: NewPaths | None = None,
) -> Rebuilt:
    """Delete the traffic events of a visitor's day that an expression matches, and rebuild the visits.

    With `new_paths` none is deleted: those of them that get another path have it then.

    The day's rows are in their tables. Takes 10 µs an event of the visitor, and 0.1 µs for each event of others between
    the first and the last one of a visit.
    """
    visits = _visits(connection, "visit", website, day, visitor)
    left, changed = _divided(connection, website, visitor, [visit for _, visit in visits], matching)
    of_imports = _visits(connection, "import_visit", website, day, visitor)
    if new_paths is None:
        keys = [(website, event.ts_ms, event.id) for event in changed]
        event_data.delete(connection, keys)
        connection.executemany(
            "/* visit_rebuild.events */ delete from event where website = ? and ts = ? and id = ?", keys
        )
    else:
        pages = new_paths.of(event.page for event in changed)
        left += [event._replace(page=pages.get(event.page, event.page)) for event in changed]
        left.sort(key=_place)
        changed = [event for event in changed if event.page in pages]
        connection.executemany(
            "/* visit_rebuild.paths */ update event set pathname = ? where website = ? and ts = ? and id = ?",
            [(pages[event.page], website, event.ts_ms, event.id) for event in changed],
        )
    if of_imports:
        now = _rebuilt_imports(connection, website, day, visitor, of_imports, left)
    else:
        now = _rebuilt([visit for _, visit in visits], left)
    place = (website, day, visitor)
    connection.execute(
        "/* visit_rebuild.visits */ delete from visit where website = ? and day = ? and visitor = ?", place
    )
    insert(connection, "visit_rebuild", "visit", [visit_rows.row_of(website, visitor, visit) for visit in now])
    connection.executemany(
        "/* visit_rebuild.renumber */ update event set visit = ? where website = ? and ts = ? and id = ?",
        [(number, website, event.ts_ms, event.id) for event, number in _renumbered(left, now)],
    )
    mask = 0
    for event in left:
        mask |= 1 << event.ts_ms % DAY_MS // QUARTER_MS
    return Rebuilt(now, mask, [(event.ts_ms, event.id, event.owner, event.page) for event in changed])


def _visits(
    connection: sqlite3.Connection, table: str, website: int, day: int, visitor: int
) -> list[tuple[int | None, Visit]]:
    """Return the visits of a visitor's day with the import that they are of; None in table visit."""
    owner = "import" if table == "import_visit" else "null"
    rows = connection.execute(
        f"/* visit_rebuild.visits_of */ select {owner}, {visit_rows.READ} from {table}"
        " where website = ? and day = ? and visitor = ?",
        (website, day, visitor),
    )
    return [(owner, visit_rows.visit_of(row)) for owner, *row in rows]


def _divided(
    connection: sqlite3.Connection, website: int, visitor: int, visits: Sequence[Visit], matching: Query
) -> tuple[list[_Event], list[_Event]]:
    """Return the events of some visits that do not match and those that do, each by (ts, id)."""
    matches, parameters = matching
    owner = IMPORT_OF.format(id="event.id", website="event.website")
    left: list[_Event] = []
    matching_ones: list[_Event] = []
    for visit in sorted(visits, key=lambda visit: visit.begin_ms):
        rows = connection.execute(
            f"/* visit_rebuild.of_visit */ select {matches}, ts, id, type, visit, pathname, {owner} from event"
            " where website = ? and ts >= ? and ts <= ? and visitor = ? order by ts, id",
            (*parameters, website, visit.begin_ms, visit.end_ms, visitor),
        )
        for is_matching, *event in rows:
            (matching_ones if is_matching else left).append(_Event(*event))
    return left, matching_ones


def _rebuilt(before: Sequence[Visit], events: Sequence[_Event]) -> list[Visit]:
    """Return the visits of some events, which are sorted by (ts, id) and were those of other visits before."""
    acquired = {(visit.acquired_ms): visit.acquisition for visit in before if visit.acquisition}
    news = [
        News(event.ts_ms, event.type in PAGEVIEWS, event.page, acquired.get(event.ts_ms, b""))
        for event in sorted(events, key=_place)
    ]
    return cut((), news).visits if news else []


def _rebuilt_imports(
    connection: sqlite3.Connection,
    website: int,
    day: int,
    visitor: int,
    before: Sequence[tuple[int | None, Visit]],
    events: Sequence[_Event],
) -> list[Visit]:
    """Store the visits of each import of a shared visitor, and return those that they become together."""
    of_import: dict[int, list[Visit]] = {}
    for number in sorted({owner for owner, _ in before if owner is not None}):
        own = _rebuilt([visit for owner, visit in before if owner == number], [e for e in events if e.owner == number])
        if own:
            of_import[number] = own
    connection.execute(
        "/* visit_rebuild.unshare */ delete from import_visit where website = ? and day = ? and visitor = ?",
        (website, day, visitor),
    )
    if len(of_import) > 1:
        rows: list[tuple[Any, ...]] = [
            (*visit_rows.row_of(website, visitor, visit), number) for number, own in of_import.items() for visit in own
        ]
        insert(connection, "visit_rebuild", "import_visit", rows)
    return combined([visit for own in of_import.values() for visit in own])


def _renumbered(events: Sequence[_Event], visits: Sequence[Visit]) -> list[tuple[_Event, int]]:
    """Return the events whose visit has another number now, by (ts, id), and that number."""
    found, place = [], 0
    by_time = sorted(visits, key=lambda visit: visit.begin_ms)
    for event in events:
        while by_time[place].end_ms < event.ts_ms:
            place += 1
        if by_time[place].ordinal != event.visit:
            found.append((event, by_time[place].ordinal))
    return found
