"""The table of wire formats: method and path of each endpoint, its translator, and how it answers a refusal.

A new format is a row, and a file with a translator (described in tally/ingest/compat/requests.py). Routes and
the headers of the responses follow from the table; docs/migrating-trackers.md describes what becomes of each value.
"""

from collections.abc import Callable
from typing import NamedTuple

from aiohttp import web

from tally.errors import ApiError
from tally.ingest.compat import goatcounter, plausible, umami
from tally.ingest.compat.requests import Received, Translation


class Format(NamedTuple):
    """A row: `refused` returns the answer to an error, or raises the error to have Tally's own."""

    method: str
    path: str
    translate: Callable[[Received], Translation]
    refused: Callable[[ApiError], web.Response]


FORMATS = (
    Format("POST", "/api/event", plausible.translate, plausible.refused),
    Format("POST", "/api/send", umami.translate, umami.refused),
    Format("POST", "/api/batch", umami.translate_batch, umami.refused),
    Format("GET", "/count", goatcounter.translate, goatcounter.refused),
    Format("POST", "/count", goatcounter.translate, goatcounter.refused),
    Format("GET", "/count/{website}", goatcounter.translate, goatcounter.refused),
    Format("POST", "/count/{website}", goatcounter.translate, goatcounter.refused),
    Format("POST", "/api/v0/count", goatcounter.translate_hits, goatcounter.refused_hits),
)
