"""A request of an access log, from a line of text or a JSON object, before it becomes a pageview.

`place_of` finds the virtual host and the client's address among the words that a server writes before the time: the
address, a dash and the user; with the virtual host in front or (OVH) in place of the dash; with several addresses where
the log has X-Forwarded-For. Of several the first one that is not of a private network is the client's, since proxies
append theirs.
"""

import re
from collections.abc import Sequence
from ipaddress import ip_address
from typing import NamedTuple

from tally.events.client import PRIVATE_NETWORKS
from tally.events.user_agent import BROWSER_OPENINGS
from tally.events.validation import Rejection
from tally.transfer import values

CUT = Rejection(
    "invalid_line", "The last line has no line break and may be cut: import the complete file to get it too."
)
TWO_LINES = Rejection("invalid_line", "The line has two times: it is made of parts of two lines.")
NO_AGENT = Rejection("invalid_line", "The line has fields in quotes, and none of them is a User-Agent.")
UNCLOSED = Rejection("invalid_line", "A quote of the line is not closed: the line is cut.")

# What servers write where they have nothing; nginx calls a server without a name `_`.
_NOTHING = frozenset(("", "-", "_", "unknown"))
_HOST = re.compile(r"(?:[A-Za-z0-9_-]{1,63}\.)+[A-Za-z][A-Za-z0-9-]{1,62}(?::[0-9]{1,5})?")
# The end of an address whose beginning is cut.
_DIGITS = re.compile(r"[0-9.]*")
# With a list of addresses, and a user's name of several words. A line may have a million.
_MAX_WORDS = 50
_LIST = re.compile(r"[0-9A-Fa-f:., \[\]]{2,1000}")


class Request(NamedTuple):
    """A request. `time` is as written; `agent` is None where the log has no User-Agent, "" where the client sent none.

    is_whole: whether nothing can be missing that a cut line would lack.
    """

    time: object
    method: str
    uri: str
    status: int
    size: str
    host: str
    address: str
    referrer: str
    agent: str | None
    language: str = ""
    content_type: str = ""
    is_whole: bool = True


def is_agent(text: str) -> bool:
    """Return whether a text begins as the User-Agent of a browser does."""
    return text.startswith(BROWSER_OPENINGS)


def is_host(text: str) -> bool:
    """Return whether a text is a host's name with a dot, with or without a port."""
    return _HOST.fullmatch(text) is not None


@values.cached
def address_of(text: str) -> str:
    """Return the IP address of a text, which may have a port or brackets; "" where it is none."""
    inner = text[1:].partition("]")[0] if text[:1] == "[" else text.partition(":")[0] if text.count(":") == 1 else text
    try:
        ip_address(inner)
    except ValueError:
        return ""
    return inner


@values.cached
def is_private(text: str) -> bool:
    """Return whether an address is one of a private network."""
    address = ip_address(text)
    return any(address in network for network in PRIVATE_NETWORKS)


def client_of(addresses: Sequence[str]) -> str:
    """Return the client's address among those of a request: the first that is not private, else the first."""
    return next((address for address in addresses if not is_private(address)), addresses[0]) if addresses else ""


def addresses_in(text: str) -> list[str]:
    """Return the addresses of a list such as X-Forwarded-For; [] where one of them is none."""
    if not _LIST.fullmatch(text):
        return []
    addresses = [address_of(word.strip()) for word in text.split(",")]
    return addresses if all(addresses) else []


@values.cached
def place_of(before: str) -> tuple[str, str] | None:
    """Return the virtual host, "" where there is none, and the address, from the words before the time; None where the
    first ones are neither."""
    words = before.replace(",", " ").split(maxsplit=_MAX_WORDS)
    at = next((n for n, word in enumerate(words) if address_of(word)), None)
    if at is None:
        return _without_address(words)
    end = at + 1
    while end < len(words) and address_of(words[end]):
        end += 1
    addresses = [address_of(word) for word in words[at:end]]
    names = [word for word in words[:at] if word not in _NOTHING]
    if not names and len(words) - end >= 2 and is_host(words[end]):
        names = [words[end]]
    return names[0] if names else "", client_of(addresses)


def _without_address(words: Sequence[str]) -> tuple[str, str] | None:
    """The name of the client's host stands in place of its address where the server looks names up."""
    host, address = ("", words[0]) if len(words) < 4 else (words[0], words[1])
    if len(words) < 3 or (_DIGITS.fullmatch(address) and address):
        return None
    return "" if host in _NOTHING else host, address
