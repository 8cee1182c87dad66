"""Mapping between texts and their ids in table label: repeated texts are stored once, 0 is the empty text.

Used by the writer's thread only, inside the transaction of a group: `numbers_of` returns the ids of all texts of the
group, from a bounded cache and otherwise with two statements per hundred texts. Ids created in a transaction stay in
the cache after `keep`, when it is committed; `undo` removes them, since the rows were rolled back.
"""

import sqlite3
from collections.abc import Collection, Mapping

# 20,000 texts of about 150 bytes are 3 MB, four websites of 5,000 paths.
CACHE_SIZE = 20_000
# Covers nearly every path and name; 20,000 texts of the maximum length would be 166 MB.
LONGEST_CACHED = 200
_AT_ONCE = 100


class Labels:
    """The cache of table label."""

    def __init__(self, most: int = CACHE_SIZE) -> None:
        self._most = most
        self._numbers: dict[str, int] = {"": 0}
        self._fresh: list[str] = []
        self.watched: set[int] = set()
        self._is_watched = False

    def numbers_of(self, connection: sqlite3.Connection, texts: Collection[str]) -> Mapping[str, int]:
        """Return a mapping with the id of each text; new texts are stored."""
        missing = [text for text in texts if text not in self._numbers]
        for start in range(0, len(missing), _AT_ONCE):
            some = missing[start : start + _AT_ONCE]
            self._note(some, _stored(connection, some))
        return self._numbers

    def find(self, connection: sqlite3.Connection, texts: Collection[str]) -> Mapping[str, int]:
        """Return a mapping with the ids of those texts that are stored; stores none."""
        missing = [text for text in texts if text not in self._numbers]
        for start in range(0, len(missing), _AT_ONCE):
            rows = _found(connection, missing[start : start + _AT_ONCE])
            self._note([text for text, _ in rows], rows)
        return self._numbers

    def _note(self, texts: Collection[str], rows: Collection[tuple[str, int]]) -> None:
        self._fresh += texts
        self._numbers.update(rows)
        if self._is_watched:
            self.watched.update(number for _, number in rows)

    def keep(self) -> None:
        """Keep the new ids: the transaction is committed."""
        for text in self._fresh:
            if len(text) > LONGEST_CACHED:
                del self._numbers[text]
        self._fresh.clear()
        if len(self._numbers) > self._most:
            # Clearing costs one lookup for each text in use, less than maintaining an order at every hit.
            self._numbers = {"": 0}

    def undo(self) -> None:
        """Remove the new ids: the transaction was rolled back."""
        for text in self._fresh:
            self._numbers.pop(text, None)
        self._fresh.clear()

    def watch(self) -> None:
        """Collect every id that is returned from now on in `watched`; clears the cache, so that each is looked up."""
        self._numbers, self.watched, self._is_watched = {"": 0}, set(), True

    def unwatch(self) -> None:
        """Stop collecting; may be called from any thread."""
        self.watched, self._is_watched = set(), False


def _stored(connection: sqlite3.Connection, texts: list[str]) -> list[tuple[str, int]]:
    rows = ", ".join(["(?)"] * len(texts))
    connection.execute(f"/* labels.add */ insert or ignore into label (text) values {rows}", texts)
    return _found(connection, texts)


def _found(connection: sqlite3.Connection, texts: list[str]) -> list[tuple[str, int]]:
    marks = ", ".join("?" * len(texts))
    return connection.execute(f"/* labels.find */ select text, id from label where text in ({marks})", texts).fetchall()
