"""Requests that two servers could read differently, sent raw: both ways through the server read each of them alike.

What is ambiguous is refused and its connection closed, so that nothing behind it is taken for a request of somebody
else's. What is odd but clear is read the same by the short way of tally/shortcut.py, if that takes it at all, and by
aiohttp: RFC 9112 sections 2.2, 3, 5, 6, 7 and 11.
"""

import asyncio
import contextlib
import json
import re
from typing import NamedTuple

import pytest
from conftest import House

VIEW = {"type": "pageview", "url": "https://example.com/one", "website_id": "WEBSITE"}
BEHIND = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


class Case(NamedTuple):
    """Bytes, with BODY, SIZE and HEX (its length) put in; what is answered to them and to a request sent after them."""

    sent: bytes
    answers: str


def post(*lines: str, first: str = "POST /api/collect HTTP/1.1", end: str = "\r\n") -> bytes:
    return end.join((first, *lines, "", "BODY")).encode()


PLAIN = ("Host: x", "Content-Length: SIZE")
CHUNKED = ("Host: x", "Transfer-Encoding: chunked")
HEX = b"HEX\r\nBODY\r\n"
CASES = {
    # Clear, and taken.
    "plain": Case(post(*PLAIN), "202 200"),
    "chunked": Case(post(*CHUNKED).replace(b"BODY", HEX + b"0\r\n\r\n"), "202 200"),
    "a chunk's extension": Case(post(*CHUNKED).replace(b"BODY", b"HEX;a=b\r\nBODY\r\n0\r\n\r\n"), "202 200"),
    "a trailer": Case(post(*CHUNKED).replace(b"BODY", HEX + b"0\r\nX-Trailer: y\r\n\r\n"), "202 200"),
    "a line before": Case(b"\r\n" + post(*PLAIN), "202 200"),
    "two lines before": Case(b"\r\n\r\n" + post(*PLAIN), "202 200"),
    "an absolute URI": Case(post(*PLAIN, first="POST http://x/api/collect HTTP/1.1"), "202 200"),
    "zeros before the length": Case(post("Host: x", "Content-Length: 000SIZE"), "202 200"),
    "names in capitals": Case(post("HOST: x", "CONTENT-LENGTH: SIZE"), "202 200"),
    "no space after the colon": Case(post("Host:x", "Content-Length:SIZE"), "202 200"),
    "spaces around a value": Case(post("Host: x", "Content-Length:  \tSIZE \t"), "202 200"),
    "a version of old": Case(post(*PLAIN, first="POST /api/collect HTTP/1.0"), "202"),
    "a body behind its end": Case(post(*PLAIN) + b"\r\n", "202 200"),
    "two spaces in the first line": Case(post(*PLAIN, first="POST  /api/collect HTTP/1.1"), "202 200"),
    "no version: HTTP/0.9, which ends with its answer": Case(post(*PLAIN, first="POST /api/collect"), "202"),
    # Clear, and refused.
    "no length": Case(post("Host: x"), "400"),
    "a length of 0": Case(post("Host: x", "Content-Length: 0").replace(b"BODY", b""), "400 200"),
    "a path that is none": Case(post(*PLAIN, first="POST /api/collect%2e HTTP/1.1"), "404 200"),
    "a path with a dot segment": Case(post(*PLAIN, first="POST /api/../api/collect HTTP/1.1"), "404 200"),
    "a body that is compressed": Case(post(*PLAIN, "Content-Encoding: gzip"), "415 200"),
    # Ambiguous: refused, and nothing behind it is read.
    "a length and chunks": Case(post(*PLAIN, "Transfer-Encoding: chunked").replace(b"BODY", HEX + b"0\r\n\r\n"), "400"),
    "chunks and a length": Case(post(*CHUNKED, "Content-Length: SIZE").replace(b"BODY", HEX + b"0\r\n\r\n"), "400"),
    "two lengths": Case(post("Host: x", "Content-Length: 1", "Content-Length: SIZE"), "400"),
    "two equal lengths": Case(post(*PLAIN, "Content-Length: SIZE"), "400"),
    "a list of lengths": Case(post("Host: x", "Content-Length: SIZE, SIZE"), "400"),
    "a length with a sign": Case(post("Host: x", "Content-Length: +SIZE"), "400"),
    "a length below 0": Case(post("Host: x", "Content-Length: -1"), "400"),
    "a length with an underscore": Case(post("Host: x", "Content-Length: 1_0"), "400"),
    "a length in hexadecimal": Case(post("Host: x", "Content-Length: 0xHEX"), "400"),
    "an empty length": Case(post("Host: x", "Content-Length:"), "400"),
    "a length beyond all numbers": Case(post("Host: x", "Content-Length: 99999999999999999999"), "400"),
    "a length in other digits": Case(post("Host: x", "Content-Length: \u0661\u0662"), "400"),
    "chunks twice": Case(post(*CHUNKED, "Transfer-Encoding: chunked").replace(b"BODY", HEX + b"0\r\n\r\n"), "400"),
    "an unknown coding": Case(post("Host: x", "Transfer-Encoding: xchunked"), "400"),
    "chunks, then identity": Case(post("Host: x", "Transfer-Encoding: chunked, identity"), "400"),
    "a coding behind a tab": Case(post(*PLAIN, "Transfer-Encoding:\tchunked"), "400"),
    "a coding behind another line's end": Case(post(*PLAIN, "X: y\rTransfer-Encoding: chunked"), "400"),
    "a space before the colon": Case(post("Host: x", "Content-Length : SIZE"), "400"),
    "a space before the name": Case(post("Host: x", " Content-Length: SIZE"), "400"),
    "a folded line": Case(post("Host: x", "X: y", " z", "Content-Length: SIZE"), "400"),
    "a line without a colon": Case(post(*PLAIN, "Transfer-Encoding"), "400"),
    "a line without a name": Case(post(*PLAIN, ": chunked"), "400"),
    "a NUL in a value": Case(post(*PLAIN, "X: a\0b"), "400"),
    "a NUL in a name": Case(post(*PLAIN, "X\0: y"), "400"),
    "a letter beyond ASCII in a name": Case(post(*PLAIN, "X\xe9: y"), "400"),
    "ends of lines that are bare": Case(post(*PLAIN, end="\n"), "400"),
    "one end of a line that is bare": Case(post(*PLAIN, "X: y\nTransfer-Encoding: chunked"), "400"),
    "a carriage return alone": Case(post(*PLAIN, end="\r"), "400"),
    "two hosts": Case(post(*PLAIN, "Host: y"), "400"),
    "no host": Case(post("Content-Length: SIZE"), "400"),
    "a space in the path": Case(post(*PLAIN, first="POST /api/ collect HTTP/1.1"), "400"),
    "a version that is none": Case(post(*PLAIN, first="POST /api/collect HTTP/1.2.3"), "400"),
    "a method in small letters": Case(post(*PLAIN, first="post /api/collect HTTP/1.1"), "400"),
    "a size that is none": Case(post(*CHUNKED).replace(b"BODY", b"g\r\nBODY\r\n0\r\n\r\n"), "400"),
    "a size with a sign": Case(post(*CHUNKED).replace(b"BODY", b"+HEX\r\nBODY\r\n0\r\n\r\n"), "400"),
    "a size beyond all numbers": Case(post(*CHUNKED).replace(b"BODY", b"f" * 20 + b"\r\nBODY\r\n0\r\n\r\n"), "400"),
    "a chunk longer than its size": Case(post(*CHUNKED).replace(b"BODY", b"1\r\nBODY\r\n0\r\n\r\n"), "400"),
    "chunks with bare ends": Case(post(*CHUNKED).replace(b"BODY", b"HEX\nBODY\n0\n\n"), "400"),
}


async def answers(house: House, sent: bytes, *, long: bool) -> str:
    """The statuses of all answers on one connection, until the server closes it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", house.client.port)
    try:
        if long:
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]))
        for piece in (sent, BEHIND):
            writer.write(piece)
            await settled(house)
        # Where it is closed already there is nobody to tell.
        with contextlib.suppress(OSError):
            writer.write_eof()
        return " ".join(re.findall(r"HTTP/[0-9.]+ (\d+) ", (await reader.read()).decode()))
    finally:
        writer.close()


async def settled(house: House) -> None:
    """The server has read what was sent and done what follows from it."""
    for _ in range(3):
        await house.get("/healthz")
    while house.store.queue:
        await house.get("/healthz")
    await house.get("/healthz")


@pytest.mark.parametrize("name", CASES)
async def test_both_ways_read_it_alike(name: str, house: House) -> None:
    website = await house.website()
    body = json.dumps(VIEW).replace("WEBSITE", website).encode()
    sent = CASES[name].sent.replace(b"SIZE", b"%d" % len(body)).replace(b"HEX", b"%x" % len(body))
    sent = sent.replace(b"BODY", body)
    found = [await answers(house, sent, long=long) for long in (False, True)]
    assert found == [CASES[name].answers] * 2
    taken = 2 if CASES[name].answers.startswith("202") else 0
    assert house.sql("select count(*) from event") == [(taken,)]
