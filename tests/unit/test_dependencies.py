"""Where the parts come from: bounds on every dependency, locks with hashes, an image that is nobody's root.

.ci/run does what is only checked for here: installs the oldest releases, asks for advisories, takes the image's steps.
"""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.support.app import ROOT
from tests.support.cases import cases

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
EXTRAS = PROJECT["optional-dependencies"]
BUILD = PYPROJECT["build-system"]["requires"]
REQUIREMENTS = [*BUILD, *PROJECT["dependencies"], *(one for extra in EXTRAS.values() for one in extra)]
BOUNDS = re.compile(r"([A-Za-z0-9._-]+)(?:\[[a-z]+\])?>=([0-9.]+),<([0-9.]+)(?:; .+)?")
PINNED = re.compile(
    r"^([A-Za-z0-9._-]+)==([0-9.]+)(?: ; [^\\]+)? \\\n((?: +--hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", re.MULTILINE
)


def name_of(text: str) -> str:
    """As package indexes compare names."""
    return re.sub(r"[._-]+", "-", text).lower()


def version_of(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.strip(".").split("."))


@cases("requirement", REQUIREMENTS)
def test_every_dependency_has_both_bounds(requirement: str) -> None:
    found = BOUNDS.fullmatch(requirement)
    assert found is not None, "write name>=oldest,<first that nobody has tried"
    assert version_of(found[2]) < version_of(found[3])


def locked(file: str) -> dict[str, str]:
    """What a lock pins; everything in it has hashes."""
    text = (ROOT / file).read_text()
    found = {name_of(match[1]): match[2] for match in PINNED.finditer(text)}
    lines = [line for line in text.splitlines() if line and not line.startswith(("#", "    --hash=", "    # "))]
    assert len(lines) == len(found), "something is pinned without hashes, or not pinned"
    return found


@pytest.mark.parametrize(
    ("file", "requirements"),
    [
        ("deploy/requirements.lock", [*PROJECT["dependencies"], *EXTRAS["fast"]]),
        ("deploy/requirements-build.lock", BUILD),
    ],
)
def test_a_lock_holds_what_pyproject_asks_for(file: str, requirements: list[str]) -> None:
    """A bound that is changed without .ci/lock would leave the image with something else."""
    pins = locked(file)
    for requirement in requirements:
        name, least, below = BOUNDS.fullmatch(requirement).groups()  # type: ignore[union-attr]
        assert version_of(least) <= version_of(pins[name_of(name)]) < version_of(below), name


def test_the_oldest_releases_are_told_to_pip() -> None:
    """.ci/run installs with these."""
    done = subprocess.run([sys.executable, str(ROOT / ".ci/lowest.py")], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert len([line for line in lines if "==" in line]) == len(PROJECT["dependencies"])
    assert "aiohttp==3.14.5" in lines


DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text()


def step(name: str) -> list[str]:
    """The instructions of this name in the last stage."""
    stage = DOCKERFILE[DOCKERFILE.rindex("\nFROM ") :]
    return re.findall(rf"^{name} (.+)", stage, re.MULTILINE)


def test_the_image_is_nobodys_root() -> None:
    assert step("USER") == ["10001:10001"]
    assert step("VOLUME") == ["/data"]
    assert "TMPDIR=/data" in step("ENV")
    assert DOCKERFILE.index("USER 10001") < DOCKERFILE.index("ENTRYPOINT")
    installs = [line for line in re.findall(r"^RUN (.+)", DOCKERFILE, re.MULTILINE) if "pip install" in line]
    assert installs
    assert all("--require-hashes" in line or "--no-index" in line for line in installs)
    assert re.search(r"curl|wget|apt-get|ADD |:latest|chmod 777", DOCKERFILE) is None


def test_the_image_asks_by_python_whether_it_is_well() -> None:
    (asked,) = step("HEALTHCHECK")
    command = json.loads(asked[asked.index("CMD") + 3 :])
    assert command[:2] == ["python", "-c"]
    compile(command[2], "HEALTHCHECK", "exec")
    assert "/healthz" in command[2]


def test_the_image_has_what_the_wheel_has() -> None:
    """.dockerignore lets nothing else in: no database, no tests, no .git."""
    let_in = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    lines = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE)
    copied = {name for line in lines for name in line.split()}
    assert let_in == copied
    assert all((ROOT / name).exists() for name in copied)
    wheel = PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert {*wheel["only-include"], *wheel["force-include"]} <= copied


AUDIT = ROOT / ".ci" / "audit.py"
ADVISORY = {"id": "X-1", "fix_versions": ["2"]}
ANSWERS = {
    "known": ({"dependencies": [{"name": "a", "version": "1", "vulns": [ADVISORY]}]}, 1, "X-1"),
    "none": ({"dependencies": [{"name": "a", "version": "1", "vulns": []}]}, 0, "no advisory is known"),
    "unknown": ({"dependencies": [{"name": "a", "skip_reason": "not found"}]}, 0, "NOT AUDITED"),
    "nothing": ("no JSON", 0, "NOT AUDITED"),
}


@pytest.mark.parametrize("answer", ANSWERS)
def test_what_is_not_audited_is_said(answer: str, tmp_path: Path) -> None:
    """pip-audit passes in silence where the index tells it nothing; a stand-in of it gives the answers here."""
    said, status, words = ANSWERS[answer]
    text = said if isinstance(said, str) else json.dumps(said)
    (tmp_path / "pip_audit.py").write_text(f"print({text!r})")
    done = subprocess.run(
        [sys.executable, str(AUDIT)], capture_output=True, text=True, env={"PYTHONPATH": str(tmp_path)}, check=False
    )
    assert (done.returncode, words in done.stdout) == (status, True), done.stdout + done.stderr


def test_the_security_policy_says_what_it_has_to() -> None:
    text = (ROOT / "SECURITY.md").read_text()
    for heading in (
        "How to report",
        "Who can do what",
        "What is stored",
        "What is not stored",
        "What is not protected",
    ):
        assert f"## {heading}" in text
    assert "@" not in re.sub(r"`[^`]*`", "", text), "no address that nobody reads"
