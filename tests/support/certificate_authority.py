"""A real certificate authority: Pebble, with its DNS server, which answers 127.0.0.1 for every name.

Without Pebble the tests are skipped; with TALLY_MUST_ACME=1, as in .ci/run, they fail.
"""

import contextlib
import json
import os
import shutil
import socket
import ssl
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from tests.support.process import until

PROGRAMS = ("pebble", "pebble-challtestsrv")
INSTALL = " ".join(["go install", *(f"github.com/letsencrypt/pebble/v2/cmd/{name}@v2.10.1" for name in PROGRAMS)])
# Nothing listens on this address of this machine.
ELSEWHERE = "127.0.0.9"


def need_pebble() -> None:
    """Skip the test where Pebble is missing; with TALLY_MUST_ACME, as in .ci/run, fail it."""
    if not all(map(shutil.which, PROGRAMS)):
        assert not os.environ.get("TALLY_MUST_ACME"), INSTALL
        pytest.skip(f"NOT TESTED: certificates of an authority need Pebble ({INSTALL}, and its directory in PATH)")


def free_ports(number: int, kind: socket.SocketKind = socket.SOCK_STREAM) -> list[int]:
    """Return ports that were free just now."""
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(socket.socket(socket.AF_INET, kind)) for _ in range(number)]
        for one in opened:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in opened]


class CertificateAuthority:
    """Pebble, which validates on `http_port`. It has no account and no certificate after a new start."""

    def __init__(self, directory: Path) -> None:
        self._directory, self.log = directory, directory / "pebble.log"
        self._port, self._management, self.http_port, self._dns_management = free_ports(4)
        (self._dns,) = free_ports(1, socket.SOCK_DGRAM)
        self.url = f"https://localhost:{self._port}/dir"
        # The certificate of Pebble itself.
        ca = trustme.CA()
        issued = ca.issue_cert("localhost", "127.0.0.1")
        self._bundle, cert, key = (directory / f"{name}.pem" for name in ("bundle", "cert", "key"))
        ca.cert_pem.write_to_path(str(self._bundle))
        issued.cert_chain_pems[0].write_to_path(str(cert))
        issued.private_key_pem.write_to_path(str(key))
        configured = {
            "listenAddress": f"127.0.0.1:{self._port}",
            "managementListenAddress": f"127.0.0.1:{self._management}",
            "certificate": str(cert),
            "privateKey": str(key),
            "httpPort": self.http_port,
            "tlsPort": 1,
            "profiles": {"default": {"description": "90 days", "validityPeriod": 90 * 86_400}},
        }
        (directory / "pebble.json").write_text(json.dumps({"pebble": configured}))
        self._running: list[subprocess.Popen[bytes]] = []

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables by which a client trusts the certificate of Pebble's own address."""
        return {"REQUESTS_CA_BUNDLE": str(self._bundle)}

    def start(self) -> None:
        """Start both programs, and wait until they answer."""
        dns, of_dns = f"127.0.0.1:{self._dns}", f"127.0.0.1:{self._dns_management}"
        off = [word for name in ("doh", "http01", "https01", "tlsalpn01") for word in (f"-{name}", "")]
        self._run("pebble-challtestsrv", "-dnsserver", dns, "-defaultIPv6", "", "-management", of_dns, *off)
        self._run("pebble", "-config", str(self._directory / "pebble.json"), "-dnsserver", dns)
        until(lambda: self._is_listening(self._dns_management) and self._is_listening(self._management))

    def stop(self) -> None:
        """Stop both programs."""
        while self._running:
            one = self._running.pop()
            one.kill()
            one.wait()

    def point(self, name: str, address: str) -> None:
        """Change the address of a name."""
        body = json.dumps({"host": f"{name}.", "addresses": [address]}).encode()
        for action in ("clear-a", "add-a"):
            urllib.request.urlopen(f"http://127.0.0.1:{self._dns_management}/{action}", body).close()

    def client_context(self) -> ssl.SSLContext:
        """Return the context of a client that trusts the certificates that are issued."""
        context = ssl.create_default_context(cafile=str(self._bundle))
        with urllib.request.urlopen(f"https://127.0.0.1:{self._management}/roots/0", context=context) as answer:
            return ssl.create_default_context(cadata=answer.read().decode())

    def logged(self, words: str) -> int:
        """Return how often Pebble has logged some words, over all its starts."""
        return self.log.read_text().count(words)

    def _run(self, *words: str) -> None:
        # Otherwise Pebble waits up to 15 seconds before it validates, and refuses some requests at random.
        steady: dict[str, Any] = {"PEBBLE_VA_NOSLEEP": "1", "PEBBLE_WFE_NONCEREJECT": "0", "PEBBLE_AUTHZREUSE": "0"}
        with self.log.open("ab") as log:
            self._running.append(subprocess.Popen(words, stdout=log, stderr=log, env=os.environ | steady))

    @staticmethod
    def _is_listening(port: int) -> bool:
        with socket.socket() as one:
            return one.connect_ex(("127.0.0.1", port)) == 0


@contextlib.contextmanager
def certificate_authority(directory: Path) -> Iterator[CertificateAuthority]:
    """Make an authority, which is stopped at the end."""
    directory.mkdir()
    made = CertificateAuthority(directory)
    try:
        yield made
    finally:
        made.stop()
