"""/api/account/websites/{id}/imports: the imports of a website, the upload of a file, and undo.

An upload (tally/api/uploads.py) is begun with a name, a format and a size; its bytes follow in pieces. It is checked
when it is complete, and imported with POST. All of it is for the owner's session, with the rules of tally/api/auth.py.
"""

from functools import partial
from typing import Any

from aiohttp import web

from tally import errors
from tally.accounts import changes
from tally.accounts.audit import Entry
from tally.api.auth import AUTH, invalid, text
from tally.api.uploads import MAX_PIECE_BYTES, Upload, Uploads
from tally.errors import ApiError
from tally.events.website import Website
from tally.http.body import read_large_body
from tally.http.responses import json_response
from tally.storage import import_records
from tally.storage.import_records import UNDOING, ImportRecord
from tally.timestamps import DAY_MS, iso

UPLOADS = web.AppKey("uploads", Uploads)
_MAX_NAME_CHARACTERS = 255


async def imports(request: web.Request) -> web.Response:
    """GET .../imports: the imports, newest first, the upload, and what an upload may be."""
    website = await _website(request)
    return await _answer(request, website)


async def begin_upload(request: web.Request) -> web.Response:
    """POST .../imports/upload: begin an upload."""
    session, sent = await request.app[AUTH].session_and_body(request, ("name", "format", "size"))
    website = await request.app[AUTH].website(request, session, "configure")
    name, size, format = text(sent, "name"), sent.get("size"), text(sent, "format")
    if not 0 < len(name) <= _MAX_NAME_CHARACTERS or not name.isprintable():
        raise invalid("name", f"name must have 1 to {_MAX_NAME_CHARACTERS} printable characters.")
    if format not in _formats():
        raise invalid("format", f"format must be one of {', '.join(_formats())}.")
    if type(size) is not int or size < 1:
        raise invalid("size", "size must be the number of bytes of the file, at least 1.")
    request.app[UPLOADS].begin(website, name, format, size)
    return await _answer(request, website, 201)


async def add_piece(request: web.Request) -> web.Response:
    """PATCH .../imports/upload?offset=N: append the bytes of the body, which begin at byte N of the file."""
    website = await _website(request)
    upload = _upload(request, website)
    sent = request.query.get("offset", "")
    if not sent.isascii() or not sent.isdecimal() or len(sent) > 15:
        raise invalid("offset", f"offset must be a number of bytes (got {sent[:20]!r}).")
    request.app[UPLOADS].add(upload, int(sent), await read_large_body(request, MAX_PIECE_BYTES))
    return json_response({"data": {"upload": upload.shown()}})


async def remove_upload(request: web.Request) -> web.Response:
    """DELETE .../imports/upload: cancel what is done with the upload and remove it; what was imported stays."""
    session, _ = await request.app[AUTH].session_and_body(request, ())
    website = await request.app[AUTH].website(request, session, "configure")
    await request.app[UPLOADS].remove(_upload(request, website))
    return await _answer(request, website)


async def run_import(request: web.Request) -> web.Response:
    """POST .../imports: import the checked upload, or continue its import."""
    auth = request.app[AUTH]
    session, _ = await auth.session_and_body(request, ())
    website = await auth.website(request, session, "configure")
    upload = _upload(request, website)
    request.app[UPLOADS].refuse_unchecked(upload)
    # The events follow in many transactions of another process.
    entry = Entry("import_started", website.id, website.domain, {"format": upload.format, "file": upload.name})
    await auth.change(session, website.account, entry, changes.no_change)
    request.app[UPLOADS].run(upload)
    return await _answer(request, website, 202)


async def undo_import(request: web.Request) -> web.Response:
    """POST .../imports/{number}/undo: delete the events that an import stored, in the background."""
    from tally.transfer import undo  # here: a server that starts does not need it

    auth = request.app[AUTH]
    session, _ = await auth.session_and_body(request, ())
    website = await auth.website(request, session, "configure")
    number = request.match_info["number"]
    if not number.isascii() or not number.isdecimal() or len(number) > 9:
        raise ApiError(errors.UNKNOWN_IMPORT)
    try:
        entry = Entry("import_undone", website.id, website.domain, {"import": int(number)})
        now_ms = auth.clock.wall_ms()
        await auth.change(
            session,
            website.account,
            lambda record: [] if record.state_at(now_ms) == UNDOING else [entry],
            undo.begin,
            website.number,
            int(number),
            now_ms,
        )
    except undo.UnknownImport:
        raise ApiError(errors.UNKNOWN_IMPORT) from None
    except undo.CannotUndo as failure:
        raise invalid("number", str(failure)) from None
    return await _answer(request, website, 202)


async def _website(request: web.Request) -> Website:
    session = await request.app[AUTH].session(request)
    return await request.app[AUTH].website(request, session, "configure")


def _formats() -> list[str]:
    from tally.transfer.formats import IMPORTERS  # here: a server that starts does not need it

    return list(IMPORTERS)


def _upload(request: web.Request, website: Website) -> Upload:
    upload = request.app[UPLOADS].of(website)
    if upload is None:
        raise ApiError(errors.UNKNOWN_IMPORT, "The website has no upload: it was removed, or is imported.")
    return upload


async def _answer(request: web.Request, website: Website, status: int = 200) -> web.Response:
    auth, uploads = request.app[AUTH], request.app[UPLOADS]
    upload = uploads.of(website)
    records = await auth.node.database.read(partial(import_records.records, website=website.number))
    data = {
        "imports": [_shown(record, auth.clock.wall_ms()) for record in records],
        "upload": None if upload is None else upload.shown(),
        "formats": _formats(),
        "max_bytes": uploads.max_bytes,
        "piece_bytes": MAX_PIECE_BYTES,
    }
    return json_response({"data": data}, status)


def _shown(record: ImportRecord, now_ms: int) -> dict[str, Any]:
    return {
        "number": record.number,
        "format": record.format,
        "file": record.file,
        "state": record.state_at(now_ms),
        "begun_at": iso(record.begun_ms),
        "events": record.events,
        "sums": record.sums,
        "crawls": record.crawls,
        "duplicates": record.duplicates,
        "rejected": record.rejected,
        "skipped": record.skipped,
        "first_day": None if record.first_day is None else iso(record.first_day * DAY_MS)[:10],
        "last_day": None if record.last_day is None else iso(record.last_day * DAY_MS)[:10],
    }
