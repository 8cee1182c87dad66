"""/api/account/websites/{id}/alerts: what is watched of a website's traffic, and on which channels it is reported.

Editors make and change alerts, and choose among the channels of the account. Programs use the same handlers with an API
key (tally/api/keys.py). Alerts are judged by tally/notices/judge.py.
"""

from collections.abc import Callable, Mapping
from typing import Any

from aiohttp import web

from tally import errors
from tally.accounts.accounts import AccountFull
from tally.accounts.audit import Entry, if_done
from tally.api import params
from tally.api.auth import AUTH, Session, flag, invalid, text
from tally.api.channels import NOTICES, chosen_channels
from tally.errors import ApiError
from tally.events.website import Website
from tally.http.responses import json_response
from tally.notices import alerts
from tally.notices.alerts import KINDS, MAX_SNOOZE_HOURS, MIN_SNOOZE_HOURS, Alert, Kind
from tally.notices.baseline import MAX_SILENCE_HOURS, SPIKE_FACTOR
from tally.notices.channels import MAX_CHANNELS, new_id
from tally.notices.judge import Judge
from tally.notices.periods import PERIODS
from tally.timestamps import HOUR_MS, iso

JUDGE = web.AppKey("judge", Judge)
MIN_FACTOR, MAX_FACTOR = 1.5, 20
MAX_COUNT = 1_000_000


def _whole(sent: Mapping[str, Any], name: str, most: int) -> int:
    value = sent.get(name)
    if type(value) is not int or not 1 <= value <= most:
        raise invalid(name, f"{name} must be a whole number from 1 to {most:,}.")
    return value


def _whole_or_null(sent: Mapping[str, Any], name: str, most: int) -> int | None:
    return None if sent.get(name) is None else _whole(sent, name, most)


def _spike(sent: dict[str, Any], _: Mapping[str, str]) -> dict[str, Any]:
    factor = sent.get("factor", SPIKE_FACTOR)
    if type(factor) not in (int, float) or not MIN_FACTOR <= factor <= MAX_FACTOR:
        raise invalid("factor", f"factor must be a number from {MIN_FACTOR} to {MAX_FACTOR}.")
    least = _whole_or_null(sent, "min_visits", MAX_COUNT)
    return {"factor": factor, "sensitive": flag(sent, "sensitive"), "min_visits": least}


def _silence(sent: dict[str, Any], _: Mapping[str, str]) -> dict[str, Any]:
    return {"hours": _whole_or_null(sent, "hours", MAX_SILENCE_HOURS)}


def _goal(sent: dict[str, Any], goals: Mapping[str, str]) -> dict[str, Any]:
    goal, period = text(sent, "goal"), sent.get("period", "day")
    if goal not in goals:
        raise invalid("goal", "goal must be the id of a goal of the website.")
    if period not in PERIODS:
        raise invalid("period", f"period must be one of {', '.join(PERIODS)}.")
    return {"goal": goal, "period": period, "min": _whole(sent, "min", MAX_COUNT)}


def _nothing(_: dict[str, Any], __: Mapping[str, str]) -> dict[str, Any]:
    return {}


Check = Callable[[dict[str, Any], Mapping[str, str]], dict[str, Any]]
# The fields of each kind, and the function that checks them.
_KINDS: dict[Kind, tuple[tuple[str, ...], Check]] = {
    "spike": (("factor", "sensitive", "min_visits"), _spike),
    "drop": ((), _nothing),
    "silence": (("hours",), _silence),
    "goal": (("goal", "period", "min"), _goal),
    "new_source": ((), _nothing),
    "quota": ((), _nothing),
}
_FIELDS = tuple(name for fields, _ in _KINDS.values() for name in fields)


def _kind(sent: dict[str, Any]) -> Kind:
    for kind in KINDS:
        if sent.get("kind") == kind:
            return kind
    raise invalid("kind", f"kind must be one of {', '.join(KINDS)}.")


def _params(request: web.Request, website: Website, kind: Kind, sent: dict[str, Any], before: Any) -> dict[str, Any]:
    """Return the fields of a kind; those of before where none are sent. Raises ApiError 400."""
    fields, check = _KINDS[kind]
    for name in _FIELDS:
        if name in sent and name not in fields:
            raise invalid(name, f"{name} is no field of {kind}.")
    definitions = request.app[AUTH].registry.cache.definitions.get(website.number, ())
    goals = {one.id: one.name for one in params.goals_of(definitions)}
    return check(before | {name: sent[name] for name in fields if name in sent}, goals)


async def _channels(request: web.Request, website: Website, sent: dict[str, Any]) -> tuple[str, ...] | None:
    """Return ids of channels; None is all of the account. Raises ApiError 400."""
    if sent.get("channels") is None:
        return None
    await request.app[NOTICES].ready()
    return chosen_channels(request, website.account, sent["channels"], MAX_CHANNELS, ", or null for all of them")


def _shown(alert: Alert, now_ms: int) -> dict[str, Any]:
    return {
        "id": alert.id,
        "kind": alert.kind,
        **alert.params,
        "channels": None if alert.channels is None else [*alert.channels],
        "state": alert.state,
        "since": iso(alert.since_ms),
        "judged_at": None if alert.judged_ms is None else iso(alert.judged_ms),
        "result": alert.result,
        "snoozed_until": iso(alert.snoozed_until_ms or 0) if alert.is_snoozed(now_ms) else None,
        "created_at": iso(alert.created_ms),
    }


async def listed(request: web.Request) -> web.Response:
    """GET /api/account/websites/{id}/alerts: the alerts, oldest first."""
    auth = request.app[AUTH]
    website = await auth.website(request, await auth.session(request), "define")
    own = await auth.registry.lookup(alerts.alerts_of, website.number)
    return json_response({"data": [_shown(one, auth.clock.wall_ms()) for one in own]})


async def add(request: web.Request) -> web.Response:
    """POST /api/account/websites/{id}/alerts: add an alert."""
    auth = request.app[AUTH]
    session, sent = await auth.session_and_body(request, ("kind", "channels", *_FIELDS))
    website = await auth.website(request, session, "define")
    kind, now_ms = _kind(sent), auth.clock.wall_ms()
    content, channels = _params(request, website, kind, sent, {}), await _channels(request, website, sent)
    row = (new_id(), website.number, kind, content, channels, now_ms, "ok", now_ms)
    new = Alert._make((*row, None, "waiting", None, None))
    entry = Entry("alert_added", website.id, kind)
    try:
        await auth.change(session, website.account, entry, alerts.add_alert, website.account, new)
    except AccountFull as full:
        raise ApiError(errors.TOO_MANY_ALERTS, str(full)) from None
    request.app[JUDGE].changed()
    return json_response({"data": _shown(new, now_ms)}, 201)


async def _in_path(request: web.Request, session: Session) -> tuple[Website, Alert]:
    """Return the website and the alert in the path, which the session may change. Raises ApiError 403, 404."""
    auth = request.app[AUTH]
    website = await auth.website(request, session, "define")
    id = request.match_info["alert"].lower()
    for one in await auth.registry.lookup(alerts.alerts_of, website.number):
        if one.id == id:
            return website, one
    raise ApiError(errors.UNKNOWN_ALERT)


async def change(request: web.Request) -> web.Response:
    """PATCH /api/account/websites/{id}/alerts/{alert}: set the fields that are sent. With other limits it is ok."""
    auth = request.app[AUTH]
    session, sent = await auth.session_and_body(request, ("channels", *_FIELDS))
    website, alert = await _in_path(request, session)
    content = _params(request, website, alert.kind, sent, alert.params)
    channels = await _channels(request, website, sent) if "channels" in sent else alert.channels
    changed = alert._replace(params=content, channels=channels, since_ms=auth.clock.wall_ms())
    entry = if_done(Entry("alert_changed", website.id, alert.kind, {"changed": sorted(sent)}))
    await _apply(request, session, website, entry, alerts.change_alert, changed)
    return json_response({"data": _shown((await _in_path(request, session))[1], auth.clock.wall_ms())})


async def snooze(request: web.Request) -> web.Response:
    """POST /api/account/websites/{id}/alerts/{alert}/snooze: report nothing for `hours`; null ends that."""
    auth = request.app[AUTH]
    session, sent = await auth.session_and_body(request, ("hours",))
    website, alert = await _in_path(request, session)
    if "hours" not in sent:
        raise invalid("hours", f"hours must be {MIN_SNOOZE_HOURS} to {MAX_SNOOZE_HOURS}, or null.")
    hours, now_ms = _whole_or_null(sent, "hours", MAX_SNOOZE_HOURS), auth.clock.wall_ms()
    until_ms = None if hours is None else now_ms + hours * HOUR_MS
    entry = if_done(Entry("alert_snoozed", website.id, alert.kind, {"hours": hours}))
    await _apply(request, session, website, entry, alerts.snooze_alert, alert.id, until_ms)
    return json_response({"data": _shown(alert._replace(snoozed_until_ms=until_ms), now_ms)})


async def delete(request: web.Request) -> web.Response:
    """DELETE /api/account/websites/{id}/alerts/{alert}: delete an alert; its notices stay."""
    session = await request.app[AUTH].session(request)
    website, alert = await _in_path(request, session)
    entry = if_done(Entry("alert_deleted", website.id, alert.kind))
    await _apply(request, session, website, entry, alerts.delete_alert, alert.id)
    request.app[JUDGE].changed()
    return web.Response(status=204)


async def _apply(
    request: web.Request, session: Session, website: Website, entry: Any, step: Callable[..., bool], *arguments: Any
) -> None:
    """Change an alert. Raises ApiError 404 where it has been deleted meanwhile."""
    if not await request.app[AUTH].change(session, website.account, entry, step, *arguments):
        raise ApiError(errors.UNKNOWN_ALERT)
