"""The commands `notify list` and `notify test`.

Channels are made on the pages or by the API. `test` sends from this process and not by the server, with the settings
that it is given.
"""

import argparse
import asyncio

from tally.accounts.accounts import all_accounts, check_email, find_account
from tally.base_path import public_url
from tally.cli.console import Failure, add_command, add_group, add_setting, argument, database, now_ms, say, show_row
from tally.notices.addresses import allowed_networks
from tally.notices.channels import Channel, all_channels
from tally.notices.outbox import STATES, Outcome, notices
from tally.notices.requests import request, test_message
from tally.settings import BadSetting, Settings
from tally.storage.database import Connection
from tally.timestamps import iso

_MAX_NOTICES = 1_000


def add_notify(parser: argparse.ArgumentParser) -> None:
    """Add the commands to the parser."""
    notify = add_group(parser)
    what = "list notices, newest first: number, time, account, channel, kind, state, attempts, error, title"
    listing = add_command(notify, "list", _list, what)
    listing.add_argument("--account", metavar="EMAIL", type=argument(check_email), help="only those of this account")
    listing.add_argument("--state", choices=STATES, help="only those of this state")
    test = add_command(notify, "test", _test, "send a test to a channel and print how that ended")
    test.add_argument("channel", metavar="CHANNEL", help="name or id of the channel")
    for name in ("notify_networks", "base_url", "base_path"):
        add_setting(test, name)


def _list(arguments: argparse.Namespace, settings: Settings) -> None:
    with database(settings, write=False) as connection:
        account = find_account(connection, arguments.account).number if arguments.account else None
        listed = notices(connection, account, state=arguments.state, limit=_MAX_NOTICES)
        names = {one.number: one.name for one in all_accounts(connection).values()}
        channels = all_channels(connection)
    for one in listed:
        row = (one.number, iso(one.created_ms), names[one.account], channels[one.channel].name, one.kind)
        show_row(*row, one.state, one.attempts, one.last_error or "", one.content.title)


def _test(arguments: argparse.Namespace, settings: Settings) -> None:
    with database(settings, write=False) as connection:
        channel = _channel(connection, arguments.channel)
    if channel.kind == "feed":
        raise Failure(f"{channel.name} is a feed, to which nothing is sent.")
    if channel.kind == "email":
        raise Failure(f"{channel.name} is an email address: use `mail test ADDRESS`.")
    outcome = asyncio.run(_sent(channel, settings))
    if not outcome.is_sent:
        raise Failure(f"{channel.name}: {outcome.error}")
    say(f"{channel.name}: sent (HTTP {outcome.status})")


async def _sent(channel: Channel, settings: Settings) -> Outcome:
    from tally.notices.delivery import Delivery  # here: an HTTP client, which `list` does not need

    try:
        delivery = Delivery(allowed_networks(settings.notify_networks))
    except ValueError as bad:
        raise BadSetting(str(bad)) from None
    page = public_url(settings.base_url, settings.base_path)
    return await delivery.send(request(test_message(channel, now_ms()), page, now_ms()))


def _channel(connection: Connection, name: str) -> Channel:
    """Return the channel of a name or an id. Raises Failure."""
    matching = [one for one in all_channels(connection).values() if name in (one.id, one.name)]
    if not matching:
        raise Failure(f"There is no channel {name!r}: list them under Account > Notifications.")
    if len(matching) > 1:
        ids = ", ".join(one.id for one in matching)
        raise Failure(f"{len(matching)} channels have the name {name!r}: write the id of one ({ids}).")
    return matching[0]
