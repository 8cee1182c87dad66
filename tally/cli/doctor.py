"""The command `doctor`: check this installation and print what to fix.

A check is a function that yields Findings: fine, a note, or a fault with its fix. No check changes anything. The checks
are in tally/maintenance/doctor_checks.py and tally/maintenance/doctor_database.py. An exception of a check is reported
as a fault, and the other checks still run.

Findings go to standard output, one line each, with the fix on the next line. The exit status is 1 if there is a fault.
"""

import argparse
import asyncio
from collections.abc import Callable, Iterator

from tally.base_path import public_url
from tally.cli.console import Failure, add_setting, argument, now_ms, printable, say, set_function
from tally.http.certificate_renewal import CERTIFICATE_FILE, STATE_FILE, read_state, shown, store_of
from tally.http.tls import Tls
from tally.maintenance.doctor_checks import (
    Case,
    Finding,
    agent_engine,
    backups_made,
    country_data,
    disk,
    fault,
    fine,
    lists,
    log_size,
    permissions,
    program,
    server,
    zone_data,
)
from tally.maintenance.doctor_database import database
from tally.oidc import CALLBACK
from tally.rounding import counted
from tally.settings import BadSetting, Settings, path_of
from tally.storage.database import DatabaseError
from tally.timestamps import SECOND_MS

_MARKS = {"fine": "ok", "note": "note", "fault": "FAULT"}


def add_doctor(parser: argparse.ArgumentParser) -> None:
    """Add the options to the parser."""
    set_function(parser, _doctor)
    parser.add_argument("--quick", action="store_true", help="skip reading the whole database")
    parser.add_argument(
        "--restore-drill",
        action="store_true",
        help="also get the newest backup from --backup-to into a temporary directory, and check it",
    )
    parser.add_argument("--identity", metavar="FILE", type=argument(path_of), help="private key of age, for the drill")
    of_backups = ("backup_dir", "backup_to", "backup_credentials", "upgrade_backup")
    of_mail = ("smtp_url", "smtp_password_file", "mail_from")
    of_sign_in = ("base_url", "base_path", "oidc_issuer", "oidc_logout")
    of_cluster = ("clickhouse", "cluster_mode", "cluster_name")
    for name in (
        "geoip_db",
        "lists_dir",
        "datacenter_ranges",
        "min_free_disk",
        *of_backups,
        *of_cluster,
        "acme",
        "acme_directory",
        "acme_store",
        *of_sign_in,
        *of_mail,
    ):
        add_setting(parser, name)


def _doctor(given: argparse.Namespace, settings: Settings) -> None:
    path = settings.db.resolve()
    say(f"database: {path}")
    if given.restore_drill and not settings.backup_to:
        given.parser.error("--restore-drill needs --backup-to URL")
    case = Case(settings, path, now_ms(), is_quick=given.quick, identity=given.identity)
    faults = 0
    for finding in examine(case, is_drill=given.restore_drill):
        print(f"{_MARKS[finding.mark]:<6} {finding.topic:<11}  {printable(finding.words)}", flush=True)
        if finding.todo:
            print(f"{'->':>18}  {printable(finding.todo)}", flush=True)
        faults += finding.mark == "fault"
    if faults:
        raise Failure(f"{counted(faults, 'problem')} found: see FAULT above.")


def examine(case: Case, *, is_drill: bool = False) -> Iterator[Finding]:
    """Yield the findings of all checks in the order of the output."""
    of_installation = (
        program,
        agent_engine,
        zone_data,
        country_data,
        lists,
        server,
        certificate,
        single_sign_on,
        mail,
        permissions,
    )
    for check in (*of_installation, disk, log_size, backups_made):
        yield from _done(check, case)
    if case.settings.backup_to:
        from tally.maintenance import doctor_offsite  # here: most installations do not need it

        yield from _done(doctor_offsite.offsite, case)
        if is_drill:
            yield from _done(doctor_offsite.restore_drill, case)
    yield from _done(database, case)
    if case.settings.cluster_mode != "none":
        from tally.cluster import doctor as followed  # here: most installations do not need it

        yield from _done(followed.cluster, case)


def certificate(case: Case) -> Iterator[Finding]:
    """Check the certificate of --acme and its renewal, where it is or was used."""
    directory = store_of(case.settings)
    state = read_state(directory)
    domains = ", ".join(case.settings.acme or state.domains)
    if not domains:
        return
    words, todo = f"{domains}: no certificate was issued yet", "start the server"
    file = directory / CERTIFICATE_FILE
    if file.exists():
        try:
            found = Tls(file, file).certificate
        except BadSetting as bad:
            words = f"{domains}: {bad}"
        else:
            todo = ""
            words = f"{domains}: valid until {shown(found.ends_s * SECOND_MS)}" if found else words
    if state.error:
        words = f"{words}; attempts that failed: {state.failures}, the last on {shown(state.tried_ms)}: {state.error}"
        todo = f"the next is on {shown(state.next_ms)}; for one at once, remove {directory / STATE_FILE} and restart"
    yield fault("certificate", words, todo) if todo else fine("certificate", words)


def single_sign_on(case: Case) -> Iterator[Finding]:
    """Name the addresses to register at the provider of --oidc-issuer."""
    if not case.settings.oidc_issuer:
        return
    home = public_url(case.settings.base_url, case.settings.base_path)
    if not home:
        yield fault("sign-in", "--oidc-issuer needs --base-url", "set it, also for the server")
        return
    after = f", and {home}/login for logging out" if case.settings.oidc_logout == "yes" else ""
    yield fine("sign-in", f"redirect URI to register at {case.settings.oidc_issuer}: {home}{CALLBACK}{after}")


def mail(case: Case) -> Iterator[Finding]:
    """Connect to the mail server of --smtp-url and sign in, without sending anything."""
    from tally.notices import mail  # here: most installations send no mail

    server = mail.mail_server(case.settings)
    if server is None:
        return
    place = f"{server.host}:{server.port}"
    outcome = asyncio.run(mail.send(server, None))
    if not outcome.is_sent:
        yield fault("mail", f"{place}: {outcome.error}", "correct --smtp-url, or the mail server")
    elif not case.settings.base_url:
        yield fault("mail", "without --base-url, mail has no links, and recipients cannot unsubscribe", "set it")
    else:
        yield fine("mail", f"{place} can be reached; `mail test ADDRESS` sends a mail")


def _done(check: Callable[[Case], Iterator[Finding]], case: Case) -> Iterator[Finding]:
    try:
        yield from check(case)
    except (OSError, ValueError, DatabaseError) as failure:
        yield fault(check.__name__.strip("_").replace("_", " "), f"could not be checked: {failure}")
