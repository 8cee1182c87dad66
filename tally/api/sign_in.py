"""Signing in: the password, the code of the second factor, and the session that begins.

The code is sent with the password, in one request: there is no state between the two that could be used again. It is
checked in the transaction that begins the session, after the password in every case, so that responses to a wrong
password do not show whether the person has a second factor, and no stranger uses up the attempts of codes.
"""

import contextlib
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

from aiohttp import web

from tally import errors
from tally.accounts import changes, passwords, second_factor
from tally.accounts.accounts import credentials_of, set_password_hash
from tally.accounts.audit import Entry
from tally.accounts.changes import PasswordChanged
from tally.accounts.second_factor import FactorRequired, Use, WrongCode
from tally.accounts.sign_in import Try
from tally.api.auth import AUTH, Auth, text
from tally.errors import ApiError


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
async def code_check(request: web.Request, person: int, code: str | None, by: str = "") -> AsyncIterator[str | None]:
    """Count a code, of a person whose password was right, while the block checks it in a transaction.

    Yields the code to check. `by`: what a sign-in is by, for a line of the audit log where the code is wrong.
    Raises ApiError 401 and 429.
    """
    auth, attempt = request.app[AUTH], None
    if code is not None and await auth.registry.lookup(second_factor.secret_of, person) is not None:
        attempt = auth.take_code_try(request, person, is_recovery=second_factor.is_recovery_code(code))
    try:
        # None where the factor is set up meanwhile: no code is checked that was not counted.
        yield code if attempt else None
    except FactorRequired as required:
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

    async with code_check(request, number, code, by) as counted:
        checked = second_factor.with_code(check, number, counted, now_ms, salt)
        await auth.begin_session(request, number, checked, entries)


async def begin_with_new_password(request: web.Request, number: int, password_hash: str) -> None:
    """Begin a session in the browser that has just set the password. Raises ApiError 401 where it is another by now."""
    check = partial(changes.check_password_hash, person=number, password_hash=password_hash)
    try:
        await request.app[AUTH].begin_session(request, number, check, Entry("sign_in", detail={"by": "password"}))
    except PasswordChanged:
        raise ApiError(errors.WRONG_CREDENTIALS) from None
