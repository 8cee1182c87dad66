"""`export --format parquet`: the same events as the JSON lines, in row groups of bounded size."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tally.engine.archive import COLUMNS
from tally.transfer import parquet
from tests.support.process import Command

LINES: tuple[dict[str, Any], ...] = (
    {"type": "pageview", "pathname": "/", "visitor": "a", "utm_source": "news", "country": "DE", "browser": "Firefox"},
    {
        "type": "event",
        "pathname": "/ü",
        "visitor": "a",
        "event_name": "buy",
        "event_data": {"price": 1.5, "x": 900 * "é"},
    },
    {"type": "screen_view", "pathname": "/home", "visitor": "b", "platform": "ios"},
    {"type": "vitals", "pathname": "/", "vitals": {"lcp": 1234.5, "cls": 0.12}},
    {"type": "ab_assign", "pathname": "/", "visitor": "b", "experiment": "button", "variant": "red"},
    {
        "type": "ab_convert",
        "pathname": "/",
        "visitor": "b",
        "experiment": "button",
        "variant": "red",
        "goal": "order",
        "value": 9.75,
    },
)
COPIES = 500  # more rows than are read from the database at once


@pytest.fixture
def events(command: Command, tmp_path: Path) -> list[dict[str, Any]]:
    """Return the JSON lines of a website with COPIES times LINES."""
    file = tmp_path / "events.ndjson"
    with file.open("w") as out:
        for copy in range(COPIES):
            for at, line in enumerate(LINES):
                time = f"2026-11-{1 + copy % 20:02}T{copy // 20 % 24:02}:{copy % 60:02}:{at:02}.125Z"
                out.write(json.dumps(line | {"timestamp": time, "visitor": f"{line.get('visitor')}{copy}"}) + "\n")
    for words in (("website", "add", "example.com"), ("import", str(file), "--website", "example.com", "--strict")):
        done = command(*words)
        assert done.returncode == 0, done.stderr
    exported = command("export", "example.com", "-")
    lines = [json.loads(line) for line in exported.stdout.splitlines()]
    assert len(lines) == COPIES * len(LINES)
    return lines


def test_a_parquet_file_has_what_the_json_lines_have(
    events: list[dict[str, Any]], command: Command, tmp_path: Path
) -> None:
    import pyarrow.parquet  # type: ignore[import-untyped]

    file = tmp_path / "events.parquet"
    done = command("export", "example.com", str(file), "--format", "parquet")
    assert done.returncode == 0, done.stderr
    assert f"exported {len(events):,} events" in done.stderr
    table = pyarrow.parquet.read_table(file)
    assert tuple(table.column_names) == COLUMNS
    for row, line in zip(table.to_pylist(), events, strict=True):
        row["timestamp"] = row["timestamp"].timestamp()
        line["timestamp"] = datetime.fromisoformat(line["timestamp"]).timestamp()
        row["event_data"] = row["event_data"] and json.loads(row["event_data"])
        row["vitals"] = row["vitals"] and {name: value for name, value in row["vitals"].items() if value is not None}
        assert row == line


@pytest.mark.parametrize(("name", "limit"), [("MAX_ROWS", 2_000), ("MAX_BYTES", 100_000)])
def test_row_groups_are_bounded(name: str, limit: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are written once there are MAX_ROWS or MAX_BYTES of them, and all are in the file."""
    import pyarrow.parquet

    monkeypatch.setattr(parquet, name, limit)
    row = [None] * len(COLUMNS)
    row[COLUMNS.index("pathname")] = "/" * 100
    file = tmp_path / "events.parquet"
    with file.open("wb") as out, parquet.parquet(out) as write:
        for number in range(7):
            write([[number, *row[1:]]] * 1_000)
    found = pyarrow.parquet.ParquetFile(file)
    groups = [found.metadata.row_group(at).num_rows for at in range(found.num_row_groups)]
    assert groups == ([2_000, 2_000, 2_000, 1_000] if name == "MAX_ROWS" else [1_000] * 7)
    assert found.read().column("id").to_pylist() == [number for number in range(7) for _ in range(1_000)]


def test_a_website_without_events(command: Command, tmp_path: Path) -> None:
    import pyarrow.parquet

    assert command("website", "add", "example.com").returncode == 0
    assert command("export", "example.com", "none.parquet", "--format", "parquet").returncode == 0
    assert pyarrow.parquet.read_table(tmp_path / "none.parquet").num_rows == 0


def test_errors_name_the_fix_and_leave_no_file(command: Command, tmp_path: Path) -> None:
    assert command("website", "add", "example.com").returncode == 0
    folder = tmp_path / "without_pyarrow"
    folder.mkdir()
    (folder / "pyarrow.py").write_text("raise ImportError('not installed')\n")
    for file, env, message in (
        ("events.parquet", {"PYTHONPATH": str(folder)}, "pip install 'tally-analytics-server[parquet]'"),
        ("events.parquet.gz", {}, "choose a name without .gz"),
    ):
        done = command("export", "example.com", file, "--format", "parquet", env=env)
        assert (done.returncode, done.stdout) == (1, "")
        assert message in done.stderr
        assert "Traceback" not in done.stderr
        assert list(tmp_path.glob("events*")) == []
