"""What a summary says, as text: made of stored figures (tally/api/summary_figures.py) in the language of a channel.

Names of pages and sources come from visitors: a name is on one line, and callers write it as text, never as markup.
The HTML of mail (tally/notices/summary_html.py) is made of the same parts.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from fractions import Fraction
from typing import Any
from urllib.parse import urlencode

from tally.notices import texts
from tally.notices.alert_texts import TITLES
from tally.notices.outbox import Content
from tally.notices.texts import Language, text
from tally.rounding import round_half_away

Figures = Mapping[str, Any]
# Keys of the titles of the key figures and lists.
FIGURE_TITLES = {
    "visitors": "summaries.visitors",
    "visits": "summaries.visits",
    "pageviews": "summaries.pageviews",
    "bounce_rate": "summaries.bounce_rate",
    "visit_duration": "summaries.visit_duration",
}
LIST_TITLES = {"pages": "summaries.pages", "sources": "summaries.sources", "countries": "summaries.countries"}
FIELD_NAMES = {
    "channel": "fields.channel",
    "referrer": "fields.referrer",
    "utm_source": "fields.utm_source",
    "utm_medium": "fields.utm_medium",
    "utm_campaign": "fields.utm_campaign",
    "utm_content": "fields.utm_content",
    "utm_term": "fields.utm_term",
    "pathname": "fields.pathname",
    "entry_page": "fields.entry_page",
    "exit_page": "fields.exit_page",
    "country": "fields.country",
    "region": "fields.region",
    "city": "fields.city",
    "language": "fields.language",
    "device": "fields.device",
    "browser": "fields.browser",
    "browser_version": "fields.browser_version",
    "os": "fields.os",
    "os_version": "fields.os_version",
    "platform": "fields.platform",
    "app_version": "fields.app_version",
    "hostname": "fields.hostname",
    "event_name": "fields.event_name",
}
# By the sign behind the field.
_CONDITIONS = {
    "": "filters.is",
    "!": "filters.is_not",
    "*": "filters.contains",
    "^": "filters.begins",
    "$": "filters.ends",
}
_CHAT_ROWS = 3


def content(language: Language, data: Figures) -> Content:
    """Return the notice of a summary: a title, the text for people, and the figures for programs."""
    return Content(title(language, data), "\n".join(_lines(language, data)), path(data), data)


def title(language: Language, data: Figures) -> str:
    """Return the title, such as `example.com: 1,234 visitors, 16 Nov – 22 Nov 2026`."""
    websites = data["websites"]
    name = websites[0]["name"] if len(websites) == 1 else text(language, "summaries.websites", count=len(websites))
    visitors = text(language, "summaries.count_visitors", count=data["totals"]["visitors"])
    return f"{name}: {visitors}, {period(language, data)}"


def period(language: Language, data: Figures) -> str:
    """Return the days of a summary."""
    return texts.days(language, date.fromisoformat(data["from"]), date.fromisoformat(data["to"]))


def path(data: Figures, website: Figures | None = None) -> str:
    """Return the path of the dashboard with the days of a summary, of one website or of the only one."""
    if website is None:
        if len(data["websites"]) != 1:
            return "/"
        website = data["websites"][0]
    query = [("from", data["from"]), ("to", data["to"]), ("tz", data["time_zone"])]
    query += [(name, value) for name, _, value in (written.partition("=") for written in data.get("filters", ()))]
    return f"/websites/{website['id']}?{urlencode(query)}"


def figure(language: Language, name: str, value: float | None) -> str:
    """Return a key figure."""
    if value is None:
        return "–"
    if name == "bounce_rate":
        return texts.percent(language, value)
    if name == "visit_duration":
        return _duration(language, round(value))
    return texts.number(language, value)


def _duration(language: Language, seconds: int) -> str:
    hours, minutes, rest = seconds // 3_600, seconds // 60 % 60, seconds % 60
    if hours:
        return text(language, "summaries.hours", hours=hours, minutes=minutes)
    if minutes:
        return text(language, "summaries.minutes", minutes=minutes, seconds=rest)
    return text(language, "summaries.seconds", seconds=rest)


def change(language: Language, value: float | None) -> str:
    """Return a change in percent with its sign, "" for none."""
    if value is None:
        return ""
    decimals = 0 if abs(value) >= 10 or value == round(value) else 1
    # As the dashboard rounds: halves away from zero.
    shown = round_half_away(Fraction(str(value)), decimals) or 0
    return f"{'+' if value > 0 else ''}{texts.percent(language, shown, decimals)}"


def figure_change(language: Language, name: str, value: float | None) -> str:
    """Return the change of a key figure, of a percentage in points."""
    if name != "bounce_rate" or value is None:
        return change(language, value)
    points = texts.number(language, value, 1)
    return text(language, "summaries.points", points=f"{'+' if value > 0 else ''}{points}")


def row_change(language: Language, row: Figures) -> str:
    """Return the change of a row of a list, or that it is new."""
    return text(language, "summaries.new") if row["is_new"] else change(language, row["change"])


def row_name(language: Language, name: str, row: Figures) -> str:
    """Return the value of a row of a list; a text for one that is not set."""
    value = " ".join(str(row["value"]).split()) or text(language, "summaries.unset")
    return f"{flag(value)} {texts.country(language, value)}".strip() if name == "countries" else value


def flag(country: str) -> str:
    """Return the flag of a country's code, "" for another text."""
    is_code = len(country) == 2 and country.isascii() and country.isalpha() and country.isupper()
    return "".join(chr(0x1F1E6 + ord(one) - ord("A")) for one in country) if is_code else ""


def changed(language: Language, row: Figures) -> str:
    """Return a row of what changed."""
    value = " ".join(str(row["value"]).split()) or text(language, "summaries.unset")
    both = {"previous": row["previous"], "visitors": row["visitors"]}
    if row["field"] == "country":
        value = texts.country(language, value)
    return text(language, "summaries.changed", field=_field_name(language, row["field"]), value=value, **both)


def _field_name(language: Language, field: str) -> str:
    return text(language, FIELD_NAMES[field]) if field in FIELD_NAMES else field


def alert(language: Language, website: Figures, row: Figures) -> str:
    """Return what an alert has reported."""
    kind, name = row["kind"], website["name"]
    if kind == "goal":
        title = text(language, "alerts.goal", name=name, goal=row["name"])
    elif kind == "new_source":
        title = text(language, "alerts.new_source", name=name, source=row["name"])
    else:
        usual = texts.number(language, row["usual"], 0 if row["usual"] == int(row["usual"]) else 1)
        visits = text(language, "alerts.visits", visits=row["visits"], usual=usual)
        begin = datetime.fromisoformat(row["time"])
        return (
            f"{texts.day(language, begin.date())}, {begin:%H:%M}: {text(language, TITLES[kind], name=name)}. {visits}"
        )
    return f"{texts.day(language, date.fromisoformat(row['date']))}: {title}"


def changes(language: Language, website: Figures) -> list[str]:
    """Return what changed: what alerts have reported, and values with more or fewer visitors."""
    alerts = [alert(language, website, row) for row in website.get("alerts", ())]
    return [*alerts, *(changed(language, row) for row in website["changes"])]


def filters(language: Language, data: Figures) -> str:
    """Return the filters of a summary in words, "" without."""
    by_name: dict[str, list[str]] = {}
    for name, _, value in (written.partition("=") for written in data.get("filters", ())):
        by_name.setdefault(name.removeprefix("filter_"), []).append(value)
    words = [_condition(language, *one) for one in by_name.items()]
    return text(language, "filters.only", filters=", ".join(words)) if words else ""


def _condition(language: Language, name: str, values: Sequence[str]) -> str:
    sign = name[-1] if name[-1] in _CONDITIONS else ""
    field = name.removesuffix(sign)
    named = [texts.country(language, one) if field == "country" else " ".join(one.split()) for one in values]
    shown = named[0] or text(language, "filters.unset")
    for one in named[1:]:
        shown = text(language, "filters.either", first=shown, second=one or text(language, "filters.unset"))
    return text(language, _CONDITIONS[sign], field=_field_name(language, field), value=shown)


def goal(language: Language, row: Figures) -> str:
    """Return the figures of a goal."""
    shown = text(language, "summaries.conversions", count=row["conversions"])
    if row["conversion_rate"] is not None:
        shown += f" ({texts.percent(language, row['conversion_rate'])})"
    if row["value"] is not None:
        amount = texts.number(language, float(row["value"]), 2)
        shown += f", {amount} {row['currency'] or ''}".rstrip()
    return shown


def remarks(language: Language, website: Figures) -> Iterator[str]:
    """Yield the annotations, what AI crawlers read, and rejected events where they are many."""
    for one in website["annotations"]:
        yield f"{texts.day(language, date.fromisoformat(one['from']))}: {one['text']}"
    crawlers = website["crawlers"]
    if crawlers is not None:
        names = ", ".join(f"{one['name']} {texts.number(language, one['requests'])}" for one in crawlers["crawlers"])
        yield text(language, "summaries.crawlers", count=crawlers["requests"], names=names)
    rejected = website["rejected_events"]
    if rejected is not None:
        share = texts.percent(language, rejected["share"])
        yield text(language, "summaries.rejected", count=rejected["events"], share=share)


def figure_lines(language: Language, website: Figures) -> Iterator[str]:
    """Yield the key figures with their change."""
    for name, key in FIGURE_TITLES.items():
        value = f"{text(language, key)}: {figure(language, name, website[name])}"
        moved = figure_change(language, name, (website["change"] or {}).get(name))
        yield f"{value} ({moved})" if moved else value


def _lines(language: Language, data: Figures) -> Iterator[str]:
    websites: Sequence[Figures] = data["websites"]
    yield period(language, data)
    if data.get("filters"):
        yield filters(language, data)
    for website in websites:
        yield ""
        if len(websites) > 1:
            moved = change(language, (website["change"] or {}).get("visitors"))
            visitors = text(language, "summaries.count_visitors", count=website["visitors"])
            yield f"{website['name']}: {visitors}{f' ({moved})' if moved else ''}"
        else:
            yield from figure_lines(language, website)
        if "pages" in website:
            yield from _list_lines(language, website, 5 if len(websites) == 1 else _CHAT_ROWS)
    if data["left_out"]:
        yield ""
        yield text(language, "summaries.left_out", count=data["left_out"])


def _list_lines(language: Language, website: Figures, most: int) -> Iterator[str]:
    for name, key in LIST_TITLES.items():
        rows = website[name][:most]
        if rows:
            yield ""
            yield text(language, key)
        for row in rows:
            moved = row_change(language, row)
            number = texts.number(language, row["visitors"])
            yield f"- {row_name(language, name, row)}: {number}{f' ({moved})' if moved else ''}"
    for key, lines in (
        ("summaries.what_changed", changes(language, website)),
        ("summaries.goals", [f"{row['name']}: {goal(language, row)}" for row in website["goals"]]),
        ("summaries.remarks", [*remarks(language, website)]),
    ):
        if lines:
            yield ""
            yield text(language, key)
        yield from (f"- {line}" for line in lines)
