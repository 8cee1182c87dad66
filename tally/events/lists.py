"""The lists of crawlers, of referrer spam and of data centers that are in use.

The first two come with the code. Files of the directory of --lists-dir have the same names and format, as
scripts/refresh_lists.py writes them, and a date. Of each list the newer file is used. Networks of data centers are in
the file of --datacenter-ranges alone. A file is checked as a whole before it is used; a bad line is named by its
number.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from socket import AF_INET, AF_INET6, inet_pton
from typing import Any, Final, NamedTuple

from tally.events import crawlers, referrer_spam
from tally.events.datacenters import Ranges, Span
from tally.resources import asset

OLD_DAYS: Final = 180
# Providers change their networks several times a month, and addresses that they give up become those of people.
OLD_RANGES_DAYS: Final = 30
DATACENTERS: Final = "datacenters"
_LIMIT_BYTES: Final = 16 * 1_048_576
# One wider than these is a slip that would exclude a part of the internet.
_MAX_NETWORKS, _MIN_PREFIX = 500_000, {4: 8, 6: 16}
_MIN_PATTERN, _MAX_NAME = 3, 100
_DATE: Final = re.compile(r"# date: ([0-9]{4}-[0-9]{2}-[0-9]{2})")
_HOST: Final = re.compile(r"(?:[a-z0-9_-]{1,63}\.)+[a-z0-9-]{2,63}")


class BadListError(ValueError):
    """A file of a list is invalid; the message has the file, the line and the fix."""


class ListFile(NamedTuple):
    """A list: its name, the file that is in use, when its source was made, how many entries it has, and from how many
    days on it is old."""

    name: str
    path: Path
    made: date
    entries: int
    old_days: int = OLD_DAYS

    def age_days(self, today: date) -> int:
        """Return how old the list is."""
        return (today - self.made).days

    @property
    def is_bundled(self) -> bool:
        """Whether it came with the code."""
        return self.name in _LISTS and self.path == asset(_LISTS[self.name][0])

    def is_old(self, today: date) -> bool:
        """Return whether to warn of its age."""
        return self.age_days(today) > self.old_days


def files(directory: Path | None) -> list[ListFile]:
    """Return the file of each list: that of the directory where it is newer. Raises BadListError."""
    found = []
    for name, (data, read) in _LISTS.items():
        bundled = asset(data)
        own = directory / bundled.name if directory else None
        used = ListFile(name, bundled, *read(bundled))
        if own is not None and own.exists() and (changed := ListFile(name, own, *read(own))).made > used.made:
            used = changed
        found.append(used)
    if directory is not None and not directory.is_dir():
        raise BadListError(f"{directory} is no directory: name one with --lists-dir, or leave the setting out.")
    return found


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > _LIMIT_BYTES:
            raise BadListError(f"{path} is larger than {_LIMIT_BYTES:,} bytes: it is no list.")
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as failure:
        raise BadListError(f"{path} cannot be read ({failure}): replace or remove it.") from None


def _bad(path: Path, line: int, reason: str) -> BadListError:
    return BadListError(f"{path}, line {line:,}: {reason}")


def _read_referrer_spam(path: Path) -> tuple[date, int]:
    """Check a list of hosts; return its date and the number of hosts. Raises BadListError."""
    dated, hosts = None, 0
    for number, line in enumerate(_text(path).splitlines(), 1):
        if line.startswith("#"):
            dated = dated or _DATE.fullmatch(line.strip())
        elif _HOST.fullmatch(line):
            hosts += 1
        else:
            raise _bad(path, number, f"a host such as spam.example is expected (got {line[:60]!r}).")
    if dated is None:
        raise _bad(path, 1, "a line such as `# date: 2026-08-20` is missing.")
    return _date(path, dated[1]), hosts


def read_ranges(path: Path) -> tuple[ListFile, Ranges]:
    """Return a list of networks, with the date of its line `# date: ...` or else of the file. Raises BadListError."""
    text = _text(path)
    dated, networks = None, 0

    def spans() -> Iterator[Span]:
        nonlocal dated, networks
        for number, line in enumerate(text.splitlines(), 1):
            content, _, comment = line.partition("#")
            if network := content.strip():
                networks += 1
                if networks > _MAX_NETWORKS:
                    raise _bad(path, number, f"a list may have {_MAX_NETWORKS:,} networks: join adjacent ones.")
                try:
                    yield _span(network.removeprefix("!").strip(), is_out=network[0] == "!")
                except ValueError as bad:
                    raise _bad(path, number, f"{bad} (got {network[:60]!r}).") from None
            elif comment and dated is None:
                dated = _DATE.fullmatch(line.strip())

    ranges = Ranges(spans())
    made = _date(path, dated[1]) if dated else datetime.fromtimestamp(path.stat().st_mtime, UTC).date()
    return ListFile(DATACENTERS, path, made, networks, OLD_RANGES_DAYS), ranges


def _span(text: str, *, is_out: bool) -> Span:
    """Return the addresses of a network. Raises ValueError.

    Not by `ip_network`, which takes four times as long.
    """
    address, _, length = text.partition("/")
    version, bits = (6, 128) if ":" in address else (4, 32)
    try:
        first = int.from_bytes(inet_pton(AF_INET6 if version == 6 else AF_INET, address))
        prefix = int(length) if length.isascii() and length.isdigit() else -1 if "/" in text else bits
    except (OSError, ValueError):  # ValueError: NUL or a lone surrogate
        prefix = -1
    if not 0 <= prefix <= bits:
        raise ValueError("a network such as 203.0.113.0/24 or 2001:db8::/32 is expected")
    if version == 6 and prefix >= 96 and first >> 32 == 0xFFFF:  # IPv4-mapped: clients are compared as IPv4
        version, bits, prefix, first = 4, 32, prefix - 96, first & 0xFFFFFFFF
    size = 1 << (bits - prefix)
    if first % size:
        raise ValueError("the address is inside the network: write its first one")
    if not is_out and prefix < _MIN_PREFIX[version]:
        raise ValueError(f"a network of IPv{version} must be /{_MIN_PREFIX[version]} or smaller")
    return Span(version, first, first + size, is_out)


def _date(path: Path, text: object) -> date:
    try:
        return date.fromisoformat(str(text))
    except ValueError:
        raise _bad(path, 1, f"the date must be like 2026-08-20 (got {str(text)[:20]!r}).") from None


def _read_crawlers(path: Path) -> tuple[date, int]:
    """Check a list of crawlers; return the date of its oldest source and their number. Raises BadListError."""
    text = _text(path)
    try:
        content = json.loads(text)
    except json.JSONDecodeError as failure:
        raise _bad(path, failure.lineno, f"this is no JSON: {failure.msg}.") from None
    except RecursionError:
        raise _bad(path, 1, "the JSON has too many levels.") from None
    entries, sources = (content.get(key) for key in ("crawlers", "sources")) if isinstance(content, dict) else (0, 0)
    if not isinstance(entries, list) or not isinstance(sources, list) or not entries or not sources:
        raise _bad(path, 1, "an object with the lists `sources` and `crawlers` is expected.")
    for entry in entries:
        if reason := _fault(entry):
            raise _bad(path, _line_of(text, entry), reason)
    dates = [source.get("date") if isinstance(source, dict) else None for source in sources]
    return min(_date(path, one) for one in dates), len(entries)


def _fault(entry: Any) -> str:
    """Return what is wrong with an entry, "" where nothing is."""
    if not isinstance(entry, dict) or not _is_text(entry.get("name"), 1, _MAX_NAME):
        return f"name must be text of at most {_MAX_NAME} characters."
    if not _is_text(entry.get("operator"), 0, _MAX_NAME):
        return f"operator must be text of at most {_MAX_NAME} characters."
    if entry.get("purpose") not in crawlers.PURPOSES:
        return f"purpose must be one of {', '.join(crawlers.PURPOSES)}."
    patterns = entry.get("patterns")
    if not isinstance(patterns, list) or not all(_is_text(one, _MIN_PATTERN, _MAX_NAME) for one in patterns):
        return f"patterns must be a list of texts of {_MIN_PATTERN} to {_MAX_NAME} characters."
    return "" if all(one == one.lower() for one in patterns) else "patterns must be in lower case."


def _is_text(value: object, least: int, most: int) -> bool:
    return isinstance(value, str) and least <= len(value) <= most and "\0" not in value


def _line_of(text: str, entry: Any) -> int:
    """Return the line of an entry: each is on a line of its own."""
    for number, line in enumerate(text.splitlines(), 1):
        try:
            if json.loads(line.strip().removesuffix(",")) == entry:
                return number
        except ValueError:
            continue
    return 1


_LISTS: Final[dict[str, tuple[str, Callable[[Path], tuple[date, int]]]]] = {
    "crawlers": (crawlers.DATA, _read_crawlers),
    "referrer_spam": (referrer_spam.DATA, _read_referrer_spam),
}
"""The bundled file of each list, and what checks a file and returns its date and the number of entries."""


class Lists:
    """The lists of a server, which are read again on SIGHUP."""

    def __init__(self, directory: Path | None, ranges: Path | None = None) -> None:
        """`ranges`: the file of networks of data centers. Raises BadListError."""
        self._directory, self._ranges_path = directory, ranges
        self._files: Sequence[ListFile] = ()
        self.changed: list[Callable[[], object]] = []
        """Called after the lists have been read again: caches of what was computed of them."""
        self.datacenters: Ranges | None = None
        """The networks of data centers; None where the server has no list of them."""
        if directory is None and ranges is None:
            # Read when they are needed: a server starts faster.
            crawlers.read_from(None)
            referrer_spam.read_from(None)
        else:
            self.use(self.read())

    @property
    def files(self) -> Sequence[ListFile]:
        """Return the files in use."""
        self._files = self._files or files(None)
        return self._files

    def read(self) -> tuple[list[ListFile], Ranges | None]:
        """Read the files again, without using them yet: in any thread. Raises BadListError."""
        found, ranges = files(self._directory), None
        if self._ranges_path:
            file, ranges = read_ranges(self._ranges_path)
            found.append(file)
        return found, ranges

    def use(self, read: tuple[list[ListFile], Ranges | None]) -> None:
        """Use what `read` returned from now on."""
        self._files, self.datacenters = read
        for one, module in zip(self._files, (crawlers, referrer_spam), strict=False):
            module.read_from(one.path)
        for forget in self.changed:
            forget()
