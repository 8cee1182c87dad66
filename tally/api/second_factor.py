"""/api/account/second-factor: the second factor of the person who is signed in (tally/accounts/second_factor.py).

A change needs the password, and a code of the current factor where there is one. It ends all other sessions of the
person, and no browser is known any more.

A setup has two requests: the first returns a secret, which is in memory for 15 minutes and belongs to the session; the
second sends a code of it, which shows that the app has it. Nothing is active in between.
"""

import io
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar
from urllib.parse import urlsplit

from aiohttp import web

from tally import errors
from tally.accounts import audit, changes, second_factor
from tally.accounts.audit import Entry
from tally.accounts.changes import PasswordChanged
from tally.accounts.second_factor import FactorChanged, Proof, Setup, Use
from tally.api.auth import AUTH, Auth, Session, text
from tally.api.sign_in import checked_passkey, checked_password, factor_check, sent_code, use_entries
from tally.errors import ApiError
from tally.http.responses import json_response
from tally.timestamps import DAY_MS, iso

T = TypeVar("T")
PROOF_FIELDS = ("password", "code", "passkey")
"""What a change of the factors is sent with: the password, and a code or the use of a passkey."""
# Refused sign-ins that are shown: the newest, of so many days.
_MAX_REFUSED, _REFUSED_DAYS = 20, 30


async def state(request: web.Request) -> web.Response:
    """GET /api/account/second-factor: whether there is one, the recovery codes left, and refused sign-ins."""
    auth = request.app[AUTH]
    person = (await auth.session(request)).person
    cache, members = auth.registry.cache, auth.registry.cache.memberships_of(person.number)
    refused = await auth.registry.lookup(
        audit.lines,
        # Each account of the person has the line.
        members[0].account,
        action="sign_in_refused",
        person=person.number,
        since_ms=auth.clock.wall_ms() - _REFUSED_DAYS * DAY_MS,
        limit=_MAX_REFUSED,
    )
    shown = {
        "email": person.email,
        "is_set": person.recovery_codes is not None,
        "recovery_codes": person.recovery_codes,
        # Accounts that are closed to the person without a second factor.
        "due_for": [cache.accounts[member.account].name for member in members if member.is_due],
        "refused": [iso(line.ms) for line in refused],
    }
    return json_response({"data": shown})


async def begin(request: web.Request) -> web.Response:
    """POST /api/account/second-factor/begin: a new secret, which `confirm` makes the second factor."""
    auth = request.app[AUTH]
    session, sent = await auth.session_and_body(request, PROOF_FIELDS)
    person = session.person
    current = partial(second_factor.secret_of, person=person.number)
    instead_of = await change_factor(request, session, sent, current, None, needs_codes=False)
    secret = second_factor.new_secret()
    auth.setups.keep(session.digest, Setup(secret, instead_of, auth.clock.monotonic_ns()))
    host = urlsplit(auth.base_url).hostname
    uri = second_factor.uri(secret, person.email, f"Tally {host}" if host else "Tally")
    return json_response({"data": {"secret": second_factor.base32(secret), "uri": uri, "svg": _qr_code(uri)}})


def _qr_code(text: str) -> str:
    """Return an SVG image, black on white in every theme, since some apps read nothing else."""
    import segno

    image = io.BytesIO()
    segno.make_qr(text, error="m").save(image, kind="svg", scale=4, light="#fff", xmldecl=False, svgclass=None)
    return image.getvalue().decode()


async def confirm(request: web.Request) -> web.Response:
    """POST /api/account/second-factor/confirm: make the secret of `begin` the second factor, by a code of it.

    Returns the recovery codes, in this answer alone.
    """
    auth = request.app[AUTH]
    session, sent = await auth.session_and_body(request, ("code",))
    number, code = session.person.number, text(sent, "code")
    setup = auth.setups.get(session.digest, auth.clock.monotonic_ns())
    if setup is None:
        raise ApiError(errors.NO_SECOND_FACTOR, "The setup has expired: begin again.")
    attempt = auth.take_code_try(request, number, is_recovery=False)
    step = second_factor.step_of(setup.secret, code, auth.clock.wall_ms())
    if step is None:
        raise ApiError(errors.WRONG_CODE, field="code")
    attempt.give_back()
    codes, digests = _recovery_codes(auth, number)
    try:
        await auth.change(
            session,
            None,
            Entry("second_factor_set"),
            second_factor.set_up,
            number,
            setup.secret,
            step,
            setup.instead_of,
            digests,
            session.digest,
        )
    except FactorChanged as changed:
        raise ApiError(errors.NO_SECOND_FACTOR, str(changed)) from None
    finally:
        auth.setups.drop(session.digest)
    return json_response({"data": {"codes": codes}}, 201)


def _recovery_codes(auth: Auth, person: int) -> tuple[list[str], list[bytes]]:
    codes = second_factor.new_recovery_codes()
    return codes, [second_factor.recovery_digest(person, code, auth.registry.key_salt) for code in codes]


async def new_codes(request: web.Request) -> web.Response:
    """POST /api/account/second-factor/codes: other recovery codes in place of those of before."""
    auth = request.app[AUTH]
    session, sent = await auth.session_and_body(request, PROOF_FIELDS)
    number = session.person.number
    codes, digests = _recovery_codes(auth, number)
    replace = partial(second_factor.replace_recovery_codes, person=number, digests=digests, session=session.digest)
    await change_factor(request, session, sent, replace, Entry("recovery_codes_created"))
    return json_response({"data": {"codes": codes}}, 201)


async def remove(request: web.Request) -> web.Response:
    """DELETE /api/account/second-factor: sign in by the password alone from now on."""
    auth = request.app[AUTH]
    session, sent = await auth.session_and_body(request, PROOF_FIELDS)
    step = partial(second_factor.remove, person=session.person.number, session=session.digest)
    await change_factor(request, session, sent, step, Entry("second_factor_removed"))
    return web.Response(status=204)


async def change_factor(
    request: web.Request,
    session: Session,
    sent: dict[str, Any],
    step: Callable[[Any], T],
    entry: Entry | None,
    *,
    needs_codes: bool = True,
) -> T:
    """Return what a step returns, in the transaction in which the password and the current factor are checked.

    `entry`: the line of the audit log, unless the step returns False. `needs_codes`: the person must have codes of an
    app. Raises ApiError 401, 403, 409, 429.
    """
    auth, person = request.app[AUTH], session.person
    password, code = text(sent, "password"), sent_code(sent)
    attempt = auth.take_try(request, person.email, person)
    number, stored = await checked_password(auth, attempt, person.email, password)
    if stored is None:
        raise ApiError(errors.WRONG_PASSWORD, field="password")
    passkey = None if sent.get("passkey") is None else await checked_passkey(request, sent["passkey"], number)
    now_ms, salt = auth.clock.wall_ms(), auth.registry.key_salt

    def entries(result: tuple[Use | None, T]) -> list[Entry]:
        return [*use_entries(result[0]), *([entry] if entry and result[1] is not False else [])]

    try:
        async with factor_check(request, number, Proof(code, passkey, is_change=True)) as proof:
            proved = second_factor.with_proof(step, number, proof, now_ms, salt, needs_codes=needs_codes)
            checked = changes.with_password(proved, number, stored)
            return (await auth.change(session, None, entries, checked))[1]
    except PasswordChanged:
        raise ApiError(errors.WRONG_PASSWORD, field="password") from None
    except FactorChanged:
        raise ApiError(errors.NO_SECOND_FACTOR) from None
