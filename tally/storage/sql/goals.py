"""SQL for goals: the values of conversions, which are in event_data.

A column of a day has each different text of event_data once (tally/columns/format.py), so that SQLite reads the
property in each of these texts, and numpy adds up the values of events (tally/reports/day_columns.py).
"""

from tally.storage.sql.filters import Query


def values_of_texts(texts: str, name: str) -> Query:
    """A row (value) for each text of event_data, or null, of a JSON array: that of a property, a number or a text.

    The value is null where a text has none, or one of another type.
    """
    return (
        "/* goals.values_of_texts */ select (select iif(own.type in ('integer', 'real', 'text'), own.value, null)"
        " from json_each(coalesce(given.value, '{}')) as own where own.key = ?) from json_each(?) as given",
        [name, texts],
    )
