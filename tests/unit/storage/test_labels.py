"""Text <-> small integer (tally/storage/labels.py)."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from tally.storage.database import open_database
from tally.storage.labels import Labels

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


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    opened = open_database(tmp_path / "analytics.db", create=True)
    yield opened
    opened.close()


def stored(connection: sqlite3.Connection) -> dict[str, int]:
    return dict(connection.execute("select text, id from label"))


def test_a_number_for_each_text(connection: sqlite3.Connection) -> None:
    """Strings that repeat are stored once, as they are: case, blanks and composition tell them apart."""
    numbers = Labels().numbers_of(connection, TEXTS)
    assert len({numbers[text] for text in TEXTS}) == len(TEXTS)
    assert stored(connection) == {"": 0} | {text: numbers[text] for text in TEXTS}


def test_unset_is_zero(connection: sqlite3.Connection) -> None:
    """0 is unset, and is the empty text."""
    assert Labels().numbers_of(connection, ["", "a"])[""] == 0
    assert stored(connection)[""] == 0


@pytest.mark.parametrize("count", [1, 2, 99, 100, 101, 250, 1_000])
def test_many_at_once(connection: sqlite3.Connection, count: int) -> None:
    """However many are asked for at once, known ones and new ones mixed."""
    labels = Labels()
    texts = {f"/page/{n}" for n in range(count)}
    some = {text for text in texts if text.endswith("0")}
    before = {text: labels.numbers_of(connection, some)[text] for text in some}
    numbers = labels.numbers_of(connection, texts)
    assert {text: numbers[text] for text in some} == before
    assert len({numbers[text] for text in texts}) == count
    assert stored(connection) == {"": 0} | {text: numbers[text] for text in texts}


def test_the_same_number_in_another_process(connection: sqlite3.Connection) -> None:
    """The file keeps the numbers; the cache is one of several."""
    first = dict(Labels().numbers_of(connection, TEXTS))
    second = Labels().numbers_of(connection, ["new", *reversed(TEXTS)])
    assert {text: second[text] for text in TEXTS} == {text: first[text] for text in TEXTS}
    assert second["new"] not in first.values()


def test_undone_numbers_point_nowhere(connection: sqlite3.Connection) -> None:
    """The transaction failed: what it stored is gone, so the cache must not know it."""
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
    assert stored(connection) == {"": 0} | {text: numbers[text] for text in ("kept", "lost", "lost too", "other")}


def test_undo_after_keep_is_nothing(connection: sqlite3.Connection) -> None:
    """What was committed stays known and stays stored."""
    labels = Labels()
    number = labels.numbers_of(connection, ["a"])["a"]
    labels.keep()
    labels.undo()
    assert labels.numbers_of(connection, ["a"])["a"] == number
    assert stored(connection) == {"": 0, "a": number}


def test_a_small_cache_gives_the_same_numbers(connection: sqlite3.Connection) -> None:
    """The cache is bounded; what it forgot is looked up again."""
    labels, seen = Labels(most=5), {}
    for round_ in range(3):
        for start in range(0, 40, 8):
            texts = [f"/page/{n}" for n in range(start, start + 8)]
            numbers = labels.numbers_of(connection, texts)
            for text in texts:
                assert seen.setdefault(text, numbers[text]) == numbers[text], round_
            labels.keep()
    assert stored(connection) == {"": 0} | seen
