"""The structure of the code: which package imports what, sizes, docstrings, names."""

import ast
import functools
import re
import subprocess
import sys
from pathlib import Path

from tests.support.app import ROOT
from tests.support.cases import cases

# A package imports from the packages beside it and from those that they import; a line refers to earlier lines only.
# docs/architecture.md has the same table.
IMPORTS: dict[str, tuple[str, ...]] = {
    "tally": (),
    "events": ("tally",),
    "engine": ("events",),
    "accounts": ("events",),
    "offsite": ("tally",),
    "storage": ("accounts", "engine"),
    "http": ("events",),
    "oidc": ("tally",),
    "columns": ("storage",),
    "notices": ("storage",),
    "rollups": ("columns",),
    "reports": ("rollups",),
    "clickhouse": ("reports",),
    "transfer": ("rollups",),
    "maintenance": ("transfer", "offsite", "reports"),
    "ingest": ("storage", "http"),
    "sqlite": ("ingest", "maintenance"),
    "cluster": ("sqlite", "clickhouse"),
    "api": ("ingest", "transfer", "reports", "notices", "oidc"),
    "mcp": ("api",),
    "demo": ("ingest", "transfer"),
    "web": ("mcp", "cluster"),
    "cli": ("demo", "web"),
    "analytics_server": ("cli",),
}
# Libraries that only some packages or modules may import.
MAY_IMPORT = {
    "sqlite3": {
        "accounts",
        "storage",
        "columns",
        "rollups",
        "reports",
        "ingest",
        "sqlite",
        "maintenance",
        "transfer",
        "demo",
        "notices",
        "cluster",
    },
    "aiohttp": {"http", "ingest", "oidc", "api", "mcp", "web", "notices.delivery", "clickhouse.client"},
    "aiosqlite": {"storage.connections"},
}
SOURCES = [*sorted((ROOT / "tally").rglob("*.py")), ROOT / "analytics_server.py"]
by_name = cases("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))


def module(path: Path) -> str:
    """`events.urls` for tally/events/urls.py, `errors` for tally/errors.py, `analytics_server`."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(part for part in parts[path.is_relative_to(ROOT / "tally") :] if part != "__init__")


def package(name: str) -> str:
    """The package of a module's name; `tally` for the vocabulary."""
    return name if name == "analytics_server" else name.rpartition(".")[0].partition(".")[0] or "tally"


@functools.cache
def tree(path: Path) -> ast.Module:
    """What a file holds, parsed once."""
    return ast.parse(path.read_text())


@functools.cache
def imports(path: Path) -> set[str]:
    """The modules that a file imports, ours without `tally.`."""
    found: set[str] = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ImportFrom) and node.module:
            is_package = (ROOT / node.module.replace(".", "/")).is_dir()
            found.update(f"{node.module}.{name.name}" for name in node.names) if is_package else found.add(node.module)
        elif isinstance(node, ast.Import):
            found.update(name.name for name in node.names)
    return {name.removeprefix("tally.") for name in found}


def below(name: str) -> set[str]:
    """The packages from which a package may import."""
    return {name}.union(*map(below, IMPORTS[name]))


def other_packages(path: Path) -> set[str]:
    """The other packages of ours from which a file imports."""
    ours = {other for other in imports(path) if (ROOT / "tally" / (other.replace(".", "/") + ".py")).exists()}
    return {package(other) for other in ours} - {package(module(path))}


@by_name
def test_packages_import_from_those_below(path: Path) -> None:
    own, name = package(module(path)), module(path)
    assert other_packages(path) - below(own) == set()
    external = {other.partition(".")[0] for other in imports(path)}
    assert {library for library in MAY_IMPORT.keys() & external if not {own, name} & MAY_IMPORT[library]} == set()


def test_the_table_of_imports_has_no_cycle_and_names_what_is_imported() -> None:
    packages = list(IMPORTS)
    assert all(packages.index(other) < packages.index(name) for name, others in IMPORTS.items() for other in others)
    used = {(package(module(path)), other) for path in SOURCES for other in other_packages(path)}
    assert {(name, other) for name, others in IMPORTS.items() for other in others} - used == set()


def test_no_server_without_a_cluster_imports_its_parts() -> None:
    """What runs on SQLite alone needs neither packages nor what they import."""
    reading = {module(path) for path in SOURCES if "clickhouse" in other_packages(path)}
    assert {name for name in reading if package(name) != "cluster"} == {"cli.cluster"}
    program = (
        "import sys, tally.cli.main, tally.cli.serve, tally.cli.doctor, tally.web.metrics;"
        "print([name for name in sys.modules if name.startswith(('tally.cluster', 'tally.clickhouse'))])"
    )
    found = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


def test_the_documented_imports() -> None:
    table = (ROOT / "docs" / "architecture.md").read_text().split("\n## Packages\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(?:tally/)?([\w*]+)(?:/|\.py)` \| ([^|]*) \|", table, re.MULTILINE)
    found = {name.replace("*", "tally"): re.findall(r"`(\w+)`", others) for name, others in rows}
    assert found == {name: [other for other in others if other != "tally"] for name, others in IMPORTS.items()}


@cases("name", IMPORTS)
def test_no_import_cycle_inside_a_package(name: str) -> None:
    """Modules can be put in an order in which each imports earlier ones alone."""
    own = {module(path): path for path in SOURCES if package(module(path)) == name and path.stem != "__init__"}
    waiting = {one: imports(path) & own.keys() for one, path in own.items()}
    while ready := {one for one, others in waiting.items() if not others & waiting.keys()}:
        waiting = {one: others for one, others in waiting.items() if one not in ready}
    assert waiting == {}, "each of these imports, directly or not, one of the others"


@by_name
def test_pure_packages_never_wait(path: Path) -> None:
    """These packages hold no await: no shared memory changes during one of their functions."""
    if package(module(path)) in ("tally", "accounts", "events", "engine"):
        assert not [node for node in ast.walk(tree(path)) if isinstance(node, ast.Await)]


@by_name
def test_size_of_functions(path: Path) -> None:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert (node.end_lineno or 0) - node.lineno < 50, f"{node.name}: split at 50 lines"


def public_definitions(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    """Functions and classes of a module, and the methods of its public classes, but for names that begin with _."""
    found: list[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef] = []
    places: list[ast.Module | ast.ClassDef] = [tree(path)]
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
    """Every module and every public name has a docstring."""
    opening = ast.get_docstring(tree(path)) or ""
    least = 2 if path.stem == "__init__" else 4
    assert least <= opening.count("\n") + 1 <= 26, f"the docstring of the module has to have {least} to 26 lines"
    assert [node.name for node in public_definitions(path) if not ast.get_docstring(node)] == []


@by_name
def test_no_module_variable_changes(path: Path) -> None:
    """State lives in objects that are handed over: no `global`, no module variable bound to an empty container."""
    assert not [node for node in ast.walk(tree(path)) if isinstance(node, ast.Global)]
    for node in tree(path).body:
        value = getattr(node, "value", None)
        empty = isinstance(value, ast.Dict | ast.List | ast.Set) and not (
            getattr(value, "keys", None) or getattr(value, "elts", None)
        )
        assert not (isinstance(node, ast.Assign | ast.AnnAssign) and empty), ast.unparse(node)


def test_names_of_modules() -> None:
    assert not {path.stem for path in SOURCES} & {"utils", "helpers", "common", "base", "misc"}
