"""The protocol for what deletes data of whole websites and days from an engine.

The server calls it (tally/maintenance/housekeeping.py): for each deleted website until nothing is left of it, and for
websites whose events are kept for a number of days. What is called may fail at any point; it is then called again,
also after a restart.
"""

from typing import Protocol


class Archive(Protocol):
    """Deletes stored events of an engine."""

    async def forget(self, website: int) -> bool:
        """Delete some of what is stored of a deleted website; return whether there is more."""

    async def expire(self, website: int, day: int) -> bool:
        """Delete some of the events before a day (since 1970) and keep their sums; return whether there is more."""
