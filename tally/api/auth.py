"""Who may come in: the session behind a cookie, where changes may come from, how often a password may be tried.

What every handler of the pages' own API asks for:
- `admit`: a request that changes something comes from one of our own pages. The browser says so in Sec-Fetch-Site;
  older ones, and plain http, in Origin. A request that says neither is refused: no browser sends one.
- `session`: somebody is logged in, by the one cookie that fits the connection. Over https its name begins with
  `__Host-`, which no other host and no plain connection can set; there the plain name opens nothing.
- `body`: a JSON object with known fields.

Passwords are compared on one thread, one at a time (19 MiB each), and few may wait. How often one may be tried, and by
whom, says tally/accounts/sign_in.py; the browsers that are known, by a session or by a device cookie, have a queue of
their own for that thread. Nothing here is logged.
"""

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

import orjson
from aiohttp import web

from tally import errors
from tally.accounts import logins
from tally.accounts.accounts import Owner, password_hash_of
from tally.accounts.logins import DEVICE_LASTS_MS, LASTS_MS, MOST_OF_ACCOUNT, Login
from tally.accounts.sign_in import SignInLimits, TooManyTries, Try
from tally.clock import Clock
from tally.errors import ApiError
from tally.events.client import Network, is_proxy
from tally.http.body import read_body
from tally.http.request_paths import public_prefix
from tally.http.responses import RESPONSE_COOKIES
from tally.ingest.collector import COLLECTOR
from tally.ingest.store import Store
from tally.rate_limit import Buckets
from tally.rollups.traffic import Traffic

T = TypeVar("T")

COOKIE, DEVICE_COOKIE = "tally", "tally-device"
# At 25 ms each nobody waits longer than two seconds, in either queue.
MOST_WAITING = 32
_CHANGES_NOTHING = frozenset(("GET", "HEAD"))
_OWN_PAGES = frozenset(("same-origin", "none"))


class Session(NamedTuple):
    """Who is logged in, and by what."""

    owner: Owner
    digest: bytes
    login: Login


class Auth:
    """What the pages' own API needs at hand. Used by the event loop alone."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        base_url: str,
        trusted: tuple[Network, ...],
        per_minute: int,
        setup_token: str,
    ) -> None:
        self.store, self.clock, self.base_url, self.setup_token = store, clock, base_url, setup_token
        # Questions of who is logged in, and of who has a shared link.
        self.owners, self.viewers = Buckets(per_minute), Buckets(per_minute)
        self._sign_in = SignInLimits()
        # A website's version when its events were counted last, and how many there were.
        self.counted: dict[int, tuple[tuple[int, int], Traffic]] = {}
        self._trusted = trusted
        self._thread = ThreadPoolExecutor(1, "passwords")
        # Passwords that wait for the thread, of browsers that are known and of others.
        self._waiting = {True: 0, False: 0}

    @property
    def needs_setup(self) -> bool:
        """Whether no account has a password yet."""
        return not any(owner.has_password for owner in self.store.registry.owners.values())

    @property
    def is_demo(self) -> bool:
        """Whether the database holds invented traffic (tally/demo/build.py), which the pages say."""
        return self.store.registry.demo_until is not None

    def close(self) -> None:
        """Ends the thread."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    # --- where a request comes from

    def is_secure(self, request: web.Request) -> bool:
        """Whether the browser's own connection is https: a trusted proxy says so, or the public address does."""
        is_passed_on = is_proxy(request.remote, self._trusted)
        told = request.headers.get("X-Forwarded-Proto", "").partition(",")[0].strip().lower()
        if told and is_passed_on:
            return told == "https"
        public = urlsplit(self.base_url)
        return public.scheme == "https" and (is_passed_on or request.host.lower() == public.netloc.lower())

    def admit(self, request: web.Request) -> None:
        """Refuses what another site's page asks for: a change, and also an answer if the browser says that it is so.

        Raises ApiError 403.
        """
        site = request.headers.get("Sec-Fetch-Site")
        is_ours = site in _OWN_PAGES if site is not None else self._is_own_origin(request)
        if not is_ours and (site is not None or request.method not in _CHANGES_NOTHING):
            raise ApiError(errors.CROSS_SITE)

    def _is_own_origin(self, request: web.Request) -> bool:
        given = request.headers.getall("Origin", ())
        if len(given) != 1:
            return False
        try:
            origin, public = urlsplit(given[0].lower()), urlsplit(self.base_url.lower())
        except ValueError:
            return False
        if public.netloc and (origin.scheme, origin.netloc) == (public.scheme, public.netloc):
            return True
        schemes = ("https",) if self.is_secure(request) else ("http", "https")
        return origin.scheme in schemes and origin.netloc != "" and origin.netloc == request.host.lower()

    # --- sessions

    async def session(self, request: web.Request) -> Session:
        """Who is logged in. Raises ApiError 401, and 403 for what another site's page asks for."""
        self.admit(request)
        found, now_ms = self.found(request), self.clock.monotonic_wall_ms()
        if found is None:
            raise ApiError(errors.NOT_LOGGED_IN)
        if found.login.is_worn(now_ms):
            self._set_cookie(request, COOKIE, request.cookies[self._cookie_name(request)], LASTS_MS)
            # A full disk is no reason to show nothing.
            with contextlib.suppress(ApiError):
                await self.store.change(lambda connection: logins.prolong(connection, found.digest, now_ms + LASTS_MS))
        return found

    async def asked(self, request: web.Request, fields: Collection[str]) -> tuple[Session, dict[str, Any]]:
        """Who is logged in, still so when the body has come, and the body. Raises ApiError 400, 401, 403, 413, 415."""
        await self.session(request)
        sent = await body(request, fields)
        found = self.found(request)
        # A body may take its time: what is ended meanwhile begins nothing any more.
        if found is None:
            raise ApiError(errors.NOT_LOGGED_IN)
        return found, sent

    def found(self, request: web.Request) -> Session | None:
        """Who is logged in, if anybody is."""
        value, registry = request.cookies.get(self._cookie_name(request)), self.store.registry
        if not value:
            return None
        digest = logins.digest_of(value, self.store.key_salt)
        login = registry.logins.get(digest)
        if login is None or login.ends_ms <= self.clock.monotonic_wall_ms():
            return None
        return Session(registry.owners[login.account], digest, login)

    async def log_in(self, request: web.Request, account: int, password_hash: str) -> None:
        """Begins a session under a new value, and makes the browser known; what it had of both ends.

        Raises ApiError 401 where the password that was given has been changed meanwhile.
        """
        now_ms, value = self.clock.monotonic_wall_ms(), logins.new_value()
        digest, login = logins.digest_of(value, self.store.key_salt), Login(account, now_ms, now_ms + LASTS_MS)
        device_value, device = logins.new_value(), Login(account, now_ms, now_ms + DEVICE_LASTS_MS)
        device_digest = logins.device_digest_of(device_value, self.store.key_salt)
        before, device_before = self.found(request), self._device(request)
        over = self._over(self.store.registry.logins, account, before and before.digest)
        over_devices = self._over(self.store.registry.devices, account, device_before)

        def begin(connection: sqlite3.Connection) -> None:
            if password_hash_of(connection, account) != password_hash:
                raise ApiError(errors.WRONG_CREDENTIALS)
            logins.forget(connection, over)
            logins.store(connection, digest, login)
            logins.forget_devices(connection, over_devices)
            logins.store_device(connection, device_digest, device)

        await self.store.change(begin)
        self._set_cookie(request, COOKIE, value, LASTS_MS)
        self._set_cookie(request, DEVICE_COOKIE, device_value, DEVICE_LASTS_MS)

    def _over(self, known: Mapping[bytes, Login], account: int, before: bytes | None) -> list[bytes]:
        """What ends where another session or device of an account begins: expired ones, this browser's, the oldest."""
        deletion_time_ms = self.clock.deletion_time_ms()
        over = [one for one, other in known.items() if other.ends_ms <= deletion_time_ms] + ([before] if before else [])
        return over + logins.of_account(known, account)[: 1 - MOST_OF_ACCOUNT]

    def _device(self, request: web.Request) -> bytes | None:
        """The digest of the browser's device cookie, if an account knows it."""
        value = request.cookies.get(self._cookie_name(request, DEVICE_COOKIE))
        digest = logins.device_digest_of(value, self.store.key_salt) if value else b""
        device = self.store.registry.devices.get(digest)
        return digest if device is not None and device.ends_ms > self.clock.monotonic_wall_ms() else None

    async def log_out(self, request: web.Request, step: Callable[[sqlite3.Connection], None]) -> None:
        """Ends sessions, this one among them; the browser forgets its cookie, and that of a device that is not known
        any more."""
        await self.store.change(step)
        self._set_cookie(request, COOKIE, "", 0)
        if self._cookie_name(request, DEVICE_COOKIE) in request.cookies and self._device(request) is None:
            self._set_cookie(request, DEVICE_COOKIE, "", 0)

    def _cookie_name(self, request: web.Request, name: str = COOKIE) -> str:
        """A cookie's name: below a prefix another one, so that a server at the root of the host has its own.

        Browsers take `__Host-` with Path=/ alone (RFC 6265bis, 4.1.3.2); `__Secure-` needs https and no more.
        """
        prefix = public_prefix(request)
        own = name + prefix.replace("/", ".")
        if not self.is_secure(request):
            return own
        return f"__Secure-{own}" if prefix else f"__Host-{own}"

    def _set_cookie(self, request: web.Request, name: str, value: str, lasts_ms: int) -> None:
        """Has the answer set a cookie, or remove it where it lasts no time."""
        name, secure = self._cookie_name(request, name), "; Secure" if self.is_secure(request) else ""
        path = public_prefix(request) or "/"
        line = f"{name}={value}; Path={path}; Max-Age={lasts_ms // 1000}; HttpOnly; SameSite=Lax{secure}"
        request.setdefault(RESPONSE_COOKIES, {})[name] = line

    # --- trying passwords

    async def hashing(self, do: Callable[..., T], *what: Any, is_known: bool = False) -> T:
        """What a slow function of tally/accounts/passwords.py gives, one at a time. `is_known`: for a browser that is
        known,
        which no crowd of others keeps from its turn. Raises ApiError 503."""
        if self._waiting[is_known] >= MOST_WAITING:
            raise ApiError(errors.OVERLOADED, "Too many log in just now: try again in a moment.", retry_after_s=1)
        self._waiting[is_known] += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, do, *what)
        finally:
            self._waiting[is_known] -= 1

    def take_try(self, request: web.Request, email: str | None = None, owner: Owner | None = None) -> Try:
        """Count a try of a password, or of another secret where no email address is given. `owner`: whose address it
        is. The caller gives the try back if it was right or could not be checked. Raises ApiError 429."""
        browser = None if owner is None else self._known_browser(request, owner.number)
        version = b"" if owner is None else owner.password_version
        try:
            return self._sign_in.take(self.client(request), email, browser, self.clock.monotonic_ns, version)
        except TooManyTries as refused:
            message = "Too many tries: wait a while, then try again."
            raise ApiError(errors.RATE_LIMITED, message, retry_after_s=refused.wait_s) from None

    def _known_browser(self, request: web.Request, account: int) -> bytes | None:
        """The digest of a session or device of the account that this browser has."""
        session, device = self.found(request), self._device(request)
        if session is not None and session.owner.number == account:
            return session.digest
        return device if device is not None and self.store.registry.devices[device].account == account else None

    def client(self, request: web.Request) -> bytes:
        """What the client is counted under: the same address as collect sees."""
        resolver = request.app[COLLECTOR].resolver
        return resolver.client(request.remote, *request.headers.getall(resolver.header, ())).key

    def count(self, buckets: Buckets, key: bytes | int) -> None:
        """Takes a token. Raises ApiError 429."""
        now_ns = self.clock.monotonic_ns()
        wait_s = buckets.wait_s(key, now_ns)
        if wait_s:
            raise ApiError(errors.RATE_LIMITED, retry_after_s=wait_s)
        buckets.take(key, now_ns)


AUTH = web.AppKey("gate", Auth)


def invalid(field: str, message: str) -> ApiError:
    """The refusal of a field."""
    return ApiError(errors.INVALID_FIELD, message, field=field)


async def body(request: web.Request, fields: Collection[str]) -> dict[str, Any]:
    """A request's JSON object, with no other fields than these. Raises ApiError 400, 413, 415."""
    if request.content_type != "application/json":
        raise ApiError(errors.UNSUPPORTED_MEDIA_TYPE)
    try:
        sent = orjson.loads(await read_body(request))
    except orjson.JSONDecodeError:
        raise ApiError(errors.INVALID_JSON) from None
    if not isinstance(sent, dict):
        raise ApiError(errors.INVALID_BODY, "The body is a JSON object.")
    for name in sent:
        if name not in fields:
            raise invalid(name[:100], f"The fields are {', '.join(fields)}.")
    return sent


def text(sent: dict[str, Any], name: str) -> str:
    """A field that has to be a text. Raises ApiError 400."""
    value = sent.get(name)
    if not isinstance(value, str):
        raise invalid(name, f"{name} is a text.")
    return value


def flag(sent: dict[str, Any], name: str) -> bool:
    """A field that is true or false; false where it is missing or null. Raises ApiError 400."""
    value = sent.get(name)
    if value is not None and not isinstance(value, bool):
        raise invalid(name, f"{name} must be true or false.")
    return value is True
