"""The page of crawlers, in a real Chromium: its figures are the read API's, by purpose, in every language and width."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.accessibility import violations_in_each_scheme
from tests.browser.browsers import SIZES, OpenPage
from tests.browser.history import SampleServer, sample_server
from tests.support.app import GOOGLEBOT
from tests.support.process import until

GPTBOT = "Mozilla/5.0 (compatible; GPTBot/1.2; +https://openai.com/gptbot)"
UNLISTED = "Mozilla/5.0 (compatible; secretbot/1.0)"
SENT = (("/pricing", GPTBOT, 4), ("/docs/a b", GPTBOT, 2), ("/pricing", GOOGLEBOT, 3), ("/pricing", UNLISTED, 1))


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SampleServer]:
    with sample_server(tmp_path_factory.mktemp("empty")) as one:
        yield one


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SampleServer]:
    with sample_server(tmp_path_factory.mktemp("crawlers")) as one:
        for path, agent, times in SENT:
            event = {"type": "pageview", "website_id": one.website, "url": f"https://example.com{path}"}
            for _ in range(times):
                headers = {"Origin": "https://example.com", "User-Agent": agent}
                assert one.server.request("POST", "/api/collect", event, headers).status == 202
        until(lambda: one.ask("crawlers")["data"]["requests"] == 10)
        yield one


def show(site: SampleServer, open_page: OpenPage, query: str = "period=7d", **options: Any) -> Any:
    page = site.log_in(open_page(timezone_id="UTC", **options))
    page.goto(f"{site.url}/websites/{site.website}/crawlers?{query}")
    expect(page.locator(".crawlers .answer")).not_to_be_empty()
    return page


def cells(page: Any, card: str) -> list[list[str]]:
    rows = page.locator(f"[aria-labelledby={card}] tbody tr")
    expect(rows.first).to_be_visible()
    return [row.locator("th, td").all_inner_texts() for row in rows.all()]


def test_figures_are_those_of_the_api(site: SampleServer, open_page: OpenPage) -> None:
    data = site.ask("crawlers?period=7d&limit=50")["data"]
    page = show(site, open_page)
    expect(page.locator(".sum")).to_contain_text("10 requests")
    rows = cells(page, "crawlers")
    assert [row[0] for row in rows] == ["GPTBot", "Googlebot", "Without a name"]
    assert [int(row[1]) for row in rows] == [one["requests"] for one in data["crawlers"]]
    assert rows[0][5:7] == ["AI training", "OpenAI"]
    pages = cells(page, "pages")
    assert [row[0].strip() for row in pages] == ["/pricing", "/docs/a b"]
    assert [int(row[1]) for row in pages] == [one["requests"] for one in data["pages"]] == [8, 2]
    assert [row[3] for row in pages] == [f"{one['pageviews']:,}" for one in data["pages"]]
    expect(page.locator(".sidebar [aria-current=page]")).to_have_text("Crawlers")


def test_a_purpose_is_chosen_and_stays_in_the_address(site: SampleServer, open_page: OpenPage) -> None:
    page = show(site, open_page)
    page.locator(".figure", has_text="Search engines").click()
    expect(page.locator(".sum")).to_contain_text("3 requests")
    assert "purpose=search" in page.url
    page.reload()
    expect(page.locator(".sum")).to_contain_text("3 requests")
    assert [row[0] for row in cells(page, "crawlers")] == ["Googlebot"]
    page.locator(".figure", has_text="All").click()
    expect(page.locator(".sum")).to_contain_text("10 requests")


def test_a_website_without_crawlers(empty: SampleServer, open_page: OpenPage) -> None:
    page = show(empty, open_page)
    expect(page.get_by_role("heading", name="No crawlers yet")).to_be_visible()


@pytest.mark.parametrize(
    ("locale", "words"),
    [("de-DE", "KI-Training"), ("fr-FR", "Entraînement d’IA"), ("es-ES", "Entrenamiento de IA")],
)
def test_other_languages(site: SampleServer, open_page: OpenPage, locale: str, words: str) -> None:
    page = show(site, open_page, locale=locale)
    expect(page.locator(".figure", has_text=words)).to_be_visible()


@pytest.mark.parametrize("size", SIZES)
def test_accessibility_and_width(site: SampleServer, open_page: OpenPage, size: str) -> None:
    page = show(site, open_page, viewport=SIZES[size])
    expect(page.locator(".sum")).to_contain_text("10 requests")
    assert violations_in_each_scheme(page) == []
