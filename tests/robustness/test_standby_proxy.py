"""deploy/clickhouse/haproxy.cfg in front of two real servers: requests go to the one whose /healthz is 200."""

import http.client
import json
from contextlib import closing
from pathlib import Path

from tests.support import proxies
from tests.support.app import CHROME, ROOT
from tests.support.ledgers import new_file
from tests.support.process import NO_RATE_LIMITS, Serve, Server, until

FILE = ROOT / "deploy" / "clickhouse" / "haproxy.cfg"


def test_requests_follow_the_server_that_is_healthy(tmp_path: Path, serve: Serve) -> None:
    text = FILE.read_text()
    ports = [proxies.free_port() for _ in range(2)]
    for old, new in {
        "tally-1:8000": f"127.0.0.1:{ports[0]}",
        "tally-2:8000": f"127.0.0.1:{ports[1]}",
        "bind :8080": "bind 127.0.0.1:PORT",
        "inter 2s": "inter 200ms",
    }.items():
        assert old in text, old
        text = text.replace(old, new)
    files = [tmp_path / name / "analytics.db" for name in ("first", "second")]
    for file in files:
        file.parent.mkdir()
    keys = [new_file(file) for file in files]

    def started(number: int, *options: str) -> Server:
        return serve(*NO_RATE_LIMITS, *options, "--port", str(ports[number]), db=files[number])

    # Without a file, which `cluster recover` makes there.
    away = files[1].rename(files[1].with_name("away"))
    active, other = started(0), started(1, "--standby", "yes")
    assert other.request("GET", "/healthz").status == 503
    proxy = proxies.Proxy("haproxy", text, "", tmp_path / "proxy")

    def sent() -> int:
        """Send a page view of each server's website; return which of both has stored its own."""
        found = []
        for _, (website,) in keys:
            event = {"website_id": website, "type": "pageview", "url": "https://example.com/"}
            with closing(http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=60)) as connection:
                body = json.dumps(event)
                connection.request(
                    "POST", "/api/collect", body, {"User-Agent": CHROME, "Origin": "https://example.com"}
                )
                found.append(connection.getresponse().status)
        return found.index(202) if 202 in found else -1

    def page(path: str) -> int:
        with closing(http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=60)) as connection:
            connection.request("GET", path)
            return connection.getresponse().status

    try:
        until(lambda: sent() == 0)
        active.kill()
        until(lambda: sent() == -1)
        away.rename(files[1])
        until(lambda: "Server tally/tally-2 is UP" in proxy.log())
        until(lambda: sent() == 1)
        # The first one is back, and the proxy knows: requests stay where they are.
        active = started(0)
        until(lambda: "Server tally/tally-1 is UP" in proxy.log())
        assert [sent() for _ in range(20)] == [1] * 20
        other.kill()
        until(lambda: sent() == 0)
        # Events are refused, here without the file, as where ClickHouse is away: pages are still there.
        files[0].rename(files[0].with_name("moved"))
        until(lambda: active.request("GET", "/healthz").status == 503)
        until(lambda: page("/tracker.js") == 200)
        assert (page("/healthz"), sent()) == (503, -1)
    finally:
        proxy.stop()
