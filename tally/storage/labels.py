"""Text <-> small integer. Strings that repeat are stored once; rows hold their number, 0 is unset.

Used by the writer's thread alone, inside the transaction of a group: `numbers_of` answers for all texts of the group at
once, from a bounded cache and for the rest in two statements a hundred texts. Numbers made in a transaction stay in
the cache by `keep`, when it is committed: `undo` takes them out, since an undone number points nowhere.
"""

import sqlite3
from collections.abc import Collection, Mapping

# our choice: 20,000 texts of about 150 bytes are 3 MB; a website of 5,000 paths fits four times.
CACHE_SIZE = 20_000
# our choice: nearly every path and name; 20,000 of the longest ones, 8,192 characters, would be 166 MB.
LONGEST_CACHED = 200
_AT_ONCE = 100


class Labels:
    """The cache over table label."""

    def __init__(self, most: int = CACHE_SIZE) -> None:
        self._most = most
        self._numbers: dict[str, int] = {"": 0}
        self._fresh: list[str] = []
        self.watched: set[int] = set()
        self._is_watched = False

    def numbers_of(self, connection: sqlite3.Connection, texts: Collection[str]) -> Mapping[str, int]:
        """A mapping that has a number for each of `texts`, stored where it was not yet."""
        missing = [text for text in texts if text not in self._numbers]
        for start in range(0, len(missing), _AT_ONCE):
            some = missing[start : start + _AT_ONCE]
            self._note(some, _stored(connection, some))
        return self._numbers

    def find(self, connection: sqlite3.Connection, texts: Collection[str]) -> Mapping[str, int]:
        """Return a mapping that has a number for those of `texts` that have one; creates none."""
        missing = [text for text in texts if text not in self._numbers]
        for start in range(0, len(missing), _AT_ONCE):
            found = _found(connection, missing[start : start + _AT_ONCE])
            self._note([text for text, _ in found], found)
        return self._numbers

    def _note(self, texts: Collection[str], found: Collection[tuple[str, int]]) -> None:
        self._fresh += texts
        self._numbers.update(found)
        if self._is_watched:
            self.watched.update(number for _, number in found)

    def keep(self) -> None:
        """The transaction is committed."""
        for text in self._fresh:
            if len(text) > LONGEST_CACHED:
                del self._numbers[text]
        self._fresh.clear()
        if len(self._numbers) > self._most:
            # Starting over costs one lookup for each text still in use; cheaper than keeping an order at every hit.
            self._numbers = {"": 0}

    def undo(self) -> None:
        """The transaction failed."""
        for text in self._fresh:
            self._numbers.pop(text, None)
        self._fresh.clear()

    def watch(self) -> None:
        """From now on `watched` has every number that is given: the cache starts over, so each is looked up once."""
        self._numbers, self.watched, self._is_watched = {"": 0}, set(), True

    def unwatch(self) -> None:
        """Notes no more; from any thread."""
        self.watched, self._is_watched = set(), False


def _stored(connection: sqlite3.Connection, texts: list[str]) -> list[tuple[str, int]]:
    rows = ", ".join(["(?)"] * len(texts))
    connection.execute(f"/* labels.add */ insert or ignore into label (text) values {rows}", texts)
    return _found(connection, texts)


def _found(connection: sqlite3.Connection, texts: list[str]) -> list[tuple[str, int]]:
    marks = ", ".join("?" * len(texts))
    return connection.execute(f"/* labels.find */ select text, id from label where text in ({marks})", texts).fetchall()
