"""Commands on a file of whose websites ClickHouse alone has some days."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

from tally.storage import cluster_tables
from tests.support.process import Command

# Nothing listens there.
CLICKHOUSE = {"ANALYTICS_CLICKHOUSE": "http://127.0.0.1:9"}


def test_a_website_with_all_its_days_needs_no_clickhouse(here: Command, tmp_path: Path) -> None:
    event = {"type": "pageview", "timestamp": "2026-01-02T03:04:05Z", "pathname": "/", "visitor": "a", "visit": "a-1"}
    lines = tmp_path / "lines.ndjson"
    lines.write_text(json.dumps(event) + "\n")
    for domain in ("unloaded.example", "whole.example"):
        here("website", "add", domain)
        assert here("import", str(lines), "--website", domain).returncode == 0
    with closing(sqlite3.connect(tmp_path / "analytics.db")) as file:
        file.executescript(cluster_tables.SCRIPT)
        file.execute(
            "insert into cluster_copy (website, state, day_offset_minutes, from_day, own_day)"
            " select number, 'joined', day_offset_minutes, 20450, 20456 from website where number = 1"
        )
        file.execute("insert into cluster_day values (1, 20450, 20456, 1, x'00')")
        file.commit()
    for env in ({}, CLICKHOUSE):
        for words in (("export", "{}.example", str(tmp_path / "{}.ndjson")), ("verify", "{}.example")):
            whole, unloaded = (here(*(word.format(name) for word in words), env=env) for name in ("whole", "unloaded"))
            assert (whole.returncode, whole.stderr.count("ClickHouse")) == (0, 0), whole.stderr
            assert unloaded.returncode == 1
            assert "ClickHouse" in unloaded.stderr
        exported = tmp_path / "whole.ndjson"
        assert json.loads(exported.read_text())["pathname"] == "/"
        exported.unlink()
        assert not (tmp_path / "unloaded.ndjson").exists()
