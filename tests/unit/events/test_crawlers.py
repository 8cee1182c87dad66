"""The list of crawlers (tally/data/crawlers.json), how its texts are matched, and the script that builds it."""

import json
import re

import pytest

from scripts import refresh_lists
from tally.events.crawlers import DATA, NAMES, is_crawler, listed_name
from tally.resources import asset
from tests.support.cases import cases

LIST = json.loads(asset(DATA).read_bytes())
CRAWLERS = LIST["crawlers"]
PURPOSES = {
    *("search", "ai_training", "ai_search", "ai_assistant", "seo", "monitoring", "preview", "feed", "archive"),
    *("security", "research", "advertising", "other"),
}
BROWSER = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36"
)


def test_sources_and_licences_are_named() -> None:
    """Source, version, date and sha256 of each list; the texts of their licences are beside it."""
    licences = asset("data/CRAWLERS-LICENSES").read_text()
    for source in LIST["sources"]:
        assert re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", source["date"])
        assert re.fullmatch(r"[0-9a-f]{64}", source["sha256"])
        assert source["licence"] == "MIT"
        assert source["name"] in licences
    assert licences.count("THE SOFTWARE IS PROVIDED") == len(LIST["sources"]) == 2


def test_the_list_is_well_formed() -> None:
    """Texts in lower case with a letter, each once."""
    patterns = [pattern for crawler in CRAWLERS for pattern in crawler["patterns"]]
    assert len(CRAWLERS) > 1_400
    assert len(patterns) == len(set(patterns))
    for crawler in CRAWLERS:
        assert set(crawler) == {"name", "operator", "purpose", "patterns"}
        assert crawler["name"].strip()
        assert len(crawler["operator"]) <= 40
        assert crawler["purpose"] in PURPOSES, crawler
        assert crawler["patterns"], crawler
    for pattern in patterns:
        assert pattern == pattern.lower()
        assert pattern.isprintable()


def test_every_listed_text_is_recognized() -> None:
    """In a browser's User-Agent, or at the beginning of one; those without a letter are names for reports only."""
    for crawler in CRAWLERS:
        for pattern in crawler["patterns"]:
            if re.search("[a-z]", pattern):
                text = f"{pattern[1:]} x" if pattern[0] == "^" else f"{BROWSER} {pattern.strip()} x"
                assert listed_name(text), pattern


@cases(
    "text",
    [
        *("Google-Extended", "Webzio-Extended", "Gemini-Deep-Research"),  # tokens of robots.txt
        *("Code/1.115.0", "Cursor/3.0.12", "Trae/1.107.1", "Devin/1.0"),  # programs of people
        *("Operator", "Spiderman", "OpenAI", "YaK", "Viber/22.5", "Sonic", "Butterfly"),  # words
        *("okhttp/4.12.0", "python-requests/2.32", "axios/1.7", "Wget/1.21"),  # HTTP libraries
        *("Feedly/1.0", "Notion/2.0", "Overcast/3.0", "PayPal/1.0"),  # inside an app
    ],
)
def test_words_that_people_send_are_no_crawlers(text: str) -> None:
    """Apps and servers count, and so do pages inside the apps of companies that have crawlers."""
    assert not is_crawler(f"{BROWSER} {text}")


@cases(
    "library", ["okhttp/4.12.0", "python-requests/2.32", "axios/1.7.2", "curl/8.5.0", "Go-http-client/2.0", "Jetty/9.4"]
)
def test_http_libraries_are_not_listed(library: str) -> None:
    assert not is_crawler(library)


@cases(
    ("text", "name"),
    [
        ("Feedly/1.0 (+http://www.feedly.com/fetcher.html; 1 subscribers)", "Feedly"),
        ("Mozilla/5.0 (compatible; Googlebot/2.1)", "Googlebot"),
        ("Mozilla/5.0 (compatible; Google-InspectionTool/1.0)", "Google-InspectionTool"),
        ("Mozilla/5.0 (compatible; xGhost Inspector)", ""),
        ("Mozilla/5.0 (compatible; Ghost Inspectors)", ""),
        ("xGhost Inspector, Ghost Inspector", "Ghost Inspector"),
    ],
)
def test_a_name_is_a_word_and_the_longest_wins(text: str, name: str) -> None:
    assert listed_name(text) == name


def test_names_that_the_list_has_are_kept_by_hand_only_where_needed() -> None:
    """No name is written twice in the same way."""
    assert len(NAMES) == len({name.lower() for name in NAMES})


def test_the_script_refuses_what_its_tables_do_not_have() -> None:
    """Unknown tags, purposes and regular expressions fail the script."""
    with pytest.raises(refresh_lists.Problem, match="TAGS"):
        refresh_lists.purpose_of_tags(["search-engine", "new-tag"])
    with pytest.raises(refresh_lists.Problem, match="TAGS"):
        refresh_lists.purpose_of_tags([])
    with pytest.raises(refresh_lists.Problem, match="FUNCTIONS"):
        refresh_lists.purpose_of_function("Something else.")
    with pytest.raises(refresh_lists.Problem, match="EXPRESSIONS"):
        refresh_lists.texts({"pattern": "new[a-z]+bot"})
    assert refresh_lists.purpose_of_tags(["scanner"]) == "security"
    assert refresh_lists.purpose_of_function("AI Search Crawlers") == "ai_search"


def test_the_script_refuses_a_pattern_that_people_send(monkeypatch: pytest.MonkeyPatch) -> None:
    """It fails where a pattern matches any User-Agent of a person or an app in the tests."""
    refresh_lists.check_people()
    monkeypatch.setattr("tally.events.crawlers.NAMES", ("Firefox",))
    from tally.events import crawlers

    crawlers._filed.cache_clear()
    try:
        with pytest.raises(refresh_lists.Problem, match="Firefox"):
            refresh_lists.check_people()
    finally:
        crawlers._filed.cache_clear()
