"""A request in another system's format, what is made of it, and conversions of values that several formats share.

A translator is a function from Received to Translation. It converts and drops values; whether an event is valid, and
whether its website accepts it, is decided by admission alone. It raises ApiError where nothing can be made of the
request. Values of the wrong type count as absent, so that no body can raise anything else.
"""

import contextlib
from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, quote

import orjson
from aiohttp import web
from multidict import CIMultiDictProxy

from tally import errors
from tally.errors import ApiError
from tally.events.json_text import read_json
from tally.events.sender import Sender
from tally.events.validation import MAX_BODY_BYTES, Batch
from tally.ingest.collector import Accepted

# Of an object in an object; deeper ones become their JSON.
_MAX_DEPTH = 5
_MAX_QUERY_FIELDS = 100


class Received(NamedTuple):
    """A request. `path_website` is the website's id or domain where the path has one, otherwise ""."""

    headers: CIMultiDictProxy[str]
    query: Mapping[str, str]
    body: bytes
    host: str
    path_website: str
    sender: Sender
    visitor: Callable[[Sender, str, str], Sender]
    """tally.events.sender.ClientResolver.visitor."""
    domain_of: Callable[[str], str]
    """The domain of a website by its id or host; "" for an unknown one."""


class Translation(NamedTuple):
    """The events of a request, which may be none, and the function that makes the answer once they are stored.

    `refused` replaces the format's where the answer to a refusal depends on the request.
    """

    batch: Batch
    answer: Callable[[Accepted], web.Response]
    refused: Callable[[ApiError], web.Response] | None = None


def json_value(body: bytes) -> Any:
    """Return the JSON value of a body. Raises ApiError."""
    try:
        return read_json(body)
    except ValueError:
        raise ApiError(errors.INVALID_JSON) from None


def json_object(body: bytes) -> dict[str, Any]:
    """Return the JSON object of a body. Raises ApiError."""
    value = json_value(body)
    if not isinstance(value, dict):
        raise ApiError(errors.INVALID_BODY)
    return value


def text(value: Any) -> str:
    """Return a text as it is, "" for any other value."""
    return value if isinstance(value, str) else ""


def first(value: Mapping[str, Any], *names: str) -> Any:
    """Return the first value that is not null, None if there is none."""
    return next((value[name] for name in names if value.get(name) is not None), None)


def session(value: Any) -> str | None:
    """Return the session_id of a user's or visit's id of any length; None where there is none."""
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        return None
    return blake2b(str(value).encode(), digest_size=16).hexdigest()


def scalars(value: Any) -> dict[str, Any]:
    """Return the event_data of an object: nested keys joined by dots, lists as JSON, without nulls and empty texts.

    An object whose joined keys are longer than a body is returned as it is, for admission to reject: each value repeats
    the keys around it, so that 64 KB of JSON would become 100 MB.
    """
    flat: dict[str, Any] = {}
    if isinstance(value, dict) and _flatten("", value, _MAX_DEPTH, flat, MAX_BODY_BYTES) < 0:
        return value
    return flat


def _flatten(prefix: str, value: Mapping[str, Any], depth: int, flat: dict[str, Any], left: int) -> int:
    """Add the values of an object; return the characters that are left for keys, negative if it ends early."""
    for name, item in value.items():
        key = prefix + name
        left -= len(key)
        if left < 0:
            break
        if isinstance(item, dict) and depth:
            left = _flatten(key + ".", item, depth - 1, flat, left)
        elif isinstance(item, dict | list):
            # orjson reads deeper nesting than it writes.
            with contextlib.suppress(orjson.JSONEncodeError):
                flat[key] = orjson.dumps(item).decode()
        elif item is not None and item != "":
            flat[key] = item
    return left


def with_utm(url: str, query: str, names: Mapping[str, Iterable[str]]) -> str:
    """Return a URL with utm values that it lacks: of each name, the first of the other parameters that `query` has."""
    sent: dict[str, str] = {}
    try:
        pairs = parse_qsl(query[:8_192], max_num_fields=_MAX_QUERY_FIELDS)
    except ValueError:
        return url
    for name, value in pairs:
        sent.setdefault(name, value)
    added = [
        f"{utm}={quote(value, safe='')}"
        for utm, others in names.items()
        if utm not in sent and (value := next((sent[name] for name in others if name in sent), ""))
    ]
    if not added:
        return url
    page, hash_, fragment = url.partition("#")
    return page + ("&" if "?" in page else "?") + "&".join(added) + hash_ + fragment


def query_of(url: str) -> str:
    """Return the query of a URL, without "?"."""
    return url.partition("#")[0].partition("?")[2]
