"""The official clients of MCP and its conformance suite against a real server.

The packages of npm are fetched by `npm ci` in tests/js. The client for Python needs other releases of packages than the
server does, so that it is in an environment of its own: TALLY_MCP_PYTHON names its Python. With TALLY_MUST_PACKAGES and
TALLY_MUST_MCP, as in .ci/run, tests fail where they would be skipped.

A program of the client prints what it was answered, as JSON; the figures are compared with those of the read API.
"""

import asyncio
import json
import os
import re
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import pytest
from aiohttp import web

from tests.browser.test_compat_packages import package
from tests.support.process import Command, Serve

PYTHON_CLIENT = """
import asyncio, json, sys
import httpx2
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client

async def main(url, key, mode):
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}) as http:
        async with Client(streamable_http_client(url, http_client=http), mode=mode) as client:
            tools = await client.list_tools()
            called = await client.call_tool("get_stats", {"website": "example.com", "period": "7d"})
            wrong = await client.call_tool("get_stats", {"website": "example.com", "period": "week"})
            print(json.dumps({"version": client.protocol_version, "tools": [tool.name for tool in tools.tools],
                "stats": called.structured_content, "error": wrong.is_error}))

asyncio.run(main(*sys.argv[1:]))
"""
PYTHON_CLIENT_BY_OAUTH = """
import asyncio, json, sys
from urllib.parse import parse_qsl, urlsplit
import httpx2
from mcp.client.auth import OAuthClientProvider
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata

url, email, password = sys.argv[1:]
root = url.removesuffix("/mcp")

class Kept:
    tokens = client = None
    async def get_tokens(self):
        return self.tokens
    async def set_tokens(self, tokens):
        self.tokens = tokens
    async def get_client_info(self):
        return self.client
    async def set_client_info(self, client):
        self.client = client

async def main():
    answers = []
    async def allow(address):
        # What a person does in a browser.
        async with httpx2.AsyncClient(headers={"Sec-Fetch-Site": "same-origin"}) as browser:
            person = {"email": email, "password": password}
            (await browser.post(root + "/api/account/login", json=person)).raise_for_status()
            asked = dict(parse_qsl(urlsplit(address).query))
            answer = await browser.post(root + "/api/account/authorization", json=asked | {"allow": True})
            answers.append(dict(parse_qsl(urlsplit(answer.raise_for_status().json()["data"]["redirect"]).query)))
    async def answered():
        return AuthorizationCodeResult(**answers[-1])
    kept = Kept()
    about = OAuthClientMetadata(client_name="Test", redirect_uris=["http://127.0.0.1:3000/callback"])
    provider = OAuthClientProvider(url, about, kept, redirect_handler=allow, callback_handler=answered)
    async def ask():
        async with httpx2.AsyncClient(auth=provider) as http:
            async with Client(streamable_http_client(url, http_client=http)) as client:
                called = await client.call_tool("get_stats", {"website": "example.com", "period": "7d"})
                return called.structured_content["data"], [tool.name for tool in (await client.list_tools()).tools]
    first, tools = await ask()
    before = kept.tokens.refresh_token
    # As an hour later.
    provider.context.token_expiry_time = 1
    again, _ = await ask()
    renewed = kept.tokens.refresh_token != before
    print(json.dumps({"stats": [first, again], "tools": tools, "consents": len(answers), "renewed": renewed}))

asyncio.run(main())
"""
NPM_CLIENT = """
import { Client, StreamableHTTPClientTransport } from 'PACKAGE';
TRANSPORT
const [url, key, mode] = process.argv.slice(2);
const options = mode ? { versionNegotiation: { mode } } : {};
const client = new Client({ name: 'test', version: '1' }, options);
const requestInit = { headers: { Authorization: `Bearer ${key}` } };
const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit });
await client.connect(transport);
const { tools } = await client.listTools();
const ask = (period) => client.callTool({ name: 'get_stats', arguments: { website: 'example.com', period } });
const called = await ask('7d');
const wrong = await ask('week');
console.log(JSON.stringify({
  version: client.getNegotiatedProtocolVersion?.() ?? transport.protocolVersion,
  tools: tools.map((tool) => tool.name), stats: called.structuredContent, error: wrong.isError,
}));
await client.close();
"""
OF_SDK = (
    "import { Client } from '@modelcontextprotocol/sdk/client/index.js';"
    "import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';"
)


class Running(NamedTuple):
    """A server with an event, the key of its account, and the figures that the read API answers."""

    url: str
    key: str
    stats: Any


@pytest.fixture
async def running(serve: Serve, command: Command, tmp_path: Path) -> Running:
    server = serve("--base-url", "http://stats.example.com")

    def ask(*words: str) -> str:
        done = command(*words, "--db", str(tmp_path / "analytics.db"))
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    website, key = ask("website", "add", "example.com"), ask("key", "create")
    event = {"type": "pageview", "website_id": website, "url": "https://example.com/a"}
    headers = {"Authorization": f"Bearer {key}"}
    async with aiohttp.ClientSession() as session:
        async with session.post(server.url + "/api/collect", json=event) as sent:
            assert sent.status == 202
        query = f"{server.url}/api/v1/websites/{website}/stats?period=7d"
        async with session.get(query, headers=headers) as found:
            stats = await found.json()
    assert stats["data"]["pageviews"] == 1
    return Running(server.url, key, stats)


def run(*words: str | Path) -> str:
    """Return what a program prints; it must succeed."""
    done = subprocess.run([str(one) for one in words], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def check(running: Running, printed: str, version: str) -> None:
    """Compare what a client printed with the answers of the read API."""
    found = json.loads(printed.splitlines()[-1])
    assert found["version"] == version
    assert {"list_websites", "describe", "get_stats", "list_single_events"} <= set(found["tools"])
    assert found["stats"]["data"] == running.stats["data"]
    assert found["error"] is True


def python_with_mcp() -> str:
    """Return a Python that has the client; without one the test is skipped, or fails."""
    python = os.environ.get("TALLY_MCP_PYTHON")
    if not python:
        assert not os.environ.get("TALLY_MUST_MCP"), "name a Python with mcp in TALLY_MCP_PYTHON"
        pytest.skip("NOT TESTED: TALLY_MCP_PYTHON names no Python with mcp")
    return python


@pytest.mark.parametrize(
    ("mode", "version"), [("auto", "2026-07-28"), ("legacy", "2025-11-25"), ("2026-07-28", "2026-07-28")]
)
async def test_the_client_for_python(running: Running, tmp_path: Path, mode: str, version: str) -> None:
    python = python_with_mcp()
    (tmp_path / "client.py").write_text(PYTHON_CLIENT)
    check(running, run(python, tmp_path / "client.py", running.url + "/mcp", running.key, mode), version)


async def test_the_client_for_python_signs_in_by_oauth(serve: Serve, command: Command, tmp_path: Path) -> None:
    """Discovery, registration, consent, tokens with PKCE and their renewal, by the client's own code."""
    server = serve()
    password = "quiet lamp over the harbour"
    token = re.search(r"^set up Tally: \S+#(\S+)$", server.stderr(), re.MULTILINE)
    assert token is not None
    sent = {"token": token[1], "email": "owner@example.com", "password": password}
    own = {"Sec-Fetch-Site": "same-origin"}
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True), headers=own) as browser:
        async with browser.post(server.url + "/api/account/setup", json=sent) as answer:
            assert answer.status == 201
        async with browser.post(server.url + "/api/account/websites", json={"domain": "example.com"}) as answer:
            website = (await answer.json())["data"]["id"]
        event = {"type": "pageview", "website_id": website, "url": "https://example.com/a"}
        origin = {"Origin": "https://example.com"}
        async with browser.post(server.url + "/api/collect", json=event, headers=origin) as answer:
            assert answer.status == 202
    (tmp_path / "client.py").write_text(PYTHON_CLIENT_BY_OAUTH)
    words = (python_with_mcp(), tmp_path / "client.py", server.url + "/mcp", "owner@example.com", password)
    found = json.loads((await asyncio.to_thread(run, *words)).splitlines()[-1])
    assert [stats["pageviews"] for stats in found["stats"]] == [1, 1]
    assert (found["consents"], found["renewed"]) == (1, True)
    assert ("get_stats" in found["tools"], "list_single_events" in found["tools"]) == (True, False)


@pytest.mark.parametrize(
    ("name", "mode", "version"),
    [
        ("@modelcontextprotocol/sdk", "", "2025-11-25"),
        ("@modelcontextprotocol/client", "", "2025-11-25"),
        ("@modelcontextprotocol/client", "auto", "2026-07-28"),
    ],
)
async def test_the_clients_of_npm(running: Running, tmp_path: Path, name: str, mode: str, version: str) -> None:
    modules = package(name).parents[1]
    (tmp_path / "node_modules").symlink_to(modules)
    first = f"import {{ Client, StreamableHTTPClientTransport }} from '{name}';"
    text = NPM_CLIENT.replace("import { Client, StreamableHTTPClientTransport } from 'PACKAGE';\nTRANSPORT", "IMPORTS")
    (tmp_path / "client.mjs").write_text(text.replace("IMPORTS", OF_SDK if name.endswith("/sdk") else first))
    node = package("node") / "bin" / "node"
    check(running, run(node, tmp_path / "client.mjs", running.url + "/mcp", running.key, mode), version)


@asynccontextmanager
async def with_key(running: Running) -> AsyncIterator[str]:
    """Yield the URL of a proxy that adds the key, which the conformance suite cannot send."""

    async def handle(request: web.Request) -> web.Response:
        headers = {name: value for name, value in request.headers.items() if name.lower() != "content-length"}
        headers["Authorization"] = f"Bearer {running.key}"
        url, body = running.url + request.path, await request.read()
        async with (
            aiohttp.ClientSession() as session,
            session.request(request.method, url, data=body, headers=headers) as answer,
        ):
            kept = {name: answer.headers[name] for name in ("Content-Type", "Allow") if name in answer.headers}
            return web.Response(body=await answer.read(), status=answer.status, headers=kept)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/mcp"
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("scenario", ["server-initialize", "ping", "tools-list", "dns-rebinding-protection"])
async def test_conformance(running: Running, scenario: str) -> None:
    suite = package("@modelcontextprotocol/conformance") / "dist" / "index.js"
    async with with_key(running) as url:
        words = (package("node") / "bin" / "node", suite, "server", "--url", url, "--scenario", scenario)
        printed = await asyncio.to_thread(run, *words)
    assert re.search(r"Passed: ([1-9]\d*)/\1, 0 failed", printed), printed
