"""How fast events are taken: this server beside a bare aiohttp handler, in one run, with the same client.

    python tests/bench/collect.py [--seconds 5] [--rounds 3]

Both are processes of their own; the client is wrk-like but in Python: 32 keep-alive connections over raw sockets on one
event loop, each sending one pageview and waiting for its answer. The client costs as much as the servers do, so the
ratio is what counts, not the rate. Loads go to 127.0.0.1 only, for a bounded time.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
CONNECTIONS = 32
BARE = """
import orjson
from aiohttp import web
async def take(request):
    orjson.loads(await request.read())
    return web.Response(body=b'{"ok":true,"accepted":1,"rejected":0}', status=202, content_type="application/json")
app = web.Application()
app.router.add_post("/api/collect", take)
web.run_app(app, host="127.0.0.1", port=0, access_log=None, print=lambda text: print(text.split()[3], flush=True))
"""


def start(words: list[str], folder: str) -> tuple[subprocess.Popen[bytes], int]:
    """A server process and its port."""
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=folder)
    assert process.stdout is not None
    line = process.stdout.readline().decode()
    return process, int(line.strip().rstrip("/").rsplit(":", 1)[1])


async def load(port: int, bodies: list[bytes], seconds: float) -> tuple[float, float, float]:
    """Requests a second, median and 99th percentile of the latency in ms."""
    latencies: list[float] = []
    end = time.perf_counter() + seconds

    async def client(number: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        n = number
        while time.perf_counter() < end:
            body = bodies[n % len(bodies)]
            n += CONNECTIONS
            begun = time.perf_counter()
            writer.write(
                b"POST /api/collect HTTP/1.1\r\nHost: x\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0)"
                b" Gecko/20100101 Firefox/140.0\r\nOrigin: https://example.com\r\nX-Forwarded-For: 203.0.113.%d\r\n"
                b"Content-Type: text/plain\r\nContent-Length: %d\r\n\r\n%b" % (n % 250, len(body), body)
            )
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 202"):
                raise SystemExit(f"not 202: {head!r}")
            length = int(head.lower().split(b"content-length:", 1)[1].split(b"\r\n", 1)[0])
            await reader.readexactly(length)
            latencies.append(time.perf_counter() - begun)
        writer.close()

    await asyncio.gather(*(client(number) for number in range(CONNECTIONS)))
    latencies.sort()
    at = lambda share: latencies[int(len(latencies) * share)] * 1000  # noqa: E731
    return len(latencies) / seconds, at(0.5), at(0.99)


def bodies(website: str, events: int) -> list[bytes]:
    """Pageviews of many visitors, `events` a request."""
    made = []
    for n in range(2_000):
        views = [
            {
                "type": "pageview",
                "url": f"https://example.com/p/{(n * 7 + k) % 500}",
                "session_id": f"session-{(n + k) % 5000:08}",
            }
            for k in range(events)
        ]
        body = views[0] | {"website_id": website} if events == 1 else {"website_id": website, "events": views}
        made.append(json.dumps(body).encode())
    return made


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--seconds", type=float, default=5)
    arguments.add_argument("--rounds", type=int, default=3)
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(ROOT / "analytics_server.py")]
        website = subprocess.run(
            [*command, "website", "add", "example.com"], cwd=folder, capture_output=True, text=True, check=True
        ).stdout.strip()
        raised = ["--client-per-minute", "100000000", "--website-per-minute", "100000000"]
        tally, tally_port = start([*command, "serve", "--port", "0", *raised], folder)
        bare, bare_port = start([sys.executable, "-c", BARE], folder)
        try:
            report(website, tally_port, bare_port, given.seconds, given.rounds)
            status = Path(f"/proc/{tally.pid}/status").read_text()
            print("resident:", next(line.split(":")[1].strip() for line in status.splitlines() if "VmRSS" in line))
        finally:
            for process in (tally, bare):
                process.terminate()
                process.wait()


def report(website: str, tally_port: int, bare_port: int, seconds: float, rounds: int) -> None:
    """Prints a row a round and server, and the median of the ratios."""
    for events in (1, 50):
        ratios = []
        for _ in range(rounds):
            rates = {}
            for name, port in (("bare handler", bare_port), ("tally", tally_port)):
                rate, median, high = asyncio.run(load(port, bodies(website, events), seconds))
                rates[name] = rate
                print(f"{events:>3} events  {name:<13} {rate:>8.0f} req/s {rate * events:>9.0f} events/s"
                      f"  p50 {median:6.2f} ms  p99 {high:6.2f} ms")  # fmt: skip
            ratios.append(rates["tally"] / rates["bare handler"])
        print(f"{events:>3} events  ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")


if __name__ == "__main__":
    main()
