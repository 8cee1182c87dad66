"""tally/accounts/passwords.py: the same password in another Unicode form, and what its normalisation may cost."""

import unicodedata

import pytest

from tally.accounts import passwords

# Composed, with marks in two orders, compatibility characters (which NFC keeps), Hangul, and plain.
PASSWORDS = ("Grüße aus Köln", "ḉ-ạ̈-ǭ-ṩ lang genug", "ﬁnale Ⅳ Versuche", "비밀번호가 충분히 길다", "plain and long")


@pytest.mark.parametrize("password", PASSWORDS)
def test_each_form_of_a_password_is_right(password: str) -> None:
    forms = {unicodedata.normalize(form, password) for form in ("NFC", "NFD")}
    for created in forms:
        stored = passwords.hashed(created)
        assert all(passwords.is_right(stored, typed) for typed in forms)
        assert not passwords.is_right(stored, password + "x")


def test_other_characters_are_another_password() -> None:
    assert not passwords.is_right(passwords.hashed("ﬁnale Versuche"), "finale Versuche")
    assert not passwords.is_right(passwords.hashed("Resume of 2026"), "Resumé of 2026")


def test_characters_are_counted_as_they_are_compared() -> None:
    assert not passwords.is_allowed("e\u0301" * 9)
    assert passwords.is_allowed("e\u0301" * 10)
    longest = unicodedata.normalize("NFD", "ΐ" * passwords.MAX_CHARACTERS)
    assert passwords.is_allowed(longest)
    assert passwords.is_right(passwords.hashed("ΐ" * passwords.MAX_CHARACTERS), longest)
    assert not passwords.is_allowed(longest + "e")


def test_a_text_of_many_marks_is_not_sorted() -> None:
    """65,000 combining characters, as a request may have, take minutes."""
    marks = "\u0301\u0323" * 32_000
    assert not passwords.is_allowed(marks)
    assert not passwords.is_right(passwords.NO_ACCOUNT, marks)
    assert passwords._composed(marks) is marks
