"""tally/transfer/formats.py: an importer that exists only here is one class and one row."""

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from analytics_server import main
from tally.events.validation import Rejection
from tally.transfer.files import Source
from tally.transfer.formats import IMPORTERS, Importer
from tally.transfer.records import Record, Site, Skip, lines
from tests.support.app import ROOT


class TextLines:
    """Reads lines such as `2026-11-18T09:00:00Z ann /pricing`; comments are skipped."""

    def __init__(self, source: Source, site: Site) -> None:
        self._source, self._hostname = source, site.domain

    def records(self, start: int) -> Iterator[Record]:
        return lines(self._source, start)

    def read(self, value: bytes) -> Iterable[dict[str, Any] | Skip | Rejection]:
        if value.startswith(b"#"):
            return (Skip("comments"),)
        timestamp, visitor, pathname = value.decode().split()
        event = {"type": "pageview", "timestamp": timestamp, "visitor": visitor, "pathname": pathname}
        return (event | {"hostname": self._hostname, "id": timestamp},)


@pytest.mark.parametrize("name", IMPORTERS)
def test_the_page_and_the_docs_name_each_importer(name: str) -> None:
    page = (ROOT / "static" / "account" / "imports_card.js").read_text("utf-8")
    formats = page.partition("const FORMATS = {")[2].partition("}")[0]
    wanted = f"add {name} to FORMATS in static/account/imports_card.js, and its text to static/messages"
    assert re.search(rf'^  "?{name}"?: ', formats, re.MULTILINE), wanted
    assert f"`{name}`" in (ROOT / "docs" / "importing.md").read_text("utf-8"), f"add {name} to docs/importing.md"


def test_an_importer_is_one_class_and_one_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(IMPORTERS, "text", Importer(TextLines))
    times = ("2024-11-18T09:00:00Z", "2024-11-18T09:10:00Z", "2024-11-18T12:00:00Z")
    Path("events.txt").write_text("# time, visitor, page\n" + "".join(f"{time} ann /{time[11:13]}\n" for time in times))
    assert main(["website", "add", "example.com"]) == 0
    words = ["import", "events.txt", "--website", "example.com"]
    assert main(words) == 1, "it is not in Tally's own format"
    capsys.readouterr()
    for imported in ("3", "0"):  # the second time, the lines are duplicates
        assert main([*words, "--from", "text"]) == 0
        printed = capsys.readouterr()
        assert printed.out.strip() == imported
        assert "skipped: 1 comments" in printed.err
    assert main(["export", "example.com", "out.ndjson"]) == 0
    events = [json.loads(line) for line in Path("out.ndjson").read_text().splitlines()]
    assert [event["pathname"] for event in events] == ["/09", "/09", "/12"]
    assert [event["visit"].partition("-")[2] for event in events] == ["0", "0", "1"]
    with pytest.raises(SystemExit):
        main([*words, "--from", "unknown"])
    assert "'text'" in capsys.readouterr().err
