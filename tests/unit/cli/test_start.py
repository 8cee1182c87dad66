"""The start of a server process: what it has not loaded when it listens, and that requests find it loaded."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from tally.events import geoip
from tally.events.places import DeferredPlaces
from tests.support.app import CHROME, ROOT
from tests.support.process import Command, Serve, clean_environment

# Runs the command and, in place of the line `listening on`, prints what the process has loaded until then.
AT_LISTENING = """
import gc, json, os, ssl, sys
class Output:
    def write(self, text):
        if text.startswith("listening on"):
            from tally.events import user_agent
            from tally.web import pages
            import aiohttp.connector
            certificates = aiohttp.connector._SSL_CONTEXT_VERIFIED.cert_store_stats()["x509"]
            held = {
                "modules": sorted(sys.modules),
                "tables": user_agent._built_resolver.cache_info().currsize,
                "files": pages._read_sources.cache_info().currsize,
                "certificates": certificates,
                "SSL_CERT_FILE": os.environ.get("SSL_CERT_FILE"),
                "collects": gc.isenabled(),
            }
            sys.__stdout__.write(json.dumps(held))
            sys.__stdout__.flush()
            os._exit(0)
    def flush(self):
        pass
sys.stdout = Output()
import analytics_server
analytics_server.main(sys.argv[1:])
"""
# A server that cannot read its pages.
UNREADABLE = """
import sys
import analytics_server
from tally.web import pages
def fail():
    raise OSError("the pages cannot be read")
pages._read_sources = fail
sys.exit(analytics_server.main(sys.argv[1:]))
"""
# A server whose database of places is damaged.
DAMAGED = """
import sys
import analytics_server
from tally.events import geoip
geoip.BUNDLED = "data/README.md"
sys.exit(analytics_server.main(sys.argv[1:]))
"""
# Libraries and parts of the server that requests, other commands or tests need.
NOT_YET = (
    "maxminddb",
    "ua_parser",
    "ua_parser_rs",
    "yaml",
    "importlib.metadata",
    "tally.events.geoip",
    "prometheus_client",
    "wsgiref",
    "scipy",
    "numpy",
    "pyarrow",
    "hypothesis",
    "acme",
    "josepy",
    "requests",
    "cryptography",
    "OpenSSL",
    "tally.http.acme",
    "tally.http.certificate_renewal",
    "tally.http.plain_port",
    "tally.web.metrics",
    "tally.demo",
    "obstore",
    "paramiko",
    "pyrage",
    "tally.offsite",
    "tally.transfer",
    "tally.maintenance.doctor_checks",
    "tally.maintenance.increment_stream",
    "tally.maintenance.offsite_backup",
    "tally.cli.accounts",
    "tally.cli.api_keys",
    "tally.cli.database",
    "tally.cli.demo",
    "tally.cli.doctor",
    "tally.cli.transfer",
    "tally.cli.websites",
)


@pytest.fixture
def at_listening(tmp_path: Path) -> dict[str, Any]:
    """Return what a server has loaded when it listens."""
    words = [sys.executable, "-c", AT_LISTENING, "serve", "--port", "0", "--db", str(tmp_path / "analytics.db")]
    done = subprocess.run(words, cwd=ROOT, env=clean_environment(), capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_what_a_server_has_not_loaded_when_it_listens(at_listening: dict[str, Any]) -> None:
    """A start is mostly imports: what listening does not need is loaded afterwards."""
    loaded = [name for name in at_listening["modules"] if name.startswith(tuple(f"{one}." for one in NOT_YET))]
    assert loaded + [name for name in NOT_YET if name in at_listening["modules"]] == []
    assert "aiohttp.web" in at_listening["modules"], "the names are those of sys.modules"
    assert (at_listening["tables"], at_listening["files"], at_listening["certificates"]) == (0, 0, 0)
    assert at_listening["SSL_CERT_FILE"] == os.environ.get("SSL_CERT_FILE"), "the environment is as it was given"
    assert not at_listening["collects"]


# Servers of tests have the countries unpacked; these unpack them as all others do.
BUNDLED = {"ANALYTICS_GEOIP_DB": ""}


def test_first_requests_find_what_they_need(serve: Serve, command: Command) -> None:
    """The first of each kind, sent as soon as the server listens."""
    website = command("website", "add", "example.com").stdout.strip()
    for path, within in (("/login", b"<!doctype html>"), ("/metrics", b"tally_"), ("/assets/app.js", b"import")):
        server = serve(env=BUNDLED)
        answer = server.request("GET", path)
        assert answer.status == 200
        assert within in answer.body
        assert server.terminate() == 0
    server = serve(env=BUNDLED)
    event = {"type": "pageview", "website_id": website, "url": "https://example.com/"}
    assert server.request("POST", "/api/collect", event, {"User-Agent": CHROME}).status == 202
    key = command("key", "create").stdout.strip()
    found = server.request("GET", f"/api/v1/websites/{website}/top/browser", None, {"Authorization": f"Bearer {key}"})
    assert [row["value"] for row in found.json["data"]] == ["Chrome"]
    assert server.terminate() == 0
    assert "fail" not in server.stderr()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "error"),
    [(UNREADABLE, "the pages cannot be read"), (DAMAGED, "analytics-server: {ROOT}/tally/data/README.md cannot be")],
    ids=["pages", "places"],
)
def test_what_cannot_be_loaded_after_listening_ends_the_server(tmp_path: Path, program: str, error: str) -> None:
    words = [sys.executable, "-c", program, "serve", "--port", "0", "--db", str(tmp_path / "analytics.db")]
    done = subprocess.run(words, cwd=ROOT, env=clean_environment(), capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert done.stdout.startswith("listening on ")
    assert error.replace("{ROOT}", str(ROOT)) in done.stderr


def test_places_are_opened_once_by_whoever_needs_them_first(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[geoip.Places] = []

    class Counted(geoip.Places):
        def __init__(self) -> None:
            super().__init__()
            opened.append(self)

    monkeypatch.setattr(geoip, "Places", Counted)
    places = DeferredPlaces()
    places.close()
    with ThreadPoolExecutor(4) as threads:
        loading = threads.submit(places.load)
        found = [threads.submit(places.of, ip_address("193.99.144.80")) for _ in range(8)]
        assert {one.result().country for one in found} == {"DE"}
        assert [loading.result()] == opened
    places.close()
