"""The catalogue of error responses, and the exception that carries one to the client.

A handler raises ApiError; tally/http/middleware.py turns it into the response. Any other exception is a bug: it is
answered with 500 and logged by type and places in the code only, because an exception's message may quote what a
visitor sent.
"""

import errno
import logging
import traceback
from collections.abc import Mapping
from typing import Any, NamedTuple

log = logging.getLogger("tally")


class Kind(NamedTuple):
    """A kind of refusal. Statuses: the seed's table Errors, and CONTRACT."""

    status: int
    code: str
    message: str


RATE_LIMITED = Kind(429, "rate_limited", "Too many requests: wait as long as Retry-After says, then send it again.")
MONTHLY_LIMIT = Kind(
    429, "monthly_limit_reached", "This month's events are used up: they are taken again when the month ends (UTC)."
)
BODY_TOO_LARGE = Kind(413, "body_too_large", "The body is larger than 65,536 bytes: send fewer events in a request.")
UNSUPPORTED_ENCODING = Kind(415, "unsupported_encoding", "Send the body as it is, without a Content-Encoding.")
INVALID_JSON = Kind(400, "invalid_json", "The body is not JSON in UTF-8.")
INVALID_BODY = Kind(400, "invalid_body", "The body is a JSON object: one event, or a batch with a list of events.")
TOO_MANY_EVENTS = Kind(400, "too_many_events", "A request takes at most 50 events: split the batch.")
NO_VALID_EVENT = Kind(400, "no_valid_event", "No event of this request can be taken: errors says why for each.")
UNKNOWN_WEBSITE = Kind(
    404, "unknown_website", "No website has this id: compare it with `analytics-server website list`."
)
ORIGIN_NOT_ALLOWED = Kind(
    403,
    "origin_not_allowed",
    "This page's origin is neither the website's domain nor a subdomain of it: check the domain, "
    "or add the origin with `website add --allow-origin`.",
)
MISSING_API_KEY = Kind(401, "missing_api_key", "Send an API key: Authorization: Bearer <API_KEY>.")
INVALID_API_KEY = Kind(
    401, "invalid_api_key", "This API key is wrong or was revoked: create one under API keys, or with `key create`."
)
PLAN_HAS_NO_KEYS = Kind(403, "plan_has_no_keys", "This account's plan has no API keys: raise it to pro or business.")
INVALID_PARAMETER = Kind(400, "invalid_parameter", "A parameter cannot be used.")
BEYOND_RETENTION = Kind(400, "beyond_retention", "The single events that this question needs are no longer kept.")
CROSS_SITE = Kind(403, "cross_site", "This is for the server's own pages alone; other programs use an API key.")
NOT_LOGGED_IN = Kind(401, "not_logged_in", "Log in first.")
WRONG_CREDENTIALS = Kind(401, "wrong_credentials", "This address and this password do not belong together.")
WRONG_PASSWORD = Kind(403, "wrong_password", "That is not the account's present password.")
UNKNOWN_SETUP_LINK = Kind(
    404, "unknown_setup_link", "This setup link is wrong or used: the server prints a new one when it starts."
)
UNKNOWN_SHARE_LINK = Kind(404, "unknown_share_link", "This link shows nothing: it is wrong, or was withdrawn.")
UNKNOWN_KEY = Kind(404, "unknown_key", "There is no such API key: it may have been revoked already.")
WEBSITE_EXISTS = Kind(409, "website_exists", "There is a website of this domain already.")
INVALID_FIELD = Kind(400, "invalid_field", "A field of the body cannot be used.")
UNSUPPORTED_MEDIA_TYPE = Kind(415, "unsupported_media_type", "Send the body as application/json.")
FORBIDDEN = Kind(
    403,
    "forbidden",
    "Only a program on this machine, through no proxy, or a bearer of the metrics token may read this.",
)
NOT_FOUND = Kind(404, "not_found", "There is nothing at this path: /api/v1/openapi.yaml lists what there is.")
METHOD_NOT_ALLOWED = Kind(405, "method_not_allowed", "This path does not take that method: see the Allow header.")
BAD_REQUEST = Kind(400, "bad_request", "The request cannot be understood.")
INTERNAL = Kind(500, "internal_error", "The server failed on this request; its log says where.")
STORAGE_UNAVAILABLE = Kind(
    503, "storage_unavailable", "The database cannot be reached or written just now: send it again later."
)
QUERY_TIMEOUT = Kind(503, "query_timeout", "This question takes too long: ask for a shorter range, or again later.")
OVERLOADED = Kind(503, "overloaded", "More arrives than can be stored just now: send it again later.")

OF_PAGES = (
    *(CROSS_SITE, NOT_LOGGED_IN, WRONG_CREDENTIALS, WRONG_PASSWORD, UNKNOWN_SETUP_LINK, UNKNOWN_SHARE_LINK),
    *(UNKNOWN_KEY, WEBSITE_EXISTS, INVALID_FIELD, UNSUPPORTED_MEDIA_TYPE),
)
"""Those of the pages' own API alone."""


class ApiError(Exception):
    """A refusal on its way to the client: a Kind with what is particular to this request."""

    def __init__(
        self,
        kind: Kind,
        message: str = "",
        *,
        field: str = "",
        retry_after_s: int = 0,
        headers: Mapping[str, str] | None = None,
        more: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(kind.code)
        self.kind = kind
        self.message = message or kind.message
        self.field = field
        self.headers = dict(headers or {})
        self.more = dict(more or {})
        if retry_after_s:
            self.headers["Retry-After"] = str(retry_after_s)


def fields(**named: Any) -> dict[str, Any]:
    """Fields of a line of the log, for its `extra=`; None is left out."""
    return {"fields": named}


def where_it_failed(failure: BaseException) -> str:
    """Type and places of a failure, without its message and without values: safe to log."""
    places = traceback.extract_tb(failure.__traceback__)
    name = type(failure).__name__
    if isinstance(failure, OSError):
        name = f"{name} {errno.errorcode.get(failure.errno or 0, '')}".rstrip()
    # sqlite3.Error has it since Python 3.11.
    name = f"{name} {getattr(failure, 'sqlite_errorname', '')}".rstrip()
    return " < ".join([name, *(f"{p.filename}:{p.lineno} {p.name}" for p in reversed(places))])
