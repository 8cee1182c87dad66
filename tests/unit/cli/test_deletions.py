"""The commands delete-events and rewrite-paths (docs/deleting-events.md)."""

import contextlib
import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from analytics_server import main
from tally.timestamps import DAY_MS
from tests.support.app import NOON_MS
from tests.support.imports import Imports
from tests.support.read_api import sync_app_at

RANGE = ("--from", "2026-11-01", "--to", "2026-11-18")


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Imports]:
    with sync_app_at(tmp_path / "analytics.db") as sync_app:
        own = Imports(sync_app, sync_app.site(), tmp_path)
        lines = [{"type": "pageview", "timestamp": NOON_MS - n * DAY_MS, "pathname": f"/{n % 2}"} for n in range(7)]
        own.take("tally", "".join(json.dumps(line) + "\n" for line in lines))
        yield own


def command(imports: Imports, *words: str) -> tuple[int, str]:
    """Run the command; return its status and what it prints on standard error."""
    errors = io.StringIO()
    with contextlib.redirect_stderr(errors):
        status = main(["delete-events", "--website", imports.site.id, "--db", str(imports.db), *RANGE, *words])
    return status, errors.getvalue()


def test_events_are_deleted_after_a_question(own: Imports) -> None:
    """Without a terminal the answer is --yes."""
    status, printed = command(own, "--filter", "pathname=/0")
    assert status == 1
    assert "matching: 4 events on 4 days; 4 visits deleted, 0 visits changed" in printed
    assert "pathname: /0" in printed
    assert own.sql("select count(*) from deletion") == [(0,)]
    status, printed = command(own, "--filter", "pathname=/0", "--yes")
    assert (status, printed.splitlines()[-1]) == (0, "deleted 4 events")
    assert own.sql("select count(*) from event") == [(3,)]
    assert own.sql("select state, events, changed from deletion") == [("done", 4, 4)]
    assert own.sql("select via, action from audit where action = 'events_deleted'") == [("cli", "events_deleted")]
    status, printed = command(own, "--filter", "pathname=/0", "--yes")
    assert (status, printed.splitlines()[-1]) == (0, "nothing to delete")


def rewrite(imports: Imports, *words: str) -> tuple[int, str]:
    """Run rewrite-paths; return its status and what it prints on standard error."""
    errors = io.StringIO()
    with contextlib.redirect_stderr(errors):
        status = main(["rewrite-paths", "--website", imports.site.id, "--db", str(imports.db), *words])
    return status, errors.getvalue()


def test_paths_are_rewritten_after_a_question(own: Imports) -> None:
    """Of all days, without a range."""
    rule = "--pattern", "/*", "--replacement", "/*"
    status, printed = rewrite(own, *rule, "--from", "2026-11-12", "--to", "2026-11-18")
    assert status == 1
    assert "matching: 7 events on 7 days; 2 paths rewritten" in printed
    assert "/0 -> /*" in printed
    assert "Nothing was rewritten: give --yes." in printed
    status, printed = rewrite(own, *rule, "--yes")
    assert (status, printed.splitlines()[-1]) == (0, "rewritten 7 events")
    pages = "select text, count(*) from event join label on label.id = pathname group by 1"
    assert own.sql(pages) == [("/*", 7)]
    assert own.sql("select kind, state, changed, rule from deletion") == [("rewrite", "done", 7, '["/*","/*"]')]
    assert own.sql("select action from audit where via = 'cli' and action = 'paths_rewritten'") == [
        ("paths_rewritten",)
    ]
    status, printed = rewrite(own, *rule, "--yes")
    assert (status, printed.splitlines()[-1]) == (0, "nothing to rewrite")


def test_a_wrong_rule_is_named(own: Imports) -> None:
    """Exit status 2, as wrong usage."""
    status, printed = rewrite(own, "--pattern", "/a/**/b", "--replacement", "/a")
    assert status == 2
    assert "--pattern may have ** as its last segment alone." in printed


def test_a_wrong_filter_is_named(own: Imports) -> None:
    """Exit status 2, as wrong usage."""
    status, printed = command(own, "--filter", "pathnam=/0")
    assert status == 2
    assert "did you mean pathname?" in printed
