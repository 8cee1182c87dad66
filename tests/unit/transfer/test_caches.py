"""What an import keeps in memory: results for short texts, and values that it has recorded as used."""

import pytest

from tally.storage import value_limits
from tally.transfer import values
from tally.transfer.import_writer import UsedValues
from tally.transfer.line_format import LineReader
from tests.support.app import NOON_MS


def test_results_of_short_texts_are_kept() -> None:
    calls: list[tuple[str, ...]] = []

    @values.cached
    def joined(*texts: str) -> str:
        calls.append(texts)
        return "".join(texts)

    long = "x" * 1_000
    for _ in range(3):
        assert joined("a", "b") == "ab"
        assert joined("a", long) == f"a{long}"
    assert calls.count(("a", "b")) == 1
    assert calls.count(("a", long)) == 3


def test_values_are_recorded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(value_limits, "CACHE_SIZE", 3)
    used, long = UsedValues(), "x" * 1_000
    assert sorted(used.new({1: {"", "a", long}, 2: {"a"}})) == [(1, "a"), (1, long), (2, "a")]
    # Long ones are not kept, and neither is anything once there are too many.
    assert used.new({1: {"a", long, ""}, 2: {"a"}}) == [(1, long)]
    assert sorted(used.new({1: {"b", "c"}})) == [(1, "b"), (1, "c")]
    assert used.new({1: {"a"}}) == [(1, "a")]


@pytest.mark.parametrize("length", [5, 1_000])
def test_visitors_and_referrers_of_any_length(length: int) -> None:
    """The same text is the same visitor on one day only; a referrer is the same each time."""
    reader, who, referrer = LineReader(b"salt", 1, NOON_MS, "example.com"), "v" * length, f"a.org/{'p' * length}"
    day_ms = 86_400_000
    lines = [
        reader.line(1, {"type": "pageview", "pathname": "/", "timestamp": NOON_MS - ms, "visitor": who}
                    | {"referrer": referrer})
        for ms in (0, 1, day_ms, 0, day_ms)
    ]  # fmt: skip
    found = [(line.visitor, line.texts[1]) for line in lines]  # type: ignore[union-attr]
    assert found[0] == found[1] == found[3]
    assert found[2] == found[4] != found[0]
    assert {referrer for _, referrer in found} == {"a.org"}
