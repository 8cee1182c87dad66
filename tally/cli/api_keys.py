"""The commands `key create`, `list` and `revoke`.

The value of a new API key is printed once, alone on standard output; the database stores a digest of it
(tally/accounts/api_keys.py).
"""

import argparse

from tally.accounts.accounts import Account, AccountError, check_email, check_name, find_account
from tally.accounts.api_keys import (
    ALLOWED_BY,
    DEFAULT_GRANT,
    Grant,
    all_api_keys,
    audited_grant,
    check_days,
    check_prefix,
    check_scopes,
    create_api_key,
    revoke_api_key,
)
from tally.accounts.audit import Entry, by_command, record
from tally.accounts.websites import find_website
from tally.cli.console import (
    add_account_option,
    add_command,
    add_group,
    add_website_argument,
    argument,
    database,
    now_ms,
    say,
    show_row,
)
from tally.settings import Settings
from tally.storage.database import Connection
from tally.timestamps import DAY_MS, iso


def add_key(parser: argparse.ArgumentParser) -> None:
    """Add the commands to the parser."""
    key = add_group(parser)
    create = add_command(key, "create", _create_key, "create an API key and print it; it is shown once")
    create.add_argument("--name", default="", type=argument(check_name), help="what the key is for, for `key list`")
    create.add_argument(
        "--scope",
        action="append",
        metavar="SCOPE",
        type=argument(_scope),
        help=f"what the key may do: {', '.join(ALLOWED_BY)} (default: read); can be repeated",
    )
    add_website_argument(
        create, "--website", "id or domain of a website (default: all of the account); can be repeated", action="append"
    )
    create.add_argument(
        "--expires", metavar="DAYS", type=argument(_days), help="days after which the key expires (default: never)"
    )
    add_account_option(create)
    what = "list API keys: prefix, name, creation, last use, scopes, websites, expiry"
    listing = add_command(key, "list", _list_keys, what)
    listing.add_argument("--account", metavar="EMAIL", type=argument(check_email), help="only keys of this account")
    revoke = add_command(key, "revoke", _revoke_key, "revoke an API key; requests with it are then refused")
    revoke.add_argument(
        "prefix", metavar="PREFIX", type=argument(check_prefix), help="beginning of the key, as in `key list`"
    )


def _create_key(arguments: argparse.Namespace, settings: Settings) -> None:
    with database(settings) as connection:
        owner = find_account(connection, arguments.account)
        grant = _grant(connection, owner, arguments)
        value = create_api_key(connection, owner, arguments.name, now_ms(), grant)
        entry = Entry("key_created", target=arguments.name, detail=audited_grant(grant))
        record(connection, by_command(owner.number), entry, now_ms())
    say("The key is shown once; only a hash of it is stored.")
    print(value)


def _scope(text: str) -> str:
    return check_scopes([text])[0]


def _days(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise AccountError(f"{text!r} is no number of days")
    return check_days(int(text))


def _grant(connection: Connection, owner: Account, arguments: argparse.Namespace) -> Grant:
    """Return what a new key may do. Raises AccountError."""
    websites = [find_website(connection, one) for one in arguments.website or ()]
    for website in websites:
        if website.account != owner.number:
            raise AccountError(f"{website.domain} ({website.id}) is no website of {owner.name}.")
    return Grant(
        check_scopes(arguments.scope) if arguments.scope else DEFAULT_GRANT.scopes,
        tuple(dict.fromkeys(website.id for website in websites)) or None,
        arguments.expires and now_ms() + arguments.expires * DAY_MS,
    )


def _list_keys(arguments: argparse.Namespace, settings: Settings) -> None:
    with database(settings, write=False) as connection:
        owner = find_account(connection, arguments.account).number if arguments.account else None
        listed = [key for key in all_api_keys(connection).values() if owner in (None, key.account)]
    for key in listed:
        used = iso(key.last_used_ms) if key.last_used_ms else "never"
        scopes, websites, expires_ms = key.grant
        within = "all" if websites is None else ",".join(websites)
        expires = "never" if expires_ms is None else iso(expires_ms)
        show_row(key.prefix, key.name, iso(key.created_ms), used, ",".join(scopes), within, expires)


def _revoke_key(arguments: argparse.Namespace, settings: Settings) -> None:
    with database(settings) as connection:
        key = revoke_api_key(connection, arguments.prefix)
        record(connection, by_command(key.account), Entry("key_revoked", target=key.label), now_ms())
    say(f"revoked {key.label}")
