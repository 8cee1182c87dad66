"""The command `analytics-server`: parse the arguments, read the settings, run the command.

Exit status 0, 1 for a failure, 2 for wrong usage. Each group of commands is a module of this package. All commands but
serve open the database, do one thing and close it, with or without a running server. Only serve, demo, `account create`
and the first `website add` create a database.
"""

import argparse
import asyncio
import importlib
import os
import sys
from collections.abc import Callable, Sequence

from tally.accounts.accounts import AccountError
from tally.cli import accounts, api_keys, database, demo, doctor, transfer, websites
from tally.cli.console import Failure, Parser, add_setting, say
from tally.cli.serve import BadAddress, serve
from tally.events.geoip import CountryDataError
from tally.events.urls import BadHost
from tally.http import logging
from tally.maintenance.backup import BackupError
from tally.resources import tally_version
from tally.settings import SETTINGS, BadSetting, Settings, settings_from
from tally.storage.database import SQLITE_VERSION, BadDatabase, DatabaseError
from tally.web.runner import Application

BuildApp = Callable[[Settings], Application]

# The commands in the order of `analytics-server --help`.
GROUPS = (
    ("Server", ("serve", "demo", "doctor")),
    ("Accounts and websites", ("account", "website", "key")),
    ("Events", ("import", "export", "retention")),
    ("Database file", ("backup", "restore", "verify", "compact")),
    ("Other", ("help",)),
)
EXAMPLES = """\
Examples:
  analytics-server demo                        try it with demo data
  analytics-server website add example.com     add a website, print its id
  analytics-server serve --port 8080           start the server on port 8080
  analytics-server key create --name reports   create an API key
  analytics-server backup tally-backup.db      back up while the server runs

`analytics-server help COMMAND` shows the options of a command. Every option of
serve is also an environment variable: ANALYTICS_PORT for --port.
"""


def run(arguments: Sequence[str], build_app: BuildApp) -> int:
    """Run a command and return its exit status."""
    words = list(arguments)
    if words[:1] == ["help"]:
        # `help website add` is `website add --help`; `help` alone is `--help`.
        words = [*(word for word in words[1:] if not word.startswith("-")), "--help"]
    if not words or (words[0].startswith("-") and words[0] not in ("-h", "--help", "--version")):
        words.insert(0, "serve")
    given = _parsed(words)
    try:
        settings = settings_from({setting.name: getattr(given, setting.name, None) for setting in SETTINGS}, os.environ)
        if given.command is None:
            _serve(build_app, settings)
        elif given.command is _demo:
            _demo(given, settings, build_app)
        else:
            given.command(given, settings)
    except BadSetting as bad:
        return _fail(str(bad), 2)
    except (Failure, BadDatabase, BackupError, AccountError, BadHost, BadAddress, CountryDataError) as failure:
        return _fail(str(failure), 1)
    except OSError as failure:
        return _fail(f"{failure.filename or 'the system'}: {failure.strerror or failure}", 1)
    except DatabaseError as failure:
        return _fail(f"{settings.db.resolve()}: {failure}", 1)
    except KeyboardInterrupt:
        return 130
    return 0


def _parsed(words: list[str]) -> argparse.Namespace:
    parser = _parser()
    given, rest = parser.parse_known_args(words)
    if rest and "words" in given and not any(word.startswith("-") for word in rest):
        # argparse accepts no positional arguments after an option.
        given.words += rest
    elif rest:
        given.parser.refuse(rest)
    return given


def _fail(message: str, status: int) -> int:
    say(f"analytics-server: {message}")
    return status


def _parser() -> Parser:
    parser = Parser(
        prog="analytics-server",
        usage="analytics-server [COMMAND] [OPTION ...]",
        description="Self-hosted web analytics. The default command is serve.",
        epilog=EXAMPLES,
    )
    parser.groups = GROUPS
    parser.add_argument("--version", action="version", version=_version())
    words: argparse._SubParsersAction[argparse.ArgumentParser] = parser.add_subparsers(
        prog="analytics-server", metavar="COMMAND", required=True, parser_class=Parser
    )
    serving = words.add_parser(
        "serve", help="start the server", description="Start the server.", usage="analytics-server serve [OPTION ...]"
    )
    serving.set_defaults(command=None)
    words.add_parser("help", help="show the options of a command: help COMMAND", add_help=False)
    for setting in SETTINGS:
        add_setting(serving, setting.name)
    demo.add_commands(words).set_defaults(command=_demo)
    for module in (accounts, websites, api_keys, database, transfer, doctor):
        module.add_commands(words)
    return parser


def _version() -> str:
    return f"analytics-server {tally_version()} (SQLite {SQLITE_VERSION}, Python {sys.version.split()[0]})"


def _serve(build_app: BuildApp, settings: Settings) -> None:
    logging.print_notice(settings.log_format, f"database: {settings.db.resolve()}")
    try:
        app = build_app(settings)
    except ValueError as bad:
        raise BadSetting(str(bad)) from None
    with asyncio.Runner(loop_factory=_fast_loop()) as runner:
        runner.run(serve(app, settings))


def _demo(given: argparse.Namespace, settings: Settings, build_app: BuildApp) -> None:
    own = demo.settings_of(given, settings)
    demo.prepare(given, own)
    if not given.no_serve:
        _serve(build_app, own)


def _fast_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return the event loop of uvloop if it is installed (the extra `fast`)."""
    try:
        uvloop = importlib.import_module("uvloop")
    except ImportError:
        return None
    new_event_loop: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return new_event_loop
