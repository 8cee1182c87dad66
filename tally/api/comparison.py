"""Reports about two ranges: the requested one, and the one that `compare` names.

`compared` runs a report for both, and says in `meta` which ranges were counted and which imported sums count in each.
Where events of a part of the other range have expired, the whole of it is compared.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from tally.api.context import Answer, ReadApi, ReportRequest
from tally.api.imported import GOAL, imported_meta, with_sums
from tally.api.params import Comparison
from tally.engine.values import BeyondRetention, Scope
from tally.timestamps import iso

T = TypeVar("T")


def other(request: ReportRequest[Any], compare: Comparison) -> tuple[dict[str, Any], Scope]:
    """Return the part of meta about the range to compare with, and its scope."""
    tz = request.parameters.range.tz
    meta: dict[str, Any] = {
        "compare": compare.kind,
        "previous_from": iso(compare.from_ms, tz),
        "previous_to": iso(compare.to_ms, tz),
    }
    if compare.match_weekday:
        meta["match_weekday"] = True
    return meta, request.scope._replace(from_ms=compare.from_ms, to_ms=compare.to_ms)


def counting_sums(request: ReportRequest[Any], scope: Scope) -> Scope:
    """Return a scope in which imported sums count, unless the conversions of a goal are requested."""
    if getattr(request.parameters, "goal", None) is not None:
        return scope
    return with_sums(request.website, scope, request.parameters.range.tz)


async def compared(
    api: ReadApi,
    request: ReportRequest[Any],
    fields: Sequence[str],
    compute: Callable[[Scope, Scope | None], Awaitable[T]],
) -> tuple[dict[str, Any], T]:
    """Return the part of meta about the ranges, and what `compute` returns for the scope and the one to compare with.

    fields: what is counted, for the part about imported sums; none where sums do not count. A part of a range may need
    events that are no longer kept, where the whole does not. Then the whole is compared.
    """
    compare = request.parameters.compare

    def counted(scope: Scope) -> Scope:
        return counting_sums(request, scope) if fields else scope

    async def of_sums(scope: Scope, name: str = "imported") -> dict[str, Any]:
        reason = GOAL if getattr(request.parameters, "goal", None) else ""
        return await imported_meta(api, request, scope, fields, reason, name) if fields else {}

    counted_scope = counted(request.scope)
    of_imports = await of_sums(counted_scope)
    if compare is None:
        return of_imports, await compute(counted_scope, None)
    meta, scope = other(request, compare)
    try:
        content = await compute(counted_scope, counted(scope))
    except BeyondRetention:
        if compare.to_ms == compare.whole_to_ms:
            raise
        meta, scope = other(request, compare._replace(to_ms=compare.whole_to_ms))
        content = await compute(counted_scope, counted(scope))
    return of_imports | meta | await of_sums(counted(scope), name="previous_imported"), content


def beside(
    meta: dict[str, Any],
    columns: Sequence[str],
    names: Sequence[str],
    rows: Sequence[Sequence[Any]],
    before: Sequence[Sequence[Any]] | None,
) -> Answer:
    """Return rows of columns with, as `previous`, the figures of the rows of the other range; without where it is None.

    names: the columns that say what a row is about; the others are figures. before: a row for each of `rows`.
    """
    if before is None:
        return Answer(meta, rows, columns=columns)
    places = [place for place, column in enumerate(columns) if column not in names]
    older = [[row[place] for place in places] for row in before]
    figures = [columns[place] for place in places]
    data = [
        dict(zip(columns, row, strict=True)) | {"previous": dict(zip(figures, previous, strict=True))}
        for row, previous in zip(rows, older, strict=True)
    ]
    table = [(*row, *previous) for row, previous in zip(rows, older, strict=True)]
    return Answer(meta, table, data, (*columns, *(f"previous_{name}" for name in figures)))
