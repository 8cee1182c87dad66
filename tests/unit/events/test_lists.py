"""tally/events/lists.py: which files are used, which are refused by which line, and when they are read again."""

import json
import signal
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest

from tally.events import crawlers, lists, referrer_spam
from tally.events.lists import BadListError, Lists
from tally.resources import asset
from tests.support.cases import cases
from tests.support.process import Serve, until

SPAM = "# date: 2027-01-02\nnew-spam.example\n"
ENTRY = {"name": "NewReader", "operator": "", "purpose": "ai_search", "patterns": ["newreader"]}


def crawlers_of(*entries: object, dated: str = "2027-01-02") -> str:
    lines = ",\n".join(json.dumps(entry) for entry in entries)
    return f'{{"sources":[\n{{"date":"{dated}"}}\n],"crawlers":[\n{lines}\n]}}'


@pytest.fixture(autouse=True)
def bundled() -> Iterator[None]:
    yield
    Lists(None)


def test_bundled_lists_are_valid() -> None:
    assert [one.path for one in lists.files(None)] == [asset(crawlers.DATA), asset(referrer_spam.DATA)]
    assert [one.name for one in lists.files(None)] == ["crawlers", "referrer_spam"]


def test_newer_files_are_used(tmp_path: Path) -> None:
    (tmp_path / "referrer_spam.txt").write_text(SPAM)
    (tmp_path / "crawlers.json").write_text(crawlers_of(ENTRY))
    assert not referrer_spam.is_listed("www.new-spam.example")
    assert [one.made for one in Lists(tmp_path).files] == [date(2027, 1, 2)] * 2
    assert referrer_spam.is_listed("www.new-spam.example")
    assert crawlers.listed_name("NewReader/1.0") == "NewReader"
    assert crawlers.described(["NewReader"])["NewReader"].purpose == "ai_search"
    Lists(None)
    assert not referrer_spam.is_listed("www.new-spam.example")
    assert crawlers.listed_name("NewReader/1.0") == ""


def test_an_older_file_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "referrer_spam.txt").write_text(SPAM.replace("2027", "2020"))
    Lists(tmp_path)
    assert not referrer_spam.is_listed("new-spam.example")


BAD: dict[str, tuple[str, str, str]] = {
    "no host": ("referrer_spam.txt", SPAM + "a host\n", "line 3: a host such as"),
    "no date": ("referrer_spam.txt", "spam.example\n", "line 1: a line such as `# date"),
    "a date that is none": ("referrer_spam.txt", SPAM.replace("01-02", "13-02"), "the date must be like"),
    "no JSON": ("crawlers.json", '{"sources":[],\n"crawlers":[,', "line 2: this is no JSON"),
    "no entries": ("crawlers.json", "{}", "line 1: an object with the lists"),
    "an unknown purpose": ("crawlers.json", crawlers_of(ENTRY, ENTRY | {"purpose": "fun"}), "line 5: purpose must"),
    "a short pattern": ("crawlers.json", crawlers_of(ENTRY | {"patterns": ["a"]}), "line 4: patterns must"),
    "upper case": ("crawlers.json", crawlers_of(ENTRY | {"patterns": ["NewR"]}), "line 4: patterns must be in lower"),
    "no name": ("crawlers.json", crawlers_of({}), "line 4: name must"),
}


@cases(("name", "content", "message"), BAD.values(), ids=BAD)
def test_a_bad_line_is_named_and_changes_nothing(name: str, content: str, message: str, tmp_path: Path) -> None:
    for old in tmp_path.iterdir():
        old.unlink()
    (tmp_path / name).write_text(content)
    with pytest.raises(BadListError) as failure:
        Lists(tmp_path)
    assert str(tmp_path / name) in str(failure.value)
    assert message in str(failure.value)
    assert crawlers.listed_name("NewReader/1.0") == ""


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadListError, match="is no directory"):
        Lists(tmp_path / "none")


def test_a_server_reads_its_lists_again_on_sighup(serve: Serve, tmp_path: Path) -> None:
    directory = tmp_path / "lists"
    directory.mkdir()
    path = directory / "referrer_spam.txt"
    path.write_text(SPAM)
    server = serve("--lists-dir", str(directory))

    def seconds() -> float:
        body = server.request("GET", "/metrics").body.decode()
        line = next(
            line for line in body.splitlines() if line.startswith('tally_list_date_seconds{list="referrer_spam')
        )
        return float(line.split()[1])

    assert seconds() == 1_798_848_000
    path.write_text(SPAM.replace("01-02", "01-03"))
    server.process.send_signal(signal.SIGHUP)
    until(lambda: seconds() == 1_798_848_000 + 86_400)
    path.write_text(SPAM.replace("01-02", "01-04") + "a host\n")
    server.process.send_signal(signal.SIGHUP)
    until(lambda: "lists not read again" in server.stderr())
    assert seconds() == 1_798_848_000 + 86_400
