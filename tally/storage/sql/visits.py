"""SQL for entry and exit pages, which are columns of table visit.

As in tally/storage/sql/events.py, whose Scope and filters these are. A visit has both pages in its row, so a list of
them groups visits and reads no event, unless a filter is about events.
"""

from tally.engine.values import Scope
from tally.events.dimensions import PAGES
from tally.storage.sql.events import IS_BOUNCE, begun_visits
from tally.storage.sql.filters import Query


def pages(scope: Scope, field: str) -> Query:
    """A row (label, visits, bounces, their views, ms, visitors, events) for each page, by label, that is the entry_page
    or exit_page of the visits that begin in a scope, within a UTC day, and have an event in E; 0 is none: visits
    without a view.
    """
    column = PAGES[PAGES.index(field)]
    select = f"{column}, count(*), sum({IS_BOUNCE}), sum(pageviews), sum(duration_ms)"
    select += ", count(distinct visitor), sum(events)"
    sql, parameters = begun_visits(scope, select)
    return f"/* visits.pages */ {sql} group by 1 order by 1", parameters
