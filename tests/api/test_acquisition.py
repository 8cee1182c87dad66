"""Acquisition, entry and exit pages of visits: the example and the rules of docs/reference/definitions.md."""

import re

import pytest

from tests.support.app import ROOT
from tests.support.read_api import DAY, NOON_MS, Site, SyncApp, custom, view

ALL_DAY = f"from={DAY}&to={DAY}"
DEFINITIONS = (ROOT / "docs" / "reference" / "definitions.md").read_text("utf-8")
FIGURES = ("visits", "pageviews", "events", "bounce_rate", "visit_duration")
# | `filter_utm_source=mail` | 1 | 2 | 1 | 0 | 420 |
ROWS = re.findall(r"^\| (none|`filter_[^`]*`) \|((?: [^|]+ \|){5})$", DEFINITIONS, re.M)
EXAMPLE = (
    view("10:00", "/"),
    view("10:05", "/pricing?utm_source=mail"),
    custom("10:07", "signup", url="https://example.com/pricing"),
)


@pytest.fixture
def site(sync_app: SyncApp) -> Site:
    sync_app.clock.set_wall(NOON_MS)
    return sync_app.site()


@pytest.fixture(scope="module")
def example(sync_app: SyncApp) -> Site:
    sync_app.clock.set_wall(NOON_MS)
    site = sync_app.site()
    site.send(*EXAMPLE)
    return site


def listed(site: Site, field: str, more: str = "") -> dict[str, tuple[int, int]]:
    """Return pageviews and events of each value of a field; those of the unset value under ''."""
    answer = site.json(f"top/{field}?{ALL_DAY}{more}")
    rows = {row["value"]: (row["pageviews"], row["events"]) for row in answer["data"]}
    unset = answer["meta"]["unset"]
    return rows | ({"": (unset["pageviews"], unset["events"])} if unset["visitors"] else {})


def test_the_example_has_a_row_for_each_kind_of_field() -> None:
    assert len(ROWS) == 12


@pytest.mark.parametrize(("filter_", "figures"), ROWS, ids=[row[0].strip("`") for row in ROWS])
def test_the_example_under_every_filter(example: Site, filter_: str, figures: str) -> None:
    """One visit, as in the table of the definitions."""
    expected = [None if "null" in figure else int(figure) for figure in figures.strip(" |").split("|")]
    query = "" if filter_ == "none" else "&" + filter_.strip("`")
    found = example.data(f"stats?{ALL_DAY}{query}")
    assert [found[name] for name in FIGURES] == expected
    (day,) = example.data(f"timeseries?{ALL_DAY}{query}")
    assert [day[name] for name in FIGURES[:3]] == expected[:3]
    hours = example.data(f"timeseries?{ALL_DAY}&interval=hour{query}")
    assert [sum(hour[name] for hour in hours) for name in FIGURES[:3]] == expected[:3]


def test_all_events_count_under_the_acquisition(example: Site) -> None:
    assert listed(example, "utm_source") == {"mail": (2, 1)}
    assert listed(example, "utm_source", "&filter_pathname=/") == {"mail": (1, 0)}
    assert listed(example, "pathname", "&filter_utm_source=mail") == {"/": (1, 0), "/pricing": (1, 1)}
    assert listed(example, "channel") == {"Referral": (2, 1)}
    assert listed(example, "entry_page") == {"/": (2, 1)}
    assert listed(example, "exit_page") == {"/pricing": (2, 1)}
    assert {row["utm_source"] for row in example.data(f"events?{ALL_DAY}")} == {"mail"}
    steps = "step=pathname:/&step=event_name:signup"
    assert [row["visits"] for row in example.data(f"funnel?{steps}&{ALL_DAY}&filter_utm_source=mail")] == [1, 1]
    assert [row["visits"] for row in example.data(f"funnel?{steps}&{ALL_DAY}&filter_utm_source=")] == [0, 0]
    assert [row["value"] for row in example.data(f"event-names?{ALL_DAY}&filter_utm_source=mail")] == ["signup"]


def test_the_acquisition_is_of_one_event(site: Site) -> None:
    """A referrer of one event and utm values of another are not combined."""
    site.send(
        view("10:00", "/", referrer="https://www.google.com/x"),
        view("10:05", "/a?utm_source=mail&utm_medium=email&utm_term=t"),
    )
    assert listed(site, "referrer") == {"google.com": (2, 0)}
    assert listed(site, "channel") == {"Organic search": (2, 0)}
    assert listed(site, "utm_source") == listed(site, "utm_term") == {"": (2, 0)}


def test_a_late_event_changes_the_whole_visit(site: Site) -> None:
    site.send(view("10:05", "/a?utm_source=second"), custom("10:10"))
    assert listed(site, "utm_source") == {"second": (1, 1)}
    assert listed(site, "channel") == {"Referral": (1, 1)}
    site.send(view("10:00", "/first?utm_source=first&utm_medium=email&utm_content=c"))
    assert listed(site, "utm_source") == {"first": (2, 1)}
    assert listed(site, "channel") == {"Email": (2, 1)}
    assert listed(site, "utm_content") == {"c": (2, 1)}
    assert listed(site, "entry_page") == {"/first": (2, 1)}
    site.send(view("09:55", "/"))
    assert listed(site, "utm_source") == {"first": (3, 1)}, "it carries no acquisition"
    assert listed(site, "entry_page") == {"/": (3, 1)}


def test_a_late_event_joins_two_visits(site: Site) -> None:
    site.send(view("10:00", "/a?utm_source=one"), view("11:00", "/b?utm_source=two"), custom("11:01"))
    assert listed(site, "utm_source") == {"one": (1, 0), "two": (1, 1)}
    site.send(view("10:30", "/c?utm_source=three"))
    assert listed(site, "utm_source") == {"one": (3, 1)}
    assert listed(site, "exit_page") == {"/b": (3, 1)}


def test_a_visit_without_acquisition_is_direct(site: Site) -> None:
    """Channel Direct is no acquisition: a later event that carries one changes the whole visit."""
    site.send(view("10:00", "/"), custom("10:01"))
    assert listed(site, "channel") == {"Direct": (1, 1)}
    assert site.data(f"stats?{ALL_DAY}&filter_channel=Direct")["visits"] == 1
    assert site.data(f"stats?{ALL_DAY}&filter_channel=")["visits"] == 0
    site.send(view("10:02", "/", referrer="https://chatgpt.com/"))
    assert listed(site, "channel") == {"AI assistants": (2, 1)}
    assert {row["channel"] for row in site.data(f"events?{ALL_DAY}")} == {"AI assistants"}
    for operator, visits in (("^=AI", 1), ("*=Dir", 0), ("!=Direct", 1), ("$=search", 0)):
        assert site.data(f"stats?{ALL_DAY}&filter_channel{operator}")["visits"] == visits


def test_measurements_have_their_own(site: Site) -> None:
    """Web vitals carry the utm values of their own URL, whatever the visit's are."""
    vitals = {"type": "vitals", "session_id": "session-of-ann", "vitals": {"lcp": 100}, "url": "https://example.com/a"}
    site.send(view("10:00", "/a?utm_source=mail"), vitals | {"timestamp": view("10:01")["timestamp"]})
    sources = {row["type"]: row["utm_source"] for row in site.data(f"events?{ALL_DAY}")}
    assert sources == {"pageview": "mail", "vitals": None}
    channels = {row["type"]: row["channel"] for row in site.data(f"events?{ALL_DAY}")}
    assert channels == {"pageview": "Referral", "vitals": "Direct"}
    assert site.data(f"vitals?{ALL_DAY}&filter_utm_source=mail")[0]["samples"] == 0


@pytest.mark.parametrize("field", ["entry_page", "exit_page"])
def test_operators_on_pages_of_visits(site: Site, field: str) -> None:
    site.send(
        view("10:00", "/docs/a"), view("10:01", "/docs/b"), custom("10:00", who="bob"), view("10:00", "/x", "eve")
    )
    expected = {"^=/docs": 2, "$=x": 1, "*=o": 2, "!=/x": 2, "!=": 3, "=": 0}
    assert {
        operator: site.data(f"stats?{ALL_DAY}&filter_{field}{operator}")["pageviews"] for operator in expected
    } == expected
