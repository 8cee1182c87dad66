"""Dependencies: bounds on each, locks with hashes, and an image that does not run as root.

.ci/run does what is only checked for here: installs the oldest releases, queries advisories, runs the image's steps.
"""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.support.app import ROOT
from tests.support.cases import cases

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
EXTRAS = PROJECT["optional-dependencies"]
BUILD = PYPROJECT["build-system"]["requires"]
REQUIREMENTS = [*BUILD, *PROJECT["dependencies"], *(one for extra in EXTRAS.values() for one in extra)]
BOUNDS = re.compile(r"([A-Za-z0-9._-]+)(?:\[[a-z]+\])?>=([0-9.]+),<([0-9.]+)(?:; .+)?")
PINNED = re.compile(
    r"^([A-Za-z0-9._-]+)==([0-9.]+(?:post[0-9]+)?)(?: ; [^\\]+)? \\\n((?: +--hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)",
    re.MULTILINE,
)


def name_of(text: str) -> str:
    """Return the normalized name of a package."""
    return re.sub(r"[._-]+", "-", text).lower()


def version_of(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.strip(".").split("."))


@cases("requirement", REQUIREMENTS)
def test_every_dependency_has_both_bounds(requirement: str) -> None:
    found = BOUNDS.fullmatch(requirement)
    assert found is not None, "write name>=oldest,<first untested"
    assert version_of(found[2]) < version_of(found[3])


def locked(file: str) -> dict[str, str]:
    """Return the versions of a lock file, in which every package has hashes."""
    text = (ROOT / file).read_text()
    found = {name_of(match[1]): match[2] for match in PINNED.finditer(text)}
    lines = [line for line in text.splitlines() if line and not line.startswith(("#", "    --hash=", "    # "))]
    assert len(lines) == len(found), "something is pinned without hashes, or not pinned"
    return found


@pytest.mark.parametrize(
    ("file", "requirements"),
    [
        ("deploy/requirements.lock", [*PROJECT["dependencies"], *EXTRAS["acme"], *EXTRAS["oidc"], *EXTRAS["passkeys"]]),
        ("deploy/requirements-offsite.lock", [*EXTRAS["s3"], *EXTRAS["sftp"], *EXTRAS["age"]]),
        ("deploy/requirements-build.lock", BUILD),
    ],
)
def test_locks_match_pyproject(file: str, requirements: list[str]) -> None:
    """A bound changed without running .ci/lock would not apply to the image."""
    pins = locked(file)
    for requirement in requirements:
        name, least, below = BOUNDS.fullmatch(requirement).groups()  # type: ignore[union-attr]
        assert version_of(least) <= version_of(pins[name_of(name)]) < version_of(below), name


def test_the_lock_with_extras_has_the_same_releases() -> None:
    """What is tested and audited is the same in both images."""
    assert locked("deploy/requirements.lock").items() < locked("deploy/requirements-offsite.lock").items()


def test_uvloop_is_installed_where_it_has_wheels() -> None:
    """Elsewhere pip would compile it, which a usual installation cannot."""
    (uvloop,) = [Requirement(line) for line in PROJECT["dependencies"] if line.startswith("uvloop")]
    assert uvloop.marker is not None
    of_cpython = {"platform_python_implementation": "CPython"}
    wheels = [("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "x86_64"), ("darwin", "arm64")]
    for system, machine in wheels:
        assert uvloop.marker.evaluate({"sys_platform": system, "platform_machine": machine} | of_cpython)
    for system, machine in [("win32", "AMD64"), ("win32", "x86_64"), ("linux", "armv7l"), ("freebsd14", "x86_64")]:
        assert not uvloop.marker.evaluate({"sys_platform": system, "platform_machine": machine} | of_cpython)
    assert not uvloop.marker.evaluate(
        {"sys_platform": "linux", "platform_machine": "x86_64", "platform_python_implementation": "PyPy"}
    )


def test_oldest_releases_are_constraints() -> None:
    """.ci/run installs with these."""
    done = subprocess.run([sys.executable, str(ROOT / ".ci/lowest.py")], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert len([line for line in lines if "==" in line]) == len(PROJECT["dependencies"])
    assert "aiohttp==3.14.5" in lines


DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text()


def step(name: str) -> list[str]:
    """Return the instructions of this name in the last stage."""
    stage = DOCKERFILE[DOCKERFILE.rindex("\nFROM ") :]
    return re.findall(rf"^{name} (.+)", stage, re.MULTILINE)


def test_the_image_does_not_run_as_root() -> None:
    assert step("USER") == ["10001:10001"]
    assert step("VOLUME") == ["/data"]
    assert "TMPDIR=/data" in step("ENV")
    assert DOCKERFILE.index("USER 10001") < DOCKERFILE.index("ENTRYPOINT")
    installs = [line for line in re.findall(r"^RUN (.+)", DOCKERFILE, re.MULTILINE) if "pip install" in line]
    assert installs
    assert all("--require-hashes" in line or "--no-index" in line for line in installs)
    assert re.search(r"curl|wget|apt-get|ADD |:latest|chmod 777", DOCKERFILE) is None


def test_the_health_check_of_the_image_uses_python() -> None:
    (words,) = step("HEALTHCHECK")
    command = json.loads(words[words.index("CMD") + 3 :])
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


@pytest.mark.parametrize("hosted", ["", "true"])
@pytest.mark.parametrize("answer", ANSWERS)
def test_skipped_audits_are_reported(answer: str, hosted: str, tmp_path: Path) -> None:
    """pip-audit passes silently if the index has no answer; a replacement program gives the answers here. Hosted CI
    fails then."""
    message, status, words = ANSWERS[answer]
    if hosted and words == "NOT AUDITED":
        status = 1
    text = message if isinstance(message, str) else json.dumps(message)
    (tmp_path / "pip_audit.py").write_text(f"print({text!r})")
    done = subprocess.run(
        [sys.executable, str(AUDIT)],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(tmp_path), "GITHUB_ACTIONS": hosted},
        check=False,
    )
    assert (done.returncode, words in done.stdout) == (status, True), done.stdout + done.stderr


def test_a_skipped_audit_is_in_the_last_lines_of_ci() -> None:
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    (audit,) = [line for line in lines if ".ci/audit.py" in line]
    assert audit.endswith('| tee "$work/audit.log"')
    assert any("NOT AUDITED" in line and "audit.log" in line for line in lines[-3:])


@pytest.mark.parametrize("name", ["deploy/install.sh", "deploy/deb.sh", "deploy/wheel.sh", "docs/upgrading.md"])
def test_installations_download_by_hash_alone(name: str) -> None:
    """pip downloads what a lock names, or nothing: not the newest build tools either, which run code."""
    calls = re.findall(r"^.*\b(?:pip\S* (?:--\S+ )*(?:install|wheel)|add) .*$", (ROOT / name).read_text(), re.M)
    calls = [
        call for call in calls if not call.startswith(("add()", "  add()", "#  ", "# `")) and "website add" not in call
    ]
    assert calls
    for call in calls:
        assert "--require-hashes" in call or "--no-index" in call, call


def test_sections_of_the_security_policy() -> None:
    text = (ROOT / "SECURITY.md").read_text()
    for heading in (
        "How to report",
        "Who can do what",
        "What is stored",
        "What is not stored",
        "What is not protected",
    ):
        assert f"## {heading}" in text
    assert "@" not in re.sub(r"`[^`]*`", "", text), "no email address"
