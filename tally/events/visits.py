"""The rule that divides a visitor's traffic events into visits, and the record of a visit.

A visit is a maximal run of one visitor's traffic events of one day without a gap over 30 minutes. It is a function
of the set of their times: the order of arrival does not change it. `belongs_to_visit` is the rule. It is used where
events arrive one by one (tally/events/sessions.py) and where many are imported at once (tally/transfer/visit_merge.py).

A visit's acquisition, entry page and exit page are functions of its events too, not of their order of arrival: `joined`
is the rule.
"""

from collections.abc import Iterable, Sequence
from operator import attrgetter
from struct import Struct
from typing import NamedTuple

from tally.events.channels import DIRECT
from tally.events.dimensions import ACQUISITION

# docs/reference/definitions.md: events exactly 30:00.000 apart belong to the same visit. Realtime figures keep visits
# for as long (tally/sqlite/realtime.py). Visits that are stored are not divided again.
#
# With another gap, these change too: the check of `visit` in schema.sql (a visitor has at most 48 visits a day,
# numbered from 0), which in older files needs a migration that makes the table anew; the texts with "30 minutes" in
# static/messages, static/openapi.yaml and docs; and the models of tests/model/reference.py and
# tests/support/memory_engine.py.
VISIT_GAP_MS = 30 * 60 * 1000


class Visit(NamedTuple):
    """One visit of a visitor's day; times in milliseconds since 1970.

    `entry_page` and `exit_page` are the pathnames of its first and its last view by (timestamp, id), as labels;
    `entry_ms` and `exit_ms` their times. All four mean nothing where `views` is 0.

    `acquisition` is that of its first event, by (timestamp, id), which carries one, at `acquired_ms`; empty where no
    event does (`packed_acquisition`).
    """

    ordinal: int
    begin_ms: int
    end_ms: int
    views: int
    events: int
    entry_ms: int = 0
    entry_page: int = 0
    exit_ms: int = 0
    exit_page: int = 0
    acquired_ms: int = 0
    acquisition: bytes = b""


_LABELS = Struct(f"<{len(ACQUISITION)}I")
ACQUISITION_BYTES = _LABELS.size
NO_ACQUISITION = tuple(DIRECT if name == "channel" else "" for name in ACQUISITION)
"""The texts of ACQUISITION of an event that carries none."""
# schema.sql inserts both labels.
_NO_LABELS = tuple(1 if text == DIRECT else 0 for text in NO_ACQUISITION)
_NOTHING_PACKED = _LABELS.pack(*_NO_LABELS)


def packed_acquisition(labels: Iterable[int]) -> bytes:
    """Return the labels of ACQUISITION as the bytes that a Visit keeps; none where they are those of no acquisition."""
    packed = _LABELS.pack(*labels)
    return b"" if packed == _NOTHING_PACKED else packed


def acquisition_labels(packed: bytes) -> tuple[int, ...]:
    """Return the labels of ACQUISITION of a visit."""
    return _LABELS.unpack(packed) if packed else _NO_LABELS


def event_as_visit(ordinal: int, ts_ms: int, is_view: bool, page: int, acquisition: bytes) -> Visit:
    """Return the visit that consists of one event."""
    pages = (ts_ms, page, ts_ms, page) if is_view else (0, 0, 0, 0)
    return Visit(
        ordinal, ts_ms, ts_ms, int(is_view), int(not is_view), *pages, ts_ms if acquisition else 0, acquisition
    )


def joined(ordinal: int, parts: Sequence[Visit]) -> Visit:
    """Return the visit that visits and single events (`event_as_visit`) become; of equal times the first part wins.

    So `parts` are in the order of their ids where times are equal: events that arrive come after stored visits.
    """
    viewed = [part for part in parts if part.views]
    acquired = [part for part in parts if part.acquisition]
    first = min(viewed, key=attrgetter("entry_ms"), default=_NOTHING)
    # Of equal times the last part has the greatest id.
    last = max(reversed(viewed), key=attrgetter("exit_ms"), default=_NOTHING)
    source = min(acquired, key=attrgetter("acquired_ms"), default=_NOTHING)
    return Visit(
        ordinal,
        min(part.begin_ms for part in parts),
        max(part.end_ms for part in parts),
        sum(part.views for part in parts),
        sum(part.events for part in parts),
        first.entry_ms,
        first.entry_page,
        last.exit_ms,
        last.exit_page,
        source.acquired_ms,
        source.acquisition,
    )


_NOTHING = Visit(0, 0, 0, 0, 0)


def belongs_to_visit(ts_ms: int, begin_ms: int, end_ms: int) -> bool:
    """Return whether an event at `ts_ms` belongs to the visit from `begin_ms` to `end_ms`, before or after it too."""
    return begin_ms - VISIT_GAP_MS <= ts_ms <= end_ms + VISIT_GAP_MS
