"""What changed between two ranges (docs/reference/definitions.md, Changes): compared with a plain computation."""

import csv
import io
import math
import random
from collections import defaultdict
from collections.abc import Iterable
from itertools import count
from typing import Any

import pytest

from tests.support.app import NOON_MS
from tests.support.cases import cases
from tests.support.page_client import logged_in
from tests.support.read_api import Site, SyncApp, custom, ms, view

BEFORE, NOW = "2026-11-16", "2026-11-17"
RANGE = f"from={NOW}&to={NOW}"
KINDS = (
    ("channel", "referrer", "utm_source", "utm_medium", "utm_campaign", "utm_content", "utm_term"),
    ("pathname", "entry_page", "exit_page"),
    ("country", "region", "city", "language"),
    ("device", "browser", "browser_version", "os", "os_version"),
    ("platform", "app_version", "hostname"),
    ("event_name",),
)


@pytest.fixture
def site(sync_app: SyncApp) -> Site:
    """A website; it is Wednesday, 2026-11-18, 12:00 UTC."""
    sync_app.clock.set_wall(NOON_MS)
    return sync_app.site()


numbers = count()


def visit(day: str, path: str = "/", event: str = "", **traits: str) -> list[dict[str, Any]]:
    """Return the events of a new visitor in the morning of a day: a pageview, and an event where it has a name."""
    at, who = ms(f"{day}T08:00:00Z"), f"visitor-{next(numbers)}"
    return [view(at, path, who, **traits), *([custom(at + 1, event, who, **traits)] if event else [])]


def visits(day: str, number: int, **traits: str) -> list[dict[str, Any]]:
    return [event for _ in range(number) for event in visit(day, **traits)]


def named(row: Any) -> Any:
    """Return what a row says: field, value, visitors before and now, and the same of what explains it."""
    by = row["explained_by"]
    own = row["field"], row["value"], row["previous"]["visitors"], row["visitors"]
    return (*own, named(by | {"explained_by": None})) if by else own


# --- what is said


def test_a_value_that_moved_with_what_explains_it(site: Site) -> None:
    """Paid search: 148 to 87, most of it from Germans; not that the Germans' fall is of paid search, nor its source."""
    ads, rest = {"path": "/?utm_medium=cpc&utm_source=google"}, {"browser": "Firefox", "device": "mobile"}
    site.send(
        *visits(BEFORE, 80, **ads, language="de"),
        *visits(BEFORE, 68, **ads, language="fr"),
        *visits(BEFORE, 160, **rest, language="de"),
        *visits(NOW, 20, **ads, language="de"),
        *visits(NOW, 67, **ads, language="fr"),
        *visits(NOW, 163, **rest, language="de"),
    )
    found = site.json(f"changes?{RANGE}")
    assert [named(row) for row in found["data"]] == [
        ("channel", "Paid search", 148, 87, ("language", "de", 80, 20)),
        ("device", "desktop", 148, 87, ("language", "de", 80, 20)),
    ]
    meta = found["meta"]
    assert (meta["compare"], meta["previous_from"][:10]) == ("previous", BEFORE)
    assert (meta["metric"], meta["limit"], meta["max_p_value"]) == ("visitors", 5, 0.05)
    table = list(csv.reader(io.StringIO(site.get(f"changes?{RANGE}&format=csv").text)))
    assert table[0] == [
        *("field", "value", "visitors", "previous_visitors", "p_value"),
        *("explained_by_field", "explained_by_value", "explained_by_visitors", "explained_by_previous_visitors"),
    ]
    p_value = found["data"][0]["p_value"]
    assert table[1] == ["channel", "Paid search", "87", "148", repr(p_value), "language", "de", "20", "80"]
    assert len(site.data(f"changes?{RANGE}&limit=1")) == 1


def test_a_value_that_has_most_visitors_in_any_case_explains_nothing(site: Site) -> None:
    """All languages fell alike: most of the fall is from Germans, as most of the visitors are."""
    for day, times in ((BEFORE, 100), (NOW, 50)):
        site.send(*visits(day, times, device="mobile", language="de"), *visits(day, times // 5, device="mobile"))
        site.send(*visits(day, 150, device="desktop", language="de"), *visits(day, 30, device="desktop"))
    assert named(site.data(f"changes?{RANGE}")[0]) == ("device", "mobile", 120, 60)


@pytest.mark.slow
@cases(
    ("before", "now", "field"),
    [(0, 60, "referrer"), (60, 0, "referrer"), (60, 58, ""), (9, 0, ""), (4000, 3650, "")],
    ids=["appeared", "vanished", "chance", "few", "small"],
)
def test_which_changes_are_beyond_chance(sync_app: SyncApp, before: int, now: int, field: str) -> None:
    """A value that is in one range alone is found; a change of less than a tenth is not worth a sentence."""
    site = sync_app.site()
    linked = {"referrer": "https://news.example.org/"}
    site.send(*visits(BEFORE, before, **linked), *visits(BEFORE, 1000))
    site.send(*visits(NOW, now, **linked), *visits(NOW, 1000))
    found = [named(row) for row in site.data(f"changes?{RANGE}")]
    assert found == ([("channel", "Referral", before, now)] if field else [])


def test_nothing_is_compared_with_a_range_without_visitors(site: Site) -> None:
    site.send(*visits(NOW, 60, language="de"), *visits(NOW, 60, language="fr"))
    found = site.json(f"changes?{RANGE}")
    assert (found["data"], found["meta"]["tested"]) == ([], 0)


def test_ranges_of_different_lengths_are_compared_by_their_lengths(site: Site) -> None:
    """Twice as many in twice the time is no change."""
    site.send(*visits("2026-11-16", 50, language="de"), *visits("2026-11-17", 50, language="de"))
    site.send(*visits("2026-11-18", 50, language="de"))
    for day, times in (("2026-11-16", 50), ("2026-11-17", 50), ("2026-11-18", 110)):
        site.send(*visits(day, times, language="fr"))
    custom_range = "compare=custom&compare_from=2026-11-16&compare_to=2026-11-17"
    found = site.data(f"changes?from=2026-11-18&to=2026-11-18&{custom_range}")
    assert [named(row)[:4] for row in found] == [("language", "fr", 100, 110)]


def test_conversions_and_rates_of_a_goal(site: Site) -> None:
    """As many visitors in both ranges; of those with Firefox fewer converted."""
    goal = saved_goal(site)
    for day, converted in ((BEFORE, 80), (NOW, 20)):
        site.send(*visits(day, converted, browser="Firefox", event="signup"))
        site.send(*visits(day, 100 - converted, browser="Firefox"))
        site.send(*visits(day, 50, browser="Chrome", event="signup"), *visits(day, 50, browser="Chrome"))
    assert site.data(f"changes?{RANGE}&metric=visitors&goal={goal}") == []
    for metric in ("", "&metric=converted_visitors", "&metric=conversion_rate"):
        found = site.json(f"changes?{RANGE}&goal={goal}{metric}")
        row = found["data"][0]
        assert (row["field"], row["value"], row["visitors"], row["converted_visitors"]) == (
            "browser",
            "Firefox",
            100,
            20,
        )
        assert (row["previous"]["converted_visitors"], row["conversion_rate"]) == (80, 20)
        assert found["meta"]["goal"]["id"] == goal


def saved_goal(site: Site) -> str:
    """Save a goal that counts signups; return its id."""

    async def save() -> str:
        browser = await logged_in(site.sync_app.app)
        goal = {"name": "Signup", "type": "event", "match": ["filter_event_name=signup"]}
        answer = await browser("POST", f"/api/account/websites/{site.id}/goals", goal)
        assert answer.status == 201, answer.text
        return str(answer.json["data"]["id"])

    return site.sync_app.run(save())


@cases(
    ("query", "field"),
    [
        ("metric=conversions", "metric"),
        ("metric=converted_visitors", "metric"),
        ("metric=conversion_rate", "metric"),
        ("limit=21", "limit"),
        ("compare=off", "compare"),
        ("fields=country", "fields"),
        ("goal=x", "goal"),
    ],
)
def test_what_is_refused(site: Site, query: str, field: str) -> None:
    assert site.invalid_field(f"changes?{query}") == field


# --- a plain computation over the list of events


def plain(events: list[Any], before: list[Any]) -> list[tuple[Any, ...]]:
    """Return (field, value, visitors before and now) of the rows that moved, from lists of events."""
    rows = []
    now_by, before_by = visitors_by(events), visitors_by(before)
    for kind in KINDS:
        for field in kind:
            values = sorted({*now_by[field], *before_by[field]} - {""})
            if len({*now_by[field], *before_by[field]}) > 1 or field == "event_name":
                rows += [(field, one, len(before_by[field][one]), len(now_by[field][one])) for one in values]
    tested = [(p_value(*row[2:]), row) for row in rows if row[2] + row[3] >= 20]
    tested.sort(key=lambda one: one[0])
    moved: list[tuple[Any, ...]] = []
    worst, shown = 0.0, dict[Any, str]()
    order = [field for kind in KINDS for field in kind]
    corrected = []
    for rank, (p, row) in enumerate(tested):
        worst = min(1.0, max(worst, p * (len(tested) - rank)))
        corrected.append((worst, -abs(row[3] - row[2]), order.index(row[0]), row))
    for p, _, _, row in sorted(corrected, key=lambda one: one[:3]):
        kind = next(kind for kind in KINDS if row[0] in kind)
        if p < 0.05 and abs(row[3] - row[2]) >= row[2] / 10 and shown.setdefault(kind, row[0]) == row[0]:
            moved.append(row)
    return moved


def p_value(before: int, now: int) -> float:
    return math.erfc(abs(now - before) / math.sqrt(before + now) / math.sqrt(2))


def visitors_by(events: Iterable[Any]) -> dict[str, dict[str, set[str]]]:
    """Return the visitors of each value of each field. A visitor of these tests has one visit."""
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for one in events:
        for kind in KINDS:
            for field in kind:
                found[field][one[field] or ""].add(one["visit"])
    return found


@pytest.mark.random_examples
@pytest.mark.parametrize("seed", range(4))
def test_rows_are_those_of_a_plain_computation(site: Site, seed: int) -> None:
    """Random visitors, some of whose traits become more or less frequent."""
    dice = random.Random(seed)
    traits = {
        "referrer": ["https://news.example.org/", "https://google.com/", ""],
        "language": ["de", "fr", "en"],
        "device": ["desktop", "mobile"],
        "browser": ["Firefox", "Chrome", "Safari"],
        "path": ["/", "/pricing", "/?utm_medium=cpc&utm_source=google"],
        "event": ["signup", "", ""],
    }
    for day in (BEFORE, NOW):
        weights = {name: [dice.choice((1, 2, 4)) for _ in values] for name, values in traits.items()}
        sent = []
        for _ in range(dice.randrange(200, 400)):
            own = {name: dice.choices(values, weights[name])[0] for name, values in traits.items()}
            sent += visit(day, **own)
        site.send(*sent)
    every = listed(site, f"from={BEFORE}&to={NOW}&filter_type=pageview")
    pages = {one["visit"]: one["pathname"] for one in every}
    for more in ("", "&filter_device=mobile", "&filter_browser!=Safari", "&filter_pathname=/pricing"):
        lists = [listed(site, f"from={day}&to={day}{more}") for day in (NOW, BEFORE)]
        for one in (*lists[0], *lists[1]):
            one["entry_page"] = one["exit_page"] = pages[one["visit"]]
        expected = plain(*lists)
        found = site.data(f"changes?{RANGE}&limit=20{more}")
        said = [named(row)[:4] for row in found]
        assert [row for row in expected if row in said] == said
        causes = [(by["field"], by["value"]) for row in found if (by := row["explained_by"])]
        assert {row[:2] for row in expected if row not in said} <= set(causes)
        for row in found:
            if (by := row["explained_by"]) is not None:
                now, before = (visitors_by(those(one, row)) for one in lists)
                assert len(before[by["field"]][by["value"]]) == by["previous"]["visitors"]
                assert len(now[by["field"]][by["value"]]) == by["visitors"]
                change = by["visitors"] - by["previous"]["visitors"]
                assert change / (row["visitors"] - row["previous"]["visitors"]) > 0.5


def listed(site: Site, query: str) -> list[Any]:
    """Return all events of a range."""
    answer = site.json(f"events?limit=1000&{query}")
    found = answer["data"]
    while answer["meta"]["next_cursor"]:
        answer = site.json(f"events?limit=1000&{query}&cursor={answer['meta']['next_cursor']}")
        found += answer["data"]
    return list(found)


def those(events: list[Any], row: Any) -> list[Any]:
    """Return the events that match the filter of a row: for fields of visits, all of those visits."""
    visitors = visitors_by(events)[row["field"]][row["value"]]
    of_visit = row["field"] in (*KINDS[0], "entry_page", "exit_page")
    return [one for one in events if one["visit"] in visitors and (of_visit or one.get(row["field"]) == row["value"])]
