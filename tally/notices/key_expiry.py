"""Report API keys that expire to the channels of their account: 14 days before, and when they have, once each.

A notice names a key and when it was made, so that the outbox has it once, however often the keys are read. The keys of
connected assistants are renewed by their programs and are not reported.
"""

from collections.abc import Callable, Iterable
from datetime import timedelta

from tally.accounts.api_keys import ApiKey
from tally.clock import Clock
from tally.notices.outbox import Content, New
from tally.notices.sender import EXPIRES_MS, Sender
from tally.notices.texts import Language, day, text
from tally.timestamps import DAY_MS, EPOCH, iso

# As long as the list of keys marks one.
WARNED_MS = 14 * DAY_MS


class KeyExpiry:
    """Used by the event loop alone. `keys` returns all API keys."""

    def __init__(self, sender: Sender, clock: Clock, keys: Callable[[], Iterable[ApiKey]]) -> None:
        self._sender, self._clock, self._keys = sender, clock, keys
        # What this process has stored; the outbox knows what was stored before.
        self._reported: set[str] = set()

    async def check(self) -> None:
        """Report what is new; called every few seconds. Raises ApiError 503."""
        found = [new for key in self._keys() if (new := _notice(key, self._clock.monotonic_wall_ms())) is not None]
        self._reported &= {new.key("") for new in found}
        for new in found:
            if new.key("") not in self._reported and self._sender.channels_of(new.account):
                await self._sender.add(new)
                self._reported.add(new.key(""))


def _notice(key: ApiKey, now_ms: int) -> New | None:
    """Return what is to be reported of a key; None where it is nothing."""
    ends_ms = key.grant.expires_ms
    if ends_ms is None or key.client is not None or not ends_ms - WARNED_MS <= now_ms < ends_ms + EXPIRES_MS:
        return None
    has_expired = ends_ms <= now_ms

    def content(language: Language) -> Content:
        last = day(language, (EPOCH + timedelta(milliseconds=ends_ms)).date())
        data = {"key": key.prefix, "name": key.name, "expires_at": iso(ends_ms)}
        if has_expired:
            title, words = text(language, "keys.expired", name=key.label), text(language, "keys.expired_text")
        else:
            title = text(language, "keys.expires", name=key.label, day=last)
            words = text(language, "keys.expires_text")
        return Content(title, words, "/account/keys", data)

    kind = "key.expired" if has_expired else "key.expires"
    # Numbers of deleted keys are used again.
    fact = f"{key.number}-{key.created_ms}"
    return New(key.account, kind, fact, content, ends_ms + EXPIRES_MS if has_expired else ends_ms)
