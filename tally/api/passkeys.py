"""/api/account/passkeys: the passkeys of a person; and signing in by one.

Adding one takes two requests: `begin` checks the password and a current factor and returns the options for the browser,
with a challenge that is valid in this session alone; `finish` stores the passkey that the browser made with it. A
sign-in begins with a challenge too, which names nobody: the browser shows the passkeys that it has for this server.
"""

import asyncio
from functools import partial

from aiohttp import web

from tally import errors
from tally.accounts import audit, passkeys, webauthn
from tally.accounts.accounts import AccountError, AccountFull, check_name
from tally.accounts.audit import Entry
from tally.accounts.passkeys import CountWentBack, Passkey, UnknownPasskey
from tally.accounts.webauthn import BadPasskey, RelyingParty
from tally.api.account import entered
from tally.api.auth import AUTH, Auth, body, invalid, text
from tally.api.second_factor import PROOF_FIELDS, change_factor
from tally.api.sign_in import checked_passkey, refuse_passkey
from tally.errors import ApiError
from tally.http.responses import json_response
from tally.timestamps import DAY_MS, iso

# Refused uses that are shown: the newest, of so many days.
_MAX_REFUSED, _REFUSED_DAYS = 20, 30


def _party(auth: Auth) -> RelyingParty:
    if auth.passkeys is None:
        raise ApiError(errors.NO_PASSKEYS)
    return auth.passkeys


async def listed(request: web.Request) -> web.Response:
    """GET /api/account/passkeys: those of the person, oldest first, and when a copy of one was refused."""
    auth = request.app[AUTH]
    person = (await auth.session(request)).person
    stored = await auth.registry.lookup(passkeys.passkeys_of, person.number)
    refused = await auth.registry.lookup(
        audit.lines,
        # Each account of the person has the line.
        auth.registry.cache.memberships_of(person.number)[0].account,
        action="passkey_refused",
        person=person.number,
        since_ms=auth.clock.wall_ms() - _REFUSED_DAYS * DAY_MS,
        limit=_MAX_REFUSED,
    )
    shown = {
        "passkeys": [_shown(passkey) for passkey in stored],
        "max": passkeys.MAX_PASSKEYS,
        # Why there can be none: `base_url` or `extra`.
        "unavailable": auth.no_passkeys or None,
        "refused": [iso(line.ms) for line in refused],
    }
    return json_response({"data": shown})


def _shown(passkey: Passkey) -> dict[str, str | None]:
    used = None if passkey.last_used_day is None else iso(passkey.last_used_day * DAY_MS)[:10]
    created = iso(passkey.created_ms)
    return {"id": webauthn.encoded(passkey.id), "name": passkey.name, "created_at": created, "last_used_on": used}


async def begin(request: web.Request) -> web.Response:
    """POST /api/account/passkeys/begin: the options with which the browser makes a passkey."""
    auth = request.app[AUTH]
    session, sent = await auth.session_and_body(request, PROOF_FIELDS)
    party, person = _party(auth), session.person
    current = partial(passkeys.passkeys_of, person=person.number)
    known = await change_factor(request, session, sent, current, None, needs_codes=False)
    _check_count(known)
    challenge = auth.session_challenges.new(auth.clock.monotonic_ns(), session.digest)
    handle = passkeys.handle_of(person.number, auth.registry.key_salt)
    options = webauthn.creation_options(party, challenge, handle, person.email, [passkey.id for passkey in known])
    return json_response({"data": options})


def _check_count(known: list[Passkey]) -> None:
    if len(known) >= passkeys.MAX_PASSKEYS:
        raise ApiError(errors.TOO_MANY_PASSKEYS)


async def finish(request: web.Request) -> web.Response:
    """POST /api/account/passkeys/finish: store the passkey that the browser has made, under a name."""
    auth = request.app[AUTH]
    session, sent = await auth.session_and_body(request, ("name", "credential"))
    party, number = _party(auth), session.person.number
    try:
        name = check_name(text(sent, "name").strip())
    except AccountError as bad:
        raise invalid("name", str(bad)) from None
    if not name:
        raise invalid("name", "name must not be empty.")
    try:
        made = await asyncio.to_thread(webauthn.read, sent.get("credential"), "clientDataJSON", "attestationObject")
        if not auth.session_challenges.take(made.challenge, auth.clock.monotonic_ns(), session.digest):
            raise BadPasskey("a challenge that was not sent to this session, has expired or was used")
        new = await asyncio.to_thread(webauthn.registered, party, made)
    except BadPasskey:
        raise ApiError(errors.WRONG_PASSKEY) from None
    now_ms = auth.clock.wall_ms()
    stored = Passkey(new.id, number, new.public_key, new.sign_count, name, now_ms, None)
    try:
        await auth.change(session, None, Entry("passkey_added", target=name), passkeys.add, stored, session.digest)
    except AccountFull:
        raise ApiError(errors.TOO_MANY_PASSKEYS) from None
    except UnknownPasskey as taken:
        raise ApiError(errors.WRONG_PASSKEY, str(taken)) from None
    return json_response({"data": _shown(stored)}, 201)


async def remove(request: web.Request) -> web.Response:
    """DELETE /api/account/passkeys/{passkey}: remove a passkey."""
    auth = request.app[AUTH]
    session, sent = await auth.session_and_body(request, PROOF_FIELDS)
    number = session.person.number
    try:
        id = webauthn.decoded(request.match_info["passkey"])
    except BadPasskey:
        raise ApiError(errors.UNKNOWN_PASSKEY) from None
    known = await auth.registry.lookup(passkeys.passkeys_of, number)
    name = next((passkey.name for passkey in known if passkey.id == id), None)
    if name is None:
        raise ApiError(errors.UNKNOWN_PASSKEY)
    step = partial(passkeys.remove, person=number, id=id, session=session.digest)
    entry = Entry("passkey_removed", target=name)
    if not await change_factor(request, session, sent, step, entry, needs_codes=False):
        raise ApiError(errors.UNKNOWN_PASSKEY)
    return web.Response(status=204)


async def begin_sign_in(request: web.Request) -> web.Response:
    """POST /api/account/login/passkey/begin: the options with which the browser uses a passkey."""
    auth = request.app[AUTH]
    auth.check_site(request)
    await body(request, ())
    party = _party(auth)
    auth.count(auth.challenge_clients, auth.client(request))
    return json_response({"data": webauthn.request_options(party, auth.challenges.new(auth.clock.monotonic_ns()))})


async def sign_in(request: web.Request) -> web.Response:
    """POST /api/account/login/passkey/finish: begin a session of the person whose passkey was used."""
    auth = request.app[AUTH]
    auth.check_site(request)
    sent = await body(request, ("credential",))
    used = await checked_passkey(request, sent.get("credential"))
    check = partial(passkeys.use, used=used, day=auth.clock.wall_ms() // DAY_MS)
    try:
        await auth.begin_session(request, used.person, check, Entry("sign_in", detail={"by": "passkey"}))
    except (UnknownPasskey, CountWentBack) as failure:
        await refuse_passkey(auth, used.person, failure)
    return entered(request, used.person)
