"""The report of rejected events: counts by day and error code, examples, and folded values.

Events that are stored without a field are not rejected: they are listed as warnings, and in CSV with their reason.

Events are counted by whole days of the requested time zone. An example has time, type, reason and which field; of a
foreign origin and of referrer spam the host, of a crawler the name. Nothing in it identifies a visitor. Error codes
belong to a reason each (tally/ingest/rejected_events.py), by which the page groups them.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import tzinfo
from functools import partial
from typing import Any

from tally.api import params
from tally.api.context import Answer, ReadApi, ReportRequest
from tally.api.traffic import buckets_of
from tally.ingest import rejected_events
from tally.ingest.rejected_events import REASONS, WARNINGS, RejectedExample
from tally.timeranges import Range
from tally.timestamps import iso

REJECTED_COLUMNS = ("time", "reason", "code", "events")
_REASON_OF = dict(REASONS)
_WITH_HOST = ("origin_not_allowed", "referrer_spam")


@dataclass(frozen=True, slots=True)
class RejectedParameters:
    """Of rejected events, which are counted by whole days and have no fields to filter by."""

    range: Range = params.day_range()


async def rejected(api: ReadApi, request: ReportRequest[RejectedParameters]) -> Answer:
    """Return sum, reasons (most events first), days in order, and examples (newest first)."""
    span = request.parameters.range
    series = buckets_of(span, "day", field="from")
    spans = [(day.from_ms, day.to_ms) for day in series]
    read = partial(rejected_events.rejected, website=request.website.number, days=spans)
    counted = await api.node.database.read(read, request.requester.is_gone, request.requester.claim)
    days = [(bucket.time, counts) for bucket, counts in zip(series, counted.days, strict=True)]
    sums: Counter[str] = Counter()
    for _, counts in days:
        sums.update(counts)
    ranked = [(code, sums[code]) for code in sorted(sums, key=lambda code: (-sums[code], code))]
    reasons = [_named(code) | {"events": events} for code, events in ranked if code not in WARNINGS]
    data = {
        "events": sum(reason["events"] for reason in reasons),
        "reasons": reasons,
        "warnings": [{"code": code, "events": events} for code, events in ranked if code in WARNINGS],
        "days": [_day(time, counts) for time, counts in days],
        "samples": [_example(entry, span.tz) for entry in counted.examples],
        "folded": [entry._asdict() for entry in counted.folded],
    }
    rows = ((time, _REASON_OF[code], code, events) for time, counts in days for code, events in counts.items())
    return Answer(request.meta(), rows, data)


def _day(time: str, counts: Mapping[str, int]) -> dict[str, Any]:
    rejected = {code: events for code, events in counts.items() if code not in WARNINGS}
    return {"time": time, "events": sum(rejected.values()), "codes": rejected}


def _named(code: str) -> dict[str, Any]:
    return {"reason": _REASON_OF[code], "code": code}


def _example(example: RejectedExample, tz: tzinfo) -> dict[str, Any]:
    return {
        "time": iso(example.time_ms, tz),
        **_named(example.code),
        "type": example.type,
        "field": example.field or None,
        "host": example.detail or None if example.code in _WITH_HOST else None,
        "crawler": example.detail or None if example.code == "crawler" else None,
    }
