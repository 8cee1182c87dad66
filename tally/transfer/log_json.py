"""Find the request in a JSON object of a log: of Caddy, of Traefik, or as nginx and Apache are set to write it.

Names of keys are compared in lower case, without separators, and with those of the objects that they are in: Caddy's
`{"request": {"headers": {"User-Agent": [...]}}}` is `requestheadersuseragent`. So one table has the names of all
servers; of several keys the first in it counts.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import orjson

from tally.events.json_text import read_json
from tally.events.validation import Rejection
from tally.transfer.log_request import Request, addresses_in, client_of
from tally.transfer.records import Skip

OTHER_ENTRY = Skip("entries that are no requests")
NO_JSON = Rejection("invalid_line", "The line is not JSON in UTF-8.")
NO_REQUEST = Rejection(
    "invalid_line",
    "The JSON has no request that can be read: it needs a time, a status, and the request line or method and URI,"
    " under the names of Caddy, Traefik or nginx's variables.",
)

_KEYS = {
    "time": (
        "startutc",
        "startlocal",
        "ts",
        "timeiso8601",
        "timelocal",
        "msec",
        "timestamp",
        "time",
        "datetime",
        "date",
    ),
    "request": ("request", "requestline"),
    "method": ("requestmethod", "method", "httprequestmethod", "httpmethod", "verb"),
    "uri": ("requesturi", "requestpath", "uri", "urloriginal", "url", "requesturl", "urlpath", "path"),
    "query": ("args", "querystring", "urlquery", "query"),
    "status": (
        *("downstreamstatus", "status", "statuscode", "responsestatus", "responsecode", "responsestatuscode"),
        "httpresponsestatuscode",
    ),
    "size": ("size", "bodybytessent", "bytessent", "downstreamcontentsize", "responsesize", "bytes"),
    "host": ("requesthost", "httphost", "host", "vhost", "virtualhost", "domain", "requestaddr", "servername"),
    "referrer": (
        *("httpreferer", "httpreferrer", "referer", "referrer", "requestreferer", "requestheadersreferer"),
        "httprequestreferrer",
    ),
    "agent": (
        "httpuseragent",
        "useragent",
        "agent",
        "requestuseragent",
        "requestheadersuseragent",
        "useragentoriginal",
    ),
    "language": ("requestheadersacceptlanguage", "requestacceptlanguage", "httpacceptlanguage", "acceptlanguage"),
    "content_type": ("respheaderscontenttype", "downstreamcontenttype", "senthttpcontenttype", "contenttype"),
}
_ADDRESSES = (
    *("requestclientip", "requestremoteip", "clientip", "remoteip", "remoteaddr", "clienthost", "requestremoteaddr"),
    *("realip", "httpxrealip", "clientaddr", "clientaddress", "remotehost", "sourceip", "ip", "client"),
    *("httpxforwardedfor", "xforwardedfor", "requestxforwardedfor", "requestheadersxforwardedfor"),
)
# The header of Caddy's objects: a browser that sends none has no such key.
_HEADERS = "request"
_LEVELS, _LONGEST_KEY = 4, 64
_SEPARATORS = re.compile(r"[^a-z0-9]+")
_LINE = re.compile(r"([A-Z]{3,20}) (\S++)(?: HTTP/[0-9.]++)?")
# nginx escapes so without `escape=json`, which is no JSON.
_ESCAPED_BYTES = re.compile(rb"(?:\\x[0-9A-Fa-f]{2})++")


def request_of(line: bytes) -> Request | Skip | Rejection:
    """Return the request of a line."""
    try:
        entry = read_json(line)
    except ValueError:
        try:
            entry = read_json(_ESCAPED_BYTES.sub(_as_json, line))
        except ValueError:
            return NO_JSON
    fields: dict[str, Any] = {}
    _flatten(entry, "", _LEVELS, fields)
    text = {name: _first(fields, keys) for name, keys in _KEYS.items()}
    line_of_request = _LINE.fullmatch(text["request"])
    method, uri = line_of_request.groups() if line_of_request else (text["method"], text["uri"])
    if not uri and text["request"].startswith("/"):
        uri = text["request"]
    status = text["status"]
    if not uri or not (len(status) <= 3 and status.isascii() and status.isdecimal()):
        return OTHER_ENTRY if {"level", "msg", "message"} & fields.keys() else NO_REQUEST
    if not method:
        return NO_REQUEST
    query = text["query"].removeprefix("?")
    if query not in ("", "-") and "?" not in uri:
        uri = f"{uri}?{query}"
    addresses = [address for key in _ADDRESSES for address in addresses_in(_text(fields.get(key)))]
    has_headers = isinstance(entry.get(_HEADERS), dict)
    has_agent = has_headers or any(fields.get(key) is not None for key in _KEYS["agent"])
    agent = text["agent"] if has_agent else None
    return Request(
        next((fields[key] for key in _KEYS["time"] if fields.get(key) not in (None, "", "-")), None),
        method,
        uri,
        int(status),
        text["size"],
        "" if text["host"] in ("-", "_") else text["host"],
        client_of(addresses),
        text["referrer"],
        "" if agent == "-" else agent,
        text["language"],
        text["content_type"],
    )


def _flatten(value: Mapping[str, Any], prefix: str, levels: int, fields: dict[str, Any]) -> None:
    for key, child in value.items():
        if len(key) > _LONGEST_KEY:
            continue
        name = prefix + _plain(key)
        if isinstance(child, dict):
            if levels > 1:
                _flatten(child, name, levels - 1, fields)
        else:
            fields.setdefault(name, child[0] if isinstance(child, list) and child else child)


@lru_cache(1_024)
def _plain(key: str) -> str:
    return _SEPARATORS.sub("", key.lower())


def _first(fields: Mapping[str, Any], keys: tuple[str, ...]) -> str:
    return next((text for key in keys if (text := _text(fields.get(key)))), "")


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else ""


def _as_json(escaped: re.Match[bytes]) -> bytes:
    """Return escaped bytes as they are written in a JSON text."""
    text = bytes.fromhex(escaped[0].decode().replace("\\x", "")).decode("utf-8", "replace")
    return orjson.dumps(text)[1:-1]
