"""Runs the steps of deploy/Dockerfile without Docker: each RUN, COPY and ENV, in directories of its own.

Then starts ENTRYPOINT and CMD as the user of USER, on a root that is read-only except for the volume, runs HEALTHCHECK,
runs commands as `docker exec` does, and stops it by SIGTERM. Not tested: the base images and Docker itself.
"""

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# A private mount namespace in which only the volume can be written. The user can read everything, since the Python
# interpreter may be in a home directory, which is not part of the image.
READ_ONLY = 'mount --make-rprivate / && mount --bind "$0" "$0" && mount -o remount,ro,bind / && exec "$@"'
AS_USER = ("setpriv", "--clear-groups", "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")


class Image:
    """The result of the steps, below a directory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.at = folder
        (folder / "bin").mkdir()
        (folder / "bin" / "python").symlink_to(Path(sys.executable).resolve())
        self.environment = {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "HOME": str(folder)}
        self.user, self.volume = "", ""
        self.begins: list[str] = []
        self.health_check: list[str] = []

    def here(self, text: str) -> str:
        """Return the text with the paths of the image replaced by their places here."""
        return re.sub(r"(?<![\w./-])/(src|opt|data)\b", rf"{self.folder}/\1", text)

    def execute(self, step: str, rest: str) -> None:
        """Execute one instruction."""
        if step == "RUN":
            print(f"   {rest}", flush=True)
            subprocess.run(["sh", "-ec", self.here(rest)], cwd=self.at, env=self.environment, check=True)
        elif step == "COPY" and not rest.startswith("--from"):
            *names, target = rest.split()
            for source in (ROOT / name for name in names):
                if source.is_dir():
                    shutil.copytree(source, self.at / target)
                else:
                    shutil.copy(source, self.at / target / source.name)
        elif step == "WORKDIR":
            self.at = Path(self.here(rest))
            self.at.mkdir(parents=True, exist_ok=True)
        elif step == "ENV":
            for pair in shlex.split(rest):
                name, _, value = pair.partition("=")
                self.environment[name] = self.here(value).replace("$PATH", self.environment["PATH"])
        elif step == "ARG":
            name, _, value = rest.partition("=")
            self.environment[name] = value
        elif step == "USER":
            self.user = rest
        elif step == "VOLUME":
            self.volume = self.here(rest)
        elif step in ("ENTRYPOINT", "CMD"):
            self.begins += json.loads(rest)
        elif step == "HEALTHCHECK":
            self.health_check = json.loads(rest[rest.index("CMD") + 3 :])
        elif step not in ("FROM", "COPY", "EXPOSE"):
            raise SystemExit(f"{step}: this instruction is not implemented")

    def words(self, command: list[str]) -> list[str]:
        """Return the words of a command that runs as in the container."""
        user, group = self.user.split(":")
        inside = [*AS_USER, f"--reuid={user}", f"--regid={group}", *command]
        return ["unshare", "-m", "sh", "-c", READ_ONLY, self.volume, *inside]

    def run(self, command: list[str]) -> "subprocess.CompletedProcess[str]":
        """Run a command while the server runs."""
        return subprocess.run(
            self.words(command), cwd=self.volume, env=self.environment, capture_output=True, text=True, timeout=60
        )


def main() -> int:
    """Build, start, check and stop the image; return the exit status."""
    if os.geteuid() != 0 or not all(shutil.which(name) for name in ("unshare", "setpriv", "mount")):
        print("NOT TESTED: the image's steps need root, unshare and setpriv")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        # The user of the image needs to reach its files below.
        Path(folder).chmod(0o711)
        image = Image(Path(folder))
        dockerfile = (ROOT / "deploy" / "Dockerfile").read_text()
        text = re.sub(r"^#.*\n", "", dockerfile, flags=re.MULTILINE).replace("\\\n", " ")
        for line in filter(None, text.splitlines()):
            image.execute(*line.split(" ", 1))
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        # The image listens on all addresses; here loopback is enough.
        image.environment |= {"ANALYTICS_HOST": "127.0.0.1", "ANALYTICS_PORT": str(port)}
        return served(image)


def served(image: Image) -> int:
    """Start the server, check it, stop it; return the exit status."""
    words = image.words(image.begins)
    server = subprocess.Popen(
        words, cwd=image.volume, env=image.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        line = server.stdout.readline()
        assert line.startswith("listening on"), server.communicate()[1]
        checked = image.run(image.health_check)
        assert checked.returncode == 0, checked.stderr
        added = image.run(["analytics-server", "website", "add", "example.com"])
        assert added.returncode == 0, added.stderr
        elsewhere = image.run(["sh", "-c", f"touch {image.folder}/opt/x || touch /tmp/x || touch /x"])
        assert elsewhere.returncode != 0, "something but the volume can be written"
        server.send_signal(signal.SIGTERM)
        assert server.wait(30) == 0
        assert image.run(image.health_check).returncode != 0, "the health check passes without a server"
        files = sorted(Path(image.volume).iterdir())
        assert {f"{path.stat().st_uid}:{path.stat().st_gid}" for path in files} == {image.user}
        print("served, healthy, stopped; written:", *(path.name for path in files))
        return 0
    finally:
        if server.poll() is None:
            server.kill()


if __name__ == "__main__":
    sys.exit(main())
