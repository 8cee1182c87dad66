"""The outbox: every notice is stored with its finished text before it is sent, once for each channel.

`key` names what happened: a notice that is added again is not stored again, also after a crash between two steps. A
row is claimed (`sending`, committed), sent, and then `sent`. What a process had claimed when it ended is sent again
with the same id, so that a receiver gets at worst a copy that it can recognise, and nothing is lost.

Several notices become one message where the channel has quiet hours, or has had MAX_HOURLY messages within an hour.
Which notices a message has is fixed with its first attempt, since receivers recognise it by the id of its first one.

Times are those of `monotonic_wall_ms` (tally/clock.py), which the system's clock does not move; a time that lies
further ahead than any notice may wait is from a clock that was wrong, and is not waited for.
"""

import json
import random
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple

from tally.notices.channels import Channel, Quiet, find_channel
from tally.notices.texts import LANGUAGES, Language
from tally.timestamps import DAY_MS, EPOCH, HOUR_MS, SECOND_MS

State = Literal["waiting", "sending", "sent", "failed", "expired"]
STATES: tuple[State, ...] = ("waiting", "sending", "sent", "failed", "expired")
# Between attempts: the first is made at once.
RETRIES_MS = tuple(s * SECOND_MS for s in (5, 300, 1_800, 7_200, 18_000, 36_000))
_JITTER = 0.1
MAX_ASKED_WAIT_MS = 6 * HOUR_MS
# Longer than any wait, of quiet hours too.
_MAX_WAIT_MS = 25 * HOUR_MS
MAX_HOURLY = 20
MAX_FAILURES = 5
KEPT_MS = 90 * DAY_MS
# Listed in a message of several; the rest is counted.
MAX_LISTED = 10
# The kind of the mail that asks the owner of an address to agree.
CONFIRMATION = "channel.confirm"
_MAX_ROWS = 1_000


class Content(NamedTuple):
    """What a notice says: a title and a text, the path of a page with more, and data for programs."""

    title: str
    text: str
    path: str = ""
    data: Mapping[str, Any] = {}


class New(NamedTuple):
    """A notice of an account to be stored. `fact` names what happened, so that it is reported once.

    `content` returns what it says in a language: it is stored for each channel in the language of the channel.

    `only`, `but`: ids of a channel to which alone, or not, it goes. `website`: the number of the one that it is about,
    with which it is deleted.
    """

    account: int
    kind: str
    fact: str
    content: Callable[[Language], Content]
    expires_ms: int
    is_urgent: bool = False
    only: str = ""
    but: str = ""
    website: int | None = None

    @property
    def priority(self) -> Literal["normal", "urgent"]:
        """Return the priority of the notice."""
        return "urgent" if self.is_urgent else "normal"

    def key(self, channel: str) -> str:
        """Return the key of the notice for a channel."""
        return f"{self.kind}:{self.fact}:{channel}"


class Notice(NamedTuple):
    """A stored notice."""

    number: int
    key: str
    account: int
    channel: str
    kind: str
    priority: Literal["normal", "urgent"]
    created_ms: int
    due_ms: int
    expires_ms: int
    content: Content
    message: int | None
    attempts: int
    state: State
    last_error: str | None
    sent_ms: int | None


class Message(NamedTuple):
    """Notices that are sent with one request, the first names it."""

    channel: Channel
    notices: Sequence[Notice]

    @property
    def first(self) -> Notice:
        """Return the notice whose key is the message's id."""
        return self.notices[0]


class Outcome(NamedTuple):
    """How an attempt to send ended. `is_gone`: the receiver is no more; `is_final`: it refuses this message for good;
    `wait_ms`: how long it asks to wait."""

    error: str = ""
    status: int | None = None
    is_gone: bool = False
    wait_ms: int = 0
    is_final: bool = False

    @property
    def is_sent(self) -> bool:
        """Return whether the receiver has accepted the message."""
        return not self.error


_COLUMNS = (
    "number, key, account, channel, kind, priority, created_ms, due_ms, expires_ms, payload, message, attempts, state,"
    " last_error, sent_ms"
)


def _notice(row: Sequence[Any]) -> Notice:
    return Notice._make((*row[:9], Content(**json.loads(row[9])), *row[10:]))


def add(connection: sqlite3.Connection, new: New, now_ms: int, sent: Sequence[str] = ()) -> int:
    """Store a notice for the channels of its account; return for how many. One that is stored stays as it is.

    None where its website has been deleted meanwhile. In a feed it is shown at once. An address that is not confirmed
    gets the confirmation alone. `sent`: ids of channels that have it already.
    """
    payloads = {language: json.dumps(new.content(language)._asdict()) for language in LANGUAGES}
    stored = connection.execute(
        "/* outbox.add */ insert into notice"
        " (key, account, channel, kind, priority, created_ms, due_ms, expires_ms, payload, state, sent_ms, website)"
        " select ?1 || id, account, id, ?2, ?3, ?4, ?4, ?5, ?6 ->> language, iif(kind = 'feed', 'sent', 'waiting'),"
        " iif(kind = 'feed', ?4, null), ?11 from channel where account = ?7 and ?8 in ('', id) and id <> ?9"
        " and (confirmed_ms is not null or ?2 = ?10) and (person is null or ?8 = id)"
        " and (?11 is null or exists (select 1 from website where number = ?11))"
        " on conflict (key) do nothing",
        (
            *(new.key(""), new.kind, new.priority, now_ms, new.expires_ms, json.dumps(payloads)),
            *(new.account, new.only, new.but, CONFIRMATION, new.website),
        ),
    ).rowcount
    connection.executemany(
        "/* outbox.add_sent */ update notice set state = 'sent', sent_ms = ? where key = ? and state = 'waiting'",
        [(now_ms, new.key(channel)) for channel in sent],
    )
    return stored


def resume(connection: sqlite3.Connection) -> None:
    """Have what an earlier process was sending sent again."""
    connection.execute("/* outbox.resume */ update notice set state = 'waiting' where state = 'sending'")


def due(connection: sqlite3.Connection, now_ms: int) -> list[tuple[str, int]]:
    """Return the channels with waiting notices, but for paused ones, and when the next of each is due."""
    rows = connection.execute(
        "/* outbox.due */ select channel, min(iif(due_ms > ?1 + ?2, 0, due_ms)) from notice"
        " join channel on channel.id = notice.channel where state = 'waiting' and paused_ms is null"
        " group by channel order by 2",
        (now_ms, _MAX_WAIT_MS),
    )
    return list(rows)


class Claimed(NamedTuple):
    """What a channel sends next, None where nothing is due, and how many notices have expired."""

    message: Message | None
    expired: int


def claim(connection: sqlite3.Connection, id: str, now_ms: int) -> Claimed:
    """Claim what a channel sends next, which counts as an attempt, and expire what is too old."""
    channel = find_channel(connection, id)
    if channel is None or channel.paused_ms is not None:
        return Claimed(None, 0)
    expired = connection.execute(
        "/* outbox.expire */ update notice set state = 'expired' where channel = ? and state = 'waiting'"
        " and expires_ms <= ?",
        (id, now_ms),
    )
    count = expired.rowcount
    if channel.confirmed_ms is None:
        count += connection.execute(
            "/* outbox.expire_unconfirmed */ update notice set state = 'expired' where channel = ?"
            " and state = 'waiting' and kind <> ?",
            (id, CONFIRMATION),
        ).rowcount
    return Claimed(_next_message(connection, channel, now_ms), count)


def _next_message(connection: sqlite3.Connection, channel: Channel, now_ms: int) -> Message | None:
    id, waiting = channel.id, _due_notices(connection, channel.id, now_ms)
    if channel.quiet is not None:
        waiting = _after_quiet_hours(connection, channel.quiet, waiting, now_ms)
    if not waiting:
        return None
    first = waiting[0]
    if first.message is not None:
        together = _of_message(connection, id, first.message)
    else:
        new = [one for one in waiting if one.message is None]
        sent, oldest_ms = _sent_within_hour(connection, id, now_ms)
        if sent >= MAX_HOURLY:
            _postpone_channel(connection, id, oldest_ms + HOUR_MS)
            return None
        together = new if sent == MAX_HOURLY - 1 or channel.quiet is not None else [first]
    connection.executemany(
        "/* outbox.claim */ update notice set state = 'sending', attempts = attempts + 1, message = ? where number = ?",
        [(together[0].number, one.number) for one in together],
    )
    return Message(channel, [one._replace(attempts=one.attempts + 1) for one in together])


def _due_notices(connection: sqlite3.Connection, id: str, now_ms: int) -> list[Notice]:
    rows = connection.execute(
        f"/* outbox.due_notices */ select {_COLUMNS} from notice where channel = ?1 and state = 'waiting'"
        " and (due_ms <= ?2 or due_ms > ?2 + ?3) order by number limit ?4",
        (id, now_ms, _MAX_WAIT_MS, _MAX_ROWS),
    )
    return [_notice(row) for row in rows]


def _of_message(connection: sqlite3.Connection, id: str, message: int) -> list[Notice]:
    rows = connection.execute(
        f"/* outbox.of_message */ select {_COLUMNS} from notice where channel = ? and number >= ? and message = ?"
        " and state = 'waiting' order by number",
        (id, message, message),
    )
    return [_notice(row) for row in rows]


def _after_quiet_hours(
    connection: sqlite3.Connection, quiet: Quiet, waiting: list[Notice], now_ms: int
) -> list[Notice]:
    """Return what is sent in spite of quiet hours, and have the rest wait for their end."""
    end_ms = quiet_until_ms(quiet, now_ms)
    if end_ms is None:
        return waiting
    connection.executemany(
        "/* outbox.postpone */ update notice set due_ms = ? where number = ?",
        [(end_ms, one.number) for one in waiting if one.priority == "normal"],
    )
    return [one for one in waiting if one.priority == "urgent"]


def quiet_until_ms(quiet: Quiet, now_ms: int) -> int | None:
    """Return when the quiet hours of a time end; None where it lies in none."""
    local = (EPOCH + timedelta(milliseconds=now_ms)).astimezone(quiet.zone)
    minute = local.hour * 60 + local.minute
    if not (minute - quiet.begin) % 1440 < (quiet.end - quiet.begin) % 1440:
        return None
    day = local.date() + timedelta(days=minute >= quiet.end)
    hour, rest = divmod(quiet.end, 60)
    end = datetime(day.year, day.month, day.day, hour, rest, tzinfo=quiet.zone)
    # A time that exists twice, in the hour that does.
    ends_ms = (int((one - EPOCH) / timedelta(milliseconds=1)) for one in (end, end.replace(fold=1)))
    return next((end_ms for end_ms in ends_ms if end_ms > now_ms), None)


def _sent_within_hour(connection: sqlite3.Connection, id: str, now_ms: int) -> tuple[int, int]:
    """Return how many messages a channel has had within an hour, and when the first of them was sent."""
    found: tuple[int, int] = connection.execute(
        "/* outbox.sent_within_hour */ select count(distinct message), coalesce(min(sent_ms), 0) from notice"
        " where channel = ? and sent_ms > ? and sent_ms <= ? and message is not null",
        (id, now_ms - HOUR_MS, now_ms),
    ).fetchone()
    return found


def _postpone_channel(connection: sqlite3.Connection, id: str, due_ms: int) -> None:
    """Have all that waits in a channel wait at least until a time."""
    connection.execute(
        "/* outbox.postpone_channel */ update notice set due_ms = max(due_ms, ?) where channel = ?"
        " and state = 'waiting'",
        (due_ms, id),
    )


class Finished(NamedTuple):
    """What an attempt has changed: the channel as it is now (None: deleted), the state of the message's notices, and
    whether the channel was paused by it."""

    channel: Channel | None
    state: State
    is_paused: bool


def finish(connection: sqlite3.Connection, message: Message, outcome: Outcome, now_ms: int) -> Finished:
    """Record how an attempt ended: sent, to be tried again, or failed, which may pause the channel."""
    attempts, id = message.first.attempts, message.channel.id
    is_last = attempts > len(RETRIES_MS) or outcome.is_gone or outcome.is_final
    state: State = "sent" if outcome.is_sent else "failed" if is_last else "waiting"
    due_ms = now_ms
    if state == "waiting":
        due_ms += max(_jittered(RETRIES_MS[attempts - 1]), min(outcome.wait_ms, MAX_ASKED_WAIT_MS))
    sent_ms = now_ms if outcome.is_sent else None
    connection.executemany(
        "/* outbox.finish */ update notice set state = ?, due_ms = ?, sent_ms = ?, last_error = ? where number = ?",
        [(state, due_ms, sent_ms, outcome.error or None, one.number) for one in message.notices],
    )
    if outcome.wait_ms:
        _postpone_channel(connection, id, now_ms + min(outcome.wait_ms, MAX_ASKED_WAIT_MS))
    is_paused = _count(connection, id, outcome, state, now_ms)
    return Finished(find_channel(connection, id), state, is_paused)


def _jittered(wait_ms: int) -> int:
    return int(wait_ms * random.uniform(1 - _JITTER, 1 + _JITTER))


def _count(connection: sqlite3.Connection, id: str, outcome: Outcome, state: State, now_ms: int) -> bool:
    """Count failures of a channel; return whether it is paused now and was not before."""
    if outcome.is_sent:
        connection.execute(
            "/* outbox.succeeded */ update channel set failures = 0, failing_since_ms = null, last_error = null"
            " where id = ?",
            (id,),
        )
        return False
    connection.execute(
        "/* outbox.attempt_failed */ update channel set failures = failures + ?, last_error = ?,"
        " failing_since_ms = coalesce(failing_since_ms, ?) where id = ?",
        (state == "failed", outcome.error, now_ms, id),
    )
    paused = connection.execute(
        "/* outbox.pause */ update channel set paused_ms = ? where id = ? and paused_ms is null"
        " and (failures >= ? or ?)",
        (now_ms, id, MAX_FAILURES, outcome.is_gone),
    )
    return paused.rowcount == 1


def send_again(connection: sqlite3.Connection, account: int, number: int, now_ms: int) -> bool:
    """Have a failed or expired notice of an account sent again, with all attempts; return whether there is one.

    The request has the id of before, so that a receiver that has it can recognise it.
    """
    done = connection.execute(
        "/* outbox.send_again */ update notice set state = 'waiting', attempts = 0, message = null, last_error = null,"
        " due_ms = ?1, expires_ms = max(expires_ms, ?1 + ?2) where number = ?3 and account = ?4"
        " and state in ('failed', 'expired')",
        (now_ms, DAY_MS, number, account),
    )
    return done.rowcount == 1


def notices(
    connection: sqlite3.Connection,
    account: int | None,
    *,
    state: State | None = None,
    channel: str | None = None,
    limit: int = 100,
) -> list[Notice]:
    """Return notices of an account, or of all for None, newest first; of a state or a channel alone."""
    own = "?1 is null" if account is None else "account = ?1"
    rows = connection.execute(
        f"/* outbox.notices */ select {_COLUMNS} from notice where {own}"
        " and (?2 is null or state = ?2) and (?3 is null or channel = ?3) order by number desc limit ?4",
        (account, state, channel, limit),
    )
    return [_notice(row) for row in rows]


def alerts_of(connection: sqlite3.Connection, website: int, from_ms: int, until_ms: int) -> list[dict[str, Any]]:
    """Return the data of the notices of a website's alerts that were stored between two times, each once."""
    rows = connection.execute(
        "/* outbox.alerts_of */ select distinct payload ->> 'data' from notice where website = ? and kind in"
        " ('alert.fired', 'goal.reached') and created_ms >= ? and created_ms < ? order by created_ms limit ?",
        (website, from_ms, until_ms, _MAX_ROWS),
    )
    return [json.loads(data) for (data,) in rows]


def delete_old(connection: sqlite3.Connection, kept_from_ms: int) -> bool:
    """Delete notices that were created before a time; return whether some may be left."""
    done = connection.execute(
        "/* outbox.delete_old */ delete from notice where created_ms < ?1 and number in"
        " (select number from notice order by number limit ?2)",
        (kept_from_ms, _MAX_ROWS),
    )
    return done.rowcount == _MAX_ROWS
