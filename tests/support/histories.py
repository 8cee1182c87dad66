"""Random histories of visits, and a reference implementation of funnels and event_data on them.

`Fact` is a stored event with its values as texts; `facts` reads all of them with one statement. Visits are computed
from the times of events. Nothing here calls the server's code that counts.
"""

import json
import random
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

from tally.engine.values import Scope
from tally.events.dimensions import FIELDS
from tally.events.filters import Filter
from tally.events.validation import TYPES
from tests.support.rollup_database import (
    DAY_MS,
    HOUR_MS,
    LATE_MS,
    MINUTE_MS,
    RollupHarness,
    make_file,
    runs,
    with_all_rows,
)

PATHS, NAMES, DEVICES = ("/", "/a", "/b"), ("signup", "buy"), ("mobile", "desktop")
PATH, DEVICE = FIELDS.index("pathname"), FIELDS.index("device")
DATA: tuple[dict[str, Any], ...] = (
    {"plan": "pro", "seats": 1},
    {"plan": "1", "seats": 1.0, "is_new": True},
    {"plan": 1, "seats": -0.0, "is_new": None},
    {"plan": True, "seats": 0, "": "x"},
    {"plan": None, "seats": 0.1, "é\n": "…"},
    {"seats": 2**64 - 1},
    {"seats": 2**64 - 2, "plan": "pro"},
    {"seats": -(2**63)},
    {"seats": 1.8446744073709552e19},
    {"seats": 1e308},
    {"seats": -1e-320, "plan": "PRO"},
    {},
)
TEXTS = tuple(json.dumps(one, ensure_ascii=False, separators=(",", ":")) for one in DATA)


class Fact(NamedTuple):
    """A stored event. Facts are ordered by time and id."""

    ts: int
    id: int
    type: int
    visitor: int
    pathname: str
    device: str
    event_name: str
    data: str | None


def facts(harness: RollupHarness) -> list[Fact]:
    """Return every event of the first website, in order."""
    texts = ", ".join(f"(select text from label where id = {name})" for name in ("pathname", "device", "event_name"))
    website = harness.websites[0].number
    with with_all_rows(harness.reader, website):
        rows = harness.reader.execute(
            f"select ts, id, type, visitor, {texts}, event_data from event where website = ? order by ts, id",
            (website,),
        )
        return [Fact(*row) for row in rows]


def matches(fact: Fact, scope: Scope) -> bool:
    """Return whether an event is in the range and matches the filters."""
    values = {
        "pathname": fact.pathname,
        "device": fact.device,
        "event_name": fact.event_name,
        "type": TYPES[fact.type],
    }
    return scope.from_ms <= fact.ts < scope.to_ms and all(of.accepts(values[of.field]) for of in scope.filters)


def is_step(fact: Fact, step: tuple[str, str]) -> bool:
    """Return whether an event is a step."""
    field, value = step
    return fact.pathname == value and fact.type <= 1 if field == "pathname" else fact.event_name == value


def funnel(known: Sequence[Fact], scope: Scope, steps: Sequence[tuple[str, str]]) -> list[tuple[int, int, int]]:
    """Return (visits, visitors, ms since the previous step, 0 for the first) of each step."""
    found: list[list[tuple[int, int]]] = [[] for _ in steps]
    for visit in runs(known):
        if scope.from_ms <= visit[0].ts < scope.to_ms and any(matches(fact, scope) for fact in visit):
            rest, before = visit, 0
            for n, step in enumerate(steps):
                place = next((place for place, fact in enumerate(rest) if is_step(fact, step)), None)
                if place is None:
                    break
                found[n].append((rest[place].visitor, rest[place].ts - before if n else 0))
                before, rest = rest[place].ts, rest[place + 1 :]
    return [(len(of), len({who for who, _ in of}), sum(ms for _, ms in of)) for of in found]


def same(one: Any, other: Any) -> bool:
    """Return whether two JSON scalars are the same value."""
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


KINDS = (type(None), bool, (int, float), str)


def order(value: Any) -> tuple[int, Any]:
    """Return the sort key of a value: null, false, true, numbers, texts."""
    kind = next(n for n, types in enumerate(KINDS) if isinstance(value, types))
    return kind, 0 if value is None else value


def values(known: Sequence[Fact], scope: Scope, name: str) -> dict[str, list[tuple[Any, int]]]:
    """Return (value, visitor) of each event that has a property, by property."""
    found: dict[str, list[tuple[Any, int]]] = {}
    for fact in known:
        if matches(fact, scope) and fact.event_name == name:
            for key, value in json.loads(fact.data or "{}").items():
                found.setdefault(key, []).append((value, fact.visitor))
    return found


def counted(of: Sequence[tuple[Any, int]]) -> list[tuple[Any, int, int]]:
    """Return (value, events, visitors) of each different value, in the order of the report."""
    groups: list[list[tuple[Any, int]]] = []
    for one in of:
        group = next((group for group in groups if same(group[0][0], one[0])), None)
        if group is None:
            groups.append(group := [])
        group.append(one)
    rows = [(group[0][0], len(group), len({who for _, who in group})) for group in groups]
    return sorted(rows, key=lambda row: (-row[1], -row[2], order(row[0])))


def numbers(of: Sequence[tuple[Any, int]]) -> dict[str, Any] | None:
    """Return the figures of the numeric values, None if there are none; sum and mean are exact fractions."""
    known = sorted(value for value, _ in of if isinstance(value, int | float) and not isinstance(value, bool))
    if not known:
        return None
    total = sum(map(Fraction, known), Fraction())
    ranks = {
        percent: next(n for n in range(1, len(known) + 1) if 100 * n >= percent * len(known)) for percent in (50, 95)
    }
    return {
        "samples": len(known),
        "sum": total,
        "mean": total / len(known),
        "min": known[0],
        "p50": known[ranks[50] - 1],
        "p95": known[ranks[95] - 1],
        "max": known[-1],
    }


# --- histories


def texts(path: str, device: str, name: str) -> tuple[str, ...]:
    """Return the dimensions and event_name of an event."""
    found = [""] * (len(FIELDS) + 1)
    found[PATH], found[DEVICE], found[-1] = path, device, name
    return tuple(found)


class History:
    """A database on which random steps are done: current and late events, imports, background work and restarts."""

    def __init__(self, folder: Path, rng: random.Random) -> None:
        make_file(folder / "analytics.db")
        self.harness, self.rng = RollupHarness(folder / "analytics.db"), rng

    def some(self, first_ms: int, end_ms: int) -> list[tuple[int, int, str, tuple[str, ...]]]:
        """Return 1 to 24 events at multiples of five minutes, so that many have the same time."""
        rng = self.rng
        begin = rng.randrange(first_ms, end_ms) // (5 * MINUTE_MS) * 5 * MINUTE_MS
        found = []
        for _ in range(rng.randrange(1, 25)):
            ts = min(max(begin + rng.randrange(12) * 5 * MINUTE_MS, first_ms), end_ms - 1)
            type_ = rng.choice((0, 0, 1, 2, 2, 3))
            name = rng.choice(NAMES) if type_ == 2 else rng.choice((*NAMES, "")) if type_ == 3 else ""
            who = f"{rng.randrange(5)}-{ts // DAY_MS}"
            found.append((ts, type_, who, texts(rng.choice(PATHS), rng.choice(DEVICES), name)))
        return found

    def play(self) -> None:
        """Do one random step."""
        harness, rng = self.harness, self.rng
        kind = rng.randrange(10)
        if kind < 5:
            now_ms = harness.now_ms
            some = self.some(now_ms - (LATE_MS if rng.random() < 0.4 else 2 * HOUR_MS), now_ms + 1)
            data = [rng.choice((*TEXTS, None)) if fact[3][-1] else None for fact in some]
            harness.send(*some, data=data)
        elif kind == 5:
            harness.import_events(*self.some(harness.now_ms - 9 * DAY_MS, harness.now_ms - 8 * DAY_MS))
        elif kind < 8:
            harness.advance(rng.choice((20_000, HOUR_MS, 7 * HOUR_MS, DAY_MS, 2 * DAY_MS)))
        else:
            harness.build(rng.choice((None, 1, 5, 40)))

    def scopes(self, count: int) -> Iterator[Scope]:
        """Yield up to `count` scopes from minute to minute or from midnight to midnight, with up to two filters."""
        rng, now_ms = self.rng, self.harness.now_ms
        for _ in range(count):
            from_ms, to_ms = sorted(now_ms + 1 - rng.randrange(12 * DAY_MS) // MINUTE_MS * MINUTE_MS for _ in range(2))
            if rng.random() < 0.5:
                from_ms, to_ms = from_ms // DAY_MS * DAY_MS, -(-to_ms // DAY_MS) * DAY_MS
            operator, part = rng.choice((("^=", "/"), ("*=", "0"), ("$=", "1"), ("^=", "/nowhere")))
            filters = (
                Filter("pathname", "=", (rng.choice(PATHS),)),
                Filter("pathname", "!=", tuple(rng.sample(PATHS, 2))),
                Filter("pathname", operator, (part, "/other")),
                Filter("device", "=", tuple(rng.sample(DEVICES, rng.randrange(1, 3)))),
                Filter("event_name", "=", (rng.choice((*NAMES, "")),)),
                Filter("type", "=", tuple(rng.sample(TYPES[:4], 2))),
            )
            chosen = tuple(rng.sample(filters, rng.choice((0, 0, 1, 2))))
            if from_ms < to_ms:
                yield self.harness.scope(from_ms, to_ms, chosen)
