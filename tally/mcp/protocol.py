"""JSON-RPC 2.0 and the two eras of the Model Context Protocol, without state: what a message is, and which are refused.

The revision 2026-07-28 has no `initialize` and no session: each request says in `params._meta`, and again in headers,
which revision it is of and what it calls. Clients of 2025-11-25 and older begin with `initialize`. A request is of the
newer era if it says so in any of these places; everything else is of the older one.

A Refusal is a JSON-RPC error with its HTTP status. The older era answers an error of a well-formed request with 200.
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Any, NamedTuple

from multidict import MultiMapping

MODERN = "2026-07-28"
LEGACY = ("2025-11-25", "2025-06-18", "2025-03-26")
"""The revisions with `initialize`, newest first."""
VERSION_KEY, CAPABILITIES_KEY, SERVER_KEY = (
    f"io.modelcontextprotocol/{name}" for name in ("protocolVersion", "clientCapabilities", "serverInfo")
)
"""The keys of `_meta` in the newer era."""
PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602
HEADER_MISMATCH, UNSUPPORTED_VERSION = -32020, -32022
_VERSION_HEADER = "MCP-Protocol-Version"
_BASE64_START, _BASE64_END = "=?base64?", "?="


class Refusal(Exception):
    """A JSON-RPC error: its code, message, HTTP status and data."""

    def __init__(self, code: int, message: str, status: int = 400, data: Any = None) -> None:
        super().__init__(code)
        self.code, self.message, self.status, self.data = code, message, status, data


class Message(NamedTuple):
    """A request. `meta`: `params._meta`, empty where there is none."""

    id: str | int
    method: str
    params: dict[str, Any]
    meta: Mapping[str, Any]


def read_message(sent: Any) -> Message | None:
    """Return the request that a body holds; None for a notification. Raises Refusal."""
    if isinstance(sent, list):
        raise Refusal(INVALID_REQUEST, "Batches are not supported: send one message in each request.")
    if not isinstance(sent, dict) or sent.get("jsonrpc") != "2.0" or not isinstance(sent.get("method"), str):
        raise Refusal(INVALID_REQUEST, 'The body must be a JSON-RPC request: an object with jsonrpc "2.0" and method.')
    if "id" not in sent:
        return None
    id = sent["id"]
    if not isinstance(id, str | int) or isinstance(id, bool):
        raise Refusal(INVALID_REQUEST, "id must be a string or an integer of at most 64 bits.")
    params = sent.get("params") or {}
    if not isinstance(params, dict):
        raise Refusal(INVALID_REQUEST, "params must be an object.")
    meta = params.get("_meta", {})
    return Message(id, sent["method"], params, meta if isinstance(meta, dict) else {})


def is_modern(message: Message, headers: MultiMapping[str]) -> bool:
    """Return whether a request is of the newer era, after checking what it says about that. Raises Refusal."""
    versions = headers.getall(_VERSION_HEADER, [])
    if VERSION_KEY in message.meta or MODERN in versions or message.method == "server/discover":
        _check_modern(message, headers)
        return True
    if message.method != "initialize" and versions and (len(versions) > 1 or versions[0] not in LEGACY):
        raise _unsupported((*LEGACY, MODERN), versions[0])
    return False


def _check_modern(message: Message, headers: MultiMapping[str]) -> None:
    missing = [key for key in (VERSION_KEY, CAPABILITIES_KEY) if key not in message.meta]
    if missing:
        raise Refusal(INVALID_PARAMS, f"params._meta must have {' and '.join(missing)}.")
    version, name = message.meta[VERSION_KEY], message.params.get("name")
    if headers.getall(_VERSION_HEADER, []) != [version]:
        raise Refusal(HEADER_MISMATCH, f"{_VERSION_HEADER} must be the version in params._meta.")
    if headers.getall("Mcp-Method", []) != [message.method]:
        raise Refusal(HEADER_MISMATCH, "Mcp-Method must be the method of the body.")
    if message.method == "tools/call" and [*map(_decoded, headers.getall("Mcp-Name", []))] != [name]:
        raise Refusal(HEADER_MISMATCH, "Mcp-Name must be params.name.")
    if version != MODERN:
        raise _unsupported((MODERN,), version)
    if not isinstance(message.meta[CAPABILITIES_KEY], dict):
        raise Refusal(INVALID_PARAMS, f"{CAPABILITIES_KEY} must be an object.")


def _decoded(header: str) -> str | None:
    """Return the value of a header that may be `=?base64?...?=`; None where that is malformed."""
    if not (header.startswith(_BASE64_START) and header.endswith(_BASE64_END)):
        return header
    try:
        return base64.b64decode(header[len(_BASE64_START) : -len(_BASE64_END)], validate=True).decode()
    except (binascii.Error, ValueError):
        return None


def _unsupported(supported: tuple[str, ...], requested: str) -> Refusal:
    data = {"supported": [*supported], "requested": requested[:100]}
    return Refusal(UNSUPPORTED_VERSION, f"Supported versions are {', '.join(supported)}.", data=data)


def legacy_version(requested: Any) -> str:
    """Return the revision that `initialize` answers: the requested one, or else the newest."""
    return requested if requested in LEGACY else LEGACY[0]
