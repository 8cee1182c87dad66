"""The commands `account create`, `list`, `plan` and `password`.

Each opens the database, does one thing in one transaction and closes it, with or without a running server. A running
server applies the change within seconds.
"""

import argparse
import getpass
import sys

from tally.accounts import logins, passwords
from tally.accounts.accounts import (
    PLANS,
    all_owners,
    check_email,
    create_account,
    find_account,
    set_password_hash,
    set_plan,
)
from tally.accounts.websites import all_websites
from tally.cli.console import Failure, add_command, add_group, argument, database, now_ms, say, show_row
from tally.settings import Settings


def add_account(parser: argparse.ArgumentParser) -> None:
    """Add the commands to the parser."""
    account = add_group(parser)
    create = add_command(account, "create", _create_account, "create an account; asks for its password")
    _add_email(create)
    create.add_argument(
        "--plan", choices=PLANS, default="business", help="limits of the account (default: business, unlimited)"
    )
    _add_password_stdin(create)
    add_command(account, "list", _list_accounts, "list accounts: email, plan, number of websites")
    plan = add_command(account, "plan", _set_plan, "change the plan of an account")
    _add_email(plan)
    plan.add_argument("plan", metavar="PLAN", choices=PLANS, help=f"{', '.join(PLANS[:-1])} or {PLANS[-1]}")
    password = add_command(account, "password", _set_password, "set the password of an account and end its sessions")
    _add_email(password)
    _add_password_stdin(password)


def _add_email(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("email", metavar="EMAIL", type=argument(check_email), help="email address of the account")


def _add_password_stdin(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--password-stdin", action="store_true", help="read the password from standard input")


def _create_account(given: argparse.Namespace, settings: Settings) -> None:
    password = _password(given.password_stdin)
    password_hash = passwords.hashed(password)
    with database(settings, create=True) as connection:
        account = create_account(connection, given.email, given.plan, password_hash, now_ms())
    say(f"created account {account.email} on the {account.plan} plan")


def _password(from_stdin: bool) -> str:
    if from_stdin:
        password = sys.stdin.readline().rstrip("\r\n")
    elif not sys.stdin.isatty():
        raise Failure(
            "There is no terminal to prompt for the password: pass it on standard input with --password-stdin."
        )
    else:
        password = getpass.getpass("Password: ")
        if getpass.getpass("Again: ") != password:
            raise Failure("The passwords do not match.")
    if not passwords.is_allowed(password):
        raise Failure(f"{passwords.RULE} (got {len(password)}).")
    return password


def _set_plan(given: argparse.Namespace, settings: Settings) -> None:
    with database(settings) as connection:
        set_plan(connection, given.email, given.plan)
    say(f"{given.email} is on the {given.plan} plan")


def _set_password(given: argparse.Namespace, settings: Settings) -> None:
    with database(settings, write=False) as connection:
        number = find_account(connection, given.email).number
    # Prompt and hash without holding a transaction.
    password_hash = passwords.hashed(_password(given.password_stdin))
    with database(settings) as connection:
        set_password_hash(connection, number, password_hash)
        logins.delete_account(connection, number)
    say(f"{given.email} has a new password; all its sessions have ended")


def _list_accounts(given: argparse.Namespace, settings: Settings) -> None:
    with database(settings, write=False) as connection:
        owners, websites = all_owners(connection).values(), all_websites(connection)
    for owner in owners:
        own = sum(website.account == owner.number for website in websites)
        show_row(owner.email, owner.plan, own)
