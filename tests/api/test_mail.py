"""Mail with a real mail server: TLS and passwords, what each answer does, consent, unsubscribing, headers."""

import asyncio
import re
import socket
from collections.abc import AsyncIterator
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import html5lib
import pytest
import trustme
from aiohttp import ClientResponse

from tally.notices import mail
from tally.notices.mail import MailServer, mail_server
from tally.notices.outbox import New
from tally.notices.reasons import REASONS, code_of
from tally.settings import BadSetting, settings_from
from tally.timestamps import DAY_MS
from tests.support.app import OWNER, App, MakeApp
from tests.support.cases import cases
from tests.support.mailbox import FROM, MAIL_PASSWORD, USER, Mailbox, authority, mailbox, server_context
from tests.support.page_client import PageClient, logged_in
from tests.support.receiver import says, sender_of, settle

__all__ = ["authority"]
CHANNELS = "/api/account/channels"
BASE = "https://stats.example.com"
OUTSIDER = "reader@elsewhere.example"
SENT = {"ok": True, "status": 250, "error": None, "error_code": None}


class Owner:
    """An application that sends mail to a mailbox, and its owner."""

    def __init__(self, app: App, browser: PageClient, box: Mailbox) -> None:
        self.app, self.browser, self.box = app, browser, box

    async def channel(self, address: str = OWNER, status: int = 201, **more: Any) -> dict[str, Any]:
        body = {"kind": "email", "name": address, "address": address} | more
        answer = await self.browser("POST", CHANNELS, body)
        assert answer.status == status, answer.text
        made: dict[str, Any] = answer.json.get("data") or answer.json["error"]
        return made

    async def raise_notice(self, fact: str, *words: Any) -> None:
        now_ms = self.app.clock.monotonic_wall_ms()
        content = says(*(words or (f"Title {fact}", f"Text {fact}", "/account")))
        await sender_of(self.app).add(New(1, "server.problem", fact, content, now_ms + DAY_MS))
        await settle(self.app)

    def states(self) -> list[str]:
        return [state for (state,) in self.app.sql("select state from notice order by number")]

    async def listed(self) -> dict[str, Any]:
        (one,) = (await self.browser("GET", CHANNELS)).json["data"]
        shown: dict[str, Any] = one
        return shown

    def link(self, purpose: str) -> str:
        (text,) = [part for part in self.box.mails[-1].walk() if part.get_content_type() == "text/plain"]
        return re.search(rf"{BASE}(/{purpose}/\w+)", text.get_content())[1]  # type: ignore[index]


async def post(app: App, path: str, body: bytes = b"") -> ClientResponse:
    """Send a POST as a program for mail does: without a cookie or a page."""
    async with app.client.post(path, data=body) as response:
        await response.read()
        return response


def plain(box: Mailbox) -> dict[str, str]:
    return {"smtp_url": f"smtp://127.0.0.1:{box.port}?tls=none", "mail_from": FROM}


@pytest.fixture
async def owner(make_app: MakeApp) -> AsyncIterator[Owner]:
    with mailbox() as box:
        app = await make_app(base_url=BASE, **plain(box))
        yield Owner(app, await logged_in(app), box)


async def test_a_notice_arrives_with_its_headers_and_two_forms(owner: Owner) -> None:
    made = await owner.channel(language="de")
    assert made["confirmed_at"] is not None
    await owner.raise_notice("a", "Title", "<b>&\ntext", "/account")
    assert owner.states() == ["sent"]
    (received,) = owner.box.mails
    assert owner.box.recipients == [OWNER]
    assert (received["From"], received["To"], received["Subject"]) == (FROM, OWNER, "Title")
    assert received["Auto-Submitted"] == "auto-generated"
    assert received["X-Auto-Response-Suppress"] == "All"
    assert received["List-Id"] == f"<{made['id']}.example.com>"
    assert received["List-Unsubscribe"].startswith(f"<{BASE}/unsubscribe/{made['id']}")
    assert received["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    assert re.fullmatch(r"<msg_[0-9a-f]{32}@example\.com>", received["Message-ID"])
    assert received["Date"].datetime.timestamp() * 1000 == owner.app.clock.wall_ms() // 1000 * 1000
    text, html = received.iter_parts()
    assert (text.get_content_type(), html.get_content_type()) == ("text/plain", "text/html")
    assert "<b>&\r\ntext" in text.get_content()
    assert f"Tally öffnen: {BASE}/account" in text.get_content()
    parsed = html5lib.parse(html.get_content(), namespaceHTMLElements=False)
    assert "<b>&" in "".join(parsed.itertext())
    assert parsed.findall(".//b") == parsed.findall(".//img") == parsed.findall(".//script") == []
    assert {a.get("href") for a in parsed.iter("a")} == {f"{BASE}/account", BASE + owner.link("unsubscribe")}


async def test_a_test_is_sent_at_once_and_shows_what_the_server_answered(owner: Owner) -> None:
    made = await owner.channel()
    test = f"{CHANNELS}/{made['id']}/test"
    assert (await owner.browser("POST", test)).json["data"] == {
        "ok": True,
        "status": 250,
        "error": None,
        "error_code": None,
    }
    assert owner.box.mails[0]["Subject"] == "Test from Tally"
    owner.box.rcpt = ["550 5.7.1 <x>\x01 relaying denied"]
    shown = (await owner.browser("POST", test)).json["data"]
    assert (shown["ok"], shown["status"]) == (False, 550)
    assert re.fullmatch(r"SMTP 550 5\.7\.1 <x> +relaying denied", shown["error"])


async def test_a_temporary_refusal_is_tried_again_with_the_same_id(owner: Owner) -> None:
    await owner.channel()
    owner.box.replies = ["451 4.3.0 later", "drop"]
    await owner.raise_notice("a")
    assert owner.states() == ["waiting"]
    assert (await owner.listed())["last_error"] == "SMTP 451 4.3.0 later"
    for state, seconds in (("waiting", 6), ("sent", 400)):
        owner.app.clock.advance(seconds)
        await settle(owner.app)
        assert owner.states() == [state]
    # The server has both, and can tell that they are one.
    assert len(owner.box.mails) == 2
    assert owner.box.mails[0]["Message-ID"] == owner.box.mails[1]["Message-ID"]


@cases(
    ("rcpt", "replies", "is_paused"),
    [
        (["550 5.1.1 no such user"], [], True),
        (["550 5.7.1 denied"], [], False),
        (["552 5.2.2 mailbox full"], [], False),
        ([], ["554 5.6.0 spam"], False),
    ],
)
async def test_a_refusal_for_good_is_not_tried_again(
    owner: Owner, rcpt: list[str], replies: list[str], is_paused: bool
) -> None:
    made = await owner.channel()
    owner.box.rcpt, owner.box.replies = [*rcpt], [*replies]
    await owner.raise_notice("a")
    assert owner.states() == ["failed"]
    shown = await owner.listed()
    assert shown["last_error"] == f"SMTP {(rcpt + replies)[0]}"
    assert (shown["paused_at"] is not None) == is_paused
    assert owner.box.mails == []
    await owner.browser("DELETE", f"{CHANNELS}/{made['id']}")


async def test_a_stranger_agrees_first(owner: Owner) -> None:
    made = await owner.channel(OUTSIDER)
    assert made["confirmed_at"] is None
    await settle(owner.app)
    await owner.raise_notice("before")
    (question,) = owner.box.mails
    assert (question["To"], question["Subject"]) == (OUTSIDER, "Confirm notices of Tally")
    assert question["List-Unsubscribe"] is None
    link = owner.link("confirm")
    # Programs that check mail open links.
    page = await owner.app.get(link)
    assert page.status == 200
    assert page.headers["Cache-Control"] == "no-store"
    assert "script-src" not in page.headers["Content-Security-Policy"]
    assert b'<form method="post">' in page.body
    assert (await owner.listed())["confirmed_at"] is None
    assert (await post(owner.app, link)).status == 200
    assert (await owner.listed())["confirmed_at"] is not None
    await owner.raise_notice("after")
    assert [one["Subject"] for one in owner.box.mails] == ["Confirm notices of Tally", "Title after"]
    actions = [row["action"] for row in (await owner.browser("GET", "/api/account/audit")).json["data"]]
    assert actions[:2] == ["channel_confirmed", "channel_added"]


async def test_one_click_unsubscribes_without_a_cookie(owner: Owner) -> None:
    made = await owner.channel()
    await owner.raise_notice("a")
    link = owner.link("unsubscribe")
    assert (await owner.app.get(link)).status == 200
    assert (await owner.listed())["confirmed_at"] is not None
    owner.box.replies = ["451 later"]
    await owner.raise_notice("waits")
    assert (await post(owner.app, link, b"List-Unsubscribe=One-Click")).status == 200
    assert (await owner.listed())["confirmed_at"] is None
    owner.app.clock.advance(400)
    await owner.raise_notice("b")
    assert owner.states() == ["sent", "expired"]
    assert len(owner.box.mails) == 1
    assert (await post(owner.app, link)).status == 200
    actions = [row["action"] for row in (await owner.browser("GET", "/api/account/audit")).json["data"]]
    assert actions.count("channel_unsubscribed") == 1
    # Only by consent is it sent anything again: the test asks for it.
    assert (await owner.browser("POST", f"{CHANNELS}/{made['id']}/test")).json["data"]["ok"]
    await settle(owner.app)
    assert owner.box.mails[-1]["Subject"] == "Confirm notices of Tally"


async def test_links_are_of_one_channel_and_purpose(owner: Owner) -> None:
    await owner.channel(OUTSIDER)
    await settle(owner.app)
    link = owner.link("confirm")
    token = link.rpartition("/")[2]
    other = token[:-1] + ("0" if token[-1] != "0" else "1")
    for path in (f"/unsubscribe/{token}", f"/confirm/{other}", f"/confirm/{token}0", "/confirm/x", "/confirm/%ff"):
        assert (await owner.app.get(path)).status in (400, 404)
        assert (await post(owner.app, path)).status in (400, 404)
    assert (await owner.listed())["confirmed_at"] is None


async def test_an_address_is_asked_three_times_a_day(owner: Owner) -> None:
    for _ in range(3):
        made = await owner.channel(OUTSIDER)
        assert (await owner.browser("DELETE", f"{CHANNELS}/{made['id']}")).status == 204
    assert (await owner.channel(OUTSIDER.upper(), 429))["code"] == "rate_limited"
    await owner.channel("another@elsewhere.example")
    owner.app.clock.advance(24 * 3_600)
    await owner.channel(OUTSIDER)


@cases(
    "address",
    [
        "",
        "x",
        "a@b",
        "a@example.com\r\nBcc: b@example.com",
        "a@example.com,b@example.com",
        "A <a@example.com>",
        "é@example.com",
        "a b@example.com",
        f"{'a' * 65}@example.com",
        5,
    ],
)
async def test_what_is_no_address(owner: Owner, address: Any) -> None:
    assert (await owner.channel(address, 400, name="x"))["field"] == "address"


async def test_a_title_of_a_stranger_writes_no_header(owner: Owner) -> None:
    await owner.channel()
    await owner.raise_notice("a", "Title\r\nBcc: victim@example.com\u2028\x00", "Text \ud800 \x00")
    (received,) = owner.box.mails
    assert received["Bcc"] is None
    assert received["Subject"] == "Title  Bcc: victim@example.com  "
    assert owner.box.recipients == [OWNER]
    # An encoded word, which the library for mail decodes.
    await owner.raise_notice("b", "=?utf-8?q?k=0D=0AReply-To:_evil@evil.example=0D=0A=0D=0ABody?=", "Text")
    received = owner.box.mails[-1]
    assert received["Reply-To"] is None
    assert "Reply-To" not in str(received.get_body(("plain",)))


async def test_a_mail_server_that_refuses_this_server_is_tried_again(owner: Owner) -> None:
    await owner.channel()
    owner.box.mail = ["530 5.7.0 Authentication required"]
    await owner.raise_notice("a")
    assert owner.states() == ["waiting"]
    assert (await owner.listed())["last_error"] == "SMTP 530 5.7.0 Authentication required"


async def test_without_a_mail_server_no_address_is_taken(app: App) -> None:
    browser = await logged_in(app)
    assert (await browser("GET", CHANNELS)).json["meta"] == {"mail": False}
    answer = await browser("POST", CHANNELS, {"kind": "email", "name": "x", "address": OWNER})
    assert (answer.status, answer.json["error"]["code"]) == (422, "channel_refused")
    assert "--smtp-url" in answer.json["error"]["message"]


async def test_without_a_base_url_people_of_the_account_alone_get_mail(make_app: MakeApp) -> None:
    with mailbox() as box:
        app = await make_app(**plain(box))
        owner = Owner(app, await logged_in(app), box)
        assert "--base-url" in (await owner.channel(OUTSIDER, 422))["message"]
        await owner.channel()
        await owner.raise_notice("a")
        assert box.mails[0]["List-Unsubscribe"] is None


# --- the exchange with the server


def message() -> EmailMessage:
    made = EmailMessage()
    made["To"] = "you@example.com"
    made.set_content("Text")
    return made


def server_at(
    port: int, *, user: str = "", password: str = "", is_implicit: bool = False, has_tls: bool = True
) -> MailServer:
    return MailServer("localhost", port, user, password, is_implicit, has_tls, "Tally", "stats@example.com")


@cases("is_implicit", [False, True])
async def test_tls_with_a_password(authority: trustme.CA, is_implicit: bool) -> None:
    context = server_context(authority, "localhost")
    with mailbox(context, is_implicit=is_implicit, has_users=True) as box:
        own = server_at(box.port, user=USER, password=MAIL_PASSWORD, is_implicit=is_implicit)
        assert (await mail.send(own, message())).is_sent
        assert (await mail.send(own, None)).is_sent
        assert (box.was_encrypted, box.users) == ([True], [USER.encode()])
        outcome = await mail.send(own._replace(password="wrong"), message())
        assert outcome.error.startswith("the mail server refused the user or the password: SMTP 535")
        assert code_of(outcome.error) == "mail_sign_in"
        # The operator may correct it: the notice is tried again.
        assert not outcome.is_final


@cases("is_implicit", [False, True])
async def test_a_certificate_of_another_authority_or_host_is_refused(authority: trustme.CA, is_implicit: bool) -> None:
    for context in (server_context(trustme.CA(), "localhost"), server_context(authority, "other.example")):
        with mailbox(context, is_implicit=is_implicit) as box:
            outcome = await mail.send(server_at(box.port, is_implicit=is_implicit), message())
            assert outcome.error == "the certificate of the mail server is not valid"
            assert box.mails == []


async def test_a_server_without_starttls_gets_nothing() -> None:
    with mailbox() as box:
        outcome = await mail.send(server_at(box.port), message())
        assert "STARTTLS" in outcome.error
        assert box.mails == []
        assert (await mail.send(server_at(box.port, has_tls=False), message())).is_sent


async def test_a_server_that_is_silent_or_gone() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        outcome = await mail.send(server_at(silent.getsockname()[1]), message(), 0.3)
        assert outcome.error == "the mail server did not answer in time"
        port = silent.getsockname()[1]
    outcome = await mail.send(server_at(port), message())
    assert (outcome.error, code_of(outcome.error)) == (REASONS["mail_refused"], "mail_refused")
    assert not outcome.is_final
    nowhere = await mail.send(server_at(port)._replace(host="mail.invalid"), message())
    assert code_of(nowhere.error) == "mail_host_not_found"
    with mailbox() as box:
        plain_text = await mail.send(server_at(box.port, is_implicit=True), message())
        assert code_of(plain_text.error) == "mail_no_tls"


async def test_a_server_that_speaks_no_smtp() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"\xff" * 100_000 + b"\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        outcome = await mail.send(server_at(server.sockets[0].getsockname()[1]), message())
    assert not outcome.is_sent
    assert len(outcome.error) < 300


# --- connections of a batch


def to(address: str) -> EmailMessage:
    made = message()
    made.replace_header("To", address)
    made["Message-ID"] = f"<{address}>"
    return made


async def test_the_mails_of_a_batch_have_one_connection(owner: Owner) -> None:
    for _ in range(6):
        await owner.channel()
    owner.box.rcpt = ["250 OK", "550 5.1.1 no such user"]
    await owner.raise_notice("a")
    # One that is refused ends neither the connection nor the others.
    assert sorted(owner.states()[:6]) == ["failed", *["sent"] * 5]
    assert owner.box.connections == 1


async def test_a_receiver_that_hangs_holds_up_no_other() -> None:
    with mailbox() as box:
        box.slow = {"a@example.com"}
        connections = mail.Connections(server_at(box.port, has_tls=False))
        slow = asyncio.create_task(connections.send(to("a@example.com")))
        while not box.connections:
            await asyncio.sleep(0.01)
        others = [connections.send(to(f"{name}@example.com")) for name in "bcd"]
        assert all(one.is_sent for one in await asyncio.gather(*others))
        assert not slow.done()
        box.slow.clear()
        assert (await slow).is_sent
        assert box.connections <= 4
        connections.close()


async def test_a_connection_that_drops_in_the_middle_of_a_batch() -> None:
    """What may have arrived is sent again with its Message-ID, and the next mail has a connection of its own."""
    with mailbox() as box:
        connections = mail.Connections(server_at(box.port, has_tls=False))
        assert (await connections.send(to("a@example.com"))).is_sent
        box.replies = ["drop"]
        dropped = await connections.send(to("b@example.com"))
        assert (dropped.error, dropped.is_final) == (REASONS["mail_closed"], False)
        for name in ("b", "c"):
            assert (await connections.send(to(f"{name}@example.com"))).is_sent
        assert box.recipients == [f"{name}@example.com" for name in "abbc"]
        assert box.mails[1]["Message-ID"] == box.mails[2]["Message-ID"]
        assert box.connections == 2
        connections.close()


async def test_an_answer_that_comes_late_is_not_that_of_the_next_mail() -> None:
    with mailbox() as box:
        connections = mail.Connections(server_at(box.port, has_tls=False))
        box.gate.clear()
        box.replies = ["250 OK", "554 5.6.0 spam"]
        late = await connections.send(to("a@example.com"), 0.3)
        assert late.error == REASONS["mail_timeout"]
        box.gate.set()
        assert (await connections.send(to("b@example.com"))).error == "SMTP 554 5.6.0 spam"
        assert box.connections == 2
        connections.close()


# --- settings


@cases(
    ("given", "expected"),
    [
        ({"smtp_url": "smtp://mail.example.com"}, ("mail.example.com", 587, "", False, True)),
        ({"smtp_url": "smtps://mail.example.com"}, ("mail.example.com", 465, "", True, True)),
        ({"smtp_url": "smtp://127.0.0.1:25?tls=none"}, ("127.0.0.1", 25, "", False, False)),
        (
            {"smtp_url": "smtp://me%40example.com@mail.example.com:26"},
            ("mail.example.com", 26, "me@example.com", False, True),
        ),
    ],
)
def test_urls_of_mail_servers(tmp_path: Path, given: dict[str, str], expected: tuple[Any, ...]) -> None:
    file = tmp_path / "password"
    file.write_text("päss word\n")
    given |= {"mail_from": FROM} | ({"smtp_password_file": str(file)} if expected[2] else {})
    found = mail_server(settings_from({name: [value] for name, value in given.items()}, {}))
    assert found is not None
    assert (found.host, found.port, found.user, found.is_implicit_tls, found.has_tls) == expected
    assert found.password == ("päss word" if expected[2] else "")
    assert (found.name, found.address, found.domain) == ("Tally", "stats@example.com", "example.com")


@cases(
    "given",
    [
        {"smtp_url": "mail.example.com"},
        {"smtp_url": "http://mail.example.com"},
        {"smtp_url": "smtp://user:hidden@mail.example.com"},
        {"smtp_url": "smtp://user@mail.example.com?tls=none"},
        {"smtp_url": "smtps://mail.example.com?tls=none"},
        {"smtp_url": "smtp://mail.example.com?tls=off"},
        {"smtp_url": "smtp://mail.example.com/path"},
        {"smtp_url": "smtp://mail.example.com:99999"},
        {"smtp_url": "smtp://mail.example.com", "mail_from": ""},
        {"smtp_url": "", "mail_from": FROM},
        {"smtp_url": "smtp://user@mail.example.com"},
        {"smtp_url": "smtp://mail.example.com", "smtp_password_file": "/dev/null"},
        {"smtp_url": "smtp://user@mail.example.com", "smtp_password_file": "/no/such/file"},
        {"mail_from": "Tally"},
        {"mail_from": 'T"a <stats@example.com>'},
        {"mail_from": "Tally\n <stats@example.com>"},
        {"mail_from": "a@example.com, b@example.com"},
    ],
)
def test_settings_that_are_refused(given: dict[str, str]) -> None:
    whole = {"smtp_url": "smtp://mail.example.com", "mail_from": FROM} | given
    with pytest.raises(BadSetting) as refused:
        mail_server(settings_from({name: [value] for name, value in whole.items()}, {}))
    assert "hidden" not in str(refused.value)
