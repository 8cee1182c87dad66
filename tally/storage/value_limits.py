"""Limits per website and its day on new values, by field, and on the bytes of event_data.

Further new values are stored as `(other)`, further events without event_data.

A value is new if the website has never used it in that field (table field_value, which keeps every value once it was
accepted or imported). A website's usual pages are therefore never replaced, however many there are: only values that
appear for the first time count, by the day of arrival in website time. docs/reference/limits.md describes the rule for
owners.

How it works: `check` runs in the writer's transaction before labels are created, so a replaced value never reaches the
database. The values a website is known to use are kept in memory (bounded, started over when full): an event whose
values are all known costs one set lookup a field and no statement. Values that are not in memory are looked up in the
file. A value that is not there is new: it is added to the day's count in table new_value, in order of arrival. The
count is read and written within the transaction, so it is exact and survives restarts. Only events that will be stored
are checked. One client may use half of each limit; its use is kept in memory until the day has ended everywhere.

A property name of event_data is a value of the field `property`. If it is replaced, its value is kept under the name
`(other)`; of several in one event the first is kept.

The bytes of event_data are counted like the values of a field, all of them, since each event stores its own. What is
not stored adds no names of properties.
"""

import secrets
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from hashlib import blake2b
from itertools import islice
from operator import contains
from typing import Any, NamedTuple, Protocol

import orjson

from tally.events.channels import CHANNELS
from tally.events.dimensions import CHANNEL, EVENT_NAME, EXPERIMENT, FIELDS, GOAL, PROPERTY, VARIANT, channel_of
from tally.events.json_scalars import compact
from tally.events.validation import WITH_EXPERIMENT, Event
from tally.events.website import Website

OTHER = "(other)"
"""Stored in place of a new value beyond the limit."""
_TEXTS = {EVENT_NAME: "event_name", EXPERIMENT: "experiment", VARIANT: "variant", GOAL: "goal"}
BOUNDED = dict(enumerate(FIELDS)) | _TEXTS | {PROPERTY: "property"}
"""The names of the bounded fields by number: the dimensions first."""
EVENT_DATA = PROPERTY + 1
"""In table new_value: `used` is bytes of event_data, `events` those stored without it."""
# A long value costs as much disk as several: it counts once per 200 characters. Most paths are shorter.
CHARACTERS_A_VALUE = 200
# 60,000 values of about 100 bytes are 6 MB.
CACHE_SIZE = 60_000
# An empty website uses as much memory as this many values.
_WEBSITE_SIZE = len(BOUNDED)
_AT_ONCE = 100
# One client (an IPv4 address or an IPv6 /64) may use one part in so many of a limit: a flood of new values from one
# address leaves half of it to the others, and a server that sends the events of a whole app still has 5,000 a day.
CLIENTS = 2
# Half of a small limit would be met by an ordinary day of such a server.
MIN_SHARE = 100
# 10,000 shares of about 200 bytes are 2 MB.
MAX_SHARES = 10_000
_EPOCH = date(1970, 1, 1).toordinal()


_Share = tuple[bytes, int, int, int]
"""Key of a client's share of a limit: hash of the client, website, field, day."""


class Limits(NamedTuple):
    """New values per website, field and day: of the dimensions, and of names (events, experiments, properties);
    and bytes of event_data per website and day."""

    values: int = 10_000
    names: int = 1_000
    event_data: int = 200_000_000

    def of(self, field: int) -> int:
        """Return the limit of a field, by its number. All channels are within it: no client chooses them."""
        if field == EVENT_DATA:
            return self.event_data
        if field == CHANNEL:
            return max(self.values, len(CHANNELS))
        return self.values if field < EVENT_NAME else self.names

    def of_client(self, field: int) -> int:
        """Return the part of a field's limit that one client may use."""
        return max(self.of(field) // CLIENTS, MIN_SHARE)


class Valued(Protocol):
    """The parts of an event of tally/sqlite/decision.py that are read here."""

    @property
    def website(self) -> Website:
        """The website."""

    @property
    def dimensions(self) -> tuple[str, ...]:
        """The texts of the dimensions."""

    @property
    def event(self) -> Event:
        """The event."""


class Checked(NamedTuple):
    """A row as it is to be stored: its dimensions and its event, with `(other)` in place of values beyond the limit."""

    dimensions: tuple[str, ...]
    event: Event


class _Day(NamedTuple):
    """The used part of a field's limit on a day, and the number of events with a replaced value."""

    used: int
    events: int


class ValueLimits:
    """Decides which values are stored. Used by the writer's thread only."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        # Every client that sends event_data has a share of its bytes: these are not to displace those of new values.
        self._shares, self._data_shares = _Shares(), _Shares()
        self._known: dict[int, dict[int, set[str]]] = {}
        self._cached = 0
        # Events with a folded value since the start, by the field's number.
        self.folded: Counter[int] = Counter()

    def is_known(self, row: Valued) -> bool:
        """Return whether all values of a row are cached as used: 0.9 µs, and 0.7 µs more with event_data."""
        known, event = self._known.get(row.website.number), row.event
        if known is None or event.event_name not in known[EVENT_NAME]:
            return False
        if not all(map(contains, known.values(), row.dimensions)):
            return False
        if event.event_data is not None and not known[PROPERTY].issuperset(orjson.loads(event.event_data)):
            return False
        return event.type not in WITH_EXPERIMENT or (
            event.experiment in known[EXPERIMENT] and event.variant in known[VARIANT] and event.goal in known[GOAL]
        )

    def clear(self) -> None:
        """Clear the cache of known values, as after a failed transaction; the database still has them."""
        self._known, self._cached = {}, 0

    def count(self, check: "Check | None") -> None:
        """Count the replaced values of a committed transaction, and clear the cache if it is full."""
        if check is not None:
            for (_, field), events in check.events.items():
                self.folded[field] += events
            self._shares.keep(check.shares)
            self._data_shares.keep(check.data_shares)
        if self._cached > CACHE_SIZE:
            self.clear()

    def check(
        self,
        connection: sqlite3.Connection,
        day_of: Callable[[int], int],
        rows: Sequence[tuple[Valued, bytes]],
        replaced: Mapping[tuple[int, int], int],
        with_data: Sequence[tuple[Valued, bytes]],
    ) -> "Check":
        """Read rows that may hold values which are not known, and those that have event_data, each with their clients,
        in order of arrival. `day_of`: the day that it is now, by website.

        `replaced` counts events, by website and field, in which the caller has replaced a value by `(other)`.
        """
        check = Check(connection, day_of, self._limits, self._remember, self._shares, self._data_shares)
        check.events.update(replaced)
        check.limit_data(with_data)
        check.decide(rows, self._lookup)
        return check

    def _lookup(self, website: int) -> dict[int, set[str]]:
        known = self._known.get(website)
        if known is None:
            known = self._known[website] = {field: {"", OTHER} for field in BOUNDED}
            self._cached += _WEBSITE_SIZE
        return known

    def _remember(self, website: int, field: int, texts: Iterable[str]) -> None:
        """Cache values as known, except long ones, so that memory is bounded."""
        known = self._lookup(website)[field]
        before = len(known)
        known.update(text for text in texts if len(text) <= CHARACTERS_A_VALUE)
        self._cached += len(known) - before


class _Shares:
    """The part of the limits that each client has used on the current day; in memory, clients as keyed hashes."""

    def __init__(self) -> None:
        self._hash_key = secrets.token_bytes(16)
        self._newest_day = -1
        self._used: dict[_Share, int] = {}

    def hashed(self, client: bytes) -> bytes:
        return blake2b(client, digest_size=8, key=self._hash_key).digest()

    def used(self, share: _Share) -> int:
        return self._used.get(share, 0)

    def keep(self, used: Mapping[_Share, int]) -> None:
        """Note what a committed transaction has used; those that have not changed for longest are dropped.

        Those of days before yesterday too: days of websites begin up to 26 hours apart.
        """
        newest_day = max((share[3] for share in used), default=-1)
        if newest_day > self._newest_day:
            self._newest_day = newest_day
            self._used = {share: now for share, now in self._used.items() if share[3] >= newest_day - 2}
        for share, now in used.items():
            self._used.pop(share, None)
            self._used[share] = now
        for share in list(islice(self._used, max(0, len(self._used) - MAX_SHARES))):
            del self._used[share]


class Check:
    """The check of one group: of rows that have values that are not cached, and of those with event_data."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        day_of: Callable[[int], int],
        limits: Limits,
        remember: Callable[[int, int, Iterable[str]], None],
        shares: _Shares,
        data_shares: _Shares,
    ) -> None:
        self._connection, self._day_of, self._limits, self._remember = connection, day_of, limits, remember
        self._accepted: dict[tuple[int, int], list[str]] = {}
        self._folded: dict[tuple[int, int], set[str]] = {}
        self._used: dict[tuple[int, int], _Day] = {}
        self._shares, self._data_shares = shares, data_shares
        # Rows whose event_data is not stored, by id().
        self._without_data: set[int] = set()
        # What clients will have used of the day's limits once the transaction is committed.
        self.shares: dict[_Share, int] = {}
        self.data_shares: dict[_Share, int] = {}
        self.events: Counter[tuple[int, int]] = Counter()

    def limit_data(self, rows: Sequence[tuple[Valued, bytes]]) -> None:
        """Decide which events are stored without event_data. What is full stays full for the day."""
        limit, of_client = self._limits.of(EVENT_DATA), self._limits.of_client(EVENT_DATA)
        hashes: dict[bytes, bytes] = {}
        used: dict[int, int] = {}
        for row, client in rows if limit else ():
            website, data = row.website.number, row.event.event_data or ""
            if website not in used:
                day = self._used[website, EVENT_DATA] = self._stored(website, EVENT_DATA)
                used[website] = day.used
            if client not in hashes:
                hashes[client] = self._data_shares.hashed(client)
            share = hashes[client], website, EVENT_DATA, self._day_of(website)
            size = len(data) if data.isascii() else len(data.encode())
            of_all = used[website] + size
            client_bytes = self.data_shares.get(share, self._data_shares.used(share)) + size
            if client_bytes > of_client:
                client_bytes = of_client
            elif of_all > limit:
                client_bytes, used[website] = client_bytes - size, limit
            else:
                self.data_shares[share], used[website] = client_bytes, of_all
                continue
            self.data_shares[share] = client_bytes
            self._without_data.add(id(row))
            self.events[website, EVENT_DATA] += 1
        for website, bytes_used in used.items():
            self._used[website, EVENT_DATA] = self._used[website, EVENT_DATA]._replace(used=bytes_used)

    def _stored(self, website: int, field: int) -> _Day:
        row = self._connection.execute(
            "/* value_limits.day */ select used, events from new_value where website = ? and day = ? and field = ?",
            (website, self._day_of(website), field),
        ).fetchone()
        return _Day(*row) if row else _Day(0, 0)

    def lacks_data(self, row: Valued) -> bool:
        """Return whether a row, one of those that were checked, is stored without its event_data."""
        return id(row) in self._without_data

    def _event_of(self, row: Valued) -> Event:
        return row.event._replace(event_data=None) if id(row) in self._without_data else row.event

    def decide(self, rows: Sequence[tuple[Valued, bytes]], known_of: Callable[[int], dict[int, set[str]]]) -> None:
        """Decide on all values of rows and their clients that are not known in memory."""
        missing: dict[tuple[int, int], dict[str, dict[bytes, None]]] = {}
        for row, client in rows:
            website, hashed = row.website.number, self._shares.hashed(client)
            known = known_of(website)
            for field, text in _values(row.dimensions, self._event_of(row)):
                if text not in known[field]:
                    missing.setdefault((website, field), {}).setdefault(text, {})[hashed] = None
        numbers = dict(_numbers(self._connection, {text for texts in missing.values() for text in texts}))
        for (website, field), texts in missing.items():
            self._decide(website, field, texts, numbers)

    def _decide(self, website: int, field: int, texts: dict[str, dict[bytes, None]], numbers: dict[str, int]) -> None:
        """Split a field's values into those used before, those accepted, and those replaced."""
        used = _used_before(self._connection, website, field, [numbers[text] for text in texts if text in numbers])
        self._remember(website, field, (text for text in texts if numbers.get(text) in used))
        new = [text for text in texts if numbers.get(text) not in used]
        if not new:
            return
        place, limit = (website, field), self._limits.of(field)
        before = self._stored(website, field)
        taken, accepted = before.used, list[str]()
        for text in new:
            cost = 1 + len(text) // (CHARACTERS_A_VALUE + 1)
            share = self._share_with_room(place, texts[text], cost)
            if share is None:
                continue
            # What is full stays full for the day: short values are not to slip in behind a long one that had no room.
            if taken + cost > limit:
                taken = limit
                break
            taken += cost
            self.shares[share] = self._used_of(share) + cost
            accepted.append(text)
        self._used[place] = before._replace(used=taken)
        self._accepted[place], self._folded[place] = accepted, set(new).difference(accepted)
        self._remember(website, field, accepted)

    def _share_with_room(self, place: tuple[int, int], clients: Iterable[bytes], cost: int) -> _Share | None:
        """Return the share of the first client with room for a value; a full share stays full."""
        limit = self._limits.of_client(place[1])
        for client in clients:
            share = (client, *place, self._day_of(place[0]))
            if self._used_of(share) + cost <= limit:
                return share
            self.shares[share] = limit
        return None

    def _used_of(self, share: _Share) -> int:
        used = self.shares.get(share)
        return self._shares.used(share) if used is None else used

    @property
    def folds(self) -> bool:
        """Return whether any value is replaced or omitted."""
        return bool(self._without_data) or any(self._folded.values())

    def checked(self, row: Valued) -> Checked:
        """Return the row to store, and count it if a value of it is replaced."""
        website, dimensions, event = row.website.number, row.dimensions, self._event_of(row)
        folded: dict[int, set[str]] = {}
        for field in {field for field, text in _values(dimensions, event) if text in self._of(website, field)}:
            folded[field] = self._of(website, field)
            self.events[website, field] += 1
        if not folded:
            return Checked(dimensions, event)
        texts = [OTHER if text in folded.get(field, ()) else text for field, text in enumerate(dimensions)]
        # It follows from what is stored.
        texts[CHANNEL] = channel_of(texts)
        channels = self._accepted.setdefault((website, CHANNEL), [])
        if texts[CHANNEL] not in channels:
            channels.append(texts[CHANNEL])
        changed: dict[str, Any] = {
            name: OTHER for field, name in _TEXTS.items() if getattr(event, name) in folded.get(field, ())
        }
        if PROPERTY in folded and event.event_data is not None:
            changed["event_data"] = _renamed(event.event_data, folded[PROPERTY])
        return Checked(tuple(texts), event._replace(**changed))

    def _of(self, website: int, field: int) -> set[str]:
        return self._folded.get((website, field), set())

    def store(self, numbers_of: Callable[[set[str]], Callable[[str], int]]) -> None:
        """Store the accepted values and the counts of the day, in the transaction that stores the rows."""
        number = numbers_of({text for texts in self._accepted.values() for text in texts})
        rows = [(website, field, number(text)) for (website, field), texts in self._accepted.items() for text in texts]
        add_values(self._connection, rows)
        for website, field in self.events.keys() - self._used.keys():
            self._used[website, field] = self._stored(website, field)
        self._connection.executemany(
            "/* value_limits.count */ insert or replace into new_value (website, day, field, used, events)"
            " values (?, ?, ?, ?, ?)",
            [
                (website, self._day_of(website), field, used.used, used.events + self.events[website, field])
                for (website, field), used in self._used.items()
            ],
        )


def _values(dimensions: tuple[str, ...], event: Event) -> Iterator[tuple[int, str]]:
    """Yield (field, value) of every limited value of an event."""
    yield from enumerate(dimensions)
    yield EVENT_NAME, event.event_name
    if event.type in WITH_EXPERIMENT:
        yield EXPERIMENT, event.experiment
        yield VARIANT, event.variant
        yield GOAL, event.goal
    if event.event_data is not None:
        for name in orjson.loads(event.event_data):
            yield PROPERTY, name


def _renamed(event_data: str, folded: set[str]) -> str:
    renamed: dict[str, Any] = {}
    for name, value in orjson.loads(event_data).items():
        renamed.setdefault(OTHER if name in folded else name, value)
    return compact(renamed).decode()


def _numbers(connection: sqlite3.Connection, texts: set[str]) -> Iterator[tuple[str, int]]:
    """Return the labels of those texts that are stored."""
    for some in _batches(list(texts)):
        marks = ", ".join("?" * len(some))
        statement = f"/* value_limits.labels */ select text, id from label where text in ({marks})"
        yield from connection.execute(statement, some)


def _used_before(connection: sqlite3.Connection, website: int, field: int, numbers: list[int]) -> set[int | None]:
    used: set[int | None] = set()
    for some in _batches(numbers):
        marks = ", ".join("?" * len(some))
        rows = connection.execute(
            "/* value_limits.used */ select value from field_value"
            f" where website = ? and field = ? and value in ({marks})",
            (website, field, *some),
        )
        used.update(value for (value,) in rows)
    return used


def _batches(items: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for start in range(0, len(items), _AT_ONCE):
        yield items[start : start + _AT_ONCE]


def is_used(connection: sqlite3.Connection, website: int, field: int, number: int) -> bool:
    """Return whether a website has used a value, given by its label, in a field."""
    return bool(_used_before(connection, website, field, [number]))


def add_values(connection: sqlite3.Connection, rows: Iterable[tuple[int, int, int]]) -> None:
    """Store that websites use values: (website, field, label)."""
    connection.executemany(
        "/* value_limits.add */ insert or ignore into field_value (website, field, value) values (?, ?, ?)", rows
    )


def delete_expired(connection: sqlite3.Connection, website: int, day: int) -> int:
    """Delete a website's counts before a day and return their number: at most one row per field and day."""
    return connection.execute(
        "/* value_limits.delete */ delete from new_value where website = ? and day < ?", (website, day)
    ).rowcount


def folded_row(day: int, field: int, used: int, events: int) -> dict[str, Any]:
    """A row of `folded` as the read API shows it."""
    return {
        "day": date.fromordinal(_EPOCH + day).isoformat(),
        "field": BOUNDED[field],
        "new_values": used,
        "events": events,
    }


def folded(
    connection: sqlite3.Connection, website: int, first_day: int, end_day: int
) -> list[tuple[int, int, int, int]]:
    """(day, field, new values stored, events with a folded value) where any was folded, newest day first.

    Events without event_data are among the warnings (tally/ingest/rejected_events.py).

    Days are the website's days since 1970 in [first_day, end_day). A value of more than 200 characters counts as
    several.
    """
    return connection.execute(
        "/* value_limits.folded */ select day, field, used, events from new_value"
        " where website = ? and day >= ? and day < ? and field != ? and events > 0"
        " order by day desc, events desc, field",
        (website, first_day, end_day, EVENT_DATA),
    ).fetchall()
