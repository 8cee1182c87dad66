"""TLS of the listening sockets: the certificate that --tls-cert and --tls-key name, or that of --acme, and its renewal.

A certificate is checked when it is read: a server that starts with it answers clients. The check is a handshake in
memory with a client that trusts this certificate alone, so an expired one, or one that is not for servers, is refused
as a client would refuse it. Who issued it is not checked.

`renew` reads both files again. New connections use the new certificate, open ones keep theirs. Where the new files
cannot be used, the old certificate stays, and an error is logged.

TLS 1.2 and 1.3. OpenSSL's own choice of ciphers, in Python's restriction, has forward secrecy alone.
"""

import contextlib
import re
import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from tally.errors import log
from tally.settings import BadSetting, Settings

# RFC 7468: the first certificate of a file is the server's own, the others are its chain.
_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----")
_KEY = re.compile(rb"-----BEGIN (?:[A-Z]+ )?PRIVATE KEY-----")
_FIXES = {
    "certificate has expired": "renew it",
    "certificate is not yet valid": "correct the clock of this machine, or name another certificate",
}


class Certificate(NamedTuple):
    """A certificate in use: the context of new connections, its host names, and the seconds of its first and last."""

    context: ssl.SSLContext
    names: list[str]
    begins_s: int
    ends_s: int


class Tls:
    """The certificate of a server: None until there is one, which only --acme allows (`is_awaited`).

    `failed` counts failed renewals since the start.
    """

    def __init__(self, cert: Path, key: Path, *, is_awaited: bool = False) -> None:
        """Read both files. Raises BadSetting, unless the certificate is awaited."""
        self._cert, self._key = cert, key
        self.certificate: Certificate | None = None
        self.failed = 0
        if not is_awaited:
            self.certificate = _read(cert, key)
        elif cert.exists():
            self.renew()

    def renew(self) -> bool:
        """Read both files again; keep the certificate and log an error where they cannot be used. Return whether."""
        try:
            self.certificate = certificate = _read(self._cert, self._key)
        except BadSetting as bad:
            self.failed += 1
            kept = "the certificate was not renewed, the one of before stays in use"
            log.error("%s: %s", kept if self.certificate else "the certificate cannot be used", bad)
            return False
        log.info("the certificate was read: valid until %s", datetime.fromtimestamp(certificate.ends_s, UTC))
        return True


def tls_of(settings: Settings) -> Tls | None:
    """Return the certificate of the settings, None without one. Raises BadSetting."""
    cert, key = settings.tls_cert, settings.tls_key
    if cert is not None and key is not None:
        return Tls(cert, key)
    if cert is not None or key is not None:
        named, missing = ("--tls-cert", "--tls-key") if key is None else ("--tls-key", "--tls-cert")
        raise BadSetting(f"{named} needs {missing}: set both for HTTPS, or none")
    return None


def _read(cert: Path, key: Path) -> Certificate:
    """Return the certificate. Raises BadSetting."""
    pem = _CERTIFICATE.search(_bytes("--tls-cert", cert))
    if pem is None:
        raise BadSetting(
            f"--tls-cert: {cert} has no certificate in PEM format: name the file with the certificate and its chain,"
            " such as fullchain.pem"
        )
    if not _KEY.search(_bytes("--tls-key", key)):
        raise BadSetting(f"--tls-key: {key} has no private key in PEM format: name the file with the certificate's key")

    def refuse() -> str:
        raise BadSetting(f"--tls-key: {key} is encrypted: remove its passphrase (openssl pkey -in OLD -out NEW)")

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # RFC 5746: a client that renegotiates again and again costs the server a key exchange each time.
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(cert, key, refuse)
        details = _peer_certificate(context, pem[0].decode())
    except ssl.SSLCertVerificationError as failure:
        reason = failure.verify_message
        fix = _FIXES.get(reason, "name another certificate")
        raise BadSetting(f"--tls-cert: {cert} would be refused by clients ({reason}): {fix}") from None
    except ssl.SSLError as failure:
        if failure.reason == "KEY_VALUES_MISMATCH":
            raise BadSetting(
                f"--tls-key: {key} is not the key of the certificate in {cert}: name the key that belongs to it"
            ) from None
        reason = failure.reason or str(failure)
        raise BadSetting(f"--tls-cert: {cert} with {key} cannot be used ({reason}): name other files") from None
    alternatives: list[tuple[str, str]] = details.get("subjectAltName", [])
    begins_s, ends_s = (ssl.cert_time_to_seconds(str(details[name])) for name in ("notBefore", "notAfter"))
    return Certificate(context, [name for kind, name in alternatives if kind == "DNS"], begins_s, ends_s)


def _bytes(option: str, path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as failure:
        raise BadSetting(
            f"{option}: {path} cannot be read ({failure.strerror}): name another file, or give this user read"
            " permission"
        ) from None


def _peer_certificate(context: ssl.SSLContext, trusted: str) -> dict[str, Any]:
    """Return what a client learns of the certificate in a handshake. Raises ssl.SSLError."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    client.load_verify_locations(cadata=trusted)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = context.wrap_bio(to_server, to_client, server_side=True)
    asking = client.wrap_bio(to_client, to_server)
    for side in (asking, server, asking):
        with contextlib.suppress(ssl.SSLWantReadError):
            side.do_handshake()
    return asking.getpeercert() or {}
