"""The command `mail test`: send a mail by the mail server of the settings and print what it answered.

It sends from this process and not by the server, with the settings that it is given. A mail that is accepted may still
not arrive: that depends on what the domain of the sender publishes.
"""

import argparse
import asyncio

from tally.base_path import public_url
from tally.cli.console import Failure, add_command, add_group, add_setting, argument, now_ms, say
from tally.notices import mail
from tally.notices.channels import check_config, new_channel
from tally.notices.mail import MailServer, mail_server
from tally.notices.outbox import Outcome
from tally.notices.requests import test_message
from tally.settings import Settings


def add_mail(parser: argparse.ArgumentParser) -> None:
    """Add the command to the parser."""
    group = add_group(parser)
    test = add_command(group, "test", _test, "send a test to an email address and print how that ended")
    test.add_argument("address", metavar="ADDRESS", type=argument(_address), help="email address")
    for name in ("smtp_url", "smtp_password_file", "mail_from", "base_url", "base_path"):
        add_setting(test, name)


def _address(text: str) -> str:
    return check_config("email", {"address": text}, ())["address"]


def _test(arguments: argparse.Namespace, settings: Settings) -> None:
    server = mail_server(settings)
    if server is None:
        raise Failure("no mail server is set: give --smtp-url and --mail-from, as for the server.")
    outcome = asyncio.run(_sent(server, arguments.address, settings))
    if not outcome.is_sent:
        raise Failure(f"{server.host}:{server.port}: {outcome.error}")
    say(
        f"{server.host}:{server.port} has accepted a mail to {arguments.address}. If it does not arrive, or as spam:"
        f" SPF, DKIM and DMARC of {server.domain} have to allow this mail server."
    )


async def _sent(server: MailServer, address: str, settings: Settings) -> Outcome:
    from tally.notices.mail_message import mail as written  # here: not for the help

    channel = new_channel(0, "email", address, {"address": address}, 0, language="en", confirmed_ms=0)
    page = public_url(settings.base_url, settings.base_path)
    return await mail.send(server, written(test_message(channel, now_ms()), server, page, "", now_ms()))
