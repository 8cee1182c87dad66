"""tally/events/geoip.py with the bundled database and with small ones written by tests.

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
from ipaddress import ip_address
from pathlib import Path

import pytest

from tally.events.geoip import BUNDLED, COUNTRIES, CountryDataError, Places, country_of, place_of
from tally.events.request_context import Place
from tally.resources import asset
from tests.support.cases import cases
from tests.support.mmdb import MADE, encoded, mmdb

# --- The bundled database ---


@pytest.fixture(scope="module")
def bundled() -> Iterator[Places]:
    places = Places(None)
    yield places
    places.close()


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
        # addresses without a country
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
def test_bundled_database_knows(bundled: Places, address: str, country: str) -> None:
    assert bundled.of(ip_address(address)).country == country


def test_bundled_database_says_its_age(bundled: Places) -> None:
    assert bundled.built == date(2026, 6, 1)


def test_bundled_database_leaves_no_file_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """8 MB per start would fill /tmp; the mapped file is deleted with the process."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    places = Places(None)
    assert list(tmp_path.iterdir()) == []
    assert places.of(ip_address("8.8.8.8")).country == "US"
    places.close()


def test_a_full_temporary_directory_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = tmp_path / "gone"
    monkeypatch.setattr(tempfile, "tempdir", str(full))
    with pytest.raises(CountryDataError, match=rf"{re.escape(str(full))}.*8 MB.*--geoip-db"):
        Places(None)


def test_data_readme_describes_the_compressed_file() -> None:
    """data/README.md names version, licence, attribution and sha256 of the file beside it."""
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


def test_the_licence_is_in_the_data_directory() -> None:
    assert "Creative Commons Attribution 4.0" in asset("data/DBIP-LICENSE").read_text()


def test_countries_are_those_of_iso_3166_and_kosovo() -> None:
    """country: ISO 3166-1 alpha-2; tzdata carries the list."""
    table = importlib.resources.files("tzdata").joinpath("zoneinfo", "iso3166.tab").read_text(encoding="utf-8")
    assigned = {line.split("\t")[0] for line in table.splitlines() if not line.startswith("#")}
    assert assigned == COUNTRIES - {"XK"}


# --- Other databases ---


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
    """The layouts of DB-IP, GeoLite2 and IPinfo; placeholders for unknown are not countries."""
    assert country_of(record) == country


SHAPES = {
    "flat": lambda code: {"country_code": code},
    "nested": lambda code: {"country": {"iso_code": code}},
}


@pytest.mark.parametrize("shape", SHAPES)
def test_another_database_replaces_the_bundled_one(tmp_path: Path, shape: str) -> None:
    """--geoip-db accepts any MMDB."""
    record = SHAPES[shape]
    path = tmp_path / "own.mmdb"
    path.write_bytes(mmdb({"8.8.0.0/16": record("IS"), "10.0.0.0/8": record("XX"), "2001:db8::/32": record("NZ")}))
    places = Places(path)
    cases = {
        "8.8.8.8": "IS",
        "8.9.0.1": "",
        "10.1.2.3": "",
        "2001:db8::1": "NZ",
        "2001:db9::1": "",
        "0.0.0.1": "",
    }
    assert {address: places.of(ip_address(address)).country for address in cases} == cases
    assert places.built == date(2026, 6, 1)
    places.close()


def city_record(country: str, subdivisions: tuple[str, ...], city: str) -> dict[str, object]:
    """A record in the layout of GeoIP2 City."""
    return {
        "continent": {"code": "EU", "names": {"en": "Europe", "de": "Europa"}},
        "country": {"iso_code": country, "geoname_id": 1, "names": {"en": "?"}},
        "registered_country": {"iso_code": "US"},
        "subdivisions": [{"iso_code": code, "geoname_id": 2, "names": {"en": code}} for code in subdivisions],
        "city": {"geoname_id": 3, "names": {"de": f"{city} (de)", "en": city}},
        "location": {"accuracy_radius": 100, "time_zone": "Europe/London"},
    }


@cases(
    ("record", "place"),
    [
        (city_record("GB", ("ENG", "WBK"), "Boxford"), ("GB", "GB-ENG", "Boxford")),
        (city_record("US", ("wa",), "Milton"), ("US", "US-WA", "Milton")),
        (city_record("SE", ("E",), "Linköping"), ("SE", "SE-E", "Linköping")),
        (city_record("SG", (), "Singapore"), ("SG", "", "Singapore")),
        (city_record("FR", ("75",), "x" * 101), ("FR", "FR-75", "x" * 100)),
        (city_record("XX", ("A",), "Nowhere"), ("", "", "Nowhere")),
        (city_record("DE", ("Berlin",), " a\0b "), ("DE", "", "ab")),
        # subdivisions without codes (DB-IP City Lite), names in other languages alone, flat layouts (IPinfo)
        ({"country": {"iso_code": "DE"}, "subdivisions": [{"names": {"en": "Berlin"}}]}, ("DE", "", "")),
        ({"country": {"iso_code": "DE"}, "city": {"names": {"de": "Köln"}}}, ("DE", "", "")),
        ({"country_code": "US", "region_code": "CA", "city": "Mountain View"}, ("US", "US-CA", "Mountain View")),
        ({"country_code": "US"}, ("US", "", "")),
        # of unknown layouts
        ({"country_code": "US", "subdivisions": ["CA"], "city": 7}, ("US", "", "")),
        ({"country_code": "US", "subdivisions": [{"iso_code": 6}], "city": {"names": "?"}}, ("US", "", "")),
        ({"country_code": "US", "subdivisions": {"iso_code": "CA"}, "city": {"names": {"en": 1}}}, ("US", "", "")),
        ([], ("", "", "")),
        (None, ("", "", "")),
    ],
    ids=str,
)
def test_reads_region_and_city(record: object, place: tuple[str, str, str]) -> None:
    """A region is an ISO 3166-2 code, of the first subdivision; a city is its English name."""
    assert place_of(record) == place


def test_a_database_of_cities(tmp_path: Path) -> None:
    """--geoip-db accepts a database of cities; an address without a record has no place."""
    path = tmp_path / "city.mmdb"
    records = {
        "81.2.69.142/31": city_record("GB", ("ENG",), "London"),
        "2001:db8::/32": city_record("DE", ("BE",), "Berlin"),
    }
    path.write_bytes(mmdb(dict(records)))
    places = Places(path)
    assert places.of(ip_address("81.2.69.143")) == Place("GB", "GB-ENG", "London")
    assert places.of(ip_address("2001:db8::7")) == Place("DE", "DE-BE", "Berlin")
    assert places.of(ip_address("81.2.69.144")) == Place("", "", "")
    places.close()


def test_a_database_of_ipv4_alone_knows_no_ipv6(tmp_path: Path) -> None:
    path = tmp_path / "v4.mmdb"
    path.write_bytes(mmdb({"8.8.0.0/16": {"country_code": "IS"}}, ip_version=4))
    places = Places(path)
    assert places.of(ip_address("8.8.8.8")).country == "IS"
    assert places.of(ip_address("2001:db8::1")).country == ""
    places.close()


def test_the_old_file_is_read_until_its_successor_is_opened(tmp_path: Path) -> None:
    """`geo update` renames the month's file into place while the server runs."""
    path, fresh = tmp_path / "own.mmdb", tmp_path / "fresh.mmdb"
    path.write_bytes(mmdb({"8.8.0.0/16": {"country_code": "IS"}}))
    fresh.write_bytes(mmdb({"8.8.0.0/16": {"country_code": "NZ"}}, made=MADE + 40 * 86_400))
    before = Places(path)
    fresh.replace(path)
    after = Places(path)
    assert (before.of(ip_address("8.8.8.8")).country, after.of(ip_address("8.8.8.8")).country) == ("IS", "NZ")
    assert (before.built, after.built) == (date(2026, 6, 1), date(2026, 7, 11))
    before.close()
    assert after.of(ip_address("8.8.8.8")).country == "NZ"
    after.close()


def broken(data: bytes) -> bytes:
    """Return the file with its first record pointing far beyond the end."""
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
    ids=["missing", "empty", "text", "packed", "year-292277026596", "torn", "of networks", "of placeholders"],
)
def test_invalid_files_are_refused_with_path_and_fix(tmp_path: Path, content: bytes | None, says: str) -> None:
    path = tmp_path / "own.mmdb"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(CountryDataError) as caught:
        Places(path)
    message = str(caught.value)
    assert says in message
    assert str(path) in message
    assert "--geoip-db" in message


def test_a_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CountryDataError, match=re.escape(str(tmp_path))):
        Places(tmp_path)


def test_damage_found_later_loses_the_country_only(tmp_path: Path) -> None:
    """An unreadable record gives an unknown country."""
    good = mmdb({"8.8.0.0/16": {"country_code": "IS"}, "200.0.0.0/8": {"country_code": "BR"}})
    path = tmp_path / "own.mmdb"
    path.write_bytes(good.replace(encoded({"country_code": "BR"}), b"\x3f" * len(encoded({"country_code": "BR"}))))
    places = Places(path)
    assert places.of(ip_address("8.8.8.8")).country == "IS"
    assert places.of(ip_address("200.1.2.3")).country == ""
    places.close()
