"""deploy/tally.service: its sandbox, and that a server keeps within it. systemd itself does not run."""

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.app import ROOT
from tests.support.certificate_authority import certificate_authority, need_pebble
from tests.support.process import Serve, Server, need_strace, until

UNITS = [str(ROOT / "deploy" / f"tally.{kind}") for kind in ("service", "socket")]
# Tenths of the rating; it was 37 before the unit filtered system calls.
MAX_EXPOSURE = 15


def analyze(*words: str) -> "subprocess.CompletedProcess[str]":
    """Run systemd-analyze; skip without it, but fail with TALLY_MUST_ANALYZE, as in .ci/run."""
    if shutil.which("systemd-analyze") is None:
        assert not os.environ.get("TALLY_MUST_ANALYZE"), "install systemd-analyze: apt-get install systemd"
        pytest.skip("NOT TESTED: systemd-analyze is not installed (apt-get install systemd)")
    return subprocess.run(["systemd-analyze", *words], capture_output=True, text=True)


def test_the_units_are_valid_and_confined() -> None:
    verified = analyze("verify", *UNITS)
    missing = re.compile(r".*: Command /opt/tally/bin/analytics-server is not executable: No such file or directory")
    lines = (verified.stdout + verified.stderr).splitlines()
    assert [line for line in lines if "tally" in line and not missing.fullmatch(line)] == []
    rated = analyze("security", "--offline=true", f"--threshold={MAX_EXPOSURE}", UNITS[0])
    assert rated.returncode == 0, rated.stdout[-1_000:]
    page = (ROOT / "docs" / "deployment" / "systemd.md").read_text()
    named = re.search(r"rates the unit ([0-9.]+) \(systemd ([0-9]+);", page)
    assert named is not None
    if analyze("--version").stdout.startswith(f"systemd {named[2]} "):
        assert f"Overall exposure level for tally.service: {named[1]} " in rated.stdout


def group(name: str) -> set[str]:
    """Return the system calls of a group, or of the single call that it names."""
    if not name.startswith("@"):
        return {name}
    lines = analyze("syscall-filter", name).stdout.splitlines()[1:]
    names = [line.strip() for line in lines if line.strip() and not line.strip().startswith("#")]
    assert names, name
    return {call for one in names for call in group(one)}


def allowed() -> set[str]:
    """Return the system calls that the unit allows."""
    calls = group("@default")
    for line in re.findall(r"^SystemCallFilter=(.*)$", Path(UNITS[0]).read_text(), re.M):
        found = {call for name in line.lstrip("~").split() for call in group(name)}
        calls = calls - found if line.startswith("~") else calls | found
    return calls


def test_a_server_keeps_within_the_sandbox(serve: Serve, tmp_path: Path) -> None:
    """System calls of setup, event, reports, metrics and stop; no memory that is both written and executed."""
    need_strace()
    trace = tmp_path / "trace"
    unix = tmp_path.parent / "u"
    server = serve("--host", "127.0.0.1", "--host", f"unix:{unix}", prefix=["strace", "-f", "-qq", "-o", str(trace)])
    token = until(lambda: re.search(r"setup#(\S+)", server.stderr()))[1]
    page = {"Content-Type": "application/json", "Sec-Fetch-Site": "same-origin"}
    account = {"token": token, "email": "owner@example.com", "password": "correct horse battery"}
    answer = server.request("POST", "/api/account/setup", account, page)
    page["Cookie"] = answer.headers["Set-Cookie"].partition(";")[0]
    website = server.request("POST", "/api/account/websites", {"domain": "example.com"}, page).json["data"]["id"]
    event = {"type": "pageview", "website_id": website, "url": "https://example.com/"}
    assert server.request("POST", "/api/collect", event).status == 202
    for path in (f"/api/account/websites/{website}/stats?period=7d", "/login", "/healthz"):
        assert server.request("GET", path, headers=page).status == 200
    assert "process_start_time_seconds" in server.request("GET", "/metrics").text, "of /proc/stat"
    check_sandbox(server, trace)


def test_getting_a_certificate_keeps_within_the_sandbox(serve: Serve, tmp_path: Path) -> None:
    need_strace()
    need_pebble()
    with certificate_authority(tmp_path / "authority") as authority:
        authority.start()
        named = "--acme", "tally.example", "--acme-directory", authority.url, "--host", "127.0.0.1"
        port, trace = ("--acme-http-port", str(authority.http_port)), tmp_path / "trace"
        prefix = ["strace", "-f", "-qq", "-o", str(trace)]
        server = serve(*named, *port, env=authority.environment, prefix=prefix)
        until(lambda: "a certificate was issued" in server.stderr(), 120)
        check_sandbox(server, trace)


def check_sandbox(server: Server, trace: Path) -> None:
    """Stop the server and check the system calls of its trace."""
    calls = allowed()
    os.kill(int(trace.read_text().split()[0]), signal.SIGTERM)
    assert server.process.wait() == 0
    server.terminate()  # the process has ended: this closes the pipe
    lines = trace.read_text().splitlines()
    used = {match[1] for line in lines if (match := re.match(r"\d+ +([a-z_0-9]+)\(", line))}
    assert len(used) > 30
    # SQLite gives its files to the owner of the database where it runs as root, as tests may.
    # OpenBLAS, which comes with numpy, places its memory; where that is refused it works all the same.
    assert used - calls - {"mbind"} <= ({"fchown"} if os.geteuid() == 0 else set())
    forbidden = re.compile(r"mprotect\(.*PROT_EXEC|mmap\(.*PROT_WRITE\|PROT_EXEC")
    assert [line for line in lines if forbidden.search(line)] == []
