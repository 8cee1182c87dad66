"""/api/account: first run, log in and out, the account itself, its API keys. For the pages of this server alone.

Every handler that changes something is admitted first (tally/api/auth.py), and every one but the first few needs a
session. No answer says whether an address has an account: an unknown one and a wrong password are answered alike, after
the same work.

The setup link. Where no account has a password, the server makes a random token when it starts and prints it as a link;
whoever has it sets the first password and is logged in. It is in memory only and opens nothing once any account has a
password. The account made without one by the command line is owner@localhost: its address is asked for, as for a new
one.
"""

import re
import secrets
import sqlite3
from typing import Any

from aiohttp import web

from tally import errors
from tally.accounts import logins, passwords
from tally.accounts.accounts import (
    FIRST_ACCOUNT,
    PLANS_WITH_KEYS,
    Account,
    AccountError,
    Owner,
    all_owners,
    check_email,
    check_name,
    create_account,
    password_hash_of,
    set_email,
    set_password_hash,
    set_time_zone,
)
from tally.accounts.api_keys import ApiKey, create_api_key, delete_api_key, delete_api_keys
from tally.accounts.share_links import revoke_share_links
from tally.accounts.sign_in import Try
from tally.accounts.usage import USAGE_WARNINGS, month_ends_in_s
from tally.api.auth import AUTH, Auth, body, flag, invalid, text
from tally.base_path import public_url
from tally.errors import ApiError
from tally.http.request_paths import public_prefix
from tally.http.responses import json_response
from tally.resources import tally_version
from tally.timeranges import zone
from tally.timestamps import BadTime, iso


async def state(request: web.Request) -> web.Response:
    """GET /api/account/state: whether somebody is logged in, and whether anybody can be."""
    gate = request.app[AUTH]
    needs_setup = await _needs_setup(gate)
    return _data({"logged_in": gate.found(request) is not None, "needs_setup": needs_setup, "demo": gate.is_demo})


async def _needs_setup(gate: Auth) -> bool:
    await gate.store.look_again()
    return gate.needs_setup


# --- first run


async def look_at_setup(request: web.Request) -> web.Response:
    """GET /api/account/setup: whose password the link sets; null where an address is to be given as well."""
    gate = request.app[AUTH]
    # In a header: what stands in the path is written down by proxies.
    await _check_setup(gate, request, request.headers.get("Setup-Token", ""))
    owner = _to_set_up(gate)
    return _data({"email": None if owner is None or owner.email == FIRST_ACCOUNT else owner.email})


def _to_set_up(gate: Auth) -> Owner | None:
    return next(iter(gate.store.registry.owners.values()), None)


async def _check_setup(gate: Auth, request: web.Request, token: str) -> None:
    attempt = gate.take_try(request)
    is_right = secrets.compare_digest(token.encode("utf-8", "surrogatepass"), gate.setup_token.encode())
    if not is_right or not gate.setup_token or not await _needs_setup(gate):
        raise ApiError(errors.UNKNOWN_SETUP_LINK)
    attempt.give_back()


async def set_up(request: web.Request) -> web.Response:
    """POST /api/account/setup: sets the first password, and logs in."""
    gate = request.app[AUTH]
    gate.admit(request)
    sent = await body(request, ("token", "email", "password"))
    await _check_setup(gate, request, text(sent, "token"))
    email = text(sent, "email").strip() if _asks_for_email(gate) else FIRST_ACCOUNT
    try:
        check_email(email)
    except AccountError:
        raise invalid("email", "This is no e-mail address.") from None
    password_hash = await gate.hashing(passwords.hashed, _new_password(sent, "password"))
    now_ms = gate.clock.wall_ms()
    number = await gate.store.change(lambda connection: _set_up(connection, email, password_hash, now_ms))
    if number is None:
        raise ApiError(errors.UNKNOWN_SETUP_LINK)
    gate.setup_token = ""
    await gate.log_in(request, number, password_hash)
    return _data(_account(request, gate, gate.store.registry.owners[number]), 201)


def _asks_for_email(gate: Auth) -> bool:
    owner = _to_set_up(gate)
    return owner is None or owner.email == FIRST_ACCOUNT


def _set_up(connection: sqlite3.Connection, email: str, password_hash: str, now_ms: int) -> int | None:
    """Sets the first password; the account's number, None where there is a password already."""
    owners = all_owners(connection)
    if any(owner.has_password for owner in owners.values()):
        return None
    if not owners:
        return create_account(connection, email, "business", password_hash, now_ms).number
    # Where somebody types the address of an account that is there, that is the one meant.
    owner = next((one for one in owners.values() if one.email.lower() == email.lower()), next(iter(owners.values())))
    if owner.email == FIRST_ACCOUNT:
        set_email(connection, owner.number, email)
    set_password_hash(connection, owner.number, password_hash)
    return owner.number


def _new_password(sent: dict[str, Any], field: str) -> str:
    password = text(sent, field)
    if not passwords.is_allowed(password):
        raise invalid("password", f"{passwords.RULE}.")
    return password


# --- in and out


async def log_in(request: web.Request) -> web.Response:
    """POST /api/account/login."""
    gate = request.app[AUTH]
    gate.admit(request)
    sent = await body(request, ("email", "password"))
    email, password = text(sent, "email").strip(), text(sent, "password")
    await gate.store.look_again()
    owner = next((one for one in gate.store.registry.owners.values() if one.email.lower() == email.lower()), None)
    attempt = gate.take_try(request, email, owner)
    # Unknown addresses cost the same work: no account has the number 0.
    password_hash = await _checked(gate, attempt, 0 if owner is None else owner.number, password)
    if owner is None or password_hash is None:
        raise ApiError(errors.WRONG_CREDENTIALS)
    await gate.log_in(request, owner.number, password_hash)
    return _data(_account(request, gate, owner))


async def _checked(gate: Auth, attempt: Try, account: int, password: str) -> str | None:
    """The hash of the account's password if it is this one; one with outdated parameters is made anew.

    The try is given back if it was right or could not be checked.
    """
    is_known = attempt.is_known
    try:
        stored = await gate.store.read(lambda connection: password_hash_of(connection, account))
        is_right = await gate.hashing(passwords.is_right, stored or passwords.NOBODY, password, is_known=is_known)
    except BaseException:
        attempt.give_back()
        raise
    if not is_right or stored is None:
        return None
    attempt.give_back()
    if not passwords.is_outdated(stored):
        return stored
    anew = await gate.hashing(passwords.hashed, password, is_known=is_known)
    await gate.store.change(lambda connection: set_password_hash(connection, account, anew, stored))
    return anew


async def log_out(request: web.Request) -> web.Response:
    """POST /api/account/logout: ends this session."""
    gate = request.app[AUTH]
    session = await gate.session(request)
    await gate.log_out(request, lambda connection: logins.forget(connection, [session.digest]))
    return web.Response(status=204)


async def log_out_everywhere(request: web.Request) -> web.Response:
    """POST /api/account/logout-everywhere: ends every session of the account."""
    gate = request.app[AUTH]
    session = await gate.session(request)
    await gate.log_out(request, lambda connection: logins.forget_account(connection, session.owner.number))
    return web.Response(status=204)


# --- the account


async def account(request: web.Request) -> web.Response:
    """GET /api/account."""
    gate = request.app[AUTH]
    return _data(_account(request, gate, (await gate.session(request)).owner))


async def change(request: web.Request) -> web.Response:
    """PATCH /api/account: the time zone; null is the browser's own."""
    gate = request.app[AUTH]
    session, sent = await gate.asked(request, ("time_zone",))
    number = session.owner.number
    if "time_zone" in sent:
        name = None if sent["time_zone"] is None else text(sent, "time_zone")
        try:
            name is None or zone(name)
        except BadTime:
            raise invalid("time_zone", "time_zone is the exact name of an IANA time zone, or null.") from None
        await gate.store.change(lambda connection: set_time_zone(connection, number, name))
    return _data(_account(request, gate, gate.store.registry.owners[number]))


async def change_password(request: web.Request) -> web.Response:
    """POST /api/account/password: sets another password; every session ends, and a new one begins here.

    `revoke_keys` and `revoke_share_links`, false where they are missing, revoke the account's own in the same step.
    """
    gate = request.app[AUTH]
    session, sent = await gate.asked(request, ("current", "new", "revoke_keys", "revoke_share_links"))
    current, new = text(sent, "current"), _new_password(sent, "new")
    revokes_keys, revokes_links = flag(sent, "revoke_keys"), flag(sent, "revoke_share_links")
    attempt = gate.take_try(request, session.owner.email, session.owner)
    number = session.owner.number
    stored = await _checked(gate, attempt, number, current)
    if stored is None:
        raise ApiError(errors.WRONG_PASSWORD, field="current")
    password_hash = await gate.hashing(passwords.hashed, new, is_known=True)

    def write(connection: sqlite3.Connection) -> None:
        # Somebody has set another one meanwhile, such as the owner by the command line: that one stays.
        if password_hash_of(connection, number) != stored:
            raise ApiError(errors.WRONG_PASSWORD, field="current")
        set_password_hash(connection, number, password_hash)
        logins.forget_account(connection, number)
        if revokes_keys:
            delete_api_keys(connection, number)
        if revokes_links:
            revoke_share_links(connection, number)

    await gate.store.change(write)
    await gate.log_in(request, number, password_hash)
    return web.Response(status=204)


def _usage_warning(used: int, limit: int | None) -> int | None:
    """The highest percentage of USAGE_WARNINGS that was reached; None below all of them, and without a limit."""
    reached = [percent for percent in USAGE_WARNINGS if limit is not None and used * 100 >= percent * limit]
    return max(reached, default=None)


def _account(request: web.Request, gate: Auth, owner: Owner) -> dict[str, Any]:
    now_ms = gate.clock.wall_ms()
    month_end_ms = now_ms // 1000 * 1000 + 1000 * month_ends_in_s(now_ms // 1000 * 1000)
    return {
        "email": owner.email,
        "plan": owner.plan,
        "time_zone": owner.time_zone,
        "events_this_month": gate.store.used(owner.number, now_ms),
        "events_limit": gate.store.event_limit(owner.plan),
        "usage_warning": _usage_warning(gate.store.used(owner.number, now_ms), gate.store.event_limit(owner.plan)),
        "month_ends_at": iso(month_end_ms),
        "has_keys": owner.plan in PLANS_WITH_KEYS,
        # Events are refused for want of disk space.
        "disk_is_low": gate.store.health.is_low,
        "version": tally_version(),
        "base_url": public_url(gate.base_url, public_prefix(request)),
        "demo": gate.is_demo,
    }


def _data(value: Any, status: int = 200) -> web.Response:
    return json_response({"data": value}, status)


# --- API keys


async def keys(request: web.Request) -> web.Response:
    """GET /api/account/keys, oldest first."""
    gate = request.app[AUTH]
    session = await gate.session(request)
    return _data([_key(key) for key in gate.store.registry.keys.values() if key.account == session.owner.number])


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
    """POST /api/account/keys: a new key, its value this once."""
    gate = request.app[AUTH]
    session, sent = await gate.asked(request, ("name",))
    owner = session.owner
    try:
        name = check_name(text(sent, "name").strip(), "A name")
    except AccountError as bad:
        raise invalid("name", str(bad)) from None
    if owner.plan not in PLANS_WITH_KEYS:
        raise ApiError(errors.PLAN_HAS_NO_KEYS)
    whose, now_ms = Account(owner.number, owner.email, owner.plan), gate.clock.wall_ms()
    value = await gate.store.change(lambda connection: create_api_key(connection, whose, name, now_ms))
    key = gate.store.key(value)
    if key is None:  # revoked by the command line in this very moment
        raise ApiError(errors.UNKNOWN_KEY)
    return _data(_key(key) | {"value": value}, 201)


async def revoke_key(request: web.Request) -> web.Response:
    """DELETE /api/account/keys/{number}."""
    gate = request.app[AUTH]
    session = await gate.session(request)
    given = request.match_info["number"]
    own = {str(key.number) for key in gate.store.registry.keys.values() if key.account == session.owner.number}
    if not re.fullmatch("[0-9]{1,18}", given) or given not in own:
        raise ApiError(errors.UNKNOWN_KEY)
    await gate.store.change(lambda connection: delete_api_key(connection, int(given)))
    return web.Response(status=204)
