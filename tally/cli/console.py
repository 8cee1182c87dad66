"""What the words of the command share: how they speak, how they open the database, how they are added to the parser.

Values go to standard output alone, words to standard error, so that scripts can capture values. Every command says
which database it uses (absolute path) and opens it through `database`, beside a running server or without one.
"""

import argparse
import contextlib
import difflib
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from tally.settings import SETTINGS, Settings, option_name, variable_name
from tally.storage.database import Connection, open_database, transaction

Command = Callable[[argparse.Namespace, Settings], None]


# What other programs call some commands; difflib finds no resemblance.
_OTHER_NAMES = {
    "start": ("serve",),
    "run": ("serve",),
    "delete": ("remove", "revoke"),
    "rm": ("remove", "revoke"),
    "ls": ("list",),
    "new": ("add", "create"),
    "create": ("add",),
    "add": ("create",),
    "user": ("account",),
    "site": ("website",),
    "check": ("doctor", "verify"),
    "vacuum": ("compact",),
}


# The usage of serve is a screen of options, and the error below it is what matters.
_MOST_USAGE_LINES = 4


class Failure(Exception):
    """A command cannot be done; the message says why and what to do."""


def say(words: str) -> None:
    """Words for people, on standard error."""
    print(words, file=sys.stderr, flush=True)


def now_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class Parser(argparse.ArgumentParser):
    """A parser whose errors name what was probably meant. Parsers of commands are of this class too."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        # Of nested parsers the innermost is left in the namespace: it knows the options of the command that was given.
        self.set_defaults(parser=self)

    def error(self, message: str) -> NoReturn:
        """Prints what is wrong and where to read more; exit status 2."""
        unknown = re.match(r"argument COMMAND: invalid choice: '([^']*)'", message)
        if unknown:
            words = self._commands()
            message = f"there is no command {unknown[1]!r}{meant(unknown[1], words)}: known are {', '.join(words)}"
        usage = self.format_usage()
        is_long = usage.count("\n") > _MOST_USAGE_LINES
        print(f"usage: {self.prog} [OPTION ...]\n" if is_long else usage, end="", file=sys.stderr)
        self.exit(2, f"{self.prog}: error: {message}\n`{self.prog} --help` says more.\n")

    def refuse(self, rest: Sequence[str]) -> NoReturn:
        """Ends with the error for arguments that no option or command takes."""
        first = next((word for word in rest if word.startswith("-")), rest[0])
        name = first.partition("=")[0]
        options = [option for option in self._option_string_actions if option.startswith("--")]
        if name.startswith("-"):
            self.error(f"there is no option {name}{meant(name, options)}")
        self.error(f"unexpected argument {first!r}")

    def _commands(self) -> list[str]:
        found = [action for action in self._actions if isinstance(action, argparse._SubParsersAction)]
        return list(found[0].choices) if found else []


def meant(given: str, known: Sequence[str]) -> str:
    """Return " (did you mean ...?)" for the known word nearest to a given one, "" where none is near."""
    near = [word for word in _OTHER_NAMES.get(given, ()) if word in known]
    near = near or difflib.get_close_matches(given.lower(), known, n=1, cutoff=0.6)
    return f" (did you mean {near[0]}?)" if near else ""


@contextlib.contextmanager
def database(settings: Settings, *, create: bool = False, write: bool = True) -> Iterator[Connection]:
    """The database in one transaction, kept if all goes well; without one where nothing is written."""
    say(f"database: {settings.db.resolve()}")
    connection = open_database(settings.db, create=create)
    # Checkpoints are the running server's: two processes at it at once is where SQLite had a fault (fixed in 3.51.3).
    connection.execute("pragma wal_autocheckpoint = 0")
    try:
        with transaction(connection) if write else contextlib.nullcontext():
            yield connection
    finally:
        connection.close()


def add_setting(parser: argparse.ArgumentParser, name: str) -> None:
    """Adds the option of a setting."""
    setting = next(setting for setting in SETTINGS if setting.name == name)
    default = ", ".join(setting.default) if isinstance(setting.default, tuple) else setting.default
    shown = "none" if default in ("", None) else default
    parser.add_argument(
        option_name(setting),
        dest=name,
        action="append",
        metavar=(setting.metadata["unit"] or name.rsplit("_", 1)[-1]).upper(),
        help=f"{setting.metadata['help']} ({variable_name(setting)}; default: {shown})",
    )


def add_command(
    words: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, command: Command, help: str
) -> argparse.ArgumentParser:
    """Adds a command that uses the database."""
    parser = words.add_parser(name, help=help, description=help[0].upper() + help[1:] + ".")
    parser.set_defaults(command=command)
    add_setting(parser, "db")
    return parser


class Progress:
    """A bar on standard error, where that is a terminal."""

    def __init__(self, what: str, whole: int) -> None:
        self._what, self._whole = what, whole
        self._shown_s = 0.0
        self._is_seen = sys.stderr.isatty()

    def show(self, done: int) -> None:
        """Says how far it is, a few times a second."""
        now_s = time.monotonic()
        if not self._is_seen or now_s - self._shown_s < 0.2:
            return
        self._shown_s = now_s
        filled = min(30, 30 * done // self._whole) if self._whole else 0
        share = f"{'#' * filled}{'.' * (30 - filled)} " if self._whole else ""
        print(f"\r{self._what} {share}{done:,}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Takes the bar away."""
        if self._is_seen and self._shown_s:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
