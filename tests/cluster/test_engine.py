"""The engine of these tests: what it sends to ClickHouse is there, whatever the server does meanwhile."""

import asyncio
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tally.clickhouse.client import Client
from tally.cluster import setup
from tally.cluster.shipper import CannotFollow
from tally.engine.values import SERVER, Claim
from tally.errors import QUERY_TIMEOUT, ApiError
from tally.settings import Settings
from tests.cluster.engine import clickhouse_engine, front, needs_clickhouse
from tests.cluster.test_follow import Gate
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


def test_clocks_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(clickhouse=(front(),), cluster_name="checked")
    assert len(asyncio.run(setup.check(settings))) == 1
    monkeypatch.setattr(time, "time", lambda now_s=time.time: now_s() + 100)
    with pytest.raises(CannotFollow, match="seconds apart"):
        asyncio.run(setup.check(settings))


def test_the_right_to_delete_is_checked() -> None:
    """Without it nothing would expire."""
    gate = Gate(SimpleNamespace(url=front()))  # type: ignore[arg-type]
    handing: Any = gate.RequestHandlerClass

    def refuse(handler: Any) -> None:
        if "query=alter" not in handler.path:
            handing.do_POST(handler)
            return
        handler.rfile.read(int(handler.headers["Content-Length"] or 0))
        handler.send_response(403)
        handler.send_header("X-ClickHouse-Exception-Code", "497")
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    gate.RequestHandlerClass = type("Refusing", (handing,), {"do_POST": refuse})
    with pytest.raises(CannotFollow, match="code 497"):
        asyncio.run(setup.check(Settings(clickhouse=(gate.url,), cluster_name="rights")))
    gate.shutdown()
    gate.server_close()


def test_an_answer_to_a_person_is_bounded() -> None:
    """Clients choose how many values event_data has, and so how long an answer is. What the server asks is whole."""

    async def ask(claim: Claim) -> int:
        client = Client(front(), "default")
        try:
            rows = await client.rows("select repeat(toString(number % 10), 1000) from numbers(70000)", {}, claim=claim)
            return len(rows)
        finally:
            await client.close()

    assert asyncio.run(ask(SERVER)) == 70_000
    with pytest.raises(ApiError) as refused:
        asyncio.run(ask(Claim(True, 0)))
    assert refused.value.kind == QUERY_TIMEOUT
