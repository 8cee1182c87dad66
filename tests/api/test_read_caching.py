"""ETag and If-None-Match of the read API.

docs/reference/read-api.md, Caching: `ETag` is a hash of the request and of the website's change counter;
`If-None-Match` returns 304. A default range ends now, so its tag changes with every millisecond.
"""

import pytest

from tests.support.app import NOON_MS, Answer, MakeApp
from tests.support.cases import cases
from tests.support.read_api import DAY, ENDPOINTS, Site, SyncApp, view

FIXED = (
    *(f"{endpoint}?from={DAY}&to={DAY}" for endpoint in ("stats", "timeseries", "top/pathname", "events")),
    f"stats?from={DAY}&to={DAY}&compare=previous",
    f"top/os?from={DAY}&to={DAY}&format=csv",
    "realtime",
)


@pytest.fixture
def site(sync_app: SyncApp) -> Site:
    sync_app.clock.set_wall(NOON_MS)
    site = sync_app.site()
    site.send(view("10:00:00"))
    return site


def again(site: Site, question: str, tag: str, method: str = "GET") -> Answer:
    return site.get(question, {"If-None-Match": tag}, method)


def tag_of(site: Site, question: str) -> str:
    return site.get(question).headers["ETag"]


@cases("method", ["GET", "HEAD"])
@cases("question", FIXED)
def test_an_unchanged_response_is_304(site: Site, question: str, method: str) -> None:
    """A 304 has no body, and the RateLimit headers of every response."""
    tag = tag_of(site, question)
    answer = again(site, question, tag, method)
    assert (answer.status, answer.body) == (304, b"")
    assert answer.headers["ETag"] == tag
    assert {"RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"} <= set(answer.headers)
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    assert "Content-Type" not in answer.headers or not answer.body


@pytest.mark.parametrize("form", ["{0}", "W/{0}", '"other", {0}', '"other", W/{0}, "more"', "*"])
def test_forms_of_if_none_match(site: Site, form: str) -> None:
    """RFC 9110, 13.1.2: a list, weak comparison, or `*`."""
    tag = tag_of(site, FIXED[0])
    assert again(site, FIXED[0], form.format(tag)).status == 304


@cases("tag", ['"other"', 'W/"other"', "", "garbage", '"', '""', "\u00ff", '"*"', '"a", *', "W/", "**"])
def test_other_tags_do_not_match(site: Site, tag: str) -> None:
    """RFC 9110, 13.1.2: only the tag itself, or a single `*`, matches."""
    answer = again(site, FIXED[0], tag)
    assert (answer.status, answer.json["data"]["pageviews"]) == (200, 1)


@pytest.mark.parametrize("question", FIXED)
def test_an_event_changes_the_tag(site: Site, question: str) -> None:
    """The tag includes the website's change counter, which every event increments."""
    tag = tag_of(site, question)
    site.send(view("11:00:00", "/new", "bob"))
    answer = again(site, question, tag)
    assert answer.status == 200
    assert answer.headers["ETag"] != tag


@pytest.mark.parametrize("question", FIXED)
def test_an_event_of_another_website_keeps_the_tag(site: Site, question: str) -> None:
    """Each website has its own change counter."""
    other = site.sync_app.site()
    tag = tag_of(site, question)
    other.send(view("11:00:00"))
    assert again(site, question, tag).status == 304


def test_each_query_has_its_own_tag(site: Site) -> None:
    """Every parameter that changes the response changes the tag."""
    range_ = f"from={DAY}&to={DAY}"
    questions = [
        *FIXED,
        f"stats?from={DAY}&to=2026-11-18",
        f"stats?from=2026-11-16&to={DAY}",
        f"stats?{range_}&tz=Europe/Berlin",
        # the same range as given by the dates, but with another previous range
        f"stats?from={DAY}T00:00:00&to=2026-11-18T00:00:00&compare=previous",
        f"stats?{range_}&filter_os=",
        f"stats?{range_}&filter_os=a",
        f"stats?{range_}&filter_os=a&filter_os=b",
        f"stats?{range_}&filter_browser=a",
        f"timeseries?{range_}&interval=hour",
        f"timeseries?{range_}&format=csv",
        f"timeseries?{range_}&tz=Africa/Abidjan",
        f"top/pathname?{range_}&limit=11",
        f"top/browser?{range_}",
        f"top/os?{range_}",
        f"events?{range_}&limit=1",
        f"events?{range_}&format=csv",
    ]
    assert len({tag_of(site, question) for question in questions}) == len(questions)
    other = site.sync_app.site()
    assert {tag_of(site, question) for question in FIXED}.isdisjoint(tag_of(other, question) for question in FIXED)


def test_the_tag_depends_on_accept(site: Site) -> None:
    """JSON and CSV have different tags, and Vary names Accept."""
    question = f"top/pathname?from={DAY}&to={DAY}"
    as_json, as_csv = site.get(question), site.get(question, {"Accept": "text/csv"})
    assert as_json.headers["ETag"] != as_csv.headers["ETag"]
    assert site.get(question, {"Accept": "text/csv", "If-None-Match": as_json.headers["ETag"]}).status == 200
    assert {name.strip() for name in as_json.headers["Vary"].split(",")} >= {"Accept", "Authorization"}
    assert "private" in as_json.headers["Cache-Control"]


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_the_tag_of_a_default_range_changes_with_time(site: Site, endpoint: str) -> None:
    """The default range is the last 7 days up to now: it changes every millisecond."""
    tag = tag_of(site, endpoint)
    assert again(site, endpoint, tag).status == 304
    site.sync_app.clock.set_wall(NOON_MS + 1)
    assert again(site, endpoint, tag).status == 200


def test_the_list_of_websites_has_a_tag(sync_app: SyncApp) -> None:
    """A new website of the account changes the tag of /websites, an event does not."""
    sync_app.clock.set_wall(NOON_MS)
    account = "tag@example.com"
    site = sync_app.site("a.example.com", account)
    tag = sync_app.get("/api/v1/websites", site.key).headers["ETag"]
    site.send(view("10:00:00"))
    again = sync_app.get("/api/v1/websites", site.key, {"If-None-Match": tag})
    assert (again.status, again.body) == (304, b"")
    sync_app.site("b.example.com", account)
    assert len(sync_app.get("/api/v1/websites", site.key, {"If-None-Match": tag}).json["data"]) == 2


INVALID = ("stats?limit=1", "top/nothing", "events?cursor=x", "timeseries?from=1970-01-01&to=2100-12-31&interval=hour")


@cases("question", [*FIXED, *INVALID])
def test_an_error_is_never_304(site: Site, question: str) -> None:
    """Errors have no ETag and are never answered with 304."""
    unknown = site.sync_app.get(
        site.path(question).replace(site.id, "0" * 8 + site.id[8:]), site.key, {"If-None-Match": "*"}
    )
    assert (unknown.status, "ETag" in unknown.headers) == (404, False)
    without = site.sync_app.get(site.path(question), None, {"If-None-Match": "*"})
    assert (without.status, "ETag" in without.headers) == (401, False)
    if question not in FIXED:
        refused = again(site, question, "*")
        assert (refused.status, "ETag" in refused.headers) == (400, False)


async def test_tags_change_with_a_restart(make_app: MakeApp) -> None:
    """The change counter is kept in memory: a tag from before a restart must not match."""
    app = await make_app()
    website, key = await app.website(), await app.key()
    path = f"/api/v1/websites/{website}/stats?from={DAY}&to={DAY}"
    tag = (await app.get(path, key)).headers["ETag"]
    await app.collect(view("10:00:00") | {"website_id": website})
    await app.restart()
    answer = await app.get(path, key, headers={"If-None-Match": tag})
    assert (answer.status, answer.json["data"]["pageviews"]) == (200, 1)
