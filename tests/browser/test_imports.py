"""Imports in the settings of a website: a GoatCounter export is uploaded, checked, imported and undone."""

import gzip
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.accessibility import violations
from tests.browser.browsers import SIZES, OpenPage
from tests.browser.owner import add_website, ask, send_view, set_up
from tests.support import sums_files
from tests.support.goatcounter_file import goatcounter_csv
from tests.support.process import Serve, until


@contextmanager
def uploaded(page: Page, path: Path, format: str) -> Iterator[None]:
    page.get_by_label("Format").select_option(label=format)
    page.get_by_label("File", exact=True).set_input_files(path)
    yield
    page.get_by_role("button", name="Upload and check").press("Enter")


def test_a_file_is_imported_and_undone_on_the_page(serve: Serve, open_page: OpenPage, tmp_path: Path) -> None:
    """Below a base path, by keyboard, on both sizes and in both color schemes."""
    server = serve("--base-path", "/stats")
    page = open_page(viewport=SIZES["wide"], color_scheme="light", locale="en-GB")
    set_up(page, server)
    website = add_website(page, server)
    path = f"/api/account/websites/{website['id']}"
    page.goto(f"{server.url}/websites/{website['id']}/settings/data")
    card = page.locator(".imports-card")
    wrong = tmp_path / "wrong.csv"
    wrong.write_text("no,export\n1,2\n")
    with uploaded(page, wrong, "GoatCounter"):
        assert violations(page) == []
    expect(card.get_by_text("The file cannot be imported", exact=True).last).to_be_visible()
    expect(card.locator(".notice.bad")).to_contain_text("wrong.csv")
    card.get_by_role("button", name="Remove file").press("Enter")
    # More than one piece: 3 MB.
    export = tmp_path / "goatcounter-export.csv"
    export.write_bytes(goatcounter_csv(30_000))
    with uploaded(page, export, "GoatCounter"):
        pass
    expect(card.get_by_text(re.compile("30,000 new events: 18.{1,3}19 Nov 2024"))).to_be_visible()
    expect(card.get_by_text("1 of 30,003 lines is invalid and is skipped")).to_be_visible()
    card.locator("summary").press("Enter")
    expect(card.get_by_text("skipped: 1 ")).to_be_visible()
    for name, size in SIZES.items():
        for scheme in ("light", "dark"):
            page.set_viewport_size(size)
            page.emulate_media(color_scheme=scheme)
            assert violations(page) == [], (name, scheme)
    card.get_by_role("button", name="Import", exact=True).press("Enter")
    undo = card.get_by_role("button", name="Undo import of goatcounter-export.csv")
    expect(undo).to_be_visible()
    expect(card.get_by_text("30,000 events · 1 invalid line")).to_be_visible()
    assert ask(page, server, "GET", f"{path}/stats?from=2024-11-01&to=2024-11-30")[1]["data"]["pageviews"] == 30_000
    for name, size in SIZES.items():
        for scheme in ("light", "dark"):
            page.set_viewport_size(size)
            page.emulate_media(color_scheme=scheme)
            assert violations(page) == [], (name, scheme)
    undo.press("Enter")
    page.get_by_role("dialog").get_by_role("button", name="Undo import").press("Enter")
    expect(card.get_by_text("Undone")).to_be_visible()
    assert ask(page, server, "GET", f"{path}/stats?from=2024-11-01&to=2024-11-30")[1]["data"]["pageviews"] == 0


@pytest.mark.parametrize("locale", ["en-GB", "de-DE"])
def test_the_format_is_guessed_from_the_file(serve: Serve, open_page: OpenPage, tmp_path: Path, locale: str) -> None:
    """None is selected before; one that was selected by hand stays."""
    server = serve()
    page = open_page(viewport=SIZES["narrow"], locale=locale)
    set_up(page, server)
    website = add_website(page, server)
    page.goto(f"{server.url}/websites/{website['id']}/settings/data")
    card = page.locator(".imports-card")
    file, format = card.locator("input[type=file]"), card.locator("select")
    expect(format).to_have_value("")
    days = sums_files.days()
    line = b'{"type": "pageview", "timestamp": "2026-01-02T12:00:00Z", "pathname": "/"}\n'
    log = b'203.0.113.9 - - [18/Nov/2026:09:00:00 +0000] "GET / HTTP/1.1" 200 512 "-" "Mozilla/5.0"\n'
    head = b"website_id,session_id,visit_id,event_id,created_at,url_path,event_type\n"
    contents = {
        "goatcounter": [
            goatcounter_csv(30_000),
            gzip.compress(goatcounter_csv(30_000)),
            sums_files.goatcounter_archive(days),
        ],
        "plausible": [sums_files.plausible_archive(days), b"timestamp,name,user_id,pathname,hostname\n"],
        "umami": [head, sums_files.archive({"website_event.csv": head}, zipfile.ZIP_DEFLATED)],
        "matomo": [b'[{"idSite": "1", "idVisit": "7", "actionDetails": []}]'],
        "ga4": [
            *(sums_files.ga4_exploration(days).encode(), sums_files.ga4_snapshot(days).encode()),
            b'{"event_date": "20261118", "event_timestamp": "1", "event_name": "page_view", "event_params": []}\n',
        ],
        "tally": [line, gzip.compress(line * 9)],
        "access-log": [log, gzip.compress(log * 9), b"#Software: Microsoft IIS\n#Fields: date time\n"],
    }
    for name, files in contents.items():
        for n, content in enumerate(files):
            (tmp_path / f"{name}{n}").write_bytes(content)
            file.set_input_files(tmp_path / f"{name}{n}")
            expect(format).to_have_value(name)
    expect(card.locator(".field-hint").last).not_to_be_empty()
    assert violations(page) == []
    (tmp_path / "unknown.csv").write_text("no,export\n1,2\n")
    file.set_input_files(tmp_path / "unknown.csv")
    expect(format).to_have_value("")
    card.locator("button[type=submit]").click()
    expect(format).to_be_focused()
    format.select_option("matomo")
    file.set_input_files(tmp_path / "umami0")
    expect(card.locator(".field-hint").last).to_contain_text("Umami")
    expect(format).to_have_value("matomo")


def test_an_upload_continues_at_the_byte_reached(serve: Serve, open_page: OpenPage, tmp_path: Path) -> None:
    """The page was left in the middle: the same file, and no other, continues."""
    server = serve()
    page = open_page(viewport=SIZES["wide"], locale="en-GB")
    set_up(page, server)
    website = add_website(page, server)
    content = gzip.compress(goatcounter_csv(3_000))
    path = f"/api/account/websites/{website['id']}/imports/upload"
    about = {"name": "export.csv.gz", "format": "goatcounter", "size": len(content)}
    assert ask(page, server, "POST", path, about)[0] == 201
    sent = page.context.request.fetch(
        f"{server.url}{path}?offset=0",
        method="PATCH",
        data=content[:1000],
        headers={"Sec-Fetch-Site": "same-origin", "Content-Type": "application/octet-stream"},
    )
    assert sent.json()["data"]["upload"]["received"] == 1000
    page.goto(f"{server.url}/websites/{website['id']}/settings/data")
    card = page.locator(".imports-card")
    again = card.get_by_label("The same file again")
    (tmp_path / "other.csv.gz").write_bytes(content)
    again.set_input_files(tmp_path / "other.csv.gz")
    card.get_by_role("button", name="Continue upload").click()
    expect(card.get_by_text("This is not export.csv.gz")).to_be_visible()
    (tmp_path / "export.csv.gz").write_bytes(content)
    again.set_input_files(tmp_path / "export.csv.gz")
    card.get_by_role("button", name="Continue upload").click()
    expect(card.get_by_text("3,000 new events")).to_be_visible()
    card.get_by_role("button", name="Remove file").click()
    expect(card.get_by_role("button", name="Upload and check")).to_be_visible()
    until(lambda: not list(server.db.with_name("analytics.db.uploads").iterdir()))


def test_imported_sums_are_marked_on_the_dashboard(serve: Serve, open_page: OpenPage, tmp_path: Path) -> None:
    """An export of Plausible is imported on the page; the chart, its slider and its table mark the days that it has."""
    server = serve()
    page = open_page(viewport=SIZES["wide"], color_scheme="light", locale="en-GB", timezone_id="UTC")
    set_up(page, server)
    website = add_website(page, server)
    last = datetime.now(UTC).date() - timedelta(2)
    some = sums_files.days(last - timedelta(19), 20)
    path = f"/api/account/websites/{website['id']}"
    page.goto(f"{server.url}/websites/{website['id']}/settings/data")
    card = page.locator(".imports-card")
    export = tmp_path / "example.com.zip"
    export.write_bytes(sums_files.plausible_archive(some))
    with uploaded(page, export, "Plausible"):
        pass
    expect(card.get_by_text("800 new sums by day")).to_be_visible()
    card.get_by_role("button", name="Import", exact=True).press("Enter")
    expect(card.get_by_text("800 sums by day")).to_be_visible()
    send_view(server, website["id"])
    visitors = sum(sums_files.of_day(day)["visitors"] for day in some)
    span = f"from={last - timedelta(24)}&to={datetime.now(UTC).date()}"

    def is_built() -> bool:
        return bool(ask(page, server, "GET", f"{path}/stats?{span}")[1]["data"]["visitors"] == visitors + 1)

    until(is_built, 60)
    page.goto(f"{server.url}/websites/{website['id']}?{span}")
    expect(page.locator(".legend-hatch")).to_be_visible()
    expect(page.locator(".legend").get_by_text("Imported sums")).to_be_visible()
    slider = page.get_by_role("slider")
    slider.press("End")
    expect(slider).not_to_have_attribute("aria-valuetext", re.compile("Imported sums"))
    for _ in range(2):
        slider.press("ArrowLeft")
    expect(slider).to_have_attribute("aria-valuetext", re.compile("Imported sums"))
    page.locator(".series-table summary").press("Enter")
    expect(page.locator(".series-table tbody tr").filter(has_text="Imported sums")).to_have_count(20)
    for name, size in SIZES.items():
        for scheme in ("light", "dark"):
            page.set_viewport_size(size)
            page.emulate_media(color_scheme=scheme)
            assert violations(page) == [], (name, scheme)
    page.goto(f"{server.url}/websites/{website['id']}?{span}&filter_country=DE")
    expect(page.locator(".legend").get_by_text("20 days of imported sums are excluded")).to_be_visible()
    expect(page.locator(".legend-hatch")).to_have_count(0)
