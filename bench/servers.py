"""The measured processes: this project's server on a database file, and a bare aiohttp handler.

Both run on the same interpreter and kind of event loop: uvloop if it is installed, or asyncio's own (WITHOUT_UVLOOP).
They listen on a free port of 127.0.0.1 and are stopped at the end of their `with` block. The server has no rate limits,
because all requests come from one machine.
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
# Makes `import uvloop` fail.
WITHOUT_UVLOOP = "import sys; sys.modules['uvloop'] = None\n"
_TALLY_WITHOUT_UVLOOP = (
    f"{WITHOUT_UVLOOP}sys.path.insert(0, {str(ROOT)!r})\nimport analytics_server\nsys.exit(analytics_server.main())"
)
HAS_UVLOOP = importlib.util.find_spec("uvloop") is not None
NO_RATE_LIMITS = tuple(f"--{of}-per-minute=100000000" for of in ("client", "website", "key"))

# Without a token, /metrics refuses all requests once one has shown signs of a proxy.
METRICS_TOKEN = "bench"
METRICS = ("--metrics-token", METRICS_TOKEN)

# A handler that only parses and responds: the maximum rate of aiohttp on this machine.
BARE_HANDLER = """
import asyncio
import orjson
from aiohttp import web
async def collect(request):
    orjson.loads(await request.read())
    return web.Response(body=b'{"ok":true,"accepted":1,"rejected":0}', status=202, content_type="application/json")
async def serve():
    app = web.Application()
    app.router.add_post("/api/collect", collect)
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


def cpu_s(pid: int) -> float:
    """Return the processor time of a process in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Server:
    """A process that prints `listening on URL` as its first line. `started_s`: the seconds until then."""

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
        """Kill the process (SIGKILL)."""
        self.process.kill()
        self.process.wait()

    def resident_mb(self) -> float:
        """Return the resident memory in MB of 1,000,000 bytes."""
        return self._figure("status", "VmRSS") * 1024 / 1e6

    def _figure(self, file: str, name: str) -> int:
        for line in Path(f"/proc/{self.process.pid}/{file}").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1])
        raise RuntimeError("the process has ended")

    def cpu_s(self) -> float:
        """Return the processor time of the process in seconds."""
        return cpu_s(self.process.pid)

    def written(self) -> int:
        """Return how many bytes the process has written: to files, and in responses."""
        return self._figure("io", "wchar")

    def wait_until_idle(self) -> None:
        """Wait until the process has used less than 2 % of a core for half a second: what follows a start has ended."""
        before = -1.0
        while self.cpu_s() - before >= 0.01:
            before = self.cpu_s()
            time.sleep(0.5)


class BareServer(Server):
    """An aiohttp server whose handler only parses and responds."""

    def __init__(self, *, uvloop: bool = True) -> None:
        super().__init__(sys.executable, "-c", BARE_HANDLER if uvloop else WITHOUT_UVLOOP + BARE_HANDLER)


class Tally(Server):
    """This project's server on a file."""

    def __init__(self, db: Path, *, uvloop: bool = True, options: Sequence[str] = ()) -> None:
        words = COMMAND if uvloop else (sys.executable, "-c", _TALLY_WITHOUT_UVLOOP)
        super().__init__(*words, "serve", "--port", "0", "--db", str(db), *NO_RATE_LIMITS, *METRICS, *options)

    def figures(self) -> dict[str, float]:
        """Return the values of /metrics by name and labels."""
        headers = {"Authorization": f"Bearer {METRICS_TOKEN}"}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/metrics", headers=headers)
        with urllib.request.urlopen(request) as answer:
            lines = answer.read().decode().splitlines()
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[:1] != "#")}


def command(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the project."""
    return subprocess.run([*COMMAND, *words], capture_output=True, text=True, check=False)


def has_command(name: str) -> bool:
    """Return whether the project has that command."""
    return command(name, "--help").returncode == 0
