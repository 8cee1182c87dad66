"""The reports of a server that is followed by ClickHouse: each is answered by ClickHouse where that is certain to be
right and by SQLite otherwise, with the same figures.

ClickHouse answers about a website that has a complete copy there, about days whose events are kept, once it has every
batch that was committed before the question. Where figures begin before those days, SQLite answers up to there, and
both are added up: no visitor and no visit is of two days. Whether the copy is still the website's is read before the
question and after the answer, since an import or the expiry of events may end it meanwhile; and after the answer,
whether ClickHouse still has what was shipped, since tables that were emptied meanwhile answer as well. What needs no
events, or is in memory, is always SQLite's.

Of days that ClickHouse alone has (tally/cluster/unloader.py), SQLite has totals: where ClickHouse does not answer,
these answer key figures and series without filters, and other questions have no answer for the time being.
"""

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from tally.accounts.websites import day_offset_ms
from tally.clickhouse.client import NoAnswer, Refused
from tally.clickhouse.reports import ClickHouseReports, Snapshot
from tally.cluster.servers import Servers
from tally.cluster.shipper import Shipper
from tally.engine.reports import EventReports
from tally.engine.values import BeyondRetention, Heatmap, Requester, Scope, TopQuery
from tally.errors import STORAGE_UNAVAILABLE, ApiError
from tally.sqlite.changes import Changes
from tally.sqlite.reports import SqliteReports
from tally.storage.cluster_tables import Copy, copy_of
from tally.storage.node_database import NodeDatabase
from tally.timestamps import DAY_MS

_RETRY_S = 10
# Events that a question cuts into visits: after `cluster join` no day is settled, and SQLite is faster meanwhile.
_MAX_UNSETTLED = 5_000_000
# Their answers are sums over days.
_ADDED_UP = frozenset(("stats", "goal_stats", "goals", "timeseries", "goal_timeseries", "overview"))
# SQLite answers them without events, or not at all.
_BY_TOTALS = frozenset(("stats", "timeseries", "overview", "heatmap", "heatmap_pages"))


class FollowReports:
    """The reports of a server with ClickHouse (`Reports`). Used by the event loop alone.

    Every method is one of SQLite's, or `_answer` with its name: what they do does not depend on the question.
    """

    def __init__(
        self, sqlite: SqliteReports, database: NodeDatabase, changes: Changes, shipper: Shipper, servers: Servers
    ) -> None:
        # Questions that each engine has answered.
        self.by_clickhouse = self.by_sqlite = 0
        self._sqlite, self._database, self._changes = sqlite, database, changes
        self._shipper, self._servers = shipper, servers

    def __getattr__(self, name: str) -> Any:
        asked = getattr(self._sqlite, name)
        return partial(self._answer, name) if hasattr(EventReports, name) else asked

    async def _answer(self, name: str, *asked: Any) -> Any:
        """Return the answer of ClickHouse, else that of SQLite, to a question: a method with its arguments."""
        requester = next(one for one in asked if isinstance(one, Requester))
        scopes, ranges = [*_scopes(asked)], [one for one in asked if isinstance(one, range)]
        website = scopes[0].website if scopes else asked[0]
        copy, offset_ms = await self._copy_of(website)
        last_id = self._changes.last_id
        if (
            copy is not None
            and copy.last_id <= last_id
            and all(scope.website == website for scope in scopes)
            and (bound_ms := _bound_ms(name, scopes, ranges, copy.from_day, offset_ms)) is not None
            and await self._shipper.has_all()
        ):
            client, number = self._servers.client, copy.copy
            max_unsettled = math.inf if copy.unloaded else _MAX_UNSETTLED
            clickhouse = ClickHouseReports(client, Snapshot(last_id, offset_ms, bool(copy.has_sums), max_unsettled))
            # Heatmaps have days in place of a scope, and the website before them.
            own = asked if scopes else (number, *asked[1:])
            try:
                await self._servers.sync(number)
                answer = await _ask(clickhouse, name, own, lambda scope: _later(scope, bound_ms, number))
                if any(scope.from_ms < bound_ms for scope in scopes):
                    early = await _ask(self._sqlite, name, asked, lambda scope: _earlier(scope, bound_ms))
                    answer = _sum(early, answer)
                if isinstance(answer, Heatmap):
                    # Texts are in the file alone: of no days it has nothing else.
                    page = (range(0) if isinstance(one, range) else one for one in asked)
                    answer = answer._replace(texts=(await self._of_sqlite(name, *page)).texts)
                is_whole = await self._shipper.is_whole(client)
            except (ApiError, Refused, NoAnswer):
                if requester.is_gone():
                    raise
            else:
                now, now_ms = await self._copy_of(website)
                if is_whole and now is not None and (_same(now), now_ms) == (_same(copy), offset_ms):
                    self.by_clickhouse += 1
                    return answer
        self.by_sqlite += 1
        if copy is None or not copy.unloaded:
            return await self._of_sqlite(name, *asked)
        return await self._by_totals(name, asked, scopes, copy, offset_ms)

    async def _of_sqlite(self, name: str, *asked: Any) -> Any:
        return await getattr(self._sqlite, name)(*asked)

    async def _by_totals(
        self, name: str, asked: Sequence[Any], scopes: Sequence[Scope], copy: Copy, offset_ms: int
    ) -> Any:
        """Return SQLite's answer about a website of which it lacks events. Raises ApiError 503, BeyondRetention."""
        bound_ms, own_ms = (day * DAY_MS - offset_ms for day in (copy.from_day, copy.own_day))
        is_ours = all(scope.from_ms >= bound_ms for scope in scopes)
        if is_ours and name not in _BY_TOTALS and any(scope.from_ms < own_ms for scope in scopes):
            raise ApiError(STORAGE_UNAVAILABLE, retry_after_s=_RETRY_S)
        try:
            return await self._of_sqlite(name, *asked)
        except BeyondRetention:
            if is_ours:
                raise ApiError(STORAGE_UNAVAILABLE, retry_after_s=_RETRY_S) from None
            raise BeyondRetention(bound_ms) from None

    async def _copy_of(self, website: int) -> tuple[Copy | None, int]:
        """Return the complete copy of a website, and what its time has more than UTC."""
        copy, offset_ms = await self._database.read(
            lambda connection: (copy_of(connection, website), day_offset_ms(connection, website))
        )
        return (copy if copy is not None and copy.is_complete else None), offset_ms


def _same(copy: Copy) -> Copy:
    """Return a copy without which days the file has as well: those that are unloaded or put back stay the same."""
    return copy._replace(own_day=0, held_ms=0)


def _scopes(values: Sequence[Any]) -> Iterator[Scope]:
    """Yield the scopes of a question, also those to compare with."""
    for one in values:
        if isinstance(one, Scope):
            yield one
        elif isinstance(one, TopQuery):
            yield from () if one.compare is None else (one.compare,)
        elif type(one) in (list, tuple):
            yield from _scopes(one)


async def _ask(engine: EventReports, name: str, asked: Sequence[Any], change: Callable[[Scope], Scope]) -> Any:
    """Return an engine's answer to a question whose scopes are changed."""
    return await getattr(engine, name)(*_changed(asked, change))


def _changed(value: Any, change: Callable[[Scope], Scope]) -> Any:
    """Return an argument with changed scopes."""
    if isinstance(value, Scope):
        return change(value)
    if isinstance(value, TopQuery):
        return value if value.compare is None else value._replace(compare=change(value.compare))
    return type(value)(_changed(one, change) for one in value) if type(value) in (list, tuple) else value


def _bound_ms(name: str, scopes: Sequence[Scope], ranges: Sequence[range], from_day: int, offset_ms: int) -> int | None:
    """Return from when on ClickHouse answers a question; None where SQLite answers all of it."""
    bound_ms = from_day * DAY_MS - offset_ms
    begins = [scope.from_ms for scope in scopes] + [days.start * DAY_MS - offset_ms for days in ranges]
    is_added_up = name in _ADDED_UP and any(scope.to_ms > bound_ms for scope in scopes)
    return bound_ms if is_added_up or min(begins, default=-sys.maxsize) >= bound_ms else None


def _earlier(scope: Scope, end_ms: int) -> Scope:
    return scope._replace(from_ms=min(scope.from_ms, end_ms), to_ms=min(scope.to_ms, end_ms))


def _later(scope: Scope, begin_ms: int, website: int) -> Scope:
    return scope._replace(website=website, from_ms=max(scope.from_ms, begin_ms), to_ms=max(scope.to_ms, begin_ms))


def _sum(first: Any, second: Any) -> Any:
    """Return two answers with their numbers added up."""
    if not isinstance(first, list | tuple):
        return first + second
    sums = map(_sum, first, second)
    return type(first)(*sums) if hasattr(first, "_fields") else [*sums]
