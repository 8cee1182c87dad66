"""Delete everything stored of a deleted website, in steps.

`delete_website` (tally/accounts/websites.py) deletes the website's own row and inserts one into `deleted_website`, in
one transaction: from then on no request reaches it. The rest is deleted here in short steps, each within a transaction
of the caller: `delete_rows` deletes from every table that has a website column; `LabelScan` and `delete_labels` find
and delete the labels that no other website uses; `free_pages` returns free pages to the file system; `finish` marks the
deletion as complete. After a crash the next start continues.

During these steps SQLite overwrites deleted content and freed pages (`secure_delete`), and the store truncates the
write-ahead log afterwards. One exception: a database page that also holds rows of another website may keep deleted
bytes in its free space until SQLite next rewrites that page.

Numbers of websites and labels are not assigned again, so a cached number never refers to another website or text.
"""

import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from tally.accounts.websites import secure_delete
from tally.columns import statements
from tally.columns.statements import EXPERIMENTS, TRAFFIC, WEB_VITALS
from tally.events.dimensions import EVENT_FIELDS, FIELDS, PROPERTY, VISIT_FIELDS
from tally.storage import event_data
from tally.storage.database import interrupted_when
from tally.storage.labels import Labels
from tally.storage.meta import row_changes
from tally.storage.value_limits import ValueLimits

# A step takes 2 to 4 ms of a processor, and a collect request waits for the writer meanwhile. These are amounts, not a
# time: a step deletes as much on a machine that is busy otherwise.
_ROWS = 250
_BATCHES = 4
_PAGES = 64
# A row of a page with clicks everywhere takes 100 KB and more.
_LARGE_ROWS = {"heatmap_block": 5, "day_column": 5, "rollup_block": 50, "web_vitals_histogram": 5}

TABLES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("event", ("ts", "id")),
    ("visit", ("day", "visitor", "visit")),
    ("page_title", ("pathname",)),
    ("rollup_block", ("field", "level", "block", "first_value")),
    ("total_15m", ("quarter",)),
    ("rollup_state", ("kind", "level", "block")),
    ("packed_day", ("source", "day")),
    ("day_column", ("field", "day")),
    ("goal_day", ("saved_goal", "field", "day", "value")),
    ("web_vitals", ("ts", "id")),
    ("web_vitals_histogram", ("day", "field")),
    ("experiment_event", ("ts", "id")),
    ("experiment_assignment", ("day", "experiment", "visitor")),
    ("experiment_conversion", ("day", "experiment", "visitor", "goal")),
    ("experiment_total", ("day", "experiment", "variant", "converted", "goal")),
    ("heatmap_point", ("day", "pathname", "viewport", "kind", "bin_y", "bin_x")),
    ("heatmap_block", ("pathname", "band", "level", "block")),
    ("heatmap_count", ("level", "block", "pathname")),
    ("heatmap_text", ("pathname", "viewport", "bin_y", "bin_x")),
    ("event_id", ("minute_ms", "digest")),
    ("import_id", ("ts", "digest")),
    ("import_visit", ("day", "visitor", "import", "visit")),
    ("import_range", ("first_id",)),
    ("imported_sum", ("field", "day", "value")),
    ("imported_field", ("field", "day")),
    ("import", ("number",)),
    ("deletion", ("number",)),
    ("rejected_event", ("quarter", "reason")),
    ("rejected_sample", ("reason", "id")),
    ("crawler_day", ("day", "crawler", "pathname", "source", "import")),
    ("field_value", ("field", "value")),
    ("new_value", ("day", "field")),
    ("website_usage", ("month",)),
)
"""Every table whose rows are a website's, but for those that go with its row in `website`
(and event_data_part, whose rows go with their event); the rest of the key."""

_LABELS = (
    ("event", (*EVENT_FIELDS, "event_name")),
    ("import_visit", VISIT_FIELDS),
    ("visit", VISIT_FIELDS),
    ("page_title", ("pathname",)),
    ("imported_sum", ("value",)),
    ("web_vitals", FIELDS),
    ("experiment_event", (*FIELDS, "experiment", "variant", "goal")),
    ("experiment_assignment", ("experiment", "variant")),
    ("experiment_conversion", ("experiment", "goal")),
    ("experiment_total", ("experiment", "variant", "goal")),
    ("heatmap_point", ("pathname",)),
    ("heatmap_count", ("pathname",)),  # and with it those of heatmap_block and heatmap_text
    ("goal_day", ("value",)),
    ("crawler_day", ("crawler", "pathname")),
)
"""Where numbers of labels are; a table that rows are moved from stands before those they move to."""
_IN_COLUMNS = tuple(
    (source, name)
    for source, more in (
        (TRAFFIC, ("event_name",)),
        (WEB_VITALS, ()),
        (EXPERIMENTS, ("experiment", "variant", "goal")),
    )
    for name in (*FIELDS, *more)
)
"""The columns of stored days; entry and exit pages of a day are paths of it."""
_KEPT_VALUES = (
    "/* deletion.kept_values */ select content, field, first_value from rollup_block where website = ? and level = 0"
)


_VALUES = "/* deletion.values */ select field, value from field_value where website = ?1 and ?2 in (0, 1)"
"""The values that a website has used: read after its rows, of which each has a value that is there."""

Value = tuple[int, int, int]
"""A row of table field_value: website, field, value."""


class DeletedWebsite(NamedTuple):
    """A deleted website whose rows may not be deleted yet."""

    website: int
    deleted_ms: int


def pending(connection: sqlite3.Connection) -> list[DeletedWebsite]:
    """Return the deleted websites whose deletion is not complete."""
    rows = connection.execute(
        "/* deletion.todo */ select website, deleted_ms from deleted_website where is_complete = 0"
    ).fetchall()
    return [DeletedWebsite(*row) for row in rows]


def delete_rows(connection: sqlite3.Connection, website: int) -> bool:
    """Delete some rows of a deleted website; return whether there were any."""
    batches = 0
    with secure_delete(connection):
        for table, key in TABLES:
            names = ("website", *key)
            of_key = " and ".join(f"{name} = ?" for name in names)
            while rows := connection.execute(
                f"/* deletion.rows */ select {', '.join(names)} from {table} where website = ? limit ?",
                (website, _LARGE_ROWS.get(table, _ROWS)),
            ).fetchall():
                if table == "event":
                    event_data.delete(connection, rows)
                connection.executemany(f"/* deletion.erase */ delete from {table} where {of_key}", rows)
                batches += 1
                if batches == _BATCHES:
                    return True
        # Which import wrote last.
        connection.execute("/* deletion.marks */ delete from meta where name = ?", (f"importing:{website}",))
    return batches > 0


# --- labels


class LabelScan:
    """Finds the labels that any row of any website has, in steps, each a statement with its own snapshot.

    `changed`: websites of which events were deleted. Of these, values that no row has any more are `unused_values`, and
    count as no use of their labels.

    Between two steps rows may move: from events to columns, and from there to kept values, from points to packed ones.
    No label is missed: `_uses` reads the table from which rows move before the one to which they move, and labels of
    rows that arrive later are recorded (`watch_labels`). Once `is_over` returns true, a step raises
    sqlite3.OperationalError.
    """

    def __init__(
        self, connection: sqlite3.Connection, is_over: Callable[[], bool], changed: Collection[int] = ()
    ) -> None:
        self._is_over = is_over
        self.unused_values: list[Value] = []
        self._last = int(connection.execute("/* deletion.last_label */ select max(id) from label").fetchone()[0])
        # A byte for each label rather than a set of integers: a million of them take 1 MB.
        self._used = bytearray(self._last + 1)
        # Those of schema.sql.
        self._used[0] = self._used[1] = 1
        self._of_website = bytearray(len(self._used))
        self._uses = _uses(connection, changed)

    def step(self, connection: sqlite3.Connection) -> bool:
        """Read one column of one website; return whether there was one left. Takes about 0.2 µs a row or label."""
        statement, parameters = next(self._uses, ("", ()))
        if statement:
            with interrupted_when(connection, self._is_over):
                if statement == _VALUES:
                    self._read_values(connection, parameters)
                    return True
                for row in connection.execute(statement, parameters):
                    for label in row if isinstance(row[0], int) else self._labels_of(*row):
                        if label <= self._last:
                            self._used[label] = self._of_website[label] = 1
        return bool(statement)

    def _read_values(self, connection: sqlite3.Connection, parameters: tuple[int, ...]) -> None:
        """Read the values that a website has used: those that none of its rows has are unused, if events were deleted.

        Names of properties are in the JSON of events.
        """
        website, is_changed = parameters
        for field, value in connection.execute(_VALUES, parameters):
            if value > self._last:
                continue
            if not is_changed or field == PROPERTY or self._of_website[value]:
                self._used[value] = 1
            else:
                self.unused_values.append((website, field, value))
        self._of_website = bytearray(len(self._used))

    def _labels_of(self, content: bytes, field: int | None = None, first_value: int = 0) -> Sequence[int]:
        """Return the labels in an array of values, or without a field in a column; all labels where it is damaged."""
        # numpy is imported with the first day that has either.
        from tally.columns.format import labels_in
        from tally.rollups.value_blocks import decoded

        try:
            labels: list[int] = (
                labels_in(content) if field is None else decoded(field, first_value, content)[0].tolist()
            )
        except sqlite3.DatabaseError:
            return range(len(self._used))
        return labels

    def unused(self, connection: sqlite3.Connection) -> list[int]:
        """Return the labels that no row has."""
        labels = connection.execute("/* deletion.labels */ select id from label where id <= ?", (self._last,))
        return [label for (label,) in labels if not self._used[label]]


def _uses(connection: sqlite3.Connection, changed: Collection[int]) -> Iterator[tuple[str, tuple[int, ...]]]:
    websites = connection.execute(
        "/* deletion.websites */ select number from website union select website from deleted_website"
        " where is_complete = 0"
    ).fetchall()
    return _uses_of([website for (website,) in websites], changed)


def _uses_of(websites: Iterable[int], changed: Collection[int]) -> Iterator[tuple[str, tuple[int, ...]]]:
    for website in websites:
        for table, columns in _LABELS:
            for column in columns:
                yield f"/* deletion.used */ select distinct {column} from {table} where website = ?", (website,)
        for source, name in _IN_COLUMNS:
            statement, parameters = statements.labels_of(website, source, name)
            yield statement, tuple(parameters)
        # Those of days whose events have expired; what blocks of days have is there or in columns.
        yield _KEPT_VALUES, (website,)
        yield "/* deletion.histograms */ select label from web_vitals_histogram where website = ?", (website,)
        yield _VALUES, (website, int(website in changed))


def watch_labels(connection: sqlite3.Connection, labels: Labels) -> int:
    """Start recording the labels in use; return a number that changes with writes of other processes, and where rows
    are put back (tally/columns/deleted_rows.py) or changed (tally/transfer/event_deletion.py)."""
    labels.watch()
    return _data_version(connection)


def delete_values(
    connection: sqlite3.Connection, labels: Labels, limits: ValueLimits | None, version: int, values: list[Value]
) -> bool:
    """Pop some of the values that no row of their website has and delete them, except those used since `watch_labels`.

    Return False, without deleting, where another process has written since, or rows were put back.
    """
    if _data_version(connection) != version:
        return False
    some = [values.pop() for _ in range(min(len(values), _ROWS))]
    with secure_delete(connection):
        connection.executemany(
            "/* deletion.delete_values */ delete from field_value where website = ? and field = ? and value = ?",
            [row for row in some if row[2] not in labels.watched],
        )
    if limits is not None:
        # A value that is used again is new again.
        limits.clear()
    return True


def delete_labels(connection: sqlite3.Connection, labels: Labels, version: int, candidates: list[int]) -> bool:
    """Pop some labels from `candidates` and delete them, except those used since `watch_labels`.

    Return False, without deleting, where another process has written since, or rows were put back, which may have any
    of them.
    """
    if _data_version(connection) != version:
        return False
    last = connection.execute("/* deletion.newest_label */ select max(id) from label").fetchone()[0]
    some = [candidates.pop() for _ in range(min(len(candidates), _ROWS))]
    unused = [label for label in some if label not in labels.watched]
    with secure_delete(connection):
        # The newest label keeps its number, so that it is not assigned again; only its text is deleted.
        connection.executemany(
            "/* deletion.hush */ update or ignore label set text = char(0) || id where id = ?",
            [(label,) for label in unused if label == last],
        )
        connection.executemany(
            "/* deletion.sweep */ delete from label where id = ?", [(label,) for label in unused if label != last]
        )
    # Another process that imports caches label numbers, and checks this counter.
    connection.execute(
        "/* deletion.swept */ insert into meta (name, value) values ('swept', 1)"
        " on conflict do update set value = value + 1"
    )
    return True


def _data_version(connection: sqlite3.Connection) -> int:
    # 32 bits are the data version.
    return row_changes(connection) << 32 | int(connection.execute("pragma data_version").fetchone()[0])


# --- the end


def free_pages(connection: sqlite3.Connection) -> bool:
    """Return some free pages to the file system; return whether there are more."""
    if connection.execute("pragma auto_vacuum").fetchone()[0] != 2:
        return False
    left = int(connection.execute("pragma freelist_count").fetchone()[0])
    for _ in range(min(left, _PAGES)):
        # Stepped once, it frees one page.
        connection.execute("pragma incremental_vacuum(1)").fetchall()
    return left > _PAGES


def finish(connection: sqlite3.Connection, websites: Iterable[int]) -> None:
    """Mark the deletion of websites as complete."""
    connection.executemany(
        "/* deletion.finish */ update deleted_website set is_complete = 1 where website = ?",
        [(one,) for one in websites],
    )
