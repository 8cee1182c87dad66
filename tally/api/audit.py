"""GET /api/account/audit: the audit log of the account (tally/accounts/audit.py), newest line first.

A line is numbered; `before` continues with older ones. Only people who may see the audit log read them, and there is no
route that changes or deletes lines. Texts of lines come from the person who made the change: CSV has them as all CSV
of this server does (tally/http/formats.py).
"""

import json
from typing import Any

import orjson
from aiohttp import web

from tally.accounts.audit import MAX_LINES, Line, lines
from tally.api import params
from tally.api.auth import AUTH
from tally.errors import INVALID_PARAMETER, ApiError
from tally.http.formats import csv_response
from tally.http.responses import json_response
from tally.timestamps import iso

_DEFAULT_LIMIT, _MAX_DIGITS = 100, 15
_PARAMETERS = ("before", "limit", "action", "website", "person", "account", "format")
_COLUMNS = ("number", "at", "actor", "via", "action", "website_id", "target", "detail")
_FORMATS = ("json", "csv", "ndjson")


async def audit(request: web.Request) -> web.Response:
    """GET /api/account/audit: at most `limit` lines older than `before`; of one `action`, `website` (id) or `person`.

    `format`: json, csv, or ndjson, an object a line.
    """
    auth = request.app[AUTH]
    owner = auth.account(request, await auth.session(request), "audit")
    params.refuse_other_than_utf8(request.raw_path)
    for name in request.query:
        if name not in _PARAMETERS or len(request.query.getall(name)) > 1:
            message = f"{name[:100]}: this request takes {', '.join(_PARAMETERS)}, each once."
            raise ApiError(INVALID_PARAMETER, message, field=name[:100])
    limit, before = _number(request, "limit"), _number(request, "before")
    if limit is not None and limit > MAX_LINES:
        raise ApiError(INVALID_PARAMETER, f"limit must be between 1 and {MAX_LINES} (got {limit}).", field="limit")
    kind = request.query.get("format", "json")
    if kind not in _FORMATS:
        message = f"format must be one of {', '.join(_FORMATS)} (got {params.shown(kind)})."
        raise ApiError(INVALID_PARAMETER, message, field="format")
    stored = await auth.registry.lookup(
        lines,
        owner.number,
        before=before,
        action=request.query.get("action"),
        website=request.query.get("website"),
        person=_number(request, "person"),
        limit=limit or _DEFAULT_LIMIT,
    )
    return _response([_shown(line) for line in stored], kind)


def _response(shown: list[dict[str, Any]], kind: str) -> web.Response:
    if kind == "ndjson":
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in shown)
        return web.Response(text=text, content_type="application/x-ndjson", charset="utf-8")
    if kind == "csv":
        rows = [(line | {"detail": orjson.Fragment(json.dumps(line["detail"]))}).values() for line in shown]
        return csv_response(_COLUMNS, [[*row] for row in rows])
    return json_response({"data": shown})


def _number(request: web.Request, name: str) -> int | None:
    text = request.query.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS and int(text)):
        raise ApiError(INVALID_PARAMETER, f"{name} must be a number from 1 on (got {text[:20]!r}).", field=name)
    return int(text)


def _shown(line: Line) -> dict[str, Any]:
    return {
        "number": line.number,
        "at": iso(line.ms),
        "actor": line.actor.name,
        "via": line.actor.via,
        "action": line.entry.action,
        "website_id": line.entry.website,
        "target": line.entry.target,
        "detail": line.entry.detail,
    }
