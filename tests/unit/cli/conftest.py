"""The command in the process of the tests."""

import io
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from analytics_server import main
from tests.support.process import Command


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Return the command in this process, in an empty directory, without settings in its environment."""
    for name in [name for name in os.environ if name.startswith("ANALYTICS_")]:
        monkeypatch.delenv(name)

    def run(
        *arguments: str, stdin: str = "", env: Mapping[str, str] | None = None
    ) -> "subprocess.CompletedProcess[str]":
        with monkeypatch.context() as place:
            place.chdir(tmp_path)
            place.setattr(sys, "stdin", io.StringIO(stdin))
            for name, value in (env or {}).items():
                place.setenv(name, value)
            capsys.readouterr()
            try:
                status = main(arguments)
            except SystemExit as usage:  # argparse ends so
                status = int(usage.code or 0)
            printed = capsys.readouterr()
            return subprocess.CompletedProcess(arguments, status, printed.out, printed.err)

    return run
