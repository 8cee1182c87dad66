"""The commands `website add`, `list`, `rename` and `remove`.

The first `website add` creates the database and an account without a password, if there is none. A removed website is
deleted in the background by the server (tally/maintenance/deletion.py).
"""

import argparse
import uuid

from tally.accounts import websites
from tally.accounts.accounts import FIRST_ACCOUNT, check_name, create_account, find_account, has_account
from tally.accounts.audit import Entry, by_command, record
from tally.accounts.websites import (
    DomainTaken,
    all_websites,
    check_domain_unused,
    delete_website,
    find_website,
    update_website,
)
from tally.cli.console import (
    Failure,
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
from tally.events.urls import exact_origin, readable_host, registrable_domain
from tally.rollups.traffic import traffic_of
from tally.settings import Settings


def add_website(parser: argparse.ArgumentParser) -> None:
    """Add the commands to the parser."""
    website = add_group(parser)
    add = add_command(website, "add", _add_one_website, "add a website and print its id")
    add.add_argument(
        "domain",
        metavar="DOMAIN",
        type=argument(registrable_domain),
        help="such as example.com; its subdomains are included",
    )
    add.add_argument("--name", type=argument(check_name), help="name in lists and pages (default: the domain)")
    add_account_option(add)
    add.add_argument(
        "--allow-origin",
        action="append",
        default=[],
        metavar="ORIGIN",
        type=argument(exact_origin),
        help="also accept events from this exact origin, such as capacitor://localhost; repeatable",
    )
    add.add_argument(
        "--id",
        type=argument(_website_id),
        metavar="UUID",
        help="its id, such as the one it has in Umami (default: a random one)",
    )
    add.add_argument(
        "--time-zone",
        type=argument(_zone),
        metavar="ZONE",
        help="its time zone, such as Europe/Berlin: its days begin at midnight of standard time (default: UTC)",
    )
    add.add_argument(
        "--again", action="store_true", help="add it even if the account already has a website for the domain"
    )
    add_command(website, "list", _list_websites, "list websites: id, domain, name")
    rename = add_command(website, "rename", _rename_website, "change the name of a website")
    add_website_argument(rename)
    rename.add_argument("name", metavar="NAME", type=argument(_new_name), help="the new name")
    remove = add_command(website, "remove", _remove_website, "delete a website and all its data")
    add_website_argument(remove)
    remove.add_argument(
        "--yes", action="store_true", help="delete it; without this option, only show what would be deleted"
    )


def _website_id(text: str) -> str:
    try:
        return str(uuid.UUID(text))
    except ValueError:
        raise ValueError(f"an id is a UUID, such as c66653dc-e3f4-4325-a39f-da606931a543 (got {text!r})") from None


def _zone(text: str) -> str:
    from tally.timeranges import zone  # here: most commands do not need time zones

    return zone(text).key


def _new_name(text: str) -> str:
    name = check_name(text.strip())
    if not name:
        raise ValueError("a name must have at least one character")
    return name


def _add_one_website(arguments: argparse.Namespace, settings: Settings) -> None:
    domain, changes = arguments.domain
    notes = [change.message for change in changes]
    # Only the first website may create the database: an account named by --account must exist.
    with database(settings, create=arguments.account is None) as connection:
        if arguments.account is None and not has_account(connection):
            owner = create_account(connection, FIRST_ACCOUNT, "business", None, now_ms())
            notes.append(
                f"created the account {owner.name}, which has no password yet: `serve` prints a link to set it"
            )
        else:
            owner = find_account(connection, arguments.account)
        if not arguments.again:
            try:
                check_domain_unused(connection, owner.number, domain)
            except DomainTaken as taken:
                raise Failure(f"{taken}. Use that id, or add a second website for the domain with --again.") from None
        websites.check_website_count(connection, owner.number)
        name, origins = arguments.name or readable_host(domain), arguments.allow_origin
        id = websites.add_website(connection, owner, domain, name, origins, now_ms(), arguments.id, arguments.time_zone)
        record(connection, by_command(owner.number), Entry("website_added", id, domain), now_ms())
    for note in notes:
        say(note)
    print(id)


def _rename_website(arguments: argparse.Namespace, settings: Settings) -> None:
    with database(settings) as connection:
        website = find_website(connection, arguments.website)
        update_website(connection, website.number, arguments.name, website.domain, website.origins)
        entry = Entry("website_changed", website.id, website.domain, {"name": [website.name, arguments.name]})
        record(connection, by_command(website.account), entry, now_ms())
    say(f"{readable_host(website.domain)} ({website.id}) is now named {arguments.name}")


def _remove_website(arguments: argparse.Namespace, settings: Settings) -> None:
    with database(settings, write=arguments.yes) as connection:
        website = find_website(connection, arguments.website)
        counted = traffic_of(connection, [website.number])[website.number]
        if arguments.yes:
            delete_website(connection, website.number, now_ms())
            entry = Entry("website_deleted", website.id, website.domain)
            record(connection, by_command(website.account), entry, now_ms())
    events = f"{counted.events:,}" if counted.is_exact else f"at least {counted.events:,}"
    what = f"{readable_host(website.domain)} ({website.id}), {website.name}"
    what += f", with {events} events beside web vitals, heatmaps and experiments"
    if arguments.yes:
        say(f"removed {what}; the server deletes its data in the background, while it runs")
    else:
        say(f"this would delete {what}. Nothing was changed. Add --yes to delete it; only a backup can bring it back.")


def _list_websites(arguments: argparse.Namespace, settings: Settings) -> None:
    with database(settings, write=False) as connection:
        listed = all_websites(connection)
    # Print without holding the database: the reader of the output may be slow.
    for website in listed:
        show_row(website.id, readable_host(website.domain), website.name)
