"""Passkeys: adding, signing in, removing, and what an authenticator may send that is not to be accepted.

The authenticator is tests/support/authenticator.py; tests/browser/test_passkeys.py has that of Chromium.
"""

import asyncio
import json
import secrets
from typing import Any

import pyotp
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from fido2.cose import RS256
from hypothesis import given
from hypothesis import strategies as st

from tally.accounts import webauthn
from tally.accounts.passkeys import CHALLENGE_LASTS_NS, MAX_CHALLENGES, MAX_PASSKEYS, Challenges
from tally.accounts.sign_in import TRIES_A_MINUTE
from tally.accounts.webauthn import BadPasskey, RelyingParty, encoded, relying_party, unavailable
from tally.api.auth import AUTH, CHALLENGES_A_MINUTE
from tests.api.test_people import ANN, NEW_PASSWORD, joined
from tests.api.test_second_factor import FACTOR, error
from tests.support.app import Answer, App, MakeApp
from tests.support.authenticator import ORIGIN, PRESENT, VERIFIED, Authenticator
from tests.support.page_client import PASSWORD, PageClient, logged_in
from tests.support.process import Command

PASSKEYS, LOGIN = "/api/account/passkeys", "/api/account/login/passkey"
PROOF = {"password": PASSWORD}


@pytest.fixture
async def app(make_app: MakeApp) -> App:
    """Return an application whose base URL browsers have passkeys for."""
    return await make_app(base_url=ORIGIN)


async def options_of(browser: PageClient, **proof: Any) -> dict[str, Any]:
    answer = await browser("POST", f"{PASSKEYS}/begin", PROOF | proof)
    assert answer.status == 200, answer.text
    found: dict[str, Any] = answer.json["data"]
    return found


async def finish(browser: PageClient, credential: Any, name: str = "Laptop") -> Answer:
    return await browser("POST", f"{PASSKEYS}/finish", {"name": name, "credential": credential})


async def added(browser: PageClient, name: str = "Laptop", counts: bool = True, **proof: Any) -> Authenticator:
    """Add a passkey in a browser that is logged in; return the authenticator that has it."""
    authenticator = Authenticator(counts=counts)
    answer = await finish(browser, authenticator.create(await options_of(browser, **proof)), name)
    assert answer.status == 201, answer.text
    return authenticator


async def challenged(browser: PageClient) -> dict[str, Any]:
    answer = await browser("POST", f"{LOGIN}/begin", {})
    assert answer.status == 200, answer.text
    found: dict[str, Any] = answer.json["data"]
    return found


async def sign_in(browser: PageClient, authenticator: Authenticator, **changed: Any) -> Answer:
    credential = authenticator.get(await challenged(browser), **changed)
    return await browser("POST", f"{LOGIN}/finish", {"credential": credential})


async def listed(browser: PageClient) -> dict[str, Any]:
    answer = await browser("GET", PASSKEYS)
    assert answer.status == 200, answer.text
    found: dict[str, Any] = answer.json["data"]
    return found


def lines(app: App) -> list[tuple[str, str, str]]:
    return app.sql("select action, target, detail from audit order by number")


# --- use


async def test_a_passkey_is_added_signs_in_and_is_removed(app: App) -> None:
    browser, other = await logged_in(app), PageClient(app, "198.51.100.2")
    assert (await other.log_in()).status == 200
    assert (await browser("GET", "/api/account/state")).json["data"]["passkeys"] is False
    options = await options_of(browser)
    assert (options["rp"]["id"], options["attestation"]) == ("stats.example.com", "none")
    assert options["authenticatorSelection"]["userVerification"] == "required"
    authenticator = Authenticator()
    made = await finish(browser, authenticator.create(options))
    assert (made.status, made.json["data"]["name"]) == (201, "Laptop")
    # Other sessions end.
    assert (await other("GET", "/api/account")).status == 401
    (stored,) = (await listed(browser))["passkeys"]
    assert (stored["id"], stored["last_used_on"]) == (encoded(authenticator.id), None)
    assert (await browser("GET", "/api/account/state")).json["data"]["passkeys"] is True
    assert (await options_of(browser, passkey=authenticator.get(await challenged(browser))))["excludeCredentials"] == [
        {"type": "public-key", "id": stored["id"]}
    ]

    fresh = PageClient(app, "198.51.100.3")
    answer = await sign_in(fresh, authenticator)
    assert (answer.status, answer.json["data"]["passkeys"]) == (200, 1)
    assert (await fresh("GET", "/api/account")).status == 200
    assert (await listed(fresh))["passkeys"][0]["last_used_on"] == "2026-11-18"
    removed = {**PROOF, "passkey": authenticator.get(await challenged(fresh))}
    assert (await fresh("DELETE", f"{PASSKEYS}/{stored['id']}", removed)).status == 204
    assert error(await sign_in(fresh, authenticator)) == (401, "wrong_passkey")
    assert (await browser("GET", "/api/account")).status == 401
    assert (await PageClient(app).log_in()).status == 200
    assert [line for line in lines(app) if line[0] != "sign_in"] == [
        ("passkey_added", "Laptop", "{}"),
        ("passkey_removed", "Laptop", "{}"),
    ]
    assert ("sign_in", "", '{"by": "passkey"}') in lines(app)


async def test_a_passkey_signs_in_beside_codes_of_an_app(app: App) -> None:
    """It counts as two factors, and stands for a code where factors are changed."""
    browser = await logged_in(app)
    begun = await browser("POST", f"{FACTOR}/begin", PROOF)
    totp = pyotp.TOTP(begun.json["data"]["secret"])
    confirmed = await browser("POST", f"{FACTOR}/confirm", {"code": totp.at(app.clock.wall_ms() // 1_000)})
    codes = confirmed.json["data"]["codes"]
    assert error(await browser("POST", f"{PASSKEYS}/begin", PROOF)) == (401, "second_factor_required")
    assert error(await browser("POST", f"{PASSKEYS}/begin", PROOF | {"code": "aaaaa-aaaaa"})) == (401, "wrong_code")
    wrong = PROOF | {"password": "another password", "code": codes[0]}
    assert error(await browser("POST", f"{PASSKEYS}/begin", wrong)) == (403, "wrong_password")
    authenticator = await added(browser, code=codes[0])
    assert (await sign_in(PageClient(app), authenticator)).status == 200
    # A password needs a code as before.
    assert error(await PageClient(app).log_in()) == (401, "second_factor_required")
    proof = PROOF | {"passkey": authenticator.get(await challenged(browser))}
    assert (await browser("DELETE", FACTOR, proof)).status == 204
    # The passkey is now the only factor; a password alone signs in as it did before both.
    assert (await PageClient(app).log_in()).status == 200


async def test_without_codes_a_change_needs_a_passkey(app: App) -> None:
    browser = await logged_in(app)
    authenticator = await added(browser)
    id = encoded(authenticator.id)
    for method, path in (("POST", f"{PASSKEYS}/begin"), ("DELETE", f"{PASSKEYS}/{id}"), ("POST", f"{FACTOR}/begin")):
        assert error(await browser(method, path, PROOF)) == (401, "passkey_required")
        assert error(await browser(method, path, PROOF | {"code": "123456"})) == (401, "passkey_required")
        used = authenticator.get(await challenged(browser))
        wrong = {"password": "another password", "passkey": used}
        assert error(await browser(method, path, wrong)) == (403, "wrong_password")
    app.clock.advance(1)
    second = await added(browser, "Phone", passkey=authenticator.get(await challenged(browser)))
    assert [one["name"] for one in (await listed(browser))["passkeys"]] == ["Laptop", "Phone"]
    # Codes of an app, beside it, with a passkey as the current factor.
    begun = await browser("POST", f"{FACTOR}/begin", PROOF | {"passkey": second.get(await challenged(browser))})
    assert begun.status == 200
    assert error(await browser("POST", f"{FACTOR}/codes", PROOF)) == (409, "no_second_factor")


async def test_a_passkey_satisfies_an_account_that_requires_a_second_factor(app: App) -> None:
    """A password alone does not sign in there: the passkey is what the account asks for."""
    browser = await logged_in(app)
    ann = await joined(app, browser, ANN)
    policy = {"requires_second_factor": True}
    assert error(await browser("PATCH", "/api/account", policy)) == (403, "second_factor_due")
    authenticator = await added(browser)
    assert (await browser("PATCH", "/api/account", policy)).status == 200
    assert error(await ann("GET", "/api/account")) == (403, "second_factor_due")
    assert (await browser("GET", "/api/account")).status == 200
    answer = await PageClient(app).log_in()
    assert error(answer) == (401, "passkey_required")
    assert error(await PageClient(app).log_in(password="not the password")) == (401, "wrong_credentials")
    fresh = PageClient(app)
    assert (await sign_in(fresh, authenticator)).status == 200
    # Without it, a factor is due again.
    proof = PROOF | {"passkey": authenticator.get(await challenged(fresh))}
    assert (await fresh("DELETE", f"{PASSKEYS}/{encoded(authenticator.id)}", proof)).status == 204
    assert error(await fresh("GET", "/api/account")) == (403, "second_factor_due")
    assert (await PageClient(app).log_in()).json["data"]["second_factor_due"] is True


# --- what is refused


@pytest.mark.parametrize(
    "changed",
    [
        {"client_data": {"origin": "https://stats.example.com.evil.example"}},
        {"client_data": {"origin": "http://stats.example.com"}},
        {"client_data": {"origin": "https://sub.stats.example.com"}},
        {"client_data": {"origin": "https://stats.example.com:8443"}},
        {"client_data": {"type": "webauthn.create"}},
        {"client_data": {"crossOrigin": True}},
        {"client_data": {"challenge": encoded(bytes(32))}},
        {"client_data": {"challenge": 5}},
        {"flags": PRESENT},
        {"flags": VERIFIED},
        {"rp_id": "example.com"},
        {"key": ec.derive_private_key(1, ec.SECP256R1())},
        {"handle": b""},
        {"handle": bytes(32)},
    ],
    # A key is shown by its place in memory, which differs between processes.
    ids=lambda changed: str(changed).partition(" object at ")[0],
)
async def test_an_invalid_use_is_refused(app: App, changed: dict[str, Any]) -> None:
    authenticator = await added(await logged_in(app))
    before, fresh = lines(app), PageClient(app)
    assert error(await sign_in(fresh, authenticator, **changed)) == (401, "wrong_passkey")
    assert (fresh.cookies, lines(app)) == ({}, before)
    assert (await sign_in(fresh, authenticator)).status == 200


@pytest.mark.parametrize(
    "changed",
    [
        {"client_data": {"origin": "https://evil.example"}},
        {"client_data": {"type": "webauthn.get"}},
        {"client_data": {"crossOrigin": True}},
        {"flags": PRESENT},
        {"flags": VERIFIED},
        {"rp_id": "example.com"},
        # Of another algorithm, and one that takes long to verify.
        {"public_key": {1: 2, 3: -47, -1: 8, -2: bytes(32), -3: bytes(32)}},
        {"public_key": RS256({1: 3, 3: -257, -1: bytes(2_000), -2: bytes(2_000)})},
    ],
    ids=lambda changed: str(changed)[:80],
)
async def test_an_invalid_registration_is_refused(app: App, changed: dict[str, Any]) -> None:
    browser = await logged_in(app)
    credential = Authenticator().create(await options_of(browser), **changed)
    assert error(await finish(browser, credential)) == (401, "wrong_passkey")
    assert (await listed(browser))["passkeys"] == []


async def test_a_challenge_is_used_once_and_expires(app: App) -> None:
    authenticator = await added(await logged_in(app))
    fresh = PageClient(app)
    options = await challenged(fresh)
    used = {"credential": authenticator.get(options)}
    assert (await fresh("POST", f"{LOGIN}/finish", used)).status == 200
    assert error(await fresh("POST", f"{LOGIN}/finish", used)) == (401, "wrong_passkey")
    again = {"credential": authenticator.get(options)}
    assert error(await fresh("POST", f"{LOGIN}/finish", again)) == (401, "wrong_passkey")
    for seconds, status in ((299, 200), (300, 401)):
        options = await challenged(fresh)
        app.clock.advance(seconds)
        late = {"credential": authenticator.get(options)}
        assert (await fresh("POST", f"{LOGIN}/finish", late)).status == status, seconds


async def test_at_once_a_challenge_is_used_once(app: App) -> None:
    authenticator = await added(await logged_in(app))
    browsers = [PageClient(app, f"203.0.113.{at}") for at in range(8)]
    used = {"credential": authenticator.get(await challenged(browsers[0]))}
    answers = await asyncio.gather(*(one("POST", f"{LOGIN}/finish", used) for one in browsers))
    assert sorted(answer.status for answer in answers) == [200] + [401] * 7


async def test_a_challenge_of_a_registration_is_for_its_session(app: App) -> None:
    """Neither another session of the person, nor one of another person, nor a sign-in takes it, and it is used up."""
    browser, same = await logged_in(app), PageClient(app, "198.51.100.5")
    await same.log_in()
    ann = await joined(app, browser, ANN)
    for other in (same, ann):
        credential = Authenticator().create(await options_of(browser))
        assert error(await finish(other, credential)) == (401, "wrong_passkey")
        assert error(await finish(browser, credential)) == (401, "wrong_passkey")
    of_sign_in = await options_of(browser) | {"challenge": (await challenged(browser))["challenge"]}
    assert error(await finish(browser, Authenticator().create(of_sign_in))) == (401, "wrong_passkey")
    authenticator = await added(browser)
    proof = {"passkey": authenticator.get(await challenged(browser))}
    of_registration = await challenged(browser) | {"challenge": (await options_of(browser, **proof))["challenge"]}
    used = {"credential": authenticator.get(of_registration)}
    assert error(await PageClient(app)("POST", f"{LOGIN}/finish", used)) == (401, "wrong_passkey")


async def test_a_passkey_of_another_person_proves_nothing(app: App) -> None:
    browser = await logged_in(app)
    ann = await joined(app, browser, ANN)
    own, hers = await added(browser), await added(ann, password=NEW_PASSWORD)
    proof = PROOF | {"passkey": hers.get(await challenged(browser))}
    assert error(await browser("POST", f"{PASSKEYS}/begin", proof)) == (401, "wrong_passkey")
    # Nor is a passkey removed by another person, or stored twice.
    mine = {"password": NEW_PASSWORD, "passkey": hers.get(await challenged(ann))}
    assert (await ann("DELETE", f"{PASSKEYS}/{encoded(own.id)}", mine)).status == 404
    again = own.create(await options_of(browser, passkey=own.get(await challenged(browser))))
    assert error(await finish(browser, again)) == (401, "wrong_passkey")
    assert len((await listed(browser))["passkeys"]) == 1


async def test_a_count_that_goes_back_is_refused_and_reported(app: App) -> None:
    browser = await logged_in(app)
    authenticator = await added(browser)
    for count, status in ((5, 200), (5, 401), (4, 401), (0, 401), (6, 200)):
        assert (await sign_in(PageClient(app), authenticator, count=count)).status == status, count
    assert len((await listed(browser))["refused"]) == 3
    assert [line[0] for line in lines(app)].count("passkey_refused") == 3
    # Where factors are changed, too.
    proof = PROOF | {"passkey": authenticator.get(await challenged(browser), count=6)}
    assert error(await browser("POST", f"{PASSKEYS}/begin", proof)) == (401, "wrong_passkey")
    assert len((await listed(browser))["refused"]) == 4


async def test_an_authenticator_that_does_not_count_signs_in(app: App) -> None:
    authenticator = await added(await logged_in(app), counts=False)
    for _ in range(3):
        assert (await sign_in(PageClient(app), authenticator)).status == 200


async def test_a_person_has_at_most_20(app: App) -> None:
    browser = await logged_in(app)
    first = await added(browser, "0", counts=False)
    begun = []
    for number in range(1, MAX_PASSKEYS):
        options = await options_of(browser, passkey=first.get(await challenged(browser)))
        begun.append(options)
        if number < MAX_PASSKEYS - 1:
            assert (await finish(browser, Authenticator().create(options), str(number))).status == 201
        app.clock.advance(1)
    # Two that have begun, of which one is too many.
    begun = [begun[-1], await options_of(browser, passkey=first.get(await challenged(browser)))]
    answers = await asyncio.gather(*(finish(browser, Authenticator().create(one)) for one in begun))
    assert sorted(answer.status for answer in answers) == [201, 409]
    proof = PROOF | {"passkey": first.get(await challenged(browser))}
    assert error(await browser("POST", f"{PASSKEYS}/begin", proof)) == (409, "too_many_passkeys")
    assert len((await listed(browser))["passkeys"]) == MAX_PASSKEYS


def test_1001_challenges_forget_the_oldest() -> None:
    challenges = Challenges()
    sent = [challenges.new(0) for _ in range(MAX_CHALLENGES + 1)]
    assert len({*sent}) == MAX_CHALLENGES + 1
    assert not challenges.take(sent[0], 0)
    assert all(challenges.take(one, CHALLENGE_LASTS_NS - 1) for one in sent[1:])
    assert not any(challenges.take(one, 0) for one in sent)


async def test_strangers_do_not_displace_the_challenges_of_sessions(app: App) -> None:
    browser = await logged_in(app)
    options = await options_of(browser)
    for number in range(MAX_CHALLENGES + 1):
        app.application[AUTH].challenges.new(number)
    assert (await finish(browser, Authenticator().create(options))).status == 201


async def test_an_address_gets_few_challenges_and_few_attempts(app: App) -> None:
    stranger, other = PageClient(app, "198.51.100.9"), PageClient(app, "198.51.100.10")
    answers = [await stranger("POST", f"{LOGIN}/begin", {}) for _ in range(CHALLENGES_A_MINUTE + 1)]
    assert [answer.status for answer in answers] == [200] * CHALLENGES_A_MINUTE + [429]
    assert (await other("POST", f"{LOGIN}/begin", {})).status == 200
    sent = {"credential": Authenticator().get(answers[0].json["data"])}
    failed = [await stranger("POST", f"{LOGIN}/finish", sent) for _ in range(TRIES_A_MINUTE + 1)]
    assert [answer.status for answer in failed] == [401] * TRIES_A_MINUTE + [429]


@pytest.mark.parametrize(
    ("credential", "status"),
    [
        (None, 401),
        (5, 401),
        ([], 401),
        ({}, 401),
        ({"id": "a", "response": 5}, 401),
        ({"id": "", "response": {}}, 401),
        ({"id": "A" * 20_000, "response": {}}, 401),
        (
            {
                "id": "AA",
                "response": {"clientDataJSON": "AA", "authenticatorData": "", "signature": "", "userHandle": ""},
            },
            401,
        ),
        (
            {
                "id": "AAAA",
                "response": dict.fromkeys(
                    ("clientDataJSON", "authenticatorData", "signature", "userHandle", "attestationObject"),
                    encoded(b"[" * 9_000),
                ),
            },
            401,
        ),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_a_malformed_credential_is_refused(app: App, credential: Any, status: int) -> None:
    browser = await logged_in(app)
    assert (await browser("POST", f"{LOGIN}/finish", {"credential": credential})).status == status
    assert (await finish(browser, credential)).status == status
    assert (await browser("POST", f"{PASSKEYS}/begin", PROOF | {"passkey": credential})).status in (200, status)


async def test_a_name_is_checked(app: App) -> None:
    browser = await logged_in(app)
    credential = Authenticator().create(await options_of(browser))
    for name in ("", " ", "a\nb", "a" * 101, 5, None):
        sent = {"name": name, "credential": credential}
        answer = await browser("POST", f"{PASSKEYS}/finish", sent)
        assert (answer.status, answer.json["error"]["field"]) == (400, "name")
    assert (await browser("DELETE", f"{PASSKEYS}/%21", PROOF)).status == 404


PARTY = RelyingParty("stats.example.com", ORIGIN)
CHALLENGE = secrets.token_bytes(32)
OPTIONS = webauthn.creation_options(PARTY, CHALLENGE, bytes(32), "a@example.com", [])
REGISTERED = Authenticator().create(OPTIONS)


@given(st.sampled_from(["clientDataJSON", "attestationObject"]), st.integers(0, 400), st.binary(max_size=8))
def test_changed_bytes_raise_nothing_else(name: str, at: int, instead: bytes) -> None:
    """Bytes of a registration that are changed are refused or mean a registration, and no other exception is raised."""
    value = webauthn.decoded(REGISTERED["response"][name])
    changed = value[: at % len(value)] + instead + value[at % len(value) + len(instead) :]
    sent = json.loads(json.dumps(REGISTERED))
    sent["response"][name] = encoded(changed)
    try:
        made = webauthn.registered(PARTY, webauthn.read(sent, "clientDataJSON", "attestationObject"))
    except BadPasskey:
        return
    assert len(made.public_key) <= webauthn.MAX_KEY_BYTES


# --- where there are none


@pytest.mark.parametrize(
    ("base_url", "party"),
    [
        ("https://stats.example.com", RelyingParty("stats.example.com", "https://stats.example.com")),
        ("https://Stats.example.com:443/tally/", RelyingParty("stats.example.com", "https://stats.example.com")),
        ("https://stats.example.com:8443", RelyingParty("stats.example.com", "https://stats.example.com:8443")),
        ("http://localhost:8000", RelyingParty("localhost", "http://localhost:8000")),
        ("http://localhost:80", RelyingParty("localhost", "http://localhost")),
        ("http://tally.localhost", RelyingParty("tally.localhost", "http://tally.localhost")),
        ("http://stats.example.com", None),
        ("https://192.0.2.1", None),
        ("https://[2001:db8::1]", None),
        ("http://127.0.0.1:8000", None),
        ("", None),
    ],
)
def test_the_base_url_decides(base_url: str, party: RelyingParty | None) -> None:
    assert relying_party(base_url) == party
    assert unavailable(base_url) == ("" if party else "base_url")


async def test_without_the_extra_or_a_base_url_there_are_none(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = await make_app()
    browser = await logged_in(app)
    assert (await listed(browser))["unavailable"] == "base_url"
    assert error(await browser("POST", f"{PASSKEYS}/begin", PROOF)) == (409, "no_passkeys")
    assert error(await browser("POST", f"{LOGIN}/begin", {})) == (409, "no_passkeys")
    assert error(await browser("POST", f"{LOGIN}/finish", {"credential": {}})) == (409, "no_passkeys")
    assert (await browser("GET", "/api/account/state")).json["data"]["passkeys"] is False
    monkeypatch.setattr(webauthn.importlib.util, "find_spec", lambda name: None)
    assert unavailable(ORIGIN) == "extra"


async def test_the_command_removes_passkeys(app: App, command: Command) -> None:
    browser = await logged_in(app)
    await added(browser)
    for status, printed in ((0, "removed 1 passkey of"), (1, "has no passkey")):
        done = command("person", "passkeys", "owner@example.com", "--off", "--db", str(app.db))
        assert done.returncode == status
        assert printed in done.stderr
    await app.registry.refresh()
    assert (await browser("GET", "/api/account")).status == 401
    assert app.sql("select action, via from audit order by number desc limit 1") == [("passkeys_removed", "cli")]


async def test_a_deleted_person_leaves_no_passkey(app: App) -> None:
    browser = await logged_in(app)
    ann = await joined(app, browser, ANN)
    number = app.sql("select number from person where email = ?", ANN)[0][0]
    await app.admin(
        lambda connection: connection.execute(
            "insert into passkey (id, person, public_key, sign_count, name, created_ms)"
            " values (x'01', ?, x'', 0, '', 0)",
            (number,),
        )
    )
    assert len((await listed(ann))["passkeys"]) == 1
    assert (await browser("DELETE", f"/api/account/people/{number}")).status == 204
    assert app.sql("select count(*) from passkey") == [(0,)]
