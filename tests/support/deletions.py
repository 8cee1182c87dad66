"""Deletions of events by filter, without HTTP."""

import sqlite3
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from tally.api.params import parse_filters
from tally.events.filters import Filter
from tally.events.path_rules import PathRule
from tally.reports.deletion_preview import DeletionPreview, preview
from tally.storage.meta import ids_end
from tally.transfer import event_deletion
from tests.support.app import NOON_MS, App

Run = Callable[[Coroutine[Any, Any, Any]], Any]


def filters_of(written: Sequence[str]) -> tuple[Filter, ...]:
    """Return filters that are written as in a query."""
    return parse_filters(written)


def last_id(connection: sqlite3.Connection) -> int:
    """Return the greatest id that events may have."""
    return ids_end(connection) - 1


def delete_events(
    app: App,
    run: Run,
    website: int,
    filters: tuple[Filter, ...],
    span: tuple[int, int],
    rule: PathRule | None = None,
) -> DeletionPreview:
    """Delete events, or rewrite their paths, with the background work of a server; return what the preview said."""

    def read(connection: sqlite3.Connection) -> DeletionPreview:
        return preview(connection, website, span, filters, last_id(connection), rule)

    found: DeletionPreview = run(app.node.database.read(read))
    run(app.admin(lambda connection: event_deletion.begin(connection, website, found.plan, found.events, NOON_MS)))
    run(remove_events(app))
    return found


async def remove_events(app: App) -> None:
    """Do all steps of the deletions that run."""
    while turns := await app.background_work.removal.turns():
        for turn in turns:
            while await turn.step():
                pass
