"""Times of a website: UTC plus its offset, in which its days begin at midnight.

An engine that keeps events in website time moves the scopes of queries into it, and times of answers back to UTC. The
offset of a website is fixed once it has data.
"""

from collections.abc import Sequence
from typing import NamedTuple

from tally.engine.values import Scope, Span, TopQuery


class WebsiteTime(NamedTuple):
    """The time in which a website's events are stored: UTC plus `offset_ms`."""

    offset_ms: int

    def scope(self, scope: Scope) -> Scope:
        """Return a scope of UTC in the website's time."""
        days = scope.whole_days
        return scope._replace(
            from_ms=scope.from_ms + self.offset_ms,
            to_ms=scope.to_ms + self.offset_ms,
            whole_days=None if days is None else (days[0] + self.offset_ms, days[1] + self.offset_ms),
        )

    def spans(self, spans: Sequence[Span]) -> Sequence[Span]:
        """Return spans of UTC in the website's time."""
        return [(begin + self.offset_ms, end + self.offset_ms) for begin, end in spans]

    def queries(self, queries: Sequence[TopQuery]) -> Sequence[TopQuery]:
        """Return queries of lists with the scope to compare with in the website's time."""
        return [
            query if query.compare is None else query._replace(compare=self.scope(query.compare)) for query in queries
        ]

    def utc(self, website_ms: int) -> int:
        """Return a time of the website in UTC."""
        return website_ms - self.offset_ms
