"""The bundled database of places as a server uses it: unpacked after it listens, which takes 0.2 s of processor time.

tally/events/geoip.py has the databases. It is imported with the first one, since its reader takes 15 ms.

A lookup that comes earlier waits until the database is open, or opens it itself: at no time does an event lack its
place because the server has just started.
"""

from threading import Lock
from typing import TYPE_CHECKING, Protocol

from tally.events.client import Address
from tally.events.request_context import Place

if TYPE_CHECKING:
    from tally.events.geoip import Places


class PlaceDatabase(Protocol):
    """What finds places: `Places` of tally/events/geoip.py, or `DeferredPlaces`."""

    def of(self, address: Address) -> Place:
        """Return the place of an address."""

    def close(self) -> None:
        """Close the database; `of` must not be called afterwards."""


class DeferredPlaces:
    """The bundled database, opened by `load` or with the first lookup. Any thread may call its methods."""

    def __init__(self) -> None:
        self._opened: Places | None = None
        self._opening = Lock()

    def load(self) -> "Places":
        """Return the database; open it if no lookup has needed it yet. Raises CountryDataError."""
        from tally.events.geoip import Places

        with self._opening:
            if self._opened is None:
                self._opened = Places()
            return self._opened

    def of(self, address: Address) -> Place:
        """Return the place of an address. Raises CountryDataError."""
        return (self._opened or self.load()).of(address)

    def close(self) -> None:
        """Close the database; `of` must not be called afterwards."""
        if self._opened is not None:
            self._opened.close()
