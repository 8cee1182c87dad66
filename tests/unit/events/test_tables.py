"""The tables of event types and dimensions: what a new row changes, and what must be written by hand.

Parts that are written by hand are compared with the tables; a failure names the missing row.
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
    """Return the results of a server with one more row, as JSON."""
    command = [sys.executable, "-m", "tests.support.extended_server", what, str(directory)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_an_event_type_is_one_record(tmp_path: Path) -> None:
    """Types defined only in this test are accepted, stored, listed, counted, exported and imported."""
    found = extended("types", tmp_path)
    assert found["collected"]["accepted"] == 3
    assert [(one["code"], one["field"]) for one in found["collected"]["errors"]] == [("missing_field", "event_name")]
    assert [line["type"] for line in found["exported"]] == ["purchase", "story_view", "note"]
    assert found["imported"] == [3, 0, 0, 0, 3, 0]
    for moment in ("before", "built", "after"):
        answers = found[moment]
        figures = answers["stats"]["data"]
        assert (figures["pageviews"], figures["events"], figures["visits"]) == (1, 1, 1), moment
        rows = answers["events"]["data"]
        assert sorted(row["type"] for row in rows) == ["note", "purchase", "story_view"]
        (purchase,) = answers["events?filter_type=purchase"]["data"]
        assert (purchase["event_name"], purchase["event_data"]) == ("book", {"price": 12})
        (page,) = answers["top/pathname"]["data"]
        assert (page["value"], page["pageviews"], page["events"]) == ("/news/first", 1, 1)
        assert [row["value"] for row in answers["event-names"]["data"]] == ["book"]


@pytest.mark.slow
def test_a_dimension_is_one_row_and_a_migration(tmp_path: Path) -> None:
    """A dimension defined only in this test is stored, filtered by, listed (JSON and CSV), exported and imported.

    The database has the current schema and events of a final and an open day, and is then migrated.
    """
    left = extended("today", tmp_path)
    assert left["packed"]
    found = extended("dimension", tmp_path)
    old, new = [None] * 10, [None, "news", "news", "shop"]  # an assignment without a URL
    assert found["collected"]["accepted"] == len(new)
    assert sorted(line["section"] or "" for line in found["exported"]) == sorted(text or "" for text in old + new)
    assert found["imported"] == [len(old + new), 0, 0, 0, len(old + new), 0]
    assert found["faults"] == []
    for moment in ("old", "before", "built", "after"):
        answers = found[moment]
        values, sections = ([], old) if moment == "old" else (["news", "shop"], old + new)
        rows = [[row[name] for name in ("value", "pageviews")] for row in answers["top/section"]["data"]]
        assert sorted(rows) == [[value, 1] for value in values]
        assert sorted(line.split(",")[0] for line in answers["top/section?format=csv"].split()[1:]) == values
        assert answers["stats"]["data"]["pageviews"] == 4 + len(values)
        assert answers["stats?filter_section="]["data"]["pageviews"] == 4
        assert answers["stats?filter_section=news"]["data"]["pageviews"] == len(values) // 2
        assert sorted(row["section"] or "" for row in answers["events"]["data"]) == sorted(t or "" for t in sections)
        assert [row["events"] for row in answers["event-names"]["data"]] == [2]
        assert answers["vitals"]["data"][0]["samples"] == 2 + len(values) // 2
        assert answers["vitals?filter_section=news"]["data"][0]["samples"] == len(values) // 2
        assert answers["experiments"]["data"][0]["variants"][0]["visitors"] == 2 + len(values) // 2


OF_VISIT = [one.name for one in DIMENSIONS if one.of_visit]
OF_EVENT = [one.name for one in DIMENSIONS if not one.of_visit]


@pytest.mark.parametrize(
    ("table", "names"),
    [
        pytest.param("event", OF_EVENT, id="event"),
        pytest.param("visit", OF_VISIT, id="visit"),
        pytest.param("import_visit", OF_VISIT, id="import_visit"),
        pytest.param("web_vitals", NAMES, id="web_vitals"),
        pytest.param("experiment_event", NAMES, id="experiment_event"),
    ],
)
def test_tables_have_a_column_for_each_dimension(table: str, names: list[str]) -> None:
    text = re.search(rf"create table {table} \((.*?)\n\)", SCHEMA, re.DOTALL)
    assert text is not None
    columns = re.findall(r"^  (\w+) ", text[1], re.MULTILINE)
    missing = [name for name in names if name not in columns]
    assert missing == [], f"add to {table} in schema.sql, and in a migration: {missing} integer not null default 0"


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
