"""Counts of rejected events: how many events of a website were not stored, when and why, with a few samples.

Events that are stored without a field that broke its rule are counted beside them, by codes of their own (WARNINGS).

An event of a known website is counted each time it is rejected, in the quarter hour of its arrival, so that the counts
of a day in any time zone are a sum. Requests without a known website (an unknown id, a body that is not JSON, a client
over its rate limit before the body is read) are counted for the whole server, by code, in `requests`.

The event loop counts in a dict. Once a second the writer adds the counts to the database in a transaction of its own.
If the process is killed, the counts of about a second are lost; a normal shutdown writes them. While the database
cannot be written, counts stay in memory. If a commit fails on disk, the counts of that second may be added twice.

Random website ids and hosts add no rows. A sample has the time to the second, type, field, the host of a refused page
or referrer, and the crawler's name from a fixed list; never an address, a User-Agent, a session_id, a path or a value.
The newest ten different samples of each website and reason are kept for 30 days, counts for 400 days.
"""

import asyncio
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from ipaddress import ip_address
from typing import NamedTuple, TypeVar

from tally.accounts.websites import day_offset_ms, day_offsets_ms
from tally.clock import Clock
from tally.engine.values import Span
from tally.events.sender import Sender
from tally.events.urls import UTM_FIELDS
from tally.events.validation import FLAT, RULES, TYPE_NAMES
from tally.events.website import Website
from tally.ingest.refused_origins import RefusedOrigins
from tally.storage import crawler_days, value_limits
from tally.storage.connections import Thread
from tally.storage.database import transaction
from tally.timestamps import DAY_MS, QUARTER_MS

T = TypeVar("T")
W = TypeVar("W")

REASONS: tuple[tuple[str, str], ...] = (
    ("crawler", "crawler"),
    ("origin_not_allowed", "origin"),
    ("rate_limited", "rate"),
    ("monthly_limit_reached", "quota"),
    ("timestamp_too_old", "too_late"),
    ("timestamp_in_future", "invalid"),
    ("invalid_type", "invalid"),
    ("missing_field", "invalid"),
    ("invalid_field", "invalid"),
    ("invalid_url", "invalid"),
    ("invalid_event_data", "invalid"),
    ("event_data_too_large", "invalid"),
    ("no_assignment", "invalid"),
    ("overloaded", "unavailable"),
    ("storage_unavailable", "unavailable"),
    ("excluded_address", "excluded"),
    ("excluded_country", "excluded"),
    ("excluded_page", "excluded"),
    ("excluded_hostname", "excluded"),
    ("without_referrer", "incomplete"),
    ("without_query", "incomplete"),
    ("without_language", "incomplete"),
    ("without_device", "incomplete"),
    ("without_browser", "incomplete"),
    ("without_os", "incomplete"),
    ("without_os_version", "incomplete"),
    ("without_platform", "incomplete"),
    ("without_app_version", "incomplete"),
    ("value_cut", "incomplete"),
    ("without_event_data", "incomplete"),
    ("without_title", "incomplete"),
    ("referrer_spam", "excluded"),
    ("datacenter", "excluded"),
)
"""Code in the response, and the reason that it belongs to. The place is its number in the database, so new ones go to
the end."""
WARNINGS = frozenset(code for code, reason in REASONS if reason == "incomplete")
"""Codes of events that are stored, but without a field or with one that is cut."""
NUMBER_OF = {code: number for number, (code, _) in enumerate(REASONS)}
NOT_FAULTS = frozenset(code for code, reason in REASONS if reason in ("crawler", "excluded"))
"""Codes of events without a fault that are not to be counted: answered 202, so that clients do not send them again."""
SAMPLES_KEPT = 10
# A year, and the days that are compared with it.
KEPT_DAYS = 400
SAMPLES_KEPT_DAYS = 30
# Counts (website, reason, quarter-hour) in memory, 10 MB; reached only after the disk has been full for long.
MAX_PENDING = 50_000
# Counts of one transaction, under 20 ms of the writer's time; and samples that are written in a second.
MAX_STEP_COUNTS = 1_000
MAX_STEP_SAMPLES = 500
# Events of a second that are considered as samples, for each website and reason.
MAX_CANDIDATES = 20
_ROWS_A_STEP = 500
_EXPIRY_INTERVAL_NS = 3_600_000_000_000
_FIELDS = frozenset(
    (
        *("type", "website_id", "timestamp", "age_ms", *UTM_FIELDS),
        *(field for names in (*RULES.values(), *FLAT.values()) for field in names),
    )
)

Source = tuple[Website | None, int | None]
"""An item's website and the number of its type, None where unknown."""


class RejectedExample(NamedTuple):
    """A rejected event without personal data. `detail`: the host of the page or the referrer, or the crawler's name; ""
    where unset."""

    code: str
    time_ms: int
    type: str | None
    field: str
    detail: str


class Folded(NamedTuple):
    """How many values of a field were new on a day (ISO date), and events stored with `(other)` instead of one."""

    day: str
    field: str
    new_values: int
    events: int


class Rejected(NamedTuple):
    """Rejected events of each day by error code; examples and folded values, newest first."""

    days: list[dict[str, int]]
    examples: list[RejectedExample]
    folded: list[Folded]


class Sample(NamedTuple):
    """A sample: the number of the type (None where unknown), the field at fault or "", and the host of the refused page
    or referrer, the crawler's name or ""."""

    type: int | None
    field: str
    detail: str


class Pending(NamedTuple):
    """What one transaction writes: events by (website, quarter-hour, reason), and samples by (website, reason), newest
    last, each with its time in milliseconds, rounded down to the second."""

    counts: dict[tuple[int, int, int], int]
    samples: dict[tuple[int, int], dict[Sample, int]]


class RejectedEvents:
    """The counts since the last write. Used by the event loop alone; no await stands between check and change."""

    def __init__(self, clock: Clock) -> None:
        # Since the start, by code: events of websites, and requests that were refused whole.
        self.events: Counter[str] = Counter()
        self.requests: Counter[str] = Counter()
        # Events that were not counted for their website, because MAX_PENDING was reached.
        self.uncounted = 0
        self._counts: dict[tuple[int, int, int], int] = {}
        self._samples: dict[tuple[int, int], dict[Sample, int]] = {}
        self._looks: Counter[tuple[int, int]] = Counter()
        self._versions: dict[int, int] = {}
        self._is_writing = asyncio.Lock()
        self.origins = RefusedOrigins()
        self._clock = clock
        self._last_expiry_ns = clock.monotonic_ns() - _EXPIRY_INTERVAL_NS

    def version_of(self, website: int) -> int:
        """Return another value after every change of a website's stored counts."""
        return self._versions.get(website, 0)

    def note(self, source: Source, code: str, field: str, sender: Sender, now_ms: int, detail: str = "") -> None:
        """Count a rejected event or a warning; without a website, or with a code that is not in REASONS, neither.

        `detail`: of the sample, where it does not follow from the sender.
        """
        website, type_ = source
        reason = NUMBER_OF.get(code)
        if reason is None or website is None:
            return
        self.events[code] += 1
        if code == "origin_not_allowed" and sender.page is not None:
            self.origins.record(website.number, sender.page.origin, sender.client.key, now_ms)
        key = (website.number, now_ms // QUARTER_MS, reason)
        known = self._counts.get(key)
        if known is None and len(self._counts) >= MAX_PENDING:
            self.uncounted += 1
            return
        self._counts[key] = (known or 0) + 1
        # More candidates would cost more than the counting itself in a flood.
        place = website.number, reason
        looks = self._looks[place]
        if looks < MAX_CANDIDATES and (looks or len(self._looks) < MAX_STEP_SAMPLES // SAMPLES_KEPT):
            self._looks[place] += 1
            self._keep(place, _sample(type_, code, field, sender, detail), now_ms)

    def _keep(self, place: tuple[int, int], sample: Sample, now_ms: int) -> None:
        kept = self._samples.setdefault(place, {})
        kept.pop(sample, None)
        if len(kept) < SAMPLES_KEPT:
            # Rounded to the second, so that a sample cannot be matched with a stored event by its exact time.
            kept[sample] = now_ms // 1000 * 1000

    async def write(self, writer: Thread) -> None:
        """Add the counts to the file. Raises sqlite3.Error; the counts are then kept for the next time.

        Not cancelled with its caller: a step that was handed to the writer must not be counted again.
        """
        await asyncio.shield(asyncio.ensure_future(self._write(writer)))

    async def _write(self, writer: Thread) -> None:
        async with self._is_writing:
            # Write only what was pending at the start: under a flood the loop would never end.
            for _ in range(-(-len(self._counts) // MAX_STEP_COUNTS)):
                pending = self._taken()
                try:
                    await writer.run(partial(_in_transaction, add, pending))
                except BaseException:
                    self._take_back(pending)
                    raise
                self.have_changed({website for website, _, _ in pending.counts})
            now_ns = self._clock.monotonic_ns()
            if now_ns - self._last_expiry_ns >= _EXPIRY_INTERVAL_NS:
                # One step a second until nothing is left, then again after an hour.
                changed = await writer.run(partial(_in_transaction, delete_expired, self._clock.deletion_time_ms()))
                self.have_changed(changed)
                if not changed:
                    self._last_expiry_ns = now_ns

    def _taken(self) -> Pending:
        counts, samples = self._counts, self._samples
        self._samples, self._looks = {}, Counter()
        if len(counts) > MAX_STEP_COUNTS:
            some = list(counts.items())
            counts, self._counts = dict(some[:MAX_STEP_COUNTS]), dict(some[MAX_STEP_COUNTS:])
        else:
            self._counts = {}
        return Pending(counts, samples)

    def _take_back(self, pending: Pending) -> None:
        for key, events in pending.counts.items():
            self._counts[key] = self._counts.get(key, 0) + events
        for place, samples in pending.samples.items():
            both = samples | self._samples.get(place, {})
            self._samples[place] = dict(sorted(both.items(), key=lambda pair: pair[1])[-SAMPLES_KEPT:])

    def have_changed(self, websites: Iterable[int]) -> None:
        """Record that the stored counts of websites have changed, or how many of their values were folded."""
        for website in websites:
            self._versions[website] = self._versions.get(website, 0) + 1


def _sample(type_: int | None, code: str, field: str, sender: Sender, detail: str = "") -> Sample:
    if code == "origin_not_allowed":
        detail = _shown_host(sender.page.host if sender.page else "")
    return Sample(type_, field if field in _FIELDS else "", detail)


def _shown_host(host: str) -> str:
    """Return a page's host; an address is replaced, since it may be a person's."""
    try:
        ip_address(host.strip("[]"))
    except ValueError:
        return host
    return "ip-address"


# --- on the writer's thread


def _in_transaction(step: Callable[[sqlite3.Connection, W], T], what: W, connection: sqlite3.Connection) -> T:
    with transaction(connection):
        return step(connection, what)


def add(connection: sqlite3.Connection, pending: Pending) -> None:
    """Add counts and samples of the websites that still exist."""
    connection.executemany(
        "/* rejected_events.add */ insert into rejected_event (website, quarter, reason, events)"
        " select ?1, ?2, ?3, ?4"
        " where exists (select 1 from website where number = ?1)"
        " on conflict do update set events = events + excluded.events",
        [(*key, events) for key, events in pending.counts.items()],
    )
    for (website, reason), samples in pending.samples.items():
        connection.executemany(
            "/* rejected_events.again */ delete from rejected_sample"
            " where website = ? and reason = ? and type is ? and field = ? and detail = ?",
            [(website, reason, *sample) for sample in samples],
        )
        connection.executemany(
            "/* rejected_events.sample */ insert into rejected_sample"
            " (website, reason, id, arrived_ms, type, field, detail)"
            " select ?1, ?2, 1 + coalesce((select max(id) from rejected_sample"
            " where website = ?1 and reason = ?2), 0), ?3, ?4, ?5, ?6"
            " where exists (select 1 from website where number = ?1)",
            [(website, reason, ms, *sample) for sample, ms in samples.items()],
        )
        connection.execute(
            "/* rejected_events.newest */ delete from rejected_sample where website = ?1 and reason = ?2 and id <="
            " (select id from rejected_sample where website = ?1 and reason = ?2 order by id desc limit 1 offset ?3)",
            (website, reason, SAMPLES_KEPT),
        )


def delete_expired(connection: sqlite3.Connection, deletion_time_ms: int) -> set[int]:
    """Delete a limited number of expired rows by `Clock.deletion_time_ms`; return the websites that had any."""
    quarter, sample_ms = (
        (deletion_time_ms - KEPT_DAYS * DAY_MS) // QUARTER_MS,
        deletion_time_ms - SAMPLES_KEPT_DAYS * DAY_MS,
    )
    changed: set[int] = set()
    left = _ROWS_A_STEP
    for website, offset_ms in day_offsets_ms(connection).items():
        old = connection.execute(
            "/* rejected_events.old */ select website, quarter, reason from rejected_event"
            " where website = ? and quarter < ? limit ?",
            (website, quarter, left),
        ).fetchall()
        connection.executemany(
            "/* rejected_events.delete */ delete from rejected_event where website = ? and quarter = ? and reason = ?",
            old,
        )
        samples = connection.execute(
            "/* rejected_events.delete_samples */ delete from rejected_sample where website = ? and arrived_ms < ?",
            (website, sample_ms),
        ).rowcount
        left -= len(old)
        today = (deletion_time_ms + offset_ms) // DAY_MS
        samples += value_limits.delete_expired(connection, website, today - KEPT_DAYS)
        samples += crawler_days.delete_expired(connection, website, today - crawler_days.KEPT_DAYS)
        if old or samples:
            changed.add(website)
    return changed


# --- reading


def rejected(connection: sqlite3.Connection, website: int, days: Sequence[Span]) -> Rejected:
    """Return the rejected events of each of some days, which tile a range, examples and folded values."""
    from_ms, to_ms, offset_ms = days[0][0], days[-1][1], day_offset_ms(connection, website)
    of_website = (from_ms + offset_ms) // DAY_MS, -(-(to_ms + offset_ms) // DAY_MS)
    folded = value_limits.folded(connection, website, *of_website)
    return Rejected(
        [
            {REASONS[reason][0]: counts[reason] for reason in sorted(counts)}
            for counts in _by_day(connection, website, days)
        ],
        [
            RejectedExample(REASONS[reason][0], ms, None if type_ is None else TYPE_NAMES[type_], field, detail)
            for reason, ms, (type_, field, detail) in samples(connection, website, from_ms, to_ms)
        ],
        [Folded(**value_limits.folded_row(*row)) for row in folded],
    )


def _by_day(connection: sqlite3.Connection, website: int, edges: Sequence[Span]) -> list[dict[int, int]]:
    """For each span [from_ms, to_ms), whose ends are full quarters: events by the reason's number."""
    first, last = edges[0][0] // QUARTER_MS, edges[-1][1] // QUARTER_MS
    # The range may be decades: only the part that has rows is counted.
    oldest = connection.execute(
        "/* rejected_events.oldest */ select quarter from rejected_event where website = ? and quarter >= ?"
        " and quarter < ?"
        " order by quarter limit 1",
        (website, first, last),
    ).fetchone()
    newest = connection.execute(
        "/* rejected_events.latest */ select quarter from rejected_event where website = ? and quarter >= ?"
        " and quarter < ?"
        " order by quarter desc limit 1",
        (website, first, last),
    ).fetchone()
    if oldest is None:
        return [{} for _ in edges]
    quarters = [(from_ms // QUARTER_MS, to_ms // QUARTER_MS) for from_ms, to_ms in edges]
    return [
        _counts(connection, website, begin, end) if begin <= newest[0] and end > oldest[0] else {}
        for begin, end in quarters
    ]


def _counts(connection: sqlite3.Connection, website: int, first: int, end: int) -> dict[int, int]:
    rows = connection.execute(
        "/* rejected_events.day */ select reason, sum(events) from rejected_event"
        " where website = ? and quarter >= ? and quarter < ? group by reason",
        (website, first, end),
    )
    return dict(rows.fetchall())


def samples(connection: sqlite3.Connection, website: int, from_ms: int, to_ms: int) -> list[tuple[int, int, Sample]]:
    """Return the samples of a range, newest first: the reason's number, when it was last seen, the sample."""
    rows = connection.execute(
        "/* rejected_events.samples */ select reason, arrived_ms, type, field, detail from rejected_sample"
        " where website = ? and arrived_ms >= ? and arrived_ms < ? order by arrived_ms desc, reason, id desc",
        (website, from_ms, to_ms),
    ).fetchall()
    return [(reason, ms, Sample(*sample)) for reason, ms, *sample in rows]
