"""The house itself: floors, sizes, docstrings, names. README, Architecture, has the drawing that this checks."""

import ast
from pathlib import Path

import pytest

from tests.conftest import ROOT

FLOORS = (
    ("arrays", "compaction", "demo_sites", "paths", "sockets", "supervision"),
    ("fair_queue", "heat", "histogram", "repeats", "rows", "scalars", "significance"),
    ("assets", "clock", "crawlers", "errors", "hosts", "instants", "ndjson", "remembered", "settings"),
    ("country", "events", "labels", "limits", "logins", "origin", "schema", "sessions", "timerange", "useragent"),
    ("demo_traffic",),
    ("budgets", "event_data", "sign_in"),
    ("accounts", "callers", "enrich", "health", "logs", "moments", "notes", "passwords", "tables", "visits", "vitals"),
    ("visitor_values",),
    ("backups", "portable", "queries", "registry", "rollups", "single_flight", "starting", "threads", "trials"),
    ("refused_origins", "value_limits"),
    ("behaving", "heat_days", "measuring", "ranking", "visiting", "vital_days"),
    ("visit_days",),
    ("asking", "connections", "deletion", "ground", "heat_audit", "ingest", "intake", "live", "retention"),
    ("reuse", "scheduler"),
    ("bodies", "building", "commits", "cuts", "erasing", "exporting", "importing", "left_out", "nightly", "restoring"),
    ("funnels", "properties", "timekeeping", "verification"),
    ("figures", "heat_figures", "mending", "toplists", "trial_figures", "visit_figures", "vital_figures"),
    ("store",),
    ("reader",),
    ("answers", "behaviour", "collect", "console", "examining", "measured", "pages", "running"),
    ("endpoints",),
    ("demo", "doctor", "gate", "metrics", "read_api", "shortcut", "tracking", "upkeep"),
    ("account_api", "framing", "ops", "listening", "porting", "websites_api"),
    ("serving",),
    ("commands",),
    ("analytics_server",),
)
FLOOR_OF = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}
ROOMS = sorted(path for path in (ROOT / "tally").glob("*.py") if path.stem != "__init__")
SOURCES = [*ROOMS, ROOT / "analytics_server.py"]
by_name = pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)


def imported_rooms(path: Path) -> set[str]:
    rooms: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "tally":
            rooms.update(name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tally."):
            rooms.add((node.module or "").removeprefix("tally."))
        elif isinstance(node, ast.Import):
            rooms.update(name.name.removeprefix("tally.") for name in node.names if name.name.startswith("tally."))
    return rooms


def test_every_room_has_a_floor() -> None:
    assert {path.stem for path in SOURCES} == set(FLOOR_OF)


@by_name
def test_a_room_imports_only_from_lower_floors(path: Path) -> None:
    own = FLOOR_OF[path.stem]
    assert {room for room in imported_rooms(path) if FLOOR_OF[room] >= own} == set()


@by_name
def test_only_one_room_knows_aiosqlite(path: Path) -> None:
    assert path.stem == "threads" or "aiosqlite" not in {
        name.name.split(".")[0]
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Import)
        for name in node.names
    }


@by_name
def test_pure_rooms_never_wait(path: Path) -> None:
    """Floors 0 to 4 hold no await: no shared memory changes hands in the middle of one of their functions."""
    if FLOOR_OF[path.stem] <= 4 and path.stem not in ("errors", "threads"):
        assert not [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Await)]


@by_name
def test_size_of_rooms_and_functions(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= 700, "a file this long has more than one subject: split it"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert (node.end_lineno or 0) - node.lineno < 50, f"{node.name}: split at 50 lines"


def public_definitions(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    """Functions and classes of a room, and the methods of its public classes, but for names that begin with _."""
    found: list[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef] = []
    places: list[ast.Module | ast.ClassDef] = [ast.parse(path.read_text())]
    for place in places:
        for node in place.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not node.name.startswith(
                "_"
            ):
                found.append(node)
                places.extend([node] if isinstance(node, ast.ClassDef) else [])
    return found


@by_name
def test_docstrings(path: Path) -> None:
    """A room opens with what it is for and its rules; every public name says what it gives."""
    opening = ast.get_docstring(ast.parse(path.read_text())) or ""
    assert 4 <= opening.count("\n") + 1 <= 26, "5 to 25 lines"
    assert [node.name for node in public_definitions(path) if not ast.get_docstring(node)] == []


@by_name
def test_no_module_variable_changes(path: Path) -> None:
    """State lives in objects that are handed over: no `global`, no module variable bound to an empty container."""
    tree = ast.parse(path.read_text())
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.Global)]
    for node in tree.body:
        value = getattr(node, "value", None)
        empty = isinstance(value, ast.Dict | ast.List | ast.Set) and not (
            getattr(value, "keys", None) or getattr(value, "elts", None)
        )
        assert not (isinstance(node, ast.Assign | ast.AnnAssign) and empty), ast.unparse(node)


def test_names_say_what_a_room_is() -> None:
    assert not {path.stem for path in ROOMS} & {"utils", "helpers", "common", "base", "misc"}
