"""A small WebDriver client, for Debian's Firefox and WebKitGTK, which Playwright does not drive.

A `Driver` is one browser with a profile of its own. It has what the tests of several browsers need of Playwright's
Page: `goto` and `evaluate`. Protocol: https://www.w3.org/TR/webdriver2/.

The tests of a browser that is not installed are skipped; with TALLY_MUST_FIREFOX=1, as in .ci/run, they fail. WebKit is
tested only with TALLY_WEBKIT=1, on a display (xvfb-run): Debian's WebKitWebDriver needs one.
"""

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from glob import glob
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.support.process import until

_FIREFOX = {
    # Every host name of the tests resolves to 127.0.0.1, as for Chromium.
    "network.dns.localDomains": "example.test,www.example.test,stats.test",
    # Version 136 and later try https first.
    "dom.security.https_first": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
}
# Far longer than any command takes.
_TIMEOUT_S = 120


class DriverError(Exception):
    """An error of the browser."""


class Driver:
    """One browser, driven over HTTP."""

    def __init__(self, url: str, capabilities: Mapping[str, Any]) -> None:
        self._url = url
        made = self._call("POST", "/session", {"capabilities": {"alwaysMatch": capabilities}})
        self._session = f"/session/{made['sessionId']}"
        self.version = str(made["capabilities"]["browserVersion"])

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = Request(self._url + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urlopen(request, timeout=_TIMEOUT_S) as response:
                return json.load(response)["value"]
        except HTTPError as error:
            raise DriverError(json.load(error)["value"]["message"]) from None

    def goto(self, url: str) -> None:
        """Open a page and wait until it is loaded."""
        self._call("POST", self._session + "/url", {"url": url})

    def evaluate(self, text: str, argument: Any = None) -> Any:
        """Return the value of an expression, or what the function that it is returns; promises are awaited."""
        script = f"const made = ({text}); return typeof made == 'function' ? made(...arguments) : made"
        return self._call("POST", self._session + "/execute/sync", {"script": script, "args": [argument]})

    def close(self) -> None:
        """End the browser."""
        self._call("DELETE", self._session)


@contextmanager
def firefox() -> Iterator[Driver]:
    """Yield a headless Firefox."""
    path = os.environ.get("PATH", "") + os.pathsep + str(Path.home() / ".cargo" / "bin")
    driver, binary = shutil.which("geckodriver", path=path), shutil.which("firefox-esr") or shutil.which("firefox")
    if driver is None or binary is None:
        how = "install firefox-esr (apt-get) and geckodriver (cargo install geckodriver --locked)"
        assert not os.environ.get("TALLY_MUST_FIREFOX"), how
        pytest.skip(f"NOT TESTED: the tracker in Firefox ({how})")
    options = {"binary": binary, "args": ["-headless"], "prefs": _FIREFOX}
    with _running(driver, {"browserName": "firefox", "moz:firefoxOptions": options}) as browser:
        yield browser


@contextmanager
def webkit() -> Iterator[Driver]:
    """Yield WebKitGTK's MiniBrowser."""
    driver, binaries = shutil.which("WebKitWebDriver"), glob("/usr/lib/*/webkit2gtk-4.*/MiniBrowser")
    assert driver is not None, "install webkit2gtk-driver (apt-get)"
    assert binaries, "install webkit2gtk-driver (apt-get)"
    options = {"binary": binaries[0], "args": ["--automation"]}
    with _running(driver, {"browserName": "MiniBrowser", "webkitgtk:browserOptions": options}) as browser:
        yield browser


@contextmanager
def _running(driver: str, capabilities: Mapping[str, Any]) -> Iterator[Driver]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with TemporaryDirectory() as home:
        own = os.environ | {"HOME": home, "MOZ_CRASHREPORTER_DISABLE": "1"}
        process = subprocess.Popen(
            [driver, f"--port={port}"], env=own, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            until(lambda: _listens(port))
            browser = Driver(f"http://127.0.0.1:{port}", capabilities)
            try:
                yield browser
            finally:
                browser.close()
        finally:
            process.terminate()
            process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
