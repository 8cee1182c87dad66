"""A file that keeps only recent days, whose other days are in ClickHouse alone."""

import asyncio
import io
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tally.cluster import archive, join, settler, setup
from tally.cluster.engine import FollowEngine
from tally.cluster.servers import Servers
from tally.engine.archive import Row
from tally.settings import Settings
from tally.storage.cluster_tables import copy_of
from tally.storage.database import open_database
from tally.transfer.exporter import json_lines, write_export
from tests.cluster.engine import needs_clickhouse
from tests.cluster.test_follow import ClickHouse, clickhouse
from tests.support.aged_database import TODAY, built_database
from tests.support.app import App, ManualClock

pytestmark = needs_clickhouse
__all__ = ["clickhouse"]


async def written(exported: AsyncIterator[list[Row]]) -> bytes:
    """Return an export as lines of JSON."""
    out = io.BytesIO()
    write_export(out, json_lines, [batch async for batch in exported])
    return out.getvalue()


async def equal(app: App, servers: Servers, copy: int, days: range) -> None:
    """Compare what is exported from the file and from ClickHouse. Website and copy have the same number."""
    of_file = await written(app.running.archive.rows(copy, days))
    assert of_file.count(b"\n") > 200
    assert await written(archive.exported(servers.client, copy, 0, days)) == of_file


async def settled(app: App) -> None:
    with pytest.MonkeyPatch.context() as patch:
        # What is not read any more is deleted at once.
        patch.setattr(settler, "KEPT_S", 0)
        while await app.running.settler.work():
            pass


async def aged(db: Path, clickhouse: ClickHouse, patch: pytest.MonkeyPatch) -> None:
    # Most days have several pages.
    patch.setattr(archive, "_ROWS", 60)
    words: Any = {"clickhouse": (clickhouse.url,), "cluster_mode": "follow"}
    settings = Settings(db=db, **words)
    servers = Servers(settings.clickhouse, settings.cluster_name)
    with closing(open_database(db, create=False)) as connection:
        await setup.init(connection, settings, again=False)
        app = App(settings, ManualClock(), lambda node: FollowEngine(node))
        await app.open()
        copies = {}
        for website in (1, 2):
            await join.join(connection, settings, servers, website, lambda sent: None)
            copies[website] = copy_of(connection, website).copy
        await equal(app, servers, copies[2], range(TODAY - 14, TODAY - 8))
        await settled(app)
        await equal(app, servers, copies[1], archive.ALL_DAYS)
        await app.close()
    await servers.close()


def test_an_aged_file(tmp_path: Path, clickhouse: ClickHouse, monkeypatch: pytest.MonkeyPatch) -> None:
    asyncio.run(aged(built_database(tmp_path / "aged"), clickhouse, monkeypatch))
