"""The exclusions of a website in a real Chromium, on a server with a list of data centres."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, expect

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


def test_a_new_entry_says_how_many_events_match(site: SampleServer, open_page: OpenPage) -> None:
    """As the report counts them, for what is typed: nothing for addresses, which are not stored."""
    page = site.log_in(open_page())
    page.goto(f"{site.url}/websites/{site.website}/settings/exclusions")
    dialog = page.get_by_role("dialog")
    base = f"{site.url}/api/account/websites/{site.website}/stats?period=7d"

    def counted(*filters: str) -> int:
        found = [page.request.get(f"{base}&{one}").json()["data"] for one in filters]
        return sum(data["pageviews"] + data["events"] for data in found)

    def words(list: str, typed: str) -> Locator:
        page.get_by_role("button", name=f"Add to {list}").click()
        if list == "Excluded countries":
            dialog.get_by_label("Country").select_option(typed)
        else:
            dialog.get_by_label(list).fill(typed)
        return dialog.get_by_role("status")

    all_events = counted("")
    german = counted("filter_country=DE")
    assert all_events > german > 1
    for list, typed, number in (
        ("Excluded countries", "Germany", german),
        ("Excluded pages", "/*", all_events),
        ("Hosts to count", "example.com", counted("filter_hostname=example.com")),
    ):
        expect(words(list, typed)).to_have_text(f"{number:,} events of the last 7 days match.")
        page.keyboard.press("Escape")
    expect(words("Excluded pages", "/*a*")).to_contain_text("At most ")
    dialog.get_by_label("Excluded pages").fill("/a\n/b")
    expect(dialog.get_by_role("status")).to_be_empty()
    page.keyboard.press("Escape")
    expect(words("Excluded addresses", "203.0.113.7")).to_be_empty()
