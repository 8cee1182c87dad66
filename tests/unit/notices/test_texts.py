"""The texts of notices: the same keys and parameters in each language, all used; numbers and dates as Intl has them."""

import ast
import re
from datetime import date

import pytest

from tally.notices import texts
from tally.notices.texts import LANGUAGES, Language, Message
from tests.support.app import ROOT
from tests.support.cases import cases

ENGLISH = texts.messages("en")
KEY = re.compile(rf"({'|'.join({key.partition('.')[0] for key in ENGLISH})})\.\w+")


def forms_of(message: Message) -> dict[str, str]:
    return {"other": message} if isinstance(message, str) else message


def parameters(message: Message) -> set[str]:
    return set(re.findall(r"\{(\w+)\}", " ".join(forms_of(message).values())))


def used_keys() -> set[str]:
    """Return all keys that are written in the code, all of which are literals."""
    used = set()
    for path in (ROOT / "tally").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and KEY.fullmatch(node.value):
                used.add(node.value)
    return used


def test_every_key_that_is_used_has_a_text_and_every_text_is_used() -> None:
    assert used_keys() == ENGLISH.keys()


@cases("language", LANGUAGES)
def test_the_texts_of_a_language(language: Language) -> None:
    own = texts.messages(language)
    assert own.keys() == ENGLISH.keys()
    for key, message in own.items():
        assert parameters(message) == parameters(ENGLISH[key]), key
        assert forms_of(message).keys() == forms_of(ENGLISH[key]).keys(), key
        if not isinstance(message, str):
            assert message.keys() == {"one", "other"}, key
            assert "count" in parameters(message), key
        for form in forms_of(message).values():
            assert form == form.strip(), key


def test_no_text_of_another_language_is_english_by_mistake() -> None:
    long = {
        key for key, message in ENGLISH.items() if isinstance(message, str) and len(message) > 20 and "{" not in message
    }
    for language in LANGUAGES[1:]:
        assert {key for key in long if texts.messages(language)[key] == ENGLISH[key]} == set()


def test_a_text_with_its_parameters() -> None:
    assert texts.text("en", "notices.more", count=1) == "and 1 more"
    assert texts.text("de", "notices.more", count=12_000) == "und 12.000 weitere"
    # A value is no text of which parameters are replaced.
    assert texts.text("fr", "notices.paused_title", name="{name} {count}") == "Canal suspendu : {name} {count}"
    with pytest.raises(KeyError):
        texts.text("en", "notices.more")


# As Intl.NumberFormat and Intl.DateTimeFormat of Node.js 20 write them.
@cases(
    ("language", "numbers", "share", "period"),
    [
        ("en", ["0", "-3", "1,234", "12,345", "1,234.5"], "43.1%", "21 Sept – 4 Oct 2026"),
        ("de", ["0", "-3", "1.234", "12.345", "1.234,5"], "43,1\xa0%", "21. Sept. – 4. Okt. 2026"),
        ("fr", ["0", "-3", "1\u202f234", "12\u202f345", "1\u202f234,5"], "43,1\xa0%", "21 sept. – 4 oct. 2026"),
        ("es", ["0", "-3", "1234", "12.345", "1234,5"], "43,1\xa0%", "21 sept – 4 oct 2026"),
    ],
)
def test_numbers_and_dates(language: Language, numbers: list[str], share: str, period: str) -> None:
    whole = [texts.number(language, value) for value in (-0.2, -3, 1_234, 12_345)]
    assert [*whole, texts.number(language, 1_234.5, 1)] == numbers
    assert texts.percent(language, 43.1) == share
    assert texts.days(language, date(2026, 9, 21), date(2026, 10, 4)) == period
    first = texts.day(language, date(2026, 12, 31))
    assert texts.days(language, date(2026, 12, 31), date(2026, 12, 31)) == first
    last = texts.day(language, date(2027, 1, 1))
    assert texts.days(language, date(2026, 12, 31), date(2027, 1, 1)) == f"{first} – {last}"


def test_plural_forms() -> None:
    assert [texts.plural("en", count) for count in (0, 1, 2)] == ["other", "one", "other"]
    assert [texts.plural("fr", count) for count in (0, 1, 1.5, 2)] == ["one", "one", "one", "other"]
