"""The tracker as websites load it: the script, its optional parts, and the pixel for browsers without scripts.

/tracker.js is static/tracker.js, minified (tally/web/minifier.py), with the configured collect path;
/tracker/{part}.js are its parts, unchanged. Query strings are ignored: the script reads `?id=<website id>` from its own
URL, and every URL has the same body and ETag. A configured script path serves the same files, such as /js/site.js and
/js/site/{part}.js. The collect path is relative to the script's URL, so that a proxy may serve Tally below any path.

All files are read, compressed and given ETags when the server starts. Pages of any origin may load them (CORS, CORP),
and browsers store them for a day.

The pixel counts a view of the page in its Referer header. It passes the same checks as a POST, in the same order, and
always answers the same GIF: an image cannot report an error, and a page should not show a broken image.
"""

import posixpath
import re
from collections.abc import Iterable

from aiohttp import web
from aiohttp.typedefs import Handler

from tally import errors
from tally.errors import ApiError, Unanswered
from tally.events.validation import Batch
from tally.http.middleware import ERROR_COUNTS, to_api_error
from tally.http.request_paths import COLLECT_PATHS, local_path
from tally.http.responses import GIF
from tally.ingest.collector import COLLECTOR, collect, preflight, sender_of, take
from tally.resources import asset
from tally.settings import BadSetting, Settings
from tally.storage.crawler_days import PIXEL
from tally.web.minifier import compact
from tally.web.pages import File, answer, file_of, packed_file

SCRIPT = "/tracker.js"
# The vendored file is described in static/vendor/README.md.
PARTS = {
    "choice": "static/tracker/choice.js",
    "console": "static/tracker/console.js",
    "heatmap": "static/tracker/heatmap.js",
    "leave": "static/tracker/leave.js",
    "links": "static/tracker/links.js",
    "vitals": "static/tracker/vitals.js",
    "web-vitals": "static/vendor/web-vitals-6.2.3/web-vitals.js",
}
# Other systems' names of scripts, and what their own script's endpoint is there (tally/ingest/compat/formats.py takes
# the tracker's batches too), so that a proxy which passes on these two paths alone keeps working. All names of
# Plausible's scripts, such as /js/script.hash.js, have one file.
_PLAUSIBLE = "/js/script.js"
_COMPAT = {"/script.js": "/api/send", "/count.js": "/count", _PLAUSIBLE: "/api/event"}
# What is a comment in the tracker and code in these.
_COMPAT_LINE = "// compat: "
_PLAUSIBLE_NAME = re.compile(r"/js/(?:script|plausible|pa-)")
# The text in static/tracker.js that is replaced by the configured path.
_COLLECT = b'"api/collect"'
# An update of the server reaches every page within a day, and a visit takes one request for the script.
_CACHE = "public, max-age=86400"
_OPEN = {"Access-Control-Allow-Origin": "*", "Cross-Origin-Resource-Policy": "cross-origin"}

ConfiguredRoute = tuple[str, str, Handler, Handler | None]
"""Method, path, handler, and the handler of OPTIONS."""

TRACKER = web.AppKey("tracker", dict[str, File])


def tracker_files(settings: Settings) -> dict[str, File]:
    """Return the tracker and its parts, by their paths."""
    source = compact(asset("static/tracker.js").read_text("utf-8")).encode()
    parts = {name: file_of(asset(path)) for name, path in PARTS.items()}
    files: dict[str, File] = {}
    for path in {SCRIPT, settings.script_path}:
        collect_path = posixpath.relpath(settings.collect_path, posixpath.dirname(path))
        files[path] = packed_file(source.replace(_COLLECT, f'"{collect_path}"'.encode()), ".js")
        files |= {part_path(path).replace("{part}", name): part for name, part in parts.items()}
    return files | _compat_files()


def _compat_files() -> dict[str, File]:
    """Return the tracker under other systems' names, by their paths."""
    first = compact(asset("static/tracker/compat.js").read_text("utf-8"))
    source = compact(asset("static/tracker.js").read_text("utf-8").replace(_COMPAT_LINE, ""))
    files: dict[str, File] = {}
    for path, endpoint in _COMPAT.items():
        collect_path = posixpath.relpath(endpoint, posixpath.dirname(path))
        script = f"{first}\n{source}".encode().replace(_COLLECT, f'"{collect_path}"'.encode())
        files[path] = packed_file(script, ".js")
    return files


def part_path(script_path: str) -> str:
    """Return the path of a script's parts: /js/site.js -> /js/site/{part}.js."""
    return script_path.removesuffix(".js") + "/{part}.js"


def configured_routes(settings: Settings, taken: Iterable[str]) -> list[ConfiguredRoute]:
    """Return the routes of configured paths. Raises BadSetting for one that collides with `taken` paths."""
    routes: list[ConfiguredRoute] = []
    if settings.script_path != SCRIPT:
        routes += [("GET", path, script, None) for path in (settings.script_path, part_path(settings.script_path))]
    if settings.collect_path != COLLECT_PATHS[0]:
        routes.append(("POST", settings.collect_path, collect, preflight))
    # Paths below /js/ are free but for the names of Plausible's scripts.
    ours = {path.split("/")[1].removesuffix(".js") for path in taken if not path.startswith("/js/")}
    for _, path, _, _ in routes:
        is_taken = path.split("/")[1].removesuffix(".js") in ours or _PLAUSIBLE_NAME.match(path)
        if is_taken or settings.collect_path == settings.script_path:
            raise BadSetting(f"{path} collides with other paths of the server: choose another first part")
    return routes


async def script(request: web.Request) -> web.Response:
    """GET /tracker.js and its parts."""
    request.app[COLLECTOR].resolver.record_headers(request.headers)
    file = request.app[TRACKER].get(local_path(request))
    if file is None:
        raise ApiError(errors.NOT_FOUND)
    return answer(request, file, _OPEN, _CACHE)


async def compat_script(request: web.Request) -> web.Response:
    """GET /script.js, /js/script.js and /count.js, other names of Plausible's scripts, and their parts."""
    request.app[COLLECTOR].resolver.record_headers(request.headers)
    names, path = request.match_info, local_path(request)
    if "part" in names:
        path = part_path(SCRIPT).replace("{part}", names["part"])
    elif "script" in names:
        path = _PLAUSIBLE
    file = request.app[TRACKER].get(path)
    if file is None:
        raise ApiError(errors.NOT_FOUND)
    return answer(request, file, _OPEN, _CACHE)


async def pixel(request: web.Request) -> web.Response:
    """GET /pixel.gif?website_id=...: count a view of the page in the Referer header; always answers a GIF."""
    if request.method == "GET":
        try:
            await _count(request)
        except Unanswered:
            # The image promises nothing.
            pass
        except Exception as failure:
            # Errors of the server are logged; errors of the request cannot be reported to an image.
            refusal = to_api_error(failure, "/pixel.gif")
            request.app[COLLECTOR].count_refusal(refusal)
            request.app[ERROR_COUNTS][refusal.kind.code] += 1
    return web.Response(body=GIF, headers=_OPEN | {"Content-Type": "image/gif", "Cache-Control": "no-store"})


async def _count(request: web.Request) -> None:
    collector = request.app[COLLECTOR]
    sender = sender_of(collector, request)
    # Bytes that are not UTF-8 arrive as lone surrogates, which the database cannot store.
    page = request.headers.get("Referer", "").encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    view = {"type": "pageview", "url": page}
    await take(collector, Batch([view], request.query.get("website_id"), {}, source=PIXEL), sender)
