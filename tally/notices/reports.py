"""Reports of an account: which websites are summed up, for which period, and to which channels that is sent.

`finish` stores the notices of a period and moves the time of the next in one transaction, so that a period is sent
once. A function that writes leaves the transaction to the caller.
"""

import json
import sqlite3
from collections.abc import Sequence
from typing import Any, NamedTuple

from tally.accounts.accounts import AccountFull
from tally.notices import outbox
from tally.notices.channels import Channel, add_channel
from tally.notices.outbox import New
from tally.notices.periods import Period

MAX_REPORTS = 50
MAX_WEBSITES = 50
# Each has a copy of every summary, for the days that notices are kept.
MAX_REPORT_CHANNELS = 10


class Report(NamedTuple):
    """A report. `websites`: ids, None for all; `hour`: of the day, in the time zone of the website.

    `person`: the one person who has it, None for those of the account. `filters`: as in a query of the read API, of a
    report of one website.
    """

    id: str
    account: int
    websites: tuple[str, ...] | None
    period: Period
    hour: int
    channels: tuple[str, ...]
    skip_empty: bool
    created_ms: int
    next_ms: int
    person: int | None
    filters: tuple[str, ...] = ()


_COLUMNS = "id, account, websites, period, hour, channels, skip_empty, created_ms, next_ms, person, filters"


def _report(row: Sequence[Any]) -> Report:
    websites = None if row[2] is None else tuple(json.loads(row[2]))
    lists = [tuple(json.loads(row[place])) for place in (5, 10)]
    return Report._make((*row[:2], websites, *row[3:5], lists[0], bool(row[6]), *row[7:10], lists[1]))


def _row(report: Report) -> tuple[Any, ...]:
    websites = None if report.websites is None else json.dumps(report.websites)
    return (websites, *report[3:5], json.dumps(report.channels), *report[6:10], json.dumps(report.filters))


def reports_of(connection: sqlite3.Connection, account: int) -> list[Report]:
    """Return the reports of an account, oldest first."""
    rows = connection.execute(
        f"/* reports.of_account */ select {_COLUMNS} from report where account = ? and person is null"
        " order by created_ms, id",
        (account,),
    )
    return [_report(row) for row in rows]


def find_report(connection: sqlite3.Connection, account: int, id: str) -> Report | None:
    """Return the report of an account with that id; None where there is none."""
    return next((one for one in reports_of(connection, account) if one.id == id), None)


def due_reports(connection: sqlite3.Connection, now_ms: int, latest_ms: int) -> list[Report]:
    """Return the reports that are due, and those that are due after `latest_ms`, which no clock that is right sets."""
    rows = connection.execute(
        f"/* reports.due */ select {_COLUMNS} from report where next_ms <= ? or next_ms > ? order by next_ms, id",
        (now_ms, latest_ms),
    )
    return [_report(row) for row in rows]


def add_report(connection: sqlite3.Connection, new: Report) -> None:
    """Store a new report. Raises AccountFull where the account has MAX_REPORTS."""
    if new.person is None and len(reports_of(connection, new.account)) >= MAX_REPORTS:
        raise AccountFull(f"The account has {MAX_REPORTS} reports, the most that it may have: delete one first.")
    connection.execute(
        "/* reports.add */ insert into report (id, account, websites, period, hour, channels, skip_empty, created_ms,"
        " next_ms, person, filters) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*new[:2], *_row(new)),
    )


def change_report(connection: sqlite3.Connection, report: Report) -> bool:
    """Store a changed report; return whether there is one with its id."""
    done = connection.execute(
        "/* reports.change */ update report set websites = ?, period = ?, hour = ?, channels = ?, skip_empty = ?,"
        " created_ms = ?, next_ms = ?, person = ?, filters = ? where id = ?",
        (*_row(report), report.id),
    )
    return done.rowcount == 1


def delete_report(connection: sqlite3.Connection, id: str) -> bool:
    """Delete a report; return whether there was one."""
    return connection.execute("/* reports.delete */ delete from report where id = ?", (id,)).rowcount == 1


def personal_report(connection: sqlite3.Connection, account: int, person: int) -> Report | None:
    """Return the report that a person has in an account; None without."""
    row = connection.execute(
        f"/* reports.personal */ select {_COLUMNS} from report where account = ? and person = ?", (account, person)
    ).fetchone()
    return None if row is None else _report(row)


def set_personal(
    connection: sqlite3.Connection, account: int, person: int, channel: Channel | None, report: Report | None
) -> None:
    """Replace the report that a person has in an account, and its channel; None for none."""
    own = (account, person)
    connection.execute("/* reports.delete_personal */ delete from report where account = ? and person = ?", own)
    connection.execute("/* reports.delete_channel */ delete from channel where account = ? and person = ?", own)
    if channel is not None and report is not None:
        add_channel(connection, channel)
        add_report(connection, report)


def finish(connection: sqlite3.Connection, report: Report, next_ms: int, new: New | None, now_ms: int) -> int:
    """Store the notices of a period, and when the next is due; return how many. None: nothing is sent.

    Nothing is done where the report was changed meanwhile.
    """
    moved = connection.execute(
        "/* reports.finish */ update report set next_ms = ? where id = ? and next_ms = ?",
        (next_ms, report.id, report.next_ms),
    )
    if not moved.rowcount or new is None:
        return 0
    return sum(outbox.add(connection, new._replace(only=channel), now_ms) for channel in report.channels)
