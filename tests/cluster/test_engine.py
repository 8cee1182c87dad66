"""The engine of these tests: what it sends to ClickHouse is there, whatever the server does meanwhile."""

from pathlib import Path

from tests.cluster.engine import clickhouse_engine, needs_clickhouse
from tests.support.read_api import sync_app_at

pytestmark = needs_clickhouse


def test_events_after_a_restart_are_not_taken_for_those_before(tmp_path: Path) -> None:
    """ClickHouse drops an insert whose token it knows: tokens must not begin again with each life of a server."""
    with sync_app_at(tmp_path / "analytics.db", clickhouse_engine) as app:
        for number in range(3):
            site = app.site()
            site.send({"type": "pageview", "url": f"https://example.com/{number}"})
            assert site.data("stats?from=2026-11-01&to=2026-11-30")["pageviews"] == 1, number
            app.run(app.app.restart())
