"""README, CHANGELOG, schema.sql and the code say the same."""

import argparse
import re

import pytest

from analytics_server import ROUTES
from tally.cli import main as commands
from tally.events.dimensions import FIELDS
from tally.events.validation import TYPES
from tally.settings import SETTINGS, option_name, variable_name
from tests.support.app import ROOT
from tests.support.process import Command

README = (ROOT / "README.md").read_text()


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_every_setting_is_in_the_readme_with_its_default(setting: object) -> None:
    row = next((line for line in README.splitlines() if line.startswith(f"| `{option_name(setting)}`")), "")
    assert row, f"README's table of settings lacks {option_name(setting)}"
    assert variable_name(setting) in row
    default = setting.default
    shown = (
        ", ".join(default)
        if isinstance(default, tuple)
        else f"{default:,}"
        if isinstance(default, int) and setting.name != "port"
        else str(default or "none")
    )
    assert shown in row or str(default) in row, f"its default, {shown}, is not in {row!r}"


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_every_route_is_in_the_readme(route: object) -> None:
    assert re.sub(r"{(\w+)}", r":\1", route.path) in README


def test_every_type_and_field_is_in_the_readme() -> None:
    assert [name for name in (*TYPES, *FIELDS) if f"`{name}`" not in README] == []


def test_every_package_is_in_the_readme() -> None:
    drawing = README[README.index("## Architecture") :]
    packages = [path.parent.relative_to(ROOT) for path in (ROOT / "tally").glob("*/__init__.py")]
    assert [str(package) for package in packages if f"`{package}/`" not in drawing] == []


def test_every_command_is_in_the_readme(command: Command) -> None:
    words = re.search(r"commands:\n  COMMAND\n((?:    .*\n)+)", command("--help").stdout)
    assert words is not None
    names = re.findall(r"^    (\w+)", words[1], re.MULTILINE)
    assert {"serve", "account", "website", "key", "backup"} <= set(names)
    assert [name for name in names if f"analytics-server {name}" not in README] == []


def test_every_command_is_in_the_page_of_the_command_line() -> None:
    page = (ROOT / "docs" / "cli.md").read_text()
    found = [" ".join(words) for words in command_words()]
    assert {"serve", "help", "account list", "website remove", "key revoke"} <= set(found)
    assert [words for words in found if not re.search(rf"(`|### |server |, ){re.escape(words)}\b", page)] == []


def command_words(parser: argparse.ArgumentParser | None = None, before: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Every command with its own, as the parser has them."""
    parser = parser or commands._parser()
    nested = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not nested:
        return [before]
    return [words for name, own in nested[0].choices.items() for words in command_words(own, (*before, name))]


def test_the_readme_names_no_file_that_is_not_there() -> None:
    named = re.findall(r"\]\(([^)#:]+)\)", README)
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_changelog_speaks_of_the_version_in_pyproject() -> None:
    version = re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version is not None
    assert f"## {version[1]}" in (ROOT / "CHANGELOG.md").read_text()
