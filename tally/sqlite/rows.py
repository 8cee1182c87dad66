"""The rows that the events of a group become, by table, and the statements that write them.

Each table is written in as few statements as possible: each statement releases the interpreter lock once.

A visit's row is written as it is after the group, with its acquisition and its entry and exit pages. Rows of events
have none of these, so that a late event that changes them rewrites one row. Where two visits became one, a row is
deleted and the events of the visit that ended are renumbered. That is rare: only a late event can join visits.

Quarter-hour totals are updated by every commit (tally/rollups/totals.py); reports count the values of
dimensions by column (tally/reports/open_days.py).
"""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, cast

from tally.columns import deleted_rows, statements
from tally.engine.ingest import PreparedEvent
from tally.events.dimensions import ACQUISITION, EVENT_FIELDS, FIELDS
from tally.events.validation import (
    AB_ASSIGN,
    AB_CONVERT,
    HEATMAP,
    LEAVE,
    PAGEVIEWS,
    TRAFFIC,
    VITALS,
    WITH_EXPERIMENT,
)
from tally.events.visits import NO_ACQUISITION, Visit, packed_acquisition
from tally.rollups import (
    experiments,
    heatmap_grid,
    rollup_state,
    totals,
    web_vitals,
)
from tally.sqlite.decision import Decider
from tally.storage import event_data, heatmap_texts, page_titles, visit_rows
from tally.storage.bulk_insert import insert
from tally.storage.value_limits import OTHER
from tally.storage.visit_rows import Join
from tally.timestamps import DAY_MS

# From the dimensions of an event: those that are stored with it, and those of its visit's acquisition.
_of_event, _of_visit = (itemgetter(*map(FIELDS.index, names)) for names in (EVENT_FIELDS, ACQUISITION))


class Rows:
    """The rows of one group while its transaction is open. `take_id` returns the next id of an event.

    `offsets`: what is added to UTC, by website: from here on, times are in website time. `leaves`: (ts, id) of the rows
    of leaves, in the order of events.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        decider: Decider,
        take_id: Callable[[sqlite3.Connection], int],
        events: Sequence[PreparedEvent],
        offsets: Mapping[int, int],
    ) -> None:
        self._offsets = offsets
        self._connection, self._sessions, self._take_id = connection, decider.sessions, take_id
        self._assigned: dict[experiments.Key, experiments.Assignment] = {}
        self._converted: list[tuple[experiments.Key, int]] = []
        self._events: list[tuple[Any, ...]] = []
        self._parts: list[event_data.Part] = []
        self._vitals: list[tuple[object, ...]] = []
        self._texts_of_cells: dict[heatmap_texts.Cell, tuple[int, str]] = {}
        self.leaves: list[tuple[int, int]] = []
        self._ab: list[tuple[object, ...]] = []
        self._heat: dict[tuple[int, ...], int] = {}
        self._titles: dict[tuple[int, int], tuple[int, str]] = {}
        self.visits: dict[tuple[int, int, int], Visit] = {}
        self._joined: list[Join] = []
        self._deltas = totals.Deltas()
        self._number = decider.numbers_of(connection, _texts(events) if events else set())
        for row in events:
            self._take(row)

    def _take(self, row: PreparedEvent) -> None:
        event = row.event
        if event.type in TRAFFIC:
            self._take_traffic(row)
        elif event.type in (VITALS, LEAVE):
            place = self._place(row)
            self._vitals.append((*place, *self._dimensions(row), *web_vitals.stored(event.vitals)))
            if event.type == LEAVE:
                self.leaves.append(place[1:])
        elif event.type == HEATMAP and event.points and event.viewport_width:
            self._take_points(row)
        elif event.type == HEATMAP:
            # Stored as a row, counted in no statistic; without a visitor, like web vitals.
            self._ab.append((*self._place(row), HEATMAP, 0, *self._dimensions(row), 0, 0, 0, None))
        else:
            self._take_ab(row)

    def places(self, events: Iterable[PreparedEvent]) -> Iterator[tuple[int, int, int]]:
        """Yield the id, visitor and variant (a label) of each of the events that the rows were made of, 0 where it has
        none."""
        traffic, vitals, others = iter(self._events), iter(self._vitals), iter(self._ab)
        for row in events:
            event = row.event
            if event.type in TRAFFIC:
                stored = next(traffic)
                yield stored[2], stored[4], 0
            elif event.type in (VITALS, LEAVE):
                yield cast(int, next(vitals)[2]), 0, 0
            elif event.type == HEATMAP and event.points and event.viewport_width:
                yield 0, 0, 0
            else:
                other = cast(tuple[int, ...], next(others))
                yield other[2], other[4], other[-3]

    def store(self) -> None:
        """Write the collected rows."""
        run = self._connection
        days = self._states_of_days()
        insert(run, "rows", "event", self._events)
        if self._parts:
            event_data.add(run, self._parts)
        insert(run, "rows", "web_vitals", self._vitals)
        insert(run, "rows", "experiment_event", self._ab)
        rows = [visit_rows.row_of(website, visitor, visit) for (website, visitor, _), visit in self.visits.items()]
        visit_rows.store(run, rows, self._joined)
        totals.add(run, self._deltas.rows())
        self._roll(days)
        # Without rows, executemany would still release the interpreter lock, and wait to get it back.
        if self._heat:
            run.executemany(
                "/* rows.heat */ insert into heatmap_point"
                " (website, day, pathname, viewport, kind, bin_y, bin_x, points) values (?, ?, ?, ?, ?, ?, ?, ?)"
                " on conflict do update set points = points + excluded.points",
                [(*bin, points) for bin, points in self._heat.items()],
            )
        if self._texts_of_cells:
            heatmap_texts.store(run, self._texts_of_cells)
        if self._titles:
            page_titles.store(run, self._titles)
        experiments.assign(run, self._assigned)
        experiments.convert(run, self._converted)

    def _states_of_days(self) -> dict[tuple[int, int], rollup_state.Day | None]:
        """Return the state of each (website, day) with new events, before any is stored.

        The rows of a final day are put back where only columns are left: visits of the group replace some.
        """
        states = {}
        for website, day in {(row[0], row[1] // DAY_MS) for row in self._events}:
            now = states[website, day] = rollup_state.day_state(self._connection, website, day)
            if now is not None and now.state == rollup_state.FINAL:
                deleted_rows.reopen(self._connection, website, [day], (statements.TRAFFIC,))
        return states

    def _roll(self, days: Mapping[tuple[int, int], rollup_state.Day | None]) -> None:
        """Open new days, and record that days which are over have changed."""
        for (website, day), now in days.items():
            if now is None:
                rollup_state.open_day(self._connection, website, day)
            elif now.state == rollup_state.OPEN:
                if now.is_over:
                    rollup_state.change_day(self._connection, website, day)
            elif now.state in (rollup_state.FINAL, rollup_state.IMPORTED) or (
                now.state == rollup_state.STALE and now.is_over
            ):
                # The first event of a day of imported sums; otherwise only after the clock was set back by days.
                rollup_state.mark_stale(self._connection, website, (day,))

    def _time(self, row: PreparedEvent) -> int:
        return row.event.ts_ms + self._offsets[row.website.number]

    def _place(self, row: PreparedEvent) -> tuple[int, int, int]:
        return row.website.number, self._time(row), self._take_id(self._connection)

    def _dimensions(self, row: PreparedEvent) -> Iterable[int]:
        return map(self._number, row.dimensions)

    def _take_traffic(self, row: PreparedEvent) -> None:
        website, event = row.website.number, row.event
        ts_ms, is_view, offset_ms = self._time(row), event.type in PAGEVIEWS, self._offsets[website]
        number, texts = self._number, row.dimensions
        source = _of_visit(texts)
        acquisition = packed_acquisition(map(number, source)) if source != NO_ACQUISITION else b""
        touch = self._sessions.touch(row.identity, ts_ms, is_view, number(texts[0]), acquisition, offset_ms)
        self._deltas.count(website, ts_ms, is_view, touch)
        visitor, visit = touch.visitor, touch.visit
        if len(touch.before) > 1:
            for join in visit_rows.joins(website, visitor, visit, touch.before):
                self.visits.pop((website, visitor, join.ended), None)
                self._joined.append(join)
        self.visits[website, visitor, visit.ordinal] = visit
        name, id = number(event.event_name), self._take_id(self._connection)
        data, parts = event_data.split(event.event_data, id)
        self._parts += parts
        dimensions = map(number, _of_event(texts))
        self._events.append((website, ts_ms, id, event.type, visitor, visit.ordinal, *dimensions, name, data))
        if event.title is not None and texts[0] != OTHER:
            page = website, number(texts[0])
            self._titles[page] = max(self._titles.get(page, (0, "")), (ts_ms, event.title), key=itemgetter(0))

    def _take_points(self, row: PreparedEvent) -> None:
        website, event = row.website.number, row.event
        page = (
            website,
            self._time(row) // DAY_MS,
            self._number(row.dimensions[0]),
            heatmap_grid.width_of(event.viewport_width),
        )
        for point in event.points:
            bin = (*page, point.kind, *heatmap_grid.bin_of(point.x, point.y, point.kind))
            self._heat[bin] = self._heat.get(bin, 0) + 1
            if point.text and point.kind == heatmap_grid.CLICK and row.dimensions[0] != OTHER:
                cell = (website, *page[2:], *bin[5:])
                before = self._texts_of_cells.get(cell, (0, ""))
                self._texts_of_cells[cell] = max(before, (event.ts_ms, point.text), key=itemgetter(0))

    def _take_ab(self, row: PreparedEvent) -> None:
        """Collect an experiment event. It counts where it names an experiment, an assignment only with a variant."""
        website, event = row.website.number, row.event
        ts_ms = self._time(row)
        visitor = self._sessions.visitor(row.identity, ts_ms, self._offsets[website])
        experiment, variant = self._number(event.experiment), self._number(event.variant)
        key = (website, ts_ms // DAY_MS, experiment, visitor)
        if event.type == AB_CONVERT and experiment and not variant:
            variant = self._variant_of(key)
        place, dimensions = self._place(row), self._dimensions(row)
        goal = self._number(event.goal)
        if event.type == AB_CONVERT and experiment:
            self._converted.append((key, goal))
        elif event.type == AB_ASSIGN and experiment and variant:
            new = experiments.Assignment(ts_ms, place[2], variant)
            self._assigned[key] = min(new, self._assigned.get(key, new))
        self._ab.append((*place, event.type, visitor, *dimensions, experiment, variant, goal, event.value))

    def _variant_of(self, key: experiments.Key) -> int:
        """Return the assigned variant; 0 where the visitor's identity was evicted within the group."""
        stored, new = experiments.assignment_of(self._connection, key), self._assigned.get(key)
        first = min(filter(None, (stored, new)), default=None)
        return first.variant if first else 0


def _texts(rows: Sequence[PreparedEvent]) -> set[str]:
    events = [row.event for row in rows]
    texts: set[str] = set().union(*[row.dimensions for row in rows], [event.event_name for event in events])
    for event in events:
        if event.type in WITH_EXPERIMENT:
            texts.update((event.experiment, event.variant, event.goal))
    return texts
