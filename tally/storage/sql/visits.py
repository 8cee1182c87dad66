"""SQL for entry and exit pages, which are columns of table visit.

As in tally/storage/sql/events.py, whose Scope and filters these are. A visit has both pages in its row, so a list of
them groups visits and reads no event, unless a filter is about events.
"""

from tally.storage.sql.events import IS_BOUNCE, Scope, begun_visits
from tally.storage.sql.filters import Query

SIDES = ("entry", "exit")


def pages(scope: Scope, side: str, part: tuple[int, int]) -> Query:
    """A row (label, visits, bounces, their views, ms, visitors, events) for each page that is a side of the visits that
    begin in a scope, within a UTC day, and have an event in E; 0 is none: visits without a view.

    `part`: only the labels with this remainder, by this divisor.
    """
    column = f"{SIDES[SIDES.index(side)]}_page"
    select = f"{column}, count(*), sum({IS_BOUNCE}), sum(pageviews), sum(duration_ms)"
    select += ", count(distinct visitor), sum(events)"
    sql, parameters = begun_visits(scope, select)
    remainder, divisor = part
    if divisor > 1:
        sql, parameters = f"{sql} and {column} % ? = ?", [*parameters, divisor, remainder]
    return f"/* visits.pages */ {sql} group by 1", parameters
