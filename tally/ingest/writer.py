"""The transaction of a group of write requests: which events are stored, and the rows that they become.

All that must hold exactly once is decided here, on the writer's thread, between BEGIN IMMEDIATE and COMMIT: duplicates
by event_id, the monthly limit, the daily limits of new values and of event_data, the assignment that a conversion
needs, visitors and visits. `EventWriter.write` either commits the whole group with fsync or changes nothing, neither in
the file nor in memory (sessions, labels, ids).

`write` reads the stored event_ids, assignments and usage of the group in a few statements, then decides event by event
in order of arrival (`_Group.decide`); an event that is not stored writes nothing, neither a label nor a new value. The
stored ones are then collected as rows by table (`_Group.take`), and each table is written in as few statements as
possible: each statement releases the interpreter lock once.

A visit's row is written as it is after the group, with its acquisition and its entry and exit pages. Rows of events
have none of these, so that a late event that changes them rewrites one row. Where two visits became one, a row is
deleted and the events of the visit that ended are renumbered. That is rare: only a late event can join visits.

Quarter-hour totals are updated by every commit (tally/rollups/totals.py); reports count the values of
dimensions by column (tally/reports/open_days.py).

Ids are reserved in the file in blocks, so that they grow over restarts without a write for each event. Another process
that writes reserves its ids after that block and uses them in the same transaction (tally/transfer/import_writer.py);
the server then leaves the rest of its block unused (`catch_up`), at the latest before it shows what was written. So at
every moment all ids up to the last one (`WriteResult.last_id`) are committed or will never be used.
"""

import sqlite3
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Literal, NamedTuple

from tally.accounts.api_keys import key_salt
from tally.accounts.usage import month_of
from tally.clock import Clock
from tally.events.dimensions import ACQUISITION, EVENT_FIELDS, EXPERIMENT, FIELDS
from tally.events.sessions import Sessions
from tally.events.validation import (
    AB_ASSIGN,
    AB_CONVERT,
    HEATMAP,
    OLDEST_MS,
    PAGEVIEWS,
    TRAFFIC,
    VITALS,
    WITH_EXPERIMENT,
    Rejection,
)
from tally.events.visits import NO_ACQUISITION, Visit, packed_acquisition
from tally.ingest import event_ids
from tally.ingest.ingest_engine import (
    DUPLICATE,
    MONTH_FULL,
    NO_ASSIGNMENT,
    NO_EVENT_DATA,
    Outcomes,
    PreparedEvent,
    WriteRequest,
)
from tally.rollups import (
    experiments,
    heatmap_grid,
    rollup_state,
    totals,
    unpacked_days,
    web_vitals,
)
from tally.storage import event_data, visit_rows
from tally.storage.bulk_insert import insert
from tally.storage.database import transaction
from tally.storage.labels import Labels
from tally.storage.sql import day_columns
from tally.storage.value_limits import OTHER, Check, Limits, ValueLimits, is_used
from tally.storage.visit_rows import Join
from tally.timestamps import DAY_MS

# A restart skips at most this many ids.
ID_BLOCK = 10_000

# From the dimensions of an event: those that are stored with it, and those of its visit's acquisition.
_of_event, _of_visit = (itemgetter(*map(FIELDS.index, names)) for names in (EVENT_FIELDS, ACQUISITION))


class WriteResult(NamedTuple):
    """A committed group: the outcomes by request, the events that each (account, month) concerned has used, the last
    id, and the visits it changed, as they are now, by (website, visitor, ordinal)."""

    outcomes: list[Outcomes]
    used: dict[tuple[int, int], int]
    last_id: int
    visits: dict[tuple[int, int, int], Visit]


class EventWriter:
    """Writes groups of requests; holds sessions, labels and ids. Used by the writer's thread alone."""

    def __init__(
        self,
        sessions: Sessions,
        limit_of: Callable[[str], int | None],
        clock: Clock,
        value_limits: Limits = Limits(),  # noqa: B008 (immutable)
    ) -> None:
        self.sessions, self.labels, self.clock = sessions, Labels(), clock
        self.value_limits = ValueLimits(value_limits)
        # Plan -> events per month, None where unlimited.
        self.limit_of = limit_of
        self._next_id = self.ids_end = 0
        self.salt = b""

    def start(self, connection: sqlite3.Connection) -> int:
        """Continue after the ids that the file has reserved; return the last of them."""
        self.salt = key_salt(connection)
        self._next_id = self.ids_end = ids_end(connection)
        return self._next_id - 1

    def catch_up(self, connection: sqlite3.Connection) -> int | None:
        """Continue after the ids that another process has reserved; return the last, None where there are none."""
        end = ids_end(connection)
        if end == self.ids_end:
            return None
        self._next_id = self.ids_end = end
        return end - 1

    def write(self, connection: sqlite3.Connection, requests: Sequence[WriteRequest]) -> WriteResult:
        """Commit the requests. Raises sqlite3.Error; then nothing has changed."""
        ids = self._next_id, self.ids_end
        try:
            with transaction(connection):
                group = _Group(self, connection, requests)
                outcomes = group.decide(requests)
                group.take()
                group.note_lost_data(outcomes)
                group.store()
        except BaseException:
            self.sessions.undo()
            self.labels.undo()
            self.value_limits.clear()
            self._next_id, self.ids_end = ids
            raise
        self.sessions.keep(self.clock.deletion_time_ms())
        self.labels.keep()
        self.value_limits.count(group.check)
        return WriteResult(outcomes, group.used, self._next_id - 1, group.visits)

    def take_id(self, connection: sqlite3.Connection) -> int:
        """Return the next id; ids grow with arrival."""
        if self._next_id == self.ids_end:
            connection.execute("/* writer.ids */ update meta set value = value + ? where name = 'next_id'", (ID_BLOCK,))
            self.ids_end = ids_end(connection)
            self._next_id = self.ids_end - ID_BLOCK
        self._next_id += 1
        return self._next_id - 1

    def numbers_of(self, connection: sqlite3.Connection, texts: set[str]) -> Callable[[str], int]:
        """Return a function from each of the texts to its label number."""
        return self.labels.numbers_of(connection, texts).__getitem__

    def chores(self, connection: sqlite3.Connection) -> None:
        """Delete expired identities, and some expired event_ids; call every second."""
        self.sessions.keep(self.clock.deletion_time_ms())
        event_ids.delete_expired(connection, self.clock.deletion_time_ms())


class _Group:
    """One group while its transaction is open."""

    def __init__(self, writer: EventWriter, connection: sqlite3.Connection, requests: Sequence[WriteRequest]) -> None:
        self._writer = writer
        self._connection = connection
        # Not the wall clock, which may jump: an event_id must expire neither early nor years late.
        self._steady_ms, self._oldest_ms = writer.clock.monotonic_wall_ms(), writer.clock.deletion_time_ms() - OLDEST_MS
        rows = [row for request in requests for row in request.events]
        self._months = _months(requests)
        self._used_before = _used(
            connection,
            {
                (row.website.account, month)
                for request, month in zip(requests, self._months, strict=True)
                for row in request.events
            },
        )
        self.used = self._used_before.copy()
        self._keys = {
            id(row): event_ids.key_of(row.website.number, row.event, writer.salt) for row in rows if row.event.event_id
        }
        self._arrivals = event_ids.arrivals(connection, list(self._keys.values()))
        self._experiments = _experiments(rows)
        # Looked up, not created: a rejected event leaves no label.
        self._found = writer.labels.find(connection, self._experiments) if self._experiments else {}
        # (website, UTC day, experiment, identity) of assignments in this group.
        self._announced: set[tuple[int, int, str, bytes]] = set()
        # The events that are stored, and their clients' rate limit keys.
        self._kept: list[PreparedEvent] = []
        self._clients: list[bytes] = []
        # Events whose experiment was replaced by `(other)` before values are checked, by website and field.
        self._replaced_experiments: Counter[tuple[int, int]] = Counter()
        self.check: Check | None = None
        self._number: Callable[[str], int] = {"": 0}.__getitem__
        self._renewed: dict[event_ids.Key, int] = {}
        self._assigned: dict[experiments.Key, experiments.Assignment] = {}
        self._converted: list[tuple[experiments.Key, int]] = []
        self._events: list[tuple[Any, ...]] = []
        self._parts: list[event_data.Part] = []
        self._vitals: list[tuple[object, ...]] = []
        self._ab: list[tuple[object, ...]] = []
        self._heat: dict[tuple[int, ...], int] = {}
        # Events by (website, month), where the account's plan has a limit.
        self._of_website: dict[tuple[int, int], int] = {}
        self.visits: dict[tuple[int, int, int], Visit] = {}
        self._joined: list[Join] = []
        self._deltas = totals.Deltas()

    def decide(self, requests: Sequence[WriteRequest]) -> list[Outcomes]:
        """Return the outcome of each event, by request; nothing is written for an event that is not stored."""
        outcomes: list[Outcomes] = []
        for request, month in zip(requests, self._months, strict=True):
            outcomes.append([self._decide(row, month) for row in request.events])
            self._clients += [request.client_key] * (len(self._kept) - len(self._clients))
        return outcomes

    def _decide(self, row: PreparedEvent, month: int) -> Rejection | Literal[False] | None:
        website, event = row.website, row.event
        key = self._keys.get(id(row))
        if key is not None and self._arrivals.get(key, self._oldest_ms - 1) >= self._oldest_ms:
            # A copy renews the 72 hours, once a group: one row, less than a new event costs.
            self._renewed[key] = self._steady_ms
            return DUPLICATE
        limit, used = self._writer.limit_of(website.plan), (website.account, month)
        if limit is not None and self.used[used] >= limit:
            return MONTH_FULL
        if event.experiment and self._experiments:
            place = (website.number, event.ts_ms // DAY_MS, event.experiment, row.identity)
            if event.variant:
                if event.type == AB_ASSIGN:
                    self._announced.add(place)
            elif event.type == AB_CONVERT and place not in self._announced:
                experiment = self._assigned_experiment(row)
                if not experiment:
                    return NO_ASSIGNMENT
                if experiment != event.experiment:
                    row = row._replace(event=event._replace(experiment=experiment))
                    self._replaced_experiments[website.number, EXPERIMENT] += 1
        self._kept.append(row)
        self.used[used] += 1
        if limit is not None:
            own = website.number, month
            self._of_website[own] = self._of_website.get(own, 0) + 1
        if key is not None:
            self._arrivals[key] = self._renewed[key] = self._steady_ms
        return None

    def _assigned_experiment(self, row: PreparedEvent) -> str:
        """Return the experiment that a conversion without a variant counts for, "" where there is no assignment.

        Its own where the visitor's assignment is stored; `(other)` where that was stored as `(other)`, which happens to
        new experiments only.
        """
        website, event = row.website.number, row.event
        visitor = self._writer.sessions.known_visitor(row.identity)
        if visitor is None:
            return ""
        day, number = event.ts_ms // DAY_MS, self._found.get(event.experiment, 0)
        if number and experiments.assignment_of(self._connection, (website, day, number, visitor)) is not None:
            return event.experiment
        other = self._found.get(OTHER, 0)
        if not other or experiments.assignment_of(self._connection, (website, day, other, visitor)) is None:
            return ""
        return "" if number and is_used(self._connection, website, EXPERIMENT, number) else OTHER

    def take(self) -> None:
        """Apply the limits of new values and of event_data to the events that are stored, and collect their rows."""
        rows: Sequence[PreparedEvent] = self._kept
        limits, replaced = self._writer.value_limits, self._replaced_experiments
        known = list(map(limits.is_known, rows))
        sent = list(zip(rows, self._clients, strict=True))
        with_data = [one for one in sent if one[0].event.event_data is not None]
        if not all(known) or replaced or with_data:
            unknown = [one for one, is_known in zip(sent, known, strict=True) if not is_known]
            self.check = limits.check(self._connection, self._steady_ms // DAY_MS, unknown, replaced, with_data)
            if self.check.folds:
                rows = [row._replace(**self.check.checked(row)._asdict()) for row in rows]
        self._number = self._writer.numbers_of(self._connection, _texts(rows)) if rows else self._number
        for row in rows:
            self._take(row)

    def note_lost_data(self, outcomes: Sequence[Outcomes]) -> None:
        """Replace the outcomes of events that are stored without their event_data."""
        if self.check is None or not self.check.folds:
            return
        places = [(own, place) for own in outcomes for place, outcome in enumerate(own) if outcome is None]
        for row, (own, place) in zip(self._kept, places, strict=True):
            if self.check.lacks_data(row):
                own[place] = NO_EVENT_DATA

    def _take(self, row: PreparedEvent) -> None:
        event = row.event
        if event.type in TRAFFIC:
            self._take_traffic(row)
        elif event.type == VITALS:
            self._vitals.append((*self._place(row), *self._dimensions(row), *web_vitals.stored(event.vitals)))
        elif event.type == HEATMAP and event.points and event.viewport_width:
            self._take_points(row)
        elif event.type == HEATMAP:
            # Stored as a row, counted in no statistic; without a visitor, like web vitals.
            self._ab.append((*self._place(row), HEATMAP, 0, *self._dimensions(row), 0, 0, 0, None))
        else:
            self._take_ab(row)

    def store(self) -> None:
        """Write the collected rows."""
        run = self._connection
        if self.check is not None:
            self.check.store(lambda texts: self._writer.numbers_of(run, texts))
        days = self._states_of_days()
        insert(run, "writer", "event", self._events)
        if self._parts:
            event_data.add(run, self._parts)
        insert(run, "writer", "web_vitals", self._vitals)
        insert(run, "writer", "experiment_event", self._ab)
        rows = [visit_rows.row_of(website, visitor, visit) for (website, visitor, _), visit in self.visits.items()]
        visit_rows.store(run, rows, self._joined)
        totals.add(run, self._deltas.rows())
        self._roll(days)
        _each(
            run,
            "/* writer.heat */ insert into heatmap_point"
            " (website, day, pathname, viewport, kind, bin_y, bin_x, points) values (?, ?, ?, ?, ?, ?, ?, ?)"
            " on conflict do update set points = points + excluded.points",
            [(*bin, points) for bin, points in self._heat.items()],
        )
        experiments.assign(run, self._assigned)
        experiments.convert(run, self._converted)
        event_ids.store(run, self._renewed)
        _each(
            run,
            "/* writer.usage */ insert into account_usage (account, month, events) values (?, ?, ?)"
            " on conflict do update set events = excluded.events",
            [(*month, events) for month, events in self.used.items() if events != self._used_before[month]],
        )
        _each(
            run,
            "/* writer.website_usage */ insert into website_usage (website, month, events) values (?, ?, ?)"
            " on conflict do update set events = events + excluded.events",
            [(*own, events) for own, events in self._of_website.items()],
        )

    def _states_of_days(self) -> dict[tuple[int, int], rollup_state.Day | None]:
        """Return the state of each (website, day) with new events, before any is stored.

        The rows of a final day are put back where only columns are left: visits of the group replace some.
        """
        found = {}
        for website, day in {(row[0], row[1] // DAY_MS) for row in self._events}:
            now = found[website, day] = rollup_state.day_state(self._connection, website, day)
            if now is not None and now.state == rollup_state.FINAL:
                unpacked_days.reopen(self._connection, website, [day], (day_columns.TRAFFIC,))
        return found

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

    def _place(self, row: PreparedEvent) -> tuple[int, int, int]:
        return row.website.number, row.event.ts_ms, self._writer.take_id(self._connection)

    def _dimensions(self, row: PreparedEvent) -> Iterable[int]:
        return map(self._number, row.dimensions)

    def _take_traffic(self, row: PreparedEvent) -> None:
        website, event = row.website.number, row.event
        ts_ms, is_view = event.ts_ms, event.type in PAGEVIEWS
        number, texts = self._number, row.dimensions
        source = _of_visit(texts)
        acquisition = packed_acquisition(map(number, source)) if source != NO_ACQUISITION else b""
        touch = self._writer.sessions.touch(row.identity, ts_ms, is_view, number(texts[0]), acquisition)
        self._deltas.count(website, ts_ms, is_view, touch)
        visitor, visit = touch.visitor, touch.visit
        if len(touch.before) > 1:
            for join in visit_rows.joins(website, visitor, visit, touch.before):
                self.visits.pop((website, visitor, join.ended), None)
                self._joined.append(join)
        self.visits[website, visitor, visit.ordinal] = visit
        name, id = number(event.event_name), self._writer.take_id(self._connection)
        data, parts = event_data.split(event.event_data, id)
        self._parts += parts
        dimensions = map(number, _of_event(texts))
        self._events.append((website, ts_ms, id, event.type, visitor, visit.ordinal, *dimensions, name, data))

    def _take_points(self, row: PreparedEvent) -> None:
        website, event = row.website.number, row.event
        page = (
            website,
            event.ts_ms // DAY_MS,
            self._number(row.dimensions[0]),
            heatmap_grid.width_of(event.viewport_width),
        )
        for point in event.points:
            bin = (*page, point.kind, *heatmap_grid.bin_of(point.x, point.y, point.kind))
            self._heat[bin] = self._heat.get(bin, 0) + 1

    def _take_ab(self, row: PreparedEvent) -> None:
        """Collect an experiment event. It counts where it names an experiment, an assignment only with a variant."""
        website, event = row.website.number, row.event
        visitor = self._writer.sessions.visitor(row.identity, event.ts_ms)
        experiment, variant = self._number(event.experiment), self._number(event.variant)
        key = (website, event.ts_ms // DAY_MS, experiment, visitor)
        if event.type == AB_CONVERT and experiment and not variant:
            variant = self._variant_of(key)
        place, dimensions = self._place(row), self._dimensions(row)
        goal = self._number(event.goal)
        if event.type == AB_CONVERT and experiment:
            self._converted.append((key, goal))
        elif event.type == AB_ASSIGN and experiment and variant:
            new = experiments.Assignment(event.ts_ms, place[2], variant)
            self._assigned[key] = min(new, self._assigned.get(key, new))
        self._ab.append((*place, event.type, visitor, *dimensions, experiment, variant, goal, event.value))

    def _variant_of(self, key: experiments.Key) -> int:
        """Return the assigned variant; 0 where the visitor's identity was evicted within the group."""
        stored, new = experiments.assignment_of(self._connection, key), self._assigned.get(key)
        first = min(filter(None, (stored, new)), default=None)
        return first.variant if first else 0


def ids_end(connection: sqlite3.Connection) -> int:
    """Return the end of the ids that have been given out to any process."""
    row = connection.execute("/* writer.ids_end */ select value from meta where name = 'next_id'").fetchone()
    return int(row[0])


def _experiments(rows: Sequence[PreparedEvent]) -> set[str]:
    """Return the experiments of conversions without a variant and, where there are any, `(other)`."""
    texts = {row.event.experiment for row in rows if row.event.type == AB_CONVERT and not row.event.variant}
    texts.discard("")
    return texts | {OTHER} if texts else texts


def _texts(rows: Sequence[PreparedEvent]) -> set[str]:
    events = [row.event for row in rows]
    texts: set[str] = set().union(*[row.dimensions for row in rows], [event.event_name for event in events])
    for event in events:
        if event.type in WITH_EXPERIMENT:
            texts.update((event.experiment, event.variant, event.goal))
    return texts


def _months(requests: Sequence[WriteRequest]) -> list[int]:
    """Return the month of each request; a group may contain both sides of a month's end."""
    arrivals = [request.arrived_ms for request in requests]
    first, last = month_of(min(arrivals)), month_of(max(arrivals))
    return [first] * len(requests) if first == last else list(map(month_of, arrivals))


def _used(connection: sqlite3.Connection, months: Iterable[tuple[int, int]]) -> dict[tuple[int, int], int]:
    statement = "/* writer.used */ select events from account_usage where account = ? and month = ?"
    return {month: (connection.execute(statement, month).fetchone() or (0,))[0] for month in months}


def _each(connection: sqlite3.Connection, statement: str, rows: Collection[tuple[object, ...]]) -> None:
    # Without rows, executemany would still release the interpreter lock, and wait to get it back.
    if rows:
        connection.executemany(statement, rows)
