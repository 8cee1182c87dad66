"""The commands `key create`, `list` and `revoke`.

The value of a new API key is printed once, alone on standard output; the database stores a digest of it
(tally/accounts/api_keys.py).
"""

import argparse

from tally.accounts.accounts import check_email, check_name, find_account
from tally.accounts.api_keys import all_api_keys, check_prefix, create_api_key, revoke_api_key
from tally.cli.console import add_account_option, add_command, add_group, argument, database, now_ms, say, show_row
from tally.settings import Settings
from tally.timestamps import iso


def add_key(parser: argparse.ArgumentParser) -> None:
    """Add the commands to the parser."""
    key = add_group(parser)
    create = add_command(key, "create", _create_key, "create an API key and print it; it is shown once")
    create.add_argument("--name", default="", type=argument(check_name), help="what the key is for, for `key list`")
    add_account_option(create)
    listing = add_command(key, "list", _list_keys, "list API keys: prefix, name, creation, last use")
    listing.add_argument("--account", metavar="EMAIL", type=argument(check_email), help="only keys of this account")
    revoke = add_command(key, "revoke", _revoke_key, "revoke an API key; requests with it are then refused")
    revoke.add_argument(
        "prefix", metavar="PREFIX", type=argument(check_prefix), help="beginning of the key, as in `key list`"
    )


def _create_key(given: argparse.Namespace, settings: Settings) -> None:
    with database(settings) as connection:
        value = create_api_key(connection, find_account(connection, given.account), given.name, now_ms())
    say("The key is shown once; only a hash of it is stored.")
    print(value)


def _list_keys(given: argparse.Namespace, settings: Settings) -> None:
    with database(settings, write=False) as connection:
        owner = find_account(connection, given.account).number if given.account else None
        listed = [key for key in all_api_keys(connection).values() if owner in (None, key.account)]
    for key in listed:
        used = iso(key.last_used_ms) if key.last_used_ms else "never"
        show_row(key.prefix, key.name, iso(key.created_ms), used)


def _revoke_key(given: argparse.Namespace, settings: Settings) -> None:
    with database(settings) as connection:
        key = revoke_api_key(connection, given.prefix)
    say(f"revoked {key.prefix} {key.name}".rstrip())
