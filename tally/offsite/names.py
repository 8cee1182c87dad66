"""Names of backups and increments at a destination, from which everything about them follows but their content.

- A backup: `tally-DATABASE-TIME-SERIES-POSITION.db`, for example `tally-4f2a9c1b-20261122T030000Z-81c0d2aa-120345.db`.
- An increment: `tally-DATABASE-SERIES-FROM-TO.ndjson.gz`, the events whose ids are above FROM and up to TO.

`.age` is added to an encrypted file. DATABASE identifies the database; SERIES changes when a database is restored,
after which ids are assigned again. POSITION is an id up to which a backup has every event of its series.
"""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import NamedTuple

from tally.offsite.age import SUFFIX
from tally.offsite.destination import UNFINISHED
from tally.timestamps import SECOND_MS

_STAMP = "%Y%m%dT%H%M%SZ"
_BACKUP = re.compile(
    r"tally-(?P<database>[0-9a-f]{8})-(?P<time>\d{8}T\d{6}Z)-(?P<series>[0-9a-f]{8})-(?P<position>\d{1,18})\.db(?:\.age)?",
    re.ASCII,
)
_INCREMENT = re.compile(
    r"tally-(?P<database>[0-9a-f]{8})-(?P<series>[0-9a-f]{8})-(?P<after>\d{1,18})-(?P<to>\d{1,18})\.ndjson\.gz(?:\.age)?",
    re.ASCII,
)


class Backup(NamedTuple):
    """A backup at a destination."""

    time_ms: int
    name: str
    size: int
    database: str
    series: str
    position: int


class Increment(NamedTuple):
    """An increment at a destination: events with ids in (after, to]."""

    after: int
    to: int
    name: str
    size: int
    database: str
    series: str


class Catalog(NamedTuple):
    """What a destination has, backups oldest first, increments in the order of their ids; and unfinished uploads."""

    backups: list[Backup]
    increments: list[Increment]
    unfinished: list[str]

    def of(self, database: str) -> "Catalog":
        """Return what belongs to a database."""
        return Catalog(
            [file for file in self.backups if file.database == database],
            [file for file in self.increments if file.database == database],
            [name for name in self.unfinished if name.split("-")[1] == database],
        )

    def last_id(self, series: str) -> int:
        """Return the id up to which the events of a series are stored; 0 where there is nothing of it."""
        positions = [file.position for file in self.backups if file.series == series]
        return max(positions + [file.to for file in self.increments if file.series == series], default=0)


def catalog(files: Iterable[tuple[str, int]]) -> Catalog:
    """Return the backups and increments among files of (name, size)."""
    listed = Catalog([], [], [])
    for name, size in files:
        whole = name.removesuffix(UNFINISHED)
        if match := _BACKUP.fullmatch(whole):
            time_ms = _time_ms(match["time"])
            if whole != name:
                listed.unfinished.append(name)
            elif time_ms:
                position = int(match["position"])
                listed.backups.append(Backup(time_ms, name, size, match["database"], match["series"], position))
        elif match := _INCREMENT.fullmatch(whole):
            if whole != name:
                listed.unfinished.append(name)
            else:
                ids = int(match["after"]), int(match["to"])
                listed.increments.append(Increment(*ids, name, size, match["database"], match["series"]))
    listed.backups.sort()
    listed.increments.sort()
    return listed


def backup_name(database: str, time_ms: int, series: str, position: int, *, is_encrypted: bool) -> str:
    """Return the name of a new backup."""
    time = datetime.fromtimestamp(time_ms // SECOND_MS, UTC).strftime(_STAMP)
    return f"tally-{database}-{time}-{series}-{position}.db{SUFFIX if is_encrypted else ''}"


def increment_name(database: str, series: str, after: int, to: int, *, is_encrypted: bool) -> str:
    """Return the name of a new increment."""
    return f"tally-{database}-{series}-{after}-{to}.ndjson.gz{SUFFIX if is_encrypted else ''}"


def _time_ms(text: str) -> int:
    """Return the time in a name; 0 where it is not valid."""
    try:
        return int(datetime.strptime(text, _STAMP).replace(tzinfo=UTC).timestamp()) * SECOND_MS
    except ValueError:
        return 0
