"""Read access logs of web servers: a successful GET of a page by a browser is a pageview.

- Formats, recognized line by line: combined and common of Apache and nginx, each with or without the virtual host in
  front, and the JSON of Caddy.
- A page is a path without the extension of an asset; with Caddy also the type of the response decides. Skipped are
  other methods, redirects and errors, assets, crawlers, and programs that are no browser.
- Browser, system, device, country and the rest are computed as for a collected event. The address and the User-Agent
  are not kept. A visitor is an address and a User-Agent of a UTC day, as without `session_id` in collect.
- The key of a line has all of it but the address, of which it has 12 bits: enough to distinguish requests of the same
  second, too few to find the address.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b
from ipaddress import ip_address
from typing import Any

import orjson

from tally.events.client import client_address
from tally.events.dimensions import first_language
from tally.events.geoip import Places
from tally.events.request_context import Place
from tally.events.urls import BadUrl, belongs_to, parse_page_url
from tally.events.user_agent import MAX_CHARACTERS, Agents
from tally.events.validation import Rejection
from tally.timestamps import event_time_ms
from tally.transfer import values
from tally.transfer.files import Source
from tally.transfer.records import NOT_UTF_8, Record, Site, Skip, lines
from tally.transfer.times import log_ms

BAD_LINE = Rejection("invalid_line", "The line is neither in the common or combined format nor JSON of Caddy.")
BAD_TIME = Rejection("invalid_field", "The time is not like 10/Oct/2000:13:55:36 -0700.", "timestamp")
_NOT_GET = (Skip("requests other than GET"),)
_NO_SUCCESS = (Skip("redirects and errors"),)
_ASSET = (Skip("assets"),)
_ROBOT = (Skip("requests of crawlers and programs"),)
_OTHER_HOST = (Skip("requests to other hosts"),)
_OTHER_ENTRY = (Skip("entries that are no requests"),)

_QUOTED = r'"((?:[^"\\]++|\\.)*+)"'
_LINE = re.compile(
    rf'((?:[^\s\["]++ ){{2,4}}[^\s\["]++) \[([^\]"]++)\] {_QUOTED} ([0-9]{{3}}) (\S++)(?: {_QUOTED} {_QUOTED})?'
)
_GET = re.compile(r"GET (\S++)(?: HTTP/[0-9.]++)?")
# 304: the browser shows the page that it has.
_SUCCESS = frozenset((200, 203, 304))
_ESCAPED_BYTE = re.compile(r"\\x([0-9A-Fa-f]{2})")
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
_CACHED_AGENTS, _CACHED_CLIENTS = 4_096, 16_384
# Longer texts are no addresses, and are not cached.
_LONGEST_ADDRESS = 50
# The common format has no User-Agent.
_NO_AGENT = dict.fromkeys(("browser", "browser_version", "os", "os_version", "device"), "")


class AccessLog:
    """Reads the lines of an access log."""

    def __init__(self, source: Source, site: Site) -> None:
        """Raises CountryDataError."""
        self._source, self._domain = source, site.domain
        self._agents, self._places = Agents(), Places(site.geoip_db)
        self._agent = lru_cache(_CACHED_AGENTS)(self._read_agent)
        self._client = lru_cache(_CACHED_CLIENTS)(self._read_client)
        self._hostname = values.cached(self._read_hostname)

    def records(self, start: int) -> Iterator[Record]:
        """Yield the lines of the file."""
        return lines(self._source, start)

    def read(self, value: bytes) -> tuple[dict[str, Any] | Skip | Rejection, ...]:
        """Return the pageview of a line, or why it is none."""
        if value[:1] == b"{":
            return self._caddy(value)
        try:
            text = value.decode()
        except UnicodeDecodeError:
            return (NOT_UTF_8,)
        fields = _fields(text)
        if fields is None:
            return (BAD_LINE,) if text.strip() else ()
        before, time, request, status, size, referrer, agent = fields
        get = _GET.fullmatch(request)
        if get is None:
            return _NOT_GET
        host, address = _host_and_address(before.split(" "))
        try:
            ts_ms = log_ms(time)
        except ValueError:
            return (BAD_TIME,)
        return self._pageview(ts_ms, int(status), get[1], host, address, referrer or "", agent, size)

    def _caddy(self, value: bytes) -> tuple[dict[str, Any] | Skip | Rejection, ...]:
        try:
            entry = orjson.loads(value)
        except ValueError:
            return (BAD_LINE,)
        request, status, time = entry.get("request"), entry.get("status"), entry.get("ts")
        if not isinstance(request, dict) or not isinstance(status, int):
            return _OTHER_ENTRY
        uri, headers = request.get("uri"), request.get("headers")
        if not isinstance(uri, str):
            return _OTHER_ENTRY
        if request.get("method") != "GET":
            return _NOT_GET
        answered = _first(entry.get("resp_headers"), "Content-Type")
        if status in _SUCCESS and answered and not answered.lower().startswith(_PAGE_TYPES):
            return _ASSET
        try:
            ts_ms = int(time * 1_000) if isinstance(time, int | float) else event_time_ms(time)
        except (ValueError, OverflowError):
            return (Rejection("invalid_field", "ts is seconds since 1970, or ISO 8601 text.", "timestamp"),)
        address = request.get("client_ip") or request.get("remote_ip")
        if not isinstance(address, str):
            address = str(request.get("remote_addr", "")).rpartition(":")[0].strip("[]")
        host, agent = request.get("host"), _first(headers, "User-Agent")
        size, before = str(entry.get("size")), _first(headers, "Referer")
        host = host if isinstance(host, str) else ""
        found = self._pageview(ts_ms, status, uri, host, address, before, agent, size)
        if isinstance(found[0], dict) and (language := _language(_first(headers, "Accept-Language"))):
            found[0]["language"] = language
        return found

    def _pageview(
        self, ts_ms: int, status: int, uri: str, host: str, address: str, referrer: str, agent: str | None, size: str
    ) -> tuple[dict[str, Any] | Skip | Rejection, ...]:
        """Return the event of a GET request. agent: the User-Agent, None in the common format, which has none."""
        if status not in _SUCCESS:
            return _NO_SUCCESS
        path, _, query = uri.partition("?")
        if not path.startswith("/"):
            try:
                host, path, query, _ = parse_page_url(uri)
            except BadUrl:
                return (BAD_LINE,)
        name, dot, extension = path.rpartition(".")
        if dot and extension.lower() in _ASSETS and name:
            return _ASSET
        of_agent = self._agent(agent[:MAX_CHARACTERS]) if agent is not None else _NO_AGENT
        if of_agent is None:
            return _ROBOT
        hostname = self._hostname(host)
        if hostname is None:
            return _OTHER_HOST
        of_client, bits = (self._client if len(address) <= _LONGEST_ADDRESS else self._read_client)(address)
        event: dict[str, Any] = {
            "type": "pageview",
            "timestamp": ts_ms,
            "hostname": hostname,
            "pathname": _ESCAPED_BYTE.sub(r"%\1", path) if "\\x" in path else path,
            "referrer": values.referrer(referrer) if referrer != "-" else "",
            "visitor": f"{address} {agent}",
            "id": f"{bits} {status} {size} {host} {uri} {referrer} {agent}",
            **of_client,
            **of_agent,
        }
        return (event | values.campaign(query) if query else event,)

    def _read_agent(self, text: str) -> dict[str, str] | None:
        """Return browser, system and device as fields of a line; None for crawlers and programs."""
        agent = self._agents.of(text)
        if agent.crawler or not agent.browser:
            return None
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


@lru_cache(4_096)
def _of_place(place: Place) -> dict[str, str]:
    return {"country": place.country, "region": place.region, "city": place.city}


def _fields(text: str) -> Sequence[Any] | None:
    """Return what precedes the time, the time, request, status, size, referrer and User-Agent of a line of the combined
    or common format; None where it is none. The common format has None for the last two."""
    pieces = text.split('"')
    if len(pieces) == 7 and "\\" not in text:
        # Nearly every line: in a third of the time of the pattern.
        first, request, numbers, referrer, between, agent, _ = pieces
        before, _, time = first.removesuffix("] ").partition(" [")
        words, answer = before.split(), numbers.split()
        if (
            f"{' '.join(words)} [{time}] " == first
            and 3 <= len(words) <= 5
            and "[" not in before
            and time
            and "]" not in time
            and len(answer) == 2
            and f" {answer[0]} {answer[1]} " == numbers
            and len(answer[0]) == 3
            and answer[0].isascii()
            and answer[0].isdecimal()
            and between == " "
        ):
            return before, time, request, *answer, referrer, agent
    found = _LINE.match(text)
    return found.groups() if found else None


def _host_and_address(before: list[str]) -> tuple[str, str]:
    """Return the virtual host, "" where there is none, and the address, from what precedes the time.

    That is the address, a dash and the user, with or without the host in front; a user's name may have a space.
    """
    if len(before) == 3 or (len(before) == 4 and _is_address(before[0]) and not _is_address(before[1])):
        return "", before[0]
    return before[0], before[1]


@values.cached
def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _first(headers: Any, name: str) -> str:
    """Return the first value of a header in a log of Caddy, "" where there is none."""
    found = headers.get(name) if isinstance(headers, dict) else None
    first = found[0] if isinstance(found, list) and found else ""
    return first if isinstance(first, str) else ""
