"""Signing in: the password, the code of the second factor, and the session that begins.

The code is sent with the password, in one request: there is no state between the two that could be used again. It is
checked in the transaction that begins the session, after the password in every case, so that responses to a wrong
password do not show whether the person has a second factor, and no stranger uses up the attempts of codes.
"""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any, NoReturn

from aiohttp import web

from tally import errors
from tally.accounts import changes, passkeys, passwords, second_factor, webauthn
from tally.accounts.accounts import credentials_of, set_password_hash
from tally.accounts.audit import Entry
from tally.accounts.changes import PasswordChanged
from tally.accounts.passkeys import Assertion, CountWentBack, UnknownPasskey
from tally.accounts.second_factor import FactorRequired, Proof, Use, WrongCode
from tally.accounts.sign_in import Try
from tally.accounts.webauthn import BadPasskey
from tally.api.auth import AUTH, Auth, text
from tally.errors import ApiError, log


async def checked_password(auth: Auth, attempt: Try, email: str, password: str) -> tuple[int, str | None]:
    """Return a person and the hash of the password, renewed if its parameters are outdated; None if it is another.

    Reads the database, so that a person whom another process has just created is found. Unknown addresses take the
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


def sent_code(sent: dict[str, Any]) -> str | None:
    """Return the code of a body; None where it is missing, null or empty. Raises ApiError 400."""
    return None if sent.get("code") is None else text(sent, "code").strip() or None


@contextlib.asynccontextmanager
async def factor_check(request: web.Request, person: int, proof: Proof, by: str = "") -> AsyncIterator[Proof]:
    """Count a code, of a person whose password was right, while the block checks it in a transaction.

    Yields the proof to check. `by`: what a sign-in is by, for a line of the audit log where the code is wrong.
    Raises ApiError 401 and 429.
    """
    auth, attempt, code = request.app[AUTH], None, proof.code
    if code is not None and await auth.registry.lookup(second_factor.secret_of, person) is not None:
        attempt = auth.take_code_try(request, person, is_recovery=second_factor.is_recovery_code(code))
    try:
        # None where the factor is set up meanwhile: no code is checked that was not counted.
        yield proof if attempt else proof._replace(code=None)
    except (UnknownPasskey, CountWentBack) as failure:
        await refuse_passkey(auth, person, failure)
    except FactorRequired as required:
        if required.methods == ["passkey"]:
            raise ApiError(errors.PASSKEY_REQUIRED) from None
        raise ApiError(errors.SECOND_FACTOR_REQUIRED, more={"methods": required.methods}) from None
    except WrongCode as wrong:
        who = auth.registry.cache.people.get(person)
        if by and who is not None:
            await auth.change(who, None, Entry("sign_in_refused", detail={"by": by}), changes.no_change)
        raise ApiError(errors.WRONG_CODE, str(wrong), field="code") from None
    except BaseException:
        if attempt:
            attempt.give_back()
        raise
    if attempt:
        attempt.give_back()


async def checked_passkey(request: web.Request, credential: object, person: int | None = None) -> Assertion:
    """Return the use of a passkey, of a person if one is named, after its challenge and its signature were checked.

    Counts a try, which is given back where it was right. Raises ApiError 401, 409, 429.
    """
    auth = request.app[AUTH]
    if auth.passkeys is None:
        raise ApiError(errors.NO_PASSKEYS)
    attempt = auth.take_try(request)
    try:
        sent = await asyncio.to_thread(
            webauthn.read, credential, "clientDataJSON", "authenticatorData", "signature", "userHandle"
        )
        if not auth.challenges.take(sent.challenge, auth.clock.monotonic_ns()):
            raise BadPasskey("a challenge that was not sent, has expired or was used")
        passkey = await auth.registry.lookup(passkeys.find, sent.id)
        if passkey is None or person not in (None, passkey.person):
            raise BadPasskey("another passkey")
        handle = passkeys.handle_of(passkey.person, auth.registry.key_salt)
        if not secrets.compare_digest(sent.fields["userHandle"], handle):
            raise BadPasskey("another person")
        count = await asyncio.to_thread(webauthn.sign_count, auth.passkeys, sent, passkey.public_key)
    except BadPasskey:
        raise ApiError(errors.WRONG_PASSKEY) from None
    except BaseException:
        attempt.give_back()
        raise
    attempt.give_back()
    return Assertion(passkey.id, passkey.person, count)


async def refuse_passkey(auth: Auth, person: int, failure: UnknownPasskey | CountWentBack) -> NoReturn:
    """Raise ApiError 401; where there is a copy of the passkey, after a line of the audit log."""
    who = auth.registry.cache.people.get(person)
    if isinstance(failure, CountWentBack) and who is not None:
        log.warning("a passkey of person %d was refused: it has signed fewer times than before", person)
        await auth.change(who, None, Entry("passkey_refused"), changes.no_change)
    raise ApiError(errors.WRONG_PASSKEY) from None


def use_entries(used: Use | None) -> list[Entry]:
    """Return the lines of the audit log about a code that was used: only a recovery code has one."""
    is_recovery = used is not None and used.method == "recovery_code"
    return [Entry("recovery_code_used", detail={"left": used.left})] if used and is_recovery else []


async def sign_in(request: web.Request, number: int, check: Callable[[Any], object], by: str, code: str | None) -> None:
    """Begin a session of a person by what `check` checks, and by the code where the person has a second factor."""
    auth = request.app[AUTH]
    now_ms, salt = auth.clock.wall_ms(), auth.registry.key_salt

    def entries(result: tuple[Use | None, object]) -> list[Entry]:
        used = result[0]
        factor = {} if used is None else {"second_factor": used.method}
        return [*use_entries(used), Entry("sign_in", detail={"by": by} | factor)]

    async with factor_check(request, number, Proof(code), by) as proof:
        checked = second_factor.with_proof(check, number, proof, now_ms, salt)
        await auth.begin_session(request, number, checked, entries)


async def begin_with_new_password(request: web.Request, number: int, password_hash: str) -> None:
    """Begin a session in the browser that has just set the password. Raises ApiError 401 where it is another by now."""
    check = partial(changes.check_password_hash, person=number, password_hash=password_hash)
    try:
        await request.app[AUTH].begin_session(request, number, check, Entry("sign_in", detail={"by": "password"}))
    except PasswordChanged:
        raise ApiError(errors.WRONG_CREDENTIALS) from None
