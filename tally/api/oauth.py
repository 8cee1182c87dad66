"""Connecting an assistant to /mcp by OAuth 2.1: metadata, registration, a person's consent, tokens.

Programs read where to go (RFC 9728, RFC 8414), register (RFC 7591), and send the person's browser to /oauth/authorize,
whose page asks /api/account/authorization what is asked for, and tells it the person's answer. The program exchanges
the code for tokens at /oauth/token, with PKCE by S256. What is stored is in tally/accounts/assistants.py.

A browser is sent to a program's address by a person's answer alone: what is malformed is said on the page.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode

from aiohttp import web

from tally import errors
from tally.accounts import assistants
from tally.accounts.accounts import PLANS_WITH_KEYS, Account, AccountError
from tally.accounts.api_keys import ApiKey, delete_api_key
from tally.accounts.assistants import ACCESS_LASTS_MS, BadClient, BadGrant, Client, Connected, Consent
from tally.accounts.audit import Entry, if_done
from tally.api.auth import AUTH, Auth, Session, flag, invalid, json_object, media_type, website_ids
from tally.errors import ApiError
from tally.events.website import Website
from tally.http.body import read_body
from tally.http.request_paths import MCP_PATH
from tally.http.responses import json_response
from tally.timestamps import iso

SCOPE = "reports"
METADATA_PATH = "/.well-known/oauth-protected-resource"
SERVER_METADATA_PATH = "/.well-known/oauth-authorization-server"
_ASKED = (
    *("response_type", "client_id", "redirect_uri", "code_challenge", "code_challenge_method"),
    *("state", "scope", "resource"),
)
_MAX_FIELDS = 20


def with_metadata(request: web.Request, refused: ApiError) -> ApiError:
    """Return an error of authorisation that also says where a program learns how to connect (RFC 9728, 5.1)."""
    if refused.kind.status == 401:
        url = request.app[AUTH].own_url(request) + METADATA_PATH
        refused.headers["WWW-Authenticate"] += f', resource_metadata="{url}"'
    return refused


async def resource_metadata(request: web.Request) -> web.Response:
    """GET /.well-known/oauth-protected-resource: what /mcp requires."""
    url = request.app[AUTH].own_url(request)
    return json_response(
        {
            "resource": url + MCP_PATH,
            "authorization_servers": [url],
            "scopes_supported": [SCOPE],
            "bearer_methods_supported": ["header"],
            "resource_name": "Tally",
        }
    )


async def server_metadata(request: web.Request) -> web.Response:
    """GET /.well-known/oauth-authorization-server: the addresses of the other routes."""
    url = request.app[AUTH].own_url(request)
    return json_response(
        {
            "issuer": url,
            "authorization_endpoint": f"{url}/oauth/authorize",
            "token_endpoint": f"{url}/oauth/token",
            "registration_endpoint": f"{url}/oauth/register",
            "scopes_supported": [SCOPE],
            "response_types_supported": ["code"],
            "response_modes_supported": ["query"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "token_endpoint_auth_methods_supported": ["none"],
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
        }
    )


# --- what programs send


class _Refusal(Exception):
    """An error of OAuth: its code and what it says."""


async def register(request: web.Request) -> web.Response:
    """POST /oauth/register: the id of a client, which nothing is stored of."""
    sent = await json_object(request)
    try:
        client = assistants.new_client(sent.get("client_name", "A program without a name"), sent.get("redirect_uris"))
    except BadClient as bad:
        return _refused(bad.code, str(bad))
    about = {
        "client_id": client.id,
        "client_name": client.name,
        "redirect_uris": client.addresses,
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "scope": SCOPE,
    }
    return json_response(about, 201)


def _refused(code: str, message: str) -> web.Response:
    return json_response({"error": code, "error_description": message}, 400)


async def token(request: web.Request) -> web.Response:
    """POST /oauth/token: an access token and a refresh token, for a code or for the refresh token before."""
    try:
        sent = await _form(request)
        if sent.get("resource") is not None:
            _check_resource(request, sent["resource"])
        match sent.get("grant_type"):
            case "authorization_code":
                connected = await _connected(request, sent)
            case "refresh_token":
                connected = await _renewed(request, sent)
            case _:
                raise _Refusal("unsupported_grant_type", "grant_type must be authorization_code or refresh_token.")
    except BadGrant as bad:
        return _refused("invalid_grant", str(bad))
    except _Refusal as refusal:
        return _refused(*refusal.args)
    auth = request.app[AUTH]
    return json_response(
        {
            "access_token": auth.codes.access_token(connected.prefix, auth.clock.monotonic_wall_ms()),
            "token_type": "Bearer",
            "expires_in": ACCESS_LASTS_MS // 1000,
            "refresh_token": connected.refresh_token,
            "scope": SCOPE,
        }
    )


async def _form(request: web.Request) -> dict[str, str]:
    """Return the fields of a form. Raises ApiError, _Refusal."""
    if media_type(request) != "application/x-www-form-urlencoded":
        raise ApiError(errors.UNSUPPORTED_MEDIA_TYPE, "The Content-Type must be application/x-www-form-urlencoded.")
    try:
        pairs = parse_qsl((await read_body(request)).decode(), keep_blank_values=True, max_num_fields=_MAX_FIELDS)
    except ValueError:
        raise _Refusal(
            "invalid_request", f"The body must be a form in UTF-8 of at most {_MAX_FIELDS} fields."
        ) from None
    sent = dict(pairs)
    if len(sent) != len(pairs):
        raise _Refusal("invalid_request", "A field is there twice.")
    return sent


def _check_resource(request: web.Request, resource: str) -> None:
    expected = request.app[AUTH].own_url(request) + MCP_PATH
    if resource.rstrip("/") != expected:
        raise _Refusal("invalid_target", f"resource must be {expected}.")


async def _connected(request: web.Request, sent: Mapping[str, str]) -> Connected:
    """Connect an assistant for a code. Raises BadGrant."""
    auth = request.app[AUTH]
    code, client = sent.get("code", ""), sent.get("client_id", "")
    before = auth.codes.key_of(code)
    if before is not None:
        # Two have the code: neither keeps what it was exchanged for.
        await auth.registry.change(assistants.disconnect, before)
    consent = auth.codes.take(
        code, client, sent.get("redirect_uri", ""), sent.get("code_verifier", ""), auth.clock.monotonic_ns()
    )
    owner, person = auth.registry.cache.accounts.get(consent.account), auth.registry.cache.people.get(consent.person)
    if owner is None or person is None:
        raise BadGrant("The person has left the account.")
    detail = {"websites": consent.websites, "place": assistants.place_of(consent.address)}
    entry = Entry("assistant_connected", target=assistants.client_of(client).name, detail=detail)
    try:
        connected = await auth.change(
            person, owner.number, entry, assistants.connect, owner, consent, auth.clock.monotonic_wall_ms()
        )
    except AccountError as failure:
        raise BadGrant(str(failure)) from None
    except ApiError as refused:
        if refused.kind is errors.NOT_ALLOWED:
            raise BadGrant("The person has left the account.") from None
        raise
    auth.codes.used_for(code, connected.prefix)
    return connected


async def _renewed(request: web.Request, sent: Mapping[str, str]) -> Connected:
    auth, value, client = request.app[AUTH], sent.get("refresh_token", ""), sent.get("client_id", "")
    renewed = await auth.registry.change(assistants.renew, value, client, auth.clock.monotonic_wall_ms())
    if renewed is None:
        raise BadGrant("The refresh token was used before: connect the assistant again.")
    return renewed


# --- what a person is asked


class _Asked(NamedTuple):
    """What a program asks a person for."""

    client: Client
    address: str
    challenge: str
    state: str | None


def _asked(request: web.Request, sent: Mapping[str, Any]) -> _Asked:
    """Return what a program asks for. Raises ApiError 400."""
    for name in _ASKED:
        if sent.get(name) is not None and not isinstance(sent[name], str):
            raise invalid(name, f"{name} must be a string.")
    address, challenge = sent.get("redirect_uri") or "", sent.get("code_challenge") or ""
    try:
        client = assistants.client_of(sent.get("client_id") or "")
        if sent.get("resource"):
            _check_resource(request, sent["resource"])
    except BadClient as bad:
        raise ApiError(errors.BAD_AUTHORIZATION, str(bad)) from None
    except _Refusal as refusal:
        raise ApiError(errors.BAD_AUTHORIZATION, refusal.args[1]) from None
    if not client.takes(address):
        raise ApiError(errors.BAD_AUTHORIZATION, "redirect_uri is none that the program has registered.")
    if sent.get("response_type") != "code":
        raise ApiError(errors.BAD_AUTHORIZATION, "response_type must be code.")
    if sent.get("code_challenge_method") != "S256" or not assistants.is_challenge(challenge):
        raise ApiError(errors.BAD_AUTHORIZATION, "The program must send a code_challenge of PKCE by S256.")
    if SCOPE not in (sent.get("scope") or SCOPE).split():
        raise ApiError(errors.BAD_AUTHORIZATION, f"scope must be {SCOPE}.")
    return _Asked(client, address, challenge, sent.get("state"))


def _back(request: web.Request, address: str, answer: Mapping[str, str | None]) -> str:
    """Return a program's address with an answer, and which server gives it (RFC 9207)."""
    values = {name: value for name, value in answer.items() if value is not None}
    values["iss"] = request.app[AUTH].own_url(request)
    return f"{address}{'&' if '?' in address else '?'}{urlencode(values)}"


async def authorization(request: web.Request) -> web.Response:
    """GET /api/account/authorization: what the program of a query asks for, and which websites it may be given."""
    auth = request.app[AUTH]
    session = await auth.session(request)
    asked = _asked(request, {name: request.query.get(name) for name in _ASKED})
    owner = _owner(auth, request, session)
    shown = {
        "name": asked.client.name,
        "place": assistants.place_of(asked.address),
        "account": owner.name,
        "websites": [
            {"id": website.id, "name": website.name or website.domain} for website in _seen(auth, session, owner)
        ],
    }
    return json_response({"data": shown})


def _owner(auth: Auth, request: web.Request, session: Session) -> Account:
    owner = auth.account(request, session, "read")
    if owner.plan not in PLANS_WITH_KEYS:
        raise ApiError(errors.PLAN_HAS_NO_KEYS)
    return owner


def _seen(auth: Auth, session: Session, owner: Account) -> list[Website]:
    member = auth.membership(session, owner.number)
    return auth.registry.cache.websites_for([member] if member else [])


async def authorize(request: web.Request) -> web.Response:
    """POST /api/account/authorization: allow or refuse what a program asks for; returns where the browser goes."""
    auth = request.app[AUTH]
    session, sent = await auth.session_and_body(request, (*_ASKED, "websites", "allow"))
    asked = _asked(request, sent)
    owner = _owner(auth, request, session)
    if not flag(sent, "allow"):
        redirect = _back(request, asked.address, {"error": "access_denied", "state": asked.state})
        return json_response({"data": {"redirect": redirect}})
    limit = website_ids(sent, _seen(auth, session, owner))
    consent = Consent(owner.number, session.person.number, asked.client.id, asked.address, asked.challenge, limit)
    code = auth.codes.new(consent, auth.clock.monotonic_ns())
    redirect = _back(request, asked.address, {"code": code, "state": asked.state})
    return json_response({"data": {"redirect": redirect}})


# --- what is connected


def _keys_of(auth: Auth, session: Session) -> list[ApiKey]:
    person = session.person.number
    return [key for key in auth.registry.cache.keys.values() if key.client and key.created_by == person]


async def list_connected(request: web.Request) -> web.Response:
    """GET /api/account/assistants: those that the person has connected, oldest first."""
    auth = request.app[AUTH]
    keys = _keys_of(auth, await auth.session(request))
    return json_response({"data": [_shown(key) for key in keys]})


def _shown(key: ApiKey) -> dict[str, Any]:
    """Return what the pages show of a connected assistant."""
    return {
        "id": key.number,
        "name": key.name,
        "created_at": iso(key.created_ms),
        "last_used_at": None if key.last_used_ms is None else iso(key.last_used_ms),
        "websites": key.grant.websites,
    }


async def disconnect(request: web.Request) -> web.Response:
    """DELETE /api/account/assistants/{number}: end what the person has connected."""
    auth = request.app[AUTH]
    session = await auth.session(request)
    keys, sent = _keys_of(auth, session), request.match_info["number"]
    key = next((key for key in keys if str(key.number) == sent), None)
    if key is None:
        raise ApiError(errors.UNKNOWN_KEY)
    entry = Entry("assistant_disconnected", target=key.label)
    if not await auth.change(session, key.account, if_done(entry), delete_api_key, key.number):
        raise ApiError(errors.UNKNOWN_KEY)
    return web.Response(status=204)
