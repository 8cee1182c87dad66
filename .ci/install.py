"""Runs deploy/install.sh twice, as an installation and an update, on directories of its own, and the unit's command.

/etc, /opt, /var/lib and /run are temporary directories in a private mount namespace; /etc begins as a copy, /opt with
what it has. systemd does not run in it; tests/robustness/test_systemd_unit.py checks the units.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DATABASE = "/var/lib/tally/analytics.db"
AS_TALLY = ("setpriv", "--reuid=tally", "--regid=tally", "--clear-groups")
COMMAND = "/opt/tally/bin/analytics-server"


def main() -> int:
    """Start this program in the namespace; return the exit status."""
    if os.geteuid() != 0 or not all(shutil.which(name) for name in ("unshare", "setpriv", "useradd")):
        print("NOT TESTED: deploy/install.sh needs root, unshare, setpriv and useradd")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o711)
        return subprocess.run(["unshare", "-m", sys.executable, __file__, folder]).returncode


def inside(folder: Path) -> None:
    """Install, use and update. Raises AssertionError and CalledProcessError."""
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    shutil.copytree("/etc", folder / "etc", symlinks=True)
    for other in Path("/opt").glob("*/"):
        (folder / "opt" / other.name).mkdir(parents=True)
        subprocess.run(["mount", "--bind", other, folder / "opt" / other.name], check=True)
    for name in ("etc", "opt", "var/lib", "run"):
        (folder / name).mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", "--rbind", folder / name, f"/{name}"], check=True)
    run(str(ROOT / "deploy" / "install.sh"))
    unit, sockets = (Path(f"/etc/systemd/system/tally.{kind}").read_text() for kind in ("service", "socket"))
    (begins,) = re.findall(r"^ExecStart=(.*)$", unit, re.M)
    (group,) = re.findall(r"^SocketGroup=(.*)$", sockets, re.M)
    run("getent", "group", group)
    assert begins.split()[0] == COMMAND
    server = subprocess.Popen(
        [*AS_TALLY, *begins.split(), "--port", "0"], stdout=subprocess.PIPE, text=True, cwd="/", umask=0o077
    )
    assert server.stdout is not None
    assert server.stdout.readline().startswith("listening on http://")
    run(*AS_TALLY, COMMAND, "website", "add", "example.com", "--db", DATABASE)
    Path("/etc/tally.env").write_text("ANALYTICS_LOG_LEVEL=info\n")
    run(str(ROOT / "deploy" / "install.sh"))
    server.terminate()
    assert server.wait(60) == 0
    assert Path("/etc/tally.env").read_text() == "ANALYTICS_LOG_LEVEL=info\n", "an update keeps the settings"
    listed = run(*AS_TALLY, COMMAND, "website", "list", "--db", DATABASE)
    assert "example.com" in listed, listed
    print("installed, served, updated; the database has the website")


def run(*words: str) -> str:
    """Run a command and return its standard output."""
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, cwd="/").stdout


if __name__ == "__main__":
    sys.exit(main() if len(sys.argv) == 1 else inside(Path(sys.argv[1])))
