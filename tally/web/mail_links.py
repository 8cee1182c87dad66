"""The pages behind the links of mails: agreeing to notices, and unsubscribing.

GET changes nothing, since programs that check mail follow links: it shows a button. POST needs no cookie and no page of
this server, as one-click unsubscribing requires (RFC 8058).
"""

from functools import partial
from html import escape
from typing import Literal

from aiohttp import web

from tally import errors
from tally.accounts.audit import Entry, audited, by_server, if_done
from tally.api.auth import AUTH
from tally.api.channels import NOTICES
from tally.errors import ApiError
from tally.http.request_paths import public_prefix
from tally.http.responses import RESPONSE_HEADERS
from tally.notices import channels
from tally.notices.channels import Channel
from tally.notices.texts import text
from tally.web.pages import PAGE_HEADERS

Purpose = Literal["confirm", "unsubscribe"]
_POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


async def confirm_page(request: web.Request) -> web.Response:
    """GET /confirm/{token}: a button that agrees to the notices of a channel."""
    channel = await _channel(request, "confirm")
    title, words = text(channel.language, "mail.confirm_title"), text(channel.language, "mail.confirm_page")
    return _page(request, channel, title, words, text(channel.language, "mail.confirm"))


async def confirm(request: web.Request) -> web.Response:
    """POST /confirm/{token}: the owner of an address agrees to the notices of a channel."""
    channel = await _channel(request, "confirm")
    step = partial(channels.confirm, id=channel.id, now_ms=request.app[AUTH].clock.wall_ms())
    await _change(request, channel, Entry("channel_confirmed", target=channel.name), step)
    title, words = text(channel.language, "mail.confirmed"), text(channel.language, "mail.confirmed_page")
    return _page(request, channel, title, words)


async def unsubscribe_page(request: web.Request) -> web.Response:
    """GET /unsubscribe/{token}: a button that ends the notices of a channel."""
    channel = await _channel(request, "unsubscribe")
    title, words = text(channel.language, "mail.unsubscribe"), text(channel.language, "mail.unsubscribe_page")
    return _page(request, channel, title, words, text(channel.language, "mail.unsubscribe"))


async def unsubscribe(request: web.Request) -> web.Response:
    """POST /unsubscribe/{token}: end the notices of a channel at once."""
    channel = await _channel(request, "unsubscribe")
    step = partial(channels.unsubscribe, id=channel.id)
    await _change(request, channel, Entry("channel_unsubscribed", target=channel.name), step)
    title, words = text(channel.language, "mail.unsubscribed"), text(channel.language, "mail.unsubscribed_page")
    return _page(request, channel, title, words)


async def _channel(request: web.Request, purpose: Purpose) -> Channel:
    """Return the channel of the token in the path. Raises ApiError 404, 429."""
    auth, sender = request.app[AUTH], request.app[NOTICES]
    # Tokens are too long to be guessed; this bounds the work.
    auth.count(auth.viewers, auth.client(request))
    await sender.ready()
    channel = sender.by_token(purpose, request.match_info["token"])
    if channel is None:
        raise ApiError(errors.NOT_FOUND)
    return channel


async def _change(request: web.Request, channel: Channel, entry: Entry, step: "partial[bool]") -> None:
    auth = request.app[AUTH]
    await auth.registry.change(audited(step, by_server(channel.account), if_done(entry), auth.clock.wall_ms()))
    await request.app[NOTICES].refresh()


def _page(request: web.Request, channel: Channel, title: str, words: str, button: str = "") -> web.Response:
    """Return a page without a script; its form sends to its own address."""
    request[RESPONSE_HEADERS] = {**PAGE_HEADERS, "Content-Security-Policy": _POLICY}
    root = escape(public_prefix(request))
    form = f'<form method="post"><button class="button primary">{escape(button)}</button></form>' if button else ""
    html = (
        f'<!doctype html><html lang="{channel.language}"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="robots" content="noindex, nofollow"><meta name="color-scheme" content="light dark">'
        f'<title>{escape(title)} · Tally</title><link rel="icon" href="{root}/assets/icon.svg" type="image/svg+xml">'
        f'<link rel="stylesheet" href="{root}/assets/app.css"></head><body><main class="outside"><div class="page">'
        f'<div class="empty"><h1>{escape(title)}</h1><p>{escape(words)}</p>'
        f"<p>{escape(channel.config['address'])}</p>{form}</div></div></main></body></html>"
    )
    headers = {"Cache-Control": "no-store", "X-Robots-Tag": "noindex"}
    return web.Response(text=html, content_type="text/html", charset="utf-8", headers=headers)
