"""The pages as files: one HTML shell for every address that a browser opens, and the files that it loads.

The files of static/ are read as soon as the server listens, and each is compressed when it is first requested. A
request's path is looked up in that table, never in the file system. The files hold nothing secret and are the same for
every browser: the pages load their data from /api/account or /api/share.

Every file has an ETag and is revalidated each time (`no-cache`), so that no browser mixes files of two versions. The
shell's Content-Security-Policy forbids what the pages do not need: scripts and styles of other origins, and frames.
Headers that every answer has are in tally/http/responses.py.

The page of heatmaps differs: it draws over the website's own page, in a frame. Its policy names the website's own
addresses in `frame-src`: the domain, its subdomains, and its allowed origins, so that a made-up path leads nowhere
else. It does so for the website's owner alone; to others the page is the shell without frames. The frame runs no
script: the page sets `sandbox` (static/heatmaps/heatmap_view.js), since no header of ours applies to the framed page. A
browser keeps the policy of a page that it has loaded, so static/app.js reloads when this page is entered or left.

No page may be shown in a frame, except that of a share link, by the origins that its owner lists. Browsers send no
session cookie to frames of other sites (SameSite=Lax), and the page of a share link needs none.
"""

import gzip
import re
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from hashlib import blake2b
from pathlib import Path, PurePosixPath
from threading import Lock
from types import MappingProxyType
from typing import NamedTuple

import orjson
from aiohttp import web

from tally import errors
from tally.api.auth import AUTH
from tally.errors import ApiError
from tally.events.urls import is_address
from tally.events.website import Website
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
# Links and the base path of a page depend on the prefix that a trusted proxy sends.
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
# A file that is opened by itself, such as an icon, is a document, and runs nothing.
FILE_HEADERS = {"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; sandbox", **SAME_ORIGIN_HEADERS}


NOT_FOUND_POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)


class File(NamedTuple):
    """A file as it is served; `packed` is its gzip form, empty where that is not smaller."""

    kind: str
    body: bytes
    packed: bytes
    tag: str


# Comments and indentation are for readers of the source: a quarter of what the dashboard would load otherwise, gzipped.
# Removed are lines of comments, types within lines (JSDoc), and the white space that begins a line. No text of a script
# goes over several lines, and none has a comment of these forms (tests/api/test_pages.py).
_FOR_READERS = re.compile(
    rb"^[ \t]*/\*\*(?:(?!\*/).)*\*/[ \t]*\n|^[ \t]*//[^\n]*\n|/\*\* @(?:(?!\*/).)*\*/ ?|^[ \t]+",
    re.MULTILINE | re.DOTALL,
)
_STYLE_FOR_READERS = re.compile(rb"/\*(?:(?!\*/).)*\*/|^[ \t]+", re.MULTILINE | re.DOTALL)


def file_of(path: Path) -> File:
    """Return a file, read and compressed."""
    return packed_file(path.read_bytes(), path.suffix)


@cache
def packed_file(body: bytes, suffix: str) -> File:
    """Return a file with a body, of the type of a suffix such as .js."""
    packed = gzip.compress(body, 9, mtime=0)
    tag = blake2b(body, digest_size=12).hexdigest()
    return File(_TYPES[suffix], body, packed if len(packed) < len(body) else b"", tag)


@cache
def _own_file(body: bytes, suffix: str) -> File:
    """Return a script or a style sheet of the pages without comments and indentation; lines keep their numbers."""
    removed = _FOR_READERS if suffix == ".js" else _STYLE_FOR_READERS
    return packed_file(removed.sub(lambda match: b"\n" * match[0].count(b"\n"), body), suffix)


_reading = Lock()


def sources() -> dict[str, bytes]:
    """Return the contents of the files of static/, as they were when the process first read them.

    Any thread may call this. It takes 25 ms the first time.
    """
    with _reading:
        return _read_sources()


@cache
def _read_sources() -> dict[str, bytes]:
    folder = asset("static")
    sources = {path.relative_to(folder).as_posix(): path.read_bytes() for path in _shown(folder)}
    # A page loads only the texts of its parts: messages/en/funnels.json is one part of messages/en.json.
    for path in [path for path in sources if path.startswith("messages/")]:
        for part, texts in orjson.loads(sources.pop(path)).items():
            sources[f"{path.removesuffix('.json')}/{part}.json"] = orjson.dumps(texts)
    return sources


class Files:
    """Every file of static/ that pages may load, by its path below static/."""

    def __contains__(self, path: str) -> bool:
        return path in sources()

    def __getitem__(self, path: str) -> File:
        """Return a file as it is served. Raises KeyError."""
        body, suffix = sources()[path], PurePosixPath(path).suffix
        is_own = suffix in (".js", ".css") and not path.startswith("vendor/")
        return _own_file(body, suffix) if is_own else packed_file(body, suffix)


def _shown(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix in _TYPES and not path.name.startswith("."):
            yield path


FILES = web.AppKey("files", Files)


async def page(request: web.Request) -> web.Response:
    """GET of any page: the shell."""
    request[RESPONSE_HEADERS] = PAGE_HEADERS
    return answer(request, _below(request, SHELL), _BY_PREFIX)


def _below(request: web.Request, name: str) -> File:
    return _prefixed(request.app[FILES][name], public_prefix(request))


@lru_cache(32)  # two pages for each prefix by which clients reach the server
def _prefixed(file: File, prefix: str) -> File:
    """Return a page whose links are below a prefix; scripts read it from a meta element (static/shared/paths.js)."""
    if not prefix:
        return file
    there = prefix.encode()
    body = file.body.replace(b'name="base-path" content=""', b'name="base-path" content="%s"' % there)
    return packed_file(re.sub(rb'(href|src)="/', rb'\1="%s/' % there, body), ".html")


async def to_start(request: web.Request) -> web.Response:
    """GET of the base path without a slash at its end: a redirect to the start page, which has one."""
    return web.Response(status=308, headers={"Location": f"{public_prefix(request)}/", "Vary": PREFIX_HEADER})


def shell(request: web.Request, policy: str) -> web.Response:
    """Return the shell with a policy of its own; not to be stored by shared caches."""
    request[RESPONSE_HEADERS] = {**PAGE_HEADERS, "Content-Security-Policy": policy}
    file = _below(request, SHELL)
    tagged = file._replace(tag=file.tag + blake2b(policy.encode(), digest_size=12).hexdigest())
    return answer(request, tagged, _BY_PREFIX, "private, no-cache")


async def heatmap_page(request: web.Request) -> web.Response:
    """GET /websites/{id}/heatmaps: the shell, which may frame the website's pages on the owner's request."""
    session = request.app[AUTH].found(request)
    if session is None:
        return await page(request)
    try:
        website = await request.app[AUTH].website(request, session, "read")
    except ApiError:
        return await page(request)
    frames = frames_of(website)
    return shell(request, POLICY + ("; frame-src " + " ".join(frames) if frames else ""))


async def share_page(request: web.Request) -> web.Response:
    """GET /share/{token}: the shell, which pages of the link's origins may show in a frame."""
    link = request.app[AUTH].registry.cache.shares.get(request.match_info["token"])
    if link is None or not link.options.origins:
        return await page(request)
    ancestors = f"frame-ancestors {' '.join(link.options.origins)}"
    return shell(request, POLICY.replace("frame-ancestors 'none'", ancestors))


def frames_of(website: Website) -> tuple[str, ...]:
    """Return the sources of frame-src for a website's pages.

    IPv6 addresses are omitted: the syntax of a policy has no form for them.
    """
    names = [website.domain] if is_address(website.domain) else [website.domain, f"*.{website.domain}"]
    sources = [f"{scheme}://{name}" for name in names for scheme in ("https", "http")]
    if website.domain == "localhost" or (is_address(website.domain) and website.domain.startswith("127.")):
        # Developers run a website of this computer on any port, which is not stored with its pages.
        sources.append(f"http://{website.domain}:*")
    listed = sorted(origin for origin in website.origins if origin.startswith(("https://", "http://")))
    return tuple(source for source in (*sources, *listed) if "[" not in source)


def not_found(request: web.Request) -> web.Response:
    """Return the 404 page for browsers, the same for every path: with no script, or the shell for a session."""
    is_shell = request.app[AUTH].found(request) is not None
    request[RESPONSE_HEADERS] = (
        PAGE_HEADERS if is_shell else {**PAGE_HEADERS, "Content-Security-Policy": NOT_FOUND_POLICY}
    )
    page = _below(request, SHELL if is_shell else NOT_FOUND_SHELL)
    headers = {"Content-Type": page.kind, "Cache-Control": "no-store"}
    return web.Response(body=page.body, status=404, headers=headers)


async def asset_file(request: web.Request) -> web.Response:
    """GET /assets/{path}: a file of static/."""
    request[RESPONSE_HEADERS] = FILE_HEADERS
    files, path = request.app[FILES], request.match_info["path"]
    if path not in files:
        raise ApiError(errors.NOT_FOUND)
    return answer(request, files[path])


def answer(
    request: web.Request, file: File, headers: Mapping[str, str] = MappingProxyType({}), cache_control: str = "no-cache"
) -> web.Response:
    """Return a response with a file, compressed where the client accepts gzip; 304 where the client has it."""
    packs = bool(file.packed) and _takes_gzip(request.headers.get("Accept-Encoding", "")[:1_000])
    etag = f'"{file.tag}{"-gzip" if packs else ""}"'
    fields = {"Vary": "Accept-Encoding", **headers, "ETag": etag, "Cache-Control": cache_control}
    if any(etag in tags for tags in request.headers.getall("If-None-Match", ())):
        return web.Response(status=304, headers=fields)
    fields["Content-Type"] = file.kind
    if packs:
        fields["Content-Encoding"] = "gzip"
    return web.Response(body=file.packed if packs else file.body, headers=fields)


def _takes_gzip(accept: str) -> bool:
    for part in accept.lower().split(","):
        name, _, weight = (piece.strip() for piece in part.partition(";"))
        if name == "gzip":
            return weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False
