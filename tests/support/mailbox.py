"""A real mail server on loopback (aiosmtpd), which answers as a test tells it, with TLS of a CA of its own."""

import asyncio
import email
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import EmailMessage
from email.policy import default
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
import trustme
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, Session

USER, MAIL_PASSWORD = "stats@example.com", "mail secret"
FROM = "Tally <stats@example.com>"


class Mailbox:
    """Keeps the mails that it has accepted. `replies`: answers to the next messages in place of 250; `rcpt`: likewise
    to the recipients, `mail`: to the senders; "drop" closes the connection after DATA, without an answer. While `gate`
    is closed, an accepted mail is not answered. `slow`: recipients that are not answered as long as they are in it;
    `connections`: how many there were."""

    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []
        self.replies: list[str] = []
        self.rcpt: list[str] = []
        self.mail: list[str] = []
        self.recipients: list[str] = []
        self.was_encrypted: list[bool] = []
        self.users: list[bytes | None] = []
        self.slow: set[str] = set()
        self.connections = 0
        self.gate = Event()
        self.gate.set()
        self.port = 0

    async def handle_MAIL(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        answer = self.mail.pop(0) if self.mail else "250 OK"
        if answer.startswith("250"):
            envelope.mail_from = address
        return answer

    async def handle_RCPT(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        while address in self.slow:
            await asyncio.sleep(0.01)
        answer = self.rcpt.pop(0) if self.rcpt else "250 OK"
        if answer.startswith("250"):
            envelope.rcpt_tos.append(address)
        return answer

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        answer = self.replies.pop(0) if self.replies else "250 OK"
        self.was_encrypted.append(session.ssl is not None or server.transport.get_extra_info("ssl_object") is not None)
        self.users.append(session.auth_data.login if session.auth_data else None)
        content: Any = envelope.content
        message: Any = email.message_from_bytes(content, policy=default)
        if answer.startswith("250") or answer == "drop":
            self.mails.append(message)
            self.recipients += envelope.rcpt_tos
        while not self.gate.is_set():
            await asyncio.sleep(0.01)
        if answer == "drop":
            server.transport.abort()
        return answer


def _authenticate(server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: Any) -> AuthResult:
    is_right = (data.login, data.password) == (USER.encode(), MAIL_PASSWORD.encode())
    return AuthResult(success=is_right, handled=False, auth_data=data)


def server_context(authority: trustme.CA, *names: str) -> ssl.SSLContext:
    """Return the context of a server with a certificate of an authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names).configure_cert(context)
    return context


@contextmanager
def mailbox(
    context: ssl.SSLContext | None = None, *, is_implicit: bool = False, has_users: bool = False
) -> Iterator[Mailbox]:
    """Yield a mail server that is reached at `localhost` and `port`; with a context, TLS is required."""
    box, loop = Mailbox(), asyncio.new_event_loop()
    has_starttls = context is not None and not is_implicit

    def new_session() -> SMTP:
        box.connections += 1
        return SMTP(
            box,
            tls_context=context if has_starttls else None,
            require_starttls=has_starttls,
            authenticator=_authenticate if has_users else None,
            auth_required=has_starttls and has_users,
            auth_require_tls=has_starttls,
            loop=loop,
        )

    # On a thread of its own: programs wait for its answers.
    thread = Thread(target=loop.run_forever, daemon=True)
    thread.start()
    begin = loop.create_server(new_session, "127.0.0.1", 0, ssl=context if is_implicit else None)
    server = asyncio.run_coroutine_threadsafe(begin, loop).result()
    box.port = server.sockets[0].getsockname()[1]
    try:
        yield box
    finally:
        asyncio.run_coroutine_threadsafe(_ended(server), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _ended(server: asyncio.Server) -> None:
    """Close a server with its connections."""
    server.close()
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    # Transports close with the next turn of the loop.
    await asyncio.sleep(0.01)


@pytest.fixture
def authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> trustme.CA:
    """Return a certificate authority that programs of the test trust (SSL_CERT_FILE)."""
    made = trustme.CA()
    made.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    return made
