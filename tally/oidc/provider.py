"""The OpenID provider: metadata and keys, which are read at first use, and the requests of the flow.

Nothing is asked when the server starts: a provider that is down stops nobody who signs in otherwise. Metadata and keys
are kept for an hour, and longer where the provider does not answer. Each request has 10 seconds, follows no redirect,
and reads 1 MB at most.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote_plus, urlencode, urlsplit

import aiohttp
import orjson

from tally.clock import Clock
from tally.errors import fields, log
from tally.oidc.tokens import BadToken, Claims, UnknownKey, check_claims, claims_of, load, signed_claims

TIMEOUT_S, MAX_BYTES = 10, 1_000_000
_KEPT_NS, _RETRY_NS = 3_600 * 1_000_000_000, 10 * 1_000_000_000
# An unknown key makes the server ask for the keys again, so seldom that strangers' tokens cause no flood.
_KEYS_AGAIN_NS = 60 * 1_000_000_000
_LOOPBACK = frozenset(("localhost", "127.0.0.1", "::1"))


class ProviderError(Exception):
    """The provider did not answer, or not as it should; the message is for the log and holds no token."""


class Metadata(NamedTuple):
    """What the provider's discovery document says (OpenID Connect Discovery 1.0, 3)."""

    issuer: str
    authorization: str
    token: str
    keys: str
    userinfo: str | None
    end_session: str | None
    algorithms: frozenset[str]
    names_issuer: bool
    takes_posted_secret_only: bool


class Client(NamedTuple):
    """This server as the provider knows it. `secret` is empty for a public client."""

    issuer: str
    id: str
    secret: str
    scopes: str
    redirect_uri: str
    groups_claim: str
    needs_groups: bool


def is_safe_url(value: object) -> bool:
    """Return whether a value is a URL with https, or with http to this machine."""
    if not isinstance(value, str) or not value.isprintable() or " " in value or len(value) > 2_000:
        return False
    try:
        url = urlsplit(value)
        return (url.scheme == "https" and bool(url.hostname)) or (url.scheme == "http" and url.hostname in _LOOPBACK)
    except ValueError:
        return False


class Provider:
    """The provider of the settings. Used by the event loop alone."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self.client = client
        self._clock = clock
        self._metadata: Metadata | None = None
        self._keys: list[Any] = []
        self._read_ns = self._tried_ns = self._keys_ns = -_KEPT_NS
        self._failure = ""
        self._reading = asyncio.Lock()

    async def metadata(self) -> Metadata:
        """Return the provider's metadata; the former one where the provider does not answer. Raises ProviderError."""
        async with self._reading:
            now_ns = self._clock.monotonic_ns()
            if self._metadata is not None and now_ns - self._read_ns < _KEPT_NS:
                return self._metadata
            if now_ns - self._tried_ns >= _RETRY_NS:
                self._tried_ns, self._failure = now_ns, ""
                try:
                    metadata = _metadata(self.client.issuer, await self._discovery())
                    keys = await self._read_keys(metadata)
                    self._metadata, self._keys, self._read_ns, self._keys_ns = metadata, keys, now_ns, now_ns
                except ProviderError as failure:
                    self._failure = str(failure)
                    if self._metadata is not None:
                        log.warning("the OpenID provider's former metadata is used", extra=fields(cause=str(failure)))
            if self._metadata is None:
                raise ProviderError(self._failure)
            return self._metadata

    async def _discovery(self) -> Any:
        # Some providers' issuers end in a slash, which belongs to the issuer and not to this URL.
        url = self.client.issuer.rstrip("/") + "/.well-known/openid-configuration"
        return _successful(url, await self._request("GET", url))

    async def _read_keys(self, metadata: Metadata) -> list[Any]:
        answer = _successful(metadata.keys, await self._request("GET", metadata.keys))
        keys = answer.get("keys")
        if not isinstance(keys, list):
            raise ProviderError(f"{metadata.keys} has no keys")
        return keys

    async def authorization_url(self, state: str, nonce: str, challenge: str) -> str:
        """Return where the browser signs in. Raises ProviderError."""
        metadata = await self.metadata()
        query = {
            "response_type": "code",
            "client_id": self.client.id,
            "redirect_uri": self.client.redirect_uri,
            "scope": self.client.scopes,
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        return _with_query(metadata.authorization, query)

    async def end_session_url(self, home: str) -> str | None:
        """Return where the browser ends the provider's session; None where it has no such page. Raises ProviderError"""
        metadata = await self.metadata()
        query = {"client_id": self.client.id, "post_logout_redirect_uri": home}
        return None if metadata.end_session is None else _with_query(metadata.end_session, query)

    async def check_issuer(self, sent: str | None) -> None:
        """Raise BadToken where the response comes from another provider (RFC 9207). Raises ProviderError."""
        metadata = await self.metadata()
        if sent != metadata.issuer and (sent is not None or metadata.names_issuer):
            raise BadToken(f"the response is of the issuer {sent!a:.200}; expected {metadata.issuer}")

    async def claims(self, code: str, verifier: str, nonce: str) -> Claims:
        """Exchange a code and return what the provider says of the person. Raises BadToken, ProviderError."""
        metadata = await self.metadata()
        answer = await self._exchange(metadata, code, verifier)
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise ProviderError(f"{metadata.token} returned no ID token: --oidc-scopes must contain openid")
        await asyncio.to_thread(load)
        try:
            claims = signed_claims(token, self._keys, metadata.algorithms)
        except UnknownKey:
            if not await self._read_keys_again(metadata):
                raise
            claims = signed_claims(token, self._keys, metadata.algorithms)
        check_claims(claims, metadata.issuer, self.client.id, nonce, self._clock.wall_ms() / 1000)
        return claims_of(claims, await self._userinfo(metadata, claims, answer), self.client.groups_claim)

    async def _exchange(self, metadata: Metadata, code: str, verifier: str) -> Any:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.client.redirect_uri,
            "code_verifier": verifier,
        }
        headers = {}
        if self.client.secret and not metadata.takes_posted_secret_only:
            # RFC 6749, 2.3.1: both parts are encoded before they are joined.
            parts = quote_plus(self.client.id), quote_plus(self.client.secret)
            headers["Authorization"] = aiohttp.encode_basic_auth(*parts)
        else:
            form["client_id"] = self.client.id
            if self.client.secret:
                form["client_secret"] = self.client.secret
        return _successful(metadata.token, await self._request("POST", metadata.token, form, headers))

    async def _read_keys_again(self, metadata: Metadata) -> bool:
        """Read the keys again after a rotation; return whether that was done."""
        async with self._reading:
            now_ns = self._clock.monotonic_ns()
            if now_ns - self._keys_ns < _KEYS_AGAIN_NS:
                return False
            self._keys_ns = now_ns
            self._keys = await self._read_keys(metadata)
            return True

    async def _userinfo(self, metadata: Metadata, claims: Mapping[str, Any], answer: Mapping[str, Any]) -> Any:
        """Return the claims of userinfo where the token lacks some; empty where that is not needed."""
        access = answer.get("access_token")
        lacks_groups = self.client.needs_groups and self.client.groups_claim not in claims
        if metadata.userinfo is None or not isinstance(access, str) or (claims.get("email") and not lacks_groups):
            return {}
        if not access.isascii() or not access.isprintable():
            raise ProviderError(f"{metadata.token} returned an access token that no header can carry")
        headers = {"Authorization": f"Bearer {access}"}
        profile = _successful(metadata.userinfo, await self._request("GET", metadata.userinfo, None, headers))
        if profile.get("sub") != claims["sub"]:
            raise BadToken("userinfo is of another person than the ID token: its sub differs")
        return profile

    async def _request(
        self, method: str, url: str, form: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, bytes]:
        # Not compressed: the size that is read is the size that is kept.
        sent = {"Accept": "application/json", "Accept-Encoding": "identity", **(headers or {})}
        body = bytearray()
        try:
            async with (
                aiohttp.ClientSession(
                    timeout=aiohttp.ClientTimeout(TIMEOUT_S), cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False
                ) as session,
                session.request(method, url, data=form, headers=sent, allow_redirects=False) as response,
            ):
                async for part in response.content.iter_chunked(65_536):
                    body += part
                    if len(body) > MAX_BYTES:
                        raise ProviderError(f"{url} answered more than {MAX_BYTES} bytes")
        except (aiohttp.ClientError, OSError, ValueError) as failure:
            raise ProviderError(f"{url} cannot be reached: {failure or type(failure).__name__}") from None
        return response.status, bytes(body)


def _metadata(configured: str, answer: Any) -> Metadata:
    """Return the metadata of a discovery document. Raises ProviderError."""
    issuer = answer.get("issuer")
    if not isinstance(issuer, str) or issuer.rstrip("/") != configured.rstrip("/") or not is_safe_url(issuer):
        raise ProviderError(f"the provider's issuer is {issuer!a:.200}; --oidc-issuer is {configured}")
    names = ("authorization_endpoint", "token_endpoint", "jwks_uri", "userinfo_endpoint", "end_session_endpoint")
    urls = [answer.get(name) for name in names]
    for name, url in zip(names, urls, strict=True):
        if not is_safe_url(url) and (url is not None or name in names[:3]):
            raise ProviderError(f"the provider's {name} is {url!a:.200}; expected a URL with https")
    algorithms, methods = (
        answer.get(name, default)
        for name, default in (
            ("id_token_signing_alg_values_supported", ["RS256"]),
            ("token_endpoint_auth_methods_supported", ["client_secret_basic"]),
        )
    )
    if not isinstance(algorithms, list) or not isinstance(methods, list):
        raise ProviderError("the provider's metadata is malformed")
    return Metadata(
        issuer,
        *(urls[0], urls[1], urls[2]),
        *(urls[3], urls[4]),
        frozenset(algorithm for algorithm in algorithms if isinstance(algorithm, str)),
        answer.get("authorization_response_iss_parameter_supported") is True,
        "client_secret_post" in methods and "client_secret_basic" not in methods,
    )


def _with_query(url: str, query: Mapping[str, str]) -> str:
    return f"{url}{'&' if urlsplit(url).query else '?'}{urlencode(query)}"


def _successful(url: str, answer: tuple[int, bytes]) -> Any:
    """Return the JSON object of a successful answer. Raises ProviderError, which names the error of the provider."""
    status, body = answer
    try:
        content = orjson.loads(body)
    except ValueError:
        content = None
    if status != 200 or not isinstance(content, dict):
        error = content.get("error") if isinstance(content, dict) else None
        raise ProviderError(f"{url} answered {status}{f' {error!a:.100}' if error else ''}; expected 200 with JSON")
    return content
