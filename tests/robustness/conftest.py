"""Real servers that store backups, a key pair of age, and a small disk."""

import os
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


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Yield a file system of 40 MB, of which 2 MB (5 percent) must stay free."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=40m", "tmpfs", str(place)], capture_output=True, text=True
    )
    if mounted.returncode:
        assert not os.environ.get("TALLY_MUST_TRACE"), mounted.stderr
        pytest.skip(f"NOT TESTED: a small disk; only root may mount one ({mounted.stderr.strip()})")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)
