"""Background work on rollups: folds new events, builds stale days and blocks, packs heatmaps, applies retention.

The work is divided into kinds (`_KINDS`), each a method that takes one bounded step for one website and returns whether
there may be more. tally/maintenance/scheduler.py gives every kind of every website its turn. The clock is read once a
round: a step that compared with a new reading each time would find new work for ever.

A step is one or several short transactions on the writer's thread, or a read on a connection of its own. After each
transaction the work rests as long as the transaction took. While many events arrive it waits, but at most `_BUSY_RATIO`
times as long as the last transaction took: so it always gets a share of the writer, also where a slow disk keeps the
writer busy with few events. Killed at any point, the file says what is right (`rollup_state`), and the rest is begun
anew.

How a stale day becomes right while events still arrive in it: `_begin` holds the lock on writing, takes a snapshot on
the reading connection, empties the day's totals and lets go: what is committed from then on adds to empty rows. The day
is counted in the snapshot, however long that takes, and what was counted is added in one transaction, unless the day
has been marked stale again meanwhile.

A day that is over for good gets its values field by field, with nothing held open meanwhile: only a stale mark can
still change it. An open one is folded from its beginning.
"""

import asyncio
import sqlite3
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Concatenate, NamedTuple, ParamSpec, TypeVar

from tally.clock import Clock
from tally.maintenance import retention
from tally.maintenance.scheduler import Scheduler, Turn
from tally.rollups import field_values, rollup_state
from tally.rollups import heatmaps as heat_days
from tally.rollups import totals as moments
from tally.rollups import visit_pages as visit_days
from tally.rollups import web_vitals as vital_days
from tally.rollups.counts import Counts
from tally.rollups.rollup_state import FINAL, OPEN, STALE
from tally.storage.connections import Thread
from tally.storage.database import transaction
from tally.timestamps import DAY_MS

T = TypeVar("T")
P = ParamSpec("P")

# With 200 events a second the part of today that is not folded yet stays under 3,000 events.
PAUSE_S = 2.0
# While commits keep the writer busy, at least a twentieth of its time goes to background work.
_BUSY_RATIO = 20
# A disk that stalls for seconds once is no reason to wait for minutes.
_MAX_WAIT_S = 5.0
_WAIT_S = 0.25


class Moment(NamedTuple):
    """The time of a round: of the wall clock, and as deletions may believe it (tally/clock.py). In milliseconds."""

    wall_ms: int
    deletion_time_ms: int


class RollupBuilder:
    """A source of turns (tally/maintenance/scheduler.py). `is_busy` returns whether commits keep the writer busy;
    `rest`: how long
    it rests after a transaction, in multiples of it; `keep_days`: how long events are kept where a website has no value
    of its own; `changed` is called with a website whose events were deleted."""

    def __init__(
        self,
        writer: Thread,
        reader: Thread,
        clock: Clock,
        keep_days: int = 0,
        is_busy: Callable[[], bool] = lambda: False,
        rest: float = 1,
        changed: Callable[[int], None] = lambda website: None,
    ) -> None:
        self._writer, self._reader, self._clock = writer, reader, clock
        self._keep_days, self._is_busy, self._rest, self._changed = keep_days, is_busy, rest, changed
        # Websites whose blocks are all built: they are looked at again once another day is final.
        self._blocks_built: set[int] = set()
        self._pages_built: set[int] = set()
        self._took_s = 0.0
        # Two steps at once would build the same block twice.
        self._stepping = asyncio.Lock()

    async def work(self) -> None:
        """Do all that is to be done now."""
        await Scheduler([self]).work()

    async def turns(self) -> list[Turn]:
        """Return a turn for each kind of work and website."""
        now = Moment(self._clock.wall_ms(), self._clock.deletion_time_ms())
        websites = await self._write(_websites)
        self._blocks_built.intersection_update(websites)
        self._pages_built.intersection_update(websites)
        return [Turn(kind, one, partial(self._step, step, one, now)) for kind, step in _KINDS for one in websites]

    async def _step(self, step: "Step", website: int, now: Moment) -> bool:
        async with self._stepping:
            return await step(self, website, now)

    async def fold(self, website: int, now: Moment) -> bool:
        """Fold a part of the events that arrived in open days."""
        return await self._write(_fold, website, now.wall_ms)

    async def close(self, website: int, now: Moment) -> bool:
        """Take a step towards making an open day final, once no event of it can arrive any more."""
        closed = await self._write(_close, website, now.deletion_time_ms)
        if closed is FINISHED:
            self._look_at_blocks(website)
        return closed is not None

    async def build(self, website: int, now: Moment) -> bool:
        """Build the oldest stale day."""
        days = await self._write(rollup_state.unfinished, website, STALE, 1)
        for day, _ in days:
            await self._build(website, day, now.deletion_time_ms)
        return bool(days)

    def _look_at_blocks(self, website: int) -> None:
        self._blocks_built.discard(website)
        self._pages_built.discard(website)

    async def _build(self, website: int, day: int, deletion_time_ms: int) -> None:
        """Make a stale day right."""
        while await self._write(field_values.delete_values, website, 0, day) or await self._write(
            field_values.delete_visitors, website, day
        ):
            pass
        state = FINAL if rollup_state.is_final(day, deletion_time_ms) else OPEN
        try:
            version = await self._write(_begin, self._reader, website, day, state)
            totals = await self._reader.run(lambda connection: moments.count_day(connection, website, day))
        finally:
            await self._reader.run(_forget_snapshot)
        if state == FINAL:
            for field in range(field_values.ALL + 1):
                await self._values(website, day, field)
        if await self._write(_end, website, day, version, state, totals):
            self._look_at_blocks(website)

    async def _values(self, website: int, day: int, field: int) -> None:
        """Writes a field's values of a day that is over."""
        rows = await self._reader.run(lambda connection: field_values.count_day(connection, website, day, field))
        for start in range(0, len(rows), rollup_state.ROWS_PER_STEP):
            part = rows[start : start + rollup_state.ROWS_PER_STEP]
            await self._write(field_values.add_values, (website, field, 0, day), part)

    async def _block(self, website: int, level: int, block: int) -> None:
        """Adds the blocks below one up."""
        while await self._write(field_values.delete_values, website, level, block):
            pass
        for field in range(field_values.ALL + 1):
            after = -1
            while after < field_values.LAST_VALUE:
                after = await self._write(field_values.merge, website, field, level, block, after)
        await self._write(rollup_state.finish_block, website, level, block)

    async def blocks(self, website: int, now: Moment) -> bool:
        """Build one block of days, from the blocks below it."""
        if website in self._blocks_built:
            return False
        found = await self._write(rollup_state.next_block, website, now.deletion_time_ms)
        if found is None:
            self._blocks_built.add(website)
            return False
        await self._block(website, *found)
        return True

    async def pages(self, website: int, now: Moment) -> bool:
        """Build one block of entry and exit pages."""
        if website in self._pages_built:
            return False
        found = await self._write(visit_days.next_block, website, now.deletion_time_ms)
        # Where a day changed meanwhile it is stale now, and looked at again once it is built.
        if found is not None and await self._pages(website, *found):
            return True
        self._pages_built.add(website)
        return False

    async def _pages(self, website: int, level: int, block: int) -> bool:
        """Counts the entry and exit pages of a block; False where a day changed meanwhile."""
        place = website, level, block
        while await self._write(visit_days.drop, *place):
            pass
        before = await self._write(visit_days.version, *place)
        without_view: list[int] = []
        for part in await self._reader.run(lambda connection: visit_days.parts_of(connection, *place)):
            # Many parts take minutes.
            if await self._write(visit_days.version, *place) != before:
                return False
            counts = await self._count_pages(place, part)
            without_view = counts.pop(0, without_view)
            rows = list(counts.items())
            for start in range(0, len(rows), rollup_state.ROWS_PER_STEP):
                await self._write(visit_days.add, place, rows[start : start + rollup_state.ROWS_PER_STEP])
        return await self._write(visit_days.finish_block, place, before, without_view)

    async def _count_pages(self, place: tuple[int, int, int], part: visit_days.Part) -> Counts:
        return await self._reader.run(lambda connection: visit_days.count_block(connection, *place, part))

    async def retention(self, website: int, now: Moment) -> bool:
        """Delete some of the events whose time is over; a day's pages are counted before its events go."""
        day = await self._write(retention.next_day, website, self._keep_days, now.deletion_time_ms)
        if day is not None and not await self._pages(website, 0, day):
            return False
        if not await self._write(retention.expire, website, self._keep_days, now.deletion_time_ms):
            return False
        self._changed(website)
        return True

    async def vitals(self, website: int, now: Moment) -> bool:
        """Build one block of the histograms of web vitals."""
        found = await self._write(vital_days.next_block, website, now.wall_ms)
        if found is None:
            return False
        await self._write(vital_days.begin_block, website, *found)
        for cut in (vital_days.DEVICE, vital_days.PATHNAME):
            after: int | None = -1
            while after is not None:
                after = await self._write(vital_days.merge, website, cut, *found, after)
        await self._write(vital_days.end_block, website, *found)
        return True

    async def heatmaps(self, website: int, now: Moment) -> bool:
        """Pack some points."""
        # Asked before each step: once few enough rows of today are left, what arrives meanwhile waits.
        end = await self._write(heat_days.pack_end, website, now.wall_ms // DAY_MS)
        return end is not None and await self._write(heat_days.pack, website, end)

    async def _write(
        self, step: Callable[Concatenate[sqlite3.Connection, P], T], *what: P.args, **named: P.kwargs
    ) -> T:
        """Run a step in a transaction of its own, once the writer has time for it, and rest."""
        waited_s, wait_s = 0.0, min(_BUSY_RATIO * self._took_s, _MAX_WAIT_S)
        while waited_s < wait_s and self._is_busy():
            pause_s = min(_WAIT_S, wait_s - waited_s)
            await asyncio.sleep(pause_s)
            waited_s += pause_s

        def run(connection: sqlite3.Connection) -> tuple[T, float]:
            begun = time.perf_counter()
            with transaction(connection):
                result = step(connection, *what, **named)
            return result, time.perf_counter() - begun

        result, self._took_s = await self._writer.run(run)
        await asyncio.sleep(self._took_s * self._rest)
        return result

    write = _write


Step = Callable[[RollupBuilder, int, Moment], Awaitable[bool]]

# A kind comes after those that give it work, so that a round does all of it.
_KINDS: tuple[tuple[str, Step], ...] = (
    ("build days", RollupBuilder.build),
    ("fold", RollupBuilder.fold),
    ("close days", RollupBuilder.close),
    ("blocks of days", RollupBuilder.blocks),
    ("entry and exit pages", RollupBuilder.pages),
    ("web vitals", RollupBuilder.vitals),
    ("heatmaps", RollupBuilder.heatmaps),
    ("retention", RollupBuilder.retention),
)

FINISHED, UNDER_WAY = True, False


def _websites(connection: sqlite3.Connection) -> list[int]:
    rows = connection.execute("/* rollup_builder.websites */ select number from website order by number")
    return [website for (website,) in rows]


def _fold(connection: sqlite3.Connection, website: int, now_ms: int) -> bool:
    """Fold a step's worth of the oldest open day that has any; whether there was one."""
    for day, known in rollup_state.unfinished(connection, website, OPEN):
        end_ms = field_values.roll_up_end(connection, website, day, known.rolled_up_to_ms, now_ms)
        if end_ms > known.rolled_up_to_ms:
            field_values.roll_up(connection, website, day, known.rolled_up_to_ms, end_ms)
            return True
    return False


def _close(connection: sqlite3.Connection, website: int, deletion_time_ms: int) -> bool | None:
    """Take a step towards making an open day final: UNDER_WAY or FINISHED; None where there is no such day."""
    for day, known in rollup_state.unfinished(connection, website, OPEN):
        if rollup_state.is_final(day, deletion_time_ms) and known.rolled_up_to_ms >= (day + 1) * DAY_MS:
            if field_values.delete_visitors(connection, website, day):
                return UNDER_WAY
            rollup_state.finish_day(connection, website, day)
            return FINISHED
    return None


def _begin(connection: sqlite3.Connection, reader: Thread, website: int, day: int, state: int) -> int:
    """Takes the snapshot in which a stale day is counted; the version that the day has in it."""
    # The lock on writing is held: the snapshot is the last commit, and no other comes between it and the emptying.
    reader.begin_snapshot()
    moments.clear(connection, website, day)
    # Up to which moment the values will be counted: an event before it that comes meanwhile marks the day stale again.
    connection.execute(
        "/* rollup_builder.begin */ update rollup_state set rolled_up_to_ms = ?"
        " where website = ? and level = 0 and block = ? and state = 0",
        ((day + (state == FINAL)) * DAY_MS, website, day),
    )
    known = rollup_state.day_state(connection, website, day)
    return -1 if known is None else known.version


def _forget_snapshot(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        connection.execute("rollback")


def _end(
    connection: sqlite3.Connection, website: int, day: int, version: int, state: int, totals: moments.Totals
) -> bool:
    """Mark the day as right; False where it has been marked stale again."""
    if not rollup_state.finish_rebuild(connection, website, day, version, state):
        return False
    moments.add(connection, moments.rows_of(website, totals))
    return True
