"""The command `analytics-server`: parse the arguments, read the settings, run the command.

Exit status 0, 1 for a failure, 2 for wrong usage. Wrong usage is found while the arguments are parsed, before anything
is opened: the `type` of an argument checks its value (`argument` in tally/cli/console.py).

Each group of commands is a module of this package, which is imported only when one of its commands is given. All
commands but serve open the database, do one thing and close it, with or without a running server. Only serve, demo,
`account create` and the first `website add` create a database.
"""

import argparse
import os
import select
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple

from tally.accounts.accounts import AccountError
from tally.cli.console import Failure, Parser, say, sentence
from tally.maintenance.backup import BackupError
from tally.maintenance.upgrade import way_back
from tally.resources import READER_PROCESS, UPLOAD_WORKER, tally_version
from tally.settings import SETTINGS, BadSetting, settings_from
from tally.storage.database import SQLITE_VERSION, BadDatabase, DatabaseError, NewerDatabase, explained


class Command(NamedTuple):
    """A command, or the first word of a group of commands. The function `add_NAME` of a module adds its options."""

    name: str
    module: str
    help: str


HELP = Command("help", "", "show the options of a command: help COMMAND")
# In the order of `analytics-server --help`.
GROUPS = (
    (
        "Server",
        (
            Command("serve", "start", "start the server"),
            Command("demo", "demo", "create a database of generated traffic and serve it"),
            Command("doctor", "doctor", "check this installation and print what to fix"),
        ),
    ),
    (
        "Accounts and websites",
        (
            Command("account", "accounts", "create and list accounts, change a plan or password"),
            Command("website", "websites", "add, list, rename and remove websites"),
            Command("key", "api_keys", "create, list and revoke API keys"),
            Command("person", "people", "list, invite and remove people, and print links to sign in"),
            Command("notify", "notify", "list notices and test the channels by which they are sent"),
            Command("mail", "mail", "send a test by the mail server of --smtp-url"),
            Command("audit", "audit", "show who changed what, and when"),
        ),
    ),
    (
        "Events",
        (
            Command("import", "transfer", "import events from a file of Tally or another system"),
            Command("export", "transfer", "write the events of a website to a file"),
            Command("delete-events", "deletions", "delete events that match filters, after a preview"),
            Command("rewrite-paths", "deletions", "rewrite paths of stored events by a rule, after a preview"),
            Command("query", "query", "run read-only SQL over events and visits"),
            Command("retention", "database", "show or set how long raw events are kept"),
        ),
    ),
    (
        "Database file",
        (
            Command("backup", "database", "write a consistent copy of the database"),
            Command("restore", "database", "replace the database by a backup; stop the server first"),
            Command("upgrade", "upgrade", "upgrade the database to this release; --check shows the changes"),
            Command("verify", "database", "recount rollups from raw events and compare"),
            Command("compact", "database", "return free space of the database to the file system"),
            Command("cluster", "cluster", "have ClickHouse follow the database and answer reports"),
        ),
    ),
    ("Other", (HELP,)),
)
COMMANDS = {command.name: command for _, commands in GROUPS for command in commands}
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


def run(arguments: Sequence[str]) -> int:
    """Run a command and return its exit status. Raises KeyboardInterrupt."""
    if arguments[:1] == [UPLOAD_WORKER]:
        import_module("tally.transfer.upload_worker").main(arguments[1:])
        return 0
    if arguments[:1] == [READER_PROCESS]:
        import_module("tally.transfer.reader_process").main()
        return 0
    return _run(list(arguments))


def _run(words: list[str]) -> int:
    if words[:1] == [HELP.name]:
        # `help website add` is `website add --help`; `help` and `help help` are `--help`.
        words = [*(word for word in words if word != HELP.name and not word.startswith("-")), "--help"]
    if words[:1] == ["--version"]:
        print(f"analytics-server {tally_version()} (SQLite {SQLITE_VERSION}, Python {sys.version.split()[0]})")
        return 0
    if not words or (words[0].startswith("-") and words[0] not in ("-h", "--help")):
        words.insert(0, "serve")
    arguments = _parsed(words)
    try:
        settings = settings_from(
            {setting.name: getattr(arguments, setting.name, None) for setting in SETTINGS}, os.environ
        )
        arguments.command(arguments, settings)
        # Not at the end of the process, where nothing is left to report a failure. Does nothing without an output.
        print(end="", flush=True)
    except BadSetting as bad:
        return _fail(str(bad), 2)
    except Failure as failure:
        return _fail(str(failure), failure.status)
    except NewerDatabase as newer:
        return _fail(way_back(newer, settings), 1)
    except (BadDatabase, BackupError, AccountError) as failure:
        return _fail(str(failure), 1)
    except OSError as failure:
        if isinstance(failure, BrokenPipeError) and _is_output_unread():
            # At its end Python writes what is left once more.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 128 + signal.SIGPIPE
        return _fail(f"{failure.filename or 'the system'}: {failure.strerror or failure}", 1)
    except DatabaseError as failure:
        path = settings.db.resolve()
        # What found the damage may have named it.
        is_damaged = getattr(failure, "sqlite_errorname", "").startswith("SQLITE_CORRUPT")
        return _fail(f"{path}: {failure}" if is_damaged else str(explained(failure, path)), 1)
    return 0


def _is_output_unread() -> bool:
    """Return whether standard output is a pipe whose reader has ended, as `head` does."""
    if sys.stdout is None:
        return False
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))


def _parsed(words: list[str]) -> argparse.Namespace:
    arguments, rest = _parser(words[0]).parse_known_args(words)
    if rest and not any(word.startswith("-") for word in rest):
        # An optional argument after an option, such as DAYS in `retention WEBSITE --yes DAYS`, which only this takes.
        command = arguments.parser.prog.split()[1:]
        arguments, rest = arguments.parser.parse_known_intermixed_args(words[len(command) :])
    if rest:
        arguments.parser.refuse(rest)
    return arguments


def _fail(message: str, status: int) -> int:
    say(f"analytics-server: {message}")
    return status


def _parser(name: str | None = None) -> Parser:
    """Return the parser with the options of the command of that name, or with those of all."""
    parser = Parser(
        prog="analytics-server",
        usage="analytics-server [COMMAND] [OPTION ...]",
        description="Self-hosted web analytics. The default command is serve.",
        epilog=EXAMPLES,
    )
    parser.groups = [(heading, [command.name for command in commands]) for heading, commands in GROUPS]
    words: argparse._SubParsersAction[Parser] = parser.add_subparsers(
        prog="analytics-server", metavar="COMMAND", required=True, parser_class=Parser
    )
    for command in COMMANDS.values():
        command_parser = words.add_parser(command.name, help=command.help, description=sentence(command.help))
        if command.module and name in (None, command.name):
            getattr(import_module(f"tally.cli.{command.module}"), f"add_{command.name.replace('-', '_')}")(
                command_parser
            )
    return parser
