"""The figures of a summary: those of the read API, for the days of a period.

Each figure is that of a report (tally/api/reports.py), computed as for a request, so that a summary says what the pages
say. The result is plain JSON, which is stored with the notice: it is not counted again when it is sent again.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

from multidict import MultiDict

from tally import errors
from tally.api.context import BY_KEY, ReadApi, View
from tally.api.endpoints import computed_content
from tally.api.params import goals_of
from tally.api.reports import REPORTS
from tally.engine.values import Claim, Requester
from tally.errors import ApiError
from tally.events.website import Website
from tally.notices import outbox
from tally.notices.periods import Days
from tally.rounding import round_half_away
from tally.timeranges import zone
from tally.timestamps import DAY_MS, EPOCH

KEY_FIGURES = ("visitors", "visits", "pageviews", "bounce_rate", "visit_duration")
SUMS = ("visitors", "visits", "pageviews")
LISTS = {"pages": "pathname", "sources": "referrer", "countries": "country"}
_AI_PURPOSES = ("ai_training", "ai_search", "ai_assistant")
# Of several websites, those with the most visitors have lists.
MAX_DETAILED = 3
_MAX_ROWS, _MAX_VALUE, _MAX_GOALS, _MAX_ANNOTATIONS, _MAX_ALERTS = 5, 120, 10, 10, 10
# A webhook has them, and its body at most 20,000 bytes.
_MAX_BYTES = 16_000
_MIN_REJECTED = 0.05
_REPORTS = {report.path: report for report in REPORTS}


class Figures:
    """The figures of websites of an account for some days of a time zone."""

    def __init__(self, api: ReadApi, account: int, days: Days, time_zone: str, filters: Sequence[str] = ()) -> None:
        self._api, self._days, self._zone, self._filters = api, days, time_zone, filters
        self._requester = Requester(Claim(False, account))

    async def of(self, websites: Sequence[Website]) -> dict[str, Any]:
        """Return what a summary says, the websites with the most visitors first. Raises ApiError."""
        rows = [await self._key_figures(website) for website in websites]
        rows.sort(key=lambda row: (-row["visitors"], row["name"], row["id"]))
        by_id = {website.id: website for website in websites}
        for row in rows[: 1 if len(rows) == 1 else MAX_DETAILED]:
            row |= await self._details(by_id[row["id"]])
        data = {
            "from": self._days.first.isoformat(),
            "to": self._days.last.isoformat(),
            "time_zone": self._zone,
            "filters": list(self._filters),
            "totals": _totals(rows),
            "websites": rows,
        }
        return _bounded(data)

    async def _key_figures(self, website: Website) -> dict[str, Any]:
        found = await self._compared(website, "stats")
        row: dict[str, Any] = {"id": website.id, "name": website.name or website.domain}
        row |= {name: found[name] for name in KEY_FIGURES}
        before = found.get("previous") or dict.fromkeys((*SUMS, "bounce_rate"), 0)
        row["previous"] = {name: before[name] for name in SUMS}
        row["change"] = None
        if before["visits"]:
            row["change"] = {name: found["change"][name] for name in KEY_FIGURES}
            row["change"]["bounce_rate"] = _points(row["bounce_rate"], before["bounce_rate"])
        row["year_change"] = await self._year_change(website)
        return row

    async def _year_change(self, website: Website) -> dict[str, Any] | None:
        """Return the change against the same days a year ago; None where there are no visits of then."""
        found = await self._kept(website, "stats", compare="year")
        if not found or not found["previous"]["visits"]:
            return None
        return {name: found["change"][name] for name in SUMS}

    async def _details(self, website: Website) -> dict[str, Any]:
        series = (await self._report(website, "timeseries", interval="day"))["data"]
        limit = str(_MAX_ROWS)
        lists = await self._compared(website, "top", fields=",".join(LISTS.values()), limit=limit)
        changed = await self._kept(website, "changes", limit=limit) or []
        goals = await self._kept(website, "goals/report", compare="previous") or []
        return {
            "days": [{"date": row["time"][:10], "visitors": row["visitors"]} for row in series],
            **{name: _rows(one) for name, one in zip(LISTS, lists, strict=True)},
            # Alerts are about the whole traffic.
            "alerts": [] if self._filters else await self._alerts(website),
            "changes": [_changed(row) for row in changed],
            "goals": [_goal(row) for row in goals[:_MAX_GOALS]],
            "annotations": self._annotations(website),
            "crawlers": await self._crawlers(website),
            "rejected_events": await self._rejected(website, sum(row["events"] + row["pageviews"] for row in series)),
        }

    def _annotations(self, website: Website) -> list[dict[str, str]]:
        first, last = self._days.first.isoformat(), self._days.last.isoformat()
        known = self._api.registry.cache.definitions.get(website.number, ())
        rows = [one.content for one in known if one.kind == "annotation"]
        inside = [row for row in rows if row["from"][:10] <= last and (row["to"] or row["from"])[:10] >= first]
        inside.sort(key=lambda row: row["from"])
        return [{"from": row["from"][:10], "text": _cut(row["text"])} for row in inside[:_MAX_ANNOTATIONS]]

    async def _alerts(self, website: Website) -> list[dict[str, Any]]:
        """Return what alerts have reported of the period, the newest alone where they are many."""
        tz = zone(self._zone)
        from_ms, to_ms = (_ms(day, tz) for day in (self._days.first, self._days.last + timedelta(days=1)))
        # An hour is judged after its end.
        found = await self._api.registry.lookup(outbox.alerts_of, website.number, from_ms, to_ms + DAY_MS)
        goals = {one.id: one.name for one in goals_of(self._api.registry.cache.definitions.get(website.number, ()))}
        rows = list[dict[str, Any]]()
        for data in found:
            kind, begin = data["kind"], datetime.fromisoformat(data["from"]).astimezone(tz)
            last = (datetime.fromisoformat(data["to"]) - timedelta(milliseconds=1)).astimezone(tz).date()
            name = goals.get(data["goal"]) if kind == "goal" else data.get("source")
            is_known = name is not None or kind not in ("goal", "new_source")
            if is_known and self._days.first <= last <= self._days.last:
                row = {"kind": kind, "time": f"{begin:%Y-%m-%dT%H:%M}", "date": last.isoformat()}
                row |= {"visits": data.get("visits"), "usual": data.get("usual"), "name": name and _cut(name)}
                rows.append(row)
        return rows[-_MAX_ALERTS:]

    async def _crawlers(self, website: Website) -> dict[str, Any] | None:
        """Return the requests of AI crawlers; None without any, and with filters, which they do not have."""
        if self._filters:
            return None
        found = (await self._report(website, "crawlers", limit="1"))["data"]
        rows = [row for row in found["crawlers"] if row["purpose"] in _AI_PURPOSES and row["requests"]]
        if not rows:
            return None
        names = [{"name": row["name"], "requests": row["requests"]} for row in rows[:_MAX_ROWS]]
        return {"requests": sum(row["requests"] for row in rows), "crawlers": names}

    async def _rejected(self, website: Website, accepted: int) -> dict[str, Any] | None:
        """Return the rejected events; None where they are few, and with filters, which they do not have."""
        if self._filters:
            return None
        found = (await self._report(website, "rejected"))["data"]
        events = found["events"]
        if events <= _MIN_REJECTED * (events + accepted):
            return None
        return {"events": events, "share": round_half_away(Fraction(100 * events, events + accepted), 1)}

    async def _compared(self, website: Website, path: str, **more: str) -> Any:
        """Return the data of a report beside the period before, or alone where that is no longer kept."""
        found = await self._kept(website, path, compare="previous", **more)
        return (await self._report(website, path, **more))["data"] if found is None else found

    async def _kept(self, website: Website, path: str, **more: str) -> Any:
        """Return the data of a report; None where it needs events that are no longer kept. Raises ApiError."""
        try:
            return (await self._report(website, path, **more))["data"]
        except ApiError as failure:
            if failure.kind is errors.BEYOND_RETENTION:
                return None
            raise

    async def _report(self, website: Website, path: str, **more: str) -> dict[str, Any]:
        first, last = self._days.first.isoformat(), self._days.last.isoformat()
        query = MultiDict({"from": first, "to": last, "tz": self._zone} | more)
        if _REPORTS[path].takes_filters:
            for name, _, value in (written.partition("=") for written in self._filters):
                query.add(name, value)
        return await computed_content(self._api, _REPORTS[path], View(website, BY_KEY), query, {}, self._requester)


def _ms(day: date, tz: ZoneInfo) -> int:
    """Return the begin of a local day."""
    return (datetime(day.year, day.month, day.day, tzinfo=tz) - EPOCH) // timedelta(milliseconds=1)


def _rows(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "value": _cut(row["value"]),
            "visitors": row["visitors"],
            "change": _change(row["visitors"], row["previous"]["visitors"]) if "previous" in row else None,
            "is_new": "previous" in row and not row["previous"]["visitors"],
        }
        for row in found["data"]
    ]


def _changed(row: Mapping[str, Any]) -> dict[str, Any]:
    before = row["previous"]["visitors"]
    return {"field": row["field"], "value": _cut(row["value"]), "visitors": row["visitors"], "previous": before}


def _goal(row: Mapping[str, Any]) -> dict[str, Any]:
    shown = {name: row[name] for name in ("conversions", "conversion_rate", "value", "currency")}
    return {"name": row["name"]} | shown | {"change": _change(row["conversions"], row["previous"]["conversions"])}


def _totals(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    now = {name: sum(row[name] for row in rows) for name in SUMS}
    before = {name: sum(row["previous"][name] for row in rows) for name in SUMS}
    return now | {"change": {name: _change(now[name], before[name]) for name in SUMS}}


def _change(now: int, before: int) -> float | int | None:
    return round_half_away(Fraction(100 * (now - before), before), 1) if before else None


def _points(now: float | None, before: float | None) -> float | None:
    """Return the change of a percentage, in points."""
    return None if now is None or before is None else round(now - before, 1)


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_VALUE else f"{text[: _MAX_VALUE - 1]}…"


def _bounded(data: dict[str, Any]) -> dict[str, Any]:
    """Return the figures without the lists of the last websites, as far as they are too long."""
    names = (*KEY_FIGURES, "id", "name", "previous", "change", "year_change")
    rows = data["websites"]
    for place in reversed(range(len(rows))):
        if len(json.dumps(data)) <= _MAX_BYTES:
            break
        rows[place] = {name: rows[place][name] for name in names}
    return data
