"""tally/storage/labels.py: texts stored once, as small integers."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from tally.storage.labels import Labels
from tests.support.app import new_database

TEXTS = [
    "/",
    "/pricing",
    "/Pricing",
    "/pricing ",
    " /pricing",
    "/pricing/",
    "caf\u00e9",
    "cafe\u0301",
    "\U0001f600",
    "'; drop table label; --",
    "%",
    "_",
    "0",
    "null",
    "a" * 8_192,
]
FIRST = {"": 0, "Direct": 1}
"""What a new file has: the unset text, and the channel of visits without an acquisition."""


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    opened = new_database(tmp_path / "analytics.db")
    yield opened
    opened.close()


def stored(connection: sqlite3.Connection) -> dict[str, int]:
    return dict(connection.execute("select text, id from label"))


def test_each_text_has_its_own_number(connection: sqlite3.Connection) -> None:
    """Each text is stored once, unchanged: texts that differ in case, blanks or composition have different numbers."""
    numbers = Labels().numbers_of(connection, TEXTS)
    assert len({numbers[text] for text in TEXTS}) == len(TEXTS)
    assert stored(connection) == FIRST | {text: numbers[text] for text in TEXTS}


def test_unset_is_zero(connection: sqlite3.Connection) -> None:
    """0 is unset and stands for the empty text."""
    assert Labels().numbers_of(connection, ["", "a"])[""] == 0
    assert stored(connection)[""] == 0


@pytest.mark.parametrize("count", [1, 2, 99, 100, 101, 250, 1_000])
def test_many_texts_at_once(connection: sqlite3.Connection, count: int) -> None:
    """Any number of texts in one call, known and new ones mixed."""
    labels = Labels()
    texts = {f"/page/{n}" for n in range(count)}
    known = {text for text in texts if text.endswith("0")}
    before = {text: labels.numbers_of(connection, known)[text] for text in known}
    numbers = labels.numbers_of(connection, texts)
    assert {text: numbers[text] for text in known} == before
    assert len({numbers[text] for text in texts}) == count
    assert stored(connection) == FIRST | {text: numbers[text] for text in texts}


def test_the_same_number_in_another_process(connection: sqlite3.Connection) -> None:
    """The numbers are stored in the database; each process has a cache of its own."""
    first = dict(Labels().numbers_of(connection, TEXTS))
    second = Labels().numbers_of(connection, ["new", *reversed(TEXTS)])
    assert {text: second[text] for text in TEXTS} == {text: first[text] for text in TEXTS}
    assert second["new"] not in first.values()


def test_numbers_of_a_rolled_back_transaction_are_discarded(connection: sqlite3.Connection) -> None:
    """After a rollback the cache does not contain the numbers of the failed transaction."""
    labels = Labels()
    kept = labels.numbers_of(connection, ["kept"])["kept"]
    labels.keep()
    connection.execute("begin immediate")
    labels.numbers_of(connection, ["kept", "lost", "lost too"])
    connection.execute("rollback")
    labels.undo()
    other = Labels().numbers_of(connection, ["other"])["other"]
    numbers = labels.numbers_of(connection, ["kept", "lost", "lost too", "other"])
    assert (numbers["kept"], numbers["other"]) == (kept, other)
    assert stored(connection) == FIRST | {text: numbers[text] for text in ("kept", "lost", "lost too", "other")}


def test_undo_after_keep_changes_nothing(connection: sqlite3.Connection) -> None:
    """Committed labels stay cached and stored."""
    labels = Labels()
    number = labels.numbers_of(connection, ["a"])["a"]
    labels.keep()
    labels.undo()
    assert labels.numbers_of(connection, ["a"])["a"] == number
    assert stored(connection) == FIRST | {"a": number}


def test_a_small_cache_gives_the_same_numbers(connection: sqlite3.Connection) -> None:
    """The cache is bounded; labels it no longer contains are read from the database."""
    labels, expected = Labels(most=5), {}
    for round_ in range(3):
        for start in range(0, 40, 8):
            texts = [f"/page/{n}" for n in range(start, start + 8)]
            numbers = labels.numbers_of(connection, texts)
            for text in texts:
                assert expected.setdefault(text, numbers[text]) == numbers[text], round_
            labels.keep()
    assert stored(connection) == FIRST | expected
