"""The list of referrer spam (tally/data/referrer_spam.txt), how hosts are compared, and the script that builds it."""

import argparse
from pathlib import Path

import pytest

from scripts import refresh_lists
from tally.events.referrer_spam import DATA, covers, is_listed
from tally.events.urls import normal_host
from tally.resources import asset
from tests.support.cases import cases

LINES = asset(DATA).read_text("utf-8").splitlines()
HOSTS = [line for line in LINES if not line.startswith("#")]


def test_the_source_is_named() -> None:
    head = "\n".join(line for line in LINES if line.startswith("#"))
    for name in ("CC0-1.0", "source: https://github.com/matomo-org/", "version: ", "date: 20", "sha256: "):
        assert name in head


def test_the_list_is_well_formed() -> None:
    """Normal hosts in order, each once, none below another."""
    assert sorted(set(HOSTS)) == HOSTS
    assert len(HOSTS) > 2_300
    for host in HOSTS:
        assert normal_host(host) == host
        assert not covers(set(HOSTS), host.partition(".")[2]), host


@cases(
    ("host", "is_spam"),
    [
        *(("semalt.com", True), ("www.semalt.com", True), ("a.b.c.semalt.com", True), ("semalt.com.example", False)),
        *(("antisemalt.com", False), ("com", False), ("google.com", False), ("com.android.chrome", False)),
        *((".".join(["a"] * 127), False), ("[2001:db8::1]", False), ("203.0.113.7", False)),
    ],
)
def test_an_entry_covers_its_subdomains_by_labels(host: str, is_spam: bool) -> None:
    assert is_listed(host) is is_spam


@cases(
    ("line", "part"),
    [
        ("com", "public suffix"),
        ("co.uk", "public suffix"),
        ("github.io", "public suffix"),
        ("spam", "public suffix"),
        ("https://spam.example/", "is no host"),
        ("google.com", "would be spam"),
        ("openai.com", "would be spam"),
    ],
)
def test_the_script_refuses_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, part: str) -> None:
    """Public suffixes, what is no host, and what covers a host whose visits are wanted."""
    path = tmp_path / "spammers.txt"
    path.write_text(f"spam.example\n\n{line}\n")
    monkeypatch.setattr(refresh_lists, "SPAM", tmp_path / "out.txt")
    with pytest.raises(refresh_lists.Problem, match=part):
        refresh_lists.write_referrer_spam(argparse.Namespace(spammers=path, commit="c", date="2026-08-20"))
    assert not (tmp_path / "out.txt").exists()
