"""People of an account: invitations, roles, leaving, and links to sign in."""

import asyncio
import json
import re
import sqlite3
from typing import Any

from tally.accounts import people
from tally.accounts.accounts import create_person, find_person
from tally.accounts.people import INVITATION_LASTS_MS, MAX_INVITATIONS, MAX_PEOPLE, SIGN_IN_LINK_LASTS_MS
from tests.support.app import OWNER, Answer, App, MakeApp
from tests.support.cases import cases
from tests.support.page_client import PageClient, logged_in

ANN = "ann@example.com"
INVITATION = "/api/account/invitation"
NEW_PASSWORD = "a password of Ann"


def error(answer: Answer) -> tuple[int, str]:
    return answer.status, answer.json["error"]["code"]


async def invite(owner: PageClient, email: str = ANN, role: str = "viewer", websites: Any = None) -> str:
    """Return the token of a new invitation."""
    sent = {"email": email, "role": role, "websites": websites}
    answer = await owner("POST", "/api/account/invitations", sent)
    assert answer.status == 201, answer.text
    token: str = answer.json["data"]["link"].partition("/invitation#")[2]
    assert re.fullmatch(r"[\w-]{43}", token)
    return token


async def accept(browser: PageClient, token: str, **sent: str) -> Answer:
    return await browser("POST", INVITATION, sent, {"Invitation-Token": token})


async def joined(
    app: App, owner: PageClient, email: str = ANN, role: str = "viewer", websites: Any = None
) -> PageClient:
    """Return a browser of a new member."""
    browser = PageClient(app, f"198.51.100.{len(app.sql('select 1 from person')) + 10}")
    answer = await accept(browser, await invite(owner, email, role, websites), password=NEW_PASSWORD)
    assert answer.status == 201, answer.text
    return browser


def number_of(app: App, email: str) -> int:
    return int(app.sql("select number from person where email = ?", email)[0][0])


async def test_a_new_person_joins_by_the_link(app: App) -> None:
    website, owner = await app.website(), await logged_in(app)
    token = await invite(owner)
    guest = PageClient(app, "198.51.100.9")
    shown = (await guest("GET", INVITATION, headers={"Invitation-Token": token})).json["data"]
    assert shown == {"account": OWNER, "email": ANN, "role": "viewer", "has_person": False, "signed_in_as": None}
    assert (await accept(guest, token, password=NEW_PASSWORD)).status == 201
    assert [one["id"] for one in (await guest("GET", "/api/account/websites")).json["data"]] == [website]
    assert (await PageClient(app).log_in(ANN, NEW_PASSWORD)).status == 200
    (you, ann) = (await owner("GET", "/api/account/people")).json["data"]
    assert (you["email"], you["role"], you["is_you"]) == (OWNER, "owner", True)
    assert (ann["email"], ann["role"], ann["websites"], ann["is_you"]) == (ANN, "viewer", None, False)
    assert (ann["last_seen"], (await owner("GET", "/api/account/invitations")).json["data"]) == ("2026-11-18", [])
    log = (await owner("GET", "/api/account/audit")).json["data"]
    assert [(line["action"], line["actor"]) for line in log][:4] == [
        ("sign_in", ANN),
        ("sign_in", ANN),
        ("person_joined", ANN),
        ("person_invited", OWNER),
    ]
    # Neither the link nor a password is stored.
    with sqlite3.connect(app.settings.db) as connection:
        stored = "\n".join(connection.iterdump())
    for secret in (token, NEW_PASSWORD):
        assert secret not in stored


async def test_an_invitation_is_used_once(app: App) -> None:
    owner = await logged_in(app)
    token = await invite(owner)
    answers = await asyncio.gather(
        *(accept(PageClient(app, f"198.51.100.{at}"), token, password=NEW_PASSWORD) for at in range(4))
    )
    assert sorted(answer.status for answer in answers)[0] == 201
    assert [answer.status for answer in answers].count(201) == 1
    assert app.sql("select count(*) from membership") == [(2,)]
    assert error(await accept(PageClient(app), token, password=NEW_PASSWORD)) == (404, "unknown_invitation")


async def test_unknown_expired_and_revoked_invitations_have_one_answer(app: App) -> None:
    owner = await logged_in(app)
    answers = [await accept(PageClient(app), "x" * 43, password=NEW_PASSWORD)]
    revoked = await invite(owner, "b@example.com")
    (listed,) = (await owner("GET", "/api/account/invitations")).json["data"]
    assert (await owner("DELETE", f"/api/account/invitations/{listed['id']}")).status == 204
    assert error(await owner("DELETE", f"/api/account/invitations/{listed['id']}")) == (404, "unknown_invitation")
    replaced, token = await invite(owner), await invite(owner)
    for used in (revoked, replaced):
        answers.append(await accept(PageClient(app), used, password=NEW_PASSWORD))
    app.clock.advance(INVITATION_LASTS_MS / 1_000 - 1)
    assert (await PageClient(app)("GET", INVITATION, headers={"Invitation-Token": token})).status == 200
    app.clock.advance(1)
    answers.append(await accept(PageClient(app), token, password=NEW_PASSWORD))
    assert {(answer.status, answer.body) for answer in answers} == {(404, answers[0].body)}
    assert (await owner("GET", "/api/account/invitations")).json["data"] == []
    assert app.sql("select count(*) from person") == [(1,)]


async def test_a_signed_in_person_joins_and_another_does_not(app: App) -> None:
    """The websites of both accounts are then listed, and each account is chosen by its number."""
    await app.website()
    owner, ann = await logged_in(app), await logged_in(app, ANN, ip="198.51.100.2")
    bob = await logged_in(app, "bob@example.com", ip="198.51.100.3")
    added = await ann("POST", "/api/account/websites", {"domain": "ann.example"})
    token = await invite(owner, ANN.upper(), "admin")
    assert error(await accept(bob, token)) == (403, "other_person")
    assert error(await accept(PageClient(app), token, password=NEW_PASSWORD)) == (401, "not_logged_in")
    assert (await accept(ann, token)).status == 201
    domains = [one["domain"] for one in (await ann("GET", "/api/account/websites")).json["data"]]
    assert domains == ["example.com", "ann.example"]
    people_of = {number: (await ann("GET", f"/api/account/people?account={number}")).json for number in (1, 2, 3, "x")}
    assert [len(people_of[number]["data"]) for number in (1, 2)] == [2, 1]
    assert {people_of[number]["error"]["code"] for number in (3, "x")} == {"unknown_account"}
    shown = {number: (await ann("GET", f"/api/account?account={number}")).json["data"] for number in (1, 2)}
    assert [(one["id"], one["name"], one["role"], one["people"]) for one in shown.values()] == [
        (1, OWNER, "admin", 2),
        (2, ANN, "owner", 1),
    ]
    assert (
        shown[1]["accounts"]
        == shown[2]["accounts"]
        == [
            {"id": 1, "name": OWNER, "role": "admin"},
            {"id": 2, "name": ANN, "role": "owner"},
        ]
    )
    assert [one["account"] for one in (await ann("GET", "/api/account/websites")).json["data"]] == [1, 2]
    # By default the account that she owns.
    assert [one["email"] for one in (await ann("GET", "/api/account/people")).json["data"]] == [ANN]
    new = await ann("POST", "/api/account/websites?account=1", {"domain": "new.example"})
    owners = {one["domain"] for one in (await owner("GET", "/api/account/websites")).json["data"]}
    assert (new.status, owners) == (201, {"example.com", "new.example"})
    assert (await owner("GET", f"/api/account/websites/{added.json['data']['id']}")).status == 404


async def test_the_answer_to_the_inviter_does_not_reveal_who_has_a_person(app: App) -> None:
    owner = await logged_in(app)
    await logged_in(app, "bob@example.com", ip="198.51.100.3")
    answers = []
    for email in ("bob@example.com", "nob@example.com"):
        answer = await owner("POST", "/api/account/invitations", {"email": email, "role": "viewer"})
        data = answer.json["data"]
        answers.append((answer.status, data | {"email": "", "id": "", "link": len(data["link"])}))
    assert answers[0] == answers[1]


@cases("role", ["owner", "admin"])
async def test_an_account_keeps_an_owner(app: App, role: str) -> None:
    owner = await logged_in(app)
    number = number_of(app, OWNER)
    email = f"{role}@example.com"
    if role == "admin":
        await joined(app, owner, email, "admin")
    for method, path, sent in (
        ("POST", "/api/account/leave", None),
        ("DELETE", f"/api/account/people/{number}", None),
        ("PATCH", f"/api/account/people/{number}", {"role": "admin"}),
    ):
        assert error(await owner(method, path, sent)) == (409, "last_owner"), path
    assert app.sql("select role from membership where person = ?", number) == [("owner",)]


async def test_two_owners_who_leave_at_once_leave_one(app: App) -> None:
    owner = await logged_in(app)
    other = await joined(app, owner, role="owner")
    answers = await asyncio.gather(*(one("POST", "/api/account/leave") for one in (owner, other)))
    assert sorted(answer.status for answer in answers) == [204, 409]
    assert app.sql("select count(*) from membership") == [(1,)]


async def test_an_admin_gives_nobody_more_than_the_own_role(app: App) -> None:
    owner = await logged_in(app)
    admin = await joined(app, owner, role="admin")
    await joined(app, owner, "eve@example.com", "editor")
    own, boss, eve = (number_of(app, email) for email in (ANN, OWNER, "eve@example.com"))
    for method, path, sent in (
        ("POST", "/api/account/invitations", {"email": "x@example.com", "role": "owner"}),
        ("PATCH", f"/api/account/people/{own}", {"role": "owner"}),
        ("PATCH", f"/api/account/people/{eve}", {"role": "owner"}),
        ("PATCH", f"/api/account/people/{boss}", {"role": "viewer"}),
        ("DELETE", f"/api/account/people/{boss}", None),
    ):
        assert error(await admin(method, path, sent)) == (403, "not_allowed"), (method, path)
    token = await invite(owner, "x@example.com", "owner")
    (listed,) = (await admin("GET", "/api/account/invitations")).json["data"]
    assert error(await admin("DELETE", f"/api/account/invitations/{listed['id']}")) == (403, "not_allowed")
    assert (await admin("PATCH", f"/api/account/people/{eve}", {"role": "admin"})).status == 200
    assert (await accept(PageClient(app, "198.51.100.99"), token, password=NEW_PASSWORD)).status == 201


async def test_invitations_end_with_the_role_of_who_made_them(app: App) -> None:
    owner = await logged_in(app)
    admin = await joined(app, owner, role="admin")
    token = await invite(admin, "x@example.com", "admin")
    await owner("PATCH", f"/api/account/people/{number_of(app, ANN)}", {"role": "viewer"})
    assert (await accept(PageClient(app), token, password=NEW_PASSWORD)).status == 404


async def test_a_limit_to_websites(app: App) -> None:
    first, second = await app.website(), await app.website("second.example")
    owner = await logged_in(app)
    ann = await joined(app, owner, websites=[first])
    number = number_of(app, ANN)

    async def seen() -> list[str]:
        return [one["id"] for one in (await ann("GET", "/api/account/websites")).json["data"]]

    assert await seen() == [first]
    changed = await owner("PATCH", f"/api/account/people/{number}", {"websites": [second]})
    assert (changed.status, changed.json["data"]["websites"]) == (200, [second])
    assert await seen() == [second]
    await owner("PATCH", f"/api/account/people/{number}", {"role": "editor"})
    assert await seen() == [second]
    await owner("DELETE", f"/api/account/websites/{second}", {"domain": "second.example"})
    # The limit stays where none of its websites is left.
    assert await seen() == []
    assert (await owner("PATCH", f"/api/account/people/{number}", {"websites": None})).status == 200
    assert await seen() == [first]


async def test_a_person_leaves(app: App) -> None:
    """Without another account the person is deleted; the log has no address of who acted any more."""
    owner = await logged_in(app)
    ann = await joined(app, owner)
    number = number_of(app, ANN)
    assert (await ann("POST", "/api/account/leave")).status == 204
    assert error(await ann("GET", "/api/account/websites")) == (401, "not_logged_in")
    assert app.sql("select count(*) from login where person = ?", number) == [(0,)]
    log = (await owner("GET", "/api/account/audit")).json["data"]
    assert [(line["action"], line["actor"]) for line in log][:3] == [
        ("person_left", f"former member {number}"),
        ("sign_in", f"former member {number}"),
        ("person_joined", f"former member {number}"),
    ]
    assert (await PageClient(app).log_in(ANN, NEW_PASSWORD)).status == 401
    # The next person does not inherit the lines.
    await joined(app, owner, "bob@example.com")
    assert number_of(app, "bob@example.com") != number
    own = (await owner("GET", f"/api/account/audit?person={number_of(app, 'bob@example.com')}")).json["data"]
    assert [line["action"] for line in own] == ["sign_in", "person_joined"]


async def test_who_is_a_member_elsewhere_stays_signed_in_there(app: App) -> None:
    owner, ann = await logged_in(app), await logged_in(app, ANN, ip="198.51.100.2")
    await app.website()
    assert (await accept(ann, await invite(owner))).status == 201
    assert (await owner("DELETE", f"/api/account/people/{number_of(app, ANN)}")).status == 204
    assert (await ann("GET", "/api/account/websites")).json["data"] == []
    assert (await ann("GET", "/api/account")).status == 200


@cases(
    ("sent", "field"),
    [
        ({"email": "no address", "role": "viewer"}, "email"),
        ({"email": ANN}, "role"),
        ({"email": ANN, "role": "king"}, "role"),
        ({"email": ANN, "role": ["owner"]}, "role"),
        ({"email": ANN, "role": "viewer", "websites": "all"}, "websites"),
        ({"email": ANN, "role": "viewer", "websites": ["unknown"]}, "websites"),
        ({"email": ANN, "role": "viewer", "websites": [1]}, "websites"),
        ({"email": ANN, "role": "viewer", "websites": ["x"] * 1_001}, "websites"),
        ({"email": ANN, "role": "admin", "websites": []}, "websites"),
        ({"email": ANN, "role": "viewer", "plan": "free"}, "plan"),
    ],
)
async def test_invalid_fields(app: App, sent: dict[str, Any], field: str) -> None:
    owner = await logged_in(app)
    answer = await owner("POST", "/api/account/invitations", sent)
    assert (answer.status, answer.json["error"]["field"]) == (400, field)


async def test_another_accounts_website_is_no_limit(app: App) -> None:
    foreign = await app.website("other.example", account="other@example.com")
    owner = await logged_in(app)
    answer = await owner("POST", "/api/account/invitations", {"email": ANN, "role": "viewer", "websites": [foreign]})
    assert (answer.status, answer.json["error"]["field"]) == (400, "websites")


async def test_short_passwords_and_members_are_refused(app: App) -> None:
    owner = await logged_in(app)
    answer = await accept(PageClient(app), await invite(owner), password="short")
    assert (answer.status, answer.json["error"]["field"]) == (400, "password")
    answer = await owner("POST", "/api/account/invitations", {"email": OWNER.upper(), "role": "viewer"})
    assert error(answer) == (409, "already_member")


async def test_at_most_50_invitations_and_200_people(app: App) -> None:
    owner = await logged_in(app)
    for at in range(MAX_INVITATIONS):
        await invite(owner, f"{at}@example.com")
    sent = {"email": "one-more@example.com", "role": "viewer"}
    assert error(await owner("POST", "/api/account/invitations", sent)) == (409, "too_many_people")
    # One of an address that has one replaces it.
    token = await invite(owner, "0@example.com")

    def fill(connection: sqlite3.Connection) -> None:
        for at in range(MAX_PEOPLE - 1):
            person = create_person(connection, f"member{at}@example.com", None, 0)
            connection.execute("insert into membership values (1, ?, 'viewer', 0, 0)", (person,))

    await app.admin(fill)
    assert error(await accept(PageClient(app), token, password=NEW_PASSWORD)) == (409, "too_many_people")
    assert app.sql("select count(*) from membership") == [(MAX_PEOPLE,)]


async def test_guesses_of_invitations_and_links_are_limited(make_app: MakeApp) -> None:
    app = await make_app(key_per_minute=20)
    guest = PageClient(app)
    statuses = [(await guest("GET", INVITATION, headers={"Invitation-Token": str(at)})).status for at in range(30)]
    assert statuses[0] == 404
    assert statuses[-1] == 429
    assert (await guest("POST", "/api/account/login/link", {"token": "x"})).status == 429


async def test_another_sites_page_accepts_nothing(app: App) -> None:
    owner, ann = await logged_in(app), await logged_in(app, ANN, ip="198.51.100.2")
    headers = {"Invitation-Token": await invite(owner), "Sec-Fetch-Site": "cross-site"}
    assert error(await ann("POST", INVITATION, {}, headers)) == (403, "cross_site")


# --- links to sign in


async def link(app: App, email: str = OWNER) -> str:
    """Return the token of a new link, as the command makes it."""
    token = people.new_token()

    def make(connection: sqlite3.Connection) -> None:
        person, salt = find_person(connection, email), app.registry.key_salt
        people.create_sign_in_link(connection, person.number, people.token_digest(token, salt), app.clock.wall_ms())

    await app.admin(make)
    return token


async def test_a_sign_in_link_signs_in_once(app: App) -> None:
    owner = await logged_in(app)
    replaced, token = await link(app), await link(app)
    assert replaced not in json.dumps(app.sql("select hex(digest) from sign_in_link"))
    browser = PageClient(app, "198.51.100.9")
    assert error(await browser("POST", "/api/account/login/link", {"token": replaced})) == (404, "unknown_sign_in_link")
    answers = await asyncio.gather(
        *(PageClient(app, f"198.51.100.{at}")("POST", "/api/account/login/link", {"token": token}) for at in range(3))
    )
    assert sorted(answer.status for answer in answers) == [204, 404, 404]
    log = (await owner("GET", "/api/account/audit?action=sign_in")).json["data"]
    assert [line["detail"] for line in log] == [{"by": "link"}, {"by": "password"}]


async def test_a_sign_in_link_is_valid_for_ten_minutes(app: App) -> None:
    await logged_in(app)
    token = await link(app)
    app.clock.advance(SIGN_IN_LINK_LASTS_MS / 1_000)
    assert (await PageClient(app)("POST", "/api/account/login/link", {"token": token})).status == 404
    token = await link(app)
    app.clock.advance(SIGN_IN_LINK_LASTS_MS / 1_000 - 1)
    browser = PageClient(app)
    assert (await browser("POST", "/api/account/login/link", {"token": token})).status == 204
    assert (await browser("GET", "/api/account")).json["data"]["email"] == OWNER


async def test_a_sign_in_link_is_no_invitation(app: App) -> None:
    owner = await logged_in(app)
    token, invitation = await link(app), await invite(owner)
    assert (await accept(PageClient(app), token, password=NEW_PASSWORD)).status == 404
    assert (await PageClient(app)("POST", "/api/account/login/link", {"token": invitation})).status == 404


async def test_the_link_has_the_base_url(make_app: MakeApp) -> None:
    app = await make_app(base_url="https://stats.example.com/tally")
    owner = await logged_in(app)
    sent = {"email": ANN, "role": "viewer"}
    answer = await owner("POST", "/api/account/invitations", sent)
    assert answer.json["data"]["link"].startswith("https://stats.example.com/tally/invitation#")
