"""tally/events/geoip.py, over the database that comes with the code and over small ones written here byte by byte.

A country is an ISO 3166-1 alpha-2 code, from a database on this machine; no lookup leaves the process.
"""

from __future__ import annotations

import hashlib
import importlib.resources
import lzma
import re
import struct
import tempfile
from collections.abc import Iterator
from datetime import date
from ipaddress import ip_address, ip_network
from pathlib import Path

import pytest

from tally.events.geoip import BUNDLED, COUNTRIES, Countries, CountryDataError, country_of
from tally.resources import asset
from tests.support.cases import cases

MADE = 1_780_345_978  # 2026-06-01T20:32:58Z

# --- A writer for MMDB files, as https://maxmind.github.io/MaxMind-DB/ describes them ---


UNSIGNED = {2: 5, 4: 6, 8: 9}  # bytes wide: type


def unsigned(value: int, width: int) -> bytes:
    return head(UNSIGNED[width], width) + value.to_bytes(width, "big")


def head(kind: int, size: int) -> bytes:
    assert size < 285, "longer sizes take more bytes than this writer knows"
    length, more = (size, b"") if size < 29 else (29, bytes([size - 29]))
    return (bytes([kind << 5 | length]) if kind < 8 else bytes([length, kind - 7])) + more


def encoded(value: object) -> bytes:
    """One value of the data section: map, list, string, 32-bit number, or bytes that are one already."""
    match value:
        case dict():
            return head(7, len(value)) + b"".join(encoded(key) + encoded(entry) for key, entry in value.items())
        case list():
            return head(11, len(value)) + b"".join(map(encoded, value))
        case str():
            return head(2, len(value.encode())) + value.encode()
        case int():
            return unsigned(value, 4)
        case bytes():
            return value
    raise TypeError(value)


def mmdb(records: dict[str, object], *, ip_version: int = 6, made: int = MADE) -> bytes:
    """A database of networks and their records; IPv4 lies under ::/96 where ip_version is 6."""
    nodes: list[list[int | bytes | None]] = [[None, None]]
    for network, record in records.items():
        for_bits = ip_network(network)
        bits = f"{int(for_bits.network_address):0{for_bits.max_prefixlen}b}"[: for_bits.prefixlen]
        path = [int(bit) for bit in "0" * (96 if ip_version == 6 and for_bits.version == 4 else 0) + bits]
        node = 0
        for bit in path[:-1]:
            if nodes[node][bit] is None:
                nodes.append([None, None])
                nodes[node][bit] = len(nodes) - 1
            following = nodes[node][bit]
            assert isinstance(following, int)
            node = following
        nodes[node][path[-1]] = encoded(record)
    data, tree = b"", b""
    for sides in nodes:
        for side in sides:
            if isinstance(side, bytes):
                pointer, data = len(nodes) + 16 + len(data), data + side
            else:
                pointer = len(nodes) if side is None else side
            tree += pointer.to_bytes(3, "big")
    metadata = {
        "node_count": unsigned(len(nodes), 4),
        "record_size": unsigned(24, 2),
        "ip_version": unsigned(ip_version, 2),
        "database_type": "Test",
        "languages": ["en"],
        "binary_format_major_version": unsigned(2, 2),
        "binary_format_minor_version": unsigned(0, 2),
        "build_epoch": unsigned(made, 8),
        "description": {"en": "written by a test"},
    }
    return tree + bytes(16) + data + b"\xab\xcd\xefMaxMind.com" + encoded(metadata)


# --- The database that comes with the code ---


@pytest.fixture(scope="module")
def bundled() -> Iterator[Countries]:
    countries = Countries(None)
    yield countries
    countries.close()


@cases(
    ("address", "country"),
    [
        # as measured against four other databases (Orange, Telekom, Virgin, Jio and others); all agreed
        ("8.8.8.8", "US"),
        ("133.11.0.1", "JP"),
        ("114.114.114.114", "CN"),
        ("15.188.0.1", "FR"),
        ("80.10.0.1", "FR"),
        ("84.128.0.1", "DE"),
        ("62.254.0.1", "GB"),
        ("49.32.0.1", "IN"),
        ("102.89.0.1", "NG"),
        ("41.0.0.1", "ZA"),
        ("177.32.0.1", "BR"),
        ("175.192.0.1", "KR"),
        ("2001:200::1", "JP"),
        ("2a01:cb00::", "FR"),
        ("2003::1", "DE"),
        ("2409:4000::", "IN"),
        ("2a03:2880:f12f::", "IE"),
        # addresses of nobody
        ("0.0.0.0", ""),
        ("10.0.0.1", ""),
        ("127.0.0.1", ""),
        ("169.254.1.1", ""),
        ("192.0.2.1", ""),
        ("192.168.1.1", ""),
        ("203.0.113.7", ""),
        ("::", ""),
        ("::1", ""),
        ("fe80::1", ""),
        ("fd00::1", ""),
        ("2001:db8::1", ""),
    ],
)
def test_bundled_database_knows(bundled: Countries, address: str, country: str) -> None:
    assert bundled.of(ip_address(address)) == country


def test_bundled_database_says_its_age(bundled: Countries) -> None:
    assert bundled.built == date(2026, 6, 1)


def test_bundled_database_leaves_no_file_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """8 MB a start would fill /tmp; the mapped file goes with the process."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    countries = Countries(None)
    assert list(tmp_path.iterdir()) == []
    assert countries.of(ip_address("8.8.8.8")) == "US"
    countries.close()


def test_no_room_to_unpack_says_where_and_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = tmp_path / "gone"
    monkeypatch.setattr(tempfile, "tempdir", str(full))
    with pytest.raises(CountryDataError, match=rf"{re.escape(str(full))}.*8 MB.*--geoip-db"):
        Countries(None)


def test_data_readme_is_about_the_packed_file() -> None:
    """data/README.md names version, licence, attribution and the sha256 of what lies beside it."""
    readme = asset("data/README.md").read_text()
    packed = asset(BUNDLED).read_bytes()
    assert hashlib.sha256(packed).hexdigest() in readme
    assert hashlib.sha256(lzma.decompress(packed)).hexdigest() in readme
    for needed in (
        "CC BY 4.0",
        "https://db-ip.com",
        "IP Geolocation by DB-IP",
        "2026-06",
        Path(BUNDLED).name,
    ):
        assert needed in readme


def test_licence_lies_beside_the_data() -> None:
    assert "Creative Commons Attribution 4.0" in asset("data/DBIP-LICENSE").read_text()


def test_countries_are_those_of_iso_3166_and_kosovo() -> None:
    """country: ISO 3166-1 alpha-2; tzdata carries the list."""
    table = importlib.resources.files("tzdata").joinpath("zoneinfo", "iso3166.tab").read_text(encoding="utf-8")
    assigned = {line.split("\t")[0] for line in table.splitlines() if not line.startswith("#")}
    assert assigned == COUNTRIES - {"XK"}


# --- Databases of one's own ---


@cases(
    ("record", "country"),
    [
        ({"country_code": "DE"}, "DE"),
        ({"country_code": "de"}, "DE"),
        ({"country_code": "US", "country": "United States"}, "US"),
        ({"country": {"iso_code": "FR", "names": {"en": "France"}}}, "FR"),
        ({"country": {"iso_code": "FR"}, "registered_country": {"iso_code": "US"}}, "FR"),
        ({"registered_country": {"iso_code": "US"}}, "US"),
        ({"country": {"names": {"en": "?"}}, "registered_country": {"iso_code": "US"}}, "US"),
        ({"country_code": "XK"}, "XK"),
        *[({"country_code": code}, "") for code in ("XX", "T1", "A1", "A2", "O1", "ZZ", "EU", "AP", "AN", "", "DEU")],
        ({"country": {"iso_code": "EU"}}, ""),
        ({"country_code": 49}, ""),
        ({"country": "Germany"}, ""),
        ({"autonomous_system_number": 3320}, ""),
        ({}, ""),
        (["DE"], ""),
        ("DE", ""),
        (None, ""),
    ],
    ids=str,
)
def test_reads_every_known_shape_of_record(record: object, country: str) -> None:
    """The shapes of DB-IP, GeoLite2 and IPinfo; stand-ins for unknown are no countries."""
    assert country_of(record) == country


SHAPES = {
    "flat": lambda code: {"country_code": code},
    "nested": lambda code: {"country": {"iso_code": code}},
}


@pytest.mark.parametrize("shape", SHAPES)
def test_another_database_replaces_the_bundled_one(tmp_path: Path, shape: str) -> None:
    """--geoip-db takes any MMDB."""
    record = SHAPES[shape]
    path = tmp_path / "own.mmdb"
    path.write_bytes(mmdb({"8.8.0.0/16": record("IS"), "10.0.0.0/8": record("XX"), "2001:db8::/32": record("NZ")}))
    countries = Countries(path)
    cases = {
        "8.8.8.8": "IS",
        "8.9.0.1": "",
        "10.1.2.3": "",
        "2001:db8::1": "NZ",
        "2001:db9::1": "",
        "0.0.0.1": "",
    }
    assert {address: countries.of(ip_address(address)) for address in cases} == cases
    assert countries.built == date(2026, 6, 1)
    countries.close()


def test_a_database_of_ipv4_alone_knows_no_ipv6(tmp_path: Path) -> None:
    path = tmp_path / "v4.mmdb"
    path.write_bytes(mmdb({"8.8.0.0/16": {"country_code": "IS"}}, ip_version=4))
    countries = Countries(path)
    assert countries.of(ip_address("8.8.8.8")) == "IS"
    assert countries.of(ip_address("2001:db8::1")) == ""
    countries.close()


def test_the_old_file_is_read_until_its_successor_is_opened(tmp_path: Path) -> None:
    """`geo update` renames the month's file into place while the server runs."""
    path, fresh = tmp_path / "own.mmdb", tmp_path / "fresh.mmdb"
    path.write_bytes(mmdb({"8.8.0.0/16": {"country_code": "IS"}}))
    fresh.write_bytes(mmdb({"8.8.0.0/16": {"country_code": "NZ"}}, made=MADE + 40 * 86_400))
    before = Countries(path)
    fresh.replace(path)
    after = Countries(path)
    assert (before.of(ip_address("8.8.8.8")), after.of(ip_address("8.8.8.8"))) == ("IS", "NZ")
    assert (before.built, after.built) == (date(2026, 6, 1), date(2026, 7, 11))
    before.close()
    assert after.of(ip_address("8.8.8.8")) == "NZ"
    after.close()


def broken(data: bytes) -> bytes:
    """The same file with its first record pointing far behind the end."""
    return struct.pack(">I", 0xFFFFFE)[1:] * 2 + data[6:]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "there is no country database"),
        (b"", "cannot be read as a country database"),
        (b"no database at all\n" * 100, "cannot be read as a country database"),
        (lzma.compress(mmdb({"8.8.0.0/16": {"country_code": "IS"}})), "unpacked MMDB"),
        (mmdb({"8.8.0.0/16": {"country_code": "IS"}}, made=1 << 63), "cannot be read as a country database"),
        (broken(mmdb({"8.8.0.0/16": {"country_code": "IS"}})), "cannot be read as a country database"),
        (mmdb({"8.8.0.0/16": {"autonomous_system_number": 15169}}), "names no countries"),
        (mmdb({"8.8.0.0/16": {"country_code": "XX"}}), "names no countries"),
    ],
    ids=["missing", "empty", "text", "packed", "year-292277026596", "torn", "of networks", "of stand-ins"],
)
def test_a_file_that_cannot_serve_is_refused_with_path_and_advice(
    tmp_path: Path, content: bytes | None, says: str
) -> None:
    path = tmp_path / "own.mmdb"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(CountryDataError) as caught:
        Countries(path)
    message = str(caught.value)
    assert says in message
    assert str(path) in message
    assert "--geoip-db" in message


def test_a_folder_is_no_database(tmp_path: Path) -> None:
    with pytest.raises(CountryDataError, match=re.escape(str(tmp_path))):
        Countries(tmp_path)


def test_damage_met_later_costs_the_country_not_the_event(tmp_path: Path) -> None:
    """A record that cannot be read is a country nobody knows."""
    good = mmdb({"8.8.0.0/16": {"country_code": "IS"}, "200.0.0.0/8": {"country_code": "BR"}})
    path = tmp_path / "own.mmdb"
    path.write_bytes(good.replace(encoded({"country_code": "BR"}), b"\x3f" * len(encoded({"country_code": "BR"}))))
    countries = Countries(path)
    assert countries.of(ip_address("8.8.8.8")) == "IS"
    assert countries.of(ip_address("200.1.2.3")) == ""
    countries.close()
