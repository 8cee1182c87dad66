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
    """A kind of error response: status, code and default message (docs/reference/errors.md)."""

    status: int
    code: str
    message: str


RATE_LIMITED = Kind(429, "rate_limited", "Too many requests: retry after the time in Retry-After.")
MONTHLY_LIMIT = Kind(
    429,
    "monthly_limit_reached",
    "The plan's events for this month are used up. Events are accepted again next month (UTC).",
)
BODY_TOO_LARGE = Kind(413, "body_too_large", "The body is larger than 65,536 bytes: send fewer events per request.")
UNSUPPORTED_ENCODING = Kind(415, "unsupported_encoding", "The body must not have a Content-Encoding.")
INVALID_JSON = Kind(400, "invalid_json", "The body must be JSON in UTF-8.")
INVALID_BODY = Kind(400, "invalid_body", "The body must be a JSON object: one event, or a batch with a list of events.")
TOO_MANY_EVENTS = Kind(400, "too_many_events", "A request must have at most 50 events: split the batch.")
NO_VALID_EVENT = Kind(400, "no_valid_event", "No event of this request is valid: see errors for the reasons.")
UNKNOWN_WEBSITE = Kind(
    404,
    "unknown_website",
    "There is no website with this id: compare it with `analytics-server website list`, in the server's directory.",
)
ORIGIN_NOT_ALLOWED = Kind(
    403,
    "origin_not_allowed",
    "This page's origin is neither the website's domain nor a subdomain of it: check the domain, "
    "or add the origin in the website's settings.",
)
MISSING_API_KEY = Kind(401, "missing_api_key", "Send an API key: Authorization: Bearer <API_KEY>.")
INVALID_API_KEY = Kind(
    401, "invalid_api_key", "This API key is invalid or revoked: create one under API keys, or with `key create`."
)
KEY_EXPIRED = Kind(401, "key_expired", "This API key has expired: create another one under API keys.")
MISSING_SCOPE = Kind(403, "missing_scope", "This API key lacks the scope of this request.")
PLAN_HAS_NO_KEYS = Kind(
    403, "plan_has_no_keys", "The account's plan does not include API keys: change it to pro or business."
)
INVALID_PARAMETER = Kind(400, "invalid_parameter", "A parameter is invalid.")
BEYOND_RETENTION = Kind(400, "beyond_retention", "The raw events that this query needs have expired.")
CROSS_SITE = Kind(
    403, "cross_site", "Only the server's own pages may call this endpoint; use the read API with an API key."
)
NOT_ALLOWED = Kind(403, "not_allowed", "Your role in this account does not allow it: ask an owner of the account.")
UNKNOWN_ACCOUNT = Kind(404, "unknown_account", "You are a member of no account of this number.")
OTHER_PERSON = Kind(403, "other_person", "This invitation is for another person than the one who is logged in.")
UNKNOWN_PERSON = Kind(404, "unknown_person", "The account has no such member.")
UNKNOWN_INVITATION = Kind(404, "unknown_invitation", "This invitation is invalid, expired or already used.")
UNKNOWN_SIGN_IN_LINK = Kind(404, "unknown_sign_in_link", "This sign-in link is invalid, expired or already used.")
LAST_OWNER = Kind(409, "last_owner", "The account must keep an owner: make another person an owner first.")
ALREADY_MEMBER = Kind(409, "already_member", "This person is a member of the account already.")
TOO_MANY_PEOPLE = Kind(409, "too_many_people", "The account has as many people or open invitations as it may have.")
BAD_AUTH_HEADER = Kind(403, "bad_auth_header", "The proxy must send one email address in its header.")
NOT_INVITED = Kind(403, "not_invited", "This address has no access to this server: ask an administrator for it.")
LAST_SIGN_IN = Kind(409, "last_sign_in", "Without single sign-on you could not sign in.")
NOTHING_TO_CONNECT = Kind(409, "nothing_to_connect", "The connection has expired: begin single sign-on again.")
PROVIDER_UNAVAILABLE = Kind(503, "provider_unavailable", "The single sign-on provider does not answer: retry later.")
NOT_LOGGED_IN = Kind(401, "not_logged_in", "Log in first.")
WRONG_CREDENTIALS = Kind(401, "wrong_credentials", "Incorrect email or password.")
SECOND_FACTOR_REQUIRED = Kind(
    401, "second_factor_required", "Send a code of your authenticator app, or a recovery code."
)
WRONG_CODE = Kind(401, "wrong_code", "This code is wrong, has expired or was used before: wait for the next one.")
SECOND_FACTOR_DUE = Kind(
    403, "second_factor_due", "This account requires a second factor: set up yours under Account > Sign-in."
)
PASSKEY_REQUIRED = Kind(401, "passkey_required", "A password alone is not enough for you: use your passkey.")
WRONG_PASSKEY = Kind(401, "wrong_passkey", "This passkey is unknown here, or its answer is invalid: try again.")
UNKNOWN_PASSKEY = Kind(404, "unknown_passkey", "There is no such passkey: it may have been removed.")
TOO_MANY_PASSKEYS = Kind(409, "too_many_passkeys", "You have as many passkeys as a person may have: remove one first.")
NO_PASSKEYS = Kind(
    409, "no_passkeys", "This server has no passkeys: they need --base-url with https and the extra `passkeys`."
)
NO_SECOND_FACTOR = Kind(409, "no_second_factor", "There is no second factor: set one up first.")
WRONG_PASSWORD = Kind(403, "wrong_password", "The current password is incorrect.")
UNKNOWN_SETUP_LINK = Kind(
    404, "unknown_setup_link", "This setup link is invalid or already used: restart the server to print a new one."
)
UNKNOWN_SHARE_LINK = Kind(404, "unknown_share_link", "This share link is invalid or revoked.")
SHARE_PASSWORD_REQUIRED = Kind(401, "share_password_required", "This share link requires a password.")
WRONG_SHARE_PASSWORD = Kind(401, "wrong_share_password", "Incorrect password.")
NOT_SHARED = Kind(403, "not_shared", "This share link does not show this.")
UNKNOWN_KEY = Kind(404, "unknown_key", "There is no such API key: it may have been revoked.")
BAD_AUTHORIZATION = Kind(400, "bad_authorization", "The program asks for something that this server does not grant.")
UNKNOWN_DEFINITION = Kind(404, "unknown_definition", "The website has none with this id: it may have been deleted.")
UNKNOWN_IMPORT = Kind(404, "unknown_import", "The website has no import of this number.")
PREVIEW_OUTDATED = Kind(409, "preview_outdated", "The preview is outdated: preview the deletion again.")
DELETION_RUNNING = Kind(
    409, "deletion_running", "Events of the website are being deleted or rewritten: wait, or stop that."
)
EVENTS_IN_CLICKHOUSE = Kind(
    409, "events_in_clickhouse", "Older events of the website are in ClickHouse alone: they have to be put back first."
)
UNKNOWN_DELETION = Kind(404, "unknown_deletion", "The website has no deletion of this number.")
TOO_MANY_DEFINITIONS = Kind(409, "too_many_definitions", "The website has as many as it may have: delete one first.")
TOO_MANY_KEYS = Kind(409, "too_many_keys", "The account has as many API keys as it may have: revoke one first.")
TOO_MANY_SHARE_LINKS = Kind(
    409, "too_many_share_links", "The website has as many share links as it may have: revoke one first."
)
TOO_MANY_WEBSITES = Kind(409, "too_many_websites", "The account has as many websites as it may have: delete one first.")
WEBSITE_EXISTS = Kind(409, "website_exists", "There is already a website for this domain.")
TOO_MANY_CHANNELS = Kind(409, "too_many_channels", "The account has as many channels as it may have: delete one first.")
TOO_MANY_REPORTS = Kind(409, "too_many_reports", "The account has as many reports as it may have: delete one first.")
CHANNEL_REFUSED = Kind(422, "channel_refused", "The server does not send notices to this address.")
TOO_MANY_ALERTS = Kind(409, "too_many_alerts", "The account has as many alerts as it may have: delete one first.")
UNKNOWN_ALERT = Kind(404, "unknown_alert", "The website has no alert with this id: it may have been deleted.")
UNKNOWN_CHANNEL = Kind(404, "unknown_channel", "The account has no channel with this id: it may have been deleted.")
UNKNOWN_REPORT = Kind(404, "unknown_report", "The account has no report with this id: it may have been deleted.")
NO_SECRET = Kind(409, "no_secret", "Only webhooks and feeds have a secret that is replaced.")
UNKNOWN_NOTICE = Kind(404, "unknown_notice", "The account has no failed or expired notice of this number.")
INVALID_FIELD = Kind(400, "invalid_field", "A field of the body is invalid.")
UNSUPPORTED_MEDIA_TYPE = Kind(415, "unsupported_media_type", "The Content-Type must be application/json.")
FORBIDDEN = Kind(
    403,
    "forbidden",
    "Requires the metrics token, or a request from this machine without a proxy.",
)
NOT_FOUND = Kind(404, "not_found", "Not found: see /api/v1/openapi.yaml for all paths.")
METHOD_NOT_ALLOWED = Kind(405, "method_not_allowed", "Method not allowed: see the Allow header.")
BAD_REQUEST = Kind(400, "bad_request", "The request is malformed.")
INTERNAL = Kind(500, "internal_error", "Internal server error: see the server's log.")
STORAGE_UNAVAILABLE = Kind(503, "storage_unavailable", "The database is unavailable: retry later.")
QUERY_TIMEOUT = Kind(503, "query_timeout", "The query took too long: use a shorter range, or retry later.")
OVERLOADED = Kind(503, "overloaded", "The server is overloaded: retry later.")

OF_PAGES = (
    *(OTHER_PERSON, UNKNOWN_PERSON, UNKNOWN_INVITATION, UNKNOWN_SIGN_IN_LINK, BAD_AUTH_HEADER, NOT_INVITED),
    *(LAST_OWNER, ALREADY_MEMBER, TOO_MANY_PEOPLE),
    *(LAST_SIGN_IN, NOTHING_TO_CONNECT, PROVIDER_UNAVAILABLE),
    *(CROSS_SITE, NOT_ALLOWED, UNKNOWN_ACCOUNT, NOT_LOGGED_IN, WRONG_CREDENTIALS, WRONG_PASSWORD, UNKNOWN_SETUP_LINK),
    *(SECOND_FACTOR_REQUIRED, SECOND_FACTOR_DUE, WRONG_CODE, NO_SECOND_FACTOR),
    *(PASSKEY_REQUIRED, WRONG_PASSKEY, UNKNOWN_PASSKEY, TOO_MANY_PASSKEYS, NO_PASSKEYS),
    *(SHARE_PASSWORD_REQUIRED, WRONG_SHARE_PASSWORD, UNKNOWN_KEY, TOO_MANY_KEYS, BAD_AUTHORIZATION),
)
"""Errors of the account API only."""


class ApiError(Exception):
    """An error response: a Kind with the details of this request."""

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


class Unanswered(Exception):
    """A request whose connection is closed without a response, since what becomes of its events is not certain yet.

    `outcome`: what was decided about them, as the engine passes it on.
    """

    def __init__(self, outcome: Any) -> None:
        super().__init__()
        self.outcome = outcome


def fields(**named: Any) -> dict[str, Any]:
    """Return the `extra=` argument of a log call; the formatter omits fields that are None."""
    return {"fields": named}


def is_lock(failure: BaseException) -> bool:
    """Return whether SQLite failed because another program holds a lock of the file."""
    return getattr(failure, "sqlite_errorname", "").startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))


def sqlite_cause(failure: BaseException) -> str:
    """Return SQLite's name of a failure, and that it is a lock where it is one; "" for a failure of something else."""
    name: str = getattr(failure, "sqlite_errorname", "")
    return f"{name} (another program holds the write lock of the database)" if is_lock(failure) else name


def where_it_failed(failure: BaseException) -> str:
    """Return the type and code locations of an exception, without its message and values, so that it is safe to log."""
    places = traceback.extract_tb(failure.__traceback__)
    name = type(failure).__name__
    if isinstance(failure, OSError):
        name = f"{name} {errno.errorcode.get(failure.errno or 0, '')}".rstrip()
    name = f"{name} {sqlite_cause(failure)}".rstrip()
    return " < ".join([name, *(f"{p.filename}:{p.lineno} {p.name}" for p in reversed(places))])
