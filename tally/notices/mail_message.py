"""The mail of a message: text and HTML, with headers that name what it is and how it ends.

`email.message` writes the headers: a value with a line break is refused there. Texts may contain what visitors have
sent: in HTML they are text. No image, no script and no address but that of this server is in a mail.
"""

from datetime import UTC, datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from html import escape

from tally.notices import summary_html
from tally.notices.channels import Channel
from tally.notices.mail import MailServer
from tally.notices.mail_html import button, document, paragraph, styled
from tally.notices.outbox import CONFIRMATION, Message
from tally.notices.requests import message_id, readable
from tally.notices.texts import Language, text
from tally.timestamps import SECOND_MS

# RFC 3834: no program answers.
_HEADERS = {"Auto-Submitted": "auto-generated", "X-Auto-Response-Suppress": "All"}


def mail(message: Message, server: MailServer, base_url: str, token: str, now_ms: int) -> EmailMessage:
    """Return the mail of a message. `token`: of the link that unsubscribes (`channels.link_token`)."""
    channel, language = message.channel, message.channel.language
    own, unsubscribe = readable(message, base_url), f"{base_url}/unsubscribe/{token}" if base_url else ""
    is_question = message.first.kind == CONFIRMATION
    label = text(language, "mail.confirm") if is_question else text(language, "mail.open")
    written = _empty_mail(channel, server, own.title, now_ms)
    written["Message-ID"] = f"<{message_id(message.first)}@{server.domain}>"
    if not is_question:
        written["List-Id"] = f"<{channel.id}.{server.domain}>"
        if unsubscribe.startswith("https://"):
            written["List-Unsubscribe"] = f"<{unsubscribe}>"
            written["List-Unsubscribe-Post"] = "List-Unsubscribe=One-Click"
    footer = _footer(language, base_url, "" if is_question else unsubscribe)
    link = f"{label}: {own.url}\n\n" if own.url else ""
    written.set_content(_clean(f"{own.text}\n\n{link}-- \n{footer[0]}\n"), cte="quoted-printable")
    body = _body(message, own.text, base_url) + (button(label, own.url) if own.url else "")
    html = document(language, escape(own.title), body, footer[1])
    written.add_alternative(_clean(html), subtype="html", cte="quoted-printable")
    return written


def _empty_mail(channel: Channel, server: MailServer, subject: str, now_ms: int) -> EmailMessage:
    written = EmailMessage(SMTP)
    written["From"] = Address(server.name, addr_spec=server.address)
    written["To"] = channel.config["address"]
    # `email` decodes encoded words (RFC 2047) in a value, and writes the line breaks that they have.
    plain = "".join(one if one.isprintable() else " " for one in subject)
    written["Subject"] = plain.replace("=?", "=\u200b?")
    written["Date"] = datetime.fromtimestamp(now_ms // SECOND_MS, UTC)
    for name, value in _HEADERS.items():
        written[name] = value
    return written


def _body(message: Message, words: str, base_url: str) -> str:
    first = message.first
    if first.kind.startswith("summary.") and len(message.notices) == 1:
        return summary_html.body(message.channel.language, first.content.data, base_url)
    return paragraph(escape(words).replace("\n", "<br>"))


def _clean(words: str) -> str:
    """Return a text without lone surrogates, which UTF-8 has not."""
    return words.encode("utf-8", "replace").decode()


def _footer(language: Language, base_url: str, unsubscribe: str) -> tuple[str, str]:
    """Return what is below a mail, as text and as HTML."""
    words = text(language, "mail.sent_by", server=base_url or "Tally")
    if not unsubscribe:
        return words, escape(words)
    label = text(language, "mail.unsubscribe")
    return (
        f"{words}\n{label}: {unsubscribe}",
        f'{escape(words)}<br><a href="{escape(unsubscribe)}" {styled("link")}>{escape(label)}</a>',
    )
