"""What a deletion of events by filter would delete, or a rule for paths would rewrite
(tally/transfer/event_deletion.py), counted without changing anything.

The same conditions decide. Of days that have only columns the matching events are found in these, and only their rows
are made, for the time of the read.
"""

import sqlite3
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from tally.accounts.websites import day_offset_ms
from tally.columns import deleted_rows
from tally.columns.statements import TABLES, TRAFFIC
from tally.engine.values import WIDTHS, Place, Scope
from tally.events.dimensions import FIELDS, VISIT_FIELDS, field_number
from tally.events.filters import Filter
from tally.events.path_rules import PathRule
from tally.reports import event_list
from tally.reports.cache import ResultCache
from tally.reports.coverage import Coverage, conditions_of, coverage_of
from tally.rollups import heatmaps, imported_sums
from tally.rollups.rollup_state import KEPT
from tally.storage import cluster_tables, crawler_days
from tally.storage.database import check_interrupt
from tally.storage.deletion_records import Plan, matching
from tally.storage.meta import ids_end
from tally.storage.sql import events as statements
from tally.storage.sql.events import SOURCE_COLUMNS, of_visit
from tally.storage.sql.filters import LabelFilter
from tally.timestamps import DAY_MS

MAX_SAMPLES = 10
# Different values of a field that are counted to choose the samples.
_MAX_VALUES = 10_000
_ALL = 1 << 40
_PAGES_BETWEEN_CHECKS = 1_000


class DeletionPreview(NamedTuple):
    """What would be deleted or rewritten, and what is not covered.

    samples: the most frequent values of each field with a filter. paths: how many different ones would be rewritten;
    renamed: the most frequent of them, with the new ones.
    not_covered: codes such as `heatmaps` (docs/deleting-events.md).
    """

    plan: Plan
    events: int
    visits_changed: int
    visits_gone: int
    days: int
    imported_sums_days: int
    samples: dict[str, list[str]]
    not_covered: list[str]
    paths: int = 0
    renamed: Sequence[tuple[str, str]] = ()


class _Counts:
    def __init__(self, connection: sqlite3.Connection, website: int, plan: Plan) -> None:
        self.connection, self.website, self.plan = connection, website, plan
        self.events = self.changed = self.gone = self.without_source = 0
        self.values: dict[str, Counter[int]] = {
            of.field: Counter() for of in plan.filters if of.property_name is None and of.field != "type"
        }

    def count(self, source: int, day: int) -> int:
        """Count the matching events of a day, which statements see; return their number."""
        begin_ms, end_ms = max(day * DAY_MS, self.plan.from_ms), min((day + 1) * DAY_MS, self.plan.to_ms)
        matches, values = matching(self.website, self.plan, TABLES[source])
        table = TABLES[source]
        where = f"from {table} where website = ? and ts >= ? and ts < ? and {matches}"
        parameters = (self.website, begin_ms, end_ms, *values)
        counted = self.connection.execute(f"/* deletion_preview.events */ select count(*) {where}", parameters)
        events = int(counted.fetchone()[0])
        if events and source == TRAFFIC and self.plan.rule is None:
            self._count_visits(where, parameters, day)
        if events:
            self._count_values(source, where, parameters)
        self.events += events
        return events

    def _count_visits(self, where: str, parameters: Sequence[object], day: int) -> None:
        gone, changed, without_source = self.connection.execute(
            "/* deletion_preview.visits */ select coalesce(sum(deleted = own.pageviews + own.events), 0),"
            " coalesce(sum(deleted < own.pageviews + own.events), 0), coalesce(sum(deleted < own.pageviews + own.events"
            f" and own.channel != 1 and times like '%,' || (own.start_ms + own.acquired_after_ms) || ',%'), 0)"
            " from (select event.visitor as visitor, event.visit as visit, count(*) as deleted,"
            f" ',' || group_concat(event.ts) || ',' as times {where} group by 1, 2) as some join visit as own"
            " on own.website = ? and own.day = ? and own.visitor = some.visitor and own.visit = some.visit",
            (*parameters, self.website, day),
        ).fetchone()
        self.gone += gone
        self.changed += changed
        self.without_source += without_source

    def _count_values(self, source: int, where: str, parameters: Sequence[object]) -> None:
        fixed = SOURCE_COLUMNS[TABLES[source]]
        for field, known in self.values.items():
            column = of_visit(field) if source == TRAFFIC and field in VISIT_FIELDS else fixed.get(field, field)
            for label, events in self.connection.execute(
                f"/* deletion_preview.values */ select {column}, count(*) {where} group by 1", parameters
            ):
                if label in known or len(known) < _MAX_VALUES or self.plan.rule is not None:
                    known[label] += events

    def samples(self) -> dict[str, list[str]]:
        """Return the most frequent values of each field."""
        found = {}
        for field, known in self.values.items():
            labels = [label for label, _ in known.most_common(MAX_SAMPLES)]
            texts = dict(self.connection.execute(*statements.texts(labels)).fetchall())
            found[field] = [texts[label] for label in labels if label in texts]
        return found


def preview(
    connection: sqlite3.Connection,
    website: int,
    span: tuple[int, int],
    filters: tuple[Filter, ...],
    last_id: int,
    rule: PathRule | None = None,
) -> DeletionPreview:
    """Return what would be deleted of [from_ms, to_ms) of website time; `connection` must be in a read transaction.

    With a rule: what it would rewrite.
    """
    if rule is not None:
        filters = (_pages_of(connection, website, rule),)
    counts = _Counts(connection, website, Plan(*span, filters, last_id, (), rule))
    coverage = coverage_of(connection, Scope(website, *span, filters), ResultCache())
    expired = {day for day, known in coverage.known.days.items() if known.state == KEPT}
    days = _count_days(counts, coverage, expired)
    plan = Plan(*span, filters if rule is None else (), last_id, tuple(days), rule)
    sums = imported_sums.count_days(connection, website, *plan.whole_days)
    pages = {} if rule is None else _pages_without_events(connection, website, plan.whole_days, rule)
    not_covered = [
        name
        for name, is_true in (
            ("sources", counts.without_source > 0),
            ("heatmaps", not plan.covers_heatmaps or _has_points_beside(connection, website, plan)),
            ("crawlers", rule is not None and _has_crawls_beside(connection, website, plan)),
            ("imported_sums", sums > 0 and not plan.deletes_sums),
            ("expired_days", bool(expired)),
            ("other_values", any(_is_folded(connection, website, field) for field in counts.values)),
        )
        if is_true
    ]
    samples = counts.samples()
    renamed = samples.get("pathname") or [*islice(pages.values(), MAX_SAMPLES)]
    return DeletionPreview(
        *(plan, counts.events, counts.changed, counts.gone, len(set().union(*days)), sums),
        *(samples if rule is None else {}, not_covered),
        paths=0 if rule is None else len(counts.values["pathname"].keys() | pages.keys()),
        renamed=() if rule is None else [(path, rule.apply(path)) for path in renamed],
    )


def _count_days(counts: _Counts, coverage: Coverage, expired: Collection[int]) -> list[tuple[int, ...]]:
    """Count the events of all days but the traffic of expired ones; return by source the days that have any."""
    connection, plan = counts.connection, counts.plan
    days: list[tuple[int, ...]] = []
    for source, table in enumerate(TABLES):
        found = []
        for day in _days(connection, counts.website, source, table, (plan.from_ms, plan.to_ms)):
            if day in expired and source == TRAFFIC:
                continue
            is_shown = _show(coverage, source, day)
            if counts.count(source, day):
                found.append(day)
            if is_shown:
                deleted_rows.hide(connection)
        days.append(tuple(found))
    return days


def _pages_of(connection: sqlite3.Connection, website: int, rule: PathRule) -> LabelFilter:
    """Return a filter on the pages of a website that a rule rewrites."""
    pages = []
    rows = connection.execute(
        "/* deletion_preview.pages */ select id, text from field_value join label on id = value"
        " where website = ? and field = ?",
        (website, field_number("pathname")),
    )
    for number, (label, text) in enumerate(rows):
        if number % _PAGES_BETWEEN_CHECKS == 0:
            check_interrupt()
        if rule.apply(text) != text:
            pages.append(label)
    return LabelFilter("pathname", "=", (), pages, is_not=False)


def _pages_without_events(
    connection: sqlite3.Connection, website: int, days: tuple[int, int], rule: PathRule
) -> dict[int, str]:
    """Return label and text of the pages that a rule rewrites in heatmaps and in what crawlers requested."""
    points = heatmaps.pages(connection, website, *days, range(len(WIDTHS)), _ALL)
    pages = [*(row[:2] for row in points), *crawler_days.pages_in(connection, website, *days)]
    return {label: text for label, text in pages if rule.apply(text) != text}


def _days_beside(plan: Plan) -> Iterator[range]:
    """Yield the days at both ends that the range has a part of."""
    for at_ms in (plan.from_ms, plan.to_ms):
        if at_ms % DAY_MS:
            yield range(at_ms // DAY_MS, at_ms // DAY_MS + 1)


def _has_points_beside(connection: sqlite3.Connection, website: int, plan: Plan) -> bool:
    widths = range(len(WIDTHS))
    return any(heatmaps.pages(connection, website, days.start, days.stop, widths, 1) for days in _days_beside(plan))


def _has_crawls_beside(connection: sqlite3.Connection, website: int, plan: Plan) -> bool:
    days = _days_beside(plan)
    return any(crawler_days.next_day(connection, website, part.start, part.stop) is not None for part in days)


def preview_now(
    connection: sqlite3.Connection,
    website: int,
    span: tuple[int, int],
    filters: tuple[Filter, ...],
    rule: PathRule | None = None,
) -> DeletionPreview:
    """The same of the events that are stored now, in [from_ms, to_ms) of UTC. Raises UnloadedDays."""
    cluster_tables.require_all(connection, website)
    offset_ms = day_offset_ms(connection, website)
    website_span = span[0] + offset_ms, span[1] + offset_ms
    return preview(connection, website, website_span, filters, ids_end(connection) - 1, rule)


def _days(connection: sqlite3.Connection, website: int, source: int, table: str, span: tuple[int, int]) -> list[int]:
    """Return the days of a range that have events of a source, with one lookup each."""
    first, last = span[0] // DAY_MS, (span[1] - 1) // DAY_MS
    found = {day for day, _ in deleted_rows.parts_without_rows(connection, website, first, last, (source,))}
    from_ms = span[0]
    while row := connection.execute(
        f"/* deletion_preview.days */ select ts from main.{table} where website = ? and ts >= ? and ts < ?"
        " order by ts limit 1",
        (website, from_ms, span[1]),
    ).fetchone():
        found.add(row[0] // DAY_MS)
        from_ms = (row[0] // DAY_MS + 1) * DAY_MS
    return sorted(found)


def _show(coverage: Coverage, source: int, day: int) -> bool:
    """Let statements see the matching events of a day that has only columns; return whether there are any."""
    connection, website = coverage.connection, coverage.website
    if not deleted_rows.parts_without_rows(connection, website, day, day, (source,)):
        return False
    span = max(day * DAY_MS, coverage.scope.from_ms), min((day + 1) * DAY_MS, coverage.scope.to_ms)
    own = conditions_of(connection, coverage.filters)
    which = event_list.matching(coverage, own, source, span, Place(span[1], 0, 1 << 62), _ALL)
    if which is None:
        deleted_rows.show(connection, website, [day], [source])
    elif len(which):
        deleted_rows.show_events(connection, website, source, day, which)
    return which is None or len(which) > 0


def _is_folded(connection: sqlite3.Connection, website: int, field: str) -> bool:
    """Return whether events have `(other)` in place of a value of a field."""
    if field not in FIELDS:
        return False
    row = connection.execute(
        "/* deletion_preview.is_folded */ select 1 from new_value where website = ? and day >= 0 and field = ?"
        " and events > 0 limit 1",
        (website, FIELDS.index(field)),
    ).fetchone()
    return row is not None
