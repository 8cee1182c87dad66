"""The command `upgrade`: show what an upgrade of the database would do, or do it apart from a start of the server.

It compares the program with the database file, and sends no request. Without --check it needs the lock of the
server. docs/cli.md has the exit status of --check.
"""

import argparse
from functools import partial

from tally.cli.console import Failure, add_setting, now_ms, say, set_function
from tally.maintenance import startup
from tally.maintenance.upgrade import copy_first, plan
from tally.resources import tally_version
from tally.settings import Settings
from tally.storage.database import open_database

_PENDING = 3


def add_upgrade(parser: argparse.ArgumentParser) -> None:
    """Add the options to the parser."""
    set_function(parser, _upgrade)
    parser.description = (
        "Upgrade the database to the schema version of this program, after a checked copy of it, as a start of the"
        " server does. Stop the server first."
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help=f"change nothing and show what would be done; exit status {_PENDING} if there is something",
    )
    for name in ("backup_dir", "upgrade_backup"):
        add_setting(parser, name)


def _upgrade(arguments: argparse.Namespace, settings: Settings) -> None:
    say(f"database: {settings.db.resolve()}")
    if arguments.check:
        _check(settings)
        return
    before = plan(settings)
    if not before.migrations:
        say(f"schema version {before.version}: there is nothing to upgrade")
        return
    with startup.locked(settings):
        copy = partial(copy_first, settings, say, now_ms())
        open_database(settings.db, create=False, before_migration=copy).close()
    say(f"upgraded to schema version {before.newest}")


def _check(settings: Settings) -> None:
    upgrade = plan(settings)
    print(f"program     {tally_version()}, schema version {upgrade.newest}")
    print(f"database    schema version {upgrade.version}")
    print(f"migrations  {', '.join(migration.__name__ for migration in upgrade.migrations) or 'none'}")
    if upgrade.migrations:
        where = f"in {upgrade.directory}: {upgrade.bytes:,} bytes, {upgrade.free_bytes:,} are free"
        print(f"copy        {where if upgrade.directory else 'none (--upgrade-backup no)'}")
    if upgrade.obstacle:
        raise Failure(f"a start would be refused, because no copy could be made. {upgrade.obstacle}")
    if upgrade.migrations:
        raise Failure("the next start, or `analytics-server upgrade`, upgrades the database", _PENDING)
