"""Reports of an account (/api/account/reports), those of a person alone, and the summaries that they send.

Editors make reports of websites that they see, to channels that an admin has made. The figures are counted when a
summary is due, a few hours after its period, and stored with the notices (tally/notices/reports.py). A summary that
fails to be counted is tried again, and holds up no other.
"""

from collections.abc import Sequence
from html import escape
from typing import Any
from urllib.parse import quote

from aiohttp import web

from tally import errors
from tally.accounts.accounts import AccountFull, Person
from tally.accounts.audit import Entry, if_done
from tally.accounts.roles import may
from tally.api.auth import AUTH, Auth, Session, flag, invalid, website_ids
from tally.api.channels import NOTICES, TESTS, chosen_channels, language_of
from tally.api.context import READ_API, ReadApi
from tally.api.definitions import written_filters
from tally.api.summary_figures import Figures
from tally.clock import Clock
from tally.errors import ApiError, log, where_it_failed
from tally.errors import fields as log_fields
from tally.events.website import Website
from tally.http.responses import json_response
from tally.notices import channels, reports
from tally.notices.channels import Channel
from tally.notices.outbox import New
from tally.notices.periods import (
    LATE_MS,
    PERIODS,
    Days,
    Period,
    days_before,
    last_due_ms,
    local_day,
    next_due_ms,
)
from tally.notices.reports import MAX_REPORT_CHANNELS, MAX_WEBSITES, Report
from tally.notices.sender import Sender
from tally.notices.summary import content
from tally.notices.texts import check_language
from tally.timeranges import WeekStart, zone
from tally.timestamps import DAY_MS, MINUTE_MS, iso

# Of filters in a link, percent-encoded.
MAX_LINK_CHARACTERS = 1_000
FIELDS = ("websites", "period", "hour", "channels", "skip_empty", "filters")
_DEFAULT_HOUR = 8
_AGAIN_MS = 5 * MINUTE_MS
# Longer than any report waits: a later time is of a clock that was wrong.
_MAX_AHEAD_MS = 40 * DAY_MS


# --- routes


async def listed(request: web.Request) -> web.Response:
    """GET /api/account/reports, oldest first: those of websites that the session sees alone."""
    auth = request.app[AUTH]
    session = await auth.session(request)
    number = auth.account(request, session, "define").number
    found = await auth.registry.lookup(reports.reports_of, number)
    return json_response({"data": [_shown(one) for one in found if _is_seen(request, session, one)]})


def _shown(report: Report) -> dict[str, Any]:
    return {
        "id": report.id,
        "websites": None if report.websites is None else list(report.websites),
        "period": report.period,
        "hour": report.hour,
        "channels": list(report.channels),
        "skip_empty": report.skip_empty,
        "filters": list(report.filters),
        "created_at": iso(report.created_ms),
        "next_at": iso(report.next_ms),
    }


def _is_seen(request: web.Request, session: Session, report: Report) -> bool:
    """Return whether a session sees all websites of a report, as far as they exist."""
    auth = request.app[AUTH]
    member = auth.membership(session, report.account)
    known = auth.registry.cache.websites_of(report.account)
    wanted = [one for one in known if report.websites is None or one.id in report.websites]
    is_whole = report.websites is not None or (member is not None and member.websites is None)
    return is_whole and all(may(member, "define", one.number) for one in wanted)


async def add(request: web.Request) -> web.Response:
    """POST /api/account/reports: add a report."""
    auth = request.app[AUTH]
    session, sent = await auth.session_and_body(request, FIELDS)
    number = auth.account(request, session, "define").number
    await request.app[NOTICES].ready()
    for name in ("period", "channels"):
        if name not in sent:
            raise invalid(name, f"{name} is missing.")
    now_ms = auth.clock.monotonic_wall_ms()
    base = Report(channels.new_id(), number, None, "week", _DEFAULT_HOUR, (), True, now_ms, now_ms, None)
    new = _planned(request.app[READ_API], _with_fields(request, session, base, {"websites": None} | sent), now_ms)
    entry = Entry("report_added", target=new.period, detail={"websites": len(new.websites or ())})
    try:
        await auth.change(session, number, entry, reports.add_report, new)
    except AccountFull as full:
        raise ApiError(errors.TOO_MANY_REPORTS, str(full)) from None
    return json_response({"data": _shown(new)}, 201)


def _with_fields(request: web.Request, session: Session, base: Report, sent: dict[str, Any]) -> Report:
    """Return a report with the fields that were sent. Raises ApiError 400."""
    changed: dict[str, Any] = {}
    if "websites" in sent:
        changed["websites"] = _websites(request, session, base.account, sent)
    if "period" in sent:
        changed["period"] = _period(sent["period"])
    if "hour" in sent:
        hour = sent["hour"]
        if not isinstance(hour, int) or isinstance(hour, bool) or not 0 <= hour < 24:
            raise invalid("hour", "hour must be a whole number from 0 to 23.")
        changed["hour"] = hour
    if "channels" in sent:
        changed["channels"] = chosen_channels(request, base.account, sent["channels"], MAX_REPORT_CHANNELS)
    if "skip_empty" in sent:
        changed["skip_empty"] = flag(sent, "skip_empty")
    if "filters" in sent:
        changed["filters"] = tuple(written_filters(sent, "filters", least=0))
        if sum(len(quote(text)) for text in changed["filters"]) > MAX_LINK_CHARACTERS:
            size = f"at most {MAX_LINK_CHARACTERS:,} characters, percent-encoded"
            raise invalid("filters", f"filters must have {size}: they are part of the link in each message.")
    new = base._replace(**changed)
    if new.filters and len(new.websites or ()) != 1:
        raise invalid("filters", "filters need one website: name it in websites.")
    return new


def _websites(request: web.Request, session: Session, account: int, sent: dict[str, Any]) -> tuple[str, ...] | None:
    auth = request.app[AUTH]
    member = auth.membership(session, account)
    seen = [one for one in auth.registry.cache.websites_of(account) if may(member, "define", one.number)]
    ids = website_ids(sent, seen)
    if ids is None and member is not None and member.websites is not None:
        raise invalid("websites", "websites must be a list of ids: you do not see all websites of the account.")
    if ids is not None and len(ids) > MAX_WEBSITES:
        raise invalid("websites", f"websites must be at most {MAX_WEBSITES}.")
    return ids


def _period(value: Any) -> Period:
    for period in PERIODS:
        if value == period:
            return period
    raise invalid("period", f"period must be one of {', '.join(PERIODS)}.")


async def _in_path(request: web.Request, session: Session) -> Report:
    """Return the report in the path, if the session may change it. Raises ApiError 403, 404."""
    auth = request.app[AUTH]
    number = auth.account(request, session, "define").number
    found = await auth.registry.lookup(reports.find_report, number, request.match_info["report"].lower())
    if found is None or not _is_seen(request, session, found):
        raise ApiError(errors.UNKNOWN_REPORT)
    return found


async def change(request: web.Request) -> web.Response:
    """PATCH /api/account/reports/{report}: set the fields that are sent."""
    auth = request.app[AUTH]
    session, sent = await auth.session_and_body(request, FIELDS)
    await request.app[NOTICES].ready()
    before = await _in_path(request, session)
    now_ms = auth.clock.monotonic_wall_ms()
    new = _planned(request.app[READ_API], _with_fields(request, session, before, sent), now_ms)
    entry = Entry("report_changed", target=new.period, detail={"changed": [name for name in FIELDS if name in sent]})
    if not await auth.change(session, new.account, if_done(entry), reports.change_report, new):
        raise ApiError(errors.UNKNOWN_REPORT)
    return json_response({"data": _shown(new)})


async def delete(request: web.Request) -> web.Response:
    """DELETE /api/account/reports/{report}."""
    auth = request.app[AUTH]
    session = await auth.session(request)
    report = await _in_path(request, session)
    entry = if_done(Entry("report_deleted", target=report.period))
    if not await auth.change(session, report.account, entry, reports.delete_report, report.id):
        raise ApiError(errors.UNKNOWN_REPORT)
    return web.Response(status=204)


async def preview(request: web.Request) -> web.Response:
    """GET /api/account/reports/{report}/preview?language=: the summary of the last period, as text and as HTML."""
    from tally.notices.mail_html import document  # here: rarely asked for
    from tally.notices.summary_html import body

    auth, sender = request.app[AUTH], request.app[NOTICES]
    session = await auth.session(request)
    report = await _in_path(request, session)
    try:
        language = check_language(request.query.get("language", "en"))
    except ValueError as bad:
        raise ApiError(errors.INVALID_PARAMETER, str(bad), field="language") from None
    auth.count(request.app[TESTS], report.account)
    api = request.app[READ_API]
    plan = Plan(api, report)
    found = await plan.figures(plan.days(plan.last_due_ms(auth.clock.monotonic_wall_ms())))
    if found is None:
        raise ApiError(errors.UNKNOWN_WEBSITE)
    said = content(language, found)
    html = document(language, escape(said.title), body(language, found, sender.base_url), "")
    return json_response({"data": {"title": said.title, "text": said.text, "html": html, "details": found}})


# --- of a person alone


async def personal(request: web.Request) -> web.Response:
    """GET /api/account/summary: the summary that the person gets by mail, and whether the server sends mail."""
    auth = request.app[AUTH]
    session = await auth.session(request)
    number = auth.account(request, session, "read").number
    found = await auth.registry.lookup(reports.personal_report, number, session.person.number)
    shown = {"period": found and found.period, "hour": found.hour if found else _DEFAULT_HOUR}
    meta = {"mail": request.app[NOTICES].mail is not None}
    return json_response({"meta": meta, "data": shown | {"websites": found and found.websites}})


async def set_personal(request: web.Request) -> web.Response:
    """PATCH /api/account/summary: have a summary sent to the person's own address, of websites that the person sees.

    A `period` of null ends that, and so does the end of the membership.
    """
    auth, sender = request.app[AUTH], request.app[NOTICES]
    session, sent = await auth.session_and_body(request, ("period", "hour", "websites", "language"))
    number, person = auth.account(request, session, "read").number, session.person
    channel, report = None, None
    if sent.get("period") is not None:
        if sender.mail is None:
            message = "The server sends no mail: set --smtp-url and --mail-from."
            raise ApiError(errors.CHANNEL_REFUSED, message, field="period")
        channel = _personal_channel(auth, number, person, sent)
        report = _personal_report(request, session, channel, {"websites": None} | sent)
    entry = Entry("personal_summary_changed", target=report.period if report else "")
    await auth.change(session, number, entry, reports.set_personal, number, person.number, channel, report)
    await sender.refresh()
    return await personal(request)


def _personal_channel(auth: Auth, account: int, person: Person, sent: dict[str, Any]) -> Channel:
    language = language_of(sent, "en")
    try:
        config = channels.check_config("email", {"address": person.email}, ())
    except channels.BadChannel:
        raise invalid("period", f"{person.email} is no address to which mail can be sent.") from None
    now_ms = auth.clock.wall_ms()
    return channels.new_channel(
        account,
        "email",
        person.email[:100],
        config,
        now_ms,
        language=language,
        confirmed_ms=now_ms,
        person=person.number,
    )


def _personal_report(request: web.Request, session: Session, channel: Channel, sent: dict[str, Any]) -> Report:
    auth, person = request.app[AUTH], session.person.number
    member = auth.membership(session, channel.account)
    seen = [one for one in auth.registry.cache.websites_of(channel.account) if may(member, "read", one.number)]
    ids = website_ids(sent, seen)
    own = {name: value for name, value in sent.items() if name in ("period", "hour")}
    now_ms = auth.clock.monotonic_wall_ms()
    base = Report(
        channels.new_id(), channel.account, ids, "week", _DEFAULT_HOUR, (channel.id,), True, now_ms, now_ms, person
    )
    return _planned(request.app[READ_API], _with_fields(request, session, base, own), now_ms)


# --- when and what


class Plan:
    """When a report is due, and the figures of its websites."""

    def __init__(self, api: ReadApi, report: Report) -> None:
        self._api, self._report = api, report
        cache = api.registry.cache
        known: Sequence[Website] = cache.websites_of(report.account)
        if report.person is not None:
            # Of one that is limited meanwhile, or that has left, fewer.
            member = cache.members.get((report.account, report.person))
            known = [one for one in known if may(member, "read", one.number)]
        self._websites = [one for one in known if report.websites is None or one.id in report.websites]
        alone = self._websites[0] if len(self._websites) == 1 else None
        own = alone.time_zone if alone else None
        self._zone = zone(own or cache.time_zone_of(report.account) or "UTC")
        self._week_start: WeekStart = self._websites[0].week_start if self._websites else "monday"

    def next_due_ms(self, after_ms: int) -> int:
        """Return when the report is due next, later than a time."""
        report = self._report
        return next_due_ms(report.period, report.hour, self._zone, after_ms, self._week_start)

    def last_due_ms(self, until_ms: int) -> int:
        """Return when the report was due last, at a time or before."""
        report = self._report
        return last_due_ms(report.period, report.hour, self._zone, until_ms, self._week_start)

    def days(self, due_ms: int) -> Days:
        """Return the period whose summary is due at a time."""
        return days_before(self._report.period, local_day(due_ms, self._zone), self._week_start)

    async def figures(self, days: Days) -> dict[str, Any] | None:
        """Return the figures of a period; None where the report has no websites any more. Raises ApiError."""
        if not self._websites:
            return None
        figures = Figures(self._api, self._report.account, days, self._zone.key, self._report.filters)
        left_out = max(0, len(self._websites) - MAX_WEBSITES)
        return {"period": self._report.period, "left_out": left_out} | await figures.of(self._websites[:MAX_WEBSITES])


def _planned(api: ReadApi, report: Report, now_ms: int) -> Report:
    return report._replace(next_ms=Plan(api, report).next_due_ms(now_ms))


class Summaries:
    """Sends summaries when they are due. Used by the event loop alone."""

    def __init__(self, api: ReadApi, sender: Sender, clock: Clock) -> None:
        self._api, self._sender, self._clock = api, sender, clock
        # When a report that failed is tried again.
        self._again_ms: dict[str, int] = {}

    async def work(self) -> None:
        """Store the summaries that are due; called every few seconds."""
        now_ms = self._clock.monotonic_wall_ms()
        if not self._sender.channels or not self._api.node.database.health.is_writable:
            return
        try:
            found = await self._api.registry.lookup(reports.due_reports, now_ms, now_ms + _MAX_AHEAD_MS)
        except ApiError:
            return  # the database reports its own failures
        self._again_ms = {id: ms for id, ms in self._again_ms.items() if ms > now_ms}
        for report in found:
            if report.id not in self._again_ms:
                await self._send(report, now_ms)

    async def _send(self, report: Report, now_ms: int) -> None:
        try:
            plan = Plan(self._api, report)
            new = None if report.next_ms > now_ms else await self._new(plan, report, now_ms)
            next_ms = plan.next_due_ms(now_ms)
            await self._api.registry.change(reports.finish, report, next_ms, new, now_ms)
            self._sender.wake()
        except ApiError:
            # Overloaded, or a report that takes too long; the database reports its own failures.
            self._again_ms[report.id] = now_ms + _AGAIN_MS
        except Exception as failure:
            self._again_ms[report.id] = now_ms + _AGAIN_MS
            log.error("a summary failed: %s", where_it_failed(failure), extra=log_fields(report=report.id))

    async def _new(self, plan: Plan, report: Report, now_ms: int) -> New | None:
        """Return the notice of the last period that is over; None where nothing is sent."""
        # Of several that were missed, the last.
        due_ms = max(report.next_ms, plan.last_due_ms(now_ms))
        days = plan.days(due_ms)
        try:
            found = await plan.figures(days)
        except ApiError as failure:
            if failure.kind is not errors.BEYOND_RETENTION:
                raise
            # Of filters: the next period may be shorter, or better kept.
            log.error("a summary needs events that are no longer kept", extra=log_fields(report=report.id))
            return None
        if found is None or (report.skip_empty and not found["totals"]["visitors"]):
            return None
        kind, fact = f"summary.{report.period}", f"{report.id}:{days.first.isoformat()}"
        only = self._api.registry.website(report.websites[0]) if report.websites and len(report.websites) == 1 else None
        # One that is too late is stored, and expires.
        expires_ms = due_ms + LATE_MS[report.period]
        new = New(report.account, kind, fact, lambda language: content(language, found), expires_ms)
        return new._replace(website=None if only is None else only.number)
