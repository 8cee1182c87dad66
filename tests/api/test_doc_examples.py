"""The examples of the documentation, run against a server and compared with the responses shown there.

- ```bash blocks are commands: they run in one shell, in their order.
- ```json after a command or a request is its response: the shown keys and the types of values must be those of the real
  response, since figures differ.
- The line of importing.md is imported.
- In reference/collect-api.md a ```json block that is a request is sent; in reference/read-api.md each line of a ```http
  block is.
"""

import json
import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.support.app import ROOT, App
from tests.support.process import Command, Serve

DOCS = ROOT / "docs"
BLOCKS = re.compile(r"^```(bash|json|http|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
WEBSITE = "c66653dc-e3f4-4325-a39f-da606931a543"
ADDRESS = "http://127.0.0.1:8000"


def blocks(name: str) -> list[tuple[str, str]]:
    """The kinds and texts of a page's blocks."""
    return BLOCKS.findall((DOCS / name).read_text())


def shape(value: Any) -> Any:
    """A JSON value with types in place of scalars; of a list the shape of its first item."""
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__


def differences(shown: Any, real: Any, at: str = "") -> list[str]:
    """Where the shapes of two JSON values differ. A null or an empty list or object in either is like anything."""
    if shown in (None, [], {}, "NoneType") or real in (None, [], {}, "NoneType"):
        return []
    if isinstance(shown, dict) and isinstance(real, dict):
        if at.endswith((".codes", ".event_data", ".filters")):
            return []
        lacking = [f"{at}.{key}" for key in shown.keys() ^ real.keys()]
        return lacking + [
            one for key in shown.keys() & real.keys() for one in differences(shown[key], real[key], f"{at}.{key}")
        ]
    if isinstance(shown, list) and isinstance(real, list):
        return differences(shown[0], real[0], f"{at}[]")
    return [] if shown == real else [f"{at}: {shown} is shown, {real} is real"]


def assert_alike(shown: str, real: str) -> None:
    assert differences(shape(json.loads(shown)), shape(json.loads(real))) == [], real


def runs(script: str, folder: Path, url: str, db: Path) -> str:
    """What bash prints for a script in which `analytics-server` is this checkout's."""
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


def separated(parts: list[str]) -> str:
    """One script of several blocks, with a mark after the output of each."""
    return "".join(f"{part}\necho; echo '=== end of block'\n" for part in parts)


def test_getting_started(serve: Serve, tmp_path: Path) -> None:
    found = blocks("getting-started.md")
    server = serve()
    parts = [text for kind, text in found if kind == "bash"]
    (program,) = [text for kind, text in found if kind == "python"]
    (tmp_path / "figures.py").write_text(program.replace(ADDRESS, server.url))
    parts.append(f"{sys.executable} figures.py $KEY $WEBSITE")
    outputs = runs(separated(parts), tmp_path, server.url, server.db).split("=== end of block\n")
    number, compared = -1, 0
    for kind, text in found:
        if kind == "bash":
            number += 1
        elif kind == "json":
            assert_alike(text, outputs[number])
            compared += 1
    assert compared == 3
    assert "/pricing 1 1 0" in outputs[len(parts) - 1]


def test_the_first_event_of_the_readme(serve: Serve, tmp_path: Path) -> None:
    (script,) = re.findall(r"^```bash\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    server = serve()
    output = runs(script, tmp_path, server.url, server.db)
    accepted, stats = json.JSONDecoder().raw_decode(output), output[output.index('{"data"') :]
    assert accepted[0]["accepted"] == 1
    assert json.loads(stats)["data"]["pageviews"] == 1


@pytest.mark.slow
def test_the_commands_of_the_command_line(tmp_path: Path) -> None:
    parts = [text for kind, text in blocks("cli.md") if kind == "bash"]
    output = runs("".join(parts), tmp_path, ADDRESS, tmp_path / "analytics.db")
    assert len(parts) >= 8
    assert "\tThe shop\n" in output


def test_the_line_of_importing(command: Command, tmp_path: Path) -> None:
    ((_, line),) = blocks("importing.md")
    (tmp_path / "events.ndjson").write_text(line)
    website = command("website", "add", "example.com").stdout.strip()
    assert command("import", "events.ndjson", "--website", website).returncode == 0
    exported = json.loads(command("export", website, "-").stdout)
    shown = json.loads(line)
    assert (exported["pathname"], exported["timestamp"]) == (shown["pathname"], shown["timestamp"])


async def test_the_requests_of_the_collect_api(app: App) -> None:
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


@pytest.fixture
async def filled(app: App) -> tuple[App, str, str]:
    """A website with events of every kind, some rejected, and a key."""
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
    await app.store.tick()
    return app, website, await app.key()


async def test_the_requests_of_the_read_api(filled: tuple[App, str, str]) -> None:
    app, website, key = filled
    found = blocks("reference/read-api.md")
    asked = 0
    for number, (kind, text) in enumerate(found):
        if kind != "http":
            continue
        shown = shape(json.loads(found[number + 1][1]))
        for line in text.splitlines():
            path = line.removeprefix("GET ").replace(":id", website)
            # The days of the examples are in the past of the test's clock: today is among these.
            path = re.sub(r"(from|to)=[0-9-]{10}&?", "", path).rstrip("?&")
            answer = await app.get(path, key)
            assert answer.status == 200, (line, answer.text)
            assert differences(shown, shape(answer.json)) == [], line
            asked += 1
    assert asked >= 15
