"""Who is here now: identity -> visitor and visits. In memory only, bounded, never on disk.

Rules: this room never sees an address, a User-Agent or a session_id but to hash them, under a random salt of the UTC
day that itself lives in memory only. What leaves it is a random number (the visitor) and small counts (the visits).
`Salts` is used by the event loop alone, `Sessions` by the writer's thread alone, so neither needs a lock: no await
and no other thread stands between reading and changing them.

A visit is a maximal run of one visitor's traffic events without a gap over 30 minutes: a function of the set of their
times, whatever the order of arrival. So all visits of a visitor's day are kept (there cannot be more than 48), and a
late event may lengthen one, bring its begin forward, or join two; `touch` says which rows that changes on disk.

An identity is one bytes object: 22 bytes (12 of them say in which quarters of an hour of its day it has events, which
tally/rollups/totals.py needs) and 25 for each visit (8 of them say which page it is on, which tally/ingest/realtime.py
needs). Values are replaced, never changed, so undoing a failed transaction is putting the old ones back.
"""

import secrets
import struct
from collections import OrderedDict
from operator import itemgetter
from typing import NamedTuple

from tally.events.identity import is_over
from tally.events.visits import Visit, belongs_to_visit
from tally.timestamps import DAY_MS, QUARTER_MS

# visitor, UTC day, a bit for each of its 96 quarters with an event: the first 64, the others
_HEAD = struct.Struct("<QHQI")
# ordinal, begin and end in ms of the day, views, custom events; the latest view's ms of the day and its page
_VISIT = struct.Struct("<BIIIIII")
_SINGLE = struct.Struct("<QHQIBIIIIII")  # the usual case: one visit
_LOW = (1 << 64) - 1
_make = tuple.__new__


class SessionUpdate(NamedTuple):
    """What a traffic event did: its visit as it is now, the visits as they were that it replaced (none to two), and in
    which quarters of the day its visitor had events before, as a mask."""

    visitor: int
    visit: Visit
    before: tuple[Visit, ...]
    mask: int


def _visit(day_ms: int, ordinal: int, begin: int, end: int, views: int, events: int, view: int, page: int) -> Visit:
    # As Visit(...), in half the time; so below.
    return _make(Visit, (ordinal, day_ms + begin, day_ms + end, views, events, day_ms + view, page))


def _opened(far: list[Visit], ts_ms: int, is_view: bool, page: int) -> Visit:
    ordinal = max(visit.ordinal for visit in far) + 1 if far else 0
    return Visit(ordinal, ts_ms, ts_ms, int(is_view), int(not is_view), ts_ms, page)


def _joined(near: list[Visit], ts_ms: int, is_view: bool, page: int) -> Visit:
    shown = [(visit.view_ms, visit.page) for visit in near if visit.views]
    # Of views at one moment the one that arrived last has the greater id.
    last = max([(ts_ms, page), *shown] if is_view else shown, key=itemgetter(0), default=(ts_ms, page))
    # The events of the others are renumbered on disk: the fewer the better.
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
    """Identities with their visits, least recently seen first. `keep` makes changes hold, `undo` takes them back."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.evictions = 0
        self._packed: OrderedDict[bytes, bytes] = OrderedDict()
        self._before: dict[bytes, bytes | None] = {}
        self._swept_day = 0

    def __len__(self) -> int:
        return len(self._packed)

    def visitor(self, identity: bytes, ts_ms: int) -> int:
        """The visitor of an identity, drawn if new; opens no visit."""
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
        """Counts a traffic event in: lengthens, joins or opens visits. `page`: a view's pathname, as a label."""
        old = self._packed.get(identity)
        packed = old or self._new(ts_ms)
        if len(packed) == _SINGLE.size:
            # Nearly always, and then nearly always it is lengthened: the same as below, in half the time.
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
        """The transaction is committed: changes hold. Once a UTC day, forgets what is surely over."""
        self._before.clear()
        day = deletion_time_ms // DAY_MS
        if day != self._swept_day:
            self._swept_day = day
            for identity in [i for i, p in self._packed.items() if is_over(_HEAD.unpack_from(p)[1], deletion_time_ms)]:
                del self._packed[identity]

    def undo(self) -> None:
        """The transaction failed: every identity is as it was after the last `keep` (but for who was seen last)."""
        for identity, packed in self._before.items():
            if packed is None:
                self._packed.pop(identity, None)
            else:
                self._packed[identity] = packed
        self._before.clear()

    def _new(self, ts_ms: int) -> bytes:
        # 62 bits: two of a website's visitors meet with a chance of 1 in 1,480,000 at 2.5 million of them.
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
