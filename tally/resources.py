"""What is installed: files beside the code (schema.sql, CHANGELOG.md, static/, data/), the version, the program itself.

A wheel has them inside the package (pyproject.toml), a source tree one level up. The same rule serves wheel, source
tree and editable install: inside the package if the file exists there, else one level up.
"""

import re
import sys
from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
# The command of the processes that the server starts for uploads (tally/api/uploads.py). It is in no help.
UPLOAD_WORKER = "upload-worker"
# The command of the process that reads the file of an import (tally/transfer/reader_process.py). It is in no help.
READER_PROCESS = "reader-process"


def asset(name: str) -> Path:
    """Return the path of an installed file such as `schema.sql` or `static/openapi.yaml`."""
    inside = _PACKAGE / name
    return inside if inside.exists() else _PACKAGE.parent / name


class DataFile:
    """A file of data that comes with the code, or another one that is used in its place."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._other: Path | None = None

    @property
    def path(self) -> Path:
        """Return the file in use."""
        return self._other or asset(self._name)

    def replace(self, path: Path | None) -> bool:
        """Use another file from now on, or the bundled one (None); return whether the file may have changed."""
        has_changed = path is not None or self._other is not None
        self._other = path
        return has_changed


def program() -> tuple[list[str], Path]:
    """Return the words that start this program with a command, and the directory where Python has to find it."""
    # A program made by PyInstaller is its own interpreter, and starts analytics_server by itself.
    rest = [] if getattr(sys, "frozen", False) else ["-m", "analytics_server"]
    return [sys.executable, *rest], _PACKAGE.parent


UPLOAD_ENDINGS = (".part", ".json")
"""The endings of the files in `uploads_directory`: what has arrived of an upload, and what is known of it."""


def uploads_directory(db: Path) -> Path:
    """Return the directory of the files that browsers upload to a server's database (tally/api/uploads.py)."""
    return db.with_name(db.name + ".uploads")


def install_command(extra: str) -> str:
    """Return how to install an extra of the package, for an error."""
    return f"pip install 'tally-analytics-server[{extra}]', or `pip install '.[{extra}]'` in a clone"


@cache
def tally_version() -> str:
    """Return the version: of a wheel such as 0.1.0, of a clone such as 0.1.0+git.1a2b3c4d5e6f (its commit)."""
    project = _PACKAGE.parent / "pyproject.toml"
    if (_PACKAGE / "schema.sql").exists() or not project.exists():
        from importlib.metadata import version  # here: 10 ms, and most commands do not show the version

        return version("tally-analytics-server")
    found = re.search(r'^version = "(.+)"$', project.read_text("utf-8"), re.MULTILINE)
    commit = _commit(_PACKAGE.parent / ".git")
    return f"{found[1] if found else 0}{'+git.' if commit else ''}{commit[:12]}"


def _commit(git: Path) -> str:
    """Return the commit that is checked out, "" where that cannot be read; needs no git (gitrepository-layout(5))."""
    try:
        if git.is_file():  # a work tree beside the repository
            git = git.parent / git.read_text().removeprefix("gitdir: ").strip()
        head = (git / "HEAD").read_text().strip()
        if not head.startswith("ref: "):
            return head
        ref = head.removeprefix("ref: ")
        shared = git / "commondir"
        git = git / shared.read_text().strip() if shared.exists() else git
        if (git / ref).exists():
            return (git / ref).read_text().strip()
        packed = re.search(rf"^([0-9a-f]+) {re.escape(ref)}$", (git / "packed-refs").read_text(), re.MULTILINE)
        return packed[1] if packed else ""
    except OSError:
        return ""
