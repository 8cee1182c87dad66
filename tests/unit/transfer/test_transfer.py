"""Export and import: lines of a file, the tables after each commit of an import, and equal results over HTTP.

The format is described in docs/importing.md, Format.
"""

import asyncio
import contextlib
import gzip
import io
import itertools
import json
import os
import random
import re
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analytics_server import main
from tally.accounts.accounts import create_account
from tally.accounts.api_keys import key_salt
from tally.accounts.websites import add_website
from tally.api.events import EVENT_COLUMNS
from tally.engine.archive import COLUMNS, Line
from tally.events.dimensions import FIELDS
from tally.events.validation import FieldWarning, Rejection
from tally.events.visits import Visit
from tally.maintenance.verify import verdicts
from tally.rollups import rollup_state
from tally.storage.database import connect_reader, open_database, transaction
from tally.transfer.chunks import Sizes
from tally.transfer.exporter import count_events
from tally.transfer.files import MAX_LINE_BYTES, BadFile, _line_lists, open_source, open_target
from tally.transfer.formats import IMPORTERS, TallyLines
from tally.transfer.importer import Summary, import_events
from tally.transfer.line_format import LineReader
from tally.transfer.visit_merge import News, cut
from tests.support.app import NOON_MS, ROOT, App, MakeApp, new_database
from tests.support.cases import cases
from tests.support.exports import export_events
from tests.support.imports import Imports
from tests.support.process import Command, Serve, clean_environment, until
from tests.support.read_api import DAY, custom, event, view
from tests.support.selection import examples

MINUTE = 60_000
DAY_MS = 86_400_000
MIDNIGHT_MS = NOON_MS - NOON_MS % DAY_MS
SALT = b"salt" * 4
WEBSITE = 1
SMALL = Sizes(chunk_lines=7, part_lines=3)


class Taken(NamedTuple):
    """The lines of a file: imported, duplicates and invalid ones."""

    accepted: int
    duplicates: int
    bad: int


def taken(summary: Summary) -> Taken:
    assert summary.sums == 0
    return Taken(*summary[:3])


def line_with(**fields: Any) -> dict[str, Any]:
    """Return a valid pageview of NOON with other fields or values."""
    return {"type": "pageview", "timestamp": NOON_MS, "pathname": "/", "visitor": "ann"} | fields


def read(item: Any, website: int = WEBSITE, now_ms: int = NOON_MS) -> Any:
    if isinstance(item, bytes):
        items = TallyLines.read(item)
        if not items or isinstance(items[0], Rejection):
            return items[0] if items else None
        (item,) = items
    return LineReader(SALT, website, now_ms).line(1, item)


# --- a line


def test_the_keys_of_a_line_are_those_of_events_and_visitor() -> None:
    assert (*EVENT_COLUMNS, "visitor") == COLUMNS


def test_values_of_a_line_are_kept() -> None:
    texts = {name: f"{name} of it" for name in FIELDS} | {"referrer": "example.org"}
    line = read(
        line_with(type="event", id=7, event_name="signup", event_data={"a": 1, "b": None}, visit="x", more=[], **texts)
    )
    assert line[:3] == (1, NOON_MS, 2)
    # The channel follows from the other texts.
    assert line.texts == (*(texts | {"pathname": "pathname%20of%20it", "channel": "Other"}).values(), "signup")
    assert line.rest == ('{"a":1,"b":null}',)


@pytest.mark.parametrize("value", [None, ""], ids=["null", "empty"])
def test_null_and_empty_values_are_absent(value: Any) -> None:
    absent = dict.fromkeys((*FIELDS, "event_name", "id", "visitor"), value)
    line = read({"type": "app_event", "timestamp": NOON_MS} | absent)
    texts = {**dict.fromkeys(FIELDS, ""), "channel": "Direct", "event_name": ""}
    assert (line.texts, line.key, line.row, line.is_named) == (tuple(texts.values()), None, None, False)


@cases(
    ("timestamp", "ms"),
    [
        (0, 0),
        (NOON_MS, NOON_MS),
        (float(NOON_MS), NOON_MS),
        ("1970-01-01", 0),
        ("2026-11-18T12:00:00.000+00:00", NOON_MS),
        ("2026-11-18T12:00:00.000Z", NOON_MS),
        ("2026-11-18T13:30:00.5+01:30", NOON_MS + 500),
        ("2026-11-18 11:59:59.999+00:00", NOON_MS - 1),
        ("2026-11-18T12:00", NOON_MS),
        (NOON_MS + 5 * MINUTE, NOON_MS),
        ("2026-11-18T12:05:00.000Z", NOON_MS),
    ],
    ids=str,
)
def test_times_up_to_now_are_accepted(timestamp: Any, ms: int) -> None:
    """Any time up to now is accepted; a time up to 5 minutes ahead is stored as now."""
    assert read(line_with(timestamp=timestamp), now_ms=max(NOON_MS, min(ms, NOON_MS + 500))).ts_ms == ms


# orjson reads deeper nesting than it writes.
DEEP = json.loads("[" * 300 + "]" * 300)
BAD_LINES: dict[str, tuple[Any, str, str]] = {
    "no JSON": (b"{", "invalid_json", ""),
    "not UTF-8": (b'{"type": "pageview", "pathname": "\xff"}', "invalid_json", ""),
    "NaN": (b'{"type": "ab_convert", "value": NaN}', "invalid_json", ""),
    "no object": ([], "invalid_type", "type"),
    "no type": ({}, "invalid_type", "type"),
    "an unknown type": (line_with(type="click"), "invalid_type", "type"),
    "a heatmap": (line_with(type="heatmap", points=[]), "invalid_type", "type"),
    "no time": (line_with(timestamp=None), "missing_field", "timestamp"),
    "not a time": (line_with(timestamp="noon"), "invalid_field", "timestamp"),
    "a 61st second": (line_with(timestamp="2026-11-17T12:00:60.000Z"), "invalid_field", "timestamp"),
    "a 60th minute": (line_with(timestamp="2026-11-17T12:60:00.000Z"), "invalid_field", "timestamp"),
    "other digits": (line_with(timestamp="2026-11-17T12:0\u0661:00.000Z"), "invalid_field", "timestamp"),
    "a day that does not exist": (line_with(timestamp="2026-02-30T12:00:00.000Z"), "invalid_field", "timestamp"),
    "a list for a time": (line_with(timestamp=[]), "invalid_field", "timestamp"),
    "before 1970": (line_with(timestamp=-1), "timestamp_too_old", "timestamp"),
    "ahead": (line_with(timestamp=NOON_MS + 5 * MINUTE + 1), "timestamp_in_future", "timestamp"),
    "a pageview without a path": (line_with(pathname=""), "missing_field", "pathname"),
    "a screen without a path": (line_with(type="screen_view", pathname=None), "missing_field", "pathname"),
    "an event without a name": (line_with(type="event"), "missing_field", "event_name"),
    "a long path": (line_with(pathname="/" * 8_193), "invalid_field", "pathname"),
    "a long host": (line_with(hostname="h" * 254), "invalid_field", "hostname"),
    "a long name": (line_with(type="event", event_name="n" * 201), "invalid_field", "event_name"),
    "data that is not flat": (line_with(type="app_event", event_data={"a": {}}), "invalid_event_data", "event_data"),
    "data that is long": (
        line_with(type="app_event", event_data={"a": "x" * 4_090}),
        "event_data_too_large",
        "event_data",
    ),
    "unknown vitals": (line_with(type="vitals", vitals={"fid": 1}), "invalid_field", "vitals"),
    "a text for a value": (line_with(type="ab_convert", experiment="e", value="1"), "invalid_field", "value"),
    "a number for a visitor": (line_with(visitor=1), "invalid_field", "visitor"),
    "a deep list for a heatmap's visitor": (line_with(type="heatmap", id=1, visitor=DEEP), "invalid_field", "visitor"),
    "a list for an id": (line_with(id=[1]), "invalid_field", "id"),
    "true for an id": (line_with(id=True), "invalid_field", "id"),
}


@cases(("item", "code", "field"), BAD_LINES.values(), ids=BAD_LINES)
def test_bad_lines(item: Any, code: str, field: str) -> None:
    rejection = read(item)
    assert isinstance(rejection, Rejection)
    assert (rejection.code, rejection.field) == (code, field)


# An accessory of a line, what is stored of it, and the warning.
ACCESSORIES: dict[str, tuple[str, Any, str, str]] = {
    "a long referrer": ("referrer", "h" * 254, "", "without_referrer"),
    "a referrer that is not a host": ("referrer", "Hacker News", "", "without_referrer"),
    "a referrer of another scheme": ("referrer", "ftp://example.org/", "", "without_referrer"),
    "a page of the browser": ("referrer", "about:blank", "", "without_referrer"),
    "a number for a referrer": ("referrer", 5, "", "without_referrer"),
    "a long label": ("utm_source", "s" * 101, "s" * 100, "value_cut"),
    "a long city": ("city", "ü" * 500, "ü" * 100, "value_cut"),
    "a number for a text": ("os", 11, "", "without_os"),
    "a list": ("language", ["de"], "", "without_language"),
    "NUL": ("browser", "a\0", "", "without_browser"),
}


@cases(("field", "value", "stored", "code"), ACCESSORIES.values(), ids=ACCESSORIES)
def test_an_accessory_costs_no_event(field: str, value: Any, stored: str, code: str) -> None:
    reader = LineReader(SALT, WEBSITE, NOON_MS)
    line = reader.line(1, line_with(**{field: value}))
    assert isinstance(line, Line)
    assert line.texts[FIELDS.index(field)] == stored
    assert reader.warnings == [FieldWarning(code, field)]
    # What is stored raises no warning, as where the line is exported and imported again.
    again = LineReader(SALT, WEBSITE, NOON_MS)
    repeated = again.line(1, line_with(**{field: stored}))
    assert isinstance(repeated, Line)
    assert repeated.texts == line.texts
    assert again.warnings == []


def test_a_lone_surrogate_is_replaced() -> None:
    line = read(b'{"type": "pageview", "timestamp": "2026-11-17T15:00:00Z", "pathname": "/a\\ud800b"}')
    assert line.texts[0] == "/a%EF%BF%BDb"


def test_the_longest_texts_are_accepted() -> None:
    longest = {
        "pathname": "/" + "ä" * 1_365,
        "hostname": "h" * 253,
        "referrer": f"{'h' * 63}." * 3 + "h" * 61,
        "utm_source": "s" * 100,
    }
    line = read(line_with(type="event", event_name="n" * 200, event_data={"a": "x" * 4_088}, **longest))
    assert isinstance(line, Line)


REFERRERS = {
    "www.Example.org": "example.org",
    "https://www.example.org/page?q=1": "example.org",
    "HTTP://EXAMPLE.ORG:8080": "example.org",
    "example.org/page": "example.org",
    "bücher.example": "xn--bcher-kva.example",
    "android-app://com.google.android.gm/": "com.google.android.gm",
    "com.google.android.gm": "com.google.android.gm",
    "ios-app://544007664/": "544007664",
    "544007664": "544007664",
    "192.0.2.7": "192.0.2.7",
    "[2001:DB8::7]": "[2001:db8::7]",
    "https://shop.example.com/": "",
    "www.example.com": "",
    "example.com": "",
    "notexample.com": "notexample.com",
}


@cases(("sent", "kept"), REFERRERS.items(), ids=REFERRERS)
def test_referrers_are_normalized_as_in_collect(sent: str, kept: str) -> None:
    """A URL or a host becomes the host in lower case without www.; the website's own domain becomes empty."""
    reader = LineReader(SALT, WEBSITE, NOON_MS, "example.com", frozenset())
    for referrer in (sent, kept):
        line = reader.line(1, line_with(referrer=referrer))
        assert isinstance(line, Line)
        assert line.texts[FIELDS.index("referrer")] == kept


def test_keys_of_lines() -> None:
    """A line is identified by its id, type and visitor; the key has 64 bits and does not contain the id."""
    ids = [5, "5", 5.5, -5, 0, 1 << 40, 1 << 63, -(1 << 63), 1e300, "a", "x" * 1_000]
    lines = [line_with(id=id) for id in ids]
    lines += [line_with(id=5, type="screen_view"), line_with(id=5, visitor="bob"), line_with(id=5, visitor=None)]
    lines += [line_with(id=5, type="vitals", vitals={"lcp": 1})]
    keys = [read(line).key for line in lines]
    assert keys == [read(line | {"os": "Linux", "country": "DE"}).key for line in lines]
    other_salt = LineReader(b"other", WEBSITE, NOON_MS).line(1, lines[0])
    assert isinstance(other_salt, Line)
    assert len({*keys, read(line_with(id=5), website=2).key, other_salt.key}) == len(lines) + 2
    assert all(-(1 << 63) <= key < 1 << 63 for key in keys)


@cases(
    ("line", "row"),
    [
        (line_with(id=7, visitor="1f"), (7, 31)),
        (line_with(id=(1 << 63) - 1, visitor="3fffffffffffffff"), ((1 << 63) - 1, (1 << 62) - 1)),
        (line_with(id=7, type="vitals", vitals={"lcp": 1}, visitor=None), (7, 0)),
        *[(line_with(id=id, visitor="1f"), None) for id in (None, "7", 7.0, 0, -7, 1 << 63)],
        *[
            (line_with(id=7, visitor=visitor), None)
            for visitor in (None, "1F", "01f", "0x1f", "1_f", " 1f", "ann", "4" + "0" * 15, "1" * 17)
        ],
    ],
    ids=str,
)
def test_which_lines_may_be_exported_rows(line: dict[str, Any], row: tuple[int, int] | None) -> None:
    assert read(line).row == row


def test_visitors_are_counted_per_utc_day() -> None:
    """A visitor is the pair of the file's visitor and the day."""
    late = MIDNIGHT_MS - 1
    ann = read(line_with(timestamp=MIDNIGHT_MS)).visitor
    others = [
        read(line_with(timestamp=late)).visitor,
        read(line_with(timestamp=MIDNIGHT_MS, visitor="bob")).visitor,
        read(line_with(timestamp=MIDNIGHT_MS), website=2).visitor,
        LineReader(b"other salt", WEBSITE, NOON_MS).line(1, line_with(timestamp=MIDNIGHT_MS)).visitor,  # type: ignore[union-attr]
    ]
    assert ann == read(line_with(timestamp=NOON_MS, type="app_event")).visitor
    assert len({ann, *others}) == 5
    assert all(0 <= visitor < 1 << 62 for visitor in (ann, *others))


def test_lines_without_a_visitor_count_as_separate_visitors() -> None:
    line = line_with(visitor=None)
    assert read(line).visitor != read(line).visitor


@pytest.mark.parametrize("raw", [b"", b"  ", b"\r"])
def test_blank_lines_are_skipped(raw: bytes) -> None:
    assert read(raw) is None


# --- files


def zip_with(changes: dict[int, bytes]) -> bytes:
    """Return a zip archive of one file with some bytes of its directory's entry replaced."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("a", b"a\n")
    content = bytearray(packed.getvalue())
    entry = content.rindex(b"PK\x01\x02")
    for at, replaced in changes.items():
        content[entry + at : entry + at + len(replaced)] = replaced
    return bytes(content)


def lines_of(path: Path, start: int = 0) -> list[tuple[bytes | None, int]]:
    with open_source(str(path)) as source:
        return list(source.lines(start))


LONG = b"x" * (MAX_LINE_BYTES + 1)
FILES: dict[str, tuple[bytes, list[bytes | None]]] = {
    "nothing": (b"", []),
    "one line": (b"a\n", [b"a"]),
    "no end": (b"a\nb", [b"a", b"b"]),
    "blank lines": (b"a\n\n\nb\n", [b"a", b"", b"", b"b"]),
    "Windows": (b"a\r\nb\r\n", [b"a\r", b"b\r"]),
    "a byte order mark": (b"\xef\xbb\xbfa\nb\n", [b"a", b"b"]),
    "the longest line": (LONG[1:] + b"\nb\n", [LONG[1:], b"b"]),
    "a line too long": (b"a\n" + LONG + b"\nb\n", [b"a", None, b"b"]),
    "a line without an end": (b"a\n" + LONG * 3, [b"a", None]),
}


@pytest.mark.parametrize("is_gzip", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize(("content", "lines"), FILES.values(), ids=FILES)
def test_lines_of_a_file(tmp_path: Path, content: bytes, lines: list[bytes | None], is_gzip: bool) -> None:
    path = tmp_path / "file"
    half = len(content) // 2
    path.write_bytes(gzip.compress(content[:half]) + gzip.compress(content[half:]) if is_gzip else content)
    found = lines_of(path)
    assert [line for line, _ in found] == lines
    at = 0
    for number, (_, size) in enumerate(found):
        # Reading can start at any line; a byte order mark at the beginning is part of the first line's bytes.
        if at:
            assert lines_of(path, at) == found[number:]
        at += size


def test_a_long_line_of_short_blocks_takes_linear_time() -> None:
    """A gzip file of many parts is read in blocks as short as a byte; copying the line for each took minutes."""

    def seconds(blocks: int) -> float:
        begun = time.process_time()
        assert list(_line_lists(itertools.repeat(b"x", blocks))) == [[(b"x" * blocks, blocks)]]
        return time.process_time() - begun

    # 8 times as much if it is linear, 64 times if it is quadratic.
    assert seconds(400_000) < 24 * seconds(50_000)


def test_the_list_of_files_of_an_archive_is_bounded(tmp_path: Path) -> None:
    """It takes 7 times as much memory as it has bytes. It is refused before it is read."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        for number in range(12):
            entry = zipfile.ZipInfo(str(number))
            entry.extra = b"\0\0" + (60_000).to_bytes(2, "little") + bytes(60_000)
            file.writestr(entry, b"a\n")
            file.infolist()[-1].comment = bytes(60_000)
    path = tmp_path / "file"
    path.write_bytes(archive.getvalue())
    with open_source(str(path)) as source:
        for read in (source.members, lambda: list(source.lines())):
            with pytest.raises(BadFile, match="zip archive of too many files: unpack it"):
                read()


def test_a_source_is_identified_by_its_beginning_and_size(tmp_path: Path) -> None:
    digests = []
    for content in (b"a\n", b"a\n", b"b\n", b"a\na\n"):
        (tmp_path / "file").write_bytes(content)
        with open_source(str(tmp_path / "file")) as source:
            digests.append(source.digest)
    assert digests[0] == digests[1]
    assert len(set(digests)) == 3


@pytest.mark.parametrize(
    ("content", "expected_error"),
    [
        ("a\n".encode("utf-16"), "is UTF-16 text: save it as UTF-8"),
        (b"PK\x03\x04\0\0", "damaged or incomplete"),
        # For these zipfile raises OSError, UnicodeDecodeError and NotImplementedError.
        (zip_with({63: b"\xff\x03"}), "damaged or incomplete"),
        (zip_with({9: b"\x08", 46: b"\xff"}), "damaged or incomplete"),
        (zip_with({6: b"\xff"}), "damaged or incomplete"),
        (zip_with({8: b"\x20"}), "damaged or incomplete"),
        (zip_with({8: b"\x40"}), "damaged or incomplete"),
    ],
    ids=["UTF-16", "zip", "place", "name", "version", "patched", "encryption"],
)
def test_binary_files_are_refused(tmp_path: Path, content: bytes, expected_error: str) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(BadFile, match=expected_error):
        lines_of(tmp_path / "file")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="is a directory"), open_source(str(tmp_path)):
        pass
    with pytest.raises(BadFile, match="No such file"), open_source(str(tmp_path / "none")):
        pass


@pytest.mark.parametrize("name", ["out.ndjson", "out.ndjson.gz"])
def test_a_target_is_renamed_when_it_is_complete(tmp_path: Path, name: str) -> None:
    with open_target(str(tmp_path / name)) as out:
        out.write(b"a\n")
        assert not (tmp_path / name).exists()
    assert lines_of(tmp_path / name) == [(b"a", 2)]
    assert ((tmp_path / name).read_bytes() == b"a\n") == (not name.endswith(".gz"))
    assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    with pytest.raises(BadFile, match="exists already"), open_target(str(tmp_path / name)):
        pass
    assert os.listdir(tmp_path) == [name]


def test_a_failed_target_is_removed(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), open_target(str(tmp_path / "out")) as out:
        out.write(b"a" * (1 // 0))
    assert os.listdir(tmp_path) == []
    with pytest.raises(BadFile, match="does not exist"), open_target(str(tmp_path / "none" / "out")):
        pass


# --- visits


def runs(times: Sequence[int]) -> list[list[int]]:
    """Return the maximal runs in which no gap is longer than 30 minutes (a gap of exactly 30:00.000 joins)."""
    found: list[list[int]] = []
    for ts_ms in sorted(times):
        if found and ts_ms - found[-1][-1] <= 30 * MINUTE:
            found[-1].append(ts_ms)
        else:
            found.append([ts_ms])
    return found


# Close to the gap and to multiples of it over a whole day, so that visits are adjacent, joined, and fill the day.
times_of_day = st.builds(
    lambda steps, off: min(max(steps * 15 * MINUTE + off, 0), DAY_MS - 1),
    st.integers(0, 96),
    st.sampled_from([-1, 0, 1, 7 * MINUTE]),
)


@given(st.lists(st.lists(st.tuples(times_of_day, st.booleans()), min_size=1, max_size=12), max_size=8))
def test_visits_depend_on_times_only(deliveries: list[list[tuple[int, bool]]]) -> None:
    known: list[Visit] = []
    numbered: list[tuple[int, bool, int]] = []
    for new_events in deliveries:
        before = known
        known, changed, ordinals = cut(known, [News(*event) for event in new_events])
        moved = {old.ordinal: now.ordinal for now, olds in changed for old in olds}
        numbered = [(ts_ms, is_view, moved.get(n, n)) for ts_ms, is_view, n in numbered]
        numbered += [(*one, ordinal) for one, ordinal in zip(new_events, ordinals, strict=True)]
        untouched = [visit for visit in before if visit.ordinal not in moved]
        assert sorted([*untouched, *(now for now, _ in changed)]) == sorted(known)
    assert [(v.begin_ms, v.end_ms) for v in sorted(known, key=lambda v: v.begin_ms)] == [
        (run[0], run[-1]) for run in runs([ts_ms for ts_ms, _, _ in numbered])
    ]
    for visit in known:
        own = [(ts_ms, is_view) for ts_ms, is_view, ordinal in numbered if ordinal == visit.ordinal]
        assert (min(own)[0], max(own)[0]) == (visit.begin_ms, visit.end_ms)
        assert (sum(is_view for _, is_view in own), len(own)) == (visit.views, visit.views + visit.events)
    assert len({visit.ordinal for visit in known}) == len(known)
    assert all(0 <= visit.ordinal < 48 for visit in known)


def test_a_day_holds_48_visits() -> None:
    known: list[Visit] = []
    for n in reversed(range(48)):
        known, _, _ = cut(known, [News(n * (30 * MINUTE + 1), True)])
    assert sorted(visit.ordinal for visit in known) == list(range(48))


# --- imports


@dataclass
class Database:
    """A database with websites that imports and exports."""

    directory: Path
    messages: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.db = self.directory / "analytics.db"
        self.connection = new_database(self.db)
        self.connection.execute("pragma synchronous = off")  # no power loss is tested here
        with transaction(self.connection):
            owner = create_account(self.connection, "owner@example.com", "business", None, 0)
            for domain in ("example.com", "example.net"):
                add_website(self.connection, owner, domain, domain, (), 0)

    def file(self, lines: Sequence[Any], name: str = "in.ndjson") -> Path:
        path = self.directory / name
        path.write_bytes(
            b"".join((one if isinstance(one, bytes) else json.dumps(one).encode()) + b"\n" for one in lines)
        )
        return path

    def take(
        self,
        lines: Sequence[Any] | Path,
        *,
        website: int = WEBSITE,
        format: str = "tally",
        strict: bool = False,
        sizes: Sizes = SMALL,
        progress: Callable[[int], None] = lambda position: None,
        connection: sqlite3.Connection | None = None,
        now_ms: int = NOON_MS,
    ) -> Taken:
        path = lines if isinstance(lines, Path) else self.file(lines)
        with open_source(str(path)) as source:
            return taken(
                import_events(
                    connection or self.connection,
                    website,
                    source,
                    now_ms=now_ms,
                    format=format,
                    strict=strict,
                    sizes=sizes,
                    report=self.messages.append,
                    progress=progress,
                )
            )

    def lines(self, website: int = WEBSITE) -> list[dict[str, Any]]:
        """Return the lines that an export writes."""
        out = io.BytesIO()
        reader = connect_reader(self.db)
        try:
            assert export_events(reader, website, out) == count_events(reader, website)
        finally:
            reader.close()
        return [json.loads(line) for line in out.getvalue().splitlines()]

    def sql(self, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
        return self.connection.execute(query, parameters).fetchall()

    def next_id(self) -> int:
        return int(self.sql("select value from meta where name = 'next_id'")[0][0])

    def close(self) -> None:
        self.connection.close()


@contextlib.contextmanager
def database_at(directory: Path) -> Iterator[Database]:
    directory.mkdir(exist_ok=True)
    database = Database(directory)
    try:
        yield database
    finally:
        database.close()


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with database_at(tmp_path / "port") as database:
        yield database


@pytest.fixture
def second_database(tmp_path: Path) -> Iterator[Database]:
    with database_at(tmp_path / "other") as database:
        yield database


def check_visits(connection: sqlite3.Connection) -> None:
    """Compare visits with the stored events and their visit numbers; days with traffic must be marked stale."""
    of_visitor: dict[tuple[int, int, int], list[tuple[int, int, int, int]]] = {}
    for website, ts_ms, type_, visitor, visit, page in connection.execute(
        "select website, ts, type, visitor, visit, pathname from event order by ts, id"
    ):
        of_visitor.setdefault((website, ts_ms // DAY_MS, visitor), []).append((ts_ms, type_, visit, page))
    expected = []
    for (website, _, visitor), events in of_visitor.items():
        for run in runs([ts_ms for ts_ms, *_ in events]):
            own = [one for one in events if run[0] <= one[0] <= run[-1]]
            (number,) = {visit for _, _, visit, _ in own}
            pages = [page for _, type_, _, page in own if type_ <= 1]
            figures = (run[-1] - run[0], len(pages), len(own) - len(pages))
            expected.append((website, run[0], visitor, number, *figures, *([pages[0], pages[-1]] if pages else [0, 0])))
    assert (
        sorted(expected)
        == connection.execute(
            "select website, start_ms, visitor, visit, duration_ms, pageviews, events, entry_page, exit_page"
            " from visit order by 1, 2, 3, 4"
        ).fetchall()
    )
    days = {(website, day) for website, day, _ in of_visitor}
    assert days == set(
        connection.execute("select website, block from rollup_state where kind = 0 and level = 0 and state = 0")
    )


VARIETY = [
    line_with(id=1, timestamp=NOON_MS - 60 * MINUTE, country="DE", os="Linux"),
    line_with(id=2, timestamp=NOON_MS - 30 * MINUTE, type="event", event_name="buy", event_data={"n": 1.5, "t": "ü"}),
    line_with(id=3, type="screen_view", pathname="/Home", visitor="bob", hostname=None, app_version="1.2"),
    line_with(id=4, type="app_event", pathname=None, visitor="bob"),
    line_with(id=5, type="vitals", vitals={"lcp": 1_200.5, "cls": 0.1}, visitor=None, device="mobile"),
    line_with(id=6, type="ab_assign", experiment="e", variant="v"),
    line_with(id=7, type="ab_convert", experiment="e", goal="g", value=3),
    line_with(id="text", timestamp=0, referrer="example.org"),
]


def renumbered(lines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return lines with ids, visitors and visits numbered by appearance, since each database has its own numbers."""
    visitors: dict[Any, int] = {}
    assert len({line["id"] for line in lines}) == len(lines)
    return [
        line
        | {
            "id": number,
            "visitor": line["visitor"] and visitors.setdefault(line["visitor"], len(visitors)),
            "visit": line["visit"] and line["visit"].split("-")[1],
        }
        for number, line in enumerate(lines)
    ]


def test_imported_lines_are_exported(database: Database) -> None:
    assert database.take(VARIETY) == (8, 0, 0)
    check_visits(database.connection)
    lines = database.lines()
    # Ids are assigned by the database, in the order of a chunk's lines.
    assert [line["id"] for line in lines] == [8, *range(1, 8)]
    assert all(tuple(line) == COLUMNS for line in lines)
    for line, item in zip(lines, [VARIETY[-1], *VARIETY[:-1]], strict=True):
        own = {"id": line["id"], "visit": line["visit"], "visitor": line["visitor"], "timestamp": line["timestamp"]}
        own |= {"variant": "v"} if line["type"] == "ab_convert" else {}
        own |= {"channel": "Referral" if item.get("referrer") else "Direct"}
        assert line == dict.fromkeys(COLUMNS) | item | own
    assert lines[0]["timestamp"] == "1970-01-01T00:00:00.000+00:00"
    assert lines[-1]["timestamp"] == "2026-11-18T12:00:00.000+00:00"
    assert {line["type"]: line["visitor"] is None for line in lines}["vitals"]
    assert len({line["visitor"] for line in lines}) == 4  # ann, ann of another day, bob, none


def test_export_then_import_gives_equal_lines(database: Database, second_database: Database) -> None:
    database.take(VARIETY)
    lines = database.lines()
    assert second_database.take(lines) == (8, 0, 0)
    assert renumbered(second_database.lines()) == renumbered(lines)
    check_visits(second_database.connection)


TABLES = (
    "event",
    "web_vitals",
    "experiment_event",
    "visit",
    "rollup_state",
    "meta",
    "import_id",
    "experiment_assignment",
    "experiment_conversion",
    "experiment_total",
)


def table_rows(database: Database) -> list[list[tuple[Any, ...]]]:
    return [database.sql(f"select * from {table}") for table in TABLES]


def test_a_second_import_changes_nothing(database: Database) -> None:
    """A second import of lines with ids changes nothing: in any order, in one file, or from an export."""
    database.take(VARIETY)
    before = table_rows(database)
    assert database.take([*VARIETY, *VARIETY]) == (0, 16, 0)
    assert database.take(VARIETY[::-1]) == (0, 8, 0)
    export = database.lines()
    assert database.take(export) == (0, 8, 0)
    assert database.take(export[::-1]) == (0, 8, 0)
    assert before == table_rows(database)
    again = [
        line_with(id=100),
        line_with(id=100),
        *[line_with(id=n, timestamp=NOON_MS - 1) for n in range(101, 110)],
        line_with(id=100),
    ]
    assert database.take(again) == (10, 2, 0)


def test_an_export_into_another_website_twice(database: Database) -> None:
    """Ids of an export are keys in another website, also if its own lines have the same ids, and after a crash."""
    database.take(VARIETY)
    export = database.lines()
    database.take([line_with(id=n, visitor="cat") for n in range(1, 9)], website=2)
    with pytest.raises(Crash):
        database.take(export, website=2, progress=interrupting(1, Crash()))
    assert database.take(export[::-1], website=2) == (5, 3, 0)
    assert database.take(export, website=2) == (3, 5, 0)  # continues the first import of this file
    assert database.take(export, website=2) == (0, 8, 0)
    assert len(database.lines(2)) == 16


def test_ids_of_a_file_may_equal_ids_of_the_database(database: Database) -> None:
    """If a file's ids and times equal those of stored rows by chance, all its lines are imported."""
    lines = [line_with(id=n, visitor=f"visitor {n}") for n in (3, 1, 2, 5, 4)]
    lines += [line_with(id=n, visitor=None) for n in (6, 9, 8, 7)]
    lines += [line_with(id=n, type="vitals", vitals={"lcp": n}, visitor=None) for n in (12, 13, 11, 10)]
    assert database.take(lines) == (13, 0, 0)
    assert database.take([line | {"visitor": "f"} for line in lines[:9]]) == (9, 0, 0)
    assert database.take([line | {"id": 25 - line["id"]} for line in lines[9:]]) == (4, 0, 0)
    ids = [line["id"] for line in database.lines()]
    assert sorted(ids) == list(range(1, 27))
    assert database.take(lines) == (0, 13, 0)


def test_one_id_with_several_types(database: Database) -> None:
    """Other systems number pageviews and events separately: one line of each type is imported once."""
    copies = [
        line_with(id=1),
        line_with(id=1, type="screen_view"),
        line_with(id=1, type="vitals", vitals={"lcp": 1}),
        line_with(id=1, type="ab_assign", experiment="e", variant="v"),
    ]
    assert database.take(copies * 2) == (4, 4, 0)
    assert database.take(copies[::-1]) == (0, 4, 0)


def test_ids_are_unique_and_grow_with_imports(database: Database) -> None:
    """Ids are assigned by the database, whatever ids a file has, so clients of /events can store rows by id."""
    first = database.next_id()
    sent = [5_000, -5, 1 << 50, "text", None, None, 3.5]
    for n, id in enumerate(sent):
        database.take([line_with(id=id, timestamp=NOON_MS - n)])
    ids = [line["id"] for line in reversed(database.lines())]
    assert ids == list(range(first, first + len(sent)))
    # A server reserves ids up to the value in `meta`; a higher value shows that another process has written.
    assert database.next_id() == first + len(sent)


def test_websites_are_separate(database: Database) -> None:
    database.take(VARIETY)
    database.take(VARIETY[:3], website=2)
    assert len(database.lines(1)) == 8
    assert len(database.lines(2)) == 3
    assert {line["visitor"] for line in database.lines(1)} & {line["visitor"] for line in database.lines(2)} == set()


def convert(**fields: Any) -> dict[str, Any]:
    return line_with(type="ab_convert", experiment="e") | fields


def assign(variant: str = "v", **fields: Any) -> dict[str, Any]:
    return line_with(type="ab_assign", experiment="e", variant=variant) | fields


AB: dict[str, tuple[list[Any], list[str | None], int]] = {
    "assigned before": ([assign(), convert()], ["v", "v"], 0),
    "assigned after": ([convert(), assign()], ["v"], 1),
    "the first wins": ([assign("a"), assign("b"), convert()], ["a", "b", "a"], 0),
    "a variant of its own": ([convert(variant="x")], ["x"], 0),
    "another experiment": ([assign(experiment="f"), convert()], ["v"], 1),
    "another visitor": ([assign(visitor="bob"), convert()], ["v"], 1),
    "no visitor": ([assign(visitor=None), convert(visitor=None)], ["v"], 1),
    "another day": ([assign(timestamp=MIDNIGHT_MS - 1), convert(timestamp=MIDNIGHT_MS)], ["v"], 1),
    "a rejected copy stores no key": ([convert(id=1), assign(), convert(id=1)], ["v", "v"], 1),
    "far apart": ([assign(), *[line_with(visitor="bob")] * 20, convert()], ["v", "v"], 0),
}


@pytest.mark.parametrize(("lines", "variants", "bad"), AB.values(), ids=AB)
def test_assignments(database: Database, lines: list[Any], variants: list[str], bad: int) -> None:
    """A conversion without a variant needs an assignment of its visitor on that day, otherwise `no_assignment`."""
    assert database.take(lines).bad == bad
    assert sorted(line["variant"] for line in database.lines() if line["type"][:2] == "ab") == sorted(variants)
    assert len(database.messages) == bad
    assert all("no_assignment (variant)" in words for words in database.messages)
    # With --strict the same lines are invalid.
    with contextlib.ExitStack() as raises:
        if bad:
            raises.enter_context(pytest.raises(BadFile, match=f"{bad} of {len(lines)} lines are invalid"))
        assert database.take(lines, website=2, strict=True) == (len(lines), 0, 0)


def test_assignments_of_an_earlier_import(database: Database) -> None:
    database.take([assign("a")])
    assert database.take([assign("b"), convert()], strict=True) == (2, 0, 0)
    assert [line["variant"] for line in database.lines()] == ["a", "b", "a"]


def test_imported_heatmap_events_are_found_by_parts_of_texts(imports: Imports) -> None:
    lines = [line_with(id=path, type="heatmap", pathname=path, country="DE") for path in ("/only-here", "/there")]
    assert imports.take("tally", "".join(json.dumps(line) + "\n" for line in lines)) == "2"
    for filters in ("pathname=/only-here", "pathname^=/only", "pathname*=ly-h", "country*=D&filter_pathname$=ere"):
        found = imports.site.data(f"events?from=2026-11-18&to=2026-11-18&filter_{filters}")
        assert "/only-here" in [event["pathname"] for event in found], filters


def test_days_beyond_retention_accept_no_lines(database: Database) -> None:
    database.take([line_with()])
    database.sql("update rollup_state set state = ?", rollup_state.KEPT)
    # Deleting a day's events also deletes those of all days before it, with traffic or without.
    lines = [
        line_with(visitor="bob"),
        line_with(timestamp=MIDNIGHT_MS - 1),
        line_with(type="vitals", vitals={"lcp": 1}),
    ]
    with pytest.raises(BadFile, match="3 of 3 lines are invalid: nothing was imported"):
        database.take(lines, strict=True)
    assert database.take(lines) == (0, 0, 3)
    assert [words.split(":")[1].strip() for words in database.messages] == ["beyond_retention (timestamp)"] * 6
    assert database.sql("select state from rollup_state where kind = 0 and level = 0 order by block") == [
        (rollup_state.KEPT,)
    ]


def test_only_days_with_traffic_are_marked_stale(database: Database) -> None:
    database.take(VARIETY)
    day = NOON_MS // DAY_MS
    assert database.sql("select block, state from rollup_state order by block") == [(0, 0), (day, 0)]
    database.sql("update rollup_state set state = 2")
    level = rollup_state.LEVELS[1]
    database.sql("insert into rollup_state values (1, 0, ?, ?, 2, 0, 0)", level, day >> level)
    database.take([line_with(type="vitals", vitals={"lcp": 1}), line_with(id=1, timestamp=NOON_MS - 60 * MINUTE)])
    assert database.sql("select state from rollup_state where kind = 0 and level = 0") == [(2,), (2,)]
    database.take([line_with()])
    assert database.sql("select level, block, state from rollup_state order by block") == [(0, 0, 2), (0, day, 0)]


def test_bad_lines_are_reported_with_their_numbers(database: Database) -> None:
    lines = [line_with(), b"", b"{", line_with(id=[]), b" ", line_with(timestamp=None), line_with(visitor="bob", os=1)]
    assert database.take(lines) == (2, 0, 3)
    assert database.messages.pop() == "warnings: 1 without_os"
    assert [words.split(":")[:2] for words in database.messages] == [
        ["line 3", " invalid_json"],
        ["line 4", " invalid_field (id)"],
        ["line 6", " missing_field (timestamp)"],
    ]


def test_many_bad_lines_are_counted(database: Database) -> None:
    assert database.take([b"{"] * 50) == (0, 0, 50)
    assert len(database.messages) == 21
    assert database.messages[-1] == "and 30 more rejected lines: 30 invalid_json"
    database.messages.clear()
    database.take([b"{"] * 19 + [line_with(id=[])] * 3 + [b"["] + [line_with(id={})] * 2)
    assert database.messages[-1] == "and 5 more rejected lines: 4 invalid_field (id), 1 invalid_json"


def test_strict_imports_all_or_nothing(database: Database) -> None:
    lines = [line_with(), assign(), b"{", *[line_with(visitor="bob")] * 20]
    with pytest.raises(BadFile, match="1 of 23 lines are invalid: nothing was imported"):
        database.take(lines, strict=True)
    assert database.lines() == []
    assert database.messages == ["line 3: invalid_json: The line is not JSON in UTF-8."]
    assert database.take([*lines[:2], *lines[3:]], strict=True) == (22, 0, 0)


def test_a_truncated_file_is_imported_up_to_its_end(database: Database) -> None:
    path = database.directory / "in.gz"
    # Random names, so that the lines do not compress and the end that is cut off contains lines.
    table_rows = b"".join(
        json.dumps(line_with(id=n, visitor=os.urandom(90).hex())).encode() + b"\n" for n in range(1, 101)
    )
    path.write_bytes(gzip.compress(table_rows)[:-3_000])
    with pytest.raises(BadFile, match="cannot be decompressed any further") as failure:
        database.take(path)
    taken = len(database.lines())
    assert 0 < taken < 100
    assert f"up to line {taken:,}." in str(failure.value)
    check_visits(database.connection)
    path.write_bytes(gzip.compress(table_rows))
    assert database.take(path) == (100 - taken, taken, 0)


class Crash(Exception):
    pass


def interrupting(after: int, failure: BaseException) -> Callable[[int], None]:
    """Return a progress function that raises an error after some parts."""
    parts = itertools.count(1)

    def progress(position: int) -> None:
        if next(parts) == after:
            raise failure

    return progress


@pytest.mark.parametrize("after", range(1, 7))
def test_an_interrupted_import_continues(database: Database, after: int) -> None:
    """Lines without ids, some of them invalid, in chunks of 7 and parts of 3."""
    lines = [line_with(timestamp=NOON_MS - n % 4 * DAY_MS, pathname=f"/{n}") if n % 5 else b"{" for n in range(20)]
    # Invalid when the import begins, and so for all of it; otherwise the positions of other lines would change.
    lines[2] = line_with(timestamp=NOON_MS + 6 * MINUTE, pathname="/ahead")
    with pytest.raises(Crash):
        database.take(lines, progress=interrupting(after, Crash()))
    assert len(database.sql("select * from import where progress is not null")) == 1
    messages = len(database.messages)
    assert database.take(lines, now_ms=NOON_MS + DAY_MS) == (15, 0, 5)
    assert "continuing an interrupted import" in database.messages[messages]
    assert sorted(line["pathname"] for line in database.lines()) == sorted(
        f"/{n}" for n in range(20) if n % 5 and n != 2
    )
    assert database.sql("select * from meta where name like 'import%'") == []
    assert database.sql("select state, progress from import") == [("complete", None)]
    check_visits(database.connection)


def test_an_interrupted_import_explains_how_to_continue(database: Database) -> None:
    with pytest.raises(KeyboardInterrupt):
        database.take([line_with()] * 20, progress=interrupting(2, KeyboardInterrupt()))
    assert database.messages == ["interrupted: 6 lines are imported; the same command continues"]
    assert len(database.lines()) == 6


def test_another_file_starts_a_new_import(database: Database) -> None:
    with pytest.raises(Crash):
        database.take([line_with()] * 20, progress=interrupting(1, Crash()))
    assert database.take([line_with()] * 21) == (21, 0, 0)
    assert database.take([line_with()] * 20) == (20, 0, 0)


def test_another_format_starts_a_new_import(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """The position in a file is not valid for its lines in another format."""
    monkeypatch.setitem(IMPORTERS, "same", IMPORTERS["tally"])
    path = database.file([line_with(pathname=f"/{n}") for n in range(20)])
    with pytest.raises(Crash):
        database.take(path, progress=interrupting(2, Crash()))
    assert database.take(path, format="same") == (20, 0, 0)
    assert database.messages == []
    assert database.take(path) == (20, 0, 0)
    assert database.messages == ["continuing an interrupted import after 6 lines"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"PK\3\4\0\0", "is damaged or incomplete: its compressed data cannot be decompressed"),
        ("{}".encode("utf-16"), "is UTF-16 text: save it as UTF-8"),
        (
            gzip.compress(b"{}")[:12],
            "is damaged or incomplete: its compressed data cannot be decompressed",
        ),
    ],
    ids=["zip", "UTF-16", "gzip"],
)
def test_a_file_without_a_readable_line_says_what_is_wrong(
    database: Database, content: bytes, reason: str, tmp_path: Path
) -> None:
    path = tmp_path / "events"
    path.write_bytes(content)
    with pytest.raises(BadFile, match=re.escape(reason)) as failure:
        database.take(path)
    assert "up to line" not in str(failure.value)


def test_two_imports_into_one_website_at_once(database: Database) -> None:
    """One import joins visits that the other has just written in the middle of a chunk."""
    second = open_database(database.db, create=False)
    joining = database.file([line_with(timestamp=NOON_MS - n * 25 * MINUTE - 10) for n in range(20)], "second.ndjson")

    def progress(position: int) -> None:
        check_visits(database.connection)
        nonlocal second
        if len(database.lines()) == 6:
            assert database.take(joining, connection=second) == (20, 0, 0)
            check_visits(database.connection)

    try:
        lines = [line_with(timestamp=NOON_MS - n * 35 * MINUTE) for n in range(20)]
        assert database.take(lines, progress=progress, sizes=Sizes(chunk_lines=20, part_lines=3)) == (20, 0, 0)
    finally:
        second.close()
    assert len(database.lines()) == 40
    check_visits(database.connection)


def test_the_same_file_twice_at_once_is_refused(database: Database) -> None:
    second = open_database(database.db, create=False)
    path = database.file([line_with()] * 20)

    def progress(position: int) -> None:
        if len(database.lines()) == 6:
            with open_source(str(path)) as source:
                import_events(second, WEBSITE, source, now_ms=NOON_MS, sizes=SMALL)

    try:
        with pytest.raises(BadFile, match="is running"):
            database.take(path, progress=progress)
    finally:
        second.close()
    assert len(database.lines()) == 20


def test_an_import_while_another_connection_writes(database: Database) -> None:
    """What other connections commit between two parts is kept."""
    writer = sqlite3.connect(database.db, isolation_level=None)

    def progress(position: int) -> None:
        writer.execute("insert into label (text) values (?)", (f"beside {len(database.lines())}",))

    try:
        assert database.take([line_with(pathname=f"/{n}") for n in range(20)], progress=progress) == (20, 0, 0)
    finally:
        writer.close()
    assert sorted(line["pathname"] for line in database.lines()) == sorted(f"/{n}" for n in range(20))


@pytest.mark.parametrize(
    ("lines", "sizes"),
    [(20, Sizes(5, 1_000, 2)), (20, Sizes(100, 200, 100)), (21, Sizes(7, 1 << 20, 7)), (1, SMALL), (0, SMALL)],
    ids=["lines", "bytes", "whole chunks", "one", "none"],
)
def test_chunk_sizes_do_not_change_the_result(database: Database, lines: int, sizes: Sizes) -> None:
    sent = [line_with(id=n + 1, pathname=f"/{n}", timestamp=NOON_MS - n * 7 * MINUTE) for n in range(lines)]
    assert database.take(sent, sizes=sizes) == (lines, 0, 0)
    assert [line["pathname"] for line in database.lines()] == [f"/{n}" for n in reversed(range(lines))]
    assert database.take(sent[::-1], sizes=sizes) == (0, lines, 0)
    check_visits(database.connection)


# --- any order, any division into files, interrupted at any point


@dataclass
class Sent:
    """Imports: lines, sizes, and the SQLite step at which the first attempt is interrupted, if any."""

    imports: list[tuple[list[dict[str, Any]], Sizes, int | None]]


@st.composite
def random_imports(draw: st.DrawFn) -> Sent:
    """Lines of a few visitors on a few days, with gaps close to 30 minutes, with repeated ids and without ids."""
    line = st.builds(
        lambda type_, day, at, visitor, id: {
            "type": type_,
            "timestamp": MIDNIGHT_MS - day * DAY_MS + (at if day else at % (DAY_MS // 2)),
            "pathname": "/",
            "event_name": "n",
            "visitor": visitor,
            "id": id,
        },
        st.sampled_from(["pageview", "event", "screen_view", "app_event"]),
        st.integers(0, 2),
        times_of_day,
        st.sampled_from(["ann", "ann", "bob", None]),
        # Some of them equal ids that the database assigns.
        st.none() | st.integers(1, 30) | st.sampled_from(["x", "y", -3]),
    )
    imports = draw(
        st.lists(
            st.tuples(
                st.lists(line, min_size=1, max_size=30),
                st.builds(Sizes, st.integers(1, 12), st.just(1 << 20), st.integers(1, 6)),
                st.none() | st.integers(10, 1_000),
            ),
            min_size=1,
            max_size=4,
        )
    )
    return Sent(imports)


def expected(sent: Sent) -> dict[tuple[Any, ...], int]:
    """Return the expected number of events of each time, type and visitor."""
    seen: set[tuple[int, str]] = set()
    counts: dict[tuple[Any, ...], int] = {}
    for lines, _, _ in sent.imports:
        # A chunk is stored in the order of its days, so of equal lines of the same time the first one is stored.
        for line in lines:
            key = line["timestamp"], json.dumps([line["id"], line["type"], line["visitor"]])
            if line["id"] is not None and key in seen:
                continue
            seen.add(key)
            what = line["timestamp"], line["type"], line["visitor"]
            counts[what] = counts.get(what, 0) + 1
    return counts


@pytest.mark.slow
@pytest.mark.random_examples
@settings(max_examples=examples(120, default=25), deadline=None)
@given(random_imports())
def test_random_imports_store_all_lines_once(sent: Sent) -> None:
    """The visits are exact after every commit; they are checked between any two parts."""
    with tempfile.TemporaryDirectory() as directory, database_at(Path(directory)) as database:
        named = {}
        for name, day in itertools.product(("ann", "bob"), range(3)):
            reader = LineReader(key_salt(database.connection), WEBSITE, NOON_MS)
            at = MIDNIGHT_MS - day * DAY_MS
            line = reader.line(1, line_with(visitor=name, timestamp=at))
            assert isinstance(line, Line)
            named[line.visitor] = name
        for number, (lines, sizes, interrupted) in enumerate(sent.imports):
            path = database.file(lines, f"{number}.ndjson")
            steps = itertools.count()
            database.connection.set_progress_handler(lambda steps=steps, end=interrupted: next(steps) == end, 10)
            try:
                database.take(path, sizes=sizes)
            except sqlite3.OperationalError:
                database.connection.set_progress_handler(None, 0)
                if database.connection.in_transaction:  # false if BEGIN itself was interrupted
                    database.connection.execute("rollback")
                check_visits(database.connection)
                database.take(path, sizes=sizes, progress=lambda position: check_visits(database.connection))
            database.connection.set_progress_handler(None, 0)
            check_visits(database.connection)
        counts: dict[tuple[Any, ...], int] = {}
        for ts_ms, type_, visitor in database.sql("select ts, type, visitor from event"):
            what = ts_ms, ("pageview", "screen_view", "event", "app_event")[type_], named.get(visitor)
            counts[what] = counts.get(what, 0) + 1
        assert counts == expected(sent)
        with tempfile.TemporaryDirectory() as elsewhere, database_at(Path(elsewhere)) as second_database:
            lines = database.lines()
            second_database.take(lines)
            assert [line | {"visit": None} for line in renumbered(second_database.lines())] == [
                line | {"visit": None} for line in renumbered(lines)
            ]
            check_visits(second_database.connection)


# --- over HTTP


async def send_all_types(app: App, website: str) -> None:
    """Send events of all types, of three visitors on three days, with visits that are joined."""
    events = [
        view("10:00:00", "/a?utm_source=news", referrer="https://www.example.org/x"),
        view("10:50:00", "/b"),
        custom("10:25:00", event_data={"a": 1, "b": "ü"}),
        event("screen_view", "10:00:00", "bob", name="Home", app_version="2.0"),
        event("app_event", "23:59:59", "bob"),
        event("vitals", "10:00:00", "bob", vitals={"lcp": 1, "cls": 0.25}, url="https://example.com/a"),
        event("ab_assign", "10:00:00", "bob", experiment="e", variant="v"),
        event("ab_convert", "10:00:01", "bob", experiment="e", value=2),
        view(NOON_MS, "/now", who="cat"),
        view(NOON_MS - DAY_MS * 2, "/long ago", who="cat"),
    ]
    answer = await app.collect({"website_id": website, "events": events})
    assert answer.json == {"ok": True, "accepted": len(events), "rejected": 0}


def queries() -> list[str]:
    table_rows, ragged = "from=2026-11-14&to=2026-11-18", "from=2026-11-16T10:10:00Z&to=2026-11-17T10:30:00Z"
    of_range = ["stats", "stats?compare=previous", "timeseries", "timeseries?interval=hour&tz=Asia/Kolkata"]
    of_range += [f"top/{name}" for name in FIELDS] + ["stats?filter_os=Windows", "events"]
    parameters = [f"{ask}{'&' if '?' in ask else '?'}{span}" for ask in of_range for span in (table_rows, ragged)]
    return [*parameters, "realtime"]


async def results(app: App, website: str) -> list[Any]:
    key = await app.key()
    found = []
    for query in queries():
        answer = await app.get(f"/api/v1/websites/{website}/{query}", key)
        assert answer.status == 200, (query, answer.text)
        data = answer.json["data"]
        if query.startswith("events"):
            visits: dict[str, int] = {}
            assert len({row["id"] for row in data}) == len(data)
            data = [
                row | {"id": None, "visit": row["visit"] and visits.setdefault(row["visit"], len(visits))}
                for row in data
            ]
        found.append((query, data, answer.json["meta"].get("unset")))
    return found


async def test_reports_after_export_and_import_are_equal(make_app: MakeApp, tmp_path: Path) -> None:
    """Results are equal on a running server that has its own ids, and an export has the rows of /events."""
    app = await make_app(client_per_minute=10_000, key_per_minute=10_000)
    website, writer = await app.website(), await app.website("example.net")
    await send_all_types(app, website)
    await app.collect(view(NOON_MS) | {"website_id": writer})
    reader = connect_reader(app.db)
    with open_target(str(tmp_path / "out.ndjson.gz")) as out:
        export_events(reader, 1, out)
    reader.close()
    new = await make_app(db=tmp_path / "new.db", client_per_minute=10_000, key_per_minute=10_000)
    target = await new.website()
    await new.collect(view(NOON_MS) | {"website_id": await new.website("example.net")})
    connection = open_database(new.db, create=False)
    with open_source(str(tmp_path / "out.ndjson.gz")) as source:
        assert taken(import_events(connection, 1, source, now_ms=NOON_MS)) == (10, 0, 0)
    connection.close()
    await new.registry.refresh()
    assert await results(new, target) == await results(app, website)
    with gzip.open(tmp_path / "out.ndjson.gz") as file:
        lines = [json.loads(line) for line in file]
    key = await app.key()
    shown = (await app.get(f"/api/v1/websites/{website}/events?from=2026-11-14&to=2026-11-18", key)).json["data"]
    assert [{name: line[name] for name in EVENT_COLUMNS} for line in reversed(lines)] == shown
    assert (await app.get(f"/api/v1/websites/{website}/events?from={DAY}&to={DAY}", key)).json["data"] != []


def imported(app: App, lines: Sequence[Any], website: int = 1) -> Taken:
    """Import as another process does; the server has not read the change yet."""
    path = app.db.with_name("lines.ndjson")
    path.write_bytes(b"".join((one if isinstance(one, bytes) else json.dumps(one).encode()) + b"\n" for one in lines))
    connection = open_database(app.db, create=False)
    with contextlib.closing(connection), open_source(str(path)) as source:
        return taken(import_events(connection, website, source, now_ms=app.clock.wall_ms()))


async def test_a_first_page_shows_an_import_that_a_refresh_finds_meanwhile(app: App) -> None:
    website, key = await app.website(), await app.key()
    for number in range(40):
        line = line_with(id=f"line {number}", pathname=f"/{number}", timestamp=NOON_MS - 3_600_000 + number)
        assert imported(app, [line]) == (1, 0, 0)
        page, _ = await asyncio.gather(
            app.get(f"/api/v1/websites/{website}/events?limit=1", key), app.registry.refresh()
        )
        assert [row["pathname"] for row in page.json["data"]] == [f"/{number}"]


async def test_paging_of_events_is_stable_during_imports(make_app: MakeApp, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cursor returns every row once while events arrive and are imported, and across restarts; a first page contains
    what was just imported."""
    # Only the requests find what was imported, no periodic task.
    monkeypatch.setattr("tally.ingest.node.TICK_S", 3_600)
    app = await make_app()
    website, key = await app.website(), await app.key()
    path = f"/api/v1/websites/{website}/events?limit=2"
    before: list[str] = []

    async def send_and_import(name: str) -> None:
        """Send one event and import another, both older than all others."""
        hours = len(before)
        sent = view(NOON_MS - hours * 3_600_000, f"/sent-{name}") | {"website_id": website}
        assert (await app.collect(sent)).status == 202
        line = line_with(id=f"line {len(before)}", pathname=f"/imported-{name}", timestamp=NOON_MS - hours * 3_600_000)
        assert imported(app, [line]) == (1, 0, 0)
        before.extend([f"/sent-{name}", f"/imported-{name}"])

    for round_ in range(4):
        await send_and_import(f"{round_}")
        stored_before = list(before)
        page = (await app.get(path, key)).json
        rows = page["data"]
        while cursor := page["meta"]["next_cursor"]:
            await send_and_import(f"{round_}-{len(rows)}")
            if round_ % 2:
                await app.restart()
            if round_ % 3:
                await app.registry.refresh()
            page = (await app.get(f"{path}&cursor={cursor}", key)).json
            rows += page["data"]
        assert sorted(row["pathname"] for row in rows) == sorted(stored_before)
        assert len({row["id"] for row in rows}) == len(rows)
    ids = [row[0] for row in app.sql("select id from event")]
    assert len(set(ids)) == len(ids)


async def test_etags_change_after_an_import(app: App) -> None:
    """A conditional GET returns imported events as soon as a plain GET does."""
    website, key = await app.website(), await app.key()
    for path in ("stats", "events", "top/pathname", "realtime"):
        path = f"/api/v1/websites/{website}/{path}"
        first = await app.get(path, key)
        tag = {"If-None-Match": first.headers["ETag"]}
        assert (await app.get(path, key, headers=tag)).status == 304
        assert imported(app, [line_with(pathname=path)]) == (1, 0, 0)
        again = await app.get(path, key, headers=tag)
        assert (again.status, again.headers["ETag"] != first.headers["ETag"]) == (200, True)
        assert again.json["data"] == (await app.get(path, key)).json["data"]


# --- histories

KINDS = ("pageview",) * 4 + ("screen_view", "event", "event", "app_event", "vitals") + ("ab_assign", "ab_convert") * 4


def random_batches(rng: random.Random) -> list[list[dict[str, Any]]]:
    """Return batches of a few visitors over three days, with many late events and several variants per visitor."""
    batches = []
    for _ in range(12):
        events = []
        for _ in range(rng.randrange(1, 12)):
            kind = rng.choice(KINDS)
            own: dict[str, Any] = {"url": f"https://example.com/{rng.choice('abc')}?utm_source={rng.choice('xy')}"}
            own |= {"name": "Home"} if kind == "screen_view" else {}
            own |= {"referrer": rng.choice(("https://www.example.org/", "https://t.co/x"))} if kind[0] == "p" else {}
            own |= {"event_name": rng.choice("mn")} if kind in ("event", "app_event") else {}
            own |= {"event_data": {"n": rng.randrange(3)}} if kind in ("event", "app_event") else {}
            own |= {"vitals": {"lcp": rng.randrange(5_000), "cls": rng.random()}} if kind == "vitals" else {}
            if kind[:2] == "ab":
                own |= {"experiment": rng.choice(("e", "f")), "variant": rng.choice(("a", "b", "c"))}
            if kind == "ab_convert":
                own |= {"variant": rng.choice((None, None, "a")), "goal": rng.choice(("g", None)), "value": 1.5}
            own |= {"session_id": f"session-{rng.randrange(4)}", "os": rng.choice(("Linux", "iOS"))}
            # Few distinct times, so that some are equal.
            own["timestamp"] = NOON_MS - rng.randrange(0, 70 * 60, 7) * MINUTE
            events.append({"type": kind, **own})
        batches.append(events)
    return batches


REPORTS = (
    *("stats", "timeseries?interval=hour", "top/pathname", "top/referrer", "top/utm_source", "events?limit=1000"),
    *("vitals", "vitals?by=pathname&metric=lcp", "experiments", "event-names", "entry-pages", "exit-pages"),
    *("event-data?event_name=m", "funnel?step=pathname:/a&step=pathname:/b", "stats?filter_os=iOS"),
    *("experiments?filter_os=iOS", "realtime"),
)


async def reports(app: App, website: str, key: str) -> dict[str, Any]:
    found = {}
    for report in REPORTS:
        span = "" if report == "realtime" else f"{'&' if '?' in report else '?'}from=2026-11-14&to=2026-11-18"
        answer = await app.get(f"/api/v1/websites/{website}/{report}{span}", key)
        assert answer.status == 200, (report, answer.text)
        found[report] = answer.json["data"]
    visits: dict[str, int] = {}
    found["events?limit=1000"] = [
        row | {"id": None, "visit": row["visit"] and visits.setdefault(row["visit"], len(visits))}
        for row in found["events?limit=1000"]
    ]
    return found


@pytest.mark.slow
async def test_exported_and_imported_histories_give_equal_reports(make_app: MakeApp) -> None:
    """The first assignment of a day by timestamp wins in both; of equal timestamps the first to arrive, which is
    exported first. Shuffled lines give equal reports too, except for rows of equal timestamps."""
    app = await make_app(client_per_minute=10_000, website_per_minute=10_000, key_per_minute=10_000)
    key = await app.key()
    shuffles = 0
    for number in range(1, 7):
        rng = random.Random(f"history {number}")
        website, copy, shuffled = [await app.website() for _ in range(3)]
        for events in random_batches(rng):
            answer = await app.collect({"website_id": website, "events": events}, ip=f"203.0.113.{number}")
            assert answer.status in (202, 400), answer.text
        out = io.BytesIO()
        with contextlib.closing(connect_reader(app.db)) as reader:
            export_events(reader, number * 3 - 2, out)
        lines = out.getvalue().splitlines()
        assert imported(app, lines, number * 3 - 1) == (len(lines), 0, 0)
        expected_reports = await reports(app, website, key)
        assert expected_reports["experiments"]
        assert await reports(app, copy, key) == expected_reports
        assert imported(app, lines, number * 3 - 1) == (0, len(lines), 0)
        assert imported(app, lines, number * 3 - 2) == (0, len(lines), 0)
        times = [(line["timestamp"], line["visitor"]) for line in map(json.loads, lines) if line["type"] == "ab_assign"]
        if len(set(times)) == len(times):
            shuffles += 1
            rng.shuffle(lines)
            assert imported(app, lines, number * 3) == (len(lines), 0, 0)
            found = await reports(app, shuffled, key)
            assert {k: v for k, v in found.items() if k[:6] != "events"} == (
                {k: v for k, v in expected_reports.items() if k[:6] != "events"}
            )
        with contextlib.closing(connect_reader(app.db)) as reader:
            assert [one for one in verdicts(reader, number * 3) if one.fault] == []
    assert shuffles


# --- the command


@pytest.mark.parametrize(
    "damage",
    ["delete from visit", "delete from label where text = '/a'", "update imported_sum set value = -21091"],
)
def test_an_export_of_a_damaged_database_fails(
    database: Database, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A label or a visit to which a row refers does not exist."""
    sums = {"type": "imported_sum", "day": "2024-11-18", "field": "pathname", "value": "/b", "pageviews": 1}
    path = database.file([line_with(pathname="/a"), sums])
    assert main(["import", str(path), "--website", "example.com", "--db", str(database.db)]) == 0
    database.connection.execute("pragma foreign_keys = off")
    database.connection.execute(damage)
    out = database.directory / "out.ndjson"
    assert main(["export", "example.com", str(out), "--db", str(database.db)]) == 1
    assert f"analytics-server: {database.db}: the database is damaged: a row refers to " in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.slow
def test_commands_while_a_server_runs(serve: Serve, command: Command, tmp_path: Path) -> None:
    """All commands but restore work while the server runs, and the running server sees the result."""
    server = serve()
    website = command("website", "add", "example.com").stdout.strip()
    key = command("key", "create").stdout.strip()
    lines = "".join(json.dumps(item) + "\n" for item in VARIETY)
    taken = command("import", "-", "--website", website, stdin=lines + "{\n")
    assert (taken.returncode, taken.stdout) == (0, "8\n")
    assert "line 9: invalid_json" in taken.stderr
    assert "imported 8 events, skipped 0 duplicates, rejected 1 of 9 lines" in taken.stderr
    query = f"/api/v1/websites/{website}/stats?from=1970-01-01&to=2026-11-18"

    def data() -> Any:
        return server.request("GET", query, headers={"Authorization": f"Bearer {key}"}).json["data"]

    assert until(lambda: data() if data()["pageviews"] else None) == {
        **{"visitors": 3, "visits": 3, "pageviews": 3, "events": 2},
        **{"bounce_rate": 33.3, "views_per_visit": 1.0, "visit_duration": 600},
    }
    out = command("export", "example.com", "-")
    assert (out.returncode, len(out.stdout.splitlines())) == (0, 8)
    assert command("export", website, "out.ndjson.gz").returncode == 0
    assert gzip.decompress((tmp_path / "out.ndjson.gz").read_bytes()).decode() == out.stdout
    assert command("import", "out.ndjson.gz", "--website", website).stdout == "0\n"


@pytest.mark.slow
def test_an_import_of_only_bad_lines_fails(command: Command) -> None:
    """Exit status 1 if no line was imported or known, otherwise 0; invalid lines are reported in both cases."""
    command("website", "add", "example.com")
    sound = json.dumps(VARIETY[0])
    for lines, code, expected_error in (
        (["{"] * 30, 1, "imported 0 events, skipped 0 duplicates, rejected 30 of 30 lines"),
        (["", "[]", " "], 1, "rejected 1 of 3 lines"),
        (["{", sound], 0, "imported 1 event, skipped 0 duplicates, rejected 1 of 2 lines"),
        (["{", sound], 0, "imported 0 events, skipped 1 duplicate, rejected 1 of 2 lines"),
        ([], 0, "imported 0 events, skipped 0 duplicates, rejected 0 of 0 lines"),
    ):
        ended = command("import", "-", "--website", "example.com", stdin="\n".join(lines))
        assert ended.returncode == code, lines
        assert expected_error in ended.stderr
        assert ("No line could be imported" in ended.stderr) == (code == 1)
        assert ("line 1: invalid_json: " in ended.stderr) == ("{" in lines)
        assert ended.stdout == ("" if code else expected_error.split()[1] + "\n")


@pytest.mark.slow
def test_a_dry_run_fails_where_the_import_would(command: Command) -> None:
    """Such as that of a file of another system without --from."""
    command("website", "add", "example.com")
    sound = json.dumps(VARIETY[0])
    no_line, strict = "No line could be imported", "With --strict nothing would be imported"
    for lines, options, expected_error in (
        (["Date,Path", "2026-11-20,/"], (), no_line),
        (["{", sound], ("--strict",), strict),
        (["{", sound], (), ""),
        ([], (), ""),
    ):
        dry = ("import", "-", "--website", "example.com", "--dry-run", *options)
        ended = command(*dry, stdin="\n".join(lines))
        assert ended.returncode == (1 if expected_error else 0), ended.stderr
        assert expected_error in ended.stderr
    assert "nothing was imported: 0 events of 0 days would be" in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "expected_error"),
    [
        (("import", "none", "--website", "example.com"), "No such file"),
        (("import", "bad", "--website", "example.com", "--strict"), "1 of 1 lines are invalid: nothing was imported"),
        (("import", "-", "--website", "example.com", "--strict"), "1 of 1 lines are invalid: nothing was imported"),
        (("import", "bad", "--website", "example.org"), "There is no website example.org"),
        (("export", "example.org", "out"), "There is no website example.org"),
        (("export", "example.com", "bad"), "bad exists already"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_errors_of_the_commands(
    command: Command, tmp_path: Path, arguments: tuple[str, ...], expected_error: str
) -> None:
    command("website", "add", "example.com")
    (tmp_path / "bad").write_text("{\n")
    failed = command(*arguments, stdin="{\n")
    assert (failed.returncode, failed.stdout) == (1, "")
    assert expected_error in failed.stderr
    assert "Traceback" not in failed.stderr


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL], ids=["Ctrl-C", "kill"])
@pytest.mark.slow
def test_a_killed_import_can_be_continued(command: Command, tmp_path: Path, end: signal.Signals) -> None:
    """Lines without ids are imported exactly once."""
    many = 60_000
    command("website", "add", "example.com")
    with (tmp_path / "in").open("w") as file:
        file.writelines(json.dumps(line_with(timestamp=n * 60_000, pathname=f"/{n % 100}")) + "\n" for n in range(many))
    words = [sys.executable, str(ROOT / "analytics_server.py"), "import", "in", "--website", "example.com"]
    process = subprocess.Popen(
        words,
        cwd=tmp_path,
        env=clean_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    connection = sqlite3.connect(tmp_path / "analytics.db")
    try:
        until(lambda: connection.execute("select 1 from import where events > 0").fetchone())
        process.send_signal(end)
        out, errors = process.communicate(timeout=60)
        assert process.returncode == (130 if end == signal.SIGINT else -signal.SIGKILL), (out, errors)
        (taken,) = connection.execute("select count(*) from event").fetchone()
        assert 0 < taken < many
        assert ("the same command continues" in errors) == (end == signal.SIGINT)
        check_visits(connection)
        again = command("import", "in", "--website", "example.com")
        assert (again.returncode, again.stdout) == (0, f"{many}\n"), again.stderr
        assert f"continuing an interrupted import after {taken:,} lines" in again.stderr
        assert connection.execute("select count(*), count(distinct ts) from event").fetchone() == (many, many)
        check_visits(connection)
    finally:
        process.kill()
        process.communicate()
        connection.close()
