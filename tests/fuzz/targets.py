"""The targets of the fuzzer: functions that take any bytes and raise if a documented property does not hold.

Each calls a parser of untrusted input, allows only the documented errors, and compares what was accepted with another
parser of the same bytes: the standard library's, aiohttp's, or a simpler regular expression. tests/fuzz/run.py calls
them from a fuzzer, tests/fuzz/test_corpus.py with the committed corpora.
"""

import asyncio
import functools
import ipaddress
import itertools
import json
import math
import re
from collections.abc import Callable, Collection
from datetime import UTC, datetime, timedelta
from typing import Any

from aiohttp import http_parser
from aiohttp.base_protocol import BaseProtocol
from aiohttp.web import RequestPayloadError

from tally import timeranges, timestamps
from tally.events import client, urls
from tally.events import validation as events
from tally.events.dimensions import FIELDS, dimensions, first_language
from tally.events.request_context import Agent, Place, RequestContext
from tally.events.user_agent import Agents
from tally.events.validation import BadBody, Event, Rejection
from tally.ingest import fast_path
from tally.timestamps import BadTime
from tally.web.runner import RUNNER_OPTIONS

NOW_MS = 1_795_003_200_000  # 2026-11-18T12:00:00Z
DOMAIN = "example.com"
CODES = {
    *("invalid_type", "missing_field", "invalid_field", "invalid_url", "invalid_event_data", "event_data_too_large"),
    *("timestamp_too_old", "timestamp_in_future"),
}
CONTEXT = RequestContext(Agent("Firefox", "144", "Linux", "", "desktop", False), Place("DE", "DE-BE", "Berlin"), "en")
# The longest text is a path, of a URL of 8,192 characters.
MAX_CHARACTERS = 8_192


def body(data: bytes) -> None:
    """Parse the body of a collect request: a documented error, or events that can be stored and shown."""
    try:
        batch = events.parse_body(data)
    except BadBody as bad:
        _is_one_of(bad.code, ("invalid_json", "invalid_body", "too_many_events"))
        return
    assert 1 <= len(batch.items) <= 50
    for item in batch.items:
        kind = events.type_of(item)
        checked = kind if isinstance(kind, Rejection) else events.read_event(item, kind, batch.context, NOW_MS)
        if isinstance(checked, Rejection):
            assert checked.code in CODES
            assert checked.message.isascii()
            assert checked.field in ("", "type", "timestamp", *_KNOWN_FIELDS)
        else:
            _event(checked)


def _is_one_of(value: str, documented: Collection[str]) -> None:
    assert value in documented


_KNOWN_FIELDS = frozenset(name for names in (*events.RULES.values(), *events.FLAT.values()) for name in names)


def _event(event: Event) -> None:
    assert NOW_MS - events.OLDEST_MS <= event.ts_ms <= NOW_MS
    texts = [part for part in event if isinstance(part, str)]
    values = dimensions(event, CONTEXT, DOMAIN)
    assert len(values) == len(FIELDS)
    for text in (*texts, *values):
        # SQLite and JSON can store it.
        text.encode()
        assert "\0" not in text
        assert len(text) <= MAX_CHARACTERS
    if event.event_data is not None:
        assert len(event.event_data.encode()) <= events.MAX_EVENT_DATA_BYTES
        assert not [1 for value in json.loads(event.event_data).values() if isinstance(value, dict | list)]
    for number in (*event.vitals, event.value, event.viewport_width, *(n for p in event.points for n in (p.x, p.y))):
        assert number is None or math.isfinite(number)
    if event.url is not None:
        assert urls.normal_host(event.url.host) == event.url.host
        assert event.url.path.startswith("/")


# Simpler than the server's rules, and for ASCII only: what a browser may send for a page of example.com.
_OWN_ORIGIN = re.compile(r"https?://(?:[a-z0-9_-]{1,63}\.)*example\.com\.?(?::[0-9]{1,5})?", re.IGNORECASE)
_OWN_REFERER = re.compile(
    r"https?://(?:[^/?#@\\\s]*@)?(?:[a-z0-9_-]{1,63}\.)*example\.com\.?(?::[0-9]{1,5})?(?:[/?#].*)?", re.IGNORECASE
)
_TRUSTED = client.parse_proxies(["127.0.0.0/8", "::1/128", "10.0.0.0/8"])
_ERRORS = (urls.BadUrl, urls.BadHost)


def clients(data: bytes) -> None:
    """Identify a client by Origin, Referer (also used as User-Agent and language), peer and header, one a line."""
    lines = data.decode("utf-8", "surrogateescape").split("\n")
    first, second, peer, *forwarded = (*lines, "", "", "")[: max(3, len(lines))]
    _page(first, second)
    for header in ("X-Forwarded-For", "Forwarded"):
        _client(peer, forwarded, header)
    for read in (urls.normal_host, urls.referrer_host, urls.exact_origin):
        _read_host(read, first)
    first_language(second).encode("ascii")
    agent = _agents().of(second)
    assert agent.device in ("", *events.DEVICES)
    assert max(map(len, (agent.browser, agent.os, agent.os_version))) <= 100


def _page(sent: str, referer: str) -> None:
    if client.allows(client.page_origin_of(sent, None, None), DOMAIN, ()) and sent.isascii():
        assert _OWN_ORIGIN.fullmatch(sent), "a page of another host is accepted"
    if client.allows(client.page_origin_of(None, referer, None), DOMAIN, ()) and referer.isascii():
        assert _OWN_REFERER.fullmatch(referer), "a page of another host is accepted"


def _client(peer: str, forwarded: list[str], header: str) -> None:
    address = client.client_address(peer, forwarded, _TRUSTED, header)
    assert len(client.bucket_key(address)) in (4, 8)
    # The peer is given by the system; a text that is no address is a Unix socket.
    bare = peer.partition("%")[0]
    # Only addresses with colons have a zone.
    expected = _address(bare if ":" in bare else peer) or client.LOOPBACK
    if not any(expected in network for network in _TRUSTED):
        assert address == expected, "the header of an untrusted peer is used"
    else:
        assert address in {expected}.union(*map(_addresses, forwarded)), "an address that is in no header"


def _address(text: str) -> Any:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _addresses(text: str) -> list[Any]:
    """Return the addresses in a text, by the standard library, split at characters that no address has."""
    parts = re.split(r"[^0-9A-Fa-f.:%]|%[^,\]]*|\](?::[0-9]+)?", text)
    pieces = (piece for part in parts for piece in (part, part.rpartition(":")[0]))
    return [address for piece in pieces if (address := _address(piece))]


def _read_host(read: Callable[[str], str], text: str) -> None:
    try:
        host = read(text)
    except _ERRORS:
        return
    host.encode("ascii")
    assert host == host.lower()
    if read is not urls.exact_origin:
        assert len(host) <= urls.MAX_HOST_CHARACTERS
    if read is not urls.referrer_host:
        assert read(host) == host, "a normalized host changes"


@functools.cache
def _agents() -> Agents:
    return Agents()


# Buckets that are checked within a millisecond; tests/unit/test_timeranges.py has long ranges.
_LONGEST_MS = 8 * timestamps.DAY_MS


def times(data: bytes) -> None:
    """Parse the time of an event, and from, to and tz of a query, one a line: an error, or the same as datetime."""
    first, second, name, *_ = (*data.decode("utf-8", "surrogateescape").split("\n"), "", "", "")
    for sent in (first, *_numbers(first)):
        _event_time(sent)
    try:
        parsed = timeranges.parse_range(first or None, second or None, name or None, NOW_MS)
    except BadTime as bad:
        _is_one_of(bad.field, ("from", "to", "tz"))
    else:
        _range(parsed)


def _numbers(text: str) -> list[int | float]:
    """Return the numbers that the text may be in JSON."""
    try:
        return [float(text), int(float(text))]
    except (ValueError, OverflowError):
        return []


def _event_time(sent: str | int | float) -> None:
    try:
        ms = timestamps.event_time_ms(sent)
    except BadTime:
        return
    if isinstance(sent, str):
        assert ms == _datetimes(sent)
        assert timestamps.event_time_ms(timestamps.iso(ms)) == ms
    else:
        assert ms == sent


def _datetimes(text: str) -> int:
    """Return the milliseconds of a text, by the standard library."""
    fraction = re.search(r"[.,]([0-9]+)", text)
    if fraction is not None:
        text = text.replace(fraction[0], f".{fraction[1][:6].ljust(6, '0')}")
    # A leap second counts as the second before it, the last of its day in UTC.
    text, leap_seconds = re.subn(r"(:[0-9]{2}):60", r"\1:59", text, count=1)
    read = datetime.fromisoformat(text.upper())
    read = read if read.tzinfo else read.replace(tzinfo=UTC)
    # A difference, because times before the year 1 and after 9999 in UTC cannot be converted.
    ms = (read - timestamps.EPOCH) // timedelta(milliseconds=1)
    assert not leap_seconds or ms % timestamps.DAY_MS >= timestamps.DAY_MS - timestamps.SECOND_MS
    return ms


def _range(parsed: timeranges.Range) -> None:
    assert parsed.from_ms < parsed.to_ms
    before_ms, until_ms = timeranges.previous(parsed)
    assert until_ms == parsed.from_ms
    assert before_ms < until_ms
    if parsed.to_ms - parsed.from_ms > _LONGEST_MS:
        return
    for interval in ("day", "hour"):
        rows = timeranges.buckets(parsed, interval)
        assert rows[0].from_ms == parsed.from_ms
        assert rows[-1].to_ms == parsed.to_ms
        assert all(row.from_ms < row.to_ms for row in rows)
        assert all(row.to_ms == following.from_ms for row, following in itertools.pairwise(rows))


# Replaced by the length of the body, which a fuzzer hardly finds.
_LENGTH = b"{length}"
# One for all inputs, as in the server.
_LINES = fast_path.HeaderCache()


def plain(data: bytes) -> None:
    """Parse bytes of a connection: a request on the fast path is the same request for both parsers of aiohttp."""
    head, blank, rest = data.partition(b"\r\n\r\n")
    for sent in {data, head.replace(_LENGTH, b"%d" % len(rest)) + blank + rest}:
        request = fast_path.read_plain(sent, _LINES)
        if request is not None:
            for parser in (http_parser.HttpRequestParser, http_parser.HttpRequestParserPy):
                assert _by_aiohttp(parser, sent) == request


def _by_aiohttp(parser: Any, sent: bytes) -> tuple[dict[str, str], bytes]:
    """Return headers and body of the only request in these bytes, by a parser with the options of the server."""
    loop = _loop()
    limits = {name: RUNNER_OPTIONS[name] for name in ("max_line_size", "max_field_size", "auto_decompress")}
    reads = parser(BaseProtocol(loop), loop, 2**16, payload_exception=RequestPayloadError, **limits)
    messages, upgraded, tail = reads.feed_data(sent)
    ((message, payload),) = messages
    assert (message.method, message.version) == ("POST", (1, 1))
    assert message.path in ("/api/collect", "/api/v1/collect")
    assert not any((upgraded, tail, message.should_close, message.upgrade, message.chunked, message.compression))
    assert len({name.lower() for name in message.headers}) == len(message.headers)
    assert payload.is_eof(), "the body is incomplete"
    return {name.lower(): value for name, value in message.headers.items()}, payload.read_nowait()


@functools.cache
def _loop() -> asyncio.AbstractEventLoop:
    """Return an event loop that never runs, which the parsers need."""
    return asyncio.new_event_loop()


TARGETS: dict[str, Callable[[bytes], None]] = {"body": body, "clients": clients, "times": times, "plain": plain}
"""The targets by the names of their corpora."""
