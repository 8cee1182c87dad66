"""What browsers send of passkeys: options for them, and the checks of WebAuthn Level 3, 7.1 and 7.2.

Signatures, keys and the format are read by fido2, of the extra `passkeys`, which is imported with the first use: it
takes 20 MB and 0.1 s. Beyond its checks, the origin is exactly that of the base URL, a page in a frame of another site
is refused, and keys are short: some take very long to verify.
"""

import base64
import importlib.util
import re
from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

# ES256, EdDSA and RS256 of COSE: all that authenticators offer.
ALGORITHMS = (-7, -8, -257)
TIMEOUT_MS = 300_000
# An RSA key of 4,096 bits has 530.
MAX_KEY_BYTES, MAX_ID_BYTES = 600, 1_023
_MAX_CHARACTERS = 16_384


class BadPasskey(ValueError):
    """What was sent is no valid use of a passkey; the message has nothing of it."""


class Registered(NamedTuple):
    """A new passkey: its id, its public key, and how often it has signed."""

    id: bytes
    public_key: bytes
    sign_count: int


class Sent(NamedTuple):
    """A use of a passkey before it is checked: the fields of a credential's JSON as bytes."""

    id: bytes
    fields: dict[str, bytes]
    challenge: bytes


class RelyingParty(NamedTuple):
    """The server as passkeys know it: host and origin of its base URL."""

    id: str
    origin: str


def unavailable(base_url: str) -> str:
    """Return why there are no passkeys: `extra`, `base_url`, or "" where there are."""
    if importlib.util.find_spec("fido2") is None:
        return "extra"
    return "" if relying_party(base_url) else "base_url"


def relying_party(base_url: str) -> RelyingParty | None:
    """Return the relying party of a base URL; None where browsers have no passkeys for it.

    They need https or localhost, and the name of a host, no address.
    """
    parts = urlsplit(base_url.lower())
    host = parts.hostname or ""
    is_local = host == "localhost" or host.endswith(".localhost")
    is_name = re.fullmatch(r"[a-z0-9._-]*[a-z_-][a-z0-9_-]*", host) is not None
    if not is_name or not (parts.scheme == "https" or (parts.scheme == "http" and is_local)):
        return None
    is_default = parts.port in (None, {"https": 443, "http": 80}[parts.scheme])
    return RelyingParty(host, f"{parts.scheme}://{host}" + ("" if is_default else f":{parts.port}"))


def encoded(value: bytes) -> str:
    """Return bytes as WebAuthn writes them in JSON."""
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def decoded(text: object) -> bytes:
    """Return the bytes of such a text. Raises BadPasskey."""
    if not isinstance(text, str) or len(text) > _MAX_CHARACTERS or not re.fullmatch(r"[A-Za-z0-9_-]*", text):
        raise BadPasskey("not base64url")
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        raise BadPasskey("not base64url") from None


def creation_options(
    party: RelyingParty, challenge: bytes, handle: bytes, email: str, known: Sequence[bytes]
) -> dict[str, Any]:
    """Return the options for `navigator.credentials.create`: a passkey that signs in alone."""
    return {
        "rp": {"id": party.id, "name": "Tally"},
        "user": {"id": encoded(handle), "name": email, "displayName": email},
        "challenge": encoded(challenge),
        "pubKeyCredParams": [{"type": "public-key", "alg": entry} for entry in ALGORITHMS],
        "timeout": TIMEOUT_MS,
        "excludeCredentials": [{"type": "public-key", "id": encoded(entry)} for entry in known],
        "authenticatorSelection": {
            "residentKey": "required",
            "requireResidentKey": True,
            "userVerification": "required",
        },
        "attestation": "none",
    }


def request_options(party: RelyingParty, challenge: bytes) -> dict[str, Any]:
    """Return the options for `navigator.credentials.get`, for whichever passkey the person chooses."""
    return {
        "rpId": party.id,
        "challenge": encoded(challenge),
        "timeout": TIMEOUT_MS,
        "userVerification": "required",
        "allowCredentials": [],
    }


def read(credential: object, *names: str) -> Sent:
    """Return the fields of a credential's `response` by their names, with its id. Raises BadPasskey."""
    response = credential.get("response") if isinstance(credential, dict) else None
    if not isinstance(credential, dict) or not isinstance(response, dict):
        raise BadPasskey("no credential")
    id, parts = decoded(credential.get("id")), {name: decoded(response.get(name)) for name in names}
    if not 0 < len(id) <= MAX_ID_BYTES:
        raise BadPasskey("an id of the wrong length")
    return Sent(id, parts, _challenge(parts["clientDataJSON"]))


def _challenge(client_data: bytes) -> bytes:
    from fido2.webauthn import CollectedClientData

    try:
        data = CollectedClientData(client_data)
    except Exception:
        raise BadPasskey("no client data") from None
    # Level 3, 7.1 step 10: no page of this server is shown in another site's frame.
    if data.cross_origin is not False or not isinstance(data.challenge, bytes):
        raise BadPasskey("a frame of another site")
    return data.challenge


def _json(sent: Sent) -> dict[str, Any]:
    id = encoded(sent.id)
    response = {name: encoded(value) for name, value in sent.fields.items()}
    return {"id": id, "rawId": id, "type": "public-key", "response": response}


def _server(party: RelyingParty) -> Any:
    from fido2.server import Fido2Server
    from fido2.webauthn import PublicKeyCredentialRpEntity

    rp = PublicKeyCredentialRpEntity(id=party.id, name="Tally")
    return Fido2Server(rp, verify_origin=lambda origin: origin == party.origin)


def _state(sent: Sent) -> dict[str, Any]:
    # The caller has found the challenge among those that were sent.
    return {"challenge": encoded(sent.challenge), "user_verification": "required"}


def registered(party: RelyingParty, sent: Sent) -> Registered:
    """Return the new passkey of a response to `creation_options`. Raises BadPasskey."""
    from fido2 import cbor

    try:
        data = _server(party).register_complete(_state(sent), _json(sent))
        key = data.credential_data.public_key
        public_key = cbor.encode(dict(key))
        is_allowed = key.get(3) in ALGORITHMS and data.credential_data.credential_id == sent.id
    except Exception:
        # Of parsers of strangers' bytes: they raise what they like.
        raise BadPasskey("no valid registration") from None
    if not is_allowed or len(public_key) > MAX_KEY_BYTES:
        raise BadPasskey("a key of another kind")
    return Registered(sent.id, public_key, data.counter)


def sign_count(party: RelyingParty, sent: Sent, public_key: bytes) -> int:
    """Return how often the passkey has signed, by a response to `request_options` that is valid. Raises BadPasskey."""
    from fido2 import cbor
    from fido2.cose import CoseKey
    from fido2.webauthn import Aaguid, AttestedCredentialData, AuthenticatorData

    try:
        decoded_key: Any = cbor.decode(public_key)
        key = CoseKey.parse(decoded_key)
        stored = AttestedCredentialData.create(Aaguid.NONE, sent.id, key)
        _server(party).authenticate_complete(_state(sent), [stored], _json(sent))
        return int(AuthenticatorData(sent.fields["authenticatorData"]).counter)
    except Exception:
        raise BadPasskey("no valid signature") from None
