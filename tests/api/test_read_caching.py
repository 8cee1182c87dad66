"""ETag and If-None-Match of the read API.

docs/reference/read-api.md, Caching: `ETag` is a hash of the request and of the website's change counter;
`If-None-Match` gives 304. A default range moves with now, so its answer is another one each time.
"""

from collections.abc import Iterator

import pytest

from tally.web.components import Engine
from tests.support.app import NOON_MS, Answer, MakeApp
from tests.support.cases import cases
from tests.support.read_api import DAY, ENDPOINTS, Site, SyncApp, sync_app_at, view

FIXED = (
    *(f"{endpoint}?from={DAY}&to={DAY}" for endpoint in ("stats", "timeseries", "top/pathname", "events")),
    f"stats?from={DAY}&to={DAY}&compare=previous",
    f"top/os?from={DAY}&to={DAY}&format=csv",
    "realtime",
)


@pytest.fixture(scope="module")
def sync_app(tmp_path_factory: pytest.TempPathFactory, engine: Engine) -> Iterator[SyncApp]:
    with sync_app_at(tmp_path_factory.mktemp("read") / "analytics.db", engine) as opened:
        yield opened


@pytest.fixture
def site(sync_app: SyncApp) -> Site:
    sync_app.clock.set_wall(NOON_MS)
    site = sync_app.site()
    site.send(view("10:00:00"))
    return site


def again(site: Site, question: str, tag: str, method: str = "GET") -> Answer:
    return site.ask(question, {"If-None-Match": tag}, method)


def tag_of(site: Site, question: str) -> str:
    return site.ask(question).headers["ETag"]


@cases("method", ["GET", "HEAD"])
@cases("question", FIXED)
def test_the_same_question_again_is_304(site: Site, question: str, method: str) -> None:
    """`If-None-Match` gives 304, which has no body and has the RateLimit headers on every answer."""
    tag = tag_of(site, question)
    answer = again(site, question, tag, method)
    assert (answer.status, answer.body) == (304, b"")
    assert answer.headers["ETag"] == tag
    assert {"RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"} <= set(answer.headers)
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    assert "Content-Type" not in answer.headers or not answer.body


@pytest.mark.parametrize("form", ["{0}", "W/{0}", '"other", {0}', '"other", W/{0}, "more"', "*"])
def test_the_forms_of_if_none_match(site: Site, form: str) -> None:
    """RFC 9110, 13.1.2: a list, weak comparison, or `*`."""
    tag = tag_of(site, FIXED[0])
    assert again(site, FIXED[0], form.format(tag)).status == 304


@cases("tag", ['"other"', 'W/"other"', "", "garbage", '"', '""', "\u00ff", '"*"', '"a", *', "W/", "**"])
def test_another_tag_gets_the_answer(site: Site, tag: str) -> None:
    """RFC 9110, 13.1.2: only the tag itself, or `*` alone, is a match."""
    answer = again(site, FIXED[0], tag)
    assert (answer.status, answer.json["data"]["pageviews"]) == (200, 1)


@pytest.mark.parametrize("question", FIXED)
def test_an_event_changes_the_tag(site: Site, question: str) -> None:
    """The tag is a hash of the website's change counter: an event of this website changes it."""
    tag = tag_of(site, question)
    site.send(view("11:00:00", "/new", "bob"))
    answer = again(site, question, tag)
    assert answer.status == 200
    assert answer.headers["ETag"] != tag


@pytest.mark.parametrize("question", FIXED)
def test_another_websites_event_does_not(site: Site, question: str) -> None:
    """Of the website's change counter, not of all websites."""
    other = site.sync_app.site()
    tag = tag_of(site, question)
    other.send(view("11:00:00"))
    assert again(site, question, tag).status == 304


def test_each_question_has_a_tag_of_its_own(site: Site) -> None:
    """A hash of the question: whatever changes the answer changes the tag."""
    range_ = f"from={DAY}&to={DAY}"
    questions = [
        *FIXED,
        f"stats?from={DAY}&to=2026-11-18",
        f"stats?from=2026-11-16&to={DAY}",
        f"stats?{range_}&tz=Europe/Berlin",
        # the same range as the dates', but compared with another
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


def test_accept_is_part_of_the_question(site: Site) -> None:
    """`Accept: text/csv` or `format=csv`: two shapes, two tags, and caches are told by Vary."""
    question = f"top/pathname?from={DAY}&to={DAY}"
    as_json, as_csv = site.ask(question), site.ask(question, {"Accept": "text/csv"})
    assert as_json.headers["ETag"] != as_csv.headers["ETag"]
    assert site.ask(question, {"Accept": "text/csv", "If-None-Match": as_json.headers["ETag"]}).status == 200
    assert {name.strip() for name in as_json.headers["Vary"].split(",")} >= {"Accept", "Authorization"}
    assert "private" in as_json.headers["Cache-Control"]


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_a_moving_range_moves_the_tag(site: Site, endpoint: str) -> None:
    """The last 7 days up to now: a millisecond later it is another range."""
    tag = tag_of(site, endpoint)
    assert again(site, endpoint, tag).status == 304
    site.sync_app.clock.set_wall(NOON_MS + 1)
    assert again(site, endpoint, tag).status == 200


def test_the_list_of_websites_has_a_tag(sync_app: SyncApp) -> None:
    """`ETag` on /websites too: a new website of the account changes it, an event does not."""
    sync_app.clock.set_wall(NOON_MS)
    account = "tag@example.com"
    site = sync_app.site("a.example.com", account)
    tag = sync_app.get("/api/v1/websites", site.key).headers["ETag"]
    site.send(view("10:00:00"))
    again = sync_app.get("/api/v1/websites", site.key, {"If-None-Match": tag})
    assert (again.status, again.body) == (304, b"")
    sync_app.site("b.example.com", account)
    assert len(sync_app.get("/api/v1/websites", site.key, {"If-None-Match": tag}).json["data"]) == 2


REFUSED = ("stats?limit=1", "top/nothing", "events?cursor=x", "timeseries?from=1970-01-01&to=2100-12-31&interval=hour")


@cases("question", [*FIXED, *REFUSED])
def test_a_refusal_is_never_304(site: Site, question: str) -> None:
    """304 stands for an answer 200: a refusal is said each time and has no ETag."""
    unknown = site.sync_app.get(
        site.path(question).replace(site.id, "0" * 8 + site.id[8:]), site.key, {"If-None-Match": "*"}
    )
    assert (unknown.status, "ETag" in unknown.headers) == (404, False)
    without = site.sync_app.get(site.path(question), None, {"If-None-Match": "*"})
    assert (without.status, "ETag" in without.headers) == (401, False)
    if question not in FIXED:
        refused = again(site, question, "*")
        assert (refused.status, "ETag" in refused.headers) == (400, False)


async def test_a_tag_does_not_outlive_the_process(make_app: MakeApp) -> None:
    """The change counter is the process's: after a restart the same tag must not hide what came between."""
    app = await make_app()
    website, key = await app.website(), await app.key()
    path = f"/api/v1/websites/{website}/stats?from={DAY}&to={DAY}"
    tag = (await app.get(path, key)).headers["ETag"]
    await app.collect(view("10:00:00") | {"website_id": website})
    await app.restart()
    answer = await app.get(path, key, headers={"If-None-Match": tag})
    assert (answer.status, answer.json["data"]["pageviews"]) == (200, 1)
