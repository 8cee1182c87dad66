"""tally/rollups/value_blocks.py: arrays of counts, and their sums over blocks, against plain counting."""

import random
import sqlite3
import tracemalloc
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from tally.columns.format import Array
from tally.events.dimensions import ENTRY_PAGE
from tally.rollups import value_blocks
from tally.rollups.value_blocks import CHUNK, add_chunks, chunks_of, decoded, encoded
from tests.support.app import new_database
from tests.support.cases import cases

FIELD, OTHER_FIELD = 0, 3


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    opened = new_database(tmp_path / "analytics.db")
    yield opened
    opened.close()


def array(*rows: Sequence[int]) -> Array:
    """Return an array of rows (value, visitors, pageviews, events)."""
    return np.array(rows, np.int64).T


def some_counts(rng: random.Random, values: int, below: int) -> Array:
    """Return counts of some values below a number, few of them large."""
    labels = sorted(rng.sample(range(below), values))
    return array(*((label, *(int(rng.paretovariate(0.7)) for _ in range(3))) for label in labels))


def write(connection: sqlite3.Connection, level: int, block: int, counts: Array, field: int = FIELD) -> None:
    add_chunks(connection, 1, level, block, chunks_of(field, counts))


def plain_sums(blocks: Sequence[Array]) -> list[tuple[int, ...]]:
    """Return what value_blocks.sums adds up, counted one by one."""
    counts: dict[int, list[int]] = {}
    for block in blocks:
        for value, *figures in zip(*block.tolist(), strict=True):
            counts[value] = [
                own + more for own, more in zip(counts.get(value, [0] * len(figures)), figures, strict=True)
            ]
    return sorted((value, *figures) for value, figures in counts.items())


@cases(
    ("counts", "size"),
    [
        # A byte for each number, none where all of them are 0; 4 bytes before them.
        (array((0, 1, 1, 0)), 4 + 3),
        (array((7, 0, 0, 0)), 4 + 1),
        (array((1 << 40, 255, 256, 1 << 16)), 4 + 1 + 1 + 2 + 4),
        (array((5, 1, 1, 0), (260, 2, 255, 0), (515, 3, 3, 0)), 4 + 3 * 3),
        (array((5, 1, 1, 0), (261, 2, 255, 0)), 4 + 2 * 4),
        (array((5, 1, 2, 3), (5 + 0x123456789ABC, 4, 5, 6)), 4 + 2 * (8 + 3)),
    ],
)
def test_chunks(counts: Array, size: int) -> None:
    """Each row of an array takes the narrowest width, and comes back exactly."""
    content = encoded(counts)
    assert len(content) == size
    assert decoded(FIELD, int(counts[0, 0]), content).tolist() == counts.tolist()


def test_chunks_of_pages() -> None:
    """They have six figures, each with a width of its own."""
    counts = array((5, 1, 0, 256, 1 << 40, 1, 0))
    content = encoded(counts)
    assert len(content) == 7 + 1 + 1 + 2 + 8 + 1
    assert decoded(ENTRY_PAGE, 5, content).tolist() == counts.tolist()


def test_chunks_are_compressed() -> None:
    counts = array(*((value, 1, 1, 1) for value in range(CHUNK)))
    content = encoded(counts)
    assert len(content) < CHUNK
    assert np.array_equal(decoded(FIELD, 0, content), counts)


def test_any_counts_come_back() -> None:
    rng = random.Random(1)
    for _ in range(200):
        values = rng.randrange(1, 2 * CHUNK)
        counts = some_counts(rng, values, rng.choice((values, 3 * values, 1 << 20, 1 << 40)))
        chunks = chunks_of(FIELD, counts)
        assert [len(decoded(FIELD, first, content)[0]) for _, first, content in chunks[:-1]] == [CHUNK] * (
            len(chunks) - 1
        )
        joined = np.concatenate([decoded(FIELD, first, content) for _, first, content in chunks], axis=1)
        assert np.array_equal(joined, counts)


@cases("content", [b"", b"\1\1\1", b"\1\1\1\1", b"\0\1\0\0\5", b"\3\1\1\1" + bytes(6), b"\1\1\1\1\1\1\1"])
def test_damaged_chunks_are_refused(content: bytes) -> None:
    with pytest.raises(sqlite3.DatabaseError, match="damaged") as raised:
        decoded(FIELD, 0, content)
    assert raised.value.sqlite_errorcode == sqlite3.SQLITE_CORRUPT


@pytest.mark.parametrize("most", [1, 100, 60_000])
def test_sums(connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """Of blocks of several levels, whose values are the same, others or none, however few values are held."""
    monkeypatch.setattr(value_blocks, "_MAX_HELD", most)
    rng = random.Random(most)
    blocks = {
        (5, 5): some_counts(rng, 900, 1_000),
        (5, 4): some_counts(rng, 3, 1_000),
        (0, 5): some_counts(rng, 700, 5_000) + np.array([[2_000], [0], [0], [0]]),
        (5, 0): some_counts(rng, 1_200, 1 << 33),
    }
    for place, counts in blocks.items():
        write(connection, *place, counts)
        write(connection, *place, counts, OTHER_FIELD)
    write(connection, 5, 6, array((1, 1, 1, 1)))
    found = list(value_blocks.sums(connection, 1, FIELD, [*blocks, (5, 7)]))
    rows = [row for counts in found for row in zip(*counts.tolist(), strict=True)]
    assert rows == plain_sums(list(blocks.values()))
    assert (len(found) > 1) == (most < 60_000)
    assert list(value_blocks.sums(connection, 1, FIELD, [(5, 7)])) == []
    assert list(value_blocks.sums(connection, 2, FIELD, [*blocks])) == []


def test_sums_of_very_many_values_are_not_held(connection: sqlite3.Connection) -> None:
    """Six blocks of 100,000 values would take 19 MB."""
    counts = np.ones((4, 100_000), np.int64)
    counts[0] = np.arange(100_000)
    for block in range(6):
        write(connection, 5, block, counts)
    tracemalloc.start()
    values = sum(len(part[0]) for part in value_blocks.sums(connection, 1, FIELD, [(5, block) for block in range(6)]))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert values == 100_000
    assert peak < 12_000_000
