"""Sends new events to the destination of backups every few seconds, so that a lost machine loses only the last ones.

Nothing waits in memory. An increment has the events with ids from the end of the one before up to the last committed
id, read from the database when it is sent. While the destination cannot be reached that position stays, and the events
are where they always are.

There is no index by id. To find the events quickly, the quarter hours of committed events are noted by website, up to
MAX_QUARTERS. With more of them, all 73 hours in which a new event may lie are read; after a start, all events.

Increments continue a backup, whose name has the position with which they begin. Where the destination has nothing of
the current series, `needs_backup` is true and nothing is sent until there is a backup. A nightly backup moves the
position to its own, and deletes the increments whose events it has.
"""

import contextlib
import tempfile
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from typing import BinaryIO, cast

from tally.accounts.api_keys import key_salt
from tally.clock import Clock
from tally.engine.ingest import PreparedEvent
from tally.errors import fields, log, where_it_failed
from tally.maintenance.backup import BackupError
from tally.maintenance.offsite_backup import Offsite, database_id, series_of
from tally.maintenance.scheduled_backup import lower_priority
from tally.offsite import names
from tally.offsite.destination import Destination, DestinationError
from tally.storage.database import BadDatabase, connect_reader, open_unchanged
from tally.timestamps import HOUR_MS, QUARTER_MS
from tally.transfer.increments import write_increment

# Some 8 MB compressed, written to a temporary file.
MAX_IDS = 200_000
# 1 MB of memory.
MAX_QUARTERS = 10_000
# A new event is up to 72 hours late (OLDEST_MS in tally/events/validation.py).
_OLDEST_MS = 73 * HOUR_MS
_END_MS = 1 << 62
_MAX_PAUSE_S = 300
_CLOSE_S = 1.0

Quarters = set[tuple[int, int]]
"""Quarter hours with new events, as (website, quarter)."""


class IncrementStream:
    """Sends increments at most every `interval_s`.

    For the metrics: `sent` and `failed` count since the start; `behind_ns` is how long events have been waiting.
    """

    def __init__(self, offsite: Offsite, interval_s: int, clock: Clock) -> None:
        self._offsite, self._interval_s, self._clock = offsite, interval_s, clock
        self.sent = self.failed = 0
        # Of the event loop: quarter hours of events since the last start of the thread; None: not known.
        self._noted: Quarters | None = None
        self._next_ns, self._complete_ns = 0, clock.monotonic_ns()
        self._thread: threading.Thread | None = None
        # Of the thread: the end of the last increment, up to which id there is nothing to send, and where it may lie.
        self._series, self._database = "", ""
        self._position = self._scanned = 0
        self._quarters: Quarters | None = set()
        self._is_first = False
        self._destination: Destination | None = None
        self._failures = 0
        self._is_waiting = False
        # Set by the thread of the backup: its series and position.
        self._backup: tuple[str, int] | None = None

    @property
    def needs_backup(self) -> bool:
        """Whether nothing is sent until there is a backup to continue."""
        return self._is_waiting and self._backup is None

    def note(self, events: Sequence[PreparedEvent]) -> None:
        """Note the quarter hours of a commit. Called on the event loop, before the requests are answered."""
        if self._noted is not None:
            self._noted |= {(row.website.number, row.event.ts_ms // QUARTER_MS) for row in events}
            if len(self._noted) > MAX_QUARTERS:
                self._noted = None

    def begin_after(self, series: str, position: int) -> None:
        """Continue a backup that was made just now."""
        self._backup = series, position

    def start_if_due(self, last_id: int, now_ms: int) -> None:
        """Start sending if there is anything new. Called every second on the event loop, with the last committed id."""
        now_ns = self._clock.monotonic_ns()
        if self._thread is not None and self._thread.is_alive():
            return
        if last_id == self._scanned:
            self._complete_ns = now_ns
        elif now_ns >= self._next_ns and not self.needs_backup:
            noted, self._noted = self._noted, set()
            self._next_ns = now_ns + self._interval_s * 1_000_000_000
            arguments = last_id, noted, now_ms, now_ns
            self._thread = threading.Thread(target=self._work, args=arguments, name="increments", daemon=True)
            self._thread.start()

    @property
    def behind_ns(self) -> int:
        """How long the oldest event that is not sent has been waiting, at most."""
        return self._clock.monotonic_ns() - self._complete_ns

    @property
    def is_failing(self) -> bool:
        """Return whether the last attempt failed."""
        return self._failures > 0

    def close(self) -> None:
        """Wait for a moment for the increment that is being sent."""
        if self._thread is not None:
            self._thread.join(_CLOSE_S)

    def _work(self, last_id: int, noted: Quarters | None, now_ms: int, now_ns: int) -> None:
        lower_priority()
        if noted is None or self._quarters is None or len(self._quarters | noted) > MAX_QUARTERS:
            self._quarters = None
        else:
            self._quarters |= noted
        try:
            self._take_backup()
            if self._series or self._find_position(last_id):
                self._send(last_id, now_ms)
                self._complete_ns = now_ns
            if self._failures:
                log.info("increments are sent again")
            self._failures = 0
        except Exception as failure:
            self._failed(failure)

    def _failed(self, failure: Exception) -> None:
        self.failed += 1
        self._failures += 1
        pause_s = min(max(1, self._interval_s) << min(self._failures - 1, 10), _MAX_PAUSE_S)
        self._next_ns = self._clock.monotonic_ns() + pause_s * 1_000_000_000
        self._close()
        is_known = isinstance(failure, BackupError | BadDatabase | DestinationError)
        error = failure if is_known else where_it_failed(failure)
        log.error("events cannot be sent to another machine", extra=fields(error=error, next_attempt_seconds=pause_s))

    def _close(self) -> None:
        destination, self._destination = self._destination, None
        if destination is not None:
            with contextlib.suppress(DestinationError, OSError):
                destination.close()

    def _take_backup(self) -> None:
        if self._backup is None:
            return
        # In this order: `needs_backup` is not true in between.
        self._is_waiting = False
        (series, position), self._backup = self._backup, None
        if series != self._series:
            self._identify()
            self._series, self._position, self._scanned = series, position, position
            # Noted quarter hours may be from before; those since the backup are among 73 hours.
            self._quarters = None
        elif position > self._scanned:
            self._position = self._scanned = position

    def _identify(self) -> None:
        with closing(open_unchanged(self._offsite.db)) as reader:
            self._database = database_id(key_salt(reader))

    def _find_position(self, last_id: int) -> bool:
        """Find the end of the last increment; return whether there is one, or a backup that it can follow."""
        self._identify()
        destination = self._connected()
        stored = names.catalog(destination.files()).of(self._database)
        series = series_of(self._offsite.db, stored, last_id)
        position = stored.last_id(series)
        if not position:
            self._is_waiting = True
            return False
        for name in stored.unfinished:
            if ".ndjson" in name:
                destination.delete(name)
        self._series, self._position, self._scanned, self._quarters = series, position, position, None
        self._is_first = True
        return True

    def _connected(self) -> Destination:
        if self._destination is None:
            self._destination = self._offsite.connect()
        return self._destination

    def _send(self, last_id: int, now_ms: int) -> None:
        every = [(0 if self._is_first else now_ms - _OLDEST_MS, _END_MS)]
        ranges = None if self._quarters is None else _ranges(self._quarters)
        with closing(connect_reader(self._offsite.db)) as reader:
            while self._scanned < last_id:
                to = min(last_id, self._scanned + MAX_IDS)
                with tempfile.TemporaryFile(dir=self._offsite.db.resolve().parent) as unpacked:
                    file = cast(BinaryIO, unpacked)
                    if write_increment(reader, file, self._scanned, to, ranges, every):
                        self._put(file, to)
                self._scanned = to
        self._quarters, self._is_first = set(), False

    def _put(self, file: BinaryIO, to: int) -> None:
        is_encrypted = bool(self._offsite.recipients)
        name = names.increment_name(self._database, self._series, self._position, to, is_encrypted=is_encrypted)
        with self._offsite.packed(file) as packed:
            self._connected().put(name, packed)
        self._position = to
        self.sent += 1


def _ranges(quarters: Iterable[tuple[int, int]]) -> Mapping[int, Sequence[tuple[int, int]]]:
    """Return quarter hours as ranges of milliseconds by website, adjacent ones joined."""
    ranges: dict[int, list[tuple[int, int]]] = {}
    for website, quarter in sorted(quarters):
        of_website, begin_ms = ranges.setdefault(website, []), quarter * QUARTER_MS
        if of_website and of_website[-1][1] == begin_ms:
            begin_ms = of_website.pop()[0]
        of_website.append((begin_ms, (quarter + 1) * QUARTER_MS))
    return ranges
