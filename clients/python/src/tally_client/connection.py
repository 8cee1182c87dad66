"""Requests to a server: timeouts, repeated attempts, errors. For the collect API and the read API.

A request is sent again after no response, 429 and 5xx, at most `retries` times: after the time of `Retry-After`,
otherwise after half a second, one, two and so on. It is not sent again where `Retry-After` is more than `max_wait_s`.
"""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from http.client import HTTPException
from typing import Any, ParamSpec
from urllib.error import HTTPError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

from tally_client.schema import EventError

VERSION = "0.1.0"
USER_AGENT = f"tally-analytics-client-python/{VERSION}"

# A time: an ISO 8601 text, a date (a whole day in the time zone of the request) or a datetime.
Moment = str | date
# Values by name of a filter without `filter_`, and its operator: {"country": ["DE"], "pathname^": "/docs"}.
Filters = Mapping[str, str | Sequence[str]]
P = ParamSpec("P")


class TallyError(Exception):
    """An error response, or none: `status` is then None.

    `code` and `field` are those of the response; `errors` lists the events that were rejected; `retry_after_s` is the
    time after which a request may succeed.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        code: str = "no_response",
        field: str | None = None,
        errors: Sequence[EventError] = (),
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(f"{status or 'no response'} {code}: {message}" if status else message)
        self.status, self.code, self.field = status, code, field
        self.errors, self.retry_after_s = errors, retry_after_s

    @property
    def is_temporary(self) -> bool:
        """Whether the same request may succeed later."""
        return self.status is None or self.status == 429 or self.status >= 500


class Connection:
    """Sends requests to one server, each over a connection of its own. May be used by several threads."""

    def __init__(self, url: str, *, timeout_s: float = 10, retries: int = 3, max_wait_s: float = 60) -> None:
        self._url = url.rstrip("/")
        self._timeout_s, self._retries, self._max_wait_s = timeout_s, retries, max_wait_s

    def _send(
        self, address: str, headers: Mapping[str, str], body: bytes | None = None, method: str | None = None
    ) -> str:
        """Return the text of a response; sends the request again where that can help.

        A `method` that changes something is sent again after 429 alone: after no response or 5xx it may have been done.
        """
        for attempt in range(self._retries + 1):
            try:
                return self._send_once(address, headers, body, method)
            except TallyError as error:
                wait_s = 0.5 * 2**attempt if error.retry_after_s is None else error.retry_after_s
                can_help = error.is_temporary if method in (None, "GET") else error.status == 429
                if not can_help or attempt == self._retries or wait_s > self._max_wait_s:
                    raise
                time.sleep(wait_s)
        raise AssertionError("unreachable")

    def _send_once(self, address: str, headers: Mapping[str, str], body: bytes | None, method: str | None) -> str:
        request = Request(self._url + address, body, {"User-Agent": USER_AGENT} | dict(headers), method=method)
        try:
            with urlopen(request, timeout=self._timeout_s) as response:
                return str(response.read().decode())
        except HTTPError as error:
            with error:
                raise _error_of(error, self._url) from None
        except (OSError, HTTPException) as error:
            raise TallyError(f"no response from {self._url}: {getattr(error, 'reason', error)}") from error


class Reader(Connection):
    """The part of ReadClient that is not generated."""

    def __init__(
        self, url: str, api_key: str, *, timeout_s: float = 30, retries: int = 3, max_wait_s: float = 60
    ) -> None:
        super().__init__(url, timeout_s=timeout_s, retries=retries, max_wait_s=max_wait_s)
        self._api_key, self._is_csv = api_key, False

    def csv(self, operation: Callable[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> str:
        """Return an answer as CSV: `client.csv(client.get_timeseries, website_id, period="30d")`."""
        reader = copy.copy(self)
        reader._is_csv = True
        return str(getattr(reader, operation.__name__)(*args, **kwargs))

    def _read(self, address: str, parameters: Mapping[str, Any], filters: Filters | None = None) -> Any:
        """Return the JSON of a response, or its text where CSV is requested."""
        sent = {name: value for name, value in parameters.items() if value is not None}
        sent |= {f"filter_{name}": value for name, value in (filters or {}).items()}
        sent |= {"format": "csv"} if self._is_csv else {}
        query = urlencode({name: _text(value) for name, value in sent.items()}, doseq=True)
        text = self._send(f"{address}?{query}" if query else address, {"Authorization": f"Bearer {self._api_key}"})
        return text if self._is_csv else json.loads(text)


class Manager(Connection):
    """The part of ManageClient that is not generated."""

    def __init__(
        self, url: str, api_key: str, *, timeout_s: float = 30, retries: int = 3, max_wait_s: float = 60
    ) -> None:
        super().__init__(url, timeout_s=timeout_s, retries=retries, max_wait_s=max_wait_s)
        self._api_key = api_key

    def _request(self, method: str, address: str, body: object = None) -> Any:
        """Return the JSON of a response, None where it has no content. A body is JSON unless it is bytes."""
        headers = {"Authorization": f"Bearer {self._api_key}"}
        if body is not None:
            headers["Content-Type"] = "application/octet-stream" if isinstance(body, bytes) else "application/json"
        sent = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        text = self._send(address, headers, sent, method)
        return json.loads(text) if text else None


def path(pattern: str, **values: str | int) -> str:
    """Return a path with its parameters filled in."""
    return pattern.format(**{name: quote(str(value), safe="") for name, value in values.items()})


def joined(values: Sequence[str] | None) -> str | None:
    """Return a list that is one parameter."""
    return None if values is None else ",".join(values)


def _text(value: Any) -> Any:
    return value.isoformat() if isinstance(value, date) else value


def _error_of(response: HTTPError, url: str) -> TallyError:
    """Return the error of a response, also of one that is not from the server, such as a proxy's page."""
    try:
        answer = json.loads(response.read())
        detail, errors = answer["error"], answer.get("errors", ())
        code, message, field = detail["code"], detail["message"], detail.get("field")
    except (ValueError, TypeError, LookupError, OSError, HTTPException):
        code, message, field, errors = "http_error", f"no answer of Tally from {url}: {response.reason}", None, ()
    seconds = response.headers.get("Retry-After", "")
    return TallyError(
        message,
        status=response.code,
        code=code,
        field=field,
        errors=errors,
        retry_after_s=float(seconds) if seconds.isdecimal() else None,
    )
