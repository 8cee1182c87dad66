"""A website, as events are checked against it and as the server caches it.

It is read from the accounts (tally/accounts/websites.py); an engine refers to it by `number`, and counts its events
towards the month of `account`, whose `plan` may have a limit.
"""

from typing import TYPE_CHECKING, NamedTuple

from tally.events.exclusions import Exclusions
from tally.events.path_rules import PathRule
from tally.timestamps import MINUTE_MS

if TYPE_CHECKING:  # reading time zone data takes longer than most commands
    from tally.timeranges import WeekStart


class Website(NamedTuple):
    """A website as the server caches it; other tables refer to it by `number`, the API by `id`.

    has_sums: whether it has imported sums of days without events.
    day_offset_minutes: from UTC to website time, in which its days begin at midnight.
    counts_crawlers: whether crawlers count as visitors.
    path_rules: what the paths of events become that arrive.
    """

    number: int
    id: str
    domain: str
    name: str
    created_ms: int
    account: int
    plan: str
    origins: frozenset[str]
    time_zone: str | None = None
    week_start: "WeekStart" = "monday"
    currency: str | None = None
    has_sums: bool = False
    exclusions: Exclusions | None = None
    day_offset_minutes: int = 0
    counts_crawlers: bool = False
    path_rules: tuple[PathRule, ...] = ()

    @property
    def day_offset_ms(self) -> int:
        """What is added to UTC for the website's time."""
        return self.day_offset_minutes * MINUTE_MS
