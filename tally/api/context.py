"""What every endpoint about a website uses: the engine, what a request may read, the request, and caching headers.

`ReadApi` holds the state of the read API. A `View` has what a request may read; it is decided where the request is
authorised, and nowhere else. A `ReportRequest` is a checked request, an `Answer` the result of a report before it is
written as JSON or CSV.

ETags. An answer's ETag is a keyed hash of the checked parameters and of the website's version, which differs after
every change. Versions start anew with each process, so the key is random for each process.
"""

import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Generic, NamedTuple, TypeVar

from aiohttp import web
from yarl import URL

from tally import errors
from tally.api.single_flight import SingleFlight
from tally.engine.values import Claim, Requester, Scope, Stats
from tally.errors import ApiError
from tally.events.filters import Filter
from tally.events.website import Website
from tally.ingest.node import Node
from tally.latency_histogram import Histogram
from tally.rate_limit import Buckets
from tally.timestamps import iso

# From an answer out of memory to one that is cancelled.
_TIMES_NS = tuple(ms * 1_000_000 for ms in (1, 5, 25, 100, 500, 2_500, 10_000))

P = TypeVar("P")


class ReadApi:
    """State of the read API. `keys` limits requests by API key; `names` are the names of the reports."""

    def __init__(self, node: Node, keys: Buckets, base_url: str, names: Iterable[str]) -> None:
        self.node, self.registry, self.reports, self.clock = node, node.registry, node.engine.reports, node.clock
        self.keys, self.base_url = keys, base_url
        self._etag_key = secrets.token_bytes(8)
        # Reports for share links that are being computed.
        self.link_answers: SingleFlight[web.Response] = SingleFlight()
        # Figures of badges: those that are being computed, and the last ones with their times.
        self.badge_answers: SingleFlight[Stats] = SingleFlight()
        self.badges: dict[str, tuple[int, Stats]] = {}
        # Figures of lists of websites (tally/api/overview.py): those that are being computed, and the last ones.
        self.overview_answers: SingleFlight[list[dict[str, Any] | None]] = SingleFlight()
        self.overviews: dict[str, dict[str, Any] | None] = {}
        # Nanoseconds of each answer, by report.
        self.times = {name: Histogram(_TIMES_NS) for name in names}

    async def website(self, request: web.Request, account: int) -> Website:
        """Return the website in the path, if it belongs to the account. Raises ApiError 404."""
        website = await self.found_website(request)
        if website is None or website.account != account:
            raise ApiError(errors.UNKNOWN_WEBSITE)
        return website

    async def found_website(self, request: web.Request) -> Website | None:
        """Return the website in the path, of whichever account; None where there is none."""
        id = request.match_info["id"].lower()
        if self.registry.website(id) is None:
            await self.registry.read_changes()
        return self.registry.website(id)

    def etag(self, *what: object) -> str:
        """Return a hash of what determines an answer."""
        return blake2b(repr(what).encode(), digest_size=16, key=self._etag_key).hexdigest()


READ_API = web.AppKey("read_api", ReadApi)


BY_KEY = "Authorization"
"""The header with which a program authorises a request, by an API key."""


class View(NamedTuple):
    """What a request may read: a website; only its traffic, without event_data, where `is_shared`.

    `by`: the header that authorised the request, for Vary; "" where the path did. `filters` hold for every answer,
    beside those of the query; `hides_events`: no single events.
    """

    website: Website
    by: str
    is_shared: bool = False
    filters: tuple[Filter, ...] = ()
    hides_events: bool = False

    @property
    def is_of_pages(self) -> bool:
        """Return whether a page of the server asked, whose downloads a person opens, and no program with a key."""
        return self.by != BY_KEY

    @property
    def claim(self) -> Claim:
        """For whom reports are computed, where connections are short: the account or the share link."""
        return Claim(self.is_shared, self.website.number if self.is_shared else self.website.account)


@dataclass(frozen=True, slots=True)
class ReportRequest(Generic[P]):
    """A checked request for a report. `url`: path and query, without the public prefix, which is `prefix`."""

    view: View
    parameters: P
    csv: bool
    requester: Requester
    url: URL
    prefix: str

    @property
    def website(self) -> Website:
        """The website of the report."""
        return self.view.website

    @property
    def scope(self) -> Scope:
        """The events of the report: those of the range that match the filters, its own and the view's."""
        parameters: Any = self.parameters
        filters = (
            *self.view.filters,
            *parameters.filters,
            *(filter_ for saved in parameters.saved for filter_ in saved.filters),
        )
        return Scope(self.website.number, parameters.range.from_ms, parameters.range.to_ms, filters)

    def meta(self) -> dict[str, Any]:
        """Return what every answer about a range repeats of its request."""
        parameters: Any = self.parameters
        span = parameters.range
        meta = {
            "website_id": self.website.id,
            "from": iso(span.from_ms, span.tz),
            "to": iso(span.to_ms, span.tz),
            "tz": span.tz.key,
            "day_offset_minutes": self.website.day_offset_minutes,
        }
        if hasattr(parameters, "filters"):
            meta["filters"] = {filter_.name: list(filter_.values) for filter_ in parameters.filters}
        for filter_ in getattr(parameters, "saved", ()):
            if filter_.parameter == "segment":
                meta["segment"] = filter_.id
            else:
                meta["filters"]["goal"] = [filter_.id]
        return meta


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a report: rows of the report's columns, and `meta`.

    `data` is the JSON form where it is no list of rows; `columns` are given where they differ from the report's. Rows
    may be a generator, since JSON with `data` does not read them.
    """

    meta: Mapping[str, Any]
    rows: Iterable[Sequence[Any]] = ()
    data: Any = None
    columns: Sequence[str] = ()
    headers: Mapping[str, str] = field(default_factory=dict)


Compute = Callable[[ReadApi, ReportRequest[P]], Awaitable[Answer]]
"""The function of a report. Raises ApiError."""


def has_tag(request: web.Request, etag: str) -> bool:
    """Return whether the client sent this ETag; it has then received this answer before."""
    return any(f'"{etag}"' in header for header in request.headers.getall("If-None-Match", ()))


def has_any_tag(request: web.Request) -> bool:
    """Return whether the client sent `*`, which matches any answer but no error."""
    return request.headers.get("If-None-Match", "").strip() == "*"


def caching(etag: str, by: str) -> dict[str, str]:
    """Return the headers of an answer that a client may store and must revalidate; `by`: see View."""
    vary = f"Accept, {by}" if by else "Accept"
    return {"ETag": f'"{etag}"', "Cache-Control": "private, no-cache", "Vary": vary}
