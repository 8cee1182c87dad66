"""In-memory map from visitor identity to visitor and visits of the current day. Bounded, never on disk.

Identities (tally/events/identity.py) are hashes. What leaves this module is a random number (the visitor) and small
counts (the visits). `Sessions` is used by the writer's thread alone, so it needs no lock.

A late event may lengthen a visit, move its start forward, or join two (tally/events/visits.py has the rule), so all
visits of a visitor's day are kept; there cannot be more than 48. `touch` returns which rows on disk that changes.

An identity's value is one bytes object: 22 bytes (12 of them a bit for each quarter-hour of the day with an event, for
tally/rollups/totals.py) and 25 for each visit (8 of them the page of its latest view, for tally/ingest/realtime.py).
Values are replaced, never changed, so a failed transaction is undone by putting the old ones back.
"""

import secrets
import struct
from collections import OrderedDict
from operator import itemgetter
from typing import NamedTuple

from tally.events.identity import is_over
from tally.events.visits import Visit, belongs_to_visit
from tally.timestamps import DAY_MS, QUARTER_MS

# Visitor, UTC day, a bit for each of its 96 quarter-hours with an event: the first 64, the others.
_HEAD = struct.Struct("<QHQI")
# Ordinal, start and end in ms of the day, pageviews, events; the latest view's ms of the day and its page.
_VISIT = struct.Struct("<BIIIIII")
_SINGLE = struct.Struct("<QHQIBIIIIII")  # the usual case: one visit
_LOW = (1 << 64) - 1
_make = tuple.__new__


class SessionUpdate(NamedTuple):
    """The effect of a traffic event: its visit as it is now, the visits that this replaces as they were (none to two),
    and the quarter-hours of the day in which the visitor had events before, as a bit mask."""

    visitor: int
    visit: Visit
    before: tuple[Visit, ...]
    mask: int


def _visit(day_ms: int, ordinal: int, begin: int, end: int, views: int, events: int, view: int, page: int) -> Visit:
    # As Visit(...), in half the time.
    return _make(Visit, (ordinal, day_ms + begin, day_ms + end, views, events, day_ms + view, page))


def _opened(far: list[Visit], ts_ms: int, is_view: bool, page: int) -> Visit:
    ordinal = max(visit.ordinal for visit in far) + 1 if far else 0
    return Visit(ordinal, ts_ms, ts_ms, int(is_view), int(not is_view), ts_ms, page)


def _joined(near: list[Visit], ts_ms: int, is_view: bool, page: int) -> Visit:
    shown = [(visit.view_ms, visit.page) for visit in near if visit.views]
    # Of views at the same time the one that arrived last has the greater id.
    last = max([(ts_ms, page), *shown] if is_view else shown, key=itemgetter(0), default=(ts_ms, page))
    # The longest visit keeps its number: the events of the others are renumbered on disk.
    kept = max(near, key=lambda visit: (visit.end_ms - visit.begin_ms, -visit.ordinal))
    return Visit(
        kept.ordinal,
        min(ts_ms, *(v.begin_ms for v in near)),
        max(ts_ms, *(v.end_ms for v in near)),
        sum(v.views for v in near) + is_view,
        sum(v.events for v in near) + (not is_view),
        *last,
    )


def _pack(visitor: int, day: int, mask: int, visits: list[Visit]) -> bytes:
    day_ms = day * DAY_MS
    return b"".join(
        [_HEAD.pack(visitor, day, mask & _LOW, mask >> 64)]
        + [
            _VISIT.pack(o, begin_ms - day_ms, end_ms - day_ms, views, events, view_ms - day_ms, page)
            for o, begin_ms, end_ms, views, events, view_ms, page in visits
        ]
    )


class Sessions:
    """Identities with their visits, least recently seen first. `keep` confirms changes, `undo` reverts them."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.evictions = 0
        self._packed: OrderedDict[bytes, bytes] = OrderedDict()
        self._before: dict[bytes, bytes | None] = {}
        self._swept_day = 0

    def __len__(self) -> int:
        return len(self._packed)

    def visitor(self, identity: bytes, ts_ms: int) -> int:
        """Return the visitor of an identity, a new one if it is not known; opens no visit."""
        packed = self._packed.get(identity)
        if packed is None:
            packed = self._new(ts_ms)
            self._put(identity, packed, None)
        else:
            self._packed.move_to_end(identity)
        return int(_HEAD.unpack_from(packed)[0])

    def known_visitor(self, identity: bytes) -> int | None:
        """Return the visitor of an identity, None where it has none; changes nothing."""
        packed = self._packed.get(identity)
        return None if packed is None else int(_HEAD.unpack_from(packed)[0])

    def touch(self, identity: bytes, ts_ms: int, is_view: bool, page: int = 0) -> SessionUpdate:
        """Add a traffic event: lengthen, join or open visits. `page`: a view's pathname, as a label."""
        old = self._packed.get(identity)
        packed = old or self._new(ts_ms)
        if len(packed) == _SINGLE.size:
            # The usual case, a visitor with one visit that is lengthened: the same as below, in half the time.
            visitor, day, low, high, ordinal, begin, end, views, events, view, latest = _SINGLE.unpack(packed)
            day_ms = day * DAY_MS
            at, mask = ts_ms - day_ms, low | high << 64
            was = _make(Visit, (ordinal, day_ms + begin, day_ms + end, views, events, day_ms + view, latest))
            if belongs_to_visit(at, begin, end):
                if not is_view:
                    events += 1
                else:
                    if at >= view or not views:
                        view, latest = at, page
                    views += 1
                if at > end:
                    end = at
                elif at < begin:
                    begin = at
                if not mask >> at // QUARTER_MS & 1:
                    now_in = mask | 1 << at // QUARTER_MS
                    low, high = now_in & _LOW, now_in >> 64
                longer = _SINGLE.pack(visitor, day, low, high, ordinal, begin, end, views, events, view, latest)
                self._put(identity, longer, old)
                now = _make(Visit, (ordinal, day_ms + begin, day_ms + end, views, events, day_ms + view, latest))
                return _make(SessionUpdate, (visitor, now, (was,), mask))
            visits = [was]
        else:
            visitor, day, low, high = _HEAD.unpack_from(packed)
            mask = low | high << 64
            visits = [_visit(day * DAY_MS, *rest) for rest in _VISIT.iter_unpack(packed[_HEAD.size :])]
        near = [v for v in visits if belongs_to_visit(ts_ms, v.begin_ms, v.end_ms)]
        far = [] if len(near) == len(visits) else [v for v in visits if v not in near]
        now = _joined(near, ts_ms, is_view, page) if near else _opened(far, ts_ms, is_view, page)
        self._put(identity, _pack(visitor, day, mask | 1 << ts_ms % DAY_MS // QUARTER_MS, [*far, now]), old)
        return _make(SessionUpdate, (visitor, now, tuple(near), mask))

    def keep(self, deletion_time_ms: int) -> None:
        """Confirm all changes after the commit. Once a UTC day, delete the identities of days that are over."""
        self._before.clear()
        day = deletion_time_ms // DAY_MS
        if day != self._swept_day:
            self._swept_day = day
            for identity in [i for i, p in self._packed.items() if is_over(_HEAD.unpack_from(p)[1], deletion_time_ms)]:
                del self._packed[identity]

    def undo(self) -> None:
        """Revert all changes since the last `keep`, except for the order of eviction."""
        for identity, packed in self._before.items():
            if packed is None:
                self._packed.pop(identity, None)
            else:
                self._packed[identity] = packed
        self._before.clear()

    def _new(self, ts_ms: int) -> bytes:
        # 62 bits: among 2.5 million visitors of a website, the chance of a collision is 1 in 1,480,000.
        return _HEAD.pack(secrets.randbits(62), ts_ms // DAY_MS, 0, 0)

    def _put(self, identity: bytes, packed: bytes, old: bytes | None) -> None:
        self._before.setdefault(identity, old)
        self._packed[identity] = packed
        if old is not None:
            self._packed.move_to_end(identity)
        elif len(self._packed) > self.most:
            evicted, old = self._packed.popitem(last=False)
            self._before.setdefault(evicted, old)
            self.evictions += 1
