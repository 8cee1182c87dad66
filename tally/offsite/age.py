"""Encryption in the age format (https://age-encryption.org/v1) for X25519 recipients. Needs pyrage (the extra `age`).

Recipients are public keys, so a server can write backups that it cannot read. The file with the identity (the private
key, as `age-keygen` writes it) is needed to restore only, and is kept elsewhere. Files are streamed; each block of
64 KB is authenticated, so a file that was changed or cut is found.
"""

import importlib.util
import re
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

from tally.offsite.destination import DestinationError, missing_library

SUFFIX = ".age"
_IDENTITY = re.compile("AGE-SECRET-KEY-1[02-9AC-HJ-NP-Z]{58}")
_RECIPIENT = re.compile("age1[02-9ac-hj-np-z]{58}")


def check_recipients(recipients: Sequence[str]) -> None:
    """Raise DestinationError where pyrage is missing or a recipient has a typing error."""
    if recipients:
        _recipients(_pyrage(), recipients)


def recipients_in(file: Path) -> list[str]:
    """Return the public keys of the private keys in a file, as `age-keygen` writes it, or those in it where it has no
    private key. Raises DestinationError, also where other users can read it."""
    pyrage = _pyrage()
    words = _words(file)
    if file.stat().st_mode & 0o077:
        raise DestinationError(f"{file} can be read by other users: chmod 600 {file}")
    found = [str(pyrage.x25519.Identity.from_str(word).to_public()) for word in words if _IDENTITY.fullmatch(word)]
    found = found or [word for word in words if _RECIPIENT.fullmatch(word)]
    if not found:
        raise DestinationError(f"{file} has no key of age: name the file that age-keygen has written.")
    check_recipients(found)
    return found


def encrypt(source: BinaryIO, target: BinaryIO, recipients: Sequence[str]) -> None:
    """Write `source` to `target`, encrypted. Raises DestinationError, OSError."""
    pyrage = _pyrage()
    pyrage.encrypt_io(source, target, _recipients(pyrage, recipients))


def decrypt(source: BinaryIO, target: BinaryIO, identity_file: Path | None, name: str) -> None:
    """Write the content of an encrypted file to `target`. Raises DestinationError, OSError.

    `name` is shown in errors. What was written before an error is incomplete.
    """
    if identity_file is None:
        raise DestinationError(f"{name} is encrypted: add --identity FILE, the private key (AGE-SECRET-KEY-1...).")
    pyrage = _pyrage()
    identities = _identities(pyrage, identity_file)
    try:
        pyrage.decrypt_io(source, target, identities)
    except pyrage.DecryptError as failure:
        if "No matching keys" in str(failure):
            raise DestinationError(f"{name} is encrypted for other keys than those in {identity_file}.") from None
        raise DestinationError(f"{name} is damaged or incomplete ({failure}): choose another backup.") from None
    except OSError as failure:
        if failure.errno is not None:
            raise
        raise DestinationError(f"{name} is damaged or incomplete ({failure}): choose another backup.") from None


def _recipients(pyrage: Any, recipients: Sequence[str]) -> list[Any]:
    parsed = []
    for text in recipients:
        try:
            parsed.append(pyrage.x25519.Recipient.from_str(text))
        except pyrage.RecipientError as failure:
            raise DestinationError(f"--backup-encrypt-to: {text} is not a public key of age: {failure}.") from None
    return parsed


def _words(file: Path) -> list[str]:
    try:
        return file.read_text("utf-8").split()
    except (OSError, ValueError) as failure:
        reason = failure.strerror if isinstance(failure, OSError) else "not a text"
        raise DestinationError(f"The identity file {file} cannot be read: {reason}.") from None


def _identities(pyrage: Any, file: Path) -> list[Any]:
    identities = [pyrage.x25519.Identity.from_str(word) for word in _words(file) if _IDENTITY.fullmatch(word)]
    if not identities:
        raise DestinationError(f"{file} has no line AGE-SECRET-KEY-1...: name the file that age-keygen has written.")
    return identities


def _pyrage() -> Any:
    if importlib.util.find_spec("pyrage") is None:
        raise missing_library("Encryption", "pyrage", "age")
    return import_module("pyrage")
