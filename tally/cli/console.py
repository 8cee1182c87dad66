"""Shared by all commands: output, the database connection, and the argument parser.

Values go to standard output, messages to standard error, so that scripts can capture values. Every command prints the
absolute path of its database and opens it through `database`, with or without a running server.
"""

import argparse
import contextlib
import difflib
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn, TypeVar

from tally.accounts.accounts import check_email
from tally.events.urls import BadHost, normal_host
from tally.settings import SETTINGS, Settings, option_name, variable_name
from tally.storage.database import Connection, open_database, transaction

Function = Callable[[argparse.Namespace, Settings], None]
Value = TypeVar("Value")


# Names of commands in other programs, which difflib does not find similar.
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


# A longer usage text would hide the error below it.
_MAX_USAGE_LINES = 4


class Failure(Exception):
    """A command that failed; the message names the reason and the fix. Its exit status is 1 unless given."""

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(message)
        self.status = status


def printable(text: str) -> str:
    """Return a text with control characters and the like escaped.

    A terminal would obey those that a file, another server or a visitor has sent.
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape", "surrogatepass").decode() for one in text)


def say(message: str) -> None:
    """Print a message on standard error. Only its line breaks and tabs reach a terminal as they are."""
    print(re.sub(r"[^\n\t]+", lambda found: printable(found[0]), message), file=sys.stderr, flush=True)


def show_row(*values: object) -> None:
    """Print values on standard output, with tabs between them."""
    print(*(printable(str(value)) for value in values), sep="\t")


def now_ms() -> int:
    """Return the milliseconds since 1970-01-01T00:00Z."""
    return time.time_ns() // 1_000_000


class Parser(argparse.ArgumentParser):
    """A parser whose errors suggest the nearest command or option; subcommands use this class too."""

    groups: Sequence[tuple[str, Sequence[str]]] = ()
    """Headings of the help text, each with its commands."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        # Of nested parsers, the innermost stays in the namespace: that of the given command.
        self.set_defaults(parser=self)

    def format_help(self) -> str:
        """Return the help text; with `groups`, the commands under their headings and the epilog as it is written."""
        if not self.groups:
            return super().format_help()
        (commands,) = [action for action in self._actions if isinstance(action, argparse._SubParsersAction)]
        help_of = {action.dest: action.help for action in commands._choices_actions}
        lines = [self.format_usage().rstrip(), "", str(self.description), ""]
        for heading, names in self.groups:
            lines += [f"{heading}:", *(f"  {name:<13} {help_of[name]}" for name in names), ""]
        lines += ["Options:", "  -h, --help  show this help", "  --version   show the version", "", str(self.epilog)]
        return "\n".join(lines)

    def error(self, message: str) -> NoReturn:
        """Print the error and where to find help; exit with status 2."""
        unknown = re.match(r"argument COMMAND: invalid choice: '([^']*)'", message)
        if unknown:
            words = self._commands()
            message = f"there is no command {unknown[1]!r}{meant(unknown[1], words)}; commands: {', '.join(words)}"
        usage = self.format_usage()
        is_long = usage.count("\n") > _MAX_USAGE_LINES
        print(f"usage: {self.prog} [OPTION ...]\n" if is_long else usage, end="", file=sys.stderr)
        self.exit(2, f"{self.prog}: error: {message}\nSee `{self.prog} --help`.\n")

    def refuse(self, rest: Sequence[str]) -> NoReturn:
        """Exit with the error for arguments that no option or command accepts."""
        first = next((word for word in rest if word.startswith("-")), rest[0])
        name = first.partition("=")[0]
        options = [option for option in self._option_string_actions if option.startswith("--")]
        if name.startswith("-"):
            self.error(f"there is no option {name}{meant(name, options)}")
        self.error(f"unexpected argument {first!r}")

    def _commands(self) -> list[str]:
        found = [action for action in self._actions if isinstance(action, argparse._SubParsersAction)]
        return list(found[0].choices) if found else []


def meant(word: str, known: Sequence[str]) -> str:
    """Return " (did you mean ...?)" for the known word nearest to `word`, or "" if none is near."""
    near = [other for other in _OTHER_NAMES.get(word, ()) if other in known]
    near = near or difflib.get_close_matches(word.lower(), known, n=1, cutoff=0.6)
    return f" (did you mean {near[0]}?)" if near else ""


@contextlib.contextmanager
def database(settings: Settings, *, create: bool = False, write: bool = True) -> Iterator[Connection]:
    """Open the database, in a transaction that is committed unless the block raises; without one if not `write`."""
    say(f"database: {settings.db.resolve()}")
    connection = open_database(settings.db, create=create)
    # The running server does the checkpoints: SQLite had a bug with two processes doing them (fixed in 3.51.3).
    connection.execute("pragma wal_autocheckpoint = 0")
    try:
        with transaction(connection) if write else contextlib.nullcontext():
            yield connection
    finally:
        connection.close()


def add_setting(parser: argparse.ArgumentParser, name: str) -> None:
    """Add the option of a setting."""
    setting = next(setting for setting in SETTINGS if setting.name == name)
    default = ", ".join(setting.default) if isinstance(setting.default, tuple) else setting.default
    shown = "none" if default in ("", None) else default
    parser.add_argument(
        option_name(setting),
        dest=name,
        action="append",
        metavar=(setting.metadata["value"] or name.rsplit("_", 1)[-1]).upper(),
        help=f"{setting.metadata['help']} ({variable_name(setting)}; default: {shown})",
    )


def set_function(parser: argparse.ArgumentParser, function: Function) -> None:
    """Set the function of a command that uses the database."""
    parser.set_defaults(command=function)
    add_setting(parser, "db")


def add_group(parser: argparse.ArgumentParser) -> "argparse._SubParsersAction[argparse.ArgumentParser]":
    """Return the commands of a group, such as `website`, to which `add_command` adds one."""
    return parser.add_subparsers(title="commands", metavar="COMMAND", required=True)


def add_command(
    words: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, function: Function, help: str
) -> argparse.ArgumentParser:
    """Add a command to a group."""
    parser = words.add_parser(name, help=help, description=sentence(help))
    set_function(parser, function)
    return parser


def sentence(help: str) -> str:
    """Return the help of a command as a sentence."""
    return f"{help[0].upper()}{help[1:]}."


def argument(check: Callable[[str], Value]) -> Callable[[str], Value]:
    """Return a `type` of an argument: it has the value that `check` returns; a ValueError of `check` is wrong usage."""

    def read(text: str) -> Value:
        try:
            return check(text)
        except ValueError as bad:
            raise argparse.ArgumentTypeError(str(bad)) from None

    return read


def add_account_option(parser: argparse.ArgumentParser) -> None:
    """Add --account, the owner of something new."""
    parser.add_argument(
        "--account",
        metavar="EMAIL",
        type=argument(check_email),
        help="account that owns it; optional if there is only one",
    )


def add_website_argument(
    parser: argparse.ArgumentParser, name: str = "website", help: str = "id or domain of the website", **more: Any
) -> None:
    """Add an argument or option that names a website."""
    parser.add_argument(name, metavar="WEBSITE", type=argument(_website), help=help, **more)


def _website(text: str) -> str:
    """Return an id or domain of a website as it is stored. Raises ValueError for a text that can be neither."""
    try:
        return normal_host(text)
    except BadHost:
        raise ValueError(f"{text!r} is neither the id nor the domain of a website (see `website list`)") from None


class Progress:
    """A progress bar on standard error, if that is a terminal; elsewhere nothing, or with `in_lines` lines."""

    def __init__(self, what: str, whole: int, *, in_lines: bool = False) -> None:
        self._what, self._whole = what, whole
        self._is_bar = sys.stderr.isatty()
        self._is_seen = self._is_bar or in_lines
        self._shown_s = 0.0 if self._is_bar else time.monotonic()

    def show(self, done: int) -> None:
        """Show the progress, if it has not been shown recently."""
        now_s = time.monotonic()
        if not self._is_seen or now_s - self._shown_s < (0.2 if self._is_bar else 5):
            return
        self._shown_s = now_s
        if not self._is_bar:
            print(f"{self._what}: {done:,}{f' of {self._whole:,}' if self._whole else ''}", file=sys.stderr, flush=True)
            return
        filled = min(30, 30 * done // self._whole) if self._whole else 0
        share = f"{'#' * filled}{'.' * (30 - filled)} " if self._whole else ""
        print(f"\r{self._what} {share}{done:,}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Remove the bar."""
        if self._is_bar and self._shown_s:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
