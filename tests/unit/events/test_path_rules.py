"""Rules that replace paths (tally/events/path_rules.py)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tally.events.path_rules import checked
from tally.events.urls import MAX_PATH_CHARACTERS

PATHS = st.lists(st.sampled_from(("", "a", "b", "ab", "*", "a@b.c", "x%40y.z", "item")), min_size=1, max_size=5).map(
    lambda segments: "/" + "/".join(segments)
)


@pytest.mark.parametrize(
    ("pattern", "replacement", "path", "expected"),
    [
        ("/item/*", "/item/*", "/item/123", "/item/*"),
        ("/item/*", "/item/*", "/item/123/reviews", "/item/123/reviews"),
        ("/item/*", "/item/*", "/item/", "/item/"),
        ("/item/*", "/item/*", "/item", "/item"),
        ("/item/**", "/item", "/item/123/reviews", "/item"),
        ("/item/**", "/item", "/item/", "/item"),
        ("/item/**", "/item", "/item", "/item"),
        ("/item/*/reviews", "/reviews", "/item/1/reviews", "/reviews"),
        ("/item/p-*-x", "/item/p", "/item/p-1-x", "/item/p"),
        ("/item/p-*-x", "/item/p", "/item/p-x", "/item/p-x"),
        ("/old", "/new", "/old", "/new"),
        ("/old", "/new", "/older", "/older"),
        ("/a b", "/new", "/a%20b", "/new"),
        ("*@*.*", "*", "/user/ann@example.com/orders", "/user/*/orders"),
        ("*@*.*", "*", "/user/ann%40example.com", "/user/*"),
        ("*@*.*", "*", "/@ann/a.b", "/@ann/a.b"),
        ("*%40*.*", "*", "/user/ann@example.com", "/user/*"),
        ("*%40*.*", "*", "/user/ann%40example.com", "/user/*"),
        ("/user/ann%40example.com", "/user", "/user/ann%40example.com", "/user"),
        ("/user/*@*", "/user/*", "/user/ann%40example.com", "/user/*"),
        ("user-*", "user", "/user-1/x/user-2", "/user/x/user"),
        ("*@*.*", "*", "(other)", "(other)"),
        ("*@*.*", "*", "", ""),
    ],
)
def test_paths(pattern: str, replacement: str, path: str, expected: str) -> None:
    """`*` is any text within a segment, `**` the rest, and a segment may be replaced wherever it is."""
    assert checked(pattern, replacement).apply(path) == expected


@given(
    st.sampled_from((("/item/*", "/item/*"), ("/a/**", "/a/b"), ("*@*.*", "*"), ("a*", "ab"), ("/*/b", "/b/b"))), PATHS
)
def test_a_rule_changes_nothing_in_its_results(rule: tuple[str, str], path: str) -> None:
    """So that a step that is repeated changes nothing."""
    result = checked(*rule).apply(path)
    assert checked(*rule).apply(result) == result


def test_a_result_is_no_longer_than_a_stored_path() -> None:
    """A segment may become longer than it was."""
    path = "/a@b.c" * 1_000
    assert len(checked("*@*.*", "x" * 500).apply(path)) == MAX_PATH_CHARACTERS
