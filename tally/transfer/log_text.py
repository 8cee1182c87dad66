"""Divide a line of an access log in the common or combined format, or in one that is nearly one of them.

Needed are, in this order: words with the client's address, the time in brackets, the request in quotes and its status.
Servers are set to write more fields at any place, so the User-Agent is not taken by its position:

- It is the first field in quotes after the status that begins as browsers do (`Mozilla/`). The referrer is the URL
  beside it, before or after.
- Where there is none, the two fields after status and size are referrer and User-Agent, as in the combined format, or
  those two of which the first is a URL or a dash.
- A line without fields in quotes after the status is in the common format. One with other fields in quotes, or with a
  quote that is not closed, is rejected: with its User-Agent omitted, a crawler would count as a person.

A field in quotes ends at a quote before a space or the end of the line. So quotes within it may be escaped (`\\"` by
Apache, `\\x22` by nginx) or not.
"""

import re
from collections.abc import Sequence
from itertools import islice

from tally.events.user_agent import BROWSER_OPENINGS
from tally.events.validation import Rejection
from tally.transfer.log_request import (
    NO_AGENT,
    TWO_LINES,
    UNCLOSED,
    Request,
    address_of,
    addresses_in,
    client_of,
    is_agent,
    is_host,
    is_private,
    place_of,
)

_TOKEN = re.compile(r'"((?:[^"\\]++|\\.|"(?!\ |\Z))*+)"(?=\ |\Z)|\[([^\]]*+)\](?=\ |\Z)|[^ ]++')
# Usual lines have 12 to 30.
_MAX_TOKENS = 200
_TIME = re.compile(r"\[[0-9]{2}/[A-Z][a-z]{2}/[0-9]{4}:|\[[0-9]{4}-[0-9]{2}-[0-9]{2}T")
_REQUEST = re.compile(r"([A-Z]{3,20}) (\S++)(?: HTTP/[0-9.]++)?")
_STATUSES = frozenset(map(str, range(100, 600)))
# What follows the URI in nearly all requests.
_VERSIONS = (["HTTP/1.1"], ["HTTP/2.0"])
_SIZE = re.compile(r"[0-9]+|-")

_QUOTED, _BRACKETED, _WORD = 1, 2, 0
Token = tuple[int, str]
"""What encloses a field, and its text."""


def request_of(text: str) -> Request | Rejection | None:
    """Return the request of a line; None where it has none of the fields above."""
    usual = usual_request(text)
    return usual if usual is not None else any_request(text)


def usual_request(text: str) -> Request | None:
    """Return the request of a line in the combined format as nearly all are, in a third of the time; else None."""
    pieces = text.split('"')
    if len(pieces) != 7 or "\\" in text:
        return None
    first, request, numbers, referrer, between, agent, rest = pieces
    before, _, time = first.partition(" [")
    answer = numbers.split(" ")
    if (
        time[-2:] != "] "
        or not _TIME.match(first, len(before) + 1)
        or "]" in time[:-2]
        or "[" in before
        or len(answer) != 4
        or answer[0]
        or answer[3]
        or answer[1] not in _STATUSES
        or not (answer[2] == "-" or (answer[2].isdecimal() and answer[2].isascii()))
        or between != " "
        or (rest and rest != " ")
        or referrer.startswith(BROWSER_OPENINGS)
        or "[" in referrer
        or "[" in agent
    ):
        return None
    return _request(before, time[:-2], request, answer[1], answer[2], referrer, agent)


def any_request(text: str) -> Request | Rejection | None:
    """Return the same for a line with more fields, or with quotes in its fields."""
    matches = [*islice(_TOKEN.finditer(text), _MAX_TOKENS + 1)]
    tokens = [(one.lastindex or _WORD, one[one.lastindex or 0]) for one in matches]
    if len(tokens) > _MAX_TOKENS:
        return None
    if any(kind == _WORD and word.startswith('"') for kind, word in tokens):
        return UNCLOSED
    if len(_TIME.findall(text)) > 1:
        return TWO_LINES
    at = next((n for n, (kind, word) in enumerate(tokens) if kind == _BRACKETED and _TIME.match(f"[{word}")), None)
    if at is None:
        return None
    quoted = [n for n, (kind, _) in enumerate(tokens) if kind == _QUOTED and n > at]
    request = next((n for n in quoted if _REQUEST.match(tokens[n][1])), quoted[0] if quoted else None)
    if request is None:
        return None
    after = [n for n in quoted if n > request]
    before_quotes = range(request + 1, after[0] if after else len(tokens))
    status = next((n for n in before_quotes if tokens[n][1] in _STATUSES), None)
    if status is None:
        return None
    size = tokens[status + 1][1] if status + 1 < len(tokens) and _SIZE.fullmatch(tokens[status + 1][1]) else ""
    source = _source(tokens, after, status + (2 if size else 1))
    if isinstance(source, Rejection):
        return source
    before = " ".join(word for _, word in tokens[:at])
    host = next((word for _, word in tokens[at + 1 : request] if is_host(word)), "")
    found_request = _request(before, tokens[at][1], tokens[request][1], tokens[status][1], size, *source)
    if found_request is None:
        return None
    address = found_request.address
    if address_of(address) and is_private(address):
        address = client_of([address, *(one for n in after for one in addresses_in(tokens[n][1]))])
    return found_request._replace(address=address, host=found_request.host or host)


def _request(
    before: str, time: str, request: str, status: str, size: str, referrer: str | None, agent: str | None
) -> Request | None:
    place = place_of(before)
    if place is None:
        return None
    words = request.split(" ")
    if words[0] == "GET" and words[2:] in _VERSIONS and words[1]:
        method, uri = "GET", words[1]
    else:
        match = _REQUEST.fullmatch(request)
        method, uri = match.groups() if match else ("", "")
    is_whole = referrer is not None and agent is not None
    sent = None if agent is None else "" if agent == "-" else agent
    # As Request(...), in half the time.
    return tuple.__new__(
        Request, (time, method, uri, int(status), size, *place, referrer or "", sent, "", "", is_whole)
    )


def _source(tokens: Sequence[Token], quoted: Sequence[int], first: int) -> tuple[str | None, str | None] | Rejection:
    """Return the referrer and the User-Agent of the fields in quotes after the status; None for one that is not there.

    first: the place after status and size.
    """
    texts = {n: tokens[n][1] for n in quoted}
    agent = next((n for n, text in texts.items() if is_agent(text)), None)
    if agent is not None:
        beside = [texts[n] for n in (agent - 1, agent + 1) if n in texts]
        # Farther away only where quotes that are not escaped divide it.
        urls = [*beside, *(texts[n] for n in reversed(quoted) if n < agent and agent - 1 not in texts)]
        url = next((text for text in urls if "://" in text), None)
        before = texts.get(agent - 1)
        if url is None and before is not None and not address_of(before):
            url = before
        return url, texts[agent]
    if not texts:
        return NO_AGENT if any(is_agent(word) for _, word in tokens) else (None, None)
    if first in texts and first + 1 in texts:
        return texts[first], texts[first + 1]
    for n, text in texts.items():
        if n + 1 in texts and ("://" in text or text in ("", "-")):
            return text, texts[n + 1]
    return NO_AGENT
