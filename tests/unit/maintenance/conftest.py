"""A command on a file's database, in this process."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from analytics_server import main
from tests.unit.cli.test_commands import Done


@pytest.fixture
def run(db: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """Return a function that runs a command on the database that the fixture `db` of a file makes."""

    def run(*words: object) -> Done:
        capsys.readouterr()
        status = main([*map(str, words), "--db", str(db)])
        return subprocess.CompletedProcess(words, status, *capsys.readouterr())

    return run
