"""tally/events/lists.py: which files are used, which are refused by which line, and when they are read again."""

import json
import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import date
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from pathlib import Path

import pytest

from tally.events import crawlers, lists, referrer_spam
from tally.events.datacenters import Ranges
from tally.events.lists import BadListError, ListFile, Lists, read_ranges
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


# --- networks of data centers


def ranges_of(tmp_path: Path, content: str) -> tuple[ListFile, Ranges]:
    path = tmp_path / "ranges.txt"
    path.write_text(content)
    return read_ranges(path)


def test_networks_with_comments_and_exceptions(tmp_path: Path) -> None:
    content = (
        "# a list\n# date: 2026-10-26\n\n203.0.113.0/24 # a provider\n! 203.0.113.128/31\n2001:db8::/32\n192.0.2.1\n"
    )
    file, ranges = ranges_of(tmp_path, content)
    assert (file.name, file.made, file.entries) == ("datacenters", date(2026, 10, 26), 4)
    assert (file.is_old(date(2026, 11, 25)), file.is_old(date(2026, 11, 26))) == (False, True)
    inside = ["203.0.113.0", "203.0.113.127", "203.0.113.130", "203.0.113.255", "2001:db8:ffff::1", "192.0.2.1"]
    outside = ["203.0.112.255", "203.0.113.128", "203.0.113.129", "203.0.114.0", "2001:db9::", "192.0.2.0", "::1"]
    assert [one for one in inside + outside if ip_address(one) in ranges] == inside


def test_a_list_without_a_date_has_that_of_its_file(tmp_path: Path) -> None:
    path = tmp_path / "ranges.txt"
    path.write_text("203.0.113.0/24\n")
    os.utime(path, (1_792_977_064,) * 2)
    assert read_ranges(path)[0].made == date(2026, 10, 26)


def test_ranges_are_as_the_library_has_them(tmp_path: Path) -> None:
    """Networks that overlap, touch, contain each other, and take others out; up to the last address."""
    draw = random.Random(4)
    for _ in range(300):
        lines, networks = [], []
        for _ in range(draw.randrange(8)):
            bits, base = draw.choice(((32, 0xFFFFFF00), (128, (1 << 128) - 256), (128, 0x20010DB8 << 96)))
            length = draw.choice((bits, bits - 1, bits - 4, bits - 8))
            number = base + (draw.randrange(256) >> (bits - length) << (bits - length))
            network = ip_network((number.to_bytes(bits // 8), length))
            is_out = draw.random() < 0.3
            lines.append(f"{'!' * is_out}{network}")
            networks.append((network, is_out))
        _, ranges = ranges_of(tmp_path, "\n".join(lines))
        for base, address_class in (
            (0xFFFFFF00, IPv4Address),
            ((1 << 128) - 256, IPv6Address),
            (0x20010DB8 << 96, IPv6Address),
        ):
            for number in range(256):
                address = address_class(base + number)
                of = [is_out for network, is_out in networks if address in network]
                assert (address in ranges) is (False in of and True not in of), (address, lines)


def test_mapped_networks_are_those_of_ipv4(tmp_path: Path) -> None:
    _, ranges = ranges_of(tmp_path, "::ffff:203.0.113.0/120\n")
    assert ip_address("203.0.113.7") in ranges
    assert ip_address("::ffff:0:1") not in ranges


@cases(
    ("line", "reason"),
    [
        ("example.com", "a network such as 203.0.113.0/24 or 2001:db8::/32 is expected (got 'example.com')"),
        ("203.0.113.0/33", "a network such as"),
        ("203.0.113.0/", "a network such as"),
        ("203.0.113.0/-1", "a network such as"),
        ("203.0.113.0/\u0662", "a network such as"),
        ("203.0.113.0/" + "9" * 5_000, "a network such as"),
        ("203.0.113", "a network such as"),
        ("2001:db8::%eth0", "a network such as"),
        ("<b>", "a network such as"),
        ("!", "a network such as"),
        ("203.0.113.7/24", "the address is inside the network"),
        ("0.0.0.0/0", "a network of IPv4 must be /8 or smaller"),
        ("2000::/3", "a network of IPv6 must be /16 or smaller"),
    ],
)
def test_a_bad_network_is_named(tmp_path: Path, line: str, reason: str) -> None:
    with pytest.raises(BadListError) as failure:
        ranges_of(tmp_path, f"# date: 2026-10-26\n{line}\n")
    assert f"ranges.txt, line 2: {reason}" in str(failure.value)
    assert len(str(failure.value)) < 500


def test_an_exception_may_have_any_width(tmp_path: Path) -> None:
    assert ip_address("203.0.113.7") not in ranges_of(tmp_path, "203.0.113.0/24\n!0.0.0.0/0\n")[1]


def test_a_giant_list_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadListError, match="line 500,001: a list may have 500,000 networks"):
        ranges_of(tmp_path, "1.2.3.4\n" * 500_001)
    path = tmp_path / "ranges.txt"
    with path.open("wb") as file:
        file.truncate(17_000_000)
    with pytest.raises(BadListError, match="is larger than"):
        read_ranges(path)
    path.unlink()
    with pytest.raises(BadListError, match="cannot be read"):
        read_ranges(path)


def test_a_server_does_not_start_with_a_bad_list(tmp_path: Path) -> None:
    path = tmp_path / "ranges.txt"
    path.write_text("203.0.113.0/24\nexample.com\n")
    command = [sys.executable, "-m", "analytics_server", "serve", "--port", "0", "--db", str(tmp_path / "new.db")]
    ended = subprocess.run([*command, "--datacenter-ranges", str(path)], capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "ranges.txt, line 2: a network such as" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_server_reads_its_ranges_again_on_sighup(serve: Serve, tmp_path: Path) -> None:
    path = tmp_path / "ranges.txt"
    path.write_text("# date: 2026-10-26\n203.0.113.0/24\n")
    server = serve("--datacenter-ranges", str(path))

    def dated() -> float:
        body = server.request("GET", "/metrics").body.decode()
        return float(re.findall(r'tally_list_date_seconds\{list="datacenters"\} (\S+)', body)[0])

    assert dated() == 1_792_972_800
    path.write_text("# date: 2026-10-27\n203.0.113.0/24\nno network\n")
    server.process.send_signal(signal.SIGHUP)
    until(lambda: "line 3: a network such as" in server.stderr())
    assert "lists not read again" in server.stderr()
    assert dated() == 1_792_972_800
    path.write_text("# date: 2026-10-27\n203.0.113.0/24\n")
    server.process.send_signal(signal.SIGHUP)
    until(lambda: dated() == 1_793_059_200)


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
