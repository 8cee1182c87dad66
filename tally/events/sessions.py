"""In-memory map from visitor identity to visitor and visits of its day. Bounded, never on disk.

Times and days are in website time: `offset_ms` is what that has more than UTC, in whole quarter hours.

Identities (tally/events/identity.py) are hashes. What leaves this module is a number drawn for each (the visitor) and
small counts (the visits). `Sessions` is used by the writer's thread alone, so it needs no lock.

A visitor's number begins with the time of the event for which it was drawn; the rest is a sequence from a random start
with a random step. So the visitors who are on a website at a time lie together in the tables whose keys begin with the
day and the visitor: with random numbers, each visit that is written changes a page of its own. After a restart, two
visitors of one millisecond have one number with a chance of 1 in 4 billion.

A late event may lengthen a visit, move its start forward, or join two (tally/events/visits.py has the rule), so all
visits of a visitor's day are kept; there cannot be more than 48. `touch` returns which rows on disk that changes.

An identity's value is one bytes object: 24 bytes (12 of them a bit for each quarter-hour of the day with an event, for
tally/rollups/totals.py), 37 for each visit, and 28 for each visit that has an acquisition. Values are replaced, never
changed, so a failed transaction is undone by putting the old ones back.
"""

import secrets
import struct
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tally.events.identity import over_ms
from tally.events.visits import ACQUISITION_BYTES, Visit, belongs_to_visit, event_as_visit, joined
from tally.timestamps import DAY_MS, HOUR_MS, QUARTER_MS

# Visitor, day, a bit for each of its 96 quarter-hours with an event: the first 64, the others; the offset in quarter
# hours, number of visits.
_HEAD = struct.Struct("<QHQIbB")
# Ordinal, start and end in ms of the day, pageviews, events; ms of the day and page of the first and the latest view;
# ms of the day of the acquisition, _NO_SOURCE where there is none. The acquisitions of all visits follow the last one.
_VISIT = struct.Struct("<BIIIIIIIII")
_SINGLE = struct.Struct("<QHQIbBBIIIIIIIII")  # the usual case: one visit
LOW_BITS = 32
"""The low bits of a visitor's number. Above them is the ms of the day of the event for which it was drawn."""
_COUNT_AT, _NO_SOURCE = _HEAD.size - 1, 0xFFFFFFFF
_LOW = (1 << 64) - 1
# Of the website whose days end last.
_LATEST_MS = -12 * HOUR_MS
_NEVER = 1 << 62
_make = tuple.__new__


class SessionUpdate(NamedTuple):
    """The effect of a traffic event: its visit as it is now, the visits that this replaces as they were (none to two),
    and the quarter-hours of the day in which the visitor had events before, as a bit mask."""

    visitor: int
    visit: Visit
    before: tuple[Visit, ...]
    mask: int


def _pack(visitor: int, day: int, mask: int, offset: int, visits: Sequence[Visit]) -> bytes:
    day_ms = day * DAY_MS
    packed = [_HEAD.pack(visitor, day, mask & _LOW, mask >> 64, offset, len(visits))]
    for visit in visits:
        views = (visit.entry_ms - day_ms, visit.entry_page, visit.exit_ms - day_ms, visit.exit_page)
        packed.append(
            _VISIT.pack(
                *(visit.ordinal, visit.begin_ms - day_ms, visit.end_ms - day_ms, visit.views, visit.events),
                *(views if visit.views else (0, 0, 0, 0)),
                visit.acquired_ms - day_ms if visit.acquisition else _NO_SOURCE,
            )
        )
    return b"".join([*packed, *[visit.acquisition for visit in visits]])


def _unpack(packed: bytes, day: int) -> list[Visit]:
    day_ms, visits = day * DAY_MS, []
    source_at = _HEAD.size + packed[_COUNT_AT] * _VISIT.size
    for place in range(_HEAD.size, source_at, _VISIT.size):
        ordinal, begin, end, views, events, entry, entry_page, exit, exit_page, source = _VISIT.unpack_from(
            packed, place
        )
        pages = (day_ms + entry, entry_page, day_ms + exit, exit_page)
        acquisition = b""
        if source != _NO_SOURCE:
            acquisition = packed[source_at : source_at + ACQUISITION_BYTES]
            source_at += ACQUISITION_BYTES
        acquired_ms = day_ms + source if acquisition else 0
        visits.append(Visit(ordinal, day_ms + begin, day_ms + end, views, events, *pages, acquired_ms, acquisition))
    return visits


def _over_ms(packed: bytes) -> int:
    _, day, _, _, offset, _ = _HEAD.unpack_from(packed)
    return over_ms(day, offset * QUARTER_MS)


class Sessions:
    """Identities with their visits, least recently seen first. `keep` confirms changes, `undo` reverts them."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.evictions = 0
        self._packed: OrderedDict[bytes, bytes] = OrderedDict()
        self._before: dict[bytes, bytes | None] = {}
        # When the first of the known days is over.
        self._sweep_ms = _NEVER
        self._low, self._step = secrets.randbits(LOW_BITS), secrets.randbits(LOW_BITS) | 1
        # By visitor: the day, visits and quarter hours that replace those in memory with the visitor's next event.
        self._amended: dict[int, tuple[int, Sequence[Visit], int]] = {}

    def __len__(self) -> int:
        return len(self._packed)

    def visitor(self, identity: bytes, ts_ms: int, offset_ms: int = 0) -> int:
        """Return the visitor of an identity, a new one if it is not known; opens no visit."""
        packed = self._packed.get(identity)
        if packed is None:
            packed = self._new(ts_ms, offset_ms)
            self._put(identity, packed, None)
        else:
            self._packed.move_to_end(identity)
        return int(_HEAD.unpack_from(packed)[0])

    def known_visitor(self, identity: bytes) -> int | None:
        """Return the visitor of an identity, None where it has none; changes nothing."""
        packed = self._packed.get(identity)
        return None if packed is None else int(_HEAD.unpack_from(packed)[0])

    def touch(
        self, identity: bytes, ts_ms: int, is_view: bool, page: int = 0, acquisition: bytes = b"", offset_ms: int = 0
    ) -> SessionUpdate:
        """Add a traffic event: lengthen, join or open visits.

        `page`: a view's pathname, as a label. `acquisition`: what the event itself carries (`packed_acquisition`).
        """
        if self._amended:
            self._amend(identity)
        old = self._packed.get(identity)
        packed = old or self._new(ts_ms, offset_ms)
        if packed[_COUNT_AT] != 1:
            return self._touch_any(identity, old, packed, ts_ms, is_view, page, acquisition)
        # The usual case, a visitor with one visit that is lengthened: the same as `_touch_any`, in half the time.
        visitor, day, low, high, offset, _, ordinal, begin, end, views, events, entry, first, exit, last, source = (
            _SINGLE.unpack_from(packed)
        )
        day_ms = day * DAY_MS
        at, mask, acquired = ts_ms - day_ms, low | high << 64, packed[_SINGLE.size :]
        if not belongs_to_visit(at, begin, end):
            return self._touch_any(identity, old, packed, ts_ms, is_view, page, acquisition)
        pages = (day_ms + entry, first, day_ms + exit, last, day_ms + source if acquired else 0, acquired)
        was = _make(Visit, (ordinal, day_ms + begin, day_ms + end, views, events, *pages))
        if not is_view:
            events += 1
        else:
            if at >= exit or not views:
                exit, last = at, page
            if at < entry or not views:
                entry, first = at, page
            views += 1
        if at > end:
            end = at
        elif at < begin:
            begin = at
        if acquisition and at < source:
            source, acquired = at, acquisition
        if not mask >> at // QUARTER_MS & 1:
            now_in = mask | 1 << at // QUARTER_MS
            low, high = now_in & _LOW, now_in >> 64
        longer = _SINGLE.pack(
            visitor, day, low, high, offset, 1, ordinal, begin, end, views, events, entry, first, exit, last, source
        )
        self._put(identity, longer + acquired, old)
        pages = (day_ms + entry, first, day_ms + exit, last, day_ms + source if acquired else 0, acquired)
        now = _make(Visit, (ordinal, day_ms + begin, day_ms + end, views, events, *pages))
        return _make(SessionUpdate, (visitor, now, (was,), mask))

    def _touch_any(
        self,
        identity: bytes,
        old: bytes | None,
        packed: bytes,
        ts_ms: int,
        is_view: bool,
        page: int,
        acquisition: bytes,
    ) -> SessionUpdate:
        """Add a traffic event of a visitor with any number of visits; `old` is what was kept of it before."""
        visitor, day, low, high, offset, _ = _HEAD.unpack_from(packed)
        mask, visits = low | high << 64, _unpack(packed, day)
        near = [v for v in visits if belongs_to_visit(ts_ms, v.begin_ms, v.end_ms)]
        far = [] if len(near) == len(visits) else [v for v in visits if v not in near]
        if near:
            # The longest visit keeps its number: the events of the others are renumbered on disk.
            kept = max(near, key=lambda visit: (visit.end_ms - visit.begin_ms, -visit.ordinal)).ordinal
            now = joined(kept, [*near, event_as_visit(kept, ts_ms, is_view, page, acquisition)])
        else:
            following = max(visit.ordinal for visit in far) + 1 if far else 0
            now = event_as_visit(following, ts_ms, is_view, page, acquisition)
        self._put(identity, _pack(visitor, day, mask | 1 << ts_ms % DAY_MS // QUARTER_MS, offset, [*far, now]), old)
        return _make(SessionUpdate, (visitor, now, tuple(near), mask))

    def amend(self, day: int, changed: Mapping[int, tuple[Sequence[Visit], int]]) -> None:
        """Replace the visits and the mask of quarter hours of some visitors of a day, whose events were deleted.

        They are compared with an identity at its next event, because identities are not found by their visitors.
        """
        self._amended |= {visitor: (day, *now) for visitor, now in changed.items()}

    def _amend(self, identity: bytes) -> None:
        packed = self._packed.get(identity)
        if packed is None:
            return
        visitor, day, _, _, offset, _ = _HEAD.unpack_from(packed)
        amended = self._amended.get(visitor)
        if amended is not None and amended[0] == day:
            del self._amended[visitor]
            self._packed[identity] = _pack(visitor, day, amended[2], offset, amended[1])

    def keep(self, deletion_time_ms: int) -> None:
        """Confirm all changes after the commit. Once a day is over, delete its identities."""
        self._before.clear()
        if deletion_time_ms >= self._sweep_ms:
            over, self._sweep_ms = [], _NEVER
            for identity, packed in self._packed.items():
                end_ms = _over_ms(packed)
                if end_ms <= deletion_time_ms:
                    over.append(identity)
                else:
                    self._sweep_ms = min(self._sweep_ms, end_ms)
            for identity in over:
                del self._packed[identity]
            amended = self._amended.items()
            self._amended = {key: now for key, now in amended if over_ms(now[0], _LATEST_MS) > deletion_time_ms}

    def undo(self) -> None:
        """Revert all changes since the last `keep`, except for the order of eviction."""
        for identity, packed in self._before.items():
            if packed is None:
                self._packed.pop(identity, None)
            else:
                self._packed[identity] = packed
        self._before.clear()

    def _new(self, ts_ms: int, offset_ms: int) -> bytes:
        day, of_day_ms = divmod(ts_ms, DAY_MS)
        # An odd step: no number comes twice in 2^32 visitors, however many have their first event in one millisecond.
        self._low = (self._low + self._step) % (1 << LOW_BITS)
        self._sweep_ms = min(self._sweep_ms, over_ms(day, offset_ms))
        return _HEAD.pack(of_day_ms << LOW_BITS | self._low, day, 0, 0, offset_ms // QUARTER_MS, 0)

    def _put(self, identity: bytes, packed: bytes, old: bytes | None) -> None:
        self._before.setdefault(identity, old)
        self._packed[identity] = packed
        if old is not None:
            self._packed.move_to_end(identity)
        elif len(self._packed) > self.most:
            evicted, old = self._packed.popitem(last=False)
            self._before.setdefault(evicted, old)
            self.evictions += 1
