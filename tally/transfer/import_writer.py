"""Write a part of an import, within one transaction.

Everything that must be exact is decided here, under the write lock: duplicates of lines that were imported before, days
whose events have expired, the assignment that a conversion needs, visits, and the stale marks of days to rebuild. It is
the counterpart of tally/sqlite/writer.py, with a part in place of a group of requests; but visitors come from the file,
and totals and rollups are rebuilt in the background.

Each part takes ids from `meta`, in the order of its lines, and uses them in the same transaction. A running server that
finds `next_id` ahead of its own block detects that another process has written.

`Check` finds in advance the lines that `Part` would reject.
"""

import os
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from itertools import repeat
from operator import itemgetter
from typing import Any

import orjson

from tally.columns import deleted_rows
from tally.columns.statements import source_of
from tally.engine.archive import AnyLine, CrawlLine, Line, SumLine, Taken
from tally.events.dimensions import ACQUISITION, EVENT_FIELDS, EVENT_NAME, EXPERIMENT, FIELDS, GOAL, PROPERTY, VARIANT
from tally.events.validation import (
    AB_ASSIGN,
    AB_CONVERT,
    HEATMAP,
    LEAVE,
    MEASURES,
    PAGEVIEWS,
    TRAFFIC,
    TYPE_NAMES,
    VITALS,
    WITH_EXPERIMENT,
    Rejection,
)
from tally.events.visits import packed_acquisition
from tally.rollups import experiments, imported_sums, rollup_state, web_vitals
from tally.storage import cluster_tables, crawler_days, event_data, import_records, value_limits
from tally.storage.bulk_insert import insert
from tally.storage.database import snapshot
from tally.storage.disk_space import TOO_LITTLE_SPACE, min_free_bytes
from tally.storage.labels import LONGEST_CACHED, Labels
from tally.storage.meta import count_row_change
from tally.timestamps import DAY_MS
from tally.transfer.files import BadFile
from tally.transfer.visit_merge import News, Visits

BEYOND_RETENTION = Rejection(
    "beyond_retention", "The events of this day have expired; only its totals are kept.", "timestamp"
)
NO_ASSIGNMENT = Rejection(
    "no_assignment",
    "This visitor has no assignment on that day: put its ab_assign line first, or set variant.",
    "variant",
)
# From the columns of traffic: those that are stored with the event, and those of its visit's acquisition.
_of_event = itemgetter(*map(FIELDS.index, EVENT_FIELDS), len(FIELDS))
_of_visit = itemgetter(*map(FIELDS.index, ACQUISITION))
_PATHNAME, _EXPERIMENT, _VARIANT = FIELDS.index("pathname"), len(FIELDS), len(FIELDS) + 1
_VITALS = frozenset((VITALS, LEAVE))
# Of 64 MB of the temporary tables: a key takes up to 32 bytes.
_LINES_PER_LOOK = 2_000_000
# Tables of events, and the columns that identify the row of an exported line besides time and id. Web vitals have no
# visitor; their values are used instead.
_TABLES: tuple[tuple[str, str, frozenset[int]], ...] = (
    ("event", "visitor", TRAFFIC),
    ("web_vitals", f"0, {', '.join(MEASURES)}", _VITALS),
    ("experiment_event", "visitor", frozenset(TYPE_NAMES.keys() - TRAFFIC - _VITALS)),
)


class UsedValues:
    """The values that an import has recorded as used by its website, so that each is recorded once.

    They stay recorded as long as the website exists.
    """

    def __init__(self) -> None:
        self._known: dict[int, set[str]] = {}
        self._cached = 0

    def new(self, used: Mapping[int, set[str]]) -> list[tuple[int, str]]:
        """Return (field, value) of those values that have not been recorded yet, and count them as recorded."""
        unused = []
        for field, texts in used.items():
            known = self._known.setdefault(field, {""})
            new = texts - known
            unused += [(field, text) for text in new]
            short = [text for text in new if len(text) <= LONGEST_CACHED]
            known.update(short)
            self._cached += len(short)
        if self._cached > value_limits.CACHE_SIZE:
            self._known, self._cached = {}, 0
        return unused


class Part:
    """Lines to import into a website, within one transaction of the caller. `number` is that of the import."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        website: int,
        labels: Labels,
        visits: Visits,
        used: UsedValues,
        number: int,
    ) -> None:
        self._connection, self._website, self._labels, self._visits = connection, website, labels, visits
        self._used = used
        self._import = number
        self._assigned: dict[int, int] = {}
        # The ids of the stored events, and the first and last day of all that was stored.
        self.ids = range(0)
        self.days: tuple[int, int] | None = None
        self.accepted = self.sums = self.crawls = self.duplicates = 0
        self.rejected: list[tuple[int, Rejection]] = []

    def take(self, lines: Sequence[AnyLine]) -> None:
        """Store the new ones of the lines. Takes 10 to 13 µs a line."""
        events, sums, crawls = divided(lines)
        try:
            cluster_tables.require_all(self._connection, self._website)
        except cluster_tables.UnloadedDays as failure:
            raise BadFile(str(failure)) from None
        if sums:
            self._take_sums(sums)
        if events:
            self.take_events(events)
        if self.accepted or self.sums:
            cluster_tables.change(self._connection, self._website, "import")
        if crawls:
            self._take_crawls(crawls)

    def _take_crawls(self, crawls: Sequence[CrawlLine]) -> None:
        # A line with a key stands once, also within the part.
        new = {
            (line.ts_ms, line.key) if line.key is not None else (line.number, None): line
            for line in self._new_crawls(crawls)
        }
        self.duplicates += len(crawls) - len(new)
        if not new:
            return
        keys = [(self._website, *key, self._import) for key in new if key[1] is not None]
        insert(self._connection, "import_writer", "import_id", sorted(keys))
        counts: Counter[crawler_days.Key] = Counter()
        for line in new.values():
            counts[self._website, line.ts_ms // DAY_MS, *line.texts, line.source] += line.requests
        crawler_days.add_counts(self._connection, self._labels, counts, self._import)
        self.crawls = counts.total()
        days = {*(self.days or ()), *(line.ts_ms // DAY_MS for line in new.values())}
        self.days = min(days), max(days)
        if not self.accepted:
            # A running server that finds an id taken reads again what it keeps in memory.
            self._ids(1)

    def _new_crawls(self, crawls: Sequence[CrawlLine]) -> list[CrawlLine]:
        """Return the requests with a key that is new, and those of days on which the website has none of the crawler
        and source that others have counted."""
        known = self._imported(crawls)
        places = {(line.ts_ms // DAY_MS, line.texts[0], line.source) for line in crawls if line.key is None}
        others = crawler_days.others(self._connection, self._website, self._import, places)
        return [
            line
            for line in crawls
            if (line.ts_ms, line.key) not in known
            and (line.key is not None or (line.ts_ms // DAY_MS, line.texts[0], line.source) not in others)
        ]

    def _take_sums(self, sums: Sequence[SumLine]) -> None:
        new = self._new_sums(sums)
        number = self._labels.numbers_of(self._connection, {line.texts[0] for line in new})
        imported_sums.add(
            self._connection,
            self._website,
            self._import,
            [imported_sums.Sum(sum_.field, sum_.day, number[sum_.texts[0]], sum_.known, sum_.figures) for sum_ in new],
        )
        self.duplicates, self.sums = len(sums) - len(new), len(new)
        if new:
            self.days = min(line.day for line in new), max(line.day for line in new)

    def _new_sums(self, sums: Sequence[SumLine]) -> list[SumLine]:
        """Return the sums of fields and days of which no other import has any."""
        places = {(line.field, line.day) for line in sums}
        others = imported_sums.others(self._connection, self._website, self._import, places)
        return [line for line in sums if (line.field, line.day) not in others]

    def take_events(self, lines: Sequence[Line]) -> None:
        """Store the new ones of some events."""
        lines = self._within_retention(lines)
        self._number = self._stored_labels(lines).__getitem__
        self._key_rows: set[tuple[int, int]] = set()
        accepted = self._accepted(self._new(lines))
        self.accepted = len(accepted)
        if accepted:
            self.ids = range(accepted[0][1], accepted[-1][1] + 1)
            days = {*(self.days or ()), *(line.ts_ms // DAY_MS for line, _ in accepted)}
            self.days = min(days), max(days)
            self._store(accepted)

    def _stored_labels(self, lines: Sequence[Line]) -> Mapping[str, int]:
        """Return a mapping with the label of each text of the lines, and record their values as used, so that the
        limits on new values do not apply to them."""
        # After the dimensions come event_name of traffic, or experiment, variant and goal, which heatmap events lack.
        used: dict[int, set[str]] = {}
        of_experiments = WITH_EXPERIMENT | {HEATMAP}, (EXPERIMENT, VARIANT, GOAL)
        for types, fields in ((TRAFFIC, (EVENT_NAME,)), of_experiments, (_VITALS, ())):
            texts = [line.texts for line in lines if line.type in types]
            for field, column in zip((*range(len(FIELDS)), *fields), zip(*texts, strict=True), strict=False):
                used.setdefault(field, set()).update(column)
        data = {line.rest[0] for line in lines if line.type in TRAFFIC}
        used[PROPERTY] = {name for text in data - {None} for name in orjson.loads(text)}
        number = self._labels.numbers_of(self._connection, set().union(*used.values()))
        value_limits.add_values(
            self._connection, [(self._website, field, number[text]) for field, text in self._used.new(used)]
        )
        return number

    def _within_retention(self, lines: Sequence[Line]) -> Sequence[Line]:
        kept = {
            day for day in {line.ts_ms // DAY_MS for line in lines} if is_kept(self._connection, self._website, day)
        }
        if not kept:
            return lines
        self.rejected = [(line.number, BEYOND_RETENTION) for line in lines if line.ts_ms // DAY_MS in kept]
        return [line for line in lines if line.ts_ms // DAY_MS not in kept]

    def known(self, lines: Sequence[AnyLine]) -> int:
        """Return how many of the lines the website has. Stores nothing. The connection must be in no transaction."""
        events, sums, crawls = divided(lines)
        with snapshot(self._connection):
            days = sorted({line.ts_ms // DAY_MS for line in events if line.row is not None})
            deleted_rows.show(self._connection, self._website, days)
            new = len(self._unknown(events)) + len(self._new_sums(sums)) + len(self._new_crawls(crawls))
            return len(lines) - new

    def _unknown(self, lines: Sequence[Line]) -> list[Line]:
        """Return the lines that the website does not have from an earlier part or as its own events."""
        known = self._imported(lines)
        known |= self._exported(lines)
        return [line for line in lines if (line.ts_ms, line.key) not in known] if known else list(lines)

    def _new(self, lines: Sequence[Line]) -> list[Line]:
        new = self._unknown(lines)
        self.duplicates += len(lines) - len(new)
        return new

    def _accepted(self, lines: Sequence[Line]) -> list[tuple[Line, int]]:
        """Return the lines to store, each with its id: neither copies within the part nor bad after all."""
        accepted = []
        for line, id in zip(lines, self._ids(len(lines)), strict=True):
            key = line.ts_ms, line.key
            if key in self._key_rows:
                self.duplicates += 1
            elif line.type in WITH_EXPERIMENT and not self._assign(line, id):
                self.rejected.append((line.number, NO_ASSIGNMENT))
            else:
                accepted.append((line, id))
                if line.key is not None:
                    self._key_rows.add((line.ts_ms, line.key))
        return accepted

    def _imported(self, lines: Sequence[Line] | Sequence[CrawlLine]) -> set[tuple[int, int | None]]:
        """Return (time, key) of the lines that were imported before."""
        keys = [(line.ts_ms, line.key) for line in lines if line.key is not None]
        if self._is_empty("import_id", [ts_ms for ts_ms, _ in keys]):
            return set()
        return set(
            self._connection.execute(
                "/* import_writer.imported */ select ts, digest from json_each(?) as sent cross join import_id"
                " where website = ? and ts = json_extract(sent.value, '$[0]')"
                " and digest = json_extract(sent.value, '$[1]')",
                (orjson.dumps(keys).decode(), self._website),
            )
        )

    def _exported(self, lines: Sequence[Line]) -> set[tuple[int, int | None]]:
        """Return (time, key) of the lines that are exports of rows of this website."""
        known: set[tuple[int, int | None]] = set()
        exported = [line for line in lines if line.row is not None]
        for table, who, types in _TABLES if exported else ():
            sent: dict[tuple[Any, ...], int | None] = {
                (line.ts_ms, *line.row, *(web_vitals.stored(line.rest) if line.type in _VITALS else ())): line.key
                for line in exported
                if line.row is not None and line.type in types
            }
            if self._is_empty(table, [row[0] for row in sent]):
                continue
            rows = self._connection.execute(
                f"/* import_writer.exported */ select ts, {table}.id, {who} from json_each(?) as sent"
                f" cross join {table} where website = ? and ts = json_extract(sent.value, '$[0]')"
                f" and {table}.id = json_extract(sent.value, '$[1]')",
                (orjson.dumps([row[:2] for row in sent]).decode(), self._website),
            )
            known.update((row[0], sent[row]) for row in rows if row in sent)
        return known

    def _is_empty(self, table: str, times: Sequence[int]) -> bool:
        """Return whether the website has no row between these times, as usual for sorted files."""
        return (
            not times
            or not self._connection.execute(
                f"/* import_writer.any */ select 1 from {table} where website = ? and ts >= ? and ts <= ? limit 1",
                (self._website, min(times), max(times)),
            ).fetchall()
        )

    def _assign(self, line: Line, id: int) -> bool:
        """Record the variant of an experiment line; return False where a conversion lacks its assignment."""
        experiment, variant = self._number(line.texts[_EXPERIMENT]), self._number(line.texts[_VARIANT])
        key = self._website, line.ts_ms // DAY_MS, experiment, line.visitor
        if line.type == AB_ASSIGN:
            if experiment and variant:
                experiments.assign(self._connection, {key: experiments.Assignment(line.ts_ms, id, variant)})
        elif experiment and not variant:
            variant = experiments.variant_of(self._connection, key)
        self._assigned[line.number] = variant
        return variant != 0 or line.type == AB_ASSIGN or not experiment

    def _ids(self, count: int) -> range:
        """Reserve ids."""
        if not count:
            return range(0)
        ((end,),) = self._connection.execute(
            "/* import_writer.ids */ update meta set value = value + ? where name = 'next_id' returning value", (count,)
        ).fetchall()
        return range(end - count, end)

    def _store(self, lines: Sequence[tuple[Line, int]]) -> None:
        number, website = self._number, self._website
        measured: list[tuple[Any, ...]] = []
        ab: list[tuple[Any, ...]] = []
        converted: list[tuple[experiments.Key, int]] = []
        traffic: list[tuple[Line, int]] = []
        for line, id in lines:
            if line.type in TRAFFIC:
                traffic.append((line, id))
                continue
            line_no, ts_ms, type_, _, _, visitor, _, texts, rest = line
            if type_ in _VITALS:
                measured.append((website, ts_ms, id, *map(number, texts), *web_vitals.stored(rest)))
            else:
                labels = [*map(number, texts)]
                labels[_VARIANT] = self._assigned.get(line_no, 0)
                if type_ == AB_CONVERT and labels[_EXPERIMENT]:
                    key = website, ts_ms // DAY_MS, labels[_EXPERIMENT], visitor
                    converted.append((key, labels[_VARIANT + 1]))
                ab.append((website, ts_ms, id, type_, visitor, *labels, *rest))
        keys = [(website, *key, self._import) for key in sorted(self._key_rows)]
        insert(self._connection, "import_writer", "import_id", keys)
        if traffic:
            self._store_traffic(traffic)
        insert(self._connection, "import_writer", "web_vitals", measured)
        insert(self._connection, "import_writer", "experiment_event", ab)
        experiments.convert(self._connection, converted)

    def _store_traffic(self, traffic: Sequence[tuple[Line, int]]) -> None:
        """Store events and their visits. Values are handled by column: a quarter of the time of line by line."""
        lines, ids = zip(*traffic, strict=True)
        _, times, types, _, _, visitors, _, texts, rests = zip(*lines, strict=True)
        labels = [[*map(self._number, column)] for column in zip(*texts, strict=True)]
        visits = self._touch(times, types, visitors, labels)
        stored: list[str | None] = []
        data_parts: list[event_data.Part] = []
        for (data,), id in zip(rests, ids, strict=True):
            data, parts = event_data.split(data, id)
            stored.append(data)
            data_parts += parts
        columns = repeat(self._website), times, ids, types, visitors, visits, *_of_event(labels), stored
        insert(self._connection, "import_writer", "event", [*zip(*columns, strict=False)])
        event_data.add(self._connection, data_parts)
        days = sorted({ts_ms // DAY_MS for ts_ms in times})
        rollup_state.mark_stale(self._connection, self._website, days)

    def _touch(
        self, times: Sequence[int], types: Sequence[int], visitors: Sequence[int], labels: Sequence[Sequence[int]]
    ) -> list[int]:
        """Update visits; return the number of the visit of each event. `labels`: of each text of FIELDS, by event."""
        # Most events have one of a few acquisitions.
        packed = {source: packed_acquisition(source) for source in {*zip(*_of_visit(labels), strict=True)}}
        sources = [packed[source] for source in zip(*_of_visit(labels), strict=True)]
        news: dict[int, list[News]] = {}
        is_view = map(PAGEVIEWS.__contains__, types)
        for visitor, arrived in zip(visitors, map(News, times, is_view, labels[_PATHNAME], sources), strict=True):
            news.setdefault(visitor, []).append(arrived)
        added = self._visits.add(self._connection, self._import, news)
        ordinals = {visitor: iter(of_visitor) for visitor, of_visitor in added.items()}
        return [next(ordinals[visitor]) for visitor in visitors]


def days_of(lines: Iterable[AnyLine]) -> dict[int, set[int]]:
    """Return the days of the events among some lines, by what is packed (tally/columns/statements.py)."""
    days: dict[int, set[int]] = {}
    for line in lines:
        if isinstance(line, Line):
            days.setdefault(source_of(line.type), set()).add(line.ts_ms // DAY_MS)
    return days


def visitors_of(lines: Iterable[AnyLine]) -> dict[int, set[int]]:
    """Return the visitors, by day, whose visits the events among some lines may be part of."""
    visitors: dict[int, set[int]] = {}
    for line in lines:
        if isinstance(line, Line) and line.type in TRAFFIC and line.is_named:
            visitors.setdefault(line.ts_ms // DAY_MS, set()).add(line.visitor)
    return visitors


def take(connection: sqlite3.Connection, website: int, number: int, lines: Sequence[AnyLine]) -> Taken:
    """Store lines of an import that has a row, within a transaction of the caller.

    The import of a file (tally/transfer/importer.py) does the same with caches, and stores its progress.
    """
    _reopen(connection, website, lines)
    visits = Visits(website)
    visits.load(connection, visitors_of(lines), number)
    part = Part(connection, website, Labels(), visits, UsedValues(), number)
    part.take(lines)
    import_records.add_ids(connection, website, number, range(0), part.ids)
    added = part.accepted, part.sums, part.crawls
    import_records.count(connection, website, number, added, part.days)
    return Taken(*added, part.duplicates, part.rejected)


class _Restored(Part):
    """Events that the website has had before, each with the id that it had: none of them is a copy."""

    def _within_retention(self, lines: Sequence[Line]) -> Sequence[Line]:
        return lines

    def _accepted(self, lines: Sequence[Line]) -> list[tuple[Line, int]]:
        for line in lines:
            if line.type in WITH_EXPERIMENT:
                self._assign(line, line.number)
        return [(line, line.number) for line in lines]


def restore(connection: sqlite3.Connection, website: int, lines: Sequence[Line], *, counts: bool = True) -> None:
    """Store events that the website has had before under their ids, which are the numbers of their lines, within a
    transaction of the caller. Their days have no events but those that were restored. counts: whether experiments are
    counted, as they are not where their counts have stayed."""
    tested = {line.ts_ms // DAY_MS for line in lines if line.type in WITH_EXPERIMENT}
    counted = {} if counts else {day: experiments.stored_day(connection, website, day) for day in tested}
    _reopen(connection, website, lines)
    # A search for labels that no row has may be under way.
    count_row_change(connection)
    visits = Visits(website)
    visits.load(connection, visitors_of(lines), None)
    _Restored(connection, website, Labels(), visits, UsedValues(), 0).take_events(lines)
    for day, stored in counted.items():
        experiments.store_day(connection, website, day, stored)


def _reopen(connection: sqlite3.Connection, website: int, lines: Sequence[AnyLine]) -> None:
    for source, days in days_of(lines).items():
        deleted_rows.reopen(connection, website, days, [source])


def divided(lines: Sequence[AnyLine]) -> tuple[list[Line], list[SumLine], list[CrawlLine]]:
    """Return the events, the sums and the requests of crawlers among some lines."""
    events: list[Line] = []
    sums: list[SumLine] = []
    crawls: list[CrawlLine] = []
    for line in lines:
        if isinstance(line, Line):
            events.append(line)
        elif isinstance(line, SumLine):
            sums.append(line)
        else:
            crawls.append(line)
    return events, sums, crawls


class Check:
    """Finds lines that are valid by themselves and that `Part` would reject, in the order of the file.

    Its temporary tables are in a file. `count` raises BadFile where that would fill its disk.
    """

    def __init__(self, connection: sqlite3.Connection, website: int, min_free_bytes: int) -> None:
        self._connection, self._website, self._min_free_bytes = connection, website, min_free_bytes
        self._is_kept: dict[int, bool] = {}
        self._lines = 0
        connection.execute("pragma temp_store = file")
        # A table of integers takes 15 bytes for each assignment, on disk where there are many; a set of texts far more.
        connection.execute(
            "/* import_writer.promised */ create temp table if not exists promised (key integer primary key)"
        )
        connection.execute("/* import_writer.none_promised */ delete from temp.promised")
        connection.execute(
            "/* import_writer.checked */ create temp table if not exists checked"
            " (ts integer, key integer, primary key (ts, key)) without rowid"
        )
        connection.execute("/* import_writer.none_checked */ delete from temp.checked")

    def count(self, lines: int) -> None:
        """Record that so many lines follow. Raises BadFile where their keys could fill the disk."""
        before, self._lines = self._lines, self._lines + lines
        if before // _LINES_PER_LOOK < self._lines // _LINES_PER_LOOK:
            # SQLite's directory for temporary files: https://www.sqlite.org/tempfiles.html, section 5.
            disk = shutil.disk_usage(os.environ.get("SQLITE_TMPDIR") or tempfile.gettempdir())
            if disk.free < min_free_bytes(self._min_free_bytes, disk.total):
                raise BadFile(TOO_LITTLE_SPACE)

    def is_copy(self, line: AnyLine) -> bool:
        """Return whether the file has had the line before. Sums are added up: they have no copies."""
        if isinstance(line, SumLine) or line.key is None:
            return False
        new = self._connection.execute(
            "/* import_writer.check */ insert or ignore into temp.checked values (?, ?)", (line.ts_ms, line.key)
        )
        return not new.rowcount

    def rejection(self, line: AnyLine) -> Rejection | None:
        """Return why a line will be rejected; None where it will not."""
        if not isinstance(line, Line):
            return None
        day = line.ts_ms // DAY_MS
        if day not in self._is_kept:
            self._is_kept[day] = is_kept(self._connection, self._website, day)
        if self._is_kept[day]:
            return BEYOND_RETENTION
        if line.type in WITH_EXPERIMENT:
            experiment, variant = line.texts[_EXPERIMENT], line.texts[_VARIANT]
            promise = blake2b(b"%d:%d:" % (day, line.visitor) + experiment.encode(), digest_size=7).digest()
            if line.type == AB_ASSIGN and experiment and variant:
                self._connection.execute(
                    "/* import_writer.promise */ insert or ignore into temp.promised values (?)",
                    (int.from_bytes(promise),),
                )
            elif (
                line.type == AB_CONVERT
                and experiment
                and not variant
                and not self._has_assignment(day, experiment, line.visitor, int.from_bytes(promise))
            ):
                return NO_ASSIGNMENT
        return None

    def _has_assignment(self, day: int, experiment: str, visitor: int, promise: int) -> bool:
        if self._connection.execute(
            "/* import_writer.is_promised */ select 1 from temp.promised where key = ?", (promise,)
        ).fetchall():
            return True
        row = self._connection.execute(
            "/* import_writer.label */ select id from label where text = ?", (experiment,)
        ).fetchone()
        return row is not None and experiments.variant_of(self._connection, (self._website, day, row[0], visitor)) != 0


def is_kept(connection: sqlite3.Connection, website: int, day: int) -> bool:
    """Whether the raw events of a day were given up; with a day's go those of all days before it."""
    row = connection.execute(
        "/* import_writer.last_kept */ select 1 from rollup_state"
        " where website = ? and kind = 0 and level = 0 and block >= ? and state = 3 limit 1",
        (website, day),
    ).fetchone()
    return row is not None
