"""Authorisation of the pages' own API: sessions, the origin of changes, and limits of password checks.

The management API (tally/api/keys.py) has the same handlers, for which an API key stands for a session.

Every handler of /api/account uses:
- `check_site`: a request that changes something must come from a page of this server. Browsers send that in
  Sec-Fetch-Site; older ones, and plain http, in Origin. A request with neither header is refused: no browser sends one.
- `session`: the session of the cookie that fits the connection. Over https its name begins with `__Host-`, which no
  other host and no plain connection can set; a cookie of the plain name is ignored there.
- `body`: a JSON object with known fields.

Passwords are hashed on one thread, one at a time (19 MiB each), with a short queue, of which a random request is
refused where it is full, so that a flood does not keep out the others. tally/accounts/sign_in.py limits how often a
password may be tried; known browsers, by a session or a device cookie, have a queue of their own and take turns with
the others. Nothing here is logged.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar
from urllib.parse import urlsplit

from aiohttp import web

from tally import errors
from tally.accounts import audit, changes, logins, people, webauthn
from tally.accounts.accounts import Account, Person
from tally.accounts.api_keys import ApiKey
from tally.accounts.assistants import Codes
from tally.accounts.audit import Actor, Entry, Via
from tally.accounts.changes import NewSession
from tally.accounts.logins import DEVICE_LASTS_MS, LASTS_MS, MAX_OF_PERSON, Login
from tally.accounts.passkeys import Challenges
from tally.accounts.roles import Action, Membership, may
from tally.accounts.second_factor import Setups
from tally.accounts.share_links import ShareLink
from tally.accounts.sign_in import CodeLimits, SignInLimits, TooManyTries, Try
from tally.api.context import READ_API
from tally.base_path import public_url
from tally.errors import ApiError
from tally.events.client import Network, is_proxy, wider_networks
from tally.events.json_text import read_json
from tally.events.validation import MAX_BODY_BYTES
from tally.events.website import Website
from tally.http.body import read_body, read_large_body
from tally.http.request_paths import public_prefix
from tally.http.responses import RESPONSE_COOKIES
from tally.ingest.collector import COLLECTOR
from tally.ingest.node import Node
from tally.rate_limit import Buckets
from tally.storage.fair_queue import FairQueue
from tally.timestamps import HOUR_MS

P = ParamSpec("P")
T = TypeVar("T")

COOKIE, DEVICE_COOKIE = "tally", "tally-device"
# At 25 ms each no request waits longer than two seconds, in either queue.
MAX_WAITING = 32
# Of one address: fewer than MAX_CHALLENGES while one lasts, so that it does not displace those of others.
CHALLENGES_A_MINUTE = 60
_SAFE_METHODS = frozenset(("GET", "HEAD"))
# What has signed the person in and asked for a second factor, where one is required.
_ELSEWHERE = frozenset(("header", "oidc"))
_OWN_PAGES = frozenset(("same-origin", "none"))


# The API key that authorised a request for a route of the management API (tally/api/keys.py).
CALLING_KEY = web.RequestKey("calling_key", ApiKey)
# The number of the person whom a proxy's header names (tally/api/auth_header.py).
HEADER_PERSON = web.RequestKey("header_person", int)


class Session(NamedTuple):
    """What authorises a request: a person, the digest of the cookie and the stored login; or an API key alone.

    A person whom a proxy's header names has no login, and a digest that is the person's own.

    The handlers of the management API receive a key (tally/api/keys.py), whose scope has been checked.
    """

    signed_in: Person | None
    digest: bytes
    login: Login | None
    key: ApiKey | None = None

    @property
    def via(self) -> Via:
        """By which authorisation the request came, as the audit log has it."""
        if self.key is not None:
            return "key"
        return self.login.via if self.login is not None else "header"

    @property
    def person(self) -> Person:
        """The person who is signed in; no route that asks for one is called with a key."""
        assert self.signed_in is not None
        return self.signed_in


class Reading:
    """Which keys have read single events of which websites within the current hour, in memory."""

    def __init__(self) -> None:
        self._hour, self._known = 0, set[tuple[int, int]]()

    def is_new(self, pair: tuple[int, int], now_ms: int) -> bool:
        """Return whether a key (number) reads a website (number) for the first time within the hour."""
        if self._hour != now_ms // HOUR_MS:
            self._hour, self._known = now_ms // HOUR_MS, set()
        before = len(self._known)
        self._known.add(pair)
        return len(self._known) > before

    def forget(self, pair: tuple[int, int]) -> None:
        """Have the next reading count as the first."""
        self._known.discard(pair)


class Auth:
    """State of the pages' own API. Used by the event loop alone."""

    def __init__(
        self,
        node: Node,
        base_url: str,
        trusted: tuple[Network, ...],
        per_minute: int,
        setup_token: str,
        *,
        has_passwords: bool = True,
        logout_url: str = "",
    ) -> None:
        self.node, self.registry, self.clock = node, node.registry, node.clock
        self.base_url, self.setup_token = base_url, setup_token
        # Whether people may sign in by password, and where the proxy that signs them in ends its own session.
        self.has_passwords, self.logout_url = has_passwords, logout_url
        # Rate limits of reports by session and by share link.
        self.people, self.viewers = Buckets(per_minute), Buckets(per_minute)
        # Of people, and of share links, which do not keep a person from signing in.
        self._sign_in, self._link_tries, self._codes = SignInLimits(), SignInLimits(), CodeLimits()
        self.setups, self.codes, self.reading = Setups(), Codes(), Reading()
        # Where there can be passkeys; challenges of sign-ins, and those of sessions, which sign-ins do not displace.
        self.no_passkeys = webauthn.unavailable(base_url)
        self.passkeys = None if self.no_passkeys else webauthn.relying_party(base_url)
        self.challenges, self.session_challenges = Challenges(), Challenges()
        self.challenge_clients = Buckets(CHALLENGES_A_MINUTE)
        self._trusted = trusted
        self._thread = ThreadPoolExecutor(1, "passwords")
        # The turn to use the thread. Known browsers (True) and others wait in queues of their own.
        self._turns = FairQueue([self._thread], MAX_WAITING)

    @property
    def needs_setup(self) -> bool:
        """Return whether no person has a password yet, where people sign in by one."""
        return self.has_passwords and not any(person.has_password for person in self.registry.cache.people.values())

    @property
    def is_demo(self) -> bool:
        """Return whether the database holds demo traffic (tally/demo/build.py); the pages show a note then."""
        return self.registry.cache.demo_until is not None

    def close(self) -> None:
        """End the password thread."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def change(
        self,
        by: Session | Person,
        account: int | None,
        entry: Entry | Callable[[T], list[Entry]],
        step: Callable[Concatenate[Any, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Return what a function that writes returns; its line of the audit log is in the same transaction.

        `account`: that of the line; None where each account of the person has one. `entry`: what the line says; a
        function of the result where it depends on that, which returns the lines. Raises ApiError 503.
        """
        key = by.key if isinstance(by, Session) else None
        if key is not None:
            actor = Actor(key.account, key.label, "key")
        else:
            person = by.person if isinstance(by, Session) else by
            via = by.via if isinstance(by, Session) else "session"
            actor = Actor(0, person.email, via, person.number)
        if account is not None:
            actors = [actor._replace(account=account)]
        else:
            members = self.registry.cache.members.values()
            actors = [actor._replace(account=member.account) for member in members if member.person == actor.person]
        for actor in actors:
            step = audit.audited(step, actor, entry, self.clock.wall_ms())
        try:
            return await self.registry.change(people.by_members(step, actors), *args, **kwargs)
        except people.NotAMember:
            raise ApiError(errors.NOT_ALLOWED) from None

    def membership(self, session: Session, account: int) -> Membership | None:
        """Return what a session may do in an account; None without membership.

        A key whose scopes and websites were checked may do what an admin may, as far as its routes reach.
        """
        if session.key is not None:
            return Membership(account, 0, "admin", None, 0) if session.key.account == account else None
        members = self.memberships(session.person.number, session.via)
        return next((member for member in members if member.account == account), None)

    def memberships(self, person: int, via: str) -> list[Membership]:
        """Return the memberships of a person; a proxy or a provider that signs in asks for the second factor."""
        members = self.registry.cache.memberships_of(person)
        return [member._replace(is_due=False) for member in members] if via in _ELSEWHERE else members

    def member_name(self, account: int, person: int | None) -> str | None:
        """Return how a person of an account is named: by an address, or as `former member N`; None for no person."""
        if person is None:
            return None
        known = self.registry.cache.people.get(person)
        is_member = (account, person) in self.registry.cache.members
        return known.email if known is not None and is_member else audit.former_member(person)

    async def website(self, request: web.Request, session: Session, action: Action) -> Website:
        """Return the website in the path, if the session may do something with it.

        Raises ApiError 404 where it may not see it, 403 where the role does not allow the action.
        """
        website = await request.app[READ_API].found_website(request)
        member = None if website is None else self.membership(session, website.account)
        if website is not None and member is not None and member.is_due:
            is_seen = may(member._replace(is_due=False), "read", website.number)
            raise ApiError(errors.SECOND_FACTOR_DUE if is_seen else errors.UNKNOWN_WEBSITE)
        if website is None or not may(member, "read", website.number):
            raise ApiError(errors.UNKNOWN_WEBSITE)
        if not may(member, action, website.number):
            raise ApiError(errors.NOT_ALLOWED)
        return website

    def account(self, request: web.Request, session: Session, action: Action) -> Account:
        """Return the account that a request concerns: `account` in its query, else the first of the person's.

        One that the person owns comes before others, and before all one in which no second factor is due. Raises
        ApiError 403 where the role does not allow the action or the second factor is due, 404.
        """
        if session.key is not None:
            return self.registry.cache.accounts[session.key.account]
        return self.account_of(request, session.person.number, action, session.via)

    def account_of(self, request: web.Request, person: int, action: Action, via: str = "session") -> Account:
        """The same for a person's number."""
        numbers = request.query.getall("account", ())
        members = self.memberships(person, via)
        if numbers:
            members = [member for member in members if [str(member.account)] == [*numbers]]
        else:
            members.sort(key=lambda member: (member.is_due, member.role != "owner"))
        if not members:
            raise ApiError(errors.UNKNOWN_ACCOUNT if numbers else errors.NOT_ALLOWED)
        if members[0].is_due:
            raise ApiError(errors.SECOND_FACTOR_DUE)
        if not may(members[0], action):
            raise ApiError(errors.NOT_ALLOWED)
        return self.registry.cache.accounts[members[0].account]

    # --- the origin of a request

    def is_secure(self, request: web.Request) -> bool:
        """Return whether the browser's own connection is https: by a trusted proxy's header, TLS, or the base URL."""
        is_proxied = is_proxy(request.remote, self._trusted)
        scheme = request.headers.get("X-Forwarded-Proto", "").partition(",")[0].strip().lower()
        if scheme and is_proxied:
            return scheme == "https"
        if request.secure:
            return True
        public = urlsplit(self.base_url)
        return public.scheme == "https" and (is_proxied or request.host.lower() == public.netloc.lower())

    def own_url(self, request: web.Request) -> str:
        """Return the address of this server with its prefix: the base URL, or that of the request."""
        prefix = public_prefix(request)
        scheme = "https" if self.is_secure(request) else "http"
        return public_url(self.base_url or f"{scheme}://{request.host}", prefix)

    def check_site(self, request: web.Request) -> None:
        """Raise ApiError 403 for a request of another site's page.

        A request that changes nothing passes without the headers; browsers that send Sec-Fetch-Site are held to it.
        """
        site = request.headers.get("Sec-Fetch-Site")
        is_ours = site in _OWN_PAGES if site is not None else self.is_own_origin(request)
        if not is_ours and (site is not None or request.method not in _SAFE_METHODS):
            raise ApiError(errors.CROSS_SITE)

    def is_own_origin(self, request: web.Request) -> bool:
        """Return whether a request has one Origin, that of this server: of the base URL or of the request's host."""
        origins = request.headers.getall("Origin", ())
        if len(origins) != 1:
            return False
        try:
            origin, public = urlsplit(origins[0].lower()), urlsplit(self.base_url.lower())
        except ValueError:
            return False
        if public.netloc and (origin.scheme, origin.netloc) == (public.scheme, public.netloc):
            return True
        schemes = ("https",) if self.is_secure(request) else ("http", "https")
        return origin.scheme in schemes and origin.netloc != "" and origin.netloc == request.host.lower()

    # --- sessions

    async def session(self, request: web.Request) -> Session:
        """Return the request's session, renewed once a day. Raises ApiError 401, and 403 for another site's page."""
        if CALLING_KEY in request:
            return self._found(request)
        self.check_site(request)
        session, now_ms = self._found(request), self.clock.monotonic_wall_ms()
        if session.login is not None and session.login.is_worn(now_ms):
            self.set_cookie(request, COOKIE, request.cookies[self._cookie_name(request)], LASTS_MS)
            # On a full disk the session is not renewed, and the page is shown nevertheless.
            with contextlib.suppress(ApiError):
                await self.registry.change(logins.prolong, session.digest, session.login.person, now_ms + LASTS_MS)
        return session

    async def session_and_body(self, request: web.Request, fields: Collection[str]) -> tuple[Session, dict[str, Any]]:
        """Return the session and the body's fields. Raises ApiError 400, 401, 403, 413, 415."""
        await self.session(request)
        sent = await body(request, fields)
        # The session may have ended while the body arrived.
        return self._found(request), sent

    def _found(self, request: web.Request) -> Session:
        """Return the request's session. Raises ApiError 401."""
        session = self.found(request)
        if session is None:
            raise ApiError(errors.INVALID_API_KEY if CALLING_KEY in request else errors.NOT_LOGGED_IN)
        return session

    def found(self, request: web.Request) -> Session | None:
        """Return the request's session; None where it has none."""
        if CALLING_KEY in request:
            return self._of_key(request[CALLING_KEY])
        registry = self.registry.cache
        if HEADER_PERSON in request:
            person = registry.people.get(request[HEADER_PERSON])
            return None if person is None else Session(person, self._header_digest(person), None)
        value = self.cookie(request, COOKIE)
        if not value:
            return None
        digest = logins.digest_of(value, self.registry.key_salt)
        login = registry.logins.get(digest)
        if login is None or login.ends_ms <= self.clock.monotonic_wall_ms():
            return None
        return Session(registry.people[login.person], digest, login)

    def _header_digest(self, person: Person) -> bytes:
        """Return a digest that no cookie has: people whom a header names have counts of their own."""
        return logins.digest_of(f"header {person.number}", self.registry.key_salt)

    def _of_key(self, key: ApiKey) -> Session | None:
        """Return what stands for a session in a request by an API key; None where the key has been revoked."""
        if all(stored.number != key.number for stored in self.registry.cache.keys_of(key.account)):
            return None
        return Session(None, b"", None, key)

    async def begin_session(
        self,
        request: web.Request,
        number: int,
        check: Callable[[Any], T],
        entry: Entry | Callable[[T], list[Entry]],
        *,
        oidc_lasts_ms: int = 0,
    ) -> None:
        """Begin a session and make the browser known, each under a new value; those that the browser had end.

        `check` raises, in the transaction, where what was shown for the session does not hold any more; `entry`: what
        the lines of the audit log say; `oidc_lasts_ms`: how long the session lasts where an OpenID provider begins it.
        """
        if number not in self.registry.cache.people:
            # Another process has just created the person.
            await self.registry.read_changes()
        person = self.registry.cache.people.get(number)
        if person is None:
            raise ApiError(errors.WRONG_CREDENTIALS)
        now_ms, value = self.clock.monotonic_wall_ms(), logins.new_value()
        device_value = logins.new_value()
        before, salt, registry = self.found(request), self.registry.key_salt, self.registry.cache
        lasts_ms = oidc_lasts_ms or LASTS_MS
        login = Login(number, now_ms, now_ms + lasts_ms, "oidc" if oidc_lasts_ms else "session")
        new = NewSession(
            logins.digest_of(value, salt),
            login,
            logins.device_digest_of(device_value, salt),
            Login(number, now_ms, now_ms + DEVICE_LASTS_MS),
            ended=self._ended(registry.logins, number, before and before.digest),
            ended_devices=self._ended(registry.devices, number, self._device(request)),
        )
        await self.change(Session(person, new.digest, login), None, entry, changes.begin_session, check, new)
        self.set_cookie(request, COOKIE, value, lasts_ms)
        self.set_cookie(request, DEVICE_COOKIE, device_value, DEVICE_LASTS_MS)

    def _ended(self, known: Mapping[bytes, Login], person: int, before: bytes | None) -> list[bytes]:
        """Return the sessions or devices that end with a new one: expired, this browser's, the person's oldest."""
        deletion_time_ms = self.clock.deletion_time_ms()
        ended = [digest for digest, other in known.items() if other.ends_ms <= deletion_time_ms] + (
            [before] if before else []
        )
        return ended + logins.of_person(known, person)[: 1 - MAX_OF_PERSON]

    def _device(self, request: web.Request) -> bytes | None:
        """Return the digest of the browser's device cookie, if it is stored."""
        value = self.cookie(request, DEVICE_COOKIE)
        digest = logins.device_digest_of(value, self.registry.key_salt) if value else b""
        device = self.registry.cache.devices.get(digest)
        return digest if device is not None and device.ends_ms > self.clock.monotonic_wall_ms() else None

    async def log_out(self, request: web.Request, session: Session) -> None:
        """End a session."""
        await self.registry.change(logins.delete, [session.digest])
        self._remove_cookies(request)

    async def log_out_everywhere(self, request: web.Request, session: Session) -> None:
        """End all sessions and devices of a session's person."""
        number = session.person.number
        await self.change(session, None, Entry("sign_out_everywhere"), logins.delete_of_person, number)
        self._remove_cookies(request)

    def _remove_cookies(self, request: web.Request) -> None:
        """Remove the browser's session cookie, and its device cookie where that is no longer stored."""
        self.set_cookie(request, COOKIE, "", 0)
        if self._cookie_name(request, DEVICE_COOKIE) in request.cookies and self._device(request) is None:
            self.set_cookie(request, DEVICE_COOKIE, "", 0)

    def cookie(self, request: web.Request, name: str) -> str | None:
        """Return the value of a cookie that `set_cookie` has set; None without."""
        return request.cookies.get(self._cookie_name(request, name))

    def _cookie_name(self, request: web.Request, name: str = COOKIE) -> str:
        """Return a cookie's name: below a prefix another one, so that it differs from that of a server at the root.

        Browsers take `__Host-` with Path=/ alone (RFC 6265bis, 4.1.3.2); `__Secure-` needs https and no more.
        """
        prefix = public_prefix(request)
        full_name = name + prefix.replace("/", ".")
        if not self.is_secure(request):
            return full_name
        return f"__Secure-{full_name}" if prefix else f"__Host-{full_name}"

    def set_cookie(self, request: web.Request, name: str, value: str, lasts_ms: int) -> None:
        """Set a cookie in the response, or remove it where `lasts_ms` is 0."""
        name, secure = self._cookie_name(request, name), "; Secure" if self.is_secure(request) else ""
        path = public_prefix(request) or "/"
        line = f"{name}={value}; Path={path}; Max-Age={lasts_ms // 1000}; HttpOnly; SameSite=Lax{secure}"
        request.setdefault(RESPONSE_COOKIES, {})[name] = line

    # --- checking passwords

    @contextlib.asynccontextmanager
    async def password_turn(self, *, is_known: bool = False) -> AsyncIterator[None]:
        """Wait until no other password is checked, and keep others waiting until the block ends.

        `is_known`: for a known browser, whose queue others cannot fill. Raises ApiError 503 where the queue is full and
        this request is the one that is refused.
        """
        waiting = self._turns.request_or_refuse(is_known)
        try:
            turn = await waiting
        except BaseException:
            self._turns.withdraw(is_known, waiting)
            raise
        if turn is None:
            raise ApiError(errors.OVERLOADED, "Too many sign-ins at once: try again in a moment.", retry_after_s=1)
        try:
            yield
        finally:
            self._turns.release(turn)

    async def hashed_now(self, do: Callable[..., T], *what: Any) -> T:
        """Return what a slow function of tally/accounts/passwords.py returns. Called in a `password_turn`."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, do, *what)

    async def hashing(self, do: Callable[..., T], *what: Any, is_known: bool = False) -> T:
        """The same in a turn of its own. Raises ApiError 503."""
        async with self.password_turn(is_known=is_known):
            return await self.hashed_now(do, *what)

    def take_try(self, request: web.Request, email: str | None = None, person: Person | None = None) -> Try:
        """Count a try of a password, or of another secret where no email address is given. Raises ApiError 429.

        `person` is the one with the address. The caller gives the try back if it was right or could not be checked.
        """
        browser = None if person is None else self._known_browser(request, person.number)
        version = b"" if person is None else person.password_version
        return self._take(self._sign_in, request, email, browser, version)

    def take_link_try(self, request: web.Request, link: ShareLink) -> Try:
        """Count a try of a share link's password, apart from those of accounts. Raises ApiError 429."""
        version = blake2b(link.options.password_hash.encode(), digest_size=16).digest()
        return self._take(self._link_tries, request, link.token, None, version)

    def _take(
        self, limits: SignInLimits, request: web.Request, name: str | None, browser: bytes | None, version: bytes
    ) -> Try:
        address = self.client(request)
        with _refusing():
            return limits.take(
                address, name, browser, self.clock.monotonic_ns, version, networks=wider_networks(address)
            )

    def take_code_try(self, request: web.Request, person: int, *, is_recovery: bool) -> Try:
        """Count a try of a code of a second factor, after the password was right. Raises ApiError 429."""
        browser = self._known_browser(request, person)
        with _refusing():
            return self._codes.take(person, browser, is_recovery, self.clock.monotonic_ns)

    def _known_browser(self, request: web.Request, person: int) -> bytes | None:
        """Return the digest of this browser's session or device of the person."""
        session, device = self.found(request), self._device(request)
        if session is not None and session.person.number == person:
            return session.digest
        return device if device is not None and self.registry.cache.devices[device].person == person else None

    def client(self, request: web.Request) -> bytes:
        """Return the address under which the client is counted, the same as for collect."""
        resolver = request.app[COLLECTOR].resolver
        return resolver.client(request.remote, *request.headers.getall(resolver.header, ())).key

    def count(self, buckets: Buckets, key: bytes | int) -> None:
        """Count a request against its rate limit. Raises ApiError 429."""
        now_ns = self.clock.monotonic_ns()
        wait_s = buckets.wait_s(key, now_ns)
        if wait_s:
            raise ApiError(errors.RATE_LIMITED, retry_after_s=wait_s)
        buckets.take(key, now_ns)


AUTH = web.AppKey("auth", Auth)


@contextlib.contextmanager
def _refusing() -> Iterator[None]:
    try:
        yield
    except TooManyTries as refused:
        message = "Too many attempts: retry after the seconds of Retry-After."
        raise ApiError(errors.RATE_LIMITED, message, retry_after_s=refused.wait_s) from None


def invalid(field: str, message: str) -> ApiError:
    """Return the error for a field of a body."""
    return ApiError(errors.INVALID_FIELD, message, field=field)


def media_type(request: web.Request) -> str:
    """Return the media type of a request's Content-Type, '' where there is none."""
    return request.headers.get("Content-Type", "").partition(";")[0].strip().lower()


async def json_body(request: web.Request, most: int = MAX_BODY_BYTES) -> Any:
    """Return the value of a request's JSON. Raises ApiError 400, 413, 415, and ValueError where it is no JSON."""
    # aiohttp's own takes time quadratic in the number of parameters: 2 s for 14,000.
    if media_type(request) != "application/json":
        raise ApiError(errors.UNSUPPORTED_MEDIA_TYPE)
    return read_json(await (read_body(request) if most == MAX_BODY_BYTES else read_large_body(request, most)))


async def json_object(request: web.Request, most: int = MAX_BODY_BYTES) -> dict[str, Any]:
    """Return a request's JSON object. Raises ApiError 400, 413, 415."""
    try:
        sent = await json_body(request, most)
    except ValueError:
        raise ApiError(errors.INVALID_JSON) from None
    if not isinstance(sent, dict):
        raise ApiError(errors.INVALID_BODY, "The body must be a JSON object.")
    return sent


async def body(request: web.Request, fields: Collection[str], most: int = MAX_BODY_BYTES) -> dict[str, Any]:
    """Return a request's JSON object of at most `most` bytes, with these fields. Raises ApiError 400, 413, 415."""
    sent = await json_object(request, most)
    for name in sent:
        if name not in fields:
            raise invalid(name[:100], f"Unknown field: this request takes {', '.join(fields)}.")
    return sent


def text(sent: dict[str, Any], name: str) -> str:
    """Return a field that must be a string. Raises ApiError 400."""
    value = sent.get(name)
    if not isinstance(value, str):
        raise invalid(name, f"{name} must be a string.")
    return value


def website_ids(sent: dict[str, Any], websites: Iterable[Website]) -> tuple[str, ...] | None:
    """Return the field `websites`: ids of some of these, each once; None for all of them. Raises ApiError 400."""
    ids, known = sent.get("websites"), [website.id for website in websites]
    if ids is None:
        return None
    if not isinstance(ids, list) or not ids or not all(id in known for id in ids):
        raise invalid("websites", "websites must be a list of ids of websites of the account, or null for all.")
    return tuple(dict.fromkeys(ids))


def flag(sent: dict[str, Any], name: str) -> bool:
    """Return a field that must be true or false; false where it is missing or null. Raises ApiError 400."""
    value = sent.get(name)
    if value is not None and not isinstance(value, bool):
        raise invalid(name, f"{name} must be true or false.")
    return value is True
