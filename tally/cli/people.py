"""The commands `person list`, `invite`, `role`, `remove`, `password`, `link`, `second-factor` and `passkeys`.

The command line may do what an owner may, and is not limited by roles; an account keeps an owner all the same. `link`
prints a one-time link to sign in, the way back where a person can not sign in otherwise.
"""

import argparse

from tally.accounts import changes, passkeys, people, second_factor
from tally.accounts.accounts import (
    Account,
    AccountError,
    all_accounts,
    all_people,
    check_email,
    find_account,
    find_person,
)
from tally.accounts.api_keys import key_salt
from tally.accounts.audit import Entry, by_command, record
from tally.accounts.people import SIGN_IN_LINK_LASTS_MS, token_digest
from tally.accounts.roles import LIMITED_ROLES, ROLES, Membership, Role
from tally.accounts.websites import find_website
from tally.base_path import public_url
from tally.cli.accounts import add_password_command
from tally.cli.console import (
    Failure,
    add_account_option,
    add_command,
    add_group,
    add_setting,
    add_website_argument,
    argument,
    database,
    now_ms,
    say,
    show_row,
)
from tally.rounding import counted
from tally.settings import Settings
from tally.storage.database import Connection
from tally.timestamps import DAY_MS, iso


def add_person(parser: argparse.ArgumentParser) -> None:
    """Add the commands to the parser."""
    person = add_group(parser)
    listing = add_command(person, "list", _list, "list people: email, account, role, websites, last day of use")
    listing.add_argument("--account", metavar="EMAIL", type=argument(check_email), help="only people of this account")
    invite = add_command(person, "invite", _invite, "print a link with which a person joins an account, once in 7 days")
    _add_email(invite)
    invite.add_argument("--role", choices=ROLES, required=True, help="what the person may do")
    _add_websites(invite)
    role = add_command(person, "role", _set_role, "change the role of a person")
    _add_email(role)
    role.add_argument("role", metavar="ROLE", choices=ROLES, help=f"{', '.join(ROLES[:-1])} or {ROLES[-1]}")
    _add_websites(role)
    remove = add_command(person, "remove", _remove, "remove a person from an account")
    _add_email(remove)
    add_password_command(person)
    link = add_command(person, "link", _sign_in_link, "print a link with which a person signs in, once in 10 minutes")
    _add_email(link)
    factor = add_command(person, "second-factor", _remove_factor, "remove the second factor of a person")
    _add_email(factor)
    factor.add_argument("--off", action="store_true", required=True, help="sign in by the password alone from now on")
    keys = add_command(person, "passkeys", _remove_passkeys, "remove the passkeys of a person")
    _add_email(keys)
    keys.add_argument("--off", action="store_true", required=True, help="remove all of them, and end all sessions")
    for command in (invite, role, remove):
        add_account_option(command)
    for command in (invite, link):
        for name in ("base_url", "port", "base_path"):
            add_setting(command, name)


def _add_email(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("email", metavar="EMAIL", type=argument(check_email), help="email address of the person")


def _add_websites(parser: argparse.ArgumentParser) -> None:
    help = "limit the person to this website; repeatable; only for editors and viewers"
    add_website_argument(parser, "--website", help, action="append", default=[])


def _page(settings: Settings, path: str) -> str:
    """Return the address of a page of the server."""
    start = public_url(settings.base_url, settings.base_path)
    return (start or f"http://localhost:{settings.port}{settings.base_path}") + path


def _websites(connection: Connection, account: Account, role: Role, names: list[str]) -> frozenset[int] | None:
    if not names:
        return None
    if role not in LIMITED_ROLES:
        raise Failure(f"--website: {role}s see all websites; only editors and viewers can be limited.")
    chosen = [find_website(connection, name) for name in names]
    for website in chosen:
        if website.account != account.number:
            raise Failure(f"{website.domain} is no website of {account.name}.")
    return frozenset(website.number for website in chosen)


def _member(connection: Connection, arguments: argparse.Namespace) -> Membership:
    """Return the membership of the person, in the account of --account, or in the only one."""
    person = find_person(connection, arguments.email)
    memberships = people.memberships_of(connection, person.number)
    if arguments.account is not None:
        number = find_account(connection, arguments.account).number
        memberships = [membership for membership in memberships if membership.account == number]
    if not memberships:
        raise AccountError(f"{arguments.email} is no member of {arguments.account}.")
    if len(memberships) > 1:
        raise Failure(f"{arguments.email} is a member of {len(memberships)} accounts: choose one with --account EMAIL.")
    return memberships[0]


def _list(arguments: argparse.Namespace, settings: Settings) -> None:
    with database(settings, write=False) as connection:
        account = find_account(connection, arguments.account).number if arguments.account else None
        names = {number: member.name for number, member in all_accounts(connection).items()}
        persons, members = all_people(connection), people.all_memberships(connection).values()
    for member in members:
        if account in (None, member.account):
            person = persons[member.person]
            websites = "all websites" if member.websites is None else f"{len(member.websites)} websites"
            seen = "never" if person.last_seen_day is None else iso(person.last_seen_day * DAY_MS)[:10]
            show_row(person.email, names[member.account], member.role, websites, seen)


def _invite(arguments: argparse.Namespace, settings: Settings) -> None:
    token, made_ms = people.new_token(), now_ms()
    with database(settings) as connection:
        account = find_account(connection, arguments.account)
        websites = _websites(connection, account, arguments.role, arguments.website)
        new = people.new_invitation(account.number, arguments.email, arguments.role, websites, None, made_ms)
        people.invite(connection, new, token_digest(token, key_salt(connection)))
        record(connection, by_command(account.number), Entry("person_invited", target=arguments.email), made_ms)
    say(f"Send this link to {arguments.email}: it is valid once, for 7 days.")
    print(_page(settings, f"/invitation#{token}"))


def _set_role(arguments: argparse.Namespace, settings: Settings) -> None:
    with database(settings) as connection:
        before = _member(connection, arguments)
        account = all_accounts(connection)[before.account]
        websites = _websites(connection, account, arguments.role, arguments.website)
        people.change_member(connection, account.number, before.person, arguments.role, websites, None)
        entry = Entry("person_role_changed", target=arguments.email, detail={"role": [before.role, arguments.role]})
        record(connection, by_command(account.number), entry, now_ms())
    say(f"{arguments.email} is {arguments.role} of {account.name}")


def _remove(arguments: argparse.Namespace, settings: Settings) -> None:
    with database(settings) as connection:
        member = _member(connection, arguments)
        entry = Entry("person_removed", target=arguments.email)
        changes.remove_member(connection, member.account, member.person, by_command(member.account), entry, now_ms())
    say(f"removed {arguments.email}")


def _sign_in_link(arguments: argparse.Namespace, settings: Settings) -> None:
    token = people.new_token()
    with database(settings) as connection:
        person = find_person(connection, arguments.email)
        digest = token_digest(token, key_salt(connection))
        people.create_sign_in_link(connection, person.number, digest, now_ms())
        for member in people.memberships_of(connection, person.number):
            entry = Entry("sign_in_link_created", target=person.email)
            record(connection, by_command(member.account), entry, now_ms())
    say(f"The link signs in {person.email}, once, within {SIGN_IN_LINK_LASTS_MS // 60_000} minutes.")
    print(_page(settings, f"/login#{token}"))


def _remove_factor(arguments: argparse.Namespace, settings: Settings) -> None:
    with database(settings) as connection:
        person = find_person(connection, arguments.email)
        if not second_factor.remove(connection, person.number):
            raise Failure(f"{person.email} has no second factor.")
        for member in people.memberships_of(connection, person.number):
            entry = Entry("second_factor_removed", target=person.email)
            record(connection, by_command(member.account), entry, now_ms())
    say(f"{person.email} signs in by the password alone; all sessions have ended")


def _remove_passkeys(arguments: argparse.Namespace, settings: Settings) -> None:
    with database(settings) as connection:
        person = find_person(connection, arguments.email)
        removed = passkeys.remove_all(connection, person.number)
        if not removed:
            raise Failure(f"{person.email} has no passkey.")
        for member in people.memberships_of(connection, person.number):
            entry = Entry("passkeys_removed", target=person.email)
            record(connection, by_command(member.account), entry, now_ms())
    say(f"removed {counted(removed, 'passkey')} of {person.email}; all sessions have ended")
