"""SIGKILL while events are deleted by filter, or their paths rewritten: it continues at the next start, and no other
event is changed."""

import json
from contextlib import closing
from pathlib import Path

import pytest

from tally.clock import Clock
from tally.events.filters import Filter
from tally.events.path_rules import PathRule
from tally.reports.deletion_preview import preview
from tally.storage.database import connect_reader, open_database, snapshot, transaction
from tally.timestamps import DAY_MS
from tally.transfer import event_deletion
from tests.support.ledgers import assert_empty, new_file, parts, rng_of
from tests.support.process import UNLIMITED, Command, Serve, until
from tests.support.rollup_database import table_errors

EVENTS, VISITORS = 12_000, 400
CHANGED = EVENTS // 3


@parts
@pytest.mark.parametrize("kind", ["delete", "rewrite"])
def test_sigkill_during_a_deletion_of_events(
    part: int, kind: str, serve: Serve, command: Command, tmp_path: Path
) -> None:
    """Three kills after random numbers of changed events; visits and totals are then those of the events that stay."""
    rng = rng_of(part, "kills during a deletion of events")
    db = tmp_path / "analytics.db"
    new_file(db)
    now_ms = Clock().wall_ms()
    with (tmp_path / "lines.ndjson").open("w") as file:
        for n in range(EVENTS):
            line = {"type": "pageview", "timestamp": now_ms - rng.randrange(20 * DAY_MS), "pathname": f"/{n % 3}"}
            file.write(json.dumps(line | {"visitor": f"{rng.randrange(VISITORS)}"}) + "\n")
    done = command("import", "lines.ndjson", "--website", "example.com", "--db", str(db))
    assert done.returncode == 0, done.stderr
    with closing(open_database(db, create=False)) as connection:
        with snapshot(connection):
            span = now_ms - 30 * DAY_MS, now_ms + DAY_MS
            filters = (Filter("pathname", "=", ("/1",)),) if kind == "delete" else ()
            rule = PathRule("/1", "/2") if kind == "rewrite" else None
            found = preview(connection, 1, span, filters, 1 << 40, rule)
        assert found.events == CHANGED
        with transaction(connection):
            event_deletion.begin(connection, 1, found.plan, found.events, now_ms)
    with closing(connect_reader(db)) as reader:

        def changed() -> int:
            return int(reader.execute("select changed from deletion").fetchone()[0])

        for _ in range(3):
            server, enough = serve(*UNLIMITED), changed() + rng.randrange(1, CHANGED // 4)
            until(lambda: changed() >= enough, 120)  # noqa: B023
            server.kill()
        assert changed() < CHANGED, "a deletion that was killed"
        server = serve(*UNLIMITED)
        until(lambda: reader.execute("select state from deletion").fetchone() == ("done",), 120)
        until(lambda: not reader.execute("select 1 from rollup_state where state = 0").fetchone(), 120)
        assert changed() == CHANGED
        assert server.terminate() == 0
        assert "ERROR" not in server.stderr()
        assert_empty(table_errors(reader, 1))
        pages = "select sum(pageviews) from total_15m"
        left = EVENTS - CHANGED * (kind == "delete")
        assert reader.execute(pages).fetchone() == (left,)
        with snapshot(reader):
            assert preview(reader, 1, span, (Filter("pathname", "=", ("/2",)),), 1 << 40).events == left - EVENTS // 3
            assert preview(reader, 1, span, (Filter("pathname", "=", ("/1",)),), 1 << 40).events == 0
        assert reader.execute("pragma integrity_check").fetchall() == [("ok",)]
