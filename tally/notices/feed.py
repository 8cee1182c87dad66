"""The Atom feed of an account's notices (RFC 4287), at an address with a secret token.

Ids never change, so that a reader shows no entry twice: they are of the key of a notice. Texts are text, not markup,
and without the characters that XML cannot have.
"""

import re
from collections.abc import Sequence
from hashlib import blake2b
from xml.etree.ElementTree import Element, SubElement, tostring

from tally.notices.channels import Channel
from tally.notices.outbox import Notice
from tally.timestamps import iso

MAX_ENTRIES = 100
_ATOM = "http://www.w3.org/2005/Atom"
# XML 1.0, 2.2: other characters make a document that no reader accepts.
_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def atom(channel: Channel, notices: Sequence[Notice], base_url: str) -> bytes:
    """Return the document with notices, newest first. `base_url`: where the server's pages are, "" where unknown."""
    feed = Element("feed", xmlns=_ATOM)
    updated_ms = notices[0].created_ms if notices else channel.created_ms
    _add(feed, "id", _tag(f"channel:{channel.id}"))
    _add(feed, "title", f"Tally: {channel.name}")
    _add(feed, "updated", iso(updated_ms))
    SubElement(SubElement(feed, "author"), "name").text = "Tally"
    for notice in notices:
        entry = SubElement(feed, "entry")
        _add(entry, "id", _tag(notice.key))
        _add(entry, "title", notice.content.title)
        _add(entry, "updated", iso(notice.created_ms))
        _add(entry, "content", notice.content.text)
        if base_url and notice.content.path:
            SubElement(entry, "link", href=base_url + notice.content.path)
    document: bytes = tostring(feed, "utf-8", xml_declaration=True)
    return document


def _add(parent: Element, name: str, text: str) -> None:
    SubElement(parent, name).text = _ILLEGAL.sub("\ufffd", text)


def _tag(key: str) -> str:
    """Return a tag URI (RFC 4151)."""
    return f"tag:tally.invalid,2026:{blake2b(key.encode(), digest_size=16).hexdigest()}"
