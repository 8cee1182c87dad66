"""deploy/release.sh: what it refuses, and the commit, tag and files that it makes in a clone of this repository.

Nothing is pushed: the clone is in a temporary directory, and its origin stays as it is. The build installs its tools
with pip, so the test of a whole release needs a package registry. Its files stay in the directory TALLY_RELEASE_FILES
where that is set: .ci/run uses them.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tally.storage.database import VERSION as SCHEMA
from tests.support.app import ROOT

VERSION = "97.98.99"
Done = subprocess.CompletedProcess[str]


def run(clone: Path, *words: str) -> Done:
    return subprocess.run(words, cwd=clone, capture_output=True, text=True)


def git(clone: Path, *words: str) -> str:
    done = run(clone, "git", "-c", "user.name=a", "-c", "user.email=a@example.com", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def release(clone: Path, *words: str) -> Done:
    return run(clone, "bash", "deploy/release.sh", *words)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Return a clone whose changelog has a section for VERSION."""
    if shutil.which("git") is None or run(ROOT, "git", "rev-parse", "HEAD").returncode:
        pytest.skip("NOT TESTED: releases (needs git, and a clone of the repository)")
    path = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", str(ROOT), str(path))
    changelog = path / "CHANGELOG.md"
    title, older = changelog.read_text().split("\n", 1)
    changelog.write_text(f"{title}\n\n## {VERSION} (unreleased)\n\nNew.\n{older}")
    git(path, "commit", "--quiet", "--all", "--message", "Describe the release")
    return path


@pytest.mark.slow
def test_a_release_that_cannot_be_made_changes_nothing(clone: Path) -> None:
    before = git(clone, "rev-parse", "HEAD"), git(clone, "tag")
    (clone / "new.txt").touch()
    for words, output in (
        ((), "VERSION is like 1.2.0"),
        (("v1",), "VERSION is like 1.2.0 (got 'v1')"),
        ((VERSION,), "there are uncommitted changes"),
        (("97.98.100", "--dry-run"), "CHANGELOG.md has no line"),
    ):
        done = release(clone, *words)
        assert (done.returncode, output in done.stderr) == (1, True), done.stderr
    (clone / "new.txt").unlink()
    git(clone, "tag", f"v{VERSION}")
    done = release(clone, VERSION)
    assert (done.returncode, f"the tag v{VERSION} exists already" in done.stderr) == (1, True), done.stderr
    git(clone, "tag", "--delete", f"v{VERSION}")
    assert (git(clone, "rev-parse", "HEAD"), git(clone, "tag")) == before
    assert git(clone, "status", "--porcelain") == ""


@pytest.mark.slow
def test_a_release_is_committed_tagged_and_built(clone: Path, tmp_path: Path) -> None:
    if run(tmp_path, sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "hatchling").returncode:
        pytest.skip("NOT TESTED: a whole release (needs a package registry)")
    before, tags = git(clone, "rev-parse", "HEAD"), git(ROOT, "tag")
    out = Path(os.environ.get("TALLY_RELEASE_FILES", tmp_path / "out"))
    done = release(clone, VERSION, "--no-binary", "--out", str(out))
    assert done.returncode == 0, done.stdout + done.stderr
    assert git(clone, "log", "-1", "--format=%s %P") == f"Release {VERSION} {before}"
    assert git(clone, "rev-parse", f"v{VERSION}") == git(clone, "rev-parse", "HEAD")
    assert git(clone, "status", "--porcelain") == ""
    client = ("js/package.json", "python/pyproject.toml", "python/src/tally_client/connection.py")
    changed = ["CHANGELOG.md", *(f"clients/{name}" for name in client), "pyproject.toml"]
    assert git(clone, "diff", "--name-only", before).split() == changed
    assert all(f'"{VERSION}"' in (clone / name).read_text() for name in changed[1:])
    today = datetime.now(UTC).date()
    dated = re.search(rf"^## {re.escape(VERSION)} \((.*)\)$", (clone / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert dated is not None
    assert 0 <= (today - datetime.fromisoformat(dated[1]).date()).days <= 1
    sums = dict(reversed(line.split()) for line in (out / "SHA256SUMS").read_text().splitlines())
    texts = ("SHA256SUMS", "RELEASE-NOTES.md")
    made = {path.name: path for path in out.iterdir() if path.name not in texts}
    assert sums == {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in made.items()}
    package, client = ["deb"] if shutil.which("dpkg-deb") else [], ["tgz"] if shutil.which("npm") else []
    assert sorted(name.rpartition(".")[2] for name in made) == [*package, "gz", "gz", "pyz", *client, "whl", "whl"]
    assert all(VERSION in name for name in made)
    notes = (out / "RELEASE-NOTES.md").read_text()
    assert notes.startswith(f"# Tally {VERSION} ({dated[1]})\n\nNew.\n\n## Upgrade\n")
    assert f"The schema version of the database is {SCHEMA}." in notes
    assert all(name in notes for name in made)
    assert notes.endswith("```text\n" + (out / "SHA256SUMS").read_text() + "```\n")
    with tarfile.open(out / f"tally_analytics_client-{VERSION}.tar.gz") as held:
        assert f"tally_analytics_client-{VERSION}/LICENSE" in held.getnames()
    (wheel,) = out.glob("tally_analytics_server-*.whl")
    with zipfile.ZipFile(wheel) as held:
        assert held.read("tally/CHANGELOG.md") == (clone / "CHANGELOG.md").read_bytes()
    assert git(ROOT, "tag") == tags, "nothing is pushed"
    again = release(clone, VERSION)
    assert (again.returncode, "exists already" in again.stderr) == (1, True)
