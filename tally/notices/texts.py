"""The texts of notices in the languages of the pages, and their numbers and dates.

`messages/` has a file for each language, in the form of those of the pages (static/messages): by part and key a text
with parameters such as `{count}`, or its plural forms, selected by the parameter `count`. A key is written
"part.key", as a literal, so that a test finds missing and unused texts (tests/unit/notices/test_texts.py).

Numbers, dates and names of countries are written as Intl does on the pages (CLDR).
"""

import json
import re
from datetime import date
from functools import cache
from typing import Any, Literal, cast

from tally.resources import asset

Language = Literal["en", "de", "fr", "es"]
LANGUAGES: tuple[Language, ...] = ("en", "de", "fr", "es")
Message = str | dict[str, str]
_PARAMETER = re.compile(r"\{(\w+)\}")
_GROUP: dict[Language, str] = {"en": ",", "de": ".", "fr": "\u202f", "es": "."}
_POINT: dict[Language, str] = {"en": ".", "de": ",", "fr": ",", "es": ","}
_PERCENT: dict[Language, str] = {"en": "%", "de": "\xa0%", "fr": "\xa0%", "es": "\xa0%"}
# Numbers of fewer digits have no groups.
_MIN_GROUPED: dict[Language, int] = {"en": 1_000, "de": 1_000, "fr": 1_000, "es": 10_000}
_MONTHS: dict[Language, tuple[str, ...]] = {
    "en": ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sept", "Oct", "Nov", "Dec"),
    "de": ("Jan.", "Feb.", "März", "Apr.", "Mai", "Juni", "Juli", "Aug.", "Sept.", "Okt.", "Nov.", "Dez."),
    "fr": ("janv.", "févr.", "mars", "avr.", "mai", "juin", "juil.", "août", "sept.", "oct.", "nov.", "déc."),
    "es": ("ene", "feb", "mar", "abr", "may", "jun", "jul", "ago", "sept", "oct", "nov", "dic"),
}
_DAY: dict[Language, str] = {"en": "{} {}", "de": "{}. {}", "fr": "{} {}", "es": "{} {}"}


@cache
def messages(language: Language) -> dict[str, Message]:
    """Return the texts of a language by "part.key"."""
    parts = json.loads(asset(f"notices/messages/{language}.json").read_text("utf-8"))
    return {f"{part}.{key}": message for part, texts in parts.items() for key, message in texts.items()}


def text(language: Language, key: str, **values: str | float) -> str:
    """Return a text with its parameters; whole numbers and decimals among them are written as the language does."""
    message = messages(language)[key]
    if not isinstance(message, str):
        message = message[plural(language, cast(float, values["count"]))]
    shown = {name: value if isinstance(value, str) else number(language, value) for name, value in values.items()}
    return _PARAMETER.sub(lambda parameter: shown[parameter[1]], message)


def plural(language: Language, count: float) -> str:
    """Return the plural form of a count: one or other."""
    return "one" if count == 1 or (language == "fr" and 0 <= count < 2) else "other"


def number(language: Language, value: float, decimals: int = 0) -> str:
    """Return a number as "12,480", with so many decimals; a negative one with a minus sign."""
    digits = f"{abs(value):,.{decimals}f}"
    if abs(value) < _MIN_GROUPED[language]:
        digits = digits.replace(",", "")
    marks = {",": _GROUP[language], ".": _POINT[language]}
    sign = "-" if value < 0 and any(one in "123456789" for one in digits) else ""
    return sign + "".join(marks.get(one, one) for one in digits)


def percent(language: Language, value: float, decimals: int = 1) -> str:
    """Return a share or a change in percent: "43.1%"."""
    return number(language, value, decimals) + _PERCENT[language]


def day(language: Language, value: date) -> str:
    """Return a day with its year: "21 Nov 2026"."""
    return f"{_short_day(language, value)} {value.year}"


def _short_day(language: Language, value: date) -> str:
    return _DAY[language].format(value.day, _MONTHS[language][value.month - 1])


def days(language: Language, first: date, last: date) -> str:
    """Return a range of days, the last included: "15 Nov – 21 Nov 2026"."""
    if first == last:
        return day(language, first)
    begin = day(language, first) if first.year != last.year else _short_day(language, first)
    return f"{begin} – {day(language, last)}"


@cache
def _country_names() -> dict[str, list[str]]:
    names: dict[str, list[str]] = json.loads(asset("data/country_names.json").read_text("utf-8"))["names"]
    return names


def country(language: Language, code: str) -> str:
    """Return the name of a country; another text as it is."""
    names = _country_names().get(code)
    return code if names is None else names[LANGUAGES.index(language)]


def check_language(value: Any) -> Language:
    """Return a language. Raises ValueError."""
    for language in LANGUAGES:
        if value == language:
            return language
    raise ValueError(f"language must be one of {', '.join(LANGUAGES)}.")
