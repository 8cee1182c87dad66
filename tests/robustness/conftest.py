"""Real servers that store backups, and a key pair of age."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.offsite import KINDS, StorageServer, missing, running


@pytest.fixture(params=KINDS)
def storage(request: pytest.FixtureRequest) -> Iterator[StorageServer]:
    with running(request.param) as server:
        yield server


@pytest.fixture
def identity(tmp_path: Path) -> tuple[Path, str]:
    """A private key and its public key, made by age-keygen."""
    missing("age")
    file = tmp_path / "identity.txt"
    subprocess.run(["age-keygen", "-o", file], check=True, capture_output=True)
    return file, subprocess.run(["age-keygen", "-y", file], check=True, capture_output=True, text=True).stdout.strip()
