"""tally/resources.py: the version of a clone. tests/unit/cli/test_commands.py runs `--version`."""

import shutil
import subprocess
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest

from tally import resources

Git = Callable[..., str]


@pytest.fixture
def git(tmp_path: Path) -> Git:
    """Return git in a new repository in the directory `clone`, with one commit on the branch `a/branch`."""
    if shutil.which("git") is None:
        pytest.skip("NOT TESTED: the version of a clone (needs git)")
    clone = tmp_path / "clone"
    clone.mkdir()

    def run(*words: str) -> str:
        named = ("-c", "user.name=a", "-c", "user.email=a@example.com")
        return subprocess.run(
            ["git", *named, *words], cwd=clone, capture_output=True, text=True, check=True
        ).stdout.strip()

    (clone / "pyproject.toml").write_text('[project]\nname = "x"\nversion = "1.2.3"\n')
    run("init", "--quiet", "--initial-branch", "a/branch")
    run("add", ".")
    run("commit", "--quiet", "--message", "one")
    return run


def version_in(clone: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(resources, "_PACKAGE", clone / "tally")
    return resources.tally_version.__wrapped__()


@pytest.mark.parametrize(
    "words",
    [(), ("checkout", "--quiet", "--detach"), ("pack-refs", "--all"), ("worktree", "add", "--quiet", "../beside")],
    ids=["branch", "commit", "packed", "work tree"],
)
def test_the_version_of_a_clone_names_its_commit(
    words: tuple[str, ...], git: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if words:
        git(*words)
    clone = tmp_path / ("beside" if "worktree" in words else "clone")
    assert version_in(clone, monkeypatch) == f"1.2.3+git.{git('rev-parse', 'HEAD')[:12]}"


def test_the_version_of_a_source_tree_without_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pyproject.toml").write_text('version = "1.2.3"\n')
    assert version_in(tmp_path, monkeypatch) == "1.2.3"


def test_the_version_of_an_installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wheel has schema.sql inside the package."""
    (tmp_path / "tally").mkdir()
    (tmp_path / "tally" / "schema.sql").touch()
    (tmp_path / "pyproject.toml").write_text('version = "1.2.3"\n')
    assert version_in(tmp_path, monkeypatch) == version("tally-analytics-server")
