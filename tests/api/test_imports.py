"""Imports by the pages' API: upload in pieces, check, import, list, undo (docs/importing.md, In the browser)."""

import asyncio
import gzip
import random
import shutil
import sqlite3
import uuid
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tally.api.uploads import KEEP_S
from tests.support.app import OWNER, App, MakeApp
from tests.support.cases import cases
from tests.support.goatcounter_file import goatcounter_csv
from tests.support.page_client import PageClient, logged_in

RANGE = "from=2024-11-01&to=2024-11-30"


class Site:
    """A website of a signed-in owner."""

    def __init__(self, app: App, browser: PageClient, id: str) -> None:
        self.app, self.browser, self.path = app, browser, f"/api/account/websites/{id}/imports"

    async def begin(self, size: int, format: str = "goatcounter", name: str = "export.csv") -> Any:
        return await self.browser("POST", f"{self.path}/upload", {"name": name, "format": format, "size": size})

    async def piece(self, offset: int, content: bytes) -> Any:
        return await self.browser("PATCH", f"{self.path}/upload?offset={offset}", content)

    async def state(self) -> Any:
        return (await self.browser("GET", self.path)).json["data"]

    async def until(self, *states: str) -> Any:
        """Return the upload once it has one of the states; None once there is no upload."""
        while True:
            upload = (await self.state())["upload"]
            if (upload["state"] if upload else "none") in states:
                return upload
            await asyncio.sleep(0.02)

    async def upload(self, content: bytes, format: str = "goatcounter") -> Any:
        await self.send(content, format)
        return await self.until("checked", "failed")

    async def send(self, content: bytes, format: str = "goatcounter") -> None:
        assert (await self.begin(len(content), format)).status == 201
        for offset in range(0, len(content), 1_000_000):
            assert (await self.piece(offset, content[offset : offset + 1_000_000])).status == 200

    async def pageviews(self) -> int:
        answer = await self.browser("GET", f"{self.path[: -len('/imports')]}/stats?{RANGE}")
        return int(answer.json["data"]["pageviews"])

    def files(self) -> list[str]:
        directory = Path(f"{self.app.db}.uploads")
        return sorted(path.name for path in directory.iterdir()) if directory.exists() else []


async def site_of(app: App) -> Site:
    return Site(app, await logged_in(app, OWNER), await app.website())


@pytest.fixture
async def site(app: App) -> Site:
    return await site_of(app)


async def test_a_file_is_uploaded_checked_imported_and_undone(site: Site) -> None:
    content = goatcounter_csv()
    assert (await site.begin(len(content))).json["data"]["upload"]["state"] == "receiving"
    half = len(content) // 2
    assert (await site.piece(0, content[:half])).json["data"]["upload"]["received"] == half
    # A connection that broke: a piece again, one too far, and the rest after a restart of the server.
    for offset in (0, half + 1):
        answer = await site.piece(offset, content[half:])
        assert (answer.status, answer.json["error"]["field"]) == (400, "offset")
    await site.app.restart()
    assert (await site.state())["upload"]["received"] == half
    await site.piece(half, content[half:])
    upload = await site.until("checked", "failed")
    assert upload["error"] == ""
    days = {"days": 2, "first_day": "2024-11-18", "last_day": "2024-11-19", "complete": True}
    counts = {"events": 6, "sums": 0, "known": 0, "known_sums": 0, "crawls": 0, "rejected": 1, "lines": 9}
    assert upload["preview"] == counts | days
    assert any("skipped: 1 " in words for words in upload["messages"])
    assert any(words.startswith("line 9: ") for words in upload["messages"])
    assert await site.pageviews() == 0
    # A server that ends now checks the file again.
    await site.app.restart()
    await site.until("checked")
    assert (await site.browser("POST", site.path, {})).status == 202
    await site.until("none")
    (found,) = (await site.state())["imports"]
    assert (found["state"], found["events"], found["rejected"], found["file"]) == ("complete", 6, 1, "export.csv")
    assert await site.pageviews() == 6
    assert site.files() == []
    answer = await site.browser("POST", f"{site.path}/1/undo", {})
    assert (answer.status, answer.json["data"]["imports"][0]["state"]) == (202, "undoing")
    while (await site.state())["imports"][0]["state"] != "undone":
        await asyncio.sleep(0.02)
    assert await site.pageviews() == 0
    answer = await site.browser("POST", f"{site.path}/1/undo", {})
    assert (answer.status, answer.json["error"]["field"]) == (400, "number")
    assert (await site.browser("POST", f"{site.path}/2/undo", {})).json["error"]["code"] == "unknown_import"


@pytest.mark.slow
async def test_an_import_that_is_interrupted_continues(site: Site) -> None:
    """The server ends in the middle: the import is interrupted, and continues with the stored file."""
    content = goatcounter_csv(8_000)
    await site.upload(content)
    await site.browser("POST", site.path, {})
    while not (found := (await site.state())["imports"]) or not found[0]["events"]:
        await asyncio.sleep(0.01)
    await site.app.restart()
    data = await site.state()
    assert (data["upload"]["state"], data["imports"][0]["state"]) == ("interrupted", "interrupted")
    assert 0 < data["imports"][0]["events"] < 8_000
    assert (await site.browser("POST", site.path, {})).status == 202
    await site.until("none")
    assert [one["events"] for one in (await site.state())["imports"]] == [8_000]
    assert await site.pageviews() == 8_000


async def second_site(app: App) -> Site:
    """Return a website of another account."""
    id = await app.website("example.org", account="other@example.com")
    return Site(app, await logged_in(app, "other@example.com"), id)


@pytest.mark.slow
async def test_accounts_take_turns(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large file delays that of another account by a turn, and is complete in the end."""
    monkeypatch.setattr("tally.api.uploads.TURN_S", 0.05)
    other = await second_site(site.app)
    await site.upload(goatcounter_csv(8_000))
    await site.browser("POST", site.path, {})
    while not (found := (await site.state())["imports"]) or not found[0]["events"]:
        await asyncio.sleep(0.01)
    assert (await other.begin(len(goatcounter_csv()))).status == 201
    answer = await other.piece(0, goatcounter_csv())
    assert answer.json["data"]["upload"]["state"] == "waiting"
    await other.until("checked")
    upload = (await site.state())["upload"]
    assert upload is not None
    assert upload["state"] in ("waiting", "importing")
    await other.browser("POST", other.path, {})
    await other.until("none")
    await site.until("none")
    (found,) = (await site.state())["imports"]
    assert (found["state"], found["events"], found["duplicates"]) == ("complete", 8_000, 0)
    assert [one["events"] for one in (await other.state())["imports"]] == [6]


async def test_a_check_ends_with_its_turn(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """It shows what it has found; the import reads all."""
    monkeypatch.setattr("tally.api.uploads.TURN_S", 0.05)
    other = await second_site(site.app)
    # Far more than is read until the other one waits.
    await site.send(gzip.compress(goatcounter_csv(200_000)))
    await site.until("checking")
    await other.upload(goatcounter_csv())
    upload = await site.until("checked", "failed")
    assert (upload["state"], upload["preview"]["complete"]) == ("checked", False)
    assert upload["preview"]["lines"] < 200_000


async def test_an_import_that_takes_too_long_is_interrupted(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tally.api.uploads.TURN_S", 0.05)
    await site.upload(goatcounter_csv(8_000))
    monkeypatch.setattr("tally.api.uploads.MAX_S", 0.0)
    await site.browser("POST", site.path, {})
    upload = await site.until("interrupted", "none")
    assert "was read for" in upload["error"]
    monkeypatch.setattr("tally.api.uploads.MAX_S", 3_600.0)
    await site.browser("POST", site.path, {})
    await site.until("none")
    assert await site.pageviews() == 8_000


@pytest.mark.slow
async def test_removals_at_once_wait_for_the_process(site: Site) -> None:
    """Both are answered when the process has ended: nothing is imported afterwards."""
    await site.upload(goatcounter_csv(8_000))
    await site.browser("POST", site.path, {})
    while not (found := (await site.state())["imports"]) or not found[0]["events"]:
        await asyncio.sleep(0.01)
    removed = [asyncio.create_task(site.browser("DELETE", f"{site.path}/upload", {})) for _ in range(3)]
    for one in asyncio.as_completed(removed):
        assert (await one).status in (200, 404)
        (found,) = (await site.state())["imports"]
        assert found["state"] == "interrupted"
    events = found["events"]
    assert 0 < events < 8_000
    assert site.files() == []
    await asyncio.sleep(0.3)
    assert await site.pageviews() == events
    # A new upload is not that of the removals.
    assert (await site.upload(goatcounter_csv()))["state"] == "checked"


async def test_uploads_go_with_their_website(site: Site) -> None:
    """Also while the file is imported, and files that no request has read since the server started."""
    other = await second_site(site.app)
    await other.upload(goatcounter_csv())
    await site.app.restart()
    await site.upload(goatcounter_csv(8_000))
    await site.browser("POST", site.path, {})
    while not (found := (await site.state())["imports"]) or not found[0]["events"]:
        await asyncio.sleep(0.01)
    assert len(site.files()) == 4
    for one, domain in ((site, "example.com"), (other, "example.org")):
        path = one.path.removesuffix("/imports")
        assert (await one.browser("DELETE", path, {"domain": domain})).status == 202
    while site.files():
        await asyncio.sleep(0.02)
    await site.app.background_work.deletion_worker.work()
    assert site.app.sql("select count(*) from event") == [(0,)]


def packed(*parts: bytes) -> bytes:
    """Return a gzip file that begins with random bytes, so that it is not refused for its ratio."""
    return gzip.compress(
        random.Random(1).randbytes(100_000).replace(b"\n", b"").hex().encode() + b"\n" + b"".join(parts)
    )


BOMBS: dict[str, tuple[bytes, str, str]] = {
    "only empty lines": (gzip.compress(b"\n" * 20_000_000), "tally", "more than 500 times"),
    "empty lines": (packed(b"\n" * 40_000_000), "tally", ""),
    "empty lines of Windows": (packed(b"\r\n" * 20_000_000), "access-log", ""),
    "an endless line": (packed(b"x" * 75_000_000), "access-log", "a line of more than 64 MiB"),
    "many members": (gzip.compress(b"") * 40_000, "tally", ""),
}


@pytest.mark.slow
@cases(("content", "format", "reason"), BOMBS.values(), ids=list(BOMBS))
async def test_bombs_end_soon(site: Site, content: bytes, format: str, reason: str) -> None:
    """None writes a transaction for each of its pieces, or holds the process."""
    assert len(content) < 1_000_000
    upload = await site.upload(content, format)
    assert upload["state"] == ("failed" if reason else "checked")
    assert reason in upload["error"]
    if not reason:
        assert upload["preview"]["events"] == 0
    assert (await site.browser("DELETE", f"{site.path}/upload", {})).status == 200


HOSTILE: dict[str, tuple[bytes, str, str]] = {
    "another format": (goatcounter_csv(), "plausible", "has no column timestamp"),
    "binary": (b"\0\1\2" * 100, "goatcounter", "is no CSV export of GoatCounter"),
    "UTF-16": (goatcounter_csv().decode().encode("utf-16"), "goatcounter", "is UTF-16 text: save it as UTF-8"),
    "a damaged archive": (b"\x1f\x8b\x08\0\0\0\0\0\0\3damaged", "goatcounter", "is damaged or incomplete"),
    "a zip archive of nothing": (b"PK\3\4" + b"\0" * 60, "tally", "damaged"),
}


@cases(("content", "format", "reason"), HOSTILE.values(), ids=list(HOSTILE))
async def test_other_files_are_refused_with_reasons(site: Site, content: bytes, format: str, reason: str) -> None:
    upload = await site.upload(content, format)
    assert upload["state"] == "failed"
    assert reason in upload["error"]
    assert str(site.app.db.parent) not in upload["error"]
    assert (await site.browser("POST", site.path, {})).status == 400
    assert (await site.browser("DELETE", f"{site.path}/upload", {})).status == 200
    assert site.files() == []


async def test_limits_of_uploads(make_app: MakeApp) -> None:
    app = await make_app(max_upload=1)
    site = await site_of(app)
    refused = await site.begin(1_000_001)
    assert (refused.status, refused.json["error"]["code"]) == (413, "body_too_large")
    for field, body in (("name", {"name": "a\nb"}), ("format", {"format": "sql"}), ("size", {"size": True})):
        answer = await site.browser("POST", f"{site.path}/upload", {"name": "f", "format": "tally", "size": 9} | body)
        assert (answer.status, answer.json["error"]["field"]) == (400, field)
    assert (await site.begin(1_000_000)).status == 201
    again = await site.begin(5)
    assert (again.status, again.json["error"]["field"]) == (400, "upload")
    assert (await site.piece(0, b"x" * 1_000_001)).status == 413
    assert (await site.browser("PATCH", f"{site.path}/upload?offset=x", b"x")).status == 400
    cross = await site.browser("PATCH", f"{site.path}/upload?offset=0", b"x", headers={"Sec-Fetch-Site": "cross-site"})
    assert (cross.status, cross.json["error"]["code"]) == (403, "cross_site")
    assert (await site.browser("POST", site.path, {})).status == 400


async def test_no_upload_without_free_disk(make_app: MakeApp) -> None:
    site = await site_of(await make_app(max_upload=999_999_999))
    answer = await site.begin(shutil.disk_usage(site.app.db.parent).free)
    assert (answer.status, answer.json["error"]["code"]) == (503, "storage_unavailable")
    assert site.files() == []


async def test_abandoned_files_are_deleted(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of an upload without a change for a day, and those of a deleted website."""
    from tally.api.imports import UPLOADS

    uploads = site.app.application[UPLOADS]
    await site.begin(100)
    id = site.path.split("/")[4]
    files = [f"{id}.json", f"{id}.part"]
    assert site.files() == files
    uploads._expired_s = 0.0
    uploads.expire({id})
    assert site.files() == files
    monkeypatch.setattr("tally.api.uploads.KEEP_S", -1)
    assert KEEP_S == 86_400
    uploads._expired_s = 0.0
    uploads.expire({id})
    assert site.files() == []
    assert (await site.state())["upload"] is None


async def test_an_upload_is_of_the_website_with_its_id(site: Site) -> None:
    """Another database at the path has another website with the same number: the upload is not shown, but deleted."""
    await site.upload(goatcounter_csv())
    before = site.files()
    await site.app.close()
    other = str(uuid.uuid4())
    with closing(sqlite3.connect(site.app.db)) as connection, connection:
        connection.execute("update website set id = ?", (other,))
    await site.app.open()
    site.path = f"/api/account/websites/{other}/imports"
    assert (await site.state())["upload"] is None
    while site.files():
        await asyncio.sleep(0.02)
    assert len(before) == 2
