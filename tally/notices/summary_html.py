"""The body of a summary as HTML, for mail: tables with inline styles, and bars that are cells of tables.

Programs that read mail show no more than that reliably. No image is loaded: one would tell who reads when. All that
comes from visitors is escaped here.
"""

from collections.abc import Iterator, Sequence
from datetime import date
from html import escape

from tally.notices import summary, texts
from tally.notices.mail_html import BAR, LINE, paragraph, styled
from tally.notices.summary import FIGURE_TITLES, LIST_TITLES, Figures
from tally.notices.texts import Language, text

_TABLE = '<table role="presentation" width="100%" cellpadding="0" cellspacing="0" style="border-collapse:collapse'
_BAR_HEIGHT = 48
_RIGHT, _WRAPPED = "padding-left:10px;text-align:right", "min-width:80px;word-break:break-word"
_CELL = f"border-bottom:1px solid {LINE};font-size:14px;padding:6px 0;"


def body(language: Language, data: Figures, base_url: str) -> str:
    """Return the body of a summary. `base_url`: "" for no links."""
    websites: Sequence[Figures] = data["websites"]
    parts = [paragraph(escape(summary.filters(language, data)))] if data.get("filters") else []
    if len(websites) > 1:
        parts.append(_overview(language, data, base_url))
    for website in websites:
        if "pages" in website:
            parts += _website(language, data, website, base_url, has_name=len(websites) > 1)
    return "".join(parts)


def _website(language: Language, data: Figures, website: Figures, base_url: str, *, has_name: bool) -> Iterator[str]:
    if has_name:
        yield f"<h2 {styled('text', 'font-size:17px;margin:28px 0 8px')}>{_link(data, website, base_url)}</h2>"
    yield _key_figures(language, website)
    yield _bars(language, website["days"])
    for name, key in LIST_TITLES.items():
        rows = [
            (
                summary.row_name(language, name, row),
                texts.number(language, row["visitors"]),
                row["change"],
                summary.row_change(language, row),
            )
            for row in website[name]
        ]
        yield _list(language, text(language, key), rows)
    yield _lines(text(language, "summaries.what_changed"), summary.changes(language, website))
    goals = [
        (row["name"], summary.goal(language, row), row["change"], summary.change(language, row["change"]))
        for row in website["goals"]
    ]
    yield _list(language, text(language, "summaries.goals"), goals)
    yield _lines(text(language, "summaries.remarks"), [*summary.remarks(language, website)])


def _link(data: Figures, website: Figures, base_url: str) -> str:
    name = escape(website["name"])
    if not base_url:
        return name
    return f'<a href="{escape(base_url + summary.path(data, website))}" {styled("link")}>{name}</a>'


def _changed(value: float | None, shown: str, *, is_good_down: bool = False, is_plain: bool = False) -> str:
    """Return a change in its colour: as on the dashboard, more is good but for the bounce rate."""
    if not shown:
        return ""
    is_good = value is not None and (value < 0 if is_good_down else value > 0)
    colour = "soft" if is_plain or not value else "good" if is_good else "bad"
    return f"<span {styled(colour, 'font-size:12px;white-space:nowrap')}>{escape(shown)}</span>"


def _key_figures(language: Language, website: Figures) -> str:
    rows = []
    for name, key in FIGURE_TITLES.items():
        now = summary.figure(language, name, website[name])
        moved = []
        for about, is_year in ((website["change"], False), (website["year_change"], True)):
            value = (about or {}).get(name)
            shown = summary.figure_change(language, name, value)
            if shown and is_year:
                shown = text(language, "summaries.year_before", change=shown)
            moved.append(_changed(value, shown, is_good_down=name == "bounce_rate", is_plain=is_year))
        bold = styled("line text", _CELL + "font-weight:600;text-align:right;white-space:nowrap")
        cells = f"<td {bold}>{escape(now)}</td>"
        cells += f'<td class="line" style="{_CELL}{_RIGHT}">{"<br>".join(filter(None, moved))}</td>'
        title = f"<td {styled('line soft', _CELL)}>{escape(text(language, key))}</td>"
        rows.append(f"<tr>{title}{cells}</tr>")
    return f'{_TABLE};margin:0 0 16px">{"".join(rows)}</table>'


def _bars(language: Language, days: Sequence[Figures]) -> str:
    """Return a bar for each day; nothing for one day alone, or without visitors."""
    most = max((one["visitors"] for one in days), default=0)
    if len(days) < 2 or not most:
        return ""
    cells = []
    for one in days:
        height = round(_BAR_HEIGHT * one["visitors"] / most) if one["visitors"] else 0
        shown = f"{texts.day(language, date.fromisoformat(one['date']))}: {texts.number(language, one['visitors'])}"
        bar = f'<div class="bar" style="background:{BAR};height:{max(height, 1)}px;margin:0 1px"></div>'
        cells.append(f'<td valign="bottom" title="{escape(shown)}" style="height:{_BAR_HEIGHT}px">{bar}</td>')
    label = escape(text(language, "summaries.by_day"))
    return f'{_TABLE};margin:0 0 16px;table-layout:fixed" aria-label="{label}"><tr>{"".join(cells)}</tr></table>'


def _list(language: Language, title: str, rows: Sequence[tuple[str, str, float | None, str]]) -> str:
    """Return a list of names with figures and changes; nothing without rows."""
    if not rows:
        return ""
    shown = [
        f"<tr><td {styled('line text', _CELL + _WRAPPED)}>{escape(name)}</td>"
        f"<td {styled('line text', _CELL + _RIGHT)}>{escape(value)}</td>"
        f'<td class="line" style="{_CELL}{_RIGHT};width:70px">{_changed(change, words)}</td></tr>'
        for name, value, change, words in rows
    ]
    return f'{_heading(title)}{_TABLE}">{"".join(shown)}</table>'


def _lines(title: str, lines: Sequence[str]) -> str:
    if not lines:
        return ""
    style = styled("line text", _CELL + _WRAPPED)
    shown = "".join(f"<tr><td {style}>{escape(line)}</td></tr>" for line in lines)
    return f'{_heading(title)}{_TABLE}">{shown}</table>'


def _heading(title: str) -> str:
    return f"<h3 {styled('text', 'font-size:14px;margin:20px 0 4px')}>{escape(title)}</h3>"


def _overview(language: Language, data: Figures, base_url: str) -> str:
    """Return the totals of several websites, and a row for each."""
    total = (escape(text(language, "summaries.total")), data["totals"])
    rows = [total, *((_link(data, one, base_url), one) for one in data["websites"])]
    shown = []
    for name, one in rows:
        value = (one["change"] or {}).get("visitors")
        visitors = text(language, "summaries.count_visitors", count=one["visitors"])
        views = text(language, "summaries.count_pageviews", count=one["pageviews"])
        shown.append(
            f"<tr><td {styled('line text', _CELL + _WRAPPED)}>{name}</td>"
            f"<td {styled('line text', _CELL + _RIGHT)}>{escape(visitors)}<br>"
            f"<span {styled('soft', 'font-size:12px')}>{escape(views)}</span></td>"
            f'<td class="line" style="{_CELL}{_RIGHT};width:70px">'
            f"{_changed(value, summary.change(language, value))}</td></tr>"
        )
    left_out = escape(text(language, "summaries.left_out", count=data["left_out"]))
    rest = paragraph(left_out) if data["left_out"] else ""
    return f'{_TABLE};margin:0 0 16px">{"".join(shown)}</table>{rest}'
