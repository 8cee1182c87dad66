"""Send messages to email addresses by the mail server of --smtp-url.

A connection is kept for IDLE_S, so that the messages of a batch have one. A message waits WAIT_S at most for one
that is in use, so that a receiver that is slow to be accepted holds up no other.

The certificate of the server is always checked, and a password is sent with TLS alone. A step takes at most STEP_S.
What the server answers decides about further attempts: a message that it refuses for good (5xx for the recipient or the
text) is not tried again, and an unknown mailbox (550 5.1.x) pauses the channel. All else, such as a wrong password of
this server or a connection that ends, is tried again, with the same Message-ID.
"""

import asyncio
import errno
import re
import socket
import ssl
from collections import deque
from collections.abc import Iterator
from email.message import EmailMessage
from email.utils import parseaddr
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urlsplit

from tally.notices.outbox import Outcome
from tally.notices.reasons import REASONS
from tally.settings import BadSetting, Settings

if TYPE_CHECKING:
    from aiosmtplib import SMTP, SMTPResponseException

STEP_S = 20.0
# Of a whole exchange.
TIMEOUT_S = 60.0
# The sender looks every second for more that is due (tally/notices/sender.py).
IDLE_S = 5.0
WAIT_S = 1.0
_MAX_REPLY = 200
_UNREACHABLE = frozenset((errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EADDRNOTAVAIL))


class MailServer(NamedTuple):
    """A mail server, and the name and address from which mail is sent. `user` is "" for none."""

    host: str
    port: int
    user: str
    password: str
    is_implicit_tls: bool
    has_tls: bool
    name: str
    address: str

    @property
    def domain(self) -> str:
        """Return the domain of the sender."""
        return self.address.rpartition("@")[2]


def mail_server(settings: Settings) -> MailServer | None:
    """Return the mail server of the settings, None without. Raises BadSetting where they do not fit together."""
    if not settings.smtp_url:
        for name, is_set in (
            ("--mail-from", bool(settings.mail_from)),
            ("--smtp-password-file", settings.smtp_password_file is not None),
        ):
            if is_set:
                raise BadSetting(f"{name} needs --smtp-url: set it, or unset {name}")
        return None
    if not settings.mail_from:
        raise BadSetting("--smtp-url needs --mail-from: set it")
    url = urlsplit(settings.smtp_url)
    user, password = unquote(url.username or ""), _password(settings.smtp_password_file)
    if user and not password:
        raise BadSetting("--smtp-url with a user needs --smtp-password-file: set it")
    if password and not user:
        raise BadSetting("--smtp-password-file needs a user in --smtp-url, such as smtp://USER@HOST:587")
    is_implicit = url.scheme == "smtps"
    port = url.port or (465 if is_implicit else 587)
    name, address = parseaddr(settings.mail_from)
    return MailServer(url.hostname or "", port, user, password, is_implicit, not url.query, name, address)


def _password(path: Path | None) -> str:
    try:
        password = "" if path is None else path.read_text("utf-8").strip("\r\n")
    except (OSError, ValueError) as failure:
        raise BadSetting(f"--smtp-password-file: {path} cannot be read: {failure}") from None
    if path is not None and not (password and password.isprintable()):
        raise BadSetting(f"--smtp-password-file: {path} must hold the password on one line")
    return password


class Connections:
    """Connections to a mail server, opened as they are needed. Used by the event loop alone."""

    def __init__(self, server: MailServer) -> None:
        self._server = server
        self._used = 0
        self._idle: list[SMTP] = []
        # Messages that wait for a connection in use, first come first served. None: they open one.
        self._waiting: deque[asyncio.Future[SMTP | None]] = deque()

    async def send(self, message: EmailMessage | None, timeout_s: float = TIMEOUT_S) -> Outcome:
        """Send a message to its one recipient and return how that ended; raises nothing.

        Without a message, a connection and the sign-in are tried.
        """
        from aiosmtplib import SMTPException, SMTPRecipientsRefused, SMTPResponseException  # here: most send no mail

        client: SMTP | None = None
        kept = await self._kept()
        self._used += 1
        try:
            async with asyncio.timeout(timeout_s):
                client = kept if kept is not None and kept.is_connected else await self._opened()
                if message is not None:
                    sender, recipients = self._server.address, [str(message["To"])]
                    await client.sendmail(sender, recipients, message.as_bytes())
            return Outcome(status=250)
        except (SMTPException, OSError, ValueError) as failure:
            if not isinstance(failure, SMTPResponseException | SMTPRecipientsRefused):
                # An answer may be on its way, which the next message would take for its own.
                _close(client)
            return _outcome(failure)
        except BaseException:
            _close(client)
            raise
        finally:
            self._used -= 1
            self._give_back(client)

    async def _kept(self) -> "SMTP | None":
        """Return a connection that is open; None where one is to be opened."""
        if self._idle:
            return self._idle.pop()
        if not self._used:
            return None
        given: asyncio.Future[SMTP | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(given)
        try:
            await asyncio.wait([given], timeout=WAIT_S)
        except asyncio.CancelledError:
            if not given.cancel():
                self._give_back(given.result())
            raise
        return None if given.cancel() else given.result()

    async def _opened(self) -> "SMTP":
        from aiosmtplib import SMTP

        server = self._server
        # Reading the certificates takes 50 ms.
        context = await asyncio.to_thread(ssl.create_default_context) if server.has_tls else None
        client = SMTP(
            hostname=server.host,
            port=server.port,
            # Its default looks the name of this machine up, in which the event loop would wait.
            local_hostname=server.domain,
            timeout=STEP_S,
            use_tls=server.is_implicit_tls,
            start_tls=server.has_tls and not server.is_implicit_tls,
            tls_context=context,
        )
        try:
            await client.connect()
            if server.user:
                await client.login(server.user, server.password)
        except BaseException:
            client.close()
            raise
        return client

    def _give_back(self, client: "SMTP | None") -> None:
        """Hand a connection to a message that waits, or keep it for a while; None, or one that has ended, to none."""
        if client is not None and not client.is_connected:
            client = None
        while self._waiting:
            given = self._waiting.popleft()
            if not given.done():
                given.set_result(client)
                return
        if client is not None:
            self._idle.append(client)
            asyncio.get_running_loop().call_later(IDLE_S, self._expire, client)

    def _expire(self, client: "SMTP") -> None:
        if client in self._idle:
            self._idle.remove(client)
            client.close()

    def close(self) -> None:
        """Close the connections that no message uses."""
        while self._idle:
            self._idle.pop().close()


def _close(client: "SMTP | None") -> None:
    if client is not None:
        client.close()


async def send(server: MailServer, message: EmailMessage | None, timeout_s: float = TIMEOUT_S) -> Outcome:
    """Send a message by a connection of its own, as `Connections.send` does."""
    connections = Connections(server)
    try:
        return await connections.send(message, timeout_s)
    finally:
        connections.close()


def _outcome(failure: Exception) -> Outcome:
    from aiosmtplib import (
        SMTPAuthenticationError,
        SMTPDataError,
        SMTPNotSupported,
        SMTPRecipientsRefused,
        SMTPResponseException,
    )

    if isinstance(failure, SMTPRecipientsRefused):
        failure = failure.recipients[0]
        is_unknown = failure.code == 550 and failure.message.startswith("5.1.")
        return _refusal(failure, is_gone=is_unknown, is_final=failure.code >= 500)
    if isinstance(failure, SMTPAuthenticationError):
        return _refusal(failure, REASONS["mail_sign_in"])
    if isinstance(failure, SMTPDataError):
        return _refusal(failure, is_final=failure.code >= 500)
    if isinstance(failure, SMTPResponseException):
        return _refusal(failure)
    # The library has no class of its own for a server without STARTTLS.
    if isinstance(failure, SMTPNotSupported) or "STARTTLS extension" in str(failure):
        return Outcome(REASONS["mail_no_starttls"])
    return Outcome(REASONS[_reason(failure)])


# Of the errors of a connection, the first that fits.
_CAUSES: tuple[tuple[type[BaseException], str], ...] = (
    (ssl.SSLCertVerificationError, "mail_certificate"),
    (ssl.SSLError, "mail_no_tls"),
    (socket.gaierror, "mail_host_not_found"),
    (ConnectionRefusedError, "mail_refused"),
    (TimeoutError, "mail_timeout"),
)


def _reason(failure: Exception) -> str:
    """Return the code of why there was no connection, or why it ended."""
    from aiosmtplib import SMTPServerDisconnected

    causes = [*_causes(failure)]
    for kind, code in _CAUSES:
        if any(isinstance(one, kind) for one in causes):
            return code
    if any(isinstance(one, OSError) and one.errno in _UNREACHABLE for one in causes):
        return "mail_unreachable"
    return "mail_closed" if any(isinstance(one, SMTPServerDisconnected) for one in causes) else "mail_failed"


def _causes(failure: BaseException | None) -> Iterator[BaseException]:
    while failure is not None:
        yield failure
        failure = failure.__cause__ or failure.__context__


def _refusal(
    failure: "SMTPResponseException", words: str = "", *, is_gone: bool = False, is_final: bool = False
) -> Outcome:
    """Return the outcome of an answer of the server, with its code and the begin of its text."""
    text = re.sub(r"[^\x20-\x7e]+", " ", failure.message).strip()
    reply = f"{words and words + ': '}SMTP {failure.code} {text}".strip()[:_MAX_REPLY]
    return Outcome(reply, failure.code, is_gone=is_gone, is_final=is_final)
