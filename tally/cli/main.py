"""The command `analytics-server`: its words, and what they do.

Exit status 0, 1 for a failure, 2 for wrong usage. All here but serve open the file, do one thing in one transaction and
close it, beside a running server or without one; the server notices. The commands about the file as a whole are in
tally/cli/database.py and tally/cli/transfer.py.

Only serve, demo, `account create` and the first `website add` make a database.
"""

import argparse
import asyncio
import getpass
import importlib
import os
import sys
from collections.abc import Callable, Sequence

from tally.accounts import logins, passwords
from tally.accounts.accounts import (
    FIRST_ACCOUNT,
    PLANS,
    AccountError,
    all_owners,
    check_email,
    check_name,
    create_account,
    find_account,
    has_account,
    set_password_hash,
    set_plan,
)
from tally.accounts.api_keys import all_api_keys, create_api_key, revoke_api_key
from tally.accounts.websites import (
    DomainTaken,
    add_website,
    all_websites,
    check_domain_unused,
    find_website,
    update_website,
)
from tally.cli import database as upkeep
from tally.cli import demo, doctor
from tally.cli import transfer as porting
from tally.cli.console import Failure, Parser, add_command, add_setting, database, now_ms, say
from tally.cli.serve import BadAddress, serve
from tally.events.geoip import CountryDataError
from tally.events.urls import BadHost, exact_origin, registrable_domain
from tally.http import logging as logs
from tally.maintenance import deletion
from tally.maintenance.backup import BackupError
from tally.resources import tally_version
from tally.rollups.traffic import traffic_of
from tally.settings import SETTINGS, BadSetting, Settings, settings_from
from tally.storage.database import SQLITE_VERSION, BadDatabase, DatabaseError
from tally.timestamps import iso
from tally.web.runner import Application

BuildApp = Callable[[Settings], Application]


def run(arguments: Sequence[str], build_app: BuildApp) -> int:
    """Runs the command that `arguments` spell; its exit status."""
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
        return _told(str(bad), 2)
    except (Failure, BadDatabase, BackupError, AccountError, BadHost, BadAddress, CountryDataError) as failure:
        return _told(str(failure), 1)
    except OSError as failure:
        return _told(f"{failure.filename or 'the system'}: {failure.strerror or failure}", 1)
    except DatabaseError as failure:
        return _told(f"{settings.db.resolve()}: {failure}", 1)
    except KeyboardInterrupt:
        return 130
    return 0


def _parsed(words: list[str]) -> argparse.Namespace:
    parser = _parser()
    given, rest = parser.parse_known_args(words)
    if rest and "words" in given and not any(word.startswith("-") for word in rest):
        # argparse takes no more words after an option in between.
        given.words += rest
    elif rest:
        given.parser.refuse(rest)
    return given


def _told(message: str, status: int) -> int:
    say(f"analytics-server: {message}")
    return status


def _parser() -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = Parser(
        prog="analytics-server",
        description="Self-hosted analytics: one process, one SQLite file. Without a command it serves.",
        epilog="`analytics-server help COMMAND` says more about a command. Every option of serve is also an environment"
        " variable: ANALYTICS_PORT for --port.",
    )
    parser.add_argument("--version", action="version", version=_version())
    words = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    serving = words.add_parser("serve", help="start the server (the default)", description="Start the server.")
    serving.set_defaults(command=None)
    words.add_parser("help", help="say more about a command: help COMMAND", add_help=False)
    for setting in SETTINGS:
        add_setting(serving, setting.name)
    demo.add_commands(words).set_defaults(command=_demo)
    _add_account(words)
    _add_website(words)
    _add_key(words)
    upkeep.add_commands(words)
    porting.add_commands(words)
    doctor.add_commands(words)
    return parser


def _version() -> str:
    return f"analytics-server {tally_version()} (SQLite {SQLITE_VERSION}, Python {sys.version.split()[0]})"


def _add_account(words: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    account = words.add_parser("account", help="create and list accounts, change a plan or password").add_subparsers(
        title="commands", metavar="COMMAND", required=True
    )
    create = add_command(account, "create", _create_account, "create an account; asks for its password")
    create.add_argument("email", metavar="EMAIL")
    create.add_argument("--plan", choices=PLANS, default="business", help="default: business, the house is yours")
    create.add_argument("--password-stdin", action="store_true", help="read the password from standard input")
    add_command(account, "list", _list_accounts, "list accounts: email, plan, number of websites, tab-separated")
    plan = add_command(account, "plan", _set_plan, "move an account to another plan")
    plan.add_argument("email", metavar="EMAIL")
    plan.add_argument("plan", metavar="PLAN", choices=PLANS, help=" or ".join(PLANS))
    password = add_command(account, "password", _set_password, "set an account's password, forgotten or not")
    password.add_argument("email", metavar="EMAIL")
    password.add_argument("--password-stdin", action="store_true", help="read the password from standard input")


def _add_website(words: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    website = words.add_parser("website", help="add, list, rename and remove websites").add_subparsers(
        title="commands", metavar="COMMAND", required=True
    )
    add = add_command(website, "add", _add_one_website, "add a website and print its id")
    add.add_argument("domain", metavar="DOMAIN", help="such as example.com; its subdomains are included")
    add.add_argument("--name", help="what to call it; the domain if left out")
    add.add_argument("--account", metavar="EMAIL", help="whose it is; may be left out where there is one account")
    add.add_argument(
        "--allow-origin",
        action="append",
        default=[],
        metavar="ORIGIN",
        help="an exact origin to take events from as well, such as capacitor://localhost; repeatable",
    )
    add.add_argument(
        "--again", action="store_true", help="add it even though the account has a website of this domain already"
    )
    add_command(website, "list", _list_websites, "list websites: id, domain, name, tab-separated")
    rename = add_command(website, "rename", _rename_website, "change the name of a website")
    rename.add_argument("website", metavar="WEBSITE", help="the website of this id or domain")
    rename.add_argument("name", metavar="NAME", help="its new name")
    remove = add_command(website, "remove", _remove_website, "delete a website and all its data")
    remove.add_argument("website", metavar="WEBSITE", help="the website of this id or domain")
    remove.add_argument("--yes", action="store_true", help="do it; without this it only says what would be deleted")


def _add_key(words: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    key = words.add_parser("key", help="create, list and revoke API keys").add_subparsers(
        title="commands", metavar="COMMAND", required=True
    )
    create = add_command(key, "create", _create_key, "create an API key and print it, this once")
    create.add_argument("--name", default="", help="what it is for")
    create.add_argument("--account", metavar="EMAIL", help="whose it is; may be left out where there is one account")
    listing = add_command(key, "list", _list_keys, "list API keys: prefix, name, created, last use, tab-separated")
    listing.add_argument("--account", metavar="EMAIL", help="only this account's")
    revoke = add_command(key, "revoke", _revoke_key, "revoke the API key that begins so")
    revoke.add_argument("prefix", metavar="PREFIX")


def _serve(build_app: BuildApp, settings: Settings) -> None:
    logs.print_notice(settings.log_format, f"database: {settings.db.resolve()}")
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
    """uvloop's, where it is installed (the extra `fast`)."""
    try:
        uvloop = importlib.import_module("uvloop")
    except ImportError:
        return None
    new_event_loop: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return new_event_loop


def _create_account(given: argparse.Namespace, settings: Settings) -> None:
    check_email(given.email)  # before a file is made for it
    password = _password(given.password_stdin)
    password_hash = passwords.hashed(password)
    with database(settings, create=True) as connection:
        account = create_account(connection, given.email, given.plan, password_hash, now_ms())
    say(f"created account {account.email} on the {account.plan} plan")


def _password(from_stdin: bool) -> str:
    if from_stdin:
        password = sys.stdin.readline().rstrip("\r\n")
    elif not sys.stdin.isatty():
        raise Failure("There is no terminal to ask for the password: give it on standard input with --password-stdin.")
    else:
        password = getpass.getpass("Password: ")
        if getpass.getpass("Again: ") != password:
            raise Failure("The passwords differ.")
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
    # Asked for and hashed while the file is free.
    password_hash = passwords.hashed(_password(given.password_stdin))
    with database(settings) as connection:
        set_password_hash(connection, number, password_hash)
        logins.forget_account(connection, number)
    say(f"{given.email} has a new password; every browser that was logged in is logged out")


def _add_one_website(given: argparse.Namespace, settings: Settings) -> None:
    domain, notes = registrable_domain(given.domain)
    name = check_name(given.name or domain, "A name")
    origins = [exact_origin(text) for text in given.allow_origin]
    # Only the very first website may make the database: --account names one that must exist.
    with database(settings, create=given.account is None) as connection:
        if given.account is None and not has_account(connection):
            owner = create_account(connection, FIRST_ACCOUNT, "business", None, now_ms())
            notes.append(f"created the account {owner.email}, without a password until one is set")
        else:
            owner = find_account(connection, given.account)
        if not given.again:
            try:
                check_domain_unused(connection, owner.number, domain)
            except DomainTaken as taken:
                raise Failure(f"{taken}. Use that id, or add a second website of this domain with --again.") from None
        id = add_website(connection, owner, domain, name, origins, now_ms())
    for note in notes:
        say(note)
    print(id)


def _rename_website(given: argparse.Namespace, settings: Settings) -> None:
    name = check_name(given.name.strip(), "A name")
    if not name:
        raise Failure("A name has at least one character.")
    with database(settings) as connection:
        website = find_website(connection, given.website)
        update_website(connection, website.number, name, website.domain, website.origins)
    say(f"{website.domain} ({website.id}) is now called {name}")


def _remove_website(given: argparse.Namespace, settings: Settings) -> None:
    with database(settings, write=given.yes) as connection:
        website = find_website(connection, given.website)
        counted = traffic_of(connection, [website.number])[website.number]
        if given.yes:
            deletion.delete_website(connection, website.number, now_ms())
    events = f"{counted.events:,}" if counted.is_exact else f"at least {counted.events:,}"
    what = f"{website.domain} ({website.id}), {website.name}, with {events} events"
    if given.yes:
        say(f"removed {what}; the server deletes its data in the background, while it runs")
    else:
        say(f"this would delete {what}. Nothing was changed: add --yes to delete it. A backup is the only way back.")


def _list_accounts(given: argparse.Namespace, settings: Settings) -> None:
    with database(settings, write=False) as connection:
        owners, websites = all_owners(connection).values(), all_websites(connection)
    for owner in owners:
        own = sum(website.account == owner.number for website in websites)
        print(owner.email, owner.plan, own, sep="\t")


def _list_websites(given: argparse.Namespace, settings: Settings) -> None:
    with database(settings, write=False) as connection:
        listed = all_websites(connection)
    # Not while the file is locked: whoever reads this may take his time.
    for website in listed:
        print(website.id, website.domain, website.name, sep="\t")


def _create_key(given: argparse.Namespace, settings: Settings) -> None:
    name = check_name(given.name, "A name")
    with database(settings) as connection:
        value = create_api_key(connection, find_account(connection, given.account), name, now_ms())
    say("this is shown once; only a hash of it is kept:")
    print(value)


def _list_keys(given: argparse.Namespace, settings: Settings) -> None:
    with database(settings, write=False) as connection:
        owner = find_account(connection, given.account).number if given.account else None
        listed = [key for key in all_api_keys(connection).values() if owner in (None, key.account)]
    for key in listed:
        used = iso(key.last_used_ms) if key.last_used_ms else "never"
        print(key.prefix, key.name, iso(key.created_ms), used, sep="\t")


def _revoke_key(given: argparse.Namespace, settings: Settings) -> None:
    with database(settings) as connection:
        key = revoke_api_key(connection, given.prefix)
    say(f"revoked {key.prefix} {key.name}".rstrip())
