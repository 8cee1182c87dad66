"""The command `audit`: print the audit log (tally/accounts/audit.py), newest line first.

A line has the time, the account, who acted, the action, the website and the name of what was changed; with --json it is
a JSON object, with the details.
"""

import argparse
import json

from tally.accounts.accounts import all_accounts, check_email, find_account
from tally.accounts.audit import MAX_LINES, lines
from tally.cli.console import argument, database, set_function, show_row
from tally.settings import Settings
from tally.timestamps import BadTime, event_time_ms, iso


def add_audit(parser: argparse.ArgumentParser) -> None:
    """Add the options to the parser."""
    set_function(parser, _show_audit)
    parser.add_argument("--account", metavar="EMAIL", type=argument(check_email), help="only lines of this account")
    parser.add_argument("--since", metavar="TIME", type=argument(_time_ms), help="only lines since then (ISO 8601)")
    parser.add_argument("--json", action="store_true", help="one JSON object a line, with details")


def _time_ms(text: str) -> int:
    try:
        return event_time_ms(text)
    except BadTime:
        raise ValueError(f"{text!r} is no time: write it as 2026-11-20 or 2026-11-20T09:30:00Z") from None


def _show_audit(arguments: argparse.Namespace, settings: Settings) -> None:
    with database(settings, write=False) as connection:
        account = find_account(connection, arguments.account).number if arguments.account else None
        names = {number: one.name for number, one in all_accounts(connection).items()}
        found = lines(connection, account, since_ms=arguments.since or 0, limit=MAX_LINES)
    for line in found:
        actor, entry = line.actor, line.entry
        name = names.get(actor.account, "") if actor.account is not None else ""
        if arguments.json:
            shown = {"number": line.number, "at": iso(line.ms), "account": name, "actor": actor.name, "via": actor.via}
            shown |= {"action": entry.action, "website_id": entry.website, "target": entry.target}
            print(json.dumps(shown | {"detail": entry.detail}))
        else:
            show_row(iso(line.ms), name, actor.name, entry.action, entry.website or "-", entry.target)
