"""Rate limits of attempts of passwords and of codes of a second factor.

The rules are a table in docs/sign-in.md; each row is tested.

Failed tries are counted; one that was right, or that the server could not check, is given back. A browser that the
account was opened from before (a session, or a device cookie) has a count of its own and no other: whatever others
do, they do not lock its owner out. Other browsers are counted by address, and by account in two buckets: one of
addresses that have not failed lately and one of those that have. So a few addresses that guess are slowed down soon,
and the owner at a new address still gets a try beside several hundred of them. An IPv6 /64 counts as an address; its
/56 and its /48, which one person can have, are counted beside it.

Counts by account are in tables of a fixed size, found by a keyed hash of the email address: an address that has an
account and one that has none are treated alike, and no flood of invented ones takes memory or evicts others.
The hash covers a version of the stored password, so these counts start anew when a new password is set.

Codes are counted once the password was right, by browser, and for all browsers together that are not known: neither
a stranger nor the holder of the password keeps the person out of a known browser.

All of it is in memory, used by the event loop alone; the clock is passed in.
"""

from collections.abc import Callable
from typing import NamedTuple

from tally.rate_limit import MINUTE_NS, Buckets, HashedBuckets

HOUR_NS = 60 * MINUTE_NS
# More than a person mistypes in a minute.
TRIES_A_MINUTE = 10
# A browser that is known: ten at once, then one a minute, which is 1,440 a day with a stolen cookie.
BROWSER_TRIES, BROWSER_SPAN_NS = 10, 10 * MINUTE_NS
# Of one account, from all addresses that have failed within the hour: the 1,000 most used passwords take four days.
TRIES_AN_HOUR = 10
# The /56 and the /48 of an IPv6 address have several times as much as an address: many providers give out a /56 to a
# household, and a /48 to any customer that asks for one. A /48 has fewer at once than may wait (MAX_WAITING of
# tally/api/auth.py), so that it does not fill the queue.
NETWORK_SHARES = (2, 3)
# Of one account, from all other addresses: as many at once as a botnet of a few hundred has addresses, so that it does
# not keep out the owner; then one a second, which bounds one of any size to 3,600 an hour.
NEW_ADDRESS_TRIES, NEW_ADDRESS_SPAN_NS = 600, 600 * 1_000_000_000

# Of one person, in a known browser, and again in all others together: codes of three steps count, so that 5 in 15
# minutes find one in a day with a chance of 0.15 percent.
CODE_TRIES, RECOVERY_CODE_TRIES, CODE_SPAN_NS = 5, 3, 15 * MINUTE_NS


Counts = list[tuple[Buckets | HashedBuckets, bytes]]
"""What a try is counted in: buckets and the key in them."""


class Try(NamedTuple):
    """A try that was counted. `is_known`: the browser was; `give_back` takes the count back."""

    is_known: bool
    give_back: Callable[[], None]


class TooManyTries(Exception):
    """The attempt is refused for a number of seconds."""

    def __init__(self, wait_s: int) -> None:
        super().__init__(wait_s)
        self.wait_s = wait_s


class SignInLimits:
    """Counts of failed attempts."""

    def __init__(self) -> None:
        self._addresses = Buckets(TRIES_A_MINUTE)
        # An address that has failed is a new one again when its bucket is full: 6 minutes a failure, an hour at most.
        self._failures = Buckets(TRIES_AN_HOUR, span_ns=HOUR_NS)
        # The same of wider networks, which have failed when their bucket is empty.
        self._networks = [Buckets(TRIES_A_MINUTE * share) for share in NETWORK_SHARES]
        self._network_failures = [Buckets(TRIES_AN_HOUR * share, span_ns=HOUR_NS) for share in NETWORK_SHARES]
        self._browsers = Buckets(BROWSER_TRIES, span_ns=BROWSER_SPAN_NS)
        self._by_known_addresses = HashedBuckets(TRIES_AN_HOUR, span_ns=HOUR_NS)
        self._by_new_addresses = HashedBuckets(NEW_ADDRESS_TRIES, span_ns=NEW_ADDRESS_SPAN_NS)

    def take(
        self,
        address: bytes,
        email: str | None,
        browser: bytes | None,
        clock_ns: Callable[[], int],
        password_version: bytes = b"",
        networks: tuple[bytes, ...] = (),
    ) -> Try:
        """Count a try before its work begins, so that none slips in between. Raises TooManyTries.

        `email`: whose password it is of; None for another secret. `browser`: the session or device that vouches for
        the browser, if one does. `password_version`: differs between the passwords that an account has had; empty for
        an address without an account. `networks`: the wider networks of the address, one for each of NETWORK_SHARES, or
        none.
        """
        now_ns = clock_ns()
        if browser is not None:
            counts: Counts = [(self._browsers, browser)]
            wait_s = self._browsers.wait_s(browser, now_ns)
        else:
            counts, wait_s = self._unknown(address, networks, email, password_version, now_ns)
        if wait_s:
            raise TooManyTries(wait_s)
        for buckets, key in counts:
            buckets.take(key, now_ns)

        def give_back() -> None:
            for buckets, key in counts:
                buckets.give_back(key, clock_ns())

        return Try(browser is not None, give_back)

    def _unknown(
        self, address: bytes, networks: tuple[bytes, ...], email: str | None, password_version: bytes, now_ns: int
    ) -> tuple[Counts, int]:
        """Return what a try of an unknown browser counts against, and how long it has to wait."""
        counts: Counts = [(self._addresses, address), *zip(self._networks, networks, strict=False)]
        wait_s = max(buckets.wait_s(key, now_ns) for buckets, key in counts)
        if email is None:
            return counts, wait_s
        # The version is last and of one length where there is one: no email address makes up another's key.
        whose = email.lower().encode("utf-8", "surrogatepass") + b"\0" + password_version
        failures: Counts = [(self._failures, address), *zip(self._network_failures, networks, strict=False)]
        failed = [buckets.wait_s(key, now_ns) for buckets, key in failures]
        new_in_s = max(self._failures.full_in_s(address, now_ns), *failed)
        of_account = self._by_known_addresses if new_in_s else self._by_new_addresses
        counts.append((of_account, whose))
        account_wait_s = of_account.wait_s(whose, now_ns)
        if new_in_s:
            # As a new address it may try again sooner.
            account_wait_s = min(account_wait_s, new_in_s)
        counts += [count for count, is_empty in zip(failures, failed, strict=True) if not is_empty]
        return counts, max(wait_s, account_wait_s)


class CodeLimits:
    """Counts of failed codes of second factors, after a right password."""

    def __init__(self) -> None:
        # By person, and by known browser; those of recovery codes apart.
        self._codes = Buckets(CODE_TRIES, span_ns=CODE_SPAN_NS)
        self._recovery_codes = Buckets(RECOVERY_CODE_TRIES, span_ns=CODE_SPAN_NS)

    def take(self, person: int, browser: bytes | None, is_recovery: bool, clock_ns: Callable[[], int]) -> Try:
        """Count a try before the code is checked. Raises TooManyTries."""
        buckets = self._recovery_codes if is_recovery else self._codes
        key = person if browser is None else browser
        wait_s = buckets.wait_s(key, clock_ns())
        if wait_s:
            raise TooManyTries(wait_s)
        buckets.take(key, clock_ns())
        return Try(browser is not None, lambda: buckets.give_back(key, clock_ns()))
