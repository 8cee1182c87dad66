"""Judge the alerts of websites after each full hour of their time zone, while the server runs.

Five minutes after the hour, so that what was sent late is in. Zones differ by quarter hours, so there is something to
do at most every quarter hour; one website is judged after another, with one time series for all of its alerts. Only the
hour that has just ended is judged: what happened while the server was off is not reported later.

An hour is neither judged nor compared with if the server was down for more than MAX_DOWN_MS of it, if it is longer or
shorter than an hour, if its day has imported sums, which have no hours, and before the website's first full week.

The state of an alert, that the hour was judged, and the notices are stored in one transaction.
"""

import sqlite3
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from functools import partial
from typing import Literal, NamedTuple, TypeVar
from zoneinfo import ZoneInfo

from tally.accounts.usage import USAGE_WARNINGS, month_of
from tally.clock import MAX_STEP_MS, Clock
from tally.engine.reports import Reports
from tally.engine.values import BeyondRetention, Goal, Requester, Scope, Top, TopQuery
from tally.errors import QUERY_TIMEOUT, ApiError, fields, log, where_it_failed
from tally.events.website import Website
from tally.notices import alert_texts, alerts, baseline, uptime
from tally.notices.alert_texts import Figures, Values
from tally.notices.alerts import Alert, Judged, Step
from tally.notices.baseline import Hours, Verdict
from tally.notices.outbox import New
from tally.notices.sender import EXPIRES_MS, Sender
from tally.notices.uptime import Uptime
from tally.storage.node_database import NodeDatabase
from tally.storage.registry import Registry
from tally.timeranges import Bucket, Range, buckets, whole_days, zone
from tally.timestamps import DAY_MS, EPOCH, HOUR_MS, MINUTE_MS, QUARTER_MS

T = TypeVar("T")
LATE_MS = 5 * MINUTE_MS
MAX_DOWN_MS = 5 * MINUTE_MS
# A source is new if no visit of so many days came from it, of which the website has some.
SOURCE_DAYS, _SOURCE_HISTORY_DAYS = 90, 28
_SOURCE_VISITS = 3
_MAX_SOURCES, _MAX_NEW_SOURCES = 200, 5
_LISTED = 3
_HOURLY = frozenset(("spike", "drop", "silence"))


class NamedGoal(NamedTuple):
    """A goal that the owner of a website has saved."""

    id: str
    name: str
    goal: Goal


class _Hour(NamedTuple):
    """The hour that is judged: the website, its zone, when the hour ended, and the time now."""

    website: Website
    tz: ZoneInfo
    end_ms: int
    now_ms: int

    def scope(self, from_ms: int) -> Scope:
        return Scope(self.website.number, from_ms, self.end_ms)


class Judge:
    """Used by the event loop alone. `goals` returns the goals of a website by its number."""

    def __init__(
        self,
        sender: Sender,
        database: NodeDatabase,
        registry: Registry,
        reports: Reports,
        goals: Callable[[int], Sequence[NamedGoal]],
        clock: Clock,
    ) -> None:
        self._sender, self._database, self._registry = sender, database, registry
        self._reports, self._goals, self._clock = reports, goals, clock
        # Whether there are alerts, unknown at first; whether a heartbeat is stored.
        self._has_alerts: bool | None = None
        self._slot = -1

    def changed(self) -> None:
        """Read again whether there are alerts, after a change of them."""
        self._has_alerts = None

    async def beat(self) -> Uptime | None:
        """Store that the server runs, if there are alerts; call once a minute. Raises ApiError 503.

        None while the system's clock is in doubt, without alerts, and while the database cannot be written.
        """
        if self._has_alerts is None:
            self._has_alerts = bool(await self._database.read(alerts.all_alerts))
            if not self._has_alerts and (await self._database.read(uptime.read)).until_ms is not None:
                await self._write(uptime.forget)
        is_in_doubt = abs(self._clock.ahead_ms) > MAX_STEP_MS
        if not self._has_alerts or is_in_doubt or not self._database.health.is_writable:
            return None
        return await self._write(partial(uptime.beat, now_ms=self._clock.wall_ms()))

    async def judge(self) -> None:
        """Judge what is due; call a few times a minute. Raises ApiError 503: it is tried again."""
        slot = (self._clock.wall_ms() - LATE_MS) // QUARTER_MS
        if slot == self._slot:
            return
        record = await self.beat()
        if record is None:
            return
        by_website = await self._database.read(alerts.all_alerts)
        # Without any, the next heartbeat deletes what is stored.
        self._has_alerts = True if by_website else None
        websites = {one.number: one for one in self._registry.cache.websites.values()}
        for number, own in by_website.items():
            # One that was deleted meanwhile has no alerts any more.
            if number in websites:
                await self._judge_website(websites[number], own, record)
        self._slot = slot

    async def _judge_website(self, website: Website, own: Sequence[Alert], record: Uptime) -> None:
        """Judge the alerts of a website that are due. Raises ApiError 503; a failure ends no other website's turn."""
        tz, now_ms = zone(website.time_zone or "UTC"), self._clock.wall_ms()
        hour = _Hour(website, tz, _hour_end_ms(now_ms - LATE_MS, tz), now_ms)
        due = [one for one in own if one.is_due(hour.end_ms)]
        if not due:
            return
        try:
            judged = await self._judged(hour, due, record)
            at_ms = self._clock.monotonic_wall_ms()
            stored = await self._write(partial(alerts.record, judged=judged, end_ms=hour.end_ms, now_ms=at_ms))
        except ApiError as failure:
            if failure.kind is not QUERY_TIMEOUT:
                raise
            log.error("judging alerts took too long", extra=fields(website=website.id))
            return
        except Exception as failure:
            log.error("judging alerts failed: %s", where_it_failed(failure), extra=fields(website=website.id))
            return
        if stored:
            self._sender.wake()

    async def _judged(self, hour: _Hour, due: Sequence[Alert], record: Uptime) -> list[Judged]:
        hours: Hours | None = None
        judged = []
        for alert in due:
            if alert.kind in _HOURLY:
                hours = hours or await self._hours(hour, record)
                judged.append(await self._judge_hour(hour, alert, hours))
            elif alert.kind == "goal":
                judged.append(await self._judge_goal(hour, alert))
            elif alert.kind == "new_source":
                judged.append(await self._judge_sources(hour, alert))
            else:
                judged.append(self._judge_quota(hour, alert))
        return judged

    # --- by the hour of the week

    async def _hours(self, hour: _Hour, record: Uptime) -> Hours:
        """Return the hours up to the one that is judged, which is the last."""
        begin_ms = hour.end_ms - (baseline.NEEDED_HOURS + 2) * HOUR_MS
        try:
            spans, rows = await self._series(hour, begin_ms)
        except BeyondRetention as limit:
            begin_ms = _hour_end_ms(limit.from_ms + HOUR_MS - 1, hour.tz)
            spans, rows = await self._series(hour, begin_ms)
        first_ms = await self._reports.first_event_ms(hour.website.number, Requester())
        full_ms = None if first_ms is None else _full_week_ms(first_ms, hour)
        without_hours = await self._days_of_sums(hour, begin_ms)

        def is_usable(of: Bucket) -> bool:
            return (
                of.to_ms - of.from_ms == HOUR_MS
                and full_ms is not None
                and of.from_ms >= full_ms
                and record.down_ms(of.from_ms, of.to_ms) <= MAX_DOWN_MS
                and of.time[:10] not in without_hours
            )

        slots = [date.fromisoformat(of.time[:10]).weekday() * 24 + int(of.time[11:13]) for of in spans]
        # Of pageviews and events.
        visits, events = [row[1] for row in rows], [row[2] + row[3] for row in rows]
        return Hours(slots, visits, events, [is_usable(of) for of in spans])

    async def _series(self, hour: _Hour, begin_ms: int) -> tuple[list[Bucket], list[Sequence[int]]]:
        spans = buckets(Range(begin_ms, hour.end_ms, hour.tz, None), "hour")
        return spans, await self._reports.timeseries(hour.scope(begin_ms), [one[:2] for one in spans], Requester())

    async def _days_of_sums(self, hour: _Hour, begin_ms: int) -> set[str]:
        """Return the days that have imported sums in place of events."""
        if not hour.website.has_sums:
            return set()
        scope = hour.scope(begin_ms)._replace(whole_days=whole_days(begin_ms, hour.end_ms, hour.tz))
        found = await self._reports.imported_days(scope, [], Requester())
        runs = [] if found is None else found.counted
        return {
            (EPOCH.date() + timedelta(days=day)).isoformat() for first, last in runs for day in range(first, last + 1)
        }

    async def _judge_hour(self, hour: _Hour, alert: Alert, hours: Hours) -> Judged:
        last = len(hours) - 1
        verdict = _verdict(alert, hours, last)
        if verdict is None:
            return _not_judged(alert, hours, hour)
        step = alerts.follow(alert, verdict, _verdict(alert, hours, last - 1), hour.end_ms, hour.now_ms)
        # A spike that is over is no news.
        if step.event is None or (step.event == "resolved" and alert.kind == "spike"):
            return Judged(alert, "judged", step)
        figures = Figures(
            hour.website,
            hour.tz,
            alert,
            hour.end_ms - verdict.hours * HOUR_MS,
            hour.end_ms,
            verdict.visits,
            verdict.usual,
        )
        if step.event == "resolved":
            content = partial(alert_texts.over, figures)
            return Judged(
                alert, "judged", step, _for_channels(alert, hour, "alert.resolved", f"{hour.end_ms}", content)
            )
        if alert.kind != "silence":
            sources, pages = await self._values(hour, figures.from_ms)
            figures = figures._replace(sources=sources, pages=pages)
        content = partial(alert_texts.fired, figures)
        return Judged(alert, "judged", step, _for_channels(alert, hour, "alert.fired", f"{hour.end_ms}", content))

    async def _values(self, hour: _Hour, from_ms: int) -> tuple[Values, Values]:
        """Return the first sources and pages of a window."""
        queries = [TopQuery(field, _LISTED, has_visits=True) for field in ("referrer", "pathname")]
        sources, pages = await self._reports.top(hour.scope(from_ms), queries, Requester())
        return _values(sources, "visits"), _values(pages, "pageviews")

    # --- the other kinds

    async def _judge_goal(self, hour: _Hour, alert: Alert) -> Judged:
        """Fires once in a day, week or month."""
        period = alert.params["period"]
        begin_ms = _period_ms(hour, period)
        goal = next((one for one in self._goals(hour.website.number) if one.id == alert.params["goal"]), None)
        if goal is None:
            return Judged(alert, "not_judged", _ok(alert, hour))
        if alert.state == "firing" and begin_ms < alert.since_ms <= hour.end_ms:
            return Judged(alert, "judged", _same(alert))
        try:
            ((_, found),) = await self._reports.goal_stats([hour.scope(begin_ms)], goal.goal, Requester())
        except BeyondRetention:
            return Judged(alert, "not_judged", _same(alert))
        if found.events < alert.params["min"] or alert.is_snoozed(hour.now_ms):
            return Judged(alert, "judged", _ok(alert, hour))
        step = Step("firing", hour.end_ms, hour.end_ms, "fired")
        figures = Figures(hour.website, hour.tz, alert, begin_ms, hour.end_ms, found.events, 0.0)
        content, fact = partial(alert_texts.goal_reached, figures, goal.name), f"{begin_ms}:{alert.params['min']}"
        return Judged(alert, "judged", step, _for_channels(alert, hour, "goal.reached", fact, content))

    async def _judge_sources(self, hour: _Hour, alert: Alert) -> Judged:
        """Report each new source once; the state says whether there was one today."""
        first_ms = await self._reports.first_event_ms(hour.website.number, Requester())
        if first_ms is None or first_ms > hour.end_ms - _SOURCE_HISTORY_DAYS * DAY_MS:
            return Judged(alert, "too_few_weeks", _same(alert))
        begin_ms = _period_ms(hour, "day")
        if alert.is_snoozed(hour.now_ms):
            return Judged(alert, "judged", _ok(alert, hour))
        before = Scope(hour.website.number, begin_ms - SOURCE_DAYS * DAY_MS, begin_ms)
        query = TopQuery("referrer", _MAX_SOURCES, compare=before, has_visits=True, order="visits")
        try:
            (found,) = await self._reports.top(hour.scope(begin_ms), [query], Requester())
        except BeyondRetention:
            return Judged(alert, "not_judged", _same(alert))
        new = [
            (row.value, row.figures.visits)
            for row in found.rows
            if row.figures.visits >= _SOURCE_VISITS and not (row.previous and row.previous.visitors)
        ][:_MAX_NEW_SOURCES]
        if not new:
            return Judged(alert, "judged", _ok(alert, hour))
        notices: list[New] = []
        for source, visits in new:
            figures = Figures(hour.website, hour.tz, alert, begin_ms, hour.end_ms, visits, 0.0)
            content = partial(alert_texts.new_source, figures, source)
            notices += _for_channels(alert, hour, "alert.fired", f"{begin_ms}:{source}", content)
        since_ms = alert.since_ms if alert.state == "firing" else hour.end_ms
        return Judged(alert, "judged", Step("firing", since_ms, hour.end_ms, "fired"), notices)

    def _judge_quota(self, hour: _Hour, alert: Alert) -> Judged:
        """Report each mark once a month for the account, whichever of its websites have such an alert."""
        website = hour.website
        limit = self._registry.event_limit(website.plan)
        used = self._registry.used(website.account, hour.now_ms)
        passed = [percent for percent in USAGE_WARNINGS if limit is not None and used * 100 >= percent * limit]
        if limit is None or not passed or alert.is_snoozed(hour.now_ms):
            return Judged(alert, "judged", _ok(alert, hour))
        since_ms = alert.since_ms if alert.state == "firing" else hour.end_ms
        step = Step("firing", since_ms, hour.end_ms, "fired")
        content = partial(alert_texts.quota, website, passed[-1], used, limit)
        fact = f"{website.account}:{month_of(hour.now_ms)}:{passed[-1]}"
        notices = _for_channels(alert, hour, "quota.warning", fact, content, is_of_account=True)
        return Judged(alert, "judged", step, notices)

    async def _write(self, step: Callable[[sqlite3.Connection], T]) -> T:
        with self._database.reporting("an alert"):
            return await self._database.write(step)


def _hour_end_ms(ms: int, tz: ZoneInfo) -> int:
    """Return the beginning of the local hour of a time."""
    offset = (EPOCH + timedelta(milliseconds=ms)).astimezone(tz).utcoffset() or timedelta()
    offset_ms = offset // timedelta(milliseconds=1)
    return (ms + offset_ms) // HOUR_MS * HOUR_MS - offset_ms


def _period_ms(hour: _Hour, period: Literal["day", "week", "month"]) -> int:
    """Return the beginning of the local day, week or month that has the last moment of the hour."""
    last = Range(hour.end_ms - 1, hour.end_ms, hour.tz, None)
    (bucket,) = buckets(last, period, week_start=hour.website.week_start)
    return _ms(bucket.time)


def _full_week_ms(first_ms: int, hour: _Hour) -> int:
    """Return the beginning of the first full week of a website that had its first event at a time."""
    days = Range(first_ms, first_ms + 8 * DAY_MS, hour.tz, None)
    first, second, *_ = buckets(days, "week", week_start=hour.website.week_start)
    return first_ms if _ms(first.time) == first_ms else second.from_ms


def _ms(local: str) -> int:
    return (datetime.fromisoformat(local) - EPOCH) // timedelta(milliseconds=1)


def _verdict(alert: Alert, hours: Hours, index: int) -> Verdict | None:
    """Return the verdict of an hour for an alert; None where it is not judged."""
    if alert.kind == "drop":
        return baseline.drop(hours, index)
    if alert.kind == "silence":
        return baseline.silence(hours, index, alert.params["hours"])
    if alert.params["min_visits"] is not None:
        return baseline.many(hours, index, alert.params["min_visits"])
    return baseline.spike(hours, index, alert.params["factor"], is_sensitive=alert.params["sensitive"])


def _not_judged(alert: Alert, hours: Hours, hour: _Hour) -> Judged:
    """Return why an hour was not judged."""
    last = len(hours) - 1
    if not hours.is_usable(last):
        return Judged(alert, "not_judged", _same(alert))
    is_drop = alert.kind == "drop"
    enough = baseline.can_drop(hours, last) if is_drop else baseline.can_be_silent(hours, last)
    if enough is None or (alert.kind == "spike" and hours.usual(last, 1) is None):
        return Judged(alert, "too_few_weeks", _same(alert))
    if enough:
        return Judged(alert, "not_judged", _same(alert))
    return Judged(alert, "not_enough_traffic", _ok(alert, hour))


def _same(alert: Alert) -> Step:
    return Step(alert.state, alert.since_ms, alert.fired_ms)


def _ok(alert: Alert, hour: _Hour) -> Step:
    return _same(alert) if alert.state == "ok" else Step("ok", hour.end_ms, alert.fired_ms)


def _values(found: Top, figure: str) -> Values:
    """Return the first values with a figure, the most first; "" is unset."""
    rows = [(row.value, getattr(row.figures, figure)) for row in (found.unset, *found.rows)]
    return sorted((row for row in rows if row[1]), key=lambda row: -row[1])[:_LISTED]


def _for_channels(
    alert: Alert, hour: _Hour, kind: str, fact: str, content: alert_texts.Words, *, is_of_account: bool = False
) -> list[New]:
    """Return the notice for each channel that the alert names, or one for all of the account."""
    named = fact if is_of_account else f"{alert.id}:{fact}"
    new = New(
        *(hour.website.account, kind, named, content, hour.now_ms + EXPIRES_MS),
        is_urgent=alert.kind == "silence" and kind == "alert.fired",
        website=None if is_of_account else hour.website.number,
    )
    return [new] if alert.channels is None else [new._replace(only=id) for id in alert.channels]
