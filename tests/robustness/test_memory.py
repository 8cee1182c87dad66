"""Memory is limited: with many visitors, none of which is evicted, and with floods of invented visitors.

Identities are kept up to a limit, 200,000 by default. The least recently used are evicted first and counted in a metric
(docs/reference/definitions.md). One test runs a real server with 100,000 visitors, which may use MAX_BYTES of memory
(docs/benchmarks.md has the measured memory); the other runs the application in a separate process with millions of
clients.
"""

import asyncio
import json
import re
import subprocess
import sys
import time
from pathlib import Path

import aiohttp

from tests.support.app import ROOT
from tests.support.process import NO_RATE_LIMITS, Command, Serve, Server, clean_environment

VISITORS = 100_000
BATCH = 50
# 20 MB of it are numpy.
MAX_BYTES = 140_000_000


async def visit(server: Server, website: str) -> None:
    """Send one pageview of each visitor, in batches, on eight concurrent connections."""
    starts = iter(range(0, VISITORS, BATCH))

    async def sender(client: aiohttp.ClientSession) -> None:
        for start in starts:
            events = [
                {"type": "pageview", "url": f"https://example.com/{n % 500}", "session_id": f"session-of-visitor-{n}"}
                for n in range(start, start + BATCH)
            ]
            body = json.dumps({"website_id": website, "events": events})
            async with client.post("/api/collect", data=body) as answer:
                assert (answer.status, await answer.json()) == (202, {"ok": True, "accepted": BATCH, "rejected": 0})

    async with aiohttp.ClientSession(server.url) as client:
        await asyncio.gather(*(sender(client) for _ in range(8)))


def metric(server: Server, name: str) -> float:
    found = re.search(rf"^{name} (\S+)$", server.request("GET", "/metrics").text, re.MULTILINE)
    assert found, name
    return float(found[1])


def test_100_000_visitors(serve: Serve, command: Command) -> None:
    website = command("website", "add", "example.com").stdout.strip()
    key = command("key", "create").stdout.strip()
    server = serve(*NO_RATE_LIMITS)
    asyncio.run(visit(server, website))
    assert metric(server, "tally_events_accepted_total") == VISITORS
    assert metric(server, "tally_identities") == VISITORS
    assert metric(server, "tally_identities_evicted_total") == 0
    resident = server.resident_bytes()
    print(f"resident with {VISITORS:,} visitors: {resident:,} bytes")
    assert resident <= MAX_BYTES

    # None was evicted: all visitors send again, and none is new.
    asyncio.run(visit(server, website))
    assert metric(server, "tally_identities") == VISITORS
    headers = {"Authorization": f"Bearer {key}"}
    stats = server.request("GET", f"/api/v1/websites/{website}/stats", None, headers).json["data"]
    days = stats["visitors"] // VISITORS  # visitors are counted per day, and midnight may pass during the test
    assert stats["visitors"] == days * VISITORS
    assert stats["pageviews"] == 2 * VISITORS
    resident = server.resident_bytes()
    print(f"resident after the second visit and a query: {resident:,} bytes")
    assert resident <= MAX_BYTES
    assert server.terminate() == 0


FLOOD = """
import asyncio, json, sys
from pathlib import Path
from aiohttp import web
from analytics_server import build_app
from tally.rate_limit import Buckets
from tally.events.sessions import Sessions
from tally.settings import Settings

def resident():
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS:")).split()[1]) * 1024

def flood(settings):
    figures = {"at rest": resident()}
    NOW_MS, NOW_NS = 1_795_003_200_000, 10**15
    sessions = Sessions(settings.max_identities)
    active = sessions.touch(b"an active client", NOW_MS, True).visitor
    idle = sessions.touch(b"an idle visitor!", NOW_MS, True).visitor
    visitors = set()
    for n in range(600_000):
        sessions.touch(n.to_bytes(16), NOW_MS + n // 1_000, True)
        if n % 1_000 == 0:
            touch = sessions.touch(b"an active client", NOW_MS + n // 1_000, True)
            visitors.add(touch.visitor)
            sessions.keep(NOW_MS + n // 1_000)
    sessions.keep(NOW_MS + 600)
    figures |= {
        "kept": len(sessions), "evictions": sessions.evictions, "active": visitors == {active},
        "views of its visit": touch.visit.views, "identities": resident(),
        "idle is new": sessions.touch(b"an idle visitor!", NOW_MS + 600, True).visitor != idle,
    }

    clients, client_websites = Buckets(settings.client_per_minute), Buckets(settings.website_per_minute)
    waits = []
    for n in range(300_000):
        now_ns = NOW_NS + n * 33_000  # all within ten seconds
        address = n.to_bytes(4) if n % 2 else (0x2001_0DB8_0000_0000 + n).to_bytes(8)
        for buckets, key in ((clients, address), (client_websites, address + (1).to_bytes(8))):
            waits.append(buckets.wait_s(key, now_ns)) if n % 1_000 == 0 else None
            buckets.take(key, now_ns)
        if n % 3_000 == 0:  # a hundred requests in ten seconds: within both limits
            for buckets, key in ((clients, b"me!!"), (client_websites, b"me!!" + (1).to_bytes(8))):
                waits.append(buckets.wait_s(key, now_ns))
                buckets.take(key, now_ns)
    figures |= {
        "waits": max(waits), "buckets": len(clients) + len(client_websites),
        "early": min(clients.evictions, client_websites.evictions), "flooded": resident(),
    }

    taken = 0
    while taken < 10_000 and not client_websites.wait_s(b"busy" + (1).to_bytes(8), now_ns):
        client_websites.take(b"busy" + (1).to_bytes(8), now_ns)
        taken += 1
    figures |= {"taken": taken, "then waits": client_websites.wait_s(b"busy" + (1).to_bytes(8), now_ns)}
    return figures

async def main():
    settings = Settings(db=Path(sys.argv[1]))
    runner = web.AppRunner(build_app(settings))
    await runner.setup()
    print(json.dumps(flood(settings)))
    await runner.cleanup()

asyncio.run(main())
"""


def test_memory_with_more_clients_than_are_kept(tmp_path: Path) -> None:
    """600,000 new identities and 300,000 addresses in a process that runs the whole application. An active visitor
    keeps identity and visit and is never rate-limited; an idle visitor is evicted and then counted as new."""
    begun = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", FLOOD, str(tmp_path / "analytics.db")],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=clean_environment(),
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    print(f"{time.monotonic() - begun:.0f} s: {figures}")
    assert max(figures["identities"], figures["flooded"]) <= 200_000_000
    assert figures["kept"] == 200_000
    assert figures["evictions"] == 600_000 + 2 - 200_000
    assert figures["active"]
    assert figures["views of its visit"] == 601
    assert figures["idle is new"]
    assert figures["waits"] == 0
    assert figures["buckets"] <= 2 * 2 * 32_768
    assert figures["early"] >= 1, "the metric counts evicted buckets"
    assert figures["taken"] == 120, "the limit still applies after the flood"
    assert figures["then waits"] == 1
