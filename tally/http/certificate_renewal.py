"""The certificate of --acme: what is on disk, when requests are sent to the authority, and what follows from a failure.

Each authority has a directory of its own in the store, readable by this user alone, with `account.pem` (the account's
key), `certificate.pem` (key, certificate and chain, replaced as one file) and `state.json` (`State`). A server starts
with the stored certificate, whatever the authority does.

A certificate is renewed at two thirds of its lifetime, whatever that is, or when the authority suggests it (ARI, RFC
9773), which is requested every few hours; also where a domain is missing in the certificate.

No restart, and no number of them, causes more requests to an authority. An attempt is written to disk as failed before
it begins, with the time of the next: if that cannot be written, no request is sent. Let's Encrypt allows 5 failed
validations of a domain in an hour, and 5 certificates of the same domains in a week: failures are repeated after 5, 10,
20, ... minutes up to MAX_WAIT_MS, or later if the authority requests it, and a certificate is at most replaced once a
day (or in a tenth of its lifetime). Other domains begin anew.

Attempts run on a thread that does not delay the end of the process.
"""

import asyncio
import contextlib
import json
import os
import random
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from tally.clock import Clock
from tally.errors import fields, log
from tally.http.acme import AcmeError, Authority, new_key
from tally.http.plain_port import PlainPort
from tally.http.tls import Certificate, Tls
from tally.resources import install_command
from tally.settings import BadSetting, Settings
from tally.timestamps import DAY_MS, HOUR_MS, SECOND_MS

# The 5th attempt is more than an hour after the first.
FIRST_WAIT_MS = 300_000
# Several attempts between two thirds and the end of a certificate of six days.
MAX_WAIT_MS = 6 * HOUR_MS
# The longest delay that is accepted from an authority, whose limits are by week. Later times, from a clock that was
# wrong, do not count.
MAX_ASKED_WAIT_MS = 7 * DAY_MS
# So that many servers that began at the same time do not send requests at the same time.
_JITTER = 0.25
_EARLY = 1 / 30
CERTIFICATE_FILE, STATE_FILE = "certificate.pem", "state.json"
_INTERRUPTED = "the server ended during the attempt"


@dataclass
class State:
    """What is stored about an authority, in milliseconds since 1970; 0 is never.

    `failures` and `error` are those since the last success. No request is sent before `next_ms` for a
    certificate, and not before `ask_ms` when to renew. `renew_ms` is when the certificate is renewed.
    """

    domains: list[str] = field(default_factory=list)
    failures: int = 0
    error: str = ""
    tried_ms: int = 0
    next_ms: int = 0
    renew_ms: int = 0
    ask_ms: int = 0


def store_of(settings: Settings) -> Path:
    """Return the directory of the authority in the settings."""
    store = settings.acme_store or settings.db.with_name(settings.db.name + ".acme")
    return store / urlsplit(settings.acme_directory).netloc.replace(":", "_").lower()


def read_state(directory: Path) -> State:
    """Return what is stored; a new state where there is none, or none that can be read."""
    new = State()
    try:
        state = State(**json.loads((directory / STATE_FILE).read_bytes()))
    except (OSError, ValueError, TypeError):
        return new
    is_whole = all(type(value) is type(getattr(new, name)) for name, value in vars(state).items())
    return state if is_whole else new


class Renewal:
    """Gets and renews the certificate of `tls`. `port` answers the validations."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        """Read what is stored. Raises BadSetting."""
        check(settings)
        self._settings, self._clock = settings, clock
        self._directory = store_of(settings)
        self._file = self._directory / CERTIFICATE_FILE
        self._thread: threading.Thread | None = None
        self._is_changed = False
        self.tls = Tls(self._file, self._file, is_awaited=True)
        self.port = PlainPort(settings.acme, settings.base_url, self.tls)
        self._read_state()
        if self.tls.certificate is None:
            next_ms = max(self._state.next_ms, clock.wall_ms())
            log.warning(
                "there is no certificate for %s yet: HTTPS begins when the certificate authority has issued it",
                ", ".join(settings.acme),
                extra=fields(next_attempt=shown(next_ms), error=self._state.error or None),
            )

    async def run(self) -> None:
        """Start each attempt when it is due."""
        while True:
            self.start_if_due()
            await asyncio.sleep(1)

    def reload(self) -> None:
        """Read what is stored again (SIGHUP), after the attempt under way: without `state.json` the next is at once."""
        self._is_changed = True

    def start_if_due(self) -> None:
        """Start an attempt if one is due."""
        if self._thread is not None and self._thread.is_alive():
            return
        if self._is_changed:
            self._is_changed = False
            self._read_state()
            if self._file.exists():
                self.tls.renew()
        now_ms = self._clock.wall_ms()
        if self._state.next_ms > now_ms + MAX_ASKED_WAIT_MS:
            self._state.next_ms = 0
        work = None
        if now_ms >= self._state.next_ms and (self._is_incomplete() or now_ms >= self._renew_ms()):
            work = self._renew
        elif self.tls.certificate is not None and not self._is_incomplete() and now_ms >= self._state.ask_ms:
            work = self._ask
        if work is not None:
            self._thread = threading.Thread(target=work, args=(now_ms,), name="certificate", daemon=True)
            self._thread.start()

    def _read_state(self) -> None:
        self._state, domains = read_state(self._directory), sorted(self._settings.acme)
        if self._state.domains != domains:
            self._state = State(domains)

    def _is_incomplete(self) -> bool:
        certificate = self.tls.certificate
        return certificate is None or not {*self._settings.acme} <= {*certificate.names}

    def _renew_ms(self) -> int:
        """Return when to renew the certificate: at the stored time, or at two thirds of its lifetime."""
        certificate = self.tls.certificate
        return self._state.renew_ms or (0 if certificate is None else _two_thirds_ms(certificate))

    def _renew(self, now_ms: int) -> None:
        state = self._state
        state.failures += 1
        wait_ms = min(FIRST_WAIT_MS << min(state.failures - 1, 20), MAX_WAIT_MS)
        state.tried_ms, state.next_ms = now_ms, now_ms + int(wait_ms * random.uniform(1, 1 + _JITTER))
        state.error = _INTERRUPTED
        try:
            self._save()
            authority = Authority(self._settings.acme_directory, self._account_key())
            issued = authority.certificate(self._settings.acme, self._settings.acme_email, self._publish)
            _write(self._file, issued)
            # Whatever follows: this one took a part of the authority's limit.
            state.next_ms = now_ms + DAY_MS
            certificate = self.tls.certificate if self.tls.renew() else None
            if certificate is None:
                raise AcmeError("the issued certificate cannot be used: see the error before")
        except (AcmeError, OSError) as failure:
            self._fail(failure, now_ms)
            return
        lifetime_ms = (certificate.ends_s - certificate.begins_s) * SECOND_MS
        state.failures, state.error = 0, ""
        state.next_ms = now_ms + min(lifetime_ms // 10, DAY_MS)
        state.renew_ms = _two_thirds_ms(certificate) - int(lifetime_ms * random.uniform(0, _EARLY))
        self._ask(now_ms, authority)
        log.info(
            "a certificate was issued",
            extra=fields(domains=", ".join(certificate.names), renewal=shown(self._renew_ms())),
        )

    def _fail(self, failure: AcmeError | OSError, now_ms: int) -> None:
        self.tls.failed += 1
        state, certificate = self._state, self.tls.certificate
        state.error = str(failure)
        if isinstance(failure, AcmeError):
            asked_ms = now_ms + min(int(failure.wait_s * SECOND_MS), MAX_ASKED_WAIT_MS)
            state.next_ms = max(state.next_ms, asked_ms)
        # Otherwise the state of before the attempt is on disk, with its next time.
        with contextlib.suppress(OSError):
            self._save()
        log.error(
            "no certificate was issued for %s: %s",
            ", ".join(self._settings.acme),
            state.error,
            extra=fields(
                attempts=state.failures,
                next_attempt=shown(state.next_ms),
                valid_until=certificate and shown(certificate.ends_s * SECOND_MS),
            ),
        )

    def _ask(self, now_ms: int, authority: Authority | None = None) -> None:
        """Request from the authority when to renew the certificate. Nothing depends on it: a failure is repeated."""
        state, certificate = self._state, self.tls.certificate
        state.ask_ms = now_ms + MAX_WAIT_MS
        try:
            self._save()
            authority = authority or Authority(self._settings.acme_directory, self._account_key())
            renew_s, again_s = authority.renewal_times_s(self._file.read_bytes())
            if renew_s is not None and certificate is not None and renew_s < certificate.ends_s:
                state.renew_ms = int(renew_s * SECOND_MS)
            state.ask_ms = min(max(int(again_s * SECOND_MS), now_ms + HOUR_MS), now_ms + DAY_MS)
            self._save()
        except (AcmeError, OSError) as failure:
            log.info("no renewal time from the certificate authority: %s", failure)

    def _account_key(self) -> bytes:
        path = self._directory / "account.pem"
        if not path.exists():
            _write(path, new_key())
        return path.read_bytes()

    def _publish(self, challenges: Mapping[str, str]) -> None:
        self.port.challenges = challenges

    def _save(self) -> None:
        _write(self._directory / STATE_FILE, json.dumps(asdict(self._state), indent=1).encode())


def check(settings: Settings) -> None:
    """Raise BadSetting where --acme cannot be used."""
    if settings.tls_cert is not None or settings.tls_key is not None:
        raise BadSetting("--acme gets a certificate itself: remove --tls-cert and --tls-key, or --acme")
    if settings.port and settings.port == settings.acme_http_port:
        raise BadSetting(f"--acme-http-port must differ from --port (got {settings.port}): validation is not by HTTPS")
    if find_spec("acme") is None:
        raise BadSetting(f"--acme needs the extra of that name: {install_command('acme')}")


def _two_thirds_ms(certificate: Certificate) -> int:
    return (certificate.begins_s + (certificate.ends_s - certificate.begins_s) * 2 // 3) * SECOND_MS


def shown(time_ms: int) -> str:
    """Return a time as text, in UTC."""
    return datetime.fromtimestamp(time_ms // SECOND_MS, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _write(path: Path, content: bytes) -> None:
    """Replace a file, readable by this user alone, and wait until it is on disk. Raises OSError."""
    for directory in (path.parent.parent, path.parent):
        directory.mkdir(mode=0o700, exist_ok=True)
    unfinished = path.with_name(path.name + ".new")
    with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(unfinished, path)
    opened = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
