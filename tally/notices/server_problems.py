"""Report problems of the server to the owner of the installation, by the channels of the first account.

A problem is reported once it has lasted HOLDS_NS, and once a day for as long as it lasts; the key of the notice has the
day, so that a restart does not repeat it. While the database cannot be written, a notice is sent at once to each
channel that is known, and stored when the database can be written again, as sent where it was.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Literal

from tally.clock import Clock
from tally.errors import ApiError
from tally.notices.outbox import Content, New
from tally.notices.requests import unstored_message
from tally.notices.sender import EXPIRES_MS, Sender
from tally.notices.texts import Language, text
from tally.timestamps import DAY_MS

Problem = Literal["backup_failed", "disk_low", "certificate_not_renewed", "database_fault"]
HOLDS_NS = 60_000_000_000
# Keys of the title and the text.
_TEXTS: dict[Problem, tuple[str, str]] = {
    "backup_failed": ("problems.backup_failed", "problems.backup_failed_text"),
    "disk_low": ("problems.disk_low", "problems.disk_low_text"),
    "certificate_not_renewed": ("problems.certificate_not_renewed", "problems.certificate_not_renewed_text"),
    "database_fault": ("problems.database_fault", "problems.database_fault_text"),
}


class ServerProblems:
    """Used by the event loop alone. `found` returns the problems of now, `owner` the first account's number, if any."""

    def __init__(
        self,
        sender: Sender,
        clock: Clock,
        found: Callable[[], Iterable[Problem]],
        owner: Callable[[], int | None],
    ) -> None:
        self._sender, self._clock, self._found, self._owner = sender, clock, found, owner
        # Since when each problem lasts, and which were reported, on which day.
        self._since_ns: dict[Problem, int] = {}
        self._reported: dict[Problem, int] = {}
        # Notices that could not be stored, with the ids of the channels that have them.
        self._unstored: dict[tuple[Problem, int], tuple[New, list[str]]] = {}

    async def check(self) -> None:
        """Report what has lasted; called every few seconds. Raises nothing."""
        now_ns, found = self._clock.monotonic_ns(), set(self._found())
        self._since_ns = {problem: self._since_ns.get(problem, now_ns) for problem in found}
        day = self._clock.monotonic_wall_ms() // DAY_MS
        account = self._owner()
        if account is None or not self._sender.channels_of(account):
            return
        for problem, since_ns in self._since_ns.items():
            if now_ns - since_ns >= HOLDS_NS and self._reported.get(problem) != day:
                self._reported[problem] = day
                await self._report(_notice(account, problem, day, self._clock.monotonic_wall_ms()), problem, day)
        await self._store()

    async def _report(self, new: New, problem: Problem, day: int) -> None:
        try:
            await self._sender.add(new)
        except ApiError:
            now_ms = self._clock.monotonic_wall_ms()
            known = [one for one in self._sender.channels_of(new.account) if one.kind != "feed" and not one.paused_ms]
            messages = (self._sender.deliver(unstored_message(one, new, now_ms)) for one in known)
            outcomes = await asyncio.gather(*messages)
            sent = [one.id for one, outcome in zip(known, outcomes, strict=True) if outcome.is_sent]
            self._unstored[problem, day] = new, sent

    async def _store(self) -> None:
        for key, (new, sent) in [*self._unstored.items()]:
            try:
                await self._sender.add(new, sent)
            except ApiError:
                return
            del self._unstored[key]


def _notice(account: int, problem: Problem, day: int, now_ms: int) -> New:
    title, words = _TEXTS[problem]

    def content(language: Language) -> Content:
        return Content(text(language, title), text(language, words), "/account/notifications", {"problem": problem})

    return New(account, "server.problem", f"{problem}:{day}", content, now_ms + EXPIRES_MS, is_urgent=True)
