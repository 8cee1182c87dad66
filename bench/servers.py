"""The processes that are measured: this project's server on a file, and the bare handler beside it.

Both run on the same interpreter and the same kind of event loop: uvloop where it is installed, as the product picks it
itself, or asyncio's own, as in an installation without it (HIDDEN). They listen on 127.0.0.1, on a port of the system's
choice, and end with the `with` that started them. Rate limits are lifted: all requests come from one machine.
"""

import importlib.util
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

ROOT = Path(__file__).resolve().parent.parent
COMMAND = (sys.executable, str(ROOT / "analytics_server.py"))
# As if uvloop were not installed: its import fails.
HIDDEN = "import sys; sys.modules['uvloop'] = None\n"
_WITHOUT = f"{HIDDEN}sys.path.insert(0, {str(ROOT)!r})\nimport analytics_server\nsys.exit(analytics_server.main())"
HAS_UVLOOP = importlib.util.find_spec("uvloop") is not None
LIFTED = tuple(f"--{of}-per-minute=100000000" for of in ("client", "website", "key"))

# Parses and answers, nothing else: what this framework gives at most on this machine.
BARE = """
import asyncio
import orjson
from aiohttp import web
async def take(request):
    orjson.loads(await request.read())
    return web.Response(body=b'{"ok":true,"accepted":1,"rejected":0}', status=202, content_type="application/json")
async def serve():
    app = web.Application()
    app.router.add_post("/api/collect", take)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print("listening on http://127.0.0.1:%d" % runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()
try:
    from uvloop import new_event_loop
except ImportError:
    new_event_loop = None
with asyncio.Runner(loop_factory=new_event_loop) as runner:
    runner.run(serve())
"""


class Server:
    """A process that says where it listens."""

    def __init__(self, *words: str) -> None:
        self._words = words
        self.port = 0
        self.started_s = 0.0

    def __enter__(self) -> Self:
        begun = time.perf_counter()
        self.process = subprocess.Popen(self._words, stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        line = self.process.stdout.readline().decode()
        self.started_s = time.perf_counter() - begun
        if not line.startswith("listening on "):
            self.process.wait()
            raise RuntimeError("a server did not start: see above")
        self.port = int(line.strip().rsplit(":", 1)[1])
        return self

    def __exit__(self, kind: type[BaseException] | None, value: object, trace: TracebackType | None) -> None:
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait()

    def kill(self) -> None:
        """Ends the process as a power cut would."""
        self.process.kill()
        self.process.wait()

    def resident_mb(self) -> float:
        """What the process holds in memory, in MB of 1,000,000 bytes."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024 / 1e6
        raise RuntimeError("the process is gone")

    def cpu_s(self) -> float:
        """The processor time that the process has used."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Bare(Server):
    """A handler that parses and answers."""

    def __init__(self, *, uvloop: bool = True) -> None:
        super().__init__(sys.executable, "-c", BARE if uvloop else HIDDEN + BARE)


class Tally(Server):
    """This project's server on a file."""

    def __init__(self, db: Path, *, uvloop: bool = True, options: Sequence[str] = ()) -> None:
        words = COMMAND if uvloop else (sys.executable, "-c", _WITHOUT)
        super().__init__(*words, "serve", "--port", "0", "--db", str(db), *LIFTED, *options)

    def figures(self) -> dict[str, float]:
        """What /metrics tells."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics") as answer:
            lines = answer.read().decode().splitlines()
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[:1] != "#")}


def command(*words: str) -> subprocess.CompletedProcess[str]:
    """Runs a command of the project."""
    return subprocess.run([*COMMAND, *words], capture_output=True, text=True, check=False)


def has_command(name: str) -> bool:
    """Whether the project has that command."""
    return command(name, "--help").returncode == 0
