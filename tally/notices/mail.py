"""Send a message to an email address by the mail server of --smtp-url.

One connection for each message. The certificate of the server is always checked, and a password is sent with TLS alone.
A step takes at most STEP_S. What the server answers decides about further attempts: a message that it refuses for good
(5xx for the recipient or the text) is not tried again, and an unknown mailbox (550 5.1.x) pauses the channel. All else,
such as a wrong password of this server, is tried again.
"""

import asyncio
import re
import ssl
from email.message import EmailMessage
from email.utils import parseaddr
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urlsplit

from tally.notices.outbox import Outcome
from tally.settings import BadSetting, Settings

if TYPE_CHECKING:
    from aiosmtplib import SMTPResponseException

STEP_S = 20.0
# Of a whole exchange.
TIMEOUT_S = 60.0
_MAX_REPLY = 200


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


async def send(server: MailServer, message: EmailMessage | None, timeout_s: float = TIMEOUT_S) -> Outcome:
    """Send a message to its one recipient and return how that ended; raises nothing.

    Without a message, the connection and the sign-in are tried.
    """
    from aiosmtplib import SMTPException  # here: most servers send no mail

    try:
        async with asyncio.timeout(timeout_s):
            return await _exchange(server, message)
    except TimeoutError:
        return Outcome("the mail server did not answer in time")
    except (SMTPException, OSError, ValueError) as failure:
        return _outcome(failure)


async def _exchange(server: MailServer, message: EmailMessage | None) -> Outcome:
    from aiosmtplib import SMTP

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
        if message is not None:
            await client.sendmail(server.address, [str(message["To"])], message.as_bytes())
    except BaseException:
        client.close()
        raise
    # The message is accepted: what comes of QUIT does not matter.
    client.close()
    return Outcome(status=250)


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
        return _refusal(failure, "the mail server refused the user or the password")
    if isinstance(failure, SMTPDataError):
        return _refusal(failure, is_final=failure.code >= 500)
    if isinstance(failure, SMTPResponseException):
        return _refusal(failure)
    # The library has no class of its own for a server without STARTTLS.
    if isinstance(failure, SMTPNotSupported) or "STARTTLS extension" in str(failure):
        return Outcome("the mail server offers no STARTTLS or no sign-in, as --smtp-url requires")
    if _is_bad_certificate(failure):
        return Outcome("the certificate of the mail server is not valid")
    return Outcome("the connection to the mail server failed")


def _refusal(
    failure: "SMTPResponseException", words: str = "", *, is_gone: bool = False, is_final: bool = False
) -> Outcome:
    """Return the outcome of an answer of the server, with its code and the begin of its text."""
    text = re.sub(r"[^\x20-\x7e]+", " ", failure.message).strip()
    reply = f"{words and words + ': '}SMTP {failure.code} {text}".strip()[:_MAX_REPLY]
    return Outcome(reply, failure.code, is_gone=is_gone, is_final=is_final)


def _is_bad_certificate(failure: BaseException | None) -> bool:
    while failure is not None:
        if isinstance(failure, ssl.SSLCertVerificationError):
            return True
        failure = failure.__cause__ or failure.__context__
    return False
