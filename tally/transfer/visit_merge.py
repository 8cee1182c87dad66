"""Merge imported events into stored visits, many events at once.

The rule is that of tally/events/visits.py: a visit is a maximal run of one visitor's traffic events without a gap over
30 minutes, so visits depend on the set of times only. The server adds events one by one to visits in memory; an import
reads the visits of some visitors from the database, adds the events of a transaction, and stores the result with them.

A visit that grows keeps its number. Where several become one, the longest keeps its number, and the events of the
others are renumbered. A new visit gets the number after the greatest of its visitor. A visitor has at most 48 visits a
day, because each starts more than 30 minutes after any other.

A row of table visit has the times that decide its acquisition and its entry and exit pages, so that events of another
part of the file, or of a later import, change them as if all had come at once.

Only imports change the visits of imported visitors: the server has no identities for them. A visitor of whom several
imports have events on one day is shared. What the visits of the day would be with the events of one of them alone is
stored for each (`import_visit`), so that one import can be undone: the visits of the others are then joined again
(`combined`), with nothing lost, because joining visits gives the same as joining their events.
"""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

import orjson

from tally.events.visits import VISIT_GAP_MS, Visit, belongs_to_visit, event_as_visit, joined
from tally.storage import import_records, visit_rows
from tally.storage.bulk_insert import insert
from tally.timestamps import DAY_MS


class News(NamedTuple):
    """A traffic event: its time, whether it is a pageview, its pathname as a label, and the acquisition it carries."""

    ts_ms: int
    is_view: bool
    page: int = 0
    acquisition: bytes = b""


class Cut(NamedTuple):
    """A visitor's visits after events were added.

    `changed` has each new or changed visit with those it replaces, `ordinals` the number of the visit of each event.
    """

    visits: list[Visit]
    changed: list[tuple[Visit, list[Visit]]]
    ordinals: list[int]


def cut(known: Sequence[Visit], news: Sequence[News]) -> Cut:
    """Return the visits of one visitor and day after events are added, in the order of their ids."""
    return _appended(known, news) or _merged(known, news)


def _appended(known: Sequence[Visit], news: Sequence[News]) -> Cut | None:
    """Return the visits where no event is earlier than one before it, as in sorted files; else None.

    Takes a quarter of the time of `_merged`.
    """
    last = max(known, key=_end, default=None)
    # Before the first event that can be.
    end_ms = last.end_ms if last else -VISIT_GAP_MS - 1
    of_last: list[News] = []
    run, runs = of_last, []
    for event in news:
        ts_ms = event.ts_ms
        if ts_ms < end_ms:
            return None
        if ts_ms > end_ms + VISIT_GAP_MS:
            run = []
            runs.append(run)
        run.append(event)
        end_ms = ts_ms
    visits, changed, ordinals = list(known), [], []
    if last and of_last:
        now = _extended(last, of_last)
        visits[visits.index(last)] = now
        changed.append((now, [last]))
        ordinals += [last.ordinal] * len(of_last)
    following = max((visit.ordinal for visit in known), default=-1) + 1
    for ordinal, (first, *others) in enumerate(runs, following):
        now = _extended(event_as_visit(ordinal, *first), others)
        visits.append(now)
        changed.append((now, []))
        ordinals += [ordinal] * (1 + len(others))
    return Cut(visits, changed, ordinals)


def _extended(visit: Visit, events: Sequence[News]) -> Visit:
    """Return a visit with further events, sorted by time, of which none is before its end: what `joined` returns."""
    ordinal, begin_ms, end_ms, views, others, entry_ms, entry_page, exit_ms, exit_page, acquired_ms, acquisition = visit
    for ts_ms, is_view, page, source in events:
        end_ms = ts_ms
        if is_view:
            if not views:
                entry_ms, entry_page = ts_ms, page
            exit_ms, exit_page = ts_ms, page
            views += 1
        else:
            others += 1
        if source and not acquisition:
            acquired_ms, acquisition = ts_ms, source
    pages = entry_ms, entry_page, exit_ms, exit_page
    return Visit(ordinal, begin_ms, end_ms, views, others, *pages, acquired_ms, acquisition)


def _merged(known: Sequence[Visit], news: Sequence[News]) -> Cut:
    """Return the visits after events of any times are added. Takes 10 µs for four."""
    following = max((visit.ordinal for visit in known), default=-1) + 1
    visits: list[Visit] = []
    changed: list[tuple[Visit, list[Visit]]] = []
    ordinals = [0] * len(news)
    for members in _runs(known, news):
        before = [known[n] for n in members if n >= 0]
        # In the order of their ids, which decides among equal times.
        added = sorted(~n for n in members if n < 0)
        if not added:
            visits += before
            continue
        ordinal = max(before, key=_span).ordinal if before else following
        following += not before
        now = joined(ordinal, [*before, *(event_as_visit(ordinal, *news[n]) for n in added)])
        visits.append(now)
        changed.append((now, before))
        for n in added:
            ordinals[n] = ordinal
    return Cut(visits, changed, ordinals)


def _runs(known: Sequence[Visit], news: Sequence[News]) -> Iterable[list[int]]:
    """Yield the members of each run without a gap: n for known[n], ~n for news[n]."""
    spans = [(visit.begin_ms, visit.end_ms, n) for n, visit in enumerate(known)]
    spans += [(event.ts_ms, event.ts_ms, ~n) for n, event in enumerate(news)]
    spans.sort()
    begin_ms, end_ms, first = spans[0]
    members = [first]
    for next_ms, its_end_ms, n in spans[1:]:
        if belongs_to_visit(next_ms, begin_ms, end_ms):
            end_ms = max(end_ms, its_end_ms)
            members.append(n)
        else:
            yield members
            begin_ms, end_ms, members = next_ms, its_end_ms, [n]
    yield members


_end = attrgetter("end_ms")


def _span(visit: Visit) -> int:
    # The events of the others are renumbered in the database; the longest visit usually has the most.
    return visit.end_ms - visit.begin_ms


class Visits:
    """The stored visits of some visitors of a website."""

    def __init__(self, website: int) -> None:
        self._website = website
        self._of: dict[int, list[Visit]] = {}
        # Of shared visitors, the visits of this import alone.
        self._own: dict[int, list[Visit]] = {}
        # Visitors who become shared with the next event of this import, and the import that has all their events.
        self._owner: dict[int, int] = {}

    def load(self, connection: sqlite3.Connection, wanted: Mapping[int, Iterable[int]], number: int | None) -> None:
        """Replace the loaded visits by those of these visitors of each day. Takes 2 µs a visitor.

        number: that of the import; None where the events are of none.
        """
        self._of.clear()
        self._own.clear()
        self._owner.clear()
        for day, visitors in wanted.items():
            if not self._has_visits(connection, day):
                continue
            sent = orjson.dumps(list(visitors)).decode()
            rows = connection.execute(
                f"/* visit_merge.load */ select visitor, {visit_rows.READ} from json_each(?) as wanted cross join visit"
                " where website = ? and day = ? and visitor = wanted.value",
                (sent, self._website, day),
            )
            known: dict[int, list[Visit]] = {}
            for visitor, *row in rows:
                known.setdefault(visitor, []).append(visit_rows.visit_of(row))
            self._of |= known
            if number is not None and known and import_records.has_events(connection, self._website, day, number):
                self._load_shared(connection, day, number, known)

    def _has_visits(self, connection: sqlite3.Connection, day: int) -> bool:
        """Return whether a day has visits of any visitor; the days of most files have none before."""
        return bool(
            connection.execute(
                "/* visit_merge.any */ select 1 from visit where website = ? and day = ? limit 1", (self._website, day)
            ).fetchall()
        )

    def _load_shared(
        self, connection: sqlite3.Connection, day: int, number: int, known: Mapping[int, Sequence[Visit]]
    ) -> None:
        rows = connection.execute(
            f"/* visit_merge.shared */ select visitor, import, {visit_rows.READ} from json_each(?) as wanted"
            " cross join import_visit where website = ? and day = ? and visitor = wanted.value",
            (orjson.dumps(list(known)).decode(), self._website, day),
        )
        for visitor, owner, *row in rows:
            own = self._own.setdefault(visitor, [])
            if owner == number:
                own.append(visit_rows.visit_of(row))
        first = {visitor: visits[0].begin_ms for visitor, visits in known.items() if visitor not in self._own}
        # All visits of such a visitor are of one import, and each has an event at its start.
        owners = connection.execute(
            "/* visit_merge.owner */ select visitor,"
            f" {import_records.IMPORT_OF.format(id='event.id', website='event.website')} from json_each(?) as wanted"
            " cross join event where website = ? and ts = json_extract(wanted.value, '$[1]')"
            " and visitor = json_extract(wanted.value, '$[0]')",
            (orjson.dumps(list(first.items())).decode(), self._website),
        )
        self._owner.update((visitor, owner) for visitor, owner in owners if owner not in (None, number))

    def add(
        self, connection: sqlite3.Connection, number: int, news: Mapping[int, Sequence[News]]
    ) -> dict[int, list[int]]:
        """Store the visits with new events, by visitor; return the numbers of the visits of these events.

        Renumbers stored events, so it is called before the new ones are stored.
        """
        if self._owner or self._own:
            self._add_shared(connection, number, news)
        ordinals: dict[int, list[int]] = {}
        rows: list[tuple[int, ...]] = []
        joined: list[visit_rows.Join] = []
        for visitor, events in news.items():
            if len(events) == 1 and visitor not in self._of:
                # Most visitors of most files; nothing has to be merged.
                only = event_as_visit(0, *events[0])
                self._of[visitor], ordinals[visitor] = [only], [0]
                rows.append(visit_rows.row_of(self._website, visitor, only))
                continue
            self._of[visitor], changed, ordinals[visitor] = cut(self._of.get(visitor, ()), events)
            for now, before in changed:
                rows.append(visit_rows.row_of(self._website, visitor, now))
                joined += visit_rows.joins(self._website, visitor, now, before)
        visit_rows.store(connection, rows, joined)
        return ordinals

    def _add_shared(self, connection: sqlite3.Connection, number: int, news: Mapping[int, Sequence[News]]) -> None:
        """Store the visits of this import alone, of shared visitors."""
        rows: list[tuple[int, ...]] = []
        for visitor in news.keys() & self._owner.keys():
            owner = self._owner.pop(visitor)
            rows += ((*visit_rows.row_of(self._website, visitor, visit), owner) for visit in self._of[visitor])
            self._own[visitor] = []
        for visitor in news.keys() & self._own.keys():
            visits, _, _ = cut(self._own[visitor], news[visitor])
            self._own[visitor] = visits
            connection.execute(
                "/* visit_merge.drop */ delete from import_visit"
                " where website = ? and day = ? and visitor = ? and import = ?",
                (self._website, visits[0].begin_ms // DAY_MS, visitor, number),
            )
            rows += ((*visit_rows.row_of(self._website, visitor, visit), number) for visit in visits)
        insert(connection, "visit_merge", "import_visit", rows)


def combined(parts: Sequence[Visit]) -> list[Visit]:
    """Return the visits that visits of several imports become, in the order of their imports."""
    visits: list[Visit] = []
    for ordinal, members in enumerate(_runs(parts, ()) if parts else ()):
        visits.append(joined(ordinal, [parts[n] for n in sorted(members)]))
    return visits
