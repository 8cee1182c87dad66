"""The sender: sends what is due in the outbox while the server runs, at most one message a channel at once.

Nothing runs while no notice waits. A channel that answers slowly delays no other one, unless MAX_OF_ACCOUNT of its
account, or MAX_AT_ONCE in all, are slow at the same time; each of these ends after 15 seconds.

While the database cannot be written, nothing is claimed. What was sent meanwhile is recorded as soon as it can be, and
not sent again unless the process ends before.

All channels are kept in memory, as the database has them: `channels` is set by what changes them.
"""

import asyncio
import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from hmac import compare_digest
from typing import TYPE_CHECKING, Literal, TypeVar

from tally.clock import Clock
from tally.errors import STORAGE_UNAVAILABLE, ApiError, fields, log, where_it_failed
from tally.events.client import Network
from tally.notices import outbox
from tally.notices.channels import Channel, all_channels, link_token
from tally.notices.outbox import CONFIRMATION, Content, Message, New, Outcome
from tally.notices.reasons import REASONS
from tally.notices.requests import content_of_test, request, test_message
from tally.notices.texts import Language, text
from tally.storage.node_database import NodeDatabase
from tally.timestamps import DAY_MS, HOUR_MS, SECOND_MS

if TYPE_CHECKING:
    from tally.notices.delivery import Delivery
    from tally.notices.mail import Connections, MailServer

T = TypeVar("T")
MAX_AT_ONCE = 16
MAX_OF_ACCOUNT = 4
# An alert that is older says little.
EXPIRES_MS = DAY_MS
_RECORD_AGAIN_S = 1.0
# Of a test, which a person waits for.
_TEST_S = 15.0
# Mails that ask an address to agree, a day, and of how many addresses they are counted.
MAX_CONFIRMATIONS, _MAX_ADDRESSES = 3, 10_000


class Sender:
    """Sends the notices of all accounts. Used by the event loop alone.

    `base_url`: where the server's pages are, "" where that is not set.
    """

    def __init__(
        self,
        database: NodeDatabase,
        clock: Clock,
        base_url: str,
        networks: Sequence[Network],
        mail: "MailServer | None",
        salt: Callable[[], bytes],
    ) -> None:
        self.channels: dict[str, Channel] = {}
        self.networks, self.mail, self.base_url = networks, mail, base_url
        # Mails that asked an address to agree, on the newest day.
        self._confirmations: tuple[int, Counter[str]] = (0, Counter())
        # Notices by their state, and attempts that are repeated, since the start.
        self.counts: Counter[str] = Counter(dict.fromkeys(("sent", "retried", "failed", "expired"), 0))
        self._database, self._clock, self._salt = database, clock, salt
        # When the next notice is due; None while none waits.
        self._next_ms: int | None = None
        self._looking: asyncio.Task[None] | None = None
        self._sending: dict[str, asyncio.Task[None]] = {}
        self._delivery: Delivery | None = None
        self._connections: Connections | None = None
        self._delete_ms = 0
        # Whether the channels were read, and what an earlier process was sending is sent again.
        self._is_read = self._has_resumed = False

    async def ready(self) -> None:
        """Read the channels, unless that has been done: the server listens before. Raises ApiError 503."""
        if not self._is_read:
            await self.refresh()

    async def close(self) -> None:
        """End what is being sent; the next start sends it again."""
        tasks = [*self._sending.values(), *([self._looking] if self._looking else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._connections is not None:
            self._connections.close()

    async def refresh(self) -> None:
        """Read the channels again, after a change of them, and look for what is due. Raises ApiError 503."""
        self.channels = await self._database.read(all_channels)
        self._is_read = True
        self.wake()

    def wake(self) -> None:
        """Look for notices that are due, at the next call of `each_second`."""
        self._next_ms = 0

    def channels_of(self, account: int) -> list[Channel]:
        """Return the channels of an account, oldest first, but for those of one person alone."""
        return [one for one in self.channels.values() if one.account == account and one.person is None]

    async def add(self, new: New, sent: Sequence[str] = ()) -> int:
        """Store a notice for the channels of its account; return for how many. Raises ApiError 503.

        `sent`: ids of channels that have it already.
        """
        stored = await self._write(partial(outbox.add, new=new, now_ms=self._clock.monotonic_wall_ms(), sent=sent))
        self.wake()
        return stored

    async def test(self, channel: Channel) -> Outcome:
        """Send a test to a channel at once, and return how that ended; in a feed it is shown. Raises ApiError 503."""
        now_ms = self._clock.monotonic_wall_ms()
        if channel.kind == "feed":
            await self.add(New(channel.account, "test", f"{now_ms}", content_of_test, now_ms, only=channel.id))
            return Outcome()
        return await self.deliver(test_message(channel, now_ms), _TEST_S)

    def has_asked_enough(self, address: str) -> bool:
        """Count a mail that asks an address to agree; return whether there were as many as there may be on a day."""
        day = self._clock.monotonic_wall_ms() // DAY_MS
        if self._confirmations[0] != day:
            self._confirmations = day, Counter()
        asked = self._confirmations[1]
        if asked[address] >= MAX_CONFIRMATIONS or len(asked) > _MAX_ADDRESSES:
            return True
        asked[address] += 1
        return False

    def has_not_asked(self, address: str) -> None:
        """Take back what `has_asked_enough` has counted: nothing was sent."""
        self._confirmations[1][address] -= 1

    async def ask_to_confirm(self, channel: Channel) -> None:
        """Send the mail that asks the owner of an address to agree to notices. Raises ApiError 503."""
        now_ms = self._clock.monotonic_wall_ms()

        def content(language: Language) -> Content:
            title, words = text(language, "mail.confirm_title"), text(language, "mail.confirm_text")
            return Content(title, words, f"/confirm/{link_token(channel, 'confirm', self._salt())}")

        new = New(channel.account, CONFIRMATION, f"{channel.id}:{now_ms}", content, now_ms + EXPIRES_MS, is_urgent=True)
        await self.add(new._replace(only=channel.id))

    def by_token(self, purpose: Literal["confirm", "unsubscribe"], token: str) -> Channel | None:
        """Return the channel of a link in a mail; None for another text."""
        channel = self.channels.get(token[:16])
        if channel is None or channel.kind != "email":
            return None
        return channel if compare_digest(token.encode("utf-8", "replace"), self._token(channel, purpose)) else None

    def _token(self, channel: Channel, purpose: Literal["confirm", "unsubscribe"]) -> bytes:
        return link_token(channel, purpose, self._salt()).encode()

    async def deliver(self, message: Message, mail_s: float | None = None) -> Outcome:
        """Send a message and return how that ended; raises nothing. `mail_s`: how long a mail may take."""
        if message.channel.kind == "email":
            return await self._deliver_mail(message, mail_s)
        if self._delivery is None:
            from tally.notices.delivery import Delivery  # here: most servers have no channels

            self._delivery = Delivery(self.networks)
        return await self._delivery.send(request(message, self.base_url, self._clock.wall_ms()))

    async def _deliver_mail(self, message: Message, mail_s: float | None) -> Outcome:
        from tally.notices import mail  # here: most servers send no mail
        from tally.notices.mail_message import mail as written

        if self.mail is None:
            return Outcome(REASONS["mail_not_configured"])
        self._connections = self._connections or mail.Connections(self.mail)
        token = link_token(message.channel, "unsubscribe", self._salt())
        sent = written(message, self.mail, self.base_url, token, self._clock.wall_ms())
        return await self._connections.send(sent, mail_s or mail.TIMEOUT_S)

    # --- what is due

    def each_second(self, _: int) -> None:
        """Begin to look for what is due."""
        now_ms = self._clock.monotonic_wall_ms()
        is_due = self._next_ms is not None and self._next_ms <= now_ms
        is_old = bool(self.channels) and self._delete_ms <= now_ms
        if (is_due or is_old or not self._has_resumed) and self._looking is None and self._database.health.is_writable:
            self._looking = asyncio.create_task(self._look())

    async def _look(self) -> None:
        """Begin to send what is due, as far as more may be sent at once, and delete what is old."""
        now_ms = self._clock.monotonic_wall_ms()
        try:
            await self.ready()
            if not self._has_resumed:
                if self.channels:
                    await self._write(outbox.resume)
                self._has_resumed = True
            if self.channels and self._delete_ms <= now_ms:
                await self._delete_old()
                self._delete_ms = now_ms + HOUR_MS
            if self._next_ms is not None and self._next_ms <= now_ms:
                self._next_ms = None
                if self.channels:
                    self._begin(await self._database.read(partial(outbox.due, now_ms=now_ms)), now_ms)
        except (ApiError, sqlite3.Error):
            # The database reports its own failures.
            self._next_ms = now_ms + SECOND_MS
        finally:
            self._looking = None

    def _begin(self, waiting: Sequence[tuple[str, int]], now_ms: int) -> None:
        accounts = Counter(self.channels[id].account for id in self._sending if id in self.channels)
        for id, due_ms in waiting:
            channel = self.channels.get(id)
            if channel is None or id in self._sending:
                # One that is sending looks again at its end.
                continue
            is_full = len(self._sending) >= MAX_AT_ONCE or accounts[channel.account] >= MAX_OF_ACCOUNT
            if due_ms > now_ms:
                self._look_again(due_ms)
            elif not is_full:
                accounts[channel.account] += 1
                self._sending[id] = asyncio.create_task(self._send(id))

    def _look_again(self, due_ms: int) -> None:
        self._next_ms = due_ms if self._next_ms is None else min(self._next_ms, due_ms)

    async def _send(self, id: str) -> None:
        """Send one message of a channel."""
        try:
            claimed = await self._write(partial(outbox.claim, id=id, now_ms=self._clock.monotonic_wall_ms()))
            self.counts["expired"] += claimed.expired
            if claimed.message is not None:
                await self._record(claimed.message, await self.deliver(claimed.message))
        except (ApiError, sqlite3.Error):
            # The database reports its own failures: nothing was claimed.
            pass
        except Exception as failure:
            log.error("sending a notice failed: %s", where_it_failed(failure), extra=fields(channel=id))
        finally:
            del self._sending[id]
            self.wake()

    async def _record(self, message: Message, outcome: Outcome) -> None:
        """Record how an attempt ended, as soon as the database can be written."""
        while True:
            now_ms = self._clock.monotonic_wall_ms()
            try:
                finished = await self._write(partial(outbox.finish, message=message, outcome=outcome, now_ms=now_ms))
                break
            except (ApiError, sqlite3.Error):
                await asyncio.sleep(_RECORD_AGAIN_S)
        self.counts["retried" if finished.state == "waiting" else finished.state] += len(message.notices)
        if finished.channel is not None and finished.channel.id in self.channels:
            self.channels[finished.channel.id] = finished.channel
        if finished.is_paused:
            await self._report_pause(message.channel, now_ms)

    async def _report_pause(self, channel: Channel, now_ms: int) -> None:
        """Report a paused channel in the log, and by the other channels of the account."""
        log.error(
            "a channel of notices is paused: its notices fail", extra=fields(channel=channel.id, kind=channel.kind)
        )

        def content(language: Language) -> Content:
            title, words = (
                text(language, "notices.paused_title", name=channel.name),
                text(language, "notices.paused_text"),
            )
            return Content(title, words, "/account/notifications", {"channel": channel.id, "kind": channel.kind})

        new = New(channel.account, "channel.paused", f"{channel.id}:{now_ms}", content, now_ms + EXPIRES_MS)
        await self.add(new._replace(but=channel.id))

    async def _delete_old(self) -> None:
        kept_from_ms = self._clock.deletion_time_ms() - outbox.KEPT_MS
        while await self._write(partial(outbox.delete_old, kept_from_ms=kept_from_ms)):
            pass

    async def _write(self, step: Callable[[sqlite3.Connection], T]) -> T:
        """Run a step in a transaction. Raises ApiError 503."""
        if not self._database.health.is_writable:
            raise ApiError(STORAGE_UNAVAILABLE)
        with self._database.reporting("a notice"):
            return await self._database.write(step)
