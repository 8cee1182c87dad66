"""Limits on login attempts: the rows of the table in docs/sign-in.md, and what an attacker learns.

Attempts of others must not lock out a browser with a valid session or a device cookie. Other clients are limited by
address first. An attempt refused by a full queue is not counted. Responses for existing and invented accounts are the
same under load.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from ipaddress import ip_address
from typing import Any

import pytest

from tally.accounts import logins
from tally.accounts.logins import DEVICE_LASTS_MS
from tally.accounts.sign_in import (
    BROWSER_TRIES,
    NETWORK_SHARES,
    NEW_ADDRESS_TRIES,
    TRIES_A_MINUTE,
    TRIES_AN_HOUR,
    SignInLimits,
    TooManyTries,
)
from tally.api.auth import AUTH, MAX_WAITING, Auth
from tally.events.client import bucket_key, wider_networks
from tally.rate_limit import MAX_BUCKETS, SLOTS, HashedBuckets
from tests.support.app import OWNER, ROOT, Answer, App, MakeApp, ManualClock
from tests.support.page_client import PASSWORD, PageClient, account, logged_in
from tests.support.process import Command

WRONG = "not the password"
INVENTED = "nobody@example.org"


def outcome(answer: Any) -> tuple[int, str | None]:
    return answer.status, answer.headers.get("Retry-After")


def version_of(app: App, email: str) -> bytes:
    """Return the password version under which attempts are counted, or b"" for an invented address."""
    people = app.registry.cache.people.values()
    return next((person.password_version for person in people if person.email == email), b"")


def attempts(limits: SignInLimits, clock: ManualClock, email: str, addresses: range, version: bytes = b"") -> int:
    """Let each address try until it is refused; return the number of attempts."""
    got = 0
    for number in addresses:
        while True:
            try:
                limits.take(b"bot %d" % number, email, None, clock.monotonic_ns, version)
            except TooManyTries:
                break
            got += 1
    return got


def attack(app: App, email: str = OWNER, first_bot: int = 0) -> None:
    """Use up all attempts that unknown browsers have for an account."""
    bots = range(first_bot, first_bot + 2 * NEW_ADDRESS_TRIES)
    got = attempts(app.application[AUTH]._sign_in, app.clock, email, bots, version_of(app, email))
    assert got > NEW_ADDRESS_TRIES / 2


# --- known browsers


async def test_a_device_cookie_is_not_limited_by_attempts_of_others(app: App) -> None:
    """Row 1, by the device cookie: after a logout, after a restart, from any address."""
    browser = await logged_in(app)
    assert (await browser("POST", "/api/account/logout")).status == 204
    assert list(browser.cookies) == ["tally-device"]
    await app.restart()
    attack(app)
    assert (await PageClient(app, ip="198.51.100.99").log_in()).status == 429
    browser.ip = "198.51.100.99"
    for _ in range(TRIES_A_MINUTE + 1):
        await PageClient(app, ip=browser.ip).log_in(INVENTED, WRONG)
    assert (await browser.log_in()).status == 200


async def test_a_session_is_not_limited_by_attempts_of_others(app: App) -> None:
    """Row 1, by the session: the password can be changed, and a login is possible."""
    browser = await logged_in(app)
    del browser.cookies["tally-device"]
    attack(app)
    assert (await browser.log_in()).status == 200
    del browser.cookies["tally-device"]
    sent = {"current": PASSWORD, "new": "another horse battery"}
    assert (await browser("POST", "/api/account/password", sent)).status == 204


async def test_a_known_browser_has_ten_attempts_in_ten_minutes(app: App) -> None:
    """Row 1: 10 attempts in 10 minutes per browser; other known browsers are not affected."""
    browser, other = await logged_in(app), await logged_in(app)
    await browser("POST", "/api/account/logout")
    for number in range(BROWSER_TRIES):
        browser.ip = f"198.51.100.{number}"
        assert (await browser.log_in(password=WRONG)).status == 401
    assert outcome(await browser.log_in()) == (429, "60")
    assert (await other.log_in()).status == 200
    app.clock.advance(60)
    assert (await browser.log_in()).status == 200


async def test_only_failures_count(app: App) -> None:
    await account(app)
    browser = PageClient(app)
    for _ in range(TRIES_A_MINUTE + 1):
        assert (await PageClient(app).log_in()).status == 200
        assert (await browser.log_in()).status == 200


Revoke = Callable[[App, PageClient, Command], Awaitable[Any]]


async def change_password(app: App, browser: PageClient, command: Command) -> None:
    other = await logged_in(app)
    sent = {"current": PASSWORD, "new": "another horse battery"}
    assert (await other("POST", "/api/account/password", sent)).status == 204
    assert (await other("POST", "/api/account/password", {"current": sent["new"], "new": PASSWORD})).status == 204


async def log_out_everywhere(app: App, browser: PageClient, command: Command) -> None:
    other = await logged_in(app)
    assert (await other("POST", "/api/account/logout-everywhere")).status == 204
    assert other.cookies == {}


async def set_password_by_command(app: App, browser: PageClient, command: Command) -> None:
    words = ("account", "password", OWNER, "--password-stdin", "--db", str(app.db))
    done = await asyncio.to_thread(command, *words, stdin=f"{PASSWORD}\n")
    assert done.returncode == 0, done.stderr
    await app.registry.refresh()


async def wait_a_year(app: App, browser: PageClient, command: Command) -> None:
    app.clock.advance(DEVICE_LASTS_MS / 1000)


async def use_another_accounts_cookie(app: App, browser: PageClient, command: Command) -> None:
    browser.cookies = (await logged_in(app, "other@example.com")).cookies


async def use_an_invented_cookie(app: App, browser: PageClient, command: Command) -> None:
    browser.cookies["tally-device"] = "x" * 43


@pytest.mark.parametrize(
    "revoke",
    [
        change_password,
        log_out_everywhere,
        set_password_by_command,
        wait_a_year,
        use_another_accounts_cookie,
        use_an_invented_cookie,
    ],
)
async def test_invalid_device_cookies(app: App, command: Command, revoke: Revoke) -> None:
    """Device cookies that were revoked, have expired, or belong to another account."""
    browser = await logged_in(app)
    del browser.cookies["tally"]
    await revoke(app, browser, command)
    browser.cookies.pop("tally", None)
    attack(app)
    browser.ip = "198.51.100.99"
    assert (await browser.log_in()).status == 429


async def test_the_device_cookie(app: App) -> None:
    """The device cookie is random, HttpOnly, SameSite, valid for a year, stored as a keyed hash, new at each login."""
    browser = await logged_in(app)
    value = browser.cookies["tally-device"]
    assert [line.partition("=")[0] for line in browser.set_cookies] == ["tally", "tally-device"]
    assert browser.set_cookies[1] == f"tally-device={value}; Path=/; Max-Age=31536000; HttpOnly; SameSite=Lax"
    assert value != browser.cookies["tally"]
    digest = logins.device_digest_of(value, app.registry.key_salt)
    now_ms = app.clock.wall_ms()
    assert app.sql("select * from device_cookie") == [(digest, 1, now_ms, now_ms + DEVICE_LASTS_MS)]
    assert value.encode() not in app.db.read_bytes()
    assert digest != logins.digest_of(value, app.registry.key_salt)
    app.clock.advance(5)
    assert (await browser.log_in()).status == 200
    assert app.sql("select created_ms from device_cookie") == [(now_ms + 5_000,)]
    # It authorises nothing.
    del browser.cookies["tally"]
    assert (await browser("GET", "/api/account")).status == 401
    stolen = PageClient(app)
    stolen.cookies["tally"] = browser.cookies["tally-device"]
    assert (await stolen("GET", "/api/account")).status == 401


async def test_the_device_cookie_has_the_host_prefix_over_https(app: App) -> None:
    await account(app)
    browser = PageClient(app, X_Forwarded_Proto="https")
    assert (await browser.log_in()).status == 200
    assert list(browser.cookies) == ["__Host-tally", "__Host-tally-device"]
    assert all(line.endswith("; Secure") for line in browser.set_cookies)


async def test_known_browsers_that_expired_are_removed(app: App) -> None:
    await logged_in(app)
    app.clock.advance(DEVICE_LASTS_MS / 1000 + 2 * 86_400)
    await app.restart()
    await logged_in(app)
    assert app.sql("select count(*) from device_cookie") == [(1,)]


# --- addresses


async def test_ten_failures_a_minute_from_one_address(app: App) -> None:
    """Row 2: for any accounts, with Retry-After; other addresses are not affected."""
    await account(app)
    browser = PageClient(app)
    for number in range(TRIES_A_MINUTE):
        assert (await browser.log_in(f"{number}@example.com", WRONG)).status == 401
    answer = await browser.log_in()
    assert outcome(answer) == (429, "6")
    assert answer.json["error"]["code"] == "rate_limited"
    assert (await PageClient(app, ip="203.0.113.8").log_in()).status == 200
    app.clock.advance(6)
    assert (await browser.log_in()).status == 200


async def test_an_address_is_an_ipv6_network_of_64(app: App) -> None:
    """Limits apply to an IPv6 /64, which belongs to one subscriber, as for collecting."""
    await account(app)
    for number in range(TRIES_A_MINUTE):
        browser = PageClient(app, ip=f"2001:db8:1:2::{number + 1}")
        assert (await browser.log_in(f"{number}@example.com", WRONG)).status == 401
    assert (await PageClient(app, ip="2001:db8:1:2:ffff::1").log_in()).status == 429
    assert (await PageClient(app, ip="2001:db8:1:3::1").log_in()).status == 200


@pytest.mark.slow
async def test_a_flood_from_one_ipv6_network_of_48_does_not_keep_out_the_owner(app: App) -> None:
    """An attempt from each of 200 networks of /56, with the owner's email address and with an invented one."""
    await account(app)
    auth = app.application[AUTH]
    free = blocked_hashing(auth)
    attempts = [
        asyncio.create_task(
            PageClient(app, ip=f"2001:db8:1:{number * 256:x}::1").log_in(OWNER if number % 2 else INVENTED, WRONG)
        )
        for number in range(200)
    ]
    try:
        async with asyncio.timeout(60):
            while queued(auth) + 1 + sum(attempt.done() for attempt in attempts) < len(attempts):
                await asyncio.sleep(0.005)
    finally:
        free.set()
    statuses = [answer.status for answer in await asyncio.gather(*attempts)]
    most = NETWORK_SHARES[-1] * TRIES_A_MINUTE
    assert sorted(statuses) == [401] * most + [429] * (len(attempts) - most)
    browser = PageClient(app, ip="2001:db8:2:1::1")
    assert (await browser.log_in()).status == 200


@pytest.mark.parametrize(("step", "share"), [(1, NETWORK_SHARES[0]), (256, NETWORK_SHARES[1])])
def test_wider_ipv6_networks_have_limits_of_their_own(clock: ManualClock, step: int, share: int) -> None:
    """Rows 2 to 4 for the networks of /64 of one /56, and for those of one /48 that are each in another /56."""
    limits = SignInLimits()

    def attempt(number: int, email: str, network: int = 1) -> None:
        key = bucket_key(ip_address(f"2001:db8:{network}:{number * step:x}::1"))
        limits.take(key, email, None, clock.monotonic_ns, networks=wider_networks(key))

    for number in range(share * TRIES_A_MINUTE):
        attempt(number, f"{number}@example.com")
    with pytest.raises(TooManyTries) as refused:
        attempt(99, OWNER)
    assert refused.value.wait_s <= 60 / TRIES_A_MINUTE
    attempt(99, OWNER, network=2)
    clock.advance(60)
    # The network has failed, so that its other addresses share the attempts of those that have failed.
    for number in range(TRIES_AN_HOUR):
        attempt(100 + number, OWNER)
    with pytest.raises(TooManyTries):
        attempt(120, OWNER)
    attempt(120, OWNER, network=2)


async def test_the_forwarded_header_counts_only_behind_a_trusted_proxy(make_app: MakeApp) -> None:
    app = await make_app(trusted_proxy=("none",))
    await account(app)
    for number in range(TRIES_A_MINUTE):
        browser = PageClient(app, ip=f"203.0.113.{number}")
        assert (await browser.log_in(f"{number}@example.com", WRONG)).status == 401
    assert (await PageClient(app, ip="198.51.100.1").log_in()).status == 429


async def test_concurrent_attempts_are_counted(app: App) -> None:
    """Each attempt is counted before its hash is computed, so concurrent ones are counted."""
    await account(app)
    auth = app.application[AUTH]
    free = blocked_hashing(auth)
    attempts = [asyncio.create_task(PageClient(app).log_in(OWNER, WRONG)) for _ in range(3 * TRIES_A_MINUTE)]
    try:
        async with asyncio.timeout(30):
            while queued(auth) + 1 + sum(attempt.done() for attempt in attempts) < len(attempts):
                await asyncio.sleep(0.005)
        assert queued(auth) + 1 == TRIES_A_MINUTE, "a thread of its own hashes"
    finally:
        free.set()
    statuses = sorted([(await attempt).status for attempt in attempts])
    assert statuses == [401] * TRIES_A_MINUTE + [429] * 2 * TRIES_A_MINUTE


# --- an account, from addresses that have failed and from others


@pytest.mark.parametrize("email", [OWNER, INVENTED])
async def test_addresses_with_failures_have_ten_attempts_per_hour_and_account(app: App, email: str) -> None:
    """Row 4, for an existing account and an invented one; new addresses are not affected."""
    await account(app)
    for number in range(TRIES_AN_HOUR):
        browser = PageClient(app, ip=f"203.0.113.{number}")
        assert (await browser.log_in("elsewhere@example.com", WRONG)).status == 401
        assert (await browser.log_in(email.upper() if number % 2 else email, WRONG)).status == 401
    late = PageClient(app, ip="198.51.100.1")
    assert (await late.log_in("elsewhere@example.com", WRONG)).status == 401
    # Its failure has expired when the account has an attempt again.
    assert outcome(await late.log_in(email, PASSWORD)) == (429, "360")
    assert (await PageClient(app, ip="198.51.100.2").log_in(email)).status == (200 if email == OWNER else 401)
    app.clock.advance(360)
    assert (await late.log_in(email)).status == (200 if email == OWNER else 401)


@pytest.mark.parametrize(("failures", "minutes"), [(1, 6), (3, 18), (10, 60), (40, 57)])
def test_an_address_counts_as_new_again(clock: ManualClock, failures: int, minutes: int) -> None:
    """A failure expires after 6 minutes, ten of them after an hour, and at most ten are stored; until then the address
    does not count as new."""
    limits = SignInLimits()
    for number in range(failures):
        if number and not number % TRIES_A_MINUTE:
            clock.advance(60)
        limits.take(b"a", f"{number}@example.com", None, clock.monotonic_ns)
    clock.advance(minutes * 60 - 61)
    assert attempts(limits, clock, OWNER, range(60)) >= 60 + TRIES_AN_HOUR
    clock.advance(60)
    with pytest.raises(TooManyTries) as refused:
        limits.take(b"a", OWNER, None, clock.monotonic_ns)
    assert refused.value.wait_s == 1
    clock.advance(1)
    limits.take(b"a", OWNER, None, clock.monotonic_ns)


async def test_new_addresses_have_600_attempts_then_one_per_second(app: App) -> None:
    """Row 3."""
    await account(app)
    limits = app.application[AUTH]._sign_in
    for number in range(NEW_ADDRESS_TRIES):
        limits.take(b"bot %d" % number, OWNER, None, app.clock.monotonic_ns, version_of(app, OWNER))
    assert outcome(await PageClient(app, ip="198.51.100.1").log_in()) == (429, "1")
    app.clock.advance(1)
    assert (await PageClient(app, ip="198.51.100.1").log_in(password=WRONG)).status == 401
    assert outcome(await PageClient(app, ip="198.51.100.2").log_in()) == (429, "1")
    app.clock.advance(1)
    assert (await PageClient(app, ip="198.51.100.2").log_in()).status == 200


BOTS = 300


async def test_the_owner_logs_in_from_a_new_address_during_an_attack(app: App) -> None:
    """The owner logs in from a new address while 300 addresses use all their attempts for an hour; their number is that
    of docs/sign-in.md."""
    await account(app)
    limits, got = app.application[AUTH]._sign_in, 0
    for minute in range(60):
        got += attempts(limits, app.clock, OWNER, range(BOTS), version_of(app, OWNER))
        if minute % 15 == 0:
            assert (await PageClient(app, ip=f"198.51.100.{minute}").log_in()).status == 200
        app.clock.advance(60)
    assert 9 * BOTS < got <= 10 * BOTS + 2 * TRIES_AN_HOUR


@pytest.mark.parametrize("bots", [1, 5_000])
def test_attempts_of_an_attacker_with_many_addresses(clock: ManualClock, bots: int) -> None:
    """10 attempts and then 10 per address and hour of one account, at most 3,600 per hour and 600 once."""
    limits, hours = SignInLimits(), 2
    got = 0
    for _ in range(10 * hours):
        got += attempts(limits, clock, OWNER, range(bots))
        clock.advance(360)
    max_attempts = min(10 * bots * hours, 3_600 * hours + NEW_ADDRESS_TRIES) + (1 + hours) * TRIES_AN_HOUR
    assert max_attempts * 0.4 < got <= max_attempts


# --- a new password


async def set_password_by_page(app: App, browser: PageClient, command: Command) -> None:
    sent = {"current": PASSWORD, "new": "another horse battery"}
    assert (await browser("POST", "/api/account/password", sent)).status == 204


async def set_password_by_command_line(app: App, browser: PageClient, command: Command) -> None:
    words = ("account", "password", OWNER, "--password-stdin", "--db", str(app.db))
    done = await asyncio.to_thread(command, *words, stdin="another horse battery\n")
    assert done.returncode == 0, done.stderr
    await app.registry.refresh()


@pytest.mark.parametrize("set_password", [set_password_by_page, set_password_by_command_line])
async def test_a_new_password_resets_the_counts_of_an_account(app: App, command: Command, set_password: Revoke) -> None:
    """The remedy in docs/sign-in.md for an owner without a known browser: from a new address, and from one with a
    failure; counts of other accounts stay."""
    browser = await logged_in(app)
    attack(app)
    attack(app, INVENTED, first_bot=10_000)
    new, failed = PageClient(app, ip="198.51.100.1"), PageClient(app, ip="198.51.100.2")
    assert (await failed.log_in("elsewhere@example.com", WRONG)).status == 401
    for address in (new, failed):
        assert (await address.log_in()).status == 429
    await set_password(app, browser, command)
    for address in (new, failed):
        assert (await address.log_in(password=PASSWORD)).status == 401
        assert (await address.log_in(password="another horse battery")).status == 200
    assert (await PageClient(app, ip="198.51.100.3").log_in(INVENTED, WRONG)).status == 429


# --- the queue


def blocked_hashing(auth: Auth) -> threading.Event:
    """Block the hashing thread until the event is set."""
    free = threading.Event()
    auth._thread.submit(free.wait, 60)
    return free


def queued(auth: Auth, *, is_known: bool = False) -> int:
    """Return how many attempts wait for the turn of another one to end."""
    return len(auth._turns._waiting.get(is_known, ()))


async def fill_queue(app: App, auth: Auth, more: int = 0) -> tuple[threading.Event, "list[asyncio.Task[Answer]]"]:
    """Block the hashing thread, fill its queue and send more attempts; return when as many are refused."""
    free = blocked_hashing(auth)
    attempts = [
        asyncio.create_task(PageClient(app, ip=f"198.51.{number}.1").log_in(f"{number}@example.com", WRONG))
        for number in range(1 + MAX_WAITING + more)
    ]
    async with asyncio.timeout(30):
        while queued(auth) < MAX_WAITING or sum(attempt.done() for attempt in attempts) < more:
            await asyncio.sleep(0.005)
    return free, attempts


@pytest.mark.slow
async def test_a_full_queue_answers_503_and_counts_no_attempt(app: App) -> None:
    """Row 5: 503 with Retry-After 1, and the attempt is not counted; known browsers have a queue of their own."""
    browser, auth = await logged_in(app), app.application[AUTH]
    await browser("POST", "/api/account/logout")
    free, attempts = await fill_queue(app, auth, more=MAX_WAITING)
    try:
        refused = [attempt for attempt in attempts if attempt.done()]
        for answer in [await attempt for attempt in refused]:
            assert outcome(answer) == (503, "1")
            assert answer.json["error"]["code"] == "overloaded"
        known = asyncio.create_task(browser.log_in())
        async with asyncio.timeout(30):
            while not queued(auth, is_known=True):
                await asyncio.sleep(0.005)
        assert queued(auth) == MAX_WAITING
    finally:
        free.set()
    assert (await known).status == 200
    statuses = [(await attempt).status for attempt in attempts]
    assert sorted(statuses) == [401] * (1 + MAX_WAITING) + [503] * MAX_WAITING
    unknown = PageClient(app, ip=f"198.51.{statuses.index(503)}.1")
    for _ in range(TRIES_A_MINUTE):
        assert (await unknown.log_in(password=WRONG)).status == 401
    assert (await unknown.log_in()).status == 429


@pytest.mark.slow
async def test_a_full_queue_refuses_a_random_attempt(app: App) -> None:
    """Not the newest one: attempts that arrive while a flood keeps the queue full get a turn too."""
    await account(app)
    auth = app.application[AUTH]
    free, attempts = await fill_queue(app, auth)
    owners = [asyncio.create_task(PageClient(app, ip=f"192.0.2.{number}").log_in()) for number in range(MAX_WAITING)]
    try:
        async with asyncio.timeout(30):
            while sum(attempt.done() for attempt in (*attempts, *owners)) < MAX_WAITING:
                await asyncio.sleep(0.005)
    finally:
        free.set()
    assert {answer.status for answer in await asyncio.gather(*owners)} == {200, 503}
    assert {answer.status for answer in await asyncio.gather(*attempts)} == {401, 503}


@pytest.mark.slow
async def test_attempts_that_wait_do_not_wait_for_the_database(app: App) -> None:
    """The queue is before the connections that read: a flood that fills them is refused without a query."""
    await account(app)
    auth = app.application[AUTH]
    async with app.database.readers.held():
        attempts = [
            asyncio.create_task(PageClient(app, ip=f"198.51.{number}.1").log_in(INVENTED, WRONG))
            for number in range(3 * MAX_WAITING)
        ]
        async with asyncio.timeout(30):
            while sum(attempt.done() for attempt in attempts) < 2 * MAX_WAITING - 1:
                await asyncio.sleep(0.005)
        assert queued(auth) == MAX_WAITING
        assert app.database.readers.accounts.queue.waiting == 1
    statuses = sorted([answer.status for answer in await asyncio.gather(*attempts)])
    assert statuses == [401] * (1 + MAX_WAITING) + [503] * (2 * MAX_WAITING - 1)


# --- what an attacker learns


@pytest.mark.slow
async def test_responses_under_load_do_not_reveal_accounts(app: App) -> None:
    """An existing and an invented account get the same responses: from one address, from many, beside many other
    invented addresses, and with a full queue."""
    await account(app)
    auth = app.application[AUTH]
    seen: dict[str, list[Any]] = {OWNER: [], INVENTED: []}

    async def both(place: int, times: int = 1) -> None:
        for _ in range(times):
            for net, (email, answers) in enumerate(seen.items()):
                answer = await PageClient(app, ip=f"203.0.{net}.{place}").log_in(email, WRONG)
                answers.append((*outcome(answer), answer.body))

    await both(1, TRIES_A_MINUTE + 2)
    for number in range(2 * MAX_BUCKETS + 2):
        auth._sign_in.take(b"%d" % number, f"{number}@example.net", None, app.clock.monotonic_ns)
    await both(1, 2)
    app.clock.advance(60)
    await both(1, 3)
    await both(2, 3)
    for number, email in enumerate(seen):
        attack(app, email, first_bot=number * 10_000)
    await both(3, 2)
    app.clock.advance(2)
    await both(4, 2)
    assert seen[OWNER] == seen[INVENTED]
    assert {status for status, *_ in seen[OWNER]} == {401, 429}


@pytest.mark.slow
async def test_responses_of_a_full_queue_do_not_reveal_accounts(app: App) -> None:
    await account(app)
    free, attempts = await fill_queue(app, app.application[AUTH])
    sent = [
        asyncio.create_task(PageClient(app, ip=f"203.{net}.{place}.1").log_in(email, WRONG))
        for place in range(2 * MAX_WAITING)
        for net, email in enumerate((OWNER, INVENTED))
    ]
    try:
        async with asyncio.timeout(30):
            while sum(attempt.done() for attempt in (*attempts, *sent)) < len(sent):
                await asyncio.sleep(0.005)
    finally:
        free.set()
    await asyncio.gather(*attempts)
    answers = [(*outcome(answer), answer.body) for answer in await asyncio.gather(*sent)]
    assert {status for status, *_ in answers} == {401, 503}
    assert {*answers[::2]} == {*answers[1::2]}


def test_the_table_has_a_fixed_size(clock: ManualClock) -> None:
    buckets = HashedBuckets(10, 3_600_000_000_000)
    now_ns = clock.monotonic_ns()
    for _ in range(10):
        assert buckets.wait_s(b"a", now_ns) == 0
        buckets.take(b"a", now_ns)
    for number in range(20_000):
        buckets.take(b"%d" % number, now_ns)
    assert buckets.wait_s(b"a", now_ns) >= 360
    assert len(buckets._full_ns) == SLOTS
    buckets.give_back(b"a", now_ns)
    other = HashedBuckets(10, 3_600_000_000_000)
    assert [buckets._slot(b"%d" % n) for n in range(9)] != [other._slot(b"%d" % n) for n in range(9)]


def test_the_page_states_the_limits_of_the_code() -> None:
    page = (ROOT / "docs" / "sign-in.md").read_text()
    for stated in (
        f"{BROWSER_TRIES} attempts in 10 minutes per browser",
        f"{TRIES_A_MINUTE} attempts per minute from its address",
        f"{NEW_ADDRESS_TRIES} attempts in 10 minutes at the account",
        f"{TRIES_AN_HOUR} attempts per hour at the account",
        f"{NETWORK_SHARES[0]} times as many from its /56, and {NETWORK_SHARES[1]} times as many from its /48",
        f"more than {MAX_WAITING} attempts waiting",
    ):
        assert stated in page
