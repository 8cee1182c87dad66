"""Passwords, sessions and the counting of tries, each by itself (tally/accounts/passwords.py, logins.py, limits.py)."""

import re
import time
from pathlib import Path

import pytest
from argon2 import PasswordHasher, extract_parameters

from tally.accounts import logins, passwords
from tally.accounts.accounts import create_account
from tally.accounts.api_keys import key_digest
from tally.accounts.logins import DAY_MS, LASTS_MS, Login
from tally.rate_limit import Buckets
from tally.storage.database import transaction
from tests.support.app import new_database

NOW_MS = 1_795_003_200_000
HOUR_NS = 3_600_000_000_000


# --- passwords


def test_parameters_are_the_minimum_of_owasp() -> None:
    """OWASP, Password Storage: argon2id "with a minimum of 19 MiB of memory, an iteration count of 2, and 1 degree of
    parallelism"."""
    assert passwords.hashed("a password").startswith("$argon2id$v=19$m=19456,t=2,p=1$")


@pytest.mark.parametrize("password", ["0123456789", "ä" * 200, "\0" * 10, "pass word\n", "🙂" * 10])
def test_only_the_exact_password_is_accepted(password: str) -> None:
    hashed = passwords.hashed(password)
    assert passwords.is_right(hashed, password)
    assert not passwords.is_right(hashed, password + " ")
    assert not passwords.is_right(hashed, password[:-1])
    assert hashed != passwords.hashed(password)


@pytest.mark.parametrize("stored", ["", "$argon2id$", "plain", "$2b$12$abc", passwords.NO_ACCOUNT[:-1]])
def test_invalid_hashes_match_no_password(stored: str) -> None:
    assert not passwords.is_right(stored, "plain")


def test_the_placeholder_hash_needs_the_same_work() -> None:
    """An unknown address takes the same time as a wrong password."""
    assert extract_parameters(passwords.NO_ACCOUNT) == extract_parameters(passwords.hashed("x"))
    assert not [word for word in ("", "x", "password", "nobody") if passwords.is_right(passwords.NO_ACCOUNT, word)]
    assert not passwords.is_outdated(passwords.NO_ACCOUNT)


def test_hashes_with_other_parameters_are_accepted_and_outdated() -> None:
    other = PasswordHasher(time_cost=1, memory_cost=1024, parallelism=1).hash("a password")
    assert passwords.is_right(other, "a password")
    assert passwords.is_outdated(other)
    assert not passwords.is_outdated(passwords.hashed("a password"))


# --- sessions


def test_a_session_lasts_30_days_and_is_renewed_once_a_day() -> None:
    login = Login(7, NOW_MS, NOW_MS + LASTS_MS)
    assert LASTS_MS == 30 * 24 * 3_600_000
    assert not login.is_worn(NOW_MS + DAY_MS)
    assert login.is_worn(NOW_MS + DAY_MS + 1)


def test_values_are_32_random_bytes_and_stored_as_digests() -> None:
    values = {logins.new_value() for _ in range(100)}
    assert len(values) == 100
    assert all(re.fullmatch("[A-Za-z0-9_-]{43}", value) for value in values)
    value = values.pop()
    assert logins.digest_of(value, b"salt") != logins.digest_of(value, b"tlas")
    assert len(logins.digest_of(value, b"salt")) == 32
    assert logins.digest_of("\udc80", b"salt") != logins.digest_of("\udc81", b"salt")


def test_a_session_is_not_an_api_key() -> None:
    """Both are digests with one salt, but a value of one kind is not valid as the other."""
    assert logins.digest_of("value", b"salt") != key_digest("value", b"salt")


def test_sessions_of_a_person_are_listed_oldest_first() -> None:
    known = {bytes([n]): Login(account, NOW_MS - n, NOW_MS) for n, account in enumerate((1, 2, 1, 1))}
    assert logins.of_person(known, 1) == [b"\3", b"\2", b"\0"]
    assert logins.of_person(known, 3) == []


def test_sessions_are_stored(tmp_path: Path) -> None:
    connection = new_database(tmp_path / "analytics.db")
    try:
        with transaction(connection):
            create_account(connection, "a@b.c", "pro", None, 0)
            for number in range(3):
                logins.store(connection, bytes([number]) * 32, Login(1, NOW_MS, NOW_MS + number))
            logins.prolong(connection, b"\1" * 32, 1, NOW_MS + 9)
            logins.prolong(connection, b"\7" * 32, 1, NOW_MS + 9)
            logins.delete(connection, [b"\0" * 32])
        assert logins.stored(connection) == {
            b"\1" * 32: Login(1, NOW_MS, NOW_MS + 9),
            b"\2" * 32: Login(1, NOW_MS, NOW_MS + 2),
        }
        logins.delete_of_person(connection, 2)
        logins.delete_of_person(connection, 1, but=b"\2" * 32)
        assert list(logins.stored(connection)) == [b"\2" * 32]
        logins.delete_of_person(connection, 1)
        assert logins.stored(connection) == {}
    finally:
        connection.close()


# --- login attempts


def test_buckets_of_an_hour_hold_their_tokens_for_an_hour() -> None:
    """10 per hour and account: ten at once, then one every six minutes, independent of other accounts."""
    buckets, now_ns = Buckets(10, span_ns=HOUR_NS), time.monotonic_ns()
    for _ in range(10):
        assert buckets.wait_s(b"a", now_ns) == 0
        buckets.take(b"a", now_ns)
    assert buckets.wait_s(b"a", now_ns) == 360
    for minute in range(1, 6):
        buckets.take(bytes([minute]), now_ns + minute * 60_000_000_000)
        assert buckets.wait_s(b"a", now_ns + minute * 60_000_000_000) == 360 - 60 * minute
    assert buckets.wait_s(b"a", now_ns + 360_000_000_000) == 0
