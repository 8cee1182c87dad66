"""The real command: run to its end, or as a server process."""

import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.app import CHROME, ROOT, Answer, unpacked_countries

NOBODY = 65_534
by_root = pytest.mark.skipif(os.geteuid() != 0, reason="NOT TESTED: what another user may do (run the tests as root)")


def clean_environment(**more: str) -> dict[str, str]:
    """Return the environment without the settings of Tally; Python keeps compiled modules for the next process."""
    removed = ("ANALYTICS_", "PYTHONDONTWRITEBYTECODE")
    return {name: value for name, value in os.environ.items() if not name.startswith(removed)} | more


def accept_interrupts() -> None:
    """Undo ignored SIGINT and SIGHUP. Background jobs and nohup start so, and commands of tests would inherit it."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


# Options for tests that are not about limits: no limits of requests, and UNLIMITED without those of new texts.
NO_RATE_LIMITS = tuple(word for name in ("client", "website", "key") for word in (f"--{name}-per-minute", "10000000"))
UNLIMITED = (*NO_RATE_LIMITS, "--max-new-values", "10000000", "--max-new-names", "10000000", "--max-event-data", "0")

Command = Callable[..., "subprocess.CompletedProcess[str]"]


class Server:
    """The real server as a process, with the bundled countries unpacked: unpacking them takes 0.3 s at each start."""

    def __init__(
        self,
        db: Path,
        arguments: tuple[str, ...],
        env: Mapping[str, str],
        log: Path,
        prefix: list[str],
        pass_fds: tuple[int, ...] = (),
    ) -> None:
        self.db, self._log = db, log
        words = [*prefix, sys.executable, str(ROOT / "analytics_server.py"), "serve", "--port", "0", "--db", str(db)]
        with log.open("ab") as stderr:
            self.process = subprocess.Popen(
                [*words, *arguments],
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=clean_environment(**{"ANALYTICS_GEOIP_DB": str(unpacked_countries()), **env}),
                cwd=db.parent,
                pass_fds=pass_fds,
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline().decode()
        if not line.startswith("listening on "):
            self.process.wait()
            self.process.stdout.close()
            raise AssertionError(f"the server did not start: {line!r} {self.stderr()}")
        self.url = line.removeprefix("listening on ").strip()
        self.pid = self.process.pid

    def terminate(self) -> int:
        """Send SIGTERM and return the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self._ended()

    def kill(self) -> int:
        """Send SIGKILL and return the exit status."""
        self.process.kill()
        return self._ended()

    def _ended(self) -> int:
        status = self.process.wait(timeout=60)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return status

    def stderr(self) -> str:
        return self._log.read_text()

    def request(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None, timeout: float = 60
    ) -> Answer:
        """Send one request over a new connection and return the response."""
        at = urlsplit(self.url)
        connection = http.client.HTTPConnection(at.hostname or "", at.port or 0, timeout=timeout)
        sent = body if body is None or isinstance(body, bytes | str) else json.dumps(body)
        try:
            connection.request(method, path, body=sent, headers={"User-Agent": CHROME} | dict(headers or {}))
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read())
        finally:
            connection.close()

    def resident_bytes(self) -> int:
        """Return the resident memory in bytes."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("no VmRSS")


Serve = Callable[..., Server]


def need_strace() -> None:
    """Skip the test where strace is missing; with TALLY_MUST_TRACE, as in .ci/run, fail it."""
    if shutil.which("strace") is None:
        assert not os.environ.get("TALLY_MUST_TRACE"), "install strace: apt-get install strace"
        pytest.skip(
            "NOT TESTED: fsync and kills at single writes are only seen through strace (apt-get install strace)"
        )


def until(holds: Callable[[], Any], seconds: float = 30) -> Any:
    """Call a function until it returns a true value, and return that; fail after `seconds`."""
    deadline = time.monotonic() + seconds
    while not (result := holds()):
        assert time.monotonic() < deadline, "the condition was not met in time"
        time.sleep(0.02)
    return result
