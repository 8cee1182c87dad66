"""How long each read endpoint takes over a given number of events: p50 and p95 over HTTP, warm.

    python tests/bench/read.py [--events 100000] [--asks 40]

Sends the events in batches to a real server on an empty file, spread over the last 71 hours (older ones would be
refused), then asks each question again and again on one connection.
"""

import argparse
import http.client
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
HOURS = 71
QUESTIONS = (
    "stats",
    "stats?compare=previous",
    "stats?filter_browser=Firefox",
    "timeseries?interval=day&tz=America/New_York",
    "timeseries?interval=hour&tz=Asia/Kolkata",
    "top/pathname",
    "top/browser",
    "top/referrer?filter_device=mobile",
    "events",
    "events?limit=1000&filter_browser=Firefox",
    "realtime",
)


def batches(website: str, events: int) -> list[str]:
    """Bodies of 50 events: 3.5 events a visitor, 2,000 paths and 300 referrers unevenly, over the last hours."""
    draw = random.Random(7)
    now_ms = int(time.time() * 1000)
    rows: list[str] = []
    made = []
    for n in range(events):
        event = {
            "type": "pageview" if draw.random() < 0.8 else "event",
            "event_name": draw.choice(("signup", "buy", "play")),
            "url": f"https://example.com/page/{int(2000 * draw.random() ** 3)}",
            "referrer": f"https://site{int(300 * draw.random() ** 3)}.example/" if draw.random() < 0.5 else None,
            "session_id": f"visitor-{int(draw.random() * events / 3.5):08}",
            "browser": draw.choice(("Chrome", "Chrome", "Safari", "Firefox")),
            "device": draw.choice(("desktop", "mobile")),
            "timestamp": now_ms - int(draw.random() * HOURS * 3_600_000),
        }
        made.append(event)
        if len(made) == 50 or n == events - 1:
            rows.append(json.dumps({"website_id": website, "events": made}))
            made = []
    return rows


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--events", type=int, default=100_000)
    arguments.add_argument("--asks", type=int, default=40)
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(ROOT / "analytics_server.py")]
        told = {"cwd": folder, "capture_output": True, "text": True, "check": True}
        website = subprocess.run([*command, "website", "add", "example.com"], **told).stdout.strip()
        key = subprocess.run([*command, "key", "create"], **told).stdout.strip()
        raised = [f"--{name}-per-minute=100000000" for name in ("client", "website", "key")]
        server = subprocess.Popen([*command, "serve", "--port", "0", *raised], stdout=subprocess.PIPE, cwd=folder)
        try:
            assert server.stdout is not None
            port = int(server.stdout.readline().decode().strip().rsplit(":", 1)[1])
            connection = http.client.HTTPConnection("127.0.0.1", port)
            begun = time.perf_counter()
            for body in batches(website, given.events):
                connection.request("POST", "/api/collect", body)
                response = connection.getresponse()
                response.read()
                assert response.status == 202
            print(f"{given.events} events sent in {time.perf_counter() - begun:.1f} s, one connection")
            for question in QUESTIONS:
                measure(connection, f"/api/v1/websites/{website}/{question}", key, question, given.asks)
            size = sum(path.stat().st_size for path in Path(folder).glob("analytics.db*"))
            print(f"{size / given.events:.0f} bytes an event on disk, log included")
        finally:
            server.terminate()
            server.wait()


def measure(connection: http.client.HTTPConnection, path: str, key: str, name: str, asks: int) -> None:
    """Prints p50 and p95 of a question in milliseconds."""
    times = []
    for _ in range(asks):
        begun = time.perf_counter()
        connection.request("GET", path, headers={"Authorization": f"Bearer {key}"})
        response = connection.getresponse()
        body = response.read()
        times.append((time.perf_counter() - begun) * 1000)
        assert response.status == 200, body
    times.sort()
    high = times[int(asks * 0.95)]
    print(f"{name:<48} p50 {statistics.median(times):7.1f} ms  p95 {high:7.1f} ms  {len(body):>7} bytes")


if __name__ == "__main__":
    main()
