"""SQL for web vitals and experiments.

As in tally/storage/sql/events.py, whose Scope and filters these are: pure functions that return (sql, parameters),
every name from a table, every value a parameter. Filters of web vitals are decided in columns
(tally/reports/measurement_columns.py).
"""

from collections.abc import Sequence
from typing import NamedTuple

import orjson

from tally.engine.values import Scope
from tally.events.validation import AB_ASSIGN, AB_CONVERT
from tally.storage.sql.events import NO_TRAFFIC, filters_of
from tally.storage.sql.filters import Query


def labels(texts: Sequence[str]) -> Query:
    """The label of each text that is stored."""
    marks = ", ".join("?" * len(texts))
    return f"/* measurements.labels */ select id from label where text in ({marks})", list(texts)


def trial_days(website: int, first: int, end: int) -> Query:
    """The days in [first, end) that have counts, and null behind them."""
    next_day = "select min(day) from experiment_total where website = ? and day"
    return (
        f"/* measurements.trial_days */ with recursive found (day) as ({next_day} >= ? and day < ?"
        f" union all select ({next_day} > found.day and day < ?) from found where day is not null)"
        " select day from found",
        [website, first, end, website, end],
    )


def trials(website: int, days: Sequence[int]) -> Query:
    """(day, experiment, variant, converted, goal, visitors) of some days, as labels; for Trials.

    Days one by one: so some experiments of each are found by the key, which a range of days does not allow.
    """
    return (
        "select day, experiment, variant, converted, goal, visitors"
        " from experiment_total where website = ? and day in (select value from json_each(?))",
        [website, orjson.dumps(days).decode()],
    )


def trials_of(scope: Scope) -> Query:
    """The same of a scope, from raw rows; filters are about the assignment."""
    sql, parameters = filters_of(scope, NO_TRAFFIC)
    span = [scope.website, scope.from_ms, scope.to_ms]
    return (
        "with arm as materialized (select distinct ts / 86400000 as day, experiment, visitor"
        f" from experiment_event where website = ? and ts >= ? and ts < ? and type = {AB_ASSIGN} and variant > 0{sql}),"
        " done as materialized (select distinct ts / 86400000 as day, experiment, visitor, goal"
        f" from experiment_event where website = ? and ts >= ? and ts < ? and type = {AB_CONVERT}),"
        " counted as (select day, experiment, variant, 0 as converted, 0 as goal"
        " from arm cross join experiment_assignment"
        " using (day, experiment, visitor) where website = ?"
        # Not as a join with arm: SQLite reads that once for each row of done.
        " union all select day, experiment, variant, 1, goal from done cross join experiment_assignment"
        " using (day, experiment, visitor) where website = ?"
        " and (day, experiment, visitor) in (select day, experiment, visitor from arm))"
        " select day, experiment, variant, converted, goal, count(*) as visitors from counted"
        " group by day, experiment, variant, converted, goal",
        [*span, *parameters, *span, scope.website, scope.website],
    )


CREATE_GIVEN = (
    "/* measurements.create_given */ create temp table if not exists given_trial"
    " (part, day, experiment, variant, converted, goal, visitors)"
)
"""A table of such rows that are known, for `given_trials`."""


def given_trials(part: int) -> Query:
    """The same of a part of the table."""
    return "select day, experiment, variant, converted, goal, visitors from temp.given_trial where part = ?", [part]


def number_of_trials(website: int, days: Sequence[int], most: int) -> Query:
    """One number: the rows of `trials`, counted up to `most`."""
    sql, parameters = trials(website, days)
    return f"/* measurements.number_of_trials */ select count(*) from ({sql} limit ?)", [*parameters, most]


class Trials(NamedTuple):
    """Counts of several parts of a range, as `trials` and `trials_of` give them; perhaps of some pairs alone.

    `kept`: (experiment, 0, variant) and (experiment, 1, goal), of which a row needs both that it has.
    """

    parts: Sequence[Query]
    kept: Sequence[tuple[int, int, int]] | None = None

    def _rows(self) -> Query:
        sql = " union all ".join(f"select * from ({part})" for part, _ in self.parts)
        parameters = [value for _, values in self.parts for value in values]
        if self.kept is None:
            return f"({sql})", parameters
        return (
            f"(with kept as materialized (select value ->> 0, value ->> 1, value ->> 2 from json_each(?)) select * from"
            f" ({sql}) where experiment in (select value from json_each(?))"
            " and (experiment, 0, variant) in kept and (not converted or (experiment, 1, goal) in kept))",
            [orjson.dumps(self.kept).decode(), *parameters, orjson.dumps(list({row[0] for row in self.kept})).decode()],
        )

    def counts(self, limit: int) -> Query:
        """Up to so many of the rows; all of them where the limit is negative."""
        rows, parameters = self._rows()
        return (
            f"/* measurements.counts */ select day, experiment, variant, converted, goal, visitors from {rows} limit ?",
            [*parameters, limit],
        )

    def experiments(self, limit: int) -> Query:
        """(experiment, number of experiments) of those with the most visitors, in that order, then by name."""
        rows, parameters = self._rows()
        return (
            # By day first, in the order of the key: all rows at once would be sorted.
            "/* measurements.experiments */ select experiment, count(*) over () from (select experiment,"
            f" sum(iif(converted, 0, visitors)) as visitors from {rows} group by day, experiment) group by experiment"
            " order by sum(visitors) desc, (select text from label where id = experiment) limit ?",
            [*parameters, limit],
        )

    def most_of_each(self, experiments: Sequence[int], converted: bool, limit: int) -> Query:
        """(experiment, variant, number of variants) of each experiment's variants with the most visitors; or goals."""
        rows, parameters = self._rows()
        name, count = ("goal", "visitors") if converted else ("variant", "iif(converted, 0, visitors)")
        return (
            f"/* measurements.most_of_each */ select experiment, {name}, total from (select experiment, {name},"
            " count(*) over (partition by experiment) as total, row_number() over (partition by experiment"
            f" order by sum({count}) desc, (select text from label where id = {name})) as place from {rows}"
            f" where experiment in (select value from json_each(?)){' and converted' * converted}"
            f" group by experiment, {name}) where place <= ?",
            [*parameters, orjson.dumps(experiments).decode(), limit],
        )

    def sizes(self) -> Query:
        """(experiment, rows)."""
        rows, parameters = self._rows()
        return f"/* measurements.sizes */ select experiment, count(*) from {rows} group by experiment", parameters
