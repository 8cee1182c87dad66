"""Alerts of websites: what is judged, on which channels it is reported, and the state of each.

An alert is `ok` or `firing`. It fires for an hour that is judged so (tally/notices/baseline.py), once: a notice is
stored in the transaction that changes the state. It is ok again after two hours in a row that are back within half of
the way, and fires again at the earliest MIN_PAUSE_MS after it last did. While it is snoozed it does not begin to fire,
and no notice of it is stored.

The notice of a change names the alert and the end of the hour, so that one that is judged again, as after a crash,
stores no second one. A function that writes leaves the transaction to the caller.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import orjson

from tally.accounts.accounts import AccountFull
from tally.notices import outbox
from tally.notices.baseline import Verdict
from tally.notices.outbox import New
from tally.timestamps import DAY_MS, HOUR_MS

Kind = Literal["spike", "drop", "silence", "goal", "new_source", "quota"]
KINDS: tuple[Kind, ...] = ("spike", "drop", "silence", "goal", "new_source", "quota")
State = Literal["ok", "firing"]
Result = Literal["waiting", "judged", "not_judged", "too_few_weeks", "not_enough_traffic"]
Event = Literal["fired", "resolved"]
MAX_ALERTS = 200
MIN_PAUSE_MS = 12 * HOUR_MS
MIN_SNOOZE_HOURS, MAX_SNOOZE_HOURS = 1, 720


class Alert(NamedTuple):
    """An alert. `channels`: ids, None is all channels of the account; `fired_ms`: end of the hour for which it fired
    last; the other times as in schema.sql."""

    id: str
    website: int
    kind: Kind
    params: Mapping[str, Any]
    channels: Sequence[str] | None
    created_ms: int
    state: State
    since_ms: int
    judged_ms: int | None
    result: Result
    fired_ms: int | None
    snoozed_until_ms: int | None

    def is_snoozed(self, now_ms: int) -> bool:
        """Return whether no notice of the alert is stored; one that is snoozed for too long is from a wrong clock."""
        until_ms = self.snoozed_until_ms
        return until_ms is not None and now_ms < until_ms <= now_ms + MAX_SNOOZE_HOURS * HOUR_MS + DAY_MS

    def is_due(self, end_ms: int) -> bool:
        """Return whether the hour that ends at a time was not judged; a later one is from a wrong clock."""
        return self.judged_ms is None or self.judged_ms < end_ms or self.judged_ms > end_ms + DAY_MS


class Step(NamedTuple):
    """What follows of an hour: the alert's new state, and what is reported."""

    state: State
    since_ms: int
    fired_ms: int | None
    event: Event | None = None


def follow(alert: Alert, verdict: Verdict, before: Verdict | None, end_ms: int, now_ms: int) -> Step:
    """Return what follows for an alert of the hour that ends at a time. `before`: the verdict of the hour before."""
    fired_ms = alert.fired_ms if alert.fired_ms is not None and alert.fired_ms <= end_ms else None
    same = Step(alert.state, alert.since_ms, fired_ms)
    if alert.state == "firing":
        # Two hours after the one for which it fired.
        is_over = verdict.is_back and before is not None and before.is_back
        if not is_over or not end_ms - 2 * HOUR_MS >= (fired_ms or 0):
            return same
        return Step("ok", end_ms, fired_ms, None if alert.is_snoozed(now_ms) else "resolved")
    has_paused = fired_ms is None or end_ms - fired_ms >= MIN_PAUSE_MS
    if verdict.is_firing and has_paused and not alert.is_snoozed(now_ms):
        return Step("firing", end_ms, end_ms, "fired")
    return same


_COLUMNS = (
    "id, website, kind, params, channels, created_ms, state, since_ms, judged_ms, result, fired_ms, snoozed_until_ms"
)


def _alert(row: Sequence[Any]) -> Alert:
    channels = None if row[4] is None else orjson.loads(row[4])
    return Alert._make((*row[:3], orjson.loads(row[3]), channels, *row[5:]))


def all_alerts(connection: sqlite3.Connection) -> dict[int, list[Alert]]:
    """Return the alerts of every website by its number, oldest first."""
    found: dict[int, list[Alert]] = {}
    for row in connection.execute(f"/* alerts.all */ select {_COLUMNS} from alert order by website, created_ms, id"):
        found.setdefault(row[1], []).append(_alert(row))
    return found


def alerts_of(connection: sqlite3.Connection, website: int) -> list[Alert]:
    """Return the alerts of a website, oldest first."""
    rows = connection.execute(
        f"/* alerts.of */ select {_COLUMNS} from alert where website = ? order by created_ms, id", (website,)
    )
    return [_alert(row) for row in rows]


def add_alert(connection: sqlite3.Connection, account: int, new: Alert) -> None:
    """Store a new alert. Raises AccountFull where the account has MAX_ALERTS."""
    count = "/* alerts.count */ select count(*) from website join alert on alert.website = number where account = ?"
    if connection.execute(count, (account,)).fetchone()[0] >= MAX_ALERTS:
        raise AccountFull(f"The account has {MAX_ALERTS} alerts, the most that it may have: delete one first.")
    connection.execute(
        "/* alerts.add */ insert into alert (id, website, kind, params, channels, created_ms, since_ms)"
        " values (?, ?, ?, ?, ?, ?, ?)",
        (new.id, new.website, new.kind, *_written(new), new.created_ms, new.since_ms),
    )


def _written(alert: Alert) -> tuple[str, str | None]:
    channels = None if alert.channels is None else orjson.dumps(alert.channels).decode()
    return orjson.dumps(alert.params).decode(), channels


def change_alert(connection: sqlite3.Connection, changed: Alert) -> bool:
    """Set params and channels of an alert; return whether there is one. With other params it begins anew."""
    params, channels = _written(changed)
    done = connection.execute(
        "/* alerts.change */ update alert set channels = ?1,"
        " since_ms = iif(params = ?2, since_ms, ?3), state = iif(params = ?2, state, 'ok'),"
        " result = iif(params = ?2, result, 'waiting'), judged_ms = iif(params = ?2, judged_ms, null),"
        " fired_ms = iif(params = ?2, fired_ms, null), params = ?2 where id = ?4",
        (channels, params, changed.since_ms, changed.id),
    )
    return done.rowcount == 1


def snooze_alert(connection: sqlite3.Connection, id: str, until_ms: int | None) -> bool:
    """Set until when an alert is snoozed, None ends that; return whether there is the alert."""
    done = connection.execute("/* alerts.snooze */ update alert set snoozed_until_ms = ? where id = ?", (until_ms, id))
    return done.rowcount == 1


def delete_alert(connection: sqlite3.Connection, id: str) -> bool:
    """Delete an alert; return whether there was one. Notices of it stay."""
    return connection.execute("/* alerts.delete */ delete from alert where id = ?", (id,)).rowcount == 1


class Judged(NamedTuple):
    """An alert that was judged: the result, what follows, and the notices to be stored."""

    alert: Alert
    result: Result
    step: Step
    notices: Sequence[New] = ()


def record(connection: sqlite3.Connection, judged: Sequence[Judged], end_ms: int, now_ms: int) -> int:
    """Store what follows of an hour for alerts, with the notices; return how many notices were stored.

    What was changed meanwhile is judged again an hour later.
    """
    stored = 0
    for alert, result, step, notices in judged:
        params, _ = _written(alert)
        done = connection.execute(
            "/* alerts.record */ update alert set state = ?, since_ms = ?, fired_ms = ?, result = ?, judged_ms = ?"
            " where id = ? and params = ? and judged_ms is ? and snoozed_until_ms is ?",
            (*step[:3], result, end_ms, alert.id, params, alert.judged_ms, alert.snoozed_until_ms),
        )
        if done.rowcount == 1:
            stored += sum(outbox.add(connection, new, now_ms) for new in notices)
    return stored
