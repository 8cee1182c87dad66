"""/api/account: first run, signing in and out, the account, its API keys. For the pages of this server alone.

Every handler that changes something checks the request's origin first (tally/api/auth.py), and all but the first ones
need a session. No response reveals whether an email address has an account: an unknown address and a wrong password
receive the same answer after the same work.

The setup link. Where no account has a password, the server makes a random token when it starts and prints it as a link;
its holder sets the first password and is signed in. The token is in memory only and is useless once any account has a
password. An account that the command line made without an address is owner@localhost: the setup page requires one.
"""

import secrets
from functools import partial
from typing import Any

from aiohttp import web

from tally import errors
from tally.accounts import changes, passwords
from tally.accounts.accounts import (
    FIRST_ACCOUNT,
    PLANS_WITH_KEYS,
    AccountError,
    AccountFull,
    Person,
    check_email,
    check_name,
    set_requires_second_factor,
    set_time_zone,
    with_address,
)
from tally.accounts.api_keys import (
    DEFAULT_GRANT,
    ApiKey,
    Grant,
    audited_grant,
    check_days,
    check_scopes,
    create_api_key,
    delete_api_key,
    delete_api_keys,
)
from tally.accounts.audit import Entry, if_done
from tally.accounts.changes import PasswordChanged
from tally.accounts.identities import Refused
from tally.accounts.usage import USAGE_WARNINGS, month_ends_in_s
from tally.api.auth import AUTH, Auth, body, flag, invalid, text, website_ids
from tally.api.auth_header import AUTH_HEADER
from tally.api.oidc import connecting, forget, logout_path, single_sign_on
from tally.api.sign_in import begin_with_new_password, checked_password, sent_code, sign_in
from tally.base_path import public_url
from tally.errors import ApiError
from tally.http.request_paths import public_prefix
from tally.http.responses import json_response
from tally.resources import asset, tally_version
from tally.timeranges import zone
from tally.timestamps import DAY_MS, BadTime, iso


async def state(request: web.Request) -> web.Response:
    """GET /api/account/state: whether the browser is signed in, how it may, and whether an account has a password."""
    auth, header = request.app[AUTH], request.app[AUTH_HEADER]
    needs_setup, refused = await _needs_setup(auth), None
    if header is not None:
        try:
            await header.sign_in(request)
        except ApiError as failure:
            if failure.kind.status != 403:
                raise
            email = request.headers[header.name] if failure.kind is errors.NOT_INVITED else None
            refused = {"code": failure.kind.code, "email": email}
    shown = {
        "logged_in": auth.found(request) is not None,
        "needs_setup": needs_setup,
        "demo": auth.is_demo,
        "password_login": auth.has_passwords,
        "single_sign_on": single_sign_on(request),
        # Where nobody has one, the login shows nothing of them.
        "passkeys": auth.passkeys is not None
        and any(person_.passkeys for person_ in auth.registry.cache.people.values()),
        "refused": refused,
    }
    return _data(shown)


async def _needs_setup(auth: Auth) -> bool:
    await auth.registry.read_changes()
    return auth.needs_setup


# --- first run


async def setup_state(request: web.Request) -> web.Response:
    """GET /api/account/setup: the account whose password the link sets; null where its address is required too."""
    auth = request.app[AUTH]
    # In a header, since proxies log paths.
    await _check_setup(auth, request, request.headers.get("Setup-Token", ""))
    person = _to_set_up(auth)
    return _data({"email": None if person is None or person.email == FIRST_ACCOUNT else person.email})


def _to_set_up(auth: Auth) -> Person | None:
    return next(iter(auth.registry.cache.people.values()), None)


async def _check_setup(auth: Auth, request: web.Request, token: str) -> None:
    attempt = auth.take_try(request)
    is_right = secrets.compare_digest(token.encode("utf-8", "surrogatepass"), auth.setup_token.encode())
    if not is_right or not auth.setup_token or not await _needs_setup(auth):
        raise ApiError(errors.UNKNOWN_SETUP_LINK)
    attempt.give_back()


async def set_up(request: web.Request) -> web.Response:
    """POST /api/account/setup: set the first password and sign in."""
    auth = request.app[AUTH]
    auth.check_site(request)
    sent = await body(request, ("token", "email", "password"))
    await _check_setup(auth, request, text(sent, "token"))
    email = text(sent, "email").strip() if _asks_for_email(auth) else FIRST_ACCOUNT
    try:
        check_email(email)
    except AccountError:
        raise invalid("email", "email must be an email address.") from None
    password_hash = await auth.hashing(passwords.hashed, _new_password(sent, "password"))
    now_ms = auth.clock.wall_ms()
    number = await auth.registry.change(changes.set_up, email, password_hash, now_ms)
    if number is None:
        raise ApiError(errors.UNKNOWN_SETUP_LINK)
    auth.setup_token = ""
    await begin_with_new_password(request, number, password_hash)
    return _data(_account(request, auth, number), 201)


def _asks_for_email(auth: Auth) -> bool:
    person = _to_set_up(auth)
    return person is None or person.email == FIRST_ACCOUNT


def _new_password(sent: dict[str, Any], field: str) -> str:
    password = text(sent, field)
    if not passwords.is_allowed(password):
        raise invalid("password", f"{passwords.RULE}.")
    return password


# --- signing in and out


def _with_passwords(request: web.Request) -> Auth:
    """Return what handles passwords. Raises ApiError 404 where people do not sign in by one."""
    auth = request.app[AUTH]
    if not auth.has_passwords:
        raise ApiError(errors.NOT_FOUND)
    return auth


async def log_in(request: web.Request) -> web.Response:
    """POST /api/account/login: check a password, and the code of a second factor, and begin a session."""
    auth = _with_passwords(request)
    auth.check_site(request)
    sent = await body(request, ("email", "password", "code", "connect"))
    email, password, code = text(sent, "email").strip(), text(sent, "password"), sent_code(sent)
    person = with_address(auth.registry.cache.people.values(), email)
    attempt = auth.take_try(request, email, person)
    number, password_hash = await checked_password(auth, attempt, email, password)
    if password_hash is None:
        raise ApiError(errors.WRONG_CREDENTIALS)
    check: Any = partial(changes.check_password_hash, person=number, password_hash=password_hash)
    is_connecting = flag(sent, "connect")
    if is_connecting:
        check = connecting(request, number, email, check)
    try:
        await sign_in(request, number, check, "password", code)
    except PasswordChanged:
        raise ApiError(errors.WRONG_CREDENTIALS) from None
    except Refused as refused:
        raise ApiError(errors.NOTHING_TO_CONNECT, f"Single sign-on was not connected: {refused}.") from None
    if is_connecting:
        forget(request)
    return entered(request, number)


def entered(request: web.Request, number: int) -> web.Response:
    """Return the response to a sign-in: the account, or that a second factor is due."""
    auth = request.app[AUTH]
    if all(membership.is_due for membership in auth.registry.cache.memberships_of(number)):
        return _data({"email": auth.registry.cache.people[number].email, "second_factor_due": True})
    return _data(_account(request, auth, number))


async def log_out(request: web.Request) -> web.Response:
    """POST /api/account/logout: end this session."""
    auth = request.app[AUTH]
    await auth.log_out(request, await auth.session(request))
    return web.Response(status=204)


async def log_out_everywhere(request: web.Request) -> web.Response:
    """POST /api/account/logout-everywhere: end all sessions of the person."""
    auth = request.app[AUTH]
    await auth.log_out_everywhere(request, await auth.session(request))
    return web.Response(status=204)


# --- the account


async def account(request: web.Request) -> web.Response:
    """GET /api/account: the account, its usage of the month, and the state of the server."""
    auth = request.app[AUTH]
    session = await auth.session(request)
    return _data(_account(request, auth, session.person.number, session.via))


async def changelog(request: web.Request) -> web.Response:
    """GET /api/account/changelog: what each release changed, as text that a browser shows."""
    await request.app[AUTH].session(request)
    return web.Response(text=asset("CHANGELOG.md").read_text("utf-8"))


async def change(request: web.Request) -> web.Response:
    """PATCH /api/account: set the person's time zone (null: the browser's own); require a second factor of members."""
    auth = request.app[AUTH]
    session, sent = await auth.session_and_body(request, ("time_zone", "requires_second_factor"))
    number = session.person.number
    owner = auth.account(request, session, "own" if "requires_second_factor" in sent else "read")
    is_required = flag(sent, "requires_second_factor")
    if is_required and not session.person.has_factor:
        # The owner would be the first one whom it keeps out.
        raise ApiError(errors.SECOND_FACTOR_DUE, "Set up your own second factor first, under Account > Sign-in.")
    if "time_zone" in sent:
        name = None if sent["time_zone"] is None else text(sent, "time_zone")
        try:
            name is None or zone(name)
        except BadTime:
            raise invalid("time_zone", "time_zone must be the exact name of an IANA time zone, or null.") from None
        await auth.registry.change(set_time_zone, number, name)
    if "requires_second_factor" in sent and is_required != owner.requires_second_factor:
        entry = Entry("sign_in_policy_changed", detail={"requires_second_factor": is_required})
        await auth.change(session, owner.number, entry, set_requires_second_factor, owner.number, is_required)
    return _data(_account(request, auth, number, session.via))


async def change_password(request: web.Request) -> web.Response:
    """POST /api/account/password: set another password; all sessions end, and a new one begins in this browser."""
    auth = _with_passwords(request)
    session, sent = await auth.session_and_body(request, ("current", "new"))
    current, new = text(sent, "current"), _new_password(sent, "new")
    attempt = auth.take_try(request, session.person.email, session.person)
    number = session.person.number
    _, stored = await checked_password(auth, attempt, session.person.email, current)
    if stored is None:
        raise ApiError(errors.WRONG_PASSWORD, field="current")
    password_hash = await auth.hashing(passwords.hashed, new, is_known=True)
    try:
        await auth.change(
            session, None, Entry("password_changed"), changes.change_password, number, stored, password_hash
        )
    except PasswordChanged:
        # Another request or the command line has changed it meanwhile: that password stays.
        raise ApiError(errors.WRONG_PASSWORD, field="current") from None
    await begin_with_new_password(request, number, password_hash)
    return web.Response(status=204)


def _usage_warning(used: int, limit: int | None) -> int | None:
    """Return the highest percentage of USAGE_WARNINGS that is reached; None below all of them or without a limit."""
    reached = [percent for percent in USAGE_WARNINGS if limit is not None and used * 100 >= percent * limit]
    return max(reached, default=None)


def _account(request: web.Request, auth: Auth, number: int, via: str = "session") -> dict[str, Any]:
    """Return what the pages show of a person and the account that the request concerns."""
    now_ms, person = auth.clock.wall_ms(), auth.registry.cache.people[number]
    owner = auth.account_of(request, number, "read", via)
    used, limit = auth.registry.used(owner.number, now_ms), auth.registry.event_limit(owner.plan)
    month_end_ms = now_ms // 1000 * 1000 + 1000 * month_ends_in_s(now_ms // 1000 * 1000)
    cache, members = auth.registry.cache, auth.registry.cache.memberships_of(number)
    return {
        "id": owner.number,
        "name": owner.name,
        "email": person.email,
        "plan": owner.plan,
        "role": cache.members[owner.number, number].role,
        # Where it is 1, the pages show nothing of roles and people.
        "people": sum(one.account == owner.number for one in cache.members.values()),
        "accounts": [
            {"id": one.account, "name": cache.accounts[one.account].name, "role": one.role} for one in members
        ],
        "time_zone": person.time_zone,
        "requires_second_factor": owner.requires_second_factor,
        "second_factor": None if person.recovery_codes is None else {"recovery_codes": person.recovery_codes},
        "passkeys": person.passkeys,
        "events_this_month": used,
        "events_limit": limit,
        "usage_warning": _usage_warning(used, limit),
        "month_ends_at": iso(month_end_ms),
        "has_keys": owner.plan in PLANS_WITH_KEYS,
        # Events are refused until disk space is freed.
        "disk_is_low": auth.node.database.health.is_low,
        "version": tally_version(),
        "base_url": public_url(auth.base_url, public_prefix(request)),
        "demo": auth.is_demo,
        # A person whom a proxy signs in is signed out there.
        "signed_in_by": via,
        "logout_url": (auth.logout_url or None) if via == "header" else logout_path(request, via),
        "password_login": auth.has_passwords,
        "single_sign_on": single_sign_on(request),
    }


def _data(value: Any, status: int = 200) -> web.Response:
    return json_response({"data": value}, status)


# --- API keys


async def keys(request: web.Request) -> web.Response:
    """GET /api/account/keys, oldest first."""
    auth = request.app[AUTH]
    owner = auth.account(request, await auth.session(request), "keys")
    return _data([_key(auth, key) for key in auth.registry.cache.keys_of(owner.number)])


def _key(auth: Auth, key: ApiKey) -> dict[str, Any]:
    used = None if key.last_used_ms is None else iso(key.last_used_ms)
    return {
        "id": key.number,
        "name": key.name,
        "prefix": key.prefix,
        "created_at": iso(key.created_ms),
        "last_used_at": used,
        "scopes": key.grant.scopes,
        "websites": key.grant.websites,
        "expires_at": None if key.grant.expires_ms is None else iso(key.grant.expires_ms),
        "created_by": auth.member_name(key.account, key.created_by),
        # A key that stands for what a person has connected (tally/api/oauth.py).
        "is_assistant": key.client is not None,
    }


def _grant(auth: Auth, account: int, sent: dict[str, Any]) -> Grant:
    """Return what a new key may do: the default, and the fields that were sent. Raises ApiError 400."""
    scopes, days = sent.get("scopes", [*DEFAULT_GRANT.scopes]), sent.get("expires_days")
    if not isinstance(scopes, list) or not all(isinstance(scope, str) for scope in scopes):
        raise invalid("scopes", "scopes must be a list of strings.")
    try:
        scopes = check_scopes(scopes)
    except AccountError as bad:
        raise invalid("scopes", str(bad)) from None
    websites = website_ids(sent, auth.registry.cache.websites_of(account))
    if days is not None and type(days) is not int:
        raise invalid("expires_days", "expires_days must be a number of days, or null for a key that does not expire.")
    try:
        expires_ms = None if days is None else auth.clock.monotonic_wall_ms() + check_days(days) * DAY_MS
    except AccountError as bad:
        raise invalid("expires_days", str(bad)) from None
    return Grant(scopes, websites, expires_ms)


async def create_key(request: web.Request) -> web.Response:
    """POST /api/account/keys: create a key; its value is shown in this answer alone."""
    auth = request.app[AUTH]
    session, sent = await auth.session_and_body(request, ("name", "scopes", "websites", "expires_days"))
    owner = auth.account(request, session, "keys")
    try:
        name = check_name(text(sent, "name").strip())
    except AccountError as bad:
        raise invalid("name", str(bad)) from None
    if owner.plan not in PLANS_WITH_KEYS:
        raise ApiError(errors.PLAN_HAS_NO_KEYS)
    grant, number = _grant(auth, owner.number, sent), session.person.number
    entry, now_ms = Entry("key_created", target=name, detail=audited_grant(grant)), auth.clock.wall_ms()
    try:
        value = await auth.change(session, owner.number, entry, create_api_key, owner, name, now_ms, grant, number)
    except AccountFull as full:
        raise ApiError(errors.TOO_MANY_KEYS, str(full)) from None
    key = auth.registry.key(value)
    if key is None:  # revoked by the command line meanwhile
        raise ApiError(errors.UNKNOWN_KEY)
    return _data(_key(auth, key) | {"value": value}, 201)


async def revoke_key(request: web.Request) -> web.Response:
    """DELETE /api/account/keys/{number}: revoke a key."""
    auth = request.app[AUTH]
    session = await auth.session(request)
    number = request.match_info["number"]
    owner = auth.account(request, session, "keys")
    key = next((key for key in auth.registry.cache.keys_of(owner.number) if str(key.number) == number), None)
    if key is None:
        raise ApiError(errors.UNKNOWN_KEY)
    entry = Entry("key_revoked", target=key.label)
    if not await auth.change(session, owner.number, if_done(entry), delete_api_key, key.number):
        raise ApiError(errors.UNKNOWN_KEY)
    return web.Response(status=204)


async def revoke_keys(request: web.Request) -> web.Response:
    """DELETE /api/account/keys: revoke all keys of the account."""
    auth = request.app[AUTH]
    session = await auth.session(request)
    number = auth.account(request, session, "keys").number
    await auth.change(session, number, Entry("keys_revoked"), delete_api_keys, number)
    return web.Response(status=204)
