"""/api/account: first run, signing in and out, the account, its API keys. For the pages of this server alone.

Every handler that changes something checks the request's origin first (tally/api/auth.py), and all but the first ones
need a session. No response reveals whether an email address has an account: an unknown address and a wrong password
receive the same answer after the same work.

The setup link. Where no account has a password, the server makes a random token when it starts and prints it as a link;
its holder sets the first password and is signed in. The token is in memory only and is useless once any account has a
password. An account that the command line made without an address is owner@localhost: the setup page requires one.
"""

import re
import secrets
from typing import Any

from aiohttp import web

from tally import errors
from tally.accounts import changes, passwords
from tally.accounts.accounts import (
    FIRST_ACCOUNT,
    PLANS_WITH_KEYS,
    Account,
    AccountError,
    AccountFull,
    Owner,
    check_email,
    check_name,
    credentials_of,
    set_password_hash,
    set_time_zone,
)
from tally.accounts.api_keys import ApiKey, create_api_key, delete_api_key
from tally.accounts.changes import PasswordChanged
from tally.accounts.sign_in import Try
from tally.accounts.usage import USAGE_WARNINGS, month_ends_in_s
from tally.api.auth import AUTH, Auth, body, flag, invalid, text
from tally.base_path import public_url
from tally.errors import ApiError
from tally.http.request_paths import public_prefix
from tally.http.responses import json_response
from tally.resources import asset, tally_version
from tally.timeranges import zone
from tally.timestamps import BadTime, iso


async def state(request: web.Request) -> web.Response:
    """GET /api/account/state: whether the browser is signed in, and whether an account has a password."""
    auth = request.app[AUTH]
    needs_setup = await _needs_setup(auth)
    return _data({"logged_in": auth.found(request) is not None, "needs_setup": needs_setup, "demo": auth.is_demo})


async def _needs_setup(auth: Auth) -> bool:
    await auth.registry.read_changes()
    return auth.needs_setup


# --- first run


async def setup_state(request: web.Request) -> web.Response:
    """GET /api/account/setup: the account whose password the link sets; null where its address is required too."""
    auth = request.app[AUTH]
    # In a header, since proxies log paths.
    await _check_setup(auth, request, request.headers.get("Setup-Token", ""))
    owner = _to_set_up(auth)
    return _data({"email": None if owner is None or owner.email == FIRST_ACCOUNT else owner.email})


def _to_set_up(auth: Auth) -> Owner | None:
    return next(iter(auth.registry.cache.owners.values()), None)


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
    await auth.log_in(request, number, password_hash)
    return _data(_account(request, auth, auth.registry.cache.owners[number]), 201)


def _asks_for_email(auth: Auth) -> bool:
    owner = _to_set_up(auth)
    return owner is None or owner.email == FIRST_ACCOUNT


def _new_password(sent: dict[str, Any], field: str) -> str:
    password = text(sent, field)
    if not passwords.is_allowed(password):
        raise invalid("password", f"{passwords.RULE}.")
    return password


# --- signing in and out


async def log_in(request: web.Request) -> web.Response:
    """POST /api/account/login: check a password and begin a session."""
    auth = request.app[AUTH]
    auth.check_site(request)
    sent = await body(request, ("email", "password"))
    email, password = text(sent, "email").strip(), text(sent, "password")
    owner = next((one for one in auth.registry.cache.owners.values() if one.email.lower() == email.lower()), None)
    attempt = auth.take_try(request, email, owner)
    number, password_hash = await _checked(auth, attempt, email, password)
    if password_hash is None:
        raise ApiError(errors.WRONG_CREDENTIALS)
    await auth.log_in(request, number, password_hash)
    return _data(_account(request, auth, auth.registry.cache.owners[number]))


async def _checked(auth: Auth, attempt: Try, email: str, password: str) -> tuple[int, str | None]:
    """Return an account and the hash of its password, renewed if its parameters are outdated; None if it is another.

    Reads the database, so that an account that another process has just created is found. Unknown addresses take the
    same work. Gives the try back if the password was right or could not be checked.
    """
    try:
        async with auth.password_turn(is_known=attempt.is_known):
            number, stored = await auth.registry.lookup(credentials_of, email)
            is_right = await auth.hashed_now(passwords.is_right, stored or passwords.NO_ACCOUNT, password)
    except BaseException:
        attempt.give_back()
        raise
    if not is_right or stored is None:
        return number, None
    attempt.give_back()
    if not passwords.is_outdated(stored):
        return number, stored
    anew = await auth.hashing(passwords.hashed, password, is_known=attempt.is_known)
    await auth.registry.change(set_password_hash, number, anew, stored)
    return number, anew


async def log_out(request: web.Request) -> web.Response:
    """POST /api/account/logout: end this session."""
    auth = request.app[AUTH]
    await auth.log_out(request, await auth.session(request))
    return web.Response(status=204)


async def log_out_everywhere(request: web.Request) -> web.Response:
    """POST /api/account/logout-everywhere: end all sessions of the account."""
    auth = request.app[AUTH]
    await auth.log_out_everywhere(request, (await auth.session(request)).owner.number)
    return web.Response(status=204)


# --- the account


async def account(request: web.Request) -> web.Response:
    """GET /api/account: the account, its usage of the month, and the state of the server."""
    auth = request.app[AUTH]
    return _data(_account(request, auth, (await auth.session(request)).owner))


async def changelog(request: web.Request) -> web.Response:
    """GET /api/account/changelog: what each release changed, as text that a browser shows."""
    await request.app[AUTH].session(request)
    return web.Response(text=asset("CHANGELOG.md").read_text("utf-8"))


async def change(request: web.Request) -> web.Response:
    """PATCH /api/account: set the time zone; null is the browser's own."""
    auth = request.app[AUTH]
    session, sent = await auth.session_and_body(request, ("time_zone",))
    number = session.owner.number
    if "time_zone" in sent:
        name = None if sent["time_zone"] is None else text(sent, "time_zone")
        try:
            name is None or zone(name)
        except BadTime:
            raise invalid("time_zone", "time_zone must be the exact name of an IANA time zone, or null.") from None
        await auth.registry.change(set_time_zone, number, name)
    return _data(_account(request, auth, auth.registry.cache.owners[number]))


async def change_password(request: web.Request) -> web.Response:
    """POST /api/account/password: set another password; all sessions end, and a new one begins in this browser.

    `revoke_keys` and `revoke_share_links`, false where they are missing, revoke those of the account in the same
    transaction.
    """
    auth = request.app[AUTH]
    session, sent = await auth.session_and_body(request, ("current", "new", "revoke_keys", "revoke_share_links"))
    current, new = text(sent, "current"), _new_password(sent, "new")
    revokes_keys, revokes_links = flag(sent, "revoke_keys"), flag(sent, "revoke_share_links")
    attempt = auth.take_try(request, session.owner.email, session.owner)
    number = session.owner.number
    _, stored = await _checked(auth, attempt, session.owner.email, current)
    if stored is None:
        raise ApiError(errors.WRONG_PASSWORD, field="current")
    password_hash = await auth.hashing(passwords.hashed, new, is_known=True)
    try:
        await auth.registry.change(
            changes.change_password,
            number,
            stored,
            password_hash,
            revokes_keys=revokes_keys,
            revokes_links=revokes_links,
        )
    except PasswordChanged:
        # Another request or the command line has changed it meanwhile: that password stays.
        raise ApiError(errors.WRONG_PASSWORD, field="current") from None
    await auth.log_in(request, number, password_hash)
    return web.Response(status=204)


def _usage_warning(used: int, limit: int | None) -> int | None:
    """Return the highest percentage of USAGE_WARNINGS that is reached; None below all of them or without a limit."""
    reached = [percent for percent in USAGE_WARNINGS if limit is not None and used * 100 >= percent * limit]
    return max(reached, default=None)


def _account(request: web.Request, auth: Auth, owner: Owner) -> dict[str, Any]:
    now_ms = auth.clock.wall_ms()
    used, limit = auth.registry.used(owner.number, now_ms), auth.registry.event_limit(owner.plan)
    month_end_ms = now_ms // 1000 * 1000 + 1000 * month_ends_in_s(now_ms // 1000 * 1000)
    return {
        "email": owner.email,
        "plan": owner.plan,
        "time_zone": owner.time_zone,
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
    }


def _data(value: Any, status: int = 200) -> web.Response:
    return json_response({"data": value}, status)


# --- API keys


async def keys(request: web.Request) -> web.Response:
    """GET /api/account/keys, oldest first."""
    auth = request.app[AUTH]
    session = await auth.session(request)
    return _data([_key(key) for key in auth.registry.cache.keys_of(session.owner.number)])


def _key(key: ApiKey) -> dict[str, Any]:
    used = None if key.last_used_ms is None else iso(key.last_used_ms)
    return {
        "id": key.number,
        "name": key.name,
        "prefix": key.prefix,
        "created_at": iso(key.created_ms),
        "last_used_at": used,
    }


async def create_key(request: web.Request) -> web.Response:
    """POST /api/account/keys: create a key; its value is shown in this answer alone."""
    auth = request.app[AUTH]
    session, sent = await auth.session_and_body(request, ("name",))
    owner = session.owner
    try:
        name = check_name(text(sent, "name").strip())
    except AccountError as bad:
        raise invalid("name", str(bad)) from None
    if owner.plan not in PLANS_WITH_KEYS:
        raise ApiError(errors.PLAN_HAS_NO_KEYS)
    owned_by, now_ms = Account(owner.number, owner.email, owner.plan), auth.clock.wall_ms()
    try:
        value = await auth.registry.change(create_api_key, owned_by, name, now_ms)
    except AccountFull as full:
        raise ApiError(errors.TOO_MANY_KEYS, str(full)) from None
    key = auth.registry.key(value)
    if key is None:  # revoked by the command line meanwhile
        raise ApiError(errors.UNKNOWN_KEY)
    return _data(_key(key) | {"value": value}, 201)


async def revoke_key(request: web.Request) -> web.Response:
    """DELETE /api/account/keys/{number}: revoke a key."""
    auth = request.app[AUTH]
    session = await auth.session(request)
    given = request.match_info["number"]
    numbers = {str(key.number) for key in auth.registry.cache.keys_of(session.owner.number)}
    if not re.fullmatch("[0-9]{1,18}", given) or given not in numbers:
        raise ApiError(errors.UNKNOWN_KEY)
    await auth.registry.change(delete_api_key, int(given))
    return web.Response(status=204)
