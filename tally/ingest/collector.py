"""POST /api/collect: the checks in CONTRACT's order, then one write, then the answer.

`collect` is the order, after a look at whether there is room at all; every step either gives what the next one needs or
raises the refusal. A request that is refused before the writer has it takes no token: buckets are looked at twice
(before the body is read, and again when all websites are known) and taken from just before the write. Between that last
look and the taking there is no await, so no request slips in between. A request that the writer rejects for want of an
assignment keeps its tokens taken, since deciding that costs a transaction.

An answer 202 is sent after the commit. What only the writer can know (a month that filled up meanwhile, an assignment
that is missing) comes back from it as an outcome of each event; duplicates count as accepted.

This room hands address, User-Agent and session_id on to be hashed or looked up, and keeps none of them.
"""

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from aiohttp import web

from tally import errors
from tally.accounts.queries import Website, month_ends_in_s, month_of
from tally.clock import Clock
from tally.errors import ApiError
from tally.events.client import Asker, allows
from tally.events.dimensions import RequestContext, dimensions, first_language
from tally.events.identity import Salts
from tally.events.sender import Callers, Sender
from tally.events.user_agent import Agents
from tally.events.validation import (
    AB_ASSIGN,
    APP_EVENT,
    BadBody,
    Batch,
    Event,
    Rejection,
    parse_body,
    read_event,
    type_of,
)
from tally.http.body import read_body
from tally.http.responses import json_response
from tally.ingest.budgets import Budgets
from tally.ingest.rejected_events import Source
from tally.ingest.store import Store
from tally.ingest.writer import MONTH_FULL, NO_ASSIGNMENT, Job, Outcome, Row
from tally.rate_limit import Buckets

_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_CRAWLER = Rejection("crawler", "The User-Agent is a crawler's: crawlers are not counted.")
_NO_WEBSITE = Rejection("missing_field", "website_id says which website the event belongs to.", "website_id")
_BAD_WEBSITE = Rejection("invalid_website_id", "website_id is a UUID, as `website list` shows it.", "website_id")
_UNKNOWN_WEBSITE = Rejection("unknown_website", errors.UNKNOWN_WEBSITE.message, "website_id")
_REFUSED_ORIGIN = Rejection("origin_not_allowed", errors.ORIGIN_NOT_ALLOWED.message, "website_id")

PREFLIGHT = {
    "Access-Control-Allow-Methods": "POST, OPTIONS",
    "Access-Control-Allow-Headers": "Content-Type",
    "Access-Control-Max-Age": "86400",
}
_BODY_ERRORS = {
    "invalid_json": errors.INVALID_JSON,
    "invalid_body": errors.INVALID_BODY,
    "too_many_events": errors.TOO_MANY_EVENTS,
}
_LANGUAGES = 256
# What a named tuple's own way of being made comes to, in half the time.
_make = tuple.__new__

Place = Website | Rejection
"""The website of an item, or why it has none."""


class Claim(NamedTuple):
    """A request that has passed check 6: what was found of each of its items, and the tokens it may take."""

    sender: Sender
    websites: list[Website]
    buckets: list[bytes]
    is_crawler: bool
    verdicts: list[Row | Rejection]
    job: Job
    now_ns: int
    # Where some items are not valid: the website and the type of each item.
    sources: list[Source]


class Collector:
    """What collecting needs at hand. Used by the event loop alone."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        clients: Buckets,
        client_websites: Buckets,
        callers: Callers,
        budgets: Budgets | None = None,
    ) -> None:
        self.store, self.clock, self.callers, self.left_out = store, clock, callers, store.left_out
        self.clients, self.client_websites = clients, client_websites
        self.budgets = budgets or Budgets()
        self.agents, self.salts = Agents(), Salts()
        self.accepted = 0
        self.rejected: Counter[str] = Counter()
        self._language_of = lru_cache(_LANGUAGES)(first_language)

    def look_at_room(self) -> None:
        """Before all checks: where the writer cannot keep up, a request is to cost nothing."""
        if self.store.is_full:
            raise ApiError(errors.OVERLOADED, retry_after_s=1)

    def look_at_client(self, client: bytes) -> None:
        """Check 1."""
        wait_s = self.clients.wait_s(client, self.clock.monotonic_ns())
        if wait_s:
            raise ApiError(errors.RATE_LIMITED, retry_after_s=wait_s)

    def places(self, batch: Batch) -> list[Place | None]:
        """The website of each item; None where its id might be one's that is not known here."""
        website = self.store.registry.websites.get
        # Not list[...](): that takes as long as the rest.
        places: list[Place | None] = []
        for item in batch.items:
            id = item.get("website_id") if isinstance(item, dict) else None
            if id is None:
                id = batch.website_id
            # Nearly always it is as `website list` shows it, and then that is all.
            known = website(id) if isinstance(id, str) else None
            places.append(known or self._place(id))
        return places

    def _place(self, id: Any) -> Place | None:
        if id is None or id == "":
            return _NO_WEBSITE
        if not isinstance(id, str) or not _UUID.fullmatch(id):
            return _BAD_WEBSITE
        return self.store.website(id.lower())

    async def known_places(self, batch: Batch) -> list[Place]:
        """Check 4."""
        places = self.places(batch)
        if None in places:
            await self.store.look_again()
            places = self.places(batch)
            if None in places and not any(isinstance(place, Website) for place in places):
                raise ApiError(errors.UNKNOWN_WEBSITE)
        return [_UNKNOWN_WEBSITE if place is None else place for place in places]

    def claim(self, batch: Batch, places: Sequence[Place], sender: Sender) -> Claim:
        """Checks 5 and 6, and what is to be said of each item."""
        given, (places, websites) = places, _refuse_origins(places, sender.page)
        now_ms, now_ns = self.clock.wall_ms(), self.clock.monotonic_ns()
        doubt_ms = self.clock.doubt_ms(now_ms, now_ns)
        # Plain loops here: most requests hold one event, and a comprehension costs as much as judging half of one.
        client = sender.caller.client
        buckets: list[bytes] = []
        for website in websites:
            buckets.append(client + website.number.to_bytes(8))
        self.look_at_limits(client, buckets, websites, len(places), now_ms, now_ns)
        if self.budgets.month_share:
            places = self._within_share(client, places, now_ms)
        around = self.surroundings(sender)
        # CONTRACT: only on web requests; an HTTP library is the client of an app or a server.
        is_crawler = sender.page is not None and around.agent.crawler
        verdicts: list[Row | Rejection] = []
        rows: list[Row] = []
        for item, place in zip(batch.items, places, strict=True):
            verdict = self.judge(item, place, batch, sender, around, is_crawler, now_ms, doubt_ms)
            verdicts.append(verdict)
            if type(verdict) is Row:
                rows.append(verdict)
        sources = [] if len(rows) == len(verdicts) else sources_of(given, batch)
        job = _make(Job, (rows, now_ms, client))
        return _make(Claim, (sender, websites, buckets, is_crawler, verdicts, job, now_ns, sources))

    def look_at_limits(
        self, client: bytes, buckets: list[bytes], websites: list[Website], events: int, now_ms: int, now_ns: int
    ) -> None:
        """Check 6: every bucket, then every account's month."""
        wait_s = self.clients.wait_s(client, now_ns)
        for bucket in buckets:
            own_s = self.client_websites.wait_s(bucket, now_ns)
            if own_s > wait_s:
                wait_s = own_s
        wait_s = max(wait_s, self.budgets.wait_s(client, events, now_ns))
        if wait_s:
            raise ApiError(errors.RATE_LIMITED, retry_after_s=wait_s)
        for website in websites:
            if not self._month_is_full(website, now_ms) and not self._has_used_share(client, website, now_ms):
                return
        if websites:
            raise ApiError(errors.MONTHLY_LIMIT, retry_after_s=month_ends_in_s(now_ms))

    def _month_is_full(self, website: Website, now_ms: int) -> bool:
        limit = self.store.ingest.limit_of(website.plan)
        return limit is not None and self.store.used(website.account, now_ms) >= limit

    def _has_used_share(self, client: bytes, website: Website, now_ms: int) -> bool:
        limit = self.store.ingest.limit_of(website.plan)
        return self.budgets.has_used_share(client, website.account, limit, month_of(now_ms))

    def _within_share(self, client: bytes, places: Sequence[Place], now_ms: int) -> Sequence[Place]:
        """The places again, those of accounts of whose month the client has used its share as rejections."""
        return [
            MONTH_FULL if isinstance(place, Website) and self._has_used_share(client, place, now_ms) else place
            for place in places
        ]

    def _reserve_shares(self, claim: Claim) -> None:
        """Count all events towards the client's share of each account's month, before anything is awaited: requests
        that are sent at once must not all see the same count."""
        month = month_of(claim.job.arrived_ms)
        for account, events in Counter(row.website.account for row in claim.job.rows).items():
            self.budgets.count(claim.sender.caller.client, account, events, month)

    def settle_shares(self, claim: Claim, outcome: Outcome | None) -> None:
        """Give back the shares of events that were not stored: duplicates and rejected ones; all without an outcome."""
        if not self.budgets.month_share:
            return
        rows, month = claim.job.rows, month_of(claim.job.arrived_ms)
        if outcome is not None:
            rows = [row for row, fate in zip(rows, outcome, strict=True) if fate is not None]
        for account, events in Counter(row.website.account for row in rows).items():
            self.budgets.give_back(claim.sender.caller.client, account, events, month)

    def take_tokens(self, claim: Claim) -> None:
        """Take one token of each bucket that the request concerns, whatever it carries, its events of the budget and of
        the shares."""
        if self.budgets.month_share:
            self._reserve_shares(claim)
        self.budgets.take(claim.sender.caller.client, len(claim.job.rows), claim.now_ns)
        self.clients.take(claim.sender.caller.client, claim.now_ns)
        for bucket in claim.buckets:
            self.client_websites.take(bucket, claim.now_ns)

    def give_back_tokens(self, claim: Claim) -> None:
        """For a request that the writer refused after all."""
        now_ns = self.clock.monotonic_ns()
        self.budgets.take(claim.sender.caller.client, -len(claim.job.rows), now_ns)
        self.clients.give_back(claim.sender.caller.client, now_ns)
        for bucket in claim.buckets:
            self.client_websites.give_back(bucket, now_ns)

    def note_refusal(self, claim: Claim, refusal: ApiError) -> None:
        """A claim whose items were all valid was refused after all."""
        self.left_out.requests[refusal.kind.code] += 1
        # Of that one the events were counted one by one, each with its own fault.
        if refusal.kind is not errors.NO_VALID_EVENT:
            sources = [(row.website, row.event.type) for row in claim.job.rows]
            self.left_out.note_all(sources, refusal.kind.code, claim.sender, claim.job.arrived_ms)

    def surroundings(self, sender: Sender) -> RequestContext:
        """What the request tells of all its events."""
        language = self._language_of(sender.accept_language[:200])
        return _make(RequestContext, (self.agents.of(sender.user_agent), sender.caller.country, language))

    def judge(
        self,
        item: Any,
        place: Place,
        batch: Batch,
        sender: Sender,
        around: RequestContext,
        is_crawler: bool,
        now_ms: int,
        doubt_ms: int,
    ) -> Row | Rejection:
        """Check 7 for one item: its first fault, or the event with its dimensions and identity."""
        type_ = type_of(item)
        if isinstance(type_, Rejection):
            return type_
        if isinstance(place, Rejection):
            return place
        event = read_event(item, type_, batch.context, now_ms, doubt_ms, place.origins)
        if isinstance(event, Rejection):
            return event
        if is_crawler:
            return _CRAWLER
        identity = self._identity(place, event, sender)
        return _make(Row, (place, event, dimensions(event, around, place.domain, place.origins), identity))

    def _identity(self, website: Website, event: Event, sender: Sender) -> bytes:
        if APP_EVENT < event.type < AB_ASSIGN:
            return b""
        if event.session_id:
            return self.salts.session_identity(website.number, event.ts_ms, event.session_id)
        address = sender.caller.address.packed
        return self.salts.client_identity(website.number, event.ts_ms, address, sender.user_agent)


COLLECTOR = web.AppKey("desk", Collector)


def read_batch(body: bytes) -> Batch:
    """Return the batch of events in a request's body. Raises ApiError."""
    try:
        return parse_body(body)
    except BadBody as bad:
        raise ApiError(_BODY_ERRORS[bad.code]) from None


async def collect(request: web.Request) -> web.Response:
    """Takes a request's events; 202 once they are on disk."""
    desk = request.app[COLLECTOR]
    try:
        desk.look_at_room()
        sender = desk.callers.sender(request)
        desk.look_at_client(sender.caller.client)
        return await take(desk, sender, read_batch(await read_body(request)))
    except ApiError as refusal:
        desk.left_out.requests[refusal.kind.code] += 1
        raise


async def take(desk: Collector, sender: Sender, batch: Batch) -> web.Response:
    """Checks 4 to 8."""
    places = await desk.known_places(batch)
    try:
        return await _taken(desk, desk.claim(batch, places, sender))
    except ApiError as refusal:
        # Of that one the events were counted one by one, each with its own fault.
        if refusal.kind is not errors.NO_VALID_EVENT:
            desk.left_out.note_all(sources_of(places, batch), refusal.kind.code, sender, desk.clock.wall_ms())
        raise


async def _taken(desk: Collector, claim: Claim) -> web.Response:
    if not claim.job.rows and not claim.is_crawler:
        raise _no_valid_event(desk, claim, claim.verdicts)
    desk.take_tokens(claim)
    if not claim.job.rows:
        return _answer(desk, claim, claim.verdicts)
    try:
        outcome = await desk.store.write(claim.job)
    except Exception:
        desk.give_back_tokens(claim)
        desk.settle_shares(claim, None)
        raise
    return concluded(desk, claim, outcome)


def concluded(desk: Collector, claim: Claim, outcome: Outcome) -> web.Response:
    """The answer once the rows are committed. Raises ApiError where the writer could take none of them."""
    desk.settle_shares(claim, outcome)
    outcomes = iter(outcome)
    verdicts = [next(outcomes) if isinstance(verdict, Row) else verdict for verdict in claim.verdicts]
    if all(isinstance(verdict, Rejection) for verdict in verdicts):
        # Whether an assignment stands takes a transaction to decide: the rate limits must hold for such requests too.
        if NO_ASSIGNMENT not in outcome:
            desk.give_back_tokens(claim)
            # The month may have filled up since it was looked at.
            now_ns = desk.clock.monotonic_ns()
            client, events = claim.sender.caller.client, len(claim.verdicts)
            desk.look_at_limits(client, claim.buckets, claim.websites, events, claim.job.arrived_ms, now_ns)
        raise _no_valid_event(desk, claim, verdicts)
    return _answer(desk, claim, verdicts)


async def preflight(request: web.Request) -> web.Response:
    """Lets a page send JSON from anywhere; the origin is checked when the events come."""
    return web.Response(status=204, headers=PREFLIGHT)


def _refuse_origins(places: Sequence[Place], page: Asker | None) -> tuple[Sequence[Place], list[Website]]:
    """Check 5: the places again, those whose website refuses the page as rejections, and the websites that are left."""
    if len(places) == 1 and isinstance(places[0], Website):
        # The same in a third of the time.
        website = places[0]
        if not allows(page, website.domain, website.origins):
            raise ApiError(errors.ORIGIN_NOT_ALLOWED)
        return places, [website]
    known = {place.number: place for place in places if isinstance(place, Website)}
    allowed = {number: website for number, website in known.items() if allows(page, website.domain, website.origins)}
    if len(allowed) == len(known):
        return places, list(known.values())
    if not allowed:
        raise ApiError(errors.ORIGIN_NOT_ALLOWED)
    refused = [_REFUSED_ORIGIN if isinstance(p, Website) and p.number not in allowed else p for p in places]
    return refused, list(allowed.values())


def sources_of(places: Sequence[Place | None], batch: Batch) -> list[Source]:
    """The website and the type of each item, as far as they are known."""
    types = map(type_of, batch.items)
    return [
        (place if isinstance(place, Website) else None, type_ if isinstance(type_, int) else None)
        for place, type_ in zip(places, types, strict=True)
    ]


def _no_valid_event(desk: Collector, claim: Claim, verdicts: Sequence[object]) -> ApiError:
    return ApiError(errors.NO_VALID_EVENT, more={"errors": _listed(desk, claim, verdicts)})


def _answer(desk: Collector, claim: Claim, verdicts: Sequence[object]) -> web.Response:
    """Check 8."""
    rejected = _listed(desk, claim, verdicts)
    accepted = len(verdicts) - len(rejected)
    desk.accepted += accepted
    answer = {"ok": True, "accepted": accepted, "rejected": len(rejected)}
    return json_response(answer | {"errors": rejected} if rejected else answer, 202)


def _listed(desk: Collector, claim: Claim, verdicts: Sequence[object]) -> list[dict[str, Any]]:
    rejections = [(index, verdict) for index, verdict in enumerate(verdicts) if isinstance(verdict, Rejection)]
    for index, rejection in rejections:
        desk.rejected[rejection.code] += 1
        judged = claim.verdicts[index]
        source = (judged.website, judged.event.type) if isinstance(judged, Row) else claim.sources[index]
        desk.left_out.note(source, rejection.code, rejection.field, claim.sender, claim.job.arrived_ms)
    return [
        {"index": index, "code": r.code, "message": r.message} | ({"field": r.field} if r.field else {})
        for index, r in rejections
    ]
