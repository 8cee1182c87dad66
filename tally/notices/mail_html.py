"""The HTML of a mail: one table of 600 pixels with inline styles, dark where the reader's program is.

Programs that read mail know few styles: colours are inline, and those of a dark program are in a style sheet with
classes, which those that know none ignore. Callers escape what they pass.
"""

from html import escape

from tally.notices.texts import Language

# Those of the pages (static/app.css).
_LIGHT = {
    "page": "#f5f4f0",
    "card": "#fffefb",
    "line": "#e2dfd6",
    "text": "#1d1c19",
    "soft": "#5d5a52",
    "link": "#0a6269",
    "bar": "#0b6e75",
    "good": "#2c6b2f",
    "bad": "#a8321f",
}
_DARK = {
    "page": "#131412",
    "card": "#1b1c1a",
    "line": "#30322d",
    "text": "#ecebe6",
    "soft": "#a5a69d",
    "link": "#7accc8",
    "bar": "#55bdb9",
    "good": "#86c987",
    "bad": "#f0917d",
}
_FONT = "font-family:-apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif"
LINE, BAR = _LIGHT["line"], _LIGHT["bar"]
"""Colours of lines between rows, and of bars."""
_COLOURS = ("text", "soft", "link", "good", "bad")
_STYLE = (
    ":root{color-scheme:light dark;supported-color-schemes:light dark}"
    "@media (prefers-color-scheme:dark){"
    f".page{{background:{_DARK['page']}!important}}"
    f".card{{background:{_DARK['card']}!important;border-color:{_DARK['line']}!important}}"
    f".line{{border-color:{_DARK['line']}!important}}.bar{{background:{_DARK['bar']}!important}}"
    f".button{{background:{_DARK['bar']}!important;color:{_DARK['page']}!important}}"
    + "".join(f".{name}{{color:{_DARK[name]}!important}}" for name in _COLOURS)
    + "}"
)


def styled(classes: str, more: str = "") -> str:
    """Return the attributes of an element: classes, of which those of _COLOURS have a colour, and more styles."""
    colour = next((f"color:{_LIGHT[one]};" for one in classes.split() if one in _COLOURS), "")
    return f'class="{classes}" style="{colour}{more}"'


def paragraph(html: str) -> str:
    """Return a paragraph."""
    return f"<p {styled('text', 'font-size:15px;line-height:1.5;margin:0 0 16px')}>{html}</p>"


def button(label: str, url: str) -> str:
    """Return a link that looks as a button."""
    look = f"background:{_LIGHT['bar']};color:#ffffff;border-radius:6px;display:inline-block;font-size:15px"
    return (
        f'<p style="margin:20px 0 4px"><a href="{escape(url)}" class="button" style="{look};'
        f'padding:10px 18px;text-decoration:none">{escape(label)}</a></p>'
    )


def document(language: Language, title: str, body: str, footer: str) -> str:
    """Return the HTML of a mail with a title, a body and a footer."""
    card = f"background:{_LIGHT['card']};border:1px solid {_LIGHT['line']};border-radius:8px;padding:20px"
    return (
        f'<!doctype html><html lang="{language}"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><meta name="supported-color-schemes" content="light dark">'
        f"<title>{title}</title><style>{_STYLE}</style></head>"
        f'<body class="page" style="{_FONT};background:{_LIGHT["page"]};margin:0;padding:16px 8px">'
        '<table role="presentation" align="center" cellpadding="0" cellspacing="0"'
        ' style="border-collapse:separate;margin:0 auto;max-width:600px;width:100%"><tr>'
        f'<td class="card" style="{card}"><h1 {styled("text", "font-size:20px;line-height:1.3;margin:0 0 16px")}>'
        f"{title}</h1>{body}</td></tr><tr>"
        f"<td {styled('soft', 'font-size:12px;line-height:1.5;padding:16px 20px')}>{footer}</td></tr></table>"
        "</body></html>"
    )
