"""tally/transfer/ga4.py: rows of the BigQuery export are imported by the command; the figures are those of the rows."""

import json
from typing import Any

import pytest

from tally.events.geoip import COUNTRIES
from tally.transfer.countries import CODE_OF_COUNTRY
from tally.transfer.records import Skip
from tests.support.cases import cases
from tests.support.imports import Imports

NINE_US = 1731920400_000_000  # 2024-11-18T09:00:00Z


def row(path: str | None = "/", at_s: int = 0, name: str = "page_view", user: str | None = "ann", **more: Any) -> Any:
    """Return a row of the web stream; `parameters` has more of event_params."""
    found: dict[str, Any] = {"ga_session_id": 1731920400, "engaged_session_event": 1} | more.pop("parameters", {})
    if path is not None:
        found["page_location"] = f"https://www.example.com{path}"
    device = {"category": "desktop", "operating_system": "Windows", "operating_system_version": "Windows 10"}
    device |= {"language": "de-de", "web_info": {"browser": "Chrome", "browser_version": "131.0.0.0"}}
    usual = {
        "event_date": "20241118",
        "event_timestamp": str(NINE_US + at_s * 1_000_000),
        "event_name": name,
        "event_params": [{"key": key, "value": typed(value)} for key, value in found.items()],
        "user_pseudo_id": user,
        "device": device,
        "geo": {"country": "Germany", "city": "Berlin", "region": "Berlin"},
        "platform": "WEB",
        "event_bundle_sequence_id": "7",
    }
    return usual | more


def typed(value: Any) -> dict[str, Any]:
    """Return a parameter's value as BigQuery writes it: integers are texts."""
    if isinstance(value, int):
        return {"int_value": str(value)}
    return {"double_value": value} if isinstance(value, float) else {"string_value": value}


PHONE = {
    "device": {"category": "mobile", "operating_system": "iOS", "operating_system_version": "iOS 17.5"}
    | {"web_info": {"browser": "Safari", "browser_version": "17.5"}},
    "geo": {"country": "United States", "city": "(not set)"},
}
ROWS = [
    row(name="session_start"),
    row("/", parameters={"page_referrer": "https://news.ycombinator.com/"}),
    row("/pricing", 600, parameters={"page_referrer": "https://www.example.com/"}),
    row("/pricing", 610, "sign_up", parameters={"method": "mail", "seats": 3, "price": 9.5}),
    row("/pricing", 620, "user_engagement"),
    row("/?utm_source=letter&utm_medium=email", user="bob", **PHONE),
    row("/docs", 54_000, user="bob", **PHONE),
    row("/", user="eve", collected_traffic_source={"manual_source": "ads", "manual_campaign_name": "(referral)"}),
    row(None, name="screen_view", user="app", parameters={"firebase_screen": "Home"}, platform="ANDROID"),
]


@pytest.mark.parametrize("written", ["lines", "array"])
def test_figures_are_those_of_the_rows(imports: Imports, written: str) -> None:
    content = json.dumps(ROWS, indent=1) if written == "array" else "\n".join(map(json.dumps, ROWS))
    assert imports.take("ga4", content) == "7"
    assert "skipped: 2 events of sessions and engagement" in imports.errors
    assert imports.take("ga4", json.dumps(ROWS[::-1])) == "0"
    assert imports.totals() == {"pageviews": 6, "visitors": 5, "visits": 5, "events": 1}
    assert imports.by_day() == {"2024-11-18": 5, "2024-11-19": 1}
    assert imports.list("pathname") == {"/": 3, "/pricing": 1, "/docs": 1, "/Home": 1}
    assert imports.list("country") == {"DE": 4, "US": 2}
    assert imports.list("city") == {"Berlin": 4}
    assert imports.list("browser") == {"Chrome": 4, "Safari": 2}
    assert imports.list("device") == {"desktop": 4, "mobile": 2}
    assert imports.list("referrer") == {"news.ycombinator.com": 2}
    assert imports.list("utm_source") == {"letter": 1, "ads": 1}
    assert imports.list("utm_campaign") == {}
    events = imports.site.data("events?from=2024-01-01&to=2024-12-31&filter_event_name=sign_up")
    assert [event["event_data"] for event in events] == [{"method": "mail", "seats": 3, "price": 9.5}]


@cases(
    ("given", "expected"),
    [
        (row(user=None), {"visitor": None}),
        (row(event_timestamp=NINE_US), {"timestamp": NINE_US // 1_000}),
        (row(geo=None, device=None), {"country": "", "browser": ""}),
        (row(geo={"country": "Türkiye"}), {"country": "TR"}),
        (row(geo={"country": "Atlantis"}), {"country": ""}),
        (row("/", name="scroll", parameters={"percent_scrolled": 90}), {"event_data": {"percent_scrolled": 90}}),
        (row(name="click"), {"event_data": None}),
        (
            row(name="click", parameters={"a": 2**63 - 1, "b": 2**63, "c": -(2**63), "d": -(2**63) - 1}),
            {"event_data": {"a": 2**63 - 1, "b": str(2**63), "c": -(2**63), "d": str(-(2**63) - 1)}},
        ),
        (row(None), "invalid_url"),
        (row(None, parameters={"page_location": "about:blank"}), "invalid_url"),
        (row(event_timestamp="late"), "invalid_row"),
        (row(name=""), "invalid_row"),
        (row(event_params=[7, {"key": "a"}], event_name="click"), {"event_name": "click"}),
        (row(name="first_visit"), Skip("events of sessions and engagement")),
    ],
    ids=lambda value: str(value)[:60],
)
def test_rows(imports: Imports, given: dict[str, Any], expected: Any) -> None:
    (found,) = imports.items("ga4", json.dumps(given))
    if isinstance(expected, dict):
        assert {name: found[name] for name in expected} == expected
    else:
        assert expected in (found, getattr(found, "code", None))


@pytest.mark.parametrize("end", ["", "\n"])
def test_bad_rows_are_reported_with_their_lines(imports: Imports, end: str) -> None:
    """The import, its dry run and --strict count the same lines."""
    good = [json.dumps(row(at_s=second)) for second in range(3)]
    content = "\n".join([good[0], good[1], '{"bad":1}', good[2], '{"bad":1}']) + end
    imports.take("ga4", content, "--dry-run")
    assert "invalid lines: 2 of 5\n" in imports.errors
    imports.take("ga4", content, "--strict", status=1)
    assert "2 of 5 lines are invalid" in imports.errors
    assert imports.take("ga4", content) == "3"
    assert [line.split(":")[0] for line in imports.errors.splitlines() if line.startswith("line ")] == [
        "line 3",
        "line 5",
    ]
    assert "rejected 2 of 5 lines" in imports.errors


def test_each_country_has_a_name() -> None:
    assert set(CODE_OF_COUNTRY.values()) == set(COUNTRIES)


def test_rows_of_one_microsecond_that_differ_in_parameters_are_two_events(imports: Imports) -> None:
    rows = [row(name="select_item", parameters={"item": item, "seats": 2}) for item in ("a", "b")]
    # One that is not read tells rows apart too.
    rows += [row(name="select_item", parameters={"item": "a", "seats": 2, "batch_ordering_id": n}) for n in (1, 2)]
    assert imports.take("ga4", json.dumps(rows)) == "4"
    for one in rows:
        one["event_params"].reverse()
    assert imports.take("ga4", "\n".join(map(json.dumps, rows))) == "0"
    assert "skipped 4 duplicates" in imports.errors


LANGUAGES = {
    "German": "# Startdatum: 20240326\n# Enddatum: 20240404\n\nDatum,Aktive Nutzer\n20240326,3\n",
    "Dutch": "# Startdatum: 20240326\n# Einddatum: 20240404\n\nDatum,Actieve gebruikers\n20240326,3\n",
    "French": "# Date de début : 20240326\n# Date de fin : 20240404\n\nDate,Utilisateurs actifs\n20240326,3\n",
    "Spanish": "Fecha,Usuarios activos\n20240326,3\n",
    "Japanese": "# 開始日: 20240326\n# 終了日: 20240404\n\n日付,アクティブ ユーザー\n20240326,3\n",
    "another language than English": "# Alkaa: 20240326\n# Päättyy: 20240404\n\nPäivä,Käyttäjät\n20240326,3\n",
}


@cases(("language", "content"), LANGUAGES.items())
def test_a_report_in_another_language_is_refused_with_its_name(imports: Imports, language: str, content: str) -> None:
    assert imports.take("ga4", content, status=1) == ""
    assert f"is a report in {language}: choose English" in imports.errors


def test_no_more_lines_are_rejected_than_there_are(imports: Imports) -> None:
    """An array may have all of its objects on one line: each counts as a line."""
    broken = [row() | {"event_timestamp": "x"} for _ in range(2)]
    assert imports.take("ga4", json.dumps([*broken, row()])) == "1"
    assert "rejected 2 of 3 lines" in imports.errors
    assert imports.take("ga4", json.dumps(broken), status=1) == ""
    assert "rejected 2 of 2 lines" in imports.errors
    assert imports.take("ga4", json.dumps(broken), "--dry-run", status=1) == ""
    assert "invalid lines: 2 of 2" in imports.errors
    assert imports.take("ga4", "\n".join(map(json.dumps, broken)), status=1) == ""
    assert "rejected 2 of 2 lines" in imports.errors


@pytest.mark.parametrize("format", ["ga4", "tally", "matomo", "access-log"])
def test_an_empty_file_is_an_error_with_strict(imports: Imports, format: str) -> None:
    for content in ("", "\n\n", "\ufeff"):
        assert imports.take(format, content) == "0"
        assert "is empty: nothing was imported" in imports.errors
        assert imports.take(format, content, "--dry-run") == ""
        assert "is empty" in imports.errors
        assert imports.take(format, content, "--strict", status=1) == ""
        assert "is empty: nothing was imported" in imports.errors
        assert imports.take(format, content, "--strict", "--dry-run", status=1) == ""
