"""Hosts of referrer spam: sites that send invented visits, so that their names appear in reports.

data/referrer_spam.txt has them, built by scripts/refresh_lists.py: comments, then one host per line. A host counts with
its subdomains, as whole labels: `spam.example` covers `www.spam.example`, and not `antispam.example`. Referrers
repeat: one that is not cached takes 1 µs.
"""

from collections.abc import Collection
from functools import cache, lru_cache
from pathlib import Path
from typing import Final

from tally.resources import DataFile

DATA: Final = "data/referrer_spam.txt"
_FILE: Final = DataFile(DATA)


def read_from(path: Path | None) -> None:
    """Use another file of the list from now on (tally/events/lists.py); None is the bundled one."""
    if _FILE.replace(path):
        _listed.cache_clear()
        is_listed.cache_clear()


def covers(hosts: Collection[str], host: str) -> bool:
    """Return whether a host or a domain above it is among some hosts."""
    while host not in hosts:
        _, dot, host = host.partition(".")
        if not dot:
            return False
    return True


@lru_cache(1_024)
def is_listed(host: str) -> bool:
    """Return whether a referrer's host is in the list."""
    return covers(_listed(), host)


@cache
def _listed() -> frozenset[str]:
    lines = _FILE.path.read_text("utf-8").splitlines()
    return frozenset(line for line in lines if not line.startswith("#"))
