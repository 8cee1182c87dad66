"""Place of an address (country, region, city), by a database on this machine.

- No lookup leaves the process and no address is kept or logged (docs/privacy.md). A lookup takes
  2 µs in a database of countries and 20 µs in one of cities; tally/events/sender.py caches the latest clients.
- A country is an upper-case ISO 3166-1 alpha-2 code, or '' where the database has none.
  Placeholders that databases use (XX, ZZ, T1, A1, EU, AP) are no countries.
- A region is an ISO 3166-2 code: the country and the code of its first, that is largest, subdivision, such as DE-BE. A
  city is its English name. Both are '' in a database of countries, as the bundled one is.
- Any MMDB of countries or cities can be used: the layout of GeoIP2 and GeoLite2 ({"country": {"iso_code": "DE"}}) as
  well as a flat one ({"country_code": "DE"}).

The database that comes with the code is DB-IP Country Lite (see data/README.md), packed with xz to a
quarter of its size. It is unpacked into a temporary directory that is deleted as soon as the reader has mapped
the file, so nothing is left after a crash. Another file is mapped where it is: replace it by renaming a new
one into its place, never by writing into it, then open a new Places and close this one.

IPv4-mapped addresses have to be converted to IPv4 by the caller.
"""

import lzma
import re
import tempfile
from datetime import UTC, date, datetime
from ipaddress import IPv4Address, IPv6Address
from itertools import islice
from pathlib import Path
from typing import Final

import maxminddb

from tally.events.request_context import NOWHERE, Place
from tally.events.request_context import CountryDataError as CountryDataError
from tally.resources import asset

BUNDLED: Final = "data/dbip-country-lite.mmdb.xz"
PROBED: Final = 1_000  # networks that are checked for a first country, in 1 ms; mostly the first has one

# ISO 3166-1 alpha-2 as assigned in 2026, and XK: user-assigned, used by databases and browsers for Kosovo.
_CODES: Final = """
AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ BR BS BT BV
BW BY BZ CA CC CD CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ DK DM DO DZ EC EE EG EH ER ES
ET FI FJ FK FM FO FR GA GB GD GE GF GG GH GI GL GM GN GP GQ GR GS GT GU GW GY HK HM HN HR HT HU ID IE
IL IM IN IO IQ IR IS IT JE JM JO JP KE KG KH KI KM KN KP KR KW KY KZ LA LB LC LI LK LR LS LT LU LV LY
MA MC MD ME MF MG MH MK ML MM MN MO MP MQ MR MS MT MU MV MW MX MY MZ NA NC NE NF NG NI NL NO NP NR NU
NZ OM PA PE PF PG PH PK PL PM PN PR PS PT PW PY QA RE RO RS RU RW SA SB SC SD SE SG SH SI SJ SK SL SM
SN SO SR SS ST SV SX SY SZ TC TD TF TG TH TJ TK TL TM TN TO TR TT TV TW TZ UA UG UM US UY UZ VA VC VE
VG VI VN VU WF WS XK YE YT ZA ZM ZW
"""
COUNTRIES: Final = frozenset(_CODES.split())


MAX_CITY_CHARACTERS: Final = 100  # as every label (docs/reference/collect-api.md)
# The part of an ISO 3166-2 code after the country.
_SUBDIVISION: Final = re.compile(r"[A-Z0-9]{1,3}")


class Places:
    """One open database of countries, or of cities."""

    built: date  # the day the data was made (UTC)

    def __init__(self, path: Path | None = None) -> None:
        """Open the MMDB file at path; None opens the one that comes with the code and unpacks it (0.2 s).

        Raises CountryDataError where the file is missing, is no MMDB, or has no countries.
        """
        self._reader = _unpack_and_open(asset(BUNDLED)) if path is None else _open(path)
        try:
            metadata = self._reader.metadata()
            self.built = datetime.fromtimestamp(metadata.build_epoch, UTC).date()
            self._ip_version = metadata.ip_version
            has_countries = any(country_of(record) for _, record in islice(self._reader, PROBED))
        except (maxminddb.InvalidDatabaseError, ValueError, OverflowError, OSError) as error:
            self._reader.close()
            raise CountryDataError(_damaged(path or asset(BUNDLED), error)) from error
        if not has_countries:
            self._reader.close()
            raise CountryDataError(
                f"{path} is a database of type {metadata.database_type!r} that names no countries; "
                "use a country or city database in MMDB format, or leave --geoip-db out for the bundled one"
            )

    def of(self, address: IPv4Address | IPv6Address) -> Place:
        """Return the place of an address."""
        if address.version > self._ip_version:
            return NOWHERE  # an IPv4-only database
        try:
            return place_of(self._reader.get(address))
        except maxminddb.InvalidDatabaseError:
            return NOWHERE  # a damaged spot in the file costs one place, not the event

    def close(self) -> None:
        """Close the file; of() must not be called afterwards."""
        self._reader.close()


def place_of(record: object) -> Place:
    """Return the place in a record of any known shape."""
    if not isinstance(record, dict):
        return NOWHERE
    country = country_of(record)
    return Place(country, _region_of(record, country), _city_of(record))


def _region_of(record: dict[str, object], country: str) -> str:
    """Return the first subdivision of a country as an ISO 3166-2 code, '' where one of the two is missing."""
    subdivisions = record.get("subdivisions")
    first = subdivisions[0] if isinstance(subdivisions, list) and subdivisions else None
    code = first.get("iso_code") if isinstance(first, dict) else record.get("region_code")
    if not country or not isinstance(code, str) or not _SUBDIVISION.fullmatch(code.upper()):
        return ""
    return f"{country}-{code.upper()}"


def _city_of(record: dict[str, object]) -> str:
    """Return the English name of the city, without characters that no stored text may have."""
    city = record.get("city")
    names = city.get("names") if isinstance(city, dict) else None
    name = names.get("en") if isinstance(names, dict) else city
    return name.replace("\0", "").strip()[:MAX_CITY_CHARACTERS] if isinstance(name, str) else ""


def country_of(record: object) -> str:
    """Return the country in a record of any known shape, '' where there is none."""
    if not isinstance(record, dict):
        return ""
    # GeoLite2 has only registered_country where the country in which an address is used is not known.
    places = (record.get("country"), record.get("registered_country"))
    nested = (place.get("iso_code") for place in places if isinstance(place, dict))
    codes = (record.get("country_code"), *nested)
    code = next((code for code in codes if isinstance(code, str)), "").upper()
    return code if code in COUNTRIES else ""


def _open(path: Path) -> maxminddb.Reader:
    try:
        return maxminddb.open_database(path, maxminddb.MODE_AUTO)
    except FileNotFoundError as error:
        raise CountryDataError(
            f"there is no country database at {path}; "
            "give the path of an MMDB file, or leave --geoip-db out for the bundled one"
        ) from error
    except (maxminddb.InvalidDatabaseError, OSError, ValueError) as error:
        raise CountryDataError(_damaged(path, error)) from error


def _unpack_and_open(packed: Path) -> maxminddb.Reader:
    try:
        # Where a mapped file cannot be removed (Windows), the directory stays until the system clears it.
        with tempfile.TemporaryDirectory(prefix="tally-country-", ignore_cleanup_errors=True) as folder:
            unpacked = Path(folder, "country.mmdb")
            # In one piece: where this runs beside imports, each further piece would wait for the interpreter's lock.
            unpacked.write_bytes(lzma.decompress(packed.read_bytes()))
            return _open(unpacked)
    except (OSError, EOFError, lzma.LZMAError) as error:
        raise CountryDataError(
            f"{packed} cannot be unpacked ({error}); that needs 8 MB for temporary files (TMPDIR). "
            "If there is enough space, install the server again, or name another database with --geoip-db"
        ) from error


def _damaged(path: Path, error: Exception) -> str:
    return (
        f"{path} cannot be read as a country database ({error}); "
        "give an unpacked MMDB file, or leave --geoip-db out for the bundled one"
    )
