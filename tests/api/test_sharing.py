"""Options of share links: origins of frames, a password, fixed filters, hidden events, badges."""

import re
import secrets
from typing import Any
from xml.etree import ElementTree

import pytest

from tally.accounts.share_links import MAX_LINKS
from tally.api.badges import CounterParameters, counter_svg
from tally.api.reports import REPORTS, Access, Report
from tests.support.app import Answer, App, ManualClock
from tests.support.cases import cases
from tests.support.page_client import LINK, PageClient, logged_in

PASSWORD = "a password for the link"
DAY = "from=2026-11-18&to=2026-11-18"
NO_OPTIONS = {"has_password": False, "origins": [], "filters": [], "hide_events": False, "badges": False}


class Shared:
    """A website with a share link: three pageviews of two visitors on /a, one of a third on /b."""

    def __init__(self, app: App) -> None:
        self.app = app

    async def fill(self) -> None:
        self.owner, self.guest = await logged_in(self.app), PageClient(self.app, ip="198.51.100.7")
        self.website = await self.app.website()
        self.links = f"/api/account/websites/{self.website}/share-links"
        made = (await self.owner("POST", self.links, LINK)).json["data"]
        self.path, self.settings = made["path"], f"{self.links}/{made['id']}"
        self.api = f"/api{self.path}"
        for who, page in (("ann", "a"), ("ann", "a"), ("bob", "a"), ("cleo", "b")):
            sent = {"type": "pageview", "url": f"https://example.com/{page}", "session_id": f"session-of-{who}"}
            assert (await self.app.collect(sent | {"website_id": self.website})).status == 202

    async def change(self, **options: Any) -> Answer:
        return await self.owner("PATCH", self.settings, options)

    async def set(self, **options: Any) -> None:
        answer = await self.change(**options)
        assert answer.status == 200, answer.text

    async def read(self, path: str, client: PageClient | None = None) -> Answer:
        return await (client or self.guest)("GET", f"{self.api}{path}")


@pytest.fixture
async def shared(app: App) -> Shared:
    shared = Shared(app)
    await shared.fill()
    return shared


def refused(answer: Answer, status: int, code: str, field: str | None = None) -> None:
    assert (answer.status, answer.json["error"]["code"]) == (status, code), answer.text
    assert answer.json["error"].get("field") == field, answer.text


# --- options


async def test_options_are_set_one_by_one_and_kept(shared: Shared) -> None:
    """PATCH changes what is sent; another token keeps the options, and a revoked link has none."""
    data = (await shared.change()).json["data"]
    assert data.items() >= ({"name": "Readers", "path": shared.path} | NO_OPTIONS).items()
    changes: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"origins": ["https://Partner.example:443"]}, {"origins": ["https://partner.example"]}),
        ({"filters": ["filter_country=DE", "filter_pathname^=/a"]}, {}),
        ({"hide_events": True}, {}),
        ({"name": "Partners"}, {}),
        ({"badges": True}, {}),
        ({"password": PASSWORD}, {"password": None, "has_password": True}),
    ]
    expected: dict[str, Any] = dict(NO_OPTIONS)
    for sent, shown in changes:
        expected |= {name: value for name, value in (sent | shown).items() if name != "password"}
        answer = await shared.change(**sent)
        assert answer.json["data"].items() >= expected.items()
        assert PASSWORD not in answer.text
    await shared.app.restart()
    website = (await shared.owner("GET", f"/api/account/websites/{shared.website}")).json["data"]
    assert website["share_links"][0].items() >= expected.items()
    again = (await shared.change(new_address=True)).json["data"]
    assert again == website["share_links"][0] | {"path": again["path"]}
    assert again["path"] != shared.path
    refused(await shared.read(""), 404, "unknown_share_link")
    await shared.owner("DELETE", shared.settings)
    new = (await shared.owner("POST", shared.links, {"name": "Readers"})).json["data"]
    assert new.items() >= (NO_OPTIONS | {"hide_events": True}).items()
    assert new["path"] not in (shared.path, again["path"])
    stored = str(shared.app.sql("select * from share_link"))
    assert PASSWORD not in stored


async def test_links_have_options_of_their_own(shared: Shared) -> None:
    """What one link fixes, hides or asks for is none of another link's; nor does its cookie open another one."""
    await shared.set(password=PASSWORD, filters=["filter_pathname=/a"], hide_events=True)
    other = (await shared.owner("POST", shared.links, {"name": "Team", "hide_events": False})).json["data"]
    assert (await shared.guest("GET", f"/api{other['path']}/events?{DAY}")).status == 200
    assert (await shared.guest("GET", f"/api{other['path']}/stats?{DAY}")).json["data"]["pageviews"] == 4
    await shared.owner("PATCH", f"{shared.links}/{other['id']}", {"password": PASSWORD})
    assert (await shared.guest("POST", f"{shared.api}/password", {"password": PASSWORD})).status == 204
    assert (await shared.read(f"/stats?{DAY}")).json["data"]["pageviews"] == 3
    refused(await shared.guest("GET", f"/api{other['path']}/stats"), 401, "share_password_required")
    refused(await shared.read("/events"), 403, "not_shared")


async def test_a_link_of_another_website_is_unknown(shared: Shared) -> None:
    other = await shared.app.website("other.example")
    id = shared.settings.rpartition("/")[2]
    for path in (f"/api/account/websites/{other}/share-links/{id}", f"{shared.links}/{'0' * 16}"):
        refused(await shared.owner("PATCH", path, {"badges": True}), 404, "unknown_share_link")
        refused(await shared.owner("DELETE", path), 404, "unknown_share_link")
    assert (await shared.change()).json["data"]["badges"] is False


async def test_a_website_has_a_limited_number_of_links(shared: Shared) -> None:
    for n in range(1, MAX_LINKS):
        assert (await shared.owner("POST", shared.links, {"name": f"Link {n}"})).status == 201
    full = await shared.owner("POST", shared.links, {"name": "One more"})
    refused(full, 409, "too_many_share_links")
    await shared.owner("DELETE", shared.settings)
    assert (await shared.owner("POST", shared.links, {"name": "One more"})).status == 201


async def test_null_hides_single_events(shared: Shared) -> None:
    await shared.set(hide_events=False)
    assert (await shared.change(hide_events=None)).json["data"]["hide_events"] is True


@cases(
    ("sent", "field"),
    [
        ({"origins": "https://a.example"}, "origins"),
        ({"origins": ["a.example"]}, "origins"),
        ({"origins": ["https://a.example/path"]}, "origins"),
        ({"origins": ["https://a.example; script-src *"]}, "origins"),
        ({"origins": ["https://a.example https://b.example"]}, "origins"),
        ({"origins": ["https://*.example"]}, "origins"),
        ({"origins": ["*"]}, "origins"),
        ({"origins": ["https://[::1]"]}, "origins"),
        ({"origins": ["capacitor://localhost"]}, "origins"),
        ({"origins": ["https://a.example"] * 51}, "origins"),
        ({"password": "too short"}, "password"),
        ({"password": "x" * 201}, "password"),
        ({"password": 7}, "password"),
        ({"filters": "filter_country=DE"}, "filters"),
        ({"filters": ["country=DE"]}, "filters"),
        ({"filters": ["filter_nonsense=DE"]}, "filters"),
        ({"filters": ["filter_type=vitals"]}, "filters"),
        ({"filters": ["filter_country=DE"] * 21}, "filters"),
        ({"hide_events": "yes"}, "hide_events"),
        ({"name": ""}, "name"),
        ({"name": "x" * 101}, "name"),
        ({"name": "a\nb"}, "name"),
        ({"name": None}, "name"),
        ({"new_address": 1}, "new_address"),
        ({"badges": 1}, "badges"),
        ({"colour": "red"}, "colour"),
    ],
    ids=lambda value: str(value)[:60],
)
async def test_invalid_options(shared: Shared, sent: dict[str, Any], field: str) -> None:
    refused(await shared.change(**sent), 400, "invalid_field", field)
    data = (await shared.change()).json["data"]
    assert data.items() >= ({"name": "Readers", "path": shared.path} | NO_OPTIONS).items()


# --- frames


async def test_origins_may_show_the_page_in_a_frame(shared: Shared) -> None:
    """The page's policy names the origins; other pages, and links without origins, stay at 'none'."""

    async def ancestors(path: str) -> str:
        answer = await shared.guest("GET", path)
        assert "X-Frame-Options" not in answer.headers
        (found,) = re.findall("frame-ancestors ([^;]*)", answer.headers["Content-Security-Policy"])
        return str(found)

    assert await ancestors(shared.path) == "'none'"
    before = (await shared.guest("GET", shared.path)).headers["ETag"]
    await shared.set(origins=["https://partner.example", "http://localhost:5173", "https://partner.example"])
    assert await ancestors(shared.path) == "https://partner.example http://localhost:5173"
    answer = await shared.guest("GET", shared.path, headers={"If-None-Match": before})
    assert (answer.status, answer.headers["Cache-Control"]) == (200, "private, no-cache")
    for path in ("/", f"/share/{'x' * 24}", f"/websites/{shared.website}", shared.api, f"{shared.api}/stats"):
        assert await ancestors(path) == "'none'"
    await shared.set(origins=[])
    assert await ancestors(shared.path) == "'none'"


# --- fixed filters and hidden events

BY_LINK = [report for report in REPORTS if Access.LINK in report.access]


def path_of(report: Report[Any]) -> str:
    """Return the path of a report, with a query of what it requires."""
    return f"/{report.path.format(field='pathname')}?{'fields=os,pathname' if report.path == 'top' else ''}"


@cases("report", BY_LINK, ids=lambda report: report.name)
async def test_every_report_applies_fixed_filters_or_is_refused(shared: Shared, report: Report[Any]) -> None:
    """A report equals the same one with the filters in its query; one that takes no filters is refused, unless it
    does not depend on events."""
    path = path_of(report)
    if not report.takes_filters:
        await shared.set(filters=["filter_pathname=/a"])
        answer = await shared.read(path)
        if report.depends_on_events:
            return refused(answer, 403, "not_shared")
        assert answer.status == 200
        return None
    query = f"{path}&{DAY}"
    await shared.set(filters=[])
    unfiltered = (await shared.read(query)).json["data"]
    filtered = (await shared.read(f"{query}&filter_pathname=/a&filter_country=")).json["data"]
    tag = (await shared.read(query)).headers["ETag"]
    await shared.set(filters=["filter_pathname=/a", "filter_country="])
    for more in ("", "&filter_pathname=/a", "&filter_pathname!=/b"):
        fixed = await shared.read(query + more)
        assert fixed.json["data"] == filtered, more
        if report.columns:
            csv = await shared.read(f"{query}{more}&format=csv")
            assert "/b" not in csv.text
    if report.name not in ("event-names", "changes"):  # there are none
        assert filtered != unfiltered
    again = await shared.guest("GET", f"{shared.api}{query}", headers={"If-None-Match": tag})
    assert again.status == 200
    # Another value of the same field does not replace the fixed one.
    other = await shared.read(f"{query}&filter_pathname=/b")
    await shared.set(filters=[])
    nothing = await shared.read(f"{query}&filter_pathname=/nowhere")
    assert other.json["data"] == nothing.json["data"]
    return None


async def test_the_link_names_what_it_fixes(shared: Shared) -> None:
    await shared.set(filters=["filter_pathname^=/a", "filter_country=DE", "filter_country=FR"], hide_events=True)
    data = (await shared.read("")).json["data"]
    assert data["filters"] == {"pathname^": ["/a"], "country": ["DE", "FR"]}
    assert data["hides_events"] is True
    # The owner's own reports are not filtered.
    own = await shared.owner("GET", f"/api/account/websites/{shared.website}/stats?{DAY}")
    assert own.json["data"]["pageviews"] == 4


@cases("report", BY_LINK, ids=lambda report: report.name)
async def test_hidden_events_are_refused_and_nothing_else(shared: Shared, report: Report[Any]) -> None:
    await shared.set(hide_events=True)
    answer = await shared.read(path_of(report))
    if report.name == "events":
        refused(answer, 403, "not_shared")
        own = await shared.owner("GET", f"/api/account/websites/{shared.website}/events")
        assert own.status == 200
    else:
        assert answer.status == 200


async def test_a_cursor_of_before_reads_under_the_filters_of_now(shared: Shared) -> None:
    first = (await shared.read(f"/events?{DAY}&limit=1")).json["meta"]["next_cursor"]
    await shared.set(filters=["filter_pathname=/a"])
    rows = (await shared.read(f"/events?{DAY}&cursor={first}")).json["data"]
    assert {row["pathname"] for row in rows} == {"/a"}


# --- the password


@cases("path", ["", *map(path_of, BY_LINK)])
async def test_a_password_is_asked_for_by_everything(shared: Shared, path: str) -> None:
    await shared.set(password=PASSWORD)
    visitor = PageClient(shared.app, ip="198.51.100.9")
    refused(await shared.read(path, visitor), 401, "share_password_required")
    assert (await visitor("POST", f"{shared.api}/password", {"password": PASSWORD})).status == 204
    answer = await shared.read(path, visitor)
    assert answer.status == 200
    if path:
        assert answer.headers["Vary"] == "Accept, Cookie"


async def test_the_cookie_is_of_the_link_alone_and_ends(shared: Shared, clock: ManualClock) -> None:
    await shared.set(password=PASSWORD)
    wrong = await shared.guest("POST", f"{shared.api}/password", {"password": "another password"})
    refused(wrong, 401, "wrong_share_password", "password")
    assert not shared.guest.set_cookies
    assert (await shared.guest("POST", f"{shared.api}/password", {"password": PASSWORD})).status == 204
    (line,) = shared.guest.set_cookies
    value = shared.guest.cookies["tally-share"]
    assert line == f"tally-share={value}; Path={shared.api}; Max-Age=43200; HttpOnly; SameSite=Strict"
    assert (await shared.read("/stats")).status == 200
    for bad in ("", "x", f"{value}0", value.replace(".", ""), f"9{value}", "9" * 400, value[:-1] + "é"):
        shared.guest.cookies["tally-share"] = bad
        refused(await shared.read("/stats"), 401, "share_password_required")
    shared.guest.cookies["tally-share"] = value
    await shared.app.restart()
    assert (await shared.read("/stats")).status == 200
    clock.advance(12 * 3600)
    refused(await shared.read("/stats"), 401, "share_password_required")


async def test_another_password_or_token_ends_access(shared: Shared) -> None:
    await shared.set(password=PASSWORD)
    await shared.guest("POST", f"{shared.api}/password", {"password": PASSWORD})
    await shared.set(password=PASSWORD + "!")
    refused(await shared.read("/stats"), 401, "share_password_required")
    await shared.guest("POST", f"{shared.api}/password", {"password": PASSWORD + "!"})
    assert (await shared.read("/stats")).status == 200
    shared.api = f"/api{(await shared.change(new_address=True)).json['data']['path']}"
    refused(await shared.read("/stats"), 401, "share_password_required")
    await shared.set(password=None)
    assert (await shared.read("/stats", PageClient(shared.app))).status == 200
    assert (await shared.guest("POST", f"{shared.api}/password", {"password": "x"})).status == 204
    assert not shared.guest.set_cookies


HTTPS = {"X-Forwarded-Proto": "https"}


@cases(("origins", "site"), [([], "Strict; Secure"), (["https://a.example"], "None; Secure; Partitioned")])
async def test_the_cookie_over_https(shared: Shared, origins: list[str], site: str) -> None:
    """In frames of other sites the cookie is sent over https, partitioned by the site."""
    await shared.set(password=PASSWORD, origins=origins)
    answer = await shared.guest("POST", f"{shared.api}/password", {"password": PASSWORD}, headers=HTTPS)
    assert answer.status == 204
    assert shared.guest.set_cookies[0].endswith(f"; HttpOnly; SameSite={site}")


async def test_tries_are_limited_by_link_and_address(shared: Shared, clock: ManualClock) -> None:
    """Ten wrong passwords in a minute; other addresses, and signing in from the same one, are not concerned."""
    await shared.set(password=PASSWORD)

    async def attempt(client: PageClient, password: str) -> int:
        return (await client("POST", f"{shared.api}/password", {"password": password})).status

    assert [await attempt(shared.guest, secrets.token_hex(8)) for _ in range(11)] == [401] * 10 + [429]
    assert await attempt(shared.guest, PASSWORD) == 429
    assert await attempt(PageClient(shared.app, ip="198.51.100.8"), PASSWORD) == 204
    assert (await shared.guest.log_in()).status == 200
    clock.advance(60 * 60)
    assert [await attempt(shared.guest, PASSWORD) for _ in range(20)] == [204] * 20


@cases(
    ("sent", "headers", "status", "code"),
    [
        (b"[", {}, 400, "invalid_json"),
        ({"password": 1}, {}, 400, "invalid_field"),
        ({}, {}, 400, "invalid_field"),
        ({"password": PASSWORD, "x": 1}, {}, 400, "invalid_field"),
        ({"password": "x" * 60_000}, {}, 401, "wrong_share_password"),
        ({"password": "\ud800" * 20}, {}, 401, "wrong_share_password"),
        ({"password": PASSWORD}, {"Content-Type": "text/plain"}, 415, "unsupported_media_type"),
        ({"password": PASSWORD}, {"Sec-Fetch-Site": "cross-site"}, 403, "cross_site"),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_invalid_passwords(shared: Shared, sent: Any, headers: dict[str, Any], status: int, code: str) -> None:
    await shared.set(password=PASSWORD)
    answer = await shared.guest("POST", f"{shared.api}/password", sent, headers=headers)
    assert (answer.status, answer.json["error"]["code"]) == (status, code)


# --- badges

SVG = "{http://www.w3.org/2000/svg}"


def texts(answer: Answer) -> tuple[str, list[str]]:
    """Return the title and the texts of an image."""
    assert answer.status == 200, answer.text
    root = ElementTree.fromstring(answer.text)
    assert root.tag == f"{SVG}svg"
    title = root.findtext(f"{SVG}title") or ""
    assert root.get("role") == "img"
    assert root.get("aria-label") == title
    return title, [one.text or "" for one in root.iter(f"{SVG}text")]


@cases("image", ["badge", "counter"])
async def test_badges_are_off_until_they_are_allowed(shared: Shared, image: str) -> None:
    await shared.set(badges=False)
    answer = await shared.read(f"/{image}.svg")
    refused(answer, 403, "not_shared")
    assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
    await shared.set(badges=True)
    answer = await shared.read(f"/{image}.svg")
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "image/svg+xml"
    assert answer.headers["Cache-Control"] == "public, max-age=300"
    assert answer.headers["Cross-Origin-Resource-Policy"] == "cross-origin"
    assert answer.headers["Content-Security-Policy"] == "default-src 'none'; frame-ancestors 'none'; sandbox"


@cases(
    ("path", "title", "shown"),
    [
        ("badge.svg", "Visitors in the last 30 days: 3", ["Visitors", "3"]),
        ("counter.svg", "Pageviews in total: 4", ["4", "Pageviews"]),
        ("badge.svg?metric=pageviews&period=7d", "Pageviews in the last 7 days: 4", ["Pageviews", "4"]),
        ("badge.svg?period=day", "Visitors today: 3", ["Visitors", "3"]),
        ("counter.svg?period=12m", "Pageviews in the last 12 months: 4", ["4", "Pageviews"]),
        ("badge.svg?label=Readers%20%26%20%3Cb%3E%22%27", "Visitors in the last 30 days: 3", ["Readers & <b>\"'", "3"]),
        ("counter.svg?label=%E8%A8%AA%E5%95%8F", "Pageviews in total: 4", ["4", "訪問"]),
    ],
)
async def test_figures_of_badges(shared: Shared, path: str, title: str, shown: list[str]) -> None:
    await shared.set(badges=True)
    assert texts(await shared.read(f"/{path}")) == (title, shown)


@cases(
    ("query", "field"),
    [
        ("period=year", "period"),
        ("metric=events", "metric"),
        ("metric=visitors&metric=visitors", "metric"),
        ("label=", "label"),
        ("label=" + "x" * 41, "label"),
        ("label=a%0Ab", "label"),
        ("label=%E2%80%AE", "label"),
        ("label=%EF%BF%BE", "label"),
        ("label=%FF", "query"),
        ("filter_country=DE", "filter_country"),
        ("colour=red", "colour"),
    ],
)
async def test_parameters_of_badges_are_checked(shared: Shared, query: str, field: str) -> None:
    await shared.set(badges=True)
    refused(await shared.read(f"/badge.svg?{query}"), 400, "invalid_parameter", field)


async def test_badges_apply_fixed_filters_and_need_no_password(shared: Shared) -> None:
    await shared.set(badges=True)
    assert texts(await shared.read("/badge.svg"))[1] == ["Visitors", "3"]
    await shared.set(filters=["filter_pathname=/a"], password=PASSWORD, hide_events=True)
    assert texts(await shared.read("/badge.svg"))[1] == ["Visitors", "2"]
    refused(await shared.read("/stats"), 401, "share_password_required")


async def test_figures_of_badges_are_computed_once_in_five_minutes(shared: Shared, clock: ManualClock) -> None:
    await shared.set(badges=True)
    assert texts(await shared.read("/counter.svg"))[1] == ["4", "Pageviews"]
    sent = {"type": "pageview", "url": "https://example.com/a", "website_id": shared.website}
    assert (await shared.app.collect(sent)).status == 202
    clock.advance(299)
    assert texts(await shared.read("/counter.svg?label=x"))[1] == ["4", "x"]
    clock.advance(1)
    assert texts(await shared.read("/counter.svg"))[1] == ["5", "Pageviews"]


def test_long_figures_fit_their_images() -> None:
    assert CounterParameters.__dataclass_fields__.keys() == {"metric", "period", "label"}
    for figure in ("0", "1,234", "12,345,678,901"):
        root = ElementTree.fromstring(counter_svg("title", "W" * 40, figure))
        assert all(
            int(one.get("textLength") or 0) <= int(root.get("width") or 0) - 16 for one in root.iter(f"{SVG}text")
        )
