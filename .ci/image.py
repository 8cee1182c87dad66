"""Takes the Dockerfile's steps by hand, where there is no container: each RUN, COPY and ENV, in folders of its own.

Then starts what ENTRYPOINT and CMD say as USER says, on a root that is read-only but for the volume, asks as
HEALTHCHECK says, works beside it as `docker exec` does, and ends it by SIGTERM. Not tested by this: the base images,
and Docker itself.
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
# A private view of the file system in which only the volume may be written, and a user who may only read the rest (he
# may where this interpreter is in somebody's home, which is no matter of the image).
READ_ONLY = 'mount --make-rprivate / && mount --bind "$0" "$0" && mount -o remount,ro,bind / && exec "$@"'
AS_USER = ("setpriv", "--clear-groups", "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")


class Image:
    """What the steps have made, below a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.at = folder
        (folder / "bin").mkdir()
        (folder / "bin" / "python").symlink_to(Path(sys.executable).resolve())
        self.environment = {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "HOME": str(folder)}
        self.user, self.volume = "", ""
        self.begins: list[str] = []
        self.asks: list[str] = []

    def here(self, text: str) -> str:
        """A text with the image's own folders where they are here."""
        return re.sub(r"(?<![\w./-])/(src|opt|data)\b", rf"{self.folder}/\1", text)

    def take(self, step: str, rest: str) -> None:
        """One instruction."""
        if step == "RUN":
            print(f"   {rest}", flush=True)
            subprocess.run(["sh", "-ec", self.here(rest)], cwd=self.at, env=self.environment, check=True)
        elif step == "COPY" and not rest.startswith("--from"):
            *names, target = rest.split()
            for name in names:
                place = self.at / target / (name if len(names) > 1 or target == name else "")
                source = ROOT / name
                copy = shutil.copytree if source.is_dir() else shutil.copy
                copy(source, self.at / name if target in (".", "./") or source.is_dir() else place)
        elif step == "WORKDIR":
            self.at = Path(self.here(rest))
            self.at.mkdir(parents=True, exist_ok=True)
        elif step == "ENV":
            for pair in shlex.split(rest):
                name, _, value = pair.partition("=")
                self.environment[name] = self.here(value).replace("$PATH", self.environment["PATH"])
        elif step == "USER":
            self.user = rest
        elif step == "VOLUME":
            self.volume = self.here(rest)
        elif step in ("ENTRYPOINT", "CMD"):
            self.begins += json.loads(rest)
        elif step == "HEALTHCHECK":
            self.asks = json.loads(rest[rest.index("CMD") + 3 :])
        elif step not in ("FROM", "COPY", "EXPOSE"):
            raise SystemExit(f"{step}: this does not know how to take that step")

    def words(self, command: list[str]) -> list[str]:
        """A command as it runs in the container."""
        user, group = self.user.split(":")
        inside = [*AS_USER, f"--reuid={user}", f"--regid={group}", *command]
        return ["unshare", "-m", "sh", "-c", READ_ONLY, self.volume, *inside]

    def run(self, command: list[str]) -> "subprocess.CompletedProcess[str]":
        """A command beside the server."""
        return subprocess.run(
            self.words(command), cwd=self.volume, env=self.environment, capture_output=True, text=True, timeout=60
        )


def main() -> int:
    """Builds, starts, asks, ends."""
    if os.geteuid() != 0 or not all(shutil.which(name) for name in ("unshare", "setpriv", "mount")):
        print("NOT TESTED: the image's steps need root, unshare and setpriv")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        # Others go through it to what is theirs.
        Path(folder).chmod(0o711)
        image = Image(Path(folder))
        text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE).replace("\\\n", " ")
        for line in filter(None, text.splitlines()):
            image.take(*line.split(" ", 1))
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        # Not what the image has, which is all addresses: nobody else's business here.
        image.environment |= {"ANALYTICS_HOST": "127.0.0.1", "ANALYTICS_PORT": str(port)}
        return served(image)


def served(image: Image) -> int:
    """Whether it serves as an image has to."""
    words = image.words(image.begins)
    server = subprocess.Popen(
        words, cwd=image.volume, env=image.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        line = server.stdout.readline()
        assert line.startswith("listening on"), server.communicate()[1]
        well = image.run(image.asks)
        assert well.returncode == 0, well.stderr
        added = image.run(["analytics-server", "website", "add", "example.com"])
        assert added.returncode == 0, added.stderr
        elsewhere = image.run(["sh", "-c", f"touch {image.folder}/opt/x || touch /tmp/x || touch /x"])
        assert elsewhere.returncode != 0, "something but the volume can be written"
        server.send_signal(signal.SIGTERM)
        assert server.wait(30) == 0
        assert image.run(image.asks).returncode != 0, "the health check is content with nothing"
        files = sorted(Path(image.volume).iterdir())
        assert {f"{path.stat().st_uid}:{path.stat().st_gid}" for path in files} == {image.user}
        print("served, healthy, ended in good order; written:", *(path.name for path in files))
        return 0
    finally:
        if server.poll() is None:
            server.kill()


if __name__ == "__main__":
    sys.exit(main())
