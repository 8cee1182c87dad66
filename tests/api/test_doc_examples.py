"""Run the examples of the documentation against a server and compare the responses with those shown.

- ```bash blocks are commands; they run in one shell, in order.
- ```json after a command or a request is its response: keys and types of values must match; figures may differ.
- The line shown in importing.md is imported.
- In reference/collect-api.md a ```json block that is a request is sent; in reference/read-api.md each line of a ```http
  block is.
"""

import json
import os
import re
import sqlite3
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tally.accounts.definitions import Kind, add_definition
from tests.support.app import ROOT, App
from tests.support.process import Command, Serve

DOCS = ROOT / "docs"
BLOCKS = re.compile(r"^```(bash|json|http|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
WEBSITE = "c66653dc-e3f4-4325-a39f-da606931a543"
ADDRESS = "http://127.0.0.1:8000"


def blocks(name: str) -> list[tuple[str, str]]:
    """Return the language and text of each code block of a page."""
    return BLOCKS.findall((DOCS / name).read_text())


def shape(value: Any) -> Any:
    """Return a JSON value with scalars replaced by their types; a list by its first item's shape."""
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__


def differences(shown: Any, real: Any, at: str = "") -> list[str]:
    """Return where two shapes differ. Null, an empty list and an empty object match any shape."""
    if shown in (None, [], {}, "NoneType") or real in (None, [], {}, "NoneType"):
        return []
    if isinstance(shown, dict) and isinstance(real, dict):
        if at.endswith((".codes", ".event_data", ".filters")):
            return []
        unmatched = [f"{at}.{key}" for key in shown.keys() ^ real.keys()]
        return unmatched + [
            one for key in shown.keys() & real.keys() for one in differences(shown[key], real[key], f"{at}.{key}")
        ]
    if isinstance(shown, list) and isinstance(real, list):
        return differences(shown[0], real[0], f"{at}[]")
    return [] if shown == real else [f"{at}: {shown} is shown, {real} is real"]


def assert_same_shape(shown: str, real: str) -> None:
    assert differences(shape(json.loads(shown)), shape(json.loads(real))) == [], real


def run_script(script: str, folder: Path, url: str, db: Path) -> str:
    """Return the output of a bash script in which `analytics-server` runs this checkout."""
    (folder / "bin").mkdir(exist_ok=True)
    program = folder / "bin" / "analytics-server"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {ROOT / "analytics_server.py"} "$@"\n')
    program.chmod(0o755)
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-eu", "-o", "pipefail", "-c", script.replace(ADDRESS, url)],
        capture_output=True,
        text=True,
        cwd=folder,
        env={"PATH": path, "ANALYTICS_DB": str(db), "HOME": str(folder)},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def joined_script(parts: list[str]) -> str:
    """Join blocks to one script that prints a separator after the output of each."""
    return "".join(f"{part}\necho; echo '=== end of block'\n" for part in parts)


@pytest.mark.by_default
def test_getting_started(serve: Serve, tmp_path: Path) -> None:
    found = blocks("getting-started.md")
    server = serve()
    parts = [text for kind, text in found if kind == "bash"]
    (program,) = [text for kind, text in found if kind == "python"]
    (tmp_path / "figures.py").write_text(program.replace(ADDRESS, server.url))
    parts.append(f"{sys.executable} figures.py $KEY $WEBSITE")
    outputs = run_script(joined_script(parts), tmp_path, server.url, server.db).split("=== end of block\n")
    number, compared = -1, 0
    for kind, text in found:
        if kind == "bash":
            number += 1
        elif kind == "json":
            assert_same_shape(text, outputs[number])
            compared += 1
    assert compared == 3
    assert "/pricing 1 1 0" in outputs[len(parts) - 1]


def test_readme_commands(serve: Serve, tmp_path: Path) -> None:
    (script,) = re.findall(r"^```bash\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    server = serve()
    output = run_script(script, tmp_path, server.url, server.db)
    accepted, stats = json.JSONDecoder().raw_decode(output), output[output.index('{"data"') :]
    assert accepted[0]["accepted"] == 1
    assert json.loads(stats)["data"]["pageviews"] == 1


@pytest.mark.slow
def test_command_line_examples(tmp_path: Path) -> None:
    parts = [text for kind, text in blocks("cli.md") if kind == "bash"]
    output = run_script("".join(parts), tmp_path, ADDRESS, tmp_path / "analytics.db")
    assert len(parts) >= 8
    assert "\tThe shop\n" in output


def test_import_example(command: Command, tmp_path: Path) -> None:
    """An event, an imported sum, which an export has first, and requests of a crawler, which it has then."""
    event, imported_sum, crawls = [text for kind, text in blocks("importing.md") if kind == "json"]
    (tmp_path / "events.ndjson").write_text(event + imported_sum + crawls)
    website = command("website", "add", "example.com").stdout.strip()
    assert command("import", "events.ndjson", "--website", website).returncode == 0
    exported = [json.loads(line) for line in command("export", website, "-").stdout.splitlines()]
    assert len(exported) == 3
    assert json.loads(imported_sum).items() <= exported[0].items()
    assert json.loads(crawls).items() <= exported[1].items()
    shown = json.loads(event)
    assert [exported[2][name] for name in ("pathname", "timestamp")] == [shown["pathname"], shown["timestamp"]]


async def test_collect_api_requests(app: App) -> None:
    website = await app.website(allow_origins=["capacitor://localhost"])
    found = [
        json.loads(text.replace(WEBSITE, website))
        for kind, text in blocks("reference/collect-api.md")
        if kind == "json"
    ]
    requests = [(body, shown) for body, shown in pairwise(found) if "ok" not in body]
    assert len(requests) >= 3
    for body, shown in requests:
        answer = await app.collect(body)
        assert (answer.status, answer.json["accepted"], answer.json["rejected"]) == (
            202,
            shown["accepted"],
            shown["rejected"],
        )
        assert differences(shape(shown), shape(answer.json)) == []
        assert [one["code"] for one in answer.json.get("errors", [])] == [
            one["code"] for one in shown.get("errors", [])
        ]


def save_definitions(connection: sqlite3.Connection) -> None:
    """Save one definition of each kind, as the page shows it."""
    ((website,),) = connection.execute("select number from website").fetchall()
    shown = [json.loads(text) for kind, text in blocks("reference/read-api.md") if kind == "json"]
    kinds: dict[str, Kind] = {"text": "annotation", "filters": "segment", "match": "goal", "steps": "funnel"}
    for one in (row for answer in shown if isinstance(answer["data"], list) for row in answer["data"][:1]):
        for field, kind in kinds.items():
            if field in one and "id" in one:
                content = {name: value for name, value in one.items() if name != "id"}
                add_definition(connection, website, kind, content, 0)


@pytest.fixture
async def filled(app: App) -> tuple[App, str, str]:
    """Return an application, a website with events of every type and one rejected event, and a key."""
    website = await app.website()
    events: list[dict[str, Any]] = [
        {"type": "pageview", "url": "https://example.com/", "viewport_width": 1280},
        {"type": "pageview", "url": "https://example.com/pricing", "referrer": "https://news.example.org/"},
        {"type": "event", "event_name": "signup", "event_data": {"plan": "pro", "seats": 5}},
        {"type": "vitals", "url": "https://example.com/pricing", "vitals": {"lcp": 1684, "cls": 0.02}},
        {"type": "heatmap", "url": "https://example.com/", "viewport_width": 1280, "x": 0.5, "y": 320},
        {"type": "heatmap", "url": "https://example.com/", "viewport_width": 1280, "x": 0, "y": 900, "kind": "scroll"},
        {"type": "ab_assign", "experiment": "button", "variant": "green"},
        {"type": "ab_convert", "experiment": "button", "goal": "order"},
    ]
    assert (await app.collect({"website_id": website, "events": events})).json["rejected"] == 0
    refused = {"type": "pageview", "website_id": website, "url": "https://example.com/"}
    assert (await app.collect(refused, headers={"Origin": "https://staging.example.net"})).status == 403
    await app.node.tick()
    key = await app.key()
    await app.admin(lambda connection: save_definitions(connection))
    return app, website, key


async def test_read_api_requests(filled: tuple[App, str, str]) -> None:
    app, website, key = filled
    found = blocks("reference/read-api.md")
    sent_requests = 0
    for number, (kind, text) in enumerate(found):
        if kind != "http":
            continue
        shown = shape(json.loads(found[number + 1][1]))
        for line in text.splitlines():
            path = line.removeprefix("GET ").replace(":id", website)
            # The examples' days are not those of the test's clock: use the default range.
            path = re.sub(r"(from|to)=[0-9-]{10}&?", "", path).rstrip("?&")
            answer = await app.get(path, key)
            assert answer.status == 200, (line, answer.text)
            assert differences(shown, shape(answer.json)) == [], line
            sent_requests += 1
    assert sent_requests >= 15
