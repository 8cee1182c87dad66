"""What the notices of alerts say, in the language of a channel.

That is what happened, how much, what is usual, and where from; for programs the same as data.

Names of sources and pages come from visitors; who sends a notice makes no markup of them (tally/notices/requests.py).
"""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, NamedTuple
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from tally.events.website import Website
from tally.notices.alerts import Alert
from tally.notices.outbox import Content
from tally.notices.texts import Language, day, number, percent, text
from tally.timestamps import EPOCH, iso

Values = Sequence[tuple[str, int]]
Words = Callable[[Language], Content]
_MAX_VALUE = 100
TITLES = {
    "spike": "alerts.spike",
    "drop": "alerts.drop",
    "silence": "alerts.silence",
}
_OVER = {"drop": "alerts.drop_over", "silence": "alerts.silence_over"}


class Figures(NamedTuple):
    """What an alert is about: a range, in the website's zone, its visits (conversions of a goal), the usual ones, and
    the first sources and pages."""

    website: Website
    tz: ZoneInfo
    alert: Alert
    from_ms: int
    to_ms: int
    visits: int
    usual: float
    sources: Values = ()
    pages: Values = ()

    @property
    def name(self) -> str:
        """Return the name of the website."""
        return self.website.name or self.website.domain

    def path(self, **more: str) -> str:
        """Return the path of the dashboard with the days of the range, and more parameters of its address."""
        first, last = (self._local(ms).date().isoformat() for ms in (self.from_ms, self.to_ms - 1))
        query = {"from": first, "to": last, "tz": self.tz.key} | more
        return f"/websites/{self.website.id}?{urlencode(query, safe='/')}"

    @property
    def path_of_hours(self) -> str:
        """Return the path of the dashboard with visits by hour, beside those of the same days of the week before."""
        return self.path(interval="hour", match_weekday="true", figure="visits")

    def span(self, language: Language) -> str:
        """Return the range as "21 Nov 2026, 14:00 – 15:00 (Europe/Berlin)"."""
        begin, end = self._local(self.from_ms), self._local(self.to_ms)
        first = f"{day(language, begin.date())}, {begin:%H:%M}"
        is_one_day = begin.date() == self._local(self.to_ms - 1).date()
        last = f"{end:%H:%M}" if is_one_day else f"{day(language, end.date())}, {end:%H:%M}"
        return f"{first} – {last} ({self.tz.key})"

    def data(self, **more: Any) -> dict[str, Any]:
        """Return what programs read."""
        return {
            "alert": self.alert.id,
            "kind": self.alert.kind,
            "website": self.website.id,
            "from": iso(self.from_ms),
            "to": iso(self.to_ms),
            **more,
        }

    def _local(self, ms: int) -> Any:
        return (EPOCH + timedelta(milliseconds=ms)).astimezone(self.tz)


def fired(of: Figures, language: Language) -> Content:
    """Return the content for a spike, a drop or silence."""
    lines = [of.span(language), text(language, "alerts.visits", visits=of.visits, usual=_rounded(language, of.usual))]
    if of.alert.kind == "silence":
        lines.append(text(language, "alerts.silence_advice"))
    elif of.sources or of.pages:
        if of.alert.kind == "drop":
            lines.append(text(language, "alerts.still"))
        lines += [
            text(language, "alerts.sources", values=_listed(language, of.sources)) if of.sources else "",
            text(language, "alerts.pages", values=_listed(language, of.pages)) if of.pages else "",
        ]
    data = of.data(
        visits=of.visits,
        usual=of.usual,
        sources=[[*one] for one in of.sources],
        pages=[[*one] for one in of.pages],
    )
    title = text(language, TITLES[of.alert.kind], name=of.name)
    return Content(title, "\n".join(line for line in lines if line), of.path_of_hours, data)


def over(of: Figures, language: Language) -> Content:
    """Return the content for a drop or silence that is over."""
    lines = [of.span(language), text(language, "alerts.visits", visits=of.visits, usual=_rounded(language, of.usual))]
    if of.alert.kind == "silence":
        lines = [of.span(language)]
    title = text(language, _OVER[of.alert.kind], name=of.name)
    return Content(title, "\n".join(lines), of.path_of_hours, of.data(visits=of.visits, usual=of.usual))


def goal_reached(of: Figures, goal: str, language: Language) -> Content:
    """Return the content for a goal with enough conversions."""
    least = of.alert.params["min"]
    title = text(language, "alerts.goal", name=of.name, goal=goal)
    words = text(language, "alerts.conversions", conversions=of.visits, least=least)
    data = of.data(goal=of.alert.params["goal"], conversions=of.visits, min=least)
    return Content(title, f"{of.span(language)}\n{words}", of.path(goal=of.alert.params["goal"]), data)


def new_source(of: Figures, source: str, language: Language) -> Content:
    """Return the content for a source without visits in the weeks before."""
    title = text(language, "alerts.new_source", name=of.name, source=_cut(source))
    words = text(language, "alerts.new_source_visits", visits=of.visits)
    path = of.path(interval="hour", filter_referrer=source)
    return Content(title, f"{of.span(language)}\n{words}", path, of.data(source=source, visits=of.visits))


def quota(website: Website, share: int, used: int, limit: int, language: Language) -> Content:
    """Return the content for an account that has used a share of its month's events."""
    shown = percent(language, share, 0)
    title = text(language, "alerts.quota", share=shown)
    words = text(language, "alerts.quota_used", used=used, limit=limit)
    if share >= 100:
        words += "\n" + text(language, "alerts.quota_reached")
    data = {"kind": "quota", "website": website.id, "percent": share, "used": used, "limit": limit}
    return Content(title, words, "/account", data)


def _rounded(language: Language, usual: float) -> str:
    return number(language, usual, 0 if usual == int(usual) else 1)


def _listed(language: Language, values: Values) -> str:
    return ", ".join(
        f"{_cut(value) if value else text(language, 'alerts.direct')} ({number(language, count)})"
        for value, count in values
    )


def _cut(value: str) -> str:
    return value if len(value) <= _MAX_VALUE else value[: _MAX_VALUE - 1] + "…"
