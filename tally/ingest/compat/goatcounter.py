"""GoatCounter: GET and POST /count, as its script and its pixel send it, and POST /api/v0/count for servers.

GoatCounter has a host for each site; here one host serves all websites. The website of /count is that of the page
which sends (Origin or Referer), or, where no page does, that of the request's own host, as in stats.example.com. The
path may name it: /count/ID, with the website's id or domain. /api/v0/count names it by the Bearer token.

That token is no secret: collecting needs no key, and an API key of Tally, which reads, is not accepted as one.

The answer of /count is always a GIF, with the reason of a refusal in X-Goatcounter.
"""

from collections.abc import Mapping
from typing import Any

from aiohttp import web

from tally import errors
from tally.accounts.api_keys import KEY_START
from tally.errors import ApiError
from tally.events.sender import host_name
from tally.events.validation import MAX_EVENTS, Batch
from tally.http.responses import GIF, json_response
from tally.ingest.collector import Accepted
from tally.ingest.compat import requests
from tally.ingest.compat.requests import Received, Translation, text
from tally.ingest.rejected_events import NOT_FAULTS

_HEADERS = {"Content-Type": "image/gif", "Cache-Control": "no-store"}
_UTM = {"utm_source": ("ref", "src", "source"), "utm_campaign": ("campaign",)}
_TRUE = frozenset(("true", "1", "on"))
_MAX_PATH = 2_048
# The values that the script sends for browsers that a program drives.
_BOTS = range(150, 154)
_PREFETCH = (("X-Moz", "prefetch"), ("X-Purpose", "preview"), ("X-Purpose", "prefetch"), ("Purpose", "prefetch"))
_NOTHING = Batch([], None, {})


def translate(received: Received) -> Translation:
    """Return the event of a /count request. Raises ApiError."""
    values = {name: _valid_text(received.query.get(name, "")) for name in "pertqb"}
    if _is_prefetch(received.headers):
        return Translation(_NOTHING, _answer)
    bot = values["b"] or "0"
    if not bot.isascii() or not bot.isdigit() or (int(bot[:4]) and int(bot[:4]) not in _BOTS):
        raise ApiError(errors.INVALID_PARAMETER, "b must be 0, or 150 to 153.", field="b")
    if not values["p"] or len(values["p"]) > _MAX_PATH:
        raise ApiError(errors.INVALID_PARAMETER, f"p must have 1 to {_MAX_PATH} characters.", field="p")
    if int(bot):
        return Translation(_NOTHING, _answer)
    website = received.path_website or _host(received)
    hit = {
        "path": values["p"],
        "event": values["e"].lower() in _TRUE,
        "ref": values["r"],
        "query": values["q"],
        "title": values["t"],
    }
    return Translation(Batch([_item(received, website, hit)], None, {}), _answer)


def refused(error: ApiError) -> web.Response:
    """Return the GIF with the error's status and reason. Raises errors of the server."""
    if error.kind.status >= 500:
        raise error
    faults = error.more.get("errors")
    return _gif(error.kind.status, faults[0]["message"] if faults else error.message)


def translate_hits(received: Received) -> Translation:
    """Return the events of POST /api/v0/count. Raises ApiError."""
    scheme, _, website = received.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not website.strip() or website.startswith(KEY_START):
        raise ApiError(errors.MISSING_API_KEY, "Send the website's id: Authorization: Bearer <WEBSITE_ID>.")
    hits = requests.json_object(received.body).get("hits")
    if not isinstance(hits, list) or not hits:
        raise ApiError(errors.INVALID_BODY, "The body must be a JSON object with a list of hits.")
    if len(hits) > MAX_EVENTS:
        raise ApiError(errors.TOO_MANY_EVENTS)
    places = [place for place, hit in enumerate(hits) if not (isinstance(hit, dict) and hit.get("bot"))]
    people = [hits[place] for place in places]
    items = [_item(received, website.strip(), hit) if isinstance(hit, dict) else hit for hit in people]
    values = [hit if isinstance(hit, dict) else {} for hit in people]
    visitors = tuple(
        received.visitor(received.sender, text(hit.get("ip")), text(hit.get("user_agent"))) for hit in values
    )

    def answer(accepted: Accepted) -> web.Response:
        # A client that sends a hit again after an error must not do so with one that is not counted.
        faults = {
            str(places[fault["index"]]): fault["message"]
            for fault in accepted.errors
            if fault["code"] not in NOT_FAULTS
        }
        return json_response({"errors": faults}, 400) if faults else json_response({"status": "ok"}, 202)

    def refused(error: ApiError) -> web.Response:
        if error.kind is not errors.NO_VALID_EVENT:
            raise error
        return answer(Accepted(0, error.more["errors"]))

    return Translation(Batch(items, None, {}, visitors), answer, refused)


def refused_hits(error: ApiError) -> web.Response:
    """Raise the error: it is JSON, as GoatCounter's are."""
    raise error


def _answer(accepted: Accepted) -> web.Response:
    return _gif(200, accepted.errors[0]["message"] if accepted.errors else "")


def _gif(status: int, reason: str) -> web.Response:
    return web.Response(body=GIF, status=status, headers=_HEADERS | ({"X-Goatcounter": reason} if reason else {}))


def _item(received: Received, website: str, hit: Mapping[str, Any]) -> dict[str, Any]:
    """Return the event of a hit in the form of the API; `event` makes its path the event's name."""
    path, page = text(hit.get("path")), received.sender.page
    host = page.host if page is not None else received.domain_of(website)
    is_event = bool(hit.get("event"))
    url = f"https://{host}" + ("/" if is_event else "/" + path.lstrip("/"))
    query = text(hit.get("query")).removeprefix("?")
    item = {
        "website_id": website,
        "type": "event" if is_event else "pageview",
        "url": _with_query(url, query) if host and path else None,
        "referrer": hit.get("ref"),
        "title": hit.get("title") or None,
        "timestamp": hit.get("created_at"),
        "session_id": requests.session(hit.get("session")),
    }
    return item | ({"event_name": path} if is_event else {})


def _with_query(url: str, query: str) -> str:
    """Return the URL with the page's query, for its utm values and those that GoatCounter reads as such."""
    url = url.partition("#")[0]
    if query and query not in url:
        url += ("&" if "?" in url else "?") + query.partition("#")[0]
    return requests.with_utm(url, requests.query_of(url), _UTM)


def _host(received: Received) -> str:
    """Return the host of the page, or that of the request where no page sends it, without its port."""
    page = received.sender.page
    return page.host if page is not None else host_name(received.host)


def _is_prefetch(headers: Mapping[str, str]) -> bool:
    if "prefetch" in headers.get("Sec-Purpose", ""):
        return True
    return any(headers.get(name, "").lower() == value for name, value in _PREFETCH)


def _valid_text(value: str) -> str:
    """Return a query's value, bytes that are not UTF-8 replaced: they arrive as lone surrogates."""
    return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
