"""The exclusions of a website in a real Chromium, on a server with a list of data centres."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.browser.accessibility import violations_in_each_scheme
from tests.browser.browsers import OpenPage
from tests.browser.history import SampleServer, sample_server


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SampleServer]:
    folder = tmp_path_factory.mktemp("exclusions")
    path = folder / "datacenters.txt"
    path.write_text("# date: 2026-01-02\n203.0.113.0/24\n2001:db8::/32\n")
    with sample_server(folder, "--datacenter-ranges", str(path)) as one:
        yield one


def test_data_centres_are_switched_on(site: SampleServer, open_page: OpenPage) -> None:
    page = site.log_in(open_page())
    page.goto(f"{site.url}/websites/{site.website}/settings/exclusions")
    switch = page.get_by_label("Exclude data centers")
    expect(switch).not_to_be_checked()
    switch.check()
    page.get_by_role("button", name="Save exclusions").click()
    expect(page.get_by_text("Exclusions saved.")).to_be_visible()
    page.reload()
    expect(switch).to_be_checked()
    # Of the server's lists the one that is its own file, and old.
    row = page.get_by_role("table", name="Lists of the server").locator("tbody tr")
    expect(row).to_have_count(1)
    expect(row).to_contain_text("Data centers")
    expect(row).to_contain_text("Jan 2, 2026")
    expect(row).to_contain_text("Old: the server needs a newer list.")
    assert violations_in_each_scheme(page) == []
