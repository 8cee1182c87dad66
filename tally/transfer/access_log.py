"""Read access logs of web servers: a successful GET of a page by a browser is a pageview.

- Formats, recognized line by line: text in the combined or common format or nearly so (tally/transfer/log_text.py), and
  JSON of Caddy, Traefik, nginx and others (tally/transfer/log_json.py).
- A page is a path without the extension of an asset; where the log has the type of the response, it decides too.
  Skipped are other methods, redirects and errors, assets, and programs that are no browser.
- A GET of a page or a PDF by a listed crawler, answered with a status from 200 to 399, is counted as such
  (tally/storage/crawler_days.py). Crawlers without a name are skipped.
- Browser, system, device, country and the rest are computed as for a collected event. The address and the User-Agent
  are not kept. A visitor is an address and a User-Agent of a day, as without `session_id` in collect.
- The first lines of a file decide whether it has User-Agents. Then a line without one is cut, and is rejected: the
  crawler that sent it would count as a person. So is a last line that may be cut, since the complete file would count
  it again. In a file without them, lines without one are imported, and counted.
- The key of a line has all of it but the address, of which it has 12 bits: enough to distinguish requests of the same
  second, too few to find the address.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import Any

from tally.events.client import client_address
from tally.events.dimensions import first_language
from tally.events.geoip import Places
from tally.events.request_context import Place
from tally.events.urls import BadUrl, belongs_to, parse_page_url
from tally.events.user_agent import MAX_CHARACTERS, Agents
from tally.events.validation import FieldWarning, Rejection
from tally.storage.crawler_days import ACCESS_LOG, SOURCES
from tally.timestamps import event_time_ms
from tally.transfer import log_json, log_text, values
from tally.transfer.files import BadFile, Source
from tally.transfer.line_format import CRAWL_TYPE
from tally.transfer.log_request import CUT, Request
from tally.transfer.records import NOT_UTF_8, Record, Site, Skip, lines
from tally.transfer.times import log_ms

BAD_LINE = Rejection(
    "invalid_line",
    "The line is neither in the common or combined format, nor JSON: see Access logs in docs/importing.md.",
)
BAD_TIME = Rejection(
    "invalid_field", "The time is like 10/Oct/2000:13:55:36 -0700, ISO 8601 text or seconds since 1970.", "timestamp"
)
WITHOUT_AGENT = Rejection(
    "invalid_line", "The line has no User-Agent, as other lines of the file have: it is cut, or in another format."
)
_STORED_WITHOUT_AGENT = FieldWarning("without_user_agent", "user_agent")
_NOT_GET = (Skip("requests other than GET"),)
_NO_SUCCESS = (Skip("redirects and errors"),)
_ASSET = (Skip("assets"),)
_ROBOT = (Skip("requests of crawlers and programs"),)
_NO_AGENT = (Skip("requests without a User-Agent"),)
_OTHER_HOST = (Skip("requests to other hosts"),)

# 304: the browser shows the page that it has.
_SUCCESS = frozenset((200, 203, 304))
_ESCAPED_BYTE = re.compile(r"\\x([0-9A-Fa-f]{2})")
_DECIMAL = re.compile(r"[0-9]{1,19}(?:\.[0-9]{1,9})?")
# Seconds of the year 5138, in milliseconds of 1973.
_MOST_SECONDS = 10**11
# The first lines of a file, which decide whether it has User-Agents.
_FIRST_LINES, _FIRST_BYTES = 1_000, 1_048_576
_ASSETS = frozenset(
    (
        *("7z", "apk", "appcache", "atom", "avi", "avif", "bak", "bin", "bmp", "br", "bz2", "cfg", "conf", "css"),
        *("csv", "cur", "deb", "dmg", "doc", "docx", "env", "eot", "epub", "exe", "flac", "flv", "gif", "gz", "heic"),
        *("ico", "ics", "ini", "iso", "jar", "jpeg", "jpg", "js", "json", "jsonld", "log", "m3u8", "m4a", "m4v"),
        *("map", "mjs", "mkv", "mov", "mp3", "mp4", "mpeg", "mpg", "msi", "ods", "odt", "ogg", "ogv", "opus", "otf"),
        *("pdf", "png", "ppt", "pptx", "rar", "rdf", "rpm", "rss", "sql", "svg", "swf", "tar", "tgz", "tif", "tiff"),
        *("toml", "ts", "ttf", "txt", "vtt", "wasm", "wav", "webm", "webmanifest", "webp", "wmv", "woff", "woff2"),
        *("xls", "xlsx", "xml", "xz", "yaml", "yml", "zip"),
    )
)
_PAGE_TYPES = ("text/html", "application/xhtml+xml")
_PDF, _PDF_TYPE = "pdf", "application/pdf"
_CACHED_AGENTS, _CACHED_CLIENTS = 4_096, 16_384
# Longer texts are no addresses, and are not cached.
_LONGEST_ADDRESS = 50
# Of a log without User-Agents.
_UNKNOWN_AGENT = dict.fromkeys(("browser", "browser_version", "os", "os_version", "device"), "")


class Unended(bytes):
    """The last line of a file, without a line break."""


class AccessLog:
    """Reads the lines of an access log."""

    def __init__(self, source: Source, site: Site) -> None:
        """Raises CountryDataError."""
        self._source, self._domain = source, site.domain
        self._agents, self._places = Agents(), _places(site.geoip_db)
        self._agent = lru_cache(_CACHED_AGENTS)(self._read_agent)
        self._client = lru_cache(_CACHED_CLIENTS)(self._read_client)
        self._hostname = values.cached(self._read_hostname)
        self._has_agents = self._has_entries = False
        # Those that were read, and those of them without a User-Agent in a log that has the field.
        self._requests = self._nameless = 0

    def records(self, start: int) -> Iterator[Record]:
        """Yield the lines of the file. Raises BadFile where it has no request, or no User-Agent but dashes."""
        records = lines(self._source)
        first = _first_lines(records)
        self._has_agents = any(self._has_agent(value) for value, _, _ in first)
        records = lines(self._source, start) if start else chain(first, records)
        for value, size, number in records:
            is_ended = not isinstance(value, bytes) or size > len(value)
            yield (value if is_ended else Unended(value)), size, number
        if not start and not self._source.is_growing:
            self._check_requests()

    def _has_agent(self, line: bytes | Rejection) -> bool:
        request = self.request(line) if isinstance(line, bytes) else None
        return isinstance(request, Request) and bool(request.agent)

    def _check_requests(self) -> None:
        """Raise BadFile where the lines of a file, read from its beginning, are of a log that cannot be imported."""
        if not self._requests and self._has_entries:
            raise BadFile(
                f"{self._source.name} has no requests: turn on the access log (Caddy: log; Traefik: accessLog) and"
                " name its file."
            )
        if self._requests and self._requests == self._nameless:
            raise BadFile(
                f"{self._source.name} has no User-Agents, without which crawlers cannot be told from people: have the"
                " server log them (Traefik: accessLog.fields.headers.names.User-Agent=keep)."
            )

    @staticmethod
    def request(line: bytes) -> Request | Skip | Rejection | None:
        """Return the request of a line; None where it is none. A file that was truncated while a server wrote to it
        has NULs before its first line."""
        line = line.lstrip(b"\0") if line[:1] == b"\0" else line
        if line[:1] == b"{":
            return log_json.request_of(line)
        try:
            return log_text.request_of(line.decode().removesuffix("\r"))
        except UnicodeDecodeError:
            return NOT_UTF_8

    def read(self, value: bytes) -> tuple[dict[str, Any] | Skip | Rejection | FieldWarning, ...]:
        """Return the pageview of a line, or why it is none."""
        request = self.request(value)
        if isinstance(request, Request):
            self._requests += 1
            self._nameless += request.agent == ""
            if isinstance(value, Unended) and not request.is_whole:
                return (CUT,)
            return self._read(request)
        if isinstance(request, Skip):
            self._has_entries = True
            return (request,)
        if not value.strip():
            return ()
        return (CUT if isinstance(value, Unended) and request is not NOT_UTF_8 else request or BAD_LINE,)

    def _read(self, request: Request) -> tuple[dict[str, Any] | Skip | Rejection | FieldWarning, ...]:
        if request.agent is None and self._has_agents:
            return (WITHOUT_AGENT,)
        if request.method != "GET":
            return _NOT_GET
        if request.agent and 200 <= request.status < 400:
            name = self._agent(request.agent[:MAX_CHARACTERS])
            if isinstance(name, str) and name:
                return self._crawl(name, request)
        if request.status not in _SUCCESS:
            return _NO_SUCCESS
        if request.content_type and not request.content_type.lower().startswith(_PAGE_TYPES):
            return _ASSET
        try:
            ts_ms = _time_ms(request.time)
        except (ValueError, OverflowError):
            return (BAD_TIME,)
        values = self._pageview(ts_ms, request)
        if isinstance(values[0], dict) and (language := _language(request.language)):
            values[0]["language"] = language
        return values

    def _pageview(self, ts_ms: int, request: Request) -> tuple[dict[str, Any] | Skip | Rejection | FieldWarning, ...]:
        """Return the event of a GET request."""
        uri, host, agent, referrer = request.uri, request.host, request.agent, request.referrer
        place = _place_of(uri, host)
        if place is None:
            return (BAD_LINE,)
        host, path, query = place
        if _extension(path) in _ASSETS:
            return _ASSET
        if agent == "":
            return _NO_AGENT
        of_agent = self._agent(agent[:MAX_CHARACTERS]) if agent is not None else _UNKNOWN_AGENT
        if isinstance(of_agent, str):
            return _ROBOT
        hostname = self._hostname(host)
        if hostname is None:
            return _OTHER_HOST
        address = request.address
        of_client, bits = (self._client if len(address) <= _LONGEST_ADDRESS else self._read_client)(address)
        event: dict[str, Any] = {
            "type": "pageview",
            "timestamp": ts_ms,
            "hostname": hostname,
            "pathname": _unescaped(path),
            "referrer": referrer if referrer != "-" else "",
            "visitor": f"{address} {agent}",
            "id": f"{bits} {request.status} {request.size} {host} {uri} {referrer} {agent}",
            **of_client,
            **of_agent,
        }
        if query:
            event |= values.campaign(query)
        return (event,) if agent is not None else (event, _STORED_WITHOUT_AGENT)

    def _crawl(self, name: str, request: Request) -> tuple[dict[str, Any] | Skip | Rejection, ...]:
        """Return the request of a listed crawler as an item."""
        place = _place_of(request.uri, request.host)
        if place is None:
            return (BAD_LINE,)
        host, path, _ = place
        extension = _extension(path)
        if extension in _ASSETS and extension != _PDF:
            return _ASSET
        if request.content_type and not request.content_type.lower().startswith((*_PAGE_TYPES, _PDF_TYPE)):
            return _ASSET
        if self._hostname(host) is None:
            return _OTHER_HOST
        try:
            ts_ms = _time_ms(request.time)
        except (ValueError, OverflowError):
            return (BAD_TIME,)
        item = {
            "type": CRAWL_TYPE,
            "timestamp": ts_ms,
            "crawler": name,
            "pathname": _unescaped(path),
            "source": SOURCES[ACCESS_LOG],
            "requests": 1,
            "id": self._id(request),
        }
        return (item,)

    def _id(self, request: Request) -> str:
        """Return what identifies a request among those of its second."""
        address, status, size = request.address, request.status, request.size
        _, bits = (self._client if len(address) <= _LONGEST_ADDRESS else self._read_client)(address)
        return f"{bits} {status} {size} {request.host} {request.uri} {request.referrer} {request.agent}"

    def _read_agent(self, text: str) -> dict[str, str] | str:
        """Return browser, system and device as fields of a line; the listed name of a crawler, "" for others and for
        programs."""
        agent = self._agents.of(text)
        if agent.crawler or not agent.browser:
            return agent.crawler_name
        return {
            "browser": agent.browser,
            "browser_version": agent.browser_version,
            "os": agent.os,
            "os_version": agent.os_version,
            "device": agent.device,
        }

    def _read_hostname(self, host: str) -> str | None:
        """Return the host of host[:port]; the website's domain for "", None where it is of another website."""
        try:
            hostname = parse_page_url(f"https://{host}/").host if host else self._domain
        except BadUrl:
            return None
        return hostname if not host or belongs_to(hostname, self._domain) else None

    def _read_client(self, text: str) -> tuple[dict[str, str], int]:
        """Return the place of an address as fields of a line, and 12 bits of its hash.

        Logs may have a host's name in its place.
        """
        # A text that is no address becomes 127.0.0.1, which has no place.
        place = self._places.of(client_address(text, (), ()))
        bits = int.from_bytes(blake2b(text.encode(), digest_size=2).digest(), "little") & 0xFFF
        return _of_place(place), bits


_language = values.cached(first_language)


def line_ms(line: bytes) -> int | None:
    """Return the time of the request of a line; None where it has none."""
    request = AccessLog.request(line)
    try:
        return _time_ms(request.time) if isinstance(request, Request) else None
    except (ValueError, OverflowError):
        return None


def _places(path: Path | None) -> Places:
    return _opened(path, path.stat().st_mtime_ns if path is not None and path.exists() else 0)


@lru_cache(1)
def _opened(path: Path | None, changed_ns: int) -> Places:
    """Return an open database of places; a log that is followed is read in many pieces."""
    return Places(path)


def _place_of(uri: str, host: str) -> tuple[str, str, str] | None:
    """Return host, path and query of a request; None where the URI is none."""
    path, _, query = uri.partition("?")
    if path.startswith("/"):
        return host, path, query
    try:
        return parse_page_url(uri)[:3]
    except BadUrl:
        return None


def _extension(path: str) -> str:
    name, dot, extension = path.rpartition(".")
    return extension.lower() if dot and name else ""


def _unescaped(path: str) -> str:
    return _ESCAPED_BYTE.sub(r"%\1", path) if "\\x" in path else path


def _first_lines(records: Iterator[Record]) -> list[Record]:
    """Take the first lines of some."""
    first, size = [], 0
    for record in records:
        first.append(record)
        size += record[1]
        if len(first) == _FIRST_LINES or size > _FIRST_BYTES:
            break
    return first


@lru_cache(4_096)
def _of_place(place: Place) -> dict[str, str]:
    return {"country": place.country, "region": place.region, "city": place.city}


def _time_ms(value: object) -> int:
    """Return the milliseconds of a time as a log has it. Raises ValueError, OverflowError."""
    if isinstance(value, str) and _DECIMAL.fullmatch(value):
        value = float(value)
    if isinstance(value, int | float):
        return int(value * 1_000 if value < _MOST_SECONDS else value)
    if not isinstance(value, str):
        raise ValueError(value)
    return log_ms(value) if value[2:3] == "/" else event_time_ms(value)
