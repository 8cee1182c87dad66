"""Background work on rollups: rebuild stale days, build blocks, pack days, apply retention.

The work is divided into kinds (`_KINDS`), each a method that takes one bounded step for one website and returns whether
there may be more. tally/maintenance/scheduler.py gives every kind of every website its turn. The clock is read once a
round.

A step is one or several short transactions on the writer's thread, or a read on a separate connection. After each
transaction the builder pauses as long as the transaction took. While many events arrive it waits, but at most
`_BUSY_RATIO` times as long as the last transaction took: it always gets a share of the writer, also where a slow disk
keeps the writer busy with few events. After a crash the rest, which is not complete in `rollup_state`, is rebuilt.

On a disk with little space (tally/storage/disk_space.py) it only does what deletes, and returns free pages to the file
system. While SQLite's log is full, a transaction waits until it is emptied.

A stale day is rebuilt while events still arrive in it: in one write transaction `_begin_day` takes a snapshot on the
reading connection and deletes the day's totals, so that later commits add to empty rows. The day is counted in the
snapshot, however long that takes, and the counts are added in one transaction, unless the day has been marked stale
again meanwhile. Values of final days are written field by field, without a transaction around them, because only a
stale mark can still change these days.
"""

import asyncio
import sqlite3
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Concatenate, NamedTuple, ParamSpec, TypeVar

from tally.accounts.websites import day_offsets_ms
from tally.clock import Clock
from tally.columns import column_days, deleted_rows, measurement_days
from tally.columns.statements import EXPERIMENTS, TRAFFIC, WEB_VITALS
from tally.engine.values import Goal
from tally.events.dimensions import field_number
from tally.maintenance import deletion, retention
from tally.maintenance.scheduler import Scheduler, Turn
from tally.reports import goals, value_sums
from tally.rollups import (
    goal_days,
    heatmaps,
    imported_sums,
    rollup_state,
    totals,
)
from tally.rollups.rollup_state import BLOCK_LEVEL, FINAL, IMPORTED, OPEN, STALE
from tally.storage.cluster_tables import Unloaded
from tally.storage.connections import Thread
from tally.storage.database import snapshot, transaction
from tally.storage.disk_space import UNKNOWN_SPACE, DiskSpace
from tally.timestamps import DAY_MS

if TYPE_CHECKING:
    from tally.rollups import value_blocks

T = TypeVar("T")
P = ParamSpec("P")

# While commits keep the writer busy, at least a twentieth of its time goes to background work.
_BUSY_RATIO = 20
# One stall of the disk for seconds must not cause a wait of minutes.
_MAX_WAIT_S = 5.0
_WAIT_S = 0.25
# The server empties the log every second; beside a backup it cannot for minutes.
_LOG_WAIT_S, _MAX_LOG_WAIT_S = 0.1, 10.0
# Late events change a day that is over again and again: packing it takes at most a hundredth of a core.
_PACK_RATIO = 100
# Searching for measurements to pack reads each day that keeps its rows: 4 ms for those of a year.
_SEARCH_AGAIN_S = 600.0


class Now(NamedTuple):
    """The time of a round: of the wall clock, and the one that deletions use (tally/clock.py). In milliseconds."""

    wall_ms: int
    deletion_time_ms: int

    def later(self, ms: int) -> "Now":
        """Return both times on the clock of a website."""
        return Now(self.wall_ms + ms, self.deletion_time_ms + ms)


class RollupBuilder:
    """A source of turns (tally/maintenance/scheduler.py).

    `keep_days` applies to websites without a value of their own. `is_busy` returns whether commits keep the writer
    busy. `rest` is the pause after a transaction, in multiples of its duration. `changed` is called with a website
    whose events were deleted or whose stale day was built. `goals_of` returns the saved goals of a website, `space` the
    space of the disk.
    """

    def __init__(
        self,
        writer: Thread,
        reader: Thread,
        clock: Clock,
        keep_days: int = 0,
        is_busy: Callable[[], bool] = lambda: False,
        rest: float = 1,
        changed: Callable[[int], None] = lambda website: None,
        goals_of: Callable[[int], Sequence[Goal]] = lambda website: (),
        space: Callable[[], DiskSpace] = lambda: UNKNOWN_SPACE,
    ) -> None:
        self._writer, self._reader, self._clock, self._space = writer, reader, clock, space
        self._keep_days, self._is_busy, self._rest, self._changed = keep_days, is_busy, rest, changed
        # Websites whose blocks are all built; they are checked again once another day is final.
        self._blocks_built: set[int] = set()
        self._all_stored: set[int] = set()
        # Websites none of whose rows can be deleted, as found since another day was packed or became final.
        self._rows_deleted: set[int] = set()
        self._pack_again_s = 0.0
        # Of each website and source of measurements the first day that was not final, the day before which days are
        # still to be packed, and when all are searched again.
        self._measurements: dict[tuple[int, int], tuple[int, int, float]] = {}
        # The goals of each website whose days are all counted, by their numbers.
        self._goals_built: dict[int, set[int]] = {}
        self.goals_of = goals_of
        self._took_s = 0.0
        # Two steps at once would build the same block twice.
        self._stepping = asyncio.Lock()

    async def work(self) -> None:
        """Do all that is to be done now."""
        await Scheduler([self]).work()

    async def turns(self) -> list[Turn]:
        """Return a turn for each kind of work and website."""
        now = Now(self._clock.wall_ms(), self._clock.deletion_time_ms())
        offsets = await self._write(day_offsets_ms)
        websites = list(offsets)
        self._blocks_built.intersection_update(websites)
        self._all_stored.intersection_update(websites)
        self._rows_deleted.intersection_update(websites)
        turns = [
            Turn(kind, one, partial(self._step, step, one, now.later(offset_ms)))
            for kind, step in _KINDS
            for one, offset_ms in offsets.items()
        ]
        return [*turns, Turn("free pages", 0, self._free_pages)]

    async def _step(self, step: "Step", website: int, now: Now) -> bool:
        async with self._stepping:
            if step not in _DELETING and not self._space().allows_growth:
                return False
            return await step(self, website, now)

    async def _free_pages(self) -> bool:
        """Return some free pages to the file system, where the disk has too little space for events."""
        return self._space().is_low and await self._write(deletion.free_pages)

    async def end(self, website: int, now: Now) -> bool:
        """Mark the days that have ended."""
        return await self._write(rollup_state.end_days, website, now.wall_ms // DAY_MS)

    async def close(self, website: int, now: Now) -> bool:
        """Make the oldest open day final, once no event of it can arrive any more."""
        found = await self._write(_next_to_close, website, now.deletion_time_ms)
        if found is None:
            return False
        if await self._write(rollup_state.finish_day, website, *found):
            self._recheck_blocks(website)
        return True

    async def build(self, website: int, now: Now) -> bool:
        """Rebuild the oldest stale day."""
        days = await self._write(rollup_state.unfinished, website, STALE, 1)
        for day, _ in days:
            await self._build_day(website, day, now.deletion_time_ms)
        return bool(days)

    def _recheck_blocks(self, website: int) -> None:
        self._blocks_built.discard(website)
        self._all_stored.discard(website)
        self._rows_deleted.discard(website)
        self._goals_built.pop(website, None)

    async def _build_day(self, website: int, day: int, deletion_time_ms: int) -> None:
        """Rebuild a stale day."""
        state = FINAL if rollup_state.is_final(day, deletion_time_ms) else OPEN
        try:
            version, state = await self._write(_begin_day, self._reader, website, day, state)
            day_totals = await self._reader.run(lambda connection: totals.count_day(connection, website, day))
        finally:
            await self._reader.run(_end_snapshot)
        if await self._write(_finish_day, website, day, version, state, day_totals):
            self._recheck_blocks(website)
            # Its figures have changed if it is of imported sums, or was.
            self._changed(website)

    async def _write_values(self, website: int, level: int, block: int) -> None:
        """Replace the values of a block, or of a day, by those counted from its days."""
        # numpy is imported with the first of them.
        from tally.rollups import value_blocks

        while await self._write(value_blocks.delete_chunks, website, level, block):
            pass
        for field in value_blocks.LISTED:
            chunks = await self._read(_chunks, website, block << level, (block + 1) << level, field)
            for start in range(0, len(chunks), value_blocks.CHUNKS_PER_STEP):
                part = chunks[start : start + value_blocks.CHUNKS_PER_STEP]
                await self._write(value_blocks.add_chunks, website, level, block, part)

    async def blocks(self, website: int, now: Now) -> bool:
        """Build one block of days."""
        if website in self._blocks_built:
            return False
        block = await self._write(_begin_block, website, now.deletion_time_ms)
        if block is None:
            self._blocks_built.add(website)
            return False
        await self._write_values(website, BLOCK_LEVEL, block)
        await self._write(rollup_state.finish, website, TRAFFIC, BLOCK_LEVEL, block)
        return True

    async def write_columns(self, website: int, now: Now) -> bool:
        """Store the events of one day by column: of a final one, then of one that is over."""
        found = None if website in self._all_stored else await self._write(column_days.next_day, website)
        is_open = found is None
        if is_open:
            self._all_stored.add(website)
            is_time = time.monotonic() >= self._pack_again_s
            found = await self._write(column_days.next_open_day, website, is_changed=is_time)
        if found is None:
            return False
        day, version = found
        # A day of an earlier layout is packed from its rows.
        await self._write(deleted_rows.reopen, website, [day], (TRAFFIC,))
        begun_s = time.monotonic()
        packed = await self._read(_columns_of_day, website, day, is_final=not is_open)
        await self._write(column_days.store, website, day, version, packed, is_final=not is_open)
        self._rows_deleted.discard(website)
        if is_open:
            ended_s = time.monotonic()
            self._pack_again_s = ended_s + _PACK_RATIO * (ended_s - begun_s)
        return True

    async def delete_rows(self, website: int, now: Now) -> bool:
        """Delete the rows of one final day of which the columns hold all."""
        if website in self._rows_deleted:
            return False
        day = await self._write(deleted_rows.next_day, website)
        if day is None:
            self._rows_deleted.add(website)
            return False
        version = await self._read(deleted_rows.compared_version, website, day)
        await self._write(deleted_rows.delete_rows, website, day, version)
        return True

    async def write_measurements(self, website: int, now: Now) -> bool:
        """Store the web vitals or the experiment events of one final day by column."""
        end = rollup_state.first_not_final(now.deletion_time_ms)
        for source in (WEB_VITALS, EXPERIMENTS):
            known_end, before, again_s = self._measurements.get((website, source), (0, 0, 0.0))
            # Another final day gives more to pack, and so do an import and its undo.
            if known_end != end or (before == 0 and time.monotonic() >= again_s):
                before = end
            day = await self._read(measurement_days.next_day, website, source, before) if before else None
            if before:
                self._measurements[website, source] = end, day or 0, time.monotonic() + _SEARCH_AGAIN_S
            if day is not None:
                packed = await self._read(_columns_of_measurements, website, source, day)
                if packed is not None:
                    await self._write(measurement_days.store, website, source, day, packed)
                return True
        return False

    async def goals(self, website: int, now: Now) -> bool:
        """Count the conversions of one goal on one final day, or delete those of goals that are no longer saved."""
        saved = {goal_days.number_of(goal): goal for goal in self.goals_of(website)}
        if self._goals_built.get(website) == saved.keys():
            return False
        for number, goal in saved.items():
            found = await self._write(goal_days.begin_day, website, number)
            if found is not None:
                await self._count_goal(website, number, goal, found)
                return True
        if await self._write(goal_days.delete_others, website, saved.keys()):
            return True
        self._goals_built[website] = set(saved)
        return False

    async def _count_goal(self, website: int, number: int, goal: Goal, day: int) -> None:
        while await self._write(goal_days.drop, website, number, day):
            pass
        for field, _ in goal_days.COUNTED:
            rows = await self._read(goals.of_day, website, day, goal, field)
            for start in range(0, len(rows), rollup_state.ROWS_PER_STEP):
                part = rows[start : start + rollup_state.ROWS_PER_STEP]
                await self._write(goal_days.add, website, number, field, day, part)
            if field == "" and not rows:
                break
        await self._write(rollup_state.finish, website, number, 0, day)

    async def retention(self, website: int, now: Now) -> bool:
        """Delete some of the events that have expired."""
        end = await self._write(retention.end_day, website, self._keep_days, now.deletion_time_ms)
        return end is not None and await self.expire(website, end)

    async def expire(self, website: int, end: int) -> bool:
        """Delete some of the events of final days before `end` or, where there are none, count the values of the next
        day that expires."""
        is_deleted, following = await self._write(_expire, website, end)
        if following is not None:
            day, version = following
            await self._write_values(website, 0, day)
            await self._write(retention.keep, website, day, version)
        elif not is_deleted:
            return False
        self._changed(website)
        return True

    async def unload(self, website: int, version: int, days: Unloaded) -> None:
        """Keep only totals and values of days of which the last is final, unless this has changed since this version: a
        copy in another database has their events."""
        async with self._stepping:
            await self._write_values(website, 0, days.end - 1)
            await self._write(retention.unload, website, version, days)

    async def delete_unloaded(self, website: int, end: int, held_ms: int) -> None:
        """Delete the events of the days before `end`, whose totals are kept (`retention.delete_unloaded`)."""
        async with self._stepping:
            while await self._write(retention.delete_unloaded, website, end, held_ms):
                pass
            self._changed(website)

    async def heatmaps(self, website: int, now: Now) -> bool:
        """Pack some points."""
        # Checked before each step: today's points are packed only while there are many.
        end = await self._write(heatmaps.pack_end, website, now.wall_ms // DAY_MS)
        return end is not None and await self._write(heatmaps.pack, website, end)

    async def _read(
        self, query: Callable[Concatenate[sqlite3.Connection, P], T], *what: P.args, **named: P.kwargs
    ) -> T:
        """Read in one snapshot."""

        def run(connection: sqlite3.Connection) -> T:
            with snapshot(connection):
                return query(connection, *what, **named)

        return await self._reader.run(run)

    async def _write(
        self, step: Callable[Concatenate[sqlite3.Connection, P], T], *what: P.args, **named: P.kwargs
    ) -> T:
        """Run a step in a transaction of its own, after a wait while the writer is busy, and pause."""
        waited_s, wait_s = 0.0, min(_BUSY_RATIO * self._took_s, _MAX_WAIT_S)
        while waited_s < wait_s and self._is_busy():
            pause_s = min(_WAIT_S, wait_s - waited_s)
            await asyncio.sleep(pause_s)
            waited_s += pause_s
        end_s = time.monotonic() + _MAX_LOG_WAIT_S
        while (space := self._space()).log_bytes > space.log_limit and time.monotonic() < end_s:
            await asyncio.sleep(_LOG_WAIT_S)

        def run(connection: sqlite3.Connection) -> tuple[T, float]:
            begun = time.perf_counter()
            with transaction(connection):
                result = step(connection, *what, **named)
            return result, time.perf_counter() - begun

        result, self._took_s = await self._writer.run(run)
        await asyncio.sleep(self._took_s * self._rest)
        return result

    write = _write


Step = Callable[[RollupBuilder, int, Now], Awaitable[bool]]

# A kind comes after those that give it work, so that a round does all of it.
_KINDS: tuple[tuple[str, Step], ...] = (
    ("build days", RollupBuilder.build),
    ("end days", RollupBuilder.end),
    ("close days", RollupBuilder.close),
    ("blocks of days", RollupBuilder.blocks),
    ("columns of days", RollupBuilder.write_columns),
    ("rows of stored days", RollupBuilder.delete_rows),
    ("columns of measurements", RollupBuilder.write_measurements),
    ("goals", RollupBuilder.goals),
    ("heatmaps", RollupBuilder.heatmaps),
    ("retention", RollupBuilder.retention),
)
_DELETING = (RollupBuilder.delete_rows, RollupBuilder.retention)


def _columns_of_day(
    connection: sqlite3.Connection, website: int, day: int, *, is_final: bool
) -> column_days.ColumnsOfDay:
    # numpy is imported with the first day that is packed.
    from tally.columns.write import columns_of_day

    return columns_of_day(connection, website, day, is_final=is_final)


def _chunks(
    connection: sqlite3.Connection, website: int, first: int, end: int, field: str
) -> "list[value_blocks.Chunk]":
    from tally.rollups import value_blocks

    counts = value_sums.count_days(connection, website, first, end, field)
    return value_blocks.chunks_of(field_number(field), counts)


def _columns_of_measurements(
    connection: sqlite3.Connection, website: int, source: int, day: int
) -> measurement_days.MeasurementColumns | None:
    # numpy is imported with the first day that is packed.
    from tally.columns.measurements import pack

    return pack(connection, website, source, day)


def _next_to_close(connection: sqlite3.Connection, website: int, deletion_time_ms: int) -> tuple[int, int] | None:
    """Return the oldest open day that can be made final, and its version; None where there is none."""
    for day, known in rollup_state.unfinished(connection, website, OPEN):
        if known.is_over and rollup_state.is_final(day, deletion_time_ms):
            return day, known.version
    return None


def _begin_block(connection: sqlite3.Connection, website: int, now_ms: int) -> int | None:
    """Begin the next block, in the transaction that found its days to be complete."""
    block = rollup_state.next_block(connection, website, now_ms)
    if block is not None:
        rollup_state.begin(connection, website, TRAFFIC, BLOCK_LEVEL, block)
    return block


def _expire(connection: sqlite3.Connection, website: int, end: int) -> tuple[bool, tuple[int, int] | None]:
    """Delete some of the expired events; return whether there were any, otherwise the next day that expires."""
    if retention.expire(connection, website, end):
        return True, None
    return False, retention.next_day(connection, website, end)


def _begin_day(connection: sqlite3.Connection, reader: Thread, website: int, day: int, state: int) -> tuple[int, int]:
    """Take the snapshot in which a stale day is counted, and delete its totals; return the day's version and the state
    that it will have: `state`, or IMPORTED."""
    # Within a write transaction, so no commit can be between the snapshot and the deletion.
    reader.begin_snapshot()
    totals.clear(connection, website, day)
    state = IMPORTED if imported_sums.is_used(connection, website, day) else state
    # An event that arrives meanwhile makes a day stale again that is to be final or of imported sums.
    connection.execute(
        "/* rollup_builder.begin */ update rollup_state set is_over = ?"
        " where website = ? and kind = 0 and level = 0 and block = ? and state = 0",
        (state != OPEN, website, day),
    )
    known = rollup_state.day_state(connection, website, day)
    return -1 if known is None else known.version, state


def _end_snapshot(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        connection.execute("rollback")


def _finish_day(
    connection: sqlite3.Connection, website: int, day: int, version: int, state: int, day_totals: totals.Totals
) -> bool:
    """Add the totals and finish the day; return False where it has been marked stale again."""
    if not rollup_state.finish_rebuild(connection, website, day, version, state):
        return False
    totals.add(connection, totals.rows_of(website, day_totals))
    return True
