"""OpenID providers for tests: oidc-provider as a process, and one that answers what a test says.

The second is a real HTTP server too. It signs whatever a test asks for, which no honest provider does.
"""

import hmac
import html
import json
import re
import subprocess
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urljoin, urlsplit

import aiohttp
import orjson
from aiohttp import web
from aiohttp.test_utils import TestServer
from joserfc.jwk import RSAKey
from joserfc.jws import JWSRegistry

from tests.browser.test_compat_packages import package
from tests.support.app import ROOT, Answer
from tests.support.page_client import PageClient

CLIENT, SECRET = "tally & co", "a secret: with +, % and /"
CALLBACK = "/sign-in/oidc/callback"


def new_key(kid: str) -> RSAKey:
    """Return a key that a provider signs with."""
    return RSAKey.generate_key(2048, {"kid": kid, "use": "sig", "alg": "RS256"})


class NodeProvider:
    """oidc-provider in a process of its own; `restart` keeps its address."""

    def __init__(self, folder: Path, redirect: str, people: Mapping[str, Any], key: RSAKey) -> None:
        self.people, self._folder = people, folder
        self._clients = [
            {
                "client_id": CLIENT,
                "client_secret": SECRET,
                "redirect_uris": [redirect + CALLBACK],
                "post_logout_redirect_uris": [f"{redirect}/login"],
            },
        ]
        if not (folder / "node_modules").exists():
            (folder / "node_modules").symlink_to(package("oidc-provider").parent)
            (folder / "provider.mjs").write_bytes((ROOT / "tests/support/oidc_provider.mjs").read_bytes())
        self._port = 0
        self._start(key)

    def _start(self, key: RSAKey) -> None:
        given = {
            "port": self._port,
            "keys": [key.as_dict(private=True)],
            "clients": self._clients,
            "people": self.people,
        }
        node = package("node") / "bin" / "node"
        with (self._folder / "provider.log").open("ab") as log:
            words = [str(node), "provider.mjs", json.dumps(given)]
            self._process = subprocess.Popen(words, cwd=self._folder, stdout=subprocess.PIPE, stderr=log)
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().decode().strip()
        assert self.url, (self._folder / "provider.log").read_text()
        self._port = urlsplit(self.url).port or 0

    def stop(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def restart(self, key: RSAKey) -> None:
        """Start again at the same address, which signs with another key."""
        self.stop()
        self._start(key)


@contextmanager
def node_provider(*given: Any, **named: Any) -> Iterator[NodeProvider]:
    """Run a NodeProvider until the block ends."""
    provider = NodeProvider(*given, **named)
    try:
        yield provider
    finally:
        provider.stop()


def _form(page: str, at: str) -> tuple[str, dict[str, str]]:
    """Return where the form of a page is sent, and its hidden fields."""
    action = re.search(r'<form[^>]*action="([^"]+)"', page)
    assert action is not None, page
    hidden = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', page)
    return urljoin(at, html.unescape(action[1])), dict(hidden)


async def sign_in_at(url: str, account: str) -> str:
    """Sign in at oidc-provider and consent, as a browser does; return the address to which it leads back."""
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(cookie_jar=jar) as session:
        sent: dict[str, str] | None = None
        for _ in range(12):
            method = "GET" if sent is None else "POST"
            async with session.request(method, url, data=sent, allow_redirects=False) as response:
                page, sent = await response.text(), None
                if response.status in (302, 303):
                    url = urljoin(url, response.headers["Location"])
                    if urlsplit(url).path.endswith(CALLBACK):
                        return url
                    continue
                assert response.status == 200, page
            url, sent = _form(page, url)
            if sent.get("prompt") == "login":
                sent |= {"login": account, "password": "any"}
    raise AssertionError("the provider does not lead back")


class Signer:
    """A provider that signs the claims that a test sets, and answers as the test says."""

    def __init__(self) -> None:
        self.key, self.algorithm = new_key("first"), "RS256"
        self.published: list[Any] = [self.key]
        self.metadata: dict[str, Any] = {}
        self.claims: dict[str, Any] = {"sub": "ann"}
        self.userinfo: Any = None
        self.header: dict[str, Any] = {}
        self.sent: list[dict[str, str]] = []
        self.credentials: list[str | None] = []
        self.requests: list[str] = []
        self.answers: dict[str, web.Response] = {}
        self.make_token: Callable[[], str] | None = None
        self.last_token = ""
        self.clock_ms = lambda: 0
        self._nonces: dict[str, str] = {}

    async def __aenter__(self) -> "Signer":
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._server = TestServer(app)
        await self._server.start_server()
        self.url = str(self._server.make_url("")).rstrip("/")
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self._server.close()

    async def _handle(self, request: web.Request) -> web.Response:
        path = request.path
        self.requests.append(path)
        if path in self.answers:
            # A response is sent once.
            found = self.answers[path]
            return web.Response(status=found.status, body=found.body, headers=found.headers)
        if path == "/.well-known/openid-configuration":
            base = self.url.rstrip("/")
            return web.json_response(
                {
                    "issuer": self.url,
                    "authorization_endpoint": f"{base}/authorize",
                    "token_endpoint": f"{base}/token",
                    "jwks_uri": f"{base}/jwks",
                    "userinfo_endpoint": f"{base}/userinfo",
                    "id_token_signing_alg_values_supported": ["RS256", "ES256", "Ed25519", "EdDSA"],
                }
                | self.metadata
            )
        if path == "/jwks":
            return web.json_response({"keys": [one.as_dict(private=False) for one in self.published]})
        if path == "/userinfo":
            return web.json_response(self.userinfo)
        assert path == "/token", path
        form = dict(parse_qsl((await request.read()).decode()))
        self.sent.append(form)
        self.credentials.append(request.headers.get("Authorization"))
        self.last_token = (self.make_token or self.token_of_sign_in)()
        return web.json_response({"id_token": self.last_token, "access_token": "access"})

    def token_of_sign_in(self, header: Mapping[str, Any] | None = None, key: Any = None) -> str:
        """Return a token for the code that was sent last."""
        now_s, nonce = self.clock_ms() // 1000, self._nonces[self.sent[-1]["code"]]
        own = {"iss": self.url, "aud": CLIENT, "iat": now_s, "exp": now_s + 300, "nonce": nonce}
        claims = {name: value for name, value in (own | self.claims).items() if value is not None}
        return self.sign(claims, header, key)

    def sign(self, claims: Any, header: Mapping[str, Any] | None = None, key: Any = None) -> str:
        """Return a token, whose signature is empty for the algorithm none; `key` may be the bytes of a shared one."""
        head = {"alg": self.algorithm, "kid": self.key.kid} | self.header | dict(header or {})
        parts = [urlsafe_b64encode(orjson.dumps(part)).rstrip(b"=") for part in (head, claims)]
        signed = b".".join(parts)
        if isinstance(key, bytes):
            mark = hmac.digest(key, signed, "sha256")
        elif head["alg"] == "none":
            mark = b""
        else:
            mark = JWSRegistry.algorithms[head["alg"]].sign(signed, key or self.key)
        return (signed + b"." + urlsafe_b64encode(mark).rstrip(b"=")).decode()

    def lead_back(self, location: str, **more: str) -> dict[str, str]:
        """Return the parameters with which a browser that was sent here comes back."""
        query = {name: values[0] for name, values in parse_qs(urlsplit(location).query).items()}
        code = f"code {len(self._nonces)}"
        self._nonces[code] = query["nonce"]
        return {"code": code, "state": query["state"]} | more


def problem_of(answer: Answer) -> str | None:
    """Return the problem that a redirect leads to; None for one that does not."""
    assert answer.status == 302, answer.text
    return dict(parse_qsl(urlsplit(answer.headers["Location"]).query)).get("problem")


async def come_back(browser: PageClient, url: str) -> Answer:
    """Follow the provider's way back, which other sites' pages lead to."""
    parts = urlsplit(url)
    cross_site = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    return await browser("GET", f"{parts.path}?{parts.query}", headers=cross_site)
