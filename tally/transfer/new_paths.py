"""The paths that a rule gives to stored pages, as labels (tally/events/path_rules.py).

Rows have the label of a path, so that a rule is applied to each different path once, and rows are compared by numbers.
A step of tally/transfer/event_deletion.py reads the paths of its rows alone: a website may have a million of them.
"""

import sqlite3
from collections.abc import Iterable

from tally.events.dimensions import field_number
from tally.events.path_rules import PathRule
from tally.storage import value_limits
from tally.storage.labels import Labels
from tally.storage.sql import events as statements


class NewPaths:
    """The new labels of pages of a website. A label is looked up once; new ones are stored in the caller's
    transaction, also as values that the website has used."""

    def __init__(self, connection: sqlite3.Connection, website: int, rule: PathRule) -> None:
        self._connection, self._website, self._rule = connection, website, rule
        self._labels = Labels()
        self._known: dict[int, int] = {}
        # Whether any page has got another path.
        self.is_used = False

    def of(self, pages: Iterable[int]) -> dict[int, int]:
        """Return the new label of each of some pages that gets another path."""
        wanted = set(pages)
        missing = wanted - self._known.keys()
        if missing:
            self._known |= {page: page for page in missing}
            texts = self._connection.execute(*statements.texts(sorted(missing)))
            changed = {page: new for page, text in texts if (new := self._rule.apply(text)) != text}
            numbers = self._labels.numbers_of(self._connection, set(changed.values()))
            self._known |= {page: numbers[text] for page, text in changed.items()}
            field = field_number("pathname")
            used = {(self._website, field, numbers[text]) for text in changed.values()}
            value_limits.add_values(self._connection, sorted(used))
        renamed = {page: self._known[page] for page in wanted if self._known[page] != page}
        self.is_used = self.is_used or bool(renamed)
        return renamed
