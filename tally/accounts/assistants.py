"""Assistants that a person connects to /mcp by OAuth 2.1, as connectors of hosted assistants do.

A connected assistant is an API key with the scope `reports` that has a client: the stored digest is that of its refresh
token, which authorises no request. It sees what its person sees (tally/api/keys.py), and ends with the person's
membership. An access token names the key by its prefix, since numbers are used again, and is not stored: it is signed
with a secret of the process, lasts an hour, and is renewed after a restart. A refresh token is replaced each time. The
one before counts for a minute more, for an answer that was lost; after that its use means that two have it, and the
assistant is disconnected.

A client is not stored either: its id is its name and its addresses, so that registration costs nothing. The name is
what a program says of itself; the address, to which the browser takes the code, is what a person can rely on.
"""

import base64
import binascii
import json
import re
import secrets
import sqlite3
from collections import OrderedDict
from hashlib import blake2b, sha256
from typing import Any, Literal, NamedTuple, TypeVar
from urllib.parse import SplitResult, urlsplit

from tally.accounts.accounts import Account, AccountFull
from tally.accounts.api_keys import (
    KEY_START,
    PREFIX_LENGTH,
    Grant,
    create_api_key,
    delete_api_key,
    key_digest,
    key_salt,
)
from tally.accounts.audit import Actor, Entry, record
from tally.timestamps import DAY_MS

ACCESS_LASTS_MS, REFRESH_LASTS_MS, OVERLAP_MS = 3_600_000, 30 * DAY_MS, 60_000
CODE_LASTS_NS = 60_000_000_000
TOKEN_START = "tla_"
MAX_OF_PERSON = 10
MAX_CODES = 1_000
MAX_NAME, MAX_ADDRESSES, MAX_ADDRESS = 80, 5, 300
_CHALLENGE, _VERIFIER = re.compile(r"[A-Za-z0-9_-]{43}"), re.compile(r"[A-Za-z0-9._~-]{43,128}")
_LOOPBACK = frozenset(("localhost", "127.0.0.1", "::1"))
# A browser handles these itself: no program is behind them.
_OF_BROWSERS = frozenset(
    ("about", "blob", "data", "file", "filesystem", "ftp", "javascript", "mailto", "tel", "vbscript", "view-source")
)
K = TypeVar("K")
V = TypeVar("V")


class BadClient(ValueError):
    """What a program registers, or the id of a client, is malformed. `code`: that of RFC 7591."""

    def __init__(self, code: Literal["invalid_redirect_uri", "invalid_client_metadata"], message: str) -> None:
        super().__init__(message)
        self.code = code


class BadGrant(ValueError):
    """A code or a refresh token is unknown, expired, used before, or another client's."""


class Client(NamedTuple):
    """A program: the name that it gives itself, and the addresses to which a browser may take a code."""

    name: str
    addresses: tuple[str, ...]

    @property
    def id(self) -> str:
        """The id, which is all that is known of a client."""
        text = json.dumps([self.name, *self.addresses], ensure_ascii=False, separators=(",", ":"))
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    def takes(self, address: str) -> bool:
        """Return whether a code may be taken to an address; on the person's own machine the port may differ."""
        return any(_without_port(address) == _without_port(registered) for registered in self.addresses)


def new_client(name: Any, addresses: Any) -> Client:
    """Return what a program registers. Raises BadClient."""
    if not isinstance(addresses, list) or not 1 <= len(addresses) <= MAX_ADDRESSES:
        raise BadClient("invalid_redirect_uri", f"redirect_uris must be a list of 1 to {MAX_ADDRESSES} addresses.")
    for address in addresses:
        if not isinstance(address, str) or not _is_address(address):
            raise BadClient(
                "invalid_redirect_uri",
                "A redirect URI must be an https address, one of the machine's own (http://127.0.0.1), or one of a"
                f" program's own scheme, of at most {MAX_ADDRESS} characters and without a fragment.",
            )
    if not isinstance(name, str) or not 1 <= len(name.strip()) <= MAX_NAME or not name.isprintable():
        raise BadClient("invalid_client_metadata", f"client_name must be 1 to {MAX_NAME} characters.")
    return Client(name.strip(), tuple(dict.fromkeys(addresses)))


def client_of(id: str) -> Client:
    """Return the client of an id. Raises BadClient."""
    try:
        name, *addresses = json.loads(base64.b64decode(id + "=" * (-len(id) % 4), "-_", validate=True))
    except (binascii.Error, TypeError, ValueError, RecursionError):
        raise BadClient("invalid_client_metadata", "This client is unknown: the program must register again.") from None
    return new_client(name, addresses)


def place_of(address: str) -> str:
    """Return what a person is shown of an address: its host, or the scheme of a program on the machine."""
    parts = urlsplit(address)
    return parts.hostname or f"{parts.scheme}:"


def _is_address(text: str) -> bool:
    if len(text) > MAX_ADDRESS or not re.fullmatch(r"[!-\"$-~]+", text):
        return False
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return False
    if parts.scheme in ("http", "https"):
        return bool(host) and "@" not in parts.netloc and (parts.scheme == "https" or host in _LOOPBACK)
    return parts.scheme not in ("", *_OF_BROWSERS)


def _without_port(address: str) -> SplitResult | str:
    parts = urlsplit(address)
    is_local = parts.scheme == "http" and parts.hostname in _LOOPBACK
    return parts._replace(netloc=str(parts.hostname)) if is_local else address


class Consent(NamedTuple):
    """What a person has allowed: an account, its websites (None: all that the person sees), a client and its address.

    `challenge`: that of PKCE, which only the program that began can answer.
    """

    account: int
    person: int
    client: str
    address: str
    challenge: str
    websites: tuple[str, ...] | None


def is_challenge(text: str) -> bool:
    """Return whether a text is a challenge of PKCE by S256."""
    return _CHALLENGE.fullmatch(text) is not None


def _answers(verifier: str, challenge: str) -> bool:
    digest = base64.urlsafe_b64encode(sha256(verifier.encode("utf-8", "replace")).digest()).decode().rstrip("=")
    return _VERIFIER.fullmatch(verifier) is not None and secrets.compare_digest(digest, challenge)


class Codes:
    """Codes that a browser takes to a program, in memory, for a minute and one use; and signed access tokens.

    Both end with the process.
    """

    def __init__(self) -> None:
        self._open: OrderedDict[str, tuple[Consent, int]] = OrderedDict()
        # The prefix of the key that a code was used for, None until there is one.
        self._used: OrderedDict[str, str | None] = OrderedDict()
        self._secret = secrets.token_bytes(32)

    def new(self, consent: Consent, now_ns: int) -> str:
        """Return a code. A person has MAX_OF_PERSON: more displace the own oldest ones, and none of other people."""
        codes = [code for code, (other, _) in self._open.items() if other.person == consent.person]
        for code in codes[: len(codes) + 1 - MAX_OF_PERSON] if len(codes) >= MAX_OF_PERSON else ():
            del self._open[code]
        code = secrets.token_urlsafe(32)
        _keep(self._open, code, (consent, now_ns + CODE_LASTS_NS))
        return code

    def take(self, code: str, client: str, address: str, verifier: str, now_ns: int) -> Consent:
        """Return what was allowed; the code is used up, whether or not the rest is right. Raises BadGrant."""
        consent, ends_ns = self._open.pop(code, (None, 0))
        if consent is None:
            raise BadGrant("The code is unknown or was used before.")
        _keep(self._used, code, None)
        if ends_ns <= now_ns:
            raise BadGrant("The code has expired.")
        if (consent.client, consent.address) != (client, address):
            raise BadGrant("The code is another client's, or for another redirect_uri.")
        if not _answers(verifier, consent.challenge):
            raise BadGrant("code_verifier does not answer the code_challenge.")
        return consent

    def used_for(self, code: str, prefix: str) -> None:
        """Note the key that a code was used for."""
        self._used[code] = prefix

    def key_of(self, code: str) -> str | None:
        """Return the prefix of the key that a code was used for before."""
        return self._used.get(code)

    def access_token(self, prefix: str, now_ms: int) -> str:
        """Return a token that names a key for an hour."""
        signed = f"{prefix}.{now_ms + ACCESS_LASTS_MS}"
        return f"{TOKEN_START}{signed}.{self._signature(signed)}"

    def key_of_token(self, token: str, now_ms: int) -> str | None:
        """Return the prefix of the key that an access token names; None for one that is not valid now."""
        signed, _, signature = token.removeprefix(TOKEN_START).rpartition(".")
        if not secrets.compare_digest(signature.encode("utf-8", "replace"), self._signature(signed).encode()):
            return None
        prefix, _, ends_ms = signed.partition(".")
        return prefix if int(ends_ms) > now_ms else None

    def _signature(self, signed: str) -> str:
        return blake2b(signed.encode("utf-8", "replace"), digest_size=32, key=self._secret).hexdigest()


def _keep(known: OrderedDict[K, V], key: K, value: V) -> None:
    known[key] = value
    if len(known) > MAX_CODES:
        known.popitem(last=False)


class Connected(NamedTuple):
    """The prefix of the key of a connected assistant, and its refresh token."""

    prefix: str
    refresh_token: str


def connect(connection: sqlite3.Connection, owner: Account, consent: Consent, now_ms: int) -> Connected:
    """Connect an assistant, in place of the person's same one.

    Raises AccountError as create_api_key, AccountFull where the person has MAX_OF_PERSON.
    """
    of_person = (consent.account, consent.person)
    connection.execute(
        "/* assistants.replace */ delete from api_key where account = ? and created_by = ? and client = ?",
        (*of_person, consent.client),
    )
    statement = (
        "/* assistants.count */ select count(*) from api_key where account = ? and created_by = ? and client > ''"
    )
    if connection.execute(statement, of_person).fetchone()[0] >= MAX_OF_PERSON:
        raise AccountFull(f"You have {MAX_OF_PERSON} connected assistants, the most that a person may have.")
    grant = Grant(("reports",), consent.websites, now_ms + REFRESH_LASTS_MS)
    name = client_of(consent.client).name
    value = create_api_key(connection, owner, name, now_ms, grant, consent.person, consent.client)
    return Connected(value[:PREFIX_LENGTH], value)


def disconnect(connection: sqlite3.Connection, prefix: str) -> None:
    """Disconnect the assistant whose key has that prefix."""
    connection.execute("/* assistants.disconnect */ delete from api_key where prefix = ? and client > ''", (prefix,))


def renew(connection: sqlite3.Connection, value: str, client: str, now_ms: int) -> Connected | None:
    """Replace a refresh token. None: the one before was used later than it counts, and the assistant is disconnected.

    Raises BadGrant.
    """
    digest = key_digest(value, key_salt(connection))
    row = connection.execute(
        "/* assistants.by_token */ select number, prefix, account, name, digest, renewed_ms from api_key"
        " where (digest = ?1 or previous_digest = ?1) and client = ?2 and expires_ms > ?3",
        (digest, client, now_ms),
    ).fetchone()
    if row is None:
        raise BadGrant("The refresh token is unknown, expired, or another client's.")
    number, prefix, account, name, current, renewed_ms = row
    if digest != current and renewed_ms + OVERLAP_MS <= now_ms:
        delete_api_key(connection, number)
        entry = Entry("assistant_disconnected", target=name, detail={"reason": "refresh token used twice"})
        record(connection, Actor(account, name, "key"), entry, now_ms)
        return None
    new = KEY_START + secrets.token_urlsafe(32)
    connection.execute(
        "/* assistants.renew */ update api_key set digest = ?, previous_digest = ?, renewed_ms = ?, expires_ms = ?"
        " where number = ?",
        (
            *(key_digest(new, key_salt(connection)), digest),
            # Not later for a token that was replaced before.
            *(now_ms if digest == current else renewed_ms, now_ms + REFRESH_LASTS_MS, number),
        ),
    )
    return Connected(prefix, new)


def disconnect_all(connection: sqlite3.Connection, account: int, person: int) -> None:
    """Disconnect the assistants of a person whose membership ends."""
    connection.execute(
        "/* assistants.end */ delete from api_key where account = ? and created_by = ? and client > ''",
        (account, person),
    )
