"""Annotations, segments, goals and funnels, saved and changed as in docs/reference/account-api.md."""

from typing import Any

import pytest

from tally.accounts.definitions import MAX_OF_KIND
from tally.api.definitions import KINDS, MAX_FILTER_CHARACTERS, MAX_TEXT_CHARACTERS
from tests.support.app import App
from tests.support.cases import cases
from tests.support.page_client import PageClient, logged_in

LAUNCH = {"from": "2026-11-20", "to": None, "text": "Launch"}
GERMANY = {"name": "Germany", "filters": ["filter_country=DE", "filter_country=AT"]}
SIGNUP = {"name": "Signup", "type": "event", "match": ["filter_event_name=signup"], "value": "price", "currency": "EUR"}
CHECKOUT = {"name": "Checkout", "steps": ["pathname:/pricing", "event_name:signup"]}
OF_KIND: dict[str, dict[str, Any]] = {
    "annotations": LAUNCH,
    "segments": GERMANY,
    "goals": SIGNUP,
    "funnels": CHECKOUT,
}
PATHS = [of.path for of in KINDS]


class Owner:
    """The owner of a website in a browser."""

    def __init__(self, browser: PageClient, website: str) -> None:
        self.browser, self.base = browser, f"/api/account/websites/{website}"

    async def __call__(self, method: str, path: str, body: Any = None) -> Any:
        return await self.browser(method, f"{self.base}/{path}", body)


@pytest.fixture
async def owner(app: App) -> Owner:
    browser = await logged_in(app)
    return Owner(browser, await app.website())


def test_every_kind_has_an_example() -> None:
    assert set(PATHS) == set(OF_KIND)


@pytest.mark.parametrize("path", PATHS)
async def test_one_is_created_listed_changed_and_deleted(app: App, owner: Owner, path: str) -> None:
    sent = OF_KIND[path]
    created = await owner("POST", path, sent)
    assert created.status == 201, created.text
    own = created.json["data"]
    assert own == {"id": own["id"], **sent}
    assert (await owner("GET", path)).json["data"] == [own]

    field = "text" if path == "annotations" else "name"
    changed = await owner("PATCH", f"{path}/{own['id']}", {field: " Other "})
    assert (changed.status, changed.json["data"]) == (200, own | {field: "Other"})
    await app.restart()
    assert (await owner("GET", path)).json["data"] == [own | {field: "Other"}]

    assert (await owner("DELETE", f"{path}/{own['id']}")).status == 204
    assert (await owner("GET", path)).json["data"] == []
    for method, body in (("PATCH", {}), ("DELETE", None)):
        gone = await owner(method, f"{path}/{own['id']}", body)
        assert (gone.status, gone.json["error"]["code"]) == (404, "unknown_definition")


async def test_an_id_is_of_one_kind_and_one_website(app: App, owner: Owner) -> None:
    own = (await owner("POST", "goals", SIGNUP)).json["data"]
    added = await owner.browser("POST", "/api/account/websites", {"domain": "b.example"})
    other = Owner(owner.browser, added.json["data"]["id"])
    for of, path in ((owner, "segments"), (other, "goals")):
        assert (await of("DELETE", f"{path}/{own['id']}")).status == 404
    assert (await other("GET", "goals")).json["data"] == []
    assert (await owner("GET", "goals")).json["data"] == [own]


@pytest.mark.parametrize("path", PATHS)
async def test_their_number_is_limited(app: App, owner: Owner, path: str) -> None:
    """docs/reference/limits.md: 1,000 annotations, 100 segments, goals and funnels."""
    (kind,) = (of.kind for of in KINDS if of.path == path)
    own = (await owner("POST", path, OF_KIND[path])).json["data"]
    number = 1_000 if path == "annotations" else 100
    assert MAX_OF_KIND[kind] == number
    copies = (
        "with recursive n(i) as (select 1 union all select i + 1 from n where i < ?)"
        " insert into definition select website, printf('%016x', i), kind, created_ms, content from n, definition"
        " where id = ?"
    )
    await app.admin(lambda connection: connection.execute(copies, (number - 2, own["id"])))
    assert (await owner("POST", path, OF_KIND[path])).status == 201
    full = await owner("POST", path, OF_KIND[path])
    assert (full.status, full.json["error"]["code"]) == (409, "too_many_definitions")


INVALID: list[tuple[str, dict[str, Any], str]] = [
    ("annotations", {"from": "2026-13-01"}, "from"),
    ("annotations", {"from": 1}, "from"),
    ("annotations", {"from": "2026-11-20T10:00"}, "from"),
    ("annotations", {"from": "2026-11-20T10:00Z", "to": "2026-11-21"}, "to"),
    ("annotations", {"to": "2026-11-19"}, "to"),
    ("annotations", {"from": "9999-12-31T23:59:59-10:00"}, "from"),
    ("annotations", {"text": " "}, "text"),
    ("annotations", {"text": "a\nb"}, "text"),
    ("annotations", {"text": "x" * (MAX_TEXT_CHARACTERS + 1)}, "text"),
    ("annotations", {"name": "x"}, "name"),
    ("segments", {"name": ""}, "name"),
    ("segments", {"name": "x" * 101}, "name"),
    ("segments", {"filters": []}, "filters"),
    ("segments", {"filters": "filter_country=DE"}, "filters"),
    ("segments", {"filters": [1]}, "filters"),
    ("segments", {"filters": ["country=DE"]}, "filters"),
    ("segments", {"filters": ["filter_planet=DE"]}, "filters"),
    ("segments", {"filters": ["filter_goal=0123456789abcdef"]}, "filters"),
    ("segments", {"filters": [f"filter_country={n}" for n in range(21)]}, "filters"),
    ("segments", {"filters": ["filter_country=" + "x" * MAX_FILTER_CHARACTERS]}, "filters"),
    ("goals", {"type": "visit"}, "type"),
    ("goals", {"match": ["filter_type=nothing"]}, "match"),
    ("goals", {"match": None}, "match"),
    ("goals", {"value": ""}, "value"),
    ("goals", {"value": 1}, "value"),
    ("goals", {"currency": "eur"}, "currency"),
    ("goals", {"value": None}, "currency"),
    ("funnels", {"steps": ["pathname:/"]}, "steps"),
    ("funnels", {"steps": ["pathname:/", "country:DE"]}, "steps"),
    ("funnels", {"steps": "pathname:/"}, "steps"),
]


async def test_every_field_is_checked_when_one_is_created_and_changed(owner: Owner) -> None:
    ids = {path: (await owner("POST", path, OF_KIND[path])).json["data"]["id"] for path in PATHS}
    for path, change, field in INVALID:
        for method, place, body in (
            ("POST", path, OF_KIND[path] | change),
            ("PATCH", f"{path}/{ids[path]}", change),
        ):
            answer = await owner(method, place, body)
            error = (answer.status, answer.json.get("error", {}).get("code"), answer.json.get("error", {}).get("field"))
            assert error == (400, "invalid_field", field), (method, path, change, answer.text)
    for path in PATHS:
        assert len((await owner("GET", path)).json["data"]) == 1


@cases(
    ("sent", "stored"),
    [
        ("2026-11-20T10:00:00Z", "2026-11-20T10:00:00.000+00:00"),
        ("2026-11-20T10:00+01:00", "2026-11-20T09:00:00.000+00:00"),
        ("20261120", "2026-11-20"),
    ],
)
async def test_times_of_annotations_are_stored_in_utc_and_dates_as_dates(owner: Owner, sent: str, stored: str) -> None:
    answer = await owner("POST", "annotations", {"from": sent, "to": sent, "text": "x"})
    assert (answer.json["data"]["from"], answer.json["data"]["to"]) == (stored, stored)


async def test_share_links_have_annotations_only(app: App, owner: Owner) -> None:
    for path, sent in OF_KIND.items():
        assert (await owner("POST", path, sent)).status == 201
    link = (await owner("POST", "share-links", {"name": "Readers"})).json["data"]["path"].removeprefix("/share/")
    guest = PageClient(app)
    shown = await guest("GET", f"/api/share/{link}/annotations")
    assert [{**one, "id": ""} for one in shown.json["data"]] == [{"id": "", **LAUNCH}]
    for path in set(PATHS) - {"annotations"}:
        assert (await guest("GET", f"/api/share/{link}/{path}")).status == 404


async def test_a_list_has_another_etag_after_a_change(app: App, owner: Owner) -> None:
    key = await app.key()
    path = owner.base.replace("account", "v1") + "/goals"
    first = await app.get(path, key)
    again = await app.get(path, key, headers={"If-None-Match": first.headers["ETag"]})
    assert again.status == 304
    await owner("POST", "goals", SIGNUP)
    changed = await app.get(path, key, headers={"If-None-Match": first.headers["ETag"]})
    assert (changed.status, len(changed.json["data"])) == (200, 1)


async def test_deleting_a_website_deletes_its_definitions(app: App, owner: Owner) -> None:
    for path, sent in OF_KIND.items():
        await owner("POST", path, sent)
    assert (await owner.browser("DELETE", owner.base, {"domain": "example.com"})).status == 202
    assert app.sql("select count(*) from definition") == [(0,)]
