"""The request with which a message is sent, for each kind of channel.

Texts may contain what visitors have sent, such as names of pages: no receiver may read them as markup or as a mention
of people. A body has at most MAX_BODY_BYTES.
"""

import hmac
import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Any, NamedTuple

from tally.notices.channels import Channel, Kind
from tally.notices.outbox import MAX_LISTED, Content, Message, New, Notice
from tally.notices.texts import Language, text
from tally.resources import tally_version
from tally.timestamps import SECOND_MS, iso

MAX_BODY_BYTES = 20_000
_MAX_TITLE, _MAX_TEXT = 200, 1_200
# Around the event of a notice among several.
_WRAPPER_BYTES = 200
# Of ntfy: default and highest.
_PRIORITY = {"normal": 3, "urgent": 5}


class Request(NamedTuple):
    """A POST request: where it is sent, its headers and its body."""

    url: str
    headers: Mapping[str, str]
    body: bytes


class Readable(NamedTuple):
    """What people read: a title, a text, and the address of a page with more ("": none)."""

    title: str
    text: str
    url: str
    is_urgent: bool


def message_id(notice: Notice) -> str:
    """Return the id by which a receiver recognises a message that is sent again."""
    return f"msg_{blake2b(notice.key.encode(), digest_size=16).hexdigest()}"


def request(message: Message, base_url: str, now_ms: int) -> Request:
    """Return the request for a message. `now_ms`: the wall time, against which a receiver checks the signature's."""
    channel = message.channel
    headers = {"Content-Type": "application/json", "User-Agent": f"Tally/{tally_version()}"}
    if channel.kind == "webhook":
        body = _webhook_body(message, base_url)
        headers |= _signature(channel, message_id(message.first), body, now_ms)
    else:
        body = _json(_BODIES[channel.kind](channel, readable(message, base_url)))
        if channel.config.get("token"):
            headers["Authorization"] = f"Bearer {channel.config['token']}"
    return Request(channel.config["url"], headers, body)


def _json(value: Any) -> bytes:
    # Texts may have lone surrogates, which UTF-8 has not.
    return json.dumps(value, separators=(",", ":")).encode()


# --- webhook


def _webhook_body(message: Message, base_url: str) -> bytes:
    if len(message.notices) == 1:
        return _json(_bounded_event(message.first, base_url))
    listed = message.notices[:MAX_LISTED]
    while True:
        events = [_bounded_event(one, base_url) for one in listed]
        data = {"notices": events, "more": len(message.notices) - len(listed)}
        body = _json({"type": "notices", "timestamp": iso(message.first.created_ms), "data": data})
        if len(body) <= MAX_BODY_BYTES:
            return body
        listed = listed[:-1]


def _bounded_event(notice: Notice, base_url: str) -> dict[str, Any]:
    """Return the event of a notice, without details where they are too long."""
    event = _event(notice, base_url)
    if len(_json(event)) > MAX_BODY_BYTES - _WRAPPER_BYTES:
        event["data"]["details"] = {}
    return event


def _event(notice: Notice, base_url: str) -> dict[str, Any]:
    content = notice.content
    shown = {
        "title": _cut(content.title, _MAX_TITLE),
        "text": _cut(content.text, _MAX_TEXT),
        "url": base_url + content.path if content.path and base_url else None,
        "priority": notice.priority,
        "details": content.data,
    }
    return {"type": notice.kind, "timestamp": iso(notice.created_ms), "data": shown}


def _signature(channel: Channel, id: str, body: bytes, now_ms: int) -> dict[str, str]:
    """Return the headers of Standard Webhooks: after a rotation with a signature by each valid key."""
    second = now_ms // SECOND_MS
    signed = f"{id}.{second}.".encode() + body
    keys = [b64decode(secret.removeprefix("whsec_")) for secret in channel.secrets(now_ms)]
    signatures = " ".join(f"v1,{b64encode(hmac.digest(key, signed, 'sha256')).decode()}" for key in keys)
    return {"webhook-id": id, "webhook-timestamp": str(second), "webhook-signature": signatures}


# --- for people


def readable(message: Message, base_url: str) -> Readable:
    """Return what people read of a message."""
    first, others, language = message.first.content, message.notices, message.channel.language
    url = base_url + first.path if base_url and first.path else ""
    is_urgent = any(one.priority == "urgent" for one in others)
    if len(others) == 1:
        return Readable(_cut(first.title, _MAX_TITLE), _cut(first.text, _MAX_TEXT), url, is_urgent)
    lines = [f"- {_cut(one.content.title, _MAX_TITLE)}" for one in others[:MAX_LISTED]]
    if len(others) > MAX_LISTED:
        lines.append(text(language, "notices.more", count=len(others) - MAX_LISTED))
    return Readable(text(language, "notices.several", count=len(others)), "\n".join(lines), url, is_urgent)


def _cut(words: str, most: int) -> str:
    return words if len(words) <= most else f"{words[: most - 1]}…"


def _ntfy(channel: Channel, text: Readable) -> dict[str, Any]:
    sent = {
        "topic": channel.config["topic"],
        "title": text.title,
        "message": text.text,
        "priority": _PRIORITY["urgent" if text.is_urgent else "normal"],
        "tags": ["warning" if text.is_urgent else "bar_chart"],
    }
    return sent | ({"click": text.url} if text.url else {})


def _slack(channel: Channel, text: Readable) -> dict[str, Any]:
    title, rest = _escaped(text.title), _escaped(text.text)
    link = f"\n<{text.url}|{_escaped(text.url)}>" if text.url else ""
    blocks = [{"type": "section", "text": {"type": "mrkdwn", "text": f"*{title}*\n{rest}{link}"[:3_000]}}]
    return {"text": f"*{title}*\n{rest}{link}", "blocks": blocks}


def _escaped(text: str) -> str:
    """Return a text for Slack and the programs that take its webhooks: no markup, no link, no mention."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    # Mattermost and Rocket.Chat read @all and @channel.
    return _without_links(text.replace("@", "@\u200b"))


def _without_links(text: str) -> str:
    """Return a text in which Markdown has no link with a text of its own: page names come from strangers."""
    return text.replace("](", "]\u200b(").replace("][", "]\u200b[")


def _discord(channel: Channel, text: Readable) -> dict[str, Any]:
    embed = {"title": _without_links(text.title), "description": _without_links(text.text)}
    embed |= {"url": text.url} if text.url else {}
    return {"embeds": [embed], "allowed_mentions": {"parse": []}}


def _apprise(channel: Channel, text: Readable) -> dict[str, Any]:
    body = f"{text.text}\n{text.url}".rstrip()
    return {"title": text.title, "body": body, "type": "warning" if text.is_urgent else "info", "format": "text"}


_BODIES: dict[Kind, Callable[[Channel, Readable], dict[str, Any]]] = {
    "ntfy": _ntfy,
    "slack": _slack,
    "discord": _discord,
    "apprise": _apprise,
}


def content_of_test(language: Language) -> Content:
    """Return what a test of a channel says."""
    title, words = text(language, "notices.test_title"), text(language, "notices.test_text")
    return Content(title, words, "/account/notifications")


def test_message(channel: Channel, now_ms: int) -> Message:
    """Return a message that tests a channel; it is not stored."""
    return unstored_message(channel, New(channel.account, "test", f"{now_ms}", content_of_test, now_ms), now_ms)


def unstored_message(channel: Channel, new: New, now_ms: int) -> Message:
    """Return a message of a notice that is not stored, with the id that it would have."""
    row = (0, new.key(channel.id), channel.account, channel.id, new.kind, new.priority, now_ms, now_ms, new.expires_ms)
    return Message(channel, [Notice._make((*row, new.content(channel.language), None, 1, "sending", None, None))])
