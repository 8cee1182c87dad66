"""Sign-in by a header that a proxy sets: `--auth-header NAME`, from the networks of `--auth-header-from` alone.

The proxy has signed the person in (Authelia, Authentik, oauth2-proxy, Tailscale, Cloudflare Access) and names the email
address in each request. It is read in each request of the pages' own API and nothing is stored in the browser, so that
access ends when the proxy says so. A person of the header takes precedence over a session of the cookie.

What counts is the peer on TCP, or the Unix socket, never a forwarded address, which clients can send.
The setting has no default: on a machine where others can log in, any process could connect from loopback. From other
addresses the header is ignored and counted.

An address that no person has accepts its open invitations, or becomes a member of the only account with the role of
`--auth-header-create`. The checks of the request's origin are those of a session: the browser's own cookie at the proxy
would authorise requests of other sites' pages too.
"""

import contextlib
import functools
import socket
from collections.abc import Sequence
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler

from tally import errors
from tally.accounts import logins, people
from tally.accounts.accounts import AccountError, Person, check_email, with_address
from tally.accounts.roles import Role
from tally.api.auth import AUTH, HEADER_PERSON, Auth
from tally.errors import ApiError, log
from tally.events.client import parse_networks, plain_address
from tally.settings import BadSetting, Settings
from tally.timestamps import DAY_MS

UNIX_SOCKET = "unix"
_WARN_NS = 3_600 * 1_000_000_000


class AuthHeader:
    """The header by which a proxy signs people in. `refused` counts headers of other peers, which were ignored."""

    def __init__(self, name: str, sources: tuple[str, ...], create: Role | None) -> None:
        """`sources`: networks, and `unix` for a Unix socket. Raises BadSetting."""
        self.name, self.refused = name, 0
        self._has_socket = UNIX_SOCKET in sources
        try:
            self._networks = parse_networks(
                [source for source in sources if source != UNIX_SOCKET], "--auth-header-from", "unix"
            )
        except ValueError as bad:
            raise BadSetting(str(bad)) from None
        self._create = create
        self._warned_ns: int | None = None

    def signing_in(self, handler: Handler) -> Handler:
        """Return a handler that first finds the person whom the header names. It raises ApiError 403, 503."""

        @functools.wraps(handler)
        async def signed_in(request: web.Request) -> Any:
            await self.sign_in(request)
            return await handler(request)

        return signed_in

    async def sign_in(self, request: web.Request) -> None:
        """Find the person of a request's header, whose session it then is; no person without a header that counts.

        Raises ApiError 403 for a header that is no email address or sent twice, and for an address without access; 429
        where an address without access asks too often; 503.
        """
        values = request.headers.getall(self.name, ())
        if not values:
            return
        auth = request.app[AUTH]
        if not self._is_from_proxy(request):
            self._count_refused(auth.clock.monotonic_ns())
            return
        email = self._address(values)
        person = with_address(auth.registry.cache.people.values(), email)
        if person is None:
            # Each time the file is read.
            auth.count(auth.viewers, auth.client(request))
            person = await self._join(auth, email)
        request[HEADER_PERSON] = person.number
        day = auth.clock.wall_ms() // DAY_MS
        if person.last_seen_day != day:
            # On a full disk the pages are shown nevertheless.
            with contextlib.suppress(ApiError):
                await auth.registry.change(logins.record_seen, person.number, day)

    def _is_from_proxy(self, request: web.Request) -> bool:
        # After a disconnect there is no socket, and an address of the client is no proof then.
        peer = None if request.transport is None else request.transport.get_extra_info("socket")
        if peer is None:
            return False
        if peer.family == getattr(socket, "AF_UNIX", None):
            return self._has_socket
        address = plain_address(request.remote or "")
        return address is not None and any(address in network for network in self._networks)

    def _address(self, values: Sequence[str]) -> str:
        email = values[0].strip()
        try:
            if len(values) != 1 or not email.isprintable():
                raise AccountError("The header is sent twice or has characters that no address has.")
            return check_email(email)
        except AccountError:
            message = f"The proxy must send {self.name} once, with the email address of a person."
            raise ApiError(errors.BAD_AUTH_HEADER, message) from None

    async def _join(self, auth: Auth, email: str) -> Person:
        """Return the person of an address that was not known. Raises ApiError 403."""
        try:
            number = await auth.registry.change(
                people.join_by_address, email, self._create, auth.clock.wall_ms(), "header"
            )
        except people.TooManyPeople as full:
            raise ApiError(errors.NOT_INVITED, f"{email} has no access to this server: {full}") from None
        person = None if number is None else auth.registry.cache.people.get(number)
        if person is None:
            raise ApiError(
                errors.NOT_INVITED,
                f"{email} has no access to this server: ask an administrator to invite this address under Account,"
                " People, or start the server with --auth-header-create.",
            )
        return person

    def _count_refused(self, now_ns: int) -> None:
        self.refused += 1
        if self._warned_ns is None or now_ns - self._warned_ns >= _WARN_NS:
            self._warned_ns = now_ns
            log.warning(
                "%s came from an address that is not in --auth-header-from and was ignored: if that is your proxy, add"
                " its address; if not, a client has tried to sign in by it",
                self.name,
            )


AUTH_HEADER = web.AppKey[AuthHeader | None]("auth_header")


def auth_header(settings: Settings) -> AuthHeader | None:
    """Return the header of the settings; None without one. Raises BadSetting for settings that do not fit together."""
    if bool(settings.auth_header) != bool(settings.auth_header_from):
        raise BadSetting("--auth-header and --auth-header-from need each other: set both, or none")
    if not settings.auth_header:
        for name, is_set in (
            ("--auth-header-create", settings.auth_header_create != "none"),
            ("--auth-logout-url", bool(settings.auth_logout_url)),
        ):
            if is_set:
                raise BadSetting(f"{name} needs --auth-header: set it, or unset {name.partition(' ')[0]}")
        if settings.password_login == "no" and not settings.oidc_issuer:
            raise BadSetting("--password-login no needs --auth-header or --oidc-issuer: set one, or unset it")
        return None
    create: Any = None if settings.auth_header_create == "none" else settings.auth_header_create
    return AuthHeader(settings.auth_header, settings.auth_header_from, create)
