"""Sign-in by an OpenID provider: /sign-in/oidc, the provider's way back, connecting and disconnecting.

What the way back must know (state, nonce, the code verifier, where to go next) is in a cookie of ten minutes that the
file's salt signs: nothing is kept in memory, and a restart loses none. Over https the cookie's name begins with
`__Host-`, so that no other host of the domain can plant one and sign a visitor in as another person.

The way back is the only route that pages of other sites lead to and that begins a session. The state, in the cookie and
in the address, is what stands for the check of the request's origin.

Every failure leads to a page with `?problem=CODE`, which has a sentence for the person; the cause is one line in the
log, without tokens.
"""

import functools
import hmac
import re
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from collections.abc import Awaitable, Callable
from hashlib import blake2b, sha256
from importlib.util import find_spec
from typing import Any, Literal, NamedTuple
from urllib.parse import urlencode

import orjson
from aiohttp import web

from tally import errors
from tally.accounts import identities, people
from tally.accounts.accounts import AccountError, check_email
from tally.accounts.audit import Entry, if_done
from tally.accounts.identities import Arrival, Identity, PasswordNeeded, Refused
from tally.accounts.roles import ROLES, Role
from tally.api.auth import AUTH, Auth, body
from tally.api.people import invitation_digest, open_invitation
from tally.base_path import public_url
from tally.clock import Clock
from tally.errors import ApiError, fields, log
from tally.http.request_paths import public_prefix
from tally.http.responses import json_response
from tally.oidc import CALLBACK
from tally.oidc.provider import Client, Provider, ProviderError
from tally.oidc.tokens import BadToken, Claims
from tally.resources import install_command
from tally.settings import BadSetting, Settings

COOKIE, LASTS_MS = "tally-oidc", 600_000
# More sign-ins at once than people do; the rest is refused, so that a slow provider holds no memory.
MAX_AT_ONCE = 32
_HOUR_MS = 3_600_000
# A path of this server: `//` and `/\` would be another host. Its length leaves the cookie below 4,096 bytes.
_NEXT = re.compile(r"/(?![/\\])[\x21-\x5b\x5d-\x7e]{0,1000}")
_SIGN_IN_SECTION = "/account/sign-in"


class Pending(NamedTuple):
    """What the cookie holds: a sign-in that has begun, or an identity that waits for a password (`link`).

    `proof`: in hex, the digest of the invitation or of the session that connects. `identity` and `person`: of `link`.
    """

    purpose: Literal["sign_in", "invitation", "connect", "link"]
    ends_ms: int
    state: str = ""
    nonce: str = ""
    verifier: str = ""
    next: str = "/"
    proof: str = ""
    identity: tuple[str, str] = ("", "")
    person: int = 0


class Oidc:
    """Sign-in by the provider of the settings."""

    def __init__(self, settings: Settings, provider: Provider, roles: dict[str, Role], create: Role | None) -> None:
        self.provider, self.name = provider, settings.oidc_name
        # As identities are stored: a slash at its end is no other issuer.
        self.issuer = settings.oidc_issuer.rstrip("/")
        self.lasts_ms = settings.oidc_session_hours * _HOUR_MS
        self.ends_session = settings.oidc_logout == "yes"
        self._trusts_email, self._roles, self._create = settings.oidc_trust_email == "yes", roles, create
        self.at_once = 0

    def arrival(self, claims: Claims, has_passwords: bool) -> Arrival:
        """Return who has signed in at the provider, by its claims."""
        try:
            email = None if claims.email is None else check_email(claims.email)
        except AccountError:
            email = None
        roles = {self._roles[group] for group in claims.groups or () if group in self._roles}
        return Arrival(
            Identity(self.issuer, claims.subject),
            email if email is None or email.isprintable() else None,
            claims.is_verified or self._trusts_email,
            max(roles, key=ROLES.index, default=None),
            bool(self._roles),
            self._create,
            has_passwords,
        )


OIDC = web.AppKey[Oidc | None]("oidc")


def oidc(settings: Settings, clock: Clock) -> Oidc | None:
    """Return the sign-in of the settings; None without one. Raises BadSetting for settings that do not fit together."""
    if not settings.oidc_issuer:
        for name, is_set in (
            ("--oidc-client-id", bool(settings.oidc_client_id)),
            ("--oidc-client-secret-file", settings.oidc_client_secret_file is not None),
            ("--oidc-create", settings.oidc_create != "none"),
            ("--oidc-role", bool(settings.oidc_role)),
            ("--oidc-trust-email", settings.oidc_trust_email == "yes"),
            ("--oidc-logout", settings.oidc_logout == "yes"),
        ):
            if is_set:
                raise BadSetting(f"{name} needs --oidc-issuer: set it, or unset {name}")
        return None
    for name, value in (("--oidc-client-id", settings.oidc_client_id), ("--base-url", settings.base_url)):
        if not value:
            raise BadSetting(f"--oidc-issuer needs {name}: set it")
    if "openid" not in settings.oidc_scopes.split():
        raise BadSetting(f"--oidc-scopes must contain openid (got {settings.oidc_scopes!r})")
    if find_spec("joserfc") is None:
        raise BadSetting(f"--oidc-issuer needs the extra oidc: {install_command('oidc')}")
    roles: dict[str, Any] = dict(entry.rsplit("=", 1) for entry in settings.oidc_role)
    create: Any = None if settings.oidc_create == "none" else settings.oidc_create
    client = Client(
        settings.oidc_issuer,
        settings.oidc_client_id,
        _secret(settings),
        settings.oidc_scopes,
        public_url(settings.base_url, settings.base_path) + CALLBACK,
        settings.oidc_groups_claim,
        bool(roles),
    )
    return Oidc(settings, Provider(client, clock), roles, create)


def _secret(settings: Settings) -> str:
    path = settings.oidc_client_secret_file
    try:
        secret = "" if path is None else path.read_text("utf-8").strip()
    except (OSError, ValueError) as failure:
        raise BadSetting(f"--oidc-client-secret-file: {path} cannot be read: {failure}") from None
    if path is not None and not (secret and secret.isprintable()):
        raise BadSetting(f"--oidc-client-secret-file: {path} must hold the secret on one line")
    return secret


def _oidc(request: web.Request) -> Oidc:
    """Return the sign-in of the settings. Raises ApiError 404 without one."""
    provider = request.app[OIDC]
    if provider is None:
        raise ApiError(errors.NOT_FOUND)
    return provider


def single_sign_on(request: web.Request) -> dict[str, str] | None:
    """Return what the pages show of the sign-in: the text of its button, empty for that of the page; None without."""
    provider = request.app[OIDC]
    return None if provider is None else {"name": provider.name}


def logout_path(request: web.Request, via: str) -> str | None:
    """Return where a person goes after logging out of a session, to end that of the provider too."""
    provider = request.app[OIDC]
    return "/sign-in/oidc/logout" if provider is not None and provider.ends_session and via == "oidc" else None


# --- the cookie


def _seal(auth: Auth, pending: Pending) -> str:
    body = urlsafe_b64encode(orjson.dumps([*pending])).rstrip(b"=")
    return f"{body.decode()}.{_signature(auth, body)}"


def _signature(auth: Auth, body: bytes) -> str:
    # `person` keeps it apart from the digests of cookies, keys and links under the same salt.
    return blake2b(body, digest_size=32, key=auth.registry.key_salt, person=b"oidc").hexdigest()


def pending_of(request: web.Request) -> Pending | None:
    """Return what the cookie holds; None where it is missing, expired or not ours."""
    auth = request.app[AUTH]
    body, _, signature = (auth.cookie(request, COOKIE) or "").partition(".")
    sealed = body.encode("utf-8", "surrogateescape")
    expected = _signature(auth, sealed)
    if not hmac.compare_digest(signature.encode("utf-8", "surrogateescape"), expected.encode()):
        return None
    try:
        pending = Pending(*orjson.loads(urlsafe_b64decode(sealed + b"=" * (-len(sealed) % 4))))
    except (ValueError, TypeError, NotBase64):
        return None
    return pending if pending.ends_ms > auth.clock.monotonic_wall_ms() else None


def _keep(request: web.Request, pending: Pending) -> None:
    auth = request.app[AUTH]
    auth.set_cookie(request, COOKIE, _seal(auth, pending), LASTS_MS)


def forget(request: web.Request) -> None:
    """Remove the cookie."""
    request.app[AUTH].set_cookie(request, COOKIE, "", 0)


# --- pages


def _leads_to(request: web.Request, path: str) -> web.Response:
    """Return a redirect to another page of this server, or elsewhere by a whole URL."""
    where = public_prefix(request) + path if path.startswith("/") else path
    return web.Response(status=302, headers={"Location": where, "Cache-Control": "no-store"})


def _with_problems(
    handler: Callable[[web.Request, Oidc], Awaitable[web.Response]],
) -> Callable[[web.Request], Awaitable[web.Response]]:
    """Return a handler whose failures lead to a page that says what to do."""

    @functools.wraps(handler)
    async def handled(request: web.Request) -> web.Response:
        auth, oidc, pending = request.app[AUTH], _oidc(request), pending_of(request)
        page = _SIGN_IN_SECTION if pending is not None and pending.purpose == "connect" else "/login"
        oidc.at_once += 1
        try:
            auth.count(auth.viewers, auth.client(request))
            if oidc.at_once > MAX_AT_ONCE:
                raise ProviderError(f"more than {MAX_AT_ONCE} sign-ins at once")
            return await handler(request, oidc)
        except ProviderError as failure:
            problem, cause = "provider", str(failure)
        except BadToken as failure:
            problem, cause = "token", str(failure)
        except Refused as refusal:
            problem, cause = refusal.problem, str(refusal)
        except people.UnknownInvitation as unknown:
            problem, cause = "invitation", str(unknown)
        except (people.TooManyPeople, people.AlreadyMember) as refusal:
            problem, cause = "not_invited", str(refusal)
        except ApiError as failure:
            problem, cause = "busy", failure.kind.code
        finally:
            oidc.at_once -= 1
        log.warning("single sign-on failed", extra=fields(problem=problem, cause=cause))
        after = {"problem": problem} | ({"next": pending.next} if pending and pending.next != "/" else {})
        return _leads_to(request, f"{page}?{urlencode(after)}")

    return handled


async def _begin(request: web.Request, oidc: Oidc, pending: Pending) -> str:
    """Set the cookie and return where the browser signs in. Raises ProviderError."""
    state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
    challenge = urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    where = await oidc.provider.authorization_url(state, nonce, challenge)
    _keep(request, pending._replace(state=state, nonce=nonce, verifier=verifier))
    return where


def _new(auth: Auth, purpose: Literal["sign_in", "invitation", "connect"], next: str, proof: bytes = b"") -> Pending:
    path = next if _NEXT.fullmatch(next) else "/"
    return Pending(purpose, auth.clock.monotonic_wall_ms() + LASTS_MS, next=path, proof=proof.hex())


@_with_problems
async def begin(request: web.Request, oidc: Oidc) -> web.Response:
    """GET /sign-in/oidc?next=PATH: a redirect to the provider."""
    pending = _new(request.app[AUTH], "sign_in", request.query.get("next", "/"))
    return _leads_to(request, await _begin(request, oidc, pending))


@_with_problems
async def callback(request: web.Request, oidc: Oidc) -> web.Response:
    """GET /sign-in/oidc/callback: check what the provider sends, and begin the session or connect the identity."""
    auth, query, pending = request.app[AUTH], request.query, pending_of(request)
    sent = [query.getall(name, []) for name in ("state", "code", "error", "iss")]
    if any(len(values) > 1 for values in sent):
        raise BadToken("the response has a parameter twice")
    state, code, error, issuer = (values[0] if values else None for values in sent)
    if pending is None or not pending.state or not _is_same(state or "", pending.state):
        raise Refused("expired", "the cookie is missing or expired, or the state is not that of this browser")
    forget(request)
    await oidc.provider.check_issuer(issuer)
    if error is not None or code is None:
        raise Refused("refused", f"the provider answered {error!a:.100}")
    claims = await oidc.provider.claims(code, pending.verifier, pending.nonce)
    who = oidc.arrival(claims, auth.has_passwords)
    if pending.purpose == "connect":
        return await _connect(request, pending, who.identity)
    invitation = bytes.fromhex(pending.proof) if pending.purpose == "invitation" else None
    await auth.registry.read_changes()
    try:
        number = await auth.registry.change(identities.enter, who, invitation, auth.clock.wall_ms())
    except PasswordNeeded as needed:
        ends_ms = auth.clock.monotonic_wall_ms() + LASTS_MS
        link = Pending("link", ends_ms, next=pending.next, identity=(*who.identity,), person=needed.person)
        _keep(request, link)
        return _leads_to(request, f"/login?{urlencode({'problem': needed.problem, 'next': pending.next})}")
    check = functools.partial(identities.check, identity=who.identity, person=number)
    entry = Entry("sign_in", detail={"by": "oidc"})
    await auth.begin_session(request, number, check, entry, oidc_lasts_ms=oidc.lasts_ms)
    return _leads_to(request, pending.next)


def _is_same(sent: str, expected: str) -> bool:
    return hmac.compare_digest(sent.encode("utf-8", "replace"), expected.encode())


async def _connect(request: web.Request, pending: Pending, identity: Identity) -> web.Response:
    """Connect an identity to the person whose session has asked for it. Raises Refused."""
    auth = request.app[AUTH]
    session = auth.found(request)
    if session is None or not _is_same(session.digest.hex(), pending.proof):
        raise Refused("expired", "the session that connects has ended")
    person, now_ms = session.person.number, auth.clock.wall_ms()
    await auth.change(
        session, None, if_done(Entry("single_sign_on_connected")), identities.connect, identity, person, now_ms
    )
    return _leads_to(request, pending.next)


async def end_session(request: web.Request) -> web.Response:
    """GET /sign-in/oidc/logout: a redirect to the page where the provider ends its own session, or to the login."""
    oidc, where = _oidc(request), None
    if oidc.ends_session and oidc.at_once < MAX_AT_ONCE:
        home = oidc.provider.client.redirect_uri.removesuffix(CALLBACK) + "/login"
        try:
            where = await oidc.provider.end_session_url(home)
        except ProviderError as failure:
            log.warning("single sign-on failed", extra=fields(problem="provider", cause=str(failure)))
    return _leads_to(request, where or "/login")


# --- the API of the pages


async def state(request: web.Request) -> web.Response:
    """GET /api/account/oidc: whether the person is connected, and may disconnect."""
    auth, oidc = request.app[AUTH], _oidc(request)
    person = (await auth.session(request)).person
    is_connected = await auth.registry.lookup(identities.is_connected, person.number, oidc.issuer)
    can_disconnect = (person.has_password and auth.has_passwords) or (person.passkeys > 0 and auth.passkeys is not None)
    return json_response({"data": {"is_connected": is_connected, "can_disconnect": can_disconnect}})


async def connect(request: web.Request) -> web.Response:
    """POST /api/account/oidc: the address of the provider where the person signs in, to be connected."""
    auth = request.app[AUTH]
    auth.check_site(request)
    oidc = _oidc(request)
    session, _ = await auth.session_and_body(request, ())
    if session.login is None:
        raise ApiError(errors.NOT_ALLOWED, "A proxy signs you in: there is no session to connect from.")
    return await _begun(request, oidc, _new(auth, "connect", _SIGN_IN_SECTION, session.digest))


async def disconnect(request: web.Request) -> web.Response:
    """DELETE /api/account/oidc: sign in otherwise from now on."""
    auth = request.app[AUTH]
    auth.check_site(request)
    _oidc(request)
    session = await auth.session(request)
    step = functools.partial(
        identities.disconnect, has_passwords=auth.has_passwords, has_passkeys=auth.passkeys is not None
    )
    entry = if_done(Entry("single_sign_on_disconnected"))
    try:
        await auth.change(session, None, entry, step, session.person.number, session.digest)
    except identities.LastSignIn as last:
        raise ApiError(errors.LAST_SIGN_IN, str(last)) from None
    return web.Response(status=204)


async def accept(request: web.Request) -> web.Response:
    """POST /api/account/invitation/oidc: the address of the provider where the invited person signs in, to join."""
    auth = request.app[AUTH]
    auth.check_site(request)
    oidc = _oidc(request)
    await body(request, ())
    await open_invitation(auth, request)
    return await _begun(request, oidc, _new(auth, "invitation", "/", invitation_digest(auth, request)))


async def _begun(request: web.Request, oidc: Oidc, pending: Pending) -> web.Response:
    try:
        return json_response({"data": {"location": await _begin(request, oidc, pending)}})
    except ProviderError as failure:
        log.warning("single sign-on failed", extra=fields(problem="provider", cause=str(failure)))
        raise ApiError(errors.PROVIDER_UNAVAILABLE) from None


def connecting(
    request: web.Request, person: int, email: str, check: Callable[[Any], object]
) -> Callable[[Any], object]:
    """Return a check of a password that also connects the identity that waits for it. Raises ApiError 403, 409."""
    auth, pending = request.app[AUTH], pending_of(request)
    if pending is None or pending.purpose != "link":
        raise ApiError(errors.NOTHING_TO_CONNECT)
    if pending.person != person:
        raise ApiError(errors.OTHER_PERSON, "The address of single sign-on is another person's.")
    return identities.connect_after(check, Identity(*pending.identity), person, email, auth.clock.wall_ms())
