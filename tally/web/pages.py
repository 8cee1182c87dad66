"""The pages as files: one HTML shell for every address a person may open, and what it loads.

The files of static/ are read once, when the server starts, and packed; a request's path is looked up in that table and
never comes near the file system. Nothing in them is secret or differs from one browser to another: what a page shows it
asks of /api/account or /api/share.

Every file has an ETag and is asked about each time (`no-cache`): after an update nobody sees half of the old pages. The
shell forbids all that the pages do not need: scripts and styles but the server's own, frames (but for the page that
tally/web/heatmap_page.py is about), other origins; what every answer forbids (referrers, devices) is in
tally/errors.py.
"""

import gzip
import re
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from hashlib import blake2b
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from aiohttp import web

from tally import errors
from tally.errors import ApiError
from tally.http.request_paths import PREFIX_HEADER, public_prefix
from tally.http.responses import RESPONSE_HEADERS, SAME_ORIGIN_HEADERS
from tally.resources import asset

_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".mjs": "text/javascript; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".webp": "image/webp",
    "": "text/plain; charset=utf-8",  # LICENSE
}
SHELL, NOT_FOUND_SHELL = "app.html", "not_found.html"
# The links and the base path of a page are below the prefix that a trusted proxy names.
_BY_PREFIX = {"Vary": f"Accept-Encoding, {PREFIX_HEADER}"}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
    " font-src 'none'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
PAGE_HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    **SAME_ORIGIN_HEADERS,
}
# An icon opened by itself is a document: it runs nothing either.
FILE_HEADERS = {"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; sandbox", **SAME_ORIGIN_HEADERS}


NOT_FOUND_POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)


class File(NamedTuple):
    """A file as it is served; `packed` is empty where gzip does not make it smaller."""

    kind: str
    body: bytes
    packed: bytes
    tag: str


def file_of(path: Path) -> File:
    """A file, read and packed."""
    return packed_file(path.read_bytes(), path.suffix)


@cache
def packed_file(body: bytes, suffix: str) -> File:
    """A file with this body, of the type that the suffix says."""
    packed = gzip.compress(body, 9, mtime=0)
    tag = blake2b(body, digest_size=12).hexdigest()
    return File(_TYPES[suffix], body, packed if len(packed) < len(body) else b"", tag)


def files() -> dict[str, File]:
    """Every file of static/ that pages may load, by its path in it."""
    folder = asset("static")
    return {path.relative_to(folder).as_posix(): file_of(path) for path in _shown(folder)}


def _shown(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix in _TYPES and not path.name.startswith("."):
            yield path


FILES = web.AppKey("files", dict[str, File])


async def page(request: web.Request) -> web.Response:
    """The shell."""
    request[RESPONSE_HEADERS] = PAGE_HEADERS
    return answer(request, _below(request, SHELL), _BY_PREFIX)


def _below(request: web.Request, name: str) -> File:
    return _prefixed(request.app[FILES][name], public_prefix(request))


@lru_cache(32)  # two pages for each prefix by which clients reach the server
def _prefixed(file: File, prefix: str) -> File:
    """A page whose files and links are below a prefix; its meta element tells the scripts (static/shared/paths.js)."""
    if not prefix:
        return file
    there = prefix.encode()
    body = file.body.replace(b'name="base-path" content=""', b'name="base-path" content="%s"' % there)
    return packed_file(re.sub(rb'(href|src)="/', rb'\1="%s/' % there, body), ".html")


async def to_start(request: web.Request) -> web.Response:
    """GET of the base path without a slash at its end: the start page has one."""
    return web.Response(status=308, headers={"Location": f"{public_prefix(request)}/", "Vary": PREFIX_HEADER})


def shell(request: web.Request, frames: tuple[str, ...]) -> web.Response:
    """The shell that may also frame these sources: another answer than without them, and this browser's alone."""
    policy = POLICY + ("; frame-src " + " ".join(frames) if frames else "")
    request[RESPONSE_HEADERS] = {**PAGE_HEADERS, "Content-Security-Policy": policy}
    file = _below(request, SHELL)
    own = file._replace(tag=file.tag + blake2b(policy.encode(), digest_size=12).hexdigest())
    return answer(request, own, _BY_PREFIX, "private, no-cache")


def not_found(request: web.Request) -> web.Response:
    """The 404 page for browsers: the same for every path, so nothing of the request is in it. Runs no script."""
    request[RESPONSE_HEADERS] = {**PAGE_HEADERS, "Content-Security-Policy": NOT_FOUND_POLICY}
    page = _below(request, NOT_FOUND_SHELL)
    headers = {"Content-Type": page.kind, "Cache-Control": "no-store"}
    return web.Response(body=page.body, status=404, headers=headers)


async def asset_file(request: web.Request) -> web.Response:
    """GET /assets/{path}."""
    request[RESPONSE_HEADERS] = FILE_HEADERS
    found = request.app[FILES].get(request.match_info["path"])
    if found is None:
        raise ApiError(errors.NOT_FOUND)
    return answer(request, found)


def answer(
    request: web.Request, file: File, headers: Mapping[str, str] = MappingProxyType({}), cache_control: str = "no-cache"
) -> web.Response:
    """A file, packed where the client takes that; 304 where it has it."""
    packs = bool(file.packed) and _takes_gzip(request.headers.get("Accept-Encoding", ""))
    etag = f'"{file.tag}{"-gzip" if packs else ""}"'
    own = {"Vary": "Accept-Encoding", **headers, "ETag": etag, "Cache-Control": cache_control}
    if any(etag in given for given in request.headers.getall("If-None-Match", ())):
        return web.Response(status=304, headers=own)
    own["Content-Type"] = file.kind
    if packs:
        own["Content-Encoding"] = "gzip"
    return web.Response(body=file.packed if packs else file.body, headers=own)


def _takes_gzip(accept: str) -> bool:
    for part in accept.lower().split(","):
        name, _, weight = (piece.strip() for piece in part.partition(";"))
        if name == "gzip":
            return weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False
