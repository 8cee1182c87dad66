"""The second factor: codes of an authenticator app, recovery codes, and what the holder of a password may try.

pyotp computes the codes, so that they are compared with another implementation of RFC 6238.
"""

import asyncio
import sqlite3
from functools import partial
from typing import Any, NamedTuple

import pyotp
import pytest

from tally.accounts import second_factor
from tally.accounts.second_factor import (
    MAX_SETUPS,
    SETUP_LASTS_NS,
    STEP_MS,
    FactorChanged,
    Setup,
    Setups,
    base32,
    code_of,
    step_of,
)
from tally.accounts.sign_in import CODE_TRIES, RECOVERY_CODE_TRIES
from tests.api.test_people import ANN, NEW_PASSWORD, accept, invite, joined, link
from tests.support.app import OWNER, Answer, App
from tests.support.page_client import PASSWORD, PageClient, logged_in
from tests.support.process import Command

FACTOR = "/api/account/second-factor"
STEP_S = STEP_MS // 1_000
WRONG = "not the password"


def error(answer: Answer) -> tuple[int, str]:
    return answer.status, answer.json["error"]["code"]


class Factor(NamedTuple):
    """An authenticator app of the owner, in whose browser it was set up."""

    app: App
    browser: PageClient
    totp: pyotp.TOTP
    codes: list[str]

    def code(self, later_s: int = 0) -> str:
        """Return the code of now."""
        return str(self.totp.at(self.app.clock.wall_ms() // 1_000 + later_s))

    def wrong(self) -> str:
        """Return a code that is none of the accepted ones."""
        accepted = {self.code(at * STEP_S) for at in (-2, -1, 0, 1, 2)}
        return next(code for code in (f"{one:06}" for one in range(10)) if code not in accepted)

    def next_step(self) -> None:
        self.app.clock.advance(STEP_S)

    async def log_in(self, code: str | None, ip: str = "203.0.113.50", browser: PageClient | None = None) -> Answer:
        browser = browser or PageClient(self.app, ip)
        sent = {"email": OWNER, "password": PASSWORD} | ({} if code is None else {"code": code})
        return await browser("POST", "/api/account/login", sent)


async def begun(browser: PageClient, **more: str) -> pyotp.TOTP:
    answer = await browser("POST", f"{FACTOR}/begin", {"password": PASSWORD} | more)
    assert answer.status == 200, answer.text
    shown = answer.json["data"]
    totp = pyotp.parse_uri(shown["uri"])
    assert isinstance(totp, pyotp.TOTP)
    assert (totp.secret, totp.digits, totp.interval, totp.name) == (shown["secret"], 6, 30, OWNER)
    assert len(totp.byte_secret()) == 20
    return totp


async def set_up(app: App) -> Factor:
    """Set up the second factor of the owner, and let the step of its first code pass."""
    browser = await logged_in(app)
    totp = await begun(browser)
    answer = await browser("POST", f"{FACTOR}/confirm", {"code": totp.at(app.clock.wall_ms() // 1_000)})
    assert answer.status == 201, answer.text
    factor = Factor(app, browser, totp, answer.json["data"]["codes"])
    factor.next_step()
    return factor


def lines(app: App) -> list[tuple[str, str]]:
    """Return action and detail of the lines of the audit log, newest first."""
    return app.sql("select action, detail from audit order by number desc")


# --- codes


def test_codes_equal_those_of_another_implementation() -> None:
    for at in range(300):
        secret = bytes((at * 7 + byte * 13) % 256 for byte in range(20))
        totp = pyotp.TOTP(base32(secret))
        step = (at * 1_234_567) ** 2 % 2**40
        assert code_of(secret, step) == totp.generate_otp(step)


def test_the_examples_of_rfc_6238() -> None:
    """Appendix B, whose codes of 8 digits end with those of 6."""
    secret = b"12345678901234567890"
    for seconds, code in [(59, "287082"), (1111111109, "081804"), (2000000000, "279037"), (20000000000, "353130")]:
        assert code_of(secret, seconds // 30) == code
        assert step_of(secret, f" {code[:3]} {code[3:]} ", seconds * 1_000) == seconds // 30


async def test_a_code_counts_one_step_earlier_and_later(app: App) -> None:
    factor = await set_up(app)
    app.clock.advance(10 * STEP_S)
    for steps, status in [(-2, 401), (2, 401), (-1, 200), (0, 200), (1, 200)]:
        assert (await factor.log_in(factor.code(steps * STEP_S))).status == status, steps


# --- signing in


async def test_the_code_is_asked_for_after_the_password_alone(app: App) -> None:
    factor = await set_up(app)
    wrong = await PageClient(app).log_in(OWNER, WRONG)
    with_code = await PageClient(app)(
        "POST", "/api/account/login", {"email": OWNER, "password": WRONG, "code": factor.code()}
    )
    assert error(wrong) == error(with_code) == (401, "wrong_credentials")
    browser = PageClient(app)
    answer = await factor.log_in(None, browser=browser)
    assert error(answer) == (401, "second_factor_required")
    assert answer.json["methods"] == ["totp", "recovery_code"]
    assert error(await factor.log_in("", browser=browser)) == (401, "second_factor_required")
    # Nothing was begun that could be used again.
    assert (browser.cookies, browser.set_cookies) == ({}, [])
    assert (await factor.log_in(factor.code(), browser=browser)).status == 200
    assert (await browser("GET", "/api/account")).json["data"]["second_factor"] == {"recovery_codes": 10}
    assert lines(app)[0] == ("sign_in", '{"by": "password", "second_factor": "totp"}')


async def test_without_a_second_factor_a_code_is_ignored(app: App) -> None:
    browser = await logged_in(app)
    sent = {"email": OWNER, "password": PASSWORD, "code": "123456"}
    answer = await browser("POST", "/api/account/login", sent)
    assert (answer.status, answer.json["data"]["second_factor"]) == (200, None)
    assert error(await browser("POST", "/api/account/login", sent | {"code": 123456})) == (400, "invalid_field")


async def test_a_code_signs_in_once(app: App) -> None:
    factor = await set_up(app)
    code = factor.code()
    assert (await factor.log_in(code)).status == 200
    assert error(await factor.log_in(code)) == (401, "wrong_code")
    # Nor does one of an earlier step, which would count without the later one.
    assert error(await factor.log_in(factor.code(-STEP_S))) == (401, "wrong_code")
    factor.next_step()
    assert error(await factor.log_in(code)) == (401, "wrong_code")
    assert (await factor.log_in(factor.code())).status == 200


async def test_of_sign_ins_at_once_with_one_code_one_succeeds(app: App) -> None:
    factor = await set_up(app)
    for code in (factor.code(), factor.codes[0]):
        count = RECOVERY_CODE_TRIES
        answers = await asyncio.gather(*(factor.log_in(code, f"203.0.113.{50 + at}") for at in range(count)))
        assert sorted(answer.status for answer in answers) == [200] + [401] * (count - 1)
        app.clock.advance(3_600)


async def test_the_code_of_the_setup_is_used(app: App) -> None:
    browser = await logged_in(app)
    totp = await begun(browser)
    code = totp.at(app.clock.wall_ms() // 1_000)
    # Not active yet.
    assert (await PageClient(app).log_in()).status == 200
    assert (await browser("POST", f"{FACTOR}/confirm", {"code": code})).status == 201
    sent = {"email": OWNER, "password": PASSWORD, "code": code}
    assert error(await PageClient(app)("POST", "/api/account/login", sent)) == (401, "wrong_code")


async def test_a_recovery_code_signs_in_once(app: App) -> None:
    factor = await set_up(app)
    assert len(set(factor.codes)) == 10
    for count, code in enumerate(factor.codes, 1):
        sent = code.upper().replace("-", " ") if count % 2 else code
        browser = PageClient(app)
        answer = await factor.log_in(sent, browser=browser)
        assert answer.status == 200, answer.text
        assert answer.json["data"]["second_factor"] == {"recovery_codes": 10 - count}
        assert error(await factor.log_in(code)) == (401, "wrong_code")
        assert ("recovery_code_used", f'{{"left": {10 - count}}}') in lines(app)
        app.clock.advance(300)
    assert (await factor.log_in(None)).json["methods"] == ["totp"]


async def test_a_recovery_code_of_another_person_does_not_count(app: App) -> None:
    factor = await set_up(app)
    ann = await logged_in(app, "ann@example.com", ip="198.51.100.2")
    answer = await ann("POST", f"{FACTOR}/begin", {"password": PASSWORD})
    totp = pyotp.parse_uri(answer.json["data"]["uri"])
    assert isinstance(totp, pyotp.TOTP)
    code = totp.at(app.clock.wall_ms() // 1_000)
    codes = (await ann("POST", f"{FACTOR}/confirm", {"code": code})).json["data"]["codes"]
    assert error(await factor.log_in(codes[0])) == (401, "wrong_code")


async def test_a_sign_in_link_asks_for_the_code_too(app: App) -> None:
    factor = await set_up(app)
    token = await link(app)
    browser = PageClient(app)

    async def by_link(**more: str) -> Answer:
        return await browser("POST", "/api/account/login/link", {"token": token} | more)

    assert error(await by_link()) == (401, "second_factor_required")
    assert error(await by_link(code=factor.wrong())) == (401, "wrong_code")
    assert lines(app)[0] == ("sign_in_refused", '{"by": "link"}')
    assert (await by_link(code=factor.code())).status == 204
    assert error(await by_link(code=factor.code(STEP_S))) == (404, "unknown_sign_in_link")


# --- attempts


async def test_wrong_codes_are_limited_by_person_from_all_unknown_browsers(app: App) -> None:
    """The holder of the password has few tries, from however many addresses; a known browser has others."""
    factor = await set_up(app)
    assert (await factor.log_in(factor.code(), browser=factor.browser)).status == 200
    factor.next_step()
    for at in range(CODE_TRIES):
        assert error(await factor.log_in(factor.wrong(), f"198.51.100.{at}")) == (401, "wrong_code")
    answer = await factor.log_in(factor.wrong(), "198.51.100.99")
    assert error(answer) == (429, "rate_limited")
    assert 0 < int(answer.headers["Retry-After"]) <= 180
    # The right code has to wait too, but for the known browser, signed out or not, and for a recovery code.
    assert error(await factor.log_in(factor.code(), "198.51.100.98")) == (429, "rate_limited")
    await factor.browser("POST", "/api/account/logout")
    for _ in range(CODE_TRIES):
        assert error(await factor.log_in(factor.wrong(), browser=factor.browser)) == (401, "wrong_code")
    assert error(await factor.log_in(factor.wrong(), browser=factor.browser)) == (429, "rate_limited")
    assert (await factor.log_in(factor.codes[0], "198.51.100.97")).status == 200
    app.clock.advance(180)
    assert (await factor.log_in(factor.code(), "198.51.100.96")).status == 200


async def test_recovery_codes_have_a_limit_of_their_own(app: App) -> None:
    factor = await set_up(app)
    for _ in range(RECOVERY_CODE_TRIES):
        assert error(await factor.log_in("aaaaa-aaaaa")) == (401, "wrong_code")
    assert error(await factor.log_in(factor.codes[0])) == (429, "rate_limited")
    assert (await factor.log_in(factor.code())).status == 200
    app.clock.advance(300)
    assert (await factor.log_in(factor.codes[0])).status == 200


async def test_strangers_do_not_use_up_codes(app: App) -> None:
    """A code is counted after a right password alone."""
    factor = await set_up(app)
    sent = {"email": OWNER, "password": WRONG, "code": factor.wrong()}
    for at in range(CODE_TRIES + 1):
        answer = await PageClient(app, f"198.51.100.{at}")("POST", "/api/account/login", sent)
        assert error(answer) == (401, "wrong_credentials")
    for _ in range(CODE_TRIES - 1):
        await factor.log_in(factor.wrong())
    assert (await factor.log_in(factor.code())).status == 200


async def test_right_codes_do_not_count(app: App) -> None:
    factor = await set_up(app)
    for _ in range(CODE_TRIES + 1):
        assert (await factor.log_in(factor.code())).status == 200
        factor.next_step()


MALFORMED = ["0", "12345", "1234567", "١٢٣٤٥٦", "\ud800" * 6, "x" * 5_000, "-" * 6, "aaaaa-aaaa1", "\0" * 6]


async def test_malformed_codes_are_wrong(app: App) -> None:
    factor = await set_up(app)
    for code in MALFORMED:
        assert error(await factor.log_in(code)) == (401, "wrong_code"), code
        app.clock.advance(180)
    for code in ("", " "):
        assert error(await factor.log_in(code)) == (401, "second_factor_required")


async def test_the_person_is_told_of_refused_sign_ins(app: App) -> None:
    factor = await set_up(app)
    assert (await factor.browser("GET", FACTOR)).json["data"] == {
        "email": OWNER,
        "is_set": True,
        "recovery_codes": 10,
        "due_for": [],
        "refused": [],
    }
    assert error(await factor.log_in(factor.wrong())) == (401, "wrong_code")
    assert lines(app)[0] == ("sign_in_refused", '{"by": "password"}')
    assert len((await factor.browser("GET", FACTOR)).json["data"]["refused"]) == 1
    app.clock.advance(31 * 86_400)
    factor.browser.cookies.clear()
    await factor.log_in(factor.code(), browser=factor.browser)
    assert (await factor.browser("GET", FACTOR)).json["data"]["refused"] == []


# --- changes of the factor


async def test_a_setup_ends_other_sessions_and_known_browsers(app: App) -> None:
    other = await logged_in(app)
    factor = await set_up(app)
    assert (await factor.browser("GET", "/api/account")).status == 200
    assert error(await other("GET", "/api/account")) == (401, "not_logged_in")
    assert app.sql("select count(*) from device_cookie") == [(0,)]
    assert lines(app)[0] == ("second_factor_set", "{}")


@pytest.mark.parametrize("change", ["begin", "codes", "remove"])
async def test_a_change_needs_the_password_and_the_factor(app: App, change: str) -> None:
    factor = await set_up(app)
    other = PageClient(app)
    assert (await factor.log_in(factor.code(), browser=other)).status == 200
    factor.next_step()
    method, path = ("DELETE", FACTOR) if change == "remove" else ("POST", f"{FACTOR}/{change}")

    async def ask(**sent: Any) -> Answer:
        return await factor.browser(method, path, sent)

    assert error(await ask(password=WRONG, code=factor.code())) == (403, "wrong_password")
    assert error(await ask(password=PASSWORD)) == (401, "second_factor_required")
    assert error(await ask(password=PASSWORD, code=factor.wrong())) == (401, "wrong_code")
    assert error(await ask(code=factor.code())) == (400, "invalid_field")
    before = app.sql("select totp_secret, totp_step from person"), app.sql("select digest from recovery_code")
    assert (await ask(password=PASSWORD, code=factor.code())).status in (200, 201, 204)
    # The code is used, also for a sign-in.
    again = await factor.log_in(factor.code())
    assert again.status == (200 if change == "remove" else 401)
    factor.next_step()
    ended = (await other("GET", "/api/account")).status == 401
    assert ended is (change != "begin")
    assert (await factor.browser("GET", "/api/account")).status == 200
    if change == "codes":
        assert error(await factor.log_in(factor.codes[0])) == (401, "wrong_code")
    if change == "begin":
        # The factor of before counts until the new one is confirmed.
        assert app.sql("select totp_secret from person") == [(before[0][0][0],)]
        assert app.sql("select digest from recovery_code") == before[1]
        assert (await factor.log_in(factor.code())).status == 200


async def test_another_app_replaces_the_first(app: App) -> None:
    factor = await set_up(app)
    totp = await begun(factor.browser, code=factor.codes[0])
    answer = await factor.browser("POST", f"{FACTOR}/confirm", {"code": totp.at(app.clock.wall_ms() // 1_000)})
    assert answer.status == 201
    app.clock.advance(STEP_S)
    assert error(await factor.log_in(factor.code())) == (401, "wrong_code")
    assert error(await factor.log_in(factor.codes[1])) == (401, "wrong_code")
    assert (await factor.log_in(str(totp.at(app.clock.wall_ms() // 1_000)))).status == 200


async def test_without_a_factor_there_is_nothing_to_change(app: App) -> None:
    browser = await logged_in(app)
    for method, path in [("DELETE", FACTOR), ("POST", f"{FACTOR}/codes")]:
        assert error(await browser(method, path, {"password": PASSWORD})) == (409, "no_second_factor")
    assert error(await browser("POST", f"{FACTOR}/confirm", {"code": "123456"})) == (409, "no_second_factor")
    assert (await browser("GET", "/api/account")).json["data"]["second_factor"] is None
    assert app.sql("select count(*) from recovery_code") == [(0,)]


async def test_a_setup_belongs_to_its_session_and_expires(app: App) -> None:
    first, second = await logged_in(app), await logged_in(app)
    totp = await begun(first)
    code = totp.at(app.clock.wall_ms() // 1_000)
    assert error(await second("POST", f"{FACTOR}/confirm", {"code": code})) == (409, "no_second_factor")
    app.clock.advance(SETUP_LASTS_NS / 1e9)
    code = totp.at(app.clock.wall_ms() // 1_000)
    assert error(await first("POST", f"{FACTOR}/confirm", {"code": code})) == (409, "no_second_factor")


async def test_of_two_setups_the_first_confirmed_stays(app: App) -> None:
    """Confirming the second would replace a factor that was not shown for it."""
    first, second = await logged_in(app), await logged_in(app)
    one, other = await begun(first), await begun(second)
    now_s = app.clock.wall_ms() // 1_000
    answers = await asyncio.gather(
        first("POST", f"{FACTOR}/confirm", {"code": one.at(now_s)}),
        second("POST", f"{FACTOR}/confirm", {"code": other.at(now_s)}),
    )
    assert sorted(answer.status for answer in answers) in ([201, 401], [201, 409])


async def test_a_setup_replaces_the_factor_alone_that_was_shown_for_it(app: App) -> None:
    """Such as where another session, which has not ended yet, has set one up meanwhile."""
    factor = await set_up(app)
    for shown in (None, bytes(20)):
        with pytest.raises(FactorChanged):
            await app.admin(partial(second_factor.set_up, **_new(shown)))
    await app.admin(partial(second_factor.set_up, **_new(factor.totp.byte_secret())))
    assert app.sql("select totp_secret from person") == [(b"x" * 20,)]


def _new(instead_of: bytes | None) -> dict[str, Any]:
    return {
        "person": 1,
        "secret": b"x" * 20,
        "step": 0,
        "instead_of": instead_of,
        "digests": [],
        "session": b"",
    }


def test_setups_in_memory_are_bounded() -> None:
    setups = Setups()
    for number in range(MAX_SETUPS + 5):
        setups.keep(number.to_bytes(4), Setup(b"", None, 0))
    assert setups.get((4).to_bytes(4), 0) is None
    assert setups.get((5).to_bytes(4), 0) is not None


async def test_a_new_password_keeps_the_factor(app: App) -> None:
    """The browser that sets it stays signed in without a code."""
    factor = await set_up(app)
    sent = {"current": PASSWORD, "new": "another password"}
    assert (await factor.browser("POST", "/api/account/password", sent)).status == 204
    assert (await factor.browser("GET", "/api/account")).json["data"]["second_factor"] == {"recovery_codes": 10}
    assert error(await PageClient(app).log_in(OWNER, "another password")) == (401, "second_factor_required")


async def test_a_command_removes_the_factor(app: App, command: Command) -> None:
    factor = await set_up(app)
    words = ("person", "second-factor", OWNER, "--off", "--db", str(app.db))
    done = await asyncio.to_thread(command, *words)
    assert done.returncode == 0, done.stderr
    await app.registry.refresh()
    assert lines(app)[0][0] == "second_factor_removed"
    assert app.sql("select totp_secret, totp_step from person") == [(None, None)]
    assert app.sql("select count(*) from recovery_code") == [(0,)]
    assert error(await factor.browser("GET", "/api/account")) == (401, "not_logged_in")
    assert (await factor.log_in(None)).status == 200
    done = await asyncio.to_thread(command, *words)
    assert (done.returncode, "has no second factor" in done.stderr) == (1, True)


async def test_no_code_and_no_secret_is_in_the_log_or_readable_in_the_file(app: App) -> None:
    """The secret is stored as it is; recovery codes are not."""
    factor = await set_up(app)
    with sqlite3.connect(app.db) as connection:
        stored = "\n".join(connection.iterdump())
    for secret in (*factor.codes, *(code.replace("-", "") for code in factor.codes), factor.totp.secret):
        assert secret not in stored
    logged = "\n".join(f"{action} {detail}" for action, detail in lines(app))
    assert factor.totp.byte_secret().hex() not in logged


# --- the policy of an account


async def required(factor: Factor) -> None:
    answer = await factor.browser("PATCH", "/api/account", {"requires_second_factor": True})
    assert (answer.status, answer.json["data"]["requires_second_factor"]) == (200, True), answer.text


async def test_an_account_requires_a_second_factor(app: App) -> None:
    """A member without one is signed in, and may set one up; then everything is as before."""
    await app.website()
    factor = await set_up(app)
    ann = await joined(app, factor.browser, role="editor")
    assert (await ann("GET", "/api/account")).json["data"]["requires_second_factor"] is False
    await required(factor)
    assert lines(app)[0] == ("sign_in_policy_changed", '{"requires_second_factor": true}')
    for path in ("/api/account", "/api/account/websites"):
        assert error(await ann("GET", path)) == (403, "second_factor_due")
    browser = PageClient(app)
    answer = await browser.log_in(ANN, NEW_PASSWORD)
    assert (answer.status, answer.json["data"]) == (200, {"email": ANN, "second_factor_due": True})
    assert (await browser("GET", FACTOR)).json["data"]["due_for"] == [OWNER]
    shown = (await browser("POST", f"{FACTOR}/begin", {"password": NEW_PASSWORD})).json["data"]
    totp = pyotp.TOTP(shown["secret"])
    sent = {"code": totp.at(app.clock.wall_ms() // 1_000)}
    assert (await browser("POST", f"{FACTOR}/confirm", sent)).status == 201
    assert (await browser("GET", "/api/account")).json["data"]["role"] == "editor"
    assert len((await browser("GET", "/api/account/websites")).json["data"]) == 1
    # Without it the account is closed again.
    app.clock.advance(STEP_S)
    sent = {"code": totp.at(app.clock.wall_ms() // 1_000), "password": NEW_PASSWORD}
    assert (await browser("DELETE", FACTOR, sent)).status == 204
    assert error(await browser("GET", "/api/account")) == (403, "second_factor_due")
    await factor.browser("PATCH", "/api/account", {"requires_second_factor": False})
    assert (await browser("GET", "/api/account")).status == 200


async def test_other_accounts_of_a_person_stay_open(app: App) -> None:
    """The account that requires a second factor is closed, also by its number; the own one is not."""
    website = await app.website()
    factor = await set_up(app)
    ann = await logged_in(app, ANN, ip="198.51.100.2")
    own = (await ann("POST", "/api/account/websites", {"domain": "ann.example"})).json["data"]["id"]
    assert (await accept(ann, await invite(factor.browser, ANN, "admin"))).status == 201
    assert len((await ann("GET", "/api/account/websites")).json["data"]) == 2
    await required(factor)
    assert [one["id"] for one in (await ann("GET", "/api/account/websites")).json["data"]] == [own]
    assert (await ann("GET", "/api/account")).json["data"]["name"] == ANN
    for path in ("/api/account?account=1", "/api/account/people?account=1", f"/api/account/websites/{website}/stats"):
        assert error(await ann("GET", path)) == (403, "second_factor_due")
    answer = await PageClient(app).log_in(ANN)
    assert answer.json["data"]["name"] == ANN


async def test_an_owner_with_a_second_factor_alone_requires_one(app: App) -> None:
    browser = await logged_in(app)
    sent = {"requires_second_factor": True}
    assert error(await browser("PATCH", "/api/account", sent)) == (403, "second_factor_due")
    assert error(await browser("PATCH", "/api/account", {"requires_second_factor": "yes"})) == (400, "invalid_field")
    factor = await set_up(app)
    admin = await joined(app, factor.browser, role="admin")
    assert error(await admin("PATCH", "/api/account", sent)) == (403, "not_allowed")
    assert app.sql("select requires_second_factor from account") == [(0,)]


async def test_an_api_key_needs_no_second_factor(app: App) -> None:
    website = await app.website()
    factor = await set_up(app)
    key = (await factor.browser("POST", "/api/account/keys", {"name": "Key"})).json["data"]["value"]
    await required(factor)
    await app.admin(lambda connection: connection.execute("update person set totp_secret = null, totp_step = null"))
    headers = {"Authorization": f"Bearer {key}"}
    assert (await PageClient(app)("GET", f"/api/v1/websites/{website}/stats", headers=headers)).status == 200
