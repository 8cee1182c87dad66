"""/api/account/channels and /notices: where an account's notices go, and what became of each.

Admins make and change channels; editors list them, to choose among them. The host of a channel is shown to owners
alone, and its URL to nobody: it often contains a secret. A secret is in the answer that creates it, and in no other.
Programs use the same handlers with an API key (tally/api/keys.py).
"""

import secrets
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any
from urllib.parse import urlsplit

from aiohttp import web

from tally import errors
from tally.accounts.accounts import AccountFull
from tally.accounts.audit import Entry, if_done
from tally.accounts.roles import may
from tally.api import params
from tally.api.auth import AUTH, Auth, Session, flag, invalid, text
from tally.api.context import has_tag
from tally.base_path import public_url
from tally.errors import ApiError
from tally.http.request_paths import public_prefix
from tally.http.responses import json_response
from tally.notices import channels, outbox
from tally.notices.channels import FIELDS, BadChannel, Channel, ChannelRefused, Kind, Quiet
from tally.notices.outbox import STATES, Notice, State
from tally.notices.reasons import code_of
from tally.notices.sender import MAX_CONFIRMATIONS, Sender
from tally.notices.texts import Language, check_language
from tally.rate_limit import Buckets
from tally.timestamps import DAY_MS, SECOND_MS, iso

NOTICES = web.AppKey("notices", Sender)
TESTS = web.AppKey("channel_tests", Buckets)
"""Tests of channels by account."""
TESTS_PER_MINUTE = 10
_OPTIONS = ("name", "url", "topic", "token", "quiet", "language")
_MAX_NOTICES, _MAX_DIGITS = 100, 15


# --- channels


async def listed(request: web.Request) -> web.Response:
    """GET /api/account/channels, oldest first; of whom may not change them, name and kind alone."""
    auth = request.app[AUTH]
    session = await auth.session(request)
    number = auth.account(request, session, "define").number
    await request.app[NOTICES].ready()
    rows = [_shown(auth, session, one) for one in request.app[NOTICES].channels_of(number)]
    return json_response({"meta": {"mail": request.app[NOTICES].mail is not None}, "data": rows})


def _shown(auth: Auth, session: Session, channel: Channel) -> dict[str, Any]:
    member = auth.membership(session, channel.account)
    shown: dict[str, Any] = {
        "id": channel.id,
        "kind": channel.kind,
        "name": channel.name,
        "paused_at": None if channel.paused_ms is None else iso(channel.paused_ms),
    }
    if may(member, "configure"):
        shown |= {
            "quiet": channels.shown_quiet(channel.quiet),
            "created_at": iso(channel.created_ms),
            "failing_since": None if channel.failing_since_ms is None else iso(channel.failing_since_ms),
            "last_error": channel.last_error,
            "last_error_code": code_of(channel.last_error),
            "language": channel.language,
            "confirmed_at": None if channel.confirmed_ms is None else iso(channel.confirmed_ms),
            # A key may do what an admin may.
            "host": channel.host if may(member, "own") else None,
        }
    return shown


async def add(request: web.Request) -> web.Response:
    """POST /api/account/channels: add a channel; its secret is in this answer alone."""
    auth, sender = request.app[AUTH], request.app[NOTICES]
    session, sent = await auth.session_and_body(request, ("kind", "address", *_OPTIONS))
    owner = auth.account(request, session, "configure")
    kind = _kind(sent)
    name, config, quiet = _fields(sender, kind, sent, None)
    secret = channels.new_secret(kind)
    now_ms = auth.clock.wall_ms()
    confirmed_ms = now_ms if kind != "email" or _is_member(auth, owner.number, config["address"]) else None
    if confirmed_ms is None:
        auth.count(request.app[TESTS], owner.number)
    if kind == "email":
        _check_mail(sender, config["address"], is_confirmed=confirmed_ms is not None)
    new = channels.new_channel(
        owner.number,
        kind,
        name,
        config,
        now_ms,
        language=language_of(sent, "en"),
        confirmed_ms=confirmed_ms,
        quiet=quiet,
        secret=secret,
    )
    entry = Entry("channel_added", target=name, detail={"kind": kind})
    try:
        await auth.change(session, owner.number, entry, channels.add_channel, new)
    except AccountFull as full:
        if confirmed_ms is None:
            sender.has_not_asked(config["address"].lower())
        raise ApiError(errors.TOO_MANY_CHANNELS, str(full)) from None
    await sender.refresh()
    if confirmed_ms is None:
        await sender.ask_to_confirm(new)
    return json_response({"data": _shown(auth, session, new) | _secret(new)}, 201)


def _is_member(auth: Auth, account: int, address: str) -> bool:
    """Return whether an address is that of a person of the account, who needs not agree to its notices."""
    people = [
        auth.registry.cache.people[one.person] for one in auth.registry.cache.members.values() if one.account == account
    ]
    return address.lower() in (person.email.lower() for person in people)


def _check_mail(sender: Sender, address: str, *, is_confirmed: bool) -> None:
    """Raise ApiError 422 where the server cannot send mail to an address, 429 after too many questions to it."""
    if sender.mail is None:
        raise ApiError(
            errors.CHANNEL_REFUSED, "The server sends no mail: set --smtp-url and --mail-from.", field="kind"
        )
    if is_confirmed:
        return
    if not sender.base_url:
        message = "Only people of the account get mail unless --base-url is set: others have to confirm by a link."
        raise ApiError(errors.CHANNEL_REFUSED, message, field="address")
    if sender.has_asked_enough(address.lower()):
        message = f"This address was asked {MAX_CONFIRMATIONS} times today: try again tomorrow."
        raise ApiError(errors.RATE_LIMITED, message, field="address", retry_after_s=DAY_MS // SECOND_MS)


def _kind(sent: dict[str, Any]) -> Kind:
    for kind in FIELDS:
        if sent.get("kind") == kind:
            return kind
    raise invalid("kind", f"kind must be one of {', '.join(FIELDS)}.")


def chosen_channels(
    request: web.Request, account: int, value: Any, most: int, alternative: str = ""
) -> tuple[str, ...]:
    """Return ids of channels of an account, each once. `alternative`: what else is valid. Raises ApiError 400."""
    known = [one.id for one in request.app[NOTICES].channels_of(account)]
    if not isinstance(value, list) or not value or not all(one in known for one in value):
        raise invalid("channels", f"channels must be a list of ids of channels of the account{alternative}.")
    if len(value) > most:
        raise invalid("channels", f"channels must be at most {most}.")
    return tuple(dict.fromkeys(value))


def language_of(sent: dict[str, Any], before: Language) -> Language:
    """Return the language of a channel; that of before where none is sent. Raises ApiError 400."""
    try:
        return check_language(sent["language"]) if "language" in sent else before
    except ValueError as bad:
        raise invalid("language", str(bad)) from None


def _fields(
    sender: Sender, kind: Kind, sent: dict[str, Any], before: Channel | None
) -> tuple[str, dict[str, str], Quiet | None]:
    """Return the name, the fields of the kind and the quiet hours; those of before where none are sent.

    A token that is null is removed. One that is stored is not sent to another host than the one it was given for.
    Raises ApiError 400, 422.
    """
    config = {} if before is None else dict(before.config)
    if "token" in sent:
        config.pop("token", None)
    for field in ("url", "topic", "token", "address"):
        if sent.get(field) is None:
            continue
        if field not in FIELDS[kind]:
            raise invalid(field, f"{field} is no field of {kind}.")
        config[field] = text(sent, field)
    quiet = None if before is None else before.quiet
    try:
        name = channels.check_channel_name(text(sent, "name")) if before is None or "name" in sent else before.name
        quiet = channels.check_quiet(sent["quiet"]) if "quiet" in sent else quiet
        config = channels.check_config(kind, config, sender.networks)
    except BadChannel as bad:
        raise invalid(bad.field, str(bad)) from None
    except ChannelRefused as refused:
        raise ApiError(errors.CHANNEL_REFUSED, str(refused), field="url") from None
    if before is not None and config.get("token") and "token" not in sent and _server(config) != _server(before.config):
        raise invalid("token", "token must be sent again where the url has another host, or be null.")
    return name, config, quiet


def _server(config: Mapping[str, str]) -> tuple[str, str]:
    """Return scheme, host and port of a channel's URL."""
    url = urlsplit(config["url"].lower())
    return url.scheme, url.netloc


def _secret(channel: Channel) -> dict[str, str]:
    """Return a new secret as it is shown once: the key of a webhook, or the path of a feed."""
    if channel.secret is None:
        return {}
    if channel.kind == "feed":
        return {"path": f"/feeds/{channel.secret}.xml"}
    return {"secret": channel.secret}


async def _in_path(request: web.Request, session: Session) -> Channel:
    """Return the channel in the path, if the session may change it. Raises ApiError 403, 404."""
    number = request.app[AUTH].account(request, session, "configure").number
    await request.app[NOTICES].ready()
    channel = request.app[NOTICES].channels.get(request.match_info["channel"].lower())
    if channel is None or channel.account != number or channel.person is not None:
        raise ApiError(errors.UNKNOWN_CHANNEL)
    return channel


async def change(request: web.Request) -> web.Response:
    """PATCH /api/account/channels/{channel}: set name, fields, language or quiet hours; `paused` pauses and resumes."""
    auth, sender = request.app[AUTH], request.app[NOTICES]
    session, sent = await auth.session_and_body(request, (*_OPTIONS, "paused"))
    channel = await _in_path(request, session)
    name, config, quiet = _fields(sender, channel.kind, sent, channel)
    language = language_of(sent, channel.language)
    now_ms = auth.clock.monotonic_wall_ms()
    paused_ms = channel.paused_ms
    if "paused" in sent:
        paused_ms = (paused_ms or now_ms) if flag(sent, "paused") else None
    changed = [field for field in (*_OPTIONS, "paused") if field in sent]
    entry = Entry("channel_changed", target=name, detail={"kind": channel.kind, "changed": changed})
    step = channels.change_channel
    if not await auth.change(
        session, channel.account, if_done(entry), step, channel.id, name, config, quiet, paused_ms, language
    ):
        raise ApiError(errors.UNKNOWN_CHANNEL)
    await sender.refresh()
    return json_response({"data": _shown(auth, session, await _in_path(request, session))})


async def delete(request: web.Request) -> web.Response:
    """DELETE /api/account/channels/{channel}: delete a channel and its notices."""
    auth = request.app[AUTH]
    session = await auth.session(request)
    channel = await _in_path(request, session)
    entry = if_done(Entry("channel_deleted", target=channel.name, detail={"kind": channel.kind}))
    if not await auth.change(session, channel.account, entry, channels.delete_channel, channel.id):
        raise ApiError(errors.UNKNOWN_CHANNEL)
    await request.app[NOTICES].refresh()
    return web.Response(status=204)


async def test(request: web.Request) -> web.Response:
    """POST /api/account/channels/{channel}/test: send a test now and answer how that ended, within 15 seconds.

    An address that is not confirmed is asked again instead.
    """
    auth, sender = request.app[AUTH], request.app[NOTICES]
    session = await auth.session(request)
    channel = await _in_path(request, session)
    auth.count(request.app[TESTS], channel.account)
    if channel.confirmed_ms is None:
        _check_mail(sender, channel.config["address"], is_confirmed=False)
        await sender.ask_to_confirm(channel)
        return json_response({"data": {"ok": True, "status": None, "error": None, "error_code": None}})
    outcome = await sender.test(channel)
    shown = {"ok": outcome.is_sent, "status": outcome.status, "error": outcome.error or None}
    shown["error_code"] = code_of(outcome.error)
    return json_response({"data": shown})


async def replace_secret(request: web.Request) -> web.Response:
    """POST /api/account/channels/{channel}/secret: replace the secret; the new one is in this answer alone.

    A webhook is signed by both for 24 hours; the path of a feed is replaced at once.
    """
    auth = request.app[AUTH]
    session = await auth.session(request)
    channel = await _in_path(request, session)
    secret = channels.new_secret(channel.kind)
    if secret is None:
        raise ApiError(errors.NO_SECRET)
    entry = if_done(Entry("channel_secret_replaced", target=channel.name, detail={"kind": channel.kind}))
    now_ms, step = auth.clock.wall_ms(), channels.replace_secret
    if not await auth.change(session, channel.account, entry, step, channel.id, secret, now_ms):
        raise ApiError(errors.UNKNOWN_CHANNEL)
    await request.app[NOTICES].refresh()
    return json_response({"data": _secret(channel._replace(secret=secret))})


async def feed(request: web.Request) -> web.Response:
    """GET /feeds/{token}.xml: the notices of an account, for the holder of the address."""
    from tally.notices.feed import MAX_ENTRIES, atom  # here: the XML of a feed is rarely asked for

    auth, sender, token = request.app[AUTH], request.app[NOTICES], request.match_info["token"]
    # Tokens are too long to be guessed; this bounds the work.
    auth.count(auth.viewers, auth.client(request))
    await sender.ready()
    sent = token.encode("utf-8", "surrogatepass")
    feeds = [one for one in sender.channels.values() if one.kind == "feed"]
    channel = next((one for one in feeds if secrets.compare_digest(sent, (one.secret or "").encode())), None)
    if channel is None:
        raise ApiError(errors.NOT_FOUND)
    found = await auth.registry.lookup(outbox.notices, channel.account, channel=channel.id, limit=MAX_ENTRIES)
    document = atom(channel, found, public_url(auth.base_url, public_prefix(request)))
    etag = blake2b(document, digest_size=16).hexdigest()
    headers = {"ETag": f'"{etag}"', "Cache-Control": "private", "X-Robots-Tag": "noindex"}
    if has_tag(request, etag):
        return web.Response(status=304, headers=headers)
    return web.Response(body=document, content_type="application/atom+xml", charset="utf-8", headers=headers)


# --- notices


async def notices(request: web.Request) -> web.Response:
    """GET /api/account/notices: the newest notices of the account, of one `state` or all."""
    auth = request.app[AUTH]
    owner = auth.account(request, await auth.session(request), "configure")
    params.refuse_other_than_utf8(request.raw_path)
    for name in request.query:
        if name not in ("state", "account") or len(request.query.getall(name)) > 1:
            message = f"{name[:100]}: this request takes state and account, each once."
            raise ApiError(errors.INVALID_PARAMETER, message, field=name[:100])
    found = await auth.registry.lookup(outbox.notices, owner.number, state=_state(request), limit=_MAX_NOTICES)
    return json_response({"data": [_notice(one) for one in found]})


def _state(request: web.Request) -> State | None:
    given = request.query.get("state")
    for state in STATES:
        if given == state:
            return state
    if given is None:
        return None
    message = f"state must be one of {', '.join(STATES)} (got {params.shown(given)})."
    raise ApiError(errors.INVALID_PARAMETER, message, field="state")


def _notice(notice: Notice) -> dict[str, Any]:
    return {
        "number": notice.number,
        "channel": notice.channel,
        "kind": notice.kind,
        "title": notice.content.title,
        "text": notice.content.text,
        "priority": notice.priority,
        "created_at": iso(notice.created_ms),
        "state": notice.state,
        "attempts": notice.attempts,
        "next_attempt_at": iso(notice.due_ms) if notice.state == "waiting" else None,
        "last_error": notice.last_error,
        "last_error_code": code_of(notice.last_error),
        "sent_at": None if notice.sent_ms is None else iso(notice.sent_ms),
    }


async def send_again(request: web.Request) -> web.Response:
    """POST /api/account/notices/{number}/send: send a failed or expired notice again."""
    auth, sender = request.app[AUTH], request.app[NOTICES]
    session = await auth.session(request)
    number = auth.account(request, session, "configure").number
    given, now_ms = request.match_info["number"], auth.clock.monotonic_wall_ms()
    is_number = given.isascii() and given.isdecimal() and len(given) <= _MAX_DIGITS
    entry = if_done(Entry("notice_sent_again", detail={"notice": given[:_MAX_DIGITS]}))
    if not is_number or not await auth.change(session, number, entry, outbox.send_again, number, int(given), now_ms):
        raise ApiError(errors.UNKNOWN_NOTICE)
    sender.wake()
    return web.Response(status=202)
