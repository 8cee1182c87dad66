"""Titles of pages: stored once for a path, shown beside it, bounded in what anyone can write.

docs/reference/collect-api.md, "Page titles".
"""

import csv
import io
import json
from typing import Any

import pytest

from tally.maintenance import deletion, retention
from tests.support.app import App, MakeApp
from tests.support.page_client import LINK, PageClient, logged_in
from tests.support.read_api import view

LISTS = ("top/pathname", "top/entry_page", "top/exit_page", "entry-pages", "exit-pages")
DAYS = "from=2026-11-15&to=2026-11-18"
PAGE = {"Origin": "https://example.com"}


class Titled:
    """A website whose titles are read."""

    def __init__(self, app: App, website: str, key: str) -> None:
        self.app, self.website, self.key = app, website, key

    async def send(self, *events: dict[str, Any]) -> Any:
        answer = await self.app.collect({"website_id": self.website, "events": list(events)})
        assert (answer.status, answer.json["accepted"]) == (202, len(events)), answer.text
        return answer.json.get("warnings", [])

    async def rows(self, report: str = "top/pathname", more: str = "") -> list[dict[str, Any]]:
        path = f"/api/v1/websites/{self.website}/{report}?{DAYS}{more}"
        return (await self.app.get(path, self.key)).json["data"]  # type: ignore[no-any-return]

    async def titles(self) -> dict[str, str | None]:
        return {row["value"]: row.get("title") for row in await self.rows()}


@pytest.fixture
async def titled(app: App) -> Titled:
    return Titled(app, await app.website(), await app.key())


@pytest.mark.parametrize("more", ["", "&compare=previous"])
@pytest.mark.parametrize("report", LISTS)
async def test_rows_of_pages_have_the_title(titled: Titled, report: str, more: str) -> None:
    """Where the page has one; other fields have none, and neither has CSV."""
    await titled.send(view("10:00:00", "/", "ann", title="Home"), view("10:00:00", "/plain", "bob"))
    rows = {row["value"]: row for row in await titled.rows(report, more)}
    assert rows["/"]["title"] == "Home"
    assert "title" not in rows["/plain"]
    assert "title" not in rows["/"].get("previous", {})
    both = await titled.rows("top", "&fields=pathname,hostname")
    assert [[row.get("title") for row in one["data"]] for one in both] == [["Home", None], [None]]
    path = f"/api/v1/websites/{titled.website}/{report}?{DAYS}{more}&format=csv"
    table = list(csv.reader(io.StringIO((await titled.app.get(path, titled.key)).text)))
    assert "title" not in table[0]
    assert {len(row) for row in table} == {len(table[0])}


async def test_the_newest_pageview_decides(titled: Titled) -> None:
    """By its timestamp, and a stored title is replaced by one that is an hour newer."""
    await titled.send(view("10:00:00", "/a", title="First"))
    await titled.send(view("10:59:59", "/a", title="Too soon"), view("09:00:00", "/a", title="Late"))
    assert await titled.titles() == {"/a": "First"}
    await titled.send(view("12:00:00", "/a", title="Newer"), view("11:00:00", "/a", title="Of the same request"))
    assert await titled.titles() == {"/a": "Newer"}
    await titled.send(view("14:00:00", "/a"), view("14:00:01", "/a", title=None))
    assert await titled.titles() == {"/a": "Newer"}, "a pageview without a title changes nothing"
    await titled.send(view("15:00:00", "/a", title=""))
    assert await titled.titles() == {"/a": None}
    await titled.send(view("16:00:00", "/a", title="Again"))
    assert await titled.titles() == {"/a": "Again"}
    assert [row["pageviews"] for row in await titled.rows()] == [9]


async def test_an_unchanged_title_writes_nothing(titled: Titled) -> None:
    """Neither does one that is replaced too soon; a page without a title has no row."""
    for minute in range(50):
        await titled.send(view(f"10:{minute:02}:00", "/a", title=f"Title {minute % 7}"))
    assert titled.app.sql("select title, ts % 86400000 / 3600000 from page_title") == [("Title 0", 10)]
    await titled.send(view("15:00:00", "/a", title="Title 0"), view("15:00:00", "/b", title=" \n "))
    assert titled.app.sql("select title, ts % 86400000 / 3600000 from page_title") == [("Title 0", 10)]


TITLES: dict[str, tuple[Any, str | None, list[str]]] = {
    "white space": ("  A \n\t title\u00a0! ", "A title !", []),
    "the longest": ("\U0001f600" * 200, "\U0001f600" * 200, []),
    "too long": ("x" * 201, "x" * 200, ["value_cut"]),
    "much too long": ("x " * 20_000, ("x " * 100).strip() + " ", ["value_cut"]),
    "nothing but spaces": (" " * 30_000 + "x", None, []),
    "a number": (5, None, ["without_title"]),
    "a list": (["a"], None, ["without_title"]),
    "an object": ({"a": 1}, None, ["without_title"]),
    "NUL": ("a\0b", None, ["without_title"]),
    "false": (False, None, ["without_title"]),
}


@pytest.mark.parametrize("name", TITLES)
async def test_a_title_never_refuses_its_event(titled: Titled, name: str) -> None:
    sent, stored, warnings = TITLES[name]
    found = await titled.send(view("10:00:00", "/a", title=sent))
    assert [(one["code"], one["field"]) for one in found] == [(code, "title") for code in warnings]
    assert await titled.titles() == {"/a": stored and stored[:200]}


async def test_half_a_character_is_replaced(titled: Titled) -> None:
    body = json.dumps({"website_id": titled.website, "type": "pageview", "url": "https://example.com/a"})
    answer = await titled.app.collect(body[:-1] + ', "title": "cut \\ud83d"}', headers=PAGE)
    assert answer.status == 202
    assert await titled.titles() == {"/a": "cut \ufffd"}


async def test_only_pageviews_have_titles(titled: Titled) -> None:
    fields = {"session_id": "session-of-ann", "title": "No", "url": "https://example.com/a"}
    await titled.send(
        {"type": "event", "event_name": "e", **fields},
        {"type": "screen_view", "name": "a", **fields},
        {"type": "vitals", "lcp": 5, **fields},
    )
    assert titled.app.sql("select count(*) from page_title") == [(0,)]


async def test_a_path_that_is_not_stored_has_no_title(make_app: MakeApp) -> None:
    """Beyond the limit of new values, so that titles are as few as paths."""
    app = await make_app(max_new_values=3)
    titled = Titled(app, await app.website(), await app.key())
    for n in range(9):
        await titled.send(view(app.clock.wall_ms() + n, f"/{n}", title=f"Title {n}"))
    assert await titled.titles() == {"/0": "Title 0", "/1": "Title 1", "/2": "Title 2", "(other)": None}
    assert app.sql("select count(*) from page_title") == [(3,)]


async def test_a_copy_changes_no_title(titled: Titled) -> None:
    """A title is no content of an event: a copy with another one is a copy."""
    await titled.send(view("10:00:00", "/a", title="First", event_id="1"))
    await titled.send(view("13:00:00", "/a", title="Second", event_id="1"))
    assert [(row["pageviews"], row["title"]) for row in await titled.rows()] == [(1, "First")]


async def test_share_links_show_no_titles(titled: Titled) -> None:
    owner, guest = await logged_in(titled.app), PageClient(titled.app, ip="198.51.100.7")
    await titled.send(view("10:00:00", "/a", title="Order of Ann"))
    share = await owner("POST", f"/api/account/websites/{titled.website}/share-links", LINK)
    for report in (*LISTS, "top?fields=pathname"):
        path = f"{report}{'&' if '?' in report else '?'}{DAYS}"
        answer = await guest("GET", f"/api{share.json['data']['path']}/{path}")
        assert "/a" in answer.text
        assert "Ann" not in answer.text
        own = await titled.app.get(f"/api/v1/websites/{titled.website}/{path}", titled.key)
        assert "Order of Ann" in own.text


@pytest.mark.parametrize("by", ["retention", "deletion of the website"])
async def test_titles_are_deleted_with_events(titled: Titled, by: str) -> None:
    await titled.send(view("10:00:00", "/a", title="A"), view("11:00:00", "/b", title="B"))

    def delete(connection: Any) -> None:
        day = view("10:00:00")["timestamp"] // 86_400_000
        # Those of the day itself are kept by retention.
        retention.delete_some(connection, 1, day)
        assert connection.execute("select count(*) from page_title").fetchone() == (2,)
        while (
            retention.delete_some(connection, 1, day + 1) if by == "retention" else deletion.delete_rows(connection, 1)
        ):
            pass

    await titled.app.admin(delete)
    assert titled.app.sql("select (select count(*) from event), (select count(*) from page_title)") == [(0, 0)]


async def test_a_title_alone_keeps_the_text_of_its_path(titled: Titled) -> None:
    """Otherwise another path could get its number, and with it the title."""
    await titled.send(view("10:00:00", "/a", title="A"))

    def unused(connection: Any) -> set[str]:
        connection.execute("delete from event")
        connection.execute("delete from visit")
        connection.execute("delete from field_value")
        scan = deletion.LabelScan(connection, lambda: False)
        while scan.step(connection):
            pass
        labels = (
            {label for (label,) in connection.execute("select id from label")} - {0, 1} - {*scan.unused(connection)}
        )
        return {
            text for label in labels for (text,) in connection.execute(f"select text from label where id = {label}")
        }

    assert "/a" in await titled.app.admin(unused)


async def test_titles_of_other_formats(titled: Titled) -> None:
    """Umami's script sends the title, and GoatCounter's; one that is empty there says nothing."""
    app, website = titled.app, titled.website
    payload = {"website": website, "url": "https://example.com/umami", "title": "Of Umami"}
    assert (await app.collect({"type": "event", "payload": payload}, headers=PAGE, path="/api/send")).status == 200
    for path, title in (("/goat", "Of%20GoatCounter"), ("/goat", ""), ("/untitled", "")):
        assert (await app.get(f"/count?p={path}&t={title}", headers=PAGE)).status == 200
    assert await titled.titles() == {"/umami": "Of Umami", "/goat": "Of GoatCounter", "/untitled": None}
