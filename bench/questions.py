"""The questions whose speed is promised, and how they are asked: in turn, over one connection, warm.

All ranges end now and begin to the millisecond so many days ago: ragged at both ends, as a dashboard asks. `to` is left
out, as the product's own default does. Questions are asked round by round, not each forty times in a row, so that all
of them see the same changes of today's data.
"""

import json
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from client import Asker
from report import ms, percentile
from traffic import DAY_MS

from tally.events.dimensions import FIELDS

RANGES = (7, 30, 365)  # days, the target's
ZONES = ("UTC", "America/New_York", "Asia/Kolkata")  # the target's
# A question that is slow is asked fewer times, so that a slow server is measured within minutes.
_MOST_S_A_QUESTION = 8.0
_LEAST_ASKS = 3
TIMED_OUT = float("inf")


class Question(NamedTuple):
    """What is asked. `kind` and `days` group questions into rows of the table; `which` tells them apart."""

    kind: str
    days: int
    which: str
    path: str

    def url(self, website: str) -> str:
        """Its address as of now."""
        from_ms = time.time_ns() // 1_000_000 - self.days * DAY_MS
        begin = datetime.fromtimestamp(from_ms / 1000, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"
        ranged = f"{'&' if '?' in self.path else '?'}from={begin}" if self.days else ""
        return f"/api/v1/websites/{website}/{self.path}{ranged}"


def unfiltered(ranges: Sequence[int] = RANGES) -> list[Question]:
    """Every question that has to be answered within 50 ms."""
    return [question for days in ranges for question in _unfiltered(days)]


def _unfiltered(days: int) -> Iterable[Question]:
    yield Question("stats", days, "UTC", "stats")
    for interval in ("day", "hour"):
        for zone in ZONES:
            yield Question(f"timeseries {interval}", days, zone, f"timeseries?interval={interval}&tz={zone}")
    for field in FIELDS:
        yield Question("top", days, field, f"top/{field}")


def quick() -> list[Question]:
    """Those that have to be answered within 10 ms."""
    return [Question("realtime", 0, "", "realtime"), Question("page of events", 7, "", "events")]


def filtered(field: str, value: str) -> list[Question]:
    """Questions with one filter."""
    return [
        Question(kind, days, value, f"{path}filter_{field}={value}")
        for days in RANGES
        for kind, path in (("stats", "stats?"), ("top pathname", "top/pathname?"), ("timeseries day", "timeseries?"))
    ]


class Answers:
    """How long each question took, in seconds; TIMED_OUT where the server gave up."""

    def __init__(self) -> None:
        self.times: dict[Question, list[float]] = {}

    def note(self, question: Question, seconds: float) -> None:
        """One more answer."""
        self.times.setdefault(question, []).append(seconds)

    def is_enough(self, question: Question) -> bool:
        """Whether it has taken its share of the time."""
        times = self.times.get(question, [])
        return times.count(TIMED_OUT) >= 2 or (len(times) >= _LEAST_ASKS and sum(times) > _MOST_S_A_QUESTION)

    def group(self, kind: str, days: int) -> "Group":
        """The questions of a kind over so many days."""
        return Group({q.which: times for q, times in self.times.items() if (q.kind, q.days) == (kind, days)})


class Group:
    """The times of questions that make a row of the table, by what tells them apart."""

    def __init__(self, times: dict[str, list[float]]) -> None:
        self._times = times
        p95s = {which: percentile(some, 0.95) for which, some in times.items()}
        self.worst = max(p95s, key=lambda which: p95s[which])
        self.p95 = p95s[self.worst]
        self.p50 = percentile([one for some in times.values() for one in some], 0.5)

    def text(self) -> str:
        """Both percentiles; of the worst question the higher one."""
        if self.p95 == TIMED_OUT:
            return f"503 query_timeout ({self.worst})"
        worst = f" ({self.worst})" if len(self._times) > 1 else ""
        return f"p50 {ms(self.p50)}, p95 {ms(self.p95)}{worst}"


def ask(asker: Asker, website: str, questions: Sequence[Question], rounds: int) -> Answers:
    """Asks all questions, round by round, after one round that is not counted."""
    answers = Answers()
    for question in questions:
        _ask_once(asker, website, question)
    for _ in range(rounds):
        for question in questions:
            if not answers.is_enough(question):
                answers.note(question, _ask_once(asker, website, question))
    return answers


def _ask_once(asker: Asker, website: str, question: Question) -> float:
    url = question.url(website)
    begun = time.perf_counter()
    status, body = asker.get(url)
    taken_s = time.perf_counter() - begun
    if status == 503 and json.loads(body)["error"]["code"] == "query_timeout":
        return TIMED_OUT
    if status != 200:
        raise RuntimeError(f"{url} is answered {status}: {body[:300]!r}")
    return taken_s
