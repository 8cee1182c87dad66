"""Which events of a group of requests are stored, and as what: duplicates, the month, assignments and new values.

All that must hold exactly once is decided here, on the writer's thread, between BEGIN IMMEDIATE and COMMIT: duplicates
by event_id, the monthly limit, the assignment that a conversion needs, the daily limits of new values and of
event_data. `Decider.decide` reads the stored event_ids, assignments and usage of the group in a few statements, then
decides event by event in order of arrival. An event that is not stored writes nothing, neither a label nor a new value.

A decision changes nothing by itself. What has to be remembered of it is written by `Decision.store`, in the same
transaction as the events (tally/sqlite/rows.py); `Decider.keep` and `undo` follow the end of the transaction in memory.
"""

import sqlite3
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Literal, NamedTuple

from tally.accounts.api_keys import key_salt
from tally.accounts.usage import month_of
from tally.accounts.websites import day_offset_ms
from tally.clock import Clock
from tally.engine.ingest import (
    DUPLICATE,
    MONTH_FULL,
    NO_ASSIGNMENT,
    NO_EVENT_DATA,
    Outcomes,
    PreparedEvent,
    WriteRequest,
)
from tally.events.dimensions import EXPERIMENT
from tally.events.identity import moved_identity
from tally.events.sessions import Sessions
from tally.events.validation import AB_ASSIGN, AB_CONVERT, LEAVE, OLDEST_MS, Rejection
from tally.rollups import experiments
from tally.sqlite import event_ids
from tally.storage.labels import Labels
from tally.storage.value_limits import OTHER, Check, Limits, ValueLimits, is_used
from tally.timestamps import DAY_MS


class Decider:
    """What decisions depend on in memory: visitors, labels, values. `limit_of`: events per month of a plan, or None."""

    def __init__(
        self, sessions: Sessions, limit_of: Callable[[str], int | None], clock: Clock, value_limits: Limits
    ) -> None:
        self.sessions, self.labels, self.clock = sessions, Labels(), clock
        self.value_limits = ValueLimits(value_limits)
        self.limit_of = limit_of
        self.salt = b""

    def start(self, connection: sqlite3.Connection) -> None:
        """Read what digests of event_ids are keyed with."""
        self.salt = key_salt(connection)

    def decide(self, connection: sqlite3.Connection, requests: Sequence[WriteRequest]) -> "Decision":
        """Return the decision about requests. Called in the transaction that stores their events."""
        return Decision(self, connection, requests)

    def keep(self, decision: "Decision") -> None:
        """Keep what a committed transaction has changed."""
        self.sessions.keep(self.clock.deletion_time_ms())
        self.labels.keep()
        self.value_limits.count(decision.check)

    def undo(self) -> None:
        """Undo the changes of a transaction that failed."""
        self.sessions.undo()
        self.labels.undo()
        self.value_limits.clear()

    def numbers_of(self, connection: sqlite3.Connection, texts: set[str]) -> Callable[[str], int]:
        """Return a function from each of the texts to its label number."""
        return self.labels.numbers_of(connection, texts).__getitem__


class Leave(NamedTuple):
    """What is known of a page view's leave after a group: its greatest values in the group, and the place among the
    events to be stored, None where a row is stored already."""

    values: tuple[float | None, ...]
    place: int | None


class Decision:
    """The decision about one group.

    `outcomes`: of each event, by request. `kept`: the events to be stored, in order of arrival, with `(other)` in place
    of values beyond the limits. `used`: the events that each (account, month) concerned has then used.
    """

    def __init__(self, decider: Decider, connection: sqlite3.Connection, requests: Sequence[WriteRequest]) -> None:
        self._decider = decider
        self._connection = connection
        # Not the wall clock, which may jump: an event_id must expire neither early nor years late.
        self._steady_ms = decider.clock.monotonic_wall_ms()
        self._oldest_ms = decider.clock.deletion_time_ms() - OLDEST_MS
        rows = [row for request in requests for row in request.events]
        # What is added to UTC, by website: what is stored is in website time. Read here, since it may have changed.
        self.offsets = {website: day_offset_ms(connection, website) for website in {row.website.number for row in rows}}
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
            id(row): event_ids.key_of(row.website.number, row.event, decider.salt) for row in rows if row.event.event_id
        }
        self._views = {
            id(row): event_ids.view_of(row.website.number, row.event, decider.salt)
            for row in rows
            if row.event.type == LEAVE
        }
        # By key, of leaves: the row that is stored, and what is sent in this group.
        self._arrivals, self._left_before = event_ids.arrivals(
            connection, [*self._keys.values(), *self._views.values()]
        )
        self._left: dict[event_ids.Key, Leave] = {}
        self._experiments = _experiments(rows)
        # Looked up, not created: a rejected event leaves no label.
        self._found = decider.labels.find(connection, self._experiments) if self._experiments else {}
        # (website, its day, experiment, identity) of assignments in this group.
        self._announced: set[tuple[int, int, str, bytes]] = set()
        # The events that are stored, as they were sent, and their clients' rate limit keys.
        self._sent: list[PreparedEvent] = []
        self._clients: list[bytes] = []
        # Events whose experiment was replaced by `(other)` before values are checked, by website and field.
        self._replaced_experiments: Counter[tuple[int, int]] = Counter()
        self.check: Check | None = None
        self.event_ids: list[event_ids.Stored] = []
        self._renewed: dict[event_ids.Key, int] = {}
        # Events by (website, month), where the account's plan has a limit.
        self._of_website: dict[tuple[int, int], int] = {}
        self.outcomes = self._outcomes(requests)
        self.kept = self._limited()
        self._note_lost_data()

    @property
    def folded(self) -> set[int]:
        """The websites with `(other)` in place of new values."""
        return set() if self.check is None else {website for website, _ in self.check.events}

    @property
    def left_again(self) -> list[tuple[int, int, int]]:
        """(website, ts, id) of the stored leaves that were sent again."""
        return [
            (key[0], *self._left_before[key])
            for key, leave in self._left.items()
            if leave.place is None and key in self._left_before
        ]

    def _outcomes(self, requests: Sequence[WriteRequest]) -> list[Outcomes]:
        outcomes: list[Outcomes] = []
        for request, month in zip(requests, self._months, strict=True):
            outcomes.append([self._decide(row, month) for row in request.events])
            self._clients += [request.client_key] * (len(self._sent) - len(self._clients))
        return outcomes

    def _decide(self, row: PreparedEvent, month: int) -> Rejection | Literal[False] | None:
        website, event = row.website, row.event
        key = self._keys.get(id(row))
        if key is not None and event.type == LEAVE:
            return self._decide_leave(row, key)
        if key is not None and self._arrivals.get(key, self._oldest_ms - 1) >= self._oldest_ms:
            # A copy renews the 72 hours, once a group: one row, less than a new event costs.
            self._renewed[key] = self._steady_ms
            return DUPLICATE
        limit, used = self._decider.limit_of(website.plan), (website.account, month)
        if limit is not None and self.used[used] >= limit:
            return MONTH_FULL
        if website.day_offset_ms != self.offsets[website.number] and row.identity:
            # Hashed before the time zone of a website without events was changed.
            row = row._replace(identity=moved_identity(row.identity, self._day_of(row)))
        if event.experiment and self._experiments:
            place = (website.number, self._day_of(row), event.experiment, row.identity)
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
        self._sent.append(row)
        self.used[used] += 1
        if limit is not None:
            usage = website.number, month
            self._of_website[usage] = self._of_website.get(usage, 0) + 1
        if key is not None:
            self._arrivals[key] = self._renewed[key] = self._steady_ms
        return None

    def _decide_leave(self, row: PreparedEvent, key: event_ids.Key) -> Literal[False] | None:
        """Decide about a leave: stored once for a page view that is known, and otherwise no more than a copy.

        It is no event of the plan, and never the reason to refuse one.
        """
        if self._arrivals.get(self._views[id(row)], self._oldest_ms - 1) < self._oldest_ms:
            return DUPLICATE
        known = self._left.get(key)
        self._renewed[key] = self._steady_ms
        if known is None and self._arrivals.get(key, self._oldest_ms - 1) < self._oldest_ms:
            self._left[key] = Leave(row.event.vitals, len(self._sent))
            self._left_before.pop(key, None)
            self._sent.append(row)
            return None
        values = row.event.vitals if known is None else _greatest(known.values, row.event.vitals)
        self._left[key] = Leave(values, None if known is None else known.place)
        if known is not None and known.place is not None:
            sent = self._sent[known.place]
            self._sent[known.place] = sent._replace(event=sent.event._replace(vitals=values))
        return DUPLICATE

    def _arrival_day(self, website: int) -> int:
        return (self._steady_ms + self.offsets[website]) // DAY_MS

    def _day_of(self, row: PreparedEvent) -> int:
        return (row.event.ts_ms + self.offsets[row.website.number]) // DAY_MS

    def _assigned_experiment(self, row: PreparedEvent) -> str:
        """Return the experiment that a conversion without a variant counts for, "" where there is no assignment.

        Its own where the visitor's assignment is stored; `(other)` where that was stored as `(other)`, which happens to
        new experiments only.
        """
        website, event = row.website.number, row.event
        visitor = self._decider.sessions.known_visitor(row.identity)
        if visitor is None:
            return ""
        day, number = self._day_of(row), self._found.get(event.experiment, 0)
        if number and experiments.assignment_of(self._connection, (website, day, number, visitor)) is not None:
            return event.experiment
        other = self._found.get(OTHER, 0)
        if not other or experiments.assignment_of(self._connection, (website, day, other, visitor)) is None:
            return ""
        return "" if number and is_used(self._connection, website, EXPERIMENT, number) else OTHER

    def _limited(self) -> Sequence[PreparedEvent]:
        """Return the events that are stored, within the limits of new values and of event_data."""
        rows: Sequence[PreparedEvent] = self._sent
        limits, replaced = self._decider.value_limits, self._replaced_experiments
        known = list(map(limits.is_known, rows))
        sent = list(zip(rows, self._clients, strict=True))
        with_data = [event for event in sent if event[0].event.event_data is not None]
        if not all(known) or replaced or with_data:
            unknown = [event for event, is_known in zip(sent, known, strict=True) if not is_known]
            self.check = limits.check(self._connection, self._arrival_day, unknown, replaced, with_data)
            if self.check.folds:
                rows = [row._replace(**self.check.checked(row)._asdict()) for row in rows]
        return rows

    def _note_lost_data(self) -> None:
        """Replace the outcomes of events that are stored without their event_data."""
        if self.check is None or not self.check.folds:
            return
        places = [
            (outcomes, place) for outcomes in self.outcomes for place, outcome in enumerate(outcomes) if outcome is None
        ]
        for row, (outcomes, place) in zip(self._sent, places, strict=True):
            if self.check.lacks_data(row):
                outcomes[place] = NO_EVENT_DATA

    def store(self, connection: sqlite3.Connection, leaves: Sequence[event_ids.Row]) -> None:
        """Write what later decisions depend on: values, event_ids and usage. `leaves`: the rows of those in `kept`."""
        if self.check is not None:
            self.check.store(lambda texts: self._decider.numbers_of(connection, texts))
        new = [key for key, leave in self._left.items() if leave.place is not None]
        self.event_ids = event_ids.store(
            connection, self._renewed, self._left_before | dict(zip(new, leaves, strict=True))
        )
        self._increase(connection)
        _each(
            connection,
            "/* decision.usage */ insert into account_usage (account, month, events) values (?, ?, ?)"
            " on conflict do update set events = excluded.events",
            [(*month, events) for month, events in self.used.items() if events != self._used_before[month]],
        )
        _each(
            connection,
            "/* decision.website_usage */ insert into website_usage (website, month, events) values (?, ?, ?)"
            " on conflict do update set events = events + excluded.events",
            [(*usage, events) for usage, events in self._of_website.items()],
        )

    def _increase(self, connection: sqlite3.Connection) -> None:
        """Increase the values of stored leaves, unless the day of their row may be final."""
        changes = [
            (*leave.values[-2:], *self._left_before[key], key[0], self._oldest_ms + self.offsets[key[0]])
            for key, leave in self._left.items()
            if leave.place is None and key in self._left_before
        ]
        _each(
            connection,
            "/* decision.increase */ update web_vitals set time_on_page = max(time_on_page, ?1 * 1000),"
            " scroll_depth = max(scroll_depth, ?2 * 1000)"
            " where website = ?5 and ts = ?3 and id = ?4 and ts >= ?6"
            " and (time_on_page < ?1 * 1000 or scroll_depth < ?2 * 1000)",
            changes,
        )


def _greatest(first: Sequence[float | None], second: Sequence[float | None]) -> tuple[float | None, ...]:
    """Return the greater value of each metric that both have."""
    return tuple(None if a is None or b is None else max(a, b) for a, b in zip(first, second, strict=True))


def _experiments(rows: Sequence[PreparedEvent]) -> set[str]:
    """Return the experiments of conversions without a variant and, where there are any, `(other)`."""
    texts = {row.event.experiment for row in rows if row.event.type == AB_CONVERT and not row.event.variant}
    texts.discard("")
    return texts | {OTHER} if texts else texts


def _months(requests: Sequence[WriteRequest]) -> list[int]:
    """Return the month of each request; a group may contain both sides of a month's end."""
    arrivals = [request.arrived_ms for request in requests]
    first, last = month_of(min(arrivals)), month_of(max(arrivals))
    return [first] * len(requests) if first == last else list(map(month_of, arrivals))


def _used(connection: sqlite3.Connection, months: Iterable[tuple[int, int]]) -> dict[tuple[int, int], int]:
    statement = "/* decision.used */ select events from account_usage where account = ? and month = ?"
    return {month: (connection.execute(statement, month).fetchone() or (0,))[0] for month in months}


def _each(connection: sqlite3.Connection, statement: str, rows: Collection[tuple[object, ...]]) -> None:
    # Without rows, executemany would still release the interpreter lock, and wait to get it back.
    if rows:
        connection.executemany(statement, rows)
