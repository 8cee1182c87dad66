"""The lists of crawlers and of referrer spam that are in use: those that come with the code, or newer files.

Files of the directory of --lists-dir have the same names and format, as scripts/refresh_lists.py writes them, and a
date. Of each list the newer file is used. A file is checked as a whole before it is used; a bad line is named by its
number.
"""

import json
import re
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path
from typing import Any, Final, NamedTuple

from tally.events import crawlers, referrer_spam
from tally.resources import asset

OLD_DAYS: Final = 180
_LIMIT_BYTES: Final = 16 * 1_048_576
_MIN_PATTERN, _MAX_NAME = 3, 100
_DATE: Final = re.compile(r"# date: ([0-9]{4}-[0-9]{2}-[0-9]{2})")
_HOST: Final = re.compile(r"(?:[a-z0-9_-]{1,63}\.)+[a-z0-9-]{2,63}")


class BadListError(ValueError):
    """A file of a list is invalid; the message has the file, the line and the fix."""


class ListFile(NamedTuple):
    """A list: its name, the file that is in use, and when its source was made."""

    name: str
    path: Path
    made: date

    def age_days(self, today: date) -> int:
        """Return how old the list is."""
        return (today - self.made).days


def files(directory: Path | None) -> list[ListFile]:
    """Return the file of each list: that of the directory where it is newer. Raises BadListError."""
    found = []
    for name, (data, read) in _LISTS.items():
        bundled = asset(data)
        own = directory / bundled.name if directory else None
        used = ListFile(name, bundled, read(bundled))
        if own is not None and own.exists() and (changed := read(own)) > used.made:
            used = ListFile(name, own, changed)
        found.append(used)
    if directory is not None and not directory.is_dir():
        raise BadListError(f"{directory} is no directory: name one with --lists-dir, or leave the setting out.")
    return found


def use(directory: Path | None) -> list[ListFile]:
    """Use the files of a directory from now on; return them. Raises BadListError: then the lists stay as they are."""
    found = files(directory)
    for one, module in zip(found, (crawlers, referrer_spam), strict=True):
        module.read_from(one.path)
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


def _read_referrer_spam(path: Path) -> date:
    """Check a list of hosts; return its date. Raises BadListError."""
    dated = None
    for number, line in enumerate(_text(path).splitlines(), 1):
        if line.startswith("#"):
            dated = dated or _DATE.fullmatch(line.strip())
        elif not _HOST.fullmatch(line):
            raise _bad(path, number, f"a host such as spam.example is expected (got {line[:60]!r}).")
    if dated is None:
        raise _bad(path, 1, "a line such as `# date: 2026-08-20` is missing.")
    return _date(path, dated[1])


def _date(path: Path, text: object) -> date:
    try:
        return date.fromisoformat(str(text))
    except ValueError:
        raise _bad(path, 1, f"the date must be like 2026-08-20 (got {str(text)[:20]!r}).") from None


def _read_crawlers(path: Path) -> date:
    """Check a list of crawlers; return the date of its oldest source. Raises BadListError."""
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
    return min(_date(path, one) for one in dates)


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


_LISTS: Final[dict[str, tuple[str, Callable[[Path], date]]]] = {
    "crawlers": (crawlers.DATA, _read_crawlers),
    "referrer_spam": (referrer_spam.DATA, _read_referrer_spam),
}
"""The bundled file of each list, and what checks a file and returns its date."""


class Lists:
    """The lists of a server. `reread` is called on SIGHUP."""

    def __init__(self, directory: Path | None) -> None:
        """Raises BadListError."""
        self.directory = directory
        self._files: Sequence[ListFile] = ()
        self.changed: list[Callable[[], object]] = []
        """Called after the lists have been read again: caches of what was computed of them."""
        if directory is None:
            # Read when they are needed: a server starts faster.
            crawlers.read_from(None)
            referrer_spam.read_from(None)
        else:
            self._files = use(directory)

    @property
    def files(self) -> Sequence[ListFile]:
        """Return the files in use."""
        self._files = self._files or files(None)
        return self._files

    def reread(self) -> None:
        """Read the files again. Raises BadListError: then the lists stay as they are."""
        self._files = use(self.directory)
        for forget in self.changed:
            forget()
