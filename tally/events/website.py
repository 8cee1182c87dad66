"""A website, as events are checked against it and as the server caches it.

It is read from the accounts (tally/accounts/websites.py); an engine refers to it by `number`, and counts its events
towards the month of `account`, whose `plan` may have a limit.
"""

from typing import TYPE_CHECKING, NamedTuple

from tally.events.exclusions import Exclusions

if TYPE_CHECKING:  # reading time zone data takes longer than most commands
    from tally.timeranges import WeekStart


class Website(NamedTuple):
    """A website as the server caches it; other tables refer to it by `number`, the API by `id`.

    has_sums: whether it has imported sums of days without events.
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
