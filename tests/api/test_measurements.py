"""Web vitals and experiments over HTTP: events sent by trackers and the responses of the read API."""

import csv
import io
import math
from typing import Any

import pytest

from tally.engine.values import THRESHOLDS
from tally.events.validation import METRICS
from tally.reports import experiments
from tally.reports.significance import holm, pooled_p_value, split_p_value, wilson
from tests.support.app import NOON_MS, SAFARI_IPHONE, Answer, App

DAY_MS = 86_400_000
LCP = [100, 2_500, 2_500.001, 4_000, 4_000.001, 9_000, 1_800, 700]
DAY = "2026-11-18"


async def vitals(app: App, website: str, path: str = "/", ua: str | None = None, **values: float) -> None:
    event = {"type": "vitals", "url": f"https://example.com{path}", "vitals": values}
    sent = await app.collect({"website_id": website, "events": [event]}, **({"ua": ua} if ua else {}))
    assert sent.status == 202, sent.text


async def query(app: App, key: str, website: str, what: str, **params: Any) -> Answer:
    return await app.get(f"/api/v1/websites/{website}/{what}", key, params)


async def data(app: App, key: str, website: str, what: str, **params: Any) -> Any:
    answer = await query(app, key, website, what, **params)
    assert answer.status == 200, answer.text
    return answer.json["data"]


async def test_vitals_of_all(app: App) -> None:
    website, key = await app.website(), await app.key()
    for value in LCP:
        await vitals(app, website, lcp=value)
    await vitals(app, website, cls=0.1, inp=500)
    rows = await data(app, key, website, "vitals")
    assert [(row["metric"], row["unit"], row["samples"]) for row in rows] == [
        *(("lcp", "ms", 8), ("inp", "ms", 1), ("fcp", "ms", 0), ("ttfb", "ms", 0), ("cls", "", 1)),
    ]
    lcp, inp, fcp, _, cls = rows
    ordered = sorted(LCP)
    for percent in (50, 75, 95):
        assert lcp[f"p{percent}"] == ordered[math.ceil(percent / 100 * len(ordered)) - 1]
    assert (lcp["good"], lcp["needs_improvement"], lcp["poor"]) == (50.0, 25.0, 25.0)
    assert (inp["good"], inp["needs_improvement"], inp["poor"]) == (0, 100, 0)
    assert (cls["good"], cls["needs_improvement"], cls["poor"]) == (100, 0, 0)
    assert {fcp[name] for name in ("p50", "p75", "p95", "good", "needs_improvement", "poor")} == {None}


async def test_vitals_by(app: App) -> None:
    website, key = await app.website(), await app.key()
    for path, values in {"/good": [900] * 5, "/bad": [5_000, 6_000], "/both": [800, 4_500, 3_000]}.items():
        for value in values:
            await vitals(app, website, path, lcp=value, cls=0.5 if path == "/good" else 0.01)
    await vitals(app, website, "/bad", ua=SAFARI_IPHONE, lcp=7_000)
    rows = await data(app, key, website, "vitals", by="pathname")
    assert [(row["value"], row["events"], row["samples"], row["poor"]) for row in rows] == [
        *(("/bad", 3, 3, 100), ("/both", 3, 3, 33.3), ("/good", 5, 5, 0)),
    ]
    rows = await data(app, key, website, "vitals", by="pathname", metric="cls", limit=1)
    assert [(row["value"], row["poor"]) for row in rows] == [("/good", 100)]
    rows = await data(app, key, website, "vitals", by="device")
    assert {row["value"]: row["samples"] for row in rows} == {"desktop": 10, "mobile": 1}
    rows = await data(app, key, website, "vitals", by="pathname", filter_device="mobile")
    assert [(row["value"], row["events"]) for row in rows] == [("/bad", 1)]
    assert rows[0]["p50"] == 7_000
    (lcp, *_) = await data(app, key, website, "vitals", filter_pathname="/both")
    assert lcp["samples"] == 3
    (lcp, *_) = await data(app, key, website, "vitals", filter_browser="Chrome", filter_pathname=["/both", "/bad"])
    assert lcp["samples"] == 5


async def test_vitals_by_day(app: App) -> None:
    """One row for each UTC day of the range in any zone, including days without values."""
    website, key = await app.website(), await app.key()
    event = {"type": "vitals", "url": "https://example.com/", "vitals": {"lcp": 1_000}}
    for ts_ms in (NOON_MS - 2 * DAY_MS, NOON_MS - 1, NOON_MS - 2):
        await app.collect({"website_id": website, "events": [event | {"timestamp": ts_ms}]})
    answer = await query(app, key, website, "vitals", by="day", tz="Asia/Kolkata", **{"from": "2026-11-15"})
    rows = answer.json["data"]
    assert [(row["time"][:16], row["samples"]) for row in rows] == [
        ("2026-11-14T18:30", 0),
        ("2026-11-15T00:00", 0),
        ("2026-11-16T00:00", 1),
        ("2026-11-17T00:00", 0),
        ("2026-11-18T00:00", 2),
    ]
    assert answer.json["meta"]["by"] == "day"
    assert answer.json["meta"]["tz"] == "Asia/Kolkata"


async def test_meta(app: App) -> None:
    website, key = await app.website(), await app.key()
    meta = (await query(app, key, website, "vitals")).json["meta"]
    assert (meta["by"], meta["metric"], meta["limit"], meta["relative_error"]) == (None, None, None, 0)
    assert meta["thresholds"] == {name: {"good": good, "poor": poor} for name, (good, poor) in THRESHOLDS.items()}
    assert list(meta["thresholds"]) == list(METRICS)
    meta = (await query(app, key, website, "vitals", by="device", metric="inp")).json["meta"]
    assert (meta["by"], meta["metric"], meta["limit"]) == ("device", "inp", 10)


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"by": "country"}, "by"),
        ({"by": ""}, "by"),
        ({"metric": "fid"}, "metric"),
        ({"limit": 0}, "limit"),
        ({"filter_event_name": "x"}, "filter_event_name"),
        ({"interval": "day"}, "interval"),
        ({"by": "day", "from": "1971-01-01", "to": "2026-11-18"}, "by"),
        ({"from": "2026-11-19", "to": "2026-11-18"}, "from"),
    ],
)
async def test_bad_parameters_of_vitals(app: App, params: dict[str, Any], field: str) -> None:
    website, key = await app.website(), await app.key()
    answer = await query(app, key, website, "vitals", **params)
    assert (answer.status, answer.json["error"]["code"]) == (400, "invalid_parameter"), answer.text
    assert answer.json["error"]["field"] == field


@pytest.mark.parametrize("params", [{"by": "pathname"}, {"filter_type": "ab_assign"}, {"limit": 5}])
async def test_bad_parameters_of_experiments(app: App, params: dict[str, Any]) -> None:
    website, key = await app.website(), await app.key()
    answer = await query(app, key, website, "experiments", **params)
    assert (answer.status, answer.json["error"]["code"]) == (400, "invalid_parameter")


async def test_csv(app: App) -> None:
    """Texts that look like formulas get an apostrophe."""
    website, key = await app.website(), await app.key()
    await vitals(app, website, "/a", lcp=1_000)
    text = (await query(app, key, website, "vitals", format="csv")).text
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["metric"] for row in rows] == list(METRICS)
    assert (rows[0]["samples"], rows[0]["good"], rows[1]["p75"]) == ("1", "100.0", "")
    event = {"type": "ab_assign", "session_id": "a" * 8, "url": "https://example.com/", "experiment": "=1+1"}
    await app.collect({"website_id": website, "events": [event | {"variant": "@a"}]})
    convert = event | {"type": "ab_convert", "goal": "+buy"}
    await app.collect({"website_id": website, "events": [convert]})
    rows = list(csv.DictReader(io.StringIO((await query(app, key, website, "experiments", format="csv")).text)))
    assert [(row["experiment"], row["goal"], row["variant"], row["conversions"]) for row in rows] == [
        ("'=1+1", "'+buy", "'@a", "1")
    ]


async def experiment(app: App, website: str, counts: dict[str, tuple[int, int]]) -> None:
    """Send visitors of each variant, of whom some convert."""
    events = []
    for variant, (visitors, conversions) in counts.items():
        for n in range(visitors):
            common = {"session_id": f"{variant}-{n:08}", "url": "https://example.com/", "experiment": "button"}
            events.append(common | {"type": "ab_assign", "variant": variant})
            if n < conversions:
                events.append(common | {"type": "ab_convert", "goal": "buy", "value": 3})
    for start in range(0, len(events), 50):
        answer = await app.collect(
            {"website_id": website, "events": events[start : start + 50]}, ip=f"203.0.113.{start % 250}"
        )
        assert answer.status == 202, answer.text
        app.clock.advance(1)


async def test_experiments(app: App) -> None:
    website, key = await app.website(), await app.key()
    counts = {"red": (60, 30), "control": (64, 12), "blue": (55, 5)}
    await experiment(app, website, counts)
    ((found),) = await data(app, key, website, "experiments", **{"from": DAY, "to": DAY})
    assert (found["experiment"], found["baseline"]) == ("button", "control")
    order = ["control", "blue", "red"]
    assert found["variants"] == [{"variant": name, "visitors": counts[name][0]} for name in order]
    assert found["split"] == {"p_value": split_p_value([counts[name][0] for name in order]), "is_off": False}
    (goal,) = found["goals"]
    assert goal["goal"] == "buy"
    p_values = []
    for arm in goal["variants"]:
        visitors, conversions = counts[arm["variant"]]
        low, high = wilson(conversions, visitors) or (0, 0)
        assert (arm["visitors"], arm["conversions"]) == (visitors, conversions)
        assert arm["rate"] == round(100 * conversions / visitors, 2)
        assert (arm["rate_low"], arm["rate_high"]) == (round(100 * low, 2), round(100 * high, 2))
        assert arm["enough_data"] == (min(conversions, visitors - conversions) >= 10)
        if arm["variant"] == "control":
            assert (arm["lift"], arm["p_value"], arm["p_value_any_time"]) == (None, None, None)
        else:
            assert arm["lift"] == round(100 * (conversions / visitors / (12 / 64) - 1), 1)
            p_values.append(pooled_p_value((12, conversions), (64, visitors)))
            assert 0 <= arm["p_value_any_time"] <= 1
    assert [arm["p_value"] for arm in goal["variants"][1:]] == holm([p for p in p_values if p is not None])


async def test_a_split_that_differs_from_equal_shares(app: App) -> None:
    website, key = await app.website(), await app.key()
    await experiment(app, website, {"a": (90, 0), "b": (30, 0)})
    ((found),) = await data(app, key, website, "experiments")
    assert found["split"]["is_off"]
    assert found["goals"] == []


async def test_invented_experiments_are_bounded(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    website, key = await app.website(), await app.key()
    await experiment(app, website, {f"v{n:02}": (30 - n, 0) for n in range(22)})
    answer = await query(app, key, website, "experiments")
    assert answer.json["meta"]["omitted"] == {"experiments": 0, "variants": 2, "goals": 0}
    assert [one["variant"] for one in answer.json["data"][0]["variants"]] == [f"v{n:02}" for n in range(20)]
    monkeypatch.setattr(experiments, "MAX_ROWS", 21)
    again = await query(app, key, website, "experiments")
    assert (again.json["data"], again.json["meta"]["omitted"]) == (
        answer.json["data"],
        answer.json["meta"]["omitted"],
    )


async def test_without_measurements(app: App) -> None:
    website, key = await app.website(), await app.key()
    assert await data(app, key, website, "experiments") == []
    assert [row["samples"] for row in await data(app, key, website, "vitals")] == [0] * 5
    assert await data(app, key, website, "vitals", by="pathname") == []


async def test_unchanged_responses_are_304(app: App) -> None:
    website, key = await app.website(), await app.key()
    span = {"from": DAY, "to": DAY}
    for what in ("vitals", "experiments"):
        first = await query(app, key, website, what, **span)
        path = f"/api/v1/websites/{website}/{what}"
        again = await app.get(path, key, span, headers={"If-None-Match": first.headers["ETag"]})
        assert again.status == 304
        other = await app.get(path, key, span | {"tz": "Asia/Tokyo"}, headers={"If-None-Match": first.headers["ETag"]})
        assert other.status == 200
    await vitals(app, website, lcp=1)
    first = await query(app, key, website, "vitals", **span)
    by = await query(app, key, website, "vitals", by="device", **span)
    metric = await query(app, key, website, "vitals", by="device", metric="cls", **span)
    assert len({answer.headers["ETag"] for answer in (first, by, metric)}) == 3
