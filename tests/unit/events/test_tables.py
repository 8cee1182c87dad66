"""The tables of event types and dimensions: what follows from a new row, and what has to be written by hand.

What cannot follow from the tables is compared with them here; a failure names the row that is missing.
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tally.events.event_types import EVENT_TYPES
from tally.events.fields import DIMENSIONS
from tests.support.app import ROOT

NAMES = [one.name for one in DIMENSIONS]
SCHEMA = (ROOT / "schema.sql").read_text("utf-8")
OPENAPI = (ROOT / "static" / "openapi.yaml").read_text("utf-8")


def extended(what: str, directory: Path) -> Any:
    """What a server with one row more does, as JSON."""
    command = [sys.executable, "-m", "tests.support.extended_server", what, str(directory)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_an_event_type_is_one_record(tmp_path: Path) -> None:
    """Types that exist only here are accepted, stored, shown, counted as their records say, exported and imported."""
    found = extended("types", tmp_path)
    assert found["collected"]["accepted"] == 3
    assert [(one["code"], one["field"]) for one in found["collected"]["errors"]] == [("missing_field", "event_name")]
    assert [line["type"] for line in found["exported"]] == ["purchase", "story_view", "note"]
    assert found["imported"] == [3, 0, 0]
    for moment in ("before", "built", "after"):
        told = found[moment]
        figures = told["stats"]["data"]
        assert (figures["pageviews"], figures["events"], figures["visits"]) == (1, 1, 1), moment
        rows = told["events"]["data"]
        assert sorted(row["type"] for row in rows) == ["note", "purchase", "story_view"]
        (purchase,) = told["events?filter_type=purchase"]["data"]
        assert (purchase["event_name"], purchase["event_data"]) == ("book", {"price": 12})
        (page,) = told["top/pathname"]["data"]
        assert (page["value"], page["pageviews"], page["events"]) == ("/news/first", 1, 1)
        assert [row["value"] for row in told["event-names"]["data"]] == ["book"]


def test_a_dimension_is_one_row_and_a_migration(tmp_path: Path) -> None:
    """A dimension that exists only here is stored, filtered by, listed (JSON and CSV), shown, exported and imported."""
    found = extended("dimension", tmp_path)
    assert found["collected"]["accepted"] == 2
    assert sorted(line["section"] for line in found["exported"]) == ["news", "shop"]
    assert found["imported"] == [2, 0, 0]
    for moment in ("before", "built", "after"):
        told = found[moment]
        assert sorted((row["value"], row["pageviews"]) for row in told["top/section"]["data"]) == [
            ("news", 1),
            ("shop", 1),
        ]
        assert told["stats?filter_section=news"]["data"]["pageviews"] == 1
        assert sorted(row["section"] for row in told["events"]["data"]) == ["news", "shop"]
        assert sorted(line.split(",")[0] for line in told["top/section?format=csv"].split()[1:]) == ["news", "shop"]


@pytest.mark.parametrize("table", ["event", "web_vitals", "experiment_event", "open_day_visitor"])
def test_tables_have_a_column_for_each_dimension(table: str) -> None:
    text = re.search(rf"create table {table} \((.*?)\n\)", SCHEMA, re.DOTALL)
    assert text is not None
    columns = re.findall(r"^  (\w+) ", text[1], re.MULTILINE)
    missing = [name for name in NAMES if name not in columns]
    assert missing == [], f"add to table {table} in schema.sql, and in a migration: {missing} integer not null"
    begin = columns.index(NAMES[0])
    assert columns[begin : begin + len(NAMES)] == NAMES, f"{table}: columns in the order of DIMENSIONS"


def test_checks_of_field_numbers_admit_each_dimension() -> None:
    """rollup and open_day_visitor_value number the dimensions and event_name; the others four names more."""
    bounds = sorted(set(map(int, re.findall(r"check \(field between 0 and (\d+)\)", SCHEMA))))
    expected = [len(DIMENSIONS), len(DIMENSIONS) + 4]
    assert bounds == expected, f"schema.sql: `field between 0 and` {expected}, in a migration too"


@pytest.mark.parametrize("name", NAMES)
def test_openapi_lists_each_dimension(name: str) -> None:
    assert re.search(rf"\b{name}\b", OPENAPI), f"add {name} to Field in static/openapi.yaml"
    assert f"filter_{name}" in OPENAPI, f"add the parameter filter_{name} to static/openapi.yaml"


@pytest.mark.parametrize("name", [one.name for one in EVENT_TYPES])
def test_openapi_lists_each_event_type(name: str) -> None:
    assert re.search(rf"^ +{name}: \S", OPENAPI, re.MULTILINE), f"add {name} to the types of Event in openapi.yaml"


@pytest.mark.parametrize("name", [*NAMES, *(one.name for one in EVENT_TYPES)])
def test_pages_name_each_dimension_and_event_type(name: str) -> None:
    names = (ROOT / "static" / "shared" / "fields.js").read_text("utf-8")
    assert re.search(rf"^  {name}: ", names, re.MULTILINE), f"add {name} to FIELDS or TYPES in static/shared/fields.js"


def test_numbers_and_names_are_unique() -> None:
    assert len({one.number for one in EVENT_TYPES}) == len({one.name for one in EVENT_TYPES}) == len(EVENT_TYPES)
    assert len(set(NAMES)) == len(NAMES)
