"""What every answer about a website stands on: the reader, what a request may see, and what a client may keep.

An answer is kept by its ETag: a hash of the question as understood and of the website's change counter. Another
process of this server counts anew, so its own number is a part of it too. What may be seen (`View`) is decided where
the request is authorised, and nowhere else.
"""

import secrets
import sqlite3
from collections.abc import Awaitable, Callable
from hashlib import blake2b
from typing import NamedTuple, TypeVar

from aiohttp import web

from tally import errors
from tally.accounts.websites import Website
from tally.api.params import ALLOWED, Question
from tally.api.single_flight import SingleFlight
from tally.clock import Clock
from tally.errors import ApiError
from tally.ingest.store import Store
from tally.latency_histogram import Histogram
from tally.rate_limit import Buckets
from tally.reports.cache import ResultCache
from tally.reports.coverage import BeyondRetention
from tally.storage.connections import Claim
from tally.storage.sql.events import Scope
from tally.timestamps import iso

# our choice: from what is answered out of memory to what is given up.
_TIMES_NS = tuple(ms * 1_000_000 for ms in (1, 5, 25, 100, 500, 2_500, 10_000))

# What is counted from single events alone.
_NEVER_COUNTED = frozenset(("events", "funnel", "event-data"))

T = TypeVar("T")


class Reader:
    """What reading needs at hand."""

    def __init__(self, store: Store, clock: Clock, keys: Buckets, base_url: str) -> None:
        self.store, self.clock, self.keys, self.base_url = store, clock, keys, base_url
        # ETags of an earlier process mean nothing: the change counter starts anew.
        self.boot = secrets.token_bytes(8)
        self.remembered = ResultCache()
        # Answers to questions by share links that are under way.
        self.link_answers: SingleFlight[web.Response] = SingleFlight()
        # Nanoseconds of each question, by endpoint.
        self.times = {name: Histogram(_TIMES_NS) for name in ALLOWED if name != "websites"}

    async def website(self, request: web.Request, account: int) -> Website:
        """The website of the path, if it is this account's. Raises ApiError 404."""
        id = request.match_info["id"].lower()
        if self.store.website(id) is None:
            await self.store.look_again()
        website = self.store.website(id)
        if website is None or website.account != account:
            raise ApiError(errors.UNKNOWN_WEBSITE)
        return website

    def etag(self, *what: object) -> str:
        """A hash of what determines an answer."""
        return blake2b(repr(what).encode(), digest_size=16, key=self.boot).hexdigest()

    async def find(self, asked: Question, look: Callable[[sqlite3.Connection], T]) -> T:
        """What a look finds, in one snapshot. Raises ApiError 503, and 400 where it needs rows that are gone."""
        try:
            return await self.store.read(look, asked.is_gone, asked.claim)
        except BeyondRetention as beyond:
            message = f"Single events are kept from {iso(beyond.from_ms)} on: ask from then on{_otherwise(asked)}."
            raise ApiError(errors.BEYOND_RETENTION, message, field="from") from None


def _otherwise(asked: Question) -> str:
    """What else helps where single events are gone: what is counted of the days before them, if anything is."""
    return "" if asked.endpoint in _NEVER_COUNTED else ", or without filters for whole UTC days"


READER = web.AppKey("reader", Reader)


class View(NamedTuple):
    """What a request may see: a website; without the data of its events where `is_shared`. `by`: the header that says
    so, for Vary; "" where the path does."""

    website: Website
    by: str
    is_shared: bool = False

    @property
    def claim(self) -> Claim:
        """Who the questions about it are for, where connections are short."""
        return Claim(self.is_shared, self.website.number if self.is_shared else self.website.account)


Answer = Callable[[Reader, View, Question, str], Awaitable[web.Response]]
"""What an endpoint answers to a question; the text is the path's own part, a top list's field."""


def scope_of(website: Website, asked: Question) -> Scope:
    """Which events a question is about."""
    return Scope(website.number, asked.range.from_ms, asked.range.to_ms, asked.filters)


def has_tag(request: web.Request, etag: str) -> bool:
    """Whether the client names this very tag: it has then seen the answer, so the question was a good one."""
    return any(f'"{etag}"' in given for given in request.headers.getall("If-None-Match", ()))


def has_any_tag(request: web.Request) -> bool:
    """Whether the client names any tag at all."""
    # `*` is any answer at all, but only where there is one: a refusal is never 304.
    return request.headers.get("If-None-Match", "").strip() == "*"


def caching(etag: str, by: str) -> dict[str, str]:
    """The headers of an answer that a client may keep, and ask about each time; `by` is the header that authorised."""
    vary = f"Accept, {by}" if by else "Accept"
    return {"ETag": f'"{etag}"', "Cache-Control": "private, no-cache", "Vary": vary}
