"""The rule that divides a visitor's traffic events into visits, and the record of a visit.

A visit is a maximal run of one visitor's traffic events of one UTC day without a gap over 30 minutes. It is a function
of the set of their times: the order of arrival does not change it. `belongs_to_visit` is the only place of the rule.
It is used where events arrive one by one (tally/events/sessions.py) and where many are imported at once
(tally/transfer/visit_merge.py).
"""

from typing import NamedTuple

# The contract, "Words": a gap of exactly 30:00.000 joins.
VISIT_GAP_MS = 30 * 60 * 1000


class Visit(NamedTuple):
    """One visit of a visitor's day; times in milliseconds since 1970.

    `page` is the pathname of its latest view, as a label, at `view_ms`; both mean nothing where `views` is 0.
    """

    ordinal: int
    begin_ms: int
    end_ms: int
    views: int
    events: int
    view_ms: int = 0
    page: int = 0


def belongs_to_visit(ts_ms: int, begin_ms: int, end_ms: int) -> bool:
    """Return whether an event at `ts_ms` belongs to the visit from `begin_ms` to `end_ms`; extends it if outside."""
    return begin_ms - VISIT_GAP_MS <= ts_ms <= end_ms + VISIT_GAP_MS
