"""Channels: where an account's notices are sent, or the feed that shows them.

A channel has a secret of its own: the signing key of a webhook, the token of a feed's URL, the access token of an ntfy
server. Secrets, and URLs, which often contain one, are stored as they are, because requests are made with them; no
answer of the API has them later. A function that writes leaves the transaction to the caller.

A replaced signing key stays valid for ROTATION_MS beside the new one. A channel whose notices fail is paused
(tally/notices/outbox.py).
"""

import hmac
import json
import re
import secrets
import sqlite3
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple
from urllib.parse import SplitResult, urlsplit
from zoneinfo import ZoneInfo

from tally.accounts.accounts import AccountError, AccountFull, check_name
from tally.events.client import Network
from tally.notices import addresses
from tally.notices.addresses import AddressRefused
from tally.notices.texts import Language
from tally.timeranges import zone
from tally.timestamps import DAY_MS, BadTime

Kind = Literal["webhook", "ntfy", "slack", "discord", "apprise", "feed", "email"]
# The fields of each kind, besides its name and quiet hours; the first are required.
FIELDS: dict[Kind, tuple[str, ...]] = {
    "webhook": ("url",),
    "ntfy": ("url", "topic", "token"),
    "slack": ("url",),
    "discord": ("url",),
    "apprise": ("url",),
    "feed": (),
    "email": ("address",),
}
OPTIONAL = frozenset(("token",))
# Kinds whose secret the server makes.
WITH_SECRET: frozenset[Kind] = frozenset(("webhook", "feed"))
MAX_CHANNELS = 50
ROTATION_MS = DAY_MS
_MAX_URL = 1_000
_MAX_TEXT = 200


class BadChannel(AccountError):
    """A field of a channel is invalid."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class ChannelRefused(AccountError):
    """The server does not connect to the host of a channel; the message says why."""


class Quiet(NamedTuple):
    """Quiet hours: minutes of the day from and to, in a time zone."""

    begin: int
    end: int
    time_zone: str

    @property
    def zone(self) -> ZoneInfo:
        """Return the time zone."""
        return zone(self.time_zone)


class Channel(NamedTuple):
    """A channel. `failures`: notices that failed in a row; `failing_since_ms`: since the first failed attempt.

    `person`: the one person whose address it is, for summaries of that person alone; None for those of the account.
    """

    id: str
    account: int
    kind: Kind
    name: str
    config: Mapping[str, str]
    quiet: Quiet | None
    secret: str | None
    old_secret: str | None
    old_secret_until_ms: int | None
    created_ms: int
    failing_since_ms: int | None
    failures: int
    last_error: str | None
    paused_ms: int | None
    language: Language
    confirmed_ms: int | None
    person: int | None

    @property
    def host(self) -> str | None:
        """Return the host of the channel's URL."""
        return urlsplit(self.config["url"]).hostname if "url" in self.config else None

    def secrets(self, now_ms: int) -> list[str]:
        """Return the secrets that are valid, the new one first."""
        is_old_valid = self.old_secret_until_ms is not None and now_ms < self.old_secret_until_ms
        return [one for one in (self.secret, self.old_secret if is_old_valid else None) if one is not None]


def check_config(kind: Kind, config: Mapping[str, str], networks: Sequence[Network]) -> dict[str, str]:
    """Return the checked fields of a channel. Raises BadChannel, ChannelRefused."""
    checked = {}
    for name in FIELDS[kind]:
        value = config.get(name, "").strip()
        if not value and name in OPTIONAL:
            continue
        most = _MAX_URL if name == "url" else _MAX_TEXT
        if not 1 <= len(value) <= most or not value.isprintable() or not value.isascii():
            raise BadChannel(name, f"{name} must have 1 to {most} printable ASCII characters.")
        if name == "address":
            _check_address(value)
        elif name != "url" and not all(one.isalnum() or one in "_-." for one in value):
            raise BadChannel(name, f"{name} may have letters, digits and _ - . alone.")
        checked[name] = value
    if "url" in checked:
        _check_url(checked["url"], networks)
    return checked


def _check_address(text: str) -> None:
    """Check an email address: one that needs no quoting anywhere. Raises BadChannel."""
    if not re.fullmatch(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+", text):
        raise BadChannel("address", "address must be an email address such as you@example.com.")


def _check_url(text: str, networks: Sequence[Network]) -> None:
    """Check the URL of a channel, without a look-up. Raises BadChannel, ChannelRefused."""
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError:
        raise BadChannel("url", "url must be a URL such as https://hooks.example.com/path.") from None
    if url.scheme not in ("https", "http") or not url.hostname or " " in text:
        raise BadChannel("url", "url must be a URL that begins with https:// or http://.")
    if url.username is not None or url.password is not None:
        raise BadChannel("url", "url must have no user name and no password.")
    if url.fragment:
        raise BadChannel("url", "url must have no fragment (#).")
    if port == 0 or port in addresses.REFUSED_PORTS:
        raise BadChannel("url", f"url must not have the port {port}.")
    _check_host(url, networks)


def _check_host(url: SplitResult, networks: Sequence[Network]) -> None:
    address, is_https = addresses.literal(url.hostname or ""), url.scheme == "https"
    try:
        if address is not None:
            addresses.check(address, networks, is_public_allowed=is_https)
        elif not is_https and not networks:
            raise AddressRefused(f"http is allowed for networks of {addresses.SETTING} alone: use https.")
    except AddressRefused as refused:
        raise ChannelRefused(str(refused)) from None


def check_quiet(value: Any) -> Quiet | None:
    """Return quiet hours as the API has them: `from` and `to` (HH:MM) and `time_zone`. Raises BadChannel."""
    if value is None:
        return None
    if not isinstance(value, dict) or value.keys() != {"from", "to", "time_zone"}:
        raise BadChannel("quiet", "quiet must be null, or an object with from, to and time_zone.")
    begin, end = _minutes(value["from"]), _minutes(value["to"])
    if begin == end:
        raise BadChannel("quiet", "quiet: from and to must differ.")
    name = value["time_zone"]
    try:
        zone(name if isinstance(name, str) else "")
    except BadTime:
        raise BadChannel("quiet", "quiet: time_zone must be the exact name of an IANA time zone.") from None
    return Quiet(begin, end, name)


def _minutes(text: Any) -> int:
    parts = text.split(":") if isinstance(text, str) else []
    if len(parts) == 2 and all(len(one) == 2 and one.isascii() and one.isdecimal() for one in parts):
        hours, minutes = map(int, parts)
        if hours < 24 and minutes < 60:
            return hours * 60 + minutes
    raise BadChannel("quiet", "quiet: from and to must be times such as 22:00.")


def shown_quiet(quiet: Quiet | None) -> dict[str, str] | None:
    """Return quiet hours as the API has them."""
    if quiet is None:
        return None
    times = [f"{minutes // 60:02}:{minutes % 60:02}" for minutes in (quiet.begin, quiet.end)]
    return {"from": times[0], "to": times[1], "time_zone": quiet.time_zone}


def new_id() -> str:
    """Return the id of a new channel, report or alert."""
    return secrets.token_hex(8)


def new_channel(
    account: int,
    kind: Kind,
    name: str,
    config: Mapping[str, str],
    now_ms: int,
    *,
    language: Language,
    confirmed_ms: int | None,
    quiet: Quiet | None = None,
    secret: str | None = None,
    person: int | None = None,
) -> Channel:
    """Return a new channel, to which nothing was sent."""
    before = (new_id(), account, kind, name, config, quiet, secret, None, None, now_ms)
    return Channel._make((*before, None, 0, None, None, language, confirmed_ms, person))


def new_secret(kind: Kind) -> str | None:
    """Return a new secret of a channel: a signing key (Standard Webhooks), or the token of a feed; None for others."""
    if kind not in WITH_SECRET:
        return None
    # 24 characters, as the tokens of share links.
    return "whsec_" + b64encode(secrets.token_bytes(32)).decode() if kind == "webhook" else secrets.token_urlsafe(18)


_COLUMNS = (
    "id, account, kind, name, config, quiet, secret, old_secret, old_secret_until_ms, created_ms, failing_since_ms,"
    " failures, last_error, paused_ms, language, confirmed_ms, person"
)


def _channel(row: Sequence[Any]) -> Channel:
    quiet = None if row[5] is None else Quiet(*json.loads(row[5]))
    return Channel._make((*row[:4], json.loads(row[4]), quiet, *row[6:]))


def all_channels(connection: sqlite3.Connection) -> dict[str, Channel]:
    """Return every channel by its id, oldest first."""
    rows = connection.execute(f"/* channels.all */ select {_COLUMNS} from channel order by created_ms, id")
    return {row[0]: _channel(row) for row in rows}


def find_channel(connection: sqlite3.Connection, id: str) -> Channel | None:
    """Return the channel with that id; None where there is none."""
    row = connection.execute(f"/* channels.find */ select {_COLUMNS} from channel where id = ?", (id,)).fetchone()
    return None if row is None else _channel(row)


def add_channel(connection: sqlite3.Connection, new: Channel) -> None:
    """Store a new channel. Raises AccountFull where the account has MAX_CHANNELS, without those of a person alone."""
    count = "/* channels.count */ select count(*) from channel where account = ? and person is null"
    if new.person is None and connection.execute(count, (new.account,)).fetchone()[0] >= MAX_CHANNELS:
        raise AccountFull(f"The account has {MAX_CHANNELS} channels, the most that it may have: delete one first.")
    quiet = None if new.quiet is None else json.dumps(new.quiet)
    connection.execute(
        "/* channels.add */ insert into channel (id, account, kind, name, config, quiet, secret, created_ms, language,"
        " confirmed_ms, person) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *new[:4],
            json.dumps(new.config),
            quiet,
            new.secret,
            new.created_ms,
            new.language,
            new.confirmed_ms,
            new.person,
        ),
    )


def change_channel(
    connection: sqlite3.Connection,
    id: str,
    name: str,
    config: Mapping[str, str],
    quiet: Quiet | None,
    paused_ms: int | None,
    language: Language,
) -> bool:
    """Set what an account may change of a channel; return whether there is one.

    One that is not paused any more has no failures.
    """
    row = (name, json.dumps(config), None if quiet is None else json.dumps(quiet), paused_ms, id, language)
    done = connection.execute(
        "/* channels.change */ update channel set name = ?1, config = ?2, quiet = ?3, paused_ms = ?4,"
        " failures = iif(?4 is null and paused_ms is not null, 0, failures), language = ?6 where id = ?5",
        row,
    )
    return done.rowcount == 1


def replace_secret(connection: sqlite3.Connection, id: str, secret: str, now_ms: int) -> bool:
    """Replace a channel's secret; that of a webhook stays valid for ROTATION_MS. Return whether there is the channel.

    The token of a feed is replaced at once.
    """
    done = connection.execute(
        "/* channels.replace_secret */ update channel set secret = ?, old_secret = iif(kind = 'webhook', secret, null),"
        " old_secret_until_ms = iif(kind = 'webhook', ?, null) where id = ?",
        (secret, now_ms + ROTATION_MS, id),
    )
    return done.rowcount == 1


def link_token(channel: Channel, purpose: Literal["confirm", "unsubscribe"], salt: bytes) -> str:
    """Return the token of a link in a mail: the id of a channel, and a MAC of its address and the purpose."""
    signed = f"{purpose} {channel.id} {channel.config['address']}".encode()
    return channel.id + hmac.digest(salt, signed, "sha256")[:16].hex()


def confirm(connection: sqlite3.Connection, id: str, now_ms: int) -> bool:
    """Record that the owner of a channel's address agrees to notices; return whether that was not recorded yet."""
    done = connection.execute(
        "/* channels.confirm */ update channel set confirmed_ms = ?, failures = 0, paused_ms = null, last_error = null"
        " where id = ? and confirmed_ms is null",
        (now_ms, id),
    )
    return done.rowcount == 1


def unsubscribe(connection: sqlite3.Connection, id: str) -> bool:
    """Send an address nothing any more, also nothing that waits; return whether it was sent notices before."""
    connection.execute(
        "/* channels.expire_waiting */ update notice set state = 'expired' where channel = ? and state = 'waiting'",
        (id,),
    )
    done = connection.execute(
        "/* channels.unsubscribe */ update channel set confirmed_ms = null where id = ? and confirmed_ms is not null",
        (id,),
    )
    return done.rowcount == 1


def delete_channel(connection: sqlite3.Connection, id: str) -> bool:
    """Delete a channel and its notices; return whether there was one."""
    return connection.execute("/* channels.delete */ delete from channel where id = ?", (id,)).rowcount == 1


def check_channel_name(text: str) -> str:
    """Return the name of a channel. Raises BadChannel."""
    try:
        if not text.strip():
            raise AccountError("name must not be empty.")
        return check_name(text.strip())
    except AccountError as bad:
        raise BadChannel("name", str(bad)) from None
