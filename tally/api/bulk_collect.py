"""POST /api/v1/websites/{id}/events: many events in one request, by an API key with the scope `import`.

The checks, limits and responses are those of POST /api/collect, with these differences. A key is a client of its own,
whatever its address. The sender is a server: its address, User-Agent and language say nothing about a visitor and are
not used, and an event has no country. What tells visitors apart is `session_id`, which is required where an event has a
visitor. An unknown field rejects its event: so a program that sends addresses learns that they are not taken.

See docs/decisions/bulk-collect.md.
"""

from ipaddress import IPv4Address
from typing import Any

from aiohttp import web

from tally import errors
from tally.accounts.api_keys import ApiKey
from tally.api.auth import AUTH, body, invalid
from tally.errors import ApiError
from tally.events.request_context import NOWHERE
from tally.events.sender import Client, Sender
from tally.events.validation import FLAT, RULES, TYPE_NAMES, WITH_VISITOR, Batch, Rejection, type_of
from tally.events.website import Website
from tally.ingest.collector import COLLECTOR, accepted_response, take

MAX_EVENTS, MAX_BODY_BYTES = 500, 262_144
_NO_ADDRESS = IPv4Address("0.0.0.0")
_NO_SESSION = Rejection("missing_field", "session_id tells visitors apart: 8 to 64 characters.", "session_id")
_OTHER_WEBSITE = Rejection("unknown_website", "website_id must be that of the path, or absent.", "website_id")
_EVERY_TYPE = frozenset(("type", "timestamp", "age_ms"))
_FIELDS = {type_: frozenset((*_EVERY_TYPE, *RULES[type_], *FLAT.get(type_, ()))) for type_ in TYPE_NAMES}


async def collect(request: web.Request) -> web.Response:
    """Store the events of a body; 202 once they are durable."""
    auth, collector = request.app[AUTH], request.app[COLLECTOR]
    session = await auth.session(request)
    assert session.key is not None
    website, sender = await auth.website(request, session, "configure"), _sender(session.key)
    try:
        collector.check_capacity()
        collector.check_client(sender)
        sent = await body(request, ("events", "context"), MAX_BODY_BYTES)
        # The key may have been revoked while the body arrived.
        await auth.session(request)
        return accepted_response(await take(collector, _batch(sent, website, sender), sender))
    except ApiError as error:
        collector.count_refusal(error)
        raise


def _sender(key: ApiKey) -> Sender:
    """Return what stands for the sender: a key is a client of its own for limits, at no address."""
    return Sender(Client(_NO_ADDRESS, b"key" + key.number.to_bytes(8), NOWHERE, None), None, "", "")


def _batch(sent: dict[str, Any], website: Website, sender: Sender) -> Batch:
    """Return the batch of a body. Raises ApiError 400."""
    items, context = sent.get("events"), sent.get("context")
    if not isinstance(items, list) or not items:
        raise invalid("events", f"events must be a list of 1 to {MAX_EVENTS} events.")
    if len(items) > MAX_EVENTS:
        raise ApiError(errors.TOO_MANY_EVENTS, f"A request has at most {MAX_EVENTS} events (got {len(items):,}).")
    if context is not None and not isinstance(context, dict):
        raise invalid("context", "context must be an object.")
    visitors = tuple(_fault(item, website) or sender for item in items)
    assigned = [item | {"website_id": None} if isinstance(item, dict) else item for item in items]
    return Batch(assigned, website.id, context or {}, visitors)


def _fault(item: Any, website: Website) -> Rejection | None:
    """Return why an item is rejected that collect would accept."""
    type_ = type_of(item)
    if isinstance(type_, Rejection):
        return type_
    if item.get("website_id") not in (None, website.id):
        return _OTHER_WEBSITE
    for name in item:
        if name not in _FIELDS[type_] and name != "website_id":
            why = ": addresses and User-Agents are not taken" if name in ("ip", "user_agent") else ""
            message = f"{name[:100]} is no field of {TYPE_NAMES[type_]} here{why}."
            return Rejection("invalid_field", message, name[:100])
    if type_ in WITH_VISITOR and not item.get("session_id"):
        return _NO_SESSION
    return None
