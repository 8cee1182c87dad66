"""Admission of collect requests: POST /api/collect, the pixel and the fast path.

Every request takes the same path; "check N" is a row of "Order of checks" in docs/reference/collect-api.md:
- `check_capacity` and `check_client` (checks 0 and 1), before the body is read.
- `admit` (checks 4 to 7): the website of each item, its origin, the limits, then each item's fields. It gives a Claim
  or a Refusal and changes nothing, so it may run again: after websites were read anew, or after the fast path has
  handed a request over to aiohttp.
- `submit`: queues the events and takes the tokens. No await stands between `admit` and the tokens, so no other request
  can use them in between.
- `settle`, with the outcome of the commit: gives back what was taken for events that were not stored, counts the
  request, and returns what to answer.

A request that is refused before it is queued takes no token of the requests; the conversion of internationalised
labels has a limit of its own, which holds for refused requests too. A request that the writer rejects for want of an
assignment keeps its tokens taken, since that decision costs a transaction.

202 is answered after the commit. What only the writer can decide (a month that filled up meanwhile, a missing
assignment) is an outcome of each event; duplicates count as accepted.

Addresses, User-Agents and session_ids are passed on to be hashed or looked up; none of them is kept.
"""

import asyncio
import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from aiohttp import HttpVersion11, web

from tally import errors
from tally.accounts.usage import month_ends_in_s, month_of
from tally.engine.ingest import (
    DUPLICATE,
    MONTH_FULL,
    NO_ASSIGNMENT,
    Crawl,
    OnWritten,
    Outcomes,
    PreparedEvent,
    WriteRequest,
)
from tally.errors import ApiError, Unanswered
from tally.events.client import PageOrigin, allows
from tally.events.dimensions import FIELDS, dimensions, first_language, pathname_of
from tally.events.exclusions import ADDRESSES, COUNTRIES, DEFAULT, HOSTNAMES, PAGES
from tally.events.identity import Salts
from tally.events.lists import Lists
from tally.events.path_rules import rewritten
from tally.events.request_context import RequestContext
from tally.events.sender import ClientResolver, Sender
from tally.events.urls import MAX_HOST_CHARACTERS, BadHost, TooManyLabels, a_labels, normal_host
from tally.events.user_agent import Agents
from tally.events.validation import (
    PAGEVIEWS,
    WITH_VISITOR,
    BadBody,
    Batch,
    Event,
    FieldWarning,
    Rejection,
    parse_body,
    read_event,
    type_of,
)
from tally.events.website import Website
from tally.http.body import read_body
from tally.http.responses import json_response, preflight_response
from tally.ingest.budgets import Budgets
from tally.ingest.node import Node
from tally.ingest.rejected_events import NOT_FAULTS, Source
from tally.rate_limit import Buckets

_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_CRAWLER = Rejection("crawler", "The User-Agent is a crawler's: crawlers are not counted.")
_EXCLUDED = {
    ADDRESSES: Rejection("excluded_address", "The website's owner excludes this address."),
    COUNTRIES: Rejection("excluded_country", "The website's owner excludes this country."),
    PAGES: Rejection("excluded_page", "The website's owner excludes this page."),
    HOSTNAMES: Rejection("excluded_hostname", "The website's owner counts pages of other hosts only."),
}
_DATACENTER = Rejection("datacenter", "The address is a data center's, which the website's owner excludes.")
_SPAM = Rejection("referrer_spam", "The referrer is a site that sends invented visits.")
_COUNTRY, _PATHNAME, _HOSTNAME, _REFERRER = (
    FIELDS.index(name) for name in ("country", "pathname", "hostname", "referrer")
)
_NO_WEBSITE = Rejection("missing_field", "website_id says which website the event belongs to.", "website_id")
_BAD_WEBSITE = Rejection("invalid_website_id", "website_id is a UUID, as `website list` shows it.", "website_id")
_UNKNOWN_WEBSITE = Rejection("unknown_website", errors.UNKNOWN_WEBSITE.message, "website_id")
_REFUSED_ORIGIN = Rejection("origin_not_allowed", errors.ORIGIN_NOT_ALLOWED.message, "website_id")

_BODY_ERRORS = {
    "invalid_json": errors.INVALID_JSON,
    "invalid_body": errors.INVALID_BODY,
    "too_many_events": errors.TOO_MANY_EVENTS,
}
_LANGUAGES = 256
# Each is read three times for each of 50 events. 1 MB at most.
_HOSTS = 1_024
# docs/reference/limits.md. 10 ms of processor time; a request may convert as many even if fewer tokens are left.
# 50 events with a new host of 15 characters in both URLs take 1,900.
MAX_CONVERTED = 2_000
# With a trailing dot.
_MAX_HOST = MAX_HOST_CHARACTERS + 1
# As the named tuple's own constructor, in half the time.
_make = tuple.__new__
T = TypeVar("T")

Place = Website | Rejection
"""The website of an item, or why it has none."""


class Visitor(NamedTuple):
    """The sender of the events: its headers, its address, and whether it is a crawler."""

    sender: Sender
    context: RequestContext
    is_crawler: bool


class Claim(NamedTuple):
    """An admitted request: its valid events, and the tokens that it takes."""

    sender: Sender
    websites: list[Website]
    bucket_keys: list[bytes]
    # For each item the event to be stored or why it is rejected.
    verdicts: list[PreparedEvent | Rejection]
    request: WriteRequest
    now_ns: int
    # The website and the type of each item; empty where all items are valid.
    sources: list[Source]
    # Whether one of the events is stored without a field, or with one that is cut.
    has_warnings: bool

    @property
    def is_all_valid(self) -> bool:
        """Whether every item is a valid event."""
        return not self.sources


class RejectedItem(NamedTuple):
    """An item that is not stored: where it belongs, its code and field, and what a sample shows."""

    source: Source
    code: str
    field: str = ""
    detail: str = ""


class Refusal(ApiError):
    """The error response to a whole request, with the items that count as rejected events of their websites."""

    def __init__(self, error: ApiError, sender: Sender, arrived_ms: int, items: Sequence[RejectedItem]) -> None:
        super().__init__(error.kind, error.message, field=error.field, headers=error.headers, more=error.more)
        self.sender, self.arrived_ms, self.items = sender, arrived_ms, items


class Accepted(NamedTuple):
    """The content of a 202 response: how many events are accepted, the errors of the others, and what the accepted ones
    are stored without."""

    events: int
    errors: list[dict[str, Any]]
    warnings: Sequence[dict[str, Any]] = ()


class Collector:
    """Admission and its state: rate limits, budgets, salts, counters. Used by the event loop alone."""

    def __init__(
        self,
        node: Node,
        clients: Buckets,
        client_websites: Buckets,
        resolver: ClientResolver,
        agents: Agents,
        budgets: Budgets,
        lists: Lists,
    ) -> None:
        self.registry, self.ingest, self.clock, self.resolver = node.registry, node.engine.ingest, node.clock, resolver
        self.rejected_events = node.rejected_events
        self.clients, self.client_websites = clients, client_websites
        self.client_labels = Buckets(MAX_CONVERTED)
        self.budgets, self.agents, self.lists, self.salts = budgets, agents, lists, Salts()
        self.accepted = 0
        self.rejected: Counter[str] = Counter()
        self._language_of = lru_cache(_LANGUAGES)(first_language)
        self._host_of = lru_cache(_HOSTS)(_host_of)

    # --- before the body is read

    def sender(self, request: web.Request) -> Sender:
        """Return the sender of a request that aiohttp has read."""
        headers, is_http_1_1 = request.headers, request.version == HttpVersion11
        forwarded = headers.getall(self.resolver.header, ())
        return self.resolver.sender(request.remote, headers, forwarded, is_http_1_1=is_http_1_1)

    def check_capacity(self) -> None:
        """Raise ApiError 503 where the writer cannot keep up: such a request is to cost as little as possible."""
        if self.ingest.is_full:
            raise ApiError(errors.OVERLOADED, retry_after_s=1)

    def check_client(self, sender: Sender) -> None:
        """Check 1: raise ApiError 429 where the client has no token left."""
        client, now_ns = sender.client.key, self.clock.monotonic_ns()
        wait_s = self.clients.wait_s(client, now_ns) or self.client_labels.wait_s(client, now_ns)
        if wait_s:
            raise ApiError(errors.RATE_LIMITED, retry_after_s=wait_s)

    # --- admission

    def admit(self, batch: Batch, sender: Sender, *, is_refreshed: bool = False) -> Claim | Refusal | None:
        """Checks 4 to 7. Changes nothing, except that converted labels count towards their limit.

        None where a website_id is not in memory: read the websites anew, then call again with `is_refreshed`.
        """
        try:
            return self.count_labels(sender, lambda: self._admit(batch, sender, is_refreshed=is_refreshed))
        except ApiError as error:
            return _refused_whole(error, sender, self.clock.wall_ms(), ())

    def count_labels(self, sender: Sender, parse: Callable[[], T]) -> T:
        """Return what `parse` does, which counts the labels that it converts for the client.

        Raises ApiError 429 where they are too many for one request; if it is sent again, those converted are cached.
        """
        before = a_labels.converted
        a_labels.limit = before + MAX_CONVERTED
        try:
            return parse()
        except TooManyLabels:
            raise ApiError(errors.RATE_LIMITED, retry_after_s=60) from None
        finally:
            a_labels.limit = math.inf
            if a_labels.converted > before:
                self.client_labels.take(sender.client.key, self.clock.monotonic_ns(), a_labels.converted - before)

    def _admit(self, batch: Batch, sender: Sender, *, is_refreshed: bool) -> Claim | Refusal | None:
        places = self._places(batch)
        if None in places:
            if not is_refreshed:
                return None
            if not any(isinstance(place, Website) for place in places):
                return Refusal(ApiError(errors.UNKNOWN_WEBSITE), sender, 0, ())
            places = [_UNKNOWN_WEBSITE if place is None else place for place in places]
        try:
            return self._claim(batch, places, sender)
        except Refusal as refusal:
            return refusal
        except ApiError as error:
            return _refused_whole(error, sender, self.clock.wall_ms(), _sources(places, batch))

    def _places(self, batch: Batch) -> list[Any]:
        """Return the Place of each item; None where the id might belong to a website that is not in memory."""
        website = self.registry.cache.websites.get
        # Not list[...](): that takes as long as the rest.
        places: list[Any] = []
        for item in batch.items:
            id = item.get("website_id") if isinstance(item, dict) else None
            if id is None:
                id = batch.website_id
            # Nearly every id is written as `website list` shows it; no other check is needed then.
            known = website(id) if isinstance(id, str) else None
            places.append(known or self._place(id, batch.takes_domains))
        return places

    def _place(self, id: Any, takes_domains: bool) -> Place | None:
        if id is None or id == "":
            return _NO_WEBSITE
        if not isinstance(id, str):
            return _BAD_WEBSITE
        if _UUID.fullmatch(id):
            return self.registry.website(id.lower())
        if not takes_domains:
            return _BAD_WEBSITE
        # One that is longer is no host, and is not cached.
        host = self._host_of(id) if len(id) <= _MAX_HOST else ""
        # A text without a dot is more likely a mistyped id than a host.
        return self.registry.website_of(host) or (None if "." in host else _BAD_WEBSITE)

    def domain_of(self, id: str) -> str:
        """Return the domain of the website with an id, or of a host; "" for an unknown one."""
        place = self._place(id, takes_domains=True)
        return place.domain if isinstance(place, Website) else ""

    def _claim(self, batch: Batch, named: Sequence[Place], sender: Sender) -> Claim:
        """Checks 5 to 7. Raises ApiError; Refusal where no event is valid."""
        places, websites = _refuse_origins(named, sender.page)
        now_ms, now_ns = self.clock.wall_ms(), self.clock.monotonic_ns()
        large_skew_ms = self.clock.large_skew_ms(now_ms, now_ns)
        # Plain loops here: most requests hold one event, and a comprehension costs half as much as judging one.
        client = sender.client.key
        bucket_keys: list[bytes] = []
        for website in websites:
            bucket_keys.append(client + website.number.to_bytes(8))
        self._check_limits(client, bucket_keys, websites, len(places), now_ms, now_ns)
        if self.budgets.month_share:
            places = self._within_share(client, places, now_ms)
        # Only on web requests: apps and servers send with HTTP libraries, which resemble crawlers.
        requester = self._visitor(sender, sender.page is not None)
        visitors: Sequence[Visitor | Sender | Rejection] = batch.visitors or (requester,) * len(places)
        verdicts: list[PreparedEvent | Rejection] = []
        events: list[PreparedEvent] = []
        crawls: list[Crawl] = []
        has_warnings = False
        for item, place, visitor in zip(batch.items, places, visitors, strict=True):
            verdict = self._judge(item, place, batch, visitor, now_ms, large_skew_ms, crawls)
            verdicts.append(verdict)
            if type(verdict) is PreparedEvent:
                events.append(verdict)
                if verdict.event.warnings:
                    has_warnings = True
        sources = [] if len(events) == len(verdicts) else _sources(named, batch)
        request = _make(WriteRequest, (events, now_ms, client, crawls))
        claim = _make(Claim, (sender, websites, bucket_keys, verdicts, request, now_ns, sources, has_warnings))
        if not events and not _has_rejected_without_fault(verdicts) and (batch.visitors or not requester.is_crawler):
            raise _no_valid_event(claim, verdicts)
        return claim

    def _check_limits(
        self, client: bytes, bucket_keys: list[bytes], websites: list[Website], events: int, now_ms: int, now_ns: int
    ) -> None:
        """Check 6: every rate limit, then every account's month. Raises ApiError 429."""
        wait_s = self.clients.wait_s(client, now_ns)
        for key in bucket_keys:
            own_s = self.client_websites.wait_s(key, now_ns)
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
        limit = self.registry.event_limit(website.plan)
        return limit is not None and self.registry.used(website.account, now_ms) >= limit

    def _has_used_share(self, client: bytes, website: Website, now_ms: int) -> bool:
        limit = self.registry.event_limit(website.plan)
        return self.budgets.has_used_share(client, website.account, limit, month_of(now_ms))

    def _within_share(self, client: bytes, places: Sequence[Place], now_ms: int) -> Sequence[Place]:
        """Return the places, with a rejection for those of an account of whose month the client has used its share."""
        return [
            MONTH_FULL if isinstance(place, Website) and self._has_used_share(client, place, now_ms) else place
            for place in places
        ]

    def _visitor(self, sender: Sender, is_browser: bool) -> Visitor:
        """Return a visitor, with the context of its request."""
        language = self._language_of(sender.accept_language[:200])
        agent = self.agents.of(sender.user_agent, sender.client_hints)
        context = _make(RequestContext, (agent, sender.client.place, language))
        return _make(Visitor, (sender, context, is_browser and agent.crawler))

    def _judge(
        self,
        item: Any,
        place: Place,
        batch: Batch,
        visitor: Visitor | Sender | Rejection,
        now_ms: int,
        large_skew_ms: int,
        crawls: list[Crawl],
    ) -> PreparedEvent | Rejection:
        """Check 7 for one item: its first fault, or the event with its dimensions and identity.

        A page that a crawler requests is added to `crawls`.
        """
        type_ = type_of(item)
        if isinstance(type_, Rejection):
            return type_
        if isinstance(place, Rejection):
            return place
        event = read_event(item, type_, batch.context, now_ms, large_skew_ms, place.origins)
        if isinstance(event, Rejection):
            return event
        if isinstance(visitor, Rejection):
            return visitor
        if isinstance(visitor, Sender):
            # Not before the event is known to be valid: a new User-Agent takes longer than all other checks, and a
            # request without a valid event takes no token.
            visitor = self._visitor(visitor, True)
        context = visitor.context
        if visitor.is_crawler:
            name = context.agent.crawler_name
            if event.type in PAGEVIEWS:
                path = rewritten(place.path_rules, pathname_of(event))
                crawls.append(Crawl(place.number, event.ts_ms, name, path, batch.source))
            if not place.counts_crawlers:
                return _CRAWLER._replace(detail=name)
            context = context._replace(agent=replace(context.agent, browser=name or "Crawler", browser_version=""))
        values = dimensions(event, context, place.domain, place.origins)
        excluded = self._exclusion(place, values, visitor.sender, batch)
        if excluded is not None:
            return excluded
        if place.path_rules:
            path = rewritten(place.path_rules, values[_PATHNAME])
            values = (*values[:_PATHNAME], path, *values[_PATHNAME + 1 :])
        identity = self._identity(place, event, visitor.sender)
        return _make(PreparedEvent, (place, event, values, identity))

    def _exclusion(self, place: Website, values: Sequence[str], sender: Sender, batch: Batch) -> Rejection | None:
        """Return why the website's owner excludes an event; None where nothing does."""
        if place.exclusions is not None:
            address = sender.client.address
            kind = place.exclusions.excluding(address, values[_COUNTRY], values[_PATHNAME], values[_HOSTNAME])
            if kind:
                return _EXCLUDED[kind]
            # Apps and servers, and those who send for visitors, are in data centers themselves.
            if place.exclusions.excludes_datacenters and not batch.visitors and sender.page is not None:
                ranges = self.lists.datacenters
                if ranges is not None and address in ranges:
                    return _DATACENTER
        referrer = values[_REFERRER]
        if referrer and (place.exclusions or DEFAULT).is_spam(referrer):
            return _SPAM._replace(detail=referrer)
        return None

    def _identity(self, website: Website, event: Event, sender: Sender) -> bytes:
        if event.type not in WITH_VISITOR:
            return b""
        offset_ms = website.day_offset_ms
        if event.session_id:
            return self.salts.session_identity(website.number, event.ts_ms, event.session_id, offset_ms)
        address = sender.client.address.packed
        return self.salts.client_identity(website.number, event.ts_ms, address, sender.user_agent, offset_ms)

    # --- from the queue to the answer

    def submit(self, claim: Claim, on_written: OnWritten) -> None:
        """Queue the events of an admitted request and take its tokens. Raises Refusal (503); then nothing was taken."""
        if not claim.request.size:
            on_written([])
        else:
            try:
                self.ingest.append(claim.request, on_written)
            except ApiError as error:
                raise self._refusal(claim, error) from None
        self._take_tokens(claim)

    def settle(self, claim: Claim, outcome: Outcomes | Exception) -> Accepted:
        """Give back what was taken for events that were not stored, and count the accepted request.

        Raises Refusal where the writer accepted none of the events, and the failure where it failed.
        """
        if isinstance(outcome, Unanswered):
            # They are stored here, and count.
            self.settle(claim, outcome.outcome)
            raise outcome
        if isinstance(outcome, Exception):
            self._give_back(claim)
            self._give_back_share(claim, claim.request.events)
            if isinstance(outcome, ApiError):
                raise self._refusal(claim, outcome)
            raise outcome
        if self.budgets.month_share:
            both = zip(claim.request.events, outcome, strict=True)
            not_stored = [event for event, stored in both if stored is DUPLICATE or isinstance(stored, Rejection)]
            self._give_back_share(claim, not_stored)
        if claim.is_all_valid and not claim.has_warnings and not any(outcome):
            self.accepted += len(outcome)
            return _make(Accepted, (len(outcome), [], ()))
        outcomes = iter(outcome)
        verdicts = [next(outcomes) if isinstance(v, PreparedEvent) else v for v in claim.verdicts]
        # Crawlers and excluded events alone: nothing was queued, and they are answered 202.
        if claim.request.events and all(isinstance(verdict, Rejection) for verdict in verdicts):
            self._refuse_after_commit(claim, outcome, verdicts)
        items = _rejected_items(claim, verdicts)
        self._count_items(claim.sender, claim.request.arrived_ms, items, are_own_faults=True)
        self.accepted += len(verdicts) - len(items)
        return Accepted(len(verdicts) - len(items), _listed(verdicts), self._count_warnings(claim, verdicts))

    def _count_warnings(self, claim: Claim, verdicts: Sequence[object]) -> list[dict[str, Any]]:
        """Count what the accepted events are stored without; return it as the response lists it."""
        listed = []
        for index, (prepared, verdict) in enumerate(zip(claim.verdicts, verdicts, strict=True)):
            if isinstance(prepared, Rejection) or isinstance(verdict, Rejection):
                continue
            of_storing = (verdict,) if isinstance(verdict, FieldWarning) else ()
            for code, field in (*prepared.event.warnings, *of_storing):
                listed.append({"index": index, "code": code, "field": field})
                if verdict is not DUPLICATE:
                    source = prepared.website, prepared.event.type
                    self.rejected_events.note(source, code, field, claim.sender, claim.request.arrived_ms)
        return listed

    def _refuse_after_commit(self, claim: Claim, outcome: Outcomes, verdicts: Sequence[object]) -> None:
        # Whether an assignment is there takes a transaction to decide: the rate limits must hold for such requests too.
        if NO_ASSIGNMENT not in outcome:
            self._give_back(claim)
            # The month may have filled up since it was checked.
            now_ms, now_ns = claim.request.arrived_ms, self.clock.monotonic_ns()
            client, events = claim.sender.client.key, len(claim.verdicts)
            try:
                self._check_limits(client, claim.bucket_keys, claim.websites, events, now_ms, now_ns)
            except ApiError as error:
                raise self._refusal(claim, error) from None
        raise _no_valid_event(claim, verdicts)

    def _refusal(self, claim: Claim, error: ApiError) -> Refusal:
        sources = claim.sources or [(prepared.website, prepared.event.type) for prepared in claim.request.events]
        return _refused_whole(error, claim.sender, claim.request.arrived_ms, sources)

    def _take_tokens(self, claim: Claim) -> None:
        """Take one token of each bucket that the request concerns, and its events from the client's budgets."""
        client, events = claim.sender.client.key, claim.request.events
        if self.budgets.month_share:
            # Before anything is awaited: requests that are sent at once must not all see the same count.
            for account, number in _by_account(events).items():
                self.budgets.take_share(client, account, number, month_of(claim.request.arrived_ms))
        self.budgets.take(client, len(events), claim.now_ns)
        self.clients.take(client, claim.now_ns)
        for key in claim.bucket_keys:
            self.client_websites.take(key, claim.now_ns)

    def _give_back(self, claim: Claim) -> None:
        """Give back the tokens of a request of which nothing was stored."""
        client, now_ns = claim.sender.client.key, self.clock.monotonic_ns()
        self.budgets.give_back(client, len(claim.request.events), now_ns)
        self.clients.give_back(client, now_ns)
        for key in claim.bucket_keys:
            self.client_websites.give_back(key, now_ns)

    def _give_back_share(self, claim: Claim, events: Sequence[PreparedEvent]) -> None:
        """Give back the client's share of each account's month for events that were not stored."""
        if self.budgets.month_share:
            for account, number in _by_account(events).items():
                client, month = claim.sender.client.key, month_of(claim.request.arrived_ms)
                self.budgets.give_back_share(client, account, number, month)

    # --- counters

    def count_refusal(self, error: ApiError) -> None:
        """Count a request that is answered with an error, and its items where their websites are known."""
        self.rejected_events.requests[error.kind.code] += 1
        if isinstance(error, Refusal):
            self._count_items(
                error.sender, error.arrived_ms, error.items, are_own_faults=error.kind is errors.NO_VALID_EVENT
            )

    def _count_items(
        self, sender: Sender, arrived_ms: int, items: Sequence[RejectedItem], *, are_own_faults: bool
    ) -> None:
        for source, code, field, detail in items:
            if are_own_faults:
                self.rejected[code] += 1
            self.rejected_events.note(source, code, field, sender, arrived_ms, detail)


COLLECTOR = web.AppKey("collector", Collector)


def read_batch(body: bytes) -> Batch:
    """Check 3: return the batch of events in a request's body. Raises ApiError."""
    try:
        return parse_body(body)
    except BadBody as bad:
        raise ApiError(_BODY_ERRORS[bad.code]) from None


def sender_of(collector: Collector, request: web.Request) -> Sender:
    """Return the sender of a request. Raises ApiError where its body is not to be read: no capacity, no token."""
    collector.check_capacity()
    sender = collector.sender(request)
    collector.check_client(sender)
    return sender


async def take(collector: Collector, batch: Batch, sender: Sender) -> Accepted:
    """Store the events of a batch; return what to answer once they are durable. Raises ApiError."""
    admitted = collector.admit(batch, sender)
    if admitted is None:
        await collector.registry.read_changes()
        admitted = collector.admit(batch, sender, is_refreshed=True)
    if not isinstance(admitted, Claim):
        raise ApiError(errors.UNKNOWN_WEBSITE) if admitted is None else admitted
    future: asyncio.Future[Outcomes | Exception] = asyncio.get_running_loop().create_future()
    collector.submit(admitted, lambda outcome: None if future.done() else future.set_result(outcome))
    return collector.settle(admitted, await future)


async def collect(request: web.Request) -> web.Response:
    """POST /api/collect: 202 once the valid events are durable."""
    collector = request.app[COLLECTOR]
    try:
        sender = sender_of(collector, request)
        accepted = await take(collector, read_batch(await read_body(request)), sender)
    except ApiError as error:
        collector.count_refusal(error)
        raise
    return accepted_response(accepted)


async def preflight(request: web.Request) -> web.Response:
    """OPTIONS of an endpoint for events: any page may send, with any headers; its origin is checked with the events."""
    return preflight_response(request, "POST, OPTIONS", "Content-Type")


def accepted_response(accepted: Accepted) -> web.Response:
    """Check 8: the 202 response."""
    content: dict[str, Any] = {"ok": True, "accepted": accepted.events, "rejected": len(accepted.errors)}
    if accepted.errors:
        content["errors"] = accepted.errors
    if accepted.warnings:
        content["warnings"] = accepted.warnings
    return json_response(content, 202)


def _host_of(text: str) -> str:
    """Return the normal host of a text, "" where it is none."""
    try:
        return normal_host(text)
    except BadHost:
        return ""


def _refuse_origins(places: Sequence[Place], page: PageOrigin | None) -> tuple[Sequence[Place], list[Website]]:
    """Check 5: return the places, with a rejection where the website refuses the page, and the remaining websites.

    Raises ApiError 403 where all websites refuse it.
    """
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


def _has_rejected_without_fault(verdicts: Sequence[object]) -> bool:
    """Return whether one of the rejected events has no fault: it is not to be counted."""
    return any(isinstance(verdict, Rejection) and verdict.code in NOT_FAULTS for verdict in verdicts)


def _by_account(events: Sequence[PreparedEvent]) -> Counter[int]:
    return Counter(event.website.account for event in events)


def _sources(places: Sequence[Place | None], batch: Batch) -> list[Source]:
    """Return the website and the type of each item, None where unknown."""
    types = map(type_of, batch.items)
    return [
        (place if isinstance(place, Website) else None, type_ if isinstance(type_, int) else None)
        for place, type_ in zip(places, types, strict=True)
    ]


def _refused_whole(error: ApiError, sender: Sender, arrived_ms: int, sources: Sequence[Source]) -> Refusal:
    return Refusal(error, sender, arrived_ms, [RejectedItem(source, error.kind.code) for source in sources])


def _no_valid_event(claim: Claim, verdicts: Sequence[object]) -> Refusal:
    error = ApiError(errors.NO_VALID_EVENT, more={"errors": _listed(verdicts)})
    return Refusal(error, claim.sender, claim.request.arrived_ms, _rejected_items(claim, verdicts))


def _rejected_items(claim: Claim, verdicts: Sequence[object]) -> list[RejectedItem]:
    items: list[RejectedItem] = []
    for index, verdict in enumerate(verdicts):
        if isinstance(verdict, Rejection):
            judged = claim.verdicts[index]
            source = claim.sources[index] if isinstance(judged, Rejection) else (judged.website, judged.event.type)
            items.append(RejectedItem(source, verdict.code, verdict.field, verdict.detail))
    return items


def _listed(verdicts: Sequence[object]) -> list[dict[str, Any]]:
    """Return the errors of the rejected items, as the response lists them."""
    return [
        {"index": index, "code": r.code, "message": r.message} | ({"field": r.field} if r.field else {})
        for index, r in enumerate(verdicts)
        if isinstance(r, Rejection)
    ]
