"""Sign-in by an OpenID provider that answers and signs what no honest one does, and settings that do not fit together.

The whole flow with a certified provider is in tests/api/test_oidc_provider.py.
"""

import asyncio
import importlib.util
import time
from base64 import b64encode
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote_plus, urlencode, urlsplit

import pytest
from aiohttp import web
from joserfc.jwk import ECKey, OKPKey

from tally.api.oidc import LASTS_MS, oidc
from tally.clock import Clock
from tally.oidc.provider import MAX_BYTES
from tally.settings import BadSetting, settings_from
from tests.api.test_oidc_provider import BASE, actions, seen
from tests.api.test_people import ANN, INVITATION, error, invite, joined
from tests.api.test_second_factor import set_up
from tests.support.app import OWNER, Answer, App, MakeApp, ManualClock
from tests.support.cases import cases
from tests.support.openid import CALLBACK, CLIENT, SECRET, Signer, come_back, new_key, problem_of
from tests.support.page_client import PASSWORD, PageClient, logged_in

# The cases of a table share an application and the provider: each sets its claims anew.
SOUND = {"sub": "ann-8", "email": ANN, "email_verified": True}


@pytest.fixture
async def signer(clock: ManualClock) -> AsyncIterator[Signer]:
    clock.begin_at(int(time.time() * 1000))
    async with Signer() as running:
        running.clock_ms = clock.wall_ms
        running.claims = dict(SOUND)
        yield running


@pytest.fixture
def settings(signer: Signer, tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "secret").write_text(SECRET)
    return {
        "base_url": BASE,
        "oidc_issuer": signer.url,
        "oidc_client_id": CLIENT,
        "oidc_client_secret_file": tmp_path / "secret",
    }


async def signed_in(browser: PageClient, signer: Signer, **more: str) -> Answer:
    """Begin, and come back with what the provider sends; return the response to that."""
    begun = await browser("GET", "/sign-in/oidc")
    assert problem_of(begun) is None
    return await come_back(browser, f"{CALLBACK}?{urlencode(signer.lead_back(begun.headers['Location'], **more))}")


async def invited(app: App) -> PageClient:
    """Return the browser of the owner, who has invited Ann."""
    owner = await logged_in(app)
    await invite(owner)
    return owner


# --- tokens


async def test_a_sound_token_signs_in(make_app: MakeApp, settings: Any, signer: Signer) -> None:
    """Both parts of the client's credentials are encoded before they are joined (RFC 6749, 2.3.1)."""
    app = await make_app(**settings)
    await invited(app)
    ann = PageClient(app)
    assert problem_of(await signed_in(ann, signer)) is None
    assert await seen(ann) == ANN
    expected = b64encode(f"{quote_plus(CLIENT)}:{quote_plus(SECRET)}".encode()).decode()
    assert signer.credentials == [f"Basic {expected}"]
    ((form,), (identity,)) = signer.sent, app.sql("select subject from identity")
    assert (identity, form["redirect_uri"], "client_secret" in form) == (("ann-8",), BASE + CALLBACK, False)


@cases(
    "claims",
    [
        {"iss": "https://evil.example"},
        {"iss": None},
        {"aud": "another client"},
        {"aud": [CLIENT, "another client"]},
        {"aud": [CLIENT], "azp": "another client"},
        {"aud": None},
        {"nonce": "of another sign-in"},
        {"nonce": None},
        {"nonce": 5},
        {"exp": 1},
        {"exp": None},
        {"exp": "9999999999"},
        {"exp": True},
        {"iat": 9_999_999_999},
        {"iat": None},
        {"sub": ""},
        {"sub": None},
        {"sub": 7},
        {"sub": "a" * 256},
        {"sub": "a\x00b"},
    ],
)
async def test_tokens_that_are_refused(make_app: MakeApp, settings: Any, signer: Signer, claims: Any) -> None:
    app = await make_app(**settings)
    await invited(app)
    signer.claims = SOUND | claims
    ann = PageClient(app)
    assert problem_of(await signed_in(ann, signer)) == "token"
    assert await seen(ann) == (401, "not_logged_in")
    assert app.sql("select count(*) from identity") == [(0,)]
    await app.close()
    app.db.unlink()


async def test_signatures_that_are_refused(
    make_app: MakeApp, settings: Any, signer: Signer, caplog: pytest.LogCaptureFixture
) -> None:
    app = await make_app(**settings)
    await invited(app)
    sound, stranger = signer.key, new_key("first")

    def unsigned() -> str:
        head, body, _ = signer.token_of_sign_in().split(".")
        return f"{head}.{body}."

    def none() -> str:
        return signer.token_of_sign_in({"alg": "none"})

    def by_public_key() -> str:
        return signer.token_of_sign_in({"alg": "HS256"}, sound.as_pem(private=False))

    def by_secret() -> str:
        return signer.token_of_sign_in({"alg": "HS256"}, SECRET.encode())

    def by_stranger() -> str:
        return signer.token_of_sign_in({}, stranger)

    def by_own_header() -> str:
        return signer.token_of_sign_in({"jwk": stranger.as_dict(private=False)}, stranger)

    def not_offered() -> str:
        return signer.token_of_sign_in({"alg": "RS512"})

    def critical() -> str:
        return signer.token_of_sign_in({"crit": ["x"], "x": 1})

    def no_object() -> str:
        return signer.sign([1])

    forms = [unsigned, none, by_public_key, by_secret, by_stranger, by_own_header, not_offered, critical, no_object]
    for form in (*forms, lambda: "a.b.c", lambda: "", lambda: "a.b.c.d.e", lambda: "\ud800"):
        signer.make_token = form
        ann = PageClient(app)
        assert problem_of(await signed_in(ann, signer)) in ("token", "provider"), form
        assert await seen(ann) == (401, "not_logged_in")
        assert not any(signer.last_token in str(one.__dict__) for one in caplog.records if signer.last_token)
    assert app.sql("select count(*) from identity") == [(0,)]
    signer.make_token = None
    assert problem_of(await signed_in(PageClient(app), signer)) is None


@cases(
    ("algorithm", "key"),
    [
        ("ES256", ECKey.generate_key("P-256", {"kid": "curve"})),
        ("Ed25519", OKPKey.generate_key("Ed25519", {"kid": "edwards"})),
        ("EdDSA", OKPKey.generate_key("Ed25519", {"kid": "edwards"})),
    ],
)
async def test_other_algorithms(
    make_app: MakeApp, settings: Any, signer: Signer, algorithm: str, key: Any, tmp_path: Path
) -> None:
    app = await make_app(**settings, db=tmp_path / f"{algorithm}.db")
    await invited(app)
    signer.algorithm, signer.key, signer.published = algorithm, key, [new_key("other"), key]
    signer.header = {"typ": "JWT", "x5t": "of a vendor", "org.example": 1}
    assert problem_of(await signed_in(PageClient(app), signer)) is None


# --- the way back


async def test_the_state_is_that_of_the_browser(make_app: MakeApp, settings: Any, signer: Signer) -> None:
    """Nobody is signed in by the address of another person's sign-in."""
    app = await make_app(**settings)
    await invited(app)
    ann, mallory = PageClient(app), PageClient(app, "198.51.100.66")
    location = (await mallory("GET", "/sign-in/oidc")).headers["Location"]
    back = f"{CALLBACK}?{urlencode(signer.lead_back(location))}"
    assert problem_of(await come_back(ann, back)) == "expired"
    await ann("GET", "/sign-in/oidc")
    assert problem_of(await come_back(ann, back)) == "expired"
    for state in ("", "x", "\ud800".encode("utf-8", "replace").decode()):
        assert problem_of(await come_back(ann, f"{CALLBACK}?{urlencode({'code': 'c', 'state': state})}")) == "expired"
    assert problem_of(await come_back(ann, back + "&state=x")) == "token"
    assert signer.sent == []
    # A mismatch leaves the sign-in that this browser has begun.
    assert ann.cookies.keys() == {"__Host-tally-oidc"}
    assert await seen(ann) == (401, "not_logged_in")


async def test_a_cookie_that_is_not_ours_or_too_old(make_app: MakeApp, settings: Any, signer: Signer) -> None:
    app = await make_app(**settings)
    await invited(app)
    for change in (
        lambda value: "",
        lambda value: "e30." + value.partition(".")[2],
        lambda value: value[1:],
        lambda value: value.partition(".")[0],
        lambda value: value + "0",
        lambda value: "é" + value,
    ):
        ann = PageClient(app)
        location = (await ann("GET", "/sign-in/oidc")).headers["Location"]
        ann.cookies["__Host-tally-oidc"] = change(ann.cookies["__Host-tally-oidc"])
        back = f"{CALLBACK}?{urlencode(signer.lead_back(location))}"
        assert problem_of(await come_back(ann, back)) == "expired"
    ann = PageClient(app)
    location = (await ann("GET", "/sign-in/oidc")).headers["Location"]
    (cookie,) = ann.set_cookies
    assert cookie.endswith("; Path=/; Max-Age=600; HttpOnly; SameSite=Lax; Secure")
    app.clock.advance(LASTS_MS / 1000 + 1)
    back = f"{CALLBACK}?{urlencode(signer.lead_back(location))}"
    assert problem_of(await come_back(ann, back)) == "expired"
    # A restart loses none.
    location = (await ann("GET", "/sign-in/oidc")).headers["Location"]
    await app.restart()
    back = f"{CALLBACK}?{urlencode(signer.lead_back(location))}"
    assert problem_of(await come_back(ann, back)) is None


async def test_a_session_of_before_is_not_kept(make_app: MakeApp, settings: Any, signer: Signer) -> None:
    """A session that was planted in the browser does not become the person's."""
    app = await make_app(**settings)
    owner = await invited(app)
    planted = dict(owner.cookies)
    ann = PageClient(app)
    ann.cookies = dict(planted)
    assert problem_of(await signed_in(ann, signer)) is None
    assert ann.cookies["__Host-tally"] != planted["__Host-tally"]
    assert await seen(ann) == ANN
    owner.cookies = planted
    assert await seen(owner) == (401, "not_logged_in")


@cases(
    ("next", "leads_to"),
    [
        ("/websites/1?period=7d&a=b", "/websites/1?period=7d&a=b"),
        ("//evil.example", "/"),
        ("/\\evil.example", "/"),
        ("/a\\..\\evil", "/"),
        ("https://evil.example/", "/"),
        ("javascript:alert(1)", "/"),
        ("/%0d%0aSet-Cookie:x=y", "/%0d%0aSet-Cookie:x=y"),
        ("/a\r\nSet-Cookie: x=y", "/"),
        ("/\t/evil.example", "/"),
        ("/" + "a" * 1_001, "/"),
        ("", "/"),
    ],
)
async def test_where_it_leads(make_app: MakeApp, settings: Any, signer: Signer, next: str, leads_to: str) -> None:
    """To a path of this server alone."""
    app = await make_app(**settings, oidc_create="viewer")
    await app.website()
    ann = PageClient(app)
    begun = await ann("GET", f"/sign-in/oidc?{urlencode({'next': next})}")
    answer = await come_back(ann, f"{CALLBACK}?{urlencode(signer.lead_back(begun.headers['Location']))}")
    assert answer.headers["Location"] == leads_to
    await app.close()


async def test_another_provider_answers(make_app: MakeApp, settings: Any, signer: Signer) -> None:
    """RFC 9207: a code of another provider is not sent to this one."""
    app = await make_app(**settings)
    await invited(app)
    assert problem_of(await signed_in(PageClient(app), signer, iss="https://evil.example")) == "token"
    assert problem_of(await signed_in(PageClient(app), signer, iss=signer.url)) is None
    sent = len(signer.sent)
    app.clock.advance(3_601)
    signer.metadata["authorization_response_iss_parameter_supported"] = True
    assert problem_of(await signed_in(PageClient(app), signer)) == "token"
    assert len(signer.sent) == sent
    assert problem_of(await signed_in(PageClient(app), signer, iss=signer.url)) is None


async def test_the_provider_refuses(make_app: MakeApp, settings: Any, signer: Signer) -> None:
    app = await make_app(**settings)
    ann = PageClient(app)
    location = (await ann("GET", "/sign-in/oidc?next=/account")).headers["Location"]
    state = parse_qs(urlsplit(location).query)["state"][0]
    refusal = {"error": "access_denied", "error_description": "<script>alert(1)</script>", "state": state}
    answer = await come_back(ann, f"{CALLBACK}?{urlencode(refusal)}")
    assert answer.headers["Location"] == "/login?problem=refused&next=%2Faccount"


# --- what the provider answers


@cases(
    ("path", "response"),
    [
        ("/.well-known/openid-configuration", web.Response(status=404)),
        ("/.well-known/openid-configuration", web.Response(text="<html>")),
        ("/.well-known/openid-configuration", web.Response(text="[]")),
        ("/.well-known/openid-configuration", web.Response(status=302, headers={"Location": "/other"})),
        ("/.well-known/openid-configuration", web.Response(body=b" " * (MAX_BYTES + 1))),
        ("/jwks", web.Response(text="{}")),
        ("/jwks", web.Response(status=500)),
    ],
)
async def test_metadata_that_is_refused(
    make_app: MakeApp, settings: Any, signer: Signer, path: str, response: web.Response
) -> None:
    app = await make_app(**settings)
    signer.answers = {path: response}
    answer = await PageClient(app)("GET", "/sign-in/oidc?next=/account")
    assert answer.headers["Location"] == "/login?problem=provider"
    assert "/other" not in signer.requests
    await app.close()


@cases(
    "metadata",
    [
        {"issuer": "https://evil.example"},
        {"issuer": None},
        {"token_endpoint": "http://evil.example/token"},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"jwks_uri": None},
        {"userinfo_endpoint": "file:///etc/passwd"},
        {"end_session_endpoint": 5},
        {"id_token_signing_alg_values_supported": "RS256"},
    ],
)
async def test_endpoints_that_are_refused(make_app: MakeApp, settings: Any, signer: Signer, metadata: Any) -> None:
    app = await make_app(**settings)
    signer.metadata = metadata
    assert problem_of(await PageClient(app)("GET", "/sign-in/oidc")) == "provider"
    await app.close()


@cases(
    "response",
    [
        web.Response(status=500),
        web.Response(text="{}"),
        web.Response(text='{"id_token": 5}'),
        web.Response(text="{"),
        web.Response(status=302, headers={"Location": "/jwks"}),
        web.Response(body=b"[" * 100_000),
        web.Response(body=b" " * (MAX_BYTES + 1)),
        web.Response(status=400, text='{"error": "invalid_client", "error_description": "secret"}'),
    ],
)
async def test_answers_to_the_code_that_are_refused(
    make_app: MakeApp, settings: Any, signer: Signer, response: web.Response
) -> None:
    app = await make_app(**settings)
    signer.answers["/token"] = response
    assert problem_of(await signed_in(PageClient(app), signer)) == "provider"
    await app.close()


@cases("slash", [("", "/"), ("/", ""), ("/", "/"), ("", "")])
async def test_a_slash_at_the_end_of_the_issuer(
    make_app: MakeApp, settings: Any, clock: ManualClock, slash: tuple[str, str]
) -> None:
    """Providers differ in it, and people leave it away; the token's is that of the metadata."""
    configured, discovered = slash
    async with Signer() as signer:
        signer.clock_ms, signer.url = clock.wall_ms, signer.url + discovered
        signer.claims = dict(SOUND)
        issuer = signer.url.rstrip("/") + configured
        app = await make_app(**settings | {"oidc_issuer": issuer, "oidc_create": "viewer"})
        await app.website()
        assert problem_of(await signed_in(PageClient(app), signer)) is None
        assert signer.requests[0] == "/.well-known/openid-configuration"
        await app.close()


async def test_a_client_without_a_secret_and_a_secret_in_the_form(
    make_app: MakeApp, settings: Any, signer: Signer, tmp_path: Path
) -> None:
    methods = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    for more, metadata, secret in (({"oidc_client_secret_file": None}, {}, None), ({}, methods, SECRET)):
        signer.metadata = metadata
        app = await make_app(**settings | more, oidc_create="viewer", db=tmp_path / f"{secret is None}.db")
        await app.website()
        assert problem_of(await signed_in(PageClient(app), signer)) is None
        assert (signer.credentials[-1], signer.sent[-1].get("client_secret")) == (None, secret)
        assert signer.sent[-1]["client_id"] == CLIENT


# --- claims


async def test_claims_of_userinfo(make_app: MakeApp, settings: Any, signer: Signer) -> None:
    app = await make_app(**settings, oidc_role=("staff=editor",))
    owner = await invited(app)
    signer.claims = {"sub": "ann-8"}
    signer.userinfo = {"sub": "mallory-9", "email": ANN, "email_verified": True, "groups": ["staff"]}
    assert problem_of(await signed_in(PageClient(app), signer)) == "token"
    signer.userinfo["sub"] = "ann-8"
    assert problem_of(await signed_in(PageClient(app), signer)) is None
    assert [one["role"] for one in (await owner("GET", "/api/account/people")).json["data"]] == ["owner", "editor"]


@cases(
    ("groups", "role"),
    [
        (["viewers", "staff"], "editor"),
        ("staff", "editor"),
        ({"staff": {"1": "org.example"}}, "editor"),
        ([{"name": "staff"}, 5, "viewers"], "viewer"),
        (["cn=a=b"], "admin"),
        (["Staff", " staff"], None),
        ([], None),
        (5, None),
        (None, None),
    ],
)
async def test_forms_of_groups(make_app: MakeApp, settings: Any, signer: Signer, groups: Any, role: Any) -> None:
    """A list, a text, or an object whose keys are the groups."""
    app = await make_app(**settings, oidc_role=("staff=editor", "viewers=viewer", "cn=a=b=admin"))
    await invited(app)
    signer.claims["groups"], signer.userinfo = groups, {"sub": "ann-8"}
    ann = PageClient(app)
    assert problem_of(await signed_in(ann, signer)) == (None if role else "no_group")
    if role:
        assert (await ann("GET", "/api/account")).json["data"]["role"] == role
    await app.close()
    app.db.unlink()


@cases(
    ("claims", "problem"),
    [
        ({"email_verified": None}, "unverified"),
        ({"email_verified": False}, "unverified"),
        ({"email_verified": "false"}, "unverified"),
        ({"email_verified": 1}, "unverified"),
        ({"email_verified": "true"}, None),
        ({"email": None}, "no_email"),
        ({"email": "ann"}, "no_email"),
        ({"email": [ANN]}, "no_email"),
        ({"email": f"{ANN}\u200b"}, "no_email"),
        ({"email": "nobody@example.com"}, "not_invited"),
    ],
)
async def test_addresses(make_app: MakeApp, settings: Any, signer: Signer, claims: Any, problem: Any) -> None:
    app = await make_app(**settings)
    await invited(app)
    signer.claims, signer.userinfo = SOUND | claims, {"sub": "ann-8"}
    assert problem_of(await signed_in(PageClient(app), signer)) == problem
    await app.close()
    app.db.unlink()


# --- who is it


async def test_an_address_takes_over_nobody(make_app: MakeApp, settings: Any, signer: Signer) -> None:
    """Neither a person with a password nor one who is connected."""
    app = await make_app(**settings, oidc_trust_email="yes", oidc_create="admin")
    owner = await logged_in(app)
    await joined(app, owner)
    mallory = PageClient(app, "198.51.100.66")
    for email in (ANN, OWNER.upper()):
        signer.claims = {"sub": "mallory-9", "email": email, "email_verified": True}
        assert problem_of(await signed_in(mallory, signer)) == "password"
    assert await seen(mallory) == (401, "not_logged_in")
    # The cookie that waits for the password is of no use elsewhere.
    assert problem_of(await come_back(mallory, f"{CALLBACK}?code=c&state=")) == "expired"
    sent = {"email": ANN, "password": "a password of Ann", "connect": True}
    assert error(await mallory("POST", "/api/account/login", sent)) == (403, "other_person")
    await app.admin(lambda connection: connection.execute("update person set password_hash = null where number = 2"))
    passkey = "insert into passkey values (x'01', 2, x'00', 0, 'Laptop', 0, null)"
    await app.admin(lambda connection: connection.execute(passkey))
    signer.claims["email"] = ANN
    assert problem_of(await signed_in(mallory, signer)) == "has_person"
    await app.admin(lambda connection: connection.execute("delete from passkey"))
    signer.claims["email"] = ANN
    assert problem_of(await signed_in(PageClient(app), signer)) is None
    signer.claims["sub"] = "another-10"
    assert problem_of(await signed_in(mallory, signer)) == "has_person"


async def test_the_second_factor_is_asked_for_with_the_password(
    make_app: MakeApp, settings: Any, signer: Signer
) -> None:
    """Connecting waits for both, and is refused where the identity has become another person's meanwhile."""
    app = await make_app(**settings)
    factor = await set_up(app)
    signer.claims |= {"email": OWNER}
    browser, other = PageClient(app, "198.51.100.7"), PageClient(app, "198.51.100.8")
    for one in (browser, other):
        assert problem_of(await signed_in(one, signer)) == "password"
    sent = {"email": OWNER, "password": PASSWORD, "connect": True}
    assert error(await browser("POST", "/api/account/login", sent)) == (401, "second_factor_required")
    assert app.sql("select count(*) from identity") == [(0,)]
    code = {"code": factor.codes[0]}
    assert (await browser("POST", "/api/account/login", sent | code)).status == 200
    assert app.sql("select person from identity") == [(1,)]
    await app.admin(lambda connection: connection.execute("update identity set subject = 'another'"))
    code = {"code": factor.codes[1]}
    assert error(await other("POST", "/api/account/login", sent | code)) == (409, "nothing_to_connect")
    assert await seen(other) == (401, "not_logged_in")


async def test_a_password_is_not_asked_for_where_there_are_none(
    make_app: MakeApp, settings: Any, signer: Signer
) -> None:
    app = await make_app(**settings, password_login="no")
    await logged_in(await make_app(db=app.db))
    await app.registry.refresh()
    signer.claims = {"sub": "owner-7", "email": OWNER, "email_verified": True}
    assert problem_of(await signed_in(PageClient(app), signer)) == "has_person"
    state = (await PageClient(app)("GET", "/api/account/state")).json["data"]
    assert (state["password_login"], state["needs_setup"], state["single_sign_on"]) == (False, False, {"name": ""})


async def test_connecting_is_of_the_session_that_began_it(make_app: MakeApp, settings: Any, signer: Signer) -> None:
    app = await make_app(**settings)
    owner = await logged_in(app)
    ann = await joined(app, owner)
    location = (await owner("POST", "/api/account/oidc", {})).json["data"]["location"]
    back = f"{CALLBACK}?{urlencode(signer.lead_back(location))}"
    # Another session in the same browser: of another person, and none.
    began = dict(owner.cookies)
    owner.cookies = began | {"__Host-tally": ann.cookies["__Host-tally"]}
    answer = await come_back(owner, back)
    assert answer.headers["Location"].startswith("/account/sign-in?problem=expired")
    owner.cookies = {"__Host-tally-oidc": began["__Host-tally-oidc"]}
    assert problem_of(await come_back(owner, back)) == "expired"
    assert app.sql("select count(*) from identity") == [(0,)]
    owner.cookies = began
    assert problem_of(await come_back(owner, back)) is None
    # An identity has one person, and a person one identity of a provider.
    location = (await ann("POST", "/api/account/oidc", {})).json["data"]["location"]
    assert problem_of(await come_back(ann, f"{CALLBACK}?{urlencode(signer.lead_back(location))}")) == "taken"
    signer.claims["sub"] = "another-10"
    location = (await owner("POST", "/api/account/oidc", {})).json["data"]["location"]
    assert problem_of(await come_back(owner, f"{CALLBACK}?{urlencode(signer.lead_back(location))}")) == "taken"
    assert app.sql("select subject, person from identity") == [("ann-8", 1)]


async def test_invitations_by_their_link(make_app: MakeApp, settings: Any, signer: Signer) -> None:
    app = await make_app(**settings)
    owner = await logged_in(app)
    token = await invite(owner, "bob@example.com", "editor")

    async def by_link(browser: PageClient, token: str) -> str | None:
        begun = await browser("POST", f"{INVITATION}/oidc", {}, {"Invitation-Token": token})
        assert begun.status == 200, begun.text
        location = begun.json["data"]["location"]
        return problem_of(await come_back(browser, f"{CALLBACK}?{urlencode(signer.lead_back(location))}"))

    assert error(await owner("POST", f"{INVITATION}/oidc", {}, {"Invitation-Token": "x"})) == (
        404,
        "unknown_invitation",
    )
    bob = PageClient(app)
    assert await by_link(bob, token) is None
    assert await seen(bob) == "bob@example.com"
    # The identity is Bob's by now.
    token = await invite(owner, "carol@example.com")
    assert await by_link(PageClient(app), token) == "other_person"
    # A person is not taken over by a link of another account.
    await joined(app, owner)
    other = await logged_in(app, "other@example.com", ip="198.51.100.9")
    token = await invite(other)
    signer.claims["sub"] = "stranger-11"
    assert await by_link(PageClient(app), token) == "has_person"
    # Revoked meanwhile.
    token = await invite(other, "dave@example.com")
    dave = PageClient(app)
    begun = await dave("POST", f"{INVITATION}/oidc", {}, {"Invitation-Token": token})
    await app.admin(lambda connection: connection.execute("delete from invitation"))
    back = signer.lead_back(begun.json["data"]["location"])
    assert problem_of(await come_back(dave, f"{CALLBACK}?{urlencode(back)}")) == "invitation"
    assert [line for line in actions(app) if line[2] == "bob@example.com"] == [
        ("oidc", "person_joined", "bob@example.com"),
        ("oidc", "single_sign_on_connected", "bob@example.com"),
        ("oidc", "sign_in", "bob@example.com"),
    ]


async def test_owners_keep_their_role(make_app: MakeApp, settings: Any, signer: Signer) -> None:
    app = await make_app(**settings, oidc_role=("staff=viewer",))
    owner = await logged_in(app)
    for groups in (["staff"], []):
        signer.claims["groups"] = groups
        location = (await owner("POST", "/api/account/oidc", {})).json["data"]["location"]
        assert problem_of(await come_back(owner, f"{CALLBACK}?{urlencode(signer.lead_back(location))}")) is None
        assert problem_of(await signed_in(PageClient(app), signer)) is None
    assert app.sql("select role from membership") == [("owner",)]


async def test_the_provider_asks_for_the_second_factor(make_app: MakeApp, settings: Any, signer: Signer) -> None:
    app = await make_app(**settings)
    owner, website = await invited(app), await app.website()
    ann = PageClient(app)
    assert problem_of(await signed_in(ann, signer)) is None
    await app.admin(lambda connection: connection.execute("update account set requires_second_factor = 1"))
    assert error(await owner("GET", "/api/account")) == (403, "second_factor_due")
    assert await seen(ann) == ANN
    assert (await ann("GET", f"/api/account/websites/{website}")).status == 200


async def test_a_removed_person_is_not_known_any_more(make_app: MakeApp, settings: Any, signer: Signer) -> None:
    app = await make_app(**settings)
    owner = await invited(app)
    ann = PageClient(app)
    assert problem_of(await signed_in(ann, signer)) is None
    (_, member) = (await owner("GET", "/api/account/people")).json["data"]
    assert (await owner("DELETE", f"/api/account/people/{member['id']}")).status == 204
    assert await seen(ann) == (401, "not_logged_in")
    assert problem_of(await signed_in(ann, signer)) == "not_invited"
    assert app.sql("select count(*) from identity") == [(0,)]


async def test_several_at_once(make_app: MakeApp, settings: Any, signer: Signer) -> None:
    """Two ways back of a new person at the same time make one person."""
    app = await make_app(**settings, oidc_create="viewer")
    await app.website()
    browsers = [PageClient(app, f"198.51.100.{number}") for number in range(6)]
    answers = await asyncio.gather(*(signed_in(browser, signer) for browser in browsers))
    assert [problem_of(answer) for answer in answers] == [None] * 6
    assert app.sql("select count(*) from person") == [(2,)]
    assert signer.requests.count("/jwks") == 1


async def test_requests_are_limited(make_app: MakeApp, settings: Any, signer: Signer) -> None:
    app = await make_app(**settings, key_per_minute=3)
    answers = [problem_of(await PageClient(app)("GET", "/sign-in/oidc")) for _ in range(5)]
    assert answers == [None] * 3 + ["busy"] * 2


async def test_the_session_ends_elsewhere_too(make_app: MakeApp, settings: Any, signer: Signer) -> None:
    app = await make_app(**settings)
    await invited(app)
    ann = PageClient(app)
    assert problem_of(await signed_in(ann, signer)) is None
    assert (await ann("GET", "/sign-in/oidc/logout")).headers["Location"] == "/login"
    assert (await ann("POST", "/api/account/logout-everywhere")).status == 204
    assert await seen(ann) == (401, "not_logged_in")


# --- settings

FITTING = {"oidc_issuer": ["https://id.example.com"], "oidc_client_id": ["tally"], "base_url": [BASE]}


@cases(
    ("options", "words"),
    [
        ({"oidc_client_id": ["tally"]}, "--oidc-client-id needs --oidc-issuer"),
        ({"oidc_create": ["viewer"]}, "--oidc-create needs --oidc-issuer"),
        ({"oidc_role": ["a=viewer"]}, "--oidc-role needs --oidc-issuer"),
        ({"oidc_trust_email": ["yes"]}, "--oidc-trust-email needs --oidc-issuer"),
        (FITTING | {"oidc_client_id": []}, "--oidc-issuer needs --oidc-client-id"),
        (FITTING | {"base_url": []}, "--oidc-issuer needs --base-url"),
        (FITTING | {"oidc_scopes": ["email"]}, "must contain openid"),
        (FITTING | {"oidc_client_secret_file": ["/nowhere"]}, "cannot be read"),
        (FITTING | {"oidc_client_secret_file": ["/dev/null"]}, "must hold the secret on one line"),
        (FITTING | {"oidc_issuer": ["http://id.example.com"]}, "must be a URL such as https"),
        (FITTING | {"oidc_issuer": ["https://id.example.com/?a"]}, "must be a URL such as https"),
        (FITTING | {"oidc_issuer": ["https://user@id.example.com"]}, "must be a URL such as https"),
        (FITTING | {"oidc_issuer": ["https://login.microsoftonline.com/common/v2.0"]}, "must name one tenant"),
        (FITTING | {"oidc_role": ["staff"]}, "must be GROUP=ROLE"),
        (FITTING | {"oidc_role": ["staff=owner"]}, "must be GROUP=ROLE"),
        (FITTING | {"oidc_create": ["owner"]}, "must be one of none, viewer, editor, admin"),
        (FITTING | {"oidc_session_hours": ["0"]}, "between 1 and 8760"),
    ],
)
def test_settings_that_do_not_fit_together(options: dict[str, list[str]], words: str) -> None:
    with pytest.raises(BadSetting, match=words):
        oidc(settings_from(options, {}), Clock())


def test_settings_that_fit_together() -> None:
    assert oidc(settings_from({}, {}), Clock()) is None
    for issuer in ("http://127.0.0.1:5556/dex", "http://[::1]:1", "https://id.example.com/realms/common/"):
        assert oidc(settings_from(FITTING | {"oidc_issuer": [issuer]}, {}), Clock()) is not None


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """The start fails, and names the command of pip."""
    find = importlib.util.find_spec
    monkeypatch.setattr("tally.api.oidc.find_spec", lambda name: None if name == "joserfc" else find(name))
    with pytest.raises(BadSetting, match=r"pip install 'tally-analytics-server\[oidc\]'"):
        oidc(settings_from(FITTING, {}), Clock())
