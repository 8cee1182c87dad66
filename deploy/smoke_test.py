"""Check a built server that has just started: setup, a website with a time zone, an event with its country, an upload,
pages.

python3 deploy/smoke_test.py LOG, where LOG has what the server has printed. Used by deploy/release.sh.
"""

import datetime
import json
import re
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

# The bundled country database has this public resolver.
ADDRESS, COUNTRY = "8.8.8.8", "US"
BROWSER = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36"


def main(log: str) -> None:
    """Raise an exception where something does not work."""
    text = Path(log).read_text()
    url, token = (re.findall(pattern, text)[0] for pattern in (r"listening on (\S+)", r"/setup#(\S+)"))
    headers = {"Content-Type": "application/json", "Sec-Fetch-Site": "same-origin", "User-Agent": BROWSER}

    def request(path: str, body: dict[str, Any] | bytes | None = None, method: str | None = None, **more: str) -> Any:
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        named = headers | {name.replace("_", "-"): value for name, value in more.items()}
        sent = urllib.request.Request(url + path, data, named, method=method)
        with urllib.request.urlopen(sent, timeout=60) as answer:
            if "Set-Cookie" in answer.headers:
                headers["Cookie"] = answer.headers["Set-Cookie"].partition(";")[0]
            content = answer.read()
            return json.loads(content) if "json" in answer.headers["Content-Type"] else content.decode()

    assert request("/healthz")["ok"]
    # Argon2.
    request(
        "/api/account/setup", {"token": token, "email": "owner@example.com", "password": "a passphrase to be deleted"}
    )
    website = request("/api/account/websites", {"domain": "example.co.uk"})["data"]["id"]
    request(f"/api/account/websites/{website}", {"time_zone": "Asia/Kathmandu"}, "PATCH")
    event = {"type": "pageview", "website_id": website, "url": "https://www.example.co.uk/built"}
    sent = request("/api/collect", event, X_Forwarded_For=ADDRESS, Origin="https://www.example.co.uk")
    assert sent == {"ok": True, "accepted": 1, "rejected": 0}, sent
    today = datetime.datetime.now(datetime.UTC).date()
    days = f"from={today - datetime.timedelta(1)}&to={today + datetime.timedelta(1)}"
    for field, value in (("country", COUNTRY), ("browser", "Chrome"), ("pathname", "/built")):
        rows = request(f"/api/account/websites/{website}/top/{field}?{days}")["data"]
        assert [row["value"] for row in rows] == [value], rows
    series = request(f"/api/account/websites/{website}/timeseries?{days}&interval=hour")
    assert "+05:45" in json.dumps(series), series
    upload = f"/api/account/websites/{website}/imports"
    line = json.dumps({"type": "pageview", "timestamp": f"{today}T00:00:00Z", "pathname": "/imported"}).encode() + b"\n"
    request(f"{upload}/upload", {"name": "events.ndjson", "format": "tally", "size": len(line)})
    request(f"{upload}/upload?offset=0", line, "PATCH")
    until(lambda: request(upload)["data"]["upload"]["state"] == "checked")
    request(upload, {})
    until(lambda: request(upload)["data"]["upload"] is None)
    assert [one["events"] for one in request(upload)["data"]["imports"]] == [1]
    for path, within in (
        (f"/websites/{website}", "<!doctype html>"),
        ("/assets/app.js", "import"),
        ("/tracker.js", "{"),
    ):
        assert within in request(path), path
    assert "tally_" in request("/metrics")
    assert request("/api/v1/openapi.yaml").startswith("openapi: 3.1")
    print("smoke test passed:", url)


def until(holds: Callable[[], bool]) -> None:
    """Wait until a condition holds; raise AssertionError after a minute."""
    end_s = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end_s
        time.sleep(0.1)


main(*sys.argv[1:])
