"""The encoding of columns (tally/columns/format.py): decoded is what was encoded, of one day and of many."""

import random

import numpy as np
import pytest

from tally.columns.format import Array, Column, decoded, decoded_days, decoded_texts, encoded, encoded_texts

LARGEST = (0, 1, 2, 3, 12, 15, 16, 255, 256, 65_535, 65_536, 1 << 32, (1 << 62) - 1)


def a_column(draw: random.Random, largest: int) -> Array:
    """Return numbers up to `largest` above some least one; many of them are equal, so that some columns compress."""
    rows, least = draw.choice((1, 7, 8, 9, 500)), draw.choice((0, 1, -5, 1 << 40, -(1 << 62)))
    some = [draw.randint(0, largest) for _ in range(draw.choice((1, 3, 300)))]
    return np.array([draw.choice(some) for _ in range(rows)], np.int64) + least


def rows_of(column: Column) -> list[int]:
    """Return the number of each row."""
    found: list[int] = (column.codes if column.values is None else column.values[column.codes]).tolist()
    return found


@pytest.mark.parametrize("has_values", [False, True])
@pytest.mark.parametrize("largest", LARGEST)
def test_a_column_is_decoded(largest: int, has_values: bool) -> None:
    draw = random.Random(largest)
    for is_of_visits in (False, True):
        for most in (0.0, 0.33, 2.0):
            column = a_column(draw, largest)
            found = decoded(encoded(column, is_of_visits, has_values, most))
            assert rows_of(found) == column.tolist()
            assert found.is_of_visits == is_of_visits
            assert (found.values is None) == (not has_values)


@pytest.mark.parametrize("has_values", [False, True])
def test_days_of_different_widths_are_decoded_together(has_values: bool) -> None:
    draw = random.Random(7)
    columns = [a_column(draw, draw.choice(LARGEST)) for _ in range(200)]
    # Positions of 16 and 32 bits.
    columns += [np.random.default_rng(7).permutation(distinct) * 3 for distinct in (255, 256, 300, 70_000)]
    are_of_visits = [draw.random() < 0.5 for _ in columns]
    contents = [
        encoded(column, is_of_visits, has_values, draw.choice((0.0, 0.33, 2.0)))
        for column, is_of_visits in zip(columns, are_of_visits, strict=True)
    ]
    found = decoded_days(contents)
    assert found.is_of_visits == are_of_visits
    assert found.sizes == [len(np.unique(column)) if has_values else 0 for column in columns]
    ends = np.cumsum(found.sizes)
    for column, codes, least, end, size in zip(columns, found.codes, found.least, ends, found.sizes, strict=True):
        own = found.values[end - size : end]
        part = Column(codes, own, False) if has_values else Column(codes + np.int64(least), None, False)
        assert rows_of(part) == column.tolist()


@pytest.mark.parametrize("distinct", [1, 2, 200, 400])
def test_a_column_of_another_length_than_its_header_says_is_refused(distinct: int) -> None:
    content = encoded(np.arange(400) % distinct, False, True, 0.0)
    for damaged in ([content[:-1]], [content, content + b"\0"], [content[:-1], content + b"\0"]):
        with pytest.raises(ValueError, match="bytes instead of"):
            decoded_days(damaged)


@pytest.mark.parametrize("some_without", [False, True])
@pytest.mark.parametrize("distinct", [1, 2, 15, 16, 255, 256, 300, 65_536])
def test_texts_of_rows_are_decoded(distinct: int, some_without: bool) -> None:
    draw = np.random.default_rng(distinct)
    codes = draw.permutation(np.concatenate([np.arange(distinct), draw.integers(0, distinct, 500)])) + 1
    if some_without:
        codes[::3] = 0
        codes = np.concatenate([codes, np.arange(distinct) + 1])
    texts = [f'{{"n":{number}}}' for number in range(distinct)]
    found, found_texts = decoded_texts(encoded_texts(codes, texts))
    assert (found.tolist(), found_texts) == (codes.tolist(), texts)


def test_rows_without_texts_are_decoded() -> None:
    found, texts = decoded_texts(encoded_texts(np.zeros(9, np.int64), []))
    assert (found.tolist(), texts) == ([0] * 9, [])
