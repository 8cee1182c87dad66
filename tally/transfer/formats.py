"""The formats of files that can be imported: one row each.

An importer turns a file of another system into items: objects in the shape of a line of Tally's own format
(tally/transfer/line_format.py), which checks them, and tally/transfer/importer.py stores. Adding one is a file here
with a class like Reader, and a row in IMPORTERS: `analytics-server import --from NAME` accepts it.

Files are read again from the middle where an import was interrupted. So `read` depends on its record alone, and on what
`records` reads at the beginning of a file, such as the names of columns.
"""

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, NamedTuple

from tally.events.json_text import read_json
from tally.transfer.files import Source
from tally.transfer.line_format import BAD_JSON
from tally.transfer.records import Reader, Record, Site, lines


class Importer(NamedTuple):
    """How a format is read: `reader` is made for a file.

    has_addresses: the file identifies visitors by their addresses. Their numbers then cannot be computed again from an
    address once the import is complete, and visitors of another file are other visitors.
    """

    reader: Callable[[Source, Site], Reader]
    has_addresses: bool = False


class TallyLines:
    """Reads what `analytics-server export` writes."""

    def __init__(self, source: Source, site: Site) -> None:
        self._source = source

    def records(self, start: int) -> Iterator[Record]:
        """Yield the lines of the file."""
        return lines(self._source, start)

    @staticmethod
    def read(value: bytes) -> tuple[Any, ...]:
        """Return the JSON value of a line; nothing where it is blank."""
        try:
            return (read_json(value),)
        except ValueError:
            return (BAD_JSON,) if value.strip() else ()


def _reader(module: str, name: str) -> Callable[[Source, Site], Reader]:
    """Return what makes a reader, from a module that is imported only then: the tables of User-Agents take 40 ms."""

    def make(source: Source, site: Site) -> Reader:
        made: Reader = getattr(import_module(f"tally.transfer.{module}"), name)(source, site)
        return made

    return make


IMPORTERS: dict[str, Importer] = {
    "tally": Importer(TallyLines),
    "goatcounter": Importer(_reader("goatcounter_sums", "reader")),
    "plausible": Importer(_reader("plausible_sums", "reader")),
    "umami": Importer(_reader("umami", "reader")),
    "matomo": Importer(_reader("matomo", "Matomo")),
    "ga4": Importer(_reader("ga4_sums", "reader")),
    "access-log": Importer(_reader("access_log", "AccessLog"), has_addresses=True),
}
"""Importers by the name that `--from` accepts. `tally` is what `analytics-server export` writes."""
