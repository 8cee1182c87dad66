"""A part of an import while its transaction is open: what is a duplicate, what is bad after all, the rows of the rest.

What must hold exactly once is decided here, with the lock on writing held: ids that are there already, days whose raw
events were given up, the assignment a conversion needs, visits, and the marks of days that are to be built anew. It is
to an import what tally/ingest.py is to the server, with a part in place of a group; but visitors come from the file,
and totals and rollups are left to the work in the background.

New ids are taken from `meta` for each part, always at least one: a running server that finds the ids of the file ahead
of its own block knows that another process has written, and shows what it wrote.

`Check` answers beforehand what `Part` will find to be bad.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import chain
from typing import Any

import orjson

from tally import rollups, trials, value_limits, vital_days, vitals
from tally.enrich import FIELDS
from tally.events import AB_ASSIGN, AB_CONVERT, APP_EVENT, SCREEN_VIEW, VITALS, Rejection
from tally.labels import Labels
from tally.portable import Line
from tally.rows import marks, parts
from tally.sessions import DAY_MS
from tally.visits import Visits

BEYOND_RETENTION = Rejection(
    "beyond_retention", "The events of this day were given up; only its totals are kept.", "timestamp"
)
NO_ASSIGNMENT = Rejection(
    "no_assignment",
    "This visitor has no assignment that day: put its ab_assign before it, or name the variant.",
    "variant",
)
_EXPERIMENT, _VARIANT = len(FIELDS), len(FIELDS) + 1


class Part:
    """Some lines on their way into a website, in one transaction of the caller."""

    def __init__(self, connection: sqlite3.Connection, website: int, labels: Labels, visits: Visits) -> None:
        self._connection, self._website, self._labels, self._visits = connection, website, labels, visits
        self._assigned: dict[int, int] = {}
        self.accepted = self.duplicates = 0
        self.rejected: list[tuple[int, Rejection]] = []

    def take(self, lines: Sequence[Line]) -> None:
        """Stores what is new of the lines. 10 to 13 µs a line."""
        lines = self._within_retention(lines)
        self._number = self._labels.numbers_of(
            self._connection, set().union(*[line.texts for line in lines])
        ).__getitem__
        self._note_values(lines)
        accepted = self._new(lines)
        self.accepted = len(accepted)
        if accepted:
            self._store(accepted, self._ids(accepted))

    def _note_values(self, lines: Sequence[Line]) -> None:
        """Notes the values of the lines as used: an import is the owner's, and its values are not new afterwards."""
        # After the 14 fields come event_name of traffic, or experiment, variant and goal of A/B.
        traffic = [line.texts for line in lines if line.type <= APP_EVENT]
        of_ab = [line.texts for line in lines if line.type >= AB_ASSIGN]
        measured = [line.texts for line in lines if line.type == VITALS]
        of_test = (value_limits.EXPERIMENT, value_limits.VARIANT, value_limits.GOAL)
        used: dict[int, set[str]] = {}
        for texts, fields in ((traffic, (value_limits.EVENT_NAME,)), (of_ab, of_test), (measured, ())):
            for field, column in zip((*range(len(FIELDS)), *fields), zip(*texts, strict=True), strict=False):
                used.setdefault(field, set()).update(column)
        data = {line.rest[0] for line in lines if line.type <= APP_EVENT and line.rest[0] is not None}
        used[value_limits.PROPERTY] = {name for text in data for name in orjson.loads(text)}
        number = self._labels.numbers_of(self._connection, set().union(*used.values()))
        value_limits.add_values(
            self._connection,
            [(self._website, field, number[text]) for field, texts in used.items() for text in texts - {""}],
        )

    def _within_retention(self, lines: Sequence[Line]) -> Sequence[Line]:
        kept = {
            day for day in {line.ts_ms // DAY_MS for line in lines} if is_kept(self._connection, self._website, day)
        }
        if not kept:
            return lines
        self.rejected = [(line.number, BEYOND_RETENTION) for line in lines if line.ts_ms // DAY_MS in kept]
        return [line for line in lines if line.ts_ms // DAY_MS not in kept]

    def _new(self, lines: Sequence[Line]) -> list[Line]:
        """Those that are neither there already nor bad after all."""
        accepted = []
        known = self._known([(line.ts_ms, line.id) for line in lines if line.id is not None])
        for line in lines:
            key = line.ts_ms, line.id
            if key in known:
                self.duplicates += 1
            elif line.type >= AB_ASSIGN and not self._assign(line):
                self.rejected.append((line.number, NO_ASSIGNMENT))
            else:
                accepted.append(line)
                if line.id is not None:
                    known.add(key)
        return accepted

    def _known(self, keys: Sequence[tuple[int, int]]) -> set[tuple[int, int | None]]:
        """Which of (time, id) are there already."""
        known: set[tuple[int, int | None]] = set()
        times = [ts_ms for ts_ms, _ in keys]
        for table in ("event", "vitals", "ab") if keys else ():
            # A file in order comes to places where nothing is yet: one look instead of one for each line.
            is_empty = not self._connection.execute(
                f"/* intake.any */ select 1 from {table} where website = ? and ts >= ? and ts <= ? limit 1",
                (self._website, min(times), max(times)),
            ).fetchall()
            if not is_empty:
                known.update(
                    self._connection.execute(
                        f"/* intake.known */ select ts, {table}.id from json_each(?) as sent cross join {table}"
                        " where website = ? and ts = json_extract(sent.value, '$[0]')"
                        f" and {table}.id = json_extract(sent.value, '$[1]')",
                        (orjson.dumps(keys).decode(), self._website),
                    )
                )
        return known

    def _assign(self, line: Line) -> bool:
        """Notes the variant of a line of A/B; False where a conversion needs an assignment and there is none."""
        experiment, variant = self._number(line.texts[_EXPERIMENT]), self._number(line.texts[_VARIANT])
        key = self._website, line.ts_ms // DAY_MS, experiment, line.visitor
        if line.type == AB_ASSIGN:
            trials.assign(self._connection, {key: variant})
        elif not variant:
            variant = trials.variant_of(self._connection, key)
        self._assigned[line.number] = variant
        return variant != 0

    def _ids(self, lines: Sequence[Line]) -> Iterator[int]:
        """The id of each line, new ones where they have none."""
        missing = sum(line.id is None for line in lines)
        greatest = max(line.id or 0 for line in lines)
        ((end,),) = self._connection.execute(
            "/* intake.ids */ update meta set value = max(value, ? + 1) + ? where name = 'next_id' returning value",
            (greatest, max(missing, 1)),
        ).fetchall()
        new = iter(range(end - missing, end))
        return (next(new) if line.id is None else line.id for line in lines)

    def _store(self, lines: Sequence[Line], ids: Iterator[int]) -> None:
        number, website = self._number, self._website
        ordinals = self._touch([line for line in lines if line.type <= APP_EVENT])
        events: list[tuple[Any, ...]] = []
        measured: list[tuple[Any, ...]] = []
        ab: list[tuple[Any, ...]] = []
        converted: list[tuple[trials.Key, int]] = []
        for line, id in zip(lines, ids, strict=True):
            line_no, ts_ms, type_, _, visitor, _, texts, rest = line
            if type_ <= APP_EVENT:
                visit = next(ordinals[visitor])
                events.append((website, ts_ms, id, type_, visitor, visit, *map(number, texts), *rest))
            elif type_ == VITALS:
                measured.append((website, ts_ms, id, *map(number, texts), *vitals.stored(rest)))
            else:
                labels = [*map(number, texts)]
                labels[_VARIANT] = self._assigned[line_no]
                if type_ == AB_CONVERT:
                    key = website, ts_ms // DAY_MS, labels[_EXPERIMENT], visitor
                    converted.append((key, labels[_VARIANT + 1]))
                ab.append((website, ts_ms, id, type_, visitor, *labels, *rest))
        _insert(self._connection, "event", events)
        _insert(self._connection, "vitals", measured)
        vital_days.add(self._connection, measured)
        _insert(self._connection, "ab", ab)
        trials.convert(self._connection, converted)
        rollups.mark_stale(self._connection, website, sorted({row[1] // DAY_MS for row in events}))

    def _touch(self, traffic: Sequence[Line]) -> dict[int, Iterator[int]]:
        """Puts visits right; for each visitor the visits of its lines, in their order."""
        news: dict[int, list[tuple[int, bool]]] = {}
        for line in traffic:
            news.setdefault(line.visitor, []).append((line.ts_ms, line.type <= SCREEN_VIEW))
        return {visitor: iter(ordinals) for visitor, ordinals in self._visits.add(self._connection, news).items()}


class Check:
    """What of a file will be bad though each of its lines is sound, asked line by line in the order of the file."""

    def __init__(self, connection: sqlite3.Connection, website: int) -> None:
        self._connection, self._website = connection, website
        self._is_kept: dict[int, bool] = {}
        # Numbers in a table rather than texts in a set: 15 bytes for each of however many assignments.
        connection.execute("/* intake.promised */ create temp table if not exists promised (key integer primary key)")
        connection.execute("/* intake.none_promised */ delete from temp.promised")

    def rejection(self, line: Line) -> Rejection | None:
        """Why a line will not be taken; None where it will."""
        day = line.ts_ms // DAY_MS
        if day not in self._is_kept:
            self._is_kept[day] = is_kept(self._connection, self._website, day)
        if self._is_kept[day]:
            return BEYOND_RETENTION
        if line.type >= AB_ASSIGN:
            experiment, variant = line.texts[_EXPERIMENT], line.texts[_VARIANT]
            promise = blake2b(b"%d:%d:" % (day, line.visitor) + experiment.encode(), digest_size=7).digest()
            if line.type == AB_ASSIGN:
                self._connection.execute(
                    "/* intake.promise */ insert or ignore into temp.promised values (?)", (int.from_bytes(promise),)
                )
            elif not variant and not self._has_assignment(day, experiment, line.visitor, int.from_bytes(promise)):
                return NO_ASSIGNMENT
        return None

    def _has_assignment(self, day: int, experiment: str, visitor: int, promise: int) -> bool:
        if self._connection.execute(
            "/* intake.is_promised */ select 1 from temp.promised where key = ?", (promise,)
        ).fetchall():
            return True
        row = self._connection.execute(
            "/* intake.label */ select id from label where text = ?", (experiment,)
        ).fetchone()
        return row is not None and trials.variant_of(self._connection, (self._website, day, row[0], visitor)) != 0


def is_kept(connection: sqlite3.Connection, website: int, day: int) -> bool:
    """Whether the raw events of a UTC day were given up; with a day's go those of all days before it."""
    row = connection.execute(
        "/* intake.last_kept */ select 1 from built"
        " where website = ? and level = 0 and block >= ? and state = 3 limit 1",
        (website, day),
    ).fetchone()
    return row is not None


def _insert(connection: sqlite3.Connection, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
    for part in parts(rows):
        connection.execute(
            f"/* intake.insert */ insert into {table} values {marks(len(part[0]), len(part))}",
            list(chain.from_iterable(part)),
        )
