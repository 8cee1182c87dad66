"""The part of meta about imported sums (tally/rollups/imported_sums.py): which days of a range have them, and why
some do not count.

Sums count in figures of whole local days, without filters and goals. A website without sums costs nothing here.
"""

from collections.abc import Sequence
from typing import Any

from tally.api.context import ReadApi, ReportRequest
from tally.engine.values import ImportedDays, Scope
from tally.events.website import Website
from tally.timeranges import whole_days
from tally.timestamps import DAY_MS, iso

FILTERS, GOAL, INTERVAL, PART_OF_DAY = "filters", "goal", "interval", "part_of_day"
"""Why sums do not count: a filter or segment, a goal, buckets of less than a day, or the range has a part of a day."""


def with_sums(website: Website, scope: Scope, tz: Any) -> Scope:
    """Return a scope in which the sums of its whole local days count."""
    if not website.has_sums:
        return scope
    return scope._replace(whole_days=whole_days(scope.from_ms, scope.to_ms, tz))


async def imported_meta(
    api: ReadApi,
    request: ReportRequest[Any],
    scope: Scope,
    fields: Sequence[str],
    reason: str = "",
    name: str = "imported",
) -> dict[str, Any]:
    """Return the part of meta about the sums of a scope as `name`; {} where it has none.

    reason: why they do not count, if it is neither filters nor the ends of the range.
    """
    if not request.website.has_sums:
        return {}
    imported = await api.reports.imported_days(scope, fields, request.requester)
    if imported is None:
        return {}
    counted = sum(last - first + 1 for first, last in imported.counted)
    about: dict[str, Any] = {
        "days": imported.days,
        "counted_days": counted,
        "ranges": [{"from": _date(first), "to": _date(last)} for first, last in imported.counted],
        "fields": imported.by_field,
        "missing": _missing(imported),
    }
    if counted < imported.days:
        about["excluded_by"] = FILTERS if scope.filters else reason or PART_OF_DAY
    return {name: about}


def _missing(imported: ImportedDays) -> list[str]:
    return ["visit_duration" if name == "duration_ms" else name for name in imported.missing]


def _date(day: int) -> str:
    return iso(day * DAY_MS)[:10]
