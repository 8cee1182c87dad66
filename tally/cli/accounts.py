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
    all_accounts,
    check_email,
    create_account,
    find_account,
    find_person,
    set_password_hash,
    set_plan,
)
from tally.accounts.audit import Entry, by_command, record
from tally.accounts.people import memberships_of
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
    add_password_command(account)


def add_password_command(words: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command `password`."""
    password = add_command(words, "password", _set_password, "set the password of a person and end their sessions")
    _add_email(password)
    _add_password_stdin(password)


def _add_email(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("email", metavar="EMAIL", type=argument(check_email), help="email address of the account")


def _add_password_stdin(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--password-stdin", action="store_true", help="read the password from standard input")


def _create_account(arguments: argparse.Namespace, settings: Settings) -> None:
    password = _password(arguments.password_stdin)
    password_hash = passwords.hashed(password)
    with database(settings, create=True) as connection:
        account = create_account(connection, arguments.email, arguments.plan, password_hash, now_ms())
        record(connection, by_command(account.number), Entry("account_created", target=account.name), now_ms())
    say(f"created account {account.name} on the {account.plan} plan")


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


def _set_plan(arguments: argparse.Namespace, settings: Settings) -> None:
    with database(settings) as connection:
        set_plan(connection, arguments.email, arguments.plan)
        number = find_account(connection, arguments.email).number
        record(connection, by_command(number), Entry("plan_changed", target=arguments.plan), now_ms())
    say(f"{arguments.email} is on the {arguments.plan} plan")


def _set_password(arguments: argparse.Namespace, settings: Settings) -> None:
    with database(settings, write=False) as connection:
        number = find_person(connection, arguments.email).number
    # Prompt and hash without holding a transaction.
    password_hash = passwords.hashed(_password(arguments.password_stdin))
    with database(settings) as connection:
        set_password_hash(connection, number, password_hash)
        logins.delete_of_person(connection, number)
        for member in memberships_of(connection, number):
            entry = Entry("password_changed", target=arguments.email)
            record(connection, by_command(member.account), entry, now_ms())
    say(f"{arguments.email} has a new password; all its sessions have ended")


def _list_accounts(arguments: argparse.Namespace, settings: Settings) -> None:
    with database(settings, write=False) as connection:
        accounts, websites = all_accounts(connection).values(), all_websites(connection)
    for account in accounts:
        own = sum(website.account == account.number for website in websites)
        show_row(account.name, account.plan, own)
