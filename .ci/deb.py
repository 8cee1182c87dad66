"""Installs a Debian package, uses it, upgrades it, removes and purges it, on a copy of this machine.

    python3 .ci/deb.py FILE

The copy is an overlay in a private mount namespace, so dpkg and what the package's scripts call are Debian's own, and
nothing changes outside. systemd does not run in it: of systemctl, what needs it is only recorded.
"""

import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

AS_TALLY = ("setpriv", "--reuid=tally", "--regid=tally", "--clear-groups")
COMMAND = "/usr/bin/analytics-server"
DATABASE = Path("/var/lib/tally/analytics.db")
SETTINGS = "ANALYTICS_LOG_LEVEL=info\n"
CALLS = Path("/run/systemctl.log")
# These change files.
SYSTEMCTL = f"""#!/bin/sh
case " $* " in *" preset "* | *" is-enabled "*) SYSTEMD_OFFLINE=1 exec /usr/bin/systemctl.real "$@" ;; esac
echo "$*" >>{CALLS}
"""


def main(package: str) -> int:
    """Start this program in the namespace; return the exit status."""
    if os.geteuid() != 0 or not all(map(shutil.which, ("unshare", "setpriv", "dpkg", "deb-systemd-invoke"))):
        print("NOT TESTED: the Debian package needs root, unshare, setpriv, and Debian or Ubuntu")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run(["unshare", "-m", sys.executable, __file__, package, folder]).returncode


def inside(package: Path, folder: Path) -> None:
    """Make the copy and change to it. Raises AssertionError and CalledProcessError."""
    run("mount", "--make-rprivate", "/")
    run("mount", "-t", "tmpfs", "none", str(folder))
    for name in ("upper", "work", "root"):
        (folder / name).mkdir()
    layers = f"lowerdir=/,upperdir={folder / 'upper'},workdir={folder / 'work'}"
    root = folder / "root"
    run("mount", "-t", "overlay", "overlay", "-o", layers, str(root))
    for name in ("proc", "dev"):
        run("mount", "--rbind", f"/{name}", str(root / name))
    shutil.copy(package, root / "tmp" / "tally.deb")
    os.chroot(root)
    os.chdir("/")
    check(Path("/tmp/tally.deb"))


def check(package: Path) -> None:
    """Install, use, upgrade, remove and purge. Raises AssertionError and CalledProcessError."""
    Path("/usr/bin/systemctl").rename("/usr/bin/systemctl.real")
    Path("/usr/bin/systemctl").write_text(SYSTEMCTL)
    Path("/usr/bin/systemctl").chmod(0o755)
    Path("/run/systemd/system").mkdir(parents=True, exist_ok=True)
    policy = Path("/usr/sbin/policy-rc.d")
    policy.write_text("#!/bin/sh\nexit 101\n")
    policy.chmod(0o755)
    install(package)
    assert "daemon-reload" in calls()
    assert not re.search(r"\b(re)?start\b", calls()), "policy-rc.d forbids starting services"
    assert (mode(DATABASE.parent), mode(Path("/etc/tally.env"))) == (0o700, 0o600)
    assert DATABASE.parent.owner() == "tally"
    assert Path("/etc/systemd/system/multi-user.target.wants/tally.service").is_symlink()
    assert list(Path("/usr/lib/tally/tally/__pycache__").glob("settings.*.pyc")), "modules are compiled"

    unit = Path("/usr/lib/systemd/system/tally.service").read_text()
    (begins,) = re.findall(r"^ExecStart=(.*)$", unit, re.M)
    assert begins.split()[0] == COMMAND
    server = start(begins)
    run(*AS_TALLY, COMMAND, "website", "add", "example.com", "--db", str(DATABASE))
    Path("/etc/tally.env").write_text(SETTINGS)

    policy.unlink()
    newer = Path("/tmp/newer")
    run("dpkg-deb", "-R", str(package), str(newer))
    control = newer / "DEBIAN" / "control"
    control.write_text(re.sub(r"^Version: .*", "Version: 999.0.0", control.read_text(), flags=re.M))
    run("dpkg-deb", "-Znone", "-b", str(newer), "/tmp/newer.deb")
    install(Path("/tmp/newer.deb"))
    assert re.search(r"\bstart tally.socket\n.*\brestart tally.service\n", calls(), re.S), calls()
    stop(server)
    assert Path("/etc/tally.env").read_text() == SETTINGS, "an upgrade keeps the settings"
    stop(start(begins))
    assert "example.com" in run(*AS_TALLY, COMMAND, "website", "list", "--db", str(DATABASE))

    run("dpkg", "--remove", "tally")
    assert re.search(r"\bstop .*tally.service", calls())
    assert not Path("/usr/lib/tally").exists()
    assert DATABASE.stat().st_size
    assert Path("/etc/tally.env").read_text() == SETTINGS
    run("dpkg", "--purge", "tally")
    assert DATABASE.stat().st_size, "a purge keeps the database"
    left = [path for path in Path("/etc").rglob("*tally*") if not path.is_relative_to("/etc/alternatives")]
    assert left == [], left
    print("installed, served, upgraded, removed, purged; the database is still there")


def install(package: Path) -> None:
    run("dpkg", "--force-unsafe-io", "--install", str(package))


def start(command: str) -> "subprocess.Popen[str]":
    """Start the server as the unit does; request /healthz."""
    words = [*AS_TALLY, *command.split(), "--port", "0"]
    server = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd="/", umask=0o077)
    assert server.stdout is not None
    url = server.stdout.readline().removeprefix("listening on ").strip()
    assert urllib.request.urlopen(f"{url}/healthz").status == 200
    return server


def stop(server: "subprocess.Popen[str]") -> None:
    server.terminate()
    assert server.wait(60) == 0


def calls() -> str:
    """Return what systemctl was called with since the last call of this function."""
    found = CALLS.read_text()
    CALLS.write_text("")
    return found


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def run(*words: str) -> str:
    """Run a command and return its standard output."""
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]) if len(sys.argv) == 2 else inside(Path(sys.argv[1]), Path(sys.argv[2])))
