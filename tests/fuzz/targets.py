"""What is fuzzed: functions from any bytes to nothing, which raise where a promise is broken.

Each calls what reads a stranger's bytes first, allows only the refusals that are promised, and compares what was
taken with another reading of the same bytes: the standard library's, aiohttp's, or a regular expression that is
plainer than ours. tests/fuzz/run.py feeds them from a fuzzer, tests/fuzz/test_corpus.py from the committed corpora.
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
from tally.events.dimensions import FIELDS, RequestContext, dimensions, first_language
from tally.events.user_agent import Agent, Agents
from tally.events.validation import BadBody, Batch, Event, Rejection
from tally.ingest import fast_path
from tally.timestamps import BadTime
from tally.web.runner import RUNNER_OPTIONS

NOW_MS = 1_795_003_200_000  # 2026-11-18T12:00:00Z
DOMAIN = "example.com"
CODES = {
    *("invalid_type", "missing_field", "invalid_field", "invalid_url", "invalid_event_data", "event_data_too_large"),
    *("timestamp_too_old", "timestamp_in_future"),
}
AROUND = RequestContext(Agent("Firefox", "Linux", "", "desktop", False), "DE", "en")
# The longest text is a path, of a URL of 8,192 characters.
MOST_CHARACTERS = 8_192


def body(data: bytes) -> None:
    """A collect request's body: a documented refusal, or events that can be stored and shown."""
    try:
        batch = events.parse_body(data)
    except BadBody as bad:
        _among(bad.code, ("invalid_json", "invalid_body", "too_many_events"))
        return
    assert 1 <= len(batch.items) <= 50
    for item in batch.items:
        kind = events.type_of(item)
        verdict = kind if isinstance(kind, Rejection) else events.read_event(item, kind, batch.context, NOW_MS)
        if isinstance(verdict, Rejection):
            assert verdict.code in CODES
            assert verdict.message.isascii()
            assert verdict.field in ("", "type", "timestamp", *_KNOWN_FIELDS)
        else:
            _event(verdict, batch)


def _among(told: str, promised: Collection[str]) -> None:
    assert told in promised


_KNOWN_FIELDS = frozenset(name for names in (*events.RULES.values(), *events.FLAT.values()) for name in names)


def _event(event: Event, batch: Batch) -> None:
    assert NOW_MS - events.OLDEST_MS <= event.ts_ms <= NOW_MS
    texts = [part for part in event if isinstance(part, str)]
    shown = dimensions(event, AROUND, DOMAIN)
    assert len(shown) == len(FIELDS)
    for text in (*texts, *shown):
        # What SQLite and JSON can hold.
        text.encode()
        assert "\0" not in text
        assert len(text) <= MOST_CHARACTERS
    if event.event_data is not None:
        assert len(event.event_data.encode()) <= events.MOST_EVENT_DATA_BYTES
        assert not [1 for value in json.loads(event.event_data).values() if isinstance(value, dict | list)]
    for number in (*event.vitals, event.value, event.viewport_width, *(n for p in event.points for n in (p.x, p.y))):
        assert number is None or math.isfinite(number)
    if event.url is not None:
        assert urls.normal_host(event.url.host) == event.url.host
        assert event.url.path.startswith("/")


# Plainer than ours, and for ASCII alone: what a browser may send for a page of example.com.
_OWN_ORIGIN = re.compile(r"https?://(?:[a-z0-9_-]{1,63}\.)*example\.com\.?(?::[0-9]{1,5})?", re.IGNORECASE)
_OWN_REFERER = re.compile(
    r"https?://(?:[^/?#@\\\s]*@)?(?:[a-z0-9_-]{1,63}\.)*example\.com\.?(?::[0-9]{1,5})?(?:[/?#].*)?", re.IGNORECASE
)
_TRUSTED = client.parse_proxies(["127.0.0.0/8", "::1/128", "10.0.0.0/8"])
_REFUSALS = (urls.BadUrl, urls.BadHost)


def callers(data: bytes) -> None:
    """Origin, Referer (also as User-Agent and language), peer, forwarded header, one a line: who is taken for whom."""
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
        assert _OWN_ORIGIN.fullmatch(sent), "a page of another host counts"
    if client.allows(client.page_origin_of(None, referer, None), DOMAIN, ()) and referer.isascii():
        assert _OWN_REFERER.fullmatch(referer), "a page of another host counts"


def _client(peer: str, forwarded: list[str], header: str) -> None:
    address = client.client_address(peer, forwarded, _TRUSTED, header)
    assert len(client.bucket_key(address)) in (4, 8)
    # The system tells the peer; what is no address there is a socket of this machine.
    bare = peer.partition("%")[0]
    # Only addresses with colons have a zone.
    seen = _address(bare if ":" in bare else peer) or client.LOOPBACK
    if not any(seen in network for network in _TRUSTED):
        assert address == seen, "a header is believed from a peer that is not trusted"
    else:
        assert address in {seen}.union(*map(_addresses, forwarded)), "an address that nobody wrote"


def _address(text: str) -> Any:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _addresses(text: str) -> list[Any]:
    """The addresses in a text, by the standard library: of whatever stands between what cannot be in one."""
    parts = re.split(r"[^0-9A-Fa-f.:%]|%[^,\]]*|\](?::[0-9]+)?", text)
    pieces = (piece for part in parts for piece in (part, part.rpartition(":")[0]))
    return [address for piece in pieces if (address := _address(piece))]


def _read_host(read: Callable[[str], str], text: str) -> None:
    try:
        kept = read(text)
    except _REFUSALS:
        return
    kept.encode("ascii")
    assert kept == kept.lower()
    if read is not urls.exact_origin:
        assert len(kept) <= urls.MAX_HOST_CHARACTERS
    if read is not urls.referrer_host:
        assert read(kept) == kept, "read twice it is another"


@functools.cache
def _agents() -> Agents:
    return Agents()


# As many buckets as can be looked at in a millisecond; test_timerange looks at long ranges.
_LONGEST_MS = 8 * timestamps.DAY_MS


def times(data: bytes) -> None:
    """An event's time; and from, to, tz of a question, one a line: refused by name, or what datetime reads too."""
    first, second, name, *_ = (*data.decode("utf-8", "surrogateescape").split("\n"), "", "", "")
    for sent in (first, *_numbers(first)):
        _event_time(sent)
    try:
        asked = timeranges.parse_range(first or None, second or None, name or None, NOW_MS)
    except BadTime as bad:
        _among(bad.field, ("from", "to", "tz"))
    else:
        _range(asked)


def _numbers(text: str) -> list[int | float]:
    """The text as the numbers that JSON can make of it."""
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
    """What the standard library makes of a text that ours has taken."""
    fraction = re.search(r"[.,]([0-9]+)", text)
    if fraction is not None:
        text = text.replace(fraction[0], f".{fraction[1][:6].ljust(6, '0')}")
    read = datetime.fromisoformat(text.upper())
    read = read if read.tzinfo else read.replace(tzinfo=UTC)
    # Differences of aware times: what lies before the year 1 or behind 9999 in UTC cannot be converted.
    return (read - timestamps.EPOCH) // timedelta(milliseconds=1)


def _range(asked: timeranges.Range) -> None:
    assert asked.from_ms < asked.to_ms
    before_ms, until_ms = timeranges.previous(asked)
    assert until_ms == asked.from_ms
    assert before_ms < until_ms
    if asked.to_ms - asked.from_ms > _LONGEST_MS:
        return
    for interval in ("day", "hour"):
        rows = timeranges.buckets(asked, interval)
        assert rows[0].from_ms == asked.from_ms
        assert rows[-1].to_ms == asked.to_ms
        assert all(row.from_ms < row.to_ms for row in rows)
        assert all(row.to_ms == following.from_ms for row, following in itertools.pairwise(rows))


# What a fuzzer can hardly guess: the length of what follows the head.
_LENGTH = b"{length}"
# As the server does, over all that comes.
_LINES = fast_path.HeaderCache()


def plain(data: bytes) -> None:
    """A piece of a connection: what the short way takes is one request to aiohttp's parsers as well, and the same."""
    head, blank, rest = data.partition(b"\r\n\r\n")
    for sent in {data, head.replace(_LENGTH, b"%d" % len(rest)) + blank + rest}:
        taken = fast_path.read_plain(sent, _LINES)
        if taken is not None:
            for parser in (http_parser.HttpRequestParser, http_parser.HttpRequestParserPy):
                assert _by_aiohttp(parser, sent) == taken


def _by_aiohttp(parser: Any, sent: bytes) -> tuple[dict[str, str], bytes]:
    """Headers and body of the one whole request in these bytes, by a parser set up as in tally/web/runner.py."""
    loop = _loop()
    bounds = {name: RUNNER_OPTIONS[name] for name in ("max_line_size", "max_field_size", "auto_decompress")}
    reads = parser(BaseProtocol(loop), loop, 2**16, payload_exception=RequestPayloadError, **bounds)
    messages, upgraded, tail = reads.feed_data(sent)
    ((message, payload),) = messages
    assert (message.method, message.version) == ("POST", (1, 1))
    assert message.path in ("/api/collect", "/api/v1/collect")
    assert not any((upgraded, tail, message.should_close, message.upgrade, message.chunked, message.compression))
    assert len({name.lower() for name in message.headers}) == len(message.headers)
    assert payload.is_eof(), "it waits for more"
    return {name.lower(): value for name, value in message.headers.items()}, payload.read_nowait()


@functools.cache
def _loop() -> asyncio.AbstractEventLoop:
    """One that never runs: the parsers ask for one."""
    return asyncio.new_event_loop()


TARGETS: dict[str, Callable[[bytes], None]] = {"body": body, "callers": callers, "times": times, "plain": plain}
"""By the names of their corpora."""
