"""The page of experiments, in a real Chromium: its figures are the read API's, and its sentences follow from them.

The events are sent through collect, over four UTC days. Tests wait for conditions.
"""

import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest
from playwright.sync_api import expect

from tally.reports.significance import wilson
from tests.browser.accessibility import violations, violations_in_each_scheme
from tests.browser.browsers import (
    SIZES,
    ZONE,
    OpenPage,
    exported_text,
    is_printed_in_colour,
    range_query,
    show_as_printed,
)
from tests.browser.history import IMG, SampleServer, late_times_ms, sample_server
from tests.support.app import CHROME, SAFARI_IPHONE

# experiment: {variant: (visitors, {goal: how many of them convert})}
EXPERIMENTS: dict[str, dict[str, tuple[int, dict[str, int]]]] = {
    "button": {"control": (300, {"order": 30, "mail": 60}), "blue": (300, {"order": 90, "mail": 62})},
    "headline": {"control": (300, {"": 30}), "short": (300, {"": 51}), "question": (300, {"": 33})},
    "lost half": {"off": (200, {"signup": 30}), "on": (90, {"signup": 14})},
    f"new {IMG}": {"a": (20, {"signup": 2}), "b": (20, {"signup": 4})},
    "only one": {"red": (12, {})},
    "quiet": {"control": (15, {}), "loud": (15, {})},
}
Shown = Callable[..., Any]


def send_experiments(site: SampleServer) -> None:
    """Send assignments and conversions: each visitor is a session, a third of them on a phone."""
    times = late_times_ms()
    sent: dict[str, list[dict[str, Any]]] = {CHROME: [], SAFARI_IPHONE: []}
    for experiment, variants in EXPERIMENTS.items():
        for variant, (visitors, goals) in variants.items():
            for n in range(visitors):
                event = {"url": "https://example.com/", "experiment": experiment, "variant": variant}
                event |= {"session_id": f"{experiment[:8]}-{variant}-{n:04}", "timestamp": times[n % len(times)]}
                own = [event | {"type": "ab_assign"}]
                for goal, conversions in goals.items():
                    # Those who convert are spread over the days.
                    if n * conversions % visitors < conversions:
                        own.append(event | {"type": "ab_convert"} | ({"goal": goal} if goal else {}))
                sent[SAFARI_IPHONE if n % 3 == 0 else CHROME] += own
    for agent, events in sent.items():
        for first, end in pairwise([*range(0, len(events), 50), len(events)]):
            body = {"website_id": site.website, "events": events[first:end]}
            answer = site.server.request("POST", "/api/collect", body, {"User-Agent": agent})
            assert answer.json["accepted"] == end - first, answer.text


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SampleServer]:
    with sample_server(tmp_path_factory.mktemp("experiments")) as one:
        send_experiments(one)
        yield one


@pytest.fixture
def shown(site: SampleServer, open_page: OpenPage) -> Shown:
    """Return a function that opens the page and waits until it is loaded."""

    def show(query: str = "period=7d", **options: Any) -> Any:
        page = site.log_in(open_page(**options))
        page.goto(f"{site.url}/websites/{site.website}/experiments?{query}")
        return loaded(page)

    return show


def loaded(page: Any) -> Any:
    expect(page.locator(".reading")).to_be_visible()
    expect(page.locator("[aria-busy=true]")).to_have_count(0)
    return page


def experiment_of(page: Any, name: str) -> Any:
    return page.locator(".experiment").filter(has=page.get_by_role("heading", name=name, level=2, exact=True))


def experiments_path(days: int = 7, more: str = "", zone: str = ZONE) -> str:
    """Return the path of the report about the last days."""
    return f"experiments?{range_query(days, more, zone)}"


def cells(page: Any) -> list[list[str]]:
    """Return experiment, goal, variant, visitors and conversions of each row."""
    return page.evaluate(
        """() => [...document.querySelectorAll(".arms tbody tr")].map((row) => [
          row.closest(".experiment").dataset.experiment, row.closest(".goal").dataset.goal, row.dataset.variant,
          ...[...row.querySelectorAll("td")].slice(0, 2).map((cell) => cell.textContent)])"""
    )


def cells_by_api(site: SampleServer, query: str) -> list[list[str]]:
    return [
        [one["experiment"], goal["goal"] or "", arm["variant"], f"{arm['visitors']:,}", f"{arm['conversions']:,}"]
        for one in site.ask(query)["data"]
        for goal in one["goals"]
        for arm in goal["variants"]
    ]


# --- conclusions

META = {"confidence": 0.95, "split_is_off_below": 0.001, "least_of_a_kind": 10}


def arm(variant: str, visitors: int, conversions: int, **more: Any) -> dict[str, Any]:
    """Return a variant as the read API does."""
    low, high = wilson(conversions, visitors) or (0.0, 0.0)
    rates = {"rate": round(100 * conversions / visitors, 2) if visitors else None}
    rates |= {"rate_low": round(100 * low, 2), "rate_high": round(100 * high, 2)}
    usual = {"p_value": None, "p_value_any_time": None, "lift": None}
    usual["enough_data"] = min(conversions, visitors - conversions) >= 10
    return {"variant": variant, "visitors": visitors, "conversions": conversions} | rates | usual | more


def p(planned: float | None, always: float | None, lift: float | None = None) -> dict[str, Any]:
    return {"p_value": planned, "p_value_any_time": always, "lift": lift}


CONTROL = arm("control", 1000, 41)
# name: baseline, variant, whether the split is off, state, the expected title and words
SAID = {
    "sure and more": (
        *(CONTROL, arm("blue", 1000, 90, **p(0.0001, 0.0009, 119.5)), False, "significant"),
        *("blue converts more often than control", "9.0% compared with 4.1%, 119.5% more. This is valid however often"),
    ),
    "sure and less": (
        *(CONTROL, arm("blue", 1000, 12, **p(0.0001, 0.049, -70.7)), False, "significant"),
        *("blue converts less often than control", "1.2% compared with 4.1%, 70.7% less. This is valid however often"),
    ),
    "the interval of a significant difference": (
        *(CONTROL, arm("blue", 1000, 90, **p(0.0001, 0.0009, 119.5)), False, "significant"),
        *("blue converts", "The actual difference is probably 2.8 to 7.1 percentage points more."),
    ),
    "sure, of the last digit": (
        *(CONTROL, arm("blue", 1000, 58, **p(0.0499, 0.0499, 41.5)), False, "significant"),
        *(
            "blue converts more",
            "probably 0 to 3.6 percentage points more",
        ),
    ),
    "a baseline without conversions, many visitors": (
        *(arm("control", 1000, 0), arm("blue", 1000, 90, **p(1e-20, 1e-9)), False, "few"),
        *(
            "Too few to compare blue with control",
            "control has 0 conversions and 1,000 visitors without one.",
        ),
    ),
    "planned": (
        *(CONTROL, arm("blue", 1000, 60, **p(0.0312, 0.31, 46.3)), False, "planned"),
        "blue converts more often than control, if this is the only look",
        "If you have looked more than once, it is not significant yet (any time: p = 0.31): let the experiment",
    ),
    "planned and less": (
        *(arm("control", 1000, 60), arm("blue", 1000, 41, **p(0.0312, 0.31, -31.7)), False, "planned"),
        *("blue converts less often than control, if this is the only look", "4.1% compared with 6.0%, 31.7% less."),
    ),
    "just above the limit": (
        *(CONTROL, arm("blue", 1000, 60, **p(0.05, 0.4, 46.3)), False, "open"),
        *("No significant difference between blue and control", "(p = 0.05000)"),
    ),
    "earlier": (
        *(CONTROL, arm("blue", 1000, 44, **p(0.74, 0.01, 7.3)), False, "earlier"),
        *("blue and control differed earlier, and no longer clearly do", "The difference was significant earlier"),
    ),
    "open": (
        *(CONTROL, arm("blue", 1000, 44, **p(0.74, 1, 7.3)), False, "open"),
        "No significant difference between blue and control",
        "−1.5 to +2.1 percentage points. With this number of visitors a difference below about 2.5",
    ),
    "open, though the interval leaves 0 out": (
        *(CONTROL, arm("blue", 1000, 64, **p(0.0624, 0.5, 56.1)), False, "open"),
        *("No significant difference between", "probably 0 to +4.3 percentage points"),
    ),
    "few who convert": (
        *(arm("control", 30, 4), arm("blue", 28, 1, **p(0.2, 0.9, -73.2)), False, "few"),
        "Too few to compare blue with control",
        "at least 10 visitors who convert and 10 who do not:"
        " control has 4 conversions and 26 visitors without one and blue has 1 conversion and 27 visitors without one.",
    ),
    "few who do not": (
        *(arm("control", 300, 200), arm("blue", 300, 295, **p(1e-9, 1e-9, 47.5)), False, "few"),
        *("Too few to compare blue with control", "do not: blue has 295 conversions and 5 visitors without one. Until"),
    ),
    "none converts": (
        *(arm("control", 30, 0), arm("blue", 28, 0), False, "few"),
        *("Too few", "control has 0 conversions and 30 visitors without one and blue has 0 conversions"),
    ),
    "nothing to test": (
        *(CONTROL, arm("blue", 1000, 41, **p(None, None, 0)), False, "same"),
        *("blue and control have the same rate", "There is no difference to test."),
    ),
    "a variant without visitors": (
        *(CONTROL, arm("blue", 0, 0), False, "empty"),
        *("blue cannot be compared with control", "blue had no visitors in this range."),
    ),
    "neither has visitors": (
        *(arm("control", 0, 0), arm("blue", 0, 0), False, "empty"),
        *("blue cannot be compared with control", "control and blue had no visitors"),
    ),
    "split off": (
        *(CONTROL, arm("blue", 1000, 90, **p(0.0001, 0.0009, 119.5)), True, "off"),
        *("blue cannot be compared with control", "a difference here may be caused by it"),
    ),
}


def test_every_conclusion(shown: Shown) -> None:
    """There is a sentence for each state, which claims no more than the numbers show."""
    page = shown()
    results = [
        {"experiment": {"split": {"is_off": is_off}}, "goal": {"variants": [base, other]}, "meta": META}
        for base, other, is_off, *_ in SAID.values()
    ]
    found = page.evaluate(
        """async (results) => {
          const { conclusionsOf } = await import("/assets/experiments/conclusions.js");
          return results.map(({ experiment, goal, meta }) => conclusionsOf(experiment, goal, meta));
        }""",
        results,
    )
    for (name, (*_, state, title, words)), [one] in zip(SAID.items(), found, strict=True):
        assert (one["variant"], one["state"]) == ("blue", state), name
        assert one["title"].startswith(title), name
        assert words in one["words"], (name, one["words"])
        # Only a result that is valid at any time is stated without a condition.
        assert ("however often" in one["words"]) == (state == "significant"), name
    assert {state for *_, state, _, _ in SAID.values()} == {
        *("off", "empty", "few", "same", "significant", "earlier", "planned", "open"),
    }


def test_splits_notes_and_numbers(shown: Shown) -> None:
    page = shown()
    two = [{"variant": "control", "visitors": 10}, {"variant": "blue", "visitors": 14}]
    off, even = {"p_value": 1e-9, "is_off": True}, {"p_value": 0.41, "is_off": False}
    found = page.evaluate(
        """async ([splits, notes, arms, values]) => {
          const { splitCheck, notesOf, differenceInterval, detectableDifference, pValueNumber, pValueText } =
            await import("/assets/experiments/conclusions.js");
          return [splits.map(splitCheck), notes.map((one) => notesOf(...one)),
            differenceInterval(...arms), detectableDifference(...arms),
            values.map(pValueNumber), [null, 1e-5, 0.2].map(pValueText)];
        }""",
        [
            [
                {"variants": two, "split": even},
                {"variants": two, "split": off},
                {"variants": two[:1], "split": {"p_value": None, "is_off": False}},
                {"variants": [{"variant": "a", "visitors": 0}], "split": {"p_value": None, "is_off": False}},
            ],
            [
                [{"variants": two, "goals": [1], "split": even}, False],
                [{"variants": two, "goals": [1], "split": even}, True],
                [{"variants": [*two, {"variant": "red"}], "goals": [1, 2], "split": even}, False],
                [{"variants": [*two, {"variant": "red"}], "goals": [1, 2], "split": off}, True],
                [{"variants": two[:1], "goals": [1, 2], "split": even}, True],
            ],
            # Newcombe, "Interval estimation for the difference between independent proportions", 1998, table II (a).
            [arm("b", 80, 48), arm("a", 70, 56)],
            [None, 0.5, 0.0499, 0.0501, 0.05, 0.0123, 0.00012, 0.00009, 1],
        ],
    )
    splits, notes, interval, noticed, numbers, output = found
    assert [one["state"] for one in splits] == ["even", "off", "alone", "none"]
    assert splits[0]["words"] == "control 10, blue 14: consistent with an even split (p = 0.41)."
    assert splits[1]["title"] == "Uneven split: results are not reliable"
    assert "p below 0.0001" in splits[1]["words"]
    assert [len(one) for one in notes] == [0, 1, 2, 0, 0]
    assert "Which of blue or red is best was not tested." in notes[2][0]
    assert "decide by the goal that you chose before" in notes[2][1]
    assert [round(end / 100, 3) for end in interval] == [0.052, 0.334]
    assert round(noticed, 1) == 21.1
    assert numbers == ["–", "0.50", "0.04990", "0.05010", "0.05000", "0.012", "0.0001", "<0.0001", "1.00"]
    assert output == ["no p-value", "p below 0.0001", "p = 0.20"]


# --- figures


def test_figures_are_those_of_the_read_api(site: SampleServer, shown: Shown) -> None:
    page = shown()
    expected = cells_by_api(site, experiments_path())
    assert cells(page) == expected
    assert ["button", "order", "blue", "300", "90"] in expected
    names = page.locator(".experiment").evaluate_all("(all) => all.map((one) => one.dataset.experiment)")
    assert names == sorted(EXPERIMENTS)
    blue = experiment_of(page, "button").locator("[data-goal=order] [data-variant=blue].conclusion")
    expect(blue).to_have_attribute("data-state", "significant")
    expect(blue).to_contain_text("blue converts more often than control")
    row = experiment_of(page, "button").locator("[data-goal=order] tr[data-variant=blue]")
    [expected_arm] = [
        one for one in site.ask(experiments_path())["data"][0]["goals"][1]["variants"] if one["variant"] == "blue"
    ]
    expect(row.locator(".interval")).to_contain_text(f"{expected_arm['rate_low']:.1f}%")
    expect(row).to_contain_text(f"+{expected_arm['lift']:.1f}%")


def test_conclusions_of_each_experiment(shown: Shown) -> None:
    page = shown()
    states = {
        "button": ["open", "significant"],
        "headline": ["open", "planned"],
        "lost half": ["off"],
        f"new {IMG}": ["few"],
        "only one": [],
        "quiet": [],
    }
    for name, expected in states.items():
        found = (
            experiment_of(page, name)
            .locator(".conclusion")
            .evaluate_all("(all) => all.map((one) => one.dataset.state)")
        )
        assert found == expected, name
    off = experiment_of(page, "lost half")
    expect(off.locator(".notice")).to_contain_text("results are not reliable")
    # The decision directly follows the name, and the warning the decision.
    assert off.evaluate("(card) => card.children[2].classList.contains('notice')")
    decisions = {
        "button": r"Ahead: \w+\. Decide by the goal that you chose before the experiment\. Significant difference",
        "headline": "No decision yet|only if you planned|Ahead: ",
        "lost half": r"Do not decide by these figures\. Uneven split",
        f"new {IMG}": r"No decision yet\. Too few visitors",
        "only one": r"No decision yet\. Only one variant",
        "quiet": r"No decision yet\. No conversions yet",
    }
    for name, words in decisions.items():
        card = experiment_of(page, name)
        expect(card.locator(".decision")).to_have_text(re.compile(words))
        assert card.evaluate("(card) => card.children[1].classList.contains('decision')"), name
    expect(experiment_of(page, "headline").locator(".experiment-notes")).to_contain_text("(Holm)")
    expect(experiment_of(page, "button").locator(".experiment-notes")).to_contain_text("There are 2 goals")
    expect(experiment_of(page, "only one")).to_contain_text("needs a second variant")
    expect(experiment_of(page, "quiet")).to_contain_text('tally.convert("quiet", { goal: "order" })')
    expect(page.locator(".reading")).to_contain_text("who is assigned today and buys tomorrow counts as two visitors")
    assert page.evaluate("window.broken") is None


def test_the_overview_links_to_each_experiment(shown: Shown) -> None:
    page = shown()
    rows = page.locator(".overview-row")
    found = rows.evaluate_all("(all) => all.map((one) => one.dataset.state)")
    assert found == ["significant", "planned", "off", "few", "alone", "none"]
    rows.nth(2).focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="lost half")).to_be_focused()


def test_intervals_are_printed(shown: Shown) -> None:
    page = shown()
    show_as_printed(page)
    assert is_printed_in_colour(page.locator(".interval-line").first)


def test_filters_are_about_the_assignment(site: SampleServer, shown: Shown) -> None:
    page = shown("period=7d&filter_device=mobile")
    assert cells(page) == cells_by_api(site, experiments_path(more="&filter_device=mobile"))
    expect(experiment_of(page, "button")).to_contain_text("Among many parts")
    page.keyboard.press("Escape")
    page.wait_for_url(f"**/experiments?period=7d&tz={ZONE}")
    loaded(page)
    assert cells(page) == cells_by_api(site, experiments_path())


def test_range_zone_and_keys(site: SampleServer, shown: Shown) -> None:
    page = shown()
    page.goto(page.url.replace(f"tz={ZONE}", "tz=UTC"))
    page.wait_for_url("**tz=UTC*")
    loaded(page)
    page.keyboard.press("1")
    page.wait_for_url("**period=today&**")
    loaded(page)
    expect(page.locator("p.about")).to_contain_text("Today is not over")
    assert cells(page) == cells_by_api(site, experiments_path(1, zone="UTC"))
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".dash-range .segment[aria-pressed=true]")).to_have_text("Yesterday")
    loaded(page)
    expect(page.locator("p.about")).not_to_contain_text("Today is not over")


def test_csv(site: SampleServer, shown: Shown) -> None:
    page = shown()
    lines = exported_text(page, "CSV of all experiments").splitlines()
    assert lines[0].startswith("experiment,goal,variant,visitors,conversions")
    assert len(lines) == len(cells(page)) + 1


# --- empty pages and failures


def test_no_experiments(site: SampleServer, shown: Shown) -> None:
    """The page shows how to begin an experiment, or how to remove the filters that exclude all."""
    page = shown()
    page.goto(f"{site.url}/websites/{site.second}/experiments")
    expect(page.get_by_role("heading", name="No experiments in this range")).to_be_visible()
    expect(page.get_by_label("Script")).to_contain_text("tally.convert(")
    expect(page.locator(".nothing-yet")).to_contain_text("counted per day of the website")
    assert violations(page) == []
    page.goto(f"{site.url}/websites/{site.website}/experiments?period=7d&filter_pathname=/nowhere")
    page.get_by_role("button", name="Remove the filters").click()
    loaded(page)


def test_the_number_of_experiments_that_are_not_shown_is_shown(site: SampleServer, shown: Shown) -> None:
    """Names are sent by clients: the page shows a limited number and the number of the others."""
    page = shown()
    expect(page.get_by_text("Not shown")).to_have_count(0)
    variants = [("button", f"v{n:02}") for n in range(22)]
    sent = [*variants, *((f"experiment {n:03}", "control") for n in range(100))]
    events = [
        {"type": "ab_assign", "experiment": experiment, "variant": variant, "session_id": f"many-{n:04}"}
        for n, (experiment, variant) in enumerate(sent)
    ]
    for first in range(0, len(events), 50):
        site.send(site.empty, *events[first : first + 50])
    page.goto(f"{site.url}/websites/{site.empty}/experiments?period=7d")
    expect(loaded(page).get_by_text("Not shown: 1 experiment, 2 variants with the fewest")).to_be_visible()
    expect(page.locator(".experiment")).to_have_count(100)
    expect(experiment_of(page, "button")).to_be_visible()
    assert violations(page) == []


def test_a_failed_request_shows_an_error_and_can_be_retried(site: SampleServer, open_page: OpenPage) -> None:
    page = site.log_in(open_page())
    body = {"ok": False, "error": {"code": "storage_unavailable", "message": "The database cannot be reached."}}
    pattern = re.compile(r"/api/.*/experiments\?")
    page.route(pattern, lambda route: route.fulfill(status=503, json=body))
    page.goto(f"{site.url}/websites/{site.website}/experiments?period=7d")
    expect(page.get_by_role("alert")).to_contain_text("Experiments cannot be shown.")
    expect(page.get_by_role("alert")).to_contain_text("The database cannot be reached.")
    page.unroute(pattern)
    page.get_by_role("button", name="Try again").click()
    loaded(page)
    page.problems.discard("503")


# --- accessibility


@pytest.mark.parametrize("size", SIZES)
def test_accessible(shown: Shown, size: str) -> None:
    """axe-core finds no violations and the page does not scroll sideways, in both color schemes and both sizes."""
    page = shown(viewport=SIZES[size])
    assert violations_in_each_scheme(page) == []
