"""The reports of a server that is followed by ClickHouse: each is answered by ClickHouse where that is certain to be
right and by SQLite otherwise, with the same figures.

ClickHouse answers about a website that has a complete copy there, about days whose events are kept, once it has every
batch that was committed before the question. Whether the copy is still the website's is read before the question and
after the answer, since an import or the expiry of events may end it meanwhile. What needs no events, or is in memory,
is always SQLite's.
"""

from collections.abc import Hashable, Iterator, Sequence
from functools import partial
from typing import Any

from tally.accounts.websites import day_offset_ms
from tally.clickhouse.reports import ClickHouseReports, NotWritten
from tally.cluster.servers import Servers
from tally.cluster.shipper import Shipper
from tally.engine.values import Requester, Scope, TopQuery
from tally.errors import ApiError
from tally.sqlite.changes import Changes
from tally.sqlite.reports import SqliteReports
from tally.storage.cluster_tables import Copy, copy_of
from tally.storage.node_database import NodeDatabase
from tally.timestamps import DAY_MS

_OF_SQLITE = frozenset(
    ("version", "refresh", "traffic", "first_event_ms", "imported_days", "page_titles", "realtime", "cache")
)


class CopyFacts:
    """What ClickHouse's reports need to know of a copy, for one question (`Confirmed`)."""

    def __init__(self, sqlite: SqliteReports, website: int, offset_ms: int, last_id: int) -> None:
        self._sqlite, self._website, self._offset_ms, self._last_id = sqlite, website, offset_ms, last_id

    def version(self, website: int) -> Hashable:
        """Return the version of the copy's website."""
        return self._sqlite.version(self._website)

    def offset_ms(self, website: int) -> int:
        """Return what the time of the website has more than UTC."""
        return self._offset_ms

    def is_complete(self, website: int) -> bool:
        """Return True: a question that needs what ClickHouse lacks is SQLite's (`FollowReports`)."""
        return True

    async def refresh(self) -> None:
        """Do nothing: SQLite's reports are refreshed."""

    async def last_id(self) -> int:
        """Return the last id that was committed before the question: ClickHouse has it."""
        return self._last_id

    async def page_titles(self, website: int, pages: Sequence[str], requester: Requester) -> dict[str, str]:
        """Return the titles of pages."""
        return await self._sqlite.page_titles(self._website, pages, requester)

    async def heatmap_texts(
        self, website: int, pathname: str, widths: Sequence[str], requester: Requester
    ) -> Sequence[tuple[int, int, str]]:
        """Return the texts of clicked elements."""
        return (await self._sqlite.heatmap(self._website, pathname, range(0), widths, requester)).texts


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
        return asked if name in _OF_SQLITE else partial(self._answer, name)

    async def _answer(self, name: str, *asked: Any, **more: Any) -> Any:
        """Return the answer of ClickHouse, else that of SQLite, to a question: a method with its arguments."""
        values = [*asked, *more.values()]
        requester = next(one for one in values if isinstance(one, Requester))
        scopes = [*_scopes(values)]
        website = scopes[0].website if scopes else asked[0]
        copy, offset_ms = await self._copy_of(website)
        last_id = self._changes.last_id
        begins = [(scope.from_ms + offset_ms) // DAY_MS for scope in scopes]
        begins += [one.start for one in values if isinstance(one, range)]
        if (
            copy is not None
            and copy.last_id <= last_id
            and min(begins, default=-1) >= copy.from_day
            and all(scope.website == website for scope in scopes)
            and await self._shipper.has_all()
        ):
            facts = CopyFacts(self._sqlite, website, offset_ms, last_id)
            ask = getattr(ClickHouseReports(self._servers.client, facts), name)
            own = [_of_copy(one, copy.copy) for one in asked]
            # Heatmaps have days in place of a scope, and the website before them.
            own = own if scopes else [copy.copy, *own[1:]]
            try:
                found = await ask(*own, **{key: _of_copy(one, copy.copy) for key, one in more.items()})
            except (ApiError, NotWritten):
                if requester.is_gone():
                    raise
            else:
                if await self._copy_of(website) == (copy, offset_ms):
                    self.by_clickhouse += 1
                    return found
        self.by_sqlite += 1
        return await getattr(self._sqlite, name)(*asked, **more)

    async def _copy_of(self, website: int) -> tuple[Copy | None, int]:
        """Return the complete copy of a website, and what its time has more than UTC."""
        copy, offset_ms = await self._database.read(
            lambda connection: (copy_of(connection, website), day_offset_ms(connection, website))
        )
        return (copy if copy is not None and copy.state == "joined" else None), offset_ms


def _scopes(values: Sequence[Any]) -> Iterator[Scope]:
    """Yield the scopes of a question, also those to compare with."""
    for one in values:
        if isinstance(one, Scope):
            yield one
        elif isinstance(one, TopQuery):
            yield from () if one.compare is None else (one.compare,)
        elif type(one) in (list, tuple):
            yield from _scopes(one)


def _of_copy(value: Any, copy: int) -> Any:
    """Return an argument with the number of a copy in place of the website's."""
    if isinstance(value, Scope):
        return value._replace(website=copy)
    if isinstance(value, TopQuery):
        return value if value.compare is None else value._replace(compare=_of_copy(value.compare, copy))
    return type(value)(_of_copy(one, copy) for one in value) if type(value) in (list, tuple) else value
