"""Sends events from servers and apps to the collect API.

Every event gets an `event_id`, so that an event which is sent again counts once; ids that begin with the time are
stored with the least writing.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from tally_client.connection import Connection
from tally_client.schema import CollectAnswer, Context, CustomEvent, Event, Pageview, ScreenView

Scalar = str | float | bool | None


@dataclass(frozen=True)
class Visitor:
    """Who sent the request to your server, as its headers say.

    `address` has an effect only where the server trusts yours as a proxy (`--trusted-proxy`). Without an address all
    visitors with the same User-Agent are one; `session_id` of an event then tells them apart.
    """

    address: str | None = None
    user_agent: str | None = None
    language: str | None = None

    def headers(self) -> dict[str, str]:
        """Return the headers of a request on behalf of the visitor."""
        named = {"X-Forwarded-For": self.address, "User-Agent": self.user_agent, "Accept-Language": self.language}
        # The bytes that the visitor sent: http.client takes texts of Latin-1.
        return {
            name: value.encode("utf-8", "surrogateescape").decode("latin-1") for name, value in named.items() if value
        }


class CollectClient(Connection):
    """Sends the events of one website. A method returns when the events are on the server's disk."""

    def __init__(
        self,
        url: str,
        website_id: str,
        *,
        context: Context | None = None,
        timeout_s: float = 10,
        retries: int = 3,
        max_wait_s: float = 60,
    ) -> None:
        super().__init__(url, timeout_s=timeout_s, retries=retries, max_wait_s=max_wait_s)
        self._website_id, self._context = website_id, context

    def pageview(
        self,
        url: str,
        *,
        referrer: str | None = None,
        session_id: str | None = None,
        visitor: Visitor | None = None,
    ) -> CollectAnswer:
        """Send a pageview."""
        event: Pageview = {"type": "pageview", "url": url, "referrer": referrer, "session_id": session_id}
        return self.send([event], visitor=visitor)

    def screen_view(self, name: str, *, session_id: str | None = None, visitor: Visitor | None = None) -> CollectAnswer:
        """Send the view of a screen of an app."""
        event: ScreenView = {"type": "screen_view", "name": name, "session_id": session_id}
        return self.send([event], visitor=visitor)

    def track(
        self,
        event_name: str,
        event_data: Mapping[str, Scalar] | None = None,
        *,
        url: str | None = None,
        session_id: str | None = None,
        visitor: Visitor | None = None,
    ) -> CollectAnswer:
        """Send an event with a name, and flat data if needed."""
        event: CustomEvent = {"type": "event", "event_name": event_name, "url": url, "session_id": session_id}
        return self.send([event | {"event_data": dict(event_data or {})}], visitor=visitor)

    def send(self, events: Sequence[Event], *, visitor: Visitor | None = None) -> CollectAnswer:
        """Send 1 to 50 events of any type, all of the same visitor if one is given.

        The answer counts the events that were accepted and lists those that were rejected; if all were, and for every
        other error, TallyError is raised.
        """
        now_ms = time.time_ns() // 1_000_000
        sent: list[Mapping[str, Any]] = [
            {**event, "event_id": event.get("event_id") or f"{now_ms}-{uuid.uuid4().hex}"} for event in events
        ]
        body = {"website_id": self._website_id, "context": self._context, "events": sent}
        headers = {"Content-Type": "application/json"} | (visitor.headers() if visitor else {})
        return cast(CollectAnswer, json.loads(self._send("/api/collect", headers, json.dumps(body).encode())))
